//! Managed flash, SD cards and eMMC, as a simulated device with a real translation layer, in virtual time.
//!
//! In the order data flows:
//!
//! - [`CardSpec`] is a card as data, the `[card]` table of a part file. [`Card`] is the device: a [`BlockDevice`] of sectors.
//! - `bus`: the time of commands and blocks in each [`BusMode`].
//! - `card`: a request becomes pieces of *map units*. Parts of units wait in a RAM buffer for the rest; what never comes is read
//!   from the NAND (read, modify, write).
//! - `ftl`: a map from units to *slots* of NAND blocks. A unit is always written to a new slot; where, is the policy:
//!
//!   - `block`: the open block of its allocation unit (`ftl::block_mapped`, `open_aus`). K are open, R of them in any order. Cleaning closes the
//!     one used least recently: the rest is copied, and the old block erased.
//!   - `hybrid`: as `block` for a unit in order or of a long request, else log blocks shared by all. Cleaning moves the rest of
//!     a log block that is less than half valid, else it merges its allocation units.
//!   - `page`: one frontier. Cleaning moves the valid units of the emptiest (greedy) or oldest (FIFO) block.
//!
//!   The SLC cache, a page-mapped FAT area and the bitmaps of discards are streams with a frontier of their own. In each case the valid units of a block are written
//!   anew, and a block to which the map does not point any more is free. Wear levelling and refresh clean blocks, too.
//! - `closed`: the closed blocks by valid units, age and wear.
//! - `ftl::log`: a block of the log is cleaned a unit at a time, beside the writes that fill another.
//! - `discards`: bitmaps of the units without contents, map units of their own in a stream of their own.
//! - `nand`: blocks, dies, times, wear, and the spare areas: each slot has its logical address, each page a sequence number, each full
//!   block a last page with a summary of its addresses. The map is all that a card needs much memory for, less than 4 bytes per 4 KiB: spare
//!   areas of closed blocks are in a temporary file.
//! - [`LossSpec`]: damage that cheap cards take when power goes away, beyond what a host must expect.
//! - `power`: energy of operations and time, a supply that is limited, sleep. `limits`: how long requests may take.
//! - [`CardRegisters`]: CID, CSD, SCR, SSR and EXT_CSD with the values of the specification; their layout is in `floatgate_media::sd`.
//! - [`mod@protocol`]: commands and states of the SD bus and of an eMMC, from power-on to transfers.
//! - [`mod@sdio`]: registers and tuples of SDIO functions beside the memory, as a host's driver reads them.
//! - [`spi`]: the card at its pins in SPI mode, byte by byte, for drivers that are not ours.
//! - [`mod@reference`]: a card and a plain array beside it, for tests and for `floatgate powercut`.
//! - [`Fake`] wraps any block device and claims to be larger; what `evil` firmware changes on the way out is its part, too.
//!
//! **Loss of power.** The map lives in RAM. After a cut, [`Card::power_on`] reads the summaries of the blocks (each page of those that were
//! not full) and believes, of two slots with the same address, the one with the later sequence number. Nothing that the map pointed to at
//! the last flush is erased before what replaces it is programmed. A merge that was cut counts for nothing and starts again.
//! Discards are recorded with the next flush, or when the whole card is discarded (`discards`): from then on a cut does not bring contents
//! back. [`CardSpec::power_on_bound`] is the longest time that this takes. A card that is pulled out at some
//! time ([`Card::order_removal`]) goes on for its hold-up time. The first operation that would end later is
//! torn, in the order in which the controller issues them, and no later one takes place.
//!
//! **Time** is closed form: dies and the channel are timelines that are reserved; a write ends when its data has a place in the RAM buffer.
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
