//! Contents of an eraseblock in memory.

use crate::geometry::Geometry;
use alloc::vec::Vec;
use core::ops::Range;

/// Bytes programmed into a block since its last erase. Only a prefix is stored; the bytes after it are
/// erased.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    data: Vec<u8>,
    oob: Vec<u8>,
    /// Number of programs of each page.
    programs: Vec<u8>,
}

impl Block {
    /// A block with `data`, whose pages have been programmed once.
    pub(super) fn holding(data: &[u8], geometry: &Geometry) -> Self {
        let pages = data.len().div_ceil(geometry.write_bytes as usize);
        let programs = if limit(geometry).is_some() { alloc::vec![1; pages] } else { Vec::new() };
        Self { data: data.to_vec(), oob: Vec::new(), programs }
    }

    /// Data up to the last programmed byte.
    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Copies data from `offset` on.
    #[inline]
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        copy_prefix(&self.data, offset, out);
    }

    /// Copies OOB bytes from `offset` on. The offset counts the concatenated OOB bytes of all pages.
    pub(super) fn read_oob(&self, offset: usize, out: &mut [u8]) {
        copy_prefix(&self.oob, offset, out);
    }

    /// True if `new` may be programmed at `offset`: in each unit either the old or the new bytes are
    /// all ones.
    pub(super) fn accepts(&self, offset: usize, new: &[u8], unit: usize) -> bool {
        accepts(&self.data, offset, new, unit)
    }

    /// True if the OOB bytes `new` may be programmed; the unit is one byte.
    pub(super) fn accepts_oob(&self, offset: usize, new: &[u8]) -> bool {
        accepts(&self.oob, offset, new, 1)
    }

    /// True if `new` only clears bits at `offset`.
    pub(super) fn only_clears(&self, offset: usize, new: &[u8]) -> bool {
        tail(&self.data, offset).iter().zip(new).all(|(old, new)| old & new == *new)
    }

    /// Number of times that `page` was programmed.
    pub(super) fn programs(&self, page: usize) -> u8 {
        self.programs.get(page).copied().unwrap_or(0)
    }

    /// Counts a program of `page`.
    pub(super) fn count_program(&mut self, page: usize) {
        if self.programs.len() <= page {
            self.programs.resize(page + 1, 0);
        }
        self.programs[page] = self.programs[page].saturating_add(1);
    }

    /// Clears the bits that are zero in `new`.
    pub(super) fn program(&mut self, offset: usize, new: &[u8]) {
        clear_bits(&mut self.data, offset, new);
    }

    /// Lets `mask` set bits in the data from `offset` on, and in all OOB bytes.
    pub(super) fn raise(&mut self, offset: usize, mask: &mut dyn FnMut(&mut [u8])) {
        if let Some(bytes) = self.data.get_mut(offset..) {
            mask(bytes);
        }
        mask(&mut self.oob);
    }

    /// Clears the bits of OOB bytes that are zero in `new`.
    pub(super) fn program_oob(&mut self, offset: usize, new: &[u8]) {
        clear_bits(&mut self.oob, offset, new);
    }
}

/// Maximum number of programs of a page between two erases; `None` on NOR.
pub(super) fn limit(geometry: &Geometry) -> Option<u8> {
    let parts = geometry.write_bytes.checked_div(geometry.sub_page_bytes).unwrap_or(1);
    (geometry.kind != crate::FlashKind::Nor).then_some(u8::try_from(parts).unwrap_or(u8::MAX))
}

/// The part of `bytes` from `offset` on.
#[inline]
fn tail(bytes: &[u8], offset: usize) -> &[u8] {
    bytes.get(offset..).unwrap_or(&[])
}

#[inline]
fn copy_prefix(bytes: &[u8], offset: usize, out: &mut [u8]) {
    let held = tail(bytes, offset);
    let held = &held[..held.len().min(out.len())];
    let (front, rest) = out.split_at_mut(held.len());
    front.copy_from_slice(held);
    rest.fill(0xFF);
}

fn accepts(bytes: &[u8], offset: usize, new: &[u8], unit: usize) -> bool {
    let old = tail(bytes, offset);
    old.chunks(unit).zip(new.chunks(unit)).all(|(old, new)| is_erased(old) || is_erased(new))
}

fn clear_bits(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    if bytes.len() <= offset {
        bytes.resize(offset, 0xFF);
        bytes.extend_from_slice(new);
        return;
    }
    let Range { start, end } = offset..offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0xFF);
    }
    bytes[start..end].iter_mut().zip(new).for_each(|(old, new)| *old &= new);
}

/// True when all bits are ones.
#[inline]
pub(super) fn is_erased(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xFF)
}
