//! Keys of the index in the "simple" format: `docs/spec/ubifs.md#key`.

use core::fmt;

use crate::error::{MediaError, Reason};
use crate::wire::{Wire, codes};

/// Number of bits of the block number or hash in a key.
const LOW_BITS: u32 = 29;

/// Mask of the block number or hash in a key.
const LOW_MASK: u32 = (1 << LOW_BITS) - 1;

/// Highest reserved hash. The reserved hashes mark ".", ".." and the end of a directory in readdir.
const RESERVED_HASHES: u32 = 2;

codes! {
    /// Type of a key: the type of node that it refers to.
    pub enum KeyType(u8) {
        /// Key of an inode.
        Inode = 0,
        /// Key of a block of a file.
        Data = 1,
        /// Key of a directory entry.
        Entry = 2,
        /// Key of an extended attribute's name.
        XattrEntry = 3,
    }
}

codes! {
    /// Hash function that maps names to keys.
    pub enum KeyHash(u8) {
        /// R5, the hash function of ReiserFS.
        R5 = 0,
        /// The first four bytes of the name; a test function that provokes collisions.
        Test = 1,
    }
}

impl KeyHash {
    /// The hash of a name, 29 bits, never one of the reserved values; `None` for an unknown function.
    ///
    /// ```
    /// use floatgate_media::ubifs::KeyHash;
    /// assert_eq!(KeyHash::Test.hash(b"a"), Some(0x61));
    /// assert_eq!(KeyHash::R5.hash(b""), Some(3));
    /// ```
    #[must_use]
    pub fn hash(self, name: &[u8]) -> Option<u32> {
        let full = match self {
            Self::R5 => name.iter().fold(0, |sum, &byte| r5_step(sum, byte)),
            Self::Test => name.iter().take(4).rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte)),
            Self::Other(_) => return None,
        };
        let hash = full & LOW_MASK;
        Some(if hash <= RESERVED_HASHES { hash + RESERVED_HASHES + 1 } else { hash })
    }
}

/// One step of R5. The byte is treated as signed, so that names beyond ASCII hash the same on every
/// Linux architecture.
const fn r5_step(sum: u32, byte: u8) -> u32 {
    let value = byte.cast_signed() as i32;
    let spread = (value << 4).wrapping_add(value >> 4).cast_unsigned();
    sum.wrapping_add(spread).wrapping_mul(11)
}

/// A key: inode number, type, and a block number or the hash of a name. Keys have the order of the
/// index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Key(u64);

impl Key {
    /// Key of an inode.
    #[must_use]
    pub const fn inode(inode: u32) -> Self {
        Self::with(inode, KeyType::Inode, 0)
    }

    /// Key of a block of a file; `None` for a block number above 2^29 - 1.
    #[must_use]
    pub const fn data(inode: u32, block: u32) -> Option<Self> {
        if block > LOW_MASK { None } else { Some(Self::with(inode, KeyType::Data, block)) }
    }

    /// Key of an entry in directory `inode`; the hash's upper three bits are dropped.
    #[must_use]
    pub const fn entry(inode: u32, hash: u32) -> Self {
        Self::with(inode, KeyType::Entry, hash)
    }

    /// Key of an extended attribute of `inode`; the hash's upper three bits are dropped.
    #[must_use]
    pub const fn xattr_entry(inode: u32, hash: u32) -> Self {
        Self::with(inode, KeyType::XattrEntry, hash)
    }

    /// Lowest key of this type that an inode can have.
    #[must_use]
    pub const fn lowest(inode: u32, key_type: KeyType) -> Self {
        Self::with(inode, key_type, 0)
    }

    /// Highest key of this type that an inode can have.
    #[must_use]
    pub const fn highest(inode: u32, key_type: KeyType) -> Self {
        Self::with(inode, key_type, LOW_MASK)
    }

    /// The key with these bits: inode number in the upper half, type and block number or hash in the
    /// lower half.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The key as a 64-bit number.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Inode number; in the key of an entry, the inode number of the directory.
    #[must_use]
    pub const fn inum(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Type of the key.
    #[must_use]
    pub const fn key_type(self) -> KeyType {
        KeyType::from_code((self.0 as u32 >> LOW_BITS) as u8)
    }

    /// Block number in the key of a data node.
    #[must_use]
    pub const fn block(self) -> u32 {
        self.0 as u32 & LOW_MASK
    }

    /// Hash of the name in the key of an entry.
    #[must_use]
    pub const fn hash(self) -> u32 {
        self.0 as u32 & LOW_MASK
    }

    /// True when names with the same hash can share this key.
    #[must_use]
    pub const fn is_hashed(self) -> bool {
        matches!(self.key_type(), KeyType::Entry | KeyType::XattrEntry)
    }

    const fn with(inode: u32, key_type: KeyType, low: u32) -> Self {
        let word = (key_type.code() as u32) << LOW_BITS | low & LOW_MASK;
        Self((inode as u64) << 32 | word as u64)
    }

    /// Rejects a key of another type; `at` is the offset of the key.
    pub(super) fn require(self, key_type: KeyType, at: usize) -> Result<(), MediaError> {
        if self.key_type() == key_type {
            return Ok(());
        }
        Err(Reason::OutOfRange { field: "key type", value: u64::from(self.key_type().code()) }.at(at))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {:?}, {:#x})", self.inum(), self.key_type(), self.hash())
    }
}

impl Wire for Key {
    const WIDTH: usize = 8;

    fn decode(bytes: &[u8], at: usize) -> Self {
        Self(u64::from(u32::decode(bytes, at)) << 32 | u64::from(u32::decode(bytes, at + 4)))
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        self.inum().put(bytes, at);
        (self.0 as u32).put(bytes, at + 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_of_names_beyond_ascii_is_signed() {
        // ((0xE9 - 256) * 16 + ((0xE9 - 256) >> 4)) * 11, 29 bits.
        assert_eq!(KeyHash::R5.hash(b"\xE9"), Some(((-370i32 * 11).cast_unsigned()) & LOW_MASK));
        assert_eq!(KeyHash::Other(7).hash(b"a"), None);
    }

    #[test]
    fn keys_sort_by_inode_then_type_then_number() {
        let keys = [
            Key::inode(5),
            Key::data(5, 0).unwrap(),
            Key::data(5, LOW_MASK).unwrap(),
            Key::entry(5, 3),
            Key::xattr_entry(5, 3),
            Key::inode(6),
        ];
        assert!(keys.is_sorted());
        assert_eq!(Key::data(5, LOW_MASK + 1), None);
        assert!(Key::lowest(5, KeyType::Data) == keys[1] && Key::highest(5, KeyType::Data) == keys[2]);
    }
}
