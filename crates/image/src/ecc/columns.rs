//! Search for stuck columns: bits that read the same in all pages, and that the code corrects where the data have the other value.

use super::Scheme;
use super::page::{Corrector, PageState};
use super::stuck::StuckColumn;

/// Pages with data from which columns are known.
pub(super) const PAGES: u32 = 64;

/// Least corrections of a bit, all in one direction, from which it is believed to be stuck. With as many wrong bits as BCH8 over 512 bytes
/// corrects on average, a good bit of a 2 KiB page is corrected in 6 of 64 pages in less than one of 10,000 dumps.
const CORRECTIONS: u16 = 6;

/// Corrections of a bit that wear explains: they tell the rate of wrong bits.
const USUAL_CORRECTIONS: u16 = 3;

/// Logarithm to base 2 of the expected number of good bits that are corrected as often as a stuck one must be: one in 1000 dumps.
const FALSE_ALARMS: f64 = -10.0;

/// Most columns of a page. More are no defects of columns.
const COLUMNS: usize = 16;

/// Values and corrections of each byte over the pages with data.
pub(super) struct Columns {
    /// Bits that were 1 in all pages, and bits that were 0.
    always: Vec<(u8, u8)>,
    /// Corrections of each bit.
    corrections: Vec<[u16; 8]>,
    /// Pages in which a byte was corrected.
    corrected: Vec<u32>,
    pages: u32,
}

impl Columns {
    pub(super) fn new(full_page: usize) -> Self {
        Self {
            always: vec![(0xFF, 0xFF); full_page],
            corrections: vec![[0; 8]; full_page],
            corrected: vec![0; full_page],
            pages: 0,
        }
    }

    /// True when enough pages were looked at.
    pub(super) const fn is_known(&self) -> bool {
        self.pages >= PAGES
    }

    /// Looks at a page as it was read; the corrector has no columns yet.
    pub(super) fn add(&mut self, scheme: &Scheme, corrector: &mut Corrector<'_>, number: u64, raw: &[u8]) {
        corrector.raw.copy_from_slice(raw);
        if corrector.correct(number) != PageState::Data {
            return;
        }
        // Cells hold the bits with those of the randomizer.
        scheme.randomize(number, &mut corrector.raw);
        self.pages += 1;
        for (at, (read, right)) in raw.iter().zip(&corrector.raw).enumerate() {
            self.always[at].0 &= read;
            self.always[at].1 &= !read;
            let wrong = read ^ right;
            if wrong != 0 {
                self.corrected[at] += 1;
                let bits = self.corrections[at].iter_mut().enumerate();
                bits.filter(|(bit, _)| wrong >> bit & 1 == 1).for_each(|(_, count)| *count += 1);
            }
        }
    }

    /// Corrections from which a bit is believed to be stuck, at the rate of wrong bits of these pages. Wrong bits of a good column are independent, so
    /// that their number follows a binomial distribution, whose tail is below `C(n, k) p^k`.
    fn needed(&self) -> u16 {
        let (bits, pages) = (8.0 * self.always.len() as f64, f64::from(self.pages.max(1)));
        let usual = self.corrections.iter().flatten().filter(|count| **count <= USUAL_CORRECTIONS);
        let rate = usual.map(|count| f64::from(*count)).sum::<f64>().max(1.0) / (bits * pages);
        let mut expected = libm::log2(bits);
        for count in 1..=self.pages.min(u32::from(u16::MAX)) as u16 {
            let k = f64::from(count);
            expected += libm::log2((pages + 1.0 - k) / k) + libm::log2(rate);
            if count >= CORRECTIONS && expected <= FALSE_ALARMS {
                return count;
            }
        }
        u16::MAX
    }

    /// The columns that are stuck.
    pub(super) fn stuck(&self) -> Vec<StuckColumn> {
        let needed = self.needed();
        let mut all = Vec::new();
        for (at, &(ones, zeros)) in self.always.iter().enumerate() {
            let often = (0..8).filter(|&bit| self.corrections[at][bit] >= needed);
            let bits = often.fold(0_u8, |mask, bit| mask | 1 << bit) & (ones | zeros);
            if bits != 0 {
                all.push(StuckColumn {
                    byte: at as u32,
                    bits,
                    value: ones & bits,
                    pages: self.pages,
                    corrected_pages: self.corrected[at],
                });
            }
        }
        if all.len() > COLUMNS { Vec::new() } else { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The more wrong bits there are, the more corrections of one bit are no chance.
    #[test]
    fn a_worn_chip_needs_more_corrections() {
        let needed = |corrected: usize, full_page: usize| {
            let mut columns = Columns::new(full_page);
            columns.pages = PAGES;
            columns.corrections.iter_mut().flatten().take(corrected).for_each(|count| *count = 1);
            columns.needed()
        };
        // None; eight of 4096 bits in all pages; 40 of 8192 in pages of 8 KiB.
        assert_eq!(
            [needed(0, 2112), needed(2112, 2112), needed(64 * 40 * 8, 8936)],
            [CORRECTIONS, CORRECTIONS, 8]
        );
    }
}
