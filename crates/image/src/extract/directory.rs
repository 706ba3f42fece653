//! Extraction into a directory.
//!
//! Each name is opened relative to its directory, is not followed if it is a link, and is created. So an image can
//! neither write outside the target nor overwrite existing files.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use floatgate_stack::fs::{Attributes, DeviceNumber, FileType, Timestamp};
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};

use super::Contents;
use crate::extract::target::{Entry, Target};

/// Flags with which directories are opened.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Flags with which new files are opened.
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Set-user-ID and set-group-ID bits.
const SET_ID: u32 = 0o6000;

/// Loss for a program that would run as another user than in the image.
const NO_SET_ID: &str = "permissions: the set-user-ID and set-group-ID bits are dropped, as owner and group are others than in the image";

/// A directory that an extraction fills.
#[derive(Debug)]
pub struct DirectoryTarget {
    root: OwnedFd,
    /// Open directories from the root to the current one, without the root.
    open: Vec<OwnedFd>,
    /// True if owner and group are set.
    owners: bool,
}

impl DirectoryTarget {
    /// Target in a directory, which is created if it is missing. With `owners`, files get owner and group of the
    /// image, which requires the right to change owners.
    ///
    /// # Errors
    /// The directory cannot be created or opened.
    pub fn new(path: &Path, owners: bool) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let root = fs::open(path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?;
        Ok(Self { root, open: Vec::new(), owners })
    }

    /// Checks that a directory is empty or missing. `lost+found` of a new filesystem is ignored.
    ///
    /// # Errors
    /// The directory contains files, cannot be read, or is no directory.
    pub fn check_empty(path: &Path) -> io::Result<()> {
        let entries = match std::fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            if entry?.file_name() != "lost+found" {
                return Err(io::Error::new(
                    io::ErrorKind::DirectoryNotEmpty,
                    "there are files in the folder",
                ));
            }
        }
        Ok(())
    }

    /// Sets the owner of a file, if owners are set.
    fn set_owner(
        &self,
        name: &OsStr,
        fd: Option<BorrowedFd<'_>>,
        attributes: &Attributes,
    ) -> rustix::io::Result<()> {
        if !self.owners {
            return Ok(());
        }
        let (uid, gid) = (Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)));
        match fd {
            Some(fd) => fs::fchown(fd, uid, gid),
            None => fs::chownat(self.current(), name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// True if a file has the owner and the group of the image.
    fn has_owner(&self, name: &OsStr, fd: Option<BorrowedFd<'_>>, attributes: &Attributes) -> bool {
        let stat = match fd {
            Some(fd) => fs::fstat(fd),
            None => fs::statat(self.current(), name, AtFlags::SYMLINK_NOFOLLOW),
        };
        stat.is_ok_and(|stat| (stat.st_uid, stat.st_gid) == (attributes.uid, attributes.gid))
    }

    fn current(&self) -> BorrowedFd<'_> {
        self.open.last().unwrap_or(&self.root).as_fd()
    }

    /// Sets owner, permissions, attributes and times of an entry. Each property that cannot be set is a loss.
    fn finish(&self, name: &OsStr, fd: Option<BorrowedFd<'_>>, entry: &Entry<'_>) -> Vec<String> {
        let mut losses = Vec::new();
        let attributes = entry.attributes;
        let mut permissions = attributes.mode & 0o7777;
        let owner = self.set_owner(name, fd, attributes);
        if permissions & SET_ID != 0 && !self.has_owner(name, fd, attributes) {
            permissions &= !SET_ID;
            losses.push(NO_SET_ID.to_owned());
        }
        let mut keep = |what: &str, outcome: rustix::io::Result<()>| {
            if let Err(error) = outcome {
                losses.push(format!("{what}: {}", io::Error::from(error)));
            }
        };
        keep("owner", owner);
        // A change of the owner clears the set-user-ID bit, so permissions are set after the owner.
        let mode = Mode::from_raw_mode(permissions);
        match fd {
            Some(fd) => keep("permissions", fs::fchmod(fd, mode)),
            None if attributes.file_type != FileType::Symlink => {
                keep("permissions", fs::chmodat(self.current(), name, mode, AtFlags::empty()));
            }
            None => {}
        }
        for (xattr, value) in entry.xattrs {
            let what = format!("extended attribute {}", super::show_name(xattr));
            keep(&what, set_xattr(self.current(), name, fd, xattr, value));
        }
        let times = Timestamps {
            last_access: timespec(attributes.atime),
            last_modification: timespec(attributes.mtime),
        };
        keep(
            "times",
            match fd {
                Some(fd) => fs::futimens(fd, &times),
                None => fs::utimensat(self.current(), name, &times, AtFlags::SYMLINK_NOFOLLOW),
            },
        );
        losses
    }
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanoseconds) }
}

/// Sets an attribute through a descriptor, or through the name in the /proc folder of the directory's descriptor.
/// Most kernels have no `setxattrat`. The last part of such a path is not followed.
fn set_xattr(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    fd: Option<BorrowedFd<'_>>,
    xattr: &[u8],
    value: &[u8],
) -> rustix::io::Result<()> {
    if let Some(fd) = fd {
        return fs::fsetxattr(fd, xattr, value, XattrFlags::empty());
    }
    use std::os::fd::AsRawFd;
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    fs::lsetxattr(path, xattr, value, XattrFlags::empty())
}

fn name_of<'e>(entry: &'e Entry<'_>) -> &'e OsStr {
    OsStr::from_bytes(entry.path.last().map_or(&[], Vec::as_slice))
}

/// Records the failure of a single entry as a loss, because other entries can still succeed. A full disk ends the
/// extraction.
fn one_loss(error: rustix::io::Errno, what: &str) -> io::Result<Vec<String>> {
    let error = io::Error::from(error);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => {
            Err(error)
        }
        _ => Ok(vec![format!("{what}: {error}")]),
    }
}

impl Target for DirectoryTarget {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        if entry.path.is_empty() {
            return Ok(Vec::new());
        }
        let name = name_of(entry);
        let made = fs::mkdirat(self.current(), name, Mode::RWXU);
        match made {
            // An existing directory is filled; any other existing file is an error.
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let fd = fs::openat(self.current(), name, DIRECTORY, Mode::empty())?;
        self.open.push(fd);
        Ok(Vec::new())
    }

    fn leave(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let fd = self.open.pop();
        let fd = fd.as_ref().map_or_else(|| self.root.as_fd(), AsFd::as_fd);
        Ok(self.finish(name_of(entry), Some(fd), entry))
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        let name = name_of(entry);
        let fd = match fs::openat(self.current(), name, NEW_FILE, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => fd,
            Err(error) => return one_loss(error, "the file cannot be made"),
        };
        let file = std::fs::File::from(fd);
        let mut end = 0;
        while let Some((at, bytes)) = contents.next_piece() {
            std::os::unix::fs::FileExt::write_all_at(&file, bytes, at)?;
            end = at + bytes.len() as u64;
        }
        if end < contents.size() {
            file.set_len(contents.size())?;
        }
        Ok(self.finish(name, Some(file.as_fd()), entry))
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        let name = name_of(entry);
        let made = match entry.target {
            Some(target) => fs::symlinkat(OsStr::from_bytes(target), self.current(), name),
            None => self.make_node(name, entry.attributes),
        };
        match made {
            Ok(()) => Ok(self.finish(name, None, entry)),
            Err(error) => one_loss(error, "it cannot be made"),
        }
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        let Some((first_name, parents)) = first.split_last() else { return Ok(Vec::new()) };
        let mut dir = fs::openat(&self.root, c".", DIRECTORY, Mode::empty())?;
        for parent in parents {
            dir = fs::openat(&dir, OsStr::from_bytes(parent), DIRECTORY, Mode::empty())?;
        }
        let first_name = OsStr::from_bytes(first_name);
        match fs::linkat(&dir, first_name, self.current(), name_of(entry), AtFlags::empty()) {
            Ok(()) => Ok(Vec::new()),
            Err(error) => one_loss(error, "the hard link cannot be made"),
        }
    }
}

impl DirectoryTarget {
    fn make_node(&self, name: &OsStr, attributes: &Attributes) -> rustix::io::Result<()> {
        let kind = match attributes.file_type {
            FileType::BlockDevice => fs::FileType::BlockDevice,
            FileType::CharacterDevice => fs::FileType::CharacterDevice,
            FileType::Fifo => fs::FileType::Fifo,
            _ => fs::FileType::Socket,
        };
        let DeviceNumber { major, minor } = attributes.device.unwrap_or(DeviceNumber { major: 0, minor: 0 });
        fs::mknodat(self.current(), name, kind, Mode::RUSR | Mode::WUSR, fs::makedev(major, minor))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::extract::source::without_inode;

    struct Nothing;

    impl Contents for Nothing {
        fn size(&self) -> u64 {
            0
        }

        fn next_piece(&mut self) -> Option<(u64, &[u8])> {
            None
        }

        fn damage(&mut self) -> Vec<String> {
            Vec::new()
        }
    }

    /// Permissions and losses of an extracted program with this owner.
    fn program(owner: (u32, u32), owners: bool) -> (u32, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut target = DirectoryTarget::new(folder.path(), owners).unwrap();
        let mut attributes = without_inode(5, FileType::Regular, 0);
        (attributes.mode, attributes.uid, attributes.gid) = (0o106_755, owner.0, owner.1);
        let path = [b"su".to_vec()];
        let entry = Entry { path: &path, attributes: &attributes, xattrs: &[], target: None };
        let losses = target.file(&entry, &mut Nothing).unwrap();
        (folder.path().join("su").metadata().unwrap().mode() & 0o7777, losses)
    }

    #[test]
    fn a_program_of_another_owner_loses_its_set_id_bits() {
        let own = tempfile::tempfile().unwrap().metadata().unwrap();
        let (uid, gid) = (own.uid(), own.gid());
        assert_eq!(program((uid, gid), false), (0o6755, Vec::new()), "it belongs to its owner");
        for other in [(uid + 1, gid), (uid, gid + 1)] {
            assert_eq!(program(other, false), (0o755, vec![NO_SET_ID.to_owned()]));
        }
        let (mode, losses) = program((uid + 1, gid + 1), true);
        let is_given_away = uid == 0;
        assert_eq!((mode, losses.is_empty()), (if is_given_away { 0o6755 } else { 0o755 }, is_given_away));
    }
}
