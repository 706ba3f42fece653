//! Conclusions from the figures of a comparison.

use super::{FsComparison, Row, Subject, Test};
use crate::interval::Interval;

/// Ratio of UBIFS's to JFFS2's space for files above which UBIFS is advised. Below it, UBI and UBIFS use too much of
/// the flash themselves.
pub(crate) const SPACE_SHARE: f64 = 0.75;

/// Name of the row that [`choice`] reads.
pub(crate) const FREE: &str = "free after mkfs";
pub(super) const FULL: &str = "mount many small files";

/// The filesystem that the figures favour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// JFFS2 or UBIFS; `None` if neither is possible.
    pub subject: Option<Subject>,
    /// Sentence with the advice and its reason.
    pub sentence: String,
}

/// Space for files in KiB, or the reason why the filesystem is impossible on this flash.
pub(crate) type Space = Result<f64, String>;

impl FsComparison {
    /// 80 % interval of the figure in a row.
    pub fn interval(&self, subject: Subject, name: &str) -> Option<Interval> {
        self.rows.iter().find(|row| row.subject == subject && row.name == name)?.interval
    }

    /// Figure in a row.
    pub fn value(&self, subject: Subject, name: &str) -> Option<f64> {
        value(&self.rows, subject, name)
    }

    /// Mount times of a filesystem full of small files, s: until the mount is complete, and until all files can be
    /// used. Both start with UBI's attach.
    pub fn mounted_s(&self, subject: Subject) -> Option<(f64, f64)> {
        let of = |what: &str| self.value(subject, &format!("{FULL}{what}"));
        let mounted = of("")? + of(": attach").unwrap_or(0.0);
        Some((mounted, mounted + of(": then until usable")?))
    }

    /// Space for files; `None` if it was not measured.
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

    /// Replaces the space by the space on the whole partition, of which this one is a sample.
    pub(crate) fn with_space_of(mut self, whole: &Self) -> Self {
        self.rows.retain(|row| row.test != Test::Space);
        self.rows.extend(whole.rows.iter().filter(|row| row.test == Test::Space).cloned());
        self.refused.retain(|refused| refused.test != Test::Space);
        self.refused.extend(whole.refused.iter().filter(|refused| refused.test == Test::Space).cloned());
        self.advice = conclusions(&self);
        self
    }

    /// Choice between JFFS2 and UBIFS by the figures; `None` if they were not compared.
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

/// Figures of JFFS2 and UBIFS in a row.
fn both(rows: &[Row], name: &str) -> Option<(f64, f64)> {
    Some((value(rows, Subject::Jffs2, name)?, value(rows, Subject::Ubifs, name)?))
}

/// Sentence that states which filesystem is faster.
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

/// Conclusions from the rows of JFFS2 and UBIFS. Conclusions without figures are left out.
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
