//! The one-bit Hamming code of SmartMedia and of Linux's software Hamming engine.
//!
//! Each data bit has an address in its step. For each bit of this address there is a pair of parities: one over the half of the
//! step in which the address bit is 1, and one over the other half. A flipped data bit changes exactly one parity of each pair,
//! and the changed parities of the "1" halves are its address. A flipped ECC bit changes a single parity. Two flipped bits change
//! none or both parities of at least one pair. (Hamming 1950, with two parities per address bit instead of one and an overall
//! parity.)
//!
//! Parities are stored inverted, so that an erased step has erased ECC bytes. Byte 2 contains the pairs of the address inside
//! the byte (bits 7 to 2) and the pair of 256-byte halves (bits 1 and 0; always 1 for steps of 256 bytes). Byte 1 contains
//! the pairs of the low four bits of the byte's number, byte 0 the pairs of the next four (facts 5).

use crate::{ParityOrder, Uncorrectable};

/// ECC bytes of a step.
pub(crate) type Ecc = [u8; 3];

/// Number of 64-bit words in the largest step.
const MAX_WORDS: usize = 64;

/// Number of address bits of a bit inside a word.
const WORD_BITS: u32 = 6;

/// Mask `0101...` of the lower parity of each pair.
const LOWER: u32 = 0x55_5555;

/// Parities of `step` (256 or 512 bytes): bit `2k + 1` for the half where address bit k is 1, bit `2k` for the other half.
fn parities(step: &[u8]) -> u32 {
    let mut words = [0; MAX_WORDS];
    for (word, bytes) in words.iter_mut().zip(step.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let address_bits = step.len().ilog2() + 3;
    let mut ones = 0;
    // The two halves are combined by XOR, so the words for the next address bit are half as many.
    for bit in (WORD_BITS..address_bits).rev() {
        let (low, high) = words[..2 << (bit - WORD_BITS)].split_at_mut(1 << (bit - WORD_BITS));
        ones |= parity(high.iter().fold(0, |all, word| all ^ word)) << (2 * bit);
        low.iter_mut().zip(high).for_each(|(low, high)| *low ^= *high);
    }
    let mut word = words[0];
    for bit in (0..WORD_BITS).rev() {
        let high = word >> (1 << bit);
        ones |= parity(high & ((1 << (1 << bit)) - 1)) << (2 * bit);
        word ^= high;
    }
    let all = ((word & 1) as u32) * (LOWER & ((1 << (2 * address_bits)) - 1));
    ones << 1 | (ones ^ all)
}

fn parity(word: u64) -> u32 {
    word.count_ones() & 1
}

/// Stored bytes for the pairs of parities.
fn pack(pairs: u32) -> Ecc {
    let stored = !pairs;
    [(stored >> 14) as u8, (stored >> 6) as u8, (stored << 2) as u8 | (stored >> 22) as u8 & 3]
}

/// Pairs of parities in the stored bytes.
fn unpack([high, low, column]: Ecc) -> u32 {
    let column = u32::from(column);
    !(u32::from(high) << 14 | u32::from(low) << 6 | column >> 2 | (column & 3) << 22) & 0xFF_FFFF
}

/// ECC bytes converted to another arrangement of the parities.
pub(crate) fn arrange(ecc: Ecc, order: ParityOrder) -> Ecc {
    let pairs = unpack(ecc);
    let (odd, even) = (every_other(pairs >> 1), every_other(pairs));
    let [low, middle, high, _] = match order {
        ParityOrder::Pl35x => (!(odd | even << 12)).to_le_bytes(),
        ParityOrder::Davinci => (!(even | odd << 12)).to_le_bytes(),
        ParityOrder::Omap => {
            (even & 0xFF | (odd & 0xFF) << 8 | even >> 8 << 16 | odd >> 8 << 20).to_le_bytes()
        }
    };
    [low, middle, high]
}

/// ECC bytes converted back from an [arrangement](arrange).
pub(crate) fn from_arranged([low, middle, high]: Ecc, order: ParityOrder) -> Ecc {
    let word = u32::from_le_bytes([low, middle, high, 0]);
    let (odd, even) = match order {
        ParityOrder::Pl35x => (!word & 0xFFF, !word >> 12 & 0xFFF),
        ParityOrder::Davinci => (!word >> 12 & 0xFFF, !word & 0xFFF),
        ParityOrder::Omap => (word >> 8 & 0xFF | word >> 20 << 8, word & 0xFF | word >> 16 << 8 & 0xF00),
    };
    let spread = |bits: u32| (0..12).fold(0, |pairs, k| pairs | (bits >> k & 1) << (2 * k));
    pack(spread(odd) << 1 | spread(even))
}

/// The ECC bytes of `step`.
pub(crate) fn encode(step: &[u8]) -> Ecc {
    pack(parities(step))
}

/// Corrects `step` and `ecc`, and returns the number of wrong bits.
pub(crate) fn decode(step: &mut [u8], ecc: &mut Ecc) -> Result<u32, Uncorrectable> {
    let right = parities(step);
    let wrong = unpack(*ecc) ^ right;
    if wrong == 0 {
        return Ok(0);
    }
    let used = LOWER >> (24 - 2 * (step.len().ilog2() + 3));
    if (wrong ^ wrong >> 1) & used == used {
        let address = every_other(wrong >> 1) as usize & (8 * step.len() - 1);
        step[address / 8] ^= 1 << (address % 8);
        *ecc = encode(step);
        return Ok(1);
    }
    if wrong.is_power_of_two() {
        *ecc = pack(right);
        return Ok(1);
    }
    Err(Uncorrectable)
}

/// Bits 0, 2, 4 ... of `pairs`, packed together.
fn every_other(pairs: u32) -> u32 {
    (0..12).fold(0, |bits, k| bits | (pairs >> (2 * k) & 1) << k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use alloc::vec::Vec;

    /// Parities computed bit by bit from the definition.
    fn by_definition(step: &[u8]) -> u32 {
        let ones = (0..8 * step.len()).filter(|bit| step[bit / 8] >> (bit % 8) & 1 == 1);
        let address_bits = step.len().ilog2() + 3;
        ones.fold(0, |pairs, bit| {
            (0..address_bits).fold(pairs, |pairs, k| pairs ^ 1 << (2 * k + (bit as u32 >> k & 1)))
        })
    }

    fn steps() -> [Vec<u8>; 2] {
        [noise(3, 256), noise(4, 512)]
    }

    #[test]
    fn parities_are_those_of_the_definition() {
        for step in steps() {
            assert_eq!(parities(&step), by_definition(&step));
            assert_eq!(unpack(pack(parities(&step))), parities(&step));
        }
        assert_eq!((encode(&[0xFF; 256]), encode(&[0xFF; 512])), ([0xFF; 3], [0xFF; 3]));
    }

    /// A step of FFh has zero odd parities, so hardware that stores parities without inversion writes zeros.
    #[test]
    fn arrangements_come_back() {
        for order in [ParityOrder::Pl35x, ParityOrder::Davinci, ParityOrder::Omap] {
            let ecc = encode(&noise(6, 512));
            assert_eq!(from_arranged(arrange(ecc, order), order), ecc, "{order:?}");
            let erased = if order == ParityOrder::Omap { 0 } else { 0xFF };
            assert_eq!(arrange([0xFF; 3], order), [erased; 3]);
        }
    }

    /// Computes the address of a wrong bit as the drivers of these controllers do, from stored and computed ECC bytes.
    #[test]
    fn arrangements_spell_the_address_where_drivers_look_for_it() {
        let step = noise(7, 512);
        let mut wrong = step.clone();
        wrong[300] ^= 1 << 5;
        let word = |step: &[u8], order| {
            let [a, b, c] = arrange(encode(step), order);
            u32::from_le_bytes([a, b, c, 0])
        };
        let differs = |order| word(&step, order) ^ word(&wrong, order);
        assert_eq!(differs(ParityOrder::Pl35x) & 0xFFF, 300 << 3 | 5);
        assert_eq!(differs(ParityOrder::Davinci) >> 12, 300 << 3 | 5);
        let omap = differs(ParityOrder::Omap);
        assert_eq!(omap >> 8 & 0xFF | omap >> 20 << 8, 300 << 3 | 5);
    }

    /// Flips bit number `bit` of a step followed by its ECC bytes.
    fn flip(step: &mut [u8], ecc: &mut Ecc, bit: usize) {
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        match step.get_mut(byte) {
            Some(data) => *data ^= mask,
            None => ecc[byte - step.len()] ^= mask,
        }
    }

    #[test]
    fn each_single_error_is_repaired() {
        for step in steps() {
            let ecc = encode(&step);
            for bit in 0..8 * step.len() + 24 {
                let (mut got, mut got_ecc) = (step.clone(), ecc);
                flip(&mut got, &mut got_ecc, bit);
                assert_eq!(decode(&mut got, &mut got_ecc), Ok(1), "bit {bit}");
                assert!(got == step && got_ecc == ecc, "bit {bit}");
            }
        }
    }

    /// Tests all pairs of bits in a step of 256 bytes, and many pairs in a step of 512 bytes. The two unused ECC bits of a
    /// 256-byte step are excluded, because they have no meaning.
    #[test]
    fn each_double_error_is_detected() {
        let [mut small, mut large] = steps();
        let pairs = (0..256 * 8 + 22).flat_map(|first| (0..first).map(move |second| (first, second)));
        detects(&mut small, pairs.map(|(first, second)| (past_unused(first), past_unused(second))));
        let noise = noise(5, 400_000);
        let bit = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) % (512 * 8 + 24);
        let pairs = noise.chunks(4).map(|bytes| (bit(&bytes[..2]), bit(&bytes[2..])));
        detects(&mut large, pairs.filter(|(first, second)| first != second));
    }

    /// Number of a bit of a 256-byte step and its ECC bytes, skipping the two unused lowest bits of the last byte.
    fn past_unused(bit: usize) -> usize {
        if bit < 256 * 8 + 16 { bit } else { bit + 2 }
    }

    fn detects(step: &mut [u8], pairs: impl Iterator<Item = (usize, usize)>) {
        let mut ecc = encode(step);
        for (first, second) in pairs {
            flip(step, &mut ecc, first);
            flip(step, &mut ecc, second);
            assert_eq!(decode(step, &mut ecc), Err(Uncorrectable), "bits {first} and {second}");
            flip(step, &mut ecc, first);
            flip(step, &mut ecc, second);
        }
    }
}
