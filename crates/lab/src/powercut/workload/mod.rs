//! Reference workload: the operations during which power may be cut.

mod apply;

pub(super) use apply::{Durable, LiveFiles, run};
use floatgate_stack::fs::Rename;

use floatgate_mtd::random::Random;

/// Names of files. They are few, so that they are reused often; the first ones have the same beginning.
pub(super) const NAMES: [&[u8]; 9] = [
    b"name one",
    b"name two",
    b"name-that-is-somewhat-longer-than-the-others-and-than-the-unit-in-which-an-entry-is-aligned",
    b"a",
    b"b",
    b"config",
    b"log.1",
    b"x y",
    b"\xFF\xE9",
];

/// Names of extended attributes.
pub(super) const XATTRS: [&[u8]; 3] = [b"user.one", b"trusted.two", b"security.three"];

/// Maximum size of a file, bytes: more blocks give more states, but not more kinds of states.
const FILE_BYTES: u64 = 24_000;

/// Maximum number of bytes of a write.
const WRITE_BYTES: usize = 9000;

/// One operation on the filesystem. Directories, files and names are given by numbers; their meaning depends on the
/// existing files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Creates a file of any kind.
    Create { directory: usize, name: usize, kind: Kind },
    /// Creates a file without a name (`O_TMPFILE`).
    CreateUnnamed { directory: usize },
    /// Writes data at the end of the file.
    Append { file: usize, len: usize, seed: u64 },
    /// Writes data over old data or after a hole. With `sync`, the data must then be on flash (`O_SYNC`).
    Write { file: usize, offset: u64, len: usize, seed: u64, sync: bool },
    /// Truncates a file, or extends it by a hole.
    Truncate { file: usize, size: u64 },
    /// Creates another name for a file.
    Link { file: usize, directory: usize, name: usize },
    /// Removes a name.
    Unlink { directory: usize, name: usize },
    /// Renames a file, perhaps onto an existing name.
    Rename { from: (usize, usize), to: (usize, usize), how: Rename },
    /// Sets an extended attribute.
    SetXattr { file: usize, name: usize, len: usize, seed: u64 },
    /// Removes an extended attribute.
    RemoveXattr { file: usize, name: usize },
    /// Changes permissions and owner.
    SetAttributes { file: usize, permissions: u32, uid: u32 },
    /// Makes changes of a file or directory synchronous, or not (`chattr +S`).
    SetSync { file: usize, directory: bool, sync: bool },
    /// Opens a file, which then exists even after it loses its last name.
    Open { file: usize },
    /// Closes the file that was opened first.
    Close,
    /// Syncs one file or directory (`fsync`).
    Fsync { file: usize, directory: bool },
    /// Syncs the whole filesystem (`sync`).
    Sync,
    /// Lets time pass.
    Idle,
    /// Unmounts the filesystem and mounts it again.
    Remount,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Regular file with data.
    Regular,
    /// Directory with names.
    Directory,
    /// Symbolic link with a target.
    Symlink,
    /// Device file with its numbers.
    Device,
    /// Named pipe, which has no contents.
    Fifo,
}

impl Step {
    /// Name in reports.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } | Self::CreateUnnamed { .. } => "create",
            Self::Append { .. } => "append",
            Self::Write { sync: false, .. } => "overwrite",
            Self::Write { sync: true, .. } => "write with O_SYNC",
            Self::Truncate { .. } => "truncate",
            Self::Link { .. } => "link",
            Self::Unlink { .. } => "unlink",
            Self::Rename { how: Rename::Exchange, .. } => "exchange",
            Self::Rename { .. } => "rename",
            Self::SetXattr { .. } | Self::RemoveXattr { .. } => "xattr",
            Self::SetAttributes { .. } | Self::SetSync { .. } => "attributes",
            Self::Open { .. } | Self::Close => "open and close",
            Self::Fsync { .. } => "fsync",
            Self::Sync => "sync",
            Self::Idle => "idle",
            Self::Remount => "remount",
        }
    }
}

/// Steps that follow from a seed.
pub(super) fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    (0..count).map(|_| step(&mut random)).collect()
}

fn step(random: &mut Random) -> Step {
    let (directory, name, file) = (random.index(4), random.index(NAMES.len()), random.index(16));
    let (len, seed) = (1 + random.index(WRITE_BYTES), random.bits());
    match random.index(100) {
        0..=15 => Step::Create { directory, name, kind: kind(random) },
        16 => Step::CreateUnnamed { directory },
        17..=26 => Step::Append { file, len, seed },
        27..=38 => {
            let offset = random.below(FILE_BYTES - WRITE_BYTES as u64);
            Step::Write { file, offset, len, seed, sync: random.once_in(6) }
        }
        39..=44 => Step::Truncate { file, size: random.below(FILE_BYTES) },
        45..=48 => Step::Link { file, directory, name },
        49..=57 => Step::Unlink { directory, name },
        58..=67 => Step::Rename {
            from: (directory, name),
            to: (random.index(4), random.index(NAMES.len())),
            how: how(random),
        },
        68..=71 => Step::SetXattr { file, name: random.index(XATTRS.len()), len: random.index(700), seed },
        72 | 73 => Step::RemoveXattr { file, name: random.index(XATTRS.len()) },
        74..=76 => Step::SetAttributes { file, permissions: 0o600 | seed as u32 & 0o177, uid: len as u32 },
        77 => Step::SetSync { file, directory: random.once_in(3), sync: random.once_in(2) },
        78..=80 => Step::Open { file },
        81 | 82 => Step::Close,
        83..=92 => Step::Fsync { file, directory: random.once_in(4) },
        93..=95 => Step::Sync,
        96..=98 => Step::Idle,
        _ => Step::Remount,
    }
}

fn kind(random: &mut Random) -> Kind {
    let kinds = [
        Kind::Regular,
        Kind::Regular,
        Kind::Regular,
        Kind::Regular,
        Kind::Directory,
        Kind::Directory,
        Kind::Symlink,
        Kind::Device,
        Kind::Fifo,
    ];
    kinds[random.index(kinds.len())]
}

fn how(random: &mut Random) -> Rename {
    let all = [
        Rename::Replace,
        Rename::Replace,
        Rename::Replace,
        Rename::KeepTarget,
        Rename::Exchange,
        Rename::Whiteout,
    ];
    all[random.index(all.len())]
}
