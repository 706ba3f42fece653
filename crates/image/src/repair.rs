//! Repair: a new image with all readable data of a damaged one.
//!
//! Damage that Linux repairs itself is repaired in a copy, by attaching and mounting it. For other damage, all
//! readable data is written again with the live filesystem, to a device of the same geometry. The new device keeps
//! erase counters, volumes and names. In a JFFS2, whose nodes are independent, damaged nodes become padding.

use std::io::{Seek, Write};
use std::path::Path;

use floatgate_files::{File, metadata};
use floatgate_stack::Store;
use serde::Serialize;

use super::check::check_found;
use super::format::location::ImageLocation;
use super::image::{Access, Image};
use super::inventory::Inventory;
use super::oob::Corrected;
use super::report::{CheckReport, Finding, Loss, Outcome};
use super::saved::Saved;
pub use super::saved::{Grown, Method};
use super::selection::Selection;
use crate::ImageError;
use crate::words::count;
use crate::write_back::WriteBack;
use floatgate_host::Lock;
use floatgate_host::output::{Output, copy_sparse};

/// Number of bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// Outcome of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repaired {
    /// The image had no damage.
    Intact,
    /// The new image is clean, and contains all data of the old one.
    Wholly,
    /// The new image is clean; certain and possible losses are listed.
    WithLosses,
}

/// Report on a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepairReport {
    /// Outcome of the repair.
    pub outcome: Repaired,
    /// Check of the damaged image.
    pub before: CheckReport,
    /// Method of the repair.
    pub method: Method,
    /// Number of pages of a dump with OOB that had wrong bits and were written with the corrections of the ECC.
    pub corrected_pages: u64,
    /// Number of filesystems that were written again.
    pub filesystems: u64,
    /// Number of files and directories that were written again.
    pub entries: u64,
    /// Number of written files without a name; they are in `lost+found`.
    pub nameless: u64,
    /// Losses: files and parts of files that are not in the new image.
    pub losses: Vec<Loss>,
    /// Size of an eraseblock that the new image implies, if it was a guess before, bytes.
    pub told_erase_bytes: Option<u32>,
    /// Volumes that became larger, because their contents no longer fit.
    pub grown: Vec<Grown>,
    /// Size of the damaged file, bytes.
    pub bytes_before: u64,
    /// Size of the new file, bytes.
    pub bytes: u64,
    /// Kind of the new file, to write it to flash.
    #[serde(skip)]
    pub write_back: WriteBack,
}

/// Writes a new image with all readable data. For a dump with OOB, the new image is also a dump with OOB. If an image
/// is selected by its offset, other images in the file do not change.
///
/// # Errors
/// A file cannot be read or written, no ECC code fits a dump with OOB, or the new image has no space for the data or
/// is not clean.
pub fn repair(path: &Path, out: &Path, selection: &Selection) -> Result<RepairReport, ImageError> {
    let output = Output::create(out, &[path])?;
    let report = repair_to(path, &output, selection)?;
    output.finish()?;
    Ok(report)
}

/// Writes the repaired image of [`repair`] into an output that is completed later.
fn repair_to(path: &Path, output: &Output, selection: &Selection) -> Result<RepairReport, ImageError> {
    let out = output.temporary();
    let _lock = Lock::new(path, false)?;
    let image = Image::open_sized(path, Access::Read, selection)?;
    let chosen = match selection.offset {
        Some(_) => vec![image.choose(selection)?],
        None => image.found.clone(),
    };
    let before = check_found(&image, chosen.clone(), selection)?;
    let has_no_code = |corrected: &Corrected| chosen.iter().any(|found| !corrected.has_code(found));
    let has_no_code = image.corrected.as_ref().is_some_and(has_no_code);
    if has_no_code && before.outcome != Outcome::Clean {
        return Err(ImageError::OobReadOnly);
    }
    if image.corrected.is_some() && !image.splices.is_empty() {
        return Err(ImageError::NotRepairable(image.splices.to_string()));
    }
    let corrected_pages = copy(path, output, &image)?;
    let mut saved = Saved::default();
    let mut method = if image.splices.is_empty() { Method::Copied } else { Method::Mended };
    for found in &chosen {
        saved.losses.extend(image.shift_losses(found));
        let outcome = match chosen.as_slice() {
            [_] if corrected_pages == 0 => before.repairable_outcome(),
            _ => outcome_of(out, &image, found)?,
        };
        let repaired = repair_one(&image, found, outcome, output, &mut saved).map_err(|error| match error {
            ImageError::Occupied { .. } => not_repaired(&image, error),
            error => error,
        });
        method = method.max(repaired?);
    }
    let is_checked = method == Method::Copied && corrected_pages == 0;
    if is_checked {
        saved.losses.extend(tree_losses(&before));
    } else {
        let checked = check_again(out, &image, &chosen)?;
        if checked.repairable_outcome() != Outcome::Clean {
            return Err(not_repaired(&image, ImageError::NotRepaired));
        }
        saved.losses.extend(tree_losses(&checked));
        let lost = compare(out, &image, (&chosen, &checked), &saved.losses)?;
        saved.losses.extend(lost);
        for found in &chosen {
            saved.losses.extend(found.format().losses(&image, found)?);
        }
    }
    let bytes = [path, out].map(|path| metadata(path).map(|data| data.len()));
    let [bytes_before, bytes] = bytes.map(|bytes| bytes.map_err(ImageError::File));
    let Saved { filesystems, entries, nameless, losses, told_erase_bytes, grown } = saved;
    let mut report = RepairReport {
        before,
        method,
        corrected_pages,
        filesystems,
        entries,
        nameless: nameless.len() as u64,
        losses,
        told_erase_bytes,
        grown,
        bytes_before: bytes_before?,
        bytes: bytes?,
        outcome: Repaired::Wholly,
        write_back: WriteBack::of(&image),
    };
    report.outcome = match (report.before.outcome, report.losses.is_empty()) {
        (_, false) => Repaired::WithLosses,
        (Outcome::Clean, true) => Repaired::Intact,
        (_, true) => Repaired::Wholly,
    };
    Ok(report)
}

/// Damage of filesystems in read-only volumes, which the new image also contains.
fn tree_losses(report: &CheckReport) -> Vec<Loss> {
    let is_lost = |finding: &&Finding| finding.is_of_tree() && finding.severity == Outcome::Damaged;
    let loss = |finding: &Finding| {
        let volume = finding.volume.as_deref().unwrap_or_default();
        Loss::new(&[], format!("volume {volume}, copied as it is: {}", finding.what))
    };
    report.findings.iter().filter(is_lost).map(loss).collect()
}

/// Reason why no repair is possible, in place of the error of a failed repair: bytes of an image are missing, or were
/// inserted.
fn not_repaired(image: &Image, failure: ImageError) -> ImageError {
    let reports = image.corrected.iter().flat_map(Corrected::reports);
    let steps = reports.map(|report| report.steps.uncorrectable).sum();
    match shifted_ubi(image) {
        Some(at) => {
            let why = format!(
                "bytes are missing or too many before byte {at} ({at:#x}), where a UBI device goes on"
            );
            ImageError::NotRepairable(why)
        }
        None if steps > 0 => {
            let steps = count(steps, "ECC step");
            let why =
                format!("{steps} of its pages cannot be corrected, as where bytes are missing in a dump");
            ImageError::NotRepairable(why)
        }
        None => failure,
    }
}

/// Offset in the file at which PEBs of a UBI device follow PEBs of the same size, and are shifted relative to them.
fn shifted_ubi(image: &Image) -> Option<u64> {
    let peb_bytes =
        |found: &ImageLocation| found.block_bytes().filter(|_| found.has_volumes()).map(u64::from);
    let is_shifted = |pair: &&[ImageLocation]| {
        let distance = pair[1].offset - pair[0].offset;
        peb_bytes(&pair[0])
            .is_some_and(|peb| peb_bytes(&pair[1]) == Some(peb) && !distance.is_multiple_of(peb))
    };
    image.found.windows(2).find(is_shifted).map(|pair| image.file_byte(pair[1].offset))
}

/// Copies a file. The copy of a dump with OOB contains the bytes that the ECC corrected within images. Returns the
/// number of such pages.
fn copy(from: &Path, to: &Output, image: &Image) -> Result<u64, ImageError> {
    let source = File::open(from).map_err(ImageError::File)?;
    let mut target = to.file();
    target.set_len(0).and_then(|()| target.rewind()).map_err(|error| to.failed(error))?;
    if !image.splices.is_empty() {
        return copy_store(&*image.store()?, to).map(|()| 0);
    }
    copy_sparse(&source, target).map_err(|error| to.failed(error))?;
    if !image.corrected.as_ref().is_some_and(Corrected::has_corrections) {
        return Ok(0);
    }
    image.open_like(to.temporary(), Access::Write)?.write_corrected(target)
}

/// Copies the readable bytes of a file.
fn copy_store(source: &dyn Store, to: &Output) -> Result<(), ImageError> {
    let mut piece = vec![0; PIECE];
    for at in (0..source.size_bytes()).step_by(PIECE) {
        let len = usize::try_from(source.size_bytes() - at).unwrap_or(PIECE).min(PIECE);
        source.read_at(at, &mut piece[..len]).map_err(ImageError::Store)?;
        to.file().write_all(&piece[..len]).map_err(|error| to.failed(error))?;
    }
    Ok(())
}

/// Repairs one of the images in a file; a clean image does not change.
fn repair_one(
    image: &Image,
    found: &ImageLocation,
    outcome: Outcome,
    output: &Output,
    saved: &mut Saved,
) -> Result<Method, ImageError> {
    let out = output.temporary();
    match outcome {
        Outcome::Clean => return Ok(Method::Copied),
        Outcome::Recoverable
            if found.format().recover(image, found, output).is_ok()
                && outcome_of(out, image, found)? == Outcome::Clean =>
        {
            return Ok(Method::Recovered);
        }
        _ => {}
    }
    let known = saved.losses.len();
    let method = found.format().repair(image, found, output, saved)?;
    if image.found.len() > 1 {
        saved.place_losses(known, &format!("image at byte {}", image.file_byte(found.offset)));
    }
    Ok(method)
}

fn outcome_of(path: &Path, image: &Image, found: &ImageLocation) -> Result<Outcome, ImageError> {
    let now = image.open_like(path, Access::Read)?;
    let found = vec![as_it_is_now(found, image, &now)];
    check_found(&now, found, &Selection::default()).map(|report| report.repairable_outcome())
}

fn check_again(path: &Path, image: &Image, chosen: &[ImageLocation]) -> Result<CheckReport, ImageError> {
    let now = image.open_like(path, Access::Read)?;
    let found = chosen.iter().map(|found| as_it_is_now(found, image, &now)).collect();
    check_found(&now, found, &Selection::default())
}

/// Files that an extraction restores from the damaged image, but not from the new one.
///
/// # Errors
/// The new image contains none of the files, or no filesystem for them.
fn compare(
    path: &Path,
    image: &Image,
    (chosen, checked): (&[ImageLocation], &CheckReport),
    known: &[Loss],
) -> Result<Vec<Loss>, ImageError> {
    let now = image.open_like(path, Access::Read)?;
    let is_told_by_nodes = |found: &ImageLocation| found.format().is_told_by_nodes();
    if image.found.iter().any(is_told_by_nodes)
        && image.found.len() > 1
        && now.found.len() != image.found.len()
    {
        let why = format!(
            "the file holds {} images that a repair would make {}: cut each out into a file of its own",
            image.found.len(),
            now.found.len()
        );
        return Err(ImageError::NotRepairable(why));
    }
    let selection = |image: &Image, found: &ImageLocation| Selection {
        offset: Some(image.file_byte(found.offset)),
        ..Selection::default()
    };
    let mut lost = Vec::new();
    for found in chosen {
        let before = Inventory::of(image, &selection(image, found));
        let after = Inventory::of(&now, &selection(&now, &as_it_is_now(found, image, &now)));
        if before.has_files() && !checked.has_filesystem() || before.is_lost_in(&after) {
            let why = "none of the files that can be extracted would be in the new image".to_owned();
            return Err(ImageError::NotRepairable(why));
        }
        lost.extend(before.missing_in(&after, known));
    }
    Ok(lost)
}

/// Location of an image in the new file, in which the last image may be longer. If two devices now look like one,
/// their former locations are used.
fn as_it_is_now(found: &ImageLocation, before: &Image, now: &Image) -> ImageLocation {
    if let ([old], [new]) = (before.found.as_slice(), now.found.as_slice())
        && old.offset == found.offset
    {
        return new.clone();
    }
    let next = before.found.iter().map(|other| other.offset).filter(|&other| other > found.offset).min();
    let fits = |new: &&ImageLocation| {
        new.offset == found.offset && next.is_none_or(|next| new.offset + new.len <= next)
    };
    now.found.iter().find(fits).unwrap_or(found).clone()
}
