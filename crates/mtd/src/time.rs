//! Virtual time: nanoseconds in a `u64` (584 years, then it saturates). It is never read from a clock.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A point in virtual time, in nanoseconds since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A length of virtual time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Instant {
    /// Time of power-on.
    pub const ZERO: Self = Self(0);

    /// The instant `ns` nanoseconds after power-on.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Time since power-on in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, or zero when `earlier` is in the future.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Nanos {
    /// Zero duration.
    pub const ZERO: Self = Self(0);

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Duration in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Duration in microseconds, with fraction: for display, not for deterministic arithmetic.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Duration in milliseconds, with fraction.
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Duration in seconds, with fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Name and length of the unit in which this duration is printed: ns, us, ms or s.
    pub const fn unit(self) -> (&'static str, Self) {
        match self.0 {
            0..1_000 => ("ns", Self(1)),
            1_000..1_000_000 => ("us", Self::from_us(1)),
            1_000_000..1_000_000_000 => ("ms", Self::from_ms(1)),
            _ => ("s", Self::from_ms(1000)),
        }
    }

    /// Writes the number of units in this duration with three significant digits, without the unit's name.
    ///
    /// # Errors
    /// Errors of the formatter.
    pub fn fmt_in(self, unit: Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if unit.0 <= 1 {
            return write!(f, "{}", self.0);
        }
        let value = self.0 as f64 / unit.0 as f64;
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        write!(f, "{value:.digits$}")
    }

    /// `self - other`, or zero when `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;
    fn add(self, rhs: Nanos) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, rhs: Nanos) {
        self.0 = self.0.saturating_add(rhs.0);
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, rhs: Self) {
        self.0 = self.0.saturating_add(rhs.0);
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0 - rhs.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0 * rhs)
    }
}

impl core::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    /// Formats the duration with three significant digits and a unit: `512 ns`, `49.3 us`, `2.00 ms`,
    /// `45.9 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = self.unit();
        self.fmt_in(unit, f)?;
        write!(f, " {name}")
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Nanos(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn prints_three_digits_and_a_unit() {
        assert_eq!(Nanos::from_ns(512).to_string(), "512 ns");
        assert_eq!(Nanos::from_ns(49_333).to_string(), "49.3 us");
        assert_eq!(Nanos::from_ms(2).to_string(), "2.00 ms");
        assert_eq!(Nanos::from_ms(45_907).to_string(), "45.9 s");
    }

    #[test]
    fn since_the_future_is_zero() {
        let (a, b) = (Instant::from_ns(5), Instant::from_ns(9));
        assert_eq!(b.since(a), Nanos::from_ns(4));
        assert_eq!(a.since(b), Nanos::ZERO);
    }

    #[test]
    fn time_ends_after_584_years() {
        let end = Instant::from_ns(u64::MAX);
        assert_eq!(
            (end + Nanos::from_ns(1), Nanos::from_ns(u64::MAX) + Nanos::from_ns(1)),
            (end, Nanos::from_ns(u64::MAX))
        );
    }
}
