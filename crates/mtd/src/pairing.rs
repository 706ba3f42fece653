//! Pairing schemes: the pages of a block that share cells, in NAND with two bits per cell.
//!
//! A pair is two pages in the same cells. Its LSB page (Linux: group 0) is programmed first and fast. Its MSB page (group 1)
//! is programmed later and slowly, by moving the charge of the LSB page. A power cut during the program of the MSB page
//! damages both pages.

use core::fmt;
use core::str::FromStr;

/// A pairing scheme by name, for blocks of any suitable size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PairingScheme {
    /// No pages share cells (one bit a cell), or the pairing is unknown.
    #[default]
    None,
    /// The MSB page is three pages after the LSB page, two pages at both ends of the block: (0,2) (1,4) (3,6) (5,8) ...
    /// (123,126) (125,127).
    ///
    /// Used by H27UCG8T2ETR-BC and TC58TEG5DCLTA00 (Linux 6.12 `drivers/mtd/nand/raw/nand_base.c`, which uses the same name).
    Dist3,
    /// [`Dist3`](Self::Dist3) for couples of pages, one on even and one on odd bit lines. The distance is six pages, four
    /// pages at both ends of the block: (0,4) (1,5) (2,8) (3,9) (6,12) (7,13) ... (251,255).
    ///
    /// Used by H27UCG8T2BTR-BC (Linux 6.12 `include/linux/mtd/mtd.h`, from its data sheet), and by Samsung's and Micron's
    /// chips with 128 pages per block from about 2007.
    Dist6,
}

/// Error for an unknown scheme name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown pairing scheme; known are `none`, `dist3`, `dist6`")]
pub struct UnknownScheme;

impl PairingScheme {
    /// All pairing schemes.
    pub const ALL: [Self; 3] = [Self::None, Self::Dist3, Self::Dist6];

    /// Name in part files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Dist3 => "dist3",
            Self::Dist6 => "dist6",
        }
    }

    /// Number of adjacent pages on one word line; the scheme is [`PairingScheme::Dist3`] counted in this unit.
    const fn couple(self) -> u32 {
        match self {
            Self::None | Self::Dist3 => 1,
            Self::Dist6 => 2,
        }
    }
}

impl fmt::Display for PairingScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PairingScheme {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, UnknownScheme> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name).ok_or(UnknownScheme)
    }
}

/// Bit of a cell that a page stores: LSB or MSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The first, fast page (Linux: group 0).
    Lsb,
    /// The second, slow page (Linux: group 1).
    Msb,
}

/// Pair and group of a page in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairPosition {
    /// Number of the pair, counted in the order of LSB pages.
    pub pair: u32,
    /// Group of the page within its pair: LSB or MSB.
    pub group: Group,
}

/// The scheme does not fit the number of pages in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pairing scheme {scheme} needs a multiple of {multiple} pages a block, at least {least}, not {pages_per_block}"
)]
pub struct PairingError {
    /// Pairing scheme.
    pub scheme: PairingScheme,
    /// Pages per block.
    pub pages_per_block: u32,
    /// Required divisor of the number of pages per block.
    pub multiple: u32,
    /// Minimum number of pages per block.
    pub least: u32,
}

/// The pairing scheme applied to blocks of a given number of pages.
///
/// The two directions are consistent: [`Pairing::page_of`] is the inverse of [`Pairing::pair_of`] for every page. (Linux
/// 6.12's `nand_pairing_dist3_get_info` puts the last page in group 0 of a pair that does not exist; its inverse is right.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pairing {
    scheme: PairingScheme,
    /// Number of pages in a block, 0 without a scheme.
    pages: u32,
}

impl Pairing {
    /// The pairing without shared cells.
    pub const NONE: Self = Self { scheme: PairingScheme::None, pages: 0 };

    /// The pairing of blocks with `pages_per_block` pages.
    ///
    /// # Errors
    /// The scheme does not support this number of pages.
    pub const fn new(scheme: PairingScheme, pages_per_block: u32) -> Result<Self, PairingError> {
        if matches!(scheme, PairingScheme::None) {
            return Ok(Self::NONE);
        }
        let (multiple, least) = (2 * scheme.couple(), 4 * scheme.couple());
        if pages_per_block < least || !pages_per_block.is_multiple_of(multiple) {
            return Err(PairingError { scheme, pages_per_block, multiple, least });
        }
        Ok(Self { scheme, pages: pages_per_block })
    }

    /// Scheme of the pairing.
    pub const fn scheme(self) -> PairingScheme {
        self.scheme
    }

    /// True if no pages share cells.
    pub const fn is_none(self) -> bool {
        matches!(self.scheme, PairingScheme::None)
    }

    /// True if `page` is the first page programmed in its cells. True for all pages without a scheme.
    #[inline]
    pub const fn is_lsb(self, page: u32) -> bool {
        let couple = self.scheme.couple();
        let unit = page / couple;
        self.is_none() || unit == 0 || (unit % 2 == 1 && unit != self.last_unit())
    }

    /// Pair and group of `page`; `None` beyond the block. Without a scheme each page is a separate pair.
    pub const fn pair_of(self, page: u32) -> Option<PairPosition> {
        if self.is_none() {
            return Some(PairPosition { pair: page, group: Group::Lsb });
        }
        if page >= self.pages {
            return None;
        }
        let couple = self.scheme.couple();
        let (unit, side) = (page / couple, page % couple);
        let (pair, group) = if self.is_lsb(page) {
            (unit.div_ceil(2), Group::Lsb)
        } else if unit == self.last_unit() {
            (self.last_unit() / 2, Group::Msb)
        } else {
            (unit / 2 - 1, Group::Msb)
        };
        Some(PairPosition { pair: pair * couple + side, group })
    }

    /// Page at `place`; `None` if the block has no such page.
    #[inline]
    pub const fn page_of(self, place: PairPosition) -> Option<u32> {
        if self.is_none() {
            return if matches!(place.group, Group::Lsb) { Some(place.pair) } else { None };
        }
        if place.pair >= self.pages / 2 {
            return None;
        }
        let couple = self.scheme.couple();
        let (pair, side) = (place.pair / couple, place.pair % couple);
        let unit = match place.group {
            Group::Lsb if pair == 0 => 0,
            Group::Lsb => 2 * pair - 1,
            Group::Msb if pair == self.last_unit() / 2 => self.last_unit(),
            Group::Msb => 2 * pair + 2,
        };
        Some(unit * couple + side)
    }

    /// The other page in the cells of `page`, if any.
    pub const fn partner(self, page: u32) -> Option<u32> {
        if self.is_none() {
            return None;
        }
        match self.pair_of(page) {
            Some(PairPosition { pair, group: Group::Lsb }) => {
                self.page_of(PairPosition { pair, group: Group::Msb })
            }
            Some(PairPosition { pair, group: Group::Msb }) => {
                self.page_of(PairPosition { pair, group: Group::Lsb })
            }
            None => None,
        }
    }

    /// Number of the last page or couple of a block, which is MSB although its number is odd.
    const fn last_unit(self) -> u32 {
        (self.pages / self.scheme.couple()).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn pairs(scheme: PairingScheme, pages: u32) -> Vec<(u32, u32)> {
        let pairing = Pairing::new(scheme, pages).unwrap();
        let page = |pair, group| pairing.page_of(PairPosition { pair, group }).unwrap();
        (0..pages / 2).map(|pair| (page(pair, Group::Lsb), page(pair, Group::Msb))).collect()
    }

    #[test]
    fn dist3_is_linuxs_scheme() {
        let pairs = pairs(PairingScheme::Dist3, 128);
        assert_eq!(pairs[..4], [(0, 2), (1, 4), (3, 6), (5, 8)]);
        assert_eq!(pairs[62..], [(123, 126), (125, 127)]);
    }

    #[test]
    fn dist6_is_the_scheme_of_the_data_sheets() {
        let long = pairs(PairingScheme::Dist6, 256);
        assert_eq!(long[..6], [(0, 4), (1, 5), (2, 8), (3, 9), (6, 12), (7, 13)]);
        assert_eq!(long[127], (251, 255));
        assert_eq!(pairs(PairingScheme::Dist6, 128)[60..], [(118, 124), (119, 125), (122, 126), (123, 127)]);
    }

    /// Tests every possible block size (2 to 4096 pages): each page belongs to one pair, whose LSB page comes first, and the
    /// inverse returns the page. Unsuitable sizes are rejected.
    #[test]
    fn every_page_has_one_place_in_every_block() {
        for scheme in [PairingScheme::Dist3, PairingScheme::Dist6] {
            let (multiple, least) = if scheme == PairingScheme::Dist3 { (2, 4) } else { (4, 8) };
            for pages in 0..=4096 {
                let pairing = Pairing::new(scheme, pages);
                assert_eq!(pairing.is_ok(), pages >= least && pages % multiple == 0, "{scheme} {pages}");
                if let Ok(pairing) = pairing {
                    check_block(pairing, pages);
                }
            }
        }
    }

    fn check_block(pairing: Pairing, pages: u32) {
        let mut seen = vec![0u32; pages as usize / 2];
        let mut last_lsb = None;
        for page in 0..pages {
            let place = pairing.pair_of(page).unwrap();
            assert_eq!(pairing.page_of(place), Some(page), "{pairing:?} {page}");
            assert_eq!(pairing.is_lsb(page), place.group == Group::Lsb);
            let partner = pairing.partner(page).unwrap();
            assert_eq!(pairing.partner(partner), Some(page));
            assert_eq!(pairing.pair_of(partner).unwrap().pair, place.pair);
            assert_eq!(page < partner, place.group == Group::Lsb, "LSB pages come first");
            seen[place.pair as usize] += 1;
            if place.group == Group::Lsb {
                assert!(last_lsb < Some(place.pair), "pairs count in the order of their LSB pages");
                last_lsb = Some(place.pair);
            }
        }
        assert!(seen.iter().all(|&pages| pages == 2));
        assert_eq!((pairing.pair_of(pages), pairing.partner(pages)), (None, None));
        for group in [Group::Lsb, Group::Msb] {
            assert_eq!(pairing.page_of(PairPosition { pair: pages / 2, group }), None);
        }
    }

    #[test]
    fn without_a_scheme_each_page_is_alone() {
        let none = Pairing::new(PairingScheme::None, 63).unwrap();
        assert_eq!(none, Pairing::NONE);
        assert_eq!(none.pair_of(7), Some(PairPosition { pair: 7, group: Group::Lsb }));
        assert_eq!(none.page_of(PairPosition { pair: 7, group: Group::Lsb }), Some(7));
        assert_eq!(none.page_of(PairPosition { pair: 7, group: Group::Msb }), None);
        assert!(none.is_lsb(63) && none.partner(7).is_none());
    }

    #[test]
    fn schemes_have_names() {
        for scheme in PairingScheme::ALL {
            assert_eq!(scheme.name().parse(), Ok(scheme));
        }
        assert_eq!("dist4".parse::<PairingScheme>(), Err(UnknownScheme));
    }
}
