//! Numbers of as many bits as the largest of them needs, without gaps: the map of a card.

/// Array of numbers, all 0 at first. Zeros cost no memory until they are written.
#[derive(Clone, Debug)]
pub(crate) struct PackedInts {
    bytes: Vec<u8>,
    len: usize,
    bits: usize,
}

impl PackedInts {
    /// `len` zeros, with room for numbers up to `largest`.
    pub(crate) fn new(len: usize, largest: u32) -> Self {
        let bits = (u32::BITS - largest.leading_zeros()) as usize;
        // Each number is read within eight bytes.
        Self { bytes: vec![0; (len * bits).div_ceil(8) + 8], len, bits }
    }

    const fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> u32 {
        let (byte, shift) = (index * self.bits / 8, index * self.bits % 8);
        let word = self.bytes[byte..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (word >> shift & self.mask()) as u32
    }

    /// Writes a number. Returns the one before.
    #[inline]
    pub(crate) fn replace(&mut self, index: usize, number: u32) -> u32 {
        debug_assert!(index < self.len && u64::from(number) <= self.mask());
        let (byte, shift) = (index * self.bits / 8, index * self.bits % 8);
        let mask = self.mask();
        let Some(bytes) = self.bytes[byte..].first_chunk_mut() else { return 0 };
        let word = u64::from_le_bytes(*bytes);
        *bytes = (word & !(mask << shift) | u64::from(number) << shift).to_le_bytes();
        (word >> shift & mask) as u32
    }

    /// All numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len).map(|index| self.get(index))
    }

    /// Makes all numbers 0.
    pub(crate) fn clear(&mut self) {
        let bytes = self.bytes.len();
        // Not both at a time.
        self.bytes = Vec::new();
        self.bytes = vec![0; bytes];
    }

    /// Bytes of memory when all was written.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_stay_apart() {
        for bits in 1..=32 {
            let largest = u32::MAX >> (32 - bits);
            let mut packed = PackedInts::new(100, largest);
            assert!(packed.memory_bytes() <= 100 * bits as usize / 8 + 9);
            let number = |index: usize, round: u32| {
                (index as u32).wrapping_mul(0x9E37_79B9).rotate_left(round) & largest
            };
            for round in 0..3 {
                for index in 0..100 {
                    let old = if round == 0 { 0 } else { number(index, round - 1) };
                    assert_eq!(packed.replace(index, number(index, round)), old);
                }
                assert!(packed.iter().eq((0..100).map(|index| number(index, round))), "{bits} bits");
            }
            packed.replace(99, largest);
            assert_eq!((packed.get(99), packed.get(98)), (largest, number(98, 2)));
            packed.clear();
            assert_eq!((packed.iter().max(), packed.iter().count()), (Some(0), 100));
        }
    }
}
