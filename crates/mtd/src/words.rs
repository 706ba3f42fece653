//! Numbers with their nouns, for messages and reports.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// A noun in the singular for 1, in the plural otherwise: "page", "pages"; "entry", "entries".
pub fn noun(n: u64, singular: &str) -> String {
    if n == 1 {
        return singular.to_owned();
    }
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{singular}s"),
    }
}

/// A number with its noun: "1 page", "2 pages".
pub fn count(n: u64, singular: &str) -> String {
    format!("{n} {}", noun(n, singular))
}

/// Groups the digits of a number by threes: 34133 becomes "34 133".
pub fn grouped(n: u64) -> String {
    let digits = format!("{n}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A quantity that may have decimals, with its noun: "1 year", "0.25 years".
pub fn measure(n: f64, singular: &str) -> String {
    format!("{n} {}", noun(if n == 1.0 { 1 } else { 0 }, singular))
}

/// Replaces a character of untrusted text that is unsafe to print: control characters, which terminals execute, and
/// marks that reverse the text direction.
pub fn shown(c: char) -> char {
    match c {
        '\n' | '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::{count, measure};

    #[test]
    fn one_is_singular_and_all_else_plural() {
        let words = [count(0, "page"), count(1, "page"), count(2, "page")];
        assert_eq!(words, ["0 pages", "1 page", "2 pages"]);
        assert_eq!([measure(1.0, "year"), measure(0.25, "year")], ["1 year", "0.25 years"]);
        let words = [count(1, "entry"), count(2, "entry"), count(2, "day"), count(3, "directory")];
        assert_eq!(words, ["1 entry", "2 entries", "2 days", "3 directories"]);
    }
}
