//! Interface to the host: modes of the SD bus and of eMMC, with the times of a command and of a data block.

use floatgate_mtd::{Nanos, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// Mode of the interface, in order of increasing speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusMode {
    /// SPI at 25 MHz, one line: 3.1 MB/s.
    Spi,
    /// Default speed (SDR12), 25 MHz, 4 lines: 12.5 MB/s.
    Default,
    /// High speed (SDR25), 50 MHz, 4 lines: 25 MB/s.
    HighSpeed,
    /// UHS-I SDR50, 100 MHz, 4 lines: 50 MB/s.
    Sdr50,
    /// UHS-I DDR50, 50 MHz, both edges, 4 lines: 50 MB/s.
    Ddr50,
    /// UHS-I SDR104, 208 MHz, 4 lines: 104 MB/s.
    Sdr104,
    /// UHS-II FD156, two lanes of 1.56 Gbit/s, one in each direction: 156 MB/s.
    Fd156,
    /// UHS-II HD312, both lanes in one direction: 312 MB/s.
    Hd312,
    /// UHS-III FD624, two lanes of 6.24 Gbit/s: 624 MB/s.
    Fd624,
    /// SD Express, one lane of PCIe 3.1: 985 MB/s.
    SdExpress,
    /// eMMC HS200, 200 MHz, 8 lines: 200 MB/s.
    Hs200,
}

/// Clocks of a command of 48 bits and its response, without the card's time between them (N_CR).
const COMMAND_CLOCKS: u64 = 96;
/// N_CR of a usual card, clocks; the specification allows 2 to 64.
const NCR_CLOCKS: u64 = 8;
/// Clocks of start bit, CRC16 and end bit on each line.
const FRAME_CLOCKS: u64 = 18;

impl BusMode {
    /// All modes, in order of increasing speed.
    pub const ALL: [Self; 11] = [
        Self::Spi,
        Self::Default,
        Self::HighSpeed,
        Self::Sdr50,
        Self::Ddr50,
        Self::Sdr104,
        Self::Fd156,
        Self::Hd312,
        Self::Fd624,
        Self::SdExpress,
        Self::Hs200,
    ];

    /// True for UHS-I, and for modes whose cards also support UHS-I.
    pub const fn has_uhs(self) -> bool {
        matches!(self, Self::Sdr50 | Self::Ddr50 | Self::Sdr104) || self.has_second_row()
    }

    /// True for UHS-II, UHS-III and SD Express, which use a second row of contacts.
    pub const fn has_second_row(self) -> bool {
        matches!(self, Self::Fd156 | Self::Hd312 | Self::Fd624 | Self::SdExpress)
    }

    /// Clock in MHz, and number of data bits per clock.
    pub const fn rate(self) -> (u64, u64) {
        match self {
            Self::Spi => (25, 1),
            Self::Default => (25, 4),
            Self::HighSpeed => (50, 4),
            Self::Sdr50 => (100, 4),
            Self::Ddr50 => (50, 8),
            Self::Sdr104 => (208, 4),
            // Lanes carry ten bits for each byte; start, end, header and CRC of a packet take about as long as those of a block in other modes.
            Self::Fd156 => (156, 8),
            Self::Hd312 => (312, 8),
            Self::Fd624 => (624, 8),
            Self::SdExpress => (985, 8),
            Self::Hs200 => (200, 8),
        }
    }

    /// Highest transfer rate of long requests, MB/s.
    pub fn mb_s(self) -> f64 {
        SECTOR_BYTES as f64 / self.data(1).as_us_f64()
    }

    /// Time of a command with its response.
    pub const fn command(self) -> Nanos {
        ClockedBus::of(self, 0).command()
    }

    /// Time of `sectors` blocks of 512 bytes on the data lines.
    #[inline]
    pub const fn data(self, sectors: u64) -> Nanos {
        ClockedBus::of(self, 0).data(sectors)
    }
}

/// Mode of the interface at the clock that the host generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockedBus {
    hz: u64,
    /// Number of data bits per clock.
    bits: u64,
}

impl ClockedBus {
    /// Mode at the lower one of its own clock and `host_hz`; 0 means that the host has no limit.
    pub(crate) const fn of(mode: BusMode, host_hz: u32) -> Self {
        let (mhz, bits) = mode.rate();
        let (hz, host_hz) = (mhz * 1_000_000, host_hz as u64);
        Self { hz: if host_hz > 0 && host_hz < hz { host_hz } else { hz }, bits }
    }

    const fn clocks(self, clocks: u64) -> Nanos {
        // A request of 2^31 sectors has 10^13 clocks, and their product with 10^9 does not fit into 64 bits.
        Nanos::from_ns((clocks as u128 * 1_000_000_000 / self.hz as u128) as u64)
    }

    /// Time of a command with its response.
    pub(crate) const fn command(self) -> Nanos {
        self.clocks(COMMAND_CLOCKS + NCR_CLOCKS)
    }

    /// Time of `sectors` blocks of 512 bytes on the data lines.
    #[inline]
    pub(crate) const fn data(self, sectors: u64) -> Nanos {
        self.clocks(sectors * (512 * 8 / self.bits + FRAME_CLOCKS))
    }
}

/// Component that accounts for the time on the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BusTime {
    /// The card adds the times of this mode and clock.
    Mode(ClockedBus),
    /// The host clocks the wires itself.
    Wires,
}

impl BusTime {
    /// Time of a command with its response.
    pub(crate) const fn command(self) -> Nanos {
        match self {
            Self::Mode(mode) => mode.command(),
            Self::Wires => Nanos::ZERO,
        }
    }

    /// Time of `sectors` blocks of 512 bytes on the data lines.
    #[inline]
    pub(crate) const fn data(self, sectors: u64) -> Nanos {
        match self {
            Self::Mode(mode) => mode.data(sectors),
            Self::Wires => Nanos::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_take_the_clocks_of_the_specification() {
        assert_eq!(BusMode::HighSpeed.data(1), Nanos::from_ns(1042 * 20));
        let published = [3.0, 12.5, 25.0, 50.0, 50.0, 104.0, 156.0, 312.0, 624.0, 985.0, 200.0];
        for (mode, mb_s) in BusMode::ALL.into_iter().zip(published) {
            assert!((mode.mb_s() / mb_s - 1.0).abs() < 0.04, "{mode:?}: {}", mode.mb_s());
        }
    }

    #[test]
    fn a_host_with_a_lower_clock_is_slower_and_one_with_a_higher_is_not_faster() {
        let at = |hz| ClockedBus::of(BusMode::HighSpeed, hz).data(1).as_ns();
        assert_eq!([at(0), at(50_000_000), at(100_000_000)], [20_840; 3]);
        assert_eq!(at(25_000_000), 41_680);
    }
}
