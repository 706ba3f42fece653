//! UBI: volumes of logical eraseblocks (LEBs) on flash with physical ones (PEBs) that wear out and go bad.
//!
//! In the order data flow when a device is attached: [`Ubi::attach`] reads the headers of all PEBs and decides what
//! each of them is (`scan`), reads the volume table and builds the map from LEBs to PEBs (`attach`). Then
//! LEBs are read, written, changed (`leb`), which takes free PEBs and gives used ones back to be erased (`wear`); LEBs
//! are moved because of wear or bitflips (`relocate`). Volumes are made and changed (`volumes`, `table`) and
//! rewritten as a whole (`update`). Of a damaged device [`Survey`] keeps the verdict on every PEB (`verdict`, `survey`), and `salvage`
//! attaches what is left. Below all is the flash with its clock (`io`).
//!
//! Facts are from Linux 6.12, `drivers/mtd/ubi`; the bytes are in `docs/spec/ubi.md`. Where this code differs:
//!
//! - There is no thread: `wear` says when the background work is done.
//! - [`Ubi::change_leb`] maps a LEB that is not mapped before it writes to it, so that it is old or new after a power cut.
//! - Flash on which a first attach was cut off is taken for empty, not refused.
//! - After a power cut what was written last is written again, and PEBs are erased that may not hold (`power_cut`).
//! - A static volume with missing LEBs can be read as far as it is there.

mod attach;
mod error;
mod fastmap;
mod fastmap_write;
mod format;
mod handle;
mod io;
mod leb;
mod options;
mod pebs;
mod power_cut;
mod relocate;
mod reserve;
mod salvage;
mod scan;
mod survey;
mod table;
mod update;
mod verdict;
mod volumes;
mod wear;

pub use error::{AttachError, AttachFault, ReadOnlyReason, UbiError};
pub use handle::UbiVolume;
pub use options::{
    AttachKind, AttachOptions, DeviceInfo, FastmapUse, FormatOptions, NewVolume, PebInfo, VolumeInfo,
};
pub use pebs::{LebId, PebState};
pub use reserve::{MAX_BAD_PER_1024, PebBudget};
pub use salvage::MISSING_LEBS_MAX;
pub use survey::{Mapping, Survey, TableVerdict};
pub use update::VolumeUpdate;
pub use verdict::{Claim, GuessedVid, HeaderState, PebVerdict};

use fastmap_write::FastmapState;
use floatgate_media::ubi::LAYOUT_VOLUME;
use floatgate_mtd::{Instant, Mtd};
use io::Io;
use pebs::{Peb, PebSet};
use std::collections::{BTreeMap, VecDeque};
use table::VolumeState;
use wear::Work;

/// A UBI device: the flash, its clock, and what is where on it.
#[derive(Clone, Debug)]
pub struct Ubi<M: ?Sized> {
    pebs: Vec<Peb>,
    free: PebSet,
    used: PebSet,
    scrub: PebSet,
    /// PEBs that are not to be moved yet, and the number of erasures until they may be.
    protected: VecDeque<(u64, u32)>,
    /// PEBs erased since the device was attached.
    erasures: u64,
    works: VecDeque<Work>,
    move_scheduled: bool,
    volumes: BTreeMap<u32, VolumeState>,
    counts: Counts,
    sqnum: u64,
    erase_count_max: u32,
    wear_threshold: u32,
    attach_kind: AttachKind,
    /// The fastmap, if one is kept up to date.
    fastmap: Option<FastmapState>,
    /// Damage that a forgiving attach has passed over.
    damage: Vec<AttachFault>,
    io: Io<M>,
}

forward_to_dyn!(Ubi: Mtd);

/// Numbers of PEBs.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    bad: u32,
    corrupted: u32,
    alien: u32,
    erroneous: u32,
    /// For new volumes.
    available: u32,
    /// Set aside to replace bad ones.
    reserve: u32,
    /// Bad ones expected.
    bad_limit: u32,
}

impl Counts {
    fn of(scan: &scan::Scan) -> Self {
        Self { bad: scan.bad, corrupted: scan.corrupted, alien: scan.alien, ..Self::default() }
    }
}

impl Ubi<dyn Mtd> {
    fn good_pebs(&self) -> u32 {
        self.io.pebs.saturating_sub(self.counts.bad)
    }

    /// The device as it is now.
    pub fn info(&self) -> DeviceInfo {
        let good = || self.pebs.iter().filter(|peb| peb.state != PebState::Bad);
        let sum: u64 = good().map(|peb| u64::from(peb.erase_count)).sum();
        let pending = |peb: &&Peb| peb.state == PebState::Pending;
        DeviceInfo {
            geometry: self.io.geometry,
            pebs: self.io.pebs,
            good_pebs: self.good_pebs(),
            bad_pebs: self.counts.bad,
            free_pebs: self.free.len() as u32,
            pending_pebs: self.pebs.iter().filter(pending).count() as u32,
            corrupted_pebs: self.counts.corrupted,
            erroneous_pebs: self.counts.erroneous,
            alien_pebs: self.counts.alien,
            available_lebs: self.counts.available,
            bad_reserve: self.counts.reserve,
            image_seq: self.io.image_seq,
            erase_count_max: good().map(|peb| peb.erase_count).max().unwrap_or(0),
            erase_count_mean: sum.checked_div(good().count() as u64).unwrap_or(0) as u32,
            erase_count_min: good().map(|peb| peb.erase_count).min().unwrap_or(0),
            volumes_max: self.io.geometry.volume_slots(),
            attach_kind: self.attach_kind,
            sqnum: self.sqnum,
            read_only: self.io.read_only,
        }
    }

    /// The volumes, lowest id first.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeInfo> + '_ {
        let users = self.volumes.values().filter(|volume| volume.id != LAYOUT_VOLUME);
        users.map(|volume| volume.info(self.io.leb_bytes()))
    }

    /// One volume.
    ///
    /// # Errors
    /// There is none with this id.
    pub fn volume(&self, id: u32) -> Result<VolumeInfo, UbiError> {
        let volume = self.volume_state(id)?;
        Ok(volume.info(self.io.leb_bytes()))
    }

    /// All PEBs.
    pub fn pebs(&self) -> impl ExactSizeIterator<Item = PebInfo> + '_ {
        self.pebs.iter().enumerate().map(|(pnum, peb)| PebInfo {
            pnum: pnum as u32,
            erase_count: peb.erase_count,
            state: peb.state,
            leb: peb.leb,
        })
    }

    /// The clock: when the last operation was done.
    pub fn now(&self) -> Instant {
        self.io.now
    }

    /// Lets time pass, up to `now`; the background works meanwhile. The clock never goes back.
    pub fn wait_until(&mut self, now: Instant) {
        self.idle_until(now);
    }

    /// Sets the clock to a later time, in which nothing was done.
    pub fn set_now(&mut self, now: Instant) {
        self.io.now = self.io.now.max(now);
    }

    /// Does up to `budget` pieces of background work (an erasure, a move) and returns how many were done.
    ///
    /// # Errors
    /// Failures of the flash that cannot be worked around.
    pub fn work(&mut self, budget: u32) -> Result<u32, UbiError> {
        for done in 0..budget {
            if !self.do_one_work()? {
                return Ok(done);
            }
        }
        Ok(budget)
    }

    /// Reads a PEB as a whole, and has the LEB in it moved if bits had to be corrected, as ubihealthd asks for (Linux:
    /// `ubi_bitflip_check`). True if it will be moved; a PEB that holds no LEB is not read.
    ///
    /// # Errors
    /// Failures of the flash. Damage is none: a read of the LEB will tell.
    pub fn check_peb(&mut self, pnum: u32) -> Result<bool, UbiError> {
        let holds = |ubi: &Self| matches!(ubi.peb(pnum).state, PebState::Used | PebState::Protected);
        if self.io.read_only.is_some() || !holds(self) {
            return Ok(false);
        }
        if matches!(self.io.read_peb(pnum)?, io::Quality::Flips(_)) {
            self.scrub_peb(pnum);
        }
        Ok(!holds(self))
    }

    /// Does all background work.
    ///
    /// # Errors
    /// As [`work`](Self::work).
    pub fn flush(&mut self) -> Result<(), UbiError> {
        self.io.check_alive()?;
        if self.io.read_only.is_some() {
            return Ok(());
        }
        self.flush_works(None, None)
    }
}

impl<M: Mtd + 'static> Ubi<M> {
    /// The flash below.
    pub fn mtd(&self) -> &M {
        &self.io.mtd
    }

    /// The flash below, to look at it or to disturb it; what is done to it, UBI does not know of.
    pub fn mtd_mut(&mut self) -> &mut M {
        &mut self.io.mtd
    }

    /// Ends in order: does all background work, writes a fastmap if one is kept, and gives the flash back with the time.
    ///
    /// # Errors
    /// Failures of the flash; it comes back either way.
    pub fn detach(mut self) -> Result<(M, Instant), (UbiError, M)> {
        let writable = self.io.read_only.is_none();
        let result = self.flush().and_then(|()| if writable { self.volumes_changed() } else { Ok(()) });
        match result {
            Ok(()) => Ok((self.io.mtd, self.io.now)),
            Err(error) => Err((error, self.io.mtd)),
        }
    }

    /// Takes the flash as it is, background work not done: what a power cut leaves.
    pub fn into_mtd(self) -> M {
        self.io.mtd
    }

    /// Opens a volume as logical eraseblocks.
    ///
    /// # Errors
    /// There is no such volume; the device comes back with the error.
    #[allow(clippy::result_large_err)] // the device itself is handed back
    pub fn open_volume(self, id: u32) -> Result<UbiVolume<M>, (UbiError, Self)> {
        match self.volume_state(id) {
            Ok(_) => Ok(UbiVolume::new(self, id)),
            Err(error) => Err((error, self)),
        }
    }
}
