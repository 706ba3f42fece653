//! Extended query tables of command sets 1, 2 and 3 (JEP137, vendors' data sheets).

use super::view::{View, ViewMut};
use super::{Cfi, CfiIdentification};
use crate::error::{MediaError, Reason};
use crate::wire::{Wire, layout};

/// Size of the head of every extended table, B: "PRI" and the version.
const HEAD: usize = Head::SIZE;

/// Command sets that use the Intel table: Intel/Sharp extended (1) and standard (3).
const INTEL: [u16; 2] = [1, 3];

/// Command set that uses the AMD table.
const AMD: u16 = 2;

layout! {
    /// Signature and version of an extended table.
    pub(super) struct Head[5] {
        /// The letters "PRI".
        0 => signature: [u8; 3],
        /// Major version, ASCII digit.
        3 => major: u8,
        /// Minor version, ASCII digit.
        4 => minor: u8,
    }
}

layout! {
    /// The Intel/Sharp table, from the field after its version.
    pub struct IntelTable[10] {
        /// Optional features and commands as a bit set: bit 0: chip erase, 1: erase suspend, 2:
        /// program suspend, 5: instant block lock, 6: protection bits.
        0 => features: u32,
        /// Operations that work while an erase is suspended; bit 0: program.
        4 => suspend: u8,
        /// Mask of the valid bits in a block's status register.
        5 => block_status: u16,
        /// Optimum Vcc: volts in the upper four bits, 0.1 V in the lower four.
        7 => vcc: u8,
        /// Optimum Vpp, encoded as [`vcc`](Self::vcc); 0: the chip has no Vpp pin.
        8 => vpp: u8,
        /// Number of protection register fields that follow.
        9 => protection_fields: u8,
    }
}

layout! {
    /// The first protection register field of the Intel/Sharp table.
    pub struct IntelProtection[4] {
        /// Device address of the lock word of the protection register.
        0 => lock_at: u16,
        /// Number of factory-programmed bytes, as a power of two.
        2 => factory_exponent: u8,
        /// Number of user-programmable bytes, as a power of two.
        3 => user_exponent: u8,
    }
}

layout! {
    /// Fields of the AMD/Fujitsu table after its version, as in version 1.0.
    pub struct AmdBase[8] {
        /// Bits 1:0: address-sensitive unlock; 1: unlock cycles need no address. Bits 7:2: process
        /// technology.
        0 => unlock: u8,
        /// Erase suspend; 0: none, 1: read only, 2: read and program.
        1 => erase_suspend: u8,
        /// Number of sectors in a protection group; 0: no protection.
        2 => protect_group: u8,
        /// Temporary sector unprotect is supported.
        3 => temporary_unprotect: u8,
        /// Code of the sector protection scheme.
        4 => protect_scheme: u8,
        /// Number of sectors outside the current bank that allow simultaneous operation; 0: none.
        5 => simultaneous: u8,
        /// Burst mode; 0: none.
        6 => burst: u8,
        /// Page mode; 0: none, 1: 4 words, 2: 8 words, 3: 16 words.
        7 => page: u8,
    }
}

layout! {
    /// Fields that version 1.1 adds to the AMD/Fujitsu table.
    pub struct AmdV11[3] {
        /// Lowest acceleration voltage: volts in the upper four bits, 0.1 V in the lower four.
        0 => acceleration_min: u8,
        /// Highest acceleration voltage, encoded as [`acceleration_min`](Self::acceleration_min).
        1 => acceleration_max: u8,
        /// Boot sectors; 2: bottom, 3: top, 4: uniform bottom protect, 5: uniform top protect.
        2 => boot: u8,
    }
}

layout! {
    /// Fields that version 1.5 adds to the AMD/Fujitsu table.
    pub struct AmdV15[3] {
        /// Unlock bypass; 0: none.
        0 => unlock_bypass: u8,
        /// Size of the secured silicon sector, as a power of two in bytes.
        1 => secure_exponent: u8,
        /// Software features; bit 0: status register polling, bit 1: data polling.
        2 => software: u8,
    }
}

/// The AMD/Fujitsu table; the fields of later versions are present if the table's version has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AmdTable {
    /// Fields since version 1.0.
    pub base: AmdBase,
    /// Fields since version 1.1.
    pub v11: Option<AmdV11>,
    /// Program suspend field, since version 1.3.
    pub program_suspend: Option<u8>,
    /// Fields since version 1.5.
    pub v15: Option<AmdV15>,
}

/// An extended table with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// Table of command sets 1 and 3.
    Intel {
        /// Major and minor version as ASCII digits.
        version: [u8; 2],
        /// Fixed fields of the Intel table.
        table: IntelTable,
        /// First protection register field of the table; further ones are not decoded.
        protection: Option<IntelProtection>,
    },
    /// Table of command set 2.
    Amd {
        /// Major and minor version as ASCII digits.
        version: [u8; 2],
        /// The AMD table with the fields of its version.
        table: AmdTable,
    },
}

/// Reads the extended table of the primary command set; `None` for a command set that this crate
/// does not decode.
pub(super) fn read_extended(
    query: &View<'_>,
    identification: &CfiIdentification,
) -> Result<Option<Extended>, MediaError> {
    let at = usize::from(identification.extended_at);
    let set = identification.command_set;
    let known = INTEL.contains(&set) || set == AMD;
    if at == 0 || !known {
        return Ok(None);
    }
    let head = Head::decode(&query.chunk::<HEAD>(at)?, 0);
    if head.signature != *b"PRI" {
        return Err(Reason::BadSignature { expected: "PRI" }.at(query.view.offset(at)));
    }
    let version = [head.major, head.minor];
    check_version(version).map_err(|reason| reason.at(query.view.offset(at + 3)))?;
    let body = at + HEAD;
    let extended = if set == AMD { read_amd(query, body, version) } else { read_intel(query, body, version) };
    extended.map(Some)
}

/// Rejects a version that is not two digits or is older than 1.0.
fn check_version([major, minor]: [u8; 2]) -> Result<(), Reason> {
    if major.is_ascii_digit() && minor.is_ascii_digit() && major != b'0' {
        return Ok(());
    }
    let value = u64::from(u16::from_be_bytes([major, minor]));
    Err(Reason::OutOfRange { field: "extended table version", value })
}

fn read_intel(query: &View<'_>, at: usize, version: [u8; 2]) -> Result<Extended, MediaError> {
    let table = IntelTable::decode(&query.chunk::<{ IntelTable::SIZE }>(at)?, 0);
    let mut protection = None;
    if table.protection_fields > 0 {
        let field = query.chunk::<{ IntelProtection::SIZE }>(at + IntelTable::SIZE)?;
        protection = Some(IntelProtection::decode(&field, 0));
    }
    Ok(Extended::Intel { version, table, protection })
}

fn read_amd(query: &View<'_>, at: usize, version: [u8; 2]) -> Result<Extended, MediaError> {
    let mut table = AmdTable { base: AmdBase::decode(&query.chunk::<8>(at)?, 0), ..AmdTable::default() };
    let mut next = at + AmdBase::SIZE;
    if version >= *b"11" {
        table.v11 = Some(AmdV11::decode(&query.chunk::<3>(next)?, 0));
        next += AmdV11::SIZE;
    }
    if version >= *b"13" {
        table.program_suspend = Some(u8::decode(&query.chunk::<1>(next)?, 0));
        next += 1;
    }
    if version >= *b"15" {
        table.v15 = Some(AmdV15::decode(&query.chunk::<3>(next)?, 0));
    }
    Ok(Extended::Amd { version, table })
}

/// Writes the extended table at the address that the fixed part contains.
pub(super) fn write_extended(query: &mut ViewMut<'_>, cfi: &Cfi) -> Result<(), MediaError> {
    let set = cfi.identification.command_set;
    let at = usize::from(cfi.identification.extended_at);
    let known = INTEL.contains(&set) || set == AMD;
    let (Some(extended), true) = (&cfi.extended, known && at != 0) else {
        return missing(cfi.extended.is_some() || (known && at != 0));
    };
    if at < query.next() {
        return Err(Reason::Inconsistent { what: "extended table overlaps the query" }.at(0));
    }
    let (version, intel) = match extended {
        Extended::Intel { version, .. } => (*version, true),
        Extended::Amd { version, .. } => (*version, false),
    };
    if intel == (set == AMD) {
        return missing(true);
    }
    check_version(version).map_err(|reason| reason.at(0))?;
    let [major, minor] = version;
    query.put(&Head { signature: *b"PRI", major, minor }, at)?;
    match extended {
        Extended::Intel { table, protection, .. } => {
            write_intel(query, at + HEAD, table, protection.as_ref())
        }
        Extended::Amd { table, .. } => write_amd(query, at + HEAD, version, table),
    }
}

/// The error for an extended table that does not belong to the command set.
fn missing(mismatch: bool) -> Result<(), MediaError> {
    if mismatch {
        let what = "extended table does not match the command set";
        return Err(Reason::Inconsistent { what }.at(0));
    }
    Ok(())
}

fn write_intel(
    query: &mut ViewMut<'_>,
    at: usize,
    table: &IntelTable,
    protection: Option<&IntelProtection>,
) -> Result<(), MediaError> {
    query.put(table, at)?;
    match (table.protection_fields > 0, protection) {
        (true, Some(field)) => query.put(field, at + IntelTable::SIZE),
        (false, None) => Ok(()),
        _ => {
            let what = "protection fields do not match their number";
            Err(Reason::Inconsistent { what }.at(0))
        }
    }
}

fn write_amd(
    query: &mut ViewMut<'_>,
    at: usize,
    version: [u8; 2],
    table: &AmdTable,
) -> Result<(), MediaError> {
    let parts = [table.v11.is_some(), table.program_suspend.is_some(), table.v15.is_some()];
    if parts != [version >= *b"11", version >= *b"13", version >= *b"15"] {
        let what = "AMD table parts do not match its version";
        return Err(Reason::Inconsistent { what }.at(0));
    }
    query.put(&table.base, at)?;
    let mut next = at + AmdBase::SIZE;
    if let Some(part) = &table.v11 {
        query.put(part, next)?;
        next += AmdV11::SIZE;
    }
    if let Some(part) = &table.program_suspend {
        query.put(part, next)?;
        next += 1;
    }
    if let Some(part) = &table.v15 {
        query.put(part, next)?;
    }
    Ok(())
}
