//! Raw NAND chips at their pins: command, address and data cycles, and R/B#, for hosts that send single cycles.
//!
//! Cycles have the duration of the current interface, with the pauses that every controller observes (tWHR, tADL, tCCS, tRR). Cycles
//! that the chip rejects are recorded; reads then return FFh.

use super::bus::NandChip;
use super::command as c;
use super::controller::Before;
use super::timing::DataInterface;
use crate::power::Power;
use crate::violation::{Recorded, Violation, ViolationLog};
use floatgate_mtd::{Instant, Nanos};

/// Value of undriven data lines.
const UNDRIVEN: u8 = 0xFF;

/// Maximum number of address cycles of a command: row and column of four bytes each.
const ADDRESS_MAX: usize = 8;

/// The chips of a package, one per CE#, with the wires to them.
#[derive(Clone, Debug)]
pub struct NandWire<C> {
    chips: Vec<C>,
    selected: usize,
    interface: DataInterface,
    now: Instant,
    before: Before,
    /// Address cycles received so far, of which more may follow.
    address: Vec<u8>,
    /// Bytes of the last command and its address cycles.
    sent: Vec<u8>,
    power: Power,
    violations: ViolationLog,
}

impl<C: NandChip> NandWire<C> {
    /// Connects chips after power-on; time begins at 0.
    pub fn new(chips: Vec<C>) -> Self {
        Self {
            chips,
            selected: 0,
            interface: DataInterface::POWER_ON,
            now: Instant::ZERO,
            before: Before::Start,
            address: Vec::new(),
            sent: Vec::new(),
            power: Power::default(),
            violations: ViolationLog::default(),
        }
    }

    /// The chip behind a CE#.
    pub fn chip(&self, target: usize) -> Option<&C> {
        self.chips.get(target)
    }

    /// Mutable access to the chip behind a CE#, to inject faults.
    pub fn chip_mut(&mut self, target: usize) -> Option<&mut C> {
        self.chips.get_mut(target)
    }

    /// Selects a target by its CE#. If that CE# is not connected, no chip answers.
    pub fn select(&mut self, target: usize) {
        self.end_address();
        self.selected = target;
        self.before = Before::Start;
    }

    /// Sets the data interface of the host. The host sets the chip's interface separately, by SET FEATURES.
    pub fn set_interface(&mut self, interface: DataInterface) {
        self.end_address();
        self.interface = interface;
    }

    /// The data interface that the host uses.
    pub const fn interface(&self) -> DataInterface {
        self.interface
    }

    /// Current virtual time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Advances virtual time.
    pub fn advance(&mut self, time: Nanos) {
        self.end_address();
        self.now += time;
        self.check_power();
    }

    /// Rule violations so far.
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

    /// Power supply of the chips, for queries of its state.
    pub const fn power(&self) -> &Power {
        &self.power
    }

    /// Restores power; the chips and the interface are then in their power-on state.
    pub fn power_on(&mut self) {
        self.power.restore();
        self.interface = DataInterface::POWER_ON;
        self.before = Before::Start;
        self.address.clear();
    }

    /// Executes a command cycle.
    pub fn command(&mut self, opcode: u8) {
        self.end_address();
        self.now += self.interface.timing().cycle;
        self.remember(opcode);
        self.before = Before::Cmd(opcode);
        self.on_chip(|chip, at, interface| chip.command(at, interface, opcode));
        let begins = matches!(opcode, c::PROGRAM_CONFIRM | c::PROGRAM_CACHE | c::ERASE_CONFIRM);
        if begins && self.power.is_watched() {
            let operation = self.chips.get(self.selected).and_then(NandChip::last_operation);
            operation.into_iter().for_each(|(start, end)| self.power.count(start, end));
        }
    }

    /// Executes address cycles, one for each byte. The chip receives the address as a whole when a cycle of another kind follows.
    pub fn address(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.now += self.interface.timing().cycle;
            self.remember(byte);
            // The chip rejects an address that is too long, so no more bytes are stored.
            if self.address.len() <= ADDRESS_MAX {
                self.address.push(byte);
            }
        }
    }

    /// Executes data cycles to the chip with bytes of a page.
    pub fn write(&mut self, bytes: &[u8]) {
        self.data_in(bytes, 1);
    }

    /// Executes data cycles to the chip with parameters of a feature, which NV-DDR transfers twice.
    pub fn write_register(&mut self, bytes: &[u8]) {
        self.data_in(bytes, self.interface.timing().register_factor);
    }

    /// Executes data cycles from the chip with bytes of a page.
    pub fn read(&mut self, out: &mut [u8]) {
        self.data_out(out, 1);
    }

    /// Executes data cycles from the chip with status, id or parameters of a feature, which NV-DDR transfers twice.
    pub fn read_register(&mut self, out: &mut [u8]) {
        self.data_out(out, self.interface.timing().register_factor);
    }

    /// State of R/B#. A command affects it only after tWB.
    pub fn is_ready(&self) -> bool {
        self.ready_at() <= self.now
    }

    /// Waits until R/B# is high.
    pub fn wait_ready(&mut self) {
        self.end_address();
        if !matches!(self.before, Before::Ready | Before::Start) {
            self.now += self.interface.timing().wb;
        }
        self.now = self.now.max(self.ready_at().min(self.power.until));
        self.check_power();
        self.before = Before::Ready;
    }

    /// Time at which the selected chip is ready; in the past if it is ready now.
    pub fn ready_at(&self) -> Instant {
        self.chips.get(self.selected).map_or(Instant::ZERO, NandChip::ready_at)
    }

    fn data_in(&mut self, bytes: &[u8], factor: u64) {
        self.end_address();
        let timing = self.interface.timing();
        self.now += self.before.until_data_in(timing).0;
        self.on_chip(|chip, at, interface| chip.data_in(at, interface, bytes));
        self.now += timing.write(bytes.len() as u64 * factor);
        self.before = Before::Data;
    }

    fn data_out(&mut self, out: &mut [u8], factor: u64) {
        self.end_address();
        let timing = self.interface.timing();
        self.now += self.before.until_data_out(timing).0;
        // A busy chip outputs its status for each byte.
        let mut rest = out;
        while !rest.is_empty() {
            let length = if self.is_ready() { rest.len() } else { 1 };
            let (piece, later) = rest.split_at_mut(length);
            if !self.on_chip(|chip, at, interface| chip.data_out(at, interface, piece)) {
                piece.fill(UNDRIVEN);
            }
            self.now += timing.read(length as u64 * factor);
            rest = later;
        }
        self.before = Before::Data;
    }

    /// Ends the address cycles: passes the address to the chip.
    pub fn end_address(&mut self) {
        if self.address.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.address);
        self.before = Before::Addr(bytes.len() as u8);
        if bytes.len() > ADDRESS_MAX {
            let rule = Violation::Sequence("more address cycles than any address has");
            self.violations.record(self.now, &self.sent, rule);
        } else {
            self.on_chip(|chip, at, interface| chip.address(at, interface, &bytes));
        }
        self.address = bytes;
        self.address.clear();
    }

    /// Executes cycles that end now. False if no chip accepted them.
    fn on_chip(
        &mut self,
        cycles: impl FnOnce(&mut C, Instant, DataInterface) -> Result<(), Violation>,
    ) -> bool {
        if self.check_power() {
            return false;
        }
        let Some(chip) = self.chips.get_mut(self.selected) else { return false };
        match cycles(chip, self.now, self.interface) {
            Ok(()) => true,
            Err(rule) => {
                self.violations.record(self.now, &self.sent, rule);
                false
            }
        }
    }

    /// True if the chips have no power. A power cut that is due is applied first.
    fn check_power(&mut self) -> bool {
        if !self.power.is_lost() && self.now < self.power.until {
            return false;
        }
        if let Some(at) = self.power.switch_off() {
            self.chips.iter_mut().for_each(|chip| chip.power_cut(at));
        }
        true
    }

    fn remember(&mut self, byte: u8) {
        // After data or a wait a new command sequence begins.
        if matches!(self.before, Before::Start | Before::Ready | Before::Data) && self.address.is_empty() {
            self.sent.clear();
        }
        if self.sent.len() == Recorded::BYTES_MAX {
            self.sent.remove(0);
        }
        self.sent.push(byte);
    }
}
