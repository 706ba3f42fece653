//! Selection of the fastest commands that chip, controller and board support.

use super::options::Options;
use super::probe_error::ProbeError;
use crate::spi::{Direction, Mode, PhyTooFast, SpiMem, SpiOp, Variant};
use crate::spi_nor::spec::{Addressing, SpiNorSpec};
use floatgate_mtd::Nanos;

/// Size of the range that three address bytes can address, bytes.
const REACH_3B: u64 = 1 << 24;

/// Commands and address mode that the driver selected at the probe.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) read: SpiOp,
    pub(super) program: SpiOp,
    pub(super) erase_opcode: u8,
    pub(super) erase_bytes: u32,
    pub(super) addressing: AddressMode,
    /// Modes of the eligible read commands, fastest first.
    pub(super) offered: Vec<Mode>,
}

/// Address mode outside of 8D-8D-8D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressMode {
    /// Three address bytes, which reach 16 MiB.
    Three,
    /// Commands that always have four address bytes.
    FourByteCommands,
    /// Four address bytes after a switch of the address mode.
    FourByteMode,
}

impl AddressMode {
    pub(super) const fn bytes(self) -> u8 {
        match self {
            Self::Three => 3,
            Self::FourByteCommands | Self::FourByteMode => 4,
        }
    }

    /// Preferred address mode, as in Linux: dedicated commands first, because they leave no state that a boot ROM could not handle.
    fn preferred(spec: &SpiNorSpec) -> Result<Self, ProbeError> {
        let erase = spec.erase.values().any(|e| e.opcode_4b.is_some());
        if spec.geometry.size_bytes <= REACH_3B {
            Ok(Self::Three)
        } else if erase && has_stateless(&spec.reads_4b) && has_stateless(&spec.programs_4b) {
            Ok(Self::FourByteCommands)
        } else if spec.addressing != Addressing::Fixed {
            Ok(Self::FourByteMode)
        } else {
            Err(ProbeError::OutOfReach { size: spec.geometry.size_bytes })
        }
    }
}

fn has_stateless(variants: &[Variant]) -> bool {
    variants.iter().any(|v| !v.mode.is_stateful())
}

/// Selects read, program and erase commands.
pub(super) fn choose(bus: &impl SpiMem, spec: &SpiNorSpec, options: &Options) -> Result<Choice, ProbeError> {
    let mut way = AddressMode::preferred(spec)?;
    let limit = bus.mode_limit();
    let len = u32::try_from(options.transfer_bytes).unwrap_or(u32::MAX).max(2) & !1;
    let swap16 = spec.octal.is_some_and(|octal| octal.swap16);
    let octal = Stateful {
        able: !swap16 || bus.swaps_words() || options.ignore_swap16,
        swap16: swap16 && bus.swaps_words(),
    };
    let reads = ops(spec, way, Direction::In, octal, [&spec.reads, &spec.reads_4b]);
    let mut eligible = usable(bus, &reads, limit, octal, len);
    if let Some(asked) = bus.mode_asked() {
        check_limit(bus, &reads, &eligible, octal, asked)?;
        eligible.retain(|op| op.mode.reaches(asked));
    }
    let mut offered: Vec<Mode> = eligible.iter().map(|op| op.mode).collect();
    offered.dedup();
    let read = *eligible.first().ok_or(ProbeError::NoCommand("read"))?;
    if let Some(phy_hz) = bus.phy_hz().filter(|&hz| read.max_hz > 0 && hz > read.max_hz) {
        return Err(ProbeError::PhyTooFast(PhyTooFast { mode: read.mode, limit: read.max_hz, phy_hz }));
    }
    let programs_3b: Vec<Variant> = spec.programs.iter().filter(|v| knows(v, options)).copied().collect();
    let programs = ops(spec, way, Direction::Out, octal, [&programs_3b, &spec.programs_4b]);
    let programs = usable(bus, &programs, limit, octal, spec.geometry.page_bytes);
    let same_state = |op: &&SpiOp| op.mode.is_stateful() == read.mode.is_stateful();
    let program = *programs.iter().find(same_state).ok_or(ProbeError::NoCommand("page program"))?;
    let four = way == AddressMode::FourByteCommands || read.mode.is_stateful();
    let (erase_opcode, erase_bytes) = choose_erase(spec, options, four)?;
    if read.mode.is_stateful() {
        // The address mode is not changed, because 8D-8D-8D does not depend on it.
        way = AddressMode::Three;
    }
    Ok(Choice { read, program, erase_opcode, erase_bytes, addressing: way, offered })
}

/// Conditions for the use of 8D-8D-8D.
#[derive(Clone, Copy)]
struct Stateful {
    /// True if the byte order of the chip is supported.
    able: bool,
    /// True if the controller must swap the bytes of each word.
    swap16: bool,
}

/// True for a page program that the driver supports. Linux sends data on several lanes only if the table of four-byte commands contains the
/// command (`spi_nor_parse_4bait`), or in an octal mode.
const fn knows(program: &Variant, options: &Options) -> bool {
    options.wide_programs || program.mode.data.lanes == 1 || program.mode.is_stateful()
}

/// All forms of a command with the selected number of address bytes.
fn ops(
    spec: &SpiNorSpec,
    way: AddressMode,
    dir: Direction,
    octal: Stateful,
    lists: [&[Variant]; 2],
) -> Vec<SpiOp> {
    let [current, four] = lists;
    let stateful = |v: &&Variant| v.mode.is_stateful();
    let plain = if way == AddressMode::FourByteCommands { four } else { current };
    let stateless = plain.iter().filter(|v| !stateful(v)).map(|v| (v, way.bytes()));
    let wide = current.iter().chain(four).filter(stateful).map(|v| (v, 4));
    let make = |(v, bytes): (&Variant, u8)| {
        let limit = if v.max_hz == 0 { spec.max_hz(v.mode) } else { v.max_hz };
        let max_hz = u32::try_from(limit).unwrap_or(u32::MAX);
        let ext = spec.octal.map(|o| o.ext).unwrap_or_default();
        let swap16 = v.mode.is_stateful() && octal.swap16;
        SpiOp { max_hz, ext, swap16, ..v.op(0, bytes, dir, 0) }
    };
    stateless.chain(wide).map(make).collect()
}

/// Forms that controller, board and limit allow, fastest first.
fn usable(bus: &impl SpiMem, all: &[SpiOp], limit: Option<Mode>, octal: Stateful, len: u32) -> Vec<SpiOp> {
    let allowed = |op: &&SpiOp| {
        bus.supports(op.mode)
            && limit.is_none_or(|limit| op.mode.fits(limit))
            && (!op.mode.is_stateful() || (bus.has_reset_pin() && octal.able))
    };
    let time = |op: &SpiOp| -> Nanos {
        let op = SpiOp { len, ..*op };
        bus.clock(&op, true).duration(&op)
    };
    let mut found: Vec<SpiOp> = all.iter().filter(allowed).copied().collect();
    found.sort_by_key(time);
    found
}

/// Checks the mode limit. It is a maximum for each phase, but its data lanes and rate must be reached. Otherwise the user would measure
/// another mode than requested.
fn check_limit(
    bus: &impl SpiMem,
    all: &[SpiOp],
    usable: &[SpiOp],
    octal: Stateful,
    limit: Mode,
) -> Result<(), ProbeError> {
    let reaches = |op: &SpiOp| op.mode.reaches(limit) && op.mode.fits(limit);
    if usable.iter().any(reaches) {
        return Ok(());
    }
    let is_possible = all.iter().any(|op| reaches(op) && op.mode.is_stateful() && bus.supports(op.mode));
    if is_possible && !bus.has_reset_pin() {
        return Err(ProbeError::NoResetPin { mode: limit });
    }
    if is_possible && !octal.able {
        return Err(ProbeError::SwappedWords { mode: limit });
    }
    let mut offered: Vec<Mode> = all.iter().map(|op| op.mode).filter(|m| bus.supports(*m)).collect();
    offered.sort_unstable();
    offered.dedup();
    Err(ProbeError::ModeNotOffered { limit, offered })
}

/// Erase type for the wanted block size: the largest one that does not exceed it. Returns its opcode and size.
fn choose_erase(spec: &SpiNorSpec, options: &Options, four: bool) -> Result<(u8, u32), ProbeError> {
    let types = spec.erase_types();
    let found = match options.erase_bytes {
        0 => types.first(),
        wanted => types.iter().rfind(|t| u64::from(t.bytes) == wanted),
    };
    let Some(kind) = found else {
        let offered = types.iter().map(|t| t.bytes).collect();
        return Err(ProbeError::NoEraseType { wanted: options.erase_bytes, offered });
    };
    let opcode = if four { kind.opcode_4b.unwrap_or(kind.opcode) } else { kind.opcode };
    Ok((opcode, kind.bytes))
}
