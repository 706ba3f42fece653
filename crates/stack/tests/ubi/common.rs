//! What the tests share.

use floatgate_mtd::ram::RamFlash;
use floatgate_mtd::{Geometry, Mtd};
use floatgate_stack::ubi::{AttachOptions, FormatOptions, Ubi};

/// Small NAND: pages of `page` bytes, 16 a block.
pub(crate) fn nand(blocks: u32, page: u32, sub_page: u32) -> RamFlash {
    let mut geometry = Geometry::nand_2048(blocks).with_sub_pages(sub_page);
    geometry.write_bytes = page;
    geometry.buffer_bytes = page;
    geometry.sub_page_bytes = sub_page;
    geometry.erase_bytes = 16 * page;
    geometry.size_bytes = u64::from(blocks) * u64::from(geometry.erase_bytes);
    RamFlash::new(geometry)
}

pub(crate) fn nor(blocks: u32) -> RamFlash {
    RamFlash::new(Geometry::nor(blocks, 16384))
}

/// With and without sub-pages, and NOR.
pub(crate) fn kinds(blocks: u32) -> [RamFlash; 4] {
    [nand(blocks, 2048, 2048), nand(blocks, 2048, 512), nand(blocks, 512, 512), nor(blocks)]
}

pub(crate) fn attach<M: Mtd + std::fmt::Debug + 'static>(flash: M) -> Ubi<M> {
    Ubi::attach(flash, &quiet()).unwrap()
}

/// Attach as if there never was a power cut.
pub(crate) fn quiet() -> AttachOptions {
    AttachOptions { after_power_cut: false, ..AttachOptions::default() }
}

pub(crate) fn formatted<M: Mtd + std::fmt::Debug + 'static>(flash: M) -> M {
    let options = FormatOptions { image_seq: 7, ..FormatOptions::default() };
    Ubi::format(flash, &options).unwrap().0
}

/// All bytes of a device.
pub(crate) fn bytes(flash: &RamFlash) -> Vec<u8> {
    let mut all = Vec::new();
    let copied: Result<(), ()> = flash.copy_to(|part| {
        all.extend_from_slice(part);
        Ok(())
    });
    copied.unwrap();
    all
}

/// A sequence of numbers that look random (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
