//! The report as text.

use crate::common;
use crate::output;
use crate::table::Table;
use floatgate_lab::endurance::{Experiment, Latency, Pages, Pattern, Promise, Report};

/// One chip in full.
pub(super) fn one(report: &Report) -> String {
    let mut text = format!("{}: {}\n{}\n", report.chip, report.title, experiment(&report.experiment));
    text += &evidence(report);
    text += &notes(report);
    text += &format!("\n{}\n", lives(report));
    text += &histogram(report);
    text += &format!("\n{}\n", latencies(report));
    text += &format!("\n{}", trace(report));
    text
}

/// A NOR by its data sheet.
pub(super) fn promise(promise: &Promise) -> String {
    let Promise { chip, title, promised_cycles, promised_retention_years, erases, .. } = promise;
    let stated = |what: &str, number: Option<String>| {
        number.map_or_else(|| format!("no {what}"), |number| format!("{number} {what}"))
    };
    let mut text = format!(
        "{chip}: {title}\nits data sheet promises {} of a block and {} of retention\nlives of blocks of NOR are not published: nothing is simulated\n",
        stated("erase cycles", promised_cycles.map(common::grouped)),
        stated("years", promised_retention_years.map(|years| years.to_string()))
    );
    if !erases.is_empty() {
        let mut table = Table::new(["erase, us", "typical", "at most"]).numbers(1..);
        for erase in erases {
            table.row([common::size(erase.bytes.into()), us(erase.typical_us), us(erase.max_us)]);
        }
        text += &format!("\n{table}\n");
    }
    text
}

/// Many chips, a line each.
pub(super) fn all(reports: &[Report]) -> String {
    let header = ["chip", "cell", "data sheet", "min", "median", "max", "mean", "times"];
    let mut lives = Table::new(header).numbers(2..);
    let header = ["us", "read", "program", "typical", "at the end", "erase", "typical", "at the end"];
    let mut times = Table::new(header).numbers(1..);
    for r in reports {
        let l = &r.life;
        let times_nominal = format!("{:.1}", l.over_nominal);
        let row = [r.nominal_cycles, l.min, l.median, l.max, l.mean.round() as u64].map(common::grouped);
        let [nominal, min, median, max, mean] = row;
        lives.row([r.chip.clone(), cell(r), nominal, min, median, max, mean, times_nominal]);
        let [p0, p1, p2] = r.program.as_ref().map_or_else(|| ["-"; 3].map(str::to_owned), three);
        let [e0, e1, e2] = three(&r.erase);
        times.row([r.chip.clone(), us(r.read_us), p0, p1, p2, e0, e1, e2]);
    }
    let what = reports.first().map_or_else(String::new, |r| experiment(&r.experiment));
    let mut text = format!("{what}\n\ncycles until the status fails\n{lives}\n\n");
    text += &format!("latency: first 100 cycles, mean of the first 10 000 (typical), last 100\n{times}");
    let mut said: Vec<&String> = Vec::new();
    for note in reports.iter().flat_map(|r| &r.notes) {
        if !said.contains(&note) {
            text += &format!("\nnote: {note}");
            said.push(note);
        }
    }
    text
}

fn cell(report: &Report) -> String {
    match report.bits_per_cell {
        1 => "SLC".to_owned(),
        2 => "MLC".to_owned(),
        3 => "TLC".to_owned(),
        n => format!("{n} bits"),
    }
}

fn experiment(e: &Experiment) -> String {
    let data = match e.pattern {
        Pattern::Zeroes => "zeroes",
        Pattern::Ones => "ones",
        Pattern::Random => "random data",
        Pattern::Checker => "a checkerboard",
    };
    let cycle = match e.pages {
        _ if e.erase_only => "erased without programming".to_owned(),
        Pages::One => format!("one page of {data} programmed, block erased"),
        Pages::All => format!("all pages programmed with {data}, block erased"),
    };
    let turn = if e.interleave > 1 { format!(", {} blocks in turn", e.interleave) } else { String::new() };
    format!(
        "{} of {}, seed {}: {cycle}, until the status fails; {} C{turn}",
        common::count(e.blocks as usize, "block"),
        common::count(e.chips as usize, "chip"),
        e.seed,
        e.temperature_c
    )
}

fn evidence(report: &Report) -> String {
    match report.confidence {
        Some(sure) => format!(
            "wear as measured on this chip; the lowest confidence of its values is {:.0} % (floatgate parts {})\n",
            sure * 100.0,
            report.part
        ),
        None => "wear typical of its kind, not measured on this chip\n".to_owned(),
    }
}

fn notes(report: &Report) -> String {
    report.notes.iter().fold(String::new(), |text, note| text + "note: " + note + "\n")
}

fn lives(report: &Report) -> String {
    let l = &report.life;
    let header = ["cycles", "min", "median", "max", "mean", "deviation", "data sheet", "mean is"];
    let mut table = Table::new(header).numbers(1..);
    let [min, median, max, mean, sd, nominal] =
        [l.min, l.median, l.max, l.mean.round() as u64, l.sd.round() as u64, report.nominal_cycles]
            .map(common::grouped);
    let times = format!("{:.1} times it", l.over_nominal);
    table.row(["until failure".to_owned(), min, median, max, mean, sd, nominal, times]);
    format!("{table}\narray busy for {:.1} hours a block", report.busy_hours)
}

/// Longest bar, columns.
const BAR: usize = 40;

fn histogram(report: &Report) -> String {
    let bins = &report.life.histogram;
    let most = bins.iter().map(|b| b.blocks).max().unwrap_or(1).max(1);
    let ranges: Vec<String> =
        bins.iter().map(|b| format!("{} to {}", common::grouped(b.from), common::grouped(b.to))).collect();
    let widest = ranges.iter().map(String::len).max().unwrap_or(0);
    let mut text = "\nblocks by cycles\n".to_owned();
    // Indentation, count and the spaces between them take 12 columns.
    let longest = output::width().saturating_sub(widest + 12).clamp(1, BAR) as u64;
    for (bin, range) in bins.iter().zip(&ranges) {
        let length = (u64::from(bin.blocks) * longest).div_ceil(u64::from(most));
        let bar = "█".repeat(usize::try_from(length).unwrap_or(0));
        text += &format!("  {range:>widest$}  {:>6}  {bar}\n", bin.blocks);
    }
    text
}

fn latencies(report: &Report) -> String {
    let header =
        ["us", "first 100", "typical (first 10 000)", "last 100", "fastest", "slowest", "last / first"];
    let mut table = Table::new(header).numbers(1..);
    let mut row = |name: &str, l: &Latency| {
        let [first, typical, last] = three(l);
        let change = format!("{:.2}", l.change);
        table.row([name.to_owned(), first, typical, last, us(l.fastest_us), us(l.slowest_us), change]);
    };
    if let Some(program) = &report.program {
        row("program", program);
    }
    row("erase", &report.erase);
    let read = us(report.read_us);
    let same = [read.clone(), read.clone(), read.clone(), read.clone(), read, "1.00".to_owned()];
    table.row(std::iter::once("read".to_owned()).chain(same));
    table.to_string()
}

fn three(l: &Latency) -> [String; 3] {
    [l.first_100_us, l.typical_us, l.last_100_us].map(us)
}

fn us(value: f64) -> String {
    format!("{value:.1}")
}

fn trace(report: &Report) -> String {
    let mut table = Table::new(["from cycle", "share of its life", "program us", "erase us"]).numbers(..);
    let points = &report.trace.points;
    let last = points.last().map_or(1, |p| p.cycle).max(1);
    for point in points {
        let share = format!("{:.2} %", point.cycle as f64 / last as f64 * 100.0);
        let program = point.program_us.map_or_else(|| "-".to_owned(), us);
        table.row([common::grouped(point.cycle), share, program, us(point.erase_us)]);
    }
    format!(
        "program and erase times of the block with the median life (chip {}, block {}), at each change\n{table}",
        report.trace.chip, report.trace.block
    )
}
