//! Errors of specifications, with advice and positions.

use floatgate_config::{ConfigError, Node, Problem, Source};
use floatgate_mtd::advice::Advice;
use floatgate_sim::error::Error;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

/// Keys of a specification, each with the help text for its errors.
const KEYS: [(&str, &str); 12] = [
    ("setup", "`setup` is the name or path of a setup; of a part for `endurance`, of a card for `card`"),
    ("set", "`set` has overrides of all designs: a list of `key=value`, or a table"),
    ("measure", "`measure` is `speed`, `fs`, `age`, `endurance`, `powercut` or `card`"),
    ("tests", "`tests` names tests: \"page read\", [\"page read\", \"erase\"], or \"all\""),
    ("options", "docs/scale.md has the options of each measurement"),
    ("seed", "`seed` is that of the chip; of a population, of its first member"),
    (
        "space",
        "`space` has lists, or ranges with `from`, `to` and `step`, by key; with `sample` ranges need no step",
    ),
    ("sample", "`sample` has `random` or `latin_hypercube`, a number of designs, and may have `seed`"),
    ("population", "`population` has `members`, and may have `least`, `vary` and `stop` (`column`, `width`)"),
    ("screen", "`screen` has conditions on tests of `speed`"),
    ("constraints", "`constraints` has conditions on figures or numeric keys"),
    ("objectives", "`objectives` may have `maximise` and `minimise`"),
];

/// Help text for an error at a path of a specification.
pub(super) fn help_on(path: &str) -> &'static str {
    let of = KEYS.iter().find(|(key, _)| path.split('.').next() == Some(key));
    of.map_or("docs/scale.md has whole specifications", |(_, help)| help)
}

/// An error in a specification, with advice.
pub(super) fn helped(error: ConfigError) -> Error {
    let help = help_on(&error.report().path);
    Error::Config(if error.advice().is_some() { error } else { error.help(help) })
}

/// Moves an error to the position of its key in the text of a specification.
pub(super) fn placed(error: Error, tree: &Node) -> Error {
    let Error::Config(error) = error else { return error };
    let node = tree.get(&error.report().path).filter(|_| error.place().is_none());
    let place = node.map(|node| match error.problem() {
        Problem::UnknownKey => node.origin.key_place(),
        _ => node.origin.value_place(),
    });
    match place {
        Some(place) => error.at(place).into(),
        None => error.into(),
    }
}

/// Error about a `T` in JSON, with the wording of TOML errors, but without a position, because the caller has no text.
pub(super) fn explained<T: DeserializeOwned>(json: &str, error: &serde_json::Error) -> Error {
    let toml = serde_json::from_str(json).ok().and_then(|value: toml::Table| toml::to_string(&value).ok());
    let read = |text: String| Node::parse(&Source::text("specification", &text))?.extract::<T>("").map(drop);
    match toml.map(read) {
        Some(Err(error)) => helped(error.without_place()),
        _ => {
            let message = error.to_string();
            Error::request(message.split(" at line ").next().unwrap_or_default(), help_on(""))
        }
    }
}

/// Returns an error for a number outside the range of a key.
pub(super) fn check_range<T: PartialOrd + Display>(
    key: &str,
    value: T,
    possible: impl RangeBounds<T>,
) -> Result<(), Error> {
    if possible.contains(&value) {
        return Ok(());
    }
    let least = match possible.start_bound() {
        Bound::Included(least) | Bound::Excluded(least) => least.to_string(),
        Bound::Unbounded => "any number".to_owned(),
    };
    let help = match possible.end_bound() {
        Bound::Included(most) | Bound::Excluded(most) => format!("give {least} to {most}"),
        Bound::Unbounded => format!("give {least} or more"),
    };
    Err(wrong(key, format!("`{key}` is {value}"), help))
}

/// Error for a value that has the right type but is invalid.
pub(super) fn wrong(key: &str, message: String, help: impl Into<Advice>) -> Error {
    ConfigError::new(Problem::WrongValue, message).path(key).help(help).into()
}
