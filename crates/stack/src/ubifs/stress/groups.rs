//! Tests of the order of changes in the journal.

use floatgate_media::ubifs::{Group, INODE_WATERMARK, Inode, InodeNode, Key, NodeType};

use super::super::error::Error;
use super::super::scan::scan;
use super::model::{Model, Operation};
use super::*;

/// Types and groups of the nodes that a head has written since offset `from` of its LEB.
fn written(core: &mut Core<TestVolume>, head: Head, from: u32) -> Vec<(NodeType, Group)> {
    core.sync_heads().unwrap();
    let lnum = core.io.buffer(head).lnum().unwrap();
    let leb = scan(&mut core.io, lnum, 0).unwrap();
    let new = leb.nodes.iter().filter(|node| node.place.offset >= from);
    assert!(leb.nodes.is_sorted_by_key(|node| node.stamp.sqnum));
    new.map(|node| (node.node_type, node.stamp.group)).collect()
}

fn grouped(types: &[NodeType]) -> Vec<(NodeType, Group)> {
    let last = types.len() - 1;
    let mark = |at| if at == last { Group::Last } else { Group::Member };
    types.iter().enumerate().map(|(at, &node_type)| (node_type, mark(at))).collect()
}

#[test]
fn an_operation_is_one_group_as_linux_writes_it() {
    use NodeType::{Entry, Truncation, XattrEntry};
    let mut core = fresh(SHAPES[1]);
    let mut model = Model::new(1);
    // The heads have no LEB yet.
    core.apply(Head::Base, &[Change::Inode(directory(ROOT, 0))]).unwrap();
    let inode = NodeType::Inode;
    let cases: [(Operation, &[NodeType]); 7] = [
        (Operation::Create, &[Entry, inode, inode]),
        (Operation::SetAttribute, &[XattrEntry, inode, inode]),
        (Operation::Inode, &[inode]),
        (Operation::Truncate, &[inode, Truncation]),
        (Operation::Rename, &[Entry, Entry, inode]),
        (Operation::RemoveAttribute, &[XattrEntry, inode, inode]),
        (Operation::Unlink, &[Entry, inode, inode]),
    ];
    for (operation, expected) in cases {
        core.sync_heads().unwrap();
        let from = core.io.buffer(Head::Base).position();
        while core.io.buffer(Head::Base).position() == from {
            model.run(&mut core, operation).unwrap();
        }
        assert_eq!(written(&mut core, Head::Base, from), grouped(expected), "{operation:?}");
    }
    model.run(&mut core, Operation::Create).unwrap();
    model.run(&mut core, Operation::Write).unwrap();
    assert_eq!(written(&mut core, Head::Data, 0), [(NodeType::Data, Group::None)]);
}

/// Creates an open file without a name, and returns its inode.
fn open_file(core: &mut Core<TestVolume>, xattr_count: u32) -> Inode {
    let (number, created_sqnum) = core.new_inode().unwrap();
    let inode = Inode {
        key: Key::inode(number),
        created_sqnum,
        mode: 0o120_777,
        data_len: 5,
        xattr_count,
        ..Inode::default()
    };
    core.apply(Head::Base, &[Change::Inode(InodeNode { inode, data: b"there" })]).unwrap();
    assert!(core.orphans.contains(number));
    inode
}

#[test]
fn an_inode_without_links_is_bare_and_stays_until_it_is_closed() {
    let mut core = fresh(SHAPES[0]);
    let inode = open_file(&mut core, 0);
    let place = core.tnc.find(&mut core.io, inode.key).unwrap().unwrap();
    assert_eq!(place.len, 160);
    assert_consistent(&mut core, "open");
    // The deletion of the inode is already in the journal.
    let before = core.io.sqnum();
    core.delete_inode(&inode).unwrap();
    assert_eq!(core.io.sqnum(), before);
    assert_eq!(core.tnc.find(&mut core.io, inode.key).unwrap(), None);
    assert!(core.orphans.is_empty());
    assert_consistent(&mut core, "closed");
}

#[test]
fn a_deletion_is_written_again_after_a_commit() {
    let mut core = fresh(SHAPES[0]);
    let inode = open_file(&mut core, 0);
    core.commit().unwrap();
    let before = core.io.sqnum();
    core.delete_inode(&inode).unwrap();
    assert_eq!(core.io.sqnum(), before + 1);
    assert_consistent(&mut core, "closed");
}

#[test]
fn an_inode_that_gets_a_name_is_no_orphan() {
    let mut core = fresh(SHAPES[0]);
    let inode = open_file(&mut core, 0);
    let linked = Inode { links: 1, ..inode };
    core.apply(Head::Base, &[Change::Inode(InodeNode { inode: linked, data: b"there" })]).unwrap();
    assert!(core.orphans.is_empty());
    assert_eq!(core.read_inode(inode.key.inum()).unwrap(), Some(linked));
}

#[test]
fn what_cannot_be_written_changes_nothing() {
    let mut core = fresh(SHAPES[0]);
    let before = (core.io.sqnum(), core.io.buffer(Head::Base).position());
    let many = [Change::Inode(directory(ROOT, 0)); 110];
    let error = core.apply(Head::Base, &many).unwrap_err();
    assert_eq!(error, Error::TooLarge { what: "group of nodes", len: 110 * 160 });
    assert_eq!((core.io.sqnum(), core.io.buffer(Head::Base).position()), before);
    assert!(!core.io.is_read_only());
    core.io.set_read_only(true);
    assert_eq!(core.apply(Head::Base, &many[..1]), Err(Error::ReadOnly));
}

#[test]
fn inode_numbers_run_out_before_linux_refuses_to_mount() {
    let mut core = fresh(SHAPES[0]);
    core.highest_inode = INODE_WATERMARK - 2;
    assert_eq!(u64::from(core.new_inode().unwrap().0), INODE_WATERMARK - 1);
    assert!(core.new_inode().is_err());
    core.force_commit().unwrap();
    assert!(core.master.check(&core.io.layout().limits).is_ok());
}

#[test]
fn an_fsync_brings_the_inode_and_its_names_to_flash() {
    let mut core = fresh(SHAPES[1]);
    let mut model = Model::new(1);
    model.run(&mut core, Operation::Create).unwrap();
    model.run(&mut core, Operation::Write).unwrap();
    let number = *model.state.names.values().next().unwrap();
    core.io.sync_inode(&mut core.space, number + 1).unwrap();
    assert!(Head::ALL.iter().any(|&head| !core.io.buffer(head).pending().is_empty()));
    core.io.sync_inode(&mut core.space, number).unwrap();
    assert!(Head::ALL.iter().all(|&head| core.io.buffer(head).pending().is_empty()));
}
