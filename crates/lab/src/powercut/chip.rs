//! Flash that loses power: the simulated chip of a setup, or flash in memory in its place.

use std::fmt;

use floatgate_device::power::PowerCut as ChipCut;
use floatgate_device::wire::Device;
use floatgate_mtd::{Cut, Faults, Instant, Mtd, Nanos, Partition, PowerCut, RamFlash, Tear};

use floatgate_config::{Config, Library};
use floatgate_program::powercut::share;
use floatgate_sim::rig::{self, RigOptions};

/// Flash in memory that can be copied at any moment. Copies must be cheap: one is made for each step of a workload and
/// for each run.
pub trait Flash: Mtd + Tear + fmt::Debug + Send + Sync {
    /// Returns an independent copy.
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

/// A device whose power is cut at a requested flash operation. Copies must be cheap: one is made for each step of a
/// workload and for each run.
pub trait Powered: Mtd + fmt::Debug + Send + Sync {
    /// Returns an independent copy.
    fn duplicate(&self) -> Box<dyn Powered>;

    /// Current time of the device's clock.
    fn now(&mut self) -> Instant;

    /// Number of programs and erases begun so far, including the one that a power cut interrupted.
    fn operations(&self) -> u64;

    /// Requests a power cut, or cancels the request.
    fn order(&mut self, cut: Option<Cut>);

    /// True after power was lost.
    fn is_lost(&self) -> bool;

    /// Restores power, and initialises the device again.
    ///
    /// # Errors
    /// Reason in words why the device cannot be used any more.
    fn power_on(&mut self) -> Result<(), String>;
}

impl Clone for Box<dyn Powered> {
    fn clone(&self) -> Self {
        (**self).duplicate()
    }
}

impl Powered for PowerCut<Box<dyn Flash>> {
    fn duplicate(&self) -> Box<dyn Powered> {
        Box::new(self.clone())
    }

    fn now(&mut self) -> Instant {
        Instant::ZERO
    }

    fn operations(&self) -> u64 {
        self.operations()
    }

    fn order(&mut self, cut: Option<Cut>) {
        self.order(cut);
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn power_on(&mut self) -> Result<(), String> {
        self.power_on();
        Ok(())
    }
}

impl Powered for Box<dyn Device> {
    fn duplicate(&self) -> Box<dyn Powered> {
        Box::new(self.clone())
    }

    fn now(&mut self) -> Instant {
        self.host().now()
    }

    fn operations(&self) -> u64 {
        self.power().operations()
    }

    fn order(&mut self, cut: Option<Cut>) {
        let cut =
            cut.map(|cut| ChipCut::During { operation: cut.operation, share: share(cut.kind, cut.seed) });
        self.power_mut().order(cut);
    }

    fn is_lost(&self) -> bool {
        self.power().is_lost()
    }

    fn power_on(&mut self) -> Result<(), String> {
        let on = self.host().now() + OFF;
        self.host().resume(on);
        self.restart()
    }
}

/// Time without power: a booting host takes longer than any chip needs to become ready.
const OFF: Nanos = Nanos::from_ms(100);

/// The first `size_bytes` of the chip of a setup, behind its controller and driver, after power-on. The seed determines
/// the variation from chip to chip and the bad blocks.
///
/// # Errors
/// Reason in words why the setup cannot be built.
pub(super) fn wired(
    library: &Library,
    config: &Config,
    size_bytes: u64,
    (seed, bad_blocks): (u64, u32),
) -> Result<Box<dyn Device>, String> {
    let options = RigOptions { seed, stores: true, bad_blocks, marks_on_demand: true };
    let mut device = rig::wire(library, config, options).map_err(|error| error.to_string())?.device;
    device.power_mut().count_operations();
    if size_bytes < device.geometry().size_bytes {
        device = Box::new(Partition::new(device, 0, size_bytes).map_err(|error| error.to_string())?);
    }
    Ok(device)
}
