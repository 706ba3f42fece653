//! A tar as a source, read once from its start to its end.
//!
//! ustar, POSIX.1-2001 (pax) with nanoseconds, long names and extended attributes (`SCHILY.xattr.`), GNU's long names. The
//! records of pax are read here: their values may hold any bytes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use floatgate_media::ubifs::{DeviceNumber, Timestamp};
use tar::{EntryType, Header};

use super::BuildError;
use super::item::{Feeder, Item, ItemKind, read_full};

/// Bytes of a tar's blocks.
const UNIT: u64 = 512;

/// Largest extended header that is believed.
const MAX_RECORDS: u64 = 16 << 20;

/// Records of pax, the last of a name counts.
type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tar that is being read.
struct Tar<'r> {
    reader: &'r mut dyn Read,
    name: &'r Path,
    /// Records for all entries that follow.
    global: Records,
    /// Records for the next entry.
    next: Records,
}

/// Delivers all of a tar.
pub(super) fn feed(reader: &mut dyn Read, name: &Path, feeder: &mut Feeder) -> Result<(), BuildError> {
    let mut tar = Tar { reader, name, global: Records::new(), next: Records::new() };
    while let Some(header) = tar.header()? {
        let size = header.entry_size().map_err(|error| tar.failed(error))?;
        match header.entry_type() {
            EntryType::XHeader => tar.next = tar.records(size)?,
            EntryType::XGlobalHeader => {
                let records = tar.records(size)?;
                tar.global.extend(records);
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

    /// The next header; `None` at the end.
    fn header(&mut self) -> Result<Option<Header>, BuildError> {
        let mut block = [0; UNIT as usize];
        let len = read_full(self.reader, &mut block).map_err(|error| self.failed(error))?;
        if len == 0 || len == block.len() && block.iter().all(|&byte| byte == 0) {
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
        self.next.entry(key.to_vec()).or_insert(name);
        Ok(())
    }

    fn records(&mut self, size: u64) -> Result<Records, BuildError> {
        let bytes = self.contents(size)?;
        parse_records(&bytes).ok_or_else(|| self.broken("an extended header is damaged"))
    }

    /// A file, its data and the padding after them.
    fn entry(&mut self, header: &Header, size: u64, feeder: &mut Feeder) -> Result<(), BuildError> {
        let mut records = self.global.clone();
        records.append(&mut self.next);
        let size = number(&records, b"size").unwrap_or(size);
        let end = size.checked_next_multiple_of(UNIT).ok_or_else(|| self.broken("a size is impossible"))?;
        let raw = records.get(&b"path"[..]).cloned().unwrap_or_else(|| header.path_bytes().into_owned());
        let Some(path) = split(&raw) else {
            feeder.lose(std::slice::from_ref(&raw), "the path leads out of the tree")?;
            return self.skip(end);
        };
        let sparse = header.entry_type() == EntryType::GNUSparse
            || records.keys().any(|key| key.starts_with(b"GNU.sparse."));
        if sparse {
            feeder.lose(
                &path,
                "stored as GNU's sparse file, which is not read: make the tar without --sparse",
            )?;
            // What an old header continues with is not told apart from data.
            if header.as_gnu().is_some_and(tar::GnuHeader::is_extended) {
                return Err(self.broken("a sparse file has more than four pieces"));
            }
            return self.skip(end);
        }
        let kind = match kind(header, &records, size) {
            Ok(kind) => kind,
            Err(what) => {
                feeder.lose(&path, what)?;
                return self.skip(end);
            }
        };
        let is_file = matches!(kind, ItemKind::Regular(_));
        feeder.item(self.item(header, &records, path, kind)?)?;
        if !is_file {
            return self.skip(end);
        }
        let read = feeder.data(self.reader, 0, size)?.map_err(|error| self.failed(error))?;
        if read < size {
            return Err(self.broken("it ends early"));
        }
        self.skip(end - size)
    }

    fn item(
        &self,
        header: &Header,
        records: &Records,
        path: Vec<Vec<u8>>,
        kind: ItemKind,
    ) -> Result<Item, BuildError> {
        let owner = |key: &[u8], plain: std::io::Result<u64>| {
            let id = number(records, key).map_or(plain, Ok).map_err(|error| self.failed(error))?;
            u32::try_from(id).map_err(|_| self.broken("an owner is too large a number"))
        };
        let seconds = header.mtime().map_err(|error| self.failed(error))?;
        let plain = Timestamp { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanoseconds: 0 };
        let time = |key: &[u8]| records.get(key).and_then(|value| parse_time(value));
        let mtime = time(b"mtime").unwrap_or(plain);
        let xattr = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            key.strip_prefix(b"SCHILY.xattr.").map(|name| (name.to_vec(), value.clone()))
        };
        Ok(Item {
            path,
            kind,
            permissions: header.mode().map_err(|error| self.failed(error))? & 0o7777,
            uid: owner(b"uid", header.uid())?,
            gid: owner(b"gid", header.gid())?,
            atime: time(b"atime").unwrap_or(mtime),
            mtime,
            ctime: time(b"ctime").unwrap_or(mtime),
            xattrs: records.iter().filter_map(xattr).collect(),
        })
    }
}

/// The sum of a header's bytes, its checksum taken for spaces.
fn checksum(block: &[u8; UNIT as usize]) -> u32 {
    let bytes = block.iter().enumerate();
    bytes.map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u32::from(byte) }).sum()
}

/// `length key=value\n`, one after the other; the length counts all of it.
fn parse_records(bytes: &[u8]) -> Option<Records> {
    let mut records = Records::new();
    let mut rest = bytes;
    while !rest.is_empty() && rest[0] != 0 {
        let space = rest.iter().position(|&byte| byte == b' ')?;
        let len: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
        let record = rest.get(space + 1..len)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|&byte| byte == b'=')?;
        records.insert(record[..equals].to_vec(), record[equals + 1..].to_vec());
        rest = &rest[len..];
    }
    Some(records)
}

fn number(records: &Records, key: &[u8]) -> Option<u64> {
    std::str::from_utf8(records.get(key)?).ok()?.parse().ok()
}

/// Seconds with decimals, perhaps negative as a whole.
fn parse_time(value: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(value).ok()?;
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = decimals.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    Some(match (negative, nanoseconds) {
        (false, _) => Timestamp { seconds, nanoseconds },
        (true, 0) => Timestamp { seconds: -seconds, nanoseconds },
        (true, _) => Timestamp { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

/// The parts of a path, without those that mean nothing; `None` if it leads upwards.
fn split(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(|part| (part != b"..").then(|| part.to_vec())).collect()
}

fn kind(header: &Header, records: &Records, size: u64) -> Result<ItemKind, String> {
    let link = || {
        let plain = || header.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
        records.get(&b"linkpath"[..]).cloned().unwrap_or_else(plain)
    };
    let device = || {
        let number = |value: std::io::Result<Option<u32>>| value.ok().flatten().ok_or("no device number");
        let (major, minor) = (number(header.device_major())?, number(header.device_minor())?);
        Ok::<_, String>(DeviceNumber { major, minor })
    };
    Ok(match header.entry_type() {
        // Old tars mark directories by a slash only.
        EntryType::Regular if header.path_bytes().ends_with(b"/") => ItemKind::Directory,
        EntryType::Regular | EntryType::Continuous => ItemKind::Regular(size),
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
    fn records_hold_any_bytes() {
        let records = parse_records(b"22 SCHILY.xattr.a=\n\0b\n13 size=1234\n").unwrap();
        assert_eq!(records[&b"SCHILY.xattr.a"[..]], b"\n\0b");
        assert_eq!(number(&records, b"size"), Some(1234));
        for broken in [&b"9999999999999999999999 a=b\n"[..], b"6 a=bc\n", b"x", b"3 \n", b"0 a=b\n"] {
            assert_eq!(parse_records(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn times_before_1970_are_negative_as_a_whole() {
        let at = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
        assert_eq!(parse_time(b"12.5"), at(12, 500_000_000));
        assert_eq!(parse_time(b"-1.25"), at(-2, 750_000_000));
        assert_eq!(parse_time(b"-3"), at(-3, 0));
        assert_eq!(parse_time(b"1.0000000019"), at(1, 1));
        assert_eq!(parse_time(b"now"), None);
    }

    #[test]
    fn paths_never_lead_upwards() {
        assert_eq!(split(b"./a//b/"), Some(vec![b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(split(b"/"), Some(Vec::new()));
        assert_eq!(split(b"a/../../b"), None);
    }
}
