//! Contents of a device before the first write to each range, in a file that outlives the process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Longest range, B.
pub(crate) const PIECE: usize = 1 << 20;
/// First bytes of the file; the size of the device follows, then each range: position and length, as 64 bits with the lowest first, and contents.
const MAGIC: &[u8; 16] = b"floatgate kept 1";
const HEADER: u64 = 24;
const RANGE_HEADER: u64 = 16;

/// A file that does not hold kept contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadKept {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else, or damaged.
    #[error("at byte {at}: {reason}")]
    Damaged {
        /// Position in the file in bytes.
        at: u64,
        /// Description of the fault.
        reason: &'static str,
    },
}

/// A range that was kept, and its place in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) position: u64,
    pub(crate) bytes: u64,
    pub(crate) at: u64,
}

/// The file, which has a name: a probe that is killed leaves it behind.
#[derive(Debug)]
enum Place {
    /// Removed when all is restored.
    Own(NamedTempFile),
    /// Left behind by another process.
    Found(File),
}

/// Kept contents of a device.
#[derive(Debug)]
pub struct Kept {
    place: Place,
    capacity: u64,
    length: u64,
    pub(crate) pieces: Vec<Piece>,
    /// Bytes of all of them.
    bytes: u64,
    /// Ends of the ranges by their beginnings; they do not touch.
    ranges: BTreeMap<u64, u64>,
}

impl Kept {
    /// Nothing kept of a device of `capacity` bytes yet, in the folder for temporary files.
    pub(crate) fn new(capacity: u64) -> io::Result<Self> {
        let mut file = tempfile::Builder::new().prefix("floatgate-kept-").tempfile()?;
        file.write_all(MAGIC)?;
        file.write_all(&capacity.to_le_bytes())?;
        Ok(Self {
            place: Place::Own(file),
            capacity,
            length: HEADER,
            pieces: Vec::new(),
            bytes: 0,
            ranges: BTreeMap::new(),
        })
    }

    /// Reads what a probe that was killed, or could not restore, has left behind. A range that is cut off at the end was not overwritten yet.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else; with the position of the fault.
    pub fn read(path: &Path) -> Result<Self, BadKept> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(BadKept::Damaged { at: 0, reason: "not a file" });
        }
        let length = file.metadata()?.len();
        let mut header = [0; HEADER as usize];
        let magic = file.read_exact(&mut header).map(|()| header.split_at(MAGIC.len()));
        let Ok((MAGIC, capacity)) = magic.map(|(magic, rest)| (magic.try_into().unwrap_or(&[0; 16]), rest))
        else {
            return Err(BadKept::Damaged { at: 0, reason: "not what a probe keeps of a device" });
        };
        let capacity = number(capacity);
        let (mut at, mut pieces) = (HEADER, Vec::new());
        while at + RANGE_HEADER <= length {
            let mut header = [0; RANGE_HEADER as usize];
            read_at(&file, &mut header, at)?;
            let (position, bytes) = (number(&header[..8]), number(&header[8..]));
            let damaged = |reason| BadKept::Damaged { at, reason };
            if !(1..=PIECE as u64).contains(&bytes) {
                return Err(damaged("a range has no length, or more than 1 MiB"));
            }
            if position.checked_add(bytes).is_none_or(|end| end > capacity) {
                return Err(damaged("a range ends behind the end of the device"));
            }
            let piece = Piece { position, bytes, at: at + RANGE_HEADER };
            at = piece.at + bytes;
            if at <= length {
                pieces.push(piece);
            }
        }
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        Ok(Self { place: Place::Found(file), capacity, length, pieces, bytes, ranges: BTreeMap::new() })
    }

    /// Size of the device in bytes.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that are kept.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file, while it is removed at the end.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Own(file) => Some(file.path()),
            Place::Found(_) => None,
        }
    }

    /// Leaves the file where it is; returns its path.
    pub(crate) fn leave(self) -> Option<PathBuf> {
        match self.place {
            Place::Own(file) => file.keep().ok().map(|(_, path)| path),
            Place::Found(_) => None,
        }
    }

    fn file(&self) -> &File {
        match &self.place {
            Place::Own(file) => file.as_file(),
            Place::Found(file) => file,
        }
    }

    /// Reads the contents of a range.
    pub(crate) fn contents(&self, piece: &Piece, buf: &mut [u8]) -> io::Result<()> {
        read_at(self.file(), buf, piece.at)
    }

    /// Parts of a range that were not kept yet.
    pub(crate) fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut at, mut gaps) = (start, Vec::new());
        let before = self.ranges.range(..=start).next_back();
        for (&from, &to) in before.into_iter().chain(self.ranges.range(start + 1..end)) {
            if from > at {
                gaps.push((at, from));
            }
            at = at.max(to);
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Keeps a range of at most [`PIECE`] bytes.
    pub(crate) fn push(&mut self, position: u64, data: &[u8]) -> io::Result<()> {
        let bytes = data.len() as u64;
        let header = [position.to_le_bytes(), bytes.to_le_bytes()].concat();
        write_at(self.file(), &header, self.length)?;
        write_at(self.file(), data, self.length + RANGE_HEADER)?;
        self.pieces.push(Piece { position, bytes, at: self.length + RANGE_HEADER });
        self.bytes += bytes;
        self.length += RANGE_HEADER + bytes;
        self.add(position, position + bytes);
        Ok(())
    }

    fn add(&mut self, mut start: u64, mut end: u64) {
        if let Some((&from, &to)) = self.ranges.range(..start).next_back()
            && to == start
        {
            self.ranges.remove(&from);
            start = from;
        }
        end = self.ranges.remove(&end).unwrap_or(end);
        self.ranges.insert(start, end);
    }

    /// Forgets what is kept: it is restored.
    pub(crate) fn forget(&mut self) {
        self.pieces.clear();
        self.ranges.clear();
        self.bytes = 0;
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8]))
}

fn read_at(file: &File, buf: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buf, at)
}

fn write_at(file: &File, data: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, data, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with two ranges, and its bytes.
    fn file() -> Vec<u8> {
        let mut kept = Kept::new(4096).unwrap();
        kept.push(512, &[7; 512]).unwrap();
        kept.push(2048, &[9; 1024]).unwrap();
        std::fs::read(kept.path().unwrap()).unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Kept, BadKept> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        Kept::read(file.path())
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let kept = read(&file()).unwrap();
        assert_eq!((kept.capacity(), kept.bytes()), (4096, 1536));
        let mut contents = vec![0; 1024];
        kept.contents(&kept.pieces[1], &mut contents).unwrap();
        assert_eq!((kept.pieces[1].position, contents), (2048, vec![9; 1024]));
    }

    #[test]
    fn a_range_that_is_cut_off_was_not_overwritten() {
        let whole = file();
        for length in HEADER as usize..whole.len() {
            let kept = read(&whole[..length]).unwrap();
            let first = (HEADER + RANGE_HEADER) as usize + 512;
            assert_eq!(kept.pieces.len(), usize::from(length >= first), "{length}");
        }
    }

    #[test]
    fn broken_files_name_place_and_reason() {
        let whole = file();
        let broken = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            read(&bytes).unwrap_err().to_string()
        };
        assert_eq!(broken(0, b'F'), "at byte 0: not what a probe keeps of a device");
        assert_eq!(read(b"").unwrap_err().to_string(), "at byte 0: not what a probe keeps of a device");
        assert_eq!(broken(34, 0xFF), "at byte 24: a range has no length, or more than 1 MiB");
        assert_eq!(broken(33, 0), "at byte 24: a range has no length, or more than 1 MiB");
        assert_eq!(broken(31, 0xFF), "at byte 24: a range ends behind the end of the device");
        assert_eq!(broken(17, 8), "at byte 552: a range ends behind the end of the device");
        assert!(Kept::read(Path::new("/")).is_err());
    }
}
