//! Tests of the LPT on flash: a committed tree reads back equal, and Linux's own checks pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::ubifs::lpt::{Geometry, Kind, Ltab, Nnode, NodePos};
use floatgate_media::ubifs::{Frame, Master, Node};
use proptest::prelude::*;

use super::super::{LebSpace, Space, check_lpt};
use super::support::{Chip, Random, Shape, empty_lebs, new_master, over};
use super::totals::random_leb;
use crate::ubifs::io::Io;
use crate::ubifs::layout::Layout;

fn lebs(space: &Space, layout: &Layout) -> Vec<LebSpace> {
    let lebs = layout.limits.main.clone().map(|lnum| space.get(lnum).unwrap());
    lebs.map(|leb| LebSpace { taken: false, ..leb }).collect()
}

/// Creates a new filesystem and writes its first LPT to flash.
fn format(shape: Shape) -> (Io<Chip>, Space, Master) {
    let mut io = shape.io();
    let mut space = Space::empty(&io);
    let mut master = new_master();
    commit(&mut io, &mut space, &mut master);
    (io, space, master)
}

fn commit(io: &mut Io<Chip>, space: &mut Space, master: &mut Master) {
    space.commit(io, master).unwrap();
    space.commit_done(io).unwrap();
}

fn change_some(space: &mut Space, layout: &Layout, random: &mut Random, times: u32) {
    for _ in 0..times {
        let lnum = layout.limits.main.start + random.below(layout.limits.main_lebs());
        space.set(lnum, random_leb(random, layout)).unwrap();
    }
}

/// Kinds of nodes by LEB and offset.
type Nodes = BTreeMap<(u32, u32), Kind>;

/// Collects the positions of all nodes that are reachable from the root.
fn walk(chip: &Chip, geometry: &Geometry, place: NodePos, level: u32, out: &mut Nodes) {
    let kind = if level == 0 { Kind::Pnode } else { Kind::Nnode };
    out.insert((place.lnum, place.offset), kind);
    if level == 0 {
        return;
    }
    let leb = chip.lebs[place.lnum as usize].as_ref().unwrap();
    let nnode = Nnode::parse(&leb[place.offset as usize..], geometry).unwrap();
    for child in nnode.children.into_iter().flatten() {
        walk(chip, geometry, child, level - 1, out);
    }
}

/// Checks the rule of Linux's `dbg_check_ltab`: each LEB, read node by node, has the free and dirty bytes of the
/// ltab.
fn judge(chip: &Chip, layout: &Layout, master: &Master) {
    let geometry = &layout.limits.lpt_geometry;
    let root = NodePos { lnum: master.lpt_lnum, offset: master.lpt_offset };
    let ltab = NodePos { lnum: master.ltab_lnum, offset: master.ltab_offset };
    let lsave = NodePos { lnum: master.lsave_lnum, offset: master.lsave_offset };
    let mut live = Nodes::from([((ltab.lnum, ltab.offset), Kind::Ltab)]);
    walk(chip, geometry, root, geometry.height(), &mut live);
    if geometry.is_big() {
        live.insert((lsave.lnum, lsave.offset), Kind::Lsave);
    }
    let table = chip.lebs[ltab.lnum as usize].as_ref().unwrap();
    let table = Ltab::parse(&table[ltab.offset as usize..], geometry).unwrap();
    let erased = vec![0xFF; layout.leb_bytes() as usize];
    for (lnum, expected) in layout.limits.lpt.clone().zip(table.lebs()) {
        let leb = chip.lebs[lnum as usize].as_ref().unwrap_or(&erased);
        let (mut at, mut dirty) = (0, 0);
        while at < leb.len() {
            let place = (lnum, u32::try_from(at).unwrap());
            if let Some(kind) = Kind::find(&leb[at..], geometry) {
                at += kind.bytes(geometry);
                if live.get(&place) != Some(&kind) {
                    dirty += kind.bytes(geometry);
                }
                continue;
            }
            let next = at.next_multiple_of(layout.min_io_bytes() as usize);
            if next == at {
                break;
            }
            dirty += next - at;
            at = next;
        }
        assert!(leb[at..].iter().all(|&byte| byte == 0xFF), "LEB {lnum} from {at}");
        assert_eq!((leb.len() - at, dirty), (expected.free as usize, expected.dirty as usize), "LEB {lnum}");
    }
    let head = chip.lebs[master.lpt_head_lnum as usize].as_ref().unwrap_or(&erased);
    assert!(head[master.lpt_head_offset as usize..].iter().all(|&byte| byte == 0xFF));
}

/// Checks everything that must hold after a commit.
fn check(io: &mut Io<Chip>, space: &Space, master: &Master) {
    let layout = Arc::clone(io.layout());
    judge(io.volume(), &layout, master);
    let loaded = Space::load(io, master).unwrap();
    assert_eq!(lebs(&loaded, &layout), lebs(space, &layout));
    assert_eq!(check_lpt(io, master).unwrap(), []);
}

const SHAPES: [Shape; 10] = [
    Shape { leb_bytes: 15_872, min_io_bytes: 512, main_lebs: 40, growth: 0, big: false, tight: false },
    Shape { leb_bytes: 15_872, min_io_bytes: 512, main_lebs: 40, growth: 900, big: false, tight: false },
    Shape { leb_bytes: 16_384, min_io_bytes: 2048, main_lebs: 13, growth: 0, big: false, tight: true },
    Shape { leb_bytes: 15_872, min_io_bytes: 8, main_lebs: 1200, growth: 0, big: false, tight: true },
    Shape { leb_bytes: 15_872, min_io_bytes: 512, main_lebs: 5000, growth: 0, big: true, tight: false },
    Shape { leb_bytes: 15_872, min_io_bytes: 512, main_lebs: 5000, growth: 0, big: true, tight: true },
    Shape { leb_bytes: 16_384, min_io_bytes: 2048, main_lebs: 41, growth: 3000, big: true, tight: false },
    Shape { leb_bytes: 131_072, min_io_bytes: 2048, main_lebs: 300, growth: 0, big: true, tight: true },
    Shape { leb_bytes: 15_872, min_io_bytes: 512, main_lebs: 2500, growth: 0, big: true, tight: false },
    Shape { leb_bytes: 15_872, min_io_bytes: 512, main_lebs: 2500, growth: 0, big: false, tight: false },
];

#[test]
fn the_first_lpt_is_read_back() {
    for shape in SHAPES {
        let (mut io, space, master) = format(shape);
        check(&mut io, &space, &master);
        let layout = io.layout();
        assert_eq!(master.lscan_lnum, layout.limits.main.start);
        assert_eq!(master.leb_count, layout.limits.leb_count);
        assert_eq!(master.empty_lebs, layout.limits.main_lebs());
    }
}

#[test]
fn a_commit_without_changes_writes_nothing() {
    let (mut io, mut space, mut master) = format(Shape::default());
    let (lebs, before) = (io.volume().lebs.clone(), master);
    space.set_taken(io.layout().limits.main.start, true).unwrap();
    commit(&mut io, &mut space, &mut master);
    assert!(io.volume().lebs == lebs && master == before);
}

#[test]
fn a_commit_writes_only_the_way_to_what_changed() {
    let (mut io, mut space, mut master) = format(SHAPES[4]);
    let before = u64::from(master.lpt_head_lnum) << 32 | u64::from(master.lpt_head_offset);
    space.set_free(io.layout().limits.main.start, 512, 0).unwrap();
    commit(&mut io, &mut space, &mut master);
    let after = u64::from(master.lpt_head_lnum) << 32 | u64::from(master.lpt_head_offset);
    assert!(after - before <= 1536, "{}", after - before);
    check(&mut io, &space, &master);
}

#[test]
fn lebs_that_only_the_old_lpt_used_are_unmapped_after_the_master_node() {
    let (mut io, mut space, mut master) = format(SHAPES[2]);
    let main = io.layout().limits.main.clone();
    let first = master.lpt_head_lnum as usize;
    for round in 0..200 {
        space.set_free(main.start, round % 2 * 2048, 0).unwrap();
        space.commit(&mut io, &mut master).unwrap();
        assert!(io.volume().lebs[first].is_some());
        space.commit_done(&mut io).unwrap();
        if io.volume().lebs[first].is_none() {
            return check(&mut io, &space, &master);
        }
    }
    panic!("the LEB is never released");
}

#[test]
fn an_area_too_small_fails_before_anything_is_written() {
    for big in [false, true] {
        let shape = Shape { main_lebs: 2500, big, tight: true, ..Shape::default() };
        let (mut io, mut space, mut master) = format(shape);
        let layout = Arc::clone(io.layout());
        let mut random = Random::new(3);
        let mut failed = false;
        for _ in 0..400 {
            let (old, flash) = (Space::load(&mut io, &master).unwrap(), io.volume().lebs.clone());
            change_some(&mut space, &layout, &mut random, 400);
            let before = master;
            if let Err(error) = space.commit(&mut io, &mut master) {
                assert!(error.to_string().contains("no room"), "{error}");
                assert!(io.is_read_only() && io.volume().lebs == flash && master == before);
                assert_eq!(lebs(&Space::load(&mut io, &master).unwrap(), &layout), lebs(&old, &layout));
                failed = true;
                break;
            }
            space.commit_done(&mut io).unwrap();
        }
        assert!(failed);
    }
}

#[test]
fn hundreds_of_commits_never_run_out_of_room() {
    for (seed, shape) in (0..).zip(SHAPES) {
        let (mut io, mut space, mut master) = format(shape);
        let layout = Arc::clone(io.layout());
        let mut random = Random::new(seed);
        for round in 0..400u32 {
            let times = if round % 50 == 49 { layout.limits.main_lebs() * 2 } else { 1 + random.below(20) };
            change_some(&mut space, &layout, &mut random, times);
            commit(&mut io, &mut space, &mut master);
            if round % 16 == 0 {
                check(&mut io, &space, &master);
            }
            if round % 64 == 0 {
                space = Space::load(&mut io, &master).unwrap();
            }
        }
        check(&mut io, &space, &master);
    }
}

/// Erases the space after the LPT head, the first step of a mount after a power loss.
fn clean_head(io: &mut Io<Chip>, master: &Master) {
    let mut kept = vec![0; master.lpt_head_offset as usize];
    io.read(master.lpt_head_lnum, 0, &mut kept).unwrap();
    io.change(master.lpt_head_lnum, &kept).unwrap();
}

#[test]
fn power_lost_in_a_commit_leaves_the_old_tree_or_the_new_one() {
    for shape in [SHAPES[0], SHAPES[2], SHAPES[3], SHAPES[6], SHAPES[7]] {
        let (mut io, mut space, mut master) = format(shape);
        let layout = Arc::clone(io.layout());
        let mut random = Random::new(7);
        for _ in 0..60 {
            change_some(&mut space, &layout, &mut random, 12);
            let (old, before) = (Space::load(&mut io, &master).unwrap(), master);
            for power in 0.. {
                let mut cut = io.clone();
                let (mut space, mut master) = (space.clone(), master);
                cut.volume_mut().power = Some(power);
                let outcome = space.commit(&mut cut, &mut master);
                cut.volume_mut().power = None;
                cut.set_read_only(false);
                if outcome.is_ok() {
                    break;
                }
                // The old tree is complete, and work continues from it.
                let mut again = Space::load(&mut cut, &before).unwrap();
                assert_eq!(lebs(&again, &layout), lebs(&old, &layout));
                clean_head(&mut cut, &before);
                again.unmap_empty_lpt(&mut cut).unwrap();
                let mut master = before;
                change_some(&mut again, &layout, &mut Random::new(u64::from(power)), 5);
                commit(&mut cut, &mut again, &mut master);
                check(&mut cut, &again, &master);
            }
            space.commit(&mut io, &mut master).unwrap();
            // This power loss happens before LEBs are released. Nothing needs them any more.
            if random.below(2) == 0 {
                space = Space::load(&mut io, &master).unwrap();
            } else {
                space.commit_done(&mut io).unwrap();
            }
        }
    }
}

#[test]
fn a_filesystem_that_has_grown_has_empty_lebs_at_its_end() {
    for (growth, big) in [(1, false), (3, true), (200, false), (1500, true)] {
        let shape = Shape { growth, big, main_lebs: 41, ..Shape::default() };
        let (mut io, mut space, mut master) = format(shape);
        let layout = Arc::clone(io.layout());
        change_some(&mut space, &layout, &mut Random::new(1), 60);
        commit(&mut io, &mut space, &mut master);
        let old = lebs(&space, &layout);
        let mut flash = io.into_volume().lebs;
        flash.extend(empty_lebs(growth));
        let mut io = over(&shape.superblock(), flash);
        let layout = Arc::clone(io.layout());
        assert_eq!(layout.limits.main_lebs(), 41 + growth);
        assert_eq!(check_lpt(&mut io, &master).unwrap(), []);
        let mut space = Space::load(&mut io, &master).unwrap();
        let now = lebs(&space, &layout);
        assert_eq!(now[..41], old[..]);
        assert!(now[41..].iter().all(|leb| leb.free == layout.leb_bytes() && leb.dirty == 0 && !leb.index));
        let mut random = Random::new(2);
        for _ in 0..30 {
            change_some(&mut space, &layout, &mut random, 3);
            commit(&mut io, &mut space, &mut master);
            check(&mut io, &space, &master);
        }
    }
}

macro_rules! sample {
    ($name:literal) => {
        &include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../media/tests/samples/", $name))[..]
    };
}

/// LPT of a filesystem that Linux has written to, with superblock and master node.
fn written_by_linux() -> (Io<Chip>, Master) {
    let superblock = Frame::parse(sample!("ubifs_node/superblock_kernel.bin")).unwrap();
    let master = Frame::parse(sample!("ubifs_node/master_kernel.bin")).unwrap();
    let (Ok(Node::Superblock(superblock)), Ok(Node::Master(master))) = (superblock.node(), master.node())
    else {
        panic!("other samples than expected");
    };
    let mut flash = empty_lebs(superblock.leb_count);
    let mut leb = sample!("ubifs/kernel_lpt_leb.bin").to_vec();
    leb.resize(superblock.leb_bytes as usize, 0xFF);
    flash[master.lpt_lnum as usize] = Some(leb);
    (over(&superblock, flash), master)
}

#[test]
fn a_tree_of_linux_is_read_and_continued() {
    let (mut io, mut master) = written_by_linux();
    assert_eq!(check_lpt(&mut io, &master).unwrap(), []);
    let mut space = Space::load(&mut io, &master).unwrap();
    let totals = space.totals();
    let said =
        [master.free_bytes, master.dirty_bytes, master.used_bytes, master.dead_bytes, master.dark_bytes];
    assert_eq!([totals.free, totals.dirty, totals.used, totals.dead, totals.dark], said);
    assert_eq!((totals.empty_lebs, totals.index_lebs), (master.empty_lebs, master.index_lebs));
    let layout = Arc::clone(io.layout());
    let mut random = Random::new(11);
    for _ in 0..100 {
        change_some(&mut space, &layout, &mut random, 2);
        commit(&mut io, &mut space, &mut master);
        check(&mut io, &space, &master);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_committed_is_what_is_loaded(
        seed in any::<u64>(),
        main_lebs in 10u32..700,
        growth in 0u32..300,
        big in any::<bool>(),
        tight in any::<bool>(),
        page in 3u32..=11,
    ) {
        let min_io_bytes = 1 << page;
        let shape = Shape { leb_bytes: 16_384, min_io_bytes, main_lebs, growth, big, tight };
        let (mut io, mut space, mut master) = format(shape);
        let layout = Arc::clone(io.layout());
        let mut random = Random::new(seed);
        for _ in 0..40 {
            let times = 1 + random.below(main_lebs);
            change_some(&mut space, &layout, &mut random, times);
            commit(&mut io, &mut space, &mut master);
        }
        check(&mut io, &space, &master);
    }
}
