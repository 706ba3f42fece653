//! Cluster chains in the table of a FAT or exFAT. All walks together take linear time, even with a hostile table.

use std::collections::BTreeSet;

/// Entry of a cluster in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Number of the cluster that follows.
    Cluster(u32),
    /// The chain ends.
    End,
    /// No chain has this entry.
    Damaged,
}

/// Position of the clusters on the media.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clusters {
    /// Bytes of a cluster.
    pub(super) bytes: u64,
    /// First byte of the first cluster, whose number is 2.
    pub(super) start: u64,
    /// Number of clusters.
    pub(super) count: u64,
}

impl Clusters {
    pub(super) fn has(&self, cluster: u32) -> bool {
        cluster.checked_sub(2).is_some_and(|index| u64::from(index) < self.count)
    }

    /// Number of the first cluster after the last one.
    pub(super) fn end(&self) -> u32 {
        u32::try_from(self.count.saturating_add(2)).unwrap_or(u32::MAX)
    }

    /// Position on the media of a byte of a chain, and number of contiguous bytes from it.
    pub(super) fn place(&self, chain: &[u32], at: u64) -> Option<(u64, u64)> {
        let cluster = chain.get(usize::try_from(at / self.bytes).ok()?)?;
        let start = self.start + u64::from(cluster.checked_sub(2)?) * self.bytes;
        Some((start + at % self.bytes, self.bytes - at % self.bytes))
    }

    /// At most `most` clusters of a chain, up to the first one that does not exist.
    pub(super) fn follow(&self, first: u32, most: u64, mut next: impl FnMut(u32) -> Next) -> Vec<u32> {
        let (mut chain, mut at) = (Vec::new(), first);
        while (chain.len() as u64) < most.min(self.count) && self.has(at) {
            chain.push(at);
            match next(at) {
                Next::Cluster(cluster) => at = cluster,
                Next::End | Next::Damaged => break,
            }
        }
        chain
    }
}

/// Clusters of directories that were read: a cluster belongs to one directory.
#[derive(Default)]
pub(super) struct Listed(BTreeSet<u32>);

impl Listed {
    /// Clusters of a directory, and true if none of them was read before.
    pub(super) fn chain(
        &mut self,
        clusters: &Clusters,
        (first, most): (u32, u64),
        mut next: impl FnMut(u32) -> Next,
    ) -> (Vec<u32>, bool) {
        if !self.0.insert(first) {
            return (Vec::new(), false);
        }
        let mut is_own = true;
        let chain = clusters.follow(first, most, |cluster| match next(cluster) {
            Next::Cluster(cluster) if !self.0.insert(cluster) => {
                is_own = false;
                Next::Damaged
            }
            next => next,
        });
        (chain, is_own)
    }
}

/// End of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has an end.
    Whole,
    /// The chain refers to a cluster that does not exist.
    Broken,
    /// The chain contains a loop.
    Circle,
}

/// Length of a chain in clusters; 0 in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) clusters: u32,
    pub(super) end: End,
}

/// A cluster of the chain that is being measured.
const ON_PATH: u32 = u32::MAX;

/// Lengths of the chains from each cluster on. Each entry of the table is read once.
#[derive(Default)]
pub(super) struct Lengths {
    /// Length and end of the chain from each cluster on; 0 if unknown.
    known: Vec<u32>,
}

impl Lengths {
    fn decode(known: u32) -> Length {
        let end = match known & 3 {
            1 => End::Whole,
            2 => End::Broken,
            _ => End::Circle,
        };
        Length { clusters: known >> 2, end }
    }

    fn encode(Length { clusters, end }: Length) -> u32 {
        let end = match end {
            End::Whole => 1,
            End::Broken => 2,
            End::Circle => 3,
        };
        clusters << 2 | end
    }

    pub(super) fn of(
        &mut self,
        clusters: &Clusters,
        first: u32,
        mut next: impl FnMut(u32) -> Next,
    ) -> Length {
        if self.known.is_empty() {
            self.known = vec![0; clusters.end() as usize];
        }
        let (mut path, mut at) = (Vec::new(), first);
        let none = |end| Length { clusters: 0, end };
        let mut length = loop {
            match self.known.get_mut(at as usize).filter(|_| clusters.has(at)) {
                None => break none(End::Broken),
                Some(known) if *known == ON_PATH => break none(End::Circle),
                Some(0) => {}
                Some(known) => break Self::decode(*known),
            }
            self.known[at as usize] = ON_PATH;
            path.push(at);
            match next(at) {
                Next::Cluster(cluster) => at = cluster,
                Next::End => break none(End::Whole),
                Next::Damaged => break none(End::Broken),
            }
        };
        for cluster in path.into_iter().rev() {
            length.clusters += u32::from(length.end != End::Circle);
            if let Some(known) = self.known.get_mut(cluster as usize) {
                *known = Self::encode(length);
            }
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_measured_in_one_pass() {
        // 2 -> 3 -> 4 -> end; 5 -> 3; 6 -> 7 -> 6; 8 -> 99; 9 -> 8.
        let table = [3, 4, u32::MAX, 3, 7, 6, 99, 8];
        let clusters = Clusters { bytes: 512, start: 0, count: table.len() as u64 };
        let (mut lengths, mut steps) = (Lengths::default(), 0);
        let mut of = |first: u32| {
            let length = lengths.of(&clusters, first, |cluster| {
                steps += 1;
                match table[cluster as usize - 2] {
                    u32::MAX => Next::End,
                    next => Next::Cluster(next),
                }
            });
            (length.clusters, length.end)
        };
        for _ in 0..3 {
            assert_eq!(of(5), (3, End::Whole));
            assert_eq!(of(2), (3, End::Whole));
            assert_eq!(of(6), (0, End::Circle));
            assert_eq!(of(9), (2, End::Broken));
            assert_eq!(of(0), (0, End::Broken));
        }
        assert_eq!(steps, table.len());
    }
}
