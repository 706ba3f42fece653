//! The headers of all PEBs and the volume table, each judged by itself.

use std::collections::BTreeMap;

use floatgate_media::ubi::{
    EcHeader, FASTMAP_DATA_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, Flash, Geometry, LAYOUT_VOLUME, ReadFlips,
    VERSION, VID_MAGIC, VidHeader, VolumeRecord, VolumeTable, VolumeType,
};
use floatgate_media::ubifs::{Frame, Node, NodeType, Superblock};
use floatgate_media::{MediaError, Reason, crc};
use floatgate_stack::store::Store;
use floatgate_stack::ubifs::Severity;
use floatgate_stack::{StoreError, VolumeGeometry};

use super::super::ImageError;
use super::super::detect::{Content, Found};
use super::super::open::{Hints, flash_geometry};
use super::report::{CheckReport, Finding, Layer, PebCounts};
use super::{MappedVolume, Origin};

/// Message about a header that was never written.
pub(in super::super) const ERASED: &str = "erased";

/// Message about headers in a bad block.
const MARKED: &str = "not looked at: the block is marked bad";

/// Bytes of a header, and of the CRC at its end.
const HEADER: usize = 64;

/// PEBs whose header a search tries to correct: more tell nothing new, and it takes time.
const CORRECTIONS_MAX: u32 = 1024;

/// Bytes of a record of the volume table, with its CRC at the end.
const RECORD: usize = 172;

/// LEBs of a volume that are believed beyond the PEBs there are: images end early, and a repair writes them all.
const LEBS_BELIEVED: usize = 1 << 16;

/// LEBs of a volume with their PEBs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Mapping {
    /// Those that Linux finds.
    Linux,
    /// Those too whose headers are damaged, as far as they can be guessed.
    Salvage,
}

/// Bytes at the place of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header<T> {
    Good(T),
    Erased,
    Bad(MediaError),
    /// Its block is marked bad.
    Marked,
}

impl<T> Header<T> {
    fn of(parsed: Result<T, MediaError>) -> Self {
        match parsed {
            Ok(header) => Self::Good(header),
            Err(error) if error.reason == Reason::Erased => Self::Erased,
            Err(error) => Self::Bad(error),
        }
    }
}

impl<T: Copy> Header<T> {
    /// The header, or what is there instead.
    fn told(&self) -> Result<T, String> {
        match self {
            Self::Good(header) => Ok(*header),
            Self::Erased => Err(ERASED.to_owned()),
            Self::Bad(error) => Err(error.to_string()),
            Self::Marked => Err(MARKED.to_owned()),
        }
    }
}

/// A PEB with its headers.
#[derive(Clone, Copy, Debug)]
struct Peb {
    ec: Header<EcHeader>,
    vid: Header<VidHeader>,
    /// A damaged VID header as it most likely was; a good one in a bad block.
    guess: Option<VidHeader>,
    /// Something is written behind the headers; only looked at where a header is not good.
    has_data: bool,
    fate: Fate,
}

impl Peb {
    /// The same in a block that Linux leaves alone.
    const fn marked_bad(self) -> Self {
        let guess = match self.vid {
            Header::Good(vid) => Some(vid),
            _ => self.guess,
        };
        Self { ec: Header::Marked, vid: Header::Marked, guess, has_data: false, fate: Fate::None }
    }
}

/// Use of a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It holds no LEB.
    None,
    /// It holds the current state of a LEB.
    Mapped,
    /// A newer PEB has its LEB.
    Older,
    /// A copy of a LEB that was cut off.
    CutOff,
    /// Its volume is not in the table.
    Removed,
    /// It contradicts the volume's record.
    Misfit,
    /// It has the sequence number of another PEB with the same LEB.
    Twin,
}

/// All headers of a device.
#[derive(Clone, Debug)]
pub(in super::super) struct Headers {
    geometry: Geometry,
    flash: floatgate_mtd::Geometry,
    pebs: Vec<Peb>,
    /// The two copies of the volume table: what is wrong with each.
    copies: [Option<MediaError>; 2],
    /// PEBs of the copies.
    copy_pebs: [Option<u32>; 2],
    /// The copies differ.
    differ: bool,
    records: BTreeMap<u32, VolumeRecord>,
    /// The records were put together from what is left of both copies, or from VID headers.
    table_lost: bool,
    /// PEB of each LEB.
    map: BTreeMap<(u32, u32), u32>,
    /// PEB with a damaged VID header that most likely has a LEB.
    guesses: BTreeMap<(u32, u32), u32>,
    /// Bytes that the image has of its last PEB, if they are not all.
    cut_off: Option<u64>,
}

/// The first byte of a PEB, and its headers or what is wrong with them.
pub(in super::super) type PebHeaders = (u64, Result<EcHeader, String>, Result<VidHeader, String>);

impl Headers {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read; sizes that cannot be those of UBI.
    pub(in super::super) fn read(store: &mut impl Store, found: &Found) -> Result<Self, ImageError> {
        let (Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) = &found.content else {
            return Err(ImageError::Nothing);
        };
        let flash = flash_geometry(shape, found.len, &Hints::default());
        let layout = Flash {
            peb_bytes: flash.erase_bytes,
            min_io_bytes: flash.write_bytes,
            sub_page_bytes: flash.sub_page_bytes,
        };
        let geometry = Geometry::with_vid_header_offset(layout, shape.vid_header_offset);
        let geometry = geometry.map_err(|_| ImageError::Nothing)?;
        let flash_erase = flash.erase_bytes;
        let count = u32::try_from(flash.size_bytes / u64::from(flash.erase_bytes)).unwrap_or(u32::MAX);
        let mut headers = Self {
            geometry,
            flash,
            pebs: Vec::with_capacity(count as usize),
            copies: [None; 2],
            copy_pebs: [None; 2],
            differ: false,
            records: BTreeMap::new(),
            table_lost: false,
            map: BTreeMap::new(),
            guesses: BTreeMap::new(),
            cut_off: Some(found.len % u64::from(flash_erase)).filter(|&bytes| bytes > 0),
        };
        let mut corrections = CORRECTIONS_MAX;
        for pnum in 0..count {
            let mut peb = headers.read_peb(store, pnum, &mut corrections).map_err(ImageError::Store)?;
            if found.bad_pebs.contains(&pnum) {
                peb = peb.marked_bad();
            }
            headers.pebs.push(peb);
        }
        headers.collect_guesses();
        headers.settle(store, LAYOUT_VOLUME).map_err(ImageError::Store)?;
        headers.read_table(store).map_err(ImageError::Store)?;
        for id in headers.volume_ids() {
            headers.settle(store, id).map_err(ImageError::Store)?;
        }
        Ok(headers)
    }

    /// Offsets of headers and data in a PEB.
    pub(in super::super) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The flash, as far as headers tell.
    pub(in super::super) const fn flash(&self) -> &floatgate_mtd::Geometry {
        &self.flash
    }

    /// The first image sequence number.
    pub(in super::super) fn image_seq(&self) -> u32 {
        let mut good = self.pebs.iter().filter_map(|peb| match peb.ec {
            Header::Good(ec) => Some(ec.image_seq),
            _ => None,
        });
        good.next().unwrap_or(0)
    }

    /// The records of the volumes; names are made up where the table is lost.
    pub(in super::super) fn volumes(&self) -> impl Iterator<Item = (u32, &VolumeRecord)> {
        self.records.iter().map(|(&id, record)| (id, record))
    }

    /// Byte of the store where a PEB begins.
    fn peb_start(&self, pnum: u32) -> u64 {
        u64::from(pnum) * u64::from(self.flash.erase_bytes)
    }

    fn read_peb(&self, store: &mut impl Store, pnum: u32, corrections: &mut u32) -> Result<Peb, StoreError> {
        let start = self.peb_start(pnum);
        let mut bytes = [0; HEADER];
        store.read_at(start, &mut bytes)?;
        let ec = EcHeader::parse(&bytes, ReadFlips::default());
        let ec = Header::of(ec.and_then(|ec| ec.check(&self.geometry).map(|()| ec)));
        store.read_at(start + u64::from(self.geometry.vid_header_offset()), &mut bytes)?;
        let vid = VidHeader::parse(&bytes, ReadFlips::default());
        let vid = Header::of(vid.and_then(|vid| vid.check(&self.geometry).map(|()| vid)));
        let mut peb = Peb { ec, vid, guess: None, has_data: false, fate: Fate::None };
        if matches!(vid, Header::Bad(_)) || matches!(ec, Header::Bad(_)) && vid == Header::Erased {
            peb.has_data = self.has_data(store, pnum)?;
        }
        if matches!(vid, Header::Bad(_)) && peb.has_data && *corrections > 0 {
            *corrections -= 1;
            peb.guess = correct(bytes).filter(|vid| vid.check(&self.geometry).is_ok());
        }
        Ok(peb)
    }

    fn has_data(&self, store: &mut impl Store, pnum: u32) -> Result<bool, StoreError> {
        let mut bytes = vec![0; self.geometry.leb_bytes() as usize];
        store.read_at(self.peb_start(pnum) + u64::from(self.geometry.data_offset()), &mut bytes)?;
        Ok(bytes.iter().any(|&byte| byte != 0xFF))
    }

    /// PEBs that claim LEBs of a volume, by LEB, the newest first.
    fn claims(&self, id: u32) -> BTreeMap<u32, Vec<(u32, VidHeader)>> {
        let mut claims: BTreeMap<u32, Vec<(u32, VidHeader)>> = BTreeMap::new();
        for (pnum, peb) in (0..).zip(&self.pebs) {
            // Linux takes a PEB whose EC header is erased for an empty one.
            if let (Header::Good(vid), false) = (peb.vid, peb.ec == Header::Erased)
                && vid.volume_id == id
            {
                claims.entry(vid.lnum).or_default().push((pnum, vid));
            }
        }
        for of_leb in claims.values_mut() {
            of_leb.sort_by_key(|&(pnum, vid)| (u64::MAX - vid.sqnum, pnum));
        }
        claims
    }

    /// Decides which PEB has each LEB of a volume.
    fn settle(&mut self, store: &mut impl Store, id: u32) -> Result<(), StoreError> {
        for (lnum, claims) in self.claims(id) {
            let mut winner = None;
            for (index, &(pnum, vid)) in claims.iter().enumerate() {
                // The newest first, so that equal ones are neighbours.
                let before = index.checked_sub(1).and_then(|before| claims.get(before));
                let near = [before, claims.get(index + 1)];
                let twin = near.into_iter().flatten().any(|(_, twin)| twin.sqnum == vid.sqnum);
                let fate = if winner.is_some() {
                    Fate::Older
                } else if !self.fits(id, &vid) {
                    Fate::Misfit
                } else if index + 1 < claims.len() && vid.is_copy() && !self.is_whole(store, pnum, &vid)? {
                    Fate::CutOff
                } else {
                    winner = Some(pnum);
                    Fate::Mapped
                };
                self.pebs[pnum as usize].fate = if twin && fate == Fate::Older { Fate::Twin } else { fate };
            }
            if let Some(pnum) = winner {
                self.map.insert((id, lnum), pnum);
            }
        }
        Ok(())
    }

    fn fits(&self, id: u32, vid: &VidHeader) -> bool {
        if id == LAYOUT_VOLUME {
            return vid.lnum < 2;
        }
        let Some(record) = self.records.get(&id) else { return true };
        vid.lnum < record.reserved_pebs
            && vid.volume_type == record.volume_type
            && vid.data_pad == record.data_pad
    }

    /// True when the CRC over the data of a PEB is right.
    fn is_whole(&self, store: &mut impl Store, pnum: u32, vid: &VidHeader) -> Result<bool, StoreError> {
        let mut data = vec![0; vid.data_size as usize];
        store.read_at(self.peb_start(pnum) + u64::from(self.geometry.data_offset()), &mut data)?;
        Ok(crc::ubi(&data) == vid.data_crc)
    }

    /// Volumes that VID headers name and the table has, or would have if it were there.
    fn volume_ids(&mut self) -> Vec<u32> {
        let named: std::collections::BTreeSet<u32> = self.users().map(|(_, vid)| vid.volume_id).collect();
        for peb in &mut self.pebs {
            if let Header::Good(vid) = peb.vid
                && !vid.is_internal()
                && !self.records.contains_key(&vid.volume_id)
            {
                peb.fate = Fate::Removed;
            }
        }
        named.into_iter().filter(|id| self.records.contains_key(id)).collect()
    }

    /// PEBs with good VID headers of users' volumes.
    fn users(&self) -> impl Iterator<Item = (u32, VidHeader)> + '_ {
        (0..).zip(&self.pebs).filter_map(|(pnum, peb)| match peb.vid {
            Header::Good(vid) if !vid.is_internal() => Some((pnum, vid)),
            _ => None,
        })
    }

    /// Reads both copies of the volume table; if none is good, what is left of them.
    fn read_table(&mut self, store: &mut impl Store) -> Result<(), StoreError> {
        let mut copies = [Vec::new(), Vec::new()];
        for (lnum, copy) in (0..).zip(&mut copies) {
            self.copy_pebs[lnum as usize] = self.map.get(&(LAYOUT_VOLUME, lnum)).copied();
            let pnum = self.copy_pebs[lnum as usize].or_else(|| self.guessed(LAYOUT_VOLUME, lnum));
            let Some(pnum) = pnum else { continue };
            copy.resize(self.geometry.volume_table_bytes(), 0);
            store.read_at(self.peb_start(pnum) + u64::from(self.geometry.data_offset()), copy)?;
        }
        let most = self.believed();
        let [first, second] = copies.each_ref().map(|copy| VolumeTable::parse(copy, &self.geometry, most));
        self.copies = [first.err(), second.err()];
        // A copy that only a guess has found does not count for Linux.
        let seen = |lnum: usize| self.copy_pebs[lnum].is_some();
        let table = first.ok().filter(|_| seen(0)).or(second.ok().filter(|_| seen(1)));
        self.differ = first.is_ok() && second.is_ok() && copies[0] != copies[1];
        self.table_lost = table.is_none();
        self.records = match table.or(first.ok()).or(second.ok()) {
            Some(table) => table.volumes().collect(),
            None => self.salvage_table(store, &copies)?,
        };
        Ok(())
    }

    /// Most LEBs that a volume is believed to have.
    fn believed(&self) -> u32 {
        self.peb_count().saturating_add(LEBS_BELIEVED as u32)
    }

    /// Records from what is left of the table's copies, each has its own CRC, and from VID headers.
    fn salvage_table(
        &self,
        store: &mut impl Store,
        copies: &[Vec<u8>; 2],
    ) -> Result<BTreeMap<u32, VolumeRecord>, StoreError> {
        let mut records = BTreeMap::new();
        for slot in 0..self.geometry.volume_slots() {
            let record = copies.iter().find_map(|copy| self.record_in(copy, slot, false));
            let record = record.or_else(|| copies.iter().find_map(|copy| self.record_in(copy, slot, true)));
            records.extend(record.map(|record| (slot, record)));
        }
        let mut made_up: BTreeMap<u32, VolumeRecord> = BTreeMap::new();
        for (pnum, vid) in self.users().filter(|(_, vid)| !records.contains_key(&vid.volume_id)) {
            let mut lebs = vid.lnum + 1;
            if vid.lnum == 0 {
                lebs = lebs.max(self.filesystem_lebs(store, pnum)?);
            }
            let name = format!("volume-{}", vid.volume_id);
            let Ok(new) = VolumeRecord::new(name.as_bytes(), vid.volume_type, lebs, vid.data_pad) else {
                continue;
            };
            if vid.volume_id < self.geometry.volume_slots() && vid.data_pad == 0 {
                let record = made_up.entry(vid.volume_id).or_insert(new);
                record.reserved_pebs = record.reserved_pebs.max(lebs);
            }
        }
        records.extend(made_up);
        Ok(records)
    }

    /// LEBs of the filesystem whose superblock a PEB holds.
    fn filesystem_lebs(&self, store: &mut impl Store, pnum: u32) -> Result<u32, StoreError> {
        let mut bytes = vec![0; Superblock::SIZE];
        store.read_at(self.peb_start(pnum) + u64::from(self.geometry.data_offset()), &mut bytes)?;
        let node = Frame::parse(&bytes).and_then(|frame| frame.node());
        Ok(match node {
            Ok(Node::Superblock(superblock)) => superblock.leb_count.min(self.pebs.len() as u32),
            _ => 0,
        })
    }

    /// A good record in a slot of a table that is damaged elsewhere; `corrects` takes one with a single wrong byte too.
    fn record_in(&self, copy: &[u8], slot: u32, corrects: bool) -> Option<VolumeRecord> {
        let mut bytes = *copy.get(slot as usize * RECORD..)?.first_chunk::<RECORD>()?;
        if corrects {
            bytes = correct_record(bytes)?;
        }
        let mut table = vec![0; self.geometry.volume_table_bytes()];
        VolumeTable::emit([], &self.geometry, &mut table).ok()?;
        table.get_mut(..RECORD)?.copy_from_slice(&bytes);
        VolumeTable::parse(&table, &self.geometry, self.believed()).ok()?.get(0)
    }

    /// A PEB with a damaged VID header that most likely has a LEB which no other PEB has.
    fn guessed(&self, id: u32, lnum: u32) -> Option<u32> {
        self.guesses.get(&(id, lnum)).copied()
    }

    /// Of several guesses for a LEB the newest counts.
    fn collect_guesses(&mut self) {
        let mut newest: BTreeMap<(u32, u32), (u64, u32)> = BTreeMap::new();
        for (pnum, peb) in (0..).zip(&self.pebs) {
            let Some(vid) = peb.guess else { continue };
            let guess = newest.entry((vid.volume_id, vid.lnum)).or_insert((vid.sqnum, pnum));
            *guess = (*guess).max((vid.sqnum, pnum));
        }
        self.guesses = newest.into_iter().map(|(leb, (_, pnum))| (leb, pnum)).collect();
    }

    /// A volume as LEBs. Behind the last one a salvage has the PEBs whose LEB cannot be told.
    pub(in super::super) fn volume<S: Store>(
        &self,
        mut store: S,
        id: u32,
        mapping: Mapping,
    ) -> MappedVolume<S> {
        let record = self.records.get(&id).copied().unwrap_or_default();
        let lebs = record.reserved_pebs.min(self.pebs.len().max(LEBS_BELIEVED) as u32);
        // A table can name more LEBs than there are PEBs; those behind read as erased.
        let places = (0..lebs.min(self.last_lnum(id) + 1)).map(|lnum| {
            let mapped = self.map.get(&(id, lnum)).copied();
            let guessed = (mapping == Mapping::Salvage).then(|| self.guessed(id, lnum)).flatten();
            mapped.or(guessed).map(|pnum| self.peb_start(pnum) + u64::from(self.geometry.data_offset()))
        });
        let max_write_bytes = self.flash.buffer_bytes;
        let mut places: Vec<Option<u64>> = places.collect();
        if mapping == Mapping::Salvage && self.nameless().next().is_some() {
            places.resize(lebs as usize, None);
            let data = u64::from(self.geometry.data_offset());
            places.extend(self.nameless().map(|pnum| Some(self.peb_start(pnum) + data)));
            name_first_lebs(&mut store, &mut places, lebs as usize);
        }
        let geometry = VolumeGeometry {
            lebs,
            leb_bytes: self.geometry.leb_bytes() - record.data_pad.min(self.geometry.leb_bytes()),
            min_io_bytes: self.flash.write_bytes,
            max_write_bytes,
            leb_start: self.geometry.data_offset() % max_write_bytes.max(1),
            read_only: true,
        };
        MappedVolume::new(store, geometry, places)
    }

    /// True when the headers tell the place of every LEB of a volume, so that none can be missing but by their loss.
    pub(in super::super) fn tell_all(&self, id: u32) -> bool {
        self.nameless().next().is_none() && self.guesses.range((id, 0)..=(id, u32::MAX)).next().is_none()
    }

    fn last_lnum(&self, id: u32) -> u32 {
        let mapped = self.map.range((id, 0)..=(id, u32::MAX)).next_back().map(|(&(_, lnum), _)| lnum);
        let guessed = self.guesses.range((id, 0)..=(id, u32::MAX)).next_back().map(|(&(_, lnum), _)| lnum);
        mapped.max(guessed).unwrap_or(0)
    }

    /// What a PEB holds of a static volume: its VID header.
    pub(in super::super) fn header_of(&self, id: u32, lnum: u32) -> Option<VidHeader> {
        let pnum = self.map.get(&(id, lnum)).copied().or_else(|| self.guessed(id, lnum))?;
        match self.pebs[pnum as usize] {
            Peb { vid: Header::Good(vid), .. } => Some(vid),
            Peb { guess, .. } => guess,
        }
    }

    /// The two headers of a PEB as far as they are good, with the PEB's first byte.
    pub(in super::super) fn of_peb(&self, pnum: u32) -> Option<PebHeaders> {
        let peb = self.pebs.get(pnum as usize)?;
        Some((self.peb_start(pnum), peb.ec.told(), peb.vid.told()))
    }

    /// PEBs of the device.
    pub(in super::super) fn peb_count(&self) -> u32 {
        u32::try_from(self.pebs.len()).unwrap_or(u32::MAX)
    }

    /// PEBs by what they are.
    pub(super) fn counts(&self) -> PebCounts {
        let mut counts = PebCounts { total: self.pebs.len() as u32, ..PebCounts::default() };
        for peb in &self.pebs {
            let count = match (peb.ec, peb.vid, peb.fate) {
                (Header::Marked, ..) => &mut counts.bad,
                (Header::Bad(_), ..) | (_, Header::Bad(_), _) => &mut counts.damaged,
                (_, _, Fate::Mapped) => &mut counts.mapped,
                (Header::Erased, Header::Erased, _) => &mut counts.erased,
                (_, Header::Erased, _) => &mut counts.free,
                _ => &mut counts.outdated,
            };
            *count += 1;
        }
        counts
    }

    /// Says what is wrong.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn report(
        &self,
        store: &mut impl Store,
        origin: &Origin,
        report: &mut CheckReport,
    ) -> Result<(), ImageError> {
        let image_seq = self.image_seq();
        for (pnum, peb) in (0..).zip(&self.pebs) {
            for mut finding in self.judge(pnum, peb, image_seq) {
                let at = u64::from(finding.leb_offset.take().unwrap_or(0));
                finding.offset = Some(origin.file_byte(self.peb_start(pnum) + at));
                finding.peb = Some(pnum);
                report.add(finding);
            }
        }
        self.report_end(origin, report);
        self.report_table(origin, report);
        self.report_static(store, origin, report).map_err(ImageError::Store)?;
        for record in self.records.values().filter(|record| record.update_marker != 0) {
            let what = "an update of the volume was not finished";
            let consequence = "Linux does not read the volume until it is written anew";
            let mut finding = ubi(Severity::Damaged, "volume table", what, consequence);
            finding.volume = Some(super::super::extract::show_name(record.name()));
            report.add(finding);
        }
        Ok(())
    }

    /// What is wrong with a PEB. `leb_offset` has the byte in the PEB.
    fn judge(&self, pnum: u32, peb: &Peb, image_seq: u32) -> Vec<Finding> {
        let mut findings = Vec::new();
        match peb.ec {
            Header::Bad(error) => findings.push(judge_ec(&error)),
            Header::Good(ec) if ec.image_seq != image_seq && ec.image_seq != 0 && image_seq != 0 => {
                let what = format!("image sequence number {}, others have {image_seq}", ec.image_seq);
                findings.push(ubi(Severity::Damaged, "EC header", what, "Linux does not attach the device"));
            }
            Header::Erased => findings.extend(self.judge_without_ec(peb)),
            Header::Good(_) | Header::Marked => {}
        }
        let vid_at = self.geometry.vid_header_offset();
        if let Header::Bad(error) = peb.vid {
            let mut finding = self.judge_vid(peb, &error);
            finding.leb_offset = Some(vid_at);
            findings.push(finding);
        }
        if let Some(mut finding) = self.judge_fate(peb) {
            finding.leb_offset = Some(vid_at);
            findings.push(finding);
        }
        debug_assert!(pnum < self.pebs.len() as u32, "a PEB of the device");
        findings
    }

    /// A PEB without EC header: Linux erases it, whatever else is in it.
    fn judge_without_ec(&self, peb: &Peb) -> Option<Finding> {
        let Header::Good(vid) = peb.vid else { return None };
        let kept = self.map.contains_key(&(vid.volume_id, vid.lnum));
        let (severity, consequence) = if kept {
            (Severity::Recoverable, "Linux erases the PEB; another one has the LEB".to_owned())
        } else {
            (Severity::Damaged, format!("Linux erases the PEB: {} is lost", self.leb_name(&vid)))
        };
        Some(ubi(severity, "EC header", "it is erased, and a VID header follows", consequence))
    }

    fn judge_vid(&self, peb: &Peb, error: &MediaError) -> Finding {
        let (severity, consequence) = match (peb.has_data, peb.ec) {
            (false, _) => {
                (Severity::Recoverable, "nothing was written behind it: Linux erases the PEB".to_owned())
            }
            (true, ec) => {
                let does = match ec {
                    Header::Good(_) => "sets the PEB aside",
                    _ => "erases the PEB",
                };
                match peb.guess {
                    Some(vid) if self.map.contains_key(&(vid.volume_id, vid.lnum)) => {
                        (Severity::Recoverable, format!("Linux {does}; another one has the LEB"))
                    }
                    Some(vid) => {
                        (Severity::Damaged, format!("Linux {does}: {} is lost", self.leb_name(&vid)))
                    }
                    None => (Severity::Damaged, format!("Linux {does}: the LEB it has is lost")),
                }
            }
        };
        let mut finding = ubi(severity, "VID header", error.to_string(), consequence);
        if let Some(vid) = peb.guess {
            (finding.leb, finding.volume) = (Some(vid.lnum), self.volume_name(vid.volume_id));
        }
        finding
    }

    fn judge_fate(&self, peb: &Peb) -> Option<Finding> {
        let Header::Good(vid) = peb.vid else { return None };
        let (severity, what, consequence) = match peb.fate {
            Fate::CutOff => (
                Severity::Recoverable,
                "the copy of a LEB was cut off".to_owned(),
                "the PEB it was copied from counts",
            ),
            Fate::Misfit => (Severity::Damaged, self.misfit(&vid), "Linux does not attach the device"),
            Fate::Removed => (
                Severity::Recoverable,
                format!("LEB {} of volume {}, which the volume table does not have", vid.lnum, vid.volume_id),
                "Linux erases the PEB, as it does when the removal of a volume was cut off",
            ),
            Fate::Twin => (
                Severity::Damaged,
                "another PEB has the same LEB with the same sequence number".to_owned(),
                "Linux does not attach the device",
            ),
            _ => return None,
        };
        Some(ubi(severity, "VID header", what, consequence))
    }

    /// Contradiction between a VID header and the volume table.
    fn misfit(&self, vid: &VidHeader) -> String {
        let record = self.records.get(&vid.volume_id).copied().unwrap_or_default();
        if vid.lnum >= record.reserved_pebs {
            return format!("{}, which has {} LEBs", self.leb_name(vid), record.reserved_pebs);
        }
        let field = if vid.data_pad == record.data_pad { "type" } else { "alignment" };
        format!("{} says that its volume is of another {field}", self.leb_name(vid))
    }

    fn volume_name(&self, id: u32) -> Option<String> {
        self.records.get(&id).map(|record| super::super::extract::show_name(record.name()))
    }

    fn leb_name(&self, vid: &VidHeader) -> String {
        let name = self.volume_name(vid.volume_id).unwrap_or_else(|| vid.volume_id.to_string());
        format!("LEB {} of volume {name}", vid.lnum)
    }

    fn report_end(&self, origin: &Origin, report: &mut CheckReport) {
        let Some((bytes, pnum)) = self.cut_off.zip(self.peb_count().checked_sub(1)) else { return };
        let what = format!("the image ends {bytes} bytes into its last PEB, of {}", self.flash.erase_bytes);
        let consequence = "what is missing reads as erased; flash has whole PEBs only";
        let mut finding = ubi(Severity::Recoverable, "device", what, consequence);
        (finding.peb, finding.offset) = (Some(pnum), Some(origin.file_byte(self.peb_start(pnum) + bytes)));
        report.add(finding);
    }

    fn report_table(&self, origin: &Origin, report: &mut CheckReport) {
        let good = (0..2).any(|copy| self.copies[copy].is_none() && self.copy_pebs[copy].is_some());
        let (severity, consequence) = if good {
            (Severity::Recoverable, "the other copy is good: Linux writes this one anew")
        } else {
            (Severity::Damaged, "Linux does not attach the device: no volume can be used")
        };
        for (lnum, error) in (0u32..).zip(&self.copies) {
            let pnum = self.copy_pebs[lnum as usize];
            let what = match (error, pnum) {
                (_, None) => "there is no such copy".to_owned(),
                (Some(error), _) => error.to_string(),
                (None, _) => continue,
            };
            let what = format!("copy {}: {what}", lnum + 1);
            let mut finding = ubi(severity, "volume table", what, consequence);
            let record = error.as_ref().map_or(0, |error| error.offset / RECORD * RECORD);
            finding.peb = pnum;
            finding.offset = pnum.map(|pnum| {
                let data = self.peb_start(pnum) + u64::from(self.geometry.data_offset());
                origin.file_byte(data + record as u64)
            });
            report.add(finding);
        }
        if self.differ {
            let consequence = "a change was cut off: Linux takes the first copy and writes the second anew";
            let what = "the two copies differ";
            report.add(ubi(Severity::Recoverable, "volume table", what, consequence));
        }
    }

    /// Checks the CRCs of static volumes.
    fn report_static(
        &self,
        store: &mut impl Store,
        origin: &Origin,
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        let fixed = self.records.iter().filter(|(_, record)| record.volume_type == VolumeType::Static);
        for (&id, _) in fixed {
            let used = self
                .map
                .range((id, 0)..=(id, u32::MAX))
                .filter_map(|(&(_, lnum), _)| self.header_of(id, lnum).map(|vid| vid.used_lebs));
            for lnum in 0..used.max().unwrap_or(0).min(self.last_lnum(id).saturating_add(2)) {
                let pnum = self.map.get(&(id, lnum)).copied();
                let what = match pnum.zip(self.header_of(id, lnum)) {
                    Some((pnum, vid)) if self.is_whole(store, pnum, &vid)? => continue,
                    Some(_) => "the data fail their CRC",
                    None => "the LEB is missing",
                };
                let consequence = "the data of this volume are not whole";
                let mut finding = ubi(Severity::Damaged, "static volume", what, consequence);
                (finding.peb, finding.leb) = (pnum, Some(lnum));
                finding.volume = self.volume_name(id);
                finding.offset = pnum.map(|pnum| {
                    origin.file_byte(self.peb_start(pnum) + u64::from(self.geometry.data_offset()))
                });
                report.add(finding);
            }
        }
        Ok(())
    }

    /// True when the table had to be put together from VID headers.
    pub(in super::super) const fn table_lost(&self) -> bool {
        self.table_lost
    }

    /// PEBs with data whose LEB cannot be told.
    fn nameless(&self) -> impl Iterator<Item = u32> + '_ {
        let nameless = |peb: &Peb| peb.has_data && peb.guess.is_none() && matches!(peb.vid, Header::Bad(_));
        (0..).zip(&self.pebs).filter(move |(_, peb)| nameless(peb)).map(|(pnum, _)| pnum)
    }
}

/// Finds superblock and master nodes among LEBs whose number is not known: they stand in the first LEBs of a filesystem.
fn name_first_lebs(store: &mut impl Store, places: &mut [Option<u64>], named: usize) {
    for at in named..places.len() {
        let Some(place) = places[at] else { continue };
        let mut bytes = vec![0; Superblock::SIZE];
        if store.read_at(place, &mut bytes).is_err() {
            continue;
        }
        let candidates = match Frame::parse(&bytes).map(|frame| frame.node_type) {
            Ok(NodeType::Superblock) => 0..1,
            Ok(NodeType::Master) => 1..3,
            _ => continue,
        };
        if let Some(free) = candidates.into_iter().find(|&lnum| places.get(lnum) == Some(&None)) {
            places[free] = places[at].take();
        }
    }
}

/// A record with one wrong byte, corrected by its CRC.
fn correct_record(bytes: [u8; RECORD]) -> Option<[u8; RECORD]> {
    let is_good = |bytes: &[u8; RECORD]| {
        let (body, sum) = bytes.split_at(RECORD - 4);
        crc::ubi(body).to_be_bytes() == *sum
    };
    for at in 0..RECORD {
        let mut tried = bytes;
        for value in 0..=u8::MAX {
            tried[at] = value;
            if is_good(&tried) {
                return Some(tried);
            }
        }
    }
    None
}

fn ubi(
    severity: Severity,
    structure: &'static str,
    what: impl Into<String>,
    consequence: impl Into<String>,
) -> Finding {
    Finding::new(Layer::Ubi, severity, structure, what, consequence)
}

fn judge_ec(error: &MediaError) -> Finding {
    let misfit = matches!(error.reason, Reason::OutOfRange { .. } | Reason::WrongVersion { .. });
    if misfit {
        return ubi(Severity::Damaged, "EC header", error.to_string(), "Linux does not attach the device");
    }
    let consequence = "the erase counter is lost: Linux takes the mean of the others and writes the PEB anew";
    ubi(Severity::Recoverable, "EC header", error.to_string(), consequence)
}

/// A VID header with one wrong byte, corrected by its CRC; else its fields as they are, if they are possible.
fn correct(bytes: [u8; HEADER]) -> Option<VidHeader> {
    let known = [LAYOUT_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, FASTMAP_DATA_VOLUME];
    let possible = |vid: &VidHeader| !vid.is_internal() || known.contains(&vid.volume_id);
    for at in 0..HEADER {
        let mut tried = bytes;
        for value in 0..=u8::MAX {
            tried[at] = value;
            if let Ok(vid) = VidHeader::parse(&tried, ReadFlips::default()) {
                return Some(vid).filter(possible);
            }
        }
    }
    let mut tried = bytes;
    tried[..4].copy_from_slice(&VID_MAGIC);
    tried[4] = VERSION;
    let sum = crc::ubi(&tried[..HEADER - 4]);
    tried[HEADER - 4..].copy_from_slice(&sum.to_be_bytes());
    VidHeader::parse(&tried, ReadFlips::default()).ok().filter(|vid| possible(vid) && vid.sqnum > 0)
}
