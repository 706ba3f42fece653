//! Tests of the cases that are distinguished when headers are read.

use super::common::{attach, formatted, nand};
use floatgate_media::ubi::{Compat, EcHeader, Geometry, VidHeader, VolumeType};
use floatgate_mtd::ram::RamFlash;
use floatgate_mtd::{Instant, Mtd};
use floatgate_stack::ubi::{AttachFault, AttachOptions, NewVolume, PebState, ReadOnlyReason, Ubi};

const PAGE: usize = 2048;

/// Creates a device with a volume of ten LEBs. LEB 2 contains only bytes of value 2.
fn device() -> (RamFlash, Geometry) {
    let mut ubi = attach(formatted(nand(60, 2048, 2048)));
    let id = ubi.create_volume(&NewVolume::dynamic("data", 10)).unwrap();
    ubi.write_leb(id, 2, 0, &[2; PAGE]).unwrap();
    ubi.flush().unwrap();
    let geometry = ubi.info().geometry;
    (ubi.into_mtd(), geometry)
}

fn fault(flash: RamFlash) -> AttachFault {
    Ubi::attach(flash, &AttachOptions::default()).unwrap_err().fault
}

/// Bytes of a PEB with these headers and this data.
fn peb(geometry: &Geometry, vid: Option<VidHeader>, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xFF; geometry.flash().peb_bytes as usize];
    bytes[..64].copy_from_slice(&EcHeader::new(9, 7, geometry).emit());
    if let Some(vid) = vid {
        bytes[PAGE..PAGE + 64].copy_from_slice(&vid.emit());
    }
    bytes[2 * PAGE..2 * PAGE + data.len()].copy_from_slice(data);
    bytes
}

fn vid(lnum: u32, sqnum: u64) -> VidHeader {
    VidHeader { volume_type: VolumeType::Dynamic, lnum, sqnum, ..VidHeader::default() }
}

fn free_peb(flash: &RamFlash) -> u32 {
    let ubi = attach(flash.clone());
    ubi.pebs().filter(|peb| peb.state == PebState::Free).last().unwrap().pnum
}

fn leb(ubi: &mut Ubi<RamFlash>, lnum: u32) -> u8 {
    let mut buf = [0];
    ubi.read_leb(0, lnum, 0, &mut buf).unwrap();
    buf[0]
}

#[test]
fn the_newer_of_two_counts() {
    let (flash, geometry) = device();
    let pnum = free_peb(&flash);
    for (sqnum, expected) in [(1_000, 3), (0, 2)] {
        let mut flash = flash.clone();
        flash.load(pnum, &peb(&geometry, Some(vid(2, sqnum)), &[3; PAGE]));
        let mut ubi = attach(flash);
        assert_eq!(leb(&mut ubi, 2), expected);
        assert_eq!(ubi.info().pending_pebs, 1);
        assert!(ubi.info().sqnum > sqnum);
    }
}

#[test]
fn a_copy_that_was_cut_off_does_not_count() {
    let (flash, geometry) = device();
    let pnum = free_peb(&flash);
    let crc = floatgate_media::crc::ubi(&[3; PAGE]);
    for (len, expected) in [(PAGE, 3), (PAGE - 1, 2)] {
        let mut flash = flash.clone();
        let header = VidHeader { copy_flag: 1, data_size: PAGE as u32, data_crc: crc, ..vid(2, 1000) };
        flash.load(pnum, &peb(&geometry, Some(header), &vec![3; len]));
        assert_eq!(leb(&mut attach(flash), 2), expected);
    }
}

#[test]
fn two_with_one_sequence_number_are_refused() {
    let (mut flash, geometry) = device();
    let pnum = free_peb(&flash);
    flash.load(pnum, &peb(&geometry, Some(vid(5, 77)), &[]));
    let other = free_peb(&flash);
    flash.load(other, &peb(&geometry, Some(vid(5, 77)), &[]));
    assert!(matches!(fault(flash), AttachFault::SameSequence { id: 0, lnum: 5, .. }));
}

#[test]
fn corrupt_headers_are_told_apart() {
    let (flash, geometry) = device();
    let pnum = free_peb(&flash);
    let garbage = |vid: bool, ec: bool, data: &[u8]| {
        let mut flash = flash.clone();
        let mut bytes = peb(&geometry, None, data);
        if vid {
            bytes[PAGE..PAGE + 64].fill(0x11);
        }
        if ec {
            bytes[..64].fill(0x22);
        }
        flash.load(pnum, &bytes);
        let mut ubi = attach(flash);
        let state = ubi.pebs().nth(pnum as usize).unwrap().state;
        assert_eq!(leb(&mut ubi, 2), 2);
        // Every PEB that is not kept is erased and used again.
        ubi.flush().unwrap();
        (state, ubi.info().corrupted_pebs, ubi.info().free_pebs)
    };
    let free = attach(flash.clone()).info().free_pebs;
    assert_eq!(garbage(true, false, &[]), (PebState::Pending, 0, free));
    assert_eq!(garbage(true, false, &[1; PAGE]), (PebState::Corrupted, 1, free - 1));
    assert_eq!(garbage(false, true, &[1; PAGE]), (PebState::Pending, 0, free));
    assert_eq!(garbage(true, true, &[1; PAGE]), (PebState::Pending, 0, free));
}

#[test]
fn too_many_corrupt_pebs_are_refused() {
    let (mut flash, geometry) = device();
    let mut bytes = peb(&geometry, None, &[1; PAGE]);
    bytes[PAGE] = 0;
    for count in 1..=3 {
        let pnum = free_peb(&flash);
        flash.load(pnum, &bytes);
        if count < 3 {
            assert_eq!(attach(flash.clone()).info().corrupted_pebs, count);
        } else {
            // A twentieth of 60 PEBs.
            assert_eq!(fault(flash.clone()), AttachFault::TooManyCorrupted { count: 3, max: 3 });
            break;
        }
    }
}

#[test]
fn lost_erase_counters_become_the_mean() {
    let (mut flash, geometry) = device();
    for _ in 0..3 {
        let pnum = free_peb(&flash);
        flash.load(pnum, &peb(&geometry, Some(vid(5 + pnum % 4, u64::from(pnum) + 500)), &[]));
    }
    let lost = free_peb(&flash);
    flash.load(lost, &[]);
    let ubi = attach(flash);
    let counts: Vec<u64> =
        ubi.pebs().filter(|peb| peb.pnum != lost).map(|peb| peb.erase_count.into()).collect();
    let mean = counts.iter().sum::<u64>() / counts.len() as u64;
    assert_eq!(u64::from(ubi.pebs().nth(lost as usize).unwrap().erase_count), mean);
}

#[test]
fn unknown_internal_volumes_do_as_they_say() {
    let (flash, geometry) = device();
    let pnum = free_peb(&flash);
    let with = |compat| {
        let mut flash = flash.clone();
        let header = VidHeader { volume_id: 0x7FFF_F100, compat, ..vid(0, 50) };
        flash.load(pnum, &peb(&geometry, Some(header), &[1; PAGE]));
        flash
    };
    let ubi = attach(with(Compat::Delete));
    assert_eq!(ubi.pebs().nth(pnum as usize).unwrap().state, PebState::Pending);
    let mut ubi = attach(with(Compat::Preserve));
    ubi.flush().unwrap();
    assert_eq!(ubi.pebs().nth(pnum as usize).unwrap().state, PebState::Alien);
    let ubi = attach(with(Compat::ReadOnly));
    assert_eq!(ubi.info().read_only, Some(ReadOnlyReason::InternalVolume(0x7FFF_F100)));
    let refused = AttachFault::UnknownInternalVolume { id: 0x7FFF_F100, pnum };
    assert_eq!(fault(with(Compat::Reject)), refused);
}

#[test]
fn two_images_are_not_mixed() {
    let (mut flash, geometry) = device();
    let pnum = free_peb(&flash);
    let mut bytes = peb(&geometry, None, &[]);
    bytes[..64].copy_from_slice(&EcHeader::new(1, 8, &geometry).emit());
    flash.load(pnum, &bytes);
    assert_eq!(fault(flash), AttachFault::ImageSeq { pnum, found: 8, expected: 7 });
}

#[test]
fn either_copy_of_the_volume_table_is_enough() {
    let (flash, _) = device();
    let ubi = attach(flash.clone());
    let table: Vec<u32> = (0..2)
        .map(|lnum| {
            let copy = |leb: floatgate_stack::ubi::LebId| leb.volume == 0x7FFF_EFFF && leb.lnum == lnum;
            ubi.pebs().find(|peb| peb.leb.is_some_and(copy) && peb.state != PebState::Pending).unwrap().pnum
        })
        .collect();
    for (lost, damage) in [(0, true), (1, true), (0, false), (1, false)] {
        let mut flash = flash.clone();
        let mut bytes = flash.block(table[lost]).unwrap().to_vec();
        if damage {
            bytes[2 * PAGE + 20] ^= 1;
        } else {
            bytes.truncate(64);
        }
        flash.load(table[lost], &bytes);
        let ubi = attach(flash);
        assert_eq!(ubi.volumes().count(), 1);
        // Both PEBs are good again.
        let mut flash = ubi.into_mtd();
        flash.erase(Instant::ZERO, u64::from(table[1 - lost]) * 32768, 32768).unwrap();
        assert_eq!(attach(flash).volumes().count(), 1);
    }
    let mut flash = flash;
    for pnum in table {
        let start = flash.block(pnum).unwrap()[..64].to_vec();
        flash.load(pnum, &start);
    }
    assert_eq!(fault(flash), AttachFault::NoVolumeTable);
}

#[test]
fn a_volume_that_asks_grows_to_what_is_left() {
    let (flash, geometry) = device();
    let mut ubi = attach(flash);
    let flags = floatgate_media::ubi::VolumeFlags::AUTORESIZE;
    let id = ubi.create_volume(&NewVolume { flags, ..NewVolume::dynamic("big", 1) }).unwrap();
    let left = ubi.info().available_lebs;
    let ubi = attach(ubi.into_mtd());
    let big = ubi.volume(id).unwrap();
    assert_eq!((big.reserved_lebs, big.flags.bits(), ubi.info().available_lebs), (left + 1, 0, 0));
    assert_eq!(geometry, ubi.info().geometry);
    assert_eq!(attach(ubi.into_mtd()).volume(id).unwrap(), big);
}

#[test]
fn what_is_not_ubi_is_left_alone() {
    let mut flash = nand(60, 2048, 2048);
    for block in 0..60 {
        flash.load(block, &[block as u8; 5 * PAGE]);
    }
    assert_eq!(fault(flash), AttachFault::NotUbi { unreadable: 60 });
}

#[test]
fn the_vid_header_offset_is_found() {
    let options = floatgate_stack::ubi::FormatOptions { vid_header_offset: Some(2048), ..Default::default() };
    let mut flash = Ubi::format(nand(60, 2048, 512), &options).unwrap().0;
    assert!(matches!(fault(flash.clone()), AttachFault::Ubi(_)));
    let header = Ubi::probe(&mut flash, Instant::ZERO).unwrap().unwrap();
    assert_eq!((header.vid_header_offset, header.data_offset), (2048, 4096));
    let options = AttachOptions { vid_header_offset: Some(2048), ..AttachOptions::default() };
    Ubi::attach(flash, &options).unwrap();
}
