//! Helper functions of several test files.
#![allow(clippy::expect_used)] // a bad sample fails the test

pub(crate) mod sfdp_dumps;

/// Bytes of hexadecimal digits; white space between bytes and `#` comments are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").chars())
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hex digit"))
        .collect();
    assert!(digits.len().is_multiple_of(2), "whole bytes");
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Bytes from lines of `address: bytes`; gaps are filled with `fill`.
pub(crate) fn dump(text: &str, fill: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (address, bytes) = line.split_once(':').expect("address: bytes");
        let at = usize::from_str_radix(address.trim(), 16).expect("an address");
        let bytes = hex(bytes);
        out.resize(out.len().max(at + bytes.len()), fill);
        out[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    out
}

/// Runs `parse` on every truncation and on every single-bit corruption of `bytes`.
pub(crate) fn mangle(bytes: &[u8], mut parse: impl FnMut(&[u8])) {
    for end in 0..bytes.len() {
        parse(&bytes[..end]);
    }
    let mut bytes = bytes.to_vec();
    for bit in 0..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        parse(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}
