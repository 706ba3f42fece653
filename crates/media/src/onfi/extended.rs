//! The ONFI extended parameter page (ONFI 4.2 section 5.7.2).

use crate::crc;
use crate::error::{MediaError, Reason};
use crate::list::List;
use crate::units::Endurance;
use crate::wire::{Wire, chunk, layout, signature, span, store};

/// Offset of the first section, bytes.
const HEADER_BYTES: usize = 32;

/// Offset of the section list (ONFI 4.2 section 5.7.2, bytes 16-31).
const SECTIONS_AT: usize = 16;

/// Maximum number of sections in the header.
const SECTIONS: usize = 8;

/// Unit of section and page lengths, bytes.
const UNIT: usize = 16;

const SIGNATURE: &str = "EPPS";

/// Section type of error correction information.
const ECC_SECTION: u8 = 2;

layout! {
    /// Type and length of one section (ONFI 4.2 section 5.7.2, bytes 16-31).
    pub struct Section[2] {
        /// Type of the section; 0: unused, 1: section specifier, 2: error correction.
        0 => kind: u8,
        /// Length, in units of 16 bytes.
        1 => units: u8,
    }
}

layout! {
    /// Error correction that the chip requires (ONFI 4.2 section 5.7.2).
    pub struct EccInfo[8] {
        /// Bit errors to correct in a codeword.
        0 => bits: u8,
        /// Codeword size, as a power of two in bytes.
        1 => codeword_exponent: u8,
        /// Most blocks of a LUN that may be bad over its life.
        2 => max_bad_blocks_per_lun: u16,
        /// Program/erase cycles of a block with that correction.
        4 => endurance: Endurance,
    }
}

const _: () = assert!(SECTIONS_AT + Section::SIZE * SECTIONS == HEADER_BYTES);

impl EccInfo {
    /// Codeword size, bytes; `None` if the exponent is zero or past 31.
    #[must_use]
    pub const fn codeword_bytes(&self) -> Option<u32> {
        if self.codeword_exponent == 0 {
            return None;
        }
        1u32.checked_shl(self.codeword_exponent as u32)
    }
}

/// The extended parameter page: its list of sections and its first error correction entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnfiExtendedPage {
    /// Sections in order. The sum of their lengths is the length of the sections on the page.
    pub sections: List<Section, SECTIONS>,
    /// First entry of the first error correction section.
    pub ecc: Option<EccInfo>,
}

impl OnfiExtendedPage {
    /// A page with one error correction section, the usual content.
    #[must_use]
    pub fn with_ecc(ecc: EccInfo) -> Self {
        let section = Section { kind: ECC_SECTION, units: 1 };
        Self { sections: List::from_slice(&[section]).unwrap_or_default(), ecc: Some(ecc) }
    }

    /// Length of the page, bytes; a multiple of 16.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        HEADER_BYTES + self.sections.iter().map(Section::len_bytes).sum::<usize>()
    }

    /// Reads a page that fills all of `bytes`.
    ///
    /// The length comes from the parameter page,
    /// [`OnfiPage::extended_bytes`](super::OnfiPage::extended_bytes). Sections other than error
    /// correction are skipped.
    ///
    /// # Errors
    ///
    /// A slice too short or not a multiple of 16 bytes, a wrong checksum or signature, or a section
    /// longer than the page.
    pub fn parse(bytes: &[u8]) -> Result<Self, MediaError> {
        chunk::<HEADER_BYTES>(bytes, 0)?;
        check_crc(bytes)?;
        signature(bytes, 2, SIGNATURE)?;
        let mut page = Self::default();
        let mut at = HEADER_BYTES;
        for section in used(&<[Section; SECTIONS]>::decode(bytes, SECTIONS_AT)) {
            page.add_section(*section, span(bytes, at, section.len_bytes())?, at)?;
            at += section.len_bytes();
        }
        if at == bytes.len() {
            return Ok(page);
        }
        Err(Reason::Inconsistent { what: "sections do not fill the extended page" }.at(at))
    }

    /// Adds one section to the list and decodes it if it is an error correction section.
    fn add_section(&mut self, section: Section, body: &[u8], at: usize) -> Result<(), MediaError> {
        self.sections.push(section, "sections").map_err(|reason| reason.at(at))?;
        if section.kind == ECC_SECTION && self.ecc.is_none() {
            chunk::<{ EccInfo::SIZE }>(body, 0).map_err(|error| error.shifted(at))?;
            self.ecc = Some(EccInfo::decode(body, 0));
        }
        Ok(())
    }

    /// Writes the page from byte 0 and returns its length.
    ///
    /// # Errors
    ///
    /// A slice too short, an error correction entry without a section for it, a section without an
    /// entry, or an unused section before a used one.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, MediaError> {
        let need = self.len_bytes();
        let have = out.len();
        let page = out.get_mut(..need).ok_or_else(|| Reason::NoRoom { need, have }.at(0))?;
        page.fill(0);
        store(page, 2, SIGNATURE.as_bytes());
        let mut sections = [Section::default(); SECTIONS];
        for (place, section) in sections.iter_mut().zip(&self.sections) {
            *place = *section;
        }
        if used(&sections).len() != self.sections.len() {
            return Err(Reason::Inconsistent { what: "an unused section among used ones" }.at(16));
        }
        sections.put(page, SECTIONS_AT);
        self.put_ecc(page)?;
        let sum = crc::onfi(page.get(2..).unwrap_or(&[]));
        sum.put(page, 0);
        Ok(need)
    }

    /// Writes the error correction entry into its section.
    fn put_ecc(&self, page: &mut [u8]) -> Result<(), MediaError> {
        let place = self.ecc_at();
        match (self.ecc, place) {
            (Some(ecc), Some((at, len))) if len >= EccInfo::SIZE => ecc.put(page, at),
            (None, None) => {}
            _ => {
                let what = "error correction entry and section do not match";
                return Err(Reason::Inconsistent { what }.at(HEADER_BYTES));
            }
        }
        Ok(())
    }

    /// Offset and length of the first error correction section.
    fn ecc_at(&self) -> Option<(usize, usize)> {
        let mut at = HEADER_BYTES;
        for section in &self.sections {
            if section.kind == ECC_SECTION {
                return Some((at, section.len_bytes()));
            }
            at += section.len_bytes();
        }
        None
    }
}

impl Section {
    /// Length of the section, bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        UNIT * usize::from(self.units)
    }
}

/// The sections before the first all-zero section.
fn used(sections: &[Section; SECTIONS]) -> &[Section] {
    let end = sections.iter().position(|section| *section == Section::default());
    sections.get(..end.unwrap_or(SECTIONS)).unwrap_or(&[])
}

/// Compares the computed checksum of the page with the stored one, its first two bytes.
fn check_crc(bytes: &[u8]) -> Result<(), MediaError> {
    let stored = u16::decode(bytes, 0);
    let computed = crc::onfi(bytes.get(2..).unwrap_or(&[]));
    if stored == computed {
        return Ok(());
    }
    Err(Reason::BadCrc { stored, computed }.at(0))
}
