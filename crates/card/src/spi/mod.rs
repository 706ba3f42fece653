//! SD card in SPI mode at its pins: bytes between a host's driver and the card, CS#, clock and supply.
//!
//! - `mod.rs`: [`SpiCard`], the pins. Each byte is clocked in both directions at once.
//! - `session`: state since power-on, and the bytes that the card is about to send or expects.
//! - `commands`: a frame of 6 bytes becomes a response, a block, or work on the card.
//!
//! Sources: SD Physical Layer Simplified Specification, chapter 7 (SPI mode), and its timing diagrams.
//!
//! A violation of the specification is recorded. If widely used drivers depend on it, the card then behaves like real
//! cards. Examples are CS# high inside a command, and a data token directly after the response. Clock cycles with CS#
//! high end a transfer. A write command and its busy state end when its data is on flash, so a power loss destroys no
//! data of a completed write.

mod commands;
mod session;

use crate::card::CardOptions;
use crate::fake::Fake;
use crate::registers::CardRegisters;
use crate::sdio::{Direct, IoCard};
use crate::spec::{BadSpec, CardSpec};
use crate::{BusMode, Card};
use floatgate_device::spi::Clock;
use floatgate_device::violation::{Violation, ViolationLog};
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos, SECTOR_BYTES};
use session::{Activity, Session};

/// Level of an undriven line, and of an idle host.
const UNDRIVEN: u8 = 0xFF;

/// Number of clock cycles per byte.
const BYTE_CYCLES: u32 = 8;

/// Number of clock cycles with CS# high that a card needs after power-on.
const IDLE_CYCLES: u32 = 74;

/// Minimum time from power-on to the first clock cycle.
const POWER_UP: Nanos = Nanos::from_ms(1);

/// Highest clock until the card is initialised, in Hz.
const IDENTIFICATION_HZ: u32 = 400_000;

/// Registers of the card, as bytes.
#[derive(Clone, Debug)]
struct Registers {
    csd: [u8; 16],
    cid: [u8; 16],
    scr: [u8; 8],
    ssr: [u8; 64],
    /// True if addresses count sectors instead of bytes (SDHC, SDXC).
    is_high_capacity: bool,
    /// True if the card supports high speed, 50 MHz.
    has_high_speed: bool,
    /// SDIO functions beside the memory.
    io: Option<IoCard>,
}

impl Registers {
    fn new(spec: &CardSpec) -> Result<Self, BadSpec> {
        let registers = CardRegisters::of(spec);
        let (Some(scr), Some(ssr)) = (registers.scr, registers.ssr) else {
            return Err(BadSpec { key: "bus", problem: "an eMMC has no SPI mode" });
        };
        Ok(Self {
            csd: registers.csd.emit(registers.kind),
            cid: registers.cid.emit(registers.kind),
            scr: scr.emit(),
            ssr: ssr.emit(),
            is_high_capacity: spec.stated_bytes() > crate::registers::SDSC_BYTES_MAX,
            has_high_speed: spec.bus > BusMode::Default,
            io: registers.io_function.map(IoCard::new),
        })
    }
}

/// An SD card in SPI mode and the wires to it.
///
/// ```
/// use floatgate_card::spi::SpiCard;
/// use floatgate_card::{CardOptions, CardSpec};
/// use floatgate_mtd::Nanos;
///
/// let spec: CardSpec = toml::from_str(include_str!("../../tests/small.toml"))?;
/// let mut card = SpiCard::new(&spec, CardOptions::default())?;
/// card.advance(Nanos::from_ms(1));
/// card.exchange(&mut [0xFF; 10]); // 80 clock cycles with CS# high
/// card.select();
/// let mut go_idle = [0x40, 0, 0, 0, 0, 0x95, 0xFF, 0xFF];
/// card.exchange(&mut go_idle);
/// card.deselect();
/// assert_eq!(go_idle[7], 0x01, "the card is in SPI mode, and idle");
/// assert_eq!(card.violations().count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SpiCard {
    card: Fake<Card>,
    registers: Registers,
    clock: Clock,
    /// Time from which clock cycles are counted.
    base: Instant,
    /// Number of half clock cycles since `base`.
    half_cycles: u64,
    is_selected: bool,
    /// True if power is lost.
    is_dead: bool,
    session: Session,
    violations: ViolationLog,
}

impl SpiCard {
    /// Creates a card whose power is switched on at time 0. The initial clock is 400 kHz.
    ///
    /// # Errors
    /// An impossible specification, or an eMMC, which has no SPI mode.
    pub fn new(spec: &CardSpec, options: CardOptions) -> Result<Self, BadSpec> {
        let registers = Registers::new(spec)?;
        let mut card = Fake::of_spec(spec, options)?;
        card.device_mut().leave_bus_to_host();
        Ok(Self {
            card,
            registers,
            clock: Clock::new(IDENTIFICATION_HZ),
            base: Instant::ZERO,
            half_cycles: 0,
            is_selected: false,
            is_dead: false,
            session: Session::new(Instant::ZERO, Instant::ZERO),
            violations: ViolationLog::default(),
        })
    }

    /// Current time.
    pub fn now(&self) -> Instant {
        self.base + self.clock.time(self.half_cycles)
    }

    /// Advances the time.
    pub fn advance(&mut self, time: Nanos) {
        self.rebase();
        self.base += time;
    }

    /// Sets the clock of later transfers, in Hz.
    pub fn set_clock(&mut self, hz: u32) {
        self.rebase();
        self.clock = Clock::new(hz);
    }

    /// Frequency of the clock in Hz.
    pub const fn hz(&self) -> u32 {
        self.clock.hz()
    }

    /// Violations so far, each with the time and the bytes of its command.
    pub const fn violations(&self) -> &ViolationLog {
        &self.violations
    }

    /// The card behind its pins.
    pub const fn card(&self) -> &Card {
        self.card.device()
    }

    /// Cuts power in a program or erase inside the card. `operation` counts from 1 from now on; 0 for no cut.
    pub fn cut_power(&mut self, operation: u64) {
        self.card.device_mut().order_cut(operation);
    }

    /// True if power is lost.
    pub const fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Cycles the power. The card rebuilds its map, and then needs 74 clock cycles.
    ///
    /// # Errors
    /// The card is worn out.
    pub fn power_on(&mut self) -> Result<(), BlockError> {
        self.rebase();
        let card = self.card.device_mut();
        card.cut_power();
        let recovered = card.power_on(self.base, 0);
        let ready = *recovered.as_ref().unwrap_or_else(|error| &error.at);
        self.is_dead = false;
        self.is_selected = false;
        if let Some(io) = &mut self.registers.io {
            io.direct(Direct::reset());
        }
        self.session = Session::new(self.base, ready);
        recovered.map(drop)
    }

    /// Inverts this bit of the next block that the card sends, like a disturbed line.
    pub const fn disturb_next_block(&mut self, bit: usize) {
        self.session.disturbed_bit = Some(bit);
    }

    /// Reads contents without the wires. The read takes virtual time.
    ///
    /// # Errors
    /// The errors of [`BlockDevice::read`].
    pub fn read_contents(&mut self, lba: u64, sectors: &mut [u8]) -> Result<(), BlockError> {
        let done = self.card.read(self.now(), lba, sectors);
        self.pass_until(done)
    }

    /// Writes contents without the wires. The write takes virtual time.
    ///
    /// # Errors
    /// The errors of [`BlockDevice::write`].
    pub fn write_contents(&mut self, lba: u64, sectors: &[u8]) -> Result<(), BlockError> {
        let done = self.card.write(self.now(), lba, sectors).and_then(|written| self.card.flush(written));
        self.pass_until(done)
    }

    /// Number of sectors that the card reports.
    pub fn capacity(&self) -> u64 {
        self.card.capacity()
    }

    /// Drives CS# low.
    pub const fn select(&mut self) {
        self.is_selected = true;
    }

    /// Drives CS# high. A busy card continues its work.
    pub fn deselect(&mut self) {
        if !std::mem::take(&mut self.is_selected) || self.is_dead {
            return;
        }
        if self.session.is_in_transfer() {
            self.note(CS_HIGH_INSIDE);
        }
        self.session.drop_incomplete_frame();
    }

    /// Sends bytes. Bytes that the card sends at the same time are ignored.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.clock_byte(*byte);
        }
    }

    /// Receives bytes, while the host's data line is high.
    pub fn read(&mut self, out: &mut [u8]) {
        for byte in out {
            *byte = self.clock_byte(UNDRIVEN);
        }
    }

    /// Sends and receives bytes at the same time. `bytes` contains the bytes to send, and afterwards the received
    /// bytes.
    pub fn exchange(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.clock_byte(*byte);
        }
    }

    /// Clocks a byte in both directions.
    fn clock_byte(&mut self, sent: u8) -> u8 {
        let start = self.now();
        self.half_cycles += u64::from(BYTE_CYCLES) * 2;
        if self.is_dead {
            return UNDRIVEN;
        }
        self.check_supply(start);
        if !self.is_selected {
            self.session.idle_byte(sent == UNDRIVEN);
            return UNDRIVEN;
        }
        self.session.is_answered = self.session.out.is_empty();
        let answer = self.next_byte(start);
        self.receive_byte(sent);
        answer
    }

    /// Checks that the first clock cycle after power-on is not too early.
    fn check_supply(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.session.is_clocked, true) && now < self.session.powered_at + POWER_UP
        {
            self.note(Violation::Timing("1 ms from power-on to the first clock cycle"));
        }
    }

    /// Next byte that the card sends.
    fn next_byte(&mut self, now: Instant) -> u8 {
        if let Some(byte) = self.session.out.pop_front() {
            return byte;
        }
        match &self.session.activity {
            Activity::Busy { until, .. } if now < *until => return 0,
            Activity::Busy { then, .. } => {
                self.session.activity = then.map_or(Activity::Command, Activity::Token);
            }
            Activity::Read(_) => self.send_block(now),
            Activity::Command
            | Activity::Token(_)
            | Activity::Data(..)
            | Activity::IoToken(..)
            | Activity::IoData(..) => {}
        }
        self.session.out.pop_front().unwrap_or(UNDRIVEN)
    }

    /// Processes a byte from the host.
    fn receive_byte(&mut self, sent: u8) {
        match &self.session.activity {
            Activity::Busy { .. } if sent != UNDRIVEN => self.note(Violation::Busy),
            Activity::Busy { .. } => {}
            Activity::Token(_) => self.receive_token(sent),
            Activity::Data(..) => self.receive_data(sent),
            Activity::IoToken(..) => self.receive_io_token(sent),
            Activity::IoData(..) => self.receive_io_data(sent),
            Activity::Command | Activity::Read(_) => self.receive_frame_byte(sent),
        }
    }

    /// Records a violation by the last command; each rule is recorded once per command.
    fn note(&mut self, rule: Violation) {
        if !self.session.noted.contains(&rule) {
            self.session.noted.push(rule);
            self.violations.record(self.session.frame_at, &self.session.frame, rule);
        }
    }

    /// Result of a request to the card; `None` if power was lost during it.
    fn outcome(&mut self, outcome: Result<Instant, BlockError>) -> Option<Result<Instant, BlockError>> {
        self.is_dead |= matches!(&outcome, Err(error) if error.kind == BlockErrorKind::PowerLost);
        (!self.is_dead).then_some(outcome)
    }

    fn pass_until(&mut self, done: Result<Instant, BlockError>) -> Result<(), BlockError> {
        self.rebase();
        self.base = self.base.max(*done.as_ref().unwrap_or_else(|error| &error.at));
        done.map(drop)
    }

    /// Counts clock cycles from the current time on.
    fn rebase(&mut self) {
        self.base = self.now();
        self.half_cycles = 0;
    }
}

const CS_HIGH_INSIDE: Violation =
    Violation::Sequence("CS# went high inside a command, its response or its data");

/// Size of a data block, B.
const BLOCK: usize = SECTOR_BYTES;
