//! Comparison of filesystems by partition size: space for files, time until a full filesystem can be used, and kernel
//! memory.

use super::advice::{FREE, FULL, SPACE_SHARE};
use super::{FsComparison, Options, Refused, Subject, Test, compare};
use crate::progress::{Listener, Progress};
use crate::show::plot::{Curve, Panel, panels};
use floatgate_config::{Config, Library};
use floatgate_mtd::size::text as size;
use floatgate_sim::error::Error;
use floatgate_sim::rig::{Link, RigOptions};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// A filesystem on a partition of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeRow {
    /// Size of the partition, bytes.
    pub partition_bytes: u64,
    /// Filesystem on this partition.
    pub subject: Subject,
    /// Space for files after mkfs as reported by `df`, KiB.
    pub free_kib: Option<f64>,
    /// Time until a filesystem full of small files is mounted, including UBI's attach, s.
    pub mounted_s: Option<f64>,
    /// Time until all its files can be used, s.
    pub usable_s: Option<f64>,
    /// Kernel memory used at that time, KiB.
    pub memory_kib: Option<f64>,
    /// True if the figures for this size favour this filesystem.
    pub is_advised: bool,
    /// Reason why the filesystem is impossible on this partition.
    pub why_not: Option<String>,
}

/// Result of `floatgate fs` for several partition sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BySize {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Size of an eraseblock, bytes.
    pub eraseblock_bytes: u32,
    /// Link between driver and chip.
    pub link: Link,
    /// False if the setup does not state the speed of the CPU; CPU time is then missing.
    pub cpu_is_known: bool,
    /// Share of the free space that small files fill in the mount tests, percent.
    pub fill_percent: u32,
    /// Figures in ascending order of size.
    pub rows: Vec<SizeRow>,
    /// Conclusions, one sentence each.
    pub advice: Vec<String>,
}

/// Compares filesystems on partitions of several sizes in bytes. `at` makes the configuration for one size. `progress`
/// receives the number of tests done.
///
/// # Errors
/// The setup is wrong; a partition of a size is impossible on its chip.
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
    // The largest size starts first, because it takes longest.
    let mut all: Vec<FsComparison> = configs
        .par_iter()
        .rev()
        .map(|config| compare(library, config, rig, options, &done))
        .collect::<Result<_, _>>()?;
    all.reverse();
    Ok(all)
}

/// Compares filesystems on partitions of several sizes in bytes. `at` makes the configuration for one size. `progress`
/// receives the number of tests done.
///
/// # Errors
/// No size or no filesystem is given; the setup is wrong; a partition of a size is impossible on its chip. Impossible
/// filesystems are not errors: the result lists them.
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
        advice: of_sizes(&rows),
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
    /// Curves of the figures over the size, as an SVG document.
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

/// Conclusions from rows in ascending order of size.
fn of_sizes(rows: &[SizeRow]) -> Vec<String> {
    let growth = [Subject::Jffs2, Subject::Ubifs].into_iter().filter_map(|subject| growth(rows, subject));
    borders(rows).into_iter().chain(growth).collect()
}

/// Sentence with the sizes from which each filesystem is advised, and the reason.
fn borders(rows: &[SizeRow]) -> Option<String> {
    let mut runs: Vec<(Subject, u64, u64)> = Vec::new();
    for row in rows.iter().filter(|row| row.is_advised) {
        match runs.last_mut() {
            Some((subject, _, last)) if *subject == row.subject => *last = row.partition_bytes,
            _ => runs.push((row.subject, row.partition_bytes, row.partition_bytes)),
        }
    }
    let phrase = |(index, (subject, first, last)): (usize, &(Subject, u64, u64))| {
        let title = subject.title();
        match (index, index + 1 == runs.len(), first == last) {
            (0, true, _) => format!("{title} at all of these sizes"),
            (0, ..) => format!("{title} up to {}", size(*last)),
            (_, true, _) => format!("{title} from {} on", size(*first)),
            (_, false, true) => format!("{title} at {}", size(*first)),
            (_, false, false) => format!("{title} from {} to {}", size(*first), size(*last)),
        }
    };
    let all: Vec<String> = runs.iter().enumerate().map(phrase).collect();
    (!all.is_empty()).then(|| {
        format!(
            "choose {}, by the space that is left for files: UBIFS where it leaves at least {:.0} % of what JFFS2 leaves",
            all.join(", "),
            SPACE_SHARE * 100.0
        )
    })
}

/// Exponent of growth (time as a power of the size): above the first value, time grows about as fast as the size; below
/// the second, hardly.
const GROWS_AS_THE_SIZE: f64 = 0.8;
const GROWS_LITTLE: f64 = 0.5;

/// Verdict on a time that grows by the factor `time` while the size grows by the factor `size`.
fn verdict(size: f64, time: f64) -> &'static str {
    match libm::log(time) / libm::log(size) {
        power if power >= GROWS_AS_THE_SIZE => "does not scale",
        power if power < GROWS_LITTLE => "scales",
        _ => "scales in part",
    }
}

/// Sentence on the growth of a filesystem's time and memory from the smallest size to the largest.
fn growth(rows: &[SizeRow], subject: Subject) -> Option<String> {
    let mut measured = rows.iter().filter(|row| row.subject == subject && row.usable_s.is_some());
    let (first, last) = (measured.next()?, measured.next_back()?);
    let times = last.partition_bytes as f64 / first.partition_bytes as f64;
    let (before, after) = (first.usable_s?, last.usable_s?);
    let (least_kib, most_kib) = (first.memory_kib?, last.memory_kib?);
    let (time, memory) = (after / before.max(1e-9), most_kib / least_kib.max(1e-9));
    let verdict = verdict(times, time);
    Some(format!(
        "{} {verdict}: from {} to {}, {times:.1} times the size, a full one is ready after {before:.2} s and {after:.2} s ({time:.1} times), and takes {least_kib:.0} KiB and {most_kib:.0} KiB of kernel memory ({memory:.1} times)",
        subject.title(),
        size(first.partition_bytes),
        size(last.partition_bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mib: u64, subject: Subject, usable_s: f64, is_advised: bool) -> SizeRow {
        SizeRow {
            partition_bytes: mib << 20,
            subject,
            free_kib: Some(1.0),
            mounted_s: Some(usable_s),
            usable_s: Some(usable_s),
            memory_kib: Some(10.0),
            is_advised,
            why_not: None,
        }
    }

    #[test]
    fn borders_are_where_the_advice_changes() {
        let both = |mib: u64, ubifs: bool| {
            [row(mib, Subject::Jffs2, mib as f64, !ubifs), row(mib, Subject::Ubifs, 0.5, ubifs)]
        };
        let of = |advised: &[(u64, bool)]| {
            of_sizes(&advised.iter().flat_map(|&(mib, ubifs)| both(mib, ubifs)).collect::<Vec<_>>())
        };
        let usual = of(&[(2, false), (4, false), (16, true), (32, true)]);
        assert!(usual[0].starts_with("choose JFFS2 up to 4 MiB, UBIFS from 16 MiB on, by"), "{usual:?}");
        assert!(usual[1].starts_with("JFFS2 does not scale: from 2 MiB to 32 MiB, 16.0 times"), "{usual:?}");
        assert!(usual[2].starts_with("UBIFS scales"), "{usual:?}");
        assert!(of(&[(2, true), (4, true)])[0].starts_with("choose UBIFS at all of these sizes"));
        let odd = of(&[(1, true), (2, false), (4, false), (8, true)]);
        assert!(
            odd[0].starts_with("choose UBIFS up to 1 MiB, JFFS2 from 2 MiB to 4 MiB, UBIFS from 8 MiB on"),
            "{odd:?}"
        );
        assert_eq!(of_sizes(&[]), Vec::<String>::new());
        let words = [(2.0, 1.4), (2.0, 2.0), (4.0, 3.3), (16.0, 5.0), (4.0, 1.0)]
            .map(|(size, time)| verdict(size, time));
        assert_eq!(words, ["scales", "does not scale", "does not scale", "scales in part", "scales"]);
    }
}
