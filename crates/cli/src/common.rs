//! Common parts of the subcommands: options, failures, files.

use crate::terminal::{self, print_note};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use floatgate_config::{Config, ConfigError, Excerpt, Library};
use floatgate_host::open::open_input;
use floatgate_host::output::{Output, OutputError, is_stdout, reader_left};
use floatgate_image::words;
use floatgate_lab::report::Reported;
use floatgate_lab::report::{Origin, ResultKind};
use floatgate_lab::study::setup;
pub(crate) use floatgate_lab::study::setup::{Basis, Corner, Grounded};
use floatgate_mtd::advice::Help;
pub(crate) use floatgate_mtd::size::text as size;
pub(crate) use floatgate_mtd::words::grouped;
use floatgate_sim::partition;
use floatgate_sim::rig::RigOptions;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Result of a subcommand.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// Setup of a command, with its overrides.
#[derive(clap::Args, Clone)]
pub(crate) struct SetupArgs {
    /// A setup's or part's name (see `floatgate list setups`, `floatgate list parts`), or the path of a setup's TOML file
    pub(crate) setup: PathBuf,

    /// Override any field of the setup, its chip, controller or host: --set bus.clock_hz=80e6 --set chip=w25n01jw
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// Read, program and erase times of the chip: typical values (typ), or the maxima that its data sheet guarantees (max)
    #[arg(long, value_enum, default_value_t = Corner::Typ)]
    pub(crate) corner: Corner,

    /// Seed of the differences between chips (factory bad blocks, slow blocks)
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// Number of factory bad blocks (NAND); the seed sets their positions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) bad_blocks: u32,
}

/// A setup as named on the command line.
pub(crate) struct Named {
    args: SetupArgs,
    pub(crate) library: Library,
    pub(crate) named: setup::Named,
    pub(crate) options: RigOptions,
}

/// Size of the used partition.
#[derive(clap::Args, Clone, Copy, Default)]
pub(crate) struct PartitionArg {
    /// Size of the partition to use, such as 8MiB; same as --set partition.size [default: the partition of the setup, or the whole chip]
    #[arg(long, alias = "size", value_name = "BYTES", value_parser = floatgate_mtd::size::parse)]
    partition: Option<u64>,
}

impl PartitionArg {
    pub(crate) const fn of(bytes: u64) -> Self {
        Self { partition: Some(bytes) }
    }
}

impl SetupArgs {
    /// A copy of the arguments, in which the size of the partition is one of the overrides.
    pub(crate) fn sized(&self, PartitionArg { partition }: PartitionArg) -> Result<Self, Failure> {
        let mut sized = self.clone();
        if let Some(bytes) = partition {
            let size = partition::of_size(&self.open()?.config()?, bytes)?;
            sized.set.push(size.to_string());
        }
        Ok(sized)
    }

    pub(crate) fn open(&self) -> Result<Named, Failure> {
        let library = Library::built_in();
        let named = setup::Named::open(&library, &self.setup, &self.set, self.corner)?;
        let options = RigOptions { seed: self.seed, bad_blocks: self.bad_blocks, ..RigOptions::default() };
        Ok(Named { args: self.clone(), library, named, options })
    }
}

impl Named {
    /// Origin of a result for this setup.
    pub(crate) fn origin(&self, kind: ResultKind) -> Origin {
        let SetupArgs { setup, set, corner, seed, bad_blocks } = &self.args;
        let origin = kind.of_setup(setup, &self.named.setup).with(set).seeded(*seed);
        origin.on_chip((*corner).into(), *bad_blocks)
    }

    /// Name of the setup whose board is used, if a part was named.
    pub(crate) fn board(&self) -> Option<&str> {
        self.named.setup.board()
    }

    pub(crate) fn config(&self) -> Result<Config, Failure> {
        Ok(self.named.config(&self.library)?)
    }

    /// Basis of an answer. `answer` computes the answer again from a changed setup.
    pub(crate) fn basis<T: PartialEq>(
        &self,
        answer: impl Fn(&Config) -> Option<T>,
    ) -> Result<Basis, Failure> {
        Ok(self.named.basis(&self.library, answer)?)
    }
}

/// Failure of a subcommand: wrong usage or unreadable input.
pub(crate) struct Failure {
    /// Message, with the lines of the configuration to which it refers.
    shown: String,
    help: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl std::fmt::Display, help: impl std::fmt::Display) -> Self {
        Self { shown: shown(&message.to_string(), None), help: Some(help.to_string()) }
    }

    /// Appends `advice` to the help of the failure.
    pub(crate) fn and(self, advice: &str) -> Self {
        let help = self.help.map_or_else(|| advice.to_owned(), |help| format!("{help}; {advice}"));
        Self { help: Some(help), ..self }
    }

    /// Prints the failure and returns the exit code for wrong usage or input. A closed stdout (`| head`) ends a command without
    /// a message.
    pub(crate) fn report(self) -> ExitCode {
        if reader_left() {
            return ExitCode::SUCCESS;
        }
        let help = self.help.map_or_else(String::new, |help| format!("\nhelp: {help}"));
        terminal::print_stderr(&(self.shown + &help));
        ExitCode::from(2)
    }
}

/// A message with the lines of the file to which it refers, as compilers print them.
fn shown(message: &str, excerpt: Option<&Excerpt<'_>>) -> String {
    let title = Level::ERROR.primary_title(message);
    let group = match excerpt {
        Some(Excerpt { name, text, span, label }) => {
            let mark = AnnotationKind::Primary.span(span.clone()).label(*label);
            title.element(Snippet::source(*text).path(*name).annotation(mark))
        }
        None => Group::with_title(title),
    };
    let renderer = if terminal::colour_of_stderr() { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[group])
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        floatgate_lab::Error::from(error).into()
    }
}

impl From<floatgate_lab::Error> for Failure {
    fn from(error: floatgate_lab::Error) -> Self {
        let excerpt = error.config().and_then(ConfigError::excerpt);
        Self {
            shown: shown(&error.to_string(), excerpt.as_ref()),
            help: error.help().map(|help| help.to_string()),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Self::new(&error, error.help())
    }
}

/// Reads a text file of at most `bytes_max` bytes. `help` is the advice if the file is larger or cannot be read.
pub(crate) fn read_text(path: &Path, bytes_max: u64, help: &str) -> Result<String, Failure> {
    let text = String::from_utf8(read_bytes(path, bytes_max, help)?)
        .map_err(|_| Failure::new(format!("{}: no text in UTF-8", path.display()), help))?;
    // Some editors begin a file with a byte order mark.
    Ok(text.strip_prefix('\u{FEFF}').map_or_else(|| text.clone(), str::to_owned))
}

/// Reads a file of at most `bytes_max` bytes. `help` is the advice if the file is larger or cannot be read.
pub(crate) fn read_bytes(path: &Path, bytes_max: u64, help: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    // One byte more than allowed, so that an endless file is refused like a large one.
    match open_input(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes)) {
        Ok(length) if length as u64 > bytes_max => {
            Err(Failure::new(format!("{}: larger than {} MiB", path.display(), bytes_max >> 20), help))
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::new(format!("{}: {error}", path.display()), help)),
    }
}

/// Writes a file atomically, and prints a note with its name.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let mut output = Output::stream(path, &[])?;
    output.write_all(text.as_bytes()).map_err(|error| output.failed(error))?;
    finish(output)
}

/// Writes a picture as SVG. A name with another extension is refused.
pub(crate) fn write_picture(path: &Path, svg: &str) -> Result<(), Failure> {
    check_picture(path)?;
    write_file(path, svg)
}

/// Writes the picture of a report to the path of `--plot`, if it is given.
pub(crate) fn draw(path: Option<&Path>, result: &impl Reported) -> Result<(), Failure> {
    match (path, path.and_then(|_| result.report().picture())) {
        (Some(path), Some(svg)) => write_picture(path, &svg),
        _ => Ok(()),
    }
}

/// Refuses a picture on stdout, which is used for the report, and a file name with an extension other than `.svg`.
pub(crate) fn check_plot(path: Option<&Path>) -> Result<(), Failure> {
    match path {
        Some(path) if is_stdout(path) => {
            Err(Failure::new("--plot -: the report goes to stdout", "name a file: --plot picture.svg"))
        }
        Some(path) => check_picture(path),
        None => Ok(()),
    }
}

/// Refuses an output file that cannot be created. Commands call this before they measure.
pub(crate) fn check_place(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let why = match folder {
        _ if is_stdout(path) => return Ok(()),
        _ if path.is_dir() => format!("{} is a folder", path.display()),
        Some(folder) if !folder.is_dir() => format!("there is no folder {}", folder.display()),
        _ => return Ok(()),
    };
    Err(Failure::new(why, "name a file in a folder that exists; nothing was measured"))
}

/// Refuses a picture with an extension other than `.svg`. Commands call this before they measure.
pub(crate) fn check_picture(path: &Path) -> Result<(), Failure> {
    let Some(extension) = path.extension().filter(|extension| !extension.eq_ignore_ascii_case("svg")) else {
        return Ok(());
    };
    let svg = path.with_extension("svg");
    let (svg, other) = (svg.display(), path.display());
    Err(Failure::new(
        format!(
            "{other}: pictures are written as SVG, not as {}",
            extension.to_string_lossy().to_uppercase()
        ),
        format!("name {svg}, and convert it: rsvg-convert {svg} -o {other}"),
    ))
}

/// Moves a complete output to its final path, and prints a note with its name.
pub(crate) fn finish(output: Output) -> Result<(), Failure> {
    let name = output.name().to_owned();
    output.finish()?;
    if !is_stdout(&name) {
        print_note(&format!("wrote {}", name.display()));
    }
    Ok(())
}

/// A number with its noun: `1 row`, `2 rows`, `2 entries`.
pub(crate) fn count(n: usize, what: &str) -> String {
    words::count(n as u64, what)
}

/// A time limit in seconds.
pub(crate) fn time_limit(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "give seconds from 0.01 to 86400".to_owned())
}

/// A number with grouped digits and its noun: "1 page", "34 133 pages".
pub(crate) fn grouped_count(n: u64, what: &str) -> String {
    format!("{} {}", grouped(n), words::noun(n, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_excerpts_of_any_text() {
        for text in ["", "\n", "a", "a\r\nb", "\t\u{202e}b\0", "ä\u{1F600}", "\u{feff}x = 1\r"] {
            let ends: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
            for &start in &ends {
                for &end in ends.iter().filter(|&&end| end >= start) {
                    let excerpt = Excerpt { name: "x.toml", text, span: start..end, label: "here" };
                    assert!(shown("a message", Some(&excerpt)).starts_with("error: a message\n"));
                }
            }
        }
    }
}
