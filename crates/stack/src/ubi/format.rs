//! Formatting flash as a UBI device, like `ubiformat`.

use super::io::{DynIo, Header, Io};
use super::wear::erase_and_count;
use super::{FormatOptions, Ubi, UbiError};
use floatgate_media::ubi::{
    EcHeader, Geometry, LAYOUT_VOLUME, LAYOUT_VOLUME_COMPAT, LAYOUT_VOLUME_LEBS, VidHeader, VolumeTable,
    VolumeType,
};
use floatgate_mtd::{Instant, Mtd};

impl<M: Mtd + 'static> Ubi<M> {
    /// Erases all good PEBs and writes EC headers, continuing the existing erase counters, and an empty volume table.
    /// PEBs without an erase counter get the mean of the others; PEBs that cannot be erased are marked bad.
    ///
    /// Returns the flash and the time at the end.
    ///
    /// # Errors
    /// UBI cannot use the flash, or it fails in a way that other PEBs cannot replace. The flash is returned in both
    /// cases.
    pub fn format(mtd: M, options: &FormatOptions) -> Result<(M, Instant), (UbiError, M)> {
        let mut io = Io::new(mtd, options.now, options.vid_header_offset)?;
        io.image_seq = options.image_seq;
        match format(&mut io, options.erase_count) {
            Ok(()) => Ok((io.mtd, io.now)),
            Err(error) => Err((error, io.mtd)),
        }
    }

    /// First intact EC header, which contains the VID header offset and the image sequence number. `None` if no header
    /// is intact.
    ///
    /// # Errors
    /// Power lost.
    pub fn probe(mtd: &mut M, now: Instant) -> Result<Option<EcHeader>, floatgate_mtd::Error> {
        let (peb_bytes, pebs) = (u64::from(mtd.geometry().erase_bytes), u64::from(mtd.geometry().blocks()));
        let mut now = now;
        for pnum in 0..pebs {
            let mut bytes = [0; EcHeader::SIZE];
            match mtd.read(now, pnum * peb_bytes, &mut bytes) {
                Ok(done) => now = done.at,
                Err(error) if error.kind == floatgate_mtd::ErrorKind::PowerLost => return Err(error),
                Err(error) => now = error.at,
            }
            if let Ok(header) = EcHeader::parse(&bytes, Default::default()) {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }
}

fn format(io: &mut DynIo<'_>, start: Option<u32>) -> Result<(), UbiError> {
    io.check_writable()?;
    let counters = read_counters(io)?;
    let known: Vec<u64> = counters.iter().flatten().flatten().map(|&count| u64::from(count)).collect();
    let mean = known.iter().sum::<u64>().checked_div(known.len() as u64).unwrap_or(0) as u32;
    let mut table = (0..LAYOUT_VOLUME_LEBS).collect::<Vec<_>>();
    table.reverse();
    for (pnum, counter) in (0u32..).zip(&counters) {
        let Some(counter) = counter else { continue };
        if !erase_peb(io, pnum, start, counter.unwrap_or(mean))? {
            continue;
        }
        if let Some(&lnum) = table.last()
            && write_table(io, pnum, lnum)?
        {
            table.pop();
        }
    }
    if table.is_empty() { Ok(()) } else { Err(UbiError::NoFreePeb) }
}

/// Erase counters by PEB: `None` for a bad PEB, `Some(None)` for a missing header.
fn read_counters(io: &mut DynIo<'_>) -> Result<Vec<Option<Option<u32>>>, UbiError> {
    let mut counters = Vec::with_capacity(io.pebs as usize);
    for pnum in 0..io.pebs {
        if io.is_bad(pnum)? {
            counters.push(None);
            continue;
        }
        let counter = match io.read_ec(pnum) {
            Ok(Header::Found(header, _)) => Some(header.erase_count as u32),
            Err(UbiError::PowerLost) => return Err(UbiError::PowerLost),
            // An intact header of another geometry is skipped, too.
            _ => None,
        };
        counters.push(Some(counter));
    }
    Ok(counters)
}

/// Erases a PEB and writes its EC header; `false` if it failed and was marked bad.
fn erase_peb(io: &mut DynIo<'_>, pnum: u32, start: Option<u32>, count: u32) -> Result<bool, UbiError> {
    let erased = match start {
        Some(count) => io.erase(pnum, &mut false).and_then(|_| io.write_ec(pnum, count)),
        None => erase_and_count(io, pnum, count, &mut false).map(drop),
    };
    mark_bad_if_failed(io, pnum, erased)
}

/// Marks a block bad after a failure.
fn mark_bad_if_failed(io: &mut DynIo<'_>, pnum: u32, result: Result<(), UbiError>) -> Result<bool, UbiError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_flash_failure() && io.bad_allowed => io.mark_bad(pnum).map(|()| false),
        Err(error) => Err(error),
    }
}

/// Writes a copy of an empty volume table.
fn write_table(io: &mut DynIo<'_>, pnum: u32, lnum: u32) -> Result<bool, UbiError> {
    let header = VidHeader {
        volume_type: VolumeType::Dynamic,
        compat: LAYOUT_VOLUME_COMPAT,
        volume_id: LAYOUT_VOLUME,
        lnum,
        sqnum: u64::from(lnum),
        ..VidHeader::default()
    };
    let table = empty_table(&io.geometry)?;
    let written = io.write_vid(pnum, &header).and_then(|()| io.write_data(pnum, 0, &table));
    mark_bad_if_failed(io, pnum, written)
}

fn empty_table(geometry: &Geometry) -> Result<Vec<u8>, UbiError> {
    let unit = geometry.flash().min_io_bytes as usize;
    let mut table = vec![0; geometry.volume_table_bytes().next_multiple_of(unit)];
    VolumeTable::emit([], geometry, &mut table).map_err(UbiError::BadVolume)?;
    Ok(table)
}
