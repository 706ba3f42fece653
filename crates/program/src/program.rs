//! A program whose power is cut, in any language, and the device that it uses.

use crate::c::{self, Handle};
use floatgate_mtd::Geometry;

/// A program during one boot; its memory is fresh at the start.
///
/// When power is cut, the running call of [`TestDevice`] does not return: the process ends in it.
pub trait Program {
    /// Brings the erased device into the state in which it leaves the factory.
    ///
    /// # Errors
    /// A description of the failure, as in the other methods.
    fn prepare(&mut self, device: TestDevice) -> Result<(), String>;

    /// Boots: reads the data on flash, and repairs it after a power cut.
    ///
    /// # Errors
    /// The device cannot be used.
    fn recover(&mut self, device: TestDevice) -> Result<(), String>;

    /// Executes a step of the workload. The step depends only on its number.
    ///
    /// # Errors
    /// The step fails.
    fn step(&mut self, device: TestDevice, number: u32) -> Result<(), String>;

    /// Reports all values on flash with [`TestDevice::found`].
    ///
    /// # Errors
    /// An invariant is violated.
    fn check(&mut self, device: TestDevice) -> Result<(), String>;

    /// True if [`Self::check`] performs any check.
    fn has_check(&self) -> bool {
        true
    }
}

/// A device behind its driver, with the reference model of the values that must be found after a power cut.
#[derive(Clone, Copy, Debug)]
pub struct TestDevice(*mut Handle);

impl TestDevice {
    /// The device of a run, which lives until the process ends.
    pub(crate) const fn new(handle: *mut Handle) -> Self {
        Self(handle)
    }

    pub(crate) const fn pointer(self) -> *mut Handle {
        self.0
    }

    /// Sizes of the flash.
    ///
    /// # Errors
    /// The device is not flash behind a driver.
    pub fn geometry(self) -> Result<Geometry, String> {
        self.call(|handle| handle.device.geometry().cloned())
    }

    /// Reads bytes, corrected by the ECC.
    ///
    /// # Errors
    /// The range is outside the device; more bit errors than the ECC corrects.
    pub fn read(self, at: u64, bytes: &mut [u8]) -> Result<(), String> {
        self.call(|handle| handle.device.read(at, bytes).map(drop))
    }

    /// Programs erased bytes.
    ///
    /// # Errors
    /// The range is outside the device or not erased; the chip reports a failure.
    pub fn program(self, at: u64, bytes: &[u8]) -> Result<(), String> {
        self.call(|handle| handle.device.write(at, bytes))
    }

    /// Erases the eraseblock at an address.
    ///
    /// # Errors
    /// No eraseblock begins at the address; the chip reports a failure.
    pub fn erase(self, at: u64) -> Result<(), String> {
        self.call(|handle| {
            let length = handle.device.geometry()?.erase_bytes.into();
            handle.device.erase(at, length)
        })
    }

    /// Returns true if the eraseblock at an address is marked bad.
    ///
    /// # Errors
    /// The address is outside the device.
    pub fn is_bad(self, at: u64) -> Result<bool, String> {
        self.call(|handle| handle.device.is_bad(at))
    }

    /// Marks the eraseblock at an address bad.
    ///
    /// # Errors
    /// This flash does not support bad blocks.
    pub fn mark_bad(self, at: u64) -> Result<(), String> {
        self.call(|handle| handle.device.mark_bad(at))
    }

    /// Records that the program begins to change this name: until the name is synchronised, any value may be
    /// found.
    pub fn unsure(self, name: &str) {
        let _ = self.call(|handle| {
            handle.ledger.unsure(name);
            Ok(())
        });
    }

    /// Records that the name has this value, or is absent, and must be found in this state.
    pub fn synced(self, name: &str, value: Option<&[u8]>) {
        let _ = self.call(|handle| {
            handle.ledger.write(name, value);
            handle.ledger.synced(Some(name));
            Ok(())
        });
    }

    /// Compares a value that was found with the possible values.
    ///
    /// # Errors
    /// The value is not possible.
    pub fn found(self, name: &str, value: Option<&[u8]>) -> Result<(), String> {
        self.call(|handle| Ok(handle.ledger.found(name, value)))?
    }

    fn call<T>(
        self,
        work: impl FnOnce(&mut Handle) -> Result<T, crate::device::Failure>,
    ) -> Result<T, String> {
        c::call_of_rust(self.0, work)
    }
}
