//! Parsing and formatting of sizes in bytes.

use alloc::format;
use alloc::string::String;

/// Error for text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no size: a number of bytes, perhaps with B, KiB, MiB, GiB, TiB, or kB, MB, GB, TB of 1000"
)]
pub struct NoSize {
    text: String,
}

/// Lower-case unit names with their number of bytes.
const UNITS: [(&str, u64); 15] = [
    ("", 1),
    ("b", 1),
    ("bytes", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// Parses a size in bytes: `131072`, `0x20000`, `128KiB`, `16 MiB`, `1.5G`, `32GB`. Case is ignored.
///
/// # Errors
/// The text is not a size, not a whole number of bytes, or exceeds 64 bits.
pub fn parse(text: &str) -> Result<u64, NoSize> {
    parsed(text.trim()).ok_or_else(|| NoSize { text: text.into() })
}

fn parsed(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        // `B` is also a hexadecimal digit, so hexadecimal numbers only accept units that begin with another
        // letter.
        let digits = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let (number, unit) = hex.split_at(digits);
        return u64::from_str_radix(number, 16).ok()?.checked_mul(factor(unit)?);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = factor(unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.replace('_', "").parse().ok()?;
    let bytes = whole.checked_mul(factor)?;
    if !number.contains('.') {
        return Some(bytes);
    }
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor);
    let is_whole = part % u128::from(scale) == 0;
    is_whole.then(|| bytes.checked_add(u64::try_from(part / u128::from(scale)).ok()?))?
}

fn factor(unit: &str) -> Option<u64> {
    let unit = unit.trim();
    UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor)
}

/// Formats a size as a whole number of the largest possible binary unit up to MiB.
pub fn text(bytes: u64) -> String {
    match bytes {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("131072", 131_072),
            ("0x20000", 131_072),
            ("0x80KiB", 131_072),
            ("128KiB", 131_072),
            ("128k", 131_072),
            (" 16 MiB ", 16 << 20),
            ("1.5G", 3 << 29),
            ("0.5 KiB", 512),
            ("32GB", 32_000_000_000),
            ("1 kb", 1000),
            ("2TiB", 2 << 40),
            ("1_000 bytes", 1000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "KiB",
            "12 apples",
            "99999999999999999999",
            "-1",
            "17179869184GiB",
            "1.3B",
            "1.",
            ".5K",
            "0x",
            "1e6",
            "1.2.3M",
            "0.00000000000000000000001T",
            "_",
            "1KiBB",
            "NaN",
            "inf",
            "１",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("x").unwrap_err().to_string().starts_with("\"x\" is no size"));
    }
}
