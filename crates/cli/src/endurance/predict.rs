//! `floatgate endurance CHIP --predict TRACE`.

use super::Args;
use crate::common::{self, Failure, Outcome};
use crate::output;
use crate::table::Table;
use floatgate_lab::endurance::Subject;
use floatgate_lab::endurance::predict::{self, Interval, Prediction};
use floatgate_lab::report::ResultKind;
use std::path::Path;
use std::process::ExitCode;

/// Largest trace that is read: a measurement for each of a million cycles is a third of it.
const TRACE_BYTES_MAX: u64 = 64 << 20;

/// Content of a trace.
const WHAT: &str =
    "a line for each measurement: cycle,program_us,erase_us; --example-trace 0.4 prints an example";

/// Measurements of an example.
const SAMPLES: u32 = 12;

pub(super) fn run(args: &Args, file: &Path) -> Outcome {
    let subject = subject(args)?;
    let text = common::read_text(file, TRACE_BYTES_MAX, WHAT)?;
    let samples =
        predict::parse(&text).map_err(|error| Failure::new(format!("{}: {error}", file.display()), WHAT))?;
    let prediction = predict::predict(&subject, &args.experiment(), &samples)?;
    args.format
        .finish(&args.origin(ResultKind::EndurancePredict), &prediction, "", || shown(&subject, &prediction))
}

/// Times of the first block of the first chip.
pub(super) fn example(args: &Args, share: f64) -> Outcome {
    if !(0.0..=1.0).contains(&share) {
        return Err(Failure::new(format!("{share} is no share of a life"), "choose a number from 0 to 1"));
    }
    let subject = subject(args)?;
    let experiment = args.experiment();
    experiment.check()?;
    let mut text = "cycle,program_us,erase_us\n".to_owned();
    for s in predict::measured(&subject.block_life(&experiment, 0, 0), share, SAMPLES) {
        let [cycle, program, erase] =
            [s.cycle.map(|c| c as f64), s.program_us, s.erase_us].map(Option::unwrap_or_default);
        text += &format!("{cycle},{program},{erase}\n");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn subject(args: &Args) -> Result<Subject, Failure> {
    let first = args.subjects()?.into_iter().next();
    first.ok_or_else(|| Failure::new("no chip is named", "name one: see `floatgate parts`"))
}

fn shown(subject: &Subject, p: &Prediction) -> String {
    let measured = common::count(p.samples, "measurement");
    let when =
        p.cycle.map_or_else(String::new, |cycle| format!(", the last at cycle {}", common::grouped(cycle)));
    let mut table = Table::new(["", "most likely", "with 90 % between", "and"]).numbers(1..);
    let mut row = |name: &str, of: &Interval, show: fn(f64) -> String| {
        table.row([name.to_owned(), show(of.median), show(of.low), show(of.high)]);
    };
    row("life used", &p.used, |x| format!("{:.1} %", x * 100.0));
    row("cycles left", &p.remaining, cycles);
    if let Some(alone) = &p.remaining_by_count {
        row("by the cycle count alone", alone, cycles);
    }
    let mut text = format!("{}: {}\n{measured}{when}\n{table}", p.chip, subject.title);
    p.notes.iter().for_each(|note| text += &format!("\nnote: {note}"));
    text
}

fn cycles(value: f64) -> String {
    common::grouped(value.max(0.0).round() as u64)
}
