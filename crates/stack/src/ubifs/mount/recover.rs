//! Cleaning LEBs whose write was interrupted (Linux: `fs/ubifs/recovery.c`).
//!
//! UBIFS writes LEBs upwards, one write at a time. So a power cut affects only the last write of a LEB, and erased
//! space follows. Any other damage has another cause and is an error.

use floatgate_media::Reason;
use floatgate_media::ubifs::{Group, pad};

use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::Head;
use crate::ubifs::scan::{ScannedLeb, Stop, is_erased};
use crate::volume::VolumeGeometry;

/// Scans a LEB whose end may be damaged by a power cut, and drops that end. Unless the filesystem is read-only, the LEB
/// is rewritten without it, even if no damage is visible: half-programmed pages can look erased.
///
/// # Errors
/// Damage that no power cut causes; volume failures.
pub(super) fn recover_leb(
    io: &mut DynIo<'_>,
    lnum: u32,
    start: u32,
    head: Option<Head>,
) -> Result<ScannedLeb> {
    let mut leb = ScannedLeb::read(io, lnum, start)?;
    let stop = leb.scan()?;
    if !is_last_write(&leb, stop, &io.layout().volume) {
        return Err(match stop {
            Stop::Corrupt(source) => Error::node(lnum, leb.end, source),
            Stop::Garbage => Error::corrupt(lnum, leb.end, "garbage that is not of the last write"),
            Stop::Empty => Error::corrupt(lnum, leb.end, "data behind empty space"),
        });
    }
    let min_io = io.layout().min_io_bytes();
    drop_incomplete(&mut leb, head, min_io);
    clean_end(&mut leb, min_io);
    if !io.is_read_only() {
        write_back(io, &leb)?;
    }
    Ok(leb)
}

/// True if the fault that stopped the scan can be part of the last write.
fn is_last_write(leb: &ScannedLeb, stop: Stop, volume: &VolumeGeometry) -> bool {
    let erased_from = |offset: u32| is_erased(leb.from(program_end(offset, volume)));
    match stop {
        Stop::Empty => is_erased(leb.from(leb.end)) || erased_from(leb.end + 1),
        Stop::Garbage => erased_from(leb.end + 1),
        // If more than the header was written, the header must be good, and its length gives the extent of the write.
        Stop::Corrupt(error) => {
            let good_header = matches!(error.reason, Reason::BadCrc32 { .. });
            erased_from(leb.end + 24) || good_header && erased_from(leb.end.saturating_add(node_len(leb)))
        }
    }
}

/// Highest possible end offset of the flash program that wrote the byte before `offset`. A power cut tears one program,
/// and erased space follows it.
///
/// Programs are aligned in the PEB, but Linux aligns in the LEB. The boundaries differ on SPI NOR with pages of 256
/// bytes and 128 bytes of UBI headers. There a torn program can extend beyond the boundary that Linux assumes, and
/// Linux refuses the LEB.
fn program_end(offset: u32, volume: &VolumeGeometry) -> u32 {
    let unit = volume.max_write_bytes.max(volume.min_io_bytes);
    offset.saturating_add(volume.leb_start).next_multiple_of(unit) - volume.leb_start
}

/// Length in the header of the node at which the scan stopped.
fn node_len(leb: &ScannedLeb) -> u32 {
    let field = leb.from(leb.end).get(16..20).and_then(|bytes| bytes.try_into().ok());
    // The length counts as larger than any LEB if the header is truncated.
    field.map_or(1 << 30, u32::from_le_bytes).min(1 << 30)
}

/// Drops nodes of an incomplete group at the end. For the garbage collector's head the whole last minimum I/O unit is
/// dropped: padding there could leave too little room for the nodes that recovery moves into this LEB.
fn drop_incomplete(leb: &mut ScannedLeb, head: Option<Head>, min_io: u32) {
    let unit = leb.end - leb.end % min_io;
    if matches!(head, Some(Head::Base | Head::Data)) {
        drop_while(leb, |node, _| node == Group::Member);
    }
    if head == Some(Head::Gc) {
        drop_while(leb, |_, end| end > unit);
    }
}

/// Drops nodes from the end while `drop` returns true for the last node's group and end.
fn drop_while(leb: &mut ScannedLeb, drop: impl Fn(Group, u32) -> bool) {
    while let Some(last) = leb.nodes.last().filter(|last| drop(last.stamp.group, leb.end)) {
        leb.end = last.place.offset;
        leb.nodes.pop();
    }
}

/// Pads the end to a minimum I/O unit and erases the rest, in memory.
fn clean_end(leb: &mut ScannedLeb, min_io: u32) {
    let end = leb.end.next_multiple_of(min_io);
    let at = |offset: u32| (offset - leb.start) as usize;
    let (from, to) = (at(leb.end), at(end).min(leb.bytes.len()));
    if let Some(rest) = leb.bytes.get_mut(from..) {
        let (padding, free) = rest.split_at_mut(to.saturating_sub(from).min(rest.len()));
        if !padding.is_empty() {
            pad(padding);
        }
        free.fill(0xFF);
    }
    leb.end = end;
}

/// Rewrites a cleaned LEB.
fn write_back(io: &mut DynIo<'_>, leb: &ScannedLeb) -> Result<()> {
    if leb.end == 0 {
        // The next commit may reference this LEB as an empty journal LEB. A LEB that is only unmapped can reappear with
        // its old contents after another power loss, and a page that was unreadable may then be readable.
        io.unmap(leb.lnum)?;
        return io.map(leb.lnum);
    }
    let mut bytes = vec![0; leb.start as usize];
    if !bytes.is_empty() {
        io.volume_mut().read(leb.lnum, 0, &mut bytes)?;
    }
    let used = (leb.end - leb.start) as usize;
    bytes.extend_from_slice(leb.bytes.get(..used).unwrap_or(&leb.bytes));
    io.change(leb.lnum, &bytes)
}

/// Erases the remains of an interrupted commit at the index head, which nothing refers to. Linux rewrites only LEBs
/// with visible remains, but half-programmed pages can look erased.
///
/// # Errors
/// Volume failures.
pub(super) fn recover_head(io: &mut DynIo<'_>, lnum: u32, offset: u32) -> Result<()> {
    if offset >= io.layout().leb_bytes() {
        return Ok(());
    }
    if offset == 0 {
        return io.unmap(lnum);
    }
    let mut bytes = vec![0; offset as usize];
    io.volume_mut().read(lnum, 0, &mut bytes)?;
    io.change(lnum, &bytes)
}
