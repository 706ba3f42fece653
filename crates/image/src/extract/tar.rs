//! Extraction of files into a tar archive with every attribute, without special rights.
//!
//! POSIX.1-2001 (pax) records contain properties that do not fit into a header: nanoseconds, long names, large sizes, and
//! extended attributes as `SCHILY.xattr.`, which GNU tar and libarchive read (`tar --xattrs --xattrs-include='*'`). A
//! file with holes is stored as its data only, in GNU tar's sparse format 1.0, which libarchive and Python can also read.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::Range;

use floatgate_stack::fs::FileType;
use tar::{Builder, EntryType, Header};

use super::Contents;
use crate::extract::target::{Entry, Target};

/// Largest owner or group ID that fits the octal fields of a header.
const MAX_OWNER: u32 = 0o777_7777;

/// Size of a tar block in bytes.
const BLOCK_BYTES: usize = 512;

/// Longest name that fits the header, bytes.
const MAX_NAME: usize = 100;

/// Extraction target that writes a tar archive.
pub struct TarTarget<W: Write> {
    builder: Builder<W>,
}

impl<W: Write> TarTarget<W> {
    /// Creates the target for a writer.
    pub fn new(out: W) -> Self {
        Self { builder: Builder::new(out) }
    }

    /// Writes the end of the archive and returns the writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn finish(self) -> io::Result<W> {
        self.builder.into_inner()
    }

    fn append(
        &mut self,
        entry: &Entry<'_>,
        kind: EntryType,
        link: Option<&[u8]>,
        data: impl Read,
        size: u64,
    ) -> io::Result<()> {
        let mut path = path_bytes(entry.path);
        if kind == EntryType::Directory {
            path.push(b'/');
        }
        let records = pax_records(entry, &path, link);
        self.append_with(entry, kind, (&path, link), &records, data, size)
    }

    /// Appends a file with holes as its data only, in the sparse format 1.0 of GNU tar (`--sparse-version=1.0`): the
    /// map of the data comes first.
    fn append_sparse(
        &mut self,
        entry: &Entry<'_>,
        contents: &mut dyn Contents,
        sparse: Sparse,
    ) -> io::Result<()> {
        let path = path_bytes(entry.path);
        let size = sparse.map.len() as u64 + sparse.held;
        let mut records = vec![
            ("GNU.sparse.major".to_owned(), b"1".to_vec()),
            ("GNU.sparse.minor".to_owned(), b"0".to_vec()),
            ("GNU.sparse.name".to_owned(), path.clone()),
            ("GNU.sparse.realsize".to_owned(), contents.size().to_string().into_bytes()),
        ];
        records.extend(pax_records(entry, b"", None));
        // Programs without support for sparse files show them under this folder name.
        let (folder, name) = path
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or((&b"."[..], &path[..]), |at| (&path[..at], &path[at + 1..]));
        let shown = [folder, b"/GNUSparseFile.0/", name].concat();
        let data = DataOnly { stream: Stream::new(contents), ranges: sparse.ranges.into() };
        let data = sparse.map.as_slice().chain(data);
        self.append_with(entry, EntryType::Regular, (&shown, None), &records, data, size)
    }

    fn append_with(
        &mut self,
        entry: &Entry<'_>,
        kind: EntryType,
        (path, link): (&[u8], Option<&[u8]>),
        records: &[(String, Vec<u8>)],
        data: impl Read,
        size: u64,
    ) -> io::Result<()> {
        let attributes = entry.attributes;
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(attributes.mode & 0o7777);
        header.set_uid(u64::from(attributes.uid.min(MAX_OWNER)));
        header.set_gid(u64::from(attributes.gid.min(MAX_OWNER)));
        header.set_mtime(u64::try_from(attributes.mtime.seconds).unwrap_or(0));
        header.set_size(size);
        if let Some(device) = attributes.device {
            header.set_device_major(device.major)?;
            header.set_device_minor(device.minor)?;
        }
        put_name(&mut header.as_old_mut().name, path);
        put_name(&mut header.as_old_mut().linkname, link.unwrap_or(b""));
        header.set_cksum();
        let records = records.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        self.builder.append_pax_extensions(records)?;
        self.builder.append(&header, data)
    }
}

fn put_name(field: &mut [u8; MAX_NAME], name: &[u8]) {
    let len = name.len().min(MAX_NAME);
    field[..len].copy_from_slice(&name[..len]);
}

fn path_bytes(path: &[Vec<u8>]) -> Vec<u8> {
    if path.is_empty() { b".".to_vec() } else { path.join(&b'/') }
}

/// Pax records for the values that the header cannot hold, in a fixed order.
fn pax_records(entry: &Entry<'_>, path: &[u8], link: Option<&[u8]>) -> Vec<(String, Vec<u8>)> {
    let attributes = entry.attributes;
    let mut records = Vec::new();
    let mut push = |key: &str, value: Vec<u8>| records.push((key.to_owned(), value));
    if path.len() > MAX_NAME {
        push("path", path.to_vec());
    }
    if let Some(link) = link.filter(|link| link.len() > MAX_NAME) {
        push("linkpath", link.to_vec());
    }
    if attributes.uid > MAX_OWNER {
        push("uid", attributes.uid.to_string().into_bytes());
    }
    if attributes.gid > MAX_OWNER {
        push("gid", attributes.gid.to_string().into_bytes());
    }
    push("mtime", decimal(attributes.mtime));
    push("atime", decimal(attributes.atime));
    for (name, value) in entry.xattrs {
        // A pax key must be text, and attribute names of Linux nearly always are.
        records.push((format!("SCHILY.xattr.{}", String::from_utf8_lossy(name)), value.clone()));
    }
    records
}

/// Time in seconds with nine decimals. The sign of a time before 1970 applies to the whole number.
fn decimal(time: floatgate_stack::fs::Timestamp) -> Vec<u8> {
    let total = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let sign = if total < 0 { "-" } else { "" };
    let size = total.unsigned_abs();
    format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000).into_bytes()
}

/// Contents of a file as one stream, with holes read as zeros.
pub(super) struct Stream<'c> {
    contents: &'c mut dyn Contents,
    /// Position in the stream, bytes.
    at: u64,
    /// Next piece of data, and its offset in the file.
    piece: Vec<u8>,
    piece_at: u64,
}

impl<'c> Stream<'c> {
    pub(super) fn new(contents: &'c mut dyn Contents) -> Self {
        Self { contents, at: 0, piece: Vec::new(), piece_at: 0 }
    }

    /// Loads the piece at or after the position of the stream.
    fn advance(&mut self) {
        while self.at >= self.piece_at + self.piece.len() as u64 && self.piece_at < self.contents.size() {
            match self.contents.next_piece() {
                Some((at, bytes)) => {
                    self.piece_at = at;
                    self.piece.clear();
                    self.piece.extend_from_slice(bytes);
                }
                None => {
                    self.piece_at = self.contents.size();
                    self.piece.clear();
                }
            }
        }
    }
}

/// Reader of the data of a sparse file, without its holes.
struct DataOnly<'c> {
    stream: Stream<'c>,
    /// Ranges of data still to be read.
    ranges: VecDeque<Range<u64>>,
}

impl Read for DataOnly<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(range) = self.ranges.front_mut() else { return Ok(0) };
        self.stream.at = range.start;
        let room = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(buf.len());
        let len = self.stream.read(&mut buf[..room])?;
        range.start += len as u64;
        if range.is_empty() {
            self.ranges.pop_front();
        }
        Ok(len)
    }
}

/// Sparse form of a file in a tar.
struct Sparse {
    /// Ranges of the file that have data.
    ranges: Vec<Range<u64>>,
    /// Sum of the ranges, bytes.
    held: u64,
    /// Map that precedes the data: decimal numbers in lines, padded to whole tar blocks.
    map: Vec<u8>,
}

impl Sparse {
    /// Sparse form of a file; `None` if it is not shorter than the file itself.
    fn new(contents: &mut dyn Contents) -> Option<Self> {
        let (ranges, size) = (contents.data(), contents.size());
        let held = ranges.iter().map(|range| range.end - range.start).sum();
        // A hole at the end of the file is marked by an empty range there.
        let end = ranges.last().is_none_or(|last| last.end < size).then_some(size..size);
        let pieces: Vec<&Range<u64>> = ranges.iter().chain(&end).collect();
        let mut map = format!("{}\n", pieces.len());
        for piece in pieces {
            map.push_str(&format!("{}\n{}\n", piece.start, piece.end - piece.start));
        }
        let mut map = map.into_bytes();
        map.resize(map.len().next_multiple_of(BLOCK_BYTES), 0);
        (map.len() as u64 + held < size).then_some(Self { ranges, held, map })
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.advance();
        let room = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let len = if self.at < self.piece_at {
            let len = room(self.piece_at - self.at);
            buf[..len].fill(0);
            len
        } else {
            let skip = usize::try_from(self.at - self.piece_at).unwrap_or(usize::MAX);
            let held = self.piece.get(skip..).unwrap_or(&[]);
            let len = held.len().min(buf.len());
            buf[..len].copy_from_slice(&held[..len]);
            len
        };
        self.at += len as u64;
        Ok(len)
    }
}

/// Loss for a socket, which a tar cannot hold.
fn no_socket() -> Vec<String> {
    vec!["a socket: a tar cannot hold it".to_owned()]
}

/// Losses for extended attributes whose names are not text, because a pax key must be text.
fn losses(entry: &Entry<'_>) -> Vec<String> {
    let lost =
        entry.xattrs.iter().filter(|(name, _)| std::str::from_utf8(name).is_err() || name.contains(&b'='));
    lost.map(|(name, _)| format!("extended attribute {}: a tar cannot hold its name", super::show_name(name)))
        .collect()
}

impl<W: Write> Target for TarTarget<W> {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.append(entry, EntryType::Directory, None, io::empty(), 0)?;
        Ok(losses(entry))
    }

    fn leave(&mut self, _entry: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        match Sparse::new(contents) {
            Some(sparse) => self.append_sparse(entry, contents, sparse)?,
            None => {
                let size = contents.size();
                self.append(entry, EntryType::Regular, None, Stream::new(contents), size)?;
            }
        }
        Ok(losses(entry))
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let kind = match entry.attributes.file_type {
            FileType::Symlink => EntryType::Symlink,
            FileType::BlockDevice => EntryType::Block,
            FileType::CharacterDevice => EntryType::Char,
            FileType::Fifo => EntryType::Fifo,
            _ => return Ok(no_socket()),
        };
        self.append(entry, kind, entry.target, io::empty(), 0)?;
        Ok(losses(entry))
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        if entry.attributes.file_type == FileType::Socket {
            return Ok(no_socket());
        }
        self.append(entry, EntryType::Link, Some(&path_bytes(first)), io::empty(), 0)?;
        Ok(Vec::new())
    }
}
