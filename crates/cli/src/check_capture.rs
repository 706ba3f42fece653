//! `floatgate check-capture`: verdict of a simulated chip on the commands in a logic analyser's capture.

use crate::common::{self, Failure, Outcome};
use crate::output::ReportFormat;
use crate::terminal;
use floatgate_capture::{Capture, Channels, Error, check, read};
use floatgate_config::{Library, Override};
use floatgate_lab::capture_check::CheckedCapture;
use floatgate_lab::report::ResultKind;
use floatgate_mtd::Nanos;
use floatgate_sim::rig::{self, RigOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate check-capture capture.csv --part w25q128jv
  floatgate check-capture capture.csv --part w25q128jv --json

Decodes the commands in a capture and sends them to the simulated chip, at the times of the capture. The capture is a VCD file, a session of sigrok (.sr), digital \
samples as CSV, or a table of the SPI decoder of Saleae Logic. Commands of the part on two, four and eight lines are decoded, if the capture has these lines.

Exit status 1: a command breaks a rule of the chip.")]
pub(crate) struct Args {
    /// Capture: VCD, CSV or a session of sigrok; - is stdin
    file: PathBuf,

    /// Chip, a SPI NOR or SPI NAND, or a setup with that chip
    #[arg(long, value_name = "PART")]
    part: PathBuf,

    /// Override any field of the setup and its chip
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Channel of CS# [default: CS, SS, ENABLE and similar names]
    #[arg(long, value_name = "CHANNEL")]
    cs: Option<String>,

    /// Channel of the clock [default: CLK, SCK, SCLK]
    #[arg(long, value_name = "CHANNEL")]
    clk: Option<String>,

    /// Channel of the data to the chip [default: MOSI, SI, DI, IO0]
    #[arg(long, value_name = "CHANNEL")]
    mosi: Option<String>,

    /// Channel of the data from the chip [default: MISO, SO, DO, IO1]
    #[arg(long, value_name = "CHANNEL")]
    miso: Option<String>,

    /// Channels of the other data lines, from IO2 on, separated by commas [default: IO2, WP#, IO3, HOLD#, IO4 and similar names]
    #[arg(long, value_name = "CHANNEL,..", value_delimiter = ',')]
    lines: Vec<String>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let file = if args.file.as_os_str() == "-" { Path::new("/dev/stdin") } else { &args.file };
    let bytes =
        common::read_bytes(file, CAPTURE_MAX, "name a capture as VCD or CSV, or a session of sigrok")?;
    let channels = Channels {
        cs: args.cs.clone(),
        clk: args.clk.clone(),
        mosi: args.mosi.clone(),
        miso: args.miso.clone(),
        lines: args.lines.clone(),
    };
    let Capture { windows, cut_off_ns, begins_within, ends_within_line, unresolved_clock } =
        read(&bytes, &channels).map_err(|error| failure(args, &error))?;
    let library = Library::built_in();
    let config = library.resolve(&library.setup(&args.part)?, &Override::parse_all(&args.set)?)?;
    let mut pins = rig::pins(&config, RigOptions { stores: false, ..RigOptions::default() })?;
    let report = check(&windows, &mut pins).ok_or_else(|| {
        Failure::new(format!("{} is on a parallel bus", config.part().name), "name a SPI NOR or a SPI NAND")
    })?;
    if begins_within {
        terminal::print_note("the capture begins within a command; this command is ignored");
    }
    if ends_within_line {
        terminal::print_note("the file ends within a line; this line is ignored");
    }
    if let Some(ns) = cut_off_ns {
        let at = Nanos::from_ns(ns);
        terminal::print_note(&format!(
            "the capture ends within the command at {at}; this command is ignored"
        ));
    }
    if unresolved_clock {
        terminal::print_note(
            "the times of the capture do not resolve the clock of each command; clock limits are not checked there",
        );
    }
    if report.quad_enabled {
        terminal::print_note(
            "the capture uses four data lines before it writes a register: the simulated chip starts with its quad enable bit set",
        );
    }
    let checked = CheckedCapture { part: config.part().name.clone(), checked: report };
    let origin = ResultKind::CheckCapture.of(&args.file).with(&args.set);
    args.format.print_report(&origin, &checked)?;
    Ok(if checked.checked.violation_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn failure(args: &Args, error: &Error) -> Failure {
    let help = match error {
        Error::NoChannel { names, .. } if names.iter().any(|name| name.ends_with("_activity")) => {
            "`trace --vcd` writes no pins: write the file with `floatgate trace SETUP OPERATION --pins FILE.vcd`"
        }
        Error::NoChannel { .. } => "name the channels with --cs, --clk, --mosi, --miso and --lines",
        Error::NoLevels => "leave out --cs, --clk, --mosi, --miso and --lines",
        Error::Empty => "look whether CS# is captured, and named with --cs",
        Error::Session(_) => {
            "save the session again, or convert it: sigrok-cli -i FILE.sr -O vcd -o FILE.vcd"
        }
        _ => "export the capture as VCD or CSV, or the table of its SPI decoder as CSV",
    };
    Failure::new(format!("{}: {error}", args.file.display()), help)
}

/// Size of the largest capture, bytes.
const CAPTURE_MAX: u64 = 1 << 30;
