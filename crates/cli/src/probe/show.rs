//! Text and pictures of a probe.

use crate::common::{self, Failure};
use crate::table::Table;
use floatgate_lab::plot::{Curve, Panel, panels};
use floatgate_mtd::size::text as size;
use floatgate_probe::partition::{Partition, Table as PartitionTable};
use floatgate_probe::picture::{Picture, pictures};
use floatgate_probe::{Answer, IMAGE, Report, Samples, Value, Verdict};
use std::path::Path;

/// Writes pictures of the samples.
pub(super) fn draw(path: &Path, report: &Report, samples: &Samples) -> Result<(), Failure> {
    let panel = |picture: Picture| Panel {
        title: picture.title.to_owned(),
        axes: picture.axes,
        is_log: picture.is_log,
        is_joined: picture.is_joined,
        series: picture
            .series
            .into_iter()
            .map(|(name, points)| Curve { name: name.to_owned(), points })
            .collect(),
    };
    let all: Vec<Panel> = pictures(samples, &report.answers).into_iter().map(panel).collect();
    if all.is_empty() {
        return Err(Failure::new("--plot: there are no samples", "logs of other tools have none; use --raw"));
    }
    let count = samples.all.len();
    common::write_picture(
        path,
        &panels(&format!("Probe of {}", report.target), &format!("{count} samples"), &all),
    )
}

/// Text about the partitions.
fn partitions(report: &Report) -> String {
    let Some(layout) = &report.partition else { return String::new() };
    let mut text = match layout.table {
        PartitionTable::Mbr => "\npartition table: MBR\n".to_owned(),
        PartitionTable::Gpt => "\npartition table: GPT\n".to_owned(),
        PartitionTable::None => "\nno partition table\n".to_owned(),
    };
    for partition in &layout.partitions {
        text += &format!("  {}\n", partition_text(partition));
    }
    for finding in &layout.findings {
        text += &format!("finding: {finding}\n");
    }
    text
}

fn partition_text(partition: &Partition) -> String {
    let place = format!("{} at {}", size(partition.bytes), size(partition.start_bytes));
    let text = match partition.number {
        0 => place,
        number => format!("partition {number}: {place}"),
    };
    let Some(found) = partition.filesystem else { return text };
    format!(
        "{text}, {} with clusters of {}, FAT from {} to {}, file data from {}",
        found.kind,
        size(found.cluster_bytes),
        size(found.fat_start_bytes),
        size(found.fat_end_bytes),
        size(found.data_start_bytes)
    )
}

/// Text about the classes that the card states.
fn classes(report: &Report) -> String {
    let mut text = String::new();
    for Verdict { class, source, holds, reason, .. } in &report.classes {
        let holds = match holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "is not tested",
        };
        text += &format!("class {class} ({source}) {holds}: {reason}\n");
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Text about the registers.
fn statements(report: &Report) -> String {
    let Some(stated) = &report.registers else { return String::new() };
    let mut words = Vec::new();
    if let Some(card) = &stated.identification {
        words.push(format!(
            "maker {:#04x} {}, {} {}, serial {:#010x}, {}",
            card.manufacturer_id,
            card.oem,
            card.name,
            card.revision,
            card.serial,
            card.made()
        ));
    }
    words.extend(stated.capacity_bytes.map(size));
    words.extend(stated.specification.map(|version| format!("SD specification {version}")));
    let status = stated.status.unwrap_or_default();
    words.extend(status.speed_class.map(|class| format!("class {class}")));
    words.extend(status.uhs_grade.map(|grade| format!("U{grade}")));
    words.extend(status.video_class.map(|class| format!("V{class}")));
    words.extend(status.app_class.map(|class| format!("A{class}")));
    words.extend(status.au_bytes.map(|bytes| format!("AU {}", size(bytes))));
    words.extend(stated.life.and_then(|life| life.words()));
    let mut text = format!("\nthe card states: {}\n", words.join(", "));
    for disagreement in &report.disagreements {
        text += &format!("disagreement: {disagreement}\n");
    }
    text
}

/// Text of a report. `tool` names the tool that wrote the log.
pub(super) fn text(report: &Report, tool: Option<&str>) -> String {
    let mut table = Table::new(["question", "answer", "confidence", "reason"]).numbers(2..3);
    let unanswered = report.answers.all().into_iter().filter(|(_, answer)| answer.reason == IMAGE).count();
    for (name, answer) in report.answers.all().into_iter().filter(|(_, answer)| answer.reason != IMAGE) {
        let confidence = format!("{:.0} %", answer.confidence * 100.0);
        table.row([name.replace('_', " "), value(answer), confidence, reason(answer)]);
    }
    let Report { target, capacity_bytes, samples, .. } = report;
    let measured = tool.map_or_else(
        || {
            let samples = common::grouped_count(*samples as u64, "sample");
            format!("{}, {samples}{}", size(*capacity_bytes), cost(report))
        },
        |tool| format!("log of {tool}"),
    );
    let table = match unanswered {
        0 => table.to_string(),
        _ if unanswered == report.answers.all().len() => format!("{IMAGE}\n"),
        _ => format!("{IMAGE}\n\n{table}"),
    };
    let (classes, statements, partitions) = (classes(report), statements(report), partitions(report));
    let report = format!("{target}: {measured}\n\n{table}{classes}{statements}{partitions}");
    report.trim_end().to_owned()
}

/// Text about the time and the bytes of the probe, which files of earlier versions do not contain.
fn cost(report: &Report) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    match report.time_s {
        0.0 => String::new(),
        seconds => format!(
            "; {seconds:.1} s of the device, {} MiB read, {} MiB written",
            mib(report.read_bytes),
            mib(report.written_bytes)
        ),
    }
}

fn value(answer: &Answer) -> String {
    match answer.value {
        None => "?".to_owned(),
        Some(value) => quantity(value, answer.unit),
    }
}

fn quantity(value: Value, unit: &str) -> String {
    match value {
        Value::Count(bytes) if unit == "B" => size(bytes),
        Value::Count(count) => format!("{count} {unit}"),
        Value::Measure(us) if unit == "us" => floatgate_mtd::Nanos::from_ns((us * 1e3) as u64).to_string(),
        Value::Measure(measure) => format!("{measure} {unit}"),
        Value::Word(word) => word.to_owned(),
    }
}

fn reason(answer: &Answer) -> String {
    let others = answer.alternatives.iter().take(2);
    let others: Vec<String> = others
        .map(|other| format!("{} ({:.0} %)", quantity(other.value, answer.unit), other.confidence * 100.0))
        .collect();
    match others.is_empty() {
        true => answer.reason.clone(),
        false => format!("{}; or {}", answer.reason, others.join(", ")),
    }
}
