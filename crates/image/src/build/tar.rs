//! Tar archive as a build source, read once from its start to its end.
//!
//! Supported are ustar, POSIX.1-2001 (pax) with nanoseconds, long names and extended attributes, GNU's long names, and
//! GNU tar's sparse files. The pax records are parsed here, because their values may contain any bytes.

mod acl;
mod records;
mod sparse;

use std::io::Read;
use std::path::Path;

use floatgate_stack::fs::{DeviceNumber, FileFlags, Timestamp};
use tar::{EntryType, Header};

use super::BuildError;
use super::item::{Feeder, Item, ItemKind, read_full};
use records::Records;
use sparse::{SparseMap, Spread};

/// Size of a tar block in bytes.
const UNIT: u64 = 512;

/// Largest extended header accepted, bytes.
const MAX_RECORDS: u64 = 16 << 20;

/// State of reading a tar.
struct Tar<'r> {
    reader: &'r mut dyn Read,
    name: &'r Path,
    /// Pax records that apply to all following entries.
    global: Records,
    /// Pax records that apply to the next entry.
    next: Records,
}

/// Feeds all entries of a tar to the builder.
pub(super) fn feed(reader: &mut dyn Read, name: &Path, feeder: &mut Feeder) -> Result<(), BuildError> {
    let mut tar = Tar { reader, name, global: Records::default(), next: Records::default() };
    while let Some(header) = tar.header(feeder)? {
        let size = header.entry_size().map_err(|error| tar.failed(error))?;
        match header.entry_type() {
            EntryType::XHeader => tar.next = tar.records(size)?,
            EntryType::XGlobalHeader => {
                let records = tar.records(size)?;
                tar.global = tar.global.with(records);
            }
            EntryType::GNULongName => tar.gnu_name(b"path", size)?,
            EntryType::GNULongLink => tar.gnu_name(b"linkpath", size)?,
            _ => tar.entry(&header, size, feeder)?,
        }
    }
    Ok(())
}

impl Tar<'_> {
    fn failed(&self, error: std::io::Error) -> BuildError {
        BuildError::Source { path: self.name.to_owned(), error }
    }

    fn broken(&self, what: &'static str) -> BuildError {
        BuildError::Tar { path: self.name.to_owned(), what }
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<(), BuildError> {
        let len = read_full(self.reader, buf).map_err(|error| self.failed(error))?;
        if len < buf.len() { Err(self.broken("it ends early")) } else { Ok(()) }
    }

    /// Reads the next header; `None` at the end.
    fn header(&mut self, feeder: &mut Feeder) -> Result<Option<Header>, BuildError> {
        let mut block = [0; UNIT as usize];
        let len = read_full(self.reader, &mut block).map_err(|error| self.failed(error))?;
        if len == 0 {
            feeder.record_loss(&[], "the tar has no end mark: perhaps there was more")?;
            return Ok(None);
        }
        if len == block.len() && block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if block.starts_with(&[0x1F, 0x8B]) || block.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) {
            return Err(self.broken("it is compressed: decompress it, `zcat` or `zstdcat` into `-`"));
        }
        let header = Header::from_byte_slice(&block).clone();
        if len < block.len() || header.cksum().ok() != Some(checksum(&block)) {
            return Err(self.broken("a header is damaged, or this is no tar"));
        }
        Ok(Some(header))
    }

    fn skip(&mut self, bytes: u64) -> Result<(), BuildError> {
        let copied = std::io::copy(&mut Read::take(&mut *self.reader, bytes), &mut std::io::sink());
        let copied = copied.map_err(|error| self.failed(error))?;
        if copied < bytes { Err(self.broken("it ends early")) } else { Ok(()) }
    }

    fn contents(&mut self, size: u64) -> Result<Vec<u8>, BuildError> {
        if size > MAX_RECORDS {
            return Err(self.broken("an extended header is too long"));
        }
        let mut bytes = vec![0; usize::try_from(size.next_multiple_of(UNIT)).unwrap_or(0)];
        self.fill(&mut bytes)?;
        bytes.truncate(usize::try_from(size).unwrap_or(0));
        Ok(bytes)
    }

    fn gnu_name(&mut self, key: &[u8], size: u64) -> Result<(), BuildError> {
        let mut name = self.contents(size)?;
        name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
        self.next.put_new(key, name);
        Ok(())
    }

    fn records(&mut self, size: u64) -> Result<Records, BuildError> {
        let bytes = self.contents(size)?;
        Records::parse(&bytes).ok_or_else(|| self.broken("an extended header is damaged"))
    }

    /// Reads an entry: the file, its data and the padding after them.
    fn entry(&mut self, header: &Header, size: u64, feeder: &mut Feeder) -> Result<(), BuildError> {
        let records = self.global.with(std::mem::take(&mut self.next));
        let mut stored = records.number(b"size").unwrap_or(size);
        let map = self.sparse(header, &records, &mut stored)?;
        let end = stored.checked_next_multiple_of(UNIT).ok_or_else(|| self.broken("a size is impossible"))?;
        let raw = records.get(b"GNU.sparse.name").or_else(|| records.get(b"path"));
        let raw = raw.map_or_else(|| header.path_bytes().into_owned(), <[u8]>::to_vec);
        let Some(path) = split(&raw) else {
            feeder.record_loss(std::slice::from_ref(&raw), "the path leads out of the tree")?;
            return self.skip(end);
        };
        let kind = match kind(header, &records, map.as_ref().map_or(stored, |map| map.size)) {
            Ok(kind) => kind,
            Err(what) => {
                feeder.record_loss(&path, what)?;
                return self.skip(end);
            }
        };
        for what in records.losses() {
            feeder.record_loss(&path, what)?;
        }
        let is_file = matches!(kind, ItemKind::Regular(_));
        feeder.item(self.item(header, &records, path, kind)?)?;
        if !is_file {
            return self.skip(end);
        }
        self.data(&map.unwrap_or_else(|| SparseMap::whole(stored)), feeder)?;
        self.skip(end - stored)
    }

    fn data(&mut self, map: &SparseMap, feeder: &mut Feeder) -> Result<(), BuildError> {
        for (start, end) in map.rows() {
            let mut spread = Spread { reader: &mut *self.reader, map, at: start };
            let read = feeder.data(&mut spread, start, end)?.map_err(|error| self.failed(error))?;
            if start + read < end {
                return Err(self.broken("it ends early"));
            }
        }
        Ok(())
    }

    fn item(
        &self,
        header: &Header,
        records: &Records,
        path: Vec<Vec<u8>>,
        kind: ItemKind,
    ) -> Result<Item, BuildError> {
        let owner = |key: &[u8], plain: std::io::Result<u64>| {
            let id = records.number(key).map_or(plain, Ok).map_err(|error| self.failed(error))?;
            u32::try_from(id).map_err(|_| self.broken("an owner is too large a number"))
        };
        // Times before 1970 are stored as negative binary numbers.
        let seconds = header.mtime().map_err(|error| self.failed(error))?.cast_signed();
        let mtime = records.time(b"mtime").unwrap_or(Timestamp { seconds, nanoseconds: 0 });
        Ok(Item {
            path,
            kind,
            permissions: header.mode().map_err(|error| self.failed(error))? & 0o7777,
            uid: owner(b"uid", header.uid())?,
            gid: owner(b"gid", header.gid())?,
            atime: records.time(b"atime").unwrap_or(mtime),
            mtime,
            ctime: records.time(b"ctime").unwrap_or(mtime),
            flags: FileFlags::default(),
            xattrs: records.xattrs(),
        })
    }
}

/// Checksum of a header: the sum of its bytes, with spaces in the checksum field.
fn checksum(block: &[u8; UNIT as usize]) -> u32 {
    let bytes = block.iter().enumerate();
    bytes.map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u32::from(byte) }).sum()
}

/// Names of a path, without empty ones and `.`; `None` if the path contains `..`.
fn split(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(|part| (part != b"..").then(|| part.to_vec())).collect()
}

fn kind(header: &Header, records: &Records, size: u64) -> Result<ItemKind, String> {
    let link = || {
        let plain = || header.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
        records.get(b"linkpath").map_or_else(plain, <[u8]>::to_vec)
    };
    let device = || {
        let number = |value: std::io::Result<Option<u32>>| value.ok().flatten().ok_or("no device number");
        let (major, minor) = (number(header.device_major())?, number(header.device_minor())?);
        Ok::<_, String>(DeviceNumber { major, minor })
    };
    Ok(match header.entry_type() {
        // Old tars mark a directory only by a final slash. The header of newer ones may hold a path that is cut off
        // after a slash.
        EntryType::Regular if records.get(b"path").is_none() && header.path_bytes().ends_with(b"/") => {
            ItemKind::Directory
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => ItemKind::Regular(size),
        EntryType::Directory => ItemKind::Directory,
        EntryType::Link => ItemKind::Link(split(&link()).ok_or("a link that leads out of the tree")?),
        EntryType::Symlink => ItemKind::Symlink(link()),
        EntryType::Block => ItemKind::BlockDevice(device()?),
        EntryType::Char => ItemKind::CharacterDevice(device()?),
        EntryType::Fifo => ItemKind::Fifo,
        other => return Err(format!("entries of type {:?} are not known", char::from(other.as_byte()))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_never_lead_upwards() {
        assert_eq!(split(b"./a//b/"), Some(vec![b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(split(b"/"), Some(Vec::new()));
        assert_eq!(split(b"a/../../b"), None);
    }
}
