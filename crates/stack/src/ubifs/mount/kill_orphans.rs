//! Deletion of the orphans of the last mount, after a power cut (Linux: `ubifs_mount_orphans`).

use std::collections::BTreeSet;

use floatgate_media::ubifs::{Key, Node, NodeType, OrphanNode};

use super::note_sqnum;
use super::recover::recover_leb;
use crate::fs::NodePos;
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::scan::{ScannedLeb, ScannedNode, scan};
use crate::volume::Volume;

/// Reader of the orphan area.
#[derive(Default)]
struct Reader {
    /// Commit number of the previous node, and whether that node was the last one of its commit.
    before: (u64, bool),
    /// Highest commit number seen.
    commit: u64,
}

impl Core<dyn Volume> {
    /// Deletes the inodes in the orphan area from the index, after a power cut.
    ///
    /// If power is lost before this is committed, the next mount must read their LEBs again; they are added to
    /// `needed`.
    ///
    /// # Errors
    /// Damage that no power cut causes; volume failures.
    pub(super) fn kill_orphans(&mut self, needed: &mut BTreeSet<u32>) -> Result<()> {
        let mut reader = Reader { commit: self.master.commit, ..Reader::default() };
        for lnum in self.io.layout().limits.orphans.clone() {
            let leb = match scan(&mut self.io, lnum, 0) {
                Err(error) if error.is_damage() => recover_leb(&mut self.io, lnum, 0, None)?,
                outcome => outcome?,
            };
            if !self.kill_orphans_of(&leb, &mut reader, needed)? {
                break;
            }
            if leb.end > 0 {
                self.orphans.head = (lnum, leb.end);
            }
        }
        // An interrupted commit has already used its commit number.
        self.master.commit = reader.commit;
        Ok(())
    }

    /// Deletes the inodes listed in a LEB; `false` if the LEB belongs to an earlier round.
    fn kill_orphans_of(
        &mut self,
        leb: &ScannedLeb,
        reader: &mut Reader,
        needed: &mut BTreeSet<u32>,
    ) -> Result<bool> {
        for (index, node) in leb.nodes.iter().enumerate() {
            let NodePos { lnum, offset, .. } = node.place;
            note_sqnum(&mut self.io, node.place, node.stamp.sqnum)?;
            let orphans = orphan_node(leb, node)?;
            reader.commit = reader.commit.max(orphans.commit);
            let (commit, complete) = reader.before;
            if complete && orphans.commit < commit {
                if index == 0 {
                    return Ok(false);
                }
                return Err(Error::corrupt(lnum, offset, "orphans of an earlier commit behind a later one"));
            }
            for inode in orphans.inums() {
                self.kill_orphan(inode, needed)?;
            }
            reader.before = (orphans.commit, orphans.last);
        }
        Ok(true)
    }

    /// Deletes an inode from the index, unless it has a name again.
    fn kill_orphan(&mut self, inode: u64, needed: &mut BTreeSet<u32>) -> Result<()> {
        let Ok(inode) = u32::try_from(inode) else { return Ok(()) };
        let Some(place) = self.tnc.find(&mut self.io, Key::inode(inode))? else { return Ok(()) };
        let mut bytes = Vec::new();
        let Self { tnc, io, .. } = self;
        let frame = tnc.read_leaf(io, Key::inode(inode), place, Some(NodeType::Inode), &mut bytes)?;
        let node = frame.node().map_err(|source| Error::node(place.lnum, place.offset, source))?;
        if matches!(node, Node::Inode(node) if node.inode.links == 0) {
            needed.insert(place.lnum);
            self.note_attributes(inode, needed)?;
            self.tnc.remove_inode(&mut self.io, &mut self.space, inode)?;
        }
        Ok(())
    }
}

fn orphan_node<'a>(leb: &'a ScannedLeb, node: &ScannedNode) -> Result<OrphanNode<'a>> {
    let NodePos { lnum, offset, .. } = node.place;
    let frame = leb.frame(node)?;
    match frame.node().map_err(|source| Error::node(lnum, offset, source))? {
        Node::Orphan(orphans) => Ok(orphans),
        _ => {
            let (expected, found) = (NodeType::Orphan, node.node_type);
            Err(Error::WrongNode { lnum, offset, expected, found })
        }
    }
}
