//! Sizes of codes.

/// Bytes of a Hamming code over a step of `step_bytes` (256 or 512): three, whichever it is (SmartMedia specification;
/// facts 5).
pub const fn hamming_bytes(step_bytes: u32) -> u32 {
    let _ = step_bytes;
    3
}

/// Bytes of a binary BCH code that corrects `strength` bits in a step of `step_bytes`: `strength` times the field's degree
/// m, in whole bytes. The smallest field in which data and check bits fit has 2^m > 8 * `step_bytes` + 1 elements: m is 13
/// for 512 bytes, 14 for 1024 (facts 5).
pub const fn bch_bytes(step_bytes: u32, strength: u32) -> u32 {
    let degree = 32 - (8 * step_bytes + 1).leading_zeros();
    (degree * strength).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts 5: 4 bits need 7 bytes, 8 need 13, 16 need 26; over 1 KiB 24 need 42 and 40 need 70.
    #[test]
    fn published_sizes() {
        let sizes = [(512, 4), (512, 8), (512, 16), (1024, 24), (1024, 40)].map(|(s, t)| bch_bytes(s, t));
        assert_eq!(sizes, [7, 13, 26, 42, 70]);
        assert_eq!(hamming_bytes(512), 3);
    }
}
