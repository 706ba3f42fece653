//! Tests of the chips in the kernel's tables. For each chip that can run, our driver identifies it from its bytes. The
//! chip is programmed, read, erased and corrected with the operations that Linux chooses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use crate::common::{TIMING_ONLY, bytes, library};
use floatgate_config::{ChipKind, Gap, KernelChip, Kind, Source};
use floatgate_device::spec::ChipSpec;
use floatgate_device::spi::{Mode, Variant};
use floatgate_sim::rig::{RigOptions, wire};
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Chips that none of our drivers identifies or supports, with the reason.
const REFUSED: &[(&str, &str)] =
    &[("h27ucg8t2atr-bc", NO_ROOM), ("sdtnqgama", NO_ROOM), ("sdtnrgama", NO_ROOM), ("tc58nvg6d2", NO_ROOM)];

/// Reason for boards of the catalogue whose ECC bytes do not fit.
const NO_ROOM: &str = "ECC bytes do not fit into the OOB";

/// Range of a board's partition.
#[derive(Default, Deserialize)]
struct Partition {
    #[serde(default, with = "floatgate_device::units::bytes")]
    offset: u64,
}

#[test]
fn every_chip_of_the_kernel_runs() {
    let chips: Vec<KernelChip> = library().kernel_parts().filter(|chip| chip.refusal().is_none()).collect();
    let kinds = [ChipKind::SpiNand, ChipKind::SpiNor, ChipKind::RawNand]
        .map(|kind| chips.iter().filter(|c| c.kind == kind).count());
    assert!(kinds[0] > 100 && kinds[1] > 200 && kinds[2] > 10, "{kinds:?}");
    let failed: Vec<String> = chips
        .par_iter()
        .filter_map(|chip| run(chip).err().map(|why| format!("{}: {why}", chip.key)))
        .collect();
    let is_known = |failed: &&String| {
        REFUSED.iter().any(|(key, why)| failed.starts_with(&format!("{key}: ")) && failed.contains(why))
    };
    let unknown: Vec<&String> = failed.iter().filter(|failed| !is_known(failed)).collect();
    assert!(unknown.is_empty(), "{} of {}: {unknown:#?}", unknown.len(), chips.len());
    assert_eq!(failed.len(), REFUSED.len());
}

fn run(chip: &KernelChip) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let setup = library().setup(chip.key).map_err(|e| text(&e))?;
    let is_nand = chip.kind.is_nand();
    let config = library().resolve(&setup, &[]).map_err(|e| text(&e))?;
    config.checked_chip().map_err(|e| text(&e))?;
    let mut rig = wire(library(), &config, RigOptions::default()).map_err(|e| text(&e))?;
    let Partition { offset } = config.extract_or_default("partition").map_err(|e| text(&e))?;
    let geometry = rig.device.geometry().clone();
    let block = u64::from(geometry.erase_bytes);
    // The last block may be on another die or plane.
    for first in [0, geometry.size_bytes - block] {
        let data = bytes(first + 1, block as usize);
        let mut now = rig.now();
        now = rig.device.erase(now, first, block).map_err(|e| format!("erase: {e}"))?.at;
        now = rig.device.write(now, first, &data).map_err(|e| format!("write: {e}"))?.at;
        if is_nand {
            let page = u32::try_from((offset + first) / u64::from(geometry.write_bytes)).unwrap();
            rig.device.oracle().inject(page + 1, 13);
        }
        let mut got = vec![0; data.len()];
        let done = rig.device.read(now, first, &mut got).map_err(|e| format!("read: {e}"))?;
        if is_nand && done.bitflips == 0 {
            return Err("the wrong bit was not corrected".to_owned());
        }
        if got != data {
            return Err(format!("block at {first:#x}: other bytes came back"));
        }
    }
    Ok(())
}

/// A board on which only the chip limits an operation: four lanes, SDR and DTR, 66 MHz of 198 MHz / n.
const BOARD: &str = r#"
controller = { reference_hz = "198 MHz", max_hz = "198 MHz", lanes = 4, dtr = true }
bus.lanes = 4
"#;

/// Half clock cycles of a phase of `bits` bits.
fn half_cycles(bits: u64, lanes: u8, dtr: bool) -> u64 {
    bits * if dtr { 1 } else { 2 } / u64::from(lanes)
}

/// Duration of an operation as calculated by Linux 7.3 (`spi_mem_calc_op_duration`), in half cycles of 198 MHz.
fn duration(variant: &Variant, data_bytes: u64) -> u64 {
    let Mode { cmd, addr, data } = variant.mode;
    let limit = if variant.max_hz == 0 { 66_000_000 } else { variant.max_hz.min(66_000_000) };
    let divider = 198_000_000_u64.div_ceil(limit);
    let halves = half_cycles(8, cmd.lanes, cmd.dtr)
        + half_cycles(16, addr.lanes, addr.dtr)
        + 2 * u64::from(variant.dummy)
        + half_cycles(8 * data_bytes, data.lanes, data.dtr);
    halves * divider
}

/// The operation is the one that Linux selects. For SPI NAND that is the shortest one, and the first of equal ones
/// (`spinand_select_op_variant`). For SPI NOR it has the most data lanes, then the most address lanes, and a fast read
/// precedes a slow one (`spi_nor_select_read`).
#[test]
fn the_chosen_reads_are_those_of_linux() {
    let wrong = |chip: &KernelChip| {
        let spec = library().load(Kind::Part, chip.key).unwrap().chip().unwrap();
        let expected = match &spec {
            ChipSpec::SpiNand(spec) => {
                let raw = u64::from(spec.geometry.page_bytes + spec.geometry.oob_bytes);
                *spec
                    .reads
                    .iter()
                    .filter(|v| v.mode.data.lanes <= 4)
                    .min_by_key(|v| duration(v, raw))
                    .unwrap()
            }
            ChipSpec::SpiNor(spec) => {
                let fits = |v: &&Variant| v.mode.data.lanes <= 4;
                // At the clock of a slow chip, the plain read is equally good. Linux uses it with a device tree without
                // `m25p,fast-read`.
                let is_slow = spec.max_sdr_hz < 66_000_000;
                let plain_does = |v: &&Variant| is_slow && (v.max_hz == 0 || v.max_hz >= spec.max_sdr_hz);
                let rank = |v: &&Variant| {
                    let read = if v.opcode != 0x03 { 1 } else { 2 * u8::from(plain_does(v)) };
                    (v.mode.data.lanes, v.mode.addr.lanes, v.mode.data.dtr, read)
                };
                let four = spec.geometry.size_bytes > 1 << 24 && !spec.reads_4b.is_empty();
                let list = if four { &spec.reads_4b } else { &spec.reads };
                *list.iter().filter(fits).max_by_key(rank).unwrap()
            }
            _ => return None,
        };
        // A slower chip has a slower clock.
        let clock_hz = match &spec {
            ChipSpec::SpiNor(spec) => spec.max_sdr_hz.min(66_000_000),
            _ => 66_000_000,
        };
        let text = format!("chip = {:?}\n{BOARD}bus.clock_hz = {clock_hz}\n", chip.key);
        let setup = library().setup_from(&Source::text("board", &text)).unwrap();
        let config = library().resolve(&setup, &[]).unwrap();
        let rig = wire(library(), &config, TIMING_ONLY).map_err(|error| error.to_string());
        let read = rig.map_or_else(|error| error, |rig| rig.device.link().read);
        let wanted = format!("{} {:02X}h", expected.mode, expected.opcode);
        (!read.starts_with(&wanted)).then(|| format!("{}: {read} instead of {wanted}", chip.key))
    };
    let chips: Vec<KernelChip> = library().kernel_parts().filter(|chip| chip.refusal().is_none()).collect();
    let wrong: Vec<String> = chips.par_iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), chips.len());
}

/// Chips that Linux switches to 8D-8D-8D with a maker-specific register store data in that mode, if controller and
/// board support it.
#[test]
fn octal_chips_run_in_octal_double_rate() {
    let board = BOARD.replace("lanes = 4", "lanes = 8");
    let is_octal = |chip: &KernelChip| match library().load(Kind::Part, chip.key).unwrap().chip().unwrap() {
        ChipSpec::SpiNor(spec) => spec.octal.is_some(),
        _ => false,
    };
    let of_makers = |chip: &KernelChip| ["Micron", "Infineon"].contains(&chip.maker());
    let names: Vec<&str> = library()
        .kernel_parts()
        .filter(|chip| chip.refusal().is_none() && of_makers(chip) && is_octal(chip))
        .map(|chip| chip.key)
        .collect();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        let text = format!("chip = {name:?}\n{board}bus.clock_hz = 66_000_000\nbus.reset_pin = true\n");
        let setup = library().setup_from(&Source::text("board", &text)).unwrap();
        let mut rig =
            wire(library(), &library().resolve(&setup, &[]).unwrap(), RigOptions::default()).unwrap();
        assert_eq!(rig.device.link().mode, "8D-8D-8D", "{name}");
        let data = bytes(3, 1001);
        let written = rig.now();
        let written = rig.device.write(written, 0x100_0001, &data).unwrap().at;
        let mut got = vec![0; data.len()];
        rig.device.read(written, 0x100_0001, &mut got).unwrap();
        assert!(got == data, "{name}");
    }
}

/// Fields in which a part of the catalogue intentionally differs from the kernel's table: part, field, reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("mx35lf1ge4ab", "loads", WHOLE_LOAD),
    ("mx35lf2ge4ab", "loads", WHOLE_LOAD),
    ("mx35lf2ge4ad", "loads", WHOLE_LOAD),
    ("mx35lf4ge4ad", "loads", WHOLE_LOAD),
    ("mx35lf2g14ac", "loads", WHOLE_LOAD),
    ("mx35lf2g14ac", "ecc", "the data sheet has no ECC on the die"),
    ("mx35lf2g14ac", "ecc_status", "the data sheet has no ECC on the die"),
    ("w25m02gv", "continuous", "the data sheet has it; Linux does not use it"),
    ("w25n01gv", "continuous", "the data sheet has it; Linux does not use it"),
    (
        "w25n01jw",
        "quad_enable",
        "Linux sets configuration bit 0 since 7.x; the chip needs no bit for four lanes",
    ),
    (
        "w25n02jw",
        "quad_enable",
        "Linux sets configuration bit 0 since 7.x; the chip needs no bit for four lanes",
    ),
];

const WHOLE_LOAD: &str = "the data sheet has PROGRAM LOAD 02h; Linux loads at random instead";

/// Properties that both the kernel's table and a part state, as texts.
fn facts(spec: &ChipSpec) -> Vec<(&'static str, String)> {
    let list = |all: &[Variant]| {
        let mut rows: Vec<String> =
            all.iter().map(|v| format!("{} {:02X}h {} {}", v.mode, v.opcode, v.dummy, v.max_hz)).collect();
        rows.sort_unstable();
        rows.join(", ")
    };
    match spec {
        ChipSpec::SpiNand(spec) => {
            let g = &spec.geometry;
            let loads: Vec<Variant> = spec.loads.iter().map(|load| load.variant()).collect();
            let layout = spec.oob.layout(g.oob_bytes).unwrap();
            vec![
                ("id", format!("{:02X?} {:?}", spec.id, spec.id_read)),
                ("pages", format!("{} + {}, {} in a block", g.page_bytes, g.oob_bytes, g.pages_per_block)),
                ("blocks", format!("{} of {}, {} planes", g.luns, g.blocks_per_lun, g.planes)),
                ("bad blocks", g.max_bad_blocks_per_lun.to_string()),
                (
                    "ecc",
                    format!("{} of {} on die {}", spec.ecc.strength, spec.ecc.step_bytes, spec.ecc.on_die),
                ),
                ("ecc_status", format!("{:?}", spec.ecc_status)),
                ("oob", format!("free {:?} ecc {:?}", layout.free(), layout.ecc())),
                ("quad_enable", spec.quad_enable.to_string()),
                ("reads", list(&spec.reads)),
                ("loads", list(&loads)),
                (
                    "continuous",
                    format!("{:?}", spec.continuous.as_ref().map(|c| (c.kind, c.config_bit, list(&c.reads)))),
                ),
                ("read_retry", format!("{:?}", spec.read_retry.as_ref().map(|r| (r.feature, r.modes)))),
                ("quirks", format!("{} {}", spec.quirks.plane_select_bit, spec.quirks.die_select)),
            ]
        }
        ChipSpec::SpiNor(spec) => vec![
            ("size", spec.geometry.size_bytes.to_string()),
            ("page", spec.geometry.page_bytes.to_string()),
            ("protection", format!("{:?}", spec.protection)),
            ("otp", format!("{:?}", spec.otp)),
        ],
        _ => Vec::new(),
    }
}

/// Checks that a part of the catalogue agrees with the kernel's tables, if it is in them.
#[test]
fn parts_of_the_catalogue_agree_with_the_kernel() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for chip in floatgate_config::kernel_chips() {
        let Some(own) = library().own_of(&chip) else { continue };
        let ours = library().load(Kind::Part, own).unwrap().chip().unwrap();
        let kernel = library().load_kernel(&chip).unwrap().chip().unwrap();
        compared += 1;
        for ((field, ours), (_, kernel)) in facts(&ours).into_iter().zip(facts(&kernel)) {
            let is_known = DIFFERENT.iter().any(|(part, of, _)| (*part, *of) == (own, field));
            // The kernel's table may not state the field.
            let is_silent = kernel == "None" && ["otp", "protection"].contains(&field);
            if !is_silent && (ours == kernel) == is_known {
                wrong.push(format!("(\"{own}\", \"{field}\", \"{ours} instead of {kernel}\"),"));
            }
        }
    }
    assert!(compared > 30 && wrong.is_empty(), "{compared} compared\n{}", wrong.join("\n"));
}

/// Generated part of `docs/chips.md`.
fn page() -> String {
    let mut text = String::from(
        "| kind | the catalogue's own | of Linux's tables | not possible |\n|---|---:|---:|---:|\n",
    );
    let all: Vec<KernelChip> = library().kernel_parts().collect();
    for kind in ChipKind::ALL {
        let is_kind = |name: &&str| library().load(Kind::Part, name).unwrap().chip().unwrap().kind() == kind;
        let own = library().names(Kind::Part).filter(is_kind).count();
        let of_kind = all.iter().filter(|chip| chip.kind == kind);
        let (refused, known): (Vec<&KernelChip>, Vec<&KernelChip>) =
            of_kind.partition(|chip| chip.refusal().is_some());
        text += &format!("| {} | {own} | {} | {} |\n", kind.name(), known.len(), refused.len());
    }
    let twins = floatgate_config::kernel_chips().filter(|chip| library().own_of(chip).is_some()).count();
    text += &format!(
        "\nThe tables are those of Linux {}. {twins} more of its chips have the name or id of one of the catalogue's own chips.\n",
        all[0].kernel()
    );
    text += "\n### By maker\n\n| maker | kind | chips |\n|---|---|---|\n";
    let mut makers: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    let mut gaps: BTreeMap<Gap, Vec<&str>> = BTreeMap::new();
    let mut refusals: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for chip in &all {
        if let Some(why) = chip.refusal() {
            refusals.entry(why).or_default().push(chip.key);
            continue;
        }
        makers.entry((chip.maker().to_owned(), chip.kind.name())).or_default().push(chip.key);
        for gap in chip.gaps() {
            gaps.entry(gap).or_default().push(chip.key);
        }
    }
    for ((maker, kind), names) in makers {
        text += &format!("| {maker} | {kind} | {} |\n", names.join(", "));
    }
    text += "\n### What is missing\n\nThe table lists the differences between simulated part and real chip. `floatgate list NAME --json` prints each as the note of a source.\n\n";
    text += "| difference | chips |\n|---|---|\n";
    for (gap, names) in gaps {
        text += &format!("| {gap} | {} |\n", names.join(", "));
    }
    text += "\n### Not possible\n\n| reason | chips |\n|---|---|\n";
    for (why, names) in refusals {
        text += &format!("| {why} | {} |\n", names.join(", "));
    }
    text
}

#[test]
fn the_page_of_chips_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/chips.md");
    let old = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = old.split_once("<!-- begin -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let new = format!("{head}<!-- begin -->\n{}<!-- end -->{tail}", page());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &new).unwrap();
    } else {
        assert!(old == new, "docs/chips.md is not current: UPDATE_GOLDEN=1 rewrites it");
    }
}
