//! Sizes of a flash device.

use crate::pairing::Pairing;

/// Kind of flash behind an [`crate::Mtd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlashKind {
    /// Parallel or serial NOR: byte reads, word or page programs, no OOB.
    Nor,
    /// Raw or serial NAND, one bit a cell: page access, OOB, bad blocks, ECC.
    SlcNand,
    /// Raw NAND with several bits a cell: pairs of pages share cells.
    MlcNand,
    /// NAND with several bits a cell, using only one page of each pair (Linux: `MTD_SLC_ON_MLC_EMULATION`).
    SlcModeNand,
}

/// Geometry of a device. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Type of the flash memory: NOR or a type of NAND.
    pub kind: FlashKind,
    /// Size of the whole device, OOB not counted.
    pub size_bytes: u64,
    /// Size of the flash chip if the device is a partition of it (Linux: `mtd_get_device_size`). `None` if the device is
    /// the whole chip: see [`chip_bytes`](Self::chip_bytes).
    pub partition_of: Option<u64>,
    /// Size of an eraseblock, the unit of erasure.
    pub erase_bytes: u32,
    /// Smallest unit of writing: a page on NAND, 1 on most NOR.
    pub write_bytes: u32,
    /// Largest efficient write: a page on NAND, the program buffer on NOR.
    pub buffer_bytes: u32,
    /// Sub-page size: the page size divided by the number of programs per page between erases.
    pub sub_page_bytes: u32,
    /// OOB bytes per page, 0 on NOR.
    pub oob_bytes: u32,
    /// OOB bytes per page that are used by neither ECC nor bad block marker.
    pub oob_free_bytes: u32,
    /// Bits that the ECC corrects in each step, 0 without ECC.
    pub ecc_strength: u32,
    /// Bytes per ECC step, 0 without ECC.
    pub ecc_step_bytes: u32,
    /// Number of corrected bits in an ECC step at which a page should be moved (Linux: 3/4 of the strength, rounded up).
    pub bitflip_threshold: u32,
    /// Pairing scheme: the pages of a block that share cells; [`Pairing::NONE`] on all flash except MLC NAND.
    pub pairing: Pairing,
}

impl Geometry {
    /// Number of pages in an eraseblock (1 if the write unit is the block).
    pub const fn pages_per_block(&self) -> u32 {
        self.erase_bytes / self.write_bytes
    }

    /// Number of eraseblocks of the device.
    pub const fn blocks(&self) -> u32 {
        // A device has fewer than 2^32 blocks: the smallest block is 4 KiB.
        (self.size_bytes / self.erase_bytes as u64) as u32
    }

    /// Size of the flash chip, bytes; equal to the size of the device unless the device is a partition.
    pub const fn chip_bytes(&self) -> u64 {
        match self.partition_of {
            Some(bytes) if bytes > self.size_bytes => bytes,
            _ => self.size_bytes,
        }
    }

    /// Number of eraseblocks of the flash chip, counted in this device's eraseblock size, as in Linux. A chip in
    /// slc-mode therefore has twice as many as it really has.
    pub const fn chip_blocks(&self) -> u32 {
        (self.chip_bytes() / self.erase_bytes as u64) as u32
    }

    /// Start of the eraseblock that contains `addr`.
    pub const fn block_start(&self, addr: u64) -> u64 {
        addr - addr % self.erase_bytes as u64
    }

    /// Default bitflip threshold of Linux for an ECC strength.
    pub const fn default_bitflip_threshold(strength: u32) -> u32 {
        (strength * 3).div_ceil(4)
    }

    /// SLC NAND with pages of 512+16 bytes in blocks of 16 KiB, Hamming code. Sub-pages of 256 bytes, as in Linux with
    /// two ECC steps per page.
    pub const fn nand_512(blocks: u32) -> Self {
        Self::slc_nand(512, 16, 32, blocks).with_ecc(1, 256, 8).with_sub_pages(256)
    }

    /// SLC NAND with pages of 2048+64 bytes in blocks of 128 KiB, 4 bits corrected in 512 bytes, sub-pages of 512 bytes.
    pub const fn nand_2048(blocks: u32) -> Self {
        Self::slc_nand(2048, 64, 64, blocks).with_ecc(4, 512, 34).with_sub_pages(512)
    }

    /// SLC NAND with pages of 4096+128 bytes in blocks of 256 KiB, 8 bits corrected in 512 bytes, no sub-pages.
    pub const fn nand_4096(blocks: u32) -> Self {
        Self::slc_nand(4096, 128, 64, blocks).with_ecc(8, 512, 22)
    }

    /// NOR with 1-byte writes, a program buffer of 64 bytes and blocks of `erase_bytes`.
    pub const fn nor(blocks: u32, erase_bytes: u32) -> Self {
        let size_bytes = erase_bytes as u64 * blocks as u64;
        Self { buffer_bytes: 64, ..Self::plain(FlashKind::Nor, size_bytes, erase_bytes, 1) }
    }

    /// Flash without OOB, ECC and paired pages, with `write_bytes` as its only write unit.
    pub const fn plain(kind: FlashKind, size_bytes: u64, erase_bytes: u32, write_bytes: u32) -> Self {
        Self {
            kind,
            size_bytes,
            partition_of: None,
            erase_bytes,
            write_bytes,
            buffer_bytes: write_bytes,
            sub_page_bytes: write_bytes,
            oob_bytes: 0,
            oob_free_bytes: 0,
            ecc_strength: 0,
            ecc_step_bytes: 0,
            bitflip_threshold: 0,
            pairing: Pairing::NONE,
        }
    }

    /// The same geometry with sub-pages of `bytes`; the size of a page means no sub-pages.
    #[must_use]
    pub const fn with_sub_pages(mut self, bytes: u32) -> Self {
        self.sub_page_bytes = bytes;
        self
    }

    const fn slc_nand(page_bytes: u32, oob_bytes: u32, pages: u32, blocks: u32) -> Self {
        Self {
            kind: FlashKind::SlcNand,
            write_bytes: page_bytes,
            buffer_bytes: page_bytes,
            sub_page_bytes: page_bytes,
            oob_bytes,
            ..Self::nor(blocks, page_bytes * pages)
        }
    }

    const fn with_ecc(mut self, strength: u32, step_bytes: u32, oob_free_bytes: u32) -> Self {
        self.ecc_strength = strength;
        self.ecc_step_bytes = step_bytes;
        self.oob_free_bytes = oob_free_bytes;
        self.bitflip_threshold = Self::default_bitflip_threshold(strength);
        self
    }
}
