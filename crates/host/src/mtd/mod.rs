//! Flash behind Linux's MTD: a device whose calls return their measured time, implemented by `/dev/mtdN`.

mod char_device;
pub(crate) mod users;

pub use char_device::{CharDevice, conditions, raise_priority};
pub use users::number_of;

use crate::target::TargetError;
use serde::Serialize;

/// Sizes of a flash device in Linux's terms (`struct mtd_info`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Kind of flash, as in the file `type` in sysfs: `nand`, `nor`, `mlc-nand`, `ram`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the partition or chip.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Size of an eraseblock in bytes.
    pub erase_bytes: u32,
    /// Minimum I/O size, B: a page of NAND.
    pub write_bytes: u32,
    /// OOB size of a page, B; 0 for none.
    pub oob_bytes: u32,
}

impl Shape {
    /// Number of eraseblocks.
    pub const fn blocks(&self) -> u64 {
        if self.erase_bytes == 0 { 0 } else { self.size_bytes / self.erase_bytes as u64 }
    }

    /// Unit of the page tests, B. As in `flash_speed`, it is 512 bytes if single bytes can be written.
    pub const fn page_bytes(&self) -> u32 {
        if self.write_bytes <= 1 { 512 } else { self.write_bytes }
    }
}

/// Counters of the driver since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Number of bits that ECC corrected.
    pub corrected: u64,
    /// Number of uncorrectable ECC steps.
    pub failed: u64,
}

/// A flash device whose calls return their measured time, ns.
pub trait Flash {
    /// Sizes of the device.
    fn shape(&self) -> &Shape;

    /// True when an eraseblock is marked bad.
    ///
    /// # Errors
    /// An error of the driver.
    fn is_bad(&mut self, block: u64) -> Result<bool, TargetError>;

    /// Reads at a position in bytes. An uncorrectable ECC step is not an error; [`counters`](Self::counters)
    /// counts it.
    ///
    /// # Errors
    /// An error of the driver.
    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError>;

    /// Reads the raw OOB of the page at a position.
    ///
    /// # Errors
    /// An error of the driver.
    fn read_oob(&mut self, position: u64, oob: &mut [u8]) -> Result<(), TargetError>;

    /// Other users of the device, as text.
    ///
    /// # Errors
    /// The system does not show them.
    fn holders(&mut self) -> Result<Vec<String>, TargetError> {
        Ok(Vec::new())
    }

    /// Programs at a position in bytes.
    ///
    /// # Errors
    /// An error of the driver.
    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError>;

    /// Erases an eraseblock.
    ///
    /// # Errors
    /// An error of the driver.
    fn erase(&mut self, block: u64) -> Result<u64, TargetError>;

    /// Counters of the driver, if it has any.
    fn counters(&mut self) -> Option<Counters>;
}
