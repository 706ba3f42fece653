//! The CFI query of a chip: converts its specification to the bytes on the bus.

use super::spec::{BootBlocks, CfiCodes, CommandSet, Interface, LockScheme, ParallelNorSpec};
use floatgate_media::List;
use floatgate_media::MediaError;
use floatgate_media::cfi::{
    AmdBase, AmdTable, AmdV11, AmdV15, BusView, Cfi, CfiIdentification, EraseRegion, Extended,
    IntelProtection, IntelTable, emit,
};
use floatgate_mtd::Nanos;

/// Device address of the extended tables (data sheets of S29GL-P and 28FxxxJ3).
const AMD_EXTENDED_AT: u16 = 0x40;
const INTEL_EXTENDED_AT: u16 = 0x31;

/// Query bytes as a bus of this width returns them, from device address 0 on.
pub(super) fn query_bytes(spec: &ParallelNorSpec, view: BusView) -> Result<Vec<u8>, MediaError> {
    let mut bytes = vec![0; view.offset(0x80)];
    let end = emit(&describe(spec)?, view, &mut bytes)?;
    bytes.truncate(end);
    Ok(bytes)
}

fn describe(spec: &ParallelNorSpec) -> Result<Cfi, MediaError> {
    let mut regions = List::new();
    let from_low = spec.geometry.regions.iter();
    // AMD's tables list the boot blocks first, even if they are at the top (flag at 4Fh).
    let reversed = spec.command_set == CommandSet::Amd && spec.geometry.boot == BootBlocks::Top;
    let ordered: Vec<_> = if reversed { from_low.rev().collect() } else { from_low.collect() };
    for region in ordered {
        let entry = EraseRegion {
            more_blocks: (region.blocks - 1) as u16,
            size_code: (region.block_bytes / 256) as u16,
        };
        regions.push(entry, "erase regions").map_err(|reason| reason.at(0))?;
    }
    let extended = match spec.command_set {
        CommandSet::Amd => amd(spec),
        CommandSet::Intel => intel(spec),
    };
    Ok(Cfi { identification: identification(spec), regions, extended: Some(extended) })
}

fn identification(spec: &ParallelNorSpec) -> CfiIdentification {
    let CfiCodes { typ, max } = spec.cfi.unwrap_or_else(|| codes(spec));
    let (command_set, extended_at) = match spec.command_set {
        CommandSet::Intel => (1, INTEL_EXTENDED_AT),
        CommandSet::Amd => (2, AMD_EXTENDED_AT),
    };
    let interface = match spec.geometry.interface {
        Interface::X8 => 0,
        Interface::X16 => 1,
        Interface::X8X16 => 2,
    };
    let buffer = spec.geometry.buffer_bytes;
    CfiIdentification {
        command_set,
        extended_at,
        vcc_min: 0x27,
        vcc_max: 0x36,
        word_typical: typ[0],
        buffer_typical: typ[1],
        block_erase_typical: typ[2],
        chip_erase_typical: typ[3],
        word_max: max[0],
        buffer_max: max[1],
        block_erase_max: max[2],
        chip_erase_max: max[3],
        size_exponent: spec.geometry.size_bytes.ilog2() as u8,
        interface,
        buffer_exponent: if buffer == 0 { 0 } else { buffer.ilog2() as u16 },
        ..CfiIdentification::default()
    }
}

/// Time codes of the query: the smallest powers of two that are at least the chip's typical and maximum times. The
/// code 0 means "not supported", so the smallest time is 2.
fn codes(spec: &ParallelNorSpec) -> CfiCodes {
    let power = |time: Nanos, unit: u64| time.as_ns().div_ceil(unit).next_power_of_two().ilog2().max(1) as u8;
    let timing = &spec.timing;
    let mut found = CfiCodes { typ: [0; 4], max: [0; 4] };
    let known = [
        Some((timing.t_word_us, 1_000)),
        timing.t_buffer_us.map(|t| (t, 1_000)),
        Some((timing.t_bers_us, 1_000_000)),
    ];
    for (index, entry) in known.into_iter().enumerate() {
        let Some((time, unit)) = entry else { continue };
        found.typ[index] = power(time.typ, unit);
        found.max[index] = power(time.max, unit).saturating_sub(found.typ[index]).max(1);
    }
    if spec.command_set == CommandSet::Amd {
        let blocks = u64::from(spec.erase_map().blocks());
        found.typ[3] = power(timing.t_bers_us.typ * blocks, 1_000_000);
        found.max[3] = found.max[2];
    }
    found
}

fn version(spec: &ParallelNorSpec) -> [u8; 2] {
    match *spec.cfi_version.as_bytes() {
        [major, minor] => [major, minor],
        _ => *b"??",
    }
}

fn amd(spec: &ParallelNorSpec) -> Extended {
    let (features, version) = (spec.features, version(spec));
    let page_words = spec.geometry.page_bytes / 2;
    let base = AmdBase {
        erase_suspend: match (features.erase_suspend, features.program_in_erase_suspend) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        },
        protect_group: 1,
        protect_scheme: 8,
        page: match page_words {
            0..4 => 0,
            4..8 => 1,
            8..16 => 2,
            _ => 3,
        },
        ..AmdBase::default()
    };
    let boot = match spec.geometry.boot {
        BootBlocks::Uniform => 4,
        BootBlocks::Bottom => 2,
        BootBlocks::Top => 3,
    };
    let v11 = AmdV11 { acceleration_min: 0xB5, acceleration_max: 0xC5, boot };
    let otp = spec.otp.map_or(0, |otp| otp.factory_bytes.max(otp.user_bytes));
    let v15 = AmdV15 {
        secure_exponent: if otp == 0 { 0 } else { otp.ilog2() as u8 },
        software: 2,
        ..AmdV15::default()
    };
    let table = AmdTable {
        base,
        v11: (version >= *b"11").then_some(v11),
        program_suspend: (version >= *b"13").then_some(features.program_suspend.into()),
        v15: (version >= *b"15").then_some(v15),
    };
    Extended::Amd { version, table }
}

fn intel(spec: &ParallelNorSpec) -> Extended {
    let bit = |on: bool, number: u32| u32::from(on) << number;
    let features = bit(spec.features.erase_suspend, 1)
        | bit(spec.features.program_suspend, 2)
        | bit(spec.lock == LockScheme::Legacy, 3)
        | bit(spec.lock == LockScheme::Instant, 5)
        | bit(spec.otp.is_some(), 6)
        | bit(spec.geometry.page_bytes > 0, 7);
    let table = IntelTable {
        features,
        suspend: spec.features.program_in_erase_suspend.into(),
        block_status: (spec.lock != LockScheme::None).into(),
        vcc: 0x33,
        vpp: 0,
        protection_fields: spec.otp.is_some().into(),
    };
    let exponent = |bytes: u64| bytes.checked_ilog2().unwrap_or(0) as u8;
    let protection = spec.otp.map(|otp| IntelProtection {
        lock_at: otp.lock_word,
        factory_exponent: exponent(otp.factory_bytes),
        user_exponent: exponent(otp.user_bytes),
    });
    Extended::Intel { version: version(spec), table, protection }
}
