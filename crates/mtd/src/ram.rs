//! A flash device in memory, cheap to fork and stricter than real chips.
//!
//! It holds images that are built or inspected. Power-cut tests use it too, and fork it at every operation. It models
//! no command set, bus or cells, in contrast to the simulated hardware.
//!
//! It returns [`ErrorKind::NotErased`] in these cases:
//!
//! - NAND: a unit (sub-page) with data cannot be programmed again. The number of programs of a page between two erases
//!   is limited to its number of sub-pages. Programs of only 0xFF count; programs of OOB bytes alone (JFFS2's clean
//!   marker) do not, because chips used with JFFS2 allow them in addition.
//! - NOR: a program would set bits.
//!
//! Blocks marked bad are neither programmed nor erased. OOB bytes have no ECC in any mode; [`OobMode::Auto`] means the
//! last [`Geometry::oob_free_bytes`] of them.
//!
//! Interrupted operations ([`Tear`](crate::Tear)) leave damage derived from a seed: partly programmed pages, half
//! erased blocks, bytes that read differently each time.
//!
//! Each read call, page program and block erase takes [`OPERATION`], only so that virtual time advances. It is booked
//! under [`Phase::Array`].

mod block;
#[cfg(test)]
mod tests;
mod torn;

use crate::account::{Breakdown, Phase};
use crate::device::{Done, Mtd, OobMode, check_aligned, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::{FlashKind, Geometry};
use crate::program_unit::{page_bytes, pieces};
use crate::time::{Instant, Nanos};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use block::{Block, limit};
use torn::Torn;

/// Duration of a read, a page program and a block erase.
pub const OPERATION: Nanos = Nanos::from_us(1);

/// A flash device in memory. See the [module](self).
///
/// Clones share unchanged blocks: a clone costs one pointer per block.
#[derive(Clone, Debug)]
pub struct RamFlash {
    geometry: Geometry,
    /// Contents of each block; `None` for an erased block.
    blocks: Vec<Option<Arc<Block>>>,
    erases: Vec<u32>,
    /// Numbers of bad blocks, sorted.
    bad: Vec<u32>,
    torn: Torn,
    busy_until: Instant,
    spent: Breakdown,
}

/// Position within a block: block number and byte offset.
#[derive(Clone, Copy)]
struct BlockOffset {
    block: usize,
    offset: usize,
}

impl RamFlash {
    /// An erased device. An incomplete last block is ignored.
    pub fn new(mut geometry: Geometry) -> Self {
        geometry.erase_bytes = geometry.erase_bytes.max(1);
        geometry.write_bytes = geometry.write_bytes.clamp(1, geometry.erase_bytes);
        geometry.sub_page_bytes = geometry.sub_page_bytes.clamp(1, geometry.write_bytes);
        geometry.size_bytes -= geometry.size_bytes % u64::from(geometry.erase_bytes);
        let count = geometry.blocks() as usize;
        Self {
            geometry,
            blocks: vec![None; count],
            erases: vec![0; count],
            bad: Vec::new(),
            torn: Torn::default(),
            busy_until: Instant::ZERO,
            spent: Breakdown::default(),
        }
    }

    /// A device with the contents `bytes`. Trailing 0xFF of each block stay erased, and bytes beyond the device are
    /// ignored.
    pub fn from_bytes(geometry: Geometry, bytes: &[u8]) -> Self {
        let mut device = Self::new(geometry);
        for (index, chunk) in bytes.chunks(device.geometry.erase_bytes as usize).enumerate() {
            device.load(index as u32, chunk);
        }
        device
    }

    /// Replaces the contents of a block as if `bytes` were programmed page by page. Pages after the last byte that is
    /// not 0xFF stay erased.
    pub fn load(&mut self, block: u32, bytes: &[u8]) {
        let used = bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        let used = used.min(self.geometry.erase_bytes as usize);
        if let Some(slot) = self.blocks.get_mut(block as usize) {
            *slot = (used > 0).then(|| Arc::new(Block::holding(&bytes[..used], &self.geometry)));
        }
    }

    /// Sets the bad blocks by number.
    #[must_use]
    pub fn with_bad_blocks(mut self, blocks: &[u32]) -> Self {
        blocks.iter().for_each(|block| self.set_bad(*block));
        self
    }

    /// Bad blocks by number, sorted.
    pub fn bad_blocks(&self) -> &[u32] {
        &self.bad
    }

    /// Data of a block up to its last programmed byte; `None` for an erased block.
    pub fn block(&self, block: u32) -> Option<&[u8]> {
        self.blocks.get(block as usize)?.as_deref().map(Block::data)
    }

    /// Number of times that a block was erased.
    pub fn erases(&self, block: u32) -> u32 {
        self.erases.get(block as usize).copied().unwrap_or(0)
    }

    /// Passes all bytes in order to `sink`, in pieces of at most an eraseblock, without OOB.
    ///
    /// # Errors
    /// Errors of `sink`.
    pub fn copy_to<E>(&self, mut sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut whole = vec![0; self.geometry.erase_bytes as usize];
        for block in &self.blocks {
            match block {
                Some(block) => block.read(0, &mut whole),
                None => whole.fill(0xFF),
            }
            sink(&whole)?;
        }
        Ok(())
    }

    fn set_bad(&mut self, block: u32) {
        if let (true, Err(place)) = (block < self.geometry.blocks(), self.bad.binary_search(&block)) {
            self.bad.insert(place, block);
        }
    }

    fn place(&self, addr: u64) -> BlockOffset {
        let unit = u64::from(self.geometry.erase_bytes);
        BlockOffset { block: (addr / unit) as usize, offset: (addr % unit) as usize }
    }

    /// Schedules `count` operations after the pending ones and returns their end time.
    fn work(&mut self, now: Instant, count: u64) -> Instant {
        let spent = Nanos::from_ns(OPERATION.as_ns() * count);
        self.spent.add(Phase::Waiting, self.busy_until.since(now));
        self.spent.add(Phase::Array, spent);
        self.busy_until = now.max(self.busy_until) + spent;
        self.busy_until
    }

    /// Copies data from consecutive blocks to `buf`.
    fn copy_out(&self, addr: u64, buf: &mut [u8]) {
        let BlockOffset { mut block, mut offset } = self.place(addr);
        let mut rest = buf;
        while !rest.is_empty() {
            let len = rest.len().min(self.geometry.erase_bytes as usize - offset);
            let (piece, next) = rest.split_at_mut(len);
            match self.blocks.get(block) {
                Some(Some(held)) => held.read(offset, piece),
                _ => piece.fill(0xFF),
            }
            (block, offset, rest) = (block + 1, 0, next);
        }
    }

    /// Programs part of one page. The caller checked the range.
    fn program(&mut self, addr: u64, data: &[u8]) -> Result<(), ErrorKind> {
        let place = self.place(addr);
        self.check_program(place, data)?;
        self.put(place, data);
        if !self.torn.is_empty() {
            self.torn.programmed(place, data.len());
        }
        Ok(())
    }

    /// Checks that a part of a page may be programmed.
    fn check_program(&self, place: BlockOffset, data: &[u8]) -> Result<(), ErrorKind> {
        if !self.bad.is_empty() && self.bad.binary_search(&(place.block as u32)).is_ok() {
            return Err(ErrorKind::BadBlock);
        }
        let g = &self.geometry;
        let Some(held) = &self.blocks[place.block] else { return Ok(()) };
        let fits = match limit(g) {
            None => held.only_clears(place.offset, data),
            Some(limit) => {
                held.programs(place.offset / g.write_bytes as usize) < limit
                    && held.accepts(place.offset, data, g.sub_page_bytes as usize)
            }
        };
        if fits { Ok(()) } else { Err(ErrorKind::NotErased) }
    }

    /// Programs a part of a page without checks.
    fn put(&mut self, place: BlockOffset, data: &[u8]) {
        let page = place.offset / self.geometry.write_bytes as usize;
        let counted = limit(&self.geometry).is_some();
        let held = self.block_mut(place.block);
        held.program(place.offset, data);
        if counted {
            held.count_program(page);
        }
    }

    /// Mutable access to a block, which is copied first if it is shared.
    fn block_mut(&mut self, block: usize) -> &mut Block {
        Arc::make_mut(self.blocks[block].get_or_insert_default())
    }

    fn erase_block(&mut self, block: usize) -> Result<(), ErrorKind> {
        if self.bad.binary_search(&(block as u32)).is_ok() {
            return Err(ErrorKind::BadBlock);
        }
        self.blocks[block] = None;
        self.torn.forget(block);
        self.erases[block] += 1;
        Ok(())
    }

    /// Offset of the OOB bytes of the page at `addr` within its block's OOB bytes, after a check of the arguments.
    fn oob_place(
        &self,
        now: Instant,
        addr: u64,
        data: usize,
        oob: usize,
        mode: OobMode,
    ) -> Result<usize, Error> {
        let g = &self.geometry;
        if g.oob_bytes == 0 {
            return Err(ErrorKind::Unsupported("this device has no OOB area").at(addr, now));
        }
        check_range(now, addr, u64::from(g.write_bytes), g.size_bytes)?;
        check_aligned(now, addr, data as u64, g.write_bytes)?;
        check_range(now, addr, data as u64, addr + u64::from(g.write_bytes))?;
        let first = if mode == OobMode::Auto { g.oob_bytes.saturating_sub(g.oob_free_bytes) } else { 0 };
        let room = g.oob_bytes - first;
        if oob > room as usize {
            return Err(ErrorKind::OutOfRange { len: oob as u64, size: u64::from(room) }.at(addr, now));
        }
        let page = self.place(addr).offset / g.write_bytes as usize;
        Ok(page * g.oob_bytes as usize + first as usize)
    }

    /// Programs OOB bytes. The caller checked the range.
    fn program_oob(&mut self, block: usize, offset: usize, oob: &[u8]) -> Result<(), ErrorKind> {
        if self.blocks[block].as_ref().is_some_and(|held| !held.accepts_oob(offset, oob)) {
            return Err(ErrorKind::NotErased);
        }
        self.block_mut(block).program_oob(offset, oob);
        Ok(())
    }
}

impl Mtd for RamFlash {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        self.copy_out(addr, buf);
        let at = self.work(now, 1);
        if self.torn.is_empty() { Ok(Done::clean(at)) } else { self.disturb(at, addr, buf, false) }
    }

    /// Programs data, as [`Mtd::write`], in units of sub-pages.
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, self.geometry.sub_page_bytes)?;
        let mut at = now;
        for (addr, piece) in pieces(addr, data, page_bytes(&self.geometry)) {
            at = self.work(at, 1);
            self.program(addr, piece).map_err(|kind| kind.at(addr, at))?;
        }
        Ok(Done::clean(at))
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let unit = self.geometry.erase_bytes;
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, unit)?;
        let mut at = now;
        for block in addr / u64::from(unit)..(addr + len) / u64::from(unit) {
            at = self.work(at, 1);
            self.erase_block(block as usize).map_err(|kind| kind.at(block * u64::from(unit), at))?;
        }
        Ok(Done::clean(at))
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let first = self.oob_place(now, addr, data.len(), oob.len(), mode)?;
        self.copy_out(addr, data);
        match &self.blocks[self.place(addr).block] {
            Some(held) => held.read_oob(first, oob),
            None => oob.fill(0xFF),
        }
        let at = self.work(now, 1);
        self.disturb(at, addr, data, mode == OobMode::Raw)
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let first = self.oob_place(now, addr, data.len(), oob.len(), mode)?;
        let at = self.work(now, 1);
        let place = self.place(addr);
        let fits = self.blocks[place.block].as_ref().is_none_or(|held| held.accepts_oob(first, oob));
        if !fits {
            return Err(ErrorKind::NotErased.at(addr, at));
        }
        if !data.is_empty() {
            self.program(addr, data).map_err(|kind| kind.at(addr, at))?;
        }
        self.program_oob(place.block, first, oob).map_err(|kind| kind.at(addr, at))?;
        Ok(Done::clean(at))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        Ok((self.bad.binary_search(&(self.place(addr).block as u32)).is_ok(), now))
    }

    /// Marks a block bad, as [`Mtd::mark_bad`]; the block's data is preserved. NOR has no bad blocks.
    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        if self.geometry.kind == FlashKind::Nor {
            return Err(ErrorKind::Unsupported("blocks of NOR flash cannot be marked bad").at(addr, now));
        }
        self.set_bad(self.place(addr).block as u32);
        Ok(Done::clean(self.work(now, 1)))
    }

    fn breakdown(&self) -> Breakdown {
        self.spent
    }
}
