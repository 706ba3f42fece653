//! Tests that the right LEB is found.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::{LebSpace, Space};
use super::support::{Chip, Random, Shape};
use super::totals::{random_leb, recount};
use crate::ubifs::io::Io;

const SIZE: u32 = 15_872;

/// Creates a main area whose first LEBs are given, and whose other LEBs are full. The index needs
/// almost no space.
fn with(lebs: &[LebSpace]) -> (Io<Chip>, Space, u32) {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let main = io.layout().limits.main.clone();
    for (position, lnum) in main.clone().enumerate() {
        space.set(lnum, lebs.get(position).copied().unwrap_or_default()).unwrap();
    }
    (io, space, main.start)
}

const fn data(free: u32, dirty: u32) -> LebSpace {
    LebSpace { free, dirty, index: false, taken: false }
}

const fn index(free: u32, dirty: u32) -> LebSpace {
    LebSpace { index: true, ..data(free, dirty) }
}

const EMPTY: LebSpace = data(SIZE, 0);
const FREEABLE: LebSpace = data(512, SIZE - 512);

fn taken(leb: LebSpace) -> LebSpace {
    LebSpace { taken: true, ..leb }
}

#[test]
fn a_head_gets_an_empty_leb_or_with_squeeze_the_one_with_most_room() {
    let lebs = [index(0, 0), index(0, 0), index(0, 0), data(2048, 0), data(4096, 800), EMPTY];
    let (mut io, space, first) = with(&lebs);
    let find = |io: &mut Io<Chip>, bytes, squeeze| space.clone().find_free(io, bytes, squeeze).unwrap();
    assert_eq!(find(&mut io, 1000, false), Some((first + 5, 0)));
    assert_eq!(find(&mut io, 1000, true), Some((first + 4, SIZE - 4096)));
    assert_eq!(find(&mut io, 5000, true), Some((first + 5, 0)));
}

#[test]
fn what_is_found_is_taken_and_not_found_again() {
    let (mut io, mut space, first) = with(&[index(0, 0), index(0, 0), index(0, 0), data(2048, 0), EMPTY]);
    assert_eq!(space.find_free(&mut io, 1000, false).unwrap(), Some((first + 4, 0)));
    assert_eq!(space.get(first + 4).unwrap(), taken(EMPTY));
    assert_eq!(space.totals().taken_empty_lebs, 1);
    assert_eq!(space.find_free(&mut io, 1000, false).unwrap(), Some((first + 3, SIZE - 2048)));
    assert_eq!(space.find_free(&mut io, 1000, false).unwrap(), None);
    space.set_taken(first + 3, false).unwrap();
    assert_eq!(space.find_free(&mut io, 1000, true).unwrap(), Some((first + 3, SIZE - 2048)));
}

#[test]
fn lebs_with_more_dirt_than_room_are_last_and_freeable_or_index_lebs_never_for_a_head() {
    let (mut io, mut space, first) =
        with(&[index(8192, 0), index(0, 0), FREEABLE, data(2048, 9000), data(1536, 0)]);
    assert_eq!(space.find_free(&mut io, 1000, false).unwrap(), Some((first + 4, SIZE - 1536)));
    assert_eq!(space.find_free(&mut io, 1000, false).unwrap(), Some((first + 3, SIZE - 2048)));
    assert_eq!(space.find_free(&mut io, 1, false).unwrap(), None);
}

#[test]
fn an_empty_leb_is_kept_for_the_index_while_the_index_may_need_it() {
    // At least two LEBs are reserved for the index, which has one.
    let (mut io, mut space, first) = with(&[index(0, 0), EMPTY, data(512, 0)]);
    assert_eq!(space.min_index_lebs(), 2);
    assert_eq!(space.find_free(&mut io, 600, false).unwrap(), None);
    assert_eq!(space.find_free(&mut io, 500, false).unwrap(), Some((first + 2, SIZE - 512)));
    assert_eq!(space.find_dirty(0, true).unwrap(), None);
    assert_eq!(space.find_free_for_index(&mut io).unwrap(), Some(first + 1));
    assert_eq!(space.get(first + 1).unwrap(), taken(index(SIZE, 0)));
    assert_eq!(space.totals().index_lebs, 2);
}

#[test]
fn an_empty_leb_is_unmapped_when_it_is_found() {
    let (mut io, mut space, first) = with(&[index(0, 0), index(0, 0), EMPTY, FREEABLE]);
    for lnum in [first + 2, first + 3] {
        io.change(lnum, &[0; 512]).unwrap();
    }
    space.find_free(&mut io, 1000, false).unwrap();
    assert_eq!(io.volume().lebs[first as usize + 2], None);
    assert_eq!(space.find_free_for_index(&mut io).unwrap(), Some(first + 3));
    assert_eq!(io.volume().lebs[first as usize + 3], None);
}

#[test]
fn the_collector_gets_the_leb_with_most_to_gain() {
    let lebs = [data(1024, 4000), data(0, 9000), data(4096, 4800), taken(data(0, 12_000)), data(8192, 0)];
    let (_, mut space, first) = with(&lebs);
    let mut find = |bytes| space.find_dirty(bytes, false).unwrap().map(|(lnum, _)| lnum - first);
    assert_eq!(find(512), Some(1));
    assert_eq!(find(512), Some(2));
    assert_eq!(find(6000), None);
    assert_eq!(find(512), Some(0));
    // Free space alone is not worth collecting.
    assert_eq!(find(512), None);
}

#[test]
fn the_collector_takes_less_than_half_dirty_lebs_at_last_and_too_clean_ones_never() {
    let (_, mut space, first) = with(&[data(8192, 504), data(8192, 512), data(4096, 512), index(0, 504)]);
    let mut find = || space.find_dirty(8, false).unwrap().map(|(lnum, leb)| (lnum - first, leb));
    assert_eq!(find(), Some((1, taken(data(8192, 512)))));
    assert_eq!(find(), Some((2, taken(data(4096, 512)))));
    assert_eq!(find(), None);
}

#[test]
fn the_collector_may_ask_for_what_needs_no_collecting() {
    let (_, mut space, first) = with(&[index(0, 0), index(0, 0), data(0, 9000), FREEABLE, EMPTY]);
    let mut find = |pick_free| space.find_dirty(512, pick_free).unwrap().map(|(lnum, _)| lnum - first);
    assert_eq!(find(true), Some(4));
    assert_eq!(find(true), Some(3));
    assert_eq!(find(true), Some(2));
    assert_eq!(find(true), None);
}

#[test]
fn an_index_larger_than_it_need_be_is_collected() {
    let lebs = [index(0, 9000), index(0, 7000), index(0, 0), data(0, 8500)];
    let (_, mut space, first) = with(&lebs);
    assert_eq!(space.find_dirty(512, false).unwrap().map(|(lnum, _)| lnum - first), Some(0));
    assert_eq!(space.find_dirty(512, false).unwrap().map(|(lnum, _)| lnum - first), Some(3));
    // An index LEB with less than half to gain is left to the gap writer.
    assert_eq!(space.find_dirty(512, false).unwrap(), None);
    let (_, mut space, first) = with(&lebs);
    space.index_committed(15_872);
    assert_eq!(space.min_index_lebs(), 5);
    assert_eq!(space.find_dirty(512, false).unwrap().map(|(lnum, _)| lnum - first), Some(3));
    let (_, mut space, first) = with(&lebs);
    assert_eq!(space.find_dirty_data(512).unwrap().map(|(lnum, _)| lnum - first), Some(3));
}

#[test]
fn a_collected_index_leb_is_free_only_after_the_commit() {
    let (mut io, mut space, first) = with(&[index(0, 12_000), index(0, SIZE), index(0, 0), index(0, 0)]);
    io.change(first, &[1; 512]).unwrap();
    io.change(first + 1, &[1; 512]).unwrap();
    let (lnum, _) = space.find_dirty(512, false).unwrap().unwrap();
    assert_eq!(lnum, first);
    space.leave_index(lnum).unwrap();
    assert!(space.leave_index(lnum).is_err());
    space.start_commit(&mut io).unwrap();
    assert_eq!(space.totals().index_lebs, 2);
    assert_eq!(space.totals().taken_empty_lebs, 2);
    assert_eq!(space.reusable_lebs(), 2);
    assert_eq!(space.find_free(&mut io, 8, false).unwrap(), None);
    assert_eq!(space.find_free_for_index(&mut io).unwrap(), None);
    assert!(io.volume().lebs[first as usize].is_some());
    space.commit_done(&mut io).unwrap();
    assert_eq!(io.volume().lebs[first as usize], None);
    assert_eq!(io.volume().lebs[first as usize + 1], None);
    assert_eq!(space.totals().taken_empty_lebs, 0);
    assert_eq!(space.find_free(&mut io, 8, false).unwrap(), Some((first, 0)));
}

#[test]
fn outdated_data_lebs_are_free_when_a_commit_begins() {
    let (mut io, mut space, first) = with(&[index(0, 0), index(0, 0), FREEABLE, taken(FREEABLE)]);
    io.change(first + 2, &[1; 512]).unwrap();
    space.start_commit(&mut io).unwrap();
    assert_eq!(io.volume().lebs[first as usize + 2], None);
    assert_eq!(space.get(first + 2).unwrap(), EMPTY);
    assert_eq!(space.get(first + 3).unwrap(), taken(FREEABLE));
}

#[test]
fn gaps_are_written_first_where_the_last_commit_left_most() {
    let (mut io, mut space, first) = with(&[index(0, 900), index(0, 3000), index(512, 0), index(0, 0)]);
    space.commit_done(&mut io).unwrap();
    // The LEB became obsolete after the commit, so the index on flash still needs it.
    space.set(first, index(0, 9000)).unwrap();
    space.set(first + 3, index(0, 800)).unwrap();
    let mut find = || space.find_dirty_index().unwrap().map(|lnum| lnum - first);
    assert_eq!([find(), find(), find(), find(), find()], [Some(1), Some(0), Some(2), Some(3), None]);
}

#[test]
fn gaps_are_written_at_last_in_lebs_that_leave_the_index() {
    let (mut io, mut space, first) = with(&[index(0, 12_000), index(0, 0), index(0, 0)]);
    let (lnum, _) = space.find_dirty(512, false).unwrap().unwrap();
    space.leave_index(lnum).unwrap();
    assert_eq!(space.find_dirty_index().unwrap(), Some(first));
    assert_eq!(space.get(first).unwrap(), taken(index(SIZE, 0)));
    assert_eq!(space.find_dirty_index().unwrap(), None);
    // The LEB stays in the index.
    space.commit_done(&mut io).unwrap();
    assert!(space.get(first).unwrap().taken);
}

proptest! {
    #[test]
    fn whatever_is_found_fits_and_the_sums_stay_right(seed in any::<u64>()) {
        let mut io = Shape::default().io();
        let layout = Arc::clone(io.layout());
        let mut space = Space::empty(&io);
        let mut random = Random::new(seed);
        for lnum in layout.limits.main.clone() {
            space.set(lnum, random_leb(&mut random, &layout)).unwrap();
        }
        for _ in 0..60 {
            let bytes = random.below(SIZE);
            let before = space.clone();
            let mut found = None;
            match random.below(6) {
                0 => {
                    if let Some((lnum, offset)) = space.find_free(&mut io, bytes, random.below(2) == 0).unwrap() {
                        let leb = before.get(lnum).unwrap();
                        prop_assert!(!leb.index && leb.free >= bytes && offset == SIZE - leb.free);
                        found = Some(lnum);
                    }
                }
                1 => {
                    found = space.find_free_for_index(&mut io).unwrap();
                    if let Some(lnum) = found {
                        let leb = before.get(lnum).unwrap();
                        prop_assert!(!leb.index && leb.free + leb.dirty == SIZE);
                    }
                }
                2 => {
                    let pick_free = random.below(2) == 0;
                    if let Some((lnum, leb)) = space.find_dirty(bytes, pick_free).unwrap() {
                        let old = before.get(lnum).unwrap();
                        let reusable = !old.index && old.free + old.dirty == SIZE;
                        // The index never continues in a LEB that it has left, so the free space of
                        // such a LEB can be gained, too.
                        let worth = leb.index || leb.dirty >= layout.dead_bytes;
                        let worth = worth && leb.free + leb.dirty >= bytes;
                        let right = if reusable { pick_free } else { worth };
                        prop_assert!(right, "{:?}", leb);
                        found = Some(lnum);
                    }
                }
                3 => {
                    if let Some(lnum) = space.find_dirty_index().unwrap() {
                        prop_assert!(space.get(lnum).unwrap().index);
                        space.set_taken(lnum, false).unwrap();
                    }
                }
                4 => space.start_commit(&mut io).unwrap(),
                _ => space.commit_done(&mut io).unwrap(),
            }
            if let Some(lnum) = found {
                prop_assert!(!before.get(lnum).unwrap().taken && space.get(lnum).unwrap().taken);
                let leb = random_leb(&mut random, &layout);
                space.set(lnum, leb).unwrap();
            }
            prop_assert_eq!(space.totals(), recount(&space, &layout));
        }
    }
}
