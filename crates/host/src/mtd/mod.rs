//! Flash behind Linux's MTD: a device whose calls take a measured time, and `/dev/mtdN` as one.

mod char_device;
mod users;

pub use char_device::{CharDevice, conditions, give_priority};
pub use users::number_of;
pub(crate) use users::{attached, block_devices, family, number};

use crate::target::TargetError;
use serde::Serialize;

/// Sizes of a flash device, as Linux states them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Kind as sysfs has it in `type`: `nand`, `nor`, `mlc-nand`, `ram`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the partition or chip.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Size of an eraseblock in bytes.
    pub erase_bytes: u32,
    /// Smallest write in bytes: a page of NAND.
    pub write_bytes: u32,
    /// OOB of a page in bytes, 0 where there is none.
    pub oob_bytes: u32,
}

impl Shape {
    /// Number of eraseblocks.
    pub const fn blocks(&self) -> u64 {
        if self.erase_bytes == 0 { 0 } else { self.size_bytes / self.erase_bytes as u64 }
    }

    /// Unit of the page tests: `flash_speed` takes 512 bytes where a single byte can be written.
    pub const fn page_bytes(&self) -> u32 {
        if self.write_bytes <= 1 { 512 } else { self.write_bytes }
    }
}

/// Counters of the driver since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Bits that ECC has corrected.
    pub corrected: u64,
    /// ECC steps that could not be corrected.
    pub failed: u64,
}

/// A flash device whose calls take a measured time, in ns.
pub trait Flash {
    /// Sizes of the device.
    fn shape(&self) -> &Shape;

    /// True when an eraseblock is marked bad.
    ///
    /// # Errors
    /// An error of the driver.
    fn is_bad(&mut self, block: u64) -> Result<bool, TargetError>;

    /// Reads at a position in bytes. Data with uncorrectable bits are no error: [`counters`](Self::counters) has them.
    ///
    /// # Errors
    /// An error of the driver.
    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError>;

    /// Reads the OOB of the page at a position as it is on the flash.
    ///
    /// # Errors
    /// An error of the driver.
    fn read_oob(&mut self, position: u64, oob: &mut [u8]) -> Result<(), TargetError>;

    /// Users of the device besides this program, in words.
    ///
    /// # Errors
    /// The system does not tell.
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

    /// Counters of the driver; none where it has none.
    fn counters(&mut self) -> Option<Counters>;
}
