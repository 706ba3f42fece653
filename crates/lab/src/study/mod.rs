//! Studies: each has options, a typed result and a report.
//!
//! A study is a type that implements [`Study`], and a line in [`STUDIES`]. This gives it:
//!
//! - a subcommand, whose arguments are the options (`clap::Args`, with the feature `command`) and whose text output is
//!   the report;
//! - `--json`, the result in the envelope of its kind, and `--csv`, from [`Study::rows`];
//! - a section in `floatgate report`, which reads the result and shows the same report;
//! - `floatgate.study(NAME, **options)` in Python.

mod age;
mod amplification;
mod card_compare;
mod card_life;
mod card_speed;
mod compare;
mod endurance;
mod identify;
mod keystore;
pub mod options;
mod papers;
mod record;
pub mod setup;

pub use age::Age;
pub use amplification::Amplification;
pub use card_compare::CompareOnCards;
pub use card_life::LifeOfCard;
pub use card_speed::SpeedOfCard;
pub use compare::Compare;
pub use endurance::Endurance;
pub use identify::Identify;
pub use keystore::Keystore;
pub use papers::Papers;
pub use record::Record;

pub use crate::show::report::{self, Report};

use crate::envelope::{Concluded, Origin};
use crate::progress::Listener;
use floatgate_config::{Library, Setup};
use floatgate_sim::error::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All studies.
pub const STUDIES: &[&dyn Registered] = &[
    &Age,
    &LifeOfCard,
    &SpeedOfCard,
    &CompareOnCards,
    &Amplification,
    &Compare,
    &Endurance,
    &Identify,
    &Keystore,
    &Papers,
    &Record,
];

/// A study for the command and for Python, with its options and its result.
pub trait Study: Sync {
    /// Options of the study. Missing options have the values of `Default`.
    #[cfg(feature = "command")]
    type Options: DeserializeOwned + clap::Args;
    /// Options of the study. Missing options have the values of `Default`.
    #[cfg(not(feature = "command"))]
    type Options: DeserializeOwned;
    /// Result of the study, in the form of its JSON.
    type Output: Serialize + DeserializeOwned;

    /// Words of its subcommand, such as `card amplification`. Joined by hyphens, they are the kind of its result.
    const NAME: &'static str;
    /// Name of the progress steps.
    const STEPS: &'static str = "steps";
    /// Forms of the result, which are appended to its name in the kind; `""` stands for the name alone.
    const FORMS: &'static [&'static str] = &[""];
    /// Names and help texts of the tables that can be selected; empty if the study has only one.
    const TABLES: &'static [(&'static str, &'static str)] = &[];
    /// Value name and help text of `--plot`; `None` for a study without pictures.
    const PLOT: Option<(&'static str, &'static str)> = None;

    /// Name or path of the setup, or of a part for which a board is chosen; `None`, the default,
    /// for a study without a board.
    fn setup(_options: &Self::Options) -> Option<&Path> {
        None
    }

    /// Adds the inputs of a result to its kind.
    fn origin(options: &Self::Options, kind: Origin) -> Origin;

    /// Runs the study.
    ///
    /// # Errors
    /// Invalid options; a setup that cannot be used.
    fn run(options: &Self::Options, context: &Context<'_>) -> Result<Self::Output, Error>;

    /// Report for the user.
    fn report(output: &Self::Output) -> Report;

    /// Rows of the CSV, or of a selected table, as objects. By default the result is the only row.
    ///
    /// # Errors
    /// Rows that cannot be converted to JSON.
    fn rows(output: &Self::Output, _table: Option<&str>) -> serde_json::Result<Value> {
        serde_json::to_value(output)
    }

    /// Form of a result, which is one of [`Self::FORMS`].
    fn form(_output: &Self::Output) -> &'static str {
        ""
    }

    /// Pictures of a result, with file names made from the requested path.
    ///
    /// # Errors
    /// A path that does not name a file.
    fn pictures(_output: &Self::Output, _path: &Path) -> Result<Vec<Picture>, Error> {
        Ok(Vec::new())
    }

    /// True if the result is a problem, so that the command exits with status 1.
    fn found_problem(_output: &Self::Output) -> bool {
        false
    }
}

/// Context of a run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Library of setups, parts, controllers and hosts.
    pub library: &'a Library,
    /// Callback for the progress. It may unwind to cancel the run.
    pub progress: Listener<'a>,
    /// Name of the table whose rows are requested.
    pub table: Option<&'a str>,
    /// Path for the requested pictures.
    pub plot: Option<&'a Path>,
}

/// A picture of a result.
pub struct Picture {
    /// Path of the picture's file.
    pub path: PathBuf,
    /// SVG document.
    pub svg: String,
}

/// Result of a completed run.
pub struct Finished {
    /// Kind and inputs of the result.
    pub origin: Origin,
    /// Result in the form of its JSON.
    pub output: Value,
    /// Rows of the CSV.
    pub rows: Value,
    /// Report for the user.
    pub report: Report,
    /// Requested pictures.
    pub pictures: Vec<Picture>,
    /// True if the result is a problem.
    pub found_problem: bool,
}

/// In an envelope, a run is serialised as its result.
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

/// A study without its associated types, for the registry.
pub trait Registered: Sync {
    /// Words of the subcommand.
    fn name(&self) -> &'static str;

    /// Forms of the result.
    fn forms(&self) -> &'static [&'static str];

    /// Names and help texts of the tables that can be selected.
    fn tables(&self) -> &'static [(&'static str, &'static str)];

    /// Value name and help text of `--plot`; `None` for a study without pictures.
    fn plot(&self) -> Option<(&'static str, &'static str)>;

    /// Kind of the result in JSON, for a form.
    fn kind(&self, form: &str) -> String {
        let separator = if form.is_empty() { "" } else { "-" };
        format!("{}{separator}{form}", self.name().replace(' ', "-"))
    }

    /// Name of the progress steps.
    fn steps(&self) -> &'static str;

    /// Runs the study with options in JSON.
    ///
    /// # Errors
    /// Unknown options; the errors of [`Study::run`].
    fn run(&self, options: Value, context: &Context<'_>) -> Result<Finished, Error>;

    /// Report of a stored result.
    ///
    /// # Errors
    /// The JSON is not a result of this study.
    fn report(&self, result: Value) -> Result<Report, serde_json::Error>;

    /// Adds the options to a command as arguments.
    #[cfg(feature = "command")]
    fn with_arguments(&self, command: clap::Command) -> clap::Command;

    /// Runs the study with the arguments of a command.
    ///
    /// # Errors
    /// Errors of [`Study::run`].
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

/// Help text for options that a study does not have.
const OPTIONS_HELP: &str = "docs/commands.md lists the options";

fn finish<S: Study>(study: &S, options: &S::Options, context: &Context<'_>) -> Result<Finished, Error> {
    let output = S::run(options, context)?;
    let value = |error: serde_json::Error| {
        Error::request(error.to_string(), "this is a bug in floatgate: please report it")
    };
    // If the target is not a setup, such as a card, no board was used.
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

/// Study whose results have this kind.
pub fn of_kind(kind: &str) -> Option<&'static dyn Registered> {
    STUDIES.iter().copied().find(|study| study.forms().iter().any(|form| study.kind(form) == kind))
}

/// A list as a result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct List<T> {
    /// Elements of the list.
    pub rows: Vec<T>,
}

/// A row of one of several lists. Its first field is the value that its list has in common.
#[derive(Serialize)]
struct Row<V, T> {
    #[serde(flatten)]
    common: BTreeMap<&'static str, V>,
    #[serde(flatten)]
    row: T,
}

impl<'a, V: Clone, T> Row<V, &'a T> {
    /// Rows of several lists, each with the value that its list has in common.
    fn of_lists(key: &'static str, lists: impl IntoIterator<Item = (V, &'a Vec<T>)>) -> Vec<Self> {
        let row = |common: &V, row| Self { common: BTreeMap::from([(key, common.clone())]), row };
        lists.into_iter().flat_map(|(common, list)| list.iter().map(move |one| row(&common, one))).collect()
    }
}
