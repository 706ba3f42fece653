//! The tree node cache (TNC): the index, a B+ tree of all keys, as far as it is in memory.

use super::error::{Error, Result};
use super::io::Io;
use super::layout::Place;
use super::space::Space;
use crate::volume::Volume;
use floatgate_media::ubifs::Key;

/// Where the index is written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexHead {
    /// LEB of the next index node.
    pub(crate) lnum: u32,
    /// Its first byte.
    pub(crate) offset: u32,
}

/// The index.
#[derive(Clone, Debug)]
pub(crate) struct Tnc;

type Unit = Result<()>;

impl Tnc {
    /// Of a committed filesystem; nodes are read when they are needed.
    pub(crate) fn open(_root: Place, _index_bytes: u64) -> Self {
        Self
    }

    /// Of a filesystem that is being made.
    pub(crate) fn empty() -> Self {
        Self
    }

    /// Where the node of a key stands that is not hashed (inode, data).
    pub(crate) fn find<V: Volume>(&mut self, _io: &mut Io<V>, _key: Key) -> Result<Option<Place>> {
        Err(Error::Unsupported("tnc"))
    }

    /// Where the entry of a name stands; `out` holds its node then.
    pub(crate) fn find_name<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _key: Key,
        _name: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<Option<Place>> {
        Err(Error::Unsupported("tnc"))
    }

    /// The entry after `(key, name)` of the same inode and type, or the first one at or after `key` if there is no name; `out`
    /// holds its node then.
    pub(crate) fn next_name<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _key: Key,
        _name: Option<&[u8]>,
        _out: &mut Vec<u8>,
    ) -> Result<Option<(Key, Place)>> {
        Err(Error::Unsupported("tnc"))
    }

    /// Leaves with keys from `from` to `to`, both included, at most `max` of them, in order, appended to `out`.
    pub(crate) fn leaves<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _from: Key,
        _to: Key,
        _max: usize,
        _out: &mut Vec<(Key, Place)>,
    ) -> Unit {
        Err(Error::Unsupported("tnc"))
    }

    /// A key that is not hashed leads to this place from now on; the space of the old node becomes dirty.
    pub(crate) fn insert<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _key: Key,
        _place: Place,
    ) -> Unit {
        Err(Error::Unsupported("tnc"))
    }

    /// As `insert`, for an entry with this name.
    pub(crate) fn insert_name<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _key: Key,
        _name: &[u8],
        _place: Place,
    ) -> Unit {
        Err(Error::Unsupported("tnc"))
    }

    /// The garbage collector has moved a node: whether the key did lead to it, and now leads to the new place. The old place
    /// becomes dirty, or the new one if it did not.
    pub(crate) fn relocate<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _key: Key,
        _from: Place,
        _to: Place,
    ) -> Result<bool> {
        Err(Error::Unsupported("tnc"))
    }

    /// Removes a key that is not hashed.
    pub(crate) fn remove<V: Volume>(&mut self, _io: &mut Io<V>, _space: &mut Space, _key: Key) -> Unit {
        Err(Error::Unsupported("tnc"))
    }

    /// Removes an entry.
    pub(crate) fn remove_name<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _key: Key,
        _name: &[u8],
    ) -> Unit {
        Err(Error::Unsupported("tnc"))
    }

    /// Removes all keys from `from` to `to`, both included.
    pub(crate) fn remove_range<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _from: Key,
        _to: Key,
    ) -> Unit {
        Err(Error::Unsupported("tnc"))
    }

    /// Removes an inode with all it has: data, entries, attributes and the inodes of these.
    pub(crate) fn remove_inode<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _inode: u32,
    ) -> Unit {
        Err(Error::Unsupported("tnc"))
    }

    /// Whether a leaf with this key at this place is current.
    pub(crate) fn has_leaf<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _key: Key,
        _lnum: u32,
        _offset: u32,
    ) -> Result<bool> {
        Err(Error::Unsupported("tnc"))
    }

    /// If an index node of this level, with this lowest key, at this place, is part of the tree, it will be written anew at the next
    /// commit (the garbage collector empties an index LEB). Returns whether it was part.
    pub(crate) fn dirty_index_node<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _key: Key,
        _level: u16,
        _lnum: u32,
        _offset: u32,
    ) -> Result<bool> {
        Err(Error::Unsupported("tnc"))
    }

    /// Bytes of the whole index as the next commit would leave it.
    pub(crate) fn index_bytes(&self) -> u64 {
        0
    }

    /// Index nodes that the next commit has to write.
    pub(crate) fn dirty_nodes(&self) -> usize {
        0
    }

    /// Writes all changed index nodes, into empty LEBs or into gaps of index LEBs, and returns the root's place. LEB properties
    /// follow. Nothing that the committed index uses is overwritten.
    pub(crate) fn commit<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _space: &mut Space,
        _head: &mut IndexHead,
    ) -> Result<Place> {
        Err(Error::Unsupported("tnc"))
    }
}
