//! F2FS: a checkpoint, a table of node addresses with a journal, and nodes with addresses of data (Linux: `include/linux/f2fs_fs.h`). Nodes that were
//! synchronised after the checkpoint replace older ones, as a mount recovers them (Linux: `fs/f2fs/recovery.c`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use floatgate_media::crc;
use floatgate_stack::fs::{BLOCK_BYTES, Error, FileType, Timestamp};

use super::codec::{Codec, Unpacker};
use super::ext;
use super::media::Media;
use super::recent::Recent;
use super::{Findings, Inode, MAX_NAMES, Names, Tree, Xattrs, broken, unsupported};
use crate::map::view::Numbers as _;
use crate::words::count;

/// Size of a block, bytes, and its logarithm to base 2. Larger blocks are not supported.
const BLOCK: usize = BLOCK_BYTES;
const LOG_BLOCK: u32 = 12;

/// Places of the superblock and its copy.
const SUPERBLOCKS: [u64; 2] = [1024, 4096 + 1024];

const MAGIC: u32 = 0xF2F5_2010;
const XATTR_MAGIC: u32 = 0xF2F5_2011;

/// Number of blocks in a segment.
const SEGMENT: u64 = 512;

/// Features of the superblock.
const INODE_CHECKSUM: u32 = 0x20;
const FLEXIBLE_XATTR: u32 = 0x40;

/// Flags of the checkpoint.
const UNMOUNTED: u32 = 0x1;
const COMPACT_SUMMARY: u32 = 0x4;
const FASTBOOT: u32 = 0x20;
const LARGE_NAT: u32 = 0x400;
const CRC_RECOVERY: u32 = 0x40;

/// Places in the checkpoint of the segments and blocks in which nodes are written next, and the log of nodes of files among them.
const NODE_SEGMENTS: usize = 36;
const NODE_BLOCKS: usize = 68;
const WARM: usize = 1;

/// Flags in the footer of a node: it is the last node of an fsync, and its inode has a new name.
const SYNCHRONISED: u32 = 0x2;
const HAS_NAME: u32 = 0x4;

/// Lowest bit of the node's index within its file, in the flags of the footer.
const PLACE_BIT: u32 = 3;

/// Offsets of the fields in the footer of a node: inode, flags, version of the checkpoint, next node.
const FOOTER_INODE: usize = FOOTER + 4;
const FOOTER_FLAGS: usize = FOOTER + 8;
const FOOTER_VERSION: usize = FOOTER + 12;
const FOOTER_NEXT: usize = FOOTER + 20;

/// Places in an inode of its directory, and of its name with the length before.
const PARENT: usize = 84;
const NAME_AT: usize = 92;
const NAME_MAX: usize = 255;

/// Size of an entry in the node table, bytes, and number of entries per block.
const NAT_ENTRY: usize = 9;
const NATS: u32 = 455;

/// Offset of the journal in a summary, and size of a journal entry, bytes.
const JOURNAL_AT: usize = 512 * 7;
const JOURNAL_ENTRY: usize = 13;
const JOURNAL_MAX: usize = 38;

/// Flags of an inode: attributes, data and names within it, and more fields.
const INLINE_XATTR: u8 = 0x01;
const INLINE_DATA: u8 = 0x02;
const INLINE_NAMES: u8 = 0x04;
const EXTRA: u8 = 0x20;

/// Flags of encryption and of compression.
const ENCRYPTED: u8 = 0x04;
const COMPRESSED: u32 = 0x4;

/// Offset of the addresses in an inode, their number, and offset of the references to further nodes.
const ADDRESSES_AT: usize = 360;
const ADDRESSES: usize = 923;
const NODES_AT: usize = ADDRESSES_AT + 4 * ADDRESSES;

/// Offset of the checksum of an inode with extra fields.
const SUM_AT: usize = ADDRESSES_AT + 8;

/// Number of addresses in a node, and offset of its footer.
const IN_NODE: usize = 1018;
const FOOTER: usize = 4072;

/// Name of the encryption context among the extended attributes; no other attribute has this name.
const CONTEXT_NAME: &[u8] = b"/c";

/// Number of words for extended attributes in an inode, unless the inode states another number.
const XATTR_WORDS: usize = 50;

/// Special addresses: allocated but not written, and compressed cluster.
const NEW: u32 = u32::MAX;
const CLUSTER: u32 = u32::MAX - 1;

/// Size of the header of a compressed cluster, bytes.
const CLUSTER_HEADER: usize = 24;

/// Size of a directory entry, and of a slot of its name, bytes.
const ENTRY: usize = 11;
const SLOT: usize = 8;

pub(super) struct F2fs {
    media: Media,
    /// Node table: its first block, the bits of the copies in use, and entries of the journal.
    nat_at: u64,
    nat_bits: Vec<u8>,
    journal: BTreeMap<u32, u32>,
    root: u32,
    features: u32,
    uuid: Option<[u8; 16]>,
    seed: u32,
    flaws: Vec<String>,
    /// Names of files that were synchronised after the checkpoint, by their directories.
    recovered: BTreeMap<u32, Names>,
    /// Number of files with synchronised nodes that cannot be reached.
    lost: usize,
    /// Synchronised nodes with addresses, by inode and index in the file. The nodes that refer to them were not
    /// synchronised.
    synchronised: BTreeMap<(u32, u32), u32>,
    nodes: Recent<u32, Vec<u8>>,
    clusters: Recent<(u32, u32), Vec<u8>>,
    unpacker: Unpacker,
}

/// A checkpoint with its first block.
struct Checkpoint {
    start: u64,
    bytes: Vec<u8>,
}

/// Parts of an inode, in words of its addresses.
#[derive(Clone, Copy)]
struct Shape {
    extra: usize,
    xattrs: usize,
}

fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    crc::ubi_update(seed, bytes)
}

/// The first good superblock, and the damage of the other one.
fn superblock(media: &Media) -> Option<(Vec<u8>, Option<String>)> {
    let is_good = |block: &Vec<u8>| {
        let sum_at = block.le32(32) as usize;
        let sum = block.get(..sum_at).map(|covered| checksum(MAGIC, covered));
        block.le32(0) == MAGIC && (sum_at == 0 || sum == Some(block.le32(sum_at)))
    };
    let [first, second] = SUPERBLOCKS.map(|at| media.bytes(at, 3072).filter(is_good));
    let flaw = match (&first, &second) {
        (Some(first), Some(second)) if first == second => None,
        (Some(_), Some(_)) => Some("its two superblocks differ: the first one is read"),
        (Some(_), None) => Some("its second superblock is damaged"),
        (None, _) => Some("its first superblock is damaged: the second one is read"),
    };
    Some((first.or(second)?, flaw.map(|flaw| format!("F2FS: {flaw}"))))
}

impl Checkpoint {
    /// A block of a checkpoint with a good checksum.
    fn block(media: &Media, at: u64) -> Option<Vec<u8>> {
        let bytes = media.bytes(at.checked_mul(BLOCK as u64)?, BLOCK)?;
        let sum_at = bytes.le32(164) as usize;
        let mut sum = checksum(MAGIC, bytes.get(..sum_at)?);
        if sum_at + 4 < BLOCK {
            sum = checksum(sum, &bytes[sum_at + 4..]);
        }
        (sum_at >= 192 && sum_at + 4 <= BLOCK && sum == bytes.le32(sum_at)).then_some(bytes)
    }

    /// A checkpoint whose first and last block have the same version.
    fn at(media: &Media, start: u64) -> Option<Self> {
        let bytes = Self::block(media, start)?;
        let blocks = u64::from(bytes.le32(136));
        let last = Self::block(media, start + blocks.checked_sub(1).filter(|_| blocks <= SEGMENT)?)?;
        (last.le64(0) == bytes.le64(0)).then_some(Self { start, bytes })
    }

    fn flags(&self) -> u32 {
        self.bytes.le32(132)
    }

    /// Bits that show which copy of each block of the node table is in use.
    fn nat_bits(&self, media: &Media, payload: u32) -> Option<Vec<u8>> {
        let (sits, nats) = (self.bytes.le32(156) as usize, self.bytes.le32(160) as usize);
        let at = match () {
            () if self.flags() & LARGE_NAT != 0 => 192 + 4,
            () if payload > 0 => 192,
            () => 192_usize.saturating_add(sits),
        };
        // A large bitmap continues in the following blocks.
        let bytes = media.bytes(self.start * BLOCK as u64, BLOCK * (1 + payload.min(200) as usize))?;
        Some(bytes.get(at..at.checked_add(nats)?)?.to_vec())
    }

    /// The version that nodes state which were written after it.
    fn version(&self) -> u64 {
        let sum =
            if self.flags() & CRC_RECOVERY == 0 { 0 } else { self.bytes.le32(self.bytes.le32(164) as usize) };
        self.bytes.le64(0) | u64::from(sum) << 32
    }

    /// Addresses of nodes that the table does not have yet.
    fn journal(&self, media: &Media) -> Option<BTreeMap<u32, u32>> {
        let (total, first) = (u64::from(self.bytes.le32(136)), u64::from(self.bytes.le32(140)));
        let is_compact = self.flags() & COMPACT_SUMMARY != 0;
        let kinds = if self.flags() & (UNMOUNTED | FASTBOOT) != 0 { 6 } else { 3 };
        let block = if is_compact { first } else { total.checked_sub(kinds + 1)? };
        let bytes = media.bytes((self.start + block) * BLOCK as u64, BLOCK)?;
        let journal = if is_compact { &bytes[..] } else { bytes.get(JOURNAL_AT..)? };
        let count = usize::from(journal.le16(0)).min(JOURNAL_MAX);
        let entry = |index: usize| {
            let at = 2 + index * JOURNAL_ENTRY;
            (journal.le32(at), journal.le32(at + 9))
        };
        Some((0..count).map(entry).collect())
    }
}

impl F2fs {
    pub(super) fn new(media: Media) -> Result<Self, Error> {
        let (head, flaw) = superblock(&media).ok_or_else(broken)?;
        if head.le32(16) != LOG_BLOCK {
            return Err(unsupported("an F2FS with blocks of another size than 4096 bytes"));
        }
        if head.le32(20) != SEGMENT.trailing_zeros() {
            return Err(broken());
        }
        let first = u64::from(head.le32(76));
        let packs = [first, first + SEGMENT].map(|start| Checkpoint::at(&media, start));
        let newest = packs.into_iter().flatten().max_by_key(|pack| pack.bytes.le64(0));
        let newest = newest.ok_or_else(|| Error::Damaged("F2FS: both checkpoints are damaged".to_owned()))?;
        let nat_bits = newest.nat_bits(&media, head.le32(1664)).ok_or_else(broken)?;
        let journal = newest.journal(&media).ok_or_else(broken)?;
        let is_unmounted = newest.flags() & UNMOUNTED != 0;
        let mut fs = Self {
            nat_at: head.le32(84).into(),
            nat_bits,
            journal,
            root: head.le32(96),
            features: head.le32(2180),
            uuid: head[108..124].first_chunk().copied(),
            seed: checksum(u32::MAX, &head[108..124]),
            flaws: flaw.into_iter().collect(),
            recovered: BTreeMap::new(),
            lost: 0,
            synchronised: BTreeMap::new(),
            nodes: Recent::new(64),
            clusters: Recent::new(2),
            unpacker: Unpacker::default(),
            media,
        };
        if !is_unmounted {
            let files = fs.roll_forward(&newest, head.le32(92));
            let what = match files {
                0 => "nothing was synchronised after the last checkpoint".to_owned(),
                files => format!(
                    "{}, synchronised after the last checkpoint, {} shown as a mount recovers {}",
                    count(files as u64, "file"),
                    if files == 1 { "is" } else { "are" },
                    if files == 1 { "it" } else { "them" }
                ),
            };
            fs.flaws.push(format!("F2FS: it was not unmounted: {what}"));
        }
        Ok(fs)
    }

    /// Replaces older nodes by nodes that were synchronised after a checkpoint, and returns the number of their files. These nodes form a chain,
    /// which begins at the checkpoint's next log block.
    fn roll_forward(&mut self, checkpoint: &Checkpoint, main: u32) -> usize {
        let (segment, block) =
            (checkpoint.bytes.le32(NODE_SEGMENTS + 4 * WARM), checkpoint.bytes.le16(NODE_BLOCKS + 2 * WARM));
        let first = u64::from(main) + u64::from(segment) * SEGMENT + u64::from(block);
        let mut at = u32::try_from(first).unwrap_or(0);
        let version = checkpoint.version();
        let (mut chain, mut seen) = (Vec::new(), BTreeSet::new());
        while at != 0 && seen.insert(at) {
            let Some(node) = self.read_block(at).filter(|node| node.le64(FOOTER_VERSION) == version) else {
                break;
            };
            chain.push((at, node.le32(FOOTER), node.le32(FOOTER_INODE), node.le32(FOOTER_FLAGS)));
            at = node.le32(FOOTER_NEXT);
        }
        // For each file, only nodes up to its last synchronisation are used.
        let mut ends = BTreeMap::new();
        for (place, (_, _, inode, flags)) in chain.iter().enumerate() {
            if flags & SYNCHRONISED != 0 {
                ends.insert(*inode, place);
            }
        }
        let all = ends.len();
        let has_inode =
            |(_, node, inode, flags): &(u32, u32, u32, u32)| node == inode && flags & HAS_NAME != 0;
        let made: BTreeSet<u32> = chain.iter().filter(|node| has_inode(node)).map(|node| node.2).collect();
        ends.retain(|&inode, _| {
            made.contains(&inode) || self.address(inode).is_some_and(|address| address != 0 && address != NEW)
        });
        self.lost = all - ends.len();
        for (place, node) in chain.iter().enumerate() {
            let &(address, number, inode, flags) = node;
            if ends.get(&inode).is_none_or(|end| place > *end) {
                continue;
            }
            self.journal.insert(number, address);
            self.synchronised.insert((inode, flags >> PLACE_BIT), number);
            if has_inode(node)
                && let Some(raw) = self.read_block(address)
                && let Some(name) = raw.get(NAME_AT..NAME_AT + (raw.le32(NAME_AT - 4) as usize).min(NAME_MAX))
                && raw[2] & ENCRYPTED == 0
            {
                let names = self.recovered.entry(raw.le32(PARENT)).or_default();
                names.retain(|(other, _)| other != name);
                names.push((name.to_vec(), inode));
            }
        }
        ends.len()
    }

    fn read_block(&self, block: u32) -> Option<Vec<u8>> {
        self.media.bytes(u64::from(block) * BLOCK as u64, BLOCK)
    }

    /// Block of a node.
    fn address(&self, node: u32) -> Option<u32> {
        if let Some(&address) = self.journal.get(&node) {
            return Some(address);
        }
        let index = node / NATS;
        let bit = self.nat_bits.get(index as usize / 8)? >> (7 - index % 8) & 1;
        let (segment, block) = (u64::from(index) / SEGMENT, u64::from(index) % SEGMENT);
        let at = self.nat_at + segment * 2 * SEGMENT + block + u64::from(bit) * SEGMENT;
        let entry = at.checked_mul(BLOCK as u64)? + u64::from(node % NATS) * NAT_ENTRY as u64;
        self.media.le32(entry + 5)
    }

    /// A node, checked by its own number and the number of its inode.
    fn node(&mut self, node: u32, inode: u32) -> Option<Arc<Vec<u8>>> {
        let bytes = match self.nodes.get(node) {
            Some(bytes) => bytes,
            None => {
                let address = self.address(node).filter(|&address| address != 0 && address != NEW)?;
                let bytes = self.read_block(address).filter(|bytes| bytes.le32(FOOTER) == node)?;
                self.nodes.put(node, bytes)
            }
        };
        (bytes.le32(FOOTER + 4) == inode).then_some(bytes)
    }

    fn raw(&mut self, inode: u32) -> Option<Arc<Vec<u8>>> {
        let raw = self.node(inode, inode)?;
        let has_sum = raw[3] & EXTRA != 0 && usize::from(raw.le16(ADDRESSES_AT)) >= SUM_AT + 4 - ADDRESSES_AT;
        if self.features & INODE_CHECKSUM != 0 && has_sum {
            let seed = checksum(self.seed, &inode.to_le_bytes());
            let seed = checksum(seed, raw.get(68..72)?);
            let sum = checksum(checksum(seed, &raw[..SUM_AT]), &[0; 4]);
            if checksum(sum, &raw[SUM_AT + 4..]) != raw.le32(SUM_AT) {
                return None;
            }
        }
        Some(raw)
    }

    fn shape(&self, raw: &[u8]) -> Option<Shape> {
        let flags = raw[3];
        let extra = if flags & EXTRA != 0 { usize::from(raw.le16(ADDRESSES_AT)) / 4 } else { 0 };
        let xattrs = match () {
            () if self.features & FLEXIBLE_XATTR != 0 => usize::from(raw.le16(ADDRESSES_AT + 2)),
            () if flags & (INLINE_XATTR | INLINE_NAMES) != 0 => XATTR_WORDS,
            () => 0,
        };
        (extra + xattrs < ADDRESSES).then_some(Shape { extra, xattrs })
    }

    /// Data or names in the inode.
    fn inline<'r>(&self, raw: &'r [u8]) -> Option<&'r [u8]> {
        let shape = self.shape(raw)?;
        raw.get(ADDRESSES_AT + 4 * (shape.extra + 1)..NODES_AT - 4 * shape.xattrs)
    }

    /// Blocks of a cluster of a compressed file, and the compression.
    fn compression(raw: &[u8]) -> Option<(u32, u8)> {
        let is_compressed = raw.le32(80) & COMPRESSED != 0 && raw[3] & EXTRA != 0;
        let log = raw[ADDRESSES_AT + 33];
        (is_compressed && (2..=8).contains(&log)).then(|| (1 << log, raw[ADDRESSES_AT + 32]))
    }

    /// Address of a block of a file; 0 in a hole.
    fn map(&mut self, inode: u32, raw: &[u8], block: u32) -> Option<u32> {
        let shape = self.shape(raw)?;
        let cluster = Self::compression(raw).map_or(1, |(blocks, _)| blocks as usize);
        let whole = |count: usize| count / cluster * cluster;
        let own = whole(ADDRESSES - shape.extra - shape.xattrs);
        let below = whole(IN_NODE);
        let mut left = block as usize;
        if left < own {
            return Some(raw.le32(ADDRESSES_AT + 4 * (shape.extra + left)));
        }
        left -= own;
        let leaf = u32::try_from(left / below).ok()?;
        if let Some(&node) = self.synchronised.get(&(inode, place_of_leaf(leaf))) {
            return Some(self.node(node, inode)?.le32(4 * (left % below)));
        }
        for (index, level) in [0, 0, 1, 1, 2].into_iter().enumerate() {
            let span = below * IN_NODE.pow(level);
            if left >= span {
                left -= span;
                continue;
            }
            let mut node = raw.le32(NODES_AT + 4 * index);
            for level in (0..=level).rev() {
                if node == 0 {
                    return Some(0);
                }
                let bytes = self.node(node, inode)?;
                let span = if level == 0 { 1 } else { below * IN_NODE.pow(level - 1) };
                node = bytes.le32(4 * (left / span));
                left %= span;
            }
            return Some(node);
        }
        None
    }

    /// Decompressed cluster of a file.
    fn cluster(&mut self, inode: u32, raw: &[u8], first: u32) -> Option<Arc<Vec<u8>>> {
        if let Some(cluster) = self.clusters.get((inode, first)) {
            return Some(cluster);
        }
        let (blocks, algorithm) = Self::compression(raw)?;
        let codec = match algorithm {
            0 => Codec::Lzo,
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            // LZO-RLE has additional instructions.
            _ => return None,
        };
        let mut packed = Vec::new();
        for block in first + 1..first + blocks {
            match self.map(inode, raw, block)? {
                0 | NEW => break,
                address => packed.extend(self.read_block(address)?),
            }
        }
        let len = packed.get(..4)?.le32(0) as usize;
        let data = packed.get(CLUSTER_HEADER..CLUSTER_HEADER.checked_add(len)?)?;
        let mut out = vec![0; blocks as usize * BLOCK];
        self.unpacker.unpack(codec, data, &mut out)?;
        Some(self.clusters.put((inode, first), out))
    }

    /// Names in a block of a directory, or in its inode: bits of the slots, entries, and the slots.
    fn names_in(bytes: &[u8], names: &mut Names) -> Option<()> {
        let count = bytes.len() * 8 / ((ENTRY + SLOT) * 8 + 1);
        let slots = bytes.len().checked_sub(count * SLOT)?;
        let entries = slots.checked_sub(count * ENTRY)?;
        let mut at = 0;
        while at < count {
            if bytes.get(at / 8)? >> (at % 8) & 1 == 0 {
                at += 1;
                continue;
            }
            let entry = bytes.get(entries + at * ENTRY..)?;
            let (inode, len) = (entry.le32(4), usize::from(entry.le16(8)));
            let used = len.div_ceil(SLOT).max(1);
            if at + used > count || len == 0 || names.len() >= MAX_NAMES {
                return None;
            }
            let name = bytes.get(slots + at * SLOT..)?.get(..len)?;
            if !matches!(name, b"." | b"..") {
                names.push((name.to_vec(), inode));
            }
            at += used;
        }
        Some(())
    }

    fn stored_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let raw = self.raw(directory)?;
        if raw[3] & INLINE_NAMES != 0 {
            return Self::names_in(self.inline(&raw)?, names);
        }
        let blocks = raw.le64(16).div_ceil(BLOCK as u64).min(self.media.len() / BLOCK as u64);
        let mut is_whole = true;
        for block in 0..u32::try_from(blocks).ok()? {
            match self.map(directory, &raw, block) {
                Some(0 | NEW) => {}
                Some(address) => {
                    let bytes = self.read_block(address);
                    is_whole &= bytes.is_some_and(|bytes| Self::names_in(&bytes, names).is_some());
                }
                None => is_whole = false,
            }
        }
        is_whole.then_some(())
    }

    /// Extended attributes in the inode, followed by those in a separate node. The encryption context has a special
    /// name.
    fn read_xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let raw = self.raw(inode)?;
        let shape = self.shape(&raw)?;
        let mut area = Vec::new();
        if raw[3] & INLINE_XATTR != 0 {
            area.extend_from_slice(&raw[NODES_AT - 4 * shape.xattrs..NODES_AT]);
        }
        if raw.le32(76) != 0 {
            area.extend_from_slice(self.node(raw.le32(76), inode)?.get(..FOOTER)?);
        }
        let mut xattrs = Xattrs::new();
        let mut rest = if area.le32(0) == XATTR_MAGIC { area.get(24..)? } else { &[] };
        while rest.len() >= 4 && rest.le32(0) != 0 {
            let (len, size) = (usize::from(rest[1]), usize::from(rest.le16(2)));
            let name = rest.get(4..4 + len)?;
            let value = rest.get(4 + len..4 + len + size)?;
            match (rest[0], ext::prefix(rest[0])) {
                (2 | 3, Some(prefix)) => xattrs.push((prefix.as_bytes().to_vec(), ext::acl(value)?)),
                (1 | 4 | 6, Some(prefix)) => {
                    xattrs.push(([prefix.as_bytes(), name].concat(), value.to_vec()))
                }
                (ext::ENCRYPTION, _) => xattrs.push((CONTEXT_NAME.to_vec(), value.to_vec())),
                // Those of verity are no attributes of files.
                _ => {}
            }
            rest = rest.get((4 + len + size).next_multiple_of(4)..).unwrap_or_default();
        }
        Some(xattrs)
    }
}

/// Index of a node with addresses among all nodes of a file, computed from the number of such nodes before it (Linux: `get_node_path`). The inode
/// has two of them, two nodes with `IN_NODE` each, and one node with `IN_NODE` such nodes.
const fn place_of_leaf(leaf: u32) -> u32 {
    const ALL: u32 = IN_NODE as u32;
    match leaf.checked_sub(2) {
        None => leaf + 1,
        Some(below) if below < ALL => 4 + below,
        Some(below) if below < 2 * ALL => 5 + below,
        Some(below) => {
            let below = below - 2 * ALL;
            7 + 2 * ALL + below / ALL * (ALL + 1) + below % ALL
        }
    }
}

fn time(raw: &[u8], seconds: usize, nanoseconds: usize) -> Timestamp {
    Timestamp { seconds: raw.le64(seconds).cast_signed(), nanoseconds: raw.le32(nanoseconds) }
}

impl Tree for F2fs {
    fn uuid(&self) -> Option<[u8; 16]> {
        self.uuid
    }

    fn root(&self) -> u32 {
        self.root
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let raw = self.raw(inode)?;
        let mode = u32::from(raw.le16(0));
        let file_type = FileType::from_mode(mode)?;
        let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
        let numbers = raw.get(ADDRESSES_AT + 4 * self.shape(&raw)?.extra..)?;
        let size = match file_type {
            FileType::Regular | FileType::Directory | FileType::Symlink => raw.le64(16),
            _ => 0,
        };
        Some(Inode {
            uid: raw.le32(4),
            gid: raw.le32(8),
            links: raw.le32(12),
            atime: time(&raw, 32, 56),
            ctime: time(&raw, 40, 60),
            mtime: time(&raw, 48, 64),
            device: is_device.then(|| ext::device(numbers)),
            has_xattrs: raw[3] & INLINE_XATTR != 0 || raw.le32(76) != 0,
            ..Inode::of_mode(mode, size)?
        })
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let is_whole = self.stored_names(directory, names);
        for (name, inode) in self.recovered.get(&directory).into_iter().flatten() {
            match names.iter_mut().find(|(other, _)| other == name) {
                Some((_, other)) => *other = *inode,
                None => names.push((name.clone(), *inode)),
            }
        }
        is_whole
    }

    /// An encrypted block is always stored completely.
    fn stored_bytes(&mut self, inode: u32, size: u64) -> u64 {
        let is_whole =
            self.raw(inode).is_some_and(|raw| raw[2] & ENCRYPTED != 0 && raw[3] & INLINE_DATA == 0);
        if is_whole { size.next_multiple_of(BLOCK as u64) } else { size }
    }

    fn read(&mut self, inode: u32, at: u64, out: &mut [u8]) -> Option<()> {
        let raw = self.raw(inode)?;
        let block = u32::try_from(at / BLOCK as u64).ok()?;
        if raw[3] & INLINE_DATA != 0 {
            let data = self.inline(&raw)?.get(usize::try_from(at).ok()?..)?;
            out.copy_from_slice(data.get(..out.len())?);
            return Some(());
        }
        if raw[2] & ENCRYPTED != 0 && Self::compression(&raw).is_some() {
            return None;
        }
        if let Some((blocks, _)) = Self::compression(&raw) {
            let first = block / blocks * blocks;
            if self.map(inode, &raw, first)? == CLUSTER {
                let cluster = self.cluster(inode, &raw, first)?;
                let at = (block - first) as usize * BLOCK;
                out.copy_from_slice(&cluster[at..at + out.len()]);
                return Some(());
            }
        }
        match self.map(inode, &raw, block)? {
            0 | NEW => {}
            CLUSTER => return None,
            address => self.media.read(u64::from(address) * BLOCK as u64, out)?,
        }
        Some(())
    }

    fn is_hole(&mut self, inode: u32, block: u32) -> bool {
        let Some(raw) = self.raw(inode) else { return false };
        raw[3] & INLINE_DATA == 0
            && Self::compression(&raw).is_none()
            && matches!(self.map(inode, &raw, block), Some(0 | NEW))
    }

    fn is_encrypted(&mut self, inode: u32) -> bool {
        self.raw(inode).is_some_and(|raw| raw[2] & ENCRYPTED != 0)
    }

    fn context(&mut self, inode: u32) -> Option<Vec<u8>> {
        let xattrs = self.read_xattrs(inode)?;
        xattrs.into_iter().find(|(name, _)| name == CONTEXT_NAME).map(|(_, value)| value)
    }

    fn xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let mut xattrs = self.read_xattrs(inode)?;
        xattrs.retain(|(name, _)| name != CONTEXT_NAME);
        Some(xattrs)
    }

    fn findings(&self) -> Findings {
        let what = count(self.lost as u64, "synchronised file");
        let note = format!("F2FS: {what} without a name or an inode: a mount drops them");
        let notes = (self.lost > 0).then_some(note).into_iter().collect();
        Findings { notes, flaws: self.flaws.clone(), ..Findings::default() }
    }
}
