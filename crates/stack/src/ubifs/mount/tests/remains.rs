//! Tests of the nodes that recovery keeps in LEBs whose write was interrupted.

use floatgate_media::ubifs::pad;

use super::*;
use crate::ubifs::layout::Head;
use recover::recover_leb;

/// A node of 64 bytes with this name and group.
type Written = (&'static [u8], Group);

const ALONE: [Written; 2] = [(b"one", Group::Last), (b"two", Group::Last)];

/// Recovers a LEB that contains these nodes, padded to an I/O unit, followed by `tail`. Returns the number of nodes
/// kept and the end of the LEB, after comparing both with the flash.
fn recovered(list: &[Written], tail: &[u8], head: Option<Head>, max_write: u32) -> Result<(usize, u32)> {
    let volume = TestVolume::new(60, LEB, UNIT, max_write);
    let mut core =
        Core::format(volume, &FormatOptions::default()).unwrap_or_else(|(error, _)| panic!("{error}"));
    let mut bytes = nodes(&mut core, list);
    if !bytes.is_empty() {
        let used = bytes.len();
        bytes.resize(used.next_multiple_of(UNIT as usize), 0);
        pad(&mut bytes[used..]);
    }
    bytes.extend(tail);
    bytes.resize(bytes.len().next_multiple_of(UNIT as usize), 0xFF);
    let lnum = core.io.layout().limits.main.end - 1;
    core.io.change(lnum, &bytes).unwrap();
    let leb = recover_leb(&mut core.io, lnum, 0, head)?;
    let again = crate::ubifs::scan::scan(&mut core.io, lnum, 0).expect("recovery has cleaned it");
    assert_eq!((again.nodes.len(), again.end), (leb.nodes.len(), leb.end));
    Ok((leb.nodes.len(), leb.end))
}

fn node(name: &'static [u8]) -> Vec<u8> {
    nodes(&mut fresh(), &[(name, Group::Last)])
}

#[test]
fn a_whole_leb_stays() {
    assert_eq!(recovered(&ALONE, &[], Some(Head::Base), UNIT), Ok((2, UNIT)));
    assert_eq!(recovered(&[], &[], Some(Head::Base), UNIT), Ok((0, 0)));
}

#[test]
fn a_torn_unit_goes() {
    let mut torn = node(b"three");
    torn[60] ^= 1;
    for head in [Some(Head::Base), Some(Head::Data), None] {
        assert_eq!(recovered(&ALONE, &torn, head, UNIT), Ok((2, UNIT)));
    }
    assert_eq!(recovered(&ALONE, &[0x55; 300], Some(Head::Base), UNIT), Ok((2, UNIT)));
    assert_eq!(recovered(&[], &[0x55; 300], Some(Head::Base), UNIT), Ok((0, 0)));
    // Erased bytes, followed by data in the same I/O unit.
    let mut late = vec![0xFF; 400];
    late[399] = 0;
    assert_eq!(recovered(&ALONE, &late, Some(Head::Base), UNIT), Ok((2, UNIT)));
}

#[test]
fn good_nodes_in_a_torn_unit_stay_but_not_of_the_garbage_collector() {
    let tail = [&node(b"three")[..], &[0x55; 300]].concat();
    assert_eq!(recovered(&ALONE, &tail, Some(Head::Data), UNIT), Ok((3, 2 * UNIT)));
    assert_eq!(recovered(&ALONE, &tail, Some(Head::Gc), UNIT), Ok((2, UNIT)));
}

#[test]
fn an_open_group_goes() {
    let open: [Written; 3] = [(b"one", Group::Last), (b"two", Group::Member), (b"tri", Group::Member)];
    assert_eq!(recovered(&open, &[], Some(Head::Base), UNIT), Ok((1, UNIT)));
    assert_eq!(recovered(&open, &[0x55; 20], Some(Head::Data), UNIT), Ok((1, UNIT)));
    assert_eq!(recovered(&open, &[], Some(Head::Gc), UNIT), Ok((3, UNIT)));
    assert_eq!(recovered(&open, &[], None, UNIT), Ok((3, UNIT)));
    let all: [Written; 2] = [(b"one", Group::Member), (b"two", Group::Member)];
    assert_eq!(recovered(&all, &[], Some(Head::Base), UNIT), Ok((0, 0)));
}

#[test]
fn damage_before_the_last_write_is_an_error() {
    let far = |tail: &[u8]| {
        let mut tail = tail.to_vec();
        tail.resize(UNIT as usize, 0xFF);
        tail.extend(node(b"four"));
        tail
    };
    let mut torn = node(b"three");
    torn[60] ^= 1;
    for tail in [far(&[0x55; 20]), far(&torn), far(&[])] {
        let error = recovered(&ALONE, &tail, Some(Head::Base), UNIT).unwrap_err();
        assert!(error.is_damage(), "{error}");
        // If writes are large enough, one write can contain all of it.
        assert!(recovered(&ALONE, &tail, Some(Head::Base), 4 * UNIT).is_ok());
    }
}

#[test]
fn a_damaged_node_may_be_as_long_as_its_header_says() {
    let mut core = fresh();
    let data = vec![7; 3000];
    let key = Key::data(70, 0).unwrap();
    let block = Block { key, size: 3000, compression: Compression::None, compressed_size: 0 };
    let mut long = Vec::new();
    core.io.append_node(&DataNode { block, data: &data }, Group::None, &mut long).unwrap();
    long[2900] ^= 1;
    assert_eq!(recovered(&ALONE, &long, Some(Head::Data), UNIT), Ok((2, UNIT)));
    let behind = [&long[..], &[0xFF; 1024], &[0; 8]].concat();
    assert!(recovered(&ALONE, &behind, Some(Head::Data), UNIT).is_err());
}

#[test]
fn what_was_committed_in_front_stays() {
    let mut core = fresh();
    let lnum = core.io.layout().limits.main.end - 1;
    let mut bytes = vec![0xAA; UNIT as usize];
    bytes.extend(nodes(&mut core, &ALONE));
    bytes.resize(2 * UNIT as usize, 0x55);
    core.io.change(lnum, &bytes).unwrap();
    let leb = recover_leb(&mut core.io, lnum, UNIT, Some(Head::Data)).unwrap();
    assert_eq!((leb.nodes.len(), leb.start, leb.end), (2, UNIT, 2 * UNIT));
    let flash = core.io.volume().leb(lnum).unwrap();
    assert_eq!(flash[..UNIT as usize + 128], bytes[..UNIT as usize + 128]);
    // Recovery drops the whole torn part and keeps the committed part.
    bytes.truncate(UNIT as usize);
    bytes.resize(2 * UNIT as usize, 0x55);
    core.io.change(lnum, &bytes).unwrap();
    let leb = recover_leb(&mut core.io, lnum, UNIT, Some(Head::Data)).unwrap();
    assert_eq!((leb.nodes.len(), leb.end), (0, UNIT));
    let flash = core.io.volume().leb(lnum).unwrap();
    assert!(flash[..UNIT as usize].iter().all(|&byte| byte == 0xAA));
    assert!(flash[UNIT as usize..].iter().all(|&byte| byte == 0xFF));
}

#[test]
fn only_the_last_leb_of_a_head_may_be_damaged() {
    let mut core = fresh();
    for name in 0..200u32 {
        create(&mut core, format!("file {name}").as_bytes());
    }
    core.sync_heads().unwrap();
    let buds: Vec<u32> = core.log.buds().keys().copied().collect();
    let last = core.io.buffer(Head::Base).lnum().unwrap();
    let end = core.io.buffer(Head::Base).position();
    assert!(buds.len() > 1 && end > UNIT);
    for lnum in buds {
        let mut volume = cut(&core);
        let at = if lnum == last { end - UNIT } else { LEB - UNIT };
        volume.damage(lnum, at + 30, 0xFF);
        let outcome = Core::mount(volume, &RECOVER);
        assert_eq!(outcome.is_ok(), lnum == last, "LEB {lnum} of head at {last}");
        if let Ok(mut core) = outcome {
            assert_eq!(core.check().unwrap(), []);
            assert!(find(&mut core, b"file 0").is_some() && find(&mut core, b"file 199").is_none());
        }
    }
}

#[test]
fn the_end_of_the_log_may_be_damaged() {
    let mut core = fresh();
    let log = core.log.tail();
    create(&mut core, b"a");
    core.sync_heads().unwrap();
    let head = core.log.head();
    let (number, _) = core.new_inode().unwrap();
    write_block(&mut core, number, 0, &[1; 100]);
    assert!(core.log.head().offset > head.offset, "a reference was added");
    let mut volume = core.io.volume().clone();
    volume.damage(log, head.offset + 30, 1);
    let mut core = mount(volume.clone(), &RECOVER);
    assert!(find(&mut core, b"a").is_some());
    // Damage before the last write is not caused by a power cut.
    volume.damage(log, 30, 1);
    assert!(refused(volume.clone(), &RECOVER).is_damage());
    let core = mount(volume, &MountOptions { forgiving: true, ..READ });
    assert!(!core.findings.notes.is_empty());
}
