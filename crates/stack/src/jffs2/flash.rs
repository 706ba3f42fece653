//! The flash with its clock and the write buffer.

use super::compress::Decompressor;
use floatgate_media::jffs2::{Endian, Header, NodeType};
use floatgate_mtd::{Error, ErrorKind, FlashKind, Instant, Mtd, OobMode};
use std::collections::BTreeMap;
use std::ops::Range;

/// Size of the clean marker in the OOB of an eraseblock's first page, bytes (Linux: `OOB_CM_SIZE`).
const OOB_MARKER: usize = 8;

/// Number of pages whose OOB is checked before an eraseblock counts as empty (Linux: `NR_OOB_SCAN_PAGES`).
const OOB_PAGES: u64 = 4;

/// The flash with its clock.
#[derive(Clone, Debug)]
pub(super) struct Flash<M: ?Sized> {
    pub(super) now: Instant,
    /// Write buffer for the last page, on flash that is written in whole pages (Linux: wbuf).
    buffer: Buffer,
    /// Data of possibly torn pages as the mount read it, by flash offset: these pages may return different data on
    /// every read.
    frozen: BTreeMap<u64, Vec<u8>>,
    /// Decompressor for the data of nodes.
    pub(super) decompressor: Decompressor,
    pub(super) mtd: M,
}

/// Data waiting for a full page.
#[derive(Clone, Debug, Default)]
struct Buffer {
    /// Flash offset of the page.
    at: u64,
    bytes: Vec<u8>,
}

impl<M: Mtd> Flash<M> {
    pub(super) fn new(mtd: M, now: Instant) -> Self {
        let (buffer, frozen, decompressor) = Default::default();
        Self { now, buffer, frozen, decompressor, mtd }
    }
}

impl Flash<dyn Mtd> {
    pub(super) fn page(&self) -> u32 {
        self.mtd.geometry().write_bytes.max(1)
    }

    /// Size of the clean marker inside an eraseblock, bytes: 0 on NAND, where it is in the OOB.
    pub(super) fn marker_bytes(&self) -> u32 {
        if self.mtd.geometry().kind == FlashKind::Nor { Header::SIZE as u32 } else { 0 }
    }

    /// True if an empty eraseblock needs a clean marker to be trusted.
    pub(super) fn has_markers(&self) -> bool {
        let geometry = self.mtd.geometry();
        geometry.kind == FlashKind::Nor || geometry.oob_free_bytes as usize >= OOB_MARKER
    }

    /// Reads data, including uncorrectable data, which the CRCs reveal.
    pub(super) fn read(&mut self, at: u64, buf: &mut [u8]) -> Result<(), Error> {
        let end = at + buf.len() as u64;
        let on_flash = if self.buffer.bytes.is_empty() { end } else { self.buffer.at.clamp(at, end) };
        let (old, new) = buf.split_at_mut((on_flash - at) as usize);
        if !old.is_empty() {
            self.fetch(at, old)?;
        }
        if !new.is_empty() {
            let from = (on_flash - self.buffer.at) as usize;
            let waiting = self.buffer.bytes.get(from..).unwrap_or_default();
            let len = waiting.len().min(new.len());
            new[..len].copy_from_slice(&waiting[..len]);
            let behind = on_flash + len as u64;
            if len < new.len() && behind < end {
                // In the eraseblock of the buffered page, the bytes after that page are not written yet. Other
                // eraseblocks may be.
                self.fetch(behind, &mut new[len..])?;
            }
        }
        Ok(())
    }

    /// Reads data without the write buffer.
    fn fetch(&mut self, at: u64, buf: &mut [u8]) -> Result<(), Error> {
        match self.mtd.read(self.now, at, buf) {
            Ok(done) => self.now = done.at,
            Err(error) if error.kind == ErrorKind::Uncorrectable => self.now = error.at,
            Err(error) => return Err(error),
        }
        self.recall(at, buf);
        Ok(())
    }

    /// Stores data that was read, so that later reads return the same.
    pub(super) fn freeze(&mut self, at: u64, bytes: &[u8]) {
        self.frozen.insert(at, bytes.to_vec());
    }

    /// Forgets the stored data of a range.
    pub(super) fn thaw(&mut self, part: Range<u64>) {
        self.frozen.retain(|at, _| !part.contains(at));
    }

    /// Replaces data that was read by the stored data.
    fn recall(&self, at: u64, buf: &mut [u8]) {
        let end = at + buf.len() as u64;
        // Stored ranges do not overlap, and one that begins before `at` may extend into the read range.
        let first = self.frozen.range(..=at).next_back().map_or(at, |(&from, _)| from);
        for (&from, bytes) in self.frozen.range(first..end) {
            let (first, last) = (from.max(at), (from + bytes.len() as u64).min(end));
            if first < last {
                let piece = &bytes[(first - from) as usize..(last - from) as usize];
                buf[(first - at) as usize..(last - at) as usize].copy_from_slice(piece);
            }
        }
    }

    /// Flash offset of the write buffer, if it contains data.
    pub(super) fn waiting(&self) -> Option<u64> {
        (!self.buffer.bytes.is_empty()).then_some(self.buffer.at)
    }

    /// Appends data. Data whose write failed stays in the buffer.
    pub(super) fn append(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let page = self.page() as usize;
        if page == 1 {
            self.now = self.mtd.write(self.now, at, bytes)?.at;
            return Ok(());
        }
        if self.buffer.bytes.is_empty() {
            self.buffer.at = at;
        }
        self.buffer.bytes.extend_from_slice(bytes);
        let whole = self.buffer.bytes.len() / page * page;
        if whole > 0 {
            self.now = self.mtd.write(self.now, self.buffer.at, &self.buffer.bytes[..whole])?.at;
            self.buffer.at += whole as u64;
            self.buffer.bytes.drain(..whole);
        }
        Ok(())
    }

    /// Pads the buffered page and writes it; returns the number of padding bytes.
    pub(super) fn flush(&mut self, endian: Endian) -> Result<u32, Error> {
        let len = self.buffer.bytes.len();
        let page = self.page() as usize;
        if len == 0 {
            return Ok(0);
        }
        let whole = len.next_multiple_of(page);
        self.buffer.bytes.resize(whole, 0);
        if whole - len >= Header::SIZE {
            let padding = Header::new(NodeType::Padding, (whole - len) as u32);
            padding.emit(endian, &mut self.buffer.bytes[len..]);
        }
        self.now = self.mtd.write(self.now, self.buffer.at, &self.buffer.bytes)?.at;
        self.buffer.bytes.clear();
        Ok((whole - len) as u32)
    }

    /// Discards the write buffer.
    pub(super) fn drop_waiting(&mut self) {
        self.buffer.bytes.clear();
    }

    pub(super) fn is_bad(&mut self, at: u64) -> Result<bool, Error> {
        let (bad, now) = self.mtd.is_bad(self.now, at)?;
        self.now = now;
        Ok(bad)
    }

    /// Erases an eraseblock and writes its clean marker.
    pub(super) fn erase(&mut self, at: u64, endian: Endian) -> Result<(), Error> {
        let len = u64::from(self.mtd.geometry().erase_bytes);
        self.now = self.mtd.erase(self.now, at, len)?.at;
        self.thaw(at..at + len);
        self.mark_clean(at, endian)
    }

    fn mark_clean(&mut self, at: u64, endian: Endian) -> Result<(), Error> {
        if !self.has_markers() {
            return Ok(());
        }
        let mut marker = [0; Header::SIZE];
        if self.marker_bytes() > 0 {
            Header::new(NodeType::CleanMarker, Header::SIZE as u32).emit(endian, &mut marker);
            self.now = self.mtd.write(self.now, at, &marker)?.at;
        } else {
            Header::new(NodeType::CleanMarker, OOB_MARKER as u32).emit(endian, &mut marker);
            self.now = self.mtd.write_oob(self.now, at, &[], &marker[..OOB_MARKER], OobMode::Auto)?.at;
        }
        Ok(())
    }

    /// True if the OOB of an eraseblock contains a clean marker, in either byte order if `endian` is unknown. The
    /// marker has no CRC.
    pub(super) fn is_marked_clean(&mut self, at: u64, endian: Option<Endian>) -> Result<bool, Error> {
        let expected = Endian::ALL.map(|endian| {
            let mut marker = [0; Header::SIZE];
            Header::new(NodeType::CleanMarker, OOB_MARKER as u32).emit(endian, &mut marker);
            (endian, marker)
        });
        let mut found = [0; OOB_MARKER];
        match self.mtd.read_oob(self.now, at, &mut [], &mut found, OobMode::Auto) {
            Ok(done) => self.now = done.at,
            Err(error) if error.kind == ErrorKind::Uncorrectable => self.now = error.at,
            Err(error) => return Err(error),
        }
        let is_possible = |own: Endian| endian.is_none_or(|endian| endian == own);
        Ok(expected.iter().any(|(own, marker)| is_possible(*own) && found[..] == marker[..OOB_MARKER]))
    }

    /// True if the OOB of an eraseblock's first pages contains only the marker in the first page. Pages whose data
    /// looks erased may nevertheless be written.
    pub(super) fn has_blank_oob(&mut self, at: u64) -> Result<bool, Error> {
        let (page, free) = (u64::from(self.page()), self.mtd.geometry().oob_free_bytes as usize);
        let mut oob = vec![0; free];
        for number in 0..OOB_PAGES.min(u64::from(self.mtd.geometry().erase_bytes) / page) {
            match self.mtd.read_oob(self.now, at + number * page, &mut [], &mut oob, OobMode::Auto) {
                Ok(done) => self.now = done.at,
                Err(error) if error.kind == ErrorKind::Uncorrectable => self.now = error.at,
                Err(error) => return Err(error),
            }
            let marker = if number == 0 { OOB_MARKER.min(free) } else { 0 };
            if oob[marker..].iter().any(|&byte| byte != 0xFF) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if single bits of written data can be cleared later.
    pub(super) fn clears_bits(&self) -> bool {
        let geometry = self.mtd.geometry();
        geometry.kind == FlashKind::Nor && geometry.write_bytes == 1
    }

    /// Clears the accurate bit of a node (JFFS2_NODE_ACCURATE). A node without a valid header is left unchanged.
    pub(super) fn mark_obsolete(&mut self, at: u64, endian: Endian) -> Result<(), Error> {
        let mut head = [0; Header::SIZE];
        self.read(at, &mut head)?;
        if let Ok(header) = Header::parse(&head, endian) {
            Header { obsolete: true, ..header }.emit(endian, &mut head);
            self.now = self.mtd.write(self.now, at, &head)?.at;
        }
        Ok(())
    }

    pub(super) fn mark_bad(&mut self, at: u64) -> Result<(), Error> {
        self.now = self.mtd.mark_bad(self.now, at)?.at;
        Ok(())
    }
}
