//! States into which a card is brought before a measurement.

use floatgate_card::{Card, Fake, Mapping};
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

    /// Number of requests that fill `sectors`, and number of requests that overwrite some of them.
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

    /// Number of steps for a progress bar; each step takes about the same time.
    pub const fn steps(self, capacity: u64, mapping: Mapping) -> u64 {
        let (fills, overwrites) = Self::requests(self.filled(capacity), mapping);
        fills + overwrites / OVERWRITES_OF_STEP
    }

    /// Brings a new card into this state; `progress` receives the number of steps done.
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
        // A card that lies about its size has other sectors behind its own.
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

/// Sectors of a sequential fill request.
const FILL_SECTORS: u64 = 2048;

/// Maximum number of overwrite requests, and number of overwrite requests that take as long as one fill request.
const OVERWRITES_MAX: u64 = 1 << 22;
const OVERWRITES_OF_STEP: u64 = 64;
