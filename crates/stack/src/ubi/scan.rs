//! Reading and classifying the headers of all PEBs (Linux: the first half of `attach.c`).

use super::io::{DynIo, Header, Quality, impossible, is_filled};
use super::pebs::{LebId, NO_PEB, Peb, PebState};
use super::verdict::{Claim, GuessedVid, HeaderState, PebVerdict};
use super::{AttachFault, ReadOnlyReason, UbiError};
use floatgate_media::crc;
use floatgate_media::ubi::{
    Compat, EcHeader, FASTMAP_DATA_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, LAYOUT_VOLUME, VidHeader,
};

use std::borrow::Borrow;

/// Number of times that a corrupt header is read again before its PEB is set aside.
const PATIENCE: u32 = 8;

/// Maximum number of damaged VID headers that are guessed in a scan.
const GUESSES_MAX: u32 = 1024;

/// A PEB that claims a LEB.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimedPeb {
    pub(super) pnum: u32,
    pub(super) header: VidHeader,
    /// True after bitflips: the LEB needs scrubbing.
    pub(super) scrub: bool,
}

impl ClaimedPeb {
    pub(super) const fn leb(&self) -> LebId {
        LebId { volume: self.header.volume_id, lnum: self.header.lnum }
    }
}

/// Result of a scan.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    pub(super) pebs: Vec<Peb>,
    /// PEBs that claim LEBs; after [`resolve_lebs`](Self::resolve_lebs) one per LEB, sorted by volume and LEB.
    pub(super) found: Vec<ClaimedPeb>,
    /// PEBs to erase before anything is written: they may read differently next time.
    pub(super) urgent: Vec<u32>,
    /// PEBs to erase later, in order.
    pub(super) erase: Vec<u32>,
    /// Last written LEB.
    pub(super) last: Option<LebId>,
    /// Data of the last written LEB, if it is a copy and the PEB it replaces still exists.
    pub(super) last_copy: Option<Vec<u8>>,
    /// PEBs of fastmaps.
    pub(super) fastmap: Vec<ClaimedPeb>,
    pub(super) bad: u32,
    pub(super) corrupted: u32,
    pub(super) alien: u32,
    /// Number of erased PEBs without an EC header.
    pub(super) empty: u32,
    /// Number of PEBs with uncorrectable bit errors in both headers.
    pub(super) maybe_bad: u32,
    /// Number of PEBs with other data in place of both headers.
    pub(super) strange: u32,
    pub(super) max_sqnum: u64,
    /// Number of PEBs with known erase counters, and the sum of these.
    known: (u64, u64),
    unknown: Vec<u32>,
    /// True after bit errors in the header of an erased area: a fastmap must not be trusted.
    pub(super) doubtful: bool,
    /// Refuses no device: faults are recorded, with a verdict on every PEB.
    pub(super) forgiving: bool,
    pub(super) faults: Vec<AttachFault>,
    pub(super) verdicts: Vec<PebVerdict>,
    /// Number of damaged VID headers that may still be guessed: guessing takes time, and more of them add nothing.
    guesses_left: u32,
}

/// Erase counter and state of a PEB from its EC header.
struct Ec {
    erase_count: Option<u32>,
    scrub: bool,
    /// True if the header exists but cannot be read because of bit errors.
    flips: bool,
    /// True if it is invalid, or of another image: the PEB counts only if no other PEB claims its LEB.
    doubtful: bool,
}

impl Scan {
    pub(super) fn new(pebs: u32) -> Self {
        Self { pebs: vec![NO_PEB; pebs as usize], ..Self::default() }
    }

    /// Creates a scan that refuses no device.
    pub(super) fn forgiving(pebs: u32) -> Self {
        let verdicts = Vec::with_capacity(pebs as usize);
        Self { forgiving: true, guesses_left: GUESSES_MAX, verdicts, ..Self::new(pebs) }
    }

    /// Reads the headers of these PEBs.
    pub(super) fn read(&mut self, io: &mut DynIo<'_>, pebs: std::ops::Range<u32>) -> Result<(), AttachFault> {
        for pnum in pebs {
            self.read_peb(io, pnum)?;
        }
        Ok(())
    }

    /// Returns the fault as an error, or records it in a forgiving scan.
    pub(super) fn refuse(&mut self, fault: AttachFault) -> Result<(), AttachFault> {
        if !self.forgiving {
            return Err(fault);
        }
        self.faults.push(fault);
        Ok(())
    }

    /// Reads the headers of a PEB.
    pub(super) fn read_peb(&mut self, io: &mut DynIo<'_>, pnum: u32) -> Result<(), AttachFault> {
        if io.is_bad(pnum)? {
            self.bad += 1;
            return if self.forgiving { self.note_bad(io, pnum) } else { Ok(()) };
        }
        let found = io.read_ec(pnum)?;
        let is_erased = matches!(found, Header::Erased | Header::ErasedFlips);
        let ec = self.judge_ec(io, pnum, &found)?;
        if is_erased && !self.forgiving {
            return Ok(());
        }
        let vid = io.read_vid(pnum)?;
        if self.forgiving {
            self.note(io, pnum, &found, &vid)?;
        }
        if is_erased {
            return Ok(());
        }
        self.judge_vid(io, pnum, &ec, vid)
    }

    /// Records a verdict on a PEB.
    fn note(
        &mut self,
        io: &mut DynIo<'_>,
        pnum: u32,
        ec: &Header<EcHeader>,
        vid: &Header<VidHeader>,
    ) -> Result<(), AttachFault> {
        let (ec, vid) = (ec.state(), vid.state());
        let damaged_vid = matches!(vid, HeaderState::Damaged(_));
        let in_doubt = damaged_vid || matches!((ec, vid), (HeaderState::Damaged(_), HeaderState::Erased));
        let has_data = in_doubt && holds_data(io, pnum)?;
        let mut guess = None;
        if damaged_vid && has_data && self.guesses_left > 0 {
            self.guesses_left -= 1;
            guess =
                GuessedVid::of(io.vid_bytes(pnum)?).filter(|guess| guess.header.check(&io.geometry).is_ok());
        }
        self.verdicts.push(PebVerdict { ec, vid, guess, has_data, claim: Claim::None });
        Ok(())
    }

    /// Records a verdict on a PEB that is marked bad: it may still hold the only copy of a LEB.
    fn note_bad(&mut self, io: &mut DynIo<'_>, pnum: u32) -> Result<(), AttachFault> {
        let guess = match io.read_vid(pnum)? {
            Header::Found(header, _) => Some(GuessedVid { header, by_crc: false }),
            _ => None,
        };
        let (ec, vid) = (HeaderState::BadBlock, HeaderState::BadBlock);
        self.verdicts.push(PebVerdict { ec, vid, guess, has_data: false, claim: Claim::None });
        Ok(())
    }

    /// Evaluates an EC header and records the erase counter.
    fn judge_ec(
        &mut self,
        io: &mut DynIo<'_>,
        pnum: u32,
        found: &Header<EcHeader>,
    ) -> Result<Ec, AttachFault> {
        let mut ec = Ec { erase_count: None, scrub: true, flips: false, doubtful: false };
        match *found {
            Header::Found(header, flips) => {
                ec.scrub = flips;
                ec.doubtful = !self.is_of_image(io, pnum, header.image_seq)?;
                // The parser already refused counters above MAX_ERASE_COUNT, so the value fits.
                ec.erase_count = Some(header.erase_count as u32).filter(|_| !ec.doubtful);
            }
            Header::Erased => {
                self.add_empty(pnum);
                self.erase.push(pnum);
                return Ok(ec);
            }
            Header::ErasedFlips => {
                self.add_empty(pnum);
                self.urgent.push(pnum);
                return Ok(ec);
            }
            Header::Corrupt(_) => {}
            Header::CorruptFlips(_) => ec.flips = true,
            Header::Impossible(error) => {
                self.refuse(impossible(pnum, "EC header", error).into())?;
                ec.doubtful = true;
            }
        }
        match ec.erase_count {
            Some(count) => self.know(count),
            None => self.unknown.push(pnum),
        }
        self.pebs[pnum as usize].erase_count = ec.erase_count.unwrap_or(0);
        Ok(ec)
    }

    /// True if an image sequence number matches the device's, or is 0.
    fn is_of_image(&mut self, io: &mut DynIo<'_>, pnum: u32, found: u32) -> Result<bool, AttachFault> {
        let expected = io.image_seq;
        if expected == 0 {
            io.image_seq = found;
        } else if found != 0 && found != expected {
            self.refuse(AttachFault::ImageSeq { pnum, found, expected })?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Evaluates a VID header after an EC header that is not erased.
    fn judge_vid(
        &mut self,
        io: &mut DynIo<'_>,
        pnum: u32,
        ec: &Ec,
        vid: Header<VidHeader>,
    ) -> Result<(), AttachFault> {
        let (flips, is_impossible) = match vid {
            Header::Found(mut header, flips) => {
                let scrub = ec.scrub || flips;
                if ec.doubtful {
                    header.sqnum = 0;
                }
                return self.add(io, ClaimedPeb { pnum, header, scrub });
            }
            Header::Erased if !ec.scrub => {
                self.pebs[pnum as usize].state = PebState::Free;
                return Ok(());
            }
            Header::Erased | Header::ErasedFlips => {
                self.erase_first(pnum);
                return Ok(());
            }
            Header::Impossible(error) => {
                self.refuse(impossible(pnum, "VID header", error).into())?;
                (false, true)
            }
            Header::Corrupt(_) => (false, false),
            Header::CorruptFlips(_) => (true, false),
        };
        self.note_nameless(pnum, is_impossible);
        self.add_corrupt(io, pnum, ec, flips)
    }

    fn add_empty(&mut self, pnum: u32) {
        self.empty += 1;
        self.unknown.push(pnum);
        self.pebs[pnum as usize].state = PebState::Pending;
    }

    /// Queues a PEB to be erased before others.
    pub(super) fn erase_first(&mut self, pnum: u32) {
        self.pebs[pnum as usize].state = PebState::Pending;
        self.urgent.push(pnum);
    }

    pub(super) fn erase_last(&mut self, pnum: u32) {
        self.pebs[pnum as usize].state = PebState::Pending;
        self.erase.push(pnum);
    }

    /// Records a PEB with data of an unknown LEB. An invalid header with a good CRC was already reported.
    fn note_nameless(&mut self, pnum: u32, is_impossible: bool) {
        let corrected = |peb: &PebVerdict| peb.guess.is_some_and(|guess| guess.by_crc);
        if self.verdicts.last().is_some_and(|peb| peb.has_data && !corrected(peb)) && !is_impossible {
            self.faults.push(AttachFault::DamagedHeaders { pnum });
        }
    }

    /// Handles a corrupt VID header: a PEB interrupted by a power cut is erased, any other is kept.
    fn add_corrupt(
        &mut self,
        io: &mut DynIo<'_>,
        pnum: u32,
        ec: &Ec,
        flips: bool,
    ) -> Result<(), AttachFault> {
        self.doubtful = true;
        if let Some(GuessedVid { header, by_crc: true }) = self.verdicts.last().and_then(|peb| peb.guess) {
            return self.add(io, ClaimedPeb { pnum, header, scrub: true });
        }
        if ec.erase_count.is_none() {
            let both = flips && ec.flips;
            self.maybe_bad += u32::from(both);
            self.strange += u32::from(!both);
        }
        if ec.erase_count.is_none() || !holds_data(io, pnum)? {
            self.erase_first(pnum);
            return Ok(());
        }
        // An erase that a power cut interrupted immediately may leave a header that reads well only sometimes.
        for _ in 0..PATIENCE {
            if let Header::Found(header, _) = io.read_vid(pnum)? {
                return self.add(io, ClaimedPeb { pnum, header, scrub: true });
            }
        }
        self.corrupted += 1;
        self.pebs[pnum as usize].state = PebState::Corrupted;
        Ok(())
    }

    /// Adds a PEB with a VID header.
    fn add(&mut self, io: &mut DynIo<'_>, found: ClaimedPeb) -> Result<(), AttachFault> {
        let (pnum, id) = (found.pnum, found.header.volume_id);
        let peb = &mut self.pebs[pnum as usize];
        peb.leb = Some(found.leb());
        let known = [LAYOUT_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, FASTMAP_DATA_VOLUME].contains(&id);
        if found.header.is_internal() && !known {
            match found.header.compat {
                Compat::Delete => {
                    self.erase_last(pnum);
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
                _ => {
                    self.refuse(AttachFault::UnknownInternalVolume { id, pnum })?;
                    let peb = &mut self.pebs[pnum as usize];
                    peb.state = PebState::Alien;
                    self.alien += 1;
                    return Ok(());
                }
            }
        }
        if id == FASTMAP_SUPERBLOCK_VOLUME || id == FASTMAP_DATA_VOLUME {
            peb.state = PebState::Fastmap;
            self.fastmap.push(found);
            return Ok(());
        }
        peb.state = PebState::Used;
        self.add_leb(found);
        Ok(())
    }

    /// Adds a PEB that claims a LEB.
    pub(super) fn add_leb(&mut self, found: ClaimedPeb) {
        if found.header.sqnum > self.max_sqnum {
            self.max_sqnum = found.header.sqnum;
            self.last = Some(found.leb());
        }
        self.found.push(found);
    }

    /// Decides which PEB holds each LEB.
    pub(super) fn resolve_lebs(&mut self, io: &mut DynIo<'_>) -> Result<(), AttachFault> {
        self.check_corrupted(io.pebs)?;
        let found = self.sorted_claims();
        for claims in found.chunk_by(|a, b| a.leb() == b.leb()) {
            self.resolve_leb(io, claims)?;
        }
        Ok(())
    }

    /// Removes and returns the PEBs that claim LEBs, sorted by LEB, the newest first. PEBs with unknown erase counter
    /// get the mean.
    pub(super) fn sorted_claims(&mut self) -> Vec<ClaimedPeb> {
        let mean = self.mean_erase_count();
        for pnum in std::mem::take(&mut self.unknown) {
            self.pebs[pnum as usize].erase_count = mean;
        }
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable_by_key(|found| (found.leb(), u64::MAX - found.header.sqnum, found.pnum));
        found
    }

    /// Adds an erase counter to the mean.
    pub(super) fn know(&mut self, erase_count: u32) {
        self.known.0 += 1;
        self.known.1 += u64::from(erase_count);
    }

    /// Mean of the known erase counters.
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

    /// Chooses the PEB of a LEB among `claims`, the newest first: the newest one, unless it is an incomplete copy.
    fn resolve_leb(&mut self, io: &mut DynIo<'_>, claims: &[ClaimedPeb]) -> Result<(), AttachFault> {
        check_sequence(claims)?;
        for (index, &claim) in claims.iter().enumerate() {
            let older = &claims[index + 1..];
            if older.is_empty() || !claim.header.is_copy() {
                self.win(claim, older);
                break;
            }
            let mut claim = claim;
            let data = read_copy(io, &mut claim)?;
            if data.is_some() {
                self.win(claim, older);
                if self.last == Some(claim.leb()) {
                    self.last_copy = data;
                }
                break;
            }
            self.erase_first(claim.pnum);
        }
        Ok(())
    }

    fn win(&mut self, claim: ClaimedPeb, older: &[ClaimedPeb]) {
        self.found.push(claim);
        older.iter().for_each(|loser| self.erase_last(loser.pnum));
    }

    /// Drops the LEBs of volumes rejected by `keep`; their PEBs are erased.
    pub(super) fn drop_unless(&mut self, keep: impl Fn(u32) -> bool) {
        let (kept, dropped) = std::mem::take(&mut self.found)
            .into_iter()
            .partition::<Vec<_>, _>(|found| keep(found.header.volume_id));
        self.found = kept;
        dropped.iter().for_each(|found| self.erase_last(found.pnum));
    }
}

/// Returns an error if two PEBs have the same sequence number, which no single device writes.
pub(super) fn check_sequence(claims: &[impl Borrow<ClaimedPeb>]) -> Result<(), AttachFault> {
    let mut pairs = claims.windows(2).map(|pair| (pair[0].borrow(), pair[1].borrow()));
    match pairs.find(|(one, other)| one.header.sqnum == other.header.sqnum) {
        Some((one, other)) => {
            let LebId { volume: id, lnum } = one.leb();
            Err(AttachFault::SameSequence { first: one.pnum, second: other.pnum, id, lnum })
        }
        None => Ok(()),
    }
}

/// Data of a copy, if it reads completely and reliably. Linux reads it once, but a half-programmed page that is
/// readable only sometimes would then pass as a complete copy, and the original would be erased.
pub(super) fn read_copy(io: &mut DynIo<'_>, copy: &mut ClaimedPeb) -> Result<Option<Vec<u8>>, UbiError> {
    let mut data = vec![0; copy.header.data_size as usize];
    let quality = io.read_steady(copy.pnum, 0, &mut data)?;
    if quality == Quality::Damaged || crc::ubi(&data) != copy.header.data_crc {
        return Ok(None);
    }
    copy.scrub |= !quality.is_good();
    Ok(Some(data))
}

/// True if a PEB with a corrupt VID header holds data that no power cut explains: data without bit errors.
fn holds_data(io: &mut DynIo<'_>, pnum: u32) -> Result<bool, UbiError> {
    let mut data = io.take_scratch();
    data.resize(io.leb_bytes() as usize, 0);
    let quality = io.read_data(pnum, 0, &mut data);
    let erased = is_filled(&data, 0xFF);
    io.put_scratch(data);
    Ok(quality?.is_good() && !erased)
}
