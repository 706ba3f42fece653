//! Mount of a JFFS2 in a file for reading, and the damage that the mount finds.

use std::collections::BTreeMap;

use floatgate_mtd::{FlashKind, Geometry, Instant};
use floatgate_stack::fs::{FileSystem, FileType};
use floatgate_stack::jffs2::{Damage, Fault, Jffs2, MountError, MountOptions};
use floatgate_stack::store::Window;
use floatgate_stack::{Store, StoreFlash, StoreMode};

use super::shape::Jffs2Shape;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::Origin;
use crate::report::Loss;
use crate::walk::Walk;
use crate::words::{count, show_path};

/// A JFFS2 mounted from a file.
pub(crate) type FileJffs2 = Jffs2<FileFlash>;

/// Part of a file that contains a JFFS2, as flash.
type FileFlash = StoreFlash<Window<Box<dyn Store>>>;

/// Mounts a JFFS2 for reading.
///
/// # Errors
/// No part of the image can be mounted, or the host reports an error.
pub(crate) fn mount(
    store: Box<dyn Store>,
    found: &ImageLocation,
    shape: &Jffs2Shape,
) -> Result<FileJffs2, ImageError> {
    mount_as(store, found, shape, false)
}

/// Mounts a JFFS2 for reading, with `is_earlier` in its state at an earlier point in time. Obsolete nodes then differ
/// from the marks on flash and from the summaries.
pub(super) fn mount_as(
    store: Box<dyn Store>,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    is_earlier: bool,
) -> Result<FileJffs2, ImageError> {
    let window = Window::new(store, found.offset, found.len);
    let kind = if shape.is_nor() || is_earlier { FlashKind::Nor } else { FlashKind::SlcNand };
    let geometry = Geometry { kind, ..geometry(shape, found.len) };
    let flash = StoreFlash::new(window, geometry, StoreMode::ReadOnly);
    let flash = flash.with_bad_blocks(found.bad_pebs.iter().copied());
    let endian = Some(shape.endian());
    let ignores_summaries = is_earlier;
    let options =
        MountOptions { endian, ignores_summaries, is_earlier, stable: true, ..MountOptions::read_only() };
    mount_flash(flash, &options)
}

/// Losses that reads of the files do not show: ranges of files without nodes, which Linux does not report either, and
/// nodes of the other byte order or magic number.
pub(crate) fn losses(fs: &mut FileJffs2, reason: &str) -> Vec<Loss> {
    let mut losses = Vec::new();
    if fs.counts().foreign_nodes > 0 {
        let nodes = count(fs.counts().foreign_nodes, "node");
        losses.push(Loss::new(&[], format!("{nodes} of the other byte order or magic left out")));
    }
    let mut walk = Walk::new(fs.root());
    // First name of each file that is not whole.
    let mut seen: BTreeMap<u32, Option<Vec<Vec<u8>>>> = BTreeMap::new();
    while let Some(directory) = walk.next(fs) {
        let Ok(directory) = directory else { continue };
        for entry in directory.entries.into_iter().filter(|entry| entry.file_type == FileType::Regular) {
            let path = [directory.path.as_slice(), &[entry.name]].concat();
            if let Some(first) = seen.get(&entry.inode) {
                let first =
                    first.iter().map(|first| format!("another name of {}, see there", show_path(first)));
                losses.extend(first.map(|what| Loss::new(&path, what)));
                continue;
            }
            let gaps = fs.gaps(entry.inode).unwrap_or_default();
            seen.insert(entry.inode, (!gaps.is_empty()).then(|| path.clone()));
            losses.extend(
                gaps.into_iter().map(|gap| {
                    Loss::new(&path, format!("bytes {} to {} {reason}: zeros", gap.start, gap.end))
                }),
            );
        }
    }
    losses
}

/// Damage that a mount has found so far.
pub(crate) fn damage(fs: &FileJffs2, origin: &Origin) -> Vec<ReportedDamage> {
    let reported = |damage: &Damage| {
        let what = match &damage.fault {
            Fault::Missing { .. } => damage.fault.to_string(),
            fault => Damage { at: origin.file_byte(damage.at), fault: fault.clone() }.to_string(),
        };
        let is_kept = matches!(damage.fault, Fault::Summary | Fault::Marked | Fault::LastVersion { .. });
        ReportedDamage { what, is_kept }
    };
    fs.damaged_nodes().iter().map(reported).collect()
}

/// Description of a damage, with its offset in the file.
pub(crate) struct ReportedDamage {
    pub(crate) what: String,
    /// True if all nodes about which the damage is can be read, so that no contents are lost.
    pub(crate) is_kept: bool,
}

pub(super) fn mount_flash(flash: FileFlash, options: &MountOptions) -> Result<FileJffs2, ImageError> {
    Jffs2::mount(flash, Instant::ZERO, options).map_err(|(error, flash)| match flash.host_error() {
        Some(host) => ImageError::Store(host.clone()),
        None => match error {
            MountError::Nameless(files) => ImageError::Nameless(files),
            error => ImageError::Jffs2(error),
        },
    })
}

/// Flash for which a JFFS2 was made, without its page size, which does not matter for reading.
pub(super) fn geometry(shape: &Jffs2Shape, len: u64) -> Geometry {
    let size_bytes = len.next_multiple_of(u64::from(shape.erase_bytes));
    Geometry::plain(FlashKind::Nor, size_bytes, shape.erase_bytes, 1)
}
