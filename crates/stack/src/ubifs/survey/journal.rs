//! Damage in the journal: the damaged nodes and the consequences.

use floatgate_media::ubifs::{Key, KeyType, Limits, NODE_MAGIC};

use super::Survey;
use super::open::area;
use super::problem::{Problem, Severity};
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::scan::{ScannedLeb, scan_all};
use crate::ubifs::structure::Structure;
use crate::volume::Volume;

/// A damaged node of the journal with a readable header and key.
pub(super) struct DamagedNode {
    key: Key,
    sqnum: u64,
    /// Length in its header, B.
    len: u32,
}

impl DamagedNode {
    /// Reads the node at a position of a journal LEB.
    pub(super) fn at(core: &mut Core<dyn Volume>, lnum: u32, offset: u32) -> Option<Self> {
        let mut bytes = [0; 32];
        let inside = u64::from(offset) + 32 <= u64::from(core.io.layout().leb_bytes());
        if !inside || !core.log.buds().contains_key(&lnum) {
            return None;
        }
        core.io.volume_mut().read(lnum, offset, &mut bytes).ok()?;
        let word = |at: usize| {
            u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        let key = Key::from_bits(word(24) << 32 | word(28));
        let is_whole = bytes.starts_with(&NODE_MAGIC) && key.key_type().code() == bytes[20];
        let known = u64::from(key.inum()) <= core.highest_inode && key.inum() > 0;
        (is_whole && known && bytes[20] <= 3).then_some(Self {
            key,
            sqnum: word(12) << 32 | word(8),
            len: word(16) as u32,
        })
    }

    /// True if further nodes are lost: no good node follows in the LEB, because the dump may be truncated, or the next
    /// good node does not follow directly.
    pub(super) fn more_is_lost(
        &self,
        core: &mut Core<dyn Volume>,
        error: &Error,
        consequence: &'static str,
    ) -> Option<Problem> {
        let (lnum, offset) = error.place()?;
        let (rest, _) = scan_all(&mut core.io, lnum, offset).ok()?;
        let what = if rest.nodes.iter().all(|node| node.key == Some(self.key)) {
            "nothing good follows in this LEB of the journal: more may be missing"
        } else if self.next_is_good(core, lnum, offset) {
            return None;
        } else {
            "more than this node is damaged here: what else the journal held is lost"
        };
        Some(Problem::new(Severity::Damaged, Structure::Journal, what, consequence).at(lnum, offset))
    }

    /// True if a node or padding follows directly.
    fn next_is_good(&self, core: &mut Core<dyn Volume>, lnum: u32, offset: u32) -> bool {
        let next = u64::from(offset) + u64::from(self.len).next_multiple_of(8);
        let Some(next) = u32::try_from(next).ok().filter(|next| *next < core.io.layout().leb_bytes()) else {
            return false;
        };
        let Ok(mut leb) = ScannedLeb::read(&mut core.io, lnum, next) else { return false };
        // A later fault in this LEB belongs to another node, so the result of the scan is ignored.
        let _ = leb.scan();
        leb.end > next
    }

    /// Adds the affected file to a problem.
    pub(super) fn name(&self, problem: Problem) -> Problem {
        let mut problem = problem.inode(self.key.inum());
        problem.structure = match self.key.key_type() {
            KeyType::Data => Structure::Data,
            KeyType::Inode => Structure::Inode,
            KeyType::Entry => Structure::Entry,
            _ => Structure::XattrEntry,
        };
        problem.of_part("in the journal")
    }
}

impl Survey<dyn Volume> {
    /// Records the keys of a damaged journal node as lost, unless a newer node has them.
    pub(super) fn record_lost_node(&mut self, hit: &DamagedNode) -> Result<()> {
        let (inode, block) = (hit.key.inum(), hit.key.block());
        if hit.key.key_type() != KeyType::Data {
            let file = self.tree.file_mut(inode);
            file.incomplete |= file.sqnum < hit.sqnum;
            file.outdated |= file.sqnum < hit.sqnum && hit.key.key_type() == KeyType::Inode;
            return Ok(());
        }
        let known = self.tree.files.get(&inode).and_then(|file| file.blocks.get(&block));
        if known.is_some_and(|known| known.sqnum > hit.sqnum) {
            return Ok(());
        }
        let file = self.tree.file_mut(inode);
        file.blocks.remove(&block);
        file.lost_blocks.insert(block);
        Ok(())
    }
}

/// Structure at a position of the main area according to its header.
pub(super) fn structure_at(
    core: &mut Core<dyn Volume>,
    limits: &Limits,
    lnum: u32,
    offset: u32,
) -> Structure {
    let area = area(limits, lnum);
    if area != Structure::Index {
        return area;
    }
    let mut header = [0xFF; 24];
    if u64::from(offset) + 24 <= u64::from(core.io.layout().leb_bytes()) {
        // An unreadable header identifies no structure, so the error is ignored.
        let _ = core.io.volume_mut().read(lnum, offset, &mut header);
    }
    match header[20] {
        9 => Structure::Index,
        0 if core.log.buds().contains_key(&lnum) => Structure::Journal,
        0 => Structure::Inode,
        _ if core.log.buds().contains_key(&lnum) => Structure::Journal,
        _ => Structure::Index,
    }
}

/// Inode of a damaged journal node according to its header and key.
pub(super) fn inode_at(
    core: &mut Core<dyn Volume>,
    lnum: u32,
    offset: u32,
) -> Option<core::ops::RangeInclusive<u32>> {
    let mut head = [0xFF; 32];
    let inside = offset.checked_add(32).is_some_and(|end| end <= core.io.layout().leb_bytes());
    if !inside
        || !core.log.buds().contains_key(&lnum)
        || core.io.volume_mut().read(lnum, offset, &mut head).is_err()
    {
        return None;
    }
    let number = u32::from_le_bytes([head[24], head[25], head[26], head[27]]);
    let of_a_file = head.starts_with(&NODE_MAGIC) && head[20] <= 3;
    (of_a_file && u64::from(number) <= core.highest_inode).then_some(number..=number)
}
