//! Tests of master nodes after power cuts at every moment, and after other damage.

use floatgate_media::ubifs::MASTER_LEB;

use super::*;

const STEP: u32 = 512;

/// Creates a volume whose two master LEBs contain this number of nodes.
fn volume_with(nodes: u32) -> TestVolume {
    let mut core = fresh();
    while core.master_offset < nodes * STEP {
        core.write_master().unwrap();
    }
    core.master.flags = master::without(core.master.flags, MasterFlags::DIRTY);
    core.master.gc_lnum = core.gc_lnum.unwrap();
    core.write_master().unwrap();
    core.into_volume()
}

/// Truncates a master LEB to its first `len` bytes, and changes a byte.
fn replace(volume: &mut TestVolume, lnum: u32, len: u32, wrong: Option<u32>) {
    let mut bytes = volume.leb(lnum).unwrap()[..len as usize].to_vec();
    if let Some(at) = wrong {
        bytes[at as usize] ^= 0xFF;
    }
    volume.change(lnum, &bytes).unwrap();
}

/// Commit number, offset and dirty flag of the master node that a mount finds.
fn found(mut volume: TestVolume, read_only: bool) -> Result<(u64, u32, bool)> {
    let superblock = superblock::read(&mut volume, read_only)?;
    let layout = superblock::layout(&superblock.superblock, superblock.volume)?;
    let mut io = Io::new(volume, Arc::new(layout), read_only);
    let found = master::read(&mut io, &mut Findings::default())?;
    let dirty = found.master.flags.contains(MasterFlags::DIRTY);
    Ok((found.master.commit, found.next_offset, dirty))
}

#[test]
fn both_the_same_is_clean() {
    assert_eq!(found(volume_with(3), true), Ok((1, 4 * STEP, false)));
    // An interrupted mount can have begun to write after these nodes.
    assert_eq!(found(volume_with(3), false), Ok((1, STEP, false)), "written to the start of both");
}

#[test]
fn the_second_was_not_written() {
    let mut volume = volume_with(3);
    replace(&mut volume, MASTER_LEB + 1, 3 * STEP, None);
    assert_eq!(found(volume.clone(), false), Ok((1, STEP, false)), "written to the start of both");
    assert_eq!(found(volume, true), Ok((1, 4 * STEP, true)), "dirty, so that it is recovered later");
}

#[test]
fn the_first_was_torn() {
    let mut volume = volume_with(3);
    replace(&mut volume, MASTER_LEB, 4 * STEP, Some(3 * STEP + 100));
    replace(&mut volume, MASTER_LEB + 1, 3 * STEP, None);
    // The previous node is used; its dirty flag was set.
    assert_eq!(found(volume.clone(), false), Ok((1, STEP, true)));
    replace(&mut volume, MASTER_LEB, 4 * STEP, Some(3 * STEP));
    assert_eq!(found(volume, false), Ok((1, STEP, true)));
}

#[test]
fn the_second_was_torn() {
    let mut volume = volume_with(3);
    replace(&mut volume, MASTER_LEB + 1, 4 * STEP, Some(4 * STEP - 1));
    assert_eq!(found(volume, false), Ok((1, STEP, false)));
}

#[test]
fn the_leb_was_full() {
    let full = LEB / STEP;
    let old = volume_with(full - 1);
    let new = volume_with(full);
    assert_eq!(new.leb(MASTER_LEB).unwrap()[STEP as usize..], vec![0xFF; (LEB - STEP) as usize]);
    let with = |first: Option<&TestVolume>, second: Option<&TestVolume>| {
        let mut volume = new.clone();
        for (lnum, leb) in [(MASTER_LEB, first), (MASTER_LEB + 1, second)] {
            volume.unmap(lnum).unwrap();
            if let Some(from) = leb {
                volume.change(lnum, from.leb(lnum).unwrap()).unwrap();
            }
        }
        found(volume, false).map(|(_, offset, _)| offset)
    };
    assert_eq!(with(None, Some(&old)), Ok(STEP));
    assert_eq!(with(Some(&new), Some(&old)), Ok(STEP));
    assert_eq!(with(Some(&new), None), Ok(STEP));
    assert!(with(None, None).is_err());
}

#[test]
fn every_cut_of_a_write_is_survived_and_every_cut_of_its_recovery() {
    for nodes in [1, 2, LEB / STEP - 1, LEB / STEP] {
        let mut core = fresh();
        while core.master_offset < nodes * STEP {
            core.write_master().unwrap();
        }
        for (point, seed) in (0..6).flat_map(|point| (0..8).map(move |seed| (point, seed))) {
            let mut core = core.clone();
            core.master.commit += 1;
            core.io.volume_mut().cut_after(point, seed);
            let done = core.write_master().is_ok();
            let mut volume = core.into_volume();
            volume.power_on();
            for again in 0..3 {
                volume.cut_after(again, seed);
                let outcome = found(volume.clone(), false);
                if let Ok((commit, _, _)) = outcome {
                    assert!(commit == 2 || !done && commit == 1);
                    continue;
                }
                let error = outcome.unwrap_err();
                assert!(error.is_power_loss(), "{nodes} {point} {seed} {again}: {error}");
            }
            volume.power_on();
            assert!(found(volume, false).is_ok(), "{nodes} {point} {seed}");
        }
    }
}

#[test]
fn decay_of_one_leb_is_no_loss() {
    for lnum in [MASTER_LEB, MASTER_LEB + 1] {
        let mut volume = volume_with(5);
        replace(&mut volume, lnum, 6 * STEP, Some(STEP));
        assert_eq!(found(volume.clone(), false), Ok((1, STEP, false)));
        let mut core = mount(volume, &RECOVER);
        assert_eq!(core.check().unwrap(), []);
    }
}

#[test]
fn decay_of_both_lebs_is_refused_but_can_be_forgiven() {
    let mut volume = volume_with(5);
    replace(&mut volume, MASTER_LEB, 6 * STEP, Some(STEP));
    replace(&mut volume, MASTER_LEB + 1, 6 * STEP, Some(2 * STEP));
    assert!(found(volume.clone(), false).unwrap_err().is_damage());
    let core = mount(volume, &MountOptions { forgiving: true, ..READ });
    assert_eq!(core.findings.notes.len(), 1);
    assert_eq!(core.master.commit, 1);
}

#[test]
fn impossible_master_nodes_are_refused() {
    let with = |change: fn(&mut Master)| {
        let mut core = fresh();
        change(&mut core.master);
        core.write_master().unwrap();
        found(core.into_volume(), true).unwrap_err()
    };
    assert!(matches!(with(|master| master.commit = 1 << 40), Error::Corrupt { .. }));
    assert!(matches!(with(|master| master.leb_count = 61), Error::Corrupt { .. }));
    assert!(matches!(with(|master| master.root_lnum = 3), Error::Node { .. }));
    assert!(matches!(with(|master| master.lpt_offset = LEB), Error::Node { .. }));
}
