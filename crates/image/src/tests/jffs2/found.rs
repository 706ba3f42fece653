//! Filesystems of both byte orders in one file, and filesystems within larger data.

use super::*;
use crate::ImageError;
use crate::check::{Finding, Outcome, check};
use crate::info::{OneImage, info};
use crate::repair::{Repaired, repair};

const ERASE: usize = 16 << 10;

/// Marker after the last eraseblock, from which OpenWrt's kernels erase the flash.
const END_OF_FILESYSTEM: [u8; 4] = [0xDE, 0xAD, 0xC0, 0xDE];

/// Filesystem in whole eraseblocks, without the erased ones after it.
fn image(endian: Endian, summaries: bool, seed: u64) -> Vec<u8> {
    cut(made(&nor(24, ERASE as u32), endian, summaries, seed, 150_000), ERASE)
}

fn image_of_nand(endian: Endian, seed: u64) -> Vec<u8> {
    cut(made(&nand(512, 20), endian, false, seed, 150_000), 64 * 512)
}

fn cut(mut image: Vec<u8>, erase: usize) -> Vec<u8> {
    let end = image.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1;
    image.truncate(end.next_multiple_of(erase));
    image
}

/// The image without the bytes after its last node.
fn unpadded(image: &[u8]) -> &[u8] {
    let end = image.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1;
    &image[..end.next_multiple_of(4)]
}

fn any() -> Selection {
    Selection::default()
}

fn offsets(bytes: &[u8]) -> Vec<u64> {
    open(bytes).found.iter().map(|found| found.offset).collect()
}

fn notes(bytes: &[u8]) -> (Outcome, Vec<Finding>) {
    let report = check(&open(bytes), &any()).unwrap();
    (report.outcome, report.findings)
}

#[test]
fn filesystems_of_both_byte_orders_are_listed_and_read_by_their_offsets() {
    let little =
        [image(Endian::Little, false, 1), image(Endian::Little, true, 1), image_of_nand(Endian::Little, 1)];
    let big = image(Endian::Big, false, 2);
    for little in &little {
        for padded in [true, false] {
            let little = if padded { little } else { unpadded(little) };
            let both = [little, &big].concat();
            let second = little.len() as u64;
            assert_eq!(offsets(&both), [0, second], "padded: {padded}");
            assert_eq!(whole(&both, &at(0)), whole(little, &any()));
            assert_eq!(whole(&both, &at(second)), whole(&big, &any()));
            let several = open(&both).choose(&any()).unwrap_err();
            assert!(matches!(&several, ImageError::Several(list) if list.len() == 2), "{several:?}");
            let (first, other) =
                ("little-endian JFFS2 at byte 0 (0x0)", format!("big-endian JFFS2 at byte {second} "));
            let shown = several.to_string();
            assert!(shown.contains(first) && shown.contains(&other), "{shown}");
            let shown = info(&open(&both)).unwrap().to_string();
            assert!(shown.contains("  little-endian, ") && shown.contains("  big-endian, "), "{shown}");
            assert!(!shown.contains("other byte order"), "{shown}");
        }
    }
}

#[test]
fn filesystems_of_one_byte_order_one_behind_the_other_are_told_apart() {
    for endian in [Endian::Little, Endian::Big] {
        let all = [image(endian, false, 3), image(endian, false, 4), image(endian, true, 5)];
        for between in [0, ERASE, 20 * ERASE] {
            let erased = vec![0xFF; between];
            let file = [&all[0], &erased, &all[1], &erased, &all[2]].map(|part| &part[..]).concat();
            let second = (all[0].len() + between) as u64;
            let third = second + (all[1].len() + between) as u64;
            assert_eq!(offsets(&file), [0, second, third], "{endian:?}, {between} between");
            for (offset, one) in [0, second, third].into_iter().zip(&all) {
                assert_eq!(whole(&file, &at(offset)), whole(one, &any()), "{endian:?}, at {offset}");
            }
        }
    }
}

/// Erased eraseblocks with a clean marker end the first filesystem, and nothing implies the eraseblocks of the
/// second.
#[test]
fn filesystems_one_behind_the_other_do_not_overlap() {
    let mut marker = image(Endian::Little, false, 1)[..12].to_vec();
    marker.resize(ERASE, 0xFF);
    let sizes = [(64 << 10, 20_000), (128 << 10, 20_000), (128 << 10, 200_000)];
    for (blank, seed) in (0..9).flat_map(|blank| (1..4).map(move |seed| (blank, seed))) {
        let few = cut(made(&nor(24, ERASE as u32), Endian::Little, false, seed, 5000), ERASE);
        let first = [few, marker.repeat(blank)].concat();
        for (erase, bytes) in sizes {
            let flash = Geometry { erase_bytes: erase, size_bytes: 16 * u64::from(erase), ..nand(2048, 16) };
            let second = made(&flash, Endian::Little, false, seed + 7, bytes);
            let both = [&first[..], &second].concat();
            let found = info(&open(&both)).unwrap().images;
            let overlap = |pair: &&[OneImage]| pair[0].offset + pair[0].len > pair[1].offset;
            assert!(found.windows(2).find(overlap).is_none(), "{blank}, {seed}, {erase}: {found:?}");
        }
    }
}

/// Two slots of a board contain the same data, or nearly the same. An eraseblock that a garbage collector moved is no
/// second filesystem.
#[test]
fn a_copy_of_a_filesystem_is_one_of_its_own() {
    for endian in [Endian::Little, Endian::Big] {
        let one = image(endian, false, 6);
        let second = one.len() as u64;
        assert_eq!(offsets(&[&one[..], &one].concat()), [0, second]);
        let erased = vec![0xFF; 3 * ERASE];
        let apart = [&one[..], &erased, &one, &erased].concat();
        assert_eq!(offsets(&apart), [0, second + erased.len() as u64]);
        let few = made(&nor(6, ERASE as u32), endian, false, 7, 5000);
        let twice = [&few[..], &few].concat();
        assert_eq!(offsets(&twice), [0, few.len() as u64]);
        assert_eq!(whole(&twice, &at(few.len() as u64)), whole(&few, &any()));
        let mut moved = one.clone();
        moved.extend_from_slice(&one[2 * ERASE..3 * ERASE]);
        assert_eq!(offsets(&moved), [0]);
    }
}

#[test]
fn eraseblocks_of_the_other_byte_order_do_not_cut_a_filesystem_in_two() {
    for (own, other) in [(Endian::Little, Endian::Big), (Endian::Big, Endian::Little)] {
        for summaries in [false, true] {
            let plain = image(own, summaries, 1);
            let foreign = &image(other, summaries, 2)[..ERASE];
            let mixed = [&plain[..3 * ERASE], foreign, &plain[3 * ERASE..]].concat();
            assert_eq!(offsets(&mixed), [0]);
            assert_eq!(whole(&mixed, &any()), whole(&plain, &any()));
            let described = &info(&open(&mixed)).unwrap().images[0];
            let jffs2 = described.jffs2.as_ref().unwrap();
            assert!(jffs2.foreign_nodes > 2 && jffs2.damage.is_empty(), "{jffs2:?}");
            assert_eq!(jffs2.foreign_offset, Some(3 * ERASE as u64));
            let shown = described.to_string();
            assert!(
                shown.contains("of the other byte order or magic left out, the first at byte 49152"),
                "{shown}"
            );
            let (outcome, findings) = notes(&mixed);
            assert_eq!((outcome, findings.len()), (Outcome::Damaged, 1), "{findings:#?}");
            assert_eq!(findings[0].offset, Some(3 * ERASE as u64));
            assert!(findings[0].what.contains("of the other byte order"), "{findings:#?}");
        }
    }
}

#[test]
fn single_nodes_of_the_other_byte_order_are_noted_and_not_read() {
    let plain = image(Endian::Little, false, 1);
    let other = image(Endian::Big, false, 2);
    // The first name of the root, which follows the clean marker, alone in an eraseblock.
    let mut foreign = other[12..72].to_vec();
    foreign.resize(ERASE, 0xFF);
    let mixed = [&plain[..2 * ERASE], &foreign, &plain[2 * ERASE..]].concat();
    assert_eq!(offsets(&mixed), [0]);
    assert_eq!(whole(&mixed, &any()), whole(&plain, &any()));
    let (outcome, findings) = notes(&mixed);
    assert_eq!((outcome, findings.len(), findings[0].offset), (Outcome::Damaged, 1, Some(2 * ERASE as u64)));
}

#[test]
fn a_filesystem_of_the_other_byte_order_between_two_others_is_listed() {
    let (little, big) = (image(Endian::Little, false, 1), image(Endian::Big, false, 2));
    let all = [&little[..], &big, &little].concat();
    let second = little.len() as u64;
    let third = second + big.len() as u64;
    assert_eq!(offsets(&all), [0, second, third]);
    for (offset, one) in [(0, &little), (second, &big), (third, &little)] {
        assert_eq!(whole(&all, &at(offset)), whole(one, &any()));
    }
}

/// Flash chip: boot loader and kernel, a squashfs that ends within an eraseblock, the filesystem, and data after it.
fn chip(filesystem: &[u8], erase: usize, behind: &[u8]) -> (Vec<u8>, usize) {
    let mut bytes =
        [&[0x27, 0x05, 0x19, 0x56], &noise(3, 3 * erase - 4)[..], b"hsqs", &noise(4, 100_001)].concat();
    bytes.resize(bytes.len().next_multiple_of(erase), 0xFF);
    let offset = bytes.len();
    bytes.extend_from_slice(filesystem);
    bytes.extend_from_slice(behind);
    (bytes, offset)
}

#[test]
fn a_filesystem_in_the_dump_of_a_chip_is_read_whatever_comes_behind() {
    let nand = image_of_nand(Endian::Big, 1);
    let nor = [image(Endian::Little, false, 1), image(Endian::Big, true, 1)];
    let all = nor.iter().map(|image| (image, ERASE)).chain([(&nand, 64 * 512)]);
    for (image, erase) in all {
        let mut end = END_OF_FILESYSTEM.to_vec();
        end.resize(erase, 0xFF);
        for behind in [&end[..], &vec![0xFF; 5 * erase], &vec![0; 3 * erase + 5], &noise(5, 2 * erase + 7)] {
            let (bytes, offset) = chip(image, erase, behind);
            assert_eq!(offsets(&bytes), [offset as u64], "{:02x?}", &behind[..4]);
            assert_eq!(whole(&bytes, &any()), whole(image, &any()), "{:02x?}", &behind[..4]);
        }
    }
}

#[test]
fn a_filesystem_that_begins_amid_an_eraseblock_of_the_dump_is_read() {
    for (image, step) in [(image(Endian::Little, false, 1), 4), (image_of_nand(Endian::Little, 1), 1)] {
        let before = noise(3, 3 * ERASE + 0x1230 + step);
        let bytes = [&before[..], &image, &[0; 300]].concat();
        assert_eq!(offsets(&bytes), [before.len() as u64]);
        assert_eq!(whole(&bytes, &any()), whole(&image, &any()));
    }
}

#[test]
fn a_dump_that_ends_amid_a_node_is_read_up_to_there() {
    for image in
        [image(Endian::Little, false, 1), image(Endian::Little, true, 1), image_of_nand(Endian::Big, 1)]
    {
        let (all, _) = read(&image, &any());
        let (part, extracted) = read(&image[..image.len() / 2 + 1001], &any());
        let is_same = |(path, kept): (&String, _)| all.files.get(path) == Some(kept);
        let same = part.files.iter().filter(|&(path, kept)| is_same((path, kept))).count();
        assert!(same > all.files.len() / 3 && extracted.losses.len() < 4, "{same}: {:?}", extracted.losses);
    }
}

/// A file that ends within a node is cut, and one that ends after a node is not: `mkfs.jffs2` writes such files.
#[test]
fn a_file_that_ends_within_a_node_is_cut() {
    let image = image(Endian::Little, false, 1);
    let whole = unpadded(&image);
    let (outcome, findings) = notes(whole);
    assert_eq!((outcome, open(whole).found.len()), (Outcome::Clean, 1), "{findings:?}");
    for less in [8, 30] {
        let cut = &whole[..whole.len() - less];
        let (outcome, findings) = notes(cut);
        let is_told = |finding: &&Finding| finding.what.starts_with("the file is cut: it ends");
        let told: Vec<&Finding> = findings.iter().filter(is_told).collect();
        assert_eq!((outcome, told.len(), told[0].offset), (Outcome::Damaged, 1, Some(cut.len() as u64)));
        assert!(told[0].consequence.contains("cannot be named"), "{findings:?}");
        let (_, extracted) = read(cut, &any());
        let is_named = extracted.losses.iter().any(|loss| loss.what.contains("cannot be named"));
        assert!(is_named, "{:?}", extracted.losses);
        let info = crate::info::info(&open(cut)).unwrap();
        assert!(info.images[0].cut.is_some(), "{info}");
        let map = crate::map::map(&open(cut)).unwrap();
        assert_eq!(map.parts[0].checksum, crate::map::Checksum::Truncated, "{map:?}");
    }
}

/// A file whose data are lost is listed under each of its names.
#[test]
fn each_name_of_a_damaged_file_is_listed() {
    let geometry = nor(4, ERASE as u32);
    let options = MountOptions { endian: Some(Endian::Little), ..MountOptions::default() };
    let mounted = Jffs2::mount(flash(Vec::new(), &geometry), Instant::ZERO, &options);
    let mut fs = mounted.unwrap_or_else(|(error, _)| panic!("{error}"));
    let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    let inode = fs.create(1, b"first", &new).unwrap();
    let data = noise(9, 9000);
    fs.write(inode, 0, &data).unwrap();
    fs.link(inode, 1, b"second").unwrap();
    let mut bytes = fs.unmount().unwrap_or_else(|(error, _)| panic!("{error}")).into_store();
    let at = memchr::memmem::find(&bytes, &data[5000..5020]).unwrap();
    bytes[at] ^= 1;
    let (_, extracted) = read(&bytes, &any());
    let of = |path: &str| extracted.losses.iter().filter(|loss| loss.path == path).count();
    assert!(of("/first") > 0 && of("/second") == 1, "{:?}", extracted.losses);
}

#[test]
fn a_dump_that_begins_amid_a_filesystem_is_read_from_there() {
    for (image, erase) in [
        (image(Endian::Little, false, 1), ERASE),
        (image(Endian::Big, true, 1), ERASE),
        (image_of_nand(Endian::Little, 1), 64 * 512),
    ] {
        let (all, _) = read(&image, &any());
        let data = |memory: &Memory| -> Vec<Vec<u8>> {
            let files = memory.files.values().map(|kept| kept.data.clone());
            files.filter(|data| data.len() > 100).collect()
        };
        for start in [erase, erase + 4, 2 * erase + 1001] {
            let (part, extracted) = read(&image[start..], &any());
            let (known, found) = (data(&all), data(&part));
            let same = found.iter().filter(|data| known.contains(data)).count();
            assert!(
                same > known.len() / 4,
                "{same} of {}, from {start}: {:?}",
                known.len(),
                extracted.losses
            );
            assert!(part.files.keys().any(|path| path.starts_with("/lost-")), "{:?}", part.files.keys());
            let (outcome, findings) = notes(&image[start..]);
            assert_eq!(outcome, Outcome::Damaged);
            assert!(
                findings.iter().any(|finding| finding.what.contains("the name of inode")),
                "{findings:#?}"
            );
            assert!(
                findings.iter().all(|finding| !finding.what.contains("beyond its eraseblock")),
                "{findings:#?}"
            );
        }
    }
}

#[test]
fn directories_whose_names_are_lost_are_found() {
    let plain = image(Endian::Little, false, 1);
    let mut damaged = plain.clone();
    let name = memchr::memmem::find(&plain, b"dir-1-3").unwrap();
    // No node of it remains.
    damaged[name - 40..name + 8].fill(0);
    let (outcome, findings) = notes(&damaged);
    assert_eq!(outcome, Outcome::Damaged);
    let lost = findings.iter().find(|finding| finding.structure.name() == "name");
    assert!(lost.is_some_and(|lost| lost.what.contains("is shown as \"lost-")), "{findings:#?}");
    assert!(read(&damaged, &any()).0.files.keys().any(|path| path.starts_with("/lost-")));
}

/// Files without a name get a name in a new root directory.
#[test]
fn a_filesystem_without_its_beginning_is_repaired_as_far_as_it_is_there() {
    let image = image(Endian::Little, false, 1);
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["image", "repaired"].map(|name| folder.path().join(name));
    for start in [ERASE, ERASE + 1001] {
        std::fs::write(&from, &image[start..]).unwrap();
        let report = repair(&from, &to, &Selection::default()).unwrap();
        assert_eq!(report.outcome, Repaired::WithLosses, "from {start}");
        let (before, _) = read(&image[start..], &any());
        let (after, extracted) = read(&std::fs::read(&to).unwrap(), &any());
        assert_eq!(extracted.losses, [], "from {start}");
        let names = |memory: &Memory| memory.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "from {start}");
        assert!(before.files.iter().all(|(path, kept)| after.files[path].data == kept.data), "from {start}");
    }
}

/// Files of an image, by path.
type Files<'f> = &'f [(&'f str, Vec<u8>)];

/// Image of some files, as an image builder writes it, for eraseblocks of this size.
fn of_files(erase: u32, endian: Endian, files: Files<'_>) -> Vec<u8> {
    let compressors = vec![Compressor::Zlib];
    let options = MountOptions { endian: Some(endian), compressors, ..MountOptions::default() };
    let mounted = Jffs2::mount(flash(Vec::new(), &nor(12, erase)), Instant::ZERO, &options);
    let mut fs = mounted.unwrap_or_else(|(error, _)| panic!("{error}"));
    for (name, data) in files {
        let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let inode = fs.create(1, name.as_bytes(), &new).unwrap();
        fs.write(inode, 0, data).unwrap();
    }
    let bytes = fs.unmount().unwrap_or_else(|(error, _)| panic!("{error}")).into_store();
    cut(bytes, erase as usize)
}

/// Small filesystems, updated ones, ones with other eraseblocks, and ones with other data between them are all
/// distinguished.
#[test]
fn two_small_filesystems_of_one_byte_order_are_told_apart() {
    const LARGE: u32 = 64 << 10;
    let few: Files<'_> = &[("name", b"contents".to_vec()), ("other", noise(1, 3000))];
    let others: Files<'_> = &[("config", b"key=value".to_vec()), ("data", noise(2, 5000))];
    let old: Vec<(String, Vec<u8>)> = (0..12)
        .map(|number| (format!("file-{number}"), noise(number + 1, 700 * (number as usize + 1))))
        .collect();
    let mut new = old.clone();
    (new[2].1, new[7].1) = (noise(99, 1500), noise(98, 9000));
    let of = |erase, endian, files: &[(String, Vec<u8>)]| {
        let files: Vec<(&str, Vec<u8>)> =
            files.iter().map(|(name, data)| (name.as_str(), data.clone())).collect();
        of_files(erase, endian, &files)
    };
    for endian in [Endian::Little, Endian::Big] {
        let cases = [
            ("few", of_files(LARGE, endian, few), of_files(LARGE, endian, others)),
            ("updated", of(LARGE, endian, &old), of(LARGE, endian, &new)),
            ("longer first", of(ERASE as u32, endian, &old), of_files(ERASE as u32, endian, others)),
            ("longer second", of_files(ERASE as u32, endian, few), of(ERASE as u32, endian, &new)),
            ("other eraseblocks", of(ERASE as u32, endian, &old), of_files(LARGE, endian, others)),
            ("smaller eraseblocks", of(LARGE, endian, &old), of(ERASE as u32, endian, &new)),
        ];
        for (name, first, second) in cases {
            for (what, between) in [
                ("nothing", Vec::new()),
                ("erased", vec![0xFF; 4096]),
                ("zeros", vec![0; 4096]),
                ("erased", vec![0xFF; 300 << 10]),
                ("zeros", vec![0; 1 << 20]),
                ("erased", vec![0xFF; 3 << 20]),
            ] {
                for first in [&first[..], unpadded(&first)] {
                    let name = format!("{endian:?} {name}, {} bytes of {what} between", between.len());
                    let both = [first, &between, &second].concat();
                    let border = (first.len() + between.len()) as u64;
                    assert_eq!(offsets(&both), [0, border], "{name}");
                    assert_eq!(whole(&both, &at(0)), whole(first, &any()), "{name}");
                    assert_eq!(whole(&both, &at(border)), whole(&second, &any()), "{name}");
                }
            }
        }
    }
}

/// A stated offset is used even if nothing shows that a second filesystem begins there.
#[test]
fn a_stated_offset_is_obeyed_where_a_node_begins() {
    let one = of_files(ERASE as u32, Endian::Little, &[("name", b"contents".to_vec())]);
    let twice = [unpadded(&one), &one].concat();
    let second = unpadded(&one).len() as u64;
    assert_eq!(whole(&twice, &at(second)), whole(&one, &any()));
    let image = open(&twice);
    assert_eq!(image.file_byte(image.choose(&at(second)).unwrap().offset), second);
    assert!(matches!(image.choose(&at(second + 1)), Err(ImageError::NotThere(_))));
}
