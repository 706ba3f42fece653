//! Helper functions of the tests.

/// Generator of pseudo-random numbers (splitmix64, Steele et al. 2014).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// The next `len` bytes, from the words of the generator, lowest byte first.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next());
        words.flat_map(u64::to_le_bytes).take(len).collect()
    }

    /// `count` different numbers below `limit`.
    pub(crate) fn distinct(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let mut all = Vec::new();
        while all.len() < count {
            let next = self.below(limit);
            if !all.contains(&next) {
                all.push(next);
            }
        }
        all
    }
}

pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    Noise(seed).bytes(len)
}

/// Flips a bit of data or ECC bytes; bit 0 is the highest bit of the first byte.
pub(crate) fn flip(data: &mut [u8], ecc: &mut [u8], bit: usize) {
    let byte = match bit.checked_sub(8 * data.len()) {
        None => &mut data[bit / 8],
        Some(bit) => &mut ecc[bit / 8],
    };
    *byte ^= 0x80 >> (bit % 8);
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Rows of a file of test vectors, split at blanks.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().collect())
}
