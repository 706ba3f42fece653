//! Serial Flash Discoverable Parameters (JESD216F).

mod bfpt;
mod four_byte;
mod header;
mod octal;
mod profile1;
mod read;
mod sccr;
mod sector_map;
mod sequence;
mod time_code;
mod timing;
mod words;

pub use bfpt::{Bfpt, BfptBasic, BfptTiming};
pub use four_byte::{FourByte, FourByteCommands};
pub use header::Table;
pub use octal::{BfptDtr, BfptOctal, speed_mhz};
pub use profile1::{DummySetting, Profile1, Profile1Commands, Profile1Default};
pub use read::{AddressBytes, CommandExtension, EraseType, FastRead, Lines, QuadEnable};
pub use sccr::{DriverField, DummyField, RegisterAccess, RegisterBit, Sccr, SccrHead, SccrTail};
pub use sector_map::{DetectionCommand, Map, MapHead, Region, SectorMap};
pub use sequence::{CommandSequence, OctalSequence};

use crate::error::{MediaError, Reason};
use crate::list::List;
use crate::wire::{Wire, chunk, narrow, signature};
use header::{HEADER_BYTES, Header, NextTable, ParameterHeader, Writer};
use words::Words;

/// Table ids (JESD216F); an upper byte of FFh marks a function that JEDEC specifies.
pub mod id {
    /// Basic Flash Parameter Table.
    pub const BFPT: u16 = 0xff00;
    /// xSPI Profile 1.0.
    pub const PROFILE1: u16 = 0xff05;
    /// Command sequences to change to octal DDR.
    pub const OCTAL_SEQUENCE: u16 = 0xff0a;
    /// Sector map.
    pub const SECTOR_MAP: u16 = 0xff81;
    /// 4-byte address instructions.
    pub const FOUR_BYTE: u16 = 0xff84;
    /// Status, control and configuration register map.
    pub const SCCR: u16 = 0xff87;
}

const SIGNATURE: &str = "SFDP";

/// Major revision of all table layouts in this module.
const MAJOR: u8 = 1;

/// Maximum number of unknown tables that are stored.
pub const MAX_OTHERS: usize = 6;

/// Maximum number of DWORDs in an unknown table.
pub const MAX_OTHER_DWORDS: usize = 64;

/// An unknown table: vendor-specific, or with another major revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherTable {
    /// Table id; the upper byte is in bits 15:8.
    pub id: u16,
    /// DWORDs of the table.
    pub dwords: List<u32, MAX_OTHER_DWORDS>,
}

/// All SFDP tables of a serial flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sfdp {
    /// Minor revision of the header (JESD216A: 5, B: 6, C: 7, D: 8, E: 9, F: 10).
    pub minor: u8,
    /// Protocol of READ SFDP; FFh: 1S-1S-1S, 3 address bytes, 8 dummy clocks.
    pub access_protocol: u8,
    /// Basic Flash Parameter Table; the newest if there are several.
    pub bfpt: Table<Bfpt>,
    /// Sector map.
    pub sector_map: Option<Table<SectorMap>>,
    /// 4-byte address instructions.
    pub four_byte: Option<Table<FourByte>>,
    /// xSPI Profile 1.0.
    pub profile1: Option<Table<Profile1>>,
    /// Status, control and configuration register map.
    pub sccr: Option<Table<Sccr>>,
    /// Command sequences to change to octal DDR.
    pub octal_sequence: Option<Table<OctalSequence>>,
    /// Unknown tables.
    pub others: List<Table<OtherTable>, MAX_OTHERS>,
}

/// Parses an SFDP area that begins at byte 0 of the slice.
///
/// DWORDs beyond the length of a table in JESD216F are ignored. If several tables have the same id, the first is used;
/// for BFPTs, the newest. The others are kept as [`Sfdp::others`].
///
/// # Errors
///
/// A slice that ends within a table, a wrong signature, another major revision, a first table that is not a BFPT, an
/// invalid density, or too many tables.
pub fn parse(bytes: &[u8]) -> Result<Sfdp, MediaError> {
    signature(bytes, 0, SIGNATURE)?;
    let header = Header::decode(chunk::<HEADER_BYTES>(bytes, 0)?, 0);
    major("SFDP", header.major, header.minor, 4)?;
    let count = header.more_headers.checked_add(1);
    let last = count.ok_or_else(|| Reason::TooMany { what: "headers", max: 255 }.at(6))?;
    let best = newest_bfpt(bytes, last)?;
    let mut sfdp = Sfdp { minor: header.minor, access_protocol: header.access_protocol, ..Sfdp::default() };
    for slot in 0..last {
        let header = parameter_header(bytes, slot)?;
        if slot == best {
            sfdp.bfpt = typed(bytes, slot, &header, Bfpt::read)?;
        } else {
            sfdp.add_table(bytes, slot, &header)?;
        }
    }
    Ok(sfdp)
}

/// Writes the SFDP area from byte 0 and returns the offset of the last table's end.
///
/// Bytes between tables are not written: fill the slice before the call.
///
/// # Errors
///
/// A slice too short, a value that does not fit its field, slots that are not a permutation of 0, 1, 2 ..., or tables
/// that overlap.
pub fn emit(sfdp: &Sfdp, out: &mut [u8]) -> Result<usize, MediaError> {
    let count = sfdp.count();
    let mut writer = Writer::new(out, count)?;
    writer.header(&Header {
        signature: *b"SFDP",
        minor: sfdp.minor,
        major: MAJOR,
        more_headers: narrow("parameter headers", 0, count - 1)?,
        access_protocol: sfdp.access_protocol,
    });
    writer.table(id::BFPT, &sfdp.bfpt, Bfpt::write)?;
    if let Some(table) = &sfdp.sector_map {
        writer.table(id::SECTOR_MAP, table, SectorMap::write)?;
    }
    if let Some(table) = &sfdp.four_byte {
        writer.table(id::FOUR_BYTE, table, FourByte::write)?;
    }
    if let Some(table) = &sfdp.profile1 {
        writer.table(id::PROFILE1, table, Profile1::write)?;
    }
    if let Some(table) = &sfdp.sccr {
        writer.table(id::SCCR, table, Sccr::write)?;
    }
    if let Some(table) = &sfdp.octal_sequence {
        writer.table(id::OCTAL_SEQUENCE, table, OctalSequence::write)?;
    }
    for table in &sfdp.others {
        writer.table(table.body.id, table, OtherTable::write)?;
    }
    Ok(writer.end)
}

/// Rejects any other major revision.
fn major(what: &'static str, major: u8, minor: u8, at: usize) -> Result<(), MediaError> {
    if major == MAJOR {
        return Ok(());
    }
    Err(Reason::UnsupportedVersion { what, major, minor }.at(at))
}

fn parameter_header(bytes: &[u8], slot: u8) -> Result<ParameterHeader, MediaError> {
    let at = HEADER_BYTES * (1 + usize::from(slot));
    chunk::<HEADER_BYTES>(bytes, at).map(|header| ParameterHeader::decode(header, 0))
}

/// The slot of the newest BFPT; the first table has to be a BFPT.
fn newest_bfpt(bytes: &[u8], count: u8) -> Result<u8, MediaError> {
    let mut newest = parameter_header(bytes, 0)?;
    let mut best = 0;
    if newest.id() != id::BFPT {
        return Err(Reason::Missing { what: "Basic Flash Parameter Table" }.at(HEADER_BYTES));
    }
    major("BFPT", newest.major, newest.minor, HEADER_BYTES + 2)?;
    for slot in 1..count {
        let header = parameter_header(bytes, slot)?;
        let newer = (header.minor, header.length) > (newest.minor, newest.length);
        if header.id() == id::BFPT && header.major == MAJOR && newer {
            newest = header;
            best = slot;
        }
    }
    Ok(best)
}

/// Reads one table with the parser for its id.
fn typed<T>(
    bytes: &[u8],
    slot: u8,
    header: &ParameterHeader,
    read: fn(&[u32]) -> Result<T, MediaError>,
) -> Result<Table<T>, MediaError> {
    let words = header.words(bytes)?;
    let body = read(&words).map_err(|error| error.shifted(header.address()))?;
    Ok(Table::from_header(slot, header, body))
}

impl OtherTable {
    fn write(&self) -> Result<Words, MediaError> {
        let words = Words::from_slice(&self.dwords);
        words.ok_or_else(|| Reason::TooMany { what: "table DWORDs", max: 255 }.at(0))
    }
}

impl Sfdp {
    /// Assigns addresses to the tables, one after another behind their headers, in the order of the fields.
    ///
    /// # Errors
    ///
    /// A table that cannot be encoded, or an address of 2^24 or more.
    pub fn lay_out(&mut self) -> Result<(), MediaError> {
        let headers = HEADER_BYTES * (1 + self.count());
        let pointer = narrow("bytes of parameter headers", 0, headers.next_multiple_of(16))?;
        let place = &mut NextTable { slot: 0, pointer };
        let length = self.bfpt.body.write()?.len();
        self.bfpt.place(place, length)?;
        if let Some(table) = &mut self.sector_map {
            table.place(place, table.body.write()?.len())?;
        }
        if let Some(table) = &mut self.four_byte {
            table.place(place, table.body.write()?.len())?;
        }
        if let Some(table) = &mut self.profile1 {
            table.place(place, table.body.write()?.len())?;
        }
        if let Some(table) = &mut self.sccr {
            table.place(place, table.body.write()?.len())?;
        }
        if let Some(table) = &mut self.octal_sequence {
            table.place(place, table.body.write()?.len())?;
        }
        let mut others = List::new();
        for table in &self.others {
            let mut table = *table;
            table.place(place, table.body.dwords.len())?;
            others.push(table, "tables").map_err(|reason| reason.at(0))?;
        }
        self.others = others;
        Ok(())
    }

    /// Number of tables.
    fn count(&self) -> usize {
        let optional = [
            self.sector_map.is_some(),
            self.four_byte.is_some(),
            self.profile1.is_some(),
            self.sccr.is_some(),
            self.octal_sequence.is_some(),
        ];
        1 + optional.into_iter().filter(|present| *present).count() + self.others.len()
    }

    /// Adds a table other than the BFPT.
    fn add_table(&mut self, bytes: &[u8], slot: u8, header: &ParameterHeader) -> Result<(), MediaError> {
        // A newer major revision has another layout, so the table is stored as unknown.
        let known = if header.major == MAJOR { header.id() } else { 0 };
        match known {
            id::SECTOR_MAP if self.sector_map.is_none() => {
                self.sector_map = Some(typed(bytes, slot, header, SectorMap::read)?);
            }
            id::FOUR_BYTE if self.four_byte.is_none() => {
                self.four_byte = Some(typed(bytes, slot, header, FourByte::read)?);
            }
            id::PROFILE1 if self.profile1.is_none() => {
                self.profile1 = Some(typed(bytes, slot, header, Profile1::read)?);
            }
            id::SCCR if self.sccr.is_none() => {
                self.sccr = Some(typed(bytes, slot, header, Sccr::read)?);
            }
            id::OCTAL_SEQUENCE if self.octal_sequence.is_none() => {
                self.octal_sequence = Some(typed(bytes, slot, header, OctalSequence::read)?);
            }
            _ => self.add_other(bytes, slot, header)?,
        }
        Ok(())
    }

    fn add_other(&mut self, bytes: &[u8], slot: u8, header: &ParameterHeader) -> Result<(), MediaError> {
        let at = header.address();
        let words = header.words(bytes)?;
        let dwords = List::from_slice(&words).ok_or_else(|| {
            Reason::TooMany { what: "DWORDs of an unknown table", max: MAX_OTHER_DWORDS }.at(at)
        })?;
        let table = Table::from_header(slot, header, OtherTable { id: header.id(), dwords });
        self.others
            .push(table, "unknown tables")
            .map_err(|reason| reason.at(HEADER_BYTES * (1 + usize::from(slot))))
    }
}
