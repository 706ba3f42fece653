//! Findings of a mount: the master node that counts, and damage, which ends the mount or is noted.

use super::MasterState;
use super::master::Choice;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::structure::Structure;

/// Findings of a mount, and whether it goes on behind damage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    forgiving: bool,
    /// Damage, in the order in which it was found. Each of it ends a mount that does not forgive.
    pub(crate) notes: Vec<Note>,
    /// Choice between the two copies of the master node.
    pub(crate) choice: Choice,
    /// State that the master node tells.
    pub(crate) state: Option<MasterState>,
    /// The journal was replayed past entries that may have been damaged.
    pub(crate) in_replay: bool,
}

/// Something damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The error that ends a mount.
    pub(crate) error: Error,
    /// The structure that is wrong, if it is another one than the one at the error's place.
    pub(crate) structure: Option<Structure>,
}

/// Notes that are kept; more tell nothing new, and a hostile image could have very many.
const NOTES_MAX: usize = 10_000;

impl Findings {
    /// `forgiving` goes on without what is damaged.
    pub(crate) const fn new(forgiving: bool) -> Self {
        Self { forgiving, notes: Vec::new(), choice: Choice::Both, state: None, in_replay: false }
    }

    /// True when the mount goes on without what is damaged.
    pub(super) const fn is_forgiving(&self) -> bool {
        self.forgiving
    }

    /// Something is damaged.
    pub(super) fn note(&mut self, error: Error, structure: Option<Structure>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Note { error, structure });
        }
    }

    /// An outcome, or `None` if it is an error that is forgiven.
    pub(super) fn pass<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        self.pass_of(None, outcome)
    }

    /// As [`pass`](Self::pass), with the structure that is wrong if it fails.
    pub(super) fn pass_of<T>(
        &mut self,
        structure: impl Into<Option<Structure>>,
        outcome: Result<T>,
    ) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if self.forgiving && !error.is_power_loss() => {
                self.note(error, structure.into());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Errors, in the order in which they were found.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Error> {
        self.notes.iter().map(|note| &note.error)
    }
}
