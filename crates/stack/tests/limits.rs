//! Tests that memory limits are invisible to callers: the same operations have the same results with small limits and
//! with the default ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_media::file::FileType;
use floatgate_mtd::random;
use floatgate_stack::fs::{AttributeChanges, Name, NewFile, NewKind, Rename, SetXattr};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, Limits, MountOptions, Ubifs};
use floatgate_stack::{RamVolume, VolumeGeometry};

type Fs = Ubifs<RamVolume>;

/// Generator of random indices and bytes.
struct Random(random::Random);

impl Random {
    const fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    const fn below(&mut self, end: usize) -> usize {
        self.0.index(end)
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256) as u8).collect()
    }
}

fn behaviour(limits: Limits) -> Behaviour {
    Behaviour { limits, bulk_read: true, ..Behaviour::default() }
}

fn format(lebs: u32, limits: Limits) -> Fs {
    let geometry = VolumeGeometry {
        lebs,
        leb_bytes: 15872,
        min_io_bytes: 512,
        max_write_bytes: 512,
        leb_start: 0,
        read_only: false,
    };
    Ubifs::format(RamVolume::new(geometry), &FormatOptions::default(), behaviour(limits)).unwrap()
}

const fn file(kind: NewKind<'_>) -> NewFile<'_> {
    NewFile { kind, permissions: 0o755, uid: 7, gid: 9 }
}

/// Random operations, on inodes and names that may or may not exist.
struct Workload {
    random: Random,
    /// Directories created so far.
    directories: Vec<u32>,
    /// Files created so far.
    files: Vec<u32>,
    /// Open files, one entry for each open.
    open: Vec<u32>,
}

/// An operation with all its arguments.
#[derive(Clone, Debug)]
enum Operation {
    Create(u32, Vec<u8>, u8),
    Link(u32, u32, Vec<u8>),
    Unlink(u32, Vec<u8>),
    RemoveDirectory(u32, Vec<u8>),
    Rename(u32, Vec<u8>, u32, Vec<u8>, Rename),
    SetXattr(u32, Vec<u8>, Vec<u8>),
    RemoveXattr(u32, Vec<u8>),
    Write(u32, u64, Vec<u8>),
    Cut(u32, u64),
    Permissions(u32, u32),
    Read(u32, u64),
    List(u32),
    Open(u32),
    Close(u32),
    Unnamed(u32),
    Fsync(u32),
    Sync,
}

impl Workload {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), directories: vec![1], files: vec![1], open: Vec::new() }
    }

    fn directory(&mut self) -> u32 {
        self.directories[self.random.below(self.directories.len())]
    }

    fn file(&mut self) -> u32 {
        self.files[self.random.below(self.files.len())]
    }

    fn name(&mut self) -> Vec<u8> {
        format!("name {}", self.random.below(9)).into_bytes()
    }

    fn next(&mut self) -> Operation {
        let (directory, inode, name) = (self.directory(), self.file(), self.name());
        match self.random.below(26) {
            0..5 => Operation::Create(directory, name, self.random.below(8) as u8),
            5..7 => Operation::Link(inode, directory, name),
            7..9 => Operation::Unlink(directory, name),
            9 => Operation::RemoveDirectory(directory, name),
            10..14 => {
                let hows = [Rename::Replace, Rename::KeepTarget, Rename::Exchange, Rename::Whiteout];
                let how = hows[self.random.below(4)];
                Operation::Rename(directory, name, self.directory(), self.name(), how)
            }
            14..16 => Operation::SetXattr(inode, self.xattr(), self.random.bytes(200)),
            16 => Operation::RemoveXattr(inode, self.xattr()),
            17 => Operation::Write(inode, self.random.below(30_000) as u64, self.random.bytes(6000)),
            18 => Operation::Cut(inode, self.random.below(30_000) as u64),
            19 => Operation::Permissions(inode, self.random.below(0o1000) as u32),
            20 => Operation::Read(inode, self.random.below(30_000) as u64),
            21 => Operation::List(directory),
            22 => Operation::Open(inode),
            23 if self.open.is_empty() => Operation::Unnamed(directory),
            23 => Operation::Close(self.open.swap_remove(self.random.below(self.open.len()))),
            24 => Operation::Fsync(inode),
            _ => Operation::Sync,
        }
    }

    fn xattr(&mut self) -> Vec<u8> {
        format!("user.{}", self.random.below(3)).into_bytes()
    }

    /// Records a new inode, so that later operations can use it.
    fn made(&mut self, operation: &Operation, inode: u32) {
        match operation {
            Operation::Create(.., 0..2) => self.directories.push(inode),
            Operation::Create(..) => self.files.push(inode),
            Operation::Open(inode) => self.open.push(*inode),
            Operation::Unnamed(_) => {
                self.files.push(inode);
                self.open.push(inode);
            }
            _ => {}
        }
    }
}

/// Runs an operation. Returns the inode that it created, and the data that it read as text.
fn run(fs: &mut Fs, operation: &Operation) -> Result<(u32, String), floatgate_stack::ubifs::Error> {
    let none = |()| (0, String::new());
    match operation {
        Operation::Create(directory, name, kind) => {
            let kind = match kind {
                0..2 => NewKind::Directory,
                2 => NewKind::Symlink(b"somewhere"),
                3 => NewKind::Fifo,
                _ => NewKind::Regular,
            };
            fs.create(*directory, name, &file(kind)).map(|inode| (inode, String::new()))
        }
        Operation::Link(inode, directory, name) => fs.link(*inode, *directory, name).map(none),
        Operation::Unlink(directory, name) => fs.unlink(*directory, name).map(none),
        Operation::RemoveDirectory(directory, name) => fs.remove_dir(*directory, name).map(none),
        Operation::Rename(from, old, to, new, how) => {
            let (from, to) = (Name { directory: *from, name: old }, Name { directory: *to, name: new });
            fs.rename(from, to, *how).map(none)
        }
        Operation::SetXattr(inode, name, value) => fs.set_xattr(*inode, name, value, SetXattr::Any).map(none),
        Operation::RemoveXattr(inode, name) => fs.remove_xattr(*inode, name).map(none),
        Operation::Write(inode, offset, data) => fs.write(*inode, *offset, data).map(none),
        Operation::Cut(inode, size) => change(fs, *inode, |changes| changes.size = Some(*size)).map(none),
        Operation::Permissions(inode, bits) => {
            change(fs, *inode, |changes| changes.permissions = Some(*bits)).map(none)
        }
        Operation::Read(inode, offset) => {
            let mut bytes = vec![0; 9000];
            let len = fs.read(*inode, *offset, &mut bytes)?;
            bytes.truncate(len);
            Ok((0, format!("{bytes:?}")))
        }
        Operation::List(directory) => Ok((0, format!("{:?}", fs.read_dir(*directory, None, 100)?))),
        Operation::Open(inode) => fs.open(*inode).map(none),
        Operation::Close(inode) => fs.close(*inode).map(none),
        Operation::Unnamed(directory) => {
            fs.create_unnamed(*directory, &file(NewKind::Regular)).map(|inode| (inode, String::new()))
        }
        Operation::Fsync(inode) => fs.fsync(*inode).map(none),
        Operation::Sync => fs.sync().map(none),
    }
}

fn change(
    fs: &mut Fs,
    inode: u32,
    set: impl FnOnce(&mut AttributeChanges),
) -> Result<(), floatgate_stack::ubifs::Error> {
    let mut changes = AttributeChanges::default();
    set(&mut changes);
    fs.set_attributes(inode, &changes)
}

/// All visible contents of a filesystem, as lines of text.
fn contents(fs: &mut Fs) -> Vec<String> {
    let mut lines = Vec::new();
    for inode in fs.inodes().unwrap() {
        let attributes = fs.attributes(inode).unwrap();
        lines.push(format!("{attributes:?}"));
        for name in fs.list_xattrs(inode).unwrap() {
            lines.push(format!("{inode} {name:?} {:?}", fs.get_xattr(inode, &name)));
        }
        match attributes.file_type {
            FileType::Directory => lines.push(format!("{inode} {:?}", fs.read_dir(inode, None, usize::MAX))),
            FileType::Symlink => lines.push(format!("{inode} {:?}", fs.read_link(inode))),
            FileType::Regular if attributes.size > 0 => {
                let mut bytes = vec![0; attributes.size as usize];
                assert_eq!(fs.read(inode, 0, &mut bytes), Ok(bytes.len()));
                lines.push(format!("{inode} {bytes:?}"));
            }
            _ => {}
        }
    }
    lines
}

fn remount(fs: Fs, limits: Limits) -> Fs {
    let volume = fs.unmount().map_err(|(error, _)| error).unwrap();
    Ubifs::mount(volume, &MountOptions::default(), behaviour(limits)).unwrap()
}

/// Runs a workload on two filesystems, one of them with the limits under test.
fn compare(limits: Limits, seed: u64, operations: usize) {
    let both = [Limits::default(), limits];
    let mut filesystems = both.map(|limits| format(60, limits));
    let mut work = Workload::new(seed);
    for number in 0..operations {
        let operation = work.next();
        let [expected, found] = filesystems.each_mut().map(|fs| run(fs, &operation));
        assert_eq!(found, expected, "{limits:?}, operation {number}: {operation:?}");
        if let Ok((inode, _)) = expected {
            work.made(&operation, inode);
        }
    }
    let [expected, found] = filesystems.each_mut().map(contents);
    assert_eq!(found, expected, "{limits:?}");
    for inode in work.open {
        filesystems.iter_mut().for_each(|fs| fs.close(inode).unwrap());
    }
    let [usual, tight] = filesystems;
    let mut filesystems = [remount(usual, both[0]), remount(tight, both[1])];
    let [expected, found] = filesystems.each_mut().map(contents);
    assert_eq!(found, expected, "{limits:?}, mounted again");
    assert!(expected.len() > 20, "{expected:#?}");
    assert_eq!(filesystems[1].check(), Ok(Vec::new()));
}

#[test]
fn small_caches_change_nothing() {
    for (count, seed) in [1, 2, 3, 8].into_iter().zip(1..) {
        let caches = Limits { inodes: count, entries: count, bulk_read_blocks: count, ..Limits::default() };
        compare(caches, seed, 1500);
        compare(Limits { page_bytes: count * 4096, ..caches }, 10 + seed, 1000);
    }
    compare(Limits { page_bytes: 0, inodes: 0, entries: 0, ..Limits::default() }, 20, 1000);
}

/// Uses the default limits. At 1,023 changed inodes, a new inode was once evicted from the cache before it had a name.
#[test]
fn thousands_of_new_files_wait_in_memory() {
    let mut fs = format(200, Limits::default());
    for number in 0..3000_u32 {
        let name = format!("file {number}").into_bytes();
        let root = fs.root();
        let inode = fs.create(root, &name, &file(NewKind::Regular)).unwrap();
        fs.write(inode, 0, &number.to_le_bytes()).unwrap();
    }
    let mut fs = remount(fs, Limits::default());
    for number in 0..3000_u32 {
        let root = fs.root();
        let inode = fs.lookup(root, format!("file {number}").as_bytes()).unwrap();
        let mut found = [0; 4];
        assert_eq!(fs.read(inode, 0, &mut found), Ok(4));
        assert_eq!(found, number.to_le_bytes());
    }
    assert_eq!(fs.check(), Ok(Vec::new()));
}
