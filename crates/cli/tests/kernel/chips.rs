//! The chips that nandsim plays, and the code that the kernel corrects them with.

use std::ops::Range;

/// A chip of nandsim. It has Linux's default layouts: the one of small pages, the old one for Hamming, ECC at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chip {
    /// Name of its files.
    pub(crate) name: &'static str,
    /// The id bytes by which the kernel knows the geometry.
    id: &'static str,
    /// Bytes of a page.
    pub(crate) page: usize,
    /// Bytes of its OOB.
    pub(crate) oob: usize,
    /// Bytes of a block.
    block: usize,
    /// Bits that BCH corrects in 512 bytes; none: Hamming, one bit in 256 bytes.
    bch: Option<usize>,
}

const SMALL: &str = "0x98,0x39";
const LARGE: &str = "0x20,0xa1,0x00,0x15";
const LARGE_OOB_128: &str = "0x98,0xdc,0x91,0x15,0x76";
const PAGES_OF_4K: &str = "0x98,0xdc,0x90,0x26,0x76,0x16,0x08,0x00";

/// One chip for each layout, and codes up to the strongest that finds room on a chip that nandsim can play.
pub(crate) const CHIPS: [Chip; 6] = [
    Chip { name: "small-page", id: SMALL, page: 512, oob: 16, block: 16 << 10, bch: None },
    Chip { name: "hamming", id: LARGE, page: 2048, oob: 64, block: 128 << 10, bch: None },
    Chip { name: "bch4", id: LARGE, page: 2048, oob: 64, block: 128 << 10, bch: Some(4) },
    Chip { name: "bch8", id: LARGE, page: 2048, oob: 64, block: 128 << 10, bch: Some(8) },
    Chip { name: "bch16", id: LARGE_OOB_128, page: 2048, oob: 128, block: 128 << 10, bch: Some(16) },
    Chip { name: "bch19", id: PAGES_OF_4K, page: 4096, oob: 256, block: 256 << 10, bch: Some(19) },
];

impl Chip {
    /// Its line in the guest's list, for `bytes` of data.
    pub(crate) fn line(&self, bytes: usize) -> String {
        let bch = self.bch.map(|strength| format!("bch={strength}")).unwrap_or_default();
        format!("{} {bytes} {} id_bytes={} {bch}\n", self.name, self.block, self.id)
    }

    /// What `floatgate ecc` calls the code.
    pub(crate) fn code(&self) -> String {
        self.bch.map_or("hamming/256".to_owned(), |strength| format!("bch{strength}/512"))
    }

    /// Bytes of data that the code covers at once.
    pub(crate) fn step(&self) -> usize {
        self.bch.map_or(256, |_| 512)
    }

    /// Bits that it corrects in them.
    pub(crate) fn strength(&self) -> usize {
        self.bch.unwrap_or(1)
    }

    /// Check bits of a step: 11 pairs of parities, or 13 bits for each bit that is corrected. They start with the highest
    /// bit of a byte; the rest of the last byte says nothing.
    pub(crate) fn check_bits(&self) -> usize {
        self.bch.map_or(22, |strength| 13 * strength)
    }

    /// Bits after the last check bit that BCH leaves in its last byte, counted from the first bit of the step's data.
    /// Hamming counts an error in its own two.
    pub(crate) fn unused_bits(&self) -> Range<usize> {
        let used = 8 * self.step() + self.check_bits();
        used..self.bch.map_or(used, |_| used.next_multiple_of(8))
    }

    /// Where the check bytes of step `step` are in the OOB, by the kernel's documentation of its layouts.
    pub(crate) fn check_byte(&self, step: usize, byte: usize) -> usize {
        let per_step = self.check_bits().div_ceil(8);
        let at = step * per_step + byte;
        match (self.bch, self.page) {
            (None, 512) if at < 4 => at,
            (None, 512) => at + 2,
            (None, _) => 40 + at,
            (Some(_), _) => self.oob - self.page / self.step() * per_step + at,
        }
    }
}
