//! Registers of SD cards and eMMC: CID, CSD, SCR, SD status (SSR) and EXT_CSD.
//!
//! Positions are those of the SD Physical Layer Simplified Specification (chapters 4.10.2 and 5) and of JESD84-B51 (chapters 7.2 to 7.4). They
//! count bits from the end of a register, except EXT_CSD, which counts bytes from its start. Linux shows each register in hexadecimal
//! digits, first byte first, in the files `cid`, `csd`, `scr` and `ssr` of a card's folder in sysfs, and `ext_csd` in debugfs.

use crate::error::{MediaError, Reason};
use crate::text::Text;

/// Card standard, which determines the layout of the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CardType {
    /// SD card (SD Physical Layer).
    Sd,
    /// MMC or eMMC (JESD84).
    Mmc,
}

/// Bytes of a register whose fields are numbered from its end.
#[derive(Debug, Clone, Copy)]
struct Bits<const N: usize>([u8; N]);

impl<const N: usize> Bits<N> {
    /// Value of bits `high` to `low`, both included; bits outside the register are 0.
    fn field(&self, high: usize, low: usize) -> u64 {
        (low..=high).rev().fold(0, |value, bit| {
            let byte = N.checked_sub(1 + bit / 8).and_then(|place| self.0.get(place)).copied().unwrap_or(0);
            value << 1 | u64::from(byte >> (bit % 8) & 1)
        })
    }

    /// Sets bits `high` to `low` of a register of zeros. Higher bits of `value` are cut off.
    fn with(mut self, high: usize, low: usize, value: u64) -> Self {
        for bit in low..=high {
            let is_set = u8::from(value >> (bit - low).min(63) & 1 == 1);
            if let Some(byte) = N.checked_sub(1 + bit / 8).and_then(|place| self.0.get_mut(place)) {
                *byte |= is_set << (bit % 8);
            }
        }
        self
    }

    /// The bytes from bit `low` upwards as text; bit `low` belongs to the last byte.
    fn text<const T: usize>(&self, low: usize) -> Text<T> {
        let mut bytes = [0; T];
        for (place, byte) in bytes.iter_mut().rev().enumerate() {
            *byte = self.field(low + 8 * place + 7, low + 8 * place) as u8;
        }
        Text::from_bytes(bytes)
    }

    fn with_text<const T: usize>(self, low: usize, text: &Text<T>) -> Self {
        let places = text.as_bytes().iter().rev().enumerate();
        places.fold(self, |bits, (place, byte)| {
            bits.with(low + 8 * place + 7, low + 8 * place, u64::from(*byte))
        })
    }

    /// The register with the checksum and end bit of a CID or CSD in its last byte.
    fn with_crc(mut self) -> [u8; N] {
        let crc = match self.0.split_last() {
            Some((_, rest)) => crc7(rest),
            None => 0,
        };
        if let Some(last) = self.0.last_mut() {
            *last = crc << 1 | 1;
        }
        self.0
    }
}

/// CRC7 of commands and registers: x^7 + x^3 + 1, starting from 0 (SD Physical Layer, chapter 4.5).
pub fn crc7(bytes: &[u8]) -> u8 {
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    bits.fold(0, |crc, bit| {
        let carry = crc >> 6 ^ bit;
        (crc << 1 & 0x7F) ^ (carry * 0x09)
    })
}

/// CRC16 of data blocks: x^16 + x^12 + x^5 + 1, starting from 0 (SD Physical Layer, chapter 4.5).
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let at = (crc >> 8) as u8 ^ byte;
        (crc << 8) ^ CRC16_OF_BYTE[usize::from(at)]
    })
}

/// CRC16 of each byte.
const CRC16_OF_BYTE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc >> 15 == 1 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Card identification register (CID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cid {
    /// Manufacturer id assigned by the SD Association or JEDEC.
    pub manufacturer_id: u8,
    /// Letters of the maker or brand (OID): two on SD cards; one on an MMC, in the second byte.
    pub oem: Text<2>,
    /// Product name: five characters on SD cards, six on an MMC.
    pub name: Text<6>,
    /// Revision n.m, n in the upper four bits.
    pub revision: u8,
    /// Serial number.
    pub serial: u32,
    /// Year of manufacture. SD cards count from 2000. An MMC has four bits: 1997 to 2012 or, since EXT_CSD revision 5, 2010 to 2025.
    pub year: u16,
    /// Month of manufacture, 1 to 12.
    pub month: u8,
}

impl Cid {
    /// Size of the register, bytes.
    pub const BYTES: usize = 16;

    /// Decodes the register. The year of an MMC is the earlier of the two years that its code can mean.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES], kind: CardType) -> Self {
        let bits = Bits(*bytes);
        let manufacturer_id = bits.field(127, 120) as u8;
        match kind {
            CardType::Sd => {
                let [a, b, c, d, e] = *bits.text::<5>(64).as_bytes();
                Self {
                    manufacturer_id,
                    oem: bits.text(104),
                    name: Text::from_bytes([a, b, c, d, e, b' ']),
                    revision: bits.field(63, 56) as u8,
                    serial: bits.field(55, 24) as u32,
                    year: 2000 + bits.field(19, 12) as u16,
                    month: bits.field(11, 8) as u8,
                }
            }
            CardType::Mmc => Self {
                manufacturer_id,
                oem: Text::from_bytes([b' ', bits.field(111, 104) as u8]),
                name: bits.text(56),
                revision: bits.field(55, 48) as u8,
                serial: bits.field(47, 16) as u32,
                year: 1997 + bits.field(11, 8) as u16,
                month: bits.field(15, 12) as u8,
            },
        }
    }

    /// The identification of an MMC with the year corrected by the EXT_CSD revision, which determines the range of years.
    #[must_use]
    pub const fn of_revision(mut self, ext_csd: u8) -> Self {
        if ext_csd >= 5 && self.year < 2010 {
            self.year += 16;
        }
        self
    }

    /// Encodes the register with its checksum.
    #[must_use]
    pub fn emit(&self, kind: CardType) -> [u8; Self::BYTES] {
        let bits = Bits([0; Self::BYTES]).with(127, 120, self.manufacturer_id.into());
        let (revision, serial) = (u64::from(self.revision), u64::from(self.serial));
        let (year, month) = (u64::from(self.year), u64::from(self.month));
        let [.., last] = *self.oem.as_bytes();
        let [a, b, c, d, e, _] = *self.name.as_bytes();
        match kind {
            CardType::Sd => bits
                .with_text(104, &self.oem)
                .with_text(64, &Text::from_bytes([a, b, c, d, e]))
                .with(63, 56, revision)
                .with(55, 24, serial)
                .with(19, 12, year.saturating_sub(2000))
                .with(11, 8, month),
            CardType::Mmc => bits
                // CBX = 1: BGA, a device that cannot be removed.
                .with(113, 112, 1)
                .with(111, 104, last.into())
                .with_text(56, &self.name)
                .with(55, 48, revision)
                .with(47, 16, serial)
                .with(15, 12, month)
                .with(11, 8, year.saturating_sub(1997) % 16),
        }
        .with_crc()
    }
}

/// Card specific data (CSD): the fields that current hosts read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Csd {
    /// Capacity, bytes; `None` for an MMC of more than 2 GiB, whose capacity is in EXT_CSD.
    pub capacity_bytes: Option<u64>,
    /// Code of the highest clock without a switch to a faster mode (TRAN_SPEED): 0x32 for 25 MHz, 0x2A for 26 MHz.
    pub tran_speed: u8,
    /// Supported command classes (CCC), one bit each.
    pub command_classes: u16,
}

/// Unit in which SDHC, SDXC and SDUC cards state their capacity, bytes.
const CAPACITY_UNIT: u64 = 512 << 10;

/// Largest capacity that the block length and multiplier of CSD version 1.0 can express, B.
const SMALL_BYTES_MAX: u64 = 2 << 30;

impl Csd {
    /// Size of the register, bytes.
    pub const BYTES: usize = 16;

    /// Decodes the register.
    ///
    /// # Errors
    /// An undefined CSD structure version.
    pub fn parse(bytes: &[u8; Self::BYTES], kind: CardType) -> Result<Self, MediaError> {
        let bits = Bits(*bytes);
        let small = || {
            let blocks = (bits.field(73, 62) + 1) << (bits.field(49, 47) + 2);
            blocks << bits.field(83, 80)
        };
        let capacity_bytes = match (kind, bits.field(127, 126)) {
            (CardType::Mmc, _) if bits.field(73, 62) == 0xFFF => None,
            (CardType::Mmc, _) | (CardType::Sd, 0) => Some(small()),
            (CardType::Sd, 1) => Some((bits.field(69, 48) + 1) * CAPACITY_UNIT),
            (CardType::Sd, 2) => Some((bits.field(75, 48) + 1) * CAPACITY_UNIT),
            (CardType::Sd, value) => {
                let reason = Reason::OutOfRange { field: "CSD_STRUCTURE", value };
                return Err(MediaError { offset: 0, reason });
            }
        };
        let (tran_speed, command_classes) = (bits.field(103, 96) as u8, bits.field(95, 84) as u16);
        Ok(Self { capacity_bytes, tran_speed, command_classes })
    }

    /// Encodes the register with its checksum. A capacity that the register cannot express is rounded down.
    #[must_use]
    pub fn emit(&self, kind: CardType) -> [u8; Self::BYTES] {
        let capacity = self.capacity_bytes.unwrap_or(u64::MAX);
        let bits = Bits([0; Self::BYTES])
            .with(103, 96, self.tran_speed.into())
            .with(95, 84, self.command_classes.into())
            // ERASE_BLK_EN = 1, SECTOR_SIZE = 128 blocks.
            .with(46, 39, 0xFF)
            // R2W_FACTOR = 4, WRITE_BL_LEN = 512 bytes.
            .with(28, 26, 2)
            .with(25, 22, 9);
        match kind {
            CardType::Sd if capacity > SMALL_BYTES_MAX => large(bits, capacity),
            CardType::Sd => small(bits, capacity, 4096),
            // The largest C_SIZE means that the capacity is in EXT_CSD.
            CardType::Mmc if capacity >= SMALL_BYTES_MAX => mmc(bits.with(73, 62, 0xFFF).with(83, 80, 9)),
            CardType::Mmc => mmc(small(bits, capacity, 4095)),
        }
        .with_crc()
    }
}

/// CSD version 2.0 (SDHC, SDXC) and 3.0 (SDUC): times and block length are fixed.
fn large(bits: Bits<16>, capacity: u64) -> Bits<16> {
    let size = (capacity / CAPACITY_UNIT).saturating_sub(1);
    let (structure, high) = if size >> 22 == 0 { (1, 69) } else { (2, 75) };
    bits.with(127, 126, structure).with(119, 112, 0x0E).with(83, 80, 9).with(high, 48, size)
}

/// CSD version 1.0: (C_SIZE + 1) * 2^(C_SIZE_MULT + 2) blocks of 2^READ_BL_LEN bytes.
fn small(bits: Bits<16>, capacity: u64, most: u64) -> Bits<16> {
    let block = (9..=11).find(|length| capacity >> (length + 9) <= most).unwrap_or(11);
    let multiplier = (0..=7).find(|exponent| capacity >> (block + exponent + 2) <= most).unwrap_or(7);
    let size = (capacity >> (block + multiplier + 2)).clamp(1, most) - 1;
    // TAAC of 1.5 ms, as usual for cards of that size.
    bits.with(119, 112, 0x26).with(83, 80, block).with(73, 62, size).with(49, 47, multiplier)
}

/// CSD structure version in EXT_CSD, SPEC_VERS 4: MMC 4.1 and later.
fn mmc(bits: Bits<16>) -> Bits<16> {
    bits.with(127, 126, 3).with(125, 122, 4)
}

/// SD configuration register (SCR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scr {
    /// Version of the specification: fields SD_SPEC, SD_SPEC3, SD_SPEC4 and SD_SPECX.
    pub version: SdVersion,
    /// Security version: 2 for SDSC, 3 for SDHC, 4 for SDXC.
    pub security: u8,
    /// Supported bus widths: bit 0 for one line, bit 2 for four lines.
    pub bus_widths: u8,
    /// Supported optional commands: bit 0 for CMD20 (speed class control), bit 1 for CMD23 (set block count).
    pub commands: u8,
}

/// Fields of the SCR that encode the version of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SdVersion {
    /// Field SD_SPEC.
    pub spec: u8,
    /// Field SD_SPEC3.
    pub spec3: bool,
    /// Field SD_SPEC4.
    pub spec4: bool,
    /// Field SD_SPECX.
    pub specx: u8,
}

impl SdVersion {
    /// Version 2.00, the first with SDHC.
    pub const V2_00: Self = Self { spec: 2, spec3: false, spec4: false, specx: 0 };
    /// Version 3.0, the first with UHS-I and SDXC.
    pub const V3_0: Self = Self { spec: 2, spec3: true, spec4: false, specx: 0 };
    /// Version 5, the first with application performance and video speed classes.
    pub const V5: Self = Self { spec: 2, spec3: true, spec4: true, specx: 1 };
    /// Version 6, the first with class A2.
    pub const V6: Self = Self { spec: 2, spec3: true, spec4: true, specx: 2 };

    /// Version number as text.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match (self.spec, self.spec3, self.spec4, self.specx) {
            (0, ..) => "1.0",
            (1, ..) => "1.10",
            (2, false, ..) => "2.00",
            (2, true, false, 0) => "3.0",
            (2, true, true, 0) => "4",
            (2, true, _, 1) => "5",
            (2, true, _, 2) => "6",
            (2, true, _, 3) => "7",
            (2, true, _, 4) => "8",
            (2, true, _, 5) => "9",
            _ => "unknown",
        }
    }
}

impl Scr {
    /// Size of the register, bytes.
    pub const BYTES: usize = 8;

    /// Decodes a register.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let bits = Bits(*bytes);
        let version = SdVersion {
            spec: bits.field(59, 56) as u8,
            spec3: bits.field(47, 47) == 1,
            spec4: bits.field(42, 42) == 1,
            specx: bits.field(41, 38) as u8,
        };
        Self {
            version,
            security: bits.field(54, 52) as u8,
            bus_widths: bits.field(51, 48) as u8,
            commands: bits.field(35, 32) as u8,
        }
    }

    /// Encodes the register.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let SdVersion { spec, spec3, spec4, specx } = self.version;
        Bits([0; Self::BYTES])
            .with(59, 56, spec.into())
            .with(54, 52, self.security.into())
            .with(51, 48, self.bus_widths.into())
            .with(47, 47, spec3.into())
            .with(42, 42, spec4.into())
            .with(41, 38, specx.into())
            .with(35, 32, self.commands.into())
            .0
    }
}

/// SD status register (SSR). A class or size of 0 means that the card does not state it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Ssr {
    /// Number of data lines in use: 1 or 4.
    pub bus_width: u8,
    /// Speed class: minimum sequential write speed of 2, 4, 6 or 10 MB/s.
    pub speed_class: u8,
    /// UHS speed grade: 1 for 10 MB/s, 3 for 30 MB/s.
    pub uhs_grade: u8,
    /// Video speed class: minimum write speed, MB/s.
    pub video_class: u8,
    /// Application performance class: 1 for A1, 2 for A2.
    pub app_class: u8,
    /// Allocation unit in bytes.
    pub au_bytes: u64,
    /// Allocation unit in UHS modes, in bytes; at least 1 MiB.
    pub uhs_au_bytes: u64,
    /// Allocation unit of the video speed class, in bytes.
    pub video_au_bytes: u64,
    /// Erase time limit of the card.
    pub erase: EraseTimeout,
}

/// Erase time limit stated by the SSR: `timeout_s` for every `aus` allocation units, plus `offset_s` for each request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EraseTimeout {
    /// ERASE_SIZE: number of allocation units erased within `timeout_s`; 0 if not stated.
    pub aus: u16,
    /// ERASE_TIMEOUT in seconds, 1 to 63.
    pub timeout_s: u8,
    /// ERASE_OFFSET in seconds, 0 to 3.
    pub offset_s: u8,
}

impl EraseTimeout {
    /// Smallest values that cover `au_us` for each allocation unit plus `request_us` for each request.
    #[must_use]
    pub const fn covering(au_us: u64, request_us: u64) -> Self {
        // ERASE_SIZE: number of units erased in a second, at least one.
        let per_second = match 1_000_000_u64.checked_div(au_us) {
            Some(aus) => aus,
            None => 0xFFFF,
        };
        let aus = if per_second > 0xFFFF { 0xFFFF } else { per_second };
        let aus = if aus == 0 { 1 } else { aus };
        let seconds = (aus * au_us).div_ceil(1_000_000);
        let timeout_s = if seconds < 1 {
            1
        } else if seconds > 63 {
            63
        } else {
            seconds
        };
        let offset = request_us.div_ceil(1_000_000);
        let offset_s = if offset > 3 { 3 } else { offset };
        Self { aus: aus as u16, timeout_s: timeout_s as u8, offset_s: offset_s as u8 }
    }

    /// Time that a host waits for the erase of `aus` allocation units, ms; at least 1 s (SD Physical Layer, chapter 4.14). `None` if the
    /// card states no limit.
    #[must_use]
    pub fn timeout_ms(&self, aus: u64) -> Option<u64> {
        let per_au = u64::from(self.timeout_s) * 1000;
        let timeout = aus.saturating_mul(per_au).checked_div(u64::from(self.aus))?;
        Some(timeout.saturating_add(u64::from(self.offset_s) * 1000).max(1000))
    }
}

/// Sizes of AU_SIZE in KiB, indexed by code; code 0 means not stated. UHS_AU_SIZE uses the same codes from 1 MiB on.
const AU_KIB: [u64; 16] =
    [0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 65_536];

/// Size of the allocation unit for a code, bytes.
fn au_bytes(code: u64) -> u64 {
    AU_KIB.get(code as usize).map_or(0, |kib| kib << 10)
}

/// Code of the largest allocation unit that is not larger than `bytes`.
fn au_code(bytes: u64) -> u64 {
    AU_KIB.iter().rposition(|kib| kib << 10 <= bytes).unwrap_or(0) as u64
}

impl Ssr {
    /// Size of the register, bytes.
    pub const BYTES: usize = 64;

    /// Decodes a register.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let bits = Bits(*bytes);
        Self {
            bus_width: if bits.field(511, 510) == 2 { 4 } else { 1 },
            speed_class: match bits.field(447, 440) {
                code @ 0..=3 => 2 * code as u8,
                4 => 10,
                _ => 0,
            },
            uhs_grade: bits.field(399, 396) as u8,
            video_class: bits.field(391, 384) as u8,
            app_class: bits.field(339, 336) as u8,
            au_bytes: au_bytes(bits.field(431, 428)),
            uhs_au_bytes: au_bytes(bits.field(395, 392)),
            video_au_bytes: bits.field(377, 368) << 20,
            erase: EraseTimeout {
                aus: bits.field(423, 408) as u16,
                timeout_s: bits.field(407, 402) as u8,
                offset_s: bits.field(401, 400) as u8,
            },
        }
    }

    /// Encodes the register. A class or size that the register cannot express is rounded down.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let class = if self.speed_class >= 10 { 4 } else { u64::from(self.speed_class / 2).min(3) };
        let uhs_au = if self.uhs_au_bytes < 1 << 20 { 0 } else { au_code(self.uhs_au_bytes) };
        Bits([0; Self::BYTES])
            .with(511, 510, if self.bus_width == 4 { 2 } else { 0 })
            .with(447, 440, class)
            .with(431, 428, au_code(self.au_bytes))
            .with(423, 408, self.erase.aus.into())
            .with(407, 402, self.erase.timeout_s.into())
            .with(401, 400, self.erase.offset_s.into())
            .with(399, 396, self.uhs_grade.into())
            .with(395, 392, uhs_au)
            .with(391, 384, self.video_class.into())
            .with(377, 368, self.video_au_bytes >> 20)
            .with(339, 336, self.app_class.into())
            .0
    }
}

/// Extended card specific data (EXT_CSD) of an eMMC: the fields that Linux and mmc-utils read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtCsd {
    /// Revision of EXT_CSD: 5 for eMMC 4.41, 7 for 5.0, 8 for 5.1.
    pub revision: u8,
    /// Capacity, sectors of 512 bytes.
    pub sectors: u32,
    /// Supported bus modes (CARD_TYPE): bit 1 for 52 MHz, bit 2 for DDR at 52 MHz, bit 4 for HS200 at 1.8 V.
    pub modes: u8,
    /// Size of an erase group, in units of 512 KiB.
    pub erase_group: u8,
    /// Time limit to erase a group, in units of 300 ms.
    pub erase_timeout: u8,
    /// Time limit of a trim, in units of 300 ms.
    pub trim_timeout: u8,
    /// Time to enter or leave sleep: 100 ns * 2^n, n being this value.
    pub sleep_exponent: u8,
    /// Time needed for a power-off notification (POWER_OFF_LONG_TIME), in units of 10 ms.
    pub power_off: u8,
    /// Size of the volatile cache, in units of 1024 bits; 0: no cache.
    pub cache_kbit: u32,
    /// Optimal write size (OPTIMAL_WRITE_SIZE), in units of 4 KiB.
    pub optimal_write: u8,
    /// State of the spare blocks (PRE_EOL_INFO): 1: normal, 2: 80 % used, 3: 90 % used.
    pub pre_eol: u8,
    /// Estimate of the life used, SLC area (DEVICE_LIFE_TIME_EST_TYP_A): 1 for 0 to 10 %, and so on.
    pub life_a: u8,
    /// Estimate of the life used, MLC or TLC area (DEVICE_LIFE_TIME_EST_TYP_B): 1 for 0 to 10 %, and so on.
    pub life_b: u8,
    /// Size of each of the two boot partitions in units of 128 KiB (BOOT_SIZE_MULT).
    pub boot: u8,
    /// Size of the replay protected memory block in units of 128 KiB (RPMB_SIZE_MULT).
    pub rpmb: u8,
    /// Size of a write protection group, in erase groups (HC_WP_GRP_SIZE).
    pub write_protect_group: u8,
    /// Partitioning support (PARTITIONING_SUPPORT): bit 0 for general purpose partitions, bit 1 for an enhanced area.
    pub partitioning: u8,
    /// Maximum size of enhanced areas, in write protection groups, 24 bits (MAX_ENH_SIZE_MULT). Their cells hold one bit each.
    pub enhanced_max: u32,
    /// Size of the enhanced area of the user partition, in write protection groups, 24 bits (ENH_SIZE_MULT); 0: none.
    pub enhanced: u32,
    /// Support of background operations (BKOPS_SUPPORT): bit 0.
    pub bkops_support: u8,
    /// Background operations enabled (BKOPS_EN): bit 0: started by the host, bit 1: started by the card itself.
    pub bkops_enabled: u8,
    /// Urgency of background operations (BKOPS_STATUS): 0: none, 1: not critical, 2: performance impacted, 3: critical.
    pub bkops_status: u8,
}

impl ExtCsd {
    /// Size of the register, bytes.
    pub const BYTES: usize = 512;

    /// Decodes a register.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let byte = |place: usize| bytes.get(place).copied().unwrap_or(0);
        let word = |place: usize| {
            u32::from_le_bytes([byte(place), byte(place + 1), byte(place + 2), byte(place + 3)])
        };
        Self {
            revision: byte(192),
            sectors: word(212),
            modes: byte(196),
            erase_group: byte(224),
            erase_timeout: byte(223),
            trim_timeout: byte(232),
            sleep_exponent: byte(217),
            power_off: byte(247),
            cache_kbit: word(249),
            optimal_write: byte(265),
            pre_eol: byte(267),
            life_a: byte(268),
            life_b: byte(269),
            boot: byte(226),
            rpmb: byte(168),
            write_protect_group: byte(221),
            partitioning: byte(160),
            enhanced_max: word(157) & MAX_24_BITS,
            enhanced: word(140) & MAX_24_BITS,
            bkops_support: byte(502),
            bkops_enabled: byte(163),
            bkops_status: byte(246),
        }
    }

    /// Size of a write protection group, bytes; the unit of enhanced areas.
    #[must_use]
    pub fn write_protect_bytes(&self) -> u64 {
        u64::from(self.write_protect_group) * u64::from(self.erase_group) * (512 << 10)
    }

    /// Encodes the register.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let single = [
            (192, self.revision),
            // CSD structure version 1.2 of MMC 4.1 and later.
            (194, 2),
            (196, self.modes),
            (217, self.sleep_exponent),
            (223, self.erase_timeout),
            (224, self.erase_group),
            // SEC_FEATURE_SUPPORT: trim; the revision implies discard.
            (231, 1 << 4),
            (232, self.trim_timeout),
            (247, self.power_off),
            (265, self.optimal_write),
            (267, self.pre_eol),
            (268, self.life_a),
            (269, self.life_b),
            (226, self.boot),
            (168, self.rpmb),
            (221, self.write_protect_group),
            (160, self.partitioning),
            (502, self.bkops_support),
            (163, self.bkops_enabled),
            (246, self.bkops_status),
            // PARTITION_SETTING_COMPLETED, and ENH_USR of PARTITIONS_ATTRIBUTE: the area begins at address 0.
            (155, u8::from(self.enhanced > 0)),
            (156, u8::from(self.enhanced > 0)),
        ];
        let words = [(212, self.sectors), (249, self.cache_kbit)];
        let spread = words.iter().flat_map(|(place, word)| (*place..).zip(word.to_le_bytes()));
        let sizes = [(157, self.enhanced_max), (140, self.enhanced)];
        let short = sizes.iter().flat_map(|(place, size)| (*place..).zip(size.to_le_bytes()).take(3));
        for (place, value) in single.into_iter().chain(spread).chain(short) {
            if let Some(byte) = bytes.get_mut(place) {
                *byte = value;
            }
        }
        bytes
    }
}

/// Largest value of 24 bits.
const MAX_24_BITS: u32 = 0x00FF_FFFF;

/// Parses exactly `N` bytes of hexadecimal digits; surrounding white space is ignored.
///
/// # Errors
/// The number of bytes found, or the position of the first character that is not a digit.
pub fn parse_hex<const N: usize>(text: &str) -> Result<[u8; N], MediaError> {
    let digits = text.trim().as_bytes();
    if digits.len() != 2 * N {
        let reason = Reason::Truncated { need: 2 * N, have: digits.len() };
        return Err(MediaError { offset: 0, reason });
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        for offset in [2 * place, 2 * place + 1] {
            let digit = digits.get(offset).copied().unwrap_or(0);
            let Some(value) = char::from(digit).to_digit(16) else {
                let reason = Reason::OutOfRange { field: "hexadecimal digit", value: digit.into() };
                return Err(MediaError { offset, reason });
            };
            *byte = *byte << 4 | value as u8;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CSD of a SanDisk SU04G, from a log of wirenboard/sdcard_benchmark.
    const SU04G: &str = "400e00325b5900001d8a7f800a404000";

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        // SD Physical Layer, chapter 4.5: CMD0 and CMD17 with argument 0.
        assert_eq!(crc7(&[0x40, 0, 0, 0, 0]), 0b100_1010);
        assert_eq!(crc7(&[0x51, 0, 0, 0, 0]), 0b010_1010);
        // Data block of 512 bytes FFh.
        assert_eq!(crc16(&[0xFF; 512]), 0x7FA1);
    }

    #[test]
    fn a_card_of_each_structure_says_its_capacity() {
        for (kind, capacity) in [
            (CardType::Sd, 8 << 20),
            (CardType::Sd, 1 << 30),
            (CardType::Sd, 2 << 30),
            (CardType::Sd, 7580 << 20),
            (CardType::Sd, 2 << 40),
            (CardType::Sd, 4 << 40),
            (CardType::Mmc, 1 << 30),
        ] {
            let csd = Csd { capacity_bytes: Some(capacity), tran_speed: 0x32, command_classes: 0x5B5 };
            assert_eq!(Csd::parse(&csd.emit(kind), kind), Ok(csd), "{kind:?} {capacity}");
        }
        let large = Csd { capacity_bytes: Some(14_912 << 20), tran_speed: 0x32, command_classes: 0 };
        let parsed = Csd::parse(&large.emit(CardType::Mmc), CardType::Mmc).unwrap();
        assert_eq!(parsed.capacity_bytes, None, "an eMMC has it in EXT_CSD");
        let real = Csd::parse(&parse_hex(SU04G).unwrap(), CardType::Sd).unwrap();
        assert_eq!((real.tran_speed, real.command_classes), (0x32, 0x5B5));
        // All fields that the specification fixes for SDHC equal those of the real card; the last bytes contain the card's own choices.
        assert_eq!(real.emit(CardType::Sd)[..10], parse_hex::<16>(SU04G).unwrap()[..10]);
    }

    #[test]
    fn erase_timeouts_cover_what_they_state() {
        for (au_us, request_us) in [(0, 0), (3500, 300), (900_000, 10), (5_000_000, 4_000_000)] {
            let stated = EraseTimeout::covering(au_us, request_us);
            for aus in [1, 7, 1000] {
                let ms = stated.timeout_ms(aus).unwrap();
                assert!(ms * 1000 + 1000 >= aus * au_us, "{stated:?} for {aus} AUs of {au_us} us: {ms} ms");
            }
        }
        assert_eq!(EraseTimeout::default().timeout_ms(1), None);
    }

    #[test]
    fn digits_that_are_none_are_refused_where_they_stand() {
        assert_eq!(parse_hex::<2>(" 01fF\n"), Ok([1, 0xFF]));
        assert_eq!(parse_hex::<2>("01").unwrap_err().reason, Reason::Truncated { need: 4, have: 2 });
        assert_eq!(parse_hex::<2>("01g0").unwrap_err().offset, 2);
        assert!(parse_hex::<2>("\u{fc}\u{fc}").is_err());
    }

    proptest! {
        /// Checks that values too large for the register are cut off once, and that emitting again changes nothing.
        #[test]
        fn emitting_and_parsing_agree(
            bytes in proptest::array::uniform32(any::<u8>()), long in proptest::collection::vec(any::<u8>(), 512)
        ) {
            let half = |from: usize| <[u8; 16]>::try_from(&bytes[from..from + 16]).unwrap();
            for kind in [CardType::Sd, CardType::Mmc] {
                let cid = Cid::parse(&half(0), kind);
                prop_assert_eq!(Cid::parse(&cid.emit(kind), kind), cid);
                if let Ok(csd) = Csd::parse(&half(16), kind) {
                    let again = Csd::parse(&csd.emit(kind), kind).unwrap();
                    prop_assert_eq!(Csd::parse(&again.emit(kind), kind), Ok(again));
                }
            }
            let scr = Scr::parse(bytes[..8].try_into().unwrap());
            prop_assert_eq!(Scr::parse(&scr.emit()), scr);
            let ssr = Ssr::parse(long[..64].try_into().unwrap());
            let again = Ssr::parse(&ssr.emit());
            prop_assert_eq!(Ssr::parse(&again.emit()), again);
            let ext_csd = ExtCsd::parse(long[..].try_into().unwrap());
            prop_assert_eq!(ExtCsd::parse(&ext_csd.emit()), ext_csd);
        }
    }
}
