//! Tree of files in the test images, and a target that stores extracted files.

use floatgate_mtd::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use floatgate_stack::Volume;
use floatgate_stack::fs::{
    AttributeChanges, Compression, DeviceNumber, NewFile, NewKind, SetXattr, Timestamp,
};
use floatgate_stack::ubifs::Ubifs;

use crate::extract::{Contents, Entry, Target};

/// An extracted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtractedFile {
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) mtime: Timestamp,
    pub(crate) device: Option<DeviceNumber>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) target: Option<Vec<u8>>,
    pub(crate) data: Vec<u8>,
    /// For a second name: the first name.
    pub(crate) first: Option<String>,
}

/// Target that stores all extracted files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) files: BTreeMap<String, ExtractedFile>,
}

impl Memory {
    /// Paths that differ, with their contents in both.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.files.keys().chain(other.files.keys()).collect();
        let differ = paths.into_iter().filter(|path| self.files.get(*path) != other.files.get(*path));
        let short = |kept: Option<&ExtractedFile>| {
            kept.map(|kept| ExtractedFile { data: kept.data.len().to_string().into_bytes(), ..kept.clone() })
        };
        differ
            .map(|path| {
                format!("{path}: {:?} and {:?}", short(self.files.get(path)), short(other.files.get(path)))
            })
            .collect()
    }

    fn keep(&mut self, entry: &Entry<'_>, data: Vec<u8>, first: Option<&[Vec<u8>]>) {
        let attributes = entry.attributes;
        let kept = ExtractedFile {
            mode: attributes.mode,
            owner: (attributes.uid, attributes.gid),
            mtime: attributes.mtime,
            device: attributes.device,
            xattrs: entry.xattrs.to_vec(),
            target: entry.target.map(<[u8]>::to_vec),
            data,
            first: first.map(crate::extract::show_path),
        };
        self.files.insert(crate::extract::show_path(entry.path), kept);
    }
}

impl Target for Memory {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.keep(entry, Vec::new(), None);
        Ok(Vec::new())
    }

    fn leave(&mut self, _entry: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        let mut data = vec![0; usize::try_from(contents.size()).unwrap()];
        while let Some((at, piece)) = contents.next_piece() {
            let at = usize::try_from(at).unwrap();
            data[at..at + piece.len()].copy_from_slice(piece);
        }
        self.keep(entry, data, None);
        Ok(Vec::new())
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.keep(entry, Vec::new(), None);
        Ok(Vec::new())
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        self.keep(entry, Vec::new(), Some(first));
        Ok(Vec::new())
    }
}

/// Fills a filesystem with files of each type.
pub(crate) fn populate(fs: &mut Ubifs<dyn Volume>, seed: u64) {
    fs.set_time(Timestamp { seconds: 1_700_000_000, nanoseconds: 123_456_789 });
    let root = fs.root();
    let mut random = Random::new(seed);
    for number in 0..6 {
        let directory = make(fs, root, &format!("dir-{number}"), NewKind::Directory);
        fill(fs, directory, &mut random);
        let below = make(fs, directory, "below", NewKind::Directory);
        fill(fs, below, &mut random);
    }
    let device = DeviceNumber { major: 4, minor: 64 };
    make(fs, root, "tty", NewKind::CharacterDevice(device));
    make(fs, root, "pipe", NewKind::Fifo);
    let file = make(fs, root, "sparse", NewKind::Regular);
    fs.write(file, 300_000, b"behind a hole").unwrap();
    fs.link(file, root, b"second name").unwrap();
}

fn fill(fs: &mut Ubifs<dyn Volume>, directory: u32, random: &mut Random) {
    for size in [0, 1, 4095, 4096, 9000, 14_000] {
        let file = make(fs, directory, &format!("file-{size}"), NewKind::Regular);
        let changes =
            AttributeChanges { compression: Some(Compression::Zlib), uid: Some(1000), ..Default::default() };
        fs.set_attributes(file, &changes).unwrap();
        // Half of the data is compressible.
        let data: Vec<u8> =
            (0..size).map(|at| if at % 2 == 0 { random.bits() as u8 } else { b'.' }).collect();
        fs.write(file, 0, &data).unwrap();
        fs.set_xattr(file, b"user.size", size.to_string().as_bytes(), SetXattr::Any).unwrap();
    }
    make(fs, directory, "link", NewKind::Symlink(b"../somewhere/else"));
}

fn make(fs: &mut Ubifs<dyn Volume>, directory: u32, name: &str, kind: NewKind<'_>) -> u32 {
    let file = NewFile { kind, permissions: 0o751, uid: 1, gid: 2 };
    fs.create(directory, name.as_bytes(), &file).unwrap()
}
