//! Opcodes, feature registers and their bits that are common to several makers (Linux: `spinand.h`).

use crate::spi::{Direction, SpiOp};

pub(super) const RESET: u8 = 0xFF;
pub(super) const RESET_ENABLE: u8 = 0x66;
pub(super) const RESET_DEVICE: u8 = 0x99;
pub(super) const READ_ID: u8 = 0x9F;
pub(super) const WRITE_ENABLE: u8 = 0x06;
pub(super) const WRITE_DISABLE: u8 = 0x04;
pub(super) const GET_FEATURE: u8 = 0x0F;
pub(super) const SET_FEATURE: u8 = 0x1F;
/// Second opcode of GET FEATURE on Winbond's chips, which call it READ STATUS REGISTER.
pub(super) const READ_STATUS: u8 = 0x05;
/// Second opcode of SET FEATURE on Winbond's chips, which call it WRITE STATUS REGISTER.
pub(super) const WRITE_STATUS: u8 = 0x01;
pub(super) const PAGE_READ: u8 = 0x13;
pub(super) const PROGRAM_EXECUTE: u8 = 0x10;
pub(super) const BLOCK_ERASE: u8 = 0xD8;
/// Software die select, with the number of the die as data byte (Winbond).
pub(super) const DIE_SELECT: u8 = 0xC2;
/// Write of a volatile configuration register: three address bytes, one data byte (Winbond W35N).
pub(super) const WRITE_VCR: u8 = 0x81;
/// Read of the ECC status in detail: one dummy byte, one data byte (Macronix).
pub(super) const READ_ECC_STATUS: u8 = 0x7C;

/// Block protection register.
pub(super) const PROTECTION: u8 = 0xA0;
/// Block protect bits of the protection register.
pub(super) const BLOCK_PROTECT: u8 = 0x78;
/// Configuration register.
pub(super) const CONFIG: u8 = 0xB0;
/// Configuration bit: quad lanes enabled.
pub(super) const QUAD_ENABLE: u8 = 1 << 0;
/// Configuration bit: on-die ECC enabled.
pub(super) const ECC_ENABLE: u8 = 1 << 4;
/// Configuration bit: PAGE READ and PROGRAM EXECUTE access the OTP pages.
pub(super) const OTP_ENABLE: u8 = 1 << 6;
/// Configuration bit: the user OTP pages are locked, or the next PROGRAM EXECUTE locks them.
pub(super) const OTP_LOCK: u8 = 1 << 7;
/// Register with the number of corrected bits, in bits 7:4 (Winbond W25NxxKV).
pub(super) const WINBOND_ECC_STATUS: u8 = 0x30;
/// Register with the number of corrected bits minus one, in bits 5:4 (GigaDevice Q5).
pub(super) const GIGADEVICE_ECC_STATUS: u8 = 0xF0;
/// Status register.
pub(super) const STATUS: u8 = 0xC0;
/// Status bit: operation in progress.
pub(super) const BUSY: u8 = 1 << 0;
/// Status bit: write enable latch.
pub(super) const WRITE_ENABLED: u8 = 1 << 1;
/// Status bit: the last erase failed.
pub(super) const ERASE_FAILED: u8 = 1 << 2;
/// Status bit: the last program failed.
pub(super) const PROGRAM_FAILED: u8 = 1 << 3;
/// Status bits: result of the on-die ECC.
pub(super) const ECC_MASK: u8 = 3 << 4;
/// ECC result: bits were corrected.
pub(super) const ECC_CORRECTED: u8 = 1 << 4;
/// ECC result: uncorrectable.
pub(super) const ECC_UNCORRECTABLE: u8 = 2 << 4;
/// ECC result: on Winbond more than one uncorrectable page in a continuous read, on other chips corrected
/// up to the limit.
pub(super) const ECC_BOTH: u8 = 3 << 4;

/// OTP page with the unique id.
pub(super) const UNIQUE_ID_PAGE: u32 = 0;
/// OTP page with the ONFI parameter page.
pub(super) const PARAMETER_PAGE: u32 = 1;
/// First OTP page for the user.
pub(super) const FIRST_USER_PAGE: u32 = 2;

/// Name of an operation, for traces.
pub(super) fn name(op: &SpiOp) -> &'static str {
    match (op.opcode, op.dir) {
        (RESET, _) => "RESET FFh",
        (READ_ID, _) => "READ ID 9Fh",
        (WRITE_ENABLE, _) => "WRITE ENABLE 06h",
        (GET_FEATURE, _) => "GET FEATURE 0Fh",
        (SET_FEATURE, _) => "SET FEATURE 1Fh",
        (READ_STATUS, Direction::In) => "READ STATUS 05h",
        (WRITE_STATUS, Direction::Out) => "WRITE STATUS 01h",
        (PAGE_READ, _) => "PAGE READ 13h",
        (PROGRAM_EXECUTE, _) => "PROGRAM EXECUTE 10h",
        (BLOCK_ERASE, Direction::None) => "BLOCK ERASE D8h",
        (_, Direction::In) if op.len > 8 => "READ FROM CACHE",
        (_, Direction::Out) if op.len > 8 => "PROGRAM LOAD",
        _ => "command",
    }
}
