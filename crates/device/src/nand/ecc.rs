//! ECC engine of a driver, with the set of pages that it encoded.

use crate::ecc_engine::{Corrected, EccEngine, PageRead, PageSet, Uncorrectable};
use crate::oracle::PageTruth;
use crate::timeline::Host;
use std::ops::Range;

/// An ECC engine, with the set of encoded pages that have not changed since.
#[derive(Clone, Debug)]
pub(crate) struct PageEcc {
    pub(crate) engine: EccEngine,
    encoded: PageSet,
}

impl PageEcc {
    /// An engine for a device of `pages` pages. Pages are encoded only by an engine on the host's side, and only if data is
    /// stored.
    pub(crate) fn new(engine: EccEngine, pages: u64, keeps_data: bool) -> Self {
        let pages = if engine.on_host() && keeps_data { pages } else { 0 };
        Self { engine, encoded: PageSet::new(pages) }
    }

    /// Decodes a page that was just read. A page without wrong bits that was encoded here needs no decoding.
    // A separate function call for this would make a page read 4 % slower.
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

    /// Decodes a part of a page like `decode`: from one ECC step on, as many steps as `data` contains.
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
            // As in Linux, codes are masked so that a step of ones with ECC bytes of ones is a codeword.
            Some([]) if truth.is_erased() => PageRead::Clean,
            _ => PageRead::Bytes,
        };
        self.engine.decode_part(host, first, data, oob, read)
    }

    /// Records that the page contains the bytes that were encoded.
    #[inline]
    pub(crate) fn note_encoded(&mut self, page: u64) {
        self.encoded.insert(page);
    }

    /// Records that these pages may no longer contain the bytes that were encoded.
    pub(crate) fn forget(&mut self, pages: Range<u64>) {
        self.encoded.remove(pages);
    }

    /// Records that no page is known to contain encoded bytes.
    pub(crate) fn forget_all(&mut self) {
        self.encoded.clear();
    }
}
