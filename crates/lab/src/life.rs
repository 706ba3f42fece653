//! Life of raw flash: the cycles that a block endures, and the wear that writes of programs cause.
//!
//! `advise`, its scrub period and `life` all use this module, so that a board has the same life in each of them.

use crate::advise::ecc::{self, Chip, Use};
use crate::speed::pattern;
use floatgate_config::Config;
use floatgate_config::Library;
use floatgate_device::cells::CellsProfile;
use floatgate_image::words::measure;
use floatgate_media::ubifs::ROOT_INODE;
use floatgate_mtd::Geometry;
use floatgate_mtd::size::text as size;
use floatgate_sim::error::Error;
use floatgate_sim::machine::{self, FileCompression, Filesystem, FilesystemKind};
use floatgate_sim::page_cache::PAGE;
use floatgate_sim::rig::{self, RigOptions};
use floatgate_stack::fs::{NewFile, NewKind};
use serde::Serialize;

/// Days per year.
pub(crate) const DAYS_PER_YEAR: f64 = 365.25;

/// Years beyond which wear does not limit the life of a device.
pub const YEARS_MAX: f64 = 100.0;

/// Years until `bytes` are written; `None` if nothing is written per day, or if it takes more than [`YEARS_MAX`].
pub fn years(bytes: f64, bytes_per_day: u64) -> Option<f64> {
    let years = bytes / bytes_per_day as f64 / DAYS_PER_YEAR;
    Some(years).filter(|years| *years <= YEARS_MAX)
}

/// Text of a size in its most likely unit: decimal if it is a whole number of MB.
pub fn in_units(bytes: u64) -> String {
    let whole = |unit: u64| bytes >= unit && bytes.is_multiple_of(unit) && !bytes.is_multiple_of(1 << 20);
    match bytes {
        _ if whole(1_000_000_000) => format!("{} GB", bytes / 1_000_000_000),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if whole(1_000_000) => format!("{} MB", bytes / 1_000_000),
        _ => size(bytes),
    }
}

/// Text of a size in TB, or in GB if it is small.
pub(crate) fn terabytes(bytes: f64) -> String {
    if bytes < 1e11 { format!("{:.1} GB", bytes / 1e9) } else { format!("{:.1} TB", bytes / 1e12) }
}

/// Text of [`years`] that follows the words "N bytes can be written, ".
pub fn in_words(bytes: f64, bytes_per_day: u64) -> String {
    let pace = format!("at {} a day", in_units(bytes_per_day));
    match years(bytes, bytes_per_day) {
        _ if bytes_per_day == 0 => "and with 0 bytes a day nothing wears".to_owned(),
        Some(years) => format!("{years:.1} years {pace}"),
        None => format!("more than {YEARS_MAX} years {pace}: wear is not the limit"),
    }
}

/// Erase cycles that a block endures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Endurance {
    /// Number of cycles, counted from a new block.
    pub cycles: u64,
    /// Cycles that the blocks have had before the first day.
    pub before: u64,
    /// Origin of the cycles, in words that follow their number.
    pub reason: String,
}

impl Endurance {
    /// Cycles that the blocks of a setup endure: the promise of the part, or fewer if the ECC cannot correct that many
    /// in this use.
    ///
    /// # Errors
    /// A value of the setup is wrong.
    pub fn of_config(config: &Config, geometry: &Geometry, use_: Use) -> Result<Self, Error> {
        let chip = config.chip()?;
        let is_nand = chip.kind().is_nand();
        // NOR cells are not simulated, so they have no earlier cycles.
        let before =
            if is_nand { config.extract_or_default::<CellsProfile>("cells")?.cycles.into() } else { 0 };
        let promised = match chip.promised_cycles() {
            Some(cycles) => cycles,
            None if is_nand => Chip::of_config(config)?.endurance_cycles,
            None => USUAL_NOR_CYCLES,
        };
        let is_promised = chip.promised_cycles().is_some();
        let own = if is_nand { Some(ecc::own_verdict(config, geometry, use_)?) } else { None };
        Ok(match own.filter(|own| own.cycles < promised) {
            None if is_promised => {
                Self { cycles: promised, before, reason: "as the part promises".to_owned() }
            }
            None => {
                Self { cycles: promised, before, reason: "which is usual: the part states none".to_owned() }
            }
            Some(own) if own.code == ecc::NO_ECC => Self {
                cycles: own.cycles,
                before,
                reason: "for which pages without ECC hold data".to_owned(),
            },
            Some(own) => Self {
                cycles: own.cycles,
                before,
                reason: format!(
                    "up to which the setup's own {} holds data for {} at {} C; {} {promised}",
                    own.code,
                    measure(use_.years, "year"),
                    use_.temperature_c,
                    if is_promised { "the part promises" } else { "usual are" }
                ),
            },
        })
    }

    /// Remaining cycles.
    pub const fn left(&self) -> u64 {
        self.cycles.saturating_sub(self.before)
    }
}

/// Usual cycles in data sheets of NOR.
const USUAL_NOR_CYCLES: u64 = 100_000;

/// Difference of erase cycles above which UBI moves static data (Linux: `UBI_WL_THRESHOLD`).
pub(crate) const WEAR_THRESHOLD: f64 = 4096.0;

/// Wear of a partition that writes of programs to its filesystem cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wear {
    /// Erases per byte that programs write.
    pub erasures_per_byte: f64,
    /// Number of good eraseblocks without static files.
    pub changing: u32,
    /// Number of good eraseblocks.
    pub blocks: u32,
}

/// Maximum size of the file that is overwritten, bytes, and maximum share of the free space. Old and new content and
/// pending garbage collection need the rest.
pub(crate) const HOT: u64 = 256 << 10;
const HOT_PART: u64 = 8;

/// Size of the file that is overwritten, bytes, if static files use `stays` of `available` bytes.
pub(crate) fn hot_bytes(available: u64, stays: u64) -> u64 {
    (available.saturating_sub(stays) / HOT_PART / PAGE * PAGE).clamp(PAGE, HOT)
}

/// Minimum number of bytes written to measure the wear, and minimum number of eraseblocks that they fill: several
/// commits of UBIFS's largest journal.
const WRITTEN: u64 = 16 << 20;
const WRITTEN_BLOCKS: u64 = 32;

impl Wear {
    /// Overwrites a file repeatedly on a new filesystem in pieces of `piece` bytes, with `fsync` after each, and counts
    /// the eraseblocks used. Static files are not written: `fill_percent` of the free space counts as theirs, and their
    /// eraseblocks are not reused.
    ///
    /// The setup is wrong, or the filesystem cannot be created on it.
    pub fn measure(
        library: &Library,
        config: &Config,
        kind: FilesystemKind,
        fill_percent: u32,
        piece: u64,
    ) -> Result<Self, Error> {
        const REGULAR: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let rig = rig::wire(library, config, RigOptions::default())?;
        // Random bytes are incompressible, so compression is not tried.
        let own = Filesystem { kind, compression: FileCompression::None, ..Filesystem::of_setup(config)? };
        let mut fs = machine::make(rig, &own.layers()?)?;
        let geometry = fs.device().geometry();
        let (chip_blocks, erase_bytes) = (geometry.blocks(), u64::from(geometry.erase_bytes));
        let available = fs.space().available_blocks * PAGE;
        let stays = available / 100 * u64::from(fill_percent);
        let (_, leb_bytes) = fs.eraseblocks();
        let blocks = chip_blocks.saturating_sub(fs.census().bad).max(1);
        let held = u32::try_from(stays.div_ceil(u64::from(leb_bytes.max(1)))).unwrap_or(u32::MAX);
        let content = pattern(hot_bytes(available, stays) as usize);
        let failed = machine::failed("writing a file over");
        let inode = fs.create(ROOT_INODE, b"changes", &REGULAR).map_err(&failed)?;
        let (before, mut written) = (fs.eraseblocks_used(), 0_u64);
        while written < WRITTEN.max(WRITTEN_BLOCKS * erase_bytes) {
            let start = (written % content.len() as u64) as usize;
            let end = content.len().min(start + piece.clamp(1, HOT) as usize);
            fs.write(inode, start as u64, &content[start..end]).map_err(&failed)?;
            fs.fsync(inode).map_err(&failed)?;
            written += (end - start) as u64;
        }
        let used = fs.eraseblocks_used() - before;
        Ok(Self {
            erasures_per_byte: used.max(1) as f64 / written as f64,
            changing: blocks.saturating_sub(held).max(1),
            blocks,
        })
    }

    /// Erase cycles of the most worn block after programs wrote `bytes`. Blocks without static files wear first. From a
    /// difference of `UBI_WL_THRESHOLD` cycles on, all blocks wear equally.
    pub fn cycles(&self, bytes: f64) -> f64 {
        let erasures = bytes * self.erasures_per_byte;
        let changing = f64::from(self.changing);
        let apart = (erasures / changing).min(WEAR_THRESHOLD);
        apart + (erasures - apart * changing) / f64::from(self.blocks)
    }

    /// Number of bytes that programs can write until the most worn block has this number of cycles.
    pub fn bytes(&self, cycles: f64) -> f64 {
        let apart = cycles.min(WEAR_THRESHOLD);
        let erasures = apart * f64::from(self.changing) + (cycles - apart) * f64::from(self.blocks);
        erasures / self.erasures_per_byte
    }

    /// True if all blocks wear equally after this number of cycles of the most worn block.
    pub(crate) fn is_levelled(cycles: f64) -> bool {
        cycles >= WEAR_THRESHOLD
    }

    /// Text of the wear.
    pub fn in_words(&self) -> String {
        format!(
            "an erasure for each {} that programs write in pieces of {} with fsync, on the {} of {} eraseblocks that hold no file that stays, and on all of them once wear levelling moves these ({WEAR_THRESHOLD} cycles)",
            size((1.0 / self.erasures_per_byte) as u64 / 1024 * 1024),
            size(HOT),
            self.changing,
            self.blocks
        )
    }
}

/// Life of the flash of a setup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlashLife {
    /// Cycles that a block endures.
    pub endurance: Endurance,
    /// Wear caused by writes of programs.
    pub wear: Wear,
}

impl FlashLife {
    /// Number of bytes that programs can write before the most worn block has had all its cycles.
    pub fn bytes(&self) -> f64 {
        self.wear.bytes(self.endurance.left() as f64)
    }

    /// Years at this number of bytes per day; `None` beyond [`YEARS_MAX`].
    pub fn years(&self, bytes_per_day: u64) -> Option<f64> {
        years(self.bytes(), bytes_per_day)
    }

    /// Erase cycles of the most worn block after some years, including the earlier ones.
    pub fn cycles_after(&self, years: f64, bytes_per_day: u64) -> u64 {
        let worn = self.wear.cycles(years * DAYS_PER_YEAR * bytes_per_day as f64);
        self.endurance.before + worn.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_cycles_are_inverse() {
        let wear = Wear { erasures_per_byte: 1e-5, changing: 300, blocks: 1000 };
        for cycles in [1.0, 4095.0, 4096.0, 5000.0, 100_000.0] {
            let back = wear.cycles(wear.bytes(cycles));
            assert!((back / cycles - 1.0).abs() < 1e-9, "{cycles}: {back}");
        }
        // At first only the blocks without static files wear.
        assert!((wear.cycles(3e7) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn more_than_a_hundred_years_are_not_counted() {
        let day = 1_u64 << 20;
        let bytes = |years: f64| years * DAYS_PER_YEAR * day as f64;
        assert_eq!(in_words(bytes(21.0), day), "21.0 years at 1 MiB a day");
        assert_eq!(
            in_words(bytes(24_114.0), day),
            "more than 100 years at 1 MiB a day: wear is not the limit"
        );
        assert_eq!(years(bytes(100.5), day), None);
        assert_eq!(in_words(1e12, 0), "and with 0 bytes a day nothing wears");
    }
}
