//! The table `[filesystem]` of a setup.

use floatgate_stack::ubi::AttachOptions;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Type of a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FilesystemKind {
    /// UBIFS on UBI.
    #[default]
    Ubifs,
    /// JFFS2 on the MTD device.
    Jffs2,
}

impl FilesystemKind {
    /// Name of the filesystem: `ubifs` or `jffs2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ubifs => "ubifs",
            Self::Jffs2 => "jffs2",
        }
    }
}

impl fmt::Display for FilesystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FilesystemKind {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = [Self::Ubifs, Self::Jffs2];
        all.into_iter().find(|kind| kind.name() == name).ok_or("there are `ubifs` and `jffs2`")
    }
}

/// Compression of new files, in the names of mount options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileCompression {
    /// Default of the filesystem: LZO for UBIFS; for JFFS2 zlib, and rtime where zlib gains nothing.
    #[default]
    Default,
    /// No compression.
    None,
    /// LZO (LZO1X).
    Lzo,
    /// Zlib (deflate).
    Zlib,
    /// Zstandard (zstd).
    Zstd,
}

/// Filesystem on the partition, with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filesystem {
    /// Kind of the filesystem.
    pub kind: FilesystemKind,
    /// Compression of new files; JFFS2 has no zstd.
    pub compression: FileCompression,
    /// True to mount UBIFS with `-o sync`: each change is on flash when the call returns.
    pub sync: bool,
    /// True to mount UBIFS with `-o bulk_read`: consecutive blocks of a file are read at once.
    pub bulk_read: bool,
    /// True if `df` reports all space of an empty UBIFS as free, and some LEBs less after the first write (Linux
    /// 2.6.27).
    pub empty_is_total: bool,
    /// True if UBI writes a fastmap, so that attaching reads only a few eraseblocks.
    pub fastmap: bool,
    /// Number of bad PEBs that UBI expects per 1024 PEBs of the whole chip (Linux: `max_beb_per1024`, 20).
    pub ubi_max_bad_per_1024: u32,
    /// True if UBI expects 1 % of the partition's PEBs to be bad, as in Linux before 3.7.
    pub ubi_bad_limit_of_partition: bool,
    /// True if each eraseblock of JFFS2 ends with a summary, so that mounting reads only the summaries.
    pub summaries: bool,
    /// True if JFFS2 marks obsolete nodes on NOR, with a program of 12 bytes for each (Linux without
    /// CONFIG_JFFS2_SUMMARY).
    pub marks_obsolete: bool,
}

impl Default for Filesystem {
    fn default() -> Self {
        Self {
            kind: FilesystemKind::default(),
            compression: FileCompression::default(),
            sync: false,
            bulk_read: false,
            empty_is_total: false,
            fastmap: false,
            ubi_max_bad_per_1024: AttachOptions::default().max_bad_per_1024,
            ubi_bad_limit_of_partition: false,
            summaries: false,
            marks_obsolete: false,
        }
    }
}
