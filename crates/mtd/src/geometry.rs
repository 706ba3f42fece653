//! Sizes of a flash device as its users see it.

use crate::pairing::Pairing;

/// What kind of flash sits behind an [`crate::Mtd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlashKind {
    /// Parallel or serial NOR: byte reads, word or page programs, no OOB.
    Nor,
    /// Raw or serial NAND, one bit a cell: page access, OOB, bad blocks, ECC.
    SlcNand,
    /// Raw NAND with more bits a cell: pages come in pairs that share cells.
    MlcNand,
}

/// The geometry of a device. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Kind of flash.
    pub kind: FlashKind,
    /// Size of the whole device, OOB not counted.
    pub size_bytes: u64,
    /// Erase block (PEB) size.
    pub erase_bytes: u32,
    /// Smallest unit of writing: a page on NAND, 1 on most NOR.
    pub write_bytes: u32,
    /// Largest efficient write: a page on NAND, the program buffer on NOR.
    pub buffer_bytes: u32,
    /// Times a page may be programmed between erases divides it into sub-pages of this size.
    pub sub_page_bytes: u32,
    /// OOB bytes per page, 0 on NOR.
    pub oob_bytes: u32,
    /// OOB bytes per page that ECC and bad block marker leave to the user.
    pub oob_free_bytes: u32,
    /// Bits the ECC corrects in each step, 0 when there is none.
    pub ecc_strength: u32,
    /// Bytes per ECC step, 0 when there is no ECC.
    pub ecc_step_bytes: u32,
    /// Corrected bits in one step from which a page should be moved (Linux: 3/4 of the strength, rounded up).
    pub bitflip_threshold: u32,
    /// Which pages of a block share their cells; [`Pairing::NONE`] on all but MLC NAND.
    pub pairing: Pairing,
}

impl Geometry {
    /// Pages in an erase block (1 when the write unit is the block).
    pub const fn pages_per_block(&self) -> u32 {
        self.erase_bytes / self.write_bytes
    }

    /// Erase blocks in the device.
    pub const fn blocks(&self) -> u32 {
        // A device has fewer than 2^32 blocks: the smallest block is 4 KiB.
        (self.size_bytes / self.erase_bytes as u64) as u32
    }

    /// Start of the erase block that contains `addr`.
    pub const fn block_start(&self, addr: u64) -> u64 {
        addr - addr % self.erase_bytes as u64
    }

    /// Linux's default threshold for a given strength.
    pub const fn default_bitflip_threshold(strength: u32) -> u32 {
        (strength * 3).div_ceil(4)
    }
}
