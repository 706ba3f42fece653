//! What a power cut may have left that looks well, and is not (Linux does nothing of this).
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
//! What is appended to a LEB is not looked at: whoever wrote it knows what may have been cut off.

use super::io::is_filled;
use super::pebs::PebState;
use super::scan::{Found, Scan};
use super::{Ubi, UbiError};
use floatgate_media::ubi::{FASTMAP_ANCHOR_PEBS, VidHeader};
use floatgate_mtd::Mtd;

/// Free PEBs of most wear that a move may have begun in: one, and one that was erased after an earlier cut.
const WORN: usize = 2;

impl<M: Mtd> Ubi<M> {
    /// Erases what cannot be trusted.
    pub(super) fn erase_doubtful(&mut self, scan: &Scan, begun: &[u32]) -> Result<(), UbiError> {
        // They come first in the queue.
        for _ in &scan.urgent {
            self.do_one_work()?;
        }
        let anchor = self.fastmap.as_ref().and(self.free.first_below(FASTMAP_ANCHOR_PEBS));
        let next = self.free.medium(self.wear_threshold).into_iter().chain(anchor);
        let entries = next.chain(self.free.last(WORN)).map(|entry| entry.pnum);
        let candidates: Vec<u32> = begun.iter().copied().chain(entries).collect();
        for pnum in candidates {
            if self.peb(pnum).state == PebState::Free {
                self.set_state(pnum, PebState::Pending);
                self.erase_pending(pnum, false)?;
            }
        }
        Ok(())
    }

    /// Writes the LEB again that was written last, if it may not hold.
    pub(super) fn rewrite_last(&mut self, scan: &mut Scan) -> Result<(), UbiError> {
        let Some(leb) = scan.last else { return Ok(()) };
        let Some(&found) = scan.found.iter().find(|found| found.leb() == leb) else { return Ok(()) };
        let data = match scan.last_copy.take() {
            None if found.header.is_copy() => return Ok(()),
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
        self.write_new(found.leb(), VidHeader { sqnum: 0, ..found.header }, 0, &data)
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
