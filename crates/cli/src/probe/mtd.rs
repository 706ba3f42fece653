//! `floatgate probe /dev/mtdN`: raw flash behind an MTD character device.

use crate::common::{self, Failure, Outcome};
use crate::devices::{in_use, is_agreed};
use crate::output::ReportFormat;
use crate::terminal::print_note;
use crate::terminal::progress_bar;
use floatgate_host::mtd::{CharDevice, Flash as _, Shape, conditions, raise_priority};
use floatgate_host::signals::Ending;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_probe::mtd::{MtdReport, Speed, Weak, measure};
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// Options of the command for an MTD device.
pub(super) struct Args<'a> {
    pub(super) path: &'a Path,
    pub(super) writes: bool,
    pub(super) agreed: bool,
    pub(super) format: ReportFormat,
}

#[derive(Serialize)]
struct Report {
    /// Name of the device, which the envelope also contains.
    #[serde(skip)]
    target: String,
    #[serde(flatten)]
    found: MtdReport,
    /// Circumstances that falsify times.
    conditions: Vec<String>,
    /// Conclusions of the measurement, with one sentence each.
    advice: Vec<String>,
}

/// The field `advice` contains the conclusions.
impl Concluded for Report {}

pub(super) fn run(args: &Args<'_>) -> Outcome {
    let ending = Ending::new();
    let shown = args.path.display();
    let mut flash = CharDevice::open(args.path, args.writes)
        .map_err(|error| Failure::new(format!("{shown}: {error}"), advice_on(&error, args.writes)))?;
    refuse_if_in_use(args, &mut flash)?;
    if args.writes && !args.agreed {
        agree(args.path, &ending)?;
    }
    let before = conditions();
    let conditions = before.into_iter().chain(raise_priority()).collect();
    let bar = progress_bar("{wide_bar} {pos} of {len} eraseblocks, {elapsed}");
    let found = measure(&mut flash, args.writes, &mut |done, all| {
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
    let advice = advice(&found, args.writes);
    let report = Report { target: shown.to_string(), found, conditions, advice };
    args.format.print(&ResultKind::ProbeMtd.of(args.path), &report, "speeds", || text(&report))?;
    if !complete {
        print_note(&format!("{shown}: ended early: the rest was not read"));
    }
    Ok(ExitCode::from(u8::from(!complete)))
}

/// Refuses to write to flash that is in use. Reads are safe, but take longer in this case.
fn refuse_if_in_use(args: &Args<'_>, flash: &mut CharDevice) -> Result<(), Failure> {
    let shown = args.path.display();
    match flash.holders() {
        Err(error) if args.writes => {
            Err(Failure::new(format!("{shown}: {error}"), "mount proc and sysfs; nothing was written"))
        }
        Ok(users) if args.writes && !users.is_empty() => {
            Err(in_use(args.path, &users, "without --write it is only read; nothing was written"))
        }
        Ok(users) if !users.is_empty() => {
            print_note(&format!(
                "{shown} is in use and is only read: {}; its times may be longer for it",
                users.join("; ")
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn advice_on(error: &io::Error, writes: bool) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "name that one, or leave out --write",
        io::ErrorKind::PermissionDenied if writes && rustix::process::geteuid().is_root() => {
            "root may write to it, but its driver, partition table or write protection makes it read-only"
        }
        io::ErrorKind::PermissionDenied => "only root may do that",
        io::ErrorKind::InvalidData | io::ErrorKind::NotFound => {
            "the kernel shows no such device below /sys/class/mtd"
        }
        _ => "name a device of /proc/mtd; a read-only one (/dev/mtdNro) cannot be written",
    }
}

/// Lists the ranges that will be written, and asks for confirmation.
fn agree(path: &Path, ending: &Ending) -> Result<(), Failure> {
    let path = path.display();
    print_note(&format!(
        "{path}: writes and erases at most 16 blank eraseblocks, each three times; they are blank again at the end. Nothing else is written"
    ));
    let refused = |why: &str| {
        Err(Failure::new(format!("{path}: {why}"), "nothing was written; --yes agrees in advance"))
    };
    if !io::stdin().is_terminal() {
        return refused("nobody can be asked, as stdin is no terminal");
    }
    print_note("write? [y/N]");
    if is_agreed(ending) { Ok(()) } else { refused("not agreed") }
}

/// Largest number of weak blocks that the text lists.
const LISTED: usize = 10;

fn advice(found: &MtdReport, writes: bool) -> Vec<String> {
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
    if found.shape.blocks() > 0 && found.bad_blocks.len() as u64 == found.shape.blocks() {
        advice.push("all eraseblocks are marked bad, so that nothing was read: no chip wears like that; look at the driver, the place of the marks and the table of bad blocks".to_owned());
        return advice;
    }
    let has_blank = found.blank_blocks > 0;
    match (writes, has_blank) {
        (true, false) => advice.push(
            "no eraseblock is blank in its pages and OOB: writes were not measured; `flash_erase` makes one, where nothing on it is needed".to_owned(),
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
        "{}: {} {:?}, {} in eraseblocks of {}, {}\n{} read: {} bad, {} blank\n",
        report.target,
        shape.kind,
        shape.name,
        common::size(shape.size_bytes),
        common::size(u64::from(shape.erase_bytes)),
        pages(shape),
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

fn pages(shape: &Shape) -> String {
    match shape.write_bytes {
        1 => "no pages: single bytes can be written".to_owned(),
        bytes => format!("pages of {bytes} B"),
    }
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

/// Lines in the format of `flash_speed`, which `floatgate fit` reads.
fn speeds(found: &MtdReport, state: &str) -> String {
    let of_state: Vec<&Speed> = found.speeds.iter().filter(|speed| speed.blocks == state).collect();
    let Some(first) = of_state.first() else { return String::new() };
    let blocks = first.bytes / u64::from(found.shape.erase_bytes).max(1);
    let mut text = format!("\n# {}, {state}\n", common::count(blocks as usize, "eraseblock"));
    for speed in of_state {
        text += &format!("{} speed is {} KiB/s\n", speed.name, speed.kib_s);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(write_bytes: u32, bad_blocks: Vec<u64>) -> MtdReport {
        let shape = Shape {
            kind: "ram".to_owned(),
            name: "test".to_owned(),
            size_bytes: 1 << 20,
            erase_bytes: 64 << 10,
            write_bytes,
            oob_bytes: 0,
        };
        MtdReport {
            shape,
            read_blocks: 16 - bad_blocks.len() as u64,
            bad_blocks,
            blank_blocks: 0,
            counts_bits: true,
            weak_blocks: Vec::new(),
            slowest_block: None,
            speeds: Vec::new(),
            complete: true,
        }
    }

    #[test]
    fn flash_without_pages_and_flash_whose_blocks_are_all_bad_are_told() {
        let text = |found: MtdReport| {
            let advice = advice(&found, false);
            super::text(&Report { target: "/dev/mtd0".to_owned(), found, conditions: Vec::new(), advice })
        };
        let bytes = text(found(1, vec![3]));
        assert!(bytes.contains("no pages: single bytes") && !bytes.contains("marked bad"), "{bytes}");
        let bad = text(found(2048, (0..16).collect()));
        assert!(bad.contains("pages of 2048 B") && bad.contains("all eraseblocks are marked bad"), "{bad}");
    }

    #[test]
    fn a_read_only_node_is_not_a_matter_of_root() {
        let of = |kind, writes| advice_on(&io::Error::from(kind), writes);
        assert!(of(io::ErrorKind::ReadOnlyFilesystem, true).starts_with("name that one"));
        assert_eq!(of(io::ErrorKind::PermissionDenied, false), "only root may do that");
        let root = of(io::ErrorKind::PermissionDenied, true);
        assert_eq!(root.starts_with("root may write"), rustix::process::geteuid().is_root(), "{root}");
    }
}
