//! UBI: volumes of logical eraseblocks (LEBs) on flash with physical ones (PEBs) that wear out and go bad.
//!
//! In data-flow order of an attach: [`Ubi::attach`] reads and classifies the headers of all PEBs (`scan`), reads the
//! volume table and builds the map from LEBs to PEBs (`attach`). Then LEBs are read, written and changed (`leb`), which
//! allocates free PEBs and queues used ones for erasure (`wear`). LEBs are moved because of wear or bitflips
//! (`relocate`). Volumes are created and changed (`volumes`, `table`) and rewritten as a whole (`update`). For a
//! damaged device, [`Survey`] contains a verdict on every PEB (`verdict`, `survey`), and `salvage` attaches the
//! remains. The lowest layer is the flash with its clock (`io`).
//!
//! Facts are from Linux 6.12, `drivers/mtd/ubi`; the bytes are in `docs/spec/ubi.md`. Where this code differs:
//!
//! - There is no thread: `wear` describes when background work runs.
//! - [`Ubi::change_leb`] first maps an unmapped LEB, so that its contents are old or new after a power cut.
//! - Flash whose first attach was interrupted counts as empty and is not refused.
//! - After a power cut, the last write is repeated, and PEBs with unstable contents are erased (`power_cut`).
//! - The existing LEBs of an incomplete static volume can be read.

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
mod salvaged_table;
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
pub use salvaged_table::MISSING_LEBS_MAX;
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

/// A UBI device: the flash, its clock, and the state of its PEBs and volumes.
#[derive(Clone, Debug)]
pub struct Ubi<M: ?Sized> {
    pebs: Vec<Peb>,
    free: PebSet,
    used: PebSet,
    scrub: PebSet,
    /// Number of erases after which protection ends, and the protected PEB.
    protected: VecDeque<(u64, u32)>,
    /// Erases since the attach.
    erasures: u64,
    works: VecDeque<Work>,
    move_scheduled: bool,
    volumes: BTreeMap<u32, VolumeState>,
    counts: Counts,
    sqnum: u64,
    erase_count_max: u32,
    wear_threshold: u32,
    attach_kind: AttachKind,
    /// Fastmap state, if one is maintained.
    fastmap: Option<FastmapState>,
    /// Damage that a forgiving attach ignored.
    damage: Vec<AttachFault>,
    io: Io<M>,
}

forward_to_dyn!(Ubi: Mtd);

/// Numbers of PEBs by purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    bad: u32,
    corrupted: u32,
    alien: u32,
    erroneous: u32,
    /// PEBs for new volumes.
    available: u32,
    /// PEBs reserved to replace bad ones.
    reserve: u32,
    /// Expected number of bad PEBs.
    bad_limit: u32,
}

impl Counts {
    fn from_scan(scan: &scan::Scan) -> Self {
        Self { bad: scan.bad, corrupted: scan.corrupted, alien: scan.alien, ..Self::default() }
    }
}

impl Ubi<dyn Mtd> {
    fn good_pebs(&self) -> u32 {
        self.io.pebs.saturating_sub(self.counts.bad)
    }

    /// Properties and current counters of the device.
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

    /// Volumes in ascending order of their ids.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeInfo> + '_ {
        let users = self.volumes.values().filter(|volume| volume.id != LAYOUT_VOLUME);
        users.map(|volume| volume.info(self.io.leb_bytes()))
    }

    /// One volume.
    ///
    /// # Errors
    /// The volume does not exist.
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

    /// Current time: the end of the last operation.
    pub fn now(&self) -> Instant {
        self.io.now
    }

    /// Advances the clock to `now`; background work runs meanwhile. The clock never goes back.
    pub fn wait_until(&mut self, now: Instant) {
        self.idle_until(now);
    }

    /// Sets the clock to a later time without running background work.
    pub fn set_now(&mut self, now: Instant) {
        self.io.now = self.io.now.max(now);
    }

    /// Does up to `budget` pieces of background work (an erase, a move) and returns their number.
    ///
    /// # Errors
    /// Flash failures that cannot be worked around.
    pub fn work(&mut self, budget: u32) -> Result<u32, UbiError> {
        for done in 0..budget {
            if !self.do_one_work()? {
                return Ok(done);
            }
        }
        Ok(budget)
    }

    /// Reads a whole PEB, and schedules a move of its LEB if bits were corrected, for ubihealthd (Linux:
    /// `ubi_bitflip_check`). True if it will be moved. A PEB without a LEB is not read.
    ///
    /// # Errors
    /// Flash failures. Uncorrectable data is not an error here; a read of the LEB reports it.
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
    /// The errors of [`work`](Self::work).
    pub fn flush(&mut self) -> Result<(), UbiError> {
        self.io.check_alive()?;
        if self.io.read_only.is_some() {
            return Ok(());
        }
        self.flush_works(None, None)
    }
}

impl<M: Mtd + 'static> Ubi<M> {
    /// The flash device.
    pub fn mtd(&self) -> &M {
        &self.io.mtd
    }

    /// The flash, to inspect or disturb it; UBI does not notice such changes.
    pub fn mtd_mut(&mut self) -> &mut M {
        &mut self.io.mtd
    }

    /// Detaches: does all background work, writes a maintained fastmap, and returns the flash with the time.
    ///
    /// # Errors
    /// Flash failures; the flash is returned in both cases.
    pub fn detach(mut self) -> Result<(M, Instant), (UbiError, M)> {
        let writable = self.io.read_only.is_none();
        let result = self.flush().and_then(|()| if writable { self.volumes_changed() } else { Ok(()) });
        match result {
            Ok(()) => Ok((self.io.mtd, self.io.now)),
            Err(error) => Err((error, self.io.mtd)),
        }
    }

    /// Returns the flash in its current state, without background work, as a power cut leaves it.
    pub fn into_mtd(self) -> M {
        self.io.mtd
    }

    /// Opens a volume.
    ///
    /// # Errors
    /// The volume does not exist; the device is returned with the error.
    #[allow(clippy::result_large_err)] // the device itself is handed back
    pub fn open_volume(self, id: u32) -> Result<UbiVolume<M>, (UbiError, Self)> {
        match self.volume_state(id) {
            Ok(_) => Ok(UbiVolume::new(self, id)),
            Err(error) => Err((error, self)),
        }
    }
}
