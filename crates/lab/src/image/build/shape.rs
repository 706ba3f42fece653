//! The flash that an image is for.

use std::path::Path;

use floatgate_device::raw_nand::RawNandSpec;
use floatgate_device::spi_nand::SpiNandSpec;
use floatgate_media::ubi;
use floatgate_stack::VolumeGeometry;

use super::BuildError;
use crate::config::{Kind, Library, Part};
use crate::rig::{self, RigOptions};

/// Bytes that are written at once: nothing on flash depends on it, and a host likes large writes.
const WRITE_BYTES: u32 = 32 << 10;

/// PEBs that UBI keeps for itself: two for the volume table, one to level wear, one to change LEBs atomically.
const UBI_OWN_PEBS: u32 = 4;

/// Bad PEBs that Linux expects among 1024.
const BAD_PER_1024: u64 = 20;

/// Sizes of the flash that an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashShape {
    /// Smallest write: a page; 1 on NOR.
    pub page_bytes: u32,
    /// Smallest write of UBI's headers.
    pub sub_page_bytes: u32,
    /// Bytes of a PEB.
    pub peb_bytes: u32,
    /// Byte in a PEB where the VID header begins; UBI's own choice unless given.
    pub vid_header_offset: Option<u32>,
    /// PEBs of the flash, where they are known.
    pub pebs: Option<u32>,
}

impl FlashShape {
    /// The sizes of a NAND part: a name of the catalogue, or the path of a TOML file. Sub-pages are those that Linux has with the
    /// chip's own ECC requirement on a controller that can program parts of a page; [`FlashShape::of_setup`] knows the controller.
    ///
    /// # Errors
    /// No such part; one whose block size is a matter of choice; a file that is wrong.
    pub fn of_part(library: &Library, name: impl AsRef<Path>) -> Result<Self, crate::Error> {
        let loaded = library.load(Kind::Part, &name)?;
        let head: Part = loaded.head.extract("")?;
        match head.kind.as_str() {
            "raw-nand" => {
                let spec: RawNandSpec = loaded.table.extract("")?;
                let g = &spec.geometry;
                let blocks = u64::from(g.blocks_per_lun) * u64::from(g.luns) * u64::from(g.targets);
                let sub_page_bytes = g.sub_page_bytes(spec.nop, spec.ecc.step_bytes, true);
                Ok(Self { sub_page_bytes, ..Self::of_nand(g.page_bytes, g.pages_per_block, blocks) })
            }
            "spi-nand" => {
                let spec: SpiNandSpec = loaded.table.extract("")?;
                let g = &spec.geometry;
                let blocks = u64::from(g.blocks_per_lun) * u64::from(g.luns);
                Ok(Self::of_nand(g.page_bytes, g.pages_per_block, blocks))
            }
            kind => Err(crate::Error::asked(
                format!("{} is a {kind}: the size of its erase blocks is a choice", name.as_ref().display()),
                "give the sizes: --page-size 1 --peb-size 64KiB",
            )),
        }
    }

    /// The same flash in slc-mode (Linux: `slc-mode` partitions): of each pair of MLC pages only one is used, so that PEBs have half
    /// as many pages. `name` is the part's.
    ///
    /// # Errors
    /// The part is no MLC NAND whose pairing scheme is known.
    pub fn in_slc_mode(self, library: &Library, name: impl AsRef<Path>) -> Result<Self, crate::Error> {
        let loaded = library.load(Kind::Part, &name)?;
        let spec = loaded.table.extract::<RawNandSpec>("").ok();
        if spec.is_none_or(|spec| spec.mlc.is_none()) {
            return Err(crate::Error::asked(
                format!(
                    "{} is no MLC NAND whose pairing scheme is known: there is no slc-mode",
                    name.as_ref().display()
                ),
                "leave --slc out, or take a part with a [chip.mlc] table (`floatgate parts h27ucg8t2etr-bc`)",
            ));
        }
        Ok(Self { peb_bytes: self.peb_bytes / 2, ..self })
    }

    /// The sizes of a setup's device (see `floatgate setups`), as its driver found them.
    ///
    /// # Errors
    /// No such setup, or one that is wrong.
    pub fn of_setup(library: &Library, name: impl AsRef<Path>) -> Result<Self, crate::Error> {
        let config = library.resolve(&library.setup(name)?, &[])?;
        let rig = rig::wire(library, &config, RigOptions { stores: false, ..RigOptions::default() })?;
        let geometry = rig.device.geometry();
        Ok(Self {
            page_bytes: geometry.write_bytes,
            sub_page_bytes: geometry.sub_page_bytes,
            peb_bytes: geometry.erase_bytes,
            vid_header_offset: None,
            pebs: Some(geometry.blocks()),
        })
    }

    fn of_nand(page_bytes: u32, pages_per_block: u32, blocks: u64) -> Self {
        Self {
            page_bytes,
            sub_page_bytes: page_bytes,
            peb_bytes: page_bytes.saturating_mul(pages_per_block),
            vid_header_offset: None,
            pebs: Some(u32::try_from(blocks).unwrap_or(u32::MAX)),
        }
    }

    /// Offsets of headers and data in a PEB.
    ///
    /// # Errors
    /// Sizes that no UBI device has.
    pub fn ubi(&self) -> Result<ubi::Geometry, BuildError> {
        let flash = ubi::Flash {
            peb_bytes: self.peb_bytes,
            min_io_bytes: self.page_bytes,
            sub_page_bytes: self.sub_page_bytes,
        };
        let geometry = match self.vid_header_offset {
            Some(offset) => ubi::Geometry::with_vid_header_offset(flash, offset),
            None => ubi::Geometry::new(flash),
        };
        geometry.map_err(|reason| BuildError::Shape(reason.to_string()))
    }

    /// LEBs that volumes of the whole flash can have, where its size is known: what Linux leaves when it expects as many bad
    /// PEBs as it does by itself.
    #[must_use]
    pub fn available_lebs(&self) -> Option<u32> {
        let pebs = self.pebs?;
        let bad = (u64::from(pebs) * BAD_PER_1024).div_ceil(1024);
        let bad = if self.page_bytes == 1 { 0 } else { u32::try_from(bad).unwrap_or(u32::MAX) };
        Some(pebs.saturating_sub(UBI_OWN_PEBS).saturating_sub(bad))
    }

    /// A volume of `lebs` LEBs on it.
    pub(super) fn volume(&self, geometry: &ubi::Geometry, lebs: u32) -> VolumeGeometry {
        VolumeGeometry {
            lebs,
            leb_bytes: geometry.leb_bytes(),
            min_io_bytes: self.page_bytes,
            max_write_bytes: self.page_bytes.max(WRITE_BYTES).min(self.peb_bytes),
            leb_start: 0,
            read_only: false,
        }
    }
}
