//! Sizes of parts and setups, for images and dumps of their flash.

use std::path::Path;

use floatgate_device::raw_nand::RawNandSpec;
use floatgate_device::raw_nand::spec::MarkerPage;
use floatgate_device::spi_nand::SpiNandSpec;
use floatgate_image::build::FlashShape;
use floatgate_image::ecc::{Marker, PageGeometry};

use crate::config::{Kind, Library, Part};
use crate::rig::{self, RigOptions};

/// The sizes of a NAND part: a name of the catalogue, or the path of a TOML file. Sub-pages are those that Linux has with the
/// chip's own ECC requirement on a controller that can program parts of a page; [`shape_of_setup`] knows the controller.
///
/// # Errors
/// No such part; one whose block size is a matter of choice; a file that is wrong.
pub fn shape_of_part(library: &Library, name: impl AsRef<Path>) -> Result<FlashShape, crate::Error> {
    let loaded = library.load(Kind::Part, &name)?;
    let head: Part = loaded.head.extract("")?;
    match head.kind.as_str() {
        "raw-nand" => {
            let spec: RawNandSpec = loaded.table.extract("")?;
            let g = &spec.geometry;
            let blocks = u64::from(g.blocks_per_lun) * u64::from(g.luns) * u64::from(g.targets);
            let sub_page_bytes = g.sub_page_bytes(spec.nop, spec.ecc.step_bytes, true);
            Ok(FlashShape { sub_page_bytes, ..FlashShape::of_nand(g.page_bytes, g.pages_per_block, blocks) })
        }
        "spi-nand" => {
            let spec: SpiNandSpec = loaded.table.extract("")?;
            let g = &spec.geometry;
            let blocks = u64::from(g.blocks_per_lun) * u64::from(g.luns);
            Ok(FlashShape::of_nand(g.page_bytes, g.pages_per_block, blocks))
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
pub fn in_slc_mode(
    shape: FlashShape,
    library: &Library,
    name: impl AsRef<Path>,
) -> Result<FlashShape, crate::Error> {
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
    Ok(FlashShape { peb_bytes: shape.peb_bytes / 2, ..shape })
}

/// The sizes of a setup's device (see `floatgate setups`), as its driver found them.
///
/// # Errors
/// No such setup, or one that is wrong.
pub fn shape_of_setup(library: &Library, name: impl AsRef<Path>) -> Result<FlashShape, crate::Error> {
    let config = library.resolve(&library.setup(name)?, &[])?;
    let rig = rig::wire(library, &config, RigOptions { stores: false, ..RigOptions::default() })?;
    let geometry = rig.device.geometry();
    Ok(FlashShape {
        page_bytes: geometry.write_bytes,
        sub_page_bytes: geometry.sub_page_bytes,
        peb_bytes: geometry.erase_bytes,
        vid_header_offset: None,
        pebs: Some(geometry.blocks()),
    })
}

/// A chip as far as dumps of it need it.
pub struct DumpPart {
    /// Sizes and marker.
    pub geometry: PageGeometry,
    /// Bits that the chip asks to have corrected, and in how many bytes.
    pub requires: (u32, u32),
}

/// The pages of a NAND part: a name of the catalogue, or the path of a TOML file.
///
/// # Errors
/// No such part; one without pages and OOB; a file that is wrong.
pub fn pages_of_part(library: &Library, name: &str) -> Result<DumpPart, crate::Error> {
    let loaded = library.load(Kind::Part, name)?;
    let head: Part = loaded.head.extract("")?;
    let part = match head.kind.as_str() {
        "raw-nand" => raw(&loaded.table.extract("")?),
        "spi-nand" => spi(&loaded.table.extract("")?),
        kind => {
            return Err(crate::Error::asked(
                format!("{name} is a {kind}: it has no pages with OOB"),
                "name a NAND: `floatgate parts --kind raw-nand` or `--kind spi-nand` lists them",
            ));
        }
    };
    let checked = part.geometry.checked();
    let geometry = checked.map_err(|error| crate::Error::asked(format!("{name}: {error}"), error.help()))?;
    Ok(DumpPart { geometry, requires: part.requires })
}

/// Numbers of a user's file may be anything.
fn product(factors: [u32; 4]) -> u64 {
    factors.into_iter().fold(1, |all: u64, factor| all.saturating_mul(factor.into()))
}

fn raw(spec: &RawNandSpec) -> DumpPart {
    let g = &spec.geometry;
    let marker = &spec.bad_block_marker;
    let page = |page: &MarkerPage| page.page(g.pages_per_block.max(1));
    let geometry = PageGeometry {
        page_bytes: g.page_bytes,
        oob_bytes: g.oob_bytes,
        pages_per_block: Some(g.pages_per_block),
        pages: Some(product([g.blocks_per_lun, g.luns, g.targets, g.pages_per_block])),
        marker: Marker { byte: marker.byte(g), pages: marker.pages.iter().map(page).collect() },
    };
    DumpPart { geometry, requires: (spec.ecc.strength, spec.ecc.step_bytes) }
}

fn spi(spec: &SpiNandSpec) -> DumpPart {
    let g = &spec.geometry;
    let geometry = PageGeometry {
        page_bytes: g.page_bytes,
        oob_bytes: g.oob_bytes,
        pages_per_block: Some(g.pages_per_block),
        pages: Some(product([g.blocks_per_lun, g.luns, 1, g.pages_per_block])),
        marker: Marker { byte: 0, pages: vec![0] },
    };
    DumpPart { geometry, requires: (spec.ecc.strength, spec.ecc.step_bytes) }
}
