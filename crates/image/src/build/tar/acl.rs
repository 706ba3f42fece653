//! ACLs in the text form that `tar --acls` and libarchive write into pax records, such as
//! `user::rw-,user:joe:r--:1000,group::r--,mask::r--,other::---`.

use floatgate_media::acl::{AclEntry, AclTag};
use floatgate_stack::fs::Acl;

/// Value of the extended attribute for an ACL given as text.
pub(super) fn xattr_of_text(text: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is no text".to_owned())?;
    let lines = text.split(['\n', ',']).map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut entries =
        lines.filter(|line| !line.is_empty()).map(entry).collect::<Result<Vec<AclEntry>, String>>()?;
    // Linux needs the entries in the order of the type codes; libarchive writes owner, group and others first.
    entries.sort_by_key(|entry| (entry.tag.code(), entry.id));
    let acl = Acl::new(entries).map_err(|error| error.to_string())?;
    Ok(Acl::to_xattr(acl.entries()))
}

/// Parses an entry `TYPE:NAME:PERMISSIONS:ID`. The name may be a number, and the ID may be missing; `mask` and `other`
/// may lack the name.
fn entry(line: &str) -> Result<AclEntry, String> {
    let wrong = || format!("{line:?} is no entry of a POSIX ACL");
    let fields: Vec<&str> = line.split(':').map(str::trim).collect();
    let (of_type, name, permissions, number) = match *fields {
        [of_type @ ("mask" | "m" | "other" | "o"), permissions] => (of_type, "", permissions, None),
        [of_type, name, permissions] => (of_type, name, permissions, None),
        [of_type, name, permissions, number] => (of_type, name, permissions, Some(number)),
        _ => return Err(wrong()),
    };
    let tag = match (of_type, name.is_empty() && number.is_none()) {
        ("user" | "u", true) => AclTag::UserObj,
        ("user" | "u", false) => AclTag::User,
        ("group" | "g", true) => AclTag::GroupObj,
        ("group" | "g", false) => AclTag::Group,
        ("mask" | "m", true) => AclTag::Mask,
        ("other" | "o", true) => AclTag::Others,
        _ => return Err(wrong()),
    };
    let id = if tag.has_id() {
        let number = number.unwrap_or(name).parse();
        number.map_err(|_| format!("{line:?} names a {of_type} without a number"))?
    } else {
        AclEntry::NO_ID
    };
    Ok(AclEntry { tag, permissions: bits(permissions).ok_or_else(wrong)?, id })
}

/// Permission bits of a text such as `rw-`.
fn bits(text: &str) -> Option<u16> {
    text.chars().try_fold(0, |bits, letter| match letter {
        'r' => Some(bits | 4),
        'w' => Some(bits | 2),
        'x' => Some(bits | 1),
        '-' => Some(bits),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_both_writers_become_one_value() {
        let linux = "user::rw-\nuser:1000:rwx\t#effective:r-x\ngroup::r--\nmask::r-x\nother::---\n";
        let libarchive = "user::rw-,group::r--,other::---,user:joe:rwx:1000,mask::r-x";
        let star = "u::rw-,u:1000:rwx,g::r--,mask:r-x,other:---";
        let value = xattr_of_text(linux.as_bytes()).unwrap();
        assert_eq!(value.len(), 4 + 5 * 8);
        assert_eq!(value[..20], [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 7, 0, 0xE8, 3, 0, 0]);
        assert_eq!(xattr_of_text(libarchive.as_bytes()).unwrap(), value);
        assert_eq!(xattr_of_text(star.as_bytes()).unwrap(), value);
    }

    #[test]
    fn what_is_no_posix_acl_is_refused_with_its_reason() {
        let of = |text: &str| xattr_of_text(text.as_bytes()).unwrap_err();
        assert_eq!(of("user::rw-,user:joe:rw-"), "\"user:joe:rw-\" names a user without a number");
        assert!(of("owner@:rwxp--:-------:allow").contains("no entry of a POSIX ACL"));
        assert!(of("user::rwq").contains("no entry of a POSIX ACL"));
        assert!(of("user::rw-,user:7:rw-,group::r--,other::r--").contains("needs a mask"));
        assert!(of("user::rw-").contains("in this order"));
    }
}
