//! romfs: chained headers of 16 bytes with a name, each followed by its data (Linux:
//! `Documentation/filesystems/romfs.rst`).

use floatgate_stack::fs::{DeviceNumber, FileType};

use super::media::Media;
use super::{Inode, MAX_NAMES, Names, Tree};

/// Number of bytes before the name in a header.
const HEADER: u64 = 16;

/// Length of the longest name.
const NAME_MAX: usize = 256;

/// File types in the lower bits of the link to the next header.
const HARD_LINK: u32 = 0;
const DIRECTORY: u32 = 1;
const EXECUTABLE: u32 = 8;

pub(super) struct Romfs {
    media: Media,
    root: u32,
}

struct Header {
    next: u32,
    kind: u32,
    is_executable: bool,
    info: u32,
    size: u32,
    name: Vec<u8>,
    /// Offset of the data.
    data: u64,
}

impl Romfs {
    pub(super) fn new(media: Media) -> Option<Self> {
        // The superblock is a header whose name is the name of the volume.
        let root = u32::try_from(name(&media, HEADER)?.1).ok()?;
        Some(Self { media, root })
    }

    fn header(&self, at: u32) -> Option<Header> {
        let word = |index: u64| self.media.be32(u64::from(at) + 4 * index);
        let (next, info, size) = (word(0)?, word(1)?, word(2)?);
        let (name, data) = name(&self.media, u64::from(at) + HEADER)?;
        let is_executable = next & EXECUTABLE != 0;
        Some(Header { next: next & !15, kind: next & 7, is_executable, info, size, name, data })
    }

    /// Header to which a hard link points.
    fn target(&self, at: u32) -> Option<u32> {
        let header = self.header(at)?;
        let is_link = header.kind == HARD_LINK && self.header(header.info)?.kind != HARD_LINK;
        Some(if is_link { header.info } else { at })
    }
}

/// Name, which is padded to a multiple of 16 bytes, and the offset after it.
fn name(media: &Media, at: u64) -> Option<(Vec<u8>, u64)> {
    let room = usize::try_from(media.len().checked_sub(at)?).ok()?.min(NAME_MAX);
    let mut bytes = media.bytes(at, room)?;
    let len = memchr::memchr(0, &bytes)?;
    bytes.truncate(len);
    Some((bytes, at + (len as u64 + 1).next_multiple_of(16)))
}

impl Tree for Romfs {
    fn root(&self) -> u32 {
        self.root
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let header = self.header(inode)?;
        let file_type = match header.kind {
            1 => FileType::Directory,
            2 => FileType::Regular,
            3 => FileType::Symlink,
            4 => FileType::BlockDevice,
            5 => FileType::CharacterDevice,
            6 => FileType::Socket,
            7 => FileType::Fifo,
            _ => return None,
        };
        // Linux also uses these permissions, which romfs does not store.
        let permissions = match file_type {
            FileType::Regular if header.is_executable => 0o755,
            FileType::Directory => 0o755,
            FileType::Symlink => 0o777,
            _ => 0o644,
        };
        let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
        let device = DeviceNumber { major: header.info >> 16, minor: header.info & 0xFFFF };
        let mode = [0o100_000, 0o040_000, 0o120_000, 0o060_000, 0o020_000, 0o010_000, 0o140_000];
        let kind = mode.into_iter().find(|mode| FileType::from_mode(*mode) == Some(file_type))?;
        let device = is_device.then_some(device);
        Some(Inode { device, ..Inode::of_mode(kind | permissions, header.size.into())? })
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        // The first header of the root is its own `.`; other directories contain the offset of their first header.
        let mut at = match directory == self.root {
            true => self.root,
            false => self.header(directory).filter(|header| header.kind == DIRECTORY)?.info,
        };
        while at != 0 && names.len() < MAX_NAMES {
            let header = self.header(at)?;
            if header.name != b"." && header.name != b".." {
                names.push((header.name, self.target(at)?));
            }
            // Headers have the order of the chain, so that the chain ends.
            if header.next != 0 && header.next <= at {
                return None;
            }
            at = header.next;
        }
        (at == 0).then_some(())
    }

    fn read(&mut self, inode: u32, at: u64, out: &mut [u8]) -> Option<()> {
        let header = self.header(inode)?;
        self.media.read(header.data + at, out)
    }
}
