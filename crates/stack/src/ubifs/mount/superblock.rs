//! Reading, checking and writing the superblock (Linux: `fs/ubifs/sb.c`).

use floatgate_media::crc;
use floatgate_media::ubifs::{
    FORMAT_VERSION, Frame, LOG_LEB, Node, NodeBody, NodeType, SUPERBLOCK_LEB, Stamp, Superblock,
    SuperblockFlags,
};

use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::Layout;
use crate::volume::{Volume, VolumeFault, VolumeGeometry};

/// Read-only compatible version that a newer format must have to be mounted read-only; the only one so far (Linux:
/// `UBIFS_RO_COMPAT_VERSION`).
const READ_COMPATIBLE_VERSION: u32 = 0;

/// Minimum number of LEBs of the main area.
const MIN_MAIN_LEBS: u32 = 9;

/// Maximum ratio of a filesystem's LEBs to those of its volume in a read-only mount, which bounds memory.
const MISSING_LEBS_FACTOR: u32 = 64;

/// The superblock of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeSuperblock {
    /// Superblock as stored on flash.
    pub(crate) stored: Superblock,
    /// Effective superblock: grown to the volume, and without the space fixup flag if the mount fixes up space.
    pub(crate) superblock: Superblock,
    /// Geometry of the volume; in a read-only mount with missing LEBs added.
    pub(crate) volume: VolumeGeometry,
    /// True if the free space must be erased before the first write.
    pub(crate) fix_up_space: bool,
    /// True if it differs from the stored one, and must be written.
    pub(crate) changed: bool,
}

impl VolumeSuperblock {
    /// Keeps the free space and the space fixup flag for a later mount.
    pub(crate) fn keeping_space_fixup(mut self) -> Self {
        self.fix_up_space = false;
        self.superblock.flags = self.stored.flags;
        self.changed = self.superblock.leb_count != self.stored.leb_count;
        self
    }
}

/// Reads the superblock of a volume and checks it against the volume.
///
/// # Errors
/// No superblock, one that contradicts itself or the volume, a newer format, authentication without a key in a writable
/// mount.
pub(crate) fn read(volume: &mut dyn Volume, read_only: bool) -> Result<VolumeSuperblock> {
    let stored = read_node(volume)?;
    found(&stored, volume.geometry(), read_only)
}

/// Reads a superblock with a wrong CRC. If its fields are valid they are probably right, because they fill only a small
/// part of the node.
///
/// # Errors
/// The errors of [`read`], except for a wrong CRC.
pub(crate) fn read_damaged(volume: &mut dyn Volume) -> Result<VolumeSuperblock> {
    let mut bytes = read_bytes(volume)?;
    let crc = crc::ubi(bytes.get(8..).unwrap_or(&[]));
    if let Some(field) = bytes.get_mut(4..8) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
    let stored = parse(&bytes)?;
    let found = found(&stored, volume.geometry(), true)?;
    layout(&found.superblock, found.volume).map(|_| found)
}

/// Reads a good superblock of a filesystem that was made for smaller pages than those of the volume. Its nodes are read in its own units.
///
/// # Errors
/// The errors of [`read`], except for a minimal I/O unit that divides the unit of the volume.
pub(crate) fn read_in_smaller_units(volume: &mut dyn Volume) -> Result<VolumeSuperblock> {
    let (stored, geometry) = (read_node(volume)?, volume.geometry());
    let (own, unit) = (stored.min_io_bytes, geometry.min_io_bytes);
    let min_io_bytes = if (8..unit).contains(&own) && unit.is_multiple_of(own) { own } else { unit };
    let found = found(&stored, VolumeGeometry { min_io_bytes, ..geometry }, true)?;
    layout(&found.superblock, found.volume).map(|_| found)
}

/// Effective superblock on a volume.
pub(crate) fn found(
    stored: &Superblock,
    geometry: VolumeGeometry,
    read_only: bool,
) -> Result<VolumeSuperblock> {
    check_version(stored, read_only)?;
    if geometry.read_only && !read_only {
        return Err(Error::ReadOnly);
    }
    check_units(stored, geometry)?;
    if stored.has(SuperblockFlags::AUTHENTICATION) && !read_only {
        return Err(Error::Unsupported("writing to an authenticated filesystem"));
    }
    let mut superblock = stored.grown(geometry.lebs);
    if read_only {
        superblock = only_read(&superblock);
    }
    let lebs_max = if read_only { geometry.lebs.saturating_mul(MISSING_LEBS_FACTOR) } else { geometry.lebs };
    if superblock.leb_count > lebs_max {
        let (needs, has) = (superblock.leb_count, geometry.lebs);
        return Err(Error::Superblock(format!("needs {needs} LEBs, the volume has {has}")));
    }
    let volume = VolumeGeometry { lebs: geometry.lebs.max(superblock.leb_count), ..geometry };
    let fix_up_space = stored.has(SuperblockFlags::SPACE_FIXUP);
    if fix_up_space && !read_only {
        superblock.flags = without(superblock.flags, SuperblockFlags::SPACE_FIXUP);
    }
    // In a read-only mount, a newer format counts as the newest known format.
    superblock.format_version = superblock.format_version.min(FORMAT_VERSION);
    let changed = superblock.leb_count != stored.leb_count || fix_up_space;
    Ok(VolumeSuperblock { stored: *stored, superblock, volume, fix_up_space, changed })
}

/// Effective superblock in a read-only mount: a bare image or a truncated dump has fewer LEBs than any writable
/// filesystem, and no room for its journal.
fn only_read(superblock: &Superblock) -> Superblock {
    let areas = [LOG_LEB, superblock.log_lebs, superblock.lpt_lebs, superblock.orphan_lebs];
    let least = areas.into_iter().fold(MIN_MAIN_LEBS, u32::saturating_add);
    let leb_count = superblock.leb_count.max(least);
    let max_leb_count = superblock.max_leb_count.max(leb_count);
    let grown = Superblock { leb_count, max_leb_count, ..*superblock };
    let main = u64::from(grown.main_lebs().unwrap_or(0)) * u64::from(grown.leb_bytes);
    let (max_journal_bytes, reserved_bytes) =
        (grown.max_journal_bytes.min(main), grown.reserved_bytes.min(main));
    Superblock { max_journal_bytes, reserved_bytes, ..grown }
}

/// Sizes and areas of a filesystem.
///
/// # Errors
/// Invalid sizes.
pub(crate) fn layout(superblock: &Superblock, geometry: VolumeGeometry) -> Result<Layout> {
    Layout::new(superblock, geometry).map_err(|source| Error::node(SUPERBLOCK_LEB, 0, source))
}

fn read_node(volume: &mut dyn Volume) -> Result<Superblock> {
    parse(&read_bytes(volume)?)
}

pub(crate) fn read_bytes(volume: &mut dyn Volume) -> Result<Vec<u8>> {
    let mut bytes = vec![0; Superblock::SIZE];
    match volume.read(SUPERBLOCK_LEB, 0, &mut bytes) {
        Err(error) if error.fault != VolumeFault::Uncorrectable => Err(error.into()),
        _ => Ok(bytes),
    }
}

fn parse(bytes: &[u8]) -> Result<Superblock> {
    let damaged = |source| Error::node(SUPERBLOCK_LEB, 0, source);
    let frame = Frame::parse(bytes).map_err(damaged)?;
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
    if version <= FORMAT_VERSION || read_only && compatible == READ_COMPATIBLE_VERSION {
        return Ok(());
    }
    let allowed = if compatible == READ_COMPATIBLE_VERSION { "can only be read" } else { "is not known" };
    Err(Error::Superblock(format!("format {version} {allowed}: {FORMAT_VERSION} is the newest known")))
}

pub(super) fn check_units(superblock: &Superblock, geometry: VolumeGeometry) -> Result<()> {
    // Nodes begin at multiples of 8, so UBIFS rounds smaller I/O units up to 8.
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

impl Core<dyn Volume> {
    /// Replaces the superblock, atomically.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn write_superblock(&mut self) -> Result<()> {
        write(&mut self.io)
    }
}

fn write(io: &mut DynIo<'_>) -> Result<()> {
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
