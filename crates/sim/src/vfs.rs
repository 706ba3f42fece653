//! A mounted filesystem as a program sees it: page cache and write-back above, the CPU's time between.

use crate::cpu::Cpu;
use crate::machine::OnDevice;
use crate::page_cache::{PAGE, PageCache, PageCacheProfile};
use crate::rig::Device;
use floatgate_device::{Host, Resource};
use floatgate_mtd::{Breakdown, Counted, Instant, Mtd, Nanos, Operations, Phase};
use floatgate_stack::fs::{FileSystem, NewFile, NewKind, Result, Space, Work};

/// The flash below, its operations counted.
pub type Flash = Counted<Box<dyn Device>>;

/// A filesystem on it.
pub type Mounted = Box<dyn OnDevice<Flash>>;

/// Computes on the driver's CPU.
pub fn spend(host: &mut Host, now: Instant, time: Nanos, what: &'static str) -> Instant {
    host.resume(now);
    host.spend(Resource::Cpu, Phase::Cpu, time, what);
    host.now()
}

/// A mounted filesystem as a program sees it.
#[derive(Clone, Debug)]
pub struct Vfs {
    fs: Mounted,
    cpu: Cpu,
    cache: PageCache,
    /// Work of the CPU that its time was booked for.
    booked: (Work, Operations),
}

/// A moment, and what was done up to it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: Instant,
    /// Time of the driver's thread so far, by phase.
    pub spent: Breakdown,
    /// Operations of the flash.
    pub operations: Operations,
}

impl Moment {
    /// A moment of a flash's clock.
    pub fn of(flash: &Flash, now: Instant) -> Self {
        Self { now, spent: flash.breakdown(), operations: flash.operations() }
    }
}

const FILE: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

impl Vfs {
    /// A filesystem with nothing of it in memory. The CPU's time for what was done so far is booked now.
    pub fn new(fs: Mounted, cpu: Cpu, profile: PageCacheProfile, before: Operations) -> Self {
        let cache = PageCache::new(profile);
        let mut vfs = Self { fs, cpu, cache, booked: (Work::default(), before) };
        vfs.book();
        vfs
    }

    /// A filesystem that was just made, after an hour in which its background work is done: as after `flash_erase -j`, a JFFS2 erases what has no clean marker.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn on_new(mut fs: Mounted, cpu: Cpu, profile: PageCacheProfile) -> Result<Self> {
        fs.wait_until(fs.now() + Nanos::from_ms(3_600_000));
        let before = fs.device().operations();
        let mut vfs = Self::new(fs, cpu, profile, before);
        vfs.sync()?;
        Ok(vfs)
    }

    /// This moment.
    pub fn moment(&self) -> Moment {
        Moment::of(self.fs.device(), self.fs.now())
    }

    /// The filesystem.
    pub fn fs(&mut self) -> &mut dyn FileSystem {
        &mut *self.fs
    }

    /// The flash.
    pub fn flash(&self) -> &Flash {
        self.fs.device()
    }

    /// The flash, for its host.
    pub fn flash_mut(&mut self) -> &mut Flash {
        self.fs.device_mut()
    }

    /// Eraseblocks that the filesystem has for itself, and bytes of each.
    pub fn eraseblocks(&self) -> (u32, u32) {
        self.fs.eraseblocks()
    }

    /// Unmounts without anything else.
    pub fn into_fs(self) -> Mounted {
        self.fs
    }

    /// Lets the CPU take its time for what was done since the last booking.
    fn book(&mut self) {
        let (work, operations) = (self.fs.work(), self.fs.device().operations());
        let (work_before, operations_before) = std::mem::replace(&mut self.booked, (work, operations));
        let mut time = self.cpu.codecs(&work.since(&work_before));
        if self.fs.checksummed() {
            time += self.cpu.checksums(&(operations - operations_before));
        }
        self.spend(time, "compression and checksums");
    }

    fn spend(&mut self, time: Nanos, what: &'static str) {
        let now = self.fs.now();
        let end = spend(self.fs.device_mut().inner_mut().host(), now, time, what);
        self.fs.set_now(end);
    }

    /// A system call that does something in the filesystem.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn call<T>(&mut self, work: impl FnOnce(&mut dyn FileSystem) -> Result<T>) -> Result<T> {
        self.spend(self.cpu.call(), "system call");
        let result = work(&mut *self.fs);
        self.book();
        result
    }

    /// Makes a file in a directory.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn create(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        self.call(|fs| fs.create(directory, name, &FILE))
    }

    /// Writes to a file. What the filesystem delays is dirty from now on, and is written back here if it is too much.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        self.spend(self.cpu.copy_from_user(data.len() as u64), "copy");
        self.call(|fs| fs.write(inode, offset, data))?;
        let (now, delays) = (self.fs.now(), self.fs.delays_writes());
        for page in pages(offset, data.len() as u64) {
            self.cache.insert(inode, page);
            if delays {
                self.cache.make_dirty(inode, page, now);
            }
        }
        if self.cache.is_too_dirty() { self.write_back_most() } else { Ok(()) }
    }

    /// Writes back the oldest files until little is dirty.
    fn write_back_most(&mut self) -> Result<()> {
        while self.cache.is_dirty_enough() {
            let Some(inode) = self.cache.oldest_dirty() else { break };
            self.write_back(inode)?;
        }
        Ok(())
    }

    fn write_back(&mut self, inode: u32) -> Result<()> {
        let result = self.fs.write_back(inode);
        self.cache.clean(inode);
        self.book();
        result
    }

    /// Reads from a file; pages in memory are copied, others are read from the filesystem as a whole. Returns the number of bytes.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.spend(self.cpu.call(), "system call");
        let size = self.fs.attributes(inode)?.size;
        let len = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let mut missing = pages(offset, len as u64).filter(|page| !self.cache.has(inode, *page)).peekable();
        let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
        while let Some(first) = missing.next() {
            let mut end = first + 1;
            while missing.next_if_eq(&end).is_some() {
                end += 1;
            }
            runs.push(first..end);
        }
        for run in runs {
            // As one, so that UBIFS can read several nodes at once where it is mounted with `bulk_read`.
            let mut bytes = vec![0; ((run.end - run.start) * PAGE) as usize];
            self.fs.read(inode, run.start * PAGE, &mut bytes)?;
            run.for_each(|page| self.cache.insert(inode, page));
            self.book();
        }
        self.spend(self.cpu.copy_to_user(len as u64), "copy");
        Ok(len)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        let inode = self.fs.lookup(directory, name)?;
        self.cache.forget(inode);
        self.call(|fs| fs.unlink(directory, name))
    }

    /// `fsync`.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn fsync(&mut self, inode: u32) -> Result<()> {
        self.cache.clean(inode);
        self.call(|fs| fs.fsync(inode))
    }

    /// `sync`.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn sync(&mut self) -> Result<()> {
        self.cache.clean_all();
        self.call(|fs| fs.sync())
    }

    /// `df`: no time passes.
    pub fn space(&self) -> Space {
        self.fs.space()
    }

    /// Bytes of kernel memory that the mount takes; none where that is not known.
    pub fn kernel_memory(&self) -> Option<u64> {
        self.fs.kernel_memory()
    }

    /// The program sleeps; what is old is written back meanwhile, and the layers below do their background work.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn sleep(&mut self, length: Nanos) -> Result<()> {
        let end = self.fs.now() + length;
        loop {
            let look = self.cache.next_look(self.fs.now());
            self.fs.wait_until(look.min(end));
            self.book();
            if look > end {
                return Ok(());
            }
            for inode in self.cache.expired(look) {
                self.write_back(inode)?;
            }
            self.write_back_most()?;
        }
    }

    /// Does at once what a mount leaves to be done in the background, as whoever lists all files waits for it.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn settle(&mut self) -> Result<()> {
        let result = self.fs.settle();
        self.book();
        result
    }
}

/// Pages of a range of a file.
fn pages(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / PAGE..(offset + len).div_ceil(PAGE)
}
