//! A mounted filesystem as programs use it, with page cache, write-back and CPU time.

use crate::cpu::Cpu;
use crate::machine::OnDevice;
use crate::page_cache::{PAGE, PageCache, PageCacheProfile};
use crate::rig::Device;
use floatgate_device::{Host, Resource};
use floatgate_mtd::{Breakdown, Counted, Instant, Mtd, Nanos, Operations, Phase};
use floatgate_stack::fs::{FileSystem, NewFile, NewKind, Result, Space, Work};

/// Flash that counts its operations.
pub type Flash = Counted<Box<dyn Device>>;

/// Filesystem on counted flash.
pub type Mounted = Box<dyn OnDevice<Flash>>;

/// Spends CPU time of the host and returns the end time.
pub fn spend(host: &mut Host, now: Instant, time: Nanos, what: &'static str) -> Instant {
    host.resume(now);
    host.spend(Resource::Cpu, Phase::Cpu, time, what);
    host.now()
}

/// A mounted filesystem with page cache and CPU.
#[derive(Clone, Debug)]
pub struct Vfs {
    fs: Mounted,
    cpu: Cpu,
    cache: PageCache,
    /// CPU work and flash operations whose CPU time has been booked.
    booked: (Work, Operations),
}

/// Time and counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time on the flash's clock.
    pub now: Instant,
    /// Time that the driver's thread has spent, by phase.
    pub spent: Breakdown,
    /// Number of flash operations.
    pub operations: Operations,
}

impl Moment {
    /// The current moment on the clock of a flash.
    pub fn of(flash: &Flash, now: Instant) -> Self {
        Self { now, spent: flash.breakdown(), operations: flash.operations() }
    }
}

const FILE: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

impl Vfs {
    /// Wraps a filesystem with an empty page cache. CPU time for work since `before` is booked now.
    pub fn new(fs: Mounted, cpu: Cpu, profile: PageCacheProfile, before: Operations) -> Self {
        let cache = PageCache::new(profile);
        let mut vfs = Self { fs, cpu, cache, booked: (Work::default(), before) };
        vfs.book();
        vfs
    }

    /// Wraps a new filesystem after one hour of background work. In that time a JFFS2 erases eraseblocks without clean
    /// markers, as after `flash_erase -j`.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn on_new(mut fs: Mounted, cpu: Cpu, profile: PageCacheProfile) -> Result<Self> {
        fs.wait_until(fs.now() + Nanos::from_ms(3_600_000));
        let before = fs.device().operations();
        let mut vfs = Self::new(fs, cpu, profile, before);
        vfs.sync()?;
        Ok(vfs)
    }

    /// Time and counters at the current moment.
    pub fn moment(&self) -> Moment {
        Moment::of(self.fs.device(), self.fs.now())
    }

    /// Filesystem below the page cache.
    pub fn fs(&mut self) -> &mut dyn FileSystem {
        &mut *self.fs
    }

    /// Flash below the filesystem.
    pub fn flash(&self) -> &Flash {
        self.fs.device()
    }

    /// Mutable access to the flash below the filesystem, for its host.
    pub fn flash_mut(&mut self) -> &mut Flash {
        self.fs.device_mut()
    }

    /// Number and size of the eraseblocks available to the filesystem.
    pub fn eraseblocks(&self) -> (u32, u32) {
        self.fs.eraseblocks()
    }

    /// Returns the filesystem without any further operation.
    pub fn into_fs(self) -> Mounted {
        self.fs
    }

    /// Books the CPU time of work done since the last booking.
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

    /// Executes a system call on the filesystem.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn call<T>(&mut self, work: impl FnOnce(&mut dyn FileSystem) -> Result<T>) -> Result<T> {
        self.spend(self.cpu.call(), "system call");
        let result = work(&mut *self.fs);
        self.book();
        result
    }

    /// Creates a file in a directory.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn create(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        self.call(|fs| fs.create(directory, name, &FILE))
    }

    /// Writes to a file. Delayed data becomes dirty; if too much is dirty, the call includes write-back.
    ///
    /// # Errors
    /// Errors of the filesystem.
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

    /// Writes back files, the oldest change first, until the background limit is reached.
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

    /// Reads from a file. Cached pages are copied, other pages are read completely from the filesystem. Returns the
    /// number of bytes.
    ///
    /// # Errors
    /// Errors of the filesystem.
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
            // The pages are read in one call, so that UBIFS with `bulk_read` can read several nodes at once.
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
    /// Errors of the filesystem.
    pub fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        let inode = self.fs.lookup(directory, name)?;
        self.cache.forget(inode);
        self.call(|fs| fs.unlink(directory, name))
    }

    /// Syncs a file (`fsync`).
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn fsync(&mut self, inode: u32) -> Result<()> {
        self.cache.clean(inode);
        self.call(|fs| fs.fsync(inode))
    }

    /// Syncs the filesystem (`sync`).
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn sync(&mut self) -> Result<()> {
        self.cache.clean_all();
        self.call(|fs| fs.sync())
    }

    /// Size and free space (`df`); takes no time.
    pub fn space(&self) -> Space {
        self.fs.space()
    }

    /// Kernel memory used by the mount, B; `None` if unknown.
    pub fn kernel_memory(&self) -> Option<u64> {
        self.fs.kernel_memory()
    }

    /// Puts the program to sleep. In this time old data is written back, and the layers below do their background work.
    ///
    /// # Errors
    /// Errors of the filesystem.
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

    /// Completes the background work of a mount immediately, as a listing of all files waits for it.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn finish_background_work(&mut self) -> Result<()> {
        let result = self.fs.finish_background_work();
        self.book();
        result
    }
}

/// Numbers of the pages that a byte range of a file touches.
fn pages(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / PAGE..(offset + len).div_ceil(PAGE)
}
