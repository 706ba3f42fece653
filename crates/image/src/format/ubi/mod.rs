//! UBI: a device in an image, with its volumes and their contents.

pub(crate) mod attach;
mod check;
pub(crate) mod choose;
pub(crate) mod detect;
pub(crate) mod device;
pub(crate) mod dump;
mod edit;
mod extract;
pub(crate) mod findings;
pub(crate) mod fit;
pub(crate) mod info;
pub(crate) mod pages;
mod raw;
mod repair;
pub(crate) mod search;
pub(crate) mod shape;
mod tree;

use std::io::Write;

use floatgate_stack::Volume;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::LebId;
use floatgate_stack::ubifs::Behaviour;

use self::choose::{choose_remains, choose_ubifs};
use self::device::Device;
use self::extract::DeviceExtraction;
use self::shape::UbiShape;
use super::info::OneImage;
use super::location::ImageLocation;
use super::ubifs::damaged::Extraction;
use super::volume::open_volume;
use super::{Format, ubifs};
use crate::ImageError;
use crate::extract::target::Extracting;
use crate::image::{Access, FilePending, Growth, Image, ImageFs};
use crate::map::probe_match::Kind;
use crate::report::{At, CheckReport, DumpTarget, Dumped, Loss, RawVolume, Revision};
use crate::saved::{Method, Saved, target};
use crate::selection::{Chosen, Selection};
use crate::words::show_name;
use crate::write_back::WriteBack;
use floatgate_host::output::Output;

/// A UBI device.
impl Format for UbiShape {
    fn kind(&self) -> &'static str {
        "UBI"
    }

    fn write_back(&self) -> WriteBack {
        WriteBack::Ubi { vid_header_offset: self.vid_header_offset }
    }

    fn has_plain_blocks(&self, len: u64) -> bool {
        self.peb_bytes.is_power_of_two() && len > self.peb_bytes.into()
    }

    fn mount(&self, chosen: Chosen<'_>, recover: bool, behaviour: Behaviour) -> Result<ImageFs, ImageError> {
        let volume = match chosen.image.access {
            Access::Read => match edit::readable_volume(chosen, choose_ubifs) {
                Err(error @ ImageError::NoFilesystem(_)) => {
                    return tree::find(chosen)?.map_or(Err(error), |found| Ok(found.files.into_fs()));
                }
                volume => volume?,
            },
            Access::Write => match edit::writable_volume(chosen, recover, choose_ubifs) {
                Err(error @ ImageError::NoFilesystem(_)) => {
                    return tree::changed(chosen, recover)?.ok_or(error);
                }
                volume => volume?,
            },
        };
        ubifs::mount::mount(chosen, volume, recover, behaviour)
    }

    /// Lost LEBs of volumes with a read-only filesystem; UBIFS has its own checksums.
    fn unverified_losses(&self, chosen: Chosen<'_>) -> Result<Vec<Loss>, ImageError> {
        let Chosen { image, found, selection } = chosen;
        if !matches!(edit::readable_volume(chosen, choose_ubifs), Err(ImageError::NoFilesystem(_))) {
            return Ok(Vec::new());
        }
        let ubi = image.attach_remains(found)?;
        let wanted = selection.volume.as_ref().map(|_| choose::choose_volume(&ubi, selection)).transpose()?;
        let lost = raw::lost_lebs(image, found)?.into_iter();
        let lost = lost.filter(|leb| wanted.is_none_or(|wanted| wanted == leb.volume));
        let loss = |leb: LebId| Loss {
            path: format!("volume {}, LEB {}", leb.volume, leb.lnum),
            what: "damaged or missing: what was printed may be wrong".to_owned(),
        };
        Ok(lost.map(loss).collect())
    }

    fn growth(&self, chosen: Chosen<'_>, _: bool) -> Result<Option<Growth>, ImageError> {
        let mut ubi = chosen.image.attach(chosen.found)?;
        let id = match choose_ubifs(&mut ubi, chosen.selection) {
            // A LittleFS keeps the size that it was made with.
            Err(ImageError::NoFilesystem(_))
                if tree::find(chosen)?.is_some_and(|found| found.kind == Kind::Littlefs) =>
            {
                return Ok(None);
            }
            id => id?,
        };
        let mut volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
        ubifs::mount::growth(&mut volume).map(Some)
    }

    fn is_changed_in_place(&self) -> bool {
        true
    }

    fn end_of_change(&self, found: &ImageLocation, pending: &FilePending) -> Result<u64, ImageError> {
        edit::end_of_change(self, found, pending)
    }

    fn end_change(
        &self,
        image: &Image,
        found: &ImageLocation,
        pending: &FilePending,
    ) -> Result<(), ImageError> {
        let len = pending.size_below();
        if self.end_of_change(found, pending)? <= len {
            return Ok(());
        }
        edit::vacate(self, image, found, len.saturating_sub(found.offset))
    }

    fn info(&self, chosen: Chosen<'_>, one: &mut OneImage) -> Result<(), ImageError> {
        let Chosen { image, found, selection } = chosen;
        match image.attach_remains(found) {
            Ok(ubi) => {
                one.damage = info::damage(&ubi);
                one.ubi = Some(info::ubi_info(ubi, (found, self), selection));
                let mut window = Window::new(image.store()?, found.offset, found.len);
                let device = Device::read(&mut window, found).ok();
                one.cut = device.and_then(|device| Some(device.cut()?.to_string()));
            }
            Err(error) => one.damage = Some(error.to_string()),
        }
        Ok(())
    }

    fn check(&self, chosen: Chosen<'_>, report: &mut CheckReport) -> Result<(), ImageError> {
        check::check(chosen, self, report)
    }

    fn recover(&self, image: &Image, found: &ImageLocation, output: &Output) -> Result<(), ImageError> {
        repair::recover(image, (found, self), output)
    }

    fn repair(
        &self,
        image: &Image,
        found: &ImageLocation,
        output: &Output,
        saved: &mut Saved,
    ) -> Result<Method, ImageError> {
        let (source, target) = (image.store()?, target(image, output.temporary())?);
        repair::rebuild(source, target, (found, self), output, saved).map(|()| Method::Rebuilt)
    }

    fn losses(&self, image: &Image, found: &ImageLocation) -> Result<Vec<Loss>, ImageError> {
        let is_ubifs = |id: u32| {
            let selection = Selection { volume: Some(id.to_string()), ..Selection::default() };
            open_volume(Chosen { image, found, selection: &selection })
                .is_ok_and(|(mut volume, ..)| ubifs::check::has_filesystem(&mut volume))
        };
        extract::device_losses(image, found, &is_ubifs)
    }

    fn extraction(&self, chosen: Chosen<'_>) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(DeviceExtraction::open(chosen)?))
    }

    fn extraction_at(&self, chosen: Chosen<'_>, at: At) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(Extraction::at(chosen, at)?))
    }

    fn history(&self, chosen: Chosen<'_>) -> Result<Vec<Revision>, ImageError> {
        ubifs::history::list(chosen)
    }

    fn dump(&self, chosen: Chosen<'_>, wanted: &DumpTarget) -> Result<Vec<Dumped>, ImageError> {
        ubifs::dump::dump(chosen, wanted)
    }

    fn volume(&self, chosen: Chosen<'_>) -> Result<Box<dyn Volume>, ImageError> {
        match chosen.image.access {
            Access::Read => edit::readable_volume(chosen, choose_remains),
            Access::Write => edit::writable_volume(chosen, false, choose_ubifs),
        }
    }

    fn other_volumes(&self, chosen: Chosen<'_>) -> Result<Vec<String>, ImageError> {
        let mut ubi = chosen.image.attach_remains(chosen.found)?;
        let id = choose_remains(&mut ubi, chosen.selection)?;
        let others = ubi.volumes().filter(|volume| volume.id != id);
        Ok(others.map(|volume| show_name(&volume.name)).collect())
    }

    fn read_raw(&self, chosen: Chosen<'_>, out: &mut dyn Write) -> Result<RawVolume, ImageError> {
        raw::read_raw_judged(chosen, out)
    }
}
