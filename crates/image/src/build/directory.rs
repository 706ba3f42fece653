//! Build source for a directory of the host: all its files, ordered by name.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use floatgate_stack::fs::{DeviceNumber, FileFlags, Timestamp};
use rustix::fs::{IFlags, Mode, OFlags};

use super::BuildError;
use super::item::{BLOCK, Feeder, Item, ItemKind, Xattrs};

/// Maximum size of a list of attribute names, and of an attribute's value, in Linux, bytes.
const XATTR_MAX: usize = 65536;

/// Maximum nesting of directories.
const MAX_DEPTH: usize = 1024;

/// State of a walk through a directory of the host.
struct Walk<'f> {
    feeder: &'f mut Feeder,
    path: Vec<Vec<u8>>,
    /// First path of each file with several names, by device and inode number.
    first_names: BTreeMap<(u64, u64), Vec<Vec<u8>>>,
}

/// Feeds all files of a directory to the builder.
pub(super) fn feed(root: &Path, feeder: &mut Feeder) -> Result<(), BuildError> {
    let mut walk = Walk { feeder, path: Vec::new(), first_names: BTreeMap::new() };
    let unreadable = |error| BuildError::Source { path: root.to_owned(), error };
    let metadata = std::fs::metadata(root).map_err(unreadable)?;
    // The root may be a symbolic link to a directory.
    let root = root.canonicalize().map_err(unreadable)?;
    walk.entry(&root, &metadata)?;
    let mut levels = vec![(root.clone(), walk.names(&root)?)];
    while let Some((folder, names)) = levels.last_mut() {
        let Some(name) = names.pop() else {
            levels.pop();
            walk.path.pop();
            continue;
        };
        let place = folder.join(std::ffi::OsStr::from_bytes(&name));
        walk.path.push(name);
        let is_directory = walk.visit(&place)?;
        if is_directory && levels.len() < MAX_DEPTH {
            let names = walk.names(&place)?;
            levels.push((place, names));
            continue;
        }
        if is_directory {
            walk.record_loss(format!("what is in it: more than {MAX_DEPTH} directories inside each other"))?;
        }
        walk.path.pop();
    }
    Ok(())
}

impl Walk<'_> {
    fn record_loss(&mut self, what: impl Into<String>) -> Result<(), BuildError> {
        self.feeder.record_loss(&self.path, what)
    }

    /// Names in a directory, in reverse order.
    fn names(&mut self, folder: &Path) -> Result<Vec<Vec<u8>>, BuildError> {
        let mut names = Vec::new();
        let listed = std::fs::read_dir(folder).and_then(|entries| {
            for entry in entries {
                names.push(entry?.file_name().into_vec());
            }
            Ok(())
        });
        if let Err(error) = listed {
            self.record_loss(format!("entries of the directory: {error}"))?;
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    /// Feeds one entry and returns whether it is a directory.
    fn visit(&mut self, place: &Path) -> Result<bool, BuildError> {
        match std::fs::symlink_metadata(place) {
            Ok(metadata) => self.entry(place, &metadata),
            Err(error) => self.record_loss(error.to_string()).map(|()| false),
        }
    }

    fn entry(&mut self, place: &Path, metadata: &Metadata) -> Result<bool, BuildError> {
        let inode = (metadata.dev(), metadata.ino());
        let several = metadata.nlink() > 1 && !metadata.is_dir();
        if let Some(first) = self.first_names.get(&inode).filter(|_| several) {
            let kind = ItemKind::Link(first.clone());
            let item = self.item(kind, metadata, Vec::new());
            return self.feeder.item(item).map(|()| false);
        }
        let kind = match kind(place, metadata) {
            Ok(kind) => kind,
            Err(what) => return self.record_loss(what).map(|()| false),
        };
        if metadata.is_file() {
            return self.file(place, metadata, several).map(|()| false);
        }
        let xattrs = self.xattrs(place)?;
        let mut item = self.item(kind, metadata, xattrs);
        if metadata.is_dir() {
            item.flags = self.directory_flags(place)?;
        }
        self.feeder.item(item)?;
        if several {
            self.first_names.insert(inode, self.path.clone());
        }
        Ok(metadata.is_dir())
    }

    fn item(&self, kind: ItemKind, metadata: &Metadata, xattrs: Xattrs) -> Item {
        let time = Timestamp {
            seconds: metadata.mtime(),
            nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        };
        Item {
            path: self.path.clone(),
            kind,
            permissions: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            // Reads change the access time, and copies change the change time. All times are therefore set to the
            // modification time, so that the same tree gives the same image.
            atime: time,
            ctime: time,
            mtime: time,
            flags: FileFlags::default(),
            xattrs,
        }
    }

    fn file(&mut self, place: &Path, metadata: &Metadata, several: bool) -> Result<(), BuildError> {
        let mut file = match File::open(place) {
            Ok(file) => file,
            Err(error) => return self.record_loss(error.to_string()),
        };
        let xattrs = self.xattrs(place)?;
        let size = metadata.len();
        let mut item = self.item(ItemKind::Regular(size), metadata, xattrs);
        item.flags = self.flags(&file)?;
        self.feeder.item(item)?;
        if several {
            self.first_names.insert((metadata.dev(), metadata.ino()), self.path.clone());
        }
        let sparse = metadata.blocks().saturating_mul(512) < size;
        let fed =
            if sparse { self.sparse(&mut file, size)? } else { self.feeder.data(&mut file, 0, size)? };
        match fed {
            Ok(len) if len < size => {
                self.record_loss(format!("became shorter while it was read: {len} of {size} bytes"))
            }
            Ok(_) => Ok(()),
            Err(error) => self.record_loss(format!("contents: {error}")),
        }
    }

    /// Feeds the ranges that the host's filesystem reports as data, and returns the end of the file.
    fn sparse(&mut self, file: &mut File, size: u64) -> Result<std::io::Result<u64>, BuildError> {
        let mut at = 0;
        while at < size {
            let (start, end) = match next_data(file, at, size) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            };
            match self.feeder.data(file, start, end)? {
                Ok(len) if len < end - start => return Ok(Ok(start + len)),
                Ok(_) => at = end,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(size))
    }

    fn directory_flags(&mut self, place: &Path) -> Result<FileFlags, BuildError> {
        // A file that cannot be opened cannot be listed either, which is reported as a separate loss.
        let opened =
            rustix::fs::open(place, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        opened.map_or(Ok(FileFlags::default()), |folder| self.flags(folder))
    }

    /// Flags of a file that UBIFS also supports. Filesystems without flags return one of several error codes.
    fn flags(&mut self, file: impl std::os::fd::AsFd) -> Result<FileFlags, BuildError> {
        let flags = rustix::fs::ioctl_getflags(file).unwrap_or(IFlags::empty());
        for (flag, name) in [(IFlags::NODUMP, "nodump"), (IFlags::NOATIME, "noatime")] {
            if flags.contains(flag) {
                self.record_loss(format!("its flag {name}: UBIFS has none"))?;
            }
        }
        let known = [
            (IFlags::SYNC, FileFlags::SYNC),
            (IFlags::IMMUTABLE, FileFlags::IMMUTABLE),
            (IFlags::APPEND, FileFlags::APPEND),
            (IFlags::DIRSYNC, FileFlags::DIRSYNC),
        ];
        let set = known.into_iter().filter(|(flag, _)| flags.contains(*flag));
        Ok(set.fold(FileFlags::default(), |all, (_, flag)| all.with(flag)))
    }

    fn xattrs(&mut self, place: &Path) -> Result<Xattrs, BuildError> {
        let names = match list(place) {
            Ok(names) => names,
            // The host's filesystem has no extended attributes.
            Err(rustix::io::Errno::NOTSUP) => return Ok(Vec::new()),
            Err(error) => {
                self.record_loss(format!("extended attributes: {error}"))?;
                return Ok(Vec::new());
            }
        };
        let mut xattrs = Vec::new();
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            match value(place, name) {
                Ok(value) => xattrs.push((name.to_vec(), value)),
                Err(error) => {
                    let name = super::super::extract::show_name(name);
                    self.record_loss(format!("extended attribute {name}: {error}"))?;
                }
            }
        }
        xattrs.sort();
        Ok(xattrs)
    }
}

/// Next range with data from `at` on, from the start of a block to the end of one.
fn next_data(file: &mut File, at: u64, size: u64) -> std::io::Result<Option<(u64, u64)>> {
    use rustix::fs::SeekFrom as Seek;
    let start = match rustix::fs::seek(&*file, Seek::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(_) => at,
    };
    let end = rustix::fs::seek(&*file, Seek::Hole(start)).unwrap_or(size);
    let start = start - start % BLOCK as u64;
    let end = end.next_multiple_of(BLOCK as u64).min(size).max(start + 1);
    file.seek(SeekFrom::Start(start))?;
    Ok(Some((start, end)))
}

fn list(place: &Path) -> rustix::io::Result<Vec<u8>> {
    let mut names = [0; 1024];
    match rustix::fs::llistxattr(place, &mut names[..]) {
        Ok(len) => Ok(names[..len].to_vec()),
        Err(rustix::io::Errno::RANGE) => {
            let mut names = vec![0; XATTR_MAX];
            let len = rustix::fs::llistxattr(place, &mut names[..])?;
            names.truncate(len);
            Ok(names)
        }
        Err(error) => Err(error),
    }
}

fn value(place: &Path, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; XATTR_MAX];
    let len = rustix::fs::lgetxattr(place, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

fn kind(place: &Path, metadata: &Metadata) -> Result<ItemKind, String> {
    let file_type = metadata.file_type();
    let device = || DeviceNumber {
        major: rustix::fs::major(metadata.rdev()),
        minor: rustix::fs::minor(metadata.rdev()),
    };
    Ok(if file_type.is_dir() {
        ItemKind::Directory
    } else if file_type.is_file() {
        ItemKind::Regular(metadata.len())
    } else if file_type.is_symlink() {
        let target: PathBuf = std::fs::read_link(place).map_err(|error| error.to_string())?;
        ItemKind::Symlink(target.into_os_string().into_vec())
    } else if file_type.is_block_device() {
        ItemKind::BlockDevice(device())
    } else if file_type.is_char_device() {
        ItemKind::CharacterDevice(device())
    } else if file_type.is_fifo() {
        ItemKind::Fifo
    } else if file_type.is_socket() {
        ItemKind::Socket
    } else {
        return Err("a kind of file that UBIFS does not have".to_owned());
    })
}

/// Estimated maximum size of a directory in an image, without compression, bytes.
pub(super) fn estimate(root: &Path) -> u64 {
    let mut bytes = 0u64;
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                open.push(entry.path());
            }
            let data = if metadata.is_file() {
                metadata.len().min(metadata.blocks().saturating_mul(512))
            } else {
                0
            };
            bytes = bytes.saturating_add(super::image_bytes(data));
        }
    }
    bytes
}
