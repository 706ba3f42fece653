//! Studies: options in, a typed result out, and one report of it.
//!
//! A study is a type that implements [`Study`] and a line in [`STUDIES`]. From that line it has
//!
//! - a subcommand: its options are the arguments (`clap::Args`, with the feature `command`), its report is the text;
//! - `--json`: the result in the envelope of its kind; `--csv`: [`Study::rows`];
//! - a section of `floatgate report`, which reads the result back and shows the same report;
//! - `floatgate.study(NAME, **options)` in Python.

mod age;
mod card_life;
mod card_speed;
mod compare;
mod endurance;
mod keystore;
pub mod options;
mod record;
pub mod report;
pub mod setup;

pub use age::Age;
pub use card_life::LifeOfCard;
pub use card_speed::SpeedOfCard;
pub use compare::Compare;
pub use endurance::Endurance;
pub use keystore::Keystore;
pub use record::Record;
pub use report::Report;

use crate::card::amplification::Amplification;
use crate::progress::Listener;
use crate::report::{Concluded, Origin};
use floatgate_config::{Library, Setup};
use floatgate_sim::error::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All studies.
pub const STUDIES: &[&dyn Registered] =
    &[&Age, &LifeOfCard, &SpeedOfCard, &Amplification, &Compare, &Endurance, &Keystore, &Record];

/// Study of the command and of Python, with its options and its result.
pub trait Study: Sync {
    /// Its options. What is left out has the value of `Default`.
    #[cfg(feature = "command")]
    type Options: DeserializeOwned + clap::Args;
    /// Its options. What is left out has the value of `Default`.
    #[cfg(not(feature = "command"))]
    type Options: DeserializeOwned;
    /// Its result, as it stands in JSON.
    type Output: Serialize + DeserializeOwned;

    /// Words of its subcommand: `card amplification`. With hyphens they are the kind of its result.
    const NAME: &'static str;
    /// Name of the steps that its progress counts.
    const STEPS: &'static str = "steps";
    /// Forms of its result, which follow its name in the kind; `""` is the name alone.
    const FORMS: &'static [&'static str] = &[""];
    /// Names and help of the tables that can be chosen, of a study with several.
    const TABLES: &'static [(&'static str, &'static str)] = &[];
    /// Value and help of `plot`, of a study that draws pictures.
    const PLOT: Option<(&'static str, &'static str)> = None;

    /// Name or path of the setup that it runs on, or of a part for which a board is found; `None` where there is no board.
    fn setup(options: &Self::Options) -> Option<&Path>;

    /// The input that a result follows from, added to its kind.
    fn origin(options: &Self::Options, kind: Origin) -> Origin;

    /// Runs it.
    ///
    /// # Errors
    /// Options that make no sense, or a setup that cannot be used.
    fn run(options: &Self::Options, context: &Context<'_>) -> Result<Self::Output, Error>;

    /// The report for a person.
    fn report(output: &Self::Output) -> Report;

    /// The rows of the CSV, those of a chosen table, each an object; by default the result is the only one.
    ///
    /// # Errors
    /// Rows that are not JSON.
    fn rows(output: &Self::Output, _table: Option<&str>) -> serde_json::Result<Value> {
        serde_json::to_value(output)
    }

    /// Form of a result, one of [`Self::FORMS`].
    fn form(_output: &Self::Output) -> &'static str {
        ""
    }

    /// The pictures of a result, as the path asked for names them.
    ///
    /// # Errors
    /// A path that names no file.
    fn pictures(_output: &Self::Output, _path: &Path) -> Result<Vec<Picture>, Error> {
        Ok(Vec::new())
    }

    /// True when the result is a problem, so that the command exits with 1.
    fn found_problem(_output: &Self::Output) -> bool {
        false
    }
}

/// Surroundings of a run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Setups, parts, controllers and hosts.
    pub library: &'a Library,
    /// Function that hears of the progress. It may unwind to cancel the run.
    pub progress: Listener<'a>,
    /// Name of the table whose rows are wanted.
    pub table: Option<&'a str>,
    /// File of the pictures that are wanted.
    pub plot: Option<&'a Path>,
}

/// A picture of a result.
pub struct Picture {
    /// File that it is for.
    pub path: PathBuf,
    /// The document, SVG.
    pub svg: String,
}

/// A run that is over.
pub struct Finished {
    /// Kind of the result and its input.
    pub origin: Origin,
    /// The result as it stands in JSON.
    pub output: Value,
    /// Rows of the CSV.
    pub rows: Value,
    /// The report for a person.
    pub report: Report,
    /// The pictures that were wanted.
    pub pictures: Vec<Picture>,
    /// True when the result is a problem.
    pub found_problem: bool,
}

/// In its envelope a run is its result.
impl Serialize for Finished {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.output.serialize(to)
    }
}

impl Concluded for Finished {
    fn conclusion(&self) -> String {
        self.report.conclusion.clone()
    }
}

/// A study without its types, for the registry.
pub trait Registered: Sync {
    /// Words of its subcommand.
    fn name(&self) -> &'static str;

    /// Forms of its result.
    fn forms(&self) -> &'static [&'static str];

    /// Names and help of the tables that can be chosen.
    fn tables(&self) -> &'static [(&'static str, &'static str)];

    /// Value and help of `plot`, of a study that draws pictures.
    fn plot(&self) -> Option<(&'static str, &'static str)>;

    /// Kind of its result in JSON, of a form.
    fn kind(&self, form: &str) -> String {
        let separator = if form.is_empty() { "" } else { "-" };
        format!("{}{separator}{form}", self.name().replace(' ', "-"))
    }

    /// Name of the steps that its progress counts.
    fn steps(&self) -> &'static str;

    /// Runs it with options as JSON.
    ///
    /// # Errors
    /// Options that it does not have, and the errors of [`Study::run`].
    fn run(&self, options: Value, context: &Context<'_>) -> Result<Finished, Error>;

    /// The report of a result that was read.
    ///
    /// # Errors
    /// JSON that is no result of this study.
    fn report(&self, result: Value) -> Result<Report, serde_json::Error>;

    /// A command with the options as arguments.
    #[cfg(feature = "command")]
    fn with_arguments(&self, command: clap::Command) -> clap::Command;

    /// Runs it with the arguments of a command.
    ///
    /// # Errors
    /// The errors of [`Study::run`].
    #[cfg(feature = "command")]
    fn run_arguments(&self, arguments: &clap::ArgMatches, context: &Context<'_>) -> Result<Finished, Error>;
}

impl<S: Study> Registered for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn steps(&self) -> &'static str {
        S::STEPS
    }

    fn forms(&self) -> &'static [&'static str] {
        S::FORMS
    }

    fn tables(&self) -> &'static [(&'static str, &'static str)] {
        S::TABLES
    }

    fn plot(&self) -> Option<(&'static str, &'static str)> {
        S::PLOT
    }

    fn run(&self, options: Value, context: &Context<'_>) -> Result<Finished, Error> {
        let options = serde_json::from_value(options)
            .map_err(|error| Error::request(format!("options of {}: {error}", S::NAME), OPTIONS_HELP))?;
        finish(self, &options, context)
    }

    fn report(&self, result: Value) -> Result<Report, serde_json::Error> {
        serde_json::from_value(result).map(|output| S::report(&output))
    }

    #[cfg(feature = "command")]
    fn with_arguments(&self, command: clap::Command) -> clap::Command {
        <S::Options as clap::Args>::augment_args(command)
    }

    #[cfg(feature = "command")]
    fn run_arguments(&self, arguments: &clap::ArgMatches, context: &Context<'_>) -> Result<Finished, Error> {
        let options = <S::Options as clap::FromArgMatches>::from_arg_matches(arguments)
            .map_err(|error| Error::request(error.to_string(), OPTIONS_HELP))?;
        finish(self, &options, context)
    }
}

/// Help for options that a study does not have.
const OPTIONS_HELP: &str = "docs/commands.md lists the options";

fn finish<S: Study>(study: &S, options: &S::Options, context: &Context<'_>) -> Result<Finished, Error> {
    let output = S::run(options, context)?;
    let value = |error: serde_json::Error| {
        Error::request(error.to_string(), "this is a bug in floatgate: please report it")
    };
    // A target that is no setup, such as a card, has run on no board.
    let setup = S::setup(options).and_then(|path| context.library.setup(path).ok());
    let origin = S::origin(options, Origin::of_kind(study.kind(S::form(&output))));
    Ok(Finished {
        origin: origin.on_board(setup.as_ref().and_then(Setup::board)),
        rows: S::rows(&output, context.table).map_err(value)?,
        report: S::report(&output),
        pictures: context.plot.map_or(Ok(Vec::new()), |path| S::pictures(&output, path))?,
        found_problem: S::found_problem(&output),
        output: serde_json::to_value(&output).map_err(value)?,
    })
}

/// The study whose results are of this kind.
pub fn of_kind(kind: &str) -> Option<&'static dyn Registered> {
    STUDIES.iter().copied().find(|study| study.forms().iter().any(|form| study.kind(form) == kind))
}

/// A list as a result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct List<T> {
    /// Elements of the list.
    pub rows: Vec<T>,
}

/// A row of one of several lists, with the value that its list has in common as its first field.
#[derive(Serialize)]
struct Row<V, T> {
    #[serde(flatten)]
    common: BTreeMap<&'static str, V>,
    #[serde(flatten)]
    row: T,
}

impl<'a, V: Clone, T> Row<V, &'a T> {
    /// The rows of lists, each with what its rows have in common.
    fn of_lists(key: &'static str, lists: impl IntoIterator<Item = (V, &'a Vec<T>)>) -> Vec<Self> {
        let row = |common: &V, row| Self { common: BTreeMap::from([(key, common.clone())]), row };
        lists.into_iter().flat_map(|(common, list)| list.iter().map(move |one| row(&common, one))).collect()
    }
}
