//! Encoding of a file with saved ranges, version 2. Numbers are little-endian; each part has a separate CRC-32.
//!
//! | byte | content |
//! |---|---|
//! | 0 | header, 4 KiB: magic and version, the id of the file, the device's capacity, its identity and the CRCs of its samples |
//! | 4096, 8192 | two marks, written in turn: number of ranges that are durable, and the samples that these overlap |
//! | 12288 | ranges: a header of 512 B with number, position, length and CRC, then the contents, padded to 512 B |
//!
//! The CRCs of marks and range headers include the id. This distinguishes them from marks and headers of another saved file,
//! which the saved data may contain.

use super::identity::{Fact, Identity, SAMPLES, Sample};
use super::{BadSaved, PIECE};
use std::io;

/// Magic number of all versions; a digit with the version follows it.
const MAGIC: &[u8; 15] = b"floatgate kept ";
const VERSION: u8 = b'2';
/// Length of the header in bytes.
pub(super) const HEADER: usize = 4096;
/// Positions of the two marks in bytes.
pub(super) const MARKS: [u64; 2] = [4096, 8192];
/// Position of the first range header, B.
pub(super) const RANGES: u64 = 12288;
/// Length of a range's header, and the unit to which data is padded, B.
pub(super) const RANGE_HEADER: usize = 512;
const RANGE_MAGIC: &[u8; 4] = b"rng2";
/// Offset of the first sample in the header; the texts follow the last sample.
const SAMPLES_AT: usize = 48;
const SAMPLE: usize = 12;
const TEXTS_AT: usize = SAMPLES_AT + SAMPLES * SAMPLE;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// CRC-32 of a part of the file with this id.
fn crc(id: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Header of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Random number that identifies this file.
    pub(super) id: u64,
    pub(super) identity: Identity,
}

impl Header {
    /// Encodes the header.
    ///
    /// # Errors
    /// `InvalidInput` for texts that are too long.
    pub(super) fn emit(&self) -> io::Result<[u8; HEADER]> {
        let Self { id, identity } = self;
        let texts = identity.facts.iter().map(|fact| format!("{}\t{}\n", fact.name, fact.value));
        let texts = std::iter::once(format!("{}\n", identity.label)).chain(texts).collect::<String>();
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the device's identity is too long");
        if texts.len() > HEADER - TEXTS_AT || identity.samples.len() > SAMPLES {
            return Err(too_long());
        }
        let mut bytes = [0; HEADER];
        put(&mut bytes, 0, MAGIC);
        bytes[MAGIC.len()] = VERSION;
        put(&mut bytes, 20, &u32::try_from(texts.len()).map_err(|_| too_long())?.to_le_bytes());
        put(&mut bytes, 24, &id.to_le_bytes());
        put(&mut bytes, 32, &identity.capacity.to_le_bytes());
        put(&mut bytes, 40, &identity.sample_bytes.to_le_bytes());
        put(&mut bytes, 44, &u32::try_from(identity.samples.len()).map_err(|_| too_long())?.to_le_bytes());
        for (sample, place) in identity.samples.iter().zip(bytes[SAMPLES_AT..].chunks_exact_mut(SAMPLE)) {
            put(place, 0, &sample.position.to_le_bytes());
            put(place, 8, &sample.crc.to_le_bytes());
        }
        put(&mut bytes, TEXTS_AT, texts.as_bytes());
        let sum = crc32fast::hash(&bytes[20..]);
        put(&mut bytes, 16, &sum.to_le_bytes());
        Ok(bytes)
    }

    /// Parses a header from the first bytes of a file, at most [`HEADER`].
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadSaved> {
        match bytes.strip_prefix(MAGIC).and_then(<[u8]>::first) {
            Some(&VERSION) => {}
            Some(&version) if version.is_ascii_digit() => return Err(BadSaved::Version(version - b'0')),
            _ => return Err(BadSaved::Foreign),
        }
        let damaged = |at: usize, reason| BadSaved::Damaged { at: at as u64, reason };
        if bytes.len() < HEADER {
            return Err(damaged(bytes.len(), "the file ends inside its header"));
        }
        if u32_at(bytes, 16) != crc32fast::hash(&bytes[20..]) {
            return Err(damaged(16, "the CRC of the header is wrong, so that its device is not known"));
        }
        let capacity = u64_at(bytes, 32);
        let sample_bytes = u32_at(bytes, 40);
        let count = u32_at(bytes, 44) as usize;
        if count > SAMPLES || sample_bytes as usize > PIECE {
            return Err(damaged(40, "there are too many samples, or they are too long"));
        }
        let samples = bytes[SAMPLES_AT..].chunks_exact(SAMPLE).take(count);
        let samples: Vec<Sample> =
            samples.map(|bytes| Sample { position: u64_at(bytes, 0), crc: u32_at(bytes, 8) }).collect();
        let is_outside = |sample: &Sample| {
            sample.position.checked_add(sample_bytes.into()).is_none_or(|end| end > capacity)
        };
        if let Some(number) = samples.iter().position(is_outside) {
            return Err(damaged(SAMPLES_AT + number * SAMPLE, "a sample is behind the end of the device"));
        }
        let texts = bytes.get(TEXTS_AT..).and_then(|texts| texts.get(..u32_at(bytes, 20) as usize));
        let texts = texts.and_then(|texts| std::str::from_utf8(texts).ok());
        let mut lines = texts.ok_or_else(|| damaged(20, "the texts of the identity are malformed"))?.lines();
        let label = lines.next().unwrap_or_default().to_owned();
        let fact = |line: &str| line.split_once('\t').map(|(name, value)| Fact::new(name, value));
        let facts = lines.filter_map(fact).collect();
        Ok(Self {
            id: u64_at(bytes, 24),
            identity: Identity { label, capacity, facts, sample_bytes, samples },
        })
    }
}

/// A mark, which contains the number of durable ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Sequence number of the mark; the mark with the higher number is valid.
    pub(super) sequence: u64,
    pub(super) ranges: u64,
    /// Samples that a range overlaps, one bit for each sample.
    pub(super) touched: u128,
}

/// Length of a mark in bytes.
pub(super) const MARK: usize = 36;

impl Mark {
    pub(super) fn emit(&self, id: u64) -> [u8; MARK] {
        let mut bytes = [0; MARK];
        put(&mut bytes, 4, &self.sequence.to_le_bytes());
        put(&mut bytes, 12, &self.ranges.to_le_bytes());
        put(&mut bytes, 20, &self.touched.to_le_bytes());
        let sum = crc(id, &bytes[4..]);
        put(&mut bytes, 0, &sum.to_le_bytes());
        bytes
    }

    pub(super) fn parse(id: u64, bytes: &[u8; MARK]) -> Option<Self> {
        let touched = bytes[20..].first_chunk().map_or(0, |all| u128::from_le_bytes(*all));
        let mark = Self { sequence: u64_at(bytes, 4), ranges: u64_at(bytes, 12), touched };
        (u32_at(bytes, 0) == crc(id, &bytes[4..])).then_some(mark)
    }
}

/// A saved range, and the position of its data in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Index of the range in the order in which ranges were saved.
    pub(super) number: u64,
    /// Position of the range on the device, B.
    pub(super) position: u64,
    pub(super) bytes: u64,
    /// CRC-32 of the data.
    pub(super) crc: u32,
    /// Position of the data in the file, B.
    pub(super) at: u64,
}

impl Piece {
    /// Position in the file after the data, B.
    pub(super) const fn end(&self) -> u64 {
        self.at + self.bytes.next_multiple_of(RANGE_HEADER as u64)
    }

    pub(super) fn emit(&self, id: u64) -> [u8; RANGE_HEADER] {
        let mut bytes = [0; RANGE_HEADER];
        put(&mut bytes, 0, RANGE_MAGIC);
        put(&mut bytes, 8, &self.number.to_le_bytes());
        put(&mut bytes, 16, &self.position.to_le_bytes());
        put(&mut bytes, 24, &self.bytes.to_le_bytes());
        put(&mut bytes, 32, &self.crc.to_le_bytes());
        let sum = crc(id, &bytes[8..]);
        put(&mut bytes, 4, &sum.to_le_bytes());
        bytes
    }

    /// The range whose header is at byte `at` of the file; `None` if that is not a valid range header for a device of this
    /// capacity.
    pub(super) fn parse(id: u64, capacity: u64, at: u64, bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RANGE_HEADER] = bytes.first_chunk()?;
        if !bytes.starts_with(RANGE_MAGIC) || u32_at(bytes, 4) != crc(id, &bytes[8..]) {
            return None;
        }
        let piece = Self {
            number: u64_at(bytes, 8),
            position: u64_at(bytes, 16),
            bytes: u64_at(bytes, 24),
            crc: u32_at(bytes, 32),
            at: at.checked_add(RANGE_HEADER as u64)?,
        };
        let is_inside = piece.position.checked_add(piece.bytes).is_some_and(|end| end <= capacity);
        let is_short = (1..=PIECE as u64).contains(&piece.bytes);
        (is_inside && is_short && piece.number < u64::MAX).then_some(piece)
    }
}
