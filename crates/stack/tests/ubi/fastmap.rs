//! Tests of attaching by a fastmap, and of maintaining one.

use super::common::{Random, formatted, nand};
use floatgate_mtd::ram::RamFlash;
use floatgate_stack::ubi::{AttachKind, AttachOptions, FastmapUse, NewVolume, PebState, Ubi};

fn attach(flash: RamFlash, fastmap: FastmapUse) -> Ubi<RamFlash> {
    Ubi::attach(flash, &AttachOptions { fastmap, ..AttachOptions::default() }).unwrap()
}

fn assert_holds(ubi: &mut Ubi<RamFlash>, id: u32, lebs: &[Option<u8>]) {
    for (lnum, expected) in (0u32..).zip(lebs) {
        let mut buf = [0; 1024];
        ubi.read_leb(id, lnum, 0, &mut buf).unwrap();
        assert_eq!(buf, [expected.unwrap_or(0xFF); 1024], "LEB {lnum}");
        assert_eq!(ubi.is_mapped(id, lnum).unwrap(), expected.is_some(), "LEB {lnum}");
    }
}

#[test]
fn a_fastmap_is_written_and_used() {
    let mut ubi = attach(formatted(nand(200, 512, 512)), FastmapUse::Write);
    assert_eq!(ubi.info().attach_kind, AttachKind::Scan);
    let id = ubi.create_volume(&NewVolume::dynamic("data", 100)).unwrap();
    let mut lebs = vec![None; 100];
    let mut random = Random::new(5);
    let mut by_fastmap = 0;
    for round in 0..60 {
        for _ in 0..20 {
            let lnum = random.below(100) as u32;
            let byte = random.bits() as u8 & 0x7F;
            lebs[lnum as usize] = match random.below(4) {
                0 => ubi.erase_leb(id, lnum).map(|()| None).unwrap(),
                _ => ubi.change_leb(id, lnum, &[byte; 1024]).map(|()| Some(byte)).unwrap(),
            };
        }
        // Detaches cleanly, cuts power, or attaches with a driver that ignores fastmaps.
        ubi = match round % 5 {
            0 => attach(ubi.detach().unwrap().0, FastmapUse::Write),
            1 | 2 => attach(ubi.into_mtd(), FastmapUse::Write),
            3 => attach(ubi.into_mtd(), FastmapUse::Read),
            _ => attach(ubi.into_mtd(), FastmapUse::Never),
        };
        by_fastmap += u32::from(ubi.info().attach_kind == AttachKind::Fastmap);
        assert_holds(&mut ubi, id, &lebs);
        let info = ubi.info();
        assert_eq!((info.good_pebs, info.bad_pebs, info.read_only), (200, 0, None));
    }
    assert!(by_fastmap >= 30, "{by_fastmap}");
}

#[test]
fn volumes_made_after_a_fastmap_are_found() {
    let mut ubi = attach(formatted(nand(200, 512, 512)), FastmapUse::Write);
    let first = ubi.create_volume(&NewVolume::dynamic("first", 20)).unwrap();
    ubi.change_leb(first, 19, &[1; 1024]).unwrap();
    let mut ubi = attach(ubi.detach().unwrap().0, FastmapUse::Write);
    let second = ubi.create_volume(&NewVolume::fixed("second", 20)).unwrap();
    let mut update = ubi.update_volume(second, 20_000).unwrap();
    update.write(&[3; 20_000]).unwrap();
    update.finish().unwrap();
    ubi.resize_volume(first, 10).unwrap();
    let mut ubi = attach(ubi.into_mtd(), FastmapUse::Read);
    assert_eq!(ubi.info().attach_kind, AttachKind::Fastmap);
    let mut buf = [0; 20_000];
    assert_eq!(ubi.read_volume(second, 0, &mut buf), Ok(20_000));
    assert_eq!(buf, [3; 20_000]);
    assert_eq!(ubi.volume(first).unwrap().reserved_lebs, 10);
}

#[test]
fn a_damaged_fastmap_falls_back_to_a_scan() {
    let mut ubi = attach(formatted(nand(200, 512, 512)), FastmapUse::Write);
    let id = ubi.create_volume(&NewVolume::dynamic("data", 20)).unwrap();
    ubi.change_leb(id, 7, &[7; 1024]).unwrap();
    let flash = ubi.detach().unwrap().0;
    let options = AttachOptions { fastmap: FastmapUse::Write, ..super::common::quiet() };
    let ubi = Ubi::attach(flash.clone(), &options).unwrap();
    assert_eq!(ubi.info().attach_kind, AttachKind::Fastmap);
    let parts: Vec<u32> =
        ubi.pebs().filter(|peb| peb.state == PebState::Fastmap).map(|peb| peb.pnum).collect();
    assert_eq!(parts.len(), 2);
    let mut random = Random::new(9);
    for round in 0..300 {
        let mut flash = flash.clone();
        let part = parts[round % 2];
        let mut bytes = flash.block(part).unwrap().to_vec();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        flash.load(part, &bytes);
        let mut ubi = attach(flash, FastmapUse::Write);
        let mut buf = [0; 1024];
        ubi.read_leb(id, 7, 0, &mut buf).unwrap();
        assert_eq!(buf, [7; 1024]);
        ubi.change_leb(id, 8, &[8; 1024]).unwrap();
    }
}

#[test]
fn read_only_attaches_by_a_fastmap_and_leaves_it() {
    let mut ubi = attach(formatted(nand(200, 512, 512)), FastmapUse::Write);
    let id = ubi.create_volume(&NewVolume::dynamic("data", 20)).unwrap();
    ubi.change_leb(id, 7, &[7; 1024]).unwrap();
    let flash = ubi.detach().unwrap().0;
    let before = super::common::bytes(&flash);
    let options = AttachOptions { read_only: true, fastmap: FastmapUse::Write, ..AttachOptions::default() };
    let mut ubi = Ubi::attach(flash, &options).unwrap();
    assert_eq!(ubi.info().attach_kind, AttachKind::Fastmap);
    let mut lebs = [None; 20];
    lebs[7] = Some(7);
    assert_holds(&mut ubi, id, &lebs);
    assert!(super::common::bytes(&ubi.into_mtd()) == before);
}

#[test]
fn small_flash_has_no_fastmap() {
    let ubi = attach(formatted(nand(64, 512, 512)), FastmapUse::Write);
    let ubi = attach(ubi.detach().unwrap().0, FastmapUse::Write);
    assert_eq!(ubi.info().attach_kind, AttachKind::Scan);
}

/// Linux does not read a fastmap of more than 32 PEBs (`UBI_FM_MAX_BLOCKS`).
#[test]
fn flash_whose_fastmap_would_be_too_large_has_none() {
    for (pebs, kind) in [(8_000, AttachKind::Fastmap), (40_000, AttachKind::Scan)] {
        let ubi = attach(formatted(nand(pebs, 512, 512)), FastmapUse::Write);
        let ubi = attach(ubi.detach().unwrap().0, FastmapUse::Write);
        assert_eq!(ubi.info().attach_kind, kind, "{pebs} PEBs");
    }
}
