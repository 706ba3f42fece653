//! Flash of a setup, and flash in memory that replaces it.

use crate::speed_run;
use floatgate_mtd::advice;
use floatgate_mtd::advice::set;
use std::path::Path;

use floatgate_device::spec::ChipKind;
use floatgate_device::wire::Device;
use floatgate_media::crc;
use floatgate_media::ubi;
use floatgate_media::ubifs::MIN_LEB_BYTES;
use floatgate_mtd::{FaultPlan, Faults, FlashKind, Geometry, Mtd, Pairing, PowerCut, RamFlash};

use super::chip::{Flash, Powered, wired};
use super::id::FlashId;
use crate::Error;
use floatgate_config::{Config, Library, Override};
use floatgate_image::words::count;
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::rig::{self, RigOptions};

/// Faults of a run: far more than a real chip has, so that even a short workload meets some. The number of bad blocks
/// stays below the reserve of UBI ([`MAX_BAD_PER_1024`]).
pub(super) fn fault_plan(geometry: &Geometry, seed: u64) -> FaultPlan {
    let blocks = geometry.blocks();
    FaultPlan {
        seed,
        factory_bad: blocks.div_ceil(50),
        grown_bad_max: blocks.div_ceil(25),
        // With a bitflip threshold of 1, UBI discards a block as soon as it sees one bitflip in a torture test.
        bitflip_ppm: if geometry.bitflip_threshold > 1 { 20_000 } else { 200 },
        // Like Linux, UBI fails after four consecutive blocks fail. With a higher rate, writing whole blocks of 64
        // pages would sometimes cause that.
        program_fail_ppm: 1_000,
        erase_fail_ppm: 20_000,
    }
}

/// Expected bad blocks per 1024 in UBI's configuration for flash with faults.
pub(super) const MAX_BAD_PER_1024: u32 = 150;

const NOR_HAS_NO_FAULTS: &str =
    "NOR has no bad blocks that could be replaced, and no ECC: it has no faults here";

/// Erased flash in memory; with `faults`, it has faults that follow from the seed.
///
/// # Errors
/// Description of the error if this flash cannot have faults.
pub fn erased(geometry: &Geometry, faults: bool, seed: u64) -> Result<Box<dyn Powered>, String> {
    let powered = |flash: Box<dyn Flash>| Box::new(PowerCut::new(flash));
    let flash = RamFlash::new(geometry.clone());
    if !faults {
        return Ok(powered(Box::new(flash)));
    }
    if geometry.kind == FlashKind::Nor {
        return Err(NOR_HAS_NO_FAULTS.to_owned());
    }
    let flash = Faults::new(flash, fault_plan(geometry, seed)).map_err(|error| error.to_string())?;
    Ok(powered(Box::new(flash)))
}

/// Default size of the flash, bytes, and minimum number of eraseblocks: UBIFS needs that many.
const DEFAULT_BYTES: u64 = 16 << 20;
const MIN_BLOCKS: u64 = 64;

/// Geometry of a device with fewer eraseblocks: `size_bytes` or, by default, 16 MiB, but at least 64 eraseblocks.
///
/// # Errors
/// Reason in words why a filesystem cannot be tested on such flash.
pub fn shrunk(device: &Geometry, size_bytes: Option<u64>) -> Result<Geometry, String> {
    if device.pairing != Pairing::NONE {
        return Err(
            "pages of MLC NAND lose what is in their pair when power is cut: set `partition.slc=true`"
                .to_owned(),
        );
    }
    let erase_bytes = u64::from(device.erase_bytes);
    let wanted =
        size_bytes.unwrap_or_else(|| DEFAULT_BYTES.max(MIN_BLOCKS * erase_bytes).min(device.size_bytes));
    if wanted > device.size_bytes || wanted < erase_bytes {
        return Err(format!(
            "a size of {}, where it has {} in blocks of {erase_bytes}",
            count(wanted, "byte"),
            device.size_bytes
        ));
    }
    let kind = if device.kind == FlashKind::Nor { FlashKind::Nor } else { FlashKind::SlcNand };
    // The flash counts as a complete small chip.
    Ok(Geometry { kind, size_bytes: wanted - wanted % erase_bytes, partition_of: None, ..device.clone() })
}

/// Override of the eraseblock size of SPI NOR whose smallest sectors are too small for UBIFS. All chips have these
/// sectors, and Linux uses them if it is built without `CONFIG_MTD_SPI_NOR_USE_4K_SECTORS`.
const SECTORS: &str = "driver.erase_bytes=64KiB";

/// Flash of a setup, reduced for power-cut tests.
#[derive(Clone, Debug)]
pub struct SetupFlash {
    config: Config,
    /// Geometry with fewer eraseblocks.
    pub geometry: Geometry,
    /// The setup's own eraseblock size in bytes, if it is too small for UBIFS and larger sectors are used.
    pub too_small_bytes: Option<u32>,
}

impl SetupFlash {
    /// Flash of a setup with the overrides `sets` for a filesystem, with the size of [`shrunk`].
    ///
    /// # Errors
    /// Errors of the setup; a filesystem cannot be tested on such flash.
    pub fn of_setup(
        library: &Library,
        name: impl AsRef<Path>,
        sets: &[Override],
        (fs, size_bytes): (FilesystemKind, Option<u64>),
    ) -> Result<Self, Error> {
        let setup = library.setup(name)?;
        let config = library.resolve(&setup, sets)?;
        let own = geometry_of(library, &config)?;
        let given = config.tree().get("driver.erase_bytes").is_some();
        let spi_nor = config.chip_kind()? == ChipKind::SpiNor;
        let is_too_small = fs == FilesystemKind::Ubifs && spi_nor && !given && !holds_ubifs(&own);
        let (config, geometry, too_small_bytes) = if is_too_small {
            let sets = [sets, &[Override::parse(SECTORS, sets.len())?]].concat();
            let config = library.resolve(&setup, &sets)?;
            let geometry = geometry_of(library, &config)?;
            (config, geometry, Some(own.erase_bytes))
        } else {
            (config, own, None)
        };
        let geometry = shrunk(&geometry, size_bytes).map_err(|what| {
            Error::request(
                format!("{}: {what}", config.part().name),
                advice! { "choose another size, or set another chip (", set("chip", "NAME"), ")" },
            )
        })?;
        Ok(Self { config, geometry, too_small_bytes })
    }

    /// Title of the setup: board and chip.
    pub fn title(&self) -> String {
        speed_run::title(&self.config)
    }

    /// Name of the setup on whose board a part is used.
    pub fn board(&self) -> Option<&str> {
        self.config.board()
    }

    /// Name of the chip in ids of runs: the CRC of the resolved setup.
    #[must_use]
    pub fn id(&self) -> FlashId {
        let blocks = self.geometry.blocks();
        FlashId::Chip { setup: crc::ubi(self.config.to_toml().as_bytes()), blocks }
    }

    /// Simulated chip with the variation of a seed. With `faults`, it has the maximum number of factory bad blocks.
    ///
    /// # Errors
    /// Reason in words why the chip cannot be built; the chip cannot have faults.
    pub fn chip(&self, library: &Library, seed: u64, faults: bool) -> Result<Box<dyn Powered>, String> {
        Ok(Box::new(self.device(library, seed, faults)?))
    }

    /// Simulated chip of [`SetupFlash::chip`], with the complete interface of driver and chip.
    ///
    /// # Errors
    /// The errors of [`SetupFlash::chip`].
    pub fn device(&self, library: &Library, seed: u64, faults: bool) -> Result<Box<dyn Device>, String> {
        if faults && self.geometry.kind == FlashKind::Nor {
            return Err(NOR_HAS_NO_FAULTS.to_owned());
        }
        let chip = self.config.chip().map_err(|error| error.to_string())?;
        let bad_blocks = if faults { chip.facts().max_bad_blocks_per_lun() } else { 0 };
        wired(library, &self.config, self.geometry.size_bytes, (seed, bad_blocks))
    }
}

fn geometry_of(library: &Library, config: &Config) -> Result<Geometry, Error> {
    let rig = rig::wire(library, config, RigOptions { stores: false, ..RigOptions::default() })?;
    Ok(rig.device.geometry().clone())
}

/// True if LEBs on this NOR are large enough for UBIFS.
fn holds_ubifs(geometry: &Geometry) -> bool {
    ubi_geometry(geometry).is_some_and(|ubi| ubi.leb_bytes() >= MIN_LEB_BYTES)
}

/// Offset of the first byte of a LEB in its flash program unit. Linux's UBIFS assumes 0. If it is not 0, Linux may
/// refuse to mount after a power cut, because `recovery.c` aligns to `max_write_size` in the LEB, without `leb_start`.
#[must_use]
pub fn leb_start(geometry: &Geometry) -> u32 {
    let program_bytes = geometry.write_bytes.max(geometry.buffer_bytes);
    ubi_geometry(geometry).and_then(|ubi| ubi.data_offset().checked_rem(program_bytes)).unwrap_or(0)
}

fn ubi_geometry(geometry: &Geometry) -> Option<ubi::Geometry> {
    let flash = ubi::Flash {
        peb_bytes: geometry.erase_bytes,
        min_io_bytes: geometry.write_bytes,
        sub_page_bytes: geometry.sub_page_bytes,
    };
    ubi::Geometry::new(flash).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lebs_begin_inside_large_nor_programs() {
        let nor = |buffer_bytes| Geometry { buffer_bytes, ..Geometry::nor(20, 65536) };
        assert_eq!([64, 128, 256, 1024].map(|buffer_bytes| leb_start(&nor(buffer_bytes))), [0, 0, 128, 128]);
        let nand = [Geometry::nand_512(80), Geometry::nand_2048(64), Geometry::nand_4096(64)];
        assert_eq!(nand.map(|geometry| leb_start(&geometry)), [0, 0, 0]);
    }

    #[test]
    fn chips_are_made_smaller() {
        let device = Geometry::nand_2048(2048);
        let blocks = |size| shrunk(&device, size).map(|geometry| geometry.blocks());
        assert_eq!(
            (blocks(None), blocks(Some(5 << 20)), blocks(Some(256 << 20))),
            (Ok(128), Ok(40), Ok(2048))
        );
        assert!(blocks(Some(257 << 20)).is_err() && blocks(Some(1)).is_err());
        let small = Geometry::nor(20, 65536);
        assert_eq!(shrunk(&small, None), Ok(small));
        let large = Geometry { erase_bytes: 1 << 20, size_bytes: 1 << 30, ..device };
        assert_eq!(shrunk(&large, None).map(|geometry| geometry.blocks()), Ok(64));
    }
}
