//! A simulated SPI memory controller: converts operations to time by its profile, with a chip on its bus.

use super::board::clip;
use super::mem::{PollPlan, SpiError, SpiMem, mean_wait};
use super::op::{Clock, CommandShape, Data, Direction, Mode, SpiOp, Width, swap_words};
use super::phy::{PhyState, widest_eye};
use super::profile::{Divider, SpiBus, SpiProfile, Via};
use super::{SpiBoard, SpiChip, SpiMemWire, SpiWire, Transfer};
use crate::oracle::PageTruth;
use crate::power::Power;
use crate::timeline::{Host, Resource, Span, Timeline};
use floatgate_mtd::{Instant, Nanos, Phase};

/// A simulated controller with a simulated chip on its bus.
#[derive(Clone, Debug)]
pub struct SpiController<C> {
    on: SpiBoard,
    chip: C,
    bus: Timeline,
    phy: PhyState,
    /// Time up to which the chip's work has been recorded.
    noted_until: Instant,
    /// Tap under test during a calibration.
    trial_tap: Option<u16>,
    /// True if the data read last differs from the data that the chip sent.
    garbled: bool,
    power: Power,
}

impl<C: SpiChip> SpiController<C> {
    /// Connects `chip` to a controller on a board.
    pub fn new(profile: SpiProfile, board: SpiBus, chip: C) -> Self {
        Self {
            on: SpiBoard::new(profile, board),
            chip,
            bus: Timeline::default(),
            phy: PhyState::Uncalibrated,
            noted_until: Instant::ZERO,
            trial_tap: None,
            garbled: false,
            power: Power::default(),
        }
    }

    /// The chip, for access to state that drivers cannot see.
    pub const fn chip(&self) -> &C {
        &self.chip
    }

    /// Mutable access to the chip, to inject faults.
    pub const fn chip_mut(&mut self) -> &mut C {
        &mut self.chip
    }

    /// Replaces the controller by a host that sends bytes on the wires. The clock is preserved.
    pub fn into_wire(self) -> SpiWire<C> {
        SpiWire::new(self.chip, self.on.base.hz())
    }

    /// The chip behind this controller, for a host whose operations the chip may not support.
    pub fn into_mem_wire(self) -> SpiMemWire<C> {
        let on = self.on.clone();
        SpiMemWire::new(on, self.into_wire())
    }

    /// Power supply of chip and controller. After a power loss every operation fails with [`SpiError::PowerLost`], until
    /// [`Self::power_on`].
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
        self.phy = PhyState::Uncalibrated;
    }

    /// Applies the scheduled power cut to the chip.
    #[cold]
    fn lose_power(&mut self, host: &mut Host) -> SpiError {
        if let Some(at) = self.power.switch_off() {
            host.pass_until(self.chip.busy_until().min(at), Phase::Array);
            host.pass_until(at, Phase::Waiting);
            self.chip.power_cut(at);
        }
        SpiError::PowerLost
    }

    /// Counts a program or erase that the operation which ended at `end` may have started.
    #[cold]
    fn count_operation(&mut self, end: Instant) {
        let reads = matches!(self.chip.busy_what(), "tRD" | "tR");
        if self.chip.busy_since() == end && self.chip.busy_until() > end && !reads {
            self.power.count(end, self.chip.busy_until());
        }
    }

    /// Timing parameters and limits of the controller.
    pub const fn profile(&self) -> &SpiProfile {
        &self.on.profile
    }

    /// Description of the difference between the clock of `op` and the board's clock, with the reason; `None` if they are
    /// equal.
    pub fn clock_note(&self, op: &SpiOp) -> Option<String> {
        let mhz = |hz: u64| (hz as f64 / 1e4).round() / 100.0;
        let (asked, limit, profile) = (self.on.bus.clock_hz, op.max_hz, &self.on.profile);
        let limited = limit > 0 && self.on.base.hz() > limit && !self.uses_phy(op);
        let made = u64::from(if limited { self.clock(op, true).hz() } else { self.on.base.hz() });
        if made.abs_diff(asked) <= asked / 1000 {
            return None;
        }
        let says = format!("bus.clock_hz asks for {} MHz and gets {} MHz", mhz(asked), mhz(made));
        if limited {
            let chip = mhz(limit.into());
            return Some(format!(
                "{says} in {} {:02X}h: the chip takes up to {chip} MHz",
                op.mode, op.opcode
            ));
        }
        Some(match profile.divider {
            Divider::Exact => format!("{says}, the controller's fastest"),
            _ => {
                let by = (profile.reference_hz as f64 / made.max(1) as f64).round();
                let most = if asked > profile.max_hz {
                    format!("; the controller makes {} MHz at most", mhz(profile.max_hz))
                } else {
                    String::new()
                };
                let other = if self.uses_phy(op) { ", the clock of what goes without the PHY" } else { "" };
                format!("{says}: {} MHz / {by}{most}{other}", mhz(profile.reference_hz))
            }
        })
    }

    /// Result of the PHY calibration.
    pub const fn phy_state(&self) -> PhyState {
        self.phy
    }

    /// Clock of operations without a clock limit of their own.
    pub const fn base_clock(&self) -> Clock {
        self.on.base
    }

    /// Highest clock at which single-rate data is received correctly without a calibrated PHY, Hz; `None` if the profile
    /// does not describe sampling.
    pub fn untuned_hz(&self) -> Option<u32> {
        let round_trip = self.on.profile.phy.as_ref()?.round_trip_ps.max(1);
        Some(clip(1_000_000_000_000 / u64::from(round_trip)))
    }

    fn uses_phy(&self, op: &SpiOp) -> bool {
        let limit = u64::from(op.max_hz);
        self.on.bus.phy && self.on.profile.phy.as_ref().is_some_and(|p| limit == 0 || p.clock_hz <= limit)
    }

    /// Executes one operation in time, with its cost besides the bus time.
    #[inline]
    fn run(
        &mut self,
        host: &mut Host,
        op: &SpiOp,
        data: Data<'_>,
        via: Via,
        clock: Clock,
    ) -> Result<(), SpiError> {
        let Via { cost, path, .. } = via;
        host.spend(Resource::Controller, Phase::Controller, cost.setup_us, "set-up");
        let [cmd, addr, dummy, wire] = clock.phases(op);
        // If the host is too slow, it stretches the operation: CS# stays low until its FIFO is served.
        let excess = path.excess(op.len, op.mode.data.dtr, wire);
        let (start, end) = self.bus.reserve(host.now(), cmd + addr + dummy + wire + excess);
        if end > self.power.until {
            return Err(self.lose_power(host));
        }
        host.pass_until(start, Phase::Waiting);
        let refused = self.transfer(host, (start, end), clock, op, data);
        if self.power.is_watched() {
            self.count_operation(end);
        }
        if host.is_recording() {
            self.note_read_ahead(host, start, start + (cmd + addr + dummy), wire);
        }
        let name = if host.is_recording() { self.chip.command_name(op) } else { "" };
        host.spend(Resource::Bus, Phase::Command, cmd, name);
        host.spend(Resource::Bus, Phase::Address, addr, "address");
        host.spend(Resource::Bus, Phase::Dummy, dummy, "dummy");
        host.spend(Resource::Bus, Phase::Data, wire, "data");
        host.spend(Resource::Cpu, Phase::Cpu, excess, "FIFO and programmed I/O");
        host.spend(Resource::Controller, Phase::Controller, cost.finish_us, "completion");
        refused
    }

    /// Records the array reads during a continuous transfer that began at `start`; its data takes `wire` from `from` on.
    #[cold]
    fn note_read_ahead(&self, host: &mut Host, start: Instant, from: Instant, wire: Nanos) {
        let Some(ahead) = self.chip.read_ahead(start) else { return };
        let page = |n: u32| from + Nanos::from_ns(wire.as_ns() * u64::from(n) / u64::from(ahead.pages + 1));
        for n in 0..ahead.pages {
            host.note(Span {
                resource: Resource::Die(self.chip.busy_die()),
                phase: Phase::Array,
                start: page(n),
                end: (page(n) + ahead.each).min(page(n + 1)),
                what: "tRD, behind the transfer",
            });
        }
    }

    fn transfer(
        &mut self,
        host: &mut Host,
        (start, end): (Instant, Instant),
        clock: Clock,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), SpiError> {
        let transfer = |data: &[u8]| Transfer { start, end, clock, op: *op, data: data.to_vec() };
        match data {
            Data::In(buf) => {
                self.chip.exec(start, end, clock.hz(), op, Data::In(&mut *buf))?;
                self.garbled = !self.samples_right(clock, op.mode.data);
                if self.garbled {
                    garble(buf);
                }
                host.note_transfer(|| transfer(buf));
                if op.swap16 && self.chip.keeps_data() {
                    swap_words(buf);
                }
            }
            Data::Out(bytes) if op.swap16 => {
                let mut bytes = bytes.to_vec();
                swap_words(&mut bytes);
                self.chip.exec(start, end, clock.hz(), op, Data::Out(&bytes))?;
                host.note_transfer(|| transfer(&bytes));
            }
            Data::Out(bytes) => {
                self.chip.exec(start, end, clock.hz(), op, Data::Out(bytes))?;
                host.note_transfer(|| transfer(bytes));
            }
            Data::None => {
                self.chip.exec(start, end, clock.hz(), op, Data::None)?;
                host.note_transfer(|| transfer(&[]));
            }
        }
        Ok(())
    }

    /// True if data read at this clock is received correctly.
    fn samples_right(&self, clock: Clock, width: Width) -> bool {
        let Some(phy) = &self.on.profile.phy else { return true };
        let period_ps = 1_000_000_000_000 / u64::from(clock.hz());
        let bit_ps = if width.dtr { period_ps / 2 } else { period_ps };
        let tuned = clock.hz() == self.on.phy_clock.hz();
        let tap = match (self.trial_tap, self.phy) {
            (Some(tap), _) | (None, PhyState::Calibrated { tap, .. }) if tuned => Some(tap),
            _ => None,
        };
        // Without tuning the sample is taken one bit after the clock edge that launched the bit.
        let sample_ps = tap.map_or(bit_ps, |tap| phy.tap_delay_ps(tap));
        phy.samples_right(sample_ps, bit_ps)
    }

    /// Splits a data phase into pieces that are transferred at once.
    fn pieces(
        &mut self,
        host: &mut Host,
        op: &SpiOp,
        data: Data<'_>,
        via: Via,
        clock: Clock,
    ) -> Result<(), SpiError> {
        let (len, limit) = (op.len as usize, usize::try_from(via.limit).unwrap_or(usize::MAX));
        if limit == 0 || len <= limit {
            return self.run(host, op, data, via, clock);
        }
        let piece = |at: usize| SpiOp { addr: op.addr + at as u32, len: (len - at).min(limit) as u32, ..*op };
        match data {
            Data::None => self.run(host, op, Data::None, via, clock),
            Data::In(buf) => buf
                .chunks_mut(limit)
                .enumerate()
                .try_for_each(|(i, chunk)| self.run(host, &piece(i * limit), Data::In(chunk), via, clock)),
            Data::Out(buf) => buf
                .chunks(limit)
                .enumerate()
                .try_for_each(|(i, chunk)| self.run(host, &piece(i * limit), Data::Out(chunk), via, clock)),
        }
    }
}

/// Corrupts data as a sampler outside the eye does: adjacent bits are shifted into each other.
fn garble(buf: &mut [u8]) {
    let mut last = 0;
    for byte in buf {
        let this = *byte;
        *byte = this >> 1 | last << 7 ^ 0x10;
        last = this;
    }
}

impl<C: SpiChip> PageTruth for SpiController<C> {
    #[inline]
    fn wrong_bits(&self) -> Option<&[u32]> {
        if self.garbled { None } else { self.chip.wrong_bits() }
    }

    #[inline]
    fn is_as_programmed(&self) -> bool {
        self.chip.is_as_programmed()
    }

    fn is_erased(&self) -> bool {
        self.chip.is_erased()
    }

    #[inline]
    fn keeps_data(&self) -> bool {
        self.chip.keeps_data()
    }
}

impl<C: SpiChip> SpiMem for SpiController<C> {
    fn supports(&self, mode: Mode) -> bool {
        self.on.supports(mode)
    }

    fn shapes(&self, opcode: u8) -> Vec<CommandShape> {
        self.chip.shapes(opcode)
    }

    fn swaps_words(&self) -> bool {
        self.on.profile.swap16
    }

    fn has_reset_pin(&self) -> bool {
        self.on.bus.reset_pin
    }

    fn mode_asked(&self) -> Option<Mode> {
        self.on.bus.mode
    }

    fn mode_limit(&self) -> Option<Mode> {
        self.on.bus.mode.or(self.on.bus.max_mode)
    }

    fn max_transfer(&self) -> usize {
        self.on.max_transfer()
    }

    fn max_mapped(&self, direction: Direction) -> usize {
        self.on.max_mapped(direction)
    }

    fn clock(&self, op: &SpiOp, mapped: bool) -> Clock {
        if mapped && self.uses_phy(op) {
            return self.on.phy_clock;
        }
        self.on.plain_clock(op.max_hz)
    }

    #[inline]
    fn exec(&mut self, host: &mut Host, op: &SpiOp, data: Data<'_>) -> Result<(), SpiError> {
        if !self.supports(op.mode) {
            return Err(SpiError::NotSupported);
        }
        let clock = self.clock(op, false);
        self.pieces(host, op, data, self.on.profile.via(op.dir, false), clock)
    }

    #[inline]
    fn mapped(&mut self, host: &mut Host, op: &SpiOp, data: Data<'_>) -> Result<(), SpiError> {
        if !self.supports(op.mode) {
            return Err(SpiError::NotSupported);
        }
        let clock = self.clock(op, true);
        let mut via = self.on.profile.via(op.dir, true);
        if self.uses_phy(op) {
            via.cost.setup_us += self.on.profile.phy.as_ref().map_or(Nanos::ZERO, |phy| phy.switch_us);
        }
        self.pieces(host, op, data, via, clock)
    }

    /// Polls the status. The operations that find the chip busy are not executed: the time of the last one is computed
    /// from the time at which the chip is ready. The last operation is executed.
    fn poll(
        &mut self,
        host: &mut Host,
        op: &SpiOp,
        mask: u8,
        value: u8,
        plan: PollPlan,
    ) -> Result<u8, SpiError> {
        let start = host.now();
        let ready = self.chip.busy_until();
        self.note_work(host, ready.min(start + plan.timeout).min(self.power.until));
        let clock = self.clock(op, false);
        let cost = self.on.profile.exec;
        let op_time = cost.setup_us + clock.duration(op);
        let round = op_time + cost.finish_us + plan.interval;
        let first = start + plan.initial;
        // The status is sampled at the end of the operation.
        let wait = mean_wait(first + op_time, round, ready);
        let timeout = plan.initial + wait > plan.timeout;
        let last = first + wait;
        let over = if timeout { start + plan.timeout } else { last + op_time };
        if over > self.power.until {
            return Err(self.lose_power(host));
        }
        if timeout {
            host.pass_until(start + plan.timeout, Phase::Polling);
            return Err(SpiError::Timeout);
        }
        host.pass_until(ready.min(last), Phase::Array);
        host.wait_until(last, Resource::Cpu, Phase::Polling, "sleep and status polls");
        self.last_poll(host, op, mask, value, ready)
    }

    fn pulse_reset(&mut self, host: &mut Host) {
        if self.on.bus.reset_pin {
            // If the host's clock was restarted, it must not be earlier than the last bus activity.
            self.chip.reset_pin(host.now().max(self.bus.busy_until()));
        }
    }

    fn wants_phy(&self) -> bool {
        self.on.bus.phy
    }

    fn phy_hz(&self) -> Option<u32> {
        self.on.profile.phy.as_ref().filter(|_| self.on.bus.phy).map(|_| self.on.phy_clock.hz())
    }

    fn plain_time(&self, op: &SpiOp) -> Nanos {
        let cost = self.on.profile.exec;
        cost.setup_us + self.clock(op, false).duration(op) + cost.finish_us
    }

    fn calibrate(&mut self, host: &mut Host, op: &SpiOp, pattern: &[u8]) -> Result<PhyState, SpiError> {
        let Some(phy) = self.on.profile.phy.clone() else { return Err(SpiError::NoPhy) };
        let mut got = vec![0; pattern.len()];
        let mut good = Vec::with_capacity(usize::from(phy.taps));
        for tap in 0..phy.taps {
            self.trial_tap = Some(tap);
            // A chip in timing-only mode leaves the buffer unchanged; the effect of a sampler outside the eye is still
            // applied.
            got.copy_from_slice(pattern);
            let outcome = self.mapped(host, op, Data::In(&mut got));
            good.push(outcome.is_ok() && got == pattern);
        }
        self.trial_tap = None;
        let eye = widest_eye(good.into_iter());
        let taps = eye.map_or(0, |(from, to)| to - from + 1);
        match eye {
            Some((from, to)) if taps >= phy.min_eye_taps => {
                self.phy = PhyState::Calibrated { tap: from + (to - from) / 2, eye: (from, to) };
                Ok(self.phy)
            }
            _ => Err(SpiError::NoEye { taps, needed: phy.min_eye_taps, hz: self.on.phy_clock.hz() }),
        }
    }
}

impl<C: SpiChip> SpiController<C> {
    /// Records the chip's work up to `end`, from its start or from the last recorded time.
    #[inline]
    fn note_work(&mut self, host: &mut Host, end: Instant) {
        if !host.is_recording() {
            return;
        }
        let resource = Resource::Die(self.chip.busy_die());
        let (start, what) = (self.chip.busy_since().max(self.noted_until), self.chip.busy_what());
        host.note(Span { resource, phase: Phase::Array, start, end, what });
        self.noted_until = self.noted_until.max(end);
    }

    /// Executes the status operation that finds the chip ready. Its time is booked as polling, except for the part in
    /// which the array is still busy.
    fn last_poll(
        &mut self,
        host: &mut Host,
        op: &SpiOp,
        mask: u8,
        value: u8,
        ready: Instant,
    ) -> Result<u8, SpiError> {
        let clock = self.clock(op, false);
        let cost = self.on.profile.exec;
        let (start, end) = self.bus.reserve(host.now() + cost.setup_us, clock.duration(op));
        let mut status = [0; 2];
        let bytes = &mut status[..(op.len as usize).min(2)];
        let outcome = self.chip.exec(start, end, clock.hz(), op, Data::In(bytes));
        host.note_transfer(|| Transfer { start, end, clock, op: *op, data: bytes.to_vec() });
        host.note(Span { resource: Resource::Bus, phase: Phase::Polling, start, end, what: "status" });
        host.pass_until(ready.min(end), Phase::Array);
        host.pass_until(end + cost.finish_us, Phase::Polling);
        outcome?;
        if status[0] & mask == value { Ok(status[0]) } else { Err(SpiError::Timeout) }
    }
}
