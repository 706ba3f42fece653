//! The Basic Flash Parameter Table (JESD216F, table FF00h).

use super::octal::{BfptDtr, BfptOctal};
use super::read::{AddressBytes, EraseType, FastRead, Lines, QuadEnable};
use super::time_code::erase_ms;
use super::words::{Words, append, split};
use crate::bits::dwords;
use crate::error::{MediaError, Reason};

dwords! {
    /// DWORDs 1-9, which are all DWORDs of JESD216 (2011).
    pub struct BfptBasic[1..=9, reserved u32::MAX] {
        /// Support of 4 KiB erase: 1: everywhere, 3: not supported.
        erase_sizes: u8 = 1, 1, 0;
        /// True if the write buffer holds 64 bytes or more.
        write_buffer_64: bool = 1, 2, 2;
        /// True if the block protect bits of the status register are volatile.
        volatile_protect: bool = 1, 3, 3;
        /// Write enable for volatile status writes; false: 50h, true: 06h.
        volatile_write_enable_06: bool = 1, 4, 4;
        /// Instruction that erases 4 KiB; FFh if there is none.
        erase_4k_opcode: u8 = 1, 15, 8;
        /// True if the chip supports the 1S-1S-2S fast read.
        has_112: bool = 1, 16, 16;
        /// Number of address bytes of array instructions.
        address_bytes: AddressBytes = 1, 18, 17;
        /// True if some instruction supports DTR (both clock edges).
        has_dtr: bool = 1, 19, 19;
        /// True if the chip supports the 1S-2S-2S fast read.
        has_122: bool = 1, 20, 20;
        /// True if the chip supports the 1S-4S-4S fast read.
        has_144: bool = 1, 21, 21;
        /// True if the chip supports the 1S-1S-4S fast read.
        has_114: bool = 1, 22, 22;
        /// Density code; see [`Bfpt::capacity_bytes`].
        density: u32 = 2, 31, 0;
        /// 1S-4S-4S fast read.
        read_144: FastRead = 3, 15, 0;
        /// 1S-1S-4S fast read.
        read_114: FastRead = 3, 31, 16;
        /// 1S-1S-2S fast read.
        read_112: FastRead = 4, 15, 0;
        /// 1S-2S-2S fast read.
        read_122: FastRead = 4, 31, 16;
        /// True if the chip supports the 2S-2S-2S fast read.
        has_222: bool = 5, 0, 0;
        /// True if the chip supports the 4S-4S-4S fast read.
        has_444: bool = 5, 4, 4;
        /// 2S-2S-2S fast read.
        read_222: FastRead = 6, 31, 16;
        /// 4S-4S-4S fast read.
        read_444: FastRead = 7, 31, 16;
        /// Erase type 1.
        erase_1: EraseType = 8, 15, 0;
        /// Erase type 2.
        erase_2: EraseType = 8, 31, 16;
        /// Erase type 3.
        erase_3: EraseType = 9, 15, 0;
        /// Erase type 4.
        erase_4: EraseType = 9, 31, 16;
    }
}

dwords! {
    /// DWORDs 10-16, since JESD216A.
    pub struct BfptTiming[10..=16, reserved u32::MAX] {
        /// Ratio of maximum to typical erase time: 2 x (code + 1).
        erase_max_factor: u8 = 10, 3, 0;
        /// Typical time of erase type 1, code.
        erase_1_time: u8 = 10, 10, 4;
        /// Typical time of erase type 2, code.
        erase_2_time: u8 = 10, 17, 11;
        /// Typical time of erase type 3, code.
        erase_3_time: u8 = 10, 24, 18;
        /// Typical time of erase type 4, code.
        erase_4_time: u8 = 10, 31, 25;
        /// Ratio of maximum to typical program time: 2 x (code + 1).
        program_max_factor: u8 = 11, 3, 0;
        /// Page size as a power of two in bytes.
        page_exponent: u8 = 11, 7, 4;
        /// Typical page program time, code.
        page_program_time: u8 = 11, 13, 8;
        /// Typical time to program the first byte, code.
        first_byte_time: u8 = 11, 18, 14;
        /// Typical time to program each further byte, code.
        next_byte_time: u8 = 11, 23, 19;
        /// Typical chip erase time, code.
        chip_erase_time: u8 = 11, 30, 24;
        /// Operations prohibited while a program is suspended, code.
        program_suspend_prohibits: u8 = 12, 3, 0;
        /// Operations prohibited while an erase is suspended, code.
        erase_suspend_prohibits: u8 = 12, 7, 4;
        /// Minimum time between program resume and the next suspend, code.
        program_resume_interval: u8 = 12, 12, 9;
        /// Longest time to suspend a program, code.
        program_suspend_latency: u8 = 12, 19, 13;
        /// Minimum time between erase resume and the next suspend, code.
        erase_resume_interval: u8 = 12, 23, 20;
        /// Longest time to suspend an erase, code.
        erase_suspend_latency: u8 = 12, 30, 24;
        /// True if the chip does *not* support suspend and resume.
        no_suspend: bool = 12, 31, 31;
        /// Instruction that resumes a program.
        program_resume_opcode: u8 = 13, 7, 0;
        /// Instruction that suspends a program.
        program_suspend_opcode: u8 = 13, 15, 8;
        /// Instruction that resumes an erase.
        resume_opcode: u8 = 13, 23, 16;
        /// Instruction that suspends an erase.
        suspend_opcode: u8 = 13, 31, 24;
        /// Methods to poll for the end of an operation; bit 0: 05h, bit 1: 70h.
        busy_polling: u8 = 14, 7, 2;
        /// Time from leaving deep power-down to the next operation, code.
        power_up_delay: u8 = 14, 14, 8;
        /// Instruction that leaves deep power-down.
        power_up_opcode: u8 = 14, 22, 15;
        /// Instruction that enters deep power-down.
        power_down_opcode: u8 = 14, 30, 23;
        /// True if the chip does *not* support deep power-down.
        no_power_down: bool = 14, 31, 31;
        /// Ways to leave 4S-4S-4S mode, bit set.
        quad_mode_disable: u8 = 15, 3, 0;
        /// Ways to enter 4S-4S-4S mode, bit set.
        quad_mode_enable: u8 = 15, 8, 4;
        /// True if the chip supports the 0-4-4 (continuous read) mode.
        has_044: bool = 15, 9, 9;
        /// Ways to leave 0-4-4 mode, bit set.
        exit_044: u8 = 15, 15, 10;
        /// Ways to enter 0-4-4 mode, bit set.
        enter_044: u8 = 15, 19, 16;
        /// Quad enable requirement.
        quad_enable: QuadEnable = 15, 22, 20;
        /// True if the quad enable bit also disables HOLD and RESET.
        hold_disable: bool = 15, 23, 23;
        /// Volatility of status register 1 and its write enable, bit set.
        status_write: u8 = 16, 6, 0;
        /// Soft reset and rescue sequences, bit set; bit 4: 66h then 99h.
        soft_reset: u8 = 16, 13, 8;
        /// Ways to leave 4-byte addressing, bit set.
        exit_4_byte: u16 = 16, 23, 14;
        /// Ways to enter 4-byte addressing, bit set.
        enter_4_byte: u8 = 16, 31, 24;
    }
}

/// The Basic Flash Parameter Table; the later parts are present if the table is long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bfpt {
    /// DWORDs 1-9, basic parameters.
    pub basic: BfptBasic,
    /// DWORDs 10-16, times and modes.
    pub timing: Option<BfptTiming>,
    /// DWORDs 17-20, octal modes; present only with `timing`.
    pub octal: Option<BfptOctal>,
    /// DWORDs 21-23, DTR reads; present only with `octal`.
    pub dtr: Option<BfptDtr>,
}

const _: () = assert!(
    BfptBasic::DWORDS + BfptTiming::DWORDS + BfptOctal::DWORDS + BfptDtr::DWORDS == 23,
    "JESD216F describes 23 DWORDs"
);

impl Bfpt {
    /// Reads the parts that `dwords` contains completely.
    ///
    /// A part that is not complete is not read, and DWORDs past 23 are ignored.
    pub(super) fn read(dwords: &[u32]) -> Result<Self, MediaError> {
        let (basic, rest) = split(dwords, 0)?;
        let timing = rest.split_first_chunk();
        let octal = timing.and_then(|(_, rest)| rest.split_first_chunk());
        let dtr = octal.and_then(|(_, rest)| rest.first_chunk());
        let table = Self {
            basic: BfptBasic::read(basic),
            timing: timing.map(|(part, _)| BfptTiming::read(part)),
            octal: octal.map(|(part, _)| BfptOctal::read(part)),
            dtr: dtr.map(BfptDtr::read),
        };
        table.check()?;
        Ok(table)
    }

    pub(super) fn write(&self) -> Result<Words, MediaError> {
        self.check()?;
        let mut words = Words::new();
        append(&mut words, self.basic.write())?;
        if let Some(part) = &self.timing {
            append(&mut words, part.write())?;
        }
        if let Some(part) = &self.octal {
            append(&mut words, part.write())?;
        }
        if let Some(part) = &self.dtr {
            append(&mut words, part.write())?;
        }
        Ok(words)
    }

    /// Rejects an invalid size, and a part whose previous part is missing.
    fn check(&self) -> Result<(), MediaError> {
        if self.capacity_bytes().is_none() {
            let value = u64::from(self.basic.density);
            return Err(Reason::OutOfRange { field: "density", value }.at(4));
        }
        let gap =
            (self.octal.is_some() && self.timing.is_none()) || (self.dtr.is_some() && self.octal.is_none());
        if gap {
            return Err(Reason::Inconsistent { what: "a BFPT part without those before it" }.at(0));
        }
        Ok(())
    }

    /// Size of the array, bytes (DWORD 2).
    ///
    /// `None` if the code means less than a byte, or 2^64 bits or more.
    #[must_use]
    pub fn capacity_bytes(&self) -> Option<u64> {
        let code = self.basic.density;
        let bits = if code >> 31 == 0 { u64::from(code) + 1 } else { 1u64.checked_shl(code & 0x7fff_ffff)? };
        (bits >= 8).then_some(bits / 8)
    }

    /// The density code of `bytes`, or `None` if no code has this value.
    #[must_use]
    pub fn density_code(bytes: u64) -> Option<u32> {
        let bits = bytes.checked_mul(8).filter(|bits| *bits > 0)?;
        match u32::try_from(bits - 1) {
            Ok(code) if code >> 31 == 0 => Some(code),
            _ if bits.is_power_of_two() => Some(1 << 31 | bits.ilog2()),
            _ => None,
        }
    }

    /// Page size, bytes; 256 if the table does not state it.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.timing.map_or(256, |timing| 1 << (timing.page_exponent & 15))
    }

    /// The fast read instruction for these lines, if the chip has one.
    #[must_use]
    pub fn fast_read(&self, lines: Lines) -> Option<FastRead> {
        let basic = &self.basic;
        let (present, read) = match lines {
            Lines::S112 => (basic.has_112, basic.read_112),
            Lines::S122 => (basic.has_122, basic.read_122),
            Lines::S222 => (basic.has_222, basic.read_222),
            Lines::S114 => (basic.has_114, basic.read_114),
            Lines::S144 => (basic.has_144, basic.read_144),
            Lines::S444 => (basic.has_444, basic.read_444),
            Lines::S118 | Lines::S188 => return self.octal?.fast_read(lines),
            Lines::D111 | Lines::D122 | Lines::D144 | Lines::D444 => {
                return self.dtr?.fast_read(lines);
            }
        };
        present.then_some(read)
    }

    /// The erase types, type 1 first.
    #[must_use]
    pub fn erase_types(&self) -> [EraseType; 4] {
        let basic = &self.basic;
        [basic.erase_1, basic.erase_2, basic.erase_3, basic.erase_4]
    }

    /// Typical time of each erase type, ms, type 1 first; `None` before JESD216A.
    #[must_use]
    pub fn erase_typical_ms(&self) -> Option<[u32; 4]> {
        self.timing.map(|timing| {
            [timing.erase_1_time, timing.erase_2_time, timing.erase_3_time, timing.erase_4_time].map(erase_ms)
        })
    }
}
