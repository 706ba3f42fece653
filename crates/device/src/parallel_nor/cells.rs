//! Common parts of both command sets: the array, one-time-programmable bytes, and the work under way.

use super::erase_map::{EraseBlock, EraseMap};
use super::spec::{CommandSet, LockScheme, ParallelNorSpec, impossible};
use crate::array::Array;
use crate::nor::cut::{Undo, mix};
use crate::oracle::BlockFaults;
use crate::spec::BadSpec;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};
use std::ops::Range;

/// Operation that the chip carries out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Program,
    Erase,
    Lock,
}

/// Work under way, or suspended.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    /// Time at which it began or was resumed.
    pub(super) since: Instant,
    /// Time at which it ends; without meaning for suspended work.
    pub(super) until: Instant,
    /// Time that was left when it was suspended.
    left: Nanos,
    pub(super) failed: bool,
    /// Bytes it changes; of an erase of several blocks, from the first to the last.
    pub(super) range: Range<u32>,
    /// Until when an erase takes further blocks.
    pub(super) window: Instant,
    /// Time that all of it takes.
    length: Nanos,
    /// State before it.
    undo: Undo,
}

/// The one-time-programmable bytes: the maker's, then the user's.
#[derive(Clone, Debug)]
pub(super) struct Otp {
    pub(super) bytes: Vec<u8>,
    pub(super) factory: usize,
    pub(super) locked: bool,
}

/// The chip behind its command interface.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    pub(super) spec: ParallelNorSpec,
    pub(super) map: EraseMap,
    pub(super) array: Array,
    /// Bytes in the smallest eraseblock: the array's block. Larger ones are several of these.
    unit_bytes: u32,
    /// Bytes on the data bus: 1 or 2.
    pub(super) width: u32,
    pub(super) job: Option<Job>,
    pub(super) suspended_erase: Option<Job>,
    pub(super) suspended_program: Option<Job>,
    /// A suspend came too late to have an effect; the resume that belongs to it has none either.
    late_suspend: bool,
    /// Work that failed and was not yet acknowledged.
    pub(super) failed: Option<Work>,
    pub(super) otp: Otp,
    /// Blocks that a lock protects.
    pub(super) locked: Vec<bool>,
    /// Blocks that wear has broken.
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

    /// Checks the width of the board's bus against the chip.
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

    /// Retires work that is over at `at`.
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

    /// Reads the array.
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

    /// Checks that new work may start, and that it may change `block`.
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

    /// Starts to program `bytes` at `addr`, which lie in one row. Buffered programs take longer.
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
            // Silicon would leave the bit 0, and perhaps report success.
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

    /// Starts to erase a block, or adds it to the erase whose window is open.
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

    /// Starts to erase every block.
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

    /// Erases a block; returns what a cut needs.
    fn clear(&mut self, block: &EraseBlock) -> Undo {
        let parts = block.start / self.unit_bytes..(block.start + block.len) / self.unit_bytes;
        let parts = parts.start as usize..parts.end as usize;
        let undo = Undo::erase(&self.array, parts.clone());
        parts.for_each(|part| self.array.erase(part));
        undo
    }

    /// The job that was just started can be cut off.
    fn keep(&mut self, undo: Undo) {
        if let Some(job) = &mut self.job {
            (job.undo, job.length) = (undo, job.until.since(job.since));
        }
    }

    /// Power goes away at `at` and comes back: what was under way or suspended is left half done.
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

    /// Notes that the chip works for `time` from `at`.
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

    /// Programs one-time-programmable bytes.
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

    /// Suspends the work under way; without any, or when it ends before the chip gets round to it, nothing happens: a
    /// driver cannot know.
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
        // While the window is open nothing has begun yet, and the suspend takes effect at once.
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

    /// Goes on with what was suspended last.
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

    /// An id code by device address; `None` where no code is kept.
    pub(super) fn id_code(&self, device: u32) -> Option<u16> {
        let index = match device {
            0 | 1 => device as usize,
            0x0E | 0x0F => device as usize - 0x0C,
            _ => return None,
        };
        self.spec.id.get(index).copied()
    }

    /// A word as the bus shows it: in byte mode its lower byte, twice.
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

/// The maker's bytes: a serial number in the simulated chip, the same in every one; then the user's, erased.
fn factory_bytes(factory: usize, user: usize) -> Vec<u8> {
    let serial = (0..factory).map(|n| (n as u8).wrapping_mul(0x3B) ^ 0xA5);
    serial.chain(std::iter::repeat_n(0xFF, user)).collect()
}
