//! Reading, recovering and writing master nodes (Linux: `fs/ubifs/master.c`, and `recovery.c` for recovery).
//!
//! Master nodes are appended to both master LEBs, to the first one first. When the first is full it is unmapped and
//! restarted, then the second. At any power cut, at least one of the two ends with a good master node.

use floatgate_media::ubifs::{
    Frame, INODE_WATERMARK, MASTER_LEB, Master, MasterFlags, NODE_MAGIC, Node, NodeBody, NodeType, Stamp,
    Superblock,
};

use super::findings::{Choice, Findings, MasterState};
use super::note_sqnum;
use crate::fs::NodePos;
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result, narrow};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::Layout;
use crate::ubifs::scan::{Scanned, is_erased, read_to_end, scan, scan_node};
use crate::ubifs::structure::Structure;
use crate::volume::Volume;

/// Sequence number at which the lifetime of the filesystem ends (Linux: `SQNUM_WATERMARK`).
pub(crate) const SQNUM_WATERMARK: u64 = 0xFFFF_FFFF_FF00_0000;

/// The master node of the last commit.
#[derive(Clone, Debug)]
pub(crate) struct CommittedMaster {
    /// Master node, with the LEB count grown to the volume.
    pub(crate) master: Master,
    /// Offset of the next master node.
    pub(crate) next_offset: u32,
    /// Offset in the master LEBs.
    pub(crate) offset: u32,
    /// Encoded node as stored on flash.
    pub(crate) bytes: Vec<u8>,
}

impl CommittedMaster {
    /// State according to the node.
    pub(crate) const fn state(&self, choice: Choice) -> MasterState {
        let dirty = self.master.flags.contains(MasterFlags::DIRTY);
        MasterState { commit: self.master.commit, dirty, fault: choice.fault() }
    }
}

/// A master node with its position in a LEB.
#[derive(Clone, Debug)]
struct Located {
    master: Master,
    sqnum: u64,
    offset: u32,
    bytes: Vec<u8>,
}

/// Finds the last master node. If a power cut left the two LEBs different, the valid one is chosen, and both are
/// rewritten unless the filesystem is mounted read-only.
///
/// # Errors
/// No master node, damage that no power cut causes, an invalid master node, volume failures.
pub(crate) fn read(io: &mut DynIo<'_>, findings: &mut Findings) -> Result<CommittedMaster> {
    let step = step(io.layout());
    let (located, choice) = match find_clean(io)? {
        Some(located) => (located, Choice::Both),
        None => match findings.pass(recover_or_repair(io, step))? {
            Some(found) => found,
            None => (newest(io, step)?, Choice::Newest),
        },
    };
    findings.choice = choice;
    let recovered = choice != Choice::Both;
    saw(io, &located)?;
    let next_offset = located.offset.saturating_add(step);
    let (offset, bytes) = (located.offset, located.bytes.clone());
    let mut found = CommittedMaster { master: located.master, next_offset, offset, bytes };
    if recovered && io.is_read_only() {
        // Whatever the flag says, the filesystem was not unmounted cleanly: power was cut after the node was written.
        found.master.flags = found.master.flags.with(MasterFlags::DIRTY);
    } else if !io.is_read_only() {
        // The node is rewritten even if no damage is visible: the space after it can look erased although a write to it
        // began. This also holds for a node that marks a clean unmount, because the next mount begins with such a
        // write.
        found.next_offset = write_recovered(io, &located)?;
    }
    found.master.flags = without(found.master.flags, MasterFlags::RECOVERY);
    grow(&mut found.master, io.layout())?;
    match check(&found.master, (located.sqnum, offset), io.layout()) {
        // Files can be read without the totals and the LEB properties.
        Err(error) if findings.is_forgiving() && found.master.check_index(&io.layout().limits).is_ok() => {
            // The totals and LEB properties are stored in other places than the master node, which is at the error's
            // position.
            let of_lpt = found.master.check_lpt(&io.layout().limits).is_err();
            findings.note(error, Some(if of_lpt { Structure::Lpt } else { Structure::Space }));
            found.master.highest_inode = found.master.highest_inode.min(INODE_WATERMARK - 1);
            Ok(found)
        }
        checked => checked.map(|()| found),
    }
}

/// Distance between master nodes, B.
fn step(layout: &Layout) -> u32 {
    u32::try_from(Master::SIZE).unwrap_or(0).next_multiple_of(layout.min_io_bytes())
}

/// Last master node if both LEBs are undamaged and equal.
fn find_clean(io: &mut DynIo<'_>) -> Result<Option<Located>> {
    let first = last_in(io, MASTER_LEB)?;
    let second = last_in(io, MASTER_LEB + 1)?;
    let (Some((first, first_count)), Some((second, second_count))) = (first, second) else {
        return Ok(None);
    };
    // The second copy is written after the first, so it has a higher sequence number.
    saw(io, &second)?;
    let same = first_count == second_count && first.offset == second.offset && same_state(&first, &second);
    Ok(Some(first).filter(|_| same))
}

/// Last node of an undamaged master LEB, and number of nodes; `None` if the LEB is damaged or empty.
fn last_in(io: &mut DynIo<'_>, lnum: u32) -> Result<Option<(Located, usize)>> {
    let leb = match scan(io, lnum, 0) {
        Ok(leb) => leb,
        Err(error) if error.is_damage() => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(last) = leb.nodes.last() else { return Ok(None) };
    let offset = last.place.offset;
    let located = locate(&leb.frame(last)?, offset).ok_or(Error::WrongNode {
        lnum,
        offset,
        expected: NodeType::Master,
        found: last.node_type,
    })?;
    Ok(Some((located, leb.nodes.len())))
}

fn saw(io: &mut DynIo<'_>, located: &Located) -> Result<()> {
    note_sqnum(io, NodePos { lnum: MASTER_LEB, offset: located.offset, len: 0 }, located.sqnum)
}

fn locate(frame: &Frame<'_>, offset: u32) -> Option<Located> {
    let Ok(Node::Master(master)) = frame.node() else { return None };
    Some(Located { master, sqnum: frame.stamp.sqnum, offset, bytes: frame.as_bytes().to_vec() })
}

/// True if two nodes are equal except for sequence number, CRC and HMAC.
fn same_state(a: &Located, b: &Located) -> bool {
    let body = |node: &Located| -> Option<(Vec<u8>, Vec<u8>)> {
        let front = node.bytes.get(24..Master::HMAC_AT)?;
        Some((front.to_vec(), node.bytes.get(Master::HMAC_AT + 64..)?.to_vec()))
    };
    body(a) == body(b)
}

/// Contents of a master LEB after a power cut.
struct MasterLeb {
    /// Last good master node.
    last: Option<Located>,
    /// True if damaged data follows it.
    damaged: bool,
}

/// Finds the last good master node in a LEB, followed by at most one damaged node and nothing else.
fn read_master_leb(io: &mut DynIo<'_>, lnum: u32, step: u32) -> Result<MasterLeb> {
    let bytes = read_to_end(io, lnum, 0)?;
    let tail = |offset: u32| bytes.get(offset as usize..).unwrap_or(&[]);
    let mut offset = 0;
    while has_magic(tail(offset)) {
        offset += step;
    }
    let mut last = None;
    for back in 1..=2u32 {
        let Some(at) = offset.checked_sub(back * step) else { break };
        if let Scanned::Node(frame) = scan_node(tail(at)) {
            last = Some(locate(&frame, at).ok_or(Error::corrupt(lnum, at, "not a master node"))?);
            offset = at + step;
            break;
        }
        // Only one place can be damaged. If it is the only one written, no good node remains.
        match back {
            1 if at == 0 => offset = 0,
            2 => return Err(Error::corrupt(lnum, at, "more than one damaged master node")),
            _ => {}
        }
    }
    let next = tail(offset);
    let (place, behind) = next.split_at(next.len().min(step as usize));
    if !is_erased(behind) {
        return Err(Error::corrupt(lnum, offset + step, "data behind the last master node"));
    }
    Ok(MasterLeb { last, damaged: !is_erased(place) })
}

fn has_magic(bytes: &[u8]) -> bool {
    bytes.len() >= Master::SIZE && bytes.starts_with(&NODE_MAGIC)
}

/// Last master node of the undamaged LEB. Both copies of a node are written before anything changes that the previous
/// node needs, so the last node of either LEB can be mounted. Linux fails here.
fn from_undamaged(io: &mut DynIo<'_>) -> Result<Option<Located>> {
    let first = last_in(io, MASTER_LEB)?;
    let second = last_in(io, MASTER_LEB + 1)?;
    Ok(match (first, second) {
        (Some((located, _)), None) | (None, Some((located, _))) => Some(located),
        _ => None,
    })
}

/// Master node to use after a power cut, or if one of the two LEBs has decayed.
fn recover_or_repair(io: &mut DynIo<'_>, step: u32) -> Result<(Located, Choice)> {
    match recover(io, step) {
        Err(error) if error.is_damage() => {
            from_undamaged(io)?.map(|located| (located, Choice::Undamaged)).ok_or(error)
        }
        outcome => outcome,
    }
}

/// Master node to use after a power cut.
fn recover(io: &mut DynIo<'_>, step: u32) -> Result<(Located, Choice)> {
    let first = read_master_leb(io, MASTER_LEB, step)?;
    let second = read_master_leb(io, MASTER_LEB + 1, step)?;
    let leb_bytes = io.layout().leb_bytes();
    for located in first.last.iter().chain(&second.last) {
        saw(io, located)?;
    }
    let choice = if first.damaged && second.damaged { Choice::Older } else { Choice::PowerCut };
    let located = choose(first, second.last, step, leb_bytes).ok_or(Error::corrupt(
        MASTER_LEB,
        0,
        "the master LEBs differ as no power cut leaves them",
    ))?;
    Ok((located, choice))
}

/// Newest good master node anywhere in the two LEBs.
fn newest(io: &mut DynIo<'_>, step: u32) -> Result<Located> {
    let mut newest: Option<Located> = None;
    for lnum in [MASTER_LEB, MASTER_LEB + 1] {
        let bytes = read_to_end(io, lnum, 0)?;
        for (offset, place) in (0..).step_by(step as usize).zip(bytes.chunks(step as usize)) {
            let Scanned::Node(frame) = scan_node(place) else { continue };
            let Some(located) = locate(&frame, offset) else { continue };
            if newest.as_ref().is_none_or(|newest| newest.sqnum < located.sqnum) {
                newest = Some(located);
            }
        }
    }
    newest.ok_or(Error::corrupt(MASTER_LEB, 0, "no master node"))
}

/// Chooses between the two copies; `None` if no power cut explains both.
fn choose(first: MasterLeb, second: Option<Located>, step: u32, leb_bytes: u32) -> Option<Located> {
    let full = |node: &Located| u64::from(node.offset) + 2 * u64::from(step) > u64::from(leb_bytes);
    let Some(one) = first.last else {
        // The first LEB was unmapped and not yet written, so the second one is full.
        return second.filter(full);
    };
    let whole = !first.damaged;
    let by_recovery = one.master.flags.contains(MasterFlags::RECOVERY) && one.offset == 0 && whole;
    let good = by_recovery
        || match &second {
            // The second LEB was unmapped and not yet written.
            None => one.offset == 0 && whole,
            Some(two) if one.offset == two.offset => same_state(&one, two),
            // The first LEB was written and the second was not: in the middle of the LEBs, or at a restart from their
            // beginning.
            Some(two) => whole && (two.offset + step == one.offset || one.offset == 0 && full(two)),
        };
    Some(one).filter(|_| good)
}

/// Writes a recovered master node to the start of both LEBs, and returns the offset of the next one.
fn write_recovered(io: &mut DynIo<'_>, located: &Located) -> Result<u32> {
    let mut node = located.master;
    node.flags = node.flags.with(MasterFlags::RECOVERY);
    let mut bytes = vec![0; node.node_bytes()];
    let emitted = node.emit(Stamp::new(located.sqnum), &mut bytes);
    emitted.map_err(|source| Error::node(MASTER_LEB, 0, source))?;
    io.pad_to_min_io(&mut bytes);
    io.change(MASTER_LEB, &bytes)?;
    io.change(MASTER_LEB + 1, &bytes)?;
    narrow("master node", bytes.len())
}

/// Adds LEBs by which the volume has grown since the node was written.
fn grow(master: &mut Master, layout: &Layout) -> Result<()> {
    let lebs = layout.limits.leb_count;
    let Some(growth) = lebs.checked_sub(master.leb_count) else {
        return Err(Error::corrupt(MASTER_LEB, 0, "the master node counts more LEBs than the superblock"));
    };
    let bytes = |each: u32| u64::from(growth) * u64::from(each);
    master.leb_count = lebs;
    master.empty_lebs = master.empty_lebs.saturating_add(growth);
    master.free_bytes = master.free_bytes.saturating_add(bytes(layout.leb_bytes()));
    master.dark_bytes = master.dark_bytes.saturating_add(bytes(layout.dark_bytes));
    Ok(())
}

/// Checks a master node with this sequence number and offset.
fn check(master: &Master, (sqnum, offset): (u64, u32), layout: &Layout) -> Result<()> {
    if master.commit >= sqnum {
        return Err(Error::corrupt(MASTER_LEB, offset, "a commit number above the sequence number"));
    }
    master.check(&layout.limits).map_err(|source| Error::node(MASTER_LEB, offset, source))
}

/// Flags with one flag cleared.
pub(crate) const fn without(flags: MasterFlags, flag: MasterFlags) -> MasterFlags {
    MasterFlags::from_bits(flags.bits() & !flag.bits())
}

impl Core<dyn Volume> {
    /// Writes the master node to both master LEBs, with the current orphan flag.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn write_master(&mut self) -> Result<()> {
        let (step, leb_bytes) = (step(self.io.layout()), self.io.layout().leb_bytes());
        self.master.highest_inode = self.highest_inode;
        let flags = without(self.master.flags, MasterFlags::NO_ORPHANS);
        let none = self.orphans.is_empty();
        self.master.flags = if none { flags.with(MasterFlags::NO_ORPHANS) } else { flags };
        let full = self.master_offset.checked_add(step).is_none_or(|end| end > leb_bytes);
        let offset = if full { 0 } else { self.master_offset };
        for lnum in [MASTER_LEB, MASTER_LEB + 1] {
            // A LEB is unmapped even before its very first node, because it may have old contents.
            if offset == 0 {
                self.io.unmap(lnum)?;
            }
            self.master_offset = self.io.write_node(&self.master, lnum, offset)?;
        }
        Ok(())
    }
}

const _: () = assert!(Master::HMAC_AT + 64 <= Master::SIZE && Superblock::SIZE == 4096, "sizes of the nodes");
