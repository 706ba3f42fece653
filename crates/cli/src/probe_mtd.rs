//! `floatgate probe /dev/mtdN`: raw flash behind an MTD character device.

use crate::common::{self, Failure, Outcome};
use crate::fs::progress_bar;
use crate::output::{ReportFormat, tell};
use crate::probe::is_agreed;
use crate::signals::Ending;
use floatgate_probe::mtd::{CharDevice, Found, Speed, Weak, conditions, give_priority, measure};
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// Options of the command for a MTD device.
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a Path,
    pub(crate) writes: bool,
    pub(crate) agreed: bool,
    pub(crate) format: ReportFormat,
}

#[derive(Serialize)]
struct Report {
    target: String,
    #[serde(flatten)]
    found: Found,
    /// Circumstances that make times wrong.
    conditions: Vec<String>,
    /// Conclusions.
    advice: Vec<String>,
}

pub(crate) fn run(asked: &Asked<'_>) -> Outcome {
    let ending = Ending::new();
    if asked.writes && !asked.agreed {
        agree(asked.path, &ending)?;
    }
    let shown = asked.path.display();
    let mut flash = CharDevice::open(asked.path, asked.writes)
        .map_err(|error| Failure::new(format!("{shown}: {error}"), advice_on(&error)))?;
    let before = conditions();
    let conditions = before.into_iter().chain(give_priority()).collect();
    let bar = progress_bar("{wide_bar} {pos} of {len} eraseblocks, {elapsed}");
    let found = measure(&mut flash, asked.writes, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        ending.is_asked()
    });
    bar.finish_and_clear();
    let found = found.map_err(|error| {
        Failure::new(
            format!("{shown}: {error}"),
            "the kernel's log may say more; blocks that held data were not written",
        )
    })?;
    let complete = found.complete;
    let advice = advice(&found, asked.writes);
    let report = Report { target: shown.to_string(), found, conditions, advice };
    asked.format.print(&report, "speeds", || text(&report))?;
    if !complete {
        tell(&format!("{shown}: ended early: the rest was not read"));
    }
    Ok(ExitCode::from(u8::from(!complete)))
}

fn advice_on(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "only root may do that",
        io::ErrorKind::InvalidData | io::ErrorKind::NotFound => {
            "the kernel shows no such device below /sys/class/mtd"
        }
        _ => "name a device of /proc/mtd; a read-only one (/dev/mtdNro) cannot be written",
    }
}

/// Says what is going to be written, and asks.
fn agree(path: &Path, ending: &Ending) -> Result<(), Failure> {
    let path = path.display();
    tell(&format!(
        "{path}: writes and erases at most 16 blank eraseblocks, each three times; they are blank again at the end. Nothing else is written"
    ));
    let refused = |why: &str| {
        Err(Failure::new(format!("{path}: {why}"), "nothing was written; --yes agrees in advance"))
    };
    if !io::stdin().is_terminal() {
        return refused("nobody can be asked, as stdin is no terminal");
    }
    tell("write? [y/N]");
    if is_agreed(ending) { Ok(()) } else { refused("not agreed") }
}

/// Weak blocks that are listed.
const LISTED: usize = 10;

fn advice(found: &Found, writes: bool) -> Vec<String> {
    let mut advice = Vec::new();
    let failed = found.weak_blocks.iter().filter(|weak| weak.failed > 0).count();
    if failed > 0 {
        advice.push(format!(
            "{} cannot be corrected: data there are lost, as long as no controller setting is wrong (ECC strength, layout)",
            common::count(failed, "eraseblock")
        ));
    }
    let corrected = found.weak_blocks.len() - failed;
    if corrected > 0 {
        advice.push(format!(
            "bits of {} had to be corrected: below UBI, ubihealthd makes UBI move what is near the limit",
            common::count(corrected, "eraseblock")
        ));
    }
    if !found.counts_bits {
        advice.push("the driver does not count corrected bits: weak blocks are not visible".to_owned());
    }
    let has_blank = found.blank_blocks > 0;
    match (writes, has_blank) {
        (true, false) => advice.push(
            "no eraseblock is blank: writes were not measured; `flash_erase` makes one, where nothing on it is needed".to_owned(),
        ),
        (false, true) => advice.push("--write measures writes and erases, too, on blank eraseblocks".to_owned()),
        _ => {}
    }
    advice
}

fn text(report: &Report) -> String {
    let found = &report.found;
    let shape = &found.shape;
    let mut text = format!(
        "{}: {} {:?}, {} in eraseblocks of {}, pages of {} B\n{} read: {} bad, {} blank\n",
        report.target,
        shape.kind,
        shape.name,
        common::size(shape.size_bytes),
        common::size(u64::from(shape.erase_bytes)),
        shape.write_bytes,
        common::grouped_count(found.read_blocks, "eraseblock"),
        found.bad_blocks.len(),
        common::grouped(found.blank_blocks),
    );
    text += &found.weak_blocks.iter().take(LISTED).map(weak).collect::<String>();
    if found.weak_blocks.len() > LISTED {
        text += &format!("  and {} more: --json has all\n", found.weak_blocks.len() - LISTED);
    }
    if let Some((ns, block)) = found.slowest_block {
        text += &format!("slowest: eraseblock {block}, {:.1} ms\n", ns as f64 / 1e6);
    }
    for state in ["written", "blank", "just written"] {
        text += &speeds(found, state);
    }
    for sentence in &report.conditions {
        text += &format!("\nnote: {sentence}");
    }
    for sentence in &report.advice {
        text += &format!("\n- {sentence}");
    }
    text
}

fn weak(weak: &Weak) -> String {
    let Weak { block, corrected, failed } = weak;
    let lost = if *failed > 0 {
        format!(", {} not correctable", common::count(*failed as usize, "ECC step"))
    } else {
        String::new()
    };
    format!("  eraseblock {block}: {} corrected{lost}\n", common::count(*corrected as usize, "bit"))
}

/// Lines as `flash_speed` prints them, which `floatgate fit` reads.
fn speeds(found: &Found, state: &str) -> String {
    let of_state: Vec<&Speed> = found.speeds.iter().filter(|speed| speed.blocks == state).collect();
    let Some(first) = of_state.first() else { return String::new() };
    let blocks = first.bytes / u64::from(found.shape.erase_bytes).max(1);
    let mut text = format!("\n# {}, {state}\n", common::count(blocks as usize, "eraseblock"));
    for speed in of_state {
        text += &format!("{} speed is {} KiB/s\n", speed.name, speed.kib_s);
    }
    text
}
