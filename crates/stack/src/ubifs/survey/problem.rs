//! Problems that a survey finds.

use core::ops::RangeInclusive;

use floatgate_media::Reason;

use crate::ubifs::error::Error;
use crate::ubifs::structure::Structure;

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be, and good to know.
    Note,
    /// Remains of power cuts, or damage of which there is a good copy: the next mount for writing makes it good.
    Recoverable,
    /// Something is lost, or Linux does not accept it.
    Damaged,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity of the problem.
    pub severity: Severity,
    /// Structure that the problem is in.
    pub structure: Structure,
    /// LEB and byte in it, if it has a place.
    pub place: Option<(u32, u32)>,
    /// Part of the structure that is meant, if it is not all of it.
    pub part: Option<String>,
    /// Description of the problem.
    pub what: String,
    /// Nothing is written where the structure should be.
    pub is_erased: bool,
    /// Counts in an inode tell of names that are not there: they are lost, unless the counts are what is wrong.
    pub names_missing: bool,
    /// An older state counts in its place: changes made since may be lost.
    pub is_older: bool,
    /// Consequence for who uses the filesystem.
    pub consequence: &'static str,
    /// Inodes that are hit, or may be.
    pub inodes: Option<RangeInclusive<u32>>,
}

impl Problem {
    /// Description of the problem, with the part that is meant.
    #[must_use]
    pub fn told(&self) -> String {
        self.part.as_ref().map_or_else(|| self.what.clone(), |part| format!("{part}: {}", self.what))
    }

    /// A problem without a place.
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

    /// From an error, with its place.
    pub(crate) fn of(
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

    /// The problem of a part of the structure.
    pub(crate) fn of_part(self, part: impl Into<String>) -> Self {
        Self { part: Some(part.into()), ..self }
    }

    /// The problem at a place.
    pub(crate) fn at(self, lnum: u32, offset: u32) -> Self {
        Self { place: Some((lnum, offset)), ..self }
    }

    /// The problem of counts that tell of names that are not there, if they do.
    pub(crate) fn with_names_missing(self, names_missing: bool) -> Self {
        Self { names_missing, ..self }
    }

    /// The problem of an inode.
    pub(crate) fn inode(self, inode: u32) -> Self {
        Self { inodes: Some(inode..=inode), ..self }
    }
}
