//! ext2, ext3 and ext4: inodes by number, blocks by extents or indirect blocks (Linux: `fs/ext4/ext4.h`). The journal is not replayed.

use std::sync::Arc;

use floatgate_stack::fs::{BLOCK_BYTES, DeviceNumber, Error, FileType, Timestamp};

use super::media::Media;
use super::recent::Recent;
use super::{Findings, Inode, MAX_NAMES, Names, Tree, Xattrs, broken, unsupported};
use crate::map::probes::ext::{group_of as ext_group, start_of as ext_start};
use crate::map::view::Numbers as _;

/// Offset of the superblock.
const SUPERBLOCK: u64 = 1024;

/// Groups with copies of the superblock that are looked at.
const COPIES: [u16; 10] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125];

/// Number of the root's inode.
const ROOT: u32 = 2;

/// Features that are needed to read: unsupported ones, and those that change a layout.
const COMPRESSION: u32 = 0x1;
const RECOVER: u32 = 0x4;
const JOURNAL_DEVICE: u32 = 0x8;
const META_BG: u32 = 0x10;
const WIDE: u32 = 0x80;

/// Feature that is needed to write: blocks are allocated in clusters.
const BIGALLOC: u32 = 0x200;

/// Flags of an inode.
const EXTENTS: u32 = 0x8_0000;
const INLINE: u32 = 0x1000_0000;
const ENCRYPTED: u32 = 0x800;

const EXTENT_MAGIC: u16 = 0xF30A;
const XATTR_MAGIC: u32 = 0xEA02_0000;

/// Bytes of the block map in an inode, and of an inode of the first revision.
const MAP: usize = 60;
const OLD_INODE: u16 = 128;

/// Offset of the block map in an inode.
const MAP_AT: usize = 40;

/// Maximum depth of an extent tree.
const DEPTH_MAX: u16 = 5;

/// Maximum length of an extent, blocks; a larger length marks an extent that was allocated but not written.
const EXTENT_MAX: u16 = 0x8000;

/// Maximum size of an inode, bytes.
const INODE_MAX: u16 = 4096;

/// Number of the attributes with contexts of encryption, and a prefix that names of other attributes do not have.
pub(super) const ENCRYPTION: u8 = 9;
const ENCRYPTION_PREFIX: &[u8] = b"/";

/// Position of the UUID in the superblock.
const UUID: std::ops::Range<usize> = 104..120;

/// Name of the attribute with the rest of inline data, without its prefix.
const INLINE_NAME: &[u8] = b"system.data";

pub(super) struct Ext {
    media: Media,
    block: u64,
    first_block: u64,
    inodes: u32,
    inodes_per_group: u32,
    blocks_per_group: u64,
    inode_bytes: u16,
    descriptor_bytes: u64,
    /// First group whose descriptors are in their own group; `None` without that feature.
    meta_groups: Option<u64>,
    needs_recovery: bool,
    uuid: Option<[u8; 16]>,
    /// Group whose copy of the descriptors is read.
    copy: u16,
    losses: Vec<String>,
    blocks: Recent<u64, Vec<u8>>,
    raws: Recent<u32, Vec<u8>>,
}

/// Superblock, its group, and the damage of the first superblock. If the fields of the first one contradict each other or its checksum is
/// wrong, the first good copy is used.
fn superblock(media: &Media) -> Option<(Vec<u8>, u16, Vec<String>)> {
    let first = media.bytes(SUPERBLOCK, 1024);
    if first.as_ref().is_some_and(|first| ext_group(first) == Some(0)) {
        return Some((first?, 0, Vec::new()));
    }
    let Some((copy, group, at)) = copies(media, first.as_deref().unwrap_or_default()) else {
        return Some((first?, 0, Vec::new()));
    };
    let loss = format!("ext: its superblock is damaged: the copy in group {group}, at byte {at}, is read");
    Some((copy, group, vec![loss]))
}

/// First good copy of a superblock, with its group and offset. It is searched in groups of the usual size, and of the size in the damaged
/// superblock.
fn copies(media: &Media, damaged: &[u8]) -> Option<(Vec<u8>, u16, u64)> {
    for log in 0..=6_u32 {
        let (block, first) = (1024_u64 << log, u64::from(log == 0));
        let mut sizes = vec![8 * block];
        sizes.extend(Some(u64::from(damaged.le32(32))).filter(|own| (256..8 * block).contains(own)));
        for per_group in sizes {
            for group in COPIES {
                let at = (u64::from(group) * per_group + first) * block;
                let Some(copy) = media.bytes(at, 1024) else { break };
                if ext_group(&copy) == Some(group) && ext_start(&copy, group) == at {
                    return Some((copy, group, at));
                }
            }
        }
    }
    None
}

impl Ext {
    pub(super) fn new(media: Media) -> Result<Self, Error> {
        let (head, copy, losses) = superblock(&media).ok_or_else(broken)?;
        let head = &head[..];
        let incompat = head.le32(96);
        if incompat & COMPRESSION != 0 {
            return Err(unsupported("this ext2 is compressed, which is not read"));
        }
        if incompat & JOURNAL_DEVICE != 0 {
            return Err(unsupported("this ext is the journal of another one, and has no files"));
        }
        if head.le32(100) & BIGALLOC != 0 {
            return Err(unsupported("this ext4 uses bigalloc, which is not read"));
        }
        let inode_bytes = if head.le32(76) == 0 { OLD_INODE } else { head.le16(88) };
        let is_wide = incompat & WIDE != 0;
        let descriptor_bytes = if is_wide { head.le16(254) } else { 32 };
        let (inodes_per_group, blocks_per_group) = (head.le32(40), head.le32(32));
        let is_possible = (OLD_INODE..=INODE_MAX).contains(&inode_bytes)
            && (32..=1024).contains(&descriptor_bytes)
            && inodes_per_group > 0
            && blocks_per_group > 0
            && head.le32(24) <= 6;
        if !is_possible {
            return Err(broken());
        }
        Ok(Self {
            media,
            block: 1024 << head.le32(24),
            first_block: head.le32(20).into(),
            inodes: head.le32(0),
            inodes_per_group,
            blocks_per_group: blocks_per_group.into(),
            inode_bytes,
            descriptor_bytes: descriptor_bytes.into(),
            meta_groups: (incompat & META_BG != 0).then(|| head.le32(260).into()),
            needs_recovery: incompat & RECOVER != 0,
            uuid: head.get(UUID).and_then(|uuid| uuid.first_chunk()).copied(),
            copy,
            losses,
            blocks: Recent::new(32),
            raws: Recent::new(32),
        })
    }

    fn read_block(&mut self, block: u64) -> Option<Arc<Vec<u8>>> {
        if let Some(bytes) = self.blocks.get(block) {
            return Some(bytes);
        }
        let bytes = self.media.bytes(block.checked_mul(self.block)?, usize::try_from(self.block).ok()?)?;
        Some(self.blocks.put(block, bytes))
    }

    /// Offset of the descriptor of a group.
    fn descriptor(&self, group: u64) -> Option<u64> {
        let in_block = self.block / self.descriptor_bytes;
        let table = match self.meta_groups {
            Some(first) if group / in_block >= first => {
                let start = group / in_block * in_block;
                let own = start * self.blocks_per_group + self.first_block;
                // The first group has a superblock in front; of the others those with a copy: powers of 3, 5 and 7.
                own + u64::from(has_superblock(start))
            }
            _ => u64::from(self.copy) * self.blocks_per_group + self.first_block + 1 + group / in_block,
        };
        table.checked_mul(self.block)?.checked_add(group % in_block * self.descriptor_bytes)
    }

    fn raw(&mut self, inode: u32) -> Option<Arc<Vec<u8>>> {
        if let Some(raw) = self.raws.get(inode) {
            return Some(raw);
        }
        let index = inode.checked_sub(1).filter(|_| inode <= self.inodes)?;
        let at = self.descriptor(u64::from(index / self.inodes_per_group))?;
        let low = self.media.le32(at + 8)?;
        let high = if self.descriptor_bytes >= 64 { self.media.le32(at + 40)? } else { 0 };
        let table = (u64::from(high) << 32 | u64::from(low)).checked_mul(self.block)?;
        let within = u64::from(index % self.inodes_per_group) * u64::from(self.inode_bytes);
        let raw = self.media.bytes(table.checked_add(within)?, self.inode_bytes.into())?;
        Some(self.raws.put(inode, raw))
    }

    /// Block of the media for a block of a file; `None` in case of damage, `Some(None)` in a hole.
    fn map(&mut self, raw: &[u8], block: u32) -> Option<Option<u64>> {
        let map = raw.get(MAP_AT..MAP_AT + MAP)?.to_vec();
        if raw.le32(32) & EXTENTS != 0 { self.extent(map, block) } else { self.indirect(&map, block) }
    }

    fn extent(&mut self, mut node: Vec<u8>, block: u32) -> Option<Option<u64>> {
        let mut above = DEPTH_MAX + 1;
        loop {
            let (count, depth) = (node.le16(2), node.le16(6));
            if node.le16(0) != EXTENT_MAGIC || depth >= above || usize::from(count) * 12 + 12 > node.len() {
                return None;
            }
            above = depth;
            let last = (0..usize::from(count)).rev().map(|index| 12 + 12 * index);
            let Some(at) = last.into_iter().find(|at| node.le32(*at) <= block) else {
                return Some(None);
            };
            if depth == 0 {
                let (first, len) = (node.le32(at), node.le16(at + 4));
                let start = u64::from(node.le16(at + 6)) << 32 | u64::from(node.le32(at + 8));
                let distance = block - first;
                // An extent that was not written reads as zeros.
                let is_there = len <= EXTENT_MAX && distance < u32::from(len);
                return Some(is_there.then(|| start + u64::from(distance)));
            }
            let child = u64::from(node.le16(at + 8)) << 32 | u64::from(node.le32(at + 4));
            node = self.read_block(child)?.to_vec();
        }
    }

    fn indirect(&mut self, map: &[u8], block: u32) -> Option<Option<u64>> {
        let pointers = self.block / 4;
        let mut left = u64::from(block);
        if left < 12 {
            let at = map.le32(usize::try_from(left).ok()? * 4);
            return Some((at != 0).then_some(at.into()));
        }
        left -= 12;
        for level in 1..=3_u32 {
            let span = pointers.pow(level);
            if left < span {
                return self.below(map.le32(44 + 4 * level as usize), left, level);
            }
            left -= span;
        }
        None
    }

    fn below(&mut self, mut at: u32, mut left: u64, levels: u32) -> Option<Option<u64>> {
        let pointers = self.block / 4;
        for level in (0..levels).rev() {
            if at == 0 {
                return Some(None);
            }
            let span = pointers.pow(level);
            at = self.read_block(at.into())?.le32(usize::try_from(left / span).ok()? * 4);
            left %= span;
        }
        Some((at != 0).then_some(at.into()))
    }

    /// Data in the inode: its block map, and an extended attribute.
    fn inline(&mut self, raw: &[u8]) -> Option<Vec<u8>> {
        let mut data = raw.get(MAP_AT..MAP_AT + MAP)?.to_vec();
        let rest = self.in_inode(raw)?.into_iter().find(|(name, _)| name == INLINE_NAME);
        data.extend(rest.into_iter().flat_map(|(_, value)| value));
        Some(data)
    }

    /// Extended attributes in the inode.
    fn in_inode(&mut self, raw: &[u8]) -> Option<Xattrs> {
        if raw.len() <= usize::from(OLD_INODE) {
            return Some(Xattrs::new());
        }
        let at = usize::from(OLD_INODE) + usize::from(raw.le16(128));
        let Some(area) = raw.get(at + 4..).filter(|_| raw.le32(at) == XATTR_MAGIC) else {
            return Some(Xattrs::new());
        };
        self.entries(area, area)
    }

    /// Extended attributes from the entries on; offsets of values count from the start of `base`.
    fn entries(&mut self, mut entries: &[u8], base: &[u8]) -> Option<Xattrs> {
        let mut xattrs = Xattrs::new();
        while entries.len() >= 16 && entries.le32(0) != 0 {
            let (len, index) = (usize::from(entries[0]), entries[1]);
            let (place, owner, size) = (usize::from(entries.le16(2)), entries.le32(4), entries.le32(8));
            let prefix = if index == ENCRYPTION { ENCRYPTION_PREFIX } else { prefix(index)?.as_bytes() };
            let name = [prefix, entries.get(16..16 + len)?].concat();
            let size = usize::try_from(size).ok()?;
            let value = match owner {
                0 => base.get(place..place.checked_add(size)?)?.to_vec(),
                inode => self.value(inode, size)?,
            };
            xattrs.push((name, value));
            entries = entries.get((16 + len).next_multiple_of(4)..).unwrap_or_default();
        }
        Some(xattrs)
    }

    /// Attribute value that is stored in a separate inode.
    fn value(&mut self, inode: u32, size: usize) -> Option<Vec<u8>> {
        let raw = self.raw(inode).filter(|_| size <= 1 << 16)?;
        let mut value = Vec::new();
        for block in 0..u32::try_from(size.div_ceil(usize::try_from(self.block).ok()?)).ok()? {
            let at = self.map(&raw, block)??;
            value.extend_from_slice(&self.read_block(at)?);
        }
        value.truncate(size);
        Some(value)
    }

    /// Names in a part of a directory.
    fn names_in(bytes: &[u8], names: &mut Names) -> Option<()> {
        let mut at = 0;
        while at + 8 <= bytes.len() {
            let (inode, name_len) = (bytes.le32(at), usize::from(bytes[at + 6]));
            let len = match bytes.le16(at + 4) {
                // 64 KiB do not fit into the field.
                0 | 0xFFFF => bytes.len() - at,
                len => len.into(),
            };
            if len < 8 || at + len > bytes.len() {
                return None;
            }
            let name = bytes.get(at + 8..at + 8 + name_len).filter(|_| name_len + 8 <= len);
            if inode != 0 && !matches!(name?, b"." | b".." | b"") {
                if names.len() >= MAX_NAMES {
                    return None;
                }
                names.push((name?.to_vec(), inode));
            }
            at += len;
        }
        Some(())
    }
}

/// True for a group with a copy of the superblock: 0, 1, and the powers of 3, 5 and 7.
fn has_superblock(group: u64) -> bool {
    group <= 1
        || [3, 5, 7].into_iter().any(|base: u64| {
            let powers = std::iter::successors(Some(base), |power| power.checked_mul(base));
            powers.take_while(|power| *power <= group).any(|power| power == group)
        })
}

fn size(raw: &[u8]) -> u64 {
    // Directories of ext2 have other data there.
    u64::from(raw.le32(108)) << 32 | u64::from(raw.le32(4))
}

/// Prefix of the names of extended attributes.
pub(super) const fn prefix(index: u8) -> Option<&'static str> {
    Some(match index {
        0 => "",
        1 => "user.",
        2 => "system.posix_acl_access",
        3 => "system.posix_acl_default",
        4 => "trusted.",
        6 => "security.",
        7 => "system.",
        8 => "system.richacl",
        _ => return None,
    })
}

/// A time with the field that has its nanoseconds and two more bits of seconds.
fn time(raw: &[u8], at: usize, extra_at: usize) -> Timestamp {
    let seconds = i64::from(raw.le32(at).cast_signed());
    let has_extra = raw.len() > extra_at + 4 && usize::from(raw.le16(128)) + 128 >= extra_at + 4;
    let extra = if has_extra { raw.le32(extra_at) } else { 0 };
    Timestamp { seconds: seconds + (i64::from(extra & 3) << 32), nanoseconds: extra >> 2 }
}

/// Device number in a block map: in the old form, or in the new form after it.
pub(super) fn device(map: &[u8]) -> DeviceNumber {
    match map.le32(0) {
        0 => {
            let number = map.le32(4);
            DeviceNumber { major: number >> 8 & 0xFFF, minor: number & 0xFF | number >> 12 & 0xF_FF00 }
        }
        old => DeviceNumber { major: old >> 8 & 0xFF, minor: old & 0xFF },
    }
}

/// A POSIX ACL as ext4 stores it, in the form of the system calls: entries without an id lack the field.
pub(super) fn acl(stored: &[u8]) -> Option<Vec<u8>> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    let mut rest = stored.get(4..)?;
    while !rest.is_empty() {
        let tag = rest.get(..4)?.le16(0);
        acl.extend_from_slice(&rest[..4]);
        // ACL_USER and ACL_GROUP have an id.
        let has_id = matches!(tag, 2 | 8);
        let len = if has_id { 8 } else { 4 };
        let id = if has_id { rest.get(4..8)?.le32(0) } else { u32::MAX };
        acl.extend_from_slice(&id.to_le_bytes());
        rest = rest.get(len..)?;
    }
    Some(acl)
}

impl Tree for Ext {
    fn uuid(&self) -> Option<[u8; 16]> {
        self.uuid
    }

    fn root(&self) -> u32 {
        ROOT
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let raw = self.raw(inode)?;
        let raw = &raw[..];
        let mode = u32::from(raw.le16(0));
        let file_type = FileType::from_mode(mode)?;
        let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
        let has_area = raw.len() > 128 && raw.le32(128 + usize::from(raw.le16(128))) == XATTR_MAGIC;
        let size = match file_type {
            FileType::Regular | FileType::Directory => size(raw),
            FileType::Symlink => raw.le32(4).into(),
            _ => 0,
        };
        Some(Inode {
            uid: u32::from(raw.le16(2)) | u32::from(raw.le16(120)) << 16,
            gid: u32::from(raw.le16(24)) | u32::from(raw.le16(122)) << 16,
            links: raw.le16(26).into(),
            atime: time(raw, 8, 140),
            ctime: time(raw, 12, 132),
            mtime: time(raw, 16, 136),
            device: is_device.then(|| device(&raw[MAP_AT..])),
            has_xattrs: has_area || raw.le32(104) != 0,
            ..Inode::of_mode(mode, size)?
        })
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let raw = self.raw(directory)?;
        if raw.le32(32) & INLINE != 0 {
            // The inode number of the parent directory comes first.
            let data = self.inline(&raw)?;
            Self::names_in(data.get(4..MAP)?, names)?;
            return Self::names_in(data.get(MAP..)?, names);
        }
        let blocks = size(&raw).div_ceil(self.block);
        let mut is_whole = blocks <= self.media.len() / self.block;
        for block in 0..u32::try_from(blocks.min(self.media.len() / self.block)).ok()? {
            match self.map(&raw, block) {
                Some(Some(at)) => {
                    let bytes = self.read_block(at);
                    is_whole &= bytes.is_some_and(|bytes| Self::names_in(&bytes, names).is_some());
                }
                Some(None) => {}
                None => return None,
            }
            if names.len() >= MAX_NAMES {
                return None;
            }
        }
        is_whole.then_some(())
    }

    /// An encrypted block is always stored completely.
    fn stored_bytes(&mut self, inode: u32, size: u64) -> u64 {
        let is_whole = self.raw(inode).is_some_and(|raw| {
            let is_regular = FileType::from_mode(raw.le16(0).into()) == Some(FileType::Regular);
            raw.le32(32) & ENCRYPTED != 0 && raw.le32(32) & INLINE == 0 && is_regular
        });
        if is_whole { size.next_multiple_of(self.block) } else { size }
    }

    fn read(&mut self, inode: u32, start: u64, out: &mut [u8]) -> Option<()> {
        let raw = self.raw(inode)?;
        let flags = raw.le32(32);
        let is_link = FileType::from_mode(raw.le16(0).into()) == Some(FileType::Symlink);
        let is_fast = is_link && flags & EXTENTS == 0 && out.len() < MAP;
        if is_fast || flags & INLINE != 0 {
            let at = usize::try_from(start).ok()?;
            out.copy_from_slice(self.inline(&raw)?.get(at..at + out.len())?);
            return Some(());
        }
        let mut done = 0;
        while done < out.len() {
            let at = start + done as u64;
            let within = usize::try_from(at % self.block).ok()?;
            let piece = (usize::try_from(self.block).ok()? - within).min(out.len() - done);
            if let Some(place) = self.map(&raw, u32::try_from(at / self.block).ok()?)? {
                let at = place.checked_mul(self.block)?.checked_add(within as u64)?;
                self.media.read(at, out.get_mut(done..done + piece)?)?;
            }
            done += piece;
        }
        Some(())
    }

    fn is_hole(&mut self, inode: u32, block: u32) -> bool {
        let Some(raw) = self.raw(inode) else { return false };
        if raw.le32(32) & INLINE != 0 {
            return false;
        }
        let start = u64::from(block) * BLOCK_BYTES as u64;
        let end = (start + BLOCK_BYTES as u64).min(size(&raw).max(start + 1));
        (start / self.block..end.div_ceil(self.block))
            .all(|block| u32::try_from(block).is_ok_and(|block| self.map(&raw, block) == Some(None)))
    }

    fn is_encrypted(&mut self, inode: u32) -> bool {
        self.raw(inode).is_some_and(|raw| raw.le32(32) & ENCRYPTED != 0)
    }

    fn context(&mut self, inode: u32) -> Option<Vec<u8>> {
        let context = |(name, value): (Vec<u8>, Vec<u8>)| (name == b"/c").then_some(value);
        self.all_xattrs(inode)?.into_iter().find_map(context)
    }

    fn unit(&self) -> usize {
        usize::try_from(self.block).unwrap_or(usize::MAX)
    }

    fn xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let mut xattrs = self.all_xattrs(inode)?;
        xattrs.retain(|(name, _)| !name.starts_with(ENCRYPTION_PREFIX));
        Some(xattrs)
    }

    fn findings(&self) -> Findings {
        let note = "ext: it was not unmounted: the journal has changes that Linux would replay, and that are not read here";
        let notes = self.needs_recovery.then(|| note.to_owned()).into_iter().collect();
        Findings { notes, losses: self.losses.clone(), ..Findings::default() }
    }
}

impl Ext {
    /// Extended attributes, those of encryption too.
    fn all_xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let raw = self.raw(inode)?;
        let mut xattrs = self.in_inode(&raw)?;
        let block = u64::from(raw.le32(104)) | u64::from(raw.le16(118)) << 32;
        if block != 0 {
            let bytes = self.read_block(block)?;
            if bytes.le32(0) != XATTR_MAGIC {
                return None;
            }
            xattrs.extend(self.entries(bytes.get(32..)?, &bytes)?);
        }
        xattrs.retain(|(name, _)| name != INLINE_NAME);
        for (name, value) in &mut xattrs {
            if name.starts_with(b"system.posix_acl_") {
                *value = acl(value)?;
            }
        }
        Some(xattrs)
    }
}
