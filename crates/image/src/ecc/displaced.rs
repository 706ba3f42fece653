//! A dump that has the bytes of another dump at other places: without OOB, shifted, or in pages of another size.

use super::stream::Reader;
use super::{Displacement, Dump, EccError, PageGeometry};
use memchr::memmem::Finder;

/// Bytes of a dump that are compared.
const LOOKED_AT: usize = 64 << 20;

/// Number of pages from which a piece is searched for, and length of a piece in bytes. Wrong bits spoil only few short pieces.
const PIECES: usize = 64;
const PIECE: usize = 24;

/// Minimum number of different byte values in a piece.
const LEAST_BYTES: usize = 12;

/// Minimum number of pieces that must be found.
const LEAST_FOUND: usize = 4;

/// Maximum number of changes of the distance that missing or inserted bytes explain.
const MOST_CHANGES: usize = 4;

/// A piece of a page that was found in the other dump.
#[derive(Clone, Copy, Debug)]
struct Found {
    page: usize,
    /// Offset in the page.
    within: usize,
    /// Offset in the other dump.
    at: usize,
    /// Distance from its place in the first dump.
    distance: i64,
}

/// Number of bytes at the beginning of two dumps that are compared, and maximum number of different bits if they begin alike.
const BEGIN: usize = 64;
const MOST_BEGIN_BITS: u32 = 20;

/// Difference between the places of the same bytes in `reference` and in `other`; `None` where few bytes are the same, or all are at the same places.
///
/// # Errors
/// A dump cannot be read.
pub fn displacement(
    geometry: &PageGeometry,
    reference: Dump<'_>,
    other: Dump<'_>,
) -> Result<Option<Displacement>, EccError> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    Reader::new(reference.pages).fill(&mut first, LOOKED_AT)?;
    Reader::new(other.pages).fill(&mut second, LOOKED_AT)?;
    Ok(of_bytes(geometry, &first, &second))
}

fn of_bytes(geometry: &PageGeometry, first: &[u8], second: &[u8]) -> Option<Displacement> {
    let (page_bytes, stride) = (geometry.page_bytes as usize, geometry.full_page() as usize);
    let within = page_bytes / 4;
    let pages = first.chunks_exact(stride).enumerate();
    let pieces: Vec<(usize, &[u8])> = pages
        .filter_map(|(page, bytes)| Some((page, bytes.get(within..within + PIECE)?)))
        .filter(|(_, piece)| has_contents(piece))
        .collect();
    let step = pieces.len().div_ceil(PIECES).max(1);
    let searched = pieces.iter().step_by(step);
    let tried = searched.len();
    let found: Vec<Found> = searched
        .filter_map(|&(page, piece)| {
            let finder = Finder::new(piece);
            let mut hits = finder.find_iter(second);
            let (at, again) = (hits.next()?, hits.next());
            // A piece that occurs twice has no unique place.
            let place = page * stride + within;
            let distance = i64::try_from(at).ok()? - i64::try_from(place).ok()?;
            again.is_none().then_some(Found { page, within, at, distance })
        })
        .collect();
    if found.len() < LEAST_FOUND || 4 * found.len() < tried {
        return None;
    }
    kind(&found, page_bytes, is_alike(first, second))
}

fn kind(found: &[Found], page_bytes: usize, begin_alike: bool) -> Option<Displacement> {
    let most = |count: usize| 10 * count >= 9 * found.len();
    let first = found.first()?;
    let is_packed = |one: &&Found| one.at == one.page * page_bytes + one.within;
    if most(found.iter().filter(is_packed).count()) && found.iter().any(|one| one.distance != 0) {
        return Some(Displacement::WithoutOob);
    }
    let changes = || found.windows(2).filter(|pair| pair[0].distance != pair[1].distance);
    let number = changes().count();
    if number == 0 || most(found.iter().filter(|one| one.distance == first.distance).count()) && number > 1 {
        let (page, bytes) = (first.page as u64, first.distance.unsigned_abs());
        return match first.distance {
            0 => None,
            // The first pages have nothing that tells their place.
            1.. if begin_alike => Some(Displacement::Inserted { page, bytes }),
            _ if begin_alike => Some(Displacement::Missing { page, bytes }),
            1.. => Some(Displacement::InFront(bytes)),
            _ => Some(Displacement::FrontMissing(bytes)),
        };
    }
    if number > MOST_CHANGES {
        return Some(Displacement::OtherPages);
    }
    let pair = changes().next()?;
    let (page, change) = (pair[1].page as u64, pair[1].distance - pair[0].distance);
    let bytes = change.unsigned_abs();
    Some(if change < 0 {
        Displacement::Missing { page, bytes }
    } else {
        Displacement::Inserted { page, bytes }
    })
}

/// True if both dumps begin with the same bytes, but for a few wrong bits.
fn is_alike(first: &[u8], second: &[u8]) -> bool {
    let pairs = first.iter().zip(second).take(BEGIN);
    let differing: u32 = pairs.map(|(one, other)| (one ^ other).count_ones()).sum();
    differing <= MOST_BEGIN_BITS
}

/// True of bytes that are not filled with a few values.
fn has_contents(piece: &[u8]) -> bool {
    let mut bytes = piece.to_vec();
    bytes.sort_unstable();
    bytes.dedup();
    bytes.len() >= LEAST_BYTES
}
