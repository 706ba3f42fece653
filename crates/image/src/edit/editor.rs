//! Changes to the files of a mounted filesystem.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_stack::fs::{
    AttributeChanges, Error, FileSystem, FileType, Name, NewFile, NewKind, Rename, SetXattr,
};

use super::{EditError, Edited, ImagePath, Permissions};
use crate::report::Loss;
use crate::walk::Walk;
use crate::words::count;

/// Text about the attribute names that all filesystems support.
const XATTR_NAMES: &str = "attributes are named user.NAME, trusted.NAME or security.NAME";

/// Text about the attribute names that a filesystem with ACLs supports.
const XATTR_AND_ACL_NAMES: &str = "attributes are named user.NAME, trusted.NAME, security.NAME, system.posix_acl_access or system.posix_acl_default";

/// Function that determines the changes of an inode, if any.
type Changes<'c> = dyn Fn(&mut dyn FileSystem, u32) -> Result<Option<AttributeChanges>, Error> + 'c;

/// An owner to set; `None` leaves a value unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Owner: user id.
    pub uid: Option<u32>,
    /// Owner: group id.
    pub gid: Option<u32>,
}

impl std::str::FromStr for Owner {
    type Err = String;

    /// Parses `UID`, `UID:GID` or `:GID`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (uid, gid) = text.split_once(':').map_or((text, None), |(uid, gid)| (uid, Some(gid)));
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text:?} is no number: UID:GID"));
        let uid = if uid.is_empty() && gid.is_some() { None } else { Some(number(uid)?) };
        Ok(Self { uid, gid: gid.map(number).transpose()? })
    }
}

/// Longest common beginning of some paths; for one path, the path itself.
fn common<'p>(mut paths: impl Iterator<Item = &'p Vec<Vec<u8>>>) -> Vec<Vec<u8>> {
    let mut common = paths.next().cloned().unwrap_or_default();
    for path in paths {
        let same = common.iter().zip(path).take_while(|(one, other)| one == other).count();
        common.truncate(same);
    }
    common
}

/// Changes files of a mounted filesystem, and counts the changes.
pub struct Editor<'f> {
    pub(super) fs: &'f mut dyn FileSystem,
    /// Changes made so far.
    pub done: Edited,
    /// Inodes whose owner or permissions the filesystem has not stored, each with its path.
    unkept: BTreeMap<u32, Vec<Vec<u8>>>,
}

impl<'f> Editor<'f> {
    /// Creates an editor for a filesystem that is mounted for writing.
    pub fn new(fs: &'f mut dyn FileSystem) -> Self {
        Self { fs, done: Edited::default(), unkept: BTreeMap::new() }
    }

    /// Returns the report on the changes. Owners and permissions that the filesystem cannot store are losses.
    pub(super) fn end(mut self) -> Edited {
        if !self.unkept.is_empty() {
            let entries = count(self.unkept.len() as u64, "entry");
            let what = format!(
                "the filesystem has no owners and permissions: those of {entries} are lost, and root, 755 for directories and 644 for files are assumed"
            );
            self.done.losses.push(Loss::new(&common(self.unkept.values()), what));
        }
        self.done
    }

    /// True if the filesystem can contain only regular files and directories.
    pub(super) fn holds_files_only(&self) -> bool {
        let holds = self.fs.holds();
        !holds.flags && !holds.nanoseconds
    }

    /// Records an inode if its owner or permissions differ from those that were set; in this case returns false.
    pub(super) fn note_unkept(
        &mut self,
        path: &ImagePath,
        inode: u32,
        wanted: &AttributeChanges,
    ) -> Result<bool, Error> {
        if !self.holds_files_only() {
            return Ok(true);
        }
        let found = self.fs.attributes(inode)?;
        let is = |wanted: Option<u32>, found: u32| wanted.is_none_or(|wanted| wanted == found);
        let is_kept = is(wanted.permissions, found.mode & 0o7777)
            && is(wanted.uid, found.uid)
            && is(wanted.gid, found.gid);
        if !is_kept {
            self.unkept.insert(inode, path.parts().to_vec());
        }
        Ok(is_kept)
    }

    pub(super) fn is_directory(&mut self, path: &ImagePath, inode: u32) -> Result<bool, EditError> {
        let attributes = self.fs.attributes(inode).map_err(path.failed())?;
        Ok(attributes.file_type == FileType::Directory)
    }

    /// True if a file of any type exists at this path.
    ///
    /// # Errors
    /// Damage; a file instead of a directory in the path.
    pub fn exists(&mut self, path: &ImagePath) -> Result<bool, EditError> {
        Ok(path.find(self.fs)?.is_some())
    }

    /// True if this path is a directory.
    ///
    /// # Errors
    /// A missing file; damage.
    pub fn is_dir(&mut self, path: &ImagePath) -> Result<bool, EditError> {
        let inode = path.inode(self.fs)?;
        self.is_directory(path, inode)
    }

    /// Path of a file with a name after it is moved to `to`: inside `to` if that is an existing directory, otherwise
    /// `to` itself.
    pub(super) fn target(&mut self, to: &ImagePath, name: &[u8]) -> Result<ImagePath, EditError> {
        match to.find(self.fs)? {
            Some(inode) if self.is_directory(to, inode)? => Ok(to.join(name)),
            Some(_) if to.is_directory => Err(to.failed()(Error::NotDirectory)),
            None if to.is_directory => Err(to.failed()(Error::NotFound)),
            _ => Ok(to.clone()),
        }
    }

    /// Creates a directory. With `parents`, missing parent directories are also created, and an existing directory is
    /// no error.
    ///
    /// # Errors
    /// An existing directory, a file instead of a directory in the path, no space.
    pub fn make_dir(
        &mut self,
        path: &ImagePath,
        parents: bool,
        permissions: u32,
        owner: Owner,
    ) -> Result<(), EditError> {
        if parents {
            return self.make_dirs(path, permissions, owner);
        }
        let at = path.name(self.fs)?;
        self.create(path, at, NewKind::Directory, permissions, owner).map(drop)
    }

    fn make_dirs(&mut self, path: &ImagePath, permissions: u32, owner: Owner) -> Result<(), EditError> {
        let mut directory = self.fs.root();
        for name in path.parts() {
            let found = match self.fs.lookup(directory, name) {
                Err(Error::NotFound) => {
                    self.create(path, Name { directory, name }, NewKind::Directory, permissions, owner)?
                }
                other => other.map_err(path.failed())?,
            };
            if !self.is_directory(path, found)? {
                return Err(path.failed()(Error::NotDirectory));
            }
            directory = found;
        }
        Ok(())
    }

    pub(super) fn create(
        &mut self,
        path: &ImagePath,
        at: Name<'_>,
        kind: NewKind<'_>,
        permissions: u32,
        owner: Owner,
    ) -> Result<u32, EditError> {
        let (uid, gid) = (owner.uid.unwrap_or(0), owner.gid.unwrap_or(0));
        let file = NewFile { kind, permissions, uid, gid };
        let inode = self.fs.create(at.directory, at.name, &file).map_err(path.failed())?;
        self.done.entries += 1;
        let wanted = AttributeChanges {
            permissions: Some(permissions),
            uid: Some(uid),
            gid: Some(gid),
            ..AttributeChanges::default()
        };
        self.note_unkept(path, inode, &wanted).map_err(path.failed())?;
        Ok(inode)
    }

    /// Removes a file; with `recursive`, also a directory with its contents. Without it, a directory is an error.
    ///
    /// # Errors
    /// A missing file, or a directory.
    pub fn remove(&mut self, path: &ImagePath, recursive: bool) -> Result<(), EditError> {
        let at = path.name(self.fs)?;
        let inode = self.fs.lookup(at.directory, at.name).map_err(path.failed())?;
        match (self.is_directory(path, inode)?, recursive) {
            (true, true) => self.remove_tree(path, at, inode),
            (true, false) => Err(path.failed()(Error::IsDirectory)),
            (false, _) => {
                self.done.entries += 1;
                self.fs.unlink(at.directory, at.name).map_err(path.failed())
            }
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// A missing directory, a file that is not a directory, a directory that is not empty.
    pub fn remove_dir(&mut self, path: &ImagePath) -> Result<(), EditError> {
        let at = path.name(self.fs)?;
        self.done.entries += 1;
        self.fs.remove_dir(at.directory, at.name).map_err(path.failed())
    }

    /// Removes the contents of a directory, bottom up, and then the directory.
    fn remove_tree(&mut self, path: &ImagePath, at: Name<'_>, inode: u32) -> Result<(), EditError> {
        let mut directories = vec![(at.directory, at.name.to_vec())];
        let mut walk = Walk::new(inode);
        while let Some(directory) = walk.next(self.fs) {
            let directory = directory.map_err(|error| path.not_walked(error))?;
            for entry in directory.entries {
                if entry.file_type == FileType::Directory {
                    directories.push((directory.inode, entry.name));
                } else {
                    self.done.entries += 1;
                    self.fs.unlink(directory.inode, &entry.name).map_err(path.failed())?;
                }
            }
        }
        // Each entry was found after its directory.
        for (parent, name) in directories.iter().rev() {
            self.done.entries += 1;
            self.fs.remove_dir(*parent, name).map_err(path.failed())?;
        }
        Ok(())
    }

    /// Renames a file, or moves it into an existing directory. An existing file with the new name is replaced; with
    /// [`Rename::KeepTarget`] it is an error.
    ///
    /// # Errors
    /// A missing file, a target that cannot be replaced, a directory that is moved into itself.
    pub fn rename(&mut self, from: &ImagePath, to: &ImagePath, how: Rename) -> Result<(), EditError> {
        let source = from.name(self.fs)?;
        self.fs.lookup(source.directory, source.name).map_err(from.failed())?;
        let to = if how == Rename::Exchange { to.clone() } else { self.target_of_rename(to, source)? };
        let target = to.name(self.fs)?;
        self.done.entries += 1;
        self.fs.rename(source, target, how).map_err(to.failed())
    }

    /// Path of a renamed file, by the rules of [`target`](Self::target). The new name of a directory may end with a
    /// slash.
    fn target_of_rename(&mut self, to: &ImagePath, source: Name<'_>) -> Result<ImagePath, EditError> {
        let plain = to.meaning_directory(false);
        let moved = self.fs.lookup(source.directory, source.name).map_err(to.failed())?;
        let to = if self.is_directory(to, moved)? { &plain } else { to };
        self.target(to, source.name)
    }

    /// Adds another name to a file (hard link).
    ///
    /// # Errors
    /// A missing file, a directory, a new name that exists.
    pub fn link(&mut self, existing: &ImagePath, name: &ImagePath) -> Result<(), EditError> {
        let inode = existing.inode(self.fs)?;
        let attributes = self.fs.attributes(inode).map_err(existing.failed())?;
        if attributes.file_type == FileType::Directory {
            return Err(existing.refused("a directory has one name only"));
        }
        let last = existing.parts().last().map_or(&[][..], Vec::as_slice);
        let name = self.target(name, last)?;
        let at = name.name(self.fs)?;
        self.done.entries += 1;
        self.fs.link(inode, at.directory, at.name).map_err(name.failed())
    }

    /// Creates a symbolic link. The target may be any text.
    ///
    /// # Errors
    /// An existing name, or a target that is empty or too long.
    pub fn symlink(&mut self, target: &[u8], name: &ImagePath, owner: Owner) -> Result<(), EditError> {
        let last = target.rsplit(|&byte| byte == b'/').find(|part| !part.is_empty());
        let name = self.target(name, last.unwrap_or(b"link"))?;
        let at = name.name(self.fs)?;
        self.create(&name, at, NewKind::Symlink(target), 0o777, owner).map(drop)
    }

    /// Changes permissions; with `recursive`, also those of a directory's contents, except symbolic links.
    ///
    /// # Errors
    /// A missing file.
    pub fn chmod(
        &mut self,
        path: &ImagePath,
        permissions: &Permissions,
        recursive: bool,
    ) -> Result<(), EditError> {
        self.change(path, recursive, &|fs, inode| {
            let attributes = fs.attributes(inode)?;
            if attributes.file_type == FileType::Symlink {
                return Ok(None);
            }
            let is_directory = attributes.file_type == FileType::Directory;
            let mode = permissions.apply(attributes.mode, is_directory);
            Ok(Some(AttributeChanges { permissions: Some(mode), ..AttributeChanges::default() }))
        })
    }

    /// Changes owner and group; with `recursive`, also those of a directory's contents. The bits set-user-id and
    /// set-group-id of regular files are cleared, as in Linux.
    ///
    /// # Errors
    /// A missing file.
    pub fn chown(&mut self, path: &ImagePath, owner: Owner, recursive: bool) -> Result<(), EditError> {
        self.change(path, recursive, &|fs, inode| {
            let attributes = fs.attributes(inode)?;
            let is_file = attributes.file_type == FileType::Regular;
            // Without the right to execute for the group, set-group-id means locking.
            let locking = attributes.mode & 0o2010 == 0o2000;
            let cleared = attributes.mode & 0o7777 & if locking { !0o4000 } else { !0o6000 };
            let permissions = is_file.then_some(cleared);
            Ok(Some(AttributeChanges {
                permissions,
                uid: owner.uid,
                gid: owner.gid,
                ..AttributeChanges::default()
            }))
        })
    }

    /// Changes the attributes of a file, or of a directory with its contents.
    fn change(&mut self, path: &ImagePath, recursive: bool, changes: &Changes<'_>) -> Result<(), EditError> {
        let first = path.inode(self.fs)?;
        self.change_inode(path, first, changes)?;
        if !recursive || !self.is_directory(path, first)? {
            return Ok(());
        }
        let mut seen = BTreeSet::from([first]);
        let mut walk = Walk::new(first);
        while let Some(directory) = walk.next(self.fs) {
            let directory = directory.map_err(|error| path.not_walked(error))?;
            for entry in directory.entries.iter().filter(|entry| seen.insert(entry.inode)) {
                self.change_inode(path, entry.inode, changes)?;
            }
        }
        Ok(())
    }

    fn change_inode(&mut self, path: &ImagePath, inode: u32, changes: &Changes<'_>) -> Result<(), EditError> {
        if let Some(changes) = changes(self.fs, inode).map_err(path.failed())? {
            self.fs.set_attributes(inode, &changes).map_err(path.failed())?;
            let is_kept = self.note_unkept(path, inode, &changes).map_err(path.failed())?;
            self.done.entries += u64::from(is_kept);
        }
        Ok(())
    }

    /// Sets an extended attribute, or removes it if there is no value.
    ///
    /// # Errors
    /// A missing file or attribute, an attribute name that the filesystem does not support, an ACL that Linux refuses.
    pub fn set_xattr(
        &mut self,
        path: &ImagePath,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), EditError> {
        let holds = self.fs.holds();
        if !holds.xattr(name) {
            let what = if holds.acls { XATTR_AND_ACL_NAMES } else { XATTR_NAMES };
            return Err(EditError::refused(name, what));
        }
        let inode = path.inode(self.fs)?;
        let outcome = match value {
            Some(value) => self.fs.set_xattr(inode, name, value, SetXattr::Any),
            None => self.fs.remove_xattr(inode, name),
        };
        self.done.entries += 1;
        outcome.map_err(|error| match error {
            Error::NotFound => path.no_attribute(name),
            error => path.failed()(error),
        })
    }
}
