//! Specification of a chip derived from SFDP alone.

use super::{FAST, PROGRAMS};
use crate::spi::{CmdExt, Mode, Variant};
use crate::spi_nor::command as c;
use crate::spi_nor::spec::{
    Addressing, EraseType, NorGeometry, NorTiming, Octal, OctalSwitch, QuadEnable, RegisterSet, SpiNorSpec,
    Suspend,
};
use crate::units::TypMaxUs;
use floatgate_media::error::MediaError;
use floatgate_media::sfdp::{
    self, AddressBytes, Bfpt, BfptTiming, CommandExtension, FastRead, FourByte, FourByteCommands, Profile1,
    Sfdp,
};
use floatgate_mtd::Nanos;
use std::collections::BTreeMap;

/// Clock limit of READ 03h, Hz, which no table contains. No known part has a lower limit.
const READ_MAX_HZ: u64 = 20_000_000;
/// Erase times before JESD216A, which does not state them; the maximum is similar to Linux's timeout for one block.
const UNKNOWN: TypMaxUs = TypMaxUs { typ: Nanos::from_ms(100), max: Nanos::from_ms(4_000) };

/// Reason why SFDP is not sufficient to use a chip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEnough {
    /// The tables are invalid.
    #[error("the SFDP tables are broken: {0}")]
    Broken(#[from] MediaError),
    /// No erase command works in the whole array.
    #[error("the SFDP tables name no erase command")]
    NoErase,
}

/// Specification of a chip with this id from the SFDP tables in `area`. Clock limits that are not in the tables are 0.
///
/// # Errors
/// The tables are invalid, or required values are missing.
pub fn learn(area: &[u8], id: &[u8]) -> Result<SpiNorSpec, NotEnough> {
    let tables = sfdp::parse(area)?;
    let bfpt = &tables.bfpt.body;
    let four = tables.four_byte.as_ref().map(|t| &t.body);
    let erase = erase(bfpt, four);
    if erase.is_empty() {
        return Err(NotEnough::NoErase);
    }
    let octal = octal(&tables);
    let mut spec = SpiNorSpec {
        id: id.to_vec(),
        geometry: NorGeometry {
            size_bytes: bfpt.capacity_bytes().unwrap_or(0),
            page_bytes: bfpt.page_bytes(),
            banks: 1,
            read_while_write: false,
        },
        timing: timing(bfpt.timing.as_ref()),
        erase,
        reads: reads(bfpt),
        reads_4b: four.map_or_else(Vec::new, |f| reads_4b(bfpt, f)),
        programs: vec![variant(Mode::SINGLE, c::PAGE_PROGRAM, 0, 0)],
        programs_4b: four.map_or_else(Vec::new, programs_4b),
        max_sdr_hz: 0,
        max_dtr_hz: bfpt
            .octal
            .and_then(|o| sfdp::speed_mhz(o.speed_8d))
            .map_or(0, |m| u64::from(m) * 1_000_000),
        addressing: addressing(bfpt),
        quad_enable: quad_enable(bfpt.timing.as_ref()),
        registers: registers(bfpt.timing.as_ref()),
        octal,
        dummy: None,
        sfdp: true,
        sfdp_bytes: Vec::new(),
        otp: None,
        protection: None,
        reset_pin: false,
        soft_reset: bfpt.timing.is_some_and(|t| t.soft_reset & 1 << 4 != 0),
        suspend: suspend(bfpt.timing.as_ref()),
        endurance_cycles: 0,
        retention_years: 0,
    };
    if let (Some(_), Some(profile)) = (octal, &tables.profile1) {
        add_octal(&mut spec, &profile.body);
    }
    Ok(spec)
}

const fn variant(mode: Mode, opcode: u8, dummy: u8, max_hz: u64) -> Variant {
    Variant { mode, opcode, dummy, max_hz }
}

/// A fast read as a variant; mode clocks are counted as dummy cycles.
fn fast(mode: Mode, read: FastRead) -> Variant {
    variant(mode, read.opcode, read.wait_states + read.mode_clocks, 0)
}

/// Read commands with three address bytes. READ and FAST READ are not in the tables, because every chip has them.
fn reads(bfpt: &Bfpt) -> Vec<Variant> {
    let common = [variant(Mode::SINGLE, c::READ, 0, READ_MAX_HZ), variant(Mode::SINGLE, c::FAST_READ, 8, 0)];
    let more = FAST.iter().filter_map(|f| Some(fast(f.mode, bfpt.fast_read(f.lines)?)));
    common.into_iter().chain(more).collect()
}

/// Read commands with four address bytes, which have the dummy cycles of the commands with three.
fn reads_4b(bfpt: &Bfpt, four: &FourByte) -> Vec<Variant> {
    let has = |bit| four.commands.contains(bit);
    let read = has(FourByteCommands::READ).then_some(variant(Mode::SINGLE, c::READ_4B, 0, READ_MAX_HZ));
    let fast_read = has(FourByteCommands::FAST_READ).then_some(variant(Mode::SINGLE, c::FAST_READ_4B, 8, 0));
    let more = FAST.iter().filter(|f| has(f.bit)).filter_map(|f| {
        let twin = fast(f.mode, bfpt.fast_read(f.lines)?);
        Some(Variant { opcode: f.opcode_4b, ..twin })
    });
    read.into_iter().chain(fast_read).chain(more).collect()
}

fn programs_4b(four: &FourByte) -> Vec<Variant> {
    let has = PROGRAMS.iter().filter(|p| four.commands.contains(p.1));
    has.map(|&(mode, _, opcode)| variant(mode, opcode, 0, 0)).collect()
}

fn erase(bfpt: &Bfpt, four: Option<&FourByte>) -> BTreeMap<String, EraseType> {
    let bits = [
        FourByteCommands::ERASE_1,
        FourByteCommands::ERASE_2,
        FourByteCommands::ERASE_3,
        FourByteCommands::ERASE_4,
    ];
    let times = bfpt.erase_typical_ms();
    let factor = bfpt.timing.map_or(1, |t| t.erase_factor());
    let mut types = BTreeMap::new();
    for (index, kind) in bfpt.erase_types().into_iter().enumerate() {
        let Some(bytes) = kind.bytes() else { continue };
        let opcode_4b = four.filter(|f| f.commands.contains(bits[index])).map(|f| f.erase_opcodes[index]);
        let t_us = times.map_or(UNKNOWN, |all| {
            let typ = Nanos::from_ms(u64::from(all[index]));
            TypMaxUs { typ, max: typ * u64::from(factor) }
        });
        let kind = EraseType { bytes, opcode: kind.opcode, opcode_4b, t_us, tail: None };
        types.insert(format!("type-{}", index + 1), kind);
    }
    types
}

fn timing(timing: Option<&BfptTiming>) -> NorTiming {
    let Some(t) = timing else {
        return NorTiming {
            t_pp_us: UNKNOWN,
            t_byte_us: None,
            t_ce_us: UNKNOWN,
            t_w_us: UNKNOWN,
            t_rst_us: Nanos::from_us(100),
        };
    };
    let page = Nanos::from_us(u64::from(t.page_program_us()));
    let byte = Nanos::from_us(u64::from(t.first_byte_us()));
    let chip = Nanos::from_ms(u64::from(t.chip_erase_ms()));
    let (programs, erases) = (u64::from(t.program_factor()), u64::from(t.erase_factor()));
    NorTiming {
        t_pp_us: TypMaxUs { typ: page, max: page * programs },
        t_byte_us: Some(TypMaxUs { typ: byte, max: byte * programs }),
        t_ce_us: TypMaxUs { typ: chip, max: chip * erases },
        t_w_us: UNKNOWN,
        t_rst_us: Nanos::from_us(100),
    }
}

fn addressing(bfpt: &Bfpt) -> Addressing {
    let enter = bfpt.timing.map_or(0, |t| t.enter_4_byte);
    match bfpt.basic.address_bytes {
        AddressBytes::ThreeOrFour if enter & 1 != 0 => Addressing::En4b,
        AddressBytes::ThreeOrFour if enter & 1 << 1 != 0 => Addressing::WrenEn4b,
        _ => Addressing::Fixed,
    }
}

fn quad_enable(timing: Option<&BfptTiming>) -> QuadEnable {
    use sfdp::QuadEnable as Q;
    match timing.map(|t| t.quad_enable) {
        Some(Q::Status1Bit6) => QuadEnable::Sr1Bit6,
        Some(Q::Status2Bit1Cleared | Q::Status2Bit1Kept | Q::Status2Bit1) => QuadEnable::Sr2Bit1By01,
        Some(Q::Status2Bit1Separate) => QuadEnable::Sr2Bit1,
        _ => QuadEnable::None,
    }
}

/// Set of registers; only Micron has a flag status register 70h.
fn registers(timing: Option<&BfptTiming>) -> RegisterSet {
    match timing {
        Some(t) if t.busy_polling & 0b10 != 0 => RegisterSet::Micron,
        _ => RegisterSet::Plain,
    }
}

fn suspend(timing: Option<&BfptTiming>) -> Option<Suspend> {
    let t = timing.filter(|t| !t.no_suspend)?;
    let latency = t.erase_suspend_ns().max(t.program_suspend_ns());
    Some(Suspend {
        suspend: t.suspend_opcode,
        resume: t.resume_opcode,
        latency_us: Nanos::from_ns(u64::from(latency)),
    })
}

/// Switch to 8D-8D-8D; `None` unless the tables describe it.
fn octal(tables: &Sfdp) -> Option<Octal> {
    let sequence = tables.octal_sequence.as_ref()?.body;
    let profile = &tables.profile1.as_ref()?.body.commands;
    let bfpt = tables.bfpt.body.octal?;
    let ext = match bfpt.command_extension {
        CommandExtension::Repeat => CmdExt::Repeat,
        CommandExtension::Invert => CmdExt::Invert,
        CommandExtension::Reserved | CommandExtension::Word => return None,
    };
    Some(Octal {
        switch: OctalSwitch::Sequence(sequence),
        ext,
        status_addr_bytes: if profile.read_status_address { 4 } else { 0 },
        status_dummy: if profile.read_status_wait_8 { 8 } else { 4 },
        id_dummy: None,
        swap16: bfpt.swapped_bytes,
    })
}

/// Adds reads and programs in 8D-8D-8D, with the dummy cycles after power-on. As in Linux, the opcode of PAGE PROGRAM
/// is the one with four address bytes, which xSPI retains.
fn add_octal(spec: &mut SpiNorSpec, profile: &Profile1) {
    let settings = profile.commands.dummy_settings();
    let fastest = settings.iter().flatten().next();
    let default = profile.defaults.map(|d| d.dummy_8d).filter(|d| *d > 0);
    let Some(dummy) = default.or(fastest.map(|s| s.clocks)) else { return };
    let reached = settings.iter().flatten().filter(|s| s.clocks <= dummy).map(|s| s.mhz).max();
    let max_hz = reached.map_or(0, |mhz| u64::from(mhz) * 1_000_000);
    spec.reads_4b.push(variant(Mode::OCTAL_DTR, profile.commands.read_opcode, dummy, max_hz));
    spec.programs_4b.push(variant(Mode::OCTAL_DTR, c::PAGE_PROGRAM_4B, 0, 0));
}
