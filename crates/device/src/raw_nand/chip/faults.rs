//! Blocks that fail: factory bad blocks and injected faults.

use super::super::spec::RawNandSpec;
use super::RawNand;
use crate::oracle::{self, BlockFaults};
use floatgate_mtd::random::Random;

/// Faults of the blocks of one target, by block index.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    blocks: BlockFaults,
    /// Sorted factory bad blocks.
    factory: Vec<u32>,
}

impl Faults {
    /// Faults of target number `target` with its factory bad blocks, whose programs and erases fail.
    pub(super) fn new(spec: &RawNandSpec, target: u32) -> Self {
        let g = &spec.geometry;
        let mut random = Random::new(spec.factory_bad.seed ^ u64::from(target) << 32);
        let mut factory = Vec::new();
        for lun in 0..g.luns {
            let first = lun * g.blocks_per_lun;
            let wanted = factory.len() + spec.factory_bad.per_lun as usize;
            while factory.len() < wanted {
                let block = first + (random.bits() % u64::from(g.blocks_per_lun)) as u32;
                if block != 0 && !factory.contains(&block) {
                    factory.push(block);
                }
            }
        }
        factory.sort_unstable();
        let mut blocks = BlockFaults::default();
        factory.iter().for_each(|block| blocks.set(*block, oracle::Faults::BOTH));
        Self { blocks, factory }
    }

    /// Faults of a block. A failed program leaves the page undefined (here: unchanged), a failed erase leaves the
    /// block unchanged.
    #[inline]
    pub(super) fn of_block(&self, block: u32) -> oracle::Faults {
        self.blocks.of_block(block)
    }

    pub(super) fn set(&mut self, block: u32, faults: oracle::Faults) {
        self.blocks.set(block, faults);
    }

    /// The sorted factory bad blocks.
    pub(super) fn factory(&self) -> &[u32] {
        &self.factory
    }

    #[inline]
    pub(super) fn is_factory_bad(&self, block: u32) -> bool {
        !self.factory.is_empty() && self.factory.binary_search(&block).is_ok()
    }
}

impl RawNand {
    /// Writes the maker's bad block markers.
    pub(super) fn mark_factory_bad(&mut self) {
        let g = self.spec.geometry;
        let column = (g.page_bytes + self.spec.bad_block_marker.byte(&g)) as usize;
        for block in self.faults.factory.clone() {
            for place in &self.spec.bad_block_marker.pages {
                let row = block * g.pages_per_block + place.page(g.pages_per_block);
                self.array.program(row as usize, column, &[0]);
            }
        }
    }

    /// Inserts the marker of a factory bad block into bytes of a page that were read. In timing-only mode the array
    /// contains no markers, but a scan must find them.
    pub(super) fn show_mark(&self, row: u32, column: usize, buf: &mut [u8]) {
        let g = &self.spec.geometry;
        let (block, page) = self.map.split(row);
        if !self.faults.is_factory_bad(block) {
            return;
        }
        let marker = &self.spec.bad_block_marker;
        let at = (g.page_bytes + marker.byte(g)) as usize;
        let marked = marker.pages.iter().any(|place| place.page(g.pages_per_block) == page);
        if let Some(byte) = at.checked_sub(column).and_then(|at| buf.get_mut(at)).filter(|_| marked) {
            *byte = 0;
        }
    }
}
