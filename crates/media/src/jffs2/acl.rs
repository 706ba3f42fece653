//! POSIX ACLs in the format that JFFS2 stores: `docs/spec/jffs2.md#acl`.

use super::Endian;
use crate::acl::{AclEntry, AclTag};
use crate::error::{MediaError, Reason, require};
use crate::wire::span;

/// Version of the format.
const VERSION: u32 = 1;

/// Size of the version field in front of the entries, B.
const HEADER: usize = 4;

/// Size of an entry without an id, B.
const SHORT: usize = 4;

/// Number of entries without an id in an ACL with named users or groups: owner, group, mask, others.
const UNNAMED: usize = 4;

const fn entry_bytes(tag: AclTag) -> usize {
    if tag.has_id() { AclEntry::SIZE } else { SHORT }
}

/// Entries of an ACL whose encoding was checked.
#[derive(Clone, Copy, Debug)]
pub struct AclEntries<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> AclEntries<'a> {
    /// Reads the value of an xattr node that contains an ACL.
    ///
    /// # Errors
    ///
    /// A wrong version, an unknown entry type, an entry that extends past the value, or a length that Linux rejects.
    pub fn parse(value: &'a [u8], endian: Endian) -> Result<Self, MediaError> {
        let version: u32 = endian.decode(span(value, 0, HEADER)?, 0);
        if version != VERSION {
            return Err(Reason::WrongVersion { what: "ACL", found: version, known: VERSION }.at(0));
        }
        let (mut at, mut count) = (HEADER, 0);
        while at < value.len() {
            let tag: AclTag = endian.decode(span(value, at, SHORT)?, 0);
            let tag = tag.known("type of an ACL entry", at)?;
            at += span(value, at, entry_bytes(tag))?.len();
            count += 1;
        }
        require(expected_count(at - HEADER) == Some(count), HEADER, "length of the ACL", at as u64)?;
        Ok(Self { bytes: &value[HEADER..], endian })
    }
}

/// Number of entries that Linux finds in `bytes`: the first four without an id, the others with one (`jffs2_acl_count`
/// in `fs/jffs2/acl.c`).
const fn expected_count(bytes: usize) -> Option<usize> {
    let (count, rest) = match bytes.checked_sub(UNNAMED * SHORT) {
        Some(named) => (UNNAMED + named / AclEntry::SIZE, named % AclEntry::SIZE),
        None => (bytes / SHORT, bytes % SHORT),
    };
    if rest == 0 { Some(count) } else { None }
}

impl Iterator for AclEntries<'_> {
    type Item = AclEntry;

    fn next(&mut self) -> Option<AclEntry> {
        if self.bytes.is_empty() {
            return None;
        }
        let entry: AclEntry = self.endian.decode(self.bytes, 0);
        self.bytes = self.bytes.get(entry_bytes(entry.tag)..).unwrap_or_default();
        Some(entry.without_stray_id())
    }
}

/// Size of the xattr node's value that holds `entries`, B.
#[must_use]
pub fn acl_bytes(entries: &[AclEntry]) -> usize {
    entries.iter().fold(HEADER, |bytes, entry| bytes + entry_bytes(entry.tag))
}

/// Writes the value of an xattr node that contains an ACL.
///
/// # Panics
///
/// `out` is shorter than [`acl_bytes`].
pub fn emit_acl(entries: &[AclEntry], endian: Endian, out: &mut [u8]) {
    endian.put(&VERSION, out, 0);
    let mut at = HEADER;
    for entry in entries {
        let end = at + entry_bytes(entry.tag);
        endian.put(entry, &mut out[at..end], 0);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn entry(tag: AclTag, permissions: u16, id: u32) -> AclEntry {
        AclEntry { tag, permissions, id }
    }

    const ENTRIES: [AclEntry; 6] = [
        entry(AclTag::UserObj, 6, AclEntry::NO_ID),
        entry(AclTag::User, 7, 1000),
        entry(AclTag::GroupObj, 4, AclEntry::NO_ID),
        entry(AclTag::Group, 5, 0x0102_0304),
        entry(AclTag::Mask, 7, AclEntry::NO_ID),
        entry(AclTag::Others, 0, AclEntry::NO_ID),
    ];

    #[test]
    fn both_byte_orders_are_read_and_written() {
        let mut out = [0; 36];
        assert_eq!(acl_bytes(&ENTRIES), out.len());
        emit_acl(&ENTRIES, Endian::Big, &mut out);
        assert_eq!(out[..16], [0, 0, 0, 1, 0, 1, 0, 6, 0, 2, 0, 7, 0, 0, 3, 0xE8]);
        assert!(AclEntries::parse(&out, Endian::Big).unwrap().eq(ENTRIES));
        assert!(
            AclEntries::parse(&out, Endian::Little).is_err(),
            "in the other byte order the version is another"
        );
        emit_acl(&ENTRIES, Endian::Little, &mut out);
        assert_eq!(out[..16], [1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 7, 0, 0xE8, 3, 0, 0]);
        assert!(AclEntries::parse(&out, Endian::Little).unwrap().eq(ENTRIES));
    }

    #[test]
    fn damaged_acls_are_errors_with_their_place() {
        let mut out = [0; 36];
        emit_acl(&ENTRIES, Endian::Little, &mut out);
        for len in 0..out.len() {
            // Entries without ids, each complete, form an ACL. Linux does not check the order of entries on flash.
            assert_eq!(
                AclEntries::parse(&out[..len], Endian::Little).is_ok(),
                len == 4 || len == 8,
                "{len} bytes"
            );
        }
        let place = |at: usize, byte: u8| {
            let mut wrong = out;
            wrong[at] = byte;
            AclEntries::parse(&wrong, Endian::Little).err().map(|error| error.offset)
        };
        assert_eq!(place(0, 2), Some(0), "version");
        assert_eq!(place(4, 3), Some(4), "type of the first entry");
        assert_eq!(place(16, 3), Some(16), "type of the third entry");
        assert_eq!(place(4, 2), Some(12), "an entry with an id in the place of one without");
        // Linux derives the number of entries from the length, and this length means three entries.
        let counted = [1, 0, 0, 0, 2, 0, 7, 0, 1, 0, 0, 0, 0x20, 0, 0, 0];
        assert!(AclEntries::parse(&counted, Endian::Little).is_err());
    }
}
