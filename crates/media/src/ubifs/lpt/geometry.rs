//! Widths of fields and sizes of nodes of the LPT: `docs/spec/ubifs.md#lpt-geometry`.

use core::ops::Range;

use super::FANOUT;
use crate::error::Reason;

/// Number of bits of CRC and type at the start of every node.
const HEAD_BITS: u64 = 16 + 4;

/// Minimum number of LEBs of the LPT area.
const MIN_LEBS: u32 = 2;

/// Number of attempts to find a self-consistent size before Linux reports an error.
const TRIES: u32 = 64;

/// Parameters that determine the size of the LPT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// First LEB of the LPT area.
    pub first_lnum: u32,
    /// Number of LEBs of the LPT area.
    pub lebs: u32,
    /// LEBs of the main area; the last of them is the last of the filesystem.
    pub main: Range<u32>,
    /// Number of LEBs to which the filesystem can grow.
    pub max_leb_count: u32,
    /// Size of a LEB, bytes.
    pub leb_bytes: u32,
    /// Minimum I/O unit, bytes.
    pub min_io_bytes: u32,
    /// Number of entries in the save table.
    pub lsave_count: u32,
    /// True for the big model.
    pub big: bool,
}

/// Widths of fields in bits, sizes of nodes in bytes, and numbers of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    pub(super) from: Parameters,
    height: u32,
    pnode_count: u32,
    nnode_count: u64,
    pub(super) space_bits: u32,
    pub(super) lpt_lnum_bits: u32,
    pub(super) lpt_offset_bits: u32,
    pub(super) lpt_space_bits: u32,
    pub(super) number_bits: u32,
    pub(super) lnum_bits: u32,
}

/// Number of bits that `value` requires.
const fn width(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

/// Number of bytes for `bits`, limited to the maximum of a `u32`.
const fn bytes(bits: u64) -> u32 {
    let bytes = bits.div_ceil(8);
    if bytes > u32::MAX as u64 { u32::MAX } else { bytes as u32 }
}

impl Geometry {
    /// The geometry for these parameters.
    #[must_use]
    pub fn new(from: &Parameters) -> Self {
        let main_lebs = from.main.end.saturating_sub(from.main.start);
        let growth = from.max_leb_count.saturating_sub(from.main.end);
        let most_pnodes = main_lebs.saturating_add(growth).div_ceil(FANOUT);
        let height = height(most_pnodes);
        let pnode_count = main_lebs.div_ceil(FANOUT);
        let numbers = from.max_leb_count.div_ceil(FANOUT);
        Self {
            height,
            pnode_count,
            nnode_count: nnode_count(pnode_count, height),
            // Sizes in the main area are multiples of 8 bytes.
            space_bits: width(from.leb_bytes).saturating_sub(3),
            lpt_lnum_bits: width(from.lebs),
            lpt_offset_bits: width(from.leb_bytes.saturating_sub(1)),
            lpt_space_bits: width(from.leb_bytes),
            number_bits: width(numbers.saturating_sub(1)),
            lnum_bits: width(from.max_leb_count.saturating_sub(1)),
            from: from.clone(),
        }
    }

    /// Geometry of a new filesystem, whose LPT area has four times the size of the LPT, as in Linux
    /// and `mkfs.ubifs`.
    ///
    /// `from.main` begins where the main area would begin without an LPT. `from.lebs` and `from.big`
    /// are ignored and computed here.
    ///
    /// # Errors
    ///
    /// No LEB remains for the main area, or the table of the LPT's own LEBs does not fit a LEB.
    pub fn choose(from: &Parameters) -> Result<Self, Reason> {
        let with = |lebs: u32, big| {
            let start = from.main.start.saturating_add(lebs);
            if start >= from.main.end {
                return Err(Reason::Inconsistent { what: "the LPT leaves no main area" });
            }
            Ok(Self::new(&Parameters { lebs, big, main: start..from.main.end, ..from.clone() }))
        };
        let mut geometry = with(MIN_LEBS, false)?;
        let big = geometry.lpt_bytes() > u64::from(from.leb_bytes);
        if big {
            geometry = with(MIN_LEBS, true)?;
        }
        for _ in 0..TRIES {
            let needed = geometry.lebs_for(4);
            if needed <= u64::from(geometry.from.lebs) {
                geometry.check_table()?;
                return Ok(geometry);
            }
            geometry = with(u32::try_from(needed).unwrap_or(u32::MAX), big)?;
        }
        Err(Reason::Inconsistent { what: "no size of the LPT fits itself" })
    }

    /// Checks that two copies of the LPT fit the area, and that the table of its own LEBs fits a
    /// LEB.
    ///
    /// # Errors
    ///
    /// One of the two conditions is not met.
    pub fn check(&self) -> Result<(), Reason> {
        if self.lebs_for(2) > u64::from(self.from.lebs) {
            return Err(Reason::OutOfRange { field: "LPT LEBs", value: u64::from(self.from.lebs) });
        }
        self.check_table()
    }

    fn check_table(&self) -> Result<(), Reason> {
        if self.ltab_bytes() > self.from.leb_bytes {
            return Err(Reason::Inconsistent { what: "the LPT's table does not fit a LEB" });
        }
        Ok(())
    }

    /// Number of LEBs that hold `times` copies of the LPT.
    fn lebs_for(&self, times: u64) -> u64 {
        self.lpt_bytes().saturating_mul(times).div_ceil(u64::from(self.from.leb_bytes.max(1)))
    }

    /// The parameters that determine the geometry.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.from
    }

    /// True for the big model.
    #[must_use]
    pub const fn is_big(&self) -> bool {
        self.from.big
    }

    /// Number of rows of nnodes. A tree that can grow has empty rows at the top.
    #[must_use]
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// Number of pnodes.
    #[must_use]
    pub const fn pnode_count(&self) -> u32 {
        self.pnode_count
    }

    /// Number of nnodes.
    #[must_use]
    pub const fn nnode_count(&self) -> u64 {
        self.nnode_count
    }

    /// Size of a pnode, bytes.
    #[must_use]
    pub const fn pnode_bytes(&self) -> u32 {
        bytes(self.numbered_bits() + (2 * self.space_bits as u64 + 1) * FANOUT as u64)
    }

    /// Size of an nnode, bytes.
    #[must_use]
    pub const fn nnode_bytes(&self) -> u32 {
        bytes(self.numbered_bits() + (self.lpt_lnum_bits + self.lpt_offset_bits) as u64 * FANOUT as u64)
    }

    /// Size of the table of the LPT's own LEBs, bytes.
    #[must_use]
    pub const fn ltab_bytes(&self) -> u32 {
        bytes(HEAD_BITS + 2 * self.lpt_space_bits as u64 * self.from.lebs as u64)
    }

    /// Size of the save table, bytes.
    #[must_use]
    pub const fn lsave_bytes(&self) -> u32 {
        bytes(HEAD_BITS + self.lnum_bits as u64 * self.from.lsave_count as u64)
    }

    /// Number of bits of the head of a pnode or nnode; the big model adds the node's number.
    const fn numbered_bits(&self) -> u64 {
        HEAD_BITS + if self.from.big { self.number_bits as u64 } else { 0 }
    }

    /// Size of the whole LPT, including space lost at the end of LEBs, B.
    #[must_use]
    pub fn lpt_bytes(&self) -> u64 {
        let lsave = if self.from.big { self.lsave_bytes() } else { 0 };
        let content = u64::from(self.pnode_count) * u64::from(self.pnode_bytes())
            + self.nnode_count * u64::from(self.nnode_bytes())
            + u64::from(self.ltab_bytes())
            + u64::from(lsave);
        content + self.waste(content)
    }

    /// Number of lost bytes: at most a node at the end of each LEB, and the padding of the last
    /// write.
    fn waste(&self, content: u64) -> u64 {
        let leb = u64::from(self.from.leb_bytes);
        let per_leb = u64::from(self.pnode_bytes().max(self.nnode_bytes()));
        let usable = leb.saturating_sub(per_leb).max(1);
        let in_last_and_before = content + per_leb;
        let full_lebs = in_last_and_before.saturating_sub(leb).div_ceil(usable);
        let last = in_last_and_before.saturating_sub(full_lebs * usable);
        let unit = u64::from(self.from.min_io_bytes.max(1));
        per_leb * (full_lebs + 1) + last.next_multiple_of(unit) - last
    }
}

/// Number of rows of nnodes above `pnodes`, at least one.
const fn height(pnodes: u32) -> u32 {
    let mut height = 1;
    let mut reach = FANOUT as u64;
    while reach < pnodes as u64 {
        height += 1;
        reach *= FANOUT as u64;
    }
    height
}

/// Number of nnodes in all rows above `pnodes`.
const fn nnode_count(pnodes: u32, height: u32) -> u64 {
    let mut row = pnodes;
    let mut count = 0;
    let mut done = 0;
    while done < height {
        row = row.div_ceil(FANOUT);
        count += row as u64;
        done += 1;
    }
    count
}
