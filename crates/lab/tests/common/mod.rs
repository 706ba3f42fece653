//! Rigs of every kind, for the tests of complete rigs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

use floatgate_config::{Config, Kind, Library, Override, Source};
use floatgate_sim::rig::{Rig, RigOptions, wire};
use std::sync::OnceLock;

/// A host in which every cost is visible.
const HOST: &str = "host = { call_us = 5, page_us = 2, copy_ns_per_kb = 300, wakeup_us = 20 }";

/// Controllers in which every cost is visible.
const SPI: &str = r#"
    controller = { reference_hz = "200 MHz", divider = "any", max_hz = "100 MHz", lanes = 8, dtr = true, exec = { setup_us = 3, finish_us = 4 }, rx = { ns_per_byte = 40, overlap = true }, tx = { ns_per_byte = 5 } }
    bus = { clock_hz = "50 MHz", lanes = 8, reset_pin = true }
"#;
const RAW: &str = r#"
    controller = { sdr_modes = [0, 1, 2, 3, 4, 5], nvddr_modes = [0, 1, 2, 3, 4, 5], op_cost = { setup_us = 4, finish_us = 6 }, step_us = 0.5, ready_us = 1 }
"#;
const PARALLEL: &str = r#"
    controller = { clock_hz = "100 MHz", wait_states = 1, access_ns = 30, page_mode = true }
    bus = { bits = 16 }
"#;

/// Name, board, chip and further keys of setups that the library does not have.
const MORE: [(&str, &str, &str); 18] = [
    ("quad SPI NAND", SPI, "chip = 'w25n01gv'"),
    ("SPI NAND with two dies", SPI, "chip = 'w25m02gv'"),
    ("SPI NAND with two planes", SPI, "chip = 'mx35lf2ge4ab'"),
    ("SPI NAND, Macronix's continuous reads", SPI, "chip = 'mx35lf2ge4ad'\ndriver.continuous = true"),
    ("SPI NAND, Winbond's continuous reads", SPI, "chip = 'w35n01jw'\ndriver.continuous = true"),
    (
        "SPI NAND, external ECC",
        SPI,
        "chip = 'mx35lf2g14ac'\necc = { engine = 'external', setup_us = 2, encode_ns_per_kb = 900, decode_ns_per_kb = 1100 }",
    ),
    ("quad SPI NOR", SPI, "chip = 'w25q128jv'"),
    ("SPI NOR, information rows", SPI, "chip = 'is25lp256'"),
    ("SPI NOR above 16 MiB", SPI, "chip = 'mx66l51235f'"),
    ("SPI NOR with flag status", SPI, "chip = 'mt25qu512abb'"),
    ("octal SPI NOR with banks", SPI, "chip = 'mx25uw51245g'"),
    ("raw NAND", RAW, "chip = 'mt29f4g08abada'\necc = { engine = 'pipelined', setup_us = 3 }"),
    (
        "raw NAND, everything at once",
        RAW,
        "chip = 'mt29f4g08abada'\ndriver = { cached_programs = true, multi_plane = true }\necc = { engine = 'pipelined', setup_us = 3 }",
    ),
    (
        "raw NAND without R/B#",
        RAW,
        "chip = 'k9f1g08u0d'\nbus.no_ready_pin = true\necc = { engine = 'software', encode_ns_per_kb = 15000, decode_ns_per_kb = 20000 }",
    ),
    (
        "raw NAND, NV-DDR",
        RAW,
        "chip = 'mt29f32g08abcdb'\necc = { engine = 'software', decode_ns_per_kb = 20000 }",
    ),
    (
        "raw NAND with OTP",
        RAW,
        "chip = 'mx30lf2g18ac'\necc = { engine = 'software', encode_ns_per_kb = 15000, decode_ns_per_kb = 20000 }",
    ),
    ("parallel NOR, CFI 2", PARALLEL, "chip = 's29gl128p'"),
    ("parallel NOR, CFI 1", PARALLEL, "chip = '28f128j3a'"),
];

pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(Library::built_in)
}

/// A setup of the library, or one of [`MORE`], with overrides.
pub(crate) fn config(name: &str, sets: &[&str]) -> Config {
    let setup = match MORE.iter().find(|(more, ..)| *more == name) {
        Some((_, board, chip)) => {
            library().setup_from(&Source::text(name, &format!("{chip}\n{HOST}\n{board}")))
        }
        None => library().setup(name),
    };
    let sets = Override::parse_all(sets).unwrap();
    let resolved = setup.and_then(|setup| library().resolve(&setup, &sets));
    resolved.unwrap_or_else(|e| panic!("{name} {sets:?}: {}", e.one_line()))
}

/// All setups of the library, and [`MORE`].
pub(crate) fn names() -> Vec<String> {
    let more = MORE.iter().map(|(name, ..)| (*name).to_owned());
    library().names(Kind::Setup).map(str::to_owned).chain(more).collect()
}

pub(crate) fn rig_of(config: &Config, options: RigOptions) -> Rig {
    wire(library(), config, options).unwrap_or_else(|e| panic!("{}: {e}", config.part().name))
}

pub(crate) fn rig(name: &str) -> Rig {
    rig_of(&config(name, &[]), RigOptions::default())
}

pub(crate) const TIMING_ONLY: RigOptions =
    RigOptions { seed: 0, stores: false, bad_blocks: 0, marks_on_demand: false };

/// Bytes without a repeating pattern.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
