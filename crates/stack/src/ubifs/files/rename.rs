//! Renaming.

use floatgate_media::ubifs::{DeviceNumber, FileType};

use super::super::error::{Error, Result};
use super::super::space::BudgetRequest;
use super::Ubifs;
use super::attributes::set_ctime;
use super::directory::{check_name, entry_bytes};
use super::inodes::{changed_inodes, file_type};
use super::types::{NewFile, NewKind, Rename};
use crate::volume::Volume;

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The directory.
    pub directory: u32,
    /// The name in it.
    pub name: &'a [u8],
}

/// What a rename found.
struct Found {
    /// The inode to move.
    inode: u32,
    is_directory: bool,
    /// What has the target's name.
    target: Option<(u32, bool)>,
}

impl<V: Volume> Ubifs<V> {
    /// Gives a file another name, and perhaps another directory, at once: after a loss of power it has one or the other.
    ///
    /// # Errors
    /// [`Error::NotFound`], a target that cannot be replaced, a directory moved below itself, no space; failures of the volume.
    pub fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        check_name(from.name)?;
        check_name(to.name)?;
        self.changeable_directory(from.directory)?;
        self.changeable_directory(to.directory)?;
        let found = self.find_both(from, to)?;
        if how == Rename::Exchange {
            return self.exchange(from, to, &found);
        }
        if let Some((target, _)) = found.target {
            if how == Rename::KeepTarget {
                return Err(Error::Exists);
            }
            // As POSIX has it: two names of one file stay as they are.
            if target == found.inode {
                return Ok(());
            }
            self.replaceable(&found, target)?;
        }
        self.refuse_loop(from, to, &found)?;
        self.move_name(from, to, &found, how == Rename::Whiteout)
    }

    fn find_both(&mut self, from: Name<'_>, to: Name<'_>) -> Result<Found> {
        let source = self.find_entry(from.directory, from.name)?.ok_or(Error::NotFound)?;
        let is_directory = self.is_directory(source.inode)?;
        let target = match self.find_entry(to.directory, to.name)? {
            Some(entry) => Some((entry.inode, self.is_directory(entry.inode)?)),
            None => None,
        };
        Ok(Found { inode: source.inode, is_directory, target })
    }

    fn is_directory(&mut self, inode: u32) -> Result<bool> {
        Ok(file_type(&self.inode(inode)?.inode)? == FileType::Directory)
    }

    fn replaceable(&mut self, found: &Found, target: u32) -> Result<()> {
        self.removable(target, found.is_directory)
    }

    /// Refuses to move a directory below itself.
    fn refuse_loop(&mut self, from: Name<'_>, to: Name<'_>, found: &Found) -> Result<()> {
        if found.is_directory && from.directory != to.directory && self.is_below(to.directory, found.inode)? {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        Ok(())
    }

    /// Whether a directory is, or lies below, another one. Inodes do not name their parent, so that the way is down; a directory
    /// has one name, which bounds the search.
    fn is_below(&mut self, directory: u32, root: u32) -> Result<bool> {
        let mut pending = vec![root];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(current) = pending.pop() {
            if current == directory {
                return Ok(true);
            }
            if !seen.insert(current) {
                continue;
            }
            let mut last = None;
            loop {
                let entries = self.read_dir(current, last.as_ref(), 64)?;
                let directories = entries.iter().filter(|entry| entry.file_type == FileType::Directory);
                pending.extend(directories.map(|entry| entry.inode));
                match entries.into_iter().last() {
                    Some(entry) => last = Some(entry),
                    None => break,
                }
            }
        }
        Ok(false)
    }

    fn move_name(&mut self, from: Name<'_>, to: Name<'_>, found: &Found, whiteout: bool) -> Result<()> {
        let target_data = match found.target {
            Some((target, _)) => self.inode(target)?.data.len(),
            None => 0,
        };
        let request = BudgetRequest {
            new_entries: 1,
            changed_entries: 1,
            new_inodes: u32::from(whiteout),
            new_inode_bytes: 8 * u32::from(whiteout),
            ..changed_inodes(3, target_data)
        };
        let cost = self.acquire(&request)?;
        let outcome = self.write_move(from, to, found, whiteout);
        self.settle(cost, outcome)?;
        if let Some((target, _)) = found.target {
            self.delete_if_gone(target)?;
        }
        self.sync_names(from, to, found.inode)
    }

    fn write_move(&mut self, from: Name<'_>, to: Name<'_>, found: &Found, whiteout: bool) -> Result<()> {
        // The inode that moves is written later: only its time of change is new.
        self.mark_dirty(found.inode)?;
        let time = self.time;
        set_ctime(&mut self.inode(found.inode)?.inode, time);
        let replacement = if whiteout { Some(self.new_whiteout(from.directory)?) } else { None };
        self.adjust_parents(from, to, found, whiteout)?;
        let mut inodes: Vec<u32> = replacement.into_iter().collect();
        if let Some((target, _)) = found.target {
            self.drop_link(target)?;
            inodes.push(target);
        }
        inodes.push(from.directory);
        if to.directory != from.directory {
            inodes.push(to.directory);
        }
        let names = [(to.directory, to.name, Some(found.inode)), (from.directory, from.name, replacement)];
        self.write_names(&names, &inodes)
    }

    fn sync_names(&mut self, from: Name<'_>, to: Name<'_>, inode: u32) -> Result<()> {
        let sync = self.is_dirsync(from.directory) || self.is_dirsync(to.directory);
        if sync || self.behaviour.sync {
            self.write_inode(inode)?;
        }
        self.sync_if(sync)
    }

    /// An inode for a whiteout, which has no entry yet.
    fn new_whiteout(&mut self, directory: u32) -> Result<u32> {
        let parent = &self.inode(directory)?.inode;
        let file = NewFile {
            kind: NewKind::CharacterDevice(DeviceNumber { major: 0, minor: 0 }),
            permissions: 0,
            uid: parent.uid,
            gid: parent.gid,
        };
        let mut cached = self.new_inode(directory, &file)?;
        // Other than that of a device, as in Linux.
        (cached.inode.size, cached.synced_size) = (0, 0);
        let inode = cached.inode.key.inum();
        self.inodes.insert(inode, cached);
        Ok(inode)
    }

    /// Sizes and links of the two directories.
    fn adjust_parents(&mut self, from: Name<'_>, to: Name<'_>, found: &Found, whiteout: bool) -> Result<()> {
        let moves = from.directory != to.directory;
        let old = self.touch(from.directory)?;
        if !whiteout {
            old.inode.size = old.inode.size.saturating_sub(entry_bytes(from.name.len()));
        }
        let replaced = found.target.is_some();
        if found.is_directory && (moves || replaced) {
            old.inode.links = old.inode.links.saturating_sub(1);
        }
        let new = self.touch(to.directory)?;
        if !replaced {
            new.inode.size += entry_bytes(to.name.len());
            new.inode.links += u32::from(found.is_directory && moves);
        }
        Ok(())
    }

    fn exchange(&mut self, from: Name<'_>, to: Name<'_>, found: &Found) -> Result<()> {
        let (target, target_is_directory) = found.target.ok_or(Error::NotFound)?;
        self.refuse_loop(from, to, found)?;
        let back = Found { inode: target, is_directory: target_is_directory, target: None };
        self.refuse_loop(to, from, &back)?;
        let cost =
            self.acquire(&BudgetRequest { new_entries: 1, changed_entries: 1, ..changed_inodes(2, 0) })?;
        let moves = from.directory != to.directory;
        if moves && found.is_directory != target_is_directory {
            let (gains, loses) = if found.is_directory {
                (to.directory, from.directory)
            } else {
                (from.directory, to.directory)
            };
            self.directory(gains)?.inode.links += 1;
            let loser = self.directory(loses)?;
            loser.inode.links = loser.inode.links.saturating_sub(1);
        }
        self.touch(from.directory)?;
        self.touch(to.directory)?;
        let names = [(to.directory, to.name, Some(found.inode)), (from.directory, from.name, Some(target))];
        let inodes = [from.directory, to.directory];
        let outcome = self.write_names(&names, if moves { &inodes } else { &inodes[..1] });
        self.settle(cost, outcome)?;
        self.sync_names(from, to, found.inode)
    }
}
