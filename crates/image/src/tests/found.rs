//! Detection of images: sizes from their contents, several images in a file, cut and partial images.

use super::*;
use crate::detect::{Content, ImageLocation};
use crate::info::info;
use floatgate_mtd::random::Random;

fn small() -> Geometry {
    Geometry::nand_512(220)
}

/// Data of a boot loader, before and between the images.
fn noise(len: usize) -> Vec<u8> {
    let mut random = Random::new(5);
    (0..len).map(|_| random.bits() as u8).collect()
}

fn ubi_regions(bytes: &[u8]) -> Vec<(u64, u64)> {
    let is_ubi = |found: &&ImageLocation| matches!(found.content, Content::Ubi(_));
    open(bytes).found.iter().filter(is_ubi).map(|found| (found.offset, found.len)).collect()
}

fn at(offset: u64) -> Selection {
    Selection { offset: Some(offset), ..Selection::default() }
}

fn any() -> Selection {
    Selection::default()
}

#[test]
fn a_bare_image_that_ends_behind_its_data_is_read() {
    let bytes = bare(400);
    assert!(bytes.len() < 100 * 15_872, "it should be short");
    assert_whole(&bytes, &any());
}

#[test]
fn geometries_show_in_the_image() {
    for (geometry, min_io) in [
        (small(), 512),
        (Geometry { sub_page_bytes: 512, ..small() }, 512),
        (Geometry::nand_2048(60), 2048),
        (Geometry { sub_page_bytes: 1024, ..Geometry::nand_2048(60) }, 2048),
        (Geometry { sub_page_bytes: 2048, ..Geometry::nand_2048(60) }, 2048),
        (Geometry::nand_4096(60), 4096),
        (Geometry::nor(60, 65_536), 1),
    ] {
        let bytes = usual(&geometry);
        assert_whole(&bytes, &any());
        let Content::Ubi(shape) = open(&bytes).found[0].content else { panic!("no UBI") };
        assert_eq!((shape.peb_bytes, shape.min_io_bytes), (geometry.erase_bytes, min_io));
    }
}

#[test]
fn a_volume_larger_than_the_image_is_read() {
    // As in images of ubinize, the volume requests more PEBs than the file has, or all PEBs.
    let geometry = small();
    let bytes = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    let used = bytes.chunks(peb).rposition(|peb| peb[512..].iter().any(|&byte| byte != 0xFF)).unwrap();
    assert!(used < 180, "there should be free PEBs at the end");
    assert_whole(&bytes[..(used + 1) * peb], &any());
}

#[test]
fn a_volume_that_wants_to_grow_is_read() {
    let geometry = small();
    let bytes = device(&geometry, 7, |ubi| {
        let grows = NewVolume { flags: VolumeFlags::AUTORESIZE, ..NewVolume::dynamic("root", 180) };
        ubi.create_volume(&grows).unwrap();
    });
    let grown = format(bytes.clone(), &geometry, 0, true, |fs| populate(fs, 1));
    assert_whole(&grown, &any());
    let info = crate::info::info(&open(&bytes)).unwrap();
    let volumes = &info.images[0].ubi.as_ref().unwrap().volumes;
    assert!(volumes[0].autoresize);
}

#[test]
fn several_images_are_found_wherever_they_are() {
    let image = usual(&small());
    let other = format(
        device(&small(), 9, |ubi| {
            ubi.create_volume(&NewVolume::dynamic("a", 190)).unwrap();
        }),
        &small(),
        0,
        true,
        |fs| populate(fs, 1),
    );
    let bare = bare(300);
    let mut bytes = noise(12_345);
    let mut places = Vec::new();
    for part in [&image, &bare, &other, &image, &image] {
        places.push(bytes.len() as u64);
        bytes.extend_from_slice(part);
        if part.len() != image.len() {
            bytes.extend(noise(777));
        }
    }
    let opened = open(&bytes);
    assert_eq!(opened.found.iter().map(|found| found.offset).collect::<Vec<_>>(), places);
    for &place in &places {
        assert_whole(&bytes, &at(place));
    }
}

#[test]
fn a_damaged_first_header_does_not_move_the_image() {
    let geometry = small();
    let image = usual(&geometry);
    for damaged in 0..3 {
        let mut bytes = noise(500);
        bytes.extend_from_slice(&image);
        for peb in 0..=damaged {
            bytes[500 + peb * geometry.erase_bytes as usize + 20] ^= 0x11;
        }
        assert_eq!(ubi_regions(&bytes), [(500, image.len() as u64)], "{damaged}");
        assert_whole(&bytes, &any());
    }
}

/// Two consecutive devices, the second of which begins at the end of `front`.
fn two(front: &[u8]) -> Vec<u8> {
    let bytes = device(&small(), 9, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 190)).unwrap();
    });
    let behind = in_order(&format(bytes, &small(), 0, true, |fs| populate(fs, 1)), &small());
    [front, &behind].concat()
}

/// Number of bits in an EC header; this number itself stands for all bits.
const HEADER: usize = 64 * 8;

/// Files with a damaged EC header at an offset: every `step`th bit is wrong, one at a time, and then the whole
/// header.
fn damaged_ec_headers(bytes: &[u8], at: usize, step: usize) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..HEADER).step_by(step).chain([HEADER]).map(move |bit| {
        let mut bytes = bytes.to_vec();
        match bit {
            HEADER => bytes[at..at + 64].fill(0x5A),
            _ => bytes[at + bit / 8] ^= 1 << (bit % 8),
        }
        (bit, bytes)
    })
}

#[test]
fn the_first_peb_of_a_neighbour_is_not_taken() {
    let front = usual(&small());
    let bytes = two(&front);
    let len = front.len() as u64;
    for (bit, bytes) in damaged_ec_headers(&bytes, front.len(), 1) {
        assert_eq!(ubi_regions(&bytes), [(0, len), (len, len)], "bit {bit}");
    }
}

/// Both devices have the same image sequence number; only the sizes distinguish them.
#[test]
fn the_first_peb_of_a_neighbour_of_other_sizes_is_not_taken() {
    let sizes = [small(), Geometry::nand_2048(60), Geometry::nand_4096(60)];
    for (one, other) in [(2, 1), (1, 2), (1, 0), (0, 2)] {
        let (front, behind) = (usual(&sizes[one]), usual(&sizes[other]));
        let (front_len, len) = (front.len() as u64, behind.len() as u64);
        let bytes = [front.as_slice(), &behind].concat();
        for (bit, bytes) in damaged_ec_headers(&bytes, front.len(), 9) {
            let found = ubi_regions(&bytes);
            assert_eq!(found, [(0, front_len), (front_len, len)], "{one} before {other}, bit {bit}");
        }
        let peb = sizes[one].erase_bytes as usize;
        for (bit, bytes) in damaged_ec_headers(&bytes, front.len() - peb, 9) {
            let found = ubi_regions(&bytes);
            assert_eq!(found[1], (front_len, len), "{one} before {other}, bit {bit} of the last PEB");
        }
    }
}

#[test]
fn the_last_peb_in_front_of_a_neighbour_is_not_given_away() {
    let peb = small().erase_bytes as usize;
    let front = usual(&small());
    let used = front.chunks(peb).take_while(|peb| vid_header(peb).is_some()).count();
    // A PEB with a LEB, a free PEB, and erased PEBs before the neighbour.
    for pebs in [used, used + 1] {
        let front = &front[..pebs * peb];
        for (bit, bytes) in damaged_ec_headers(&two(front), front.len() - peb, 1) {
            let found = ubi_regions(&bytes);
            let is_noise = bit == HEADER && pebs > used;
            let first = front.len() - if is_noise { peb } else { 0 };
            let len = 220 * peb as u64;
            assert_eq!(found, [(0, first as u64), (front.len() as u64, len)], "bit {bit} of PEB {pebs}");
        }
        let erased = [front, &vec![0xFF; 3 * peb]].concat();
        assert_eq!(ubi_regions(&two(&erased))[0], (0, erased.len() as u64));
    }
}

/// The remaining part of a dump with missing bytes is found: it is not treated as data of the part before it.
#[test]
fn the_part_behind_missing_bytes_is_found() {
    let geometry = small();
    let whole = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    let missing = 3 * peb / 100;
    let gap = 40 * peb - missing - 100;
    let bytes = [&whole[..gap], &whole[gap + missing..]].concat();
    let regions = ubi_regions(&bytes);
    assert_eq!(regions.len(), 2, "{regions:?}");
    assert_eq!(regions[0], (0, 40 * peb as u64));
    let (offset, len) = regions[1];
    assert_eq!(offset, (41 * peb - missing) as u64);
    assert_eq!(offset + len, bytes.len() as u64);
}

#[test]
fn a_dump_that_ends_early_gives_what_is_there_and_lists_the_rest() {
    let geometry = small();
    let image = usual(&geometry);
    let peb = geometry.erase_bytes as usize;
    let used = image.chunks(peb).take_while(|peb| vid_header(peb).is_some()).count();
    let whole = expected(1);
    for len in [used * peb - 9000, (used - 1) * peb, (used - 4) * peb + 7000, used / 2 * peb] {
        let (memory, extracted) = read(&image[..len], &any());
        assert!(!extracted.losses.is_empty() || len > (used - 2) * peb, "{len}");
        damage::assert_lists_all(&whole, &memory, &extracted);
    }
}

/// A copy that ended early is not clean.
#[test]
fn a_bare_image_that_is_cut_off_says_so() {
    let bytes = bare(400);
    let described = |bytes: &[u8]| info(&open(bytes)).unwrap();
    let whole = described(&bytes).images[0].ubifs.clone().unwrap();
    // After its data, the image contains nothing.
    assert_eq!(whole.lebs_there, None);
    let leb = whole.leb_bytes as usize;
    let last = (bytes.len() - 1) / leb;
    for len in [last * leb, last * leb - 100, 12 * leb] {
        let text = described(&bytes[..len]).to_string();
        let expected = format!("cut off: {} of {} LEBs there", len / leb, whole.lebs);
        assert!(text.contains(&expected), "{len}: {text}");
    }
}

/// A dump that begins with the first node.
#[test]
fn swapped_bytes_are_told_where_the_image_begins() {
    let images = [("UBIFS", bare(400)), ("UBI", usual(&small()))];
    for (what, image) in images {
        for group in [2, 4] {
            let swapped: Vec<u8> = image
                .chunks(group)
                .flat_map(|bytes| bytes.iter().rev().copied().collect::<Vec<_>>())
                .collect();
            let error = Image::over(file(&swapped), Access::Read).map(drop).unwrap_err().to_string();
            let expected = format!("{what} begins at byte 0, but the bytes of each group of {group}");
            assert!(error.contains(&expected), "{error}");
        }
    }
}
