//! Specification of a raw NAND chip: the `[chip]` table of a part file.

use super::mlc::MlcSpec;
use super::timing::Modes;
use crate::array::SubPages;
use crate::cells::{ErrorSpec, WearSpec};
use crate::ecc_engine::EccRequirement;
use crate::nand::facts::{Marker, NandFacts, check_cells, product};
use crate::spec::BadSpec;
use crate::units::{self, TypMaxUs};
use floatgate_mtd::{Nanos, Pairing};
use serde::Deserialize;

/// Maximum number of planes in a LUN (ONFI chips have 1, 2 or 4).
pub const PLANES_MAX: u32 = 4;

/// Specification of a raw NAND chip.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawNandSpec {
    /// Bytes that READ ID (address 00h) returns; the chip repeats them after the last byte.
    pub id: Vec<u8>,
    /// Sizes of pages, blocks, planes and LUNs.
    pub geometry: NandGeometry,
    /// ECC that the chip requires.
    pub ecc: NandEcc,
    /// Times of the array.
    pub timing: NandTiming,
    /// Paired pages of a chip with two bits per cell; none if the pairing is unknown.
    #[serde(default)]
    pub mlc: Option<MlcSpec>,
    /// List of the SDR timing modes.
    #[serde(default = "mode_0_only")]
    pub sdr_modes: Modes,
    /// List of the NV-DDR timing modes.
    #[serde(default)]
    pub nvddr_modes: Modes,
    /// ONFI parameter page; none if the chip has no such page.
    #[serde(default)]
    pub onfi: Option<OnfiSpec>,
    /// JEDEC parameter page; none if the chip has no such page.
    #[serde(default)]
    pub jedec: Option<JedecSpec>,
    /// Support of GET FEATURES and SET FEATURES: by the chip, and as stated in the parameter page.
    #[serde(default)]
    pub features: FeatureSpec,
    /// True if the chip has cached reads (31h, 3Fh).
    #[serde(default)]
    pub read_cache: bool,
    /// True if the chip has cached programs (15h).
    #[serde(default)]
    pub program_cache: bool,
    /// True if the chip has copyback (35h, 85h).
    #[serde(default)]
    pub copyback: bool,
    /// True if the chip has multi-plane reads, programs and erases.
    #[serde(default)]
    pub multi_plane: bool,
    /// One-time-programmable pages; none if the chip has no such pages.
    #[serde(default)]
    pub otp: Option<NandOtp>,
    /// Block protection by a feature; none if the chip has no such protection.
    #[serde(default)]
    pub protection: Option<Protection>,
    /// Read retry; none if the chip has no read retry.
    #[serde(default)]
    pub read_retry: Option<ReadRetry>,
    /// Number of programs of a page between two erases (NOP). The page has this number of sub-pages, rounded down to
    /// a power of two, and each sub-page may be programmed once.
    #[serde(default = "one")]
    pub nop: u8,
    /// True if the pages of a block must be programmed in order, as in all chips with more than one bit per cell.
    #[serde(default)]
    pub in_order: bool,
    /// Position of the maker's bad block markers.
    #[serde(default)]
    pub bad_block_marker: BadBlockMarker,
    /// Blocks that are bad from the factory.
    #[serde(default)]
    pub factory_bad: FactoryBad,
    /// Program/erase cycles that the data sheet guarantees; 0 if unknown.
    #[serde(default)]
    pub endurance_cycles: u64,
    /// Data retention that the data sheet guarantees, in years; 0 if unknown.
    #[serde(default)]
    pub retention_years: u32,
    /// True if an erase ends as soon as a verify finds all cells erased, so that a blank block takes one pulse. Not
    /// all makers' chips do this.
    #[serde(default)]
    pub blank_erase_stops: bool,
    /// Measured wear of the blocks; typical wear for the data sheet's figures when absent.
    #[serde(default)]
    pub wear: Option<WearSpec>,
    /// Measured bit error rates; typical rates for the data sheet's figures when absent.
    #[serde(default)]
    pub errors: Option<ErrorSpec>,
}

const fn mode_0_only() -> Modes {
    Modes::up_to(0)
}

const fn one() -> u8 {
    1
}

/// Sizes of a raw NAND chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandGeometry {
    /// Size of a page without OOB, in bytes.
    #[serde(with = "bytes32")]
    pub page_bytes: u32,
    /// Size of a page's OOB, in bytes.
    #[serde(with = "bytes32")]
    pub oob_bytes: u32,
    /// Number of pages in a block.
    pub pages_per_block: u32,
    /// Number of blocks in a LUN.
    pub blocks_per_lun: u32,
    /// Number of LUNs behind one CE#.
    #[serde(default = "one32")]
    pub luns: u32,
    /// Number of chip enables (CE#) of the package; each has `luns` LUNs.
    #[serde(default = "one32")]
    pub targets: u32,
    /// Number of planes in a LUN: block n is in plane n modulo `planes`.
    #[serde(default = "one32")]
    pub planes: u32,
    /// Number of bits per cell.
    #[serde(default = "one")]
    pub bits_per_cell: u8,
    /// Largest number of bad blocks per LUN over the chip's life.
    #[serde(default)]
    pub max_bad_blocks_per_lun: u32,
}

const fn one32() -> u32 {
    1
}

/// Serde helpers for sizes below 4 GiB.
mod bytes32 {
    use serde::Deserializer;
    use serde::de::Error;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
        let bytes = crate::units::bytes::deserialize(d)?;
        u32::try_from(bytes).map_err(|_| D::Error::custom("a page is smaller than 4 GiB"))
    }
}

impl NandGeometry {
    /// Size of a page with its OOB, bytes.
    pub const fn full_page(&self) -> u32 {
        self.page_bytes + self.oob_bytes
    }

    /// Number of blocks behind one CE#.
    pub const fn blocks_per_target(&self) -> u32 {
        self.blocks_per_lun * self.luns
    }

    /// Size of the memory behind one CE# without OOB, bytes.
    pub const fn target_bytes(&self) -> u64 {
        self.blocks_per_target() as u64 * self.pages_per_block as u64 * self.page_bytes as u64
    }

    /// True if commands 00h, 01h and 50h select a part of the page, as in chips with 512-byte pages.
    pub const fn small_page(&self) -> bool {
        self.page_bytes <= 512
    }

    /// Size of a sub-page, the unit of partial programs, bytes. The rule is the same as in Linux's `nand_scan_tail`: SLC pages of 2 ECC
    /// steps have two sub-pages, pages of 4, 8 or 16 steps have four. There are no sub-pages if the controller cannot program parts of a
    /// page (`NAND_NO_SUBPAGE_WRITE`), or if the chip allows fewer programs of a page between two erases (`nop`).
    pub fn sub_page_bytes(&self, nop: u8, ecc_step_bytes: u32, controller_can: bool) -> u32 {
        let parts = match self.page_bytes.checked_div(ecc_step_bytes) {
            Some(2) => 2,
            Some(4 | 8 | 16) => 4,
            _ => 1,
        };
        let can = controller_can && self.bits_per_cell == 1 && u32::from(nop) >= parts;
        if can { self.page_bytes / parts } else { self.page_bytes }
    }

    /// Number of column address cycles.
    pub const fn column_cycles(&self) -> u8 {
        if self.small_page() { 1 } else { 2 }
    }
}

/// ECC requirement of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandEcc {
    /// Number of bits to correct per step.
    pub strength: u32,
    /// Size of a step in bytes.
    pub step_bytes: u32,
    /// True if the chip itself corrects errors.
    #[serde(default)]
    pub on_die: bool,
}

impl From<NandEcc> for EccRequirement {
    fn from(ecc: NandEcc) -> Self {
        Self { strength: ecc.strength, step_bytes: ecc.step_bytes }
    }
}

/// Times of the memory array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandTiming {
    /// Page read time tR (array to register), us.
    pub t_r_us: TypMaxUs,
    /// Busy time tRCBSY of a cached read whose page is already in the register, us.
    #[serde(default = "t_rcbsy", with = "units::us")]
    pub t_rcbsy_us: Nanos,
    /// Page program time tPROG, us.
    pub t_prog_us: TypMaxUs,
    /// Busy time tCBSY of a cached program while the array is idle, us.
    #[serde(default = "t_cbsy", with = "units::us")]
    pub t_cbsy_us: Nanos,
    /// Busy time tDBSY between the planes of a multi-plane operation, us.
    #[serde(default = "t_dbsy", with = "units::us")]
    pub t_dbsy_us: Nanos,
    /// Block erase time tBERS, us.
    pub t_bers_us: TypMaxUs,
    /// Reset time tRST of an idle chip, us.
    #[serde(default = "t_rst", with = "units::us")]
    pub t_rst_us: Nanos,
}

// Typical values of SLC data sheets (MX30LF, MT29F: tRCBSY 3 to 5 us, tCBSY 3 to 5 us, tDBSY 0.5 us, tRST 5 us).
const fn t_rcbsy() -> Nanos {
    Nanos::from_us(3)
}

const fn t_cbsy() -> Nanos {
    Nanos::from_us(5)
}

const fn t_dbsy() -> Nanos {
    Nanos::from_ns(500)
}

const fn t_rst() -> Nanos {
    Nanos::from_us(5)
}

/// Fields of the ONFI parameter page that cannot be derived from other values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnfiSpec {
    /// Revision of the ONFI specification, such as "2.3".
    pub revision: String,
    /// Name of the manufacturer, at most 12 characters.
    pub manufacturer: String,
    /// Name of the model, at most 20 characters.
    pub model: String,
    /// Number of copies of the page, at least 3.
    #[serde(default = "three")]
    pub copies: u8,
}

/// Fields of the JEDEC parameter page that cannot be derived from other values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JedecSpec {
    /// Name of the manufacturer, at most 12 characters.
    pub manufacturer: String,
    /// Name of the model, at most 20 characters.
    pub model: String,
    /// Number of copies of the page, at least 3.
    #[serde(default = "three")]
    pub copies: u8,
}

const fn three() -> u8 {
    3
}

/// Support of GET and SET FEATURES.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureSpec {
    /// True if the chip has SET FEATURES (EFh).
    pub set: bool,
    /// True if the chip has GET FEATURES (EEh).
    pub get: bool,
    /// True if the parameter page states that the chip has both commands.
    pub advertised: bool,
    /// True if the timing mode (feature 01h) can be set and read. A chip without this feature works in each mode that
    /// it lists (Macronix' AC series).
    pub timing_mode: bool,
}

impl Default for FeatureSpec {
    /// A chip that does not support features.
    fn default() -> Self {
        Self { set: false, get: false, advertised: false, timing_mode: false }
    }
}

/// One-time-programmable pages, which are accessible while a feature is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandOtp {
    /// Number of pages.
    pub pages: u32,
    /// Row of the first OTP page.
    pub first_page: u32,
    /// Number of usable bytes in an OTP page, including the OOB if it is usable.
    pub page_bytes: u32,
    /// Address of the feature that makes the OTP pages visible.
    pub feature: u8,
    /// Value of the feature's first parameter while OTP pages are visible.
    pub value: u8,
    /// Procedure that locks the area permanently; none if it is unknown.
    #[serde(default)]
    pub lock: Option<OtpLock>,
}

/// Lock of the OTP pages: the program of a row while the feature has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtpLock {
    /// Value of the feature's first parameter during the lock.
    pub value: u8,
    /// Row that is programmed to lock the area.
    pub row: u32,
}

/// Block protection by a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protection {
    /// Address of the feature.
    pub feature: u8,
    /// Value of the feature's first parameter that locks all blocks.
    pub lock_all: u8,
    /// True if all blocks are locked after power-on (the PT pin is high).
    #[serde(default)]
    pub locked_at_power_on: bool,
}

/// Command sequence that selects a read retry mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryKind {
    /// A feature, whose first parameter is the mode (Micron and Macronix: 89h).
    #[default]
    Feature,
    /// Register values between the commands 36h and 16h (Hynix; Linux: nand_hynix.c).
    Hynix,
}

/// Read retry: modes in which pages are read with shifted thresholds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRetry {
    /// Command that selects a mode.
    #[serde(default)]
    pub kind: RetryKind,
    /// Address of the feature.
    #[serde(default)]
    pub feature: u8,
    /// Number of modes, including the normal mode 0.
    pub modes: u8,
    /// Decrease of the read thresholds in each mode, in standard deviations of the cells' threshold voltage. If empty,
    /// the decrease is 0.3 times the number of the mode (an assumption: makers publish no figures).
    #[serde(default)]
    pub lowered: Vec<f64>,
    /// Addresses of the registers (kind `hynix`).
    #[serde(default)]
    pub registers: Vec<u8>,
    /// Values of the registers in each mode (kind `hynix`).
    #[serde(default)]
    pub values: Vec<Vec<u8>>,
}

impl ReadRetry {
    /// Shift of the read thresholds in a mode, in standard deviations downwards; 0 for an unknown mode.
    pub fn lowered(&self, mode: u8) -> f64 {
        match self.lowered.get(usize::from(mode)) {
            Some(lowered) => *lowered,
            None if self.lowered.is_empty() && mode < self.modes => 0.3 * f64::from(mode),
            None => 0.0,
        }
    }

    fn check(&self) -> Result<(), BadSpec> {
        let modes = usize::from(self.modes);
        let possible = |lowered: &f64| (-4.0..=4.0).contains(lowered);
        let full = |values: &Vec<u8>| values.len() == self.registers.len();
        let rules = [
            (
                self.lowered.is_empty() || self.lowered.len() == modes && self.lowered[0] == 0.0,
                "read_retry.lowered",
                "one value per mode, the first 0",
            ),
            (self.lowered.iter().all(possible), "read_retry.lowered", "-4 to 4 deviations"),
            (
                self.kind == RetryKind::Feature || !self.registers.is_empty(),
                "read_retry.registers",
                "at least one",
            ),
            (
                self.kind == RetryKind::Feature || self.values.len() == modes && self.values.iter().all(full),
                "read_retry.values",
                "one value per register in each mode",
            ),
        ];
        let broken = rules.into_iter().find(|rule| !rule.0);
        broken.map_or(Ok(()), |(_, field, problem)| Err(BadSpec::new(field, problem)))
    }
}

/// A page of a block that may contain the bad block marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkerPage {
    /// The first page.
    First,
    /// The second page.
    Second,
    /// The last page.
    Last,
}

impl MarkerPage {
    /// Number of the page in a block of `pages_per_block`.
    pub const fn page(self, pages_per_block: u32) -> u32 {
        match self {
            Self::First => 0,
            Self::Second => 1,
            Self::Last => pages_per_block - 1,
        }
    }
}

/// Position of the maker's bad block markers, which are bytes other than FFh.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BadBlockMarker {
    /// Position of the marker in the OOB; when absent, byte 5 of small pages and byte 0 of large pages.
    pub oob_byte: Option<u32>,
    /// Pages of a block that contain the marker.
    pub pages: Vec<MarkerPage>,
}

impl Default for BadBlockMarker {
    fn default() -> Self {
        Self { oob_byte: None, pages: vec![MarkerPage::First] }
    }
}

impl BadBlockMarker {
    /// Offset of the marker in the OOB for these sizes (Linux: NAND_BBM_POS_SMALL and NAND_BBM_POS_LARGE).
    pub const fn byte(&self, geometry: &NandGeometry) -> u32 {
        match self.oob_byte {
            Some(byte) => byte,
            None if geometry.small_page() => 5,
            None => 0,
        }
    }
}

/// Factory bad blocks. Block 0 is never bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FactoryBad {
    /// Number of bad blocks in each LUN, at most `max_bad_blocks_per_lun`.
    pub per_lun: u32,
    /// Seed of the random positions of the bad blocks.
    pub seed: u64,
}

impl RawNandSpec {
    /// Checks rules that the types do not enforce.
    ///
    /// # Errors
    /// The first impossible value.
    pub fn check(&self) -> Result<(), BadSpec> {
        let g = &self.geometry;
        let rows = u64::from(g.blocks_per_lun) * u64::from(g.luns) * u64::from(g.pages_per_block);
        let rules = [
            (!self.id.is_empty() && self.id.len() <= 8, "id", "1 to 8 bytes"),
            (
                g.page_bytes >= 256 && g.page_bytes.is_power_of_two(),
                "geometry.page_bytes",
                "a power of two from 256",
            ),
            (g.page_bytes <= 65_536, "geometry.page_bytes", "at most 64 KiB"),
            (
                (8..=g.page_bytes.min(32_768)).contains(&g.oob_bytes),
                "geometry.oob_bytes",
                "from 8 bytes to a page or 32 KiB",
            ),
            ((2..=4096).contains(&g.pages_per_block), "geometry.pages_per_block", "2 to 4096"),
            (g.blocks_per_lun > 0 && g.blocks_per_lun <= 1 << 20, "geometry.blocks_per_lun", "1 to 1048576"),
            ((1..=8).contains(&g.luns), "geometry.luns", "1 to 8"),
            ((1..=8).contains(&g.targets), "geometry.targets", "1 to 8"),
            (matches!(g.planes, 1 | 2 | PLANES_MAX), "geometry.planes", "1, 2 or 4"),
            (
                g.blocks_per_lun.is_multiple_of(g.planes.max(1)),
                "geometry.planes",
                "must divide the number of blocks",
            ),
            ((1..=4).contains(&g.bits_per_cell), "geometry.bits_per_cell", "1 to 4"),
            (rows < 1 << 28, "geometry", "more pages behind one CE# than four row cycles are used for"),
            (self.ecc.strength <= 1024, "ecc.strength", "at most 1024 bits"),
            (
                !self.ecc.on_die || self.ecc.strength > 0,
                "ecc.strength",
                "an engine on the die corrects at least 1 bit",
            ),
            ((1..=g.page_bytes).contains(&self.ecc.step_bytes), "ecc.step_bytes", "from 1 to the page size"),
            (self.nop > 0, "nop", "cannot be 0"),
            (self.sdr_modes.contains(0), "sdr_modes", "every chip has mode 0"),
            (
                self.factory_bad.per_lun <= g.max_bad_blocks_per_lun,
                "factory_bad.per_lun",
                "more than max_bad_blocks_per_lun",
            ),
            (self.factory_bad.per_lun < g.blocks_per_lun, "factory_bad.per_lun", "block 0 is always good"),
            (!self.bad_block_marker.pages.is_empty(), "bad_block_marker.pages", "at least one page"),
            (self.bad_block_marker.byte(g) < g.oob_bytes, "bad_block_marker.oob_byte", "beyond the OOB"),
            (
                self.otp.is_none_or(|o| o.page_bytes > 0 && o.page_bytes <= g.full_page()),
                "otp.page_bytes",
                "1 byte to a page with OOB",
            ),
        ];
        if let Some((_, field, problem)) = rules.into_iter().find(|rule| !rule.0) {
            return Err(BadSpec::new(field, problem));
        }
        check_cells(self.wear.as_ref(), self.errors.as_ref())
            .map_err(|(field, problem)| BadSpec::new(field, problem))?;
        self.read_retry.as_ref().map_or(Ok(()), ReadRetry::check)?;
        self.mlc.map_or(Ok(()), |mlc| mlc.check(g.bits_per_cell, g.pages_per_block, self.timing.t_prog_us))
    }

    /// Limits of the chip for programs of a page between two erases.
    pub fn sub_pages(&self) -> SubPages {
        SubPages::new(self.geometry.page_bytes, self.nop)
    }

    /// Properties of the chip that do not depend on its bus.
    pub fn facts(&self) -> NandFacts {
        let g = &self.geometry;
        let marker = &self.bad_block_marker;
        let pages = marker.pages.iter().map(|page| page.page(g.pages_per_block.max(1)));
        NandFacts {
            page_bytes: g.page_bytes,
            oob_bytes: g.oob_bytes,
            sub_page_bytes: g.sub_page_bytes(self.nop, self.ecc.step_bytes, true),
            pages_per_block: g.pages_per_block,
            blocks: product(&[g.blocks_per_lun, g.luns, g.targets]),
            max_bad_blocks_per_lun: g.max_bad_blocks_per_lun,
            max_bad_blocks: product(&[g.max_bad_blocks_per_lun, g.luns, g.targets]),
            bits_per_cell: g.bits_per_cell,
            marker: Marker { byte: marker.byte(g), pages: pages.collect() },
            ecc: self.ecc.into(),
            on_die_ecc: self.ecc.on_die,
            endurance_cycles: self.endurance_cycles,
            t_r_us: self.timing.t_r_us,
            t_prog_us: self.timing.t_prog_us,
            t_bers_us: self.timing.t_bers_us,
            blank_erase_stops: self.blank_erase_stops,
            wear: self.wear,
            errors: self.errors,
        }
    }

    /// Pairing scheme of blocks of `pages_per_block` pages; no pairing if it is unknown.
    pub fn pairing(&self, pages_per_block: u32) -> Pairing {
        let known = self.mlc.and_then(|mlc| Pairing::new(mlc.pairing, pages_per_block).ok());
        known.unwrap_or(Pairing::NONE)
    }

    /// True if `answer` to READ ID starts with all id bytes of this chip.
    pub fn answers_to(&self, answer: &[u8]) -> bool {
        answer.starts_with(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_nand::ChipOptions;
    use crate::raw_nand::testing::{mx30lf2g18ac, nand128w3a2bn, nv_ddr};

    #[test]
    fn examples_make_sense() {
        for spec in [mx30lf2g18ac(), nand128w3a2bn(), nv_ddr()] {
            assert_eq!(spec.check(), Ok(()));
        }
        let spec = mx30lf2g18ac();
        assert_eq!((spec.timing.t_rcbsy_us, spec.sdr_modes.fastest()), (Nanos::from_us(5), Some(5)));
        assert_eq!((spec.geometry.full_page(), spec.bad_block_marker.byte(&spec.geometry)), (2112, 0));
        assert_eq!(nand128w3a2bn().bad_block_marker.byte(&nand128w3a2bn().geometry), 5);
    }

    #[test]
    fn impossible_chips_are_refused_by_name() {
        type Break = fn(&mut RawNandSpec);
        let breaks: [(&str, Break); 13] = [
            ("ecc.strength", |s| (s.ecc.on_die, s.ecc.strength) = (true, 0)),
            ("id", |s| s.id.clear()),
            ("geometry.page_bytes", |s| s.geometry.page_bytes = 2000),
            ("geometry.oob_bytes", |s| s.geometry.oob_bytes = 0),
            ("geometry.pages_per_block", |s| s.geometry.pages_per_block = 0),
            ("geometry.blocks_per_lun", |s| s.geometry.blocks_per_lun = 0),
            ("geometry.luns", |s| s.geometry.luns = 0),
            ("geometry.planes", |s| s.geometry.planes = 3),
            ("geometry.bits_per_cell", |s| s.geometry.bits_per_cell = 0),
            ("nop", |s| s.nop = 0),
            ("sdr_modes", |s| s.sdr_modes = Modes::NONE),
            ("factory_bad.per_lun", |s| s.factory_bad.per_lun = 41),
            ("bad_block_marker.oob_byte", |s| s.bad_block_marker.oob_byte = Some(64)),
        ];
        for (field, change) in breaks {
            let mut spec = mx30lf2g18ac();
            change(&mut spec);
            assert_eq!(spec.check().unwrap_err().key, field);
            assert!(crate::raw_nand::RawNand::package(&spec, ChipOptions::timing_only()).is_err());
        }
    }

    #[test]
    fn texts_that_no_parameter_page_holds_are_refused() {
        let mut spec = mx30lf2g18ac();
        let mut try_onfi = |change: fn(&mut OnfiSpec)| {
            spec.onfi = mx30lf2g18ac().onfi;
            spec.onfi.as_mut().map(change);
            crate::raw_nand::RawNand::package(&spec, ChipOptions::timing_only()).unwrap_err().key
        };
        assert_eq!(try_onfi(|onfi| onfi.revision = "1.7".into()), "onfi.revision");
        assert_eq!(try_onfi(|onfi| onfi.manufacturer = "a name too long".into()), "onfi.manufacturer");
        assert_eq!(try_onfi(|onfi| onfi.model = "\u{e9}".into()), "onfi.model");
        assert_eq!(try_onfi(|onfi| onfi.copies = 2), "onfi");
    }

    #[test]
    fn unknown_keys_and_units_are_refused() {
        let unknown = toml::from_str::<NandEcc>("strength = 1\nstep_bytes = 512\nstrenght = 2").unwrap_err();
        assert!(unknown.to_string().contains("strenght"));
        let unit = toml::from_str::<NandGeometry>("page_bytes = \"2 MHz\"").unwrap_err();
        assert!(unit.to_string().contains("is no size"), "{unit}");
        assert!(toml::from_str::<RawNandSpec>("sdr_modes = [6]").is_err());
    }
}
