//! Damage in an image: UBI, UBIFS, the data of files. Nothing is written.
//!
//! The formats find what is wrong (`format`); here it is brought together in one report.

mod report;

pub use report::{CheckReport, Finding, ImageCheck, Layer, Outcome, PebCounts, VolumeCheck};

use floatgate_stack::store::{Store, Window};
use floatgate_stack::ubi::{AttachOptions, Mapping};
use floatgate_stack::ubifs::Severity;
use floatgate_stack::{StoreMode, Volume};

use super::content::HEAD_BYTES;
use super::detect::{Content, Found};
use super::fit;
use super::format::jffs2;
use super::format::jffs2::shifts::Splices;
use super::format::mapped::MappedVolume;
use super::format::ubi::Device;
use super::format::ubi::findings::DEVICE;
use super::format::ubifs::check as files;
use super::open::{Selection, choose_filesystem};
use super::{Corrected, Image, ImageError};

/// Structure of findings about the pages of a dump with OOB.
pub const PAGE: &str = "page";

/// Checks all that is in a file, or what is chosen.
///
/// # Errors
/// The file cannot be read, or what is chosen is not there.
pub fn check(image: &Image, selection: &Selection) -> Result<CheckReport, ImageError> {
    let found = match (selection.offset, image.found.as_slice()) {
        (Some(_), _) | (None, [_]) => vec![image.choose(selection)?],
        // Only UBI has volumes.
        _ => image
            .found
            .iter()
            .filter(|one| selection.volume.is_none() || one.has_volumes())
            .cloned()
            .collect(),
    };
    check_found(image, found, selection)
}

/// Checks these images of a file.
///
/// # Errors
/// The file cannot be read, or the volume that is chosen is not there.
pub(super) fn check_found(
    image: &Image,
    found: Vec<Found>,
    selection: &Selection,
) -> Result<CheckReport, ImageError> {
    let mut report = CheckReport::default();
    for image_of in &found {
        note_ecc(image.corrected.as_ref(), image_of, &mut report);
    }
    for found in found {
        let origin = image.origin(&found);
        match &found.content {
            Content::Ubifs { leb_bytes, min_io_bytes } => {
                let window = Window::new(image.store()?, found.offset, found.len);
                let volume = MappedVolume::bare(window, found.len, *leb_bytes, *min_io_bytes);
                note_end(&found, *leb_bytes, &origin, &mut report);
                let checked = files::check(volume, None, selection, &origin, &mut report)?;
                report
                    .images
                    .push(ImageCheck { offset: origin.file_byte(0), ..ImageCheck::bare(&found, checked) });
            }
            Content::Jffs2(shape) => {
                let checked = jffs2::check::check(image, &found, shape, &origin, &mut report)?;
                report.images.push(checked);
                let flash = selection.flash.as_ref();
                let misfits = flash.map(|flash| fit::of_jffs2(shape, found.len, flash));
                misfits.into_iter().flatten().for_each(|finding| report.add(finding));
            }
            _ => check_ubi(image, &found, selection, &origin, &mut report)?,
        }
    }
    report.set_outcome();
    Ok(report)
}

fn check_ubi(
    image: &Image,
    found: &Found,
    selection: &Selection,
    origin: &Origin,
    report: &mut CheckReport,
) -> Result<(), ImageError> {
    let mut window = Window::new(image.store()?, found.offset, found.len);
    let device = match Device::read(&mut window, found) {
        Err(ImageError::Nothing) => {
            attach(image, found, report);
            let offset = origin.file_byte(0);
            report.images.push(ImageCheck { offset, ..ImageCheck::ubi(found, PebCounts::default()) });
            return Ok(());
        }
        device => device?,
    };
    device.report(&mut window, origin, report)?;
    device.report_behind(image, found, report)?;
    attach(image, found, report);
    let flash = selection.flash.as_ref();
    let lebs = device.survey.volumes().map(|(_, record)| u64::from(record.reserved_pebs)).sum();
    let misfits = flash.map(|flash| fit::of_image(found, lebs, flash));
    misfits.into_iter().flatten().for_each(|finding| report.add(finding));
    let mut checked = ImageCheck { offset: origin.file_byte(0), ..ImageCheck::ubi(found, device.counts()) };
    let mut store: Box<dyn Store> = Box::new(window);
    for (id, record) in device.survey.volumes() {
        let name = super::extract::show_name(record.name());
        let wanted = selection.volume.as_ref();
        if wanted.is_some_and(|wanted| *wanted != name && wanted.parse() != Ok(id)) {
            continue;
        }
        let mut volume = device.volume(store, id, Mapping::Linux);
        let has_files = files::has_filesystem(&mut volume);
        if !has_files && let Some(corrected) = &image.corrected {
            let pages = device.unchecked_pages(&corrected.lost_pages(found));
            let own = pages.into_iter().filter(|(_, leb)| leb.volume == id);
            own.for_each(|(at, leb)| report.add(device.judge_page(at, leb, origin)));
        }
        if has_files {
            let room = fit::Room::new(record.flags, volume.geometry(), lebs, flash);
            let named = files::UbiVolume { id, name, room };
            let (described, volume) = files::check_volume(volume, Some(named), selection, origin, report)?;
            checked.volumes.push(described);
            store = volume.into_store();
        } else {
            checked.volumes.push(VolumeCheck::other(id, name));
            store = volume.into_store();
        }
    }
    if let Some(wanted) = &selection.volume
        && checked.volumes.is_empty()
    {
        let names =
            device.survey.volumes().map(|(_, record)| super::extract::show_name(record.name())).collect();
        return Err(ImageError::NoVolume { wanted: wanted.clone(), names });
    }
    report.images.push(checked);
    Ok(())
}

/// A volume of an image as LEBs, and its headers if there is UBI.
pub(super) type Opened = (MappedVolume<Box<dyn Store>>, Option<Device>, Origin);

/// Opens the volume that is meant, whatever is wrong with it: the one that was named, or the only one.
///
/// # Errors
/// There is none, or there are several.
pub(super) fn open_volume(image: &Image, selection: &Selection) -> Result<Opened, ImageError> {
    let found = image.choose(selection)?;
    found.require_lebs("what was asked for")?;
    let origin = image.origin(&found);
    let mut store: Box<dyn Store> = Box::new(Window::new(image.store()?, found.offset, found.len));
    if let Content::Ubifs { leb_bytes, min_io_bytes } = found.content {
        return Ok((MappedVolume::bare(store, found.len, leb_bytes, min_io_bytes), None, origin));
    }
    let device = Device::read(&mut store, &found)?;
    let volumes: Vec<(u32, String)> =
        device.survey.volumes().map(|(id, record)| (id, super::extract::show_name(record.name()))).collect();
    let mut last: Option<(u32, MappedVolume<Vec<u8>>)> = None;
    let id = choose_filesystem(&volumes, selection, &mut |id, lnum| {
        // Looked up once: a volume can have many LEBs.
        let known = last.take().filter(|(known, _)| *known == id);
        let (_, volume) =
            last.insert(known.unwrap_or_else(|| (id, device.volume(Vec::new(), id, Mapping::Linux))));
        let geometry = volume.geometry();
        let mut head = vec![0xFF; HEAD_BYTES.min(geometry.leb_bytes as usize)];
        let is_read = match volume.place(lnum) {
            Some(place) => store.read_at(place, &mut head).is_ok(),
            None => device.survey.tell_all(id),
        };
        (lnum < geometry.lebs).then(|| if is_read { head } else { Vec::new() })
    })?;
    let volume = device.volume(store, id, Mapping::Linux);
    Ok((volume, Some(device), origin))
}

/// Attaches the device as Linux does, and says if that fails.
fn attach(image: &Image, found: &Found, report: &mut CheckReport) {
    let options = AttachOptions { read_only: true, ..AttachOptions::default() };
    let Err(error) = image.attach_as(found, StoreMode::ReadOnly, options) else { return };
    let consequence = "Linux does not attach the device: no volume can be used";
    report.add(Finding::new(Layer::Ubi, Severity::Damaged, DEVICE, error.to_string(), consequence));
}

/// An image without UBI can end anywhere behind its data.
fn note_end(found: &Found, leb_bytes: u32, origin: &Origin, report: &mut CheckReport) {
    let bytes = found.len % u64::from(leb_bytes.max(1));
    if bytes == 0 {
        return;
    }
    let what = format!("the image ends {bytes} bytes into its last LEB, of {leb_bytes}");
    let consequence = "what is missing reads as erased; where that matters, more findings follow";
    let mut finding = Finding::new(Layer::Ubifs, Severity::Note, "image", what, consequence);
    finding.offset = Some(origin.file_byte(found.len));
    report.add(finding);
}

fn note_ecc(corrected: Option<&Corrected>, found: &Found, report: &mut CheckReport) {
    let Some(corrected) = corrected else { return };
    let layer = if let Content::Jffs2(_) = found.content { Layer::Jffs2 } else { Layer::Ubi };
    // What the OOB says of wrong bits is not known.
    let severity = if corrected.has_unknown_code(found) { Severity::Recoverable } else { Severity::Note };
    let without_code = corrected.notes_without_code(found);
    for note in &without_code {
        let consequence = "wrong bits are seen only where a checksum covers them, and the dump is neither repaired nor changed";
        report.add(Finding::new(layer, severity, PAGE, note.clone(), consequence));
    }
    for note in corrected.notes(found).into_iter().filter(|note| !without_code.contains(note)) {
        let consequence = "what these bits hold is damaged; where that matters, more findings follow";
        report.add(Finding::new(layer, Severity::Recoverable, PAGE, note, consequence));
    }
}

/// Place of the bytes of an image in the file.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    offset: u64,
    splices: Splices,
    /// Of a dump with OOB.
    corrected: Option<Corrected>,
}

impl Origin {
    /// Of an image that stands in a file as it is, unless something is said of that.
    pub(super) fn new(found: &Found, splices: Splices, corrected: Option<Corrected>) -> Self {
        Self { offset: found.offset, splices, corrected }
    }

    /// The byte of the file that is this byte of the image.
    pub(super) fn file_byte(&self, byte: u64) -> u64 {
        let at = self.splices.file_byte(self.offset + byte);
        self.corrected.as_ref().map_or(at, |corrected| corrected.file_byte(at))
    }
}
