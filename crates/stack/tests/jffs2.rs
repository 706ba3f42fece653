//! JFFS2 images made node by node: versions, holes, names that are added and removed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

use floatgate_media::crc;
use floatgate_media::jffs2::Endian;
use floatgate_mtd::{FlashKind, Geometry, Instant};
use floatgate_stack::fs::{Error, FileSystem};
use floatgate_stack::jffs2::{Jffs2, MountError, MountOptions};
use floatgate_stack::{StoreFlash, StoreMode};
use proptest::prelude::*;

const ERASE: usize = 8192;
const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_755;

/// Nodes one after the other, little-endian.
#[derive(Clone, Default)]
struct Log(Vec<u8>);

impl Log {
    fn node(
        &mut self,
        node_type: u16,
        fields: &[u8],
        data: &[u8],
        crcs: impl Fn(&[u8]) -> Vec<u32>,
    ) -> &mut Self {
        let len = 12 + fields.len() + 4 * crcs(&[]).len() + data.len();
        let mut node = vec![0x85, 0x19];
        node.extend(node_type.to_le_bytes());
        node.extend((len as u32).to_le_bytes());
        node.extend(crc::jffs2(&node).to_le_bytes());
        node.extend(fields);
        for crc in crcs(&node) {
            node.extend(crc.to_le_bytes());
        }
        node.extend(data);
        node.resize(node.len().next_multiple_of(4), 0xFF);
        if self.0.len() / ERASE != (self.0.len() + node.len() - 1) / ERASE {
            self.0.resize(self.0.len().next_multiple_of(ERASE), 0xFF);
        }
        self.0.extend(node);
        self
    }

    fn dirent(&mut self, parent: u32, version: u32, inode: u32, name: &str, dirent_type: u8) -> &mut Self {
        let mut fields: Vec<u8> =
            [parent, version, inode, 1000 + version].iter().flat_map(|field| field.to_le_bytes()).collect();
        fields.extend([name.len() as u8, dirent_type, 0, 0]);
        let name = name.as_bytes().to_vec();
        let again = name.clone();
        self.node(0xE001, &fields, &again, move |node| vec![crc::jffs2(node), crc::jffs2(&name)])
    }

    fn inode(
        &mut self,
        inode: u32,
        version: u32,
        mode: u32,
        size: u32,
        offset: u32,
        data: &[u8],
    ) -> &mut Self {
        self.with(inode, version, mode, size, (offset, data.len() as u32), data, 0)
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a node")]
    fn with(
        &mut self,
        inode: u32,
        version: u32,
        mode: u32,
        size: u32,
        (offset, len): (u32, u32),
        data: &[u8],
        compressor: u8,
    ) -> &mut Self {
        let mut fields: Vec<u8> =
            [inode, version, mode].iter().flat_map(|field| field.to_le_bytes()).collect();
        fields.extend([1, 0, 2, 0]);
        let rest = [size, 5, 6, 7, offset, data.len() as u32, len];
        fields.extend(rest.iter().flat_map(|field| field.to_le_bytes()));
        fields.extend([compressor, 0, 0, 0]);
        let (data, again) = (data.to_vec(), data.to_vec());
        self.node(0xE002, &fields, &again, move |node| vec![crc::jffs2(&data), crc::jffs2(node)])
    }
}

type Fs = Jffs2<StoreFlash<Vec<u8>>>;

fn try_mount(bytes: &[u8]) -> Result<Fs, MountError> {
    let size = (bytes.len().next_multiple_of(ERASE) + ERASE) as u64;
    let geometry = Geometry::plain(FlashKind::Nor, size, ERASE as u32, 1);
    let flash = StoreFlash::new(bytes.to_vec(), geometry, StoreMode::ReadOnly);
    Jffs2::mount(flash, Instant::ZERO, &MountOptions::read_only()).map_err(|(error, _)| error)
}

fn mount(log: &Log) -> Fs {
    try_mount(&log.0).unwrap()
}

fn read(fs: &mut Fs, inode: u32) -> Vec<u8> {
    let mut data = vec![0xEE; 1 << 16];
    let len = fs.read(inode, 0, &mut data).unwrap();
    data.truncate(len);
    data
}

fn names(fs: &mut Fs, directory: u32) -> Vec<String> {
    let entries = fs.read_dir(directory, None, usize::MAX).unwrap();
    entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect()
}

#[test]
fn newer_nodes_cover_older_ones_wherever_they_stand() {
    let mut log = Log::default();
    log.dirent(1, 1, 5, "file", 8);
    // The nodes are written in another order than their versions.
    log.inode(5, 3, FILE, 10, 4, b"cc")
        .inode(5, 1, FILE, 10, 0, b"aaaaaaaaaa")
        .inode(5, 2, FILE, 10, 2, b"bbbbb");
    let mut fs = mount(&log);
    assert_eq!(read(&mut fs, 5), b"aabbccbaaa");
    // A hole in the middle; then the file is truncated and extended.
    log.with(5, 4, FILE, 10, (1, 2), b"", 1).inode(5, 5, FILE, 6, 0, b"");
    assert_eq!(read(&mut mount(&log), 5), b"a\0\0bcc");
    log.with(5, 6, FILE, 12, (6, 6), b"", 1);
    assert_eq!(read(&mut mount(&log), 5), b"a\0\0bcc\0\0\0\0\0\0");
    let mut fs = mount(&log);
    let attributes = fs.attributes(5).unwrap();
    assert_eq!((attributes.size, attributes.uid, attributes.gid, attributes.links), (12, 1, 2, 1));
    assert_eq!(fs.data_blocks(5, 0, usize::MAX).unwrap(), [0]);
}

#[test]
fn names_come_and_go_by_version() {
    let mut log = Log::default();
    log.inode(5, 1, FILE, 0, 0, b"").inode(6, 1, DIRECTORY, 0, 0, b"").inode(7, 1, FILE, 1, 0, b"x");
    log.dirent(1, 1, 5, "old", 8).dirent(1, 2, 6, "dir", 4).dirent(6, 1, 7, "below", 8);
    // `old` is renamed to `new`.
    log.dirent(1, 4, 0, "old", 0).dirent(1, 3, 5, "new", 8);
    let mut fs = mount(&log);
    assert_eq!(names(&mut fs, 1), ["dir", "new"]);
    assert_eq!(fs.lookup(1, b"old"), Err(Error::NotFound));
    let root = fs.attributes(1).unwrap();
    assert_eq!((root.mtime.seconds, root.mode), (0, 0o040_755), "it has no node of its own");
    log.inode(1, 2, DIRECTORY, 0, 0, b"");
    let root = mount(&log).attributes(1).unwrap();
    assert_eq!((root.mtime.seconds, root.mode), (1004, 0o040_755), "the time of the newest dirent");
    assert_eq!(fs.resolve(b"/dir/below").unwrap(), 7);
    // The directory is deleted, so its contents have no name, either.
    log.dirent(1, 5, 0, "dir", 0);
    let mut fs = mount(&log);
    assert_eq!(fs.inodes().unwrap(), [1, 5]);
    assert_eq!(fs.attributes(7).unwrap_err(), Error::NotFound);
    assert_eq!(fs.damaged_nodes(), []);
}

#[test]
fn a_name_without_its_inode_is_told() {
    let mut log = Log::default();
    log.inode(2, 1, FILE, 0, 0, b"").dirent(1, 1, 2, "there", 8).dirent(1, 2, 3, "lost", 8);
    let mut fs = mount(&log);
    assert_eq!(names(&mut fs, 1), ["there"]);
    let told = fs.damage()[0].to_string();
    assert!(told.contains("\"lost\" of inode 3"), "{told}");
}

/// Damage as after a power cut in the middle of a write.
#[test]
fn a_node_with_damaged_data_gives_way_to_those_before() {
    let mut log = Log::default();
    log.dirent(1, 1, 2, "file", 8).inode(2, 1, FILE, 4, 0, b"good").inode(2, 2, FILE, 8, 2, b"better");
    let last = log.0.len() - 3;
    log.inode(2, 3, FILE, 4, 0, b"x");
    let mut fs = mount(&log);
    assert_eq!(read(&mut fs, 2), b"xobe");
    log.0[last] ^= 1;
    let mut fs = mount(&log);
    assert_eq!(read(&mut fs, 2), b"xood");
    assert_eq!(fs.damaged_nodes().len(), 1);
    // The newest node defines the attributes, unless it is damaged.
    let mut log = Log::default();
    log.dirent(1, 1, 2, "file", 8).inode(2, 1, FILE, 4, 0, b"good").inode(2, 2, FILE, 9, 4, b"worse");
    let last = log.0.len() - 4;
    log.0[last] ^= 1;
    let mut fs = mount(&log);
    assert_eq!((fs.attributes(2).unwrap().size, read(&mut fs, 2)), (4, b"good".to_vec()));
}

#[test]
fn flash_without_a_node_is_no_jffs2() {
    for bytes in [vec![], vec![0xFF; 20_000], vec![0; 20_000]] {
        assert_eq!(try_mount(&bytes).unwrap_err(), MountError::Nothing);
    }
    // A node of an unknown, incompatible type.
    let mut log = Log::default();
    log.node(0xE0F0, &[], &[], |_| Vec::new());
    assert_eq!(try_mount(&log.0).unwrap_err(), MountError::Incompatible { at: 0, code: 0xE0F0 });
    // A node of an unknown type that can be ignored.
    let mut log = Log::default();
    log.node(0x20F0, &[], &[], |_| Vec::new()).inode(5, 1, FILE, 0, 0, b"").dirent(1, 1, 5, "file", 8);
    assert_eq!(names(&mut mount(&log), 1), ["file"]);
    assert_eq!(mount(&log).endian(), Endian::Little);
}

/// Linux fills the end of a page with zeros if it is not longer than the header of a padding node.
#[test]
fn zeros_too_few_for_a_node_are_no_damage() {
    for zeros in [4, 8, 12, 16] {
        let mut log = Log::default();
        log.inode(2, 1, FILE, 4, 0, b"data");
        let at = log.0.len() as u64;
        log.0.resize(log.0.len() + zeros, 0);
        log.dirent(1, 1, 2, "file", 8);
        let mut fs = mount(&log);
        assert_eq!(read(&mut fs, 2), b"data");
        let told: Vec<_> = fs.damage().iter().map(ToString::to_string).collect();
        let expected = (zeros > 12).then(|| format!("at byte {at} ({at:#x}): {zeros} bytes are no node"));
        assert_eq!(told, Vec::from_iter(expected));
    }
}

#[test]
fn a_directory_inside_itself_is_mounted() {
    let mut log = Log::default();
    log.inode(5, 1, DIRECTORY, 0, 0, b"")
        .dirent(1, 1, 5, "dir", 4)
        .dirent(5, 1, 5, "self", 4)
        .dirent(5, 2, 1, "root", 4);
    log.inode(1, 1, DIRECTORY, 0, 0, b"");
    let mut fs = mount(&log);
    assert_eq!(fs.resolve(b"/dir/self/self/root/dir").unwrap(), 5);
}

#[test]
fn lengths_that_lie_are_told() {
    let mut log = Log::default();
    log.dirent(1, 1, 2, "file", 8).inode(2, 1, FILE, 4, 0, b"good");
    // Nodes that state more file bytes than a page, and more than their data contains.
    log.with(2, 2, FILE, 1 << 20, (0, 1 << 20), b"tiny", 6).with(2, 3, FILE, 100, (0, 100), b"tiny", 0);
    let mut fs = mount(&log);
    assert_eq!(read(&mut fs, 2), b"good");
    assert_eq!(fs.damaged_nodes().len(), 2);
}

proptest! {
    /// Mounting and reading end without a panic, whatever the flash contains.
    #[test]
    fn nothing_panics(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40), noise in any::<bool>()) {
        let mut log = Log::default();
        for number in 2..40 {
            log.inode(number, 1, if number % 5 == 0 { DIRECTORY } else { FILE }, 100, number, &[number as u8; 50]);
            log.inode(number, 2, FILE, 80, 3 * number, &[7; 30]);
            log.dirent(if number % 5 == 1 { number - 1 } else { 1 }, number, number, &format!("name-{number}"), 8);
        }
        for (at, byte) in damage {
            let at = at.index(log.0.len());
            log.0[at] = if noise { byte } else { log.0[at] ^ 1 << (byte % 8) };
        }
        if let Ok(mut fs) = try_mount(&log.0) {
            for inode in fs.inodes().unwrap() {
                let _ = fs.read_dir(inode, None, usize::MAX);
                let mut data = [0; 300];
                let _ = fs.read(inode, 0, &mut data);
                let _ = fs.data_blocks(inode, 0, usize::MAX);
            }
        }
    }
}
