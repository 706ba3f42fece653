//! Commands of SPI NOR that are not part of a specification (Linux: `spi-nor.h`, and the files of the
//! makers).
//!
//! Reads, programs and erases are part of a part's specification, because their opcodes depend on bus modes
//! and sizes.

/// WRITE STATUS REGISTER 1, or of several registers.
pub(super) const WRITE_STATUS: u8 = 0x01;
/// PAGE PROGRAM on one lane.
pub(super) const PAGE_PROGRAM: u8 = 0x02;
/// READ on one lane.
pub(super) const READ: u8 = 0x03;
/// WRITE DISABLE.
pub(super) const WRITE_DISABLE: u8 = 0x04;
/// READ STATUS REGISTER 1.
pub(super) const READ_STATUS: u8 = 0x05;
/// WRITE ENABLE.
pub(super) const WRITE_ENABLE: u8 = 0x06;
/// FAST READ on one lane.
pub(super) const FAST_READ: u8 = 0x0B;
/// FAST READ with a four-byte address.
pub(super) const FAST_READ_4B: u8 = 0x0C;
/// PAGE PROGRAM with a four-byte address.
pub(super) const PAGE_PROGRAM_4B: u8 = 0x12;
/// READ with a four-byte address.
pub(super) const READ_4B: u8 = 0x13;
/// READ SFDP.
pub(super) const READ_SFDP: u8 = 0x5A;
/// CHIP ERASE, older opcode.
pub(super) const CHIP_ERASE_OLD: u8 = 0x60;
/// RESET ENABLE.
pub(super) const RESET_ENABLE: u8 = 0x66;
/// RESET MEMORY.
pub(super) const RESET: u8 = 0x99;
/// READ ID.
pub(super) const READ_ID: u8 = 0x9F;
/// ENTER 4-BYTE ADDRESS MODE.
pub(super) const ENTER_4B: u8 = 0xB7;
/// CHIP ERASE.
pub(super) const CHIP_ERASE: u8 = 0xC7;
/// EXIT 4-BYTE ADDRESS MODE.
pub(super) const EXIT_4B: u8 = 0xE9;
/// READ UNIQUE ID.
pub(super) const READ_UNIQUE_ID: u8 = 0x4B;

/// Registers and security registers of Winbond.
pub(super) mod winbond {
    /// READ STATUS REGISTER 2, also of Spansion and GigaDevice.
    pub(in super::super) const READ_STATUS_2: u8 = 0x35;
    /// WRITE STATUS REGISTER 2.
    pub(in super::super) const WRITE_STATUS_2: u8 = 0x31;
    /// READ STATUS REGISTER 3.
    pub(in super::super) const READ_STATUS_3: u8 = 0x15;
    /// WRITE STATUS REGISTER 3.
    pub(in super::super) const WRITE_STATUS_3: u8 = 0x11;
    /// READ SECURITY REGISTER.
    pub(in super::super) const READ_SECURITY: u8 = 0x48;
    /// PROGRAM SECURITY REGISTER.
    pub(in super::super) const PROGRAM_SECURITY: u8 = 0x42;
    /// ERASE SECURITY REGISTER.
    pub(in super::super) const ERASE_SECURITY: u8 = 0x44;
}

/// Registers and information rows of ISSI.
pub(super) mod issi {
    /// READ INFORMATION ROW.
    pub(in super::super) const READ_ROW: u8 = 0x68;
    /// PROGRAM INFORMATION ROW.
    pub(in super::super) const PROGRAM_ROW: u8 = 0x62;
    /// ERASE INFORMATION ROW.
    pub(in super::super) const ERASE_ROW: u8 = 0x64;
    /// READ FUNCTION REGISTER.
    pub(in super::super) const READ_FUNCTION: u8 = 0x48;
    /// WRITE FUNCTION REGISTER.
    pub(in super::super) const WRITE_FUNCTION: u8 = 0x42;
}

/// Registers and secured area of Macronix.
pub(super) mod macronix {
    /// READ CONFIGURATION REGISTER.
    pub(in super::super) const READ_CONFIG: u8 = 0x15;
    /// READ SECURITY REGISTER, which contains the fail bits.
    pub(in super::super) const READ_SECURITY: u8 = 0x2B;
    /// WRITE SECURITY REGISTER, which locks the secured area.
    pub(in super::super) const WRITE_SECURITY: u8 = 0x2F;
    /// READ CONFIGURATION REGISTER 2.
    pub(in super::super) const READ_CONFIG_2: u8 = 0x71;
    /// WRITE CONFIGURATION REGISTER 2.
    pub(in super::super) const WRITE_CONFIG_2: u8 = 0x72;
    /// ENTER SECURED OTP.
    pub(in super::super) const ENTER_OTP: u8 = 0xB1;
    /// EXIT SECURED OTP.
    pub(in super::super) const EXIT_OTP: u8 = 0xC1;
    /// Value of configuration register 2 for 8D-8D-8D.
    pub(in super::super) const CONFIG_2_OCTAL_DTR: u8 = 0x02;
}

/// Registers of Spansion.
pub(super) mod spansion {
    /// CLEAR STATUS REGISTER.
    pub(in super::super) const CLEAR_STATUS: u8 = 0x30;
}

/// Registers of Infineon's Semper family, originally by Cypress.
pub(super) mod infineon {
    /// READ ANY REGISTER.
    pub(in super::super) const READ_ANY: u8 = 0x65;
    /// WRITE ANY REGISTER.
    pub(in super::super) const WRITE_ANY: u8 = 0x71;
    /// CLEAR PROGRAM AND ERASE FAILURE FLAGS.
    pub(in super::super) const CLEAR_FAILURES: u8 = 0x82;
    /// Address of volatile configuration register 5.
    pub(in super::super) const CFR5V: u32 = 0x80_0006;
    /// Value of configuration register 5 for single lane commands.
    pub(in super::super) const CFR5_SINGLE: u8 = 0x40;
    /// Value of configuration register 5 for 8D-8D-8D.
    pub(in super::super) const CFR5_OCTAL_DTR: u8 = 0x43;
}

/// Registers and OTP area of Micron.
pub(super) mod micron {
    /// READ FLAG STATUS REGISTER.
    pub(in super::super) const READ_FLAG_STATUS: u8 = 0x70;
    /// CLEAR FLAG STATUS REGISTER.
    pub(in super::super) const CLEAR_FLAG_STATUS: u8 = 0x50;
    /// READ VOLATILE CONFIGURATION REGISTER.
    pub(in super::super) const READ_VCR: u8 = 0x85;
    /// WRITE VOLATILE CONFIGURATION REGISTER.
    pub(in super::super) const WRITE_VCR: u8 = 0x81;
    /// READ OTP ARRAY.
    pub(in super::super) const READ_OTP: u8 = 0x4B;
    /// PROGRAM OTP ARRAY.
    pub(in super::super) const PROGRAM_OTP: u8 = 0x42;
    /// Value of volatile configuration register 0 for 8D-8D-8D.
    pub(in super::super) const VCR_OCTAL_DTR: u8 = 0xE7;
    /// Value of volatile configuration register 0 after power-on.
    pub(in super::super) const VCR_RESET: u8 = 0xFF;
}
