//! In-place repair of a JFFS2.
//!
//! Damaged nodes, which a mount ignores anyway, become padding. No other node moves, so no free eraseblock is needed. A wrong obsolete mark of
//! a node is removed. A name whose file is lost becomes a deletion dirent. Invalid bytes in a name that no program can open are replaced. If
//! nodes of the same version contradict each other, all nodes of their inode get new versions in their valid order. A directory without a good
//! node gets a new node, in the space of damaged nodes or in the last eraseblock, and its contents are preserved. Files without a name get a
//! name in the root directory. Parts of files without a node become holes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::Path;

use floatgate_media::jffs2::{
    Body, Compressor, Dirent, DirentNode, Endian, Entry, Header, Inode, NODE_ALIGN, NodeType, ROOT_INODE,
    Summary, SummaryMarker, dirent_type, emit_summary,
};
use floatgate_stack::Store;
use floatgate_stack::fs::FileType;
use floatgate_stack::jffs2::{Damage, Fault, MountError};

use super::around::tail;
use super::check::{Gaps, NameFault, Survey, WrongName, survey};
use super::cut::Cut;
use super::index::{Fields, Index, Name, Versioned, possible};
use super::mount::mount;
use super::nodes::{Piece, pad, pieces};
use super::shape::Jffs2Shape;
use crate::ImageError;
use crate::format::location::{Content, ImageLocation};
use crate::image::{Access, Image, Origin};
use crate::part::Part;
use crate::saved::{Saved, target};
use crate::words::{count, show_name};

/// Largest number of rounds of a repair. Nodes after a damaged summary are visible only after the summary was removed.
const ROUNDS: usize = 8;

/// Space for a new node, bytes: the size of an inode node without data, which is larger than a dirent node with a
/// generated name.
const ROOM: usize = Inode::SIZE;

/// Size of the smallest eraseblock, bytes. An image may be made for smaller eraseblocks than it is read with.
const SMALLEST: usize = 4 << 10;

/// Mode of a directory of which only the name is known.
const DIRECTORY_MODE: u32 = 0o040_755;

/// Largest number of eraseblock sizes for which a JFFS2 is repaired.
const SIZES_TRIED: usize = 3;

/// Removes the data after the last node of its eraseblock from an image, unless this data is damage. It may belong to
/// another image.
fn leave_tail(image: &Image, found: &mut ImageLocation, shape: &Jffs2Shape) -> Result<(), ImageError> {
    // Pages with OOB are written as a whole.
    let Ok(fs) = mount(image.store()?, found, shape) else { return Ok(()) };
    if image.corrected.is_none()
        && let Some(at) = tail(image, found, shape, &fs)?
    {
        let len = at - found.offset;
        found.len = len - len % u64::from(NODE_ALIGN);
    }
    Ok(())
}

/// Repairs a JFFS2. If the new nodes imply another size of eraseblocks than the image has, a summary states the size,
/// or the image is repaired with the other size.
///
/// # Errors
/// The file cannot be read or written, or no repair makes a mount possible.
pub(super) fn repair(
    image: &Image,
    (found, shape): (&ImageLocation, &Jffs2Shape),
    out: &Path,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let mut found = found.clone();
    let is_only = matches!(image.found.as_slice(), [only] if only.offset == found.offset);
    let is_guess =
        |found: &ImageLocation| matches!(found.content, Content::Jffs2(shape) if shape.erase_is_guess);
    let was_guess = is_guess(&found);
    leave_tail(image, &mut found, shape)?;
    for _ in 0..SIZES_TRIED {
        let Content::Jffs2(shape) = &found.content else { break };
        let lost = image.corrected.as_ref().map(|corrected| corrected.lost_pages(&found)).unwrap_or_default();
        let repaired = repair_damage(&|| target(image, out), (&found, &image.origin(&found)), shape, saved);
        repaired.map_err(|error| match error {
            ImageError::NoRepairRoom(own) => ImageError::NoRepairRoom(image.part(own.offset..own.end())),
            error => error,
        })?;
        write_again(target(image, out)?, &found, shape, &lost)?;
        let now = image.open_like(out, Access::Read)?;
        let is_same =
            |new: &ImageLocation| (new.offset, new.block_bytes()) == (found.offset, found.block_bytes());
        let is_other =
            matches!(now.found.as_slice(), [new] if is_only && !is_same(new) && now.splices.is_empty());
        if is_other && state_size(target(image, out)?, &found, shape)? {
            let now = image.open_like(out, Access::Read)?;
            if now.found.iter().all(is_same) {
                break;
            }
        }
        match now.found.as_slice() {
            [new] if is_other => found = new.clone(),
            _ => break,
        }
    }
    fill_cut(image, &found, out)?;
    if was_guess
        && let [new] = image.open_like(out, Access::Read)?.found.as_slice()
        && !is_guess(new)
    {
        saved.told_erase_bytes = new.block_bytes();
    }
    Ok(())
}

/// Fills the remains of a node in which the repaired file still ends.
fn fill_cut(image: &Image, found: &ImageLocation, out: &Path) -> Result<(), ImageError> {
    let now = image.open_like(out, Access::Read)?;
    let Some(new) = now.found.iter().find(|new| new.offset == found.offset) else { return Ok(()) };
    let Content::Jffs2(shape) = &new.content else { return Ok(()) };
    let Some(cut) = Cut::find(&now, new, shape)? else { return Ok(()) };
    let mut rest = vec![0; usize::try_from(new.len - cut.at).unwrap_or(0)];
    pad(&mut rest, shape.endian());
    target(image, out)?.write_at(new.offset + cut.at, &rest).map_err(ImageError::Store)
}

/// Function that opens the file to repair.
type Open<'o> = dyn Fn() -> Result<Box<dyn Store>, ImageError> + 'o;

/// Repairs a JFFS2 in the file, and lists the losses with their offsets in the file.
///
/// # Errors
/// The file cannot be read or written, or no repair makes a mount possible.
fn repair_damage(
    open: &Open<'_>,
    (found, origin): (&ImageLocation, &Origin),
    shape: &Jffs2Shape,
    saved: &mut Saved,
) -> Result<(), ImageError> {
    let mut has_room = true;
    let mut found = found.clone();
    for _ in 0..ROUNDS {
        let Some(defects) = Defects::find(open()?, (&found, origin), shape, saved)? else { return Ok(()) };
        let mut plan = RepairPlan::read(open()?, &found, shape, &defects)?;
        plan.change(&defects, has_room, saved);
        if !plan.write(&defects)? {
            if !has_room {
                let ImageLocation { offset, len, .. } = found;
                return Err(ImageError::NoRepairRoom(Part { offset, len }));
            }
            has_room = false;
        }
        found.len = plan.len;
    }
    Ok(())
}

/// Writes eraseblocks with pages that the ECC could not correct again, so that their ECC is right. Their contents are
/// those after [`repair_damage`].
///
/// # Errors
/// The file cannot be read or written.
fn write_again(
    store: Box<dyn Store>,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    lost_pages: &[u64],
) -> Result<(), ImageError> {
    if lost_pages.is_empty() {
        return Ok(());
    }
    let mut plan = RepairPlan::read(store, found, shape, &Defects::default())?;
    let erase = u64::from(shape.erase_bytes);
    let blocks: BTreeSet<u64> = lost_pages.iter().map(|at| at - at % erase).collect();
    for start in blocks {
        let mut block = plan.block(start)?;
        clean(&mut block, plan.endian, &BTreeSet::new());
        if has_no_nodes(&block, plan.endian) {
            block.fill(0xFF);
        }
        plan.write_block(start, &block)?;
    }
    Ok(())
}

/// Writes a summary, which states the size of eraseblocks, after the nodes of the last eraseblock with enough space.
/// Returns true if there is such an eraseblock.
///
/// # Errors
/// The file cannot be read or written.
fn state_size(store: Box<dyn Store>, found: &ImageLocation, shape: &Jffs2Shape) -> Result<bool, ImageError> {
    let mut plan = RepairPlan::read(store, found, shape, &Defects::default())?;
    for start in plan.blocks().into_iter().rev() {
        let mut block = plan.block(start)?;
        let Some((at, Piece::Erased(len))) = pieces(&block, plan.endian).last() else { continue };
        if at + len < plan.erase_bytes {
            continue;
        }
        summarize(&mut block, plan.endian, at);
        if marked_summary(&block, plan.endian).is_some() {
            plan.write_block(start, &block)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// True for an eraseblock with only padding and clean markers.
fn has_no_nodes(block: &[u8], endian: Endian) -> bool {
    pieces(block, endian).all(|(_, piece)| match piece {
        Piece::Node(header, _) => matches!(header.node_type, NodeType::Padding | NodeType::CleanMarker),
        Piece::Erased(_) => true,
        Piece::Unknown(_) => false,
    })
}

/// Damage of a JFFS2, by offsets in the image.
#[derive(Debug, Default)]
struct Defects {
    /// Offsets of damage, whose eraseblocks are repaired.
    places: BTreeSet<u64>,
    /// Offsets of damaged nodes with good CRCs.
    bad_nodes: BTreeSet<u64>,
    /// Offsets of nodes that are marked obsolete, but are valid.
    marked: BTreeSet<u64>,
    /// Offsets of names without an inode.
    dangling: BTreeSet<u64>,
    /// Offsets of names that are removed.
    removed: BTreeSet<u64>,
    /// Offsets of names that no program can open.
    impossible: BTreeSet<u64>,
    /// Offsets of names in files that are no directories.
    misplaced: BTreeSet<u64>,
    /// Objects whose nodes get new versions.
    renumbered: BTreeSet<Versioned>,
    /// Names of files and directories without good nodes, and other names that must be changed.
    names: Vec<WrongName>,
    /// Inodes without a name, with the names that they get in the root directory.
    nameless: Vec<(u32, String)>,
    /// Ranges of files without nodes.
    gaps: Gaps,
    /// First missing inode number.
    missing: Option<u32>,
}

impl Defects {
    /// Searches for damage, and adds it to the losses.
    fn find(
        store: Box<dyn Store>,
        (found, origin): (&ImageLocation, &Origin),
        shape: &Jffs2Shape,
        saved: &mut Saved,
    ) -> Result<Option<Self>, ImageError> {
        let mut defects = Self::default();
        match mount(store, found, shape) {
            Ok(mut fs) => {
                let Survey { losses, names, gaps } = survey(&mut fs, origin);
                saved.losses.extend(losses);
                (defects.names, defects.gaps) = (names, gaps);
                for damage in fs.damaged_nodes() {
                    defects.add(damage);
                }
                if let Some(first) = fs.counts().first_foreign {
                    let nodes = count(fs.counts().foreign_nodes, "node");
                    let at = origin.file_byte(first);
                    saved.record_loss(
                        "/",
                        format!("{nodes} of the other byte order or magic, the first at byte {at} ({at:#x})"),
                    );
                    let erase = shape.erase_bytes;
                    defects.places.extend((first..found.len).step_by(erase as usize));
                }
            }
            Err(ImageError::Jffs2(MountError::Incompatible { at, code })) => {
                let place = origin.file_byte(at);
                let what =
                    format!("a node of type {code:#06x}, which is not known, at byte {place} ({place:#x})");
                saved.record_loss("/", what);
                defects.places.insert(at);
                defects.bad_nodes.insert(at);
            }
            Err(error) => return Err(error),
        }
        Ok(Some(defects).filter(|defects| !defects.is_empty()))
    }

    fn is_empty(&self) -> bool {
        let of_names = [&self.dangling, &self.removed, &self.impossible, &self.misplaced];
        let has_places = !self.places.is_empty() || of_names.iter().any(|places| !places.is_empty());
        let has_names = !self.names.is_empty() || !self.nameless.is_empty();
        let has_inodes = !self.gaps.is_empty() || !self.renumbered.is_empty() || self.missing.is_some();
        !has_places && !has_names && !has_inodes
    }

    fn add(&mut self, damage: &Damage) {
        let of_its_kind = match &damage.fault {
            Fault::NoName { inode, name } => return self.nameless.push((*inode, name.clone())),
            Fault::Missing { first, .. } => {
                self.missing.get_or_insert(*first);
                return;
            }
            Fault::SameVersion { inode, .. } | Fault::LastVersion { inode } => {
                self.renumbered.insert(Versioned::Inode(*inode));
                return;
            }
            Fault::SameXattrVersion { xid, .. } => {
                self.renumbered.insert(Versioned::Xattr(*xid));
                return;
            }
            Fault::NoInode { .. } => Some(&mut self.dangling),
            Fault::Marked => Some(&mut self.marked),
            Fault::ToRoot { .. } => Some(&mut self.removed),
            Fault::Name { .. } => Some(&mut self.impossible),
            Fault::NotInDirectory { .. } => Some(&mut self.misplaced),
            Fault::Lengths { .. }
            | Fault::Data { .. }
            | Fault::Mode { .. }
            | Fault::NoNumber
            | Fault::NoXattr { .. }
            | Fault::Acl { .. } => Some(&mut self.bad_nodes),
            _ => None,
        };
        of_its_kind.map(|places| places.insert(damage.at));
        // If a summary lists the name, its node may be damaged as well.
        self.places.insert(damage.at);
    }
}

/// Nodes of a JFFS2, with the changes of a repair.
struct RepairPlan {
    store: Box<dyn Store>,
    offset: u64,
    len: u64,
    erase_bytes: usize,
    /// Numbers of the bad eraseblocks.
    bad: BTreeSet<u32>,
    endian: Endian,
    index: Index,
    /// Dirent nodes that are written again, by offset.
    names: BTreeMap<u64, Name>,
    /// Offsets of nodes that are marked obsolete, but are valid.
    marked: BTreeSet<u64>,
    /// Offsets of nodes with good CRCs that become padding.
    given_up: BTreeSet<u64>,
    /// New versions of nodes, by offset.
    versions: BTreeMap<u64, u32>,
    /// New nodes of at most [`ROOM`] bytes each, in the order of writing.
    new: VecDeque<Vec<u8>>,
}

impl RepairPlan {
    /// Reads all nodes except the bad ones.
    fn read(
        store: Box<dyn Store>,
        found: &ImageLocation,
        shape: &Jffs2Shape,
        defects: &Defects,
    ) -> Result<Self, ImageError> {
        let mut plan = Self {
            store,
            offset: found.offset,
            len: found.len,
            erase_bytes: shape.erase_bytes as usize,
            bad: found.bad_pebs.iter().copied().collect(),
            endian: shape.endian(),
            index: Index::default(),
            names: BTreeMap::new(),
            marked: defects.marked.clone(),
            given_up: defects.bad_nodes.clone(),
            versions: BTreeMap::new(),
            new: VecDeque::new(),
        };
        if plan.ends_file()? {
            // A mount also treats the last eraseblock as complete.
            plan.len = plan.len.next_multiple_of(shape.erase_bytes.into());
        }
        for start in plan.blocks() {
            let block = plan.block(start)?;
            plan.index.add(start, &block, plan.endian, &defects.bad_nodes);
        }
        Ok(plan)
    }

    /// Offsets of the eraseblocks that are not bad.
    fn blocks(&self) -> Vec<u64> {
        let all = (0..).zip((0..self.len).step_by(self.erase_bytes));
        all.filter(|(number, _)| !self.bad.contains(number)).map(|(_, start)| start).collect()
    }

    /// Eraseblock as it is in the file.
    fn stored(&self, start: u64) -> Result<Vec<u8>, ImageError> {
        let len = usize::try_from(self.len - start).unwrap_or(usize::MAX).min(self.erase_bytes);
        let mut block = vec![0; len];
        self.store.read_at(self.offset + start, &mut block).map_err(ImageError::Store)?;
        Ok(block)
    }

    /// Eraseblock in which valid nodes are not marked obsolete.
    fn block(&self, start: u64) -> Result<Vec<u8>, ImageError> {
        let mut block = self.stored(start)?;
        for at in self.marked.range(start..start + block.len() as u64) {
            let node = &mut block[usize::try_from(at - start).unwrap_or(0)..];
            if let Ok(header) = Header::parse(node, self.endian) {
                Header { obsolete: false, ..header }.emit(self.endian, node);
            }
        }
        Ok(block)
    }

    /// Writes an eraseblock. Beyond the end of the file, only the bytes up to the last one that is not erased are
    /// written.
    fn write_block(&mut self, start: u64, block: &[u8]) -> Result<(), ImageError> {
        let at = self.offset + start;
        let held = usize::try_from(self.store.size_bytes().saturating_sub(at)).unwrap_or(usize::MAX);
        let used = block.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        let len = used.max(held.min(block.len()));
        self.store.write_at(at, &block[..len]).map_err(ImageError::Store)
    }

    /// Selects the nodes that are written again, and the nodes that are added if there is space for them.
    fn change(&mut self, defects: &Defects, has_room: bool, saved: &mut Saved) {
        let named = self.restore_names(saved);
        let mut directories = self.remove_names(defects, has_room);
        self.rename(&defects.impossible, saved);
        self.move_to_root(&defects.misplaced);
        for &of in &defects.renumbered {
            self.versions.extend(self.index.in_order(of).into_iter().zip(1..));
        }
        if has_room {
            let nameless: Vec<_> =
                defects.nameless.iter().filter(|(inode, _)| !named.contains(inode)).collect();
            directories
                .extend(nameless.iter().map(|(inode, _)| inode).filter(|i| self.index.inode(**i).is_none()));
            self.add_directories(&directories, saved);
            self.add_names(&nameless, defects.missing);
            self.fill_gaps(&defects.gaps);
        }
    }

    /// Selects damaged names that are written again. Returns their inodes.
    fn restore_names(&mut self, saved: &mut Saved) -> BTreeSet<u32> {
        let lost_names = self.index.lost_names(self.endian);
        let named = lost_names.iter().map(|name| name.dirent.inode).collect();
        for name in lost_names {
            let shown = show_name(&name.name);
            saved.record_loss(
                "/",
                format!(
                    "name {shown} in directory {}, which is damaged: it may have been another one",
                    name.dirent.parent
                ),
            );
            self.names.insert(name.at, name);
        }
        named
    }

    /// Removes names without a valid file, and corrects wrong types. Returns directories without a node, which get a
    /// new one if there is space for it.
    fn remove_names(&mut self, defects: &Defects, has_room: bool) -> BTreeSet<u32> {
        let mut directories = BTreeSet::new();
        let at = |places: &BTreeSet<u64>, fault| {
            let names = self.index.dirents.iter().filter(|name| places.contains(&name.at));
            names.map(|name| (name.clone(), fault)).collect::<Vec<_>>()
        };
        let newest =
            |name: &WrongName| Some((self.index.newest(name.directory, &name.name)?.clone(), name.fault));
        let mut all = at(&defects.dangling, NameFault::Lost);
        all.extend(at(&defects.removed, NameFault::Again));
        all.extend(defects.names.iter().filter_map(newest));
        for (Name { at, dirent, name }, fault) in all {
            let is_directory =
                floatgate_media::jffs2::file_type(dirent.dirent_type) == Some(FileType::Directory);
            let dirent = match fault {
                NameFault::Lost if is_directory && has_room => {
                    directories.insert(dirent.inode);
                    continue;
                }
                NameFault::Lost | NameFault::Again => Dirent { inode: 0, ..dirent },
                NameFault::Type(dirent_type) => Dirent { dirent_type, ..dirent },
            };
            self.names.insert(at, Name { at, dirent, name });
        }
        directories
    }

    /// Replaces invalid bytes in names that no program can open. All nodes of a name are changed together. If the
    /// directory already has the new name, these nodes are discarded.
    fn rename(&mut self, places: &BTreeSet<u64>, saved: &mut Saved) {
        let newest = self.index.dirents.iter().filter(|name| places.contains(&name.at));
        let mut taken = BTreeSet::new();
        for Name { dirent: Dirent { parent, .. }, name: old, .. } in newest.cloned().collect::<Vec<_>>() {
            let name = possible(&old);
            let is_free = !name.is_empty()
                && self.index.newest(parent, &name).is_none()
                && taken.insert((parent, name.clone()));
            if is_free {
                let what = format!("name {:?}: it is {:?} now", show_name(&old), show_name(&name));
                saved.record_loss("/", what);
            }
            for one in self.index.dirents.iter().filter(|one| one.dirent.parent == parent && one.name == old)
            {
                if is_free {
                    self.names.insert(one.at, Name { name: name.clone(), ..one.clone() });
                } else {
                    self.given_up.insert(one.at);
                }
            }
        }
    }

    /// Moves names from files that are no directories to the root directory. Names that already exist there are
    /// discarded.
    fn move_to_root(&mut self, places: &BTreeSet<u64>) {
        let mut version = self.index.highest(ROOT_INODE);
        for name in self.index.dirents.iter().filter(|name| places.contains(&name.at)) {
            version = version.saturating_add(1);
            if self.index.newest(ROOT_INODE, &name.name).is_some() {
                self.given_up.insert(name.at);
            } else {
                let dirent = Dirent { parent: ROOT_INODE, version, ..name.dirent };
                self.names.insert(name.at, Name { dirent, ..name.clone() });
            }
        }
    }

    /// Adds nodes of directories without nodes.
    fn add_directories(&mut self, directories: &BTreeSet<u32>, saved: &mut Saved) {
        for &inode in directories {
            let version = self.index.highest(inode).saturating_add(1);
            self.add_inode(&Inode { inode, version, mode: DIRECTORY_MODE, ..Inode::default() });
            saved.record_loss("/", format!("owner, permissions and times of directory {inode}"));
        }
    }

    /// Adds names in the root directory for inodes without a name. If other inodes are missing as well, a removed
    /// name with their number records that not every number belongs to an inode.
    fn add_names(&mut self, nameless: &[&(u32, String)], missing: Option<u32>) {
        let mut version = self.index.highest(ROOT_INODE);
        let removed = missing.map(|first| (0, format!("lost-{first}")));
        for (inode, name) in nameless.iter().copied().chain(&removed) {
            version = version.saturating_add(1);
            let mode = self.index.inode(*inode).map_or(DIRECTORY_MODE, |inode| inode.mode);
            let of_type = if *inode == 0 { 0 } else { dirent_type(mode) };
            let dirent = Dirent {
                parent: ROOT_INODE,
                version,
                inode: *inode,
                dirent_type: of_type,
                ..Dirent::default()
            };
            let is_taken = self.index.newest(ROOT_INODE, name.as_bytes()).is_some();
            let node = DirentNode { dirent, name: name.as_bytes() };
            if !is_taken && node.size() <= ROOM {
                let mut bytes = vec![0; node.size()];
                node.emit(self.endian, &mut bytes);
                self.new.push_back(bytes);
            }
        }
    }

    /// Adds nodes for holes in ranges of files without nodes.
    fn fill_gaps(&mut self, gaps: &Gaps) {
        for (inode, gaps) in gaps {
            let Some(newest) = self.index.inode(*inode).copied() else { continue };
            for (gap, number) in gaps.iter().zip(1..) {
                // No file has 4 GiB.
                let (offset, file_len) = (gap.start as u32, (gap.end - gap.start) as u32);
                let version = newest.version.saturating_add(number);
                let compressor = Compressor::Zero;
                let hole = Inode { version, offset, file_len, data_len: 0, compressor, ..newest };
                self.add_inode(&hole);
            }
        }
    }

    fn add_inode(&mut self, inode: &Inode) {
        let mut node = vec![0; Inode::SIZE];
        inode.emit(&[], self.endian, &mut node);
        self.new.push_back(node);
    }

    /// Writes the changed eraseblocks; false if there are none.
    fn write(&mut self, defects: &Defects) -> Result<bool, ImageError> {
        let erase = self.erase_bytes as u64;
        let nodes = defects.places.iter().chain(&self.given_up);
        let nodes = nodes.chain(self.names.keys()).chain(self.versions.keys());
        let changed: BTreeSet<u64> = nodes.map(|at| at - at % erase).collect();
        let mut is_changed = false;
        for start in self.blocks() {
            let old = self.stored(start)?;
            let mut block = self.block(start)?;
            if changed.contains(&start) {
                let bad = self.given_up.iter().filter_map(|at| usize::try_from(at.checked_sub(start)?).ok());
                self.write_names(start, &mut block);
                self.write_versions(start, &mut block);
                clean(&mut block, self.endian, &bad.collect());
            }
            self.add_nodes(&mut block, false);
            if block != old {
                is_changed = true;
                self.write_block(start, &block)?;
            }
        }
        is_changed |= self.begin_blocks()?;
        // The data that was cut off at the end of the file was also on flash.
        while !self.new.is_empty() && self.ends_file()? {
            self.len = (self.len + 1).next_multiple_of(erase);
            is_changed |= self.begin_blocks()?;
        }
        Ok(is_changed)
    }

    /// True if only erased bytes follow, or if the file ends within a node.
    fn ends_file(&self) -> Result<bool, ImageError> {
        let end = self.offset + self.len;
        let rest = self.store.size_bytes().saturating_sub(end);
        // Whole erased eraseblocks already belong to the image.
        let mut behind = vec![0xFF; usize::try_from(rest).unwrap_or(usize::MAX).min(self.erase_bytes)];
        self.store.read_at(end, &mut behind).map_err(ImageError::Store)?;
        if rest < self.erase_bytes as u64 && behind.iter().all(|&byte| byte == 0xFF) {
            return Ok(true);
        }
        let mut head = [0; Header::SIZE];
        self.store.read_at(end, &mut head).map_err(ImageError::Store)?;
        let is_cut = match Header::parse(&head, self.endian) {
            Ok(header) => u64::from(header.len) > rest,
            Err(_) => rest < Header::SIZE as u64 && head.starts_with(&self.endian.magic()),
        };
        Ok(is_cut)
    }

    /// Writes the remaining new nodes to eraseblocks without nodes. Returns true if nodes were written.
    fn begin_blocks(&mut self) -> Result<bool, ImageError> {
        let mut is_changed = false;
        for start in self.blocks() {
            if self.new.is_empty() {
                break;
            }
            let mut block = self.block(start)?;
            if self.add_nodes(&mut block, true) {
                is_changed = true;
                self.write_block(start, &block)?;
            }
        }
        Ok(is_changed)
    }

    fn write_names(&self, start: u64, block: &mut [u8]) {
        for Name { at, dirent, name } in self.names.values() {
            let place = at.checked_sub(start).and_then(|at| usize::try_from(at).ok());
            let node = DirentNode { dirent: *dirent, name };
            if let Some(out) = place.and_then(|at| block.get_mut(at..at + node.size())) {
                node.emit(self.endian, out);
            }
        }
    }

    fn write_versions(&self, start: u64, block: &mut [u8]) {
        let end = start + block.len() as u64;
        for (at, version) in self.versions.range(start..end) {
            let Some(node) = usize::try_from(at - start).ok().and_then(|at| block.get_mut(at..)) else {
                continue;
            };
            let fields = Header::parse(node, self.endian)
                .ok()
                .and_then(|header| Fields::parse(&header, node, self.endian));
            if let Some(fields) = fields {
                fields.emit(*version, self.endian, node);
            }
        }
    }

    /// Writes new nodes over padding, or after the last node of an eraseblock; with `may_begin`, also into an
    /// eraseblock without nodes. Returns true if nodes were written.
    fn add_nodes(&mut self, block: &mut [u8], may_begin: bool) -> bool {
        let mut is_changed = false;
        while !self.new.is_empty() {
            let Some(room) = room(block, self.endian, may_begin) else { break };
            let Some(new) = self.new.pop_front() else { break };
            let (node, rest) = block[room].split_at_mut(new.len().next_multiple_of(NODE_ALIGN as usize));
            node.fill(0xFF);
            node[..new.len()].copy_from_slice(&new);
            if rest.iter().any(|&byte| byte != 0xFF) {
                pad(rest, self.endian);
            }
            is_changed = true;
        }
        if is_changed && let Some(at) = pieces(block, self.endian).find_map(|piece| summary_at(block, piece))
        {
            summarize(block, self.endian, at);
        }
        is_changed
    }
}

/// Offset of a summary at the end of an eraseblock. Linux reads a summary only there; elsewhere, nodes may follow it.
fn summary_at(block: &[u8], (at, piece): (usize, Piece<'_>)) -> Option<usize> {
    let is_summary = |header: &Header, node: &[u8]| {
        header.node_type == NodeType::Summary && at + node.len() == block.len()
    };
    matches!(piece, Piece::Node(header, node) if is_summary(&header, node)).then_some(at)
}

/// Offset of the summary according to the last bytes of an eraseblock, unless other nodes follow it.
fn marked_summary(block: &[u8], endian: Endian) -> Option<usize> {
    let marker = SummaryMarker::parse(block.last_chunk()?, endian)?;
    let at = usize::try_from(marker.offset).ok()?;
    let is_other = |(_, piece): (usize, Piece<'_>)| matches!(piece, Piece::Node(header, _) if header.node_type != NodeType::Summary);
    let has_others = pieces(block.get(at..)?, endian).any(is_other);
    (!has_others).then_some(at)
}

/// Replaces all bytes of an eraseblock that do not belong to a good node by padding. The summary lists the remaining
/// nodes.
fn clean(block: &mut [u8], endian: Endian, bad: &BTreeSet<usize>) {
    restore_names(block, endian);
    let mut useless: Vec<Range<usize>> = Vec::new();
    let mut summary = None;
    let marked = marked_summary(block, endian);
    let mut all = pieces(block, endian).peekable();
    while let Some((at, piece)) = all.next() {
        if summary_at(block, (at, piece)).is_some() || marked == Some(at) {
            summary = Some(at);
            break;
        }
        let len = match piece {
            Piece::Erased(len) if all.peek().is_some_and(|next| is_gap((at, len), next)) => len,
            Piece::Erased(_) => continue,
            Piece::Unknown(bytes) => bytes.len(),
            Piece::Node(header, node) => {
                if Body::parse(&header, node, endian).is_ok() && !bad.contains(&at) {
                    continue;
                }
                node.len().next_multiple_of(NODE_ALIGN as usize)
            }
        };
        let end = (at + len).min(block.len());
        match useless.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => useless.push(at..end),
        }
    }
    for range in useless {
        pad(&mut block[range], endian);
    }
    if let Some(at) = summary {
        summarize(block, endian, at);
    }
}

/// True for erased bytes before a node that a mount reports as damage, because no filesystem leaves erased bytes
/// there.
fn is_gap((_, len): (usize, usize), next: &(usize, Piece<'_>)) -> bool {
    let is_node = |header: &Header| header.node_type != NodeType::Summary && !next.0.is_multiple_of(SMALLEST);
    len >= Header::SIZE && matches!(&next.1, Piece::Node(header, _) if is_node(header))
}

/// Writes the summary of an eraseblock at an offset; padding if there is no space for the summary.
fn summarize(block: &mut [u8], endian: Endian, at: usize) {
    let (before, out) = block.split_at_mut(at);
    let (mut count, mut list, mut marker) = (0, Vec::new(), 0);
    for (offset, piece) in pieces(before, endian) {
        let Piece::Node(header, node) = piece else { continue };
        if header.node_type == NodeType::CleanMarker {
            marker = header.len;
        }
        // No eraseblock has 4 GiB.
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let is_good = Body::parse(&header, node, endian).is_ok();
        let entry = Entry::of_node(&header, node, offset, endian).filter(|_| is_good);
        let Some(entry) = entry else { continue };
        let from = list.len();
        list.resize(from + entry.size(), 0);
        entry.emit(endian, &mut list[from..]);
        count += 1;
    }
    if count == 0 || list.len() + Summary::BESIDE_LIST > out.len() {
        return pad(out, endian);
    }
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    emit_summary((count, &list), marker, at, endian, out);
}

/// Writes damaged names again as the summary lists them, because a mount uses the summary.
fn restore_names(block: &mut [u8], endian: Endian) {
    let listed: Vec<(u32, Dirent, Vec<u8>)> = pieces(block, endian)
        .filter_map(|(_, piece)| match piece {
            Piece::Node(header, node) if header.node_type == NodeType::Summary => Some(node),
            _ => None,
        })
        .filter_map(|node| Summary::parse(node, endian).ok())
        .flat_map(|summary| summary.entries().flatten().collect::<Vec<_>>())
        .filter_map(|entry| match entry {
            Entry::Dirent { parent, version, inode, dirent_type, offset, name, .. } => {
                let dirent = Dirent { parent, version, inode, dirent_type, ..Dirent::default() };
                Some((offset, dirent, name.to_vec()))
            }
            _ => None,
        })
        .collect();
    let good: Vec<Range<usize>> = pieces(block, endian)
        .filter_map(|(at, piece)| match piece {
            Piece::Node(header, node) => {
                Body::parse(&header, node, endian).is_ok().then_some(at..at + node.len())
            }
            _ => None,
        })
        .collect();
    for (offset, dirent, name) in listed {
        let node = DirentNode { dirent, name: &name };
        let place = offset as usize..(offset as usize).saturating_add(node.size());
        let is_good = good.iter().any(|good| good.start < place.end && place.start < good.end);
        let Some(bytes) = block.get_mut(place).filter(|_| !is_good) else { continue };
        node.emit(endian, bytes);
    }
}

/// Space for a new node in an eraseblock with other nodes; with `may_begin`, also in an eraseblock without nodes.
fn room(block: &[u8], endian: Endian, may_begin: bool) -> Option<Range<usize>> {
    let mut has_nodes = may_begin;
    for (at, piece) in pieces(block, endian) {
        let len = match piece {
            Piece::Node(header, node) if header.node_type == NodeType::Padding => node.len(),
            Piece::Node(header, _) => {
                has_nodes |= header.node_type != NodeType::CleanMarker;
                continue;
            }
            Piece::Erased(len) if has_nodes => len,
            _ => continue,
        };
        if len >= ROOM {
            return Some(at..at + len);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_at_the_end_of_an_eraseblock_only() {
        let mut block = [0xFF; 512];
        emit_summary((0, &[]), 0, 128, Endian::Little, &mut block[128..256]);
        let places = |block: &[u8]| {
            let found = pieces(block, Endian::Little).filter_map(|piece| summary_at(block, piece));
            found.collect::<Vec<_>>()
        };
        assert_eq!(places(&block[..256]), [128]);
        assert!(places(&block).is_empty());
    }
}
