//! The chip at its bus: write cycles and read cycles.

use super::amd::Amd;
use super::cells::{Cells, Work};
use super::intel::Intel;
use super::query::query_bytes;
use super::spec::{ParallelNorSpec, impossible};
use crate::array::Array;
use crate::oracle::{Faults, Oracle};
use crate::spec::BadSpec;
use crate::violation::Violation;
use floatgate_media::cfi::BusView;
use floatgate_mtd::Instant;

#[derive(Clone, Debug)]
enum Commands {
    Amd(Amd),
    Intel(Intel),
}

impl Commands {
    /// The command interface of a chip after power-on.
    fn new(cells: &Cells) -> Self {
        if cells.is_amd() { Self::Amd(Amd::new(cells)) } else { Self::Intel(Intel::new(cells)) }
    }
}

/// A simulated parallel NOR chip, which executes bus cycles.
///
/// Array contents change when an operation begins, and cannot be read before it ends; a power cut reverts the part that
/// was not done. A worn-out block ([`Oracle::set_faults`]) keeps its contents; the operation takes its maximum time and
/// then reports a failure.
#[derive(Clone, Debug)]
pub struct ParallelNor {
    cells: Cells,
    commands: Commands,
    query: Vec<u8>,
}

impl ParallelNor {
    /// A new, erased chip on a bus of `bits` data bits. With `stores` false the chip is in timing-only mode: it stores no
    /// array data, and reads of the array leave the buffer unchanged.
    ///
    /// # Errors
    /// [`BadSpec`] if the specification is impossible, or the chip does not support this bus.
    pub fn new(spec: ParallelNorSpec, bits: u8, stores: bool) -> Result<Self, BadSpec> {
        spec.check()?;
        Cells::check_width(&spec, bits)?;
        let view = match (bits, spec.counts_words()) {
            (16, _) => BusView::X16,
            (_, true) => BusView::X16AsX8,
            (_, false) => BusView::X8,
        };
        let query = query_bytes(&spec, view)
            .map_err(|error| impossible(format!("the CFI query cannot express this chip: {error}")))?;
        let cells = Cells::new(spec, u32::from(bits / 8), stores);
        Ok(Self { commands: Commands::new(&cells), cells, query })
    }

    /// Specification of the chip.
    pub const fn spec(&self) -> &ParallelNorSpec {
        &self.cells.spec
    }

    /// Size of a bus word, bytes.
    pub fn word_bytes(&self) -> u64 {
        u64::from(self.cells.width)
    }

    /// Applies a power cut at `at`, after which power is back: running operations are left half finished, and the chip is
    /// in read-array mode.
    pub fn power_cut(&mut self, at: Instant) {
        self.cells.power_cut(at);
        self.commands = Commands::new(&self.cells);
    }

    /// Protects the block at byte address `addr`, as the WP# pin or persistent protection bits do.
    pub fn protect(&mut self, addr: u32) {
        if let Some(block) = self.cells.map.at(addr) {
            self.cells.locked[block.index as usize] = true;
        }
    }

    /// Time at which the running operation ends; in the past if the chip is idle.
    pub fn busy_until(&self) -> Instant {
        self.cells.job.as_ref().map_or(Instant::ZERO, |job| job.until)
    }

    /// Time at which the running operation started or was resumed; `None` if the chip is idle.
    pub fn busy_since(&self) -> Option<Instant> {
        self.cells.job.as_ref().map(|job| job.since)
    }

    /// Name of the running operation, for traces.
    pub fn busy_what(&self) -> &'static str {
        match self.cells.job.as_ref().map(|job| job.work) {
            Some(Work::Program) => "tPROG",
            Some(Work::Erase) => "tBERS",
            Some(Work::Lock) => "lock bits",
            None => "idle",
        }
    }

    /// Executes a write cycle with `value` at byte address `addr`, which ends at `at`.
    ///
    /// # Errors
    /// The rule that the cycle violates. The command sequence is then reset.
    pub fn write(&mut self, at: Instant, addr: u32, value: u16) -> Result<(), Violation> {
        let bytes = value.to_le_bytes();
        let width = self.cells.width as usize;
        self.write_run(at, addr, &bytes[..width])
    }

    /// Executes consecutive write cycles with the words of `data`, the last of which ends at `at`. Only words of the
    /// program buffer are passed in groups.
    ///
    /// # Errors
    /// The errors of [`ParallelNor::write`].
    pub fn write_run(&mut self, at: Instant, addr: u32, data: &[u8]) -> Result<(), Violation> {
        if data.is_empty() {
            return Ok(());
        }
        self.cells.end_job(at);
        match &mut self.commands {
            Commands::Amd(set) => set.write(&mut self.cells, at, addr, data),
            Commands::Intel(set) => {
                set.note_failure(&mut self.cells);
                set.write(&mut self.cells, at, addr, data)
            }
        }
    }

    /// Executes read cycles for `out.len()` bytes from byte address `addr` on, the last of which ends at `at`.
    ///
    /// # Errors
    /// The violated rule: a read of array data in status mode, or an address beyond the end.
    #[inline]
    pub fn read(&mut self, at: Instant, addr: u32, out: &mut [u8]) -> Result<(), Violation> {
        self.cells.end_job(at);
        let query = match &mut self.commands {
            Commands::Amd(set) => {
                set.read(&self.cells, at, addr, out)?;
                set.shows_query()
            }
            Commands::Intel(set) => {
                set.note_failure(&mut self.cells);
                set.read(&self.cells, at, addr, out)?;
                set.shows_query()
            }
        };
        if query && !self.cells.busy(at) {
            self.show_query(addr, out);
        }
        Ok(())
    }

    fn show_query(&self, addr: u32, out: &mut [u8]) {
        for (byte, at) in out.iter_mut().zip(addr as usize..) {
            *byte = self.query.get(at).copied().unwrap_or(0);
        }
    }
}

impl Oracle for ParallelNor {
    fn array(&self, part: usize) -> Option<&Array> {
        (part == 0).then_some(&self.cells.array)
    }

    fn array_mut(&mut self, part: usize) -> Option<&mut Array> {
        (part == 0).then_some(&mut self.cells.array)
    }

    fn set_faults(&mut self, addr: u64, faults: Faults) {
        if let Some(block) = self.cells.map.at(addr as u32) {
            self.cells.faults.set(block.index, faults);
        }
    }
}
