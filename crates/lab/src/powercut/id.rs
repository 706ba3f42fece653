//! Id of a run: everything that is needed to repeat it.

use std::fmt;
use std::str::FromStr;

use floatgate_mtd::power_cut::{CutKind, Stage};
use floatgate_mtd::{FlashKind, Geometry, Pairing};
pub use floatgate_program::powercut::CutAt;
pub(super) use floatgate_program::powercut::kind_name;
use floatgate_sim::machine::FilesystemKind;

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Power is cut, and cut again during each following recovery.
    Cuts(Vec<CutAt>),
    /// The filesystem is unmounted after this step, counted from 0.
    Unmount(usize),
}

/// Flash of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlashId {
    /// Flash in memory with this geometry.
    Ram(Geometry),
    /// The simulated chip of a setup.
    Chip {
        /// CRC of the resolved setup.
        setup: u32,
        /// Number of eraseblocks that are used.
        blocks: u32,
    },
}

/// One run: flash, workload and end.
///
/// The text form is `FLASH:SEED.STEPS:OPERATION.KIND.TEAR-OPERATION.KIND.TEAR` with any number of cuts, in which a
/// `TEAR` of 0 is left out, or `FLASH:SEED.STEPS:unmount.STEP`. An `f` follows `STEPS` if the flash has faults, and a
/// `j` if the filesystem is JFFS2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    /// Flash in memory, or the chip of a setup.
    pub flash: FlashId,
    /// Kind of the filesystem.
    pub fs: FilesystemKind,
    /// True if the flash has faults; on a chip, if it has bad blocks.
    pub faults: bool,
    /// Seed of the workload, of the filesystem's parameters and of torn operations.
    pub seed: u64,
    /// Number of steps of the workload. With another number, the workload differs.
    pub steps: usize,
    /// End of the run.
    pub end: End,
}

/// Error for a text that is not the id of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a run: copy it whole, as `floatgate powercut` prints it")]
pub struct ParseIdError(String);

/// Index of a kind among all kinds.
pub(super) const fn kind_index(kind: CutKind) -> usize {
    match kind {
        CutKind::Before => 0,
        CutKind::During(Stage::Early) => 1,
        CutKind::During(Stage::Middle) => 2,
        CutKind::During(Stage::Late) => 3,
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = if self.faults { "f" } else { "" };
        let fs = match self.fs {
            FilesystemKind::Ubifs => "",
            FilesystemKind::Jffs2 => "j",
        };
        write!(f, "{}:{}.{}{faults}{fs}:", self.flash, self.seed, self.steps)?;
        match &self.end {
            End::Unmount(step) => write!(f, "unmount.{step}"),
            End::Cuts(cuts) => {
                let texts: Vec<String> = cuts.iter().map(CutAt::to_string).collect();
                f.write_str(&texts.join("-"))
            }
        }
    }
}

impl FromStr for RunId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse(text).ok_or_else(|| ParseIdError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<RunId> {
    let mut parts = text.split(':');
    let (flash, workload, end) = (parts.next()?, parts.next()?, parts.next()?);
    let (seed, steps) = workload.split_once('.')?;
    let (steps, fs) = match steps.strip_suffix('j') {
        Some(steps) => (steps, FilesystemKind::Jffs2),
        None => (steps, FilesystemKind::Ubifs),
    };
    let faults = steps.ends_with('f');
    let id = RunId {
        flash: parse_flash(flash)?,
        fs,
        faults,
        seed: seed.parse().ok()?,
        steps: steps.trim_end_matches('f').parse().ok().filter(|&steps| steps <= MAX_STEPS as usize)?,
        end: parse_end(end)?,
    };
    // Only the canonical text of an id is accepted.
    (parts.next().is_none() && id.to_string() == text).then_some(id)
}

fn parse_end(text: &str) -> Option<End> {
    if let Some(step) = text.strip_prefix("unmount.") {
        return Some(End::Unmount(step.parse().ok()?));
    }
    let cuts: Option<Vec<CutAt>> = text.split('-').map(|cut| cut.parse().ok()).collect();
    Some(End::Cuts(cuts?))
}

impl fmt::Display for FlashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&flash_text(self))
    }
}

/// Text such as `nand128x131072_2048.2048.512_64.34_4.512.3`: blocks and their size; write, buffer and sub-page size;
/// OOB bytes and free OOB bytes; strength, step and threshold of the ECC. For a chip, `chip128_0123cdef`: its
/// eraseblocks and the CRC of its setup.
fn flash_text(flash: &FlashId) -> String {
    let g = match flash {
        FlashId::Ram(geometry) => geometry,
        FlashId::Chip { setup, blocks } => return format!("chip{blocks}_{setup:08x}"),
    };
    let kind = if g.kind == FlashKind::Nor { "nor" } else { "nand" };
    format!(
        "{kind}{}x{}_{}.{}.{}_{}.{}_{}.{}.{}",
        g.blocks(),
        g.erase_bytes,
        g.write_bytes,
        g.buffer_bytes,
        g.sub_page_bytes,
        g.oob_bytes,
        g.oob_free_bytes,
        g.ecc_strength,
        g.ecc_step_bytes,
        g.bitflip_threshold
    )
}

fn parse_flash(text: &str) -> Option<FlashId> {
    if let Some((blocks, setup)) = text.strip_prefix("chip").and_then(|text| text.split_once('_')) {
        return Some(FlashId::Chip {
            setup: u32::from_str_radix(setup, 16).ok()?,
            blocks: blocks.parse().ok()?,
        });
    }
    let (kind, sizes) = match text.strip_prefix("nor") {
        Some(sizes) => (FlashKind::Nor, sizes),
        None => (FlashKind::SlcNand, text.strip_prefix("nand")?),
    };
    let numbers: Option<Vec<u32>> = sizes.split(['x', '_', '.']).map(|number| number.parse().ok()).collect();
    let numbers: [u32; 10] = numbers?.try_into().ok()?;
    let [blocks, erase, write, buffer, sub_page, oob, oob_free, strength, step, threshold] = numbers;
    let sound = (1..=MAX_BLOCKS).contains(&blocks)
        && (1..=MAX_ERASE_BYTES).contains(&erase)
        && (1..=erase).contains(&write)
        && (1..=write).contains(&sub_page)
        && buffer >= write;
    sound.then_some(FlashId::Ram(Geometry {
        kind,
        size_bytes: u64::from(blocks) * u64::from(erase),
        partition_of: None,
        erase_bytes: erase,
        write_bytes: write,
        buffer_bytes: buffer,
        sub_page_bytes: sub_page,
        oob_bytes: oob,
        oob_free_bytes: oob_free,
        ecc_strength: strength,
        ecc_step_bytes: step,
        bitflip_threshold: threshold,
        pairing: Pairing::NONE,
    }))
}

/// Maximum number of steps of a workload: the flash is copied before each step.
pub const MAX_STEPS: u32 = 100_000;

/// Maximum number of operations of a run at which power is cut.
pub const MAX_CUTS: u64 = 1_000_000_000;

/// Maximum number and size of blocks: more is probably a mistake, and would need too much memory.
const MAX_BLOCKS: u32 = 1 << 16;
const MAX_ERASE_BYTES: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let geometries = [Geometry::nand_2048(64), Geometry::nand_512(80), Geometry::nor(64, 65536)];
        let cut = |operation, kind, tear| CutAt { operation, kind, tear };
        let ends = [
            End::Cuts(vec![cut(345, CutKind::During(Stage::Middle), 0)]),
            End::Cuts(vec![cut(1, CutKind::Before, 7), cut(9, CutKind::During(Stage::Late), 0)]),
            End::Unmount(12),
        ];
        let chip = FlashId::Chip { setup: 0x00AB_CDEF, blocks: 128 };
        let flashes = geometries.map(FlashId::Ram).into_iter().chain([chip]);
        for (flash, end) in flashes.zip(ends.iter().chain(&ends)) {
            let kinds = [FilesystemKind::Ubifs, FilesystemKind::Jffs2];
            for (faults, fs) in [false, true].into_iter().flat_map(|faults| kinds.map(|fs| (faults, fs))) {
                let flash = flash.clone();
                let id = RunId { flash, fs, faults, seed: u64::MAX, steps: 20, end: end.clone() };
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }

    #[test]
    fn other_texts_are_no_ids() {
        let flash = "nand64x131072_2048.2048.512_64.34_4.512.3";
        for text in ["", "1", "1.2:3.late", "x:1.2:3.late", ":1.2:3.late"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        assert!(format!("{flash}:1.2:3.late").parse::<RunId>().is_ok());
        assert!(format!("{flash}:1.{MAX_STEPS}:3.late").parse::<RunId>().is_ok());
        for rest in [
            "1.2:3.never",
            "1.2:3",
            "1.2:",
            "1:3.late",
            "1.2ff:3.late",
            "1.2jf:3.late",
            "1.2jj:3.late",
            "1.2:3.late.0",
            "1.2:3.late:4",
            "1.100001:3.late",
            "1.1000000000:3.late",
            "x.2:3.late",
        ] {
            assert!(format!("{flash}:{rest}").parse::<RunId>().is_err(), "{rest}");
        }
        let wrong = [
            "nand0x131072_2048.2048.512_64.34_4.512.3",
            "nand64x131072_0.2048.512_64.34_4.512.3",
            "nand64x131072_2048.2048.512_64.34_4.512",
            "nand64x131072_2048.2048.4096_64.34_4.512.3",
            "nand4000000000x4000000000_2048.2048.512_64.34_4.512.3",
            "chip128",
            "chip128_1",
            "chip128_00ABCDEF",
            "chipx_00abcdef",
        ];
        for flash in wrong {
            assert!(format!("{flash}:1.2:3.late").parse::<RunId>().is_err(), "{flash}");
        }
    }
}
