//! The first JFFS2, of 2001: the same nodes with the magic number 0x1984.

use std::fs;

use floatgate_image::Selection;
use floatgate_image::check::{Outcome, check};
use floatgate_image::detect::Content;
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::fuzzing::mend_jffs2;
use floatgate_image::info::info;
use floatgate_media::jffs2::{Endian, Header, Inode, OLD_MAGIC};

use super::edited::{self, change, folder, mount, outcome, path, put};
use super::repaired::{listing, repaired};
use super::{IMAGES, mounted, open, text};

/// An image of mtd-utils with the old magic number in all nodes, and CRCs that fit it.
fn old(bytes: &[u8]) -> Vec<u8> {
    let mut old = bytes.to_vec();
    let mut at = 0;
    while at < old.len() {
        let node = &mut old[at..];
        match Endian::of_magic(node).and_then(|endian| Some((endian, Header::parse(node, endian).ok()?))) {
            Some((endian, header)) => {
                // Data that happen to look like a node are none.
                let len = (header.len as usize).min(Inode::SIZE);
                let mut fields = node[..header.len as usize].to_vec();
                fields[usize::from(endian.is_big())] = OLD_MAGIC.to_le_bytes()[0];
                mend_jffs2(&mut fields);
                node[..len].copy_from_slice(&fields[..len]);
                at += header.padded_len() as usize;
            }
            None => at += 4,
        }
    }
    old
}

#[test]
fn images_with_the_old_magic_are_read_as_those_with_the_new() {
    for (name, bytes) in IMAGES {
        let old = old(bytes);
        let image = open(&old).unwrap();
        let [found] = &image.found[..] else { panic!("{name}: {:?}", image.found) };
        let Content::Jffs2(shape) = found.content else { panic!("{name}: {found:?}") };
        assert!(shape.old_magic, "{name}");
        assert_eq!((shape.big_endian, found.len), (name.starts_with("big"), bytes.len() as u64), "{name}");
        let (mut new_fs, mut old_fs) = (mounted(bytes), mounted(&old));
        assert_eq!(old_fs.damage(), [], "{name}");
        assert!(listing(&mut *new_fs) == listing(&mut *old_fs), "{name}");
        assert!(info(&image).unwrap().to_string().contains("magic 0x1984"), "{name}");
        let report = check(&image, &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Clean, "{name}: {:?}", report.findings);
        let told = report.findings.iter().filter(|finding| finding.what.contains("0x1984")).count();
        assert_eq!(told, 1, "{name}: {:?}", report.findings);
        let [tar_of_new, tar_of_old] = [bytes, &old].map(|bytes| {
            let (mut tar, image) = (Vec::new(), open(bytes).unwrap());
            let extractions = Extractions::open(&image, &Selection::default()).unwrap();
            let report =
                extractions.run(&mut TarTarget::new(&mut tar), &ExtractLimits::default(), &|_| {}).unwrap();
            assert_eq!(report.losses, [], "{name}");
            tar
        });
        assert!(tar_of_new == tar_of_old, "{name}");
    }
}

/// Nodes of both magic numbers are those of two filesystems: Linux counts only today's, and the others are told.
#[test]
fn nodes_of_the_old_magic_are_no_nodes_of_a_new_filesystem() {
    let new = edited::image(edited::KINDS[0]);
    let old = old(IMAGES[0].1);
    let erase = edited::ERASE;
    let mut foreign = vec![0xFF; erase];
    foreign[..old.len()].copy_from_slice(&old);
    let mixed = [&new[..3 * erase], &foreign, &new[3 * erase..]].concat();
    let image = open(&mixed).unwrap();
    let shapes: Vec<_> = image.found.iter().map(|found| (found.offset, &found.content)).collect();
    let [(0, Content::Jffs2(own))] = shapes[..] else { panic!("{shapes:?}") };
    assert!(!own.old_magic);
    assert!(listing(&mut *mounted(&mixed)) == listing(&mut *mounted(&new)));
    let report = check(&image, &Selection::default()).unwrap();
    assert!(
        report.findings.iter().any(|finding| finding.what.contains("of the other byte order or magic")),
        "{:?}",
        report.findings
    );
}

/// A changed or repaired image stays one that its old kernel reads.
#[test]
fn an_old_image_is_changed_and_repaired_with_its_own_magic() {
    for endian in [Endian::OldLittle, Endian::OldBig] {
        let kind = edited::Kind { endian, ..edited::KINDS[0] };
        let (_folder, file) = folder(&edited::image(kind));
        put(&file, &edited::options(), "new", &text()).unwrap();
        change(&file, &edited::options(), |editor| editor.remove(&path("/data"), false)).unwrap();
        assert_eq!(outcome(&file), Outcome::Clean);
        assert_eq!(super::contents(&mut *mount(&file), "/new"), text());
        let mut bytes = fs::read(&file).unwrap();
        let today = [Endian::Little, Endian::Big].map(Endian::magic);
        let of_today = (0..bytes.len()).step_by(4).filter(|&at| {
            let is_today = today.iter().any(|magic| bytes[at..].starts_with(magic));
            is_today
                && Endian::of_magic(&bytes[at..]).is_some_and(|own| Header::parse(&bytes[at..], own).is_ok())
        });
        assert_eq!(of_today.count(), 0);
        let name = bytes.windows(4).position(|name| name == b"text").unwrap();
        bytes[name] ^= 1;
        let (report, saved) = repaired("old", &bytes).unwrap();
        assert!(!report.losses.is_empty());
        assert_eq!(super::contents(&mut *mounted(&saved), "/new"), text());
        let image = open(&saved).unwrap();
        assert!(matches!(image.found[0].content, Content::Jffs2(shape) if shape.old_magic));
    }
}

/// The magic number alone is no JFFS2.
#[test]
fn two_bytes_are_no_old_image() {
    for endian in [Endian::OldLittle, Endian::OldBig] {
        let mut bytes = vec![0; 64 << 10];
        for at in (0..bytes.len()).step_by(16) {
            bytes[at..at + 2].copy_from_slice(&endian.magic());
        }
        assert!(open(&bytes).is_err());
    }
}
