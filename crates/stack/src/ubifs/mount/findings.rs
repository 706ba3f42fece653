//! Findings of a mount: the master node it uses, and damage, which ends the mount or is recorded.

use crate::ubifs::error::{Error, Result};
use crate::ubifs::structure::Structure;

/// Findings of a mount, and whether it continues after damage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    forgiving: bool,
    /// Damage in order of discovery. Each entry would end a normal mount.
    pub(crate) notes: Vec<Note>,
    /// Choice between the two copies of the master node.
    pub(crate) choice: Choice,
    /// State according to the master node.
    pub(crate) state: Option<MasterState>,
    /// True if the replay skipped possibly damaged entries.
    pub(crate) in_replay: bool,
}

/// Reason for the choice of a master node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Both LEBs end with it.
    #[default]
    Both,
    /// The LEBs differ, as after a power cut.
    PowerCut,
    /// The last node is damaged in both LEBs, which no power cut causes. Linux uses the previous one.
    Older,
    /// One of the LEBs has decayed; the other one is used. Linux fails here.
    Undamaged,
    /// The newest remaining node is used.
    Newest,
}

impl Choice {
    /// Description of the fault, if a normal mount does not repair it.
    pub(super) const fn fault(self) -> Option<&'static str> {
        match self {
            Self::Both | Self::PowerCut => None,
            Self::Older => Some("the last master node of both LEBs: the one before counts"),
            Self::Undamaged => Some("one of the two LEBs of the master node: Linux does not mount it"),
            Self::Newest => Some("both LEBs of the master node: Linux does not mount it"),
        }
    }
}

/// State of a filesystem according to its master node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterState {
    /// Number of the last commit.
    pub commit: u64,
    /// True if it was not unmounted cleanly.
    pub dirty: bool,
    /// Damage of the master nodes that no power cut causes.
    pub fault: Option<&'static str>,
}

/// A fault found by a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Error that ends a normal mount.
    pub(crate) error: Error,
    /// Structure that is wrong, if it differs from the one at the error's position.
    pub(crate) structure: Option<Structure>,
}

/// Maximum number of recorded notes: a hostile image could have very many.
const NOTES_MAX: usize = 10_000;

impl Findings {
    /// Creates findings; `forgiving` continues without damaged parts.
    pub(crate) const fn new(forgiving: bool) -> Self {
        Self { forgiving, notes: Vec::new(), choice: Choice::Both, state: None, in_replay: false }
    }

    /// True if the mount continues without damaged parts.
    pub(super) const fn is_forgiving(&self) -> bool {
        self.forgiving
    }

    /// Records damage.
    pub(super) fn note(&mut self, error: Error, structure: Option<Structure>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Note { error, structure });
        }
    }

    /// Result, or `None` if it is an error that a forgiving mount ignores.
    pub(super) fn pass<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        self.pass_of(None, outcome)
    }

    /// Result like [`pass`](Self::pass); an error is recorded with the damaged structure.
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

    /// Errors in order of discovery.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Error> {
        self.notes.iter().map(|note| &note.error)
    }
}
