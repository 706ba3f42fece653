//! Tests of new filesystems: their sizes, and their contents on flash.

use floatgate_media::ubifs::{HashAlgorithm, Superblock, SuperblockFlags};

use super::*;
use crate::volume::VolumeGeometry;

fn geometry_of(lebs: u32, leb_bytes: u32, unit: u32) -> VolumeGeometry {
    TestVolume::new(lebs, leb_bytes, unit, unit).geometry()
}

/// Number of log LEBs and of LPT LEBs, size of the journal in bytes, and whether the LPT is big.
fn areas(volume: VolumeGeometry, options: &FormatOptions) -> (u32, u32, u64, bool) {
    let superblock = geometry::superblock(volume, options).unwrap();
    let big = superblock.has(SuperblockFlags::BIG_LPT);
    (superblock.log_lebs, superblock.lpt_lebs, superblock.max_journal_bytes, big)
}

/// Reference values: the superblock that `mkfs.ubifs` 2.1.5 wrote for `-m unit -e leb -c lebs`.
#[test]
fn sizes_are_those_of_mkfs() {
    let cases = [
        ((2048, 126_976, 200), (4, 2, 3_047_424, false)),
        ((2048, 126_976, 22), (4, 2, 507_904, false)),
        ((2048, 129_024, 2000), (5, 2, 8_388_608, false)),
        ((512, 15_872, 1000), (8, 2, 1_968_128, false)),
        ((4096, 16_384, 23), (5, 2, 65_536, false)),
        ((8192, 16_384, 20_000), (260, 28, 8_388_608, true)),
        ((1, 16_384, 2047), (5, 3, 4_161_536, false)),
    ];
    for ((unit, leb, lebs), expected) in cases {
        let found = areas(geometry_of(lebs, leb, unit), &FormatOptions::default());
        assert_eq!(found, expected, "-m {unit} -e {leb} -c {lebs}");
    }
}

#[test]
fn given_sizes_count() {
    let options = FormatOptions {
        journal_bytes: Some(1 << 20),
        log_lebs: Some(6),
        orphan_lebs: Some(3),
        max_lebs: Some(4000),
        reserved_bytes: Some(12_345),
        fanout: 16,
        ..FormatOptions::default()
    };
    let superblock = geometry::superblock(geometry_of(400, 126_976, 2048), &options).unwrap();
    let Superblock { log_lebs, orphan_lebs, leb_count, max_leb_count, fanout, .. } = superblock;
    assert_eq!((log_lebs, orphan_lebs, leb_count, max_leb_count, fanout), (6, 3, 400, 4000, 16));
    assert_eq!((superblock.max_journal_bytes, superblock.reserved_bytes), (1 << 20, 12_345));
}

#[test]
fn the_smallest_volume_has_a_filesystem() {
    // `mkfs.ubifs` refuses these volumes, because its log has more LEBs than it needs.
    for lebs in 17..22 {
        let volume = TestVolume::new(lebs, LEB, UNIT, UNIT);
        let mut core =
            Core::format(volume, &FormatOptions::default()).unwrap_or_else(|(error, _)| panic!("{error}"));
        create(&mut core, b"a");
        assert!(find(&mut mount(unmount(core), &WRITE), b"a").is_some());
    }
    let error =
        Core::format(TestVolume::new(16, LEB, UNIT, UNIT), &FormatOptions::default()).err().unwrap().0;
    assert!(matches!(error, Error::Superblock(_)));
}

#[test]
fn the_default_journal_fits_a_volume_that_is_to_grow() {
    for (lebs, max) in [(20, 500), (33, 500), (40, 2000), (80, 20_000)] {
        let volume = TestVolume::new(lebs, LEB, UNIT, UNIT);
        let options = FormatOptions { max_lebs: Some(max), ..FormatOptions::default() };
        let mut core = Core::format(volume, &options)
            .unwrap_or_else(|(error, _)| panic!("{lebs} of {max} LEBs: {error}"));
        create(&mut core, b"a");
        assert!(find(&mut mount(unmount(core), &WRITE), b"a").is_some(), "{lebs} of {max} LEBs");
    }
}

#[test]
fn as_linux_formats_it() {
    // Volume on a chip of 8 MiB with blocks of 128 KiB, formatted by a kernel.
    let superblock = geometry::superblock(geometry_of(56, 129_024, 2048), &FormatOptions::linux()).unwrap();
    assert_eq!((superblock.format_version, superblock.orphan_lebs, superblock.log_lebs), (5, 2, 3));
    assert_eq!(superblock.max_journal_bytes, 3 * 129_024);
    assert_eq!(superblock.hash_algorithm, HashAlgorithm::Other(0xFFFF));
    assert!(superblock.has(SuperblockFlags::DOUBLE_HASH));
    assert_eq!(superblock.reserved_bytes, u64::from(superblock.main_lebs().unwrap()) * 129_024 / 20);
}

#[test]
fn a_new_filesystem_is_sound_and_has_a_root() {
    for deferred in [false, true] {
        for (lebs, leb, unit, most) in [(60, LEB, 512, 512), (64, 129_024, 2048, 4096), (200, 16_384, 8, 64)]
        {
            let options =
                FormatOptions { deferred, root_mode: 0o1777, root_uid: 7, ..FormatOptions::default() };
            let core = Core::format(TestVolume::new(lebs, leb, unit, most), &options);
            let core = core.unwrap_or_else(|(error, _)| panic!("{error}"));
            // Linux does not mount a filesystem without a LEB for the garbage collector, not even
            // to recover it.
            assert_eq!(core.master.gc_leb(), core.gc_lnum);
            let volume = unmount(core);
            for mount_options in [READ, WRITE] {
                let mut core = mount(volume.clone(), &mount_options);
                let root = core.read_inode(ROOT_INODE).unwrap().unwrap();
                assert_eq!((root.mode, root.uid, root.links, root.size), (0o041_777, 7, 2, 160));
                assert_eq!(core.check().unwrap(), []);
                assert_eq!(core.highest_inode, 64);
            }
        }
    }
}

#[test]
fn a_deferred_filesystem_has_only_data_on_flash_and_ends_behind_them() {
    let options = FormatOptions { deferred: true, ..FormatOptions::default() };
    let volume = TestVolume::new(400, LEB, UNIT, UNIT);
    let mut core = Core::format(volume, &options).unwrap_or_else(|(error, _)| panic!("{error}"));
    let number = create(&mut core, b"large");
    for block in 0..300 {
        write_block(&mut core, number, block, &[1; 4096]);
    }
    let main = core.io.layout().limits.main.clone();
    for lnum in 0..main.start {
        assert_eq!(core.io.volume().leb(lnum), None, "LEB {lnum}");
    }
    core.commit().unwrap();
    assert_eq!(core.check().unwrap(), []);
    let end = core.io.layout().limits.main.end;
    let used = core.space.lebs().filter(|(_, leb)| leb.taken || leb.free < LEB).count();
    assert_eq!(end - main.start, u32::try_from(used).unwrap());
    // The log contains only a commit start.
    let log = crate::ubifs::scan::scan(&mut core.io, core.master.log_lnum, 0).unwrap();
    assert_eq!(log.nodes.len(), 1);
    // The filesystem can be used afterwards.
    create(&mut core, b"small");
    core.commit().unwrap();
    let mut core = mount(unmount(core), &WRITE);
    assert_eq!(core.io.layout().limits.main.end, 400);
    assert!(find(&mut core, b"large").is_some() && find(&mut core, b"small").is_some());
    assert_eq!(core.check().unwrap(), []);
}

/// The available space is the requested space, plus less than one LEB.
#[test]
fn an_image_has_the_room_that_was_asked_for() {
    for (blocks, room_lebs) in [(0, 1), (0, 40), (30, 2), (300, 1), (300, 2), (300, 50)] {
        let options =
            FormatOptions { deferred: true, room_lebs, max_lebs: Some(400), ..FormatOptions::default() };
        let volume = TestVolume::new(400, LEB, UNIT, UNIT);
        let mut core = Core::format(volume, &options).unwrap_or_else(|(error, _)| panic!("{error}"));
        let number = create(&mut core, b"large");
        for block in 0..blocks {
            write_block(&mut core, number, block, &[1; 4096]);
        }
        core.commit().unwrap();
        let (room, leb) = (u64::from(room_lebs) * u64::from(LEB), u64::from(LEB));
        let available = core.space.available(core.space.min_index_lebs());
        let least = crate::ubifs::mount::format::least_main_lebs(&core.io.layout().superblock);
        let more = if core.io.layout().limits.main_lebs() == least { u64::MAX } else { room + leb };
        assert!((room..more).contains(&available), "{blocks} blocks, room {room}: {available}");
    }
}

#[test]
fn what_was_there_is_gone() {
    let mut core = fresh();
    for name in 0..100u32 {
        create(&mut core, format!("{name}").as_bytes());
    }
    let volume = unmount(core);
    let core = Core::format(volume, &FormatOptions::linux()).unwrap_or_else(|(error, _)| panic!("{error}"));
    let mut core = mount(unmount(core), &WRITE);
    assert_eq!(find(&mut core, b"0"), None);
    assert_eq!(core.check().unwrap(), []);
}
