//! NAND dumps with OOB: the pages are corrected into a temporary file.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom};
use std::path::Path;

use serde::Serialize;

use super::ImageError;
use super::detect::PageShape;
use super::extract::Loss;
use crate::ecc::{self, DecodeOptions, DecodeReport, Dump, EccError, PageGeometry, Scheme};

/// What was done to a dump with OOB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corrected {
    /// Where the first page begins in the file.
    #[serde(skip)]
    pub offset: u64,
    /// The pages.
    pub pages: PageShape,
    /// What the ECC found; none if no code fits: the pages are then as they were read.
    pub report: Option<DecodeReport>,
}

impl Corrected {
    /// What the ECC did not bring back.
    pub fn losses(&self) -> Vec<Loss> {
        let root = &[][..];
        let Some(report) = &self.report else {
            return vec![Loss::new(root, "no ECC code fits the dump: its pages are as they were read")];
        };
        let lost = report.steps.uncorrectable;
        let what = format!("{lost} ECC steps of the dump hold more wrong bits than the code corrects");
        if lost == 0 { Vec::new() } else { vec![Loss::new(root, what)] }
    }
}

/// Takes the OOB out of a stretch of a file, and corrects what it protects.
pub(super) fn correct(
    path: &Path,
    offset: u64,
    len: u64,
    pages: PageShape,
) -> Result<(File, Corrected), ImageError> {
    let geometry = PageGeometry::new(pages.page_bytes, pages.oob_bytes, Some(pages.pages_per_block))?;
    let scheme = find_scheme(&geometry, path, offset, len)?;
    let out = tempfile::tempfile().map_err(ImageError::File)?;
    let report = match &scheme {
        Some(scheme) => Some(decode(scheme, path, offset, len, &out)?),
        None => {
            strip(path, offset, len, pages, &out).map_err(ImageError::File)?;
            None
        }
    };
    Ok((out, Corrected { offset, pages, report }))
}

fn stretch(path: &Path, offset: u64, len: u64) -> Result<impl Read, ImageError> {
    let mut file = File::open(path).map_err(ImageError::File)?;
    file.seek(SeekFrom::Start(offset)).map_err(ImageError::File)?;
    Ok(file.take(len))
}

fn find_scheme(
    geometry: &PageGeometry,
    path: &Path,
    offset: u64,
    len: u64,
) -> Result<Option<Scheme>, ImageError> {
    let mut input = stretch(path, offset, len)?;
    let dump = Dump { pages: &mut input, apart: None };
    let sample = ecc::sample(geometry, dump, &mut |_| {})?;
    Ok(ecc::detect(geometry, None, &sample).found().cloned())
}

fn decode(
    scheme: &Scheme,
    path: &Path,
    offset: u64,
    len: u64,
    out: &File,
) -> Result<DecodeReport, ImageError> {
    let mut input = stretch(path, offset, len)?;
    let dump = Dump { pages: &mut input, apart: None };
    let mut writer = BufWriter::new(out);
    let report: Result<DecodeReport, EccError> =
        ecc::decode(scheme, dump, Some(&mut writer), DecodeOptions::default(), &mut |_| {});
    let report = report?;
    std::io::Write::flush(&mut writer).map_err(ImageError::File)?;
    Ok(report)
}

fn strip(path: &Path, offset: u64, len: u64, pages: PageShape, out: &File) -> std::io::Result<()> {
    let mut input = File::open(path)?;
    input.seek(SeekFrom::Start(offset))?;
    let mut input = std::io::BufReader::new(input.take(len));
    let mut writer = BufWriter::new(out);
    let mut page = vec![0; pages.stride() as usize];
    while input.read_exact(&mut page).is_ok() {
        std::io::Write::write_all(&mut writer, &page[..pages.page_bytes as usize])?;
    }
    std::io::Write::flush(&mut writer)
}
