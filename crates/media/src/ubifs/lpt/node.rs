//! Leaves and inner nodes of the LPT: `docs/spec/ubifs.md#pnode`, `docs/spec/ubifs.md#nnode`.

use super::pack::{open, seal, type_code};
use super::{FANOUT, Geometry};
use crate::error::{MediaError, Reason, require};

/// Type of an LPT node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A leaf: the properties of four LEBs.
    Pnode,
    /// An inner node: the positions of four child nodes.
    Nnode,
    /// The table of the LPT's own LEBs.
    Ltab,
    /// The save table; big model only.
    Lsave,
}

impl Kind {
    /// All types of LPT nodes.
    pub const ALL: [Self; 4] = [Self::Pnode, Self::Nnode, Self::Ltab, Self::Lsave];

    /// Code of the type on flash.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Size of a node of this type, bytes.
    #[must_use]
    pub fn bytes(self, geometry: &Geometry) -> usize {
        let bytes = match self {
            Self::Pnode => geometry.pnode_bytes(),
            Self::Nnode => geometry.nnode_bytes(),
            Self::Ltab => geometry.ltab_bytes(),
            Self::Lsave => geometry.lsave_bytes(),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Type of the node at the start of `bytes`; `None` for an unknown type or a wrong CRC.
    #[must_use]
    pub fn find(bytes: &[u8], geometry: &Geometry) -> Option<Self> {
        let code = type_code(bytes);
        let kind = Self::ALL.into_iter().find(|kind| kind.code() == code)?;
        open(bytes, kind, geometry).ok().map(|_| kind)
    }
}

/// Properties of a LEB in the main area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct LebProperties {
    /// Number of bytes not written since the LEB was erased; a multiple of 8.
    pub free: u32,
    /// Number of bytes of obsolete nodes and padding; a multiple of 8.
    pub dirty: u32,
    /// True for an index LEB.
    pub index: bool,
}

impl LebProperties {
    fn check(self, geometry: &Geometry) -> Result<(), MediaError> {
        let leb = geometry.from.leb_bytes;
        let io = geometry.from.min_io_bytes.max(8);
        let free = self.free <= leb && self.free.is_multiple_of(io);
        require(free, 0, "free space", self.free)?;
        let dirty = self.dirty <= leb.saturating_sub(self.free) && self.dirty.is_multiple_of(8);
        require(dirty, 0, "dirty space", self.dirty)
    }
}

/// A leaf of the LPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pnode {
    /// Number of the leaf, counted from 0; 0 in the small model, which does not store it.
    pub number: u32,
    /// Properties of four LEBs of the main area, in order; LEBs past the area's end are free.
    pub lebs: [LebProperties; FANOUT as usize],
}

impl Pnode {
    /// Reads the pnode at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// The end of `bytes`, a bad CRC, another type of node.
    pub fn parse(bytes: &[u8], geometry: &Geometry) -> Result<Self, MediaError> {
        let mut reader = open(bytes, Kind::Pnode, geometry)?;
        let number = if geometry.is_big() { reader.read_bits(geometry.number_bits) } else { 0 };
        let lebs = core::array::from_fn(|_| LebProperties {
            free: reader.read_bits(geometry.space_bits) << 3,
            dirty: reader.read_bits(geometry.space_bits) << 3,
            index: reader.read_bits(1) == 1,
        });
        Ok(Self { number, lebs })
    }

    /// Writes the pnode to the start of `out` and returns its length.
    ///
    /// # Errors
    ///
    /// No room, a number or a size that exceeds the width of its field, or a size that is not a multiple of
    /// 8.
    pub fn emit(&self, geometry: &Geometry, out: &mut [u8]) -> Result<usize, MediaError> {
        seal(out, Kind::Pnode, geometry, |writer| {
            if geometry.is_big() {
                writer.put("pnode number", self.number, geometry.number_bits)?;
            }
            for leb in &self.lebs {
                writer.put("free space", eighth("free space", leb.free)?, geometry.space_bits)?;
                writer.put("dirty space", eighth("dirty space", leb.dirty)?, geometry.space_bits)?;
                writer.put("index flag", u32::from(leb.index), 1)?;
            }
            Ok(())
        })
    }

    /// Checks the number, in the big model, and that the sizes fit a LEB.
    ///
    /// # Errors
    ///
    /// The first invalid value, with the offset of the node.
    pub fn check(&self, geometry: &Geometry, number: u32) -> Result<(), MediaError> {
        let right = !geometry.is_big() || self.number == number;
        require(right, 0, "pnode number", self.number)?;
        self.lebs.iter().try_for_each(|leb| leb.check(geometry))
    }
}

fn eighth(field: &'static str, bytes: u32) -> Result<u32, MediaError> {
    require(bytes.is_multiple_of(8), 0, field, bytes)?;
    Ok(bytes / 8)
}

/// Position of an LPT node on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodePos {
    /// LEB number, counted from the start of the volume.
    pub lnum: u32,
    /// Offset in the LEB, bytes.
    pub offset: u32,
}

/// An inner node of the LPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nnode {
    /// Number of the node, see [`nnode_number`](super::nnode_number); 0 in the small model, which does not
    /// store it.
    pub number: u32,
    /// Positions of the children; `None` past the end of the main area.
    pub children: [Option<NodePos>; FANOUT as usize],
}

impl Nnode {
    /// Reads the nnode at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// The end of `bytes`, a bad CRC, another type of node, an offset for a missing child.
    pub fn parse(bytes: &[u8], geometry: &Geometry) -> Result<Self, MediaError> {
        let mut reader = open(bytes, Kind::Nnode, geometry)?;
        let number = if geometry.is_big() { reader.read_bits(geometry.number_bits) } else { 0 };
        let mut children = [None; FANOUT as usize];
        for child in &mut children {
            let at = reader.at();
            let leb = reader.read_bits(geometry.lpt_lnum_bits);
            let offset = reader.read_bits(geometry.lpt_offset_bits);
            // The number of the LEB after the area's last LEB marks a missing child.
            if leb == geometry.from.lebs {
                require(offset == 0, at, "offset of no child", offset)?;
            } else {
                let lnum = geometry.from.first_lnum.saturating_add(leb);
                *child = Some(NodePos { lnum, offset });
            }
        }
        Ok(Self { number, children })
    }

    /// Writes the nnode to the start of `out` and returns its length.
    ///
    /// # Errors
    ///
    /// No room, a child outside the LPT area, a number or an offset that exceeds the width of its field.
    pub fn emit(&self, geometry: &Geometry, out: &mut [u8]) -> Result<usize, MediaError> {
        seal(out, Kind::Nnode, geometry, |writer| {
            if geometry.is_big() {
                writer.put("nnode number", self.number, geometry.number_bits)?;
            }
            for child in self.children {
                let (leb, offset) = match child {
                    Some(place) => (leb_in_area(place, geometry)?, place.offset),
                    None => (geometry.from.lebs, 0),
                };
                writer.put("LPT LEB", leb, geometry.lpt_lnum_bits)?;
                writer.put("LPT offset", offset, geometry.lpt_offset_bits)?;
            }
            Ok(())
        })
    }

    /// Checks the number, in the big model, and the children's positions. The children of a node at level 1
    /// are pnodes.
    ///
    /// # Errors
    ///
    /// The first invalid value, with the offset of the node.
    pub fn check(&self, geometry: &Geometry, level: u32, number: u32) -> Result<(), MediaError> {
        let right = !geometry.is_big() || self.number == number;
        require(right, 0, "nnode number", self.number)?;
        let child_bytes = if level == 1 { geometry.pnode_bytes() } else { geometry.nnode_bytes() };
        let last = geometry.from.leb_bytes.saturating_sub(child_bytes);
        for place in self.children.into_iter().flatten() {
            leb_in_area(place, geometry)?;
            require(place.offset <= last, 0, "LPT offset", place.offset)?;
        }
        Ok(())
    }
}

/// LEB number of a position, relative to the start of the LPT area.
fn leb_in_area(place: NodePos, geometry: &Geometry) -> Result<u32, MediaError> {
    let leb = place.lnum.checked_sub(geometry.from.first_lnum).filter(|&leb| leb < geometry.from.lebs);
    leb.ok_or_else(|| Reason::OutOfRange { field: "LPT LEB", value: u64::from(place.lnum) }.at(0))
}
