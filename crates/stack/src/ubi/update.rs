//! Whole volumes: rewriting them, and reading them by byte (Linux: `upd.c`, `ubi_check_volume`).

use super::io::{Header, Quality, data_len};
use super::pebs::LebId;
use super::{Ubi, UbiError};
use floatgate_media::crc;
use floatgate_media::ubi::{Compat, VidHeader, VolumeFlags, VolumeRecord, VolumeType};
use floatgate_mtd::Mtd;

/// A volume that is being rewritten: its old data is gone, and it cannot be read until [`finish`](Self::finish).
#[derive(Debug)]
pub struct VolumeUpdate<'u> {
    ubi: &'u mut Ubi<dyn Mtd>,
    id: u32,
    len: u64,
    received: u64,
    /// Usable bytes of a LEB.
    usable: usize,
    /// Buffer of the current LEB.
    leb: Vec<u8>,
}

impl Ubi<dyn Mtd> {
    /// Starts to rewrite a volume with `len` bytes: sets its update marker and erases its LEBs.
    ///
    /// # Errors
    /// The volume does not exist or is too small; the device is read-only; flash failures.
    pub fn update_volume(&mut self, id: u32, len: u64) -> Result<VolumeUpdate<'_>, UbiError> {
        let record = self.user_volume(id)?.record;
        let usable = self.io.leb_bytes() - record.data_pad;
        let need = len.div_ceil(u64::from(usable));
        if need > u64::from(record.reserved_pebs) {
            return Err(UbiError::NoSpace { need, available: record.reserved_pebs });
        }
        self.set_marker(id, record, 1)?;
        self.unmap_from(id, 0);
        self.flush_works(None, None)?;
        if let Some(volume) = self.volumes.get_mut(&id) {
            (volume.used_lebs, volume.last_bytes, volume.corrupted) = (0, 0, false);
            (volume.checked, volume.unconfirmed) = (Vec::new(), Vec::new());
        }
        let usable = usable as usize;
        Ok(VolumeUpdate { ubi: self, id, len, received: 0, usable, leb: Vec::new() })
    }

    fn set_marker(&mut self, id: u32, record: VolumeRecord, marker: u8) -> Result<(), UbiError> {
        if record.update_marker == marker {
            return Ok(());
        }
        let record = VolumeRecord { update_marker: marker, ..record };
        self.write_table(&[(id, Some(record))])?;
        self.set_record(id, record);
        Ok(())
    }

    /// Reads the bytes of a volume from `offset` and returns their number.
    ///
    /// # Errors
    /// The volume does not exist; an unfinished update; damaged data. Damaged data is in the buffer as read, up to the
    /// end of the LEB that the error names.
    pub fn read_volume(&mut self, id: u32, offset: u64, buf: &mut [u8]) -> Result<usize, UbiError> {
        self.io.check_alive()?;
        let volume = self.volume_state(id)?;
        volume.check_marker()?;
        let usable = u64::from(volume.usable(self.io.leb_bytes()));
        let left = volume.used_bytes(self.io.leb_bytes()).saturating_sub(offset);
        let len = left.min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (lnum, start) = ((at / usable) as u32, (at % usable) as u32);
            let part = (usable as usize - start as usize).min(len - done);
            self.read_leb(id, lnum, start, &mut buf[done..done + part])?;
            done += part;
        }
        Ok(len)
    }

    /// Reads a whole static volume and checks its CRCs. Returns `false` if a LEB is damaged or missing. Dynamic
    /// volumes have no CRCs.
    ///
    /// # Errors
    /// The volume does not exist, an unfinished update, flash failures.
    pub fn check_volume(&mut self, id: u32) -> Result<bool, UbiError> {
        let volume = self.volume_state(id)?;
        volume.check_marker()?;
        if !volume.is_static() {
            return Ok(true);
        }
        for lnum in 0..volume.used_lebs {
            match self.check_static(LebId { volume: id, lnum }) {
                Ok(()) => {}
                Err(UbiError::Damaged { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Checks the CRC of a LEB of a static volume on first read, unless the volume has the skip-check flag.
    pub(super) fn check_static_once(&mut self, leb: LebId) -> Result<(), UbiError> {
        let volume = self.volume_state(leb.volume)?;
        let skip = volume.record.flags.contains(VolumeFlags::SKIP_CRC_CHECK);
        let checked = volume.checked.get(leb.lnum as usize).copied().unwrap_or(false);
        if !volume.is_static() || skip || checked {
            return Ok(());
        }
        self.check_static(leb)
    }

    fn check_static(&mut self, leb: LebId) -> Result<(), UbiError> {
        let result = self.check_data(leb);
        let Some(volume) = self.volumes.get_mut(&leb.volume) else { return result };
        match &result {
            Ok(()) => {
                volume.checked.resize(volume.eba.len(), false);
                volume.checked[leb.lnum as usize] = true;
            }
            Err(UbiError::Damaged { .. }) => volume.corrupted = true,
            Err(_) => {}
        }
        result
    }

    fn check_data(&mut self, leb: LebId) -> Result<(), UbiError> {
        let damaged = || UbiError::Damaged { id: leb.volume, lnum: leb.lnum };
        let pnum = self.mapping(leb).ok_or_else(damaged)?;
        let Header::Found(header, flips) = self.io.read_vid(pnum)? else { return Err(damaged()) };
        let mut data = self.io.take_scratch();
        data.resize(header.data_size as usize, 0);
        let quality = self.io.read_data(pnum, 0, &mut data);
        let good = crc::ubi(&data) == header.data_crc;
        self.io.put_scratch(data);
        let quality = quality?;
        if !good {
            return Err(damaged());
        }
        if flips || quality != Quality::Good {
            self.scrub_peb(pnum);
        }
        Ok(())
    }

    /// Writes a LEB of a static volume. The last one may have any length and is padded with zeros to the minimum I/O
    /// size.
    fn write_static(
        &mut self,
        id: u32,
        lnum: u32,
        data: &mut Vec<u8>,
        used_lebs: u32,
    ) -> Result<(), UbiError> {
        let record = self.volume_state(id)?.record;
        let header = VidHeader {
            volume_type: VolumeType::Static,
            compat: Compat::None,
            volume_id: id,
            lnum,
            data_size: data.len() as u32,
            used_lebs,
            data_pad: record.data_pad,
            data_crc: crc::ubi(data),
            ..VidHeader::default()
        };
        data.resize(data.len().next_multiple_of(self.io.min_io() as usize), 0);
        let result = self.write_new(LebId { volume: id, lnum }, header, 0, data);
        self.fail_to_read_only(result)
    }

    /// Writes a LEB of a dynamic volume, without trailing erased bytes.
    fn write_dynamic(&mut self, id: u32, lnum: u32, data: &mut Vec<u8>) -> Result<(), UbiError> {
        let unit = self.io.min_io();
        data.resize(data.len().next_multiple_of(unit as usize), 0xFF);
        data.truncate(data_len(data, unit));
        if data.is_empty() {
            return Ok(());
        }
        self.write_any(LebId { volume: id, lnum }, 0, data)
    }
}

impl VolumeUpdate<'_> {
    /// Appends data.
    ///
    /// # Errors
    /// More bytes than announced, flash failures.
    pub fn write(&mut self, mut data: &[u8]) -> Result<(), UbiError> {
        let written = self.received + data.len() as u64;
        if written > self.len {
            return Err(UbiError::UpdateLength { announced: self.len, written });
        }
        while !data.is_empty() {
            let (part, rest) = data.split_at(data.len().min(self.usable - self.leb.len()));
            self.leb.extend_from_slice(part);
            self.received += part.len() as u64;
            if self.leb.len() == self.usable || self.received == self.len {
                self.write_leb()?;
            }
            data = rest;
        }
        Ok(())
    }

    /// Writes a full or final LEB.
    fn write_leb(&mut self) -> Result<(), UbiError> {
        let lnum = ((self.received - 1) / self.usable as u64) as u32;
        let used_lebs = self.len.div_ceil(self.usable as u64) as u32;
        if self.ubi.volume_state(self.id)?.is_static() {
            self.ubi.write_static(self.id, lnum, &mut self.leb, used_lebs)?;
        } else {
            self.ubi.write_dynamic(self.id, lnum, &mut self.leb)?;
        }
        self.leb.clear();
        Ok(())
    }

    /// Ends the update after all bytes were written, and clears the update marker.
    ///
    /// # Errors
    /// Fewer bytes than announced: the marker stays. Flash failures.
    pub fn finish(self) -> Result<(), UbiError> {
        let Self { ubi, id, len, received, usable, .. } = self;
        if received != len {
            return Err(UbiError::UpdateLength { announced: len, written: received });
        }
        ubi.flush_works(None, None)?;
        let record = ubi.volume_state(id)?.record;
        ubi.set_marker(id, record, 0)?;
        if let Some(volume) = ubi.volumes.get_mut(&id).filter(|volume| volume.is_static()) {
            volume.used_lebs = len.div_ceil(usable as u64) as u32;
            volume.last_bytes = (len - len.saturating_sub(1) / usable as u64 * usable as u64) as u32;
        }
        ubi.volumes_changed()
    }
}
