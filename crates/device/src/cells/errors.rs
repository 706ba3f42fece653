//! Which bits of a page are wrong: drawn once, for good, and the same however the page is looked at.

use floatgate_mtd::random::{Random, hash, unit};

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
        let mut points = Random::new(page);
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
        let draw = |shape| Random::new(hash(page, u64::from(bit / SECTOR_BITS), 1)).gamma(shape);
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

/// Value that reads of a damaged page give for one of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Right,
    Wrong,
    /// Wrong in the reads whose draw says so.
    Flickers,
    /// Wrong in the reads whose draw does not say so.
    FlickersInverted,
}

/// Cells that the pulses of a cut operation reached. A cell is the upper 53 bits of its hash, and the lower they are, the sooner it is
/// reached: those below `surely` were, and those from there to below `maybe` read either way.
#[derive(Clone, Copy, Debug)]
struct Reached {
    surely: u64,
    maybe: u64,
}

impl Reached {
    /// Cells that are reached when the share `done` of the pulses is over, where the first needs the share `first` and the last one `span` more.
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

/// Number of values of [`unit`] that meet a condition which only the smallest ones meet.
fn number_below(holds: impl Fn(f64) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1 << 53);
    while low < high {
        let middle = (low + high) / 2;
        (low, high) = if holds(unit(middle << 11)) { (middle + 1, high) } else { (low, middle) };
    }
    low
}

/// The cells of a damaged page that may read wrong. Which these are stays the same until the page is programmed or its block erased; a read
/// draws only those that read either way.
#[derive(Clone, Debug)]
pub(super) struct DamagedCells {
    page: u64,
    damage: Damage,
    stored: Option<Box<[u8]>>,
    suspects: CandidateBits,
}

/// Bits of a page that may read wrong, ascending.
#[derive(Clone, Debug, Default)]
struct CandidateBits {
    /// Those that always do.
    wrong: Vec<u32>,
    unstable: Vec<Unstable>,
}

/// A bit that reads either way.
#[derive(Clone, Copy, Debug, Default)]
struct Unstable {
    bit: u32,
    /// Number of bits below that always read wrong.
    at: u32,
    /// See [`Reads::FlickersInverted`].
    inverted: bool,
}

impl DamagedCells {
    /// Draws the cells of a page with this hash. `stored` is the page as it was to be; without it half of the bits are 0.
    pub(super) fn draw(damage: Damage, page: u64, bits: u32, stored: Option<&[u8]>) -> Self {
        use Reads::{Flickers, FlickersInverted, Right, Wrong};
        let zeros = |hash: u64| stored.is_some() || hash & 1 == 0;
        // Cells need between 30 and 100 % of a program's pulses (ISPP verifies from the lowest level up), and between 20 and 80 % of an
        // erase's.
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
                        // Within the edges of both, a draw would have to say both.
                        other => ended.reads(cell, Right, Right, other),
                    };
                    suspects(page, zeros_of(bits, None), |hash| {
                        if hash & 2 == 0 { moving(hash >> 11) } else { Right }
                    })
                }
            };
        Self { page, damage, stored: stored.map(Box::from), suspects }
    }

    /// True when these are the cells of that page: all that they were drawn from is the same.
    pub(super) fn are_of(&self, damage: Damage, page: u64, stored: Option<&[u8]>) -> bool {
        (self.page, self.damage, self.stored.as_deref()) == (page, damage, stored)
    }

    /// Appends the bits that read wrong at read number `read`, ascending.
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

/// Bits of a page that are to be 0, 64 at a time from the first on; all bits when the stored page is unknown.
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

/// Bits among the candidates that may read wrong. The hash of a cell decides.
fn suspects(page: u64, candidates: impl Iterator<Item = u64>, reads: impl Fn(u64) -> Reads) -> CandidateBits {
    let mut found = CandidateBits::default();
    // No branch depends on a hash: half of them would be predicted wrong, which costs more than all else here.
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

    /// True when a bit of a damaged page reads wrong: the model, one cell at a time.
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
        /// The cells drawn for a page read as the model says of each bit alone.
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
