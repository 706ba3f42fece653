//! Specification of a SPI NOR part: the `[chip]` table of its part file.

use super::command::{infineon, issi, macronix, micron, winbond};
use crate::spi::{CmdExt, Mode, Variant};
use crate::units::{self, TypMaxUs};
use floatgate_media::sfdp::OctalSequence;
use floatgate_mtd::Nanos;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;

/// Properties of a SPI NOR part that determine its command set, its timing and its driver.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiNorSpec {
    /// JEDEC ID that READ ID 9Fh returns: maker, type, density, and extended bytes if the chip has them.
    pub id: Vec<u8>,
    /// Sizes of the chip and of its pages.
    pub geometry: NorGeometry,
    /// Times of all operations except erases of sectors and blocks.
    pub timing: NorTiming,
    /// Erase types by name, with their sizes.
    pub erase: BTreeMap<String, EraseType>,
    /// Read commands with the address length of the current address mode.
    pub reads: Vec<Variant>,
    /// Read commands with four address bytes in each address mode.
    #[serde(default)]
    pub reads_4b: Vec<Variant>,
    /// Page program commands with the address length of the current address mode.
    pub programs: Vec<Variant>,
    /// Page program commands with four address bytes in each address mode.
    #[serde(default)]
    pub programs_4b: Vec<Variant>,
    /// Highest clock at single rate in Hz, for all commands without their own limit.
    #[serde(with = "units::hz")]
    pub max_sdr_hz: u64,
    /// Highest clock at double rate in Hz; 0 if the chip has no such commands.
    #[serde(default, with = "units::hz")]
    pub max_dtr_hz: u64,
    /// Procedure that changes the address mode.
    #[serde(default)]
    pub addressing: Addressing,
    /// Bit that must be set for four data lines (quad enable).
    #[serde(default)]
    pub quad_enable: QuadEnable,
    /// Registers in addition to the status register.
    #[serde(default)]
    pub registers: RegisterSet,
    /// Mode 8D-8D-8D and the procedure that enters it; none if the chip does not have this mode.
    #[serde(default)]
    pub octal: Option<Octal>,
    /// Configurable numbers of dummy cycles; none if they are fixed.
    #[serde(default)]
    pub dummy: Option<DummyControl>,
    /// True if the chip supports READ SFDP 5Ah.
    #[serde(default = "yes")]
    pub sfdp: bool,
    /// Pieces of the SFDP area as read from a chip; bytes between them are FFh. Without pieces, the area is generated
    /// from this specification.
    #[serde(default)]
    pub sfdp_bytes: Vec<SfdpPiece>,
    /// One-time-programmable area; none if the chip has no such area.
    #[serde(default)]
    pub otp: Option<OtpSpec>,
    /// Block protection by bits of the status register; none if the chip has no such bits.
    #[serde(default)]
    pub protection: Option<Protection>,
    /// True if the package has a reset pin.
    #[serde(default)]
    pub reset_pin: bool,
    /// True if the commands 66h and 99h reset the chip.
    #[serde(default)]
    pub soft_reset: bool,
    /// Suspend of programs and erases; none if the chip cannot suspend.
    #[serde(default)]
    pub suspend: Option<Suspend>,
    /// Number of erase cycles that the maker guarantees.
    #[serde(default = "hundred_thousand")]
    pub endurance_cycles: u64,
    /// Data retention that the maker guarantees, in years.
    #[serde(default)]
    pub retention_years: u32,
}

const fn yes() -> bool {
    true
}

const fn hundred_thousand() -> u64 {
    100_000
}

/// Sizes of a SPI NOR part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorGeometry {
    /// Size of the array, in bytes.
    #[serde(with = "units::bytes")]
    pub size_bytes: u64,
    /// Size of the program buffer, in bytes.
    #[serde(default = "page_bytes", deserialize_with = "small_bytes")]
    pub page_bytes: u32,
    /// Number of banks of equal size.
    #[serde(default = "one")]
    pub banks: u8,
    /// True if one bank can be read while another bank programs or erases.
    #[serde(default)]
    pub read_while_write: bool,
}

const fn page_bytes() -> u32 {
    256
}

const fn one() -> u8 {
    1
}

fn small_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    let bytes = units::bytes::deserialize(d)?;
    u32::try_from(bytes).map_err(|_| de::Error::custom("this size must be below 4 GiB"))
}

/// Times of programs, chip erase, register writes and reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorTiming {
    /// Time of PAGE PROGRAM for a whole page, us.
    pub t_pp_us: TypMaxUs,
    /// Time of PAGE PROGRAM for a single byte, us; the time for a whole page when absent. Times for other lengths are
    /// interpolated.
    #[serde(default)]
    pub t_byte_us: Option<TypMaxUs>,
    /// Time of CHIP ERASE (C7h, 60h), us.
    pub t_ce_us: TypMaxUs,
    /// Time of WRITE STATUS REGISTER (non-volatile), us.
    pub t_w_us: TypMaxUs,
    /// Time of a reset by commands or by the pin, us.
    #[serde(default = "thirty_us", with = "units::us")]
    pub t_rst_us: Nanos,
}

const fn thirty_us() -> Nanos {
    Nanos::from_us(30)
}

/// An erase type: size, commands and times.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EraseType {
    /// Number of bytes that the command erases.
    #[serde(deserialize_with = "small_bytes")]
    pub bytes: u32,
    /// Command with the address length of the current address mode.
    pub opcode: u8,
    /// Command with four address bytes in each address mode; none if the chip has no such command.
    #[serde(default)]
    pub opcode_4b: Option<u8>,
    /// Duration of the erase, us.
    pub t_us: TypMaxUs,
    /// Blocks with a longer erase time; none if all blocks are equal.
    #[serde(default)]
    pub tail: Option<EraseTail>,
}

/// Share of blocks whose erase is slower than typical. The seed of the chip determines these blocks.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EraseTail {
    /// Share of these blocks among all blocks, 0 to 1.
    pub p: f64,
    /// Erase time of these blocks, us.
    #[serde(with = "units::us")]
    pub us: Nanos,
}

/// Procedure that changes the address mode (three or four bytes). Every chip powers up with three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addressing {
    /// Three bytes only, so that addresses beyond 16 MiB need commands with four address bytes.
    #[default]
    Fixed,
    /// Commands B7h and E9h.
    En4b,
    /// Commands B7h and E9h, each after WRITE ENABLE.
    WrenEn4b,
}

/// Register bit that switches WP# and HOLD# to data lines (names as in JESD216's QER field).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuadEnable {
    /// No bit.
    #[default]
    None,
    /// Bit 6 of the status register (Macronix, ISSI).
    Sr1Bit6,
    /// Bit 1 of status register 2, which command 31h writes (Winbond, GigaDevice).
    Sr2Bit1,
    /// Bit 1 of status register 2, which command 01h writes together with status register 1 (older parts).
    Sr2Bit1By01,
}

/// Registers in addition to the status register, which differ between makers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegisterSet {
    /// Only the status register (05h, 01h).
    #[default]
    Plain,
    /// Status registers 2 (35h, 31h) and 3 (15h, 11h), with the lock bits LB1 to LB3 and the bit SUS in register 2.
    Winbond,
    /// Configuration register (15h), security register (2Bh, 2Fh) with fail and suspend bits, and CR2 (71h, 72h).
    Macronix,
    /// Configuration register (35h), which command 01h writes after the status register, and fail bits in the status
    /// register, which 30h clears.
    Spansion,
    /// Flag status register (70h, 50h) with fail and suspend bits, and volatile configuration register (85h, 81h).
    Micron,
}

/// Stateful mode 8D-8D-8D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Octal {
    /// Register that switches the mode on and off.
    pub switch: OctalSwitch,
    /// Second command byte.
    pub ext: CmdExt,
    /// Number of address bytes of register reads in 8D-8D-8D.
    pub status_addr_bytes: u8,
    /// Number of dummy cycles of register reads in 8D-8D-8D.
    pub status_dummy: u8,
    /// Number of dummy cycles of READ ID in 8D-8D-8D; the number for register reads when absent.
    #[serde(default)]
    pub id_dummy: Option<u8>,
    /// True if the chip swaps the two bytes of each 16-bit word of the array in 8D-8D-8D (Linux: `SNOR_F_SWAP16`).
    #[serde(default)]
    pub swap16: bool,
}

impl Octal {
    /// Address of the register that switches 8D-8D-8D, and its values for off and on.
    pub(super) const fn mode_register(&self) -> (u32, u8, u8) {
        match self.switch {
            OctalSwitch::MicronVcr => (0, micron::VCR_RESET, micron::VCR_OCTAL_DTR),
            OctalSwitch::MacronixCr2 => (0, 0, macronix::CONFIG_2_OCTAL_DTR),
            OctalSwitch::InfineonCfr => (infineon::CFR5V, infineon::CFR5_SINGLE, infineon::CFR5_OCTAL_DTR),
            // A simulated chip does not have this switch: its register has no effect.
            OctalSwitch::Sequence(_) => (0, micron::VCR_RESET, micron::VCR_RESET),
        }
    }
}

/// Procedure that enables octal DTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OctalSwitch {
    /// Macronix: CR2 (72h, four address bytes), address 0, with 02h for on and 00h for off.
    MacronixCr2,
    /// Micron: volatile configuration register (81h), address 0, with E7h for on and FFh for off.
    MicronVcr,
    /// Infineon's Semper: any register (71h), CFR5V, with 43h for on and 40h for off.
    InfineonCfr,
    /// Commands that a driver reads from the chip's SFDP; a part file cannot contain this value.
    #[serde(skip)]
    Sequence(OctalSequence),
}

/// Configurable dummy cycles of read commands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DummyControl {
    /// Address of the register, which is written with the command of the octal switch.
    pub register: u32,
    /// Number of dummy cycles after power-on.
    pub default: u8,
    /// Pairs of a number of dummy cycles and its register value.
    pub values: Vec<[u8; 2]>,
    /// Modes whose dummy cycles the register sets.
    pub modes: Vec<Mode>,
}

impl DummyControl {
    /// Register value for a number of dummy cycles.
    pub fn value(&self, cycles: u8) -> Option<u8> {
        self.values.iter().find(|pair| pair[0] == cycles).map(|pair| pair[1])
    }

    /// Number of dummy cycles for a register value.
    pub fn cycles(&self, value: u8) -> Option<u8> {
        self.values.iter().find(|pair| pair[1] == value).map(|pair| pair[0])
    }
}

/// One-time-programmable area, by type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OtpSpec {
    /// Security registers (ISSI: information rows), each with a lock bit.
    SecurityRegisters {
        /// Number of registers. Winbond's chips have lock bits for three, and ISSI's chips for four.
        regions: u8,
        /// Size of each register, in bytes.
        region_bytes: u32,
        /// Address of the first register.
        base: u32,
        /// Distance between the addresses of the registers.
        stride: u32,
        /// Commands and lock bits of the registers.
        #[serde(default)]
        family: SecurityFamily,
        /// Length of the unique ID, which 4Bh reads after 32 dummy cycles; 0 if the chip has no unique ID.
        #[serde(default)]
        unique_id_bytes: u32,
    },
    /// Macronix: secured area, which the usual reads and programs access between B1h and C1h, and WRSCUR 2Fh locks as
    /// a whole. The end of the area belongs to the factory.
    Secured {
        /// Size of the user's part, in bytes.
        user_bytes: u32,
        /// Size of the factory's part after it, in bytes.
        factory_bytes: u32,
    },
    /// Micron: area with the commands read 4Bh and program 42h, and a byte after its end that locks it.
    ControlByte {
        /// Size of the area without the control byte, in bytes.
        bytes: u32,
    },
}

/// Commands and lock bits of security registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecurityFamily {
    /// Read 48h, program 42h, erase 44h, with the lock bits LB1 to LB3 (bits 3 to 5 of status register 2).
    #[default]
    Winbond,
    /// Read 68h, program 62h, erase 64h, with the lock bits IRL0 to IRL3 (bits 4 to 7 of the function register, 48h
    /// and 42h).
    Issi,
}

impl SecurityFamily {
    /// Number of lock bits.
    pub(crate) const fn locks(self) -> usize {
        match self {
            Self::Winbond => 3,
            Self::Issi => 4,
        }
    }

    /// Lock bit of a security register, as a mask of the byte with the lock bits.
    pub(crate) const fn lock_bit(self, region: usize) -> u8 {
        let first = match self {
            Self::Winbond => 0x08,
            Self::Issi => 0x10,
        };
        if region < self.locks() { first << region } else { 0 }
    }

    /// Mask of all lock bits.
    pub(crate) const fn lock_mask(self) -> u8 {
        match self {
            Self::Winbond => 0b0011_1000,
            Self::Issi => 0b1111_0000,
        }
    }

    /// Opcodes that read, program and erase a security register.
    pub(crate) const fn commands(self) -> [u8; 3] {
        match self {
            Self::Winbond => [winbond::READ_SECURITY, winbond::PROGRAM_SECURITY, winbond::ERASE_SECURITY],
            Self::Issi => [issi::READ_ROW, issi::PROGRAM_ROW, issi::ERASE_ROW],
        }
    }

    /// Opcodes that read and write the register with the lock bits.
    pub(crate) const fn lock_commands(self) -> [u8; 2] {
        match self {
            Self::Winbond => [winbond::READ_STATUS_2, winbond::WRITE_STATUS_2],
            Self::Issi => [issi::READ_FUNCTION, issi::WRITE_FUNCTION],
        }
    }
}

/// Number of dummy cycles of READ UNIQUE ID. In four-byte address mode there are eight more, instead of the fourth address byte.
pub(crate) const UNIQUE_ID_DUMMY: u8 = 32;

/// Block protection. BP = n protects `unit << (n - 1)` bytes at the end of the chip, or at its start if TB is set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protection {
    /// Numbers of the status register bits BP0, BP1, ... in this order.
    pub bp_bits: Vec<u8>,
    /// Number of the status register bit TB; none if the chip does not have it.
    #[serde(default)]
    pub tb_bit: Option<u8>,
    /// Number of the bit CMP in status register 2; none if the chip does not have it. If it is set, all blocks except
    /// those that BP and TB select are protected.
    #[serde(default)]
    pub cmp_bit: Option<u8>,
    /// Size of the range that is protected if BP is 1, in bytes.
    #[serde(deserialize_with = "small_bytes")]
    pub unit_bytes: u32,
}

/// Commands that suspend and resume programs and erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Suspend command, such as 75h or B0h.
    pub suspend: u8,
    /// Resume command, such as 7Ah or 30h.
    pub resume: u8,
    /// Time from the suspend command until the array can be read, us.
    #[serde(with = "units::us")]
    pub latency_us: Nanos,
}

impl SpiNorSpec {
    /// Erase types, smallest first.
    pub fn erase_types(&self) -> Vec<EraseType> {
        let mut types: Vec<EraseType> = self.erase.values().copied().collect();
        types.sort_by_key(|t| t.bytes);
        types
    }

    /// Size of a bank, bytes.
    pub const fn bank_bytes(&self) -> u64 {
        let banks = if self.geometry.banks == 0 { 1 } else { self.geometry.banks };
        self.geometry.size_bytes / banks as u64
    }

    /// Highest clock for a mode if the command has no limit of its own, Hz.
    pub fn max_hz(&self, mode: Mode) -> u64 {
        if mode.cmd.dtr || mode.addr.dtr || mode.data.dtr { self.max_dtr_hz } else { self.max_sdr_hz }
    }
}

/// Bytes of an SFDP area from an address on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SfdpPiece {
    /// Address of the first byte of the piece.
    pub at: u32,
    /// Bytes of the piece, as two hexadecimal digits each; white space is ignored.
    pub hex: Hex,
}

/// Bytes that are written as hexadecimal digits in TOML files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Hex(pub Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digits: Option<Vec<u32>> =
            text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect();
        let digits = digits.ok_or("a character that is no hexadecimal digit")?;
        let pairs = digits.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return Err("an odd number of hexadecimal digits");
        }
        Ok(Self(pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()))
    }
}
