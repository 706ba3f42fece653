//! JFFS2 images of mtd-utils: found, read, checked, extracted, whole and damaged. Others, made here, are changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

mod acl;
mod around;
mod beginning;
mod built;
mod contradicting;
mod dumped;
mod edited;
mod marked;
mod mutated;
mod old;
mod repaired;
mod shifted;

use floatgate_mtd::random::Random;
use std::fs::File;
use std::io::Write;

use repaired::listing;

use floatgate_image::check::{Outcome, check};
use floatgate_image::detect::Content;
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::info::{info, selected_info};
use floatgate_image::{Access, Image, ImageError, Selection};
use floatgate_media::jffs2::{Compressor, Dirent, DirentNode, Endian, Inode};
use floatgate_mtd::advice::Help as _;
use floatgate_stack::fs::{DeviceNumber, FileSystem, FileType};
use floatgate_stack::ubifs::Behaviour;

const IMAGES: [(&str, &[u8]); 6] = [
    ("little", include_bytes!("../golden/jffs2/little.jffs2")),
    ("big", include_bytes!("../golden/jffs2/big.jffs2")),
    ("little-summary", include_bytes!("../golden/jffs2/little-summary.jffs2")),
    ("big-summary", include_bytes!("../golden/jffs2/big-summary.jffs2")),
    ("lzo", include_bytes!("../golden/jffs2/lzo.jffs2")),
    ("rtime", include_bytes!("../golden/jffs2/rtime.jffs2")),
];

pub(crate) fn open(bytes: &[u8]) -> Result<Image, ImageError> {
    let mut file: File = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Image::over(file, Access::Read)
}

fn mounted(bytes: &[u8]) -> Box<dyn FileSystem> {
    open(bytes).unwrap().mount(&Selection::default(), false, Behaviour::default()).unwrap()
}

fn contents(fs: &mut dyn FileSystem, path: &str) -> Vec<u8> {
    let inode = fs.resolve(path.as_bytes()).unwrap();
    let size = fs.attributes(inode).unwrap().size;
    let mut data = vec![0xEE; usize::try_from(size).unwrap() + 10];
    let len = fs.read(inode, 0, &mut data).unwrap();
    data.truncate(len);
    data
}

fn text() -> Vec<u8> {
    (0..220).flat_map(|n| format!("line {n} of a file that can be compressed\n").into_bytes()).collect()
}

#[test]
fn images_of_mtd_utils_are_read() {
    for (name, bytes) in IMAGES {
        let mut fs = mounted(bytes);
        let fs = &mut *fs;
        assert_eq!(fs.damage(), [], "{name}");
        assert!(contents(fs, "/dir/text") == text(), "{name}");
        assert!(contents(fs, "/dir/deeper/again") == text(), "{name}");
        assert_eq!(contents(fs, "/dir/random").len(), 5000, "{name}");
        assert_eq!(contents(fs, "/empty"), b"", "{name}");
        let mut holes = vec![0; 20_003];
        holes[..5].copy_from_slice(b"begin");
        holes[20_000..].copy_from_slice(b"end");
        assert!(contents(fs, "/holes") == holes, "{name}");
        let at = |fs: &mut dyn FileSystem, path: &str| {
            let inode = fs.resolve(path.as_bytes()).unwrap();
            fs.attributes(inode).unwrap()
        };
        let link = at(fs, "/link").inode;
        assert_eq!(fs.read_link(link).unwrap(), b"dir/text");
        let random = at(fs, "/dir/random");
        assert_eq!((random.mode, random.uid, random.gid, random.links), (0o100_755, 1000, 33, 1), "{name}");
        assert_eq!((random.mtime.seconds, at(fs, "/dir/text").links), (1_700_000_000, 2), "{name}");
        let dir = at(fs, "/dir");
        assert_eq!((dir.mode, dir.links, dir.mtime.seconds), (0o040_700, 3, 1_700_000_000), "{name}");
        assert_eq!(at(fs, "/null").device, Some(DeviceNumber { major: 1, minor: 3 }), "{name}");
        assert_eq!(at(fs, "/pipe").file_type, FileType::Fifo, "{name}");
        let with_note = at(fs, "/dir/text").inode;
        let note = fs.get_xattr(with_note, b"user.note").ok();
        let expected = (!matches!(name, "lzo" | "rtime")).then(|| b"the value".to_vec());
        assert_eq!(note, expected, "{name}");
        assert!(
            fs.create(
                1,
                b"new",
                &floatgate_stack::fs::NewFile {
                    kind: floatgate_stack::fs::NewKind::Fifo,
                    permissions: 0,
                    uid: 0,
                    gid: 0,
                }
            )
            .is_err()
        );
    }
}

/// As OpenWrt writes them; the pages are compressed by Python's module lzma.
#[test]
fn nodes_of_lzma_are_read() {
    let pages: &[u8] = include_bytes!("../golden/jffs2/pages.lzma");
    for endian in [Endian::Little, Endian::Big] {
        let mut bytes = Vec::new();
        let mut add = |len: usize, emit: &dyn Fn(&mut [u8])| {
            let from = bytes.len();
            bytes.resize((from + len).next_multiple_of(4), 0xFF);
            emit(&mut bytes[from..from + len]);
        };
        let dirent = Dirent { parent: 1, version: 1, inode: 2, dirent_type: 8, ..Dirent::default() };
        let node = DirentNode { dirent, name: b"text" };
        add(node.size(), &|out| node.emit(endian, out));
        let mut rest = pages;
        for (number, page) in (0u32..).zip(text().chunks(4096)) {
            let (len, behind) = rest.split_first_chunk::<2>().unwrap();
            let (data, behind) = behind.split_at(usize::from(u16::from_le_bytes(*len)));
            rest = behind;
            let inode = Inode {
                inode: 2,
                version: number + 1,
                mode: 0o100_644,
                file_bytes: u32::try_from(text().len()).unwrap(),
                offset: number * 4096,
                data_len: u32::try_from(data.len()).unwrap(),
                file_len: u32::try_from(page.len()).unwrap(),
                compressor: Compressor::Lzma,
                ..Inode::default()
            };
            add(Inode::SIZE + data.len(), &|out| inode.emit(data, endian, out));
        }
        assert!(rest.is_empty());
        assert!(contents(&mut *mounted(&bytes), "/text") == text(), "{endian:?}");
        let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Clean, "{:?}", report.findings);
    }
}

#[test]
fn images_of_mtd_utils_are_clean_and_described() {
    for (name, bytes) in IMAGES {
        let image = open(bytes).unwrap();
        let report = check(&image, &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Clean, "{name}: {:?}", report.findings);
        let volume = &report.images[0].volumes[0];
        assert_eq!((volume.directories, volume.files), (3, 8 - 1), "{name}");
        let described = info(&image).unwrap();
        let jffs2 = described.images[0].jffs2.as_ref().unwrap();
        assert_eq!(jffs2.shape.big_endian, name.starts_with("big"), "{name}");
        assert_eq!(jffs2.summaries > 0, name.ends_with("summary"), "{name}");
    }
}

/// In front of it and behind it there is something else.
#[test]
fn an_image_inside_a_file_is_found() {
    for (name, bytes) in IMAGES {
        let mut file = vec![0x5A; 70_001];
        file.extend(bytes);
        file.extend([0x5A; 3000]);
        let image = open(&file).unwrap();
        assert_eq!(image.found.len(), 1, "{name}: {:?}", image.found);
        assert_eq!(image.found[0].offset, 70_001, "{name}");
        assert!(matches!(image.found[0].content, Content::Jffs2(_)), "{name}");
        assert!(contents(&mut *mounted(&file), "/dir/text") == text(), "{name}");
    }
}

#[test]
fn what_needs_lebs_is_refused() {
    let image = open(IMAGES[0].1).unwrap();
    assert!(matches!(image.volume(&Selection::default()), Err(ImageError::NotForJffs2(_))));
    // No volume is ignored.
    let selection = Selection { volume: Some("rootfs".to_owned()), ..Selection::default() };
    let refused = [
        image.mount(&selection, true, Behaviour::default()).map(drop),
        check(&image, &selection).map(drop),
        selected_info(&image, &selection).map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, ImageError::NoVolume { .. }), "{error:?}");
        assert!(error.to_string().ends_with("the image has no volumes"), "{error}");
    }
}

/// Reads bytes that hold no image: the message, and the advice.
fn refused(bytes: &[u8]) -> (String, String) {
    let error = open(bytes).map(drop).unwrap_err();
    (error.to_string(), error.help().to_string())
}

#[test]
fn other_contents_and_swapped_bytes_are_told() {
    let (message, help) = refused(&[7]);
    assert!(message.contains("the file has 1 byte") && help.contains("name a file"), "{message}: {help}");
    let image = IMAGES[0].1;
    for (group, tool) in [(2, "dd conv=swab"), (4, "--reverse-bytes=4")] {
        let swapped: Vec<u8> =
            image.chunks(group).flat_map(|bytes| bytes.iter().rev().copied().collect::<Vec<u8>>()).collect();
        let (message, help) = refused(&swapped);
        assert!(
            message.contains(&format!("JFFS2 begins at byte 0, but the bytes of each group of {group}")),
            "{message}"
        );
        assert!(help.contains(tool), "{help}");
    }
    let mut packed = vec![0x1F, 0x8B, 8, 0];
    packed.resize(5000, 7);
    let (message, help) = refused(&packed);
    assert!(message.contains("begins with gzip") && help.contains("gunzip"), "{message}: {help}");
    let mut firmware = vec![7; 200_000];
    firmware[65536..65540].copy_from_slice(b"hsqs");
    let (message, help) = refused(&firmware);
    assert!(
        message.contains("but squashfs at byte 65536") && help.contains("tail -c +65537"),
        "{message}: {help}"
    );
    firmware[131_072..131_076].copy_from_slice(&[0xDE, 0xAD, 0xC0, 0xDE]);
    let (message, help) = refused(&firmware);
    assert!(message.contains("OpenWrt's mark") && help.contains("no JFFS2 yet"), "{message}: {help}");
}

/// Whatever is damaged: nothing panics, and what differs from the whole image is told.
/// Linux reads the whole eraseblock where its summary is damaged: no node is missing.
#[test]
fn a_damaged_summary_costs_nothing() {
    for (name, whole) in IMAGES.iter().filter(|(name, _)| name.ends_with("summary")) {
        let Content::Jffs2(shape) = open(whole).unwrap().found[0].content else { panic!("{name}") };
        let mut bytes = whole.to_vec();
        // The last bytes of an eraseblock lead to its summary.
        let end = shape.erase_bytes as usize;
        let offset: [u8; 4] = bytes[end - 8..end - 4].try_into().unwrap();
        let offset = if shape.big_endian { u32::from_be_bytes(offset) } else { u32::from_le_bytes(offset) };
        bytes[offset as usize + 40] ^= 1;
        let image = open(&bytes).unwrap();
        let report = check(&image, &Selection::default()).unwrap();
        let mut tar = Vec::new();
        let extractions = Extractions::open(&image, &Selection::default()).unwrap();
        let extracted =
            extractions.run(&mut TarTarget::new(&mut tar), &ExtractLimits::default(), &|_| {}).unwrap();
        assert_eq!((report.status().code(), extracted.status().code()), (1, 0), "{name}: {report:?}");
        assert!(extracted.notes.iter().any(|note| note.contains("summary")), "{name}: {:?}", extracted.notes);
    }
}

#[test]
fn damage_is_told() {
    let mut random = Random::new(0x1985_1985);
    for (name, whole) in IMAGES {
        let before = listing(&mut *mounted(whole));
        for round in 0..60 {
            let mut bytes = whole.to_vec();
            for _ in 0..=random.index(3) {
                let at = random.index(bytes.len());
                match random.index(3) {
                    0 => bytes[at] ^= 1 << random.index(8),
                    1 => bytes[at..].iter_mut().take(100).for_each(|byte| *byte = 0xFF),
                    _ => bytes.truncate(at.max(100)),
                }
            }
            let Ok(image) = open(&bytes) else { continue };
            let selection = Selection { offset: Some(image.found[0].offset), ..Selection::default() };
            let report = check(&image, &selection).unwrap();
            let mut tar = Vec::new();
            let Ok(extractions) = Extractions::open(&image, &selection) else { continue };
            let extracted =
                extractions.run(&mut TarTarget::new(&mut tar), &ExtractLimits::default(), &|_| {}).unwrap();
            let Ok(mut fs) = image.mount(&selection, false, Behaviour::default()) else { continue };
            let after = listing(&mut *fs);
            // A dirent or inode that is erased leaves no trace; a node that differs does.
            let changed = after.iter().any(|(path, data)| match (data, before.get(path)) {
                (Some(data), Some(Some(was))) => data.len() == was.len() && data != was,
                (None, Some(Some(_))) => true,
                _ => false,
            });
            if changed && report.outcome == Outcome::Clean {
                let is_erased = bytes.windows(100).any(|window| window.iter().all(|&byte| byte == 0xFF));
                assert!(is_erased || bytes.len() < whole.len(), "{name} {round}: {:?}", extracted.losses);
            }
            let (is_clean, has_losses) = (report.status().code() == 0, !extracted.losses.is_empty());
            assert!(!(is_clean && has_losses), "{name} {round}: {:?}", extracted.losses);
            // What costs no contents is a note.
            assert!(is_clean || has_losses || !extracted.notes.is_empty(), "{name} {round}");
        }
    }
}
