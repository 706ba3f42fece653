//! The reference workload: what a filesystem is asked to do while power may go away.

use floatgate_stack::Volume;
use floatgate_stack::ubifs::{
    AttributeChanges, Error, Name, NewFile, NewKind, Rename, Result, SetXattr, Ubifs,
};
use floatgate_media::ubifs::Timestamp;

use super::random::Random;

/// Names that files get; few, so that they meet again and again.
const NAMES: [&[u8]; 8] = [b"a", b"b", b"config", b"log.1", b"data", b"x y", b"\xFF\xE9", b"a-name-that-is-somewhat-longer"];

/// Largest file, bytes: more blocks make more states, not more kinds of them.
const FILE_BYTES: u64 = 20_000;

/// One thing that is asked of the filesystem. Directories and names are numbers; what they stand for depends on what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file of any kind.
    Create { directory: usize, name: usize, kind: Kind },
    /// Data are written: over old ones, behind the end, or behind a hole.
    Write { file: usize, offset: u64, len: usize, seed: u64 },
    /// A file is cut or grows by a hole.
    Resize { file: usize, size: u64 },
    /// Another name for a file.
    Link { file: usize, directory: usize, name: usize },
    /// A name goes.
    Unlink { directory: usize, name: usize },
    /// A name changes, perhaps onto another.
    Rename { from: (usize, usize), to: (usize, usize), how: Rename },
    /// An extended attribute is set.
    SetXattr { file: usize, name: usize, len: usize, seed: u64 },
    /// An extended attribute goes.
    RemoveXattr { file: usize, name: usize },
    /// Permissions change.
    Chmod { file: usize, permissions: u32 },
    /// One file is brought to flash.
    Fsync { file: usize },
    /// Everything is brought to flash.
    Sync,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With data.
    Regular,
    /// With names.
    Directory,
    /// With a target.
    Symlink,
    /// Without anything.
    Fifo,
}

/// The steps of a seed.
pub fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    (0..count).map(|_| step(&mut random)).collect()
}

fn step(random: &mut Random) -> Step {
    let (directory, name, file) = (random.below(4), random.below(NAMES.len()), random.below(16));
    match random.below(26) {
        0..=4 => Step::Create { directory, name, kind: kind(random) },
        5..=10 => Step::Write {
            file,
            offset: random.below_u64(FILE_BYTES - 5000),
            len: 1 + random.below(5000),
            seed: random.next(),
        },
        11 | 12 => Step::Resize { file, size: random.below_u64(FILE_BYTES) },
        13 => Step::Link { file, directory, name },
        14..=16 => Step::Unlink { directory, name },
        17..=19 => {
            let how = [Rename::Replace, Rename::Replace, Rename::Exchange, Rename::Whiteout][random.below(4)];
            Step::Rename { from: (directory, name), to: (random.below(4), random.below(NAMES.len())), how }
        }
        20 => Step::SetXattr { file, name: random.below(3), len: random.below(600), seed: random.next() },
        21 => Step::RemoveXattr { file, name: random.below(3) },
        22 => Step::Chmod { file, permissions: 0o600 | (random.next() as u32 & 0o177) },
        23 | 24 => Step::Fsync { file },
        _ => Step::Sync,
    }
}

fn kind(random: &mut Random) -> Kind {
    [Kind::Regular, Kind::Regular, Kind::Regular, Kind::Directory, Kind::Symlink, Kind::Fifo][random.below(6)]
}

/// What is there that a step can work on: directories and regular files, by inode, in the order they were made.
#[derive(Clone, Debug, Default)]
pub struct Known {
    directories: Vec<u32>,
    files: Vec<u32>,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The inode whose data or attributes it changed, or that it brought to flash.
    pub inode: Option<u32>,
}

impl Known {
    fn directory(&self, root: u32, index: usize) -> u32 {
        if index == 0 { root } else { self.directories.get(index - 1).copied().unwrap_or(root) }
    }

    fn file(&self, index: usize) -> Option<u32> {
        if self.files.is_empty() { None } else { self.files.get(index % self.files.len()).copied() }
    }

    fn forget(&mut self, inode: u32) {
        self.directories.retain(|&other| other != inode);
        self.files.retain(|&other| other != inode);
    }
}

/// Bytes that look random.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    // Half of it repeats, so that compression has something to do.
    (0..len).map(|at| if at % 64 < 32 { b'.' } else { random.next() as u8 }).collect()
}

/// Runs a step. Steps that make no sense (a name that is not there, a directory moved below itself) do nothing.
///
/// # Errors
/// What no such step explains.
pub fn run<V: Volume>(fs: &mut Ubifs<V>, known: &mut Known, step: &Step, number: usize) -> Result<Effect> {
    fs.set_time(Timestamp { seconds: 1_000_000_000 + number as i64, nanoseconds: 0 });
    match apply(fs, known, step) {
        Err(error) if makes_no_sense(&error) => Ok(Effect { inode: None }),
        other => other,
    }
}

/// Whether a step failed because of what is there.
const fn makes_no_sense(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound
            | Error::Exists
            | Error::NotDirectory
            | Error::IsDirectory
            | Error::NotEmpty
            | Error::Invalid(_)
            | Error::TooLarge { .. }
    )
}

fn apply<V: Volume>(fs: &mut Ubifs<V>, known: &mut Known, step: &Step) -> Result<Effect> {
    let root = fs.root();
    let on = |inode| Ok(Effect { inode: Some(inode) });
    match *step {
        Step::Create { directory, name, kind } => {
            let directory = known.directory(root, directory);
            let inode = fs.create(directory, NAMES[name], &new_file(kind))?;
            match kind {
                Kind::Directory => known.directories.push(inode),
                Kind::Regular => known.files.push(inode),
                Kind::Symlink | Kind::Fifo => {}
            }
            on(inode)
        }
        Step::Write { file, offset, len, seed } => {
            let inode = known.file(file).ok_or(Error::NotFound)?;
            fs.write(inode, offset, &bytes(seed, len))?;
            on(inode)
        }
        Step::Resize { file, size } => {
            let inode = known.file(file).ok_or(Error::NotFound)?;
            fs.set_attributes(inode, &AttributeChanges { size: Some(size), ..AttributeChanges::default() })?;
            on(inode)
        }
        Step::Link { file, directory, name } => {
            let inode = known.file(file).ok_or(Error::NotFound)?;
            fs.link(inode, known.directory(root, directory), NAMES[name])?;
            on(inode)
        }
        Step::Unlink { directory, name } => unlink(fs, known, known.directory(root, directory), NAMES[name]),
        Step::Rename { from, to, how } => {
            let from = Name { directory: known.directory(root, from.0), name: NAMES[from.1] };
            let to = Name { directory: known.directory(root, to.0), name: NAMES[to.1] };
            rename(fs, known, from, to, how)
        }
        Step::SetXattr { file, name, len, seed } => {
            let inode = known.file(file).ok_or(Error::NotFound)?;
            fs.set_xattr(inode, XATTRS[name], &bytes(seed, len), SetXattr::Any)?;
            on(inode)
        }
        Step::RemoveXattr { file, name } => {
            let inode = known.file(file).ok_or(Error::NotFound)?;
            fs.remove_xattr(inode, XATTRS[name])?;
            on(inode)
        }
        Step::Chmod { file, permissions } => {
            let inode = known.file(file).ok_or(Error::NotFound)?;
            let changes = AttributeChanges { permissions: Some(permissions), ..AttributeChanges::default() };
            fs.set_attributes(inode, &changes)?;
            on(inode)
        }
        Step::Fsync { file } => {
            let inode = known.file(file).ok_or(Error::NotFound)?;
            fs.fsync(inode)?;
            on(inode)
        }
        Step::Sync => fs.sync().map(|()| Effect { inode: None }),
    }
}

/// Names of extended attributes.
const XATTRS: [&[u8]; 3] = [b"user.one", b"trusted.two", b"security.three"];

fn new_file(kind: Kind) -> NewFile<'static> {
    let kind = match kind {
        Kind::Regular => NewKind::Regular,
        Kind::Directory => NewKind::Directory,
        Kind::Symlink => NewKind::Symlink(b"../some/where"),
        Kind::Fifo => NewKind::Fifo,
    };
    NewFile { kind, permissions: 0o640, uid: 1000, gid: 100 }
}

fn unlink<V: Volume>(fs: &mut Ubifs<V>, known: &mut Known, directory: u32, name: &[u8]) -> Result<Effect> {
    let inode = fs.lookup(directory, name)?;
    match fs.unlink(directory, name) {
        Err(Error::IsDirectory) => fs.remove_dir(directory, name)?,
        other => other?,
    }
    if fs.attributes(inode).is_err() {
        known.forget(inode);
    }
    Ok(Effect { inode: Some(inode) })
}

fn rename<V: Volume>(
    fs: &mut Ubifs<V>,
    known: &mut Known,
    from: Name<'_>,
    to: Name<'_>,
    how: Rename,
) -> Result<Effect> {
    let replaced = fs.lookup(to.directory, to.name).ok();
    fs.rename(from, to, how)?;
    if let Some(gone) = replaced.filter(|&inode| fs.attributes(inode).is_err()) {
        known.forget(gone);
    }
    Ok(Effect { inode: None })
}
