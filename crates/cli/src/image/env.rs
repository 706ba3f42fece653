//! `floatgate image env`.

use super::options::{self, PageArgs};
use crate::common::{Failure, Outcome};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_image::FlashSizes;
use floatgate_image::env::{self, Copy, Environment, SetVariable};
use floatgate_lab::report::ResultKind;
use std::fmt::Write as _;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image env router.bin
  floatgate image env router.bin bootcmd
  floatgate image env router.bin --set bootdelay=1 --unset bootcmd --output changed.bin
  floatgate image env router.bin --set 'bootargs=console=ttyS0,115200 quiet'
  floatgate image env router.bin --json

The environment is detected by its CRC, in a dump or in a file of its own. The CRC also shows the size, which a change keeps. In a redundant pair, the new \
variables are written to the copy that U-Boot does not use, with a flag that makes U-Boot use it, as by `saveenv`. --unset is done before --set.")]
pub(crate) struct Args {
    /// Dump, or file with the environment; - reads it from stdin
    file: PathBuf,

    /// Print only the values of these variables
    #[arg(value_name = "NAME", conflicts_with_all = ["set", "unset"])]
    names: Vec<String>,

    /// Set a variable; an empty value removes it
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<SetVariable>,

    /// Remove a variable
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,

    /// Byte of the flash at which a copy of the environment begins; needed if there are several
    #[arg(long, value_name = "BYTE", value_parser = super::sizes::bytes)]
    offset: Option<u64>,

    /// Write the changed dump to this file, and do not change the old dump
    #[arg(long, short, value_name = "OUT")]
    output: Option<OutputFile>,

    #[command(flatten)]
    pages: PageArgs,

    #[command(flatten)]
    format: ReportFormat,
}

fn assignment(text: &str) -> Result<SetVariable, String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is needed, such as bootdelay=3")?;
    Ok(SetVariable { name: name.to_owned(), value: Some(value.to_owned()) })
}

pub(crate) fn run(args: &Args) -> Outcome {
    let failed = |error: env::EnvError| options::failure(&args.file, &error);
    let sizes = FlashSizes { peb_bytes: None, pages: args.pages.sizes() };
    let removed = args.unset.iter().map(|name| SetVariable { name: name.clone(), value: None });
    let changes: Vec<SetVariable> = removed.chain(args.set.iter().cloned()).collect();
    let origin = ResultKind::ImageEnv.of(&args.file);
    if changes.is_empty() {
        if args.output.is_some() {
            return Err(Failure::new("nothing is changed", "name a change with --set or --unset"));
        }
        let image = super::map::open(&args.file, sizes).map_err(|error| failed(error.into()))?;
        let environment = env::read(&image, args.offset).map_err(failed)?;
        let environment = args.only_named(environment)?;
        return args.format.finish_whole(&origin, &environment, "variables", || args.text(&environment));
    }
    let file = options::file(&args.file)?;
    let environment =
        env::change(file, sizes, args.offset, &changes, args.output.as_deref()).map_err(failed)?;
    let written = args.output.as_deref().unwrap_or(file);
    args.format.finish(&origin, &environment, "variables", || {
        let active = environment.copies.iter().find(|copy| copy.active);
        format!("wrote {}: {}", written.display(), active.map_or_else(String::new, copy_text))
    })
}

impl Args {
    /// Keeps only the variables that the command line names.
    fn only_named(&self, mut environment: Environment) -> Result<Environment, Failure> {
        if let Some(missing) = self.names.iter().find(|name| environment.get(name).is_none()) {
            let help = "without a name all variables are printed";
            return Err(Failure::new(
                format!("{}: there is no variable {missing}", self.file.display()),
                help,
            ));
        }
        if !self.names.is_empty() {
            environment.variables.retain(|variable| self.names.contains(&variable.name));
        }
        Ok(environment)
    }

    /// Text with one variable per line, as mkenvimage reads it; the locations of the copies are comments.
    fn text(&self, environment: &Environment) -> String {
        let mut text = String::new();
        if self.names.is_empty() {
            for copy in &environment.copies {
                let _ = writeln!(text, "# {}", copy_text(copy));
            }
        }
        for variable in &environment.variables {
            let _ = match self.names.len() {
                1 => writeln!(text, "{}", variable.value),
                _ => writeln!(text, "{}={}", variable.name, variable.value),
            };
        }
        text
    }
}

fn copy_text(copy: &Copy) -> String {
    let Copy { offset, len, checksum, flag, active } = copy;
    let flag = flag.map_or_else(String::new, |flag| format!(", flag {flag}"));
    let used = if *active { ", active" } else { ", not used" };
    format!("environment at {offset:#x}, {len:#x} bytes, CRC {}{flag}{used}", checksum.word())
}
