//! State common to both command sets: the array, one-time-programmable bytes, and running operations.

use super::erase_map::{EraseBlock, EraseMap};
use super::spec::{CommandSet, LockScheme, ParallelNorSpec, impossible};
use crate::array::Array;
use crate::nor::cut::{Undo, mix};
use crate::oracle::BlockFaults;
use crate::spec::BadSpec;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};
use std::ops::Range;

/// Type of an embedded operation of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Program,
    Erase,
    Lock,
}

/// An operation that is running or suspended.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    /// Time at which the operation started or was resumed.
    pub(super) since: Instant,
    /// Time at which the operation ends; without meaning for a suspended one.
    pub(super) until: Instant,
    /// Time that was left when the operation was suspended.
    left: Nanos,
    pub(super) failed: bool,
    /// Range of bytes that the operation changes; for an erase of several blocks, from the first to the last block.
    pub(super) range: Range<u32>,
    /// Time up to which an erase accepts further blocks.
    pub(super) window: Instant,
    /// Duration of the whole operation.
    length: Nanos,
    /// State before the operation.
    undo: Undo,
}

/// The one-time-programmable bytes: the maker's part, then the user's part.
#[derive(Clone, Debug)]
pub(super) struct Otp {
    pub(super) bytes: Vec<u8>,
    pub(super) factory: usize,
    pub(super) locked: bool,
}

/// The chip's memory behind its command interface.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    pub(super) spec: ParallelNorSpec,
    pub(super) map: EraseMap,
    pub(super) array: Array,
    /// Size of the smallest eraseblock, bytes, which is the block size of the array. Larger eraseblocks consist of
    /// several array blocks.
    unit_bytes: u32,
    /// Width of the data bus, bytes: 1 or 2.
    pub(super) width: u32,
    pub(super) job: Option<Job>,
    pub(super) suspended_erase: Option<Job>,
    pub(super) suspended_program: Option<Job>,
    /// True if a suspend came too late to have an effect; the resume for it then has no effect either.
    late_suspend: bool,
    /// Operation that failed and whose failure was not cleared yet.
    pub(super) failed: Option<Work>,
    pub(super) otp: Otp,
    /// Lock state of each block.
    pub(super) locked: Vec<bool>,
    /// Faults of blocks that are worn out.
    pub(super) faults: BlockFaults,
}

impl Cells {
    pub(super) fn new(spec: ParallelNorSpec, width: u32, stores: bool) -> Self {
        let map = spec.erase_map();
        let smallest = spec.geometry.regions.iter().map(|r| r.block_bytes).min().unwrap_or(1);
        let row = spec.row_bytes();
        let blocks = spec.geometry.size_bytes / smallest;
        let array = Array::new(row as usize, (smallest / row) as usize, blocks as usize, stores);
        let sizes = spec.otp.map_or((0, 0), |o| (o.factory_bytes as usize, o.user_bytes as usize));
        let otp = Otp { bytes: factory_bytes(sizes.0, sizes.1), factory: sizes.0, locked: false };
        let locked = vec![spec.lock == LockScheme::Instant; map.blocks() as usize];
        Self {
            spec,
            map,
            array,
            unit_bytes: smallest as u32,
            width,
            job: None,
            suspended_erase: None,
            suspended_program: None,
            late_suspend: false,
            failed: None,
            otp,
            locked,
            faults: BlockFaults::default(),
        }
    }

    /// Checks that the chip supports the width of the board's bus.
    pub(super) fn check_width(spec: &ParallelNorSpec, bits: u8) -> Result<(), BadSpec> {
        use super::spec::Interface::{X8, X8X16, X16};
        match (spec.geometry.interface, bits) {
            (X8 | X8X16, 8) | (X16 | X8X16, 16) => Ok(()),
            _ => Err(impossible(format!("the chip does not offer a {bits}-bit bus"))),
        }
    }

    /// The device address of a byte address.
    pub(super) const fn device_address(&self, addr: u32) -> u32 {
        if self.spec.counts_words() { addr / 2 } else { addr }
    }

    /// The byte address of a device address.
    pub(super) const fn byte_address(&self, device: u32) -> u32 {
        if self.spec.counts_words() { device * 2 } else { device }
    }

    pub(super) fn block(&self, addr: u32) -> Result<EraseBlock, Violation> {
        self.map.at(addr).ok_or(Violation::BadAddress)
    }

    #[inline]
    pub(super) fn busy(&self, at: Instant) -> bool {
        self.job.as_ref().is_some_and(|job| at < job.until)
    }

    /// Ends an operation that is finished at `at`.
    #[inline]
    pub(super) fn end_job(&mut self, at: Instant) {
        if let Some(job) = &self.job
            && at >= job.until
        {
            if job.failed {
                self.failed = Some(job.work);
            }
            self.job = None;
        }
    }

    /// Reads bytes of the array from address `addr` on.
    pub(super) fn read(&self, addr: u32, out: &mut [u8]) -> Result<(), Violation> {
        let end = u64::from(addr) + out.len() as u64;
        if end > self.map.size() {
            return Err(Violation::BadAddress);
        }
        let touches = |job: &Job| u64::from(job.range.start) < end && addr < job.range.end;
        let suspended = [&self.suspended_erase, &self.suspended_program];
        if suspended.into_iter().flatten().any(touches) {
            return Err(Violation::Sequence("read of what a suspended operation is changing"));
        }
        if self.array.stores() {
            self.array.read_range(addr.into(), out);
        }
        Ok(())
    }

    /// Checks that a new operation may start and that it may change `block`.
    pub(super) fn may_start(&self, block: &EraseBlock, work: Work) -> Result<(), Violation> {
        if self.suspended_program.is_some() {
            return Err(Violation::Sequence("only reads and resume while a program is suspended"));
        }
        let Some(erase) = &self.suspended_erase else { return Ok(()) };
        if work != Work::Program || !self.spec.features.program_in_erase_suspend {
            return Err(Violation::Sequence("not possible while an erase is suspended"));
        }
        if erase.range.start < block.start + block.len && block.start < erase.range.end {
            return Err(Violation::Sequence("program in a block whose erase is suspended"));
        }
        Ok(())
    }

    /// Starts a program of `bytes` at `addr`, which must be in one row. Buffered programs take longer.
    pub(super) fn program(
        &mut self,
        at: Instant,
        addr: u32,
        bytes: &[u8],
        len: u32,
        buffered: bool,
    ) -> Result<(), Violation> {
        let block = self.block(addr)?;
        let failed = self.faults.of_block(block.index).program;
        let mut undo = Undo::Nothing;
        if self.array.stores() {
            let row = addr as usize / self.array.page_bytes();
            let column = addr as usize % self.array.page_bytes();
            // A real chip would leave the bit at 0, and possibly report success.
            if let Some(old) = self.array.stored(row)
                && old[column..].iter().zip(bytes).any(|(old, new)| new & !old != 0)
            {
                return Err(Violation::NotErased);
            }
            undo = Undo::program(&self.array, row);
            if !failed {
                self.array.program(row, column, bytes);
            }
        }
        let time = self.program_time(len, buffered, failed);
        self.start(Work::Program, at, time, failed, addr..addr + len);
        self.keep(undo);
        Ok(())
    }

    fn program_time(&self, len: u32, buffered: bool, longest: bool) -> Nanos {
        let timing = &self.spec.timing;
        let pick = |t: crate::units::TypMaxUs| if longest { t.max } else { t.typ };
        let word = pick(timing.t_word_us);
        match timing.t_buffer_us {
            Some(buffer) if buffered => {
                let share = pick(buffer).as_ns() * u64::from(len) / self.spec.geometry.buffer_bytes.max(1);
                Nanos::from_ns(share).max(word)
            }
            _ => word,
        }
    }

    /// Starts an erase of a block, or adds the block to an erase that still accepts blocks.
    pub(super) fn erase(&mut self, at: Instant, block: &EraseBlock) {
        let failed = self.faults.of_block(block.index).erase;
        let time = self.spec.block_erase(block.region);
        let mut range = block.start..block.start + block.len;
        let window = self.spec.timing.t_erase_window_us;
        let (mut total, mut fails) = (if failed { time.max } else { time.typ }, failed);
        let (mut since, mut undo) = (at, Undo::Nothing);
        if let Some(open) = self.job.take() {
            (since, undo) = (open.since, open.undo);
            total += open.until.since(open.window);
            fails |= open.failed;
            range = range.start.min(open.range.start)..range.end.max(open.range.end);
        }
        self.start(Work::Erase, at, window + total, fails, range);
        if !failed {
            undo = undo.and(self.clear(block));
        }
        if let Some(job) = &mut self.job {
            (job.since, job.window) = (since, at + window);
        }
        self.keep(undo);
    }

    /// Starts an erase of every block.
    pub(super) fn erase_all(&mut self, at: Instant) {
        let blocks: Vec<_> = self.map.within(0, self.map.size()).collect();
        let (mut total, mut undo) = (Nanos::ZERO, Undo::Nothing);
        for block in &blocks {
            let time = self.spec.block_erase(block.region);
            let failed = self.faults.of_block(block.index).erase;
            total += if failed { time.max } else { time.typ };
            if !failed {
                undo = undo.and(self.clear(block));
            }
        }
        let size = self.map.size() as u32;
        self.start(Work::Erase, at, total, self.faults.any_erase(), 0..size);
        self.keep(undo);
    }

    /// Erases a block in the array, and returns the state needed for a power cut.
    fn clear(&mut self, block: &EraseBlock) -> Undo {
        let parts = block.start / self.unit_bytes..(block.start + block.len) / self.unit_bytes;
        let parts = parts.start as usize..parts.end as usize;
        let undo = Undo::erase(&self.array, parts.clone());
        parts.for_each(|part| self.array.erase(part));
        undo
    }

    /// Stores the state needed if a power cut interrupts the operation that was just started.
    fn keep(&mut self, undo: Undo) {
        if let Some(job) = &mut self.job {
            (job.undo, job.length) = (undo, job.until.since(job.since));
        }
    }

    /// Applies a power cut at `at`, after which power is back. Running and suspended operations are left half
    /// finished.
    pub(super) fn power_cut(&mut self, at: Instant) {
        let parked = [self.suspended_program.take(), self.suspended_erase.take()];
        let running = self
            .job
            .take()
            .filter(|job| at < job.until)
            .map(|job| (job.until.since(at.max(job.window)), job));
        let parked = parked.into_iter().flatten().map(|job| (job.left, job));
        for (left, job) in running.into_iter().chain(parked) {
            job.undo.cut_off(&mut self.array, left, job.length, mix(job.since.as_ns()));
        }
        (self.late_suspend, self.failed) = (false, None);
        self.locked.fill(self.spec.lock == LockScheme::Instant);
    }

    /// Records that an operation of duration `time` starts at `at`.
    pub(super) fn start(&mut self, work: Work, at: Instant, time: Nanos, failed: bool, range: Range<u32>) {
        self.late_suspend = false;
        self.job = Some(Job {
            work,
            since: at,
            until: at + time,
            left: Nanos::ZERO,
            failed,
            range,
            window: at,
            length: time,
            undo: Undo::Nothing,
        });
    }

    /// Starts a program of one-time-programmable bytes.
    pub(super) fn program_otp(&mut self, at: Instant, offset: usize, bytes: &[u8]) -> Result<(), Violation> {
        let target = self.otp.bytes.get_mut(offset..offset + bytes.len()).ok_or(Violation::BadAddress)?;
        if offset < self.otp.factory || self.otp.locked {
            return Err(Violation::Protected);
        }
        if target.iter().zip(bytes).any(|(old, new)| new & !old != 0) {
            return Err(Violation::NotErased);
        }
        target.copy_from_slice(bytes);
        let time = self.program_time(self.width, false, false);
        self.start(Work::Program, at, time, false, 0..0);
        Ok(())
    }

    /// Suspends the running operation. Without an operation, or if it ends before the chip handles the suspend, the
    /// command has no effect, because a driver cannot know this.
    pub(super) fn suspend(&mut self, at: Instant) -> Result<(), Violation> {
        let features = self.spec.features;
        let Some(job) = &mut self.job else {
            self.late_suspend = true;
            return Ok(());
        };
        let allowed = match job.work {
            Work::Program => features.program_suspend,
            Work::Erase => features.erase_suspend,
            Work::Lock => false,
        };
        if !allowed {
            return Err(Violation::Sequence("the chip cannot suspend this"));
        }
        // Before the erase window closes the erase has not started, so the suspend takes effect immediately.
        let latency = if at < job.window { Nanos::ZERO } else { self.spec.timing.t_suspend_us };
        let stop = at + latency;
        if stop >= job.until {
            self.late_suspend = true;
            return Ok(());
        }
        let mut parked = job.clone();
        parked.left = job.until.since(stop.max(job.window));
        let pause = Job { until: stop, failed: false, undo: Undo::Nothing, ..job.clone() };
        match parked.work {
            Work::Erase => self.suspended_erase = Some(parked),
            _ => self.suspended_program = Some(parked),
        }
        self.job = Some(pause);
        Ok(())
    }

    /// Resumes the operation that was suspended last.
    pub(super) fn resume(&mut self, at: Instant) -> Result<(), Violation> {
        let parked = self.suspended_program.take().or_else(|| self.suspended_erase.take());
        match parked {
            Some(mut job) => {
                (job.since, job.window, job.until) = (at, at, at + job.left);
                self.job = Some(job);
                Ok(())
            }
            None if std::mem::take(&mut self.late_suspend) => Ok(()),
            None => Err(Violation::Sequence("nothing to resume")),
        }
    }

    /// An id code by device address; `None` for an address without a code.
    pub(super) fn id_code(&self, device: u32) -> Option<u16> {
        let index = match device {
            0 | 1 => device as usize,
            0x0E | 0x0F => device as usize - 0x0C,
            _ => return None,
        };
        self.spec.id.get(index).copied()
    }

    /// A word as the bus returns it; in byte mode its lower byte, twice.
    pub(super) fn show(&self, word: u16, addr: u32, out: &mut [u8]) {
        let bytes = if self.width == 2 { word.to_le_bytes() } else { [word as u8; 2] };
        for (byte, at) in out.iter_mut().zip(addr..) {
            *byte = bytes[(at & 1) as usize];
        }
    }

    pub(super) const fn is_amd(&self) -> bool {
        matches!(self.spec.command_set, CommandSet::Amd)
    }
}

/// The maker's bytes, which are a serial number that is the same in every simulated chip, followed by the erased user
/// bytes.
fn factory_bytes(factory: usize, user: usize) -> Vec<u8> {
    let serial = (0..factory).map(|n| (n as u8).wrapping_mul(0x3B) ^ 0xA5);
    serial.chain(std::iter::repeat_n(0xFF, user)).collect()
}
