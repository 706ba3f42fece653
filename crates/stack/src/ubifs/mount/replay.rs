//! Replay: applies the journal since the last commit to the index in memory (Linux: `fs/ubifs/replay.c`).

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::ubifs::{BLOCK_BYTES, DataNode, EntryNode, InodeNode, Key, KeyType, Node, Truncation};

use super::findings::Findings;
use super::note_sqnum;
use super::recover::recover_leb;
use super::sizes::Sizes;
use crate::fs::NodePos;
use crate::ubifs::auth::{Hasher, LogChain};
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result, narrow};
use crate::ubifs::io::DynIo;
use crate::ubifs::journal::{Bud, truncated_keys};
use crate::ubifs::scan::{ScannedLeb, ScannedNode, scan, scan_all};
use crate::ubifs::space::{LebSpace, Space};
use crate::ubifs::tnc::{IndexSpace, Tnc};
use crate::volume::Volume;

/// A change in the journal.
#[derive(Clone, Debug)]
struct Change {
    sqnum: u64,
    place: NodePos,
    key: Key,
    what: ChangeKind,
    /// Hash of the node, if nodes are verified when they are read.
    hash: Option<Box<[u8]>>,
}

#[derive(Clone, Debug)]
enum ChangeKind {
    Inode { size: u64 },
    InodeDeletion,
    Data { end: u64 },
    Name { name: Box<[u8]> },
    NameDeletion { name: Box<[u8]> },
    Truncation(Truncation),
    Nothing,
}

impl ChangeKind {
    /// True if the node itself stays live.
    const fn is_kept(&self) -> bool {
        matches!(self, Self::Inode { .. } | Self::Data { .. } | Self::Name { .. })
    }
}

/// Space in a bud after its scan.
#[derive(Clone, Copy, Debug)]
struct BudSpace {
    lnum: u32,
    bud: Bud,
    /// Offset after the last write.
    end: u32,
    /// Bytes after the bud's start that no node uses.
    dirty: u32,
}

/// Changes of all buds.
#[derive(Clone, Debug, Default)]
struct Replay {
    changes: Vec<Change>,
    buds: Vec<BudSpace>,
    highest_inode: u64,
    hasher: Option<Hasher>,
}

impl Core<dyn Volume> {
    /// Updates the index and the LEB properties from the journal. The heads continue at the ends of their last buds.
    /// `needed` receives LEBs outside the journal that were read: the next replay needs them unchanged. With the key of
    /// an authenticated filesystem, `chain` verifies the journal.
    ///
    /// # Errors
    /// Damage; with `recovering`, only damage that no power cut causes. Nodes that are not authentic.
    pub(super) fn replay(
        &mut self,
        buds: &[(u32, Bud)],
        recovering: bool,
        chain: &LogChain,
        needed: &mut BTreeSet<u32>,
    ) -> Result<Sizes> {
        let hasher = self.verifier.as_ref().map(|verifier| verifier.hasher());
        let mut replay = Replay { hasher, ..Replay::default() };
        for (index, &(lnum, bud)) in buds.iter().enumerate() {
            let later = buds.get(index + 1..).unwrap_or(&[]);
            let last = (recovering || chain.verifies()) && is_last(&mut self.io, later, bud)?;
            let mut leb = read_bud(&mut self.io, lnum, bud, recovering && last, &mut self.findings)?;
            self.authenticate_bud(&mut leb, chain, last)?;
            let outcome = replay.add_bud(&mut self.io, bud, &leb);
            self.findings.pass(outcome)?;
        }
        self.highest_inode = self.highest_inode.max(replay.highest_inode);
        replay.changes.sort_by_key(|change| change.sqnum);
        let mut dirt: BTreeMap<u32, u64> = replay.buds.iter().map(|bud| (bud.lnum, 0)).collect();
        // A node that the journal deletes later may already be erased.
        self.tnc.start_replay(buds.iter().rev().map(|&(lnum, bud)| (lnum, bud.start)).collect());
        let sizes = self.replay_all(&replay.changes, recovering, &mut dirt, needed)?;
        self.findings.in_replay = self.tnc.end_replay();
        for bud in &replay.buds {
            let outcome = self.set_bud_space(bud, dirt.get(&bud.lnum).copied().unwrap_or(0));
            self.findings.pass(outcome)?;
        }
        self.space.replayed(self.tnc.dirty_nodes());
        Ok(sizes)
    }

    /// Removes nodes of a bud that are not authentic. In the last bud of a head this is no error: power was cut before
    /// their authentication node was written.
    fn authenticate_bud(&mut self, leb: &mut ScannedLeb, chain: &LogChain, last: bool) -> Result<()> {
        let Some(verifier) = self.verifier.as_ref().filter(|_| chain.verifies()) else { return Ok(()) };
        let outcome = chain.authenticate(verifier, leb, last);
        let dropped = self.findings.pass(outcome)?.unwrap_or(0);
        if let Some(authentication) = &mut self.authentication {
            authentication.dropped_nodes = authentication.dropped_nodes.saturating_add(dropped);
        }
        Ok(())
    }

    fn replay_all(
        &mut self,
        changes: &[Change],
        recovering: bool,
        dirt: &mut BTreeMap<u32, u64>,
        needed: &mut BTreeSet<u32>,
    ) -> Result<Sizes> {
        let last = last_states_of_inodes(changes);
        let mut sizes = Sizes::default();
        for change in changes {
            if matches!(change.what, ChangeKind::InodeDeletion) {
                let outcome = self.note_attributes(change.key.inum(), needed);
                self.findings.pass(outcome)?;
            }
            let outcome = self.replay_one(change, &last, dirt);
            self.findings.pass(outcome)?;
            if recovering {
                note_size(&mut sizes, change);
            }
        }
        Ok(sizes)
    }

    /// Records the inodes of the attributes of a deleted inode, which must be deleted too. Only the names of the
    /// attributes refer to them.
    pub(super) fn note_attributes(&mut self, inode: u32, needed: &mut BTreeSet<u32>) -> Result<()> {
        let [from, to] = [Key::lowest, Key::highest].map(|end| end(inode, KeyType::XattrEntry));
        let mut leaves = Vec::new();
        self.tnc.leaves(&mut self.io, from, to, usize::MAX, &mut leaves)?;
        needed.extend(leaves.into_iter().map(|(_, place)| place.lnum));
        Ok(())
    }

    fn replay_one(
        &mut self,
        change: &Change,
        last: &BTreeMap<u32, LastState>,
        dirt: &mut BTreeMap<u32, u64>,
    ) -> Result<()> {
        let Self { io, space, tnc, .. } = self;
        let space = &mut ReplaySpace { space, dirt };
        let Change { key, place, .. } = *change;
        match &change.what {
            ChangeKind::Inode { .. } | ChangeKind::Data { .. } => tnc.insert(io, space, key, place)?,
            ChangeKind::Name { name } => tnc.insert_name(io, space, key, name, place)?,
            _ => return Self::replay_deletion(change, last, tnc, io, space),
        }
        if let Some(hash) = &change.hash {
            tnc.keep_hash(key, place, hash.clone());
        }
        Ok(())
    }

    /// Applies a deletion in the journal to the index.
    fn replay_deletion(
        change: &Change,
        last: &BTreeMap<u32, LastState>,
        tnc: &mut Tnc,
        io: &mut DynIo<'_>,
        space: &mut ReplaySpace<'_>,
    ) -> Result<()> {
        let key = change.key;
        match &change.what {
            ChangeKind::NameDeletion { name } => tnc.remove_name(io, space, key, name),
            // An inode without a name can get a name again, so its contents must stay. It can also get attributes,
            // which would remain if the inode were removed before (in Linux they do remain).
            ChangeKind::InodeDeletion
                if last.get(&key.inum()).is_some_and(|last| last.alive || last.sqnum > change.sqnum) =>
            {
                Ok(())
            }
            ChangeKind::InodeDeletion => tnc.remove_inode(io, space, key.inum()),
            ChangeKind::Truncation(node) => match truncated_keys(node) {
                Some((from, to)) => tnc.remove_range(io, space, from, to),
                None => Ok(()),
            },
            ChangeKind::Inode { .. }
            | ChangeKind::Data { .. }
            | ChangeKind::Name { .. }
            | ChangeKind::Nothing => Ok(()),
        }
    }

    /// Corrects the space of a bud, of which the replay made `replayed` bytes dirty, and sets its head to its end.
    fn set_bud_space(&mut self, bud: &BudSpace, replayed: u64) -> Result<()> {
        let leb = self.io.layout().leb_bytes();
        let mut space = self.space.get(bud.lnum)?;
        let mut dirty = u64::from(space.dirty).saturating_add(replayed);
        if bud.bud.start == 0 && (space.free != leb || space.dirty != 0) {
            // The garbage collector had emptied this LEB after the last commit, because it was empty when it became a
            // bud. The replay counted all of its old contents as dirty.
            dirty = dirty.saturating_sub(u64::from(leb - space.free.min(leb)));
        }
        let free = leb.saturating_sub(bud.end);
        dirty += u64::from(bud.dirty);
        if dirty + u64::from(free) > u64::from(leb) {
            return Err(Error::corrupt(bud.lnum, bud.end, "more free and dirty space than the LEB has"));
        }
        space.free = free;
        space.dirty = narrow("dirty space", dirty)?;
        space.taken = true;
        self.space.set(bud.lnum, space)?;
        // If a head has several buds, the last one gives its position.
        self.io.seek_head(bud.bud.head, bud.lnum, bud.end);
        Ok(())
    }
}

/// LEB properties during replay: the dirty bytes of buds are counted separately, because they can exceed the LEB until
/// [`set_bud_space`](Core::set_bud_space) corrects them.
struct ReplaySpace<'s> {
    space: &'s mut Space,
    dirt: &'s mut BTreeMap<u32, u64>,
}

impl IndexSpace for ReplaySpace<'_> {
    fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()> {
        match self.dirt.get_mut(&lnum) {
            Some(dirt) => {
                *dirt = dirt.saturating_add(u64::from(bytes));
                Ok(())
            }
            None => self.space.add_dirt(lnum, bytes),
        }
    }

    fn get(&self, lnum: u32) -> Result<LebSpace> {
        self.space.get(lnum)
    }

    fn set(&mut self, lnum: u32, space: LebSpace) -> Result<()> {
        self.space.set(lnum, space)
    }

    fn find_free_for_index(&mut self, io: &mut DynIo<'_>) -> Result<Option<u32>> {
        self.space.find_free_for_index(io)
    }

    fn find_dirty_index(&mut self) -> Result<Option<u32>> {
        self.space.find_dirty_index()
    }
}

/// True if a bud is the last one of its head, the only one that a power cut can damage. Old versions of Linux could add
/// the next one, still empty, before the end of this one was written.
fn is_last(io: &mut DynIo<'_>, later: &[(u32, Bud)], bud: Bud) -> Result<bool> {
    let mut of_head = later.iter().filter(|(_, other)| other.head == bud.head);
    let (next, after) = (of_head.next(), of_head.next());
    let (Some(&(lnum, next)), None) = (next, after) else { return Ok(next.is_none()) };
    let mut word = [0; 4];
    if next.start.saturating_add(4) > io.layout().leb_bytes() {
        return Ok(true);
    }
    match io.volume_mut().read(lnum, next.start, &mut word) {
        Ok(()) => Ok(word == [0xFF; 4]),
        Err(error) => {
            Err(Error::from(error)).or_else(|error| if error.is_damage() { Ok(false) } else { Err(error) })
        }
    }
}

/// Nodes of a bud; in a forgiving mount, those before the damage.
fn read_bud(
    io: &mut DynIo<'_>,
    lnum: u32,
    bud: Bud,
    last: bool,
    findings: &mut Findings,
) -> Result<ScannedLeb> {
    let outcome =
        if last { recover_leb(io, lnum, bud.start, Some(bud.head)) } else { scan(io, lnum, bud.start) };
    if let Some(leb) = findings.pass(outcome)? {
        return Ok(leb);
    }
    // Only the damaged nodes are skipped.
    let (mut leb, errors) = scan_all(io, lnum, bud.start)?;
    errors.into_iter().for_each(|error| findings.note(error, None));
    leb.end = io.layout().leb_bytes();
    Ok(leb)
}

impl Replay {
    fn add_bud(&mut self, io: &mut DynIo<'_>, bud: Bud, leb: &ScannedLeb) -> Result<()> {
        let mut used = 0;
        for node in &leb.nodes {
            note_sqnum(io, node.place, node.stamp.sqnum)?;
            used += self.add(leb, node)?;
        }
        let (lnum, end) = (leb.lnum, leb.end);
        let dirty = (end - bud.start).saturating_sub(used);
        self.buds.push(BudSpace { lnum, bud, end, dirty });
        Ok(())
    }

    /// Adds a node, and returns its size with alignment.
    fn add(&mut self, leb: &ScannedLeb, node: &ScannedNode) -> Result<u32> {
        let NodePos { lnum, offset, .. } = node.place;
        let damaged = |source| Error::node(lnum, offset, source);
        let frame = leb.frame(node)?;
        let parsed = frame.node().map_err(damaged)?;
        let (key, what) = match parsed {
            Node::Inode(node) => of_inode(&node),
            Node::Data(node) => of_data(&node),
            Node::Entry(node) => {
                node.check().map_err(damaged)?;
                of_entry(&node)
            }
            Node::Truncation(node) => {
                node.check().map_err(damaged)?;
                of_truncation(&node)
            }
            Node::Auth(_) => (Key::default(), ChangeKind::Nothing),
            _ => return Err(Error::corrupt(lnum, offset, "not a node of the journal")),
        };
        self.highest_inode = self.highest_inode.max(u64::from(key.inum()));
        let used = if what.is_kept() { node.place.aligned_len() } else { 0 };
        let hash = self.hasher.filter(|_| what.is_kept()).map(|hasher| hasher.hash(frame.as_bytes()));
        self.changes.push(Change { sqnum: node.stamp.sqnum, place: node.place, key, what, hash });
        Ok(used)
    }
}

const fn of_inode(node: &InodeNode<'_>) -> (Key, ChangeKind) {
    let inode = &node.inode;
    let what =
        if inode.links == 0 { ChangeKind::InodeDeletion } else { ChangeKind::Inode { size: inode.size } };
    (inode.key, what)
}

fn of_data(node: &DataNode<'_>) -> (Key, ChangeKind) {
    let start = u64::from(node.block.key.block()) * u64::from(BLOCK_BYTES);
    (node.block.key, ChangeKind::Data { end: start + u64::from(node.block.size) })
}

fn of_entry(node: &EntryNode<'_>) -> (Key, ChangeKind) {
    let name = node.name.into();
    let what = if node.is_deletion() { ChangeKind::NameDeletion { name } } else { ChangeKind::Name { name } };
    (node.entry.key, what)
}

const fn of_truncation(node: &Truncation) -> (Key, ChangeKind) {
    (Key::inode(node.inode), ChangeKind::Truncation(*node))
}

/// State of an inode according to its last node.
#[derive(Clone, Copy, Debug)]
struct LastState {
    sqnum: u64,
    /// True if the inode is not deleted.
    alive: bool,
}

fn last_states_of_inodes(changes: &[Change]) -> BTreeMap<u32, LastState> {
    let states = changes.iter().filter_map(|change| {
        let alive = match change.what {
            ChangeKind::Inode { .. } => true,
            ChangeKind::InodeDeletion => false,
            _ => return None,
        };
        Some((change.key.inum(), LastState { sqnum: change.sqnum, alive }))
    });
    states.collect()
}

fn note_size(sizes: &mut Sizes, change: &Change) {
    let inode = change.key.inum();
    match change.what {
        ChangeKind::Inode { size } => sizes.inode(inode, size),
        ChangeKind::InodeDeletion => sizes.deletion(inode),
        ChangeKind::Data { end } => sizes.data(inode, end),
        ChangeKind::Truncation(node) => sizes.truncation(inode, node.new_size),
        ChangeKind::Name { .. } | ChangeKind::NameDeletion { .. } | ChangeKind::Nothing => {}
    }
}
