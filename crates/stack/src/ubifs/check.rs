//! Consistency check of the state in memory against flash: LEB properties, index, journal.

use std::collections::BTreeMap;

use floatgate_media::ubifs::{Key, Node, NodeType};

use super::core::Core;
use super::error::{Error, Result};
use super::layout::{Head, NodePos};
use super::scan::scan;
use super::space::{LebSpace, SpaceTotals, check_lpt};
use crate::volume::Volume;

/// Maximum depth of an index.
const MAX_LEVELS: usize = 64;

/// A contradiction between the state in memory and flash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// The properties of a LEB do not match its live nodes.
    #[error("LEB {lnum}: {used} bytes are used, {free} free, {dirty} dirty, which is not its size")]
    Space {
        /// Number of the LEB.
        lnum: u32,
        /// Bytes of nodes in the index.
        used: u32,
        /// Free bytes according to the properties.
        free: u32,
        /// Dirty bytes according to the properties.
        dirty: u32,
    },
    /// The contents of a LEB contradict its properties.
    #[error("LEB {lnum}: {what}")]
    Leb {
        /// Number of the LEB.
        lnum: u32,
        /// Description of the fault.
        what: &'static str,
    },
    /// Two live nodes overlap.
    #[error("LEB {lnum}, offset {offset:#x}: a node begins inside another one")]
    Overlap {
        /// Number of the LEB.
        lnum: u32,
        /// Offset of the second node.
        offset: u32,
    },
    /// A node in the index is damaged or has another key.
    #[error("{key:?}: {error}")]
    Node {
        /// Key in the index.
        key: Key,
        /// Description of the fault.
        error: Error,
    },
    /// The LPT on flash is damaged, or contradicts itself or the master node.
    #[error("LEB properties: {0}")]
    Properties(Error),
    /// A total is wrong.
    #[error("{what}: {believed}, but {found}")]
    Sum {
        /// Name of the total.
        what: &'static str,
        /// Value in memory.
        believed: u64,
        /// Value found on flash.
        found: u64,
    },
}

/// Live nodes of each LEB.
#[derive(Default)]
struct Usage {
    lebs: BTreeMap<u32, Vec<NodePos>>,
}

impl Usage {
    fn add(&mut self, place: NodePos) {
        self.lebs.entry(place.lnum).or_default().push(place);
    }

    /// Live bytes of a LEB, with alignment.
    fn bytes(&self, lnum: u32) -> u64 {
        self.lebs.get(&lnum).into_iter().flatten().map(|place| u64::from(place.aligned_len())).sum()
    }

    /// Live bytes of all LEBs, with alignment.
    fn total_bytes(&self) -> u64 {
        self.lebs.values().flatten().map(|place| u64::from(place.aligned_len())).sum()
    }

    fn overlaps(&mut self) -> Vec<Inconsistency> {
        let mut found = Vec::new();
        for (&lnum, places) in &mut self.lebs {
            places.sort_unstable();
            for pair in places.windows(2) {
                let end = u64::from(pair[0].offset) + u64::from(pair[0].len);
                if u64::from(pair[1].offset) < end {
                    found.push(Inconsistency::Overlap { lnum, offset: pair[1].offset });
                }
            }
        }
        found
    }
}

impl Core<dyn Volume> {
    /// Compares the state in memory with flash. Reads all live nodes; the whole index is in memory afterwards. Index
    /// LEBs are compared only if nothing is uncommitted.
    ///
    /// # Errors
    /// A damaged index, volume failures.
    pub(crate) fn check(&mut self) -> Result<Vec<Inconsistency>> {
        let mut found = Vec::new();
        let mut data = self.data_usage(&mut found)?;
        found.extend(data.overlaps());
        let committed = self.tnc.dirty_nodes() == 0 && !self.log.is_deferred();
        let mut index = Usage::default();
        if !self.log.is_deferred() {
            let committed_index = self.index_usage()?;
            let (believed, bytes) = (self.master.index_bytes, committed_index.total_bytes());
            if believed != bytes {
                found.push(Inconsistency::Sum { what: "bytes of the index", believed, found: bytes });
            }
            if committed {
                index = committed_index;
                found.extend(index.overlaps());
            }
        }
        let lebs: Vec<(u32, LebSpace)> = self.space.lebs().collect();
        for &(lnum, space) in &lebs {
            self.check_leb(lnum, space, &data, &index, committed, &mut found)?;
        }
        check_totals(self.io.layout().leb_bytes(), &lebs, self.space.totals(), &mut found);
        self.check_heads(&mut found)?;
        self.check_properties(&mut found)?;
        Ok(found)
    }

    /// Compares the LPT on flash with the state after the last commit.
    pub(crate) fn check_properties(&mut self, found: &mut Vec<Inconsistency>) -> Result<()> {
        let master = self.master;
        // A filesystem that is being created has no LPT on flash yet.
        if self.io.layout().limits.lpt.contains(&master.lpt_lnum) {
            found.extend(check_lpt(&mut self.io, &master)?.into_iter().map(Inconsistency::Properties));
        }
        Ok(())
    }

    /// Live leaf nodes; each is read and compared with its key.
    fn data_usage(&mut self, found: &mut Vec<Inconsistency>) -> Result<Usage> {
        let mut leaves = Vec::new();
        let (from, to) = (Key::from_bits(0), Key::from_bits(u64::MAX));
        self.tnc.leaves(&mut self.io, from, to, usize::MAX, &mut leaves)?;
        let mut usage = Usage::default();
        let mut out = Vec::new();
        for (key, place) in leaves {
            usage.add(place);
            match self.key_at(key, place, &mut out) {
                Ok(there) if there == Some(key) => {}
                Ok(_) => {
                    let error = Error::corrupt(place.lnum, place.offset, "a node with another key");
                    found.push(Inconsistency::Node { key, error });
                }
                Err(error) if error.is_damage() => found.push(Inconsistency::Node { key, error }),
                Err(error) => return Err(error),
            }
        }
        Ok(usage)
    }

    fn key_at(&mut self, key: Key, place: NodePos, out: &mut Vec<u8>) -> Result<Option<Key>> {
        let Self { tnc, io, .. } = self;
        let frame = tnc.read_leaf(io, key, place, None, out)?;
        let node = frame.node().map_err(|source| Error::node(place.lnum, place.offset, source))?;
        Ok(match node {
            Node::Inode(node) => Some(node.inode.key),
            Node::Data(node) => Some(node.block.key),
            Node::Entry(node) => Some(node.entry.key),
            _ => None,
        })
    }

    /// Live index nodes on flash.
    fn index_usage(&mut self) -> Result<Usage> {
        let root = NodePos {
            lnum: self.master.root_lnum,
            offset: self.master.root_offset,
            len: self.master.root_len,
        };
        let mut usage = Usage::default();
        let mut level = vec![root];
        let mut out = Vec::new();
        for _ in 0..MAX_LEVELS {
            let mut below = Vec::new();
            for place in core::mem::take(&mut level) {
                usage.add(place);
                let frame = self.io.read_node(place, Some(NodeType::Index), &mut out)?;
                let node = frame.node().map_err(|source| Error::node(place.lnum, place.offset, source))?;
                let Node::Index(node) = node else { continue };
                if node.level() > 0 {
                    below.extend(node.branches().map(|branch| NodePos {
                        lnum: branch.lnum,
                        offset: branch.offset,
                        len: branch.len,
                    }));
                }
            }
            level = below;
        }
        Ok(usage)
    }

    fn check_leb(
        &mut self,
        lnum: u32,
        space: LebSpace,
        data: &Usage,
        index: &Usage,
        committed: bool,
        found: &mut Vec<Inconsistency>,
    ) -> Result<()> {
        let leb = self.io.layout().leb_bytes();
        let (by_data, by_index) = (data.bytes(lnum), index.bytes(lnum));
        if by_data > 0 && (by_index > 0 || space.index) {
            found.push(Inconsistency::Leb { lnum, what: "nodes of the index and others are mixed" });
        }
        if by_index > 0 && !space.index {
            found.push(Inconsistency::Leb { lnum, what: "nodes of the index where none should be" });
        }
        let LebSpace { free, dirty, .. } = space;
        let used = by_data + by_index;
        let sum = used + u64::from(free) + u64::from(dirty);
        if sum != u64::from(leb) && (committed || !space.index) {
            let used = u32::try_from(used).unwrap_or(u32::MAX);
            found.push(Inconsistency::Space { lnum, used, free, dirty });
        }
        // A LEB that is completely free is unmapped before it is used, and so is a LEB that is completely dirty.
        if free < leb && used > 0 {
            self.check_contents(lnum, space, found)?;
        }
        Ok(())
    }

    /// Checks that a LEB contains nodes followed by erased free space.
    fn check_contents(&mut self, lnum: u32, space: LebSpace, found: &mut Vec<Inconsistency>) -> Result<()> {
        let end = self.io.layout().leb_bytes() - space.free;
        let mut heads = Head::ALL.into_iter().map(|head| self.io.buffer(head));
        if heads.any(|buffer| buffer.lnum() == Some(lnum) && !buffer.pending().is_empty()) {
            // The LEB can end in the middle of a node whose last bytes are still in the write buffer.
            return Ok(());
        }
        match scan(&mut self.io, lnum, 0) {
            Ok(leb) if leb.end == end => {}
            // An interrupted commit can have filled gaps, and can have left out outdated nodes at the end. The free
            // space of such a LEB is never written.
            Ok(leb) if space.index && (leb.end < end || lnum != self.master.index_head_lnum) => {}
            Ok(_) => found.push(Inconsistency::Leb { lnum, what: "its free space begins elsewhere" }),
            Err(error) if error.is_damage() => {
                found.push(Inconsistency::Leb { lnum, what: "not everything in it is a node" });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Checks that journal heads write to buds, and that the garbage collector has an empty LEB.
    fn check_heads(&mut self, found: &mut Vec<Inconsistency>) -> Result<()> {
        let leb = self.io.layout().leb_bytes();
        for head in Head::ALL {
            let buffer = self.io.buffer(head);
            let Some(lnum) = buffer.lnum() else { continue };
            let end = buffer.position();
            let bud = self.log.buds().get(&lnum);
            if end < leb && bud.is_none_or(|bud| bud.head != head || bud.start > end) {
                found.push(Inconsistency::Leb { lnum, what: "a head writes where the journal is not" });
            }
            if !self.space.get(lnum)?.taken {
                found.push(Inconsistency::Leb { lnum, what: "a head writes a LEB that can be found" });
            }
        }
        for &lnum in self.log.buds().keys() {
            if !self.space.get(lnum)?.taken {
                found.push(Inconsistency::Leb { lnum, what: "a LEB of the journal can be found" });
            }
        }
        if let Some(lnum) = self.gc_lnum {
            let space = self.space.get(lnum)?;
            if !space.taken || space.free != leb {
                found.push(Inconsistency::Leb { lnum, what: "the LEB for garbage collection is in use" });
            }
        }
        Ok(())
    }
}

fn check_totals(leb: u32, lebs: &[(u32, LebSpace)], totals: SpaceTotals, found: &mut Vec<Inconsistency>) {
    let sum = |of: &dyn Fn(&LebSpace) -> u64| lebs.iter().map(|(_, space)| of(space)).sum::<u64>();
    let used = |space: &LebSpace| u64::from(leb.saturating_sub(space.free + space.dirty));
    let sums = [
        ("free bytes", totals.free, sum(&|space| u64::from(space.free))),
        ("dirty bytes", totals.dirty, sum(&|space| u64::from(space.dirty))),
        ("used bytes", totals.used, sum(&|space| if space.index { 0 } else { used(space) })),
        ("empty LEBs", u64::from(totals.empty_lebs), sum(&|space| u64::from(space.free == leb))),
        ("LEBs of the index", u64::from(totals.index_lebs), sum(&|space| u64::from(space.index))),
    ];
    for (what, believed, counted) in sums {
        if believed != counted {
            found.push(Inconsistency::Sum { what, believed, found: counted });
        }
    }
}
