//! A parallel NAND controller: parameters that convert operations to time, and chips on its bus.

use super::bus::{Address, Instr, NandBus, NandChip, NandError};
use super::chip::RawNand;
use super::command as c;
use super::timing::{BusTiming, DataInterface, Modes};
use crate::array::Array;
use crate::cells::Cells;
use crate::host::HostProfile;
use crate::oracle::{Faults, Oracle, PageTruth};
use crate::power::Power;
use crate::spi::mean_wait;
use crate::spi::profile::{DataPath, OpCost};
use crate::timeline::{Host, Resource, Span, Timeline};
use crate::units;
use floatgate_mtd::{Instant, Nanos, Phase};
use serde::Deserialize;

/// Parameters of a NAND controller.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandProfile {
    /// SDR timing modes that the controller supports.
    pub sdr_modes: Modes,
    /// NV-DDR timing modes that the controller supports.
    #[serde(default)]
    pub nvddr_modes: Modes,
    /// Cost of an operation, in addition to its time on the bus.
    #[serde(default)]
    pub op_cost: OpCost,
    /// Time for each step of an operation, in us: a descriptor of a DMA chain, or a register write. Two consecutive
    /// data steps count as one.
    #[serde(default, with = "units::us")]
    pub step_us: Nanos,
    /// Time from R/B# high until the controller (or the driver's interrupt handler) continues, in us.
    #[serde(default, with = "units::us")]
    pub ready_us: Nanos,
    /// Pause between status reads if R/B# is not wired, in us.
    #[serde(default = "poll_interval", with = "units::us")]
    pub poll_us: Nanos,
    /// Data path from chip to host.
    #[serde(default)]
    pub rx: DataPath,
    /// Data path from host to chip.
    #[serde(default)]
    pub tx: DataPath,
    /// Shortest time per byte in all SDR modes, in ns. Example: a controller core at 80 MHz that needs 5 clocks per
    /// byte takes 62.5 ns.
    #[serde(default)]
    pub sdr_ns_per_byte: ReadWriteNs,
    /// Largest number of data bytes in one operation; 0 for no limit. Longer transfers need further operations.
    #[serde(default, with = "units::bytes")]
    pub max_transfer_bytes: u64,
    /// True if the controller can issue 31h and 3Fh without an address (Linux: the `exec_op` patterns of sequential
    /// cached reads).
    #[serde(default = "yes")]
    pub cached_reads: bool,
    /// True if the driver reads the bad block markers of all blocks at probe. False if it reads the marker of a block when the
    /// block is first used (Linux: its driver sets `NAND_SKIP_BBTSCAN`), which an attach of UBI then does. `driver.bad_blocks`
    /// has priority.
    #[serde(default = "yes")]
    pub scans_markers: bool,
    /// True if the controller can program parts of a page (Linux: its driver does not set `NAND_NO_SUBPAGE_WRITE`).
    #[serde(default = "yes")]
    pub sub_page_writes: bool,
}

const fn yes() -> bool {
    true
}

/// Pause between status reads in Linux if R/B# is not connected (`nand_soft_waitrdy`): 10 us.
const fn poll_interval() -> Nanos {
    Nanos::from_us(10)
}

/// A time per byte for each direction, ns; fractions are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadWriteNs {
    /// Time per byte from the chip, in ns.
    pub read: f64,
    /// Time per byte to the chip, in ns.
    pub write: f64,
}

/// The NAND bus on the board.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NandBoard {
    /// Clock of the data cycles in Hz, if the board or the controller's clock tree limits it; 0 for no limit. A cycle
    /// transfers one byte in SDR and two bytes in NV-DDR.
    #[serde(with = "units::hz")]
    pub clock_hz: u64,
    /// Fastest interface to use; when absent, the fastest interface that chip and controller have in common.
    pub interface: Option<DataInterface>,
    /// True if R/B# is not wired, so that the driver polls the status.
    pub no_ready_pin: bool,
}

/// Times of the bus cycles in use: those of the interface, limited by clock and controller.
fn effective(interface: DataInterface, profile: &NandProfile, board: &NandBoard) -> BusTiming {
    let mut timing = *interface.timing();
    let clock_ps = 1_000_000_000_000u64.checked_div(board.clock_hz).unwrap_or(0);
    let floor = |ns: f64| (ns.clamp(0.0, 1e9) * 1e3).round() as u64;
    match interface {
        DataInterface::Sdr(_) => {
            timing.read_ps = timing.read_ps.max(clock_ps).max(floor(profile.sdr_ns_per_byte.read));
            timing.write_ps = timing.write_ps.max(clock_ps).max(floor(profile.sdr_ns_per_byte.write));
            timing.cycle = timing.cycle.max(Nanos::from_ns(clock_ps / 1000));
        }
        DataInterface::NvDdr(_) => {
            timing.read_ps = timing.read_ps.max(clock_ps / 2);
            timing.write_ps = timing.write_ps.max(clock_ps / 2);
        }
    }
    timing
}

/// A simulated controller with simulated chips on its bus, one per CE#.
#[derive(Clone, Debug)]
pub struct NandController<C> {
    profile: NandProfile,
    board: NandBoard,
    chips: Vec<C>,
    selected: usize,
    interface: DataInterface,
    timing: BusTiming,
    bus: Timeline,
    power: Power,
    /// Time from the interrupt at the end of an operation until the driver's thread continues.
    wakeup: Nanos,
}

/// Type of the previous step, on which delays depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Start,
    Cmd(u8),
    Addr(u8),
    Ready,
    Data,
}

impl Before {
    // The value is derived from the step alone. As a result of each step it would pass through memory, which takes longer
    // than the step.
    #[inline]
    fn of(instr: &Instr<'_>) -> Self {
        match instr {
            Instr::Cmd(opcode) => Self::Cmd(*opcode),
            Instr::Addr(address) => Self::Addr(address.bytes().len() as u8),
            Instr::Wait(_) => Self::Ready,
            Instr::In(_) | Instr::Out(_) | Instr::RegIn(_) | Instr::RegOut(_) => Self::Data,
        }
    }

    /// Minimum time between this step and data from the chip, with the name of the timing parameter.
    #[inline]
    pub(super) const fn until_data_out(self, t: &BusTiming) -> (Nanos, &'static str) {
        match self {
            Self::Ready => (t.rr, "tRR"),
            Self::Cmd(c::CHANGE_COLUMN_CONFIRM) => (t.ccs, "tCCS"),
            Self::Cmd(_) | Self::Addr(_) => (t.whr, "tWHR"),
            Self::Start | Self::Data => (Nanos::ZERO, ""),
        }
    }

    /// Minimum time between this step and data to the chip, with the name of the timing parameter.
    #[inline]
    pub(super) const fn until_data_in(self, t: &BusTiming) -> (Nanos, &'static str) {
        match self {
            // A column alone takes one or two cycles and is followed by tCCS; a row or a feature address is followed by
            // tADL.
            Self::Addr(2) => (t.ccs, "tCCS"),
            Self::Addr(_) => (t.adl, "tADL"),
            _ => (Nanos::ZERO, ""),
        }
    }
}

impl<C: NandChip> NandController<C> {
    /// Connects `chips` (one per CE#) to a controller on a board.
    pub fn new(profile: NandProfile, board: NandBoard, chips: Vec<C>) -> Self {
        let interface = DataInterface::POWER_ON;
        let timing = effective(interface, &profile, &board);
        Self {
            profile,
            board,
            chips,
            selected: 0,
            interface,
            timing,
            bus: Timeline::default(),
            power: Power::default(),
            wakeup: Nanos::ZERO,
        }
    }

    /// The controller on a host whose threads take this time to wake up.
    #[must_use]
    pub fn on(self, host: &HostProfile) -> Self {
        let wakeup = if self.profile.op_cost.interrupt { host.wakeup_us } else { Nanos::ZERO };
        Self { wakeup, ..self }
    }

    /// The chip behind a CE#, for access to state that drivers cannot see.
    pub fn chip(&self, target: usize) -> Option<&C> {
        self.chips.get(target)
    }

    /// Mutable access to the chip behind a CE#, to inject faults.
    pub fn chip_mut(&mut self, target: usize) -> Option<&mut C> {
        self.chips.get_mut(target)
    }

    /// Timing parameters and limits of the controller.
    pub const fn profile(&self) -> &NandProfile {
        &self.profile
    }

    /// Clock, interface and wiring of the bus on the board.
    pub const fn board(&self) -> &NandBoard {
        &self.board
    }

    /// Times of the bus cycles in the current interface mode.
    pub const fn timing(&self) -> &BusTiming {
        &self.timing
    }

    /// Power supply of chips and controller. After a power loss every operation fails with [`NandError::PowerLost`], until
    /// [`Self::power_on`].
    pub const fn power(&self) -> &Power {
        &self.power
    }

    /// Mutable access to the power supply, to cut it.
    pub const fn power_mut(&mut self) -> &mut Power {
        &mut self.power
    }

    /// Restores power. A driver must then probe the chips again.
    pub fn power_on(&mut self) {
        self.power.restore();
        self.interface = DataInterface::POWER_ON;
        self.timing = effective(self.interface, &self.profile, &self.board);
    }

    /// Cuts power if the time of a scheduled cut has come.
    #[cold]
    fn check_power(&mut self, now: Instant) -> Result<(), NandError> {
        if self.power.until > now {
            return Ok(());
        }
        if let Some(at) = self.power.switch_off() {
            self.chips.iter_mut().for_each(|chip| chip.power_cut(at));
        }
        Err(NandError::PowerLost)
    }

    /// Counts a program or erase that started, in which power may be cut.
    #[cold]
    fn count_operation(&mut self) {
        if let Some((start, end)) = self.chips.get(self.selected).and_then(NandChip::last_operation) {
            self.power.count(start, end);
        }
    }

    #[inline]
    fn run(&mut self, host: &mut Host, instrs: &mut [Instr<'_>]) -> Result<(), NandError> {
        let mut before = Before::Start;
        for instr in instrs {
            if self.power.until <= host.now() {
                self.check_power(host.now())?;
            }
            if !(before == Before::Data && matches!(instr, Instr::In(_) | Instr::Out(_))) {
                host.spend(Resource::Controller, Phase::Controller, self.profile.step_us, "step");
            }
            self.step(host, instr, before)?;
            before = Before::of(instr);
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self, host: &mut Host, instr: &mut Instr<'_>, before: Before) -> Result<(), NandError> {
        match instr {
            Instr::Cmd(opcode) => self.command(host, *opcode),
            Instr::Addr(address) => self.address(host, address),
            Instr::Wait(timeout) => self.wait(host, *timeout, before),
            Instr::In(buf) => self.data_in(host, buf, before, false),
            Instr::RegIn(buf) => self.data_in(host, buf, before, true),
            Instr::Out(bytes) => self.data_out(host, bytes, before, false),
            Instr::RegOut(bytes) => self.data_out(host, bytes, before, true),
        }
    }

    /// Occupies the bus for `length`, after the current transfer.
    #[inline]
    fn cycles(&mut self, host: &mut Host, length: Nanos, phase: Phase, what: &'static str) {
        let (start, end) = self.bus.reserve(host.now(), length);
        host.pass_until(start, Phase::Waiting);
        host.wait_until(end, Resource::Bus, phase, what);
    }

    #[inline]
    fn command(&mut self, host: &mut Host, opcode: u8) -> Result<(), NandError> {
        self.cycles(host, self.timing.cycle, Phase::Command, c::name(opcode));
        if let Some(chip) = self.chips.get_mut(self.selected) {
            chip.command(host.now(), self.interface, opcode)?;
            self.note_work(host);
            if matches!(opcode, c::PROGRAM_CONFIRM | c::PROGRAM_CACHE | c::ERASE_CONFIRM)
                && self.power.is_watched()
            {
                self.count_operation();
            }
        }
        Ok(())
    }

    #[inline]
    fn address(&mut self, host: &mut Host, address: &Address) -> Result<(), NandError> {
        let bytes = address.bytes();
        self.cycles(host, self.timing.cycle * bytes.len() as u64, Phase::Address, "address");
        if let Some(chip) = self.chips.get_mut(self.selected) {
            chip.address(host.now(), self.interface, bytes)?;
            self.note_work(host);
        }
        Ok(())
    }

    /// Records the operations that the array started.
    #[inline]
    fn note_work(&mut self, host: &mut Host) {
        if !host.is_recording() {
            return;
        }
        let Some(chip) = self.chips.get_mut(self.selected) else { return };
        let first = self.selected as u8 * chip.luns();
        for work in chip.take_work().into_iter().flatten() {
            let resource = Resource::Die(first + work.lun);
            let (start, end) = (work.start, work.end);
            host.note(Span { resource, phase: Phase::Array, start, end, what: work.what });
        }
    }

    #[inline]
    fn wait(&mut self, host: &mut Host, timeout: Nanos, before: Before) -> Result<(), NandError> {
        if !matches!(before, Before::Ready | Before::Start) {
            self.cycles(host, self.timing.wb, Phase::Dummy, "tWB");
        }
        let ready = self.chips.get(self.selected).map_or(Instant::ZERO, NandChip::ready_at);
        let cut = self.power.until;
        if cut < ready {
            host.pass_until(cut, Phase::Array);
            return self.check_power(cut);
        }
        if ready > host.now() + timeout {
            host.pass_until(host.now() + timeout, Phase::Array);
            return Err(NandError::Timeout);
        }
        if self.board.no_ready_pin {
            self.poll(host, ready, before)?;
        } else {
            host.pass_until(ready, Phase::Array);
            host.spend(Resource::Cpu, Phase::Polling, self.profile.ready_us, "ready interrupt");
        }
        Ok(())
    }

    /// Reads the status until the chip is ready. The reads that find it busy are not executed: the time of the last read is
    /// computed from the time at which the chip is ready. The last read is executed, and 00h ends status output.
    fn poll(&mut self, host: &mut Host, ready: Instant, before: Before) -> Result<(), NandError> {
        let t = self.timing;
        let op = t.cycle + t.whr + t.read(t.register_factor);
        let round = op + self.profile.poll_us;
        let first_sample = host.now() + t.cycle + t.whr;
        let last = host.now() + mean_wait(first_sample, round, ready);
        host.pass_until(ready.min(last), Phase::Array);
        host.wait_until(last, Resource::Cpu, Phase::Polling, "status polls");
        let mut status = [0];
        self.cycles(host, t.cycle, Phase::Polling, "70h");
        self.chip_command(host, c::STATUS)?;
        self.cycles(host, t.whr, Phase::Polling, "tWHR");
        if let Some(chip) = self.chips.get_mut(self.selected) {
            chip.data_out(host.now(), self.interface, &mut status)?;
        }
        self.cycles(host, t.read(t.register_factor), Phase::Polling, "status");
        // Only reads continue with data; after a program or an erase the chip stays in status output.
        if matches!(
            before,
            Before::Cmd(
                c::PROGRAM_CONFIRM
                    | c::PROGRAM_CACHE
                    | c::PROGRAM_QUEUE
                    | c::ERASE_CONFIRM
                    | c::ERASE_QUEUE
                    | c::RESET
            )
        ) {
            return Ok(());
        }
        self.cycles(host, t.cycle, Phase::Polling, "00h");
        self.chip_command(host, c::READ)
    }

    fn chip_command(&mut self, host: &Host, opcode: u8) -> Result<(), NandError> {
        match self.chips.get_mut(self.selected) {
            Some(chip) => Ok(chip.command(host.now(), self.interface, opcode)?),
            None => Ok(()),
        }
    }

    #[inline]
    fn data_in(
        &mut self,
        host: &mut Host,
        buf: &mut [u8],
        before: Before,
        register: bool,
    ) -> Result<(), NandError> {
        let (turn, rule) = before.until_data_out(&self.timing);
        self.cycles(host, turn, Phase::Dummy, rule);
        match self.chips.get_mut(self.selected) {
            Some(chip) => chip.data_out(host.now(), self.interface, buf)?,
            // No chip drives the bus, so pull-ups give ones.
            None => buf.fill(0xFF),
        }
        let len = buf.len() as u32;
        let factor = if register { self.timing.register_factor } else { 1 };
        let wire = self.timing.read(u64::from(len) * factor);
        self.transfer(host, wire, len, true);
        Ok(())
    }

    #[inline]
    fn data_out(
        &mut self,
        host: &mut Host,
        bytes: &[u8],
        before: Before,
        register: bool,
    ) -> Result<(), NandError> {
        let (turn, rule) = before.until_data_in(&self.timing);
        self.cycles(host, turn, Phase::Dummy, rule);
        if let Some(chip) = self.chips.get_mut(self.selected) {
            chip.data_in(host.now(), self.interface, bytes)?;
        }
        let len = bytes.len() as u32;
        let factor = if register { self.timing.register_factor } else { 1 };
        let wire = self.timing.write(u64::from(len) * factor);
        self.transfer(host, wire, len, false);
        Ok(())
    }

    /// Books the transfer of data on the bus and through the controller.
    #[inline]
    fn transfer(&mut self, host: &mut Host, wire: Nanos, len: u32, reading: bool) {
        self.cycles(host, wire, Phase::Data, "data");
        let path = if reading { &self.profile.rx } else { &self.profile.tx };
        let dtr = matches!(self.interface, DataInterface::NvDdr(_));
        let excess = path.excess(len, dtr, wire);
        host.spend(Resource::Cpu, Phase::Cpu, excess, "FIFO and programmed I/O");
        let limit = self.profile.max_transfer_bytes;
        if limit != 0 && u64::from(len) > limit {
            let further = (u64::from(len) - 1) / limit;
            let cost = self.profile.op_cost.setup_us + self.profile.op_cost.finish_us + self.wakeup;
            host.spend(Resource::Controller, Phase::Controller, cost * further, "further operations");
        }
        self.bus.hold_until(host.now());
    }
}

/// True if an operation takes so long that the driver's thread sleeps until its interrupt. Commands and a few register bytes end
/// before the thread is asleep.
#[inline]
fn outlasts_falling_asleep(instrs: &[Instr<'_>]) -> bool {
    instrs.iter().any(|instr| matches!(instr, Instr::Wait(_) | Instr::In(_) | Instr::Out(_)))
}

impl<C: NandChip> NandBus for NandController<C> {
    fn targets(&self) -> u8 {
        self.chips.len() as u8
    }

    #[inline]
    fn select(&mut self, target: u8) {
        self.selected = usize::from(target);
    }

    fn supports(&self, interface: DataInterface) -> bool {
        let can = match interface {
            DataInterface::Sdr(mode) => self.profile.sdr_modes.contains(mode),
            DataInterface::NvDdr(mode) => self.profile.nvddr_modes.contains(mode),
        };
        can && self.board.interface.is_none_or(|limit| interface <= limit)
    }

    fn cached_reads(&self) -> bool {
        self.profile.cached_reads
    }

    fn sub_page_writes(&self) -> bool {
        self.profile.sub_page_writes
    }

    fn interface(&self) -> DataInterface {
        self.interface
    }

    fn set_interface(&mut self, _host: &mut Host, interface: DataInterface) -> Result<(), NandError> {
        // Every controller supports mode 0, in which it starts.
        if interface != DataInterface::POWER_ON && !self.supports(interface) {
            return Err(NandError::NotSupported);
        }
        self.interface = interface;
        self.timing = effective(interface, &self.profile, &self.board);
        Ok(())
    }

    #[inline]
    fn exec(&mut self, host: &mut Host, instrs: &mut [Instr<'_>]) -> Result<(), NandError> {
        let cost = self.profile.op_cost;
        host.spend(Resource::Controller, Phase::Controller, cost.setup_us, "set-up");
        let outcome = self.run(host, instrs);
        let wakeup = if outlasts_falling_asleep(instrs) { self.wakeup } else { Nanos::ZERO };
        host.spend(Resource::Controller, Phase::Controller, cost.finish_us + wakeup, "completion");
        outcome
    }
}

impl<C: NandChip> PageTruth for NandController<C> {
    #[inline]
    fn wrong_bits(&self) -> Option<&[u32]> {
        self.chips.get(self.selected).map_or(Some(&[]), PageTruth::wrong_bits)
    }

    fn is_as_programmed(&self) -> bool {
        self.chips.get(self.selected).is_some_and(PageTruth::is_as_programmed)
    }

    fn is_erased(&self) -> bool {
        self.chips.get(self.selected).is_some_and(PageTruth::is_erased)
    }

    fn keeps_data(&self) -> bool {
        self.chips.first().is_none_or(PageTruth::keeps_data)
    }
}

impl Oracle for NandController<RawNand> {
    fn array(&self, part: usize) -> Option<&Array> {
        self.chips.get(part)?.array(0)
    }

    fn array_mut(&mut self, part: usize) -> Option<&mut Array> {
        self.chips.get_mut(part)?.array_mut(0)
    }

    fn cells(&self, part: usize) -> Option<&Cells> {
        self.chips.get(part)?.cells(0)
    }

    fn cells_mut(&mut self, part: usize) -> Option<&mut Cells> {
        self.chips.get_mut(part)?.cells_mut(0)
    }

    fn factory_bad(&self) -> Vec<u32> {
        let blocks = self.chips.first().map_or(0, |chip| chip.spec().geometry.blocks_per_target());
        let of = |(target, chip): (u32, &RawNand)| {
            chip.factory_bad().into_iter().map(move |block| target * blocks + block)
        };
        (0..).zip(&self.chips).flat_map(of).collect()
    }

    fn set_faults(&mut self, addr: u64, faults: Faults) {
        let size = self.chips.first().map_or(1, |chip| chip.spec().geometry.target_bytes());
        if let Some(chip) = self.chips.get_mut((addr / size) as usize) {
            chip.set_faults(addr % size, faults);
        }
    }
}
