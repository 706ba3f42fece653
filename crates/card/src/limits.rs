//! Limits to the time of a request that the specifications allow the card.

use crate::registers::{CardRegisters, SDHC_BYTES_MAX};
use crate::spec::CardSpec;
use floatgate_mtd::Nanos;

/// Times that a card may take for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Until the first block of a read is there.
    pub read: Nanos,
    /// Busy with a block that was written.
    pub write: Nanos,
    /// Busy with the erase of an allocation unit, as the card states it in SSR or EXT_CSD.
    pub erase: Nanos,
}

impl CardSpec {
    /// Times that the specification allows: SD Physical Layer, chapters 4.6.2 and 4.14. JESD84 leaves reads and writes to the maker; the
    /// limits of SDXC stand in.
    pub fn request_limits(&self) -> RequestLimits {
        let is_small = !self.is_mmc() && self.stated_bytes() <= SDHC_BYTES_MAX;
        let write = if is_small { Nanos::from_ms(250) } else { Nanos::from_ms(500) };
        let registers = CardRegisters::of(self);
        let of_sd = registers.ssr.and_then(|ssr| ssr.erase.timeout_ms(1)).unwrap_or(1000);
        let erase = registers.ext_csd.map_or(of_sd, |ext_csd| u64::from(ext_csd.erase_timeout) * 300);
        RequestLimits { read: Nanos::from_ms(100), write, erase: Nanos::from_ms(erase) }
    }
}
