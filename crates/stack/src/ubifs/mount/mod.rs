//! Mounting, recovery, and creating a filesystem (Linux: `mount_ubifs` in `fs/ubifs/super.c`).
//!
//! In the order of a mount: the superblock, the master node of the last commit, and the LEB properties are read. The
//! log then lists the LEBs of the journal, and their nodes are replayed into the index in memory. If the filesystem was
//! not unmounted cleanly, recovery cleans the ends of the last written LEBs, deletes orphans, and corrects file sizes.
//! In a read-only mount, recovery only changes the state in memory.

pub(crate) mod findings;
mod fixup;
mod format;
pub(crate) mod geometry;
mod kill_orphans;
mod log;
pub(crate) mod master;
pub(crate) mod orphans;
mod probe;
mod recover;
mod replay;
mod sizes;
mod start;
pub(crate) mod superblock;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use floatgate_media::ubifs::{Master, MasterFlags, Superblock};

use super::auth::{Authenticate, Authentication, LogChain, Verifier};
use super::core::Core;
use super::error::{Error, Result};
use super::io::{DynIo, Io};
use super::journal::Log;
use super::layout::NodePos;
use super::limits::Limits;
use super::space::Space;
use super::tnc::Tnc;
use crate::volume::Volume;
use findings::Findings;
pub use findings::MasterState;
pub use format::{FormatOptions, FormatStyle};
pub use geometry::MIN_LEBS;
use log::read_log;
use master::SQNUM_WATERMARK;
use orphans::Orphans;
pub use probe::{check_units, least_lebs, probe};

/// Options of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Nothing is written, not even by recovery.
    pub read_only: bool,
    /// Allows recovery of a filesystem that was not unmounted cleanly, which writes to flash. Without it, a writable
    /// mount fails with [`Error::NeedsRecovery`].
    pub recover: bool,
    /// Mounts the remains of a damaged filesystem, and records the damage. Requires `read_only`.
    pub forgiving: bool,
    /// Keeps the space fixup flag of an image: the flash it will be written to is not this volume.
    pub keep_space_fixup: bool,
    /// Extent of authentication. Except for `No`, only a filesystem with authentication can be mounted.
    pub authenticate: Authenticate,
}

/// Records a node found on flash; new nodes get higher sequence numbers.
fn note_sqnum(io: &mut DynIo<'_>, place: NodePos, sqnum: u64) -> Result<()> {
    if sqnum >= SQNUM_WATERMARK {
        return Err(Error::corrupt(place.lnum, place.offset, "the sequence numbers are used up"));
    }
    io.saw_sqnum(sqnum);
    Ok(())
}

/// Result of the first part of a mount, up to the LEB properties.
struct Opened {
    master: master::CommittedMaster,
    space: Space,
    verifier: Option<Verifier>,
    findings: Findings,
}

impl<V: Volume + 'static> Core<V> {
    /// Mounts the filesystem of a volume.
    ///
    /// # Errors
    /// No filesystem, a filesystem that does not fit the volume, damage; [`Error::NeedsRecovery`]; volume failures. The
    /// volume is returned with the error.
    pub(crate) fn mount(mut volume: V, options: &MountOptions) -> core::result::Result<Self, (Error, V)> {
        let found = superblock::read(&mut volume, options.read_only)
            .map(|found| if options.keep_space_fixup { found.keeping_space_fixup() } else { found });
        match found {
            Ok(superblock) => Self::mount_as(volume, &superblock, options),
            Err(error) => Err((error, volume)),
        }
    }

    /// Mounts the filesystem of a volume with this superblock.
    pub(crate) fn mount_as(
        mut volume: V,
        superblock: &superblock::VolumeSuperblock,
        options: &MountOptions,
    ) -> core::result::Result<Self, (Error, V)> {
        let layout = match superblock::layout(&superblock.superblock, superblock.volume) {
            Ok(layout) => layout,
            Err(error) => return Err((error, volume)),
        };
        let verified = verifier(&mut volume, &superblock.stored, &options.authenticate);
        let verifier = match verified {
            Ok(verifier) => verifier,
            Err(error) => return Err((error, volume)),
        };
        let mut io = Io::new(volume, Arc::new(layout), options.read_only);
        let opened = match open(&mut io, options, verifier) {
            Ok(opened) => opened,
            Err(error) => return Err((error, io.into_volume())),
        };
        let mut core = Self::opened(io, &opened);
        core.authentication = Authentication::mounted(&superblock.stored, &options.authenticate);
        match core.bring_up(superblock) {
            Ok(()) => Ok(core),
            Err(error) => Err((error, core.into_volume())),
        }
    }

    /// Filesystem as of the last commit.
    fn opened(io: Io<V>, opened: &Opened) -> Self {
        let master = opened.master.master;
        let layout = io.layout().clone();
        let root = NodePos { lnum: master.root_lnum, offset: master.root_offset, len: master.root_len };
        let mut tnc = Tnc::open(root, master.index_bytes);
        if let Some(verifier) = &opened.verifier {
            let hasher = verifier.hasher();
            tnc.authenticate(hasher.stored(&master.hash_root), hasher);
        }
        Self {
            space: opened.space.clone(),
            tnc,
            log: Log::new(&layout, master.log_lnum),
            orphans: Orphans::new(&layout),
            master,
            master_offset: opened.master.next_offset,
            gc_lnum: None,
            highest_inode: master.highest_inode,
            sizes: BTreeMap::new(),
            room_behind_data: None,
            authentication: None,
            verifier: opened.verifier.clone(),
            findings: opened.findings.clone(),
            limits: Limits::default(),
            io,
        }
    }
}

impl Core<dyn Volume> {
    /// Advances from the last commit to the current state.
    fn bring_up(&mut self, superblock: &superblock::VolumeSuperblock) -> Result<()> {
        let recovering = self.was_dirty();
        if !self.io.is_read_only() {
            self.mark_dirty(superblock)?;
        }
        let mut chain = LogChain::new(self.verifier.as_ref());
        let buds = self.read_journal(recovering, &mut chain)?;
        let mut needed = BTreeSet::new();
        let sizes = self.replay(&buds, recovering, &chain, &mut needed)?;
        if !recovering {
            return self.end_clean_mount();
        }
        if !self.master.flags.contains(MasterFlags::NO_ORPHANS) {
            let outcome = self.kill_orphans(&mut needed);
            self.findings.pass(outcome)?;
        }
        let outcome = self.recover_sizes(sizes);
        self.findings.pass(outcome)?;
        if self.io.is_read_only() { Ok(()) } else { self.end_recovery(needed) }
    }

    /// True if the filesystem was not unmounted cleanly according to the master node.
    pub(in crate::ubifs) const fn was_dirty(&self) -> bool {
        self.master.flags.contains(MasterFlags::DIRTY)
    }
}

/// The verifier of a filesystem, which has verified the superblock. `None` if nothing is to be verified.
fn verifier(
    volume: &mut dyn Volume,
    superblock: &Superblock,
    authenticate: &Authenticate,
) -> Result<Option<Verifier>> {
    let verifier = Verifier::new(superblock, authenticate)?;
    if let Some(verifier) = verifier.as_ref().filter(|verifier| verifier.has_key()) {
        verifier.check_superblock(&superblock::read_bytes(volume)?)?;
    }
    Ok(verifier)
}

/// Reads the master node and LEB properties.
fn open(io: &mut DynIo<'_>, options: &MountOptions, verifier: Option<Verifier>) -> Result<Opened> {
    // Even the recovery of the master node writes, so the mode is set first.
    io.set_read_only(options.read_only || !options.recover);
    let mut findings = Findings::new(options.forgiving && options.read_only);
    let master = master::read(io, &mut findings)?;
    io.set_read_only(options.read_only);
    findings.state = Some(master.state(findings.choice));
    let dirty = master.master.flags.contains(MasterFlags::DIRTY);
    if dirty && !options.read_only && !options.recover {
        return Err(Error::NeedsRecovery);
    }
    if let Some(verifier) = &verifier {
        verifier.check_master(&master.master, &master.bytes, master.offset)?;
        let outcome = verifier.check_lpt(io, &master.master);
        findings.pass(outcome)?;
    }
    let space = load_space(io, &master.master, &mut findings)?;
    if dirty && !options.read_only {
        // Removes the data that an interrupted commit wrote after the index and the LPT.
        recover::recover_head(io, master.master.index_head_lnum, master.master.index_head_offset)?;
        recover::recover_head(io, master.master.lpt_head_lnum, master.master.lpt_head_offset)?;
    }
    Ok(Opened { master, space, verifier, findings })
}

fn load_space(io: &mut DynIo<'_>, master: &Master, findings: &mut Findings) -> Result<Space> {
    if !findings.is_forgiving() {
        return Space::load(io, master);
    }
    let (space, notes) = Space::load_damaged(io, master)?;
    notes.into_iter().for_each(|error| findings.note(error, None));
    Ok(space)
}
