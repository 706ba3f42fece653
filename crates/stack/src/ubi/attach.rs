//! From what the headers say to a live device (Linux: the second half of `attach.c`, `vtbl.c`, `build.c`).

use super::io::Io;
use super::pebs::{Entry, LebId, PebSet, PebState};
use super::scan::{Found, Scan};
use super::table::VolumeState;
use super::wear::Work;
use super::{AttachError, AttachFault, AttachKind, AttachOptions, Counts, ReadOnlyReason, Ubi, UbiError};
use floatgate_media::ubi::{
    LAYOUT_VOLUME, LAYOUT_VOLUME_LEBS, VolumeFlags, VolumeRecord, VolumeTable, VolumeType,
};
use floatgate_mtd::Mtd;

/// PEBs set aside for wear levelling and for atomic changes (Linux: `WL_RESERVED_PEBS`, `EBA_RESERVED_PEBS`).
const RESERVED: u32 = 2;

impl<M: Mtd> Ubi<M> {
    /// Attaches a device. Flash that is empty becomes a device without volumes.
    ///
    /// # Errors
    /// What keeps the device from being attached, with the flash.
    #[allow(clippy::result_large_err)] // the flash itself is handed back
    pub fn attach(mtd: M, options: &AttachOptions) -> Result<Self, AttachError<M>> {
        let failed = |fault, io: Io<M>| AttachError { fault, now: io.now, mtd: io.mtd };
        let mut io = match Io::new(mtd, options.now, options.vid_header_offset) {
            Ok(io) => io,
            Err((error, mtd)) => {
                return Err(AttachError { fault: error.into(), mtd, now: options.now });
            }
        };
        if options.read_only {
            io.read_only = Some(ReadOnlyReason::Asked);
        }
        let mut scan = match scan_all(&mut io) {
            Ok(scan) => scan,
            Err(fault) => return Err(failed(fault, io)),
        };
        let mut ubi = Self::empty(io, options);
        match ubi.load(&mut scan, options) {
            Ok(()) => Ok(ubi),
            Err(fault) => Err(failed(fault, ubi.io)),
        }
    }

    /// A device of which nothing is known yet.
    fn empty(io: Io<M>, options: &AttachOptions) -> Self {
        Self {
            io,
            pebs: Vec::new(),
            free: PebSet::default(),
            used: PebSet::default(),
            scrub: PebSet::default(),
            protected: Default::default(),
            erasures: 0,
            works: Default::default(),
            move_scheduled: false,
            volumes: Default::default(),
            counts: Counts::default(),
            sqnum: 0,
            erase_count_max: 0,
            wear_threshold: options.wear_threshold.max(1),
            attach_kind: AttachKind::Scan,
        }
    }

    fn load(&mut self, scan: &mut Scan, options: &AttachOptions) -> Result<(), AttachFault> {
        self.counts.bad = scan.bad;
        self.counts.corrupted = scan.corrupted;
        self.counts.alien = scan.alien;
        self.sqnum = scan.max_sqnum.saturating_add(1);
        let copies = self.read_table(scan)?;
        let records = self.parse_table(scan, &copies, options)?;
        self.add_volumes(scan, &records)?;
        self.reserve_pebs(options)?;
        self.take_pebs(scan);
        if self.io.check_writable().is_ok() {
            self.make_good(scan, copies)?;
        }
        Ok(())
    }

    /// Reads both copies of the volume table, empty where there is none.
    fn read_table(&mut self, scan: &mut Scan) -> Result<[Option<Vec<u8>>; 2], AttachFault> {
        let mut copies = [None, None];
        for found in scan.found.iter_mut().filter(|found| found.header.volume_id == LAYOUT_VOLUME) {
            let (pnum, lnum) = (found.pnum, found.header.lnum);
            let place = copies.get_mut(lnum as usize);
            let place = place.ok_or(inconsistent(found, "number of LEBs"))?;
            let mut bytes = vec![0; self.io.geometry.volume_table_bytes()];
            let quality = self.io.read_data(pnum, 0, &mut bytes)?;
            found.scrub |= !quality.is_good();
            *place = Some(bytes);
        }
        Ok(copies)
    }

    /// The volumes, from the copy that counts.
    fn parse_table(
        &mut self,
        scan: &Scan,
        copies: &[Option<Vec<u8>>; 2],
        options: &AttachOptions,
    ) -> Result<Vec<(u32, VolumeRecord)>, AttachFault> {
        let [first, second] = copies.each_ref().map(Option::as_deref);
        let parsed = VolumeTable::parse_copies([first, second], &self.io.geometry, self.good_pebs());
        let error = match parsed {
            Ok((table, _)) => return Ok(table.volumes().collect()),
            Err(error) => error,
        };
        if !is_empty(scan, second.is_some()) {
            return Err(refusal(scan, first.or(second).map(|_| error)));
        }
        if options.read_only {
            return Err(AttachFault::Empty);
        }
        if scan.mean_erase_count() == 0 && self.io.image_seq == 0 {
            self.io.image_seq = options.new_image_seq;
        }
        Ok(Vec::new())
    }

    /// Builds the volumes and their maps.
    fn add_volumes(&mut self, scan: &mut Scan, records: &[(u32, VolumeRecord)]) -> Result<(), AttachFault> {
        let reserved: u64 = records.iter().map(|(_, record)| u64::from(record.reserved_pebs)).sum();
        if reserved > u64::from(self.good_pebs()) {
            return Err(UbiError::NoSpace { need: reserved, available: self.good_pebs() }.into());
        }
        self.volumes = records.iter().map(|&(id, record)| (id, VolumeState::new(id, record))).collect();
        self.volumes.insert(LAYOUT_VOLUME, VolumeState::layout());
        scan.drop_unless(|id| self.volumes.contains_key(&id));
        for lebs in scan.found.chunk_by(|a, b| a.header.volume_id == b.header.volume_id) {
            self.map_volume(lebs)?;
        }
        Ok(())
    }

    /// Maps the LEBs of a volume, which come in order.
    fn map_volume(&mut self, lebs: &[Found]) -> Result<(), AttachFault> {
        let (Some(first), Some(last)) = (lebs.first(), lebs.last()) else { return Ok(()) };
        let leb_bytes = self.io.leb_bytes();
        let Some(volume) = self.volumes.get_mut(&first.header.volume_id) else { return Ok(()) };
        for found in lebs {
            check_found(found, first, &volume.record)?;
            volume.eba[found.header.lnum as usize] = found.pnum;
        }
        if volume.is_static() {
            volume.used_lebs = first.header.used_lebs;
            volume.corrupted = lebs.len() as u64 != u64::from(volume.used_lebs);
            let complete = last.header.lnum + 1 == volume.used_lebs;
            volume.last_bytes =
                if complete { last.header.data_size } else { leb_bytes - volume.record.data_pad };
        }
        Ok(())
    }

    /// Sets PEBs aside for volumes, for moves and changes, and for bad ones to come.
    fn reserve_pebs(&mut self, options: &AttachOptions) -> Result<(), AttachFault> {
        let usable = self.good_pebs().saturating_sub(self.counts.corrupted + self.counts.alien);
        let volumes: u64 = self.volumes.values().map(|volume| u64::from(volume.record.reserved_pebs)).sum();
        let need = volumes + u64::from(RESERVED);
        let left = u64::from(usable).checked_sub(need);
        if left.is_none() && self.io.read_only.is_none() {
            return Err(UbiError::NoSpace { need, available: usable }.into());
        }
        let left = left.unwrap_or(0) as u32;
        if self.io.bad_allowed {
            self.counts.bad_limit = bad_limit(self.io.pebs, options.max_bad_per_1024);
        }
        self.counts.reserve = self.counts.bad_limit.saturating_sub(self.counts.bad).min(left);
        self.counts.available = left - self.counts.reserve;
        Ok(())
    }

    /// Sorts the PEBs by what they are.
    fn take_pebs(&mut self, scan: &mut Scan) {
        self.pebs = std::mem::take(&mut scan.pebs);
        for found in scan.found.iter().filter(|found| found.scrub) {
            self.pebs[found.pnum as usize].state = PebState::Scrub;
        }
        let pebs = &self.pebs;
        let of = |state: PebState| {
            let all = (0u32..).zip(pebs).filter(move |(_, peb)| peb.state == state);
            PebSet::from_unsorted(all.map(|(pnum, peb)| Entry { pnum, erase_count: peb.erase_count }))
        };
        (self.free, self.used, self.scrub) = (of(PebState::Free), of(PebState::Used), of(PebState::Scrub));
        self.erase_count_max = self.pebs.iter().map(|peb| peb.erase_count).max().unwrap_or(0);
        self.works = scan.erase.iter().map(|&pnum| Work::Erase { pnum, torture: false }).collect();
    }

    /// Whatever has to be written before the device can be used.
    fn make_good(&mut self, scan: &Scan, copies: [Option<Vec<u8>>; 2]) -> Result<(), AttachFault> {
        // A fastmap that is not kept up to date must never be found again.
        for found in &scan.fastmap {
            self.set_state(found.pnum, PebState::Pending);
            self.erase_pending(found.pnum, false)?;
        }
        let bytes = self.table_bytes(self.records())?;
        let table = &bytes[..self.io.geometry.volume_table_bytes()];
        for (lnum, copy) in (0..LAYOUT_VOLUME_LEBS).zip(copies) {
            if copy.is_none_or(|copy| copy != table) {
                self.write_table_copy(lnum, &bytes)?;
            }
        }
        self.autoresize()?;
        self.schedule_wear_levelling();
        Ok(())
    }

    /// Gives a volume that asks for it all the space left, once.
    fn autoresize(&mut self) -> Result<(), AttachFault> {
        let wants = |record: &VolumeRecord| record.flags.contains(VolumeFlags::AUTORESIZE);
        let mut asking = self.records().filter(|(_, record)| wants(record));
        let Some((id, mut record)) = asking.next() else { return Ok(()) };
        if let Some((second, _)) = asking.next() {
            return Err(AttachFault::TwoAutoresize { first: id, second });
        }
        drop(asking);
        let more = self.counts.available;
        record.flags = VolumeFlags::from_bits(record.flags.bits() & !VolumeFlags::AUTORESIZE.bits());
        record.reserved_pebs += more;
        self.grow_volume(id, record, more)?;
        Ok(())
    }
}

fn scan_all<M: Mtd>(io: &mut Io<M>) -> Result<Scan, AttachFault> {
    let mut scan = Scan::new(io.pebs);
    scan.read(io, 0..io.pebs)?;
    scan.settle(io)?;
    Ok(scan)
}

/// Whether nothing is lost if the flash becomes a device without volumes: it is erased, or a first attach was cut off
/// before it had written the second copy of the volume table.
fn is_empty(scan: &Scan, second_copy: bool) -> bool {
    let users = scan.found.iter().any(|found| found.header.volume_id != LAYOUT_VOLUME);
    !users && !second_copy && scan.corrupted + scan.alien + scan.strange == 0 && scan.maybe_bad <= 2
}

/// Why flash without a good volume table is refused.
fn refusal(scan: &Scan, error: Option<floatgate_media::MediaError>) -> AttachFault {
    let unreadable = scan.strange + scan.maybe_bad;
    match error {
        Some(error) => AttachFault::VolumeTable(error),
        None if unreadable > 0 && scan.found.is_empty() => AttachFault::NotUbi { unreadable },
        None => AttachFault::NoVolumeTable,
    }
}

fn inconsistent(found: &Found, field: &'static str) -> AttachFault {
    let LebId { volume: id, .. } = found.leb();
    AttachFault::Inconsistent { pnum: found.pnum, id, field }
}

/// Checks a VID header against the first of its volume and against the volume table.
fn check_found(found: &Found, first: &Found, record: &VolumeRecord) -> Result<(), AttachFault> {
    let (header, same) = (&found.header, &first.header);
    let fixed = record.volume_type == VolumeType::Static;
    let checks = [
        (header.volume_type == record.volume_type, "type"),
        (header.data_pad == record.data_pad, "data padding"),
        (header.lnum < record.reserved_pebs, "number of LEBs"),
        (!fixed || header.used_lebs == same.used_lebs, "number of used LEBs"),
        (header.used_lebs <= record.reserved_pebs, "number of used LEBs"),
    ];
    checks.iter().find(|check| !check.0).map_or(Ok(()), |check| Err(inconsistent(found, check.1)))
}

/// Bad PEBs expected among `pebs`, rounded up.
fn bad_limit(pebs: u32, per_1024: u32) -> u32 {
    (u64::from(pebs) * u64::from(per_1024)).div_ceil(1024).min(u64::from(pebs)) as u32
}
