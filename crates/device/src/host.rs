//! What the host's software costs, as data.

use crate::timeline::{Host, Resource};
use crate::units;
use floatgate_mtd::{Nanos, Phase};
use serde::Deserialize;

/// Costs of the host's software beside the controller's, and how it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostProfile {
    /// Each MTD call: system call, locks, MTD core.
    #[serde(with = "units::us")]
    pub call_us: Nanos,
    /// Each page within a call: driver code between operations.
    #[serde(with = "units::us")]
    pub page_us: Nanos,
    /// Copying between the caller's buffer and the driver's, in ns per 1000 bytes (Linux's mtdchar copies once, its SPI NAND
    /// layer once more).
    pub copy_ns_per_kb: u32,
    /// Added to each sleep of 10 us or more: timer slack and wake-up (Linux spins below 10 us).
    #[serde(with = "units::us")]
    pub wakeup_us: Nanos,
}

impl HostProfile {
    /// Books one MTD call.
    #[inline]
    pub fn call(&self, host: &mut Host) {
        host.spend(Resource::Cpu, Phase::Cpu, self.call_us, "MTD call");
    }

    /// Books the copies of one call.
    #[inline]
    pub fn copy(&self, host: &mut Host, bytes: usize) {
        let time = Nanos::from_ns(bytes as u64 * u64::from(self.copy_ns_per_kb) / 1000);
        host.spend(Resource::Cpu, Phase::Cpu, time, "copy");
    }

    /// Books one page's driver code.
    #[inline]
    pub fn page(&self, host: &mut Host) {
        host.spend(Resource::Cpu, Phase::Cpu, self.page_us, "driver, per page");
    }

    /// How long a driver's pause of `length` really takes.
    #[inline]
    pub fn pause(&self, length: Nanos) -> Nanos {
        if length < Nanos::from_us(10) { length } else { length + self.wakeup_us }
    }
}
