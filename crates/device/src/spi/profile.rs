//! Parameters of a SPI memory controller and its board: clocks, costs, data paths, limits.

use super::op::{Direction, Mode};
use super::phy::PhyProfile;
use crate::host::HostProfile;
use crate::units;
use floatgate_mtd::Nanos;
use serde::Deserialize;

/// Divider between the reference clock and the bus clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Divider {
    /// Any whole number.
    Any,
    /// Even numbers only (Cadence).
    Even,
    /// Powers of two (STM32 SPI).
    Power2,
    /// No divider, so that the controller has exactly the requested clock.
    #[default]
    Exact,
}

impl Divider {
    /// Highest clock up to `want` that can be derived from `reference` Hz.
    pub fn clock(self, reference: u64, want: u64) -> u64 {
        let want = want.max(1);
        let divide = |by: u64| reference / by;
        match self {
            Self::Exact => want,
            Self::Any => divide(reference.div_ceil(want).max(1)),
            Self::Even => divide(reference.div_ceil(want * 2).max(1) * 2),
            Self::Power2 => divide(reference.div_ceil(want).max(1).next_power_of_two()),
        }
    }
}

/// Cost of an operation in addition to its time on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpCost {
    /// Time before the first clock of the operation, in us: driver code and register set-up.
    #[serde(with = "units::us")]
    pub setup_us: Nanos,
    /// Time from the last clock until the driver continues, in us: interrupt, DMA unmap, wake-up.
    #[serde(with = "units::us")]
    pub finish_us: Nanos,
    /// True if the driver sleeps until an interrupt reports the end of the operation; `host.wakeup_us` is then added.
    pub interrupt: bool,
}

impl OpCost {
    /// The cost on a host with a wake-up time.
    #[must_use]
    pub fn on(mut self, host: &HostProfile) -> Self {
        if self.interrupt {
            self.finish_us += host.wakeup_us;
        }
        self
    }
}

/// Parameters of the data transfer between FIFO and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataPath {
    /// Time of the host per byte, in ns, such as for programmed I/O or an uncached window; 0 for DMA that is as fast
    /// as the bus.
    #[serde(with = "ps_from_ns")]
    pub ns_per_byte: u64,
    /// Time of the host per byte of double-rate transfers, in ns, if the controller uses another path for them;
    /// `ns_per_byte` when absent.
    #[serde(with = "optional_ps_from_ns")]
    pub dtr_ns_per_byte: Option<u64>,
    /// True if the host moves data during the bus transfer (FIFO); false if the host moves data after it.
    pub overlap: bool,
    /// Fill level of the FIFO in bytes at which the host moves its contents. The clock then stops until the host has emptied
    /// the FIFO. 0 if the FIFO needs no attention of the host during a transfer.
    pub fifo_bytes: u32,
    /// Number of bytes for which the FIFO has room above `fifo_bytes`. The clock stops later by these bytes.
    pub fifo_spare_bytes: u32,
    /// Part of the driver that moves the contents of the FIFO.
    pub fifo_by: FifoBy,
    /// Time from the fill level of the FIFO until the driver moves data, in us; with `fifo_by = "thread"`, `host.wakeup_us` is
    /// added.
    #[serde(with = "units::us")]
    pub interrupt_us: Nanos,
    /// Length of the longest transfer that does not use the FIFO's interrupts, in bytes.
    pub polled_bytes: u32,
}

/// Part of a driver that moves the contents of a FIFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FifoBy {
    /// A thread, which each interrupt wakes.
    #[default]
    Thread,
    /// The interrupt handler. The waiting thread wakes once, at the end of the operation.
    Handler,
    /// A loop that waits for the end of each piece of `fifo_bytes`, moves it, and starts the next piece.
    Loop,
}

impl DataPath {
    /// The data path on a host with a wake-up time.
    fn on(mut self, host: &HostProfile) -> Self {
        if self.fifo_bytes > 0 && self.fifo_by == FifoBy::Thread {
            self.interrupt_us += host.wakeup_us;
        }
        self
    }

    fn ps_per_byte(&self, dtr: bool) -> u64 {
        if dtr { self.dtr_ns_per_byte.unwrap_or(self.ns_per_byte) } else { self.ns_per_byte }
    }

    /// Host time in addition to `wire`, the time on the bus.
    #[inline]
    pub(crate) fn excess(&self, bytes: u32, dtr: bool, wire: Nanos) -> Nanos {
        if self.fifo_bytes > 0 && bytes > self.polled_bytes {
            return self.by_interrupts(bytes, dtr, wire).saturating_sub(wire);
        }
        let host = Nanos::from_ns(self.ps_per_byte(dtr) * u64::from(bytes) / 1000);
        if self.overlap { host.saturating_sub(wire) } else { host }
    }

    /// Time until the last byte has passed a FIFO that the host serves at a fill level. The driver then continues until the FIFO
    /// is empty, while the bus transfer also continues. A loop moves each piece while the bus is idle.
    fn by_interrupts(&self, bytes: u32, dtr: bool, wire: Nanos) -> Nanos {
        let (host, wires) = (self.ps_per_byte(dtr), wire.as_ns() * 1000 / u64::from(bytes.max(1)));
        let (level, serve) = (u64::from(self.fifo_bytes.max(1)), self.interrupt_us.as_ns() * 1000);
        let (mut left, mut ps) = (u64::from(bytes), 0);
        if self.fifo_by == FifoBy::Loop {
            return Nanos::from_ns((left * (wires + host) + left.div_ceil(level) * serve) / 1000);
        }
        while left > 0 {
            let full = left.min(level);
            // The end of the operation has an interrupt of its own.
            let serve = if full == left && self.fifo_by == FifoBy::Handler { 0 } else { serve };
            let spare = u64::from(self.fifo_spare_bytes).min(left - full).min(serve / wires.max(1));
            let drained = match wires.checked_sub(host) {
                Some(gain) if gain > 0 => left.min((full + spare) * wires / gain).max(full + spare),
                _ => left,
            };
            ps += full * wires + serve + drained * host;
            left -= drained;
        }
        Nanos::from_ns(ps / 1000)
    }
}

/// Serde conversion from nanoseconds, which may have a fraction (for example 0.26 us per byte), to picoseconds.
mod ps_from_ns {
    use serde::{Deserialize, Deserializer, de};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        let ns = f64::deserialize(d)?;
        if (0.0..1e9).contains(&ns) {
            Ok((ns * 1e3).round() as u64)
        } else {
            Err(de::Error::custom("a time per byte lies between 0 and 1e9 ns"))
        }
    }
}

mod optional_ps_from_ns {
    use serde::Deserializer;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
        super::ps_from_ns::deserialize(d).map(Some)
    }
}

/// Direct mapping: the flash appears in the host's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dirmap {
    /// True if reads use the memory window.
    pub read: bool,
    /// True if writes use the memory window.
    pub write: bool,
    /// Size of the window in bytes; longer transfers are split. 0 for no limit.
    #[serde(with = "units::bytes")]
    pub window_bytes: u64,
    /// Cost of a mapped read, in addition to its time on the bus.
    pub read_cost: OpCost,
    /// Cost of a mapped write, in addition to its time on the bus.
    pub write_cost: OpCost,
    /// Data path of mapped reads; the path of plain operations when absent.
    pub rx: Option<DataPath>,
    /// Data path of mapped writes; the path of plain operations when absent.
    pub tx: Option<DataPath>,
}

/// Parameters of a SPI controller.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiProfile {
    /// Reference clock, which the divider divides, in Hz.
    #[serde(with = "units::hz")]
    pub reference_hz: u64,
    /// Divider between the reference clock and the bus clock.
    #[serde(default)]
    pub divider: Divider,
    /// Largest divider; 0 for no limit.
    #[serde(default)]
    pub max_divider: u32,
    /// Highest bus clock of the controller, in Hz.
    #[serde(with = "units::hz")]
    pub max_hz: u64,
    /// Largest number of data bytes in one operation; 0 for no limit.
    #[serde(default, with = "units::bytes")]
    pub max_transfer_bytes: u64,
    /// Largest number of lanes.
    pub lanes: u8,
    /// True if the controller supports double transfer rate.
    #[serde(default)]
    pub dtr: bool,
    /// True if the controller swaps the two bytes of each 16-bit word in 8D-8D-8D, for chips that swap them in this
    /// mode (Linux: `swap16`).
    #[serde(default)]
    pub swap16: bool,
    /// True if phases of one operation can have different rates (1S-8D-8D); false if all phases must have the same
    /// rate.
    #[serde(default = "yes")]
    pub mixed_rates: bool,
    /// Modes that the controller supports, if lanes and rates do not describe them completely. The single-lane mode
    /// is always supported.
    #[serde(default)]
    pub modes: Option<Vec<Mode>>,
    /// Cost of a plain operation, in addition to its time on the bus.
    #[serde(default)]
    pub exec: OpCost,
    /// Data path from chip to host.
    #[serde(default)]
    pub rx: DataPath,
    /// Data path from host to chip.
    #[serde(default)]
    pub tx: DataPath,
    /// Direct mapping of the flash into a memory window; none if the controller has no such window.
    #[serde(default)]
    pub dirmap: Option<Dirmap>,
    /// PHY of the controller; none if the controller has no PHY.
    #[serde(default)]
    pub phy: Option<PhyProfile>,
}

impl SpiProfile {
    /// The profile on a host with a wake-up time after interrupts.
    #[must_use]
    pub fn on(mut self, host: &HostProfile) -> Self {
        self.exec = self.exec.on(host);
        (self.rx, self.tx) = (self.rx.on(host), self.tx.on(host));
        if let Some(map) = &mut self.dirmap {
            (map.read_cost, map.write_cost) = (map.read_cost.on(host), map.write_cost.on(host));
            (map.rx, map.tx) = (map.rx.map(|path| path.on(host)), map.tx.map(|path| path.on(host)));
        }
        self
    }

    /// Highest clock up to `want` that the controller can generate.
    pub fn clock_for(&self, want: u64) -> u64 {
        self.divider.clock(self.reference_hz, want.min(self.max_hz))
    }

    /// Lowest clock that the controller can generate; 0 for no limit.
    pub fn slowest_hz(&self) -> u64 {
        self.reference_hz.checked_div(self.max_divider.into()).unwrap_or(0)
    }

    /// Path of an operation: the direct mapping if it exists in this direction, otherwise a plain operation.
    pub(super) fn via(&self, direction: Direction, mapped: bool) -> Via {
        let (plain, map) = (if direction == Direction::In { self.rx } else { self.tx }, self.dirmap);
        match (map.filter(|_| mapped), direction) {
            (Some(map), Direction::In) if map.read => {
                Via { cost: map.read_cost, path: map.rx.unwrap_or(plain), limit: map.window_bytes }
            }
            (Some(map), Direction::Out) if map.write => {
                Via { cost: map.write_cost, path: map.tx.unwrap_or(plain), limit: map.window_bytes }
            }
            _ => Via { cost: self.exec, path: plain, limit: self.max_transfer_bytes },
        }
    }
}

/// Path of an operation through the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Via {
    pub(super) cost: OpCost,
    pub(super) path: DataPath,
    /// Maximum number of data bytes of one operation, 0 for no limit.
    pub(super) limit: u64,
}

const fn yes() -> bool {
    true
}

/// The SPI bus on the board.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiBus {
    /// Clock that the board requests, in Hz (device tree: `spi-max-frequency`).
    #[serde(with = "units::hz")]
    pub clock_hz: u64,
    /// Bus mode as command-address-data, such as `1S-1S-8S`: the largest number of lanes and the highest rate of each
    /// phase. A setup is refused if its data phase cannot reach them.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Highest bus mode that board and software support, if `mode` is absent; a chip with a lower mode works in its
    /// own.
    #[serde(default)]
    pub max_mode: Option<Mode>,
    /// Number of data lanes that are wired.
    #[serde(default = "eight")]
    pub lanes: u8,
    /// True if the chip's reset pin is wired, which stateful modes need.
    #[serde(default)]
    pub reset_pin: bool,
    /// True to use the controller's calibrated PHY for data.
    #[serde(default)]
    pub phy: bool,
}

const fn eight() -> u8 {
    8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example of facts 0.3: the Cadence block generates 20.833 MHz from 166.67 MHz if 25 MHz are requested.
    #[test]
    fn even_dividers() {
        assert_eq!(Divider::Even.clock(166_666_667, 25_000_000), 20_833_333);
        assert_eq!(Divider::Even.clock(166_666_667, 166_666_667), 83_333_333);
        assert_eq!(Divider::Any.clock(180_000_000, 28_000_000), 25_714_285);
        assert_eq!(Divider::Power2.clock(90_000_000, 45_000_000), 45_000_000);
        assert_eq!(Divider::Power2.clock(90_000_000, 40_000_000), 22_500_000);
    }

    /// A wake-up of a thread is longest. The FIFO's room hides the time of a handler, and a loop lets the bus wait.
    #[test]
    fn the_time_of_a_fifo_depends_on_its_part_of_the_driver() {
        let us = Nanos::from_us;
        let host = HostProfile { wakeup_us: us(30), ..HostProfile::NONE };
        let path =
            DataPath { ns_per_byte: 50_000, fifo_bytes: 96, interrupt_us: us(4), ..DataPath::default() };
        let time = |path: DataPath| path.on(&host).excess(2048, false, us(410));
        let (thread, handler) = (time(path), time(DataPath { fifo_by: FifoBy::Handler, ..path }));
        let roomy = time(DataPath { fifo_by: FifoBy::Handler, fifo_spare_bytes: 32, ..path });
        let in_loop = time(DataPath { fifo_by: FifoBy::Loop, ..path });
        assert!(thread.as_ns() > handler.as_ns() * 3, "{thread:?} {handler:?}");
        assert!(roomy < us(10), "the last bytes remain: {roomy:?}");
        assert_eq!(
            in_loop,
            Nanos::from_ns(22 * 4_000 + 2048 * 50 + 2048 * (410_000_000 / 2048) / 1000 - 410_000)
        );
        assert!(handler < in_loop);
    }
}
