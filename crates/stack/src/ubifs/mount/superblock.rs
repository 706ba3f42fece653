//! Finding, checking and writing the superblock. Linux: `fs/ubifs/sb.c`.

use floatgate_media::ubifs::{
    FORMAT_VERSION, Frame, Node, NodeBody, NodeType, SUPERBLOCK_LEB, Stamp, Superblock, SuperblockFlags,
};

use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::Io;
use crate::ubifs::layout::Layout;
use crate::volume::{Volume, VolumeFault, VolumeGeometry};

/// Newest version that a filesystem of a newer format may name for those who only read it. Linux:
/// `UBIFS_RO_COMPAT_VERSION`.
const READ_COMPATIBLE_VERSION: u32 = 0;

/// The superblock of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// As it is to count: grown to the volume, and without the flag for fixing up space if the mount does so.
    pub(crate) superblock: Superblock,
    /// The free space has to be erased properly before anything is written.
    pub(crate) fix_up_space: bool,
    /// It differs from the one on flash, which has to be written.
    pub(crate) changed: bool,
}

/// Reads the superblock of a volume and checks it against the volume.
///
/// # Errors
/// No superblock, one that contradicts itself or the volume, a newer format, authentication without a key when mounting
/// for writing.
pub(crate) fn read<V: Volume>(volume: &mut V, read_only: bool) -> Result<Found> {
    let stored = read_node(volume)?;
    check_version(&stored, read_only)?;
    let geometry = volume.geometry();
    check_units(&stored, geometry)?;
    if stored.has(SuperblockFlags::AUTHENTICATION) && !read_only {
        return Err(Error::Unsupported("writing to an authenticated filesystem"));
    }
    let mut superblock = stored.grown(geometry.lebs);
    if superblock.leb_count > geometry.lebs && !read_only {
        let (needs, has) = (superblock.leb_count, geometry.lebs);
        return Err(Error::Superblock(format!("needs {needs} LEBs, the volume has {has}")));
    }
    let fix_up_space = stored.has(SuperblockFlags::SPACE_FIXUP);
    if fix_up_space && !read_only {
        superblock.flags = without(superblock.flags, SuperblockFlags::SPACE_FIXUP);
    }
    // Only reading, a newer format counts as the newest known.
    superblock.format_version = superblock.format_version.min(FORMAT_VERSION);
    let changed = superblock.leb_count != stored.leb_count || fix_up_space;
    Ok(Found { superblock, fix_up_space, changed })
}

/// Sizes and areas of a filesystem.
///
/// # Errors
/// Impossible ones.
pub(crate) fn layout(superblock: &Superblock, geometry: VolumeGeometry) -> Result<Layout> {
    Layout::new(superblock, geometry).map_err(|source| Error::node(SUPERBLOCK_LEB, 0, source))
}

fn read_node<V: Volume>(volume: &mut V) -> Result<Superblock> {
    let mut bytes = vec![0; Superblock::SIZE];
    match volume.read(SUPERBLOCK_LEB, 0, &mut bytes) {
        Err(error) if error.fault != VolumeFault::Uncorrectable => return Err(error.into()),
        _ => {}
    }
    let damaged = |source| Error::node(SUPERBLOCK_LEB, 0, source);
    let frame = Frame::parse(&bytes).map_err(damaged)?;
    match frame.node().map_err(damaged)? {
        Node::Superblock(superblock) => Ok(superblock),
        _ => Err(Error::WrongNode {
            lnum: SUPERBLOCK_LEB,
            offset: 0,
            expected: NodeType::Superblock,
            found: frame.node_type,
        }),
    }
}

fn check_version(superblock: &Superblock, read_only: bool) -> Result<()> {
    let Superblock { format_version: version, ro_compat_version: compatible, .. } = *superblock;
    if version <= FORMAT_VERSION || read_only && compatible <= READ_COMPATIBLE_VERSION {
        return Ok(());
    }
    let allowed = if compatible <= READ_COMPATIBLE_VERSION { "can only be read" } else { "is not known" };
    Err(Error::Superblock(format!("format {version} {allowed}: {FORMAT_VERSION} is the newest known")))
}

fn check_units(superblock: &Superblock, geometry: VolumeGeometry) -> Result<()> {
    // Nodes begin at multiples of 8: UBIFS takes smaller units for units of 8.
    let unit = geometry.min_io_bytes.max(8);
    let pairs = [
        ("minimal I/O unit", superblock.min_io_bytes, unit),
        ("LEB", superblock.leb_bytes, geometry.leb_bytes),
    ];
    match pairs.into_iter().find(|(_, stored, real)| stored != real) {
        Some((what, stored, real)) => {
            let text = format!("{what} of {stored} bytes, but of {real} bytes in the volume");
            Err(Error::Superblock(text))
        }
        None => Ok(()),
    }
}

impl<V: Volume> Core<V> {
    /// Replaces the superblock, atomically.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn write_superblock(&mut self) -> Result<()> {
        write(&mut self.io)
    }
}

fn write<V: Volume>(io: &mut Io<V>) -> Result<()> {
    let superblock = io.layout().superblock;
    let stamp = Stamp::new(io.next_sqnum());
    let mut bytes = vec![0; superblock.node_bytes()];
    superblock.emit(stamp, &mut bytes).map_err(|source| Error::node(SUPERBLOCK_LEB, 0, source))?;
    io.pad_to_min_io(&mut bytes);
    io.change(SUPERBLOCK_LEB, &bytes)
}

const fn without(flags: SuperblockFlags, flag: SuperblockFlags) -> SuperblockFlags {
    SuperblockFlags::from_bits(flags.bits() & !flag.bits())
}
