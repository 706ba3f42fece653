//! Folder for files with saved data, and such a file as a [`Store`].

use super::{BadSaved, Damage, Fact, SavedRanges, Store};
use crate::node::{is_memory_filesystem, lock};
use floatgate_mtd::size::text as size;
use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, fstatfs, fstatvfs, major, minor};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File name extension of saved files.
const ENDING: &str = "saved";
/// Maximum number of saved files of one device in a folder.
const FILES_MAX: u32 = 1000;

/// Reason why a folder cannot hold saved files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder cannot be created, opened or written to.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The folder is in memory, and its files would be lost with power.
    #[error("{}: {reason}, so that a loss of power would lose the saved contents", .path.display())]
    Memory {
        /// Path of the folder.
        path: PathBuf,
        /// Kind of in-memory filesystem.
        reason: &'static str,
    },
    /// The filesystem is read-only.
    #[error("{}: the filesystem is read-only", .path.display())]
    ReadOnly {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The filesystem is full.
    #[error("{}: up to {} are saved before they are overwritten, and {} are free", .path.display(), size(*.needed), size(*.free))]
    NoRoom {
        /// Path of the folder.
        path: PathBuf,
        /// Required space, B.
        needed: u64,
        /// Free space, B.
        free: u64,
    },
}

/// A folder for saved files, on a filesystem that survives a power loss.
#[derive(Debug)]
pub struct SavedFolder {
    path: PathBuf,
    folder: File,
}

impl SavedFolder {
    /// Folder according to the XDG Base Directory Specification: `floatgate` below `$XDG_STATE_HOME`, by default below
    /// `~/.local/state`. `None` if neither that variable nor `$HOME` is an absolute path.
    pub fn default_path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME");
        Some(state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?.join("floatgate"))
    }

    /// Opens a folder, or creates it.
    ///
    /// # Errors
    /// The folder cannot be created or opened, or is in memory or on a read-only filesystem.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let opened = Self::open_any(path)?;
        let failed =
            |error: rustix::io::Errno| FolderError::Io { path: path.to_owned(), error: error.into() };
        if fstatvfs(&opened.folder).map_err(failed)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(FolderError::ReadOnly { path: path.to_owned() });
        }
        match memory(&opened.folder) {
            Some(reason) => Err(FolderError::Memory { path: path.to_owned(), reason }),
            None => Ok(opened),
        }
    }

    /// Opens a folder as [`Self::open`], without a check of the filesystem.
    pub(crate) fn open_any(path: &Path) -> Result<Self, FolderError> {
        let open = || {
            make(path)?;
            let folder = File::open(path)?;
            let is_folder = folder.metadata()?.is_dir();
            if is_folder { Ok(folder) } else { Err(io::Error::from(ErrorKind::NotADirectory)) }
        };
        match open() {
            Ok(folder) => Ok(Self { path: path.to_owned(), folder }),
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
                Err(FolderError::ReadOnly { path: path.to_owned() })
            }
            Err(error) => Err(FolderError::Io { path: path.to_owned(), error }),
        }
    }

    /// Checks that the filesystem has room for `bytes` of saved data.
    ///
    /// # Errors
    /// Too little space, or an error of the system.
    pub fn check_room(&self, bytes: u64) -> Result<(), FolderError> {
        let failed =
            |error: rustix::io::Errno| FolderError::Io { path: self.path.clone(), error: error.into() };
        let found = fstatvfs(&self.folder).map_err(failed)?;
        // In addition to the data, range headers and blocks of the filesystem need space.
        let needed = bytes.saturating_add(bytes / 16).saturating_add(1 << 20);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        // Some filesystems do not report their size.
        if found.f_blocks > 0 && free < needed {
            return Err(FolderError::NoRoom { path: self.path.clone(), needed, free });
        }
        Ok(())
    }

    /// Creates a file that only its owner can read. Its unused name begins with the device's name. The file is locked
    /// while it is open.
    pub(crate) fn create(&self, device: &Path) -> Result<FileStore, FolderError> {
        let failed = |path: &Path, error| FolderError::Io { path: path.to_owned(), error };
        let device = device.file_name().unwrap_or_default().to_string_lossy();
        for number in 1..=FILES_MAX {
            let path = self.path.join(format!("{device}-{number}.{ENDING}"));
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
                Ok(file) => {
                    // A process that lists the folder may hold the lock briefly. Some network filesystems do not
                    // support locks.
                    let _ = flock(&file, FlockOperation::LockExclusive);
                    let folder = self.folder.try_clone().map_err(|error| failed(&path, error))?;
                    return Ok(FileStore { file, path, folder });
                }
            }
        }
        Err(failed(&self.path, io::Error::other("it has too many saved files of this device")))
    }

    /// Saved files in a folder, sorted by name, each with its contents or the reason why it cannot be used. Empty if
    /// the folder does not exist.
    ///
    /// # Errors
    /// An error of the system about the folder.
    pub fn list(path: &Path) -> io::Result<Vec<(PathBuf, Result<SavedFile, BadSaved>)>> {
        let entries = match std::fs::read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == ENDING));
        paths.sort();
        Ok(paths.into_iter().map(|path| (path.clone(), SavedFile::open(&path))).collect())
    }
}

/// Creates a folder and its parents, accessible only by the owner, and syncs the new names.
fn make(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    for folder in missing.into_iter().filter_map(Path::parent) {
        sync_folder(&File::open(folder)?)?;
    }
    Ok(())
}

/// Syncs the names in a folder, if its filesystem supports it.
fn sync_folder(folder: &File) -> io::Result<()> {
    match folder.sync_all() {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

/// `f_type` of overlayfs (statfs(2)).
const OVERLAY: u64 = 0x794C_7630;

/// Reason why files in the folder are in memory; `None` if they are on disk.
fn memory(folder: &File) -> Option<&'static str> {
    let kind = fstatfs(folder).map_or(0, |found| found.f_type as u64);
    if is_memory_filesystem(kind) {
        return Some("it is on a filesystem in memory");
    }
    let device = folder.metadata().ok()?.dev();
    let number = format!("{}:{}", major(device), minor(device));
    if kind == OVERLAY {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let upper = File::open(upper_folder(&mounts, &number)?).ok()?;
        let is_memory = fstatfs(&upper).is_ok_and(|found| is_memory_filesystem(found.f_type as u64));
        return is_memory.then_some("it is on an overlay whose changes are in memory");
    }
    let disk = Path::new("/sys/dev/block").join(number).canonicalize().ok()?;
    let name = disk.file_name()?.to_str()?;
    let is_memory = ["ram", "zram"].iter().any(|kind| {
        name.strip_prefix(kind).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    is_memory.then_some("it is on a block device in memory")
}

/// Upper folder of an overlay, which contains its changes (proc(5), mountinfo: the third field is the device, the last
/// field contains the options of the superblock).
fn upper_folder(mountinfo: &str, number: &str) -> Option<PathBuf> {
    let line = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(number))?;
    let options = line.rsplit(' ').next()?;
    options.split(',').find_map(|option| option.strip_prefix("upperdir=")).map(PathBuf::from)
}

/// An open file with saved ranges.
#[derive(Debug)]
pub(crate) struct FileStore {
    file: File,
    path: PathBuf,
    folder: File,
}

impl FileStore {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Store for FileStore {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, at)
    }

    fn write_at(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(data, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn sync_name(&mut self) -> io::Result<()> {
        sync_folder(&self.folder)
    }

    fn remove(&mut self) -> io::Result<()> {
        std::fs::remove_file(&self.path)?;
        sync_folder(&self.folder)
    }
}

/// A file with saved data that an earlier probe left. It is locked while it is open.
#[derive(Debug)]
pub struct SavedFile(pub(crate) SavedRanges<FileStore>);

impl SavedFile {
    /// Opens a file and reads the headers of its ranges.
    ///
    /// # Errors
    /// The file cannot be read, is used by another process, is not a file with saved data, has another version, or has
    /// a damaged header.
    pub fn open(path: &Path) -> Result<Self, BadSaved> {
        if !path.metadata()?.is_file() {
            return Err(BadSaved::Foreign);
        }
        let file = File::open(path)?;
        lock(&file).map_err(|_| BadSaved::InUse)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = File::open(parent.unwrap_or(Path::new(".")))?;
        Ok(Self(SavedRanges::open(FileStore { file, path: path.to_owned(), folder })?))
    }

    /// Reads all saved data and records damage.
    pub fn verify(&mut self) {
        self.0.verify();
    }

    /// Path of the device when its data was saved.
    pub fn label(&self) -> &str {
        self.0.label()
    }

    /// Size of the device in bytes.
    pub fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    /// Properties that identify the device.
    pub fn facts(&self) -> &[Fact] {
        self.0.facts()
    }

    /// Number of saved bytes that can be restored.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Ranges that cannot be restored.
    pub fn damage(&self) -> &[Damage] {
        self.0.damage()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_folder_is_below_the_state_of_the_user() {
        let path = |variables: &[(&str, &str)]| {
            let variables: Vec<(String, OsString)> =
                variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
            let find = |name: &str| {
                variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            };
            SavedFolder::default_path(find)
        };
        let state = ("XDG_STATE_HOME", "/var/state");
        assert_eq!(path(&[state, ("HOME", "/home/me")]).unwrap(), Path::new("/var/state/floatgate"));
        assert_eq!(path(&[("HOME", "/home/me")]).unwrap(), Path::new("/home/me/.local/state/floatgate"));
        // The XDG specification requires that relative paths are ignored.
        assert_eq!(
            path(&[("XDG_STATE_HOME", "state"), ("HOME", "/root")]).unwrap(),
            Path::new("/root/.local/state/floatgate")
        );
        assert_eq!(path(&[("HOME", "")]), None);
    }

    #[test]
    fn files_are_for_their_owner_and_have_free_names() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b");
        let folder = SavedFolder::open_any(&path).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&place.path().join("a"))), (0o700, 0o700));
        let first = folder.create(Path::new("/dev/sdb")).unwrap();
        let second = folder.create(Path::new("/dev/sdb")).unwrap();
        assert_eq!((first.path(), second.path()), (&*path.join("sdb-1.saved"), &*path.join("sdb-2.saved")));
        assert_eq!(mode(first.path()), 0o600);
        assert!(matches!(SavedFile::open(first.path()), Err(BadSaved::InUse)));
        assert!(SavedFolder::list(&place.path().join("none")).unwrap().is_empty());
        assert_eq!(SavedFolder::list(&path).unwrap().len(), 2);
    }

    #[test]
    fn folders_in_memory_and_full_ones_are_refused() {
        if Path::new("/dev/shm").is_dir() && File::open("/dev/shm").is_ok_and(|shm| memory(&shm).is_some()) {
            let place = tempfile::tempdir_in("/dev/shm").unwrap();
            let refused = SavedFolder::open(place.path()).unwrap_err().to_string();
            assert!(refused.contains("a loss of power would lose the saved contents"), "{refused}");
        }
        let place = tempfile::tempdir().unwrap();
        let folder = SavedFolder::open_any(place.path()).unwrap();
        folder.check_room(0).unwrap();
        let refused = folder.check_room(1 << 60).unwrap_err().to_string();
        assert!(refused.contains("are saved before they are overwritten"), "{refused}");
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(SavedFolder::open(&file), Err(FolderError::Io { .. })));
    }

    #[test]
    fn the_upper_folder_of_an_overlay_is_found() {
        let mountinfo = "25 1 0:22 / / rw,relatime - overlay overlay rw,lowerdir=/run/rootfs,upperdir=/run/overlay/rw,workdir=/run/work\n\
            26 25 0:5 / /dev rw - devtmpfs udev rw\n";
        assert_eq!(upper_folder(mountinfo, "0:22").unwrap(), Path::new("/run/overlay/rw"));
        assert_eq!(upper_folder(mountinfo, "0:5"), None);
    }
}
