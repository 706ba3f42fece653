//! POSIX ACLs: JFFS2 stores them in a form of its own, which becomes that of Linux's programs and back.

use std::fs;

use floatgate_image::build::{Overrides, Source, build};
use floatgate_image::check::{Outcome, check};
use floatgate_image::diff::{DiffOptions, Side, compare, diff_sides};
use floatgate_image::edit::EditError;
use floatgate_image::extract::{DirectoryTarget, ExtractLimits, Extractions, TarTarget, Target};
use floatgate_image::{Image, Selection};
use floatgate_media::acl::AclTag::{Group, GroupObj, Mask, Others, User, UserObj};
use floatgate_media::acl::{AclEntry, AclTag};
use floatgate_media::jffs2::{Endian, Header, NodeType, XattrNode};
use floatgate_stack::fs::{ACL_ACCESS, ACL_DEFAULT, Acl, FileSystem, NewFile, NewKind, SetXattr};

use super::built::options_of;
use super::edited::{self, KINDS, change, folder, image, mount, outcome, path};
use super::repaired::repaired;
use super::{mounted, open};

/// A tree with a file that a user and a group may write, and a directory with an ACL for its new files.
const MKFS: [(Endian, &[u8]); 2] = [
    (Endian::Little, include_bytes!("../golden/jffs2/acl-little.jffs2")),
    (Endian::Big, include_bytes!("../golden/jffs2/acl-big.jffs2")),
];

fn acl(entries: &[(AclTag, u16, u32)]) -> Vec<u8> {
    let entry = |&(tag, permissions, id)| AclEntry { tag, permissions, id };
    Acl::to_xattr(&entries.iter().map(entry).collect::<Vec<_>>())
}

/// The ACL of `/file`.
fn access() -> Vec<u8> {
    let none = AclEntry::NO_ID;
    acl(&[
        (UserObj, 6, none),
        (User, 7, 1000),
        (GroupObj, 4, none),
        (Group, 5, 2000),
        (Mask, 7, none),
        (Others, 0, none),
    ])
}

/// The ACL for new files of `/dir`.
fn default() -> Vec<u8> {
    let none = AclEntry::NO_ID;
    acl(&[(UserObj, 7, none), (User, 5, 70_000), (GroupObj, 5, none), (Mask, 5, none), (Others, 5, none)])
}

fn attribute(fs: &mut dyn FileSystem, path: &str, name: &[u8]) -> Option<Vec<u8>> {
    let inode = fs.resolve(path.as_bytes()).unwrap();
    fs.get_xattr(inode, name).ok()
}

fn permissions(fs: &mut dyn FileSystem, path: &str) -> u32 {
    let inode = fs.resolve(path.as_bytes()).unwrap();
    fs.attributes(inode).unwrap().mode & 0o7777
}

fn assert_acls(fs: &mut dyn FileSystem, name: &str) {
    assert_eq!(attribute(fs, "/file", ACL_ACCESS), Some(access()), "{name}");
    assert_eq!(attribute(fs, "/dir", ACL_DEFAULT), Some(default()), "{name}");
    assert_eq!(attribute(fs, "/dir/plain", b"user.note"), Some(b"the value".to_vec()), "{name}");
    assert_eq!(permissions(fs, "/file"), 0o670, "{name}");
}

/// Extracts all files; the losses.
fn extracted(image: &Image, target: &mut dyn Target) -> Vec<String> {
    let extractions = Extractions::open(image, &Selection::default()).unwrap();
    let report = extractions.run(target, &ExtractLimits::default(), &|_| {}).unwrap();
    report.losses.into_iter().map(|loss| format!("{}: {}", loss.path, loss.what)).collect()
}

/// Values of xattr nodes with ACLs, as they are on the flash.
fn stored(bytes: &[u8], endian: Endian) -> Vec<Vec<u8>> {
    let nodes = (0..bytes.len()).step_by(4).filter_map(|at| {
        let header = Header::parse(&bytes[at..], endian).ok()?;
        (header.node_type == NodeType::Xattr).then_some(&bytes[at..at + header.len as usize])
    });
    let nodes = nodes.map(|node| XattrNode::parse(node, endian).unwrap());
    nodes.filter(|node| node.xattr.prefix.is_acl()).map(|node| node.value.to_vec()).collect()
}

#[test]
fn acls_of_mkfs_jffs2_are_read_in_both_byte_orders() {
    let [mut little, mut big] = MKFS.map(|(_, bytes)| mounted(bytes));
    assert_acls(&mut *little, "little");
    assert_acls(&mut *big, "big");
    let report = compare(&mut *little, &mut *big, &DiffOptions::default());
    assert!(report.is_same() && report.trouble.is_empty(), "{report:?}");
    for (endian, bytes) in MKFS {
        let checked = check(&open(bytes).unwrap(), &Selection::default()).unwrap();
        assert_eq!(checked.outcome, Outcome::Clean, "{endian:?}: {:?}", checked.findings);
    }
}

/// The files of mkfs.jffs2 go through a tar and through a folder of the host into images of both byte orders, whose ACLs have the same
/// bytes on the flash as those of mkfs.jffs2.
#[test]
fn acls_go_through_tars_and_folders_into_new_images() {
    let folder = tempfile::tempdir().unwrap();
    let (tar, directory) = (folder.path().join("tar"), folder.path().join("directory"));
    let image = open(MKFS[1].1).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(extracted(&image, &mut TarTarget::new(&mut bytes)), [""; 0]);
    fs::write(&tar, bytes).unwrap();
    assert_eq!(extracted(&image, &mut DirectoryTarget::new(&directory, false).unwrap()), [""; 0]);
    let host = |name: &str, attribute: &str| {
        let mut value = [0; 256];
        let len = rustix::fs::getxattr(directory.join(name), attribute, &mut value[..]).unwrap();
        value[..len].to_vec()
    };
    assert_eq!(host("file", "system.posix_acl_access"), access());
    assert_eq!(host("dir", "system.posix_acl_default"), default());
    let plain = directory.join("dir/plain");
    assert!(rustix::fs::getxattr(plain, "system.posix_acl_access", &mut [0; 0][..]).is_err(), "inherited");
    let all = Selection::default();
    for files in [&tar, &directory] {
        let of_mkfs = Side::Image(Box::new(open(MKFS[1].1).unwrap()), all.clone());
        let report = diff_sides([of_mkfs, Side::open(files, &all).unwrap()], &DiffOptions::default());
        let report = report.unwrap();
        assert_eq!(report.trouble, [], "{files:?}");
        assert!(report.is_same(), "{files:?}: {report:?}");
    }
    for source in [Source::Tar(tar), Source::Directory(directory)] {
        for (endian, of_mkfs) in MKFS {
            let name = format!("{source:?} {endian:?}");
            let file = folder.path().join("image");
            let host_file =
                fs::File::options().read(true).write(true).create(true).truncate(true).open(&file);
            let built =
                build(&source, host_file.unwrap(), &options_of(endian, Overrides::default())).unwrap();
            assert_eq!(built.losses, [], "{name}");
            assert_acls(&mut *mount(&file), &name);
            let (mut own, mut other) = (stored(&fs::read(&file).unwrap(), endian), stored(of_mkfs, endian));
            own.sort();
            other.sort();
            assert_eq!(own, other, "{name}");
        }
    }
}

#[test]
fn acls_are_set_and_removed_and_follow_permissions() {
    for kind in KINDS {
        let (_folder, file) = folder(&image(kind));
        let set = |at: &str, name: &[u8], value: Option<&[u8]>| {
            change(&file, &edited::options(), |editor| editor.set_xattr(&path(at), name, value))
        };
        set("/data", ACL_ACCESS, Some(&access())).unwrap();
        set("/dir", ACL_DEFAULT, Some(&default())).unwrap();
        let read = |name: &[u8]| attribute(&mut *mount(&file), "/data", name);
        let mode = || permissions(&mut *mount(&file), "/data");
        assert_eq!((read(ACL_ACCESS), mode()), (Some(access()), 0o670), "{kind:?}");
        assert_eq!(attribute(&mut *mount(&file), "/dir", ACL_DEFAULT), Some(default()), "{kind:?}");
        assert_eq!(permissions(&mut *mount(&file), "/dir"), 0o755, "a default ACL is none of the directory");
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");

        // As in Linux chmod changes owner, mask and others.
        change(&file, &edited::options(), |editor| {
            editor.chmod(&path("/data"), &"4715".parse().unwrap(), false)
        })
        .unwrap();
        let mut changed = access();
        (changed[6], changed[38], changed[46]) = (7, 1, 5);
        assert_eq!((read(ACL_ACCESS), mode()), (Some(changed), 0o4715), "{kind:?}");

        // An ACL of three entries is the permissions.
        let none = AclEntry::NO_ID;
        let plain = acl(&[(UserObj, 6, none), (GroupObj, 4, none), (Others, 0, none)]);
        set("/data", ACL_ACCESS, Some(&plain)).unwrap();
        assert_eq!((read(ACL_ACCESS), mode()), (None, 0o4640), "{kind:?}");
        set("/dir", ACL_DEFAULT, None).unwrap();
        assert_eq!(attribute(&mut *mount(&file), "/dir", ACL_DEFAULT), None, "{kind:?}");
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
    }
}

#[test]
fn acls_that_linux_refuses_are_refused() {
    let (_folder, file) = folder(&image(KINDS[0]));
    let before = fs::read(&file).unwrap();
    let refused = |at: &str, name: &[u8], value: &[u8]| {
        let error =
            change(&file, &edited::options(), |editor| editor.set_xattr(&path(at), name, Some(value)));
        let error = error.unwrap_err();
        assert!(matches!(error, EditError::Inside { .. }), "{error:?}");
        error.to_string()
    };
    let none = AclEntry::NO_ID;
    let no_mask = acl(&[(UserObj, 6, none), (User, 6, 7), (GroupObj, 4, none), (Others, 0, none)]);
    assert!(refused("/data", ACL_ACCESS, &no_mask).contains("needs a mask"));
    assert!(refused("/data", ACL_ACCESS, &access()[..20]).contains("in this order"));
    assert!(refused("/data", ACL_ACCESS, b"text").contains("not an ACL"));
    assert!(refused("/data", ACL_DEFAULT, &default()).contains("only a directory"));
    assert!(fs::read(&file).unwrap() == before);
}

/// Another byte in each place of each ACL, with right CRCs.
#[test]
fn an_invalid_acl_is_a_finding_and_a_loss_and_repair_takes_it_away() {
    for (endian, bytes) in MKFS {
        let at = (0..bytes.len()).step_by(4).find(|&at| {
            let header = Header::parse(&bytes[at..], endian).ok();
            header.is_some_and(|header| header.node_type == NodeType::Xattr && header.len == 72)
        });
        let at = at.unwrap();
        let node = XattrNode::parse(&bytes[at..at + 72], endian).unwrap();
        for place in 0..node.value.len() {
            let mut value = node.value.to_vec();
            value[place] ^= 0x40;
            let mut wrong = bytes.to_vec();
            XattrNode { value: &value, ..node }.emit(endian, &mut wrong[at..at + 72]);
            let image = open(&wrong).unwrap();
            let report = check(&image, &Selection::default()).unwrap();
            let losses = extracted(&image, &mut TarTarget::new(&mut Vec::new()));
            let is_valid = attribute(&mut *mounted(&wrong), "/file", ACL_ACCESS).is_some();
            let name = format!("{endian:?} {place}");
            if is_valid {
                // Other permissions or another id.
                assert_eq!((report.outcome, losses.len()), (Outcome::Clean, 0), "{name}: {losses:?}");
                continue;
            }
            assert_eq!(report.outcome, Outcome::Damaged, "{name}");
            let finding = &report.findings[0];
            assert_eq!(
                (finding.structure.name(), finding.paths.as_slice()),
                ("attribute", &["/file".to_owned()][..])
            );
            assert!(finding.what.contains("is invalid: byte "), "{name}: {}", finding.what);
            assert!(
                losses
                    .iter()
                    .any(|loss| loss.starts_with("/file: extended attribute system.posix_acl_access: ")),
                "{name}: {losses:?}"
            );
            if place % 8 == 0 {
                let (_, saved) = repaired(&name, &wrong).unwrap();
                assert_eq!(attribute(&mut *mounted(&saved), "/file", ACL_ACCESS), None, "{name}");
                assert_eq!(attribute(&mut *mounted(&saved), "/dir", ACL_DEFAULT), Some(default()), "{name}");
            }
        }
    }
}

/// Values of any bytes become an error or an ACL, and lengths that Linux does not take are errors.
#[test]
fn acls_of_any_bytes_are_read_without_a_panic() {
    let (endian, bytes) = MKFS[0];
    let at = (0..bytes.len()).step_by(4).find(|&at| {
        let header = Header::parse(&bytes[at..], endian).ok();
        header.is_some_and(|header| header.node_type == NodeType::Xattr && header.len == 72)
    });
    let node = XattrNode::parse(&bytes[at.unwrap()..][..72], endian).unwrap();
    for len in 0..node.value.len() {
        let shorter = XattrNode { value: &node.value[..len], ..node };
        let mut wrong = vec![0; shorter.size()];
        shorter.emit(endian, &mut wrong);
        // The node is the last of the image, so that nothing behind it moves.
        let moved = [&bytes[..at.unwrap()], &bytes[at.unwrap() + 72..], &wrong].concat();
        let report = check(&open(&moved).unwrap(), &Selection::default()).unwrap();
        // No entry, or one without an id, is an ACL.
        let expected = if len == 4 || len == 8 { Outcome::Clean } else { Outcome::Damaged };
        assert_eq!(report.outcome, expected, "{len} bytes: {:?}", report.findings);
    }
}

#[test]
fn a_missing_attribute_is_named() {
    for name in ["user.none", "system.posix_acl_access"] {
        let (_folder, file) = folder(&image(KINDS[0]));
        let error = change(&file, &edited::options(), |editor| {
            editor.set_xattr(&path("/data"), name.as_bytes(), None)
        });
        let error = error.unwrap_err();
        assert!(matches!(error, EditError::NoAttribute { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("/data: the file has no extended attribute {name}"));
    }
}

/// A file that is made with an ACL before its data, as a build does it, keeps both.
#[test]
fn an_acl_may_come_before_the_data() {
    let bytes = edited::filled(KINDS[1], |fs| {
        let new = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
        let inode = fs.create(1, b"file", &new).unwrap();
        fs.set_xattr(inode, ACL_ACCESS, &access(), SetXattr::Create).unwrap();
        fs.write(inode, 0, &edited::noise(1, 9000)).unwrap();
    });
    let mut fs = mounted(&bytes);
    assert_eq!(attribute(&mut *fs, "/file", ACL_ACCESS), Some(access()));
    assert_eq!((permissions(&mut *fs, "/file"), super::contents(&mut *fs, "/file").len()), (0o670, 9000));
}
