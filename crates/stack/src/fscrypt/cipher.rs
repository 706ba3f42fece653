//! The ciphers: XTS (IEEE 1619) or CBC with ESSIV for contents, CBC with ciphertext stealing (NIST SP 800-38A, addendum, CS3) for names.

use aes::cipher::{BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use aes::{Aes128, Aes256, Block};
use sha2::{Digest as _, Sha256};

/// Size of an AES block, B.
const BLOCK: usize = 16;

/// Cipher of the contents of a file, with the cipher of its tweaks or IVs.
pub(super) enum Contents {
    /// AES-256-XTS.
    Xts(Aes256, Aes256),
    /// AES-128-CBC, whose IVs are numbers encrypted with the hash of the key.
    Essiv(Aes128, Aes256),
}

impl Contents {
    /// XTS with a key of 64 bytes, or CBC with one of 16.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        if key.len() == BLOCK {
            let iv = Aes256::new_from_slice(&Sha256::digest(key)).ok()?;
            return Some(Self::Essiv(Aes128::new_from_slice(key).ok()?, iv));
        }
        let (data, tweak) = key.split_at_checked(32)?;
        Some(Self::Xts(Aes256::new_from_slice(data).ok()?, Aes256::new_from_slice(tweak).ok()?))
    }

    /// Decrypts a data unit of whole AES blocks; its number in the file is the tweak.
    pub(super) fn decrypt(&self, number: u64, unit: &mut [u8]) -> Option<()> {
        let (blocks, []) = unit.as_chunks_mut::<BLOCK>() else { return None };
        let (Self::Xts(_, cipher) | Self::Essiv(_, cipher)) = self;
        let mut tweak = Block::from(u128::from(number).to_le_bytes());
        cipher.encrypt_block(&mut tweak);
        let mut tweak = u128::from_le_bytes(tweak.into());
        for bytes in blocks {
            let data = match self {
                Self::Xts(data, _) => data,
                Self::Essiv(data, _) => {
                    let mut block = Block::from(*bytes);
                    data.decrypt_block(&mut block);
                    let before = std::mem::replace(&mut tweak, u128::from_le_bytes(*bytes));
                    *bytes = (u128::from_le_bytes(block.into()) ^ before).to_le_bytes();
                    continue;
                }
            };
            let mut block = Block::from((u128::from_le_bytes(*bytes) ^ tweak).to_le_bytes());
            data.decrypt_block(&mut block);
            *bytes = (u128::from_le_bytes(block.into()) ^ tweak).to_le_bytes();
            tweak = tweak << 1 ^ if tweak >> 127 == 0 { 0 } else { 0x87 };
        }
        Some(())
    }
}

/// Cipher of names and of targets of links.
pub(super) struct Names {
    cipher: NamesCipher,
    iv: [u8; BLOCK],
}

enum NamesCipher {
    Aes128(Aes128),
    Aes256(Aes256),
}

impl Names {
    /// The cipher with a key of 16 or 32 bytes, and the number of the first unit of the file, which is the IV.
    pub(super) fn new(key: &[u8], number: u64) -> Option<Self> {
        let iv = u128::from(number).to_le_bytes();
        let cipher = match key.len() {
            BLOCK => NamesCipher::Aes128(Aes128::new_from_slice(key).ok()?),
            _ => NamesCipher::Aes256(Aes256::new_from_slice(key).ok()?),
        };
        Some(Self { cipher, iv })
    }

    fn decrypted(&self, block: [u8; BLOCK]) -> [u8; BLOCK] {
        let mut block = Block::from(block);
        match &self.cipher {
            NamesCipher::Aes128(cipher) => cipher.decrypt_block(&mut block),
            NamesCipher::Aes256(cipher) => cipher.decrypt_block(&mut block),
        }
        block.into()
    }

    /// Decrypts a name and removes its padding, the zeros after it; `None` if it is too short.
    pub(super) fn decrypt(&self, name: &[u8]) -> Option<Vec<u8>> {
        let mut out = self.padded(name)?;
        out.truncate(out.iter().position(|&byte| byte == 0).unwrap_or(out.len()));
        Some(out)
    }

    /// Decrypts a name, with its padding.
    pub(super) fn padded(&self, name: &[u8]) -> Option<Vec<u8>> {
        let tail = name.len().checked_sub(1)? % BLOCK + 1;
        let mut out = Vec::with_capacity(name.len());
        let mut before = self.iv;
        if name.len() == BLOCK {
            out.extend(xor(self.decrypted(*name.first_chunk()?), before));
        } else {
            let (whole, last) = name.split_at_checked(name.len().checked_sub(BLOCK + tail)?)?;
            for block in whole.as_chunks::<BLOCK>().0 {
                out.extend(xor(self.decrypted(*block), before));
                before = *block;
            }
            // CS3 exchanges the last two blocks, and truncates the new last block.
            let (first, rest) = last.split_first_chunk::<BLOCK>()?;
            let mixed = self.decrypted(*first);
            let mut second = mixed;
            second.get_mut(..tail)?.copy_from_slice(rest);
            out.extend(xor(self.decrypted(second), before));
            out.extend(mixed.iter().zip(rest).map(|(one, other)| one ^ other));
        }
        Some(out)
    }
}

/// SipHash-2-4 of a number of eight bytes (Aumasson and Bernstein, 2012), with which the numbers of inodes are hashed.
pub(super) fn sip_hash(key: [u8; BLOCK], number: u64) -> u64 {
    let (halves, _) = key.as_chunks::<8>();
    let [low, high] = [0, 1].map(|at: usize| halves.get(at).map_or(0, |half| u64::from_le_bytes(*half)));
    let mut state = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    // The last block has the number of bytes only.
    for (block, rounds) in [(number, 2), (8 << 56, 2), (0, 4)] {
        if rounds == 4 {
            state[2] ^= 0xFF;
        }
        state[3] ^= block;
        (0..rounds).for_each(|_| sip_round(&mut state));
        state[0] ^= block;
    }
    state.iter().fold(0, |all, word| all ^ word)
}

fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

fn xor(one: [u8; BLOCK], other: [u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_le_bytes(one) ^ u128::from_le_bytes(other)).to_le_bytes()
}

/// Encrypts bytes block by block (ECB). Policies of version 1 derive the key of a file in this way.
pub(super) fn encrypted_ecb_128(key: &[u8; BLOCK], bytes: &[u8]) -> Option<Vec<u8>> {
    let cipher = Aes128::new_from_slice(key).ok()?;
    let (blocks, []) = bytes.as_chunks::<BLOCK>() else { return None };
    let encrypted = blocks.iter().flat_map(|bytes| {
        let mut block = Block::from(*bytes);
        cipher.encrypt_block(&mut block);
        <[u8; BLOCK]>::from(block)
    });
    Some(encrypted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IEEE 1619-2007, annex B, vector 10: a unit with the number FFh.
    #[test]
    fn xts_is_that_of_the_standard() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let key = hex(
            "27182818284590452353602874713526624977572470936999595749669676273141592653589793238462643383279502884197169399375105820974944592",
        );
        let mut unit = hex("1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b");
        Contents::new(&key).unwrap().decrypt(0xFF, &mut unit).unwrap();
        assert_eq!(unit, (0..32).collect::<Vec<u8>>());
        assert!(Contents::new(&key).unwrap().decrypt(0, &mut [0; 17]).is_none());
    }

    /// The vector of eight bytes of the authors' reference implementation.
    #[test]
    fn numbers_are_hashed_as_the_authors_do() {
        let key = std::array::from_fn(|at| at as u8);
        let number = u64::from_le_bytes(std::array::from_fn(|at| at as u8));
        assert_eq!(sip_hash(key, number), 0x93f5_f579_9a93_2462);
    }

    /// Ciphertext stealing as RFC 3962 defines it, over all lengths.
    #[test]
    fn names_of_all_lengths_come_back() {
        let names = Names::new(&[7; 32], 0).unwrap();
        let cipher = Aes256::new_from_slice(&[7; 32]).unwrap();
        let encrypt = |block: [u8; BLOCK]| {
            let mut block = Block::from(block);
            cipher.encrypt_block(&mut block);
            <[u8; BLOCK]>::from(block)
        };
        for len in 16..70_usize {
            let plain: Vec<u8> = (1..=len as u8).collect();
            let mut padded = plain.clone();
            padded.resize(len.next_multiple_of(BLOCK), 0);
            let (mut stored, mut before) = (Vec::new(), [0; BLOCK]);
            for block in padded.as_chunks::<BLOCK>().0 {
                before = encrypt(xor(*block, before));
                stored.push(before);
            }
            if let [.., second, last] = &mut stored[..] {
                std::mem::swap(second, last);
            }
            let mut stored = stored.concat();
            stored.truncate(len);
            assert_eq!(names.decrypt(&stored), Some(plain), "{len}");
        }
        assert_eq!(names.decrypt(&[0; 15]), None);
        assert_eq!(names.decrypt(&[]), None);
    }
}
