//! The log of a hybrid card. Each write cleans one unit of its oldest block. Therefore a log block is free when the
//! current one is full, and no request waits for more than one merge.

use super::{Ftl, LogCleaning};
use crate::nand::{Fault, Kind, State};
use std::collections::BTreeSet;

impl Ftl {
    /// Cleans a unit of the log, if all log blocks are in use.
    pub(super) fn clean_log_step(&mut self) -> Result<(), Fault> {
        let mut cleaning = match self.log_cleaning.take().filter(|cleaning| self.is_current(cleaning)) {
            Some(cleaning) => cleaning,
            None => match self.victim(Kind::Log) {
                Some(block) => self.begin_cleaning(block)?,
                None => return Ok(()),
            },
        };
        let first = self.nand.first_slot(cleaning.block);
        let end = self.nand.blocks[cleaning.block as usize].next;
        while cleaning.next < end {
            let slot = cleaning.next;
            cleaning.next += 1;
            let unit = cleaning.spares.unit(slot).filter(|unit| self.slot(*unit) == Some(first + slot));
            if let Some(unit) = unit {
                let ready = self.read_page(first + slot);
                let stays = cleaning.stays;
                self.log_cleaning = Some(cleaning);
                return self.move_unit(Kind::Log, stays, unit, ready);
            }
        }
        Ok(())
    }

    fn begin_cleaning(&self, block: u32) -> Result<LogCleaning, Fault> {
        let of = &self.nand.blocks[block as usize];
        let (opened, stays) = (of.opened, self.stays_in_stream(of));
        Ok(LogCleaning { block, opened, spares: self.nand.spares(block)?, next: 0, stays })
    }

    fn is_current(&self, cleaning: &LogCleaning) -> bool {
        let block = &self.nand.blocks[cleaning.block as usize];
        block.state == State::Closed && block.kind == Kind::Log && block.opened == cleaning.opened
    }

    /// Number of allocation units with data in a block.
    pub(crate) fn aus_in(&self, block: u32) -> Result<u32, Fault> {
        let spares = self.nand.spares(block)?;
        let units = (0..self.nand.blocks[block as usize].next).filter_map(|slot| spares.unit(slot));
        Ok(units.map(|unit| self.open.au_of(unit)).collect::<BTreeSet<_>>().len() as u32)
    }
}
