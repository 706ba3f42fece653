//! Keys of all configuration files, as listed in `docs/setup.md`. A test generates that page from the types.

use serde::Serialize;

/// Text of the page.
const PAGE: &str = include_str!("../setup.md");

/// A key of a setup, part, controller or host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Section of the page: the kind of file, chip or table to which the key belongs.
    pub section: &'static str,
    /// Dotted path of the key.
    pub key: String,
    /// Unit of a plain number; empty if it has no unit.
    pub unit: &'static str,
    /// Default value, or `required`.
    pub default: &'static str,
    /// Meaning of the value.
    pub meaning: String,
}

/// All keys, in the order of the page.
pub fn keys() -> Vec<Key> {
    let mut section = "";
    let mut all = Vec::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        }
        let cells: Vec<&str> = line.split(" | ").collect();
        if let ([key, unit, default, meaning @ ..], true) = (cells.as_slice(), line.starts_with("| `")) {
            all.push(Key {
                section,
                key: key.trim_matches(['|', ' ', '`']).to_owned(),
                unit: unit.trim(),
                default,
                meaning: meaning.join(" | ").trim_end_matches([' ', '|']).replace("\\|", "|"),
            });
        }
    }
    all
}
