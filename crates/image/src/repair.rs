//! A new image with all that can be saved of another one.
//!
//! Damage that Linux would repair by itself is repaired in a copy, by attaching and mounting it. From a damaged image everything
//! that can still be read is written anew with the live filesystem, into a device of the same geometry that keeps its erase
//! counters, volumes and names. In a JFFS2, whose nodes stand for themselves, damaged ones become padding.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use floatgate_media::jffs2::NODE_ALIGN;
use floatgate_stack::ubi::AttachOptions;
use floatgate_stack::ubifs::{Behaviour, MountOptions, Ubifs};
use floatgate_stack::{FileStore, Store, StoreMode};
use serde::Serialize;

use super::check::{CheckReport, Outcome, check_found, open_volume};
use super::detect::{Content, Found, UbiShape};
use super::extract::{Loss, device_losses, shifts};
use super::format::jffs2;
use super::format::jffs2::repair as jffs2_repair;
use super::format::ubi::repair as ubi_repair;
use super::format::ubifs::check::has_filesystem;
use super::format::ubifs::repair as ubifs_repair;
use super::inventory::Inventory;
use super::open::{Access, Selection};
use super::{Corrected, Image, ImageError, Lock};
use crate::output::{Output, copy_sparse};
use crate::words::count;
use crate::write_back::WriteBack;

/// Sizes of eraseblocks for which a JFFS2 is mended at most.
const SIZES_TRIED: usize = 3;

/// Bytes that are copied together.
const PIECE: usize = 1 << 20;

/// Method of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// It was clean: a copy.
    Copied,
    /// A copy was attached and mounted, as Linux would do.
    Recovered,
    /// In a copy, what is damaged was taken out; the rest is where it was.
    Mended,
    /// All that can be read was written anew.
    Rebuilt,
}

/// Outcome of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repaired {
    /// Nothing was wrong with it.
    Intact,
    /// The new image is clean and holds all that the old one held.
    Wholly,
    /// The new image is clean; what is lost, or may be, is listed.
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
    /// Pages of a dump with OOB that had wrong bits and are written as the ECC corrects them.
    pub corrected_pages: u64,
    /// Filesystems that were written anew, if all was.
    pub filesystems: u64,
    /// Files and directories that were written, if all was written anew.
    pub entries: u64,
    /// Of these, files to which no name led; they are in `lost+found`.
    pub nameless: u64,
    /// Losses: files and parts of files that are not in the new image.
    pub losses: Vec<Loss>,
    /// Bytes of an eraseblock of a JFFS2 that the new image tells, where they were a guess.
    pub told_erase_bytes: Option<u32>,
    /// Volumes that are larger now, because what they hold did not fit any more.
    pub grown: Vec<Grown>,
    /// Bytes of the damaged file.
    pub bytes_before: u64,
    /// Bytes of the new file.
    pub bytes: u64,
    /// Kind of the new file, to write it to flash.
    #[serde(skip)]
    pub write_back: WriteBack,
}

/// A volume that had to grow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// Its name; `None` without UBI.
    pub volume: Option<String>,
    /// LEBs that it had.
    pub lebs_before: u32,
    /// LEBs that it has now.
    pub lebs: u32,
}

/// Loss of a file to which no name leads.
const NAMELESS: &str = "its name, and where it was";

/// Files and losses of a device or a filesystem that was written anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) filesystems: u64,
    pub(crate) entries: u64,
    pub(crate) losses: Vec<Loss>,
    /// Those among the losses that are names of files.
    nameless: Vec<usize>,
    /// Bytes of an eraseblock of a JFFS2 that were a guess, and that new nodes tell now.
    told_erase_bytes: Option<u32>,
    pub(crate) grown: Vec<Grown>,
}

impl Saved {
    fn add(&mut self, other: Self) {
        self.filesystems += other.filesystems;
        self.entries += other.entries;
        let known = self.losses.len();
        self.nameless.extend(other.nameless.iter().map(|at| known + at));
        self.losses.extend(other.losses);
        self.told_erase_bytes = self.told_erase_bytes.or(other.told_erase_bytes);
        self.grown.extend(other.grown);
    }

    /// Takes in what was written of a filesystem, and the names that are damaged in it. Where one name is damaged and one file has none,
    /// that is one loss.
    pub(crate) fn add_with_names(&mut self, mut filled: Self, names: Vec<Loss>) {
        match (names.as_slice(), filled.nameless.as_slice()) {
            ([name], &[file]) => {
                filled.losses[file].what = format!("{NAMELESS}: perhaps {}: {}", name.path, name.what);
            }
            _ => self.losses.extend(names),
        }
        self.add(filled);
    }

    /// True when every file that was saved has its name.
    pub(crate) const fn has_all_names(&self) -> bool {
        self.nameless.is_empty()
    }

    /// A file was saved to which no name leads.
    pub(crate) fn lose_name(&mut self, path: &str) {
        self.nameless.push(self.losses.len());
        self.lose(path, NAMELESS);
    }

    /// Says where the losses behind the first `known` are.
    pub(crate) fn place_losses(&mut self, known: usize, place: &str) {
        for loss in &mut self.losses[known..] {
            loss.what = format!("{place}: {}", loss.what);
        }
    }

    pub(crate) fn lose(&mut self, path: &str, what: impl Into<String>) {
        self.losses.push(Loss { path: path.to_owned(), what: what.into() });
    }
}

/// Writes a new image with all that can be saved. One of a dump with OOB is such a dump, too. Where an image is chosen by its offset, others in
/// the file stay as they are.
///
/// # Errors
/// A file cannot be read or written; a dump with OOB that no ECC code fits; the new image has no room for what was saved, or is not
/// clean.
pub fn repair(path: &Path, out: &Path, selection: &Selection) -> Result<RepairReport, ImageError> {
    let output = Output::create(out, &[path])?;
    let report = repair_to(path, &output, selection)?;
    output.finish()?;
    Ok(report)
}

/// As [`repair`], into an output that is not complete yet.
fn repair_to(path: &Path, output: &Output, selection: &Selection) -> Result<RepairReport, ImageError> {
    let out = output.temporary();
    let _lock = Lock::new(path, Access::Read)?;
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
        saved.losses.extend(shifts(&image, found));
        let outcome = match chosen.as_slice() {
            [_] if corrected_pages == 0 => before.outcome,
            _ => outcome_of(out, &image, found)?,
        };
        let mended = mend(&image, found, outcome, output, &mut saved).map_err(|error| match error {
            ImageError::Occupied { .. } => not_repaired(&image, error),
            error => error,
        });
        method = method.max(mended?);
    }
    let is_checked = method == Method::Copied && corrected_pages == 0;
    if !is_checked {
        let checked = check_again(out, &image, &chosen)?;
        if checked.outcome != Outcome::Clean {
            return Err(not_repaired(&image, ImageError::NotRepaired));
        }
        let lost = compare(out, &image, (&chosen, &checked), &saved.losses)?;
        saved.losses.extend(lost);
        for found in &chosen {
            saved.losses.extend(around_files(&image, found)?);
        }
    }
    let bytes = [path, out].map(|path| path.metadata().map(|data| data.len()));
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

/// Reason for which no repair is possible, rather than that with which one failed: bytes are missing in an image, or too many.
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

/// Byte of the file where PEBs of a UBI device follow others of their size, and are shifted against them.
fn shifted_ubi(image: &Image) -> Option<u64> {
    let peb_bytes = |found: &Found| found.block_bytes().filter(|_| found.has_volumes()).map(u64::from);
    let is_shifted = |pair: &&[Found]| {
        let distance = pair[1].offset - pair[0].offset;
        peb_bytes(&pair[0])
            .is_some_and(|peb| peb_bytes(&pair[1]) == Some(peb) && !distance.is_multiple_of(peb))
    };
    image.found.windows(2).find(is_shifted).map(|pair| image.file_byte(pair[1].offset))
}

/// Copies a file. Of a dump with OOB the copy is as the ECC corrects it, as far as images go; the number of such pages.
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

/// Copies what is read of a file.
fn copy_store(source: &dyn Store, to: &Output) -> Result<(), ImageError> {
    let mut piece = vec![0; PIECE];
    for at in (0..source.size_bytes()).step_by(PIECE) {
        let len = usize::try_from(source.size_bytes() - at).unwrap_or(PIECE).min(PIECE);
        source.read_at(at, &mut piece[..len]).map_err(ImageError::Store)?;
        to.file().write_all(&piece[..len]).map_err(|error| to.failed(error))?;
    }
    Ok(())
}

/// Makes one of the images in a file clean; a clean one stays as it is.
fn mend(
    image: &Image,
    found: &Found,
    outcome: Outcome,
    output: &Output,
    saved: &mut Saved,
) -> Result<Method, ImageError> {
    let out = output.temporary();
    match outcome {
        Outcome::Clean => return Ok(Method::Copied),
        Outcome::Recoverable
            if recover(output, image, found).is_ok() && outcome_of(out, image, found)? == Outcome::Clean =>
        {
            return Ok(Method::Recovered);
        }
        _ => {}
    }
    let known = saved.losses.len();
    let method = if let Content::Jffs2(_) = found.content {
        mend_jffs2(image, found.clone(), out, saved)?;
        Method::Mended
    } else {
        rebuild(image, found, output, saved)?;
        Method::Rebuilt
    };
    if image.found.len() > 1 {
        saved.place_losses(known, &format!("image at byte {}", image.file_byte(found.offset)));
    }
    Ok(method)
}

/// Leaves out of an image what stands behind the last node in its eraseblock, unless that is damage: it may be of other data.
fn leave_tail(image: &Image, found: &mut Found) -> Result<(), ImageError> {
    let Content::Jffs2(shape) = &found.content else { return Ok(()) };
    // Pages with OOB are written whole.
    let Ok(fs) = jffs2::mount(image.store()?, found, shape) else { return Ok(()) };
    if image.corrected.is_none()
        && let Some(at) = jffs2::around::tail(image, found, shape, &fs)?
    {
        let len = at - found.offset;
        found.len = len - len % u64::from(NODE_ALIGN);
    }
    Ok(())
}

/// Makes a JFFS2 clean. The new nodes may tell another size of eraseblocks than it has: then a summary states the size, or it is mended as that other one.
fn mend_jffs2(image: &Image, mut found: Found, out: &Path, saved: &mut Saved) -> Result<(), ImageError> {
    let is_only = matches!(image.found.as_slice(), [only] if only.offset == found.offset);
    let is_guess = |found: &Found| matches!(found.content, Content::Jffs2(shape) if shape.erase_is_guess);
    let was_guess = is_guess(&found);
    leave_tail(image, &mut found)?;
    for _ in 0..SIZES_TRIED {
        let Content::Jffs2(shape) = &found.content else { break };
        let lost = image.corrected.as_ref().map(|corrected| corrected.lost_pages(&found)).unwrap_or_default();
        let mended =
            jffs2_repair::mend(&|| target(image, out), (&found, &image.origin(&found)), shape, saved);
        mended.map_err(|error| match error {
            ImageError::NoRepairRoom(own) => ImageError::NoRepairRoom(image.part(own.offset..own.end())),
            error => error,
        })?;
        jffs2_repair::write_again(target(image, out)?, &found, shape, &lost)?;
        let now = image.open_like(out, Access::Read)?;
        let is_same = |new: &Found| (new.offset, new.block_bytes()) == (found.offset, found.block_bytes());
        let is_other =
            matches!(now.found.as_slice(), [new] if is_only && !is_same(new) && now.splices.is_empty());
        if is_other && jffs2_repair::state_size(target(image, out)?, &found, shape)? {
            let now = image.open_like(out, Access::Read)?;
            if now.found.iter().all(is_same) {
                break;
            }
        }
        match now.found.as_slice() {
            [new] if is_other => found = new.clone(),
            _ => break,
        }
    }
    if was_guess
        && let [new] = image.open_like(out, Access::Read)?.found.as_slice()
        && !is_guess(new)
    {
        saved.told_erase_bytes = new.block_bytes();
    }
    Ok(())
}

fn outcome_of(path: &Path, image: &Image, found: &Found) -> Result<Outcome, ImageError> {
    let now = image.open_like(path, Access::Read)?;
    let found = vec![as_it_is_now(found, image, &now)];
    check_found(&now, found, &Selection::default()).map(|report| report.outcome)
}

fn check_again(path: &Path, image: &Image, chosen: &[Found]) -> Result<CheckReport, ImageError> {
    let now = image.open_like(path, Access::Read)?;
    let found = chosen.iter().map(|found| as_it_is_now(found, image, &now)).collect();
    check_found(&now, found, &Selection::default())
}

/// Files that an extraction restores of the damaged image and not of the new one.
///
/// # Errors
/// The new image has none of the files, or no filesystem for them.
fn compare(
    path: &Path,
    image: &Image,
    (chosen, checked): (&[Found], &CheckReport),
    known: &[Loss],
) -> Result<Vec<Loss>, ImageError> {
    let now = image.open_like(path, Access::Read)?;
    let is_jffs2 = |found: &Found| matches!(found.content, Content::Jffs2(_));
    if image.found.iter().any(is_jffs2) && image.found.len() > 1 && now.found.len() != image.found.len() {
        let why = format!(
            "the file holds {} images that a repair would make {}: cut each out into a file of its own",
            image.found.len(),
            now.found.len()
        );
        return Err(ImageError::NotRepairable(why));
    }
    let selection = |image: &Image, found: &Found| Selection {
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

/// Losses of a UBI device beside those of its filesystems, as an extraction lists them.
fn around_files(image: &Image, found: &Found) -> Result<Vec<Loss>, ImageError> {
    let is_ubifs = |id: u32| {
        let selection = Selection {
            offset: Some(image.file_byte(found.offset)),
            volume: Some(id.to_string()),
            ..Selection::default()
        };
        open_volume(image, &selection).is_ok_and(|(mut volume, ..)| has_filesystem(&mut volume))
    };
    device_losses(image, found, &is_ubifs)
}

/// One of the images in a file as it is in the new file: the last may be longer. Where two devices look like one now, they are what they
/// were before.
fn as_it_is_now(found: &Found, before: &Image, now: &Image) -> Found {
    if let ([old], [new]) = (before.found.as_slice(), now.found.as_slice())
        && old.offset == found.offset
    {
        return new.clone();
    }
    let next = before.found.iter().map(|other| other.offset).filter(|&other| other > found.offset).min();
    let fits =
        |new: &&Found| new.offset == found.offset && next.is_none_or(|next| new.offset + new.len <= next);
    now.found.iter().find(fits).unwrap_or(found).clone()
}

/// Attaches and mounts an image in a file, for writing, and ends that in order.
fn recover(output: &Output, image: &Image, found: &Found) -> Result<(), ImageError> {
    let before = image;
    let image = image.open_like(output.temporary(), Access::Write)?;
    let options = MountOptions { recover: true, keep_space_fixup: true, ..MountOptions::default() };
    if let Content::Ubifs { .. } = found.content {
        let selection = Selection { offset: Some(image.file_byte(found.offset)), ..Selection::default() };
        let volume = image.volume(&selection)?;
        let fs = Ubifs::mount(volume, &options, Behaviour::default()).map_err(|(error, _)| error)?;
        fs.unmount().map_err(|(error, _)| error)?;
        return Ok(());
    }
    let attach = AttachOptions { autoresize: false, ..AttachOptions::default() };
    let mut ubi = image.attach_as(found, StoreMode::WriteThrough, attach)?;
    let volumes: Vec<u32> = ubi.volumes().map(|volume| volume.id).collect();
    for id in volumes {
        let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
        let volume = match Ubifs::mount(volume, &options, Behaviour::default()) {
            Ok(fs) => fs.unmount().map_err(|(error, _)| error)?,
            // No filesystem, or not one that can be written: it stays.
            Err((_, volume)) => volume,
        };
        ubi = volume.into_ubi();
    }
    let shape = match found.content {
        Content::Ubi(shape) if before.corrected.is_none() => Some(shape),
        _ => None,
    };
    if let Some(shape) = shape {
        let pebs = found.len.div_ceil(u64::from(shape.peb_bytes));
        ubi.vacate(u32::try_from(pebs).unwrap_or(u32::MAX))?;
    }
    let (mut flash, _) = ubi.detach().map_err(|(error, _)| error)?;
    flash.fill_last_block().map_err(ImageError::Store)?;
    let Some(shape) = shape else { return Ok(()) };
    let source = before.store()?;
    if ubi_repair::ends_file(&*source, found) { trim(output, found, &shape) } else { Ok(()) }
}

/// Cuts off what UBI has formatted behind the last device of a file and not used.
fn trim(output: &Output, found: &Found, shape: &UbiShape) -> Result<(), ImageError> {
    let file = File::options().read(true).write(true).open(output.temporary()).map_err(ImageError::File)?;
    let size = file.metadata().map_err(ImageError::File)?.len();
    let store = FileStore::new(file).map_err(ImageError::Store)?;
    let peb = u64::from(shape.peb_bytes);
    let mut end = found.offset + found.len.next_multiple_of(peb);
    for start in (end..size).step_by(shape.peb_bytes as usize) {
        let mut magic = [0; 4];
        store.read_at(start + u64::from(shape.vid_header_offset), &mut magic).map_err(ImageError::Store)?;
        if magic != [0xFF; 4] {
            end = start + peb;
        }
    }
    Ok(output.file().set_len(end.min(size)).map_err(|error| output.failed(error))?)
}

/// Writes an image in a file anew.
fn rebuild(image: &Image, found: &Found, output: &Output, saved: &mut Saved) -> Result<(), ImageError> {
    let source = image.store()?;
    let target = target(image, output.temporary())?;
    match found.content {
        Content::Ubifs { leb_bytes, min_io_bytes } => {
            ubifs_repair::rebuild_bare(source, target, found, (leb_bytes, min_io_bytes), output, saved)
        }
        _ => ubi_repair::rebuild(source, target, found, output, saved),
    }
}

/// A file without a name for what is written before the output. Beside it there is room.
pub(crate) fn scratch(output: &Output) -> Result<File, ImageError> {
    Ok(tempfile::tempfile_in(output.folder()).map_err(|error| output.failed(error))?)
}

/// The new image to be written to, with OOB if the old one has some.
fn target(image: &Image, out: &Path) -> Result<Box<dyn Store>, ImageError> {
    if image.corrected.is_some() {
        return image.open_like(out, Access::Write)?.store();
    }
    let file = File::options().read(true).write(true).open(out).map_err(ImageError::File)?;
    Ok(Box::new(FileStore::new(file).map_err(ImageError::Store)?))
}
