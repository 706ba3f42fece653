//! CramFS: inodes of 12 bytes with their names, and blocks of 4 KiB compressed by zlib (Linux: `include/uapi/linux/cramfs_fs.h`).

use floatgate_stack::codec::Inflate;
use floatgate_stack::fs::{BLOCK_BYTES, DeviceNumber, FileType};

use super::media::Media;
use super::{Inode, MAX_NAMES, Names, Tree};

const MAGIC: u32 = 0x28CD_3D45;

/// Offset of the root's inode.
const ROOT: u32 = 64;

/// Size of an inode, bytes.
const INODE: u32 = 12;

/// Size of the longest compressed block: zlib makes incompressible data slightly larger.
const COMPRESSED_MAX: u64 = 2 * BLOCK_BYTES as u64;

pub(super) struct Cramfs {
    media: Media,
    is_big: bool,
    zlib: Inflate,
}

struct RawInode {
    mode: u32,
    uid: u32,
    gid: u32,
    size: u32,
    name_len: u32,
    /// Offset of the data.
    at: u64,
}

impl Cramfs {
    pub(super) fn new(media: Media) -> Option<Self> {
        let is_big = media.be32(0)? == MAGIC;
        Some(Self { media, is_big, zlib: Inflate::default() })
    }

    fn word(&self, at: u64) -> Option<u32> {
        let word = self.media.be32(at)?;
        Some(if self.is_big { word } else { word.swap_bytes() })
    }

    fn raw(&self, inode: u32) -> Option<RawInode> {
        let at = u64::from(inode);
        let (first, second, third) = (self.word(at)?, self.word(at + 4)?, self.word(at + 8)?);
        // Bit fields begin at the end that is first in the byte order.
        Some(if self.is_big {
            RawInode {
                mode: first >> 16,
                uid: first & 0xFFFF,
                size: second >> 8,
                gid: second & 0xFF,
                name_len: third >> 26,
                at: u64::from(third & 0x3FF_FFFF) * 4,
            }
        } else {
            RawInode {
                mode: first & 0xFFFF,
                uid: first >> 16,
                size: second & 0xFF_FFFF,
                gid: second >> 24,
                name_len: third & 0x3F,
                at: u64::from(third >> 6) * 4,
            }
        })
    }
}

impl Tree for Cramfs {
    fn root(&self) -> u32 {
        ROOT
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let raw = self.raw(inode)?;
        let file_type = FileType::from_mode(raw.mode)?;
        let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
        let device = DeviceNumber { major: raw.size >> 8 & 0xFF, minor: raw.size & 0xFF };
        let size = if is_device { 0 } else { raw.size.into() };
        let device = is_device.then_some(device);
        Some(Inode { uid: raw.uid, gid: raw.gid, device, ..Inode::of_mode(raw.mode, size)? })
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let raw = self.raw(directory)?;
        let (mut at, end) = (raw.at, raw.at + u64::from(raw.size));
        while at < end && names.len() < MAX_NAMES {
            let inode = u32::try_from(at).ok()?;
            let entry = self.raw(inode)?;
            let name_at = at + u64::from(INODE);
            let mut name = self.media.bytes(name_at, entry.name_len as usize * 4)?;
            name.truncate(memchr::memchr(0, &name).unwrap_or(name.len()));
            at = name_at + u64::from(entry.name_len) * 4;
            if name.is_empty() {
                return None;
            }
            names.push((name, inode));
        }
        (at == end).then_some(())
    }

    fn read(&mut self, inode: u32, at: u64, out: &mut [u8]) -> Option<()> {
        let raw = self.raw(inode)?;
        let blocks = raw.size.div_ceil(BLOCK_BYTES as u32);
        let block = u32::try_from(at / BLOCK_BYTES as u64).ok().filter(|block| *block < blocks)?;
        // A table with the ends of the blocks is before them.
        let table = raw.at;
        let start = match block.checked_sub(1) {
            Some(before) => u64::from(self.word(table + 4 * u64::from(before))?),
            None => table + 4 * u64::from(blocks),
        };
        let len = u64::from(self.word(table + 4 * u64::from(block))?).checked_sub(start)?;
        // The block is a hole.
        if len == 0 {
            return Some(());
        }
        if len > COMPRESSED_MAX {
            return None;
        }
        let compressed = self.media.bytes(start, usize::try_from(len).ok()?)?;
        let mut bytes = [0; BLOCK_BYTES];
        self.zlib.zlib(&compressed, &mut bytes).ok()?;
        out.copy_from_slice(&bytes[..out.len()]);
        Some(())
    }
}
