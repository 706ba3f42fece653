//! Authentication: proof that only the owner of a key has written a filesystem (Linux: `fs/ubifs/auth.c`).
//!
//! The superblock and the master node contain an HMAC. The master node contains the hashes of the root index node and
//! of the LPT; every index node contains the hashes of its children. The journal holds nodes that the index does not
//! contain yet. There, an authentication node with an HMAC follows each group of nodes; it covers the log up to the
//! bud's reference and all nodes in the bud ([`LogChain`]). Orphan nodes and padding are not covered.
//!
//! An image signed by its maker has a signature after its superblock instead, and the hash of the master node in the
//! superblock.

mod chain;
mod digest;

use core::fmt;
use std::sync::Arc;

use floatgate_media::ubifs::{
    HashAlgorithm, MASTER_LEB, Master, SUPERBLOCK_LEB, Superblock, SuperblockFlags, hmac_parts,
};

use super::error::{Error, Result};
use super::io::DynIo;
use super::space::pnode_bytes;
pub(crate) use chain::LogChain;
pub(crate) use digest::Hasher;

/// Well-known message whose HMAC in the superblock verifies the key (Linux: `ubifs_hmac_wkm`).
const WELL_KNOWN: &[u8] = b"UBIFS";

/// Maximum length of a key, B: the limit of Linux's keyrings.
const KEY_BYTES_MAX: usize = 32767;

/// First byte of a master node that its hash in the superblock covers. The header is left out, because it differs
/// between the copies.
const MASTER_HASH_FROM: usize = 24;

/// Key of an authenticated filesystem. `Debug` does not show its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthKey(Arc<[u8]>);

impl AuthKey {
    /// Creates a key from the bytes in the kernel's keyring.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or too long key.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return Err(Error::Invalid("a key has 1 to 32767 bytes"));
        }
        Ok(Self(bytes.into()))
    }
}

impl fmt::Debug for AuthKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthKey(..)")
    }
}

/// Extent of authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authenticate {
    /// Verifies nothing.
    #[default]
    No,
    /// Verifies hashes from the master node down, and the hash of the master node if the superblock is signed. This
    /// needs no key, and detects damage but not forgery.
    Hashes,
    /// Verifies everything. The mount fails without the right key.
    Key(AuthKey),
}

/// Authentication status of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Hash function.
    pub algorithm: HashAlgorithm,
    /// True if the superblock has a signature instead of an HMAC, until the first writable mount.
    pub is_signed: bool,
    /// Extent of verification by the mount and by later reads.
    pub checked: Checked,
    /// Number of nodes dropped at the end of the journal because no HMAC covers them, after a power cut.
    pub dropped_nodes: u32,
}

/// Verified parts of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Nothing is verified.
    Nothing,
    /// Hashes of nodes in the index and the LPT. The journal has none.
    Hashes,
    /// Everything, with the key.
    Key,
}

impl Authentication {
    /// Status of a filesystem that was not verified; `None` if it has no authentication.
    #[must_use]
    pub fn unverified(superblock: &Superblock) -> Option<Self> {
        superblock.has(SuperblockFlags::AUTHENTICATION).then(|| Self {
            algorithm: superblock.hash_algorithm,
            is_signed: is_signed(superblock),
            checked: Checked::Nothing,
            dropped_nodes: 0,
        })
    }

    /// Authentication of a filesystem that is mounted with `authenticate`.
    pub(crate) fn mounted(superblock: &Superblock, authenticate: &Authenticate) -> Option<Self> {
        let checked = match authenticate {
            Authenticate::No => Checked::Nothing,
            Authenticate::Hashes => Checked::Hashes,
            Authenticate::Key(_) => Checked::Key,
        };
        Self::unverified(superblock).map(|found| Self { checked, ..found })
    }
}

/// True if the superblock is signed, that is, has no HMAC.
fn is_signed(superblock: &Superblock) -> bool {
    let bytes = superblock.hash_algorithm.hash_bytes().unwrap_or(superblock.hmac.len());
    superblock.hmac.iter().take(bytes).all(|&byte| byte == 0)
}

/// Verifies the hashes and HMACs of a filesystem.
#[derive(Clone, Debug)]
pub(crate) struct Verifier {
    hasher: Hasher,
    key: Option<AuthKey>,
    /// Hash of the master node in a signed superblock.
    hash_master: [u8; 64],
}

impl Verifier {
    /// Creates a verifier. `None` if nothing is to be verified.
    ///
    /// # Errors
    /// The filesystem has no authentication, an unsupported hash function, or a signed superblock; the key is wrong.
    pub(crate) fn new(superblock: &Superblock, authenticate: &Authenticate) -> Result<Option<Self>> {
        let key = match authenticate {
            Authenticate::No => return Ok(None),
            Authenticate::Hashes => None,
            Authenticate::Key(key) => Some(key.clone()),
        };
        if !superblock.has(SuperblockFlags::AUTHENTICATION) {
            return Err(Error::NotAuthenticated);
        }
        let hasher = Hasher::new(superblock.hash_algorithm)?;
        let verifier = Self { hasher, key, hash_master: superblock.hash_master };
        verifier.check_key(superblock)?;
        Ok(Some(verifier))
    }

    /// Hash function of the filesystem.
    pub(crate) const fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// HMAC of data in several parts; `None` without a key.
    fn hmac(&self, parts: &[&[u8]]) -> Option<Box<[u8]>> {
        self.key.as_ref().map(|key| self.hasher.hmac(&key.0, parts))
    }

    fn check_key(&self, superblock: &Superblock) -> Result<()> {
        let Some(known) = self.hmac(&[WELL_KNOWN]) else { return Ok(()) };
        if is_signed(superblock) {
            return Err(Error::SignedSuperblock);
        }
        if *known != *self.hasher.stored(&superblock.hmac_known) {
            return Err(Error::WrongAuthKey);
        }
        Ok(())
    }

    /// True if the superblock and the master node have an HMAC that can be verified.
    pub(crate) const fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Verifies the HMAC of the encoded superblock.
    ///
    /// # Errors
    /// [`Error::Unauthentic`].
    pub(crate) fn check_superblock(&self, bytes: &[u8]) -> Result<()> {
        if self.has_hmac(bytes, Superblock::HMAC_AT) {
            Ok(())
        } else {
            Err(Error::unauthentic(SUPERBLOCK_LEB, 0, "the superblock has another HMAC than it says"))
        }
    }

    /// True if a node contains its correct HMAC.
    fn has_hmac(&self, node: &[u8], hmac_at: usize) -> bool {
        let Some((front, back)) = hmac_parts(node, hmac_at, self.hasher.hash_bytes()) else { return false };
        let stored = node.get(hmac_at..hmac_at + self.hasher.hash_bytes());
        self.hmac(&[front, back]).as_deref() == stored
    }

    /// Verifies a master node, with its encoded bytes and its offset in the master LEBs, by its HMAC or, without one,
    /// by the hash in the superblock. Linux does this only if both copies are equal.
    ///
    /// # Errors
    /// [`Error::Unauthentic`].
    pub(crate) fn check_master(&self, master: &Master, bytes: &[u8], offset: u32) -> Result<()> {
        let error = |what| Err(Error::unauthentic(MASTER_LEB, offset, what));
        let has_hmac = self.hasher.stored(&master.hmac).iter().any(|&byte| byte != 0);
        if has_hmac {
            let good = self.key.is_none() || self.has_hmac(bytes, Master::HMAC_AT);
            return if good { Ok(()) } else { error("the master node has another HMAC than it says") };
        }
        let hash = self.hasher.hash(bytes.get(MASTER_HASH_FROM..).unwrap_or(&[]));
        if *hash == *self.hasher.stored(&self.hash_master) {
            Ok(())
        } else {
            error("the master node has another hash than the superblock says")
        }
    }

    /// Verifies the LPT by the hash in the master node, which covers the pnodes in the order of their LEBs.
    ///
    /// # Errors
    /// [`Error::Unauthentic`]; a damaged LPT; volume failures.
    pub(crate) fn check_lpt(&self, io: &mut DynIo<'_>, master: &Master) -> Result<()> {
        let mut running = self.hasher.start();
        pnode_bytes(io, master, &mut |bytes| running.update(bytes))?;
        if *running.finish() == *self.hasher.stored(&master.hash_lpt) {
            return Ok(());
        }
        let what = "the LPT has another hash than the master node says";
        Err(Error::unauthentic(master.lpt_lnum, master.lpt_offset, what))
    }
}
