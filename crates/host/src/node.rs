//! Nodes of files and devices: opening, locks, and their properties in sysfs.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Opens a path with `open`, and rejects it if the node was replaced since `before` was read.
pub(crate) fn open_same(
    before: &Metadata,
    open: impl FnOnce() -> io::Result<File>,
) -> io::Result<(File, Metadata)> {
    let file = open()?;
    let opened = file.metadata()?;
    let node = |metadata: &Metadata| (metadata.dev(), metadata.ino(), metadata.rdev(), metadata.file_type());
    if node(before) == node(&opened) {
        return Ok((file, opened));
    }
    Err(io::Error::other("another file or device got this name while it was opened"))
}

/// Locks a file against other programs that use file locks. A block device is in addition opened exclusively.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(rustix::io::Errno::BUSY.into()),
        // Some network filesystems do not support locks.
        _ => Ok(()),
    }
}

/// True for the `f_type` (statfs(2)) of an in-memory filesystem: tmpfs and ramfs.
pub(crate) fn is_memory_filesystem(kind: u64) -> bool {
    [0x0102_1994, 0x8584_58F6].contains(&kind)
}

/// Folder in sysfs with a link for each block device, named by the device number.
pub(crate) const BLOCK_DEVICES: &str = "sys/dev/block";

/// Number of a block device in sysfs notation.
pub(crate) fn number(metadata: &Metadata) -> String {
    format!("{}:{}", rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()))
}

/// Sorted names in a folder; empty if the folder does not exist.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Text of a one-line file in sysfs.
pub(crate) fn line(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Numbers of a block device and its partitions in sysfs notation.
pub(crate) fn with_partitions(sysfs: &Path, number: &str) -> Vec<String> {
    let folder = sysfs.join(number);
    let partitions = names(&folder).into_iter().map(|name| folder.join(name));
    let partitions = partitions.filter(|path| path.join("partition").exists());
    std::iter::once(number.to_owned()).chain(partitions.filter_map(|path| line(&path.join("dev")))).collect()
}

/// Writes a file of a test, and makes its folders.
#[cfg(test)]
pub(crate) fn put(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    path.parent().map(std::fs::create_dir_all).transpose().unwrap();
    std::fs::write(path, bytes).unwrap();
}
