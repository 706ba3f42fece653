//! The ciphers: XTS (IEEE 1619) for contents, CBC with ciphertext stealing (NIST SP 800-38A, addendum, CS3) for names.

use aes::cipher::{BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use aes::{Aes128, Aes256, Block};

/// Size of an AES block, B.
const BLOCK: usize = 16;

/// Decryption of the data units of a file.
pub type Units<'u> = dyn FnMut(u64, &mut [u8]) -> Option<()> + 'u;

/// Cipher of the contents of a file.
pub(super) struct Contents {
    data: Aes256,
    tweak: Aes256,
}

impl Contents {
    /// Creates the cipher from a key of 64 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        let (data, tweak) = key.split_at_checked(32)?;
        Some(Self { data: Aes256::new_from_slice(data).ok()?, tweak: Aes256::new_from_slice(tweak).ok()? })
    }

    /// Decrypts a data unit of whole AES blocks; its number in the file is the tweak.
    pub(super) fn decrypt(&self, number: u64, unit: &mut [u8]) -> Option<()> {
        let (blocks, []) = unit.as_chunks_mut::<BLOCK>() else { return None };
        let mut tweak = Block::from(u128::from(number).to_le_bytes());
        self.tweak.encrypt_block(&mut tweak);
        let mut tweak = u128::from_le_bytes(tweak.into());
        for bytes in blocks {
            let mut block = Block::from((u128::from_le_bytes(*bytes) ^ tweak).to_le_bytes());
            self.data.decrypt_block(&mut block);
            *bytes = (u128::from_le_bytes(block.into()) ^ tweak).to_le_bytes();
            tweak = tweak << 1 ^ if tweak >> 127 == 0 { 0 } else { 0x87 };
        }
        Some(())
    }
}

/// Cipher of names and of targets of links.
pub(super) struct Names(Aes256);

impl Names {
    /// Creates the cipher from a key of 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        Aes256::new_from_slice(key).ok().map(Self)
    }

    fn decrypted(&self, block: [u8; BLOCK]) -> [u8; BLOCK] {
        let mut block = Block::from(block);
        self.0.decrypt_block(&mut block);
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
        let mut before = [0; BLOCK];
        if name.len() == BLOCK {
            out.extend(self.decrypted(*name.first_chunk()?));
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

    /// Ciphertext stealing agrees with RFC 3962 for all lengths.
    #[test]
    fn names_of_all_lengths_come_back() {
        let names = Names::new(&[7; 32]).unwrap();
        let encrypt = |block: [u8; BLOCK]| {
            let mut block = Block::from(block);
            names.0.encrypt_block(&mut block);
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
