//! EROFS: inodes by their positions; data in blocks, after the inode, in chunks or in compressed clusters (Linux:
//! `fs/erofs/erofs_fs.h`).

use std::sync::Arc;

use floatgate_stack::fs::{BLOCK_BYTES, DeviceNumber, Error, FileType, Timestamp};

use super::codec::{Codec, Unpacker, lz4, micro_lzma};
use super::media::Media;
use super::recent::{InodeNumbers, Recent};
use super::{Inode, MAX_NAMES, Names, Tree, Xattr, Xattrs, broken, unsupported};
use crate::map::view::Numbers as _;

const SUPERBLOCK: u64 = 1024;

/// Unit of inode positions, bytes.
const SLOT: u64 = 32;

/// Features that the reader supports: all up to prefixes of extended attributes, except data on other devices.
const KNOWN: u32 = 0x7F;
const OTHER_DEVICES: u32 = 0x8;

/// Layouts of an inode's data.
const FLAT: u16 = 0;
const COMPRESSED_FULL: u16 = 1;
const FLAT_INLINE: u16 = 2;
const COMPRESSED_COMPACT: u16 = 3;
const CHUNKS: u16 = 4;

/// Flag of a file in chunks with indexes of 8 bytes.
const CHUNK_INDEXES: u32 = 0x20;
const HOLE: u32 = u32::MAX;

/// Flags of a compressed file.
const PACKED_2_BYTES: u16 = 0x1;
const BIG_CLUSTERS: u16 = 0x2 | 0x4;
const INLINE_TAIL: u16 = 0x8;
const INTERLACED: u16 = 0x10;
const FRAGMENT: u16 = 0x20;
/// Flag of a compressed file that is completely in a fragment.
const ALL_FRAGMENT: u64 = 1 << 63;

/// Types of a logical cluster.
const PLAIN: u32 = 0;
const NOT_HEAD: u32 = 2;
const HEAD_2: u32 = 3;

/// Flag of the first logical cluster after a head; the other bits are the number of blocks.
const BLOCK_COUNT: u32 = 1 << 11;

/// Largest number of logical clusters in a file, and size of the largest extent.
const MAX_CLUSTERS: u64 = 1 << 22;
const EXTENT_MAX: u64 = 16 << 20;

/// Prefixes of extended attributes, by number.
const PREFIXES: [&str; 7] =
    ["", "user.", "system.posix_acl_access", "system.posix_acl_default", "trusted.", "lustre.", "security."];

pub(super) struct Erofs {
    media: Media,
    unpacker: Unpacker,
    block: u64,
    inodes_at: u64,
    xattrs_at: u64,
    time: Timestamp,
    /// Inode that contains the fragments.
    packed: u64,
    root: u32,
    places: InodeNumbers,
    maps: Recent<u32, Map>,
    extents: Recent<(u32, u64), Vec<u8>>,
}

/// An inode with the position of its data.
#[derive(Clone)]
struct Raw {
    inode: Inode,
    layout: u16,
    /// Address of the data, chunk format, or device number.
    field: u32,
    at: u64,
    xattr_bytes: u64,
    /// End of the inode and its extended attributes.
    end: u64,
}

/// Extents of a compressed file.
struct Map {
    advise: u16,
    algorithms: [u8; 2],
    extents: Vec<Extent>,
    /// Offset and length of the tail after the indexes.
    tail: (u64, u64),
    /// Offset of the fragment.
    fragment: u64,
}

/// Range of a file in one cluster.
#[derive(Clone, Copy)]
struct Extent {
    start: u64,
    kind: u32,
    block: u64,
    blocks: u64,
}

/// Index of a logical cluster.
struct Index {
    kind: u32,
    /// Offset in the cluster at which an extent begins.
    byte: u64,
    /// First block of a head; number of blocks after a head.
    value: u64,
}

impl Erofs {
    pub(super) fn new(media: Media) -> Result<Self, Error> {
        let head = media.array::<128>(SUPERBLOCK).ok_or_else(broken)?;
        let head = &head[..];
        let features = head.le32(80);
        if features & !KNOWN != 0 {
            return Err(unsupported("a feature of a newer EROFS"));
        }
        if features & OTHER_DEVICES != 0 && head.le16(86) > 0 {
            return Err(unsupported("an EROFS with data on other devices"));
        }
        if !(9..=16).contains(&head[12]) {
            return Err(broken());
        }
        let block = 1 << head[12];
        let mut places = InodeNumbers::default();
        let root = places.number(head.le16(14).into()).ok_or_else(broken)?;
        Ok(Self {
            media,
            unpacker: Unpacker::default(),
            block,
            inodes_at: u64::from(head.le32(40)) * block,
            xattrs_at: u64::from(head.le32(44)) * block,
            time: Timestamp { seconds: head.le64(24).cast_signed(), nanoseconds: head.le32(32) },
            packed: head.le64(96),
            root,
            places,
            maps: Recent::new(2),
            extents: Recent::new(4),
        })
    }

    fn raw(&self, inode: u32) -> Option<Raw> {
        let at = self.places.place(inode)?.checked_mul(SLOT)?.checked_add(self.inodes_at)?;
        let head = self.media.bytes(at, 32)?;
        let format = head.le16(0);
        let is_long = format & 1 == 1;
        let rest = if is_long { self.media.bytes(at + 32, 32)? } else { vec![0; 32] };
        let size = if is_long { head.le64(8) } else { head.le32(8).into() };
        let mode = u32::from(head.le16(4));
        let field = head.le32(16);
        let plain = Inode::of_mode(mode, size)?;
        let is_device = matches!(plain.file_type, FileType::BlockDevice | FileType::CharacterDevice);
        let device = DeviceNumber { major: field >> 8 & 0xFFF, minor: field & 0xFF | field >> 12 & 0xF_FF00 };
        let inode = if is_long {
            let time = Timestamp { seconds: rest.le64(0).cast_signed(), nanoseconds: rest.le32(8) };
            Inode { uid: head.le32(24), gid: head.le32(28), links: rest.le32(12), ..plain.at(time) }
        } else {
            let (uid, gid) = (head.le16(24).into(), head.le16(26).into());
            Inode { uid, gid, links: head.le16(6).into(), ..plain.at(self.time) }
        };
        let count = u64::from(head.le16(2));
        let xattr_bytes = if count == 0 { 0 } else { 12 + 4 * (count - 1) };
        let own = if is_long { 64 } else { 32 };
        let inode = Inode { device: is_device.then_some(device), has_xattrs: count > 0, ..inode };
        let end = at + own + xattr_bytes;
        Some(Raw { inode, layout: format >> 1 & 7, field, at: at + own, xattr_bytes, end })
    }

    /// Position of a byte of an uncompressed file, and number of following bytes there; `Some(None)` in a hole.
    fn place(&self, raw: &Raw, at: u64) -> Option<Option<(u64, u64)>> {
        let address = |block: u32| u64::from(block) * self.block;
        match raw.layout {
            FLAT => Some(Some((address(raw.field).saturating_add(at), raw.inode.size - at))),
            FLAT_INLINE => {
                let last = raw.inode.size.div_ceil(self.block).saturating_sub(1) * self.block;
                Some(Some(match at.checked_sub(last) {
                    Some(behind) => (raw.end.saturating_add(behind), raw.inode.size - at),
                    None => (address(raw.field).saturating_add(at), last - at),
                }))
            }
            CHUNKS => {
                let bytes = self.block << (raw.field & 0x1F).min(32);
                let unit = if raw.field & CHUNK_INDEXES == 0 { 4 } else { 8 };
                let index = raw.end.next_multiple_of(unit) + at / bytes * unit;
                let block = self.media.le32(index + unit - 4)?;
                let follow = bytes - at % bytes;
                Some((block != HOLE).then(|| (address(block) + at % bytes, follow)))
            }
            _ => None,
        }
    }

    fn map(&mut self, inode: u32, raw: &Raw) -> Option<Arc<Map>> {
        if let Some(map) = self.maps.get(inode) {
            return Some(map);
        }
        let map = self.read_map(raw)?;
        Some(self.maps.put(inode, map))
    }

    fn read_map(&self, raw: &Raw) -> Option<Map> {
        let header_at = raw.end.next_multiple_of(8);
        let header = self.media.array::<8>(header_at)?;
        let header = &header[..];
        let whole = header.le64(0);
        let (advise, algorithms) = (header.le16(4), [header[6] & 15, header[6] >> 4]);
        let mut map = Map { advise, algorithms, extents: Vec::new(), tail: (0, 0), fragment: 0 };
        if whole & ALL_FRAGMENT != 0 {
            map.advise = FRAGMENT;
            map.fragment = whole & !ALL_FRAGMENT;
            map.extents.push(Extent { start: 0, kind: PLAIN, block: 0, blocks: 0 });
            return Some(map);
        }
        let shift = u32::from(header[7] & 7);
        let cluster = self.block << shift;
        let count = raw.inode.size.div_ceil(cluster);
        if count > MAX_CLUSTERS {
            return None;
        }
        let indexes = Indexes {
            media: &self.media,
            at: header_at + 8,
            count,
            cluster_bits: cluster.trailing_zeros(),
            advise,
            is_compact: raw.layout == COMPRESSED_COMPACT,
        };
        for number in 0..count {
            let index = indexes.get(number)?;
            match map.extents.last_mut() {
                Some(last) if index.kind == NOT_HEAD => {
                    if index.value > 0 {
                        last.blocks = index.value << shift;
                    }
                }
                None if index.kind == NOT_HEAD => return None,
                _ => map.extents.push(Extent {
                    start: number * cluster + index.byte,
                    kind: index.kind,
                    block: index.value,
                    blocks: 1 << shift,
                }),
            }
        }
        // A cluster may begin at the end of the file, and then contains no bytes of it.
        map.extents.retain(|extent| extent.start < raw.inode.size);
        if advise & INLINE_TAIL != 0 {
            map.tail = (indexes.end(), header.le16(2).into());
        }
        if advise & FRAGMENT != 0 {
            let high = if indexes.is_compact { 0 } else { map.extents.last().map_or(0, |last| last.block) };
            map.fragment = high << 32 | u64::from(header.le32(0));
        }
        Some(map)
    }

    /// Bytes of the extent that contains an offset of a file, and the start of the extent.
    fn extent(&mut self, inode: u32, raw: &Raw, at: u64) -> Option<(u64, Arc<Vec<u8>>)> {
        let map = self.map(inode, raw)?;
        let number = map.extents.partition_point(|extent| extent.start <= at).checked_sub(1)?;
        let extent = *map.extents.get(number)?;
        if let Some(bytes) = self.extents.get((inode, extent.start)) {
            return Some((extent.start, bytes));
        }
        let next = map.extents.get(number + 1);
        let end = next.map_or(raw.inode.size, |next| next.start.min(raw.inode.size));
        let len = end.checked_sub(extent.start).filter(|len| *len <= EXTENT_MAX)?;
        let mut out = vec![0; usize::try_from(len).ok()?];
        if next.is_none() && map.advise & FRAGMENT != 0 {
            self.fragment(map.fragment, inode, &mut out)?;
        } else {
            self.cluster(&map, extent, next.is_none(), &mut out)?;
        }
        Some((extent.start, self.extents.put((inode, extent.start), out)))
    }

    fn fragment(&mut self, at: u64, of: u32, out: &mut [u8]) -> Option<()> {
        let packed = self.places.number(self.packed).filter(|packed| *packed != of)?;
        let raw = self.raw(packed)?;
        // Fragments do not contain other fragments.
        if raw.layout == COMPRESSED_COMPACT || raw.layout == COMPRESSED_FULL {
            let map = self.map(packed, &raw)?;
            if map.advise & FRAGMENT != 0 {
                return None;
            }
        }
        self.read_raw(packed, &raw, at, out)
    }

    /// Decompresses a cluster into the bytes of an extent.
    fn cluster(&mut self, map: &Map, extent: Extent, is_last: bool, out: &mut [u8]) -> Option<()> {
        let (place, len) = if is_last && map.advise & INLINE_TAIL != 0 {
            map.tail
        } else {
            (extent.block.checked_mul(self.block)?, extent.blocks.checked_mul(self.block)?)
        };
        let stored = self.media.bytes(place, usize::try_from(len.min(self.media.len())).ok()?)?;
        if extent.kind == PLAIN {
            return self.plain(map, extent, &stored, out);
        }
        // Compressed data is at the end of its blocks.
        let zeros = stored.iter().take(usize::try_from(self.block).ok()?).take_while(|byte| **byte == 0);
        let skipped = zeros.count();
        let data = stored.get(skipped..)?;
        let len = match map.algorithms[usize::from(extent.kind == HEAD_2)] {
            0 => lz4(data, out, true)?,
            1 => micro_lzma(data, out)?,
            2 => self.unpacker.unpack(Codec::Deflate, data, out)?,
            3 => self.unpacker.unpack(Codec::Zstd, data, out)?,
            _ => return None,
        };
        (len == out.len()).then_some(())
    }

    fn plain(&self, map: &Map, extent: Extent, stored: &[u8], out: &mut [u8]) -> Option<()> {
        if map.advise & INTERLACED == 0 {
            let from = stored.get(..out.len())?;
            out.copy_from_slice(from);
            return Some(());
        }
        // The data has the same position in the block as in the file, and continues at the start of the block.
        let byte = usize::try_from(extent.start % self.block).ok()?;
        let first = stored.len().checked_sub(byte)?.min(out.len());
        let (right, left) = out.split_at_mut(first);
        right.copy_from_slice(stored.get(byte..byte + first)?);
        left.copy_from_slice(stored.get(..left.len())?);
        Some(())
    }

    fn read_raw(&mut self, inode: u32, raw: &Raw, at: u64, out: &mut [u8]) -> Option<()> {
        if at.checked_add(out.len() as u64)? > raw.inode.size {
            return None;
        }
        let is_compressed = matches!(raw.layout, COMPRESSED_FULL | COMPRESSED_COMPACT);
        let mut done = 0;
        while done < out.len() {
            let place = at + done as u64;
            let left = out.len() - done;
            let piece = if is_compressed {
                let (start, bytes) = self.extent(inode, raw, place)?;
                let from = bytes.get(usize::try_from(place - start).ok()?..)?;
                let len = from.len().min(left);
                out.get_mut(done..done + len)?.copy_from_slice(from.get(..len)?);
                len
            } else {
                let found = self.place(raw, place)?;
                let follow = found.map_or(self.block - place % self.block, |(_, follow)| follow);
                let len = usize::try_from(follow).unwrap_or(left).min(left);
                let to = out.get_mut(done..done + len)?;
                match found {
                    Some((from, _)) => self.media.read(from, to)?,
                    None => to.fill(0),
                }
                len
            };
            if piece == 0 {
                return None;
            }
            done += piece;
        }
        Some(())
    }

    fn names_in(&mut self, bytes: &[u8], names: &mut Names) -> Option<()> {
        let first = usize::from(bytes.le16(8));
        if first < 12 || !first.is_multiple_of(12) || first > bytes.len() {
            return None;
        }
        for at in (0..first).step_by(12) {
            let start = usize::from(bytes.le16(at + 8));
            let is_last = at + 12 == first;
            let end = if is_last { bytes.len() } else { usize::from(bytes.le16(at + 20)) };
            let name = bytes.get(start..end).filter(|_| start >= first)?;
            let name = name.get(..memchr::memchr(0, name).unwrap_or(name.len()))?;
            if names.len() >= MAX_NAMES {
                return None;
            }
            if !matches!(name, b"." | b"..") {
                names.push((name.to_vec(), self.places.number(bytes.le64(at))?));
            }
        }
        Some(())
    }

    /// Extended attribute, and its number of bytes.
    fn xattr(&self, at: u64) -> Option<(Xattr, u64)> {
        let head = self.media.array::<4>(at)?;
        let (name_len, value_len) = (usize::from(head[0]), usize::from(head[..].le16(2)));
        let prefix = PREFIXES.get(usize::from(head[1]))?;
        let name = self.media.bytes(at + 4, name_len)?;
        let value = self.media.bytes(at + 4 + name_len as u64, value_len)?;
        let len = (4 + name_len as u64 + value_len as u64).next_multiple_of(4);
        Some((([prefix.as_bytes(), &name].concat(), value), len))
    }
}

/// Indexes of the logical clusters of a compressed file.
struct Indexes<'m> {
    media: &'m Media,
    at: u64,
    count: u64,
    cluster_bits: u32,
    advise: u16,
    is_compact: bool,
}

impl Indexes<'_> {
    fn get(&self, number: u64) -> Option<Index> {
        if self.is_compact { self.compact(number) } else { self.full(number) }
    }

    /// End of the last index.
    fn end(&self) -> u64 {
        let last = self.count.saturating_sub(1);
        if !self.is_compact {
            return self.at + 8 + self.count * 8;
        }
        let (at, shift) = self.place(last);
        let pack = Self::in_pack(shift) << shift;
        at / pack * pack + pack
    }

    fn full(&self, number: u64) -> Option<Index> {
        let index = self.media.array::<8>(self.at + 8 + number * 8)?;
        let index = &index[..];
        let kind = u32::from(index.le16(0) & 3);
        if kind != NOT_HEAD {
            return Some(Index { kind, byte: index.le16(2).into(), value: index.le32(4).into() });
        }
        let delta = u32::from(index.le16(4));
        let blocks = if delta & BLOCK_COUNT == 0 { 0 } else { delta & !BLOCK_COUNT };
        Some(Index { kind, byte: 0, value: blocks.into() })
    }

    const fn in_pack(shift: u32) -> u64 {
        if shift == 1 { 16 } else { 2 }
    }

    /// Position of a compact index, and the logarithm of its mean size.
    fn place(&self, number: u64) -> (u64, u32) {
        let first = (32 - self.at % 32) / 4 % 8;
        let short = if self.advise & PACKED_2_BYTES != 0 && first < self.count {
            (self.count - first) / 16 * 16
        } else {
            0
        };
        if number < first {
            (self.at + number * 4, 2)
        } else if number < first + short {
            (self.at + first * 4 + (number - first) * 2, 1)
        } else {
            (self.at + first * 4 + short * 2 + (number - first - short) * 4, 2)
        }
    }

    fn compact(&self, number: u64) -> Option<Index> {
        let (at, shift) = self.place(number);
        let in_pack = Self::in_pack(shift);
        let bytes = in_pack << shift;
        let start = at / bytes * bytes;
        let mut pack = self.media.bytes(start, usize::try_from(bytes).ok()?)?;
        let first_block = pack.le32(pack.len() - 4);
        let number = u32::try_from((at - start) >> shift).ok()?;
        let pack_bits = u32::try_from((bytes - 4) * 8 / in_pack).ok()?;
        pack.extend([0; 4]);
        let low_bits = self.cluster_bits.max(12);
        if low_bits + 2 > pack_bits {
            return None;
        }
        let get = |number: u32| {
            let bit = number * pack_bits;
            let word = pack.le32(bit as usize / 8) >> (bit & 7);
            (word & ((1 << low_bits) - 1), word >> low_bits & 3)
        };
        let (low, kind) = get(number);
        if kind == NOT_HEAD {
            let is_count = self.advise & BIG_CLUSTERS != 0 && low & BLOCK_COUNT != 0;
            let blocks = if is_count { low & !BLOCK_COUNT } else { 0 };
            return Some(Index { kind, byte: 0, value: blocks.into() });
        }
        let before = blocks_before(number, self.advise & BIG_CLUSTERS != 0, get)?;
        Some(Index { kind, byte: low.into(), value: u64::from(first_block) + u64::from(before) })
    }
}

/// Number of blocks in the heads before an index in its pack (Linux: `unpack_compacted_index`).
fn blocks_before(number: u32, has_big: bool, get: impl Fn(u32) -> (u32, u32)) -> Option<u32> {
    let mut left = i64::from(number);
    let mut blocks = if has_big { 0_u32 } else { 1 };
    while left > 0 {
        left -= 1;
        let (low, kind) = get(u32::try_from(left).ok()?);
        let is_behind = kind == NOT_HEAD;
        if !has_big {
            if is_behind {
                left -= i64::from(low);
            }
            blocks += u32::from(left >= 0);
        } else if is_behind && low & BLOCK_COUNT != 0 {
            left -= 1;
            blocks = blocks.checked_add(low & !BLOCK_COUNT)?;
        } else if is_behind {
            left -= i64::from(low.checked_sub(2)?);
        } else {
            blocks += 1;
        }
    }
    Some(blocks)
}

impl Tree for Erofs {
    fn root(&self) -> u32 {
        self.root
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        Some(self.raw(inode)?.inode)
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let raw = self.raw(directory)?;
        let mut at = 0;
        while at < raw.inode.size {
            let len = (raw.inode.size - at).min(self.block);
            let mut bytes = vec![0; usize::try_from(len).ok()?];
            self.read_raw(directory, &raw, at, &mut bytes)?;
            self.names_in(&bytes, names)?;
            at += len;
        }
        Some(())
    }

    fn read(&mut self, inode: u32, at: u64, out: &mut [u8]) -> Option<()> {
        let raw = self.raw(inode)?;
        self.read_raw(inode, &raw, at, out)
    }

    fn is_hole(&mut self, inode: u32, block: u32) -> bool {
        let Some(raw) = self.raw(inode).filter(|raw| raw.layout == CHUNKS) else { return false };
        let at = u64::from(block) * BLOCK_BYTES as u64;
        self.block >= BLOCK_BYTES as u64 && self.place(&raw, at) == Some(None)
    }

    fn xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let raw = self.raw(inode)?;
        if raw.xattr_bytes == 0 {
            return Some(Xattrs::new());
        }
        let end = raw.at + raw.xattr_bytes;
        let shared = u64::from(self.media.array::<5>(raw.at)?[4]);
        let mut xattrs = Xattrs::new();
        for index in 0..shared {
            let id = self.media.le32(raw.at + 12 + 4 * index)?;
            xattrs.push(self.xattr(self.xattrs_at + 4 * u64::from(id))?.0);
        }
        let mut at = raw.at + 12 + 4 * shared;
        while at + 4 <= end {
            let (xattr, len) = self.xattr(at)?;
            xattrs.push(xattr);
            at += len;
        }
        Some(xattrs)
    }
}
