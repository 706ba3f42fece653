//! The JEDEC parameter page (JESD230).

use crate::crc;
use crate::error::{MediaError, Reason};
use crate::flags::flags;
use crate::text::Text;
use crate::units::{AddressCycles, Endurance};
use crate::wire::{Wire, chunk, layout, signature, store};

/// Bytes in one copy of the parameter page.
pub const PAGE_BYTES: usize = 512;

const SIGNATURE: &str = "JESD";

/// Offset of the checksum of the bytes before it.
const CRC_AT: usize = 510;

flags! {
    /// JESD230 revisions the chip follows (JESD230, bytes 4-5).
    pub struct JedecRevision(u16) {
        /// A vendor's page that predates the standard.
        VENDOR = 1,
        /// Parameter page revision 1.0.
        V1_0 = 2,
    }
}

flags! {
    /// Features of the chip (JESD230, bytes 6-7).
    pub struct JedecFeatures(u16) {
        /// 16-bit data bus.
        BUS_16 = 0,
        /// Operations on several LUNs at once.
        MULTIPLE_LUN = 1,
        /// Pages of a block programmed out of order.
        NON_SEQUENTIAL_PROGRAM = 2,
        /// Multi-plane program and erase.
        MULTI_PLANE_PROGRAM_ERASE = 3,
        /// Multi-plane read.
        MULTI_PLANE_READ = 4,
        /// Toggle-mode DDR data interface.
        TOGGLE_DDR = 5,
        /// Synchronous DDR data interface.
        SYNC_DDR = 6,
        /// External Vpp.
        EXTERNAL_VPP = 7,
        /// Program page register clear enhancement.
        PAGE_REGISTER_CLEAR = 8,
    }
}

/// Optional commands the chip has, 24 bits (JESD230, bytes 8-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct JedecCommands([u8; 3]);

impl JedecCommands {
    /// Page Cache Program.
    pub const PROGRAM_CACHE: u32 = 1 << 0;
    /// Read Cache.
    pub const READ_CACHE: u32 = 1 << 1;
    /// Get Features and Set Features.
    pub const GET_SET_FEATURES: u32 = 1 << 2;
    /// Read Status Enhanced.
    pub const READ_STATUS_ENHANCED: u32 = 1 << 3;
    /// Copyback program.
    pub const COPYBACK: u32 = 1 << 4;
    /// Read Unique ID.
    pub const READ_UNIQUE_ID: u32 = 1 << 5;
    /// Random Data Out.
    pub const RANDOM_DATA_OUT: u32 = 1 << 6;
    /// Multi-plane Copyback Program.
    pub const MULTI_PLANE_COPYBACK: u32 = 1 << 7;
    /// Small Data Move.
    pub const SMALL_DATA_MOVE: u32 = 1 << 8;
    /// Reset LUN.
    pub const RESET_LUN: u32 = 1 << 9;
    /// Synchronous Reset.
    pub const SYNCHRONOUS_RESET: u32 = 1 << 10;

    /// The set with the lower 24 bits of `raw`.
    #[must_use]
    pub const fn from_bits(raw: u32) -> Self {
        let [low, middle, high, _] = raw.to_le_bytes();
        Self([low, middle, high])
    }

    /// The set as stored.
    #[must_use]
    pub const fn bits(self) -> u32 {
        let [low, middle, high] = self.0;
        u32::from_le_bytes([low, middle, high, 0])
    }

    /// True when the chip supports every command of `mask`.
    #[must_use]
    pub const fn contains(self, mask: u32) -> bool {
        self.bits() & mask == mask
    }
}

impl Wire for JedecCommands {
    const WIDTH: usize = 3;

    fn decode(bytes: &[u8], at: usize) -> Self {
        Self(Wire::decode(bytes, at))
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        self.0.put(bytes, at);
    }
}

layout! {
    /// Error correction for one codeword size (JESD230, bytes 211-242).
    pub struct JedecEcc[8] {
        /// Bit errors to correct in a codeword.
        0 => bits: u8,
        /// Codeword size, as a power of two in bytes.
        1 => codeword_exponent: u8,
        /// Maximum number of bad blocks in a LUN over its life.
        2 => max_bad_blocks_per_lun: u16,
        /// Program/erase cycles of a block with that correction.
        4 => endurance: Endurance,
    }
}

layout! {
    /// One copy of the JEDEC parameter page (JESD230).
    ///
    /// Signature and checksum are not fields, because they are derived from the other bytes.
    pub struct JedecPage[512] {
        /// Revisions the chip follows.
        4 => revision: JedecRevision,
        /// Features of the chip.
        6 => features: JedecFeatures,
        /// Optional commands.
        8 => commands: JedecCommands,
        /// Secondary commands, bit set.
        11 => secondary_commands: u16,
        /// Number of copies of this page in the chip.
        13 => copies: u8,
        /// Manufacturer's name.
        32 => manufacturer: Text<12>,
        /// Chip's name.
        44 => model: Text<20>,
        /// JEDEC manufacturer code, as READ ID returns it.
        64 => jedec_id: [u8; 6],
        /// Data bytes in a page.
        80 => page_bytes: u32,
        /// Spare (out-of-band) bytes in a page.
        84 => spare_bytes: u16,
        /// Pages in a block.
        92 => pages_per_block: u32,
        /// Blocks in a LUN.
        96 => blocks_per_lun: u32,
        /// LUNs behind one chip enable.
        100 => luns: u8,
        /// Column and row address cycles.
        101 => address_cycles: AddressCycles,
        /// Bits per cell.
        102 => bits_per_cell: u8,
        /// Times a page may be programmed between erases.
        103 => programs_per_page: u8,
        /// Address bits that select a plane, in bits 0-3.
        104 => plane_bits: u8,
        /// Commands that work on several planes at once, bit set.
        105 => multi_plane: u8,
        /// Asynchronous SDR speed grades, bit set.
        144 => sdr_speeds: u16,
        /// Toggle-mode DDR speed grades, bit set.
        146 => toggle_speeds: u16,
        /// Synchronous DDR speed grades, bit set.
        148 => sync_speeds: u16,
        /// Asynchronous SDR features, bit set.
        150 => sdr_features: u8,
        /// Toggle-mode DDR features, bit set.
        151 => toggle_features: u8,
        /// Synchronous DDR features, bit set.
        152 => sync_features: u8,
        /// tPROG: longest page program, us.
        153 => t_prog_us: u16,
        /// tBERS: longest block erase, us.
        155 => t_bers_us: u16,
        /// tR: longest page read, us.
        157 => t_r_us: u16,
        /// tR of a multi-plane read, us.
        159 => t_r_multi_plane_us: u16,
        /// tCCS: shortest change-column setup, ns.
        161 => t_ccs_ns: u16,
        /// Typical I/O pin capacitance, 0.1 pF.
        163 => io_capacitance: u16,
        /// Typical input pin capacitance, 0.1 pF.
        165 => input_capacitance: u16,
        /// Typical clock pin capacitance, 0.1 pF.
        167 => clock_capacitance: u16,
        /// Driver strengths on offer, bit set.
        169 => driver_strength: u8,
        /// tADL: shortest address to data loading time, ns.
        170 => t_adl_ns: u16,
        /// Blocks at the start of the target that are good when shipped.
        208 => guaranteed_blocks: u8,
        /// Program/erase cycles of the guaranteed blocks.
        209 => guaranteed_endurance: Endurance,
        /// Error correction, one entry per codeword size on offer.
        211 => ecc: [JedecEcc; 4],
        /// Revision of the vendor-specific bytes.
        420 => vendor_revision: u16,
        /// Vendor-specific bytes.
        422 => vendor: [u8; 88],
    }
}

const _: () = assert!(JedecPage::SIZE == PAGE_BYTES && CRC_AT + 2 == PAGE_BYTES);

/// Reads one copy of the parameter page.
///
/// Bytes past the first [`PAGE_BYTES`] are ignored.
///
/// # Errors
///
/// A slice too short, a wrong signature, a wrong checksum, or a geometry with a size of zero.
pub fn parse(bytes: &[u8]) -> Result<JedecPage, MediaError> {
    let page = chunk::<PAGE_BYTES>(bytes, 0)?;
    signature(page, 0, SIGNATURE)?;
    let (body, tail) = page.split_at(CRC_AT);
    let stored = u16::decode(tail, 0);
    let computed = crc::onfi(body);
    if stored != computed {
        return Err(Reason::BadCrc { stored, computed }.at(CRC_AT));
    }
    let parsed = JedecPage::decode(page, 0);
    parsed.check()?;
    Ok(parsed)
}

/// Reads the parameter page from its copies, and returns the first copy with a good checksum.
///
/// # Errors
///
/// The error of the first copy if no copy is good.
pub fn parse_copies(bytes: &[u8]) -> Result<JedecPage, MediaError> {
    let good = bytes.chunks_exact(PAGE_BYTES).find_map(|copy| parse(copy).ok());
    good.map_or_else(|| parse(bytes), Ok)
}

/// Writes one copy of the parameter page, signature and checksum included.
#[must_use]
pub fn emit(page: &JedecPage) -> [u8; PAGE_BYTES] {
    let mut out = [0; PAGE_BYTES];
    page.put(&mut out, 0);
    store(&mut out, 0, SIGNATURE.as_bytes());
    let (body, tail) = out.split_at_mut(CRC_AT);
    crc::onfi(body).put(tail, 0);
    out
}

impl JedecPage {
    /// Rejects a geometry with a size of zero.
    fn check(&self) -> Result<(), MediaError> {
        let counts = [
            (80, "page_bytes", self.page_bytes),
            (92, "pages_per_block", self.pages_per_block),
            (96, "blocks_per_lun", self.blocks_per_lun),
            (100, "luns", u32::from(self.luns)),
        ];
        match counts.iter().find(|(_, _, count)| *count == 0) {
            Some((offset, field, _)) => Err(Reason::OutOfRange { field, value: 0 }.at(*offset)),
            None => Ok(()),
        }
    }

    /// Checksum that [`emit`] stores for this page.
    #[must_use]
    pub fn crc(&self) -> u16 {
        u16::decode(&emit(self), CRC_AT)
    }

    /// Data bytes behind one chip enable; `None` if the number does not fit 64 bits.
    #[must_use]
    pub fn chip_bytes(&self) -> Option<u64> {
        u64::from(self.page_bytes)
            .checked_mul(u64::from(self.pages_per_block))?
            .checked_mul(u64::from(self.blocks_per_lun))?
            .checked_mul(u64::from(self.luns))
    }

    /// Data bus width, bits.
    #[must_use]
    pub fn bus_width(&self) -> u8 {
        if self.features.contains(JedecFeatures::BUS_16) { 16 } else { 8 }
    }
}
