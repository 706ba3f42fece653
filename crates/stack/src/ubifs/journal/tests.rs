//! Tests of the log.

use super::super::io::Io;
use super::super::layout::Head;
use super::super::scan::scan;
use super::super::testing::{TestVolume, blank};
use super::*;
use floatgate_media::ubifs::{LOG_LEB, Node};

const LEB: u32 = 16 * 1024;

/// Creates a filesystem with this number of log LEBs, and its log with a limit of this number of
/// journal LEBs.
fn log(log_lebs: u32, journal_lebs: u32) -> (Io<TestVolume>, Log) {
    // The journal is large enough that the log gets the requested size.
    let io = blank(200, LEB, 2048, 2048, (log_lebs - 1) * 8);
    let mut log = Log::new(io.layout(), LOG_LEB);
    log.limit(io.layout(), u64::from(journal_lebs) * u64::from(LEB));
    (io, log)
}

/// Nodes in a log LEB: commit numbers, and LEBs of references.
fn contents(io: &mut Io<TestVolume>, lnum: u32) -> Vec<(char, u64)> {
    let leb = scan(io, lnum, 0).unwrap();
    leb.nodes
        .iter()
        .map(|node| match leb.frame(node).unwrap().node().unwrap() {
            Node::CommitStart(node) => ('c', node.commit),
            Node::Reference(node) => ('r', u64::from(node.lnum)),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn bud(start: u32) -> Bud {
    Bud { head: Head::Base, start }
}

#[test]
fn a_reference_is_written_after_its_leb_is_erased() {
    let (mut io, mut log) = log(4, 30);
    let main = io.layout().limits.main.start;
    log.start_commit(&mut io, 1).unwrap();
    io.change(main + 1, &[0; 2048]).unwrap();
    assert_eq!(log.reference(&mut io, main, bud(0)), Ok(Room::Ready(())));
    assert_eq!(log.reference(&mut io, main + 1, bud(2048)), Ok(Room::Ready(())));
    assert!(io.is_mapped(main).unwrap());
    assert_eq!(contents(&mut io, LOG_LEB), [('c', 1), ('r', u64::from(main)), ('r', u64::from(main) + 1)]);
    assert_eq!(log.bytes(), u64::from(2 * LEB - 2048));
    assert_eq!(log.head(), LogPosition { lnum: LOG_LEB, offset: 3 * 2048 });
}

#[test]
fn the_log_is_a_ring_that_always_has_room_for_a_commit() {
    let (mut io, mut log) = log(4, 1000);
    let (main, log_end) = (io.layout().limits.main.clone(), io.layout().limits.log.end);
    assert_eq!(log_end, 7);
    for commit in 1..20 {
        log.start_commit(&mut io, commit).unwrap();
        let old: Vec<u32> = log.end_commit(&mut io).unwrap();
        assert_eq!(old.len(), if commit == 1 { 0 } else { 23 });
        let mut count = 0;
        for lnum in main.clone() {
            match log.reference(&mut io, lnum, bud(0)).unwrap() {
                Room::Ready(()) => count += 1,
                room => {
                    assert_eq!(room, Room::CommitFirst);
                    break;
                }
            }
        }
        // Three LEBs of 8 writes each, minus the commit start; the fourth LEB stays free for the
        // commit.
        assert_eq!(count, 23);
        main.clone().for_each(|lnum| io.unmap(lnum).unwrap());
    }
}

#[test]
fn the_journal_has_a_limit() {
    let (mut io, mut log) = log(4, 7);
    let main = io.layout().limits.main.start;
    log.start_commit(&mut io, 1).unwrap();
    let mut due = None;
    for count in 0..7 {
        if log.is_commit_due() && due.is_none() {
            due = Some(count);
        }
        assert_eq!(log.reference(&mut io, main + count, bud(0)), Ok(Room::Ready(())));
    }
    assert_eq!(log.reference(&mut io, main + 7, bud(0)), Ok(Room::CommitFirst));
    assert_eq!(log.reference(&mut io, main + 7, bud(LEB - 2048)), Ok(Room::CommitFirst));
    assert_eq!(due, Some(6));
}

#[test]
fn a_commit_keeps_what_heads_go_on_writing() {
    let (mut io, mut log) = log(4, 30);
    let main = io.layout().limits.main.start;
    log.start_commit(&mut io, 1).unwrap();
    log.end_commit(&mut io).unwrap();
    for lnum in main..main + 3 {
        assert_eq!(log.reference(&mut io, lnum, bud(0)), Ok(Room::Ready(())));
    }
    io.seek_head(Head::Base, main + 1, 4096);
    // A head detaches from a full LEB.
    io.seek_head(Head::Data, main + 2, LEB);
    log.start_commit(&mut io, 2).unwrap();
    assert_eq!(log.buds().get(&(main + 1)), Some(&bud(4096)));
    assert_eq!((log.buds().len(), log.bytes()), (1, u64::from(3 * LEB)));
    assert_eq!(contents(&mut io, LOG_LEB + 1), [('c', 2), ('r', u64::from(main) + 1)]);
    assert!(io.is_mapped(LOG_LEB).unwrap());
    assert_eq!(log.end_commit(&mut io).unwrap(), [main, main + 2]);
    assert!(!io.is_mapped(LOG_LEB).unwrap());
    assert_eq!((log.bytes(), log.tail()), (u64::from(LEB - 4096), LOG_LEB + 1));
}

#[test]
fn nothing_is_logged_before_the_first_commit_of_a_new_filesystem() {
    let mut io = blank(200, LEB, 2048, 2048, 4);
    let mut log = Log::deferred(io.layout());
    let main = io.layout().limits.main.clone();
    for lnum in main {
        assert_eq!(log.reference(&mut io, lnum, bud(0)), Ok(Room::Ready(())));
        assert!(!log.is_commit_due());
    }
    assert_eq!(io.volume().operations, 0);
    log.start_commit(&mut io, 1).unwrap();
    log.end_commit(&mut io).unwrap();
    assert_eq!(contents(&mut io, LOG_LEB), [('c', 1)]);
    assert_eq!((log.buds().len(), log.bytes(), log.is_deferred()), (0, 0, false));
}

#[test]
fn a_log_full_of_commits_that_were_cut_off_is_consolidated() {
    let (mut io, mut log) = log(4, 1000);
    let main = io.layout().limits.main.start;
    log.start_commit(&mut io, 1).unwrap();
    log.end_commit(&mut io).unwrap();
    for lnum in main..main + 5 {
        assert_eq!(log.reference(&mut io, lnum, bud(0)), Ok(Room::Ready(())));
    }
    io.seek_head(Head::Base, main + 4, 2048);
    while !log.is_full(io.layout()) {
        log.start_commit(&mut io, 2).unwrap();
    }
    log.consolidate(&mut io).unwrap();
    let expected: Vec<(char, u64)> =
        core::iter::once(('c', 1)).chain((0..5).map(|at| ('r', u64::from(main) + at))).collect();
    assert_eq!(contents(&mut io, LOG_LEB), expected);
    assert_eq!(log.head(), LogPosition { lnum: LOG_LEB, offset: 2048 });
    assert!(!io.is_mapped(LOG_LEB + 1).unwrap() && !log.is_full(io.layout()));
    log.start_commit(&mut io, 2).unwrap();
}
