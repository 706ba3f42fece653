//! Histories that a card may have before it is measured.

use floatgate_card::{Card, Fake, Mapping};
use floatgate_device::cells::random::Stream;
use floatgate_mtd::{BlockDevice, BlockError, SECTOR_BYTES};
use serde::Serialize;

/// State of a card before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

    /// Brings a new card into its state.
    pub(super) fn reach(
        self,
        card: &mut Fake<Card>,
        mapping: Mapping,
        chance: &mut Stream,
    ) -> Result<(), BlockError> {
        let sectors = match self {
            Self::Empty => return Ok(()),
            Self::Used => card.capacity() / 2,
            Self::Full => card.capacity(),
        };
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
        }
        // A page-mapped card must have used up its spare blocks; where each write copies a whole unit, a few are enough.
        let overwrites = match mapping {
            Mapping::Page => (sectors / 8).min(1 << 22),
            Mapping::Block | Mapping::Hybrid => 200,
        };
        for _ in 0..overwrites {
            let place = chance.bits() % (sectors / 8).max(1);
            write(place * 8, 8)?;
        }
        let now = card.device().now();
        card.flush(now).map(drop)
    }
}

/// Sectors of a request that fills a card.
const FILL_SECTORS: u64 = 2048;
