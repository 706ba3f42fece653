//! Remains of a power cut that look well and are not (Linux does nothing of this).
//!
//! A program or an erase that power did not last for can leave flash that reads well now and not next time, and erased
//! flash that does not hold what is programmed into it. Three things can be meant:
//!
//! - *PEBs with corrupt headers, and copies that are not whole*: they may read well next time, and be newer than what was
//!   written since. They are erased before anything is written.
//! - *A PEB that looks free*, but a VID header was begun in it: which one that was can be told, for the free PEBs are
//!   the same as before the cut, and so is the choice among them. The candidates are erased, the one for data before those
//!   for moves: an erased PEB comes to stand among the most worn, so that a second cut leaves the same candidates.
//! - *The LEB written last*: its header (nothing follows it) or its data (it is a copy, and what it replaces is there, too)
//!   may not hold. It is written again, before what it replaces is erased.
//!
//! The choice can have been another: a PEB with wrong bits was among the free ones before, and is not now. So the header is read again
//! after it was written to a PEB that was free already when the device was attached.
//!
//! Data appended to a LEB are not looked at: their writer knows which of them may have been cut off.

use super::io::is_filled;
use super::pebs::{Entry, Erasure, PebState};
use super::scan::{Found, Scan};
use super::{AttachKind, Ubi, UbiError};
use floatgate_media::ubi::{FASTMAP_ANCHOR_PEBS, VolumeType};
use floatgate_mtd::Mtd;

/// The number of PEBs erased where one is meant: after an earlier cut one was erased, and may have taken its place.
const DEPTH: usize = 2;

impl Ubi<dyn Mtd> {
    /// Erases PEBs that cannot be read for certain, and `begun`, those of the pools of a fastmap that
    /// is not kept up to date.
    pub(super) fn erase_doubtful(&mut self, scan: &Scan, begun: &[u32]) -> Result<(), UbiError> {
        for &pnum in &scan.urgent {
            self.erase_out_of_turn(pnum)?;
        }
        self.erase_free(begun)
    }

    /// A write may have begun in any free PEB, as far as is known.
    pub(super) fn doubt_free(&mut self) {
        let free =
            self.pebs.iter_mut().filter(|peb| peb.state == PebState::Free && peb.erasure == Erasure::Known);
        free.for_each(|peb| peb.erasure = Erasure::Unverified);
    }

    /// Erases the free PEBs that a write may have begun in: data or, where a fastmap did not count, a move; with `anchors`
    /// the anchor of a fastmap.
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

    /// Writes the LEB again that was written last, if it may not hold.
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
            // There is no other PEB to write it to.
            Err(UbiError::NoFreePeb) => Ok(()),
            result => result,
        }
    }

    fn write_again(&mut self, found: &Found, mut data: Vec<u8>) -> Result<(), UbiError> {
        data.resize(data.len().next_multiple_of(self.io.min_io() as usize), 0);
        let header = if found.header.is_copy() { found.header } else { self.dynamic_header(found.leb()) };
        self.write_new(found.leb(), header, 0, &data)
    }

    /// Whether nothing follows the first `len` bytes of a LEB.
    fn is_erased_from(&mut self, found: &Found, len: usize) -> Result<bool, UbiError> {
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
