//! Chips, controllers and drivers for tests.

use super::bus::NandBus;
use super::chip::{ChipOptions, RawNand};
use super::controller::{NandBoard, NandController, NandProfile};
use super::driver::{Options, RawNandDriver};
use super::mlc::MlcSpec;
use super::spec::RawNandSpec;
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::host::HostProfile;
use crate::units::TypMaxUs;
use floatgate_mtd::{Error, Nanos, PairingScheme};

pub(crate) type Driver = RawNandDriver<NandController<RawNand>>;

#[derive(serde::Deserialize)]
struct Part {
    chip: RawNandSpec,
}

fn part(text: &str) -> RawNandSpec {
    toml::from_str::<Part>(text).unwrap().chip
}

/// The ONFI example chip with 2 KiB pages and unusual features.
pub(crate) fn mx30lf2g18ac() -> RawNandSpec {
    part(include_str!("../../../config/data/parts/mx30lf2g18ac.toml"))
}

/// The example chip without a parameter page, with 512-byte pages.
pub(crate) fn nand128w3a2bn() -> RawNandSpec {
    part(include_str!("../../../config/data/parts/nand128w3a2bn.toml"))
}

/// An ONFI chip that supports features, with NV-DDR, few blocks, two LUNs and 16 KiB pages.
pub(crate) fn nv_ddr() -> RawNandSpec {
    part(
        r#"
        [chip]
        id = [0x2C, 0x84, 0x64, 0x3C, 0xA5]
        sdr_modes = [0, 1, 2, 3, 4, 5]
        nvddr_modes = [0, 1, 2, 3, 4, 5]
        read_cache = true
        program_cache = true
        copyback = true
        multi_plane = true
        read_retry = { feature = 0x89, modes = 4 }
        endurance_cycles = 30_000
        [chip.geometry]
        page_bytes = "16 KiB"
        oob_bytes = 1216
        pages_per_block = 12
        blocks_per_lun = 10
        luns = 2
        planes = 2
        bits_per_cell = 2
        max_bad_blocks_per_lun = 4
        [chip.ecc]
        strength = 24
        step_bytes = 1024
        [chip.timing]
        t_r_us = { typ = 50, max = 75 }
        t_rcbsy_us = 3
        t_prog_us = { typ = 500, max = 2000 }
        t_bers_us = { typ = 3000, max = 10000 }
        [chip.onfi]
        revision = "3.0"
        manufacturer = "MICRON"
        model = "MT29F128G08"
        [chip.features]
        set = true
        get = true
        advertised = true
        timing_mode = true
        "#,
    )
}

/// The same chip with paired pages: LSB pages take 200 us, MSB pages 800 us.
pub(crate) fn mlc(pairing: PairingScheme) -> RawNandSpec {
    let time = |typ, max| TypMaxUs { typ: Nanos::from_us(typ), max: Nanos::from_us(max) };
    let (t_prog_lsb_us, t_prog_msb_us) = (time(200, 600), time(800, 2000));
    let mlc = MlcSpec { pairing, t_prog_lsb_us, t_prog_msb_us, slc_endurance_factor: 5 };
    RawNandSpec { mlc: Some(mlc), ..nv_ddr() }
}

/// A controller that supports everything and has no costs.
pub(crate) fn ideal_controller() -> NandProfile {
    toml::from_str("sdr_modes = [0, 1, 2, 3, 4, 5]\nnvddr_modes = [0, 1, 2, 3, 4, 5]").unwrap()
}

/// Host, controller and ECC engine for a driver.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rig {
    pub(crate) host: HostProfile,
    pub(crate) ecc: EccProfile,
    pub(crate) options: Options,
}

/// Probes with a driver on any bus.
pub(crate) fn probe<B: NandBus>(
    bus: B,
    rig: Rig,
    catalogue: &[RawNandSpec],
) -> Result<RawNandDriver<B>, Error> {
    RawNandDriver::probe(bus, catalogue, rig.host, rig.ecc, rig.options)
}

/// A driver environment without host costs, with a controller that corrects in its pipeline.
pub(crate) fn rig() -> Rig {
    let ecc = EccProfile { engine: EngineKind::Pipelined, ..EccProfile::default() };
    Rig { ecc, ..Rig::default() }
}

pub(crate) fn wire(spec: &RawNandSpec, stores: bool) -> NandController<RawNand> {
    let chips = RawNand::package(spec, ChipOptions { stores, ..ChipOptions::default() }).unwrap();
    NandController::new(ideal_controller(), NandBoard::default(), chips)
}

/// A driver for `spec`, which is also in the catalogue.
pub(crate) fn driver(spec: &RawNandSpec, rig: Rig) -> Result<Driver, Error> {
    probe(wire(spec, true), rig, std::slice::from_ref(spec))
}
