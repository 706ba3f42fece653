//! Copies files of the host into an image, like `cp -a`.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use floatgate_stack::fs::{AttributeChanges, DeviceNumber, Error, Name, NewKind, SetXattr, Timestamp};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::{EditError, Editor, ImagePath, Owner};
use crate::build::lost_time;
use crate::report::Loss;
use crate::words::show_name;

/// Size of a block of a file, bytes.
const BLOCK: usize = 4096;

/// Number of bytes of a file that are read at once.
const CHUNK: usize = 64 * BLOCK;

/// Options of `put`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Owner of the files in the image; a value of `None` is taken from the host.
    pub owner: Owner,
    /// Latest time of any file; later times are set to it.
    pub time_max: Option<Timestamp>,
}

/// A file of the host, with its destination.
struct Job {
    source: PathBuf,
    target: ImagePath,
}

/// State while files are copied into an image.
struct Put<'e, 'f> {
    editor: &'e mut Editor<'f>,
    options: PutOptions,
    /// Inodes in the image of files with several names, by device and inode on the host.
    links: BTreeMap<(u64, u64), u32>,
    /// Directories, whose times are set after their contents were copied.
    directories: Vec<(u32, ImagePath, Metadata)>,
}

impl Editor<'_> {
    /// Copies files of the host, and directories with their contents, into an existing directory; or a single one under
    /// a new name. Existing files of the same name are replaced, and existing directories are merged.
    ///
    /// Contents with their holes, permissions, owner, times, extended attributes, devices and hard links are copied from
    /// the host. Properties that cannot be stored are listed as losses.
    ///
    /// # Errors
    /// A file that cannot be read, no space in the image, a directory that would replace a file, or a file that would
    /// replace a directory.
    pub fn put(&mut self, sources: &[PathBuf], to: &ImagePath, options: PutOptions) -> Result<(), EditError> {
        let mut put = Put { editor: self, options, links: BTreeMap::new(), directories: Vec::new() };
        for source in sources {
            let target = put.target(source, to, sources.len() > 1)?;
            put.tree(Job { source: source.clone(), target })?;
        }
        put.end_directories()
    }
}

impl Put<'_, '_> {
    fn target(&mut self, source: &Path, to: &ImagePath, several: bool) -> Result<ImagePath, EditError> {
        let to = to.meaning_directory(to.is_directory || several);
        match source.file_name() {
            Some(name) => self.editor.target(&to, name.as_bytes()),
            // `.` and `/` have no name, so their contents are copied.
            None => Ok(to),
        }
    }

    /// Copies a file, or a directory with its contents.
    fn tree(&mut self, first: Job) -> Result<(), EditError> {
        let mut jobs = vec![first];
        while let Some(job) = jobs.pop() {
            match self.one(&job) {
                Ok(below) => jobs.extend(below),
                Err(EditError::Inside { error: error @ Error::Unsupported(_), .. })
                    if self.editor.holds_files_only() =>
                {
                    self.editor.done.losses.push(Loss::new(job.target.parts(), error.to_string()));
                }
                Err(EditError::Inside { error: error @ Error::NameTooLong(_), .. }) => {
                    self.editor.done.losses.push(Loss::new(job.target.parts(), error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Copies a file, or creates a directory and returns its entries.
    fn one(&mut self, job: &Job) -> Result<Vec<Job>, EditError> {
        let metadata = fs::symlink_metadata(&job.source).map_err(EditError::host(&job.source))?;
        if !metadata.is_dir() {
            self.leaf(job, &metadata)?;
            return Ok(Vec::new());
        }
        let inode = self.directory(job, &metadata)?;
        let below = children(job)?;
        self.xattrs(job, inode)?;
        self.directories.push((inode, job.target.clone(), metadata));
        Ok(below)
    }

    /// Finds or creates a directory.
    fn directory(&mut self, job: &Job, metadata: &Metadata) -> Result<u32, EditError> {
        match job.target.find(self.editor.fs)? {
            Some(inode) if self.editor.is_directory(&job.target, inode)? => Ok(inode),
            Some(_) => Err(job.target.failed()(Error::NotDirectory)),
            None => {
                let at = job.target.name(self.editor.fs)?;
                let (mode, owner) = (metadata.mode() & 0o7777, self.owner(metadata));
                self.editor.create(&job.target, at, NewKind::Directory, mode, owner)
            }
        }
    }

    fn owner(&self, metadata: &Metadata) -> Owner {
        let given = self.options.owner;
        Owner {
            uid: Some(given.uid.unwrap_or(metadata.uid())),
            gid: Some(given.gid.unwrap_or(metadata.gid())),
        }
    }

    /// Copies a file of any type except a directory.
    fn leaf(&mut self, job: &Job, metadata: &Metadata) -> Result<(), EditError> {
        let at = job.target.name(self.editor.fs)?;
        self.make_room(job, at)?;
        let known = (metadata.dev(), metadata.ino());
        if let Some(&inode) = self.links.get(&known) {
            self.editor.done.entries += 1;
            return self.editor.fs.link(inode, at.directory, at.name).map_err(job.target.failed());
        }
        let inode = self.make(job, at, metadata)?;
        if metadata.nlink() > 1 {
            self.links.insert(known, inode);
        }
        if metadata.is_file() {
            self.contents(job, inode, metadata.len())?;
        }
        self.xattrs(job, inode)?;
        self.finish(&job.target, inode, metadata)
    }

    /// Removes an existing file of the same name.
    fn make_room(&mut self, job: &Job, at: Name<'_>) -> Result<(), EditError> {
        match self.editor.fs.unlink(at.directory, at.name) {
            Ok(()) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(job.target.failed()(error)),
        }
    }

    /// Creates an inode of the same type.
    fn make(&mut self, job: &Job, at: Name<'_>, metadata: &Metadata) -> Result<u32, EditError> {
        let file_type = metadata.file_type();
        let device = DeviceNumber {
            major: rustix::fs::major(metadata.rdev()),
            minor: rustix::fs::minor(metadata.rdev()),
        };
        let target;
        let kind = if file_type.is_symlink() {
            target = fs::read_link(&job.source).map_err(EditError::host(&job.source))?;
            NewKind::Symlink(target.as_os_str().as_bytes())
        } else if file_type.is_block_device() {
            NewKind::BlockDevice(device)
        } else if file_type.is_char_device() {
            NewKind::CharacterDevice(device)
        } else if file_type.is_fifo() {
            NewKind::Fifo
        } else if file_type.is_socket() {
            NewKind::Socket
        } else {
            NewKind::Regular
        };
        let (mode, owner) = (metadata.mode() & 0o7777, self.owner(metadata));
        self.editor.create(&job.target, at, kind, mode, owner)
    }

    /// Copies the data of a file. Holes and blocks of zeros become holes.
    fn contents(&mut self, job: &Job, inode: u32, size: u64) -> Result<(), EditError> {
        let file = File::open(&job.source).map_err(EditError::host(&job.source))?;
        let mut at = 0;
        let mut chunk = vec![0; CHUNK];
        while let Some((start, end)) = next_data(&file, at, size) {
            at = start - start % BLOCK as u64;
            while at < end {
                let len = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
                read_all(&file, &mut chunk[..len], at).map_err(EditError::host(&job.source))?;
                self.write_blocks(&job.target, inode, at, &chunk[..len])?;
                at += len as u64;
            }
        }
        let changes = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
        self.editor.fs.set_attributes(inode, &changes).map_err(job.target.failed())?;
        self.editor.done.bytes += size;
        Ok(())
    }

    fn write_blocks(&mut self, path: &ImagePath, inode: u32, at: u64, data: &[u8]) -> Result<(), EditError> {
        for (index, block) in (0u64..).zip(data.chunks(BLOCK)) {
            if block.iter().any(|&byte| byte != 0) {
                self.editor.fs.write(inode, at + index * BLOCK as u64, block).map_err(path.failed())?;
            }
        }
        Ok(())
    }

    /// Copies extended attributes. Attributes that the filesystem cannot store are losses.
    fn xattrs(&mut self, job: &Job, inode: u32) -> Result<(), EditError> {
        let holds = self.editor.fs.holds();
        for name in list_xattrs(&job.source).map_err(EditError::host(&job.source))? {
            let value = match get_xattr(&job.source, &name) {
                Ok(value) if holds.xattr(&name) => value,
                Ok(_) => {
                    self.record_lost_xattr(job, &name, "the filesystem keeps no such attributes");
                    continue;
                }
                Err(error) => {
                    self.record_lost_xattr(job, &name, &error.to_string());
                    continue;
                }
            };
            match self.editor.fs.set_xattr(inode, &name, &value, SetXattr::Any) {
                Err(Error::Unsupported(what)) => self.record_lost_xattr(job, &name, what),
                set => set.map_err(job.target.failed())?,
            }
        }
        Ok(())
    }

    fn record_lost_xattr(&mut self, job: &Job, name: &[u8], why: &str) {
        let what = format!("extended attribute {}: {why}", show_name(name));
        self.editor.done.losses.push(Loss::new(job.target.parts(), what));
    }

    /// Sets owner, permissions and times. The access time is set to the modification time, because the copy was not
    /// read yet.
    fn finish(&mut self, path: &ImagePath, inode: u32, metadata: &Metadata) -> Result<(), EditError> {
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        let mtime = Timestamp { seconds: metadata.mtime(), nanoseconds };
        let key = |time: Timestamp| (time.seconds, time.nanoseconds);
        let mtime = match self.options.time_max {
            Some(max) if key(mtime) > key(max) => max,
            _ => mtime,
        };
        let owner = self.owner(metadata);
        let changes = AttributeChanges {
            permissions: Some(metadata.mode() & 0o7777),
            uid: owner.uid,
            gid: owner.gid,
            atime: Some(mtime),
            mtime: Some(mtime),
            ..AttributeChanges::default()
        };
        self.editor.fs.set_attributes(inode, &changes).map_err(path.failed())?;
        self.editor.note_unkept(path, inode, &changes).map_err(path.failed())?;
        let lost = lost_time(self.editor.fs, inode, mtime).map_err(path.failed())?;
        self.editor.done.losses.extend(lost.map(|what| Loss::new(path.parts(), what)));
        Ok(())
    }

    fn end_directories(&mut self) -> Result<(), EditError> {
        for (inode, path, metadata) in core::mem::take(&mut self.directories) {
            self.finish(&path, inode, &metadata)?;
        }
        Ok(())
    }
}

/// Entries of a directory of the host, in reverse order of their names.
fn children(job: &Job) -> Result<Vec<Job>, EditError> {
    let mut jobs = Vec::new();
    for entry in fs::read_dir(&job.source).map_err(EditError::host(&job.source))? {
        let entry = entry.map_err(EditError::host(&job.source))?;
        let target = job.target.join(entry.file_name().as_bytes());
        jobs.push(Job { source: entry.path(), target });
    }
    jobs.sort_by(|a, b| b.source.cmp(&a.source));
    Ok(jobs)
}

/// Next range with data from `at` on; up to the end of the file if the host does not report holes.
fn next_data(file: &File, at: u64, size: u64) -> Option<(u64, u64)> {
    if at >= size {
        return None;
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return None,
        Err(_) => return Some((at, size)),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size);
    (start < size).then_some((start, end.min(size)))
}

/// Fills the buffer from an offset of a file. A file that has become shorter is an error.
fn read_all(file: &File, buf: &mut [u8], at: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buf, at)
}

fn list_xattrs(path: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0; 1 << 16];
    let len = match rustix::fs::llistxattr(path, &mut list) {
        Ok(len) => len,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    list.truncate(len);
    let mut names: Vec<Vec<u8>> =
        list.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
    names.sort();
    Ok(names)
}

fn get_xattr(path: &Path, name: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut value = vec![0; 1 << 16];
    let len = rustix::fs::lgetxattr(path, name, &mut value)?;
    value.truncate(len);
    Ok(value)
}
