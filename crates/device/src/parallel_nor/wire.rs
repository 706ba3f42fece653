//! A parallel NOR at its pins, with cycles that write or read a word, for hosts with their own driver.

use super::chip::ParallelNor;
use crate::power::Power;
use crate::violation::{Violation, ViolationLog};
use floatgate_mtd::{Instant, Nanos};

/// A parallel NOR with the wires to it. Cycles have the minimum duration that the chip allows.
#[derive(Clone, Debug)]
pub struct NorWire {
    chip: ParallelNor,
    now: Instant,
    power: Power,
    violations: ViolationLog,
}

impl NorWire {
    /// Connects a chip after power-on; time begins at 0.
    pub fn new(chip: ParallelNor) -> Self {
        Self { chip, now: Instant::ZERO, power: Power::default(), violations: ViolationLog::default() }
    }

    /// The connected chip.
    pub const fn chip(&self) -> &ParallelNor {
        &self.chip
    }

    /// Mutable access to the chip, to inject faults.
    pub const fn chip_mut(&mut self) -> &mut ParallelNor {
        &mut self.chip
    }

    /// Current virtual time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Advances virtual time.
    pub fn advance(&mut self, time: Nanos) {
        self.now += time;
        self.check_power();
    }

    /// Rule violations so far. The bytes of a violation are the address (highest byte first) and the word.
    pub const fn violations(&self) -> &ViolationLog {
        &self.violations
    }

    /// Clears the recorded violations.
    pub fn clear_violations(&mut self) {
        self.violations = ViolationLog::default();
    }

    /// Mutable access to the power supply, to schedule a cut ([`Power::order`]) and to count programs and erases.
    pub const fn power_mut(&mut self) -> &mut Power {
        &mut self.power
    }

    /// Power supply of the chip, for queries of its state.
    pub const fn power(&self) -> &Power {
        &self.power
    }

    /// Restores power; the chip is then in its power-on state.
    pub const fn power_on(&mut self) {
        self.power.restore();
    }

    /// Executes a cycle that writes a word at a byte address.
    pub fn write(&mut self, addr: u32, word: u16) {
        let start = self.now;
        self.now += self.chip.spec().timing.t_wc_ns;
        if self.check_power() {
            return;
        }
        let outcome = self.chip.write(self.now, addr, word);
        let begins = self.chip.busy_since() == Some(self.now) && self.chip.busy_what() != "lock bits";
        if begins && self.power.is_watched() {
            self.power.count(self.now, self.chip.busy_until());
        }
        let [high, low] = word.to_be_bytes();
        let [a, b, c, d] = addr.to_be_bytes();
        self.note(start, &[a, b, c, d, high, low], outcome);
    }

    /// Executes cycles that read bytes from a byte address on. The result is FFh if the chip drives nothing.
    pub fn read(&mut self, addr: u32, out: &mut [u8]) {
        let start = self.now;
        self.now += self.read_time(addr, out.len());
        let outcome = match self.check_power() {
            true => Err(Violation::NoPower),
            false => self.chip.read(self.now, addr, out),
        };
        if outcome.is_err() {
            out.fill(0xFF);
        }
        self.note(start, &addr.to_be_bytes(), outcome);
    }

    /// Duration of a read: a random access for each page, and a page access for each further word.
    fn read_time(&self, addr: u32, len: usize) -> Nanos {
        let Some(last) = (len as u64).checked_sub(1) else { return Nanos::ZERO };
        let (spec, word) = (self.chip.spec(), self.chip.word_bytes());
        let (from, to) = (u64::from(addr), u64::from(addr) + last);
        let span = |unit: u64| to / unit - from / unit + 1;
        let (words, pages) = (span(word), span(spec.geometry.page_bytes.max(word)));
        spec.timing.t_acc_ns * pages + spec.timing.t_pacc_ns * (words - pages)
    }

    fn note(&mut self, at: Instant, bytes: &[u8], outcome: Result<(), Violation>) {
        match outcome {
            Ok(()) | Err(Violation::NoPower) => {}
            Err(rule) => self.violations.record(at, bytes, rule),
        }
    }

    /// True if the chip has no power. A power cut that is due is applied first.
    fn check_power(&mut self) -> bool {
        if !self.power.is_lost() && self.now <= self.power.until {
            return false;
        }
        if let Some(at) = self.power.switch_off() {
            self.chip.power_cut(at);
        }
        true
    }
}
