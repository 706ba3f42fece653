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

/// Flags of a policy that tell the padding of names. The others make keys or IVs in other ways.
const PADDING: u8 = 0x03;

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

    /// The keys of a file, or the reason for which these keys do not decrypt it.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a context that no file has.
    fn of_file(&self, context: &[u8]) -> Result<Result<FileKey, String>, Error> {
        let context = Context::parse(context)
            .ok_or_else(|| Error::Damaged("the context of its encryption is damaged".to_owned()))?;
        if let Some(what) = context.unsupported() {
            return Ok(Err(format!("not supported: {what}")));
        }
        let is_it = |key: &&MasterKey| match context.key {
            KeyName::Identifier(identifier) => key.identifier == identifier,
            KeyName::Descriptor(descriptor) => key.descriptor == descriptor,
        };
        let Some(key) = self.0.iter().find(is_it) else {
            return Ok(Err(format!("no key was given for its policy, {}", context.key)));
        };
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
        let short = || format!("a key of {} bytes is too short for a policy of version 1", key.bytes.len());
        Ok(both().map(|(contents, names)| FileKey { contents, names }).ok_or_else(short))
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

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, bytes) = match self {
            Self::Descriptor(descriptor) => ("key descriptor", descriptor.as_slice()),
            Self::Identifier(identifier) => ("key identifier", identifier.as_slice()),
        };
        f.write_str(what)?;
        f.write_str(" ")?;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Name of a mode of encryption in Linux's documents.
const fn mode(number: u8) -> Option<&'static str> {
    Some(match number {
        XTS => "AES-256-XTS",
        CTS => "AES-256-CTS-CBC",
        5 => "AES-128-CBC-ESSIV",
        6 => "AES-128-CTS-CBC",
        7 => "SM4-XTS",
        8 => "SM4-CTS-CBC",
        9 => "Adiantum",
        10 => "AES-256-HCTR2",
        _ => return None,
    })
}

/// Context of an encrypted file (Linux: `union fscrypt_context`).
struct Context {
    contents: u8,
    names: u8,
    flags: u8,
    /// Logarithm to base 2 of the bytes that are encrypted together, where it is not a block (Linux 6.7).
    unit: u8,
    key: KeyName,
    nonce: Nonce,
}

impl Context {
    /// The first property that this reader does not have.
    fn unsupported(&self) -> Option<String> {
        let name = |number: u8| mode(number).map_or_else(|| format!("mode {number}"), str::to_owned);
        let flag = |(bit, name): (u8, &str)| (self.flags & bit != 0).then(|| format!("the flag {name}"));
        match (self.contents, self.names) {
            (XTS, CTS) => {}
            (XTS, names) => return Some(format!("{} for names", name(names))),
            (contents, names) if contents == names => return Some(name(contents)),
            (contents, names) => return Some(format!("{} with {}", name(contents), name(names))),
        }
        if let Some(flag) = [(0x04, "DIRECT_KEY"), (0x08, "IV_INO_LBLK_64"), (0x10, "IV_INO_LBLK_32")]
            .into_iter()
            .find_map(flag)
        {
            return Some(flag);
        }
        match (self.flags & !PADDING, self.unit) {
            (0, 0) => None,
            (0, unit) => Some(format!("data units of 2^{unit} bytes")),
            (flags, _) => Some(format!("the flags {flags:#04x}")),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version, contents, names, flags], rest) = bytes.split_first_chunk()?;
        let (key, nonce) = match version {
            1 => (KeyName::Descriptor(*rest.first_chunk()?), rest.get(8..)?),
            // Four bytes, of which Linux 6.7 uses the first one.
            2 => (KeyName::Identifier(*rest.get(4..)?.first_chunk()?), rest.get(20..)?),
            _ => return None,
        };
        let unit = if version == 2 { *rest.first()? } else { 0 };
        let nonce = *nonce.first_chunk().filter(|_| nonce.len() == 16)?;
        Some(Self { contents, names, flags, unit, key, nonce })
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
    fn what_is_not_supported_is_named() {
        let key = [7; 64];
        let mut keys = Keys::default();
        keys.add(&key).unwrap();
        let context = |start: [u8; 8], identifier: Identifier| [&start[..], &identifier, &[9; 16]].concat();
        let own = keys.0[0].identifier;
        assert!(keys.of_file(&context([2, XTS, CTS, 3, 0, 0, 0, 0], own)).unwrap().is_ok());
        for (start, words) in [
            ([2, 9, 9, 2, 0, 0, 0, 0], "not supported: Adiantum"),
            ([2, 5, 6, 2, 0, 0, 0, 0], "not supported: AES-128-CBC-ESSIV with AES-128-CTS-CBC"),
            ([2, 1, 10, 2, 0, 0, 0, 0], "not supported: AES-256-HCTR2 for names"),
            ([2, 1, 4, 6, 0, 0, 0, 0], "not supported: the flag DIRECT_KEY"),
            ([2, 1, 4, 10, 0, 0, 0, 0], "not supported: the flag IV_INO_LBLK_64"),
            ([2, 1, 4, 0x22, 0, 0, 0, 0], "not supported: the flags 0x20"),
            ([2, 1, 4, 2, 9, 0, 0, 0], "not supported: data units of 2^9 bytes"),
            ([2, 77, 78, 2, 0, 0, 0, 0], "not supported: mode 77 with mode 78"),
        ] {
            assert_eq!(keys.of_file(&context(start, own)).unwrap().err().as_deref(), Some(words));
        }
        let other = keys.of_file(&context([2, XTS, CTS, 0, 0, 0, 0, 0], [0xAB; 16])).unwrap().err().unwrap();
        assert!(other.ends_with(&"ab".repeat(16)), "{other}");
        // A policy of version 1 takes 64 bytes of the key as they are.
        let old = |keys: &Keys| [&[1, XTS, CTS, 0][..], &keys.0[0].descriptor, &[9; 16]].concat();
        assert!(keys.of_file(&old(&keys)).unwrap().is_ok());
        let mut short = Keys::default();
        short.add(&[7; 32]).unwrap();
        assert!(short.of_file(&old(&short)).unwrap().is_err_and(|why| why.contains("32 bytes")));
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
