//! Renaming.

use floatgate_media::file::{DeviceNumber, FileType};

use super::super::error::{Error, Result};
use super::super::space::BudgetRequest;
use super::Ubifs;
use super::attributes::set_ctime;
use super::directory::{check_name, entry_bytes, is_dirsync};
use super::inodes::{Cached, changed_inodes, file_type};
use crate::fs::{Name, NewFile, NewKind, Rename};
use crate::volume::Volume;

/// Inodes found under the two names of a rename.
struct RenameInodes {
    /// Inode to move.
    inode: u32,
    file_type: FileType,
    /// Inode under the target name.
    target: Option<(u32, FileType)>,
}

impl Ubifs<dyn Volume> {
    /// Renames or moves a file atomically: after a power loss it has either the old or the new name.
    ///
    /// # Errors
    /// [`Error::NotFound`], a target that cannot be replaced, a directory moved below itself, no space; volume
    /// failures.
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
            // POSIX: if both names refer to the same file, a rename changes nothing.
            if target == found.inode {
                return Ok(());
            }
            self.removable(target, found.is_directory())?;
        }
        self.refuse_loop(from, to, &found)?;
        self.move_name(from, to, &found, how == Rename::Whiteout)
    }

    fn find_both(&mut self, from: Name<'_>, to: Name<'_>) -> Result<RenameInodes> {
        let source = self.find_entry(from.directory, from.name)?.ok_or(Error::NotFound)?;
        let file_type = self.file_type(source.inode)?;
        let target = match self.find_entry(to.directory, to.name)? {
            Some(entry) => Some((entry.inode, self.file_type(entry.inode)?)),
            None => None,
        };
        Ok(RenameInodes { inode: source.inode, file_type, target })
    }

    fn file_type(&mut self, inode: u32) -> Result<FileType> {
        file_type(&self.inode(inode)?.inode)
    }

    /// Returns an error if a directory would move below itself.
    fn refuse_loop(&mut self, from: Name<'_>, to: Name<'_>, found: &RenameInodes) -> Result<()> {
        if found.is_directory()
            && from.directory != to.directory
            && self.is_below(to.directory, found.inode)?
        {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        Ok(())
    }

    /// True if a directory equals or is below another one. Inodes do not store their parent, so the search goes down
    /// from `root`. Each directory has one name, which bounds the search.
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

    fn move_name(
        &mut self,
        from: Name<'_>,
        to: Name<'_>,
        found: &RenameInodes,
        whiteout: bool,
    ) -> Result<()> {
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
        self.end_budget(cost, outcome)?;
        if let Some((target, _)) = found.target {
            self.delete_if_gone(target)?;
        }
        self.sync_names(from, to, found.inode)
    }

    fn write_move(
        &mut self,
        from: Name<'_>,
        to: Name<'_>,
        found: &RenameInodes,
        whiteout: bool,
    ) -> Result<()> {
        // The moved inode is written later, because only its change time is new.
        let time = self.time;
        set_ctime(&mut self.mark_dirty(found.inode)?.inode, time);
        let mut inodes = Vec::new();
        if whiteout {
            inodes.push(self.new_whiteout(from.directory)?);
        }
        let replacement = inodes.first().map(|cached| (cached.inode.key.inum(), FileType::CharacterDevice));
        if let Some((target, _)) = found.target {
            inodes.push(self.unlinked(target)?);
        }
        inodes.extend(self.changed_parents(from, to, found, whiteout)?);
        let moved = Some((found.inode, found.file_type));
        let names = [(to.directory, to.name, moved), (from.directory, from.name, replacement)];
        self.write_names(&names, inodes)
    }

    fn sync_names(&mut self, from: Name<'_>, to: Name<'_>, inode: u32) -> Result<()> {
        let sync = is_dirsync(self.directory(from.directory)?) || is_dirsync(self.directory(to.directory)?);
        if sync || self.behaviour.sync {
            self.write_inode(inode)?;
        }
        self.sync_if(sync)
    }

    /// Inode for a whiteout that has no entry yet.
    fn new_whiteout(&mut self, directory: u32) -> Result<Cached> {
        let parent = &self.inode(directory)?.inode;
        let file = NewFile {
            kind: NewKind::CharacterDevice(DeviceNumber { major: 0, minor: 0 }),
            permissions: 0,
            uid: parent.uid,
            gid: parent.gid,
        };
        let mut cached = self.new_inode(directory, &file)?;
        // Unlike other device files, a whiteout has size 0, as in Linux.
        (cached.inode.size, cached.synced_size) = (0, 0);
        Ok(cached)
    }

    /// Copies of the one or two directories with new sizes and link counts, to be written.
    fn changed_parents(
        &mut self,
        from: Name<'_>,
        to: Name<'_>,
        found: &RenameInodes,
        whiteout: bool,
    ) -> Result<Vec<Cached>> {
        let moves = from.directory != to.directory;
        let mut parents = vec![self.touched(from.directory)?];
        if moves {
            parents.push(self.touched(to.directory)?);
        }
        let replaced = found.target.is_some();
        if let Some(old) = parents.first_mut() {
            if !whiteout {
                old.inode.size = old.inode.size.saturating_sub(entry_bytes(from.name.len()));
            }
            if found.is_directory() && (moves || replaced) {
                old.inode.links = old.inode.links.saturating_sub(1);
            }
        }
        if let Some(new) = parents.last_mut().filter(|_| !replaced) {
            new.inode.size += entry_bytes(to.name.len());
            new.inode.links += u32::from(found.is_directory() && moves);
        }
        Ok(parents)
    }

    fn exchange(&mut self, from: Name<'_>, to: Name<'_>, found: &RenameInodes) -> Result<()> {
        let (target, target_type) = found.target.ok_or(Error::NotFound)?;
        self.refuse_loop(from, to, found)?;
        let back = RenameInodes { inode: target, file_type: target_type, target: None };
        self.refuse_loop(to, from, &back)?;
        let cost =
            self.acquire(&BudgetRequest { new_entries: 1, changed_entries: 1, ..changed_inodes(2, 0) })?;
        let outcome = self.write_exchange(from, to, found, &back);
        self.end_budget(cost, outcome)?;
        self.sync_names(from, to, found.inode)
    }

    fn write_exchange(
        &mut self,
        from: Name<'_>,
        to: Name<'_>,
        found: &RenameInodes,
        back: &RenameInodes,
    ) -> Result<()> {
        let mut parents = vec![self.touched(from.directory)?];
        if from.directory != to.directory {
            let mut other = self.touched(to.directory)?;
            let one = &mut parents[0].inode.links;
            match (found.is_directory(), back.is_directory()) {
                (true, false) => (*one, other.inode.links) = (one.saturating_sub(1), other.inode.links + 1),
                (false, true) => (*one, other.inode.links) = (*one + 1, other.inode.links.saturating_sub(1)),
                _ => {}
            }
            parents.push(other);
        }
        let names = [
            (to.directory, to.name, Some((found.inode, found.file_type))),
            (from.directory, from.name, Some((back.inode, back.file_type))),
        ];
        self.write_names(&names, parents)
    }
}

impl RenameInodes {
    fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }
}
