//! Time accounting: the breakdown of time into phases. The phases add up to the elapsed time by construction, because
//! every nanosecond of the foreground is booked once, under one phase.

use crate::time::Nanos;
use core::fmt;
use core::ops::{AddAssign, Index, Sub};

/// Phase of an operation: the resource on which time was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Foreground waits for the memory array (tR, tPROG, tBERS).
    Array,
    /// Command cycles on the bus.
    Command,
    /// Address cycles on the bus.
    Address,
    /// Dummy and turnaround cycles on the bus, including waits such as tADL, tWHR and tRR.
    Dummy,
    /// Data cycles on the bus.
    Data,
    /// An ECC engine or software codec that does not run in parallel with another phase.
    Ecc,
    /// The controller: register set-up, DMA start, FIFO and programmed I/O beyond the bus time.
    Controller,
    /// The host CPU: system calls, driver code, interrupts, copies.
    Cpu,
    /// Status operations, sleeps and tick delays between the ready state of the array and its detection by the driver.
    Polling,
    /// Waiting for a resource that another operation uses, for instance an operation of another thread.
    Waiting,
}

impl Phase {
    /// All phases, in printing order.
    pub const ALL: [Self; 10] = [
        Self::Array,
        Self::Command,
        Self::Address,
        Self::Dummy,
        Self::Data,
        Self::Ecc,
        Self::Controller,
        Self::Cpu,
        Self::Polling,
        Self::Waiting,
    ];

    /// Name used in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Command => "command",
            Self::Address => "address",
            Self::Dummy => "dummy",
            Self::Data => "data",
            Self::Ecc => "ecc",
            Self::Controller => "controller",
            Self::Cpu => "cpu",
            Self::Polling => "polling",
            Self::Waiting => "waiting",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Time per [`Phase`]. The times of a device only increase; the cost of an operation is the difference of two
/// readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown([Nanos; Phase::ALL.len()]);

impl Breakdown {
    /// Books `spent` under `phase`.
    #[inline]
    pub fn add(&mut self, phase: Phase, spent: Nanos) {
        self.0[phase as usize] += spent;
    }

    /// Sum over all phases, which equals the elapsed time.
    pub fn total(&self) -> Nanos {
        self.0.iter().copied().sum()
    }

    /// Phases and their times, in printing order, zero ones included.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, Nanos)> + '_ {
        Phase::ALL.into_iter().zip(self.0)
    }

    /// Phase with the longest time (the first of equals).
    pub fn largest(&self) -> (Phase, Nanos) {
        self.iter().fold((Phase::Array, Nanos::ZERO), |best, item| if item.1 > best.1 { item } else { best })
    }
}

impl fmt::Display for Breakdown {
    /// Formats the sum and the phases in the unit of the sum: `96.2 us: array 25.0, data 68.1, cpu 3.10`. Phases that
    /// round to zero are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, unit) = (self.total(), self.total().unit().1);
        write!(f, "{total}")?;
        let mut separator = ": ";
        for (phase, time) in self.iter().filter(|(_, time)| *time > Nanos::ZERO && *time * 200 >= unit) {
            write!(f, "{separator}{phase} ")?;
            time.fmt_in(unit, f)?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Index<Phase> for Breakdown {
    type Output = Nanos;
    fn index(&self, phase: Phase) -> &Nanos {
        &self.0[phase as usize]
    }
}

impl AddAssign for Breakdown {
    fn add_assign(&mut self, rhs: Self) {
        for (a, b) in self.0.iter_mut().zip(rhs.0) {
            *a += b;
        }
    }
}

impl Sub for Breakdown {
    type Output = Self;
    /// Time booked between two readings of the same device; `rhs` is the earlier one.
    fn sub(self, rhs: Self) -> Self {
        let mut out = self;
        for (a, b) in out.0.iter_mut().zip(rhs.0) {
            *a = a.saturating_sub(b);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn differences_add_up() {
        let mut a = Breakdown::default();
        a.add(Phase::Array, Nanos::from_us(50));
        let before = a;
        a.add(Phase::Data, Nanos::from_us(200));
        a.add(Phase::Array, Nanos::from_us(50));
        let cost = a - before;
        assert_eq!(cost.total(), Nanos::from_us(250));
        assert_eq!(cost[Phase::Array], Nanos::from_us(50));
        assert_eq!(cost.largest(), (Phase::Data, Nanos::from_us(200)));
    }

    #[test]
    fn prints_phases_in_the_unit_of_the_sum() {
        let mut spent = Breakdown::default();
        assert_eq!(spent.to_string(), "0 ns");
        spent.add(Phase::Array, Nanos::from_us(750));
        spent.add(Phase::Command, Nanos::from_us(4));
        spent.add(Phase::Cpu, Nanos::from_us(1250));
        assert_eq!(spent.to_string(), "2.00 ms: array 0.75, cpu 1.25");
    }
}
