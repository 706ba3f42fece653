//! The state of one LUN: registers, busy times, results, features.

use super::super::command as c;
use super::super::spec::{PLANES_MAX, RawNandSpec, RetryKind};
use crate::array::{BlockContent, Loaded, SubPages};
use crate::cells::BlockState;
use floatgate_mtd::Instant;

/// A program or an erase.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) what: Cut,
}

/// State before an operation, to undo it after a loss of power.
#[derive(Clone, Debug)]
pub(super) enum Cut {
    Program { row: u32 },
    Erase { block: u32, before: Box<Before> },
}

/// A block before its erase.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) content: BlockContent,
    pub(super) cells: BlockState,
    pub(super) next_page: Option<u16>,
}

/// Content of a page register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Register {
    /// Nothing defined.
    #[default]
    Empty,
    /// A page of the array, by row index. The page is not copied: whatever changes the array empties the register.
    Page(u32),
    /// An OTP page.
    Otp(u32),
}

/// Several planes wait for one confirm command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Queue {
    #[default]
    None,
    Reads,
    Programs,
    Erases,
}

/// Bytes loaded for one plane's page.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Target of the operation; `Empty` while the plane is not part of it.
    pub(super) target: Register,
    /// Next byte to load.
    pub(super) column: usize,
    /// Loaded so far: one stretch.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Page and OOB; empty in timing-only mode.
    data: Vec<u8>,
    full: usize,
    sub_pages: SubPages,
    /// The sub-pages that were loaded with a zero bit, in timing-only mode.
    written: u8,
}

impl Load {
    fn new(spec: &RawNandSpec, stores: bool) -> Self {
        let (full, sub_pages) = (spec.geometry.full_page() as usize, spec.sub_pages());
        let data = if stores { vec![0xFF; full] } else { Vec::new() };
        Self { target: Register::Empty, column: 0, start: 0, end: 0, data, full, sub_pages, written: 0 }
    }

    /// A new program of `target`: nothing loaded, all bits 1.
    pub(super) fn begin(&mut self, target: Register, column: usize) {
        self.target = target;
        self.column = column;
        (self.start, self.end, self.written) = (0, 0, 0);
    }

    /// Fills the register with a page read by copyback.
    pub(super) fn fill(&mut self, read: impl FnOnce(&mut [u8])) {
        read(&mut self.data);
        (self.start, self.end, self.written) = (0, self.full, u8::MAX);
    }

    /// Loads bytes at the column; `false` when they reach beyond the page.
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

    /// Makes the loaded stretch the whole page: what was not loaded stays 1.
    fn pad(&mut self) {
        if !self.data.is_empty() {
            self.data[..self.start].fill(0xFF);
            self.data[self.end..].fill(0xFF);
        }
        (self.start, self.end) = (0, self.full);
    }

    /// The loaded stretch.
    pub(super) fn loaded(&self) -> Loaded<'_> {
        let bytes = self.data.get(self.start..self.end).unwrap_or(&[]);
        Loaded { column: self.start, bytes, sub_pages: self.written }
    }
}

/// Feature addresses a chip knows, each with four parameters.
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

/// One LUN.
#[derive(Clone, Debug)]
pub(super) struct Lun {
    /// RDY: when the LUN takes commands again.
    pub(super) ready: Instant,
    /// ARDY: when its array is idle.
    pub(super) array_ready: Instant,
    /// Result of the last program or erase.
    pub(super) fail: bool,
    /// Result of the program before it, when that was a cached one.
    pub(super) fail_before: bool,
    /// The last program was a cached one: the next one's status shows its result too.
    pub(super) chained: bool,
    /// On-die ECC recommends to rewrite the page read last.
    pub(super) rewrite: bool,
    /// Page registers, one per plane.
    pub(super) registers: [Register; PLANES_MAX as usize],
    /// Bits of the pages in the registers that were read wrong, ascending.
    pub(super) wrong: [Vec<u32>; PLANES_MAX as usize],
    /// The same of the page that a cached read has the array read ahead.
    pub(super) wrong_ahead: Vec<u32>,
    /// Plane whose register data comes from.
    pub(super) plane: u8,
    /// Row index in the data register behind a single-plane read: what a cached read gives next.
    pub(super) behind: Option<u32>,
    /// A cached read was begun and not ended.
    pub(super) caching: bool,
    /// Row index whose copy a copyback program may write.
    pub(super) copyback: Option<u32>,
    /// Loaded bytes, one per plane.
    pub(super) loads: Vec<Load>,
    /// Operation that waits for a confirm command, and the rows or blocks queued.
    pub(super) queue: Queue,
    pub(super) queued: [Option<u32>; PLANES_MAX as usize],
    pub(super) features: Features,
    /// Programs and erases that may not have finished.
    pub(super) operations: Vec<Operation>,
    /// Read retry mode set by registers.
    pub(super) retry_mode: u8,
    /// By how much the read retry mode in force lowers the read thresholds, in deviations.
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

    /// The register data comes from.
    pub(super) fn register(&self) -> Register {
        self.registers[usize::from(self.plane)]
    }

    /// Its wrong bits.
    #[inline]
    pub(super) fn wrong(&self) -> &[u32] {
        &self.wrong[usize::from(self.plane)]
    }

    /// Forgets registers and reads in progress: the array is about to change, or the LUN was reset.
    #[inline]
    pub(super) fn empty_registers(&mut self) {
        self.registers = [Register::Empty; PLANES_MAX as usize];
        self.behind = None;
        self.caching = false;
        self.copyback = None;
    }

    /// Drops what waits for a confirm command.
    pub(super) fn drop_queue(&mut self) {
        self.queue = Queue::None;
        self.queued = [None; PLANES_MAX as usize];
        for load in &mut self.loads {
            load.target = Register::Empty;
        }
    }
}
