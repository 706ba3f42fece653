//! Names and contents encrypted by Linux (`Documentation/filesystems/fscrypt.rst`) under policies of version 1 and 2. The ciphers are AES-256-XTS for
//! contents with AES-256-CTS-CBC for names and targets of links, or AES-128-CBC-ESSIV with AES-128-CTS-CBC.
//!
//! - [`Keys`]: master keys, and the key of a file by its context.
//! - [`Decrypted`]: a filesystem that is read with keys.

mod cipher;
mod decrypted;

use std::collections::BTreeMap;
use std::fmt;

use hmac::{Hmac, Mac};
use sha2::digest::KeyInit as _;
use sha2::{Digest as _, Sha512};

use crate::fs::Error;
pub use crate::fs::Units;
use cipher::{Contents, Names, encrypted_ecb_128, sip_hash};
pub use decrypted::Decrypted;

/// Name of the extended attribute with the context of a file.
pub const CONTEXT: &[u8] = b"c";

/// Permitted lengths of a master key, B.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// Lengths of the keys for names and for contents, B.
const NAMES_BYTES: usize = 32;
const CONTENTS_BYTES: usize = 64;

/// Bytes of both keys with AES-128.
const BYTES_128: usize = 16;

/// Numbers of the modes: AES-256-XTS and AES-256-CTS-CBC, AES-128-CBC-ESSIV and AES-128-CTS-CBC.
const XTS: u8 = 1;
const CTS: u8 = 4;
const ESSIV_128: u8 = 5;
const CTS_128: u8 = 6;

/// Flags of a policy that select the padding of names. Each other flag selects another derivation of keys or IVs.
const PADDING: u8 = 0x03;

/// Flags of a policy under which all files have the same keys, and IVs of their inodes and units: of 32 bits each, or of a hash of the inode.
const INODES_64: u8 = 0x08;
const INODES_32: u8 = 0x10;

/// Evidence of a printable character of ASCII, of which there are 95, in bits; control characters are rare.
const TEXT_BITS: f64 = 1.4;
const CONTROL_BITS: f64 = 5.0;

/// Evidence from which on a key is accepted for the names of a directory, in bits.
const BELIEVED_BITS: f64 = 20.0;

/// Purposes for which HKDF derives a key (Linux: `HKDF_CONTEXT_*`): the identifier of the master key, and the key of a
/// file.
const IDENTIFIER: u8 = 1;
const FILE_KEY: u8 = 2;
const KEY_OF_INODES_64: u8 = 4;
const KEY_OF_INODES_32: u8 = 6;
const HASH_KEY: u8 = 7;

type Identifier = [u8; 16];
type Descriptor = [u8; 8];
type Nonce = [u8; 16];

/// Indices of master keys by descriptor, for descriptors that are not computed from the key.
type FoundKeys = BTreeMap<Descriptor, usize>;

/// A master key, with its identifier (policies of version 2) and its descriptor (policies of version 1).
#[derive(Clone)]
struct MasterKey {
    bytes: Vec<u8>,
    identifier: Identifier,
    descriptor: Descriptor,
}

/// Master keys with which a filesystem is read.
#[derive(Clone, Default)]
pub struct Keys(Vec<MasterKey>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    /// Adds a master key: the raw bytes that a kernel receives from `FS_IOC_ADD_ENCRYPTION_KEY`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that is too short or too long.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !KEY_BYTES.contains(&bytes.len()) {
            return Err(Error::Invalid("a key of encrypted files has 16 to 64 bytes"));
        }
        let mut identifier = Identifier::default();
        derive(bytes, IDENTIFIER, &[], &mut identifier);
        // The tools fscrypt and mkfs.ubifs compute the descriptor of a key for policies of version 1 in this way.
        let digest = Sha512::digest(Sha512::digest(bytes));
        let descriptor = digest.first_chunk().copied().unwrap_or_default();
        self.0.push(MasterKey { bytes: bytes.to_vec(), identifier, descriptor });
        Ok(())
    }

    /// Keys of a file, or the reason why it cannot be decrypted. `found` contains the keys of descriptors that are not computed from the key.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a context that no file has.
    fn of_file(
        &self,
        context: &[u8],
        place: &Place,
        found: &FoundKeys,
    ) -> Result<Result<FileKey, String>, Error> {
        let context = Context::parse(context)
            .ok_or_else(|| Error::Damaged("the context of its encryption is damaged".to_owned()))?;
        if let Some(what) = context.unsupported() {
            return Ok(Err(format!("not supported: {what}")));
        }
        let other = match context.key {
            KeyName::Descriptor(descriptor) => found.get(&descriptor).and_then(|at| self.0.get(*at)),
            KeyName::Identifier(_) => None,
        };
        match self.0.iter().find(|key| key.is_named(&context.key)).or(other) {
            Some(key) => Ok(key.of_file(&context, place)),
            None => Ok(Err(format!("no key fits its policy, {}", context.key))),
        }
    }

    /// Finds the key of a directory by trial, because whoever sets a policy of version 1 may choose any descriptor. A key is accepted if the
    /// names of the directory are plausible after decryption. Returns the descriptor and the index of the key.
    fn by_names(
        &self,
        context: &[u8],
        found: &FoundKeys,
        names: impl FnOnce() -> Vec<Vec<u8>>,
    ) -> Option<(Descriptor, usize)> {
        let context = Context::parse(context).filter(|context| context.unsupported().is_none())?;
        let KeyName::Descriptor(descriptor) = context.key else { return None };
        if found.contains_key(&descriptor) || self.0.iter().any(|key| key.is_named(&context.key)) {
            return None;
        }
        let names = names();
        let fits = |key: &MasterKey| {
            let key = key.of_file(&context, &Place::default());
            key.is_ok_and(|key| evidence(&names, &key) >= BELIEVED_BITS)
        };
        self.0.iter().position(fits).map(|at| (descriptor, at))
    }
}

/// Evidence that a key is right for encrypted names: logarithm to base 2 of the likelihood ratio between right and wrong key. With the right
/// key, names are padded with zeros, and most are in ASCII.
fn evidence(names: &[Vec<u8>], key: &FileKey) -> f64 {
    let of_name = |name: &Vec<u8>| {
        let name = key.names.padded(name)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let (name, padding) = name.split_at(end);
        let is_possible = !name.is_empty() && !name.contains(&b'/') && padding.iter().all(|&byte| byte == 0);
        let text = name.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ').count();
        let other = name.iter().filter(|byte| byte.is_ascii_control()).count();
        let bits = 8.0 * padding.len() as f64 + TEXT_BITS * text as f64 - CONTROL_BITS * other as f64;
        is_possible.then_some(bits)
    };
    names.iter().map(|name| of_name(name).unwrap_or(f64::NEG_INFINITY)).sum()
}

impl MasterKey {
    /// True if a policy that contains `name` refers to this key.
    fn is_named(&self, name: &KeyName) -> bool {
        match name {
            KeyName::Identifier(identifier) => self.identifier == *identifier,
            KeyName::Descriptor(descriptor) => self.descriptor == *descriptor,
        }
    }

    /// The keys of a file under this one, or the reason for which there are none.
    fn of_file(&self, context: &Context, place: &Place) -> Result<FileKey, String> {
        match (&context.key, context.flags & (INODES_64 | INODES_32)) {
            (_, 0) => self.of_own_key(context),
            (KeyName::Identifier(_), flag) => self.of_inodes(flag, place),
            (KeyName::Descriptor(_), _) => {
                Err("not supported: IVs of inodes in a policy of version 1".to_owned())
            }
        }
    }

    /// The keys that all files of a filesystem have, and the numbers of the units of a file.
    fn of_inodes(&self, flag: u8, place: &Place) -> Result<FileKey, String> {
        let Some(uuid) = place.uuid else {
            return Err(
                "not supported: IVs of inodes in a filesystem that numbers its inodes anew".to_owned()
            );
        };
        let (purpose, numbers) = if flag == INODES_64 {
            (KEY_OF_INODES_64, Numbers::Inode(place.inode))
        } else {
            let mut key = [0; 16];
            derive(&self.bytes, HASH_KEY, &[], &mut key);
            (KEY_OF_INODES_32, Numbers::Hash(sip_hash(key, place.inode.into()) as u32))
        };
        let key = |mode: u8, len: usize| {
            let (mut info, mut key) = (vec![mode], vec![0; len]);
            info.extend(uuid);
            derive(&self.bytes, purpose, &info, &mut key);
            key
        };
        let contents = Contents::new(&key(XTS, CONTENTS_BYTES));
        let names = Names::new(&key(CTS, NAMES_BYTES), numbers.of(0));
        let both = contents.zip(names).map(|(contents, names)| FileKey { contents, names, numbers });
        both.ok_or_else(|| "a derived key is too short".to_owned())
    }

    /// The keys that only this file has.
    fn of_own_key(&self, context: &Context) -> Result<FileKey, String> {
        let of_bytes = |len: usize| match context.key {
            KeyName::Identifier(_) => {
                let mut own = vec![0; len];
                derive(&self.bytes, FILE_KEY, &context.nonce, &mut own);
                Some(own)
            }
            KeyName::Descriptor(_) => encrypted_ecb_128(&context.nonce, self.bytes.get(..len)?),
        };
        let [contents, names] = match context.contents {
            ESSIV_128 => [BYTES_128; 2],
            _ => [CONTENTS_BYTES, NAMES_BYTES],
        };
        let both = || Some((Contents::new(&of_bytes(contents)?)?, Names::new(&of_bytes(names)?, 0)?));
        let short = || format!("a key of {} bytes is too short for a policy of version 1", self.bytes.len());
        let key = |(contents, names)| FileKey { contents, names, numbers: Numbers::Units };
        both().map(key).ok_or_else(short)
    }
}

/// Place of an encrypted file: its inode, and the UUID of its filesystem.
#[derive(Default)]
struct Place {
    inode: u32,
    uuid: Option<[u8; 16]>,
}

/// Numbers of the units of a file in their IVs.
enum Numbers {
    /// Those in the file.
    Units,
    /// The inode in the upper 32 bits.
    Inode(u32),
    /// Added to a hash of the inode, of 32 bits.
    Hash(u32),
}

impl Numbers {
    fn of(&self, unit: u64) -> u64 {
        match self {
            Self::Units => unit,
            Self::Inode(inode) => u64::from(*inode) << 32 | unit,
            Self::Hash(hash) => u64::from(hash.wrapping_add(unit as u32)),
        }
    }
}

/// Keys of a file, for its contents and for names.
struct FileKey {
    contents: Contents,
    names: Names,
    numbers: Numbers,
}

impl FileKey {
    /// Decrypts a unit, by its number in the file.
    fn decrypt(&self, unit: u64, bytes: &mut [u8]) -> Option<()> {
        self.contents.decrypt(self.numbers.of(unit), bytes)
    }
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
        ESSIV_128 => "AES-128-CBC-ESSIV",
        CTS_128 => "AES-128-CTS-CBC",
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
    /// Logarithm to base 2 of the size of a data unit in bytes; 0 if a data unit is a block of the filesystem (Linux
    /// 6.7).
    unit: u8,
    key: KeyName,
    nonce: Nonce,
}

impl Context {
    /// First mode, flag or data unit of the context that is not supported; `None` if all are.
    fn unsupported(&self) -> Option<String> {
        let name = |number: u8| mode(number).map_or_else(|| format!("mode {number}"), str::to_owned);
        let flag = |(bit, name): (u8, &str)| (self.flags & bit != 0).then(|| format!("the flag {name}"));
        match (self.contents, self.names) {
            (XTS, CTS) => {}
            // Linux has IVs of inodes with XTS only.
            (ESSIV_128, CTS_128) if self.flags & !PADDING == 0 => {}
            (XTS, names) => return Some(format!("{} for names", name(names))),
            (contents, names) if contents == names => return Some(name(contents)),
            (contents, names) => return Some(format!("{} with {}", name(contents), name(names))),
        }
        if let Some(flag) = flag((0x04, "DIRECT_KEY")) {
            return Some(flag);
        }
        match (self.flags & !PADDING, self.unit) {
            (0 | INODES_64 | INODES_32, 0) => None,
            (0 | INODES_64 | INODES_32, unit) => Some(format!("data units of 2^{unit} bytes")),
            (flags, _) => Some(format!("the flags {flags:#04x}")),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version, contents, names, flags], rest) = bytes.split_first_chunk()?;
        let (key, nonce) = match version {
            1 => (KeyName::Descriptor(*rest.first_chunk()?), rest.get(8..)?),
            // Four bytes precede the identifier; Linux 6.7 uses the first of them.
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
    // HMAC accepts keys of any length.
    let Ok(mut hmac) = Hmac::<Sha512>::new_from_slice(key) else { return [0; 64] };
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

/// Derives the key for a purpose by HKDF-SHA512 (RFC 5869) without salt.
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

    /// The expected identifier was computed by Linux 6.1, because RFC 5869 has no vectors with SHA-512.
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
        let place = Place { inode: 12, uuid: Some([3; 16]) };
        let of_file = |keys: &Keys, context: &[u8], place: &Place| {
            keys.of_file(context, place, &FoundKeys::new()).unwrap()
        };
        for flags in [3, 3 | INODES_64, 3 | INODES_32] {
            let context = context([2, XTS, CTS, flags, 0, 0, 0, 0], own);
            assert!(of_file(&keys, &context, &place).is_ok());
            let without = of_file(&keys, &context, &Place::default());
            assert_eq!(without.is_ok(), flags == 3);
        }
        for (start, words) in [
            ([2, 9, 9, 2, 0, 0, 0, 0], "not supported: Adiantum"),
            ([2, 5, 6, 10, 0, 0, 0, 0], "not supported: AES-128-CBC-ESSIV with AES-128-CTS-CBC"),
            ([2, 1, 10, 2, 0, 0, 0, 0], "not supported: AES-256-HCTR2 for names"),
            ([2, 1, 4, 6, 0, 0, 0, 0], "not supported: the flag DIRECT_KEY"),
            ([2, 1, 4, 0x1A, 0, 0, 0, 0], "not supported: the flags 0x18"),
            ([2, 1, 4, 0x22, 0, 0, 0, 0], "not supported: the flags 0x20"),
            ([2, 1, 4, 2, 9, 0, 0, 0], "not supported: data units of 2^9 bytes"),
            ([2, 77, 78, 2, 0, 0, 0, 0], "not supported: mode 77 with mode 78"),
        ] {
            assert_eq!(of_file(&keys, &context(start, own), &place).err().as_deref(), Some(words));
        }
        let other = of_file(&keys, &context([2, XTS, CTS, 0, 0, 0, 0, 0], [0xAB; 16]), &place).err().unwrap();
        assert!(other.ends_with(&"ab".repeat(16)), "{other}");
        // A policy of version 1 uses 64 bytes of the master key.
        let old = |keys: &Keys| [&[1, XTS, CTS, 0][..], &keys.0[0].descriptor, &[9; 16]].concat();
        assert!(of_file(&keys, &old(&keys), &place).is_ok());
        let mut short = Keys::default();
        short.add(&[7; 32]).unwrap();
        assert!(of_file(&short, &old(&short), &place).is_err_and(|why| why.contains("32 bytes")));
    }

    /// The key of a chosen descriptor (`mkfs.ubifs -b`) is found by the names of a directory.
    #[test]
    fn names_tell_the_key_of_a_chosen_descriptor() {
        use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
        let mut keys = Keys::default();
        [[7; 64], [8; 64]].iter().for_each(|key| keys.add(key).unwrap());
        let (descriptor, nonce) = ([0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF], [9; 16]);
        let context = [&[1, XTS, CTS, 0][..], &descriptor, &nonce].concat();
        let own = encrypted_ecb_128(&nonce, &[8; NAMES_BYTES]).unwrap();
        let encrypted = |name: [u8; 16]| {
            let mut block = aes::Block::from(name);
            aes::Aes256::new_from_slice(&own).unwrap().encrypt_block(&mut block);
            vec![block.to_vec()]
        };
        let none = FoundKeys::new();
        for name in [*b"fstab\0\0\0\0\0\0\0\0\0\0\0", *b"sixteen letters."] {
            let found = keys.by_names(&context, &none, || encrypted(name));
            assert_eq!(found, Some((descriptor, 1)));
            let found = found.into_iter().collect();
            assert!(keys.of_file(&context, &Place::default(), &found).unwrap().is_ok());
        }
        let why = keys.of_file(&context, &Place::default(), &none).unwrap().err().unwrap();
        assert!(why.contains("no key fits") && why.ends_with("0123456789abcdef"), "{why}");
        for wrong in [*b"a/b\0\0\0\0\0\0\0\0\0\0\0\0\0", *b"a\0b\0\0\0\0\0\0\0\0\0\0\0\0\0", [1; 16]] {
            assert_eq!(keys.by_names(&context, &none, || encrypted(wrong)), None);
        }
        keys.0.pop();
        assert_eq!(keys.by_names(&context, &none, || encrypted(*b"fstab\0\0\0\0\0\0\0\0\0\0\0")), None);
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
