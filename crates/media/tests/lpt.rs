//! Tests of the LEB properties tree: nodes written by `mkfs.ubifs`, and invented ones.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::mangle;
use floatgate_media::Reason;
use floatgate_media::ubifs::lpt::{
    Geometry, Kind, LebProperties, LebSpace, Lsave, Ltab, Nnode, NodePos, Parameters, Pnode, nnode_number,
};
use floatgate_media::ubifs::{Frame, Limits, Master, Node, Superblock};
use proptest::prelude::*;

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("samples/lpt/", $name, ".bin"))
    };
}

/// LPT geometry of an image of 13 LEBs that can grow to 60; see `samples/README.md`.
fn small() -> Geometry {
    Geometry::new(&Parameters {
        first_lnum: 7,
        lebs: 2,
        main: 10..13,
        max_leb_count: 60,
        leb_bytes: 15872,
        min_io_bytes: 8,
        lsave_count: 256,
        big: false,
    })
}

/// LPT geometry of an image that can grow to 12000 LEBs, on a volume of 400 LEBs.
fn big() -> Geometry {
    Geometry::new(&Parameters {
        first_lnum: 24,
        lebs: 16,
        main: 41..400,
        max_leb_count: 12_000,
        min_io_bytes: 512,
        big: true,
        ..small().parameters().clone()
    })
}

fn free(bytes: u32) -> LebProperties {
    LebProperties { free: bytes, ..LebProperties::default() }
}

#[test]
fn sizes_are_those_of_mkfs() {
    let sizes = |geometry: &Geometry| Kind::ALL.map(|kind| kind.bytes(geometry));
    assert_eq!(sizes(&small()), [14, 11, 10, 195]);
    assert_eq!(sizes(&big()), [16, 14, 59, 451]);
    assert_eq!((small().height(), small().pnode_count(), small().nnode_count()), (2, 1, 2));
    assert_eq!((big().height(), big().pnode_count(), big().nnode_count()), (6, 90, 23 + 6 + 2 + 1 + 1 + 1));
    assert_eq!((small().check(), big().check()), (Ok(()), Ok(())));
}

/// Parameters with which `mkfs.ubifs` begins, before the number of LEBs of the LPT is determined.
fn request(main: std::ops::Range<u32>, from: &Geometry) -> Parameters {
    Parameters { lebs: 0, big: false, main, ..from.parameters().clone() }
}

#[test]
fn new_filesystems_get_the_lpt_of_mkfs() {
    assert_eq!(Geometry::choose(&request(8..13, &small())), Ok(small()));
    // For this image mkfs.ubifs reserves LPT space for the whole main area from the start.
    let roomy = Geometry::choose(&request(25..12_000, &big())).unwrap();
    assert!(roomy.is_big());
    assert_eq!(roomy.parameters().lebs, 16);
    assert!(Geometry::choose(&request(11..13, &small())).is_err());
}

#[test]
fn pnodes_of_mkfs() {
    let node = Pnode::parse(sample!("small_pnode"), &small()).unwrap();
    assert_eq!(node.check(&small(), 0), Ok(()));
    assert_eq!(node.lebs.map(|leb| leb.index), [false, false, true, false]);
    assert_eq!(node.lebs[3], free(15_872));
    reemits(sample!("small_pnode"), |out| node.emit(&small(), out).unwrap());
    let node = Pnode::parse(sample!("big_pnode"), &big()).unwrap();
    assert_eq!((node.check(&big(), 0), node.number), (Ok(()), 0));
    assert_eq!(
        node.check(&big(), 1).unwrap_err().reason,
        Reason::OutOfRange { field: "pnode number", value: 0 }
    );
    reemits(sample!("big_pnode"), |out| node.emit(&big(), out).unwrap());
}

#[test]
fn nnodes_of_mkfs() {
    let node = Nnode::parse(sample!("small_nnode"), &small()).unwrap();
    assert_eq!(node.children, [Some(NodePos { lnum: 7, offset: 14 }), None, None, None]);
    assert_eq!(node.check(&small(), 2, 1), Ok(()));
    reemits(sample!("small_nnode"), |out| node.emit(&small(), out).unwrap());
    let node = Nnode::parse(sample!("big_nnode"), &big()).unwrap();
    assert_eq!((node.check(&big(), 6, 1), node.number), (Ok(()), 1));
    assert_eq!(node.children, [Some(NodePos { lnum: 24, offset: 72 }), None, None, None]);
    reemits(sample!("big_nnode"), |out| node.emit(&big(), out).unwrap());
}

#[test]
fn tables_of_mkfs() {
    let (geometry, bytes) = (small(), sample!("small_ltab"));
    let table = Ltab::parse(bytes, &geometry).unwrap();
    let lebs: Vec<_> = table.lebs().collect();
    assert_eq!(lebs, [LebSpace { free: 15_824, dirty: 2 }, LebSpace { free: 15_872, dirty: 0 }]);
    reemits(bytes, |out| Ltab::emit(lebs, &geometry, out).unwrap());
    let (geometry, bytes) = (big(), sample!("big_ltab"));
    let lebs: Vec<_> = Ltab::parse(bytes, &geometry).unwrap().lebs().collect();
    assert_eq!(lebs.len(), 16);
    reemits(bytes, |out| Ltab::emit(lebs, &geometry, out).unwrap());
    let bytes = sample!("big_lsave");
    let lnums: Vec<_> = Lsave::parse(bytes, &geometry).unwrap().lnums().collect();
    assert_eq!((lnums.len(), &lnums[..4]), (256, &[41, 42, 43, 44][..]));
    reemits(bytes, |out| Lsave::emit(lnums, &geometry, out).unwrap());
}

fn reemits(bytes: &[u8], emit: impl FnOnce(&mut [u8]) -> usize) {
    let mut out = [0xAA; 500];
    assert_eq!(emit(&mut out), bytes.len());
    assert_eq!(out[..bytes.len()], *bytes);
}

fn kernel() -> (Superblock, Master) {
    let node = |bytes| Frame::parse(bytes).unwrap().node().unwrap();
    let superblock = node(include_bytes!("samples/ubifs_node/superblock_kernel.bin"));
    match (superblock, node(include_bytes!("samples/ubifs_node/master_kernel.bin"))) {
        (Node::Superblock(superblock), Node::Master(master)) => (superblock, master),
        other => panic!("{other:?}"),
    }
}

/// The leaves below a node, in order; `path` is the level and column of the node.
fn leaves(leb: &[u8], geometry: &Geometry, place: NodePos, path: (u32, u32), out: &mut Vec<Pnode>) {
    let (level, column) = path;
    let bytes = &leb[place.offset as usize..];
    if level == 0 {
        let node = Pnode::parse(bytes, geometry).unwrap();
        node.check(geometry, column).unwrap();
        return out.push(node);
    }
    let node = Nnode::parse(bytes, geometry).unwrap();
    node.check(geometry, level, nnode_number(geometry.height() - level, column)).unwrap();
    for (index, child) in (0..).zip(node.children) {
        if let Some(place) = child {
            leaves(leb, geometry, place, (level - 1, 4 * column + index), out);
        }
    }
}

#[test]
fn tree_of_the_kernel_adds_up_to_what_its_master_node_says() {
    let leb = include_bytes!("samples/ubifs/kernel_lpt_leb.bin");
    let (superblock, master) = kernel();
    let limits = Limits::new(&superblock).unwrap();
    assert_eq!(master.check(&limits), Ok(()));
    let geometry = &limits.lpt_geometry;
    let root = NodePos { lnum: master.lpt_lnum, offset: master.lpt_offset };
    let mut pnodes = Vec::new();
    leaves(leb, geometry, root, (geometry.height(), 0), &mut pnodes);
    assert_eq!(pnodes.len(), geometry.pnode_count() as usize);
    let lebs: Vec<_> = pnodes.iter().flat_map(|node| node.lebs).take(limits.main_lebs() as usize).collect();
    let sum = |bytes: fn(&LebProperties) -> u32| lebs.iter().map(|leb| u64::from(bytes(leb))).sum::<u64>();
    assert_eq!((sum(|leb| leb.free), sum(|leb| leb.dirty)), (master.free_bytes, master.dirty_bytes));
    let count = |is: fn(&&LebProperties) -> bool| lebs.iter().filter(is).count() as u32;
    assert_eq!(count(|leb| leb.index), master.index_lebs);
    assert_eq!(count(|leb| leb.free == 15_872), master.empty_lebs);
    let table = Ltab::parse(&leb[master.ltab_offset as usize..], geometry).unwrap();
    assert_eq!(table.lebs().count(), 2);
}

#[test]
fn kinds_are_found_by_type_and_crc() {
    for (sample, kind) in [
        (&sample!("big_pnode")[..], Kind::Pnode),
        (sample!("big_nnode"), Kind::Nnode),
        (sample!("big_ltab"), Kind::Ltab),
        (sample!("big_lsave"), Kind::Lsave),
    ] {
        assert_eq!(Kind::find(sample, &big()), Some(kind));
    }
    assert_eq!(Kind::find(&[0xFF; 500], &big()), None);
    assert_eq!(Kind::find(&[], &big()), None);
    mangle(sample!("big_nnode"), |bytes| assert_eq!(Kind::find(bytes, &big()), None));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let geometry = big();
    let mut out = [0; 500];
    let mut pnode = |pnode: Pnode| pnode.emit(&geometry, &mut out).unwrap_err().to_string();
    let lebs = |leb| [leb, free(0), free(0), free(0)];
    let odd = pnode(Pnode { number: 0, lebs: lebs(free(12)) });
    assert_eq!(odd, "byte 0x0: free space out of range: 12");
    let large = pnode(Pnode { number: 0, lebs: lebs(free(16_384)) });
    assert_eq!(large, "byte 0x4: free space out of range: 2048");
    let number = pnode(Pnode { number: 4096, ..Pnode::default() });
    assert_eq!(number, "byte 0x2: pnode number out of range: 4096");
    for lnum in [23, 40] {
        let nnode = Nnode { number: 1, children: [Some(NodePos { lnum, offset: 0 }), None, None, None] };
        assert_eq!(
            nnode.emit(&geometry, &mut out).unwrap_err().to_string(),
            format!("byte 0x0: LPT LEB out of range: {lnum}")
        );
        assert!(nnode.check(&geometry, 1, 1).is_err());
    }
    assert!(Ltab::emit([LebSpace::default(); 15], &geometry, &mut out).is_err());
    assert!(Ltab::emit([LebSpace::default(); 17], &geometry, &mut out).is_err());
    assert!(Lsave::emit([41; 255], &geometry, &mut out).is_err());
    Lsave::emit([40; 256], &geometry, &mut out).unwrap();
    assert!(Lsave::parse(&out, &geometry).is_err());
    Ltab::emit([LebSpace { free: 15_872, dirty: 1 }; 16], &geometry, &mut out).unwrap();
    assert!(Ltab::parse(&out, &geometry).is_err());
}

#[test]
fn impossible_properties_are_refused() {
    let geometry = big();
    let check = |leb| Pnode { number: 3, lebs: [leb, free(0), free(0), free(0)] }.check(&geometry, 3);
    assert_eq!(check(free(15_872)), Ok(()));
    assert!(check(free(256)).is_err());
    assert!(check(LebProperties { free: 15_360, dirty: 520, index: false }).is_err());
    let place = Some(NodePos { lnum: 24, offset: 15_857 });
    let nnode = Nnode { number: 1, children: [place; 4] };
    assert!(nnode.check(&geometry, 1, 1).is_err());
    assert_eq!(nnode.check(&geometry, 2, 1), Ok(()));
    assert!(nnode.check(&geometry, 2, 4).is_err());
}

#[test]
fn numbers_lead_from_the_root() {
    assert_eq!([0, 1, 2, 3].map(|column| nnode_number(1, column)), [4, 5, 6, 7]);
    // Child 1 of the root, and child 2 of that node.
    assert_eq!(nnode_number(2, 0b01_10), 1 << 4 | 2 << 2 | 1);
}

prop_compose! {
    fn any_geometry()(
        (first_lnum, lebs, main_lebs) in (5u32..1000, 2u32..300, 1u32..100_000),
        (growth, leb_shift, io_shift) in (0u32..100_000, 14u32..22, 0u32..13),
        (lsave_count, big) in (0u32..300, any::<bool>()),
    ) -> Geometry {
        let start = first_lnum + lebs + 1;
        let main = start..start + main_lebs;
        Geometry::new(&Parameters {
            first_lnum,
            lebs,
            max_leb_count: main.end + growth,
            main,
            leb_bytes: 1 << leb_shift,
            min_io_bytes: 1 << io_shift,
            lsave_count,
            big,
        })
    }
}

/// A pseudo-random number below `limit` for each of the seeds.
fn below(limit: u32, seeds: &[u32]) -> impl Iterator<Item = u32> {
    seeds.iter().map(move |seed| seed.wrapping_mul(2_654_435_761) % limit)
}

proptest! {
    #[test]
    fn pnode_round_trip(geometry in any_geometry(), seeds in any::<[u32; 8]>(), index in any::<[bool; 4]>()) {
        let leb = geometry.parameters().leb_bytes;
        let sizes: Vec<_> = below(leb / 8 + 1, &seeds).map(|size| 8 * size).collect();
        let lebs = std::array::from_fn(|i| LebProperties { free: sizes[i], dirty: sizes[i + 4], index: index[i] });
        let number = if geometry.is_big() { seeds[0] % geometry.pnode_count() } else { 0 };
        let node = Pnode { number, lebs };
        let mut out = [0xAA; 64];
        prop_assert_eq!(node.emit(&geometry, &mut out), Ok(Kind::Pnode.bytes(&geometry)));
        prop_assert_eq!(Pnode::parse(&out, &geometry), Ok(node));
    }

    #[test]
    fn nnode_round_trip(geometry in any_geometry(), seeds in any::<[u32; 8]>(), some in any::<[bool; 4]>()) {
        let from = geometry.parameters();
        let lnums: Vec<_> = below(from.lebs, &seeds).collect();
        let offsets: Vec<_> = below(from.leb_bytes, &seeds).collect();
        let place = |i: usize| NodePos { lnum: from.first_lnum + lnums[i], offset: offsets[i + 4] };
        let children = std::array::from_fn(|i| some[i].then(|| place(i)));
        let node = Nnode { number: u32::from(geometry.is_big()), children };
        let mut out = [0xAA; 64];
        prop_assert_eq!(node.emit(&geometry, &mut out), Ok(Kind::Nnode.bytes(&geometry)));
        prop_assert_eq!(Nnode::parse(&out, &geometry), Ok(node));
    }

    #[test]
    fn tables_round_trip(geometry in any_geometry(), seed in any::<u32>()) {
        let from = geometry.parameters();
        let seeds: Vec<_> = (0..from.lebs).map(|leb| seed.wrapping_add(leb)).collect();
        let space = |free| LebSpace { free, dirty: from.leb_bytes - free };
        let lebs: Vec<_> = below(from.leb_bytes + 1, &seeds).map(space).collect();
        let mut out = vec![0xAA; 4096];
        prop_assert_eq!(Ltab::emit(lebs.clone(), &geometry, &mut out), Ok(Kind::Ltab.bytes(&geometry)));
        prop_assert!(Ltab::parse(&out, &geometry).unwrap().lebs().eq(lebs));
        let seeds: Vec<_> = (0..from.lsave_count).map(|entry| seed.wrapping_add(entry)).collect();
        let lebs = from.main.end - from.main.start;
        let lnums: Vec<_> = below(lebs, &seeds).map(|leb| from.main.start + leb).collect();
        prop_assert_eq!(Lsave::emit(lnums.clone(), &geometry, &mut out), Ok(Kind::Lsave.bytes(&geometry)));
        prop_assert!(Lsave::parse(&out, &geometry).unwrap().lnums().eq(lnums));
    }

    /// Compares the closed formula of the LPT size with a sum over the LEBs.
    #[test]
    fn waste_adds_up_leb_by_leb(geometry in any_geometry()) {
        let from = geometry.parameters();
        let node = u64::from(geometry.pnode_bytes().max(geometry.nnode_bytes()));
        let leb = u64::from(from.leb_bytes);
        let lsave = if geometry.is_big() { geometry.lsave_bytes() } else { 0 };
        let content = u64::from(geometry.pnode_count()) * u64::from(geometry.pnode_bytes())
            + geometry.nnode_count() * u64::from(geometry.nnode_bytes())
            + u64::from(geometry.ltab_bytes()) + u64::from(lsave);
        let (mut rest, mut waste) = (content + node, node);
        while rest > leb {
            rest = rest + node - leb;
            waste += node;
        }
        waste += rest.next_multiple_of(u64::from(from.min_io_bytes)) - rest;
        prop_assert_eq!(geometry.lpt_bytes(), content + waste);
    }

    #[test]
    fn anything_is_answered(mut bytes in prop::collection::vec(any::<u8>(), 3..500), code in 0u8..4, model in any::<bool>()) {
        let geometry = if model { big() } else { small() };
        let kind = Kind::ALL[usize::from(code)];
        bytes[2] = bytes[2] & 0xF0 | code;
        if let Some(node) = bytes.get_mut(..kind.bytes(&geometry)) {
            let sum = floatgate_media::crc::lpt(&node[2..]);
            node[..2].copy_from_slice(&sum.to_le_bytes());
            prop_assert_eq!(Kind::find(node, &geometry), Some(kind));
        }
        let _ = Pnode::parse(&bytes, &geometry).map(|node| node.check(&geometry, 0));
        let _ = Nnode::parse(&bytes, &geometry).map(|node| node.check(&geometry, 1, 1));
        let _ = Ltab::parse(&bytes, &geometry).map(|table| table.lebs().count());
        let _ = Lsave::parse(&bytes, &geometry).map(|table| table.lnums().count());
    }
}
