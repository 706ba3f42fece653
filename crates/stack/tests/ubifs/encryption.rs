//! Encrypted names and contents: listed as what they are, and preserved.

use super::common::{Tree, unpack, volume, walk};
use floatgate_media::ubifs::FileType;
use floatgate_stack::RamVolume;
use floatgate_stack::ubifs::{
    AttributeChanges, Behaviour, Error, MountOptions, Name, NewFile, NewKind, Rename, SetXattr, Ubifs,
};

const ENCRYPTED: &[u8] = include_bytes!("../samples/encrypted.ubifs.zst");

fn mount(volume: RamVolume) -> Ubifs<RamVolume> {
    let mounted = Ubifs::mount(volume, &MountOptions::default(), Behaviour::default());
    mounted.map_err(|(error, _)| error).unwrap()
}

fn sample() -> Ubifs<RamVolume> {
    mount(volume(&unpack(ENCRYPTED)))
}

/// Commits, unmounts and mounts again.
fn again(mut fs: Ubifs<RamVolume>) -> Ubifs<RamVolume> {
    fs.sync().unwrap();
    assert_eq!(fs.check().unwrap(), []);
    mount(fs.unmount().map_err(|(error, _)| error).unwrap())
}

/// The first file of a type in the root: its name and inode.
fn first(fs: &mut Ubifs<RamVolume>, file_type: FileType) -> (Vec<u8>, u32) {
    let entries = fs.read_dir(fs.root(), None, usize::MAX).unwrap();
    let found = entries.into_iter().find(|entry| entry.file_type == file_type).unwrap();
    (found.name, found.inode)
}
