//! Pending changes of a file, which does not change until all of them are known to be possible.
//!
//! The changes are a list in order, and are finally written in this order. So an interruption leaves the same state
//! as a power cut on flash, from which the next mount recovers. For reads, the changed pages are stored as well.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use floatgate_stack::{Store, StoreError};

/// Size of a page of changed data, bytes.
const PAGE: usize = 4096;

/// Number of bytes that are erased at a time.
const ERASE: usize = 1 << 16;

/// New contents of a page.
#[derive(Debug)]
enum Page {
    /// Erased: all bytes are FFh.
    Ones,
    /// Written with these bytes.
    Bytes(Box<[u8; PAGE]>),
}

/// Pending change of the store.
#[derive(Debug)]
enum Change {
    /// A range of `len` bytes becomes 0xFF.
    Erase { offset: u64, len: u64 },
    /// These bytes are written.
    Write { offset: u64, data: Vec<u8> },
}

#[derive(Debug)]
struct Inner<S> {
    below: S,
    /// Size of the file after the changes, bytes.
    size: u64,
    pages: BTreeMap<u64, Page>,
    changes: Vec<Change>,
}

/// Store with pending changes. Clones refer to the same store.
#[derive(Debug)]
pub struct Pending<S>(Arc<Mutex<Inner<S>>>);

impl<S> Clone for Pending<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Report on the image that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Size in bytes, including erased bytes.
    pub bytes: u64,
}

impl<S: Store> Pending<S> {
    /// Creates pending changes over a store, which does not change.
    pub fn new(below: S) -> Self {
        let size = below.size_bytes();
        Self(Arc::new(Mutex::new(Inner { below, size, pages: BTreeMap::new(), changes: Vec::new() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.inner().changes.is_empty()
    }

    /// Size of the store below, bytes.
    pub fn size_below(&self) -> u64 {
        self.inner().below.size_bytes()
    }

    /// Ranges of bytes before `end` that change, in order and not adjacent.
    pub fn changed(&self, end: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for page in self.inner().pages.keys() {
            let start = page * PAGE as u64;
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end += PAGE as u64,
                _ => ranges.push(start..start + PAGE as u64),
            }
        }
        let cut = |range: Range<u64>| range.start.min(end)..range.end.min(end);
        ranges.into_iter().map(cut).filter(|range| !range.is_empty()).collect()
    }

    /// Applies the changes to another store, in their order. Changes after `end` are omitted.
    ///
    /// # Errors
    /// The errors of the other store, whose state is then the same as after a power cut.
    pub fn write_to(&self, out: &mut dyn Store, end: u64) -> Result<Written, StoreError> {
        let mut written = Written::default();
        for change in &self.inner().changes {
            written.bytes += match change {
                Change::Erase { offset, len } => {
                    erase(out, *offset, (*len).min(end.saturating_sub(*offset)))?
                }
                Change::Write { offset, data } => {
                    let len = end.saturating_sub(*offset).min(data.len() as u64);
                    let data = data.get(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or(data);
                    if !data.is_empty() {
                        out.write_at(*offset, data)?;
                    }
                    len
                }
            };
        }
        Ok(written)
    }
}

/// Writes 0xFF.
pub(crate) fn erase(out: &mut dyn Store, offset: u64, len: u64) -> Result<u64, StoreError> {
    // The pieces are multiples of every page size.
    let ones = vec![0xFF; ERASE];
    let mut done = 0;
    while done < len {
        let part = (len - done).min(ERASE as u64);
        out.write_at(offset + done, &ones[..part as usize])?;
        done += part;
    }
    Ok(len)
}

impl<S: Store> Inner<S> {
    /// Reads the bytes `skip..skip + out.len()` of a page.
    fn read_page(&mut self, page: u64, skip: usize, out: &mut [u8]) -> Result<(), StoreError> {
        match self.pages.get(&page) {
            Some(Page::Ones) => out.fill(0xFF),
            Some(Page::Bytes(bytes)) => out.copy_from_slice(&bytes[skip..skip + out.len()]),
            None => self.below.read_at(page * PAGE as u64 + skip as u64, out)?,
        }
        Ok(())
    }

    fn write_page(&mut self, page: u64, skip: usize, data: &[u8]) -> Result<(), StoreError> {
        if data.len() == PAGE && all_ones(data) {
            self.pages.insert(page, Page::Ones);
            return Ok(());
        }
        if !matches!(self.pages.get(&page), Some(Page::Bytes(_))) {
            let mut bytes = Box::new([0; PAGE]);
            self.read_page(page, 0, &mut bytes[..])?;
            self.pages.insert(page, Page::Bytes(bytes));
        }
        if let Some(Page::Bytes(bytes)) = self.pages.get_mut(&page) {
            bytes[skip..skip + data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    /// Records a change; an erase continues the previous one if possible.
    fn note(&mut self, offset: u64, data: &[u8]) {
        if !all_ones(data) {
            return self.changes.push(Change::Write { offset, data: data.to_vec() });
        }
        let more = data.len() as u64;
        match self.changes.last_mut() {
            Some(Change::Erase { offset: start, len }) if *start + *len == offset => *len += more,
            _ => self.changes.push(Change::Erase { offset, len: more }),
        }
    }
}

fn all_ones(data: &[u8]) -> bool {
    data.iter().all(|&byte| byte == 0xFF)
}

/// Splits `len` bytes from `offset` on at page boundaries: page, offset in the page, and offset in the whole.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let skip = (at % PAGE as u64) as usize;
        let part = (PAGE - skip).min(len - done);
        let range = done..done + part;
        done += part;
        (part > 0).then_some((at / PAGE as u64, skip, range))
    })
}

impl<S: Store> Store for Pending<S> {
    fn size_bytes(&self) -> u64 {
        self.inner().size
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let mut inner = self.inner();
        if inner.pages.is_empty() {
            return inner.below.read_at(offset, buf);
        }
        for (page, skip, range) in parts(offset, buf.len()) {
            inner.read_page(page, skip, &mut buf[range])?;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= i64::MAX as u64);
        let end = end.ok_or_else(|| StoreError {
            action: "writing",
            offset,
            reason: "no file is that long".into(),
        })?;
        let mut inner = self.inner();
        for (page, skip, range) in parts(offset, data.len()) {
            inner.write_page(page, skip, &data[range])?;
        }
        inner.size = inner.size.max(end);
        inner.note(offset, data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_wait_and_come_in_order() {
        let mut pending = Pending::new(vec![7; 10_000]);
        pending.write_at(4000, &[1; 200]).unwrap();
        pending.write_at(0, &[0xFF; 4096]).unwrap();
        pending.write_at(4096, &[0xFF; 100]).unwrap();
        pending.write_at(9990, &[2; 20]).unwrap();
        let mut seen = vec![0; 10_020];
        pending.read_at(0, &mut seen).unwrap();
        let mut wanted = vec![7; 10_000];
        wanted[..4196].fill(0xFF);
        wanted[4096 + 100..4200].fill(1);
        wanted[9990..].fill(2);
        wanted.extend([2; 10]);
        wanted.extend([0xFF; 10]);
        assert_eq!(seen, wanted, "read back before they are written");
        assert_eq!(pending.changed(8200).first(), Some(&(0..8200)));
        let mut out = vec![7; 10_000];
        let written = pending.write_to(&mut out, u64::MAX).unwrap();
        assert_eq!(out, wanted[..10_010]);
        assert_eq!(written.bytes, 200 + 4196 + 20);
        let mut cut = vec![7; 10_000];
        pending.write_to(&mut cut, 9995).unwrap();
        assert_eq!(cut[9985..], [[7; 5], [2; 5], [7; 5]].concat(), "nothing is written behind the end");
    }
}
