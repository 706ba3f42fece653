//! Commands of SPI mode: command frame, response, and data blocks in both directions.

use super::session::{Activity, FRAME_BYTES, Read, Stage, Write};
use super::{BLOCK, IDENTIFICATION_HZ, IDLE_CYCLES, SpiCard, UNDRIVEN};
use crate::sdio::{Direct, flag};
use floatgate_device::violation::Violation;
use floatgate_media::sd::{crc7, crc16};
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos};

/// Bits of the response R1 (chapter 7.3.2.1).
mod r1 {
    pub(super) const IDLE: u8 = 0x01;
    pub(super) const ERASE_RESET: u8 = 0x02;
    pub(super) const ILLEGAL: u8 = 0x04;
    pub(super) const CRC: u8 = 0x08;
    pub(super) const ERASE_SEQUENCE: u8 = 0x10;
    pub(super) const ADDRESS: u8 = 0x20;
    pub(super) const PARAMETER: u8 = 0x40;
}

/// Bits of the second byte of the response R2 (chapter 7.3.2.3).
mod r2 {
    pub(super) const ERROR: u8 = 0x04;
    pub(super) const ECC_FAILED: u8 = 0x10;
    pub(super) const OUT_OF_RANGE: u8 = 0x80;
}

/// Tokens before, between and after data (chapter 7.3.3). The upper bits of a data response are not defined; cards send ones.
mod token {
    pub(super) const BLOCK: u8 = 0xFE;
    pub(super) const BLOCK_OF_MANY: u8 = 0xFC;
    pub(super) const STOP: u8 = 0xFD;
    pub(super) const ACCEPTED: u8 = 0xE5;
    pub(super) const CRC_ERROR: u8 = 0xEB;
    pub(super) const WRITE_ERROR: u8 = 0xED;
    pub(super) const ERROR: u8 = 0x01;
    pub(super) const ECC_FAILED: u8 = 0x04;
    pub(super) const OUT_OF_RANGE: u8 = 0x08;
}

/// Bits of the first byte of the response R5 of CMD52 and CMD53 (SDIO, chapter 5.2.2).
mod r5 {
    pub(super) const FUNCTION_NUMBER: u8 = 0x10;
    pub(super) const PARAMETER: u8 = 0x40;
}

/// Time of the initialisation from the first ACMD41 on. It is an assumption; the specification allows 1 s.
const INITIALISATION: Nanos = Nanos::from_ms(20);

/// Voltages of the operation conditions register: 2.7 to 3.6 V.
const OCR_VOLTAGES: u32 = 0x00FF_8000;
/// Bit of the OCR: the initialisation has ended.
const OCR_READY: u32 = 1 << 31;
/// Bit of the OCR: the card has high capacity.
const OCR_CCS: u32 = 1 << 30;
/// Bit of ACMD41: the host supports cards of high capacity.
const HCS: u32 = 1 << 30;

const NOT_INITIALISED: Violation = Violation::Sequence("the card is not initialised");
const NO_ANSWER_READ: Violation =
    Violation::Sequence("a new command before the response or the data of the last one was read");

impl SpiCard {
    /// Receives a byte of a command.
    pub(super) fn receive_frame_byte(&mut self, byte: u8) {
        if !self.session.is_inside_frame() {
            if byte == UNDRIVEN {
                return;
            }
            if byte & 0xC0 != 0x40 {
                self.note(Violation::Sequence(
                    "bytes to the card that are no command: the line must be high",
                ));
                return;
            }
            self.session.frame.clear();
            self.session.noted.clear();
            self.session.frame_at = self.now();
        }
        self.session.frame.push(byte);
        if let Ok([command, argument @ .., crc]) = <[u8; FRAME_BYTES]>::try_from(&*self.session.frame) {
            self.run_command(command & 0x3F, u32::from_be_bytes(argument), crc);
        }
    }

    /// Executes a complete command.
    fn run_command(&mut self, command: u8, argument: u32, crc: u8) {
        let is_stop =
            command == 12 && matches!(&self.session.activity, Activity::Read(read) if read.is_multiple);
        if !is_stop && self.session.is_in_transfer() {
            self.note(NO_ANSWER_READ);
        }
        self.check_clock();
        let expected = crc7(&self.session.frame[..FRAME_BYTES - 1]) << 1 | 1;
        // A card in SD bus mode always checks CRC7, and CMD8 is checked in each mode.
        let is_checked = self.session.checks_crc || command == 8 || self.session.stage == Stage::SdBus;
        if crc & 1 == 0 {
            self.note(Violation::Sequence("a command without end bit"));
        }
        if is_checked && crc != expected {
            self.note(Violation::Sequence("a command with a wrong CRC7"));
            return self.refuse(r1::CRC);
        }
        if is_stop {
            return self.stop_read();
        }
        self.session.end_transfer();
        match self.session.stage {
            Stage::SdBus => self.leave_sd_bus(command),
            Stage::Idle => self.initialise(command, argument),
            Stage::Ready => self.execute(command, argument),
        }
    }

    fn check_clock(&mut self) {
        let max = match (self.session.stage, self.session.is_high_speed) {
            (Stage::SdBus | Stage::Idle, _) => IDENTIFICATION_HZ,
            (Stage::Ready, false) => 25_000_000,
            (Stage::Ready, true) => 50_000_000,
        };
        if self.hz() > max {
            self.note(Violation::ClockTooFast { hz: self.hz(), max });
        }
    }

    /// Sends the response R1. A card in SD bus mode does not answer.
    fn respond(&mut self, errors: u8) {
        if self.session.stage == Stage::SdBus {
            return;
        }
        let idle = if self.session.stage == Stage::Idle { r1::IDLE } else { 0 };
        // A response comes after 1 to 8 bytes (N_CR).
        self.session.out.extend([UNDRIVEN, errors | idle]);
    }

    /// Answers a refused command with R1 and these error bits. The caller records the violation.
    fn refuse(&mut self, errors: u8) {
        self.session.end_transfer();
        self.session.is_application = false;
        self.respond(errors);
    }

    /// Refuses a command that the card does not support, or not in this state.
    fn illegal(&mut self, rule: Violation) {
        self.note(rule);
        self.refuse(r1::ILLEGAL);
    }

    /// Handles a command that the card does not support.
    fn unknown(&mut self, command: u8) {
        self.illegal(Violation::UnknownCommand(command | 0x40));
    }

    /// Handles a command to a card that is still in SD bus mode.
    fn leave_sd_bus(&mut self, command: u8) {
        if self.session.idle_cycles < IDLE_CYCLES {
            self.note(Violation::Timing("74 clock cycles with CS# high after power-on"));
        }
        match command {
            0 => self.go_idle(),
            _ => self.note(Violation::Sequence("a command before CMD0 put the card into SPI mode")),
        }
    }

    fn go_idle(&mut self) {
        self.session.reset();
        self.respond(0);
    }

    /// Handles a command to a card that is not initialised.
    fn initialise(&mut self, command: u8, argument: u32) {
        let is_application = std::mem::take(&mut self.session.is_application);
        match (is_application, command) {
            (_, 0) => self.go_idle(),
            (_, 8) => self.send_if_cond(argument),
            (_, 55) => self.announce_application(),
            (true, 41) | (false, 1) => self.send_op_cond(argument),
            (_, 58) => self.read_ocr(),
            (_, 59) => self.set_crc(argument),
            (_, 5 | 52 | 53) if self.registers.io.is_some() => self.run_io(command, argument),
            _ => self.illegal(NOT_INITIALISED),
        }
    }

    /// Handles a command to an initialised card.
    fn execute(&mut self, command: u8, argument: u32) {
        if self.session.erase != [None; 2] && !matches!(command, 13 | 32 | 33 | 38) {
            self.session.erase = [None; 2];
            self.note(Violation::Sequence("a command between the start of an erase and CMD38"));
            return self.refuse(r1::ERASE_RESET);
        }
        if std::mem::take(&mut self.session.is_application) {
            match command {
                13 => return self.send_sd_status(),
                22 => return self.send_register(&self.session.written_blocks.to_be_bytes()),
                // Pre-erased blocks, and the pull-up of CS#, have no effect that a host can see.
                23 | 41 | 42 => return self.respond(0),
                51 => return self.send_register(&self.registers.scr.clone()),
                // Other ACMD numbers mean the CMD of the same number.
                _ => {}
            }
        }
        match command {
            0 => self.go_idle(),
            1 => self.respond(0),
            6 => self.switch_function(argument),
            8 => self.send_if_cond(argument),
            9 => self.send_register(&self.registers.csd.clone()),
            10 => self.send_register(&self.registers.cid.clone()),
            12 => self.illegal(Violation::Sequence("CMD12 without a transfer of several blocks")),
            13 => self.send_status(),
            16 => self.set_block_length(argument),
            17 => self.begin_read(argument, false),
            18 => self.begin_read(argument, true),
            24 => self.begin_write(argument, false),
            25 => self.begin_write(argument, true),
            32 => self.set_erase(0, argument),
            33 => self.set_erase(1, argument),
            38 => self.erase(),
            55 => self.announce_application(),
            58 => self.read_ocr(),
            59 => self.set_crc(argument),
            5 | 52 | 53 if self.registers.io.is_some() => self.run_io(command, argument),
            _ => self.unknown(command),
        }
    }

    fn announce_application(&mut self) {
        self.respond(0);
        self.session.is_application = true;
    }

    /// CMD5, CMD52 and CMD53 of a card with SDIO functions.
    fn run_io(&mut self, command: u8, argument: u32) {
        let Some(io) = &mut self.registers.io else { return };
        let direct = Direct::of(argument);
        match command {
            5 => {
                let conditions = io.operating_conditions(argument);
                self.respond(0);
                self.session.out.extend(conditions.to_be_bytes());
            }
            _ if !io.is_ready() && direct != Direct::reset() => {
                self.illegal(Violation::Sequence(
                    "CMD52 or CMD53 before CMD5 has started the SDIO functions",
                ));
            }
            52 => {
                let (flags, data) = io.direct(direct);
                self.respond_io(flags, data);
            }
            _ => match io.extended(argument) {
                Err(flags) => self.respond_io(flags, 0),
                Ok(transfer) if transfer.is_write => {
                    self.respond_io(0, 0);
                    self.session.activity = Activity::IoToken(transfer, Vec::new());
                }
                Ok(transfer) => {
                    let data = io.read_transfer(&transfer);
                    self.respond_io(0, 0);
                    data.chunks(transfer.block_bytes).for_each(|block| self.queue_block(block));
                }
            },
        }
    }

    /// Response R5 in SPI mode: the errors of the functions in the bits of R1, and a byte of data.
    fn respond_io(&mut self, flags: u8, data: u8) {
        let bit = |of: u8, to: u8| if flags & of == 0 { 0 } else { to };
        let errors = bit(flag::FUNCTION_NUMBER, r5::FUNCTION_NUMBER)
            | bit(flag::OUT_OF_RANGE | flag::ERROR, r5::PARAMETER)
            | bit(flag::ILLEGAL, r1::ILLEGAL);
        self.respond(errors);
        self.session.out.push_back(data);
    }

    /// Receives a byte where a token before data of an SDIO function is expected. Block mode has the token of several blocks.
    pub(super) fn receive_io_token(&mut self, byte: u8) {
        let Activity::IoToken(transfer, data) = &mut self.session.activity else { return };
        let expected = if transfer.is_block_mode { token::BLOCK_OF_MANY } else { token::BLOCK };
        match byte {
            UNDRIVEN => {}
            byte if byte == expected => {
                let (transfer, data) = (*transfer, std::mem::take(data));
                self.session.activity = Activity::IoData(transfer, data, Vec::new());
            }
            _ => self.note(Violation::Sequence("not the token that the write command expects")),
        }
    }

    /// Receives a byte of data of an SDIO function. A block with a wrong CRC16 is refused, and none of the transfer is written.
    pub(super) fn receive_io_data(&mut self, byte: u8) {
        let Activity::IoData(transfer, data, block) = &mut self.session.activity else { return };
        block.push(byte);
        if block.len() < transfer.block_bytes + 2 {
            return;
        }
        let (transfer, mut data, block) = (*transfer, std::mem::take(data), std::mem::take(block));
        let (bytes, crc) = block.split_at(transfer.block_bytes);
        self.session.activity = Activity::Command;
        if self.session.checks_crc && crc != crc16(bytes).to_be_bytes() {
            self.note(Violation::Sequence("a data block with a wrong CRC16"));
            return self.session.out.push_back(token::CRC_ERROR);
        }
        data.extend(bytes);
        self.session.out.push_back(token::ACCEPTED);
        if data.len() < transfer.bytes() {
            self.session.activity = Activity::IoToken(transfer, data);
        } else if let Some(io) = &mut self.registers.io {
            io.write_transfer(&transfer, &data);
        }
    }

    /// CMD8: the host states its voltage; the response R7 repeats voltage and check pattern.
    fn send_if_cond(&mut self, argument: u32) {
        self.session.knows_voltage = true;
        self.respond(0);
        let voltage = if argument & 0xF00 == 0x100 { argument & 0xF00 } else { 0 };
        self.session.out.extend((voltage | argument & 0xFF).to_be_bytes());
    }

    /// ACMD41 and CMD1: the host starts the initialisation, and polls its end.
    fn send_op_cond(&mut self, argument: u32) {
        let knows_high_capacity = self.session.knows_voltage && argument & HCS != 0;
        if self.registers.is_high_capacity && !knows_high_capacity {
            self.note(Violation::Sequence(
                "a card of high capacity is initialised by CMD8, then ACMD41 with HCS (bit 30)",
            ));
            return self.respond(0);
        }
        let now = self.now();
        let end = now.max(self.session.started_at) + INITIALISATION;
        if now >= *self.session.initialised_at.get_or_insert(end) {
            self.session.stage = Stage::Ready;
        }
        self.respond(0);
    }

    /// CMD58: sends the operation conditions register.
    fn read_ocr(&mut self) {
        let ready = match (self.session.stage, self.registers.is_high_capacity) {
            (Stage::Ready, true) => OCR_READY | OCR_CCS,
            (Stage::Ready, false) => OCR_READY,
            _ => 0,
        };
        self.respond(0);
        self.session.out.extend((OCR_VOLTAGES | ready).to_be_bytes());
    }

    fn set_crc(&mut self, argument: u32) {
        self.session.checks_crc = argument & 1 == 1;
        self.respond(0);
    }

    /// CMD13: sends and clears the status.
    fn send_status(&mut self) {
        self.respond(0);
        let status = std::mem::take(&mut self.session.status);
        self.session.out.push_back(status);
    }

    /// ACMD13: sends R2, and the SD status as a data block.
    fn send_sd_status(&mut self) {
        self.send_status();
        self.queue_block(&self.registers.ssr.clone());
    }

    /// Sends R1, and a register as a data block.
    fn send_register(&mut self, register: &[u8]) {
        self.respond(0);
        self.queue_block(register);
    }

    /// CMD6: checks or switches the access mode, default or high speed (chapter 4.3.10).
    fn switch_function(&mut self, argument: u32) {
        let has_high_speed = self.registers.has_high_speed;
        let now = u8::from(self.session.is_high_speed);
        let wanted = match (argument & 0xF, has_high_speed) {
            (0xF, _) => now,
            (0, _) => 0,
            (1, true) => 1,
            _ => 0xF,
        };
        let mut status = [0; 64];
        // 100 mA; function 0 in each group, and function 15, which changes nothing.
        status[1] = 100;
        for group in status[2..14].chunks_exact_mut(2) {
            group.copy_from_slice(&[0x80, 0x01]);
        }
        status[13] |= u8::from(has_high_speed) << 1;
        let others = [20, 12, 4].map(|shift| {
            let of = |at: u32| if matches!(argument >> at & 0xF, 0 | 0xF) { 0 } else { 0xF };
            of(shift) << 4 | if shift == 4 { wanted } else { of(shift - 4) }
        });
        status[14..17].copy_from_slice(&others);
        if argument >> 31 == 1 && wanted != 0xF {
            self.session.is_high_speed = wanted == 1;
        }
        self.send_register(&status);
    }

    fn set_block_length(&mut self, argument: u32) {
        let length = usize::try_from(argument).unwrap_or(usize::MAX);
        if !(1..=BLOCK).contains(&length) {
            self.note(Violation::Sequence("a block length that the card does not have"));
            return self.refuse(r1::PARAMETER);
        }
        if !self.registers.is_high_capacity {
            self.session.block_bytes = length;
        }
        self.respond(0);
    }

    /// Sector of an address, and offset in the sector. An address beyond the end is refused.
    fn sector_of(&mut self, argument: u32) -> Option<(u64, usize)> {
        let block = BLOCK as u64;
        let (lba, from) = match self.registers.is_high_capacity {
            true => (argument.into(), 0),
            false => (u64::from(argument) / block, (u64::from(argument) % block) as usize),
        };
        if lba >= self.card.capacity() {
            self.note(Violation::BadAddress);
            self.refuse(r1::PARAMETER);
            return None;
        }
        Some((lba, from))
    }

    fn begin_read(&mut self, argument: u32, is_multiple: bool) {
        let Some((lba, from)) = self.sector_of(argument) else { return };
        let length = if self.registers.is_high_capacity { BLOCK } else { self.session.block_bytes };
        if from + length > BLOCK {
            self.note(Violation::Sequence("a block across the border of two sectors"));
            return self.refuse(r1::ADDRESS);
        }
        self.respond(0);
        let read = Read { lba, from, length, is_multiple, block: None };
        self.session.activity = Activity::Read(read);
        self.fetch_block(self.now(), false);
    }

    /// Reads the next block from the card.
    fn fetch_block(&mut self, now: Instant, is_continued: bool) {
        let Activity::Read(Read { lba, from, length, .. }) = self.session.activity else { return };
        let mut sector = [0; BLOCK];
        if is_continued {
            self.card.device_mut().continue_command();
        }
        let done = self.card.read(now, lba, &mut sector);
        let Some(done) = self.outcome(done) else { return };
        let at = *done.as_ref().unwrap_or_else(|error| &error.at);
        let data = done.map(|_| sector[from..from + length].to_vec());
        if let Activity::Read(read) = &mut self.session.activity {
            read.block = Some((at, data));
        }
    }

    /// Queues the next block for the host when it has been read.
    pub(super) fn send_block(&mut self, now: Instant) {
        let Activity::Read(read) = &mut self.session.activity else { return };
        let Some((_, block)) = read.block.take_if(|(ready, _)| *ready <= now) else {
            if read.block.is_none() {
                self.fetch_block(now, true);
            }
            return;
        };
        let is_last = block.is_err() || !read.is_multiple;
        match block {
            Ok(data) if read.is_multiple => {
                read.advance();
                self.queue_block(&data);
                if self.card.device().reads_ahead() {
                    self.fetch_block(now, true);
                }
            }
            Ok(data) => self.queue_block(&data),
            Err(error) => self.send_error(error),
        }
        if is_last {
            self.session.activity = Activity::Command;
        }
    }

    /// Queues an error token instead of a block.
    fn send_error(&mut self, error: BlockError) {
        let (token, status) = match error.kind {
            BlockErrorKind::Uncorrectable => (token::ECC_FAILED, r2::ECC_FAILED),
            BlockErrorKind::OutOfRange { .. } => (token::OUT_OF_RANGE, r2::OUT_OF_RANGE),
            _ => (token::ERROR, r2::ERROR),
        };
        self.session.status |= status;
        self.session.out.push_back(token);
    }

    /// Queues a byte of delay (N_AC), a token, data and CRC16.
    fn queue_block(&mut self, data: &[u8]) {
        let crc = crc16(data);
        let mut data = data.to_vec();
        if let Some(bit) = self.session.disturbed_bit.take()
            && let Some(byte) = data.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        self.session.out.extend([UNDRIVEN, token::BLOCK]);
        self.session.out.extend(data);
        self.session.out.extend(crc.to_be_bytes());
    }

    /// CMD12: the card stops sending after the byte that is already being sent, and responds.
    fn stop_read(&mut self) {
        let stuff = self.session.out.pop_front().unwrap_or(UNDRIVEN);
        self.session.end_transfer();
        self.session.out.push_back(stuff);
        self.respond(0);
    }

    fn begin_write(&mut self, argument: u32, is_multiple: bool) {
        let Some((lba, from)) = self.sector_of(argument) else { return };
        if from != 0 {
            self.note(Violation::Sequence("a write that does not begin with a sector"));
            return self.refuse(r1::ADDRESS);
        }
        self.session.written_blocks = 0;
        self.respond(0);
        self.session.activity =
            Activity::Token(Write { lba, is_multiple, is_continued: false, has_gap: false });
    }

    /// Receives a byte while a token before data is expected.
    pub(super) fn receive_token(&mut self, byte: u8) {
        let is_answered = self.session.is_answered;
        let Activity::Token(write) = &mut self.session.activity else { return };
        let write = match (byte, write.is_multiple) {
            (UNDRIVEN, _) => {
                write.has_gap |= is_answered;
                return;
            }
            (token::BLOCK, false) | (token::BLOCK_OF_MANY, true) => *write,
            (token::STOP, true) => return self.stop_write(),
            _ => return self.note(Violation::Sequence("not the token that the write command expects")),
        };
        if !is_answered {
            return self.note(NO_ANSWER_READ);
        }
        if !write.has_gap {
            self.note(Violation::Timing("8 clock cycles between response and data (N_WR)"));
        }
        self.session.activity = Activity::Data(write, Vec::with_capacity(BLOCK + 2));
    }

    /// Receives a byte of data.
    pub(super) fn receive_data(&mut self, byte: u8) {
        let Activity::Data(write, data) = &mut self.session.activity else { return };
        data.push(byte);
        if data.len() == BLOCK + 2 {
            let (write, data) = (*write, std::mem::take(data));
            self.write_block(write, &data);
        }
    }

    /// Writes a block, and sends the data response.
    fn write_block(&mut self, write: Write, data: &[u8]) {
        let (data, crc) = data.split_at(BLOCK);
        let next = Write { lba: write.lba + 1, is_continued: true, ..write };
        let then = write.is_multiple.then_some(next);
        let now = self.now();
        if self.session.checks_crc && crc != crc16(data).to_be_bytes() {
            self.note(Violation::Sequence("a data block with a wrong CRC16"));
            return self.answer_block(token::CRC_ERROR, now, then);
        }
        if write.is_continued {
            self.card.device_mut().continue_command();
        }
        let mut done = self.card.write(now, write.lba, data);
        if !write.is_multiple {
            done = done.and_then(|written| self.flush(written));
        }
        match self.outcome(done) {
            None => {}
            Some(Ok(end)) => {
                self.session.written_blocks += 1;
                self.answer_block(token::ACCEPTED, end, then);
            }
            Some(Err(error)) => {
                self.session.status |= match error.kind {
                    BlockErrorKind::OutOfRange { .. } => r2::OUT_OF_RANGE,
                    _ => r2::ERROR,
                };
                self.answer_block(token::WRITE_ERROR, error.at, then);
            }
        }
    }

    fn answer_block(&mut self, response: u8, busy_until: Instant, then: Option<Write>) {
        self.session.out.push_back(response);
        self.session.activity = Activity::Busy { until: busy_until, then };
    }

    /// Flushes written data, as part of the command.
    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        self.card.device_mut().continue_command();
        self.card.flush(now)
    }

    /// Handles the stop token. The busy state begins one byte later (N_BR).
    fn stop_write(&mut self) {
        let done = self.flush(self.now());
        let Some(done) = self.outcome(done) else { return };
        if done.is_err() {
            self.session.status |= r2::ERROR;
        }
        let until = done.unwrap_or_else(|error| error.at);
        self.session.out.push_back(UNDRIVEN);
        self.session.activity = Activity::Busy { until, then: None };
    }

    /// CMD32 and CMD33: the first and the last sector of an erase.
    fn set_erase(&mut self, which: usize, argument: u32) {
        let Some((lba, _)) = self.sector_of(argument) else { return };
        if which == 1 && self.session.erase[0].is_none() {
            self.note(Violation::Sequence("CMD33 before CMD32"));
            return self.refuse(r1::ERASE_SEQUENCE);
        }
        self.session.erase[which] = Some(lba);
        self.respond(0);
    }

    /// CMD38: erases the sectors.
    fn erase(&mut self) {
        let [Some(first), Some(last)] = std::mem::take(&mut self.session.erase) else {
            self.note(Violation::Sequence("CMD38 before CMD32 and CMD33"));
            return self.refuse(r1::ERASE_SEQUENCE);
        };
        if last < first {
            self.note(Violation::Sequence("an erase that ends before it starts"));
            return self.refuse(r1::PARAMETER);
        }
        let done = self.card.discard(self.now(), first, last - first + 1);
        let done = done.and_then(|discarded| self.flush(discarded));
        let Some(done) = self.outcome(done) else { return };
        if done.is_err() {
            self.session.status |= r2::ERROR;
        }
        self.respond(0);
        let until = done.unwrap_or_else(|error| error.at);
        self.session.activity = Activity::Busy { until, then: None };
    }
}
