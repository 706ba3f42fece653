//! Compact storage of pages that repeat the bytes of others.
//!
//! Workloads write the same bytes repeatedly, behind headers that shift them to other columns. Pages with new bytes are *candidates*, until
//! newer candidates replace them. If a later page repeats a candidate, the candidate becomes a permanent *sample*, and the later page is
//! *packed*: it stores references to runs of samples, and the bytes in between. Reads return the same bytes in each case.

use std::sync::{Arc, Mutex, OnceLock};

/// Maximum total size of the candidates and samples of an array, bytes.
const SAMPLES_BYTES: usize = 4 << 20;

/// Sizes of pages that are packed. For smaller pages the bookkeeping is larger than the benefit, and columns of larger pages exceed 16
/// bits.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 1024..=u16::MAX as usize;

/// Size of the words by which runs are found, and distance of the indexed words in samples, bytes. A page is searched only at every fourth
/// byte, because filesystems align their data to at least four bytes.
const WORD: usize = 8;
const ANCHOR: usize = 64;
const ALIGNMENT: usize = 4;

/// Minimum length of a run, bytes; its reference takes eight bytes.
const RUN_MIN: usize = 32;

/// Maximum number of pages that are skipped after pages that did not repeat anything.
const PAUSE_MAX: u32 = 16;

/// Contents of a page.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    /// All bytes of the page, unpacked.
    Plain(Arc<[u8]>),
    /// References to runs of samples, and the other bytes of the page; see [`pack`].
    Packed(Arc<[u8]>),
}

impl Contents {
    /// Memory that the content occupies, bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let (Self::Plain(bytes) | Self::Packed(bytes)) = self;
        bytes.len()
    }
}

/// A run: bytes that a page has in common with a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    column: u16,
    len: u16,
    sample: u16,
    from: u16,
}

/// Size of a packed run, bytes.
const PACKED_RUN: usize = 8;

impl Run {
    const fn bytes(self) -> [u8; PACKED_RUN] {
        let ([a, b], [c, d]) = (self.column.to_le_bytes(), self.len.to_le_bytes());
        let ([e, f], [g, h]) = (self.sample.to_le_bytes(), self.from.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    const fn from_bytes([a, b, c, d, e, f, g, h]: [u8; PACKED_RUN]) -> Self {
        let of = u16::from_le_bytes;
        Self { column: of([a, b]), len: of([c, d]), sample: of([e, f]), from: of([g, h]) }
    }
}

/// A sample; empty until it is set.
type Sample = OnceLock<Arc<[u8]>>;

/// Samples of an array, shared by its clones.
#[derive(Debug)]
pub(super) struct Samples {
    page_bytes: usize,
    /// Samples to which packed pages refer. Allocated with the first sample; samples are never removed.
    pages: OnceLock<Box<[Sample]>>,
    index: Mutex<Index>,
}

/// Candidates, and the positions of words in them.
#[derive(Debug, Default)]
struct Index {
    candidates: Vec<Candidate>,
    /// Number of candidates that are samples.
    samples: usize,
    /// Candidate that the next new page replaces, unless it is a sample.
    next: usize,
    /// Position + 1 of a word by its hash; 0 for none. The length is a power of two.
    table: Vec<u32>,
    /// Number of pages still to skip, and number to skip after the next page without repetition.
    pause: u32,
    next_pause: u32,
    /// The previous page of a size that is not packed.
    last: Option<Arc<[u8]>>,
}

impl Index {
    /// Bytes of a page of a size that is not packed. If they equal those of the previous page, both share the memory.
    fn shared(&mut self, page: &[u8]) -> Arc<[u8]> {
        let last = self.last.take().filter(|last| **last == *page).unwrap_or_else(|| Arc::from(page));
        Arc::clone(self.last.insert(last))
    }
}

/// A page whose bytes later pages may repeat.
#[derive(Debug)]
struct Candidate {
    page: Arc<[u8]>,
    /// Its sample number, assigned when the first page repeats it.
    sample: Option<u16>,
}

impl Samples {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self { page_bytes, pages: OnceLock::new(), index: Mutex::default() }
    }

    /// Contents of a page with these bytes.
    pub(super) fn contents(&self, page: &[u8]) -> Contents {
        // If another thread holds the lock, this page is stored unpacked.
        match self.index.try_lock() {
            Ok(mut index) if PAGE_BYTES.contains(&page.len()) => self.contents_with(&mut index, page),
            Ok(mut index) => Contents::Plain(index.shared(page)),
            Err(_) => Contents::Plain(Arc::from(page)),
        }
    }

    fn contents_with(&self, index: &mut Index, page: &[u8]) -> Contents {
        if index.pause > 0 {
            index.pause -= 1;
            return Contents::Plain(Arc::from(page));
        }
        let mut runs = index.runs(page);
        let repeated: usize = runs.iter().map(|run| usize::from(run.len)).sum();
        if repeated * 2 > page.len() && runs.iter_mut().all(|run| self.number(index, run)) {
            index.next_pause = 0;
            return Contents::Packed(pack(page, &runs));
        }
        let bytes: Arc<[u8]> = Arc::from(page);
        index.add(&bytes, self.most());
        if index.candidates.len() == self.most() {
            index.pause = index.next_pause;
            index.next_pause = (index.next_pause * 2).clamp(1, PAUSE_MAX);
        }
        Contents::Plain(bytes)
    }

    /// Maximum number of samples.
    const fn most(&self) -> usize {
        SAMPLES_BYTES / self.page_bytes
    }

    fn sample(&self, number: u16) -> Option<&[u8]> {
        self.pages.get()?.get(usize::from(number))?.get().map(|page| &**page)
    }

    /// Replaces the candidate number in `run` by the number of its sample. A candidate without a sample becomes a sample. Returns false if
    /// there is no room for it.
    fn number(&self, index: &mut Index, run: &mut Run) -> bool {
        let Some(candidate) = index.candidates.get_mut(usize::from(run.sample)) else { return false };
        let number = match candidate.sample {
            Some(number) => number,
            None => {
                let pages = self.pages.get_or_init(|| (0..self.most()).map(|_| OnceLock::new()).collect());
                let slot = pages.get(index.samples);
                if slot.is_none_or(|slot| slot.set(Arc::clone(&candidate.page)).is_err()) {
                    return false;
                }
                let number = index.samples as u16;
                index.samples += 1;
                *candidate.sample.insert(number)
            }
        };
        run.sample = number;
        true
    }
    /// Reads bytes of a packed page from a column on, up to the end of the page.
    pub(super) fn read(&self, packed: &[u8], column: usize, out: &mut [u8]) {
        let mut put = |at: usize, bytes: &[u8]| {
            let (from, to) = (at.max(column), (at + bytes.len()).min(column + out.len()));
            if from < to {
                out[from - column..to - column].copy_from_slice(&bytes[from - at..to - at]);
            }
        };
        let (runs, mut rest) = unpack(packed);
        let mut at = 0;
        for run in runs {
            let (start, len, from) = (usize::from(run.column), usize::from(run.len), usize::from(run.from));
            let (between, later) = rest.split_at((start - at).min(rest.len()));
            put(at, between);
            let sample = self.sample(run.sample).and_then(|sample| sample.get(from..from + len));
            put(start, sample.unwrap_or_default());
            (at, rest) = (start + len, later);
        }
        put(at, rest);
    }
}

/// Packs a page: the number of runs, the runs, and the bytes of the page outside of runs.
fn pack(page: &[u8], runs: &[Run]) -> Arc<[u8]> {
    let mut packed = Vec::with_capacity(2 + runs.len() * PACKED_RUN + page.len() / 2);
    packed.extend((runs.len() as u16).to_le_bytes());
    runs.iter().for_each(|run| packed.extend(run.bytes()));
    let mut at = 0;
    for run in runs {
        packed.extend_from_slice(&page[at..usize::from(run.column)]);
        at = usize::from(run.column) + usize::from(run.len);
    }
    packed.extend_from_slice(&page[at..]);
    Arc::from(packed)
}

/// Splits a packed page into its runs and the other bytes.
fn unpack(packed: &[u8]) -> (impl Iterator<Item = Run>, &[u8]) {
    let (count, packed) = packed
        .split_first_chunk()
        .map_or((0, packed), |(count, packed)| (u16::from_le_bytes(*count), packed));
    let (runs, rest) = packed.split_at((usize::from(count) * PACKED_RUN).min(packed.len()));
    (runs.as_chunks().0.iter().map(|run| Run::from_bytes(*run)), rest)
}

impl Index {
    fn slot(&self, word: u64) -> usize {
        // Fibonacci hashing of the word.
        (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.table.len() - 1)
    }

    /// Number, bytes and offset of a candidate that contains a word, or another word with the same hash.
    fn place(&self, word: u64) -> Option<(usize, &[u8], usize)> {
        let place = self.table.get(self.slot(word))?.checked_sub(1)? as usize;
        let number = place >> 16;
        Some((number, &self.candidates.get(number)?.page, (place & 0xFFFF) * ANCHOR))
    }

    /// Runs that a page has in common with candidates, in the order of the columns. `sample` is the number of the candidate.
    fn runs(&self, page: &[u8]) -> Vec<Run> {
        let (mut runs, mut done, mut at) = (Vec::new(), 0, 0);
        if self.table.is_empty() {
            return runs;
        }
        while let Some(word) = word(page, at) {
            let run = self.place(word).and_then(|(number, sample, from)| {
                let len = common_start(&page[at..], sample.get(from..)?);
                let before = if len == 0 { 0 } else { common_end(&page[done..at], &sample[..from]) };
                let [column, from, len] =
                    [at - before, from - before, before + len].map(|place| place as u16);
                let run = Run { column, len, sample: number as u16, from };
                (usize::from(len) >= RUN_MIN).then_some(run)
            });
            match run {
                Some(run) => {
                    runs.push(run);
                    done = usize::from(run.column) + usize::from(run.len);
                    at = done.next_multiple_of(ALIGNMENT);
                }
                None => at += ALIGNMENT,
            }
        }
        runs
    }

    /// Adds a candidate, or replaces a candidate that no page has repeated.
    fn add(&mut self, page: &Arc<[u8]>, most: usize) {
        let candidate = Candidate { page: Arc::clone(page), sample: None };
        if self.candidates.len() < most {
            self.candidates.push(candidate);
            self.make_room(page.len() / ANCHOR);
            return self.insert(self.candidates.len() - 1);
        }
        let count = self.candidates.len();
        let places = (0..count).map(|turn| (self.next + turn) % count.max(1));
        let free = places.take(PLACES_TRIED).find(|&number| self.candidates[number].sample.is_none());
        self.next = (self.next + PLACES_TRIED.min(count)) % count.max(1);
        if let Some(number) = free {
            self.next = (number + 1) % count;
            self.candidates[number] = candidate;
            self.insert(number);
        }
    }

    /// Adds the words of a candidate to the index, without replacing words of samples.
    fn insert(&mut self, number: usize) {
        let Some(page) = self.candidates.get(number).map(|candidate| Arc::clone(&candidate.page)) else {
            return;
        };
        for (anchor, word) in (0..).map_while(|anchor| Some((anchor, word(&page, anchor * ANCHOR)?))) {
            let slot = self.slot(word);
            let is_of_sample = |place: u32| {
                let holder = place.checked_sub(1).and_then(|place| self.candidates.get(place as usize >> 16));
                holder.is_some_and(|holder| holder.sample.is_some())
            };
            if self.table.get(slot).is_some_and(|place| !is_of_sample(*place)) {
                self.table[slot] = (number << 16 | anchor) as u32 + 1;
            }
        }
    }

    /// Enlarges the index if it has fewer than two slots for each position. Each candidate has `places` positions; all candidates are then
    /// indexed again.
    fn make_room(&mut self, places: usize) {
        let needed = 2 * places * self.candidates.len();
        if needed <= self.table.len() {
            return;
        }
        self.table = vec![0; (2 * needed).next_power_of_two().max(TABLE_MIN)];
        (0..self.candidates.len()).for_each(|number| self.insert(number));
    }
}

/// Maximum number of candidates that are tried for replacement.
const PLACES_TRIED: usize = 16;

/// Minimum length of the index.
const TABLE_MIN: usize = 1 << 10;

/// The 8-byte word at an offset; `None` past the end.
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<WORD>().map(|word| u64::from_le_bytes(*word))
}

/// Number of bytes compared in one step.
const BLOCK: usize = 64;

/// Number of equal bytes at the start of both slices.
fn common_start(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count() * BLOCK;
    blocks + a[blocks..].iter().zip(&b[blocks..]).take_while(|(a, b)| a == b).count()
}

/// Number of equal bytes at the end of both slices.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn read(samples: &Samples, contents: &Contents, column: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        match contents {
            Contents::Plain(bytes) => out.copy_from_slice(&bytes[column..column + len]),
            Contents::Packed(packed) => samples.read(packed, column, &mut out),
        }
        out
    }

    /// Nodes of a filesystem: 4 KiB of equal contents behind 68 different bytes, split into pages of 2 KiB with 64 bytes of OOB.
    #[test]
    fn nodes_with_the_same_contents_take_little_memory() {
        let contents = noise(1, 64 << 10);
        let mut log = Vec::new();
        for node in 0..400_u64 {
            log.extend(noise(node + 2, 68));
            log.extend(&contents[node as usize % 16 * 4096..][..4096]);
        }
        let samples = Samples::new(2112);
        let pages: Vec<Vec<u8>> =
            log.chunks_exact(2048).zip(0..).map(|(page, seed)| [page, &noise(seed, 64)].concat()).collect();
        let held: Vec<Contents> = pages.iter().map(|page| samples.contents(page)).collect();
        for (page, contents) in pages.iter().zip(&held) {
            assert!(read(&samples, contents, 0, page.len()) == *page);
        }
        let bytes: usize = held.iter().map(Contents::held_bytes).sum();
        assert!(bytes < pages.len() * 2112 / 4, "{bytes}");
    }

    #[test]
    fn new_bytes_stay_as_they_are_and_samples_are_limited() {
        let samples = Samples::new(2048);
        for seed in 0..4096 {
            let page = noise(seed, 2048);
            assert!(matches!(samples.contents(&page), Contents::Plain(bytes) if *bytes == *page));
        }
        let counts = |samples: &Samples| {
            let index = samples.index.lock().unwrap();
            (index.candidates.len(), index.samples)
        };
        assert_eq!(counts(&samples), (SAMPLES_BYTES / 2048, 0));
        // A pause after many new pages may still be active, so that the first repeated pages are not packed.
        let repeated = noise(9999, 2048);
        let again = (0..3 * PAUSE_MAX).map(|_| samples.contents(&repeated)).last().unwrap();
        assert!(matches!(again, Contents::Packed(_)) && again.held_bytes() < 16, "{again:?}");
        assert_eq!(counts(&samples), (SAMPLES_BYTES / 2048, 1));
        // Samples are preserved when new pages arrive.
        let more: Vec<Contents> = (10_000..60_000).map(|seed| samples.contents(&noise(seed, 2048))).collect();
        assert!(more.iter().all(|contents| matches!(contents, Contents::Plain(_))));
        assert!(read(&samples, &again, 0, 2048) == repeated);
    }

    proptest! {
        #[test]
        fn pages_read_as_they_were_written(
            parts in prop::collection::vec((0u64..4, 0usize..300, 1usize..700), 1..40), column in 0usize..1024, len in 0usize..600
        ) {
            let sources: Vec<Vec<u8>> = (0..4).map(|seed| if seed == 3 { vec![0xFF; 1000] } else { noise(seed, 1000) }).collect();
            let bytes: Vec<u8> = parts.iter().flat_map(|(source, from, len)| sources[*source as usize][*from..from + len].to_vec()).collect();
            let samples = Samples::new(1024);
            for page in bytes.chunks_exact(1024) {
                let contents = samples.contents(page);
                prop_assert!(read(&samples, &contents, 0, 1024) == page);
                let end = (column + len).min(1024);
                prop_assert!(read(&samples, &contents, column, end - column) == page[column..end]);
            }
        }
    }
}
