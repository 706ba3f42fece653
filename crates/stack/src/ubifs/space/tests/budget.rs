//! Tests of budgets against figures calculated by hand and by a second method.

use proptest::prelude::*;

use super::super::{BudgetRequest, Cost, LebSpace, Space};
use super::support::{Random, Shape};
use super::totals::random_leb;

const SIZE: u64 = 15_872;

/// Size of an index node with 8 children, bytes: 28 + 8 * 20.
const INDEX_NODE: u64 = 192;

const REQUEST: BudgetRequest = BudgetRequest {
    new_blocks: 1,
    changed_blocks: 0,
    new_inodes: 1,
    new_inode_bytes: 5,
    changed_inodes: 2,
    changed_inode_bytes: 16,
    new_entries: 1,
    changed_entries: 1,
};

#[test]
fn a_request_costs_its_largest_nodes() {
    let io = Shape::default().io();
    let cost = REQUEST.cost(io.layout());
    let expected = Cost { index: 3 * INDEX_NODE, data: 4144 + 160 + 312 + 8, dirty: 2 * 160 + 312 + 16 };
    assert_eq!(cost, expected);
    assert!(BudgetRequest::default().cost(io.layout()).is_nothing());
}

#[test]
fn the_index_is_kept_three_times_its_size_and_a_leb() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    assert_eq!(space.min_index_lebs(), 2);
    space.index_committed(SIZE - INDEX_NODE);
    assert_eq!(space.min_index_lebs(), 3 + 1);
    space.index_committed(SIZE - INDEX_NODE + 8);
    assert_eq!(space.min_index_lebs(), 4 + 1);
    space.replayed(2);
    assert_eq!(space.min_index_lebs(), 4 + 1);
    space.replayed(200);
    assert_eq!(space.min_index_lebs(), (3_u32 * (15_688 + 200 * 192)).div_ceil(15_680) + 1);
    space.index_committed(SIZE);
    assert_eq!(space.min_index_lebs(), 4 + 1);
}

#[test]
fn what_is_available_leaves_room_for_index_collector_heads_and_deletions() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let main = io.layout().limits.main.clone();
    // 40 LEBs with 4608 dark bytes each. Reserved LEBs: 2 for the index, 1 for the garbage collector, 3 for
    // heads, 1 for deletions.
    assert_eq!(space.available(2), 40 * SIZE - 7 * SIZE - 40 * 4608);
    space.set(main.start, LebSpace { free: 0, dirty: 504, ..LebSpace::default() }).unwrap();
    assert_eq!(space.available(2), 40 * SIZE - 7 * SIZE - 39 * 4608 - (SIZE - 504) - 504);
    for lnum in main.start..main.start + 5 {
        space.set(lnum, LebSpace { index: true, ..LebSpace::default() }).unwrap();
    }
    // Three index LEBs beyond the reserved ones: their bytes count as available, but their dark bytes do not.
    assert_eq!(space.available(2), 40 * SIZE - 7 * SIZE - 35 * 4608 - 3 * 4608);
    assert_eq!(space.available(1000), 0);
}

#[test]
fn promises_end_where_space_ends_and_come_back() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let block = BudgetRequest { new_blocks: 1, ..BudgetRequest::default() };
    let before = space.free_bytes();
    let mut costs = Vec::new();
    while let Some(cost) = space.promise(&block, false) {
        costs.push(cost);
    }
    assert!(costs.len() > 10);
    let promised = space.budget.promised;
    assert_eq!(promised.data, costs.len() as u64 * 4144);
    // One more request would not fit next to an index that is one node larger.
    let more = promised.index + INDEX_NODE;
    let lebs = u32::try_from((3 * more).div_ceil(SIZE - INDEX_NODE)).unwrap() + 1;
    assert!(space.available(lebs) <= promised.data + 4144);
    assert_eq!(space.promise(&BudgetRequest::default(), false), Some(Cost::default()));
    for cost in costs {
        space.withdraw(cost);
    }
    assert_eq!(space.free_bytes(), before);
    assert_eq!(space.budget.promised, Cost::default());
}

#[test]
fn what_was_written_counts_as_index_until_it_is_committed() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let entry = BudgetRequest { new_entries: 1, ..BudgetRequest::default() };
    let costs: Vec<Cost> = (0..60).map(|_| space.promise(&entry, false).unwrap()).collect();
    let kept = space.min_index_lebs();
    assert_eq!(kept, 4);
    costs.into_iter().for_each(|cost| space.release(cost));
    assert_eq!(space.min_index_lebs(), kept);
    assert_eq!(space.budget.promised, Cost::default());
    space.index_committed(200);
    assert_eq!(space.min_index_lebs(), 2);
}

#[test]
fn reserved_space_is_for_the_privileged() {
    let shape = Shape::default();
    let mut superblock = shape.superblock();
    superblock.reserved_bytes = 20 * SIZE;
    let io = super::support::over(&superblock, super::support::empty_lebs(superblock.leb_count));
    let mut space = Space::empty(&io);
    let block = BudgetRequest { new_blocks: 1, ..BudgetRequest::default() };
    while space.promise(&block, false).is_some() {}
    let ordinary = space.budget.promised.data;
    while space.promise(&block, true).is_some() {}
    assert!(space.budget.promised.data > ordinary + 10 * SIZE);
    let report = Space::empty(&io).report(false);
    assert!(report.available_blocks + 60 < report.free_blocks);
}

#[test]
fn the_last_byte_is_for_the_privileged() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let rest = u32::try_from(space.available(2)).unwrap() - 160;
    let all = BudgetRequest { changed_inodes: 1, changed_inode_bytes: rest, ..BudgetRequest::default() };
    assert_eq!(space.promise(&all, false), None);
    let more = BudgetRequest { changed_inode_bytes: rest + 8, ..all };
    assert_eq!(space.promise(&more, true), None);
    assert!(space.promise(&all, true).is_some());
    assert_eq!(space.free_bytes(), 38 * (4608 - 3440) * 4096 / (4144 + INDEX_NODE));
}

#[test]
fn no_promise_that_takes_the_empty_lebs_of_the_index() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    // Much space is free, but no LEB is empty.
    for lnum in io.layout().limits.main.clone() {
        space.set(lnum, LebSpace { free: 15_360, ..LebSpace::default() }).unwrap();
    }
    let entry = BudgetRequest { changed_entries: 1, ..BudgetRequest::default() };
    assert!(space.available(space.min_index_lebs()) > 100_000);
    assert_eq!(space.promise(&entry, true), None);
    for lnum in io.layout().limits.main.clone().take(2) {
        space.set(lnum, LebSpace { free: 15_872, ..LebSpace::default() }).unwrap();
    }
    assert!(space.promise(&entry, true).is_some());
}

/// Checks the figures of `df`, calculated as in `ubifs_reported_space` and its callers.
#[test]
fn a_new_filesystem_reports_what_linux_does() {
    let io = Shape::default().io();
    let space = Space::empty(&io);
    let reported = |bytes: u64| bytes * 4096 / (4144 + 3 * INDEX_NODE / 3);
    // In each LEB, 15872 % 4144 = 3440 bytes stay unused.
    let report = space.report(false);
    assert_eq!(report.blocks, reported((40 - 7) * (SIZE - 3440)) / 4096);
    let available = 40 * SIZE - 7 * SIZE - 40 * 4608;
    let better = (40 - 2) * (4608 - 3440);
    assert_eq!(space.free_bytes(), reported(available + better));
    assert_eq!(report.free_blocks, space.free_bytes() / 4096);
    assert_eq!(report.available_blocks, report.free_blocks);
}

/// Checks that an empty filesystem is free except for the LEBs of the garbage collector, of deletions and of
/// the index. The first write ends this.
#[test]
fn an_empty_filesystem_of_linux_2_6_27_is_free_as_a_whole() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let total = (40 - 4) * (SIZE - 3440) * 4096 / (4144 + INDEX_NODE) / 4096;
    let report = space.report(true);
    assert_eq!((report.blocks, report.free_blocks), (total, total));
    let inode = BudgetRequest { new_inodes: 1, ..BudgetRequest::default() };
    space.promise(&inode, true).unwrap();
    assert_eq!(space.report(true).free_blocks, space.report(false).free_blocks);
}

proptest! {
    #[test]
    fn promises_are_never_more_than_is_there(seed in any::<u64>()) {
        let io = Shape { main_lebs: 60, ..Shape::default() }.io();
        let mut space = Space::empty(&io);
        let mut random = Random::new(seed);
        for lnum in io.layout().limits.main.clone() {
            if random.below(2) == 0 {
                space.set(lnum, random_leb(&mut random, io.layout())).unwrap();
            }
        }
        space.index_committed(u64::from(random.below(60_000)) & !7);
        let mut costs = Vec::new();
        for _ in 0..300 {
            if random.below(3) == 0 {
                let at = random.below(u32::try_from(costs.len()).unwrap());
                if (at as usize) < costs.len() {
                    space.release(costs.swap_remove(at as usize));
                }
                continue;
            }
            let request = BudgetRequest {
                new_blocks: random.below(2),
                changed_blocks: random.below(2),
                new_inodes: random.below(2),
                changed_inodes: random.below(5),
                new_entries: random.below(2),
                changed_entries: random.below(2),
                ..BudgetRequest::default()
            };
            if let Some(cost) = space.promise(&request, false) {
                costs.push(cost);
                let promised = space.budget.promised;
                if !cost.is_nothing() {
                    prop_assert!(promised.data + promised.dirty <= space.available(space.min_index_lebs()));
                }
            }
            let sum = costs.iter().fold((0, 0, 0), |sum: (u64, u64, u64), cost| {
                (sum.0 + cost.index, sum.1 + cost.data, sum.2 + cost.dirty)
            });
            let promised = space.budget.promised;
            prop_assert_eq!((promised.index, promised.data, promised.dirty), sum);
            let _ = space.report(false);
        }
    }
}
