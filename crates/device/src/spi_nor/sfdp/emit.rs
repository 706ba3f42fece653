//! Converts a specification to the bytes that READ SFDP returns.

use super::{FAST, PROGRAMS};
use crate::spi::{CmdExt, Mode, Variant};
use crate::spi_nor::command::{self as c, infineon, macronix, micron};
use crate::spi_nor::spec::{Addressing, Octal, OctalSwitch, QuadEnable, RegisterSet, SpiNorSpec};
use crate::units::TypMaxUs;
use floatgate_media::error::MediaError;
use floatgate_media::sfdp::{
    self, AddressBytes, Bfpt, BfptBasic, BfptDtr, BfptOctal, BfptTiming, CommandExtension, CommandSequence,
    DummyField, EraseType, FastRead, FourByte, FourByteCommands, Lines, OctalSequence, Profile1,
    Profile1Commands, Profile1Default, RegisterAccess, RegisterBit, Sccr, SccrHead, Sfdp, Table,
};
use floatgate_mtd::Nanos;

/// Maximum size of a generated SFDP area, bytes; six tables need much less.
const AREA_BYTES: usize = 4096;
/// Minor revision JESD216D, which has all generated tables.
const MINOR: u8 = 8;

/// The SFDP area of a part; empty if it has none.
///
/// # Errors
/// A value of the specification does not fit its field.
pub fn emit(spec: &SpiNorSpec) -> Result<Vec<u8>, MediaError> {
    if !spec.sfdp {
        return Ok(Vec::new());
    }
    let octal = spec.octal.as_ref();
    let mut all = Sfdp {
        minor: MINOR,
        access_protocol: 0xFF,
        bfpt: Table::new(1, MINOR, bfpt(spec)),
        four_byte: four_byte(spec).map(|t| Table::new(1, 0, t)),
        profile1: octal.map(|o| Table::new(1, 0, profile1(spec, o))),
        sccr: octal.map(|o| Table::new(1, 0, sccr(spec, o))),
        octal_sequence: octal.map(|o| Table::new(1, 0, sequence(o.switch))),
        ..Sfdp::default()
    };
    all.lay_out()?;
    let mut area = vec![0xFF; AREA_BYTES];
    let len = sfdp::emit(&all, &mut area)?;
    area.truncate(len);
    Ok(area)
}

fn fast_read(variant: Option<&Variant>) -> FastRead {
    variant.map_or_else(FastRead::default, |v| FastRead {
        wait_states: v.dummy,
        mode_clocks: 0,
        opcode: v.opcode,
    })
}

fn bfpt(spec: &SpiNorSpec) -> Bfpt {
    let dtr = dtr(spec);
    let octal = spec.octal.map(|o| octal(spec, o.ext)).or_else(|| dtr.map(|_| octal(spec, CmdExt::Repeat)));
    let wide = spec.reads.iter().any(|v| v.mode.data.lanes == 8);
    let octal = octal.or_else(|| wide.then(|| self::octal(spec, CmdExt::Repeat)));
    Bfpt { basic: basic(spec), timing: Some(timing(spec)), octal, dtr }
}

/// Read command with these lanes and an address according to the address mode.
fn read(spec: &SpiNorSpec, lines: Lines) -> Option<&Variant> {
    let mode = FAST.iter().find(|f| f.lines == lines)?.mode;
    spec.reads.iter().find(|v| v.mode == mode)
}

fn basic(spec: &SpiNorSpec) -> BfptBasic {
    let types = spec.erase_types();
    let erase = |index: usize| types.get(index).map_or_else(EraseType::default, erase_type);
    let small = types.iter().find(|t| t.bytes == 4096).map(|t| t.opcode);
    let [r112, r122, r114, r144] =
        [Lines::S112, Lines::S122, Lines::S114, Lines::S144].map(|lines| read(spec, lines));
    BfptBasic {
        erase_sizes: if small.is_some() { 1 } else { 3 },
        write_buffer_64: true,
        volatile_protect: false,
        volatile_write_enable_06: true,
        erase_4k_opcode: small.unwrap_or(0xFF),
        has_112: r112.is_some(),
        address_bytes: match spec.addressing {
            Addressing::Fixed => AddressBytes::Three,
            Addressing::En4b | Addressing::WrenEn4b => AddressBytes::ThreeOrFour,
        },
        has_dtr: spec.max_dtr_hz > 0,
        has_122: r122.is_some(),
        has_144: r144.is_some(),
        has_114: r114.is_some(),
        density: Bfpt::density_code(spec.geometry.size_bytes).unwrap_or(0),
        read_144: fast_read(r144),
        read_114: fast_read(r114),
        read_112: fast_read(r112),
        read_122: fast_read(r122),
        erase_1: erase(0),
        erase_2: erase(1),
        erase_3: erase(2),
        erase_4: erase(3),
        ..BfptBasic::default()
    }
}

fn erase_type(kind: &crate::spi_nor::spec::EraseType) -> EraseType {
    EraseType { size_exponent: kind.bytes.trailing_zeros() as u8, opcode: kind.opcode }
}

/// Code of the smallest time that is at least `value`: a count from 1 in the lower bits, a unit in the upper bits.
fn code<const N: usize>(value: u64, count_bits: u32, units: [u64; N]) -> u8 {
    let most = 1u64 << count_bits;
    for (index, unit) in (0u64..).zip(units) {
        let count = value.div_ceil(unit).max(1);
        if count <= most {
            return (index << count_bits | (count - 1)) as u8;
        }
    }
    ((N as u64) << count_bits).wrapping_sub(1) as u8
}

/// Ratio of maximum to typical time, as the code of 2 x (code + 1).
fn factor(time: TypMaxUs) -> u8 {
    let typ = time.typ.as_ns().max(1) * 2;
    (time.max.as_ns().div_ceil(typ).max(1) - 1).min(15) as u8
}

fn timing(spec: &SpiNorSpec) -> BfptTiming {
    let types = spec.erase_types();
    let erase_time = |index: usize| types.get(index).map_or(0, |t| erase_ms(t.t_us.typ));
    let t = &spec.timing;
    let us = |time: Nanos| time.as_ns().div_ceil(1000);
    let latency = spec.suspend.map_or(0, |s| code(s.latency_us.as_ns(), 5, [128, 1000, 8000, 64_000]));
    let opcodes = spec.suspend.map_or((0, 0), |s| (s.suspend, s.resume));
    BfptTiming {
        erase_max_factor: types.iter().map(|e| factor(e.t_us)).max().unwrap_or(0),
        erase_1_time: erase_time(0),
        erase_2_time: erase_time(1),
        erase_3_time: erase_time(2),
        erase_4_time: erase_time(3),
        program_max_factor: factor(t.t_pp_us),
        page_exponent: spec.geometry.page_bytes.trailing_zeros() as u8,
        page_program_time: code(us(t.t_pp_us.typ), 5, [8, 64]),
        first_byte_time: code(us(t.t_byte_us.unwrap_or(t.t_pp_us).typ), 4, [1, 8]),
        chip_erase_time: code(us(t.t_ce_us.typ).div_ceil(1000), 5, [16, 256, 4000, 64_000]),
        program_suspend_latency: latency,
        erase_suspend_latency: latency,
        no_suspend: spec.suspend.is_none(),
        program_resume_opcode: opcodes.1,
        program_suspend_opcode: opcodes.0,
        resume_opcode: opcodes.1,
        suspend_opcode: opcodes.0,
        busy_polling: if spec.registers == RegisterSet::Micron { 0b11 } else { 0b01 },
        no_power_down: true,
        quad_enable: quad_enable(spec.quad_enable),
        soft_reset: if spec.soft_reset { 1 << 4 } else { 0 },
        exit_4_byte: u16::from(enter_4_byte(spec.addressing)),
        enter_4_byte: enter_4_byte(spec.addressing),
        ..BfptTiming::default()
    }
}

fn erase_ms(time: Nanos) -> u8 {
    code(time.as_ns().div_ceil(1_000_000), 5, [1, 16, 128, 1000])
}

const fn quad_enable(bit: QuadEnable) -> sfdp::QuadEnable {
    match bit {
        QuadEnable::None => sfdp::QuadEnable::None,
        QuadEnable::Sr1Bit6 => sfdp::QuadEnable::Status1Bit6,
        QuadEnable::Sr2Bit1 => sfdp::QuadEnable::Status2Bit1Separate,
        QuadEnable::Sr2Bit1By01 => sfdp::QuadEnable::Status2Bit1,
    }
}

/// Ways to enter and leave four-byte addressing: bit 0: command alone, bit 1: command after WRITE ENABLE.
const fn enter_4_byte(addressing: Addressing) -> u8 {
    match addressing {
        Addressing::Fixed => 0,
        Addressing::En4b => 1 << 0,
        Addressing::WrenEn4b => 1 << 1,
    }
}

fn octal(spec: &SpiNorSpec, ext: CmdExt) -> BfptOctal {
    BfptOctal {
        read_188: fast_read(read(spec, Lines::S188)),
        read_118: fast_read(read(spec, Lines::S118)),
        command_extension: match ext {
            CmdExt::Repeat | CmdExt::Row(_) => CommandExtension::Repeat,
            CmdExt::Invert => CommandExtension::Invert,
        },
        swapped_bytes: spec.octal.is_some_and(|octal| octal.swap16),
        speed_8d: spec.octal.map_or(0, |_| speed_code(spec.max_dtr_hz)),
        ..BfptOctal::default()
    }
}

/// Highest speed code whose clock is not above `hz`.
fn speed_code(hz: u64) -> u8 {
    let fits = |code: &u8| sfdp::speed_mhz(*code).is_some_and(|mhz| u64::from(mhz) * 1_000_000 <= hz);
    (1..=12).rfind(fits).unwrap_or(0)
}

fn dtr(spec: &SpiNorSpec) -> Option<BfptDtr> {
    let [r1d, r2d, r4d] = [Lines::D111, Lines::D122, Lines::D144].map(|lines| read(spec, lines));
    (r1d.or(r2d).or(r4d).is_some()).then(|| BfptDtr {
        has_1d: r1d.is_some(),
        has_2d: r2d.is_some(),
        has_4d: r4d.is_some(),
        read_1d: fast_read(r1d),
        read_2d: fast_read(r2d),
        read_4d: fast_read(r4d),
        ..BfptDtr::default()
    })
}

fn four_byte(spec: &SpiNorSpec) -> Option<FourByte> {
    let reads = |mode: Mode, opcode: u8| spec.reads_4b.iter().any(|v| v.mode == mode && v.opcode == opcode);
    let programs =
        |mode: Mode, opcode: u8| spec.programs_4b.iter().any(|v| v.mode == mode && v.opcode == opcode);
    let mut commands = FourByteCommands::default();
    let mut add = |has: bool, bit: FourByteCommands| {
        if has {
            commands = commands.with(bit);
        }
    };
    add(reads(Mode::SINGLE, c::READ_4B), FourByteCommands::READ);
    add(reads(Mode::SINGLE, c::FAST_READ_4B), FourByteCommands::FAST_READ);
    for fast in &FAST {
        add(reads(fast.mode, fast.opcode_4b), fast.bit);
    }
    for (mode, bit, opcode) in PROGRAMS {
        add(programs(mode, opcode), bit);
    }
    let mut erase_opcodes = [0xFF; 4];
    let bits = [
        FourByteCommands::ERASE_1,
        FourByteCommands::ERASE_2,
        FourByteCommands::ERASE_3,
        FourByteCommands::ERASE_4,
    ];
    for ((kind, slot), bit) in spec.erase_types().iter().zip(&mut erase_opcodes).zip(bits) {
        add(kind.opcode_4b.is_some(), bit);
        *slot = kind.opcode_4b.unwrap_or(0xFF);
    }
    (commands != FourByteCommands::default()).then_some(FourByte { commands, erase_opcodes })
}

/// Read commands in 8D-8D-8D.
fn octal_reads(spec: &SpiNorSpec) -> impl Iterator<Item = &Variant> {
    spec.reads_4b.iter().filter(|v| v.mode == Mode::OCTAL_DTR)
}

fn profile1(spec: &SpiNorSpec, octal: &Octal) -> Profile1 {
    // Minimum number of dummy cycles at a clock, and the register value for it; (0, 0) if the clock is not
    // supported.
    let setting = |mhz: u64| -> (u8, u8) {
        let limit = |v: &Variant| if v.max_hz == 0 { spec.max_dtr_hz } else { v.max_hz };
        let dummy =
            octal_reads(spec).filter(|v| limit(v) >= mhz * 1_000_000).map(|v| v.dummy).min().unwrap_or(0);
        (dummy, spec.dummy.as_ref().and_then(|d| d.value(dummy)).unwrap_or(0))
    };
    let [(dummy_200, pattern_200), (dummy_166, pattern_166)] = [setting(200), setting(166)];
    let [(dummy_133, pattern_133), (dummy_100, pattern_100)] = [setting(133), setting(100)];
    let commands = Profile1Commands {
        read_opcode: octal_reads(spec).next().map_or(0, |v| v.opcode),
        read_status_wait_8: octal.status_dummy == 8,
        read_status_address: octal.status_addr_bytes == 4,
        read_register_address: octal.status_addr_bytes == 4,
        dummy_200,
        pattern_200,
        dummy_166,
        pattern_166,
        dummy_133,
        pattern_133,
        dummy_100,
        pattern_100,
        ..Profile1Commands::default()
    };
    let default = spec.dummy.as_ref().map_or_else(|| setting(1).0, |d| d.default);
    let defaults = Profile1Default { dummy_8d: default, ..Profile1Default::default() };
    Profile1 { commands, defaults: Some(defaults) }
}

/// Opcodes that read and write the register with the octal switch.
const fn config_opcodes(switch: OctalSwitch) -> (u8, u8) {
    match switch {
        OctalSwitch::MicronVcr => (micron::READ_VCR, micron::WRITE_VCR),
        OctalSwitch::InfineonCfr => (infineon::READ_ANY, infineon::WRITE_ANY),
        OctalSwitch::MacronixCr2 | OctalSwitch::Sequence(_) => {
            (macronix::READ_CONFIG_2, macronix::WRITE_CONFIG_2)
        }
    }
}

fn sccr(spec: &SpiNorSpec, octal: &Octal) -> Sccr {
    let status =
        |bit: u8| RegisterBit { read_opcode: c::READ_STATUS, bit, available: true, ..RegisterBit::default() };
    let (read_opcode, write_opcode) = config_opcodes(octal.switch);
    let at_zero = RegisterBit { read_opcode, write_opcode, addressed: true, ..RegisterBit::default() };
    let dummy_volatile = spec.dummy.as_ref().map_or_else(DummyField::default, |d| DummyField {
        write_opcode,
        read_opcode,
        // Register addresses are multiples of 100h (Macronix) or consecutive (Micron).
        address: if d.register > 0xFF { (d.register >> 8) as u8 } else { d.register as u8 },
        second_byte: d.register > 0xFF,
        addressed: true,
        width: 1,
        available: true,
        ..DummyField::default()
    });
    let access = RegisterAccess {
        address_bytes: if octal.status_addr_bytes == 4 { 3 } else { 2 },
        can_write: true,
        can_read: true,
        ..RegisterAccess::default()
    };
    let head = SccrHead {
        volatile_access: access,
        wip: status(0),
        wel: RegisterBit { special: true, ..status(1) },
        dummy_volatile,
        octal_dtr_volatile: RegisterBit { bit: 1, available: true, ..at_zero },
        ..SccrHead::default()
    };
    Sccr { head, tail: None }
}

fn sequence(switch: OctalSwitch) -> OctalSequence {
    let step = |sent: &[u8]| {
        let mut bytes = [0; 7];
        bytes[..sent.len()].copy_from_slice(sent);
        CommandSequence { length: sent.len() as u8, bytes }
    };
    let none = CommandSequence::default();
    let enable = step(&[c::WRITE_ENABLE]);
    match switch {
        OctalSwitch::MacronixCr2 => {
            let write = [macronix::WRITE_CONFIG_2, 0, 0, 0, 0, macronix::CONFIG_2_OCTAL_DTR];
            OctalSequence { steps: [enable, step(&write), none, none] }
        }
        OctalSwitch::MicronVcr => {
            let write = [micron::WRITE_VCR, 0, 0, 0, micron::VCR_OCTAL_DTR];
            OctalSequence { steps: [enable, step(&write), none, none] }
        }
        OctalSwitch::InfineonCfr => {
            let [_, high, middle, low] = infineon::CFR5V.to_be_bytes();
            let write = [infineon::WRITE_ANY, high, middle, low, infineon::CFR5_OCTAL_DTR];
            OctalSequence { steps: [enable, step(&write), none, none] }
        }
        OctalSwitch::Sequence(sequence) => sequence,
    }
}
