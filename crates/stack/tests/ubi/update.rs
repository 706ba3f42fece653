//! Tests of whole volumes.

use super::common::{Random, attach, formatted, kinds, nand};
use floatgate_media::ubi::VolumeType;
use floatgate_mtd::Mtd;
use floatgate_stack::ubi::{NewVolume, Ubi, UbiError};

fn write(ubi: &mut Ubi<dyn Mtd>, id: u32, data: &[u8]) {
    let mut update = ubi.update_volume(id, data.len() as u64).unwrap();
    for part in data.chunks(1000) {
        update.write(part).unwrap();
    }
    update.finish().unwrap();
}

fn read(ubi: &mut Ubi<dyn Mtd>, id: u32, len: usize) -> Vec<u8> {
    let mut all = vec![0xA5; len];
    let mut done = 0;
    while done < len {
        let part = 777.min(len - done);
        let got = ubi.read_volume(id, done as u64, &mut all[done..done + part]).unwrap();
        if got == 0 {
            break;
        }
        done += got;
    }
    all.truncate(done);
    all
}

#[test]
fn what_was_written_is_read() {
    for flash in kinds(40) {
        let leb = attach(formatted(flash.clone())).info().geometry.leb_bytes() as usize;
        for len in [0, 1, leb - 1, leb, leb + 1, 5 * leb] {
            let data = Random::new(len as u64).bytes(len);
            let mut ubi = attach(formatted(flash.clone()));
            let fixed = ubi.create_volume(&NewVolume::fixed("static", 6)).unwrap();
            let dynamic = ubi.create_volume(&NewVolume::dynamic("dynamic", 6)).unwrap();
            write(&mut ubi, fixed, &vec![1; 2 * leb]);
            write(&mut ubi, fixed, &data);
            write(&mut ubi, dynamic, &data);
            for _ in 0..2 {
                assert!(read(&mut ubi, fixed, len + 5) == data);
                let info = ubi.volume(fixed).unwrap();
                assert_eq!((info.used_bytes, info.corrupted), (len as u64, false));
                let all = read(&mut ubi, dynamic, 7 * leb);
                assert!(all[..len] == data && all[len..].iter().all(|&byte| byte == 0xFF));
                assert_eq!(all.len(), 6 * leb);
                assert!(ubi.check_volume(fixed).unwrap());
                ubi = attach(ubi.into_mtd());
            }
        }
    }
}

#[test]
fn an_update_that_was_cut_off_leaves_nothing_to_read() {
    let mut ubi = attach(formatted(nand(40, 2048, 2048)));
    let id = ubi.create_volume(&NewVolume::fixed("static", 6)).unwrap();
    write(&mut ubi, id, &[1; 100_000]);
    let mut update = ubi.update_volume(id, 50_000).unwrap();
    update.write(&[2; 49_999]).unwrap();
    assert_eq!(update.write(&[2; 2]), Err(UbiError::UpdateLength { announced: 50_000, written: 50_001 }));
    assert_eq!(update.finish(), Err(UbiError::UpdateLength { announced: 50_000, written: 49_999 }));
    for _ in 0..2 {
        assert!(ubi.volume(id).unwrap().update_marker);
        assert_eq!(ubi.read_volume(id, 0, &mut [0]), Err(UbiError::UpdateMarker { id }));
        ubi = attach(ubi.into_mtd());
    }
    write(&mut ubi, id, &[3; 10]);
    assert_eq!(read(&mut attach(ubi.into_mtd()), id, 11), [3; 10]);
}

#[test]
fn damage_to_a_static_volume_is_found() {
    let mut ubi = attach(formatted(nand(40, 2048, 2048)));
    let id = ubi.create_volume(&NewVolume::fixed("static", 6)).unwrap();
    let data = Random::new(1).bytes(60_000);
    write(&mut ubi, id, &data);
    let pnum =
        ubi.pebs().find(|peb| peb.leb.is_some_and(|leb| leb.volume == id && leb.lnum == 1)).unwrap().pnum;
    let mut flash = ubi.into_mtd();
    let mut block = flash.block(pnum).unwrap().to_vec();
    block[5000] ^= 1;
    flash.load(pnum, &block);
    let mut ubi = attach(flash);
    let leb = ubi.info().geometry.leb_bytes() as usize;
    let mut buf = vec![0; leb];
    assert_eq!(ubi.read_volume(id, 0, &mut buf), Ok(leb));
    assert_eq!(ubi.read_volume(id, leb as u64, &mut buf), Err(UbiError::Damaged { id, lnum: 1 }));
    let wrong: Vec<usize> = (0..leb).filter(|&at| buf[at] != data[leb + at]).collect();
    assert_eq!(wrong, [5000 - 4096]);
    assert!(!ubi.check_volume(id).unwrap());
    assert!(ubi.volume(id).unwrap().corrupted);
}

#[test]
fn static_volumes_are_not_written_by_leb() {
    let mut ubi = attach(formatted(nand(40, 2048, 2048)));
    let new = NewVolume { alignment: 4096, ..NewVolume::fixed("static", 6) };
    let id = ubi.create_volume(&new).unwrap();
    let info = ubi.volume(id).unwrap();
    assert_eq!((info.volume_type, info.usable_leb_bytes, info.data_pad), (VolumeType::Static, 28672, 0));
    let refused = UbiError::WrongType { id, actual: "static" };
    assert_eq!(ubi.write_leb(id, 0, 0, &[0; 2048]), Err(refused.clone()));
    assert_eq!(ubi.change_leb(id, 0, &[0; 2048]), Err(refused.clone()));
    assert_eq!(ubi.unmap_leb(id, 0), Err(refused));
    let error = ubi.update_volume(id, 6 * 28672 + 1).map(drop).unwrap_err();
    assert_eq!(error, UbiError::NoSpace { need: 7, available: 6 });
}

#[test]
fn alignment_leaves_bytes_unused() {
    let mut ubi = attach(formatted(nand(40, 512, 512)));
    let new = NewVolume { alignment: 1536, ..NewVolume::dynamic("data", 6) };
    let id = ubi.create_volume(&new).unwrap();
    // A LEB of 14 pages holds four times three pages.
    assert_eq!(ubi.volume(id).unwrap().usable_leb_bytes, 6144);
    let data = Random::new(3).bytes(20_000);
    write(&mut ubi, id, &data);
    let mut ubi = attach(ubi.into_mtd());
    assert!(read(&mut ubi, id, 20_000) == data);
    let odd = NewVolume { alignment: 100, ..NewVolume::dynamic("odd", 1) };
    assert!(matches!(ubi.create_volume(&odd), Err(UbiError::BadVolume(_))));
}
