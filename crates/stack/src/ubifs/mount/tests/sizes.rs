//! Tests of files whose data reached the flash before their inodes.

use super::*;

/// Creates a file of two blocks whose inode on flash covers only the first one.
fn late_inode(core: &mut Core<TestVolume>) -> u32 {
    let number = create(core, b"late");
    write_block(core, number, 0, &[1; 4096]);
    write_inode(core, inode(number, 1, 4096));
    write_block(core, number, 1, &[2; 100]);
    core.sync_heads().unwrap();
    number
}

#[test]
fn a_file_reaches_to_the_end_of_its_data() {
    let mut core = fresh();
    let number = late_inode(&mut core);
    let dirty = cut(&core);
    let read = mount(dirty.clone(), &READ);
    assert_eq!(read.sizes.get(&number), Some(&4196));
    for committed in [false, true] {
        let mut volume = dirty.clone();
        if committed {
            // The inode is in the index, and only the data is in the journal.
            let mut core = fresh();
            let number = create(&mut core, b"late");
            write_inode(&mut core, inode(number, 1, 4096));
            core.commit().unwrap();
            write_block(&mut core, number, 1, &[2; 100]);
            core.sync_heads().unwrap();
            volume = cut(&core);
        }
        let mut core = mount(volume, &RECOVER);
        assert_eq!(core.read_inode(number).unwrap().unwrap().size, 4196);
        assert_eq!(core.check().unwrap(), []);
        let mut core = mount(unmount(core), &WRITE);
        assert_eq!(core.read_inode(number).unwrap().unwrap().size, 4196);
        assert!(core.sizes.is_empty());
    }
}

#[test]
fn after_an_unmount_the_inode_counts() {
    let mut core = fresh();
    let number = late_inode(&mut core);
    let core = mount(unmount(core), &READ);
    assert!(core.sizes.is_empty(), "inode {number}");
}

#[test]
fn data_without_an_inode_go() {
    for options in [READ, RECOVER] {
        let mut core = fresh();
        let (number, _) = core.new_inode().unwrap();
        write_block(&mut core, number, 3, &[1; 100]);
        core.sync_heads().unwrap();
        let mut core = mount(cut(&core), &options);
        let key = Key::data(number, 3).unwrap();
        assert_eq!(core.tnc.find(&mut core.io, key), Ok(None));
        assert_eq!(core.check().unwrap(), []);
    }
}

#[test]
fn a_truncation_is_replayed() {
    let mut core = fresh();
    let number = create(&mut core, b"cut");
    for block in 0..4 {
        write_block(&mut core, number, block, &[1; 4096]);
    }
    write_inode(&mut core, inode(number, 1, 4 * 4096));
    core.commit().unwrap();
    let truncation = floatgate_media::ubifs::Truncation { inode: number, old_size: 4 * 4096, new_size: 5000 };
    let shorter = InodeNode { inode: inode(number, 1, 5000), data: &[] };
    core.apply(Head::Base, &[Change::Inode(shorter), Change::Truncation(truncation)]).unwrap();
    write_block(&mut core, number, 1, &[1; 904]);
    core.sync_heads().unwrap();
    let mut core = mount(cut(&core), &RECOVER);
    let blocks: Vec<bool> = (0..4)
        .map(|block| core.tnc.find(&mut core.io, Key::data(number, block).unwrap()).unwrap().is_some())
        .collect();
    assert_eq!(blocks, [true, true, false, false]);
    assert_eq!(core.read_inode(number).unwrap().unwrap().size, 5000);
    assert_eq!(core.check().unwrap(), []);
}

#[test]
fn a_deleted_inode_takes_its_data_along() {
    let mut core = fresh();
    let number = create(&mut core, b"gone");
    write_block(&mut core, number, 0, &[1; 4096]);
    core.commit().unwrap();
    core.apply(
        Head::Base,
        &[
            Change::Entry(EntryNode { entry: Entry { inode: 0, ..entry(b"gone", 0).entry }, name: b"gone" }),
            Change::Inode(InodeNode { inode: inode(number, 0, 4096), data: &[] }),
        ],
    )
    .unwrap();
    core.sync_heads().unwrap();
    for options in [READ, RECOVER] {
        let mut core = mount(cut(&core), &options);
        assert_eq!(find(&mut core, b"gone"), None);
        assert_eq!(core.read_inode(number), Ok(None));
        assert_eq!(core.tnc.find(&mut core.io, Key::data(number, 0).unwrap()), Ok(None));
    }
}

#[test]
fn a_nameless_file_that_gets_a_name_keeps_its_data() {
    let mut core = fresh();
    let (number, _) = core.new_inode().unwrap();
    write_inode(&mut core, inode(number, 0, 0));
    write_block(&mut core, number, 0, &[1; 4096]);
    let linked = InodeNode { inode: inode(number, 1, 4096), data: &[] };
    core.apply(Head::Base, &[Change::Entry(entry(b"named", number)), Change::Inode(linked)]).unwrap();
    core.sync_heads().unwrap();
    let mut core = mount(cut(&core), &RECOVER);
    assert_eq!(core.read_inode(number).unwrap().unwrap().links, 1);
    assert!(core.tnc.find(&mut core.io, Key::data(number, 0).unwrap()).unwrap().is_some());
}
