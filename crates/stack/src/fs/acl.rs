//! POSIX access control lists: which attributes hold them, and how they and the permissions of a file go together (Linux: `fs/posix_acl.c`).

use super::{Error, FileType, Result};
use floatgate_media::acl::{AclEntry, AclTag, check_acl};

/// Attribute with the ACL of a file or directory.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";

/// Attribute with the ACL that new files of a directory get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// True for the name of an attribute that holds an ACL.
#[must_use]
pub fn is_acl(name: &[u8]) -> bool {
    name == ACL_ACCESS || name == ACL_DEFAULT
}

/// An ACL that Linux accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

impl Acl {
    /// Reads the value of an attribute that a program sets; `None` where it has no entries, which takes the ACL away.
    ///
    /// # Errors
    /// The value is malformed; an ACL that Linux refuses.
    pub fn of_xattr(value: &[u8]) -> Result<Option<Self>> {
        if value.is_empty() {
            return Ok(None);
        }
        let entries =
            AclEntry::of_xattr(value).map_err(|_| Error::Invalid("the value is not that of an ACL"))?;
        let entries: Vec<AclEntry> = entries.collect();
        if entries.is_empty() { Ok(None) } else { Self::new(entries).map(Some) }
    }

    /// Makes an ACL of its entries.
    ///
    /// # Errors
    /// An ACL that Linux refuses.
    pub fn new(entries: Vec<AclEntry>) -> Result<Self> {
        check_acl(&entries).map_err(|fault| Error::Invalid(fault.reason()))?;
        Ok(Self(entries))
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// The value of an attribute with some entries.
    #[must_use]
    pub fn to_xattr(entries: &[AclEntry]) -> Vec<u8> {
        let mut value = vec![0; AclEntry::xattr_bytes(entries)];
        AclEntry::emit_xattr(entries, &mut value);
        value
    }

    /// Checks that a file of a type can have the ACL of an attribute's name.
    ///
    /// # Errors
    /// A symbolic link; the ACL for new files of what is no directory.
    pub fn check_type(name: &[u8], of_type: FileType) -> Result<()> {
        match of_type {
            FileType::Symlink => Err(Error::Unsupported("a symbolic link has no ACL")),
            FileType::Directory => Ok(()),
            _ if name == ACL_DEFAULT => Err(Error::Invalid("only a directory has a default ACL")),
            _ => Ok(()),
        }
    }

    /// Permissions of a file with this ACL.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        let bits =
            |entry: &AclEntry| self.shift(entry.tag).map_or(0, |shift| u32::from(entry.permissions) << shift);
        self.0.iter().fold(0, |all, entry| all | bits(entry))
    }

    /// Place of an entry's permissions among those of the file. With a mask the group's are those of the mask.
    fn shift(&self, tag: AclTag) -> Option<u32> {
        let has_mask = || self.0.iter().any(|entry| entry.tag == AclTag::Mask);
        match tag {
            AclTag::UserObj => Some(6),
            AclTag::Mask => Some(3),
            AclTag::GroupObj if !has_mask() => Some(3),
            AclTag::Others => Some(0),
            _ => None,
        }
    }

    /// True where the permissions of the file say all that the ACL says: Linux does not store such an ACL.
    #[must_use]
    pub fn is_permissions_only(&self) -> bool {
        self.0.iter().all(|entry| matches!(entry.tag, AclTag::UserObj | AclTag::GroupObj | AclTag::Others))
    }

    /// The ACL after a change of the file's permissions.
    #[must_use]
    pub fn with_permissions(&self, permissions: u32) -> Self {
        let changed = |entry: &AclEntry| match self.shift(entry.tag) {
            Some(shift) => AclEntry { permissions: (permissions >> shift & 0o7) as u16, ..*entry },
            None => *entry,
        };
        Self(self.0.iter().map(changed).collect())
    }
}
