//! SPI NOR: converts a line of the kernel's table to a part file.
//!
//! If the line contains only the id, Linux reads the chip's SFDP tables, which are not part of the kernel. Commands and
//! erase sizes of such a part are those of its family, and the SFDP area of the part is generated from them.

use super::family::{Family, Members, TypMax};
use super::times::Known;
use super::{FROM_FAMILY, FROM_KERNEL, Gap, KernelChip, KernelTable, bits, hex_list, source};
use floatgate_device::spi::{Mode, Variant};
use floatgate_device::spi_nor::SpiNorSpec;
use floatgate_device::units::TypMaxUs;
use floatgate_mtd::Nanos;
use serde::Deserialize;
use std::cmp::Reverse;
use std::fmt::Write;

/// A line of the kernel's table (`flash_info`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    maker: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    id: Vec<u8>,
    #[serde(default)]
    size: u64,
    #[serde(default = "block")]
    sector: u32,
    #[serde(default = "page")]
    page: u32,
    #[serde(default = "one")]
    banks: u8,
    #[serde(rename = "address_bytes")]
    _address_bytes: Option<u8>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    without_sfdp: Vec<String>,
    #[serde(default)]
    fixup: Vec<String>,
    #[serde(default)]
    maker_flags: Vec<String>,
    /// OTP area: region size, number of regions, first address, distance of the regions.
    otp: Option<[u32; 4]>,
    /// Corrections (fixups) by the maker's driver.
    fixups: Option<String>,
}

const fn block() -> u32 {
    BLOCK
}

const fn page() -> u32 {
    256
}

const fn one() -> u8 {
    1
}

/// Clock limit of READ 03h, Hz, which the kernel's table does not contain.
const SLOW_HZ: u64 = 50_000_000;
/// Second id byte of Infineon's S28HL, a 3 V chip.
const SEMPER_3V: u8 = 0x5A;
const SECTOR: u32 = 4096;
const HALF_BLOCK: u32 = 32_768;
const BLOCK: u32 = 65_536;
/// Size of the range that three address bytes can reach, B.
const REACH_3B: u64 = 1 << 24;
/// Maximum accepted time of an operation, ns.
const LONGEST_NS: u64 = 1_000_000_000_000;
/// Confidence in values derived from a driver instead of its table.
const FROM_DRIVER: f64 = 0.85;
/// Confidence in values that were written from memory.
const FROM_MEMORY: f64 = 0.6;
/// Confidence in a size derived from the id's last byte.
const FROM_ID: f64 = 0.8;

/// Maker in catalogue notation, with registers and quad enable bit of its chips without SFDP (Linux: `default_init` of
/// each maker).
fn maker(name: &str) -> (&str, &'static str, &'static str) {
    match name {
        "atmel" => ("Atmel", "winbond", "sr2-bit1-by01"),
        "eon" => ("Eon", "winbond", "sr2-bit1-by01"),
        "esmt" => ("ESMT", "winbond", "sr2-bit1-by01"),
        "everspin" => ("Everspin", "plain", "none"),
        "gigadevice" => ("GigaDevice", "winbond", "sr2-bit1-by01"),
        "intel" => ("Intel", "plain", "none"),
        "issi" => ("ISSI", "plain", "sr1-bit6"),
        "macronix" => ("Macronix", "macronix", "sr1-bit6"),
        "micron" | "st" => ("Micron", "micron", "none"),
        "spansion" => ("Infineon", "spansion", "sr2-bit1-by01"),
        "sst" => ("SST", "winbond", "sr2-bit1-by01"),
        "winbond" => ("Winbond", "winbond", "sr2-bit1-by01"),
        "xmc" => ("XMC", "winbond", "sr2-bit1-by01"),
        other => (other, "plain", "none"),
    }
}

/// Name of the maker in the catalogue.
pub(super) fn maker_name(name: &str) -> &str {
    match name {
        // Toshiba's memory business has been named Kioxia since 2019.
        "Toshiba" => "Kioxia",
        "AllianceMemory" => "Alliance Memory",
        other => maker(other).0,
    }
}

impl Facts {
    fn has(&self, flag: &str) -> bool {
        [&self.flags, &self.without_sfdp, &self.fixup, &self.maker_flags]
            .into_iter()
            .flatten()
            .any(|own| own == flag)
    }

    /// True if the kernel reads commands and size from the chip's SFDP tables.
    const fn needs_sfdp(&self) -> bool {
        self.size == 0
    }

    /// Size of the array, bytes, from the table or from the id's last byte.
    fn bytes(&self) -> Option<u64> {
        if self.size != 0 {
            return Some(self.size);
        }
        match *self.id.get(2)? {
            power @ 0x10..=0x1F => Some(1 << power),
            // Ids of Winbond's and Micron's chips of 512 Mbit and more.
            power @ 0x20..=0x22 => Some(1 << (power - 0x20 + 26)),
            power @ 0x32..=0x3F => Some(1 << (power - 0x20)),
            _ => None,
        }
    }

    /// Switch to 8D-8D-8D, if the maker's driver supports it for this chip.
    fn octal(&self) -> Option<Octal> {
        match self.fixups.as_deref() {
            Some("mt35xu512aba_fixups" | "mt35_two_die_fixups") => Some(Octal::Micron),
            Some("s28hx_t_fixups") => Some(Octal::Infineon),
            _ => None,
        }
    }

    /// Reason why no part can be generated; `None` if it can.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        if self.id.len() < 3 {
            Some("it has no JEDEC id")
        } else if self.has("NO_ERASE") {
            Some("it is no flash: it needs no erase")
        } else if self.bytes().is_none() {
            Some("the table has no size, and its id stands for none")
        } else {
            None
        }
    }

    pub(super) fn gaps(&self) -> Vec<Gap> {
        let gaps = [
            (self.needs_sfdp() && self.octal().is_none(), Gap::Sfdp),
            (self.has("SST_WRITE"), Gap::WordProgram),
            (self.has("SWP_IS_VOLATILE"), Gap::VolatileLocks),
            (self.has("RWW"), Gap::ReadWhileWrite),
        ];
        gaps.into_iter().filter(|(has, _)| *has).map(|(_, gap)| gap).collect()
    }
}

/// Makers whose driver switches the chip to 8D-8D-8D.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Octal {
    /// Micron's MT35X, by `micron_st_nor_octal_dtr_en`.
    Micron,
    /// Infineon's S28H, by `cypress_nor_octal_dtr_en`.
    Infineon,
}

impl Octal {
    /// Size of a large eraseblock, bytes.
    const fn sector(self) -> u32 {
        match self {
            Self::Micron => 2 * BLOCK,
            Self::Infineon => 4 * BLOCK,
        }
    }

    /// Tables of the part file: mode switch, register reads, and dummy cycles by register value.
    const fn tables(self) -> &'static str {
        match self {
            Self::Micron => {
                "\n[chip.octal]\nswitch = \"micron-vcr\"\next = \"repeat\"\nstatus_addr_bytes = 0\nstatus_dummy = 8\n\
                 \n[chip.dummy]\nregister = 1\ndefault = 16\nvalues = [[16, 16], [20, 20]]\nmodes = [\"8D-8D-8D\"]\n"
            }
            Self::Infineon => {
                "\n[chip.octal]\nswitch = \"infineon-cfr\"\next = \"repeat\"\nstatus_addr_bytes = 4\nstatus_dummy = 4\n\
                 id_dummy = 3\n\n[chip.dummy]\nregister = 0x800003\ndefault = 20\nvalues = [[20, 8], [24, 11]]\n\
                 modes = [\"8D-8D-8D\"]\n"
            }
        }
    }
}

/// Commands of a generated part.
struct Commands {
    reads: Vec<Variant>,
    programs: Vec<Variant>,
    reads_4b: Vec<Variant>,
    programs_4b: Vec<Variant>,
    /// Erase commands: size in bytes, opcode, opcode with four address bytes.
    erases: Vec<(u32, u8, u8)>,
}

impl Commands {
    /// Commands that Linux assumes for a chip without SFDP: `spi_nor_no_sfdp_init_params`.
    fn without_sfdp(facts: &Facts, slow_hz: u64) -> Self {
        let single = Variant { mode: mode("1S-1S-1S"), opcode: 0x03, dummy: 0, max_hz: slow_hz };
        let command = |name: &str, opcode, dummy| Variant { mode: mode(name), opcode, dummy, max_hz: 0 };
        let mut reads = vec![single, command("1S-1S-1S", 0x0B, 8)];
        let more = [
            ("DUAL_READ", "1S-1S-2S", 0x3B),
            ("QUAD_READ", "1S-1S-4S", 0x6B),
            ("OCTAL_READ", "1S-1S-8S", 0x8B),
        ];
        reads.extend(
            more.into_iter()
                .filter(|(flag, ..)| facts.has(flag))
                .map(|(_, mode, opcode)| command(mode, opcode, 8)),
        );
        let mut programs = vec![command("1S-1S-1S", 0x02, 0)];
        if facts.has("QUAD_PP") {
            programs.push(command("1S-1S-4S", 0x32, 0));
        }
        let mut erases = vec![(facts.sector, 0xD8, 0xDC)];
        if facts.has("SECT_4K") && facts.sector != SECTOR {
            erases.push((SECTOR, 0x20, 0x21));
        }
        let mut all = Self { reads, programs, reads_4b: Vec::new(), programs_4b: Vec::new(), erases };
        if facts.has("4B_OPCODES") {
            all.reads_4b = all.reads.iter().map(with_four_bytes).collect();
            all.programs_4b = all.programs.iter().map(with_four_bytes).collect();
        }
        all
    }

    /// Commands in 8D-8D-8D. If the table has no commands for a chip, those of the maker's driver and of the tables of
    /// Linux 6.1 are used.
    fn octal(octal: Octal, facts: &Facts, slow_hz: u64) -> Self {
        let plain = Facts {
            sector: octal.sector(),
            fixup: vec!["4B_OPCODES".to_owned()],
            without_sfdp: match octal {
                Octal::Micron => vec!["SECT_4K".to_owned(), "OCTAL_READ".to_owned()],
                // The small sectors at one end of the chip are omitted: all erases have the same size here.
                Octal::Infineon => Vec::new(),
            },
            ..facts.clone()
        };
        let mut all = Self::without_sfdp(if facts.needs_sfdp() { &plain } else { facts }, slow_hz);
        if octal == Octal::Micron && facts.needs_sfdp() {
            all.erases.push((HALF_BLOCK, 0x52, 0x5C));
        }
        let (opcode, dummy) = if octal == Octal::Micron { (0xFD, 20) } else { (0xEE, 24) };
        let command = |opcode, dummy| Variant { mode: Mode::OCTAL_DTR, opcode, dummy, max_hz: 0 };
        all.reads_4b.push(command(opcode, dummy));
        all.programs_4b.push(command(0x12, 0));
        all
    }

    /// Commands of a similar part, without modes that have a state.
    fn of_family(relative: &SpiNorSpec) -> Self {
        let stateless = |all: &[Variant]| all.iter().filter(|v| !v.mode.is_stateful()).copied().collect();
        Self {
            reads: stateless(&relative.reads),
            programs: stateless(&relative.programs),
            reads_4b: stateless(&relative.reads_4b),
            programs_4b: stateless(&relative.programs_4b),
            erases: relative.erase.values().map(|e| (e.bytes, e.opcode, e.opcode_4b.unwrap_or(0))).collect(),
        }
    }
}

impl Commands {
    /// Dotted paths of the typical times of programs and erases.
    fn typical(&self) -> Vec<String> {
        let erases =
            self.erases.iter().map(|(size, ..)| format!("chip.erase.{}.t_us.typ", erase_name(*size)));
        std::iter::once("chip.timing.t_pp_us.typ".to_owned()).chain(erases).collect()
    }
}

/// A mode by its name; single lane (1-1-1) for an unknown name.
fn mode(name: &str) -> Mode {
    name.parse().unwrap_or(Mode::SINGLE)
}

/// The variant of a command with four address bytes (Linux: `spi_nor_convert_opcode`).
fn with_four_bytes(variant: &Variant) -> Variant {
    let opcode = match variant.opcode {
        0x03 => 0x13,
        0x0B => 0x0C,
        0x3B => 0x3C,
        0x6B => 0x6C,
        0x8B => 0x7C,
        0x02 => 0x12,
        0x32 => 0x34,
        other => other,
    };
    Variant { opcode, ..*variant }
}

/// Text of the generated part file.
pub(super) fn part(
    chip: &KernelChip,
    table: &KernelTable,
    members: &Members<SpiNorSpec>,
    known: &Known,
) -> Option<String> {
    let facts: Facts = chip.facts().ok()?;
    if facts.refusal().is_some() {
        return None;
    }
    let bytes = facts.bytes()?;
    let (maker, registers, quad_enable) = maker(&facts.maker);
    let family = members.of(maker, |spec| {
        let distance = spec.geometry.size_bytes.ilog2().abs_diff(bytes.ilog2());
        (spec.id.get(1) == facts.id.get(1), spec.octal.is_none(), Reverse(distance))
    });
    let relative = family.first()?;
    let is_own = family.is_of(maker);
    let octal = facts.octal();
    let commands = match octal {
        Some(octal) => Commands::octal(octal, &facts, SLOW_HZ),
        None if facts.needs_sfdp() => Commands::of_family(relative),
        None => Commands::without_sfdp(&facts, SLOW_HZ),
    };
    let (registers, quad_enable) = match (facts.needs_sfdp() && !is_own, registers) {
        (true, _) => ("winbond", "sr2-bit1"),
        (false, "winbond") if facts.needs_sfdp() => ("winbond", "sr2-bit1"),
        _ => (registers, quad_enable),
    };
    let name = if facts.name.is_empty() { chip.key.to_owned() } else { facts.name.to_uppercase() };
    let mut text = format!(
        "kind = \"spi-nor\"\nname = {}\nmaker = \"{maker}\"\ntitle = \"{} SPI NOR\"\n{}\n[chip]\n",
        toml::Value::String(name),
        bits(bytes),
        known.times(&commands.typical())
    );
    let out = &mut text;
    let sdr_hz = known.hz("chip.max_sdr_hz", family.median(|spec| spec.max_sdr_hz));
    let _ = writeln!(out, "id = {}\nmax_sdr_hz = {sdr_hz}", hex_list(&facts.id));
    let dtr_hz = match octal {
        Some(Octal::Infineon) if facts.id.get(1) == Some(&SEMPER_3V) => Some(166_000_000),
        Some(_) => Some(200_000_000),
        None if commands.reads.iter().any(|read| read.mode.addr.dtr || read.mode.data.dtr) => {
            Some(family.median(|spec| spec.max_dtr_hz))
        }
        None => None,
    };
    if let Some(hz) = dtr_hz {
        let _ = writeln!(out, "max_dtr_hz = {}", known.hz("chip.max_dtr_hz", hz));
    }
    let lanes = commands.reads.iter().map(|read| read.mode.data.lanes).max().unwrap_or(1);
    let _ = writeln!(out, "registers = \"{registers}\"");
    if lanes == 4 {
        let _ = writeln!(out, "quad_enable = \"{quad_enable}\"");
    }
    if bytes > REACH_3B {
        let addressing = if registers == "micron" { "wren-en4b" } else { "en4b" };
        let _ = writeln!(out, "addressing = \"{addressing}\"");
    }
    let _ =
        writeln!(out, "sfdp = {}\nreset_pin = true\nsoft_reset = {}", facts.needs_sfdp(), facts.needs_sfdp());
    let _ = writeln!(out, "endurance_cycles = {}", family.median(|spec| spec.endurance_cycles));
    let _ = writeln!(out, "retention_years = {}", family.median(|spec| spec.retention_years));
    let lists = [
        ("reads", &commands.reads),
        ("reads_4b", &commands.reads_4b),
        ("programs", &commands.programs),
        ("programs_4b", &commands.programs_4b),
    ];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let _ = writeln!(out, "{key} = [\n{}]", list.iter().map(variant).collect::<String>());
    }
    let _ = write!(
        out,
        "\n[chip.geometry]\nsize_bytes = {bytes}\npage_bytes = {}\nbanks = {}\n",
        facts.page, facts.banks
    );
    if let Some(octal) = octal {
        out.push_str(octal.tables());
    }
    times(out, &commands, members, &family, bytes, known);
    protection(out, &facts, bytes);
    if let Some([region_bytes, regions, base, stride]) = facts.otp.filter(|_| registers == "winbond") {
        let _ = write!(
            out,
            "\n[chip.otp]\nkind = \"security-registers\"\nregions = {regions}\nregion_bytes = {region_bytes}\nbase = {base}\n\
             stride = {stride}\n"
        );
    }
    sources(out, table, &facts, &family.described());
    known.sources(out);
    Some(text)
}

fn variant(v: &Variant) -> String {
    let limit = if v.max_hz == 0 { String::new() } else { format!(", max_hz = {}", v.max_hz) };
    format!("    {{ mode = \"{}\", opcode = 0x{:02X}, dummy = {}{limit} }},\n", v.mode, v.opcode, v.dummy)
}

/// Appends times of programs and erases. The chip erase time is scaled with the size.
fn times(
    out: &mut String,
    commands: &Commands,
    members: &Members<SpiNorSpec>,
    family: &Family<'_, SpiNorSpec>,
    bytes: u64,
    known: &Known,
) {
    let scaled = |ns: u64, size: u64| (ns / size.max(1) * bytes).min(LONGEST_NS);
    let ce = |spec: &SpiNorSpec| {
        let (t, size) = (spec.timing.t_ce_us, spec.geometry.size_bytes >> 10);
        let of = |time: Nanos| Nanos::from_ns(scaled(time.as_ns() / 1024, size));
        TypMaxUs { typ: of(t.typ), max: of(t.max) }
    };
    let _ = write!(
        out,
        "\n[chip.timing]\nt_pp_us = {}\nt_ce_us = {}\nt_w_us = {}\nt_rst_us = {}\n",
        known.typ_max("chip.timing.t_pp_us", family.typ_max(|spec| spec.timing.t_pp_us)),
        known.typ_max("chip.timing.t_ce_us", family.typ_max(ce)),
        known.typ_max("chip.timing.t_w_us", family.typ_max(|spec| spec.timing.t_w_us)),
        known.us("chip.timing.t_rst_us", family.us(|spec| spec.timing.t_rst_us)),
    );
    for (size, opcode, opcode_4b) in &commands.erases {
        let four = if *opcode_4b == 0 { String::new() } else { format!("opcode_4b = 0x{opcode_4b:02X}\n") };
        let _ = write!(
            out,
            "\n[chip.erase.{}]\nbytes = {size}\nopcode = 0x{opcode:02X}\n{four}t_us = {}\n",
            erase_name(*size),
            known.typ_max(
                &format!("chip.erase.{}.t_us", erase_name(*size)),
                erase_time(members, family, *size)
            )
        );
    }
}

fn erase_name(bytes: u32) -> String {
    match bytes {
        SECTOR => "sector".to_owned(),
        HALF_BLOCK => "half-block".to_owned(),
        BLOCK => "block".to_owned(),
        other => format!("kib-{}", other >> 10),
    }
}

/// Time of an erase of `bytes`: the family's time for this size, otherwise the median over all chips that have this size,
/// otherwise the family's time for the nearest size.
fn erase_time(members: &Members<SpiNorSpec>, family: &Family<'_, SpiNorSpec>, bytes: u32) -> TypMax {
    let has = |spec: &SpiNorSpec| spec.erase.values().any(|erase| erase.bytes == bytes);
    let nearest = |spec: &SpiNorSpec| {
        let types = spec.erase.values();
        let best = types.min_by_key(|erase| erase.bytes.ilog2().abs_diff(bytes.ilog2()));
        best.map_or(TypMaxUs { typ: Nanos::ZERO, max: Nanos::ZERO }, |erase| erase.t_us)
    };
    let (own, all) = (family.having(has), members.all().having(has));
    [own, all]
        .into_iter()
        .find(|family| !family.is_empty())
        .map_or_else(|| family.typ_max(nearest), |f| f.typ_max(nearest))
}

/// Appends block protection with the ranges that the kernel locks. The smallest range is a sector, or larger if the bits
/// do not suffice.
fn protection(out: &mut String, facts: &Facts, bytes: u64) {
    if !facts.has("HAS_LOCK") {
        return;
    }
    let bits: &[u8] = match (facts.has("4BIT_BP"), facts.has("BP3_SR_BIT6")) {
        (false, _) => &[2, 3, 4],
        (true, false) => &[2, 3, 4, 5],
        (true, true) => &[2, 3, 4, 6],
    };
    let slots = (1_u32 << bits.len()) - 2;
    let needed = (bytes / u64::from(facts.sector)).max(1).ilog2();
    let unit = u64::from(facts.sector) << needed.saturating_sub(slots);
    let tb = match (facts.has("HAS_TB"), facts.has("TB_SR_BIT6")) {
        (false, _) => "",
        (true, false) => "tb_bit = 5\n",
        (true, true) => "tb_bit = 6\n",
    };
    // The CMP bit is bit 6 of status register 2 (`SR2_CMP_BIT6`).
    let cmp = if facts.has("HAS_CMP") { "cmp_bit = 6\n" } else { "" };
    let _ = write!(out, "\n[chip.protection]\nbp_bits = {bits:?}\n{tb}{cmp}unit_bytes = {unit}\n");
}

fn sources(out: &mut String, table: &KernelTable, facts: &Facts, family: &str) {
    let kernel = format!("Linux {}, drivers/mtd/spi-nor, read by scripts/import-kernel", table.version());
    let mut known = vec!["chip.id", "chip.otp", "chip.protection", "chip.geometry"];
    let mut guessed = vec![
        "chip.timing",
        "chip.max_sdr_hz",
        "chip.max_dtr_hz",
        "chip.reset_pin",
        "chip.soft_reset",
        "chip.retention_years",
        "chip.endurance_cycles",
    ];
    let commands = [
        "chip.reads",
        "chip.reads_4b",
        "chip.programs",
        "chip.programs_4b",
        "chip.addressing",
        "chip.quad_enable",
        "chip.registers",
        "chip.sfdp",
        "chip.erase",
    ];
    let octal = facts.octal();
    if octal.is_some() {
        guessed.retain(|path| *path != "chip.max_dtr_hz");
        let own = ["chip.octal", "chip.dummy"];
        let from = format!(
            "Linux {}, function of the maker that switches to 8D-8D-8D; commands and erase sizes of the table in Linux 6.1, and of the SFDP table in QEMU",
            table.version()
        );
        let of: Vec<&str> = commands.into_iter().chain(own).collect();
        source(out, &of, &from, FROM_DRIVER, &[]);
        source(
            out,
            &["chip.dummy.default", "chip.max_dtr_hz"],
            "data sheets of the family, from memory",
            FROM_MEMORY,
            &[],
        );
    } else if facts.needs_sfdp() {
        guessed.extend(commands)
    } else {
        known.extend(commands)
    }
    source(out, &known, &kernel, FROM_KERNEL, &facts.gaps());
    if facts.needs_sfdp() {
        source(out, &["chip.geometry.size_bytes"], "the last byte of the id", FROM_ID, &[]);
    }
    if octal.is_some() || !facts.needs_sfdp() {
        guessed.extend(commands_times(octal.map_or(facts.sector, Octal::sector)));
    }
    source(out, &guessed, family, FROM_FAMILY, &[]);
}

/// Dotted paths of the erase times.
fn commands_times(sector: u32) -> Vec<&'static str> {
    let mut all = vec!["chip.erase.sector.t_us", "chip.erase.half-block.t_us", "chip.erase.block.t_us"];
    all.extend(match sector >> 10 {
        16 => Some("chip.erase.kib-16.t_us"),
        128 => Some("chip.erase.kib-128.t_us"),
        256 => Some("chip.erase.kib-256.t_us"),
        512 => Some("chip.erase.kib-512.t_us"),
        _ => None,
    });
    all
}
