//! Execution of a step of the workload.

use std::collections::VecDeque;

use floatgate_stack::fs::{
    AttributeChanges, DeviceNumber, Error, FileFlags, Name, NewFile, NewKind, Rename, Result, SetXattr,
    Timestamp,
};

use super::{Kind, NAMES, Random, Step, XATTRS};
use crate::powercut::filesystem::{Device, Fs, Recipe, idle};

/// Files that a step can use, by inode in the order of their creation.
#[derive(Clone, Debug, Default)]
pub(in crate::powercut) struct LiveFiles {
    directories: Vec<u32>,
    /// Regular files, including open files without a name.
    files: Vec<u32>,
    /// Regular files that are open.
    open: VecDeque<u32>,
}

/// Data that a step has certainly written to flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::powercut) struct Durable {
    /// True for everything that was written before.
    pub(in crate::powercut) all: bool,
    /// True for all names.
    pub(in crate::powercut) names: bool,
    /// One inode with its data, attributes and names.
    pub(in crate::powercut) inode: Option<u32>,
}

impl Durable {
    const NOTHING: Self = Self { all: false, names: false, inode: None };
    const NAMES: Self = Self { names: true, ..Self::NOTHING };
    const ALL: Self = Self { all: true, ..Self::NOTHING };

    const fn inode(inode: u32) -> Self {
        Self { inode: Some(inode), ..Self::NOTHING }
    }
}

/// Outcome of a step: the filesystem and the durable data, or the reason of a failure and the flash.
pub(in crate::powercut) type Outcome = std::result::Result<(Fs, Durable), (String, Device)>;

impl LiveFiles {
    fn directory(&self, root: u32, index: usize) -> u32 {
        if index == 0 { root } else { self.directories.get(index - 1).copied().unwrap_or(root) }
    }

    fn file(&self, index: usize) -> Result<u32> {
        let index = index.checked_rem(self.files.len());
        index.and_then(|index| self.files.get(index).copied()).ok_or(Error::NotFound)
    }

    /// Open regular files in order, each as often as it is open.
    pub(in crate::powercut) fn open(&self) -> impl Iterator<Item = u32> + '_ {
        self.open.iter().copied()
    }

    /// Removes an inode from the lists if it no longer exists.
    fn forget_if_gone(&mut self, fs: &mut Fs, inode: u32) {
        if fs.attributes(inode).is_err() {
            self.directories.retain(|&other| other != inode);
            self.files.retain(|&other| other != inode);
        }
    }
}

/// Random bytes that identify the write by its seed.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    // Half of the data repeats, so that compression has an effect.
    (0..len).map(|at| if at % 64 < 32 { b'.' } else { random.bits() as u8 }).collect()
}

/// Runs a step. Impossible steps (a missing name, a directory moved below itself) do nothing.
pub(in crate::powercut) fn run(
    mut fs: Fs,
    recipe: &Recipe,
    live_files: &mut LiveFiles,
    step: &Step,
    number: usize,
) -> Outcome {
    fs.set_time(Timestamp { seconds: 1_000_000_000 + number.cast_signed() as i64, nanoseconds: 0 });
    if *step == Step::Remount {
        return remount(fs, recipe, live_files);
    }
    match apply(&mut fs, recipe, live_files, step) {
        Ok(durable) => Ok((fs, Durable { names: durable.names || recipe.variant.sync, ..durable })),
        Err(error) if is_refused(&error) => Ok((fs, Durable::NOTHING)),
        Err(error) => Err((error.to_string(), fs.abandon())),
    }
}

/// True if a step failed because of the filesystem's contents or lack of space.
const fn is_refused(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound
            | Error::Exists
            | Error::NotDirectory
            | Error::IsDirectory
            | Error::NotEmpty
            | Error::Invalid(_)
            | Error::TooLarge { .. }
            | Error::Unsupported(_)
            | Error::NoSpace
    )
}

fn remount(mut fs: Fs, recipe: &Recipe, live_files: &mut LiveFiles) -> Outcome {
    while let Some(inode) = live_files.open.pop_front() {
        if let Err(error) = fs.close(inode) {
            return Err((error.to_string(), fs.abandon()));
        }
        live_files.forget_if_gone(&mut fs, inode);
    }
    let flash = Recipe::unmount(fs)?;
    recipe.mount(flash).map(|fs| (fs, Durable::ALL))
}

fn apply(fs: &mut Fs, recipe: &Recipe, live_files: &mut LiveFiles, step: &Step) -> Result<Durable> {
    let root = fs.root();
    match *step {
        Step::Create { directory, name, kind } => {
            create(fs, live_files, live_files.directory(root, directory), NAMES[name], kind)
        }
        Step::CreateUnnamed { directory } => {
            let inode =
                fs.create_unnamed(live_files.directory(root, directory), &new_file(Kind::Regular, 0))?;
            live_files.files.push(inode);
            live_files.open.push_back(inode);
            Ok(Durable::NOTHING)
        }
        Step::Append { file, len, seed } => {
            let inode = live_files.file(file)?;
            let offset = fs.attributes(inode)?.size;
            write(fs, recipe, inode, offset, &bytes(seed, len))
        }
        Step::Write { file, offset, len, seed, sync } => {
            let inode = live_files.file(file)?;
            let durable = write(fs, recipe, inode, offset, &bytes(seed, len))?;
            if sync { fsync(fs, inode) } else { Ok(durable) }
        }
        Step::Truncate { file, size } => {
            let changes = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
            set_attributes(fs, recipe, live_files.file(file)?, &changes)
        }
        Step::SetAttributes { file, permissions, uid } => {
            let changes = AttributeChanges {
                permissions: Some(permissions),
                uid: Some(uid),
                ..AttributeChanges::default()
            };
            set_attributes(fs, recipe, live_files.file(file)?, &changes)
        }
        Step::SetSync { file, directory, sync } => {
            let inode = if directory { live_files.directory(root, file) } else { live_files.file(file)? };
            let old = fs.attributes(inode)?.flags.bits();
            let on = FileFlags::SYNC.bits();
            let flags = FileFlags::from_bits(if sync { old | on } else { old & !on });
            set_attributes(
                fs,
                recipe,
                inode,
                &AttributeChanges { flags: Some(flags), ..AttributeChanges::default() },
            )
        }
        Step::Fsync { file, directory } => {
            let inode = if directory { live_files.directory(root, file) } else { live_files.file(file)? };
            fsync(fs, inode)
        }
        Step::Sync => fs.sync().map(|()| Durable::ALL),
        Step::Idle => {
            idle(fs);
            Ok(Durable::NOTHING)
        }
        _ => apply_to_names(fs, live_files, step),
    }
}

fn apply_to_names(fs: &mut Fs, live_files: &mut LiveFiles, step: &Step) -> Result<Durable> {
    let root = fs.root();
    match *step {
        Step::Link { file, directory, name } => {
            let inode = live_files.file(file)?;
            let directory = live_files.directory(root, directory);
            fs.link(inode, directory, NAMES[name])?;
            names_if_sync(fs, &[directory])
        }
        Step::Unlink { directory, name } => {
            unlink(fs, live_files, live_files.directory(root, directory), NAMES[name])
        }
        Step::Rename { from, to, how } => {
            let from = Name { directory: live_files.directory(root, from.0), name: NAMES[from.1] };
            let to = Name { directory: live_files.directory(root, to.0), name: NAMES[to.1] };
            rename(fs, live_files, from, to, how)
        }
        Step::SetXattr { file, name, len, seed } => {
            let inode = live_files.file(file)?;
            fs.set_xattr(inode, XATTRS[name], &bytes(seed, len), SetXattr::Any)?;
            names_if_sync(fs, &[inode])
        }
        Step::RemoveXattr { file, name } => {
            let inode = live_files.file(file)?;
            fs.remove_xattr(inode, XATTRS[name])?;
            names_if_sync(fs, &[inode])
        }
        Step::Open { file } => {
            let inode = live_files.file(file)?;
            fs.open(inode)?;
            live_files.open.push_back(inode);
            Ok(Durable::NOTHING)
        }
        Step::Close => {
            let inode = live_files.open.pop_front().ok_or(Error::NotFound)?;
            fs.close(inode)?;
            live_files.forget_if_gone(fs, inode);
            Ok(Durable::NOTHING)
        }
        _ => Ok(Durable::NOTHING),
    }
}

fn new_file(kind: Kind, number: usize) -> NewFile<'static> {
    let kind = match kind {
        Kind::Regular => NewKind::Regular,
        Kind::Directory => NewKind::Directory,
        Kind::Symlink => NewKind::Symlink(b"../some/where"),
        Kind::Device => NewKind::CharacterDevice(DeviceNumber { major: 240, minor: number as u32 * 300 }),
        Kind::Fifo => NewKind::Fifo,
    };
    NewFile { kind, permissions: 0o640, uid: 1000, gid: 100 }
}

fn create(
    fs: &mut Fs,
    live_files: &mut LiveFiles,
    directory: u32,
    name: &[u8],
    kind: Kind,
) -> Result<Durable> {
    let inode = fs.create(directory, name, &new_file(kind, name.len()))?;
    match kind {
        Kind::Directory => live_files.directories.push(inode),
        Kind::Regular => live_files.files.push(inode),
        Kind::Symlink | Kind::Device | Kind::Fifo => {}
    }
    names_if_sync(fs, &[directory])
}

fn write(fs: &mut Fs, recipe: &Recipe, inode: u32, offset: u64, data: &[u8]) -> Result<Durable> {
    fs.write(inode, offset, data)?;
    inode_if_sync(fs, recipe, inode)
}

fn set_attributes(fs: &mut Fs, recipe: &Recipe, inode: u32, changes: &AttributeChanges) -> Result<Durable> {
    fs.set_attributes(inode, changes)?;
    inode_if_sync(fs, recipe, inode)
}

fn fsync(fs: &mut Fs, inode: u32) -> Result<Durable> {
    fs.fsync(inode).map(|()| Durable::inode(inode))
}

fn is_sync(fs: &mut Fs, inode: u32) -> Result<bool> {
    Ok(fs.attributes(inode)?.flags.contains(FileFlags::SYNC))
}

fn inode_if_sync(fs: &mut Fs, recipe: &Recipe, inode: u32) -> Result<Durable> {
    Ok(if recipe.variant.sync || is_sync(fs, inode)? { Durable::inode(inode) } else { Durable::NOTHING })
}

fn names_if_sync(fs: &mut Fs, inodes: &[u32]) -> Result<Durable> {
    for &inode in inodes {
        if is_sync(fs, inode)? {
            return Ok(Durable::NAMES);
        }
    }
    Ok(Durable::NOTHING)
}

fn unlink(fs: &mut Fs, live_files: &mut LiveFiles, directory: u32, name: &[u8]) -> Result<Durable> {
    let inode = fs.lookup(directory, name)?;
    match fs.unlink(directory, name) {
        Err(Error::IsDirectory) => fs.remove_dir(directory, name)?,
        other => other?,
    }
    live_files.forget_if_gone(fs, inode);
    names_if_sync(fs, &[directory])
}

fn rename(
    fs: &mut Fs,
    live_files: &mut LiveFiles,
    from: Name<'_>,
    to: Name<'_>,
    how: Rename,
) -> Result<Durable> {
    let (moved, replaced) = (fs.lookup(from.directory, from.name), fs.lookup(to.directory, to.name));
    fs.rename(from, to, how)?;
    if moved == replaced {
        // If both names refer to the same file, nothing happens, not even in synchronous directories.
        return Ok(Durable::NOTHING);
    }
    if let Ok(inode) = replaced {
        live_files.forget_if_gone(fs, inode);
    }
    names_if_sync(fs, &[from.directory, to.directory])
}
