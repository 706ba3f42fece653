//! Building, and reading what was built.

use floatgate_image::build::{
    BuildError, BuildOptions, Built, Container, FlashShape, Overrides, Source, build,
};
use floatgate_image::{Access, Image, ImageFs, Selection};
use floatgate_mtd::random::Random;
use floatgate_stack::fs::{Compression, DeviceNumber, FileFlags, Timestamp};
use floatgate_stack::ubifs::{Behaviour, FormatOptions};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Page, sub-page and PEB of NAND with small and large pages, and of NOR.
pub(crate) const SHAPES: [[u32; 3]; 5] = [
    [2048, 2048, 128 << 10],
    [2048, 512, 128 << 10],
    [512, 512, 16 << 10],
    [4096, 4096, 256 << 10],
    [1, 1, 64 << 10],
];

pub(crate) const fn shape([page_bytes, sub_page_bytes, peb_bytes]: [u32; 3]) -> FlashShape {
    FlashShape { page_bytes, sub_page_bytes, peb_bytes, vid_header_offset: None, size: None }
}

/// A UBI device for NAND with pages of 2 KiB.
pub(crate) fn options(compression: Compression) -> BuildOptions {
    BuildOptions {
        shape: shape(SHAPES[0]),
        container: Container::Ubi { name: "rootfs".to_owned(), autoresize: false, image_seq: None },
        format: FormatOptions { compression, ..FormatOptions::default() },
        uuid: None,
        volume_bytes: None,
        overrides: Overrides::default(),
        device_table: None,
    }
}

/// A file that is in a directory of its own.
pub(crate) struct Built1 {
    folder: tempfile::TempDir,
    pub(crate) report: Built,
}

impl Built1 {
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    pub(crate) fn losses(&self) -> Vec<String> {
        self.report.losses.iter().map(|loss| format!("{}: {}", loss.path, loss.what)).collect()
    }
}

pub(crate) fn try_build(source: &Source, options: &BuildOptions) -> Result<Built1, BuildError> {
    let folder = tempfile::tempdir().unwrap();
    let file = File::options().read(true).write(true).create_new(true).open(folder.path().join("image"));
    let report = build(source, file.unwrap(), options)?;
    Ok(Built1 { folder, report })
}

/// Builds from a tar.
pub(crate) fn from_tar(tar: &[u8], options: &BuildOptions) -> Result<Built1, BuildError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("source.tar");
    std::fs::write(&path, tar).unwrap();
    try_build(&Source::Tar(path), options)
}

pub(crate) fn mount(path: &Path) -> ImageFs {
    let image = Image::open(path, Access::Read).unwrap();
    image.mount(&Selection::default(), false, Behaviour::default()).unwrap()
}

/// A file as it is in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) links: u32,
    pub(crate) mtime: Timestamp,
    pub(crate) flags: FileFlags,
    pub(crate) device: Option<DeviceNumber>,
    pub(crate) size: u64,
    /// Of a regular file, or the target of a symbolic link.
    pub(crate) contents: Vec<u8>,
    /// Blocks that are no holes.
    pub(crate) blocks: usize,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// All files of an image by their path; the root's is empty.
pub(crate) fn tree(path: &Path) -> BTreeMap<Vec<u8>, Seen> {
    let mut fs = mount(path);
    assert_eq!(fs.check().unwrap(), [""; 0], "{}", path.display());
    let root = fs.root();
    let mut found = BTreeMap::from([(Vec::new(), seen(&mut fs, root))]);
    let mut open = vec![(Vec::new(), root)];
    while let Some((path, directory)) = open.pop() {
        for entry in fs.read_dir(directory, None, usize::MAX).unwrap() {
            let path = [&path[..], b"/", &entry.name].concat();
            let file = seen(&mut fs, entry.inode);
            if file.mode & 0o170_000 == 0o040_000 {
                open.push((path.clone(), entry.inode));
            }
            found.insert(path, file);
        }
    }
    found
}

fn seen(fs: &mut ImageFs, inode: u32) -> Seen {
    let attributes = fs.attributes(inode).unwrap();
    let mut xattrs: Vec<(Vec<u8>, Vec<u8>)> = fs
        .list_xattrs(inode)
        .unwrap()
        .into_iter()
        .map(|name| (name.clone(), fs.get_xattr(inode, &name).unwrap()))
        .collect();
    xattrs.sort();
    assert_eq!(xattrs.len(), attributes.xattr_count as usize);
    let (contents, blocks) = match attributes.mode & 0o170_000 {
        0o100_000 => {
            let mut contents = vec![0; usize::try_from(attributes.size).unwrap()];
            assert_eq!(fs.read(inode, 0, &mut contents).unwrap(), contents.len());
            (contents, fs.data_blocks(inode, 0, usize::MAX).unwrap().len())
        }
        0o120_000 => (fs.read_link(inode).unwrap(), 0),
        _ => (Vec::new(), 0),
    };
    Seen {
        mode: attributes.mode,
        owner: (attributes.uid, attributes.gid),
        links: attributes.links,
        mtime: attributes.mtime,
        flags: attributes.flags,
        device: attributes.device,
        size: attributes.size,
        contents,
        blocks,
        xattrs,
    }
}

/// Bytes of a kind: nothing repeats, or much does.
pub(crate) fn bytes(len: usize, seed: u64, repeats: bool) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        let word = random.bits().to_le_bytes();
        if repeats {
            out.extend_from_slice([&b"root:x:0:"[..], b"/usr/bin/", b"\0\0\0\0"][usize::from(word[0] % 3)]);
        } else {
            out.extend_from_slice(&word);
        }
    }
    out.truncate(len);
    out
}
