//! Reports for people.

use super::check::{Checked, CheckedRegion, Protection};
use super::join::Joined;
use super::merge::Merged;
use crate::common::{self, grouped, grouped_count};
use crate::output::{self, ReportFormat};
use crate::table::Table;
use crate::terminal;
use floatgate_host::output::is_stdout;
use floatgate_image::dump_kind::Kind;
use floatgate_image::ecc::join::{StripeUnit, Striping};
use floatgate_image::ecc::report::{BadBlockReport, DecodeReport, Failure};
use floatgate_image::ecc::{Candidate, Detection, EncodeReport, StuckColumn, Transform};
use floatgate_image::words::measure;
use floatgate_lab::report::{Concluded, Origin};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// Most uncorrectable steps that are printed; JSON has more.
const LINES: usize = 10;

/// Most bad blocks that are printed.
const BLOCKS: usize = 20;

/// Difference in evidence below which pages do not tell two layouts apart, in bits.
const INDISTINGUISHABLE_BITS: f64 = 3.3;

/// Destination of a report.
#[derive(Clone, Copy)]
pub(super) struct ReportDestination {
    format: ReportFormat,
    to_stderr: bool,
}

impl ReportDestination {
    /// Stdout, unless the data is there.
    pub(super) fn new(output: Option<&Path>, format: ReportFormat) -> Result<Self, common::Failure> {
        let to_stderr = output.is_some_and(is_stdout);
        if to_stderr && format.is_for_programs() {
            return Err(common::Failure::new(
                "both the data and the report would go to stdout",
                "name a file with -o",
            ));
        }
        Ok(Self { format, to_stderr })
    }

    /// Prints a report for programs, or as `text` for people.
    pub(super) fn report<T: Serialize + Concluded>(
        self,
        origin: &Origin,
        report: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), common::Failure> {
        if self.to_stderr {
            terminal::print_note(&output::with_conclusion(&text(), report));
            return Ok(());
        }
        self.format.print(origin, report, "", text)
    }
}

/// The exit code of a check.
pub(super) fn code(report: &DecodeReport) -> ExitCode {
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

pub(super) fn encoded(report: &EncodeReport) -> String {
    let scheme = &report.scheme;
    let mut text = format!("{}\n{}", protected(scheme), grouped_count(report.pages, "page"));
    if report.erased_pages > 0 {
        text += &format!(", {} erased", grouped(report.erased_pages));
    }
    if report.padding_bytes > 0 {
        text += &format!(", the last one filled with {} FFh", grouped_count(report.padding_bytes, "byte"));
    }
    text + &format!("; {} written", grouped_count(report.written_bytes, "byte"))
}

fn protected(scheme: &floatgate_image::ecc::report::SchemeReport) -> String {
    if scheme.is_without_code() {
        return format!(
            "pages of {} + {} bytes, taken as they were read",
            scheme.page_bytes, scheme.oob_bytes
        );
    }
    format!(
        "pages of {} + {} bytes, {}, {} ECC bytes in the layout {}",
        scheme.page_bytes, scheme.oob_bytes, scheme.code, scheme.ecc_bytes, scheme.layout
    )
}

pub(super) fn decoded(report: &DecodeReport) -> String {
    let (erased, steps) = (&report.erased, &report.steps);
    let mut lines = vec![protected(&report.scheme)];
    let flips = match erased.bitflips {
        0 => String::new(),
        bits => {
            format!(" (in {} of them {} read 0)", grouped(erased.with_bitflips), grouped_count(bits, "bit"))
        }
    };
    lines.push(format!("pages   {}, {} erased{flips}", grouped(report.pages), grouped(erased.pages)));
    if report.scheme.is_without_code() {
        lines.push(format!("{} written", grouped_count(report.written_bytes, "byte")));
        lines.extend(report.bad_blocks.as_ref().map(|bad| bad_blocks(bad, true)));
        lines.extend(advice(report));
        return lines.join("\n");
    }
    lines.push(format!(
        "steps   {} with data: {} clean, {} corrected, {} uncorrectable",
        grouped(steps.total),
        grouped(steps.clean),
        grouped(steps.corrected),
        grouped(steps.uncorrectable)
    ));
    lines.push(format!(
        "bits    {} corrected, at most {} in a step",
        grouped(report.corrected_bits),
        report.max_corrected_bits
    ));
    lines.extend(report.columns.iter().map(column));
    lines.extend(report.bad_blocks.as_ref().map(|bad| bad_blocks(bad, report.written_bytes > 0)));
    lines.extend(histogram(report));
    lines.extend(failures(report));
    lines.extend(advice(report));
    lines.join("\n")
}

/// A stuck column of the chip.
fn column(column: &StuckColumn) -> String {
    let StuckColumn { byte, bits, value, pages, corrected_pages } = column;
    let what = match bits {
        0xFF => format!("reads {value:02x}h"),
        bits => format!("reads {value:02x}h in the bits {bits:02x}h"),
    };
    format!(
        "column  byte {byte} of each page is stuck: it {what} in all of {}, and the code corrects it in {}",
        grouped_count(u64::from(*pages), "page"),
        grouped(u64::from(*corrected_pages))
    )
}

pub(super) fn checked(checked: &Checked) -> String {
    let kind = checked.dump.as_ref().map(|dump| dump.kind);
    let mut lines: Vec<String> = checked.dump.iter().map(ToString::to_string).collect();
    lines.extend(checked.detection.iter().map(|detection| detected(detection, kind)));
    let is_one = checked.regions.len() == 1;
    lines.extend(checked.regions.iter().filter_map(|region| match &region.report {
        Some(report) if is_one => Some(decoded(report)),
        None if is_one => None,
        _ => Some(region_text(region)),
    }));
    lines.join("\n\n")
}

fn region_text(region: &CheckedRegion) -> String {
    let last = region.first_page + region.pages.saturating_sub(1);
    let place = format!("pages {} to {}: ", grouped(region.first_page), grouped(last));
    place
        + &match (&region.report, region.ecc) {
            (Some(report), _) => decoded(report),
            (None, Protection::None) => "the OOB holds no ECC".to_owned(),
            (None, _) => "no code fits".to_owned(),
        }
}

/// Advice where no code fits.
const UNFIT: &str = "Are these the sizes of page and OOB, and is it a raw dump, read with the ECC off? A controller may write \
             bits or bytes\nin an order of its own, or scramble the data.";

/// Advice where a code is the right one but for the number of wrong bits.
fn worn(c: &Candidate) -> String {
    let (explained, all) = (c.clean + c.corrected, c.clean + c.corrected + c.uncorrectable);
    format!(
        "{} explains {} of {}: the dump has it, and more wrong bits than it corrects. To decode what it can:\n  --code {} --layout {}",
        c.code,
        grouped(explained),
        grouped_count(all, "step"),
        c.code,
        c.layout
    )
}

fn detected(detection: &Detection, kind: Option<Kind>) -> String {
    let pages = grouped_count(detection.sampled_pages, "page");
    let tried = match detection.tried {
        0 => format!("the OOB of {pages} with data holds no ECC bytes"),
        tried => format!("{tried} codes and layouts tried on {pages} with data"),
    };
    if detection.found().is_none() {
        // Data without OOB were cut into pages at the wrong places: what comes nearest tells nothing.
        if kind == Some(Kind::DataOnly) && detection.worn().is_none() {
            return format!("no code fits: {tried}");
        }
        let nearest = match &*detection.candidates {
            [] => String::new(),
            nearest => format!("\n\n{}", candidates(nearest)),
        };
        return format!(
            "no code fits: {tried}{nearest}\n\n{}",
            detection.worn().map_or_else(|| UNFIT.to_owned(), worn)
        );
    }
    let several = match detection.candidates.len() {
        1 => "",
        _ => "\nseveral fit: parts of the dump were written with different codes",
    };
    let files = detection.candidates.iter().filter_map(|found| found.layout_file.as_deref());
    let files: String = files
        .map(|file| {
            // The text of the report is not that of the JSON, which would be shown on one line.
            let lines: String = file.lines().map(|line| format!("\n  {line}")).collect();
            format!("\n\nno known layout matches; as a file for --layout it is:\n{}", lines.trim_end())
        })
        .collect();
    let exchanged = match detection.transform {
        None => "",
        Some(Transform::SwapBytes) => "\nthe two bytes of each pair are exchanged in the dump",
        Some(Transform::ReverseBits) => "\nthe bits of each byte are in the other order in the dump",
        Some(Transform::Invert) => "\nall bits are inverted in the dump",
        Some(Transform::TwoChips) => {
            "\nthe bytes of two chips alternate in the dump, each with its own ECC; `ecc decode` writes their data in the same order"
        }
    };
    format!("{tried}\n\n{}{several}{exchanged}{files}", candidates(&detection.candidates))
}

fn candidates(candidates: &[Candidate]) -> String {
    let header = ["code", "layout", "clean steps", "corrected", "uncorrectable", "evidence", "confidence"];
    let mut table = Table::new(header).numbers(2..);
    for c in candidates {
        let evidence = measure(c.evidence_bits, "bit");
        let counts = [c.clean, c.corrected, c.uncorrectable].map(grouped);
        let confidence = format!("{:.1} %", (c.confidence * 1000.0).floor() / 10.0);
        table.row([c.code.clone(), c.layout.clone()].into_iter().chain(counts).chain([evidence, confidence]));
    }
    let rivals = candidates.iter().filter_map(rival);
    let same = candidates.iter().filter(|c| !c.same_as.is_empty());
    let same = same.map(|c| format!("{} has the same bytes as {}", c.layout, c.same_as.join(", ")));
    let notes: String = rivals.chain(same).map(|note| format!("\n{note}")).collect();
    format!("{table}{notes}")
}

/// The next best code, in words.
fn rival(c: &Candidate) -> Option<String> {
    let rival = c.runner_up.as_ref().filter(|rival| rival.evidence_bits > 0.0)?;
    let name = format!("{} in the layout {}", rival.code, rival.layout);
    let bits = measure(rival.evidence_bits, "bit");
    Some(if rival.evidence_bits + INDISTINGUISHABLE_BITS > c.evidence_bits {
        format!("these pages cannot distinguish {} in the layout {} from {name}: {bits}", c.code, c.layout)
    } else {
        format!("next best: {name}, {bits}")
    })
}

pub(super) fn merged(merged: &Merged, paths: &[&Path]) -> String {
    let report = &merged.report;
    let mut lines: Vec<String> = merged
        .schemes
        .iter()
        .map(|scheme| {
            format!("from page {} on: {}, layout {}", grouped(scheme.first_page), scheme.code, scheme.layout)
        })
        .collect();
    if merged.schemes.is_empty() {
        lines.push("no ECC code: bits are those of the majority".to_owned());
    }
    lines.push(format!(
        "pages   {}, the dumps disagree on {} in {}",
        grouped(report.pages),
        grouped_count(report.bits_that_differ, "bit"),
        grouped_count(report.pages_that_differ, "page")
    ));
    if report.undecided_bits > 0 {
        lines.push(format!("votes   {} without a majority", grouped_count(report.undecided_bits, "bit")));
    }
    let steps = &report.steps;
    if steps.total > 0 {
        lines.push(format!(
            "steps   {} with data: {} right by vote, {} by one dump, {} by combination, {} uncorrectable",
            grouped(steps.total),
            grouped(steps.by_vote),
            grouped(steps.by_one_dump),
            grouped(steps.by_combination),
            grouped(steps.uncorrectable)
        ));
    }
    let mut table = Table::new(["dump", "pages", "wrong bits", "uncorrectable alone"]).numbers(1..);
    for (dump, path) in report.dumps.iter().zip(paths) {
        let counts = [dump.pages, dump.wrong_bits, dump.uncorrectable_alone].map(grouped);
        table.row([path.display().to_string()].into_iter().chain(counts));
    }
    lines.push(format!("\n{table}"));
    lines.extend(listed(&report.uncorrectable, steps.uncorrectable));
    if report.rest_bytes > 0 {
        lines.push(format!(
            "\nthe last {} are no whole page and were left out",
            grouped_count(report.rest_bytes, "byte")
        ));
    }
    lines.join("\n")
}

/// Name of a part that alternates.
fn part_name(striping: Striping) -> String {
    let Striping { stripe, unit_bytes, first } = striping;
    match stripe {
        StripeUnit::Chip => "one chip after the other".to_owned(),
        StripeUnit::Byte => format!("bytes, dump {first} first"),
        StripeUnit::Word => format!("pairs of bytes, dump {first} first"),
        StripeUnit::Page => format!("pages of {unit_bytes} bytes, dump {first} first"),
        StripeUnit::Block => format!("blocks of {unit_bytes} bytes, dump {first} first"),
    }
}

pub(super) fn joined(joined: &Joined) -> String {
    let mut lines = vec![format!("order    {}", part_name(joined.striping))];
    if let Some(found) = &joined.found {
        lines.push(format!(
            "found    {} of evidence, confidence {:.1} %, of {}; {} whole, {} not",
            measure(found.evidence_bits, "bit"),
            (found.confidence * 1000.0).floor() / 10.0,
            grouped_count(found.tried, "order"),
            grouped_count(found.structures, "structure"),
            grouped(found.broken)
        ));
        let runner_up = found.runner_up.as_ref().map(|other| {
            let is_equal = other.evidence_bits + INDISTINGUISHABLE_BITS > found.evidence_bits;
            let what = if is_equal { "these dumps cannot distinguish it from:" } else { "next best:" };
            format!("{what} {}, {}", part_name(other.striping), measure(other.evidence_bits, "bit"))
        });
        lines.extend(runner_up);
    }
    lines.push(format!("written  {}", grouped_count(joined.written_bytes, "byte")));
    if joined.rest_bytes > 0 {
        lines.push(format!(
            "left out {} at the end of the longer dump",
            grouped_count(joined.rest_bytes, "byte")
        ));
    }
    lines.join("\n")
}

fn bad_blocks(bad: &BadBlockReport, is_written: bool) -> String {
    if bad.count == 0 {
        return format!("blocks  {}, none marked bad", grouped(bad.blocks));
    }
    let first: Vec<String> = bad.bad.iter().take(BLOCKS).map(u64::to_string).collect();
    let more = if bad.count > BLOCKS as u64 { " ..." } else { "" };
    let fate = if bad.skipped { "left out" } else { "kept: what follows stays where it was" };
    let raw = match (bad.uncorrectable_steps, is_written && !bad.skipped) {
        (0, _) => String::new(),
        (steps, false) => format!("\n        {} in them", grouped_count(steps, "uncorrectable step")),
        (steps, true) => format!(
            "\n        {} in them, written as read: --bad-blocks skip leaves them out",
            grouped_count(steps, "uncorrectable step")
        ),
    };
    format!(
        "blocks  {}, {} marked bad ({fate}): {}{more}{raw}",
        grouped(bad.blocks),
        grouped(bad.count),
        first.join(" ")
    )
}

fn histogram(report: &DecodeReport) -> Option<String> {
    let most = report.histogram.iter().map(|bar| bar.steps).max()?;
    let mut table = Table::new(["bits in a step", "steps", ""]).numbers(..2);
    for bar in &report.histogram {
        // At least one block: what is there is seen.
        let length = (bar.steps * 30).div_ceil(most) as usize;
        table.row([bar.bits.to_string(), grouped(bar.steps), "█".repeat(length)]);
    }
    Some(format!("\n{table}"))
}

fn failures(report: &DecodeReport) -> Option<String> {
    let fate =
        if report.written_bytes > 0 { "\nwhat is uncorrectable was written as it was read" } else { "" };
    Some(format!("{}{fate}", listed(&report.uncorrectable, report.steps.uncorrectable)?))
}

/// The first uncorrectable steps of `count`.
fn listed(uncorrectable: &[Failure], count: u64) -> Option<String> {
    if uncorrectable.is_empty() {
        return None;
    }
    let mut table = Table::new(["uncorrectable at byte", "page", "block", "step"]).numbers(..);
    for failure in uncorrectable.iter().take(LINES) {
        let block = failure.block.map_or("?".to_owned(), grouped);
        let row = [format!("{:#x}", failure.offset), grouped(failure.page), block, failure.step.to_string()];
        table.row(row);
    }
    let more = count.saturating_sub(LINES as u64);
    let more = if more > 0 {
        format!("\nand {} more; --json lists up to 1000", grouped(more))
    } else {
        String::new()
    };
    Some(format!("\n{table}{more}"))
}

/// Explanation of a result that is not good, with advice.
fn advice(report: &DecodeReport) -> Vec<String> {
    let mut advice = Vec::new();
    if report.rest_bytes > 0 {
        advice.push(format!(
            "\nthe last {} are no whole page and were not checked: is the dump cut off, or is a page of another size?",
            grouped_count(report.rest_bytes, "byte")
        ));
    }
    if report.too_many_bad() {
        advice.push(
            "\nmore blocks are marked bad than any chip has: are these the sizes of page and OOB?".to_owned(),
        );
    }
    if 2 * report.steps.uncorrectable > report.steps.total {
        advice.push(
            "\nhardly anything fits: `floatgate ecc check FILE` without --code tries the usual codes"
                .to_owned(),
        );
    }
    advice
}
