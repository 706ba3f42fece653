//! SDIO functions beside the memory: registers, tuples and windows, as commands CMD5, CMD52 and CMD53 reach them.
//!
//! - [`IoCard`] is the card's side: CCCR and FBR (common and function registers), the tuples of the CIS, and a window of registers in
//!   each function that keeps what is written.
//! - [`IoView`] is the host's side: what a driver learns from the same commands.
//!
//! Source: SDIO Simplified Specification 3.00, chapters 3 to 6 and 16. The card states version 2.00.

use crate::spec::IoFunctionSpec;
use serde::Serialize;
use std::ops::Range;

/// Bytes of the window of registers that each function has from its address 0 on.
pub const WINDOW_BYTES: usize = 512;

/// Largest block of CMD53 in a function, bytes.
const BLOCK_MAX: u16 = 512;

/// Largest number of functions beside function 0.
const FUNCTIONS_MAX: u8 = 7;

/// Time until a function is ready after it was enabled, in units of 10 ms (TPLFE_ENABLE_TIMEOUT_VAL).
const ENABLE_TIMEOUT: u16 = 1;

/// Addresses of the common registers (CCCR).
mod cccr {
    pub(super) const REVISION: u32 = 0x00;
    pub(super) const SD_REVISION: u32 = 0x01;
    pub(super) const ENABLE: u32 = 0x02;
    pub(super) const READY: u32 = 0x03;
    pub(super) const INTERRUPT_ENABLE: u32 = 0x04;
    pub(super) const ABORT: u32 = 0x06;
    pub(super) const BUS: u32 = 0x07;
    pub(super) const CAPABILITY: u32 = 0x08;
    pub(super) const CIS: u32 = 0x09;
    pub(super) const BLOCK_SIZE: u32 = 0x10;
    pub(super) const SPEED: u32 = 0x13;
    pub(super) const END: u32 = 0x100;
}

/// Offsets in the registers of a function (FBR).
mod fbr {
    pub(super) const INTERFACE: u32 = 0x00;
    pub(super) const CIS: u32 = 0x09;
    pub(super) const BLOCK_SIZE: u32 = 0x10;
}

/// First address of the card information structure, and the bytes of each function in it.
const CIS: u32 = 0x1000;
const CIS_BYTES: u32 = 0x100;
/// Last address of function 0.
const ADDRESS_MAX: u32 = 0x1_7FFF;

/// Bit of the abort register that resets all functions.
const RESET: u8 = 0x08;

/// Flags of the response R5.
pub mod flag {
    /// The command is not one of this state.
    pub const ILLEGAL: u8 = 0x40;
    /// The card awaits a command (IO_CURRENT_STATE).
    pub const COMMAND_STATE: u8 = 0x10;
    /// Data is on its way.
    pub const TRANSFER_STATE: u8 = 0x20;
    /// Another error.
    pub const ERROR: u8 = 0x08;
    /// The card does not have this function.
    pub const FUNCTION_NUMBER: u8 = 0x02;
    /// The function does not have this address.
    pub const OUT_OF_RANGE: u8 = 0x01;
    /// All errors.
    pub const ERRORS: u8 = 0xCB;
}

/// Codes of tuples.
mod tuple {
    pub(super) const VERS_1: u8 = 0x15;
    pub(super) const MANFID: u8 = 0x20;
    pub(super) const FUNCID: u8 = 0x21;
    pub(super) const FUNCE: u8 = 0x22;
    pub(super) const END: u8 = 0xFF;
    /// Function code of SDIO in CISTPL_FUNCID.
    pub(super) const SDIO: u8 = 0x0C;
}

/// Argument of CMD52.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Write instead of read.
    pub is_write: bool,
    /// Function, from 0 to 7.
    pub function: u8,
    /// The answer has the register after the write (RAW).
    pub reads_back: bool,
    /// Address in the function.
    pub address: u32,
    /// Byte to write.
    pub data: u8,
}

impl Direct {
    /// Decodes an argument.
    pub const fn of(argument: u32) -> Self {
        Self {
            is_write: argument >> 31 == 1,
            function: (argument >> 28 & 7) as u8,
            reads_back: argument >> 27 & 1 == 1,
            address: argument >> 9 & 0x1_FFFF,
            data: argument as u8,
        }
    }

    /// The argument of 32 bits.
    pub fn argument(self) -> u32 {
        let Self { is_write, function, reads_back, address, data } = self;
        u32::from(is_write) << 31
            | u32::from(function & 7) << 28
            | u32::from(reads_back) << 27
            | (address & 0x1_FFFF) << 9
            | u32::from(data)
    }

    /// Read of a register.
    pub const fn read(function: u8, address: u32) -> Self {
        Self { is_write: false, function, reads_back: false, address, data: 0 }
    }

    /// Write to a register that answers with its new contents.
    pub const fn write(function: u8, address: u32, data: u8) -> Self {
        Self { is_write: true, function, reads_back: true, address, data }
    }

    /// Reset of all functions by the abort register. CMD0 resets only the memory.
    pub const fn reset() -> Self {
        Self { is_write: true, function: 0, reads_back: false, address: cccr::ABORT, data: RESET }
    }
}

/// Argument of CMD53, with the block size of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Write instead of read.
    pub is_write: bool,
    /// Function, from 0 to 7.
    pub function: u8,
    /// Each byte goes to the next address, instead of all to one.
    pub increments: bool,
    /// Address in the function.
    pub address: u32,
    /// Bytes of a block on the lines.
    pub block_bytes: usize,
    /// Number of blocks; 1 in byte mode.
    pub blocks: usize,
    /// Block mode.
    pub is_block_mode: bool,
}

impl Extended {
    /// Number of bytes in all blocks.
    pub const fn bytes(&self) -> usize {
        self.block_bytes * self.blocks
    }

    /// Addresses of the transfer.
    fn range(&self) -> Range<u32> {
        let length = if self.increments { self.bytes() as u32 } else { 1 };
        self.address..self.address + length
    }

    /// Argument of a transfer of bytes, from 1 to 512, to or from increasing addresses.
    pub fn argument(is_write: bool, function: u8, address: u32, bytes: usize) -> u32 {
        u32::from(is_write) << 31
            | u32::from(function & 7) << 28
            | 1 << 26
            | (address & 0x1_FFFF) << 9
            | (bytes as u32 & 0x1FF)
    }
}

/// SDIO functions of a card, with their registers.
#[derive(Clone, Debug)]
pub struct IoCard {
    spec: IoFunctionSpec,
    /// CMD5 with a voltage has come, and its answer was ready.
    is_ready: bool,
    polls: u8,
    enabled: u8,
    /// Functions that the ready register shows.
    ready: u8,
    interrupts: u8,
    bus: u8,
    is_high_speed: bool,
    /// Block sizes of function 0 and the others.
    block_bytes: [u16; 8],
    windows: Vec<[u8; WINDOW_BYTES]>,
    /// Tuples of function 0 and of each other one.
    tuples: Vec<Vec<u8>>,
}

/// Voltages of the operating conditions: 2.7 to 3.6 V.
const OCR_VOLTAGES: u32 = 0x00FF_8000;
/// The functions are ready.
const OCR_READY: u32 = 1 << 31;
/// The card has memory, too.
const OCR_MEMORY: u32 = 1 << 27;

impl IoCard {
    /// The functions of a specification, after power-on.
    pub fn new(spec: IoFunctionSpec) -> Self {
        let functions = spec.functions.clamp(1, FUNCTIONS_MAX);
        let mut tuples = vec![common_tuples(&spec)];
        tuples.extend((0..functions).map(|_| function_tuples(&spec)));
        let mut io = Self {
            spec: IoFunctionSpec { functions, ..spec },
            is_ready: false,
            polls: 0,
            enabled: 0,
            ready: 0,
            interrupts: 0,
            bus: 0,
            is_high_speed: false,
            block_bytes: [0; 8],
            windows: Vec::new(),
            tuples,
        };
        io.reset();
        io
    }

    /// True when CMD5 has ended the initialisation.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn reset(&mut self) {
        (self.is_ready, self.polls) = (false, 0);
        (self.enabled, self.ready, self.interrupts, self.bus) = (0, 0, 0, 0);
        (self.is_high_speed, self.block_bytes) = (false, [0; 8]);
        self.windows = vec![[0; WINDOW_BYTES]; usize::from(self.spec.functions)];
    }

    /// CMD5: the answer R4. Without a voltage it only asks for the number of functions.
    pub fn operating_conditions(&mut self, argument: u32) -> u32 {
        if argument & OCR_VOLTAGES != 0 {
            // The first poll finds the card busy, as that of ACMD41.
            self.is_ready |= self.polls > 0;
            self.polls = 1;
        }
        let ready = if self.is_ready { OCR_READY } else { 0 };
        ready | u32::from(self.spec.functions) << 28 | OCR_MEMORY | OCR_VOLTAGES
    }

    /// CMD52: flags and data of the answer R5.
    pub fn direct(&mut self, command: Direct) -> (u8, u8) {
        let Direct { is_write, function, reads_back, address, data } = command;
        if let Err(error) = self.check(function, &(address..address + 1)) {
            return (flag::COMMAND_STATE | error, 0);
        }
        if !is_write {
            return (flag::COMMAND_STATE, self.read(function, address));
        }
        let error = self.write(function, address, data);
        let answer = if reads_back { self.read(function, address) } else { data };
        (flag::COMMAND_STATE | error, answer)
    }

    /// CMD53: the transfer, or the error flags of the answer R5.
    ///
    /// # Errors
    /// Flags of a transfer that the card refuses.
    pub fn extended(&self, argument: u32) -> Result<Extended, u8> {
        let function = (argument >> 28 & 7) as u8;
        let is_block_mode = argument >> 27 & 1 == 1;
        let count = (argument & 0x1FF) as usize;
        let (block_bytes, blocks) = match (is_block_mode, count) {
            (false, 0) => (512, 1),
            (false, count) => (count, 1),
            (true, count) => (usize::from(self.block_bytes[usize::from(function)]), count),
        };
        let transfer = Extended {
            is_write: argument >> 31 == 1,
            function,
            increments: argument >> 26 & 1 == 1,
            address: argument >> 9 & 0x1_FFFF,
            block_bytes,
            blocks,
            is_block_mode,
        };
        // A number of blocks without end, or a block size that was never set.
        if transfer.bytes() == 0 {
            return Err(flag::ERROR);
        }
        self.check(function, &transfer.range()).map(|()| transfer)
    }

    /// Data of a read transfer.
    pub fn read_transfer(&mut self, transfer: &Extended) -> Vec<u8> {
        let step = u32::from(transfer.increments);
        (0..transfer.bytes() as u32)
            .map(|byte| self.read(transfer.function, transfer.address + byte * step))
            .collect()
    }

    /// Data of a write transfer.
    pub fn write_transfer(&mut self, transfer: &Extended, data: &[u8]) {
        let step = u32::from(transfer.increments);
        for (byte, value) in (0..).zip(data.iter().take(transfer.bytes())) {
            self.write(transfer.function, transfer.address + byte * step, *value);
        }
    }

    /// Flags of an access to these addresses of a function, if it is refused.
    fn check(&self, function: u8, addresses: &Range<u32>) -> Result<(), u8> {
        if function > self.spec.functions {
            return Err(flag::FUNCTION_NUMBER);
        }
        let end = match function {
            0 => ADDRESS_MAX + 1,
            _ => WINDOW_BYTES as u32,
        };
        if addresses.end > end {
            return Err(flag::OUT_OF_RANGE);
        }
        // Registers of a function exist when it is ready.
        if function > 0 && self.ready >> function & 1 == 0 {
            return Err(flag::ERROR);
        }
        Ok(())
    }

    fn read(&mut self, function: u8, address: u32) -> u8 {
        if let Some(window) = usize::from(function).checked_sub(1) {
            return self.windows.get(window).map_or(0, |window| window[address as usize % WINDOW_BYTES]);
        }
        match address {
            // Version 1.20 of the registers, 2.00 of SDIO; 2.00 of the memory.
            cccr::REVISION => 0x32,
            cccr::SD_REVISION => 0x02,
            cccr::ENABLE => self.enabled,
            cccr::READY => std::mem::replace(&mut self.ready, self.enabled) & self.enabled,
            cccr::INTERRUPT_ENABLE => self.interrupts,
            cccr::BUS => self.bus,
            // CMD52 during a transfer, and block mode.
            cccr::CAPABILITY => 0x03,
            0x09..=0x0B => pointer(0, address - cccr::CIS),
            0x10 | 0x11 => self.block_bytes[0].to_le_bytes()[(address - cccr::BLOCK_SIZE) as usize],
            // The card has high speed.
            cccr::SPEED => 0x01 | u8::from(self.is_high_speed) << 1,
            cccr::END..0x800 => self.function_register((address >> 8) as u8, address & 0xFF),
            CIS..=ADDRESS_MAX => self.tuple_byte(address - CIS),
            _ => 0,
        }
    }

    fn function_register(&self, function: u8, offset: u32) -> u8 {
        if function > self.spec.functions {
            return 0;
        }
        match offset {
            fbr::INTERFACE => self.spec.interface & 0xF,
            0x09..=0x0B => pointer(function, offset - fbr::CIS),
            0x10 | 0x11 => {
                self.block_bytes[usize::from(function)].to_le_bytes()[(offset - fbr::BLOCK_SIZE) as usize]
            }
            _ => 0,
        }
    }

    fn tuple_byte(&self, offset: u32) -> u8 {
        let tuples = self.tuples.get((offset / CIS_BYTES) as usize);
        tuples.and_then(|tuples| tuples.get((offset % CIS_BYTES) as usize)).copied().unwrap_or(tuple::END)
    }

    /// Writes a register; other registers than those below cannot be written. Returns the error flags.
    fn write(&mut self, function: u8, address: u32, data: u8) -> u8 {
        if let Some(window) = usize::from(function).checked_sub(1) {
            if let Some(window) = self.windows.get_mut(window) {
                window[address as usize % WINDOW_BYTES] = data;
            }
            return 0;
        }
        match address {
            cccr::ENABLE => {
                self.enabled = data & self.functions_mask();
                self.ready &= self.enabled;
            }
            cccr::INTERRUPT_ENABLE => self.interrupts = data & (self.functions_mask() | 1),
            cccr::ABORT if data & RESET != 0 => self.reset(),
            // One or four lines.
            cccr::BUS if matches!(data & 3, 0 | 2) => self.bus = data & 0x83,
            cccr::BUS => return flag::ERROR,
            cccr::SPEED => self.is_high_speed = data & 0x02 != 0,
            0x10 | 0x11 => self.set_block(0, address - cccr::BLOCK_SIZE, data),
            cccr::END..0x800 if matches!(address & 0xFF, 0x10 | 0x11) => {
                self.set_block((address >> 8) as u8, (address & 0xFF) - fbr::BLOCK_SIZE, data);
            }
            _ => {}
        }
        0
    }

    fn set_block(&mut self, function: u8, byte: u32, data: u8) {
        if function > self.spec.functions {
            return;
        }
        let of = &mut self.block_bytes[usize::from(function)];
        let mut bytes = of.to_le_bytes();
        bytes[byte as usize] = data;
        *of = u16::from_le_bytes(bytes).min(2048);
    }

    /// Bits of the functions beside function 0.
    fn functions_mask(&self) -> u8 {
        ((1_u16 << (self.spec.functions + 1)) - 2) as u8
    }
}

/// A byte of the address of a function's tuples.
fn pointer(function: u8, byte: u32) -> u8 {
    (CIS + u32::from(function) * CIS_BYTES).to_le_bytes()[byte as usize]
}

fn push(tuples: &mut Vec<u8>, code: u8, body: &[u8]) {
    tuples.extend([code, u8::try_from(body.len()).unwrap_or(u8::MAX)]);
    tuples.extend(body);
}

fn manufacturer(spec: &IoFunctionSpec) -> [u8; 4] {
    let ([a, b], [c, d]) = (spec.vendor.to_le_bytes(), spec.device.to_le_bytes());
    [a, b, c, d]
}

fn common_tuples(spec: &IoFunctionSpec) -> Vec<u8> {
    let mut tuples = Vec::new();
    push(&mut tuples, tuple::VERS_1, b"\x01\x00SD\x00combo\x00\xFF");
    push(&mut tuples, tuple::MANFID, &manufacturer(spec));
    push(&mut tuples, tuple::FUNCID, &[tuple::SDIO, 0]);
    // Type 0: block size of function 0, 25 Mbit/s a line.
    let [low, high] = BLOCK_MAX.to_le_bytes();
    push(&mut tuples, tuple::FUNCE, &[0, low, high, 0x32]);
    tuples.push(tuple::END);
    tuples
}

fn function_tuples(spec: &IoFunctionSpec) -> Vec<u8> {
    let mut tuples = Vec::new();
    push(&mut tuples, tuple::MANFID, &manufacturer(spec));
    push(&mut tuples, tuple::FUNCID, &[tuple::SDIO, 0]);
    // Type 1 has 42 bytes; those that are not set here are 0.
    let mut body = [0; 42];
    body[0] = 1;
    body[12..14].copy_from_slice(&BLOCK_MAX.to_le_bytes());
    body[14..18].copy_from_slice(&OCR_VOLTAGES.to_le_bytes());
    body[28..30].copy_from_slice(&ENABLE_TIMEOUT.to_le_bytes());
    push(&mut tuples, tuple::FUNCE, &body);
    tuples.push(tuple::END);
    tuples
}

/// A tuple of the card information structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tuple {
    /// Code of the tuple.
    pub code: u8,
    /// Name of the code; `unknown` for one that a memory card seldom has.
    pub name: &'static str,
    /// Bytes behind the length, as hexadecimal digits.
    pub body: String,
}

/// A function as a host's driver finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionView {
    /// Number from 1 on.
    pub number: u8,
    /// Code of the standard interface (FBR).
    pub interface: u8,
    /// Vendor of CISTPL_MANFID.
    pub vendor: u16,
    /// Device of CISTPL_MANFID.
    pub device: u16,
    /// Largest block of CMD53 in bytes (CISTPL_FUNCE).
    pub block_bytes: u16,
    /// Time in which the function is ready after it was enabled, ms.
    pub enable_timeout_ms: u32,
    /// True if the function is ready after it was enabled.
    pub is_ready: bool,
    /// True if a pattern that CMD53 writes to its registers comes back.
    pub reads_back: bool,
    /// Its tuples.
    pub tuples: Vec<Tuple>,
}

/// SDIO functions as a host's driver finds them by CMD52 and CMD53.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IoView {
    /// Version of the common registers (CCCR).
    pub cccr_version: &'static str,
    /// Version of SDIO.
    pub sdio_version: &'static str,
    /// Tuples of the card.
    pub tuples: Vec<Tuple>,
    /// Functions beside the memory.
    pub functions: Vec<FunctionView>,
}

/// Commands that a host has for functions.
pub trait IoBus {
    /// CMD52: flags and data of R5.
    fn direct(&mut self, command: Direct) -> (u8, u8);
    /// CMD53 that writes bytes to increasing addresses: flags of R5.
    fn write_bytes(&mut self, function: u8, address: u32, data: &[u8]) -> u8;
    /// CMD53 that reads bytes from increasing addresses; none where it is refused.
    fn read_bytes(&mut self, function: u8, address: u32, bytes: usize) -> Option<Vec<u8>>;
}

/// Most tuples that a host reads of a function, and most reads of the ready register.
const TUPLES_MAX: usize = 32;
const READY_POLLS: usize = 10;

/// Bytes that a host writes to a function to see whether they come back.
const PATTERN: [u8; 8] = [0x5A, 0xA5, 0x00, 0xFF, 0x12, 0x34, 0x56, 0x78];

impl IoView {
    /// Looks at all functions: registers and tuples by CMD52, then each function is enabled, and its window is written and read by CMD53.
    pub fn read(bus: &mut impl IoBus, functions: u8) -> Self {
        let revision = byte(bus, cccr::REVISION);
        Self {
            cccr_version: match revision & 0xF {
                0 => "1.00",
                1 => "1.10",
                2 => "1.20",
                3 => "3.00",
                _ => "unknown",
            },
            sdio_version: match revision >> 4 {
                0 => "1.00",
                1 => "1.10",
                2 => "1.20",
                3 => "2.00",
                4 => "3.00",
                _ => "unknown",
            },
            tuples: tuples(bus, cccr::CIS).into_iter().map(|(code, body)| tuple_of(code, &body)).collect(),
            functions: (1..=functions.min(FUNCTIONS_MAX)).map(|number| function(bus, number)).collect(),
        }
    }
}

fn byte(bus: &mut impl IoBus, address: u32) -> u8 {
    bus.direct(Direct::read(0, address)).1
}

/// Code and body of the tuples to which a pointer of three bytes points.
fn tuples(bus: &mut impl IoBus, pointer: u32) -> Vec<(u8, Vec<u8>)> {
    let [low, middle, high] = [0, 1, 2].map(|place| u32::from(byte(bus, pointer + place)));
    let mut address = low | middle << 8 | high << 16;
    let mut found = Vec::new();
    while found.len() < TUPLES_MAX && address <= ADDRESS_MAX {
        let code = byte(bus, address);
        if code == tuple::END {
            break;
        }
        // CISTPL_NULL is a byte without length.
        if code == 0 {
            address += 1;
            continue;
        }
        let length = u32::from(byte(bus, address + 1));
        found.push((code, (0..length).map(|place| byte(bus, address + 2 + place)).collect()));
        address += 2 + length;
    }
    found
}

fn tuple_of(code: u8, body: &[u8]) -> Tuple {
    let name = match code {
        tuple::VERS_1 => "CISTPL_VERS_1",
        tuple::MANFID => "CISTPL_MANFID",
        tuple::FUNCID => "CISTPL_FUNCID",
        tuple::FUNCE => "CISTPL_FUNCE",
        _ => "unknown",
    };
    Tuple { code, name, body: body.iter().map(|byte| format!("{byte:02x}")).collect() }
}

fn function(bus: &mut impl IoBus, number: u8) -> FunctionView {
    let registers = u32::from(number) << 8;
    let own = tuples(bus, registers + fbr::CIS);
    let word = |code: u8, at: usize| {
        let body = own.iter().find(|(own, _)| *own == code).map(|(_, body)| body);
        let bytes = body.and_then(|body| Some([*body.get(at)?, *body.get(at + 1)?]));
        bytes.map_or(0, u16::from_le_bytes)
    };
    let (vendor, device) = (word(tuple::MANFID, 0), word(tuple::MANFID, 2));
    let (block_bytes, timeout) = (word(tuple::FUNCE, 12), word(tuple::FUNCE, 28));
    let interface = byte(bus, registers + fbr::INTERFACE) & 0xF;
    let enabled = byte(bus, cccr::ENABLE) | 1 << number;
    bus.direct(Direct::write(0, cccr::ENABLE, enabled));
    let is_ready = (0..READY_POLLS).any(|_| byte(bus, cccr::READY) >> number & 1 == 1);
    let is_written = bus.write_bytes(number, 0, &PATTERN) & flag::ERRORS == 0;
    let back = bus.read_bytes(number, 0, PATTERN.len());
    FunctionView {
        number,
        interface,
        vendor,
        device,
        block_bytes,
        enable_timeout_ms: u32::from(timeout) * 10,
        is_ready,
        reads_back: is_written && back.is_some_and(|back| back == PATTERN),
        tuples: own.iter().map(|(code, body)| tuple_of(*code, body)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: IoFunctionSpec =
        IoFunctionSpec { interface: 7, vendor: 0x0296, device: 0x5347, functions: 2 };

    impl IoBus for IoCard {
        fn direct(&mut self, command: Direct) -> (u8, u8) {
            IoCard::direct(self, Direct::of(command.argument()))
        }

        fn write_bytes(&mut self, function: u8, address: u32, data: &[u8]) -> u8 {
            match self.extended(Extended::argument(true, function, address, data.len())) {
                Ok(transfer) => self.write_transfer(&transfer, data),
                Err(flags) => return flags,
            }
            0
        }

        fn read_bytes(&mut self, function: u8, address: u32, bytes: usize) -> Option<Vec<u8>> {
            let transfer = self.extended(Extended::argument(false, function, address, bytes)).ok()?;
            Some(self.read_transfer(&transfer))
        }
    }

    #[test]
    fn a_driver_finds_each_function_and_what_it_writes_comes_back() {
        let mut card = IoCard::new(SPEC);
        assert_eq!(card.operating_conditions(0) >> 28, 2, "two functions, not ready");
        card.operating_conditions(OCR_VOLTAGES);
        assert_eq!(card.operating_conditions(OCR_VOLTAGES) & OCR_READY, OCR_READY);
        let view = IoView::read(&mut card, 2);
        assert_eq!((view.cccr_version, view.sdio_version), ("1.20", "2.00"));
        let names: Vec<&str> = view.tuples.iter().map(|tuple| tuple.name).collect();
        assert_eq!(names, ["CISTPL_VERS_1", "CISTPL_MANFID", "CISTPL_FUNCID", "CISTPL_FUNCE"]);
        for (function, number) in view.functions.iter().zip(1..) {
            let numbers = (function.number, function.interface, function.vendor, function.device);
            assert_eq!(numbers, (number, 7, 0x0296, 0x5347));
            assert!(function.is_ready && function.reads_back, "{function:?}");
            assert_eq!((function.block_bytes, function.enable_timeout_ms), (512, 10));
        }
    }

    #[test]
    fn what_a_function_does_not_have_is_refused_by_flags() {
        let mut card = IoCard::new(SPEC);
        let direct = |card: &mut IoCard, command| card.direct(command).0 & flag::ERRORS;
        assert_eq!(direct(&mut card, Direct::read(3, 0)), flag::FUNCTION_NUMBER);
        assert_eq!(direct(&mut card, Direct::read(1, 0)), flag::ERROR, "not enabled");
        assert_eq!(direct(&mut card, Direct::write(0, cccr::BUS, 1)), flag::ERROR, "no such width");
        card.direct(Direct::write(0, cccr::ENABLE, 0xFF));
        assert_eq!(card.direct(Direct::read(0, cccr::ENABLE)).1, 0b110, "two functions");
        assert_eq!(card.direct(Direct::read(0, cccr::READY)).1, 0);
        assert_eq!(card.direct(Direct::read(0, cccr::READY)).1, 0b110);
        assert_eq!(direct(&mut card, Direct::read(1, WINDOW_BYTES as u32)), flag::OUT_OF_RANGE);
        assert_eq!(card.extended(Extended::argument(true, 1, 510, 4)), Err(flag::OUT_OF_RANGE));
        assert_eq!(card.extended(1 << 28 | 1 << 27 | 1), Err(flag::ERROR), "no block size");
        card.direct(Direct::write(0, 0x111, 1));
        let blocks = card.extended(1 << 28 | 1 << 27 | 1 << 26 | 2).unwrap();
        assert_eq!((blocks.block_bytes, blocks.bytes()), (256, 512));
        card.direct(Direct::write(1, 5, 0x77));
        assert_eq!(card.direct(Direct::read(1, 5)).1, 0x77);
        card.direct(Direct::reset());
        assert_eq!(direct(&mut card, Direct::read(1, 5)), flag::ERROR, "reset");
    }
}
