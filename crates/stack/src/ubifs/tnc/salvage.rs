//! Leaves of a damaged index, and the key ranges that are lost.

use super::Tnc;
use super::tree::{Path, Side, Step, Zbranch};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::Key;

/// Range of keys below an unusable index node. Whether the range contained keys is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostKeys {
    /// Lower bound of the lost keys.
    pub(crate) from: Key,
    /// Upper bound of the lost keys; `None` for the end of the index.
    pub(crate) to: Option<Key>,
    /// Fault of the node.
    pub(crate) error: Error,
}

impl Tnc {
    /// Appends to `out` all leaves with keys from `from` to `to`, both included, in order. Damaged index nodes are
    /// skipped and recorded in `lost`.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn salvage(
        &mut self,
        io: &mut DynIo<'_>,
        from: Key,
        to: Key,
        out: &mut Vec<(Key, NodePos)>,
        lost: &mut Vec<LostKeys>,
    ) -> Result<()> {
        let mut path = Path::default();
        match self.load_root(io) {
            Ok(None) => return Ok(()),
            Ok(Some(root)) => path.0.push(Step { id: root, slot: 0 }),
            Err(error) => return note(lost, Key::from_bits(0), None, error),
        }
        while let Some(Step { id, slot }) = path.last() {
            let node = self.arena.node(id);
            let Some(&Zbranch { key, place, .. }) = node.zbranches.get(slot) else {
                path.0.pop();
                path.step();
                continue;
            };
            if key > to {
                break;
            }
            let behind = path.upper_bound_below(&self.arena).is_some_and(|next| next < from);
            if node.level == 0 {
                out.extend((key >= from).then_some((key, place)));
            } else if !behind {
                match self.load_child(io, &path) {
                    Ok(id) => {
                        path.0.push(Step { id, slot: self.arena.node(id).branch_for(from, Side::First) });
                        continue;
                    }
                    Err(error) => note(lost, key, path.upper_bound_below(&self.arena), error)?,
                }
            }
            path.step();
        }
        Ok(())
    }
}

impl Path {
    /// Advances to the next branch of the last node, or after its last one.
    fn step(&mut self) {
        if let Some(step) = self.0.last_mut() {
            step.slot += 1;
        }
    }
}

fn note(lost: &mut Vec<LostKeys>, from: Key, to: Option<Key>, error: Error) -> Result<()> {
    if !error.is_damage() {
        return Err(error);
    }
    lost.push(LostKeys { from, to, error });
    Ok(())
}
