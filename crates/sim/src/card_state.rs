//! States that a card is brought into before a measurement, and smaller stand-ins for large cards.

use floatgate_card::{Card, CardSpec, Fake, Mapping};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockError, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// State of a card before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardState {
    /// Never written.
    Empty,
    /// Half of the card was written in order, then a part of that half at random.
    Used,
    /// The whole card was written in order, then a part of it at random.
    Full,
}

impl CardState {
    /// All states, in the order in which they are measured.
    pub const ALL: [Self; 3] = [Self::Empty, Self::Used, Self::Full];

    /// Name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Used => "used",
            Self::Full => "full",
        }
    }

    /// Number of sectors of a card of this capacity that are written in order.
    const fn filled(self, capacity: u64) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Used => capacity / 2,
            Self::Full => capacity,
        }
    }

    /// Number of requests that fill `sectors` in order, and number of requests that then overwrite some of them.
    const fn requests(sectors: u64, history: History) -> (u64, u64) {
        // In a page-mapped card the overwrites must use up the spare blocks. If each write copies a whole unit, a few overwrites are
        // enough.
        let wanted = match history.mapping {
            _ if sectors == 0 => 0,
            Mapping::Page => sectors / 8,
            Mapping::Block | Mapping::Hybrid => 200,
        };
        let overwrites = if wanted < history.overwrites_max { wanted } else { history.overwrites_max };
        (sectors.div_ceil(FILL_SECTORS), overwrites)
    }

    /// Number of steps for a progress bar of a card with this number of sectors; each step takes about the same time.
    pub const fn steps(self, capacity: u64, history: History) -> u64 {
        let (fills, overwrites) = Self::requests(self.filled(capacity), history);
        fills + overwrites / OVERWRITES_OF_STEP
    }

    /// Brings a new card into this state; `progress` is called with the number of steps done.
    pub fn reach(
        self,
        card: &mut Fake<Card>,
        history: History,
        chance: &mut Random,
        progress: &dyn Fn(u64),
    ) -> Result<(), BlockError> {
        let sectors = self.filled(card.capacity());
        if sectors == 0 {
            return Ok(());
        }
        let (_, overwrites) = Self::requests(sectors, history);
        let zeros = vec![0; FILL_SECTORS as usize * SECTOR_BYTES];
        // A card that reports a false capacity maps the excess sectors to other ones.
        let is_honest = card.capacity() == card.device().capacity();
        let mut lba = if is_honest { card.device_mut().fill_in_order(sectors)? } else { 0 };
        progress(lba / FILL_SECTORS);
        let mut write = |lba: u64, count: u64| {
            let now = card.device().now();
            card.write(now, lba, &zeros[..count as usize * SECTOR_BYTES])
        };
        while lba < sectors {
            let count = (sectors - lba).min(FILL_SECTORS);
            write(lba, count)?;
            lba += count;
            progress(1);
        }
        for number in 0..overwrites {
            let place = chance.bits() % (sectors / 8).max(1);
            write(place * 8, 8)?;
            progress(u64::from(number % OVERWRITES_OF_STEP == OVERWRITES_OF_STEP - 1));
        }
        let now = card.device().now();
        card.flush(now).map(drop)
    }
}

/// Size of a sequential fill request, sectors.
const FILL_SECTORS: u64 = 2048;

/// Maximum number of overwrite requests, and number of overwrite requests per step of the progress bar, which take as
/// long as a fill request.
const OVERWRITES_MAX: u64 = 1 << 22;
const OVERWRITES_OF_STEP: u64 = 64;

/// Properties of a card that determine the writes which bring it into a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    mapping: Mapping,
    /// Maximum number of requests that overwrite filled sectors.
    overwrites_max: u64,
}

impl History {
    /// The history of a card with this specification.
    pub const fn of(spec: &CardSpec) -> Self {
        Self { mapping: spec.mapping, overwrites_max: OVERWRITES_MAX }
    }

    /// The same history without overwrites: the card is only filled in order.
    #[must_use]
    pub const fn in_order(self) -> Self {
        Self { overwrites_max: 0, ..self }
    }
}

/// A card that is simulated instead of a larger one: a page-mapped card of 4 GiB or more, and of 16 GiB or more for traces. The share of spare blocks and the share of
/// overwritten sectors are the same.
///
/// The write amplification of garbage collection depends on the share of spare blocks and on the requests, not on the number of blocks
/// (`papers amplification` compares with the published analysis). Cache, blocks, pages and times are those of the original card. The time
/// of a scan after a power loss grows with the number of blocks, so it is measured on a card of full size.
#[derive(Clone, Debug)]
pub struct StandIn {
    /// Specification of the simulated card.
    pub spec: CardSpec,
    /// History of the simulated card.
    pub history: History,
}

/// Capacity of a stand-in card for traces, bytes: a partition of 3 GiB is a small part of it.
const STAND_IN_BYTES: u64 = 16 << 30;

/// Minimum ratio of a stand-in card to the bytes that a test writes to it: the test changes this part of its data at most.
const TESTS_MIN: u64 = 16;

/// Minimum number of spare blocks of a stand-in card for tests: the blocks of garbage collection are whole ones.
const SPARES_MIN: u64 = 32;

/// Minimum ratio of the spare bytes of a stand-in card to its cache size.
const CACHES_MIN: u64 = 2;

/// Size of a page-mapped card beyond its capacity, bytes: the spare blocks, the block being written, and the cache.
fn spare_bytes(spec: &CardSpec) -> u64 {
    (spec.blocks_to_spare() + 1) * spec.au_bytes + cache_bytes(spec)
}

/// Size of the SLC cache of a card, bytes.
fn cache_bytes(spec: &CardSpec) -> u64 {
    u64::from(spec.slc.blocks) * spec.au_bytes / u64::from(spec.bits_per_cell.max(1))
}

impl StandIn {
    /// The stand-in for a card in a state. It is the card itself if that is small, empty or not page-mapped, or reports a false capacity.
    pub fn of(spec: &CardSpec, state: CardState) -> Self {
        Self::at_least(spec, state, STAND_IN_BYTES)
    }

    /// The stand-in for a card on which a test writes `test_bytes`. A test that writes more finds a larger share of free blocks. A card without an
    /// SLC cache may have a smaller stand-in than for traces, because data in a cache behaves only approximately like spare space.
    pub fn for_tests(spec: &CardSpec, state: CardState, test_bytes: u64) -> Self {
        if spec.slc.blocks > 0 {
            return Self::of(spec, state);
        }
        let spares = u128::from(SPARES_MIN * spec.au_bytes) * u128::from(spec.capacity_bytes);
        let bytes = (spares / u128::from(spare_bytes(spec).max(1))) as u64;
        Self::at_least(spec, state, bytes.max(TESTS_MIN.saturating_mul(test_bytes)))
    }

    fn at_least(spec: &CardSpec, state: CardState, bytes: u64) -> Self {
        let caches = u128::from(CACHES_MIN * cache_bytes(spec)) * u128::from(spec.capacity_bytes);
        let bytes = bytes.max((caches / u128::from(spare_bytes(spec).max(1))) as u64);
        // In half of a larger card as many sectors are overwritten as in a whole smaller one.
        let is_large = spec.capacity_bytes > 2 * bytes;
        let is_plain = spec.mapping == Mapping::Page && spec.fake.is_none() && spec.enhanced.bytes == 0;
        let is_scalable = is_plain && state != CardState::Empty;
        if is_large && is_scalable { Self::of_size(spec, bytes) } else { Self::whole(spec) }
    }

    /// The card itself, without a stand-in.
    pub fn whole(spec: &CardSpec) -> Self {
        Self { spec: spec.clone(), history: History::of(spec) }
    }

    /// A card of about `bytes`, with a number of spare blocks that preserves the card's share of spare blocks as closely as whole blocks
    /// allow. Data in the cache occupies no other block, so the cache counts as spare space, too.
    pub fn of_size(spec: &CardSpec, bytes: u64) -> Self {
        let (aus, au_bytes) = (spec.aus().max(1), spec.au_bytes.max(1));
        let (cache, all) = (cache_bytes(spec), spare_bytes(spec));
        let scaled =
            |from: u64, to: u64, of: u64| (u128::from(of) * u128::from(to) / u128::from(from.max(1))) as u64;
        let own_all = scaled(aus * au_bytes, bytes, all);
        let own_spare = own_all.saturating_sub(cache).div_ceil(au_bytes).max(1);
        let own_aus = (scaled(all, aus * au_bytes, own_spare * au_bytes + cache) + au_bytes / 2) / au_bytes;
        let mut small = spec.clone();
        small.capacity_bytes = own_aus * au_bytes;
        let needed = small.needed_spare_blocks() + u64::from(spec.bad_blocks);
        small.spare_blocks = (needed + own_spare - 1) as u32;
        let overwrites_max = scaled(aus, own_aus, OVERWRITES_MAX).max(1);
        Self { spec: small, history: History { mapping: spec.mapping, overwrites_max } }
    }

    /// True if the simulated card is smaller than the original.
    pub fn is_small(&self, spec: &CardSpec) -> bool {
        self.spec.capacity_bytes != spec.capacity_bytes
    }
}
