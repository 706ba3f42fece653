//! Attributes of a file in an image, in the form of the JSON.

use crate::words::show_name;
use floatgate_stack::fs::{Attributes, FileType, Timestamp};
use serde::Serialize;

/// A file of an image with its attributes, in the form of the JSON.
#[derive(Serialize)]
pub struct FileRow {
    /// The path from the root; bytes that are not UTF-8 as `\xNN`.
    pub path: String,
    /// Inode number.
    pub inode: u32,
    /// Name of the type: `file`, `directory`, `symlink` and so on.
    #[serde(rename = "type")]
    pub file_type: &'static str,
    /// Permission bits, as a number.
    pub permissions: u32,
    /// Number of names.
    pub links: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Seconds since 1970 of the last change of the contents, with nanoseconds as decimals.
    pub mtime: String,
    /// Seconds since 1970 of the last access, with nanoseconds as decimals.
    pub atime: String,
    /// Seconds since 1970 of the last change of the inode, with nanoseconds as decimals.
    pub ctime: String,
    /// Major and minor number of a device.
    pub device: Option<[u32; 2]>,
    /// Target of a symbolic link.
    pub target: Option<String>,
    /// Number of extended attributes.
    pub xattrs: u32,
    /// True when the contents are encrypted.
    pub encrypted: bool,
}

impl FileRow {
    /// Row of the file at `path`; `target` is the target of a symbolic link.
    pub fn new(path: String, attributes: &Attributes, target: Option<&[u8]>) -> Self {
        Self {
            path,
            inode: attributes.inode,
            file_type: type_name(attributes.file_type),
            permissions: attributes.mode & 0o7777,
            links: attributes.links,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size,
            mtime: seconds(attributes.mtime),
            atime: seconds(attributes.atime),
            ctime: seconds(attributes.ctime),
            device: attributes.device.map(|device| [device.major, device.minor]),
            target: target.map(show_name),
            xattrs: attributes.xattr_count,
            encrypted: attributes.is_encrypted(),
        }
    }
}

const fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::BlockDevice => "block-device",
        FileType::CharacterDevice => "character-device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::Other(_) => "unknown",
    }
}

/// Seconds since 1970 with nine decimals.
fn seconds(time: Timestamp) -> String {
    format!("{}.{:09}", time.seconds, time.nanoseconds)
}
