//! Walk through a filesystem, in which directories come before their entries.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::ubifs::BLOCK_BYTES;
use floatgate_stack::fs::{Attributes, Error, FileType};

use super::contents::FileContents;
use super::source::{Name, Source, Xattrs, without_inode};
use super::target::{Entry, ExtractError, ExtractLimits, Extracted, Target};
use crate::report::Loss;
use crate::walk::Entered;
use crate::words::show_path;

/// Loss of an encrypted file.
const ENCRYPTED: &str = "encrypted: name and contents stay in the image only";

/// Loss of an encrypted directory whose own name is not encrypted.
const ENCRYPTED_DIRECTORY: &str = "the directory is encrypted: it is restored as one that is not, and empty";

/// Name of the attribute that describes the encryption of a file.
const ENCRYPTION_CONTEXT: &[u8] = b"c";

/// Number of blocks that are listed at a time to find the end of a file.
const BATCH: usize = 4096;

struct Walk<'w> {
    source: &'w mut dyn Source,
    target: &'w mut dyn Target,
    limits: &'w ExtractLimits,
    progress: &'w dyn Fn(u64),
    path: Vec<Vec<u8>>,
    /// Directories that the walk has entered.
    entered: Entered,
    /// First name of each inode with several names.
    first_names: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Inodes with several names that were not restored exactly.
    damaged: BTreeSet<u32>,
    /// Buffer for contents.
    buffer: Vec<u8>,
    done: Extracted,
}

/// A directory that the walk is in.
struct Level {
    attributes: Attributes,
    xattrs: Xattrs,
    /// Names in reverse order.
    names: Vec<Name>,
    /// True if the name of the directory is encrypted, so that the target does not have it.
    encrypted: bool,
}

/// Extracts the whole filesystem; the entries of a directory are in the order of their names. `progress` gets the
/// number of processed bytes after each file.
///
/// # Errors
/// The target cannot be written, or there are more entries than the limit.
pub fn extract(
    source: &mut dyn Source,
    target: &mut dyn Target,
    limits: &ExtractLimits,
    progress: &dyn Fn(u64),
) -> Result<Extracted, ExtractError> {
    let mut walk = Walk {
        source,
        target,
        limits,
        progress,
        path: Vec::new(),
        entered: Entered::new(limits.depth),
        first_names: BTreeMap::new(),
        damaged: BTreeSet::new(),
        buffer: Vec::new(),
        done: Extracted::default(),
    };
    walk.run()?;
    Ok(walk.done)
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), ExtractError> {
        let root = self.source.root();
        let attributes = self.attributes_of(root, FileType::Directory);
        self.report_losses_of(root);
        let attributes = attributes.unwrap_or_else(|| without_inode(root, FileType::Directory, 0));
        let mut levels: Vec<Level> = self.enter(attributes)?.into_iter().collect();
        let names: BTreeSet<Vec<u8>> =
            levels.iter().flat_map(|root| &root.names).map(|name| name.name.clone()).collect();
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                let is_root = levels.len() == 1;
                let nameless =
                    if is_root { self.source.nameless(&|name| names.contains(name)) } else { None };
                if let Some(level) =
                    nameless.map(|nameless| self.visit(nameless, false, false)).transpose()?.flatten()
                {
                    levels.push(level);
                } else if let Some(level) = levels.pop() {
                    self.leave(&level)?;
                }
                continue;
            };
            let again = level.names.last().is_some_and(|next| next.name == name.name);
            let encrypted = level.attributes.is_encrypted();
            levels.extend(self.visit(name, again, encrypted)?);
        }
        Ok(())
    }

    /// Reports a loss once, because a name and its inode can have the same damage.
    fn report_loss(&mut self, what: impl Into<String>) {
        let loss = Loss::new(&self.path, what);
        let mut of_path = self.done.losses.iter().rev().take_while(|other| other.path == loss.path);
        if !of_path.any(|other| *other == loss) {
            self.done.losses.push(loss);
        }
    }

    /// Reports an encrypted file, with the reason why it is not decrypted.
    fn report_encrypted(&mut self, inode: u32, what: &str) {
        match self.source.why_encrypted(inode) {
            Some(why) => self.report_loss(format!("{what} ({why})")),
            None => self.report_loss(what),
        }
    }

    fn report_losses(&mut self, problems: Vec<String>) {
        problems.into_iter().for_each(|what| self.report_loss(what));
    }

    /// Reports the losses of an inode that the source found; the source returns them only once.
    fn report_losses_of(&mut self, inode: u32) {
        let lost = self.source.lost(inode);
        self.report_losses(lost);
    }

    fn target_error(&self, error: std::io::Error) -> ExtractError {
        ExtractError::Target { path: show_path(&self.path), error }
    }

    fn losses(&mut self, outcome: Result<Vec<String>, std::io::Error>) -> Result<(), ExtractError> {
        let problems = outcome.map_err(|error| self.target_error(error))?;
        self.report_losses(problems);
        Ok(())
    }

    /// Visits a name, which may be encrypted. Returns the level of a directory. `again` is true if the next name is
    /// the same.
    fn visit(&mut self, name: Name, again: bool, encrypted: bool) -> Result<Option<Level>, ExtractError> {
        let Name { name, inode, file_type, doubt } = name;
        self.path.push(name);
        self.done.entries += 1;
        if self.done.entries > self.limits.entries {
            let (path, limit) = (show_path(&self.path), self.limits.entries);
            return Err(ExtractError::Limit { path, what: "entries", limit });
        }
        let level = match self.check_name(again) {
            _ if encrypted => self.visit_encrypted(inode, file_type),
            Ok(()) => {
                doubt.into_iter().for_each(|doubt| self.report_loss(doubt));
                self.visit_inode(inode, file_type)?
            }
            Err(what) => {
                self.report_loss(what);
                None
            }
        };
        if level.is_none() {
            self.path.pop();
        }
        Ok(level)
    }

    /// Visits an encrypted name, which is lost with all entries below it.
    fn visit_encrypted(&mut self, inode: u32, file_type: FileType) -> Option<Level> {
        self.report_encrypted(inode, ENCRYPTED);
        if file_type != FileType::Directory {
            return None;
        }
        let attributes = self.attributes_of(inode, file_type)?;
        if !self.may_enter(&attributes) {
            return None;
        }
        let names = self.names(inode);
        Some(Level { attributes, xattrs: Xattrs::new(), names, encrypted: true })
    }

    fn check_name(&self, again: bool) -> Result<(), &'static str> {
        let name = self.path.last().map_or(&[][..], Vec::as_slice);
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|&byte| byte == b'/' || byte == 0) {
            return Err("the name is not one that a directory can have");
        }
        if again { Err("the name is in the directory several times") } else { Ok(()) }
    }

    fn visit_inode(&mut self, inode: u32, file_type: FileType) -> Result<Option<Level>, ExtractError> {
        if let Some(first) = self.first_names.get(&inode).cloned() {
            self.link(inode, &first)?;
            return Ok(None);
        }
        let losses = self.done.losses.len();
        let attributes = self.attributes_of(inode, file_type);
        self.report_losses_of(inode);
        let Some(attributes) = attributes else { return Ok(None) };
        if attributes.file_type != file_type {
            self.report_loss("the directory and the inode say that it is of different types");
        }
        if attributes.file_type == FileType::Directory {
            return self.enter(attributes);
        }
        self.leaf(&attributes)?;
        if attributes.links > 1 && self.done.losses.len() > losses {
            self.damaged.insert(inode);
        }
        Ok(None)
    }

    /// Attributes of an inode, or assumed attributes for a file without one; `None` if there are none.
    fn attributes_of(&mut self, inode: u32, file_type: FileType) -> Option<Attributes> {
        let error = match self.source.attributes(inode) {
            Ok(attributes) => return Some(attributes),
            Err(error) => error,
        };
        let known = matches!(file_type, FileType::Directory | FileType::Regular);
        if error == Error::NotFound || !known {
            self.report_loss(format!("its inode: {error}"));
            return None;
        }
        self.report_loss(format!("its inode, and with it owner, permissions, times and size: {error}"));
        let size = if file_type == FileType::Regular { self.data_end(inode) } else { 0 };
        Some(without_inode(inode, file_type, size))
    }

    /// End of a file's last block, bytes.
    fn data_end(&mut self, inode: u32) -> u64 {
        let mut last = None;
        while let Ok(blocks) = self.source.blocks(inode, last.map_or(0, |last: u32| last + 1), BATCH) {
            let Some(&(block, _)) = blocks.last() else { break };
            last = Some(block);
        }
        last.map_or(0, |last| (u64::from(last) + 1) * u64::from(BLOCK_BYTES))
    }

    /// True if a directory can be entered; otherwise it is a loss.
    fn may_enter(&mut self, attributes: &Attributes) -> bool {
        let entered = self.entered.enter(attributes.inode, self.path.len());
        if let Err(refused) = entered {
            self.report_loss(refused.to_string());
        }
        entered.is_ok()
    }

    fn enter(&mut self, attributes: Attributes) -> Result<Option<Level>, ExtractError> {
        if !self.may_enter(&attributes) {
            return Ok(None);
        }
        let mut xattrs = self.xattrs(&attributes);
        if attributes.is_encrypted() {
            // The name of the directory itself is not encrypted.
            self.report_encrypted(attributes.inode, ENCRYPTED_DIRECTORY);
            xattrs.retain(|(name, _)| name != ENCRYPTION_CONTEXT);
        }
        let outcome = self.target.enter(&Entry {
            path: &self.path,
            attributes: &attributes,
            xattrs: &xattrs,
            target: None,
        });
        self.losses(outcome)?;
        let names = self.names(attributes.inode);
        Ok(Some(Level { attributes, xattrs, names, encrypted: false }))
    }

    /// Names of a directory in reverse order.
    fn names(&mut self, directory: u32) -> Vec<Name> {
        let (mut names, damage) = self.source.names(directory);
        self.report_losses(damage);
        self.report_losses_of(directory);
        names.sort_by(|a, b| b.name.cmp(&a.name));
        names
    }

    fn leave(&mut self, level: &Level) -> Result<(), ExtractError> {
        let (attributes, xattrs) = (&level.attributes, &level.xattrs);
        if !level.encrypted {
            let outcome = self.target.leave(&Entry { path: &self.path, attributes, xattrs, target: None });
            self.losses(outcome)?;
        }
        self.path.pop();
        Ok(())
    }

    fn leaf(&mut self, attributes: &Attributes) -> Result<(), ExtractError> {
        if attributes.is_encrypted() {
            self.report_encrypted(attributes.inode, ENCRYPTED);
            return Ok(());
        }
        if attributes.links > 1 {
            self.first_names.insert(attributes.inode, self.path.clone());
        }
        let xattrs = self.xattrs(attributes);
        match attributes.file_type {
            FileType::Regular => self.file(attributes, &xattrs),
            FileType::Other(_) => {
                self.report_loss("it is of an unknown type");
                Ok(())
            }
            _ => self.special(attributes, &xattrs),
        }
    }

    fn link(&mut self, inode: u32, first: &[Vec<u8>]) -> Result<(), ExtractError> {
        let attributes = match self.source.attributes(inode) {
            Ok(attributes) => attributes,
            Err(error) => {
                self.report_loss(format!("its inode: {error}"));
                return Ok(());
            }
        };
        if self.damaged.contains(&inode) {
            self.report_loss(format!("another name of {}, see there", show_path(first)));
        }
        let entry = Entry { path: &self.path, attributes: &attributes, xattrs: &[], target: None };
        let outcome = self.target.link(&entry, first);
        self.losses(outcome)
    }

    fn file(&mut self, attributes: &Attributes, xattrs: &Xattrs) -> Result<(), ExtractError> {
        let bytes = self.done.bytes.saturating_add(attributes.size);
        if bytes > self.limits.bytes {
            self.report_loss(format!(
                "with its {} bytes there would be more than {}",
                attributes.size, self.limits.bytes
            ));
            self.first_names.remove(&attributes.inode);
            return Ok(());
        }
        self.done.bytes = bytes;
        let entry = Entry { path: &self.path, attributes, xattrs, target: None };
        let buffer = core::mem::take(&mut self.buffer);
        let mut contents = FileContents::new(self.source, attributes.inode, attributes.size, buffer);
        let outcome = self.target.file(&entry, &mut contents);
        let damage = super::contents::Contents::damage(&mut contents);
        self.buffer = contents.into_buffer();
        self.report_losses(damage);
        self.report_losses_of(attributes.inode);
        self.losses(outcome)?;
        (self.progress)(self.done.bytes);
        Ok(())
    }

    fn special(&mut self, attributes: &Attributes, xattrs: &Xattrs) -> Result<(), ExtractError> {
        let target = match attributes.file_type {
            FileType::Symlink => match self.source.read_link(attributes.inode) {
                Ok(mut target) => {
                    if let Some(zero) = target.iter().position(|&byte| byte == 0) {
                        self.report_loss("the target of the link has a zero in it: what follows that is left out, as Linux does");
                        target.truncate(zero);
                    }
                    Some(target)
                }
                Err(error) => {
                    self.report_loss(format!("the target of the link: {error}"));
                    // The other names of the file are lost as well.
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

    /// Extended attributes; unreadable ones are losses.
    fn xattrs(&mut self, attributes: &Attributes) -> Xattrs {
        // Most files have no attributes, and listing them requires a lookup in the index.
        if attributes.xattr_count == 0 {
            return Vec::new();
        }
        let (mut xattrs, damage) = self.source.xattrs(attributes.inode);
        self.report_losses(damage);
        xattrs.sort();
        xattrs
    }
}
