//! Physical eraseblocks as wear levelling sees them: a state each, and sets ordered by erase counter.

/// A LEB of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LebId {
    /// The volume.
    pub volume: u32,
    /// The LEB.
    pub lnum: u32,
}

/// Use of a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PebState {
    /// Erased, with an EC header.
    Free,
    /// Holds a LEB.
    Used,
    /// Holds a LEB since less than ten erasures: it is not moved yet.
    Protected,
    /// Holds a LEB that is to be moved because of bitflips.
    Scrub,
    /// Holds a LEB that could not be read when it was to be moved.
    Erroneous,
    /// Waits to be erased.
    Pending,
    /// Set aside for inspection: a corrupt header, and data that no power cut explains.
    Corrupted,
    /// Belongs to an unknown internal volume that is to be left alone.
    Alien,
    /// Part of the fastmap, or set aside for its anchor.
    Fastmap,
    /// Erased, and named by the fastmap as one that may be written next.
    Pool,
    /// Marked bad, or lost to a failure.
    Bad,
}

/// A PEB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peb {
    pub(super) erase_count: u32,
    pub(super) state: PebState,
    pub(super) leb: Option<LebId>,
    pub(super) erasure: Erasure,
}

/// Certainty that a free PEB is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Erasure {
    /// It is erased.
    Known,
    /// Only a fastmap says that it is free.
    ByFastmap,
    /// A write may have begun in it.
    WriteMayHaveBegun,
    /// It was free when the device was attached: what is written to it first is read again.
    Unverified,
}

/// A PEB that is bad or not known yet.
pub(super) const NO_PEB: Peb =
    Peb { erase_count: 0, state: PebState::Bad, leb: None, erasure: Erasure::Known };

/// PEBs in the order of erase counter and number.
///
/// One sorted list of numbers: moving a few KiB is faster than walking a tree, and a copy is one `memcpy`.
#[derive(Clone, Debug, Default)]
pub(super) struct PebSet(Vec<u64>);

/// A PEB of a set with its erase counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pnum: u32,
    pub(super) erase_count: u32,
}

const fn key(entry: Entry) -> u64 {
    (entry.erase_count as u64) << 32 | entry.pnum as u64
}

const fn entry(key: u64) -> Entry {
    Entry { pnum: key as u32, erase_count: (key >> 32) as u32 }
}

impl PebSet {
    /// A set of PEBs in any order.
    pub(super) fn from_unsorted(entries: impl Iterator<Item = Entry>) -> Self {
        let mut keys: Vec<u64> = entries.map(key).collect();
        keys.sort_unstable();
        Self(keys)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.0.iter().copied().map(entry)
    }

    pub(super) fn insert(&mut self, new: Entry) {
        if let Err(at) = self.0.binary_search(&key(new)) {
            self.0.insert(at, key(new));
        }
    }

    pub(super) fn remove(&mut self, old: Entry) -> bool {
        let found = self.0.binary_search(&key(old));
        if let Ok(at) = found {
            self.0.remove(at);
        }
        found.is_ok()
    }

    /// The least worn.
    pub(super) fn first(&self) -> Option<Entry> {
        self.0.first().copied().map(entry)
    }

    /// The most worn of those less than `diff` above the least worn (Linux: `find_wl_entry`).
    pub(super) fn below(&self, diff: u32) -> Option<Entry> {
        let limit = u64::from(self.first()?.erase_count) + u64::from(diff);
        let end = self.0.partition_point(|&key| key >> 32 < limit);
        self.0.get(end.saturating_sub(1)).copied().map(entry)
    }

    /// One of medium wear, as long as the wear of all is within `2 * threshold`; else one within `threshold` of the
    /// least worn (Linux: `find_mean_wl_entry`, which takes the root of its tree for the median).
    pub(super) fn medium(&self, threshold: u32) -> Option<Entry> {
        let (first, last) = (self.first()?, entry(*self.0.last()?));
        if last.erase_count - first.erase_count < threshold.saturating_mul(2) {
            return self.0.get(self.0.len() / 2).copied().map(entry);
        }
        self.below(threshold)
    }

    /// The most worn, up to `count` of them.
    pub(super) fn last(&self, count: usize) -> impl Iterator<Item = Entry> + '_ {
        self.0.iter().rev().take(count).copied().map(entry)
    }

    /// The least worn of those below `limit`.
    pub(super) fn first_below(&self, limit: u32) -> Option<Entry> {
        self.iter().find(|entry| entry.pnum < limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(entries: &[(u32, u32)]) -> PebSet {
        PebSet::from_unsorted(entries.iter().map(|&(pnum, erase_count)| Entry { pnum, erase_count }))
    }

    #[test]
    fn orders_by_wear_then_number() {
        let all = set(&[(7, 3), (2, 9), (5, 3)]);
        assert!(all.iter().map(|e| e.pnum).eq([5, 7, 2]));
        assert_eq!(all.first().unwrap().pnum, 5);
        assert_eq!(all.first_below(3).unwrap().pnum, 2);
        assert_eq!(all.first_below(2), None);
    }

    #[test]
    fn picks_within_the_limit() {
        let all = set(&[(0, 10), (1, 12), (2, 19), (3, 20), (4, 50)]);
        assert_eq!(all.below(10).unwrap().pnum, 2);
        assert_eq!(all.below(11).unwrap().pnum, 3);
        assert_eq!(all.below(1000).unwrap().pnum, 4);
        // 40 apart: the middle of five while the threshold allows it, else the most worn below 10 + threshold.
        assert_eq!(all.medium(21).unwrap().pnum, 2);
        assert_eq!(all.medium(20).unwrap().pnum, 3);
        assert_eq!(all.medium(3).unwrap().pnum, 1);
        assert_eq!(set(&[]).medium(1), None);
    }

    #[test]
    fn inserts_and_removes_once() {
        let mut all = set(&[(3, 1)]);
        let new = Entry { pnum: 2, erase_count: 1 };
        all.insert(new);
        all.insert(new);
        assert_eq!(all.len(), 2);
        assert!(all.remove(new));
        assert!(!all.remove(new));
    }
}
