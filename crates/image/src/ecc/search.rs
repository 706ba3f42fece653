//! BCH codes in undescribed layouts, found from the pages alone.
//!
//! The codes are linear: the sum of two pages holds codewords without their mask. A codeword is divisible by the minimal polynomial of its field,
//! so all places where one may begin and end are tried by division; its other roots tell the strength. Then the steps that follow must
//! be at a fixed distance, and the mask is the one under which single pages are codewords. What is found is a [`Layout`] like those
//! of files, and has to explain the pages as they do.

use super::sample::Page;
use super::trial::Trial;
use super::{Layout, PageGeometry, Scheme};
use floatgate_ecc::{BitOrder, Code, Divisor, Inversion};
use rayon::prelude::*;

/// Primitive polynomials in use: Linux's of degree 13 to 15, the one of Atmel and others for 1024 bytes, and
/// Allwinner's.
const POLYNOMIALS: [u32; 5] = [0x201B, 0x402B, 0x4443, 0x5803, 0x8003];

/// Sizes of a step's data, bytes.
const STEPS: [usize; 2] = [512, 1024];

/// Largest number of bytes before the first step, and between steps.
const HEAD: usize = 16;

/// Largest number of OOB bytes of a step that the code covers, and of bytes between message and ECC bytes.
const EXTRA: usize = 8;
const GAP: usize = 16;

/// Largest number of OOB bytes in which ECC bytes are searched.
const MAX_OOB: usize = 256;

/// Largest number of bytes from the first to the last ECC byte, including covered OOB bytes.
const MAX_ECC: usize = 144;

/// Number of pages used, and number of sums in which all positions are tried.
const PAGES: usize = 12;
const TRIED: usize = 6;

/// Smallest strength that is searched: a weaker code has too few bits to be distinguished from chance.
const LEAST_STRENGTH: u32 = 2;

/// Byte range of a codeword: the message, and its end with the ECC bytes.
#[derive(Clone, Copy, Debug)]
struct CodewordRange {
    start: usize,
    message_end: usize,
    ecc_start: usize,
    end: usize,
    strength: u32,
}

/// Hypothesis about a code: a field, a step size and a bit order.
struct Hypothesis<'s> {
    divisor: Divisor,
    bits: BitOrder,
    step_bytes: usize,
    geometry: &'s PageGeometry,
    /// Pages, and sums of two pages each, with the first bit of a byte as its highest bit.
    pages: Vec<Vec<u8>>,
    sums: Vec<Vec<u8>>,
}

/// Layout and code of pages that no known code explains.
pub(super) fn search(geometry: &PageGeometry, pages: &[&Page]) -> Option<Scheme> {
    let hypotheses = POLYNOMIALS.into_iter().flat_map(|polynomial| {
        let of_step = move |step| [BitOrder::Msb, BitOrder::Lsb].map(|bits| (polynomial, step, bits));
        STEPS.into_iter().flat_map(of_step)
    });
    let hypotheses: Vec<(u32, usize, BitOrder)> = hypotheses.collect();
    hypotheses.into_par_iter().find_map_first(|(polynomial, step_bytes, bits)| {
        let hypothesis = Hypothesis::new(geometry, pages, polynomial, step_bytes, bits)?;
        hypothesis.search(pages)
    })
}

impl<'s> Hypothesis<'s> {
    fn new(
        geometry: &'s PageGeometry,
        pages: &[&Page],
        polynomial: u32,
        step_bytes: usize,
        bits: BitOrder,
    ) -> Option<Self> {
        let divisor = Divisor::new(polynomial).ok()?;
        let fits = 8 * step_bytes < 1 << divisor.degree();
        if !fits || !(geometry.page_bytes as usize).is_multiple_of(step_bytes) {
            return None;
        }
        let order = |byte: &u8| if bits == BitOrder::Lsb { byte.reverse_bits() } else { *byte };
        let pages: Vec<Vec<u8>> =
            pages.iter().take(PAGES).map(|page| page.raw.iter().map(order).collect()).collect();
        let sum = |(one, other): (&Vec<u8>, &Vec<u8>)| one.iter().zip(other).map(|(a, b)| a ^ b).collect();
        let sums = pages.iter().zip(pages.iter().skip(1)).map(sum).collect();
        Some(Self { divisor, bits, step_bytes, geometry, pages, sums })
    }

    /// First scheme that explains the pages.
    fn search(&self, pages: &[&Page]) -> Option<Scheme> {
        let ranges = self.sums.iter().take(TRIED).map(|sum| self.first_ranges(sum));
        let mut ranges = ranges.into_iter().find(|ranges| !ranges.is_empty())?;
        // A codeword that begins later covers fewer bytes that are the same in all pages.
        ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
        let mut patterns = ranges.iter().filter_map(|range| {
            let inversion = self.inversion(range)?;
            let patterns = self.patterns(range);
            let mut schemes = patterns.iter().filter_map(|pattern| self.scheme(range, inversion, pattern));
            schemes.find(|scheme| Trial::over(scheme, pages).is_believed())
        });
        patterns.next()
    }

    fn raw_bytes(&self) -> usize {
        self.geometry.full_page() as usize
    }

    /// Possible ranges of the first step's codeword.
    fn first_ranges(&self, sum: &[u8]) -> Vec<CodewordRange> {
        (0..=HEAD).flat_map(|start| self.ranges(sum, start)).collect()
    }

    /// Possible ranges of a codeword that begins at `start`.
    fn ranges(&self, sum: &[u8], start: usize) -> Vec<CodewordRange> {
        let (page_bytes, data_end) = (self.geometry.page_bytes as usize, start + self.step_bytes);
        let push = |rest, byte: &u8| self.divisor.push(rest, *byte);
        let Some(data) = sum.get(start..data_end) else { return Vec::new() };
        let mut found = Vec::new();
        let rest = data.iter().fold(0, push);
        if data.iter().filter(|byte| **byte != 0).count() < self.step_bytes / 8 {
            return found;
        }
        let oob = page_bytes.max(data_end)..self.raw_bytes().min(page_bytes + MAX_OOB);
        found.extend(
            std::iter::once(data_end).chain(oob).find_map(|at| self.end(sum, (start, data_end, at), rest)),
        );
        let mut rest = rest;
        for message_end in data_end..=data_end + EXTRA {
            let gaps = message_end + 1..=message_end + GAP;
            found.extend(gaps.into_iter().find_map(|at| self.end(sum, (start, message_end, at), rest)));
            rest = push(rest, sum.get(message_end).unwrap_or(&0));
        }
        found
    }

    /// Range of a codeword whose message continues with OOB bytes and the ECC bytes at another position. `rest` is
    /// the remainder of the message.
    fn end(
        &self,
        sum: &[u8],
        (start, message_end, at): (usize, usize, usize),
        rest: u16,
    ) -> Option<CodewordRange> {
        let mut rest = rest;
        for end in at + 1..=self.raw_bytes().min(at + MAX_ECC) {
            rest = self.divisor.push(rest, *sum.get(end - 1)?);
            if rest == 0 {
                let range = CodewordRange { start, message_end, ecc_start: at, end, strength: 0 };
                let strength = self.divisor.strength(&range.word(sum));
                let is_there = strength >= LEAST_STRENGTH && end - at >= self.ecc_bytes(strength);
                if is_there
                    && self.sums.iter().filter(|other| self.holds(other, &range, strength)).count() > 1
                {
                    return Some(CodewordRange { strength, ..range });
                }
            }
        }
        None
    }

    fn ecc_bytes(&self, strength: u32) -> usize {
        (self.divisor.degree() * strength).div_ceil(8) as usize
    }

    /// True if a sum contains a codeword in a range.
    fn holds(&self, sum: &[u8], range: &CodewordRange, strength: u32) -> bool {
        let word = range.word(sum);
        word.iter().fold(0, |rest, byte| self.divisor.push(rest, *byte)) == 0
            && self.divisor.strength(&word) >= strength
    }

    /// Mask with which pages contain a codeword in a range.
    fn inversion(&self, range: &CodewordRange) -> Option<Inversion> {
        let ecc_bytes = self.ecc_bytes(range.strength);
        let counts = [Inversion::Erased, Inversion::None, Inversion::All].map(|inversion| {
            let holds = |page: &&Vec<u8>| {
                let mut word = range.word(page);
                let message = word.len() - ecc_bytes;
                match inversion {
                    Inversion::Erased => word.iter_mut().for_each(|byte| *byte = !*byte),
                    Inversion::None => {}
                    Inversion::All => word.iter_mut().skip(message).for_each(|byte| *byte = !*byte),
                }
                // Bits after the check bits may be 0 or 1.
                let padding = 8 * ecc_bytes as u32 - self.divisor.degree() * range.strength;
                if let Some(last) = word.last_mut() {
                    *last &= 0xFF << padding;
                }
                word.iter().fold(0, |rest, byte| self.divisor.push(rest, *byte)) == 0
            };
            (inversion, self.pages.iter().filter(holds).count())
        });
        counts
            .into_iter()
            .filter(|(_, count)| *count > 1)
            .max_by_key(|(_, count)| *count)
            .map(|(inversion, _)| inversion)
    }

    /// Patterns with the first codeword in a range, the most likely first.
    fn patterns(&self, range: &CodewordRange) -> Vec<String> {
        let page_bytes = self.geometry.page_bytes as usize;
        if range.ecc_start >= page_bytes && page_bytes > self.step_bytes {
            self.apart(range).into_iter().collect()
        } else {
            self.interleaved(range)
        }
    }

    fn scheme(&self, range: &CodewordRange, inversion: Inversion, pattern: &str) -> Option<Scheme> {
        let step_bytes = u32::try_from(self.step_bytes).ok()?;
        let code = Code::bch_over(range.strength, step_bytes, self.divisor.polynomial()).ok()?;
        let layout = Layout::found(pattern, code, self.bits, inversion).ok()?;
        Scheme::new(self.geometry.clone(), code, &layout).ok()
    }

    fn steps(&self) -> usize {
        self.geometry.page_bytes as usize / self.step_bytes
    }

    /// True if most sums that contain the first step also contain this step.
    fn follows(&self, range: &CodewordRange) -> bool {
        self.sums.iter().filter(|sum| self.holds(sum, range, range.strength)).count() > 1
    }

    /// Pattern with the ECC bytes after the data of the page.
    fn apart(&self, range: &CodewordRange) -> Option<String> {
        let (page_bytes, n) = (self.geometry.page_bytes as usize, self.steps());
        let length = range.end - range.ecc_start;
        let step = |at: usize| CodewordRange {
            start: self.step_bytes,
            message_end: 2 * self.step_bytes,
            ecc_start: at,
            end: at + length,
            ..*range
        };
        if range.start != 0 || range.message_end != self.step_bytes {
            return None;
        }
        let last = self.raw_bytes().checked_sub(length)?;
        let next = (range.end..=last).find(|&at| self.follows(&step(at)))?;
        let stride = next - range.ecc_start;
        let meta = length - self.ecc_bytes(range.strength);
        let own = [item("meta", meta), "ecc".to_owned()].concat();
        let tail = item("free", stride - length);
        let lead = item("free", range.ecc_start - page_bytes);
        Some(format!("data {lead}{}*({own} {tail}) ({own})", n - 1).replace(" )", ")"))
    }

    /// Patterns with the ECC bytes of each step after its data.
    fn interleaved(&self, range: &CodewordRange) -> Vec<String> {
        let (n, gap, ecc) =
            (self.steps(), range.ecc_start - range.message_end, self.ecc_bytes(range.strength));
        let covered = range.end - range.start - gap;
        let Some(extra) = covered.checked_sub(ecc + self.step_bytes) else { return Vec::new() };
        // OOB bytes before the data of the first step belong only to this step; other OOB bytes occur in each step.
        let step = |start: usize, extra: usize| {
            let message_end = start + range.message_end - range.start - extra;
            let ecc_start = message_end + gap;
            CodewordRange {
                start,
                message_end,
                ecc_start,
                end: ecc_start + range.end - range.ecc_start,
                ..*range
            }
        };
        let lead = |before| [item("free", range.start), item("meta", before)].concat();
        let own = |after| format!("data {}{}ecc", item("meta", after), item("free", gap));
        if n == 1 {
            return vec![format!("{}({})", lead(0), own(extra))];
        }
        // Bytes that are the same in all pages do not affect the sums. The latest start has the fewest such bytes.
        let starts = (range.end..=range.end + HEAD).rev();
        let next = starts.flat_map(|start| [(start, extra, 0), (start, 0, extra)]);
        let next = next.filter(|&(start, before, _)| self.follows(&step(start, before)));
        let patterns = next.map(|(start, before, after)| {
            let (own, tail) = (own(after), item("free", start - range.end));
            format!("{}{}*({own} {tail}) ({own})", lead(before), n - 1).replace(" )", ")")
        });
        patterns.collect()
    }
}

/// Item of a pattern; empty for 0 bytes.
fn item(kind: &str, bytes: usize) -> String {
    if bytes == 0 { String::new() } else { format!("{kind}:{bytes} ") }
}

impl CodewordRange {
    /// Bytes of a page or a sum in this range.
    fn word(&self, page: &[u8]) -> Vec<u8> {
        let part = |from: usize, to: usize| page.get(from..to).unwrap_or(&[]);
        [part(self.start, self.message_end), part(self.ecc_start, self.end)].concat()
    }
}
