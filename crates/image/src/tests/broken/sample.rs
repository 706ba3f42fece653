//! Image that is damaged, with functions to find and change its structures.

use std::collections::BTreeMap;

use floatgate_media::crc;
use floatgate_media::ubi::LAYOUT_VOLUME;
use floatgate_media::ubifs::{Frame, Key, KeyHash, Limits, Node, lpt};
use floatgate_stack::fs::{Name, NewFile, NewKind, SetXattr};

use super::super::*;
use crate::dump::{Area, DumpTarget, dump};

/// Size of a PEB, bytes.
pub(super) const PEB: usize = 16 << 10;

/// Offsets of the VID header and of the data in a PEB.
const VID_AT: usize = 256;
const DATA_AT: usize = 512;

/// Number of bytes of an index node before its branches, and size of a branch.
const BRANCHES_AT: usize = 28;
const BRANCH: usize = 20;

/// Size of a record in the volume table, bytes.
const RECORD: usize = 172;

/// An image that is being damaged. Structures are found at their positions before the damage.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) bytes: Vec<u8>,
    whole: Vec<u8>,
    /// Offset of the PEB for each LEB of each volume.
    pebs: BTreeMap<(u32, u32), usize>,
}

impl Sample {
    /// A UBI device with a UBIFS that was unmounted.
    pub(super) fn clean() -> Self {
        Self::new(format(empty(), &geometry(), 0, true, fill))
    }

    /// The same device with a journal that must be replayed, and an orphan.
    pub(super) fn dirty() -> Self {
        let fill_more = |fs: &mut Ubifs<dyn Volume>| {
            fill(fs);
            let root = fs.root();
            let orphan = make(fs, root, b"orphan", NewKind::Regular);
            fs.open(orphan).unwrap();
            fs.unlink(root, b"orphan").unwrap();
            fs.sync().unwrap();
            let late = make(fs, root, b"late", NewKind::Regular);
            fs.write(late, 0, &[b'L'; 6000]).unwrap();
            fs.fsync(late).unwrap();
            fs.rename(
                Name { directory: root, name: b"late" },
                Name { directory: root, name: b"later" },
                floatgate_stack::fs::Rename::Replace,
            )
            .unwrap();
            fs.fsync(root).unwrap();
        };
        Self::new(format(empty(), &geometry(), 0, false, fill_more))
    }

    /// The UBIFS alone, as `mkfs.ubifs` creates it.
    pub(super) fn bare() -> Self {
        let geometry = VolumeGeometry {
            lebs: LEBS,
            leb_bytes: 15_872,
            min_io_bytes: 512,
            max_write_bytes: 512,
            leb_start: 0,
            read_only: false,
        };
        let volume = BareVolume::new(Vec::new(), geometry);
        let options = FormatOptions { deferred: true, ..FormatOptions::default() };
        let mut volume = fill_volume(volume, &options, true, fill);
        volume.flush().unwrap();
        let bytes = volume.into_store();
        Self { whole: bytes.clone(), bytes, pebs: BTreeMap::new() }
    }

    fn new(bytes: Vec<u8>) -> Self {
        let bytes = in_order(&bytes, &geometry());
        let mut pebs = BTreeMap::new();
        for (number, peb) in bytes.chunks(PEB).enumerate() {
            if let Some(vid) = vid_header(peb) {
                pebs.insert((vid.volume_id, vid.lnum), number * PEB);
            }
        }
        Self { whole: bytes.clone(), bytes, pebs }
    }

    /// Offset of the PEB with a LEB of the filesystem.
    pub(super) fn peb(&self, lnum: u32) -> usize {
        self.pebs[&(0, lnum)]
    }

    /// Offset of the PEB with a copy of the volume table.
    pub(super) fn table(&self, copy: u32) -> usize {
        self.pebs[&(LAYOUT_VOLUME, copy)]
    }

    /// Offset of a byte of a LEB in the filesystem.
    pub(super) fn leb(&self, lnum: u32, offset: u32) -> usize {
        self.peb(lnum) + DATA_AT + offset as usize
    }

    /// Offset of the PEB with the data of files.
    pub(super) fn data_peb(&self) -> usize {
        self.block("/data", 0) / PEB * PEB
    }

    /// Erases a PEB, as if it had never been written.
    pub(super) fn erase(&mut self, peb: usize) {
        self.bytes[peb..peb + PEB].fill(0xFF);
    }

    /// Changes one byte to a wrong value.
    pub(super) fn hit(&mut self, at: usize) {
        self.bytes[at] ^= 0x10;
    }

    /// Changes an EC or VID header, and writes a good CRC.
    fn header(&mut self, at: usize, change: impl FnOnce(&mut [u8])) {
        seal_header(&mut self.bytes[at..at + 64], change);
    }

    pub(super) fn ec(&mut self, peb: usize, change: impl FnOnce(&mut [u8])) {
        self.header(peb, change);
    }

    pub(super) fn vid(&mut self, peb: usize, change: impl FnOnce(&mut [u8])) {
        self.header(peb + VID_AT, change);
    }

    /// Changes the record of a volume in both copies of the table.
    pub(super) fn record(&mut self, id: usize, change: fn(&mut [u8])) {
        for copy in 0..2 {
            let at = self.table(copy) + DATA_AT + id * RECORD;
            let record = &mut self.bytes[at..at + RECORD];
            change(record);
            let sum = crc::ubi(&record[..RECORD - 4]);
            record[RECORD - 4..].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Changes a node, including its length, and writes a good CRC.
    pub(super) fn node(&mut self, at: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let len = u32::from_le_bytes(self.bytes[at + 16..at + 20].try_into().unwrap()) as usize;
        let mut node = self.bytes[at..at + len].to_vec();
        change(&mut node);
        let end = node.len();
        node[16..20].copy_from_slice(&(end as u32).to_le_bytes());
        let sum = crc::ubi(&node[8..end]);
        node[4..8].copy_from_slice(&sum.to_le_bytes());
        self.bytes[at..at + end].copy_from_slice(&node);
    }

    fn find(&self, wanted: &DumpTarget) -> usize {
        let found = dump(&open(&self.whole), &Selection::default(), wanted).unwrap();
        usize::try_from(found[0].at.unwrap()).unwrap()
    }

    /// Offset of the inode of a file.
    pub(super) fn inode(&self, path: &str) -> usize {
        self.find(&DumpTarget::Path { path: path.into(), block: None, entry: false })
    }

    /// Offset of the entry of a file.
    pub(super) fn entry(&self, path: &str) -> usize {
        self.find(&DumpTarget::Path { path: path.into(), block: None, entry: true })
    }

    /// Offset of a block of a file.
    pub(super) fn block(&self, path: &str, block: u32) -> usize {
        self.find(&DumpTarget::Path { path: path.into(), block: Some(block), entry: false })
    }

    /// Number of a file's inode.
    pub(super) fn number(&self, path: &str) -> u32 {
        self.word(self.inode(path) + 24)
    }

    /// A number in the undamaged image.
    pub(super) fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.whole[at..at + 4].try_into().unwrap())
    }

    pub(super) fn superblock(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.node(self.leb(0, 0), change);
    }

    /// Offsets of all nodes of an area.
    pub(super) fn area(&self, area: Area) -> Vec<usize> {
        let found = dump(&open(&self.whole), &Selection::default(), &DumpTarget::Area(area)).unwrap();
        found.iter().map(|node| usize::try_from(node.at.unwrap()).unwrap()).collect()
    }

    /// Changes all master nodes, including older ones.
    pub(super) fn masters(&mut self, change: fn(&mut Vec<u8>)) {
        for at in self.area(Area::Master) {
            self.node(at, change);
        }
    }

    /// Offset of the newest master node.
    fn master(&self) -> usize {
        self.area(Area::Master).into_iter().rfind(|&at| at < self.peb(2)).unwrap()
    }

    /// Offset in the image for a pair of LEB number and offset in the master node.
    pub(super) fn place_in_master(&self, field: usize) -> usize {
        let at = self.master() + field;
        self.leb(self.word(at), self.word(at + 4))
    }

    /// LEB and offset of the root of the index.
    pub(super) fn place_of_root(&self) -> (u32, u32) {
        let at = self.master() + 48;
        (self.word(at), self.word(at + 4))
    }

    /// Offset of the root of the index.
    pub(super) fn root(&self) -> usize {
        self.place_in_master(48)
    }

    /// Offset of the first index node below the root.
    pub(super) fn below_root(&self) -> usize {
        let branch = self.root() + BRANCHES_AT;
        self.leb(self.word(branch), self.word(branch + 4))
    }

    /// Changes all branches of the index with this key.
    pub(super) fn branches(&mut self, key: Key, change: impl Fn(&mut [u8])) {
        let words = ((key.bits() >> 32) as u32, key.bits() as u32);
        let nodes: Vec<usize> = self.nodes(9);
        let mut count = 0;
        for at in nodes {
            let children = usize::from(self.bytes[at + 24]);
            self.node(at, |node| {
                for branch in node[BRANCHES_AT..].chunks_mut(BRANCH).take(children) {
                    let word = |at: usize| u32::from_le_bytes(branch[at..at + 4].try_into().unwrap());
                    if (word(12), word(16)) == words {
                        change(branch);
                        count += 1;
                    }
                }
            });
        }
        assert!(count > 0, "no branch leads there");
    }

    /// Offsets of all nodes of a type.
    pub(super) fn nodes(&self, node_type: u8) -> Vec<usize> {
        let places = (0..self.whole.len() - 24).step_by(8);
        places
            .filter(|&at| self.whole[at + 20] == node_type && Frame::parse(&self.whole[at..]).is_ok())
            .collect()
    }

    /// Renames a file: in the entry, its key, and the index.
    pub(super) fn rename(&mut self, path: &str, name: &[u8]) {
        let at = self.entry(path);
        let old = self.key_at(at);
        let new = Key::entry(old.inum(), KeyHash::R5.hash(name).unwrap());
        self.node(at, |node| {
            node.truncate(56);
            node[28..32].copy_from_slice(&(new.bits() as u32).to_le_bytes());
            node[50..52].copy_from_slice(&(name.len() as u16).to_le_bytes());
            node.extend_from_slice(name);
            node.push(0);
        });
        let len = 57 + name.len() as u32;
        self.branches(old, |branch| {
            branch[8..12].copy_from_slice(&len.to_le_bytes());
            branch[16..20].copy_from_slice(&(new.bits() as u32).to_le_bytes());
        });
    }

    pub(super) fn key_at(&self, node: usize) -> Key {
        Key::from_bits(u64::from(self.word(node + 24)) << 32 | u64::from(self.word(node + 28)))
    }

    /// Changes the inode of an entry.
    pub(super) fn lead(&mut self, path: &str, inode: u32) {
        self.node(self.entry(path), |node| put(node, 40, inode));
    }

    pub(super) fn limits(&self) -> Limits {
        let frame = Frame::parse(&self.whole[self.leb(0, 0)..]).unwrap();
        let Ok(Node::Superblock(superblock)) = frame.node() else { panic!("a superblock") };
        Limits::new(&superblock.grown(LEBS)).unwrap()
    }

    /// Changes the first pnode of the LPT.
    pub(super) fn pnode(&mut self, change: fn(&mut lpt::Pnode)) {
        let geometry = self.limits().lpt_geometry;
        let mut at = self.place_in_master(120);
        while let Ok(node) = lpt::Nnode::parse(&self.whole[at..], &geometry) {
            let child = node.children[0].unwrap();
            at = self.leb(child.lnum, child.offset);
        }
        let mut node = lpt::Pnode::parse(&self.whole[at..], &geometry).unwrap();
        change(&mut node);
        node.emit(&geometry, &mut self.bytes[at..]).unwrap();
    }

    /// Changes the root of the LPT.
    pub(super) fn nnode(&mut self, change: fn(&mut lpt::Nnode, lpt::NodePos)) {
        let geometry = self.limits().lpt_geometry;
        let master = self.master();
        let place = lpt::NodePos { lnum: self.word(master + 120), offset: self.word(master + 124) };
        let at = self.leb(place.lnum, place.offset);
        let mut node = lpt::Nnode::parse(&self.whole[at..], &geometry).unwrap();
        change(&mut node, place);
        node.emit(&geometry, &mut self.bytes[at..]).unwrap();
    }

    /// Changes the LPT's table of its own LEBs.
    pub(super) fn ltab(&mut self, change: fn(&mut Vec<lpt::LebSpace>)) {
        let geometry = self.limits().lpt_geometry;
        let at = self.place_in_master(136);
        let mut lebs: Vec<_> = lpt::Ltab::parse(&self.whole[at..], &geometry).unwrap().lebs().collect();
        change(&mut lebs);
        lpt::Ltab::emit(lebs, &geometry, &mut self.bytes[at..]).unwrap();
    }
}

/// Writes a number to a node.
pub(super) fn put(node: &mut [u8], at: usize, value: u32) {
    node[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes a number to a header of UBI.
pub(super) fn put_big(header: &mut [u8], at: usize, value: u32) {
    header[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn seal_header(header: &mut [u8], change: impl FnOnce(&mut [u8])) {
    change(header);
    let sum = crc::ubi(&header[..60]);
    header[60..64].copy_from_slice(&sum.to_be_bytes());
}

/// Number of LEBs in the volume of the filesystem.
const LEBS: u32 = 42;

fn geometry() -> Geometry {
    Geometry::nand_512(56)
}

fn empty() -> Vec<u8> {
    device(&geometry(), 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", LEBS)).unwrap();
    })
}

fn make(fs: &mut Ubifs<dyn Volume>, directory: u32, name: &[u8], kind: NewKind<'_>) -> u32 {
    let file = NewFile { kind, permissions: 0o644, uid: 0, gid: 0 };
    fs.create(directory, name, &file).unwrap()
}

/// Fills the filesystem with a few files of each type.
fn fill(fs: &mut Ubifs<dyn Volume>) {
    let root = fs.root();
    let text: Vec<u8> =
        (0..9000u32).map(|at| if at % 2 == 0 { (at * at % 251) as u8 } else { b'.' }).collect();
    for name in [&b"data"[..], b"hard"] {
        let file = make(fs, root, name, NewKind::Regular);
        fs.write(file, 0, &text).unwrap();
    }
    let hard = fs.lookup(1, b"hard").unwrap();
    fs.link(hard, root, b"other").unwrap();
    make(fs, root, b"link", NewKind::Symlink(b"where the link leads"));
    make(fs, root, b"pipe", NewKind::Fifo);
    let device = floatgate_stack::fs::DeviceNumber { major: 4, minor: 64 };
    make(fs, root, b"tty", NewKind::CharacterDevice(device));
    let file = make(fs, root, b"noted", NewKind::Regular);
    fs.set_xattr(file, b"user.note", b"the value", SetXattr::Any).unwrap();
    let upper = make(fs, root, b"upper", NewKind::Directory);
    let lower = make(fs, upper, b"lower", NewKind::Directory);
    let lowest = make(fs, lower, b"lowest", NewKind::Directory);
    let file = make(fs, lowest, b"file", NewKind::Regular);
    fs.write(file, 0, b"small").unwrap();
    // Each directory has one name, so that another name does not change the order of the index.
    for name in [&[b'n'; 2][..], &[b'n'; 3], &[b'n'; 255]] {
        let directory = make(fs, root, format!("names-{}", name.len()).as_bytes(), NewKind::Directory);
        make(fs, directory, name, NewKind::Regular);
    }
    // Writes all nodes to the index.
    fs.sync().unwrap();
}
