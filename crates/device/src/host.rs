//! Time costs of the host's software.

use crate::timeline::{Host, Resource};
use crate::units;
use floatgate_mtd::{Nanos, Phase};
use serde::Deserialize;

/// Time costs of the host's software, in addition to those of the controller, and its sleep behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostProfile {
    /// CPU time of each MTD call, in us: system call, locks, MTD core.
    #[serde(with = "units::us")]
    pub call_us: Nanos,
    /// CPU time for each page of a call, in us: driver code between operations.
    #[serde(with = "units::us")]
    pub page_us: Nanos,
    /// Time to copy data between the buffers of caller and driver, in ns per 1000 bytes (in Linux mtdchar copies
    /// once, and the SPI NAND layer once more).
    pub copy_ns_per_kb: u32,
    /// Time that each sleep of 10 us or more and each wait for an interrupt takes in addition, in us: the CPU leaves
    /// an idle state, and the thread is scheduled. Linux spins below 10 us.
    #[serde(with = "units::us")]
    pub wakeup_us: Nanos,
    /// Time from the release of a lock until a polling thread takes the lock again, in us; another thread can take
    /// the lock in this time.
    #[serde(with = "units::us")]
    pub relock_us: Nanos,
    /// Mean time of one instruction in ECC code, in ps; 0 if unknown. The costs of the software ECC engine (for BCH
    /// only if `bch` is absent) and the CPU time of filesystems are computed from it.
    pub instruction_ps: u32,
    /// Time to fetch a line of 32 bytes from memory after a miss of the data cache, in ns; 0 if unknown. A long time
    /// makes codecs with large tables slow.
    pub cache_miss_ns: u32,
    /// Time to copy data from the kernel to a program (Linux: `copy_to_user`), in ns per 1000 bytes; 0 to compute it
    /// from `instruction_ps` and `cache_miss_ns`.
    pub copy_to_user_ns_per_kb: u32,
    /// Time to copy data from a program to the kernel (Linux: `copy_from_user`), in ns per 1000 bytes; 0 to compute
    /// it from `instruction_ps` and `cache_miss_ns`.
    pub copy_from_user_ns_per_kb: u32,
    /// True if LZO compresses as before Linux 3.9: it looks for a match at each byte, even after many bytes without a
    /// match, and does not clear its table of 64 KiB. Random bytes then take four times as long as with the LZO of
    /// today, and zeros a little less.
    pub lzo_before_linux_3_9: bool,
    /// Number of CPU cycles of Linux's BCH encoder on this core.
    pub bch: BchCycles,
    /// True if the host runs firmware instead of Linux: it has no UBI, UBIFS or JFFS2.
    pub firmware: bool,
    /// True if the costs of host and controller come from another board; the intervals of figures are then wide.
    pub unmeasured: bool,
    /// ECC engine of the SoC, separate from its memory controllers.
    pub external_ecc: ExternalEcc,
}

/// CPU cycles of Linux's BCH encoder (lib/bch.c), counted for one core. The encoder looks up four table rows for each 32 bits of data, and
/// each row has as many words as the ECC bytes fill. The load unit of the core decides its speed, which instructions per second (DMIPS) do
/// not measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BchCycles {
    /// Clock of the CPU, in Hz; 0 if the cycles of this CPU were not counted.
    #[serde(with = "units::hz")]
    pub clock_hz: u64,
    /// Number of cycles per 32-bit word of data.
    pub word: u32,
    /// Further cycles per 32-bit word of data, for each 32-bit word of ECC bytes in a step.
    pub ecc_word: u32,
}

impl BchCycles {
    /// Value for a CPU whose cycles were not counted.
    pub const NONE: Self = Self { clock_hz: 0, word: 0, ecc_word: 0 };

    /// Time per KiB for a number of words of ECC bytes per step, ps; `None` if the cycles were not counted.
    pub fn ps_per_kib(&self, ecc_words: u32) -> Option<u64> {
        let cycles = u128::from(self.word) + u128::from(self.ecc_word) * u128::from(ecc_words);
        let ps = (cycles * (1024 / 4) * 1_000_000_000_000).checked_div(self.clock_hz.into())?;
        Some(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

/// An external ECC engine, through which each page passes in a separate transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalEcc {
    /// Time to start the engine for a page and to wait for its interrupt, in us.
    #[serde(with = "units::us")]
    pub setup_us: Nanos,
    /// Time of the engine for data, in ns per 1000 bytes.
    pub ns_per_kb: u32,
}

impl ExternalEcc {
    /// Assumed values: one byte per clock at 200 MHz, with the start and end costs of a DMA read by the Cadence controller.
    const ASSUMED: Self = Self { setup_us: Nanos::from_us(16), ns_per_kb: 5_000 };
}

impl Default for ExternalEcc {
    fn default() -> Self {
        Self::ASSUMED
    }
}

impl HostProfile {
    /// A host whose software takes no time.
    pub const NONE: Self = Self {
        call_us: Nanos::ZERO,
        page_us: Nanos::ZERO,
        copy_ns_per_kb: 0,
        wakeup_us: Nanos::ZERO,
        relock_us: Nanos::ZERO,
        instruction_ps: 0,
        cache_miss_ns: 0,
        copy_to_user_ns_per_kb: 0,
        copy_from_user_ns_per_kb: 0,
        lzo_before_linux_3_9: false,
        bch: BchCycles::NONE,
        firmware: false,
        unmeasured: false,
        external_ecc: ExternalEcc::ASSUMED,
    };

    /// Books one MTD call.
    #[inline]
    pub fn call(&self, host: &mut Host) {
        host.spend(Resource::Cpu, Phase::Cpu, self.call_us, "MTD call");
    }

    /// Books the copies between buffers in one call.
    #[inline]
    pub fn copy(&self, host: &mut Host, bytes: usize) {
        let time = Nanos::from_ns(bytes as u64 * u64::from(self.copy_ns_per_kb) / 1000);
        host.spend(Resource::Cpu, Phase::Cpu, time, "copy");
    }

    /// Books the driver code for one page.
    #[inline]
    pub fn page(&self, host: &mut Host) {
        host.spend(Resource::Cpu, Phase::Cpu, self.page_us, "driver, per page");
    }

    /// Actual duration of a driver's pause of `length`, including the wake-up.
    #[inline]
    pub fn pause(&self, length: Nanos) -> Nanos {
        if length < Nanos::from_us(10) { length } else { length + self.wakeup_us }
    }
}
