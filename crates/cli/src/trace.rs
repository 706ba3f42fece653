//! `floatgate trace`.

use crate::common::{self, Failure, Grounded, Outcome, PartitionArg, SetupArgs};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use clap::builder::PossibleValuesParser;
use floatgate_capture::{export, pins};
use floatgate_lab::report::ResultKind;
use floatgate_lab::trace::{self, Operation};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate trace am62a-w35n01jw read-page
  floatgate trace am62a-w35n01jw read-block --set driver.continuous=true
  floatgate trace rww-mx25uw51245g read-while-write --plot rww.svg
  floatgate trace imx6-mx30lf2g18ac erase --corner max
  floatgate trace imx6-mx30lf2g18ac write-file
  floatgate trace am62a-w35n01jw write-page --perfetto write.json --vcd write.vcd
  floatgate trace qca9558-s25fl064k write-page --pins write.vcd
  floatgate trace imx6-mx30lf2g18ac read-2-pages --json")]
pub(crate) struct Args {
    #[command(flatten)]
    setup: SetupArgs,

    #[command(flatten)]
    partition: PartitionArg,

    /// Operation to trace
    #[arg(value_parser = PossibleValuesParser::new(Operation::ALL.map(|(name, _)| name)))]
    operation: String,

    /// Draw the waterfall into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<OutputFile>,

    /// Write a value change dump (VCD), for GTKWave and Surfer
    #[arg(long, value_name = "FILE.vcd")]
    vcd: Option<OutputFile>,

    /// Write the signals at the pins of a serial chip, like a capture of a logic analyser, for sigrok, PulseView and check-capture
    #[arg(long, value_name = "FILE.vcd")]
    pins: Option<OutputFile>,

    /// Write trace events as JSON, for Perfetto (ui.perfetto.dev) and speedscope
    #[arg(long, value_name = "FILE.json")]
    perfetto: Option<OutputFile>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    let wanted = Operation::ALL.into_iter().find(|(name, _)| *name == args.operation);
    let operation = wanted.map_or(Operation::ReadPage, |(_, operation)| operation);
    let setup = args.setup.sized(args.partition)?;
    let named = setup.open()?;
    let traced = trace::trace(&named.library, &named.config()?, named.options, operation)?;
    common::draw(args.plot.as_deref(), &traced)?;
    if let Some(path) = &args.vcd {
        common::write_file(path, &export::vcd(&traced.spans))?;
    }
    if let Some(path) = &args.pins {
        if traced.transfers.is_empty() {
            let help =
                "choose a setup with a SPI NOR or SPI NAND, or --vcd for the activities of every resource";
            return Err(Failure::new("no signals were sent to a serial chip", help));
        }
        common::write_file(path, &pins::vcd(&traced.transfers))?;
    }
    if let Some(path) = &args.perfetto {
        let title = format!("{} on {}", traced.operation, traced.title);
        common::write_file(path, &export::perfetto(&traced.spans, &title))?;
    }
    let basis = named.basis(|config| {
        let traced = trace::trace(&named.library, config, named.options, operation).ok()?;
        Some(traced.ns)
    })?;
    args.format.print_report(&named.origin(ResultKind::Trace), &Grounded { answer: traced, basis })?;
    Ok(ExitCode::SUCCESS)
}
