//! JFFS2 in an image: detection, description, mounts for reading and writing, check, repair, dump.

mod around;
mod check;
mod cut;
pub(crate) mod detect;
pub(crate) mod dump;
mod extract;
pub(crate) mod fit;
mod grid;
mod history;
mod index;
pub(crate) mod info;
mod mount;
mod nodes;
pub(crate) mod pages;
mod repair;
pub(crate) mod shape;
mod shifts;
pub(crate) mod splices;
mod stretch;
pub(crate) mod write;

use floatgate_stack::Volume;
use floatgate_stack::ubifs::Behaviour;

use self::cut::Cut;
use self::extract::Files;
use self::shape::Jffs2Shape;
use self::write::{Extent, mount_in_place};
use super::Format;
use super::info::OneImage;
use super::location::ImageLocation;
use crate::error::{ImageError, LebsOnly};
use crate::extract::target::Extracting;
use crate::image::{Access, FilePending, Growth, Image, ImageFs};
use crate::oob_store::CLEAN_MARKER_BYTES;
use crate::report::{At, CheckReport, DumpTarget, Dumped, Layer, Revision};
use crate::saved::{Method, Saved};
use crate::selection::Chosen;
use crate::words::BEHIND_CUT;
use crate::write_back::WriteBack;
use floatgate_host::output::Output;

/// A JFFS2.
impl Format for Jffs2Shape {
    fn kind(&self) -> &'static str {
        if self.big_endian { "big-endian JFFS2" } else { "little-endian JFFS2" }
    }

    fn write_back(&self) -> WriteBack {
        if self.is_nor() { WriteBack::Jffs2OnNor } else { WriteBack::Jffs2OnNand }
    }

    fn layer(&self) -> Layer {
        Layer::Jffs2
    }

    fn clean_marker(&self) -> Option<[u8; CLEAN_MARKER_BYTES]> {
        Some(pages::clean_marker(self.endian()))
    }

    fn is_told_by_nodes(&self) -> bool {
        true
    }

    fn mount(
        &self,
        Chosen { image, found, .. }: Chosen<'_>,
        recover: bool,
        _: Behaviour,
    ) -> Result<ImageFs, ImageError> {
        let fs = match image.access {
            Access::Read => mount::mount(image.store()?, found, self)?,
            Access::Write => mount_in_place(image, found, self, recover)?,
        };
        Ok(Box::new(fs))
    }

    fn growth(
        &self,
        Chosen { image, found, .. }: Chosen<'_>,
        recover: bool,
    ) -> Result<Option<Growth>, ImageError> {
        let extent = Extent::read(image, found, self)?;
        let is_over = recover && extent.over.is_some();
        Ok(Some(Growth {
            now: extent.blocks,
            max: extent.most,
            lasting: if is_over { extent.limit } else { extent.lasting },
            volume: extent.blocks,
            what: "image",
            unit: "eraseblock",
            own: Some(extent.own_part(image, found)),
            over: extent.over.filter(|_| !recover),
        }))
    }

    fn before_recovery(&self, image: &Image, found: &ImageLocation) -> Result<Option<ImageFs>, ImageError> {
        let fs = mount::mount(image.store()?, found, self).ok();
        Ok(fs.map(|fs| Box::new(fs) as ImageFs))
    }

    /// Checks that the changed image can be mounted again. UBIFS does not need this check, because it is written in
    /// transactions.
    fn end_change(&self, image: &Image, found: &ImageLocation, _: &FilePending) -> Result<(), ImageError> {
        let erase = u64::from(self.erase_bytes);
        let len = found.len.next_multiple_of(erase).max(u64::from(image.lebs.unwrap_or(0)) * erase);
        mount::mount(image.store()?, &ImageLocation { len, ..found.clone() }, self).map(drop)
    }

    fn info(&self, Chosen { image, found, .. }: Chosen<'_>, one: &mut OneImage) -> Result<(), ImageError> {
        one.cut = Cut::find(image, found, self)?.map(|cut| cut.what());
        match mount::mount(image.store()?, found, self) {
            Ok(fs) => one.jffs2 = Some(info::jffs2_info(image, found, *self, fs)?),
            Err(error) => one.damage = Some(error.to_string()),
        }
        Ok(())
    }

    fn check(
        &self,
        Chosen { image, found, selection }: Chosen<'_>,
        report: &mut CheckReport,
    ) -> Result<(), ImageError> {
        let checked = check::check(image, found, self, &image.origin(found), report)?;
        report.images.push(checked);
        let misfits = selection.flash.as_ref().map(|flash| fit::of_image(self, found.len, flash));
        misfits.into_iter().flatten().for_each(|finding| report.add(finding));
        Ok(())
    }

    fn repair(
        &self,
        image: &Image,
        found: &ImageLocation,
        output: &Output,
        saved: &mut Saved,
    ) -> Result<Method, ImageError> {
        let cut = Cut::find(image, found, self)?;
        repair::repair(image, (found, self), output.temporary(), saved)?;
        if let Some(cut) = cut {
            saved.record_loss("/", format!("{}: {BEHIND_CUT}", cut.what()));
        }
        Ok(Method::Mended)
    }

    fn extraction(&self, Chosen { image, found, .. }: Chosen<'_>) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(Files::open(image, found, self)?))
    }

    fn extraction_at(
        &self,
        Chosen { image, found, .. }: Chosen<'_>,
        at: At,
    ) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(Files::at(image, found, self, at)?))
    }

    fn history(&self, Chosen { image, found, .. }: Chosen<'_>) -> Result<Vec<Revision>, ImageError> {
        history::list(image, found, self)
    }

    fn dump(
        &self,
        Chosen { image, found, .. }: Chosen<'_>,
        wanted: &DumpTarget,
    ) -> Result<Vec<Dumped>, ImageError> {
        let origin = image.origin(found);
        dump::dump(image.store()?, image.store()?, (found, self), wanted, &origin)
    }

    fn require_node(&self, at: u64) -> Result<(), ImageError> {
        Err(ImageError::NoNode(format!("no node of the JFFS2 begins at byte {at}")))
    }

    fn volume(&self, _: Chosen<'_>) -> Result<Box<dyn Volume>, ImageError> {
        Err(ImageError::NotForJffs2(LebsOnly::Volume))
    }
}
