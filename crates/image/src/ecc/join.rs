//! Dumps of two chips that a board uses as one: the order in which their bytes, pages or blocks alternate, and the joined dump.
//!
//! Each order is tried on parts of the dumps. Structures with a CRC-32 of UBI, UBIFS and JFFS2 tell: one that is longer than 512 bytes is
//! whole only in the right order. Random bytes match a CRC in one of 2^32 cases. Where no such structure is found, the ECC of pages tells that
//! bytes alternate. Blocks that alternate show in the numbers of the LEBs of UBI.
//!
//! Two dumps of one chip are refused. No two structures of a device are the same: UBI and UBIFS number all that they write, and JFFS2 numbers the
//! nodes of each inode. What is in a joined dump twice tells that it is of one chip.
//!
//! The pages of two planes of one chip may alternate, too. In its dump the blocks of the planes follow each other.

use super::merge::Likeness;
use super::{Detector, Dump, EccError, PageGeometry, sample};
use crate::ImageError;
use crate::pages::SHAPES;
use floatgate_files::{File, FileExt};
use floatgate_media::jffs2::{Body, Endian, Header};
use floatgate_media::ubi::{EcHeader, ReadFlips, VidHeader};
use floatgate_media::ubifs::Frame;
use memchr::memmem;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
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

/// Share of pages that are alike in two dumps of one chip.
const ALIKE: f64 = 0.9;

/// Evidence of a header of a LEB for two dumps of one chip, in bits, if it is in the joined dump twice: UBI never writes a sequence number twice. A
/// header that is there once may be damaged in the other dump.
const LEB_TWICE_BITS: f64 = 10.0;
const LEB_ONCE_BITS: f64 = -4.3;

/// The same of a node, in bits: 0.95 against 0.05. Garbage collection copies nodes as they are, and the old ones are erased later.
const NODE_TWICE_BITS: f64 = 4.2;
const NODE_ONCE_BITS: f64 = -4.2;

/// Bytes of a page that is compared, where its size is not known.
const PAGE: usize = 2048;

/// Bytes at the beginning of a block that have the headers of UBI, and the blocks of each chip whose headers are read.
const HEAD: u64 = 32 << 10;
const HEADS: u64 = 64;

/// Confidence above which an order is taken: it is likelier than all others together.
const LEAST_CONFIDENCE: f64 = 0.5;

/// Number of whole structures for each broken one, below which pages with OOB of usual sizes are tried.
const BROKEN_SHARE: u64 = 8;

/// Data bytes of pages, and pages of blocks, that are tried.
const PAGES: [u32; 5] = [512, 2048, 4096, 8192, 16384];
const BLOCKS: [u32; 4] = [32, 64, 128, 256];

/// Pages of the large blocks of chips with large pages.
const LARGE_BLOCKS: [u32; 5] = [192, 384, 512, 768, 1024];
const LARGE_PAGE: u64 = 8192;

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
    /// Pages of two planes of one chip that alternate, in blocks that alternate in its dump.
    Plane,
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
    /// Number of the dump, or of the plane, that comes first: 1 or 2.
    pub first: u8,
    /// Bytes of a block of a plane, OOB included.
    pub block_bytes: Option<u64>,
}

impl Striping {
    /// Parts of two chips that alternate.
    #[must_use]
    pub const fn of_chips(stripe: StripeUnit, unit_bytes: u64, first: u8) -> Self {
        Self { stripe, unit_bytes, first, block_bytes: None }
    }
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
    /// Bytes of the blocks of which the dump has every other one.
    pub every_other: Option<u64>,
}

impl<'f> ChipDump<'f> {
    /// A part of a file.
    #[must_use]
    pub const fn new(file: &'f File, offset: u64, len: u64) -> Self {
        Self { file, offset, len, every_other: None }
    }

    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, EccError> {
        let len = self.len.saturating_sub(at).min(len);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let mut done = 0;
        while done < bytes.len() {
            let at = at + done as u64;
            let (skipped, left) = match self.every_other {
                Some(block) => (at / block * block, block - at % block),
                None => (0, u64::MAX),
            };
            let offset = self.offset + skipped + at;
            let end = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - done) + done;
            let piece = bytes.get_mut(done..end).unwrap_or_default();
            self.file.read_exact_at(piece, offset).map_err(|error| EccError::Read { offset, error })?;
            done = end;
        }
        Ok(bytes)
    }
}

/// Two halves of a file as one, if they are that.
fn whole<'f>([one, other]: [ChipDump<'f>; 2]) -> Option<ChipDump<'f>> {
    let are_halves = std::ptr::eq(one.file, other.file)
        && one.offset + one.len == other.offset
        && one.every_other.or(other.every_other).is_none();
    are_halves.then_some(ChipDump { len: one.len + other.len, ..one })
}

/// The planes of a chip with blocks of this size.
const fn planes(chip: ChipDump<'_>, block: u64) -> [ChipDump<'_>; 2] {
    let len = chip.len / (2 * block) * block;
    let first = ChipDump { len, every_other: Some(block), ..chip };
    [first, ChipDump { offset: chip.offset + block, ..first }]
}

/// The dumps between whose parts an order alternates: those of the chips, or of the planes.
fn sides<'f>(dumps: [ChipDump<'f>; 2], striping: &Striping) -> [ChipDump<'f>; 2] {
    striping.block_bytes.zip(whole(dumps)).map_or(dumps, |(block, chip)| planes(chip, block.max(1)))
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
    // A chip whose structures are whole has no pages that alternate.
    if !best(&weighed).is_explained() {
        weighed.extend(weigh_planes(dumps, geometry.as_ref())?);
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
    let likeliest = order.first().and_then(|at| weighed.get(*at));
    let Some((striping, evidence)) = likeliest.filter(|(_, evidence)| evidence.bits >= BELIEVED_BITS) else {
        return Err(EccError::NoOrder { tried: weighed.len() });
    };
    let others = order.iter().skip(1).map(|at| weighed[*at].1.bits);
    let others = others.map(|bits| bits - evidence.bits);
    let repeats = Repeats::of(sides(dumps, striping), striping, geometry.as_ref())?;
    if repeats.bits > PAIR_BITS {
        return Err(EccError::Repeats { structures: repeats.structures, twice: repeats.twice });
    }
    let against =
        others.chain(evidence.half_whole.into_iter().chain([repeats.bits]).map(|bits| bits - PAIR_BITS));
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
    let of = |striping: &Striping| (*striping, Evidence::of(striping, &windows, geometry));
    let mut weighed: Vec<(Striping, Evidence)> = orders.par_iter().map(of).collect();
    if only.is_some() {
        return Ok(weighed);
    }
    // Blocks leave together what the chips have together.
    let chip = weighed.iter().find(|(striping, _)| striping.stripe == StripeUnit::Chip);
    let chip = chip.map(|(_, evidence)| *evidence).unwrap_or_default();
    for unit in large_blocks(dumps, geometry) {
        for first in [1, 2] {
            let striping = Striping::of_chips(StripeUnit::Block, unit, first);
            let sequence = sequence_of_heads(dumps, &striping, geometry)?;
            weighed
                .push((striping, Evidence { bits: chip.bits - chip.sequence + sequence, sequence, ..chip }));
        }
    }
    Ok(weighed)
}

/// Weighs the orders of two planes of a chip.
fn weigh_planes(
    dumps: [ChipDump<'_>; 2],
    geometry: Option<&PageGeometry>,
) -> Result<Vec<(Striping, Evidence)>, EccError> {
    let Some(chip) = whole(dumps) else { return Ok(Vec::new()) };
    let mut weighed = Vec::new();
    for (page, block) in pages_and_blocks(geometry).into_iter().filter(|(_, block)| 2 * block <= chip.len) {
        let windows = windows(planes(chip, block), geometry)?;
        for first in [1, 2] {
            let of_pages = Striping::of_chips(StripeUnit::Page, page, first);
            let evidence = Evidence::of(&of_pages, &windows, geometry);
            let striping = Striping { stripe: StripeUnit::Plane, block_bytes: Some(block), ..of_pages };
            weighed.push((striping, evidence));
        }
    }
    Ok(weighed)
}

/// The evidence of the best order.
fn best(weighed: &[(Striping, Evidence)]) -> Evidence {
    let all = weighed.iter().map(|(_, evidence)| *evidence);
    all.max_by(|one, other| one.bits.total_cmp(&other.bits)).unwrap_or_default()
}

/// Usual pages with OOB which explain more than all orders without OOB. OOB between the data leaves only short structures whole.
fn usual_pages(
    dumps: [ChipDump<'_>; 2],
    weighed: &[(Striping, Evidence)],
) -> Result<Option<PageGeometry>, EccError> {
    let best = best(weighed);
    if best.is_explained() {
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
    let [first, second] = ordered(sides(dumps, &striping), striping);
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
    Ok((written, dumps[0].len + dumps[1].len - 2 * common))
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
    let (pages, blocks) = (pages(geometry), blocks(geometry));
    let shortest = dumps[0].len.min(dumps[1].len);
    let units = [(StripeUnit::Byte, 1), (StripeUnit::Word, 2)].into_iter();
    let units = units.chain(pages.into_iter().map(|bytes| (StripeUnit::Page, bytes)));
    // Blocks as large as a window look like one chip after the other.
    let blocks = blocks.into_iter().filter(|bytes| 2 * bytes <= window_bytes(geometry));
    let units = units.chain(blocks.map(|bytes| (StripeUnit::Block, bytes)));
    let both = units
        .filter(|(_, bytes)| *bytes <= shortest)
        .flat_map(|(stripe, unit_bytes)| [1, 2].map(|first| Striping::of_chips(stripe, unit_bytes, first)));
    let chip = Striping::of_chips(StripeUnit::Chip, dumps[0].len, 1);
    std::iter::once(chip).chain(both).collect()
}

/// Bytes of the pages that are tried, OOB included.
fn pages(geometry: Option<&PageGeometry>) -> Vec<u64> {
    match geometry {
        Some(geometry) => vec![geometry.full_page().into()],
        None => PAGES.map(u64::from).to_vec(),
    }
}

/// Bytes of the pages that are tried, each with those of a block.
fn pages_and_blocks(geometry: Option<&PageGeometry>) -> Vec<(u64, u64)> {
    let of_page = |page: u64| {
        let large = if page >= LARGE_PAGE { LARGE_BLOCKS.as_slice() } else { &[] };
        let counts: Vec<u32> = match geometry.and_then(|geometry| geometry.pages_per_block) {
            Some(count) => vec![count],
            None => BLOCKS.iter().chain(large).copied().collect(),
        };
        counts.into_iter().map(move |count| (page, u64::from(count) * page))
    };
    pages(geometry).into_iter().flat_map(of_page).collect()
}

/// Bytes of the blocks that are tried.
fn blocks(geometry: Option<&PageGeometry>) -> Vec<u64> {
    let mut blocks: Vec<u64> = pages_and_blocks(geometry).into_iter().map(|(_, block)| block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// Bytes of the blocks that are tried, and too large for a window.
fn large_blocks(dumps: [ChipDump<'_>; 2], geometry: Option<&PageGeometry>) -> Vec<u64> {
    let shortest = dumps[0].len.min(dumps[1].len);
    let is_large = |bytes: &u64| 2 * bytes > window_bytes(geometry) && 2 * bytes <= shortest;
    blocks(geometry).into_iter().filter(is_large).collect()
}

/// Evidence of the numbers of the LEBs at the beginnings of blocks, in bits.
fn sequence_of_heads(
    dumps: [ChipDump<'_>; 2],
    striping: &Striping,
    geometry: Option<&PageGeometry>,
) -> Result<f64, EccError> {
    let dumps = ordered(dumps, *striping);
    let shortest = dumps[0].len.min(dumps[1].len);
    let mut lebs = Vec::new();
    for block in 0..(shortest / striping.unit_bytes.max(1)).min(HEADS) {
        for (side, dump) in dumps.iter().enumerate() {
            let head = dump.read(block * striping.unit_bytes, HEAD.min(striping.unit_bytes))?;
            let head = without_oob(&head, striping, geometry);
            structures(&head, &mut |found| {
                if let (0, Some(Identity::Leb { volume, lnum, .. })) = (found.at, found.identity) {
                    lebs.push((2 * block as usize + side, volume, lnum));
                }
            });
        }
    }
    Ok(sequence_bits(&lebs))
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

/// Refuses two dumps of one chip. Pages of two chips at the same place are alike as often as pages at different places; pages of one chip nearly
/// always.
fn require_two_chips(dumps: [ChipDump<'_>; 2], geometry: Option<&PageGeometry>) -> Result<(), EccError> {
    let page = geometry.map_or(PAGE, |geometry| geometry.full_page() as usize);
    let (mut same_place, mut elsewhere) = (Likeness::default(), Likeness::default());
    for [one, other] in windows(dumps, geometry)? {
        let mut before: Option<&[u8]> = None;
        for (one, other) in one.chunks(page).zip(other.chunks(page)) {
            let likeness = Likeness::page(one, other);
            if likeness.compared == 0 {
                continue;
            }
            same_place.add(likeness);
            if let Some(before) = before.replace(one) {
                elsewhere.add(Likeness::page(before, other));
            }
        }
    }
    let Likeness { compared, alike, .. } = same_place;
    let by_chance = (elsewhere.alike + 1) as f64 / (elsewhere.compared + 2) as f64;
    let bits = alike as f64 * libm::log2(ALIKE / by_chance)
        + (compared - alike) as f64 * libm::log2((1.0 - ALIKE) / (1.0 - by_chance));
    if bits > PAIR_BITS { Err(EccError::SameChip { compared, alike }) } else { Ok(()) }
}

/// Number or key that no two structures of a device share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    /// LEB of a volume, and the sequence number of its header.
    Leb { volume: u32, lnum: u32, sqnum: u64 },
    /// Sequence number of a node of UBIFS.
    Ubifs(u64),
    /// Inode and version of a node of JFFS2.
    Inode(u32, u32),
    /// Directory and version of a dirent of JFFS2.
    Dirent(u32, u32),
}

/// A structure in joined data.
struct Found {
    at: usize,
    end: usize,
    is_whole: bool,
    identity: Option<Identity>,
}

/// Structures that are in a joined dump twice.
#[derive(Clone, Copy, Debug, Default)]
struct Repeats {
    structures: u64,
    twice: u64,
    /// Evidence that the dumps are of one chip, in bits.
    bits: f64,
}

impl Repeats {
    /// Counts the structures of two dumps in an order.
    fn of(
        sides: [ChipDump<'_>; 2],
        striping: &Striping,
        geometry: Option<&PageGeometry>,
    ) -> Result<Self, EccError> {
        let mut times: BTreeMap<Identity, u64> = BTreeMap::new();
        let mut count = |data: &[u8]| {
            structures(&without_oob(data, striping, geometry), &mut |found| {
                if let Some(identity) = found.identity {
                    *times.entry(identity).or_default() += 1;
                }
            });
        };
        for [one, other] in windows(sides, geometry)? {
            let (first, second) = if striping.first == 2 { (&other, &one) } else { (&one, &other) };
            match striping.stripe {
                StripeUnit::Byte | StripeUnit::Word | StripeUnit::Page | StripeUnit::Plane => {
                    count(&alternate(first, second, striping.unit_bytes));
                }
                StripeUnit::Block | StripeUnit::Chip => {
                    [first, second].into_iter().for_each(|side| count(side))
                }
            }
        }
        let mut repeats = Self::default();
        for (identity, times) in times {
            let is_twice = times > 1;
            repeats.structures += 1;
            repeats.twice += u64::from(is_twice);
            repeats.bits += match (identity, is_twice) {
                (Identity::Leb { .. }, true) => LEB_TWICE_BITS,
                (Identity::Leb { .. }, false) => LEB_ONCE_BITS,
                (_, true) => NODE_TWICE_BITS,
                (_, false) => NODE_ONCE_BITS,
            };
        }
        Ok(repeats)
    }
}

/// Evidence for an order.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    bits: f64,
    /// Evidence of the numbers of LEBs among these.
    sequence: f64,
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
            all.sequence += side.sequence;
            all.whole += side.whole;
            all.broken += side.broken;
            all.half_whole = all.half_whole.into_iter().chain(side.half_whole()).reduce(f64::max);
        }
        all
    }

    /// True where nearly all structures are whole.
    fn is_explained(&self) -> bool {
        self.bits >= BELIEVED_BITS && self.broken * BROKEN_SHARE <= self.whole
    }

    /// Evidence that every other structure is whole by chance, if there are structures.
    fn half_whole(&self) -> Option<f64> {
        let bits = self.whole as f64 * HALF_WHOLE_BITS + self.broken as f64 * HALF_BROKEN_BITS;
        (self.whole + self.broken > 0).then_some(bits)
    }

    /// Weighs the structures in a piece of joined data.
    fn add(&mut self, data: &[u8], granule: usize) {
        let mut lebs: Vec<(usize, u32, u32)> = Vec::new();
        structures(data, &mut |Found { at, end, is_whole, identity }| {
            if let Some(Identity::Leb { volume, lnum, .. }) = identity {
                lebs.push((at, volume, lnum));
            }
            if at / granule == end.saturating_sub(1) / granule {
                return;
            }
            self.whole += u64::from(is_whole);
            self.broken += u64::from(!is_whole);
            self.bits += if is_whole { CRC_BITS } else { BROKEN_BITS };
        });
        let sequence = sequence_bits(&lebs);
        self.bits += sequence;
        self.sequence += sequence;
    }
}

/// Finds structures with a CRC in data.
fn structures(data: &[u8], each: &mut dyn FnMut(Found)) {
    for at in memmem::find_iter(data, &floatgate_media::ubifs::NODE_MAGIC).filter(|at| at % 8 == 0) {
        let rest = data.get(at..).unwrap_or(&[]);
        let len = rest.get(16..20).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
        if (24..=LONGEST).contains(&len) && len <= rest.len() {
            let frame = Frame::parse(rest);
            let identity = frame.as_ref().ok().map(|frame| frame.stamp.sqnum).filter(|&sqnum| sqnum > 0);
            let (is_whole, identity) = (frame.is_ok(), identity.map(Identity::Ubifs));
            each(Found { at, end: at + len, is_whole, identity });
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
                let body = Body::parse(&header, node, endian);
                let identity = match &body {
                    Ok(Body::Inode(node)) => Some(Identity::Inode(node.inode, node.version)),
                    Ok(Body::Dirent(node)) => Some(Identity::Dirent(node.dirent.parent, node.dirent.version)),
                    _ => None,
                };
                each(Found { at, end: at + node.len(), is_whole: body.is_ok(), identity });
            }
        }
    }
    for at in memmem::find_iter(data, &floatgate_media::ubi::EC_MAGIC).filter(|at| at % 512 == 0) {
        let rest = data.get(at..).unwrap_or(&[]);
        let Ok(header) = EcHeader::parse(rest, ReadFlips::default()) else { continue };
        let offset = header.vid_header_offset as usize;
        let Some(vid) = rest.get(offset..).and_then(|rest| rest.get(..VidHeader::SIZE)) else { continue };
        let end = at + offset + VidHeader::SIZE;
        match VidHeader::parse(vid, ReadFlips::default()) {
            Ok(VidHeader { volume_id: volume, lnum, sqnum, .. }) => {
                let identity = Some(Identity::Leb { volume, lnum, sqnum });
                each(Found { at, end, is_whole: true, identity });
            }
            // A free PEB has none.
            Err(_) if vid.iter().all(|byte| *byte == 0xFF) => {}
            Err(_) => each(Found { at, end, is_whole: false, identity: None }),
        }
    }
}

/// Evidence of PEBs in a row whose LEBs follow each other, as a freshly written image has them, in bits.
fn sequence_bits(lebs: &[(usize, u32, u32)]) -> f64 {
    let distance = lebs.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap_or(0);
    let follows = |pair: &&[(usize, u32, u32)]| {
        let ((at, volume, lnum), (next, next_volume, next_lnum)) = (pair[0], pair[1]);
        next - at == distance && volume == next_volume && next_lnum == lnum + 1
    };
    lebs.windows(2).filter(follows).count() as f64 * SEQUENCE_BITS
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
    let candidates = detection.iter().flat_map(|detection| &detection.candidates);
    Ok(candidates.filter(|candidate| candidate.fits).map(|candidate| candidate.evidence_bits).sum())
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
    Ok([ChipDump::new(file, 0, len), ChipDump::new(file, len, len)])
}
