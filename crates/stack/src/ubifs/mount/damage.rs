//! What to do about damage while mounting.

use crate::ubifs::error::{Error, Result};

/// Damage that a mount has found, and whether it may go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damage {
    forgiving: bool,
    /// Damage, in the order in which it was found.
    pub(crate) notes: Vec<Error>,
    /// The journal was replayed past entries that may have been damaged.
    pub(crate) in_replay: bool,
}

/// Notes that are kept; more tell nothing new, and a hostile image could have very many.
const NOTES_MAX: usize = 10_000;

impl Damage {
    /// `forgiving` goes on without what is damaged.
    pub(crate) const fn new(forgiving: bool) -> Self {
        Self { forgiving, notes: Vec::new(), in_replay: false }
    }

    /// True when the mount goes on without what is damaged.
    pub(super) const fn is_forgiving(&self) -> bool {
        self.forgiving
    }

    /// Something is damaged.
    pub(super) fn note(&mut self, error: Error) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(error);
        }
    }

    /// An outcome, or `None` if it is an error that is forgiven.
    pub(super) fn pass<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if self.forgiving && !error.is_power_loss() => {
                self.note(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
