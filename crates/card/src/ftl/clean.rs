//! Cleaning of blocks: garbage collection, static wear levelling, refresh, and background work while the host sends no
//! requests.

use super::{Extent, Ftl, LEVELLING_ERASES, Source, Stream};
use crate::nand::{Block, Fault, Kind, POOLS, State};
use crate::spec::{Collector, FatKind, Mapping};
use floatgate_mtd::Instant;

impl Ftl {
    /// Cleans blocks of a stream until the number of its blocks is within its limit.
    pub(super) fn collect(&mut self, kind: Kind) -> Result<(), Fault> {
        let mut left = self.nand.blocks.len();
        while self.streams[kind as usize].blocks > self.streams[kind as usize].limit {
            // If this number of blocks was cleaned and none became free, all units are valid.
            left = left.checked_sub(1).ok_or(Fault::WornOut)?;
            if !self.clean_one(kind)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The closed block of a stream that is cleaned next.
    pub(super) fn victim(&mut self, kind: Kind) -> Option<u32> {
        self.closed.update(&self.nand.blocks);
        let emptiest = self.closed.emptiest(kind)?;
        // Without a free block, only the emptiest block is certain to become free.
        let must_move = self.standby[kind.pool()].is_none();
        match kind {
            _ if must_move => Some(emptiest),
            Kind::Slc => self.closed.oldest(kind),
            Kind::Log if !self.stays_in_stream(&self.nand.blocks[emptiest as usize]) => {
                let worth = |block: &Block| self.nand.worth_of_merging(block);
                let closed = self.closed.of(kind, &self.nand.blocks);
                closed
                    .max_by(|(one, _), (other, _)| worth(one).total_cmp(&worth(other)))
                    .map(|(_, number)| number)
            }
            _ if self.collector == Collector::Fifo => self.closed.oldest(kind),
            _ => Some(emptiest),
        }
    }

    /// True if cleaning a block moves its valid units within the stream; false if it moves them to the blocks of their allocation units.
    pub(super) fn stays_in_stream(&self, block: &Block) -> bool {
        match block.kind {
            Kind::Fat | Kind::Discards | Kind::Enhanced => true,
            Kind::Main => self.mapping == Mapping::Page,
            // Most of its units were rewritten. The others may be rewritten soon, and moving them costs less than merging
            // their allocation units.
            Kind::Log => block.valid <= self.nand.slots_of(Kind::Log) / 2,
            Kind::Slc => false,
        }
    }

    /// Cleans one block of a stream. Returns false if the stream has no closed block.
    fn clean_one(&mut self, kind: Kind) -> Result<bool, Fault> {
        match self.victim(kind) {
            Some(victim) => self.clean(victim).map(|()| true),
            None => Ok(false),
        }
    }

    /// Moves the valid units of a closed block, which becomes free.
    fn clean(&mut self, block: u32) -> Result<(), Fault> {
        let kind = self.nand.blocks[block as usize].kind;
        let stays = self.stays_in_stream(&self.nand.blocks[block as usize]);
        if kind == Kind::Discards {
            self.program_partial_pages()?;
        }
        let (first, end) = (self.nand.first_slot(block), self.nand.blocks[block as usize].next);
        let spares = self.nand.spares(block)?;
        let (mut page, mut ready) = (u32::MAX, self.now);
        for slot in first..first + end {
            let unit = spares.unit(slot - first).filter(|unit| self.slot(*unit) == Some(slot));
            let Some(unit) = unit else { continue };
            if page != self.nand.page_of(slot) {
                page = self.nand.page_of(slot);
                ready = self.nand.read_page(self.now, page);
            }
            self.move_unit(kind, stays, unit, ready)?;
        }
        Ok(())
    }

    /// Moves a unit out of a block that is cleaned. If its allocation unit is merged, all units of the allocation unit
    /// are moved.
    pub(super) fn move_unit(
        &mut self,
        kind: Kind,
        stays: bool,
        unit: u32,
        ready: Instant,
    ) -> Result<(), Fault> {
        match kind {
            _ if stays => self.append(kind, unit, Source::Copy(ready)),
            Kind::Slc => self.write_through(unit, Source::Copy(ready), Extent::Short),
            _ => self.merge(self.open.au_of(unit)),
        }
    }

    /// Moves static data into a worn block if the erase counts differ too much (static wear levelling).
    pub(super) fn level_wear(&mut self) -> Result<(), Fault> {
        self.next_levelling = self.nand.operations.erases + LEVELLING_ERASES;
        if self.static_difference == 0 {
            return Ok(());
        }
        for pool in 0..POOLS {
            self.closed.update(&self.nand.blocks);
            let most = self.nand.erases_max[pool];
            let is_cold =
                |block: &u32| most - self.nand.blocks[*block as usize].erases > self.static_difference;
            let Some(cold) = self.closed.least_worn(pool).filter(is_cold) else { continue };
            self.prefers_worn = true;
            let moved = self.move_block(cold);
            self.prefers_worn = false;
            moved?;
        }
        Ok(())
    }

    /// Moves the valid units of a block. The units of a stream are moved into a new block.
    fn move_block(&mut self, block: u32) -> Result<(), Fault> {
        let kind = self.nand.blocks[block as usize].kind;
        self.program_partial_pages()?;
        let frontier = self.streams[kind as usize].frontier.take();
        self.clean(block)?;
        self.program_partial_pages()?;
        if let Some(own) = self.streams[kind as usize].frontier.take() {
            self.close(own)?;
        }
        self.streams[kind as usize].frontier = frontier;
        self.collect_after_move()
    }

    /// Cleans the streams after a move, which may leave a stream with one block more than its limit.
    pub(super) fn collect_after_move(&mut self) -> Result<(), Fault> {
        self.collect(Kind::Discards)?;
        self.collect(Kind::Log)?;
        self.collect(Kind::Enhanced)?;
        if self.mapping == Mapping::Page {
            self.collect(Kind::Main)?;
        }
        if self.fat.kind == FatKind::Page { self.collect(Kind::Fat) } else { Ok(()) }
    }

    /// True if the data of a block must be moved because of the number of reads (read disturb).
    #[inline]
    pub(crate) fn needs_refresh(&self, block: u32) -> bool {
        let block = &self.nand.blocks[block as usize];
        self.refresh_reads > 0 && block.reads >= self.refresh_reads && block.state == State::Closed
    }

    /// Moves the data of a closed block.
    pub(crate) fn refresh(&mut self, block: u32) -> Result<(), Fault> {
        self.refreshes += 1;
        self.clean(block)?;
        self.collect_after_move()
    }

    /// Does background work until the next request: moves data out of the SLC cache, and prepares free blocks.
    pub(crate) fn idle(&mut self, until: Instant) -> Result<(), Fault> {
        while self.now < until {
            if !self.idle_step()? {
                break;
            }
            self.now = self.now.max(self.nand.busy_until());
        }
        Ok(())
    }

    fn idle_step(&mut self) -> Result<bool, Fault> {
        if self.slc_blocks > 0 && self.clean_one(Kind::Slc)? {
            return Ok(true);
        }
        let Stream { blocks, limit, .. } = self.streams[Kind::Main as usize];
        if self.mapping != Mapping::Page || blocks + self.idle_blocks <= limit {
            return Ok(false);
        }
        match self.victim(Kind::Main) {
            Some(victim) if self.nand.blocks[victim as usize].valid <= self.nand.slots_per_block / 2 => {
                self.clean(victim).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}
