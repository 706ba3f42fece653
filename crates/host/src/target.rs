//! A device whose requests return their measured time.

/// A failed request to a target.
#[derive(Debug, thiserror::Error)]
#[error("{operation} of {bytes} bytes at byte {position}: {reason}")]
pub struct TargetError {
    /// Name of the operation: `read`, `write` or `flush`.
    pub operation: &'static str,
    /// First byte of the request.
    pub position: u64,
    /// Length of the request in bytes.
    pub bytes: u64,
    /// Error of the system or the simulated device.
    pub reason: String,
}

/// A device whose requests return their measured time, ns. Positions and lengths are multiples of 512
/// bytes.
pub trait Target {
    /// Capacity that the device reports, B.
    fn capacity(&self) -> u64;

    /// Logical sector size for the partition table, B.
    fn sector_bytes(&self) -> u64 {
        512
    }

    /// True for an image, whose times are those of the disk below it and not those of a card.
    fn is_image(&self) -> bool {
        false
    }

    /// Reads, and returns the time in ns.
    ///
    /// # Errors
    /// An error of the device.
    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError>;

    /// Writes, and returns the time in ns.
    ///
    /// # Errors
    /// An error of the device.
    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError>;

    /// Flushes, and returns the time in ns.
    ///
    /// # Errors
    /// An error of the device.
    fn flush(&mut self) -> Result<u64, TargetError>;

    /// Leaves the device idle for this many ns.
    fn idle(&mut self, ns: u64);

    /// Time on the clock of the device, ns, from an arbitrary origin. The clock also runs while data is
    /// saved.
    fn clock_ns(&self) -> u64;

    /// Saves the data of a range before it is overwritten, if the target supports restoring.
    ///
    /// # Errors
    /// A range that cannot be read, or no room for its data.
    fn keep(&mut self, _position: u64, _bytes: u64) -> Result<(), TargetError> {
        Ok(())
    }

    /// Number of saved bytes that will be restored.
    fn kept_bytes(&self) -> u64 {
        0
    }
}

impl<T: Target + ?Sized> Target for &mut T {
    fn capacity(&self) -> u64 {
        (**self).capacity()
    }

    fn sector_bytes(&self) -> u64 {
        (**self).sector_bytes()
    }

    fn is_image(&self) -> bool {
        (**self).is_image()
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        (**self).read(position, buf)
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        (**self).write(position, data)
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        (**self).flush()
    }

    fn idle(&mut self, ns: u64) {
        (**self).idle(ns);
    }

    fn clock_ns(&self) -> u64 {
        (**self).clock_ns()
    }

    fn keep(&mut self, position: u64, bytes: u64) -> Result<(), TargetError> {
        (**self).keep(position, bytes)
    }

    fn kept_bytes(&self) -> u64 {
        (**self).kept_bytes()
    }
}
