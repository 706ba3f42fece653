//! Format, attach, LEBs and volumes without faults.

use super::common::{attach, bytes, formatted, kinds, nand};
use floatgate_mtd::Instant;
use floatgate_stack::ubi::{AttachFault, AttachOptions, NewVolume, PebState, Ubi, UbiError};
use floatgate_stack::{Volume, VolumeFault};

#[test]
fn formatted_flash_attaches_without_volumes() {
    for flash in kinds(40) {
        let ubi = attach(formatted(flash));
        let info = ubi.info();
        assert_eq!((info.good_pebs, info.free_pebs, info.image_seq), (40, 38, 7));
        assert_eq!((info.erase_count_min, info.erase_count_max), (1, 1));
        assert_eq!(ubi.volumes().count(), 0);
        let again = formatted(ubi.into_mtd());
        assert_eq!(attach(again).info().erase_count_mean, 2);
    }
}

#[test]
fn empty_flash_becomes_a_device() {
    for flash in kinds(40) {
        let mut ubi = attach(flash);
        assert_eq!(ubi.volumes().count(), 0);
        ubi.create_volume(&NewVolume::dynamic("data", 10)).unwrap();
        let names: Vec<_> = attach(ubi.into_mtd()).volumes().map(|volume| volume.name).collect();
        assert_eq!(names, [b"data"]);
    }
}

#[test]
fn read_only_leaves_the_flash_alone() {
    let options = AttachOptions { read_only: true, ..AttachOptions::default() };
    let error = Ubi::attach(nand(40, 2048, 2048), &options).unwrap_err();
    assert_eq!(error.fault, AttachFault::Empty);
    let mut ubi = attach(formatted(error.mtd));
    let id = ubi.create_volume(&NewVolume::dynamic("data", 5)).unwrap();
    ubi.write_leb(id, 3, 0, &[1; 2048]).unwrap();
    ubi.unmap_leb(id, 3).unwrap();
    let flash = ubi.into_mtd();
    let before = bytes(&flash);
    let mut ubi = Ubi::attach(flash, &options).unwrap();
    let mut buf = [0; 10];
    ubi.read_leb(id, 3, 5, &mut buf).unwrap();
    assert_eq!(buf, [1; 10], "an unmap without erasing may come undone");
    assert!(matches!(ubi.write_leb(id, 1, 0, &[0; 2048]), Err(UbiError::ReadOnly(_))));
    assert!(matches!(ubi.unmap_leb(id, 3), Err(UbiError::ReadOnly(_))));
    ubi.flush().unwrap();
    ubi.wait_until(Instant::from_ns(1_000_000_000));
    let after = ubi.into_mtd();
    assert!(bytes(&after) == before);
    assert_eq!((0..40).map(|block| after.erases(block)).sum::<u32>(), 40);
}

#[test]
fn lebs_read_what_was_written() {
    for flash in kinds(40) {
        let mut ubi = attach(formatted(flash));
        let id = ubi.create_volume(&NewVolume::dynamic("data", 8)).unwrap();
        let mut volume = ubi.open_volume(id).unwrap();
        let geometry = volume.geometry();
        let page = geometry.min_io_bytes.max(512);
        let pages: Vec<u8> = (0..2 * page).map(|i| i as u8).collect();
        let one = page as usize;
        volume.write(2, 0, &pages[..one]).unwrap();
        volume.write(2, page, &pages[one..]).unwrap();
        let mut all = vec![0; geometry.leb_bytes as usize];
        volume.read(2, 0, &mut all).unwrap();
        assert_eq!(&all[..2 * one], &pages[..]);
        assert!(all[2 * one..].iter().all(|&byte| byte == 0xFF));
        volume.change(2, &pages[one..]).unwrap();
        volume.map(3).unwrap();
        assert_eq!(volume.map(3).unwrap_err().fault, VolumeFault::NotErased);
        volume.write(4, 0, &pages).unwrap();
        volume.erase(4).unwrap();
        let flash = volume.into_ubi().into_mtd();
        let mut volume = attach(flash).open_volume(id).unwrap();
        volume.read(2, 0, &mut all[..2 * one]).unwrap();
        assert_eq!(&all[..one], &pages[one..]);
        assert!(all[one..2 * one].iter().all(|&byte| byte == 0xFF));
        let mapped: Vec<bool> = (0..5).map(|lnum| volume.is_mapped(lnum).unwrap()).collect();
        assert_eq!(mapped, [false, false, true, true, false]);
    }
}

#[test]
fn accesses_outside_are_refused() {
    let mut ubi = attach(formatted(nand(40, 2048, 2048)));
    let id = ubi.create_volume(&NewVolume::dynamic("data", 2)).unwrap();
    let mut volume = ubi.open_volume(id).unwrap();
    let leb = volume.geometry().leb_bytes;
    let fault = |result: Result<(), floatgate_stack::VolumeError>| result.unwrap_err().fault;
    assert_eq!(fault(volume.read(2, 0, &mut [0])), VolumeFault::OutOfRange { len: 1 });
    assert_eq!(fault(volume.read(0, leb, &mut [0])), VolumeFault::OutOfRange { len: 1 });
    assert_eq!(fault(volume.write(0, 1, &[0; 2048])), VolumeFault::Misaligned { unit: 2048 });
    assert_eq!(fault(volume.write(0, leb, &[0; 2048])), VolumeFault::OutOfRange { len: 2048 });
    assert_eq!(fault(volume.unmap(2)), VolumeFault::OutOfRange { len: 0 });
    volume.write(0, 0, &[0; 2048]).unwrap();
    assert_eq!(fault(volume.write(0, 0, &[0; 2048])), VolumeFault::NotErased);
    assert!(volume.ubi().info().read_only.is_none());
}

#[test]
fn volumes_are_made_changed_and_removed() {
    let mut ubi = attach(formatted(nand(60, 2048, 512)));
    let available = ubi.info().available_lebs;
    let a = ubi.create_volume(&NewVolume::dynamic("a", 5)).unwrap();
    let b = ubi.create_volume(&NewVolume::dynamic("b", 5)).unwrap();
    assert_eq!(ubi.create_volume(&NewVolume::dynamic("a", 1)), Err(UbiError::VolumeExists { id: a }));
    let big = ubi.create_volume(&NewVolume::dynamic("big", 500));
    assert_eq!(big, Err(UbiError::NoSpace { need: 500, available: available - 10 }));
    ubi.write_leb(b, 4, 0, &[5; 2048]).unwrap();
    ubi.rename_volumes(&[(a, b"b"), (b, b"a")]).unwrap();
    ubi.resize_volume(a, 7).unwrap();
    ubi.resize_volume(b, 4).unwrap();
    let mut ubi = attach(ubi.into_mtd());
    let volumes: Vec<_> = ubi.volumes().map(|v| (v.id, v.name, v.reserved_lebs, v.mapped_lebs)).collect();
    assert_eq!(volumes, [(a, b"b".to_vec(), 7, 0), (b, b"a".to_vec(), 4, 0)]);
    // Another volume has the new name, and is removed.
    ubi.rename_volumes(&[(a, b"a")]).unwrap();
    assert_eq!(ubi.volumes().count(), 1);
    ubi.remove_volume(a).unwrap();
    assert_eq!(ubi.info().available_lebs, available);
    assert_eq!(attach(ubi.into_mtd()).volumes().count(), 0);
}

#[test]
fn a_volume_outgrows_its_free_pebs_again_and_again() {
    let mut ubi = attach(formatted(nand(24, 512, 512)));
    let id = ubi.create_volume(&NewVolume::dynamic("data", 15)).unwrap();
    for round in 0..40u8 {
        for lnum in 0..15 {
            ubi.change_leb(id, lnum, &[round ^ lnum as u8; 1024]).unwrap();
        }
    }
    let mut ubi = attach(ubi.into_mtd());
    let mut buf = [0; 1024];
    for lnum in 0..15 {
        ubi.read_leb(id, lnum, 0, &mut buf).unwrap();
        assert_eq!(buf, [39 ^ lnum as u8; 1024]);
    }
    ubi.flush().unwrap();
    assert!(ubi.pebs().all(|peb| peb.state != PebState::Pending));
}
