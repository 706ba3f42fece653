//! POSIX access control lists: their attributes, and how an ACL and the permissions of a file correspond (Linux:
//! `fs/posix_acl.c`).

use super::{Error, FileType, Result};
use floatgate_media::acl::{AclEntry, AclTag, check_acl};

/// Attribute with the ACL of a file or directory.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";

/// Attribute with the default ACL, which new files in a directory inherit.
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
    /// Parses the value of an attribute that a program sets; `None` if it has no entries, which removes the ACL.
    ///
    /// # Errors
    /// The value is malformed, or Linux would refuse the ACL.
    pub fn of_xattr(value: &[u8]) -> Result<Option<Self>> {
        if value.is_empty() {
            return Ok(None);
        }
        let entries = AclEntry::of_xattr(value).map_err(|_| Error::Invalid("the value is not an ACL"))?;
        let entries: Vec<AclEntry> = entries.collect();
        if entries.is_empty() { Ok(None) } else { Self::new(entries).map(Some) }
    }

    /// Creates an ACL from its entries.
    ///
    /// # Errors
    /// Linux would refuse the ACL.
    pub fn new(entries: Vec<AclEntry>) -> Result<Self> {
        check_acl(&entries).map_err(|fault| Error::Invalid(fault.reason()))?;
        Ok(Self(entries))
    }

    /// Entries in the order in which Linux stores them.
    #[must_use]
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// Parses the value of an attribute that a program sets. Returns `None` if the value has no entries: it then
    /// removes the ACL.
    #[must_use]
    pub fn to_xattr(entries: &[AclEntry]) -> Vec<u8> {
        let mut value = vec![0; AclEntry::xattr_bytes(entries)];
        AclEntry::emit_xattr(entries, &mut value);
        value
    }

    /// Checks that a file of this type can have the ACL with this attribute name.
    ///
    /// # Errors
    /// The file is a symbolic link; a default ACL is set on a file that is not a directory.
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

    /// Bit position of an entry's permissions in the mode. With a mask, the group bits are the mask's.
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

    /// True if the ACL is equivalent to the mode bits; Linux does not store such an ACL.
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
