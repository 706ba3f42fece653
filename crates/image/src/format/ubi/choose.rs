//! Selection of one of several volumes of a UBI device.

use super::attach::FileUbi;
use crate::ImageError;
use crate::format::magic::{HEAD_BYTES, format_of, holds_ubifs, is_node};
use crate::selection::Selection;
use crate::words::show_name;

/// The named volume, or the only volume.
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

/// Number of a volume, and its name for display.
pub(crate) type NamedVolume = (u32, String);

/// Number of the volume with this name or number.
fn named(volumes: &[NamedVolume], wanted: &str) -> Result<u32, ImageError> {
    let by_name = volumes.iter().find(|(_, name)| name == wanted);
    let by_id = || volumes.iter().find(|(id, _)| wanted.parse() == Ok(*id));
    let missing = || ImageError::NoVolume {
        wanted: wanted.to_owned(),
        names: volumes.iter().map(|(_, name)| name.clone()).collect(),
    };
    by_name.or_else(by_id).map(|&(id, _)| id).ok_or_else(missing)
}

/// Reads the start of a LEB of a volume: no bytes for an unreadable LEB, and `None` after the last.
type ReadHead<'r> = dyn FnMut(u32, u32) -> Option<Vec<u8>> + 'r;

/// Volume with the selected filesystem: the named volume, or the only volume with a UBIFS.
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
    // A filesystem that is damaged at its start may still be readable.
    let is_other = !holds_ubifs(&mut |lnum| head(id, lnum))
        && head(id, 0).is_some_and(|head| format_of(&head).is_some());
    let of_id: Vec<NamedVolume> = volumes.iter().filter(|volume| volume.0 == id).cloned().collect();
    if is_other { Err(no_filesystem(&of_id, head)) } else { Ok(id) }
}

/// Starts of all LEBs of a volume.
fn heads<'h>(id: u32, head: &'h mut ReadHead<'_>) -> impl Iterator<Item = Vec<u8>> + 'h {
    (0..).map_while(move |lnum| head(id, lnum))
}

fn no_filesystem(volumes: &[NamedVolume], head: &mut ReadHead<'_>) -> ImageError {
    let content = |(id, name): &NamedVolume| {
        let content = match head(*id, 0).and_then(|head| format_of(&head)) {
            Some(format) => format.name(),
            None if heads(*id, head).all(|head| head.iter().all(|&byte| byte == 0xFF)) => "empty",
            None => "unknown contents",
        };
        (name.clone(), content)
    };
    ImageError::NoFilesystem(volumes.iter().map(content).collect())
}

/// Volume of an attached device with the remains of the selected filesystem, which may be anywhere in the volume.
pub(crate) fn choose_remains(ubi: &mut FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let volumes: Vec<NamedVolume> =
        ubi.volumes().map(|volume| (volume.id, show_name(&volume.name))).collect();
    choose_filesystem(&volumes, selection, &mut |id, lnum| read_head(ubi, id, lnum))
}

/// Volume of an attached device whose filesystem is to be mounted: LEBs of the volume begin with nodes.
pub(crate) fn choose_ubifs(ubi: &mut FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let id = choose_remains(ubi, selection)?;
    let name = show_name(&ubi.volume(id)?.name);
    let mut head = |id, lnum| read_head(ubi, id, lnum);
    // An unreadable LEB may begin with a node.
    let has_nodes = heads(id, &mut head).any(|head| head.is_empty() || is_node(&head));
    if has_nodes { Ok(id) } else { Err(no_filesystem(&[(id, name)], &mut head)) }
}

/// Reads the start of a LEB of a device; see [`ReadHead`].
fn read_head(ubi: &mut FileUbi, id: u32, lnum: u32) -> Option<Vec<u8>> {
    let volume = ubi.volume(id).ok().filter(|volume| lnum < volume.used_lebs)?;
    let mut head = vec![0; HEAD_BYTES.min(volume.usable_leb_bytes as usize)];
    Some(ubi.read_leb(id, lnum, 0, &mut head).map_or_else(|_| Vec::new(), |()| head))
}
