//! LEBs: reading, writing, atomic change, mapping (Linux: `eba.c`).

use super::io::{Header, Quality, RETRIES};
use super::pebs::{Erasure, LebId};
use super::table::{UNMAPPED, VolumeState};
use super::{Ubi, UbiError};
use crate::volume::VolumeFault;
use floatgate_media::crc;
use floatgate_media::ubi::{Compat, LAYOUT_VOLUME, LAYOUT_VOLUME_COMPAT, VidHeader, VolumeType};
use floatgate_mtd::{ErrorKind, Mtd};

fn access(fault: VolumeFault) -> UbiError {
    UbiError::Access(fault)
}

impl Ubi<dyn Mtd> {
    pub(super) fn next_sqnum(&mut self) -> u64 {
        let sqnum = self.sqnum;
        self.sqnum = sqnum.saturating_add(1);
        sqnum
    }

    /// PEB that a LEB is mapped to.
    pub(super) fn mapping(&self, leb: LebId) -> Option<u32> {
        let pnum = self.volumes.get(&leb.volume)?.eba.get(leb.lnum as usize)?;
        Some(*pnum).filter(|&pnum| pnum != UNMAPPED)
    }

    pub(super) fn set_mapping(&mut self, leb: LebId, pnum: Option<u32>) {
        let place = self.volumes.get_mut(&leb.volume).and_then(|v| v.eba.get_mut(leb.lnum as usize));
        if let Some(place) = place {
            *place = pnum.unwrap_or(UNMAPPED);
        }
    }

    pub(super) fn volume_state(&self, id: u32) -> Result<&VolumeState, UbiError> {
        self.volumes.get(&id).ok_or(UbiError::NoVolume { id })
    }

    /// A volume that may be written by LEB.
    fn writable(&self, id: u32, lnum: u32) -> Result<&VolumeState, UbiError> {
        let volume = self.volume_state(id)?;
        self.io.check_writable()?;
        if volume.record.volume_type == VolumeType::Static {
            return Err(UbiError::WrongType { id, actual: "static" });
        }
        volume.check_marker()?;
        if lnum >= volume.record.reserved_pebs {
            return Err(access(VolumeFault::OutOfRange { len: 0 }));
        }
        Ok(volume)
    }

    /// Checks the range of a write to a LEB of this volume.
    fn check_write(&self, id: u32, lnum: u32, offset: u32, len: usize) -> Result<(), UbiError> {
        let (usable, unit) = (self.writable(id, lnum)?.usable(self.io.leb_bytes()), self.io.min_io());
        if len as u64 + u64::from(offset) > u64::from(usable) {
            return Err(access(VolumeFault::OutOfRange { len }));
        }
        if !offset.is_multiple_of(unit) || !len.is_multiple_of(unit as usize) {
            return Err(access(VolumeFault::Misaligned { unit }));
        }
        Ok(())
    }

    /// Reads from a LEB of a volume.
    ///
    /// # Errors
    /// The volume or range does not exist; an unfinished update; damaged data, which is in the buffer as read.
    pub fn read_leb(&mut self, id: u32, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), UbiError> {
        self.io.check_alive()?;
        let volume = self.volume_state(id)?;
        volume.check_marker()?;
        let end = volume.leb_end(lnum, self.io.leb_bytes());
        let len = buf.len();
        if end.is_none_or(|end| len as u64 + u64::from(offset) > u64::from(end)) {
            return Err(access(VolumeFault::OutOfRange { len }));
        }
        self.read_mapped(LebId { volume: id, lnum }, offset, buf)
    }

    /// Reads from a LEB without checking its volume.
    pub(super) fn read_mapped(&mut self, leb: LebId, offset: u32, buf: &mut [u8]) -> Result<(), UbiError> {
        self.confirm(leb)?;
        let Some(pnum) = self.mapping(leb) else {
            buf.fill(0xFF);
            return self.unmapped_is_fine(leb);
        };
        if buf.is_empty() {
            return Ok(());
        }
        let whole = self.check_static_once(leb);
        match self.io.read_data(pnum, offset, buf)? {
            Quality::Good => whole,
            Quality::Flips(_) => {
                self.scrub_peb(pnum);
                whole
            }
            Quality::Damaged => Err(UbiError::Damaged { id: leb.volume, lnum: leb.lnum }),
        }
    }

    /// Returns an error for an unmapped LEB of a static volume.
    fn unmapped_is_fine(&self, leb: LebId) -> Result<(), UbiError> {
        match self.volume_state(leb.volume)?.record.volume_type {
            VolumeType::Static => Err(UbiError::Damaged { id: leb.volume, lnum: leb.lnum }),
            _ => Ok(()),
        }
    }

    /// Writes to a LEB of a dynamic volume; offset and length are multiples of the minimum I/O size.
    ///
    /// # Errors
    /// The volume or range does not exist; the device is read-only; the volume is static; an unfinished update; no
    /// space; bytes in the range are not erased.
    pub fn write_leb(&mut self, id: u32, lnum: u32, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.check_write(id, lnum, offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        self.write_any(LebId { volume: id, lnum }, offset, data)
    }

    pub(super) fn write_any(&mut self, leb: LebId, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.confirm(leb)?;
        let result = match self.mapping(leb) {
            Some(pnum) => self.write_mapped(leb, pnum, offset, data),
            None => self.write_new(leb, self.dynamic_header(leb), offset, data),
        };
        self.fail_to_read_only(result)
    }

    /// Makes the device read-only if a write failed and could not be recovered (Linux: `ubi_ro_mode`).
    pub(super) fn fail_to_read_only(&mut self, result: Result<(), UbiError>) -> Result<(), UbiError> {
        match &result {
            Ok(()) | Err(UbiError::Access(_) | UbiError::NoFreePeb) => {}
            Err(_) => self.io.enter_ro_mode(),
        }
        result
    }

    /// VID header for a LEB of a dynamic volume; the sequence number is set when it is written.
    pub(super) fn dynamic_header(&self, leb: LebId) -> VidHeader {
        let data_pad = self.volumes.get(&leb.volume).map_or(0, |volume| volume.record.data_pad);
        let internal = leb.volume == LAYOUT_VOLUME;
        VidHeader {
            volume_type: VolumeType::Dynamic,
            compat: if internal { LAYOUT_VOLUME_COMPAT } else { Compat::None },
            volume_id: leb.volume,
            lnum: leb.lnum,
            data_pad,
            ..VidHeader::default()
        }
    }

    fn write_mapped(&mut self, leb: LebId, pnum: u32, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        match self.io.write_data(pnum, offset, data) {
            // The caller wrote this range before; the PEB is not faulty.
            Err(UbiError::Flash { error, .. }) if error.kind == ErrorKind::NotErased => {
                Err(access(VolumeFault::NotErased))
            }
            Err(error) if error.is_flash_failure() && self.io.bad_allowed => {
                self.recover(leb, pnum, offset, data)
            }
            other => other,
        }
    }

    /// Recovers from a failed write: copies the data written earlier and the data of that write to another PEB.
    fn recover(&mut self, leb: LebId, from: u32, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        let header = match self.io.read_vid(from)? {
            Header::Found(header, _) => header,
            _ => return Err(UbiError::Damaged { id: leb.volume, lnum: leb.lnum }),
        };
        let mut whole = vec![0xFF; offset as usize];
        if offset > 0 && self.io.read_data(from, 0, &mut whole)? == Quality::Damaged {
            return Err(UbiError::Damaged { id: leb.volume, lnum: leb.lnum });
        }
        whole.extend_from_slice(data);
        let header = copy_header(header, &whole);
        // The write queues the old PEB for erasure, and the PEB must also be tortured.
        self.write_replacing(leb, header, 0, &whole, true)
    }

    /// Maps a LEB to a new PEB with data; its old PEB is erased later.
    pub(super) fn write_new(
        &mut self,
        leb: LebId,
        header: VidHeader,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        self.write_replacing(leb, header, offset, data, false)
    }

    /// Writes to a new PEB and tries others if it fails; failed ones are tortured, and so is the old one if
    /// `torture_old`.
    fn write_replacing(
        &mut self,
        leb: LebId,
        mut header: VidHeader,
        offset: u32,
        data: &[u8],
        torture_old: bool,
    ) -> Result<(), UbiError> {
        let mut tries = 0;
        loop {
            let pnum = self.get_peb()?;
            header.sqnum = self.next_sqnum();
            let result = self.write_headed(pnum, &header, offset, data);
            match result {
                Ok(true) => {
                    self.replace_mapping(leb, pnum, torture_old);
                    return Ok(());
                }
                // The PEB is not faulty once it is erased.
                Ok(false) => {
                    self.put_peb(pnum, leb, false);
                    continue;
                }
                Err(UbiError::PowerLost) => return Err(UbiError::PowerLost),
                Err(error) => {
                    self.put_peb(pnum, leb, true);
                    if tries == RETRIES || !error.is_flash_failure() || !self.io.bad_allowed {
                        return Err(error);
                    }
                }
            }
            tries += 1;
        }
    }

    /// Writes header and data; `false` if the header does not read back: a power cut interrupted an earlier write to
    /// it.
    fn write_headed(
        &mut self,
        pnum: u32,
        header: &VidHeader,
        offset: u32,
        data: &[u8],
    ) -> Result<bool, UbiError> {
        self.io.write_vid(pnum, header)?;
        let unproven =
            std::mem::replace(&mut self.peb_mut(pnum).erasure, Erasure::Known) == Erasure::Unverified;
        if unproven && self.io.read_vid(pnum)? != Header::Found(*header, false) {
            return Ok(false);
        }
        if !data.is_empty() {
            self.io.write_data(pnum, offset, data)?;
        }
        Ok(true)
    }

    fn replace_mapping(&mut self, leb: LebId, pnum: u32, torture_old: bool) {
        let old = self.mapping(leb);
        self.set_mapping(leb, Some(pnum));
        self.peb_mut(pnum).leb = Some(leb);
        if let Some(old) = old {
            self.put_peb(old, leb, torture_old);
        }
    }

    /// Replaces the contents of a LEB of a dynamic volume atomically.
    ///
    /// An unmapped LEB is first mapped empty, so that a power cut leaves it empty or changed.
    ///
    /// # Errors
    /// The errors of [`write_leb`](Self::write_leb).
    pub fn change_leb(&mut self, id: u32, lnum: u32, data: &[u8]) -> Result<(), UbiError> {
        self.check_write(id, lnum, 0, data.len())?;
        let leb = LebId { volume: id, lnum };
        self.change_any(leb, data)
    }

    pub(super) fn change_any(&mut self, leb: LebId, data: &[u8]) -> Result<(), UbiError> {
        self.confirm(leb)?;
        let empty = self.dynamic_header(leb);
        let mut result = Ok(());
        if self.mapping(leb).is_none() || data.is_empty() {
            result = self.write_new(leb, empty, 0, &[]);
        }
        if result.is_ok() && !data.is_empty() {
            result = self.write_new(leb, copy_header(empty, data), 0, data);
        }
        self.fail_to_read_only(result)
    }

    /// Maps a LEB of a dynamic volume to an erased PEB.
    ///
    /// # Errors
    /// The errors of [`write_leb`](Self::write_leb), and a LEB that is already mapped.
    pub fn map_leb(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        self.writable(id, lnum)?;
        let leb = LebId { volume: id, lnum };
        self.confirm(leb)?;
        if self.mapping(leb).is_some() {
            return Err(access(VolumeFault::NotErased));
        }
        let result = self.write_new(leb, self.dynamic_header(leb), 0, &[]);
        self.fail_to_read_only(result)
    }

    /// Unmaps a LEB of a dynamic volume; its PEB is erased later.
    ///
    /// # Errors
    /// The LEB does not exist; the device is read-only; the volume is static; an unfinished update.
    pub fn unmap_leb(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        self.writable(id, lnum)?;
        self.unmap_any(LebId { volume: id, lnum });
        Ok(())
    }

    pub(super) fn unmap_any(&mut self, leb: LebId) {
        if let Some(pnum) = self.mapping(leb) {
            self.set_mapping(leb, None);
            self.put_peb(pnum, leb, false);
        }
    }

    /// Unmaps a LEB of a dynamic volume and erases all PEBs that held it.
    ///
    /// # Errors
    /// The errors of [`unmap_leb`](Self::unmap_leb), and flash failures.
    pub fn erase_leb(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        self.unmap_leb(id, lnum)?;
        self.flush_works(Some(id), Some(lnum))
    }

    /// True if a LEB is mapped.
    ///
    /// # Errors
    /// The volume or LEB does not exist; an unfinished update.
    pub fn is_mapped(&mut self, id: u32, lnum: u32) -> Result<bool, UbiError> {
        self.io.check_alive()?;
        let volume = self.volume_state(id)?;
        volume.check_marker()?;
        if lnum as usize >= volume.eba.len() {
            return Err(access(VolumeFault::OutOfRange { len: 0 }));
        }
        let leb = LebId { volume: id, lnum };
        self.confirm(leb)?;
        Ok(self.mapping(leb).is_some())
    }
}

/// VID header with the copy flag and a data CRC, which shows whether the copy is complete.
fn copy_header(header: VidHeader, data: &[u8]) -> VidHeader {
    VidHeader { copy_flag: 1, data_size: data.len() as u32, data_crc: crc::ubi(data), ..header }
}
