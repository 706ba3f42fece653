//! The ECC engine of a driver, and what it knows of the pages that it encoded.

use crate::ecc_engine::{Corrected, EccEngine, PageRead, PageSet, Uncorrectable};
use crate::oracle::PageTruth;
use crate::timeline::Host;
use std::ops::Range;

/// An ECC engine, with the set of pages that it encoded and that have not changed since.
#[derive(Clone, Debug)]
pub(crate) struct PageEcc {
    pub(crate) engine: EccEngine,
    encoded: PageSet,
}

impl PageEcc {
    /// An engine of a device of `pages` pages. Only one on the host's side of a bus that keeps data encodes any.
    pub(crate) fn new(engine: EccEngine, pages: u64, keeps_data: bool) -> Self {
        let pages = if engine.on_host() && keeps_data { pages } else { 0 };
        Self { engine, encoded: PageSet::new(pages) }
    }

    /// Decodes a page that was just read. Without wrong bits, a page that was encoded here needs no decoder: there is nothing to
    /// find.
    // A call of its own for this costs a page read 4 %.
    #[inline(always)]
    pub(crate) fn decode(
        &mut self,
        host: &mut Host,
        truth: &impl PageTruth,
        page: u64,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<Corrected, Uncorrectable> {
        self.decode_part(host, truth, (page, 0), data, oob)
    }

    /// As `decode`, of a page from one of its ECC steps on, as many as `data` has.
    #[inline(always)]
    pub(crate) fn decode_part(
        &mut self,
        host: &mut Host,
        truth: &impl PageTruth,
        (page, first): (u64, usize),
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<Corrected, Uncorrectable> {
        let read = match truth.wrong_bits() {
            wrong if !truth.keeps_data() => PageRead::Counted(wrong.unwrap_or_default()),
            Some([]) if self.encoded.contains(page) && truth.is_as_programmed() => PageRead::Clean,
            // Codes are masked so that ones with ECC bytes of ones are a codeword, as Linux has it.
            Some([]) if truth.is_erased() => PageRead::Clean,
            _ => PageRead::Bytes,
        };
        self.engine.decode_part(host, first, data, oob, read)
    }

    /// The page now holds what was encoded.
    #[inline]
    pub(crate) fn note_encoded(&mut self, page: u64) {
        self.encoded.insert(page);
    }

    /// These pages may no longer hold what was encoded.
    pub(crate) fn forget(&mut self, pages: Range<u64>) {
        self.encoded.remove(pages);
    }

    /// No page may hold what was encoded.
    pub(crate) fn forget_all(&mut self) {
        self.encoded.clear();
    }
}
