//! Eraseblocks in which two images differ, and the commands that write only those.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use floatgate_stack::Store;
use serde::Serialize;

use crate::ImageError;
use crate::image::{Access, Image};
use crate::pages::FlashSizes;
use crate::words::{count, size};
use crate::write_back::WriteBack;

/// Bytes that are compared together at most.
const CHUNK: u64 = 1 << 20;

/// Most blocks of bad flash that a report names.
const NAMED: usize = 16;

/// Flash that a patch is for, as far as the images do not tell.
#[derive(Clone, Debug, Default)]
pub struct PatchOptions {
    /// Sizes of the flash that were stated.
    pub sizes: FlashSizes,
    /// Bytes of the partition; those of the old dump unless given.
    pub partition_bytes: Option<u64>,
    /// Numbers of PEBs that are bad, beside those that the OOB of the old dump marks.
    pub bad_pebs: Vec<u32>,
}

/// Kind of flash, as far as it decides how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlashKind {
    /// NOR, written byte by byte.
    Nor,
    /// NAND, whose controller adds the OOB.
    Nand,
    /// NAND, in files that have the OOB.
    NandWithOob,
}

/// PEBs that follow each other and change together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Number of the first PEB.
    pub first_peb: u32,
    /// Number of PEBs.
    pub pebs: u32,
    /// First byte on the flash.
    pub offset: u64,
    /// Length on the flash, bytes.
    pub len: u64,
    /// They are erased in the new image: nothing is written.
    pub erased: bool,
}

/// Difference of two images in eraseblocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// Bytes of a PEB on the flash.
    pub peb_bytes: u32,
    /// Bytes of a PEB in the files; more where they have the OOB.
    pub file_peb_bytes: u32,
    /// Bytes of a page with its OOB, where the files have it.
    pub page_file_bytes: Option<u32>,
    /// Kind of flash.
    pub flash: FlashKind,
    /// PEBs of the partition.
    pub pebs: u32,
    /// PEBs that change.
    pub changed_pebs: u32,
    /// Of these, PEBs that are erased in the new image.
    pub erased_pebs: u32,
    /// The PEBs that change.
    pub runs: Vec<Run>,
    /// Reasons for which the new image does not fit the partition.
    pub misfits: Vec<String>,
}

/// Language of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// A shell with mtd-utils.
    Mtd,
    /// U-Boot.
    Uboot,
}

/// Sizes, kind and bad blocks of the flash that two files are for.
struct Blocks {
    peb: u64,
    file_peb: u64,
    page_file: Option<u32>,
    flash: FlashKind,
    bad: BTreeSet<u32>,
}

impl Blocks {
    fn of(image: Option<&Image>, options: &PatchOptions) -> Result<Self, ImageError> {
        let mut bad: BTreeSet<u32> = options.bad_pebs.iter().copied().collect();
        let pages = image.and_then(|image| image.corrected.as_ref());
        if let Some(corrected) = pages {
            bad.extend(corrected.bad_blocks.iter().filter_map(|block| u32::try_from(*block).ok()));
            let pages = corrected.pages;
            let peb = u64::from(pages.block_bytes());
            let file_peb = u64::from(pages.stride()) * u64::from(pages.pages_per_block);
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

/// Opens what may hold anything; `None` where nothing is found.
fn opened(path: &Path, sizes: FlashSizes) -> Result<Option<Image>, ImageError> {
    match Image::open_sized(path, Access::Read, sizes) {
        Ok(image) => Ok(Some(image)),
        Err(error) if error.is_of_contents() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Compares an old image or dump with a new one.
///
/// # Errors
/// A file cannot be read; nothing tells the size of the eraseblocks.
pub fn patch(old: &Path, new: &Path, options: &PatchOptions) -> Result<Patch, ImageError> {
    let image = match opened(old, options.sizes)? {
        Some(image) => Some(image),
        None => opened(new, options.sizes)?,
    };
    let blocks = Blocks::of(image.as_ref(), options)?;
    let [old, new] = [old, new].map(|path| {
        let file = floatgate_host::open::open_file(path, false).map_err(ImageError::File)?;
        crate::image::store_of(&std::sync::Arc::new(file))
    });
    compare(&*old?, &*new?, &blocks, options.partition_bytes)
}

fn compare(
    old: &dyn Store,
    new: &dyn Store,
    blocks: &Blocks,
    partition: Option<u64>,
) -> Result<Patch, ImageError> {
    let in_blocks = |bytes: u64, block: u64| u32::try_from(bytes.div_ceil(block)).unwrap_or(u32::MAX);
    let old_pebs = in_blocks(old.size_bytes(), blocks.file_peb);
    let new_pebs = in_blocks(new.size_bytes(), blocks.file_peb);
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
        patch.misfits.push(format!("{what} that would change are bad blocks: {}{more}", named.join(", ")));
    }
    Ok(patch)
}

/// Result for a block: `None` if it is the same in both, else true if it is erased in the new image. Behind the end of a file flash is erased.
fn change(old: &dyn Store, new: &dyn Store, at: u64, len: u64) -> Result<Option<bool>, ImageError> {
    let (mut differs, mut erased) = (false, true);
    let chunk = usize::try_from(CHUNK.min(len)).unwrap_or(0);
    let (mut one, mut other) = (vec![0; chunk], vec![0; chunk]);
    for start in (at..at + len).step_by(chunk.max(1)) {
        let piece = usize::try_from((at + len - start).min(CHUNK)).unwrap_or(0);
        old.read_at(start, &mut one[..piece]).map_err(ImageError::Store)?;
        new.read_at(start, &mut other[..piece]).map_err(ImageError::Store)?;
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

    /// Commands that write the PEBs that change, for a new image with a file name. `base` is the byte of the flash where the partition begins, which U-Boot
    /// needs.
    #[must_use]
    pub fn script(&self, kind: ScriptKind, new: &Path, base: u64) -> String {
        match kind {
            ScriptKind::Mtd => self.shell(new),
            ScriptKind::Uboot => self.uboot(new, base),
        }
    }

    fn shell(&self, new: &Path) -> String {
        let name = new.display().to_string().replace('\'', r"'\''");
        let mut text = format!(
            "#!/bin/sh\n# Writes {} of {} PEBs. Usage: sh SCRIPT /dev/mtdN\nset -e\nMTD=${{1:?/dev/mtdN}}\nNEW='{name}'\n",
            self.changed_pebs, self.pebs
        );
        for run in &self.runs {
            let Run { first_peb, pebs, offset, erased, .. } = *run;
            let _ = writeln!(text, "flash_erase \"$MTD\" {offset:#x} {pebs}");
            if erased {
                continue;
            }
            let read = format!("dd if=\"$NEW\" bs={} skip={first_peb} count={pebs}", self.file_peb_bytes);
            let _ = match self.flash {
                FlashKind::Nor => {
                    writeln!(text, "{read} of=\"$MTD\" seek={first_peb} conv=notrunc")
                }
                FlashKind::Nand => {
                    writeln!(text, "{read} | nandwrite --noskipbad --skip-all-ffs -s {offset:#x} \"$MTD\" -")
                }
                FlashKind::NandWithOob => {
                    writeln!(text, "{read} | nandwrite --noskipbad -n -o -s {offset:#x} \"$MTD\" -")
                }
            };
        }
        text
    }

    fn uboot(&self, new: &Path, base: u64) -> String {
        let command = if self.flash == FlashKind::Nor { "sf" } else { "nand" };
        let name = new.file_name().unwrap_or_default().display().to_string().replace(['\n', '\r'], "?");
        let mut text = format!(
            "# Writes {} of {} PEBs. First load {name} to ${{loadaddr}}, for example: tftpboot ${{loadaddr}} FILE\n",
            self.changed_pebs, self.pebs
        );
        if command == "sf" {
            text.push_str("sf probe\n");
        }
        for run in &self.runs {
            let (at, len) = (base + run.offset, run.len);
            let _ = writeln!(text, "{command} erase {at:#x} {len:#x}");
            if run.erased {
                continue;
            }
            let from = u64::from(run.first_peb) * u64::from(self.file_peb_bytes);
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
