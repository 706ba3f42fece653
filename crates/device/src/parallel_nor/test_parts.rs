//! Chips of the catalogue, and variants of them, for tests.

use super::*;
use floatgate_mtd::{Instant, Nanos};

#[derive(serde::Deserialize)]
struct Part {
    chip: ParallelNorSpec,
}

fn parse(text: &str) -> ParallelNorSpec {
    toml::from_str::<Part>(text).unwrap().chip
}

pub(super) fn s29gl128p() -> ParallelNorSpec {
    parse(include_str!("../../../config/data/parts/s29gl128p.toml"))
}

pub(super) fn j3() -> ParallelNorSpec {
    parse(include_str!("../../../config/data/parts/28f128j3a.toml"))
}

/// The same chip with only four blocks of 4 KiB.
pub(super) fn small(mut spec: ParallelNorSpec) -> ParallelNorSpec {
    spec.geometry.size_bytes = 0x4000;
    spec.geometry.regions = vec![NorRegion { blocks: 4, block_bytes: 0x1000, t_bers_us: None }];
    spec
}

/// An 8-bit or 16-bit bus without costs of its own.
pub(super) fn chip_bus(spec: ParallelNorSpec, bits: u8, stores: bool) -> NorController {
    let chip = ParallelNor::new(spec, bits, stores).unwrap();
    NorController::new(NorProfile { page_mode: true, ..NorProfile::default() }, NorBus { bits }, chip)
}

/// The driver on such a bus, with a host without software costs.
pub(super) fn driver_with(spec: ParallelNorSpec, bits: u8, options: Options) -> CfiDriver<NorController> {
    let bus = chip_bus(spec, bits, true);
    CfiDriver::probe(bus, Instant::ZERO, crate::host::HostProfile::default(), options).unwrap()
}

pub(super) fn driver(spec: ParallelNorSpec, bits: u8) -> CfiDriver<NorController> {
    driver_with(spec, bits, Options::default())
}

/// Time at which the driver's thread becomes idle.
pub(super) fn now(driver: &mut CfiDriver<NorController>) -> Instant {
    driver.host_mut().now()
}

pub(super) const fn us(n: u64) -> Nanos {
    Nanos::from_us(n)
}
