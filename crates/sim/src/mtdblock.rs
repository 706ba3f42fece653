//! Linux's mtdblock: flash as a block device, which reads, changes, erases and writes whole eraseblocks. It caches one
//! eraseblock, and handles neither bad blocks nor wear.

use floatgate_mtd::{Error, Instant, Mtd};

/// A block device on flash.
#[derive(Debug)]
pub struct MtdBlock<D> {
    now: Instant,
    cached: Option<Cached>,
    device: D,
}

/// The one eraseblock that the cache stores.
#[derive(Debug)]
struct Cached {
    /// Start address of the cached eraseblock, B.
    at: u64,
    bytes: Vec<u8>,
    is_dirty: bool,
}

impl<D: Mtd> MtdBlock<D> {
    /// Creates a block device on flash.
    pub const fn new(device: D, now: Instant) -> Self {
        Self { now, cached: None, device }
    }

    /// Current virtual time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Advances the clock past operations that other code made.
    pub fn set_now(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// The flash below the block device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Mutable access to the flash below, for its host.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Reads a part of an eraseblock, from the cache if possible.
    ///
    /// # Errors
    /// Errors of the flash.
    pub fn read(&mut self, at: u64, buf: &mut [u8]) -> Result<(), Error> {
        if let Some(cached) = &self.cached
            && let Some(offset) = at.checked_sub(cached.at).and_then(|offset| usize::try_from(offset).ok())
            && let Some(bytes) = cached.bytes.get(offset..).and_then(|bytes| bytes.get(..buf.len()))
        {
            buf.copy_from_slice(bytes);
            return Ok(());
        }
        self.now = self.device.read(self.now, at, buf)?.at;
        Ok(())
    }

    /// Writes a part of an eraseblock to the cache, after the other data of the eraseblock was read from flash.
    /// Another cached eraseblock is written to flash first. A whole eraseblock is written to flash immediately.
    ///
    /// # Errors
    /// Errors of the flash.
    pub fn write(&mut self, at: u64, data: &[u8]) -> Result<(), Error> {
        let erase_bytes = u64::from(self.device.geometry().erase_bytes);
        let block = at / erase_bytes * erase_bytes;
        if data.len() as u64 == erase_bytes {
            self.cached = self.cached.take().filter(|cached| cached.at != block);
            return self.replace(block, data);
        }
        if self.cached.as_ref().is_none_or(|cached| cached.at != block) {
            self.flush()?;
            let mut bytes = vec![0; erase_bytes as usize];
            self.now = self.device.read(self.now, block, &mut bytes)?.at;
            self.cached = Some(Cached { at: block, bytes, is_dirty: false });
        }
        if let Some(cached) = &mut self.cached {
            let offset = (at - block) as usize;
            cached.bytes[offset..offset + data.len()].copy_from_slice(data);
            cached.is_dirty = true;
        }
        Ok(())
    }

    /// Writes the cache to flash, as closing the device does.
    ///
    /// # Errors
    /// Errors of the flash.
    pub fn flush(&mut self) -> Result<(), Error> {
        match self.cached.take() {
            Some(cached) if cached.is_dirty => {
                self.replace(cached.at, &cached.bytes)?;
                self.cached = Some(Cached { is_dirty: false, ..cached });
            }
            other => self.cached = other,
        }
        Ok(())
    }

    /// Erases an eraseblock and writes it.
    fn replace(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.now = self.device.erase(self.now, at, bytes.len() as u64)?.at;
        self.now = self.device.write(self.now, at, bytes)?.at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_mtd::{Counted, Geometry, RamFlash};

    const BLOCK: u64 = 131_072;

    #[test]
    fn a_block_is_read_changed_erased_and_written() {
        let mut disk = MtdBlock::new(Counted::new(RamFlash::new(Geometry::nand_2048(4))), Instant::ZERO);
        disk.write(BLOCK + 512, &[1; 512]).unwrap();
        disk.write(BLOCK + 4096, &[2; 512]).unwrap();
        assert_eq!(disk.device().operations().erases, 0, "it waits in the cache");
        disk.write(0, &[3; 512]).unwrap();
        let done = disk.device().operations();
        assert_eq!((done.erases, done.programmed_bytes, done.read_bytes), (1, BLOCK, 2 * BLOCK));
        let mut buf = [0; 512];
        disk.read(BLOCK + 4096, &mut buf).unwrap();
        assert_eq!(buf, [2; 512]);
        disk.read(0, &mut buf).unwrap();
        assert_eq!(buf, [3; 512], "from the cache");
        disk.flush().unwrap();
        disk.flush().unwrap();
        assert_eq!(disk.device().operations().erases, 2);
        disk.write(2 * BLOCK, &[4; BLOCK as usize]).unwrap();
        assert_eq!(disk.device().operations().read_bytes, 2 * BLOCK + 512, "a whole eraseblock is not read");
    }
}
