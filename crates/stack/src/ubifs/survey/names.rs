//! Comparison of names and inodes.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::file::{FileFlags, FileType};
use floatgate_media::ubifs::{Entry, Inode, Key, Node, NodeType, ROOT_INODE};

use super::problem::{Problem, Severity};
use super::scan::{Change, Event, find_events, main_lebs};
use super::tree::{Child, File};
use super::{Only, Survey, Tree};
use crate::ubifs::error::Result;
use crate::ubifs::scan::scan_all;
use crate::ubifs::structure::Structure;
use crate::volume::Volume;

/// A name of an inode: whether it is in the index, its sequence number, directory and name.
type Naming = (bool, u64, u32, Vec<u8>);

/// Extended attribute of an encrypted file.
const ENCRYPTION_CONTEXT: &[u8] = b"c";

/// Nanoseconds in a second.
const NANOSECONDS: u32 = 1_000_000_000;

const WRONG_TIME: &str = "only the time that is shown is wrong";

/// Bytes that a name of this length adds to the size of its directory.
#[must_use]
pub const fn entry_bytes(name: usize) -> u64 {
    (Entry::SIZE + name + 1).next_multiple_of(8) as u64
}

/// Accounted size of an attribute value: one byte more than it takes, as in Linux.
const fn value_bytes(len: usize) -> u64 {
    (Inode::SIZE + len + 1).next_multiple_of(8) as u64
}

impl Survey<dyn Volume> {
    /// Searches all LEBs for lost keys and, if the journal could not be read completely, for nodes newer than a commit.
    pub(super) fn fill_gaps(&mut self, newer_than: Option<(u64, u32)>) -> Result<()> {
        if self.lost.is_empty() && newer_than.is_none() {
            return Ok(());
        }
        let main = main_lebs(&mut self.io);
        let events = find_events(&mut self.io, main.chain(self.nameless.clone()))?;
        self.search_everywhere(&events);
        let mut found = Tree::default();
        events.iter().filter(|event| self.is_wanted(event)).for_each(|event| found.apply(event));
        self.merge(found);
        let Some((commit, tail)) = newer_than else { return Ok(()) };
        // Without the log, every node that is newer than all nodes in the index was written after the commit.
        let start = self.commit_start(commit, tail)?.unwrap_or_else(|| self.newest_indexed());
        let newer = || events.iter().filter(|event| event.sqnum > start);
        let whole = self.mounts && !self.nameless.is_empty();
        if !whole || newer().any(|event| self.nameless.contains(&event.place.lnum)) {
            newer().for_each(|event| self.tree.apply(event));
        }
        Ok(())
    }

    /// Accepts the newest node for lost keys that no LEB with unknown number contains. Perhaps only the branch is
    /// wrong, because it leads to an empty LEB, or only an older node is left.
    fn search_everywhere(&mut self, events: &[Event]) {
        let in_nameless = events.iter().filter(|event| self.nameless.contains(&event.place.lnum));
        let held: BTreeSet<(Key, u32)> = in_nameless.map(|event| (event.key, event.place.offset)).collect();
        for lost in &mut self.lost {
            if let Only::Nameless(offset) = lost.only
                && !held.contains(&(lost.from, offset))
            {
                lost.only = Only::Newest;
            }
        }
    }

    /// True if a node has a lost key or deletes one.
    fn is_wanted(&self, event: &Event) -> bool {
        let removes = matches!(event.change, Change::Deletion | Change::Truncation { .. });
        removes || self.lost.iter().any(|lost| lost.covers(event, &self.nameless))
    }

    /// Merges search results into the tree from the index.
    fn merge(&mut self, found: Tree) {
        let newest = self.lost.iter().filter(|lost| lost.only == Only::Newest && lost.from == lost.to);
        let older: BTreeSet<Key> = newest.map(|lost| lost.from).collect();
        let named: BTreeSet<u32> = self
            .tree
            .files
            .values()
            .flat_map(|file| file.entries.values().chain(file.xattrs.values()))
            .map(|child| child.inode)
            .collect();
        for (inode, from) in found.files {
            let known = self.tree.files.get(&inode).is_some_and(|file| file.inode.is_some());
            let lost = self.lost.iter().any(|lost| (lost.from..=lost.to).contains(&Key::inode(inode)));
            if !known && (!lost || from.place.len == 0 && !from.has_parts()) {
                // If the inode existed, the index would refer to it.
                continue;
            }
            let is_empty = from.blocks.is_empty() && from.entries.is_empty() && from.xattrs.is_empty();
            let is_misplaced = self.lost.iter().any(|lost| lost.only == Only::Sqnum(from.sqnum));
            if is_misplaced && is_empty && !named.contains(&inode) && !self.tree.files.contains_key(&inode) {
                // Only a branch of another inode leads to this node: it belongs to that inode, and its number is wrong.
                continue;
            }
            let file = self.tree.file_mut(inode);
            if file.inode.is_none() && from.place.len > 0 {
                (file.place, file.sqnum, file.found_by_scan) = (from.place, from.sqnum, true);
                file.outdated = file.incomplete;
            }
            for (block, data) in from.blocks {
                let is_older = Key::data(inode, block).is_some_and(|key| older.contains(&key));
                if file.lost_blocks.remove(&block) && is_older {
                    file.older_blocks.insert(block);
                }
                file.blocks.entry(block).or_insert(data);
            }
            for (name, child) in from.entries {
                file.entries.entry(name).or_insert(child);
            }
            for (name, child) in from.xattrs {
                file.xattrs.entry(name).or_insert(child);
            }
        }
    }

    /// Highest sequence number of inodes and names in the index.
    fn newest_indexed(&self) -> u64 {
        let of_file = |file: &File| {
            let names = file.entries.values().chain(file.xattrs.values()).map(|child| child.sqnum);
            names.chain([file.sqnum]).max().unwrap_or(0)
        };
        self.tree.files.values().map(|file| of_file(file)).max().unwrap_or(0)
    }

    /// Sequence number at which the journal after a commit starts; the log of the commit starts in `tail`. If the
    /// commit start is damaged, the sequence number of the next good node in the LEB is returned, or of the previous
    /// commit.
    fn commit_start(&mut self, commit: u64, tail: u32) -> Result<Option<u64>> {
        let (leb, _) = scan_all(&mut self.io, tail, 0)?;
        if let Some(first) = leb.nodes.first() {
            return Ok(Some(first.stamp.sqnum.saturating_sub(1)));
        }
        let mut start = None;
        for lnum in self.io.layout().limits.log.clone() {
            let (leb, _) = scan_all(&mut self.io, lnum, 0)?;
            let starts = leb.nodes.iter().filter(|node| node.node_type == NodeType::CommitStart);
            for node in starts {
                let Ok(frame) = leb.frame(node) else { continue };
                if let Ok(Node::CommitStart(found)) = frame.node()
                    && found.commit <= commit
                {
                    start = start.max(Some(node.stamp.sqnum));
                }
            }
        }
        Ok(start)
    }

    /// Reads inodes of which only the position is known.
    pub(super) fn read_inodes(&mut self) -> Result<()> {
        let places: Vec<(u32, crate::fs::NodePos)> = self
            .tree
            .files
            .iter()
            .filter(|(_, file)| file.place.len > 0 && (file.inode.is_none() || file.found_by_scan))
            .map(|(&inode, file)| (inode, file.place))
            .collect();
        let mut bytes = Vec::new();
        for (number, place) in places {
            let frame = match self.io.read_node(place, Some(NodeType::Inode), &mut bytes) {
                Ok(frame) => frame,
                Err(error) if error.is_damage() => continue,
                Err(error) => return Err(error),
            };
            let Ok(Node::Inode(node)) = frame.node() else { continue };
            let file = self.tree.file_mut(number);
            (file.inode, file.attached) = (Some(node.inode), node.data.to_vec());
        }
        self.stretch_outdated();
        Ok(())
    }

    /// Extends the size of an older inode to the end of the data.
    fn stretch_outdated(&mut self) {
        for file in self.tree.files.values_mut().filter(|file| file.outdated) {
            let end = file.data_end();
            if let Some(inode) = &mut file.inode {
                inode.size = inode.size.max(end);
            }
        }
    }

    /// Compares names and inodes.
    pub(super) fn check_names(&mut self) {
        self.drop_outdated();
        self.tree.find_paths();
        let names = Names::count(&self.tree);
        let mut found = Vec::new();
        if !self.tree.files.get(&ROOT_INODE).is_some_and(|file| file.is_directory()) {
            let what = "there is no root directory";
            found.push(
                Problem::new(Severity::Damaged, Structure::Inode, what, "no file can be reached")
                    .inode(ROOT_INODE),
            );
        }
        for (&inode, file) in &self.tree.files {
            names.check(&self.tree, inode, file, &mut found);
        }
        found.into_iter().for_each(|problem| self.problems.add(problem));
        self.tree.repair_inodes();
    }

    /// Drops names from a search that have no inode, or exceed the inode's link count: they were deleted. A directory
    /// with names, or a file with data, of which only the inode is lost keeps its name.
    fn drop_outdated(&mut self) {
        let files = &self.tree.files;
        let alive: BTreeMap<u32, (u32, bool)> = files
            .iter()
            .filter_map(|(&inode, file)| Some((inode, (file.inode?.links, file.is_directory()))))
            .collect();
        let without_inode: BTreeMap<u32, FileType> =
            files.iter().filter_map(|(&inode, file)| Some((inode, file.type_by_parts()?))).collect();
        let is_alive = |child: &Child| {
            alive.contains_key(&child.inode) || without_inode.get(&child.inode) == Some(&child.file_type)
        };
        let mut by_inode: BTreeMap<u32, Vec<Naming>> = BTreeMap::new();
        for (&directory, file) in &mut self.tree.files {
            file.entries.retain(|_, child| !child.found_by_scan || is_alive(child));
            file.xattrs.retain(|_, child| !child.found_by_scan || alive.contains_key(&child.inode));
            for (name, child) in &file.entries {
                let of = by_inode.entry(child.inode).or_default();
                of.push((!child.found_by_scan, child.sqnum, directory, name.clone()));
            }
        }
        for (inode, mut names) in by_inode {
            let most = match (alive.get(&inode), without_inode.get(&inode)) {
                (Some(&(_, true)), _) | (None, Some(FileType::Directory)) => 1,
                (Some(&(links, false)), _) => links as usize,
                (None, _) => continue,
            };
            // Names in the index come first, then the newest ones.
            names.sort();
            let excess = names.len().saturating_sub(most);
            for (by_index, _, directory, name) in names.into_iter().take(excess) {
                if !by_index && let Some(file) = self.tree.files.get_mut(&directory) {
                    file.entries.remove(&name);
                }
            }
        }
    }
}

/// Numbers of names by inode.
#[derive(Default)]
struct Names {
    /// Number of file names by inode.
    links: BTreeMap<u32, u32>,
    /// Number of attribute names by inode of the value.
    values: BTreeMap<u32, u32>,
    /// Inodes that are reachable from the root.
    reached: BTreeSet<u32>,
}

impl Names {
    fn count(tree: &Tree) -> Self {
        let mut names = Self::default();
        for file in tree.files.values() {
            for child in file.entries.values() {
                *names.links.entry(child.inode).or_default() += 1;
            }
            for child in file.xattrs.values() {
                *names.values.entry(child.inode).or_default() += 1;
            }
        }
        names.reached.insert(ROOT_INODE);
        names.reached.extend(tree.parents.keys());
        names
    }

    fn check(&self, tree: &Tree, number: u32, file: &File, found: &mut Vec<Problem>) {
        let Some(inode) = file.inode else {
            if file.incomplete {
                // The damage of this inode was already reported.
                return;
            }
            let what = "names or data of an inode that is not there";
            let problem =
                Problem::new(Severity::Damaged, Structure::Inode, what, "the file cannot be opened");
            found.push(problem.inode(number));
            return;
        };
        let mut wrong = InodeFindings { file, number, found };
        for (name, child) in &file.entries {
            check_child(tree, name, child, false, &mut wrong);
            if !inode.flags.contains(FileFlags::ENCRYPTED) && !is_possible(name) {
                let what = format!("{} is not a name that a file can have", shown(name));
                wrong.add_at(child, what, "no program can open the file, and some go astray");
            }
        }
        for (name, child) in &file.xattrs {
            check_child(tree, name, child, true, &mut wrong);
        }
        check_inode(&inode, &mut wrong);
        if !file.entries.is_empty() && !file.is_directory() {
            wrong.add("names in an inode that is no directory", "these files cannot be reached");
        }
        self.check_links(tree, &inode, &mut wrong);
        if !file.incomplete {
            check_counts(tree, &inode, &mut wrong);
            check_blocks(&inode, &mut wrong);
        }
    }

    fn check_links(&self, tree: &Tree, inode: &Inode, wrong: &mut InodeFindings<'_>) {
        let number = wrong.number;
        let (links, values) = (self.links.get(&number).copied(), self.values.get(&number).copied());
        let named = links.unwrap_or(0);
        if inode.is_xattr() {
            match values {
                Some(1) if links.is_none() => {}
                None => {
                    wrong.add("the value of an extended attribute that no file has", "it only takes space")
                }
                _ => wrong.add("the value of an extended attribute is named otherwise", "files share it"),
            }
            return;
        }
        if values.is_some() {
            wrong.add("a file is named as the value of an extended attribute", "it is taken for one");
        }
        if !self.reached.contains(&number) {
            wrong.add("no name leads to the inode", "the file cannot be reached, and takes space");
            return;
        }
        let expected = if wrong.file.is_directory() {
            if number == ROOT_INODE && named > 0 {
                wrong.add(
                    "the root has a name in a directory",
                    "programs that go through all files do not end",
                );
            } else if named > 1 {
                wrong.add("the directory has several names", "what is done below one shows below the other");
            }
            2 + subdirectories(tree, wrong.file)
        } else {
            named
        };
        if inode.links != expected && !wrong.file.incomplete {
            let what = format!("the link count of the inode is {}, it should be {expected}", inode.links);
            let more = inode.links > expected && number != ROOT_INODE;
            wrong.add_counts(what, more, "files are removed too early, or never");
        }
    }
}

/// Findings about an inode.
struct InodeFindings<'f> {
    file: &'f File,
    number: u32,
    found: &'f mut Vec<Problem>,
}

impl InodeFindings<'_> {
    fn add(&mut self, what: impl Into<String>, consequence: &'static str) {
        self.add_counts(what, false, consequence);
    }

    /// Reports a wrong count in the inode; `more` is true if the count is higher than the number of names.
    fn add_counts(&mut self, what: impl Into<String>, more: bool, consequence: &'static str) {
        let place = self.file.place;
        let problem = Problem::new(Severity::Damaged, Structure::Inode, what, consequence);
        let problem = problem.with_names_missing(more);
        self.found.push(problem.at(place.lnum, place.offset).inode(self.number));
    }

    /// Reports a fault of a name in the directory.
    fn add_at(&mut self, child: &Child, what: String, consequence: &'static str) {
        let problem = Problem::new(Severity::Damaged, Structure::Entry, what, consequence);
        self.found.push(problem.at(child.place.lnum, child.place.offset).inode(self.number));
    }
}

/// Quoted name for messages.
pub(super) fn shown(name: &[u8]) -> String {
    format!("\"{}\"", String::from_utf8_lossy(name).escape_debug())
}

/// True for a valid file name.
fn is_possible(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// Checks the extended attributes and timestamps of an inode.
fn check_inode(inode: &Inode, wrong: &mut InodeFindings<'_>) {
    let attached = &wrong.file.attached;
    let is_encrypted = inode.flags.contains(FileFlags::ENCRYPTED);
    if inode.file_type() == Some(FileType::Symlink) && !is_encrypted && !inode.is_xattr() {
        if attached.contains(&0) {
            wrong.add(
                "the target of the link has a zero in it",
                "Linux takes what is before it for the target",
            );
        }
        if inode.size != attached.len() as u64 {
            let what =
                format!("the size of the link is {}, its target has {} bytes", inode.size, attached.len());
            wrong.add(what, "only the size that is shown is wrong");
        }
    }
    if is_encrypted && !wrong.file.incomplete && !wrong.file.xattrs.contains_key(ENCRYPTION_CONTEXT) {
        wrong.add("the inode is encrypted, and nothing says how", "nothing in it can be read");
    }
    for (time, nanoseconds) in
        [("last read", inode.atime_ns), ("last change", inode.ctime_ns), ("last write", inode.mtime_ns)]
    {
        if nanoseconds >= NANOSECONDS {
            wrong.add(format!("the time of the {time} has {nanoseconds} ns behind the second"), WRONG_TIME);
        }
    }
}

fn subdirectories(tree: &Tree, file: &File) -> u32 {
    let is_directory = |child: &&Child| tree.files.get(&child.inode).is_some_and(|file| file.is_directory());
    u32::try_from(file.entries.values().filter(is_directory).count()).unwrap_or(u32::MAX)
}

fn check_child(tree: &Tree, name: &[u8], child: &Child, is_xattr: bool, wrong: &mut InodeFindings<'_>) {
    let structure = if is_xattr { Structure::XattrEntry } else { Structure::Entry };
    let file = tree.files.get(&child.inode);
    let target = file.and_then(|file| file.inode);
    let shown = shown(name);
    let (what, consequence) = match target {
        // The damage of this inode was already reported.
        None if file.is_some_and(|file| file.incomplete) => return,
        None => {
            (format!("{shown} leads to inode {}, which is not there", child.inode), "it cannot be opened")
        }
        Some(inode) if is_xattr != inode.is_xattr() => {
            (format!("{shown} leads to an inode of another kind"), "it cannot be opened")
        }
        Some(inode) if !is_xattr && inode.file_type() != Some(child.file_type) => (
            format!("{shown} says that the file is of another type than its inode"),
            "programs see two types",
        ),
        Some(_) => return,
    };
    let problem = Problem::new(Severity::Damaged, structure, what, consequence);
    wrong.found.push(problem.at(child.place.lnum, child.place.offset).inode(wrong.number));
}

/// Checks the size of a directory, and the attribute counts.
fn check_counts(tree: &Tree, inode: &Inode, wrong: &mut InodeFindings<'_>) {
    let file = wrong.file;
    if inode.file_type() == Some(FileType::Directory) {
        let names: u64 = file.entries.keys().map(|name| entry_bytes(name.len())).sum();
        let expected = Inode::SIZE as u64 + names;
        // `mkfs.ubifs` counts encrypted names with their length before encryption.
        let by_mkfs = inode.flags.contains(FileFlags::ENCRYPTED) && inode.size < expected;
        if inode.size != expected && !by_mkfs {
            let what = format!("the size of the directory is {}, its entries make {expected}", inode.size);
            let more = inode.size > expected;
            wrong.add_counts(
                what,
                more,
                "only the size that is shown is wrong, or names in the directory are lost",
            );
        }
    }
    let count = file.xattrs.len() as u64;
    let names: u64 = file.xattrs.keys().map(|name| name.len() as u64).sum();
    let value = |child: &Child| tree.files.get(&child.inode).map_or(0, |file| file.attached.len());
    let bytes: u64 =
        file.xattrs.iter().map(|(name, child)| entry_bytes(name.len()) + value_bytes(value(child))).sum();
    let stored =
        (u64::from(inode.xattr_count), u64::from(inode.xattr_names_bytes), u64::from(inode.xattr_bytes));
    if stored != (count, names, bytes) {
        let (stored_count, stored_names, stored_bytes) = stored;
        let what = format!(
            "counts of extended attributes in the inode: {stored_count} with names of {stored_names} bytes, {stored_bytes} bytes in all; found: {count}, {names} and {bytes}"
        );
        let more = stored_count > count;
        wrong.add_counts(what, more, "listing or removing attributes goes wrong");
    }
}

/// Checks that no data follows the end of a file, and that only regular files have data.
fn check_blocks(inode: &Inode, wrong: &mut InodeFindings<'_>) {
    let end = wrong.file.data_end();
    let is_file = inode.file_type() == Some(FileType::Regular) && !inode.is_xattr();
    if end > 0 && !is_file {
        wrong.add("blocks of data in an inode that has none", "they only take space");
    } else if end > inode.size {
        let what = format!("the size of the file is {}, but its data end at byte {end}", inode.size);
        wrong.add(what, "what is behind the size cannot be read, and comes back when the file grows");
    }
}
