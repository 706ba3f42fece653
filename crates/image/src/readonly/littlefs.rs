//! LittleFS 2: logs of tags in pairs of blocks, and files as lists of blocks that skip backwards (littlefs `SPEC.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::crc;
use floatgate_stack::fs::{FileType, Timestamp};

use super::media::Media;
use super::recent::Recent;
use super::{Directories, Findings, Inode, MAX_NAMES, Names, Tree, Xattrs};
use crate::map::view::Numbers as _;

/// Types of tags: names, structures, changes of the list of ids, checksums, the next pair, a move.
const NAME_FILE: u32 = 0x001;
const NAME_DIRECTORY: u32 = 0x002;
const NAME_SUPERBLOCK: u32 = 0x0FF;
const STRUCT_DIRECTORY: u32 = 0x200;
const STRUCT_INLINE: u32 = 0x201;
const STRUCT_CTZ: u32 = 0x202;
const CREATE: u32 = 0x401;
const DELETE: u32 = 0x4FF;
const TAIL_SOFT: u32 = 0x600;
const TAIL_HARD: u32 = 0x601;
const MOVE_STATE: u32 = 0x7FF;

/// Type of the user attribute `t`, in which the port of ESP-IDF stores the modification time.
const ATTRIBUTE_TIME: u32 = 0x374;

/// Types of the user's attributes: their numbers are the lower byte.
const ATTRIBUTES: std::ops::RangeInclusive<u32> = 0x300..=0x3FF;

/// ID of a tag that belongs to no file, and length of a deleted tag.
const NO_ID: u32 = 0x3FF;
const DELETED: u32 = 0x3FF;

/// Maximum size of a block, bytes.
const BLOCK_MAX: u64 = 1 << 20;

/// Number of no block.
const NO_BLOCK: u32 = u32::MAX;

/// Number of the root's node.
const ROOT: u32 = 0;

type Pair = [u32; 2];

/// A file or a directory.
#[derive(Clone)]
struct Node {
    kind: NodeKind,
    mtime: Timestamp,
    /// User attributes except the time, by number.
    attributes: BTreeMap<u8, Vec<u8>>,
}

#[derive(Clone)]
enum NodeKind {
    Directory(Pair),
    Inline(Arc<Vec<u8>>),
    Ctz {
        head: u32,
        size: u32,
    },
    /// A name without a structure.
    Broken,
}

/// Tags of one ID in a pair.
#[derive(Clone, Default)]
struct Entry {
    kind: u32,
    name: Vec<u8>,
    content: Option<(u32, Vec<u8>)>,
    attributes: BTreeMap<u8, Vec<u8>>,
}

/// A pair as its commits leave it.
#[derive(Default)]
struct Metadata {
    entries: Vec<Entry>,
    tail: Option<(bool, Pair)>,
    moved: Option<[u32; 3]>,
    revision: u32,
}

pub(super) struct Littlefs {
    media: Media,
    block: u64,
    blocks: u32,
    nodes: Vec<Node>,
    /// Names of directories that were read.
    directories: Directories,
    /// Directories by their first pair, so that a directory that contains itself is entered only once.
    pairs: BTreeMap<Pair, u32>,
    /// Source of an interrupted move, whose file also exists at its destination: the entry counts as removed.
    moved: Option<(Pair, u32)>,
    lists: Recent<u32, Vec<u32>>,
    losses: Vec<String>,
    flaws: Vec<String>,
}

/// A tag: type, id and length.
#[derive(Clone, Copy)]
struct Tag(u32);

impl Tag {
    const fn kind(self) -> u32 {
        self.0 >> 20 & 0x7FF
    }
    const fn id(self) -> u32 {
        self.0 >> 10 & 0x3FF
    }
    const fn len(self) -> usize {
        let len = self.0 & 0x3FF;
        if len == DELETED { 0 } else { len as usize }
    }
    const fn is_deleted(self) -> bool {
        self.0 & 0x3FF == DELETED
    }
    const fn is_checksum(self) -> bool {
        self.kind() & 0x780 == 0x500
    }
}

impl Metadata {
    /// Reads the commits of a block, up to the first without a good checksum; `None` if there is none.
    fn parse(block: &[u8]) -> Option<Self> {
        let mut done = Self { revision: block.get(..4)?.le32(0), ..Self::default() };
        let mut pending: Vec<(Tag, &[u8])> = Vec::new();
        let (mut at, mut start, mut tag, mut commits) = (4, 0, u32::MAX, 0);
        while let Some(word) = block.get(at..at + 4) {
            tag ^= u32::from_be_bytes(word.first_chunk().copied().unwrap_or_default());
            if tag >> 31 != 0 {
                break;
            }
            let this = Tag(tag);
            let Some(data) = block.get(at + 4..at + 4 + this.len()) else { break };
            if this.is_checksum() {
                let Some(sum) = data.get(..4) else { break };
                if crc::ubi(&block[start..at + 4]) != sum.le32(0) {
                    break;
                }
                pending.drain(..).for_each(|(tag, data)| done.apply(tag, data));
                commits += 1;
                // This bit shows whether the next commit was written.
                tag ^= (this.kind() & 1) << 31;
                start = at + 4 + this.len();
            } else {
                pending.push((this, data));
            }
            at += 4 + this.len();
        }
        (commits > 0).then_some(done)
    }

    fn apply(&mut self, tag: Tag, data: &[u8]) {
        let id = tag.id() as usize;
        match tag.kind() {
            CREATE => {
                let at = id.min(self.entries.len());
                self.entries.insert(at, Entry::default());
            }
            DELETE if id < self.entries.len() => {
                self.entries.remove(id);
            }
            TAIL_SOFT | TAIL_HARD if data.len() >= 8 => {
                let pair = [data.le32(0), data.le32(4)];
                self.tail = Some((tag.kind() == TAIL_HARD, pair)).filter(|_| pair[0] != NO_BLOCK);
            }
            MOVE_STATE if data.len() >= 12 => {
                self.moved = Some([data.le32(0), data.le32(4), data.le32(8)]);
            }
            kind if tag.id() != NO_ID => self.entry(id, |entry| match kind {
                0..=0x0FF => (entry.kind, entry.name) = (kind, data.to_vec()),
                0x200..=0x2FF => entry.content = (!tag.is_deleted()).then(|| (kind, data.to_vec())),
                kind if ATTRIBUTES.contains(&kind) && tag.is_deleted() => {
                    entry.attributes.remove(&(kind as u8));
                }
                kind if ATTRIBUTES.contains(&kind) => {
                    entry.attributes.insert(kind as u8, data.to_vec());
                }
                _ => {}
            }),
            _ => {}
        }
    }

    fn entry(&mut self, id: usize, change: impl FnOnce(&mut Entry)) {
        if self.entries.len() <= id {
            self.entries.resize(id + 1, Entry::default());
        }
        if let Some(entry) = self.entries.get_mut(id) {
            change(entry);
        }
    }

    fn is_superblock(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.kind == NAME_SUPERBLOCK)
    }
}

/// Sizes and limits that a superblock states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LittlefsShape {
    /// Version on the disk.
    pub(crate) version: u32,
    /// Bytes of a block.
    pub(crate) block_bytes: u32,
    /// Number of blocks.
    pub(crate) blocks: u32,
    /// Longest name, largest file and largest attribute, bytes.
    pub(crate) name_max: u32,
    pub(crate) file_max: u32,
    pub(crate) attribute_max: u32,
}

impl LittlefsShape {
    /// By the superblock in the block that begins at a byte.
    fn at(media: &Media, at: u64) -> Option<Self> {
        let len = media.len().checked_sub(at)?.min(BLOCK_MAX);
        let superblock = Metadata::parse(&media.bytes(at, usize::try_from(len).ok()?)?)?;
        let (_, fields) = superblock.entries.first()?.content.as_ref()?;
        let shape = Self {
            version: fields.le32(0),
            block_bytes: fields.le32(4),
            blocks: fields.le32(8),
            name_max: fields.le32(12),
            file_max: fields.le32(16),
            attribute_max: fields.le32(20),
        };
        (64..=BLOCK_MAX).contains(&u64::from(shape.block_bytes)).then_some(shape)
    }

    /// By the first of the two superblocks, or the second: a power cut, or damage, leaves one block of the pair.
    pub(super) fn read(media: &Media) -> Option<Self> {
        let mut seconds = (7..=16).map(|log| 1_u64 << log);
        let second =
            || seconds.find_map(|at| Self::at(media, at).filter(|shape| u64::from(shape.block_bytes) == at));
        Self::at(media, 0).or_else(second)
    }
}

/// Name of the extended attribute for a user attribute.
pub(crate) fn attribute_name(number: u8) -> Vec<u8> {
    format!("user.littlefs.{number:02x}").into_bytes()
}

impl Littlefs {
    pub(super) fn new(media: Media) -> Option<Self> {
        let has_first = LittlefsShape::at(&media, 0).is_some();
        let shape = LittlefsShape::read(&media)?;
        let (block, blocks) = (u64::from(shape.block_bytes), shape.blocks);
        // A loop ends after a number of steps equal to the number of blocks.
        let there = u32::try_from(media.len() / block).unwrap_or(u32::MAX);
        let blocks = blocks.min(there);
        let mut fs = Self {
            media,
            block,
            blocks,
            nodes: Vec::new(),
            directories: Directories::new(),
            pairs: BTreeMap::new(),
            moved: None,
            lists: Recent::new(8),
            losses: Vec::new(),
            flaws: Vec::new(),
        };
        if !has_first {
            let what =
                "the first of the two blocks with the superblock has no good commit: the second one is read";
            fs.flaws.push(format!("LittleFS: {what}"));
        }
        fs.follow_list();
        Some(fs)
    }

    fn read_block(&self, block: u32) -> Option<Vec<u8>> {
        if block >= self.blocks {
            return None;
        }
        self.media.bytes(u64::from(block) * self.block, usize::try_from(self.block).ok()?)
    }

    /// The newer block of a pair that has a commit.
    fn pair(&self, pair: Pair) -> Option<Metadata> {
        let [first, second] = pair.map(|block| Metadata::parse(&self.read_block(block)?));
        match (first, second) {
            (Some(first), Some(second)) => {
                // Revisions are numbers in a ring.
                let is_newer = second.revision.wrapping_sub(first.revision).cast_signed() > 0;
                Some(if is_newer { second } else { first })
            }
            (first, second) => first.or(second),
        }
    }

    /// Follows the list of all pairs. The root is the last pair with a superblock, and the state of moves is distributed over all
    /// pairs.
    fn follow_list(&mut self) {
        let (mut pair, mut root, mut state) = ([0, 1], [0, 1], [0_u32; 3]);
        let mut attributes = BTreeMap::new();
        for _ in 0..=self.blocks {
            let Some(metadata) = self.pair(pair) else {
                self.losses
                    .push(format!("LittleFS: the pair of blocks {} and {} is damaged", pair[0], pair[1]));
                break;
            };
            if metadata.is_superblock() {
                root = pair;
                attributes = metadata.entries.first().map(|own| own.attributes.clone()).unwrap_or_default();
            }
            for (sum, part) in state.iter_mut().zip(metadata.moved.unwrap_or_default()) {
                *sum ^= part;
            }
            match metadata.tail {
                Some((_, next)) => pair = next,
                None => break,
            }
        }
        let tag = Tag(state[0]);
        self.moved = (tag.kind() == DELETE).then(|| ([state[1], state[2]], tag.id()));
        self.nodes.push(Node { kind: NodeKind::Directory(root), mtime: super::NEVER, attributes });
        self.pairs.insert(root, ROOT);
    }

    fn is_moved(&self, pair: Pair, id: usize) -> bool {
        self.moved
            .is_some_and(|(from, moved)| moved as usize == id && (from == pair || from == [pair[1], pair[0]]))
    }

    /// Blocks of a file, the first one first.
    fn list(&mut self, inode: u32, head: u32, size: u32) -> Option<Arc<Vec<u32>>> {
        if let Some(list) = self.lists.get(inode) {
            return Some(list);
        }
        let (last, _) = self.index(u64::from(size).checked_sub(1)?)?;
        if last >= u64::from(self.blocks) {
            return None;
        }
        let (mut at, mut list) = (head, Vec::new());
        for left in (0..=last).rev() {
            if at >= self.blocks {
                return None;
            }
            list.push(at);
            // The first pointer of a block refers to the previous block.
            if left > 0 {
                at = self.media.le32(u64::from(at) * self.block)?;
            }
        }
        list.reverse();
        Some(self.lists.put(inode, list))
    }

    /// Number of the block of a file with a byte, and the byte in it, pointers included (littlefs `DESIGN.md`, "CTZ skip-lists").
    fn index(&self, at: u64) -> Option<(u64, u64)> {
        let room = self.block.checked_sub(8)?;
        let guess = at / room;
        if guess == 0 {
            return Some((0, at));
        }
        let index = at.checked_sub(4 * (u64::from((guess - 1).count_ones()) + 2))? / room;
        let byte = at.checked_sub(room * index)?.checked_sub(4 * u64::from(index.count_ones()))?;
        Some((index, byte))
    }
}

fn node(mut entry: Entry) -> Node {
    let kind = match entry.content {
        Some((STRUCT_DIRECTORY, pair)) if pair.len() >= 8 => {
            NodeKind::Directory([pair.le32(0), pair.le32(4)])
        }
        Some((STRUCT_INLINE, data)) => NodeKind::Inline(Arc::new(data)),
        Some((STRUCT_CTZ, list)) if list.len() >= 8 => {
            NodeKind::Ctz { head: list.le32(0), size: list.le32(4) }
        }
        _ => NodeKind::Broken,
    };
    const TIME: u8 = ATTRIBUTE_TIME as u8;
    let seconds = match entry.attributes.get(&TIME) {
        Some(time) if time.len() == 8 => Some(time.le64(0).cast_signed()),
        Some(time) if time.len() == 4 => Some(time.le32(0).into()),
        _ => None,
    };
    if seconds.is_some() {
        entry.attributes.remove(&TIME);
    }
    let mtime = Timestamp { seconds: seconds.unwrap_or(0), nanoseconds: 0 };
    Node { kind, mtime, attributes: entry.attributes }
}

impl Tree for Littlefs {
    fn root(&self) -> u32 {
        ROOT
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let node = self.nodes.get(inode as usize)?;
        let plain = match &node.kind {
            NodeKind::Directory(_) => Inode::plain(FileType::Directory, 0),
            NodeKind::Inline(data) => Inode::plain(FileType::Regular, data.len() as u64),
            NodeKind::Ctz { size, .. } => Inode::plain(FileType::Regular, (*size).into()),
            NodeKind::Broken => return None,
        };
        Some(Inode { has_xattrs: !node.attributes.is_empty(), ..plain.at(node.mtime) })
    }

    fn xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let attributes = &self.nodes.get(inode as usize)?.attributes;
        Some(attributes.iter().map(|(number, value)| (attribute_name(*number), value.clone())).collect())
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let NodeKind::Directory(mut pair) = self.nodes.get(directory as usize)?.kind else { return None };
        for _ in 0..=self.blocks {
            let metadata = self.pair(pair)?;
            for (id, entry) in metadata.entries.into_iter().enumerate() {
                if self.is_moved(pair, id) || !matches!(entry.kind, NAME_FILE | NAME_DIRECTORY) {
                    continue;
                }
                let number = u32::try_from(self.nodes.len()).ok()?;
                if names.len() >= MAX_NAMES {
                    return None;
                }
                let name = entry.name.clone();
                let node = node(entry);
                let number = match node.kind {
                    NodeKind::Directory(pair) => *self.pairs.entry(pair).or_insert(number),
                    _ => number,
                };
                names.push((name, number));
                self.nodes.push(node);
            }
            match metadata.tail {
                Some((true, next)) => pair = next,
                _ => return Some(()),
            }
        }
        None
    }

    fn kept_names(&mut self) -> Option<&mut Directories> {
        Some(&mut self.directories)
    }

    fn read(&mut self, inode: u32, start: u64, out: &mut [u8]) -> Option<()> {
        let (head, size) = match &self.nodes.get(inode as usize)?.kind {
            NodeKind::Inline(data) => {
                let at = usize::try_from(start).ok()?;
                out.copy_from_slice(data.get(at..at + out.len())?);
                return Some(());
            }
            NodeKind::Ctz { head, size } => (*head, *size),
            _ => return None,
        };
        let list = self.list(inode, head, size)?;
        self.media.read_pieces(start, out, &|at| {
            let (index, byte) = self.index(at)?;
            let place = list.get(usize::try_from(index).ok()?)?;
            Some((u64::from(*place) * self.block + byte, self.block.checked_sub(byte)?))
        })
    }

    fn findings(&self) -> Findings {
        let remark = "LittleFS has no checksum over the data of files in blocks of their own: changed data cannot be seen";
        let (losses, flaws) = (self.losses.clone(), self.flaws.clone());
        Findings { losses, flaws, remarks: vec![remark.to_owned()], ..Findings::default() }
    }
}
