//! `floatgate speed --sweep`.

use super::Args;
use crate::common::{self, Failure, Named, Outcome, SetupArgs};
use crate::terminal;
use clap::builder::PossibleValuesParser;
use floatgate_config::sweep;
use floatgate_lab::report::ResultKind;
use floatgate_lab::results::{self, SpeedSweep, SweepView};
use floatgate_lab::speed_run;
use std::process::ExitCode;

/// Names that `--sort` accepts.
pub(super) fn test_names() -> PossibleValuesParser {
    PossibleValuesParser::new(results::test_names())
}

pub(super) fn run(args: &Args, setup: &SetupArgs, named: &Named) -> Outcome {
    let combinations = sweep(&named.library, &args.sweep)?;
    let columns = results::columns(args.fs.is_some());
    if let Some(by) = args.sort.as_deref().filter(|by| !columns.iter().any(|(name, _)| name == by)) {
        let names = columns.map(|(name, _)| name).join(", ");
        return Err(Failure::new(
            format!("--sort {by}: this sweep has no such test"),
            format!("sort by {names}"),
        ));
    }
    let outcomes = speed_run::sweep(
        &named.library,
        &named.named.setup,
        (&named.named.own_sets, named.named.corner),
        named.options,
        &args.tests(),
        &combinations,
        args.keep_going,
    )
    .map_err(|error| {
        let others = speed_run::refuses_a_value(&error) && !args.keep_going && combinations.len() > 1;
        let failure = Failure::from(error);
        if others { failure.and("--keep-going measures the other combinations") } else { failure }
    })?;
    // Formats for programs have no title, and the setup without the values of the sweep need not be valid.
    let has_title = !args.format.is_for_programs();
    let title = if has_title { speed_run::title(&named.config()?) } else { String::new() };
    let view = SweepView {
        title,
        board: named.board().map_or_else(|| setup.setup.display().to_string(), str::to_owned),
        sweeps: args.sweep.clone(),
        sort: args.sort.clone(),
    };
    let swept = SpeedSweep::new(&combinations, outcomes, view);
    common::draw(args.plot.as_deref(), &swept)?;
    args.format.print_report(&named.origin(ResultKind::SpeedSweep), &swept)?;
    Ok(print_refused(&swept))
}

/// Prints the number of impossible combinations. The exit status is 1 if there are any, as in `floatgate sweep`.
fn print_refused(swept: &SpeedSweep) -> ExitCode {
    let mut reasons = swept.refused();
    let Some(first) = reasons.next() else { return ExitCode::SUCCESS };
    let (refused, all) = (1 + reasons.count(), common::count(swept.rows.len(), "combination"));
    terminal::print_note(&format!(
        "{refused} of {all} cannot be had (`refused`), the first because: {first}"
    ));
    ExitCode::FAILURE
}
