//! A filesystem of one's own for `floatgate fs`: records one behind the other, an index in memory, nothing is ever reclaimed.
//! Records have no checksum: after a power cut the mount may fail, as `floatgate powercut SETUP --fs` shows. With `FORGET_FSYNC` in the
//! environment, fsync writes nothing, and files are lost.
//!
//! `cargo build --example own_filesystem`, then
//! `floatgate fs imx6-mx30lf2g18ac --set partition.size=16MiB --fs ./target/debug/examples/own_filesystem,ubifs --test write,read,mount`.

use floatgate_lab::fs_compare::own::{Entry, OwnFilesystem, Refusal, RemoteFlash, Room, serve};
use std::collections::BTreeMap;

pub(crate) fn main() -> std::io::Result<()> {
    serve::<Log>()
}

/// First bytes of a record.
const MAGIC: [u8; 4] = *b"rec1";

/// Bytes of a record's head: magic, kind, length of the path, offset in the file, length of the data.
const HEAD: usize = 24;

/// Data that are kept in memory before a record is written.
const BUFFER: usize = 64 << 10;

/// Longest path, and largest offset in a file; a record with more was torn by a power cut.
const PATH_MAX: u32 = 4096;
const FILE_MAX: u64 = 1 << 40;

const FILE: u32 = 0;
const DIRECTORY: u32 = 1;
const REMOVED: u32 = 2;

/// A piece of a file: offset in it, place on the flash, length.
type Piece = (u64, u64, usize);

struct Log {
    /// Files by path with their pieces; none for directories.
    files: BTreeMap<String, Option<Vec<Piece>>>,
    /// Eraseblocks that are not bad, and the place in them up to which there are records.
    good: Vec<u64>,
    end: u64,
    /// Data that wait: path, offset, bytes.
    waiting: Option<(String, u64, Vec<u8>)>,
}

fn good_blocks(flash: &mut RemoteFlash<'_>) -> Result<Vec<u64>, Refusal> {
    let sizes = flash.sizes();
    let mut good = Vec::new();
    for at in (0..sizes.bytes).step_by(sizes.erase_bytes as usize) {
        if !flash.is_bad(at)? {
            good.push(at);
        }
    }
    Ok(good)
}

impl Log {
    /// Address of a place in the log, whose eraseblocks stand one behind the other.
    fn address(&self, flash: &RemoteFlash<'_>, place: u64) -> Option<u64> {
        let erase_bytes = u64::from(flash.sizes().erase_bytes);
        Some(self.good.get((place / erase_bytes) as usize)? + place % erase_bytes)
    }

    /// Reads from the log; eraseblocks end in it anywhere.
    fn read_log(&self, flash: &mut RemoteFlash<'_>, place: u64, buf: &mut [u8]) -> Result<(), Refusal> {
        let erase_bytes = u64::from(flash.sizes().erase_bytes);
        let mut done = 0;
        while done < buf.len() {
            let at = place + done as u64;
            let len = (buf.len() - done).min((erase_bytes - at % erase_bytes) as usize);
            let address = self.address(flash, at).ok_or(Refusal::NoSpace)?;
            flash.read(address, &mut buf[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Appends a record; the place of its data.
    fn append(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        kind: u32,
        (path, offset, data): (&str, u64, &[u8]),
    ) -> Result<u64, Refusal> {
        let sizes = flash.sizes();
        let mut record = MAGIC.to_vec();
        record.extend(kind.to_le_bytes());
        record.extend((path.len() as u32).to_le_bytes());
        record.extend(offset.to_le_bytes());
        record.extend((data.len() as u32).to_le_bytes());
        record.extend(path.bytes());
        let data_at = self.end + record.len() as u64;
        record.extend(data);
        record.resize(record.len().next_multiple_of(sizes.write_bytes as usize), 0);
        let room = self.good.len() as u64 * u64::from(sizes.erase_bytes) - self.end;
        if record.len() as u64 > room {
            return Err(Refusal::NoSpace);
        }
        for piece in record.chunks(sizes.write_bytes as usize) {
            let address = self.address(flash, self.end).ok_or(Refusal::NoSpace)?;
            flash.program(address, piece)?;
            self.end += piece.len() as u64;
        }
        Ok(data_at)
    }

    fn write_waiting(&mut self, flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        let Some((path, offset, data)) = self.waiting.take() else { return Ok(()) };
        let at = self.append(flash, FILE, (&path, offset, &data))?;
        if let Some(Some(pieces)) = self.files.get_mut(&path) {
            pieces.push((offset, at, data.len()));
        }
        Ok(())
    }

    fn size(&self, path: &str, pieces: &[Piece]) -> u64 {
        let waiting = self.waiting.iter().filter(|(of, ..)| of == path);
        let ends = waiting.map(|(_, offset, data)| offset + data.len() as u64);
        ends.chain(pieces.iter().map(|(offset, _, len)| offset + *len as u64)).max().unwrap_or(0)
    }

    fn entry(&self, path: &str) -> Option<Entry> {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let found = self.files.get(path)?;
        let size = found.as_ref().map_or(0, |pieces| self.size(path, pieces));
        Some(Entry { name, directory: found.is_none(), size })
    }
}

impl OwnFilesystem for Log {
    fn format(flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        for block in good_blocks(flash)? {
            flash.erase(block)?;
        }
        Ok(())
    }

    fn mount(flash: &mut RemoteFlash<'_>) -> Result<Self, Refusal> {
        let mut log = Self { files: BTreeMap::new(), good: good_blocks(flash)?, end: 0, waiting: None };
        let unit = u64::from(flash.sizes().write_bytes);
        let all = log.good.len() as u64 * u64::from(flash.sizes().erase_bytes);
        let mut head = [0; HEAD];
        while log.end + HEAD as u64 <= all {
            log.read_log(flash, log.end, &mut head)?;
            if head[..4] != MAGIC {
                break;
            }
            let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (kind, path_len, data_len) = (number(4), number(8), number(20));
            let offset = u64::from(number(12)) | u64::from(number(16)) << 32;
            let mut path = vec![0; path_len.min(PATH_MAX) as usize];
            log.read_log(flash, log.end + HEAD as u64, &mut path)?;
            let path = String::from_utf8_lossy(&path).into_owned();
            let data_at = log.end + HEAD as u64 + u64::from(path_len);
            let data_end = data_at + u64::from(data_len);
            if path_len > PATH_MAX || offset > FILE_MAX || data_end > all {
                return Err(Refusal::Other("a record is torn".to_owned()));
            }
            match kind {
                REMOVED => drop(log.files.remove(&path)),
                DIRECTORY => drop(log.files.insert(path, None)),
                _ => {
                    let pieces = log.files.entry(path).or_insert_with(|| Some(Vec::new()));
                    if let Some(pieces) = pieces {
                        pieces.push((offset, data_at, data_len as usize));
                    }
                }
            }
            log.end = data_end.next_multiple_of(unit);
        }
        Ok(log)
    }

    fn create(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal> {
        if self.files.contains_key(path) {
            return Err(Refusal::Exists);
        }
        self.write_waiting(flash)?;
        self.files.insert(path.to_owned(), Some(Vec::new()));
        self.waiting = Some((path.to_owned(), 0, Vec::new()));
        Ok(())
    }

    fn make_dir(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal> {
        self.append(flash, DIRECTORY, (path, 0, &[]))?;
        self.files.insert(path.to_owned(), None);
        Ok(())
    }

    fn write(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Refusal> {
        let follows = |(of, at, waiting): &(String, u64, Vec<u8>)| {
            of == path && at + waiting.len() as u64 == offset && waiting.len() < BUFFER
        };
        if !self.waiting.as_ref().is_some_and(follows) {
            self.write_waiting(flash)?;
            self.waiting = Some((path.to_owned(), offset, Vec::new()));
        }
        if let Some((_, _, waiting)) = &mut self.waiting {
            waiting.extend_from_slice(data);
        }
        Ok(())
    }

    fn read(
        &mut self,
        flash: &mut RemoteFlash<'_>,
        path: &str,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, Refusal> {
        self.write_waiting(flash)?;
        let Some(Some(pieces)) = self.files.get(path) else { return Err(Refusal::NotFound) };
        let len = self.size(path, pieces).saturating_sub(offset).min(buf.len() as u64);
        let end = offset + len;
        buf.fill(0);
        // Later pieces cover earlier ones.
        for &(from, at, of_piece) in pieces {
            let (first, last) = (from.max(offset), (from + of_piece as u64).min(end));
            if first < last {
                let into = (first - offset) as usize..(last - offset) as usize;
                self.read_log(flash, at + (first - from), &mut buf[into])?;
            }
        }
        Ok(len as usize)
    }

    fn remove(&mut self, flash: &mut RemoteFlash<'_>, path: &str) -> Result<(), Refusal> {
        self.write_waiting(flash)?;
        self.files.remove(path).ok_or(Refusal::NotFound)?;
        self.append(flash, REMOVED, (path, 0, &[])).map(drop)
    }

    fn stat(&mut self, _flash: &mut RemoteFlash<'_>, path: &str) -> Result<Entry, Refusal> {
        self.entry(path).ok_or(Refusal::NotFound)
    }

    fn list(
        &mut self,
        _flash: &mut RemoteFlash<'_>,
        path: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Entry>, Refusal> {
        let directory = if path.is_empty() { String::new() } else { format!("{path}/") };
        let names = self.files.keys().filter(|path| {
            let name = path.strip_prefix(&directory);
            name.is_some_and(|name| !name.contains('/') && after.is_none_or(|after| name > after))
        });
        Ok(names.filter_map(|path| self.entry(path)).take(max).collect())
    }

    fn fsync(&mut self, flash: &mut RemoteFlash<'_>, _path: &str) -> Result<(), Refusal> {
        if std::env::var_os("FORGET_FSYNC").is_some() {
            return Ok(());
        }
        self.write_waiting(flash)
    }

    fn sync(&mut self, flash: &mut RemoteFlash<'_>) -> Result<(), Refusal> {
        self.write_waiting(flash)
    }

    fn space(&mut self, flash: &mut RemoteFlash<'_>) -> Result<Room, Refusal> {
        let bytes = self.good.len() as u64 * u64::from(flash.sizes().erase_bytes);
        let waiting = self.waiting.as_ref().map_or(0, |(_, _, data)| data.len() as u64);
        Ok(Room { bytes, free_bytes: bytes.saturating_sub(self.end + waiting) })
    }
}
