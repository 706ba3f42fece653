//! Reading and writing nodes: the volume, its write buffers, and sequence numbers.

use std::sync::Arc;

use floatgate_media::ubifs::{Frame, Group, NodeBody, NodeType, Stamp, pad};

use super::error::{Error, Result, narrow};
use super::layout::{Head, Layout, NodePos};
use super::wbuf::WriteBuffer;
use crate::volume::Volume;
use floatgate_mtd::random::{GOLDEN, mix};

/// A volume with the write buffers of a filesystem.
#[derive(Clone, Debug)]
pub(crate) struct Io<V: ?Sized> {
    layout: Arc<Layout>,
    buffers: [WriteBuffer; 3],
    /// Highest sequence number in use.
    sqnum: u64,
    read_only: bool,
    /// Failure that made it read-only since the mount.
    failure: Option<Error>,
    volume: V,
}

forward_to_dyn!(Io: Volume);

/// The same over any volume.
pub(crate) type DynIo<'v> = Io<dyn Volume + 'v>;

impl<V: Volume> Io<V> {
    /// Wraps a volume; `read_only` refuses all writes.
    pub(crate) fn new(volume: V, layout: Arc<Layout>, read_only: bool) -> Self {
        let buffers = [WriteBuffer::new(), WriteBuffer::new(), WriteBuffer::new()];
        Self { layout, buffers, sqnum: 0, read_only, failure: None, volume }
    }

    /// Returns the volume; buffered data is lost.
    pub(crate) fn into_volume(self) -> V {
        self.volume
    }
}

impl<V: ?Sized> Io<V> {
    /// The volume of the filesystem.
    pub(crate) const fn volume(&self) -> &V {
        &self.volume
    }

    /// The volume, to set its clock and flush it.
    pub(crate) const fn volume_mut(&mut self) -> &mut V {
        &mut self.volume
    }
}

impl DynIo<'_> {
    /// Sizes and areas of the filesystem.
    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Changes the sizes of a filesystem that is being created.
    pub(crate) fn set_layout(&mut self, layout: Arc<Layout>) {
        self.layout = layout;
    }

    /// True if writes are refused.
    pub(crate) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Makes the filesystem read-only or writable.
    pub(crate) const fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    /// Makes the filesystem read-only after a failure in the middle of a change, as Linux does (`ubifs_ro_mode`):
    /// further writes could do more damage.
    pub(crate) fn fail(&mut self, error: &Error) {
        if !self.read_only {
            self.failure = Some(error.clone());
        }
        self.read_only = true;
    }

    /// Failure that made the filesystem read-only since the mount.
    pub(crate) const fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Write buffer of a head.
    pub(crate) const fn buffer(&self, head: Head) -> &WriteBuffer {
        &self.buffers[head as usize]
    }

    pub(super) const fn buffer_mut(&mut self, head: Head) -> &mut WriteBuffer {
        &mut self.buffers[head as usize]
    }

    /// Highest sequence number in use.
    #[cfg(test)]
    pub(crate) const fn sqnum(&self) -> u64 {
        self.sqnum
    }

    /// Records the sequence number of a node found on flash; new nodes get higher ones.
    pub(crate) const fn saw_sqnum(&mut self, sqnum: u64) {
        if sqnum > self.sqnum {
            self.sqnum = sqnum;
        }
    }

    /// Allocates a sequence number.
    pub(crate) const fn next_sqnum(&mut self) -> u64 {
        self.sqnum += 1;
        self.sqnum
    }

    /// Cookie of a new entry, which distinguishes names with the same hash; 0 in filesystems without cookies.
    ///
    /// Linux draws it at random. Here it is derived from the sequence number, so that runs are deterministic.
    pub(crate) fn cookie(&self) -> u32 {
        if self.layout.double_hash() { mix(self.sqnum.wrapping_add(GOLDEN)) as u32 } else { 0 }
    }

    /// Appends a node to `out`, aligned to 8 bytes, and returns its length without the alignment.
    ///
    /// # Errors
    /// The node is invalid for its type.
    pub(crate) fn append_node(
        &mut self,
        node: &impl NodeBody,
        group: Group,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        let start = out.len();
        let len = node.node_bytes();
        out.resize(start + len.next_multiple_of(8), 0);
        let room = out.get_mut(start..).unwrap_or(&mut []);
        let stamp = Stamp { sqnum: self.next_sqnum(), group };
        node.emit(stamp, room).map_err(|source| Error::node(0, 0, source))?;
        // As in Linux, the up to 7 bytes of alignment are padding bytes.
        pad(room.get_mut(len..).unwrap_or(&mut []));
        narrow("node", len)
    }

    /// Reads bytes, including data in write buffers.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<()> {
        let pending = self.buffers.iter().find(|buffer| buffer.lnum() == Some(lnum));
        let end = u64::from(offset) + buf.len() as u64;
        let Some(buffer) = pending.filter(|buffer| u64::from(buffer.flushed()) < end) else {
            return Ok(self.volume.read(lnum, offset, buf)?);
        };
        let flushed = buffer.flushed();
        let on_flash = flushed.saturating_sub(offset) as usize;
        let skip = offset.saturating_sub(flushed) as usize;
        let (front, back) = buf.split_at_mut(on_flash.min(buf.len()));
        back.fill(0xFF);
        let held = buffer.pending().get(skip..).unwrap_or(&[]);
        let len = held.len().min(back.len());
        back[..len].copy_from_slice(&held[..len]);
        if front.is_empty() { Ok(()) } else { Ok(self.volume.read(lnum, offset, front)?) }
    }

    /// Reads a node into `out` and checks magic, CRC, length and, if given, the type.
    ///
    /// # Errors
    /// A damaged node, another type than expected, volume failures.
    pub(crate) fn read_node<'o>(
        &mut self,
        place: NodePos,
        expected: Option<NodeType>,
        out: &'o mut Vec<u8>,
    ) -> Result<Frame<'o>> {
        let NodePos { lnum, offset, len } = place;
        if u64::from(offset) + u64::from(len) > u64::from(self.layout.leb_bytes()) {
            return Err(Error::corrupt(lnum, offset, "a node reaches past the end of its LEB"));
        }
        out.resize(len as usize, 0);
        // The node's CRC reveals data that ECC cannot correct.
        match self.read(lnum, offset, out) {
            Err(error) if !error.is_damage() => return Err(error),
            _ => {}
        }
        frame_of(place, expected, out)
    }

    /// Writes bytes, bypassing the write buffers.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; volume failures, after which the filesystem is read-only.
    pub(crate) fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<()> {
        self.writing(|volume| volume.write(lnum, offset, data))
    }

    /// Writes a node, padded to the minimum I/O size, and returns the offset after it.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub(crate) fn write_node(&mut self, node: &impl NodeBody, lnum: u32, offset: u32) -> Result<u32> {
        let mut out = Vec::new();
        self.append_node(node, Group::None, &mut out)?;
        self.pad_to_min_io(&mut out);
        self.write(lnum, offset, &out)?;
        let end = u64::from(offset) + out.len() as u64;
        narrow("end of the node", end)
    }

    /// Appends padding up to a multiple of the minimum I/O size, and returns its length.
    pub(crate) fn pad_to_min_io(&self, out: &mut Vec<u8>) -> u32 {
        let unit = self.layout.min_io_bytes().max(8);
        let used = out.len();
        out.resize(used.next_multiple_of(unit as usize), 0);
        let padding = out.get_mut(used..).unwrap_or(&mut []);
        pad(padding);
        // The padding is shorter than the minimum I/O size, so its length fits.
        padding.len() as u32
    }

    /// Replaces a LEB atomically.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub(crate) fn change(&mut self, lnum: u32, data: &[u8]) -> Result<()> {
        self.writing(|volume| volume.change(lnum, data))
    }

    /// Maps a LEB, so that it is empty even after a power loss.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub(crate) fn map(&mut self, lnum: u32) -> Result<()> {
        self.writing(|volume| volume.map(lnum))
    }

    /// Unmaps a LEB, which then reads as erased.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub(crate) fn unmap(&mut self, lnum: u32) -> Result<()> {
        self.writing(|volume| volume.unmap(lnum))
    }

    /// True when a LEB is mapped.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn is_mapped(&mut self, lnum: u32) -> Result<bool> {
        Ok(self.volume.is_mapped(lnum)?)
    }

    fn writing(
        &mut self,
        operation: impl FnOnce(&mut dyn Volume) -> core::result::Result<(), crate::VolumeError>,
    ) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        operation(&mut self.volume).map_err(|error| {
            let error = Error::Volume(error);
            self.fail(&error);
            error
        })
    }
}

/// Parses the node at a position: checks magic, CRC, length and, if given, the type.
///
/// # Errors
/// A damaged node, or another type than expected.
pub(crate) fn frame_of(place: NodePos, expected: Option<NodeType>, bytes: &[u8]) -> Result<Frame<'_>> {
    let NodePos { lnum, offset, len } = place;
    let frame = Frame::parse(bytes).map_err(|source| Error::node(lnum, offset, source))?;
    if frame.as_bytes().len() != len as usize {
        return Err(Error::corrupt(lnum, offset, "a node has another length than the index says"));
    }
    match expected.filter(|&expected| expected != frame.node_type) {
        Some(expected) => Err(Error::WrongNode { lnum, offset, expected, found: frame.node_type }),
        None => Ok(frame),
    }
}
