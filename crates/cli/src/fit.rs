//! `floatgate fit`.

use crate::common::{self, Failure, Outcome};
use crate::drawn;
use crate::fs::{SHARE, with_progress};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::terminal;
use floatgate_config::{Library, Override};
use floatgate_host::open::open_input;
use floatgate_host::output::is_stdout;
use floatgate_lab::fit::{self, RESULTS_MAX_BYTES, UNUSABLE};
use floatgate_lab::report::{Reported as _, ResultKind};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "fit reads the measured figures from a text file with any of these lines:
  - output of flash_speed or of the kernel's mtd_speedtest, with or without dmesg's time stamps
  - output of dd (`16777216 bytes (16.0MB) copied, 2.71 seconds`), with the command or the records above it
  - output of a shell's `time`, such as `real 0m 1.86s`, with the command line of dd above it (`# time dd if=/dev/mtd4 of=/dev/null bs=10M count=1`)
  - output of U-Boot's `time sf read`, `time nand read`, `time mtd read` and `sf update`
  - lines of your own: `page read 227 us`, `eraseblock write 3.4 MiB/s`
  - `set bus.mode=1-1-1`: condition of the lines that follow
  - `blocks 16`: number of eraseblocks that flash_speed moved

Examples:
  floatgate fit imx6-mx30lf2g18ac flash_speed.txt
  floatgate fit imx6-mx30lf2g18ac flash_speed.txt -o fitted.toml
  floatgate fit imx6-mx30lf2g18ac flash_speed.txt --free chip.timing.t_prog_us.typ --json")]
pub(crate) struct Args {
    /// Setup of the board: a name (see `floatgate list setups`), or the path of a TOML file
    setup: PathBuf,

    /// Text file with the measured figures; - is stdin
    results: PathBuf,

    /// Override any field of the setup: --set bus.clock_hz=80e6; costs and times that are set in this way are not fitted, unless
    /// --free names them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Also fit this number of the setup, such as `chip.timing.t_prog_us.typ`, from half of its value to its maximum (repeatable)
    #[arg(long, value_name = "KEY")]
    free: Vec<String>,

    /// Write the fitted setup to this file
    #[arg(short = 'o', long = "output", value_name = "OUT.toml")]
    output: Option<OutputFile>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let library = Library::built_in();
    let setup = library.setup(&args.setup)?;
    let sets = Override::parse_all(&args.set)?;
    let base = args.output.as_deref().map(|output| base_of(&args.setup, output)).transpose()?;
    let results = fit::parse(&read(&args.results)?);
    let mut report =
        with_progress(SHARE, |progress| fit::fit(&library, &setup, &sets, &results, &args.free, progress))?;
    report.source = args.results.display().to_string();
    if let (Some(output), Some(base), true) = (&args.output, base, report.usable) {
        let text = fit::to_toml(&report, &library, (&setup, &base), &sets)?;
        common::write_file(output, &text)?;
    }
    let origin = ResultKind::Fit.of_setup(&args.setup, &setup).with(&args.set);
    let is_on_stdout = args.output.as_deref().is_some_and(is_stdout);
    let shown = if is_on_stdout && report.usable && !args.format.is_for_programs() {
        // Stdout contains only the setup.
        terminal::print_note(&drawn::text(&report.report()));
        ExitCode::SUCCESS
    } else {
        args.format.finish_report(&origin, &report)?
    };
    match &args.output {
        _ if report.usable => Ok(shown),
        Some(output) => Err(Failure::new(
            format!("{}: not written: {UNUSABLE}", output.display()),
            "correct the figures, the setup, or what is wrong on the board",
        )),
        None => Ok(ExitCode::FAILURE),
    }
}

/// Reads the results as bytes, because their encoding is unknown.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let help = "name a text file with what flash_speed, dd or U-Boot printed";
    let mut bytes = Vec::new();
    let opened: std::io::Result<Box<dyn std::io::Read>> =
        if path == Path::new("-") { Ok(Box::new(std::io::stdin())) } else { open_input(path) };
    match opened.and_then(|file| file.take(RESULTS_MAX_BYTES + 1).read_to_end(&mut bytes)) {
        Ok(read) if read as u64 > RESULTS_MAX_BYTES => Err(Failure::new(
            format!("{}: larger than {} MiB", path.display(), RESULTS_MAX_BYTES >> 20),
            help,
        )),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::new(format!("{}: {error}", path.display()), help)),
    }
}

/// Name of the setup in the output: the name of a built-in setup, or the absolute path of a file.
fn base_of(setup: &Path, output: &Path) -> Result<String, Failure> {
    let text = setup.to_string_lossy();
    if !text.contains(['/', '\\']) && !text.ends_with(".toml") {
        return Ok(text.into_owned());
    }
    let failed = |error| Failure::new(format!("{}: {error}", setup.display()), "name a setup that exists");
    let whole = setup.canonicalize().map_err(failed)?;
    if output.canonicalize().is_ok_and(|output| output == whole) {
        return Err(Failure::new(
            format!("{}: the output would replace the setup that it is based on", output.display()),
            "name another file with -o",
        ));
    }
    Ok(whole.to_string_lossy().into_owned())
}
