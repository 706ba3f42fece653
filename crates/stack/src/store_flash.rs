//! Flash backed by a file or memory, to inspect, change and build UBI images.
//!
//! It is as strict as [`RamFlash`](floatgate_mtd::RamFlash), except for the number of programs per page, which an image
//! does not contain: NAND can be written only where it is erased, NOR only clears bits. There are no OOB bytes. Every
//! read call, page and block takes [`OPERATION`].

mod overlay;
#[cfg(test)]
mod tests;

use crate::store::{self, Store, StoreError};
use floatgate_mtd::account::Phase;
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::ram::OPERATION;
use floatgate_mtd::{Breakdown, Done, Error, ErrorKind, FlashKind, Geometry, Instant, Mtd, Nanos};
use overlay::Overlay;
use std::collections::BTreeSet;

/// Destination of writes and erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// The device is write-protected.
    ReadOnly,
    /// Writes go to the store at once.
    WriteThrough,
    /// Writes go to copies of their blocks in memory; the store is unchanged until [`StoreFlash::commit`].
    Overlay,
}

/// Flash backed by a store. See the [module](self).
///
/// The flash is erased after the end of the store. An image within a larger dump is a [`Window`](store::Window) of it.
/// A host failure becomes [`ErrorKind::DeviceLost`]; [`host_error`](Self::host_error) has the details.
#[derive(Clone, Debug)]
pub struct StoreFlash<S> {
    store: S,
    geometry: Geometry,
    mode: StoreMode,
    overlay: Overlay,
    bad: BTreeSet<u32>,
    host_error: Option<StoreError>,
    /// Buffer for the old bytes at the target of a program; kept to reuse its memory.
    old: Vec<u8>,
    /// Offset after which everything is erased, so that programs need not read the old bytes.
    erased_from: u64,
    busy_until: Instant,
    spent: Breakdown,
}

impl<S: Store> StoreFlash<S> {
    /// Creates flash of this geometry in `store`, without OOB bytes. An incomplete last block is ignored.
    pub fn new(store: S, geometry: Geometry, mode: StoreMode) -> Self {
        let erase_bytes = geometry.erase_bytes.max(1);
        let write_bytes = geometry.write_bytes.clamp(1, erase_bytes);
        let geometry = Geometry {
            size_bytes: geometry.size_bytes - geometry.size_bytes % u64::from(erase_bytes),
            erase_bytes,
            write_bytes,
            sub_page_bytes: geometry.sub_page_bytes.clamp(1, write_bytes),
            oob_bytes: 0,
            oob_free_bytes: 0,
            ..geometry
        };
        Self {
            erased_from: store.size_bytes(),
            store,
            geometry,
            mode,
            overlay: Overlay::default(),
            bad: BTreeSet::new(),
            host_error: None,
            old: Vec::new(),
            busy_until: Instant::ZERO,
            spent: Breakdown::default(),
        }
    }

    /// Sets the bad blocks by number, which an image does not contain.
    #[must_use]
    pub fn with_bad_blocks(mut self, blocks: impl IntoIterator<Item = u32>) -> Self {
        self.bad.extend(blocks);
        self
    }

    /// Last host failure.
    pub const fn host_error(&self) -> Option<&StoreError> {
        self.host_error.as_ref()
    }

    /// Numbers of the blocks that may differ from the store.
    pub fn changed_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.overlay.blocks()
    }

    /// Writes all changes to the store, block by block; not atomic.
    ///
    /// # Errors
    /// Host failures; unwritten changes stay in memory.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        self.overlay.commit(&mut self.store, self.geometry.erase_bytes)
    }

    /// Extends the store to a whole number of eraseblocks, for an image used by other programs.
    ///
    /// # Errors
    /// Host failures.
    pub fn fill_last_block(&mut self) -> Result<(), StoreError> {
        let len = self.store.size_bytes();
        store::fill(&mut self.store, len, len.next_multiple_of(u64::from(self.geometry.erase_bytes)))
    }

    /// The store, without uncommitted changes.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, without uncommitted changes.
    pub fn into_store(self) -> S {
        self.store
    }

    fn block_of(&self, addr: u64) -> u32 {
        (addr / u64::from(self.geometry.erase_bytes)) as u32
    }

    /// Schedules `count` operations after the pending ones.
    fn work(&mut self, now: Instant, count: u64) -> Instant {
        let spent = Nanos::from_ns(OPERATION.as_ns() * count);
        self.spent.add(Phase::Waiting, self.busy_until.since(now));
        self.spent.add(Phase::Array, spent);
        self.busy_until = now.max(self.busy_until) + spent;
        self.busy_until
    }

    /// Converts a result of the store to one of the flash.
    fn host<T>(&mut self, result: Result<T, StoreError>, addr: u64, at: Instant) -> Result<T, Error> {
        result.map_err(|error| {
            self.host_error = Some(error);
            ErrorKind::DeviceLost.at(addr, at)
        })
    }

    /// Reads across blocks, each from its copy or from the store.
    fn fetch(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        if self.overlay.is_empty() {
            return self.store.read_at(addr, buf);
        }
        let size = u64::from(self.geometry.erase_bytes);
        let (mut at, mut rest) = (addr, buf);
        while !rest.is_empty() {
            let len = (size - at % size).min(rest.len() as u64) as usize;
            let (piece, next) = rest.split_at_mut(len);
            if !self.overlay.read(self.block_of(at), (at % size) as usize, piece) {
                self.store.read_at(at, piece)?;
            }
            (at, rest) = (at + len as u64, next);
        }
        Ok(())
    }

    /// Checks that none of the blocks is bad.
    fn check_blocks(&self, now: Instant, addr: u64, len: u64) -> Result<(), Error> {
        if self.mode == StoreMode::ReadOnly {
            return Err(ErrorKind::WriteProtected.at(addr, now));
        }
        let size = u64::from(self.geometry.erase_bytes);
        let last = self.block_of(addr + len.saturating_sub(1));
        match self.bad.range(self.block_of(addr)..=last).next() {
            Some(block) if len > 0 => Err(ErrorKind::BadBlock.at(addr.max(u64::from(*block) * size), now)),
            _ => Ok(()),
        }
    }

    /// Programs `data` inside one block, up to the first page that cannot be programmed.
    fn program(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Instant, Error> {
        let page = u64::from(self.geometry.write_bytes.max(self.geometry.buffer_bytes));
        let at = self.work(now, (addr + data.len() as u64).div_ceil(page) - addr / page);
        if addr >= self.erased_from {
            let put = self.put(addr, data);
            return self.host(put, addr, at).map(|()| at);
        }
        let mut old = std::mem::take(&mut self.old);
        old.resize(data.len(), 0xFF);
        let result = self.merge(at, addr, data, &mut old);
        self.old = old;
        result.map(|()| at)
    }

    fn merge(&mut self, at: Instant, addr: u64, data: &[u8], old: &mut [u8]) -> Result<(), Error> {
        let fetched = self.fetch(addr, old);
        self.host(fetched, addr, at)?;
        let programmable = self.programmable_bytes(addr, old, data);
        let old = &mut old[..programmable];
        old.iter_mut().zip(data).for_each(|(old, new)| *old &= new);
        let put = self.put(addr, old);
        self.host(put, addr, at)?;
        if programmable < data.len() {
            Err(ErrorKind::NotErased.at(addr + programmable as u64, at))
        } else {
            Ok(())
        }
    }

    /// Number of bytes before the first page that cannot be programmed with `new` over `old`.
    fn programmable_bytes(&self, addr: u64, old: &[u8], new: &[u8]) -> usize {
        let Geometry { kind, sub_page_bytes, write_bytes, buffer_bytes, .. } = self.geometry;
        if is_programmable(kind, old, new, sub_page_bytes as usize) {
            return new.len();
        }
        let page = u64::from(write_bytes.max(buffer_bytes));
        let mut programmable = 0;
        while programmable < new.len() {
            let end = new.len().min(programmable + (page - (addr + programmable as u64) % page) as usize);
            if !is_programmable(
                kind,
                &old[programmable..end],
                &new[programmable..end],
                sub_page_bytes as usize,
            ) {
                break;
            }
            programmable = end;
        }
        programmable
    }

    fn put(&mut self, addr: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.erased_from = self.erased_from.max(addr + bytes.len() as u64);
        if self.mode == StoreMode::WriteThrough {
            self.extend(addr + bytes.len() as u64)?;
            return self.store.write_at(addr, bytes);
        }
        let size = u64::from(self.geometry.erase_bytes);
        let block = self.block_of(addr);
        self.overlay.write(&mut self.store, block, size, (addr % size) as usize, bytes)
    }

    /// Extends the store to a byte address by whole eraseblocks, so that the image never ends inside one, even if the
    /// process is killed.
    fn extend(&mut self, end: u64) -> Result<(), StoreError> {
        let size = u64::from(self.geometry.erase_bytes);
        loop {
            let len = self.store.size_bytes();
            if len >= end {
                return Ok(());
            }
            let ones = vec![0xFF; (size - len % size) as usize];
            self.store.write_at(len, &ones)?;
        }
    }

    fn erase_block(&mut self, addr: u64) -> Result<(), StoreError> {
        if self.mode == StoreMode::WriteThrough {
            return store::erase(&mut self.store, addr, addr + u64::from(self.geometry.erase_bytes));
        }
        self.overlay.erase(self.block_of(addr));
        Ok(())
    }
}

/// True if `new` can be programmed over `old`.
fn is_programmable(kind: FlashKind, old: &[u8], new: &[u8], unit: usize) -> bool {
    let erased = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xFF);
    match kind {
        FlashKind::Nor => old.iter().zip(new).all(|(old, new)| old & new == *new),
        _ => old.chunks(unit).zip(new.chunks(unit)).all(|(old, new)| erased(old) || erased(new)),
    }
}

impl<S: Store> Mtd for StoreFlash<S> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        let at = self.work(now, 1);
        let fetched = self.fetch(addr, buf);
        self.host(fetched, addr, at)?;
        Ok(Done::clean(at))
    }

    /// Writes like [`Mtd::write`], in units of sub-pages.
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, self.geometry.sub_page_bytes)?;
        self.check_blocks(now, addr, data.len() as u64)?;
        let block = u64::from(self.geometry.erase_bytes);
        let (mut at, mut place, mut rest) = (now, addr, data);
        while !rest.is_empty() {
            let (piece, next) = rest.split_at((block - place % block).min(rest.len() as u64) as usize);
            at = self.program(at, place, piece)?;
            (place, rest) = (place + piece.len() as u64, next);
        }
        Ok(Done::clean(at))
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let size = self.geometry.erase_bytes;
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, size)?;
        self.check_blocks(now, addr, len)?;
        let mut at = now;
        for block in (addr..addr + len).step_by(size as usize) {
            at = self.work(at, 1);
            let erased = self.erase_block(block);
            self.host(erased, block, at)?;
        }
        Ok(Done::clean(at))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        Ok((self.bad.contains(&self.block_of(addr)), now))
    }

    /// Marks a block as bad ([`Mtd::mark_bad`]). The mark is not stored, because an image has no place for it. NOR has
    /// no bad blocks.
    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        if self.geometry.kind == FlashKind::Nor {
            return Err(ErrorKind::Unsupported("blocks of NOR flash cannot be marked bad").at(addr, now));
        }
        let block = self.block_of(addr);
        self.bad.insert(block);
        Ok(Done::clean(self.work(now, 1)))
    }

    fn breakdown(&self) -> Breakdown {
        self.spent
    }
}
