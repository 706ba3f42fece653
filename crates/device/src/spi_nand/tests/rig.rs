//! Chips from the catalogue, controllers and boards for tests.

use crate::ecc_engine::EccProfile;
use crate::host::HostProfile;
use crate::spi::profile::{Dirmap, Divider, SpiBus};
use crate::spi::{SpiController, SpiProfile};
use crate::spi_nand::{ChipOptions, Options, SpiNand, SpiNandDriver, SpiNandSpec};
use serde::Deserialize;
use std::sync::Arc;

pub(super) type Driver = SpiNandDriver<SpiController<SpiNand>>;

/// Part files of SPI NAND: name and text.
pub(super) const PARTS: &[(&str, &str)] = &[
    ("w35n01jw", include_str!("../../../../config/data/parts/w35n01jw.toml")),
    ("w35n02jw", include_str!("../../../../config/data/parts/w35n02jw.toml")),
    ("w25n01jw", include_str!("../../../../config/data/parts/w25n01jw.toml")),
    ("w25n02jw", include_str!("../../../../config/data/parts/w25n02jw.toml")),
    ("w25m02gv", include_str!("../../../../config/data/parts/w25m02gv.toml")),
    ("mx35lf2ge4ad", include_str!("../../../../config/data/parts/mx35lf2ge4ad.toml")),
    ("mx35lf2ge4ab", include_str!("../../../../config/data/parts/mx35lf2ge4ab.toml")),
    ("mx35lf2g14ac", include_str!("../../../../config/data/parts/mx35lf2g14ac.toml")),
];

#[derive(Deserialize)]
struct Part {
    chip: SpiNandSpec,
}

pub(super) fn spec(name: &str) -> SpiNandSpec {
    let text = PARTS.iter().find(|p| p.0 == name).unwrap().1;
    let part: Part = toml::from_str(text).unwrap();
    part.chip.check().unwrap();
    part.chip
}

pub(super) fn database() -> Vec<SpiNandSpec> {
    PARTS.iter().map(|(name, _)| spec(name)).collect()
}

/// An octal double-rate controller without costs that supports every clock.
pub(super) fn controller() -> SpiProfile {
    SpiProfile {
        mixed_rates: true,
        swap16: false,
        modes: None,
        reference_hz: 200_000_000,
        divider: Divider::Exact,
        max_divider: 0,
        max_hz: 200_000_000,
        max_transfer_bytes: 0,
        lanes: 8,
        dtr: true,
        exec: Default::default(),
        rx: Default::default(),
        tx: Default::default(),
        dirmap: Some(Dirmap { read: true, write: true, ..Dirmap::default() }),
        phy: None,
    }
}

pub(super) fn board(clock_hz: u64, mode: Option<&str>) -> SpiBus {
    SpiBus {
        clock_hz,
        mode: mode.map(|m| m.parse().unwrap()),
        max_mode: None,
        lanes: 8,
        reset_pin: true,
        phy: false,
    }
}

/// Parameters that a test varies.
pub(super) struct Rig {
    pub(super) profile: SpiProfile,
    pub(super) board: SpiBus,
    pub(super) chip: ChipOptions,
    pub(super) ecc: EccProfile,
    pub(super) options: Options,
}

impl Rig {
    pub(super) fn new(mode: &str) -> Self {
        Self {
            profile: controller(),
            board: board(25_000_000, Some(mode)),
            chip: ChipOptions { seed: 1, stores: true, ..ChipOptions::default() },
            ecc: EccProfile::default(),
            options: Options::default(),
        }
    }

    pub(super) fn probe(self, name: &str) -> Result<Driver, crate::spi_nand::ProbeError> {
        let chip = SpiNand::new(Arc::new(spec(name)), self.chip);
        let bus = SpiController::new(self.profile, self.board, chip);
        SpiNandDriver::probe(bus, &database(), HostProfile::default(), self.ecc, self.options)
    }

    /// Probes a chip that no part file describes.
    pub(super) fn custom(self, spec: SpiNandSpec) -> Driver {
        let chip = SpiNand::new(Arc::new(spec.clone()), self.chip);
        let bus = SpiController::new(self.profile, self.board, chip);
        SpiNandDriver::probe(bus, &[spec], HostProfile::default(), self.ecc, self.options).unwrap()
    }

    pub(super) fn driver(self, name: &str) -> Driver {
        self.probe(name).unwrap()
    }
}
