//! Attributes for people.

use floatgate_image::extract::show_name;
use floatgate_stack::fs::{Attributes, FileType, Timestamp};
use serde::Serialize;

/// A file as JSON has it.
#[derive(Serialize)]
pub(super) struct FileJson {
    /// The path from the root; bytes that are not UTF-8 as `\xNN`.
    pub(super) path: String,
    pub(super) inode: u32,
    #[serde(rename = "type")]
    pub(super) file_type: &'static str,
    /// Permission bits, as a number.
    pub(super) permissions: u32,
    pub(super) links: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    /// Seconds since 1970, with nanoseconds as decimals.
    pub(super) mtime: String,
    pub(super) atime: String,
    pub(super) ctime: String,
    /// Of a device: major and minor number.
    pub(super) device: Option<[u32; 2]>,
    /// Of a symbolic link.
    pub(super) target: Option<String>,
    pub(super) xattrs: u32,
    pub(super) encrypted: bool,
}

impl FileJson {
    pub(super) fn new(path: String, attributes: &Attributes, target: Option<&[u8]>) -> Self {
        Self {
            path,
            inode: attributes.inode,
            file_type: type_name(attributes.file_type),
            permissions: attributes.mode & 0o7777,
            links: attributes.links,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size,
            mtime: seconds(attributes.mtime),
            atime: seconds(attributes.atime),
            ctime: seconds(attributes.ctime),
            device: attributes.device.map(|device| [device.major, device.minor]),
            target: target.map(show_name),
            xattrs: attributes.xattr_count,
            encrypted: attributes.is_encrypted(),
        }
    }
}

pub(super) const fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::BlockDevice => "block-device",
        FileType::CharacterDevice => "character-device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::Other(_) => "unknown",
    }
}

/// Type and permissions as `ls -l` shows them.
pub(super) fn mode_text(attributes: &Attributes) -> String {
    let letter = match attributes.file_type {
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        _ => '-',
    };
    let mode = attributes.mode;
    let mut text = String::from(letter);
    for (shift, special, with_x, without_x) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => with_x,
            (false, true) => without_x,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Seconds since 1970 with nine decimals.
pub(super) fn seconds(time: Timestamp) -> String {
    format!("{}.{:09}", time.seconds, time.nanoseconds)
}

/// A point in time in UTC, to the second: `2026-11-21 07:25:00`.
pub(super) fn date(time: Timestamp) -> String {
    let days = time.seconds.div_euclid(86_400);
    let second = time.seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a day since 1970-01-01 (proleptic Gregorian calendar), counted in 400-year cycles that begin in March.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(Timestamp { seconds, nanoseconds: 0 });
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        assert_eq!(at(4_102_444_799), "2099-12-31 23:59:59");
    }
}
