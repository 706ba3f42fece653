//! Tests of UBI structures: an image of `ubinize`, and invented ones.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::mangle;
use floatgate_media::ubi::{
    Compat, Copies, EcHeader, FASTMAP_DATA_VOLUME, Fastmap, FastmapSuperblock, FastmapVolume,
    FastmapVolumeType, FastmapWriter, Flash, Geometry, LAYOUT_VOLUME, LAYOUT_VOLUME_COMPAT, PebEc, PebList,
    ReadFlips, VidHeader, VolumeFlags, VolumeRecord, VolumeTable, VolumeType,
};
use floatgate_media::{MediaError, Reason, crc};
use proptest::prelude::*;

/// Image of five PEBs of 2 KiB: two of the layout volume, two static, one dynamic. See `samples/README.md`.
const NOR: &[u8] = include_bytes!("samples/ubi/nor.bin");
const NAND_SUB_PAGE: &[u8] = include_bytes!("samples/ubi/nand_sub_page_headers.bin");
const NAND_PAGE: &[u8] = include_bytes!("samples/ubi/nand_page_headers.bin");

const NO_FLIPS: ReadFlips = ReadFlips { corrected: 0, tolerated: 0 };

fn nor() -> Geometry {
    Geometry::new(Flash::without_sub_pages(2048, 1)).unwrap()
}

fn nand(sub_page_bytes: u32) -> Geometry {
    Geometry::new(Flash { peb_bytes: 128 << 10, min_io_bytes: 2048, sub_page_bytes }).unwrap()
}

/// The LEBs of the layout volume in the NOR image.
fn layout_lebs() -> [&'static [u8]; 2] {
    [&NOR[128..2048], &NOR[2048 + 128..4096]]
}

#[test]
fn headers_of_a_ubinize_image_read_and_write() {
    let geometry = nor();
    let mut lebs = Vec::new();
    for peb in NOR.chunks(2048) {
        let ec = EcHeader::parse(peb, NO_FLIPS).unwrap();
        assert_eq!(ec, EcHeader::new(5, 0x1234_5678, &geometry));
        assert_eq!(ec.check(&geometry), Ok(()));
        assert_eq!(ec.emit(), peb[..64]);
        let vid = VidHeader::parse(&peb[64..], NO_FLIPS).unwrap();
        assert_eq!(vid.check(&geometry), Ok(()));
        assert_eq!(vid.emit(), peb[64..128]);
        if vid.volume_type == VolumeType::Static {
            assert_eq!(crc::ubi(&peb[128..][..vid.data_size as usize]), vid.data_crc);
        }
        lebs.push((vid.volume_id, vid.lnum, vid.data_size, vid.compat));
    }
    let expected = [
        (LAYOUT_VOLUME, 0, 0, LAYOUT_VOLUME_COMPAT),
        (LAYOUT_VOLUME, 1, 0, LAYOUT_VOLUME_COMPAT),
        (0, 0, 1920, Compat::None),
        (0, 1, 1080, Compat::None),
        (3, 0, 0, Compat::None),
    ];
    assert_eq!(lebs, expected);
}

#[test]
fn volume_table_of_a_ubinize_image_reads_and_writes() {
    let geometry = nor();
    let copies = layout_lebs().map(Some);
    let (table, found) = VolumeTable::parse_copies(copies, &geometry, 5).unwrap();
    assert_eq!((found, geometry.volume_slots()), (Copies::Both, 11));
    let volumes: Vec<_> = table.volumes().collect();
    assert_eq!(volumes.len(), 2);
    assert_eq!(volumes[0].1, VolumeRecord::new(b"boot", VolumeType::Static, 5, 0).unwrap());
    let root = table.get(3).unwrap();
    assert_eq!(root.name(), b"root fs");
    assert_eq!((root.reserved_pebs, root.alignment, root.flags), (3, 64, VolumeFlags::AUTORESIZE));
    assert_eq!((table.get(1), table.get(200)), (None, None));
    let mut out = [0xAA; 2048];
    assert_eq!(VolumeTable::emit(volumes, &geometry, &mut out), Ok(11 * 172));
    assert_eq!(out[..11 * 172], *table.as_bytes());
}

#[test]
fn places_are_those_of_ubinize() {
    for (sub_page, image) in [(512, NAND_SUB_PAGE), (2048, NAND_PAGE)] {
        let geometry = nand(sub_page);
        let ec = EcHeader::parse(image, NO_FLIPS).unwrap();
        assert_eq!(ec, EcHeader::new(0, 7, &geometry));
        let vid = VidHeader::parse(&image[geometry.vid_header_offset() as usize..], NO_FLIPS).unwrap();
        assert_eq!(vid.volume_id, LAYOUT_VOLUME);
    }
    let sub_paged = nand(512);
    assert_eq!((sub_paged.vid_header_offset(), sub_paged.data_offset()), (512, 2048));
    assert_eq!((sub_paged.leb_bytes(), sub_paged.volume_slots()), (129_024, 128));
    assert_eq!(nand(2048).leb_bytes(), 126_976);
    assert!(!nand(512).headers_share_unit());
}

#[test]
fn vid_header_offset_of_the_callers_choice() {
    let flash = Flash { peb_bytes: 128 << 10, min_io_bytes: 2048, sub_page_bytes: 512 };
    let moved = Geometry::with_vid_header_offset(flash, 1024 + 448).unwrap();
    assert_eq!((moved.vid_unit_offset(), moved.data_offset()), (1024, 2048));
    for bad in [0, 63, 66, 500, 1024 + 450, 128 << 10, u32::MAX] {
        let error = Geometry::with_vid_header_offset(flash, bad).unwrap_err();
        assert_eq!(error, Reason::OutOfRange { field: "VID header offset", value: u64::from(bad) });
    }
    let shared = Geometry::with_vid_header_offset(flash, 64).unwrap();
    assert!(shared.headers_share_unit());
    assert!(Geometry::new(Flash { min_io_bytes: 1000, ..flash }).is_err());
    assert!(Geometry::new(Flash { sub_page_bytes: 4096, ..flash }).is_err());
    assert!(Geometry::new(Flash { peb_bytes: 2049, ..flash }).is_err());
    assert!(Geometry::new(Flash { peb_bytes: 2048, ..flash }).is_err());
}

#[test]
fn erased_flipped_and_corrupt_are_told_apart() {
    let parse = |bytes: &[u8], corrected, tolerated| {
        EcHeader::parse(bytes, ReadFlips { corrected, tolerated }).unwrap_err()
    };
    let mut bytes = [0xFF; 64];
    assert_eq!(parse(&bytes, 0, 0), Reason::Erased.at(0));
    assert_eq!(parse(&bytes, 2, 0), Reason::ErasedBitflips { bits: 2 }.at(0));
    bytes[3] = 0xFE;
    bytes[40] = 0x7F;
    assert_eq!(parse(&bytes, 1, 2), Reason::ErasedBitflips { bits: 3 }.at(0));
    let magic = Reason::BadMagic { what: "EC header", expected: 0x5542_4923, found: 0xFFFF_FFFE };
    assert_eq!(parse(&bytes, 1, 1), magic.at(0));
    let mut bytes = EcHeader::default().emit();
    bytes[11] ^= 1;
    assert!(matches!(parse(&bytes, 9, 9), MediaError { offset: 60, reason: Reason::BadCrc32 { .. } }));
}

#[test]
fn every_corruption_is_noticed() {
    mangle(&NOR[..64], |bytes| assert!(EcHeader::parse(bytes, NO_FLIPS).is_err()));
    mangle(&NOR[64..128], |bytes| assert!(VidHeader::parse(bytes, NO_FLIPS).is_err()));
    mangle(&NOR[128..128 + 344], |bytes| {
        let mut copy = layout_lebs()[0].to_vec();
        copy[..bytes.len()].copy_from_slice(bytes);
        let whole = bytes.len() < 344;
        assert_eq!(VolumeTable::parse(&copy, &nor(), 5).is_ok(), whole);
    });
}

#[test]
fn the_better_copy_of_the_volume_table_is_taken() {
    let geometry = nor();
    let [first, second] = layout_lebs();
    let read = |copies| VolumeTable::parse_copies(copies, &geometry, 5).map(|(_, found)| found);
    assert_eq!(read([Some(first), None]), Ok(Copies::First));
    assert_eq!(read([None, Some(second)]), Ok(Copies::Second));
    assert!(read([None, None]).is_err());
    let mut broken = first.to_vec();
    broken[600] ^= 1;
    assert_eq!(read([Some(&broken), Some(second)]), Ok(Copies::Second));
    assert_eq!(read([Some(first), Some(&broken)]), Ok(Copies::First));
    // Complete but with impossible values: a power cut does not cause that, so the other copy is not used.
    let mut impossible = vec![0; 2048];
    let record = VolumeRecord::new(b"big", VolumeType::Dynamic, 6, 0).unwrap();
    VolumeTable::emit([(0, record)], &geometry, &mut impossible).unwrap();
    let error = read([Some(&impossible), Some(second)]).unwrap_err();
    assert_eq!(error, Reason::TooFewPebs { reserved: 6 }.at(0));
}

#[test]
fn impossible_volume_records_are_refused() {
    let geometry = nor();
    let good = VolumeRecord::new(b"a", VolumeType::Dynamic, 1, 0).unwrap();
    let mut long_name = good;
    long_name.name[5] = b'x';
    long_name.name_len = 6;
    let cases = [
        (VolumeRecord { alignment: 0, ..good }, 4),
        (VolumeRecord { alignment: 1921, ..good }, 4),
        (VolumeRecord { alignment: 100, ..good }, 8),
        (VolumeRecord { volume_type: VolumeType::Other(3), ..good }, 12),
        (VolumeRecord { update_marker: 2, ..good }, 13),
        (VolumeRecord { name: [0; 128], ..good }, 16),
        (VolumeRecord { name_len: 128, ..good }, 14),
        (long_name, 14),
    ];
    for (record, offset) in cases {
        assert_eq!(record.check(&geometry, 5).unwrap_err().offset, offset, "{record:?}");
    }
    let mut out = [0; 2048];
    VolumeTable::emit([(1, good), (4, good)], &geometry, &mut out).unwrap();
    let error = VolumeTable::parse(&out, &geometry, 5).unwrap_err();
    assert_eq!(error, Reason::Inconsistent { what: "two volumes have one name" }.at(4 * 172 + 16));
    assert!(VolumeTable::emit([(11, good)], &geometry, &mut out).is_err());
    assert!(VolumeRecord::new(b"", VolumeType::Dynamic, 1, 0).is_err());
    assert!(VolumeRecord::new(&[b'x'; 128], VolumeType::Dynamic, 1, 0).is_err());
    assert!(VolumeRecord::new(b"a\0b", VolumeType::Dynamic, 1, 0).is_err());
}

#[test]
fn vid_headers_are_checked_against_the_geometry() {
    let geometry = nor();
    let header = VidHeader {
        volume_type: VolumeType::Static,
        data_size: 1920,
        used_lebs: 2,
        ..VidHeader::parse(&NOR[2 * 2048 + 64..], NO_FLIPS).unwrap()
    };
    assert_eq!(header.check(&geometry), Ok(()));
    assert_eq!(VidHeader { data_size: 1919, ..header }.check(&geometry).unwrap_err().offset, 20);
    assert_eq!(VidHeader { data_size: 1919, lnum: 1, ..header }.check(&geometry), Ok(()));
    assert_eq!(VidHeader { data_size: 1921, lnum: 1, ..header }.check(&geometry).unwrap_err().offset, 20);
    assert_eq!(VidHeader { data_pad: 960, ..header }.check(&geometry).unwrap_err().offset, 28);
}

#[test]
fn fastmap_size_is_whole_lebs() {
    let geometry = nand(2048);
    // 312 + 32 + 2 * 1048 + 129 * 40 = 7600, plus 12 bytes for each PEB.
    assert_eq!(geometry.fastmap_bytes(1024), 126_976);
    assert_eq!(geometry.fastmap_bytes((126_976 - 7600) / 12), 126_976);
    assert_eq!(geometry.fastmap_bytes((126_976 - 7600) / 12 + 1), 2 * 126_976);
}

/// A small fastmap in 4 KiB, with entries of every kind.
fn fastmap() -> Vec<u8> {
    let peb = |pnum| PebEc { pnum, erase_count: 100 + pnum };
    let volume =
        FastmapVolume { volume_id: 3, volume_type: FastmapVolumeType::Dynamic, ..FastmapVolume::default() };
    let mut out = vec![0xAA; 4096];
    let mut writer = FastmapWriter::new(&mut out, (&[30, 31], 16), (&[32], 8)).unwrap();
    writer.peb(PebList::Free, peb(10)).unwrap();
    writer.peb(PebList::Used, peb(11)).unwrap();
    writer.peb(PebList::Used, peb(12)).unwrap();
    writer.peb(PebList::Scrub, peb(13)).unwrap();
    writer.peb(PebList::Erase, peb(14)).unwrap();
    writer.volume(&volume, [Some(12), None, Some(11)]).unwrap();
    writer.volume(&FastmapVolume { volume_id: LAYOUT_VOLUME, ..volume }, []).unwrap();
    writer.finish(&[peb(1), peb(2)], 4).unwrap();
    out
}

#[test]
fn fastmap_reads_what_was_written() {
    let bytes = fastmap();
    let map = Fastmap::parse(&bytes).unwrap();
    assert!(map.superblock.pebs().map(|peb| peb.pnum).eq([1, 2]));
    assert!(map.pool.pebs().eq([30, 31]) && map.wl_pool.pebs().eq([32]));
    assert_eq!((map.pool.max_len, map.wl_pool.max_len, map.counts.bad), (16, 8, 4));
    let pnums = |list| map.pebs(list).map(|peb| peb.pnum).collect::<Vec<_>>();
    assert_eq!(pnums(PebList::Free), [10]);
    assert_eq!(pnums(PebList::Used), [11, 12]);
    assert_eq!(pnums(PebList::Scrub), [13]);
    assert_eq!(pnums(PebList::Erase), [14]);
    let volumes: Vec<_> = map.volumes().collect();
    assert_eq!(volumes.len(), 2);
    assert!(volumes[0].pnums().eq([Some(12), None, Some(11)]));
    assert_eq!((volumes[1].volume.volume_id, volumes[1].pnums().len()), (LAYOUT_VOLUME, 0));
    assert_eq!(FASTMAP_DATA_VOLUME, 0x7FFF_F001);
    mangle(&bytes[..64], |head| {
        let mut broken = bytes.clone();
        broken[..head.len()].copy_from_slice(head);
        assert_eq!(Fastmap::parse(&broken).is_ok(), head.len() < 64);
    });
}

#[test]
fn fastmap_limits_hold() {
    let mut out = vec![0; 2440 + 8];
    assert!(FastmapWriter::new(&mut out[..2440], (&[], 0), (&[], 0)).is_err());
    assert!(FastmapWriter::new(&mut out, (&[0; 257], 256), (&[], 0)).is_err());
    let mut writer = FastmapWriter::new(&mut out, (&[], 0), (&[], 0)).unwrap();
    let error = writer.peb(PebList::Used, PebEc::default()).unwrap_err();
    assert_eq!(error, Reason::Truncated { need: 8, have: 8 }.at(2440));
    assert!(writer.finish(&[PebEc::default(); 33], 0).is_err());
    let mut out = vec![0; 4096];
    let mut writer = FastmapWriter::new(&mut out, (&[], 0), (&[], 0)).unwrap();
    writer.peb(PebList::Scrub, PebEc::default()).unwrap();
    assert!(writer.peb(PebList::Used, PebEc::default()).is_err());
    writer.volume(&FastmapVolume::default(), [None]).unwrap();
    assert!(writer.peb(PebList::Erase, PebEc::default()).is_err());
    assert!(writer.finish(&[], 0).is_err());
}

fn any_volume_id() -> impl Strategy<Value = (u32, Compat)> {
    let internal = prop_oneof![Just(Compat::Delete), Just(Compat::ReadOnly), Just(Compat::Reject)];
    prop_oneof![(0u32..128).prop_map(|id| (id, Compat::None)), (LAYOUT_VOLUME..=0x7FFF_FFFF, internal)]
}

prop_compose! {
    fn any_vid()(
        (volume_id, compat) in any_volume_id(),
        (lnum, extra) in (0u32..1 << 30, 1u32..1 << 30),
        (size, data_pad, crc) in (1u32..1 << 31, 0u32..1 << 31, any::<u32>()),
        (is_static, copy_flag, sqnum) in (any::<bool>(), 0u8..2, any::<u64>()),
    ) -> VidHeader {
        let with_data = is_static || copy_flag == 1;
        VidHeader {
            volume_type: if is_static { VolumeType::Static } else { VolumeType::Dynamic },
            data_size: if with_data { size } else { 0 },
            data_crc: if with_data { crc } else { 0 },
            used_lebs: if is_static { lnum + extra } else { 0 },
            copy_flag, compat, volume_id, lnum, data_pad, sqnum,
        }
    }
}

prop_compose! {
    fn any_record()(
        name in prop::collection::vec(1u8.., 1..=127),
        is_static in any::<bool>(),
        (reserved_pebs, alignment) in (1u32..1000, 1u32..=1920),
        (update_marker, flags) in (0u8..2, any::<u8>()),
    ) -> VolumeRecord {
        let volume_type = if is_static { VolumeType::Static } else { VolumeType::Dynamic };
        VolumeRecord {
            alignment,
            update_marker,
            flags: VolumeFlags::from_bits(flags),
            ..VolumeRecord::new(&name, volume_type, reserved_pebs, 1920 % alignment).unwrap()
        }
    }
}

fn any_pebs(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<PebEc>> {
    let peb = any::<(u32, u32)>().prop_map(|(pnum, erase_count)| PebEc { pnum, erase_count });
    prop::collection::vec(peb, len)
}

proptest! {
    #[test]
    fn ec_header_round_trip(
        erase_count in 0u64..=0x7FFF_FFFF,
        (vid_header_offset, data_offset, image_seq) in any::<(u32, u32, u32)>(),
    ) {
        let header = EcHeader { erase_count, vid_header_offset, data_offset, image_seq };
        prop_assert_eq!(EcHeader::parse(&header.emit(), NO_FLIPS), Ok(header));
    }

    #[test]
    fn vid_header_round_trip(header in any_vid()) {
        prop_assert_eq!(VidHeader::parse(&header.emit(), NO_FLIPS), Ok(header));
    }

    #[test]
    fn volume_table_round_trip(records in prop::collection::btree_map(0u32..11, any_record(), 0..11)) {
        let mut names: Vec<_> = records.values().map(VolumeRecord::name).collect();
        names.sort_unstable();
        prop_assume!(names.windows(2).all(|pair| pair[0] != pair[1]));
        let mut out = [0xAA; 1920];
        VolumeTable::emit(records.clone(), &nor(), &mut out).unwrap();
        let table = VolumeTable::parse(&out, &nor(), 1000).unwrap();
        prop_assert!(table.volumes().eq(records));
    }

    #[test]
    fn fastmap_round_trip(
        lists in prop::array::uniform4(any_pebs(0..20)),
        own in any_pebs(1..33),
        pools in prop::array::uniform2(prop::collection::vec(any::<u32>(), 0..256)),
        maps in prop::collection::vec(prop::collection::vec(prop::option::of(0u32..1 << 31), 0..20), 0..5),
    ) {
        const LISTS: [PebList; 4] = [PebList::Free, PebList::Used, PebList::Scrub, PebList::Erase];
        let mut out = vec![0xAA; 8192];
        let mut writer = FastmapWriter::new(&mut out, (&pools[0], 256), (&pools[1], 128)).unwrap();
        for (list, pebs) in LISTS.into_iter().zip(&lists) {
            for peb in pebs {
                writer.peb(list, *peb).unwrap();
            }
        }
        for map in &maps {
            writer.volume(&FastmapVolume::default(), map.iter().copied()).unwrap();
        }
        writer.finish(&own, 9).unwrap();
        let read = Fastmap::parse(&out).unwrap();
        prop_assert!(read.superblock.pebs().eq(own));
        prop_assert!(read.pool.pebs().eq(pools[0].clone()) && read.wl_pool.pebs().eq(pools[1].clone()));
        for (list, pebs) in LISTS.into_iter().zip(lists) {
            prop_assert!(read.pebs(list).eq(pebs));
        }
        prop_assert!(read.volumes().map(|map| map.pnums().collect::<Vec<_>>()).eq(maps));
    }

    #[test]
    fn anything_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..3000), flips in any::<(u32, u32)>()) {
        let flips = ReadFlips { corrected: flips.0, tolerated: flips.1 };
        let _ = EcHeader::parse(&bytes, flips);
        let _ = VidHeader::parse(&bytes, flips);
        let _ = VolumeTable::parse(&bytes, &nor(), 5);
        let _ = FastmapSuperblock::parse(&bytes);
        let _ = Fastmap::parse(&bytes);
    }
}
