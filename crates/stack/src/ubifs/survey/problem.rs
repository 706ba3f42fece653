//! Problems that a survey finds.

use core::ops::RangeInclusive;

use floatgate_media::Reason;

use crate::ubifs::error::Error;
use crate::ubifs::structure::Structure;

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information about a normal state.
    Note,
    /// Remains of power cuts, or damage with a good copy: the next writable mount repairs it.
    Recoverable,
    /// Data is lost, or Linux does not accept the structure.
    Damaged,
}

/// A problem or an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity of the problem.
    pub severity: Severity,
    /// Structure that the problem is in.
    pub structure: Structure,
    /// LEB and offset, if it has a position.
    pub place: Option<(u32, u32)>,
    /// Affected part of the structure, `None` for all of it.
    pub part: Option<String>,
    /// Description of the problem.
    pub what: String,
    /// True if the position of the structure is erased.
    pub is_erased: bool,
    /// True if counts in an inode are higher than the number of names: names are lost, or the counts are wrong.
    pub names_missing: bool,
    /// True if an older state is used instead: changes made since may be lost.
    pub is_older: bool,
    /// Consequence for the user of the filesystem.
    pub consequence: &'static str,
    /// Inodes that are or may be affected.
    pub inodes: Option<RangeInclusive<u32>>,
}

impl Problem {
    /// Description of the problem, with the affected part.
    #[must_use]
    pub fn description(&self) -> String {
        self.part.as_ref().map_or_else(|| self.what.clone(), |part| format!("{part}: {}", self.what))
    }

    /// Creates a problem without a position.
    pub(crate) fn new(
        severity: Severity,
        structure: Structure,
        what: impl Into<String>,
        consequence: &'static str,
    ) -> Self {
        let what = what.into();
        Self {
            severity,
            structure,
            place: None,
            part: None,
            what,
            is_erased: false,
            names_missing: false,
            is_older: false,
            consequence,
            inodes: None,
        }
    }

    /// Creates a problem from an error, with its position.
    pub(crate) fn from_error(
        severity: Severity,
        structure: Structure,
        error: &Error,
        consequence: &'static str,
    ) -> Self {
        let is_erased = matches!(error, Error::Node { source, .. } if source.reason == Reason::Erased);
        Self {
            place: error.place(),
            is_erased,
            ..Self::new(severity, structure, error.reason(), consequence)
        }
    }

    /// Sets the affected part of the structure.
    pub(crate) fn of_part(self, part: impl Into<String>) -> Self {
        Self { part: Some(part.into()), ..self }
    }

    /// Sets the position.
    pub(crate) fn at(self, lnum: u32, offset: u32) -> Self {
        Self { place: Some((lnum, offset)), ..self }
    }

    /// Sets `names_missing`.
    pub(crate) fn with_names_missing(self, names_missing: bool) -> Self {
        Self { names_missing, ..self }
    }

    /// Sets the affected inode.
    pub(crate) fn inode(self, inode: u32) -> Self {
        Self { inodes: Some(inode..=inode), ..self }
    }
}
