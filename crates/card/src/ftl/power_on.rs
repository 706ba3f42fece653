//! Recovery after a power loss: the map is rebuilt from the spare areas.

use super::Ftl;
use crate::nand::{Fault, Kind, State};
use crate::spare::BlockSpares;
use crate::spec::{FatKind, Mapping};
use floatgate_mtd::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

impl Ftl {
    /// Rebuilds the map from the spare areas after a power loss. The scan takes virtual time.
    pub(crate) fn power_on(&mut self, at: Instant, cut_in: u64) -> Result<(), Fault> {
        self.nand.power_on(at, cut_in);
        self.now = self.nand.load_firmware(at);
        self.in_flight.fill(self.now);
        self.open.clear();
        self.log_cleaning = None;
        self.discards.lose_power();
        self.scan();
        self.nand.powered()?;
        self.rebuild_map()?;
        self.read_discards();
        self.count_blocks();
        self.finish_merges()?;
        for kind in [Kind::Slc, Kind::Fat] {
            self.collect(kind)?;
        }
        self.collect_after_move()?;
        self.flush()
    }

    /// Reads the summaries of closed blocks, and the spare areas of all pages in other blocks.
    fn scan(&mut self) {
        let mut end = self.now;
        for block in 0..self.nand.blocks.len() as u32 {
            let first = self.nand.page_of(self.nand.first_slot(block));
            let pages = self.nand.page_of(self.nand.slots_per_block).max(1);
            for page in 0..self.nand.scan_pages(block) {
                end = end.max(self.nand.read_page(self.now, first + page % pages));
            }
        }
        self.now = end;
    }

    /// Maps the units of all pages in the order of their programs, so that the last written slot of each unit is valid.
    fn rebuild_map(&mut self) -> Result<(), Fault> {
        self.map.clear();
        let mut blocks: Vec<u32> = (0..self.nand.blocks.len() as u32).collect();
        blocks.retain(|block| self.nand.blocks[*block as usize].programmed > 0);
        blocks.sort_by_key(|block| Reverse(self.nand.blocks[*block as usize].opened));
        // Blocks whose programs alternated with programs of other blocks, each with its next page.
        let mut pages: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
        let mut open = BTreeMap::new();
        loop {
            let next = pages.peek().map(|Reverse((sequence, ..))| *sequence);
            let opened = blocks.last().map(|block| self.nand.blocks[*block as usize].opened);
            if opened.is_some_and(|opened| next.is_none_or(|next| opened <= next))
                && let Some(block) = blocks.pop()
            {
                // No other page was programmed between the pages of this block.
                let end = self.nand.blocks[block as usize].opened + u64::from(self.nand.pages_per_block());
                let is_alone = next.is_none()
                    && blocks.last().is_none_or(|next| self.nand.blocks[*next as usize].opened >= end);
                if let Some(unit) = self.nand.filled_from(block).filter(|_| is_alone) {
                    let slot = self.nand.first_slot(block);
                    self.map.replace_run(unit as usize, slot + 1, self.nand.slots_per_block);
                    continue;
                }
                let spares = self.nand.spares(block)?;
                pages.push(Reverse((self.nand.sequence(block, 0, &spares), block, 0)));
                open.insert(block, spares);
                continue;
            }
            let Some(Reverse((_, block, page))) = pages.pop() else { return Ok(()) };
            let Some(spares) = open.get(&block) else { continue };
            self.map_page(block, page, spares);
            if self.nand.slots_of_page(page + 1).start < self.nand.blocks[block as usize].programmed {
                pages.push(Reverse((self.nand.sequence(block, page + 1, spares), block, page + 1)));
            } else {
                open.remove(&block);
            }
        }
    }

    /// Takes the time to read the bitmaps of discards, which [`Self::rebuild_map`] has applied.
    fn read_discards(&mut self) {
        let slots: Vec<u32> = self.discards.bitmaps().filter_map(|bitmap| self.slot(bitmap)).collect();
        let end = slots.into_iter().map(|slot| self.read_page(slot)).max();
        self.now = end.map_or(self.now, |end| end.max(self.now));
    }

    /// Maps the units of a page of a block to its slots.
    fn map_page(&mut self, block: u32, page: u32, spares: &BlockSpares) {
        for slot in self.nand.slots_of_page(page) {
            if let Some(unit) = spares.unit(slot) {
                self.map.replace(unit as usize, self.nand.first_slot(block) + slot + 1);
                if unit >= self.host_units() {
                    self.discards.apply(unit, &mut self.map);
                }
            }
        }
    }

    /// Counts valid slots, and finds the state of each block.
    fn count_blocks(&mut self) {
        self.nand.blocks.iter_mut().for_each(|block| block.valid = 0);
        let nand = &mut self.nand;
        self.map.for_each_run(|entry, count| {
            let block = nand.block_of(entry - 1);
            nand.blocks[block as usize].valid += count;
        });
        self.closed.all_changed();
        for stream in &mut self.streams {
            (stream.frontier, stream.blocks) = (None, 0);
        }
        for number in 0..self.nand.blocks.len() as u32 {
            let block = &self.nand.blocks[number as usize];
            if matches!(block.state, State::Bad | State::Firmware) {
                continue;
            }
            let stream = &mut self.streams[block.kind as usize];
            stream.blocks += u32::from(block.valid > 0);
            let is_stream = block.kind != Kind::Main || self.mapping == Mapping::Page;
            let has_room = block.next < self.nand.slots_of(block.kind) && !block.has_summary;
            let state = match block.valid {
                0 => State::Free,
                // The frontier continues at its old position, so that repeated power cuts do not use up the free
                // blocks.
                _ if is_stream && has_room && stream.frontier.is_none() => {
                    stream.frontier = Some(number);
                    State::Open
                }
                _ => State::Closed,
            };
            self.nand.blocks[number as usize].state = state;
        }
        self.find_free();
    }

    /// Merges the open allocation units whose data is in several blocks or out of order.
    fn finish_merges(&mut self) -> Result<(), Fault> {
        for au in 0..self.open.aus(self.host_units()) {
            let is_block_mapped = match self.fat_of(self.open.units_of(au).start) {
                FatKind::Page => false,
                FatKind::Pinned => true,
                FatKind::None => self.mapping != Mapping::Page,
            };
            if is_block_mapped && !self.is_in_order(au) {
                self.merge(au)?;
            }
        }
        Ok(())
    }

    /// True if all units of an allocation unit outside of caches and logs are in one block, each in its own slot.
    fn is_in_order(&self, au: u32) -> bool {
        let units = self.open.units_of(au);
        let first = units.start;
        if self.is_filled(first) {
            return true;
        }
        let mut home = None;
        units.filter(|unit| *unit < self.host_units()).filter_map(|unit| Some((unit, self.slot(unit)?))).all(
            |(unit, slot)| {
                let block = self.nand.block_of(slot);
                let is_home =
                    *home.get_or_insert(block) == block && slot - self.nand.first_slot(block) == unit - first;
                is_home || self.nand.blocks[block as usize].kind != Kind::Main
            },
        )
    }

    /// True if the allocation unit that begins with this unit is in the slots of one block, as after a fast fill.
    fn is_filled(&self, first: u32) -> bool {
        let slots = self.nand.slots_per_block;
        let is_home = |slot: u32| slot == self.nand.first_slot(self.nand.block_of(slot));
        first + slots <= self.host_units()
            && self.slot(first).is_some_and(is_home)
            && self.map.is_run(first as usize, slots as usize)
    }
}
