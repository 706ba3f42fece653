//! Sampling of the data lines by a controller.
//!
//! A bit arrives late: clock output, the chip's tCLQV, board and input delay add up to the round trip. Without a PHY
//! the controller samples one bit period after the clock edge that launched the bit. This fails if the round trip is
//! longer than a bit (facts 3.1: above about 60 MHz the sampling point must be tuned). A PHY delays the sample by a
//! delay line of equal taps. Calibration sweeps these taps while it reads a known pattern.

use super::Mode;
use serde::Deserialize;

/// The clock of the PHY exceeds the limit of the chip in the mode of its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the PHY runs at {:.2} MHz, and the chip takes {mode} reads at {:.2} MHz at most: leave bus.phy out, ask for another bus.mode, or set controller.phy.clock_hz",
    f64::from(*.phy_hz) / 1e6,
    f64::from(*.limit) / 1e6
)]
pub struct PhyTooFast {
    /// Mode of the reads.
    pub mode: Mode,
    /// Highest clock of the chip in this mode, Hz.
    pub limit: u32,
    /// Clock of the PHY, Hz.
    pub phy_hz: u32,
}

/// Parameters of a controller's PHY on its board.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhyProfile {
    /// Number of taps of the receive delay line.
    pub taps: u16,
    /// Delay per tap, in ps.
    pub tap_ps: u32,
    /// Round trip from the clock edge to valid data at the sampler, in ps.
    pub round_trip_ps: u32,
    /// Part of each bit period in which data is not stable (skew, jitter, tCLQX), in ps.
    pub unstable_ps: u32,
    /// Width of the narrowest eye that calibration accepts, in taps.
    pub min_eye_taps: u16,
    /// Bus clock while the PHY is used, in Hz (usually the undivided reference clock).
    #[serde(with = "crate::units::hz")]
    pub clock_hz: u64,
    /// Time to switch the PHY on and off around an operation, in us.
    #[serde(default, with = "crate::units::us")]
    pub switch_us: floatgate_mtd::Nanos,
}

/// Result of a PHY calibration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhyState {
    /// Not calibrated: the sample is taken one bit after the clock edge that launched the bit.
    #[default]
    Uncalibrated,
    /// Calibrated: the sample is taken `tap` taps after the clock edge.
    Calibrated {
        /// Selected tap, the centre of the eye.
        tap: u16,
        /// First and last good tap of the eye.
        eye: (u16, u16),
    },
}

impl PhyProfile {
    /// True if a sample `sample_ps` after the edge reads the right bit, for a bit period of `bit_ps`.
    pub const fn samples_right(&self, sample_ps: u64, bit_ps: u64) -> bool {
        let from = self.round_trip_ps as u64;
        let stable = bit_ps.saturating_sub(self.unstable_ps as u64);
        sample_ps >= from && sample_ps < from + stable
    }

    /// Sampling delay of `tap`, ps.
    pub const fn tap_delay_ps(&self, tap: u16) -> u64 {
        tap as u64 * self.tap_ps as u64
    }
}

/// The longest run of good taps, as its first and last tap; `None` if all taps are bad. If several runs have this
/// length, the first is returned.
pub fn widest_eye(good: impl Iterator<Item = bool>) -> Option<(u16, u16)> {
    let mut best: Option<(u16, u16)> = None;
    let mut start = None;
    for (tap, ok) in (0u16..).zip(good) {
        if !ok {
            start = None;
            continue;
        }
        let from = *start.get_or_insert(tap);
        if best.is_none_or(|(a, b)| tap - from > b - a) {
            best = Some((from, tap));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_widest_run() {
        let taps = [false, true, true, false, true, true, true, false, true];
        assert_eq!(widest_eye(taps.into_iter()), Some((4, 6)));
        assert_eq!(widest_eye([false; 4].into_iter()), None);
    }
}
