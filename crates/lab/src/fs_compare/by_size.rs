//! Filesystems by the size of the partition: the space that they leave for files, the time until a full one can be used, and the kernel memory that it takes.

use super::advice::{self, FREE, FULL};
use super::{FsComparison, Options, Refused, Subject, Test, compare};
use crate::plot::{Curve, Panel, panels};
use crate::progress::{Listener, Progress};
use floatgate_config::{Config, Library};
use floatgate_sim::error::Error;
use floatgate_sim::rig::{Link, RigOptions};
use rayon::prelude::*;
use serde::Serialize;

/// A filesystem on a partition of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeRow {
    /// Bytes of the partition.
    pub partition_bytes: u64,
    /// Filesystem on this partition.
    pub subject: Subject,
    /// Space for files after mkfs as `df` says it, in KiB.
    pub free_kib: Option<f64>,
    /// Seconds until a mount of it full of small files is done, UBI's attach included.
    pub mounted_s: Option<f64>,
    /// Seconds until all its files can be used.
    pub usable_s: Option<f64>,
    /// Kernel memory that it takes meanwhile, in KiB.
    pub memory_kib: Option<f64>,
    /// The figures of this size speak for this filesystem.
    pub is_advised: bool,
    /// Reason why it cannot be there.
    pub why_not: Option<String>,
}

/// Everything `floatgate fs` shows of several sizes.
#[derive(Clone, Debug, Serialize)]
pub struct BySize {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Bytes of an eraseblock.
    pub eraseblock_bytes: u32,
    /// Link between driver and chip.
    pub link: Link,
    /// False when the setup does not say how fast the CPU is: its time is missing then.
    pub cpu_is_known: bool,
    /// Percent of the free space that small files take when mounting is measured.
    pub fill_percent: u32,
    /// The figures, from the smallest size to the largest.
    pub rows: Vec<SizeRow>,
    /// Conclusions, a sentence each.
    pub advice: Vec<String>,
}

/// Comparisons on partitions of several sizes in bytes; `at` makes the configuration of one. `progress` hears how far they are.
///
/// # Errors
/// The setup is wrong, or a partition of this size cannot be on its chip.
pub(crate) fn comparisons(
    library: &Library,
    at: &(dyn Fn(u64) -> Result<Config, Error> + Sync),
    (rig, options): (RigOptions, &Options),
    sizes: &[u64],
    progress: Listener<'_>,
) -> Result<Vec<FsComparison>, Error> {
    progress(Progress::Steps((sizes.len() * options.subjects.len() * options.tests.len()) as u64));
    let done = |news| {
        if matches!(news, Progress::Done(_)) {
            progress(news)
        }
    };
    let configs: Vec<Config> = sizes.iter().map(|&bytes| at(bytes)).collect::<Result<_, _>>()?;
    // The largest takes longest.
    let mut all: Vec<FsComparison> = configs
        .par_iter()
        .rev()
        .map(|config| compare(library, config, rig, options, &done))
        .collect::<Result<_, _>>()?;
    all.reverse();
    Ok(all)
}

/// Compares filesystems on partitions of several sizes in bytes; `at` makes the configuration of one. `progress` hears how far it is.
///
/// # Errors
/// No size or no filesystem is asked for; the setup is wrong, or a partition of a size cannot be on its chip.
/// The result lists what cannot be on a partition.
pub fn by_size(
    library: &Library,
    at: &(dyn Fn(u64) -> Result<Config, Error> + Sync),
    (rig, subjects, fill_percent): (RigOptions, &[Subject], u32),
    sizes: &[u64],
    progress: Listener<'_>,
) -> Result<BySize, Error> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let subjects: Vec<Subject> = subjects.iter().copied().filter(|subject| !subject.is_raw()).collect();
    let options = Options {
        subjects,
        tests: vec![Test::Mount, Test::Space],
        only: vec![FREE.to_owned(), FULL.to_owned()],
        fill_percent,
        ..Options::default()
    };
    let all = comparisons(library, at, (rig, &options), &sizes, progress)?;
    let Some(first) = all.first().filter(|_| !options.subjects.is_empty()) else {
        return Err(Error::request(
            "there is no filesystem to compare by size",
            "name sizes of partitions, and `jffs2`, `ubifs` or a program",
        ));
    };
    let rows: Vec<SizeRow> = all.iter().flat_map(|of_size| rows(of_size, &options.subjects)).collect();
    Ok(BySize {
        title: first.title.clone(),
        chip: first.chip.clone(),
        eraseblock_bytes: first.eraseblock_bytes,
        link: first.link.clone(),
        cpu_is_known: first.cpu_is_known,
        fill_percent,
        advice: advice::of_sizes(&rows),
        rows,
    })
}

fn rows(compared: &FsComparison, subjects: &[Subject]) -> Vec<SizeRow> {
    let advised = compared.choice().and_then(|choice| choice.subject);
    let row = |&subject: &Subject| {
        let refused = |refused: &&Refused| refused.subject == subject;
        let mounted = compared.mounted_s(subject);
        SizeRow {
            partition_bytes: compared.flash_bytes,
            subject,
            free_kib: compared.value(subject, FREE),
            mounted_s: mounted.map(|(mounted, _)| mounted),
            usable_s: mounted.map(|(_, usable)| usable),
            memory_kib: compared.value(subject, &format!("{FULL}: memory")),
            is_advised: advised == Some(subject),
            why_not: compared.refused.iter().find(refused).map(|refused| refused.why.clone()),
        }
    };
    subjects.iter().map(row).collect()
}

impl BySize {
    /// The figures as curves over the size, an SVG document.
    pub fn plot(&self) -> String {
        let mut subjects: Vec<Subject> = self.rows.iter().map(|row| row.subject).collect();
        subjects.sort();
        subjects.dedup();
        let panel = |title: &str, axis, value: &dyn Fn(&SizeRow) -> Option<f64>| Panel {
            title: title.to_owned(),
            axes: ("partition, MiB", axis),
            is_log: (true, true),
            is_joined: true,
            series: subjects
                .iter()
                .map(|subject| Curve {
                    name: subject.name().to_owned(),
                    points: self
                        .rows
                        .iter()
                        .filter(|row| row.subject == *subject)
                        .filter_map(|row| {
                            Some((row.partition_bytes as f64 / f64::from(1 << 20), value(row)?))
                        })
                        .collect(),
                })
                .collect(),
        };
        let share = |row: &SizeRow| Some(row.free_kib? * 102_400.0 / row.partition_bytes as f64);
        let all = [
            panel("Time until a full filesystem can be used", "s", &|row| row.usable_s),
            panel("Kernel memory of it", "KiB", &|row| row.memory_kib),
            Panel { is_log: (true, false), ..panel("Space for files", "% of the partition", &share) },
        ];
        panels(&self.title, &self.chip, &all)
    }
}
