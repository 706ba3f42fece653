//! SPI NAND: converts a line of the kernel's table to a part file.

use super::family::Members;
use super::spi_nor::maker_name;
use super::times::Known;
use super::{FROM_FAMILY, FROM_KERNEL, Gap, KernelChip, KernelTable, Operation, bits, hex_list, source};
use floatgate_device::spi_nand::SpiNandSpec;
use serde::Deserialize;
use std::fmt::Write;

/// A line of the kernel's table (`SPINAND_INFO`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    name: String,
    maker: String,
    id: Vec<u8>,
    id_read: String,
    /// Memory organization: bits per cell, page, OOB, pages per block, blocks per LUN, maximum bad blocks, planes per
    /// LUN, LUNs per target, targets.
    memorg: [u32; 9],
    /// ECC requirement: strength and step size.
    ecc: [u32; 2],
    reads: String,
    writes: String,
    updates: String,
    streams: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    free: Option<Vec<[u32; 2]>>,
    #[serde(default)]
    parity: Vec<[u32; 2]>,
    /// Kernel function that reads the number of corrected bits.
    status: Option<String>,
    retries: Option<u8>,
    /// User OTP area: number of pages, first page.
    user_otp: Option<[u32; 2]>,
    #[serde(rename = "factory_otp")]
    _factory_otp: Option<[u32; 2]>,
    select_target: Option<String>,
    configure: Option<String>,
    continuous: Option<String>,
    randomizer: Option<String>,
}

/// Names of the kernel functions for continuous reads, by scheme.
const MACRONIX_STREAM: &str = "macronix_set_cont_read";
const WINBOND_STREAMS: [&str; 2] = ["w25n0xjw_set_cont_read", "w35n0xjw_set_cont_read"];
/// Kernel function that switches Macronix's randomizer: feature 10h, bit 1.
const MACRONIX_RANDOMIZER: &str = "macronix_set_randomizer";
/// Dotted paths of the typical times of reads, programs and erases.
const TYPICAL: &[&str] =
    &["chip.timing.t_rd_ecc_us", "chip.timing.t_prog_us.typ", "chip.timing.t_bers_us.typ"];
/// Kernel function that selects a die with command C2h.
const WINBOND_DIE: &str = "w25m02gv_select_target";
/// Kernel function that configures the high speed bit of W25NxxJW.
const HIGH_SPEED: &str = "w25n0xjw_hs_cfg";

impl Facts {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Register with the number of corrected bits, by the name of the kernel function; `None` for an unsupported
    /// function.
    fn ecc_status(&self) -> Option<&'static str> {
        match self.status.as_deref() {
            None | Some("w25w35nxxjw_ecc_get_status") => Some("plain"),
            Some("w25n02kv_ecc_get_status" | "tx58cxgxsxraix_ecc_get_status") => Some("winbond-detail"),
            Some("macronix_ecc_get_status") => Some("macronix"),
            Some("gd5fxgq5xexxg_ecc_get_status") => Some("gigadevice"),
            Some(_) => None,
        }
    }

    /// Properties of the chip that the generated part does not model.
    pub(super) fn gaps(&self, table: &KernelTable) -> Vec<Gap> {
        let reads_of_three = table.operations(&self.reads).unwrap_or_default().iter().any(|read| read.2 == 3);
        let scheme = self.continuous.as_deref();
        let is_known = |name: &str| name == MACRONIX_STREAM || WINBOND_STREAMS.contains(&name);
        let (reads, programs) =
            (self.has("HAS_READ_PLANE_SELECT_BIT"), self.has("HAS_PROG_PLANE_SELECT_BIT"));
        let gaps = [
            (self.ecc_status().is_none(), Gap::EccStatus),
            (Sections::of(self).is_simplified, Gap::OobLayout),
            (reads_of_three, Gap::ThreeByteColumn),
            (self.select_target.as_deref().is_some_and(|name| name != WINBOND_DIE), Gap::DieRegister),
            (self.has("NO_RAW_ACCESS"), Gap::NoRawAccess),
            (programs && !reads, Gap::ProgramPlaneBit),
            (scheme.is_some_and(|name| !is_known(name)), Gap::Continuous),
            (self.randomizer.as_deref().is_some_and(|name| name != MACRONIX_RANDOMIZER), Gap::Randomizer),
        ];
        gaps.into_iter().filter(|(has, _)| *has).map(|(_, gap)| gap).collect()
    }
}

/// An OOB layout as repeated sections.
struct Sections {
    count: usize,
    free: String,
    parity: String,
    is_simplified: bool,
}

impl Sections {
    fn of(facts: &Facts) -> Self {
        let oob = facts.memorg[2];
        let fallback = vec![[2, oob.saturating_sub(2)]];
        let free = facts.free.as_ref().filter(|free| !free.is_empty()).unwrap_or(&fallback);
        let fits = |region: &&[u32; 2]| region[0] + region[1] <= oob;
        let parity: Vec<[u32; 2]> = facts.parity.iter().filter(fits).copied().collect();
        let is_inside = parity.len() == facts.parity.len();
        let count = if parity.is_empty() { free.len() } else { free.len().min(parity.len()) };
        // If there are several sections, the first one begins behind the bad block marker, which belongs to no
        // section.
        let mut user = free.clone();
        if let [first, second, ..] = &mut user[..]
            && first[1] < second[1]
            && first[0] + first[1] == second[1]
        {
            *first = [0, second[1]];
        }
        let (free_range, is_free_whole) = range(&user, count);
        let (parity_range, is_parity_whole) = range(&parity, count);
        Self {
            count,
            free: free_range,
            parity: parity_range,
            is_simplified: !is_inside || !is_free_whole || !is_parity_whole,
        }
    }
}

/// A table for `count` regions at equal distances, and a flag that is true if these are all regions.
fn range(regions: &[[u32; 2]], count: usize) -> (String, bool) {
    let [start, len] = regions.first().copied().unwrap_or_default();
    let step = regions.get(1).map_or(0, |second| second[0].saturating_sub(start));
    let fits = |(index, region): (usize, &[u32; 2])| {
        *region == [start + u32::try_from(index).unwrap_or(0) * step, len]
    };
    let is_whole = (regions.is_empty() || regions.len() == count) && regions.iter().enumerate().all(fits);
    (format!("{{ start = {start}, step = {step}, len = {len} }}"), is_whole)
}

/// Text of the generated part file.
pub(super) fn part(
    chip: &KernelChip,
    table: &KernelTable,
    members: &Members<SpiNandSpec>,
    known: &Known,
) -> Option<String> {
    let facts: Facts = chip.facts().ok()?;
    let maker = maker_name(&facts.maker);
    let [cell, page, oob, pages, blocks, bad, planes, luns, targets] = facts.memorg;
    let family =
        members.of(maker, |spec| (spec.geometry.page_bytes == page, spec.ecc.strength == facts.ecc[0]));
    let own_maker = family.is_of(maker);
    let [protection, config] = if own_maker {
        [family.median(|spec| spec.protection_reset), family.median(|spec| spec.config_reset) | 0x10]
    } else {
        [0x38, 0x10]
    };
    let reads = table.operations(&facts.reads).ok()?;
    let size = [page, pages, blocks, luns, targets].into_iter().map(u64::from).product();
    let plane_bit = facts.has("HAS_READ_PLANE_SELECT_BIT") || facts.has("HAS_PROG_PLANE_SELECT_BIT");
    let mut text = format!(
        "kind = \"spi-nand\"\nname = \"{}\"\nmaker = \"{}\"\ntitle = \"{} SPI NAND\"\n{}\n[chip]\n",
        facts.name,
        maker,
        bits(size),
        known.times(TYPICAL)
    );
    let out = &mut text;
    let _ = writeln!(out, "id = {}\nid_read = \"{}\"", hex_list(&facts.id), facts.id_read);
    let _ = writeln!(out, "sdr_hz = {}", known.hz("chip.sdr_hz", family.median(|spec| spec.sdr_hz)));
    if let Some(hz) = reads.iter().filter(|read| read.0.contains('D')).map(|read| read.4).max() {
        let _ = writeln!(out, "dtr_hz = {hz}");
    }
    let _ = writeln!(out, "protection_reset = {protection}\nconfig_reset = {config}");
    let _ = writeln!(out, "quad_enable = {}", facts.has("HAS_QE_BIT"));
    let _ = writeln!(out, "nop = 4\nendurance_cycles = {}", family.median(|spec| spec.endurance_cycles));
    let _ = writeln!(out, "retention_years = {}", family.median(|spec| spec.retention_years));
    let _ = writeln!(out, "ecc_status = \"{}\"", facts.ecc_status().unwrap_or("plain"));
    let _ = writeln!(out, "reads = [\n{}]", reads.iter().map(variant).collect::<String>());
    let _ = writeln!(out, "loads = [\n{}]", loads(&facts, table)?);
    let _ = write!(
        out,
        "\n[chip.geometry]\npage_bytes = {page}\noob_bytes = {oob}\npages_per_block = {pages}\nblocks_per_lun = {blocks}\n\
         planes = {planes}\nluns = {}\nbits_per_cell = {cell}\nmax_bad_blocks_per_lun = {bad}\n",
        luns * targets
    );
    let step = if page.is_multiple_of(facts.ecc[1].max(1)) { facts.ecc[1] } else { 512 };
    let _ = write!(out, "\n[chip.ecc]\nstrength = {}\nstep_bytes = {step}\non_die = true\n", facts.ecc[0]);
    let Sections { count, free, parity, .. } = Sections::of(&facts);
    let _ = write!(out, "\n[chip.oob]\nsections = {count}\nuser = {free}\necc = {parity}\n");
    let _ = write!(
        out,
        "\n[chip.timing]\nt_rd_us = {}\nt_rd_ecc_us = {}\nt_prog_us = {}\nt_bers_us = {}\n",
        known.us("chip.timing.t_rd_us", family.us(|spec| spec.timing.t_rd_us)),
        known.us("chip.timing.t_rd_ecc_us", family.us(|spec| spec.timing.t_rd_ecc_us)),
        known.typ_max("chip.timing.t_prog_us", family.typ_max(|spec| spec.timing.t_prog_us)),
        known.typ_max("chip.timing.t_bers_us", family.typ_max(|spec| spec.timing.t_bers_us)),
    );
    extras(out, &facts, table);
    if plane_bit || targets > 1 {
        let _ =
            write!(out, "\n[chip.quirks]\nplane_select_bit = {plane_bit}\ndie_select = {}\n", targets > 1);
    }
    sources(out, table, &facts, &family.described());
    known.sources(out);
    Some(text)
}

/// Program load operations that clear or preserve the cache contents; an operation in both lists is written once.
fn loads(facts: &Facts, table: &KernelTable) -> Option<String> {
    let mut all = table.operations(&facts.updates).ok()?;
    all.extend(table.operations(&facts.writes).ok()?);
    let mut rows: Vec<String> = Vec::new();
    for Operation(mode, opcode, ..) in all {
        // The opcodes 84h, 34h and C4h are random loads on every chip.
        let random = if matches!(opcode, 0x84 | 0x34 | 0xC4 | 0x44) { ", random = true" } else { "" };
        let row = format!("    {{ mode = \"{mode}\", opcode = 0x{opcode:02X}{random} }},\n");
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    Some(rows.concat())
}

/// A read operation as a table. A dummy byte before the column is counted after it, because the time is the same.
fn variant(Operation(mode, opcode, address_bytes, dummy, hz): &Operation) -> String {
    let lanes = mode.split('-').nth(1).and_then(|phase| phase[..1].parse::<u8>().ok()).unwrap_or(1);
    let dummy = if *address_bytes == 3 { dummy + 8 / lanes } else { *dummy };
    let limit = if *hz == 0 { String::new() } else { format!(", max_hz = {hz}") };
    format!("    {{ mode = \"{mode}\", opcode = 0x{opcode:02X}, dummy = {dummy}{limit} }},\n")
}

/// Appends tables for features that only some chips have.
fn extras(out: &mut String, facts: &Facts, table: &KernelTable) {
    if facts.configure.as_deref() == Some(HIGH_SPEED) {
        let _ = write!(out, "\n[chip.high_speed]\nfeature = 0xD0\nbit = 2\n");
    }
    if facts.continuous.as_deref() == Some(MACRONIX_STREAM) {
        let _ = write!(out, "\n[chip.continuous]\nkind = \"macronix\"\nconfig_bit = 2\nt_page_us = 25\n");
    }
    let streams = facts.streams.as_deref().and_then(|name| table.operations(name).ok());
    if let Some(streams) = streams {
        let rows: String = streams.iter().map(stream).collect();
        let _ = write!(
            out,
            "\n[chip.continuous]\nkind = \"winbond\"\nconfig_bit = 3\nt_page_us = 17\nreads = [\n{rows}]\n"
        );
    }
    if facts.randomizer.as_deref() == Some(MACRONIX_RANDOMIZER) {
        let _ = write!(out, "\n[chip.randomizer]\nfeature = 0x10\nbit = 1\n");
    }
    if let Some(modes) = facts.retries {
        let _ = write!(out, "\n[chip.read_retry]\nfeature = 0x70\nmodes = {modes}\n");
    }
    if let Some([pages, _]) = facts.user_otp {
        let (maker, model): (String, String) = (
            facts.maker.to_uppercase().chars().take(12).collect(),
            facts.name.to_uppercase().chars().take(20).collect(),
        );
        let _ = write!(
            out,
            "\n[chip.otp]\nuser_pages = {pages}\nmanufacturer = \"{maker}\"\nmodel = \"{model}\"\n"
        );
    }
}

/// A continuous read of Winbond. Its dummy cycles are all cycles between command and data, including those of the
/// ignored address.
fn stream(Operation(mode, opcode, address_bytes, dummy, hz): &Operation) -> String {
    let phase = mode.split('-').nth(1).unwrap_or("1S");
    let lanes = phase[..1].parse::<u8>().unwrap_or(1);
    let per_byte = 8 / lanes;
    let address = if phase.ends_with('D') { address_bytes * per_byte / 2 } else { address_bytes * per_byte };
    variant(&Operation(mode.clone(), *opcode, 2, dummy + address, *hz))
}

fn sources(out: &mut String, table: &KernelTable, facts: &Facts, family: &str) {
    let kernel = format!(
        "Linux {}, drivers/mtd/nand/spi, read by scripts/import-kernel; dummy bytes converted to clock cycles",
        table.version()
    );
    let known = [
        "chip.id",
        "chip.id_read",
        "chip.geometry",
        "chip.ecc",
        "chip.ecc_status",
        "chip.oob",
        "chip.quad_enable",
        "chip.reads",
        "chip.loads",
        "chip.dtr_hz",
        "chip.quirks",
        "chip.high_speed",
        "chip.continuous",
        "chip.randomizer",
        "chip.read_retry",
        "chip.otp",
    ];
    source(out, &known, &kernel, FROM_KERNEL, &facts.gaps(table));
    let guessed = [
        "chip.timing",
        "chip.sdr_hz",
        "chip.protection_reset",
        "chip.config_reset",
        "chip.nop",
        "chip.endurance_cycles",
        "chip.retention_years",
    ];
    source(out, &guessed, family, FROM_FAMILY, &[]);
}
