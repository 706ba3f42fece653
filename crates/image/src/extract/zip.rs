//! Extraction of files into a zip archive, which every desktop can open.
//!
//! Files are stored without compression. The header of a file has extra fields of Info-ZIP for its modification time
//! (`UT`) and its owner (`ux`). The mode of Unix is in the central directory; a file of 4 GiB or more has the fields of
//! zip64. A zip stores fewer properties than a tar; missing ones are reported as losses.

use std::io::{self, Read, Seek, SeekFrom, Write};

use floatgate_media::crc;
use floatgate_stack::fs::{Attributes, FileType};

use super::Contents;
use super::show_name;
use super::tar::Stream;
use super::target::{Entry, Target};

const LOCAL_HEADER: u32 = 0x0403_4B50;
const CENTRAL_HEADER: u32 = 0x0201_4B50;
const CENTRAL_END: u32 = 0x0605_4B50;
const CENTRAL_END_64: u32 = 0x0606_4B50;
const CENTRAL_LOCATOR_64: u32 = 0x0706_4B50;

/// Version of the zip format that has zip64 (4.5).
const VERSION: u16 = 45;

/// `Version made by` of the central directory: Unix, because the directory contains modes of Unix, and version 4.5.
const MADE_BY_UNIX: u16 = 3 << 8 | VERSION;

/// General-purpose flag for names in UTF-8.
const UTF8: u16 = 1 << 11;

/// Date 1980-01-01 in the format of DOS. The true modification time is in the extra field `UT`.
const DOS_DATE: u16 = 1 << 5 | 1;

const EXTRA_ZIP64: u16 = 1;
const EXTRA_TIME: u16 = 0x5455;
const EXTRA_OWNER: u16 = 0x7875;

/// Value of a size field of 32 bits that refers to the extra field of zip64.
const IN_ZIP64: u32 = u32::MAX;

/// Offset of the CRC field in a local header, bytes. The size fields follow it.
const CRC_AT: u64 = 14;

/// Number of bytes copied with one read.
const PIECE: usize = 256 << 10;

/// An entry of the central directory.
#[derive(Debug)]
struct Listed {
    name: Vec<u8>,
    mode: u32,
    crc: u32,
    size: u64,
    offset: u64,
    extra: Vec<u8>,
    is_directory: bool,
}

/// Extraction target that writes a zip archive.
pub struct ZipTarget<W: Write + Seek> {
    out: W,
    at: u64,
    listed: Vec<Listed>,
}

impl<W: Write + Seek> ZipTarget<W> {
    /// Creates the target for a writer, which must be at its beginning.
    pub const fn new(out: W) -> Self {
        Self { out, at: 0, listed: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes an entry with `size` bytes of data.
    fn append(&mut self, entry: &Entry<'_>, name: Vec<u8>, data: &mut dyn Read, size: u64) -> io::Result<()> {
        let extra = extra(entry.attributes);
        let offset = self.at;
        let zip64 = field(EXTRA_ZIP64, &[size.to_le_bytes(), size.to_le_bytes()].concat());
        let own: Vec<u8> = if is_large(size) { [zip64, extra.clone()].concat() } else { extra.clone() };
        let short = size_field(size);
        let mut header = LOCAL_HEADER.to_le_bytes().to_vec();
        words(&mut header, &[VERSION, UTF8, 0, 0, DOS_DATE]);
        longs(&mut header, &[0, short, short]);
        words(&mut header, &[name_len(&name)?, name_len(&own)?]);
        header.extend_from_slice(&name);
        header.extend_from_slice(&own);
        self.put(&header)?;
        let crc = self.copy(data, size)?;
        self.out.seek(SeekFrom::Start(offset + CRC_AT))?;
        self.out.write_all(&crc.to_le_bytes())?;
        self.out.seek(SeekFrom::Start(self.at))?;
        let is_directory = entry.attributes.file_type == FileType::Directory;
        self.listed.push(Listed {
            name,
            mode: entry.attributes.mode,
            crc,
            size,
            offset,
            extra,
            is_directory,
        });
        Ok(())
    }

    /// Copies `size` bytes of data and returns their CRC-32. Missing data is replaced by zeros.
    fn copy(&mut self, data: &mut dyn Read, size: u64) -> io::Result<u32> {
        let mut register = u32::MAX;
        let mut piece = vec![0; PIECE.min(usize::try_from(size).unwrap_or(PIECE))];
        let mut left = size;
        while left > 0 {
            let room = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            let mut len = data.read(&mut piece[..room])?;
            if len == 0 {
                piece[..room].fill(0);
                len = room;
            }
            register = crc::ubi_update(register, &piece[..len]);
            self.put(&piece[..len])?;
            left -= len as u64;
        }
        Ok(!register)
    }

    /// Writes the central directory and returns the writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        let start = self.at;
        for listed in std::mem::take(&mut self.listed) {
            let mut header = CENTRAL_HEADER.to_le_bytes().to_vec();
            let mut own = Vec::new();
            if is_large(listed.size) || is_large(listed.offset) {
                let values = [listed.size, listed.size, listed.offset].map(u64::to_le_bytes);
                own = field(EXTRA_ZIP64, &values.concat());
            }
            let is_64 = !own.is_empty();
            own.extend_from_slice(&listed.extra);
            let short = |value: u64| if is_64 { IN_ZIP64 } else { size_field(value) };
            words(&mut header, &[MADE_BY_UNIX, VERSION, UTF8, 0, 0, DOS_DATE]);
            longs(&mut header, &[listed.crc, short(listed.size), short(listed.size)]);
            words(&mut header, &[name_len(&listed.name)?, name_len(&own)?, 0, 0, 0]);
            // The low byte has the attribute of DOS for a directory.
            longs(
                &mut header,
                &[listed.mode << 16 | u32::from(listed.is_directory) << 4, short(listed.offset)],
            );
            header.extend_from_slice(&listed.name);
            header.extend_from_slice(&own);
            self.put(&header)?;
            self.listed.push(listed);
        }
        self.end(start)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn end(&mut self, start: u64) -> io::Result<()> {
        let (count, len, end) = (self.listed.len() as u64, self.at - start, self.at);
        let mut record = Vec::new();
        let few = u16::try_from(count).ok().filter(|count| *count < u16::MAX);
        if few.is_none() || is_large(start) || is_large(len) {
            longs(&mut record, &[CENTRAL_END_64]);
            record.extend_from_slice(&44_u64.to_le_bytes());
            words(&mut record, &[MADE_BY_UNIX, VERSION]);
            longs(&mut record, &[0, 0]);
            record.extend([count, count, len, start].iter().flat_map(|value| value.to_le_bytes()));
            longs(&mut record, &[CENTRAL_LOCATOR_64, 0]);
            record.extend_from_slice(&end.to_le_bytes());
            longs(&mut record, &[1]);
        }
        longs(&mut record, &[CENTRAL_END]);
        let count = few.unwrap_or(u16::MAX);
        words(&mut record, &[0, 0, count, count]);
        longs(&mut record, &[size_field(len), size_field(start)]);
        words(&mut record, &[0]);
        self.put(&record)
    }
}

fn words(out: &mut Vec<u8>, values: &[u16]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn longs(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

const fn is_large(value: u64) -> bool {
    value >= IN_ZIP64 as u64
}

/// Value for a size field of 32 bits: the size, or [`IN_ZIP64`] if it does not fit.
fn size_field(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(IN_ZIP64)
}

fn name_len(name: &[u8]) -> io::Result<u16> {
    u16::try_from(name.len()).map_err(|_| io::Error::other("a zip holds names of at most 65535 bytes"))
}

fn field(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    words(&mut field, &[kind, value.len() as u16]);
    field.extend_from_slice(value);
    field
}

/// Extra fields of an entry: its owner, and its modification time if that fits 32 bits.
fn extra(attributes: &Attributes) -> Vec<u8> {
    let mut extra = Vec::new();
    if let Ok(seconds) = i32::try_from(attributes.mtime.seconds) {
        let mut time = vec![1];
        time.extend_from_slice(&seconds.to_le_bytes());
        extra.extend(field(EXTRA_TIME, &time));
    }
    let mut owner = vec![1];
    for id in [attributes.uid, attributes.gid] {
        owner.push(4);
        owner.extend_from_slice(&id.to_le_bytes());
    }
    extra.extend(field(EXTRA_OWNER, &owner));
    extra
}

/// Entry name that is safe in a zip: UTF-8, without control characters and without path separators of other systems, so
/// that no name leads outside of the target folder.
fn safe_name(name: &[u8]) -> String {
    let safe = |c: char| if c.is_control() || "\\:/".contains(c) { '_' } else { c };
    String::from_utf8_lossy(name).chars().map(safe).collect()
}

fn path_text(path: &[Vec<u8>]) -> String {
    path.iter().map(|name| safe_name(name)).collect::<Vec<_>>().join("/")
}

/// Properties of an entry that a zip cannot store.
fn losses(entry: &Entry<'_>) -> Vec<String> {
    let mut losses = Vec::new();
    if let Some(name) = entry.path.last().filter(|name| safe_name(name).as_bytes() != name.as_slice()) {
        losses.push(format!("its name: it is {} in the zip", safe_name(name)));
    }
    if i32::try_from(entry.attributes.mtime.seconds).is_err() {
        losses.push("modification time: a zip holds times from 1901 to 2038".to_owned());
    }
    losses.extend(
        entry
            .xattrs
            .iter()
            .map(|(name, _)| format!("extended attribute {}: a zip cannot hold it", show_name(name))),
    );
    losses
}

impl<W: Write + Seek> Target for ZipTarget<W> {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        if !entry.path.is_empty() {
            let name = format!("{}/", path_text(entry.path)).into_bytes();
            self.append(entry, name, &mut io::empty(), 0)?;
        }
        Ok(losses(entry))
    }

    fn leave(&mut self, _entry: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        let size = contents.size();
        let name = path_text(entry.path).into_bytes();
        self.append(entry, name, &mut Stream::new(contents), size)?;
        Ok(losses(entry))
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let what = match entry.attributes.file_type {
            FileType::Symlink => {
                let target = entry.target.unwrap_or_default();
                let name = path_text(entry.path).into_bytes();
                self.append(entry, name, &mut &*target, target.len() as u64)?;
                return Ok(losses(entry));
            }
            FileType::BlockDevice => "a block device",
            FileType::CharacterDevice => "a character device",
            FileType::Fifo => "a named pipe",
            _ => "a socket",
        };
        Ok(vec![format!("{what}: a zip cannot hold it")])
    }

    fn link(&mut self, _entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        Ok(vec![format!("another name of /{}: a zip holds each file under one name", path_text(first))])
    }
}
