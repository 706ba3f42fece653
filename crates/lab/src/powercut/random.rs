//! Numbers that look random: splitmix64 (Steele, Lea, Flood 2014), the same on every machine.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream that belongs to `number` under a seed.
    pub(super) fn of(seed: u64, number: u64) -> Self {
        let base = Self(number).next();
        Self(seed ^ base)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ value >> 31
    }

    /// A number below `end`; 0 if that is 0.
    pub(super) const fn below_u64(&mut self, end: u64) -> u64 {
        // The high half of a product is even enough, and never divides.
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    pub(super) const fn below(&mut self, end: usize) -> usize {
        self.below_u64(end as u64) as usize
    }

    /// True when something happens that does so once in `of` times.
    pub(super) const fn once_in(&mut self, of: u64) -> bool {
        self.below_u64(of) == 0
    }
}
