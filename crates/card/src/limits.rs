//! Time limits of requests in the specifications of SD cards and eMMC.

use crate::registers::{CardRegisters, SDHC_BYTES_MAX};
use crate::spec::CardSpec;
use floatgate_mtd::Nanos;

/// Maximum times of a card for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Time until the first block of a read is available.
    pub read: Nanos,
    /// Time for which the card is busy with a written block.
    pub write: Nanos,
    /// Time for which the card is busy with the erase of an allocation unit, as stated in SSR or EXT_CSD.
    pub erase: Nanos,
}

impl CardSpec {
    /// Maximum times of the specification: SD Physical Layer, chapters 4.6.2 and 4.14. JESD84 has no limits for reads and writes; for
    /// eMMC the limits of SDXC are used.
    pub fn request_limits(&self) -> RequestLimits {
        let is_small = !self.is_mmc() && self.stated_bytes() <= SDHC_BYTES_MAX;
        let write = if is_small { Nanos::from_ms(250) } else { Nanos::from_ms(500) };
        let registers = CardRegisters::of(self);
        let of_sd = registers.ssr.and_then(|ssr| ssr.erase.timeout_ms(1)).unwrap_or(1000);
        let erase = registers.ext_csd.map_or(of_sd, |ext_csd| u64::from(ext_csd.erase_timeout) * 300);
        RequestLimits { read: Nanos::from_ms(100), write, erase: Nanos::from_ms(erase) }
    }
}
