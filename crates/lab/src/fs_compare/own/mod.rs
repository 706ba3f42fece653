//! The user's own filesystem in the comparison: a program at the other end of two pipes
//! ([`floatgate_host::filesystem_program`]). The simulated chip executes its flash operations in virtual time.
//!
//! `program`: the program on a simulated flash; `power_cuts`: its power-cut tests.

#[cfg(not(target_family = "wasm"))]
mod power_cuts;
mod program;

pub use floatgate_host::filesystem_program::{
    Entry, FlashSizes, OwnFilesystem, Refusal, RemoteFlash, Room, serve, serve_on,
};
#[cfg(not(target_family = "wasm"))]
pub use power_cuts::load;

use floatgate_host::filesystem_program::{Answer, DATA_MAX, FilesystemProgram, Request};
use floatgate_mtd::{Instant, Mtd as _};
use floatgate_sim::machine::OnDevice;
use floatgate_sim::vfs::Flash;
use floatgate_stack::fs::{
    AttributeChanges, Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileFlags, FileSystem, FileType,
    NewFile, NewKind, Result, Space, Timestamp,
};
use program::{of_program, operate};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Inode of the root directory.
const ROOT: u32 = 1;

/// A filesystem that a program implements, on a flash.
#[derive(Debug)]
pub(super) struct Own {
    path: &'static str,
    flash: Flash,
    now: Instant,
    /// Running program, or the error that ended it.
    program: Mutex<Result<FilesystemProgram>>,
    files: Files,
}

/// Inodes known to callers, by number from 1 on, and by path.
#[derive(Clone, Debug)]
struct Files {
    all: Vec<File>,
    by_path: HashMap<String, u32>,
}

#[derive(Clone, Debug)]
struct File {
    path: String,
    directory: bool,
    size: u64,
}

impl Files {
    fn new() -> Self {
        let root = File { path: String::new(), directory: true, size: 0 };
        Self { all: vec![root], by_path: HashMap::from([(String::new(), ROOT)]) }
    }

    fn file(&self, inode: u32) -> Result<&File> {
        self.all.get((inode as usize).wrapping_sub(1)).ok_or(Error::NotFound)
    }

    fn file_mut(&mut self, inode: u32) -> Result<&mut File> {
        self.all.get_mut((inode as usize).wrapping_sub(1)).ok_or(Error::NotFound)
    }

    /// Inode of a path; a new one if the path has none.
    fn insert(&mut self, file: File) -> u32 {
        if let Some(&inode) = self.by_path.get(&file.path) {
            return inode;
        }
        let path = file.path.clone();
        self.all.push(file);
        let inode = self.all.len() as u32;
        self.by_path.insert(path, inode);
        inode
    }

    /// Path of a name in a directory.
    fn path(&self, directory: u32, name: &[u8]) -> Result<String> {
        let name = std::str::from_utf8(name).map_err(|_| Error::BadName)?;
        let directory = self.file(directory)?;
        match directory.path.as_str() {
            _ if !directory.directory => Err(Error::NotDirectory),
            "" => Ok(name.to_owned()),
            path => Ok(format!("{path}/{name}")),
        }
    }
}

impl Own {
    /// Creates a new filesystem and mounts it.
    pub(super) fn make(path: &'static str, flash: Flash, now: Instant) -> Result<Self> {
        let mut own = Self::start(path, flash, now)?;
        own.ask(&Request::Format, &[])?;
        own.ask(&Request::Mount, &[])?;
        Ok(own)
    }

    /// Mounts the filesystem on a flash.
    pub(super) fn mount(path: &'static str, flash: Flash, now: Instant) -> Result<Self> {
        let mut own = Self::start(path, flash, now)?;
        own.ask(&Request::Mount, &[])?;
        Ok(own)
    }

    fn start(path: &'static str, flash: Flash, now: Instant) -> Result<Self> {
        let program = FilesystemProgram::start(path, flash.geometry()).map_err(of_program(path))?;
        Ok(Self { path, flash, now, program: Mutex::new(Ok(program)), files: Files::new() })
    }

    /// Copy in which every operation fails with this error.
    fn failed(&self, error: Error) -> Self {
        let (flash, files) = (self.flash.clone(), self.files.clone());
        Self { path: self.path, flash, now: self.now, program: Mutex::new(Err(error)), files }
    }

    fn ask(&mut self, request: &Request, data: &[u8]) -> Result<(Answer, Vec<u8>)> {
        let program = self.program.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (flash, now) = (&mut self.flash, &mut self.now);
        let program = program.as_mut().map_err(|error| error.clone())?;
        program
            .exchange(request, data, &mut |op, data| operate(flash, now, op, data))
            .map_err(of_program(self.path))
    }

    fn wrong(&self, why: &str) -> Error {
        Error::Failed(format!("{}: {why}", self.path))
    }
}

impl FileSystem for Own {
    fn root(&self) -> u32 {
        ROOT
    }

    /// Space that the program reports, in blocks of 4 KiB; zero if the request fails. The request runs on a copy of the
    /// flash, so its time does not count.
    fn space(&self) -> Space {
        let mut program = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        let room = match &mut *program {
            Ok(program) => {
                let (mut flash, mut now) = (self.flash.clone(), self.now);
                let answer = program
                    .exchange(&Request::Space, &[], &mut |op, data| operate(&mut flash, &mut now, op, data));
                answer.ok().and_then(|(answer, _)| answer.space).unwrap_or_default()
            }
            Err(_) => Room::default(),
        };
        let (blocks, free_blocks) =
            (room.bytes / BLOCK_BYTES as u64, room.free_bytes.min(room.bytes) / BLOCK_BYTES as u64);
        Space { blocks, free_blocks, available_blocks: free_blocks }
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        let file = self.files.file(inode)?;
        let file_type = if file.directory { FileType::Directory } else { FileType::Regular };
        Ok(plain_attributes(inode, file_type, file.size))
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        let path = self.files.path(directory, name)?;
        if let Some(&inode) = self.files.by_path.get(&path) {
            return Ok(inode);
        }
        let (answer, _) = self.ask(&Request::Stat { path: path.clone() }, &[])?;
        let entry = answer.entry.ok_or_else(|| self.wrong("no `entry` in its answer to `stat`"))?;
        Ok(self.files.insert(File { path, directory: entry.directory, size: entry.size }))
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        let path = self.files.file(directory)?.path.clone();
        let after = after.map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
        let (answer, _) = self.ask(&Request::List { path, after, max }, &[])?;
        let entries = answer.entries.into_iter().take(max);
        let of = |(position, entry): (usize, Entry)| {
            let name = entry.name.into_bytes();
            let path = self.files.path(directory, &name)?;
            let inode = self.files.insert(File { path, directory: entry.directory, size: entry.size });
            let file_type = if entry.directory { FileType::Directory } else { FileType::Regular };
            Ok(DirEntry { name, inode, file_type, encrypted: false, position: position as u64 })
        };
        entries.enumerate().map(of).collect()
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let path = self.files.file(inode)?.path.clone();
        let wanted = buf.len().min(DATA_MAX);
        let (_, bytes) = self.ask(&Request::Read { path, offset, bytes: wanted }, &[])?;
        let read = bytes.len();
        let into = buf.get_mut(..read).ok_or_else(|| self.wrong("more bytes than were asked for"))?;
        into.copy_from_slice(&bytes);
        Ok(read)
    }

    fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        let path = self.files.path(directory, name)?;
        let directory = match file.kind {
            NewKind::Regular => false,
            NewKind::Directory => true,
            _ => return Err(Error::Unsupported("anything but files and directories")),
        };
        let request = match directory {
            true => Request::MakeDir { path: path.clone() },
            false => Request::Create { path: path.clone() },
        };
        self.ask(&request, &[])?;
        Ok(self.files.insert(File { path, directory, size: 0 }))
    }

    fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        let path = self.files.path(directory, name)?;
        self.ask(&Request::Remove { path: path.clone() }, &[])?;
        self.files.by_path.remove(&path);
        Ok(())
    }

    fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.unlink(directory, name)
    }

    fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        let path = self.files.file(inode)?.path.clone();
        for (number, piece) in data.chunks(DATA_MAX).enumerate() {
            let offset = offset + (number * DATA_MAX) as u64;
            self.ask(&Request::Write { path: path.clone(), offset }, piece)?;
        }
        let file = self.files.file_mut(inode)?;
        file.size = file.size.max(offset + data.len() as u64);
        Ok(())
    }

    fn set_attributes(&mut self, _inode: u32, _changes: &AttributeChanges) -> Result<()> {
        Err(Error::Unsupported("attributes"))
    }

    fn fsync(&mut self, inode: u32) -> Result<()> {
        let path = self.files.file(inode)?.path.clone();
        self.ask(&Request::Fsync { path }, &[]).map(drop)
    }

    fn sync(&mut self) -> Result<()> {
        self.ask(&Request::Sync, &[]).map(drop)
    }

    fn unmount(mut self: Box<Self>) -> Result<()> {
        self.ask(&Request::Unmount, &[]).map(drop)
    }
}

fn plain_attributes(inode: u32, file_type: FileType, size: u64) -> Attributes {
    let time = Timestamp::default();
    let kind = if file_type == FileType::Directory { NewKind::Directory } else { NewKind::Regular };
    Attributes {
        inode,
        file_type,
        mode: kind.mode() | 0o644,
        links: 1,
        uid: 0,
        gid: 0,
        size,
        atime: time,
        mtime: time,
        ctime: time,
        device: None,
        flags: FileFlags::default(),
        compression: Compression::None,
        xattr_count: 0,
    }
}

impl OnDevice<Flash> for Own {
    /// Starts the program again, on a copy of the flash. Data that was not synchronised is missing there. If the mount
    /// only reads, the copy's counters and time are those of the original.
    fn fork(&self) -> Box<dyn OnDevice<Flash>> {
        let copy = |flash: Flash| Self::mount(self.path, flash, self.now);
        match copy(self.flash.clone()) {
            Ok(mut own) => {
                let (before, after) = (self.flash.operations(), own.flash.operations());
                if after.programs == before.programs && after.erases == before.erases {
                    (own.flash, own.now) = (self.flash.clone(), self.now);
                    own.files = self.files.clone();
                }
                Box::new(own)
            }
            Err(error) => Box::new(self.failed(error)),
        }
    }

    fn device(&self) -> &Flash {
        &self.flash
    }

    fn device_mut(&mut self) -> &mut Flash {
        &mut self.flash
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn wait_until(&mut self, now: Instant) {
        self.set_now(now);
    }

    fn set_now(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn checksummed(&self) -> bool {
        false
    }

    fn eraseblocks(&self) -> (u32, u32) {
        let geometry = self.flash.geometry();
        (geometry.blocks(), geometry.erase_bytes)
    }

    fn abandon(self: Box<Self>) -> Flash {
        self.flash
    }

    fn into_device(mut self: Box<Self>) -> std::result::Result<(Flash, Instant), (String, Flash)> {
        match self.ask(&Request::Unmount, &[]) {
            Ok(_) => Ok((self.flash, self.now)),
            Err(error) => Err((format!("it does not unmount: {error}"), self.flash)),
        }
    }
}
