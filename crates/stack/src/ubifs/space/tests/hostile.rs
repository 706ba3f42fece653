//! Tests with forged bytes on flash: they must cause typed errors, never a panic, and never damage good
//! data.

use std::sync::Arc;

use floatgate_media::ubifs::Master;
use floatgate_media::ubifs::lpt::{Geometry, LebSpace as LptSpace, Ltab, Nnode, NodePos, Pnode};
use proptest::prelude::*;

use super::super::{LebSpace, Space, check_lpt};
use super::support::{Chip, Random, Shape, empty_lebs, new_master, over};
use super::totals::random_leb;
use crate::ubifs::error::Error;
use crate::ubifs::io::Io;

fn format(shape: Shape) -> (Io<Chip>, Master) {
    let mut io = shape.io();
    let layout = Arc::clone(io.layout());
    let (mut space, mut master, mut random) = (Space::empty(&io), new_master(), Random::new(1));
    for lnum in layout.limits.main.clone() {
        space.set(lnum, random_leb(&mut random, &layout)).unwrap();
    }
    space.commit(&mut io, &mut master).unwrap();
    space.commit_done(&mut io).unwrap();
    (io, master)
}

fn root(master: &Master) -> NodePos {
    NodePos { lnum: master.lpt_lnum, offset: master.lpt_offset }
}

fn bytes(io: &mut Io<Chip>, place: NodePos) -> &mut [u8] {
    let leb = io.volume_mut().lebs[place.lnum as usize].as_mut().unwrap();
    &mut leb[place.offset as usize..]
}

fn geometry(io: &Io<Chip>) -> Geometry {
    io.layout().limits.lpt_geometry.clone()
}

/// Changes the root node, and corrects its CRC.
fn change_root(io: &mut Io<Chip>, master: &Master, change: impl FnOnce(&mut Nnode)) {
    let geometry = geometry(io);
    let out = bytes(io, root(master));
    let mut nnode = Nnode::parse(out, &geometry).unwrap();
    change(&mut nnode);
    nnode.emit(&geometry, out).unwrap();
}

fn leaf(io: &mut Io<Chip>, master: &Master) -> NodePos {
    let geometry = geometry(io);
    let mut place = root(master);
    for _ in 0..geometry.height() {
        place = Nnode::parse(bytes(io, place), &geometry).unwrap().children[0].unwrap();
    }
    place
}

#[test]
fn a_damaged_node_is_an_error_with_its_place() {
    for big in [false, true] {
        let (mut io, master) = format(Shape { big, ..Shape::default() });
        let place = leaf(&mut io, &master);
        bytes(&mut io, place)[4] ^= 1;
        let error = Space::load(&mut io, &master).unwrap_err();
        assert!(
            matches!(error, Error::Node { lnum, offset, .. } if (lnum, offset) == (place.lnum, place.offset))
        );
        assert_eq!(check_lpt(&mut io, &master).unwrap(), [error]);
    }
}

#[test]
fn lebs_below_a_damaged_node_count_as_full_when_damage_is_let_pass() {
    let (mut io, master) = format(Shape::default());
    let whole = Space::load(&mut io, &master).unwrap();
    let place = leaf(&mut io, &master);
    bytes(&mut io, place)[4] ^= 1;
    let (space, notes) = Space::load_damaged(&mut io, &master).unwrap();
    assert_eq!(notes.len(), 1);
    for (position, lnum) in io.layout().limits.main.clone().enumerate() {
        let expected = if position < 4 { LebSpace::default() } else { whole.get(lnum).unwrap() };
        assert_eq!(space.get(lnum).unwrap(), expected);
    }
    bytes(&mut io, root(&master))[4] ^= 1;
    let (space, notes) = Space::load_damaged(&mut io, &master).unwrap();
    assert_eq!(notes.len(), 1);
    assert_eq!(space.totals().free + space.totals().dirty, 0);
}

#[test]
fn a_tree_that_leads_back_to_its_root_ends() {
    for big in [false, true] {
        let (mut io, master) = format(Shape { big, main_lebs: 200, ..Shape::default() });
        let at = root(&master);
        change_root(&mut io, &master, |root| root.children = [Some(at); 4]);
        let outcome = Space::load(&mut io, &master);
        assert!(matches!(outcome, Err(Error::Node { .. })), "{outcome:?}");
        assert!(!check_lpt(&mut io, &master).unwrap().is_empty());
    }
}

#[test]
fn many_ways_to_one_leaf_are_found_by_the_check_and_do_no_harm() {
    let shape = Shape { min_io_bytes: 8, ..Shape::default() };
    let (mut io, master) = format(shape);
    change_root(&mut io, &master, |root| root.children = [root.children[0]; 4]);
    let notes = check_lpt(&mut io, &master).unwrap();
    assert!(notes.iter().any(|note| note.to_string().contains("overlap")), "{notes:?}");
    let (mut space, mut master) = (Space::load(&mut io, &master).unwrap(), master);
    let layout = Arc::clone(io.layout());
    let mut random = Random::new(3);
    for _ in 0..100 {
        let lnum = layout.limits.main.start + random.below(layout.limits.main_lebs());
        space.set(lnum, random_leb(&mut random, &layout)).unwrap();
        space.commit(&mut io, &mut master).unwrap();
        space.commit_done(&mut io).unwrap();
    }
    Space::load(&mut io, &master).unwrap();
}

#[test]
fn a_root_without_children_says_that_everything_is_empty() {
    let (mut io, master) = format(Shape::default());
    change_root(&mut io, &master, |root| root.children = [None; 4]);
    let space = Space::load(&mut io, &master).unwrap();
    assert_eq!(space.totals().empty_lebs, 40);
    let notes = check_lpt(&mut io, &master).unwrap();
    assert!(notes.iter().any(|note| note.to_string().contains("other sums")));
}

#[test]
fn places_outside_the_area_are_errors() {
    let (mut io, master) = format(Shape::default());
    let leb = io.layout().leb_bytes();
    for (lnum, offset) in [(0, 0), (u32::MAX, 0), (master.lpt_lnum, leb - 3), (master.lpt_lnum, u32::MAX)] {
        let wrong = Master { lpt_lnum: lnum, lpt_offset: offset, ..master };
        assert!(matches!(Space::load(&mut io, &wrong), Err(Error::Corrupt { .. })));
        let wrong = Master { ltab_lnum: lnum, ltab_offset: offset, ..master };
        assert!(matches!(Space::load(&mut io, &wrong), Err(Error::Corrupt { .. })));
        assert!(!check_lpt(&mut io, &wrong).unwrap().is_empty());
        assert!(Space::load_damaged(&mut io, &wrong).is_ok());
    }
}

#[test]
fn a_main_area_behind_the_volume_is_refused_before_anything_is_allocated() {
    let mut superblock = Shape::default().superblock();
    superblock.leb_count = 1 << 21;
    superblock.max_leb_count = 1 << 30;
    superblock.lpt_lebs = 3000;
    let mut io = over(&superblock, empty_lebs(50));
    assert!(matches!(Space::load(&mut io, &new_master()), Err(Error::Superblock(_))));
    assert!(matches!(check_lpt(&mut io, &new_master()), Err(Error::Superblock(_))));
}

#[test]
fn a_leaf_with_more_space_than_a_leb_is_refused() {
    let (mut io, master) = format(Shape::default());
    let geometry = geometry(&io);
    let place = leaf(&mut io, &master);
    let out = bytes(&mut io, place);
    let mut pnode = Pnode::parse(out, &geometry).unwrap();
    (pnode.lebs[2].free, pnode.lebs[2].dirty) = (8192, 8192);
    pnode.emit(&geometry, out).unwrap();
    assert!(matches!(Space::load(&mut io, &master), Err(Error::Node { .. })));
}

/// The ltab lists a LEB with nodes in use as empty: a commit that trusted it would destroy the tree.
#[test]
fn a_lying_table_makes_no_commit_overwrite_nodes_in_use() {
    for lie in [LptSpace { free: 15_872, dirty: 0 }, LptSpace { free: 0, dirty: 15_872 }] {
        for shape in [Shape::default(), Shape { main_lebs: 5000, big: true, ..Shape::default() }] {
            let (mut io, master) = format(shape);
            let geometry = geometry(&io);
            let lies = vec![lie; geometry.parameters().lebs as usize];
            let at = NodePos { lnum: master.ltab_lnum, offset: master.ltab_offset };
            Ltab::emit(lies, &geometry, bytes(&mut io, at)).unwrap();
            assert!(!check_lpt(&mut io, &master).unwrap().is_empty());
            let layout = Arc::clone(io.layout());
            let (mut space, mut master) = (Space::load(&mut io, &master).unwrap(), master);
            for lnum in layout.limits.main.clone().take(60) {
                let old = (Space::load(&mut io, &master).unwrap(), master);
                space.set(lnum, LebSpace::default()).unwrap();
                space.commit(&mut io, &mut master).unwrap();
                let again = Space::load(&mut io, &old.1).unwrap();
                assert_eq!(again.totals(), old.0.totals());
                space.commit_done(&mut io).unwrap();
            }
            assert_eq!(check_lpt(&mut io, &master).unwrap(), []);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_bytes_in_the_area_end_in_a_result(
        seed in any::<u64>(),
        big in any::<bool>(),
        flips in 1usize..40,
        fields in any::<[u32; 8]>(),
    ) {
        let (mut io, mut master) = format(Shape { big, growth: 100, ..Shape::default() });
        let lpt = io.layout().limits.lpt.clone();
        let mut random = Random::new(seed);
        for _ in 0..flips {
            let lnum = lpt.start + random.below(u32::try_from(lpt.len()).unwrap());
            let end = if random.below(2) == 0 { 700 } else { 15_872 };
            let at = random.below(end) as usize;
            if let Some(leb) = &mut io.volume_mut().lebs[lnum as usize] {
                leb[at] = random.below(256) as u8;
            }
        }
        if seed & 3 == 0 {
            (master.lpt_lnum, master.lpt_offset) = (lpt.start + fields[0] % 3, fields[1] % 800);
            (master.ltab_lnum, master.ltab_offset) = (lpt.start + fields[2] % 3, fields[3] % 800);
            (master.lpt_head_lnum, master.lpt_head_offset) = (lpt.start + fields[4] % 3, fields[5] % 32 * 512);
            (master.lsave_lnum, master.lsave_offset) = (fields[6], fields[7]);
        }
        let _ = check_lpt(&mut io, &master).unwrap();
        let (mut space, _) = Space::load_damaged(&mut io, &master).unwrap();
        let _ = space.report(false);
        if let Ok(loaded) = Space::load(&mut io, &master) {
            space = loaded;
        }
        for _ in 0..20 {
            let lnum = io.layout().limits.main.start + random.below(40);
            let _ = space.add_dirt(lnum, random.below(9000));
            let _ = space.find_free(&mut io, 8, false);
            let _ = space.find_dirty(8, true);
            let _ = space.start_commit(&mut io);
            let _ = space.find_dirty_index();
            let _ = space.commit(&mut io, &mut master);
            let _ = space.commit_done(&mut io);
            io.set_read_only(false);
        }
    }
}
