//! POSIX access control lists (ACLs) in the format that Linux exchanges with programs: the values of the extended attributes
//! `system.posix_acl_access` and `system.posix_acl_default`.
//!
//! A value is a version (4 bytes) and entries of 8 bytes each. All numbers are little-endian, also on big-endian machines. Sources:
//! Linux 6.12, `include/uapi/linux/posix_acl_xattr.h` for the format, `posix_acl_valid` in `fs/posix_acl.c` for the rules of a
//! valid ACL.

use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire, codes, layout, span};

/// Version of the attribute value's format.
const VERSION: u32 = 2;

/// Size of the version field in front of the entries, B.
const HEADER: usize = 4;

/// Mask of the read, write and execute permission bits.
const PERMISSIONS: u16 = 0o7;

codes! {
    /// Type of an ACL entry: whose permissions the entry sets.
    pub enum AclTag(u16) {
        /// The owner of the file.
        UserObj = 0x01,
        /// A user, named by uid.
        User = 0x02,
        /// The group of the file.
        GroupObj = 0x04,
        /// A group, named by gid.
        Group = 0x08,
        /// Upper limit of the permissions of users and groups other than the owner.
        Mask = 0x10,
        /// All other users.
        Others = 0x20,
    }
}

impl AclTag {
    /// True for an entry type that carries a uid or gid.
    #[must_use]
    pub const fn has_id(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }
}

layout! {
    /// An entry of an ACL: type, permissions and id.
    pub either_endian struct AclEntry[8] {
        /// Type of the entry.
        0 => tag: AclTag,
        /// Permission bits: read (4), write (2) and execute (1).
        2 => permissions: u16,
        /// uid or gid; [`NO_ID`](Self::NO_ID) in entries without one.
        4 => id: u32,
    }
}

impl AclEntry {
    /// Id that Linux stores in an entry whose type has no id.
    pub const NO_ID: u32 = u32::MAX;

    /// Entries of an attribute value, in stored order.
    ///
    /// # Errors
    /// A version other than 2, a length that is not a whole number of entries, or an unknown entry type.
    pub fn of_xattr(value: &[u8]) -> Result<impl Iterator<Item = Self>, MediaError> {
        let version: u32 = Wire::decode(span(value, 0, HEADER)?, 0);
        if version != VERSION {
            return Err(Reason::WrongVersion { what: "ACL", found: version, known: VERSION }.at(0));
        }
        let (entries, rest) = value[HEADER..].as_chunks::<{ Self::SIZE }>();
        require(rest.is_empty(), HEADER, "length of the ACL", value.len() as u64)?;
        let take = |bytes: &[u8; Self::SIZE]| -> Self { Wire::decode(bytes, 0) };
        for (index, bytes) in entries.iter().enumerate() {
            take(bytes).tag.known("type of an ACL entry", HEADER + index * Self::SIZE)?;
        }
        Ok(entries.iter().map(take).map(Self::without_stray_id))
    }

    /// Size of the attribute value that holds `entries`, B.
    #[must_use]
    pub const fn xattr_bytes(entries: &[Self]) -> usize {
        HEADER + entries.len() * Self::SIZE
    }

    /// Writes the attribute value that holds `entries` to the start of `out`.
    ///
    /// # Panics
    /// `out` is shorter than [`xattr_bytes`](Self::xattr_bytes).
    pub fn emit_xattr(entries: &[Self], out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(HEADER);
        Wire::put(&VERSION, head, 0);
        for (entry, bytes) in entries.iter().zip(rest.chunks_exact_mut(Self::SIZE)) {
            Wire::put(entry, bytes, 0);
        }
    }

    /// The entry; its id is replaced by [`NO_ID`](Self::NO_ID) if entries of its type have no id.
    pub(crate) const fn without_stray_id(self) -> Self {
        if self.tag.has_id() { self } else { Self { id: Self::NO_ID, ..self } }
    }
}

/// Reason why Linux refuses to set an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclFault {
    /// Entries are out of order, listed twice, or missing.
    Order,
    /// Users or groups are listed, but the mask is missing.
    NoMask,
    /// Permission bits other than read, write and execute.
    Permissions,
}

impl AclFault {
    /// Text that describes the fault.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Order => {
                "the entries of an ACL are owner, users, group, groups, mask and others, in this order"
            }
            Self::NoMask => "an ACL with named users or groups needs a mask",
            Self::Permissions => "the permissions of an ACL entry are more than read, write and execute",
        }
    }
}

/// Checks that Linux accepts the ACL. An empty list is not an ACL.
///
/// # Errors
/// Entries in the wrong order, a missing mask, or unknown permission bits.
pub fn check_acl(entries: &[AclEntry]) -> Result<(), AclFault> {
    // The previous entry, and whether the ACL names users or groups.
    let (mut last, mut needs_mask) = (None, false);
    for entry in entries {
        if entry.permissions & !PERMISSIONS != 0 {
            return Err(AclFault::Permissions);
        }
        match (last, entry.tag) {
            (None, AclTag::UserObj)
            | (Some(AclTag::UserObj | AclTag::User), AclTag::User | AclTag::GroupObj)
            | (Some(AclTag::GroupObj | AclTag::Group), AclTag::Group | AclTag::Mask)
            | (Some(AclTag::Mask), AclTag::Others) => {}
            (Some(AclTag::GroupObj), AclTag::Others) if !needs_mask => {}
            (Some(AclTag::GroupObj | AclTag::Group), AclTag::Others) => return Err(AclFault::NoMask),
            _ => return Err(AclFault::Order),
        }
        needs_mask |= entry.tag.has_id();
        last = Some(entry.tag);
    }
    if matches!(last, None | Some(AclTag::Others)) { Ok(()) } else { Err(AclFault::Order) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn entry(tag: AclTag, permissions: u16) -> AclEntry {
        AclEntry { tag, permissions, id: if tag.has_id() { 1000 } else { AclEntry::NO_ID } }
    }

    #[test]
    fn values_are_read_and_written() {
        let entries = [entry(AclTag::UserObj, 7), entry(AclTag::GroupObj, 5), entry(AclTag::Others, 0)];
        let mut value = [0; 28];
        assert_eq!(AclEntry::xattr_bytes(&entries), value.len());
        AclEntry::emit_xattr(&entries, &mut value);
        assert_eq!(value[..12], [2, 0, 0, 0, 1, 0, 7, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert!(AclEntry::of_xattr(&value).unwrap().eq(entries));
        for len in (0..value.len()).filter(|len| len % 8 != 4) {
            assert!(AclEntry::of_xattr(&value[..len]).is_err(), "{len} bytes");
        }
        value[4] = 3;
        assert_eq!(AclEntry::of_xattr(&value).err().map(|error| error.offset), Some(4));
        value[0] = 1;
        assert_eq!(AclEntry::of_xattr(&value).err().map(|error| error.offset), Some(0));
    }

    #[test]
    fn linux_accepts_only_ordered_acls_with_a_mask() {
        use AclTag::{Group, GroupObj, Mask, Others, User, UserObj};
        let of = |tags: &[AclTag]| {
            let mut entries = [entry(UserObj, 7); 8];
            for (slot, tag) in entries.iter_mut().zip(tags) {
                *slot = entry(*tag, 5);
            }
            check_acl(&entries[..tags.len()])
        };
        let good: [&[AclTag]; 5] = [
            &[],
            &[UserObj, GroupObj, Others],
            &[UserObj, GroupObj, Mask, Others],
            &[UserObj, User, User, GroupObj, Mask, Others],
            &[UserObj, GroupObj, Group, Mask, Others],
        ];
        for tags in good {
            assert_eq!(of(tags), Ok(()), "{tags:?}");
        }
        let unordered: [&[AclTag]; 6] = [
            &[GroupObj],
            &[UserObj, GroupObj],
            &[UserObj, UserObj, GroupObj, Others],
            &[UserObj, GroupObj, Others, Mask],
            &[UserObj, GroupObj, User, Mask, Others],
            &[UserObj, Others],
        ];
        for tags in unordered {
            assert_eq!(of(tags), Err(AclFault::Order), "{tags:?}");
        }
        assert_eq!(of(&[UserObj, User, GroupObj, Others]), Err(AclFault::NoMask));
        assert_eq!(of(&[UserObj, GroupObj, Group, Others]), Err(AclFault::NoMask));
        assert_eq!(check_acl(&[entry(UserObj, 8)]), Err(AclFault::Permissions));
    }
}
