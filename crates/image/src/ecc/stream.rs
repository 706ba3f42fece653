//! Reader and writer of files in chunks of whole page groups.

use super::{EccError, PageGeometry, Scheme};
use std::io::{Read, Write};

/// Number of bytes in one read, rounded to whole groups.
const CHUNK: usize = 8 << 20;

/// Number of pages in a group if the size of a block is unknown.
const PAGES_PER_GROUP: u32 = 16;

/// A dump of a NAND.
pub struct Dump<'a> {
    /// Pages with their OOB, in order, or pages without OOB.
    pub pages: &'a mut dyn Read,
    /// The OOB, if it is in another file.
    pub apart: Option<Apart<'a>>,
}

/// OOB in its own file.
pub struct Apart<'a> {
    /// OOB of all pages, in order.
    pub bytes: &'a mut dyn Read,
    /// True if the file contains only the ECC bytes of each page, in order.
    pub only_ecc: bool,
}

/// Pages that one thread processes: a block, or a fixed number of pages if the size of a block is unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grouping {
    pub(super) pages: usize,
    pub(super) groups_per_chunk: usize,
}

impl Grouping {
    pub(super) fn new(geometry: &PageGeometry) -> Self {
        let pages = geometry.pages_per_block.unwrap_or(PAGES_PER_GROUP) as usize;
        let group = pages * geometry.full_page() as usize;
        Self { pages, groups_per_chunk: (CHUNK / group).max(1) }
    }

    pub(super) const fn pages_per_chunk(self) -> usize {
        self.pages * self.groups_per_chunk
    }
}

/// File that is read from start to end.
pub(super) struct Reader<'a> {
    inner: &'a mut dyn Read,
    offset: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(inner: &'a mut dyn Read) -> Self {
        Self { inner, offset: 0 }
    }

    /// Replaces the contents of `buffer` by the next `want` bytes, or by the remaining bytes. The buffer grows only
    /// as bytes arrive.
    pub(super) fn fill(&mut self, buffer: &mut Vec<u8>, want: usize) -> Result<(), EccError> {
        buffer.clear();
        let outcome = (&mut *self.inner).take(want as u64).read_to_end(buffer);
        let offset = self.offset + buffer.len() as u64;
        outcome.map_err(|error| EccError::Read { offset, error })?;
        self.offset = offset;
        Ok(())
    }

    /// Number of bytes read so far.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }
}

/// File that is written from start to end; optional.
pub(super) struct Writer<'a> {
    inner: Option<&'a mut dyn Write>,
    offset: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(inner: Option<&'a mut dyn Write>) -> Self {
        Self { inner, offset: 0 }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), EccError> {
        let offset = self.offset;
        let Some(inner) = &mut self.inner else { return Ok(()) };
        inner.write_all(bytes).map_err(|error| EccError::Write { offset, error })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Number of bytes written so far.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }
}

/// Several pages of a dump, and their OOB.
#[derive(Default)]
pub(super) struct Chunk {
    /// Bytes of the file with the pages.
    main: Vec<u8>,
    /// Bytes of the file with the OOB.
    apart: Vec<u8>,
    /// Number of whole pages.
    pub(super) pages: usize,
}

/// Layout of pages and OOB in the files of a dump.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    page_bytes: usize,
    /// Distance between pages in the file with the pages, bytes.
    stride: usize,
    /// Distance between pages in the file with the OOB, bytes; `None` if there is no such file.
    apart: Option<usize>,
    only_ecc: bool,
}

impl Shape {
    fn new(geometry: &PageGeometry, ecc_bytes: u32, apart: Option<&Apart<'_>>) -> Self {
        let stride = if apart.is_some() { geometry.page_bytes } else { geometry.full_page() };
        let only_ecc = apart.is_some_and(|apart| apart.only_ecc);
        let oob = if only_ecc { ecc_bytes } else { geometry.oob_bytes } as usize;
        let page_bytes = geometry.page_bytes as usize;
        Self { page_bytes, stride: stride as usize, apart: apart.map(|_| oob), only_ecc }
    }

    /// True if the dump contains the OOB with its markers, and not only the ECC bytes.
    pub(super) const fn has_markers(self) -> bool {
        !self.only_ecc
    }

    /// Offset of a page in the file with the pages.
    pub(super) const fn offset(self, page: u64) -> u64 {
        page * self.stride as u64
    }

    /// Page `at` of a chunk: its data, and its OOB or ECC bytes.
    pub(super) fn page(self, chunk: &Chunk, at: usize) -> (&[u8], &[u8]) {
        let (data, oob) = chunk.main[at * self.stride..][..self.stride].split_at(self.page_bytes);
        (data, self.apart.map_or(oob, |stride| &chunk.apart[at * stride..][..stride]))
    }

    /// Bytes after the last whole page of a chunk.
    pub(super) fn rest(self, chunk: &Chunk) -> &[u8] {
        &chunk.main[chunk.pages * self.stride..]
    }

    /// Copies page `at` of a chunk with its OOB.
    pub(super) fn load(self, scheme: &Scheme, chunk: &Chunk, at: usize, raw: &mut [u8]) {
        let (data, oob) = self.page(chunk, at);
        if self.only_ecc {
            raw.fill(0xFF);
            scheme.map().put_data(raw, data);
            scheme.map().put_ecc(raw, oob);
        } else {
            let (main, spare) = raw.split_at_mut(data.len());
            main.copy_from_slice(data);
            spare.copy_from_slice(oob);
        }
    }
}

/// Pages of a dump, read in chunks.
pub(super) struct Pages<'a> {
    main: Reader<'a>,
    apart: Option<Reader<'a>>,
    shape: Shape,
    pages_per_chunk: usize,
    pages: u64,
    /// Number of bytes after the last whole page.
    rest: usize,
}

impl<'a> Pages<'a> {
    /// Pages of `dump`, whose codes have `ecc_bytes` per page.
    pub(super) fn new(geometry: &PageGeometry, ecc_bytes: u32, dump: Dump<'a>) -> Self {
        Self {
            shape: Shape::new(geometry, ecc_bytes, dump.apart.as_ref()),
            main: Reader::new(dump.pages),
            apart: dump.apart.map(|apart| Reader::new(apart.bytes)),
            pages_per_chunk: Grouping::new(geometry).pages_per_chunk(),
            pages: 0,
            rest: 0,
        }
    }

    /// Layout of the files.
    pub(super) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of bytes read so far from the file with the pages.
    pub(super) const fn offset(&self) -> u64 {
        self.main.offset()
    }

    /// Error for a file without a whole page.
    pub(super) const fn too_short(&self) -> EccError {
        match self.main.offset() {
            0 => EccError::Empty,
            bytes => EccError::Short { bytes, page_bytes: self.shape.offset(1) },
        }
    }

    /// Reads the next pages; false at the end.
    pub(super) fn next(&mut self, chunk: &mut Chunk) -> Result<bool, EccError> {
        self.main.fill(&mut chunk.main, self.pages_per_chunk * self.shape.stride)?;
        chunk.pages = chunk.main.len() / self.shape.stride;
        self.pages += chunk.pages as u64;
        self.rest += chunk.main.len() % self.shape.stride;
        if let (Some(apart), Some(stride)) = (&mut self.apart, self.shape.apart) {
            // After the last page one more byte is read, which must not exist.
            let (want, beyond) = (chunk.pages * stride, usize::from(chunk.main.is_empty()));
            apart.fill(&mut chunk.apart, want + beyond)?;
            let bytes = self.pages * stride as u64;
            let how = match chunk.apart.len() {
                got if got < want => "short",
                got if got > want && self.rest > 0 => {
                    return Err(EccError::PartOfPage { page: self.pages, rest: self.rest });
                }
                got if got > want => "long",
                _ => return Ok(!chunk.main.is_empty()),
            };
            return Err(EccError::Apart { how, pages: self.pages, bytes });
        }
        Ok(!chunk.main.is_empty())
    }
}

/// True if all bytes are FFh: an erased page.
pub(super) fn all_ff(bytes: &[u8]) -> bool {
    // Pieces of this size are compiled to wide operations, and a page with data is recognised after its first piece.
    bytes.chunks(64).all(|piece| piece.iter().fold(0xFF, |all, byte| all & byte) == 0xFF)
}
