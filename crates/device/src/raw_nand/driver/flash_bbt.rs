//! The bad block table on flash, in Linux's format.
//!
//! Two copies, table and mirror, are in the last four blocks of each target. A copy starts at the first page of its block
//! and has two bits per block, lowest bits first: 11 good or reserved, 01 or 10 worn out, 00 factory bad. The OOB of the
//! first page has `Bbt0` or `1tbB` at byte 8, and a version at byte 12. The copy with the higher version is valid (Linux:
//! drivers/mtd/nand/raw/nand_bbt.c).

use super::RawNandDriver;
use crate::nand::bbt::BlockState;
use crate::nand::span;
use crate::raw_nand::bus::NandBus;
use floatgate_mtd::{Error, ErrorKind};

/// Number of blocks at the end of a target that are reserved for the tables.
const RESERVED_BLOCKS: u32 = 4;
/// Offset of the signature in the OOB, bytes.
const SIGNATURE_AT: usize = 8;
/// Offset of the version in the OOB, bytes.
const VERSION_AT: usize = 12;
/// Signatures of the table and its mirror.
const SIGNATURES: [[u8; 4]; 2] = [*b"Bbt0", *b"1tbB"];

/// A copy found on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableCopy {
    block: u32,
    version: u8,
}

/// The copies of one target: table and mirror.
pub(super) type Copies = [Option<TableCopy>; 2];

/// Two-bit code of a block state in a table.
const fn code(state: BlockState) -> u8 {
    match state {
        BlockState::Unknown | BlockState::Good | BlockState::Reserved => 0b11,
        BlockState::Worn => 0b10,
        BlockState::FactoryBad => 0b00,
    }
}

impl<B: NandBus> RawNandDriver<B> {
    /// Reads the tables of all targets, or creates them from the maker's markers. Missing or outdated copies are written.
    pub(super) fn load_flash_table(&mut self) -> Result<(), Error> {
        self.check_signature_place()?;
        let mut scanned = false;
        for target in 0..self.info.geometry.targets {
            let found = self.search(target)?;
            let newest = self.newest(target, found)?;
            if newest.is_none() && !scanned {
                self.scan_markers()?;
                scanned = true;
            }
            self.copies.push(found);
            self.reserve(target);
            let version = newest.unwrap_or(1);
            for (which, copy) in found.iter().enumerate() {
                if copy.is_none_or(|copy| copy.version != version) {
                    self.write_copy(target, which, version)?;
                }
            }
        }
        Ok(())
    }

    /// Rejects layouts whose ECC bytes would overwrite signature or version. Linux has the same problem unless the table
    /// is stored without OOB.
    fn check_signature_place(&self) -> Result<(), Error> {
        let overlaps =
            |offset: u32, len: u32| (offset as usize) <= VERSION_AT && SIGNATURE_AT < (offset + len) as usize;
        if self.layout.ecc().iter().any(|region| overlaps(region.offset, region.len)) {
            let kind = ErrorKind::Unsupported("a table on flash: ECC bytes lie where its signature goes");
            return Err(self.error(kind, 0));
        }
        Ok(())
    }

    /// Blocks of a target that may contain a table, last block first.
    fn candidates(&self, target: u32) -> impl Iterator<Item = u32> + use<B> {
        let end = (target + 1) * self.rows.blocks();
        (end.saturating_sub(RESERVED_BLOCKS)..end).rev()
    }

    fn search(&mut self, target: u32) -> Result<Copies, Error> {
        let mut found = [None; 2];
        let mut oob = vec![0xFF; self.info.geometry.oob_bytes as usize];
        if oob.len() <= VERSION_AT || !self.bus.keeps_data() {
            return Ok(found);
        }
        for block in self.candidates(target) {
            let at = self.page_at(span::block_addr(&self.geometry, block));
            self.load_oob(at, &mut oob).map_err(|error| self.failed(error, at.addr))?;
            let which = SIGNATURES.iter().position(|s| oob[SIGNATURE_AT..].starts_with(s));
            if let Some(which) = which.filter(|which| found[*which].is_none()) {
                found[which] = Some(TableCopy { block, version: oob[VERSION_AT] });
            }
        }
        Ok(found)
    }

    /// Reads the newer of two copies, or the older one if the newer is uncorrectable. Returns its version. Versions wrap
    /// around, so their difference is compared.
    fn newest(&mut self, target: u32, found: Copies) -> Result<Option<u8>, Error> {
        let mut order: Vec<TableCopy> = found.into_iter().flatten().collect();
        if let [table, mirror] = order[..]
            && mirror.version.wrapping_sub(table.version).cast_signed() > 0
        {
            order.swap(0, 1);
        }
        for copy in order {
            match self.read_copy(target, copy) {
                Ok(()) => return Ok(Some(copy.version)),
                Err(error) if error.kind == ErrorKind::Uncorrectable => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Size of a table, bytes.
    fn table_bytes(&self) -> usize {
        self.rows.blocks().div_ceil(4) as usize
    }

    fn read_copy(&mut self, target: u32, copy: TableCopy) -> Result<(), Error> {
        let mut bytes = vec![0xFF; self.table_bytes()];
        self.read_range(span::block_addr(&self.geometry, copy.block), &mut bytes)?;
        let first = target * self.rows.blocks();
        for index in 0..self.rows.blocks() {
            let state = match bytes[index as usize / 4] >> (index % 4 * 2) & 3 {
                0b11 => BlockState::Good,
                0b00 => BlockState::FactoryBad,
                _ => BlockState::Worn,
            };
            self.bbt.set(first + index, state);
        }
        Ok(())
    }

    /// Marks the blocks that may contain tables as reserved.
    fn reserve(&mut self, target: u32) {
        for block in self.candidates(target) {
            if self.bbt.get(block) == BlockState::Good {
                self.bbt.set(block, BlockState::Reserved);
            }
        }
    }

    fn table(&self, target: u32) -> Vec<u8> {
        let mut bytes = vec![0xFF; self.table_bytes().next_multiple_of(1 << self.page_shift)];
        let first = target * self.rows.blocks();
        for index in 0..self.rows.blocks() {
            let gone = !code(self.bbt.get(first + index)) & 3;
            bytes[index as usize / 4] &= !(gone << (index % 4 * 2));
        }
        bytes
    }

    /// Writes one copy, to its present block or to the first usable one that the other copy does not use. A block that
    /// fails is marked bad, and the next one is tried.
    fn write_copy(&mut self, target: u32, which: usize, version: u8) -> Result<(), Error> {
        loop {
            let Some(block) = self.copy_block(target, which) else {
                let addr = span::block_addr(&self.geometry, (target + 1) * self.rows.blocks() - 1);
                return Err(self.error(ErrorKind::BadBlock, addr));
            };
            match self.put_copy(target, which, block, version) {
                Ok(()) => {
                    self.copies[target as usize][which] = Some(TableCopy { block, version });
                    return Ok(());
                }
                Err(error) if matches!(error.kind, ErrorKind::EraseFailed | ErrorKind::ProgramFailed) => {
                    self.bbt.set(block, BlockState::Worn);
                    // The marker is only for other drivers; this driver uses the table.
                    let _ = self.write_marker(block);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn copy_block(&self, target: u32, which: usize) -> Option<u32> {
        let copies = &self.copies[target as usize];
        let usable = |block: &u32| self.bbt.get(*block) == BlockState::Reserved;
        let other = copies[1 - which].map(|copy| copy.block);
        let own = copies[which].map(|copy| copy.block).filter(usable);
        own.or_else(|| self.candidates(target).filter(usable).find(|block| Some(*block) != other))
    }

    fn put_copy(&mut self, target: u32, which: usize, block: u32, version: u8) -> Result<(), Error> {
        let table = self.table(target);
        let addr = span::block_addr(&self.geometry, block);
        self.erase_block(self.page_at(addr))?;
        let mut oob = self.blank_oob.clone();
        oob[SIGNATURE_AT..SIGNATURE_AT + 4].copy_from_slice(&SIGNATURES[which]);
        oob[VERSION_AT] = version;
        let blank = self.blank_oob.clone();
        for (index, page) in table.chunks_exact(1 << self.page_shift).enumerate() {
            let at = self.page_at(addr + ((index as u64) << self.page_shift));
            self.write_page(at, page, if index == 0 { &oob } else { &blank })?;
        }
        Ok(())
    }

    /// Writes both copies of a target with a new version after the state of a block changed.
    pub(super) fn update_flash_table(&mut self, target: u32) -> Result<(), Error> {
        let Some(copies) = self.copies.get(target as usize) else { return Ok(()) };
        let version = copies.iter().flatten().map(|copy| copy.version).fold(0, u8::max).wrapping_add(1);
        (0..SIGNATURES.len()).try_for_each(|which| self.write_copy(target, which, version))
    }
}
