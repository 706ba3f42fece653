//! Conclusions from the figures.

use super::by_size::SizeRow;
use super::{FsComparison, Row, Subject, Test};
use crate::uncertainty::Interval;
use floatgate_mtd::size::text as size;

/// Share of what JFFS2 leaves for files from which UBIFS is advised: below it, UBI and UBIFS keep too much of the flash for themselves.
pub(crate) const SPACE_SHARE: f64 = 0.75;

/// Rows that [`choice`] looks at.
pub(crate) const FREE: &str = "free after mkfs";
pub(super) const FULL: &str = "mount many small files";

/// The filesystem that the figures speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// JFFS2 or UBIFS; none where neither is possible.
    pub subject: Option<Subject>,
    /// The advice with its reason, a sentence.
    pub sentence: String,
}

/// Space that a filesystem leaves for files in KiB, or the reason why it cannot be on this flash.
pub(crate) type Space = Result<f64, String>;

impl FsComparison {
    /// The 80 % interval of the figure of a row.
    pub fn interval(&self, subject: Subject, name: &str) -> Option<Interval> {
        self.rows.iter().find(|row| row.subject == subject && row.name == name)?.interval
    }

    /// The figure of a row.
    pub fn value(&self, subject: Subject, name: &str) -> Option<f64> {
        value(&self.rows, subject, name)
    }

    /// Seconds from the beginning of a mount, UBI's attach included, until a filesystem full of small files is mounted, and until all of them can be used.
    pub fn mounted_s(&self, subject: Subject) -> Option<(f64, f64)> {
        let of = |what: &str| self.value(subject, &format!("{FULL}{what}"));
        let mounted = of("")? + of(": attach").unwrap_or(0.0);
        Some((mounted, mounted + of(": then until usable")?))
    }

    /// Space that a filesystem leaves; none where it was not asked for.
    pub(crate) fn space(&self, subject: Subject) -> Option<Space> {
        match self.value(subject, FREE) {
            Some(free) if free > 0.0 => Some(Ok(free)),
            Some(_) => Some(Err("it leaves nothing for files".to_owned())),
            None => {
                let is_of = |test| {
                    move |refused: &&super::Refused| refused.subject == subject && refused.test == test
                };
                self.refused.iter().find(is_of(Test::Space)).map(|refused| Err(refused.why.clone()))
            }
        }
    }

    /// With the space of the whole partition, of which this one is a sample.
    pub(crate) fn with_space_of(mut self, whole: &Self) -> Self {
        self.rows.retain(|row| row.test != Test::Space);
        self.rows.extend(whole.rows.iter().filter(|row| row.test == Test::Space).cloned());
        self.refused.retain(|refused| refused.test != Test::Space);
        self.refused.extend(whole.refused.iter().filter(|refused| refused.test == Test::Space).cloned());
        self.advice = conclusions(&self);
        self
    }

    /// The one of JFFS2 and UBIFS that the figures speak for; none where they were not compared.
    pub fn choice(&self) -> Option<Choice> {
        let (jffs2_free, ubifs_free) = match (self.space(Subject::Jffs2)?, self.space(Subject::Ubifs)?) {
            (Ok(jffs2), Ok(ubifs)) => (jffs2, ubifs),
            (Ok(_), Err(why)) => {
                return Some(Choice::only(Subject::Jffs2, &format!("UBIFS cannot be here: {why}")));
            }
            (Err(why), Ok(_)) => {
                return Some(Choice::only(Subject::Ubifs, &format!("JFFS2 cannot be here: {why}")));
            }
            (Err(jffs2), Err(ubifs)) => {
                let sentence = format!(
                    "choose neither JFFS2 ({jffs2}) nor UBIFS ({ubifs}) here: change what they fail for, or write to the flash without a filesystem"
                );
                return Some(Choice { subject: None, sentence });
            }
        };
        let ready = |subject| self.mounted_s(subject).map(|(_, usable)| usable);
        let is_ready_sooner = ready(Subject::Ubifs)? <= ready(Subject::Jffs2)?;
        Some(match (ubifs_free < SPACE_SHARE * jffs2_free, is_ready_sooner) {
            (true, _) => {
                let share = (1.0 - ubifs_free / jffs2_free) * 100.0;
                Choice::only(
                    Subject::Jffs2,
                    &format!("UBIFS leaves {share:.0} % less of this flash for files"),
                )
            }
            (false, true) => Choice::only(
                Subject::Ubifs,
                "it is ready sooner when full, and the share of the flash that it keeps for itself is small",
            ),
            (false, false) => Choice {
                subject: Some(Subject::Ubifs),
                sentence: "choose UBIFS for its speed in use, JFFS2 where the time to be ready counts most"
                    .to_owned(),
            },
        })
    }
}

impl Choice {
    fn only(subject: Subject, why: &str) -> Self {
        Self { subject: Some(subject), sentence: format!("choose {} here: {why}", subject.title()) }
    }
}

fn value(rows: &[Row], subject: Subject, name: &str) -> Option<f64> {
    rows.iter().find(|row| row.subject == subject && row.name == name).map(|row| row.value)
}

/// The figures of JFFS2 and UBIFS.
fn both(rows: &[Row], name: &str) -> Option<(f64, f64)> {
    Some((value(rows, Subject::Jffs2, name)?, value(rows, Subject::Ubifs, name)?))
}

/// A sentence on who is faster.
fn speed(rows: &[Row], name: &str, what: &str) -> Option<String> {
    let (jffs2, ubifs) = both(rows, name)?;
    let (who, factor) = if ubifs >= jffs2 { ("UBIFS", ubifs / jffs2) } else { ("JFFS2", jffs2 / ubifs) };
    if !factor.is_finite() {
        return None;
    }
    Some(if factor < 1.05 {
        format!("{what}: both alike")
    } else {
        format!("{what}: {who} is {factor:.1} times as fast")
    })
}

fn mounts(rows: &[Row]) -> Option<String> {
    let (jffs2, mount) = both(rows, FULL)?;
    let ready = value(rows, Subject::Jffs2, "mount many small files: then until usable")?;
    let attach = value(rows, Subject::Ubifs, "mount many small files: attach")?;
    Some(format!(
        "mounting it full of small files: JFFS2 {jffs2:.2} s, and {ready:.2} s more until every file is checked; UBIFS {:.2} s, of which UBI takes {attach:.2} s",
        mount + attach
    ))
}

fn space(rows: &[Row]) -> Option<String> {
    let (jffs2, ubifs) = both(rows, FREE)?;
    let (who, more) = if jffs2 >= ubifs { ("JFFS2", jffs2 - ubifs) } else { ("UBIFS", ubifs - jffs2) };
    let share = more / jffs2.max(ubifs).max(1.0) * 100.0;
    Some(format!("space: {who} leaves {more:.0} KiB more ({share:.1} %)"))
}

/// Conclusions from rows of JFFS2 and UBIFS; those of which figures are missing are left out.
pub(super) fn conclusions(compared: &FsComparison) -> Vec<String> {
    let rows = &compared.rows;
    [
        speed(rows, "write random 64 KiB", "writing random bytes"),
        speed(rows, "write zeros 64 KiB", "writing zeros, which are compressed"),
        speed(rows, "read first", "reading what is not in memory"),
        mounts(rows),
        space(rows),
        compared.choice().map(|choice| choice.sentence),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Conclusions from rows by size, in the order of the sizes.
pub(super) fn of_sizes(rows: &[SizeRow]) -> Vec<String> {
    let growth = [Subject::Jffs2, Subject::Ubifs].into_iter().filter_map(|subject| growth(rows, subject));
    borders(rows).into_iter().chain(growth).collect()
}

/// From which size on which filesystem is advised, and by what.
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

/// Power of the size with which the time grows, from which on it grows about as the size does, and below which it hardly does.
const GROWS_AS_THE_SIZE: f64 = 0.8;
const GROWS_LITTLE: f64 = 0.5;

/// Words for a time that grows by a factor while the size grows by another one.
fn verdict(size: f64, time: f64) -> &'static str {
    match libm::log(time) / libm::log(size) {
        power if power >= GROWS_AS_THE_SIZE => "does not scale",
        power if power < GROWS_LITTLE => "scales",
        _ => "scales in part",
    }
}

/// Growth of a filesystem's time and memory from the smallest size to the largest.
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
