//! Lookup of texts by name: the built-in catalogue, and user files.

use super::error::{ConfigError, Problem};
use super::kernel::{self, Families, KernelChip};
use super::nearest::{listed, nearest};
use super::node::Node;
use super::source::{Origin, Source};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, Command};
use include_dir::{Dir, include_dir};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

static PARTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/parts");
static CARDS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/parts/cards");
static SETUPS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/setups");
static CONTROLLERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/controllers");
static CARD_HOSTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/hosts/cards");
static HOSTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/hosts");

/// Kind of a file in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A board or rig ready to run.
    Setup,
    /// A chip with its sources.
    Part,
    /// A card with managed flash.
    Card,
    /// A flash controller.
    Controller,
    /// A host's software costs.
    Host,
    /// A host of cards: interface and software costs.
    CardHost,
}

impl Kind {
    /// All kinds of files.
    pub const ALL: [Self; 6] =
        [Self::Setup, Self::Part, Self::Card, Self::Controller, Self::Host, Self::CardHost];

    /// Folder of the built-in files.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Setup => "setups",
            Self::Part => "parts",
            Self::Card => "parts/cards",
            Self::Controller => "controllers",
            Self::Host => "hosts",
            Self::CardHost => "hosts/cards",
        }
    }

    /// Noun for one file of this kind.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Part => "part",
            Self::Card => "card",
            Self::Controller => "controller",
            Self::Host => "host",
            Self::CardHost => "card host",
        }
    }

    /// Table of a setup that such a file fills; a setup fills the whole tree.
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Setup => "",
            Self::Part => "chip",
            Self::Card => "card",
            Self::Controller => "controller",
            Self::Host | Self::CardHost => "host",
        }
    }
}

/// A text with its parsed tree, which is cached: parsing the catalogue is most of the work of resolving a setup.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) source: Arc<Source>,
    tree: Arc<OnceLock<Node>>,
}

impl Text {
    pub(super) fn new(source: Arc<Source>) -> Self {
        Self { source, tree: Arc::default() }
    }

    /// The text as a tree.
    pub(super) fn tree(&self) -> Result<Node, ConfigError> {
        if let Some(known) = self.tree.get() {
            return Ok(known.clone());
        }
        let tree = Node::parse(&self.source)?;
        Ok(self.tree.get_or_init(|| tree).clone())
    }
}

/// Texts by kind and name. A name is the file's name without `.toml`; case is ignored.
#[derive(Clone, Debug, Default)]
pub struct Library {
    texts: BTreeMap<(Kind, String), Text>,
    /// Chips of the kernel's tables as texts, generated on first use; `None` for a library without them.
    kernel: Option<Arc<Mutex<BTreeMap<&'static str, Text>>>>,
    /// Sources of the times of the kernel's chips.
    families: Arc<OnceLock<Families>>,
    /// A value derived once from all texts; shared by clones.
    digest: Arc<OnceLock<Arc<dyn Any + Send + Sync>>>,
    /// Base folder of relative paths outside of files; by default the working directory.
    folder: Option<PathBuf>,
}

impl Library {
    /// A library without texts: every name is unknown, but paths work.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The built-in catalogue.
    pub fn built_in() -> Self {
        let folders = [
            (Kind::Setup, &SETUPS),
            (Kind::Part, &PARTS),
            (Kind::Card, &CARDS),
            (Kind::Controller, &CONTROLLERS),
            (Kind::Host, &HOSTS),
            (Kind::CardHost, &CARD_HOSTS),
        ];
        let texts = folders.into_iter().flat_map(|(kind, folder)| {
            folder.files().filter_map(move |file| {
                let name = file.path().file_name()?.to_str()?.strip_suffix(".toml")?;
                Some(named(kind, name, file.contents_utf8()?))
            })
        });
        Self { texts: texts.collect(), kernel: Some(Arc::default()), ..Self::default() }
    }

    /// Adds or replaces a text.
    #[must_use]
    pub fn with(mut self, kind: Kind, name: &str, text: impl AsRef<str>) -> Self {
        self.texts.extend([named(kind, name, text.as_ref())]);
        self.digest = Arc::default();
        self.families = Arc::default();
        self.kernel = self.kernel.map(|_| Arc::default());
        self
    }

    /// Sets the base folder of relative paths outside of files, such as those of arguments.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Result of `make` for all texts, computed once, because reading the whole catalogue takes longer than most uses
    /// of it.
    ///
    /// # Errors
    /// Errors of `make`; the next call tries again.
    pub fn digest<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce(&Self) -> Result<T, ConfigError>,
    ) -> Result<Arc<T>, ConfigError> {
        let known = self.digest.get().and_then(|digest| Arc::clone(digest).downcast().ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(make(self)?);
        // Another thread may have been first: its digest is the same.
        let _ = self.digest.set(Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
        Ok(made)
    }

    /// True if a text of this kind has this name.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        let name = name.to_lowercase();
        self.texts.contains_key(&(kind, name.clone())) || (kind == Kind::Part && self.alias(&name).is_some())
    }

    /// Chips of the kernel's tables that no part of the library describes.
    pub fn kernel_parts(&self) -> impl Iterator<Item = KernelChip> {
        let chips = self.kernel.iter().flat_map(|_| kernel::kernel_chips());
        chips.filter(|chip| self.own_of(chip).is_none())
    }

    /// Part of the library with the name or id of a kernel chip.
    pub fn own_of(&self, chip: &KernelChip) -> Option<&str> {
        let parts = || self.texts.iter().filter(|((kind, _), _)| *kind == Kind::Part);
        let named = parts().find(|((_, name), _)| name == chip.key);
        let same_id = || parts().find(|(_, text)| has_id(text, chip.id()));
        named.or_else(same_id).map(|((_, name), _)| name.as_str())
    }

    /// Meaning of a name without a text: a chip of the kernel's tables, or an id.
    fn alias(&self, name: &str) -> Option<Alias<'_>> {
        self.kernel.as_ref()?;
        if let Some(chip) = kernel::find(name).filter(|chip| chip.refusal().is_none()) {
            return Some(self.own_of(&chip).map_or(Alias::Kernel(chip), Alias::Own));
        }
        let id = kernel::id_text(name)?;
        let own = self.texts.iter().find(|((kind, _), text)| *kind == Kind::Part && has_id(text, &id));
        own.map(|((_, name), _)| Alias::Own(name))
    }

    /// Families of the library's parts.
    pub(super) fn families(&self) -> &Families {
        self.families.get_or_init(|| Families::of(self))
    }

    /// Text of a kernel chip.
    pub(super) fn kernel_text(&self, chip: &KernelChip) -> Option<Text> {
        let made = self.kernel.as_ref()?;
        if let Some(text) = made.lock().unwrap_or_else(PoisonError::into_inner).get(chip.key) {
            return Some(text.clone());
        }
        // The families read other parts: no lock is held meanwhile.
        let (_, text) = named(Kind::Part, chip.key, &chip.part(self)?);
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        Some(made.entry(chip.key).or_insert(text).clone())
    }

    /// Names of a kind, sorted, without those of the kernel's tables.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.texts.keys().filter(move |(of, _)| *of == kind).map(|(_, name)| name.as_str())
    }

    /// Opens the text with this name: a built-in one or, if the name has a path separator or ends in `.toml`, a file.
    /// Paths are relative to the folder of the referring file (`by`), otherwise to that set by
    /// [`in_folder`](Self::in_folder), or to the working directory.
    ///
    /// # Errors
    /// An unknown name, with the nearest; a file that cannot be read.
    pub fn open(
        &self,
        kind: Kind,
        name: impl AsRef<Path>,
        by: Option<&Origin>,
    ) -> Result<Arc<Source>, ConfigError> {
        Ok(self.text(kind, name, by)?.source)
    }

    /// As [`open`](Self::open), with the cached tree.
    pub(super) fn text(
        &self,
        kind: Kind,
        name: impl AsRef<Path>,
        by: Option<&Origin>,
    ) -> Result<Text, ConfigError> {
        let name = name.as_ref();
        let outcome = match name.to_str() {
            Some(name) if !is_path(name) => self.find(kind, name, by),
            _ => Source::read(&self.locate(name, by)).map(Text::new),
        };
        outcome.map_err(|error| match by {
            Some(origin) if error.place().is_none() => error.at(origin.value_place()),
            _ => error,
        })
    }

    fn locate(&self, name: &Path, by: Option<&Origin>) -> PathBuf {
        match by.and_then(|origin| origin.source.folder()).or(self.folder.as_deref()) {
            Some(folder) => folder.join(name),
            None => name.to_owned(),
        }
    }

    fn find(&self, kind: Kind, name: &str, by: Option<&Origin>) -> Result<Text, ConfigError> {
        let key = (kind, name.to_lowercase());
        let known = self.texts.get(&key).cloned();
        let by_alias = || match self.alias(&key.1).filter(|_| kind == Kind::Part)? {
            Alias::Own(name) => self.texts.get(&(kind, name.to_owned())).cloned(),
            Alias::Kernel(chip) => self.kernel_text(&chip),
        };
        known.or_else(by_alias).ok_or_else(|| self.unknown(kind, name, by))
    }

    pub(super) fn unknown(&self, kind: Kind, name: &str, by: Option<&Origin>) -> ConfigError {
        let error = ConfigError::new(Problem::UnknownName, format!("no {} is called `{name}`", kind.noun()));
        if let Some(why) = kernel::find(&name.to_lowercase()).and_then(|chip| chip.refusal()) {
            return error.help(format!("the tables of Linux have this chip, and floatgate cannot: {why}"));
        }
        let all = match kind {
            Kind::Setup => {
                advice! { Command::Setups, " lists all; a file of your own is named by its path" }
            }
            Kind::Part | Kind::Card => {
                advice! { Command::Parts, " lists all; a file of your own is named by its path" }
            }
            Kind::Controller | Kind::Host | Kind::CardHost => {
                advice! { format!("there are {}", listed(&self.names(kind).collect::<Vec<_>>())) }
            }
        };
        // A file's name alone, without a slash, is taken as the name of something built in.
        let here = Path::new("./").join(name);
        let is_plain = !name.is_empty() && Path::new(name).components().count() == 1 && name != "..";
        if is_plain && self.locate(&here, by).is_file() {
            return error.help(format!("a file of that name is here: {}", here.display()));
        }
        // On a command line a part or a card is named where a setup is, too.
        let kinds: &[Kind] = match kind {
            Kind::Setup if by.is_none() => &[Kind::Setup, Kind::Part, Kind::Card],
            _ => &[kind],
        };
        let kernel = self.kernel_parts().filter(|_| kinds.contains(&Kind::Part)).map(|chip| chip.key);
        let near = nearest(name, kinds.iter().flat_map(|kind| self.names(*kind)).chain(kernel), 3);
        let other = Kind::ALL.into_iter().find(|&other| self.has(other, name));
        match (near.is_empty(), other) {
            (_, Some(Kind::Card)) => {
                error.help(format!("`{name}` is a card, and this is for flash without a controller"))
            }
            (_, Some(other)) => {
                error.help(Advice::from(format!("`{name}` is a {}; ", other.noun())).and(all))
            }
            (false, None) => error.help(Advice::from(format!("nearest: {}; ", listed(&near))).and(all)),
            (true, None) => error.help(all),
        }
    }
}

/// Meaning of a name that is not the name of a text.
enum Alias<'a> {
    /// Part of the library.
    Own(&'a str),
    /// Chip of the kernel's tables.
    Kernel(KernelChip),
}

/// True if the text of a part contains an id, written as `[0xEF, 0xAA, 0x21]`.
fn has_id(text: &Text, id: &str) -> bool {
    let line = text.source.content().lines().find_map(|line| line.strip_prefix("id = "));
    !id.is_empty() && line.is_some_and(|own| own.eq_ignore_ascii_case(id))
}

/// A text with its key in a library.
fn named(kind: Kind, name: &str, text: &str) -> ((Kind, String), Text) {
    let name = name.to_lowercase();
    let source = Source::text(&format!("{}/{name}.toml", kind.folder()), text);
    ((kind, name), Text::new(source))
}

/// True if a name is a file path. One that is not UTF-8 always is.
fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_slash_is_named_with_its_path() {
        let library = Library::built_in().in_folder(Path::new(env!("CARGO_MANIFEST_DIR")));
        let refused = |name: &str| library.setup(name).unwrap_err().one_line();
        let here = refused("setup.md");
        assert!(here.contains("a file of that name is here: ./setup.md"), "{here}");
        let none = refused("no-such-file.txt");
        assert!(none.contains("no setup is called") && !none.contains("is here"), "{none}");
    }
}
