//! A code in an OOB layout, for pages of one geometry.

use super::layout::{Layout, LayoutError, map::PageMap, randomizer::Masks};
use super::{EccError, PageGeometry};
use floatgate_ecc::{Code, Codec};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a bad block marker.
const MARKER_BYTES: u32 = 2;

/// Everything that says how a page is protected.
#[derive(Clone, Debug)]
pub struct Scheme {
    geometry: PageGeometry,
    codec: Codec,
    map: Arc<PageMap>,
    /// Bits that a randomizer adds.
    masks: Option<Arc<Masks>>,
    name: Arc<str>,
    /// File of a layout that no other file describes.
    file: Option<Arc<str>>,
}

/// Layouts that Linux's software engines take; the first that suits page and code.
pub(super) const fn linux_layouts(code: Code) -> [&'static str; 3] {
    if code.is_hamming() {
        ["small-page", "large-page-hamming", "large-page"]
    } else {
        ["small-page", "large-page", "large-page-hamming"]
    }
}

impl Scheme {
    /// # Errors
    /// No such code; pages that are not whole steps; a layout without room for the ECC bytes.
    pub fn new(geometry: PageGeometry, code: Code, layout: &Layout) -> Result<Self, EccError> {
        code.check()?;
        let (map, variant) = layout.map(&geometry, code)?;
        let masks = layout.randomizer().map(|randomizer| randomizer.masks(geometry.pages_per_block));
        Ok(Self {
            geometry,
            masks,
            codec: Codec::with(code, variant)?,
            map: Arc::new(map),
            name: Arc::clone(&layout.name),
            file: layout.is_nameless().then(|| layout.text().into()),
        })
    }

    /// The layout that Linux's software engines take for page and code.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn linux(geometry: PageGeometry, code: Code) -> Result<Self, EccError> {
        let is_small = geometry.oob_bytes <= 16;
        let [small, large, _] = linux_layouts(code);
        let layout = Layout::named(if is_small { small } else { large });
        let refused = |error: LayoutError| EccError::Layout {
            code: code.to_string(),
            layout: "linux".to_owned(),
            error,
        };
        Self::new(geometry, code, layout.map_err(refused)?)
    }

    /// The same code elsewhere in the page: the tables of a codec take longer to make than a few pages to read.
    pub(super) fn moved(&self, layout: &Layout) -> Result<Self, EccError> {
        let (map, variant) = layout.map(&self.geometry, self.code())?;
        let codec = if variant == self.codec.variant() {
            self.codec.clone()
        } else {
            Codec::with(self.code(), variant)?
        };
        let masks = layout.randomizer().map(|randomizer| randomizer.masks(self.geometry.pages_per_block));
        Ok(Self {
            codec,
            map: Arc::new(map),
            masks,
            name: Arc::clone(&layout.name),
            file: None,
            ..self.clone()
        })
    }

    /// The same code in pages with the randomizer of a layout's file.
    pub(super) fn randomized(&self, randomizer: &str) -> Option<Self> {
        let layout = Layout::named(&self.name).ok()?.randomized(randomizer).ok()?;
        let masks = layout.randomizer()?.masks(self.geometry.pages_per_block);
        let file = Some(layout.text().into());
        Some(Self { masks: Some(masks), name: Arc::clone(&layout.name), file, ..self.clone() })
    }

    /// Sizes and marker.
    pub const fn geometry(&self) -> &PageGeometry {
        &self.geometry
    }

    /// Code that corrects the pages.
    pub const fn code(&self) -> Code {
        self.codec.code()
    }

    /// Name of the layout; that which Linux chose in place of `linux`.
    pub fn layout_name(&self) -> &str {
        &self.name
    }

    /// File of the layout, if it was found in a dump and has no name to give it by.
    pub fn layout_file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// True when other bytes are before or between the data of a page.
    pub fn interleaves(&self) -> bool {
        self.map.interleaves()
    }

    /// Steps of a page.
    pub fn steps(&self) -> u32 {
        self.map.steps() as u32
    }

    /// ECC bytes of a page.
    pub fn ecc_bytes(&self) -> u32 {
        self.steps() * self.code().ecc_bytes()
    }

    /// True when the byte of the OOB that marks bad blocks is one of the layout's.
    pub(super) fn has_marker(&self, byte: u32) -> bool {
        self.map.is_free(self.geometry.page_bytes + byte)
    }

    /// True when both put the same code into the same bits, so that they decode alike.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.code() == other.code()
            && self.codec.variant() == other.codec.variant()
            && self.map.is_same(&other.map)
            && self.masks.is_none() == other.masks.is_none()
    }

    /// True when the pages are randomized.
    pub(super) const fn is_randomized(&self) -> bool {
        self.masks.is_some()
    }

    /// Adds the bits of the randomizer to a raw page, or takes them away.
    pub(super) fn randomize(&self, page: u64, raw: &mut [u8]) {
        if let Some(masks) = &self.masks {
            let mask = masks.page(page, &self.map, self.geometry.full_page() as usize);
            raw.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
    }

    /// Bytes of the raw page that mark bad blocks and hold nothing else, if the pages are randomized: there good blocks read FFh.
    pub(super) fn marker_range(&self) -> Range<usize> {
        let (marker, end) = (self.geometry.page_bytes, self.geometry.full_page());
        let range = marker..end.min(marker + MARKER_BYTES);
        let is_free = self.is_randomized() && range.clone().all(|byte| self.map.is_free(byte));
        if is_free { range.start as usize..range.end as usize } else { 0..0 }
    }

    /// Byte of the raw page that the layout has as the marker of a good block, and that other layouts have among the data: it is exchanged, or
    /// covered with other OOB bytes.
    pub(super) fn marker_of_good_block(&self) -> Option<usize> {
        let byte = self.geometry.page_bytes + self.geometry.marker.byte;
        let covered = (!self.is_randomized() && self.map.is_covered_oob(byte)).then_some(byte as usize);
        self.map.swapped_marker().or(covered)
    }

    pub(super) fn map(&self) -> &PageMap {
        &self.map
    }

    pub(super) const fn codec(&self) -> &Codec {
        &self.codec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(page: u32, oob: u32, code: &str, layout: &str) -> Result<Scheme, EccError> {
        let (geometry, code) = (PageGeometry::new(page, oob, None)?, code.parse()?);
        match layout {
            "linux" => Scheme::linux(geometry, code),
            name => Scheme::new(geometry, code, Layout::named(name).unwrap()),
        }
    }

    #[test]
    fn linux_takes_the_layout_that_fits_page_and_code() {
        let name = |page, oob, code: &str| scheme(page, oob, code, "linux").unwrap().layout_name().to_owned();
        assert_eq!(name(512, 16, "hamming/256"), "small-page");
        assert_eq!(name(2048, 64, "hamming/256"), "large-page-hamming");
        assert_eq!(name(2048, 64, "bch4/512"), "large-page");
        let bch = scheme(2048, 64, "bch8/512", "linux").unwrap();
        assert_eq!((bch.steps(), bch.ecc_bytes()), (4, 52));
        let mut raw = vec![0xFF; 2112];
        bch.map().put_ecc(&mut raw, &[0; 52]);
        assert!(raw[..2060].iter().all(|byte| *byte == 0xFF) && raw[2060..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |page, oob, code: &str, layout| scheme(page, oob, code, layout).unwrap_err();
        assert!(matches!(refused(2048, 64, "bch16/512", "linux"), EccError::Layout { .. }));
        assert!(matches!(refused(2048, 64, "bch4/512", "winbond"), EccError::Layout { .. }));
        assert!(matches!(refused(2000, 64, "bch4/512", "linux"), EccError::Layout { .. }));
        assert!(matches!(refused(0, 64, "bch4/512", "linux"), EccError::Size { value: 0, .. }));
        assert!(matches!(refused(2048, u32::MAX, "bch4/512", "linux"), EccError::Size { .. }));
        let block = PageGeometry::new(65536, 65536, Some(16384)).unwrap_err();
        assert!(matches!(block, EccError::Size { what: "a block size", .. }));
    }
}
