//! Conversion between FUSE requests and calls of the handler.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use floatgate_stack::fs::{AttributeChanges, Attributes, DeviceNumber, FileType, Space, Timestamp};
use fuser::{
    BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::Answer;
use super::handler::{NewNode, Times, pack_device};
use super::shared::{Served, Shared};

/// Time for which the kernel may cache names and attributes: always, because no other program changes the image. The
/// kernel invalidates what its own requests change; [`Bridge::forget_attributes`] invalidates other changes.
const BELIEVED: Duration = Duration::from_secs(1 << 24);

/// Unit of the block count in `stat`, bytes.
const STAT_BLOCK: u64 = 512;

/// Size of a filesystem block, bytes.
const BLOCK: u32 = 4096;

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS` on 64-bit and 32-bit hosts (Linux, `include/uapi/linux/fs.h`).
const GET_FLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];

/// `FS_IOC_FSGETXATTR`, which the kernel calls before it sets flags. The answer is a `struct fsxattr`, whose first
/// number contains the flags.
const GET_XFLAGS: u32 = 0x801C_581F;
const XFLAGS_BYTES: usize = 28;

/// `O_SYNC` and `O_DSYNC`.
const SYNC: i32 = 0o4_010_000;

/// Kinds of positions for `lseek`.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Handler of FUSE requests.
pub(super) struct Bridge {
    shared: Arc<Shared>,
    writable: bool,
    notifier: Arc<OnceLock<Notifier>>,
}

impl Bridge {
    pub(super) fn new(shared: Arc<Shared>, writable: bool) -> Self {
        Self { shared, writable, notifier: Arc::default() }
    }

    fn ask<T>(&self, work: impl FnOnce(&mut Served) -> Answer<T>) -> Answer<T> {
        self.shared.ask(work)
    }

    /// Slot in which the session puts the notifier, which tells the kernel about changed attributes.
    pub(super) fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    /// Invalidates the kernel's attributes of an inode.
    fn forget_attributes(&self, inode: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            // The kernel may have no such inode.
            let _ = notifier.inval_inode(inode, -1, 0);
        }
    }
}

/// Number of an inode, which the kernel received from this program.
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

/// Attributes in the form of FUSE. Blocks are counted as if there were no holes, as in Linux's UBIFS.
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

/// Replies with bytes, or with their number if the caller requests it.
fn sized(reply: ReplyXattr, size: u32, answer: Result<Vec<u8>, Errno>) {
    match answer {
        Ok(bytes) if size == 0 => reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        Ok(bytes) if bytes.len() > size as usize => reply.error(code(Errno::RANGE)),
        Ok(bytes) => reply.data(&bytes),
        Err(errno) => reply.error(code(errno)),
    }
}

fn ioctl(reply: ReplyIoctl, answer: Result<Vec<u8>, Errno>) {
    match answer {
        Ok(bytes) => reply.ioctl(0, &bytes),
        Err(errno) => reply.error(code(errno)),
    }
}

/// Description of a new file for the calling process.
fn node<'a>(request: &Request, parent: INodeNo, name: &'a OsStr, mode: u32, device: u32) -> NewNode<'a> {
    let (uid, gid) = (request.uid(), request.gid());
    NewNode { directory: number(parent), name: name.as_bytes(), mode, device, uid, gid }
}

#[allow(clippy::too_many_arguments, reason = "as the trait has them")]
impl Filesystem for Bridge {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // All of these are optional: a kernel without them sends more requests.
        let wanted = [
            InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            // Without it, the kernel requests attributes before each change of owner, and `security.capability`
            // before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        for flags in wanted {
            let _ = config.add_capabilities(flags);
        }
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.ask(|fs| fs.lookup(number(parent), name.as_bytes())) {
            // With inode 0, the kernel caches that the name does not exist.
            Err(Errno::NOENT) => reply.entry(&BELIEVED, &NOTHING, Generation(0)),
            answer => entry(reply, answer),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.ask(|fs| fs.attributes(number(ino))));
    }

    fn setattr(
        &self,
        req: &Request,
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
        // For truncation, the kernel sets FATTR_KILL_SUIDGID if the process lacks CAP_FSETID, but fuser does not pass
        // this flag on.
        let drops_set_id = size.is_some() && req.uid() != 0;
        attributes(
            reply,
            self.ask(|fs| {
                if drops_set_id {
                    fs.drop_set_id(number(ino))?;
                }
                fs.set_attributes(number(ino), &changes, times)
            }),
        );
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        data(reply, self.ask(|fs| fs.read_link(number(ino))));
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
        let node = node(req, parent, name, mode, rdev);
        entry(reply, self.ask(|fs| fs.make(&node)));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let node = node(req, parent, name, mode & 0o7777 | 0o040_000, 0);
        entry(reply, self.ask(|fs| fs.make(&node)));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (parent, name) = (number(parent), name.as_bytes());
        empty(reply, self.ask(|fs| fs.unlink(parent, name)));
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (parent, name) = (number(parent), name.as_bytes());
        empty(reply, self.ask(|fs| fs.remove_dir(parent, name)));
    }

    fn symlink(&self, req: &Request, parent: INodeNo, link_name: &OsStr, target: &Path, reply: ReplyEntry) {
        let node = node(req, parent, link_name, 0, 0);
        entry(reply, self.ask(|fs| fs.symlink(&node, target.as_os_str().as_bytes())));
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
        let (from, to) = ((number(parent), name.as_bytes()), (number(newparent), newname.as_bytes()));
        empty(reply, self.ask(|fs| fs.rename(from, to, flags.bits())));
    }

    fn link(&self, _req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let name = newname.as_bytes();
        entry(reply, self.ask(|fs| fs.link(number(ino), number(newparent), name)));
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.ask(|fs| fs.open(number(ino))) {
            // No other program changes the file, so the kernel's cached data stays valid.
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(code(errno)),
        }
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
        data(reply, self.ask(|fs| fs.read(number(ino), offset, size)));
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.ask(|fs| {
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                fs.drop_set_id(number(ino))?;
            }
            fs.write(number(ino), offset, data, flags.0 & SYNC != 0)
        });
        match written {
            Ok(len) => reply.written(len),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Closing a file writes nothing to flash, so the kernel need not send this request again.
        reply.error(fuser::Errno::ENOSYS);
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
        empty(reply, self.ask(|fs| fs.close(number(ino))));
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.ask(|fs| fs.fsync(number(ino))));
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // The kernel may cache an unchanged directory. If it changes, the list in this handle makes sure that `rm -r`
        // sees every name.
        let kept = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
        let flags = if self.writable { FopenFlags::empty() } else { kept };
        match self.ask(|fs| fs.open_dir(number(ino))) {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.ask(|fs| {
            fs.list(number(ino), fh.0, offset, &mut |_, entry| {
                let inode = INodeNo(u64::from(entry.inode));
                reply.add(inode, entry.next, kind(entry.file_type), OsStr::from_bytes(entry.name))
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.ask(|fs| {
            fs.list(number(ino), fh.0, offset, &mut |fs, entry| {
                let name = OsStr::from_bytes(entry.name);
                let inode = INodeNo(u64::from(entry.inode));
                match plus(fs, number(ino), entry.name, entry.inode) {
                    Some(attr) => reply.add(inode, entry.next, name, &BELIEVED, &attr, Generation(0)),
                    // Without an inode number, the kernel uses the name and requests the attributes later.
                    None => {
                        let only_name = FileAttr { ino: inode, kind: kind(entry.file_type), ..NOTHING };
                        reply.add(INodeNo(0), entry.next, name, &Duration::ZERO, &only_name, Generation(0))
                    }
                }
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn releasedir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        empty(reply, self.ask(|fs| fs.close_dir(number(ino), fh.0)));
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.ask(|fs| fs.fsync(number(ino))));
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.ask(|fs| Ok(fs.space())) {
            Ok(Space { blocks, free_blocks, available_blocks }) => {
                reply.statfs(blocks, free_blocks, available_blocks, 0, 0, BLOCK, 255, BLOCK);
            }
            Err(errno) => reply.error(code(errno)),
        }
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
        let name = name.as_bytes();
        let flags = XattrFlags::from_bits_retain(flags.unsigned_abs());
        empty(reply, self.ask(|fs| fs.set_xattr(number(ino), name, value, flags)));
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes();
        sized(reply, size, self.ask(|fs| fs.get_xattr(number(ino), name)));
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        sized(reply, size, self.ask(|fs| fs.list_xattrs(number(ino))));
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes();
        empty(reply, self.ask(|fs| fs.remove_xattr(number(ino), name)));
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
        let node = node(req, parent, name, mode & 0o7777 | 0o100_000, 0);
        let opened = self.ask(|fs| {
            let attributes = fs.make(&node)?;
            fs.open(attributes.inode)?;
            Ok(attributes)
        });
        match opened {
            Ok(attributes) => {
                let (attr, flags) = (attr(&attributes), FopenFlags::FOPEN_KEEP_CACHE);
                reply.created(&BELIEVED, &attr, Generation(0), FileHandle(0), flags);
            }
            Err(errno) => reply.error(code(errno)),
        }
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
        match given {
            _ if GET_FLAGS.contains(&cmd) => {
                ioctl(reply, self.ask(|fs| fs.flags(number(ino))).map(|flags| flags.to_le_bytes().to_vec()));
            }
            _ if cmd == GET_XFLAGS => {
                let mut answer = vec![0; XFLAGS_BYTES];
                let flags = self.ask(|fs| fs.xflags(number(ino)));
                ioctl(
                    reply,
                    flags.map(|flags| {
                        answer[..4].copy_from_slice(&flags.to_le_bytes());
                        answer
                    }),
                );
            }
            Some(_) if SET_FLAGS.contains(&cmd) && !self.writable => ioctl(reply, Err(Errno::ROFS)),
            Some(flags) if SET_FLAGS.contains(&cmd) => {
                let done = self.ask(|fs| fs.set_flags(number(ino), flags));
                // This is done before the answer, because its receiver may request the attributes immediately.
                self.forget_attributes(ino);
                ioctl(reply, done.map(|()| Vec::new()));
            }
            _ => ioctl(reply, Err(Errno::NOTTY)),
        }
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
        // Space cannot be reserved, because the size of data is known only after its compression.
        reply.error(fuser::Errno::ENOSYS);
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
        let found = match (u64::try_from(offset), whence) {
            (Ok(offset), SEEK_DATA) => self.ask(|fs| fs.seek(number(ino), offset, false)),
            (Ok(offset), SEEK_HOLE) => self.ask(|fs| fs.seek(number(ino), offset, true)),
            (Err(_), SEEK_DATA | SEEK_HOLE) => Err(Errno::NXIO),
            _ => Err(Errno::INVAL),
        };
        match found.and_then(|at| i64::try_from(at).map_err(|_| Errno::OVERFLOW)) {
            Ok(at) => reply.offset(at),
            Err(errno) => reply.error(code(errno)),
        }
    }
}

/// Attributes of a missing file.
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

/// Attributes for a name in a list. There are none for `.` and `..`, whose attributes the kernel has, and for damaged
/// files.
fn plus(fs: &mut Served, directory: u32, name: &[u8], inode: u32) -> Option<FileAttr> {
    if matches!(name, b"." | b"..") {
        return None;
    }
    fs.listed(directory, inode).ok().map(|attributes| attr(&attributes))
}
