//! Going through a filesystem, directories before what they hold.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::ubifs::FileType;
use floatgate_stack::Volume;
use floatgate_stack::ubifs::{Attributes, DirEntry, Ubifs};

use super::contents::FileContents;
use super::{ExtractError, ExtractLimits, Extracted, Loss, Target, show_path};

/// What is lost of an encrypted file.
const ENCRYPTED: &str = "encrypted: name and contents stay in the image only";

/// Name of the attribute that says how a file is encrypted.
const ENCRYPTION_CONTEXT: &[u8] = b"c";

/// Entries of a directory that are listed at a time.
const BATCH: usize = 256;

/// A file as a target gets it.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Names from the root; empty for the root. None is empty, `.` or `..`, none has a slash or a zero in it.
    pub path: &'a [Vec<u8>],
    /// Attributes.
    pub attributes: &'a Attributes,
    /// Extended attributes, names with their prefix.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
    /// Of a symbolic link.
    pub target: Option<&'a [u8]>,
}

struct Walk<'w, V> {
    fs: &'w mut Ubifs<V>,
    target: &'w mut dyn Target,
    limits: &'w ExtractLimits,
    progress: &'w dyn Fn(u64),
    path: Vec<Vec<u8>>,
    /// Directories on the way, against loops.
    open: BTreeSet<u32>,
    /// Inodes with several names: the first one.
    first_names: BTreeMap<u32, Vec<Vec<u8>>>,
    done: Extracted,
}

/// A directory whose entries are being gone through.
struct Level {
    attributes: Attributes,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    entries: Vec<DirEntry>,
    /// Its own name is encrypted: the target does not have it.
    encrypted: bool,
}

/// Gives a target all of a filesystem, entries of a directory in the order of their names.
///
/// # Errors
/// The target cannot be written, or a limit was passed.
pub fn walk<V: Volume>(
    fs: &mut Ubifs<V>,
    target: &mut dyn Target,
    limits: &ExtractLimits,
    progress: &dyn Fn(u64),
) -> Result<Extracted, ExtractError> {
    let mut walk = Walk {
        fs,
        target,
        limits,
        progress,
        path: Vec::new(),
        open: BTreeSet::new(),
        first_names: BTreeMap::new(),
        done: Extracted::default(),
    };
    walk.run()?;
    Ok(walk.done)
}

impl<V: Volume> Walk<'_, V> {
    fn run(&mut self) -> Result<(), ExtractError> {
        let root = self.fs.root();
        let mut levels: Vec<Level> = self.enter(root)?.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.entries.pop() else {
                if let Some(level) = levels.pop() {
                    self.leave(&level)?;
                }
                continue;
            };
            levels.extend(self.visit(entry)?);
        }
        Ok(())
    }

    fn lose(&mut self, what: impl Into<String>) {
        self.done.losses.push(Loss::new(&self.path, what));
    }

    fn target_error(&self, error: std::io::Error) -> ExtractError {
        ExtractError::Target { path: show_path(&self.path), error }
    }

    fn limit(&self, what: &'static str, limit: u64) -> ExtractError {
        ExtractError::Limit { path: show_path(&self.path), what, limit }
    }

    fn losses(&mut self, outcome: Result<Vec<String>, std::io::Error>) -> Result<(), ExtractError> {
        let problems = outcome.map_err(|error| self.target_error(error))?;
        problems.into_iter().for_each(|what| self.lose(what));
        Ok(())
    }

    /// One entry; a level if it is a directory.
    fn visit(&mut self, entry: DirEntry) -> Result<Option<Level>, ExtractError> {
        self.path.push(entry.name);
        self.done.entries += 1;
        if self.done.entries > self.limits.entries {
            return Err(self.limit("entries", self.limits.entries));
        }
        if entry.encrypted {
            return self.visit_encrypted(entry.inode, entry.file_type);
        }
        let name = self.path.last().map_or(&[][..], Vec::as_slice);
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|&byte| byte == b'/' || byte == 0) {
            self.lose("the name is not one that a directory can have");
            self.path.pop();
            return Ok(None);
        }
        if entry.file_type == FileType::Directory {
            let level = self.enter(entry.inode)?;
            if level.is_none() {
                self.path.pop();
            }
            return Ok(level);
        }
        self.leaf(entry.inode)?;
        self.path.pop();
        Ok(None)
    }

    /// An entry whose name is encrypted: it is lost, and so is all below it.
    fn visit_encrypted(&mut self, inode: u32, file_type: FileType) -> Result<Option<Level>, ExtractError> {
        self.lose(ENCRYPTED);
        let level = if file_type == FileType::Directory { self.enter_encrypted(inode)? } else { None };
        if level.is_none() {
            self.path.pop();
        }
        Ok(level)
    }

    fn enter_encrypted(&mut self, inode: u32) -> Result<Option<Level>, ExtractError> {
        let Some(attributes) = self.check_directory(inode)? else { return Ok(None) };
        let entries = self.entries(inode);
        self.open.insert(inode);
        Ok(Some(Level { attributes, xattrs: Vec::new(), entries, encrypted: true }))
    }

    /// A directory that can be entered, or `None` and a loss.
    fn check_directory(&mut self, inode: u32) -> Result<Option<Attributes>, ExtractError> {
        if self.path.len() > self.limits.depth {
            return Err(self.limit("directories inside each other", self.limits.depth as u64));
        }
        if self.open.contains(&inode) {
            self.lose("the directory contains itself");
            return Ok(None);
        }
        match self.fs.attributes(inode) {
            Ok(attributes) => Ok(Some(attributes)),
            Err(error) => {
                self.lose(format!("the directory and all it holds: {error}"));
                Ok(None)
            }
        }
    }

    fn enter(&mut self, inode: u32) -> Result<Option<Level>, ExtractError> {
        let Some(attributes) = self.check_directory(inode)? else { return Ok(None) };
        let mut xattrs = self.xattrs(inode, &attributes);
        if attributes.is_encrypted() {
            // Its own name can be plain.
            self.lose("the directory is not encrypted any more: how stays in the image only");
            xattrs.retain(|(name, _)| name != ENCRYPTION_CONTEXT);
        }
        let outcome = self.target.enter(&Entry {
            path: &self.path,
            attributes: &attributes,
            xattrs: &xattrs,
            target: None,
        });
        self.losses(outcome)?;
        let entries = self.entries(inode);
        self.open.insert(inode);
        Ok(Some(Level { attributes, xattrs, entries, encrypted: false }))
    }

    /// Entries of a directory, the last name first.
    fn entries(&mut self, inode: u32) -> Vec<DirEntry> {
        let mut entries: Vec<DirEntry> = Vec::new();
        loop {
            match self.fs.read_dir(inode, entries.last(), BATCH) {
                Ok(more) if more.is_empty() => break,
                Ok(more) => entries.extend(more),
                Err(error) => {
                    self.lose(format!("entries of the directory: {error}"));
                    break;
                }
            }
        }
        entries.sort_by(|a, b| b.name.cmp(&a.name));
        entries
    }

    fn leave(&mut self, level: &Level) -> Result<(), ExtractError> {
        let (attributes, xattrs) = (&level.attributes, &level.xattrs);
        if !level.encrypted {
            let outcome = self.target.leave(&Entry { path: &self.path, attributes, xattrs, target: None });
            self.losses(outcome)?;
        }
        self.open.remove(&attributes.inode);
        self.path.pop();
        Ok(())
    }

    fn leaf(&mut self, inode: u32) -> Result<(), ExtractError> {
        if let Some(first) = self.first_names.get(&inode) {
            let first = first.clone();
            return self.link(inode, &first);
        }
        let attributes = match self.fs.attributes(inode) {
            Ok(attributes) => attributes,
            Err(error) => {
                self.lose(format!("the file: {error}"));
                return Ok(());
            }
        };
        if attributes.is_encrypted() {
            self.lose(ENCRYPTED);
            return Ok(());
        }
        if attributes.links > 1 {
            self.first_names.insert(inode, self.path.clone());
        }
        let xattrs = self.xattrs(inode, &attributes);
        match attributes.file_type {
            FileType::Regular => self.file(&attributes, &xattrs),
            _ => self.special(&attributes, &xattrs),
        }
    }

    fn link(&mut self, inode: u32, first: &[Vec<u8>]) -> Result<(), ExtractError> {
        let attributes = match self.fs.attributes(inode) {
            Ok(attributes) => attributes,
            Err(error) => {
                self.lose(format!("the file: {error}"));
                return Ok(());
            }
        };
        let entry = Entry { path: &self.path, attributes: &attributes, xattrs: &[], target: None };
        let outcome = self.target.link(&entry, first);
        self.losses(outcome)
    }

    fn file(&mut self, attributes: &Attributes, xattrs: &[(Vec<u8>, Vec<u8>)]) -> Result<(), ExtractError> {
        self.done.bytes = self.done.bytes.saturating_add(attributes.size);
        if self.done.bytes > self.limits.bytes {
            return Err(self.limit("bytes", self.limits.bytes));
        }
        let entry = Entry { path: &self.path, attributes, xattrs, target: None };
        let mut contents = FileContents::new(self.fs, attributes.inode, attributes.size);
        let outcome = self.target.file(&entry, &mut contents);
        let damage = super::Contents::damage(&mut contents);
        damage.into_iter().for_each(|what| self.lose(what));
        self.losses(outcome)?;
        (self.progress)(self.done.bytes);
        Ok(())
    }

    fn special(
        &mut self,
        attributes: &Attributes,
        xattrs: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<(), ExtractError> {
        let target = match attributes.file_type {
            FileType::Symlink => match self.fs.read_link(attributes.inode) {
                Ok(target) => Some(target),
                Err(error) => {
                    self.lose(format!("the symbolic link: {error}"));
                    // Its other names are lost as well.
                    self.first_names.remove(&attributes.inode);
                    return Ok(());
                }
            },
            _ => None,
        };
        let entry = Entry { path: &self.path, attributes, xattrs, target: target.as_deref() };
        let outcome = self.target.special(&entry);
        self.losses(outcome)
    }

    /// Extended attributes; those that cannot be read are losses.
    fn xattrs(&mut self, inode: u32, attributes: &Attributes) -> Vec<(Vec<u8>, Vec<u8>)> {
        // Most files have none, and the list costs a look into the index.
        if attributes.xattr_count == 0 {
            return Vec::new();
        }
        let names = match self.fs.list_xattrs(inode) {
            Ok(names) => names,
            Err(error) => {
                self.lose(format!("extended attributes: {error}"));
                return Vec::new();
            }
        };
        let mut xattrs = Vec::with_capacity(names.len().min(BATCH));
        for name in names {
            match self.fs.get_xattr(inode, &name) {
                Ok(value) => xattrs.push((name, value)),
                Err(error) => self.lose(format!("extended attribute {}: {error}", super::show_name(&name))),
            }
        }
        xattrs.sort();
        xattrs
    }
}
