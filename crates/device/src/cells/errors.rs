//! Which bits of a page are wrong: drawn once, for good, and the same however the page is looked at.

use super::random::{Stream, hash, unit};

/// Share of a page's hazard around which bits are read either way.
pub(super) const UNSTABLE: f64 = 0.05;

/// Most that a codeword's rate exceeds the mean by; the gamma distributions in use put next to nothing beyond.
const DISPERSION_CAP: f64 = 16.0;

/// Bytes over which the rate is the same, when it differs from codeword to codeword.
const SECTOR_BITS: u32 = 4096 + 128;

/// Draws the errors of pages of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampler {
    /// Bits of a page.
    pub(super) bits: u32,
    /// Shape of the rate's distribution among codewords.
    pub(super) dispersion: Option<f64>,
}

impl Sampler {
    const fn cap(self) -> f64 {
        if self.dispersion.is_some() { DISPERSION_CAP } else { 1.0 }
    }

    /// Hashes of pages that may have a wrong bit at this rate lie below.
    pub(super) fn threshold(self, rate: f64) -> u64 {
        let expected = hazard(rate) * (1.0 + UNSTABLE) * self.cap() * f64::from(self.bits);
        let share = -libm::expm1(-expected);
        // A unit number is made of the upper 53 bits: one step more than exact is on the safe side.
        ((share * 18_446_744_073_709_551_616.0) as u64).saturating_add(1 << 12)
    }

    /// Appends the wrong bits of the page with this hash at a rate, at its read number `read`.
    ///
    /// Points of a Poisson process over bits and hazards, in the order of their hazards: a bit whose point lies below the
    /// page's hazard is wrong. A bit that is hit twice is wrong once, which makes their number binomial.
    pub(super) fn errors(self, rate: f64, page: u64, read: u32, out: &mut Vec<u32>) {
        let (hazard, bits) = (hazard(rate), f64::from(self.bits));
        let last = hazard * (1.0 + UNSTABLE) * self.cap();
        let mut points = Stream::new(page);
        let mut at = -libm::log1p(-unit(page)) / bits;
        while at < last {
            let bit = (points.unit() * bits) as u32;
            let own = hazard * self.weight(page, bit);
            // Its place among the candidates says how this bit compares with the page's hazard.
            let level = at / if self.dispersion.is_some() { own.max(f64::MIN_POSITIVE) } else { hazard };
            let wrong = level < 1.0 - UNSTABLE || level < 1.0 + UNSTABLE && flickers(page, bit, read);
            if wrong {
                out.push(bit);
            }
            at += points.exponential() / bits;
        }
    }

    /// The rate of a bit's codeword over the mean.
    fn weight(self, page: u64, bit: u32) -> f64 {
        let draw = |shape| Stream::new(hash(page, u64::from(bit / SECTOR_BITS), 1)).gamma(shape);
        self.dispersion.map_or(1.0, |shape| draw(shape).min(DISPERSION_CAP))
    }
}

/// The hazard that makes bits wrong at a rate: `1 - exp(-hazard)`.
fn hazard(rate: f64) -> f64 {
    -libm::log1p(-rate.clamp(0.0, 0.5))
}

/// True when an unstable bit is read wrong this time.
fn flickers(page: u64, bit: u32, read: u32) -> bool {
    hash(page, u64::from(bit), u64::from(read) + 2) & 1 == 1
}

/// State of a page after a loss of power. Shares are of the pulses of the operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Damage {
    /// Its own program was cut: cells that need more pulses than were done still read as erased.
    HalfProgrammed { done: f32 },
    /// The program of the page under the same cells was cut: cells on their way lie between the levels of this page.
    PartnerMoved { done: f32 },
    /// The erase of its block was cut: cells that needed fewer pulses read as erased already.
    HalfErased { done: f32 },
}

/// Share of pulses within which a cell that has just been reached reads either way.
const EDGE: f64 = 0.03;

impl Damage {
    /// Appends the bits that read wrong. Cells need between 30 and 100 % of a program's pulses (ISPP verifies from the lowest level up),
    /// and between 20 and 80 % of an erase's.
    pub(super) fn errors(self, page: u64, read: u32, bits: u32, stored: Option<&[u8]>, out: &mut Vec<u32>) {
        for bit in 0..bits {
            let cell = hash(page, u64::from(bit), 0);
            let is_zero = stored
                .map_or(cell & 1 == 0, |s| s.get(bit as usize / 8).is_some_and(|b| b >> (bit % 8) & 1 == 0));
            if self.is_wrong(is_zero, unit(cell), cell & 2 == 0, || flickers(page, bit, read)) {
                out.push(bit);
            }
        }
    }

    /// `flickers` is a hash, which only few cells need.
    fn is_wrong(self, is_zero: bool, cell: f64, moves: bool, flickers: impl Fn() -> bool) -> bool {
        let beyond = |done: f32, at: f64| {
            let distance = f64::from(done) - at;
            distance > EDGE || distance > -EDGE && flickers()
        };
        match self {
            Self::HalfProgrammed { done } => is_zero && !beyond(done, 0.3 + 0.7 * cell),
            Self::HalfErased { done } => is_zero && beyond(done, 0.2 + 0.6 * cell),
            Self::PartnerMoved { done } => {
                moves && beyond(done, 0.4 * cell) && !beyond(done, 0.5 + 0.4 * cell)
            }
        }
    }
}
