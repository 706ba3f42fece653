//! Write buffers: what a journal head has not written yet.
//!
//! Nodes are collected until the most efficient write of the flash is full; [`Io::sync_head`] writes less, filled up
//! with padding to a multiple of the smallest write. Linux: `fs/ubifs/io.c`.

use super::error::{Error, Result};
use super::io::Io;
use super::layout::{Head, align8};
use super::space::Space;
use crate::volume::Volume;
use floatgate_media::ubifs::pad;

/// The write buffer of one journal head.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    /// The LEB it writes to, if it has one.
    lnum: Option<u32>,
    /// Byte in the LEB where the first byte of `bytes` goes, a multiple of the smallest write.
    offset: u32,
    /// Nodes with their alignment, not yet on flash.
    bytes: Vec<u8>,
    /// Bytes at which it is written: up to the next multiple of the most efficient write, or the end of the LEB.
    capacity: u32,
    /// Inodes that have nodes in it, for fsync.
    inodes: Vec<u32>,
}

impl WriteBuffer {
    /// Without a LEB.
    pub(crate) const fn new() -> Self {
        Self { lnum: None, offset: 0, bytes: Vec::new(), capacity: 0, inodes: Vec::new() }
    }

    /// The LEB, if it has one.
    pub(crate) const fn lnum(&self) -> Option<u32> {
        self.lnum
    }

    /// Byte in the LEB where the next node goes.
    pub(crate) fn position(&self) -> u32 {
        self.offset + self.len()
    }

    /// Byte in the LEB up to which everything is on flash.
    pub(crate) const fn flushed(&self) -> u32 {
        self.offset
    }

    /// What is not on flash yet; it goes to [`flushed`](Self::flushed).
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether nodes of the inode are in it.
    pub(crate) fn holds(&self, inode: u32) -> bool {
        self.inodes.contains(&inode)
    }

    fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// Everything pending up to `end` bytes is on flash.
    fn written(&mut self, end: u32, layout_leb: u32, max_write: u32) {
        self.bytes.drain(..usize::try_from(end).unwrap_or(usize::MAX).min(self.bytes.len()));
        self.offset += end;
        self.capacity = capacity(self.offset, layout_leb, max_write);
        // Whatever was in it before the last nodes is on flash; the writer adds the inodes of those.
        self.inodes.clear();
    }
}

/// Bytes from `offset` to the next multiple of the most efficient write, or to the end of the LEB.
fn capacity(offset: u32, leb_bytes: u32, max_write: u32) -> u32 {
    let left = leb_bytes.saturating_sub(offset);
    if left < max_write { left } else { max_write - offset % max_write }
}

impl<V: Volume> Io<V> {
    /// Lets a head write at a place from now on; what it held has to be on flash ([`sync_head`](Self::sync_head)).
    pub(crate) fn seek_head(&mut self, head: Head, lnum: u32, offset: u32) {
        let capacity = capacity(offset, self.layout().leb_bytes(), self.layout().volume.max_write_bytes);
        let buffer = self.buffer_mut(head);
        debug_assert!(buffer.bytes.is_empty(), "a head is moved with nodes pending");
        *buffer = WriteBuffer { lnum: Some(lnum), offset, bytes: Vec::new(), capacity, inodes: Vec::new() };
    }

    /// Takes a head's LEB away; what it held has to be on flash.
    pub(crate) fn park_head(&mut self, head: Head) {
        debug_assert!(self.buffer(head).bytes.is_empty(), "a head is parked with nodes pending");
        *self.buffer_mut(head) = WriteBuffer::new();
    }

    /// Bytes that a head's LEB has left.
    pub(crate) fn head_room(&self, head: Head) -> u32 {
        let buffer = self.buffer(head);
        if buffer.lnum.is_none() { 0 } else { self.layout().leb_bytes().saturating_sub(buffer.position()) }
    }

    /// Appends nodes, a multiple of 8 bytes, to a head and returns where they begin: `(LEB, offset)`. They count for
    /// `inodes` until they are on flash. The LEB's free space is updated.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the LEB has no room; failures of the volume.
    pub(crate) fn write_head(
        &mut self,
        space: &mut Space,
        head: Head,
        nodes: &[u8],
        inodes: &[u32],
    ) -> Result<(u32, u32)> {
        let len = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        debug_assert!(len == align8(len), "nodes end where the next one can begin");
        let buffer = self.buffer(head);
        let (Some(lnum), start) = (buffer.lnum, buffer.position()) else { return Err(Error::NoSpace) };
        if self.head_room(head) < len {
            return Err(Error::NoSpace);
        }
        self.buffer_mut(head).bytes.extend_from_slice(nodes);
        self.write_full(head, lnum)?;
        let buffer = self.buffer_mut(head);
        if !buffer.bytes.is_empty() {
            buffer.inodes.extend(inodes);
        }
        let free = self.head_room(head);
        space.set_free(lnum, free, 0)?;
        Ok((lnum, start))
    }

    /// Writes as many whole units as are pending.
    fn write_full(&mut self, head: Head, lnum: u32) -> Result<()> {
        let (leb, max_write) = (self.layout().leb_bytes(), self.layout().volume.max_write_bytes);
        let buffer = self.buffer(head);
        let (pending, first) = (buffer.len(), buffer.capacity);
        if first == 0 || pending < first {
            return Ok(());
        }
        let rest = pending - first;
        let tail = leb - buffer.offset - first;
        // The last unit of a LEB can be shorter than the others.
        let end = if rest == tail { pending } else { first + rest / max_write * max_write };
        self.write_pending(head, lnum, end)
    }

    fn write_pending(&mut self, head: Head, lnum: u32, end: u32) -> Result<()> {
        let (leb, max_write) = (self.layout().leb_bytes(), self.layout().volume.max_write_bytes);
        let mut buffer = core::mem::replace(self.buffer_mut(head), WriteBuffer::new());
        let bytes = buffer.bytes.get(..usize::try_from(end).unwrap_or(usize::MAX)).unwrap_or(&buffer.bytes);
        let outcome = self.write(lnum, buffer.offset, bytes);
        if outcome.is_ok() {
            buffer.written(end, leb, max_write);
        }
        *self.buffer_mut(head) = buffer;
        outcome
    }

    /// Brings to flash what a head holds, padded to the smallest write; the padding counts as dirty.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn sync_head(&mut self, space: &mut Space, head: Head) -> Result<()> {
        let min_io = self.layout().min_io_bytes();
        let buffer = self.buffer_mut(head);
        let Some(lnum) = buffer.lnum.filter(|_| !buffer.bytes.is_empty()) else { return Ok(()) };
        let used = buffer.bytes.len();
        let padded = used.next_multiple_of(usize::try_from(min_io.max(8)).unwrap_or(8));
        buffer.bytes.resize(padded, 0);
        pad(buffer.bytes.get_mut(used..).unwrap_or(&mut []));
        let end = self.buffer(head).len();
        self.write_pending(head, lnum, end)?;
        let padding = u32::try_from(padded - used).unwrap_or(0);
        space.set_free(lnum, self.head_room(head), padding)
    }

    /// Brings to flash what all heads hold.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn sync_heads(&mut self, space: &mut Space) -> Result<()> {
        Head::ALL.into_iter().try_for_each(|head| self.sync_head(space, head))
    }

    /// Brings to flash what heads hold of an inode: the end of an fsync.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn sync_inode(&mut self, space: &mut Space, inode: u32) -> Result<()> {
        for head in Head::ALL {
            if self.buffer(head).holds(inode) {
                self.sync_head(space, head)?;
            }
        }
        Ok(())
    }
}
