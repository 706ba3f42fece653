//! The extended tables of command sets 1 and 2 (JEP137, vendors' data sheets).

use super::view::{View, ViewMut};
use super::{Cfi, CfiIdentification};
use crate::error::{MediaError, Reason};
use crate::wire::{Wire, layout};

/// "PRI" and the version, which every extended table begins with.
const HEAD: usize = Head::SIZE;

/// Command sets with the Intel table: extended and standard.
const INTEL: [u16; 2] = [1, 3];

/// Command sets with the AMD table.
const AMD: u16 = 2;

layout! {
    /// Signature and version of an extended table.
    pub(super) struct Head[5] {
        /// "PRI".
        0 => signature: [u8; 3],
        /// Major version, ASCII digit.
        3 => major: u8,
        /// Minor version, ASCII digit.
        4 => minor: u8,
    }
}

layout! {
    /// The Intel/Sharp table after its version.
    pub struct IntelTable[10] {
        /// Optional features and commands, bit set; bit 0: chip erase,
        /// 1: erase suspend, 2: program suspend, 5: instant block lock, 6: protection bits.
        0 => features: u32,
        /// Operations that work while an erase is suspended; bit 0: program.
        4 => suspend: u8,
        /// Mask of the valid bits in a block's status register.
        5 => block_status: u16,
        /// Best Vcc, volts in the upper four bits, 0.1 V in the lower.
        7 => vcc: u8,
        /// Best Vpp, likewise; 0: no such pin.
        8 => vpp: u8,
        /// Number of protection register fields that follow.
        9 => protection_fields: u8,
    }
}

layout! {
    /// The first protection register field of the Intel/Sharp table.
    pub struct IntelProtection[4] {
        /// Device address of its lock word.
        0 => lock_at: u16,
        /// Factory-programmed bytes, as a power of two.
        2 => factory_exponent: u8,
        /// User-programmable bytes, as a power of two.
        3 => user_exponent: u8,
    }
}

layout! {
    /// The AMD/Fujitsu table after its version, as version 1.0 has it.
    pub struct AmdBase[8] {
        /// Bits 1:0: unlock cycles need no address if 1; bits 7:2: process technology.
        0 => unlock: u8,
        /// Erase suspend; 0: none, 1: read only, 2: read and program.
        1 => erase_suspend: u8,
        /// Sectors in a protection group; 0: no protection.
        2 => protect_group: u8,
        /// Sector protection can be lifted for a while.
        3 => temporary_unprotect: u8,
        /// Sector protection scheme, code.
        4 => protect_scheme: u8,
        /// Sectors outside the current bank that can work at the same time; 0: none.
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
        /// Lowest acceleration voltage, volts in the upper four bits, 0.1 V in the lower.
        0 => acceleration_min: u8,
        /// Highest acceleration voltage, likewise.
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
        /// Secured silicon sector bytes, as a power of two.
        1 => secure_exponent: u8,
        /// Software features; bit 0: status register polling, bit 1: data polling.
        2 => software: u8,
    }
}

/// The AMD/Fujitsu table; later parts are there if the version is late enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AmdTable {
    /// As of version 1.0.
    pub base: AmdBase,
    /// As of version 1.1.
    pub v11: Option<AmdV11>,
    /// Program suspend supported, as of version 1.3.
    pub program_suspend: Option<u8>,
    /// As of version 1.5.
    pub v15: Option<AmdV15>,
}

/// An extended table with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// Command sets 1 and 3.
    Intel {
        /// Major and minor version, ASCII digits.
        version: [u8; 2],
        /// The Intel table.
        table: IntelTable,
        /// Its first protection register field; further ones are passed over.
        protection: Option<IntelProtection>,
    },
    /// Command set 2.
    Amd {
        /// Major and minor version, ASCII digits.
        version: [u8; 2],
        /// The AMD table.
        table: AmdTable,
    },
}

/// Reads the table of a command set this crate knows.
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

/// Refuses a version that is not two digits, or older than 1.0.
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

/// Writes the extended table where the fixed part says.
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

/// The error of an extended table and a command set that do not match.
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
