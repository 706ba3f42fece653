//! Pages and bit errors from a seed.

use crate::chips::Chip;

/// Pages of a chip's image.
pub(crate) const PAGES: usize = 24;

/// splitmix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// `count` different numbers below `end`.
    fn choose(&mut self, count: usize, end: usize) -> Vec<usize> {
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let number = self.below(end);
            if !chosen.contains(&number) {
                chosen.push(number);
            }
        }
        chosen
    }
}

/// Data of [`PAGES`] pages: two erased, two all zero, the others random.
pub(crate) fn pages(chip: &Chip, random: &mut Random) -> Vec<u8> {
    let mut data: Vec<u8> = (0..PAGES * chip.page).map(|_| random.next() as u8).collect();
    data[..2 * chip.page].fill(0xFF);
    data[2 * chip.page..4 * chip.page].fill(0);
    data
}

/// What a decoder has to say of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Bits corrected.
    pub(crate) corrected: usize,
    /// Steps with more errors than the code corrects.
    pub(crate) failed: usize,
}

/// Flips bits of `raw` (pages with OOB), of data and check bits alike: in the first of three pages only bits that nobody
/// counts, up to the code's strength in each step of the second, and in the third one step with one more. The verdicts are
/// those of theory: BCH of 4 bits or more takes one error too many for a correctable pattern less than once in three
/// hundred times.
pub(crate) fn flip(chip: &Chip, raw: &mut [u8], random: &mut Random) -> Vec<Verdict> {
    let pages = raw.chunks_exact_mut(chip.page + chip.oob).enumerate();
    pages.map(|(index, page)| flip_page(chip, page, index, random)).collect()
}

fn flip_page(chip: &Chip, page: &mut [u8], index: usize, random: &mut Random) -> Verdict {
    let (mut verdict, steps) = (Verdict::default(), chip.page / chip.step());
    if index.is_multiple_of(3) {
        (0..steps).for_each(|step| flip_step(chip, page, step, chip.unused_bits()));
        return verdict;
    }
    let broken = (index % 3 == 2).then(|| random.below(steps));
    for step in 0..steps {
        let count = match broken {
            Some(broken) if broken == step => chip.strength() + 1,
            _ => random.below(chip.strength() + 1),
        };
        flip_step(chip, page, step, random.choose(count, 8 * chip.step() + chip.check_bits()));
        if count > chip.strength() {
            verdict.failed += 1;
        } else {
            verdict.corrected += count;
        }
    }
    verdict
}

/// Bits are counted from the first bit of the step's data to the last of its check bits.
fn flip_step(chip: &Chip, page: &mut [u8], step: usize, bits: impl IntoIterator<Item = usize>) {
    for bit in bits {
        let byte = match (bit / 8).checked_sub(chip.step()) {
            None => step * chip.step() + bit / 8,
            Some(check) => chip.page + chip.check_byte(step, check),
        };
        page[byte] ^= 0x80 >> (bit % 8);
    }
}
