//! Random operations compared with a model of a few vectors.

use super::rig::{Driver, Rig};
use crate::oracle::{Faults, Oracle};
use floatgate_mtd::{ErrorKind, Mtd};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Erase { block: u32 },
    Write { block: u32, pages: u32, fill: u8 },
    Read { offset: u32, len: u32 },
    MarkBad { block: u32 },
    FailProgram { block: u32 },
}

/// Number of blocks that the test uses.
const BLOCKS: u32 = 4;

struct Model {
    /// Block numbers in both planes and on both sides of a die boundary.
    blocks: [u32; BLOCKS as usize],
    block_bytes: usize,
    page_bytes: usize,
    data: Vec<Vec<u8>>,
    next_page: Vec<usize>,
    bad: Vec<bool>,
    failing: Vec<bool>,
}

fn op() -> impl Strategy<Value = Op> {
    let block = 0..BLOCKS;
    prop_oneof![
        2 => block.clone().prop_map(|block| Op::Erase { block }),
        6 => (block.clone(), 1..6u32, any::<u8>())
            .prop_map(|(block, pages, fill)| Op::Write { block, pages, fill }),
        6 => (0..0x80_000u32, 1..20_000u32).prop_map(|(offset, len)| Op::Read { offset, len }),
        1 => block.clone().prop_map(|block| Op::MarkBad { block }),
        1 => block.prop_map(|block| Op::FailProgram { block }),
    ]
}

impl Model {
    fn new(d: &Driver) -> Self {
        let g = d.geometry();
        let (block_bytes, page_bytes) = (g.erase_bytes as usize, g.write_bytes as usize);
        let half = g.blocks() / 2;
        Self {
            blocks: [0, 1, half - 1, half],
            block_bytes,
            page_bytes,
            data: vec![vec![0xFF; block_bytes]; BLOCKS as usize],
            next_page: vec![0; BLOCKS as usize],
            bad: vec![false; BLOCKS as usize],
            failing: vec![false; BLOCKS as usize],
        }
    }

    fn addr(&self, block: usize) -> u64 {
        u64::from(self.blocks[block]) * self.block_bytes as u64
    }

    fn step(&mut self, d: &mut Driver, op: &Op) {
        let now = d.ready_at();
        match *op {
            Op::Erase { block } => {
                let b = block as usize;
                let got = d.erase(now, self.addr(b), self.block_bytes as u64);
                if self.bad[b] {
                    assert_eq!(got.err().unwrap().kind, ErrorKind::BadBlock);
                } else {
                    got.unwrap();
                    self.data[b].fill(0xFF);
                    self.next_page[b] = 0;
                }
            }
            Op::Write { block, pages, fill } => self.write(d, block as usize, pages as usize, fill),
            Op::Read { offset, len } => self.read(d, offset as usize, len as usize),
            Op::MarkBad { block } => {
                let b = block as usize;
                // The program of the marker may fail; the block is bad in any case.
                let _ = d.mark_bad(now, self.addr(b));
                self.bad[b] = true;
                self.set_faults(d, b, Faults::NONE);
                self.data[b].fill(0xFF);
                self.next_page[b] = 1;
            }
            Op::FailProgram { block } => {
                self.set_faults(d, block as usize, Faults::PROGRAM);
            }
        }
    }

    fn set_faults(&mut self, d: &mut Driver, b: usize, faults: Faults) {
        d.bus_mut().chip_mut().set_faults(self.addr(b), faults);
        self.failing[b] = faults.program;
    }

    fn write(&mut self, d: &mut Driver, b: usize, pages: usize, fill: u8) {
        let pages = pages.min(self.block_bytes / self.page_bytes - self.next_page[b]);
        let from = self.next_page[b] * self.page_bytes;
        let bytes: Vec<u8> = (0..pages * self.page_bytes).map(|i| (i / 7) as u8 ^ fill).collect();
        let got = d.write(d.ready_at(), self.addr(b) + from as u64, &bytes);
        let mut written = pages;
        if std::mem::take(&mut self.failing[b]) && pages > 0 {
            let error = got.err().unwrap();
            assert_eq!(error.kind, ErrorKind::ProgramFailed);
            // The array contains the bytes that were sent, although the chip reports a failure.
            written = 1;
            self.set_faults(d, b, Faults::NONE);
        } else {
            got.unwrap();
            self.failing[b] &= pages == 0;
        }
        let len = written * self.page_bytes;
        self.data[b][from..from + len].copy_from_slice(&bytes[..len]);
        self.next_page[b] += written;
    }

    fn read(&self, d: &mut Driver, offset: usize, len: usize) {
        let b = offset / self.block_bytes % BLOCKS as usize;
        let inside = offset % self.block_bytes;
        let len = len.min(self.block_bytes - inside);
        let mut got = vec![0; len];
        d.read(d.ready_at(), self.addr(b) + inside as u64, &mut got).unwrap();
        assert!(got == self.data[b][inside..inside + len], "block {} at {inside:#x}", self.blocks[b]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_sequence_does_what_the_model_does(
        ops in prop::collection::vec(op(), 1..40),
        chip in prop::sample::select(vec![
            ("w25n02jw", "1S-4D-4D"),
            ("w25m02gv", "1S-4S-4S"),
            ("mx35lf2ge4ab", "1S-1S-4S"),
            ("mx35lf2ge4ad", "1S-1S-2S"),
            ("w35n02jw", "8D-8D-8D"),
        ]),
        continuous: bool,
    ) {
        let mut rig = Rig::new(chip.1);
        rig.options.continuous = continuous;
        let mut d = rig.driver(chip.0);
        let (start, before) = (d.ready_at(), d.breakdown());
        let mut model = Model::new(&d);
        for op in &ops {
            model.step(&mut d, op);
        }
        prop_assert_eq!((d.breakdown() - before).total(), d.ready_at().since(start));
    }
}
