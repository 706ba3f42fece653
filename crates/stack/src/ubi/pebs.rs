//! Physical eraseblocks for wear levelling: their states, and sets ordered by erase counter.

/// A LEB of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LebId {
    /// Volume id.
    pub volume: u32,
    /// Number of the LEB in the volume.
    pub lnum: u32,
}

/// Use of a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PebState {
    /// Erased, with an EC header.
    Free,
    /// Holds a LEB.
    Used,
    /// Holds a LEB for less than ten erases, and is not moved yet.
    Protected,
    /// Holds a LEB that must be scrubbed.
    Scrub,
    /// Holds a LEB that could not be read when it was to be moved.
    Erroneous,
    /// Waiting to be erased.
    Pending,
    /// Kept for inspection: it has a corrupt header, and data that no power cut explains.
    Corrupted,
    /// Belongs to an unknown internal volume that must be preserved.
    Alien,
    /// Part of the fastmap, or reserved for its anchor.
    Fastmap,
    /// Erased, and in a pool of the fastmap: it may be written next.
    Pool,
    /// Marked bad, or unusable after a failure.
    Bad,
}

/// State of a PEB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peb {
    pub(super) erase_count: u32,
    pub(super) state: PebState,
    pub(super) leb: Option<LebId>,
    pub(super) erasure: Erasure,
}

/// Evidence that a free PEB is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Erasure {
    /// The device erased it.
    Known,
    /// Only a fastmap lists it as free.
    ByFastmap,
    /// A write may have begun in it before the attach.
    WriteMayHaveBegun,
    /// It was free at the attach: the first data written to it is verified.
    Unverified,
}

/// Initial state of a PEB: bad or not known yet.
pub(super) const NO_PEB: Peb =
    Peb { erase_count: 0, state: PebState::Bad, leb: None, erasure: Erasure::Known };

/// Set of PEBs ordered by erase counter and number.
///
/// It is one sorted list of numbers: moving a few KiB is faster than walking a tree, and a copy is one `memcpy`.
#[derive(Clone, Debug, Default)]
pub(super) struct PebSet(Vec<u64>);

/// A PEB with its erase counter.
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
    /// Set of PEBs given in any order.
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

    /// Least worn PEB.
    pub(super) fn first(&self) -> Option<Entry> {
        self.0.first().copied().map(entry)
    }

    /// Most worn PEB with an erase counter less than `diff` above the lowest (Linux: `find_wl_entry`).
    pub(super) fn below(&self, diff: u32) -> Option<Entry> {
        let limit = u64::from(self.first()?.erase_count) + u64::from(diff);
        let end = self.0.partition_point(|&key| key >> 32 < limit);
        self.0.get(end.saturating_sub(1)).copied().map(entry)
    }

    /// PEB of medium wear if all erase counters are within `2 * threshold`, otherwise one within `threshold` of the
    /// lowest (Linux: `find_mean_wl_entry`, which uses the root of its tree as the median).
    pub(super) fn medium(&self, threshold: u32) -> Option<Entry> {
        let (first, last) = (self.first()?, entry(*self.0.last()?));
        if last.erase_count - first.erase_count < threshold.saturating_mul(2) {
            return self.0.get(self.0.len() / 2).copied().map(entry);
        }
        self.below(threshold)
    }

    /// Up to `count` most worn PEBs.
    pub(super) fn last(&self, count: usize) -> impl Iterator<Item = Entry> + '_ {
        self.0.iter().rev().take(count).copied().map(entry)
    }

    /// Least worn PEB with a number below `limit`.
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
