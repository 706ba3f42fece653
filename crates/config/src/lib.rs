//! Configuration: converts TOML texts to typed specifications, with actionable error messages.
//!
//! A [`Source`] (file, built-in text, argument) is parsed into a tree of [`Node`]s with their positions in the text. A
//! [`Library`] finds texts by name. It reads a [`Setup`] and resolves its references (part, controller, host, profiles)
//! and the user's [`Override`]s into one [`Config`]. From that, typed values are [extracted](Config::extract). Every
//! mistake becomes a [`ConfigError`] with its position in the text.
//!
//! ```
//! use floatgate_config::{Kind, Library, Override, Source};
//!
//! let part = r#"
//! kind = "spi-nand"
//! name = "W25N01GV"
//! [chip]
//! endurance_cycles = 100_000
//! "#;
//! let library = Library::empty().with(Kind::Part, "w25n01gv", part);
//! let setup = library.setup_from(&Source::text("my.toml", "chip = 'w25n01gv'\nbus.clock_hz = '104 MHz'"))?;
//! let sets = Override::parse_all(&["chip.endurance_cycles=1000"])?;
//! let config = library.resolve(&setup, &sets)?;
//! assert_eq!(config.part().kind, "spi-nand");
//! assert_eq!(config.extract::<u32>("chip.endurance_cycles")?, 1000);
//!
//! let error = config.extract::<u32>("bus.clock_hz").unwrap_err();
//! assert_eq!(
//!     error.one_line(),
//!     "my.toml:2:16: `bus.clock_hz`: expected a whole number from 0 to 4294967295, found the text \"104 MHz\""
//! );
//! # Ok::<(), floatgate_config::ConfigError>(())
//! ```

mod board;
pub mod corner;
mod de;
mod de_error;
mod error;
mod kernel;
mod keys;
mod library;
mod mechanism;
mod nearest;
mod node;
mod parse;
mod part;
mod resolve;
mod set;
mod source;
mod sweep;
#[cfg(test)]
mod tests;

pub use error::{ConfigError, Excerpt, Problem, Report};
pub use kernel::{Gap, KernelChip, kernel_chips};
pub use keys::{Key, keys};
pub use library::{Kind, Library};
pub use mechanism::{Core, CpuProfile, DriverWork, FifoWork, WordWork};
pub use nearest::did_you_mean;
pub use node::{Node, Table, Value};
pub use parse::MAX_DEPTH;
pub use part::{About, Part, Price, Provenance, Supply, Times};
pub use resolve::{Loaded, Prepared};
pub use set::Override;
pub use source::{MAX_BYTES, Origin, Source, SourceSpan};
pub use sweep::{Combination, MAX_COMBINATIONS, sweep};

pub use floatgate_device::spec::ChipKind;
use floatgate_device::spec::{BadSpec, ChipSpec};
use serde::Deserialize;
use std::sync::{Arc, OnceLock};

/// A setup merged with its base setups. References to other files are not resolved yet.
#[derive(Clone, Debug)]
pub struct Setup {
    tree: Node,
    board: Option<Arc<str>>,
    /// Kinds of files (chip, controller, host) that differ from the setup whose title this setup has.
    replaced: Vec<Kind>,
}

impl Setup {
    /// Removes everything except the chip.
    fn chip_alone(mut self) -> Self {
        if let Some(table) = self.tree.as_table_mut() {
            table.retain(|key, _| &**key == Kind::Part.table());
        }
        self
    }

    /// Tree of the setup.
    pub fn tree(&self) -> &Node {
        &self.tree
    }

    /// Name of the setup whose board a part runs on; `None` if the setup itself was named.
    pub fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }

    fn on_board(self, board: &str) -> Self {
        Self { board: Some(board.into()), ..self }
    }
}

/// A setup with all referenced files and the overrides merged into one tree. The chip's head is at `part`.
#[derive(Clone, Debug)]
pub struct Config {
    tree: Node,
    part: Arc<Part>,
    board: Option<Arc<str>>,
}

impl Config {
    /// Tree of the configuration.
    pub fn tree(&self) -> &Node {
        &self.tree
    }

    /// The tree as TOML: a setup without references to other files.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.tree).unwrap_or_default()
    }

    /// Name of the setup whose board a part runs on, as [`Setup::board`].
    pub fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }

    /// Head of the chip's part file: kind, name and sources.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Kind of the configured chip.
    ///
    /// # Errors
    /// An unknown kind.
    pub fn chip_kind(&self) -> Result<ChipKind, ConfigError> {
        ChipKind::named(&self.part.kind).ok_or_else(|| self.wrong("part.kind", unknown_kind(&self.part.kind)))
    }

    /// Unchecked specification of the chip.
    ///
    /// # Errors
    /// An unknown kind; invalid values.
    pub fn chip(&self) -> Result<ChipSpec, ConfigError> {
        let chip = self.tree.extract_seed("chip", self.chip_kind()?)?;
        match self.overlap_of_oob(&chip) {
            Some(area) => Err(area.wrong("chip.oob", "a byte of the OOB is in two of its areas")),
            None => Ok(chip),
        }
    }

    /// A user's value that makes areas of the OOB overlap. Values from Linux's tables are exempt, because they list free bytes of
    /// some chips among the ECC bytes.
    fn overlap_of_oob(&self, chip: &ChipSpec) -> Option<&Node> {
        let ChipSpec::SpiNand(spec) = chip else { return None };
        let table = self.tree.get("chip.oob").filter(|_| spec.oob.overlaps())?;
        let leaves = table.leaves("").into_iter().filter_map(|leaf| table.get(&leaf));
        let is_own = |node: &&Node| node.origin.source.folder().is_some() || node.origin.source.is_argument();
        leaves.into_iter().find(is_own)
    }

    /// Checked specification of the chip.
    ///
    /// # Errors
    /// The errors of [`Self::chip`]; an impossible specification.
    pub fn checked_chip(&self) -> Result<ChipSpec, ConfigError> {
        let chip = self.chip()?;
        chip.check().map_err(|bad| self.impossible(&bad))?;
        Ok(chip)
    }

    /// Error for an impossible chip.
    pub fn impossible(&self, bad: &BadSpec) -> ConfigError {
        self.wrong(&bad.path(), &bad.problem)
    }

    /// Reads the typed value at a dotted path.
    ///
    /// # Errors
    /// Invalid values, with the position of the key or value; a missing path.
    pub fn extract<'de, T: Deserialize<'de>>(&'de self, path: &str) -> Result<T, ConfigError> {
        self.tree.extract(path)
    }

    /// Reads the typed value at a dotted path; a missing path gives the default of the type.
    ///
    /// # Errors
    /// Invalid values.
    pub fn extract_or_default<'de, T>(&'de self, path: &str) -> Result<T, ConfigError>
    where
        T: Deserialize<'de> + Default,
    {
        self.tree.extract_or_default(path)
    }

    /// Rejects keys of a top-level table that `docs/setup.md` does not list. It is used for tables that not every command reads.
    ///
    /// # Errors
    /// The first unknown key.
    pub fn only_documented(&self, table: &str) -> Result<(), ConfigError> {
        static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
        let Some(node) = self.tree.child(table) else { return Ok(()) };
        let all = KEYS.get_or_init(keys);
        let known: Vec<&str> =
            all.iter().filter_map(|key| key.key.strip_prefix(table)?.strip_prefix('.')).collect();
        node.only_keys(table, &known)
    }

    /// Rejects top-level keys that are not among `known`. `part` is always known.
    ///
    /// # Errors
    /// The first unknown key.
    pub fn only_keys(&self, known: &[&str]) -> Result<(), ConfigError> {
        let known: Vec<&str> = known.iter().copied().chain(["part"]).collect();
        self.tree.only_keys("", &known)
    }

    /// The error for the value at a dotted path that contradicts another value, which types cannot detect.
    pub fn wrong(&self, path: &str, message: impl std::fmt::Display) -> ConfigError {
        let mut node = &self.tree;
        for key in node::keys(path) {
            node = node.child(key).unwrap_or(node);
        }
        node.wrong(path, message)
    }
}

/// Message for an unknown kind of chip.
fn unknown_kind(name: &str) -> String {
    let near = did_you_mean(name, ChipKind::ALL.map(ChipKind::name));
    format!("unknown kind of chip `{name}`; {near}there are {}", ChipKind::ALL.map(ChipKind::name).join(", "))
}

/// Kinds of managed flash.
const CARD_KINDS: [&str; 2] = ["sd-card", "emmc"];

/// Message for an unknown kind of managed flash.
fn unknown_card_kind(name: &str) -> String {
    let near = did_you_mean(name, CARD_KINDS);
    format!("unknown kind of card `{name}`; {near}there are {}", CARD_KINDS.join(", "))
}
