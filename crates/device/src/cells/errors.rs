//! The wrong bits of a page, drawn once; they are the same for every kind of access.

use floatgate_mtd::random::{Random, hash, unit};

/// Share of a page's hazard within which bits read right or wrong at random.
pub(super) const UNSTABLE: f64 = 0.05;

/// Maximum ratio of a codeword's error rate to the mean; in the gamma distributions in use, higher ratios are negligible.
const DISPERSION_CAP: f64 = 16.0;

/// Number of bits with the same error rate if the rate varies between codewords.
const SECTOR_BITS: u32 = 4096 + 128;

/// Generator of the errors of pages of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampler {
    /// Number of bits in a page.
    pub(super) bits: u32,
    /// Shape of the distribution of the error rate among codewords.
    pub(super) dispersion: Option<f64>,
}

impl Sampler {
    const fn cap(self) -> f64 {
        if self.dispersion.is_some() { DISPERSION_CAP } else { 1.0 }
    }

    /// Threshold for hashes of pages: only pages with a lower hash can have a wrong bit at this rate.
    pub(super) fn threshold(self, rate: f64) -> u64 {
        let expected = hazard(rate) * (1.0 + UNSTABLE) * self.cap() * f64::from(self.bits);
        let share = -libm::expm1(-expected);
        // A unit number has 53 bits, so the threshold is one step higher than the exact one, to be safe.
        ((share * 18_446_744_073_709_551_616.0) as u64).saturating_add(1 << 12)
    }

    /// Appends the wrong bits of the page with this hash at an error rate, in read number `read`.
    ///
    /// Wrong bits are points of a Poisson process over bits and hazards, in ascending order of hazards: a bit whose point is below the
    /// page's hazard is wrong. A bit with two points is wrong once, which makes the number of wrong bits binomial.
    pub(super) fn errors(self, rate: f64, page: u64, read: u32, out: &mut Vec<u32>) {
        let (hazard, bits) = (hazard(rate), f64::from(self.bits));
        let last = hazard * (1.0 + UNSTABLE) * self.cap();
        let mut points = Random::new(page);
        let mut at = -libm::log1p(-unit(page)) / bits;
        while at < last {
            let bit = (points.unit() * bits) as u32;
            let own = hazard * self.weight(page, bit);
            // The position of the bit among the candidates gives its hazard relative to the page's hazard.
            let level = at / if self.dispersion.is_some() { own.max(f64::MIN_POSITIVE) } else { hazard };
            let wrong = level < 1.0 - UNSTABLE || level < 1.0 + UNSTABLE && flickers(page, bit, read);
            if wrong {
                out.push(bit);
            }
            at += points.exponential() / bits;
        }
    }

    /// Ratio of the error rate in the codeword of a bit to the mean.
    fn weight(self, page: u64, bit: u32) -> f64 {
        let draw = |shape| Random::new(hash(page, u64::from(bit / SECTOR_BITS), 1)).gamma(shape);
        self.dispersion.map_or(1.0, |shape| draw(shape).min(DISPERSION_CAP))
    }
}

/// Hazard that corresponds to an error rate: rate = `1 - exp(-hazard)`.
fn hazard(rate: f64) -> f64 {
    -libm::log1p(-rate.clamp(0.0, 0.5))
}

/// True if an unstable bit reads wrong in this read.
fn flickers(page: u64, bit: u32, read: u32) -> bool {
    hash(page, u64::from(bit), u64::from(read) + 2) & 1 == 1
}

/// State of a page after a power loss. The shares are those of the pulses of the operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Damage {
    /// The program of this page was cut: cells that need more pulses than were done still read as erased.
    HalfProgrammed { done: f32 },
    /// The program of the other page in the same cells was cut: cells that were being moved are between the levels of this page.
    PartnerMoved { done: f32 },
    /// The erase of the block was cut: cells that need fewer pulses than were done already read as erased.
    HalfErased { done: f32 },
}

/// Share of the pulses within which a cell that has just reached its level reads right or wrong at random.
const EDGE: f64 = 0.03;

/// Value of a cell of a damaged page in reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Right,
    Wrong,
    /// Wrong in the reads whose random draw is true.
    Flickers,
    /// Wrong in the reads whose random draw is false.
    FlickersInverted,
}

/// Cells that the pulses of an interrupted operation reached. A cell is represented by the upper 53 bits of its hash; cells with lower
/// values are reached earlier. Cells below `surely` were reached, and cells between `surely` and `maybe` read either way.
#[derive(Clone, Copy, Debug)]
struct Reached {
    surely: u64,
    maybe: u64,
}

impl Reached {
    /// Cells reached after the share `done` of the pulses. The first cell needs the share `first`, the last one `span` more.
    fn after(done: f32, first: f64, span: f64) -> Self {
        let further = |margin: f64| number_below(|cell| f64::from(done) - (first + span * cell) > margin);
        Self { surely: further(EDGE), maybe: further(-EDGE) }
    }

    #[inline]
    fn reads(self, cell: u64, reached: Reads, between: Reads, beyond: Reads) -> Reads {
        let rest = if cell < self.maybe { between } else { beyond };
        if cell < self.surely { reached } else { rest }
    }
}

/// Number of values of [`unit`] that meet a condition, which must be true for the smallest values only.
fn number_below(holds: impl Fn(f64) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1 << 53);
    while low < high {
        let middle = (low + high) / 2;
        (low, high) = if holds(unit(middle << 11)) { (middle + 1, high) } else { (low, middle) };
    }
    low
}

/// Cells of a damaged page that may read wrong. The set is the same until the page is programmed or its block is erased. A read draws only
/// the cells that read either way.
#[derive(Clone, Debug)]
pub(super) struct DamagedCells {
    page: u64,
    damage: Damage,
    stored: Option<Box<[u8]>>,
    suspects: CandidateBits,
}

/// Bits of a page that may read wrong, in ascending order.
#[derive(Clone, Debug, Default)]
struct CandidateBits {
    /// Bits that always read wrong.
    wrong: Vec<u32>,
    unstable: Vec<Unstable>,
}

/// A bit that reads right or wrong at random.
#[derive(Clone, Copy, Debug, Default)]
struct Unstable {
    bit: u32,
    /// Number of always wrong bits with a lower offset.
    at: u32,
    /// True for [`Reads::FlickersInverted`].
    inverted: bool,
}

impl DamagedCells {
    /// Draws the cells of the page with this hash. `stored` is the correct page; without it half of the bits are taken as 0.
    pub(super) fn draw(damage: Damage, page: u64, bits: u32, stored: Option<&[u8]>) -> Self {
        use Reads::{Flickers, FlickersInverted, Right, Wrong};
        let zeros = |hash: u64| stored.is_some() || hash & 1 == 0;
        // Cells need 30 to 100 % of a program's pulses (ISPP verifies from the lowest level up), and 20 to 80 % of an erase's pulses.
        let suspects =
            match damage {
                Damage::HalfProgrammed { done } => {
                    let reached = Reached::after(done, 0.3, 0.7);
                    let reads = |cell| reached.reads(cell, Right, FlickersInverted, Wrong);
                    suspects(page, zeros_of(bits, stored), |hash| {
                        if zeros(hash) { reads(hash >> 11) } else { Right }
                    })
                }
                Damage::HalfErased { done } => {
                    let reached = Reached::after(done, 0.2, 0.6);
                    let reads = |cell| reached.reads(cell, Wrong, Flickers, Right);
                    suspects(page, zeros_of(bits, stored), |hash| {
                        if zeros(hash) { reads(hash >> 11) } else { Right }
                    })
                }
                Damage::PartnerMoved { done } => {
                    let (begun, ended) = (Reached::after(done, 0.0, 0.4), Reached::after(done, 0.5, 0.4));
                    let moving = |cell| match begun.reads(cell, Wrong, Flickers, Right) {
                        Wrong => ended.reads(cell, Right, FlickersInverted, Wrong),
                        // A cell within the edges of both operations would need two draws.
                        other => ended.reads(cell, Right, Right, other),
                    };
                    suspects(page, zeros_of(bits, None), |hash| {
                        if hash & 2 == 0 { moving(hash >> 11) } else { Right }
                    })
                }
            };
        Self { page, damage, stored: stored.map(Box::from), suspects }
    }

    /// True if these cells were drawn from exactly this damage, page and contents.
    pub(super) fn are_of(&self, damage: Damage, page: u64, stored: Option<&[u8]>) -> bool {
        (self.page, self.damage, self.stored.as_deref()) == (page, damage, stored)
    }

    /// Appends the bits that read wrong in read number `read`, in ascending order.
    pub(super) fn errors(&self, read: u32, out: &mut Vec<u32>) {
        let CandidateBits { wrong, unstable } = &self.suspects;
        out.reserve(wrong.len() + unstable.len());
        let mut rest = 0;
        for cell in unstable {
            if flickers(self.page, cell.bit, read) != cell.inverted {
                out.extend_from_slice(wrong.get(rest..cell.at as usize).unwrap_or(&[]));
                out.push(cell.bit);
                rest = cell.at as usize;
            }
        }
        out.extend_from_slice(wrong.get(rest..).unwrap_or(&[]));
    }
}

/// Masks of the bits of a page that should be 0, in words of 64 bits; all bits if the stored page is unknown.
fn zeros_of(bits: u32, stored: Option<&[u8]>) -> impl Iterator<Item = u64> {
    (0..bits as usize).step_by(64).map(move |first| {
        let inside = u64::MAX >> (64 - (bits as usize - first).min(64));
        let Some(stored) = stored else { return inside };
        let mut word = [0xFF; 8];
        let bytes = stored.get(first / 8..).unwrap_or(&[]);
        let len = bytes.len().min(8);
        word[..len].copy_from_slice(&bytes[..len]);
        inside & !u64::from_le_bytes(word)
    })
}

/// Candidate bits that may read wrong, according to the hash of each cell.
fn suspects(page: u64, candidates: impl Iterator<Item = u64>, reads: impl Fn(u64) -> Reads) -> CandidateBits {
    let mut found = CandidateBits::default();
    // No branch depends on a hash, because half of such branches would be mispredicted, which costs more than all other work here.
    let (mut wrong, mut unstable) = ([0; 64], [Unstable::default(); 64]);
    for (first, mut word) in (0..).step_by(64).zip(candidates) {
        let (mut wrongs, mut unstables) = (0, 0);
        while word != 0 {
            let bit = first + word.trailing_zeros();
            word &= word - 1;
            let reads = reads(hash(page, u64::from(bit), 0));
            let at = (found.wrong.len() + wrongs) as u32;
            unstable[unstables] = Unstable { bit, at, inverted: reads == Reads::FlickersInverted };
            unstables += usize::from(matches!(reads, Reads::Flickers | Reads::FlickersInverted));
            wrong[wrongs] = bit;
            wrongs += usize::from(reads == Reads::Wrong);
        }
        found.wrong.extend_from_slice(&wrong[..wrongs]);
        found.unstable.extend_from_slice(&unstable[..unstables]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference model: true if one bit of a damaged page reads wrong.
    fn is_wrong(damage: Damage, (page, bit, read): (u64, u32, u32), stored: Option<&[u8]>) -> bool {
        let cell = hash(page, u64::from(bit), 0);
        let is_zero = stored
            .map_or(cell & 1 == 0, |s| s.get(bit as usize / 8).is_some_and(|b| b >> (bit % 8) & 1 == 0));
        let beyond = |done: f32, at: f64| {
            let distance = f64::from(done) - at;
            distance > EDGE || distance > -EDGE && flickers(page, bit, read)
        };
        let (moves, cell) = (cell & 2 == 0, unit(cell));
        match damage {
            Damage::HalfProgrammed { done } => is_zero && !beyond(done, 0.3 + 0.7 * cell),
            Damage::HalfErased { done } => is_zero && beyond(done, 0.2 + 0.6 * cell),
            Damage::PartnerMoved { done } => {
                moves && beyond(done, 0.4 * cell) && !beyond(done, 0.5 + 0.4 * cell)
            }
        }
    }

    proptest! {
        /// The drawn cells of a page give the same bits as the reference model for each bit.
        #[test]
        fn drawn_cells_and_single_bits_agree(
            page: u64,
            read in 0u32..1000,
            done in prop_oneof![Just(0.0f32), Just(1.0), 0.0f32..1.0],
            which in 0..3,
            bytes in 0u32..40,
            stored in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        ) {
            let damage = match which {
                0 => Damage::HalfProgrammed { done },
                1 => Damage::HalfErased { done },
                _ => Damage::PartnerMoved { done },
            };
            let stored = stored.as_deref();
            let cells = DamagedCells::draw(damage, page, bytes * 8, stored);
            let mut drawn = Vec::new();
            cells.errors(read, &mut drawn);
            let single: Vec<u32> =
                (0..bytes * 8).filter(|bit| is_wrong(damage, (page, *bit, read), stored)).collect();
            prop_assert_eq!(drawn, single);
            prop_assert!(cells.are_of(damage, page, stored) && !cells.are_of(damage, page ^ 1, stored));
        }
    }
}
