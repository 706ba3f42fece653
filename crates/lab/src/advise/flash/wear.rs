//! Advice on write speed and life of the flash, its ECC, and the period of scrubbing.

use super::super::Point;
use super::super::ecc::{self, Chip, NO_ECC};
use super::filesystem::{BLOCKS_MIN, name};
use super::{AdviceOptions, Board};
use crate::Error;
use crate::age;
use crate::fs_compare::{FsComparison, Refused, Subject, Test};
use crate::life::{self, Endurance, FlashLife};
use floatgate_config::{Config, Library};
use floatgate_device::spec::ChipSpec;
use floatgate_image::words::measure;
use floatgate_mtd::Geometry;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use floatgate_sim::machine::FilesystemKind;

/// Advice on speed and life if the advised filesystem is not simulated.
pub(super) fn firmware_point(
    config: &Config,
    geometry: &Geometry,
    wanted: &AdviceOptions,
) -> Result<Point, Error> {
    let endurance = Endurance::of_config(config, geometry, wanted.ecc_use())?;
    Ok(Point::new("speed and life", "not simulated for such a filesystem")
        .rests_on(format!("{} cycles {}", endurance.cycles, endurance.reason))
        .unless(advice! { "raw speeds are enough: ", Command::Speed, " has the chip's own reads, programs and erases on this board" }))
}

/// Advice on write speed and life of the flash.
pub(super) fn write_point(
    compared: &FsComparison,
    kind: FilesystemKind,
    flash: &FlashLife,
    chip: &ChipSpec,
    wanted: &AdviceOptions,
) -> Point {
    let subject = if kind == FilesystemKind::Ubifs { Subject::Ubifs } else { Subject::Jffs2 };
    let row = |name: &str| compared.rows.iter().find(|row| row.subject == subject && row.name == name);
    // NOR takes longer to erase an eraseblock than to program it.
    let is_nor = !chip.kind().is_nand();
    let writes = if is_nor { "writes into erased eraseblocks" } else { "writes" };
    let speed = match (row("write random 4 KiB"), row("read first")) {
        (Some(write), Some(read)) => format!(
            "expect {:.2} {} for {writes} and {:.2} {} for reads",
            write.value, write.unit, read.value, read.unit
        ),
        (Some(write), None) => format!("expect {:.2} {} for {writes}", write.value, write.unit),
        (None, _) => {
            let is_it = |refused: &&Refused| refused.subject == subject && refused.test == Test::Write;
            let why = compared.refused.iter().find(is_it);
            format!("speed is not measured: {}", why.map_or("no figure of writes", |refused| &refused.why))
        }
    };
    let mut point = Point::new("speed and life", format!("{speed}; {}", life_in_words(flash, wanted)))
        .rests_on(format!("{} cycles {}", flash.endurance.cycles, flash.endurance.reason));
    if flash.endurance.before > 0 {
        point = point.rests_on(format!("{} of them are over before the first day", flash.endurance.before));
    }
    point = point.rests_on(flash.wear.in_words());
    if let Some(years) = chip.promised_retention_years() {
        point = point.rests_on(format!("the part promises {} of retention", measure(years.into(), "year")));
    }
    if !compared.cpu_is_known {
        point = point.unless(
            "the CPU's time is known, which this setup does not state: reads and writes are slower by it",
        );
    }
    point.unless(
        "the data compress, which wear less, or fsync follows each small write, which wears many times more",
    )
}

/// Text about the number of bytes that can be written, and the life in years.
fn life_in_words(flash: &FlashLife, wanted: &AdviceOptions) -> String {
    let bytes = flash.bytes();
    if flash.endurance.left() == 0 {
        return format!(
            "no life can be promised: no cycle is left of the {} {}",
            flash.endurance.cycles, flash.endurance.reason
        );
    }
    format!(
        "about {} can be written, {}",
        life::terabytes(bytes),
        life::in_words(bytes, wanted.write_bytes_per_day)
    )
}

pub(super) fn ecc_point(config: &Config, geometry: &Geometry, wanted: &AdviceOptions) -> Option<Point> {
    let chip = Chip::of_config(config).ok()?;
    let own = ecc::own_verdict(config, geometry, wanted.ecc_use()).ok()?;
    let advice = ecc::advise(chip, wanted.ecc_use(), &[]);
    let (chip, use_) = (&advice.chip, &advice.use_);
    let rated = chip.endurance_cycles;
    let mut text = match &advice.needs {
        Some(code) => format!("{code} is the weakest code that holds for {rated} cycles"),
        None => format!(
            "no code that fits the OOB holds for {} after all {rated} rated cycles: with fewer cycles the data last, otherwise refresh them",
            measure(use_.years, "year")
        ),
    };
    if own.code == NO_ECC {
        text += &format!("; the setup has no ECC, which holds for {} cycles", own.cycles);
    } else if !own.enough {
        let weaker = if advice.needs.is_some() { "is weaker: it " } else { "" };
        text += &format!("; the setup's own {} {weaker}holds for {} cycles", own.code, own.cycles);
    } else if advice.needs.as_ref().is_some_and(|needs| *needs != own.code) {
        text += &format!("; the setup's own {} holds, too", own.code);
    }
    let point = Point::new("ECC", text)
        .rests_on(format!(
            "{} at {} C between program and read, {:.0} reads of a block",
            measure(use_.years, "year"),
            use_.temperature_c,
            use_.reads
        ))
        .rests_on(format!(
            "the chip asks for {} bits in {} bytes; bit errors {}",
            chip.strength,
            chip.step_bytes,
            chip.origin_of_errors()
        ));
    Some(
        point.rests_on(format!("the setup has {}", own.code)).unless(advice! {
            "bit errors of this chip are measured (`[chip.errors]`), or its use is another: ",
            Command::EccAdvise.with(CommandOption::Years).with(use_.years).with(CommandOption::Temperature).with(use_.temperature_c),
            " judges other codes"
        }),
    )
}

/// Number of chips whose life is simulated for each period of scrubbing, and size of their partition in bytes.
pub(super) const LIVES: u32 = 3;
const LIFE_BYTES: u64 = 8 << 20;
/// Periods of scrubbing that are tried, longest first, in days.
const PERIODS: [Option<u32>; 4] = [None, Some(365), Some(91), Some(30)];

pub(super) fn scrub_point(
    library: &Library,
    board: &Board,
    geometry: &Geometry,
    (kind, flash): (FilesystemKind, &FlashLife),
    wanted: &AdviceOptions,
) -> Result<Point, Error> {
    let erase = u64::from(geometry.erase_bytes);
    let bytes = LIFE_BYTES.max(2 * BLOCKS_MIN * erase).min(geometry.size_bytes) / erase * erase;
    let config = board.on_sample(library, bytes, geometry)?;
    let own = ecc::own_verdict(&config, geometry, wanted.ecc_use())?;
    let ecc = own.code;
    let periods = if kind == FilesystemKind::Jffs2 { &PERIODS[..1] } else { &PERIODS[..] };
    let mut point = Point::new("scrub", "");
    for scrub_days in periods {
        let options = wanted.age_options(kind, *scrub_days);
        let report = match age::run_with(library, &config, &options, flash, &|_| ()) {
            Ok(report) => report,
            Err(Error::Config(error)) => return Err(error.into()),
            Err(error) => {
                point.advice = format!("not simulated: {error}");
                return Ok(point);
            }
        };
        let period = scrub_days.map_or("never".to_owned(), |days| format!("every {days} days"));
        point = point.rests_on(format!(
            "read {period}: {} of {LIVES} chips last {} at {} C",
            report.survived,
            measure(wanted.years, "year"),
            wanted.temperature_c
        ));
        if report.survived == LIVES {
            point = point.rests_on(format!(
                "{ecc} corrects, and {} a day wear a block by {} cycles at most, of {} that it is good for",
                life::in_units(wanted.write_bytes_per_day),
                report.wear.cycles_at_end,
                report.wear.cycles
            ));
            point.advice = match scrub_days {
                _ if report.wear.ends_before(wanted.years) => format!(
                    "no chip loses data, but blocks are worn beyond what they are good for after {:.1} of {}",
                    report.wear.worn_out_after_years.unwrap_or(0.0),
                    measure(wanted.years, "year")
                ),
                None => format!(
                    "{} needs no reading pass for {} at {} a day: charge is lost too slowly",
                    name(kind),
                    measure(wanted.years, "year"),
                    life::in_units(wanted.write_bytes_per_day)
                ),
                Some(days) => format!(
                    "let ubihealthd read all PEBs every {days} days, so that UBI moves what has bit errors"
                ),
            };
            return Ok(
                point.unless(advice! { "the place is hotter, or cycles and years are more: ", Command::Age })
            );
        }
    }
    point.advice = match kind {
        FilesystemKind::Jffs2 => {
            "JFFS2 moves nothing for bit errors: rewrite the data, or take UBIFS".to_owned()
        }
        FilesystemKind::Ubifs => {
            "no period is enough: take a stronger code, a cooler place or another chip".to_owned()
        }
    };
    Ok(point)
}
