//! Free PEBs, pending erases and background work (Linux: `wl.c`).
//!
//! There is no thread. Pending work runs when the clock advances without other operations, on request, and before a
//! write if as many PEBs wait as are free.

use super::io::DynIo;
use super::pebs::{Entry, Erasure, LebId, Peb, PebState};
use super::{AttachKind, Ubi, UbiError};
use floatgate_media::ubi::MAX_ERASE_COUNT;
use floatgate_mtd::Mtd;

/// Number of erases during which a newly allocated PEB is not moved (Linux: `UBI_PROT_QUEUE_LEN`).
const PROTECTED_ERASURES: u64 = 10;

/// A piece of pending work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Erase a PEB, after a torture test if it failed.
    Erase { pnum: u32, torture: bool },
    /// Move a LEB to another PEB, because of wear or bitflips.
    Move,
}

impl Ubi<dyn Mtd> {
    pub(super) fn entry(&self, pnum: u32) -> Entry {
        Entry { pnum, erase_count: self.peb(pnum).erase_count }
    }

    pub(super) fn peb(&self, pnum: u32) -> &Peb {
        &self.pebs[pnum as usize]
    }

    pub(super) fn peb_mut(&mut self, pnum: u32) -> &mut Peb {
        &mut self.pebs[pnum as usize]
    }

    /// Moves a PEB from the set of its state to another.
    pub(super) fn set_state(&mut self, pnum: u32, state: PebState) {
        let entry = self.entry(pnum);
        match self.peb(pnum).state {
            PebState::Free => drop(self.free.remove(entry)),
            PebState::Used => drop(self.used.remove(entry)),
            PebState::Scrub => drop(self.scrub.remove(entry)),
            PebState::Protected => self.protected.retain(|&(_, protected)| protected != pnum),
            PebState::Erroneous => self.counts.erroneous -= 1,
            _ => {}
        }
        match state {
            PebState::Free => self.free.insert(entry),
            PebState::Used => self.used.insert(entry),
            PebState::Scrub => self.scrub.insert(entry),
            PebState::Protected => self.protected.push_back((self.erasures + PROTECTED_ERASURES, pnum)),
            PebState::Erroneous => self.counts.erroneous += 1,
            _ => {}
        }
        self.peb_mut(pnum).state = state;
    }

    /// Allocates a free PEB for a LEB and protects it from moves for a while.
    pub(super) fn get_peb(&mut self) -> Result<u32, UbiError> {
        self.io.check_writable()?;
        while !self.works.is_empty() && self.works.len() >= self.free.len() {
            self.do_one_work()?;
        }
        if self.fastmap.is_some()
            && let Some(pnum) = self.get_pool_peb()?
        {
            return Ok(pnum);
        }
        let threshold = self.wear_threshold;
        loop {
            if let Some(entry) = self.pick_free(|free| free.medium(threshold))? {
                self.set_state(entry.pnum, PebState::Protected);
                return Ok(entry.pnum);
            }
            if !self.do_one_work()? {
                return Err(UbiError::NoFreePeb);
            }
        }
    }

    /// Queues a PEB for erasure; `leb` was its LEB.
    pub(super) fn put_peb(&mut self, pnum: u32, leb: LebId, torture: bool) {
        let torture = torture || self.peb(pnum).state == PebState::Erroneous;
        self.set_state(pnum, PebState::Pending);
        self.peb_mut(pnum).leb = Some(leb);
        self.works.push_back(Work::Erase { pnum, torture });
    }

    /// Schedules scrubbing of a PEB.
    pub(super) fn scrub_peb(&mut self, pnum: u32) {
        if self.io.read_only.is_none() && matches!(self.peb(pnum).state, PebState::Used | PebState::Protected)
        {
            self.set_state(pnum, PebState::Scrub);
            self.schedule_move();
        }
    }

    /// Does the oldest piece of work; `false` if none is pending.
    pub(super) fn do_one_work(&mut self) -> Result<bool, UbiError> {
        let Some(work) = self.works.pop_front() else { return Ok(false) };
        let result = match work {
            Work::Erase { pnum, torture } => self.erase_pending(pnum, torture),
            Work::Move => self.move_leb(),
        };
        result.map(|()| true)
    }

    /// Erases the waiting PEBs that held this LEB. Without `lnum` they are those of all LEBs of the volume, and without
    /// `volume` all waiting PEBs.
    pub(super) fn flush_works(&mut self, volume: Option<u32>, lnum: Option<u32>) -> Result<(), UbiError> {
        // A fastmap does not list the LEBs that the PEBs waiting for erasure held.
        let unknown = self.attach_kind == AttachKind::Fastmap;
        let matches = |ubi: &Self, work: &Work| match *work {
            Work::Move => volume.is_none(),
            Work::Erase { pnum, .. } => ubi.peb(pnum).leb.map_or(unknown || volume.is_none(), |leb| {
                volume.is_none_or(|id| leb.volume == id) && lnum.is_none_or(|lnum| leb.lnum == lnum)
            }),
        };
        while let Some(at) = self.works.iter().position(|work| matches(self, work)) {
            self.works.rotate_left(at);
            let result = self.do_one_work();
            let back = at.min(self.works.len());
            self.works.rotate_right(back);
            result?;
        }
        Ok(())
    }

    /// Erases an unused PEB before others that wait.
    pub(super) fn erase_out_of_turn(&mut self, pnum: u32) -> Result<(), UbiError> {
        self.works.retain(|work| !matches!(*work, Work::Erase { pnum: other, .. } if other == pnum));
        self.set_state(pnum, PebState::Pending);
        self.erase_pending(pnum, false)
    }

    /// Erases an unused PEB, which is then free or bad.
    pub(super) fn erase_pending(&mut self, pnum: u32, mut torture: bool) -> Result<(), UbiError> {
        match self.erase_to_free(pnum, &mut torture) {
            Ok(()) => {
                self.set_state(pnum, PebState::Free);
                let peb = self.peb_mut(pnum);
                (peb.leb, peb.erasure) = (None, Erasure::Known);
                self.erased_one_more();
                Ok(())
            }
            Err(UbiError::PowerLost) => Err(UbiError::PowerLost),
            Err(error @ UbiError::ReadOnly(_)) => {
                self.works.push_front(Work::Erase { pnum, torture });
                Err(error)
            }
            Err(error) if error.is_flash_failure() => self.retire_peb(pnum, error),
            Err(error) => {
                self.set_state(pnum, PebState::Bad);
                self.io.enter_ro_mode();
                Err(error)
            }
        }
    }

    /// Erases a PEB and writes its EC header.
    pub(super) fn erase_to_free(&mut self, pnum: u32, torture: &mut bool) -> Result<(), UbiError> {
        let before = self.peb(pnum).erase_count;
        let erase_count = erase_and_count(&mut self.io, pnum, before, torture)?;
        self.peb_mut(pnum).erase_count = erase_count;
        self.erase_count_max = self.erase_count_max.max(erase_count);
        Ok(())
    }

    /// Counts an erase: ends protection of old PEBs, and schedules wear levelling if needed.
    fn erased_one_more(&mut self) {
        self.erasures += 1;
        while let Some(&(until, pnum)) = self.protected.front().filter(|(until, _)| *until <= self.erasures) {
            debug_assert!(until > 0);
            self.set_state(pnum, PebState::Used);
        }
        self.schedule_wear_levelling();
    }

    /// Marks a PEB bad that cannot be erased, and replaces it by one from the reserve.
    fn retire_peb(&mut self, pnum: u32, error: UbiError) -> Result<(), UbiError> {
        self.set_state(pnum, PebState::Bad);
        let replaceable = self.counts.reserve > 0 || self.counts.available > 0;
        if !self.io.bad_allowed || !replaceable {
            self.io.enter_ro_mode();
            return Err(error);
        }
        if let Err(error) = self.io.mark_bad(pnum) {
            self.io.enter_ro_mode();
            return Err(error);
        }
        if self.counts.reserve > 0 {
            self.counts.reserve -= 1;
        } else {
            self.counts.available -= 1;
        }
        self.counts.bad += 1;
        Ok(())
    }

    /// Runs background work until the time `until` or until none is pending.
    pub(super) fn idle_until(&mut self, until: floatgate_mtd::Instant) {
        while self.io.now < until && self.io.check_writable().is_ok() {
            // A failure makes the device read-only, and callers see it there.
            if !matches!(self.do_one_work(), Ok(true)) {
                break;
            }
        }
        self.io.now = self.io.now.max(until);
    }
}

/// Erases a PEB, writes its EC header and returns the new erase counter.
pub(super) fn erase_and_count(
    io: &mut DynIo<'_>,
    pnum: u32,
    erase_count: u32,
    torture: &mut bool,
) -> Result<u32, UbiError> {
    let times = io.erase(pnum, torture)?;
    let count = u64::from(erase_count) + u64::from(times);
    let count = u32::try_from(count).ok().filter(|&count| u64::from(count) <= MAX_ERASE_COUNT);
    let count = count.ok_or(UbiError::EraseCountOverflow { pnum })?;
    io.write_ec(pnum, count)?;
    Ok(count)
}
