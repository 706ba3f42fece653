//! Identification of the chip: READ ID, parameter pages, unique id.

use super::command::Step;
use super::{Output, RawNand};
use crate::nand::onfi_endurance;
use crate::raw_nand::command as c;
use crate::raw_nand::spec::{JedecSpec, OnfiSpec, RawNandSpec};
use crate::raw_nand::timing::BusTiming;
use crate::spec::BadSpec;
use crate::violation::Violation;
use floatgate_media::jedec::{self, JedecCommands, JedecEcc, JedecFeatures, JedecPage, JedecRevision};
use floatgate_media::onfi::{
    self, EccInfo, OnfiCommands, OnfiExtendedPage, OnfiFeatures, OnfiPage, OnfiRevision, TimingModes,
};
use floatgate_media::{AddressCycles, Text};
use floatgate_mtd::random::Random;
use floatgate_mtd::{Instant, Nanos};

/// All copies of the parameter pages, as READ PARAMETER PAGE returns them.
#[derive(Clone, Debug, Default)]
pub(super) struct ParameterPages {
    onfi: Vec<u8>,
    jedec: Vec<u8>,
}

impl ParameterPages {
    pub(super) fn new(spec: &RawNandSpec) -> Result<Self, BadSpec> {
        let onfi = spec.onfi.as_ref().map(|o| onfi_copies(spec, o)).transpose()?;
        let jedec = spec.jedec.as_ref().map(|j| jedec_copies(spec, j)).transpose()?;
        Ok(Self { onfi: onfi.unwrap_or_default(), jedec: jedec.unwrap_or_default() })
    }

    fn at(&self, address: u8) -> &[u8] {
        match address {
            c::ONFI_PAGE => &self.onfi,
            c::JEDEC => &self.jedec,
            _ => &[],
        }
    }
}

fn text<const N: usize>(text: &str, field: &'static str) -> Result<Text<N>, BadSpec> {
    Text::new(text).ok_or_else(|| BadSpec::new(field, "too long, or not printable ASCII"))
}

/// The revision bits of all ONFI revisions up to `name`, as chips set them.
fn revision(name: &str) -> Result<OnfiRevision, BadSpec> {
    const NAMES: [&str; 11] = ["1.0", "2.0", "2.1", "2.2", "2.3", "3.0", "3.1", "3.2", "4.0", "4.1", "4.2"];
    match NAMES.iter().position(|known| *known == name) {
        Some(last) => Ok(OnfiRevision::from_bits(((1u16 << (last + 1)) - 1) << 1)),
        None => Err(BadSpec::new("onfi.revision", "not a revision between 1.0 and 4.2")),
    }
}

/// Converts a value to its field in a parameter page. A value that does not fit is rejected, because the chip
/// would report another one.
fn stated<T: TryFrom<u64>>(key: &'static str, value: impl Into<u64>) -> Result<T, BadSpec> {
    T::try_from(value.into())
        .map_err(|_| BadSpec::new(key, "more than its field in the parameter page holds"))
}

fn us(key: &'static str, time: Nanos) -> Result<u16, BadSpec> {
    stated(key, time.as_ns().div_ceil(1000))
}

fn onfi_features(spec: &RawNandSpec) -> OnfiFeatures {
    let g = &spec.geometry;
    let has = |yes: bool, bit: OnfiFeatures| if yes { bit } else { OnfiFeatures::from_bits(0) };
    has(g.luns > 1, OnfiFeatures::MULTIPLE_LUN)
        .with(has(!spec.in_order && g.bits_per_cell == 1, OnfiFeatures::NON_SEQUENTIAL_PROGRAM))
        .with(has(spec.multi_plane, OnfiFeatures::MULTI_PLANE_PROGRAM_ERASE))
        .with(has(spec.multi_plane, OnfiFeatures::MULTI_PLANE_READ))
        .with(has(spec.nvddr_modes.bits() != 0, OnfiFeatures::NV_DDR))
        .with(has(needs_extended(spec), OnfiFeatures::EXTENDED_PAGE))
}

fn onfi_commands(spec: &RawNandSpec) -> OnfiCommands {
    let has = |yes: bool, bit: OnfiCommands| if yes { bit } else { OnfiCommands::from_bits(0) };
    has(spec.program_cache, OnfiCommands::PROGRAM_CACHE)
        .with(has(spec.read_cache, OnfiCommands::READ_CACHE))
        .with(has(spec.features.advertised, OnfiCommands::GET_SET_FEATURES))
        .with(has(spec.copyback, OnfiCommands::COPYBACK))
        .with(has(spec.multi_plane, OnfiCommands::CHANGE_READ_COLUMN_ENHANCED))
        .with(OnfiCommands::READ_STATUS_ENHANCED)
        .with(OnfiCommands::READ_UNIQUE_ID)
}

/// True if the ECC requirement needs the extended page: steps other than 512 bytes do not fit into byte 112.
const fn needs_extended(spec: &RawNandSpec) -> bool {
    spec.ecc.step_bytes != 512 && !spec.ecc.on_die
}

fn onfi_page(spec: &RawNandSpec, onfi: &OnfiSpec) -> Result<OnfiPage, BadSpec> {
    let g = &spec.geometry;
    let row_cycles = super::RowMap::new(g.pages_per_block, g.blocks_per_lun, g.luns).cycles();
    let nv_ddr = spec.nvddr_modes.bits();
    Ok(OnfiPage {
        revision: revision(&onfi.revision)?,
        features: onfi_features(spec),
        commands: onfi_commands(spec),
        extended_units: if needs_extended(spec) { EXTENDED_UNITS } else { 0 },
        copies: onfi.copies,
        manufacturer: text(&onfi.manufacturer, "onfi.manufacturer")?,
        model: text(&onfi.model, "onfi.model")?,
        jedec_id: spec.id[0],
        page_bytes: g.page_bytes,
        spare_bytes: stated("geometry.oob_bytes", g.oob_bytes)?,
        pages_per_block: g.pages_per_block,
        blocks_per_lun: g.blocks_per_lun,
        luns: stated("geometry.luns", g.luns)?,
        address_cycles: AddressCycles::new(g.column_cycles(), row_cycles).unwrap_or_default(),
        bits_per_cell: g.bits_per_cell,
        max_bad_blocks_per_lun: stated("geometry.max_bad_blocks_per_lun", g.max_bad_blocks_per_lun)?,
        endurance: onfi_endurance(spec.endurance_cycles),
        guaranteed_blocks: 1,
        programs_per_page: spec.nop,
        ecc_bits: onfi_ecc_bits(spec)?,
        plane_bits: g.planes.trailing_zeros() as u8,
        sdr_modes: TimingModes::from_bits(u16::from(spec.sdr_modes.bits())),
        t_prog_us: us("timing.t_prog_us", spec.timing.t_prog_us.max)?,
        t_bers_us: us("timing.t_bers_us", spec.timing.t_bers_us.max)?,
        t_r_us: us("timing.t_r_us", spec.timing.t_r_us.max)?,
        t_ccs_ns: 500,
        nv_ddr_modes: nv_ddr,
        t_adl_ns: 400,
        ..OnfiPage::default()
    })
}

/// ECC bits in the parameter page: 0 for chips with on-die ECC, FFh if the extended page contains the value
/// (ONFI 4.2 section 5.7.1).
fn onfi_ecc_bits(spec: &RawNandSpec) -> Result<u8, BadSpec> {
    match spec.ecc {
        ecc if ecc.on_die => Ok(0),
        _ if needs_extended(spec) => Ok(0xFF),
        ecc if ecc.strength == 0xFF => Err(BadSpec::new("ecc.strength", "255 bits mean an extended page")),
        ecc => stated("ecc.strength", ecc.strength),
    }
}

/// Length of an extended page with one section, in units of 16 bytes.
const EXTENDED_UNITS: u16 = 3;

fn onfi_copies(spec: &RawNandSpec, onfi: &OnfiSpec) -> Result<Vec<u8>, BadSpec> {
    let bad = |problem| BadSpec::new("onfi", problem);
    if onfi.copies < 3 {
        return Err(bad("a chip has at least three copies of its parameter page"));
    }
    let count = usize::from(onfi.copies);
    let mut bytes = vec![0; count * onfi::PAGE_BYTES];
    onfi::emit_copies(&onfi_page(spec, onfi)?, count, &mut bytes)
        .map_err(|_| bad("no room for the copies"))?;
    if needs_extended(spec) {
        let mut page = [0; 16 * EXTENDED_UNITS as usize];
        let ecc = EccInfo {
            bits: stated("ecc.strength", spec.ecc.strength)?,
            codeword_exponent: spec.ecc.step_bytes.ilog2() as u8,
            max_bad_blocks_per_lun: stated(
                "geometry.max_bad_blocks_per_lun",
                spec.geometry.max_bad_blocks_per_lun,
            )?,
            endurance: onfi_endurance(spec.endurance_cycles),
        };
        OnfiExtendedPage::with_ecc(ecc).emit(&mut page).map_err(|_| bad("no extended page fits"))?;
        bytes.extend(std::iter::repeat_n(page, count).flatten());
    }
    Ok(bytes)
}

fn jedec_page(spec: &RawNandSpec, jedec: &JedecSpec) -> Result<JedecPage, BadSpec> {
    let g = &spec.geometry;
    let row_cycles = super::RowMap::new(g.pages_per_block, g.blocks_per_lun, g.luns).cycles();
    let mut id = [0; 6];
    id.iter_mut().zip(&spec.id).for_each(|(place, byte)| *place = *byte);
    let ecc = JedecEcc {
        bits: if spec.ecc.on_die { 0 } else { stated("ecc.strength", spec.ecc.strength)? },
        codeword_exponent: spec.ecc.step_bytes.ilog2() as u8,
        max_bad_blocks_per_lun: stated("geometry.max_bad_blocks_per_lun", g.max_bad_blocks_per_lun)?,
        endurance: onfi_endurance(spec.endurance_cycles),
    };
    Ok(JedecPage {
        revision: JedecRevision::V1_0,
        features: JedecFeatures::from_bits(jedec_features(spec)),
        commands: JedecCommands::from_bits(jedec_commands(spec)),
        copies: jedec.copies,
        manufacturer: text(&jedec.manufacturer, "jedec.manufacturer")?,
        model: text(&jedec.model, "jedec.model")?,
        jedec_id: id,
        page_bytes: g.page_bytes,
        spare_bytes: stated("geometry.oob_bytes", g.oob_bytes)?,
        pages_per_block: g.pages_per_block,
        blocks_per_lun: g.blocks_per_lun,
        luns: stated("geometry.luns", g.luns)?,
        address_cycles: AddressCycles::new(g.column_cycles(), row_cycles).unwrap_or_default(),
        bits_per_cell: g.bits_per_cell,
        programs_per_page: spec.nop,
        plane_bits: g.planes.trailing_zeros() as u8,
        t_prog_us: us("timing.t_prog_us", spec.timing.t_prog_us.max)?,
        t_bers_us: us("timing.t_bers_us", spec.timing.t_bers_us.max)?,
        t_r_us: us("timing.t_r_us", spec.timing.t_r_us.max)?,
        t_ccs_ns: 500,
        t_adl_ns: 400,
        guaranteed_blocks: 1,
        ecc: [ecc, JedecEcc::default(), JedecEcc::default(), JedecEcc::default()],
        ..JedecPage::default()
    })
}

fn jedec_features(spec: &RawNandSpec) -> u16 {
    let has = |yes: bool, bit: JedecFeatures| if yes { bit.bits() } else { 0 };
    has(spec.geometry.luns > 1, JedecFeatures::MULTIPLE_LUN)
        | has(spec.multi_plane, JedecFeatures::MULTI_PLANE_PROGRAM_ERASE)
        | has(spec.multi_plane, JedecFeatures::MULTI_PLANE_READ)
}

fn jedec_commands(spec: &RawNandSpec) -> u32 {
    let has = |yes: bool, bit: u32| if yes { bit } else { 0 };
    has(spec.program_cache, JedecCommands::PROGRAM_CACHE)
        | has(spec.read_cache, JedecCommands::READ_CACHE)
        | has(spec.features.advertised, JedecCommands::GET_SET_FEATURES)
        | has(spec.copyback, JedecCommands::COPYBACK)
        | JedecCommands::READ_STATUS_ENHANCED
        | JedecCommands::READ_UNIQUE_ID
        | JedecCommands::RANDOM_DATA_OUT
}

fn jedec_copies(spec: &RawNandSpec, jedec: &JedecSpec) -> Result<Vec<u8>, BadSpec> {
    if jedec.copies < 3 {
        let problem = "a chip has at least three copies of its parameter page";
        return Err(BadSpec::new("jedec.copies", problem));
    }
    Ok(jedec::emit(&jedec_page(spec, jedec)?).repeat(usize::from(jedec.copies)))
}

/// A unique id derived from the chip's id bytes and the number of the target in the package.
pub(super) fn unique_id(spec: &RawNandSpec, target: u32) -> [u8; 16] {
    let seed = spec.id.iter().fold(u64::from(target), |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    let mut random = Random::new(seed);
    let (high, low) = (random.bits(), random.bits());
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

impl RawNand {
    /// Handles 90h (READ ID) and its address.
    pub(super) fn output_id(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let [address] = *bytes else {
            return Err(Violation::Sequence("wrong number of address cycles"));
        };
        self.output = Output::Id(address);
        self.position = 0;
        self.step = Step::Idle;
        self.hold_data(at + timing.whr, "data before tWHR was over");
        Ok(())
    }

    /// Handles ECh or EDh and its address: the chip is busy for tR.
    pub(super) fn output_pages(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        bytes: &[u8],
        unique_id: bool,
    ) -> Result<(), Violation> {
        let [address] = *bytes else {
            return Err(Violation::Sequence("wrong number of address cycles"));
        };
        if unique_id && address != 0 {
            return Err(Violation::BadAddress);
        }
        self.output = if unique_id { Output::UniqueId } else { Output::ParameterPage(address) };
        self.position = 0;
        self.step = Step::Idle;
        self.busy(at + timing.wb, self.spec.timing.t_r_us.typ, "tR");
        self.hold_data(self.lun().ready + timing.rr, "data before tRR was over");
        Ok(())
    }

    /// Outputs consecutive bytes of the id, the parameter pages, the unique id or a feature.
    pub(super) fn output_bytes(&mut self, at: Instant, buf: &mut [u8]) -> Result<(), Violation> {
        if at < self.lun().ready {
            return Err(Violation::Busy);
        }
        for byte in buf {
            *byte = self.byte_at(self.position);
            self.position += 1;
        }
        Ok(())
    }

    fn byte_at(&self, position: usize) -> u8 {
        let from = |bytes: &[u8]| bytes.get(position).copied().unwrap_or(0);
        match self.output {
            Output::Id(c::MAKER_ID) => self.spec.id[position % self.spec.id.len()],
            Output::Id(c::ONFI_SIGNATURE) if self.spec.onfi.is_some() => from(b"ONFI"),
            Output::Id(c::JEDEC) if self.spec.jedec.is_some() => from(b"JEDEC"),
            Output::ParameterPage(address) => from(self.parameter_pages.at(address)),
            // Sixteen copies of the id, each followed by its complement (ONFI 4.2 section 5.8).
            Output::UniqueId => {
                let byte = self.unique_id[position % 16];
                if (position / 16).is_multiple_of(2) { byte } else { !byte }
            }
            Output::Feature(parameters) => from(&parameters),
            Output::Id(_) | Output::Register | Output::Status => 0,
        }
    }
}
