//! Contents of the files that the tests write.

use crate::speed::pattern;

/// Name of random bytes as file data.
pub(crate) const RANDOM: &str = "random";

/// Names of the data that is written.
pub(super) const DATA: [&str; 2] = [RANDOM, "zeros"];

/// One MiB of data of this kind, which fills files repeatedly.
pub(crate) fn data(name: &str) -> Vec<u8> {
    match name {
        RANDOM => pattern(MIB),
        "text" => text(),
        _ => vec![0; MIB],
    }
}

const MIB: usize = 1 << 20;

/// Text of words in random order; deflate shrinks it to about 40 %.
fn text() -> Vec<u8> {
    const WORDS: [&str; 32] = [
        "the", "flash", "of", "and", "page", "a", "in", "to", "block", "erase", "is", "that", "wear", "for",
        "with", "device", "on", "as", "journal", "node", "be", "by", "from", "index", "at", "this", "mount",
        "are", "or", "data", "which", "cache",
    ];
    let mut out = Vec::with_capacity(MIB + 16);
    for byte in pattern(MIB / 3) {
        out.extend_from_slice(WORDS[usize::from(byte % 32)].as_bytes());
        // Numbers and names, which repeat less often.
        out.extend_from_slice(&[b' ', b'a' + byte % 26, b'0' + byte / 26, b' ']);
        if out.len() >= MIB {
            break;
        }
    }
    out.truncate(MIB);
    out
}
