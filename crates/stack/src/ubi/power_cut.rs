//! Unstable remains of a power cut, which read well at first (not handled by Linux).
//!
//! An interrupted program or erase can leave flash that reads well now and not next time, and erased flash that does
//! not retain new data. There are three cases:
//!
//! - *PEBs with corrupt headers, and incomplete copies*: they may read well next time, and be newer than data written
//!   since. They are erased before anything is written.
//! - *A PEB that looks free, but in which a VID header was begun*: the candidates are known, because the free PEBs and
//!   the order of allocation are the same as before the cut. They are erased: first the candidate for data, then the
//!   candidates for moves. After its erase a candidate is one of the most worn PEBs, so the candidates are the same
//!   after a second cut.
//! - *The last written LEB*: its header may be unstable (nothing follows it) or its data (it is a copy, and the PEB it
//!   replaces still exists). It is written again before the old PEB is erased.
//!
//! The allocation can have been different: a PEB with wrong bits may have been free before and is not now. So a header
//! written to a PEB that was free at the attach is read back.
//!
//! Data appended to a LEB is not verified: the writer knows which of it may be incomplete.

use super::io::is_filled;
use super::pebs::{Entry, Erasure, PebState};
use super::scan::{ClaimedPeb, Scan};
use super::{AttachKind, Ubi, UbiError};
use floatgate_media::ubi::{FASTMAP_ANCHOR_PEBS, VolumeType};
use floatgate_mtd::Mtd;

/// Number of candidate PEBs to erase: one may have been erased after an earlier cut, so the next one was used.
const DEPTH: usize = 2;

impl Ubi<dyn Mtd> {
    /// Erases PEBs that cannot be read reliably, and `begun`, the pool PEBs of a fastmap that is not maintained.
    pub(super) fn erase_doubtful(&mut self, scan: &Scan, begun: &[u32]) -> Result<(), UbiError> {
        for &pnum in &scan.urgent {
            self.erase_out_of_turn(pnum)?;
        }
        self.erase_free(begun)
    }

    /// Assumes that a write may have begun in any free PEB.
    pub(super) fn suspect_free_pebs(&mut self) {
        let free =
            self.pebs.iter_mut().filter(|peb| peb.state == PebState::Free && peb.erasure == Erasure::Known);
        free.for_each(|peb| peb.erasure = Erasure::Unverified);
    }

    /// Erases the free PEBs in which a write of data or a move may have begun, if the attach was by a scan. With
    /// `anchors`, also erases those in which a write of a fastmap anchor may have begun.
    pub(super) fn erase_begun(&mut self, anchors: bool) -> Result<(), UbiError> {
        let pnums = |entries: &mut dyn Iterator<Item = Entry>| entries.map(|entry| entry.pnum).collect();
        let (mut next, mut worn): (Vec<u32>, Vec<u32>) = Default::default();
        if self.attach_kind == AttachKind::Scan {
            next = pnums(&mut self.free.medium(self.wear_threshold).into_iter());
            worn = pnums(&mut self.free.last(DEPTH));
        }
        self.erase_free(&next)?;
        if anchors {
            let low = self.free.iter().filter(|entry| entry.pnum < FASTMAP_ANCHOR_PEBS);
            let low: Vec<u32> = pnums(&mut low.take(DEPTH));
            self.erase_free(&low)?;
        }
        self.erase_free(&worn)
    }

    fn erase_free(&mut self, pebs: &[u32]) -> Result<(), UbiError> {
        for &pnum in pebs {
            if self.peb(pnum).state == PebState::Free {
                self.erase_out_of_turn(pnum)?;
            }
        }
        Ok(())
    }

    /// Rewrites the last written LEB if it may be unstable.
    pub(super) fn rewrite_last(&mut self, scan: &mut Scan) -> Result<(), UbiError> {
        let Some(leb) = scan.last else { return Ok(()) };
        let Some(&found) = scan.found.iter().find(|found| found.leb() == leb) else { return Ok(()) };
        let data = match scan.last_copy.take() {
            None if found.header.is_copy() || found.header.volume_type == VolumeType::Static => return Ok(()),
            copy => copy.unwrap_or_default(),
        };
        if self.mapping(leb) != Some(found.pnum) || !self.is_erased_from(&found, data.len())? {
            return Ok(());
        }
        match self.write_again(&found, data) {
            // No other PEB is free to write the LEB to.
            Err(UbiError::NoFreePeb) => Ok(()),
            result => result,
        }
    }

    fn write_again(&mut self, found: &ClaimedPeb, mut data: Vec<u8>) -> Result<(), UbiError> {
        data.resize(data.len().next_multiple_of(self.io.min_io() as usize), 0);
        let header = if found.header.is_copy() { found.header } else { self.dynamic_header(found.leb()) };
        self.write_new(found.leb(), header, 0, &data)
    }

    /// True if a LEB is erased after its first `len` bytes.
    fn is_erased_from(&mut self, found: &ClaimedPeb, len: usize) -> Result<bool, UbiError> {
        let from = len.next_multiple_of(self.io.min_io() as usize);
        let rest = (self.io.leb_bytes() as usize).saturating_sub(from);
        if rest == 0 {
            return Ok(true);
        }
        let mut bytes = self.io.take_scratch();
        bytes.resize(rest, 0);
        let quality = self.io.read_data(found.pnum, from as u32, &mut bytes);
        let erased = is_filled(&bytes, 0xFF);
        self.io.put_scratch(bytes);
        Ok(quality?.is_good() && erased)
    }
}
