//! Images in which bytes are missing, or too many: the eraseblocks behind are not where they should be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use floatgate_image::build::{BuildOptions, Container, FlashShape, Jffs2Options, Overrides, Source, build};
use floatgate_image::check::{CheckReport, Outcome, check};
use floatgate_image::detect::Content;
use floatgate_image::{Access, Image, ImageError, Selection};
use floatgate_media::jffs2::{DirentNode, Endian, Inode, NodeType};
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::FormatOptions;

use super::edited::{ERASE, noise};
use super::repaired::{listing, nodes, repaired};
use super::{Random, mounted, open};

/// An image of some directories with files, most of which can be compressed.
fn made(endian: Endian, summaries: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    for number in 0..90 {
        let directory = files.join(format!("dir-{}", number % 7));
        fs::create_dir_all(&directory).unwrap();
        let line = format!("line of file {number}, {}\n", number * number * 7919);
        let data = match number % 3 {
            0 => noise(number + 1, (number * 131) as usize),
            1 => line.repeat(number as usize * 9).into_bytes(),
            _ => line.into_bytes(),
        };
        fs::write(directory.join(format!("file-{number}")), data).unwrap();
    }
    let image = folder.path().join("image");
    let out = fs::File::options().read(true).write(true).create_new(true).open(&image).unwrap();
    let big_endian = endian == Endian::Big;
    let options = BuildOptions {
        shape: FlashShape {
            page_bytes: 1,
            sub_page_bytes: 1,
            peb_bytes: ERASE as u32,
            vid_header_offset: None,
            size: None,
        },
        container: Container::Jffs2(Jffs2Options { big_endian, summaries, pad_bytes: None }),
        format: FormatOptions { compression: Compression::Zlib, ..FormatOptions::default() },
        uuid: None,
        volume_bytes: None,
        overrides: Overrides { owner: Some((0, 0)), latest: Some(1) },
        device_table: None,
    };
    build(&Source::Directory(files), out, &options).unwrap();
    fs::read(image).unwrap()
}

/// The same without clean markers, as for NAND.
fn without_markers(mut image: Vec<u8>, endian: Endian) -> Vec<u8> {
    let markers =
        nodes(&image, endian).into_iter().filter(|(_, header)| header.node_type == NodeType::CleanMarker);
    for (at, header) in markers.collect::<Vec<_>>() {
        let padding = floatgate_media::jffs2::Header::new(NodeType::Padding, header.len);
        padding.emit(endian, &mut image[at..]);
    }
    image
}

/// Paths of files all of whose nodes, and names, are outside of a part of the image.
fn surviving(image: &[u8], endian: Endian, hit: std::ops::Range<usize>) -> BTreeSet<String> {
    let mut lost = BTreeSet::new();
    for (at, header) in nodes(image, endian) {
        let node = &image[at..at + header.len as usize];
        let is_hit = at < hit.end && hit.start < at + node.len() || at == hit.start;
        let inode = match header.node_type {
            NodeType::Inode => Inode::parse(node, endian).unwrap().inode,
            NodeType::Dirent => DirentNode::parse(node, endian).unwrap().dirent.inode,
            _ => continue,
        };
        if is_hit {
            lost.insert(inode);
        }
    }
    let mut fs = mounted(image);
    let all = listing(&mut *fs).into_keys();
    let is_whole = |path: &String| {
        let mut inode = fs.root();
        path.split('/').skip(1).all(|name| {
            inode = fs.lookup(inode, name.as_bytes()).unwrap();
            !lost.contains(&inode)
        })
    };
    all.filter(is_whole).collect()
}

fn checked(bytes: &[u8]) -> CheckReport {
    check(&open(bytes).unwrap(), &Selection::default()).unwrap()
}

fn erase_bytes(bytes: &[u8]) -> u32 {
    let image = open(bytes).unwrap();
    assert_eq!(image.found.len(), 1, "{:?}", image.found);
    let Content::Jffs2(shape) = image.found[0].content else { panic!("{:?}", image.found) };
    assert_eq!(image.found[0].offset, 0);
    shape.erase_bytes
}

/// Asserts that all is read that survives, before and after a repair.
fn assert_survives(
    name: &str,
    bytes: &[u8],
    all: &BTreeMap<String, Option<Vec<u8>>>,
    paths: &BTreeSet<String>,
) {
    assert_eq!(erase_bytes(bytes), ERASE as u32, "{name}");
    let (report, new) = repaired(name, bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(!report.losses.is_empty(), "{name}");
    for (what, bytes) in [("before", bytes), ("after", &new)] {
        let now = listing(&mut *mounted(bytes));
        let missing: Vec<&String> = paths.iter().filter(|path| now.get(*path) != all.get(*path)).collect();
        assert!(missing.is_empty(), "{name}, {what}: {missing:?}, of {}", all.len());
    }
}

#[test]
fn what_follows_missing_bytes_is_read_and_repaired() {
    let mut random = Random::new(0x0517_F7ED);
    let (mut told, mut all_cuts) = (0, 0);
    for (endian, summaries, markers) in [
        (Endian::Little, false, true),
        (Endian::Big, false, true),
        (Endian::Little, true, true),
        (Endian::Big, true, false),
        (Endian::Little, false, false),
    ] {
        let whole = made(endian, summaries);
        let whole = if markers { whole } else { without_markers(whole, endian) };
        let used = whole.iter().rposition(|&byte| byte != 0xFF).unwrap();
        let all = listing(&mut *mounted(&whole));
        for round in 0..14 {
            let bytes = [1, 13, 700, 5000, ERASE, ERASE + 13, 700][round % 7];
            let at = 600 + random.index(used - bytes - 600);
            let name = format!("{endian:?} {summaries} {markers}: {bytes} bytes at {at}");
            let (cut, inserted) = if round % 4 == 3 { (0, bytes) } else { (bytes, 0) };
            let image = [&whole[..at], &noise(7, inserted), &whole[at + cut..]].concat();
            let survives = surviving(&whole, endian, at..at + cut);
            assert_survives(&name, &image, &all, &survives);
            let report = checked(&image);
            assert_eq!(report.outcome, Outcome::Damaged, "{name}");
            let shift = bytes % ERASE;
            let noun = if shift == 1 { "byte" } else { "bytes" };
            let said =
                [format!("{shift} {noun} missing, beside"), format!("{shift} {noun} too many, beside")];
            all_cuts += 1;
            told += usize::from(
                report.findings.iter().any(|finding| {
                    let offset = finding.offset.unwrap_or(0).abs_diff(at as u64);
                    said.iter().any(|said| finding.what.starts_with(said)) && offset < 5000
                }) || shift == 0,
            );
        }
    }
    assert!(told * 10 > all_cuts * 8, "{told} of {all_cuts}");
}

/// Without clean markers the other nodes show the eraseblocks.
#[test]
fn wrong_bits_in_two_headers_shift_nothing() {
    let whole = without_markers(made(Endian::Little, false), Endian::Little);
    let mut bytes = whole.clone();
    let nodes = nodes(&whole, Endian::Little);
    for number in [nodes.len() / 5, nodes.len() * 2 / 3] {
        bytes[nodes[number].0 + 6] ^= 4;
    }
    assert_eq!(erase_bytes(&bytes), ERASE as u32);
    assert_eq!(open(&bytes).unwrap().found[0].len, open(&whole).unwrap().found[0].len);
    let report = checked(&bytes);
    assert!(report.findings.iter().all(|finding| !finding.what.contains(", beside")), "{report:?}");
}

/// Nothing is written to it where it is.
#[test]
fn what_is_shifted_is_not_changed() {
    let whole = made(Endian::Little, false);
    let bytes = [&whole[..30_000], &whole[30_013..]].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    fs::write(&path, bytes).unwrap();
    let error = Image::open(&path, Access::Write).map(drop).unwrap_err();
    assert!(matches!(error, ImageError::Shifted(_)), "{error}");
    assert!(error.to_string().contains("13 bytes missing"), "{error}");
}
