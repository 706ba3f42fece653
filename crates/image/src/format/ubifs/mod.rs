//! UBIFS: its structures in an image, in a volume of UBI or without UBI.

pub(crate) mod check;
pub(crate) mod damaged;
pub(crate) mod dump;
pub(crate) mod fill;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod mount;
pub(crate) mod repair;
pub(crate) mod shape;

use floatgate_stack::store::Window;
use floatgate_stack::ubifs::{Behaviour, probe};
use floatgate_stack::{Store, Volume};

use self::damaged::Extraction;
use self::shape::UbifsShape;
use super::Format;
use super::info::OneImage;
use super::location::ImageLocation;
use super::mapped::MappedVolume;
use crate::ImageError;
use crate::extract::target::Extracting;
use crate::format::ubi::fit;
use crate::image::{Access, Growth, Image, ImageFs};
use crate::report::{At, CheckReport, DumpTarget, Dumped, ImageCheck, Revision};
use crate::saved::{Method, Saved};
use crate::selection::Chosen;
use crate::write_back::WriteBack;
use floatgate_host::output::Output;

/// A UBIFS without UBI.
impl Format for UbifsShape {
    fn kind(&self) -> &'static str {
        "UBIFS without UBI"
    }

    fn write_back(&self) -> WriteBack {
        WriteBack::Ubifs
    }

    fn mount(&self, chosen: Chosen<'_>, recover: bool, behaviour: Behaviour) -> Result<ImageFs, ImageError> {
        let volume = self.volume(chosen)?;
        mount::mount(chosen, volume, recover, behaviour)
    }

    fn growth(&self, chosen: Chosen<'_>, _: bool) -> Result<Option<Growth>, ImageError> {
        let Chosen { image, found, .. } = chosen;
        let is_last = found.offset + found.len >= image.store()?.size_bytes();
        let mut volume = mount::volume(image, found, self, Access::Read)?;
        if is_last { mount::growth(&mut *volume).map(Some) } else { Ok(None) }
    }

    fn info(&self, chosen: Chosen<'_>, one: &mut OneImage) -> Result<(), ImageError> {
        let Chosen { found, selection, .. } = chosen;
        let (ubifs, mut volume) = info::ubifs_info(self.volume(chosen)?, &selection.authenticate);
        one.bare = true;
        one.ubifs = ubifs;
        let there = u32::try_from(found.len / u64::from(self.leb_bytes)).unwrap_or(u32::MAX);
        match &mut one.ubifs {
            Some(ubifs) => {
                let flash = selection.flash.as_ref();
                ubifs.misfits = flash.map_or_else(Vec::new, |flash| fit::of_bare(&ubifs.superblock, flash));
                ubifs.lebs_there =
                    Some(there).filter(|&lebs| lebs < ubifs.lebs && info::missing_lebs(volume).0 != Ok(0));
            }
            None => one.damage = probe(&mut *volume).err().map(|error| error.to_string()),
        }
        Ok(())
    }

    fn check(&self, chosen: Chosen<'_>, report: &mut CheckReport) -> Result<(), ImageError> {
        let Chosen { image, found, selection } = chosen;
        let origin = image.origin(found);
        let window = Window::new(image.store()?, found.offset, found.len);
        let volume = MappedVolume::bare(window, found.len, self);
        check::note_end(found, self.leb_bytes, &origin, report);
        let (checked, _) = check::check_volume(volume, None, selection, &origin, report)?;
        let offset = origin.file_byte(0);
        report.images.push(ImageCheck { offset, ..ImageCheck::bare(found, checked) });
        Ok(())
    }

    fn recover(&self, image: &Image, found: &ImageLocation, output: &Output) -> Result<(), ImageError> {
        repair::recover(image, found, output)
    }

    fn repair(
        &self,
        image: &Image,
        found: &ImageLocation,
        output: &Output,
        saved: &mut Saved,
    ) -> Result<Method, ImageError> {
        repair::rebuild(image, (found, self), output, saved).map(|()| Method::Rebuilt)
    }

    fn extraction(&self, chosen: Chosen<'_>) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(Extraction::of(chosen)?))
    }

    fn extraction_at(&self, chosen: Chosen<'_>, at: At) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(Extraction::at(chosen, at)?))
    }

    fn history(&self, chosen: Chosen<'_>) -> Result<Vec<Revision>, ImageError> {
        history::list(chosen)
    }

    fn dump(&self, chosen: Chosen<'_>, wanted: &DumpTarget) -> Result<Vec<Dumped>, ImageError> {
        dump::dump(chosen, wanted)
    }

    fn volume(&self, chosen: Chosen<'_>) -> Result<Box<dyn Volume>, ImageError> {
        mount::volume(chosen.image, chosen.found, self, chosen.image.access)
    }
}
