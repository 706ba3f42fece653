//! Simulated managed flash (SD cards and eMMC) with a complete flash translation layer, in virtual time.
//!
//! Modules in data-flow order:
//!
//! - [`CardSpec`] is the specification of a card: the `[card]` table of a part file. [`Card`] is the device: a
//!   [`BlockDevice`] of sectors.
//! - `bus`: the time of commands and blocks in each [`BusMode`].
//! - `card`: splits a request at *map units*. Incomplete units wait in a RAM buffer for their other sectors. Sectors that are
//!   not written are read from the NAND (read, modify, write).
//! - `ftl`: a map from units to *slots* of NAND blocks. A unit is always written to a new slot. The policy chooses the
//!   block:
//!
//!   - `block`: the open block of the unit's allocation unit (`ftl::block_mapped`, `open_aus`). A number of allocation units
//!     can be open, some of them in random order. Cleaning closes the least recently used one: its other units are copied,
//!     and the old block is erased.
//!   - `hybrid`: as `block` for sequential units and for long requests; otherwise log blocks, which all allocation units
//!     share. Cleaning moves the valid units of a log block with at most half of its units valid; otherwise it merges their
//!     allocation units.
//!   - `page`: a single open block (frontier). Cleaning moves the valid units of the emptiest (greedy) or oldest (FIFO)
//!     block.
//!
//!   The SLC cache, a page-mapped FAT area and the bitmaps of discards are streams with separate frontiers. Cleaning always
//!   moves the valid units of a block. A block to which the map no longer refers is free. Wear levelling and refresh also
//!   clean blocks.
//! - `closed`: index of the closed blocks by valid units, age and wear.
//! - `ftl::log`: cleans a log block unit by unit, while writes fill another log block.
//! - `discards`: bitmaps of the map units without contents. The bitmaps are additional map units in a separate stream.
//! - `nand`: blocks, dies, times, wear, and the spare areas: a logical address for each slot, a sequence number for each page, and a summary
//!   of the addresses in the last page of each full block. Only the map needs much memory of the host, less than 4 bytes per 4 KiB; spare
//!   areas of closed blocks are in a temporary file.
//! - [`LossSpec`]: damage of cheap cards by a power loss, in addition to the damage that a host must expect.
//! - `power`: energy, limited supply, and sleep. `limits`: time limits of requests in the specifications.
//! - [`CardRegisters`]: CID, CSD, SCR, SSR and EXT_CSD with the values of the specification; their layout is in `floatgate_media::sd`.
//! - [`mod@protocol`]: commands and states of the SD bus and of an eMMC, from power-on to transfers.
//! - [`mod@sdio`]: registers and tuples of SDIO functions beside the memory, as a host's driver reads them.
//! - [`spi`]: the card at its pins in SPI mode, byte by byte, for external drivers.
//! - [`mod@reference`]: a card with a plain array as reference model, for tests and for `floatgate powercut`.
//! - [`Fake`] wraps a block device and reports a larger size. It also alters data as `evil` firmware does.
//!
//! **Power loss.** The map is in RAM. After a cut, [`Card::power_on`] reads the summaries of full blocks and each page of other blocks. If
//! two slots have the same address, the slot with the later sequence number is valid. A slot to which the map referred at the last flush is
//! not erased before its replacement is programmed. An interrupted merge is ignored, and starts again. Discards are recorded by the next
//! flush, or when the whole card is discarded (`discards`); later power cuts do not restore the discarded contents.
//! [`CardSpec::power_on_bound`] is the maximum time of the recovery. A card that is pulled out ([`Card::order_removal`]) continues during
//! its hold-up time. In the order of the controller's operations, the first one that would end later is torn, and no further operation
//! starts.
//!
//! **Time** is computed, not stepped: each operation reserves the timelines of its die and of the channel. A write ends when the RAM buffer
//! has space for its data.
//!
//! ```
//! use floatgate_card::{Card, CardOptions, CardSpec};
//! use floatgate_mtd::{BlockDevice, Instant};
//!
//! let spec: CardSpec = toml::from_str(include_str!("../tests/small.toml"))?;
//! let mut card = Card::new(&spec, CardOptions::default())?;
//! let written = card.write(Instant::ZERO, 8, &[0x5A; 4096])?;
//! card.flush(written)?;
//! card.cut_power();
//! let ready = card.power_on(card.now(), 0)?;
//! let mut sector = [0; 512];
//! card.read(ready, 8, &mut sector)?;
//! assert_eq!(sector, [0x5A; 512]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`BlockDevice`]: floatgate_mtd::BlockDevice

mod bus;
mod card;
mod closed;
mod discards;
mod evil;
mod fake;
mod ftl;
mod limits;
mod nand;
mod open_aus;
mod packed;
mod power;
pub mod protocol;
pub mod reference;
mod registers;
pub mod sdio;
mod spare;
mod spec;
pub mod spi;

pub use bus::BusMode;
pub use card::{Card, CardMemory, CardOptions, CardStats};
pub use fake::Fake;
pub use limits::RequestLimits;
pub use power::{CardEnergy, Overload, PowerSpec};
pub use registers::{CardHealth, CardRegisters};
pub use spec::{
    BadSpec, CardSpec, ClassSpec, Collector, ControllerSpec, EnhancedSpec, EvilSpec, FakeKind, FakeSpec,
    FatKind, FatSpec, HostSpec, IdentitySpec, IoFunctionSpec, LossSpec, Mapping, MmcSpec, SlcSpec,
    TimingSpec, WearSpec,
};
