//! Damaged images that are repaired.

use std::collections::BTreeMap;
use std::fs;

use floatgate_image::ImageError;
use floatgate_image::check::{Outcome, check};
use floatgate_image::detect::Content;
use floatgate_image::list::list;
use floatgate_image::repair::{Method, RepairReport, Repaired, repair};
use floatgate_image::{Access, Image, Selection};
use floatgate_media::crc;
use floatgate_media::jffs2::{DirentNode, Endian, Header, Inode, NodeType};
use floatgate_stack::fs::{FileSystem, FileType, NewFile, NewKind};
use floatgate_stack::ubifs::Behaviour;
use floatgate_testing::few_or_all;

use super::edited::{
    ERASE, KINDS, REGULAR, filled, filled_flash, image, image_of_small_files, image_with_removed, noise,
    put_in,
};
use super::{IMAGES, Random, contents, mounted, open, text};

/// Repairs an image; what comes of it is clean.
pub(crate) fn repaired(name: &str, bytes: &[u8]) -> Result<(RepairReport, Vec<u8>), ImageError> {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::write(&old, bytes).unwrap();
    let report = repair(&old, &new, &Selection::default())?;
    assert!(fs::read(&old).unwrap() == bytes, "{name}: the old image stays");
    let checked = check(&Image::open(&new, Access::Read).unwrap(), &Selection::default()).unwrap();
    assert_eq!(checked.outcome, Outcome::Clean, "{name}: {:?}", checked.findings);
    Ok((report, fs::read(&new).unwrap()))
}

/// What can be read, by path; nothing of what cannot.
pub(crate) fn listing(fs: &mut dyn FileSystem) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![(String::new(), fs.root())];
    while let Some((path, inode)) = folders.pop() {
        for entry in fs.read_dir(inode, None, usize::MAX).unwrap_or_default() {
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            if entry.file_type == FileType::Directory && all.len() < 100 {
                folders.push((path.clone(), entry.inode));
            }
            all.insert(path, content(fs, entry.inode, entry.file_type));
        }
    }
    all
}

fn content(fs: &mut dyn FileSystem, inode: u32, of_type: FileType) -> Option<Vec<u8>> {
    let size = usize::try_from(fs.attributes(inode).ok()?.size).ok()?.min(1 << 20);
    let mut data = vec![0; size];
    match of_type {
        FileType::Regular => fs.read(inode, 0, &mut data).ok().map(|_| data),
        FileType::Symlink => fs.read_link(inode).ok(),
        _ => Some(Vec::new()),
    }
}

#[test]
fn a_clean_image_is_copied() {
    for (name, bytes) in IMAGES {
        let (report, new) = repaired(name, bytes).unwrap();
        assert_eq!((report.method, report.outcome), (Method::Copied, Repaired::Intact), "{name}");
        assert!(new == bytes, "{name}");
    }
}

/// For all damage: the new image is clean and not shorter, holds what could be read, and what is missing is listed.
#[test]
fn damaged_images_become_clean() {
    let mut random = Random::new(0x0DD_BA11);
    let made = KINDS.map(image);
    let wholes = IMAGES.iter().map(|&(name, bytes)| (name, bytes.to_vec()));
    let wholes = wholes.chain(made.into_iter().map(|bytes| ("made", bytes)));
    let (mut mended, mut lossless) = (0_usize, 0_usize);
    for (name, whole) in wholes {
        let used = whole.iter().rposition(|&byte| byte != 0xFF).unwrap();
        for round in 0..few_or_all(12, 50) {
            let mut bytes = whole.clone();
            for _ in 0..=random.index(4) {
                let at = random.index(used);
                match random.index(3) {
                    0 => bytes[at] ^= 1 << random.index(8),
                    1 => bytes[at..].iter_mut().take(100).for_each(|byte| *byte = 0xFF),
                    _ => bytes[at..].iter_mut().take(600).for_each(|byte| *byte = 0x5A),
                }
            }
            let Ok(image) = open(&bytes) else { continue };
            if image.found.len() > 1 {
                continue;
            }
            let before = listing(&mut *mounted(&bytes));
            let name = format!("{name} {round}");
            let (report, new) = repaired(&name, &bytes).unwrap();
            assert!(new.len() >= bytes.len(), "{name}");
            let after = listing(&mut *mounted(&new));
            for (path, data) in before {
                match (&data, after.get(&path)) {
                    (Some(data), Some(Some(now))) => assert!(data == now, "{name}: {path}"),
                    // Its damaged name is written again.
                    (Some(_), None) if path.starts_with("/lost-") => {
                        assert!(after.values().any(|now| *now == data), "{name}: {path}");
                    }
                    (None, now) => assert!(!matches!(now, Some(None)), "{name}: {path}"),
                    (_, now) => panic!("{name}: {path} was there, and now {now:?}"),
                }
            }
            let is_clean = report.before.outcome == Outcome::Clean;
            let is_whole = is_clean
                || report
                    .before
                    .findings
                    .iter()
                    .all(|finding| matches!(finding.structure.name(), "summary" | "mark"));
            assert_eq!(is_whole, report.losses.is_empty(), "{name}: {:#?}", report.losses);
            mended += usize::from(report.method == Method::Mended);
            lossless += usize::from(is_clean);
        }
    }
    assert!(mended > few_or_all(60, 300) && lossless >= few_or_all(0, 1), "{mended} {lossless}");
}

/// The nodes of an image: the first byte of each, and its header.
pub(crate) fn nodes(bytes: &[u8], endian: Endian) -> Vec<(usize, Header)> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match Header::parse(&bytes[at..], endian) {
            Ok(header) => {
                all.push((at, header));
                at += usize::try_from(header.padded_len()).unwrap();
            }
            Err(_) => at += 4,
        }
    }
    all
}

/// The place of an inode's only node.
fn place_of(bytes: &[u8], endian: Endian, inode: u32) -> usize {
    let is_it = |&&(at, header): &&(usize, Header)| {
        header.node_type == NodeType::Inode
            && Inode::parse(&bytes[at..], endian).is_ok_and(|node| node.inode == inode)
    };
    nodes(bytes, endian).iter().find(is_it).unwrap().0
}

#[test]
fn a_directory_whose_node_is_lost_keeps_what_is_in_it() {
    for (name, whole) in IMAGES {
        let endian = if name.starts_with("big") { Endian::Big } else { Endian::Little };
        let mut fs = mounted(whole);
        let dir = fs.resolve(b"/dir").unwrap();
        drop(fs);
        let mut bytes = whole.to_vec();
        bytes[place_of(whole, endian, dir) + 21] ^= 0x10;
        let (report, new) = repaired(name, &bytes).unwrap();
        // Reading the damaged image finds the same.
        assert!(listing(&mut *mounted(&bytes)) == listing(&mut *mounted(&new)), "{name}");
        let mut fs = mounted(&new);
        assert!(contents(&mut *fs, "/dir/text") == text(), "{name}");
        let attributes = fs.attributes(dir).unwrap();
        assert_eq!(attributes.mode, 0o040_755, "{name}: {:?}", report.losses);
        assert!(report.losses.iter().any(|loss| loss.what.contains("owner")), "{name}: {:?}", report.losses);
        assert_eq!(report.outcome, Repaired::WithLosses);
    }
}

#[test]
fn a_name_without_its_file_is_removed() {
    for (name, whole) in IMAGES {
        let endian = if name.starts_with("big") { Endian::Big } else { Endian::Little };
        let link = mounted(whole).resolve(b"/link").unwrap();
        let mut bytes = whole.to_vec();
        bytes[place_of(whole, endian, link) + 30] ^= 1;
        let (report, new) = repaired(name, &bytes).unwrap();
        assert!(mounted(&new).resolve(b"/link").is_err(), "{name}");
        assert!(!report.losses.is_empty(), "{name}");
        let of_name = |(at, header): &(usize, Header)| {
            let node = new.get(*at..*at + header.len as usize)?;
            DirentNode::parse(node, endian)
                .ok()
                .filter(|node| node.name == b"link")
                .map(|node| node.dirent.inode)
        };
        let inodes: Vec<u32> = nodes(&new, endian).iter().filter_map(of_name).collect();
        assert_eq!(inodes, [0], "{name}: the node says so");
    }
}

/// Byte of an image where a field of the dirent node of a name stands.
pub(crate) fn byte_of_name(bytes: &[u8], endian: Endian, name: &[u8], field: usize) -> usize {
    let is_it = |&&(at, header): &&(usize, Header)| {
        let node = bytes.get(at..at + header.len as usize);
        let node = node.and_then(|node| DirentNode::parse(node, endian).ok());
        header.node_type == NodeType::Dirent && node.is_some_and(|node| node.name == name)
    };
    nodes(bytes, endian).iter().find(is_it).unwrap().0 + field
}

#[test]
fn a_damaged_name_is_written_again() {
    for (name, whole) in IMAGES.into_iter().filter(|(name, _)| !name.ends_with("summary")) {
        let endian = if name.starts_with("big") { Endian::Big } else { Endian::Little };
        let mut bytes = whole.to_vec();
        bytes[byte_of_name(whole, endian, b"random", 40)] ^= 0x02;
        bytes[byte_of_name(whole, endian, b"link", 24)] ^= 1;
        let (report, new) = repaired(name, &bytes).unwrap();
        let mut fs = mounted(&new);
        let fs = &mut *fs;
        assert!(contents(fs, "/dir/pandom") == contents(&mut *mounted(whole), "/dir/random"), "{name}");
        let link = fs.resolve(b"/link").unwrap();
        assert_eq!(fs.read_link(link).unwrap(), b"dir/text", "{name}");
        assert!(
            report.losses.iter().any(|loss| loss.what.contains("name pandom")),
            "{name}: {:?}",
            report.losses
        );
    }
}

/// Damage to the only name of the root directory is no image whose beginning is cut off.
#[test]
fn the_only_name_of_the_root_directory_is_written_again() {
    for kind in KINDS {
        let whole = filled(kind, |fs| {
            let file = fs.create(1, b"only", &REGULAR).unwrap();
            fs.write(file, 0, &text()).unwrap();
        });
        // Its directory, its inode, the name, and all of it.
        for (field, len) in [(12, 1), (20, 1), (40, 1), (0, 44)] {
            let at = byte_of_name(&whole, kind.endian, b"only", field);
            let mut bytes = whole.clone();
            bytes[at..at + len].iter_mut().for_each(|byte| *byte ^= 0x55);
            let name = format!("{kind:?} {field}");
            let (report, new) = repaired(&name, &bytes).unwrap();
            let files = listing(&mut *mounted(&new));
            assert!(files.values().any(|data| data.as_deref() == Some(&text()[..])), "{name}: {report:?}");
            assert_eq!(report.outcome, Repaired::WithLosses, "{name}");
        }
    }
}

/// Nodes stay as they are where only the summary of their eraseblock is damaged; Linux mounts more slowly then.
#[test]
fn a_damaged_summary_is_told_and_written_again() {
    for kind in KINDS.into_iter().filter(|kind| kind.summaries) {
        let whole = image(kind);
        let is_summary = |(_, header): &(usize, Header)| header.node_type == NodeType::Summary;
        let (at, header) = nodes(&whole, kind.endian).into_iter().find(is_summary).unwrap();
        let len = header.len as usize;
        // Magic, type, length, CRC of the header, number, CRCs, list, padding and the marker behind it.
        for byte in [0, 2, 4, 8, 12, 24, 28, 33, len / 2, len - 8, len - 4] {
            let name = format!("{kind:?} {byte}");
            let mut bytes = whole.clone();
            bytes[at + byte] ^= 0x11;
            let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
            assert_eq!(report.outcome, Outcome::Recoverable, "{name}: {:?}", report.findings);
            let told: Vec<_> = report.findings.iter().map(|one| (one.structure.name(), one.offset)).collect();
            assert_eq!(told, [("summary", Some(at as u64))], "{name}");
            let (repair, new) = repaired(&name, &bytes).unwrap();
            assert_eq!(repair.outcome, Repaired::Wholly, "{name}: {:?}", repair.losses);
            assert!(new == whole, "{name}");
        }
    }
}

/// A file that was removed stays so, whatever its old name looks like.
#[test]
fn removed_files_do_not_come_back() {
    for kind in KINDS.into_iter().filter(|kind| !kind.summaries) {
        let whole = image_with_removed(kind);
        for (field, bit) in [(24, 1), (40, 2)] {
            let mut bytes = whole.clone();
            bytes[byte_of_name(&whole, kind.endian, b"gone", field)] ^= bit;
            let (_, new) = repaired(&format!("{kind:?}"), &bytes).unwrap();
            let names = listing(&mut *mounted(&new));
            assert_eq!(names.keys().collect::<Vec<_>>(), ["/data", "/dir", "/dir/text"], "{kind:?} {field}");
        }
    }
}

/// Where the first node is damaged, eraseblocks are found by the others.
#[test]
fn an_image_whose_first_node_is_damaged_begins_where_it_did() {
    let mut all: Vec<(String, Vec<u8>)> =
        KINDS.iter().map(|&kind| (format!("{kind:?}"), image(kind))).collect();
    all.extend(IMAGES.iter().map(|&(name, bytes)| (name.to_owned(), bytes.to_vec())));
    for (name, whole) in all {
        let old = open(&whole).unwrap().found.clone();
        let mut bytes = noise(3, 3 << 16);
        let before = bytes.len();
        bytes.extend(&whole);
        bytes[before + 5] ^= 1;
        let found = open(&bytes).unwrap().found.clone();
        let is_small = whole.len() < 2 << 16 && IMAGES.iter().any(|(image, _)| *image == name);
        if is_small && found[0].offset != before as u64 {
            continue;
        }
        assert_eq!((found[0].offset, &found[0].content), (before as u64, &old[0].content), "{name}");
        repaired(&name, &bytes).unwrap();
    }
}

/// Other damage than that of bytes: data with a good sum that cannot be decompressed.
#[test]
fn data_that_cannot_be_decompressed_are_given_up() {
    let whole = IMAGES[0].1;
    let mut fs = mounted(whole);
    let inode = fs.resolve(b"/dir/text").unwrap();
    let mut bytes = whole.to_vec();
    let at = place_of(whole, Endian::Little, inode);
    let len = Header::parse(&bytes[at..], Endian::Little).unwrap().len as usize;
    bytes[at + Inode::SIZE..at + len].fill(0xA5);
    let sum = crc::jffs2(&bytes[at + Inode::SIZE..at + len]);
    bytes[at + 60..at + 64].copy_from_slice(&sum.to_le_bytes());
    let sum = crc::jffs2(&bytes[at..at + 60]);
    bytes[at + 64..at + 68].copy_from_slice(&sum.to_le_bytes());
    let (report, new) = repaired("zlib", &bytes).unwrap();
    assert!(report.losses.iter().any(|loss| loss.path == "/dir/text"), "{:?}", report.losses);
    let image = open(&new).unwrap();
    let mut fs = image.mount(&Selection::default(), false, Behaviour::default()).unwrap();
    assert_ne!(contents(&mut *fs, "/dir/text"), text());
}

/// A node of a type that is not known and must be keeps all others from being mounted.
#[test]
fn a_node_that_must_be_known_is_taken_out() {
    let mut bytes = image(KINDS[0]);
    let last = bytes.iter().rposition(|&byte| byte != 0xFF).unwrap();
    let at = (last + 1).next_multiple_of(4);
    let end = at + 16;
    Header::new(NodeType::Other(0xE055), 16).emit(Endian::Little, &mut bytes[at..end]);
    assert!(open(&bytes).unwrap().mount(&Selection::default(), false, Behaviour::default()).is_err());
    let (report, new) = repaired("unknown", &bytes).unwrap();
    assert!(report.losses.iter().any(|loss| loss.what.contains("0xe055")), "{:?}", report.losses);
    assert!(contents(&mut *mounted(&new), "/data") == noise(1, 100_000));
}

/// An eraseblock of an image as made that is erased is found out: what it held is named, and what is left has a name again.
#[test]
fn a_lost_eraseblock_is_told() {
    for kind in KINDS {
        let whole = image(kind);
        let used = whole.iter().rposition(|&byte| byte != 0xFF).unwrap() / ERASE;
        for block in 0..used {
            let name = format!("{kind:?} {block}");
            let mut bytes = whole.clone();
            bytes[block * ERASE..(block + 1) * ERASE].fill(0xFF);
            let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
            assert_eq!(report.outcome, Outcome::Damaged, "{name}: {:?}", report.findings);
            match repaired(&name, &bytes) {
                Ok((repair, _)) => assert!(!repair.losses.is_empty(), "{name}"),
                // All names of the root directory were in the first one.
                Err(error) => {
                    assert!(block == 0 && matches!(error, ImageError::Truncated(_)), "{name}: {error}")
                }
            }
        }
    }
}

/// Wherever a file is cut off: nodes that a repair adds get an eraseblock behind the end if no other has room.
#[test]
fn images_that_are_cut_off_are_repaired() {
    let made = KINDS.map(|kind| (format!("{kind:?}"), image(kind)));
    let wholes = IMAGES.iter().map(|&(name, bytes)| (name.to_owned(), bytes.to_vec())).chain(made);
    let (mut longer, mut refused) = (0, 0);
    for (name, whole) in wholes {
        let used = whole.iter().rposition(|&byte| byte != 0xFF).unwrap();
        // Both at the ends of eraseblocks and anywhere else.
        let ends = (4 << 10..used).step_by(4 << 10);
        for len in ends.chain((4 << 10..used).step_by(if used < ERASE * 4 { 333 } else { 5555 })) {
            let name = format!("{name} {len}");
            let bytes = &whole[..len];
            if open(bytes).is_err() {
                continue;
            }
            let (report, new) = repaired(&name, bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            longer += u32::from(new.len() > len);
            assert_eq!((report.bytes_before, report.bytes), (len as u64, new.len() as u64), "{name}");
            // Before something else there is no such room.
            let with_more = [bytes, &noise(5, 3 << 16)].concat();
            let folder = tempfile::tempdir().unwrap();
            let (old, new) = (folder.path().join("old"), folder.path().join("new"));
            fs::write(&old, with_more).unwrap();
            match repair(&old, &new, &Selection::default()) {
                Ok(_) => {}
                Err(ImageError::NoRepairRoom(_)) => refused += 1,
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
    assert!(longer > 10 && refused > 10, "{longer} {refused}");
}

/// Where bytes are missing the eraseblocks behind are shifted, and their size may be guessed too large: then summaries stand in the middle.
/// All paths are there that are not listed as lost.
#[test]
fn what_follows_missing_bytes_stays() {
    let made = KINDS.map(|kind| (format!("{kind:?}"), image(kind)));
    let wholes = IMAGES.iter().map(|&(name, bytes)| (name.to_owned(), bytes.to_vec())).chain(made);
    let mut mended = 0_usize;
    for (name, whole) in wholes {
        let used = whole.iter().rposition(|&byte| byte != 0xFF).unwrap() / 4 * 4;
        for at in (4 << 10..used).step_by(used / few_or_all(10, 48) / 4 * 4 + 4) {
            let name = format!("{name} without four bytes at {at}");
            let bytes = [&whole[..at], &whole[at + 4..]].concat();
            if open(&bytes).is_err() {
                continue;
            }
            let before = listing(&mut *mounted(&bytes));
            let Ok((report, new)) = repaired(&name, &bytes) else { continue };
            mended += usize::from(report.method == Method::Mended);
            let after = listing(&mut *mounted(&new));
            let gone = before.keys().filter(|path| !after.contains_key(*path)).count();
            assert!(gone <= report.losses.len(), "{name}: {gone} paths are gone, {:?}", report.losses);
        }
    }
    assert!(mended > few_or_all(2, 10), "{mended}");
}

/// Bytes written over nodes are damage, be it zeros or anything else, and the new image has padding there.
#[test]
fn an_eraseblock_that_is_overwritten_is_damage() {
    for kind in KINDS {
        for (of, whole) in [("made", image(kind)), ("changed", image_with_removed(kind))] {
            let used = whole.iter().rposition(|&byte| byte != 0xFF).unwrap() / ERASE;
            for (block, with) in
                (1..used).flat_map(|block| [(block, vec![0; ERASE]), (block, noise(9, ERASE))])
            {
                let name = format!("{kind:?} {of} {block} {}", with[0]);
                let mut bytes = whole.clone();
                bytes[block * ERASE..(block + 1) * ERASE].copy_from_slice(&with);
                let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
                assert_eq!(report.outcome, Outcome::Damaged, "{name}: {:?}", report.findings);
                let (repair, _) = repaired(&name, &bytes).unwrap();
                assert!(!repair.losses.is_empty(), "{name}");
            }
        }
    }
}

/// An overwritten eraseblock is damage also where it is the last one with nodes, or a free one, as long as erased ones follow up to the end of the file.
#[test]
fn what_overwrites_eraseblocks_behind_which_others_are_erased_is_damage() {
    for kind in KINDS {
        let whole = image(kind);
        let last = whole.iter().rposition(|&byte| byte != 0xFF).unwrap() / ERASE;
        for (first, blocks) in [(last, 1), (last, 3), (last + 1, 1), (last + 2, 2)] {
            for with in [vec![0; blocks * ERASE], noise(9, blocks * ERASE)] {
                let name = format!("{kind:?} {blocks} at {first} {}", with[0]);
                let mut bytes = whole.clone();
                bytes[first * ERASE..(first + blocks) * ERASE].copy_from_slice(&with);
                let opened = open(&bytes).unwrap();
                assert_eq!((opened.found[0].offset, opened.found[0].len), (0, whole.len() as u64), "{name}");
                let report = check(&opened, &Selection::default()).unwrap();
                let findings =
                    || report.findings.iter().filter(|finding| finding.what.contains("are no node"));
                let places: Vec<u64> = findings().filter_map(|finding| finding.offset).collect();
                let expected: Vec<u64> =
                    (first..first + blocks).map(|block| (block * ERASE) as u64).collect();
                assert_eq!(places, expected, "{name}: {:?}", report.findings);
                let (repair, new) = repaired(&name, &bytes).unwrap();
                assert_eq!(repair.losses.len(), report.findings.len(), "{name}: {:?}", repair.losses);
                assert_eq!(new.len(), whole.len(), "{name}");
                let mut fs = mounted(&new);
                assert!(contents(&mut *fs, "/dir/text") == text(), "{name}");
            }
        }
        // So many erased ones do not follow, or it tells what it is.
        let end = (last + 3) * ERASE;
        let other = [&whole[..end], &noise(9, 2 * ERASE), &whole[end..end + ERASE]].concat();
        let mut named = [&whole[..end], &noise(9, ERASE), &whole[end..]].concat();
        named[end..end + 4].copy_from_slice(b"hsqs");
        for bytes in [other, named] {
            let found = open(&bytes).unwrap().found.clone();
            assert_eq!(found[0].len, ((last + 1) * ERASE) as u64, "{kind:?}");
            let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
            assert_eq!(report.outcome, Outcome::Clean, "{kind:?}: {:?}", report.findings);
        }
    }
}

/// A damaged node of a name is damage although the summary still lists the name: Linux reads the node, and finds no file.
#[test]
fn a_damaged_name_that_a_summary_lists_is_damage() {
    for kind in KINDS.into_iter().filter(|kind| kind.summaries) {
        let whole = image(kind);
        for field in [12, 28, 40] {
            let at = byte_of_name(&whole, kind.endian, b"dir", field);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x05;
            let name = format!("{kind:?} {field}");
            let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
            assert_eq!(report.outcome, Outcome::Damaged, "{name}: {:?}", report.findings);
            let (_, new) = repaired(&name, &bytes).unwrap();
            let is_dirent = |(_, header): &(usize, Header)| header.node_type == NodeType::Dirent;
            for (at, header) in nodes(&new, kind.endian).into_iter().filter(is_dirent) {
                assert!(DirentNode::parse(&new[at..at + header.len as usize], kind.endian).is_ok(), "{name}");
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_hides_no_others() {
    for (name, whole) in IMAGES.into_iter().filter(|(name, _)| !name.ends_with("summary")) {
        let endian = if name.starts_with("big") { Endian::Big } else { Endian::Little };
        let link = mounted(whole).resolve(b"/link").unwrap();
        let mut bytes = whole.to_vec();
        bytes[place_of(whole, endian, link) + 68] ^= 1;
        let listing = list(&mut *mounted(&bytes), b"/", true).unwrap();
        assert!(listing.files.iter().any(|file| file.path == "dir/text"), "{name}");
        let refused: Vec<&[Vec<u8>]> = listing.refused.iter().map(|(path, _)| &path[..]).collect();
        assert_eq!(refused, [[b"link".to_vec()]], "{name}");
    }
}

/// A free eraseblock that something has overwritten is no trace of a change, after which lost names would not be told from removed ones.
#[test]
fn an_overwritten_free_eraseblock_hides_no_loss() {
    let mut told = 0;
    for kind in KINDS {
        let mut whole = filled(kind, |fs| {
            for number in 0..40 {
                put_in(fs, 1, &format!("file{number}"), &noise(number, 2000));
            }
        });
        let last = whole.iter().rposition(|&byte| byte != 0xFF).unwrap() / ERASE;
        if !kind.is_nand {
            // As `mkfs.jffs2 --pad` marks free ones.
            let marker = whole[..12].to_vec();
            whole[(last + 1) * ERASE..]
                .chunks_mut(ERASE)
                .for_each(|block| block[..12].copy_from_slice(&marker));
        }
        let lost = |bytes: &[u8]| {
            let report = check(&open(bytes).unwrap(), &Selection::default()).unwrap();
            report.findings.iter().filter(|finding| !finding.what.contains("are no node")).count()
        };
        let mut one = whole.clone();
        one[ERASE..2 * ERASE].fill(0);
        let mut both = one.clone();
        both[(last + 2) * ERASE..(last + 3) * ERASE].fill(0);
        assert!(lost(&both) >= lost(&one), "{kind:?}: {} {}", lost(&one), lost(&both));
        told += lost(&one);
    }
    assert!(told > 0);
}

/// On flash that was changed nothing else tells: a removed directory leaves the same.
#[test]
fn a_directory_whose_name_is_overwritten_is_damage() {
    for kind in KINDS.into_iter().filter(|kind| !kind.summaries) {
        let whole = image_with_removed(kind);
        let at = byte_of_name(&whole, kind.endian, b"dir", 0);
        let mut bytes = whole.clone();
        bytes[at..at + 43].fill(0);
        let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Damaged, "{kind:?}: {:?}", report.findings);
        let (_, new) = repaired(&format!("{kind:?}"), &bytes).unwrap();
        let names = listing(&mut *mounted(&new));
        let lost = names.keys().find(|path| path.starts_with("/lost-") && path.ends_with("/text"));
        assert!(contents(&mut *mounted(&new), lost.unwrap()) == text(), "{kind:?}: {names:?}");
    }
}

/// It is damage of one image, not two of them: what was in its place is lost.
#[test]
fn an_eraseblock_that_is_overwritten_by_a_copy_of_another_one_is_damage() {
    for kind in KINDS {
        let whole = image_of_small_files(kind);
        let before = listing(&mut *mounted(&whole));
        let used = whole.iter().rposition(|&byte| byte != 0xFF).unwrap() / ERASE + 1;
        for (from, to) in (0..used).flat_map(|from| (0..used).map(move |to| (from, to))) {
            let name = format!("{kind:?}: {to} is a copy of {from}");
            let mut bytes = whole.clone();
            bytes.copy_within(from * ERASE..(from + 1) * ERASE, to * ERASE);
            assert_eq!(open(&bytes).unwrap().found.len(), 1, "{name}");
            let Ok((report, new)) = repaired(&name, &bytes) else {
                // All names of the root directory were in the first one.
                assert_eq!(to, 0, "{name}");
                continue;
            };
            let after = listing(&mut *mounted(&new));
            let differs = before.iter().any(|(path, data)| after.get(path).is_some_and(|now| now != data));
            assert!(!differs || !report.losses.is_empty(), "{name}");
            // Copies of nodes do not say that the image was changed, so what is not there is missing, not removed.
            let gone = before.keys().filter(|path| !after.contains_key(*path)).count();
            let is_told = report.losses.iter().any(|loss| loss.what.contains("neither nodes nor names"));
            assert!(gone < 3 || is_told, "{name}: {gone} files, {:?}", report.losses);
        }
    }
}

/// Where an image is chosen by its place, others in the file stay as they are, damaged or not. It may begin at any byte.
#[test]
fn of_several_images_the_one_that_is_chosen_is_repaired() {
    let (little, big) = (IMAGES[0].1, IMAGES[1].1);
    let damaged = |whole: &[u8], endian| {
        let mut bytes = whole.to_vec();
        let inode = mounted(whole).resolve(b"/link").unwrap();
        bytes[place_of(whole, endian, inode) + 30] ^= 1;
        bytes
    };
    let first = damaged(little, Endian::Little);
    let between = noise(3, 70_001 - first.len());
    let file = [first, between, damaged(big, Endian::Big)].concat();
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::write(&old, &file).unwrap();
    for offset in [0, 70_001] {
        let chosen = |offset| Selection { offset: Some(offset), ..Selection::default() };
        let report = repair(&old, &new, &chosen(offset)).unwrap();
        assert_eq!((report.method, report.outcome), (Method::Mended, Repaired::WithLosses), "{offset}");
        let outcome =
            |offset| check(&Image::open(&new, Access::Read).unwrap(), &chosen(offset)).unwrap().outcome;
        assert_eq!(outcome(offset), Outcome::Clean, "{offset}");
        assert_eq!(outcome(70_001 - offset), Outcome::Damaged, "{offset}");
        let now = fs::read(&new).unwrap();
        let (others, others_now) =
            if offset == 0 { (&file[70_001..], &now[70_001..]) } else { (&file[..70_001], &now[..70_001]) };
        assert!(others == others_now, "{offset}");
    }
}

/// The new nodes of a repair may tell another size of eraseblocks than what was left: no image comes of it that is damaged with that, and where Linux
/// finds no root directory then, the repair says so.
#[test]
fn a_repair_that_tells_another_size_of_eraseblocks_is_repaired_as_that() {
    const ERASE: usize = 128 << 10;
    for kind in KINDS.into_iter().filter(|kind| kind.is_nand && !kind.summaries) {
        let new = |kind| NewFile { kind, permissions: 0o755, uid: 0, gid: 0 };
        let mut bytes = filled_flash(kind, (12, ERASE), |fs| {
            let data = fs.create(1, b"data", &REGULAR).unwrap();
            fs.write(data, 0, &noise(1, 100_000)).unwrap();
            let dir = fs.create(1, b"dir", &new(NewKind::Directory)).unwrap();
            let text_file = fs.create(1, b"text", &REGULAR).unwrap();
            fs.write(text_file, 0, &text()).unwrap();
            for number in 1..7 {
                let file = fs.create(dir, format!("f{number}").as_bytes(), &REGULAR).unwrap();
                fs.write(file, 0, &noise(number + 2, 30_000)).unwrap();
            }
        });
        // As `mkfs.jffs2` leaves the ends of eraseblocks.
        for (at, header) in nodes(&bytes, kind.endian) {
            if header.node_type == NodeType::Padding {
                bytes[at..at + header.len as usize].fill(0xFF);
            }
        }
        bytes.truncate(4 * ERASE);
        bytes[..ERASE / 2].fill(0xFF);
        bytes[3 * ERASE / 2..2 * ERASE].copy_from_slice(&noise(9, ERASE / 2));
        let size = |bytes: &[u8]| open(bytes).unwrap().found[0].content.clone();
        match (repaired("half an eraseblock", &bytes), size(&bytes)) {
            (Err(error), _) => assert!(matches!(error, ImageError::Truncated(_)), "{error}"),
            (Ok((report, new)), Content::Jffs2(old)) => {
                assert_eq!(report.told_erase_bytes, Some(old.erase_bytes), "{kind:?}");
                let Content::Jffs2(now) = size(&new) else { panic!("{kind:?}") };
                assert_eq!(now.erase_bytes, old.erase_bytes, "{kind:?}");
            }
            (_, other) => panic!("{other:?}"),
        }
    }
}

/// A damaged node that newer ones have replaced is of no use, whether a summary lists it or not.
#[test]
fn damage_of_what_was_replaced_is_not_told() {
    for kind in KINDS {
        let mut bytes = filled(kind, |fs| {
            let file = fs.create(1, b"data", &REGULAR).unwrap();
            for seed in 1..3 {
                fs.write(file, 0, &noise(seed, 40_000)).unwrap();
            }
        });
        let inode = mounted(&bytes).resolve(b"/data").unwrap();
        let first = place_of(&bytes, kind.endian, inode);
        let is_data = |(at, header): &(usize, Header)| *at > first && header.len > 4000;
        let of_data = nodes(&bytes, kind.endian).into_iter().find(is_data).unwrap().0;
        // Without a summary a mount looks at the fields of all nodes, and tells all damage of them.
        bytes[of_data + 4000] ^= 1;
        if kind.summaries {
            bytes[first + 30] ^= 1;
        }
        let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
        assert_eq!((report.outcome, report.findings), (Outcome::Clean, Vec::new()), "{kind:?}");
    }
}

/// Erased bytes are room, however few they are.
#[test]
fn what_is_erased_behind_an_image_is_room_for_its_repair() {
    let whole = image(KINDS[0]);
    for erased in [0, 4, 100, ERASE - 4, ERASE, ERASE + 4] {
        let mut bytes = whole[..3 * ERASE].to_vec();
        bytes.resize(3 * ERASE + erased, 0xFF);
        let (report, new) = repaired("erased", &bytes).unwrap();
        assert!(!report.losses.is_empty() && new.len() >= bytes.len(), "{erased}: {report:?}");
    }
}
