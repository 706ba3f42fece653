//! From FUSE's requests to the worker, and back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use floatgate_media::ubifs::{DeviceNumber, FileType, Timestamp};
use floatgate_stack::ubifs::{AttributeChanges, Attributes};
use fuser::{
    BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::handler::{NewNode, Times, pack_device};
use super::worker::{Job, Served};

/// How long the kernel may believe what it was told. Nobody else changes the image; still, a directory's size and links change
/// with what is in it, which the kernel does not always ask about.
const BELIEVED: Duration = Duration::from_secs(1);

/// Bytes that `stat` counts blocks in.
const STAT_BLOCK: u64 = 512;

/// Bytes of a block of the filesystem.
const BLOCK: u32 = 4096;

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS` on 64-bit and 32-bit hosts (Linux, `include/uapi/linux/fs.h`).
const GET_FLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];

/// `O_SYNC` and `O_DSYNC`.
const SYNC: i32 = 0o4_010_000;

/// What `lseek` is asked for.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// What FUSE talks to.
#[derive(Debug)]
pub(super) struct Bridge {
    jobs: SyncSender<Option<Job>>,
    writable: bool,
}

impl Bridge {
    pub(super) const fn new(jobs: SyncSender<Option<Job>>, writable: bool) -> Self {
        Self { jobs, writable }
    }

    /// Asks the worker. If it has ended, the job is dropped, and the reply in it says EIO.
    fn ask(&self, job: impl FnOnce(&mut Served) + Send + 'static) {
        let _ = self.jobs.send(Some(Box::new(job)));
    }
}

/// The number of an inode: the kernel has them from us.
fn number(inode: INodeNo) -> u32 {
    u32::try_from(inode.0).unwrap_or(0)
}

fn code(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

fn time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
    let base = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.and_then(|base| base.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

fn timestamp(time: SystemTime) -> Timestamp {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { seconds: seconds(since), nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let borrow = i64::from(before.subsec_nanos() > 0);
            let nanoseconds = (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000;
            Timestamp { seconds: -seconds(before) - borrow, nanoseconds }
        }
    }
}

const fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::Regular | FileType::Other(_) => fuser::FileType::RegularFile,
    }
}

/// Attributes as FUSE has them. Blocks are counted as if there were no holes, as UBIFS in Linux counts.
fn attr(attributes: &Attributes) -> FileAttr {
    let device = attributes.device.unwrap_or(DeviceNumber { major: 0, minor: 0 });
    let counts = attributes.file_type == FileType::Regular;
    FileAttr {
        ino: INodeNo(u64::from(attributes.inode)),
        size: attributes.size,
        blocks: if counts { attributes.size.div_ceil(STAT_BLOCK) } else { 0 },
        atime: time(attributes.atime),
        mtime: time(attributes.mtime),
        ctime: time(attributes.ctime),
        crtime: UNIX_EPOCH,
        kind: kind(attributes.file_type),
        perm: u16::try_from(attributes.mode & 0o7777).unwrap_or(0),
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: pack_device(device),
        blksize: BLOCK,
        flags: 0,
    }
}

/// Replies with an entry or an error.
fn entry(reply: ReplyEntry, answer: Result<Attributes, Errno>) {
    match answer {
        Ok(attributes) => reply.entry(&BELIEVED, &attr(&attributes), Generation(0)),
        Err(errno) => reply.error(code(errno)),
    }
}

fn empty(reply: ReplyEmpty, answer: Result<(), Errno>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(code(errno)),
    }
}

fn attributes(reply: ReplyAttr, answer: Result<Attributes, Errno>) {
    match answer {
        Ok(attributes) => reply.attr(&BELIEVED, &attr(&attributes)),
        Err(errno) => reply.error(code(errno)),
    }
}

fn data(reply: ReplyData, answer: Result<Vec<u8>, Errno>) {
    match answer {
        Ok(bytes) => reply.data(&bytes),
        Err(errno) => reply.error(code(errno)),
    }
}

/// Replies with bytes, or with how many there are if the caller asks for that.
fn sized(reply: ReplyXattr, size: u32, answer: Result<Vec<u8>, Errno>) {
    match answer {
        Ok(bytes) if size == 0 => reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        Ok(bytes) if bytes.len() > size as usize => reply.error(code(Errno::RANGE)),
        Ok(bytes) => reply.data(&bytes),
        Err(errno) => reply.error(code(errno)),
    }
}

/// What makes something, with its own copy of the name.
struct Maker {
    directory: u32,
    name: Vec<u8>,
    uid: u32,
    gid: u32,
}

impl Maker {
    fn new(request: &Request, parent: INodeNo, name: &OsStr) -> Self {
        let (uid, gid) = (request.uid(), request.gid());
        Self { directory: number(parent), name: name.as_bytes().to_vec(), uid, gid }
    }

    fn node(&self, mode: u32, device: u32) -> NewNode<'_> {
        let Self { directory, ref name, uid, gid } = *self;
        NewNode { directory, name, mode, device, uid, gid }
    }
}

#[allow(clippy::too_many_arguments, reason = "as the trait has them")]
impl Filesystem for Bridge {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Neither is needed: a kernel without them asks more often.
        let _ = config.add_capabilities(InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (parent, name) = (number(parent), name.as_bytes().to_vec());
        self.ask(move |fs| entry(reply, fs.lookup(parent, &name)));
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.ask(move |fs| attributes(reply, fs.attributes(number(ino))));
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let point = |time| match time {
            TimeOrNow::SpecificTime(time) => Some(timestamp(time)),
            TimeOrNow::Now => None,
        };
        let times = Times { atime: atime.map(point), mtime: mtime.map(point) };
        let permissions = mode.map(|mode| mode & 0o7777);
        let changes = AttributeChanges { permissions, uid, gid, size, ..AttributeChanges::default() };
        self.ask(move |fs| attributes(reply, fs.set_attributes(number(ino), &changes, times)));
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        self.ask(move |fs| data(reply, fs.read_link(number(ino))));
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let maker = Maker::new(req, parent, name);
        self.ask(move |fs| entry(reply, fs.make(&maker.node(mode, rdev))));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let maker = Maker::new(req, parent, name);
        self.ask(move |fs| entry(reply, fs.make(&maker.node(mode & 0o7777 | 0o040_000, 0))));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (parent, name) = (number(parent), name.as_bytes().to_vec());
        self.ask(move |fs| empty(reply, fs.unlink(parent, &name)));
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (parent, name) = (number(parent), name.as_bytes().to_vec());
        self.ask(move |fs| empty(reply, fs.remove_dir(parent, &name)));
    }

    fn symlink(&self, req: &Request, parent: INodeNo, link_name: &OsStr, target: &Path, reply: ReplyEntry) {
        let maker = Maker::new(req, parent, link_name);
        let target = target.as_os_str().as_bytes().to_vec();
        self.ask(move |fs| entry(reply, fs.symlink(&maker.node(0, 0), &target)));
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (name.as_bytes().to_vec(), newname.as_bytes().to_vec());
        let (parent, newparent) = (number(parent), number(newparent));
        self.ask(move |fs| empty(reply, fs.rename((parent, &from), (newparent, &to), flags.bits())));
    }

    fn link(&self, _req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let name = newname.as_bytes().to_vec();
        self.ask(move |fs| entry(reply, fs.link(number(ino), number(newparent), &name)));
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.ask(move |fs| match fs.open(number(ino)) {
            // Nobody else changes the file: what the kernel has of it stays good.
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(code(errno)),
        });
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.ask(move |fs| data(reply, fs.read(number(ino), offset, size)));
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        self.ask(move |fs| match fs.write(number(ino), offset, &data, flags.0 & SYNC != 0) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(0)),
            Err(errno) => reply.error(code(errno)),
        });
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Closing a file brings nothing to flash.
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.ask(move |fs| empty(reply, fs.close(number(ino))));
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.ask(move |fs| empty(reply, fs.fsync(number(ino))));
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.ask(move |fs| match fs.open_dir(number(ino)) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(errno) => reply.error(code(errno)),
        });
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.ask(move |fs| {
            let listed = fs.list(number(ino), fh.0, offset, &mut |_, entry| {
                let inode = INodeNo(u64::from(entry.inode));
                reply.add(inode, entry.next, kind(entry.file_type), OsStr::from_bytes(entry.name))
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(code(errno)),
            }
        });
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.ask(move |fs| {
            let listed = fs.list(number(ino), fh.0, offset, &mut |fs, entry| {
                let name = OsStr::from_bytes(entry.name);
                let inode = INodeNo(u64::from(entry.inode));
                match plus(fs, number(ino), entry.name, entry.inode) {
                    Some(attr) => reply.add(inode, entry.next, name, &BELIEVED, &attr, Generation(0)),
                    // Without a number the kernel takes the name and asks again for the rest.
                    None => {
                        let only_name = FileAttr { ino: inode, kind: kind(entry.file_type), ..NOTHING };
                        reply.add(INodeNo(0), entry.next, name, &Duration::ZERO, &only_name, Generation(0))
                    }
                }
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(code(errno)),
            }
        });
    }

    fn releasedir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.ask(move |fs| empty(reply, fs.close_dir(number(ino), fh.0)));
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.ask(move |fs| empty(reply, fs.fsync(number(ino))));
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.ask(move |fs| {
            let space = fs.space();
            let (total, free, available) = (space.blocks, space.free_blocks, space.available_blocks);
            reply.statfs(total, free, available, 0, 0, BLOCK, 255, BLOCK);
        });
    }

    fn setxattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.as_bytes().to_vec(), value.to_vec());
        let flags = XattrFlags::from_bits_retain(flags.unsigned_abs());
        self.ask(move |fs| empty(reply, fs.set_xattr(number(ino), &name, &value, flags)));
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes().to_vec();
        self.ask(move |fs| sized(reply, size, fs.get_xattr(number(ino), &name)));
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask(move |fs| sized(reply, size, fs.list_xattrs(number(ino))));
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask(move |fs| empty(reply, fs.remove_xattr(number(ino), &name)));
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let maker = Maker::new(req, parent, name);
        self.ask(move |fs| {
            let made = fs.make(&maker.node(mode & 0o7777 | 0o100_000, 0));
            let opened = made.and_then(|attributes| fs.open(attributes.inode).map(|()| attributes));
            match opened {
                Ok(attributes) => {
                    let (attr, flags) = (attr(&attributes), FopenFlags::FOPEN_KEEP_CACHE);
                    reply.created(&BELIEVED, &attr, Generation(0), FileHandle(0), flags);
                }
                Err(errno) => reply.error(code(errno)),
            }
        });
    }

    fn ioctl(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        let given = in_data.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let writable = self.writable;
        self.ask(move |fs| {
            let answer = match given {
                _ if GET_FLAGS.contains(&cmd) => {
                    fs.flags(number(ino)).map(|flags| flags.to_le_bytes().to_vec())
                }
                Some(_) if SET_FLAGS.contains(&cmd) && !writable => Err(Errno::ROFS),
                Some(flags) if SET_FLAGS.contains(&cmd) => {
                    fs.set_flags(number(ino), flags).map(|()| Vec::new())
                }
                _ => Err(Errno::NOTTY),
            };
            match answer {
                Ok(bytes) => reply.ioctl(0, &bytes),
                Err(errno) => reply.error(code(errno)),
            }
        });
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        // Space cannot be set aside: how much data take shows when they are compressed.
        reply.error(code(Errno::OPNOTSUPP));
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.ask(move |fs| {
            let found = match (u64::try_from(offset), whence) {
                (Ok(offset), SEEK_DATA) => fs.seek(number(ino), offset, false),
                (Ok(offset), SEEK_HOLE) => fs.seek(number(ino), offset, true),
                (Err(_), SEEK_DATA | SEEK_HOLE) => Err(Errno::NXIO),
                _ => Err(Errno::INVAL),
            };
            match found.and_then(|at| i64::try_from(at).map_err(|_| Errno::OVERFLOW)) {
                Ok(at) => reply.offset(at),
                Err(errno) => reply.error(code(errno)),
            }
        });
    }
}

/// Attributes of nothing.
const NOTHING: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: fuser::FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: BLOCK,
    flags: 0,
};

/// Attributes that go with a name in a list. None of `.` and `..`, which the kernel knows, and of what is damaged.
fn plus(fs: &mut Served, directory: u32, name: &[u8], inode: u32) -> Option<FileAttr> {
    if matches!(name, b"." | b"..") {
        return None;
    }
    fs.listed(directory, inode).ok().map(|attributes| attr(&attributes))
}
