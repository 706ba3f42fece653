//! Survey of a possibly damaged device: a verdict on every PEB, the volumes, and the PEB of each LEB.

use super::attach::misfit;
use super::io::{DynIo, Io};
use super::pebs::LebId;
use super::salvaged_table::SalvagedTable;
use super::scan::{ClaimedPeb, Scan, check_sequence, read_copy};
use super::verdict::{Claim, HeaderState, PebVerdict};
use super::{AttachFault, UbiError};
use floatgate_media::MediaError;
use floatgate_media::ubi::{Geometry, LAYOUT_VOLUME, LAYOUT_VOLUME_LEBS, VidHeader, VolumeRecord};
use floatgate_mtd::{Instant, Mtd};
use std::collections::BTreeMap;

/// A UBI device according to all of its headers. Only flash that cannot hold UBI is refused.
#[derive(Clone, Debug)]
pub struct Survey {
    geometry: Geometry,
    flash: floatgate_mtd::Geometry,
    verdicts: Vec<PebVerdict>,
    pub(super) faults: Vec<AttachFault>,
    table: TableVerdict,
    volumes: BTreeMap<u32, VolumeRecord>,
    /// PEB of each LEB according to Linux.
    mapped: BTreeMap<LebId, u32>,
    /// PEB of each LEB claimed by a header that its CRC corrects, and that Linux does not find there.
    corrected: BTreeMap<LebId, u32>,
    /// Newest PEB whose damaged VID header probably claims the LEB.
    guessed: BTreeMap<LebId, u32>,
}

/// Verdict on the volume table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableVerdict {
    /// PEBs in which Linux finds the two copies.
    pub pebs: [Option<u32>; 2],
    /// Damage of the two copies.
    pub damage: [Option<MediaError>; 2],
    /// True if both copies are good and differ.
    pub differ: bool,
    /// True if Linux finds no good copy: the volumes are reconstructed.
    pub lost: bool,
}

/// Choice of the PEBs that count as holding a LEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// PEBs that Linux finds.
    Linux,
    /// In addition, PEBs with damaged VID headers that can be guessed.
    Salvage,
}

impl Survey {
    /// Reads all headers and the volume table of a device. The VID header is at this offset in a PEB, by default where
    /// Linux and ubinize put it.
    ///
    /// # Errors
    /// Sizes that UBI does not support; flash failures.
    pub fn read(mtd: impl Mtd, vid_header_offset: Option<u32>) -> Result<Self, AttachFault> {
        let mut io = Io::new(mtd, Instant::ZERO, vid_header_offset).map_err(|(error, _)| error)?;
        let mut scan = Scan::forgiving(io.pebs);
        let pebs = io.pebs;
        scan.read(&mut io, 0..pebs)?;
        Self::from_scan(&mut scan, &mut io)
    }

    /// Chooses the PEB of each LEB. The scan keeps the PEBs for a salvage.
    pub(super) fn from_scan(scan: &mut Scan, io: &mut DynIo<'_>) -> Result<Self, AttachFault> {
        let mut survey = Self {
            geometry: io.geometry,
            flash: io.mtd.geometry().clone(),
            verdicts: std::mem::take(&mut scan.verdicts),
            faults: Vec::new(),
            table: TableVerdict::default(),
            volumes: BTreeMap::new(),
            mapped: BTreeMap::new(),
            corrected: BTreeMap::new(),
            guessed: BTreeMap::new(),
        };
        survey.collect_guesses();
        let claims = scan.sorted_claims();
        let is_layout = |found: &&ClaimedPeb| found.header.volume_id == LAYOUT_VOLUME;
        let (layout, others): (Vec<&ClaimedPeb>, Vec<&ClaimedPeb>) = claims.iter().partition(is_layout);
        survey.resolve_all(scan, io, &layout)?;
        survey.read_table(scan, io, &others)?;
        survey.resolve_all(scan, io, &others)?;
        survey.faults = std::mem::take(&mut scan.faults);
        Ok(survey)
    }

    /// Keeps the newest of several guesses for a LEB.
    fn collect_guesses(&mut self) {
        let mut newest: BTreeMap<LebId, (u64, u32)> = BTreeMap::new();
        for (pnum, verdict) in (0..).zip(&self.verdicts) {
            let Some(vid) = verdict.guess.map(|guess| guess.header) else { continue };
            let guess = newest.entry(leb_of(&vid)).or_insert((vid.sqnum, pnum));
            *guess = (*guess).max((vid.sqnum, pnum));
        }
        self.guessed = newest.into_iter().map(|(leb, (_, pnum))| (leb, pnum)).collect();
    }

    fn resolve_all(
        &mut self,
        scan: &mut Scan,
        io: &mut DynIo<'_>,
        claims: &[&ClaimedPeb],
    ) -> Result<(), AttachFault> {
        claims.chunk_by(|a, b| a.leb() == b.leb()).try_for_each(|claims| self.resolve_leb(scan, io, claims))
    }

    /// Chooses the PEB of a LEB among those that claim it, for Linux and for a salvage.
    fn resolve_leb(
        &mut self,
        scan: &mut Scan,
        io: &mut DynIo<'_>,
        claims: &[&ClaimedPeb],
    ) -> Result<(), AttachFault> {
        let Some(leb) = claims.first().map(|found| found.leb()) else { return Ok(()) };
        scan.faults.extend(check_sequence(claims).err());
        let is_good =
            |found: &ClaimedPeb| matches!(self.verdicts[found.pnum as usize].vid, HeaderState::Good(_));
        let good: Vec<&ClaimedPeb> = claims.iter().copied().filter(|found| is_good(found)).collect();
        let judged = self.judge(io, &good)?;
        for (found, &claim) in good.iter().zip(&judged) {
            self.verdicts[found.pnum as usize].claim = claim;
            if claim == Claim::Current {
                self.mapped.insert(leb, found.pnum);
            }
        }
        let salvaged = if good.len() == claims.len() { judged } else { self.judge(io, claims)? };
        for (&found, claim) in claims.iter().zip(salvaged) {
            match claim {
                Claim::Current => scan.found.push(*found),
                Claim::CutOff => scan.erase_first(found.pnum),
                Claim::Misfit => {
                    let field = self.misfit(&found.header).unwrap_or_default();
                    let (pnum, id) = (found.pnum, leb.volume);
                    scan.faults.push(AttachFault::Inconsistent { pnum, id, field });
                }
                _ => scan.erase_last(found.pnum),
            }
            if claim == Claim::Current && self.mapped.get(&leb) != Some(&found.pnum) {
                self.corrected.insert(leb, found.pnum);
            }
        }
        Ok(())
    }

    /// Outcome for each of the PEBs that claim a LEB, the newest first.
    fn judge(&self, io: &mut DynIo<'_>, claims: &[&ClaimedPeb]) -> Result<Vec<Claim>, UbiError> {
        let mut judged = Vec::with_capacity(claims.len());
        let mut is_resolved = false;
        for (index, &found) in claims.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| claims.get(before));
            let near = [before, claims.get(index + 1)];
            let is_twin = near.into_iter().flatten().any(|twin| twin.header.sqnum == found.header.sqnum);
            let is_last = index + 1 == claims.len();
            judged.push(if !self.is_known(leb_of(&found.header)) {
                Claim::Removed
            } else if is_resolved {
                if is_twin { Claim::Twin } else { Claim::Older }
            } else if self.misfit(&found.header).is_some() {
                Claim::Misfit
            } else if !is_last && found.header.is_copy() && read_copy(io, &mut found.clone())?.is_none() {
                Claim::CutOff
            } else {
                is_resolved = true;
                Claim::Current
            });
        }
        Ok(judged)
    }

    /// True if a volume contains this LEB number.
    fn is_known(&self, leb: LebId) -> bool {
        leb.volume == LAYOUT_VOLUME || self.volumes.contains_key(&leb.volume)
    }

    /// Name of the first field of a VID header that contradicts the record of its volume.
    fn misfit(&self, header: &VidHeader) -> Option<&'static str> {
        if header.volume_id == LAYOUT_VOLUME {
            return (header.lnum >= LAYOUT_VOLUME_LEBS).then_some("number of LEBs");
        }
        self.volumes.get(&header.volume_id).and_then(|record| misfit(header, record))
    }

    /// Reads both copies of the volume table; if neither is good, their remains.
    fn read_table(
        &mut self,
        scan: &mut Scan,
        io: &mut DynIo<'_>,
        users: &[&ClaimedPeb],
    ) -> Result<(), AttachFault> {
        let mut copies = [None, None];
        for (lnum, copy) in (0..).zip(&mut copies) {
            let leb = LebId { volume: LAYOUT_VOLUME, lnum };
            self.table.pebs[lnum as usize] = self.mapped.get(&leb).copied();
            let Some(pnum) = self.peb_of(leb, Mapping::Salvage) else { continue };
            let unit = self.geometry.flash().min_io_bytes.max(1) as usize;
            let padded = self.geometry.volume_table_bytes().next_multiple_of(unit);
            let mut bytes = vec![0; padded.min(self.geometry.leb_bytes() as usize)];
            io.read_data(pnum, 0, &mut bytes)?;
            *copy = Some(bytes);
        }
        let good_pebs = io.pebs.saturating_sub(scan.bad);
        let salvaged = SalvagedTable::read(&copies, &self.geometry, good_pebs, self.table.pebs, users);
        (self.table.damage, self.table.lost) = (salvaged.damage, salvaged.lost);
        self.table.differ = salvaged.damage == [None; 2] && copies[0] != copies[1];
        self.volumes = salvaged.volumes;
        scan.faults.extend(salvaged.faults);
        Ok(())
    }

    /// Offsets of headers and data in a PEB.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Geometry of the flash.
    pub const fn flash(&self) -> &floatgate_mtd::Geometry {
        &self.flash
    }

    /// Verdicts on all PEBs.
    pub fn pebs(&self) -> &[PebVerdict] {
        &self.verdicts
    }

    /// Number of PEBs.
    pub fn peb_count(&self) -> u32 {
        u32::try_from(self.verdicts.len()).unwrap_or(u32::MAX)
    }

    /// Verdict on the volume table.
    pub const fn table(&self) -> &TableVerdict {
        &self.table
    }

    /// Volumes with their records in ascending order of ids. If the table is lost, they are reconstructed from LEBs.
    pub fn volumes(&self) -> impl Iterator<Item = (u32, &VolumeRecord)> {
        self.volumes.iter().map(|(&id, record)| (id, record))
    }

    /// The record of a volume.
    pub fn volume(&self, id: u32) -> Option<&VolumeRecord> {
        self.volumes.get(&id)
    }

    /// Assumes that a volume with a lost record has at least `lebs` LEBs.
    pub fn assume_lebs(&mut self, id: u32, lebs: u32) {
        if let Some(record) = self.volumes.get_mut(&id).filter(|_| self.table.lost) {
            record.reserved_pebs = record.reserved_pebs.max(lebs);
        }
    }

    /// Image sequence number of the first PEB.
    pub fn image_seq(&self) -> u32 {
        let good = |verdict: &PebVerdict| match verdict.ec {
            HeaderState::Good(ec) => Some(ec.image_seq),
            _ => None,
        };
        self.verdicts.iter().find_map(good).unwrap_or(0)
    }

    /// The PEB that holds a LEB.
    pub fn peb_of(&self, leb: LebId, mapping: Mapping) -> Option<u32> {
        let mapped = self.mapped.get(&leb);
        match mapping {
            Mapping::Linux => mapped,
            Mapping::Salvage => self.corrected.get(&leb).or(mapped).or_else(|| self.guessed.get(&leb)),
        }
        .copied()
    }

    /// VID header of the PEB that holds a LEB, possibly a guessed one.
    pub fn header_of(&self, leb: LebId) -> Option<VidHeader> {
        let pnum = self.peb_of(leb, Mapping::Salvage)?;
        let verdict = self.verdicts.get(pnum as usize)?;
        match verdict.vid {
            HeaderState::Good(vid) => Some(vid),
            _ => verdict.guess.map(|guess| guess.header),
        }
    }

    /// Highest LEB number of a volume that any PEB claims, 0 if none does.
    pub fn last_lnum(&self, id: u32) -> u32 {
        let last = |map: &BTreeMap<LebId, u32>| map.range(lebs_of(id)).next_back().map(|(leb, _)| leb.lnum);
        last(&self.mapped).max(last(&self.guessed)).unwrap_or(0)
    }

    /// LEBs of a volume that Linux finds, in order.
    pub fn mapped_lebs(&self, id: u32) -> impl Iterator<Item = LebId> + '_ {
        self.mapped.range(lebs_of(id)).map(|(&leb, _)| leb)
    }

    /// True if the headers define the position of every LEB of a volume, so that a missing LEB is lost.
    pub fn defines_all_lebs(&self, id: u32) -> bool {
        self.nameless().next().is_none() && self.guessed.range(lebs_of(id)).next().is_none()
    }

    /// PEBs with data of unknown LEBs.
    pub fn nameless(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.verdicts).filter(|(_, verdict)| verdict.is_nameless()).map(|(pnum, _)| pnum)
    }
}

/// The LEB that a VID header claims.
const fn leb_of(header: &VidHeader) -> LebId {
    LebId { volume: header.volume_id, lnum: header.lnum }
}

const fn lebs_of(volume: u32) -> std::ops::RangeInclusive<LebId> {
    LebId { volume, lnum: 0 }..=LebId { volume, lnum: u32::MAX }
}
