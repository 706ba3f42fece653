//! Boards for parts: a part that is named instead of a setup runs on the best matching board of the catalogue.

use super::Setup;
use super::error::ConfigError;
use super::library::{Kind, Library};
use super::node::Node;
use super::part::Part;
use super::resolve::MAX_CHAIN;
use super::set::Override;
use super::source::Source;
use floatgate_device::host::HostProfile;
use floatgate_device::spec::ChipSpec;
use floatgate_device::spi::{Mode, Variant};
use floatgate_device::units::hz;
use serde::Deserialize;
use std::cmp::Reverse;

/// Name of the controller model without overhead, which no real board has.
const IDEAL: &str = "ideal-spi";

impl Library {
    /// The setup that exists for a part, or else the part on the board with the most similar chip. `None` if no board has a chip of this
    /// kind. A user's file that is based on a chip of the catalogue gets the board of that chip. Any other chip of the user gets a board by
    /// kind, bus and maker, independent of its size.
    ///
    /// # Errors
    /// The errors of [`Library::setup`], and an impossible chip.
    pub(super) fn setup_of_part(&self, part: &str) -> Result<Option<Setup>, ConfigError> {
        let loaded = self.load(Kind::Part, part)?;
        let of = |key: &str| loaded.head.get(key).and_then(Node::as_text).unwrap_or_default().to_owned();
        let is_file = loaded.source.folder().is_some();
        let (spec, text) = (loaded.chip()?, self.base_in_catalogue(part));
        let (maker, name) = (of("maker"), of("name"));
        let size =
            if is_file { self.size_of_like(text.as_deref(), &maker, &name) } else { Some(size_log2(&spec)) };
        let wanted = Wanted { spec, size_log2: size, maker, name, text, is_file };
        let boards = self.names(Kind::Setup);
        let fits = boards.filter_map(|board| Some((self.likeness(board, part, &wanted)?, board)));
        let Some((likeness, board)) = fits.max_by_key(|(likeness, board)| (*likeness, Reverse(*board)))
        else {
            // An impossible chip is reported as such, because it has no board for the same reason.
            self.resolve(&self.setup_of_chip(part)?, &[])?.checked_chip()?;
            return Ok(None);
        };
        if likeness.is_own_chip && !is_file {
            return self.setup(board).map(|setup| Some(setup.on_board(board)));
        }
        let title = format!("{} {} on the board {board}", wanted.maker, wanted.name);
        let text = |value: &str| toml::Value::String(value.to_owned()).to_string();
        let (base, mut chip, title) = (text(board), text(part), text(title.trim()));
        // The board's own chip is used with the board's profile, which that chip's file also contains.
        let own = self.setup(board)?;
        let profile = own.tree.get("chip.profile").and_then(Node::as_text);
        let has_it = |profile: &&str| likeness.is_own_chip && loaded.profiles.child(profile).is_some();
        if let Some(profile) = profile.filter(has_it) {
            chip = format!("{{ base = {chip}, profile = {} }}", text(profile));
        }
        let text = format!("base = {base}\nchip = {chip}\ntitle = {title}\n");
        let setup = self.setup_from(&Source::text(&format!("{part} on {board}"), &text))?;
        Ok(Some(setup.on_board(board)))
    }

    /// Similarity of a board's own chip to a part; `None` for a board on which the part is impossible.
    fn likeness(&self, board: &str, part: &str, wanted: &Wanted) -> Option<Likeness> {
        let spec = &wanted.spec;
        let setup = self.setup(board).ok()?;
        let own = self.resolve(&setup, &[]).ok()?;
        let own_spec = own.checked_chip().ok()?;
        if own_spec.kind() != spec.kind() {
            return None;
        }
        let chip = Override::parse_all(&[format!("chip={part}")]).ok()?;
        self.resolve(&setup, &chip).and_then(|config| config.checked_chip()).ok()?;
        let size_log2 = size_log2(&own_spec);
        let Bus { lanes: has, clock_hz, mode } = own.extract_or_default("bus").unwrap_or_default();
        let wanted_lanes = lanes(spec);
        let has_partition = setup.tree.child("partition").is_some();
        let is_firmware = own.extract_or_default::<HostProfile>("host").is_ok_and(|host| host.firmware);
        let controller = setup.tree.child("controller").and_then(|table| table.child("base"));
        Some(Likeness {
            is_own_chip: self.is_chip_of(&setup, own.part(), wanted),
            runs: clock_hz <= most_hz(spec)
                && (!has_partition || wanted.size_log2.is_some_and(|wanted| wanted >= size_log2)),
            is_linux: !is_firmware && controller.and_then(Node::as_text) != Some(IDEAL),
            lanes: wanted_lanes.min(has).min(mode.map_or(u8::MAX, |mode| mode.data.lanes)),
            lanes_idle: Reverse(has.saturating_sub(wanted_lanes)),
            is_of_maker: own.part().maker == wanted.maker,
            size_differs: Reverse(wanted.size_log2.map_or(0, |wanted| wanted.abs_diff(size_log2))),
            // The names of board variants are longer.
            name_words: Reverse(board.split('-').count()),
        })
    }

    /// True if the chip of a setup is the wanted part without changes. A user's file is identified by maker and name.
    fn is_chip_of(&self, setup: &Setup, own: &Part, wanted: &Wanted) -> bool {
        let chip = setup.tree.child("chip");
        let named = chip.and_then(|chip| chip.child("base")).and_then(Node::as_text);
        let is_changed = chip
            .and_then(Node::as_table)
            .is_some_and(|table| table.iter().any(|(key, _)| !["base", "profile"].contains(&&**key)));
        let is_text = |named: &str| {
            let own = self.open(Kind::Part, named, None);
            own.is_ok_and(|own| wanted.text.as_deref() == Some(own.name()))
        };
        let is_same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        let is_named =
            wanted.is_file && is_same(&own.name, &wanted.name) && is_same(&own.maker, &wanted.maker);
        !is_changed && named.is_some_and(|named| is_named || is_text(named))
    }

    /// Size of the catalogue chip on which a user's file is based or of which it is a copy, as [`Wanted::size_log2`].
    fn size_of_like(&self, text: Option<&str>, maker: &str, name: &str) -> Option<u32> {
        let folder = format!("{}/", Kind::Part.folder());
        let base = text.and_then(|text| text.strip_prefix(&folder)?.strip_suffix(".toml"));
        let part = base.or_else(|| self.has(Kind::Part, name).then_some(name))?;
        let part = self.load(Kind::Part, part).ok()?;
        let is_of_maker = part.head.get("maker").and_then(Node::as_text) == Some(maker);
        let chip = part.chip().ok().filter(|_| base.is_some() || is_of_maker)?;
        Some(size_log2(&chip))
    }

    /// Name of the catalogue text of a part, or of the catalogue text on which the part is based.
    fn base_in_catalogue(&self, part: &str) -> Option<String> {
        let mut text = self.text(Kind::Part, part, None).ok()?;
        for _ in 0..MAX_CHAIN {
            if text.source.folder().is_none() {
                return Some(text.source.name().to_owned());
            }
            let tree = text.tree().ok()?;
            let base = tree.child("base").or_else(|| tree.child("chip")?.child("base"))?;
            text = self.text(Kind::Part, base.as_text()?, Some(&base.origin)).ok()?;
        }
        None
    }
}

/// A part for which a board is to be chosen.
struct Wanted {
    spec: ChipSpec,
    /// Binary logarithm of the size by which a board is chosen. For a user's file it is the size of the catalogue chip on which the file is
    /// based, so that the board does not change with the size. `None` for any other chip of the user.
    size_log2: Option<u32>,
    maker: String,
    name: String,
    /// Name of the part's text in the catalogue, or of the text on which a user's file is based.
    text: Option<String>,
    is_file: bool,
}

/// Bus properties of a board.
#[derive(Default, Deserialize)]
struct Bus {
    #[serde(default)]
    lanes: u8,
    #[serde(default, with = "hz")]
    clock_hz: u64,
    /// Bus mode that the board requires.
    #[serde(default)]
    mode: Option<Mode>,
}

/// Similarity of a board to the ideal board for a part; a greater value is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    is_own_chip: bool,
    /// True if the clock and the partition of the board are within the limits of the part.
    runs: bool,
    /// True if the board's host runs Linux and its controller exists in reality.
    is_linux: bool,
    /// Number of data lanes that board and part support.
    lanes: u8,
    lanes_idle: Reverse<u8>,
    is_of_maker: bool,
    /// Absolute binary logarithm of the ratio of the chip sizes; 0 if the size is not compared.
    size_differs: Reverse<u32>,
    name_words: Reverse<usize>,
}

/// Binary logarithm of the size of a chip.
fn size_log2(spec: &ChipSpec) -> u32 {
    spec.facts().size_bytes.max(1).ilog2()
}

/// Highest clock of a chip, Hz; unlimited for chips with a parallel bus.
fn most_hz(spec: &ChipSpec) -> u64 {
    match spec {
        ChipSpec::SpiNand(spec) => spec.sdr_hz,
        ChipSpec::SpiNor(spec) => spec.max_sdr_hz,
        ChipSpec::RawNand(_) | ChipSpec::ParallelNor(_) => u64::MAX,
    }
}

/// Maximum number of data lanes of a read; 0 for chips with a parallel bus.
fn lanes(spec: &ChipSpec) -> u8 {
    let most = |reads: &[Variant]| reads.iter().map(|read| read.mode.data.lanes).max().unwrap_or(0);
    match spec {
        ChipSpec::SpiNand(spec) => most(&spec.reads),
        // In octal modes a chip may have only commands with four address bytes.
        ChipSpec::SpiNor(spec) => most(&spec.reads).max(most(&spec.reads_4b)),
        ChipSpec::RawNand(_) | ChipSpec::ParallelNor(_) => 0,
    }
}
