//! Authentication: HMACs of the journal, a signature of the superblock, hash functions.

use super::MAX_HASH_BYTES;
use super::header::{Frame, HEADER_BYTES, NodeBody, NodeType};
use crate::error::{MediaError, require};
use crate::wire::{Wire, codes, narrow, store};

const SIGNATURE_LEN_AT: usize = 28;
const SIGNATURE_AT: usize = 64;

/// Offset of the first byte of a node that an HMAC covers, after magic and CRC.
const HMAC_FROM: usize = 8;

codes! {
    /// A hash function, with the number that Linux assigns.
    pub enum HashAlgorithm(u16) {
        /// MD4.
        Md4 = 0,
        /// MD5.
        Md5 = 1,
        /// SHA-1.
        Sha1 = 2,
        /// RIPEMD-160.
        RipeMd160 = 3,
        /// SHA-256.
        Sha256 = 4,
        /// SHA-384.
        Sha384 = 5,
        /// SHA-512.
        Sha512 = 6,
        /// SHA-224.
        Sha224 = 7,
        /// RIPEMD-128.
        RipeMd128 = 8,
        /// RIPEMD-256.
        RipeMd256 = 9,
        /// RIPEMD-320.
        RipeMd320 = 10,
        /// Whirlpool, 256 bits.
        Whirlpool256 = 11,
        /// Whirlpool, 384 bits.
        Whirlpool384 = 12,
        /// Whirlpool, 512 bits.
        Whirlpool512 = 13,
        /// Tiger, 128 bits.
        Tiger128 = 14,
        /// Tiger, 160 bits.
        Tiger160 = 15,
        /// Tiger, 192 bits.
        Tiger192 = 16,
        /// SM3.
        Sm3 = 17,
        /// Streebog, 256 bits.
        Streebog256 = 18,
        /// Streebog, 512 bits.
        Streebog512 = 19,
        /// SHA3-256.
        Sha3_256 = 20,
        /// SHA3-384.
        Sha3_384 = 21,
        /// SHA3-512.
        Sha3_512 = 22,
    }
}

impl HashAlgorithm {
    /// Name in Linux and `mkfs.ubifs`; `None` for an unknown function.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Md4 => "md4",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::RipeMd160 => "rmd160",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::Sha224 => "sha224",
            Self::RipeMd128 => "rmd128",
            Self::RipeMd256 => "rmd256",
            Self::RipeMd320 => "rmd320",
            Self::Whirlpool256 => "wp256",
            Self::Whirlpool384 => "wp384",
            Self::Whirlpool512 => "wp512",
            Self::Tiger128 => "tgr128",
            Self::Tiger160 => "tgr160",
            Self::Tiger192 => "tgr192",
            Self::Sm3 => "sm3",
            Self::Streebog256 => "streebog256",
            Self::Streebog512 => "streebog512",
            Self::Sha3_256 => "sha3-256",
            Self::Sha3_384 => "sha3-384",
            Self::Sha3_512 => "sha3-512",
            Self::Other(_) => return None,
        })
    }

    /// Length of a hash, bytes; `None` for an unknown function.
    #[must_use]
    pub const fn hash_bytes(self) -> Option<usize> {
        match self {
            Self::Md4 | Self::Md5 | Self::RipeMd128 | Self::Tiger128 => Some(16),
            Self::Sha1 | Self::RipeMd160 | Self::Tiger160 => Some(20),
            Self::Tiger192 => Some(24),
            Self::Sha224 => Some(28),
            Self::Sha256 | Self::RipeMd256 | Self::Whirlpool256 => Some(32),
            Self::Sm3 | Self::Streebog256 | Self::Sha3_256 => Some(32),
            Self::RipeMd320 => Some(40),
            Self::Sha384 | Self::Whirlpool384 | Self::Sha3_384 => Some(48),
            Self::Sha512 | Self::Whirlpool512 | Self::Streebog512 | Self::Sha3_512 => Some(MAX_HASH_BYTES),
            Self::Other(_) => None,
        }
    }
}

codes! {
    /// Format of a signature.
    pub enum SignatureType(u32) {
        /// PKCS #7.
        Pkcs7 = 1,
    }
}

/// The bytes of a superblock or master node that its HMAC covers: the parts before and after the HMAC.
///
/// `hmac_at` is [`Superblock::HMAC_AT`](super::Superblock::HMAC_AT) or [`Master::HMAC_AT`](super::Master::HMAC_AT).
/// `hash_bytes` is the length of the hash in use, which may be less than the field. `None` if the node is too
/// short.
#[must_use]
pub fn hmac_parts(node: &[u8], hmac_at: usize, hash_bytes: usize) -> Option<(&[u8], &[u8])> {
    Some((node.get(HMAC_FROM..hmac_at)?, node.get(hmac_at.checked_add(hash_bytes)?..)?))
}

/// The HMAC of the nodes since the previous authentication node: `docs/spec/ubifs.md#authentication-node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthNode<'a> {
    /// The HMAC; it has the length of the filesystem's hash.
    pub hmac: &'a [u8],
}

impl<'a> AuthNode<'a> {
    pub(super) fn from_frame(frame: &Frame<'a>) -> Self {
        Self { hmac: frame.as_bytes().get(HEADER_BYTES..).unwrap_or(&[]) }
    }
}

impl NodeBody for AuthNode<'_> {
    fn node_type(&self) -> NodeType {
        NodeType::Auth
    }

    fn node_bytes(&self) -> usize {
        HEADER_BYTES + self.hmac.len()
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        store(out, HEADER_BYTES, self.hmac);
        Ok(())
    }
}

/// A signature of the superblock, stored after it in the same LEB: `docs/spec/ubifs.md#signature-node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureNode<'a> {
    /// Format of the signature.
    pub signature_type: SignatureType,
    /// Bytes of the signature.
    pub signature: &'a [u8],
}

impl<'a> SignatureNode<'a> {
    /// Length of a node with an empty signature, bytes.
    pub(super) const MIN_BYTES: usize = SIGNATURE_AT;

    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        let signature = bytes.get(SIGNATURE_AT..).unwrap_or(&[]);
        let len = u32::decode(bytes, SIGNATURE_LEN_AT);
        let whole = usize::try_from(len) == Ok(signature.len());
        require(whole, SIGNATURE_LEN_AT, "signature length", len)?;
        Ok(Self { signature_type: SignatureType::decode(bytes, HEADER_BYTES), signature })
    }
}

impl NodeBody for SignatureNode<'_> {
    fn node_type(&self) -> NodeType {
        NodeType::Signature
    }

    fn node_bytes(&self) -> usize {
        SIGNATURE_AT + self.signature.len()
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        self.signature_type.put(out, HEADER_BYTES);
        narrow::<u32>("signature length", SIGNATURE_LEN_AT, self.signature.len())?.put(out, SIGNATURE_LEN_AT);
        store(out, SIGNATURE_AT, self.signature);
        Ok(())
    }
}
