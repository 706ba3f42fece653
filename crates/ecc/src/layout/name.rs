//! Layouts by name.

use super::{LayoutError, MARKER, OobLayout, Region, Regions};
use core::fmt;
use core::str::FromStr;

/// A layout, as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutName {
    /// `small-page`: pages of 512 bytes or less.
    SmallPage,
    /// `large-page`: ECC bytes at the end.
    LargePage,
    /// `large-page-hamming`: ECC bytes from 40 (OOB of 64 bytes) or 80 (128).
    LargePageHamming,
    /// `winbond`: sections of 16 bytes, 12 for the user and 4 for the ECC (facts 1.1).
    Winbond,
    /// `macronix`: the chip hides its ECC bytes; all but the marker is the user's.
    Macronix,
    /// `linux`: what Linux's software engines take for this OOB and code.
    Linux,
}

const NAMES: [(LayoutName, &str); 6] = [
    (LayoutName::SmallPage, "small-page"),
    (LayoutName::LargePage, "large-page"),
    (LayoutName::LargePageHamming, "large-page-hamming"),
    (LayoutName::Winbond, "winbond"),
    (LayoutName::Macronix, "macronix"),
    (LayoutName::Linux, "linux"),
];

impl fmt::Display for LayoutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(layout, _)| layout == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for LayoutName {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(layout, _)| *layout).ok_or(LayoutError::Unknown)
    }
}

/// Bytes of Winbond's sections, and those of their ECC.
const SECTION: (u32, u32) = (16, 4);

impl OobLayout {
    /// The layout of that name for an OOB of `oob_bytes` and the `ecc_bytes` of a page of `steps` steps.
    ///
    /// Macronix's has no place for ECC bytes, whatever their number: see [`ecc_bytes`](Self::ecc_bytes).
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn named(name: LayoutName, oob_bytes: u32, ecc_bytes: u32, steps: u32) -> Result<Self, LayoutError> {
        match name {
            LayoutName::SmallPage => Self::small_page(oob_bytes, ecc_bytes),
            LayoutName::LargePage => Self::large_page(oob_bytes, ecc_bytes),
            LayoutName::LargePageHamming => Self::large_page_hamming(oob_bytes, ecc_bytes),
            LayoutName::Winbond => Self::winbond(oob_bytes, ecc_bytes),
            LayoutName::Macronix => Ok(Self::no_ecc(oob_bytes)),
            LayoutName::Linux => Self::linux(oob_bytes, ecc_bytes, steps),
        }
    }

    /// Each section takes its share of the ECC bytes.
    fn winbond(oob_bytes: u32, ecc_bytes: u32) -> Result<Self, LayoutError> {
        let (section, room) = SECTION;
        let sections = oob_bytes / section;
        let share = ecc_bytes.div_ceil(sections.max(1));
        if sections == 0 || share > room {
            return Err(LayoutError::NoRoom { ecc_bytes, oob_bytes });
        }
        let mut layout = Self::sections(oob_bytes, section, room)?;
        layout.ecc = Regions::new(&[]);
        for at in 0..sections {
            let len = ecc_bytes.saturating_sub(at * share).min(share);
            layout.ecc.push(Region::new((at + 1) * section - room, len));
        }
        Ok(layout)
    }

    /// Linux tells small pages by their OOB, of 8 or 16 bytes, and takes the older layout for Hamming codes: three bytes
    /// per step, which no BCH code over steps of 512 bytes or more has (facts 5).
    fn linux(oob_bytes: u32, ecc_bytes: u32, steps: u32) -> Result<Self, LayoutError> {
        if oob_bytes <= 16 {
            Self::small_page(oob_bytes, ecc_bytes)
        } else if ecc_bytes == 3 * steps {
            Self::large_page_hamming(oob_bytes, ecc_bytes)
        } else {
            Self::large_page(oob_bytes, ecc_bytes)
        }
    }
}

const _: () = assert!(SECTION.1 + MARKER <= SECTION.0);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_come_back() {
        for (layout, name) in NAMES {
            assert_eq!((layout.to_string().as_str(), name.parse()), (name, Ok(layout)));
        }
        assert_eq!("linux ".parse::<LayoutName>(), Err(LayoutError::Unknown));
    }

    #[test]
    fn linux_goes_by_oob_and_code() {
        let linux = |oob, ecc, steps| OobLayout::named(LayoutName::Linux, oob, ecc, steps);
        assert_eq!(linux(16, 6, 2), OobLayout::small_page(16, 6));
        assert_eq!(linux(64, 24, 8), OobLayout::large_page_hamming(64, 24));
        assert_eq!(linux(64, 52, 4), OobLayout::large_page(64, 52));
        assert_eq!(linux(224, 104, 8), OobLayout::large_page(224, 104));
        assert!(linux(64, 104, 8).is_err());
    }

    #[test]
    fn sections_take_their_share() {
        let winbond = |oob, ecc| OobLayout::named(LayoutName::Winbond, oob, ecc, 4);
        assert_eq!(winbond(64, 16), OobLayout::sections(64, 16, 4));
        let hamming = winbond(64, 12).unwrap();
        assert_eq!((hamming.ecc()[1], hamming.free_bytes()), (Region::new(28, 3), 46));
        assert_eq!(winbond(64, 13).unwrap().ecc_bytes(), 13);
        assert!(winbond(64, 17).is_err() && winbond(8, 1).is_err());
        let macronix = OobLayout::named(LayoutName::Macronix, 64, 28, 4).unwrap();
        assert_eq!((macronix.ecc_bytes(), macronix.free_bytes()), (0, 62));
    }
}
