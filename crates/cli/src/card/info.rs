//! `floatgate list NAME --registers`.

use super::time;
use crate::common::{self, Outcome, grouped, size};
use crate::output::ReportFormat;
use crate::table::Table;
use floatgate_card::IoFunctionSpec;
use floatgate_card::sdio::{FunctionView, IoView, Tuple};
use floatgate_config::{Library, Override};
use floatgate_lab::card::info::{CardInfo, Identity, MmcStatement, SdStatement, info};
use floatgate_lab::card::load;
use floatgate_lab::report::ResultKind;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate list samsung-evo-16g --registers
  floatgate list emmc-16g --registers --json
  floatgate list evil-8g --registers registers
  floatgate list fake-wraps-32g --registers --set card.classes.speed=10

Shows the registers of a card as a host reads them: CID, CSD, SCR and SSR of SD cards; CID, CSD and EXT_CSD of eMMC. It decodes maker, size, classes, allocation \
unit and erase timeout. Then it lists the commands with which a host initialises the card (identification, voltage switch, CMD6, tuning, CMD12 and CMD23), each \
with its answer and state. On a card with SDIO functions beside the memory, it reads their registers and tuples by CMD52, \
enables each function, and writes and reads its registers by CMD53, as a driver does.

--registers DIR writes the files that Linux has for a card in sysfs (ext_csd: debugfs). `floatgate probe --registers DIR` reads these files, and reports where a \
measurement contradicts them. The rows of the CSV are the registers.")]
pub(crate) struct Args {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    /// Override any field of the card: --set card.identity.serial=7
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print the registers; with a folder, write the files type, cid, csd, scr, ssr, ext_csd into it. The folder is created if it does not exist
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    registers: Option<Option<PathBuf>>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let card = load(&Library::built_in(), &args.card, &Override::parse_all(&args.set)?)?;
    let report = info(&card)?;
    if let Some(Some(folder)) = &args.registers {
        write(&report, folder)?;
    }
    args.format
        .finish(&ResultKind::CardInfo.of(&args.card).with(&args.set), &report, "registers", || text(&report))
}

/// Writes a file for each register.
fn write(report: &CardInfo, folder: &Path) -> Result<(), common::Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        common::Failure::new(format!("{}: {error}", folder.display()), "name a folder that can be made")
    })?;
    for register in &report.registers {
        common::write_file(&folder.join(register.name), &format!("{}\n", register.text))?;
    }
    Ok(())
}

fn text(report: &CardInfo) -> String {
    let mut text = format!("{}: {}\n\n{}", report.card, report.title, statements(report));
    for register in &report.registers {
        text += &format!("\n{}\n", register.name);
        // Lines of 64 digits fit into 80 columns.
        let digits: Vec<char> = register.text.chars().collect();
        digits.chunks(64).for_each(|line| text += &format!("  {}\n", line.iter().collect::<String>()));
    }
    if let Some(io) = &report.io {
        text += &format!(
            "\nSDIO {}, common registers {}, as a driver reads them\n{}\n",
            io.sdio_version,
            io.cccr_version,
            tuples(io)
        );
    }
    if !report.bring_up.is_empty() {
        text += &format!("\nfrom power-on to the fastest mode, and two blocks\n{}", bring_up(report));
    }
    text
}

/// Table of the tuples of a card and of its SDIO functions.
fn tuples(io: &IoView) -> Table {
    let mut table = Table::new(["of", "tuple", "bytes"]);
    let mut rows = |of: &str, tuples: &[Tuple]| {
        for tuple in tuples {
            table.row([of.to_owned(), format!("{:#04x} {}", tuple.code, tuple.name), tuple.body.clone()]);
        }
    };
    rows("card", &io.tuples);
    io.functions.iter().for_each(|function| rows(&format!("function {}", function.number), &function.tuples));
    table
}

/// Result of a driver's first access to an SDIO function.
fn function(found: &FunctionView) -> String {
    let ready = if found.is_ready {
        format!("ready within {} ms", found.enable_timeout_ms)
    } else {
        "not ready".to_owned()
    };
    let registers = if found.reads_back { "keep what is written" } else { "do not keep what is written" };
    format!("{ready}, blocks of {} B, its registers {registers}", found.block_bytes)
}

/// A number with its noun.
fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Table of the host's commands during identification, with the answers and states of the card.
fn bring_up(report: &CardInfo) -> Table {
    let mut table = Table::new(["command", "argument", "state after it", "answer", "purpose"]);
    for step in &report.bring_up {
        table.row([
            step.command.clone(),
            format!("{:#010x}", step.argument),
            step.state.name().to_owned(),
            step.answer.clone(),
            step.purpose.to_owned(),
        ]);
    }
    table
}

fn statements(report: &CardInfo) -> Table {
    let mut table = Table::new(["stated", "value"]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let Identity { manufacturer_id, oem, name, revision, serial, year, month } = &report.identity;
    row("maker", format!("{manufacturer_id:#04x} {oem}").trim().to_owned());
    row("product", format!("{name} {revision}, serial {serial:#010x}"));
    row("made", if *year == 0 { "not stated".to_owned() } else { format!("{year}-{month:02}") });
    let real = report
        .real_bytes
        .map_or_else(String::new, |real| format!(", really {} MB", grouped(real / 1_000_000)));
    row("size", format!("{} MB{real}", grouped(report.capacity_bytes / 1_000_000)));
    if let Some(sd) = &report.sd {
        sd_rows(sd, &mut row);
    }
    if let Some(mmc) = &report.mmc {
        mmc_rows(mmc, &mut row);
    }
    if let Some(IoFunctionSpec { interface, vendor, device, .. }) = report.io_function {
        let value = format!("interface {interface}, vendor {vendor:#06x}, device {device:#06x}");
        row("SDIO function", format!("{value}: the host may bind a driver to it"));
    }
    for found in report.io.iter().flat_map(|io| &io.functions) {
        row(&format!("function {}", found.number), function(found));
    }
    let limits = &report.limits;
    row("read within", time(limits.read_us));
    row("write within", time(limits.write_us));
    row("erase an AU within", time(limits.erase_us));
    let power = &report.power;
    row(
        "power",
        format!(
            "programs {:.0} mW, waits {:.2} mW, sleeps {:.2} mW",
            power.program_mw, power.idle_mw, power.sleep_mw
        ),
    );
    row(
        "supply",
        power.limit_mw.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit:.1} mW")),
    );
    row("goes on when pulled out", time(power.hold_up_us));
    row("map rebuilt within", time(power.power_on_bound_us));
    let flash = &report.flash;
    row(
        "flash inside",
        format!(
            "{} of {}, {} per cell",
            counted(flash.blocks, "block"),
            size(flash.block_bytes),
            counted(flash.bits_per_cell.into(), "bit")
        ),
    );
    row(
        "page",
        format!(
            "{} on {} of {}, and {} B of spare area for the ECC",
            size(flash.page_bytes),
            counted(flash.planes.into(), "plane"),
            counted(flash.dies.into(), "die"),
            grouped(flash.page_ecc_bytes)
        ),
    );
    if flash.enhanced_blocks > 0 {
        row("enhanced area", format!("{} with one bit per cell", counted(flash.enhanced_blocks, "block")));
    }
    table
}

fn sd_rows(sd: &SdStatement, row: &mut impl FnMut(&str, String)) {
    let class = |value: u8, text: String| if value == 0 { "none".to_owned() } else { text };
    row("SD specification", sd.specification.to_owned());
    row("speed class", class(sd.speed_class, format!("{} MB/s", sd.speed_class)));
    row("UHS grade", class(sd.uhs_grade, format!("U{}", sd.uhs_grade)));
    row("video class", class(sd.video_class, format!("V{}", sd.video_class)));
    row("application class", class(sd.app_class, format!("A{}", sd.app_class)));
    row("allocation unit", size(sd.au_bytes));
    if sd.uhs_au_bytes > 0 {
        row("in UHS modes", size(sd.uhs_au_bytes));
    }
    row(
        "erase timeout",
        format!("{} s for {} AUs, and {} s", sd.erase_timeout_s, sd.erase_aus, sd.erase_offset_s),
    );
}

fn mmc_rows(mmc: &MmcStatement, row: &mut impl FnMut(&str, String)) {
    row("EXT_CSD revision", mmc.revision.to_string());
    row("erase group", format!("{}, within {} ms", size(mmc.erase_group_bytes), mmc.erase_timeout_ms));
    row("trim within", format!("{} ms", mmc.trim_timeout_ms));
    row("cache", size(mmc.cache_bytes));
    row("best write size", size(mmc.optimal_write_bytes));
    row("power off within", format!("{} ms", mmc.power_off_ms));
    row("life used", format!("tenth {}, spare blocks in state {}", mmc.life, mmc.pre_eol));
    row("boot partitions", format!("two of {}", size(mmc.boot_bytes)));
    row("RPMB", size(mmc.rpmb_bytes));
    let enhanced = match (mmc.enhanced_bytes_max, mmc.enhanced_bytes) {
        (0, _) => "not possible".to_owned(),
        (most, now) => format!("{} of at most {}", size(now), size(most)),
    };
    row("one bit a cell", enhanced);
    let background = match (mmc.has_background, mmc.is_background_automatic) {
        (false, _) => "none that hosts know of",
        (true, true) => "by itself while the host is silent",
        (true, false) => "when the host starts it",
    };
    row("background work", background.to_owned());
}
