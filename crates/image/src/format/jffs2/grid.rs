//! Sizes of eraseblocks and boundaries between them, as places of nodes tell them.

use floatgate_media::jffs2::NODE_ALIGN;

/// Longest stretch between two nodes that may hold something else than erased flash: what damage leaves.
pub(super) const GAP: u64 = 1 << 20;

/// Eraseblocks are powers of two between these, bytes; the last is the default of `mkfs.jffs2`, taken where
/// nodes do not imply a size.
pub(super) const ERASE_MIN: u64 = 4 << 10;
pub(super) const ERASE_MAX: u64 = 4 << 20;
pub(super) const ERASE_USUAL: u64 = 64 << 10;

/// Bytes that an eraseblock may leave unused behind its last node: those of the longest node, and of a page.
pub(super) const UNUSED_MAX: u64 = 12 << 10;

/// Boundaries between eraseblocks that no node crosses, of which two are no chance: nodes lie side by side.
const BOUNDARIES_MIN: u32 = 2;

/// Number of such boundaries that count more than clean markers and summaries.
const BOUNDARIES_SURE: u32 = 5;

/// Eraseblocks as they could lie: a byte of the file where one begins, and what nodes say of each size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) origin: u64,
    /// Sizes of eraseblocks that no node crosses, as bits of their logarithm.
    possible: u32,
    /// For each size by its logarithm, boundaries with nodes on both sides that none crosses.
    kept: [u32; 32],
    /// The size that was stated, if any.
    stated: Option<u64>,
    /// First byte of the first node that crosses a boundary of that size.
    pub(super) crossing: Option<u64>,
}

impl Grid {
    pub(super) const fn new(origin: u64, stated: Option<u64>) -> Self {
        Self { origin, possible: u32::MAX, kept: [0; 32], stated, crossing: None }
    }

    /// Takes in a node between two bytes of the file; the one before it ended at `before`. What fills up a page or an eraseblock, or what a repair has left
    /// of damage, does not tell where others begin: `is_padding`.
    pub(super) fn add(&mut self, before: u64, (at, end): (u64, u64), is_padding: bool) {
        let Some(first) = at.checked_sub(self.origin) else { return };
        let last = end - 1 - self.origin;
        if self.stated.is_some_and(|size| first / size != last / size) {
            self.crossing.get_or_insert(at);
        }
        let before = before.checked_sub(self.origin + 1);
        for size in sizes() {
            let bit = size.trailing_zeros();
            if first / size != last / size {
                self.possible &= !(1 << bit);
            }
            let is_near =
                before.is_some_and(|last| first - last <= UNUSED_MAX && first / size != last / size);
            if is_padding {
                continue;
            }
            // Behind a gap it is no chance, either.
            let is_behind_gap =
                first.is_multiple_of(size) && before.is_some_and(|last| first - last > u64::from(NODE_ALIGN));
            self.kept[bit as usize] += match (is_near, is_behind_gap) {
                (true, true) => BOUNDARIES_MIN,
                (is_near, _) => is_near.into(),
            };
        }
    }

    pub(super) const fn is_possible(&self, size: u64) -> bool {
        match self.stated {
            Some(stated) if stated == size => self.crossing.is_none(),
            _ => self.possible & 1 << size.trailing_zeros() != 0,
        }
    }

    /// The size that clean markers and summaries tell, or the smallest that enough nodes keep to.
    pub(super) fn erase_bytes(&self, told: Option<u64>) -> Option<u64> {
        let fits = |size: &u64| (ERASE_MIN..=ERASE_MAX).contains(size) && self.is_possible(*size);
        let kept = |least: u32| {
            let enough = move |size: &u64| self.kept[size.trailing_zeros() as usize] >= least;
            sizes().find(|size| fits(size) && enough(size))
        };
        match (told.filter(fits), kept(BOUNDARIES_SURE)) {
            // Of some markers nothing may be left.
            (Some(told), Some(kept)) => Some(told.min(kept)),
            (told, _) => told.or_else(|| kept(BOUNDARIES_MIN)),
        }
    }
}

/// Places of which each begins an eraseblock, or each ends one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) first: Option<u64>,
    pub(super) count: u32,
    /// Distances of the others from the first, all their bits.
    apart: u64,
}

impl Marks {
    pub(super) fn add(&mut self, at: u64) {
        self.count = self.count.saturating_add(1);
        self.apart |= at - *self.first.get_or_insert(at);
    }

    /// The largest power of two that divides all distances.
    pub(super) fn erase_bytes(&self) -> Option<u64> {
        power_of_two_in(self.apart)
    }
}

/// The largest power of two that divides a number that is not 0.
pub(super) fn power_of_two_in(bytes: u64) -> Option<u64> {
    (bytes > 0).then(|| 1 << bytes.trailing_zeros())
}

/// Sizes of eraseblocks, the smallest first.
pub(crate) fn sizes() -> impl Iterator<Item = u64> {
    (ERASE_MIN.trailing_zeros()..=ERASE_MAX.trailing_zeros()).map(|bits| 1 << bits)
}
