//! Eraseblocks in which two images differ, and the commands that write only these eraseblocks.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use floatgate_mtd::advice;
use floatgate_mtd::advice::Command::EccDecode;
use floatgate_mtd::advice::CommandOption::{OobSize, PageSize};
use floatgate_mtd::advice::{Advice, Help, shell};
use floatgate_stack::Store;
use serde::Serialize;

use crate::ImageError;
use crate::image::{Access, Image};
use crate::pages::{FlashSizes, PageShape};
use crate::words::{count, size};
use crate::write_back::WriteBack;

/// Largest number of bytes that are compared at a time.
const CHUNK: u64 = 1 << 20;

/// Largest number of bad blocks that a report lists.
const NAMED: usize = 16;

/// Largest number of bytes of the new image that a shell script copies at a time: the copy needs memory of the board.
const PIECE: u64 = 4 << 20;

/// Lines of a shell script before its first erase: they check that the new image is readable and has the right size.
const CHECKS: &str = r#"fail() {
	echo "$1" >&2
	exit 1
}
[ -r "$NEW" ] || fail "$NEW cannot be read: nothing was erased"
[ "$(wc -c <"$NEW")" -eq "$BYTES" ] || fail "$NEW does not have $BYTES bytes: nothing was erased"
TMP=$(mktemp)
trap 'rm -f "$TMP"' EXIT
trap 'exit 1' HUP INT TERM
# Copies PEBs to TMP. Arguments: the first, their number, their bytes in NEW.
piece() {
	dd if="$NEW" of="$TMP" bs="$PEB" skip="$1" count="$2" || fail "$NEW cannot be copied to $TMP"
	[ "$(wc -c <"$TMP")" -eq "$3" ] || fail "$NEW cannot be copied to $TMP"
}
"#;

/// Flash for which a patch is made, if the images do not imply it.
#[derive(Clone, Debug, Default)]
pub struct PatchOptions {
    /// Sizes of the flash that the user states.
    pub sizes: FlashSizes,
    /// Size of the partition in bytes; when absent, the size of the old dump.
    pub partition_bytes: Option<u64>,
    /// Numbers of bad PEBs, in addition to those that the OOB of the old dump marks.
    pub bad_pebs: Vec<u32>,
}

/// Kind of flash, which determines how a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlashKind {
    /// NOR, written byte by byte.
    Nor,
    /// NAND, whose controller adds the OOB.
    Nand,
    /// NAND, with files that contain the OOB.
    NandWithOob,
}

/// Consecutive PEBs that change together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Number of the first PEB.
    pub first_peb: u32,
    /// Number of PEBs.
    pub pebs: u32,
    /// Offset on the flash.
    pub offset: u64,
    /// Length on the flash, bytes.
    pub len: u64,
    /// True if the PEBs are erased in the new image, so that nothing is written.
    pub erased: bool,
}

/// Difference of two images in eraseblocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// Size of a PEB on the flash, bytes.
    pub peb_bytes: u32,
    /// Size of a PEB in the files, bytes; larger if they contain the OOB.
    pub file_peb_bytes: u32,
    /// Size of a page with its OOB, if the files contain the OOB, bytes.
    pub page_file_bytes: Option<u32>,
    /// Kind of flash.
    pub flash: FlashKind,
    /// Number of PEBs in the partition.
    pub pebs: u32,
    /// Number of PEBs that change.
    pub changed_pebs: u32,
    /// Number of changed PEBs that are erased in the new image.
    pub erased_pebs: u32,
    /// Runs of PEBs that change.
    pub runs: Vec<Run>,
    /// Reasons why the new image does not fit the partition.
    pub misfits: Vec<String>,
    /// Size of the new image's file, bytes.
    #[serde(skip)]
    pub new_bytes: u64,
}

/// Language of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// A shell with mtd-utils.
    Mtd,
    /// U-Boot.
    Uboot,
}

/// Reason why two images cannot be compared, or why no script can be written.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// A file cannot be read, or does not imply the necessary sizes.
    #[error("{}", located(.path, .error))]
    File {
        /// Path of the file that failed.
        path: PathBuf,
        /// Reason of the failure.
        error: Box<ImageError>,
    },
    /// One file has OOB, and the other has none.
    #[error("{} has OOB, in {}, and {} has none", .with.display(), named(.pages), .without.display())]
    OneWithOob {
        /// File with OOB.
        with: PathBuf,
        /// Pages of this file.
        pages: PageShape,
        /// File without OOB.
        without: PathBuf,
    },
    /// One file has OOB, and it is unknown whether the other has OOB.
    #[error("{} has OOB, in {}, and nothing tells whether {} has it", .with.display(), named(.pages), .other.display())]
    UnknownPages {
        /// File with OOB.
        with: PathBuf,
        /// Pages of this file.
        pages: PageShape,
        /// Other file.
        other: PathBuf,
    },
    /// Both files have OOB, in different pages.
    #[error("the old image has {}, the new one has {}", named(.old), named(.new))]
    PagesDiffer {
        /// Pages of the old image.
        old: PageShape,
        /// Pages of the new image.
        new: PageShape,
    },
    /// The last page of a new image with OOB is incomplete.
    #[error("{}: the file has {bytes} bytes, which are not whole pages of {page} bytes with their OOB", .path.display())]
    PartOfPage {
        /// Path of the file with the incomplete page.
        path: PathBuf,
        /// Size of the file, bytes.
        bytes: u64,
        /// Size of a page with its OOB, bytes.
        page: u32,
    },
    /// No eraseblock begins at the stated start of the partition.
    #[error("no eraseblock of {peb} bytes begins at byte {base} ({base:#x}) of a flash")]
    Base {
        /// Stated start of the partition.
        base: u64,
        /// Size of an eraseblock, bytes.
        peb: u32,
    },
    /// A name cannot be written into a script.
    #[error("the name {0:?} cannot be in a script: it has control characters, or is not UTF-8")]
    Name(PathBuf),
}

impl PatchError {
    fn file(path: &Path, error: ImageError) -> Self {
        Self::File { path: path.to_owned(), error: Box::new(error) }
    }
}

impl Help for PatchError {
    fn names_file(&self) -> bool {
        true
    }

    fn help(&self) -> Advice {
        match self {
            Self::File { error, .. } => error.help(),
            Self::OneWithOob { with, without, .. } => {
                let (with, without) = (with.display().to_string(), without.display().to_string());
                advice! { shell("floatgate ecc encode"), " first adds the OOB to ", without, ", or ", EccDecode, " takes it out of ", with }
            }
            Self::UnknownPages { .. } => {
                advice! { PageSize, " and ", OobSize, " state the pages of both files; ", shell("floatgate ecc encode"), " adds OOB, ", EccDecode, " takes it out" }
            }
            Self::PagesDiffer { .. } => {
                advice! { PageSize, " and ", OobSize, " state the pages if they were not found out rightly; otherwise take the OOB out of both files first: ", EccDecode }
            }
            Self::PartOfPage { .. } => advice! { "the file is cut off: take it again, whole" },
            Self::Base { .. } => {
                advice! { "name the byte at which the partition begins, a multiple of the size of an eraseblock" }
            }
            Self::Name(_) => advice! { "rename the file" },
        }
    }
}

/// Message with the name of a file, unless the message already contains it.
fn located(path: &Path, error: &ImageError) -> String {
    if error.names_file() { error.to_string() } else { format!("{}: {error}", path.display()) }
}

/// Text about page sizes, for a message.
fn named(pages: &PageShape) -> String {
    let PageShape { page_bytes, oob_bytes, pages_per_block } = pages;
    format!("pages of {page_bytes} + {oob_bytes} bytes, {pages_per_block} a block")
}

/// Sizes, kind and bad blocks of the flash for two files.
struct Blocks {
    peb: u64,
    file_peb: u64,
    page_file: Option<u32>,
    flash: FlashKind,
    bad: BTreeSet<u32>,
}

impl Blocks {
    fn of(
        image: Option<&Image>,
        pages: Option<PageShape>,
        options: &PatchOptions,
    ) -> Result<Self, ImageError> {
        let mut bad: BTreeSet<u32> = options.bad_pebs.iter().copied().collect();
        if let Some(pages) = pages {
            let marked = image.and_then(|image| image.corrected.as_ref()).map(|found| &found.bad_blocks);
            bad.extend(marked.into_iter().flatten().filter_map(|block| u32::try_from(*block).ok()));
            let peb = u64::from(pages.block_bytes());
            let file_peb = u64::from(pages.stride()) * u64::from(pages.pages_per_block);
            if peb == 0 {
                return Err(ImageError::UnknownEraseblocks);
            }
            let page_file = Some(pages.stride());
            return Ok(Self { peb, file_peb, page_file, flash: FlashKind::NandWithOob, bad });
        }
        let found = image.and_then(|image| image.found.first());
        let peb = options.sizes.peb_bytes.or_else(|| found?.block_bytes());
        let peb = peb.filter(|bytes| *bytes > 0).ok_or(ImageError::UnknownEraseblocks)?.into();
        let is_nor = image.is_some_and(|image| WriteBack::of(image) == WriteBack::Jffs2OnNor)
            || found.and_then(|found| found.min_io_bytes()) == Some(1);
        let flash = if is_nor { FlashKind::Nor } else { FlashKind::Nand };
        Ok(Self { peb, file_peb: peb, page_file: None, flash, bad })
    }
}

/// Pages of a file, according to its images.
#[derive(Clone, Copy)]
enum Layout {
    /// The pages are unknown.
    Unknown,
    /// The file is empty or erased flash, which is the same in all page layouts.
    Any,
    /// Pages without OOB.
    Plain,
    /// Pages with OOB.
    WithOob(PageShape),
}

impl Layout {
    fn of(image: &Image) -> Self {
        let is_of_flash =
            image.found.iter().any(|found| found.block_bytes().or(found.min_io_bytes()).is_some());
        match &image.corrected {
            Some(corrected) => Self::WithOob(corrected.pages),
            None if is_of_flash => Self::Plain,
            None => Self::Unknown,
        }
    }
}

/// One of the two compared files.
struct Side<'a> {
    path: &'a Path,
    /// Image in the file, if one was found.
    image: Option<Image>,
    layout: Layout,
    store: Box<dyn Store>,
}

impl<'a> Side<'a> {
    /// Opens a file with any contents.
    fn open(path: &'a Path, sizes: FlashSizes) -> Result<Self, PatchError> {
        let (image, layout) = match Image::open_sized(path, Access::Read, sizes) {
            Ok(image) => {
                let layout = Layout::of(&image);
                (Some(image), layout)
            }
            Err(ImageError::NothingInPages(pages)) => (None, Layout::WithOob(pages)),
            Err(ImageError::Empty | ImageError::Blank(0xFF)) => (None, Layout::Any),
            Err(error) if error.is_of_contents() => (None, Layout::Unknown),
            Err(error) => return Err(PatchError::file(path, error)),
        };
        let file = floatgate_host::open::open_file(path, false).map_err(ImageError::File);
        let store = file.and_then(|file| crate::image::store_of(&Arc::new(file)));
        let store = store.map_err(|error| PatchError::file(path, error))?;
        Ok(Self { path, image, layout, store })
    }

    /// Pages with OOB that both files have; `None` if neither file has OOB.
    fn pages(old: &Self, new: &Self) -> Result<Option<PageShape>, PatchError> {
        let one_with_oob = |with: &Self, pages, without: &Self| PatchError::OneWithOob {
            with: with.path.to_owned(),
            pages,
            without: without.path.to_owned(),
        };
        let unknown = |with: &Self, pages, other: &Self| PatchError::UnknownPages {
            with: with.path.to_owned(),
            pages,
            other: other.path.to_owned(),
        };
        match (old.layout, new.layout) {
            (Layout::WithOob(one), Layout::WithOob(other)) if one != other => {
                Err(PatchError::PagesDiffer { old: one, new: other })
            }
            (Layout::WithOob(pages), Layout::WithOob(_) | Layout::Any)
            | (Layout::Any, Layout::WithOob(pages)) => Ok(Some(pages)),
            (Layout::WithOob(pages), Layout::Plain) => Err(one_with_oob(old, pages, new)),
            (Layout::Plain, Layout::WithOob(pages)) => Err(one_with_oob(new, pages, old)),
            (Layout::WithOob(pages), Layout::Unknown) => Err(unknown(old, pages, new)),
            (Layout::Unknown, Layout::WithOob(pages)) => Err(unknown(new, pages, old)),
            _ => Ok(None),
        }
    }

    fn bytes(&self) -> u64 {
        self.store.size_bytes()
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), PatchError> {
        let read = self.store.read_at(at, bytes).map_err(ImageError::Store);
        read.map_err(|error| PatchError::file(self.path, error))
    }
}

/// Compares an old image or dump with a new one.
///
/// # Errors
/// A file cannot be read, the size of the eraseblocks is unknown, or one file has OOB and the other has none or other
/// pages.
pub fn patch(old: &Path, new: &Path, options: &PatchOptions) -> Result<Patch, PatchError> {
    let (old, new) = (Side::open(old, options.sizes)?, Side::open(new, options.sizes)?);
    let pages = Side::pages(&old, &new)?;
    let image = old.image.as_ref().or(new.image.as_ref());
    let blocks = Blocks::of(image, pages, options).map_err(|error| PatchError::file(old.path, error))?;
    compare(&old, &new, &blocks, options.partition_bytes)
}

fn compare(
    old: &Side<'_>,
    new: &Side<'_>,
    blocks: &Blocks,
    partition: Option<u64>,
) -> Result<Patch, PatchError> {
    let in_blocks = |bytes: u64, block: u64| u32::try_from(bytes.div_ceil(block)).unwrap_or(u32::MAX);
    let old_pebs = in_blocks(old.bytes(), blocks.file_peb);
    let new_pebs = in_blocks(new.bytes(), blocks.file_peb);
    let pebs = partition.map_or(old_pebs, |bytes| u32::try_from(bytes / blocks.peb).unwrap_or(u32::MAX));
    let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut patch = Patch {
        peb_bytes: small(blocks.peb),
        file_peb_bytes: small(blocks.file_peb),
        page_file_bytes: blocks.page_file,
        flash: blocks.flash,
        pebs,
        changed_pebs: 0,
        erased_pebs: 0,
        runs: Vec::new(),
        misfits: Vec::new(),
        new_bytes: new.bytes(),
    };
    let mut bad = Vec::new();
    for peb in 0..old_pebs.max(new_pebs) {
        let Some(erased) = change(old, new, u64::from(peb) * blocks.file_peb, blocks.file_peb)? else {
            continue;
        };
        if blocks.bad.contains(&peb) {
            bad.push(peb);
        } else {
            patch.add(peb, erased);
        }
    }
    if new_pebs > pebs {
        let (new, own) = (u64::from(new_pebs) * blocks.peb, u64::from(pebs) * blocks.peb);
        patch.misfits.push(format!("the new image takes {}, the partition has {}", size(new), size(own)));
    }
    if !bad.is_empty() {
        let named: Vec<String> = bad.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if bad.len() > NAMED { ", ..." } else { "" };
        let what = count(bad.len() as u64, "PEB");
        let are = if bad.len() == 1 { "is a bad block" } else { "are bad blocks" };
        patch.misfits.push(format!("{what} that would change {are}: {}{more}", named.join(", ")));
    }
    Ok(patch)
}

/// Result for a block: `None` if it is the same in both files, otherwise true if it is erased in the new image. Flash
/// after the end of a file counts as erased.
fn change(old: &Side<'_>, new: &Side<'_>, at: u64, len: u64) -> Result<Option<bool>, PatchError> {
    let (mut differs, mut erased) = (false, true);
    let chunk = usize::try_from(CHUNK.min(len)).unwrap_or(0);
    let (mut one, mut other) = (vec![0; chunk], vec![0; chunk]);
    for start in (at..at + len).step_by(chunk.max(1)) {
        let piece = usize::try_from((at + len - start).min(CHUNK)).unwrap_or(0);
        old.read(start, &mut one[..piece])?;
        new.read(start, &mut other[..piece])?;
        differs |= one[..piece] != other[..piece];
        erased &= other[..piece].iter().all(|byte| *byte == 0xFF);
    }
    Ok(differs.then_some(erased))
}

impl Patch {
    fn add(&mut self, peb: u32, erased: bool) {
        self.changed_pebs += 1;
        self.erased_pebs += u32::from(erased);
        let bytes = u64::from(self.peb_bytes);
        match self.runs.last_mut() {
            Some(run) if run.first_peb + run.pebs == peb && run.erased == erased => {
                run.pebs += 1;
                run.len += bytes;
            }
            _ => {
                let offset = u64::from(peb) * bytes;
                self.runs.push(Run { first_peb: peb, pebs: 1, offset, len: bytes, erased });
            }
        }
    }

    /// Commands that write the changed PEBs from a new image with this file name. `base` is the offset of the
    /// partition in the flash, which U-Boot needs.
    ///
    /// # Errors
    /// The name has control characters, no PEB begins at `base`, or the last page of a file with OOB is incomplete.
    pub fn script(&self, kind: ScriptKind, new: &Path, base: u64) -> Result<String, PatchError> {
        if let Some(page) = self.page_file_bytes.filter(|page| !self.new_bytes.is_multiple_of((*page).into()))
        {
            return Err(PatchError::PartOfPage { path: new.to_owned(), bytes: self.new_bytes, page });
        }
        match kind {
            ScriptKind::Mtd => Ok(self.shell(printable(new)?)),
            ScriptKind::Uboot => {
                let end = self.runs.last().map_or(0, |run| run.offset + run.len);
                if !base.is_multiple_of(self.peb_bytes.into()) || base.checked_add(end).is_none() {
                    return Err(PatchError::Base { base, peb: self.peb_bytes });
                }
                let name = Path::new(new.file_name().unwrap_or_default());
                Ok(self.uboot(printable(name)?, base))
            }
        }
    }

    /// Splits a run into pieces, of which a board can store a copy.
    fn pieces(&self, run: Run) -> impl Iterator<Item = Run> {
        let bytes = u64::from(self.peb_bytes);
        let fitting = u32::try_from(PIECE / u64::from(self.file_peb_bytes.max(1))).unwrap_or(u32::MAX);
        let most = if run.erased { run.pebs } else { fitting }.max(1);
        (0..run.pebs).step_by(most as usize).map(move |first| {
            let pebs = most.min(run.pebs - first);
            let offset = run.offset + u64::from(first) * bytes;
            let len = u64::from(pebs) * bytes;
            Run { first_peb: run.first_peb + first, pebs, offset, len, erased: run.erased }
        })
    }

    /// Start and end of a run in the files.
    fn in_files(&self, run: &Run) -> (u64, u64) {
        let peb = u64::from(self.file_peb_bytes);
        (u64::from(run.first_peb) * peb, (u64::from(run.first_peb) + u64::from(run.pebs)) * peb)
    }

    fn shell(&self, name: &str) -> String {
        let name = name.replace('\'', r"'\''");
        let Self { changed_pebs, pebs, new_bytes, file_peb_bytes, .. } = self;
        let mut text = format!(
            "#!/bin/sh\n# Writes {changed_pebs} of {pebs} PEBs. Usage: sh SCRIPT /dev/mtdN\nset -e\nMTD=${{1:?/dev/mtdN}}\nNEW='{name}'\nBYTES={new_bytes}\nPEB={file_peb_bytes}\n",
        );
        text.push_str(CHECKS);
        for run in self.runs.iter().flat_map(|run| self.pieces(*run)) {
            let Run { first_peb, pebs, offset, erased, .. } = run;
            if erased {
                let _ = writeln!(text, "flash_erase \"$MTD\" {offset:#x} {pebs}");
                continue;
            }
            let (start, end) = self.in_files(&run);
            let bytes = self.new_bytes.clamp(start, end) - start;
            let _ = writeln!(text, "piece {first_peb} {pebs} {bytes}");
            let _ = writeln!(text, "flash_erase \"$MTD\" {offset:#x} {pebs}");
            let _ = match self.flash {
                FlashKind::Nor => {
                    writeln!(text, "dd if=\"$TMP\" of=\"$MTD\" bs=\"$PEB\" seek={first_peb} conv=notrunc")
                }
                FlashKind::Nand => {
                    writeln!(text, "nandwrite --noskipbad --skip-all-ffs -p -s {offset:#x} \"$MTD\" \"$TMP\"")
                }
                // `nandwrite` does not pad the data if the OOB comes from the file, whose pages are complete.
                FlashKind::NandWithOob => {
                    writeln!(text, "nandwrite --noskipbad -n -o -s {offset:#x} \"$MTD\" \"$TMP\"")
                }
            };
        }
        text
    }

    fn uboot(&self, name: &str, base: u64) -> String {
        let command = if self.flash == FlashKind::Nor { "sf" } else { "nand" };
        let mut text = format!(
            "# Writes {} of {} PEBs. First load {name} to ${{loadaddr}}, for example: tftpboot ${{loadaddr}} FILE\n",
            self.changed_pebs, self.pebs
        );
        // The last PEB is written completely: the memory after the end of the file is filled with FFh, like erased
        // flash.
        let written = self.runs.iter().filter(|run| !run.erased).map(|run| self.in_files(run).1).max();
        if let Some(tail) = written.and_then(|end| end.checked_sub(self.new_bytes)).filter(|tail| *tail > 0) {
            let end = self.new_bytes;
            let _ = writeln!(text, "setexpr src ${{loadaddr}} + {end:#x}\nmw.b ${{src}} 0xff {tail:#x}");
        }
        if command == "sf" {
            text.push_str("sf probe\n");
        }
        for run in &self.runs {
            let (at, len) = (base + run.offset, run.len);
            let _ = writeln!(text, "{command} erase {at:#x} {len:#x}");
            if run.erased {
                continue;
            }
            let from = self.in_files(run).0;
            let _ = writeln!(text, "setexpr src ${{loadaddr}} + {from:#x}");
            let pages = self
                .page_file_bytes
                .filter(|bytes| *bytes > 0)
                .map(|bytes| u64::from(run.pebs) * u64::from(self.file_peb_bytes / bytes));
            let _ = match (self.flash, pages) {
                (FlashKind::NandWithOob, Some(pages)) => {
                    writeln!(text, "nand write.raw ${{src}} {at:#x} {pages:#x}")
                }
                (FlashKind::Nand, _) => writeln!(text, "nand write.trimffs ${{src}} {at:#x} {len:#x}"),
                _ => writeln!(text, "{command} write ${{src}} {at:#x} {len:#x}"),
            };
        }
        text
    }
}

/// Name of a file, if it fits on one line of a script.
fn printable(path: &Path) -> Result<&str, PatchError> {
    let name = path.to_str().filter(|name| !name.contains(char::is_control));
    name.ok_or_else(|| PatchError::Name(path.to_owned()))
}
