//! A memory controller with a parallel NOR chip, and the cost of its bus cycles.

use super::chip::ParallelNor;
use crate::power::Power;
use crate::spi::{PollPlan, mean_wait};
use crate::timeline::{Host, Resource, Span, Timeline};
use crate::units;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos, Phase};
use serde::Deserialize;

/// Parameters of a memory controller.
///
/// A cycle takes the time that the chip needs (tACC, tPACC, tWC), but at least `t_cycle_ns`. It is rounded up to whole
/// clocks, and `wait_states` clocks are added. `access_ns` follows each cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NorProfile {
    /// Clock of the bus state machine in Hz, to which cycles are rounded up; 0 for an asynchronous controller.
    #[serde(with = "units::hz")]
    pub clock_hz: u64,
    /// Shortest cycle of the controller, in ns.
    #[serde(with = "units::ns")]
    pub t_cycle_ns: Nanos,
    /// Number of clocks added to each cycle (turnaround, chip select).
    pub wait_states: u8,
    /// Time per cycle while the bus is idle, in ns: instruction of the host, and bridges to the bus.
    #[serde(with = "units::ns")]
    pub access_ns: Nanos,
    /// True if the controller continues reads within an open page (tPACC).
    pub page_mode: bool,
    /// Largest number of bytes in one burst read, a power of two (a cache line); 0 for no limit.
    #[serde(with = "units::bytes")]
    pub burst_bytes: u64,
}

/// The data bus on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorBus {
    /// Number of wired data bits: 8 or 16.
    pub bits: u8,
}

/// Interface between a memory-mapped chip and its driver. Implementations may be simulated or real.
pub trait NorMem {
    /// Size of a bus word, bytes: 1 or 2.
    fn word_bytes(&self) -> u32;

    /// Writes a command to byte address `addr`, in one cycle.
    ///
    /// # Errors
    /// The simulated chip rejects the command; a real chip does not report this.
    fn command(&mut self, host: &mut Host, addr: u32, command: u8) -> Result<(), Violation>;

    /// Writes words at ascending addresses to program them: one word, or the words of the program buffer.
    ///
    /// # Errors
    /// The errors of [`NorMem::command`].
    fn program(&mut self, host: &mut Host, addr: u32, data: &[u8]) -> Result<(), Violation>;

    /// Reads bytes in the current mode of the chip.
    ///
    /// # Errors
    /// The errors of [`NorMem::command`].
    fn read(&mut self, host: &mut Host, addr: u32, buf: &mut [u8]) -> Result<(), Violation>;

    /// Waits until a status read at `addr` could find the chip ready. It follows the polling plan of a driver: a pause, a
    /// read, then further pauses and reads. Returns true if the chip is ready within the time of the plan. The caller
    /// executes the last read.
    fn wait(&mut self, host: &mut Host, plan: PollPlan) -> bool;

    /// Reads the status once, booked as polling.
    ///
    /// # Errors
    /// The errors of [`NorMem::command`].
    fn status(&mut self, host: &mut Host, addr: u32) -> Result<u8, Violation>;
}

/// Duration of each kind of cycle, ps, without `access_ns`.
#[derive(Clone, Copy, Debug)]
struct Cycles {
    first_ps: u64,
    next_ps: u64,
    write_ps: u64,
    /// Number of bytes after which a read is a random access again.
    segment: u64,
}

/// A simulated memory controller with a simulated chip.
#[derive(Clone, Debug)]
pub struct NorController {
    profile: NorProfile,
    chip: ParallelNor,
    word: u32,
    bus: Timeline,
    cycles: Cycles,
    /// Time up to which the chip's work has been recorded.
    noted_until: Instant,
    power: Power,
}

impl NorController {
    /// Maps `chip` into the address space of a host. The chip must have been created for a bus of `bus.bits`.
    pub fn new(profile: NorProfile, bus: NorBus, chip: ParallelNor) -> Self {
        let word = u32::from(bus.bits / 8).max(1);
        let timing = &chip.spec().timing;
        let page = chip.spec().geometry.page_bytes;
        let paged = profile.page_mode && page > u64::from(word);
        let limit = if profile.burst_bytes == 0 { u64::MAX } else { profile.burst_bytes };
        let cycle = |time: Nanos| cycle_ps(&profile, time);
        let cycles = Cycles {
            first_ps: cycle(timing.t_acc_ns),
            next_ps: cycle(timing.t_pacc_ns),
            write_ps: cycle(timing.t_wc_ns),
            segment: if paged { page.min(limit).max(u64::from(word)) } else { u64::from(word) },
        };
        Self {
            profile,
            chip,
            word,
            bus: Timeline::default(),
            cycles,
            noted_until: Instant::ZERO,
            power: Power::default(),
        }
    }

    /// The chip, for access to state that drivers cannot see.
    pub const fn chip(&self) -> &ParallelNor {
        &self.chip
    }

    /// Mutable access to the chip, to inject faults.
    pub const fn chip_mut(&mut self) -> &mut ParallelNor {
        &mut self.chip
    }

    /// Timing parameters and limits of the controller.
    pub const fn profile(&self) -> &NorProfile {
        &self.profile
    }

    /// Power supply of controller and chip. After a power loss every access fails until [`Self::power_on`].
    pub const fn power(&self) -> &Power {
        &self.power
    }

    /// Mutable access to the power supply, to cut it.
    pub const fn power_mut(&mut self) -> &mut Power {
        &mut self.power
    }

    /// Restores power. A driver must then probe the chip again.
    pub const fn power_on(&mut self) {
        self.power.restore();
    }

    /// Applies the scheduled power cut to the chip.
    #[cold]
    fn lose_power(&mut self, host: &mut Host) -> Violation {
        if let Some(at) = self.power.switch_off() {
            host.pass_until(self.chip.busy_until().min(at), Phase::Array);
            host.pass_until(at, Phase::Waiting);
            self.chip.power_cut(at);
        }
        Violation::NoPower
    }

    /// Counts a program or erase that the access which ended at `end` may have started.
    #[cold]
    fn count_operation(&mut self, end: Instant) {
        if self.chip.busy_since() == Some(end) && self.chip.busy_what() != "lock bits" {
            self.power.count(end, self.chip.busy_until());
        }
    }

    /// Number of cycles and bus time of a read of `len` bytes at `addr`: a random access for each page (or burst) that is
    /// touched, and a page access for each further word.
    fn read_time(&self, addr: u32, len: usize) -> (u64, Nanos) {
        if len == 0 {
            return (0, Nanos::ZERO);
        }
        let (from, to) = (u64::from(addr), u64::from(addr) + len as u64 - 1);
        let span = |unit: u64| to / unit - from / unit + 1;
        let words = span(u64::from(self.word));
        let firsts = span(self.cycles.segment);
        let ps = firsts * self.cycles.first_ps + (words - firsts) * self.cycles.next_ps;
        (words, Nanos::from_ns(ps / 1000))
    }

    /// Records the chip's work, once for each start or resume.
    fn note_work(&mut self, host: &mut Host) {
        let Some(since) = self.chip.busy_since().filter(|&since| since >= self.noted_until) else { return };
        let (end, what) = (self.chip.busy_until(), self.chip.busy_what());
        host.note(Span { resource: Resource::Die(0), phase: Phase::Array, start: since, end, what });
        self.noted_until = end;
    }

    /// Occupies the bus for `cycles` cycles that take `length`. Returns the end of the last cycle, or an error if power is
    /// lost before.
    fn occupy(&mut self, host: &mut Host, cycles: u64, length: Nanos) -> Result<Instant, Violation> {
        let (start, end) = self.bus.reserve(host.now(), length + self.profile.access_ns * cycles);
        if end > self.power.until {
            return Err(self.lose_power(host));
        }
        host.pass_until(start, Phase::Waiting);
        Ok(end)
    }

    /// Books cycles that take `length` on the bus, and their cost on the host's side.
    fn book(&self, host: &mut Host, phase: Phase, cycles: u64, length: Nanos, what: &'static str) {
        host.spend(Resource::Bus, phase, length, what);
        let cost = self.profile.access_ns * cycles;
        host.spend(Resource::Controller, Phase::Controller, cost, "bridge, per access");
    }

    fn write(&mut self, host: &mut Host, phase: Phase, addr: u32, data: &[u8]) -> Result<(), Violation> {
        let cycles = (data.len() as u64).div_ceil(u64::from(self.word));
        let length = Nanos::from_ns(cycles * self.cycles.write_ps / 1000);
        let end = self.occupy(host, cycles, length)?;
        let what = if phase == Phase::Command { "command" } else { "data in" };
        let outcome = self.chip.write_run(end, addr, data);
        if self.power.is_watched() {
            self.count_operation(end);
        }
        self.book(host, phase, cycles, length, what);
        outcome
    }
}

/// Maximum duration of a memory cycle, 1 ms. All real cycles are far shorter, and the sum over a whole chip still fits 64
/// bits.
const LONGEST_CYCLE_NS: u64 = 1_000_000;

fn cycle_ps(profile: &NorProfile, needed: Nanos) -> u64 {
    let ps = needed.max(profile.t_cycle_ns).as_ns().min(LONGEST_CYCLE_NS) * 1000;
    if profile.clock_hz == 0 {
        return ps;
    }
    // The time is first converted to clocks, because a clock period need not be a whole number of picoseconds.
    let clocks = (u128::from(ps) * u128::from(profile.clock_hz)).div_ceil(1_000_000_000_000);
    let clocks = clocks + u128::from(profile.wait_states);
    let ps = clocks * 1_000_000_000_000 / u128::from(profile.clock_hz);
    ps.min(u128::from(LONGEST_CYCLE_NS * 1000)) as u64
}

impl NorMem for NorController {
    fn word_bytes(&self) -> u32 {
        self.word
    }

    fn command(&mut self, host: &mut Host, addr: u32, command: u8) -> Result<(), Violation> {
        let word = u16::from(command).to_le_bytes();
        let width = self.word as usize;
        self.write(host, Phase::Command, addr - addr % self.word, &word[..width])
    }

    fn program(&mut self, host: &mut Host, addr: u32, data: &[u8]) -> Result<(), Violation> {
        self.write(host, Phase::Data, addr, data)
    }

    #[inline]
    fn read(&mut self, host: &mut Host, addr: u32, buf: &mut [u8]) -> Result<(), Violation> {
        let (cycles, length) = self.read_time(addr, buf.len());
        let end = self.occupy(host, cycles, length)?;
        let outcome = self.chip.read(end, addr, buf);
        self.book(host, Phase::Data, cycles, length, "data out");
        outcome
    }

    /// Waits without executing the reads that find the chip busy: the time of the last read is computed from the time at
    /// which the chip is ready.
    fn wait(&mut self, host: &mut Host, plan: PollPlan) -> bool {
        let (start, ready) = (host.now(), self.chip.busy_until());
        self.note_work(host);
        if ready > self.power.until {
            self.lose_power(host);
            // After a power loss the status cannot be read.
            return true;
        }
        let look = Nanos::from_ns(self.cycles.first_ps / 1000) + self.profile.access_ns;
        let first = start + plan.initial;
        let round = look + plan.interval;
        let wait = mean_wait(first + look, round, ready);
        if plan.initial + wait > plan.timeout {
            let end = start + plan.timeout;
            host.pass_until(ready.min(end), Phase::Array);
            host.pass_until(end, Phase::Polling);
            return false;
        }
        let last = first + wait;
        host.pass_until(ready.min(last), Phase::Array);
        host.wait_until(last, Resource::Cpu, Phase::Polling, "pauses and status reads");
        true
    }

    fn status(&mut self, host: &mut Host, addr: u32) -> Result<u8, Violation> {
        let addr = addr - addr % self.word;
        let (cycles, length) = self.read_time(addr, self.word as usize);
        let end = self.occupy(host, cycles, length)?;
        let start = host.now();
        let mut word = [0; 2];
        let width = self.word as usize;
        let ready = self.chip.busy_until();
        let outcome = self.chip.read(end, addr, &mut word[..width]);
        host.note(Span { resource: Resource::Bus, phase: Phase::Polling, start, end, what: "status" });
        host.pass_until(ready.min(end), Phase::Array);
        host.pass_until(end, Phase::Polling);
        outcome.map(|()| word[0])
    }
}
