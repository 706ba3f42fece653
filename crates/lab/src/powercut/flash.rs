//! The flash that loses power.

use std::fmt;

use floatgate_mtd::{FaultPlan, Faults, FlashKind, Geometry, Mtd, RamFlash, Tear};

/// Flash in memory that can be copied at any moment. Copies have to be cheap: there is one for each step of a workload and
/// one for each run.
pub trait Flash: Mtd + Tear + fmt::Debug + Send + Sync {
    /// A copy that goes its own way.
    fn duplicate(&self) -> Box<dyn Flash>;
}

impl Flash for RamFlash {
    fn duplicate(&self) -> Box<dyn Flash> {
        Box::new(self.clone())
    }
}

impl Flash for Faults<RamFlash> {
    fn duplicate(&self) -> Box<dyn Flash> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Flash> {
    fn clone(&self) -> Self {
        (**self).duplicate()
    }
}

/// The faults of a run: far more than any chip has, so that a short workload meets some, but fewer bad blocks than UBI sets
/// others aside for ([`MAX_BAD_PER_1024`]).
pub(super) fn fault_plan(geometry: &Geometry, seed: u64) -> FaultPlan {
    let blocks = geometry.blocks();
    FaultPlan {
        seed,
        factory_bad: blocks.div_ceil(50),
        grown_bad_max: blocks.div_ceil(25),
        bitflip_ppm: 20_000,
        program_fail_ppm: 5_000,
        erase_fail_ppm: 20_000,
    }
}

/// Bad blocks among 1024 that UBI is told to expect where there are faults.
pub(super) const MAX_BAD_PER_1024: u32 = 100;

/// Erased flash, with faults or without.
pub(super) fn erased(geometry: &Geometry, faults: bool, seed: u64) -> Result<Box<dyn Flash>, String> {
    let flash = RamFlash::new(geometry.clone());
    if !faults {
        return Ok(Box::new(flash));
    }
    if geometry.kind == FlashKind::Nor {
        return Err(
            "NOR has no bad blocks that could be replaced, and no ECC: it has no faults here".to_owned()
        );
    }
    let flash = Faults::new(flash, fault_plan(geometry, seed)).map_err(|error| error.to_string())?;
    Ok(Box::new(flash))
}
