//! Write buffers of the journal heads (Linux: `fs/ubifs/io.c`).
//!
//! Nodes are buffered until `max_write_bytes` are full. [`Io::sync_head`] writes earlier, padded to a multiple of the
//! minimum I/O size.

use super::error::{Error, Result, narrow};
use super::io::DynIo;
use super::layout::{Head, align8};
use super::space::Space;
use floatgate_media::ubifs::pad;

/// The write buffer of one journal head.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    /// LEB that it writes to, if any.
    lnum: Option<u32>,
    /// Offset of the first buffered byte in the LEB, a multiple of the minimum I/O size.
    offset: u32,
    /// Buffered nodes with their alignment.
    bytes: Vec<u8>,
    /// Size at which it is written, B: up to the next multiple of the maximum write size, or the end of the LEB.
    capacity: u32,
    /// Inodes with buffered nodes, for fsync.
    inodes: Vec<u32>,
}

impl WriteBuffer {
    /// Write buffer without a LEB.
    pub(crate) const fn new() -> Self {
        Self { lnum: None, offset: 0, bytes: Vec::new(), capacity: 0, inodes: Vec::new() }
    }

    /// LEB that it writes to, if any.
    pub(crate) const fn lnum(&self) -> Option<u32> {
        self.lnum
    }

    /// Offset of the next node in the LEB.
    pub(crate) fn position(&self) -> u32 {
        self.offset + self.len()
    }

    /// Offset in the LEB up to which everything is on flash.
    pub(crate) const fn flushed(&self) -> u32 {
        self.offset
    }

    /// Buffered bytes; they are written at [`flushed`](Self::flushed).
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes
    }

    /// True if nodes of the inode are buffered.
    pub(crate) fn holds(&self, inode: u32) -> bool {
        self.inodes.contains(&inode)
    }

    /// Number of buffered bytes. [`DynIo::write_head`] accepts only data that fits the LEB.
    const fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Removes bytes that were written, up to `end`.
    fn written(&mut self, end: u32, layout_leb: u32, max_write: u32) {
        self.bytes.drain(..(end as usize).min(self.bytes.len()));
        self.offset += end;
        self.capacity = capacity(self.offset, layout_leb, max_write);
        // All earlier nodes are on flash. The writer adds the inodes of the nodes that are still buffered.
        self.inodes.clear();
    }
}

/// Distance from `offset` to the next multiple of the maximum write size, or to the end of the LEB.
fn capacity(offset: u32, leb_bytes: u32, max_write: u32) -> u32 {
    let left = leb_bytes.saturating_sub(offset);
    if left < max_write { left } else { max_write - offset % max_write }
}

impl DynIo<'_> {
    /// Moves a head to a position; its buffer must be synced ([`sync_head`](Self::sync_head)).
    pub(crate) fn seek_head(&mut self, head: Head, lnum: u32, offset: u32) {
        let capacity = capacity(offset, self.layout().leb_bytes(), self.layout().volume.max_write_bytes);
        let buffer = self.buffer_mut(head);
        debug_assert!(buffer.bytes.is_empty(), "a head is moved with nodes pending");
        *buffer = WriteBuffer { lnum: Some(lnum), offset, bytes: Vec::new(), capacity, inodes: Vec::new() };
    }

    /// Detaches a head from its LEB; its buffer must be synced.
    pub(crate) fn park_head(&mut self, head: Head) {
        debug_assert!(self.buffer(head).bytes.is_empty(), "a head is parked with nodes pending");
        *self.buffer_mut(head) = WriteBuffer::new();
    }

    /// Bytes left in a head's LEB.
    pub(crate) fn head_room(&self, head: Head) -> u32 {
        let buffer = self.buffer(head);
        if buffer.lnum.is_none() { 0 } else { self.layout().leb_bytes().saturating_sub(buffer.position()) }
    }

    /// Appends nodes, a multiple of 8 bytes, to a head and returns their `(LEB, offset)`. `inodes` own them until they
    /// are on flash. Updates the LEB's free space.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the LEB has no room; volume failures.
    pub(crate) fn write_head(
        &mut self,
        space: &mut Space,
        head: Head,
        nodes: &[u8],
        inodes: &[u32],
    ) -> Result<(u32, u32)> {
        let len = narrow("group of nodes", nodes.len())?;
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

    /// Writes all complete write units.
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
        let bytes = buffer.bytes.get(..end as usize).unwrap_or(&buffer.bytes);
        let outcome = self.write(lnum, buffer.offset, bytes);
        if outcome.is_ok() {
            buffer.written(end, leb, max_write);
        }
        *self.buffer_mut(head) = buffer;
        outcome
    }

    /// Writes a head's buffer, padded to the minimum I/O size; the padding counts as dirty.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn sync_head(&mut self, space: &mut Space, head: Head) -> Result<()> {
        let min_io = self.layout().min_io_bytes();
        let buffer = self.buffer_mut(head);
        let Some(lnum) = buffer.lnum.filter(|_| !buffer.bytes.is_empty()) else { return Ok(()) };
        let used = buffer.bytes.len();
        let padded = used.next_multiple_of(min_io.max(8) as usize);
        buffer.bytes.resize(padded, 0);
        pad(buffer.bytes.get_mut(used..).unwrap_or(&mut []));
        let end = self.buffer(head).len();
        self.write_pending(head, lnum, end)?;
        let padding = narrow("padding", padded - used)?;
        space.set_free(lnum, self.head_room(head), padding)
    }

    /// Writes the buffers of all heads.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn sync_heads(&mut self, space: &mut Space) -> Result<()> {
        Head::ALL.into_iter().try_for_each(|head| self.sync_head(space, head))
    }

    /// Writes the buffers that contain nodes of an inode: the end of an fsync.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn sync_inode(&mut self, space: &mut Space, inode: u32) -> Result<()> {
        for head in Head::ALL {
            if self.buffer(head).holds(inode) {
                self.sync_head(space, head)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use floatgate_media::ubifs::{Frame, NodeType};

    use super::super::io::Io;
    use super::super::scan::{Scanned, scan_node};
    use super::super::space::Space;
    use super::super::testing::{TestVolume, blank};
    use super::*;
    use floatgate_mtd::random::Random;

    const LEB: u32 = 16 * 1024;

    fn start(min_io: u32, max_write: u32) -> (Io<TestVolume>, Space, u32) {
        let mut io = blank(64, LEB, min_io, max_write, 4);
        let mut space = Space::empty(&io);
        let (lnum, offset) = space.find_free(&mut io, 1, false).unwrap().unwrap();
        io.seek_head(Head::Base, lnum, offset);
        (io, space, lnum)
    }

    /// Bytes like a node, which contain a number to identify them.
    fn bytes(number: u64, len: usize) -> Vec<u8> {
        let mut out = vec![u8::try_from(number % 251).unwrap(); len];
        out[..8].copy_from_slice(&number.to_le_bytes());
        out
    }

    #[test]
    fn what_is_pending_is_read_back_and_counts_as_used() {
        for (min_io, max_write) in [(512, 512), (512, 2048), (2048, 2048), (1, 64), (8, 256), (64, 4096)] {
            let (mut io, mut space, lnum) = start(min_io, max_write);
            let mut random = Random::new(u64::from(min_io + max_write));
            let mut expected = Vec::new();
            for number in 0.. {
                let len = usize::try_from(random.below(600) + 1).unwrap() * 8;
                let node = bytes(number, len);
                match io.write_head(&mut space, Head::Base, &node, &[7]) {
                    Ok(place) => assert_eq!(place, (lnum, u32::try_from(expected.len()).unwrap())),
                    Err(error) => {
                        assert_eq!(error, Error::NoSpace);
                        assert!(io.head_room(Head::Base) < u32::try_from(len).unwrap());
                        break;
                    }
                }
                expected.extend_from_slice(&node);
                let mut back = vec![0; expected.len()];
                io.read(lnum, 0, &mut back).unwrap();
                assert_eq!(back, expected);
                let at = usize::try_from(random.below(expected.len() as u64)).unwrap();
                io.read(lnum, u32::try_from(at).unwrap(), &mut back[at..]).unwrap();
                assert_eq!(back[at..], expected[at..]);
                assert_eq!(space.get(lnum).unwrap().free as usize, LEB as usize - expected.len());
                assert!(io.buffer(Head::Base).pending().len() < max_write.max(8) as usize);
            }
        }
    }

    #[test]
    fn flash_is_written_up_to_where_large_writes_begin() {
        let (mut io, mut space, lnum) = start(512, 4096);
        io.write_head(&mut space, Head::Base, &bytes(1, 800), &[]).unwrap();
        assert_eq!((io.buffer(Head::Base).flushed(), io.volume().operations), (0, 0));
        io.sync_head(&mut space, Head::Base).unwrap();
        assert_eq!(io.buffer(Head::Base).flushed(), 1024);
        // One write from 1024 to the next multiple of 4096, then two whole units.
        io.write_head(&mut space, Head::Base, &bytes(2, 3072 + 2 * 4096 + 8), &[]).unwrap();
        assert_eq!((io.buffer(Head::Base).flushed(), io.volume().operations), (3 * 4096, 2));
        assert_eq!(io.buffer(Head::Base).pending().len(), 8);
        assert_eq!(space.get(lnum).unwrap().dirty, 224);
    }

    #[test]
    fn the_last_unit_of_a_leb_can_be_short() {
        // 17408 is not a multiple of 4096.
        let mut io = blank(64, 17 * 1024, 512, 4096, 4);
        let mut space = Space::empty(&io);
        let (lnum, _) = space.find_free(&mut io, 1, false).unwrap().unwrap();
        io.seek_head(Head::Data, lnum, 0);
        io.write_head(&mut space, Head::Data, &bytes(1, 16 * 1024 + 512), &[]).unwrap();
        assert_eq!(io.buffer(Head::Data).flushed(), 16 * 1024);
        io.write_head(&mut space, Head::Data, &bytes(2, 512), &[]).unwrap();
        assert_eq!((io.buffer(Head::Data).flushed(), io.head_room(Head::Data)), (17 * 1024, 0));
        assert_eq!(io.write_head(&mut space, Head::Data, &bytes(3, 8), &[]), Err(Error::NoSpace));
    }

    #[test]
    fn a_sync_pads_with_what_a_scan_skips() {
        for (len, padding) in [(8, 504), (488, 24), (504, 8), (512, 0), (480, 32)] {
            let (mut io, mut space, lnum) = start(512, 2048);
            io.write_head(&mut space, Head::Base, &bytes(1, len), &[]).unwrap();
            io.sync_heads(&mut space).unwrap();
            let leb = io.volume().leb(lnum).unwrap();
            assert_eq!(leb[len..].iter().take_while(|&&byte| byte != 0xFF).count(), padding);
            match scan_node(&leb[len..]) {
                Scanned::Padding(bytes) => assert_eq!(bytes as usize, padding),
                other => assert!(padding == 0 && matches!(other, Scanned::Empty), "{other:?}"),
            }
            if let Ok(frame) = Frame::parse(&leb[len..]) {
                assert_eq!((frame.node_type, frame.stamp.sqnum), (NodeType::Padding, 0));
            }
            let leb = space.get(lnum).unwrap();
            assert_eq!((leb.dirty as usize, leb.free), (padding, LEB - 512));
            let before = io.volume().operations;
            io.sync_heads(&mut space).unwrap();
            assert_eq!(io.volume().operations, before);
        }
    }

    #[test]
    fn an_fsync_writes_what_holds_the_inode_and_nothing_else() {
        let (mut io, mut space, _) = start(512, 2048);
        io.write_head(&mut space, Head::Base, &bytes(1, 160), &[5, 6]).unwrap();
        io.sync_inode(&mut space, 7).unwrap();
        assert_eq!(io.volume().operations, 0);
        io.sync_inode(&mut space, 6).unwrap();
        assert_eq!(io.volume().operations, 1);
        // Inodes whose nodes are on flash are removed from the list.
        io.write_head(&mut space, Head::Base, &bytes(2, 160), &[8]).unwrap();
        io.sync_inode(&mut space, 5).unwrap();
        assert_eq!(io.volume().operations, 1);
        // A node that does not fit causes the nodes before it to be written to flash, but its own end stays buffered.
        io.write_head(&mut space, Head::Base, &bytes(3, 2048), &[9]).unwrap();
        assert!(!io.buffer(Head::Base).holds(8) && io.buffer(Head::Base).holds(9));
    }

    #[test]
    fn a_failed_write_ends_writing() {
        let (mut io, mut space, _) = start(512, 2048);
        io.volume_mut().cut_after(0, 3);
        io.write_head(&mut space, Head::Base, &bytes(1, 160), &[]).unwrap();
        assert!(io.sync_heads(&mut space).unwrap_err().is_power_loss());
        assert!(io.is_read_only());
        assert_eq!(io.sync_heads(&mut space), Err(Error::ReadOnly));
    }
}
