//! Kind of a flash dump: with or without OOB, and the sizes that its contents imply.
//!
//! UBI, UBIFS and JFFS2 show the distance of their eraseblocks, and therefore whether OOB is between the pages. In other dumps, the bad
//! block markers show the page size: they follow the data of each page, and are FFh in good blocks with all controllers.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use floatgate_files::File;
use floatgate_host::open::open_file;
use floatgate_stack::Store;
use serde::Serialize;

use crate::ImageError;
use crate::ecc::Marker;
use crate::format::detect::detect_sized;
use crate::format::location::ImageLocation;
use crate::image::store_of;
use crate::map;
use crate::pages::{FlashSizes, PageShape, SHAPES, usual_block};

/// Maximum number of pages that are examined for each size.
const LOOKED_AT: u64 = 1024;

/// Number of bytes at each of two positions in a page that are examined, to see whether the page has data and how many
/// bytes of data are FFh.
const PROBE: usize = 48;

/// Minimum number of pages with data.
const LEAST_PAGES: u64 = 16;

/// Probability that the marker of a page with data is not FFh, because of a bad block or a bitflip.
const UNMARKED: f64 = 0.01;

/// Minimum evidence in bits with which markers determine the page size. By chance, one of the 20 sizes reaches it in less than one of 2^35
/// files.
const BELIEVED_BITS: f64 = 40.0;

/// Kind of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The dump contains pages with their OOB.
    WithOob,
    /// The dump contains only data: the output of `nanddump` without `--oob`, or an image for a driver.
    DataOnly,
    /// Every byte is FFh.
    Erased,
    /// The dump has no byte.
    Empty,
    /// The kind cannot be determined.
    Unknown,
}

/// Properties of a flash dump.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DumpKind {
    /// Kind of the dump.
    pub kind: Kind,
    /// Format that implies the kind; `None` if the bad block markers imply it.
    pub content: Option<&'static str>,
    /// Offset of this format in the file.
    pub offset: Option<u64>,
    /// Number of data bytes per page, if known.
    pub page_bytes: Option<u32>,
    /// Number of OOB bytes per page, if any.
    pub oob_bytes: Option<u32>,
    /// Number of data bytes per eraseblock, if known.
    pub block_bytes: Option<u32>,
    /// Number of pages with data whose bad block marker was examined.
    pub pages_with_data: Option<u64>,
    /// Number of these pages whose marker is FFh.
    pub marked_pages: Option<u64>,
}

impl DumpKind {
    /// Determines the kind of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(path: &Path) -> Result<Self, ImageError> {
        Self::of_file(open_file(path, false).map_err(ImageError::File)?)
    }

    /// Determines the kind of an open file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_file(file: File) -> Result<Self, ImageError> {
        let file = Arc::new(file);
        let mut store = store_of(&file)?;
        if store.size_bytes() == 0 {
            return Ok(Self::nothing(Kind::Empty));
        }
        let found = detect_sized(&mut *store, &FlashSizes::default())?;
        let marked = MarkedPages::find(&*store)?;
        if let Some((image, pages)) = found.iter().find_map(|image| Some((image, image.pages?))) {
            // If data and OOB alternate within a page, the pages look smaller. The contents show how much is written at once.
            let wanted = found.iter().filter_map(ImageLocation::min_io_bytes).max().unwrap_or(0);
            let pages = pages.joined(wanted).unwrap_or(pages);
            // ECC bytes between the data make the pages look smaller, and shift their borders.
            if let Some(marked) =
                marked.filter(|marked| marked.page_bytes > pages.page_bytes || image.offset > 0)
            {
                return Ok(marked.kind());
            }
            let shape = Some((pages.page_bytes, pages.oob_bytes));
            let kind = Self::with_content(Kind::WithOob, image, shape);
            return Ok(Self { block_bytes: Some(pages.block_bytes()), ..kind });
        }
        if let Some(image) = found.first() {
            return Ok(Self::with_content(Kind::DataOnly, image, None));
        }
        if let Some(marked) = marked {
            return Ok(marked.kind());
        }
        if let Some((pages, tree)) = map::pages_of_filesystem(&|| store_of(&file), &FlashSizes::default())? {
            let kind = Self::with_content(
                Kind::WithOob,
                &ImageLocation::tree(&tree),
                Some((pages.page_bytes, pages.oob_bytes)),
            );
            let page = u64::from(pages.page_bytes);
            let offset = tree.at / page * u64::from(pages.stride()) + tree.at % page;
            return Ok(Self { offset: Some(offset), block_bytes: Some(pages.block_bytes()), ..kind });
        }
        if let Some(tree) = map::readable(&*store)?.first() {
            let image = ImageLocation::tree(tree);
            return Ok(Self::with_content(Kind::DataOnly, &image, None));
        }
        Ok(Self::nothing(if is_erased(&*store)? { Kind::Erased } else { Kind::Unknown }))
    }

    const fn nothing(kind: Kind) -> Self {
        Self {
            kind,
            content: None,
            offset: None,
            page_bytes: None,
            oob_bytes: None,
            block_bytes: None,
            pages_with_data: None,
            marked_pages: None,
        }
    }

    fn with_content(kind: Kind, image: &ImageLocation, shape: Option<(u32, u32)>) -> Self {
        Self {
            content: Some(image.format().kind()),
            offset: Some(image.offset),
            page_bytes: shape.map(|(page, _)| page).or_else(|| image.min_io_bytes()),
            oob_bytes: shape.map(|(_, oob)| oob),
            block_bytes: image.block_bytes(),
            ..Self::nothing(kind)
        }
    }

    /// Sizes of page and OOB, and number of pages per block if known, for a dump with OOB.
    pub fn shape(&self) -> Option<(u32, u32, Option<u32>)> {
        let (page, oob) = self.page_bytes.zip(self.oob_bytes)?;
        Some((page, oob, self.block_bytes.and_then(|bytes| bytes.checked_div(page))))
    }
}

/// Formats the kind as a sentence.
impl fmt::Display for DumpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::WithOob => {
                let (page, oob) = (self.page_bytes.unwrap_or(0), self.oob_bytes.unwrap_or(0));
                write!(f, "The file is a NAND dump with OOB, in pages of {page} + {oob} bytes: ")?;
                match (self.content, self.offset) {
                    (Some(content), Some(at)) => write!(f, "{content} begins at byte {at} ({at:#x})."),
                    _ => write!(
                        f,
                        "the bad block marker is FFh in {} of {} pages with data.",
                        self.marked_pages.unwrap_or(0),
                        self.pages_with_data.unwrap_or(0)
                    ),
                }
            }
            Kind::DataOnly => {
                write!(f, "The file is data without OOB: ")?;
                let (content, at) = (self.content.unwrap_or("a filesystem"), self.offset.unwrap_or(0));
                write!(f, "{content} begins at byte {at} ({at:#x})")?;
                match (self.block_bytes, self.page_bytes) {
                    (Some(block), Some(page)) => {
                        write!(f, ", in eraseblocks of {block} bytes and pages of {page} bytes")?;
                    }
                    (Some(block), None) => write!(f, ", in eraseblocks of {block} bytes")?,
                    (None, Some(page)) => write!(f, ", for pages of {page} bytes")?,
                    (None, None) => {}
                }
                write!(f, ". Its ECC bytes are not in the file, so no ECC can be checked.")
            }
            Kind::Erased => write!(f, "The file is erased flash: every byte is FFh."),
            Kind::Empty => write!(f, "The file is empty."),
            Kind::Unknown => write!(
                f,
                "The kind of the dump is unknown: no filesystem of flash and no bad block markers of pages of a usual size were found."
            ),
        }
    }
}

/// Pages whose sizes follow from their bad block markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkedPages {
    page_bytes: u32,
    oob_bytes: u32,
    /// Number of examined pages with data, and number of those whose marker is FFh.
    pages: u64,
    marked: u64,
}

impl MarkedPages {
    /// Sizes that explain the markers best; `None` if the evidence is too weak.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn find(store: &dyn Store) -> Result<Option<Self>, ImageError> {
        let mut best: Option<(f64, Self)> = None;
        for (page_bytes, oob_bytes) in SHAPES {
            let shape = Self { page_bytes, oob_bytes, pages: 0, marked: 0 };
            let (bits, marked) = shape.weigh(store)?;
            if bits >= BELIEVED_BITS && best.is_none_or(|(most, _)| bits > most) {
                best = Some((bits, marked));
            }
        }
        Ok(best.map(|(_, marked)| marked))
    }

    /// A dump with these pages.
    const fn kind(self) -> DumpKind {
        DumpKind {
            page_bytes: Some(self.page_bytes),
            oob_bytes: Some(self.oob_bytes),
            pages_with_data: Some(self.pages),
            marked_pages: Some(self.marked),
            ..DumpKind::nothing(Kind::WithOob)
        }
    }

    /// Shape of pages with these sizes, in blocks with the usual number of pages.
    pub(crate) fn shape(self) -> PageShape {
        let Self { page_bytes, oob_bytes, .. } = self;
        PageShape { page_bytes, oob_bytes, pages_per_block: usual_block(page_bytes) }
    }

    /// Evidence for this page size: logarithm to base 2 of the likelihood ratio between markers and data, for the bytes
    /// at the positions of the markers.
    fn weigh(self, store: &dyn Store) -> Result<(f64, Self), ImageError> {
        let stride = u64::from(self.page_bytes + self.oob_bytes);
        let whole = store.size_bytes() / stride;
        let step = whole.div_ceil(LOOKED_AT).max(1);
        let marker = u64::from(self.page_bytes + Marker::usual_byte(self.page_bytes));
        let mut counts = Self { pages: 0, marked: 0, ..self };
        let (mut ones, mut looked_at) = (1_u64, 2_u64);
        let (mut probe, mut byte) = (vec![0; 2 * PROBE], [0]);
        for page in (0..whole).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let at = page * stride;
            let (front, middle) = probe.split_at_mut(PROBE);
            store.read_at(at + u64::from(self.page_bytes) / 4, front).map_err(ImageError::Store)?;
            store.read_at(at + u64::from(self.page_bytes) / 2, middle).map_err(ImageError::Store)?;
            let same = probe.iter().filter(|byte| Some(byte) == probe.first().as_ref()).count();
            // Erased pages and pages of zeros are no evidence.
            if 4 * same > 3 * probe.len() {
                continue;
            }
            store.read_at(at + marker, &mut byte).map_err(ImageError::Store)?;
            counts.pages += 1;
            counts.marked += u64::from(byte == [0xFF]);
            ones += probe.iter().filter(|byte| **byte == 0xFF).count() as u64;
            looked_at += probe.len() as u64;
        }
        if counts.pages < LEAST_PAGES {
            return Ok((f64::NEG_INFINITY, counts));
        }
        let chance = ones as f64 / looked_at as f64;
        let (marked, others) = (counts.marked as f64, (counts.pages - counts.marked) as f64);
        let bits =
            marked * libm::log2((1.0 - UNMARKED) / chance) + others * libm::log2(UNMARKED / (1.0 - chance));
        Ok((bits, counts))
    }
}

fn is_erased(store: &dyn Store) -> Result<bool, ImageError> {
    let mut piece = vec![0; 1 << 16];
    for at in (0..store.size_bytes()).step_by(piece.len()) {
        store.read_at(at, &mut piece).map_err(ImageError::Store)?;
        if piece.iter().any(|byte| *byte != 0xFF) {
            return Ok(false);
        }
    }
    Ok(store.size_bytes() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecc::{Form, Layout, PageGeometry, Scheme, encode};
    use floatgate_mtd::random::Random;
    use std::io::Write;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(len).collect()
    }

    fn kind(bytes: &[u8]) -> DumpKind {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        DumpKind::of_file(file).unwrap()
    }

    #[test]
    fn markers_tell_the_sizes_of_pages_and_data_alone_has_none() {
        for (page, oob, layout, code) in [
            (2048, 64, "omap-bch8", "bch8/512"),
            (2048, 64, "gpmi", "bch8/512"),
            (2048, 128, "qcom-bch8", "bch8/512"),
            (4096, 224, "large-page", "bch8/512"),
            (512, 16, "small-page", "hamming/256"),
        ] {
            let geometry = PageGeometry::new(page, oob, None).unwrap();
            let scheme =
                Scheme::new(geometry, code.parse().unwrap(), Layout::named(layout).unwrap()).unwrap();
            let (data, mut dump) = (noise(3, 48 * page as usize), Vec::new());
            encode(&scheme, Form::WithOob, &mut &data[..], &mut dump, &mut |_| ()).unwrap();
            let found = kind(&dump);
            assert_eq!(
                (found.kind, found.page_bytes, found.oob_bytes),
                (Kind::WithOob, Some(page), Some(oob)),
                "{layout}"
            );
            assert_eq!(kind(&data).kind, Kind::Unknown, "{layout}");
        }
        assert_eq!(kind(&[0xFF; 5000]).kind, Kind::Erased);
        assert_eq!(kind(&[]).kind, Kind::Empty);
        let text = b"no flash at all, but a long text ".repeat(8000);
        assert_eq!(kind(&text).kind, Kind::Unknown);
    }
}
