//! Tests of the orphan area.

use super::*;

/// Creates an inode without a name, with one block of data.
fn orphan(core: &mut Core<TestVolume>) -> u32 {
    let (number, _) = core.new_inode().unwrap();
    write_inode(core, inode(number, 0, 4096));
    write_block(core, number, 0, &[1; 4096]);
    number
}

fn delete(core: &mut Core<TestVolume>, number: u32) {
    let inode = core.read_inode(number).unwrap().unwrap();
    core.delete_inode(&inode).unwrap();
}

#[test]
fn orphans_of_a_commit_are_removed_after_a_power_cut() {
    let mut core = fresh();
    let lost = orphan(&mut core);
    let closed = orphan(&mut core);
    core.commit().unwrap();
    assert!(!core.master.flags.contains(MasterFlags::NO_ORPHANS));
    delete(&mut core, closed);
    core.sync_heads().unwrap();
    for options in [READ, RECOVER] {
        let mut core = mount(cut(&core), &options);
        for number in [lost, closed] {
            assert_eq!(core.read_inode(number), Ok(None));
            assert_eq!(core.tnc.find(&mut core.io, Key::data(number, 0).unwrap()), Ok(None));
        }
        assert!(core.orphans.is_empty());
        if !options.read_only {
            assert!(core.master.flags.contains(MasterFlags::NO_ORPHANS), "the recovery was committed");
            assert_eq!(core.check().unwrap(), []);
        }
    }
}

#[test]
fn an_orphan_that_has_a_name_again_stays() {
    let mut core = fresh();
    let number = orphan(&mut core);
    core.commit().unwrap();
    let linked = InodeNode { inode: inode(number, 1, 4096), data: &[] };
    core.apply(Head::Base, &[Change::Entry(entry(b"named", number)), Change::Inode(linked)]).unwrap();
    assert!(core.orphans.is_empty());
    core.sync_heads().unwrap();
    let mut core = mount(cut(&core), &RECOVER);
    assert_eq!(core.read_inode(number).unwrap().unwrap().links, 1);
    assert!(core.tnc.find(&mut core.io, Key::data(number, 0).unwrap()).unwrap().is_some());
}

#[test]
fn an_unmount_with_orphans_leaves_them_to_recovery() {
    let mut core = fresh();
    let number = orphan(&mut core);
    core.commit().unwrap();
    let volume = unmount(core);
    assert_eq!(refused(volume.clone(), &WRITE), Error::NeedsRecovery);
    let mut core = mount(volume, &RECOVER);
    assert_eq!(core.read_inode(number), Ok(None));
}

#[test]
fn the_area_is_written_anew_when_it_is_full() {
    let mut core = fresh();
    let mut open: Vec<u32> = Vec::new();
    let area = core.io.layout().limits.orphans.clone();
    assert_eq!(area.len(), 1);
    for round in 0..80 {
        let (number, _) = core.new_inode().unwrap();
        write_inode(&mut core, inode(number, 0, 0));
        open.push(number);
        if round % 3 == 0 {
            let closed = open.remove(open.len() / 2);
            delete(&mut core, closed);
        }
        core.commit().unwrap();
        assert!(open.iter().all(|&number| core.orphans.contains(number)));
    }
    let mut core = mount(cut(&core), &RECOVER);
    for number in open {
        assert_eq!(core.read_inode(number), Ok(None));
    }
    assert_eq!(core.check().unwrap(), []);
}

#[test]
fn there_are_only_so_many() {
    let core = fresh();
    let mut orphans = Orphans::new(core.io.layout());
    let most = (LEB - 32) / 8 / 2;
    for inode in 0..most {
        orphans.add(inode).unwrap();
        orphans.add(inode).unwrap();
    }
    assert_eq!(orphans.add(most), Err(Error::NoSpace));
    orphans.remove(3);
    orphans.remove(3);
    assert_eq!((orphans.add(most), orphans.contains(3), orphans.contains(most)), (Ok(()), false, true));
}

#[test]
fn cuts_while_orphans_are_written() {
    let mut core = fresh();
    for _ in 0..40 {
        orphan(&mut core);
        core.commit().unwrap();
    }
    // The area has space for a few more numbers; then it is rewritten from its start.
    for (point, seed) in (0..80).flat_map(|point| [(point, 1), (point, 2)]) {
        let mut core = core.clone();
        core.io.volume_mut().cut_after(point, seed);
        while core.new_inode().is_ok() {
            let (number, _) = core.new_inode().unwrap();
            let orphan = InodeNode { inode: inode(number, 0, 0), data: &[] };
            let written = core.apply(Head::Base, &[Change::Inode(orphan)]);
            if written.and_then(|()| core.commit()).is_err() {
                break;
            }
        }
        let mut volume = core.into_volume();
        volume.power_on();
        let mut core = mount(volume, &RECOVER);
        assert_eq!(core.check().unwrap(), [], "cut {point}, {seed}");
        let leaves = {
            let mut leaves = Vec::new();
            let (from, to) = (Key::from_bits(0), Key::from_bits(u64::MAX));
            core.tnc.leaves(&mut core.io, from, to, usize::MAX, &mut leaves).unwrap();
            leaves.len()
        };
        assert_eq!(leaves, 1, "only the root directory is left");
    }
}
