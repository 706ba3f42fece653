//! Texts of names, paths and sizes for messages and reports, and of numbers with their nouns.

pub use floatgate_mtd::words::{count, measure, noun, shown};

/// Consequence of a cut file.
pub(crate) const BEHIND_CUT: &str =
    "what was behind the end is lost; files whose names were there cannot be named";

/// Text of a size: in KiB or MiB if it is a whole number of them.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// Path from the root for display: bytes that are not UTF-8, and control characters, have the form `\xNN`.
pub fn show_path(path: &[Vec<u8>]) -> String {
    if path.is_empty() {
        return "/".to_owned();
    }
    path.iter().flat_map(|part| ["/".to_owned(), show_name(part)]).collect()
}

/// Name for display: bytes that are not UTF-8, and control characters, have the form `\xNN`.
pub fn show_name(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                let mut bytes = [0; 4];
                push_bytes(&mut out, character.encode_utf8(&mut bytes).as_bytes());
            } else {
                out.push(character);
            }
        }
        push_bytes(&mut out, chunk.invalid());
    }
    out
}

fn push_bytes(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        out.push_str(&format!("\\x{byte:02x}"));
    }
}

/// A time in seconds since 1970 as a date in UTC: `2026-11-21 07:25:00`.
pub fn date(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
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
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date(-1), "1969-12-31 23:59:59");
        assert_eq!(date(4_102_444_799), "2099-12-31 23:59:59");
    }
}
