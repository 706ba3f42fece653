//! Attaching: from the headers to a live device (Linux: the second half of `attach.c`, `vtbl.c`, `build.c`).

use super::fastmap::{self, Layout};
use super::fastmap_write::FastmapState;
use super::io::Io;
use super::pebs::{Entry, Erasure, LebId, PebSet, PebState};
use super::reserve::{RESERVED, bad_limit};
use super::scan::{ClaimedPeb, Scan};
use super::table::VolumeState;
use super::wear::Work;
use super::{
    AttachError, AttachFault, AttachKind, AttachOptions, Counts, FastmapUse, ReadOnlyReason, Ubi, UbiError,
};
use floatgate_media::ubi::{
    FASTMAP_ANCHOR_PEBS, FASTMAP_SUPERBLOCK_VOLUME, LAYOUT_VOLUME, LAYOUT_VOLUME_LEBS, VidHeader,
    VolumeFlags, VolumeRecord, VolumeTable, VolumeType,
};
use floatgate_mtd::Mtd;

/// The two copies of the volume table, if present.
pub(super) type TableCopies = [Option<Vec<u8>>; 2];

impl<M: Mtd + 'static> Ubi<M> {
    /// Attaches a device. Empty flash becomes a device without volumes.
    ///
    /// # Errors
    /// The reason why the device cannot be attached, with the flash.
    #[allow(clippy::result_large_err)] // the flash itself is handed back
    pub fn attach(mtd: M, options: &AttachOptions) -> Result<Self, AttachError<M>> {
        let mut io = match Io::new(mtd, options.now, options.vid_header_offset) {
            Ok(io) => io,
            Err((error, mtd)) => return Err(AttachError { fault: error.into(), mtd, now: options.now }),
        };
        if options.read_only {
            io.read_only = Some(ReadOnlyReason::Requested);
        }
        let mut ubi = Self::empty(io, options);
        match ubi.find_all(options) {
            Ok(()) => Ok(ubi),
            Err(fault) => Err(AttachError { fault, now: ubi.io.now, mtd: ubi.io.mtd }),
        }
    }

    /// A device whose PEBs and volumes are not known yet.
    fn empty(io: Io<M>, options: &AttachOptions) -> Self {
        Self {
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
            fastmap: None,
            damage: Vec::new(),
            io,
        }
    }
}

impl Ubi<dyn Mtd> {
    /// Finds all PEBs and volumes, by a good fastmap if one exists and may be used, otherwise by reading all headers.
    fn find_all(&mut self, options: &AttachOptions) -> Result<(), AttachFault> {
        if options.forgiving && options.read_only {
            return self.attach_remains(options);
        }
        let mut scan = Scan::new(self.io.pebs);
        let mut read = 0;
        if options.fastmap != FastmapUse::Never && self.io.pebs > FASTMAP_ANCHOR_PEBS {
            read = FASTMAP_ANCHOR_PEBS;
            scan.read(&mut self.io, 0..read)?;
            if !scan.doubtful && self.load_fastmap(&scan, options)? {
                return Ok(());
            }
        }
        let pebs = self.io.pebs;
        scan.read(&mut self.io, read..pebs)?;
        // Even an unusable fastmap may list the PEBs in which a write may have begun.
        let begun = match fastmap::read(&mut self.io, &scan)? {
            Some((_, layout)) if options.after_power_cut => layout.pool,
            _ => Vec::new(),
        };
        scan.resolve_lebs(&mut self.io)?;
        let copies = self.load(&mut scan, options)?;
        self.keep_fastmap(options, None);
        let stale = std::mem::take(&mut scan.fastmap);
        self.finish_attach(&mut scan, (&stale, &begun), copies, options)
    }

    /// Attaches by a fastmap; `false` if no fastmap agrees with the rest of the flash.
    fn load_fastmap(&mut self, first: &Scan, options: &AttachOptions) -> Result<bool, AttachFault> {
        let Some((mut scan, layout)) = fastmap::read(&mut self.io, first)? else { return Ok(false) };
        let loaded = scan.resolve_lebs(&mut self.io).and_then(|()| self.load(&mut scan, options));
        let copies = match loaded {
            Ok(copies) => copies,
            Err(fault @ AttachFault::Ubi(UbiError::PowerLost)) => return Err(fault),
            Err(_) => return Ok(false),
        };
        self.attach_kind = AttachKind::Fastmap;
        for volume in self.volumes.values_mut() {
            volume.unconfirmed = vec![true; volume.eba.len()];
        }
        let own = |found: &ClaimedPeb| layout.pebs.contains(&found.pnum);
        let mut stale: Vec<ClaimedPeb> = first.fastmap.iter().filter(|found| !own(found)).copied().collect();
        let keep = options.fastmap == FastmapUse::Write;
        let mut begun = layout.pool.clone();
        if keep {
            let pool = begun.drain(..).filter(|_| options.after_power_cut);
            pool.for_each(|pnum| self.pebs[pnum as usize].erasure = Erasure::WriteMayHaveBegun);
        } else {
            stale.append(&mut scan.fastmap);
        }
        self.keep_fastmap(options, Some(layout).filter(|_| keep));
        self.finish_attach(&mut scan, (&stale, &begun), copies, options)?;
        Ok(true)
    }

    /// Maintains a fastmap from now on, if requested and possible.
    fn keep_fastmap(&mut self, options: &AttachOptions, layout: Option<Layout>) {
        let asked = options.fastmap == FastmapUse::Write && self.io.read_only.is_none();
        if asked && self.fastmap_parts().is_some() {
            self.fastmap = Some(FastmapState::new(self.io.pebs, layout));
        }
    }

    /// Builds the state from the scan, without writing; returns the copies of the volume table unchanged.
    fn load(&mut self, scan: &mut Scan, options: &AttachOptions) -> Result<TableCopies, AttachFault> {
        self.counts = Counts::from_scan(scan);
        let copies = self.read_table(scan)?;
        let records = self.parse_table(scan, &copies, options)?;
        self.take_over(scan, &records, options)?;
        Ok(copies)
    }

    /// Builds the state from these volumes and the scan.
    pub(super) fn take_over(
        &mut self,
        scan: &mut Scan,
        records: &[(u32, VolumeRecord)],
        options: &AttachOptions,
    ) -> Result<(), AttachFault> {
        self.sqnum = scan.max_sqnum.saturating_add(1);
        self.add_volumes(scan, records)?;
        self.reserve_pebs(options)?;
        self.take_pebs(scan);
        Ok(())
    }

    /// Reads both copies of the volume table; a missing one is empty.
    fn read_table(&mut self, scan: &mut Scan) -> Result<TableCopies, AttachFault> {
        let mut copies = [None, None];
        for found in scan.found.iter_mut().filter(|found| found.header.volume_id == LAYOUT_VOLUME) {
            let (pnum, lnum) = (found.pnum, found.header.lnum);
            let Some(place) = copies.get_mut(lnum as usize) else {
                return Err(inconsistent(found, "number of LEBs"));
            };
            let mut bytes = vec![0; self.table_bytes_padded()];
            let quality = self.io.read_data(pnum, 0, &mut bytes)?;
            found.scrub |= !quality.is_good();
            *place = Some(bytes);
        }
        Ok(copies)
    }

    /// Volumes according to the valid copy.
    fn parse_table(
        &mut self,
        scan: &Scan,
        copies: &TableCopies,
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
        if reserved > u64::from(self.good_pebs()) && !scan.forgiving {
            return Err(UbiError::NoSpace { need: reserved, available: self.good_pebs() }.into());
        }
        let volume = |id, record| VolumeState { forgiving: scan.forgiving, ..VolumeState::new(id, record) };
        self.volumes = records.iter().map(|&(id, record)| (id, volume(id, record))).collect();
        self.volumes.insert(LAYOUT_VOLUME, VolumeState::layout());
        scan.drop_unless(|id| self.volumes.contains_key(&id));
        let found = std::mem::take(&mut scan.found);
        for lebs in found.chunk_by(|a, b| a.header.volume_id == b.header.volume_id) {
            self.map_volume(scan, lebs)?;
        }
        scan.found = found;
        Ok(())
    }

    /// Maps the LEBs of a volume, given in order.
    fn map_volume(&mut self, scan: &mut Scan, lebs: &[ClaimedPeb]) -> Result<(), AttachFault> {
        let (Some(first), Some(last)) = (lebs.first(), lebs.last()) else { return Ok(()) };
        let leb_bytes = self.io.leb_bytes();
        let Some(volume) = self.volumes.get_mut(&first.header.volume_id) else { return Ok(()) };
        for found in lebs {
            match check_found(found, first, &volume.record) {
                Ok(()) => volume.eba[found.header.lnum as usize] = found.pnum,
                Err(fault) => scan.refuse(fault)?,
            }
        }
        if volume.is_static() {
            volume.used_lebs = first.header.used_lebs.min(volume.record.reserved_pebs);
            volume.corrupted = lebs.len() as u64 != u64::from(volume.used_lebs);
            let complete = last.header.lnum + 1 == volume.used_lebs;
            volume.last_bytes =
                if complete { last.header.data_size } else { leb_bytes - volume.record.data_pad };
        }
        Ok(())
    }

    /// Reserves PEBs for volumes, for wear levelling and atomic changes, and for future bad blocks.
    fn reserve_pebs(&mut self, options: &AttachOptions) -> Result<(), AttachFault> {
        let usable = self.good_pebs().saturating_sub(self.counts.corrupted + self.counts.alien);
        let volumes: u64 = self.volumes.values().map(|volume| u64::from(volume.record.reserved_pebs)).sum();
        let fastmap = if options.fastmap == FastmapUse::Write { self.fastmap_parts() } else { None };
        // Space for two fastmaps: the next fastmap is written before the last one is erased.
        let need = volumes + u64::from(RESERVED + 2 * fastmap.unwrap_or(0));
        let left = u64::from(usable).checked_sub(need);
        if left.is_none() && self.io.read_only.is_none() {
            return Err(UbiError::NoSpace { need, available: usable }.into());
        }
        let left = left.unwrap_or(0) as u32;
        if self.io.bad_allowed {
            let pebs = if options.bad_limit_of_partition { self.io.pebs } else { self.io.chip_pebs() };
            self.counts.bad_limit = bad_limit(pebs, options.max_bad_per_1024);
        }
        self.counts.reserve = self.counts.bad_limit.saturating_sub(self.counts.bad).min(left);
        self.counts.available = left - self.counts.reserve;
        Ok(())
    }

    /// Sorts the PEBs by their use.
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
        let erase = scan.urgent.iter().chain(&scan.erase);
        self.works = erase.map(|&pnum| Work::Erase { pnum, torture: false }).collect();
    }

    /// Makes the writes needed before the device can be used: erases stale fastmaps, synchronises the copies of the
    /// volume table, and grows an auto-resize volume.
    fn finish_attach(
        &mut self,
        scan: &mut Scan,
        (stale, begun): (&[ClaimedPeb], &[u32]),
        copies: TableCopies,
        options: &AttachOptions,
    ) -> Result<(), AttachFault> {
        if self.io.check_writable().is_err() {
            return Ok(());
        }
        if options.after_power_cut {
            self.suspect_free_pebs();
            self.erase_doubtful(scan, begun)?;
            self.erase_begun(options.fastmap == FastmapUse::Write || !stale.is_empty())?;
        }
        self.erase_fastmaps(stale, true)?;
        self.erase_fastmaps(stale, false)?;
        if options.after_power_cut {
            self.rewrite_last(scan)?;
        }
        let made = self.table_bytes(self.records())?;
        let table = &made[..self.io.geometry.volume_table_bytes()];
        // Linux also compares and copies the padding after the table, up to the minimum I/O size. `ubinize` fills it
        // with 0xFF.
        let good = copies.iter().flatten().find(|copy| copy.starts_with(table)).unwrap_or(&made);
        for (lnum, copy) in (0..LAYOUT_VOLUME_LEBS).zip(&copies) {
            if copy.as_ref() != Some(good) {
                self.write_table_copy(lnum, good)?;
            }
        }
        if options.autoresize {
            self.autoresize()?;
        }
        self.schedule_wear_levelling();
        Ok(())
    }

    /// Erases PEBs of fastmaps that are not maintained: with `anchors` their anchors, so that these fastmaps are never
    /// found again, otherwise their other PEBs. The oldest anchor is erased first, so that a power cut does not bring
    /// it back.
    fn erase_fastmaps(&mut self, stale: &[ClaimedPeb], anchors: bool) -> Result<(), UbiError> {
        let mut stale = stale.to_vec();
        stale.retain(|found| (found.header.volume_id == FASTMAP_SUPERBLOCK_VOLUME) == anchors);
        stale.sort_unstable_by_key(|found| found.header.sqnum);
        for pnum in stale.iter().map(|found| found.pnum) {
            if matches!(self.peb(pnum).state, PebState::Fastmap | PebState::Pending) {
                self.erase_out_of_turn(pnum)?;
            }
        }
        Ok(())
    }

    /// Gives all available LEBs to an auto-resize volume, once.
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

/// True if turning the flash into a device without volumes loses nothing: it is erased, or a first attach was
/// interrupted before it wrote the second copy of the volume table.
fn is_empty(scan: &Scan, second_copy: bool) -> bool {
    let users = scan.found.iter().any(|found| found.header.volume_id != LAYOUT_VOLUME);
    !users && !second_copy && scan.corrupted + scan.alien + scan.strange == 0 && scan.maybe_bad <= 2
}

/// Error for flash without a good volume table.
fn refusal(scan: &Scan, error: Option<floatgate_media::MediaError>) -> AttachFault {
    let unreadable = scan.strange + scan.maybe_bad;
    match error {
        Some(error) => AttachFault::VolumeTable(error),
        None if unreadable > 0 && scan.found.is_empty() => AttachFault::NotUbi { unreadable },
        None => AttachFault::NoVolumeTable,
    }
}

fn inconsistent(found: &ClaimedPeb, field: &'static str) -> AttachFault {
    let LebId { volume: id, .. } = found.leb();
    AttachFault::Inconsistent { pnum: found.pnum, id, field }
}

/// Checks a VID header against the first of its volume and against the volume table.
fn check_found(found: &ClaimedPeb, first: &ClaimedPeb, record: &VolumeRecord) -> Result<(), AttachFault> {
    let fixed = record.volume_type == VolumeType::Static;
    let same = !fixed || found.header.used_lebs == first.header.used_lebs;
    let differs = (!same || found.header.used_lebs > record.reserved_pebs).then_some("number of used LEBs");
    misfit(&found.header, record).or(differs).map_or(Ok(()), |field| Err(inconsistent(found, field)))
}

/// Name of the first field of a VID header that contradicts the record of its volume.
pub(super) fn misfit(header: &VidHeader, record: &VolumeRecord) -> Option<&'static str> {
    let checks = [
        (header.volume_type == record.volume_type, "type"),
        (header.data_pad == record.data_pad, "data padding"),
        (header.lnum < record.reserved_pebs, "number of LEBs"),
    ];
    checks.iter().find(|check| !check.0).map(|check| check.1)
}
