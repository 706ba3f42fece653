//! Conclusions from the figures.

use super::{Row, Subject};

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
    let (jffs2, mount) = both(rows, "mount many small files")?;
    let ready = value(rows, Subject::Jffs2, "mount many small files: then until usable")?;
    let attach = value(rows, Subject::Ubifs, "mount many small files: attach")?;
    Some(format!(
        "mounting it full of small files: JFFS2 {jffs2:.2} s, and {ready:.2} s more until every file is checked; UBIFS {:.2} s, of which UBI takes {attach:.2} s",
        mount + attach
    ))
}

fn space(rows: &[Row]) -> Option<String> {
    let (jffs2, ubifs) = both(rows, "free after mkfs")?;
    let (who, more) = if jffs2 >= ubifs { ("JFFS2", jffs2 - ubifs) } else { ("UBIFS", ubifs - jffs2) };
    let share = more / jffs2.max(ubifs).max(1.0) * 100.0;
    Some(format!("space: {who} leaves {more:.0} KiB more ({share:.1} %)"))
}

/// The one of the two that the figures speak for.
fn choice(rows: &[Row]) -> Option<String> {
    let (jffs2_free, ubifs_free) = both(rows, "free after mkfs")?;
    let jffs2 = value(rows, Subject::Jffs2, "mount many small files")?
        + value(rows, Subject::Jffs2, "mount many small files: then until usable")?;
    let ubifs = value(rows, Subject::Ubifs, "mount many small files")?
        + value(rows, Subject::Ubifs, "mount many small files: attach")?;
    let is_small = ubifs_free < 0.75 * jffs2_free;
    Some(match (is_small, ubifs <= jffs2) {
        (true, _) => format!(
            "choose JFFS2 here: UBI and UBIFS keep {:.0} % of this flash for themselves",
            (1.0 - ubifs_free / jffs2_free) * 100.0
        ),
        (false, true) => "choose UBIFS here: it is ready sooner when full, and the share of the flash that it keeps for itself is small".to_owned(),
        (false, false) => "choose UBIFS for its speed in use, JFFS2 where the time to be ready counts most".to_owned(),
    })
}

/// Conclusions from rows of JFFS2 and UBIFS; those of which figures are missing are left out.
pub(super) fn conclusions(rows: &[Row]) -> Vec<String> {
    [
        speed(rows, "write random 64 KiB", "writing random bytes"),
        speed(rows, "write zeros 64 KiB", "writing zeros, which are compressed"),
        speed(rows, "read first", "reading what is not in memory"),
        mounts(rows),
        space(rows),
        choice(rows),
    ]
    .into_iter()
    .flatten()
    .collect()
}
