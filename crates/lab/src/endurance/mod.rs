//! Lives of blocks, and the change of their times with wear: the experiment of Desnoyers (HotStorage 2009).
//!
//! One page of a block is programmed and the block is erased, repeatedly, until the chip's status reports a failure.
//! Every cycle of every life is counted, but only cycles at which a time changes are simulated.
//!
//! - [`Subject`]: a chip with the properties that the experiment needs.
//! - [`Experiment`]: number and treatment of the blocks; [`life`]: the life of one block.
//! - [`run`], [`Report`]: the results.
//! - [`predict`]: the remaining life of a block, from its times.
//! - [`Promise`]: the data sheet's figures of a NOR, whose measured lives are not published.

pub mod figures;
mod latency;
mod life;
pub mod predict;
mod promise;
mod report;
mod subject;

pub use latency::Latency;
pub use life::{Stretch, cycles, life};
pub use promise::{EraseTime, Promise};
pub use report::{Bin, BlockCycles, Life, Point, Report, Trace, run, run_all};
pub use subject::{Evidence, PAPER_CHIPS, Subject};

use floatgate_device::cells::stress;
use floatgate_image::words::count;
use floatgate_sim::error::Error;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Pages of a block that each cycle programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// One page, as in the paper's endurance test.
    #[default]
    #[serde(alias = "1")]
    #[cfg_attr(feature = "command", value(name = "1"))]
    One,
    /// All pages of the block.
    All,
}

/// Data that are programmed. No effect on wear was found (Desnoyers 2009), and the model has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// All bits programmed, as in the paper's endurance test.
    #[default]
    Zeroes,
    /// No bits programmed.
    Ones,
    /// Half of the bits programmed, at random.
    Random,
    /// Every second bit programmed.
    Checker,
}

/// Experiment on the blocks of one kind of chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Number of blocks of each chip.
    pub blocks: u32,
    /// Number of chips.
    pub chips: u32,
    /// Seed of the differences between chips and blocks.
    pub seed: u64,
    /// Pages that each cycle programs.
    pub pages: Pages,
    /// Temperature in degrees Celsius.
    pub temperature_c: f64,
    /// Data pattern that is programmed.
    pub pattern: Pattern,
    /// True to erase only, without programming.
    pub erase_only: bool,
    /// Number of blocks that are written alternately. They share nothing that wears, so this changes no result.
    pub interleave: u32,
}

impl Default for Experiment {
    /// Experiment of the paper: one page of zeroes at room temperature.
    fn default() -> Self {
        Self {
            blocks: 10,
            chips: 1,
            seed: 0,
            pages: Pages::One,
            temperature_c: 25.0,
            pattern: Pattern::Zeroes,
            erase_only: false,
            interleave: 1,
        }
    }
}

/// Maximum number of blocks of one experiment.
pub const BLOCKS_MAX: u32 = 1_000_000;

/// Temperature range in which chips work, degrees Celsius.
pub const TEMPERATURES_C: RangeInclusive<f64> = -55.0..=125.0;

impl Experiment {
    /// Checks that the experiment is possible.
    ///
    /// # Errors
    /// No block or too many blocks; a temperature at which no chip works.
    pub fn check(&self) -> Result<(), Error> {
        let blocks = u64::from(self.blocks) * u64::from(self.chips);
        if !(1..=u64::from(BLOCKS_MAX)).contains(&blocks) {
            return Err(Error::request(
                format!(
                    "{} of {} cannot be tested",
                    count(self.blocks.into(), "block"),
                    count(self.chips.into(), "chip")
                ),
                format!("choose 1 to {BLOCKS_MAX} blocks in all"),
            ));
        }
        if !TEMPERATURES_C.contains(&self.temperature_c) {
            return Err(Error::request(
                format!("no chip works at {} C", self.temperature_c),
                format!("choose a temperature from {} to {}", TEMPERATURES_C.start(), TEMPERATURES_C.end()),
            ));
        }
        if self.interleave == 0 || self.interleave > self.blocks {
            return Err(Error::request(
                format!(
                    "{} of {} cannot be written in turn",
                    self.interleave,
                    count(self.blocks.into(), "block")
                ),
                "interleave 1 block up to all",
            ));
        }
        Ok(())
    }

    /// Wear of one cycle on a block of `pages_per_block` pages, in thousandths of an ordinary cycle.
    pub fn stress(&self, pages_per_block: u32) -> u64 {
        let pages = match self.pages {
            _ if self.erase_only => 0,
            Pages::One => 1,
            Pages::All => pages_per_block,
        };
        stress(self.temperature_c, pages, pages_per_block)
    }
}
