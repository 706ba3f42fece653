//! Page and block sizes of parts and setups, for images and dumps of their flash.

use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use std::path::Path;

use floatgate_device::spec::ChipSpec;
use floatgate_image::build::{FlashShape, FlashSize};
use floatgate_image::ecc::{Marker, PageGeometry};

use floatgate_config::{Config, Kind, Library};
use floatgate_sim::rig::{self, RigOptions};

/// Sizes of a NAND part, given by its catalogue name or the path of a TOML file. Sub-pages are those that Linux uses
/// with the chip's own ECC requirement, on a controller that can program parts of a page. [`shape_of_setup`] considers
/// the actual controller.
///
/// # Errors
/// The part does not exist; its block size can be chosen; the file is wrong.
pub fn shape_of_part(library: &Library, name: impl AsRef<Path>) -> Result<FlashShape, crate::Error> {
    let chip = library.load(Kind::Part, &name)?.chip()?;
    let Some(facts) = chip.facts().nand else {
        return Err(crate::Error::request(
            format!(
                "{} is a {}: the size of its eraseblocks is a choice",
                name.as_ref().display(),
                chip.kind()
            ),
            "give the sizes instead of a part: pages of 1 byte, PEBs of 64 KiB",
        ));
    };
    let shape = FlashShape::of_nand(facts.page_bytes, facts.pages_per_block, facts.blocks);
    let worst_bad = u32::try_from(facts.max_bad_blocks).unwrap_or(u32::MAX);
    let size = shape.size.map(|size| FlashSize { worst_bad, ..size });
    Ok(FlashShape { sub_page_bytes: facts.sub_page_bytes, size, ..shape })
}

/// Sizes of the same flash in slc-mode (Linux: `slc-mode` partitions): only one page of each pair of MLC pages is used,
/// so PEBs have half as many pages. `name` is the name of the part.
///
/// # Errors
/// The part is not an MLC NAND with a known pairing scheme.
pub fn in_slc_mode(
    shape: FlashShape,
    library: &Library,
    name: impl AsRef<Path>,
) -> Result<FlashShape, crate::Error> {
    let chip = library.load(Kind::Part, &name)?.chip()?;
    let is_paired = matches!(&chip, ChipSpec::RawNand(spec) if spec.mlc.is_some());
    if !is_paired {
        return Err(crate::Error::request(
            format!(
                "{} is no MLC NAND whose pairing scheme is known: there is no slc-mode",
                name.as_ref().display()
            ),
            advice! { "take a part with a [chip.mlc] table (", Command::Parts.with("h27ucg8t2etr-bc"), ")" },
        ));
    }
    // Linux divides the size of the chip by the eraseblock size of the partition.
    let size = shape.size.map(|size| FlashSize { chip_pebs: size.chip_pebs.saturating_mul(2), ..size });
    Ok(FlashShape { peb_bytes: shape.peb_bytes / 2, size, ..shape })
}

/// Sizes of a setup's device, as its driver detects them (see `floatgate list setups`).
///
/// # Errors
/// The setup does not exist or is wrong.
pub fn shape_of_setup(library: &Library, name: impl AsRef<Path>) -> Result<FlashShape, crate::Error> {
    let config = library.resolve(&library.setup(name)?, &[])?;
    let rig = rig::wire(library, &config, RigOptions { stores: false, ..RigOptions::default() })?;
    let geometry = rig.device.geometry();
    let worst_bad = |config: &Config| -> Result<u64, crate::Error> {
        Ok(config.chip()?.facts().nand.map_or(0, |nand| nand.max_bad_blocks))
    };
    let mut bad = worst_bad(&config)?;
    for other in library.concatenated(&config)? {
        bad += worst_bad(&other)?;
    }
    Ok(FlashShape {
        page_bytes: geometry.write_bytes,
        sub_page_bytes: geometry.sub_page_bytes,
        peb_bytes: geometry.erase_bytes,
        vid_header_offset: None,
        size: Some(FlashSize {
            pebs: geometry.blocks(),
            chip_pebs: geometry.chip_blocks(),
            worst_bad: u32::try_from(bad).unwrap_or(u32::MAX),
        }),
    })
}

/// Properties of a chip on which its dumps depend.
pub struct DumpPart {
    /// Page sizes and position of the bad block marker.
    pub geometry: PageGeometry,
    /// ECC requirement of the chip: bits to correct, and bytes of a step.
    pub requires: (u32, u32),
}

/// Page properties of a NAND part, given by its catalogue name or the path of a TOML file.
///
/// # Errors
/// The part does not exist, or has no pages with OOB; the file is wrong.
pub fn pages_of_part(library: &Library, name: &str) -> Result<DumpPart, crate::Error> {
    let chip = library.load(Kind::Part, name)?.chip()?;
    let Some(facts) = chip.facts().nand else {
        return Err(crate::Error::request(
            format!("{name} is a {}: it has no pages with OOB", chip.kind()),
            advice! { "name a chip of kind `raw-nand` or `spi-nand`: ", Command::Parts, " lists them" },
        ));
    };
    let geometry = PageGeometry {
        page_bytes: facts.page_bytes,
        oob_bytes: facts.oob_bytes,
        pages_per_block: Some(facts.pages_per_block),
        pages: Some(facts.blocks.saturating_mul(facts.pages_per_block.into())),
        marker: Marker { byte: facts.marker.byte, pages: facts.marker.pages },
    };
    let checked = geometry.checked();
    let geometry = checked.map_err(|error| {
        crate::Error::request(format!("{name}: {error}"), "correct the sizes in the part's [chip.geometry]")
    })?;
    Ok(DumpPart { geometry, requires: (facts.ecc.strength, facts.ecc.step_bytes) })
}
