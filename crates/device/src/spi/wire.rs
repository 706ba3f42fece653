//! A SPI chip at its pins: bytes under chip select, on any number of lanes, for hosts that send single bytes.
//!
//! The chip reports the forms of a command in its current bus mode ([`SpiChip::shapes`]). The bytes of a window, from CS# low to
//! CS# high, are matched with these forms as they arrive, and become one operation of the chip. A real chip would ignore an invalid
//! command or corrupt data. Here the violation is recorded, and the host reads FFh, as from undriven lines.

use super::{Clock, CmdExt, CommandShape, Data, Direction, Mode, ReadOn, SpiChip, SpiOp, Width};
use crate::power::Power;
use crate::violation::{Recorded, Violation, ViolationLog};
use floatgate_mtd::{Instant, Nanos};

/// Value of undriven data lines.
const UNDRIVEN: u8 = 0xFF;

/// Maximum number of bytes stored for one write. It exceeds the page of any chip, so that the chip rejects longer writes.
const WRITE_MAX: usize = 64 << 10;

/// A SPI chip with the wires to it.
#[derive(Clone, Debug)]
pub struct SpiWire<C> {
    chip: C,
    clock: Clock,
    /// Start of the current CS# window.
    start: Instant,
    /// Time from which clock cycles are counted.
    base: Instant,
    /// Number of half clock cycles since `base`.
    half_cycles: u64,
    phase: Phase,
    /// Opcode of the command; it is needed until the form of the command is known.
    opcode: u8,
    ext: CmdExt,
    forms: Vec<Form>,
    /// Bytes that the host has written, or bytes that the chip will send.
    data: Vec<u8>,
    /// First bytes that the host sent in this window.
    sent: Vec<u8>,
    power: Power,
    violations: ViolationLog,
}

/// State of a CS# window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// CS# is high.
    Deselected,
    /// The command byte is expected.
    Opcode,
    /// The second command byte of 8D-8D-8D is expected.
    Extension,
    /// Address, dummy cycles or the first byte of data is expected.
    Header,
    /// The chip drives the lines and has sent `done` bytes.
    Read { op: SpiOp, done: u32 },
    /// The host sends data.
    Write { op: SpiOp },
    /// The chip ignores the remaining part of the window.
    Ignored,
}

/// A form of the command that matches the bytes received so far.
#[derive(Clone, Copy, Debug)]
struct Form {
    shape: CommandShape,
    addr: u32,
    addr_left: u8,
    /// Number of half clock cycles of dummies that remain.
    dummy_left: u64,
}

impl Form {
    fn new(shape: CommandShape) -> Self {
        let dummy_left = u64::from(shape.dummy_cycles) * 2;
        Self { shape, addr: 0, addr_left: shape.addr_bytes, dummy_left }
    }

    /// True if the header is complete: data or the end of the window is next.
    const fn is_complete(&self) -> bool {
        self.addr_left == 0 && self.dummy_left == 0
    }

    /// Processes a byte of the header. False if the byte does not match this form.
    fn shift_in(&mut self, width: Width, byte: u8) -> bool {
        if self.addr_left > 0 {
            self.addr = self.addr << 8 | u32::from(byte);
            self.addr_left -= 1;
            return width == self.shape.mode.addr;
        }
        self.shift_dummies(width.half_cycles(1))
    }

    /// Processes clock cycles whose data is ignored.
    const fn shift_dummies(&mut self, half_cycles: u64) -> bool {
        if self.addr_left > 0 || half_cycles > self.dummy_left {
            return false;
        }
        self.dummy_left -= half_cycles;
        true
    }

    const fn op(&self, opcode: u8, ext: CmdExt) -> SpiOp {
        let CommandShape { mode, addr_bytes, dummy_cycles, dir } = self.shape;
        SpiOp { opcode, ext, addr: self.addr, addr_bytes, dummy_cycles, dir, ..SpiOp::command(opcode) }
            .mode(mode)
    }
}

impl<C: SpiChip> SpiWire<C> {
    /// Connects a chip with a clock of `hz`; time begins at 0.
    pub fn new(chip: C, hz: u32) -> Self {
        Self {
            chip,
            clock: Clock::new(hz),
            start: Instant::ZERO,
            base: Instant::ZERO,
            half_cycles: 0,
            phase: Phase::Deselected,
            opcode: 0,
            ext: CmdExt::Repeat,
            forms: Vec::new(),
            data: Vec::new(),
            sent: Vec::new(),
            power: Power::default(),
            violations: ViolationLog::default(),
        }
    }

    /// The chip, for access to state that a host cannot see.
    pub const fn chip(&self) -> &C {
        &self.chip
    }

    /// Mutable access to the chip, to inject faults.
    pub const fn chip_mut(&mut self) -> &mut C {
        &mut self.chip
    }

    /// Current virtual time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.base + self.clock.time(self.half_cycles)
    }

    /// Advances virtual time.
    pub fn advance(&mut self, time: Nanos) {
        self.rebase();
        self.base += time;
        self.check_power();
    }

    /// Sets the clock of the following bytes, Hz.
    pub fn set_clock(&mut self, hz: u32) {
        self.rebase();
        self.clock = Clock::new(hz);
    }

    /// Frequency of the clock in Hz.
    pub const fn hz(&self) -> u32 {
        self.clock.hz()
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

    /// Power supply of the chip, for queries of its state.
    pub const fn power(&self) -> &Power {
        &self.power
    }

    /// Restores power; the chip is then in its power-on state. An open CS# window is ended.
    pub fn power_on(&mut self) {
        self.power.restore();
        self.rebase();
        self.phase = Phase::Deselected;
    }

    /// Drives CS# low. A window that is still open is ended first.
    pub fn select(&mut self) {
        self.deselect();
        self.phase = Phase::Opcode;
        self.start = self.base;
        self.sent.clear();
        self.data.clear();
    }

    /// Drives CS# high; the chip executes the command of the window.
    pub fn deselect(&mut self) {
        let outcome = match self.phase {
            Phase::Extension => Err(CUT_SHORT),
            Phase::Header => self.execute_without_data(),
            Phase::Write { op } => {
                let data = std::mem::take(&mut self.data);
                let outcome = self.execute(&SpiOp { len: data.len() as u32, ..op }, Data::Out(&data));
                self.data = data;
                outcome
            }
            Phase::Deselected | Phase::Opcode | Phase::Read { .. } | Phase::Ignored => Ok(()),
        };
        self.note(outcome);
        self.phase = Phase::Deselected;
        self.rebase();
        self.check_power();
    }

    /// Sends bytes; bytes that the chip sends at the same time are ignored.
    pub fn write(&mut self, width: Width, bytes: &[u8]) {
        self.remember(bytes);
        let mut at = 0;
        while at < bytes.len() {
            at += self.clock_bytes(width, &bytes[at..], None);
        }
    }

    /// Receives bytes; the host does not drive its lines.
    pub fn read(&mut self, width: Width, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            at += self.clock_bytes(width, &[], Some(&mut out[at..]));
        }
    }

    /// Sends and receives bytes at the same time, on one lane for each direction. `bytes` contains the bytes to send, and
    /// afterwards the received bytes.
    pub fn exchange(&mut self, bytes: &mut [u8]) {
        let sent = bytes.to_vec();
        self.remember(&sent);
        let mut at = 0;
        while at < sent.len() {
            at += self.clock_bytes(Width::X1, &sent[at..], Some(&mut bytes[at..]));
        }
    }

    /// Sends dummy clock cycles; their number need not form whole bytes. In the data phase the bytes of these cycles are lost.
    pub fn dummy(&mut self, cycles: u32) {
        let half_cycles = u64::from(cycles) * 2;
        let of_header =
            self.phase == Phase::Header && self.forms.iter().any(|form| form.dummy_left >= half_cycles);
        if of_header {
            self.forms.retain_mut(|form| form.shift_dummies(half_cycles));
            self.ignore_without_forms();
        } else if let Some(width) = self.width_of_data() {
            let mut bytes = half_cycles / width.half_cycles(1).max(1);
            while bytes > 0 {
                let lost = &mut [0; 512][..bytes.min(512) as usize];
                self.read(width, lost);
                bytes -= lost.len() as u64;
            }
            return;
        }
        self.half_cycles += half_cycles;
    }

    /// Width of the data that the chip sends next; `None` if it sends no data.
    fn width_of_data(&self) -> Option<Width> {
        match self.phase {
            Phase::Read { op, .. } => Some(op.mode.data),
            Phase::Header => {
                let sends = |form: &&Form| form.is_complete() && form.shape.dir == Direction::In;
                self.forms.iter().find(sends).map(|form| form.shape.mode.data)
            }
            _ => None,
        }
    }

    /// Executes a whole CS# window on a single lane: sends bytes to the chip, then receives bytes.
    pub fn transfer(&mut self, sent: &[u8], received: &mut [u8]) {
        self.select();
        self.write(Width::X1, sent);
        self.read(Width::X1, received);
        self.deselect();
    }

    /// Transfers bytes of one phase of the command, and returns their number. Without `input`, bytes from the chip are dropped;
    /// without `sent`, the host sends nothing.
    fn clock_bytes(&mut self, width: Width, sent: &[u8], input: Option<&mut [u8]>) -> usize {
        let length = input.as_ref().map_or(sent.len(), |input| input.len());
        if self.phase == Phase::Header
            && let Some(at) = self.form_with_data(width)
        {
            return self.begin_data(at, width, length, sent, input);
        }
        match self.phase {
            Phase::Opcode | Phase::Extension | Phase::Header => {
                self.shift_header(width, sent.first().copied().unwrap_or(UNDRIVEN));
                self.half_cycles += width.half_cycles(1);
                fill(input, 1);
                return 1;
            }
            Phase::Read { op, done } => {
                let outcome =
                    self.with_buffer(input, length, |wire, out| wire.read_piece(&op, done, width, out));
                match outcome {
                    Ok(()) => self.phase = Phase::Read { op, done: done.saturating_add(length as u32) },
                    Err(rule) => self.ignore(rule),
                }
            }
            Phase::Write { .. } => {
                self.collect(sent, length);
                self.half_cycles += width.half_cycles(length as u64);
                fill(input, length);
            }
            Phase::Deselected | Phase::Ignored => {
                self.half_cycles += width.half_cycles(length as u64);
                fill(input, length);
            }
        }
        length
    }

    /// The first form whose data phase begins now.
    fn form_with_data(&self, width: Width) -> Option<usize> {
        let begins = |form: &Form| {
            form.is_complete() && (form.shape.dir == Direction::None || form.shape.mode.data == width)
        };
        self.forms.iter().position(begins)
    }

    /// Starts the data phase of a form, unless the chip rejects it; in that case the bytes belong to the header of another form.
    fn begin_data(
        &mut self,
        at: usize,
        width: Width,
        length: usize,
        sent: &[u8],
        input: Option<&mut [u8]>,
    ) -> usize {
        let op = self.forms[at].op(self.opcode, self.ext);
        let outcome = match op.dir {
            Direction::None => Err(Violation::WrongMode(self.opcode)),
            Direction::Out => {
                self.phase = Phase::Write { op };
                return self.clock_bytes(width, sent, input);
            }
            Direction::In => {
                let before = self.half_cycles;
                let outcome =
                    self.with_buffer(input, length, |wire, out| wire.read_piece(&op, 0, width, out));
                if outcome.is_err() {
                    self.half_cycles = before;
                }
                outcome
            }
        };
        match outcome {
            Ok(()) => {
                self.phase = Phase::Read { op, done: length as u32 };
                length
            }
            Err(rule) => {
                self.forms.remove(at);
                if self.forms.is_empty() {
                    self.ignore(rule);
                }
                0
            }
        }
    }

    /// Calls `read` with the host's buffer, or with a temporary one. After an error the buffer contains the value of undriven
    /// lines.
    fn with_buffer(
        &mut self,
        input: Option<&mut [u8]>,
        length: usize,
        read: impl FnOnce(&mut Self, &mut [u8]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let Some(out) = input else { return read(self, &mut vec![0; length]) };
        let outcome = read(self, out);
        if outcome.is_err() {
            out.fill(UNDRIVEN);
        }
        outcome
    }

    /// Reads the bytes of a data phase after the first `done` bytes.
    fn read_piece(&mut self, op: &SpiOp, done: u32, width: Width, out: &mut [u8]) -> Result<(), Violation> {
        let length = out.len() as u32;
        match self.chip.read_on(op) {
            ReadOn::Register => self.read_register(op, width, out),
            ReadOn::Address => {
                self.half_cycles += width.half_cycles(length.into());
                let addr = op.addr.checked_add(done).ok_or(Violation::BadAddress)?;
                self.execute(&SpiOp { addr, len: length, ..*op }, Data::In(out))
            }
            ReadOn::Bytes(most) => {
                self.half_cycles += width.half_cycles(length.into());
                if done == 0 {
                    self.choose_bytes(op, length.max(most))?;
                }
                let rest = self.data.get(done as usize..).unwrap_or_default();
                let chosen = rest.get(..out.len()).ok_or(Violation::BadAddress)?;
                out.copy_from_slice(chosen);
                Ok(())
            }
        }
    }

    /// Stores the bytes that the chip sends in this window.
    fn choose_bytes(&mut self, op: &SpiOp, length: u32) -> Result<(), Violation> {
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        data.resize(length as usize, 0);
        let outcome = self.execute(&SpiOp { len: length, ..*op }, Data::In(&mut data));
        self.data = data;
        outcome
    }

    /// Reads a register again for each byte while the chip is busy.
    fn read_register(&mut self, op: &SpiOp, width: Width, out: &mut [u8]) -> Result<(), Violation> {
        let unit = if width.lanes == 8 && width.dtr { 2 } else { 1 };
        let mut at = 0;
        while at < out.len() {
            let idle = self.chip.busy_until() <= self.now();
            let length = if idle { out.len() - at } else { unit.min(out.len() - at) };
            self.half_cycles += width.half_cycles(length as u64);
            self.execute(&SpiOp { len: length as u32, ..*op }, Data::In(&mut out[at..at + length]))?;
            at += length;
        }
        Ok(())
    }

    /// Executes an operation that ends now.
    fn execute(&mut self, op: &SpiOp, data: Data<'_>) -> Result<(), Violation> {
        let end = self.now();
        if self.check_power() {
            return Err(Violation::NoPower);
        }
        self.chip.exec(self.start, end, self.clock.hz(), op, data)?;
        let reads = matches!(self.chip.busy_what(), "tRD" | "tR");
        if self.power.is_watched() && self.chip.busy_since() == end && self.chip.busy_until() > end && !reads
        {
            self.power.count(end, self.chip.busy_until());
        }
        Ok(())
    }

    /// Ends a window without data.
    fn execute_without_data(&mut self) -> Result<(), Violation> {
        let Some(form) = self.forms.iter().find(|form| form.is_complete()) else { return Err(CUT_SHORT) };
        let op = form.op(self.opcode, self.ext);
        match op.dir {
            Direction::None => self.execute(&op, Data::None),
            Direction::Out => self.execute(&op, Data::Out(&[])),
            Direction::In => Ok(()),
        }
    }

    /// True if the chip has no power. A power cut that is due is applied first.
    fn check_power(&mut self) -> bool {
        if !self.power.is_lost() && self.now() <= self.power.until {
            return false;
        }
        if let Some(at) = self.power.switch_off() {
            self.chip.power_cut(at);
        }
        true
    }

    /// Processes the command byte, or a byte between it and the data.
    fn shift_header(&mut self, width: Width, byte: u8) {
        match self.phase {
            Phase::Opcode => {
                self.opcode = byte;
                self.ext = CmdExt::Repeat;
                let begins = |mode: Mode| mode.cmd == width;
                let shapes = self.chip.shapes(byte);
                self.forms.clear();
                self.forms.extend(shapes.iter().copied().filter(|s| begins(s.mode)).map(Form::new));
                let is_octal_dtr = width.lanes == 8 && width.dtr;
                self.phase = if is_octal_dtr { Phase::Extension } else { Phase::Header };
                if shapes.is_empty() {
                    self.ignore(Violation::UnknownCommand(byte));
                }
            }
            Phase::Extension if self.chip.takes_row_in_command(self.opcode) => {
                self.ext = CmdExt::Row(byte);
                self.phase = Phase::Header;
            }
            Phase::Extension if byte == self.opcode => self.phase = Phase::Header,
            Phase::Extension if byte == !self.opcode => {
                self.ext = CmdExt::Invert;
                self.phase = Phase::Header;
            }
            Phase::Extension => self.ignore(Violation::UnknownCommand(self.opcode)),
            _ => self.forms.retain_mut(|form| form.shift_in(width, byte)),
        }
        self.ignore_without_forms();
    }

    fn ignore_without_forms(&mut self) {
        if self.forms.is_empty() && matches!(self.phase, Phase::Extension | Phase::Header) {
            self.ignore(Violation::WrongMode(self.opcode));
        }
    }

    /// Makes the chip ignore the remaining part of the window, and records the violation.
    fn ignore(&mut self, rule: Violation) {
        self.note(Err(rule));
        self.phase = Phase::Ignored;
    }

    fn note(&mut self, outcome: Result<(), Violation>) {
        match outcome {
            // A chip without power cannot report a violated rule.
            Ok(()) | Err(Violation::NoPower) => {}
            Err(rule) => self.violations.record(self.start, &self.sent, rule),
        }
    }

    fn remember(&mut self, bytes: &[u8]) {
        let room = Recorded::BYTES_MAX.saturating_sub(self.sent.len());
        self.sent.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn collect(&mut self, sent: &[u8], length: usize) {
        let room = WRITE_MAX.saturating_sub(self.data.len());
        self.data.extend_from_slice(&sent[..sent.len().min(room)]);
        if sent.is_empty() {
            self.data.resize(self.data.len() + length.min(room), UNDRIVEN);
        }
    }

    /// Counts clock cycles from the current time on.
    fn rebase(&mut self) {
        self.base = self.now();
        self.half_cycles = 0;
    }
}

const CUT_SHORT: Violation = Violation::Sequence("CS# went high before the command was complete");

fn fill(input: Option<&mut [u8]>, length: usize) {
    if let Some(input) = input {
        input[..length].fill(UNDRIVEN);
    }
}
