//! Maintaining a fastmap (Linux: the second half of `fastmap.c`, `fastmap-wl.c`).
//!
//! New data goes only to PEBs of two pools listed in the fastmap. When a pool is empty, a new fastmap with new pools is
//! written. The old anchor is erased once the new fastmap is complete, so that a stale one is never found.

use super::fastmap::Layout;
use super::pebs::{Entry, LebId, Peb, PebState};
use super::{Ubi, UbiError};
use floatgate_media::ubi::{
    Compat, FASTMAP_ANCHOR_PEBS, FASTMAP_DATA_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, FastmapVolume,
    FastmapWriter, PebEc, PebList, VidHeader, VolumeType,
};
use floatgate_mtd::Mtd;
use std::collections::VecDeque;

/// Maximum number of PEBs of a fastmap.
const MAX_PARTS: u64 = 32;

/// Minimum and maximum size of the pools (Linux: 5 % of the PEBs, within these bounds).
const POOL_BOUNDS: (u32, u32) = (8, 256);

/// Number of attempts to fill a pool before the device counts as full.
const POOL_TRIES: u32 = 10;

/// State of a maintained fastmap.
#[derive(Clone, Debug)]
pub(super) struct FastmapState {
    /// Its PEBs on flash, the anchor first; empty without a good fastmap.
    current: Vec<u32>,
    /// Erased PEBs for user data.
    pool: VecDeque<u32>,
    /// Erased PEBs for wear levelling.
    wl_pool: VecDeque<u32>,
    pool_max: u16,
    wl_pool_max: u16,
    writing: bool,
}

impl FastmapState {
    /// The state after an attach, by a fastmap or not.
    pub(super) fn new(pebs: u32, layout: Option<Layout>) -> Self {
        let pool_max = (pebs / 100 * 5).clamp(POOL_BOUNDS.0, POOL_BOUNDS.1) as u16;
        let none = Layout { pebs: Vec::new(), pool_max, wl_pool_max: pool_max / 2, pool: Vec::new() };
        let Layout { pebs: current, pool_max, wl_pool_max, .. } = layout.unwrap_or(none);
        Self {
            current,
            pool: VecDeque::new(),
            wl_pool: VecDeque::new(),
            pool_max,
            wl_pool_max,
            writing: false,
        }
    }
}

impl Ubi<dyn Mtd> {
    /// Number of PEBs that a fastmap of this device needs; `None` if the device cannot have one.
    pub(super) fn fastmap_parts(&self) -> Option<u32> {
        let parts = self.io.geometry.fastmap_bytes(self.io.pebs) / u64::from(self.io.leb_bytes());
        let fits = self.io.pebs > FASTMAP_ANCHOR_PEBS && parts <= MAX_PARTS;
        fits.then_some(parts as u32)
    }

    /// PEB for user data from the pool; `None` without a fastmap on flash, where any PEB can be used.
    pub(super) fn get_pool_peb(&mut self) -> Result<Option<u32>, UbiError> {
        for _ in 0..POOL_TRIES {
            if self.fastmap.as_ref().is_some_and(|map| map.pool.is_empty() || map.wl_pool.is_empty()) {
                self.update_fastmap()?;
            }
            let Some(map) = self.fastmap.as_mut().filter(|map| !map.current.is_empty()) else {
                return Ok(None);
            };
            if let Some(pnum) = map.pool.pop_front() {
                self.set_state(pnum, PebState::Protected);
                return Ok(Some(pnum));
            }
            if !self.do_one_work()? {
                break;
            }
        }
        Err(UbiError::NoFreePeb)
    }

    /// Target PEB of the next move.
    pub(super) fn move_target(&mut self) -> Result<Option<Entry>, UbiError> {
        if self.fastmap.as_ref().is_some_and(|map| map.wl_pool.is_empty() && !map.writing) {
            self.update_fastmap()?;
        }
        match self.fastmap.as_ref().filter(|map| !map.current.is_empty()) {
            Some(map) => Ok(map.wl_pool.front().map(|&pnum| self.entry(pnum))),
            None => {
                let diff = self.wear_threshold.saturating_mul(2);
                self.pick_free(|free| free.below(diff))
            }
        }
    }

    /// Removes a PEB from its pool.
    pub(super) fn leave_pool(&mut self, pnum: u32) {
        if let Some(map) = &mut self.fastmap {
            map.wl_pool.retain(|&other| other != pnum);
        }
    }

    /// Invalidates the fastmap after a change of volumes, and writes a new one.
    pub(super) fn volumes_changed(&mut self) -> Result<(), UbiError> {
        if self.fastmap.is_some() { self.update_fastmap() } else { Ok(()) }
    }

    /// Fills the pools and writes a fastmap that lists them. If that fails, the device has no fastmap.
    pub(super) fn update_fastmap(&mut self) -> Result<(), UbiError> {
        self.io.check_writable()?;
        let Some(map) = &mut self.fastmap else { return Ok(()) };
        map.writing = true;
        let result = self.replace_fastmap();
        if let Some(map) = &mut self.fastmap {
            map.writing = false;
        }
        self.schedule_wear_levelling();
        result
    }

    fn replace_fastmap(&mut self) -> Result<(), UbiError> {
        self.free_enough()?;
        self.empty_pools();
        let old = self.fastmap.as_mut().map(|map| std::mem::take(&mut map.current)).unwrap_or_default();
        let Some(parts) = self.choose_parts(&old)? else {
            return self.erase_parts(&old);
        };
        self.fill_pools()?;
        let left: Vec<u32> = old.into_iter().filter(|pnum| !parts.contains(pnum)).collect();
        left.iter().for_each(|&pnum| self.set_state(pnum, PebState::Pending));
        match self.write_fastmap(&parts) {
            Ok(()) => {
                self.erase_parts(&left)?;
                if let Some(map) = &mut self.fastmap {
                    map.current = parts;
                }
                Ok(())
            }
            Err(error) if error.is_flash_failure() => {
                self.empty_pools();
                self.erase_parts(&left)?;
                parts.iter().try_for_each(|&pnum| self.erase_part(pnum, true))
            }
            Err(error) => Err(error),
        }
    }

    /// Does background work until enough PEBs are free for the fastmap, for moves, and in reserve.
    fn free_enough(&mut self) -> Result<(), UbiError> {
        let parts = self.fastmap_parts().unwrap_or(1);
        let pooled = self.fastmap.as_ref().map_or(0, |map| map.pool.len() + map.wl_pool.len());
        let enough = (super::reserve::RESERVED + parts + self.counts.reserve) as usize;
        while self.free.len() + pooled < enough {
            if !self.do_one_work()? {
                break;
            }
        }
        Ok(())
    }

    fn empty_pools(&mut self) {
        let pooled = (0u32..).zip(&self.pebs).filter(|(_, peb)| peb.state == PebState::Pool);
        let pooled: Vec<u32> = pooled.map(|(pnum, _)| pnum).collect();
        pooled.into_iter().for_each(|pnum| self.set_state(pnum, PebState::Free));
        if let Some(map) = &mut self.fastmap {
            map.pool.clear();
            map.wl_pool.clear();
        }
    }

    /// Fills both pools alternately, with PEBs of medium wear for data and much worn ones for moves.
    fn fill_pools(&mut self) -> Result<(), UbiError> {
        let Some(map) = &self.fastmap else { return Ok(()) };
        let threshold = self.wear_threshold;
        let (pool_max, wl_pool_max) = (usize::from(map.pool_max), usize::from(map.wl_pool_max));
        let (mut pool, mut wl_pool) = (VecDeque::new(), VecDeque::new());
        let mut full = false;
        while !full {
            full = true;
            let pick = self.pick_free(|free| free.medium(threshold))?;
            full &= !self.fill_from(&mut pool, pool_max, pick);
            let pick = self.pick_free(|free| free.below(threshold.saturating_mul(2)))?;
            full &= !self.fill_from(&mut wl_pool, wl_pool_max, pick);
        }
        if let Some(map) = &mut self.fastmap {
            (map.pool, map.wl_pool) = (pool, wl_pool);
        }
        Ok(())
    }

    fn fill_from(&mut self, pool: &mut VecDeque<u32>, max: usize, pick: Option<Entry>) -> bool {
        let Some(entry) = pick.filter(|_| pool.len() < max) else { return false };
        self.set_state(entry.pnum, PebState::Pool);
        pool.push_back(entry.pnum);
        true
    }

    /// PEBs for a new fastmap, the anchor first: free ones, otherwise those of the old fastmap.
    fn choose_parts(&mut self, old: &[u32]) -> Result<Option<Vec<u32>>, UbiError> {
        let Some(count) = self.fastmap_parts() else { return Ok(None) };
        // A fastmap has no list for such PEBs, and Linux rejects a fastmap that omits PEBs.
        if self.counts.corrupted + self.counts.alien + self.counts.erroneous > 0 {
            return Ok(None);
        }
        if self.free.first_below(FASTMAP_ANCHOR_PEBS).is_none() && old.is_empty() {
            self.clear_anchor_peb()?;
        }
        let mut parts = Vec::new();
        for index in 0..count as usize {
            let threshold = self.wear_threshold;
            let free = self.pick_free(|free| match index {
                0 => free.first_below(FASTMAP_ANCHOR_PEBS),
                _ => free.medium(threshold),
            })?;
            let pnum = match free.map(|entry| entry.pnum).or(old.get(index).copied()) {
                Some(pnum) => pnum,
                None => {
                    self.return_parts(&parts, old);
                    return Ok(None);
                }
            };
            if free.is_none() {
                self.erase_part(pnum, false)?;
                if self.peb(pnum).state != PebState::Free {
                    self.return_parts(&parts, old);
                    return Ok(None);
                }
            }
            self.set_state(pnum, PebState::Fastmap);
            parts.push(pnum);
        }
        Ok(Some(parts))
    }

    /// Returns erased PEBs that no fastmap uses.
    fn return_parts(&mut self, parts: &[u32], old: &[u32]) {
        for &pnum in parts.iter().filter(|pnum| !old.contains(pnum)) {
            self.set_state(pnum, PebState::Free);
        }
    }

    /// Moves a LEB out of the PEBs that can hold an anchor.
    fn clear_anchor_peb(&mut self) -> Result<(), UbiError> {
        let diff = self.wear_threshold.saturating_mul(2);
        let to = self.pick_free(|free| free.below(diff))?;
        match self.used.first_below(FASTMAP_ANCHOR_PEBS).zip(to) {
            Some((from, to)) => self.move_pair(from.pnum, to.pnum),
            None => Ok(()),
        }
    }

    /// Erases the PEBs of an outdated fastmap, the anchor first.
    fn erase_parts(&mut self, parts: &[u32]) -> Result<(), UbiError> {
        let erased = |state| !matches!(state, PebState::Fastmap | PebState::Pending);
        for &pnum in parts {
            if !erased(self.peb(pnum).state) {
                self.erase_part(pnum, false)?;
            }
        }
        Ok(())
    }

    fn erase_part(&mut self, pnum: u32, torture: bool) -> Result<(), UbiError> {
        self.set_state(pnum, PebState::Pending);
        self.erase_pending(pnum, torture)
    }

    fn write_fastmap(&mut self, parts: &[u32]) -> Result<(), UbiError> {
        let bytes = self.fastmap_bytes(parts)?;
        for (lnum, &pnum) in (0u32..).zip(parts) {
            let volume_id = if lnum == 0 { FASTMAP_SUPERBLOCK_VOLUME } else { FASTMAP_DATA_VOLUME };
            let header = VidHeader {
                volume_type: VolumeType::Dynamic,
                compat: Compat::Delete,
                volume_id,
                lnum,
                sqnum: self.next_sqnum(),
                ..VidHeader::default()
            };
            self.io.write_vid(pnum, &header)?;
            self.peb_mut(pnum).leb = Some(LebId { volume: volume_id, lnum });
        }
        for (part, &pnum) in bytes.chunks(self.io.leb_bytes() as usize).zip(parts) {
            self.io.write_data(pnum, 0, part)?;
        }
        Ok(())
    }

    fn fastmap_bytes(&self, parts: &[u32]) -> Result<Vec<u8>, UbiError> {
        let mut bytes = vec![0; parts.len() * self.io.leb_bytes() as usize];
        self.emit_fastmap(parts, &mut bytes).map_err(UbiError::BadVolume)?;
        Ok(bytes)
    }

    fn emit_fastmap(&self, parts: &[u32], bytes: &mut [u8]) -> Result<(), floatgate_media::MediaError> {
        let Some(map) = &self.fastmap else { return Ok(()) };
        let list = |pool: &VecDeque<u32>| pool.iter().copied().collect::<Vec<u32>>();
        let (pool, wl_pool) = (list(&map.pool), list(&map.wl_pool));
        let mut writer = FastmapWriter::new(bytes, (&pool, map.pool_max), (&wl_pool, map.wl_pool_max))?;
        let of = |pnum: u32| PebEc { pnum, erase_count: self.peb(pnum).erase_count };
        for list in [PebList::Free, PebList::Used, PebList::Scrub, PebList::Erase] {
            let members = (0u32..).zip(&self.pebs).filter(|(_, peb)| list_of(peb) == Some(list));
            members.map(|(pnum, _)| of(pnum)).try_for_each(|peb| writer.peb(list, peb))?;
        }
        for volume in self.volumes.values() {
            let head = FastmapVolume {
                volume_id: volume.id,
                volume_type: volume.record.volume_type.into(),
                data_pad: volume.record.data_pad,
                used_lebs: volume.readable_lebs(),
                last_leb_bytes: if volume.is_static() {
                    volume.last_bytes
                } else {
                    volume.usable(self.io.leb_bytes())
                },
            };
            let pnums = volume.eba.iter().map(|&pnum| Some(pnum).filter(|&pnum| pnum >> 31 == 0));
            writer.volume(&head, pnums)?;
        }
        let parts: Vec<PebEc> = parts.iter().map(|&pnum| of(pnum)).collect();
        writer.finish(&parts, self.counts.bad)
    }
}

/// Fastmap list that a PEB belongs to.
fn list_of(peb: &Peb) -> Option<PebList> {
    match peb.state {
        PebState::Free => Some(PebList::Free),
        PebState::Used | PebState::Protected => Some(PebList::Used),
        PebState::Scrub => Some(PebList::Scrub),
        PebState::Pending => Some(PebList::Erase),
        _ => None,
    }
}
