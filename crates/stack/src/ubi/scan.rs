//! Reading the headers of all PEBs, and deciding what each PEB is (Linux: the first half of `attach.c`).

use super::io::{Header, Io, is_filled};
use super::pebs::{LebId, NO_PEB, Peb, PebState};
use super::{AttachFault, ReadOnlyReason, UbiError};
use floatgate_media::crc;
use floatgate_media::ubi::{
    Compat, FASTMAP_DATA_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, LAYOUT_VOLUME, VidHeader,
};
use floatgate_mtd::Mtd;
use std::collections::VecDeque;

/// A PEB that claims a LEB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) pnum: u32,
    pub(super) header: VidHeader,
    /// Bits flipped: the LEB is to be moved.
    pub(super) scrub: bool,
}

impl Found {
    pub(super) const fn leb(&self) -> LebId {
        LebId { volume: self.header.volume_id, lnum: self.header.lnum }
    }
}

/// What the headers say.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    pub(super) pebs: Vec<Peb>,
    /// PEBs that hold LEBs; after [`settle`](Self::settle) one per LEB, by volume and LEB.
    pub(super) found: Vec<Found>,
    /// PEBs to erase, in order.
    pub(super) erase: VecDeque<u32>,
    /// PEBs of fastmaps.
    pub(super) fastmap: Vec<Found>,
    pub(super) bad: u32,
    pub(super) corrupted: u32,
    pub(super) alien: u32,
    /// PEBs without an EC header, erased.
    pub(super) empty: u32,
    /// PEBs of which neither header could be read for wrong bits.
    pub(super) maybe_bad: u32,
    /// PEBs with something else in place of both headers.
    pub(super) strange: u32,
    pub(super) max_sqnum: u64,
    /// PEBs whose erase counters are known: how many, and their sum.
    known: (u64, u64),
    unknown: Vec<u32>,
    /// A header in doubt: a fastmap is not to be trusted.
    pub(super) doubtful: bool,
}

/// What an EC header tells of its PEB.
struct Ec {
    erase_count: Option<u32>,
    scrub: bool,
    /// The header is there, but its bits cannot be read.
    flips: bool,
}

impl Scan {
    pub(super) fn new(pebs: u32) -> Self {
        Self { pebs: vec![NO_PEB; pebs as usize], ..Self::default() }
    }

    /// Reads the headers of these PEBs.
    pub(super) fn read<M: Mtd>(
        &mut self,
        io: &mut Io<M>,
        pebs: std::ops::Range<u32>,
    ) -> Result<(), AttachFault> {
        for pnum in pebs {
            self.read_peb(io, pnum)?;
        }
        Ok(())
    }

    fn read_peb<M: Mtd>(&mut self, io: &mut Io<M>, pnum: u32) -> Result<(), AttachFault> {
        if io.is_bad(pnum)? {
            self.bad += 1;
            return Ok(());
        }
        let Some(ec) = self.read_ec(io, pnum)? else { return Ok(()) };
        if let Some(count) = ec.erase_count {
            self.know(count);
        } else {
            self.unknown.push(pnum);
        }
        self.pebs[pnum as usize].erase_count = ec.erase_count.unwrap_or(0);
        match io.read_vid(pnum)? {
            Header::Found(header, flips) => {
                let scrub = ec.scrub || flips;
                self.add(io, Found { pnum, header, scrub })?;
            }
            Header::Erased if !ec.scrub => self.pebs[pnum as usize].state = PebState::Free,
            Header::Erased | Header::ErasedFlips => self.erase_first(pnum),
            bad => self.add_corrupt(io, pnum, &ec, bad == Header::CorruptFlips)?,
        }
        Ok(())
    }

    /// Reads an EC header; `None` if the PEB is erased and has none.
    fn read_ec<M: Mtd>(&mut self, io: &mut Io<M>, pnum: u32) -> Result<Option<Ec>, AttachFault> {
        let (header, scrub) = match io.read_ec(pnum)? {
            Header::Found(header, flips) => (header, flips),
            Header::Erased => {
                self.add_empty(pnum);
                self.erase.push_back(pnum);
                return Ok(None);
            }
            Header::ErasedFlips => {
                self.add_empty(pnum);
                self.erase.push_front(pnum);
                return Ok(None);
            }
            bad => {
                let flips = bad == Header::CorruptFlips;
                return Ok(Some(Ec { erase_count: None, scrub: true, flips }));
            }
        };
        let (found, expected) = (header.image_seq, io.image_seq);
        if expected == 0 {
            io.image_seq = found;
        } else if found != 0 && found != expected {
            return Err(AttachFault::ImageSeq { pnum, found, expected });
        }
        // The parser refused what is above MAX_ERASE_COUNT.
        Ok(Some(Ec { erase_count: Some(header.erase_count as u32), scrub, flips: false }))
    }

    fn add_empty(&mut self, pnum: u32) {
        self.empty += 1;
        self.unknown.push(pnum);
        self.pebs[pnum as usize].state = PebState::Pending;
    }

    /// A PEB to erase before others.
    fn erase_first(&mut self, pnum: u32) {
        self.pebs[pnum as usize].state = PebState::Pending;
        self.erase.push_front(pnum);
    }

    fn erase_last(&mut self, pnum: u32) {
        self.pebs[pnum as usize].state = PebState::Pending;
        self.erase.push_back(pnum);
    }

    /// A corrupt VID header: a power cut's work is erased, anything else is kept.
    fn add_corrupt<M: Mtd>(
        &mut self,
        io: &mut Io<M>,
        pnum: u32,
        ec: &Ec,
        flips: bool,
    ) -> Result<(), AttachFault> {
        self.doubtful = true;
        if ec.erase_count.is_none() {
            let both = flips && ec.flips;
            self.maybe_bad += u32::from(both);
            self.strange += u32::from(!both);
        }
        if ec.erase_count.is_some() && holds_data(io, pnum)? {
            self.corrupted += 1;
            self.pebs[pnum as usize].state = PebState::Corrupted;
        } else {
            self.erase_first(pnum);
        }
        Ok(())
    }

    /// A PEB with a VID header.
    fn add<M: Mtd>(&mut self, io: &mut Io<M>, found: Found) -> Result<(), AttachFault> {
        let (pnum, id) = (found.pnum, found.header.volume_id);
        let peb = &mut self.pebs[pnum as usize];
        peb.leb = Some(found.leb());
        let known = [LAYOUT_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, FASTMAP_DATA_VOLUME].contains(&id);
        if found.header.is_internal() && !known {
            match found.header.compat {
                Compat::Delete => {
                    self.erase_first(pnum);
                    return Ok(());
                }
                Compat::Preserve => {
                    peb.state = PebState::Alien;
                    self.alien += 1;
                    return Ok(());
                }
                Compat::ReadOnly => {
                    io.read_only.get_or_insert(ReadOnlyReason::InternalVolume(id));
                }
                _ => return Err(AttachFault::UnknownInternalVolume { id, pnum }),
            }
        }
        if id == FASTMAP_SUPERBLOCK_VOLUME || id == FASTMAP_DATA_VOLUME {
            peb.state = PebState::Fastmap;
            self.fastmap.push(found);
            return Ok(());
        }
        peb.state = PebState::Used;
        self.max_sqnum = self.max_sqnum.max(found.header.sqnum);
        self.found.push(found);
        Ok(())
    }

    /// Decides which PEB holds each LEB, and gives PEBs of unknown wear the mean of the others.
    pub(super) fn settle<M: Mtd>(&mut self, io: &mut Io<M>) -> Result<(), AttachFault> {
        self.check_corrupted(io.pebs)?;
        let mean = self.mean_erase_count();
        for pnum in std::mem::take(&mut self.unknown) {
            self.pebs[pnum as usize].erase_count = mean;
        }
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable_by_key(|found| (found.leb(), found.pnum));
        for next in found {
            match self.found.last().copied().filter(|last| last.leb() == next.leb()) {
                None => self.found.push(next),
                Some(last) => self.resolve(io, last, next)?,
            }
        }
        Ok(())
    }

    /// Adds an erase counter to the mean.
    pub(super) fn know(&mut self, erase_count: u32) {
        self.known.0 += 1;
        self.known.1 += u64::from(erase_count);
    }

    /// Mean of the erase counters that are known.
    pub(super) fn mean_erase_count(&self) -> u32 {
        self.known.1.checked_div(self.known.0).unwrap_or(0) as u32
    }

    fn check_corrupted(&self, pebs: u32) -> Result<(), AttachFault> {
        let usable = pebs.saturating_sub(self.bad + self.alien);
        let max = if usable < 20 { 8 } else { usable / 20 };
        if self.corrupted >= max {
            return Err(AttachFault::TooManyCorrupted { count: self.corrupted, max });
        }
        Ok(())
    }

    /// Two PEBs claim a LEB: the newer counts, unless it is a copy that was cut off.
    fn resolve<M: Mtd>(&mut self, io: &mut Io<M>, first: Found, second: Found) -> Result<(), AttachFault> {
        if first.header.sqnum == second.header.sqnum {
            let LebId { volume: id, lnum } = first.leb();
            return Err(AttachFault::SameSequence { first: first.pnum, second: second.pnum, id, lnum });
        }
        let (old, mut new) =
            if first.header.sqnum < second.header.sqnum { (first, second) } else { (second, first) };
        let whole = !new.header.is_copy() || is_whole(io, &mut new)?;
        let (winner, loser) = if whole { (new, old) } else { (old, new) };
        if whole {
            self.erase_last(loser.pnum);
        } else {
            self.erase_first(loser.pnum);
        }
        if let Some(last) = self.found.last_mut() {
            *last = winner;
        }
        Ok(())
    }

    /// Drops the LEBs of volumes that `keep` refuses; their PEBs are erased.
    pub(super) fn drop_unless(&mut self, keep: impl Fn(u32) -> bool) {
        let (kept, dropped) = std::mem::take(&mut self.found)
            .into_iter()
            .partition::<Vec<_>, _>(|found| keep(found.header.volume_id));
        self.found = kept;
        dropped.iter().for_each(|found| self.erase_last(found.pnum));
    }
}

/// Whether all data of a copy are there.
fn is_whole<M: Mtd>(io: &mut Io<M>, copy: &mut Found) -> Result<bool, UbiError> {
    let mut data = io.take_scratch();
    data.resize(copy.header.data_size as usize, 0);
    let quality = io.read_data(copy.pnum, 0, &mut data);
    let whole = crc::ubi(&data) == copy.header.data_crc;
    io.put_scratch(data);
    copy.scrub |= whole && !quality?.is_good();
    Ok(whole)
}

/// Whether a PEB with a corrupt VID header holds data that no power cut explains: data without a wrong bit.
fn holds_data<M: Mtd>(io: &mut Io<M>, pnum: u32) -> Result<bool, UbiError> {
    let mut data = io.take_scratch();
    data.resize(io.leb_bytes() as usize, 0);
    let quality = io.read_data(pnum, 0, &mut data);
    let erased = is_filled(&data, 0xFF);
    io.put_scratch(data);
    Ok(quality?.is_good() && !erased)
}
