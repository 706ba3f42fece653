//! State of a LUN: registers, busy times, results, features.

use super::super::command as c;
use super::super::spec::{PLANES_MAX, RawNandSpec, RetryKind};
use crate::array::{BlockContent, Loaded, SubPages};
use crate::cells::BlockState;
use floatgate_mtd::Instant;

/// A program or an erase that may be interrupted.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) what: Cut,
}

/// State before an operation, with which a power loss can revert it.
#[derive(Clone, Debug)]
pub(super) enum Cut {
    Program { row: u32 },
    Erase { block: u32, before: Box<Before> },
}

/// Content and cell state of a block before its erase.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) content: BlockContent,
    pub(super) cells: BlockState,
    pub(super) next_page: Option<u16>,
}

/// Content of a page register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Register {
    /// Undefined content.
    #[default]
    Empty,
    /// A page of the array, by row index. The page is not copied; every change of the array empties the register.
    Page(u32),
    /// An OTP page, by index.
    Otp(u32),
}

/// Type of multi-plane operation whose planes wait for a confirm command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Queue {
    #[default]
    None,
    Reads,
    Programs,
    Erases,
}

/// Bytes loaded for the page of one plane.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Target of the operation; `Empty` if the plane is not part of it.
    pub(super) target: Register,
    /// Column of the next byte to load.
    pub(super) column: usize,
    /// First column of the loaded range.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Loaded page with OOB; empty in timing-only mode.
    data: Vec<u8>,
    full: usize,
    sub_pages: SubPages,
    /// Mask of the sub-pages that were loaded with a zero bit, in timing-only mode.
    written: u8,
}

impl Load {
    fn new(spec: &RawNandSpec, stores: bool) -> Self {
        let (full, sub_pages) = (spec.geometry.full_page() as usize, spec.sub_pages());
        let data = if stores { vec![0xFF; full] } else { Vec::new() };
        Self { target: Register::Empty, column: 0, start: 0, end: 0, data, full, sub_pages, written: 0 }
    }

    /// Starts a program of `target`: no byte is loaded, all bits are 1.
    pub(super) fn begin(&mut self, target: Register, column: usize) {
        self.target = target;
        self.column = column;
        (self.start, self.end, self.written) = (0, 0, 0);
    }

    /// Fills the register with a page that copyback read.
    pub(super) fn fill(&mut self, read: impl FnOnce(&mut [u8])) {
        read(&mut self.data);
        (self.start, self.end, self.written) = (0, self.full, u8::MAX);
    }

    /// Loads bytes at the current column; `false` if they extend beyond the page.
    pub(super) fn put(&mut self, bytes: &[u8]) -> bool {
        let end = self.column + bytes.len();
        if end > self.full {
            return false;
        }
        if self.start == self.end {
            (self.start, self.end) = (self.column, self.column);
        }
        if self.column < self.start || self.column > self.end {
            self.pad();
        }
        match self.data.get_mut(self.column..end) {
            Some(place) => place.copy_from_slice(bytes),
            None => self.written |= self.sub_pages.written(self.column, bytes),
        }
        self.end = self.end.max(end);
        self.column = end;
        true
    }

    /// Extends the loaded range to the whole page; bytes that were not loaded are FFh.
    fn pad(&mut self) {
        if !self.data.is_empty() {
            self.data[..self.start].fill(0xFF);
            self.data[self.end..].fill(0xFF);
        }
        (self.start, self.end) = (0, self.full);
    }

    /// Bytes of the loaded range, with their column in the page.
    pub(super) fn loaded(&self) -> Loaded<'_> {
        let bytes = self.data.get(self.start..self.end).unwrap_or(&[]);
        Loaded { column: self.start, bytes, sub_pages: self.written }
    }
}

/// Feature addresses of a chip, each with its four parameters.
#[derive(Clone, Debug)]
pub(super) struct Features(Vec<(u8, [u8; 4])>);

impl Features {
    fn new(spec: &RawNandSpec) -> Self {
        let mut known = vec![(c::TIMING_MODE, [0; 4])];
        known.extend(spec.otp.map(|otp| (otp.feature, [0; 4])));
        let retry = spec.read_retry.as_ref().filter(|retry| retry.kind == RetryKind::Feature);
        known.extend(retry.map(|retry| (retry.feature, [0; 4])));
        known.extend(spec.protection.map(|p| {
            let first = if p.locked_at_power_on { p.lock_all } else { 0 };
            (p.feature, [first, 0, 0, 0])
        }));
        Self(known)
    }

    pub(super) fn get(&self, address: u8) -> Option<[u8; 4]> {
        self.0.iter().find(|f| f.0 == address).map(|f| f.1)
    }

    pub(super) fn set(&mut self, address: u8, value: [u8; 4]) {
        if let Some(feature) = self.0.iter_mut().find(|f| f.0 == address) {
            feature.1 = value;
        }
    }
}

/// State of one LUN: its ready times, status and page registers.
#[derive(Clone, Debug)]
pub(super) struct Lun {
    /// RDY: time from which the LUN accepts commands again.
    pub(super) ready: Instant,
    /// ARDY: time from which its array is idle.
    pub(super) array_ready: Instant,
    /// True if the last program or erase failed.
    pub(super) fail: bool,
    /// True if the previous program failed and was a cached one.
    pub(super) fail_before: bool,
    /// True if the last program was cached: the status of the next one also contains its result.
    pub(super) chained: bool,
    /// True if on-die ECC recommends a rewrite of the page read last.
    pub(super) rewrite: bool,
    /// Page registers, one per plane.
    pub(super) registers: [Register; PLANES_MAX as usize],
    /// Ascending offsets of the wrong bits of the pages in the registers.
    pub(super) wrong: [Vec<u32>; PLANES_MAX as usize],
    /// Ascending offsets of the wrong bits of the page that a cached read reads ahead.
    pub(super) wrong_ahead: Vec<u32>,
    /// Plane whose register is the source of data output.
    pub(super) plane: u8,
    /// Row that the last single-plane read, or the read ahead of a cached read, has read or is reading. The next cached
    /// read outputs it.
    pub(super) behind: Option<u32>,
    /// True during a cached read.
    pub(super) caching: bool,
    /// Row that was read for copyback. A copyback program may write the copy of this row.
    pub(super) copyback: Option<u32>,
    /// Loaded bytes, one per plane.
    pub(super) loads: Vec<Load>,
    /// Operation that waits for a confirm command, with its queued rows or blocks.
    pub(super) queue: Queue,
    pub(super) queued: [Option<u32>; PLANES_MAX as usize],
    pub(super) features: Features,
    /// Programs and erases that may not be finished.
    pub(super) operations: Vec<Operation>,
    /// Current read retry mode, set by registers.
    pub(super) retry_mode: u8,
    /// Shift of the read thresholds in the current read retry mode, in standard deviations downwards.
    pub(super) lowered: f64,
}

impl Lun {
    pub(super) fn new(spec: &RawNandSpec, stores: bool) -> Self {
        Self {
            ready: Instant::ZERO,
            array_ready: Instant::ZERO,
            fail: false,
            fail_before: false,
            chained: false,
            rewrite: false,
            registers: [Register::Empty; PLANES_MAX as usize],
            wrong: Default::default(),
            wrong_ahead: Vec::new(),
            plane: 0,
            behind: None,
            caching: false,
            copyback: None,
            loads: (0..spec.geometry.planes).map(|_| Load::new(spec, stores)).collect(),
            queue: Queue::None,
            queued: [None; PLANES_MAX as usize],
            features: Features::new(spec),
            operations: Vec::new(),
            retry_mode: 0,
            lowered: 0.0,
        }
    }

    /// The register that is the source of data output.
    pub(super) fn register(&self) -> Register {
        self.registers[usize::from(self.plane)]
    }

    /// Wrong bits of that register.
    #[inline]
    pub(super) fn wrong(&self) -> &[u32] {
        &self.wrong[usize::from(self.plane)]
    }

    /// Empties registers and ends running reads, because the array changes or the LUN is reset.
    #[inline]
    pub(super) fn empty_registers(&mut self) {
        self.registers = [Register::Empty; PLANES_MAX as usize];
        self.behind = None;
        self.caching = false;
        self.copyback = None;
    }

    /// Drops the operations that wait for a confirm command.
    pub(super) fn drop_queue(&mut self) {
        self.queue = Queue::None;
        self.queued = [None; PLANES_MAX as usize];
        for load in &mut self.loads {
            load.target = Register::Empty;
        }
    }
}
