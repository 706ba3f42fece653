//! The flash that loses power: the simulated chip of a setup, or flash in memory that stands in for it.

use std::fmt;

use floatgate_device::power::PowerCut as ChipCut;
use floatgate_device::wire::Device;
use floatgate_mtd::{Cut, Instant, Mtd, Nanos, Partition, PowerCut};

use super::flash::Flash;
use floatgate_config::{Config, Library};
use floatgate_program::powercut::share;
use floatgate_sim::rig::{self, RigOptions};

/// A device whose power goes away at a flash operation that is ordered. Copies are cheap: there is one for each step of a workload
/// and one for each run.
pub trait Powered: Mtd + fmt::Debug + Send + Sync {
    /// A copy that goes its own way.
    fn duplicate(&self) -> Box<dyn Powered>;

    /// Time on the device's clock.
    fn now(&mut self) -> Instant;

    /// Programs and erases begun so far, the one that power did not last for included.
    fn operations(&self) -> u64;

    /// Orders a cut, or takes the order back.
    fn order(&mut self, cut: Option<Cut>);

    /// True when power is gone.
    fn is_lost(&self) -> bool;

    /// Power comes back, and whoever drives the device sets it up again.
    ///
    /// # Errors
    /// Reason why it cannot be driven any more, in words.
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

/// Time without power: a host that boots again takes longer than any chip needs to be ready.
const OFF: Nanos = Nanos::from_ms(100);

/// The chip of a setup, fresh from power-on, behind its controller and driver: the first `size_bytes` of it. A seed decides what
/// varies from chip to chip, and which blocks are bad.
///
/// # Errors
/// Reason why the setup cannot be wired, in words.
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
