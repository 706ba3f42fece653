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
    /// JEDEC id as READ ID 9Fh sends it: maker, type, density, then extended bytes if there are any.
    pub id: Vec<u8>,
    /// Sizes of the chip and of its pages.
    pub geometry: NorGeometry,
    /// Times of what is not an erase.
    pub timing: NorTiming,
    /// Erase types by name, of any size.
    pub erase: BTreeMap<String, EraseType>,
    /// Read commands whose address is as long as the address mode says.
    pub reads: Vec<Variant>,
    /// Read commands that always take four address bytes.
    #[serde(default)]
    pub reads_4b: Vec<Variant>,
    /// Page program commands whose address is as long as the address mode says.
    pub programs: Vec<Variant>,
    /// Page program commands that always take four address bytes.
    #[serde(default)]
    pub programs_4b: Vec<Variant>,
    /// Highest clock at single rate, for every command without a limit of its own.
    #[serde(with = "units::hz")]
    pub max_sdr_hz: u64,
    /// Highest clock at double rate, 0 without such commands.
    #[serde(default, with = "units::hz")]
    pub max_dtr_hz: u64,
    /// Procedure that changes the address mode.
    #[serde(default)]
    pub addressing: Addressing,
    /// Setting that four data lines need (quad enable).
    #[serde(default)]
    pub quad_enable: QuadEnable,
    /// Registers beside the status register.
    #[serde(default)]
    pub registers: RegisterSet,
    /// Procedure that enters 8D-8D-8D, when the chip has it.
    #[serde(default)]
    pub octal: Option<Octal>,
    /// Dummy cycles that can be configured.
    #[serde(default)]
    pub dummy: Option<DummyControl>,
    /// True when the chip answers READ SFDP 5Ah.
    #[serde(default = "yes")]
    pub sfdp: bool,
    /// SFDP area as read from a chip, in pieces; between them it reads FFh. Without pieces the area is made from this specification.
    #[serde(default)]
    pub sfdp_bytes: Vec<SfdpPiece>,
    /// One-time-programmable area.
    #[serde(default)]
    pub otp: Option<OtpSpec>,
    /// Block protection bits of the status register.
    #[serde(default)]
    pub protection: Option<Protection>,
    /// True when the package has a reset pin.
    #[serde(default)]
    pub reset_pin: bool,
    /// True when 66h/99h reset the chip.
    #[serde(default)]
    pub soft_reset: bool,
    /// Suspending programs and erases.
    #[serde(default)]
    pub suspend: Option<Suspend>,
    /// Erase cycles that the maker guarantees.
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
    /// Size of the array.
    #[serde(with = "units::bytes")]
    pub size_bytes: u64,
    /// Size of the program buffer.
    #[serde(default = "page_bytes", deserialize_with = "small_bytes")]
    pub page_bytes: u32,
    /// Banks of equal size.
    #[serde(default = "one")]
    pub banks: u8,
    /// True when one bank can be read while another one programs or erases.
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
    /// PAGE PROGRAM of a whole page.
    pub t_pp_us: TypMaxUs,
    /// PAGE PROGRAM of a single byte; as a whole page when absent. Lengths between are interpolated.
    #[serde(default)]
    pub t_byte_us: Option<TypMaxUs>,
    /// CHIP ERASE C7h/60h.
    pub t_ce_us: TypMaxUs,
    /// WRITE STATUS REGISTER, non-volatile.
    pub t_w_us: TypMaxUs,
    /// Reset, soft or by pin.
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
    /// Number of bytes that are erased.
    #[serde(deserialize_with = "small_bytes")]
    pub bytes: u32,
    /// Command whose address is as long as the address mode says.
    pub opcode: u8,
    /// Command that always takes four address bytes.
    #[serde(default)]
    pub opcode_4b: Option<u8>,
    /// Duration of the erase, us.
    pub t_us: TypMaxUs,
    /// Blocks that take longer.
    #[serde(default)]
    pub tail: Option<EraseTail>,
}

/// Share of blocks whose erase is slower than typical. The seed of the chip determines these blocks.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EraseTail {
    /// Part of the blocks, 0 to 1.
    pub p: f64,
    /// Time of the slow operations, us.
    #[serde(with = "units::us")]
    pub us: Nanos,
}

/// Procedure that changes the address mode (three or four bytes). Every chip powers up with three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addressing {
    /// Three bytes only; beyond 16 MiB only commands that always take four.
    #[default]
    Fixed,
    /// B7h and E9h.
    En4b,
    /// B7h and E9h, each after WRITE ENABLE.
    WrenEn4b,
}

/// Register bit that switches WP# and HOLD# to data lines (names as in JESD216's QER field).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuadEnable {
    /// No bit is needed.
    #[default]
    None,
    /// Bit 6 of the status register (Macronix, ISSI).
    Sr1Bit6,
    /// Bit 1 of status register 2, written by 31h (Winbond, GigaDevice).
    Sr2Bit1,
    /// The same bit, written by 01h together with status register 1 (older parts).
    Sr2Bit1By01,
}

/// Registers in addition to the status register, which differ between makers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegisterSet {
    /// Status register 05h/01h only.
    #[default]
    Plain,
    /// Status registers 2 (35h/31h) and 3 (15h/11h); lock bits LB1..3 and SUS in the second.
    Winbond,
    /// Configuration register 15h, security register 2Bh/2Fh with fail and suspend bits, CR2 71h/72h.
    Macronix,
    /// Configuration register 35h, written by 01h behind the status register; fail bits in the status register itself,
    /// cleared by 30h.
    Spansion,
    /// Flag status register 70h/50h with fail and suspend bits, volatile configuration register 85h/81h.
    Micron,
}

/// Stateful mode 8D-8D-8D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Octal {
    /// The register that switches it.
    pub switch: OctalSwitch,
    /// Second command byte.
    pub ext: CmdExt,
    /// Address bytes of register reads in 8D-8D-8D.
    pub status_addr_bytes: u8,
    /// Dummy cycles of register reads in 8D-8D-8D.
    pub status_dummy: u8,
    /// Dummy cycles of READ ID in 8D-8D-8D; as of register reads when absent.
    #[serde(default)]
    pub id_dummy: Option<u8>,
    /// In 8D-8D-8D the two bytes of each 16-bit word of the array are swapped (Linux: `SNOR_F_SWAP16`).
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
    /// Macronix: CR2 (72h, four address bytes), address 0 = 02h; 00h goes back.
    MacronixCr2,
    /// Micron: volatile configuration register (81h), address 0 = E7h; FFh goes back.
    MicronVcr,
    /// Infineon's Semper: any register (71h), CFR5V = 43h; 40h goes back.
    InfineonCfr,
    /// Commands that the chip's SFDP lists. A driver learns them; part files name a register.
    #[serde(skip)]
    Sequence(OctalSequence),
}

/// Configurable dummy cycles of read commands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DummyControl {
    /// Address of the register, written with the octal switch's command.
    pub register: u32,
    /// Dummy cycles after power-on.
    pub default: u8,
    /// Pairs of dummy cycles and register value.
    pub values: Vec<[u8; 2]>,
    /// Modes that the register governs.
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
        /// Number of registers; there are lock bits for three of Winbond's and four of ISSI's.
        regions: u8,
        /// Size of each.
        region_bytes: u32,
        /// Address of the first.
        base: u32,
        /// Distance of their addresses.
        stride: u32,
        /// Commands and lock bits.
        #[serde(default)]
        family: SecurityFamily,
        /// Length of the unique id that 4Bh reads after 32 dummy cycles, 0 without one.
        #[serde(default)]
        unique_id_bytes: u32,
    },
    /// Macronix: the secured area, reached by the usual reads and programs between B1h and C1h, locked as a whole by
    /// WRSCUR 2Fh. Its end belongs to the factory.
    Secured {
        /// Size of the user's part.
        user_bytes: u32,
        /// Size of the factory's part behind it.
        factory_bytes: u32,
    },
    /// Micron: read 4Bh, program 42h; the byte behind the last one locks it.
    ControlByte {
        /// Size without the control byte.
        bytes: u32,
    },
}

/// Commands and lock bits of security registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecurityFamily {
    /// Read 48h, program 42h, erase 44h; locked by LB1..3, bits 3 to 5 of status register 2.
    #[default]
    Winbond,
    /// Read 68h, program 62h, erase 64h; locked by IRL0..3, bits 4 to 7 of the function register 48h/42h.
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
    /// Status register bits BP0, BP1, ... in this order.
    pub bp_bits: Vec<u8>,
    /// Status register bit TB, when it is there.
    #[serde(default)]
    pub tb_bit: Option<u8>,
    /// Bit CMP of status register 2, when it is there: set, it protects all blocks but those that BP and TB name.
    #[serde(default)]
    pub cmp_bit: Option<u8>,
    /// Protected at BP = 1.
    #[serde(deserialize_with = "small_bytes")]
    pub unit_bytes: u32,
}

/// Commands that suspend and resume programs and erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Suspend command: 75h, B0h.
    pub suspend: u8,
    /// Resume command: 7Ah, 30h.
    pub resume: u8,
    /// Until the array can be read.
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
    /// Address of the first byte.
    pub at: u32,
    /// The bytes, two hexadecimal digits each; white space does not count.
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
