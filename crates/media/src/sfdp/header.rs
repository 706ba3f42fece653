//! The SFDP header, parameter headers, and positions of tables (JESD216F).

use super::words::Words;
use crate::error::{MediaError, Reason};
use crate::list::List;
use crate::wire::{Wire, layout, narrow, span};

/// Size of the SFDP header and of each parameter header, bytes.
pub(super) const HEADER_BYTES: usize = Header::SIZE;

const _: () = assert!(ParameterHeader::SIZE == HEADER_BYTES);

/// Maximum number of tables that are stored: six known ones and six unknown ones.
pub(super) const MAX_TABLES: usize = 12;

/// Highest table address: the pointer field has 24 bits.
const MAX_POINTER: u32 = 0x00ff_ffff;

layout! {
    /// The SFDP header, at the start of the area.
    pub(super) struct Header[8] {
        /// The letters "SFDP".
        0 => signature: [u8; 4],
        /// Minor revision.
        4 => minor: u8,
        /// Major revision.
        5 => major: u8,
        /// Number of parameter headers, minus one.
        6 => more_headers: u8,
        /// Access protocol; FFh before JESD216C.
        7 => access_protocol: u8,
    }
}

layout! {
    /// The header of one table: id, revision, length and address.
    pub(super) struct ParameterHeader[8] {
        /// Table id, lower byte.
        0 => id_low: u8,
        /// Minor revision.
        1 => minor: u8,
        /// Major revision.
        2 => major: u8,
        /// Length, DWORDs.
        3 => length: u8,
        /// Byte address of the table.
        4 => pointer: [u8; 3],
        /// Table id, upper byte.
        7 => id_high: u8,
    }
}

impl ParameterHeader {
    pub(super) fn id(&self) -> u16 {
        u16::from_le_bytes([self.id_low, self.id_high])
    }

    pub(super) fn address(&self) -> usize {
        let [low, middle, high] = self.pointer;
        usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16
    }

    /// The DWORDs of the table.
    pub(super) fn words(&self, bytes: &[u8]) -> Result<Words, MediaError> {
        let body = span(bytes, self.address(), 4 * usize::from(self.length))?;
        let mut words = Words::new();
        for word in body.as_chunks::<4>().0 {
            let word = u32::from_le_bytes(*word);
            words.push(word, "table DWORDs").map_err(|reason| reason.at(self.address()))?;
        }
        Ok(words)
    }
}

/// A table with the fields of its parameter header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Table<T> {
    /// Index of the table's parameter header, from 0.
    pub slot: u8,
    /// Major revision of the table.
    pub major: u8,
    /// Minor revision of the table.
    pub minor: u8,
    /// Byte address of the table, less than 2^24.
    pub pointer: u32,
    /// Contents of the table.
    pub body: T,
}

impl<T> Table<T> {
    /// A table of revision `major`.`minor` whose address [`Sfdp::lay_out`](super::Sfdp::lay_out)
    /// assigns.
    #[must_use]
    pub const fn new(major: u8, minor: u8, body: T) -> Self {
        Self { slot: 0, major, minor, pointer: 0, body }
    }

    pub(super) fn from_header(slot: u8, header: &ParameterHeader, body: T) -> Self {
        let [low, middle, high] = header.pointer;
        Self {
            slot,
            major: header.major,
            minor: header.minor,
            pointer: u32::from_le_bytes([low, middle, high, 0]),
            body,
        }
    }

    /// Assigns the next free address to the table and advances that address.
    pub(super) fn place(&mut self, place: &mut NextTable, length: usize) -> Result<(), MediaError> {
        self.slot = place.slot;
        self.pointer = place.pointer;
        place.slot = place.slot.saturating_add(1);
        place.pointer += 4 * u32::from(narrow::<u8>("table DWORDs", 0, length)?);
        Ok(())
    }
}

/// Next free slot and address.
pub(super) struct NextTable {
    pub(super) slot: u8,
    pub(super) pointer: u32,
}

/// Range of occupied bytes, `start..end`.
#[derive(Clone, Copy, Default)]
struct Extent {
    start: usize,
    end: usize,
}

/// Writer of tables and their headers that rejects overlaps.
pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    count: usize,
    taken: List<Extent, { MAX_TABLES + 1 }>,
    slots: u32,
    /// First byte after everything written.
    pub(super) end: usize,
}

impl<'a> Writer<'a> {
    /// A writer for `count` tables; reserves the bytes of the headers at the start.
    pub(super) fn new(out: &'a mut [u8], count: usize) -> Result<Self, MediaError> {
        let mut writer = Self { out, count, taken: List::new(), slots: 0, end: 0 };
        writer.reserve(0, HEADER_BYTES * (count + 1))?;
        Ok(writer)
    }

    /// Writes the SFDP header.
    pub(super) fn header(&mut self, header: &Header) {
        header.put(self.out, 0);
    }

    /// Writes one table and its parameter header.
    pub(super) fn table<T>(
        &mut self,
        id: u16,
        table: &Table<T>,
        write: fn(&T) -> Result<Words, MediaError>,
    ) -> Result<(), MediaError> {
        let start = self.pointer(table.pointer)?;
        let words = write(&table.body).map_err(|error| error.shifted(start))?;
        let at = self.slot(table.slot)?;
        self.reserve(start, start + 4 * words.len())?;
        for (index, word) in words.iter().enumerate() {
            word.put(self.out, start + 4 * index);
        }
        let [id_low, id_high] = id.to_le_bytes();
        let [low, middle, high, _] = table.pointer.to_le_bytes();
        let length = narrow("table DWORDs", at, words.len())?;
        let (major, minor) = (table.major, table.minor);
        let pointer = [low, middle, high];
        ParameterHeader { id_low, minor, major, length, pointer, id_high }.put(self.out, at);
        Ok(())
    }

    fn pointer(&self, pointer: u32) -> Result<usize, MediaError> {
        let value = u64::from(pointer);
        let place = usize::try_from(pointer).ok().filter(|_| pointer <= MAX_POINTER);
        place.ok_or_else(|| Reason::OutOfRange { field: "table pointer", value }.at(0))
    }

    /// Marks a slot as used and returns the offset of its header.
    fn slot(&mut self, slot: u8) -> Result<usize, MediaError> {
        let value = u64::from(slot);
        let bit = 1u32.checked_shl(u32::from(slot)).unwrap_or(0);
        if usize::from(slot) >= self.count || self.slots & bit != 0 {
            return Err(Reason::OutOfRange { field: "table slot", value }.at(0));
        }
        self.slots |= bit;
        Ok(HEADER_BYTES * (1 + usize::from(slot)))
    }

    /// Marks a range of bytes as occupied.
    fn reserve(&mut self, start: usize, end: usize) -> Result<(), MediaError> {
        let have = self.out.len();
        if end > have {
            return Err(Reason::NoRoom { need: end, have }.at(0));
        }
        let clash = self.taken.iter().any(|other| start < other.end && other.start < end);
        if clash {
            return Err(Reason::Inconsistent { what: "tables overlap" }.at(start));
        }
        self.end = self.end.max(end);
        let extent = Extent { start, end };
        self.taken.push(extent, "tables").map_err(|reason| reason.at(start))
    }
}
