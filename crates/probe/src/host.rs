//! Files and block devices of this machine: direct I/O, the monotonic clock, who else uses them, and restoring what was overwritten.

use crate::answer::size;
use crate::kept::{Kept, PIECE, Piece};
use crate::mtd;
use crate::probe::CAPACITY_MIN;
use crate::target::{Target, TargetError};
use rustix::fs::{FallocateFlags, OFlags};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Alignment that direct I/O needs on all Linux filesystems, B.
const ALIGN: usize = 4096;
/// Largest logical sector, B.
const SECTOR_MAX: u64 = ALIGN as u64;

/// A file or block device.
#[derive(Debug)]
pub struct Host {
    file: File,
    /// Size in bytes, and those of them that are whole sectors.
    length: u64,
    capacity: u64,
    sector: u64,
    memory: Option<&'static str>,
    is_cached: bool,
    buf: Aligned,
    /// Contents before the first write, where writes are allowed.
    kept: Option<Kept>,
}

impl Host {
    /// Opens a file or block device, to write as well when `writes` is set. A block device is opened exclusively, which fails when it is mounted or
    /// part of a RAID.
    ///
    /// # Errors
    /// An error of the operating system; `InvalidInput` for anything else than a file or block device, and for one that is too small.
    pub fn open(path: &Path, writes: bool) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        let invalid = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
        if !kind.is_file() && !kind.is_block_device() {
            return Err(invalid("neither a file nor a block device".to_owned()));
        }
        let exclusive = if kind.is_block_device() { OFlags::EXCL } else { OFlags::empty() };
        let open = |flags: OFlags| {
            let flags = (flags | exclusive).bits().cast_signed();
            OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
        };
        let mut buf = Aligned::new();
        let direct = open(OFlags::DIRECT).and_then(|file| {
            let sector =
                if kind.is_block_device() { logical_sector(&file)? } else { direct_unit(&file, &mut buf)? };
            Ok((file, sector))
        });
        let (mut file, sector, is_direct) = match direct {
            // Some filesystems know no direct I/O.
            Err(error) if error.kind() == ErrorKind::InvalidInput && kind.is_file() => {
                (open(OFlags::empty())?, 512, false)
            }
            other => other.map(|(file, sector)| (file, sector, true))?,
        };
        if writes && kind.is_file() {
            lock(&file)?;
        }
        let length = file.seek(SeekFrom::End(0))?;
        if length < CAPACITY_MIN {
            return Err(invalid(format!(
                "{length} B are too small to be probed: at least {} are needed",
                size(CAPACITY_MIN)
            )));
        }
        if writes
            && kind.is_block_device()
            && is_read_only(Path::new("/sys/dev/block"), &number(&file.metadata()?))
        {
            return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "the device is read-only"));
        }
        let capacity = length / sector * sector;
        let memory = if kind.is_file() { memory(&file, is_direct, length) } else { None };
        let is_cached = is_cached_loop(Path::new("/sys/dev/block"), &number(&file.metadata()?));
        Ok(Self {
            file,
            length,
            capacity,
            sector,
            memory,
            is_cached: kind.is_block_device() && is_cached,
            buf,
            kept: if writes { Some(Kept::new(capacity)?) } else { None },
        })
    }

    /// Reason in words for which requests are answered from memory, so that times are not those of a card.
    pub const fn memory(&self) -> Option<&'static str> {
        self.memory
    }

    /// True for a loop device that uses the page cache for its file: that answers reads from memory and reads ahead, so that times are others.
    pub const fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// Bytes at the end that are no whole sector. No test touches them.
    pub const fn rest_bytes(&self) -> u64 {
        self.length - self.capacity
    }

    /// File that holds what was kept until it is restored; where writes are allowed.
    pub fn kept_path(&self) -> Option<&Path> {
        self.kept.as_ref()?.path()
    }

    /// Gives back what an earlier probe has kept of the same device, instead of what this one keeps.
    ///
    /// # Errors
    /// Contents of a device of another size.
    pub fn take_kept(&mut self, kept: Kept) -> io::Result<()> {
        if kept.capacity() != self.capacity {
            let why = format!("it is kept of a device of {}", size(kept.capacity()));
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        self.kept = Some(kept);
        Ok(())
    }

    /// Writes back all that was kept, the latest first: where addresses wrap around, the earliest contents are the true ones. `watch` is told how many
    /// bytes were written back so far.
    ///
    /// # Errors
    /// Ranges that could not be restored, after all others were. What was kept stays in a file then.
    pub fn restore(&mut self, mut watch: impl FnMut(u64)) -> Result<(), NotRestored> {
        let Some(mut kept) = self.kept.take() else { return Ok(()) };
        let (mut trouble, mut lost, mut done) = (None, 0, 0);
        for piece in kept.pieces.iter().rev() {
            if let Err(error) = self.restore_piece(&kept, piece) {
                trouble.get_or_insert(failed("restoring", piece.position, piece.bytes, &error));
                lost += piece.bytes;
            }
            done += piece.bytes;
            watch(done);
        }
        if let Err(error) = self.file.sync_data() {
            trouble.get_or_insert(failed("flush", 0, 0, &error));
        }
        match trouble {
            Some(first) => Err(NotRestored { first, lost, kept: kept.leave() }),
            None => {
                kept.forget();
                self.kept = Some(kept);
                Ok(())
            }
        }
    }

    fn restore_piece(&mut self, kept: &Kept, piece: &Piece) -> io::Result<()> {
        let buf = self.buf.part(piece.bytes as usize);
        kept.contents(piece, buf)?;
        if self.memory == Some(HOLES) && buf.iter().all(|byte| *byte == 0) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if rustix::fs::fallocate(&self.file, flags, piece.position, piece.bytes).is_ok() {
                return Ok(());
            }
        }
        self.file.write_all_at(buf, piece.position)
    }

    /// The whole sectors that hold a range.
    const fn sectors(&self, position: u64, bytes: u64) -> (u64, u64) {
        let start = position / self.sector * self.sector;
        (start, (position + bytes).next_multiple_of(self.sector))
    }

    fn read_range(&mut self, position: u64, data: &mut [u8]) -> io::Result<u64> {
        let (start, end) = self.sectors(position, data.len() as u64);
        let aligned = self.buf.part((end - start) as usize);
        let ns = timed(|| self.file.read_exact_at(aligned, start))?;
        data.copy_from_slice(&aligned[(position - start) as usize..][..data.len()]);
        Ok(ns)
    }

    /// Writes a range. What else the sectors at its ends hold is read before, which is no part of the time.
    fn write_range(&mut self, position: u64, data: &[u8]) -> io::Result<u64> {
        let (start, end) = self.sectors(position, data.len() as u64);
        let aligned = self.buf.part((end - start) as usize);
        if end - start != data.len() as u64 {
            self.file.read_exact_at(aligned, start)?;
        }
        aligned[(position - start) as usize..][..data.len()].copy_from_slice(data);
        timed(|| self.file.write_all_at(aligned, start))
    }

    fn keep_range(&mut self, position: u64, bytes: u64) -> io::Result<()> {
        let mut at = position;
        while at < position + bytes {
            let bytes = (position + bytes - at).min(PIECE as u64);
            let buf = self.buf.part(bytes as usize);
            self.file.read_exact_at(buf, at)?;
            if let Some(kept) = &mut self.kept {
                kept.push(at, buf)?;
            }
            at += bytes;
        }
        Ok(())
    }
}

/// Contents that were overwritten and could not be written back.
#[derive(Debug, thiserror::Error)]
#[error("{first}")]
pub struct NotRestored {
    /// The first failure.
    pub first: TargetError,
    /// Bytes that have not got their contents back, the failure of a flush not counted.
    pub lost: u64,
    /// File that holds the contents of all ranges.
    pub kept: Option<PathBuf>,
}

/// Keeps other programs that lock what they change from a file; a block device is opened exclusively.
fn lock(file: &File) -> io::Result<()> {
    match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(rustix::io::Errno::BUSY.into()),
        // Some network filesystems have no locks.
        _ => Ok(()),
    }
}

/// Logical sector of a block device, B.
fn logical_sector(file: &File) -> io::Result<u64> {
    let bytes = u64::from(rustix::fs::ioctl_blksszget(file)?);
    let is_usual = bytes.is_power_of_two() && (512..=SECTOR_MAX).contains(&bytes);
    if is_usual { Ok(bytes) } else { Err(io::Error::other(format!("it has sectors of {bytes} B"))) }
}

/// Smallest unit of direct I/O on a file, B: that of the disk below its filesystem.
fn direct_unit(file: &File, buf: &mut Aligned) -> io::Result<u64> {
    match file.read_at(buf.part(512), 512) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            file.read_at(buf.part(SECTOR_MAX as usize), SECTOR_MAX).map(|_| SECTOR_MAX)
        }
        other => other.map(|_| 512),
    }
}

/// Numbers of filesystems in memory (statfs(2)): tmpfs and ramfs.
const MEMORY_FILESYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// Holes are restored as holes.
const HOLES: &str = "it is a file with holes, which no disk holds";

/// Reason for which a file is answered from memory.
fn memory(file: &File, is_direct: bool, length: u64) -> Option<&'static str> {
    let kind = rustix::fs::fstatfs(file).map_or(0, |found| found.f_type as u64);
    // Filesystems that do not tell have a hole at the end only.
    let hole = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0)).unwrap_or(length);
    match () {
        () if MEMORY_FILESYSTEMS.contains(&kind) => Some("it is a file in memory"),
        () if !is_direct => {
            Some("it is a file on a filesystem without direct I/O, which the page cache answers")
        }
        () if hole < length => Some(HOLES),
        () => None,
    }
}

fn failed(operation: &'static str, position: u64, bytes: u64, error: &io::Error) -> TargetError {
    TargetError { operation, position, bytes, reason: error.to_string() }
}

#[expect(clippy::disallowed_methods, reason = "the edge: this is the clock of real devices")]
fn timed(request: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
    let start = Instant::now();
    request()?;
    Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

impl Target for Host {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn sector_bytes(&self) -> u64 {
        self.sector
    }

    fn is_memory(&self) -> bool {
        self.memory.is_some()
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        self.read_range(position, buf).map_err(|error| failed("read", position, buf.len() as u64, &error))
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        self.keep(position, data.len() as u64)?;
        self.write_range(position, data).map_err(|error| failed("write", position, data.len() as u64, &error))
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        timed(|| self.file.sync_data()).map_err(|error| failed("flush", 0, 0, &error))
    }

    fn idle(&mut self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }

    fn keep(&mut self, position: u64, bytes: u64) -> Result<(), TargetError> {
        let (start, end) = self.sectors(position, bytes);
        let gaps = self.kept.as_ref().map_or_else(Vec::new, |kept| kept.gaps(start, end));
        for (start, end) in gaps {
            self.keep_range(start, end - start)
                .map_err(|error| failed("keeping", start, end - start, &error))?;
        }
        Ok(())
    }

    fn kept_bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, Kept::bytes)
    }
}

/// Memory at an address that direct I/O accepts.
#[derive(Debug)]
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new() -> Self {
        let bytes = vec![0; PIECE + 3 * ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN);
        Self { bytes, start }
    }

    /// The first bytes; requests are at most [`PIECE`] long, and have a part of a sector at both ends.
    fn part(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + len]
    }
}

/// Users of a file, block device or MTD that writes would harm, in words: mounts, swap, RAID, LVM, loop devices, UBI.
///
/// # Errors
/// A path that cannot be looked at; mounts that the system does not show, of an MTD: nothing else would refuse to open one that is used.
pub fn holders(path: &Path) -> io::Result<Vec<String>> {
    let metadata = path.metadata()?;
    let root = Path::new("/");
    let mtds = mtd::number(&metadata).map_or_else(Vec::new, |number| mtd::family(root, number));
    let devices = match metadata.file_type().is_block_device() {
        true => with_partitions(&root.join(BLOCK_DEVICES), &number(&metadata)),
        false => block_devices_above(root, &mtds),
    };
    let is_file = metadata.is_file();
    let is_it = |other: &Path| {
        let other = other.metadata();
        other.is_ok_and(|other| match other.file_type().is_block_device() {
            true => devices.contains(&number(&other)),
            false => is_file && (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()),
        })
    };
    users(root, &devices, &mtds, is_it)
}

/// Folder of sysfs with a link for each block device, by its number.
const BLOCK_DEVICES: &str = "sys/dev/block";

/// Users of block devices and MTDs in the system below `root`; `is_it` is true for a path of the same file or device.
fn users(
    root: &Path,
    devices: &[String],
    mtds: &[String],
    is_it: impl Fn(&Path) -> bool + Copy,
) -> io::Result<Vec<String>> {
    let text = |path: &str| std::fs::read_to_string(root.join(path));
    let mut found = swaps(&text("proc/swaps").unwrap_or_default(), is_it);
    found.extend(loops(&root.join("sys/block"), is_it));
    let mountinfo = match text("proc/self/mountinfo") {
        Err(error) if !mtds.is_empty() => {
            let why = format!("/proc/self/mountinfo, which tells whether it is mounted: {error}");
            return Err(io::Error::new(error.kind(), why));
        }
        other => other.unwrap_or_default(),
    };
    found.extend(mounts(&mountinfo, devices));
    for device in devices {
        let holders = names(&root.join(BLOCK_DEVICES).join(device).join("holders"));
        found.extend(holders.into_iter().map(|name| format!("{name} is built on it")));
    }
    found.extend(mtd::attached(root, mtds));
    Ok(found)
}

/// Numbers of the block devices above MTDs: mtdblock, whose number mounts of JFFS2 have as well, and what translation layers show.
fn block_devices_above(root: &Path, mtds: &[String]) -> Vec<String> {
    mtds.iter()
        .flat_map(|name| mtd::block_devices(root, name))
        .flat_map(|number| with_partitions(&root.join(BLOCK_DEVICES), &number))
        .collect()
}

/// Number of a block device, as sysfs has it.
fn number(metadata: &Metadata) -> String {
    format!("{}:{}", rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()))
}

/// Names in a folder, sorted; none where there is no folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Text of a file of sysfs, which has one line.
pub(crate) fn line(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Numbers of a block device and of its partitions, as sysfs has them.
fn with_partitions(sysfs: &Path, number: &str) -> Vec<String> {
    let folder = sysfs.join(number);
    let partitions = names(&folder).into_iter().map(|name| folder.join(name));
    let partitions = partitions.filter(|path| path.join("partition").exists());
    std::iter::once(number.to_owned()).chain(partitions.filter_map(|path| line(&path.join("dev")))).collect()
}

/// Mounts of devices (proc(5), mountinfo: the third field is the device, the fifth the place).
fn mounts(mountinfo: &str, devices: &[String]) -> Vec<String> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        let (device, place) = (fields.next()?, fields.nth(1)?);
        devices.iter().any(|known| known == device).then(|| format!("it is mounted on {place}"))
    };
    mountinfo.lines().filter_map(mount).collect()
}

/// Swap (proc(5)) on a device, one of its partitions, or a file. Blanks in its name are octal there.
fn swaps(swaps: &str, is_it: impl Fn(&Path) -> bool) -> Vec<String> {
    let used = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let used = used.map(|name| name.replace("\\040", " "));
    used.filter(|name| is_it(Path::new(name))).map(|name| format!("{name} is used as swap")).collect()
}

/// Loop devices whose contents are a file or another device.
fn loops(sysfs: &Path, is_it: impl Fn(&Path) -> bool) -> Vec<String> {
    let is_backed = |name: &String| {
        line(&sysfs.join(name).join("loop/backing_file")).is_some_and(|file| is_it(Path::new(&file)))
    };
    names(sysfs)
        .into_iter()
        .filter(is_backed)
        .map(|name| format!("{name} is a loop device over it"))
        .collect()
}

/// True when the kernel lets nobody write to a block device.
fn is_read_only(sysfs: &Path, number: &str) -> bool {
    line(&sysfs.join(number).join("ro")).is_some_and(|ro| ro == "1")
}

/// True when a block device is a loop device without direct I/O, or a partition of one.
fn is_cached_loop(sysfs: &Path, number: &str) -> bool {
    let device = sysfs.join(number);
    let direct = ["loop/dio", "../loop/dio"].into_iter().find_map(|file| line(&device.join(file)));
    direct.is_some_and(|direct| direct == "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn users_are_found() {
        let mountinfo =
            "22 1 179:2 / / rw - ext4 /dev/root rw\n36 22 8:17 / /mnt/card rw - vfat /dev/sdb1 rw\n";
        let devices = ["8:16", "8:17"].map(str::to_owned);
        assert_eq!(mounts(mountinfo, &devices), ["it is mounted on /mnt/card"]);
        assert!(mounts(mountinfo, &devices[..1]).is_empty());
        let text = "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb2   partition\t1024\t0\t-2\n";
        assert_eq!(swaps(text, |path| path == Path::new("/dev/sdb2")), ["/dev/sdb2 is used as swap"]);
        assert!(swaps(text, |path| path == Path::new("/dev/sdb")).is_empty());
    }

    #[test]
    fn partitions_and_loop_devices_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("8:16/sdb1/dev", "8:17\n");
        write("8:16/sdb1/partition", "1\n");
        write("8:16/queue/dev", "no partition");
        assert_eq!(with_partitions(root.path(), "8:16"), ["8:16", "8:17"]);
        write("loop3/loop/backing_file", "/tmp/image\n");
        write("loop4/size", "0\n");
        assert_eq!(
            loops(root.path(), |path| path == Path::new("/tmp/image")),
            ["loop3 is a loop device over it"]
        );
        for (device, direct) in [("7:0", "0\n"), ("7:1", "1\n")] {
            write(&format!("{device}/loop/dio"), direct);
            write(&format!("{device}/loop0p1/partition"), "1\n");
        }
        let cached = |number| is_cached_loop(root.path(), number);
        assert_eq!(
            ["7:0", "7:0/loop0p1", "7:1", "7:1/loop0p1", "8:16"].map(cached),
            [true, true, false, false, false]
        );
    }

    #[test]
    fn users_of_an_mtd_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let users = |number: u32| {
            let mtds = mtd::family(root.path(), number);
            users(root.path(), &block_devices_above(root.path(), &mtds), &mtds, |_| false)
        };
        // What is not shown is no reason to write.
        let error = users(1).unwrap_err().to_string();
        assert!(error.contains("mountinfo, which tells whether it is mounted"), "{error}");
        write(
            "proc/self/mountinfo",
            "30 1 31:1 / /mnt rw - jffs2 mtd:root rw\n31 1 93:0 / /dos rw - vfat /dev/nftla rw\n",
        );
        assert_eq!(users(1).unwrap(), ["it is mounted on /mnt"]);
        assert!(users(11).unwrap().is_empty());
        write("sys/class/ubi/ubi3/mtd_num", "2\n");
        write("sys/class/ubi/ubi3_0/name", "root\n");
        write("sys/class/ubi/version", "1\n");
        assert_eq!(users(2).unwrap(), ["UBI has attached mtd2 as ubi3"]);
        assert!(users(22).unwrap().is_empty());
        // A translation layer is a block device below its MTD.
        write("sys/class/mtd/mtd4/nftla/dev", "93:0\n");
        fs::create_dir(root.path().join("sys/class/mtd/mtd4/nftla/queue")).unwrap();
        write("sys/class/mtd/mtd4/power/dev", "31:1\n");
        assert_eq!(users(4).unwrap(), ["it is mounted on /dos"]);
        // A master and its partitions are the same flash.
        let master = root.path().join("sys/class/mtd/mtd7");
        fs::create_dir_all(master.join("mtd1/mtd1")).unwrap();
        for number in [1, 2] {
            fs::create_dir_all(master.join(format!("mtd{number}"))).unwrap();
            let link = root.path().join(format!("sys/class/mtd/mtd{number}"));
            std::os::unix::fs::symlink(master.join(format!("mtd{number}")), link).unwrap();
        }
        assert_eq!(users(7).unwrap(), ["it is mounted on /mnt", "UBI has attached mtd2 as ubi3"]);
        assert_eq!(users(2).unwrap(), ["UBI has attached mtd2 as ubi3"]);
        write("sys/class/ubi/ubi3/mtd_num", "7\n");
        assert_eq!(users(2).unwrap(), ["UBI has attached mtd7 as ubi3"]);
    }

    #[test]
    fn what_was_overwritten_is_restored_from_its_first_contents() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 512 + 1) as u8).collect();
        fs::write(file.path(), &before).unwrap();
        let mut host = Host::open(file.path(), true).unwrap();
        assert_eq!(host.capacity(), 1 << 20);
        for (position, bytes) in [(1024, 512), (0, 4096), (8192, 1024), (2048, 8192), ((1 << 20) - 512, 512)]
        {
            host.write(position, &vec![0xEE; bytes]).unwrap();
        }
        host.write(0, &[0xDD; 512]).unwrap();
        assert_eq!(host.kept_bytes(), 10_240 + 512);
        assert_ne!(fs::read(file.path()).unwrap(), before);
        host.restore(|_| ()).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), before);
    }

    #[test]
    fn holes_are_restored_as_holes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        file.as_file().write_all_at(&[7; 8192], 1 << 20).unwrap();
        let (before, blocks) = (fs::read(file.path()).unwrap(), file.as_file().metadata().unwrap().blocks());
        let mut host = Host::open(file.path(), true).unwrap();
        // Some filesystems have no holes, and others none that can be told.
        if host.memory() != Some(HOLES) {
            return;
        }
        host.write(2 << 20, &[0xEE; 1 << 16]).unwrap();
        host.write((1 << 20) + 4096, &[0xEE; 8192]).unwrap();
        host.restore(|_| ()).unwrap();
        assert!(fs::read(file.path()).unwrap() == before);
        assert!(file.as_file().metadata().unwrap().blocks() <= blocks + 8, "{blocks}");
    }

    #[test]
    fn what_cannot_be_kept_is_not_overwritten() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![7; 1 << 20]).unwrap();
        let mut host = Host::open(file.path(), true).unwrap();
        let error = host.write((1 << 20) - 512, &[0xEE; 1024]).unwrap_err().to_string();
        assert!(error.starts_with("keeping of 1024 bytes at byte 1048064"), "{error}");
        assert!(fs::read(file.path()).unwrap() == vec![7; 1 << 20]);
    }

    #[test]
    fn folders_and_character_devices_are_no_targets() {
        for path in ["/", "/dev/null"] {
            assert_eq!(Host::open(Path::new(path), false).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
