//! Small fields that ONFI and JESD230 pages have in common.

use crate::wire::{Wire, array, store};

/// Number of address cycles that a command takes (ONFI 4.2 and JESD230, byte 101).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct AddressCycles(u8);

impl AddressCycles {
    /// `column` and `row` cycles, or `None` if either exceeds 15.
    #[must_use]
    pub const fn new(column: u8, row: u8) -> Option<Self> {
        if column > 15 || row > 15 {
            return None;
        }
        Some(Self(column << 4 | row))
    }

    /// Number of cycles that address a byte within a page.
    #[must_use]
    pub const fn column(self) -> u8 {
        self.0 >> 4
    }

    /// Number of cycles that address a page.
    #[must_use]
    pub const fn row(self) -> u8 {
        self.0 & 15
    }
}

impl Wire for AddressCycles {
    const WIDTH: usize = 1;

    fn decode(bytes: &[u8], at: usize) -> Self {
        Self(u8::decode(bytes, at))
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        self.0.put(bytes, at);
    }
}

/// Program/erase cycles that a block endures, `value` x 10^`exponent` (ONFI 4.2, bytes 105-106).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Endurance {
    /// Significant digits of the number of cycles.
    pub value: u8,
    /// Power of ten by which the digits are multiplied.
    pub exponent: u8,
}

impl Endurance {
    /// Number of cycles; `None` if it does not fit 64 bits.
    #[must_use]
    pub const fn cycles(self) -> Option<u64> {
        match 10u64.checked_pow(self.exponent as u32) {
            Some(power) => power.checked_mul(self.value as u64),
            None => None,
        }
    }
}

impl Wire for Endurance {
    const WIDTH: usize = 2;

    fn decode(bytes: &[u8], at: usize) -> Self {
        let [value, exponent] = array(bytes, at);
        Self { value, exponent }
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        store(bytes, at, &[self.value, self.exponent]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_decode() {
        let cycles = AddressCycles::new(2, 3).unwrap();
        assert_eq!((cycles.column(), cycles.row()), (2, 3));
        assert_eq!(AddressCycles::new(16, 0), None);
        assert_eq!(Endurance { value: 1, exponent: 5 }.cycles(), Some(100_000));
        assert_eq!(Endurance { value: 255, exponent: 255 }.cycles(), None);
    }
}
