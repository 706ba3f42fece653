//! Ranges between parts: erased, zeros, or data whose format is unknown, or known from the remains of a superblock.

use super::probe_match::{Checksum, Facts, Kind, Part, Value};
use super::remains;
use super::view::View;
use crate::ImageError;
use crate::format::magic::{HEAD_BYTES, format_of};
use memchr::memmem;

/// Number of bytes that are classified together.
const UNIT: usize = 4096;

/// Smallest number of units in an erased range between data. A shorter range is padding of the data.
const MIN_BLANK: u64 = 4;

/// Number of bytes in one read.
const CHUNK: usize = 256 << 10;

/// Texts before the version of a program, each with the name of the property.
const VERSIONS: [&[u8]; 5] =
    [b"U-Boot SPL 20", b"U-Boot 20", b"Linux version ", b"RedBoot(tm) ", b"CFE version "];

/// Length of the longest text of a version.
const VERSION_MAX: usize = 60;

/// Splits a range into parts of one kind.
pub(super) fn split(view: &View<'_>, level: u32) -> Result<Vec<Part>, ImageError> {
    let runs = join(&runs(view)?);
    let mut parts = Vec::with_capacity(runs.len());
    let mut at = 0;
    for (kind, len) in runs {
        let own = view.slice(at, len);
        let facts = if kind == Kind::Data { facts(&own)? } else { Facts::default() };
        let offset = view.start() + at;
        // Its length is unknown, so the length of the range is used.
        let remains = if kind == Kind::Data { remains::of(&own) } else { None };
        let (kind, checksum) = match remains {
            Some((kind, false)) => (kind, Checksum::Bad),
            Some((_, true)) | None => (kind, Checksum::None),
        };
        parts.push(Part { offset, len, level, kind, name: None, checksum, facts });
        at += len;
    }
    Ok(parts)
}

/// Passes a range to `each` in pieces. The budget of the probes does not limit this, because each byte is in only one
/// range.
fn each_chunk(view: &View<'_>, mut each: impl FnMut(&[u8])) -> Result<(), ImageError> {
    let mut buffer = vec![0; CHUNK];
    for at in (0..view.len()).step_by(CHUNK) {
        let len = usize::try_from(view.len() - at).map_or(CHUNK, |left| left.min(CHUNK));
        view.store().read_at(view.start() + at, &mut buffer[..len]).map_err(ImageError::Store)?;
        each(&buffer[..len]);
    }
    Ok(())
}

/// Ranges of one kind, with their sizes in bytes.
fn runs(view: &View<'_>) -> Result<Vec<(Kind, u64)>, ImageError> {
    let mut runs: Vec<(Kind, u64)> = Vec::new();
    each_chunk(view, |chunk| {
        for unit in chunk.chunks(UNIT) {
            let kind = match unit.first() {
                Some(0xFF) if is_only(unit, 0xFF) => Kind::Erased,
                Some(0) if is_only(unit, 0) => Kind::Zeros,
                _ => Kind::Data,
            };
            match runs.last_mut() {
                Some((last, len)) if *last == kind => *len += unit.len() as u64,
                _ => runs.push((kind, unit.len() as u64)),
            }
        }
    })?;
    Ok(runs)
}

fn is_only(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().fold(0, |different, &other| different | (other ^ byte)) == 0
}

/// Joins data with short blank ranges between them.
fn join(runs: &[(Kind, u64)]) -> Vec<(Kind, u64)> {
    let mut joined: Vec<(Kind, u64)> = Vec::new();
    for (index, &(kind, len)) in runs.iter().enumerate() {
        let is_data =
            |at: Option<usize>| at.and_then(|at| runs.get(at)).is_some_and(|run| run.0 == Kind::Data);
        let is_padding =
            len < MIN_BLANK * UNIT as u64 && is_data(index.checked_sub(1)) && is_data(Some(index + 1));
        let kind = if is_padding { Kind::Data } else { kind };
        match joined.last_mut() {
            Some((last, all)) if *last == kind => *all += len,
            _ => joined.push((kind, len)),
        }
    }
    joined
}

/// Properties of data: its entropy, its first bytes, and a version that it contains.
pub(super) fn facts(view: &View<'_>) -> Result<Facts, ImageError> {
    let mut histogram = [0_u64; 256];
    let mut version: Option<String> = None;
    each_chunk(view, |chunk| {
        chunk.iter().for_each(|&byte| histogram[usize::from(byte)] += 1);
        version = version.take().or_else(|| version_in(chunk));
    })?;
    let mut facts = Facts::default();
    let mut head = vec![0; HEAD_BYTES.min(usize::try_from(view.len()).unwrap_or(HEAD_BYTES))];
    view.store().read_at(view.start(), &mut head).map_err(ImageError::Store)?;
    if let Some(format) = format_of(&head) {
        facts.0.push(("begins_with", Value::Text(format.name().to_owned())));
    }
    if let Some(version) = version {
        facts.0.push(("version", Value::Text(version)));
    }
    facts.0.push(("entropy", Value::Real(entropy(&histogram))));
    Ok(facts)
}

/// Entropy in bits per byte, rounded to hundredths.
fn entropy(histogram: &[u64; 256]) -> f64 {
    let all: u64 = histogram.iter().sum();
    let part = |&count: &u64| {
        let share = count as f64 / all.max(1) as f64;
        if count == 0 { 0.0 } else { -share * libm::log2(share) }
    };
    libm::round(histogram.iter().map(part).sum::<f64>() * 100.0) / 100.0
}

fn version_in(bytes: &[u8]) -> Option<String> {
    VERSIONS.iter().find_map(|begin| {
        let at = memmem::find(bytes, begin)?;
        let rest = bytes.get(at..)?;
        let is_text = |byte: &&u8| (b' '..=b'~').contains(*byte);
        let text: Vec<u8> = rest.iter().take_while(is_text).take(VERSION_MAX).copied().collect();
        String::from_utf8(text).ok()
    })
}
