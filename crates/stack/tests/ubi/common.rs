//! Helpers shared by the tests of UBI.

use floatgate_mtd::ram::RamFlash;
use floatgate_mtd::random;
use floatgate_mtd::{Geometry, Mtd};
use floatgate_stack::ubi::{AttachOptions, FormatOptions, Ubi};

/// Small NAND flash: 16 pages of `page` bytes per block.
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

/// NAND with and without sub-pages, and NOR.
pub(crate) fn kinds(blocks: u32) -> [RamFlash; 4] {
    [nand(blocks, 2048, 2048), nand(blocks, 2048, 512), nand(blocks, 512, 512), nor(blocks)]
}

pub(crate) fn attach<M: Mtd + std::fmt::Debug + 'static>(flash: M) -> Ubi<M> {
    Ubi::attach(flash, &quiet()).unwrap()
}

/// Options of an attach that assumes no power cut.
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

/// Generator of random numbers and bytes.
#[derive(Clone, Debug)]
pub(crate) struct Random(random::Random);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    pub(crate) const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A random number below `end`.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits() as u8).collect()
    }
}
