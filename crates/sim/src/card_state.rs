//! Histories that a card may have before it is measured.

use floatgate_card::{Card, Fake, Mapping};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockError, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// State of a card before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardState {
    /// Nothing was ever written.
    Empty,
    /// Half of it was written in order, and then some of that half at random.
    Used,
    /// All of it was written in order, and then some at random.
    Full,
}

impl CardState {
    /// All states, in the order in which they are measured.
    pub const ALL: [Self; 3] = [Self::Empty, Self::Used, Self::Full];

    /// Word for the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Used => "used",
            Self::Full => "full",
        }
    }

    /// Sectors of a card of this capacity that are written in order.
    const fn filled(self, capacity: u64) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Used => capacity / 2,
            Self::Full => capacity,
        }
    }

    /// Requests that fill so many sectors, and those that overwrite some of them.
    const fn requests(sectors: u64, mapping: Mapping) -> (u64, u64) {
        // A page-mapped card must have used up its spare blocks; where each write copies a whole unit, a few are enough.
        let overwrites = match mapping {
            _ if sectors == 0 => 0,
            Mapping::Page => {
                if sectors / 8 < OVERWRITES_MAX {
                    sectors / 8
                } else {
                    OVERWRITES_MAX
                }
            }
            Mapping::Block | Mapping::Hybrid => 200,
        };
        (sectors.div_ceil(FILL_SECTORS), overwrites)
    }

    /// Steps in which a card reaches the state, for a bar: as many as take about the same time.
    pub const fn steps(self, capacity: u64, mapping: Mapping) -> u64 {
        let (fills, overwrites) = Self::requests(self.filled(capacity), mapping);
        fills + overwrites / OVERWRITES_OF_STEP
    }

    /// Brings a new card into its state; `progress` hears of steps.
    pub fn reach(
        self,
        card: &mut Fake<Card>,
        mapping: Mapping,
        chance: &mut Random,
        progress: &dyn Fn(u64),
    ) -> Result<(), BlockError> {
        let sectors = self.filled(card.capacity());
        if sectors == 0 {
            return Ok(());
        }
        let (_, overwrites) = Self::requests(sectors, mapping);
        let zeros = vec![0; FILL_SECTORS as usize * SECTOR_BYTES];
        let mut write = |lba: u64, count: u64| {
            let now = card.device().now();
            card.write(now, lba, &zeros[..count as usize * SECTOR_BYTES])
        };
        let mut lba = 0;
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

/// Sectors of a request that fills a card.
const FILL_SECTORS: u64 = 2048;

/// Requests that overwrite, at most, and those that take as long as one that fills.
const OVERWRITES_MAX: u64 = 1 << 22;
const OVERWRITES_OF_STEP: u64 = 64;
