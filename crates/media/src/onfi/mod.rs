//! The ONFI parameter page (ONFI 4.2 section 5.7).

mod copies;
mod extended;
mod flags;

pub use copies::{emit_copies, parse_copies};
pub use extended::{EccInfo, OnfiExtendedPage, Section};
pub use flags::{
    DriverStrength, MultiPlane, NvDdrFeatures, OnfiCommands, OnfiFeatures, OnfiRevision, TimingModes,
};

use crate::crc;
use crate::error::{MediaError, Reason};
use crate::text::Text;
use crate::units::{AddressCycles, Endurance};
use crate::wire::{Wire, chunk, layout, signature, store};

/// Bytes in one copy of the parameter page.
pub const PAGE_BYTES: usize = 256;

/// Signature of a parameter page.
const SIGNATURE: &str = "ONFI";

/// Offset of the checksum of the bytes before it.
const CRC_AT: usize = 254;

layout! {
    /// One copy of the ONFI parameter page (ONFI 4.2 section 5.7.1).
    ///
    /// Signature and checksum are not fields, because they are derived from the other bytes.
    pub struct OnfiPage[256] {
        /// Revisions the chip follows.
        4 => revision: OnfiRevision,
        /// Features of the chip.
        6 => features: OnfiFeatures,
        /// Optional commands.
        8 => commands: OnfiCommands,
        /// ONFI-JEDEC joint task group primary advanced commands, bit set.
        10 => advanced_commands: u8,
        /// Training commands, bit set (ONFI 4.1 and later).
        11 => training_commands: u8,
        /// Length of the extended parameter page, in units of 16 bytes.
        12 => extended_units: u16,
        /// Number of copies of this page in the chip; 0 before ONFI 2.1.
        14 => copies: u8,
        /// Manufacturer's name.
        32 => manufacturer: Text<12>,
        /// Chip's name.
        44 => model: Text<20>,
        /// JEDEC manufacturer code, the first READ ID byte.
        64 => jedec_id: u8,
        /// Year and week of manufacture, 0 if not given.
        65 => date_code: u16,
        /// Data bytes in a page.
        80 => page_bytes: u32,
        /// Spare (out-of-band) bytes in a page.
        84 => spare_bytes: u16,
        /// Data bytes in a partial page; obsolete since ONFI 2.0.
        86 => partial_page_bytes: u32,
        /// Spare bytes in a partial page; obsolete since ONFI 2.0.
        90 => partial_spare_bytes: u16,
        /// Pages in a block.
        92 => pages_per_block: u32,
        /// Blocks in a LUN.
        96 => blocks_per_lun: u32,
        /// LUNs behind one chip enable.
        100 => luns: u8,
        /// Column and row address cycles.
        101 => address_cycles: AddressCycles,
        /// Bits a cell holds.
        102 => bits_per_cell: u8,
        /// Maximum number of bad blocks in a LUN over its life.
        103 => max_bad_blocks_per_lun: u16,
        /// Program/erase cycles of a block.
        105 => endurance: Endurance,
        /// Blocks at the start of the target that are good when shipped.
        107 => guaranteed_blocks: u8,
        /// Program/erase cycles of the guaranteed blocks.
        108 => guaranteed_endurance: Endurance,
        /// Times a page may be programmed between erases.
        110 => programs_per_page: u8,
        /// Partial programming attributes; obsolete since ONFI 2.0.
        111 => partial_program_attributes: u8,
        /// Number of bits to correct in 512 bytes; 0xff: see the extended page.
        112 => ecc_bits: u8,
        /// Address bits that select a plane, in bits 0-3.
        113 => plane_bits: u8,
        /// Commands that work on several planes at once.
        114 => multi_plane: MultiPlane,
        /// EZ NAND support, bit set.
        115 => ez_nand: u8,
        /// Largest I/O pin capacitance, pF.
        128 => io_capacitance_max: u8,
        /// SDR timing modes.
        129 => sdr_modes: TimingModes,
        /// SDR timing modes of program cache; obsolete since ONFI 2.0.
        131 => program_cache_modes: TimingModes,
        /// tPROG: longest page program, us.
        133 => t_prog_us: u16,
        /// tBERS: longest block erase, us.
        135 => t_bers_us: u16,
        /// tR: longest page read, us.
        137 => t_r_us: u16,
        /// tCCS: shortest change-column setup, ns.
        139 => t_ccs_ns: u16,
        /// NV-DDR (source synchronous) timing modes, bit n for mode n.
        141 => nv_ddr_modes: u8,
        /// NV-DDR2 timing modes 0-7.
        142 => nv_ddr2_modes: u8,
        /// NV-DDR and NV-DDR2/3 features.
        143 => nv_ddr_features: NvDdrFeatures,
        /// Typical clock pin capacitance, 0.1 pF.
        144 => clock_capacitance: u16,
        /// Typical I/O pin capacitance, 0.1 pF.
        146 => io_capacitance: u16,
        /// Typical input pin capacitance, 0.1 pF.
        148 => input_capacitance: u16,
        /// Largest input pin capacitance, pF.
        150 => input_capacitance_max: u8,
        /// Driver strengths on offer.
        151 => driver_strength: DriverStrength,
        /// tR of a multi-plane read, us.
        152 => t_r_multi_plane_us: u16,
        /// tADL: shortest address to data loading time, ns.
        154 => t_adl_ns: u16,
        /// tR of an EZ NAND, us.
        156 => t_r_ez_nand_us: u16,
        /// NV-DDR2/3 features, bit set.
        158 => nv_ddr2_features: u8,
        /// NV-DDR2/3 warm-up cycles: output in bits 0-3, input in bits 4-7.
        159 => nv_ddr2_warmup: u8,
        /// NV-DDR3 timing modes.
        160 => nv_ddr3_modes: TimingModes,
        /// NV-DDR2 timing modes 8 and up.
        162 => nv_ddr2_modes_high: u8,
        /// Revision of the vendor-specific bytes.
        164 => vendor_revision: u16,
        /// Vendor-specific bytes.
        166 => vendor: [u8; 88],
    }
}

const _: () = assert!(OnfiPage::SIZE == PAGE_BYTES && CRC_AT + 2 == PAGE_BYTES);

/// Reads one copy of the parameter page.
///
/// Bytes past the first [`PAGE_BYTES`] are ignored.
///
/// # Errors
///
/// A slice too short, a wrong signature, a wrong checksum, or a geometry with a size of zero.
pub fn parse(bytes: &[u8]) -> Result<OnfiPage, MediaError> {
    let page = chunk::<PAGE_BYTES>(bytes, 0)?;
    signature(page, 0, SIGNATURE)?;
    check_crc(page)?;
    let parsed = OnfiPage::decode(page, 0);
    parsed.check()?;
    Ok(parsed)
}

/// Writes one copy of the parameter page, signature and checksum included.
#[must_use]
pub fn emit(page: &OnfiPage) -> [u8; PAGE_BYTES] {
    let mut out = [0; PAGE_BYTES];
    store(&mut out, 0, SIGNATURE.as_bytes());
    page.put(&mut out, 0);
    let (body, tail) = out.split_at_mut(CRC_AT);
    crc::onfi(body).put(tail, 0);
    out
}

/// Compares the computed checksum of a copy with the stored one.
fn check_crc(page: &[u8; PAGE_BYTES]) -> Result<(), MediaError> {
    let (body, tail) = page.split_at(CRC_AT);
    let stored = u16::decode(tail, 0);
    let computed = crc::onfi(body);
    if stored == computed {
        return Ok(());
    }
    Err(Reason::BadCrc { stored, computed }.at(CRC_AT))
}

impl OnfiPage {
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
        let page = emit(self);
        u16::decode(&page, CRC_AT)
    }

    /// Data bytes behind one chip enable; `None` if the number does not fit 64 bits.
    #[must_use]
    pub fn chip_bytes(&self) -> Option<u64> {
        u64::from(self.page_bytes)
            .checked_mul(u64::from(self.pages_per_block))?
            .checked_mul(u64::from(self.blocks_per_lun))?
            .checked_mul(u64::from(self.luns))
    }

    /// Number of planes in a LUN; `None` if the number does not fit 32 bits.
    #[must_use]
    pub fn planes(&self) -> Option<u32> {
        1u32.checked_shl(u32::from(self.plane_bits & 15))
    }

    /// Data bus width, bits.
    #[must_use]
    pub fn bus_width(&self) -> u8 {
        if self.features.contains(OnfiFeatures::BUS_16) { 16 } else { 8 }
    }

    /// Length of the extended parameter page, bytes; 0 if there is none.
    #[must_use]
    pub fn extended_bytes(&self) -> usize {
        if self.features.contains(OnfiFeatures::EXTENDED_PAGE) {
            16 * usize::from(self.extended_units)
        } else {
            0
        }
    }
}
