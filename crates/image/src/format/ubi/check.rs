//! Check of a UBI device and of the filesystems in its volumes.

use floatgate_stack::store::{Store, Window};
use floatgate_stack::ubi::{AttachOptions, LebId, Mapping};
use floatgate_stack::ubifs::Severity;
use floatgate_stack::{StoreMode, Volume};

use super::device::Device;
use super::fit::{self, Room};
use super::shape::UbiShape;
use super::tree;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::format::ubifs::check as files;
use crate::image::Image;
use crate::report::{CheckReport, Finding, ImageCheck, Layer, Outcome, PebCounts, Structure};
use crate::selection::Chosen;
use crate::words::show_name;

/// Checks a UBI device and the selected volumes.
///
/// # Errors
/// The file cannot be read, or the selected volume does not exist.
pub(super) fn check(
    chosen: Chosen<'_>,
    shape: &UbiShape,
    report: &mut CheckReport,
) -> Result<(), ImageError> {
    let Chosen { image, found, selection } = chosen;
    let origin = &image.origin(found);
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
    let misfits = flash.map(|flash| fit::of_image(shape, found.len, lebs, flash));
    misfits.into_iter().flatten().for_each(|finding| report.add(finding));
    let mut checked = ImageCheck { offset: origin.file_byte(0), ..ImageCheck::ubi(found, device.counts()) };
    let mut store: Box<dyn Store> = Box::new(window);
    for (id, record) in device.survey.volumes() {
        let name = show_name(record.name());
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
            let room = Room::new(record.flags, volume.geometry(), lebs, flash);
            let named = files::UbiVolume { id, name, room };
            let (described, volume) = files::check_volume(volume, Some(named), selection, origin, report)?;
            checked.volumes.push(described);
            store = volume.into_store();
        } else {
            store = volume.into_store();
            checked.volumes.push(tree::check(chosen, (id, &name), report)?);
        }
    }
    if let Some(wanted) = &selection.volume
        && checked.volumes.is_empty()
    {
        let names = device.survey.volumes().map(|(_, record)| show_name(record.name())).collect();
        return Err(ImageError::NoVolume { wanted: wanted.clone(), names });
    }
    judge_cut(&device, report);
    report.images.push(checked);
    Ok(())
}

/// Reports LEBs that a filesystem uses and no PEB contains as lost, if the file is cut.
fn judge_cut(device: &Device, report: &mut CheckReport) {
    let Some(cut) = device.cut() else { return };
    let mut volumes: Vec<String> = Vec::new();
    for finding in report.findings.iter().filter(|finding| finding.severity == Outcome::Damaged) {
        let (Some(name), Some(lnum)) = (&finding.volume, finding.leb) else { continue };
        let is_gone = device.survey.volumes().any(|(id, record)| {
            show_name(record.name()) == *name
                && device.survey.peb_of(LebId { volume: id, lnum }, Mapping::Linux).is_none()
        });
        if is_gone && !volumes.contains(name) {
            volumes.push(name.clone());
        }
    }
    let is_cut = |finding: &&mut Finding| {
        finding.structure == Structure::Device
            && finding.peb == Some(cut.pnum)
            && finding.severity == Outcome::Recoverable
    };
    if let Some(finding) = report.findings.iter_mut().find(is_cut).filter(|_| !volumes.is_empty()) {
        finding.severity = Outcome::Damaged;
        finding.consequence =
            format!("LEBs of volume {} that were behind the end are lost", volumes.join(", "));
    }
}

/// Attaches the device as Linux does, and reports a failure.
fn attach(image: &Image, found: &ImageLocation, report: &mut CheckReport) {
    let options = AttachOptions { read_only: true, ..AttachOptions::default() };
    let Err(error) = image.attach_as(found, StoreMode::ReadOnly, options) else { return };
    let consequence = "Linux does not attach the device: no volume can be used";
    report.add(Finding::new(
        Layer::Ubi,
        Severity::Damaged,
        Structure::Device,
        error.to_string(),
        consequence,
    ));
}
