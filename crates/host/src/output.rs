//! Files that commands write: each file is written completely, or its old content is preserved.
//!
//! A regular file is written as an unnamed file in the folder of its target, or under a temporary name if the host does
//! not support unnamed files. It is then synced and renamed. A device or a pipe is never replaced: it receives the
//! bytes immediately ([`Output::stream`]) or when they are complete ([`Output::create`]). Temporary files are removed
//! when an [`Output`] is dropped, and by [`remove_unfinished`] when a signal ends the process.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::open::open_to_write;
pub use crate::output_error::{OutputError, is_stdout};

/// Permissions of a new file, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Mode bits that `chmod` can set.
const PERMISSION_BITS: u32 = 0o7777;

/// Temporary files that currently exist.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Destination of the bytes of an output before and after it is complete.
#[derive(Debug)]
enum Destination {
    /// A temporary file that is renamed to `target`. The file that it replaces is locked until then.
    Renamed { temporary: Temporary, target: PathBuf, _replaced: Option<File> },
    /// A temporary file that is copied to a device or a pipe.
    Copied { temporary: Temporary, device: File },
    /// The device, the pipe or stdout itself.
    Direct,
}

/// A file that is being written. [`finish`](Self::finish) moves it to its target. If it is dropped earlier, the
/// temporary file is removed.
#[derive(Debug)]
pub struct Output {
    /// Path as given by the user.
    name: PathBuf,
    file: File,
    place: Destination,
}

impl Output {
    /// Creates an output with random access. Its path must differ from all `inputs`.
    ///
    /// # Errors
    /// The path is a directory or an input, or an error of the host.
    pub fn create(path: &Path, inputs: &[&Path]) -> Result<Self, OutputError> {
        if is_stdout(path) {
            return Err(OutputError::NoStream);
        }
        check_inputs(path, inputs)?;
        if let Some(metadata) = special(path)? {
            let device = open_special(path, &metadata)?;
            let (temporary, file) =
                Temporary::new(&std::env::temp_dir(), None).map_err(OutputError::host(path))?;
            return Ok(Self {
                name: path.to_owned(),
                file,
                place: Destination::Copied { temporary, device },
            });
        }
        Self::beside(path, true)
    }

    /// Creates a file that replaces a file whose lock the caller holds.
    ///
    /// # Errors
    /// An error of the host.
    pub fn replace(path: &Path) -> Result<Self, OutputError> {
        Self::beside(path, false)
    }

    /// Creates an output that is written sequentially; `-` is stdout.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create), or stdout is a terminal.
    pub fn stream(path: &Path, inputs: &[&Path]) -> Result<Self, OutputError> {
        if is_stdout(path) {
            let stdout = Self::stdout()?;
            return if stdout.file.is_terminal() { Err(OutputError::Terminal) } else { Ok(stdout) };
        }
        check_inputs(path, inputs)?;
        if let Some(metadata) = special(path)? {
            let file = open_special(path, &metadata)?;
            return Ok(Self { name: path.to_owned(), file, place: Destination::Direct });
        }
        Self::beside(path, true)
    }

    /// Unbuffered stdout: a failure is reported by the write itself and is not lost at the end of the process.
    ///
    /// # Errors
    /// The host cannot duplicate the descriptor.
    pub fn stdout() -> Result<Self, OutputError> {
        let path = Path::new("-");
        #[expect(clippy::disallowed_methods, reason = "the one writer of stdout")]
        let stdout = rustix::io::dup(io::stdout()).map_err(|error| OutputError::host(path)(error.into()))?;
        Ok(Self { name: path.to_owned(), file: stdout.into(), place: Destination::Direct })
    }

    /// Creates a temporary file in the folder of the target. For a symbolic link, the target of the link is replaced.
    fn beside(path: &Path, lock: bool) -> Result<Self, OutputError> {
        let target = match path.canonicalize() {
            Ok(target) => target,
            Err(_) if path.is_symlink() => return Err(OutputError::Dangling(path.to_owned())),
            Err(_) => path.to_owned(),
        };
        let replaced = if lock { lock_shared(path, &target)? } else { None };
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if std::fs::metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(OutputError::NoFolder { path: path.to_owned(), folder: folder.to_owned() });
        }
        let old = std::fs::metadata(&target).ok();
        let (temporary, file) = Temporary::new(folder, old.as_ref()).map_err(OutputError::host(path))?;
        Ok(Self {
            name: path.to_owned(),
            file,
            place: Destination::Renamed { temporary, target, _replaced: replaced },
        })
    }

    /// Path as given by the user.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// File for writing; after [`create`](Self::create) also for reading.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Path of the temporary file with the bytes written so far, valid during the lifetime of this value.
    pub fn temporary(&self) -> &Path {
        match &self.place {
            Destination::Renamed { temporary, .. } | Destination::Copied { temporary, .. } => &temporary.path,
            Destination::Direct => &self.name,
        }
    }

    /// Folder of the temporary file, in which further temporary files can be created.
    pub fn folder(&self) -> &Path {
        match &self.place {
            Destination::Renamed { temporary, .. } | Destination::Copied { temporary, .. } => {
                &temporary.folder
            }
            Destination::Direct => Path::new("."),
        }
    }

    /// Converts a host failure to an error with the path of this output.
    pub fn failed(&self, error: io::Error) -> OutputError {
        OutputError::host(&self.name)(error)
    }

    /// Syncs the complete file and moves it to its target.
    ///
    /// # Errors
    /// An error of the host; an existing file is then unchanged.
    pub fn finish(self) -> Result<(), OutputError> {
        let Self { name, mut file, place } = self;
        if let Destination::Copied { device, .. } = &place {
            check_room(&name, &file, device)?;
        }
        let done = match place {
            Destination::Renamed { temporary, target, _replaced } => file
                .sync_all()
                .and_then(|()| temporary.rename_to(&target))
                .and_then(|()| sync_folder(&target)),
            Destination::Copied { temporary, mut device } => file
                .seek(SeekFrom::Start(0))
                .and_then(|_| io::copy(&mut file, &mut device))
                .and_then(|_| sync_special(&device))
                .map(|()| drop(temporary)),
            Destination::Direct => sync_special(&file),
        };
        done.map_err(OutputError::host(&name))
    }
}

/// True after a write to an [`Output`] failed because the pipe was closed. The error itself can be converted to other
/// types before it reaches `main`.
static READER_LEFT: AtomicBool = AtomicBool::new(false);

/// True if an output is incomplete because its reader closed the pipe (`| head`).
pub fn reader_left() -> bool {
    READER_LEFT.load(Ordering::Relaxed)
}

impl Write for Output {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.file.write(data);
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            READER_LEFT.store(true, Ordering::Relaxed);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a whole file.
///
/// # Errors
/// The errors of [`Output::stream`] and [`Output::finish`].
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let mut output = Output::stream(path, &[])?;
    output.write_all(bytes).map_err(OutputError::host(path))?;
    output.finish()
}

/// Copies a whole file to an empty one and preserves holes, so that a sparse image does not grow.
///
/// # Errors
/// An error of the host.
pub fn copy_sparse(mut source: &File, mut target: &File) -> io::Result<()> {
    let len = source.seek(SeekFrom::End(0))?;
    target.set_len(len)?;
    let mut end = 0;
    while end < len {
        let start = seek_in(source, rustix::fs::SeekFrom::Data(end))?.unwrap_or(end);
        end = seek_in(source, rustix::fs::SeekFrom::Hole(start))?.unwrap_or(len);
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut source.take(end - start), &mut target)?;
    }
    Ok(())
}

/// Position of the next data or hole of a file, or its end; `None` if the file does not support holes, such as a block
/// device.
fn seek_in(file: &File, from: rustix::fs::SeekFrom) -> io::Result<Option<u64>> {
    use rustix::io::Errno;
    match rustix::fs::seek(file, from) {
        Ok(position) => Ok(Some(position)),
        Err(Errno::NXIO) => Ok(Some(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?)),
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reserves disk space for a range of a file without changing its length, so that later writes do not fail on a full
/// disk. Does nothing if the host cannot reserve space.
///
/// # Errors
/// The disk or quota is full, or the range exceeds the maximum file size.
pub fn reserve(file: &File, range: &std::ops::Range<u64>) -> io::Result<()> {
    use rustix::io::Errno;
    let len = range.end - range.start;
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, range.start, len) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes the temporary files of all incomplete outputs, before the process ends.
pub fn remove_unfinished() {
    // The lock is never released, so that no output begins or ends from now on.
    let mut unfinished = unfinished();
    while let Some(path) = unfinished.pop_first() {
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(unfinished);
}

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file. A named one is removed on drop; an unnamed one disappears in any case when the process ends.
#[derive(Debug)]
struct Temporary {
    /// Path of the file, or of its descriptor in `/proc`.
    path: PathBuf,
    folder: PathBuf,
    has_name: bool,
}

/// The error without the name of a temporary file, which has no meaning for the user.
fn without_path(error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() { error } else { error.kind().into() }
}

/// Pattern of temporary names.
fn names<'n>() -> tempfile::Builder<'n, 'n> {
    let mut names = tempfile::Builder::new();
    names.prefix(".floatgate.").suffix(".tmp").disable_cleanup(true);
    names
}

impl Temporary {
    /// Creates a file with the permissions and, if permitted, the owner of the file that it replaces.
    fn new(folder: &Path, old: Option<&Metadata>) -> io::Result<(Self, File)> {
        let (temporary, file) = Self::without_name(folder).map_or_else(|| Self::with_name(folder), Ok)?;
        if let Some(old) = old {
            let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(std::fs::Permissions::from_mode(old.mode() & PERMISSION_BITS))?;
        }
        Ok((temporary, file))
    }

    /// Creates an unnamed file; `None` unless the filesystem supports it and `/proc` can give it a name later.
    fn without_name(folder: &Path) -> Option<(Self, File)> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(NEW_FILE_MODE)).ok()?);
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        path.exists().then(|| (Self { path, folder: folder.to_owned(), has_name: false }, file))
    }

    fn with_name(folder: &Path) -> io::Result<(Self, File)> {
        let mut unfinished = unfinished();
        let permissions = std::fs::Permissions::from_mode(NEW_FILE_MODE);
        let made = names().permissions(permissions).tempfile_in(folder).map_err(without_path);
        let (file, path) = made?.into_parts();
        let path = path.to_path_buf();
        unfinished.insert(path.clone());
        Ok((Self { path, folder: folder.to_owned(), has_name: true }, file))
    }

    /// Renames the file to its target. An unnamed file first gets a temporary name, because only a rename can replace a
    /// file.
    fn rename_to(&self, target: &Path) -> io::Result<()> {
        // The lock is held, so that no signal ends the process between the two steps.
        let mut unfinished = unfinished();
        if self.has_name {
            std::fs::rename(&self.path, target)?;
            unfinished.remove(&self.path);
            return Ok(());
        }
        let link = |name: &Path| {
            use rustix::fs::{AtFlags, CWD, linkat};
            Ok(linkat(CWD, &self.path, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
        };
        let ((), name) = names().make_in(&self.folder, link).map_err(without_path)?.into_parts();
        std::fs::rename(&name, target).inspect_err(|_| {
            let _ = std::fs::remove_file(&name);
        })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if unfinished().remove(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Metadata of a device, a pipe or a socket; `None` for a regular file or an unused path.
fn special(path: &Path) -> Result<Option<Metadata>, OutputError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(OutputError::Folder(path.to_owned())),
        Ok(metadata) if !metadata.is_file() => Ok(Some(metadata)),
        _ => Ok(None),
    }
}

/// Rejects a block device that is smaller than the output. The size of other devices is unknown.
fn check_room(name: &Path, mut file: &File, mut device: &File) -> Result<(), OutputError> {
    if !device.metadata().map_err(OutputError::host(name))?.file_type().is_block_device() {
        return Ok(());
    }
    let needed = file.seek(SeekFrom::End(0)).map_err(OutputError::host(name))?;
    let room = device.seek(SeekFrom::End(0)).map_err(OutputError::host(name))?;
    device.rewind().map_err(OutputError::host(name))?;
    if needed > room {
        return Err(OutputError::DeviceTooSmall { path: name.to_owned(), room, needed });
    }
    Ok(())
}

/// Locks a file that is to be replaced, so that other processes do not change it. A file that can be replaced but not
/// opened is not locked.
fn lock_shared(name: &Path, target: &Path) -> Result<Option<File>, OutputError> {
    let Ok(file) = File::open(target) else { return Ok(None) };
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OutputError::InUse(name.to_owned())),
        // Some network filesystems do not support locks.
        _ => Ok(Some(file)),
    }
}

/// Opens a device for writing, and checks that it is still the same device.
fn open_special(path: &Path, metadata: &Metadata) -> Result<File, OutputError> {
    let file = open_to_write(path).map_err(OutputError::host(path))?;
    let opened = file.metadata().map_err(OutputError::host(path))?;
    if (opened.dev(), opened.ino()) == (metadata.dev(), metadata.ino()) {
        return Ok(file);
    }
    Err(OutputError::host(path)(io::Error::other("it is another file now")))
}

/// Syncs data written to a device; pipes and character devices cannot be synced.
fn sync_special(file: &File) -> io::Result<()> {
    match rustix::fs::fsync(file) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::ROFS | rustix::io::Errno::NOTSUP) | Ok(()) => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Syncs the folder of a new file. Some filesystems do not support this.
fn sync_folder(target: &Path) -> io::Result<()> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn check_inputs(path: &Path, inputs: &[&Path]) -> Result<(), OutputError> {
    match inputs.iter().find(|input| is_same_file(input, path)) {
        Some(input) => Err(OutputError::SameFile { output: path.to_owned(), input: (*input).to_owned() }),
        None => Ok(()),
    }
}

/// True if two paths refer to the same file or block device, or one path to a loop device backed by the other.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    contents(one).is_some_and(|one| Some(one) == contents(other))
}

/// Identity of the file or block device at a path. A loop device has the identity of its backing file.
fn contents(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    if !found.file_type().is_block_device() {
        return found.is_file().then(|| (found.dev(), found.ino()));
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let below = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/loop/backing_file"));
    let below = below.ok().and_then(|file| std::fs::metadata(file.trim_end_matches('\n')).ok());
    // The pair is unique for a block device, because no file has inode number 0.
    Some(below.map_or((found.rdev(), 0), |file| (file.dev(), file.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_copy_has_the_holes_of_the_file() {
        let [mut source, mut target] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        for (at, data) in [(0, b"head"), (16 << 20, b"body")] {
            source.seek(SeekFrom::Start(at)).unwrap();
            source.write_all(data).unwrap();
        }
        source.set_len(64 << 20).unwrap();
        copy_sparse(&source, &target).unwrap();
        let bytes = |file: &mut File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        assert!(bytes(&mut source) == bytes(&mut target));
        assert_eq!(source.metadata().unwrap().blocks(), target.metadata().unwrap().blocks());
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("image");
        std::fs::write(&target, "old").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("image", &link).unwrap();
        let mut output = Output::stream(&link, &[]).unwrap();
        output.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        output.finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&target).unwrap().mode() & PERMISSION_BITS, 0o640);
        assert_eq!(names(folder.path()), ["image", "link"]);
        assert!(link.is_symlink(), "the link is not replaced");
    }

    #[test]
    fn an_output_that_is_not_finished_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("image");
        std::fs::write(&target, "old").unwrap();
        let mut output = Output::create(&target, &[]).unwrap();
        output.write_all(b"half").unwrap();
        assert_eq!(names(folder.path()), ["image"], "the new one has no name yet");
        drop(output);
        assert_eq!(names(folder.path()), ["image"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
    }

    /// On hosts without unnamed files, the temporary name is removed.
    #[test]
    fn a_temporary_name_is_gone_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("image");
        for keeps in [true, false] {
            let (temporary, mut file) = Temporary::with_name(folder.path()).unwrap();
            assert_eq!(names(folder.path()).len(), if keeps { 1 } else { 2 });
            file.write_all(b"new").unwrap();
            if keeps {
                temporary.rename_to(&target).unwrap();
            }
            drop(temporary);
            assert_eq!(names(folder.path()), ["image"]);
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn inputs_folders_and_dangling_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (input, hard, dangling) =
            (folder.path().join("input"), folder.path().join("hard"), folder.path().join("dangling"));
        std::fs::write(&input, "data").unwrap();
        std::fs::hard_link(&input, &hard).unwrap();
        std::os::unix::fs::symlink("nothing", &dangling).unwrap();
        assert!(matches!(Output::create(&hard, &[&input]), Err(OutputError::SameFile { .. })));
        assert!(matches!(Output::create(folder.path(), &[&input]), Err(OutputError::Folder(_))));
        assert!(matches!(Output::create(&dangling, &[&input]), Err(OutputError::Dangling(_))));
    }

    #[test]
    fn a_file_that_somebody_changes_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("image");
        std::fs::write(&target, "old").unwrap();
        let changed = File::open(&target).unwrap();
        rustix::fs::flock(&changed, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(matches!(Output::create(&target, &[]), Err(OutputError::InUse(_))));
        assert!(matches!(Output::stream(&target, &[]), Err(OutputError::InUse(_))));
        Output::replace(&target).unwrap().finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
        // The new file has no name.
        let output = Output::create(&target, &[]).unwrap();
        let late = rustix::fs::flock(
            File::open(&target).unwrap(),
            rustix::fs::FlockOperation::NonBlockingLockExclusive,
        );
        assert_eq!(late, Err(rustix::io::Errno::WOULDBLOCK));
        output.finish().unwrap();
    }

    #[test]
    fn a_full_device_is_an_error_and_stays_a_device() {
        let full = Path::new("/dev/full");
        let mut output = Output::create(full, &[]).unwrap();
        output.write_all(&[1; 100_000]).unwrap();
        assert!(output.finish().is_err());
        let mut output = Output::stream(full, &[]).unwrap();
        assert!(output.write_all(&[1; 100_000]).is_err());
        assert!(!std::fs::metadata(full).unwrap().is_file());
    }

    fn pipe(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        path
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        for refused in [Output::create(&path, &[]), Output::stream(&path, &[])] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("nothing reads from this named pipe"), "{error}");
        }
    }

    #[test]
    fn a_pipe_with_a_reader_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let reader = std::thread::spawn({
            let path = path.clone();
            // The reader opens the pipe late.
            move || {
                std::thread::sleep(std::time::Duration::from_millis(100));
                std::fs::read(path).unwrap()
            }
        });
        let mut output = Output::stream(&path, &[]).unwrap();
        output.write_all(&[7; 200_000]).unwrap();
        output.finish().unwrap();
        assert_eq!(reader.join().unwrap().len(), 200_000);
    }
}
