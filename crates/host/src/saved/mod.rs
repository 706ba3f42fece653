//! Saved data of a device: each range is saved before its first write, in a file that survives the process and a power
//! loss.
//!
//! - `identity`: identifies the device to which the data belongs.
//! - `format`: encoding of the file.
//! - `SavedRanges`: saves ranges, makes them durable, and restores them. It accesses files and devices through `Store`
//!   and `Disk`, so that tests can cut power at each step of a model of both.
//! - `folder`: the folder with saved files, and a file as a `Store`.
//!
//! A range is overwritten only after `SavedRanges::prepare` has returned. `prepare` first writes and syncs the data of
//! the range, then a mark that includes it. Ranges after the mark were never overwritten, so they may be lost; missing
//! ranges before it are reported.

mod folder;
mod format;
mod identity;
#[cfg(test)]
mod tests;

use crate::target::TargetError;
use floatgate_mtd::size::text as size;
use format::{HEADER, Header, MARK, MARKS, Mark, Piece, RANGE_HEADER, RANGES};
use std::collections::BTreeMap;
use std::io;

pub(crate) use folder::FileStore;
pub use folder::{FolderError, SavedFile, SavedFolder};
pub use identity::{Fact, OtherDevice};
pub(crate) use identity::{Identity, facts_of};

/// Maximum length of a saved range, B.
pub(crate) const PIECE: usize = 1 << 20;
/// Maximum number of bytes after a damaged range header that are searched for the next header.
const SEARCH_MAX: u64 = 256 << 20;

/// A file with saved ranges. Writes are durable after `sync`, the name of the file after `sync_name`.
pub(crate) trait Store {
    /// Length of the file in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Reads bytes inside the file.
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<()>;
    /// Writes bytes, possibly extending the file.
    fn write_at(&mut self, data: &[u8], at: u64) -> io::Result<()>;
    /// Makes all writes durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Makes the file's name durable.
    fn sync_name(&mut self) -> io::Result<()>;
    /// Deletes the file durably.
    fn remove(&mut self) -> io::Result<()>;
}

/// A device whose ranges are saved. Writes are durable after `sync`.
pub(crate) trait Disk {
    /// Reads whole sectors from byte `position` on.
    fn read_at(&mut self, position: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Writes saved data to its original position.
    fn write_back(&mut self, position: u64, data: &[u8]) -> io::Result<()>;
    /// Makes all writes durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Reason why a file cannot be used to restore a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadSaved {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not a saved file.
    #[error("this is no file with contents that a probe has saved")]
    Foreign,
    /// The file has another version of the format.
    #[error(
        "this saved file has version {0} of the format, and version 2 is needed: only the version of floatgate that wrote it can restore it"
    )]
    Version(u8),
    /// A running probe uses the file.
    #[error("another floatgate uses this saved file now")]
    InUse,
    /// The header is damaged.
    #[error("at byte {at}: {reason}")]
    Damaged {
        /// Position in the file, B.
        at: u64,
        /// Description of the fault.
        reason: &'static str,
    },
}

/// A damaged part of a saved file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The data of a range.
    #[error("{} from byte {position} of the device: the saved contents at byte {at} of the file are damaged or cut off", size(*.bytes))]
    Contents {
        /// Position of the range on the device in bytes.
        position: u64,
        /// Length of the range in bytes.
        bytes: u64,
        /// Position of the data in the file, B.
        at: u64,
    },
    /// Range headers were lost, so the positions of their data are unknown.
    #[error("{ranges} saved range{} of unknown position: headers from byte {at} of the file on are damaged or cut off", if *.ranges == 1 { "" } else { "s" })]
    Headers {
        /// Number of lost headers.
        ranges: u64,
        /// Position in the file, B.
        at: u64,
    },
    /// Both marks are damaged, so the number of durable ranges is unknown.
    #[error("ranges at the end of the file may be missing: the mark that counts them is damaged")]
    Mark,
}

/// Ranges that could not be restored.
#[derive(Debug, Default)]
pub(crate) struct RestoreFailures {
    /// First failure of the device.
    pub(crate) first: Option<TargetError>,
    /// Number of bytes that were not written back because the device failed.
    pub(crate) lost: u64,
}

/// Saved ranges of a device.
#[derive(Debug)]
pub(crate) struct SavedRanges<S> {
    store: S,
    header: Header,
    /// Ranges in the order in which they were saved.
    pieces: Vec<Piece>,
    /// Position in the file after the last range.
    end: u64,
    /// Number of the next range.
    next: u64,
    /// Samples that overlap a saved range, one bit for each.
    touched: u128,
    /// Last mark that is durable in the file.
    mark: Mark,
    /// End of each range by its start; adjacent ranges are merged.
    ranges: BTreeMap<u64, u64>,
    damage: Vec<Damage>,
    /// True if no mark is damaged.
    is_mark_sure: bool,
    /// True after a write or sync of the file failed: the durable state is then unknown.
    is_broken: bool,
    buf: Vec<u8>,
}

impl<S: Store> SavedRanges<S> {
    /// Creates an empty file and makes it durable. `id` is a random number.
    pub(crate) fn create(mut store: S, id: u64, identity: Identity) -> io::Result<Self> {
        let header = Header { id, identity };
        // The header is written last. A file that has a header but no marks was therefore truncated later.
        store.write_at(&[0; RANGES as usize], 0)?;
        store.sync()?;
        store.write_at(&header.emit()?, 0)?;
        store.sync()?;
        store.sync_name()?;
        Ok(Self::empty(store, header))
    }

    fn empty(store: S, header: Header) -> Self {
        Self {
            store,
            header,
            pieces: Vec::new(),
            end: RANGES,
            next: 0,
            touched: 0,
            mark: Mark::default(),
            ranges: BTreeMap::new(),
            damage: Vec::new(),
            is_mark_sure: true,
            is_broken: false,
            buf: Vec::new(),
        }
    }

    /// Reads the headers of a file left by an earlier probe.
    pub(crate) fn open(store: S) -> Result<Self, BadSaved> {
        let length = store.length()?;
        let mut bytes = vec![0; length.min(HEADER as u64) as usize];
        store.read_at(&mut bytes, 0)?;
        let mut saved = Self::empty(store, Header::parse(&bytes)?);
        saved.is_mark_sure = saved.read_marks(length)?;
        let has_rest = saved.read_headers(length)?;
        if saved.next < saved.mark.ranges {
            let ranges = saved.mark.ranges - saved.next;
            saved.damage.push(Damage::Headers { ranges, at: saved.end });
        }
        if !saved.is_mark_sure && (has_rest || saved.mark == Mark::default()) {
            saved.damage.push(Damage::Mark);
        }
        Ok(saved)
    }

    /// Reads both marks and uses the later one; true if neither is damaged.
    fn read_marks(&mut self, length: u64) -> io::Result<bool> {
        let mut is_sure = true;
        for at in MARKS {
            let mut bytes = [0; MARK];
            if at + MARK as u64 <= length {
                self.store.read_at(&mut bytes, at)?;
            }
            match Mark::parse(self.header.id, &bytes) {
                Some(mark) if mark.sequence >= self.mark.sequence => self.mark = mark,
                Some(_) => {}
                None => is_sure &= bytes == [0; MARK] && at + MARK as u64 <= length,
            }
        }
        self.touched = self.mark.touched;
        Ok(is_sure)
    }

    /// Finds the range headers; true if other data follows the last range.
    fn read_headers(&mut self, length: u64) -> io::Result<bool> {
        let (mut at, mut searched) = (RANGES, 0);
        while at < length {
            match self.header_at(at, length)? {
                Some(piece) if piece.number >= self.next => {
                    if piece.number > self.next {
                        let ranges = piece.number - self.next;
                        self.damage.push(Damage::Headers { ranges, at: self.end });
                    }
                    at = piece.end();
                    self.note(piece);
                }
                _ if searched == SEARCH_MAX => break,
                _ => {
                    at += RANGE_HEADER as u64;
                    searched += RANGE_HEADER as u64;
                }
            }
        }
        Ok(self.end < length)
    }

    fn header_at(&self, at: u64, length: u64) -> io::Result<Option<Piece>> {
        let mut bytes = [0; RANGE_HEADER];
        if at + RANGE_HEADER as u64 > length {
            return Ok(None);
        }
        self.store.read_at(&mut bytes, at)?;
        Ok(Piece::parse(self.header.id, self.header.identity.capacity, at, &bytes))
    }

    /// Adds a range found in the file.
    fn note(&mut self, piece: Piece) {
        self.touched |= self.header.identity.touched(piece.position, piece.position + piece.bytes);
        self.next = piece.number + 1;
        self.end = piece.end();
        self.add(piece.position, piece.position + piece.bytes);
        self.pieces.push(piece);
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

    /// Path of the device when its data was saved.
    pub(crate) fn label(&self) -> &str {
        &self.header.identity.label
    }

    /// Size of the device in bytes.
    pub(crate) const fn capacity(&self) -> u64 {
        self.header.identity.capacity
    }

    /// Properties that identify the device.
    pub(crate) fn facts(&self) -> &[Fact] {
        &self.header.identity.facts
    }

    /// Number of saved bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// True if no range was made durable; in this case nothing was overwritten.
    pub(crate) const fn is_unused(&self) -> bool {
        self.mark.ranges == 0
    }

    /// Known damage of the file.
    pub(crate) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    pub(crate) const fn store(&self) -> &S {
        &self.store
    }

    /// Deletes the file with the saved ranges.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        self.store.remove()
    }

    /// Saves the parts of a range that are not saved yet. They may be overwritten only after [`Self::make_durable`].
    pub(crate) fn save(&mut self, disk: &mut impl Disk, start: u64, end: u64) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier write to the saved file failed"));
        }
        for (start, end) in self.gaps(start, end) {
            for position in (start..end).step_by(PIECE) {
                self.save_piece(disk, position, (end - position).min(PIECE as u64))?;
            }
        }
        Ok(())
    }

    fn save_piece(&mut self, disk: &mut impl Disk, position: u64, bytes: u64) -> io::Result<()> {
        let contents = RANGE_HEADER..RANGE_HEADER + bytes as usize;
        self.buf.clear();
        self.buf.resize(contents.end.next_multiple_of(RANGE_HEADER), 0);
        disk.read_at(position, &mut self.buf[contents.clone()])?;
        let crc = crc32fast::hash(&self.buf[contents]);
        let piece = Piece { number: self.next, position, bytes, crc, at: self.end + RANGE_HEADER as u64 };
        self.buf[..RANGE_HEADER].copy_from_slice(&piece.emit(self.header.id));
        let written = self.store.write_at(&self.buf, self.end);
        self.checked(written)?;
        self.note(piece);
        Ok(())
    }

    /// Makes all saved ranges durable.
    pub(crate) fn make_durable(&mut self) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier sync of the saved file failed"));
        }
        if self.mark.ranges == self.next {
            return Ok(());
        }
        let mark = Mark { sequence: self.mark.sequence + 1, ranges: self.next, touched: self.touched };
        let at = MARKS[(mark.sequence % 2) as usize];
        let written = self.store.sync();
        let written = written.and_then(|()| self.store.write_at(&mark.emit(self.header.id), at));
        let written = written.and_then(|()| self.store.sync());
        self.checked(written)?;
        self.mark = mark;
        Ok(())
    }

    /// Records a failed write or sync of the file. The file is not used after a failure, because a second sync can
    /// succeed although data of the first one is lost.
    fn checked(&mut self, result: io::Result<()>) -> io::Result<()> {
        self.is_broken |= result.is_err();
        result
    }

    /// Saves a range durably, before it is overwritten.
    pub(crate) fn prepare(&mut self, disk: &mut impl Disk, start: u64, end: u64) -> io::Result<()> {
        self.save(disk, start, end)?;
        self.make_durable()
    }

    /// Parts of a range that are not saved yet.
    fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
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

    /// Checks that a device has the saved identity.
    pub(crate) fn check_device(
        &self,
        disk: &mut impl Disk,
        capacity: u64,
        facts: &[Fact],
    ) -> Result<(), OtherDevice> {
        self.header.identity.check(disk, capacity, facts, self.touched)
    }

    /// Reads all saved data, and drops ranges with a wrong CRC. Dropped ranges after the mark are not reported, because
    /// they were not overwritten.
    pub(crate) fn verify(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        let (good, bad): (Vec<Piece>, Vec<Piece>) =
            pieces.into_iter().partition(|piece| self.contents(piece).is_ok());
        self.pieces = good;
        let is_lost = |piece: &&Piece| piece.number < self.mark.ranges || !self.is_mark_sure;
        let lost = bad.iter().filter(is_lost);
        let lost: Vec<Damage> =
            lost.map(|&Piece { position, bytes, at, .. }| Damage::Contents { position, bytes, at }).collect();
        self.damage.extend(lost);
    }

    /// Reads the data of a range into the buffer and checks its CRC.
    fn contents(&mut self, piece: &Piece) -> io::Result<()> {
        self.buf.clear();
        self.buf.resize(piece.bytes as usize, 0);
        self.store.read_at(&mut self.buf, piece.at)?;
        if crc32fast::hash(&self.buf) != piece.crc {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the CRC of the saved contents is wrong"));
        }
        Ok(())
    }

    /// Writes all ranges back, the last saved first, and syncs the device. If addresses of the device wrap around, the
    /// first saved data is the original one and is therefore written last. `watch` is called with the number of bytes
    /// so far.
    pub(crate) fn restore(&mut self, disk: &mut impl Disk, mut watch: impl FnMut(u64)) -> RestoreFailures {
        let pieces = std::mem::take(&mut self.pieces);
        let (mut failures, mut done) = (RestoreFailures::default(), 0);
        for piece in pieces.iter().rev() {
            let written = self.contents(piece).and_then(|()| disk.write_back(piece.position, &self.buf));
            if let Err(error) = written {
                failures.first.get_or_insert(TargetError {
                    operation: "restoring",
                    position: piece.position,
                    bytes: piece.bytes,
                    reason: error.to_string(),
                });
                failures.lost += piece.bytes;
            }
            done += piece.bytes;
            watch(done);
        }
        self.pieces = pieces;
        if let Err(error) = disk.sync() {
            let reason = error.to_string();
            failures.first.get_or_insert(TargetError { operation: "flush", position: 0, bytes: 0, reason });
        }
        failures
    }
}
