//! A new filesystem that is filled with the remains of another one.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use floatgate_media::ubifs::{BLOCK_BYTES, Inode, MAX_INODE_DATA, MAX_NAME_BYTES, ROOT_INODE};
use floatgate_stack::Volume;
use floatgate_stack::fs::{
    AttributeChanges, CompressedBlock, Compression, DeviceNumber, FileFlags, FileType, FilledFile, NewFile,
    NewKind, NodePos, SetXattr, Timestamp,
};
use floatgate_stack::ubifs::{Child, Error, File, Survey, Ubifs};

use crate::ImageError;
use crate::saved::Saved;
use crate::words::{count, show_name};

/// Directory for files without a name.
const LOST_AND_FOUND: &str = "lost+found";

/// Permissions of files and directories whose inode is lost.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Largest size of the list of a file's attribute names, each with a zero, bytes (Linux: `XATTR_LIST_MAX`).
const MAX_XATTR_LIST: usize = 65_536;

/// Largest number of holes in a file that are listed individually.
const HOLES_MAX: usize = 20;

/// Largest depth of nested directories that are read: no path in Linux is longer.
const DEPTH_MAX: usize = 2048;

struct Fill<'f> {
    survey: &'f mut Survey<dyn Volume>,
    fs: &'f mut Ubifs<dyn Volume>,
    saved: &'f mut Saved,
    /// New inode of each old inode.
    done: BTreeMap<u32, u32>,
    /// Old inodes that contain values of attributes.
    values: BTreeSet<u32>,
}

/// A directory whose entries are not written yet.
struct Level {
    new: u32,
    path: Rc<str>,
    depth: usize,
    entries: BTreeMap<Vec<u8>, Child>,
}

/// Writes all files of a survey to an empty filesystem.
///
/// # Errors
/// No space, or a failure of the volumes.
pub(crate) fn fill(
    survey: &mut Survey<dyn Volume>,
    fs: &mut Ubifs<dyn Volume>,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let values = survey.tree().files.values().flat_map(|file| file.xattrs.values());
    let values = values.map(|child| child.inode).collect();
    let mut fill = Fill { survey, fs, saved, done: BTreeMap::new(), values };
    fill.run()?;
    Ok(())
}

/// True if an error ends the whole repair, and does not concern only one file.
const fn is_fatal(error: &Error) -> bool {
    matches!(error, Error::NoSpace | Error::Volume(_) | Error::ReadOnly)
}

impl Fill<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let root = self.fs.root();
        self.done.insert(ROOT_INODE, root);
        let old = self.file(ROOT_INODE);
        self.write_root(&old)?;
        self.descend(Level { new: root, path: "".into(), depth: 0, entries: old.entries })?;
        self.save_nameless()?;
        Ok(())
    }

    /// File in the survey.
    fn file(&self, inode: u32) -> File {
        self.survey.tree().files.get(&inode).map(|file| (**file).clone()).unwrap_or_default()
    }

    /// Records a failure that concerns only one file.
    fn pass<T>(&mut self, path: &str, outcome: Result<T, Error>) -> Result<Option<T>, Error> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if is_fatal(&error) => Err(error),
            Err(error) => {
                self.saved.record_loss(path, error.to_string());
                Ok(None)
            }
        }
    }

    /// Writes all files below a directory, in the order of their inode numbers among all known names. Files were
    /// usually written in this order, so they fill the LEBs in the same way as before.
    fn descend(&mut self, top: Level) -> Result<(), Error> {
        let mut pending = BTreeMap::new();
        let mut next = Some(top);
        loop {
            if let Some(Level { new, path, depth, entries }) = next.take() {
                let of_level = |(name, child): (Vec<u8>, Child)| {
                    ((child.inode, new, name), (child.file_type, Rc::clone(&path), depth))
                };
                pending.extend(entries.into_iter().map(of_level));
            }
            let Some(((inode, directory, name), (file_type, above, depth))) = pending.pop_first() else {
                return Ok(());
            };
            let path = format!("{above}/{}", show_name(&name));
            if depth > DEPTH_MAX {
                self.saved.record_loss(&path, "directories are too deep inside each other");
                continue;
            }
            next = self.write(directory, &name, inode, Some(file_type), path)?;
            next.iter_mut().for_each(|level| level.depth = depth + 1);
        }
    }

    /// Writes a file with a name. Returns its level if it is a directory.
    fn write(
        &mut self,
        directory: u32,
        name: &[u8],
        inode: u32,
        file_type: Option<FileType>,
        path: String,
    ) -> Result<Option<Level>, Error> {
        if let Some(&new) = self.done.get(&inode) {
            let linked = self.fs.fill_link(new, directory, name);
            let linked = self.pass(&path, linked)?;
            self.saved.entries += u64::from(linked.is_some());
            return Ok(None);
        }
        let old = self.file(inode);
        let file_type = old.inode.and_then(|inode| inode.file_type()).or(file_type);
        self.record_attribute_losses(&old, file_type, &path);
        if old.inode.is_some_and(|inode| inode.flags.contains(FileFlags::ENCRYPTED)) {
            self.saved.record_loss(&path, "encrypted: it cannot be written anew");
            return Ok(None);
        }
        let Some(file) = new_file(&old, file_type) else {
            self.saved.record_loss(&path, "the file: nothing is left of it");
            return Ok(None);
        };
        let (is_file, is_directory) =
            (matches!(file.kind, NewKind::Regular), matches!(file.kind, NewKind::Directory));
        let (xattrs, inode_of) = (self.xattrs(&old, &path), old.inode.unwrap_or_default());
        let size = match (is_file, old.inode) {
            (true, _) => self.size(&old)?,
            // A device node has no size.
            (false, Some(inode)) => inode.size,
            (false, None) => 1,
        };
        let filled = FilledFile {
            file,
            size,
            atime: time(inode_of.atime_s, inode_of.atime_ns),
            mtime: time(inode_of.mtime_s, inode_of.mtime_ns),
            ctime: time(inode_of.ctime_s, inode_of.ctime_ns),
            flags: flags(&inode_of),
            compression: old.inode.map(|inode| inode.compression),
            xattrs: &xattrs,
        };
        let created = self.fs.fill(directory, name, &filled);
        let Some(number) = self.pass(&path, created)? else { return Ok(None) };
        self.saved.entries += 1;
        self.done.insert(inode, number);
        if is_file {
            self.write_blocks(number, &old, size, &path)?;
            self.record_holes(inode, size, &path);
        }
        Ok(is_directory.then(|| Level { new: number, path: path.into(), depth: 0, entries: old.entries }))
    }

    /// Records the attributes that an inode no longer contains.
    fn record_attribute_losses(&mut self, old: &File, file_type: Option<FileType>, path: &str) {
        if old.inode.is_none() {
            self.saved.record_loss(path, "owner, permissions, times, attributes and size: the inode is lost");
        }
        if file_type == Some(FileType::Symlink) && old.attached.contains(&0) {
            self.saved.record_loss(path, "the target of the link from its first zero on");
        }
        if old.retyped {
            self.saved.record_loss(path, "permissions, perhaps: its inode said that it is of another type");
        }
        if old.outdated {
            self.saved.record_loss(
                path,
                "the newest state of its inode: size, owner, permissions, times may be older",
            );
        }
    }

    /// Size of a file in bytes: the size in its inode, or the end of its readable data.
    fn size(&mut self, old: &File) -> Result<u64, Error> {
        // An older inode can contain an earlier, smaller size.
        let known = old.inode.map(|inode| inode.size);
        if let Some(size) = known.filter(|_| !old.outdated) {
            return Ok(size);
        }
        for (&block, data) in old.blocks.iter().rev() {
            match self.survey.read_block(data.place, false) {
                Ok(stored) => {
                    let end = u64::from(block) * u64::from(BLOCK_BYTES) + u64::from(stored.size);
                    return Ok(end.max(known.unwrap_or(0)));
                }
                Err(error) if is_fatal(&error) && !error.is_damage() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(known.unwrap_or(0))
    }

    /// Writes the contents of a file in their stored form.
    fn write_blocks(&mut self, number: u32, old: &File, size: u64, path: &str) -> Result<(), Error> {
        let block_bytes = u64::from(BLOCK_BYTES);
        for (&block, data) in &old.blocks {
            let start = u64::from(block) * block_bytes;
            if start >= size {
                break;
            }
            let stored = match self.survey.read_block(data.place, false) {
                Ok(stored) => stored,
                Err(error) if is_fatal(&error) && !error.is_damage() => return Err(error),
                Err(error) => {
                    self.saved.record_loss(path, format!("{block_bytes} bytes from {start}: {error}"));
                    continue;
                }
            };
            if u64::from(stored.size) > size - start {
                let number_of = old.inode.map_or(0, |inode| inode.key.inum());
                self.write_last(number, number_of, block, data.place, size - start)?;
                continue;
            }
            let (compression, data) = (stored.compression, stored.data.as_slice());
            let block = CompressedBlock { block, size: stored.size, compression, data };
            self.fs.fill_blocks(number, &[block])?;
        }
        if old.data_end() > size {
            let lost = old.data_end() - size;
            self.saved.record_loss(path, format!("{lost} bytes behind the end of the file at {size}"));
        }
        let lost = old.lost_blocks.iter().map(|block| (block, "zeros now"));
        let older = old.older_blocks.iter().map(|block| (block, "found by a search, and perhaps older"));
        for (block, what) in lost.chain(older) {
            let start = u64::from(*block) * block_bytes;
            let len = size.saturating_sub(start).min(block_bytes);
            if len > 0 {
                self.saved.record_loss(path, format!("{len} bytes from {start}: {what}"));
            }
        }
        Ok(())
    }

    /// Records ranges that read as zeros because no data was found, unless the index shows that there was none.
    fn record_holes(&mut self, inode: u32, size: u64, path: &str) {
        let holes = self.survey.doubtful_holes(inode, size);
        if holes.is_empty() {
            return;
        }
        let bytes = |block: u32| (u64::from(block) * u64::from(BLOCK_BYTES)).min(size);
        let shown = holes.iter().take(HOLES_MAX).map(|hole| {
            let (start, end) = (bytes(hole.start), bytes(hole.end));
            format!("{} bytes from {start}", end - start)
        });
        let mut shown: Vec<String> = shown.collect();
        if holes.len() > HOLES_MAX {
            shown.push(count((holes.len() - HOLES_MAX) as u64, "more range"));
        }
        self.saved
            .record_loss(path, format!("{}: zeros now: a hole, or data that are lost", shown.join(", ")));
    }

    /// Writes the first `bytes` of the last block of a file.
    fn write_last(
        &mut self,
        number: u32,
        old: u32,
        block: u32,
        place: NodePos,
        bytes: u64,
    ) -> Result<(), Error> {
        let mut whole = [0; BLOCK_BYTES as usize];
        self.survey.read_data(old, block, place, &mut whole)?;
        let size = u32::try_from(bytes).unwrap_or(BLOCK_BYTES);
        let data = whole.get(..size as usize).unwrap_or(&whole);
        self.fs.fill_blocks(number, &[CompressedBlock { block, size, compression: Compression::None, data }])
    }

    /// Extended attributes that a file can have; other attributes are lost.
    fn xattrs(&mut self, old: &File, path: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut xattrs, mut list_bytes) = (Vec::new(), 0);
        for (name, child) in &old.xattrs {
            let value = self.file(child.inode);
            let is_possible = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(&0);
            list_bytes += name.len() + 1;
            let why = match value.inode {
                None => "its value is lost",
                Some(_) if !is_possible => "a name that it cannot have",
                Some(_) if value.attached.len() > MAX_INODE_DATA as usize => "its value is too long",
                Some(_) if list_bytes > MAX_XATTR_LIST => "the file has too many",
                Some(_) => {
                    xattrs.push((name.clone(), value.attached));
                    continue;
                }
            };
            self.saved.record_loss(path, format!("extended attribute {}: {why}", show_name(name)));
        }
        // The count may be wrong: if the index is complete, no attribute is missing.
        let number = old.inode.map_or(0, |inode| inode.key.inum());
        let named = u32::try_from(old.xattrs.len()).unwrap_or(u32::MAX);
        let missing = old.inode.map_or(0, |inode| inode.xattr_count.saturating_sub(named));
        if missing > 0 && (old.incomplete || self.survey.is_doubtful(number)) {
            let plural = if missing == 1 { "" } else { "s" };
            self.saved.record_loss(path, format!("{missing} extended attribute{plural}"));
        }
        xattrs
    }

    /// Writes attributes of the root directory. The filesystem is still empty, so there is space.
    fn write_root(&mut self, old: &File) -> Result<(), Error> {
        let root = self.fs.root();
        self.record_attribute_losses(old, Some(FileType::Directory), "/");
        for (name, value) in self.xattrs(old, "/") {
            let outcome = self.fs.set_xattr(root, &name, &value, SetXattr::Any);
            self.pass("/", outcome)?;
        }
        if let Some(inode) = old.inode {
            self.fs.fill_attributes(root, &changes(&inode))?;
        }
        Ok(())
    }

    /// Saves files without a name, each with its old inode number as name.
    fn save_nameless(&mut self) -> Result<(), Error> {
        let files = &self.survey.tree().files;
        let below: BTreeSet<u32> = files
            .iter()
            .filter(|(inode, _)| !self.done.contains_key(inode))
            .flat_map(|(_, file)| file.entries.values().map(|child| child.inode))
            .collect();
        let mut nameless: Vec<u32> = files
            .iter()
            .filter(|(inode, file)| !self.values.contains(inode) && is_worth_saving(file))
            .map(|(&inode, _)| inode)
            .collect();
        // Directories at the top are first; members of a cycle of directories are last.
        nameless.sort_by_key(|inode| below.contains(inode));
        let mut target = None;
        for inode in nameless {
            if self.done.contains_key(&inode) {
                continue;
            }
            let directory = match target {
                Some(directory) => directory,
                None => *target.insert(self.lost_and_found()?),
            };
            let name = format!("#{inode}");
            let path = format!("/{LOST_AND_FOUND}/{name}");
            self.saved.record_nameless_file(&path);
            if let Some(level) = self.write(directory, name.as_bytes(), inode, None, path)? {
                self.descend(level)?;
            }
        }
        Ok(())
    }

    /// Directory for these files; an existing one is used.
    fn lost_and_found(&mut self) -> Result<u32, Error> {
        let root = self.fs.root();
        for attempt in 0..u32::MAX {
            let name =
                if attempt == 0 { LOST_AND_FOUND.to_owned() } else { format!("{LOST_AND_FOUND}.{attempt}") };
            match self.fs.lookup(root, name.as_bytes()) {
                Err(Error::NotFound) => {
                    let kind = NewKind::Directory;
                    let file = NewFile { kind, permissions: DIRECTORY_MODE, uid: 0, gid: 0 };
                    let never = Timestamp::default();
                    let new = FilledFile {
                        file,
                        size: 0,
                        atime: never,
                        mtime: never,
                        ctime: never,
                        flags: FileFlags::default(),
                        compression: None,
                        xattrs: &[],
                    };
                    return self.fs.fill(root, name.as_bytes(), &new);
                }
                Ok(inode) if self.fs.attributes(inode)?.file_type == FileType::Directory => return Ok(inode),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Exists)
    }
}

/// True if a file without a name still has data.
fn is_worth_saving(file: &File) -> bool {
    match file.inode {
        Some(inode) => inode.links > 0 && !inode.is_xattr(),
        None => !file.blocks.is_empty() || !file.entries.is_empty(),
    }
}

/// Target of a link as Linux reads it: up to the first zero.
fn target(old: &File) -> &[u8] {
    old.attached.split(|&byte| byte == 0).next().unwrap_or(&[])
}

/// Valid form of a time; invalid nanoseconds become 0.
pub(crate) const fn time(seconds: i64, nanoseconds: u32) -> Timestamp {
    Timestamp { seconds, nanoseconds: if nanoseconds < 1_000_000_000 { nanoseconds } else { 0 } }
}

/// File with the properties of the old one; `None` if too few of them are known.
fn new_file(old: &File, file_type: Option<FileType>) -> Option<NewFile<'_>> {
    let kind = match file_type {
        Some(FileType::Regular) => NewKind::Regular,
        Some(FileType::Directory) => NewKind::Directory,
        Some(FileType::Symlink) if !target(old).is_empty() => NewKind::Symlink(target(old)),
        Some(FileType::BlockDevice) => NewKind::BlockDevice(DeviceNumber::parse(&old.attached)?),
        Some(FileType::CharacterDevice) => NewKind::CharacterDevice(DeviceNumber::parse(&old.attached)?),
        Some(FileType::Fifo) => NewKind::Fifo,
        Some(FileType::Socket) => NewKind::Socket,
        None if !old.entries.is_empty() => NewKind::Directory,
        None if !old.blocks.is_empty() => NewKind::Regular,
        _ => return None,
    };
    let default = if matches!(kind, NewKind::Directory) { DIRECTORY_MODE } else { FILE_MODE };
    let permissions = old.inode.map_or(default, |inode| inode.mode & 0o7777);
    let (uid, gid) = old.inode.map_or((0, 0), |inode| (inode.uid, inode.gid));
    Some(NewFile { kind, permissions, uid, gid })
}

/// Flags for a new file with the properties of the old one.
fn flags(inode: &Inode) -> FileFlags {
    let is_directory = inode.file_type() == Some(FileType::Directory);
    let dirsync = FileFlags::DIRSYNC.bits();
    FileFlags::from_bits(if is_directory { inode.flags.bits() } else { inode.flags.bits() & !dirsync })
}

fn changes(inode: &Inode) -> AttributeChanges {
    AttributeChanges {
        permissions: Some(inode.mode & 0o7777),
        uid: Some(inode.uid),
        gid: Some(inode.gid),
        size: None,
        atime: Some(time(inode.atime_s, inode.atime_ns)),
        mtime: Some(time(inode.mtime_s, inode.mtime_ns)),
        ctime: Some(time(inode.ctime_s, inode.ctime_ns)),
        flags: Some(flags(inode)),
        compression: Some(inode.compression),
    }
}
