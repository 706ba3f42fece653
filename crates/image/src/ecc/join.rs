//! Dumps of two chips that a board uses as one: the order in which their bytes, pages or blocks alternate, and the joined dump.
//!
//! Each order is tried on parts of the dumps. Structures with a CRC-32 of UBI, UBIFS and JFFS2 tell: one that is longer than 512 bytes is
//! whole only in the right order. Random bytes match a CRC in one of 2^32 cases. Where no such structure is found, the ECC of pages tells that
//! bytes alternate. Blocks that alternate show in the numbers of the LEBs of UBI.

use super::merge::Likeness;
use super::{Detector, Dump, EccError, PageGeometry, sample};
use crate::ImageError;
use crate::dump_kind::SHAPES;
use floatgate_files::{File, FileExt};
use floatgate_media::jffs2::{Body, Endian, Header};
use floatgate_media::ubi::{EcHeader, ReadFlips, VidHeader};
use floatgate_media::ubifs::Frame;
use memchr::memmem;
use rayon::prelude::*;
use serde::Serialize;
use std::io::{self, Read, Write};

/// Bytes of a dump that are looked at together, at most.
const WINDOW: u64 = 4 << 20;

/// Places of the dumps that are looked at.
const WINDOWS: u64 = 4;

/// Bytes that every order but those of single bytes leaves together. Structures within them tell nothing.
const GRANULE: usize = 512;

/// Evidence of a structure whose CRC-32 is right, in bits.
const CRC_BITS: f64 = 32.0;

/// Evidence of a structure whose header is good, and whose CRC is wrong, in bits: in the right order one of twenty is damaged.
const BROKEN_BITS: f64 = -4.3;

/// Evidence of two PEBs in a row whose LEBs follow each other, in bits: a device has 16 PEBs or more.
const SEQUENCE_BITS: f64 = 4.0;

/// Evidence from which an order is believed, in bits: two structures. By chance one of some 30 orders reaches it in less than one of 2^50 pairs.
const BELIEVED_BITS: f64 = 60.0;

/// Evidence of a whole structure, and of a broken one, that an order leaves half of them whole by chance, in bits: 0.5 against 0.95, and against 0.05.
const HALF_WHOLE_BITS: f64 = -0.93;
const HALF_BROKEN_BITS: f64 = 3.32;

/// Evidence before any structure that dumps are of two chips of a board, in bits: one pair of a thousand is not.
const PAIR_BITS: f64 = 10.0;

/// Bytes of a page that is compared, where its size is not known.
const PAGE: usize = 2048;

/// Confidence above which an order is taken: it is likelier than all others together.
const LEAST_CONFIDENCE: f64 = 0.5;

/// Number of whole structures for each broken one, below which pages with OOB of usual sizes are tried.
const BROKEN_SHARE: u64 = 8;

/// Data bytes of pages, and pages of blocks, that are tried.
const PAGES: [u32; 5] = [512, 2048, 4096, 8192, 16384];
const BLOCKS: [u32; 4] = [32, 64, 128, 256];

/// Most bytes of a structure: the largest node of JFFS2 and UBIFS has a page of data and its header.
const LONGEST: usize = 16 << 10;

/// Bytes that are copied at a time.
const COPIED: usize = 1 << 20;

/// Part of a chip that alternates with the same part of the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StripeUnit {
    /// Single bytes: two chips of 8 bits on a bus of 16.
    Byte,
    /// Pairs of bytes: two chips of 16 bits on a bus of 32.
    Word,
    /// Pages that alternate.
    Page,
    /// Blocks that alternate.
    Block,
    /// The whole chip: one follows the other.
    Chip,
}

/// Order of the parts of two chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Striping {
    /// Part that alternates.
    pub stripe: StripeUnit,
    /// Its bytes in the dump of a chip, OOB included.
    pub unit_bytes: u64,
    /// Number of the dump that comes first: 1 or 2.
    pub first: u8,
}

/// The order of two dumps, as it was found.
#[derive(Clone, Debug, Serialize)]
pub struct JoinFound {
    /// The best order.
    #[serde(skip)]
    pub striping: Striping,
    /// Logarithm to base 2 of how much likelier the structures are in this order than by chance.
    pub evidence_bits: f64,
    /// Share of this order among all that were tried, each as likely as the other before.
    pub confidence: f64,
    /// Structures that are whole in this order, and longer than what all orders leave together.
    pub structures: u64,
    /// Structures that are not whole.
    pub broken: u64,
    /// The next best order, if anything speaks for it.
    pub runner_up: Option<JoinRunnerUp>,
    /// Orders that were tried.
    pub tried: u64,
    /// Pages with OOB, where the dumps have some.
    #[serde(skip)]
    pub geometry: Option<PageGeometry>,
}

/// The next best order.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct JoinRunnerUp {
    /// Order of the parts.
    #[serde(flatten)]
    pub striping: Striping,
    /// Its evidence.
    pub evidence_bits: f64,
}

/// Dump of a chip, or the part of a file with it.
#[derive(Clone, Copy, Debug)]
pub struct ChipDump<'f> {
    /// File with the dump.
    pub file: &'f File,
    /// First byte of the dump in the file.
    pub offset: u64,
    /// Bytes of the dump.
    pub len: u64,
}

impl ChipDump<'_> {
    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, EccError> {
        let len = self.len.saturating_sub(at).min(len);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let offset = self.offset + at;
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| EccError::Read { offset, error })?;
        Ok(bytes)
    }
}

/// Finds the order of the dumps of two chips. `geometry` is the shape of their pages, if these are known to have OOB.
///
/// # Errors
/// Both dumps are of one chip; no order is believed, or none is likelier than all others together; a dump cannot be read.
pub fn find(dumps: [ChipDump<'_>; 2], geometry: Option<&PageGeometry>) -> Result<JoinFound, EccError> {
    require_two_chips(dumps, geometry)?;
    let mut geometry = geometry.cloned();
    let mut weighed = weigh(dumps, geometry.as_ref(), None)?;
    if geometry.is_none()
        && let Some(usual) = usual_pages(dumps, &weighed)?
    {
        weighed = weigh(dumps, Some(&usual), None)?;
        geometry = Some(usual);
    }
    if weighed.iter().all(|(_, evidence)| evidence.bits < BELIEVED_BITS)
        && let Some(geometry) = &geometry
    {
        for (striping, evidence) in &mut weighed {
            evidence.bits += ecc_bits(dumps, *striping, geometry)?;
        }
    }
    // Of equals the first.
    let mut order: Vec<usize> = (0..weighed.len()).collect();
    order.sort_by(|one, other| weighed[*other].1.bits.total_cmp(&weighed[*one].1.bits));
    let best = order.first().and_then(|at| weighed.get(*at));
    let Some((striping, evidence)) = best.filter(|(_, evidence)| evidence.bits >= BELIEVED_BITS) else {
        return Err(EccError::NoOrder { tried: weighed.len() });
    };
    let others = order.iter().skip(1).map(|at| weighed[*at].1.bits);
    let others = others.map(|bits| bits - evidence.bits);
    let against = others.chain(evidence.half_whole.map(|bits| bits - PAIR_BITS));
    let against = against.map(|bits| libm::exp2(bits.clamp(-1000.0, 1000.0))).sum::<f64>();
    let confidence = libm::floor(1e6 / (1.0 + against)).min(999_999.0) / 1e6;
    if confidence <= LEAST_CONFIDENCE {
        return Err(EccError::NoOrder { tried: weighed.len() });
    }
    let second = order.get(1).map(|at| &weighed[*at]).filter(|(_, evidence)| evidence.bits > 0.0);
    let runner_up = second.map(|(striping, evidence)| JoinRunnerUp {
        striping: *striping,
        evidence_bits: libm::round(evidence.bits),
    });
    Ok(JoinFound {
        striping: *striping,
        evidence_bits: libm::round(evidence.bits),
        confidence,
        structures: evidence.whole,
        broken: evidence.broken,
        runner_up,
        tried: weighed.len() as u64,
        geometry,
    })
}

/// Weighs the orders of two dumps, or those of one kind.
fn weigh(
    dumps: [ChipDump<'_>; 2],
    geometry: Option<&PageGeometry>,
    only: Option<StripeUnit>,
) -> Result<Vec<(Striping, Evidence)>, EccError> {
    let windows = windows(dumps, geometry)?;
    let mut orders = orders(dumps, geometry);
    orders.retain(|order| only.is_none_or(|only| order.stripe == only));
    Ok(orders.par_iter().map(|striping| (*striping, Evidence::of(striping, &windows, geometry))).collect())
}

/// Usual pages with OOB which explain more than all orders without OOB. OOB between the data leaves only short structures whole.
fn usual_pages(
    dumps: [ChipDump<'_>; 2],
    weighed: &[(Striping, Evidence)],
) -> Result<Option<PageGeometry>, EccError> {
    let best =
        weighed.iter().map(|(_, evidence)| *evidence).max_by(|one, other| one.bits.total_cmp(&other.bits));
    let best = best.unwrap_or_default();
    if best.bits >= BELIEVED_BITS && best.broken * BROKEN_SHARE <= best.whole {
        return Ok(None);
    }
    let (mut most, mut found) = (best.bits.max(BELIEVED_BITS), None);
    for (page, oob) in SHAPES {
        let geometry = PageGeometry::new(page, oob, None)?;
        for (_, evidence) in weigh(dumps, Some(&geometry), Some(StripeUnit::Page))? {
            if evidence.bits > most {
                (most, found) = (evidence.bits, Some(geometry.clone()));
            }
        }
    }
    Ok(found)
}

/// Writes two dumps in an order. What the longer dump has more is left out; the numbers of bytes that are written, and left out.
///
/// # Errors
/// Reading and writing fail.
pub fn join(
    dumps: [ChipDump<'_>; 2],
    striping: Striping,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<(u64, u64), EccError> {
    let [first, second] = ordered(dumps, striping);
    let mut written = 0;
    let mut write = |bytes: &[u8]| -> Result<(), EccError> {
        out.write_all(bytes).map_err(|error| EccError::Write { offset: written, error })?;
        written += bytes.len() as u64;
        progress(written);
        Ok(())
    };
    if striping.stripe == StripeUnit::Chip {
        for dump in [first, second] {
            for at in (0..dump.len).step_by(COPIED) {
                write(&dump.read(at, COPIED as u64)?)?;
            }
        }
        return Ok((written, 0));
    }
    let unit = striping.unit_bytes.max(1);
    let common = first.len.min(second.len) / unit * unit;
    let chunk = (COPIED as u64 / unit).max(1) * unit;
    let mut at = 0;
    while at < common {
        let len = chunk.min(common - at);
        write(&alternate(&first.read(at, len)?, &second.read(at, len)?, unit))?;
        at += len;
    }
    Ok((written, first.len + second.len - 2 * common))
}

const fn ordered(dumps: [ChipDump<'_>; 2], striping: Striping) -> [ChipDump<'_>; 2] {
    let [one, other] = dumps;
    if striping.first == 2 { [other, one] } else { [one, other] }
}

/// Parts of two pieces, alternately.
fn alternate(first: &[u8], second: &[u8], unit: u64) -> Vec<u8> {
    let unit = usize::try_from(unit).unwrap_or(usize::MAX).max(1);
    let pairs = first.chunks(unit).zip(second.chunks(unit));
    let mut out = Vec::with_capacity(first.len() + second.len());
    for (one, other) in pairs {
        out.extend_from_slice(one);
        out.extend_from_slice(other);
    }
    out
}

/// The orders that are tried.
fn orders(dumps: [ChipDump<'_>; 2], geometry: Option<&PageGeometry>) -> Vec<Striping> {
    let pages: Vec<u64> = match geometry {
        Some(geometry) => vec![geometry.full_page().into()],
        None => PAGES.map(u64::from).to_vec(),
    };
    let mut blocks: Vec<u64> =
        pages.iter().flat_map(|page| BLOCKS.map(|count| u64::from(count) * page)).collect();
    if let Some(count) = geometry.and_then(|geometry| geometry.pages_per_block) {
        blocks = pages.iter().map(|page| u64::from(count) * page).collect();
    }
    blocks.sort_unstable();
    blocks.dedup();
    let shortest = dumps[0].len.min(dumps[1].len);
    let units = [(StripeUnit::Byte, 1), (StripeUnit::Word, 2)].into_iter();
    let units = units.chain(pages.into_iter().map(|bytes| (StripeUnit::Page, bytes)));
    // Blocks as large as a window look like one chip after the other.
    let blocks = blocks.into_iter().filter(|bytes| 2 * bytes <= window_bytes(geometry));
    let units = units.chain(blocks.map(|bytes| (StripeUnit::Block, bytes)));
    let both = units
        .filter(|(_, bytes)| *bytes <= shortest)
        .flat_map(|(stripe, unit_bytes)| [1, 2].map(|first| Striping { stripe, unit_bytes, first }));
    let chip = Striping { stripe: StripeUnit::Chip, unit_bytes: dumps[0].len, first: 1 };
    std::iter::once(chip).chain(both).collect()
}

/// Bytes of a window, in a whole number of blocks.
fn window_bytes(geometry: Option<&PageGeometry>) -> u64 {
    geometry.map_or(WINDOW, |geometry| 2 * u64::from(geometry.full_page()) * u64::from(BLOCKS[3]))
}

/// The same parts of both dumps, each from a block's start on.
fn windows(dumps: [ChipDump<'_>; 2], geometry: Option<&PageGeometry>) -> Result<Vec<[Vec<u8>; 2]>, EccError> {
    let align = window_bytes(geometry);
    let shortest = dumps[0].len.min(dumps[1].len);
    let places = shortest.div_ceil(align);
    let step = places.div_ceil(WINDOWS).max(1);
    let starts = (0..places).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let window = |place: u64| {
        let len = align.min(shortest - place * align);
        Ok([dumps[0].read(place * align, len)?, dumps[1].read(place * align, len)?])
    };
    starts.map(window).collect()
}

/// Refuses two dumps of one chip.
fn require_two_chips(dumps: [ChipDump<'_>; 2], geometry: Option<&PageGeometry>) -> Result<(), EccError> {
    let page = geometry.map_or(PAGE, |geometry| geometry.full_page() as usize);
    let mut likeness = Likeness::default();
    for [one, other] in windows(dumps, geometry)? {
        for (one, other) in one.chunks(page).zip(other.chunks(page)) {
            likeness.add(Likeness::page(one, other));
        }
    }
    likeness.require_other_chip()
}

/// Evidence for an order.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    bits: f64,
    whole: u64,
    broken: u64,
    /// Evidence that the dumps are no pair in this order, which leaves only half of the structures whole, against the order, in bits.
    half_whole: Option<f64>,
}

impl Evidence {
    fn of(striping: &Striping, windows: &[[Vec<u8>; 2]], geometry: Option<&PageGeometry>) -> Self {
        let (mut all, mut sides) = (Self::default(), [Self::default(); 2]);
        for [one, other] in windows {
            let (first, second) = if striping.first == 2 { (other, one) } else { (one, other) };
            if striping.stripe == StripeUnit::Chip {
                for (side, bytes) in sides.iter_mut().zip([first, second]) {
                    side.add(&without_oob(bytes, striping, geometry), GRANULE);
                }
                continue;
            }
            let granule =
                if matches!(striping.stripe, StripeUnit::Byte | StripeUnit::Word) { 1 } else { GRANULE };
            let joined = alternate(first, second, striping.unit_bytes);
            all.add(&without_oob(&joined, striping, geometry), granule);
        }
        all.half_whole = all.half_whole();
        // Where one chip follows the other, each has to be good alone.
        for side in sides {
            all.bits += side.bits;
            all.whole += side.whole;
            all.broken += side.broken;
            all.half_whole = all.half_whole.into_iter().chain(side.half_whole()).reduce(f64::max);
        }
        all
    }

    /// Evidence that every other structure is whole by chance, if there are structures.
    fn half_whole(&self) -> Option<f64> {
        let bits = self.whole as f64 * HALF_WHOLE_BITS + self.broken as f64 * HALF_BROKEN_BITS;
        (self.whole + self.broken > 0).then_some(bits)
    }

    /// Weighs the structures in a piece of joined data.
    fn add(&mut self, data: &[u8], granule: usize) {
        let tells = |at: usize, end: usize| at / granule != end.saturating_sub(1) / granule;
        let mut count = |at: usize, end: usize, is_whole: bool| {
            if !tells(at, end) {
                return;
            }
            self.whole += u64::from(is_whole);
            self.broken += u64::from(!is_whole);
            self.bits += if is_whole { CRC_BITS } else { BROKEN_BITS };
        };
        for at in memmem::find_iter(data, &floatgate_media::ubifs::NODE_MAGIC).filter(|at| at % 8 == 0) {
            let rest = data.get(at..).unwrap_or(&[]);
            let len =
                rest.get(16..20).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
            if (24..=LONGEST).contains(&len) && len <= rest.len() {
                count(at, at + len, Frame::parse(rest).is_ok());
            }
        }
        for endian in [Endian::Little, Endian::Big] {
            for at in memmem::find_iter(data, &endian.magic()).filter(|at| at % 4 == 0) {
                let rest = data.get(at..).unwrap_or(&[]);
                let Ok(header) = Header::parse(rest, endian) else { continue };
                let Some(node) = usize::try_from(header.len).ok().and_then(|len| rest.get(..len)) else {
                    continue;
                };
                if node.len() <= LONGEST {
                    count(at, at + node.len(), Body::parse(&header, node, endian).is_ok());
                }
            }
        }
        let mut lebs: Vec<(usize, u32, u32)> = Vec::new();
        for at in memmem::find_iter(data, &floatgate_media::ubi::EC_MAGIC).filter(|at| at % 512 == 0) {
            let rest = data.get(at..).unwrap_or(&[]);
            let Ok(header) = EcHeader::parse(rest, ReadFlips::default()) else { continue };
            let offset = header.vid_header_offset as usize;
            let Some(vid) = rest.get(offset..).and_then(|rest| rest.get(..VidHeader::SIZE)) else { continue };
            match VidHeader::parse(vid, ReadFlips::default()) {
                Ok(vid) => {
                    count(at, at + offset + VidHeader::SIZE, true);
                    lebs.push((at, vid.volume_id, vid.lnum));
                }
                // A free PEB has none.
                Err(_) if vid.iter().all(|byte| *byte == 0xFF) => {}
                Err(_) => count(at, at + offset + VidHeader::SIZE, false),
            }
        }
        self.add_sequence(&lebs);
    }

    /// Weighs PEBs in a row whose LEBs follow each other, as a freshly written image has them.
    fn add_sequence(&mut self, lebs: &[(usize, u32, u32)]) {
        let distance = lebs.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap_or(0);
        let follows = |pair: &&[(usize, u32, u32)]| {
            let ((at, volume, lnum), (next, next_volume, next_lnum)) = (pair[0], pair[1]);
            next - at == distance && volume == next_volume && next_lnum == lnum + 1
        };
        let count = lebs.windows(2).filter(follows).count();
        self.bits += count as f64 * SEQUENCE_BITS;
    }
}

/// The data of pages with OOB.
fn without_oob(joined: &[u8], striping: &Striping, geometry: Option<&PageGeometry>) -> Vec<u8> {
    let Some(geometry) = geometry else { return joined.to_vec() };
    let times = if matches!(striping.stripe, StripeUnit::Byte | StripeUnit::Word) { 2 } else { 1 };
    let (page, full_page) = (times * geometry.page_bytes as usize, times * geometry.full_page() as usize);
    joined.chunks(full_page).flat_map(|raw| raw.get(..page.min(raw.len())).unwrap_or(&[])).copied().collect()
}

/// Evidence of the ECC of pages that lie in both chips, in bits.
fn ecc_bits(dumps: [ChipDump<'_>; 2], striping: Striping, geometry: &PageGeometry) -> Result<f64, EccError> {
    if !matches!(striping.stripe, StripeUnit::Byte | StripeUnit::Word) {
        return Ok(0.0);
    }
    let Ok(both) =
        PageGeometry::new(2 * geometry.page_bytes, 2 * geometry.oob_bytes, geometry.pages_per_block)
    else {
        return Ok(0.0);
    };
    let mut reader = JoinedReader {
        dumps: ordered(dumps, striping),
        unit: striping.unit_bytes,
        at: 0,
        ready: Vec::new(),
        given: 0,
    };
    let sampled = match sample(&both, Dump { pages: &mut reader, apart: None }, &mut |_| ()) {
        Err(EccError::AllErased | EccError::TooLittle | EccError::Short { .. } | EccError::Empty) => {
            return Ok(0.0);
        }
        sampled => sampled?,
    };
    let detection = Detector::new(&both, None).detect_known(&sampled);
    let fits = detection.candidates.iter().filter(|candidate| candidate.fits);
    Ok(fits.map(|candidate| candidate.evidence_bits).sum())
}

/// Two dumps in an order, read from start to end.
struct JoinedReader<'f> {
    dumps: [ChipDump<'f>; 2],
    unit: u64,
    at: u64,
    ready: Vec<u8>,
    given: usize,
}

impl Read for JoinedReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            let [first, second] = self.dumps;
            let len = (WINDOW / self.unit.max(1)).max(1) * self.unit;
            let read = |dump: ChipDump<'_>| dump.read(self.at, len).map_err(io::Error::other);
            self.ready = alternate(&read(first)?, &read(second)?, self.unit);
            self.given = 0;
            self.at += len;
        }
        let rest = self.ready.get(self.given..).unwrap_or(&[]);
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

/// The dumps of two chips that follow each other in a file.
///
/// # Errors
/// The length of the file cannot be read, or is not even.
pub fn halves(file: &File) -> Result<[ChipDump<'_>; 2], ImageError> {
    let len = file.metadata().map_err(ImageError::File)?.len() / 2;
    Ok([ChipDump { file, offset: 0, len }, ChipDump { file, offset: len, len }])
}
