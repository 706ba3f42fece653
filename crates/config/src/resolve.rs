//! Resolves names to one tree, with bases, profiles and overrides.
//!
//! The layers, from the lowest: the table of the base, the profile of the base if one is named, the file's own table,
//! `--set`. A text as the value of `chip`, `controller` or `host` means `{ base = "text" }`.

use super::error::{ConfigError, Problem};
use super::kernel::KernelChip;
use super::library::{Kind, Library, Text};
use super::nearest::{listed, nearest};
use super::node::{Node, Table, Value};
use super::part::{About, Part, Provenance};
use super::set::Override;
use super::source::{Origin, Source};
use super::{CARD_KINDS, Config, Setup, unknown_card_kind, unknown_kind};
use floatgate_device::spec::{ChipKind, ChipSpec};
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use std::path::Path;
use std::sync::Arc;

/// Kinds of files that fill one table of a setup.
const FILLERS: [Kind; 3] = [Kind::Part, Kind::Controller, Kind::Host];

/// A part, controller or host file that was merged with its bases.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Table that the file contributes to a setup: `[chip]`, `[controller]` or `[host]`.
    pub table: Node,
    /// Other fields: name, title, sources. They form a [`Part`] for parts, otherwise an [`About`].
    pub head: Node,
    /// Table of the file's profiles by name.
    pub profiles: Node,
    /// The file itself, without its bases.
    pub source: Arc<Source>,
}

impl Loaded {
    /// The file as TOML, including everything from its bases: a file of the same kind without a base.
    pub fn to_toml(&self, kind: Kind) -> String {
        let mut tree = self.head.clone();
        put(&mut tree, kind.table(), self.table.clone());
        if self.profiles.as_table().is_some_and(|profiles| !profiles.is_empty()) {
            put(&mut tree, "profile", self.profiles.clone());
        }
        toml::to_string(&tree).unwrap_or_default()
    }

    /// Unchecked specification of a part.
    ///
    /// # Errors
    /// An unknown kind; invalid values.
    pub fn chip(&self) -> Result<ChipSpec, ConfigError> {
        let name = self.head.get("kind").and_then(Node::as_text).unwrap_or_default();
        let kind = ChipKind::named(name).ok_or_else(|| self.head.wrong("kind", unknown_kind(name)))?;
        self.table.extract_seed("", kind)
    }

    /// Sources that can apply to the value at a path of the table, and the number of sources before them. If a user's
    /// file overrides a value of its base, only the sources of that file apply.
    pub fn sources_at<'a>(&self, part: &'a Part, path: &str) -> (usize, &'a [Provenance]) {
        let file = &self.source;
        let is_own = self.table.get(path).is_some_and(|node| node.origin.source.name() == file.name());
        let own = || {
            let all = match self.head.get("source").map(|node| &node.value) {
                Some(Value::Array(all)) => all.as_slice(),
                _ => &[],
            };
            all.iter().filter(|source| source.origin.source.name() == file.name()).count()
        };
        let first =
            if file.folder().is_some() && is_own { part.sources.len().saturating_sub(own()) } else { 0 };
        (first, part.sources.get(first..).unwrap_or_default())
    }
}

/// Key of the chips that follow the first one.
const CONCAT: &str = "concat";

/// Maximum length of a chain of base files.
pub(super) const MAX_CHAIN: usize = 16;

impl Library {
    /// Reads the setup with a name or path, merged with its bases. The name or file of a part means that part on the
    /// best matching board; the title of the setup then names the board.
    ///
    /// # Errors
    /// Unknown names, unreadable files, TOML errors, a cycle of bases.
    pub fn setup(&self, name: impl AsRef<Path>) -> Result<Setup, ConfigError> {
        let name = name.as_ref();
        let unknown = match self.text(Kind::Setup, name, None) {
            // Setups of the library are never parts, so only user files are examined.
            Ok(text) if text.source.folder().is_none() || !self.is_of_part(&text.tree()?) => {
                return self.setup_of(&text);
            }
            Ok(text) => {
                let part = name.to_str().map(|path| self.setup_of_part(path)).transpose()?.flatten();
                return part.map_or_else(|| self.setup_of(&text), Ok);
            }
            Err(unknown) => unknown,
        };
        match name.to_str().filter(|name| self.has(Kind::Part, name)) {
            Some(part) => self.setup_of_part(part)?.ok_or(unknown),
            None => Err(unknown),
        }
    }

    /// Reads the setup described by a text.
    ///
    /// # Errors
    /// The errors of [`Library::setup`].
    pub fn setup_from(&self, source: &Arc<Source>) -> Result<Setup, ConfigError> {
        self.setup_of(&Text::new(Arc::clone(source)))
    }

    /// A setup with only a chip, by the name or path of a part or of a setup that contains the chip.
    ///
    /// # Errors
    /// The errors of [`Library::setup`].
    pub fn setup_of_chip(&self, part: &str) -> Result<Setup, ConfigError> {
        if self.has(Kind::Setup, part) && !self.has(Kind::Part, part) {
            return self.setup(part).map(Setup::chip_alone);
        }
        // The part is first read by itself, so that a wrong name is not reported as a position in the generated text
        // below.
        if let Err(error) = self.load(Kind::Part, part) {
            let setup = self.setup(part).ok().filter(|setup| setup.tree.child(Kind::Part.table()).is_some());
            return setup.map(Setup::chip_alone).ok_or(error);
        }
        let text = format!("chip = {}", toml::Value::String(part.to_owned()));
        self.setup_from(&Source::text("the chip", &text))
    }

    /// True for a part file: it states a kind of chip, or its base is a part.
    fn is_of_part(&self, file: &Node) -> bool {
        if names_kind(file) {
            return true;
        }
        let Some(base) = file.child("base") else { return false };
        let Some(name) = base.as_text() else { return false };
        let is_part = self.has(Kind::Part, name) && !self.has(Kind::Setup, name);
        is_part || self.is_path_of_part(base, name)
    }

    /// True if the path leads to a part file that states its kind of chip.
    fn is_path_of_part(&self, base: &Node, path: &str) -> bool {
        let text = self.text(Kind::Part, path, Some(&base.origin)).and_then(|text| text.tree());
        text.is_ok_and(|file| names_kind(&file))
    }

    fn setup_of(&self, text: &Text) -> Result<Setup, ConfigError> {
        let mut chain = Chain::default();
        chain.enter(&text.source, None)?;
        let mut replaced = Vec::new();
        let tree = self.setup_tree(text, &mut chain, &mut replaced)?;
        Ok(Setup { tree, board: None, replaced })
    }

    /// Tree of a setup. `replaced` receives the kinds of files that differ from the setup whose title it has.
    fn setup_tree(
        &self,
        text: &Text,
        chain: &mut Chain,
        replaced: &mut Vec<Kind>,
    ) -> Result<Node, ConfigError> {
        let mut tree = text.tree()?;
        let Some(base) = take(&mut tree, "base") else {
            expand(&mut tree)?;
            return Ok(tree);
        };
        let below = self.text(Kind::Setup, name_of(&base, "base")?, Some(&base.origin))?;
        chain.enter(&below.source, Some(&base.origin))?;
        let lower = self.setup_tree(&below, chain, replaced)?;
        chain.leave();
        match tree.child("title") {
            Some(_) => replaced.clear(),
            None => replaced.extend(FILLERS.into_iter().filter(|kind| differs(&lower, &tree, *kind))),
        }
        let mut lower = lower;
        for kind in FILLERS {
            // Sources in the base refer to the base's file, so they do not apply to another file.
            let named = tree.child(kind.table()).filter(|own| own.as_table().is_some());
            if named.is_some() && names_another(&lower, &tree, kind) {
                drop(take(&mut lower, kind.table()));
            }
        }
        let mut tree = lower.merge(tree);
        expand(&mut tree)?;
        Ok(tree)
    }

    /// Reads a part, controller or host and merges it with its bases.
    ///
    /// # Errors
    /// The errors of [`Library::setup`]; an invalid head.
    pub fn load(&self, kind: Kind, name: impl AsRef<Path>) -> Result<Loaded, ConfigError> {
        let text = self.text(kind, name, None)?;
        let mut chain = Chain::default();
        chain.enter(&text.source, None)?;
        self.read(kind, &text, &mut chain)
    }

    /// The part generated from a chip of the kernel's tables, even if the library has its own part for this chip.
    ///
    /// # Errors
    /// A chip from which no part can be generated.
    pub fn load_kernel(&self, chip: &KernelChip) -> Result<Loaded, ConfigError> {
        let text = self.kernel_text(chip).ok_or_else(|| self.unknown(Kind::Part, chip.key, None))?;
        self.read(Kind::Part, &text, &mut Chain::default())
    }

    /// Resolves the references of `setup`, and applies `sets`.
    ///
    /// # Errors
    /// Invalid names and paths; types are checked by [`Config::extract`].
    pub fn resolve(&self, setup: &Setup, sets: &[Override]) -> Result<Config, ConfigError> {
        self.prepare(setup, sets)?.into_config(sets)
    }

    /// Reads the files referenced by `setup` and `sets`. Overrides that reference no file can be changed afterwards,
    /// because reading takes most of the time of [`resolve`](Self::resolve).
    ///
    /// # Errors
    /// Invalid names.
    pub fn prepare(&self, setup: &Setup, sets: &[Override]) -> Result<Prepared, ConfigError> {
        let mut tree = setup.with_files(sets)?;
        let is_replaced = |kind: &Kind| setup.replaced.contains(kind) || differs(&setup.tree, &tree, *kind);
        let replaced = FILLERS
            .into_iter()
            .filter(is_replaced)
            .map(|kind| (kind, base_of(&tree, kind).map(str::to_owned)))
            .collect();
        for kind in FILLERS {
            self.fill(kind, &mut tree)?;
        }
        let part = Part::extract(&tree, "part").ok().map(Arc::new);
        Ok(Prepared { tree, part, replaced, board: setup.board.clone() })
    }

    /// The same setup with each of the chips that `concat` names, in the place of its own chip. Empty without that key.
    ///
    /// # Errors
    /// `concat` is not a list; unknown names, unreadable files, TOML errors.
    pub fn concatenated(&self, config: &Config) -> Result<Vec<Config>, ConfigError> {
        let all = match config.tree.child(CONCAT).map(|node| (node, &node.value)) {
            None => return Ok(Vec::new()),
            Some((_, Value::Array(all))) => all,
            Some((node, found)) => {
                let message = format!("expected a list of parts, found {}", found.describe());
                return Err(node
                    .wrong(CONCAT, message)
                    .help("write `concat = [\"w25n01gv\"]`, without the first chip"));
            }
        };
        let with = |chip: &Node| {
            let mut tree = config.tree.clone();
            [CONCAT, "part"].into_iter().for_each(|key| drop(take(&mut tree, key)));
            put(&mut tree, Kind::Part.table(), chip.clone());
            expand(&mut tree)?;
            self.fill(Kind::Part, &mut tree)?;
            let part = Part::extract(&tree, "part").map_err(|error| explain_missing_part(&tree, error))?;
            Ok(Config { tree, part: Arc::new(part), board: config.board.clone() })
        };
        all.iter().map(with).collect()
    }

    /// Reads a card and applies `sets`. The table of the card is at `card`, the head of its file at `part`.
    ///
    /// # Errors
    /// Unknown names, unreadable files, TOML errors, paths of `sets` that are not below `card`.
    pub fn card(&self, name: impl AsRef<Path>, sets: &[Override]) -> Result<Config, ConfigError> {
        self.card_on_host(name, None, sets)
    }

    /// Reads a card with a host. The table of the host's file is at `card.host`.
    ///
    /// # Errors
    /// The errors of [`Library::card`].
    pub fn card_on_host(
        &self,
        name: impl AsRef<Path>,
        host: Option<&Path>,
        sets: &[Override],
    ) -> Result<Config, ConfigError> {
        let Loaded { mut table, head, .. } = self.load(Kind::Card, name)?;
        if let Some(host) = host {
            put(&mut table, "host", self.load(Kind::CardHost, host)?.table);
        }
        let part = Part::extract(&head, "")?;
        let mut tree = Node::table(head.origin.clone());
        put(&mut tree, Kind::Card.table(), table);
        put(&mut tree, "part", head);
        sets.iter().try_for_each(|set| set.apply(&mut tree))?;
        let config = Config { tree, part: Arc::new(part), board: None };
        config.only_keys(&[Kind::Card.table()])?;
        Ok(config)
    }

    /// Fills the table of a setup for files of `kind`; for a part, also stores its head at `part`.
    fn fill(&self, kind: Kind, tree: &mut Node) -> Result<(), ConfigError> {
        let Some(mut own) = take(tree, kind.table()) else { return Ok(()) };
        let name = if kind == Kind::Part { take(&mut own, "name") } else { None };
        let (table, below) = self.complete(kind, own, &mut Chain::default())?;
        put(tree, kind.table(), table);
        if let (Kind::Part, Some((head, _))) = (kind, below) {
            let part = match take(tree, "part") {
                Some(own) => head.merge(own),
                None => head,
            };
            put(tree, "part", part);
        }
        if let Some(name) = name {
            let mut part = take(tree, "part").unwrap_or_else(|| Node::table(name.origin.clone()));
            put(&mut part, "name", name);
            put(tree, "part", part);
        }
        Ok(())
    }

    /// Merges a table with its base and profile. Also returns head and profiles of the base's file.
    fn complete(
        &self,
        kind: Kind,
        mut own: Node,
        chain: &mut Chain,
    ) -> Result<(Node, Option<(Node, Node)>), ConfigError> {
        let (base, profile) = (take(&mut own, "base"), take(&mut own, "profile"));
        let Some(base) = base else {
            return match profile {
                None => Ok((own, None)),
                Some(profile) => {
                    Err(profile.wrong(&below(kind, "profile"), "a profile needs a `base` beside it"))
                }
            };
        };
        let text = self.text(kind, name_of(&base, &below(kind, "base"))?, Some(&base.origin))?;
        chain.enter(&text.source, Some(&base.origin))?;
        let Loaded { mut table, head, profiles, .. } = self.read(kind, &text, chain)?;
        chain.leave();
        if let Some(name) = profile {
            table = table.merge(pick(kind, &profiles, &name, &text.source)?);
        }
        Ok((table.merge(own), Some((head, profiles))))
    }

    /// Reads a part, controller or host file.
    fn read(&self, kind: Kind, text: &Text, chain: &mut Chain) -> Result<Loaded, ConfigError> {
        let mut head = text.tree()?;
        expand(&mut head)?;
        let base = take(&mut head, "base");
        let own = match (take(&mut head, kind.table()), &base) {
            (None, Some(base)) => Some(Node::table(base.origin.clone())),
            (own, _) => own,
        };
        let Some(mut own) = own else {
            let message = format!("this {}'s file has no table [{}]", kind.noun(), kind.table());
            return Err(ConfigError::new(Problem::MissingKey, message)
                .path(kind.table())
                .at(head.origin.value_place()));
        };
        if let Some(base) = base {
            if own.child("base").is_some() {
                return Err(base.wrong("base", format!("it is in the table [{}], too", kind.table())));
            }
            put(&mut own, "base", base);
        }
        let mut profiles = take(&mut head, "profile").unwrap_or_else(|| Node::table(head.origin.clone()));
        let stated = own.clone();
        let (table, below) = self.complete(kind, own, chain)?;
        if let Some((lower_head, lower_profiles)) = below {
            head = merge_heads(lower_head, head);
            profiles = without_own(lower_profiles, kind, &stated).merge(profiles);
        }
        check_head(kind, &head)?;
        if text.source.folder().is_some() {
            check_sources(kind, (&head, &table, &profiles), &text.source)?;
        }
        Ok(Loaded { table, head, profiles, source: Arc::clone(&text.source) })
    }
}

impl Setup {
    /// Tree of the setup after those overrides that determine which files are read.
    ///
    /// # Errors
    /// Invalid paths.
    pub fn with_files(&self, sets: &[Override]) -> Result<Node, ConfigError> {
        let mut tree = self.tree.clone();
        for set in sets.iter().filter(|set| set.names_a_base()) {
            set.apply(&mut tree)?;
            expand(&mut tree)?;
        }
        Ok(tree)
    }
}

/// A setup with its referenced files, before overrides that reference no file.
#[derive(Clone, Debug)]
pub struct Prepared {
    tree: Node,
    /// Head of the chip's part file; overrides rarely change it.
    part: Option<Arc<Part>>,
    /// Kinds of files that differ from those in the title, with the names of the files in use.
    replaced: Vec<(Kind, Option<String>)>,
    board: Option<Arc<str>>,
}

impl Prepared {
    /// Applies overrides. Overrides that reference a file must be the ones passed to [`Library::prepare`].
    ///
    /// # Errors
    /// Invalid paths; an invalid head of the chip.
    pub fn with(&self, sets: &[Override]) -> Result<Config, ConfigError> {
        self.clone().into_config(sets)
    }

    fn into_config(self, sets: &[Override]) -> Result<Config, ConfigError> {
        let Self { mut tree, part, replaced, board } = self;
        let plain = || sets.iter().filter(|set| !set.names_a_base());
        plain().try_for_each(|set| set.apply(&mut tree))?;
        super::mechanism::derive(&mut tree)?;
        let changes_the_head = plain().any(|set| set.keys().first() == Some(&"part"));
        let part = match part {
            Some(part) if !changes_the_head => part,
            _ => {
                let part =
                    Part::extract(&tree, "part").map_err(|error| explain_missing_part(&tree, error))?;
                Arc::new(part)
            }
        };
        name_what_is_replaced(&mut tree, &part, &replaced);
        Ok(Config { tree, part, board })
    }
}

/// True for a file that contains a chip and its kind.
fn names_kind(file: &Node) -> bool {
    file.child("kind").is_some() && file.child("chip").is_some()
}

/// Adds advice for a setup without a part.
fn explain_missing_part(tree: &Node, error: ConfigError) -> ConfigError {
    match (tree.child("part"), tree.child("chip")) {
        (Some(_), _) => error,
        (None, Some(_)) if tree.child("kind").is_some() => {
            ConfigError::new(Problem::MissingKey, "this is the file of a part, not of a setup")
                .at(tree.origin.value_place())
                .help("name it in a setup of your own, as in `chip = \"./part.toml\"`, which adds controller, bus and host")
        }
        (None, Some(chip)) => ConfigError::new(Problem::MissingKey, "missing key `base` in [chip]")
            .path("chip.base")
            .at(chip.origin.value_place())
            .help("write `base = \"w25n01gv\"` in [chip] to change a part, or describe a chip of your own with a table [part], as in `part = { kind = \"spi-nand\", name = \"MINE\" }`"),
        (None, None) => ConfigError::new(Problem::MissingKey, "missing key `chip`")
            .path("chip")
            .at(tree.origin.value_place())
            .help(match tree.child("setup") {
                None => advice! { "name a part, as in `chip = \"w25n01gv\"`; ", Command::Parts, " lists all" },
                Some(_) => {
                    advice! { "a setup names a part, as in `chip = \"w25n01gv\"`; a file with the key `setup` is the specification of a sweep: ", Command::Sweep, " measures its designs, and ", Command::Report, " shows what was found" }
                }
            }),
    }
}

/// Name of the file that fills a table of a setup.
fn base_of(tree: &Node, kind: Kind) -> Option<&str> {
    let table = tree.child(kind.table())?;
    table.as_text().or_else(|| table.child("base")?.as_text())
}

/// True if `upper` and `lower` name different files for a table.
fn names_another(lower: &Node, upper: &Node, kind: Kind) -> bool {
    let is_same = |other: &str| base_of(lower, kind).is_some_and(|own| own.eq_ignore_ascii_case(other));
    base_of(upper, kind).is_some_and(|named| !is_same(named))
}

/// True if `upper` and `lower` name different files for a table, or different chips.
fn differs(lower: &Node, upper: &Node, kind: Kind) -> bool {
    let own_name = |tree: &Node| {
        let name = tree.child(kind.table())?.child("name")?.as_text()?;
        Some(name.to_owned()).filter(|_| kind == Kind::Part)
    };
    names_another(lower, upper, kind) || own_name(upper).is_some_and(|name| own_name(lower) != Some(name))
}

/// Adds to the title of a setup the parts, controllers and hosts that replace those in the title.
fn name_what_is_replaced(tree: &mut Node, part: &Part, replaced: &[(Kind, Option<String>)]) {
    let Some(old) = tree.child("title").cloned() else { return };
    let Some(title) = old.as_text() else { return };
    let name = |(kind, file): &(Kind, Option<String>)| match kind {
        Kind::Part if title.contains(&part.name) => None,
        Kind::Part => Some(format!("the {} {}", part.maker, part.name).replace("the  ", "the ")),
        kind => file.as_ref().map(|file| format!("the {} {file}", kind.noun())),
    };
    let names: Vec<String> = replaced.iter().filter_map(name).collect();
    let Some((last, others)) = names.split_last() else { return };
    let list = if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) };
    let title = format!("{title}; here with {list}");
    put(tree, "title", Node { value: Value::Text(title.into()), ..old.clone() });
}

impl Override {
    /// True if the override determines which files are read, and must therefore be applied before reading.
    pub fn names_a_base(&self) -> bool {
        let is_filler = |key: &str| FILLERS.iter().any(|kind| kind.table() == key);
        match self.keys()[..] {
            [key] | [key, "base" | "profile"] => is_filler(key),
            _ => false,
        }
    }
}

/// Replaces texts in `chip`, `controller`, `host` by tables with that base.
fn expand(tree: &mut Node) -> Result<(), ConfigError> {
    let Some(entries) = tree.as_table_mut() else { return Ok(()) };
    for kind in FILLERS {
        match entries.get_mut(kind.table()) {
            Some(node) if node.as_text().is_some() => {
                let table = Node::table(node.origin.clone());
                let base = std::mem::replace(node, table);
                put(node, "base", base);
            }
            Some(node) if node.as_table().is_none() => {
                let found = node.value.describe();
                return Err(
                    node.wrong(kind.table(), format!("expected a name, a path or a table, found {found}"))
                );
            }
            _ => {}
        }
    }
    Ok(())
}

fn take(tree: &mut Node, key: &str) -> Option<Node> {
    tree.as_table_mut()?.remove(key)
}

fn put(tree: &mut Node, key: &str, node: Node) {
    if let Some(entries) = tree.as_table_mut() {
        entries.insert(key.into(), node);
    }
}

fn below(kind: Kind, key: &str) -> String {
    format!("{}.{key}", kind.table())
}

fn name_of<'a>(node: &'a Node, path: &str) -> Result<&'a str, ConfigError> {
    let found = || format!("expected a name or a path, found {}", node.value.describe());
    node.as_text().ok_or_else(|| node.wrong(path, found()))
}

/// Values of the profile `name`: `[profile.NAME.chip]`.
fn pick(kind: Kind, profiles: &Node, name: &Node, file: &Source) -> Result<Node, ConfigError> {
    let wanted = name_of(name, &below(kind, "profile"))?;
    let empty = Table::new();
    let known = profiles.as_table().unwrap_or(&empty);
    let Some(profile) = known.get(wanted) else {
        let names: Vec<&str> = known.keys().map(AsRef::as_ref).collect();
        return Err(no_profile(name, wanted, &names, file));
    };
    let path = format!("profile.{wanted}");
    profile.only_keys(&path, &[kind.table()])?;
    profile.child(kind.table()).cloned().ok_or_else(|| profile.wrong(&path, "this profile is empty"))
}

/// Profiles of a base without the values that the file itself states.
fn without_own(mut profiles: Node, kind: Kind, stated: &Node) -> Node {
    for profile in profiles.as_table_mut().into_iter().flat_map(|all| all.values_mut()) {
        if let Some(table) = profile.as_table_mut().and_then(|profile| profile.get_mut(kind.table())) {
            remove_all(table, stated);
        }
    }
    profiles
}

/// Removes the values of a table that `stated` also contains.
fn remove_all(table: &mut Node, stated: &Node) {
    let (Some(entries), Some(stated)) = (table.as_table_mut(), stated.as_table()) else { return };
    for (key, own) in stated {
        match entries.get_mut(key) {
            Some(inner) if inner.as_table().is_some() && own.as_table().is_some() => remove_all(inner, own),
            Some(_) => drop(entries.remove(key)),
            None => {}
        }
    }
}

fn no_profile(at: &Node, wanted: &str, known: &[&str], file: &Source) -> ConfigError {
    let message = format!("`{}` has no profile `{wanted}`", file.name());
    let error = ConfigError::new(Problem::UnknownName, message).at(at.origin.value_place());
    match (known, nearest(wanted, known.iter().copied(), 1).first()) {
        ([], _) => error.help("it has no profiles at all"),
        (_, Some(best)) => error.help(format!("did you mean `{best}`?")),
        (_, None) => error.help(format!("it has {}", listed(known))),
    }
}

fn check_head(kind: Kind, head: &Node) -> Result<(), ConfigError> {
    match kind {
        Kind::Part | Kind::Card => {
            let part = Part::extract(head, "")?;
            let wrong = match kind {
                Kind::Card => (!CARD_KINDS.contains(&&*part.kind)).then(|| unknown_card_kind(&part.kind)),
                _ => ChipKind::named(&part.kind).is_none().then(|| unknown_kind(&part.kind)),
            };
            wrong.map_or(Ok(()), |message| Err(head.child("kind").unwrap_or(head).wrong("kind", message)))
        }
        _ => head.extract::<About>("").map(drop),
    }
}

/// Rejects sources for keys that are neither in the file and its bases nor in `docs/setup.md`.
fn check_sources(
    kind: Kind,
    (head, table, profiles): (&Node, &Node, &Node),
    file: &Source,
) -> Result<(), ConfigError> {
    let Some(Value::Array(sources)) = head.child("source").map(|node| &node.value) else { return Ok(()) };
    let own = sources.iter().filter(|source| source.origin.source.name() == file.name());
    let paths = own.filter_map(|source| match &source.child("of")?.value {
        Value::Array(paths) => Some(paths.iter()),
        _ => None,
    });
    let has = |path: &str| {
        let is_in = |name: &str, node: &Node| {
            let inside = path.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
            path == name || inside.is_some_and(|rest| node.get(rest).is_some())
        };
        is_in(kind.table(), table) || is_in("profile", profiles) || head.get(path).is_some()
    };
    let mut documented = None;
    for node in paths.flatten() {
        let Some(path) = node.as_text().filter(|path| !has(path)) else { continue };
        let known: &Vec<String> =
            documented.get_or_insert_with(|| super::keys().into_iter().map(|key| key.key).collect());
        let covers =
            |key: &String| key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        if known.iter().any(covers) {
            continue;
        }
        let prefix = format!("{}.", kind.table());
        let near = nearest(path, known.iter().map(String::as_str).filter(|key| key.starts_with(&prefix)), 1);
        let error = ConfigError::new(
            Problem::UnknownKey,
            format!("a source of `{path}`, which is no key of this file"),
        )
        .path("source.of")
        .at(node.origin.value_place());
        return Err(match near.first() {
            Some(best) => error.help(format!("did you mean `{best}`?")),
            None => error.help(format!("keys begin with `{prefix}`: docs/setup.md lists them")),
        });
    }
    Ok(())
}

/// Merges the heads of a file and of its base: fields of the file have priority, and the sources of both are included.
fn merge_heads(mut lower: Node, mut upper: Node) -> Node {
    let inherited = take(&mut lower, "source");
    let own = take(&mut upper, "source");
    let mut head = lower.merge(upper);
    let sources = match (inherited, own) {
        (Some(mut all), Some(own)) => {
            if let (Value::Array(all), Value::Array(own)) = (&mut all.value, own.value) {
                all.extend(own);
            }
            Some(all)
        }
        (one, other) => one.or(other),
    };
    if let Some(sources) = sources {
        put(&mut head, "source", sources);
    }
    head
}

/// Chain of files that are being read, to detect cycles.
#[derive(Default)]
struct Chain(Vec<String>);

impl Chain {
    fn enter(&mut self, source: &Arc<Source>, by: Option<&Origin>) -> Result<(), ConfigError> {
        let id = identity(source);
        let locate = |error: ConfigError| match by {
            Some(origin) => error.at(origin.value_place()),
            None => error,
        };
        if let Some(first) = self.0.iter().position(|seen| *seen == id) {
            let circle: Vec<&str> = self.0[first..].iter().chain([&id]).map(String::as_str).collect();
            let message = format!("`{id}` is its own base: {}", circle.join(" -> "));
            return Err(locate(ConfigError::new(Problem::Cycle, message)));
        }
        if self.0.len() == MAX_CHAIN {
            let message = format!("more than {MAX_CHAIN} files name each other as base");
            return Err(locate(ConfigError::new(Problem::Limit, message)));
        }
        self.0.push(id);
        Ok(())
    }

    fn leave(&mut self) {
        self.0.pop();
    }
}

/// Canonical name of a file, independent of the path by which it was opened.
fn identity(source: &Source) -> String {
    let canonical = source.folder().and_then(|_| std::fs::canonicalize(source.name()).ok());
    canonical.map_or_else(|| source.name().to_owned(), |path| path.display().to_string())
}
