//! Encoding of data to pages with OOB.

use super::report::SchemeReport;
use super::stream::{Grouping, Reader, Writer, all_ff};
use super::{EccError, Scheme};
use rayon::prelude::*;
use serde::Serialize;
use std::io::{Read, Write};

/// Form of the output: data with OOB, the OOB alone, or the ECC bytes alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Data followed by OOB, in the order that a programmer writes.
    #[default]
    WithOob,
    /// Only the OOB.
    OnlyOob,
    /// Only the ECC bytes, in order.
    OnlyEcc,
}

/// Report on an encoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EncodeReport {
    /// ECC scheme of the pages.
    pub scheme: SchemeReport,
    /// Number of pages written.
    pub pages: u64,
    /// Number of written pages whose data is FFh. Their OOB is also FFh, so that a programmer need not write them.
    pub erased_pages: u64,
    /// Number of bytes FFh that fill the last page.
    pub padding_bytes: u64,
    /// Number of bytes written.
    pub written_bytes: u64,
}

/// Writes `data` as pages with OOB. Unused OOB bytes and bad block markers are FFh. `progress` gets the number of
/// processed bytes of `data`.
///
/// # Errors
/// An empty image, an image larger than the chip, or a failure to read or write.
pub fn encode(
    scheme: &Scheme,
    form: Form,
    data: &mut dyn Read,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<EncodeReport, EccError> {
    let (mut reader, mut writer) = (Reader::new(data), Writer::new(Some(out)));
    let want = Grouping::new(scheme.geometry()).pages_per_chunk() * scheme.geometry().page_bytes as usize;
    let (mut chunk, mut pages) = (Vec::new(), Vec::new());
    let mut report = EncodeReport {
        scheme: SchemeReport::new(scheme),
        pages: 0,
        erased_pages: 0,
        padding_bytes: 0,
        written_bytes: 0,
    };
    loop {
        reader.fill(&mut chunk, want)?;
        if chunk.is_empty() {
            break;
        }
        let last = chunk.len() < want;
        report.padding_bytes = pad(scheme, &mut chunk);
        let first_page = report.pages;
        report.pages += (chunk.len() / scheme.geometry().page_bytes as usize) as u64;
        fits(scheme, report.pages)?;
        report.erased_pages += encode_chunk(scheme, form, first_page, &chunk, &mut pages);
        writer.write(&pages)?;
        progress(reader.offset());
        if last {
            break;
        }
    }
    if report.pages == 0 {
        return Err(EccError::Empty);
    }
    report.written_bytes = writer.offset();
    Ok(report)
}

/// Fills the last page with FFh. Returns the number of these bytes.
fn pad(scheme: &Scheme, chunk: &mut Vec<u8>) -> u64 {
    let whole = chunk.len().next_multiple_of(scheme.geometry().page_bytes as usize);
    let padding = whole - chunk.len();
    chunk.resize(whole, 0xFF);
    padding as u64
}

fn fits(scheme: &Scheme, pages: u64) -> Result<(), EccError> {
    let geometry = scheme.geometry();
    match geometry.pages {
        Some(most) if pages > most => {
            Err(EccError::TooLarge { bytes: most.saturating_mul(geometry.page_bytes.into()) })
        }
        _ => Ok(()),
    }
}

/// Encodes whole pages from `first_page` on into `out`. Returns the number of erased pages.
fn encode_chunk(scheme: &Scheme, form: Form, first_page: u64, data: &[u8], out: &mut Vec<u8>) -> u64 {
    let geometry = scheme.geometry();
    let (page, group) = (geometry.page_bytes as usize, Grouping::new(scheme.geometry()).pages);
    let stride = match form {
        Form::WithOob => geometry.full_page(),
        Form::OnlyOob => geometry.oob_bytes,
        Form::OnlyEcc => scheme.ecc_bytes(),
    } as usize;
    out.resize(data.len() / page * stride, 0xFF);
    let groups = data.par_chunks(group * page).zip(out.par_chunks_mut(group * stride)).enumerate();
    let erased = groups.map(|(at, (data, out))| {
        let mut encoder = Encoder::new(scheme);
        let numbers = first_page + (at * group) as u64..;
        let pages = numbers.zip(data.chunks_exact(page).zip(out.chunks_exact_mut(stride)));
        pages.map(|(number, (data, out))| u64::from(encoder.page(form, number, data, out))).sum::<u64>()
    });
    erased.sum()
}

/// Encoder with memory for one page.
pub(crate) struct Encoder<'s> {
    scheme: &'s Scheme,
    raw: Vec<u8>,
    messages: Vec<u8>,
    ecc: Vec<u8>,
}

impl<'s> Encoder<'s> {
    pub(crate) fn new(scheme: &'s Scheme) -> Self {
        let raw = vec![0xFF; scheme.geometry().full_page() as usize];
        Self { scheme, raw, messages: Vec::new(), ecc: Vec::new() }
    }

    /// Encodes a page with its number. Returns true for an erased page, which has no ECC bytes.
    pub(crate) fn page(&mut self, form: Form, number: u64, data: &[u8], out: &mut [u8]) -> bool {
        if all_ff(data) {
            out.fill(0xFF);
            return true;
        }
        let map = self.scheme.map();
        self.raw.fill(0xFF);
        map.put_data(&mut self.raw, data);
        let marker = self.scheme.marker_range();
        if !marker.is_empty() {
            // The marker must read as FFh after the page is randomized.
            let mut mask = vec![0; self.raw.len()];
            self.scheme.randomize(number, &mut mask);
            for byte in marker {
                self.raw[byte] ^= mask[byte];
            }
        }
        map.extract(&self.raw, &mut self.messages, &mut self.ecc);
        let mut rest = self.messages.as_slice();
        let eccs = self.ecc.chunks_exact_mut(self.scheme.code().ecc_bytes() as usize);
        for (bytes, ecc) in map.message_bytes().zip(eccs) {
            let (message, later) = rest.split_at(bytes.min(rest.len()));
            self.scheme.codec().encode(message, ecc);
            rest = later;
        }
        map.put_ecc(&mut self.raw, &self.ecc);
        self.scheme.randomize(number, &mut self.raw);
        if self.scheme.is_randomized() && form == Form::OnlyEcc {
            map.extract(&self.raw, &mut self.messages, &mut self.ecc);
        }
        match form {
            Form::WithOob => out.copy_from_slice(&self.raw),
            Form::OnlyOob => out.copy_from_slice(self.raw.get(data.len()..).unwrap_or(&[])),
            Form::OnlyEcc => out.copy_from_slice(&self.ecc),
        }
        false
    }
}
