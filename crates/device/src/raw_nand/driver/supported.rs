//! Driver options that chip, controller and ECC engine support.

use super::{ChipInfo, Options};
use crate::ecc_engine::{EccEngine, EngineKind};
use crate::raw_nand::bus::NandBus;

/// Result for each option that makes accesses faster: supported, or the reason why not.
pub(super) struct SupportedModes {
    pub(super) continuous: Result<(), &'static str>,
    pub(super) cached_programs: Result<(), &'static str>,
    pub(super) multi_plane: Result<(), &'static str>,
}

impl SupportedModes {
    pub(super) fn detect<B: NandBus>(
        info: &ChipInfo,
        bus: &B,
        engine: &EccEngine,
        options: &Options,
    ) -> Self {
        let one_page = when(!options.verify_writes, "driver.verify_writes verifies one page at a time");
        Self {
            continuous: continuous(info, bus, engine),
            cached_programs: when(info.program_cache, "the chip has no cached programs").and(one_page),
            multi_plane: when(info.multi_plane && info.geometry.planes > 1, "the chip has one plane")
                .and_then(|()| not_on_die(engine))
                .and(one_page),
        }
    }

    /// Requested options that cannot be used, with the reason.
    pub(super) fn not_in_force(&self, options: &Options) -> Vec<String> {
        let requested = [
            ("driver.continuous", options.continuous == Some(true), self.continuous),
            ("driver.cached_programs", options.cached_programs, self.cached_programs),
            ("driver.multi_plane", options.multi_plane, self.multi_plane),
        ];
        let refused = requested.into_iter().filter(|(_, is_requested, _)| *is_requested);
        refused
            .filter_map(|(key, _, support)| Some(format!("{key} is not in force: {}", support.err()?)))
            .collect()
    }
}

fn when(is_so: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if is_so { Ok(()) } else { Err(otherwise) }
}

fn continuous<B: NandBus>(info: &ChipInfo, bus: &B, engine: &EccEngine) -> Result<(), &'static str> {
    when(info.read_cache, "the chip has no cached reads")?;
    when(bus.cached_reads(), "the controller has no cached reads")?;
    // Linux uses cached reads only for chips without read retry.
    when(info.read_retry.is_none(), "a page read again with other thresholds would break the sequence")?;
    not_on_die(engine)
}

fn not_on_die(engine: &EccEngine) -> Result<(), &'static str> {
    when(engine.kind() != EngineKind::OnDie, "the chip's own ECC engine corrects one page at a time")
}
