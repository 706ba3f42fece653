//! Files and block devices of the host: direct I/O, the monotonic clock, detection of other users of a device, and
//! restoring overwritten data.

pub use crate::holders::holders;
use crate::holders::holders_of;
use crate::node::{BLOCK_DEVICES, line, lock, number, open_same};
use crate::saved::{
    Damage, Disk, FileStore, FolderError, Identity, OtherDevice, PIECE, SavedFile, SavedFolder, SavedRanges,
    facts_of,
};
use crate::target::{Target, TargetError};
use floatgate_mtd::size::text as size;
use rustix::fs::{FallocateFlags, OFlags};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Alignment that is sufficient for direct I/O on all Linux filesystems, B.
const ALIGN: usize = 4096;
/// Minimum size of a file or device, B; nothing can be measured on a smaller one.
pub const CAPACITY_MIN: u64 = 1 << 20;
/// Maximum logical sector size, B.
const SECTOR_MAX: u64 = ALIGN as u64;

/// A file or block device.
#[derive(Debug)]
pub struct Host {
    disk: OpenDisk,
    /// Size of the file or device in bytes, before and after rounding down to whole sectors.
    length: u64,
    capacity: u64,
    sector: u64,
    is_image: bool,
    is_cached: bool,
    /// Data saved before the first write. Writes fail until a folder for this data is set.
    saved: Option<SavedRanges<FileStore>>,
    /// True if this probe created the file with saved data.
    is_own_file: bool,
    opened: Instant,
}

/// An open file or block device, and a buffer for direct I/O.
#[derive(Debug)]
struct OpenDisk {
    file: File,
    buf: Aligned,
    has_holes: bool,
}

impl Disk for OpenDisk {
    fn read_at(&mut self, position: u64, buf: &mut [u8]) -> io::Result<()> {
        let aligned = self.buf.part(buf.len());
        self.file.read_exact_at(aligned, position)?;
        buf.copy_from_slice(aligned);
        Ok(())
    }

    fn write_back(&mut self, position: u64, data: &[u8]) -> io::Result<()> {
        if self.has_holes && data.iter().all(|byte| *byte == 0) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if rustix::fs::fallocate(&self.file, flags, position, data.len() as u64).is_ok() {
                return Ok(());
            }
        }
        let aligned = self.buf.part(data.len());
        aligned.copy_from_slice(data);
        self.file.write_all_at(aligned, position)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

impl Host {
    /// Opens a file or block device, for writing too if `writes` is set. [`Self::save_in`] must be called before the
    /// first write. A block device is opened exclusively, which fails if it is mounted or part of a RAID.
    ///
    /// # Errors
    /// An error of the operating system; `InvalidInput` for a path that is neither file nor block device, or that is
    /// too small.
    pub fn open(path: &Path, writes: bool) -> io::Result<Self> {
        let before = std::fs::metadata(path)?;
        let kind = before.file_type();
        let invalid = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
        if !kind.is_file() && !kind.is_block_device() {
            return Err(invalid("neither a file nor a block device".to_owned()));
        }
        let exclusive = if kind.is_block_device() { OFlags::EXCL } else { OFlags::empty() };
        let open = |flags: OFlags| {
            let flags = (flags | exclusive).bits().cast_signed();
            let open = || OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path);
            open_same(&before, open)
        };
        let mut buf = Aligned::new();
        let direct = open(OFlags::DIRECT).and_then(|(file, node)| {
            let sector =
                if kind.is_block_device() { logical_sector(&file)? } else { direct_unit(&file, &mut buf)? };
            Ok((file, node, sector))
        });
        let (mut file, node, sector) = match direct {
            // Some filesystems do not support direct I/O.
            Err(error) if error.kind() == ErrorKind::InvalidInput && kind.is_file() => {
                let (file, node) = open(OFlags::empty())?;
                (file, node, 512)
            }
            other => other?,
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
        let sysfs = Path::new("/sys/dev/block");
        if writes && kind.is_block_device() && is_read_only(sysfs, &number(&node)) {
            return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "the device is read-only"));
        }
        let is_image = is_image(Path::new("/"), &node);
        let is_cached = kind.is_block_device() && !is_image && is_cached_loop(sysfs, &number(&node));
        let has_holes = kind.is_file() && has_hole(&file, length);
        Ok(Self {
            disk: OpenDisk { file, buf, has_holes },
            length,
            capacity: length / sector * sector,
            sector,
            is_image,
            is_cached,
            saved: None,
            is_own_file: false,
            opened: now(),
        })
    }

    /// True for a loop device that serves a simulated card through the page cache. Cached and read-ahead data then
    /// falsify its times.
    pub const fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// Number of bytes in an incomplete sector at the end, which no test accesses.
    pub const fn rest_bytes(&self) -> u64 {
        self.length - self.capacity
    }

    /// Users of the open file or block device, as [`holders`] finds them.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn holders(&self) -> io::Result<Vec<String>> {
        holders_of(&self.disk.file.metadata()?)
    }

    /// Creates a file in `folder` for saved data, and returns its path. `label` is the path of the device, for display.
    ///
    /// # Errors
    /// The file cannot be created and synced.
    pub fn save_in(&mut self, folder: &SavedFolder, label: &Path) -> Result<PathBuf, FolderError> {
        let store = folder.create(label)?;
        let path = store.path().to_owned();
        let failed = |error| FolderError::Io { path: path.clone(), error };
        let facts = facts_of(&self.disk.file).map_err(failed)?;
        let identity = Identity::of(label, self.capacity, facts, &mut self.disk);
        let saved = SavedRanges::create(store, random(), identity);
        self.saved = Some(saved.map_err(|error| {
            let _ = std::fs::remove_file(&path);
            failed(error)
        })?);
        self.is_own_file = true;
        Ok(path)
    }

    /// File in `folder` with contents of this device that an interrupted probe has not restored; `None` if the folder has none.
    ///
    /// # Errors
    /// An error of the operating system about the folder or the open device.
    pub fn unrestored_in(&mut self, folder: &Path) -> io::Result<Option<PathBuf>> {
        let facts = facts_of(&self.disk.file)?;
        for (path, opened) in SavedFolder::list(folder)? {
            let Ok(SavedFile(saved)) = opened else { continue };
            if saved.bytes() > 0 && saved.check_device(&mut self.disk, self.capacity, &facts).is_ok() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Prepares to restore from a file left by an earlier probe. Checks the file for damage first.
    ///
    /// # Errors
    /// The file belongs to another device; an error of the operating system about the open device.
    pub fn restore_from(&mut self, file: SavedFile) -> Result<(), NotThisDevice> {
        let SavedFile(mut saved) = file;
        let facts = facts_of(&self.disk.file)?;
        saved.check_device(&mut self.disk, self.capacity, &facts)?;
        saved.verify();
        self.saved = Some(saved);
        self.is_own_file = false;
        Ok(())
    }

    /// Damaged parts of the file with saved data.
    pub fn damage(&self) -> &[Damage] {
        self.saved.as_ref().map_or(&[], SavedRanges::damage)
    }

    /// Writes all saved data back, syncs the device, and deletes the file with saved data. `watch` is called with the
    /// number of bytes written so far.
    ///
    /// # Errors
    /// Ranges that could not be restored, reported after all other ranges were restored. The file is then not deleted.
    pub fn restore(&mut self, watch: impl FnMut(u64)) -> Result<(), NotRestored> {
        let Some(mut saved) = self.saved.take() else { return Ok(()) };
        let trouble = saved.restore(&mut self.disk, watch);
        let (damage, file) = (saved.damage().to_vec(), saved.store().path().to_owned());
        if trouble.first.is_some() || !damage.is_empty() {
            return Err(NotRestored { first: trouble.first, lost: trouble.lost, damage, left: None, file });
        }
        saved.remove().map_err(|error| NotRestored {
            first: None,
            lost: 0,
            damage: Vec::new(),
            left: Some(error),
            file,
        })
    }

    /// Start and length of the whole sectors that contain a range.
    const fn sectors(&self, position: u64, bytes: u64) -> (u64, u64) {
        let start = position / self.sector * self.sector;
        (start, (position + bytes).next_multiple_of(self.sector))
    }

    fn read_range(&mut self, position: u64, data: &mut [u8]) -> io::Result<u64> {
        let (start, end) = self.sectors(position, data.len() as u64);
        let aligned = self.disk.buf.part((end - start) as usize);
        let ns = timed(|| self.disk.file.read_exact_at(aligned, start))?;
        data.copy_from_slice(&aligned[(position - start) as usize..][..data.len()]);
        Ok(ns)
    }

    /// Writes a range. The other data of the sectors at its ends is read first, outside the measured time.
    fn write_range(&mut self, position: u64, data: &[u8]) -> io::Result<u64> {
        let (start, end) = self.sectors(position, data.len() as u64);
        let aligned = self.disk.buf.part((end - start) as usize);
        if end - start != data.len() as u64 {
            self.disk.file.read_exact_at(aligned, start)?;
        }
        aligned[(position - start) as usize..][..data.len()].copy_from_slice(data);
        timed(|| self.disk.file.write_all_at(aligned, start))
    }

    /// Calls `save` with the saved ranges, the device, and the whole sectors of a range.
    fn saving(
        &mut self,
        position: u64,
        bytes: u64,
        save: impl FnOnce(&mut SavedRanges<FileStore>, &mut OpenDisk, (u64, u64)) -> io::Result<()>,
    ) -> Result<(), TargetError> {
        let (start, end) = self.sectors(position, bytes);
        let saved = self.saved.as_mut().ok_or_else(|| io::Error::other("there is no file to save it in"));
        let saved = saved.and_then(|saved| save(saved, &mut self.disk, (start, end)));
        saved.map_err(|error| failed("saving", start, end - start, &error))
    }
}

impl Drop for Host {
    /// Deletes the saved file of a probe that has not overwritten anything.
    fn drop(&mut self) {
        if let Some(saved) = self.saved.as_mut().filter(|saved| saved.is_unused())
            && self.is_own_file
        {
            // Nothing was overwritten, so the device still holds the saved data.
            let _ = saved.remove();
        }
    }
}

/// Random number that distinguishes saved files: the seed of the standard library's hash maps, from the system.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8)
}

/// Reason why a device cannot be restored from a saved file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotThisDevice {
    /// The file belongs to another device.
    #[error(transparent)]
    Other(#[from] OtherDevice),
    /// The device cannot be examined.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Overwritten data that could not be restored.
#[derive(Debug, thiserror::Error)]
#[error("{}", .first.as_ref().map_or_else(|| .damage.first().map_or_else(|| "the saved file could not be deleted".to_owned(), ToString::to_string), ToString::to_string))]
pub struct NotRestored {
    /// First failure of the device.
    pub first: Option<TargetError>,
    /// Number of bytes that the device did not accept, without those of a failed flush.
    pub lost: u64,
    /// Damaged parts of the file with saved data.
    pub damage: Vec<Damage>,
    /// Error when the file with saved data was to be deleted after everything was restored.
    pub left: Option<io::Error>,
    /// Path of the file with saved data.
    pub file: PathBuf,
}

/// Logical sector size of a block device, B.
fn logical_sector(file: &File) -> io::Result<u64> {
    let bytes = u64::from(rustix::fs::ioctl_blksszget(file)?);
    let is_usual = bytes.is_power_of_two() && (512..=SECTOR_MAX).contains(&bytes);
    if is_usual { Ok(bytes) } else { Err(io::Error::other(format!("it has sectors of {bytes} B"))) }
}

/// Smallest unit of direct I/O on a file, B: the unit that the disk below its filesystem requires.
fn direct_unit(file: &File, buf: &mut Aligned) -> io::Result<u64> {
    match file.read_at(buf.part(512), 512) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            file.read_at(buf.part(SECTOR_MAX as usize), SECTOR_MAX).map(|_| SECTOR_MAX)
        }
        other => other.map(|_| 512),
    }
}

/// True for a file with holes. Some filesystems report only the hole at the end of each file.
fn has_hole(file: &File, length: u64) -> bool {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0)).is_ok_and(|hole| hole < length)
}

/// True for a file, and for a loop device backed by a file. A file served by `floatgate serve` has the times of the
/// simulated card and is not an image.
fn is_image(root: &Path, metadata: &Metadata) -> bool {
    if metadata.is_file() {
        let mounts = std::fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let device = metadata.dev();
        return !is_served_card(
            &mounts,
            &format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)),
        );
    }
    let device = root.join(BLOCK_DEVICES).join(number(metadata));
    let below =
        ["loop/backing_file", "../loop/backing_file"].into_iter().find_map(|file| line(&device.join(file)));
    // A backing file that was deleted, or that is in another mount namespace, has no path here.
    below.is_some_and(|below| Path::new(&below).metadata().map_or(true, |below| is_image(root, &below)))
}

/// True if the mount of a device number belongs to `floatgate serve` (proc(5), mountinfo: type and source follow a
/// dash). A mount by root has no subtype, as fusermount adds it.
fn is_served_card(mountinfo: &str, device: &str) -> bool {
    let is_card =
        |source: &str| ["fuse.floatgate card ", "fuse card "].iter().any(|own| source.starts_with(own));
    let is_it = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        Some(mount.split(' ').nth(2)? == device && is_card(source))
    };
    mountinfo.lines().any(|line| is_it(line) == Some(true))
}

fn failed(operation: &'static str, position: u64, bytes: u64, error: &io::Error) -> TargetError {
    TargetError { operation, position, bytes, reason: error.to_string() }
}

#[expect(clippy::disallowed_methods, reason = "the edge: this is the clock of real devices")]
fn now() -> Instant {
    Instant::now()
}

/// Time elapsed since `start`, ns.
fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(now().duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}

fn timed(request: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
    let start = now();
    request()?;
    Ok(elapsed_ns(start))
}

impl Target for Host {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn sector_bytes(&self) -> u64 {
        self.sector
    }

    fn is_image(&self) -> bool {
        self.is_image
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        self.read_range(position, buf).map_err(|error| failed("read", position, buf.len() as u64, &error))
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        let bytes = data.len() as u64;
        self.saving(position, bytes, |saved, disk, (start, end)| saved.prepare(disk, start, end))?;
        self.write_range(position, data).map_err(|error| failed("write", position, bytes, &error))
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        timed(|| self.disk.file.sync_data()).map_err(|error| failed("flush", 0, 0, &error))
    }

    fn idle(&mut self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }

    fn clock_ns(&self) -> u64 {
        elapsed_ns(self.opened)
    }

    fn keep(&mut self, position: u64, bytes: u64) -> Result<(), TargetError> {
        self.saving(position, bytes, |saved, disk, (start, end)| saved.save(disk, start, end))
    }

    fn kept_bytes(&self) -> u64 {
        self.saved.as_ref().map_or(0, SavedRanges::bytes)
    }
}

/// Memory that is aligned for direct I/O.
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

    /// The first bytes of the buffer; requests are at most [`PIECE`] long, plus a partial sector at both ends.
    fn part(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + len]
    }
}

/// True if the kernel forbids writes to a block device.
fn is_read_only(sysfs: &Path, number: &str) -> bool {
    line(&sysfs.join(number).join("ro")).is_some_and(|ro| ro == "1")
}

/// True for a loop device without direct I/O, or a partition of one.
fn is_cached_loop(sysfs: &Path, number: &str) -> bool {
    let device = sysfs.join(number);
    let direct = ["loop/dio", "../loop/dio"].into_iter().find_map(|file| line(&device.join(file)));
    direct.is_some_and(|direct| direct == "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::put;
    use std::fs;

    #[test]
    fn a_served_card_is_no_image() {
        let mounts = "22 1 179:2 / / rw - ext4 /dev/root rw\n40 22 0:50 / /mnt rw,nosuid - fuse.floatgate card rw\n\
                      41 22 0:51 / /image rw - fuse.floatgate flash.ubi rw\n42 22 0:52 / /ntfs rw - fuseblk card rw\n\
                      43 22 0:53 / /root rw - fuse card rw\n";
        assert!(is_served_card(mounts, "0:50") && is_served_card(mounts, "0:53"));
        for other in ["179:2", "0:51", "0:52", "0:5"] {
            assert!(!is_served_card(mounts, other), "{other}");
        }
    }

    #[test]
    fn loop_devices_with_a_page_cache_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| put(root.path(), path, text);
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

    /// Opens a file for writing, and saves its data in a folder.
    fn opened(path: &Path, folder: &tempfile::TempDir) -> (Host, PathBuf) {
        let mut host = Host::open(path, true).unwrap();
        // Test folders may be in memory.
        let saved = host.save_in(&SavedFolder::open_any(folder.path()).unwrap(), path).unwrap();
        (host, saved)
    }

    #[test]
    fn what_was_overwritten_is_restored_from_its_first_contents() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 512 + 1) as u8).collect();
        fs::write(file.path(), &before).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (mut host, saved) = opened(file.path(), &folder);
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
        assert!(!saved.exists());
    }

    #[test]
    fn what_a_probe_left_behind_is_restored_to_its_device_alone() {
        let (file, other) =
            (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let before: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 512 + 1) as u8).collect();
        for path in [file.path(), other.path()] {
            fs::write(path, &before).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let (mut host, saved) = opened(file.path(), &folder);
        host.write(1024, &[0xEE; 4096]).unwrap();
        drop(host);
        assert!(saved.exists(), "a range was overwritten");
        let restore = |path: &Path| {
            let mut host = Host::open(path, true).unwrap();
            host.restore_from(SavedFile::open(&saved).unwrap()).map_err(|error| error.to_string())?;
            host.restore(|_| ()).map_err(|error| error.to_string())
        };
        let refused = restore(other.path()).unwrap_err();
        assert!(refused.starts_with("the contents were saved from a device with inode"), "{refused}");
        assert_eq!(fs::read(other.path()).unwrap(), before);
        // The same file, with changed contents where the probe overwrote nothing.
        file.as_file().write_all_at(&[3; 512 << 10], 1 << 19).unwrap();
        let refused = restore(file.path()).unwrap_err();
        assert!(refused.contains("it is another device, or was changed"), "{refused}");
        file.as_file().write_all_at(&before[1 << 19..], 1 << 19).unwrap();
        restore(file.path()).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), before);
        assert!(!saved.exists());
    }

    #[test]
    fn a_probe_that_overwrites_nothing_leaves_no_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![7; 1 << 20]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (mut host, saved) = opened(file.path(), &folder);
        host.keep(0, 4096).unwrap();
        assert!(saved.exists());
        drop(host);
        assert!(!saved.exists());
        // Without a folder for saved data, nothing is overwritten.
        let error = Host::open(file.path(), true).unwrap().write(0, &[1; 512]).unwrap_err().to_string();
        assert!(error.contains("there is no file to save it in"), "{error}");
        assert!(fs::read(file.path()).unwrap() == vec![7; 1 << 20]);
    }

    #[test]
    fn a_name_that_changes_hands_is_noticed() {
        let (one, other) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let before = one.path().metadata().unwrap();
        assert!(open_same(&before, || File::open(one.path())).is_ok());
        assert!(open_same(&before, || File::open(other.path())).is_err());
    }

    #[test]
    fn holes_are_restored_as_holes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        file.as_file().write_all_at(&[7; 8192], 1 << 20).unwrap();
        let (before, blocks) = (fs::read(file.path()).unwrap(), file.as_file().metadata().unwrap().blocks());
        let folder = tempfile::tempdir().unwrap();
        let (mut host, _) = opened(file.path(), &folder);
        // Some filesystems have no holes, and others do not report them.
        if !host.disk.has_holes {
            return;
        }
        host.write(2 << 20, &[0xEE; 1 << 16]).unwrap();
        host.write((1 << 20) + 4096, &[0xEE; 8192]).unwrap();
        host.restore(|_| ()).unwrap();
        assert!(fs::read(file.path()).unwrap() == before);
        assert!(file.as_file().metadata().unwrap().blocks() <= blocks + 8, "{blocks}");
    }

    #[test]
    fn what_cannot_be_saved_is_not_overwritten() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![7; 1 << 20]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (mut host, _) = opened(file.path(), &folder);
        let error = host.write((1 << 20) - 512, &[0xEE; 1024]).unwrap_err().to_string();
        assert!(error.starts_with("saving of 1024 bytes at byte 1048064"), "{error}");
        assert!(fs::read(file.path()).unwrap() == vec![7; 1 << 20]);
    }

    #[test]
    fn folders_and_character_devices_are_no_targets() {
        for path in ["/", "/dev/null"] {
            assert_eq!(Host::open(Path::new(path), false).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
