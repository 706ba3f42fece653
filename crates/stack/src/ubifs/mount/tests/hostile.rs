//! Tests with damaged and forged filesystems: they must cause errors, but no panic, no endless loop
//! and no unbounded memory use.

use floatgate_media::ubifs::{Frame, NodeBody, Stamp};

use super::*;
use floatgate_mtd::random::Random;

/// Creates a filesystem with data in every area, and cuts its power while it is in use.
fn sample() -> TestVolume {
    let mut core = fresh();
    for name in 0..40u32 {
        let number = create(&mut core, format!("{name}").as_bytes());
        write_block(&mut core, number, 0, &[1; 1000]);
    }
    let (open, _) = core.new_inode().unwrap();
    write_inode(&mut core, inode(open, 0, 0));
    core.commit().unwrap();
    for name in 20..60u32 {
        let number = create(&mut core, format!("{name} again").as_bytes());
        write_block(&mut core, number, 1, &[1; 2000]);
    }
    core.sync_heads().unwrap();
    cut(&core)
}

/// Mounts in every mode, and reads everything.
fn try_all(volume: &TestVolume) {
    for options in [READ, RECOVER, MountOptions { forgiving: true, ..READ }] {
        let Ok(mut core) = Core::mount(volume.clone(), &options) else { continue };
        drop(core.check());
        if !options.read_only {
            drop(core.apply(Head::Base, &[Change::Entry(entry(b"new", 1))]));
            drop(core.commit());
            drop(core.unmount());
        }
    }
}

#[test]
fn flipped_bytes() {
    let sample = sample();
    let used: Vec<u32> = (0..60).filter(|&lnum| sample.leb(lnum).is_some()).collect();
    let mut random = Random::new(7);
    for _ in 0..400 {
        let mut volume = sample.clone();
        for _ in 0..=random.below(3) {
            let lnum = used[usize::try_from(random.below(used.len() as u64)).unwrap()];
            let bytes = volume.leb(lnum).unwrap();
            let written = bytes.iter().rposition(|&byte| byte != 0xFF).map_or(1, |last| last + 1);
            let at = u32::try_from(random.below(written as u64)).unwrap();
            volume.damage(lnum, at, 1 << random.below(8));
        }
        try_all(&volume);
    }
}

/// Changes a byte of a node, and corrects its CRC.
fn forge(bytes: &mut [u8], at: usize, value: u8) {
    bytes[at] = value;
    let len = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
    if let Some(body) = bytes.get(8..len) {
        let crc = floatgate_media::crc::ubi(body);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn forged_nodes() {
    let sample = sample();
    let mut random = Random::new(8);
    let mut places: Vec<(u32, u32, usize)> = Vec::new();
    for lnum in 0..60 {
        let Some(bytes) = sample.leb(lnum) else { continue };
        for at in (0..bytes.len()).step_by(8) {
            if let Ok(frame) = Frame::parse(&bytes[at..]) {
                places.push((lnum, u32::try_from(at).unwrap(), frame.as_bytes().len()));
            }
        }
    }
    let values = [0, 1, 0x7F, 0x80, 0xFF];
    for round in 0..1500usize {
        // Picks nodes of all areas. Superblock and master nodes are picked more often than their
        // number implies.
        let pick = if round % 4 == 0 { random.below(8) } else { random.below(places.len() as u64) };
        let (lnum, offset, len) = places[usize::try_from(pick).unwrap()];
        let fields = if lnum == 0 { 260 } else { len };
        let mut bytes = sample.leb(lnum).unwrap().to_vec();
        let at = 8 + usize::try_from(random.below(fields as u64 - 8)).unwrap();
        let value = values[usize::try_from(random.below(5)).unwrap()];
        forge(&mut bytes[offset as usize..], at, value);
        let used = bytes.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        bytes.truncate(used.next_multiple_of(UNIT as usize));
        let mut volume = sample.clone();
        volume.change(lnum, &bytes).unwrap();
        try_all(&volume);
    }
}

#[test]
fn a_superblock_of_a_giant_is_no_reason_to_allocate() {
    let mut volume = sample();
    let stored = superblock::read(&mut volume, true).unwrap().superblock;
    let huge = [1 << 20, 1 << 28, (1 << 31) - 1, u32::MAX];
    for (field, value) in (0..5).flat_map(|field| huge.map(move |value| (field, value))) {
        let mut superblock = stored;
        match field {
            0 => (superblock.leb_count, superblock.max_leb_count) = (value, value),
            1 => superblock.log_lebs = value,
            2 => superblock.lpt_lebs = value,
            3 => superblock.orphan_lebs = value,
            _ => superblock.lsave_count = value,
        }
        let mut bytes = vec![0; superblock.node_bytes()];
        superblock.emit(Stamp::new(1), &mut bytes).unwrap();
        volume.change(0, &bytes).unwrap();
        try_all(&volume);
    }
}

#[test]
fn missing_lebs_are_noted() {
    let sample = sample();
    let whole = mount(sample.clone(), &READ);
    let buds: Vec<u32> = whole.log.buds().keys().copied().collect();
    for lnum in (0..60).filter(|&lnum| sample.leb(lnum).is_some()) {
        let mut volume = sample.clone();
        volume.unmap(lnum).unwrap();
        try_all(&volume);
        if buds.contains(&lnum) {
            // An empty journal LEB is the state that a power cut leaves before the first write to
            // the LEB.
            let options = MountOptions { forgiving: true, ..READ };
            assert!(Core::mount(volume, &options).is_ok());
        }
    }
}
