//! Parts of the catalogue, for tests.

use super::spec::SpiNorSpec;

pub(super) const W25Q128JV: &str = include_str!("../../../config/data/parts/w25q128jv.toml");
pub(super) const N25Q128A: &str = include_str!("../../../config/data/parts/n25q128a.toml");
pub(super) const MX25UW12845G: &str = include_str!("../../../config/data/parts/mx25uw12845g.toml");
pub(super) const MX25UW51245G: &str = include_str!("../../../config/data/parts/mx25uw51245g.toml");

pub(super) const IS25LP256: &str = include_str!("../../../config/data/parts/is25lp256.toml");
pub(super) const S25FL128S: &str = include_str!("../../../config/data/parts/s25fl128s.toml");

pub(super) const ALL: [&str; 4] = [W25Q128JV, N25Q128A, MX25UW12845G, MX25UW51245G];

fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Specification from the `[chip]` table of a part file.
pub(super) fn spec(text: &str) -> SpiNorSpec {
    profile(text, None)
}

/// Specification from the `[chip]` table with the overrides of a profile.
pub(super) fn profile(text: &str, name: Option<&str>) -> SpiNorSpec {
    let mut file: toml::Table = text.parse().unwrap();
    let mut chip = file.remove("chip").unwrap().as_table().unwrap().clone();
    if let Some(name) = name {
        merge(&mut chip, file["profile"][name]["chip"].as_table().unwrap().clone());
    }
    chip.try_into().unwrap()
}

/// An invented part that supports every mode, with Micron's registers.
pub(super) const EVERY_MODE: &str = r#"
[chip]
id = [0x2C, 0x5B, 0x1A, 0x10]
max_sdr_hz = "166 MHz"
max_dtr_hz = "200 MHz"
addressing = "wren-en4b"
registers = "micron"
reset_pin = true
soft_reset = true
reads = [
    { mode = "1-1-1", opcode = 0x03, max_hz = "50 MHz" },
    { mode = "1-1-1", opcode = 0x0B, dummy = 8 },
    { mode = "1-1-2", opcode = 0x3B, dummy = 8 },
    { mode = "1-2-2", opcode = 0xBB, dummy = 4 },
    { mode = "1-1-4", opcode = 0x6B, dummy = 8 },
    { mode = "1-4-4", opcode = 0xEB, dummy = 10 },
    { mode = "1-1-8", opcode = 0x8B, dummy = 8 },
    { mode = "1-8-8", opcode = 0xCB, dummy = 16 },
    { mode = "1S-1D-1D", opcode = 0x0D, dummy = 6, max_hz = "80 MHz" },
    { mode = "1S-2D-2D", opcode = 0xBD, dummy = 6, max_hz = "80 MHz" },
    { mode = "1S-4D-4D", opcode = 0xED, dummy = 8, max_hz = "80 MHz" },
]
reads_4b = [
    { mode = "1-1-1", opcode = 0x13, max_hz = "50 MHz" },
    { mode = "1-1-1", opcode = 0x0C, dummy = 8 },
    { mode = "1-1-2", opcode = 0x3C, dummy = 8 },
    { mode = "1-2-2", opcode = 0xBC, dummy = 4 },
    { mode = "1-1-4", opcode = 0x6C, dummy = 8 },
    { mode = "1-4-4", opcode = 0xEC, dummy = 10 },
    { mode = "1-1-8", opcode = 0x7C, dummy = 8 },
    { mode = "1-8-8", opcode = 0xCC, dummy = 16 },
    { mode = "1S-1D-1D", opcode = 0x0E, dummy = 6, max_hz = "80 MHz" },
    { mode = "1S-2D-2D", opcode = 0xBE, dummy = 6, max_hz = "80 MHz" },
    { mode = "1S-4D-4D", opcode = 0xEE, dummy = 8, max_hz = "80 MHz" },
    { mode = "8D-8D-8D", opcode = 0xFD, dummy = 16, max_hz = "166 MHz" },
    { mode = "8D-8D-8D", opcode = 0xFD, dummy = 20 },
]
programs = [
    { mode = "1-1-1", opcode = 0x02 },
    { mode = "1-1-4", opcode = 0x32 },
    { mode = "1-4-4", opcode = 0x38 },
    { mode = "1-1-8", opcode = 0x82 },
    { mode = "1-8-8", opcode = 0xC2 },
]
programs_4b = [
    { mode = "1-1-1", opcode = 0x12 },
    { mode = "1-1-4", opcode = 0x34 },
    { mode = "1-4-4", opcode = 0x3E },
    { mode = "1-1-8", opcode = 0x84 },
    { mode = "1-8-8", opcode = 0x8E },
    { mode = "8D-8D-8D", opcode = 0x12 },
]
geometry = { size_bytes = "64 MiB" }
timing = { t_pp_us = { typ = 120, max = 1800 }, t_ce_us = { typ = "150 s", max = "460 s" }, t_w_us = { typ = 1300, max = 8000 } }
erase.small = { bytes = "4 KiB", opcode = 0x20, opcode_4b = 0x21, t_us = { typ = "50 ms", max = "400 ms" } }
erase.half = { bytes = "32 KiB", opcode = 0x52, opcode_4b = 0x5C, t_us = { typ = "100 ms", max = "1 s" } }
erase.large = { bytes = "128 KiB", opcode = 0xD8, opcode_4b = 0xDC, t_us = { typ = "200 ms", max = "2 s" } }
octal = { switch = "micron-vcr", ext = "repeat", status_addr_bytes = 0, status_dummy = 8 }
dummy = { register = 1, default = 16, values = [[16, 16], [20, 20]], modes = ["8D-8D-8D"] }
otp = { kind = "control-byte", bytes = 64 }
suspend = { suspend = 0x75, resume = 0x7A, latency_us = 30 }
"#;

/// A part like S28HS512T, Infineon's Semper family.
pub(super) const SEMPER: &str = r#"
[chip]
id = [0x34, 0x5B, 0x1A]
max_sdr_hz = "133 MHz"
max_dtr_hz = "200 MHz"
addressing = "en4b"
registers = "spansion"
reset_pin = true
soft_reset = true
reads = [
    { mode = "1-1-1", opcode = 0x03, max_hz = "50 MHz" },
    { mode = "1-1-1", opcode = 0x0B, dummy = 8 },
]
reads_4b = [
    { mode = "1-1-1", opcode = 0x13, max_hz = "50 MHz" },
    { mode = "1-1-1", opcode = 0x0C, dummy = 8 },
    { mode = "8D-8D-8D", opcode = 0xEE, dummy = 24 },
]
programs = [{ mode = "1-1-1", opcode = 0x02 }]
programs_4b = [{ mode = "1-1-1", opcode = 0x12 }, { mode = "8D-8D-8D", opcode = 0x12 }]
geometry = { size_bytes = "64 MiB" }
timing = { t_pp_us = { typ = 430, max = 2175 }, t_ce_us = { typ = "201 s", max = "696 s" }, t_w_us = { typ = 1300, max = 8000 } }
erase.block = { bytes = "256 KiB", opcode = 0xD8, opcode_4b = 0xDC, t_us = { typ = "773 ms", max = "2677 ms" } }
octal = { switch = "infineon-cfr", ext = "repeat", status_addr_bytes = 4, status_dummy = 4, id_dummy = 3 }
dummy = { register = 0x800003, default = 20, values = [[20, 8], [24, 11]], modes = ["8D-8D-8D"] }
"#;
