//! Tests of the kernel's requests, without the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use floatgate_stack::fs::{AttributeChanges, DeviceNumber, Error, FileType, Timestamp};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, Ubifs};
use floatgate_stack::{BareVolume, RamVolume, Store, StoreError, Volume, VolumeGeometry};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::handler::{pack_device, unpack_device};
use super::{Handler, ImageError, Listed, NewNode, Times, errno, shared};

const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };
const ROOT: u32 = 1;

const GEOMETRY: VolumeGeometry = VolumeGeometry {
    lebs: 60,
    leb_bytes: 15_360,
    min_io_bytes: 512,
    max_write_bytes: 512,
    leb_start: 0,
    read_only: false,
};

fn handler() -> Handler {
    handler_of(RamVolume::new(GEOMETRY))
}

fn handler_of<V: Volume + 'static>(volume: V) -> Handler {
    let fs = Ubifs::format(volume, &FormatOptions::default(), Behaviour::default());
    Handler::new(Box::new(fs.map_err(|(error, _)| error).unwrap()), || NOW)
}

/// Disk of a host that becomes full.
struct Disk {
    bytes: Vec<u8>,
    full: Arc<AtomicBool>,
}

impl Store for Disk {
    fn size_bytes(&self) -> u64 {
        self.bytes.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.bytes.read_at(offset, buf)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError { action: "writing", offset, reason: "no space left on device".into() });
        }
        self.bytes.write_at(offset, data)
    }
}

#[test]
fn after_a_failure_of_the_host_nothing_seems_to_be_written() {
    let full = Arc::new(AtomicBool::new(false));
    let disk = Disk { bytes: Vec::new(), full: Arc::clone(&full) };
    let mut handler = handler_of(BareVolume::new(disk, GEOMETRY));
    let [waiting, other] =
        [b"waiting", &b"other!!"[..]].map(|name| handler.make(&node(name, 0o100_600)).unwrap().inode);
    handler.write(waiting, 0, b"in memory", false).unwrap();
    full.store(true, Ordering::Relaxed);
    assert_eq!(handler.write(other, 0, b"on flash", true), Err(Errno::IO));
    full.store(false, Ordering::Relaxed);
    assert_eq!(handler.fsync(waiting), Err(Errno::IO), "it is not on flash, and never will be");
    assert_eq!(handler.write(waiting, 0, b"more", false), Err(Errno::ROFS));
    assert_eq!(handler.read(waiting, 0, 100).unwrap(), b"in memory", "what is known can be read");
    assert!(matches!(handler.failure(), Some(Error::Failed(_))));
    assert!(
        matches!(shared::unmount(handler), Err(ImageError::Interrupted(_))),
        "the mount did not end well"
    );
}

fn node(name: &[u8], mode: u32) -> NewNode<'_> {
    NewNode { directory: ROOT, name, mode, device: 0, uid: 3, gid: 4 }
}

fn names(handler: &mut Handler, inode: u32) -> Vec<(Vec<u8>, u32)> {
    let handle = handler.open_dir(inode).unwrap();
    let mut names = Vec::new();
    // Three entries at a time, as with a small buffer.
    loop {
        let from = names.len() as u64;
        let mut room = 3;
        handler
            .list(inode, handle, from, &mut |_, entry| {
                if room == 0 {
                    return true;
                }
                room -= 1;
                names.push((entry.name.to_vec(), entry.inode));
                assert_eq!(entry.next, names.len() as u64);
                false
            })
            .unwrap();
        if names.len() as u64 == from {
            break;
        }
    }
    handler.close_dir(inode, handle).unwrap();
    names
}

#[test]
fn files_are_made_written_and_read() {
    let mut handler = handler();
    let file = handler.make(&node(b"file", 0o100_640)).unwrap();
    assert_eq!((file.mode, file.uid, file.gid, file.mtime), (0o100_640, 3, 4, NOW));
    handler.open(file.inode).unwrap();
    handler.write(file.inode, 5000, b"hello", false).unwrap();
    handler.write(file.inode, 20_000, b"end", true).unwrap();
    assert_eq!(handler.read(file.inode, 5000, 100).unwrap()[..6], *b"hello\0");
    assert_eq!(handler.read(file.inode, 20_000, 100).unwrap(), b"end");
    assert_eq!(handler.read(file.inode, 30_000, 100).unwrap(), b"");
    let seek = |handler: &mut Handler, at, hole| handler.seek(file.inode, at, hole);
    assert_eq!(seek(&mut handler, 0, false), Ok(4096));
    assert_eq!(seek(&mut handler, 5000, false), Ok(5000));
    assert_eq!(seek(&mut handler, 5000, true), Ok(8192));
    assert_eq!(seek(&mut handler, 9000, true), Ok(9000));
    assert_eq!(seek(&mut handler, 17_000, true), Ok(20_003), "the end is a hole");
    assert_eq!(seek(&mut handler, 20_003, true), Err(Errno::NXIO));
    let changes = AttributeChanges { size: Some(5002), uid: Some(9), ..AttributeChanges::default() };
    let times = Times { atime: Some(Some(Timestamp { seconds: 5, nanoseconds: 6 })), mtime: Some(None) };
    let changed = handler.set_attributes(file.inode, &changes, times).unwrap();
    assert_eq!((changed.size, changed.uid, changed.atime.seconds, changed.mtime), (5002, 9, 5, NOW));
    assert_eq!(handler.read(file.inode, 5000, 100).unwrap(), b"he");
}

#[test]
fn what_is_open_stays_without_a_name() {
    let mut handler = handler();
    let file = handler.make(&node(b"file", 0o100_600)).unwrap().inode;
    handler.open(file).unwrap();
    handler.write(file, 0, b"still there", false).unwrap();
    handler.unlink(ROOT, b"file").unwrap();
    assert_eq!(handler.lookup(ROOT, b"file"), Err(Errno::NOENT));
    assert_eq!(handler.attributes(file).unwrap().links, 0);
    assert_eq!(handler.read(file, 0, 100).unwrap(), b"still there");
    handler.close(file).unwrap();
    assert_eq!(handler.attributes(file), Err(Errno::NOENT));
    handler.write_back();
    assert!(handler.into_fs().check().unwrap().is_empty());
}

#[test]
fn directories_are_listed_piece_by_piece() {
    let mut handler = handler();
    let directory = handler.make(&node(b"directory", 0o040_755)).unwrap().inode;
    let inside = handler.make(&NewNode { directory, ..node(b"inside", 0o040_755) }).unwrap().inode;
    for n in 0..20 {
        handler.make(&NewNode { directory, ..node(format!("{n}").as_bytes(), 0o100_600) }).unwrap();
    }
    let mut listed = names(&mut handler, directory);
    assert_eq!(listed[..2], [(b".".to_vec(), directory), (b"..".to_vec(), ROOT)]);
    assert_eq!(listed.len(), 23);
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), 23);
    assert_eq!(names(&mut handler, inside)[1].1, directory);
    handler.rename((directory, b"inside"), (ROOT, b"outside"), 0).unwrap();
    assert_eq!(names(&mut handler, inside)[1].1, ROOT, "it has moved");
    assert_eq!(handler.remove_dir(ROOT, b"directory"), Err(Errno::NOTEMPTY));
    assert_eq!(handler.unlink(ROOT, b"outside"), Err(Errno::ISDIR));
    handler.remove_dir(ROOT, b"outside").unwrap();
}

#[test]
fn a_list_stays_while_names_come_and_go() {
    let mut handler = handler();
    let file = handler.make(&node(b"file", 0o100_600)).unwrap().inode;
    assert_eq!(handler.open_dir(file), Err(Errno::NOTDIR));
    for n in 0..20 {
        handler.make(&node(format!("{n}").as_bytes(), 0o100_600)).unwrap();
    }
    let handle = handler.open_dir(ROOT).unwrap();
    let mut seen: Vec<Vec<u8>> = Vec::new();
    loop {
        let (from, mut room) = (seen.len(), 4);
        let mut take = |_: &mut Handler, entry: Listed<'_>| {
            if room > 0 {
                seen.push(entry.name.to_vec());
            }
            room -= 1;
            room < 0
        };
        handler.list(ROOT, handle, from as u64, &mut take).unwrap();
        for name in &seen[from..] {
            if name[..] != *b"." && name[..] != *b".." {
                handler.unlink(ROOT, name).unwrap();
                handler.make(&node(&[b"new-", &name[..]].concat(), 0o100_600)).unwrap();
            }
        }
        if seen.len() == from {
            break;
        }
    }
    handler.close_dir(ROOT, handle).unwrap();
    assert_eq!(seen.len(), 23, "each of the names of then, once");
    assert!(names(&mut handler, ROOT)[2..].iter().all(|(name, _)| name.starts_with(b"new-")));
}

#[test]
fn owners_and_writers_take_set_user_id_away() {
    let mut handler = handler();
    let file = handler.make(&node(b"file", 0o106_755)).unwrap().inode;
    let locked = handler.make(&node(b"locked", 0o106_745)).unwrap().inode;
    let directory = handler.make(&node(b"directory", 0o046_755)).unwrap().inode;
    let owner = AttributeChanges { uid: Some(7), ..AttributeChanges::default() };
    let mut chown = |inode| handler.set_attributes(inode, &owner, Times::default()).unwrap().mode;
    assert_eq!(chown(file), 0o100_755);
    assert_eq!(chown(locked), 0o102_745, "without execution by the group that bit means locking");
    assert_eq!(chown(directory), 0o046_755);
    let file = handler.make(&node(b"other", 0o106_755)).unwrap().inode;
    handler.drop_set_id(file).unwrap();
    assert_eq!(handler.attributes(file).unwrap().mode, 0o100_755);
}

#[test]
fn renames_have_the_flags_of_linux() {
    let mut handler = handler();
    let one = handler.make(&node(b"one", 0o100_600)).unwrap().inode;
    let two = handler.make(&node(b"two", 0o100_600)).unwrap().inode;
    let (from, to) = ((ROOT, &b"one"[..]), (ROOT, &b"two"[..]));
    assert_eq!(handler.rename(from, to, 1), Err(Errno::EXIST));
    handler.rename(from, to, 2).unwrap();
    assert_eq!(handler.lookup(ROOT, b"one").unwrap().inode, two);
    handler.rename(from, to, 4).unwrap();
    let whiteout = handler.lookup(ROOT, b"one").unwrap();
    assert_eq!(whiteout.file_type, FileType::CharacterDevice);
    assert_eq!(whiteout.device, Some(DeviceNumber { major: 0, minor: 0 }));
    assert_eq!(whiteout.size, 0);
    assert_eq!(handler.lookup(ROOT, b"two").unwrap().inode, two);
    assert_eq!(handler.attributes(one), Err(Errno::NOENT), "replaced");
    assert_eq!(handler.rename(from, to, 8), Err(Errno::INVAL));
    assert_eq!(handler.rename((ROOT, b"none"), to, 0), Err(Errno::NOENT));
    assert_eq!(handler.lookup(ROOT, &[b'x'; 256]), Err(Errno::NAMETOOLONG));
}

#[test]
fn special_files_and_links() {
    let mut handler = handler();
    let device = DeviceNumber { major: 0x123, minor: 0x4_5678 };
    assert_eq!(unpack_device(pack_device(device)), device);
    let made = handler.make(&NewNode { device: pack_device(device), ..node(b"device", 0o060_600) }).unwrap();
    assert_eq!((made.file_type, made.device, made.size), (FileType::BlockDevice, Some(device), 4));
    let link = handler.symlink(&node(b"link", 0), b"over/there").unwrap();
    assert_eq!(handler.read_link(link.inode).unwrap(), b"over/there");
    assert_eq!(handler.symlink(&node(b"long", 0), &[b'x'; 5000]), Err(Errno::NAMETOOLONG));
    assert_eq!(handler.link(made.inode, ROOT, b"again").unwrap().links, 2);
    let group = handler.make(&node(b"group", 0o042_775)).unwrap().inode;
    let file = handler.make(&NewNode { directory: group, gid: 99, ..node(b"file", 0o100_600) }).unwrap();
    assert_eq!(file.gid, 4, "set-group-id is handed down");
    let below = handler.make(&NewNode { directory: group, gid: 99, ..node(b"below", 0o040_755) }).unwrap();
    assert_eq!((below.gid, below.mode & 0o2000), (4, 0o2000));
    assert_eq!(handler.link(group, ROOT, b"no"), Err(Errno::PERM));
}

#[test]
fn attributes_have_the_names_of_ubifs() {
    let mut handler = handler();
    let file = handler.make(&node(b"file", 0o100_600)).unwrap().inode;
    let mut set = |name: &[u8], flags| handler.set_xattr(file, name, b"value", flags);
    assert_eq!(set(b"system.posix_acl_access", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    assert_eq!(set(b"user.a", XattrFlags::REPLACE), Err(Errno::NODATA));
    set(b"user.a", XattrFlags::CREATE).unwrap();
    assert_eq!(set(b"user.a", XattrFlags::CREATE), Err(Errno::EXIST));
    set(b"security.b", XattrFlags::empty()).unwrap();
    assert_eq!(handler.get_xattr(file, b"user.a").unwrap(), b"value");
    assert_eq!(handler.get_xattr(file, b"user.c"), Err(Errno::NODATA));
    let mut names: Vec<_> =
        handler.list_xattrs(file).unwrap().split(|&b| b == 0).map(<[u8]>::to_vec).collect();
    names.sort();
    assert_eq!(names, [&b""[..], b"security.b", b"user.a"]);
    handler.remove_xattr(file, b"user.a").unwrap();
    assert_eq!(handler.remove_xattr(file, b"user.a"), Err(Errno::NODATA));
}

#[test]
fn flags_are_those_of_chattr() {
    let mut handler = handler();
    let file = handler.make(&node(b"file", 0o100_600)).unwrap().inode;
    assert_eq!(handler.flags(file), Ok(4), "compressed");
    handler.set_flags(file, 0x10).unwrap();
    assert_eq!((handler.flags(file), handler.xflags(file)), (Ok(0x10), Ok(0x8)));
    assert_eq!(handler.write(file, 0, b"x", false), Err(Errno::PERM), "immutable");
    assert_eq!(handler.set_flags(file, 0x1_0000), Err(Errno::NOTTY), "dirsync is for directories");
    assert_eq!(handler.set_flags(file, 0x80), Err(Errno::OPNOTSUPP));
    handler.set_flags(file, 0).unwrap();
    handler.write(file, 0, b"x", false).unwrap();
}

#[test]
fn a_full_filesystem_says_so() {
    let mut handler = handler();
    let file = handler.make(&node(b"file", 0o100_600)).unwrap().inode;
    let noise: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let full = (0..1000).find_map(|n| handler.write(file, n * 4096, &noise, true).err());
    assert_eq!(full, Some(Errno::NOSPC));
    handler.unlink(ROOT, b"file").unwrap();
    assert!(handler.space().free_blocks > 50);
    let file = handler.make(&node(b"file", 0o100_600)).unwrap().inode;
    let much = noise.repeat(500);
    let written = handler.write(file, 0, &much, false).unwrap();
    assert!(
        written > 50 * 4096 && (written as usize) < much.len(),
        "as much as there was room for: {written}"
    );
    assert_eq!(handler.attributes(file).unwrap().size, u64::from(written));
    assert_eq!(handler.read(file, 0, written).unwrap(), much[..written as usize]);
    assert_eq!(errno(&Error::ReadOnly), Errno::ROFS);
}
