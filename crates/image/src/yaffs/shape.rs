//! Pages and OOB of a dump with a YAFFS2, and the position of the tags.

use super::Order;
use super::header::is_header;
use super::tags::{TAGS, Tags, Verdict};

/// Page sizes with the sizes of their OOB; 0 for a dump without OOB.
///
/// A page with its OOB is half as long as the next larger one. If both fit, the smaller one is right.
const SIZES: &[(u32, &[u32])] = &[
    (512, &[16, 0]),
    (1024, &[32, 0]),
    (2048, &[64, 128, 112, 0]),
    (4096, &[128, 224, 218, 256, 232, 0]),
    (8192, &[256, 448, 512, 640, 744, 0]),
    (16_384, &[512, 1024, 1280, 0]),
];

/// Free bytes of the OOB that are not adjacent: on-die ECC of Micron, and the controllers FSL eLBC and Davinci with
/// pages of 2 KiB.
const PIECES: &[&[(usize, usize)]] = &[
    &[(4, 4), (20, 4), (36, 4), (52, 4)],
    &[(8, 8), (24, 8), (40, 8), (56, 8)],
    &[(1, 5), (9, 13), (25, 13), (41, 13), (57, 7)],
    &[(2, 4), (16, 6), (32, 6), (48, 6)],
];

/// Number of chunks from which the shape is derived.
const SAMPLE: u64 = 32;

/// Smallest share of written chunks with good tags in the sample, in quarters.
const GOOD_OF_FOUR: u64 = 3;

/// Size of the smallest page, bytes.
const STEP: u32 = 512;

/// Size of the longest tags with their ECC, bytes.
const LONGEST: usize = 28;

/// Reads bytes; `None` after the end.
pub(crate) type Reader<'r> = dyn Fn(u64, &mut [u8]) -> Option<()> + 'r;

/// True if the header of an object may begin here.
pub(crate) fn begins(head: &[u8]) -> bool {
    order_of(head).is_some()
}

/// Byte order of the header that begins here.
fn order_of(head: &[u8]) -> Option<Order> {
    let order = match head.first_chunk()? {
        [1..=5, 0, 0, 0] => Order::Little,
        [0, 0, 0, 1..=5] => Order::Big,
        _ => return None,
    };
    is_header(head, order).then_some(order)
}

/// Position of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// At the end of the page.
    Inband,
    /// At this offset of the OOB.
    At(usize),
    /// In several pieces of the OOB, each with its offset and length.
    Pieces(&'static [(usize, usize)]),
}

/// Content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Chunk without data, which reads as erased.
    Erased,
    /// Possible tags of YAFFS2.
    Written(Tags),
    /// Other data.
    Broken,
}

/// Shape of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Sizes of a page and of its OOB, bytes.
    pub(crate) page: u32,
    pub(crate) oob: u32,
    pub(crate) spare: Spare,
    pub(crate) order: Order,
    /// True if tags are stored with their ECC.
    pub(crate) has_ecc: bool,
}

impl Shape {
    /// Size of a page with its OOB, bytes.
    pub(crate) const fn stride(&self) -> u64 {
        self.page as u64 + self.oob as u64
    }

    /// Number of data bytes in a chunk.
    pub(crate) const fn data_bytes(&self) -> u32 {
        match self.spare {
            Spare::Inband => self.page - TAGS as u32,
            Spare::At(_) | Spare::Pieces(_) => self.page,
        }
    }

    /// Text about the position of the tags.
    pub(crate) fn place(&self) -> String {
        match self.spare {
            Spare::Inband => "in the page".to_owned(),
            Spare::At(at) => format!("in the OOB from byte {at} on"),
            Spare::Pieces(_) => "in pieces of the OOB".to_owned(),
        }
    }

    /// Bytes at the position of the tags in a page with its OOB, and their number.
    fn gather(&self, bytes: &[u8]) -> ([u8; LONGEST], usize) {
        let (page, oob) = bytes.split_at(bytes.len().min(self.page as usize));
        let mut gathered = [0xFF; LONGEST];
        let len = match self.spare {
            Spare::Inband => copy(&mut gathered, page.get(self.data_bytes() as usize..).unwrap_or_default()),
            Spare::At(at) => copy(&mut gathered, oob.get(at..).unwrap_or_default()),
            Spare::Pieces(pieces) => {
                let mut len = 0;
                for (at, piece) in pieces {
                    let room = gathered.get_mut(len..).unwrap_or_default();
                    len += copy(room, oob.get(*at..*at + *piece).unwrap_or_default());
                }
                len
            }
        };
        (gathered, if self.has_ecc { len } else { len.min(TAGS) })
    }

    /// Content of a page with its OOB.
    pub(crate) fn chunk(&self, bytes: &[u8]) -> Chunk {
        let (gathered, len) = self.gather(bytes);
        let Some(tags) = gathered.get(..len).filter(|_| len >= TAGS) else { return Chunk::Broken };
        if tags.iter().all(|byte| *byte == 0xFF) {
            return Chunk::Erased;
        }
        let (tags, verdict) = Tags::parse(tags, self.order);
        let is_good = verdict != Verdict::Wrong && tags.is_possible(self.data_bytes());
        if is_good { Chunk::Written(tags) } else { Chunk::Broken }
    }

    /// Shape of a dump with the header of an object at this offset, according to most of the following chunks.
    pub(crate) fn find(read: &Reader<'_>, at: u64) -> Option<Self> {
        let mut best: Option<(u64, Self)> = None;
        for (page, oobs) in SIZES {
            for oob in *oobs {
                if let Some((good, shape)) = Self::of_sizes(read, at, (*page, *oob))
                    && best.is_none_or(|(other, _)| good > other)
                {
                    best = Some((good, shape));
                }
            }
        }
        best.map(|(_, shape)| shape)
    }

    /// Best position of the tags in pages of a size, with its evidence.
    fn of_sizes(read: &Reader<'_>, at: u64, (page, oob): (u32, u32)) -> Option<(u64, Self)> {
        let stride = u64::from(page) + u64::from(oob);
        let mut first = vec![0; usize::try_from(stride).ok()?];
        read(at, &mut first)?;
        let order = order_of(&first)?;
        if holds_other_header(read, at, (page, oob)) {
            return None;
        }
        let spares = [Spare::Inband].into_iter();
        let last = (oob as usize).checked_sub(TAGS);
        let runs = last.into_iter().flat_map(|last| (0..=last).map(Spare::At));
        let pieces = PIECES.iter().filter(|_| oob == 64).map(|pieces| Spare::Pieces(pieces));
        let mut shapes = Vec::new();
        for spare in spares.chain(runs).chain(pieces) {
            for has_ecc in [true, false] {
                let shape = Self { page, oob, spare, order, has_ecc };
                if shape.begins_object(&first) {
                    shapes.push((shape, 0_u64));
                    break;
                }
            }
        }
        if shapes.is_empty() {
            return None;
        }
        let mut written = 0;
        for index in 0..SAMPLE {
            if read(at + index * stride, &mut first).is_none() {
                break;
            }
            written += u64::from(first.iter().any(|byte| *byte != 0xFF));
            for (shape, good) in &mut shapes {
                *good += u64::from(matches!(shape.chunk(&first), Chunk::Written(_)));
            }
        }
        let likely = shapes.into_iter().filter(|(_, good)| good * 4 >= written * GOOD_OF_FOUR);
        // A right ECC counts as one more chunk.
        likely
            .map(|(shape, good)| (2 * good + u64::from(shape.has_ecc), shape))
            .max_by_key(|(score, _)| *score)
    }

    /// True if tags and header of a chunk agree, and the ECC of the tags exists if the shape has one.
    fn begins_object(&self, bytes: &[u8]) -> bool {
        let Chunk::Written(tags) = self.chunk(bytes) else { return false };
        let (gathered, len) = self.gather(bytes);
        let verdict = Tags::parse(gathered.get(..len).unwrap_or_default(), self.order).1;
        let parent = self.order.u32(bytes, 4);
        tags.is_header()
            && tags.parent().is_none_or(|own| own == parent)
            && (verdict == Verdict::Good) == self.has_ecc
    }
}

/// True if the header of another object begins in the page of a header, or in its OOB: pages are smaller then, or the dump has no OOB.
fn holds_other_header(read: &Reader<'_>, at: u64, (page, oob): (u32, u32)) -> bool {
    let end = if oob > 0 { page + 1 } else { page };
    let mut head = [0; STEP as usize];
    (STEP..end)
        .step_by(STEP as usize)
        .any(|place| read(at + u64::from(place), &mut head).is_some() && begins(&head))
}

/// Copies as many bytes as fit.
fn copy(to: &mut [u8], from: &[u8]) -> usize {
    let len = to.len().min(from.len());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    len
}
