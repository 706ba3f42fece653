//! Records of POSIX.1-2001 (pax): attributes in an extended header, which apply to the next entry.

use std::collections::BTreeMap;

use floatgate_stack::fs::{ACL_ACCESS, ACL_DEFAULT, Timestamp};

use super::super::item::Xattrs;
use super::acl::xattr_of_text;
use crate::words::show_name;

/// Name of GNU tar's list of a sparse file's pieces. Its first version uses many records with two other names
/// instead.
pub(super) const SPARSE_MAP: &[u8] = b"GNU.sparse.map";
const SPARSE_PIECES: [&[u8]; 2] = [b"GNU.sparse.offset", b"GNU.sparse.numbytes"];

/// Pax records by name, with values of any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Records(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records {
    /// Parses records `length key=value\n`. The length includes the whole record, and of several records with
    /// one name the last one is valid.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut records = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() && rest[0] != 0 {
            let space = rest.iter().position(|&byte| byte == b' ')?;
            let len: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
            let record = rest.get(space + 1..len)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|&byte| byte == b'=')?;
            records.put(&record[..equals], &record[equals + 1..]);
            rest = &rest[len..];
        }
        Some(records)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        if SPARSE_PIECES.contains(&key) {
            let map = self.0.entry(SPARSE_MAP.to_vec()).or_default();
            if !map.is_empty() {
                map.push(b',');
            }
            map.extend_from_slice(value);
        } else {
            self.0.insert(key.to_vec(), value.to_vec());
        }
    }

    /// Sets a record unless one with this name exists.
    pub(super) fn put_new(&mut self, key: &[u8], value: Vec<u8>) {
        self.0.entry(key.to_vec()).or_insert(value);
    }

    /// These records, replaced and extended by `other`.
    pub(super) fn with(&self, other: Self) -> Self {
        let mut records = self.clone();
        records.0.extend(other.0);
        records
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }

    pub(super) fn number(&self, key: &[u8]) -> Option<u64> {
        std::str::from_utf8(self.get(key)?).ok()?.parse().ok()
    }

    pub(super) fn time(&self, key: &[u8]) -> Option<Timestamp> {
        time(self.get(key)?)
    }

    /// Extended attributes, sorted by name. They come from the records in star's form, in which GNU tar
    /// writes `=` and `%` of a name as `%3D` and `%25`. The SELinux label and ACLs without such a record come
    /// from separate records: a label without its final byte 0, and ACLs as text.
    pub(super) fn xattrs(&self) -> Xattrs {
        let star = self.0.iter().filter_map(|(key, value)| Some((key.strip_prefix(STAR)?, value)));
        let mut xattrs: Vec<_> = star.map(|(name, value)| (unescaped(name), value.clone())).collect();
        let label = self.get(b"RHT.security.selinux");
        if let Some(label) = label.filter(|_| !xattrs.iter().any(|(name, _)| name == SELINUX)) {
            xattrs.push((SELINUX.to_vec(), [label, b"\0"].concat()));
        }
        xattrs.extend(self.acls().filter_map(|(name, value)| Some((name.to_vec(), value.ok()?))));
        xattrs.sort();
        xattrs
    }

    /// Attributes for the ACLs that only separate records contain: their names and values.
    fn acls(&self) -> impl Iterator<Item = (&'static [u8], Result<Vec<u8>, String>)> {
        let texts = ACL_TEXTS.iter().filter(|(_, name)| !self.0.contains_key(&[STAR, name].concat()));
        texts.filter_map(|(key, name)| Some((*name, xattr_of_text(self.get(key)?))))
    }

    /// Losses: attributes in the records that are not read.
    pub(super) fn losses(&self) -> Vec<String> {
        let of_acl = |(name, value): (&[u8], Result<_, String>)| {
            Some(format!("extended attribute {}: {}", show_name(name), value.err()?))
        };
        let mut losses: Vec<String> = self.acls().filter_map(of_acl).collect();
        for key in self.0.keys() {
            if key == b"SCHILY.acl.ace" {
                losses.push("its NFSv4 access control list is not read".to_owned());
            } else if key == b"SCHILY.fflags" {
                losses.push("its flags (chattr) are not read from a tar".to_owned());
            } else if let Some(attribute) = key.strip_prefix(b"LIBARCHIVE.xattr.")
                && !self.0.contains_key(&[STAR, attribute].concat())
            {
                losses.push(format!(
                    "extended attribute {}: in libarchive's own form only",
                    show_name(attribute)
                ));
            }
        }
        losses
    }
}

const STAR: &[u8] = b"SCHILY.xattr.";

/// Names of the records with an ACL as text, and of the extended attributes with the same contents.
const ACL_TEXTS: [(&[u8], &[u8]); 2] =
    [(b"SCHILY.acl.access", ACL_ACCESS), (b"SCHILY.acl.default", ACL_DEFAULT)];
const SELINUX: &[u8] = b"security.selinux";

fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        let (byte, tail) = match tail {
            [b'3', b'D', tail @ ..] if *first == b'%' => (b'=', tail),
            [b'2', b'5', tail @ ..] if *first == b'%' => (b'%', tail),
            _ => (*first, tail),
        };
        out.push(byte);
        rest = tail;
    }
    out
}

/// Time in seconds with decimals. The sign of a negative time applies to the whole number.
fn time(value: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(value).ok()?;
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = decimals.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    Some(match (negative, nanoseconds) {
        (false, _) => Timestamp { seconds, nanoseconds },
        (true, 0) => Timestamp { seconds: -seconds, nanoseconds },
        (true, _) => Timestamp { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_hold_any_bytes() {
        let records = Records::parse(b"22 SCHILY.xattr.a=\n\0b\n13 size=1234\n").unwrap();
        assert_eq!(records.get(b"SCHILY.xattr.a"), Some(&b"\n\0b"[..]));
        assert_eq!(records.number(b"size"), Some(1234));
        for broken in [&b"9999999999999999999999 a=b\n"[..], b"6 a=bc\n", b"x", b"3 \n", b"0 a=b\n"] {
            assert_eq!(Records::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn times_before_1970_are_negative_as_a_whole() {
        let at = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
        assert_eq!(time(b"12.5"), at(12, 500_000_000));
        assert_eq!(time(b"-1.25"), at(-2, 750_000_000));
        assert_eq!(time(b"-3"), at(-3, 0));
        assert_eq!(time(b"1.0000000019"), at(1, 1));
        assert_eq!(time(b"now"), None);
    }

    #[test]
    fn attributes_of_every_kind_are_read_or_lost_aloud() {
        let mut records = Records::default();
        records.put(b"SCHILY.xattr.user.a%3Db%25c%", b"1");
        records.put(b"RHT.security.selinux", b"label");
        records.put(b"LIBARCHIVE.xattr.user.a", b"MQ");
        records.put(b"SCHILY.acl.access", b"user::rw-");
        let wanted = [(&b"security.selinux"[..], &b"label\0"[..]), (b"user.a=b%c%", b"1")];
        assert_eq!(records.xattrs(), wanted.map(|(name, value)| (name.to_vec(), value.to_vec())));
        assert_eq!(records.losses().len(), 2);
        records.put(b"SCHILY.xattr.user.a", b"1");
        assert_eq!(records.losses().len(), 1);
    }
}
