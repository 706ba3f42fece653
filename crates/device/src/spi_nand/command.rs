//! Opcodes, feature registers and their bits, where makers agree on them (Linux: `spinand.h`).

use crate::spi::{Direction, SpiOp};

pub(super) const RESET: u8 = 0xFF;
pub(super) const RESET_ENABLE: u8 = 0x66;
pub(super) const RESET_DEVICE: u8 = 0x99;
pub(super) const READ_ID: u8 = 0x9F;
pub(super) const WRITE_ENABLE: u8 = 0x06;
pub(super) const WRITE_DISABLE: u8 = 0x04;
pub(super) const GET_FEATURE: u8 = 0x0F;
pub(super) const SET_FEATURE: u8 = 0x1F;
pub(super) const PAGE_READ: u8 = 0x13;
pub(super) const PROGRAM_EXECUTE: u8 = 0x10;
pub(super) const BLOCK_ERASE: u8 = 0xD8;
/// Winbond: software die select, one data byte with the die's number.
pub(super) const DIE_SELECT: u8 = 0xC2;
/// Winbond W35N: write a volatile configuration register (three address bytes, one data byte).
pub(super) const WRITE_VCR: u8 = 0x81;
/// Macronix: ECC status detail (one dummy byte, one data byte).
pub(super) const READ_ECC_STATUS: u8 = 0x7C;

/// Block protection register.
pub(super) const PROTECTION: u8 = 0xA0;
/// Its block protect bits.
pub(super) const BLOCK_PROTECT: u8 = 0x78;
/// Configuration register.
pub(super) const CONFIG: u8 = 0xB0;
/// Configuration: quad lanes enabled.
pub(super) const QUAD_ENABLE: u8 = 1 << 0;
/// Configuration: on-die ECC enabled.
pub(super) const ECC_ENABLE: u8 = 1 << 4;
/// Configuration: PAGE READ and PROGRAM EXECUTE address the OTP pages.
pub(super) const OTP_ENABLE: u8 = 1 << 6;
/// Configuration: the user OTP pages are locked, or are to be locked by the next PROGRAM EXECUTE.
pub(super) const OTP_LOCK: u8 = 1 << 7;
/// Winbond W25NxxKV: bits corrected, in bits 7:4.
pub(super) const WINBOND_ECC_STATUS: u8 = 0x30;
/// GigaDevice Q5: one less than the bits corrected, in bits 5:4.
pub(super) const GIGADEVICE_ECC_STATUS: u8 = 0xF0;
/// Status register.
pub(super) const STATUS: u8 = 0xC0;
/// Status: operation in progress.
pub(super) const BUSY: u8 = 1 << 0;
/// Status: write enable latch.
pub(super) const WRITE_ENABLED: u8 = 1 << 1;
/// Status: the last erase failed.
pub(super) const ERASE_FAILED: u8 = 1 << 2;
/// Status: the last program failed.
pub(super) const PROGRAM_FAILED: u8 = 1 << 3;
/// Status: result of the on-die ECC.
pub(super) const ECC_MASK: u8 = 3 << 4;
/// ECC result: bits were corrected.
pub(super) const ECC_CORRECTED: u8 = 1 << 4;
/// ECC result: too many wrong bits.
pub(super) const ECC_UNCORRECTABLE: u8 = 2 << 4;
/// ECC result: on Winbond more than one bad page of a continuous read, on others corrected up to the limit.
pub(super) const ECC_BOTH: u8 = 3 << 4;

/// OTP page with the unique id.
pub(super) const UNIQUE_ID_PAGE: u32 = 0;
/// OTP page with the ONFI parameter page.
pub(super) const PARAMETER_PAGE: u32 = 1;
/// First OTP page of the user.
pub(super) const FIRST_USER_PAGE: u32 = 2;

/// Name of an operation, for pictures.
pub(super) fn name(op: &SpiOp) -> &'static str {
    match (op.opcode, op.dir) {
        (RESET, _) => "RESET FFh",
        (READ_ID, _) => "READ ID 9Fh",
        (WRITE_ENABLE, _) => "WRITE ENABLE 06h",
        (GET_FEATURE, _) => "GET FEATURE 0Fh",
        (SET_FEATURE, _) => "SET FEATURE 1Fh",
        (PAGE_READ, _) => "PAGE READ 13h",
        (PROGRAM_EXECUTE, _) => "PROGRAM EXECUTE 10h",
        (BLOCK_ERASE, Direction::None) => "BLOCK ERASE D8h",
        (_, Direction::In) if op.len > 8 => "READ FROM CACHE",
        (_, Direction::Out) if op.len > 8 => "PROGRAM LOAD",
        _ => "command",
    }
}
