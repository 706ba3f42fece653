//! Parts of reports for people.

use crate::common::{self, grouped, grouped_count};
use crate::output::{self, ReportFormat};
use crate::table::Table;
use crate::terminal;
use floatgate_host::output::is_stdout;
use floatgate_image::dump_kind::Kind;
use floatgate_image::ecc::report::{BadBlockReport, DecodeReport, Failure};
use floatgate_image::ecc::{Candidate, Detection, EncodeReport, StuckColumn, Transform};
use floatgate_image::words::measure;
use floatgate_lab::report::{Concluded, Origin};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// Largest number of uncorrectable steps that the text lists; JSON has more.
const LINES: usize = 10;

/// Largest number of bad blocks that the text lists.
const BLOCKS: usize = 20;

/// Difference in evidence below which pages do not distinguish two layouts, bits.
pub(super) const INDISTINGUISHABLE_BITS: f64 = 3.3;

/// Output of a report.
#[derive(Clone, Copy)]
pub(super) struct ReportDestination {
    format: ReportFormat,
    to_stderr: bool,
}

impl ReportDestination {
    /// Output on stdout, unless the data goes there.
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

    /// Prints a report as JSON or CSV, or as `text`.
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

/// Exit code of a check.
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

/// Text about a stuck column of the chip.
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

/// Advice if no code fits.
const UNFIT: &str = "Are these the sizes of page and OOB, and is it a raw dump, read with the ECC off? A controller may write \
             bits or bytes\nin an order of its own, or scramble the data.";

/// Advice about a code that is right except for the number of wrong bits.
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

pub(super) fn detected(detection: &Detection, kind: Option<Kind>) -> String {
    let pages = grouped_count(detection.sampled_pages, "page");
    let tried = match detection.tried {
        0 if detection.is_oob_blank => format!("the OOB of {pages} with data holds no ECC bytes"),
        0 => format!("the OOB of {pages} with different data is nearly the same, so it shows no code"),
        tried => format!("{tried} codes and layouts tried on {pages} with data"),
    };
    if detection.found().is_none() {
        // Data without OOB was split into pages at the wrong positions, so the best code has no meaning.
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
            // The text of the report contains the file on several lines; JSON has it as one string.
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

/// Text about the next best code.
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
        // At least one block, so that every bar is visible.
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

/// Text about the first uncorrectable steps of `count`.
pub(super) fn listed(uncorrectable: &[Failure], count: u64) -> Option<String> {
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

/// Explanation of a bad result, with advice.
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
