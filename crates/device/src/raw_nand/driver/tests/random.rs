//! Random valid sequences of programs, erases and reads agree with a plain array of bytes.

use crate::raw_nand::driver::BadBlocks;
use crate::raw_nand::spec::RawNandSpec;
use crate::raw_nand::testing::Rig;
use crate::raw_nand::testing::{driver, mx30lf2g18ac, nand128w3a2bn, nv_ddr, rig};
use floatgate_mtd::{Instant, Mtd};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    /// Writes sub-pages from the end of the last write in the block.
    Write {
        block: u32,
        units: u32,
        fill: u8,
    },
    Erase {
        block: u32,
        blocks: u32,
    },
    Read {
        addr: u64,
        len: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..8u32, 1..100u32, any::<u8>()).prop_map(|(block, units, fill)| Op::Write { block, units, fill }),
        (0..8u32, 1..4u32, any::<u8>()).prop_map(|(block, units, fill)| Op::Write { block, units, fill }),
        (0..8u32, 1..4u32).prop_map(|(block, blocks)| Op::Erase { block, blocks }),
        (any::<u64>(), 1..200_000usize).prop_map(|(addr, len)| Op::Read { addr, len }),
    ]
}

fn small(mut spec: RawNandSpec) -> RawNandSpec {
    (spec.geometry.blocks_per_lun, spec.geometry.pages_per_block) = (8 / spec.geometry.luns, 12);
    spec.factory_bad.per_lun = 0;
    spec
}

fn run(spec: &RawNandSpec, rig: Rig, ops: &[Op]) {
    let mut device = driver(spec, rig).unwrap();
    let g = device.geometry().clone();
    let (unit, block_bytes) = (g.sub_page_bytes as usize, g.erase_bytes as usize);
    let mut model = vec![0xFF; g.size_bytes as usize];
    let mut next = vec![0u32; g.blocks() as usize];
    let mut now = device.ready_at();
    for op in ops {
        match *op {
            Op::Write { block, units, fill } => {
                let from = next[block as usize];
                // The write continues in the next block only if that block is erased.
                let per_block = g.erase_bytes / g.sub_page_bytes;
                let after =
                    if block + 1 < g.blocks() && next[block as usize + 1] == 0 { per_block } else { 0 };
                let units = units.min(per_block - from + after);
                let addr = block as usize * block_bytes + from as usize * unit;
                let data: Vec<u8> =
                    (0..units as usize * unit).map(|i| (i as u8).wrapping_mul(fill)).collect();
                now = device.write(now, addr as u64, &data).unwrap().at;
                model[addr..addr + data.len()].copy_from_slice(&data);
                next[block as usize] = per_block.min(from + units);
                if from + units > per_block {
                    next[block as usize + 1] = from + units - per_block;
                }
            }
            Op::Erase { block, blocks } => {
                let end = (block + blocks).min(g.blocks());
                let (from, to) = (block as usize * block_bytes, end as usize * block_bytes);
                now = device.erase(now, from as u64, (to - from) as u64).unwrap().at;
                model[from..to].fill(0xFF);
                next[block as usize..end as usize].fill(0);
            }
            Op::Read { addr, len } => {
                let from = (addr % g.size_bytes) as usize;
                let mut out = vec![0; len.min(model.len() - from)];
                now = device.read(now, from as u64, &mut out).unwrap().at;
                assert!(out == model[from..from + out.len()]);
            }
        }
    }
    assert_eq!(device.breakdown().total(), device.ready_at().since(Instant::ZERO));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_plain_array(ops in vec(op(), 1..24), fast in any::<bool>(), chip in 0..3usize) {
        let spec = match chip {
            0 => small(mx30lf2g18ac()),
            1 => small(nand128w3a2bn()),
            _ => {
                let mut spec = small(nv_ddr());
                spec.read_retry = None;
                spec.geometry.page_bytes = 4096;
                spec
            }
        };
        let mut rig = rig();
        rig.options.bad_blocks = BadBlocks::Ignore;
        (rig.options.cached_programs, rig.options.multi_plane, rig.options.continuous) = (fast, fast, Some(fast));
        run(&spec, rig, &ops);
    }
}
