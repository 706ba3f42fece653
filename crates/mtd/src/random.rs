//! Pseudo-random numbers, identical on every machine: splitmix64 (Steele, Lea, Flood 2014).
//!
//! - [`mix`]: the output function of splitmix64; [`hash`]: a number derived from others and a seed.
//! - [`Random`]: a sequence of numbers, with distributions. Logarithms and roots come from `libm`, whose results do not
//!   depend on the platform.

/// The increment of splitmix64: 2^64 divided by the golden ratio.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of splitmix64: every input bit affects every output bit.
#[inline]
#[must_use]
pub const fn mix(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Hash of `a` and `b` with a seed.
#[inline]
#[must_use]
pub const fn hash(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(seed.wrapping_add(GOLDEN).wrapping_add(a.wrapping_mul(0xD1B5_4A32_D192_ED03)))
        .wrapping_add(b.wrapping_mul(GOLDEN)))
}

/// Maps a hash to a number between 0 and 1, both excluded.
#[inline]
#[must_use]
pub fn unit(hash: u64) -> f64 {
    ((hash >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
}

/// A sequence of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence with this initial state.
    #[inline]
    #[must_use]
    pub const fn new(state: u64) -> Self {
        Self(state)
    }

    /// The sequence with index `number` of a seed.
    #[inline]
    #[must_use]
    pub const fn numbered(seed: u64, number: u64) -> Self {
        Self(seed ^ mix(number.wrapping_add(GOLDEN)))
    }

    /// The next 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniformly distributed number between 0 and 1, both excluded.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// Exponentially distributed number with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Normally distributed number with mean 0 and deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }

    /// Gamma distributed number with mean 1 and the given shape (Marsaglia and Tsang 2000; shapes below 1 by their
    /// boost).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(self.unit(), 1.0 / shape);
            return self.gamma_from_1(shape + 1.0) * boost / shape;
        }
        self.gamma_from_1(shape) / shape
    }

    /// Gamma distributed number of scale 1 for a shape of at least 1.
    fn gamma_from_1(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let cube = 1.0 + c * x;
            let v = cube * cube * cube;
            if v > 0.0 && libm::log(self.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }

    /// Uniformly distributed number below `end`; 0 if `end` is 0. The upper half of a product is sufficiently uniform
    /// and avoids a division.
    #[inline]
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// Uniformly distributed index below `end`; 0 if `end` is 0.
    #[inline]
    pub const fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// True with probability 1/`of`.
    #[inline]
    pub const fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// True with a probability of `ppm` in a million.
    #[inline]
    pub const fn happens(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < ppm as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn numbers_spread() {
        let mut random = Random::numbered(1, 2);
        let mut counts = [0u32; 8];
        (0..8000).for_each(|_| counts[random.index(8)] += 1);
        assert!(counts.iter().all(|n| (900..1100).contains(n)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!((0..10_000).filter(|_| random.happens(100_000)).count() / 100, 10);
        assert_ne!(Random::numbered(1, 2).bits(), Random::numbered(2, 1).bits());
    }

    #[test]
    fn hashes_differ_in_every_argument() {
        let one = hash(1, 2, 3);
        assert!(
            [hash(0, 2, 3), hash(1, 3, 3), hash(1, 2, 4), hash(1, 3, 2)].iter().all(|other| *other != one)
        );
        assert_eq!(one, hash(1, 2, 3));
    }

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let all: Vec<f64> = (0..40_000).map(|_| draw()).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        (mean, all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / all.len() as f64)
    }

    #[test]
    fn means_and_variances() {
        let mut s = Random::new(hash(1, 2, 3));
        let near = |(mean, variance): (f64, f64), m: f64, v: f64| {
            assert!((mean - m).abs() < 0.03 && (variance - v).abs() < 0.05 * v.max(0.4), "{mean} {variance}");
        };
        near(moments(|| s.unit()), 0.5, 1.0 / 12.0);
        near(moments(|| s.exponential()), 1.0, 1.0);
        near(moments(|| s.normal()), 0.0, 1.0);
        near(moments(|| s.gamma(4.0)), 1.0, 0.25);
        near(moments(|| s.gamma(0.5)), 1.0, 2.0);
    }
}
