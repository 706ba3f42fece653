//! Writing the changed part of the LPT at its head.
//!
//! Nodes of a commit are packed end to end into as many LEBs as needed; a node never crosses the end of a LEB. The rest
//! of a write in each LEB is filled with 0xFF. New LEBs are empty, so nothing of the LPT of the last commit is
//! overwritten.
//!
//! The LPT on flash is compacted early enough that the whole LPT could be written at any time ([`Lpt::make_room`]):
//! Linux and `mkfs.ubifs` make the area four times the LPT. In an area hardly larger than twice the LPT, the least that
//! Linux mounts, space can run out, as it does in Linux. In that case nothing has been written yet.

use floatgate_media::MediaError;
use floatgate_media::ubifs::Master;
use floatgate_media::ubifs::lpt::{Geometry, LebProperties, Lsave, Ltab, NodePos, Pnode};

use super::super::table::{Category, Table};
use super::Lpt;
use super::area::Area;
use super::tree::{NodeId, Slot};
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;

/// Minimum free space as a multiple of the LPT; with less, the next commit moves nodes to make space (Linux:
/// `need_write_all`).
const ROOM: u64 = 2;

/// Categories of LEBs for the save table, by priority.
const WORTH_SAVING: [Category; 6] = [
    Category::Empty,
    Category::Freeable,
    Category::FreeableIndex,
    Category::DirtyIndex,
    Category::Dirty,
    Category::Free,
];

/// A node or table to be written.
#[derive(Clone, Copy, Debug)]
enum Item {
    Node(NodeId),
    Ltab,
    Lsave,
}

/// Items that are written into one LEB.
#[derive(Debug)]
struct Run {
    lnum: u32,
    /// Start offset, a multiple of the minimum I/O size.
    start: u32,
    /// End offset of the items, before padding.
    end: u32,
    items: Vec<(u32, Item)>,
}

/// Assigns positions to items.
struct Packer<'a> {
    area: &'a mut Area,
    geometry: &'a Geometry,
    /// Finished runs, and the current one at the end.
    runs: Vec<Run>,
    /// Tables without a position yet; they are placed as soon as there is room.
    tables: Vec<Item>,
    ltab: Option<NodePos>,
    lsave: Option<NodePos>,
}

impl<'a> Packer<'a> {
    fn new(area: &'a mut Area, geometry: &'a Geometry) -> Self {
        let NodePos { lnum, offset } = area.head;
        let tables = if geometry.is_big() { vec![Item::Ltab, Item::Lsave] } else { vec![Item::Ltab] };
        let runs = vec![Run { lnum, start: offset, end: offset, items: Vec::new() }];
        Self { area, geometry, runs, tables, ltab: None, lsave: None }
    }

    fn leb_bytes(&self) -> u32 {
        self.geometry.parameters().leb_bytes
    }

    fn position(&self) -> NodePos {
        let place = self.runs.last().map(|run| NodePos { lnum: run.lnum, offset: run.end });
        place.unwrap_or(self.area.head)
    }

    fn fits(&self, len: u32) -> bool {
        self.position().offset.checked_add(len).is_some_and(|end| end <= self.leb_bytes())
    }

    /// Places an item in the current run, which has room for it.
    fn put(&mut self, item: Item, len: u32) -> NodePos {
        let place = self.position();
        if let Some(run) = self.runs.last_mut() {
            run.items.push((run.end, item));
            run.end = run.end.saturating_add(len);
        }
        place
    }

    /// Places the tables for which there is room.
    fn put_tables(&mut self) {
        while let Some(&table) = self.tables.last() {
            let len = table.bytes(self.geometry, false);
            if !self.fits(len) {
                return;
            }
            let place = self.put(table, len);
            match table {
                Item::Lsave => self.lsave = Some(place),
                _ => self.ltab = Some(place),
            }
            self.tables.pop();
        }
    }

    /// Ends the run and continues in an empty LEB, starting with the remaining tables.
    fn next_leb(&mut self) -> Result<()> {
        self.close();
        let at = self.position();
        let lnum = self.area.next_empty(at.lnum);
        let lnum = lnum.ok_or(Error::corrupt(at.lnum, at.offset, "no room for the LEB properties"))?;
        // Counts the LEB as written, so that `next_empty` does not return it again.
        self.area.written(lnum, self.leb_bytes(), 0);
        self.runs.push(Run { lnum, start: 0, end: 0, items: Vec::new() });
        self.put_tables();
        Ok(())
    }

    /// Accounts for the run and its padding.
    fn close(&mut self) {
        let unit = self.geometry.parameters().min_io_bytes.max(1);
        if let Some(run) = self.runs.last().filter(|run| run.end > run.start) {
            let end = run.end.next_multiple_of(unit).min(self.leb_bytes());
            self.area.written(run.lnum, end, end - run.end);
        }
    }

    /// Places a node, after the tables if they fit.
    fn place(&mut self, item: Item, len: u32) -> Result<NodePos> {
        // At most three LEBs are needed: one for each table, and one for the node.
        for _ in 0..3 {
            if self.fits(len) {
                break;
            }
            self.next_leb()?;
        }
        if self.fits(len) { Ok(self.put(item, len)) } else { Err(too_large(self.position())) }
    }

    /// Places the remaining tables and ends the last run.
    fn finish(&mut self) -> Result<()> {
        for _ in 0..self.tables.len() {
            self.put_tables();
            if !self.tables.is_empty() {
                self.next_leb()?;
            }
        }
        self.close();
        if self.tables.is_empty() { Ok(()) } else { Err(too_large(self.position())) }
    }
}

fn too_large(place: NodePos) -> Error {
    Error::corrupt(place.lnum, place.offset, "a table of the LPT does not fit a LEB")
}

impl Item {
    /// Size of the item, B; `leaf` is true for a pnode.
    const fn bytes(self, geometry: &Geometry, leaf: bool) -> u32 {
        match self {
            Self::Node(_) if leaf => geometry.pnode_bytes(),
            Self::Node(_) => geometry.nnode_bytes(),
            Self::Ltab => geometry.ltab_bytes(),
            Self::Lsave => geometry.lsave_bytes(),
        }
    }
}

impl Lpt {
    /// Writes all changed nodes, and the tables. Nothing of the LPT on flash is overwritten.
    ///
    /// # Errors
    /// No space, in an area that is too small; volume failures.
    pub(in super::super) fn commit(&mut self, io: &mut DynIo<'_>, table: &Table) -> Result<()> {
        let layout = table.layout();
        let geometry = &layout.limits.lpt_geometry;
        if !self.is_dirty() {
            return Ok(());
        }
        self.release_unused();
        self.make_room(geometry);
        let runs = self.lay_out(geometry)?;
        for run in &runs {
            self.write_run(io, table, geometry, run)?;
        }
        self.tree.unmark_all();
        Ok(())
    }

    /// Stores the positions of the LPT in the master node.
    pub(in super::super) fn describe(&self, master: &mut Master) {
        if let Some(root) = self.tree.get(NodeId { row: 0, column: 0 }).and_then(|slot| slot.place) {
            (master.lpt_lnum, master.lpt_offset) = (root.lnum, root.offset);
        }
        (master.lpt_head_lnum, master.lpt_head_offset) = (self.area.head.lnum, self.area.head.offset);
        if let Some(ltab) = self.ltab {
            (master.ltab_lnum, master.ltab_offset) = (ltab.lnum, ltab.offset);
        }
        if let Some(lsave) = self.lsave {
            (master.lsave_lnum, master.lsave_offset) = (lsave.lnum, lsave.offset);
        }
    }

    /// Counts LEBs that the LPT on flash does not use as erased, so that the new ltab lists them as empty. They are
    /// unmapped once the ltab is on flash, because the current ltab must match the contents of all LEBs (Linux:
    /// `lpt_tgc_start`).
    fn release_unused(&mut self) {
        self.released = self.area.unused();
        for &lnum in &self.released {
            self.area.erased(lnum);
        }
    }

    /// Unmaps the LEBs that were released at the start of the commit and are still empty (Linux: `lpt_tgc_end`).
    ///
    /// # Errors
    /// Volume failures.
    pub(in super::super) fn commit_done(&mut self, io: &mut DynIo<'_>) -> Result<()> {
        for lnum in core::mem::take(&mut self.released) {
            if self.area.is_empty(lnum) {
                io.unmap(lnum)?;
            }
        }
        Ok(())
    }

    /// Unmaps LEBs that are empty according to the ltab but reappeared after a power loss.
    ///
    /// # Errors
    /// Volume failures.
    pub(in super::super) fn unmap_empty(&self, io: &mut DynIo<'_>) -> Result<()> {
        for (lnum, _) in self.area.iter().filter(|&(lnum, _)| self.area.is_empty(lnum)) {
            if io.is_mapped(lnum)? {
                io.unmap(lnum)?;
            }
        }
        Ok(())
    }

    /// Selects unchanged nodes to be rewritten if space gets scarce: all of them in the small model, otherwise those of
    /// one LEB after the other, until enough LEBs will be empty after the commit.
    fn make_room(&mut self, geometry: &Geometry) {
        let enough = ROOM * geometry.lpt_bytes();
        let leb_bytes = geometry.parameters().leb_bytes;
        if self.area.room(|_, leb| leb.free == leb_bytes) > enough {
            return;
        }
        if !geometry.is_big() {
            return self.tree.mark_all(|slot| slot.place.is_some());
        }
        for _ in self.area.lebs() {
            let dirty = self.dirty_after_commit(geometry);
            let empty_then = |leb: usize| dirty.get(leb).is_some_and(|&dirty| dirty == leb_bytes);
            if self.area.room(|leb, space| space.free == leb_bytes || empty_then(leb)) > enough {
                return;
            }
            let others = self.area.iter().zip(&dirty).map(|((lnum, _), &dirty)| (lnum, dirty));
            let others =
                others.filter(|&(lnum, dirty)| lnum != self.area.head.lnum && dirty > 0 && dirty < leb_bytes);
            // Chooses the LEB with the fewest bytes to move.
            let best = others.max_by_key(|&(lnum, dirty)| (dirty, core::cmp::Reverse(lnum)));
            let Some((lnum, _)) = best else { return };
            self.tree.mark_all(|slot| slot.place.is_some_and(|place| place.lnum == lnum));
        }
    }

    /// Bytes of each LEB that will be neither live nor in an empty LEB after the commit. Free bytes of a used LEB
    /// count, because they cannot be used before it is empty.
    fn dirty_after_commit(&self, geometry: &Geometry) -> Vec<u32> {
        let first = geometry.parameters().first_lnum;
        let leb_bytes = geometry.parameters().leb_bytes;
        let used = |leb: &floatgate_media::ubifs::lpt::LebSpace| {
            if leb.free == leb_bytes { 0 } else { leb.free + leb.dirty }
        };
        let mut dirty: Vec<u32> = self.area.lebs().iter().map(used).collect();
        for (place, len) in self.outdated_by_commit(geometry) {
            if let Some(bytes) = dirty.get_mut(place.lnum.saturating_sub(first) as usize) {
                *bytes = bytes.saturating_add(len).min(leb_bytes);
            }
        }
        dirty
    }

    /// Nodes on flash that the commit replaces, with their sizes.
    fn outdated_by_commit(&self, geometry: &Geometry) -> Vec<(NodePos, u32)> {
        let leaf = self.tree.leaf_row();
        let marked = self.tree.iter().filter(|(_, slot)| slot.dirty);
        let nodes = marked.filter_map(|(id, slot): (NodeId, Slot)| {
            Some((slot.place?, Item::Node(id).bytes(geometry, id.row == leaf)))
        });
        let ltab = self.ltab.map(|place| (place, geometry.ltab_bytes()));
        let lsave = self.lsave.map(|place| (place, geometry.lsave_bytes()));
        nodes.chain(ltab).chain(lsave).collect()
    }

    /// Assigns positions to all items, and accounts for them and for the nodes they replace.
    fn lay_out(&mut self, geometry: &Geometry) -> Result<Vec<Run>> {
        let (leaf, marked) = (self.tree.leaf_row(), self.tree.marked());
        let outdated = self.outdated_by_commit(geometry);
        let mut packer = Packer::new(&mut self.area, geometry);
        packer.put_tables();
        for id in marked {
            let item = Item::Node(id);
            let place = packer.place(item, item.bytes(geometry, id.row == leaf))?;
            if let Some(slot) = self.tree.get_mut(id) {
                slot.place = Some(place);
            }
        }
        packer.finish()?;
        let Packer { runs, ltab, lsave, .. } = packer;
        (self.ltab, self.lsave) = (ltab, lsave);
        for (place, len) in outdated {
            self.area.add_dirt(place.lnum, len);
        }
        if let Some(run) = runs.last() {
            let unit = geometry.parameters().min_io_bytes.max(1);
            self.area.head = NodePos { lnum: run.lnum, offset: run.end.next_multiple_of(unit) };
        }
        Ok(runs)
    }

    fn write_run(&self, io: &mut DynIo<'_>, table: &Table, geometry: &Geometry, run: &Run) -> Result<()> {
        if run.start == 0 {
            // A power loss may have restored the old contents of the LEB.
            io.unmap(run.lnum)?;
        }
        let unit = geometry.parameters().min_io_bytes.max(1);
        let mut out = vec![0xFF; (run.end - run.start).next_multiple_of(unit) as usize];
        for &(offset, item) in &run.items {
            let room = out.get_mut((offset - run.start) as usize..).unwrap_or(&mut []);
            let emitted = self.emit(table, geometry, item, room);
            emitted.map_err(|source| Error::node(run.lnum, offset, source))?;
        }
        if out.is_empty() { Ok(()) } else { io.write(run.lnum, run.start, &out) }
    }

    fn emit(
        &self,
        table: &Table,
        geometry: &Geometry,
        item: Item,
        out: &mut [u8],
    ) -> core::result::Result<usize, MediaError> {
        match item {
            Item::Node(id) if id.row == self.tree.leaf_row() => {
                pnode(table, geometry, id.column, self.tree.number(id)).emit(geometry, out)
            }
            Item::Node(id) => self.tree.nnode(id).emit(geometry, out),
            Item::Ltab => Ltab::emit(self.area.lebs().iter().copied(), geometry, out),
            Item::Lsave => Lsave::emit(worth_saving(table, geometry), geometry, out),
        }
    }
}

/// Pnode to be written. LEBs after the end of the main area are free, because the area can grow.
fn pnode(table: &Table, geometry: &Geometry, column: usize, number: u32) -> Pnode {
    let mut pnode = Pnode { number, ..Pnode::default() };
    let first = column * pnode.lebs.len();
    for (position, properties) in (first..).zip(&mut pnode.lebs) {
        *properties = match table.at(position) {
            Some(leb) => LebProperties { free: leb.free, dirty: leb.dirty, index: leb.index },
            None => LebProperties { free: geometry.parameters().leb_bytes, ..LebProperties::default() },
        };
    }
    pnode
}

/// LEBs for the save table, which Linux reads first after a mount; filled up with the first LEBs of the main area.
fn worth_saving(table: &Table, geometry: &Geometry) -> Vec<u32> {
    let count = geometry.parameters().lsave_count as usize;
    let of = |wanted: Category| table.iter().filter(move |(_, _, category)| *category == wanted);
    let mut lebs: Vec<u32> =
        WORTH_SAVING.into_iter().flat_map(of).map(|(lnum, ..)| lnum).take(count).collect();
    lebs.resize(count, geometry.parameters().main.start);
    lebs
}
