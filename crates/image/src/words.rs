//! Numbers with their nouns, for messages and reports.

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

/// A quantity that may have decimals, with its noun: "1 year", "0.25 years".
pub fn measure(n: f64, singular: &str) -> String {
    format!("{n} {}", noun(if n == 1.0 { 1 } else { 0 }, singular))
}

/// A character of a text of anybody's as people may see it: no control character, which a terminal would obey, and no mark that reverses the
/// order of letters.
pub fn shown(c: char) -> char {
    match c {
        '\n' | '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// Bytes as people write them: KiB or MiB where they are whole.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// A path from the root for people: bytes that are not UTF-8, and control characters, as `\xNN`.
pub fn show_path(path: &[Vec<u8>]) -> String {
    if path.is_empty() {
        return "/".to_owned();
    }
    path.iter().flat_map(|part| ["/".to_owned(), show_name(part)]).collect()
}

/// A name for people: bytes that are not UTF-8, and control characters, as `\xNN`.
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

#[cfg(test)]
mod tests {
    use super::measure;
    use crate::words::count;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        let words = [count(0, "page"), count(1, "page"), count(2, "page")];
        assert_eq!(words, ["0 pages", "1 page", "2 pages"]);
        assert_eq!([measure(1.0, "year"), measure(0.25, "year")], ["1 year", "0.25 years"]);
        let words = [count(1, "entry"), count(2, "entry"), count(2, "day"), count(3, "directory")];
        assert_eq!(words, ["1 entry", "2 entries", "2 days", "3 directories"]);
    }
}
