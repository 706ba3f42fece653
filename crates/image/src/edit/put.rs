//! Files of the host into an image, as `cp -a` does it.

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

/// Bytes of a block of a file.
const BLOCK: usize = 4096;

/// Bytes of a file that are read together.
const CHUNK: usize = 64 * BLOCK;

/// Options of `put`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Whom the files belong to, instead of whom they belong to on the host.
    pub owner: Owner,
    /// No file gets a later time.
    pub time_max: Option<Timestamp>,
}

/// A file of the host, and where it goes.
struct Job {
    source: PathBuf,
    target: ImagePath,
}

/// State of putting files into an image.
struct Put<'e, 'f> {
    editor: &'e mut Editor<'f>,
    options: PutOptions,
    /// Inodes in the image by device and inode on the host, of files with several names.
    links: BTreeMap<(u64, u64), u32>,
    /// Directories, which get their times when all is in them.
    directories: Vec<(u32, ImagePath, Metadata)>,
}

impl Editor<'_> {
    /// Puts files and directories of the host, with all they hold, into a directory that is there, or a single one under
    /// another name. What has the name is replaced; directories are filled up.
    ///
    /// Contents with their holes, permissions, owner, times, extended attributes, devices and hard links are those of the
    /// host; what cannot be kept is among the losses.
    ///
    /// # Errors
    /// A file that cannot be read; no space in the image; a directory where a file is in the way, or the other way round.
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
            // `.` and `/` have no name: what they hold goes there.
            None => Ok(to),
        }
    }

    /// A file, or a directory with all it holds.
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

    /// A file or a directory; what is in the directory comes back.
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

    /// A directory: one that is there, or a new one.
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

    /// Anything but a directory.
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

    /// Takes away what has the name.
    fn make_room(&mut self, job: &Job, at: Name<'_>) -> Result<(), EditError> {
        match self.editor.fs.unlink(at.directory, at.name) {
            Ok(()) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(job.target.failed()(error)),
        }
    }

    /// A new inode of the same kind.
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

    /// The data of a file. Holes, and blocks of zeros, become holes.
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

    /// Extended attributes; those that the filesystem does not keep are losses.
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

    /// Owner, permissions and times. The access time is set to the modification time, as the copy has not
    /// been read yet.
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

/// Entries of a directory of the host, the last name first.
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

/// The next stretch with data, from `at` on; where holes cannot be found out, all of the rest.
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

/// Fills the buffer from a place in a file; a file that got shorter meanwhile is an error.
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
