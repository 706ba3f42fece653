//! Attaching by a fastmap (Linux: the first half of `fastmap.c`).
//!
//! A fastmap is validated first: it lists every PEB exactly once, and counters and volumes are in range. If any check
//! fails, the caller falls back to a scan.

use super::io::{DynIo, Header, Quality, impossible};
use super::pebs::{Entry, Erasure, LebId, PebSet, PebState};
use super::scan::{ClaimedPeb, Scan};
use super::wear::Work;
use super::{AttachFault, Ubi, UbiError};
use floatgate_media::MediaError;
use floatgate_media::ubi::{
    Compat, FASTMAP_DATA_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, Fastmap, FastmapSuperblock, LAYOUT_VOLUME,
    LAYOUT_VOLUME_COMPAT, MAX_ERASE_COUNT, PebEc, PebList, VidHeader, VolumeMap,
};
use floatgate_mtd::Mtd;

/// PEBs of a fastmap, and the maximum sizes of its pools.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// PEBs of the fastmap, the anchor first.
    pub(super) pebs: Vec<u32>,
    pub(super) pool_max: u16,
    pub(super) wl_pool_max: u16,
    /// Pool PEBs that look free; a write may have begun in one of them.
    pub(super) pool: Vec<u32>,
}

/// Reason why a fastmap cannot be used.
enum FastmapFault {
    /// The fastmap is missing, damaged or wrong.
    Unusable,
    /// The device failed.
    Lost,
}

impl From<UbiError> for FastmapFault {
    fn from(error: UbiError) -> Self {
        if error == UbiError::PowerLost { Self::Lost } else { Self::Unusable }
    }
}

impl From<MediaError> for FastmapFault {
    fn from(_: MediaError) -> Self {
        Self::Unusable
    }
}

impl From<AttachFault> for FastmapFault {
    fn from(fault: AttachFault) -> Self {
        match fault {
            AttachFault::Ubi(error) => error.into(),
            _ => Self::Unusable,
        }
    }
}

fn require(good: bool) -> Result<(), FastmapFault> {
    if good { Ok(()) } else { Err(FastmapFault::Unusable) }
}

/// State read from the fastmap whose anchor is among the PEBs of `first`; `None` if there is no good one.
pub(super) fn read(io: &mut DynIo<'_>, first: &Scan) -> Result<Option<(Scan, Layout)>, AttachFault> {
    match try_read(io, first) {
        Ok(read) => Ok(Some(read)),
        Err(FastmapFault::Unusable) => Ok(None),
        Err(FastmapFault::Lost) => Err(UbiError::PowerLost.into()),
    }
}

fn try_read(io: &mut DynIo<'_>, first: &Scan) -> Result<(Scan, Layout), FastmapFault> {
    let anchors = first.fastmap.iter().filter(|found| found.header.volume_id == FASTMAP_SUPERBLOCK_VOLUME);
    let anchor = anchors.max_by_key(|found| found.header.sqnum).ok_or(FastmapFault::Unusable)?;
    let mut head = [0; FastmapSuperblock::SIZE];
    require(io.read_data(anchor.pnum, 0, &mut head)? != Quality::Damaged)?;
    let superblock = FastmapSuperblock::parse(&head)?;
    let len = u64::from(superblock.peb_count) * u64::from(io.leb_bytes());
    require(len == io.geometry.fastmap_bytes(io.pebs))?;
    let mut scan = Scan::new(io.pebs);
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| FastmapFault::Unusable)?];
    for (index, (peb, part)) in superblock.pebs().zip(bytes.chunks_mut(io.leb_bytes() as usize)).enumerate() {
        require(index > 0 || peb.pnum == anchor.pnum)?;
        scan.read_part(io, peb, index == 0, part)?;
    }
    let map = Fastmap::parse(&bytes)?;
    scan.fill(io, &map)?;
    scan.take_counters(first);
    let pebs = superblock.pebs().map(|peb| peb.pnum).collect();
    let free = |pnum: &u32| scan.pebs.get(*pnum as usize).is_some_and(|peb| peb.state == PebState::Free);
    let pool = map.pool.pebs().chain(map.wl_pool.pebs()).filter(free).collect();
    let (pool_max, wl_pool_max) = (map.pool.max_len, map.wl_pool.max_len);
    Ok((scan, Layout { pebs, pool_max, wl_pool_max, pool }))
}

impl Scan {
    /// Adds a PEB listed in the fastmap; an error if it is listed twice.
    fn place(&mut self, peb: PebEc, state: PebState) -> Result<(), FastmapFault> {
        let entry = self.pebs.get_mut(peb.pnum as usize).ok_or(FastmapFault::Unusable)?;
        require(entry.state == PebState::Bad && u64::from(peb.erase_count) <= MAX_ERASE_COUNT)?;
        entry.state = state;
        entry.erase_count = peb.erase_count;
        self.know(peb.erase_count);
        Ok(())
    }

    /// Reads a PEB of the fastmap itself.
    fn read_part(
        &mut self,
        io: &mut DynIo<'_>,
        peb: PebEc,
        anchor: bool,
        part: &mut [u8],
    ) -> Result<(), FastmapFault> {
        self.place(peb, PebState::Fastmap)?;
        require(!io.is_bad(peb.pnum)?)?;
        self.read_known_ec(io, peb.pnum)?;
        let Header::Found(header, scrub) = io.read_vid(peb.pnum)? else { return Err(FastmapFault::Unusable) };
        let volume = if anchor { FASTMAP_SUPERBLOCK_VOLUME } else { FASTMAP_DATA_VOLUME };
        require(header.volume_id == volume)?;
        self.max_sqnum = self.max_sqnum.max(header.sqnum);
        self.fastmap.push(ClaimedPeb { pnum: peb.pnum, header, scrub });
        require(io.read_data(peb.pnum, 0, part)? != Quality::Damaged)
    }

    /// Reads an EC header that must exist: its erase counter, and whether it needs scrubbing.
    fn read_known_ec(&mut self, io: &mut DynIo<'_>, pnum: u32) -> Result<(u32, bool), FastmapFault> {
        let Header::Found(header, flips) = io.read_ec(pnum)? else { return Err(FastmapFault::Unusable) };
        let seq = header.image_seq;
        require(seq == 0 || io.image_seq == 0 || seq == io.image_seq)?;
        io.image_seq = io.image_seq.max(seq);
        Ok((header.erase_count as u32, flips))
    }

    /// Builds the state from the fastmap, and reads the PEBs of its pools.
    fn fill(&mut self, io: &mut DynIo<'_>, map: &Fastmap<'_>) -> Result<(), FastmapFault> {
        for peb in map.pebs(PebList::Free) {
            self.place(peb, PebState::Free)?;
            self.pebs[peb.pnum as usize].erasure = Erasure::ByFastmap;
        }
        map.pebs(PebList::Used).try_for_each(|peb| self.place(peb, PebState::Used))?;
        map.pebs(PebList::Scrub).try_for_each(|peb| self.place(peb, PebState::Scrub))?;
        for peb in map.pebs(PebList::Erase) {
            self.place(peb, PebState::Pending)?;
            self.erase.push(peb.pnum);
        }
        let mut volumes = Vec::new();
        for volume in map.volumes() {
            let id = volume.volume.volume_id;
            require(!volumes.contains(&id))?;
            volumes.push(id);
            self.map_volume(&volume)?;
        }
        for pnum in map.pool.pebs().chain(map.wl_pool.pebs()) {
            self.read_pool(io, pnum, &volumes)?;
        }
        self.bad = self.bad.saturating_add(map.counts.bad);
        self.account()
    }

    /// Replaces erase counters of free PEBs by those in headers already read, which may be higher than in the fastmap.
    ///
    /// Suppose an attach erased a PEB before power was lost again. With its old counter it would always be chosen
    /// first, and the next PEB, in which a write may have begun, would never be erased.
    fn take_counters(&mut self, first: &Self) {
        for (peb, seen) in self.pebs.iter_mut().zip(&first.pebs) {
            if peb.state == PebState::Free && seen.state == PebState::Free {
                peb.erase_count = peb.erase_count.max(seen.erase_count);
            }
        }
    }

    fn map_volume(&mut self, map: &VolumeMap<'_>) -> Result<(), FastmapFault> {
        let volume = &map.volume;
        let volume_type = volume.volume_type.volume_type().ok_or(FastmapFault::Unusable)?;
        let internal = volume.volume_id == LAYOUT_VOLUME;
        let fixed = volume_type == floatgate_media::ubi::VolumeType::Static;
        for (lnum, pnum) in (0u32..).zip(map.pnums()) {
            let Some(pnum) = pnum else { continue };
            let header = VidHeader {
                volume_type,
                compat: if internal { LAYOUT_VOLUME_COMPAT } else { Compat::None },
                volume_id: volume.volume_id,
                lnum,
                data_size: volume.last_leb_bytes,
                used_lebs: if fixed { volume.used_lebs } else { 0 },
                data_pad: volume.data_pad,
                ..VidHeader::default()
            };
            let peb = self.pebs.get_mut(pnum as usize).ok_or(FastmapFault::Unusable)?;
            let mapped = matches!(peb.state, PebState::Used | PebState::Scrub);
            require(mapped && peb.leb.is_none())?;
            peb.leb = Some(LebId { volume: volume.volume_id, lnum });
            self.found.push(ClaimedPeb { pnum, header, scrub: peb.state == PebState::Scrub });
        }
        Ok(())
    }

    /// Reads a pool PEB, which may have been written since; its headers count, as in a scan.
    fn read_pool(&mut self, io: &mut DynIo<'_>, pnum: u32, volumes: &[u32]) -> Result<(), FastmapFault> {
        let state = self.pebs.get(pnum as usize).ok_or(FastmapFault::Unusable)?.state;
        require(state == PebState::Bad)?;
        let (found, fastmaps) = (self.found.len(), self.fastmap.len());
        self.read_peb(io, pnum)?;
        let known = self.found[found..].iter().all(|found| volumes.contains(&found.header.volume_id));
        require(known && self.fastmap.len() == fastmaps)
    }

    /// Checks that every PEB is bad or listed. Listed PEBs that are in use but hold no LEB are erased.
    fn account(&mut self) -> Result<(), FastmapFault> {
        let unnamed = self.pebs.iter().filter(|peb| peb.state == PebState::Bad).count();
        require(unnamed as u64 == u64::from(self.bad))?;
        for (pnum, peb) in (0u32..).zip(&mut self.pebs) {
            if matches!(peb.state, PebState::Used | PebState::Scrub) && peb.leb.is_none() {
                peb.state = PebState::Pending;
                self.erase.push(pnum);
            }
        }
        Ok(())
    }
}

impl Ubi<dyn Mtd> {
    /// Free PEB chosen by `choose`, verified to be erased. An interrupted erase destroyed its EC header; the traces of
    /// an interrupted write may be invisible.
    pub(super) fn pick_free(
        &mut self,
        choose: impl Fn(&PebSet) -> Option<Entry>,
    ) -> Result<Option<Entry>, UbiError> {
        while let Some(entry) = choose(&self.free) {
            let pnum = entry.pnum;
            match std::mem::replace(&mut self.peb_mut(pnum).erasure, Erasure::Known) {
                Erasure::Known => return Ok(Some(entry)),
                Erasure::Unverified => {
                    self.peb_mut(pnum).erasure = Erasure::Unverified;
                    return Ok(Some(entry));
                }
                Erasure::WriteMayHaveBegun => self.erase_out_of_turn(pnum)?,
                Erasure::ByFastmap if matches!(self.io.read_ec(pnum)?, Header::Found(..)) => {}
                Erasure::ByFastmap => {
                    self.set_state(pnum, PebState::Pending);
                    self.works.push_back(Work::Erase { pnum, torture: false });
                }
            }
        }
        Ok(None)
    }

    /// Reads the VID header at the first access to a LEB, because a fastmap may be older than the contents of its PEBs.
    pub(super) fn confirm(&mut self, leb: LebId) -> Result<(), UbiError> {
        let Some(pnum) = self.mapping(leb) else { return Ok(()) };
        let place = self.volumes.get_mut(&leb.volume).and_then(|v| v.unconfirmed.get_mut(leb.lnum as usize));
        match place {
            Some(unconfirmed) if *unconfirmed => *unconfirmed = false,
            _ => return Ok(()),
        }
        let torture = match self.io.read_vid(pnum)? {
            Header::Found(header, _) if (header.volume_id, header.lnum) == (leb.volume, leb.lnum) => {
                return Ok(());
            }
            Header::Found(..) => {
                self.io.enter_ro_mode();
                return Err(UbiError::FastmapLies { pnum, id: leb.volume, lnum: leb.lnum });
            }
            Header::Erased | Header::Corrupt(_) => false,
            Header::ErasedFlips | Header::CorruptFlips(_) => true,
            Header::Impossible(error) => return Err(impossible(pnum, "VID header", error)),
        };
        self.set_mapping(leb, None);
        self.put_peb(pnum, leb, torture);
        Ok(())
    }
}
