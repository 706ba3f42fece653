//! A block device as a file of the host through FUSE, for unmodified benchmarks and filesystem tools.
//!
//! Requests are answered one at a time and in order, as by an SD card. Each answer is sent at the virtual time of its
//! end according to the [`Clock`]. The kernel does not use its page cache.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos, SECTOR_BYTES};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};

use crate::mount::{self, FolderError, Unmounter};

/// Mapping of the host's time to the virtual time of a device.
pub trait Clock: Send {
    /// Current virtual time, which is the arrival time of a request.
    fn now(&mut self) -> Instant;
    /// Waits until the virtual time `end`; returns at once if it has passed.
    fn wait_until(&mut self, end: Instant);
}

/// Punctuality of the answers of a served device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayStats {
    /// Number of requests to the device.
    pub requests: u64,
    /// Number of answers that were computed later than their virtual end time.
    pub late_requests: u64,
    /// Sum of the delays of late answers, virtual time.
    pub late_sum: Nanos,
    /// Maximum delay of a late answer, virtual time.
    pub late_max: Nanos,
}

/// A mounted device: a folder with one file.
pub struct MountedDevice<D: BlockDevice + Send + 'static> {
    session: Session<OneFile<D>>,
    served: Arc<Mutex<Served<D>>>,
    directory: PathBuf,
}

impl<D: BlockDevice + Send + 'static> MountedDevice<D> {
    /// Mounts a device as the file `name` in a folder.
    ///
    /// # Errors
    /// The host refuses.
    pub fn new(device: D, clock: Box<dyn Clock>, name: &str, directory: &Path) -> Result<Self, FolderError> {
        mount::check_directory(directory)?;
        let size = device.capacity() * SECTOR_BYTES as u64;
        let served = Arc::new(Mutex::new(Served::new(device, clock)));
        let file = OneFile { served: Arc::clone(&served), name: name.to_owned(), size };
        let mut config = fuser::Config::default();
        config.mount_options = mount::options(name, true);
        let session =
            Session::new(file, directory, &config).map_err(|error| FolderError::host(directory, error))?;
        Ok(Self { session, served, directory: directory.to_owned() })
    }

    /// Creates a handle that ends the mount while [`serve`](Self::serve) runs.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter::new(&mut self.session, &self.directory)
    }

    /// Serves requests of the kernel until the folder is unmounted, and returns the device.
    ///
    /// # Errors
    /// The connection to the kernel failed, or a request triggered a bug.
    pub fn serve(self) -> Result<(D, DelayStats), FolderError> {
        let Self { session, served, directory } = self;
        mount::run(session, &directory)?;
        let bug = || FolderError::host(&directory, io::Error::other("a request has failed in the middle"));
        let served = Arc::into_inner(served).ok_or_else(bug)?.into_inner().map_err(|_| bug())?;
        Ok((served.device, served.delays))
    }
}

/// Inode number of the file; the folder has [`INodeNo::ROOT`].
const FILE: INodeNo = INodeNo(2);

/// Time for which the kernel may cache attributes: unlimited, because they never change.
const BELIEVED: Duration = Duration::from_secs(1 << 24);

/// Maximum size of a request, B. Linux uses the same limit for an SD card (`max_req_size` of sdhci).
const REQUEST_BYTES_MAX: u32 = 512 << 10;

/// Flags `FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE`, which mean a discard.
const PUNCH_HOLE: i32 = 0x03;

/// The device with its clock.
pub(super) struct Served<D> {
    pub(super) device: D,
    clock: Box<dyn Clock>,
    pub(super) delays: DelayStats,
    /// Buffer for the sectors of a read, or of a write that is not aligned to sectors.
    buffer: Vec<u8>,
}

/// Whole sectors around a range of bytes.
fn sectors(offset: u64, len: usize) -> Range<u64> {
    let sector = SECTOR_BYTES as u64;
    offset / sector..(offset + len as u64).div_ceil(sector)
}

impl<D: BlockDevice> Served<D> {
    pub(super) fn new(device: D, clock: Box<dyn Clock>) -> Self {
        Self { device, clock, delays: DelayStats::default(), buffer: Vec::new() }
    }

    /// Executes a request, and waits until it ends.
    pub(super) fn request(
        &mut self,
        work: impl FnOnce(&mut D, &mut Vec<u8>, Instant) -> Result<Instant, BlockError>,
    ) -> Result<(), Errno> {
        let outcome = work(&mut self.device, &mut self.buffer, self.clock.now());
        let end = outcome.as_ref().map_or_else(|error| error.at, |end| *end);
        let is_late = self.clock.now() > end;
        self.clock.wait_until(end);
        let late = self.clock.now().since(end);
        let counts = &mut self.delays;
        counts.requests += 1;
        counts.late_requests += u64::from(is_late);
        counts.late_sum += late;
        counts.late_max = counts.late_max.max(late);
        outcome.map(drop).map_err(|error| code(error.kind))
    }

    /// Reads bytes inside the device into the buffer, and returns their offset in it.
    fn read(&mut self, offset: u64, len: usize) -> Result<usize, Errno> {
        let sectors = sectors(offset, len);
        self.request(|device, buffer, now| {
            buffer.resize((sectors.end - sectors.start) as usize * SECTOR_BYTES, 0);
            device.read(now, sectors.start, buffer)
        })?;
        Ok((offset - sectors.start * SECTOR_BYTES as u64) as usize)
    }

    /// Writes bytes inside the device. The missing bytes of partial sectors are read first, as the page cache does for
    /// a real device.
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let sectors = sectors(offset, data.len());
        let bytes = (sectors.end - sectors.start) as usize * SECTOR_BYTES;
        self.request(|device, buffer, now| {
            if bytes == data.len() {
                return device.write(now, sectors.start, data);
            }
            buffer.resize(bytes, 0);
            let last = bytes - SECTOR_BYTES;
            let mut now = device.read(now, sectors.start, &mut buffer[..SECTOR_BYTES])?;
            if last > 0 {
                now = device.read(now, sectors.end - 1, &mut buffer[last..])?;
            }
            let from = (offset - sectors.start * SECTOR_BYTES as u64) as usize;
            buffer[from..from + data.len()].copy_from_slice(data);
            device.write(now, sectors.start, buffer)
        })
    }

    /// Discards the whole sectors in a range of bytes.
    fn discard(&mut self, bytes: Range<u64>) -> Result<(), Errno> {
        let sector = SECTOR_BYTES as u64;
        let (first, end) = (bytes.start.div_ceil(sector), bytes.end / sector);
        self.request(|device, _, now| device.discard(now, first, end.saturating_sub(first)))
    }
}

/// Error number for a failed request: EIO, as Linux maps `BLK_STS_IOERR`.
const fn code(kind: BlockErrorKind) -> Errno {
    match kind {
        BlockErrorKind::OutOfRange { .. } => Errno::ENOSPC,
        _ => Errno::EIO,
    }
}

/// A filesystem of one folder with one file, the device.
struct OneFile<D> {
    served: Arc<Mutex<Served<D>>>,
    name: String,
    size: u64,
}

impl<D: BlockDevice> OneFile<D> {
    fn ask<T>(&self, work: impl FnOnce(&mut Served<D>) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut served = self.served.lock().map_err(|_| Errno::EIO)?;
        work(&mut served)
    }

    /// The part of a byte range that is inside the device.
    fn inside(&self, offset: u64, len: u64) -> Range<u64> {
        offset.min(self.size)..offset.saturating_add(len).min(self.size)
    }

    fn attr(&self, request: &Request, inode: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            FILE => (FileType::RegularFile, 0o644, self.size),
            _ => return Err(Errno::ENOENT),
        };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks: size / SECTOR_BYTES as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: request.uid(),
            gid: request.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn reply_attr(&self, request: &Request, inode: INodeNo, reply: ReplyAttr) {
        match self.attr(request, inode) {
            Ok(attr) => reply.attr(&BELIEVED, &attr),
            Err(errno) => reply.error(errno),
        }
    }
}

fn empty(reply: ReplyEmpty, answer: Result<(), Errno>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

#[allow(clippy::too_many_arguments, reason = "as the trait has them")]
impl<D: BlockDevice + Send + 'static> Filesystem for OneFile<D> {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel with a lower limit splits requests into smaller ones.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attr(req, FILE) {
            Ok(attr) if parent == INodeNo::ROOT && name == self.name.as_str() => {
                reply.entry(&BELIEVED, &attr, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attr(req, ino, reply);
    }

    /// Ignores attribute changes: the size of a device is fixed, so truncating has no effect.
    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.reply_attr(req, ino, reply);
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.inside(offset, u64::from(size));
        let len = (bytes.end - bytes.start) as usize;
        if len == 0 {
            return reply.data(&[]);
        }
        let Ok(mut served) = self.served.lock() else { return reply.error(Errno::EIO) };
        match served.read(offset, len) {
            Ok(from) => reply.data(&served.buffer[from..from + len]),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = self.inside(offset, data.len() as u64);
        let len = (bytes.end - bytes.start) as usize;
        let written = match len {
            0 => Err(Errno::ENOSPC),
            _ => self.ask(|served| served.write(offset, &data[..len])),
        };
        match written {
            Ok(()) => reply.written(len as u32),
            Err(errno) => reply.error(errno),
        }
    }

    /// Does nothing when a descriptor is closed.
    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.ask(|served| served.request(|device, _, now| device.flush(now))));
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != PUNCH_HOLE {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let bytes = self.inside(offset, length);
        empty(reply, self.ask(|served| served.discard(bytes)));
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, &self.name),
        ];
        for ((inode, kind, name), next) in entries.into_iter().zip(1..).skip(offset as usize) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sectors in memory; a request takes a microsecond for each sector.
    struct Ram(Vec<u8>);

    impl Ram {
        fn place(lba: u64, len: usize) -> Range<usize> {
            let from = lba as usize * SECTOR_BYTES;
            from..from + len
        }
    }

    fn after(now: Instant, len: usize) -> Instant {
        now + Nanos::from_us((len / SECTOR_BYTES) as u64)
    }

    impl BlockDevice for Ram {
        fn capacity(&self) -> u64 {
            (self.0.len() / SECTOR_BYTES) as u64
        }

        fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
            buf.copy_from_slice(&self.0[Self::place(lba, buf.len())]);
            Ok(after(now, buf.len()))
        }

        fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
            self.0[Self::place(lba, data.len())].copy_from_slice(data);
            Ok(after(now, data.len()))
        }

        fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
            self.0[Self::place(lba, count as usize * SECTOR_BYTES)].fill(0);
            Ok(now)
        }

        fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
            Err(BlockErrorKind::PowerLost.at(0, now))
        }

        fn breakdown(&self) -> floatgate_mtd::Breakdown {
            floatgate_mtd::Breakdown::default()
        }
    }

    /// A clock that only advances by waiting.
    struct Waits(Instant);

    impl Clock for Waits {
        fn now(&mut self) -> Instant {
            self.0
        }

        fn wait_until(&mut self, end: Instant) {
            self.0 = self.0.max(end);
        }
    }

    fn served() -> Served<Ram> {
        let bytes = (0..8 * SECTOR_BYTES).map(|at| (at / SECTOR_BYTES) as u8).collect();
        let clock = Box::new(Waits(Instant::ZERO));
        Served::new(Ram(bytes), clock)
    }

    #[test]
    fn parts_of_sectors_are_completed() {
        let mut served = served();
        served.write(1000, &[0xAA; 100]).unwrap();
        let mut expected: Vec<u8> = (0..8 * SECTOR_BYTES).map(|at| (at / SECTOR_BYTES) as u8).collect();
        expected[1000..1100].fill(0xAA);
        assert_eq!(served.device.0, expected);
        let from = served.read(998, 5).unwrap();
        assert_eq!(served.buffer[from..from + 5], [1, 1, 0xAA, 0xAA, 0xAA]);
        served.discard(1000..3000).unwrap();
        assert_eq!(served.device.0[1024..2560], [0; 1536], "whole sectors only");
        assert_eq!((served.device.0[1023], served.device.0[2560]), (0xAA, 5));
    }

    #[test]
    fn an_answer_comes_when_the_device_says_so() {
        let mut served = served();
        served.write(0, &[1; 2048]).unwrap();
        assert_eq!(served.clock.now(), Instant::from_ns(4000));
        assert_eq!(served.request(|device, _, now| device.flush(now)), Err(Errno::EIO));
        assert_eq!(served.request(|_, _, now| Ok(now + Nanos::from_us(1))), Ok(()));
        assert_eq!(
            served.request(|_, _, _| Ok(Instant::ZERO)),
            Ok(()),
            "it should have been answered earlier"
        );
        let (late_sum, late_max) = (Nanos::from_us(5), Nanos::from_us(5));
        let late = DelayStats { requests: 4, late_requests: 1, late_sum, late_max };
        assert_eq!(served.delays, late);
    }
}
