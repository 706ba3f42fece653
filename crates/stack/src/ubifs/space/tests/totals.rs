//! Tests that the totals follow every change.

use proptest::prelude::*;

use super::super::{LebSpace, Space, SpaceTotals};
use super::support::{Random, Shape};
use crate::ubifs::layout::Layout;

/// Totals calculated from the rules, independently of the code under test.
pub(super) fn recount(space: &Space, layout: &Layout) -> SpaceTotals {
    let mut sums = SpaceTotals::default();
    let size = layout.leb_bytes();
    for lnum in layout.limits.main.clone() {
        let leb = space.get(lnum).unwrap();
        sums.free += u64::from(leb.free);
        sums.dirty += u64::from(leb.dirty);
        if leb.free == size {
            sums.empty_lebs += 1;
            sums.taken_empty_lebs += u32::from(leb.taken);
        }
        if leb.index {
            sums.index_lebs += 1;
            continue;
        }
        let gain = leb.free + leb.dirty;
        sums.used += u64::from(size - gain);
        if gain < layout.dead_bytes {
            sums.dead += u64::from(gain);
        } else if gain < layout.dark_bytes {
            sums.dark += u64::from(gain);
        } else if gain < layout.dark_bytes + 56 {
            sums.dark += u64::from(gain - 56);
        } else {
            sums.dark += u64::from(layout.dark_bytes);
        }
    }
    sums
}

/// Random LEB properties that the LPT can store, often at their limits.
pub(super) fn random_leb(random: &mut Random, layout: &Layout) -> LebSpace {
    let (size, unit) = (layout.leb_bytes(), layout.min_io_bytes());
    let edges = [0, layout.dead_bytes, layout.dark_bytes, layout.dark_bytes + 64, size];
    let near = |random: &mut Random| match random.below(3) {
        0 => edges[random.below(5) as usize],
        1 => edges[random.below(5) as usize].saturating_sub(8),
        _ => random.below(size + 1),
    };
    let free = near(random).min(size) / unit * unit;
    let dirty = near(random).min(size - free) / 8 * 8;
    let dirty = if random.below(4) == 0 { size - free } else { dirty };
    LebSpace { free, dirty, index: free < size && random.below(4) == 0, taken: random.below(5) == 0 }
}

#[test]
fn a_new_main_area_is_all_free_and_dark_once_per_leb() {
    let io = Shape::default().io();
    let space = Space::empty(&io);
    let dark = u64::from(4256u32.next_multiple_of(512));
    let expected =
        SpaceTotals { empty_lebs: 40, free: 40 * 15_872, dark: 40 * dark, ..SpaceTotals::default() };
    assert_eq!(space.totals(), expected);
}

#[test]
fn dead_dark_and_used_bytes_of_a_leb() {
    let io = Shape { min_io_bytes: 8, ..Shape::default() }.io();
    let mut space = Space::empty(&io);
    let lnum = io.layout().limits.main.start;
    let before = space.totals();
    let mut share = |free, dirty| {
        space.set(lnum, LebSpace { free, dirty, ..LebSpace::default() }).unwrap();
        let now = space.totals();
        (now.used - before.used, now.dead - before.dead, now.dark + 4256 - before.dark)
    };
    assert_eq!(share(0, 0), (15_872, 0, 0));
    assert_eq!(share(40, 8), (15_824, 48, 0));
    assert_eq!(share(48, 8), (15_816, 0, 56));
    assert_eq!(share(0, 4248), (11_624, 0, 4248));
    assert_eq!(share(4000, 256), (11_616, 0, 4200));
    assert_eq!(share(4000, 304), (11_568, 0, 4248));
    assert_eq!(share(4000, 312), (11_560, 0, 4256));
}

#[test]
fn impossible_properties_are_refused_and_change_nothing() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let main = io.layout().limits.main.clone();
    let before = space.totals();
    assert!(space.set(main.start - 1, LebSpace::default()).is_err());
    assert!(space.set(main.end, LebSpace::default()).is_err());
    assert!(space.get(u32::MAX).is_err());
    assert!(space.add_dirt(main.start, 8).is_err());
    assert!(space.set_free(main.start, u32::MAX, u32::MAX).is_err());
    let full = LebSpace { free: 8192, dirty: 8192, ..LebSpace::default() };
    assert!(space.set(main.start, full).is_err());
    assert_eq!(space.totals(), before);
}

#[test]
fn dirt_is_counted_in_multiples_of_8() {
    let io = Shape::default().io();
    let mut space = Space::empty(&io);
    let lnum = io.layout().limits.main.start;
    space.set_free(lnum, 512, 3).unwrap();
    space.add_dirt(lnum, 161).unwrap();
    assert_eq!(space.get(lnum).unwrap().dirty, 176);
}

proptest! {
    #[test]
    fn sums_are_what_a_recount_gives(seed in any::<u64>(), big in any::<bool>()) {
        let io = Shape { big, ..Shape::default() }.io();
        let layout = std::sync::Arc::clone(io.layout());
        let mut space = Space::empty(&io);
        let mut random = Random::new(seed);
        for _ in 0..200 {
            let lnum = layout.limits.main.start + random.below(layout.limits.main_lebs());
            let before = space.get(lnum).unwrap();
            match random.below(3) {
                0 => { let _ = space.add_dirt(lnum, random.below(5000)); }
                1 => { let _ = space.set_free(lnum, before.free / 2 / 512 * 512, random.below(512)); }
                _ => space.set(lnum, random_leb(&mut random, &layout)).unwrap(),
            }
            prop_assert_eq!(space.totals(), recount(&space, &layout));
        }
    }
}
