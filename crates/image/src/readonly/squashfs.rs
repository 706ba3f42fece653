//! SquashFS 4: tables of compressed metadata, and data blocks with a table of fragments (Linux:
//! `fs/squashfs/squashfs_fs.h`).

use std::sync::Arc;

use floatgate_stack::fs::{BLOCK_BYTES, DeviceNumber, Error, FileType, Timestamp};

use super::codec::{Codec, Unpacker};
use super::media::Media;
use super::recent::{InodeNumbers, Recent};
use super::{Inode, MAX_NAMES, Names, Tree, Xattr, Xattrs, broken, unsupported};
use crate::map::view::Numbers as _;

/// Size of a metadata block, bytes.
const METADATA: usize = 8192;

/// Flag in the length of an uncompressed metadata block.
const METADATA_PLAIN: u16 = 0x8000;

/// Flag in the length of an uncompressed data block.
const DATA_PLAIN: u32 = 1 << 24;

/// Number of a missing fragment, or of missing extended attributes.
const NONE: u32 = u32::MAX;

/// Largest number of blocks in a file.
const MAX_BLOCKS: u64 = 1 << 21;

/// Size of an inode header, and of a table entry, bytes.
const INODE_HEADER: usize = 16;
const TABLE_ENTRY: u64 = 16;

/// Prefixes of extended attributes, by number.
const PREFIXES: [&str; 3] = ["user.", "trusted.", "security."];

/// Flag in the type of an extended attribute whose value is at another position.
const VALUE_ELSEWHERE: u16 = 0x100;

/// Size of the largest value of an extended attribute, bytes.
const VALUE_MAX: u32 = 64 << 10;

pub(super) struct Squashfs {
    media: Media,
    codec: Codec,
    unpacker: Unpacker,
    block_bytes: u64,
    root: u32,
    tables: Tables,
    places: InodeNumbers,
    metadata: Recent<u64, (Vec<u8>, u64)>,
    data: Recent<u64, Vec<u8>>,
    files: Recent<u32, File>,
}

/// Offsets of the tables.
struct Tables {
    ids: u64,
    xattrs: u64,
    inodes: u64,
    directories: u64,
    fragments: u64,
}

/// Position in the metadata: its block, and the offset in the decompressed block.
#[derive(Clone, Copy)]
struct MetadataRef {
    block: u64,
    byte: usize,
}

impl MetadataRef {
    /// Position of a reference: the block relative to the start of a table, and the offset.
    fn of(table: u64, reference: u64) -> Option<Self> {
        Some(Self { block: table.checked_add(reference >> 16)?, byte: (reference & 0xFFFF) as usize })
    }
}

/// An inode with the fields of its type.
struct Raw {
    inode: Inode,
    xattrs: u32,
    body: Body,
}

enum Body {
    Directory { listing: MetadataRef, len: u64 },
    File { start: u64, fragment: u32, fragment_byte: u32, blocks: MetadataRef },
    Link(MetadataRef),
    Other,
}

/// Blocks of a file.
struct File {
    /// Offset and length field of each block.
    blocks: Vec<(u64, u32)>,
    /// Offset, length field and start of the fragment at the end of the file.
    tail: Option<(u64, u32, u64)>,
}

impl Squashfs {
    pub(super) fn new(media: Media) -> Result<Self, Error> {
        let head = media.array::<96>(0).ok_or_else(broken)?;
        let head = &head[..];
        if (1..=3).contains(&head.le16(28)) {
            return Err(unsupported("SquashFS before version 4"));
        }
        let codec = match head.le16(20) {
            1 => Codec::Zlib,
            2 => Codec::Lzma,
            3 => Codec::Lzo,
            4 => Codec::Xz,
            5 => Codec::Lz4,
            6 => Codec::Zstd,
            // Linux has no other types.
            _ => return Err(broken()),
        };
        if !(12..=20).contains(&head.le16(22)) {
            return Err(broken());
        }
        let tables = Tables {
            ids: head.le64(48),
            xattrs: head.le64(56),
            inodes: head.le64(64),
            directories: head.le64(72),
            fragments: head.le64(80),
        };
        let mut places = InodeNumbers::default();
        let root = places.number(head.le64(32)).ok_or_else(broken)?;
        Ok(Self {
            media,
            codec,
            unpacker: Unpacker::default(),
            block_bytes: 1 << head.le16(22),
            root,
            tables,
            places,
            metadata: Recent::new(32),
            data: Recent::new(4),
            files: Recent::new(2),
        })
    }

    /// A metadata block, and the offset of the next one.
    fn metadata(&mut self, at: u64) -> Option<Arc<(Vec<u8>, u64)>> {
        if let Some(block) = self.metadata.get(at) {
            return Some(block);
        }
        let header = self.media.le16(at)?;
        let len = usize::from(header & !METADATA_PLAIN);
        let data = self.media.bytes(at + 2, len)?;
        let mut bytes = vec![0; METADATA];
        let filled = if header & METADATA_PLAIN != 0 {
            bytes.get_mut(..len)?.copy_from_slice(&data);
            len
        } else {
            self.unpacker.unpack(self.codec, &data, &mut bytes)?
        };
        bytes.truncate(filled);
        Some(self.metadata.put(at, (bytes, at + 2 + len as u64)))
    }

    /// Reads metadata, and moves the position after it.
    fn take(&mut self, place: &mut MetadataRef, out: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < out.len() {
            let block = self.metadata(place.block)?;
            let (bytes, next) = &*block;
            match bytes.get(place.byte..).filter(|rest| !rest.is_empty()) {
                Some(rest) => {
                    let len = rest.len().min(out.len() - done);
                    out[done..done + len].copy_from_slice(&rest[..len]);
                    done += len;
                    place.byte += len;
                }
                None if bytes.is_empty() => return None,
                None => *place = MetadataRef { block: *next, byte: place.byte - bytes.len() },
            }
        }
        Some(())
    }

    fn array<const N: usize>(&mut self, place: &mut MetadataRef) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.take(place, &mut bytes)?;
        Some(bytes)
    }

    /// Entry of a table whose metadata blocks are in a list of offsets.
    fn entry<const N: usize>(&mut self, table: u64, index: u32) -> Option<[u8; N]> {
        let byte = u64::from(index) * N as u64;
        let block = self.media.le64(table.checked_add(byte / METADATA as u64 * 8)?)?;
        self.array(&mut MetadataRef { block, byte: usize::try_from(byte % METADATA as u64).ok()? })
    }

    fn id(&mut self, index: u16) -> Option<u32> {
        self.entry(self.tables.ids, index.into()).map(u32::from_le_bytes)
    }

    fn raw(&mut self, inode: u32) -> Option<Raw> {
        let mut place = MetadataRef::of(self.tables.inodes, self.places.place(inode)?)?;
        let header = self.array::<INODE_HEADER>(&mut place)?;
        let header = &header[..];
        let (kind, mode) = (header.le16(0), u32::from(header.le16(2)));
        let types = [0o040_000, 0o100_000, 0o120_000, 0o060_000, 0o020_000, 0o010_000, 0o140_000];
        let is_long = kind > 7;
        let type_bits = *types.get(usize::from(if is_long { kind - 8 } else { kind.checked_sub(1)? }))?;
        let time = Timestamp { seconds: header.le32(8).into(), nanoseconds: 0 };
        let plain = Inode::of_mode(type_bits | mode & 0o7777, 0)?.at(time);
        let inode = Inode { uid: self.id(header.le16(4))?, gid: self.id(header.le16(6))?, ..plain };
        let mut raw = self.body(place, inode, is_long)?;
        raw.inode.has_xattrs = raw.xattrs != NONE;
        Some(raw)
    }

    /// Fields after the header of an inode, by its type.
    fn body(&mut self, mut place: MetadataRef, inode: Inode, is_long: bool) -> Option<Raw> {
        match (inode.file_type, is_long) {
            (FileType::Directory, false) => {
                let rest = self.array::<16>(&mut place)?;
                let rest = &rest[..];
                let fields = (rest.le32(0), rest.le32(4), rest.le16(8).into(), rest.le16(10));
                self.directory(inode, fields, NONE)
            }
            (FileType::Directory, true) => {
                let rest = self.array::<24>(&mut place)?;
                let rest = &rest[..];
                let fields = (rest.le32(8), rest.le32(0), rest.le32(4), rest.le16(18));
                self.directory(inode, fields, rest.le32(20))
            }
            (FileType::Regular, false) => {
                let rest = self.array::<16>(&mut place)?;
                let rest = &rest[..];
                let (fragment, fragment_byte) = (rest.le32(4), rest.le32(8));
                let body = Body::File { start: rest.le32(0).into(), fragment, fragment_byte, blocks: place };
                Some(Raw { inode: Inode { size: rest.le32(12).into(), ..inode }, xattrs: NONE, body })
            }
            (FileType::Regular, true) => {
                let rest = self.array::<40>(&mut place)?;
                let rest = &rest[..];
                let (fragment, fragment_byte) = (rest.le32(28), rest.le32(32));
                let body = Body::File { start: rest.le64(0), fragment, fragment_byte, blocks: place };
                let inode = Inode { size: rest.le64(8), links: rest.le32(24), ..inode };
                Some(Raw { inode, xattrs: rest.le32(36), body })
            }
            (FileType::Symlink, _) => {
                let rest = self.array::<8>(&mut place)?;
                let rest = &rest[..];
                let (links, size) = (rest.le32(0), rest.le32(4));
                let body = Body::Link(place);
                if is_long {
                    let mut target = vec![0; usize::try_from(size).ok().filter(|size| *size <= METADATA)?];
                    self.take(&mut place, &mut target)?;
                }
                let xattrs = self.xattr_index(&mut place, is_long)?;
                Some(Raw { inode: Inode { size: size.into(), links, ..inode }, xattrs, body })
            }
            (FileType::BlockDevice | FileType::CharacterDevice, _) => {
                let rest = self.array::<8>(&mut place)?;
                let rest = &rest[..];
                let (links, number) = (rest.le32(0), rest.le32(4));
                // Linux: `new_decode_dev`.
                let device = DeviceNumber {
                    major: number >> 8 & 0xFFF,
                    minor: number & 0xFF | number >> 12 & 0xF_FF00,
                };
                let xattrs = self.xattr_index(&mut place, is_long)?;
                Some(Raw { inode: Inode { links, device: Some(device), ..inode }, xattrs, body: Body::Other })
            }
            _ => {
                let links = self.array(&mut place).map(u32::from_le_bytes)?;
                let xattrs = self.xattr_index(&mut place, is_long)?;
                Some(Raw { inode: Inode { links, ..inode }, xattrs, body: Body::Other })
            }
        }
    }

    fn directory(
        &self,
        inode: Inode,
        (block, links, size, byte): (u32, u32, u32, u16),
        xattrs: u32,
    ) -> Option<Raw> {
        let listing =
            MetadataRef { block: self.tables.directories.checked_add(block.into())?, byte: byte.into() };
        // Three bytes of the size stand for `.` and `..`, which are not stored.
        let body = Body::Directory { listing, len: u64::from(size.saturating_sub(3)) };
        Some(Raw { inode: Inode { links, size: size.into(), ..inode }, xattrs, body })
    }

    fn xattr_index(&mut self, place: &mut MetadataRef, is_long: bool) -> Option<u32> {
        if is_long { self.array(place).map(u32::from_le_bytes) } else { Some(NONE) }
    }

    fn file(&mut self, inode: u32) -> Option<Arc<File>> {
        if let Some(file) = self.files.get(inode) {
            return Some(file);
        }
        let raw = self.raw(inode)?;
        let Body::File { start, fragment, fragment_byte, blocks: mut place } = raw.body else {
            return None;
        };
        let size = raw.inode.size;
        let count = if fragment == NONE { size.div_ceil(self.block_bytes) } else { size / self.block_bytes };
        if count > MAX_BLOCKS {
            return None;
        }
        let (mut at, mut blocks) = (start, Vec::new());
        for _ in 0..count {
            let field = self.array(&mut place).map(u32::from_le_bytes)?;
            blocks.push((at, field));
            at = at.checked_add(u64::from(field & !DATA_PLAIN))?;
        }
        let mut tail = None;
        if fragment != NONE {
            let entry = self.entry::<{ TABLE_ENTRY as usize }>(self.tables.fragments, fragment)?;
            let entry = &entry[..];
            tail = Some((entry.le64(0), entry.le32(8), fragment_byte.into()));
        }
        Some(self.files.put(inode, File { blocks, tail }))
    }

    /// Data block of any file.
    fn data(&mut self, at: u64, field: u32) -> Option<Arc<Vec<u8>>> {
        if let Some(data) = self.data.get(at) {
            return Some(data);
        }
        let stored = self.media.bytes(at, usize::try_from(field & !DATA_PLAIN).ok()?)?;
        let room = usize::try_from(self.block_bytes).ok()?;
        let data = if field & DATA_PLAIN != 0 {
            stored
        } else {
            let mut data = vec![0; room];
            let len = self.unpacker.unpack(self.codec, &stored, &mut data)?;
            data.truncate(len);
            data
        };
        Some(self.data.put(at, data))
    }

    fn header_of_names(&mut self, place: &mut MetadataRef) -> Option<(u32, u32)> {
        let header = self.array::<12>(place)?;
        let header = &header[..];
        // At most 256 names follow.
        let count = header.le32(0).checked_add(1).filter(|count| *count <= 256)?;
        Some((count, header.le32(4)))
    }

    /// A name with the reference of its inode, and its number of bytes.
    fn name(&mut self, place: &mut MetadataRef, block: u32) -> Option<(Vec<u8>, u32, u64)> {
        let entry = self.array::<8>(place)?;
        let entry = &entry[..];
        let mut name = vec![0; usize::from(entry.le16(6)) + 1];
        self.take(place, &mut name)?;
        let number = self.places.number(u64::from(block) << 16 | u64::from(entry.le16(0)))?;
        let len = 8 + name.len() as u64;
        Some((name, number, len))
    }

    fn xattr(&mut self, place: &mut MetadataRef, table: u64) -> Option<Xattr> {
        let entry = self.array::<4>(place)?;
        let (kind, len) = (entry[..].le16(0), entry[..].le16(2));
        let prefix = PREFIXES.get(usize::from(kind & 0xFF))?;
        let mut name = vec![0; len.into()];
        self.take(place, &mut name)?;
        let value = if kind & VALUE_ELSEWHERE == 0 {
            self.value(place)?
        } else {
            let reference = self.array::<12>(place)?[..].le64(4);
            self.value(&mut MetadataRef::of(table, reference)?)?
        };
        Some(([prefix.as_bytes(), &name].concat(), value))
    }

    fn value(&mut self, place: &mut MetadataRef) -> Option<Vec<u8>> {
        let len = self.array(place).map(u32::from_le_bytes).filter(|len| *len <= VALUE_MAX)?;
        let mut value = vec![0; len as usize];
        self.take(place, &mut value)?;
        Some(value)
    }
}

impl Tree for Squashfs {
    fn root(&self) -> u32 {
        self.root
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        Some(self.raw(inode)?.inode)
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let Body::Directory { listing: mut place, len } = self.raw(directory)?.body else { return None };
        let mut left = len;
        while left > 0 {
            let (count, block) = self.header_of_names(&mut place)?;
            left = left.checked_sub(12)?;
            for _ in 0..count {
                let (name, number, len) = self.name(&mut place, block)?;
                left = left.checked_sub(len)?;
                if names.len() >= MAX_NAMES {
                    return None;
                }
                names.push((name, number));
            }
        }
        Some(())
    }

    fn read(&mut self, inode: u32, at: u64, out: &mut [u8]) -> Option<()> {
        if let Body::Link(mut place) = self.raw(inode)?.body {
            return self.take(&mut place, out);
        }
        let file = self.file(inode)?;
        let (index, within) = (usize::try_from(at / self.block_bytes).ok()?, at % self.block_bytes);
        let (place, field, start) = match (file.blocks.get(index), file.tail) {
            // The block is a hole.
            (Some((_, 0)), _) => return Some(()),
            (Some(&(place, field)), _) => (place, field, within),
            (None, Some((place, field, byte))) => (place, field, byte.checked_add(within)?),
            (None, None) => return None,
        };
        let data = self.data(place, field)?;
        let start = usize::try_from(start).ok()?;
        out.copy_from_slice(data.get(start..start.checked_add(out.len())?)?);
        Some(())
    }

    fn is_hole(&mut self, inode: u32, block: u32) -> bool {
        let index = u64::from(block) * BLOCK_BYTES as u64 / self.block_bytes;
        let file = self.file(inode);
        file.is_some_and(|file| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            file.blocks.get(index).is_some_and(|(_, field)| *field == 0)
        })
    }

    fn xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let index = self.raw(inode)?.xattrs;
        if index == NONE {
            return Some(Xattrs::new());
        }
        let table = self.media.le64(self.tables.xattrs)?;
        let ids = self.tables.xattrs.checked_add(TABLE_ENTRY)?;
        let entry = self.entry::<{ TABLE_ENTRY as usize }>(ids, index)?;
        let entry = &entry[..];
        let mut place = MetadataRef::of(table, entry.le64(0))?;
        (0..entry.le32(8)).map(|_| self.xattr(&mut place, table)).collect()
    }
}
