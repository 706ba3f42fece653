//! Sample images, and the visible contents of a mounted filesystem.

use floatgate_media::file::FileType;
use floatgate_stack::fs::Attributes;
use floatgate_stack::ubifs::{Authenticate, Behaviour, Error, MountOptions, Result, Ubifs};
use floatgate_stack::{RamVolume, Volume, VolumeGeometry};
use std::collections::BTreeMap;

/// LEB size of the samples, bytes.
pub(crate) const LEB: usize = 15360;

/// Page size of the samples, bytes.
pub(crate) const PAGE: usize = 512;

/// Number of LEBs of the volume, more than the samples have.
pub(crate) const LEBS: u32 = 40;

pub(crate) fn unpack(sample: &[u8]) -> Vec<u8> {
    zstd::decode_all(sample).unwrap()
}

pub(crate) fn volume(image: &[u8]) -> RamVolume {
    let geometry = VolumeGeometry {
        lebs: LEBS,
        leb_bytes: LEB as u32,
        min_io_bytes: PAGE as u32,
        max_write_bytes: PAGE as u32,
        leb_start: 0,
        read_only: false,
    };
    RamVolume::from_bytes(geometry, image)
}

/// Mounts an image read-only, with recovery.
pub(crate) fn mount(image: &[u8], authenticate: &Authenticate) -> Result<Ubifs<RamVolume>> {
    let options = MountOptions {
        read_only: true,
        recover: true,
        authenticate: authenticate.clone(),
        ..MountOptions::default()
    };
    Ubifs::mount(volume(image), &options, Behaviour::default()).map_err(|(error, _)| error)
}

/// Visible contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) attributes: Attributes,
    /// Data, or target of a symbolic link; `None` if it is encrypted.
    pub(crate) contents: Option<Vec<u8>>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// All files by their paths from the root.
pub(crate) type Tree = BTreeMap<Vec<Vec<u8>>, Shown>;

/// Reads the whole tree.
pub(crate) fn walk(fs: &mut Ubifs<dyn Volume>) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut pending = vec![(Vec::new(), fs.root())];
    while let Some((path, inode)) = pending.pop() {
        let shown = show(fs, inode)?;
        if shown.attributes.file_type == FileType::Directory {
            for entry in fs.read_dir(inode, None, usize::MAX)? {
                let mut below = path.clone();
                below.push(entry.name);
                pending.push((below, entry.inode));
            }
        }
        tree.insert(path, shown);
    }
    Ok(tree)
}

fn show(fs: &mut Ubifs<dyn Volume>, inode: u32) -> Result<Shown> {
    let attributes = fs.attributes(inode)?;
    let contents = match attributes.file_type {
        FileType::Symlink => readable(fs.read_link(inode))?,
        FileType::Regular => {
            let mut bytes = vec![0; usize::try_from(attributes.size).unwrap()];
            readable(fs.read(inode, 0, &mut bytes).map(|_| bytes))?
        }
        _ => None,
    };
    let mut xattrs = Vec::new();
    for name in fs.list_xattrs(inode)? {
        let value = fs.get_xattr(inode, &name)?;
        xattrs.push((name, value));
    }
    Ok(Shown { attributes, contents, xattrs })
}

/// Result of a read; `None` for encrypted data, which is not a failure.
fn readable(read: Result<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::Unsupported(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Path from names in text form.
pub(crate) fn path(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}
