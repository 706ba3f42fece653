//! Authentication: what says that nobody but the owner of a key has written a filesystem. Linux: `fs/ubifs/auth.c`.
//!
//! The superblock and the master node have an HMAC each. The master node has the hash of the root of the index, and of the LPT;
//! every index node has the hashes of all it leads to. What the index does not know yet stands in the journal: there, nodes with an
//! HMAC follow each group that was written, and cover the log up to the reference to the LEB and all nodes in it ([`LogChain`]).
//! Nodes for orphans and padding are covered by nothing.
//!
//! An image that was signed where it was made has a signature behind its superblock instead, and in the superblock the hash of the
//! master node.

mod chain;
mod digest;

use core::fmt;
use std::sync::Arc;

use floatgate_media::ubifs::{
    HashAlgorithm, MASTER_LEB, Master, SUPERBLOCK_LEB, Superblock, SuperblockFlags, hmac_parts,
};

use super::error::{Error, Result};
use super::io::DynIo;
use super::mount::master::Found;
use super::mount::superblock;
use super::space::pnode_bytes;
use crate::volume::Volume;
pub(crate) use chain::LogChain;
pub(crate) use digest::Hasher;

/// The text whose HMAC in the superblock tells whether a key is the right one. Linux: `ubifs_hmac_wkm`.
const WELL_KNOWN: &[u8] = b"UBIFS";

/// Most bytes of a key: what Linux takes into a keyring.
const KEY_BYTES_MAX: usize = 32767;

/// First byte of a master node that its hash in the superblock covers: the header is left out, which differs between copies.
const MASTER_HASH_FROM: usize = 24;

/// The key of an authenticated filesystem. Its bytes are not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthKey(Arc<[u8]>);

impl AuthKey {
    /// From its bytes, as they are in the kernel's keyring.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty key, or one that Linux does not take.
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

/// Verification of a filesystem with authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authenticate {
    /// Nothing.
    #[default]
    No,
    /// That nodes have the hashes that lead to them, from the master node on, and that one from the superblock if it was signed.
    /// It takes no key, and shows damage, but no forgery.
    Hashes,
    /// Everything. Without the right key the filesystem is not mounted.
    Key(AuthKey),
}

/// Authenticity of a filesystem that has authentication, as far as it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// The hash function.
    pub algorithm: HashAlgorithm,
    /// The superblock has a signature instead of an HMAC: so it is until the filesystem is first mounted for writing.
    pub is_signed: bool,
    /// Parts that the mount has verified, and verifies of each node that is read.
    pub checked: Checked,
    /// Nodes at the end of the journal that were left out, because nothing authenticates them: power was cut there.
    pub dropped_nodes: u32,
}

/// Parts of a filesystem that are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Nothing.
    Nothing,
    /// That nodes have the hashes that lead to them. The journal has none.
    Hashes,
    /// By the key: that nothing is forged.
    Key,
}

impl Authentication {
    /// Of a filesystem with this superblock, of which nothing was verified; `None` if it has no authentication.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Option<Self> {
        superblock.has(SuperblockFlags::AUTHENTICATION).then(|| Self {
            algorithm: superblock.hash_algorithm,
            is_signed: is_signed(superblock),
            checked: Checked::Nothing,
            dropped_nodes: 0,
        })
    }

    /// As [`of`](Self::of), of a filesystem that is mounted so.
    pub(crate) fn mounted(superblock: &Superblock, authenticate: &Authenticate) -> Option<Self> {
        let checked = match authenticate {
            Authenticate::No => Checked::Nothing,
            Authenticate::Hashes => Checked::Hashes,
            Authenticate::Key(_) => Checked::Key,
        };
        Self::of(superblock).map(|found| Self { checked, ..found })
    }
}

/// True when the superblock has no HMAC: it is signed.
fn is_signed(superblock: &Superblock) -> bool {
    let bytes = superblock.hash_algorithm.hash_bytes().unwrap_or(superblock.hmac.len());
    superblock.hmac.iter().take(bytes).all(|&byte| byte == 0)
}

/// Verifies hashes and HMACs of a filesystem.
#[derive(Clone, Debug)]
pub(crate) struct Verifier {
    hasher: Hasher,
    key: Option<AuthKey>,
    /// The hash of the master node in the superblock.
    hash_master: [u8; 64],
}

impl Verifier {
    /// For a volume with this superblock, which is verified. `None` if nothing is to be.
    ///
    /// # Errors
    /// No authentication, a hash function that is not implemented, a signed superblock, another key than the filesystem's, another
    /// HMAC than the superblock says; failures of the volume.
    pub(crate) fn open(
        volume: &mut dyn Volume,
        superblock: &Superblock,
        authenticate: &Authenticate,
    ) -> Result<Option<Self>> {
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
        verifier.check_superblock(volume, superblock)?;
        Ok(Some(verifier))
    }

    /// The hash function.
    pub(crate) const fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// The HMAC of bytes in parts; `None` without a key.
    fn hmac(&self, parts: &[&[u8]]) -> Option<Box<[u8]>> {
        self.key.as_ref().map(|key| self.hasher.hmac(&key.0, parts))
    }

    fn check_superblock(&self, volume: &mut dyn Volume, superblock: &Superblock) -> Result<()> {
        let Some(known) = self.hmac(&[WELL_KNOWN]) else { return Ok(()) };
        if is_signed(superblock) {
            return Err(Error::SignedSuperblock);
        }
        if *known != *self.hasher.stored(&superblock.hmac_known) {
            return Err(Error::WrongAuthKey);
        }
        let bytes = superblock::read_bytes(volume)?;
        if self.has_hmac(&bytes, Superblock::HMAC_AT) {
            Ok(())
        } else {
            Err(Error::unauthentic(SUPERBLOCK_LEB, 0, "the superblock has another HMAC than it says"))
        }
    }

    /// True when the HMAC in a node is that of the rest of it.
    fn has_hmac(&self, node: &[u8], hmac_at: usize) -> bool {
        let Some((front, back)) = hmac_parts(node, hmac_at, self.hasher.hash_bytes()) else { return false };
        let stored = node.get(hmac_at..hmac_at + self.hasher.hash_bytes());
        self.hmac(&[front, back]).as_deref() == stored
    }

    /// Verifies a master node, by its HMAC or, if it has none, by the hash in the superblock. Linux does so only if the two copies
    /// are the same.
    ///
    /// # Errors
    /// [`Error::Unauthentic`].
    pub(crate) fn check_master(&self, found: &Found) -> Result<()> {
        let error = |what| Err(Error::unauthentic(MASTER_LEB, found.offset, what));
        let has_hmac = self.hasher.stored(&found.master.hmac).iter().any(|&byte| byte != 0);
        if has_hmac {
            let good = self.key.is_none() || self.has_hmac(&found.bytes, Master::HMAC_AT);
            return if good { Ok(()) } else { error("the master node has another HMAC than it says") };
        }
        let hash = self.hasher.hash(found.bytes.get(MASTER_HASH_FROM..).unwrap_or(&[]));
        if *hash == *self.hasher.stored(&self.hash_master) {
            Ok(())
        } else {
            error("the master node has another hash than the superblock says")
        }
    }

    /// Verifies the LPT by the hash in the master node, which covers the pnodes, in the order of their LEBs.
    ///
    /// # Errors
    /// [`Error::Unauthentic`]; a damaged LPT; failures of the volume.
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
