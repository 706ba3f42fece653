//! Names and contents encrypted by Linux (`Documentation/filesystems/fscrypt.rst`): AES-256-XTS for contents, AES-256-CTS-CBC for names and targets of
//! links, policies of version 1 and 2.
//!
//! - [`Keys`]: master keys, and the key of a file by its context.
//! - [`Decrypted`]: a filesystem that is read with keys.

mod cipher;
mod decrypted;

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::digest::KeyInit as _;
use sha2::{Digest as _, Sha512};

use crate::fs::Error;
pub use cipher::Units;
use cipher::{Contents, Names, encrypted_ecb_128};
pub use decrypted::Decrypted;

/// Name of the extended attribute with the context of a file.
pub const CONTEXT: &[u8] = b"c";

/// Bytes of a master key: the shortest one, and the longest.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// Bytes of the key for names and for contents.
const NAMES_BYTES: usize = 32;
const CONTENTS_BYTES: usize = 64;

/// Numbers of the modes: AES-256-XTS and AES-256-CTS-CBC.
const XTS: u8 = 1;
const CTS: u8 = 4;

/// Flags of a policy beside the padding: keys or IVs that are made in other ways.
const OTHER_KEYS: u8 = 0x1C;

/// Purposes of a key that HKDF derives: the identifier of the master key, and the key of a file.
const IDENTIFIER: u8 = 1;
const FILE_KEY: u8 = 2;

type Identifier = [u8; 16];
type Descriptor = [u8; 8];
type Nonce = [u8; 16];

/// A master key with the names that policies have for it.
#[derive(Clone)]
struct MasterKey {
    bytes: Vec<u8>,
    identifier: Identifier,
    descriptor: Descriptor,
}

/// Master keys.
#[derive(Clone, Default)]
pub struct Keys(Vec<MasterKey>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    /// Adds a master key, as it is added to a kernel.
    ///
    /// # Errors
    /// [`Error::Invalid`] of a key that is too short or too long.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !KEY_BYTES.contains(&bytes.len()) {
            return Err(Error::Invalid("a key of encrypted files has 16 to 64 bytes"));
        }
        let mut identifier = Identifier::default();
        derive(bytes, IDENTIFIER, &[], &mut identifier);
        // As fscrypt and mkfs.ubifs name keys of the first version.
        let digest = Sha512::digest(Sha512::digest(bytes));
        let descriptor = digest.first_chunk().copied().unwrap_or_default();
        self.0.push(MasterKey { bytes: bytes.to_vec(), identifier, descriptor });
        Ok(())
    }

    /// The keys of a file; `None` where its master key is not among these.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a context that no file has; [`Error::Unsupported`] of other ciphers.
    fn of_file(&self, context: &[u8]) -> Result<Option<FileKey>, Error> {
        let context = Context::parse(context)
            .ok_or_else(|| Error::Damaged("the context of its encryption is damaged".to_owned()))?;
        if (context.contents, context.names) != (XTS, CTS) {
            return Err(Error::Unsupported("ciphers other than AES-256-XTS and AES-256-CTS-CBC"));
        }
        if context.flags & OTHER_KEYS != 0 {
            return Err(Error::Unsupported("keys that belong to several files"));
        }
        let is_it = |key: &&MasterKey| match context.key {
            KeyName::Identifier(identifier) => key.identifier == identifier,
            KeyName::Descriptor(descriptor) => key.descriptor == descriptor,
        };
        let Some(key) = self.0.iter().find(is_it) else { return Ok(None) };
        let of_bytes = |len: usize| match context.key {
            KeyName::Identifier(_) => {
                let mut own = vec![0; len];
                derive(&key.bytes, FILE_KEY, &context.nonce, &mut own);
                Some(own)
            }
            KeyName::Descriptor(_) => encrypted_ecb_128(&context.nonce, key.bytes.get(..len)?),
        };
        let both =
            || Some((Contents::new(&of_bytes(CONTENTS_BYTES)?)?, Names::new(&of_bytes(NAMES_BYTES)?)?));
        let (contents, names) = both().ok_or(Error::Invalid("the key of the files is too short"))?;
        Ok(Some(FileKey { contents, names }))
    }
}

/// Keys of a file.
struct FileKey {
    contents: Contents,
    names: Names,
}

/// Name of a master key in a context.
enum KeyName {
    Descriptor(Descriptor),
    Identifier(Identifier),
}

/// Context of an encrypted file (Linux: `union fscrypt_context`).
struct Context {
    contents: u8,
    names: u8,
    flags: u8,
    key: KeyName,
    nonce: Nonce,
}

impl Context {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version, contents, names, flags], rest) = bytes.split_first_chunk()?;
        let (key, nonce) = match version {
            1 => (KeyName::Descriptor(*rest.first_chunk()?), rest.get(8..)?),
            // Four bytes are reserved; the first one is the logarithm of smaller units in Linux 6.7.
            2 if rest.first() == Some(&0) => {
                (KeyName::Identifier(*rest.get(4..)?.first_chunk()?), rest.get(20..)?)
            }
            _ => return None,
        };
        let nonce = *nonce.first_chunk().filter(|_| nonce.len() == 16)?;
        Some(Self { contents, names, flags, key, nonce })
    }
}

/// HMAC with SHA-512 of data in parts.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 64] {
    // A key of any length is one.
    let Ok(mut hmac) = Hmac::<Sha512>::new_from_slice(key) else { return [0; 64] };
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

/// HKDF-SHA512 (RFC 5869) without salt: the key for a purpose.
fn derive(master: &[u8], purpose: u8, info: &[u8], out: &mut [u8]) {
    let extracted = hmac(&[0; 64], &[master]);
    let mut last: Vec<u8> = Vec::new();
    for (block, number) in out.chunks_mut(64).zip(1_u8..) {
        let next = hmac(&extracted, &[&last, b"fscrypt\0", &[purpose], info, &[number]]);
        block.copy_from_slice(&next[..block.len()]);
        last = next.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5869 has no vectors with SHA-512: the identifier is the one that Linux 6.1 gave this key.
    #[test]
    fn the_identifier_of_a_key_is_that_of_linux() {
        let key: Vec<u8> = (0..64_u32).map(|byte| (byte * 7 + 3) as u8).collect();
        let mut keys = Keys::default();
        keys.add(&key).unwrap();
        assert!(keys.add(&[0; 15]).is_err() && keys.add(&[0; 65]).is_err());
        let linux = 0xa525_b310_d975_604e_26c7_6113_4e6c_35d1_u128.to_be_bytes();
        assert_eq!((keys.0[0].identifier, format!("{keys:?}")), (linux, "Keys(1)".to_owned()));
    }

    #[test]
    fn contexts_are_checked() {
        for len in 0..60 {
            let mut context = vec![0; len];
            for version in 0..4 {
                if let Some(first) = context.first_mut() {
                    *first = version;
                }
                let is_one = (version, len) == (1, 28) || (version, len) == (2, 40);
                assert_eq!(Context::parse(&context).is_some(), is_one, "{version} {len}");
            }
        }
    }
}
