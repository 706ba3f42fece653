//! Limits to the time of a request: what the specifications allow the card, and how long the host waits.

use crate::bus::BusMode;
use crate::registers::CardRegisters;
use crate::spec::CardSpec;
use floatgate_device::units;
use floatgate_mtd::Nanos;
use serde::Deserialize;

/// The host of a card: `[card.host]`. The card finishes a request that the host gives up.
///
/// Linux drops a request to an SD card when a block that is read is not there after 100 ms, and when the card is busy with what was written for
/// 10 s (`MMC_BLK_TIMEOUT_MS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Time after which the host gives up a read, us; 0 for no timeout.
    #[serde(with = "units::us")]
    pub read_timeout_us: Nanos,
    /// Time after which the host gives up a write or flush, us; 0 for no timeout.
    #[serde(with = "units::us")]
    pub write_timeout_us: Nanos,
    /// Time after which the host gives up a discard, us; 0 for no timeout.
    #[serde(with = "units::us")]
    pub erase_timeout_us: Nanos,
    /// Fastest interface mode of the host, which limits the mode of the card; none if the host supports all modes.
    pub bus: Option<BusMode>,
    /// Highest clock that the host generates for the interface, in Hz; 0 if the host generates the clock of each
    /// mode. Most hosts divide a clock by whole numbers, so a card has a lower clock than its mode allows.
    pub clock_hz: u32,
    /// CPU time of the host per request, us: filesystem, block layer, driver, interrupts.
    #[serde(with = "units::us")]
    pub request_us: Nanos,
    /// CPU time of the host for data, in ns per 1000 bytes.
    pub copy_ns_per_kb: u32,
}

impl HostSpec {
    /// Time of the host's CPU for requests with data of this size together.
    pub fn cpu_time(&self, requests: u64, bytes: u64) -> Nanos {
        self.request_us * requests + Nanos::from_ns(bytes * u64::from(self.copy_ns_per_kb) / 1000)
    }
}

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

/// Most bytes of an SDHC card.
pub(crate) const SDHC_BYTES_MAX: u64 = 32 << 30;

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
