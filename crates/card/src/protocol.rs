//! A card on its four or eight data lines, as commands and states: what a host driver meets before its first block, and around each.
//!
//! - [`Protocol`] takes a command with its argument, checks that the state allows it, and answers as the card does.
//! - [`Protocol::bring_up`] is a host that goes from power-on to the fastest mode, with each command, answer and state.
//!
//! SD: identification, voltage switch, selection, CMD6, tuning, transfers with CMD12 or CMD23 (SD Physical Layer Simplified Specification,
//! chapters 4.2 to 4.8). A card with SDIO functions has CMD5, CMD52 and CMD53, too (`sdio`). eMMC: identification, EXT_CSD, CMD6 as a
//! write to EXT_CSD (JESD84-B51, chapters 6.4 to 6.6). Bits of commands and CRC are not part of it; `spi` has them for SPI mode.

use crate::bus::BusMode;
use crate::card::{Card, CardOptions};
use crate::fake::Fake;
use crate::registers::{CardRegisters, SDSC_BYTES_MAX};
use crate::sdio::{Direct, Extended, IoBus, IoCard, IoView, flag};
use crate::spec::{BadSpec, CardSpec};
use floatgate_media::sd::CardType;
use floatgate_mtd::{BlockDevice, BlockError, Instant, SECTOR_BYTES};
use serde::Serialize;

/// State of a card, with the number that its status has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusState {
    /// After power-on and CMD0.
    Idle = 0,
    /// The operating conditions are agreed.
    Ready = 1,
    /// The card has sent its CID.
    Identification = 2,
    /// It has an address.
    Standby = 3,
    /// It is selected.
    Transfer = 4,
    /// It sends blocks.
    SendingData = 5,
    /// It receives blocks.
    ReceiveData = 6,
}

impl BusState {
    /// Name of the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Identification => "ident",
            Self::Standby => "stby",
            Self::Transfer => "tran",
            Self::SendingData => "data",
            Self::ReceiveData => "rcv",
        }
    }
}

/// Answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The card does not answer: CMD0, or a command that its state does not allow.
    Silence,
    /// Card status (R1), also with busy (R1b).
    Status(u32),
    /// CID or CSD (R2).
    Register([u8; 16]),
    /// Operating conditions (R3).
    Conditions(u32),
    /// Address and a part of the status (R6).
    Address(u32),
    /// Voltage and pattern of CMD8 (R7).
    Voltage(u32),
    /// Card status, and a block with a register: SCR, SSR, EXT_CSD, status of CMD6, tuning block.
    Block(u32, Vec<u8>),
    /// Operating conditions and number of SDIO functions (R4).
    IoConditions(u32),
    /// Flags and data of CMD52 or CMD53 (R5).
    Io(u8, u8),
    /// Flags of CMD53 (R5), and the bytes that it reads.
    IoBlock(u8, Vec<u8>),
}

impl Answer {
    /// The answer in words and hexadecimal digits.
    pub fn text(&self) -> String {
        match self {
            Self::Silence => "none".to_owned(),
            Self::Status(status) => format!("R1 {status:#010x}"),
            Self::Register(bytes) => {
                format!("R2 {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
            Self::Conditions(ocr) => format!("R3 {ocr:#010x}"),
            Self::Address(bits) => format!("R6 {bits:#010x}"),
            Self::Voltage(bits) => format!("R7 {bits:#010x}"),
            Self::Block(status, bytes) => format!("R1 {status:#010x}, and {} bytes", bytes.len()),
            Self::IoConditions(ocr) => format!("R4 {ocr:#010x}"),
            Self::Io(flags, data) => format!("R5 {:#06x}", u16::from(*flags) << 8 | u16::from(*data)),
            Self::IoBlock(flags, bytes) => {
                let digits: String = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                format!("R5 {:#06x}, and {} bytes: {digits}", u16::from(*flags) << 8, bytes.len())
            }
        }
    }
}

/// A command of a host that brings up a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Command: CMD or ACMD with its number.
    pub command: String,
    /// Argument of 32 bits.
    pub argument: u32,
    /// Answer in words.
    pub answer: String,
    /// State behind the command.
    pub state: BusState,
    /// Purpose of the command.
    pub purpose: &'static str,
}

/// Voltages of the operating conditions: 2.7 to 3.6 V.
const OCR_VOLTAGES: u32 = 0x00FF_8000;
/// The card has ended its initialisation.
const OCR_READY: u32 = 1 << 31;
/// High capacity; of an eMMC, addresses of sectors.
const OCR_CAPACITY: u32 = 1 << 30;
/// Signals of 1.8 V: asked for (S18R) and accepted (S18A).
const OCR_LOW_VOLTAGE: u32 = 1 << 24;
/// UHS-II card status: a card with a second row of contacts.
const OCR_UHS_II: u32 = 1 << 29;
/// Status bit: the command is not one of this state.
const ILLEGAL_COMMAND: u32 = 1 << 22;
/// Status bit: an address behind the end.
const OUT_OF_RANGE: u32 = 1 << 31;
/// Status bit: CMD6 of an eMMC was refused.
const SWITCH_ERROR: u32 = 1 << 7;
/// Status bits: ready for data, and the next command is an ACMD.
const READY_FOR_DATA: u32 = 1 << 8;
const APP_CMD: u32 = 1 << 5;
/// Address that an SD card gives itself, and that a host gives an eMMC.
const ADDRESS: u32 = 0x0001_0000;
/// ACMD41 and CMD1 that find the card still busy.
const BUSY_POLLS: u32 = 1;

/// A card and the state of its interface.
#[derive(Clone, Debug)]
pub struct Protocol {
    card: Fake<Card>,
    registers: CardRegisters,
    is_high_capacity: bool,
    fastest: BusMode,
    state: BusState,
    /// CMD8 was sent: the host knows cards of version 2.
    knows_version_2: bool,
    is_application: bool,
    polls: u32,
    is_low_voltage: bool,
    /// The card has agreed to 1.8 V, and CMD11 comes next.
    may_switch_voltage: bool,
    lines: u8,
    mode: BusMode,
    /// Errors of the last commands, until a status has told them.
    errors: u32,
    /// Blocks that CMD23 announced for the next transfer.
    announced: Option<u32>,
    /// Next sector of a transfer, and the blocks that are left where the number is known.
    transfer: Option<(u64, Option<u32>)>,
    /// SDIO functions beside the memory, and a write by CMD53 that awaits its data.
    io: Option<IoCard>,
    io_write: Option<Extended>,
}

impl Protocol {
    /// A card after power-on.
    ///
    /// # Errors
    /// A specification that no card can have.
    pub fn new(spec: &CardSpec, options: CardOptions) -> Result<Self, BadSpec> {
        Ok(Self::before(spec, Fake::of_spec(spec, options)?))
    }

    /// A card after power-on with the registers of the specification and a memory in small, for what comes before the first block.
    ///
    /// # Errors
    /// A specification that no card can have in small.
    pub fn in_small(spec: &CardSpec, options: CardOptions) -> Result<Self, BadSpec> {
        Ok(Self::before(spec, Fake::of_spec(&spec.in_small(), options)?))
    }

    fn before(spec: &CardSpec, card: Fake<Card>) -> Self {
        Self {
            card,
            registers: CardRegisters::of(spec),
            is_high_capacity: spec.stated_bytes() > SDSC_BYTES_MAX,
            fastest: spec.host.bus.map_or(spec.bus, |host| spec.bus.min(host)),
            state: BusState::Idle,
            knows_version_2: false,
            is_application: false,
            polls: 0,
            is_low_voltage: false,
            may_switch_voltage: false,
            lines: 1,
            mode: BusMode::Default,
            errors: 0,
            announced: None,
            transfer: None,
            io: CardRegisters::of(spec).io_function.map(IoCard::new),
            io_write: None,
        }
    }

    /// Present state.
    pub const fn state(&self) -> BusState {
        self.state
    }

    /// Mode of the interface.
    pub const fn mode(&self) -> BusMode {
        self.mode
    }

    /// Data lines in use.
    pub const fn lines(&self) -> u8 {
        self.lines
    }

    /// True when signals have 1.8 V.
    pub const fn is_low_voltage(&self) -> bool {
        self.is_low_voltage
    }

    fn is_mmc(&self) -> bool {
        self.registers.kind == CardType::Mmc
    }

    const fn is_uhs(&self) -> bool {
        self.fastest.has_uhs()
    }

    /// Card status; it tells each error once.
    fn status(&mut self) -> u32 {
        let errors = std::mem::take(&mut self.errors);
        let application = if self.is_application { APP_CMD } else { 0 };
        errors | (self.state as u32) << 9 | READY_FOR_DATA | application
    }

    fn answer_in(&mut self, state: BusState) -> Answer {
        // A status has the state in which the command came.
        let status = self.status();
        self.state = state;
        Answer::Status(status)
    }

    fn illegal(&mut self) -> Answer {
        self.errors |= ILLEGAL_COMMAND;
        self.is_application = false;
        Answer::Silence
    }

    /// Runs a command. A command that the state does not allow gets no answer, and the next status says so (ILLEGAL_COMMAND).
    pub fn command(&mut self, index: u8, argument: u32) -> Answer {
        use BusState::{Identification, Idle, Ready, ReceiveData, SendingData, Standby, Transfer};
        let is_application = std::mem::take(&mut self.is_application) && !self.is_mmc();
        let is_mine = argument >> 16 == ADDRESS >> 16;
        if let (5 | 52 | 53, Some(answer)) = (index, self.io_command(index, argument)) {
            return answer;
        }
        match (index, self.state) {
            (0, _) => self.reset(),
            (8, Idle) if !self.is_mmc() => {
                self.knows_version_2 = true;
                Answer::Voltage(argument & 0xFFF)
            }
            (55, state) if !self.is_mmc() && (state == Idle || is_mine) => {
                self.is_application = true;
                Answer::Status(self.status())
            }
            (41, Idle) if is_application => self.operating_conditions(argument),
            (1, Idle) if self.is_mmc() => self.operating_conditions(argument),
            (11, Ready) if self.may_switch_voltage => {
                (self.is_low_voltage, self.may_switch_voltage) = (true, false);
                self.answer_in(Ready)
            }
            (2, Ready) => {
                self.state = Identification;
                Answer::Register(self.registers.cid.emit(self.registers.kind))
            }
            (3, Identification) if self.is_mmc() => self.answer_in(Standby),
            (3, Identification | Standby) if !self.is_mmc() => {
                let status = self.status();
                self.state = Standby;
                // Bits 23, 22 and 19 of the status go to 15, 14 and 13 (chapter 4.9.5).
                Answer::Address(ADDRESS | status >> 8 & 0xC000 | status >> 6 & 0x2000 | status & 0x1FFF)
            }
            (9, Standby) if is_mine => Answer::Register(self.registers.csd.emit(self.registers.kind)),
            (10, Standby) if is_mine => Answer::Register(self.registers.cid.emit(self.registers.kind)),
            (7, Standby) if is_mine => self.answer_in(Transfer),
            (7, Transfer) if !is_mine => {
                self.state = Standby;
                Answer::Silence
            }
            (13, Standby | Transfer | SendingData | ReceiveData) if is_mine && !is_application => {
                Answer::Status(self.status())
            }
            (6, Transfer) if is_application => self.set_lines(argument),
            (6, Transfer) if self.is_mmc() => self.write_ext_csd(argument),
            (6, Transfer) => self.switch_function(argument),
            (8, Transfer) if self.is_mmc() => {
                let register = self.registers.ext_csd.map(|ext_csd| ext_csd.emit().to_vec());
                Answer::Block(self.status(), register.unwrap_or_default())
            }
            (13, Transfer) if is_application => {
                let register = self.registers.ssr.map(|ssr| ssr.emit().to_vec());
                Answer::Block(self.status(), register.unwrap_or_default())
            }
            (51, Transfer) if is_application => {
                let register = self.registers.scr.map(|scr| scr.emit().to_vec());
                Answer::Block(self.status(), register.unwrap_or_default())
            }
            (19, Transfer) if self.is_low_voltage && self.is_uhs() => {
                Answer::Block(self.status(), vec![0; 64])
            }
            (21, Transfer) if self.is_mmc() && self.lines == 8 => Answer::Block(self.status(), vec![0; 128]),
            (16, Transfer) => Answer::Status(self.status()),
            (23, Transfer) if !is_application && self.has_block_count() => {
                self.announced = Some(argument & 0xFFFF);
                Answer::Status(self.status())
            }
            (17 | 18, Transfer) => self.begin(argument, SendingData, index == 18),
            (24 | 25, Transfer) => self.begin(argument, ReceiveData, index == 25),
            (12, SendingData | ReceiveData) => {
                self.transfer = None;
                self.answer_in(Transfer)
            }
            _ => self.illegal(),
        }
    }

    /// CMD5, CMD52 and CMD53 of a card with SDIO functions; none where the state does not allow them. The reset of the functions is
    /// allowed in every state.
    fn io_command(&mut self, index: u8, argument: u32) -> Option<Answer> {
        let io = self.io.as_mut()?;
        self.io_write = None;
        let is_selected = self.state == BusState::Transfer && io.is_ready();
        let direct = Direct::of(argument);
        match index {
            5 if self.state == BusState::Idle => {
                Some(Answer::IoConditions(io.operating_conditions(argument)))
            }
            52 if is_selected || direct == Direct::reset() => {
                let (flags, data) = io.direct(direct);
                Some(Answer::Io(flags, data))
            }
            53 if is_selected => Some(match io.extended(argument) {
                Err(flags) => Answer::Io(flags | flag::COMMAND_STATE, 0),
                Ok(transfer) if transfer.is_write => {
                    self.io_write = Some(transfer);
                    Answer::Io(flag::TRANSFER_STATE, 0)
                }
                Ok(transfer) => Answer::IoBlock(flag::TRANSFER_STATE, io.read_transfer(&transfer)),
            }),
            _ => None,
        }
    }

    /// Sends the data of a write by CMD53. Returns the number of bytes that the card has taken: 0 without such a write.
    pub fn write_io(&mut self, data: &[u8]) -> usize {
        let (Some(io), Some(transfer)) = (&mut self.io, self.io_write.take()) else { return 0 };
        io.write_transfer(&transfer, data);
        data.len().min(transfer.bytes())
    }

    /// SDIO functions of a card that is brought up, as a host's driver finds them; none on a card without any.
    pub fn io_view(&mut self) -> Option<IoView> {
        let functions = self.registers.io_function?.functions;
        self.io.as_ref().filter(|io| io.is_ready())?;
        Some(IoView::read(self, functions))
    }

    /// CMD23 is in the SCR of an SD card, and part of every eMMC.
    fn has_block_count(&self) -> bool {
        self.is_mmc() || self.registers.scr.is_some_and(|scr| scr.commands & 0b10 != 0)
    }

    fn reset(&mut self) -> Answer {
        (self.state, self.lines, self.mode) = (BusState::Idle, 1, BusMode::Default);
        (self.knows_version_2, self.is_application, self.may_switch_voltage) = (false, false, false);
        (self.polls, self.errors, self.announced, self.transfer) = (0, 0, None, None);
        // Signals stay at 1.8 V until power goes away (chapter 4.2.4.2).
        Answer::Silence
    }

    /// ACMD41 and CMD1. A host that does not know high capacity never finds such a card ready.
    fn operating_conditions(&mut self, argument: u32) -> Answer {
        if argument & OCR_VOLTAGES == 0 && !self.is_mmc() {
            return Answer::Conditions(OCR_VOLTAGES);
        }
        let knows_capacity = argument & OCR_CAPACITY != 0 && (self.knows_version_2 || self.is_mmc());
        let can_start = knows_capacity || !self.is_high_capacity;
        if !can_start || self.polls < BUSY_POLLS {
            self.polls += u32::from(can_start);
            return Answer::Conditions(OCR_VOLTAGES);
        }
        let asks_low = argument & OCR_LOW_VOLTAGE != 0 && !self.is_mmc();
        self.may_switch_voltage = asks_low && self.is_uhs() && !self.is_low_voltage;
        self.state = BusState::Ready;
        let capacity = if self.is_high_capacity { OCR_CAPACITY } else { 0 };
        let low = if self.may_switch_voltage { OCR_LOW_VOLTAGE } else { 0 };
        let second_row = if self.fastest.has_second_row() { OCR_UHS_II } else { 0 };
        Answer::Conditions(OCR_READY | OCR_VOLTAGES | capacity | low | second_row)
    }

    /// ACMD6: 0 for one line, 2 for four.
    fn set_lines(&mut self, argument: u32) -> Answer {
        match argument & 3 {
            0 => self.lines = 1,
            2 => self.lines = 4,
            _ => return self.illegal(),
        }
        Answer::Status(self.status())
    }

    /// Access modes of CMD6, function group 1, that the card has now. UHS modes need 1.8 V and four lines.
    fn access_modes(&self) -> Vec<(u8, BusMode)> {
        let mut modes = vec![(0, BusMode::Default)];
        if self.fastest > BusMode::Default {
            modes.push((1, BusMode::HighSpeed));
        }
        if self.is_low_voltage && self.is_uhs() {
            modes.push((2, BusMode::Sdr50));
            if self.fastest >= BusMode::Sdr104 {
                modes.push((3, BusMode::Sdr104));
            }
            modes.push((4, BusMode::Ddr50));
        }
        modes
    }

    /// CMD6 of an SD card: checks or switches the access mode (chapter 4.3.10).
    fn switch_function(&mut self, argument: u32) -> Answer {
        let modes = self.access_modes();
        let now = modes.iter().find(|(_, mode)| *mode == self.mode).map_or(0, |(number, _)| *number);
        let wanted = match (argument & 0xF) as u8 {
            0xF => Some(now),
            number => modes.iter().find(|(known, _)| *known == number).map(|(known, _)| *known),
        };
        let mut status = vec![0; 64];
        // Largest current in mA; 0 where the function is refused.
        let current = if wanted.is_some() { 200_u16 } else { 0 };
        status[..2].copy_from_slice(&current.to_be_bytes());
        for group in status[2..12].chunks_exact_mut(2) {
            group.copy_from_slice(&[0x80, 0x01]);
        }
        let supported = modes.iter().fold(0x8000_u16, |bits, (number, _)| bits | 1 << number);
        status[12..14].copy_from_slice(&supported.to_be_bytes());
        status[16] = wanted.unwrap_or(0xF);
        if argument >> 31 == 1
            && let Some((_, mode)) = modes.iter().find(|(number, _)| Some(*number) == wanted)
        {
            self.mode = *mode;
        }
        Answer::Block(self.status(), status)
    }

    /// CMD6 of an eMMC: writes a byte of EXT_CSD (access 3). Lines (183) and timing (185) are those that matter here.
    fn write_ext_csd(&mut self, argument: u32) -> Answer {
        let [access, place, value, _] = argument.to_be_bytes();
        match (access & 3, place, value) {
            (3, 183, 0) => self.lines = 1,
            (3, 183, 1) => self.lines = 4,
            (3, 183, 2) => self.lines = 8,
            (3, 185, 1) => self.mode = BusMode::HighSpeed,
            (3, 185, 2) if self.lines > 1 => self.mode = BusMode::Hs200,
            _ => self.errors |= SWITCH_ERROR,
        }
        Answer::Status(self.status())
    }

    /// CMD17, 18, 24 and 25: a transfer of one block, of those that CMD23 announced, or until CMD12.
    fn begin(&mut self, argument: u32, state: BusState, is_multiple: bool) -> Answer {
        let announced = self.announced.take().filter(|_| is_multiple);
        let sector = u64::from(argument) / if self.is_high_capacity { 1 } else { SECTOR_BYTES as u64 };
        if sector >= self.card.capacity() {
            self.errors |= OUT_OF_RANGE;
            return Answer::Status(self.status());
        }
        self.transfer = Some((sector, if is_multiple { announced } else { Some(1) }));
        self.answer_in(state)
    }

    /// Counts transferred blocks. A transfer of a known number of blocks (one, or set by CMD23) ends with the last.
    fn advance(&mut self, blocks: u32) {
        let Some((sector, left)) = self.transfer else { return };
        let left = left.map(|left| left.saturating_sub(blocks));
        self.transfer = Some((sector + u64::from(blocks), left));
        if left == Some(0) {
            (self.transfer, self.state) = (None, BusState::Transfer);
        }
    }

    /// Number of blocks of a buffer that the transfer still takes.
    fn blocks_of(&self, bytes: usize) -> u32 {
        let blocks = u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX);
        self.transfer.and_then(|(_, left)| left).map_or(blocks, |left| blocks.min(left))
    }

    /// Reads the next blocks in the state `data`. Returns the time at which they are there, and their number: 0 in another state.
    ///
    /// # Errors
    /// Those of the card.
    pub fn read_blocks(&mut self, now: Instant, buf: &mut [u8]) -> Result<(Instant, u32), BlockError> {
        let (Some((sector, _)), BusState::SendingData) = (self.transfer, self.state) else {
            return Ok((now, 0));
        };
        let blocks = self.blocks_of(buf.len());
        let end = self.card.read(now, sector, &mut buf[..blocks as usize * SECTOR_BYTES])?;
        self.advance(blocks);
        Ok((end, blocks))
    }

    /// Writes the next blocks in the state `rcv`. Returns the time at which the card is not busy any more, and their number: 0 in another state.
    ///
    /// # Errors
    /// Those of the card.
    pub fn write_blocks(&mut self, now: Instant, data: &[u8]) -> Result<(Instant, u32), BlockError> {
        let (Some((sector, _)), BusState::ReceiveData) = (self.transfer, self.state) else {
            return Ok((now, 0));
        };
        let blocks = self.blocks_of(data.len());
        let end = self.card.write(now, sector, &data[..blocks as usize * SECTOR_BYTES])?;
        self.advance(blocks);
        Ok((end, blocks))
    }

    /// The commands with which a host brings the card from power-on to its fastest mode, and writes and reads two blocks.
    pub fn bring_up(&mut self) -> Vec<Step> {
        let mut host = Host { protocol: self, steps: Vec::new() };
        if host.protocol.is_mmc() {
            host.bring_up_mmc()
        } else {
            host.bring_up_sd()
        }
        host.transfers();
        host.steps
    }
}

impl IoBus for Protocol {
    fn direct(&mut self, command: Direct) -> (u8, u8) {
        match self.command(52, command.argument()) {
            Answer::Io(flags, data) => (flags, data),
            _ => (flag::ILLEGAL, 0),
        }
    }

    fn write_bytes(&mut self, function: u8, address: u32, data: &[u8]) -> u8 {
        let answer = self.command(53, Extended::argument(true, function, address, data.len()));
        let Answer::Io(flags, _) = answer else { return flag::ILLEGAL };
        if self.write_io(data) == data.len() { flags } else { flags | flag::ERROR }
    }

    fn read_bytes(&mut self, function: u8, address: u32, bytes: usize) -> Option<Vec<u8>> {
        match self.command(53, Extended::argument(false, function, address, bytes)) {
            Answer::IoBlock(_, data) => Some(data),
            _ => None,
        }
    }
}

/// A host that brings up a card.
struct Host<'a> {
    protocol: &'a mut Protocol,
    steps: Vec<Step>,
}

impl Host<'_> {
    fn send(&mut self, index: u8, argument: u32, purpose: &'static str) -> Answer {
        let is_application = self.protocol.is_application;
        let answer = self.protocol.command(index, argument);
        let kind = if is_application { "ACMD" } else { "CMD" };
        self.steps.push(Step {
            command: format!("{kind}{index}"),
            argument,
            answer: answer.text(),
            state: self.protocol.state,
            purpose,
        });
        answer
    }

    fn send_application(&mut self, index: u8, argument: u32, purpose: &'static str) -> Answer {
        let address = if self.protocol.state == BusState::Idle { 0 } else { ADDRESS };
        self.send(55, address, "the next command is one of the application");
        self.send(index, argument, purpose)
    }

    fn bring_up_sd(&mut self) {
        let has_io = self.protocol.io.is_some();
        if has_io {
            self.send(52, Direct::reset().argument(), "reset of the SDIO functions");
        }
        self.send(0, 0, if has_io { "reset of the memory" } else { "reset" });
        self.send(8, 0x1AA, "the host has 2.7 to 3.6 V and knows version 2");
        if has_io {
            self.send(5, 0, "number of SDIO functions (bits 30 to 28)");
            self.send(5, OCR_VOLTAGES, "start of the initialisation of the functions");
            self.send(5, OCR_VOLTAGES, "end of the initialisation of the functions");
        }
        for purpose in ["start of the initialisation; 1.8 V is asked for", "end of the initialisation"] {
            let asked = OCR_CAPACITY | OCR_LOW_VOLTAGE | OCR_VOLTAGES;
            let answer = self.send_application(41, asked, purpose);
            if matches!(answer, Answer::Conditions(ocr) if ocr & OCR_READY != 0 && ocr & OCR_LOW_VOLTAGE != 0)
            {
                self.send(11, 0, "voltage switch: signals of 1.8 V from here on");
            }
        }
        self.send(2, 0, "identification: CID");
        self.send(3, 0, "the card gives itself an address");
        self.send(9, ADDRESS, "size and clock: CSD");
        self.send(7, ADDRESS, "selection");
        self.send_application(51, 0, "version and bus widths: SCR");
        self.send_application(6, 2, "four data lines");
        if has_io {
            self.find_function();
        }
        let modes = self.protocol.access_modes();
        let fastest = modes.iter().filter(|(_, mode)| *mode <= self.protocol.fastest);
        if let Some((number, mode)) = fastest.max_by_key(|(_, mode)| *mode).copied()
            && number > 0
        {
            self.send(6, 0x00FF_FFF0 | u32::from(number), "check of the fastest access mode");
            self.send(6, 0x80FF_FFF0 | u32::from(number), "switch to it");
            if matches!(mode, BusMode::Sdr50 | BusMode::Sdr104) {
                self.send(19, 0, "tuning of the sampling point");
            }
        }
        self.send_application(13, 0, "classes and allocation unit: SSR");
    }

    /// Commands by which a host finds and enables function 1, and the first access of its driver.
    fn find_function(&mut self) {
        let read = |function, address| Direct::read(function, address).argument();
        let write = |function, address, data| Direct::write(function, address, data).argument();
        self.send(52, read(0, 0x00), "versions of the common registers and of SDIO");
        self.send(52, read(0, 0x08), "capabilities: CMD52 in transfers, blocks");
        self.send(52, write(0, 0x07, 2), "four data lines for the functions");
        self.send(52, read(0, 0x100), "interface of function 1 (FBR)");
        self.send(52, read(0, 0x10A), "its tuples are at 0x1100 (second byte)");
        self.send(52, read(0, 0x1102), "first byte of CISTPL_MANFID: the vendor");
        self.send(52, write(0, 0x02, 2), "function 1 is enabled");
        self.send(52, read(0, 0x03), "ready functions: not yet");
        self.send(52, read(0, 0x03), "ready functions");
        let data = [0x5A, 0xA5, 0x12, 0x34];
        self.send(53, Extended::argument(true, 1, 0, data.len()), "write of registers of function 1");
        self.protocol.write_io(&data);
        self.send(53, Extended::argument(false, 1, 0, data.len()), "read of the same registers");
    }

    fn bring_up_mmc(&mut self) {
        self.send(0, 0, "reset");
        for purpose in ["start of the initialisation; addresses of sectors", "end of the initialisation"] {
            self.send(1, OCR_CAPACITY | OCR_VOLTAGES, purpose);
        }
        self.send(2, 0, "identification: CID");
        self.send(3, ADDRESS, "the host gives an address");
        self.send(9, ADDRESS, "size and clock: CSD");
        self.send(7, ADDRESS, "selection");
        self.send(8, 0, "all that CSD has no room for: EXT_CSD");
        self.send(6, 0x03B7_0200, "eight data lines");
        self.send(6, 0x03B9_0200, "HS200");
        self.send(21, 0, "tuning of the sampling point");
        self.send(13, ADDRESS, "status: the switches were accepted");
    }

    /// Two blocks there and back, once with CMD23 where the card has it, once with CMD12.
    fn transfers(&mut self) {
        let data = [0xA5; 2 * SECTOR_BYTES];
        if self.protocol.has_block_count() {
            self.send(23, 2, "two blocks follow");
        }
        self.send(25, 0, "write of several blocks");
        let _ = self.protocol.write_blocks(Instant::ZERO, &data);
        if self.protocol.state == BusState::ReceiveData {
            self.send(12, 0, "end of the transfer");
        }
        self.send(18, 0, "read of several blocks");
        let mut back = data;
        let _ = self.protocol.read_blocks(Instant::ZERO, &mut back);
        self.send(12, 0, "end of the transfer");
        self.send(13, ADDRESS, "status: no error");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(changes: &str) -> Protocol {
        let text = include_str!("../tests/small.toml");
        let text = changes.lines().fold(text.to_owned(), |text, line| {
            let key = line.split('=').next().unwrap();
            let old = text.lines().find(|own| own.starts_with(key)).unwrap().to_owned();
            text.replace(&old, line)
        });
        let spec: CardSpec = toml::from_str(&text).unwrap();
        Protocol::new(&spec, CardOptions::default()).unwrap()
    }

    #[test]
    fn a_host_reaches_the_fastest_mode_of_each_card() {
        for (bus, lines, mode, low) in [
            ("default", 4, BusMode::Default, false),
            ("high-speed", 4, BusMode::HighSpeed, false),
            ("sdr50", 4, BusMode::Sdr50, true),
            ("ddr50", 4, BusMode::Ddr50, true),
            ("sdr104", 4, BusMode::Sdr104, true),
            ("hs200", 8, BusMode::Hs200, false),
        ] {
            let mut card = protocol(&format!("bus = \"{bus}\""));
            let steps = card.bring_up();
            assert_eq!((card.lines(), card.mode(), card.is_low_voltage()), (lines, mode, low), "{bus}");
            assert_eq!(card.state(), BusState::Transfer, "{bus}");
            let illegal = steps.iter().filter(|step| step.answer.contains("0x004")).count();
            assert_eq!(illegal, 0, "{bus}: {steps:?}");
            let silent: Vec<&str> =
                steps.iter().filter(|step| step.answer == "none").map(|step| step.command.as_str()).collect();
            assert_eq!(silent, ["CMD0"], "{bus}");
        }
    }

    #[test]
    fn a_command_of_another_state_is_not_answered_and_the_next_status_says_so() {
        let mut card = protocol("");
        assert_eq!(card.command(2, 0), Answer::Silence, "CMD2 before the operating conditions");
        assert!(matches!(card.command(55, 0), Answer::Status(status) if status & ILLEGAL_COMMAND != 0));
        assert!(matches!(card.command(41, OCR_VOLTAGES), Answer::Conditions(ocr) if ocr & OCR_READY == 0));
        assert!(matches!(card.command(55, 0), Answer::Status(status) if status & ILLEGAL_COMMAND == 0));
        assert!(matches!(card.command(41, OCR_VOLTAGES), Answer::Conditions(ocr) if ocr & OCR_READY != 0));
        assert_eq!(card.command(11, 0), Answer::Silence, "a card without UHS does not switch its voltage");
        card.command(2, 0);
        card.command(3, 0);
        assert_eq!(card.command(18, 0), Answer::Silence, "a card that is not selected");
        card.command(7, ADDRESS);
        assert!(matches!(card.command(18, u32::MAX), Answer::Status(status) if status & OUT_OF_RANGE != 0));
        assert_eq!(card.state(), BusState::Transfer);
    }

    #[test]
    fn transfers_end_with_their_number_of_blocks_or_with_cmd12() {
        let mut card = protocol("bus = \"sdr104\"");
        card.bring_up();
        let data: Vec<u8> = (0..4 * SECTOR_BYTES).map(|byte| (byte % 251) as u8).collect();
        card.command(23, 4);
        card.command(25, 8 * SECTOR_BYTES as u32);
        let (written, blocks) = card.write_blocks(Instant::ZERO, &data).unwrap();
        assert_eq!((blocks, card.state()), (4, BusState::Transfer), "CMD23 ended it");
        card.command(18, 8 * SECTOR_BYTES as u32);
        let mut back = vec![0; 4 * SECTOR_BYTES];
        let (_, blocks) = card.read_blocks(written, &mut back).unwrap();
        assert_eq!((blocks, card.state(), back == data), (4, BusState::SendingData, true));
        assert_eq!(card.command(18, 0), Answer::Silence, "a transfer is under way");
        card.command(12, 0);
        assert_eq!(card.state(), BusState::Transfer);
        assert_eq!(card.read_blocks(written, &mut back).unwrap().1, 0, "no transfer");
        card.command(17, 0);
        assert_eq!(card.read_blocks(written, &mut back).unwrap().1, 1);
        assert_eq!(card.state(), BusState::Transfer);
    }

    /// Function 1 of a combo card is bound as Linux does; the memory works beside it, and CMD0 does not reset the function.
    #[test]
    fn a_host_finds_and_uses_the_function_beside_the_memory() {
        let text = include_str!("../tests/small.toml");
        let text = format!("{text}\n[io_function]\ninterface = 7\nvendor = 0x0296\ndevice = 0x5347\n");
        let spec: CardSpec = toml::from_str(&text).unwrap();
        let mut card = Protocol::new(&spec, CardOptions::default()).unwrap();
        let command = |card: &mut Protocol, index, argument| card.command(index, argument);
        assert_eq!(command(&mut card, 52, Direct::read(0, 0).argument()), Answer::Silence, "not selected");
        let steps = card.bring_up();
        assert_eq!(card.state(), BusState::Transfer);
        let last = steps.iter().rfind(|step| step.command == "CMD53").unwrap();
        assert!(last.answer.ends_with("4 bytes: 5aa51234"), "{last:?}");
        let view = card.io_view().unwrap();
        let [function] = &view.functions[..] else { panic!("{view:?}") };
        assert!(function.is_ready && function.reads_back, "{function:?}");
        assert_eq!((function.interface, function.vendor, function.device), (7, 0x0296, 0x5347));
        card.command(0, 0);
        assert!(card.io.as_ref().is_some_and(IoCard::is_ready), "CMD0 resets the memory alone");
        card.command(52, Direct::reset().argument());
        assert_eq!(card.io_view(), None);
        assert_eq!(protocol("").command(5, 0), Answer::Silence, "a card with memory only");
        assert_eq!(protocol("").io_view(), None);
    }

    #[test]
    fn a_host_that_does_not_know_high_capacity_never_finds_the_card_ready() {
        let mut card = protocol("capacity_bytes = \"4 GiB\"\nspare_blocks = 2000");
        for _ in 0..5 {
            card.command(55, 0);
            assert!(
                matches!(card.command(41, OCR_VOLTAGES), Answer::Conditions(ocr) if ocr & OCR_READY == 0)
            );
        }
        assert_eq!(card.state(), BusState::Idle);
    }
}
