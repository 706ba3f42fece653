//! Tests of the catalogue of parts: every file describes a possible chip and states the source of its numbers, and a
//! driver identifies the chip from its bytes alone.
//!
//! New part files are tested automatically.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Config, Kind, Library, Override, Part, Provenance, Source};
use floatgate_device::parallel_nor::Interface;
use floatgate_device::raw_nand::RawNandSpec;
use floatgate_device::spec::{ChipKind, ChipSpec};
use floatgate_device::spi_nand::SpiNandSpec;
use floatgate_device::spi_nor::SpiNorSpec;
use floatgate_mtd::{FlashKind, Geometry, Pairing};
use floatgate_sim::rig::{Rig, RigOptions, chip_interfaces, chip_modes, wire};
use std::path::Path;

/// Ids that begin like the id of another part, with the reason. The driver uses the longest match.
const SHARED_IDS: [(&str, &str, &str); 1] = [(
    "n25q128a",
    "mt25ql128aba",
    "the successor kept the three JEDEC bytes; its extended bytes, which the older part has otherwise, tell it apart",
)];

/// Board without limits, by kind of chip. If the fastest command is tested, the serial clock is set to the limit of the
/// chip.
fn board(kind: ChipKind) -> &'static str {
    match kind {
        ChipKind::SpiNand | ChipKind::SpiNor => {
            r#"
            controller = { reference_hz = "250 MHz", max_hz = "250 MHz", lanes = 8, dtr = true }
            bus = { clock_hz = "10 MHz", lanes = 8, reset_pin = true }
            "#
        }
        ChipKind::RawNand => {
            r#"
            controller = { sdr_modes = [0, 1, 2, 3, 4, 5], nvddr_modes = [0, 1, 2, 3, 4, 5] }
            bus = {}
            "#
        }
        ChipKind::ParallelNor => {
            r#"
            controller = { page_mode = true }
            bus = { bits = 16 }
            "#
        }
    }
}

fn names(library: &Library) -> Vec<String> {
    library.names(Kind::Part).map(str::to_owned).collect()
}

/// Setup for a part on a board without limits, with one of its profiles or, if empty, none.
fn config(library: &Library, name: &str, profile: &str, sets: &[String]) -> Config {
    let profile = if profile.is_empty() { String::new() } else { format!(", profile = {profile:?}") };
    let kind = library.load(Kind::Part, name).unwrap().chip().unwrap().kind();
    let text = format!("chip = {{ base = {name:?}{profile} }}\n{}", board(kind));
    let setup = library.setup_from(&Source::text("catalogue test", &text)).unwrap();
    let sets = Override::parse_all(sets).unwrap();
    library.resolve(&setup, &sets).unwrap_or_else(|e| panic!("{name}: {}", e.one_line()))
}

fn plain(library: &Library, name: &str) -> Config {
    config(library, name, "", &[])
}

/// Geometry that a chip's driver must detect, and settings that the chip supports.
struct Expected {
    geometry: Geometry,
    /// Override for the highest clock of its single-rate commands, which a board would request; empty without a serial
    /// bus.
    fastest: Vec<String>,
    /// All bus modes, interfaces or widths as overrides, each with the resulting mode of the link.
    modes: Vec<(String, String)>,
}

/// Parses and checks the chip of a setup.
fn expected(config: &Config) -> Expected {
    let chip = config.checked_chip().unwrap_or_else(|e| panic!("{}", e.one_line()));
    let size_bytes = chip.facts().size_bytes;
    let clock = |hz: u64| vec![format!("bus.clock_hz={hz}")];
    let serial_modes = || {
        let all = chip_modes(config).into_iter();
        all.map(|mode| (format!("bus.mode=\"{mode}\""), mode.to_string())).collect()
    };
    match chip {
        ChipSpec::SpiNand(spec) => Expected {
            geometry: spi_nand(&spec, size_bytes),
            fastest: clock(spec.sdr_hz),
            modes: serial_modes(),
        },
        ChipSpec::SpiNor(spec) => Expected {
            geometry: nor(size_bytes, smallest_erase(&spec), spec.geometry.page_bytes),
            fastest: clock(spec.max_sdr_hz),
            modes: serial_modes(),
        },
        ChipSpec::RawNand(spec) => {
            let interfaces = chip_interfaces(config).into_iter();
            let modes = interfaces.map(|name| (format!("bus.interface={name:?}"), name)).collect();
            Expected { geometry: raw_nand(&spec, size_bytes), fastest: Vec::new(), modes }
        }
        ChipSpec::ParallelNor(spec) => {
            let g = &spec.geometry;
            let largest = g.regions.iter().map(|region| region.block_bytes).max().unwrap();
            let widths: &[u8] = match g.interface {
                Interface::X8 => &[8],
                Interface::X16 => &[16],
                Interface::X8X16 => &[8, 16],
            };
            let modes = widths.iter().map(|bits| (format!("bus.bits={bits}"), String::new())).collect();
            let geometry = nor(size_bytes, largest as u32, (g.buffer_bytes as u32).max(2));
            Expected { geometry, fastest: Vec::new(), modes }
        }
    }
}

/// Geometry of a NAND with one bit per cell whose ECC leaves `oob_free_bytes`.
fn spi_nand(spec: &SpiNandSpec, size_bytes: u64) -> Geometry {
    let g = &spec.geometry;
    assert_eq!(g.bits_per_cell, 1, "no serial NAND stores more");
    Geometry {
        kind: FlashKind::SlcNand,
        size_bytes,
        partition_of: None,
        erase_bytes: g.page_bytes * g.pages_per_block,
        write_bytes: g.page_bytes,
        buffer_bytes: g.page_bytes,
        sub_page_bytes: g.page_bytes,
        oob_bytes: g.oob_bytes,
        // Without on-die ECC, the chip leaves all OOB bytes except the bad block marker to the host, which needs some
        // for its code.
        oob_free_bytes: if spec.ecc.on_die {
            spec.oob.layout(spec.geometry.oob_bytes).map_or(0, |l| l.free_bytes())
        } else {
            g.oob_bytes - 2 - code_bytes(g.page_bytes, spec.ecc.strength, spec.ecc.step_bytes)
        },
        ecc_strength: spec.ecc.strength,
        ecc_step_bytes: spec.ecc.step_bytes,
        bitflip_threshold: (spec.ecc.strength * 3).div_ceil(4),
        pairing: Pairing::NONE,
    }
}

fn smallest_erase(spec: &SpiNorSpec) -> u32 {
    spec.erase.values().map(|kind| kind.bytes).min().unwrap()
}

fn nor(size_bytes: u64, erase_bytes: u32, buffer_bytes: u32) -> Geometry {
    Geometry {
        kind: FlashKind::Nor,
        size_bytes,
        partition_of: None,
        erase_bytes,
        write_bytes: 1,
        buffer_bytes,
        sub_page_bytes: 1,
        oob_bytes: 0,
        oob_free_bytes: 0,
        ecc_strength: 0,
        ecc_step_bytes: 0,
        bitflip_threshold: 0,
        pairing: Pairing::NONE,
    }
}

/// Bytes of a software ECC code per page: Hamming for one bit (3 per step), otherwise BCH over GF(2^13), or GF(2^14)
/// for 1 KiB steps.
fn code_bytes(page_bytes: u32, strength: u32, step_bytes: u32) -> u32 {
    let field = if step_bytes > 512 { 14 } else { 13 };
    let step = if strength == 1 { 3 } else { (field * strength).div_ceil(8) };
    page_bytes / step_bytes * step
}

fn raw_nand(spec: &RawNandSpec, size_bytes: u64) -> Geometry {
    let g = &spec.geometry;
    let slc = g.bits_per_cell == 1;
    let code =
        if spec.ecc.on_die { 0 } else { code_bytes(g.page_bytes, spec.ecc.strength, spec.ecc.step_bytes) };
    Geometry {
        kind: if slc { FlashKind::SlcNand } else { FlashKind::MlcNand },
        size_bytes,
        partition_of: None,
        erase_bytes: g.page_bytes * g.pages_per_block,
        write_bytes: g.page_bytes,
        buffer_bytes: g.page_bytes,
        sub_page_bytes: g.sub_page_bytes(spec.nop, spec.ecc.step_bytes, true),
        oob_bytes: g.oob_bytes,
        // Small pages keep the eight bytes around the marker and large pages two, besides the code.
        oob_free_bytes: if g.page_bytes == 512 { 8 } else { g.oob_bytes - 2 - code },
        ecc_strength: spec.ecc.strength,
        ecc_step_bytes: spec.ecc.step_bytes,
        bitflip_threshold: (spec.ecc.strength * 3).div_ceil(4),
        pairing: spec.pairing(g.pages_per_block),
    }
}

/// Builds a part with an ECC engine that it supports, and further overrides.
fn rig(library: &Library, name: &str, more: Vec<String>) -> Rig {
    let on_die: bool = plain(library, name).extract_or_default("chip.ecc.on_die").unwrap();
    let (engine, cpu) = (if on_die { "on-die" } else { "software" }, "host.instruction_ps=500".to_owned());
    let what = format!("{name} {}", more.join(" "));
    let config = config(library, name, "", &[vec![format!("ecc.engine={engine:?}"), cpu], more].concat());
    wire(library, &config, RigOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// Writes a page, reads it, erases its block, and reads it again.
fn round_trip(rig: &mut Rig, block: u64, what: &str) {
    let geometry = rig.device.geometry().clone();
    let at = block * u64::from(geometry.erase_bytes);
    let page: Vec<u8> = (0..geometry.buffer_bytes).map(|i| (i * 7 + i / 256) as u8).collect();
    let mut got = vec![0; page.len()];
    let now = rig.now();
    let now =
        rig.device.erase(now, at, geometry.erase_bytes.into()).unwrap_or_else(|e| panic!("{what}: {e}")).at;
    let now = rig.device.write(now, at, &page).unwrap_or_else(|e| panic!("{what}: {e}")).at;
    let now = rig.device.read(now, at, &mut got).unwrap_or_else(|e| panic!("{what}: {e}")).at;
    assert!(got == page, "{what}: block {block} reads other data than was written");
    let now =
        rig.device.erase(now, at, geometry.erase_bytes.into()).unwrap_or_else(|e| panic!("{what}: {e}")).at;
    rig.device.read(now, at, &mut got).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(got.iter().all(|&byte| byte == 0xFF), "{what}: block {block} is not blank after its erase");
}

#[test]
fn every_part_is_a_possible_chip() {
    let library = Library::built_in();
    for name in names(&library) {
        assert_eq!(name, plain(&library, &name).part().name.to_lowercase(), "file and chip differ in name");
        expected(&plain(&library, &name));
        let profiles = library.load(Kind::Part, &name).unwrap().profiles;
        for profile in profiles.as_table().into_iter().flat_map(|table| table.keys()) {
            expected(&config(&library, &name, profile, &[]));
        }
    }
}

#[test]
fn every_value_has_a_source_and_every_source_a_value() {
    let library = Library::built_in();
    for name in names(&library) {
        let loaded = library.load(Kind::Part, &name).unwrap();
        let part: Part = loaded.head.extract("").unwrap_or_else(|e| panic!("{}", e.one_line()));
        let mut leaves = loaded.table.leaves("chip");
        if loaded.profiles.as_table().is_some_and(|table| !table.is_empty()) {
            leaves.extend(loaded.profiles.leaves("profile"));
        }
        for leaf in &leaves {
            assert!(part.sources.iter().any(|source| source.covers(leaf)), "{name}: {leaf} has no source");
        }
        for source in &part.sources {
            assert!(!source.from.is_empty(), "{name}: a source without a name");
            for of in &source.of {
                let below = |leaf: &String| leaf == of || leaf.starts_with(&format!("{of}."));
                assert!(leaves.iter().any(below), "{name}: a source for {of}, which is not in the file");
            }
        }
    }
}

/// Counts the values of all files of a kind: a row of the table in docs/fidelity.md.
fn counted(library: &Library, kind: Kind, table: &str, what: &str) -> String {
    let (mut files, mut values, mut sure, mut fitted) = (0, 0, 0, 0);
    for name in library.names(kind) {
        let loaded = library.load(kind, name).unwrap();
        let sources: Vec<Provenance> = loaded.head.extract_or_default("source").unwrap();
        files += 1;
        for leaf in loaded.table.leaves(table) {
            let source = Provenance::closest_of(&sources, &leaf);
            let source = source.unwrap_or_else(|| panic!("{name}: {leaf} has no source"));
            values += 1;
            sure += u32::from(source.confidence >= 0.9);
            fitted += u32::from(!source.fitted_to.is_empty() || source.from.starts_with("fitted"));
        }
    }
    format!("| {what} | {files} | {values} | {sure} | {fitted} | 0 |\n")
}

/// `UPDATE_GOLDEN=1` rewrites the table.
#[test]
fn every_parameter_is_counted_and_has_a_source() {
    let library = Library::built_in();
    let kinds = [
        (Kind::Part, "chip", "chips"),
        (Kind::Controller, "controller", "controllers"),
        (Kind::Host, "host", "hosts"),
        (Kind::Card, "card", "cards"),
        (Kind::CardHost, "host", "hosts of cards"),
    ];
    let rows: String =
        kinds.into_iter().map(|(kind, table, what)| counted(&library, kind, table, what)).collect();
    for name in library.names(Kind::Setup) {
        assert!(library.setup(name).unwrap().tree().child("source").is_some(), "{name} has no source");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fidelity.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- parameters -->\n").unwrap();
    let (head, rest) = rest.split_at(rest.match_indices('\n').nth(1).unwrap().0 + 1);
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let new = format!("{before}<!-- parameters -->\n{head}{rows}<!-- end -->{after}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &new).unwrap();
    } else {
        assert!(page == new, "docs/fidelity.md is not current: UPDATE_GOLDEN=1 rewrites this table:\n{rows}");
    }
}

/// Parts that the setups, the tour and the tables in papers/ use. For each, the minimum share of its values, in
/// percent, that come from a data sheet, a kernel table or a maker's driver (confidence of at least 90 %).
const SHARES: [(&str, usize); 22] = [
    ("29f16g08canc1", 2),
    ("h27ucg8t2etr-bc", 30),
    ("hy27us08121a", 35),
    ("k9f2g08u0c", 30),
    ("mt29f2g08aad", 5),
    ("mt29f2g08abaea", 75),
    ("mt29f32g08abcdb", 80),
    ("mt29f32g08qaa", 25),
    ("mt29f4g08aac", 45),
    ("mt29f8g08maawc", 40),
    ("mx25uw12845g", 60),
    ("mx25uw51245g", 60),
    ("mx30lf2g18ac", 55),
    ("mx35lf2ge4ad", 60),
    ("n25q128a", 100),
    ("nand08gw3b2c", 5),
    ("nand128w3a2bn", 40),
    ("tc58nvg1s3h", 70),
    ("w25n02jw", 50),
    ("w25q128jv", 95),
    ("w25q64jv", 95),
    ("w35n01jw", 50),
];

/// These values have sources, which a change of a part must not lose.
#[test]
fn the_values_of_parts_in_use_come_from_sources() {
    let library = Library::built_in();
    for (name, share) in SHARES {
        let loaded = library.load(Kind::Part, name).unwrap();
        let part: Part = loaded.head.extract("").unwrap_or_else(|e| panic!("{}", e.one_line()));
        let leaves = loaded.table.leaves("chip");
        let sure = leaves.iter().filter(|leaf| part.source_of(leaf).is_some_and(|s| s.confidence >= 0.9));
        let sure = sure.count() * 100 / leaves.len();
        assert!(
            sure >= share,
            "{name}: {sure} % of the values have a confidence of 90 % or more, not {share} %"
        );
    }
}

#[test]
fn every_part_is_found_by_its_driver() {
    let library = Library::built_in();
    for name in names(&library) {
        let expected = expected(&plain(&library, &name));
        let mut rig = rig(&library, &name, expected.fastest);
        let geometry = rig.device.geometry().clone();
        assert_eq!(geometry, expected.geometry, "{name}");
        for block in [0, u64::from(geometry.blocks()) - 1] {
            round_trip(&mut rig, block, &name);
        }
    }
}

#[test]
fn every_mode_of_every_part_works() {
    let library = Library::built_in();
    for name in names(&library) {
        for (set, mode) in expected(&plain(&library, &name)).modes {
            let what = format!("{name} with {set}");
            let mut rig = rig(&library, &name, vec![set]);
            assert_eq!(rig.device.link().mode, mode, "{what}");
            round_trip(&mut rig, 1, &what);
        }
    }
}

#[test]
fn ids_are_unique_or_shared_for_a_reason() {
    let library = Library::built_in();
    let ids: Vec<(String, String, Vec<u8>)> = names(&library)
        .into_iter()
        .filter_map(|name| {
            let config = plain(&library, &name);
            // The form of READ ID is part of a serial NAND's id. Parallel NOR is identified by its CFI tables.
            let way: String = config.extract_or_default("chip.id_read").unwrap();
            let id = config.extract::<Vec<u8>>("chip.id").ok()?;
            Some((name, format!("{} {way}", config.part().kind), id))
        })
        .collect();
    let mut shared = Vec::new();
    for (name, kind, id) in &ids {
        for (other, _, _) in ids.iter().filter(|(n, k, i)| n != name && k == kind && i.starts_with(id)) {
            let known = SHARED_IDS.iter().any(|(short, long, _)| short == name && long == other);
            assert!(known, "the id of {other} begins like that of {name}");
            shared.push(name.as_str());
        }
    }
    for (short, _, _) in SHARED_IDS {
        assert!(shared.contains(&short), "{short} shares its id with no part");
    }
}
