//! Comparison of storage technologies: NAND and NOR with a flash filesystem, SD cards and eMMC.
//!
//! This module has no model of its own. [`crate::fs_compare`] and [`crate::life`] measure flash, on the number of
//! eraseblocks that [`crate::advise`] chooses. [`crate::card::speed`] and replays of the shipped traces measure cards.
//! A figure that is not available is [`Missing`], with its reason.
//!
//! - [`measure`]: one candidate.
//! - [`overrides`]: assigns overrides to the candidates that have the key.
//! - [`verdict`]: the fastest candidates, and the unfit ones.

mod measure;
pub mod overrides;
pub mod verdict;

pub use measure::measure;
pub(crate) use measure::{PARTITION_BLOCKS, PARTITION_BYTES};

use crate::interval::Interval;
use floatgate_mtd::size::text as size;
use floatgate_mtd::words::measure as quantity;
use floatgate_sim::machine::FilesystemKind;
use serde::{Deserialize, Serialize};

/// Workload for which the storage is chosen, from the shipped traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Small files, each with fsync.
    Create,
    /// Small files that are created, changed and removed.
    #[default]
    Postmark,
    /// Operations of office programs on a file server.
    Dbench,
    /// A build of C files.
    KernelBuild,
    /// The synced journal of systemd.
    Journald,
    /// Transactions of a database with a rollback journal.
    Sqlite,
    /// Pages of a swap file.
    Swap,
    /// Video segments of a camera, which removes the oldest segment.
    Camera,
    /// Logs in RAM that are copied to the storage once per hour.
    Log2ram,
    /// Layers of an image, and a container on top of them.
    Docker,
}

impl Workload {
    /// Name of the traces of the workload.
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Postmark => "postmark",
            Self::Dbench => "dbench",
            Self::KernelBuild => "kernel-build",
            Self::Journald => "journald",
            Self::Sqlite => "sqlite",
            Self::Swap => "swap",
            Self::Camera => "camera",
            Self::Log2ram => "log2ram",
            Self::Docker => "docker",
        }
    }

    /// Bytes of all files of the workload that exist at the same time, as the guest of `run` creates them. For dbench
    /// and the kernel build: bytes that their traces on FAT write.
    const fn files_bytes(self) -> u64 {
        match self {
            // 300 files of 4 KiB.
            Self::Create => 1200 << 10,
            // 2000 files of 500 to 10 000 bytes, the default sizes of PostMark.
            Self::Postmark => 10 << 20,
            Self::Dbench => 23 << 20,
            Self::KernelBuild => 4 << 20,
            Self::Journald => 8 << 20,
            Self::Sqlite => 16 << 20,
            Self::Swap => 64 << 20,
            // Five segments of 8 MiB.
            Self::Camera => 40 << 20,
            // Twelve logs, of which the longest has 576 KiB and exists twice.
            Self::Log2ram => 4320 << 10,
            // 800 files of 29 KiB on average, and copies of 50 of them.
            Self::Docker => 24 << 20,
        }
    }

    /// Reason why a filesystem for raw flash does not support the workload. Linux swaps to files only if the filesystem
    /// maps them to blocks (`bmap` or `swap_activate`).
    fn impossible_on(self, kind: FilesystemKind) -> Option<String> {
        let name = match kind {
            FilesystemKind::Ubifs => "UBIFS",
            FilesystemKind::Jffs2 => "JFFS2",
        };
        matches!(self, Self::Swap).then(|| format!("{name} has no swap files: Linux refuses to swap to them"))
    }

    /// Reason why the files do not fit into `bytes`.
    fn too_large_for(self, bytes: u64) -> Option<String> {
        let needed = self.files_bytes();
        (bytes < needed).then(|| {
            format!(
                "too small for the files of {self}: it has {}, and they take {}",
                size(bytes),
                size(needed)
            )
        })
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Use for which the candidates are compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Workload whose times are compared.
    pub workload: Workload,
    /// Required size, bytes; `None` for any size.
    pub partition_bytes: Option<u64>,
    /// Bytes that programs write per day.
    pub write_bytes_per_day: u64,
    /// Required life, years.
    pub years: f64,
    /// Seed of chips and cards.
    pub seed: u64,
}

/// Figures of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Time to attach UBI or, for a card, until it accepts commands after a power loss, s.
    pub attach_s: Option<f64>,
    /// Time to mount the filesystem, s: on flash, one that is full of small files; on a card, a new one.
    pub mount_s: Option<f64>,
    /// Time from the start until all files can be used, s.
    pub ready_s: Option<f64>,
    /// Speed of sequential reads, MiB/s.
    pub read_mib_s: Option<f64>,
    /// Speed of sequential writes, MiB/s.
    pub write_mib_s: Option<f64>,
    /// Time of a 4 KiB write with fsync, ms.
    pub synced_write_ms: Option<f64>,
    /// Space for files, bytes.
    pub space_bytes: Option<u64>,
    /// Years until the workload has worn out the first block.
    pub life_years: Option<f64>,
    /// Energy per MiB of sequential writes, mJ.
    pub write_mj_per_mib: Option<f64>,
    /// Price per GB, US dollars.
    pub usd_per_gb: Option<f64>,
    /// Price of the whole part, US dollars.
    pub usd: Option<f64>,
    /// Speed of sequential writes per US dollar of the whole part, MiB/s.
    pub write_mib_s_per_usd: Option<f64>,
}

/// One figure, or several figures of the same origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Figure [`Figures::attach_s`].
    Attach,
    /// Figures [`Figures::mount_s`] and [`Figures::ready_s`].
    Mount,
    /// Figure [`Figures::life_years`].
    Life,
    /// Figure [`Figures::write_mj_per_mib`].
    Energy,
    /// Figures [`Figures::usd_per_gb`] and [`Figures::usd`].
    Price,
    /// All figures except the price.
    All,
}

impl Quantity {
    /// Name of the figures in notes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Mount => "mount time",
            Self::Life => "life",
            Self::Energy => "energy",
            Self::Price => "price",
            Self::All => "figures",
        }
    }
}

/// 80 % interval of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureInterval {
    /// Name of the figure in [`Figures`].
    pub figure: String,
    /// Interval, in the unit of the figure.
    #[serde(flatten)]
    pub interval: Interval,
}

/// Reason why a candidate lacks a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Figure that is missing.
    pub quantity: Quantity,
    /// Reason, as a phrase.
    pub reason: String,
}

/// Reason why a candidate is unfit for the use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "problem")]
pub enum Unfit {
    /// The required size does not fit.
    TooSmall {
        /// Available bytes.
        bytes: u64,
        /// Required bytes.
        wanted_bytes: u64,
    },
    /// The candidate cannot be used at all.
    Unusable {
        /// Reason, as a phrase.
        reason: String,
    },
    /// The candidate changes or loses data.
    Unsound {
        /// Reason, as a phrase.
        reason: String,
    },
    /// The candidate wears out too early.
    WearsOut {
        /// Years until a block is worn out.
        years: f64,
        /// Required years.
        wanted_years: f64,
    },
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooSmall { bytes, wanted_bytes } => {
                write!(f, "it has {}, and {} are needed", size(*bytes), size(*wanted_bytes))
            }
            Self::Unusable { reason } | Self::Unsound { reason } => f.write_str(reason),
            Self::WearsOut { years, wanted_years } => {
                write!(f, "it is worn out after {years:.1} of {}", quantity(*wanted_years, "year"))
            }
        }
    }
}

/// A candidate with its figures and faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of the setup, part or card.
    pub target: String,
    /// Description in one line.
    pub title: String,
    /// Family of the chip, `sd-card` or `emmc`.
    pub kind: String,
    /// Filesystem of the figures; absent if none is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    /// Figures of the candidate.
    #[serde(flatten)]
    pub figures: Figures,
    /// 80 % intervals of the figures that have one.
    #[serde(default)]
    pub intervals: Vec<FigureInterval>,
    /// Figures that are not available, with reasons.
    pub missing: Vec<Missing>,
    /// Reasons why the candidate is unfit; empty if it is fit.
    pub unfit: Vec<Unfit>,
    /// Remarks on the figures, one sentence each.
    pub remarks: Vec<String>,
}
