//! Hash functions from the RustCrypto project.

use floatgate_media::ubifs::HashAlgorithm;
use hmac::{Mac, SimpleHmac};
use sha2::digest::block_api::BlockSizeUser;
use sha2::digest::{Digest, DynDigest, KeyInit};

use crate::ubifs::error::{Error, Result};

/// HMAC of data in several parts, with a key.
type Hmac = fn(&[u8], &[&[u8]]) -> Box<[u8]>;

/// A hash function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    hash_bytes: usize,
    start: fn() -> Box<dyn DynDigest>,
    hmac: Hmac,
}

impl Hasher {
    /// Hash function by its number in the superblock.
    ///
    /// # Errors
    /// [`Error::UnsupportedHash`].
    pub(crate) fn new(algorithm: HashAlgorithm) -> Result<Self> {
        Ok(match algorithm {
            HashAlgorithm::Sha1 => Self::of::<sha1::Sha1>(),
            HashAlgorithm::Sha224 => Self::of::<sha2::Sha224>(),
            HashAlgorithm::Sha256 => Self::of::<sha2::Sha256>(),
            HashAlgorithm::Sha384 => Self::of::<sha2::Sha384>(),
            HashAlgorithm::Sha512 => Self::of::<sha2::Sha512>(),
            HashAlgorithm::Sha3_256 => Self::of::<sha3::Sha3_256>(),
            HashAlgorithm::Sha3_384 => Self::of::<sha3::Sha3_384>(),
            HashAlgorithm::Sha3_512 => Self::of::<sha3::Sha3_512>(),
            other => return Err(Error::UnsupportedHash(other.name().unwrap_or("an unknown hash function"))),
        })
    }

    fn of<D: Digest + BlockSizeUser + DynDigest + Default + Clone + 'static>() -> Self {
        Self { hash_bytes: <D as Digest>::output_size(), start: || Box::new(D::default()), hmac: hmac::<D> }
    }

    /// Size of a hash, B.
    pub(crate) const fn hash_bytes(&self) -> usize {
        self.hash_bytes
    }

    /// Part of a node's hash field that this function uses: fields have room for the longest hash.
    pub(crate) fn stored<'f>(&self, field: &'f [u8; 64]) -> &'f [u8] {
        field.get(..self.hash_bytes).unwrap_or(field)
    }

    /// Hash of `bytes`.
    pub(crate) fn hash(&self, bytes: &[u8]) -> Box<[u8]> {
        let mut running = self.start();
        running.update(bytes);
        running.finish()
    }

    /// HMAC of data in several parts.
    pub(super) fn hmac(&self, key: &[u8], parts: &[&[u8]]) -> Box<[u8]> {
        (self.hmac)(key, parts)
    }

    /// Starts an incremental hash.
    pub(super) fn start(&self) -> Running {
        Running((self.start)())
    }
}

fn hmac<D: Digest + BlockSizeUser + Clone>(key: &[u8], parts: &[&[u8]]) -> Box<[u8]> {
    // HMAC accepts keys of any length, so this never fails.
    let Ok(mut mac) = <SimpleHmac<D> as KeyInit>::new_from_slice(key) else { return Box::default() };
    parts.iter().for_each(|part| Mac::update(&mut mac, part));
    mac.finalize().into_bytes().to_vec().into()
}

/// Incremental hash.
#[derive(Clone)]
pub(super) struct Running(Box<dyn DynDigest>);

impl Running {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> Box<[u8]> {
        self.0.finalize()
    }
}
