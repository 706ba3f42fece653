//! A SPI memory controller on its board without the chip: supported operations, their clocks and costs.

use super::op::{Clock, Direction, Mode, Width};
use super::profile::{SpiBus, SpiProfile};

/// A controller on its board.
#[derive(Clone, Debug)]
pub struct SpiBoard {
    pub(super) profile: SpiProfile,
    pub(super) bus: SpiBus,
    /// Clock for operations without a clock limit of their own.
    pub(super) base: Clock,
    pub(super) phy_clock: Clock,
}

impl SpiBoard {
    /// Combines a controller and a board.
    pub fn new(profile: SpiProfile, bus: SpiBus) -> Self {
        let base = Clock::new(clip(profile.clock_for(bus.clock_hz)));
        let phy_clock = Clock::new(clip(profile.phy.as_ref().map_or(0, |p| p.clock_hz)));
        Self { profile, bus, base, phy_clock }
    }

    /// Clock for operations without a clock limit of their own, Hz.
    pub const fn clock_hz(&self) -> u32 {
        self.base.hz()
    }

    /// True if controller and board support operations of this mode.
    pub fn supports(&self, mode: Mode) -> bool {
        let widest = |w: Width| w.lanes <= self.profile.lanes && (!w.dtr || self.profile.dtr);
        let wired = mode.data.lanes.max(mode.addr.lanes).max(mode.cmd.lanes) <= self.bus.lanes;
        let phases = [mode.cmd, mode.addr, mode.data];
        let mixed = phases.iter().any(|w| w.dtr != mode.data.dtr);
        let listed = |modes: &Vec<Mode>| mode == Mode::SINGLE || modes.contains(&mode);
        let able = self.profile.modes.as_ref().is_none_or(listed) && (self.profile.mixed_rates || !mixed);
        wired && able && phases.into_iter().all(widest)
    }

    /// Maximum number of data bytes in one operation.
    pub fn max_transfer(&self) -> usize {
        match self.profile.max_transfer_bytes {
            0 => usize::MAX,
            n => usize::try_from(n).unwrap_or(usize::MAX),
        }
    }

    /// Maximum number of data bytes of a mapped transfer during which CS# stays low.
    pub fn max_mapped(&self, direction: Direction) -> usize {
        let map = self.profile.dirmap.unwrap_or_default();
        match map.window_bytes {
            _ if !self.is_mapped(direction) => self.max_transfer(),
            0 => usize::MAX,
            n => usize::try_from(n).unwrap_or(usize::MAX),
        }
    }

    /// True if transfers in this direction use the direct mapping.
    pub fn is_mapped(&self, direction: Direction) -> bool {
        self.profile.dirmap.is_some_and(|map| if direction == Direction::In { map.read } else { map.write })
    }

    /// Clock of an operation that is limited to `max_hz` (0: no limit), without the PHY.
    pub(super) fn plain_clock(&self, max_hz: u32) -> Clock {
        if max_hz == 0 || self.base.hz() <= max_hz {
            return self.base;
        }
        Clock::new(clip(self.profile.clock_for(self.bus.clock_hz.min(max_hz.into()))))
    }
}

pub(super) fn clip(hz: u64) -> u32 {
    u32::try_from(hz).unwrap_or(u32::MAX)
}
