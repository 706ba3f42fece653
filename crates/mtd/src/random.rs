//! Numbers that look random: splitmix64 (Steele, Lea, Flood 2014), the same on every machine.

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence that belongs to `number` under a seed.
    #[inline]
    pub(crate) const fn new(seed: u64, number: u64) -> Self {
        Self(mix(seed ^ mix(number.wrapping_add(GOLDEN))))
    }

    /// The next 64 bits.
    #[inline]
    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `limit`, 0 for a limit of 0.
    #[inline]
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        match self.bits().checked_rem(limit) {
            Some(number) => number,
            None => 0,
        }
    }

    /// True when something happens that has a chance of `ppm` in a million.
    #[inline]
    pub(crate) const fn happens(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < ppm as u64
    }
}

#[inline]
const fn mix(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_spread() {
        let mut random = Random::new(1, 2);
        let mut counts = [0u32; 8];
        (0..8000).for_each(|_| counts[random.below(8) as usize] += 1);
        assert!(counts.iter().all(|n| (900..1100).contains(n)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!((0..10_000).filter(|_| random.happens(100_000)).count() / 100, 10);
        assert_ne!(Random::new(1, 2).bits(), Random::new(2, 1).bits());
    }
}
