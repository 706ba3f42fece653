//! Messages of UBI and UBIFS, which are recognised but contain no usable figure.

use super::{Line, Reader};

/// Reads a line of dmesg.
pub(super) fn read(_: &Reader, text: &str) -> Option<Line> {
    ubi_message(text)
}

/// Recognises messages of UBI and UBIFS in dmesg: `ubi0: attached mtd4 (name "rootfs", size 64 MiB)`, `UBIFS
/// (ubi0:0): ...`.
fn ubi_message(text: &str) -> Option<Line> {
    let is_ubi = |word: &str| {
        word.strip_suffix(':').unwrap_or(word).to_ascii_lowercase().strip_prefix("ubi").is_some_and(
            |number| {
                let number = number.trim_start_matches('-');
                number.is_empty() || number.chars().all(|c| c.is_ascii_digit())
            },
        )
    };
    let mut words = text.split_whitespace();
    let is_message = |word: &str| word.ends_with(':') && is_ubi(word);
    let first = words.next().unwrap_or_default();
    if first.trim_end_matches(':') == "UBIFS" || text.contains(" UBIFS (ubi") {
        return Some(Line::wrong("a message of UBIFS: mount times are not used by fit"));
    }
    (is_ubi(first) || words.any(is_message))
        .then(|| Line::wrong("a message of UBI: attach times are not used by fit"))
}
