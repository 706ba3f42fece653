//! Properties of a chip found by the driver.

use crate::ecc_engine::EccRequirement;
use crate::raw_nand::address::RowMap;
use crate::raw_nand::spec::{
    BadBlockMarker, NandEcc, NandGeometry, NandOtp, Protection, RawNandSpec, ReadRetry,
};
use crate::raw_nand::timing::Modes;
use floatgate_media::jedec::{JedecCommands, JedecFeatures, JedecPage};
use floatgate_media::nand_id::{NandId, NandIdGeometry};
use floatgate_media::onfi::{OnfiCommands, OnfiFeatures, OnfiPage};
use floatgate_mtd::{Nanos, Pairing};

/// Source from which a chip was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSource {
    /// ONFI parameter page.
    Onfi,
    /// JEDEC parameter page.
    Jedec,
    /// An entry of the catalogue whose id bytes match.
    Catalogue,
    /// Encoding of the id bytes.
    IdBytes,
}

/// Properties of a chip as known to the driver: values from the chip, completed by the catalogue's entry for its id. Linux completes them
/// from its tables and manufacturer code in the same way.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipInfo {
    /// READ ID bytes without repetition.
    pub id: Vec<u8>,
    /// Source from which the chip was identified.
    pub id_source: IdSource,
    /// Model name; empty if only the id is known.
    pub model: String,
    /// Sizes of the chip; `targets` is the number of targets that answered.
    pub geometry: NandGeometry,
    /// ECC requirement of the chip.
    pub ecc: NandEcc,
    /// SDR timing modes that the chip supports.
    pub sdr_modes: Modes,
    /// NV-DDR timing modes that the chip supports.
    pub nvddr_modes: Modes,
    /// Maximum page read time tR.
    pub t_r_max: Nanos,
    /// Maximum page program time tPROG.
    pub t_prog_max: Nanos,
    /// Maximum block erase time tBERS.
    pub t_bers_max: Nanos,
    /// True if the chip supports SET FEATURES.
    pub set_features: bool,
    /// True if the chip supports GET FEATURES.
    pub get_features: bool,
    /// True if SET FEATURES can change the timing mode.
    pub timing_feature: bool,
    /// True if the chip supports cached reads.
    pub read_cache: bool,
    /// True if the chip supports cached programs.
    pub program_cache: bool,
    /// True if the chip supports multi-plane operations.
    pub multi_plane: bool,
    /// OTP pages; `None` if the chip has none.
    pub otp: Option<NandOtp>,
    /// Block protection; `None` if the chip has none.
    pub protection: Option<Protection>,
    /// Read retry; `None` if the chip has none.
    pub read_retry: Option<ReadRetry>,
    /// Maximum number of programs of a page between two erases (NOP).
    pub nop: u8,
    /// Position of bad block markers.
    pub marker: BadBlockMarker,
    /// Pairing scheme of the pages, which no parameter page contains.
    pub pairing: Pairing,
}

/// Maximum time of an operation of an unknown chip (Linux: `ONFI_DYN_TIMING_MAX`).
const UNKNOWN_MAX: Nanos = Nanos::from_us(65_535);

impl ChipInfo {
    /// Map of the chip's row addresses.
    pub const fn rows(&self) -> RowMap {
        let g = &self.geometry;
        RowMap::new(g.pages_per_block, g.blocks_per_lun, g.luns)
    }

    /// ECC requirement in the form that an engine uses.
    pub fn requirement(&self) -> EccRequirement {
        self.ecc.into()
    }

    /// Properties from an ONFI page; `ecc` is from the extended page if byte 112 is FFh.
    pub(super) fn from_onfi(id: &[u8], page: &OnfiPage, ecc: Option<NandEcc>) -> Self {
        let has = |command| page.commands.contains(command);
        let planes = page.planes().unwrap_or(1);
        let bits =
            NandEcc { strength: u32::from(page.ecc_bits), step_bytes: 512, on_die: page.ecc_bits == 0 };
        Self {
            id: id.to_vec(),
            id_source: IdSource::Onfi,
            model: page.model.as_str().to_owned(),
            geometry: NandGeometry {
                page_bytes: page.page_bytes,
                oob_bytes: u32::from(page.spare_bytes),
                pages_per_block: page.pages_per_block,
                blocks_per_lun: page.blocks_per_lun,
                luns: u32::from(page.luns),
                targets: 1,
                planes,
                bits_per_cell: page.bits_per_cell,
                max_bad_blocks_per_lun: u32::from(page.max_bad_blocks_per_lun),
            },
            ecc: ecc.unwrap_or(bits),
            sdr_modes: Modes::from_bits(page.sdr_modes.bits() as u8),
            nvddr_modes: if page.features.contains(OnfiFeatures::NV_DDR) {
                Modes::from_bits(page.nv_ddr_modes)
            } else {
                Modes::NONE
            },
            t_r_max: Nanos::from_us(u64::from(page.t_r_us)),
            t_prog_max: Nanos::from_us(u64::from(page.t_prog_us)),
            t_bers_max: Nanos::from_us(u64::from(page.t_bers_us)),
            set_features: has(OnfiCommands::GET_SET_FEATURES),
            get_features: has(OnfiCommands::GET_SET_FEATURES),
            timing_feature: has(OnfiCommands::GET_SET_FEATURES),
            read_cache: has(OnfiCommands::READ_CACHE),
            program_cache: has(OnfiCommands::PROGRAM_CACHE),
            multi_plane: page.features.contains(OnfiFeatures::MULTI_PLANE_PROGRAM_ERASE),
            nop: page.programs_per_page.max(1),
            ..Self::unknown(id)
        }
    }

    /// Properties from a JEDEC page. As in Linux, its speed grades are not used: the interface stays in mode 0 unless the catalogue states
    /// more.
    pub(super) fn from_jedec(id: &[u8], page: &JedecPage) -> Self {
        let has = |command| page.commands.contains(command);
        let ecc = page.ecc[0];
        Self {
            id_source: IdSource::Jedec,
            model: page.model.as_str().to_owned(),
            geometry: NandGeometry {
                page_bytes: page.page_bytes,
                oob_bytes: u32::from(page.spare_bytes),
                pages_per_block: page.pages_per_block,
                blocks_per_lun: page.blocks_per_lun,
                luns: u32::from(page.luns),
                targets: 1,
                planes: 1 << (page.plane_bits & 3),
                bits_per_cell: page.bits_per_cell,
                max_bad_blocks_per_lun: u32::from(ecc.max_bad_blocks_per_lun),
            },
            ecc: NandEcc {
                strength: u32::from(ecc.bits),
                step_bytes: 1 << (ecc.codeword_exponent & 15),
                on_die: ecc.bits == 0,
            },
            t_r_max: Nanos::from_us(u64::from(page.t_r_us)),
            t_prog_max: Nanos::from_us(u64::from(page.t_prog_us)),
            t_bers_max: Nanos::from_us(u64::from(page.t_bers_us)),
            set_features: has(JedecCommands::GET_SET_FEATURES),
            get_features: has(JedecCommands::GET_SET_FEATURES),
            timing_feature: has(JedecCommands::GET_SET_FEATURES),
            read_cache: has(JedecCommands::READ_CACHE),
            program_cache: has(JedecCommands::PROGRAM_CACHE),
            multi_plane: page.features.contains(JedecFeatures::MULTI_PLANE_PROGRAM_ERASE),
            nop: page.programs_per_page.max(1),
            ..Self::unknown(id)
        }
    }

    /// Properties from the encoding of the id bytes. Chips without a parameter page required one bit per 512 bytes, unless they have
    /// several bits per cell.
    pub(super) fn from_id(id: &NandId, g: &NandIdGeometry) -> Self {
        let blocks = g.chip_bytes / u64::from(g.block_bytes.max(1));
        let strength = if g.bits_per_cell > 1 { 4 } else { 1 };
        Self {
            id_source: IdSource::IdBytes,
            geometry: NandGeometry {
                page_bytes: g.page_bytes,
                oob_bytes: g.oob_bytes,
                pages_per_block: g.block_bytes / g.page_bytes.max(1),
                blocks_per_lun: u32::try_from(blocks).unwrap_or(u32::MAX),
                bits_per_cell: g.bits_per_cell,
                ..Self::unknown(&[]).geometry
            },
            ecc: NandEcc { strength, step_bytes: 512, on_die: false },
            ..Self::unknown(id.bytes())
        }
    }

    /// Properties from the catalogue alone.
    pub(super) fn from_catalogue(id: &[u8], spec: &RawNandSpec) -> Self {
        let info = Self {
            id_source: IdSource::Catalogue,
            geometry: NandGeometry { targets: 1, ..spec.geometry },
            ecc: spec.ecc,
            read_cache: spec.read_cache,
            program_cache: spec.program_cache,
            multi_plane: spec.multi_plane,
            ..Self::unknown(id)
        };
        info.completed_by(spec)
    }

    /// Adds values that parameter pages lack or state wrongly.
    #[must_use]
    pub(super) fn completed_by(mut self, spec: &RawNandSpec) -> Self {
        self.sdr_modes = spec.sdr_modes;
        self.nvddr_modes = spec.nvddr_modes;
        self.t_r_max = spec.timing.t_r_us.max;
        self.t_prog_max = spec.timing.t_prog_us.max;
        self.t_bers_max = spec.timing.t_bers_us.max;
        self.set_features = spec.features.set;
        self.get_features = spec.features.get;
        self.timing_feature = spec.features.set && spec.features.timing_mode;
        self.otp = spec.otp;
        self.protection = spec.protection;
        self.read_retry = spec.read_retry.clone();
        self.nop = spec.nop;
        // For chips with on-die ECC, ONFI only states that the host needs no ECC.
        self.ecc = if self.ecc.on_die { spec.ecc } else { self.ecc };
        self.marker = spec.bad_block_marker.clone();
        self.pairing = spec.pairing(self.geometry.pages_per_block);
        self
    }

    fn unknown(id: &[u8]) -> Self {
        Self {
            id: id.to_vec(),
            id_source: IdSource::IdBytes,
            model: String::new(),
            geometry: NandGeometry {
                page_bytes: 0,
                oob_bytes: 0,
                pages_per_block: 1,
                blocks_per_lun: 1,
                luns: 1,
                targets: 1,
                planes: 1,
                bits_per_cell: 1,
                max_bad_blocks_per_lun: 0,
            },
            ecc: NandEcc { strength: 1, step_bytes: 512, on_die: false },
            sdr_modes: Modes::up_to(0),
            nvddr_modes: Modes::NONE,
            t_r_max: UNKNOWN_MAX,
            t_prog_max: UNKNOWN_MAX,
            t_bers_max: UNKNOWN_MAX,
            set_features: false,
            get_features: false,
            timing_feature: false,
            read_cache: false,
            program_cache: false,
            multi_plane: false,
            otp: None,
            protection: None,
            read_retry: None,
            nop: 1,
            marker: BadBlockMarker::default(),
            pairing: Pairing::NONE,
        }
    }
}
