//! Moving LEBs to other PEBs: wear levelling and scrubbing (Linux: the second half of `wl.c`).

use super::io::{Header, Quality, data_len, impossible};
use super::pebs::{Entry, LebId, PebState};
use super::wear::Work;
use super::{Ubi, UbiError};
use floatgate_media::crc;
use floatgate_media::ubi::{VidHeader, VolumeType};
use floatgate_mtd::Mtd;

/// Result of a move that did not fail permanently.
enum Moved {
    /// The LEB is in its new PEB.
    Done,
    /// The target failed: it is tortured, and the LEB stays.
    BadTarget,
    /// The source cannot be read: it stays and is not tried again.
    BadSource,
    /// The source contains no data yet; it is protected for a while.
    NotWritten,
}

impl Ubi<dyn Mtd> {
    /// Schedules a move, unless one is pending.
    pub(super) fn schedule_move(&mut self) {
        if !self.move_scheduled {
            self.move_scheduled = true;
            self.works.push_back(Work::Move);
        }
    }

    /// Schedules a move if a LEB needs scrubbing, or the wear of the PEBs differs too much.
    pub(super) fn schedule_wear_levelling(&mut self) {
        if self.io.read_only.is_none() && (!self.scrub.is_empty() || self.is_worn()) {
            self.schedule_move();
        }
    }

    /// True if a much worn free PEB has been erased too many times more than the least worn PEB with data.
    fn is_worn(&self) -> bool {
        let free = self.free.below(self.wear_threshold.saturating_mul(2));
        self.used.first().zip(free).is_some_and(|(from, to)| self.too_far_apart(from, to))
    }

    fn too_far_apart(&self, from: Entry, to: Entry) -> bool {
        to.erase_count.saturating_sub(from.erase_count) >= self.wear_threshold
    }

    /// Moves one LEB, if a move is still needed.
    pub(super) fn move_leb(&mut self) -> Result<(), UbiError> {
        self.move_scheduled = false;
        let Some(from) = self.scrub.first().or_else(|| self.used.first()) else { return Ok(()) };
        let Some(to) = self.move_target()? else { return Ok(()) };
        // The LEB may already have been moved to make a PEB free as the target.
        let scrub = match self.peb(from.pnum).state {
            PebState::Scrub => true,
            PebState::Used => false,
            _ => return Ok(()),
        };
        if scrub || self.too_far_apart(from, to) {
            return self.move_pair(from.pnum, to.pnum);
        }
        Ok(())
    }

    /// Moves LEBs from PEBs at or after `end` to free ones before it, the least worn first, while there are any. This
    /// keeps an image short.
    ///
    /// # Errors
    /// Flash failures, read-only.
    pub fn vacate(&mut self, end: u32) -> Result<(), UbiError> {
        self.io.check_writable()?;
        self.flush()?;
        for pnum in (end..self.io.pebs).rev() {
            let moves =
                matches!(self.peb(pnum).state, PebState::Used | PebState::Protected | PebState::Scrub);
            if !moves {
                continue;
            }
            let Some(to) = self.free.iter().find(|free| free.pnum < end) else { break };
            self.move_pair(pnum, to.pnum)?;
        }
        self.flush()
    }

    /// Moves the LEB of one PEB to another.
    pub(super) fn move_pair(&mut self, from: u32, to: u32) -> Result<(), UbiError> {
        let before = self.peb(from).state;
        self.leave_pool(to);
        self.set_state(to, PebState::Pending);
        match self.copy_leb(from, to) {
            Ok(Moved::Done) => self.erase_pending(from, false),
            Ok(Moved::BadTarget) => self.erase_pending(to, true),
            Ok(Moved::BadSource) => self.keep_unreadable(from, to),
            Ok(Moved::NotWritten) => {
                self.set_state(from, PebState::Protected);
                self.set_state(to, PebState::Free);
                Ok(())
            }
            Err(error) => {
                debug_assert_eq!(before, self.peb(from).state);
                self.io.enter_ro_mode();
                Err(error)
            }
        }
    }

    /// Keeps a PEB that cannot be read, until there are too many of them.
    fn keep_unreadable(&mut self, from: u32, to: u32) -> Result<(), UbiError> {
        self.set_state(to, PebState::Free);
        let leb = self.peb(from).leb;
        self.set_state(from, PebState::Erroneous);
        if self.counts.erroneous <= (self.io.pebs / 10).max(16) {
            self.schedule_wear_levelling();
            return Ok(());
        }
        self.io.enter_ro_mode();
        let LebId { volume: id, lnum } = leb.unwrap_or(LebId { volume: 0, lnum: 0 });
        Err(UbiError::Damaged { id, lnum })
    }

    fn copy_leb(&mut self, from: u32, to: u32) -> Result<Moved, UbiError> {
        let header = match self.io.read_vid(from)? {
            Header::Found(header, _) => header,
            Header::Erased | Header::ErasedFlips => return Ok(Moved::NotWritten),
            Header::Corrupt(_) | Header::CorruptFlips(_) => return Ok(Moved::BadSource),
            Header::Impossible(error) => return Err(impossible(from, "VID header", error)),
        };
        let leb = LebId { volume: header.volume_id, lnum: header.lnum };
        if self.mapping(leb) != Some(from) {
            return Ok(Moved::BadSource);
        }
        let mut data = self.io.take_scratch();
        let result = self.copy_data(from, to, header, &mut data);
        self.io.put_scratch(data);
        let moved = result?;
        if matches!(moved, Moved::Done) {
            self.set_mapping(leb, Some(to));
            self.peb_mut(to).leb = Some(leb);
            self.set_state(to, PebState::Used);
            self.set_state(from, PebState::Pending);
        }
        Ok(moved)
    }

    /// Copies the data of a PEB with its CRC, so that an interrupted copy is detected.
    fn copy_data(
        &mut self,
        from: u32,
        to: u32,
        mut header: VidHeader,
        data: &mut Vec<u8>,
    ) -> Result<Moved, UbiError> {
        let fixed = header.volume_type == VolumeType::Static;
        let whole = if fixed { header.data_size } else { self.io.leb_bytes() - header.data_pad };
        let unit = self.io.min_io();
        data.resize(whole.next_multiple_of(unit).min(self.io.leb_bytes()) as usize, 0xFF);
        if self.io.read_data(from, 0, data)? == Quality::Damaged {
            return Ok(Moved::BadSource);
        }
        let mut size = whole as usize;
        if !fixed {
            size = data_len(data, unit);
            data.truncate(size);
        }
        if size > 0 {
            header.copy_flag = 1;
            header.data_size = size as u32;
            header.data_crc = crc::ubi(&data[..size]);
        }
        header.sqnum = self.next_sqnum();
        self.write_copy(to, &header, data)
    }

    fn write_copy(&mut self, to: u32, header: &VidHeader, data: &[u8]) -> Result<Moved, UbiError> {
        // `data` is the scratch buffer; a header write needs its own meanwhile.
        match self.io.write_vid(to, header) {
            Err(error) if error.is_flash_failure() => return Ok(Moved::BadTarget),
            other => other?,
        }
        if self.io.read_vid(to)? != Header::Found(*header, false) {
            return Ok(Moved::BadTarget);
        }
        if data.is_empty() {
            return Ok(Moved::Done);
        }
        match self.io.write_data(to, 0, data) {
            Err(error) if error.is_flash_failure() => Ok(Moved::BadTarget),
            other => other.map(|()| Moved::Done),
        }
    }
}
