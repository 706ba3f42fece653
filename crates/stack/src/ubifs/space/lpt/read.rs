//! Reading the LPT of a committed filesystem.
//!
//! The shape of the tree is known beforehand, and each node is read at most once, row by row. So hostile data can make
//! neither an endless loop nor an unlimited tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::ubifs::Master;
use floatgate_media::ubifs::lpt::{self, FANOUT, Geometry, Kind, Lsave, Ltab, Nnode, NodePos, Pnode};

use super::super::LebSpace;
use super::super::table::Table;
use super::Lpt;
use super::area::Area;
use super::tree::{NodeId, Tree};
use crate::ubifs::error::{Error, Result, narrow};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::Layout;

/// Treatment of damaged nodes.
#[derive(Debug)]
pub(crate) enum Damage<'p> {
    /// Return the error.
    Refuse,
    /// Record the error, and count the LEBs below the node as full.
    Note(&'p mut Vec<Error>),
}

impl Damage<'_> {
    /// Returns a result, or records damage and returns `None`. Errors that are not damage are always returned.
    pub(super) fn pass<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match (result, self) {
            (Err(error), Self::Note(notes)) if error.is_damage() => {
                notes.push(error);
                Ok(None)
            }
            (result, _) => result.map(Some),
        }
    }
}

/// Reads nodes of the LPT; reads the written part of each LEB once.
pub(super) struct Reader<'i, 'v> {
    io: &'i mut DynIo<'v>,
    layout: Arc<Layout>,
    /// Bytes read so far from LEBs, from their start.
    lebs: BTreeMap<u32, Vec<u8>>,
    /// Number of written bytes of LEBs according to the ltab; empty if unknown.
    written: Vec<usize>,
}

impl<'i, 'v> Reader<'i, 'v> {
    pub(super) fn new(io: &'i mut DynIo<'v>) -> Self {
        let layout = Arc::clone(io.layout());
        Self { io, layout, lebs: BTreeMap::new(), written: Vec::new() }
    }

    fn geometry(&self) -> &Geometry {
        &self.layout.limits.lpt_geometry
    }

    /// Bytes of a node.
    fn bytes(&mut self, place: NodePos, kind: Kind) -> Result<&[u8]> {
        let NodePos { lnum, offset } = place;
        let len = kind.bytes(self.geometry());
        let (start, end) = (offset as usize, (offset as usize).saturating_add(len));
        if !self.layout.limits.lpt.contains(&lnum) || end > self.layout.leb_bytes() as usize {
            return Err(Error::corrupt(lnum, offset, "a node outside the LPT area"));
        }
        let held = self.lebs.get(&lnum).map_or(0, Vec::len);
        if held < end {
            self.read_leb(lnum, held, end)?;
        }
        let bytes = self.lebs.get(&lnum).and_then(|leb| leb.get(start..end));
        bytes.ok_or(Error::corrupt(lnum, offset, "a node outside the LPT area"))
    }

    /// Reads more of a LEB: to the end of the page that contains the byte before `end`, and to the end of its written
    /// part. Reads the whole LEB if the ltab is wrong about that.
    fn read_leb(&mut self, lnum: u32, held: usize, end: usize) -> Result<()> {
        let leb_bytes = self.layout.leb_bytes() as usize;
        let unit = (self.layout.min_io_bytes() as usize).max(1);
        let leb = lnum.saturating_sub(self.layout.limits.lpt.start) as usize;
        let end = match self.written.get(leb) {
            None => end.next_multiple_of(unit).min(leb_bytes),
            Some(&written) if end <= written => written,
            Some(_) => leb_bytes,
        };
        let leb = self.lebs.entry(lnum).or_default();
        leb.resize(end, 0);
        let offset = narrow("offset", held)?;
        match self.io.read(lnum, offset, leb.get_mut(held..).unwrap_or(&mut [])) {
            // The CRCs of the nodes reveal data that ECC cannot correct.
            Err(error) if !error.is_damage() => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads and checks an nnode.
    pub(super) fn nnode(&mut self, place: NodePos, level: u32, number: u32) -> Result<Nnode> {
        let layout = Arc::clone(&self.layout);
        let geometry = &layout.limits.lpt_geometry;
        let nnode = Nnode::parse(self.bytes(place, Kind::Nnode)?, geometry);
        let checked = nnode.and_then(|nnode| nnode.check(geometry, level, number).map(|()| nnode));
        checked.map_err(|source| Error::node(place.lnum, place.offset, source))
    }

    /// Reads and checks a pnode.
    pub(super) fn pnode(&mut self, place: NodePos, number: u32) -> Result<Pnode> {
        let layout = Arc::clone(&self.layout);
        let geometry = &layout.limits.lpt_geometry;
        let pnode = Pnode::parse(self.bytes(place, Kind::Pnode)?, geometry);
        let checked = pnode.and_then(|pnode| pnode.check(geometry, number).map(|()| pnode));
        checked.map_err(|source| Error::node(place.lnum, place.offset, source))
    }

    /// Reads and checks the save table.
    pub(super) fn lsave(&mut self, place: NodePos) -> Result<()> {
        let layout = Arc::clone(&self.layout);
        let lsave = Lsave::parse(self.bytes(place, Kind::Lsave)?, &layout.limits.lpt_geometry);
        lsave.map(|_| ()).map_err(|source| Error::node(place.lnum, place.offset, source))
    }

    /// Reads the ltab.
    pub(super) fn ltab(&mut self, place: NodePos) -> Result<Vec<lpt::LebSpace>> {
        let layout = Arc::clone(&self.layout);
        let ltab = Ltab::parse(self.bytes(place, Kind::Ltab)?, &layout.limits.lpt_geometry);
        let ltab = ltab.map_err(|source| Error::node(place.lnum, place.offset, source))?;
        let lebs: Vec<lpt::LebSpace> = ltab.lebs().collect();
        self.written = lebs.iter().map(|leb| (layout.leb_bytes() - leb.free) as usize).collect();
        Ok(lebs)
    }
}

/// Reads the LPT of a master node. If the ltab contradicts the nodes, the nodes are trusted.
///
/// # Errors
/// A main area that extends beyond the volume; damage, unless it is recorded; volume failures.
pub(crate) fn read(io: &mut DynIo<'_>, master: &Master, damage: &mut Damage<'_>) -> Result<(Table, Lpt)> {
    let (table, mut lpt) = read_unchecked(io, master, damage)?;
    lpt.trust_nodes(&table.layout().limits.lpt_geometry);
    Ok((table, lpt))
}

/// Reads the LPT like [`read`], with an unverified ltab.
pub(super) fn read_unchecked(
    io: &mut DynIo<'_>,
    master: &Master,
    damage: &mut Damage<'_>,
) -> Result<(Table, Lpt)> {
    let layout = Arc::clone(io.layout());
    let (end, lebs) = (layout.limits.main.end, layout.volume.lebs);
    if end > lebs {
        // No memory is allocated for LEBs that do not exist.
        return Err(Error::Superblock(format!("{end} LEBs on a volume of {lebs}")));
    }
    let geometry = &layout.limits.lpt_geometry;
    let mut table = Table::empty(&layout);
    let mut tree = Tree::unwritten(geometry);
    let mut reader = Reader::new(io);
    let ltab = NodePos { lnum: master.ltab_lnum, offset: master.ltab_offset };
    let lebs = damage.pass(reader.ltab(ltab))?;
    let lebs = lebs.unwrap_or_else(|| vec![lpt::LebSpace::default(); layout.limits.lpt.len()]);
    let root = NodePos { lnum: master.lpt_lnum, offset: master.lpt_offset };
    read_tree(&mut reader, &mut tree, &mut table, root, damage)?;
    let head = NodePos { lnum: master.lpt_head_lnum, offset: master.lpt_head_offset };
    let area = Area::new(layout.limits.lpt.start, layout.leb_bytes(), lebs, head);
    let lsave = NodePos { lnum: master.lsave_lnum, offset: master.lsave_offset };
    let lsave = Some(lsave).filter(|_| geometry.is_big());
    Ok((table, Lpt { tree, area, ltab: Some(ltab), lsave, released: Vec::new() }))
}

/// Passes the bytes of all pnodes as stored on flash to `take`, in the order of their LEBs.
///
/// # Errors
/// The errors of [`read`], and damage.
pub(crate) fn pnode_bytes(io: &mut DynIo<'_>, master: &Master, take: &mut dyn FnMut(&[u8])) -> Result<()> {
    let (_, lpt) = read_unchecked(io, master, &mut Damage::Refuse)?;
    let mut reader = Reader::new(io);
    let leaves = lpt.tree.iter().filter(|(id, _)| id.row == lpt.tree.leaf_row());
    for place in leaves.filter_map(|(_, slot)| slot.place) {
        take(reader.bytes(place, Kind::Pnode)?);
    }
    Ok(())
}

fn read_tree(
    reader: &mut Reader<'_, '_>,
    tree: &mut Tree,
    table: &mut Table,
    root: NodePos,
    damage: &mut Damage<'_>,
) -> Result<()> {
    if let Some(slot) = tree.get_mut(NodeId { row: 0, column: 0 }) {
        slot.place = Some(root);
    }
    for row in 0..=tree.leaf_row() {
        let mut column = 0;
        while let Some(slot) = tree.get(NodeId { row, column }) {
            let id = NodeId { row, column };
            if let Some(place) = slot.place {
                let read = read_node(reader, tree, table, id, place);
                if damage.pass(read)?.is_none() {
                    count_as_full(tree, table, id)?;
                }
            }
            column += 1;
        }
    }
    Ok(())
}

/// Reads a node: the positions of its children, or the properties of its LEBs.
fn read_node(
    reader: &mut Reader<'_, '_>,
    tree: &mut Tree,
    table: &mut Table,
    id: NodeId,
    place: NodePos,
) -> Result<()> {
    let (level, number) = (tree.level(id), tree.number(id));
    if level == 0 {
        return fill(table, id, &reader.pnode(place, number)?);
    }
    let nnode = reader.nnode(place, level, number)?;
    for (child, place) in id.children().zip(nnode.children) {
        // Children past the last LEB are unused, and Linux never reads them.
        if let Some(slot) = tree.get_mut(child) {
            slot.place = place;
        }
    }
    Ok(())
}

/// Copies the properties of a pnode to the table.
fn fill(table: &mut Table, id: NodeId, pnode: &Pnode) -> Result<()> {
    let start = table.layout().limits.main.start;
    let first = id.column.saturating_mul(FANOUT as usize);
    for (position, leb) in (first..).zip(&pnode.lebs) {
        if table.at(position).is_some() {
            let lnum = narrow("LEB number", u64::from(start) + position as u64)?;
            table.set(lnum, LebSpace { free: leb.free, dirty: leb.dirty, index: leb.index, taken: false })?;
        }
    }
    Ok(())
}

/// Counts the LEBs below an unreadable node as full, so that nothing is written there.
fn count_as_full(tree: &Tree, table: &mut Table, id: NodeId) -> Result<()> {
    let main = table.layout().limits.main.clone();
    let below = tree.lebs_below(id);
    let lebs = main.skip(below.start).take(below.len());
    lebs.into_iter().try_for_each(|lnum| table.set(lnum, LebSpace::default()).map(|_| ()))
}

impl Lpt {
    /// Derives dirty and free bytes from the live nodes, whatever the ltab contains. Otherwise a wrong ltab or head
    /// could make a commit overwrite live nodes.
    fn trust_nodes(&mut self, geometry: &Geometry) {
        let leb_bytes = geometry.parameters().leb_bytes;
        let mut in_use = vec![(0u32, 0u32); self.area.lebs().len()];
        for (place, len) in self.nodes_in_use(geometry) {
            let leb = place.lnum.saturating_sub(geometry.parameters().first_lnum);
            if let Some((bytes, end)) = in_use.get_mut(leb as usize) {
                *bytes = bytes.saturating_add(len).min(leb_bytes);
                *end = (*end).max(place.offset.saturating_add(len)).min(leb_bytes);
            }
        }
        let unit = geometry.parameters().min_io_bytes.max(1);
        let mut head = self.area.head;
        let trust = |((lnum, leb), (bytes, end)): ((u32, lpt::LebSpace), (u32, u32))| {
            let behind = leb_bytes - end;
            let free = if lnum == head.lnum {
                head.offset = head.offset.max(end.next_multiple_of(unit)).min(leb_bytes);
                leb_bytes - head.offset
            } else {
                leb.free.min(behind)
            };
            lpt::LebSpace { free, dirty: leb_bytes - free - bytes.min(leb_bytes - free) }
        };
        let lebs = self.area.iter().zip(in_use).map(trust).collect();
        self.area = Area::new(geometry.parameters().first_lnum, leb_bytes, lebs, head);
    }

    /// Positions and sizes of the nodes and tables of the LPT on flash.
    pub(super) fn nodes_in_use(&self, geometry: &Geometry) -> Vec<(NodePos, u32)> {
        let leaf = self.tree.leaf_row();
        let sized = |(id, slot): (NodeId, super::tree::Slot)| {
            let len = if id.row == leaf { geometry.pnode_bytes() } else { geometry.nnode_bytes() };
            slot.place.map(|place| (place, len))
        };
        let nodes = self.tree.iter().filter_map(sized);
        let ltab = self.ltab.map(|place| (place, geometry.ltab_bytes()));
        let lsave = self.lsave.map(|place| (place, geometry.lsave_bytes()));
        nodes.chain(ltab).chain(lsave).collect()
    }
}
