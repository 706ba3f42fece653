//! Which of several images, volumes and filesystems is meant.

use floatgate_stack::ubifs::Authenticate;

use super::FileUbi;
use crate::ImageError;
use crate::content::{HEAD_BYTES, format_of, holds_ubifs, is_node};
use crate::detect::PageShape;
use crate::extract::show_name;
use crate::fit::TargetFlash;
use crate::format::ubi::pages::usual_block;

/// Selection of one of several images and volumes, of what is verified in its filesystem, and of the flash that it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Offset of the image in the file, bytes.
    pub offset: Option<u64>,
    /// Name or number of a volume.
    pub volume: Option<String>,
    /// Verification of a filesystem with authentication.
    pub authenticate: Authenticate,
    /// Bytes of a PEB or eraseblock of the flash, which not every JFFS2 tells.
    pub peb_bytes: Option<u32>,
    /// The flash that the image is to fit; `check` and `info` say whether it does.
    pub flash: Option<TargetFlash>,
    /// Pages of a dump with OOB.
    pub pages: PageSizes,
}

/// Sizes of flash that were stated; those that were not are found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashSizes {
    /// Bytes of a PEB or eraseblock.
    pub peb_bytes: Option<u32>,
    /// Sizes of pages.
    pub pages: PageSizes,
}

/// Sizes of pages that were stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSizes {
    /// Data bytes of a page.
    pub page_bytes: Option<u32>,
    /// OOB bytes of a page.
    pub oob_bytes: Option<u32>,
    /// Pages of a block.
    pub pages_per_block: Option<u32>,
}

impl From<&Selection> for FlashSizes {
    fn from(selection: &Selection) -> Self {
        Self { peb_bytes: selection.peb_bytes, pages: selection.pages }
    }
}

/// The size of a PEB alone.
impl From<Option<u32>> for FlashSizes {
    fn from(peb_bytes: Option<u32>) -> Self {
        Self { peb_bytes, ..Self::default() }
    }
}

impl FlashSizes {
    /// True when pages contradict nothing that was stated.
    pub(crate) fn allows(&self, pages: &PageShape) -> bool {
        let PageSizes { page_bytes, oob_bytes, pages_per_block } = self.pages;
        let is = |stated: Option<u32>, own| stated.is_none_or(|stated| stated == own);
        is(page_bytes, pages.page_bytes)
            && is(oob_bytes, pages.oob_bytes)
            && is(pages_per_block, pages.pages_per_block)
    }

    /// Pages whose sizes were stated, and whether the number of pages of a block was: a usual one takes its place.
    pub(super) fn stated_pages(&self) -> Option<(PageShape, bool)> {
        let PageSizes { page_bytes, oob_bytes, pages_per_block } = self.pages;
        let (page_bytes, oob_bytes) = (page_bytes.filter(|&bytes| bytes > 0)?, oob_bytes?);
        let of_peb = self.peb_bytes.map(|bytes| bytes / page_bytes).filter(|&pages| pages > 0);
        let stated = pages_per_block.or(of_peb);
        let pages_per_block = stated.unwrap_or_else(|| usual_block(page_bytes));
        Some((PageShape { page_bytes, oob_bytes, pages_per_block }, stated.is_some()))
    }
}

/// The volume that was named, or the only one.
pub(crate) fn choose_volume(ubi: &FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let volumes: Vec<NamedVolume> =
        ubi.volumes().map(|volume| (volume.id, show_name(&volume.name))).collect();
    match (&selection.volume, volumes.as_slice()) {
        (Some(wanted), _) => named(&volumes, wanted),
        (None, []) => Err(ImageError::NoVolumes),
        (None, [(only, _)]) => Ok(*only),
        (None, _) => Err(ImageError::ChooseVolume(volumes.into_iter().map(|(_, name)| name).collect())),
    }
}

/// A volume's number, and its name as it is shown.
pub(crate) type NamedVolume = (u32, String);

/// The volume of a name or a number.
fn named(volumes: &[NamedVolume], wanted: &str) -> Result<u32, ImageError> {
    let by_name = volumes.iter().find(|(_, name)| name == wanted);
    let by_id = || volumes.iter().find(|(id, _)| wanted.parse() == Ok(*id));
    let missing = || ImageError::NoVolume {
        wanted: wanted.to_owned(),
        names: volumes.iter().map(|(_, name)| name.clone()).collect(),
    };
    by_name.or_else(by_id).map(|&(id, _)| id).ok_or_else(missing)
}

/// Reads the beginning of a LEB of a volume: no bytes of one that cannot be read, nothing behind the last.
type ReadHead<'r> = dyn FnMut(u32, u32) -> Option<Vec<u8>> + 'r;

/// The volume with the filesystem that is meant: the one that was named, or the only one with a UBIFS.
pub(crate) fn choose_filesystem(
    volumes: &[NamedVolume],
    selection: &Selection,
    head: &mut ReadHead<'_>,
) -> Result<u32, ImageError> {
    let id = match (&selection.volume, volumes) {
        (Some(wanted), _) => named(volumes, wanted)?,
        (None, []) => return Err(ImageError::NoVolumes),
        (None, [(only, _)]) => *only,
        (None, _) => {
            let with: Vec<&NamedVolume> =
                volumes.iter().filter(|(id, _)| holds_ubifs(&mut |lnum| head(*id, lnum))).collect();
            match with.as_slice() {
                [] => return Err(no_filesystem(volumes, head)),
                [(only, _)] => *only,
                several => {
                    let names = several.iter().map(|(_, name)| name.clone());
                    return Err(ImageError::ChooseVolume(names.collect()));
                }
            }
        }
    };
    // A filesystem that is damaged at its beginning may still be read.
    let is_other = !holds_ubifs(&mut |lnum| head(id, lnum))
        && head(id, 0).is_some_and(|head| format_of(&head).is_some());
    let of_id: Vec<NamedVolume> = volumes.iter().filter(|volume| volume.0 == id).cloned().collect();
    if is_other { Err(no_filesystem(&of_id, head)) } else { Ok(id) }
}

/// Beginnings of all LEBs of a volume.
fn heads<'h>(id: u32, head: &'h mut ReadHead<'_>) -> impl Iterator<Item = Vec<u8>> + 'h {
    (0..).map_while(move |lnum| head(id, lnum))
}

fn no_filesystem(volumes: &[NamedVolume], head: &mut ReadHead<'_>) -> ImageError {
    let content = |(id, name): &NamedVolume| {
        let content = match head(*id, 0).and_then(|head| format_of(&head)) {
            Some(format) => format,
            None if heads(*id, head).all(|head| head.iter().all(|&byte| byte == 0xFF)) => "empty",
            None => "unknown contents",
        };
        (name.clone(), content)
    };
    ImageError::NoFilesystem(volumes.iter().map(content).collect())
}

/// As [`choose_filesystem`], of an attached device: what is left of a filesystem may be anywhere in the volume.
pub(super) fn choose_remains(ubi: &mut FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let volumes: Vec<NamedVolume> =
        ubi.volumes().map(|volume| (volume.id, show_name(&volume.name))).collect();
    choose_filesystem(&volumes, selection, &mut |id, lnum| read_head(ubi, id, lnum))
}

/// As [`choose_filesystem`], of an attached device, to be mounted: nodes begin LEBs of the volume.
pub(super) fn choose_ubifs(ubi: &mut FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let id = choose_remains(ubi, selection)?;
    let name = show_name(&ubi.volume(id)?.name);
    let mut head = |id, lnum| read_head(ubi, id, lnum);
    // A LEB that cannot be read may begin with one.
    let has_nodes = heads(id, &mut head).any(|head| head.is_empty() || is_node(&head));
    if has_nodes { Ok(id) } else { Err(no_filesystem(&[(id, name)], &mut head)) }
}

/// Reads the beginning of a LEB of a device, as [`ReadHead`] says.
fn read_head(ubi: &mut FileUbi, id: u32, lnum: u32) -> Option<Vec<u8>> {
    let volume = ubi.volume(id).ok().filter(|volume| lnum < volume.used_lebs)?;
    let mut head = vec![0; HEAD_BYTES.min(volume.usable_leb_bytes as usize)];
    Some(ubi.read_leb(id, lnum, 0, &mut head).map_or_else(|_| Vec::new(), |()| head))
}
