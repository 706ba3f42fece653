//! Store over the pages of a dump with OOB, which reads and writes as if there were no OOB.

use std::ops::Range;
use std::sync::Arc;

use floatgate_files::{File, FileExt};
use floatgate_stack::{FileStore, Store, StoreError};
use memchr::memmem;

use super::oob::Corrected;
use crate::ImageError;
use crate::ecc::{Corrector, Encoder, Form, PageGeometry, Regions};
use crate::format::location::ImageLocation;

/// Size of a clean marker in the OOB, bytes.
pub(crate) const CLEAN_MARKER_BYTES: usize = 8;

/// A dump with corrected pages, and their protection.
#[derive(Clone, Debug)]
pub(super) struct OobPages {
    geometry: PageGeometry,
    regions: Regions,
    /// Offset of the first page in the dump.
    offset: u64,
    /// Corrected pages without OOB.
    data: Arc<File>,
    markers: Vec<CleanMarkers>,
}

impl OobPages {
    pub(super) fn new(
        (geometry, regions): (PageGeometry, Regions),
        corrected: &Corrected,
        data: Arc<File>,
        markers: Vec<CleanMarkers>,
    ) -> Self {
        Self { geometry, regions, offset: corrected.offset, data, markers }
    }

    /// Store over the pages. Writes go to the dump with OOB, and to the corrected pages.
    pub(super) fn store(&self, dump: &Arc<File>) -> Result<Box<dyn Store>, ImageError> {
        let geometry = &self.geometry;
        Ok(Box::new(OobStore {
            data: FileStore::new(Arc::clone(&self.data)).map_err(ImageError::Store)?,
            dump: Arc::clone(dump),
            offset: self.offset,
            page: vec![0; geometry.page_bytes as usize],
            full_page: vec![0; geometry.full_page() as usize],
            pages_per_block: geometry.pages_per_block.unwrap_or(1).into(),
            regions: self.regions.clone(),
            markers: self.markers.clone(),
        }))
    }

    /// Range of the dump that contains the pages with these bytes.
    pub(super) fn dump_range(&self, data: &Range<u64>) -> Range<u64> {
        let geometry = &self.geometry;
        let (page, full_page) = (u64::from(geometry.page_bytes), u64::from(geometry.full_page()));
        self.offset + data.start / page * full_page..self.offset + data.end.div_ceil(page) * full_page
    }

    /// Writes the corrected pages of an image to a dump. The remaining OOB bytes and bad blocks do not change.
    /// Returns the number of such pages.
    pub(super) fn write_corrected(&self, dump: &File, image: &ImageLocation) -> Result<u64, ImageError> {
        let (page_bytes, full_page) =
            (u64::from(self.geometry.page_bytes), u64::from(self.geometry.full_page()));
        let per_block = u64::from(self.geometry.pages_per_block.unwrap_or(1));
        let len = dump.metadata().map_err(ImageError::File)?.len();
        let whole = len.saturating_sub(self.offset) / full_page;
        let (first, end) =
            (image.offset / page_bytes, (image.offset + image.len).div_ceil(page_bytes).min(whole));
        let mut corrected = 0;
        for (pages, ecc) in self.regions.iter() {
            let Some(scheme) = ecc.scheme() else { continue };
            let mut corrector = Corrector::new(scheme, scheme.code().strength());
            let (first, end) = (pages.start.max(first), pages.end.min(end));
            for block in first / per_block..end.div_ceil(per_block) {
                let pages = (block * per_block).max(first)..((block + 1) * per_block).min(end);
                if image.end_of_bad(pages.start * page_bytes).is_none() {
                    corrected += self.correct_block(dump, &mut corrector, pages)?;
                }
            }
        }
        Ok(corrected)
    }

    /// Writes the pages of a block that the ECC corrects, unless the block has another code. Returns their number.
    fn correct_block(
        &self,
        dump: &File,
        corrector: &mut Corrector<'_>,
        pages: Range<u64>,
    ) -> Result<u64, ImageError> {
        let full_page = u64::from(self.geometry.full_page());
        let mut changed: Vec<(u64, Vec<u8>)> = Vec::new();
        corrector.begin_block();
        for number in pages {
            let at = self.offset + number * full_page;
            let mut page = vec![0; self.geometry.full_page() as usize];
            dump.read_exact_at(&mut page, at).map_err(ImageError::File)?;
            if corrector.correct_with_oob(number, &mut page) > 0 {
                changed.push((at, page));
            }
        }
        if corrector.is_foreign() {
            return Ok(0);
        }
        for (at, page) in &changed {
            dump.write_all_at(page, *at).map_err(ImageError::Write)?;
        }
        Ok(changed.len() as u64)
    }
}

/// Clean markers of a filesystem in the OOB. Linux writes one to the first page of each block that it has erased, and
/// leaves it there when data is written.
#[derive(Clone, Debug)]
pub(super) struct CleanMarkers {
    /// Range of the filesystem, including the space into which it can grow, in bytes of the data.
    range: Range<u64>,
    /// Offset in the OOB.
    at: usize,
    marker: [u8; CLEAN_MARKER_BYTES],
}

/// Clean markers of the filesystems in a dump; `marker` returns the marker of an image.
pub(super) fn clean_markers(
    dump: &File,
    corrected: &Corrected,
    found: &[ImageLocation],
    marker: impl Fn(&ImageLocation) -> Option<[u8; CLEAN_MARKER_BYTES]>,
) -> Result<Vec<CleanMarkers>, ImageError> {
    let mut all = Vec::new();
    let mut oob = vec![0; corrected.pages.oob_bytes as usize];
    for image in found {
        let Some((marker, erase_bytes)) = marker(image).zip(image.block_bytes()) else { continue };
        let end = found.iter().map(|other| other.offset).filter(|&other| other > image.offset).min();
        let range = image.offset..end.unwrap_or(u64::MAX);
        let blocks = (image.offset..image.offset + image.len).step_by(erase_bytes as usize);
        for block in blocks.filter(|&block| image.end_of_bad(block).is_none()) {
            let place = corrected.file_byte(block) + u64::from(corrected.pages.page_bytes);
            dump.read_exact_at(&mut oob, place).map_err(ImageError::File)?;
            if let Some(at) = memmem::find(&oob, &marker) {
                all.push(CleanMarkers { range, at, marker });
                break;
            }
        }
    }
    Ok(all)
}

/// Pages with OOB. Written pages get new ECC bytes; other OOB bytes change only for clean markers. Erased pages also
/// have erased OOB.
struct OobStore {
    data: FileStore,
    dump: Arc<File>,
    offset: u64,
    regions: Regions,
    pages_per_block: u64,
    page: Vec<u8>,
    full_page: Vec<u8>,
    markers: Vec<CleanMarkers>,
}

impl OobStore {
    /// Writes the clean marker to the OOB of a block's first page.
    fn mark_clean(&mut self, number: u64) {
        let begins_block = number.is_multiple_of(self.pages_per_block);
        let at = number * self.page.len() as u64;
        let Some(own) = self.markers.iter().find(|own| begins_block && own.range.contains(&at)) else {
            return;
        };
        let place = self.page.len() + own.at;
        self.full_page[place..place + CLEAN_MARKER_BYTES].copy_from_slice(&own.marker);
    }

    /// Writes a page of the corrected pages to the dump.
    fn write_page(&mut self, number: u64) -> Result<(), StoreError> {
        let at = number * self.page.len() as u64;
        self.data.read_at(at, &mut self.page)?;
        let place = self.offset + number * self.full_page.len() as u64;
        let failed = |reason| StoreError { action: "writing", offset: place, reason };
        let Some(scheme) = self.regions.at(number).scheme() else {
            return Err(failed("no ECC code is known for this page".to_owned()));
        };
        Encoder::new(scheme).page(Form::WithOob, number, &self.page, &mut self.full_page);
        self.mark_clean(number);
        self.dump.write_all_at(&self.full_page, place).map_err(|error| failed(error.to_string()))
    }
}

impl Store for OobStore {
    fn size_bytes(&self) -> u64 {
        self.data.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.data.read_at(offset, buf)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let old_pages = self.data.size_bytes().div_ceil(self.page.len() as u64);
        self.data.write_at(offset, data)?;
        let page = self.page.len() as u64;
        let end = (offset + data.len() as u64).div_ceil(page);
        // Pages after the old end must be created as well.
        for number in (offset / page).min(old_pages)..end {
            self.write_page(number)?;
        }
        Ok(())
    }
}
