//! Texts of names, paths and sizes for messages and reports, and of numbers with their nouns.

pub use floatgate_mtd::words::{count, measure, noun, shown};

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
