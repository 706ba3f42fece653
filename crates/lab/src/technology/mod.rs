//! Storage technologies side by side: NAND and NOR under a filesystem for flash, SD cards and eMMC.
//!
//! Nothing is modelled here. Flash is measured by [`crate::fs_compare`] and [`crate::life`] on the eraseblocks that [`crate::advise`] chooses, cards by
//! [`crate::card::speed`] and by replays of the shipped traces. A figure that is not available is
//! [`Missing`], with its reason.
//!
//! - [`measure`]: one candidate.
//! - [`overrides`]: the overrides that each candidate has.
//! - [`verdict`]: who is the fastest for what, and who would not do.

mod measure;
pub mod overrides;
pub mod verdict;

pub use measure::measure;
pub(crate) use measure::{PARTITION_BLOCKS, PARTITION_BYTES};

use crate::uncertainty::Interval;
use floatgate_mtd::size::text as size;
use floatgate_mtd::words::measure as quantity;
use floatgate_sim::machine::FilesystemKind;
use serde::{Deserialize, Serialize};

/// Work that the storage is chosen for, as the shipped traces have it.
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
    /// Name of its traces.
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

    /// Bytes that its files take at the same time, as the guest of `run` makes them; of dbench and the build those that their traces on FAT write.
    const fn files_bytes(self) -> u64 {
        match self {
            // 300 files of 4 KiB.
            Self::Create => 1200 << 10,
            // 2000 files of 500 to 10 000 bytes, PostMark's sizes where none are set.
            Self::Postmark => 10 << 20,
            Self::Dbench => 23 << 20,
            Self::KernelBuild => 4 << 20,
            Self::Journald => 8 << 20,
            Self::Sqlite => 16 << 20,
            Self::Swap => 64 << 20,
            // Five segments of 8 MiB.
            Self::Camera => 40 << 20,
            // Twelve logs, the longest of 576 KiB twice.
            Self::Log2ram => 4320 << 10,
            // 800 files of 29 KiB in the middle, and copies of 50.
            Self::Docker => 24 << 20,
        }
    }

    /// Reason why a filesystem for raw flash cannot do it: Linux swaps to files only where a filesystem maps them to blocks (`bmap` or `swap_activate`).
    fn impossible_on(self, kind: FilesystemKind) -> Option<String> {
        let name = match kind {
            FilesystemKind::Ubifs => "UBIFS",
            FilesystemKind::Jffs2 => "JFFS2",
        };
        matches!(self, Self::Swap).then(|| format!("{name} has no swap files: Linux refuses to swap to them"))
    }

    /// Reason why its files have no room in `bytes`.
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

/// Use that the candidates are compared for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Workload by whose times the candidates are compared.
    pub workload: Workload,
    /// Bytes that have to fit; none where any size will do.
    pub partition_bytes: Option<u64>,
    /// Bytes that programs write in a day.
    pub write_bytes_per_day: u64,
    /// Years that the storage must last.
    pub years: f64,
    /// Seed of chips and cards.
    pub seed: u64,
}

/// Figures of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Seconds to attach UBI, or until a card accepts commands after a loss of power.
    pub attach_s: Option<f64>,
    /// Seconds to mount the filesystem: on flash one that is full of small files, on a card a new one.
    pub mount_s: Option<f64>,
    /// Seconds from the beginning until all files can be used.
    pub ready_s: Option<f64>,
    /// Speed of reads in order, MiB/s.
    pub read_mib_s: Option<f64>,
    /// Speed of writes in order, MiB/s.
    pub write_mib_s: Option<f64>,
    /// Milliseconds to bring 4 KiB to the flash with fsync.
    pub synced_write_ms: Option<f64>,
    /// Bytes for files.
    pub space_bytes: Option<u64>,
    /// Years until the first block is worn out by the workload.
    pub life_years: Option<f64>,
    /// Energy of a MiB that is written in order, mJ.
    pub write_mj_per_mib: Option<f64>,
    /// Price of a GB in US dollars.
    pub usd_per_gb: Option<f64>,
    /// Price of the whole part in US dollars.
    pub usd: Option<f64>,
    /// Speed of writes in order for each dollar of the whole part, MiB/s.
    pub write_mib_s_per_usd: Option<f64>,
}

/// A figure, or several with the same origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// [`Figures::attach_s`].
    Attach,
    /// [`Figures::mount_s`] and [`Figures::ready_s`].
    Mount,
    /// [`Figures::life_years`].
    Life,
    /// [`Figures::write_mj_per_mib`].
    Energy,
    /// [`Figures::usd_per_gb`] and [`Figures::usd`].
    Price,
    /// All but the price.
    All,
}

impl Quantity {
    /// Name in notes.
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

/// The 80 % interval of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureInterval {
    /// Name of the figure in [`Figures`].
    pub figure: String,
    /// The interval, in the unit of the figure.
    #[serde(flatten)]
    pub interval: Interval,
}

/// Reason why a candidate lacks a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Figure that is missing.
    pub quantity: Quantity,
    /// The reason, a phrase.
    pub reason: String,
}

/// Reason why a candidate would not do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "problem")]
pub enum Unfit {
    /// The size that is needed does not fit.
    TooSmall {
        /// Bytes that there are.
        bytes: u64,
        /// Bytes that have to fit.
        wanted_bytes: u64,
    },
    /// It cannot be used at all.
    Unusable {
        /// The reason, a phrase.
        reason: String,
    },
    /// It changes or loses data.
    Unsound {
        /// The reason, a phrase.
        reason: String,
    },
    /// It is worn out too early.
    WearsOut {
        /// Years until then.
        years: f64,
        /// Years that it must last.
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

/// A candidate with what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of the setup, part or card.
    pub target: String,
    /// Description in one line.
    pub title: String,
    /// Family of the chip, `sd-card` or `emmc`.
    pub kind: String,
    /// Filesystem of the figures; absent where none is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// The 80 % intervals of those figures that have some.
    #[serde(default)]
    pub intervals: Vec<FigureInterval>,
    /// Figures that are not available, with reasons.
    pub missing: Vec<Missing>,
    /// Reasons why it would not do; none of a candidate that would.
    pub unfit: Vec<Unfit>,
    /// Remarks on its figures, a sentence each.
    pub remarks: Vec<String>,
}
