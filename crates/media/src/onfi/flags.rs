//! Bit sets of the ONFI parameter page.

use crate::flags::flags;

flags! {
    /// ONFI revisions the chip follows (ONFI 4.2 section 5.7.1, bytes 4-5).
    pub struct OnfiRevision(u16) {
        /// ONFI 1.0.
        V1_0 = 1,
        /// ONFI 2.0.
        V2_0 = 2,
        /// ONFI 2.1.
        V2_1 = 3,
        /// ONFI 2.2.
        V2_2 = 4,
        /// ONFI 2.3.
        V2_3 = 5,
        /// ONFI 3.0.
        V3_0 = 6,
        /// ONFI 3.1.
        V3_1 = 7,
        /// ONFI 3.2.
        V3_2 = 8,
        /// ONFI 4.0.
        V4_0 = 9,
        /// ONFI 4.1.
        V4_1 = 10,
        /// ONFI 4.2.
        V4_2 = 11,
    }
}

/// Revision bits with their versions (major, minor), newest first.
const VERSIONS: [(OnfiRevision, (u8, u8)); 11] = [
    (OnfiRevision::V4_2, (4, 2)),
    (OnfiRevision::V4_1, (4, 1)),
    (OnfiRevision::V4_0, (4, 0)),
    (OnfiRevision::V3_2, (3, 2)),
    (OnfiRevision::V3_1, (3, 1)),
    (OnfiRevision::V3_0, (3, 0)),
    (OnfiRevision::V2_3, (2, 3)),
    (OnfiRevision::V2_2, (2, 2)),
    (OnfiRevision::V2_1, (2, 1)),
    (OnfiRevision::V2_0, (2, 0)),
    (OnfiRevision::V1_0, (1, 0)),
];

impl OnfiRevision {
    /// The newest supported version, as (major, minor).
    ///
    /// `None` for a page without a revision bit: SPI NAND pages and some Micron raw NAND have zero
    /// there.
    #[must_use]
    pub fn newest(self) -> Option<(u8, u8)> {
        VERSIONS.iter().find(|(bit, _)| self.contains(*bit)).map(|(_, version)| *version)
    }
}

flags! {
    /// Features of the chip (ONFI 4.2 section 5.7.1, bytes 6-7).
    pub struct OnfiFeatures(u16) {
        /// 16-bit data bus.
        BUS_16 = 0,
        /// Operations on several LUNs at once.
        MULTIPLE_LUN = 1,
        /// Pages of a block programmed out of order.
        NON_SEQUENTIAL_PROGRAM = 2,
        /// Multi-plane program and erase.
        MULTI_PLANE_PROGRAM_ERASE = 3,
        /// Copyback between odd and even pages.
        ODD_EVEN_COPYBACK = 4,
        /// NV-DDR (source synchronous) interface.
        NV_DDR = 5,
        /// Multi-plane read.
        MULTI_PLANE_READ = 6,
        /// Extended parameter page present.
        EXTENDED_PAGE = 7,
        /// Program page register clear enhancement.
        PAGE_REGISTER_CLEAR = 8,
        /// EZ NAND: error correction in the package.
        EZ_NAND = 9,
        /// NV-DDR2 interface.
        NV_DDR2 = 10,
        /// Volume addressing.
        VOLUME_ADDRESSING = 11,
        /// External Vpp.
        EXTERNAL_VPP = 12,
        /// NV-DDR3 interface.
        NV_DDR3 = 13,
        /// ZQ calibration.
        ZQ_CALIBRATION = 14,
        /// Package electrical specification.
        PACKAGE_ELECTRICAL = 15,
    }
}

flags! {
    /// Optional commands the chip has (ONFI 4.2 section 5.7.1, bytes 8-9).
    pub struct OnfiCommands(u16) {
        /// Page Cache Program.
        PROGRAM_CACHE = 0,
        /// Read Cache.
        READ_CACHE = 1,
        /// Get Features and Set Features.
        GET_SET_FEATURES = 2,
        /// Read Status Enhanced.
        READ_STATUS_ENHANCED = 3,
        /// Copyback command.
        COPYBACK = 4,
        /// Read Unique ID.
        READ_UNIQUE_ID = 5,
        /// Change Read Column Enhanced.
        CHANGE_READ_COLUMN_ENHANCED = 6,
        /// Change Row Address.
        CHANGE_ROW_ADDRESS = 7,
        /// Small Data Move.
        SMALL_DATA_MOVE = 8,
        /// Reset LUN.
        RESET_LUN = 9,
        /// Volume Select.
        VOLUME_SELECT = 10,
        /// ODT Configure.
        ODT_CONFIGURE = 11,
        /// LUN Get Features and LUN Set Features.
        LUN_GET_SET_FEATURES = 12,
        /// ZQ calibration, long and short.
        ZQ_CALIBRATION = 13,
    }
}

flags! {
    /// Commands that work on several planes at once (ONFI 4.2 section 5.7.1, byte 114).
    pub struct MultiPlane(u8) {
        /// Overlapped operations on planes of one LUN.
        OVERLAPPED = 0,
        /// Block addresses of the planes are unrelated.
        NO_BLOCK_RESTRICTION = 1,
        /// Program cache works across planes.
        PROGRAM_CACHE = 2,
        /// Addresses may change between cache operations.
        CACHE_ADDRESS_CHANGE = 3,
        /// Read cache works across planes.
        READ_CACHE = 4,
        /// Lower block address bits are XNORed between planes.
        LOWER_BIT_XNOR = 5,
    }
}

flags! {
    /// Timing modes that an interface supports, bit n for mode n (ONFI 4.2 section 5.7.1, bytes
    /// 129-130, 141-142, 160-162).
    pub struct TimingModes(u16) {
        /// Mode 0, which every SDR chip supports.
        MODE_0 = 0,
        /// Mode 1.
        MODE_1 = 1,
        /// Mode 2.
        MODE_2 = 2,
        /// Mode 3.
        MODE_3 = 3,
        /// Mode 4.
        MODE_4 = 4,
        /// Mode 5.
        MODE_5 = 5,
    }
}

impl TimingModes {
    /// The fastest supported mode, or `None` for an empty set.
    #[must_use]
    pub const fn fastest(self) -> Option<u32> {
        self.bits().checked_ilog2()
    }
}

flags! {
    /// NV-DDR and NV-DDR2/3 features (ONFI 4.2 section 5.7.1, byte 143).
    pub struct NvDdrFeatures(u8) {
        /// The fast value of tCAD is supported.
        FAST_TCAD = 0,
        /// Typical capacitance values are present.
        TYPICAL_CAPACITANCE = 1,
        /// The clock may stop during data input.
        CLOCK_STOP = 2,
        /// Vpp has to be enabled in a set order.
        VPP_SEQUENCE = 3,
    }
}

flags! {
    /// Driver strengths on offer (ONFI 4.2 section 5.7.1, byte 151).
    pub struct DriverStrength(u8) {
        /// Driver strength settings are present.
        SETTINGS = 0,
        /// 25 ohm for NV-DDR.
        OHM_25 = 1,
        /// 18 ohm for NV-DDR.
        OHM_18 = 2,
    }
}
