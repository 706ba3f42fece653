//! Detection of pages with OOB for read-only filesystems, whose structures do not imply page sizes.

use floatgate_stack::store::{Store, StoreError};

use super::probe_match::Kind;
use super::readable::{Readable, damage_at, readable};
use crate::ImageError;
use crate::pages::{FlashSizes, PageShape, usual_block};
use crate::readonly;

/// Usual sizes of page and OOB, bytes.
const SHAPES: [(u32, u32); 13] = [
    (512, 16),
    (2048, 64),
    (2048, 112),
    (2048, 128),
    (4096, 128),
    (4096, 218),
    (4096, 224),
    (4096, 256),
    (8192, 448),
    (8192, 512),
    (8192, 640),
    (8192, 744),
    (16_384, 1280),
];

/// Maximum number of pages whose markers are examined.
const SAMPLED: u64 = 256;

/// Bytes of a marker of large pages.
const MARKER: usize = 2;

/// Entries of the root that are looked at.
const ENTRIES: usize = 16;

/// Opens the file once more.
pub(crate) type Open<'o> = dyn Fn() -> Result<Box<dyn Store>, ImageError> + 'o;

/// Data of a dump with OOB, without correction.
struct DataBytes {
    store: Box<dyn Store>,
    pages: PageShape,
}

impl Store for DataBytes {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes() / u64::from(self.pages.stride()) * u64::from(self.pages.page_bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let (page, stride) = (u64::from(self.pages.page_bytes), u64::from(self.pages.stride()));
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let within = at % page;
            let piece = usize::try_from(page - within).unwrap_or(usize::MAX).min(buf.len() - done);
            let to = buf.get_mut(done..done + piece).unwrap_or_default();
            self.store.read_at((at / page).saturating_mul(stride).saturating_add(within), to)?;
            done += piece;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError { action: "writing", offset, reason: "the OOB would be missing".to_owned() })
    }
}

/// Page layout of a dump in which a filesystem is intact after the OOB is removed, and this filesystem. The layout is found by the bad block
/// markers, which are FFh in pages with data.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn pages_of_filesystem(
    open: &Open<'_>,
    sizes: &FlashSizes,
) -> Result<Option<(PageShape, Readable)>, ImageError> {
    let store = open()?;
    let mut shapes = shapes(sizes).filter(|pages| has_markers(&*store, pages, MARKER)).peekable();
    // The OOB of a YAFFS2 belongs to it.
    if shapes.peek().is_none() || readable(&*store)?.iter().any(|found| found.kind == Kind::Yaffs) {
        return Ok(None);
    }
    for pages in shapes {
        let open = || Ok(Box::new(DataBytes { store: open()?, pages }) as Box<dyn Store>);
        for found in readable(&*open()?)? {
            if found.kind != Kind::Yaffs && is_whole(&open, &found)? {
                return Ok(Some((pages, found)));
            }
        }
    }
    Ok(None)
}

/// The usual pages which the sizes that were stated allow.
fn shapes(sizes: &FlashSizes) -> impl Iterator<Item = PageShape> {
    let shapes = SHAPES.iter().map(|&(page_bytes, oob_bytes)| PageShape {
        page_bytes,
        oob_bytes,
        pages_per_block: sizes.pages.pages_per_block.unwrap_or_else(|| usual_block(page_bytes)),
    });
    shapes.filter(|pages| sizes.allows(pages))
}

/// The usual pages in which the first byte of a marker is FFh. Few pages with data are no evidence: what is in the pages has to show that they are
/// right.
pub(crate) fn marked_pages(store: &dyn Store, sizes: &FlashSizes) -> Vec<PageShape> {
    shapes(sizes).filter(|pages| has_markers(store, pages, 1)).collect()
}

/// True where the first bytes of the OOB are FFh in almost all pages with data, as marks of good blocks are.
fn has_markers(store: &dyn Store, pages: &PageShape, marker_bytes: usize) -> bool {
    let (stride, page) = (u64::from(pages.stride()), pages.page_bytes as usize);
    let count = store.size_bytes() / stride;
    if count == 0 || !store.size_bytes().is_multiple_of(stride) {
        return false;
    }
    // In small pages the sixth byte is the mark.
    let mark = if pages.page_bytes == 512 { page + 5..page + 6 } else { page..page + marker_bytes };
    let (mut used, mut marked) = (0, 0);
    let mut bytes = vec![0; pages.stride() as usize];
    for number in (0..count).step_by(usize::try_from(count.div_ceil(SAMPLED)).unwrap_or(usize::MAX)) {
        if store.read_at(number * stride, &mut bytes).is_err() {
            return false;
        }
        let is_blank = |bytes: &[u8]| [0, 0xFF].iter().any(|blank| bytes.iter().all(|byte| byte == blank));
        if !bytes.get(..page).is_none_or(is_blank) {
            used += 1;
            marked +=
                u64::from(bytes.get(mark.clone()).is_some_and(|mark| mark.iter().all(|&byte| byte == 0xFF)));
        }
    }
    used > 0 && marked * 10 >= used * 9
}

/// True for a filesystem without damage whose root can be read.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn is_whole(open: &Open<'_>, found: &Readable) -> Result<bool, ImageError> {
    if damage_at(&*open()?, found.kind, found.at).is_some() {
        return Ok(false);
    }
    let Ok(Some(mut opened)) = readonly::open(found.kind, open()?, (found.at, found.len)) else {
        return Ok(false);
    };
    let root = opened.fs.root();
    let Ok((entries, damage)) = opened.fs.readable_entries(root) else { return Ok(false) };
    let has_all = entries.iter().take(ENTRIES).all(|entry| opened.fs.attributes(entry.inode).is_ok());
    Ok(opened.found.losses.is_empty() && damage.is_empty() && has_all)
}
