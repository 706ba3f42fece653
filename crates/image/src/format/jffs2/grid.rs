//! Sizes and boundaries of eraseblocks, derived from the offsets of nodes.

use floatgate_media::jffs2::NODE_ALIGN;

/// Largest number of bytes between two nodes of a filesystem that are not erased, as damage leaves them.
pub(super) const GAP: u64 = 1 << 20;

/// Smallest and largest size of eraseblocks, powers of two in bytes. The largest is the default of `mkfs.jffs2`, and
/// is used if nodes do not imply a size.
pub(super) const ERASE_MIN: u64 = 4 << 10;
pub(super) const ERASE_MAX: u64 = 4 << 20;
pub(super) const ERASE_USUAL: u64 = 64 << 10;

/// Largest unused space after the last node of an eraseblock, bytes: the size of the longest node, and of a page.
pub(super) const UNUSED_MAX: u64 = 12 << 10;

/// Number of boundaries between adjacent nodes that no node crosses, from which a size of eraseblocks is no
/// coincidence.
const BOUNDARIES_MIN: u32 = 2;

/// Number of such boundaries that is stronger evidence than clean markers and summaries.
const BOUNDARIES_SURE: u32 = 5;

/// Possible eraseblocks: the offset of the first, and the evidence of nodes for each size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) origin: u64,
    /// Sizes of eraseblocks whose boundaries no node crosses; bit n stands for the size 2^n.
    possible: u32,
    /// For each size, by its logarithm: number of boundaries with nodes on both sides that no node crosses.
    kept: [u32; 32],
    /// Size that the user states.
    stated: Option<u64>,
    /// Start of the first node that crosses a boundary of the stated size.
    pub(super) crossing: Option<u64>,
}

impl Grid {
    pub(super) const fn new(origin: u64, stated: Option<u64>) -> Self {
        Self { origin, possible: u32::MAX, kept: [0; 32], stated, crossing: None }
    }

    /// Adds the evidence of a node with its start and end; the previous node ended at `before`. `is_padding` is true
    /// for nodes that fill a page or an eraseblock, or that a repair wrote over damage. Their ends do not show where
    /// other nodes begin.
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
            // A position after a gap is no coincidence either.
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

    /// Size that clean markers and summaries imply, or the smallest size with enough boundaries.
    pub(super) fn erase_bytes(&self, told: Option<u64>) -> Option<u64> {
        let fits = |size: &u64| (ERASE_MIN..=ERASE_MAX).contains(size) && self.is_possible(*size);
        let kept = |least: u32| {
            let enough = move |size: &u64| self.kept[size.trailing_zeros() as usize] >= least;
            sizes().find(|size| fits(size) && enough(size))
        };
        match (told.filter(fits), kept(BOUNDARIES_SURE)) {
            // A part of the markers may be lost.
            (Some(told), Some(kept)) => Some(told.min(kept)),
            (told, _) => told.or_else(|| kept(BOUNDARIES_MIN)),
        }
    }
}

/// Offsets that are all starts, or all ends, of eraseblocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) first: Option<u64>,
    pub(super) count: u32,
    /// Bitwise OR of the distances of all offsets from the first.
    apart: u64,
}

impl Marks {
    pub(super) fn add(&mut self, at: u64) {
        self.count = self.count.saturating_add(1);
        self.apart |= at - *self.first.get_or_insert(at);
    }

    /// Largest power of two that divides all distances.
    pub(super) fn erase_bytes(&self) -> Option<u64> {
        power_of_two_in(self.apart)
    }
}

/// Largest power of two that divides a number other than 0.
pub(super) fn power_of_two_in(bytes: u64) -> Option<u64> {
    (bytes > 0).then(|| 1 << bytes.trailing_zeros())
}

/// Sizes of eraseblocks in ascending order.
pub(crate) fn sizes() -> impl Iterator<Item = u64> {
    (ERASE_MIN.trailing_zeros()..=ERASE_MAX.trailing_zeros()).map(|bits| 1 << bits)
}
