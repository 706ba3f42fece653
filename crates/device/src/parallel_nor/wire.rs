//! A parallel NOR at its pins: cycles that write a word, cycles that read one, for hosts that know no command set.

use super::chip::ParallelNor;
use crate::power::Power;
use crate::violation::{Violation, ViolationLog};
use floatgate_mtd::{Instant, Nanos};

/// A parallel NOR and the wires to it. Cycles are as short as the chip allows.
#[derive(Clone, Debug)]
pub struct NorWire {
    chip: ParallelNor,
    now: Instant,
    power: Power,
    violations: ViolationLog,
}

impl NorWire {
    /// Wires to a chip after power-on; time begins at 0.
    pub fn new(chip: ParallelNor) -> Self {
        Self { chip, now: Instant::ZERO, power: Power::default(), violations: ViolationLog::default() }
    }

    /// The chip at the other end of the wires.
    pub const fn chip(&self) -> &ParallelNor {
        &self.chip
    }

    /// The chip, to break it on purpose.
    pub const fn chip_mut(&mut self) -> &mut ParallelNor {
        &mut self.chip
    }

    /// Present time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Lets time pass.
    pub fn advance(&mut self, time: Nanos) {
        self.now += time;
        self.check_power();
    }

    /// The violations so far; their bytes are address (highest byte first) and word.
    pub const fn violations(&self) -> &ViolationLog {
        &self.violations
    }

    /// Forgets the violations so far.
    pub fn clear_violations(&mut self) {
        self.violations = ViolationLog::default();
    }

    /// The supply, to order a cut ([`Power::order`]) and to count programs and erases.
    pub const fn power_mut(&mut self) -> &mut Power {
        &mut self.power
    }

    /// Power supply of the chip, to see whether power is lost.
    pub const fn power(&self) -> &Power {
        &self.power
    }

    /// Power is back: the chip is as after power-on.
    pub const fn power_on(&mut self) {
        self.power.restore();
    }

    /// A cycle that writes a word at a byte address.
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

    /// Cycles that read bytes from a byte address on. FFh where the chip drives nothing.
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

    /// A random access for each page, a page access for each further word.
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

    /// True when the chip has no power. It is taken through a cut that is due.
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
