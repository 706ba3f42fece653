//! Erase of single blocks, of several blocks at once, or of the whole chip; and block locks.

use super::CfiDriver;
use crate::parallel_nor::bus::NorMem;
use crate::parallel_nor::command::{amd, intel};
use crate::parallel_nor::erase_map::EraseBlock;
use crate::spi::PollPlan;
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Done, Error, ErrorKind, Instant, Nanos};

impl<B: NorMem> CfiDriver<B> {
    pub(super) fn erase_range(&mut self, addr: u64, len: u64) -> Result<(), Error> {
        check_aligned(self.host.now(), addr, len, self.geometry.erase_bytes)?;
        let whole = addr == 0 && len == self.geometry.size_bytes;
        if self.is_amd() && whole && self.options.chip_erase {
            return self.erase_chip();
        }
        let at_once = self.is_amd() && self.options.multi_erase;
        let mut next = addr;
        while next < addr + len {
            self.profile.page(&mut self.host);
            let (after, blocks) = self.start_blocks(next, if at_once { addr + len - next } else { 1 })?;
            self.finish(next as u32, self.erase_plan(blocks), ErrorKind::EraseFailed)?;
            next = after;
        }
        Ok(())
    }

    /// Starts the erase of the blocks that begin in `[addr, addr + len)`. Returns the address of the next block, and
    /// the number of blocks.
    fn start_blocks(&mut self, addr: u64, len: u64) -> Result<(u64, u32), Error> {
        let Some(block) = self.map.at(addr as u32) else {
            return self.fail(ErrorKind::OutOfRange { len, size: self.geometry.size_bytes }, addr as u32);
        };
        self.start_erase(&block)?;
        let (mut after, mut blocks) = (addr + u64::from(block.len), 1);
        while after < addr + len {
            let Some(block) = self.map.at(after as u32) else { break };
            if let Err(refused) = self.command(block.start, amd::BLOCK_ERASE) {
                // The previous blocks are already being erased.
                self.finish(addr as u32, self.erase_plan(blocks), ErrorKind::EraseFailed)?;
                return Err(refused);
            }
            after += u64::from(block.len);
            blocks += 1;
        }
        Ok((after, blocks))
    }

    pub(super) fn start_erase(&mut self, block: &EraseBlock) -> Result<(), Error> {
        if self.is_amd() {
            self.unlocked(amd::ERASE_SETUP)?;
            self.unlock()?;
            return self.command(block.start, amd::BLOCK_ERASE);
        }
        self.shows_status = true;
        self.command(block.start, intel::BLOCK_ERASE)?;
        self.command(block.start, intel::CONFIRM)
    }

    /// Polling plan of an erase. The first status read comes after half the typical time, further ones at each tick.
    /// (Linux also reads the status immediately with set 0001; this single read cycle is not modelled.)
    pub(super) fn erase_plan(&self, blocks: u32) -> PollPlan {
        let (typ, max) = self.times.erase;
        let half = Nanos::from_ns(typ.as_ns() / 2);
        self.plan(half, self.options.tick_us, max * u64::from(blocks))
    }

    fn erase_chip(&mut self) -> Result<(), Error> {
        self.unlocked(amd::ERASE_SETUP)?;
        self.unlocked(amd::CHIP_ERASE)?;
        let half = Nanos::from_ns(self.times.erase.0.as_ns() / 2);
        let plan = self.plan(half, self.options.tick_us, self.times.chip_erase.1);
        self.finish(0, plan, ErrorKind::EraseFailed)
    }

    /// Locks the blocks in `[addr, addr + len)` (command set 0001).
    ///
    /// # Errors
    /// `Unsupported` with command set 0002, whose block protection depends on the board; `OutOfRange`, `Misaligned`.
    pub fn lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.change_locks(now, addr, len, intel::LOCK)
    }

    /// Unlocks the blocks in `[addr, addr + len)` (command set 0001). Chips with legacy lock bits clear all of them.
    ///
    /// # Errors
    /// The errors of [`CfiDriver::lock`].
    pub fn unlock_blocks(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.change_locks(now, addr, len, intel::CONFIRM)
    }

    fn change_locks(&mut self, now: Instant, addr: u64, len: u64, command: u8) -> Result<Done, Error> {
        self.begin(now);
        check_range(self.host.now(), addr, len, self.geometry.size_bytes)?;
        check_aligned(self.host.now(), addr, len, self.geometry.erase_bytes)?;
        if self.is_amd() {
            return self.fail(ErrorKind::Unsupported("block locks of command set 0002"), addr as u32);
        }
        let mut next = addr;
        while let Some(block) = self.map.at(next as u32).filter(|_| next < addr + len) {
            self.shows_status = true;
            self.command(block.start, intel::LOCK_SETUP)?;
            self.command(block.start, command)?;
            let plan = self.plan(Nanos::ZERO, Nanos::from_us(1), self.times.erase.1);
            self.finish(block.start, plan, ErrorKind::ProgramFailed)?;
            next += u64::from(block.len);
        }
        Ok(self.done())
    }
}
