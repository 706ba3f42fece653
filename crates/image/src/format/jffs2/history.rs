//! Remaining nodes of a JFFS2, and its files at an earlier point in time.
//!
//! An earlier point in time is mounted like the image itself. In the data that the mount reads, later nodes are
//! marked obsolete, and the marks of nodes that were valid at this time are removed.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::jffs2::{Body, Endian, Header, ROOT_INODE};
use floatgate_stack::fs::FileSystem;
use floatgate_stack::{Store, StoreError};

use super::dump::checked;
use super::mount::{FileJffs2, losses, mount, mount_as};
use super::nodes::{Piece, pieces};
use super::shape::Jffs2Shape;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::Image;
use crate::report::{At, Change, LastNames, Loss, Revision};
use crate::walk::{Directory, Walk};
use crate::words::{count, show_name, show_path};

/// A node of an inode or a name.
#[derive(Clone, Debug)]
struct Node {
    /// Offset in the filesystem.
    at: u64,
    header: Header,
    /// Inode to whose versions the node belongs; for a name the directory.
    owner: u32,
    version: u32,
    /// Time of the change, seconds since 1970.
    time: u32,
    content: NodeContent,
}

#[derive(Clone, Debug)]
enum NodeContent {
    Inode {
        mode: u32,
        bytes: u32,
        data: Option<(u64, u64)>,
    },
    /// A name; its inode is 0 if the name was removed.
    Name {
        name: Vec<u8>,
        inode: u32,
    },
}

/// A node of an extended attribute, or a node that assigns an attribute to an inode.
#[derive(Clone, Debug)]
struct XattrRecord {
    /// Offset in the filesystem.
    at: u64,
    obsolete: bool,
    xid: u32,
    content: XattrContent,
}

#[derive(Clone, Debug)]
enum XattrContent {
    Value { version: u32, name: String, bytes: usize },
    Reference { inode: u32, is_deleted: bool },
}

/// All good nodes, in the order of the flash.
#[derive(Debug, Default)]
struct Nodes {
    /// Nodes of inodes and names.
    files: Vec<Node>,
    xattrs: Vec<XattrRecord>,
}

fn nodes(store: &dyn Store, found: &ImageLocation, shape: &Jffs2Shape) -> Result<Nodes, ImageError> {
    let erase = u64::from(shape.erase_bytes);
    let mut block = vec![0; shape.erase_bytes as usize];
    let mut nodes = Nodes::default();
    for (number, start) in (0..).zip((0..found.len).step_by(block.len())) {
        if found.bad_pebs.contains(&number) {
            continue;
        }
        let len = usize::try_from((found.len - start).min(erase)).unwrap_or(block.len());
        store.read_at(found.offset + start, &mut block[..len]).map_err(ImageError::Store)?;
        for (at, piece) in pieces(&block[..len], shape.endian()) {
            if let Piece::Node(header, node) = piece
                && let Ok(body) = Body::parse(&header, node, shape.endian())
            {
                nodes.add(start + at as u64, header, &body);
            }
        }
    }
    Ok(nodes)
}

impl Nodes {
    fn add(&mut self, at: u64, header: Header, body: &Body<'_>) {
        let obsolete = header.obsolete;
        match body {
            Body::Inode(inode) => {
                let data = (inode.file_len > 0).then(|| (u64::from(inode.offset), inode.end()));
                let content = NodeContent::Inode { mode: inode.mode, bytes: inode.file_bytes, data };
                let (owner, version, time) = (inode.inode, inode.version, inode.ctime_s);
                self.files.push(Node { at, header, owner, version, time, content });
            }
            Body::Dirent(node) => {
                let dirent = node.dirent;
                let content = NodeContent::Name { name: node.name.to_vec(), inode: dirent.inode };
                let (owner, version, time) = (dirent.parent, dirent.version, dirent.mctime_s);
                self.files.push(Node { at, header, owner, version, time, content });
            }
            Body::Xattr(node) => {
                let name = [node.xattr.prefix.text().as_bytes(), node.name].concat();
                let (version, bytes) = (node.xattr.version, node.value.len());
                let content = XattrContent::Value { version, name: show_name(&name), bytes };
                self.xattrs.push(XattrRecord { at, obsolete, xid: node.xattr.xid, content });
            }
            Body::Xref(xref) => {
                let content = XattrContent::Reference { inode: xref.inode, is_deleted: xref.is_deleted() };
                self.xattrs.push(XattrRecord { at, obsolete, xid: xref.xid, content });
            }
            Body::Summary | Body::Other => {}
        }
    }
}

/// Extended attributes, by their IDs.
#[derive(Debug, Default)]
struct Attributes {
    /// Version, name and length (as text) of the newest value.
    values: BTreeMap<u32, (u32, String)>,
    /// An inode that has the attribute.
    owners: BTreeMap<u32, u32>,
}

impl Attributes {
    fn of(records: &[XattrRecord]) -> Self {
        let mut all = Self::default();
        for record in records {
            match &record.content {
                XattrContent::Value { version, name, bytes } => {
                    let value = (*version, format!("{name}, {}", count(*bytes as u64, "byte")));
                    let newest = all.values.entry(record.xid).or_default();
                    *newest = value.max(std::mem::take(newest));
                }
                XattrContent::Reference { inode, is_deleted: false } => {
                    all.owners.entry(record.xid).or_insert(*inode);
                }
                XattrContent::Reference { .. } => {}
            }
        }
        all
    }

    /// Describes an attribute that an inode has or had, or an older value of an attribute. The newest value is listed
    /// at the node that assigns it to an inode.
    fn describe(&self, record: &XattrRecord, names: &LastNames) -> Option<Revision> {
        let newest = self.values.get(&record.xid);
        let owner = self.owners.get(&record.xid);
        let (inode, what) = match &record.content {
            XattrContent::Reference { inode, is_deleted } => {
                let lost = if *is_deleted { "lost " } else { "" };
                let value = newest.map_or_else(
                    || format!("{}, whose value is lost", record.xid),
                    |newest| newest.1.clone(),
                );
                (*inode, format!("{lost}extended attribute {value}"))
            }
            XattrContent::Value { version, .. } if newest.is_some_and(|newest| newest.0 == *version) => {
                if owner.is_some() {
                    return None;
                }
                (0, format!("extended attribute {}", newest.map_or("", |newest| newest.1.as_str())))
            }
            XattrContent::Value { name, bytes, .. } => {
                let bytes = count(*bytes as u64, "byte");
                (owner.copied().unwrap_or(0), format!("older value of extended attribute {name}, {bytes}"))
            }
        };
        Some(Revision {
            at: String::new(),
            inode,
            path: names.path(inode, ROOT_INODE),
            time: None,
            change: Change::Xattr,
            what,
            live: false,
            byte: None,
        })
    }
}

/// Lists the nodes in the order of their times, and the nodes of an inode in the order of their versions. Extended
/// attributes have no time and no such version; they follow in the order of the flash.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn list(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
) -> Result<Vec<Revision>, ImageError> {
    let origin = image.origin(found);
    let mut nodes = nodes(&*image.store()?, found, shape)?;
    nodes.files.sort_by_key(|node| (node.time, node.owner, node.version, node.at));
    let fs = mount(image.store()?, found, shape).ok().map(checked).transpose()?;
    let is_live = |at, obsolete: bool| !obsolete && fs.as_ref().is_some_and(|fs| fs.is_live(at));
    let mut names = LastNames::default();
    for node in &nodes.files {
        if let NodeContent::Name { name, inode } = &node.content {
            let live = is_live(node.at, node.header.obsolete);
            let order = (live, u64::from(node.time), u64::from(node.version));
            names.add(*inode, order, (node.owner, name));
        }
    }
    let placed = |revision: Revision, at, obsolete| Revision {
        live: is_live(at, obsolete),
        byte: Some(origin.file_byte(at)),
        ..revision
    };
    let files = nodes.files.iter().map(|node| placed(describe(node, &names), node.at, node.header.obsolete));
    let attributes = Attributes::of(&nodes.xattrs);
    let xattrs = nodes
        .xattrs
        .iter()
        .filter_map(|record| Some(placed(attributes.describe(record, &names)?, record.at, record.obsolete)));
    Ok(files.chain(xattrs).collect())
}

fn describe(node: &Node, names: &LastNames) -> Revision {
    let (change, path, what) = match &node.content {
        NodeContent::Inode { mode, bytes, data } => {
            let path = names.path(node.owner, ROOT_INODE);
            match data {
                Some((from, to)) => (Change::Data, path, format!("bytes {from} to {to} of {bytes}")),
                None => (Change::Inode, path, format!("mode {mode:o}, {bytes} bytes")),
            }
        }
        NodeContent::Name { name, inode } => {
            let path = names.path_of(node.owner, name, ROOT_INODE);
            match inode {
                0 => (Change::Removed, path, "name removed".to_owned()),
                inode => (Change::Name, path, format!("name of inode {inode}")),
            }
        }
    };
    let at = format!("{}:{}", node.owner, node.version);
    let time = Some(i64::from(node.time));
    Revision { at, inode: node.owner, path, time, change, what, live: false, byte: None }
}

/// Filesystem in the state at a point in time.
pub(crate) struct Mounted {
    pub(crate) fs: FileJffs2,
    /// Parts of files that are no longer on the flash.
    pub(crate) losses: Vec<Loss>,
    pub(crate) notes: Vec<String>,
}

/// Mounts the filesystem in the state at a point in time, and lists the parts of files that are no longer on the
/// flash.
///
/// # Errors
/// A point in time of another format, a missing node, or a time before all nodes; the file cannot be read.
pub(crate) fn at(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    at: At,
) -> Result<Mounted, ImageError> {
    let Nodes { files: nodes, xattrs } = nodes(&*image.store()?, found, shape)?;
    let past = match at {
        At::Time(seconds) => Past::of_time(&nodes, seconds)?,
        At::Version { inode, version } => Past::of_version(&nodes, inode, version)?,
        At::Sqnum(_) => return Err(ImageError::WrongMoment("JFFS2", "an inode and a version")),
    };
    let store = past.over(image.store()?, found.offset, &nodes, shape.endian());
    let mut fs = mount_as(Box::new(store), found, shape, true)?;
    let mut losses = losses(&mut fs, "were erased since");
    if matches!(at, At::Time(_)) && !xattrs.is_empty() {
        losses.push(Loss::new(
            &[],
            "extended attributes are those of the last moment: their nodes have no time",
        ));
    }
    let notes = match at {
        At::Version { .. } => emptied(&mut fs, &mut mount(image.store()?, found, shape)?, &nodes),
        _ => Vec::new(),
    };
    Ok(Mounted { fs, losses, notes })
}

/// Notes about directories that exist again, but without their names, which were removed first. The point in time is
/// then in the middle of their removal.
fn emptied(fs: &mut FileJffs2, now: &mut FileJffs2, nodes: &[Node]) -> Vec<String> {
    let mut last_name: BTreeMap<u32, u32> = BTreeMap::new();
    for node in nodes.iter().filter(|node| matches!(node.content, NodeContent::Name { inode: 1.., .. })) {
        let last = last_name.entry(node.owner).or_default();
        *last = node.version.max(*last);
    }
    let mut walk = Walk::new(fs.root());
    let mut notes = Vec::new();
    while let Some(directory) = walk.next(fs) {
        let Ok(Directory { path, inode, entries }) = directory else { continue };
        let is_back = entries.is_empty() && now.attributes(inode).is_err();
        if let Some(version) = last_name.get(&inode).filter(|_| is_back) {
            let path = show_path(&path);
            notes.push(format!(
                "{path} is empty, as the names in it were removed before: the moment {inode}:{version} has it with them"
            ));
        }
    }
    notes
}

/// Changed states of nodes at a point in time, by number: true for a valid node. All other nodes keep their state in
/// the image.
#[derive(Debug, Default)]
struct Past(BTreeMap<usize, bool>);

impl Past {
    /// Nodes that are valid at a time. A clock without power restarts at an earlier time, so a node of an inode is
    /// not older than the nodes with lower versions.
    fn of_time(nodes: &[Node], seconds: i64) -> Result<Self, ImageError> {
        let is_later = |node: &&Node| i64::from(node.time) > seconds;
        let is_inode = |node: &&Node| matches!(node.content, NodeContent::Inode { .. });
        let mut first_later: BTreeMap<u32, u32> = BTreeMap::new();
        for node in nodes.iter().filter(is_inode).filter(is_later) {
            let first = first_later.entry(node.owner).or_insert(node.version);
            *first = node.version.min(*first);
        }
        let has_come = |node: &Node| {
            let later = first_later.get(&node.owner).filter(|_| is_inode(&node));
            !is_later(&node) && later.is_none_or(|&later| node.version < later)
        };
        let past: BTreeMap<usize, bool> = nodes.iter().map(has_come).enumerate().collect();
        if past.values().any(|&has_come| has_come) { Ok(Self(past)) } else { Err(ImageError::NothingThatOld) }
    }

    fn of_version(nodes: &[Node], inode: u32, version: u32) -> Result<Self, ImageError> {
        let missing = || ImageError::NoMoment(format!("inode {inode} has no node of version {version}"));
        let own: Vec<usize> = (0..nodes.len()).filter(|&node| nodes[node].owner == inode).collect();
        if !own.iter().any(|&node| nodes[node].version == version) {
            return Err(missing());
        }
        let mut past = Self::default();
        for node in own {
            past.0.insert(node, nodes[node].version <= version);
        }
        past.restore_children(nodes, inode, version);
        past.restore_inode(nodes, inode)?;
        Ok(past)
    }

    /// Makes files valid whose names exist again; on NOR their nodes were marked obsolete.
    fn restore_children(&mut self, nodes: &[Node], directory: u32, version: u32) {
        let mut children: BTreeMap<&[u8], (u32, u32)> = BTreeMap::new();
        for node in nodes.iter().filter(|node| node.owner == directory && node.version <= version) {
            if let NodeContent::Name { name, inode } = &node.content {
                let newest = children.entry(name).or_default();
                *newest = (*newest).max((node.version, *inode));
            }
        }
        let children: BTreeSet<u32> = children.into_values().map(|(_, inode)| inode).collect();
        for (number, node) in nodes.iter().enumerate() {
            let is_inode = matches!(node.content, NodeContent::Inode { .. });
            if is_inode && node.owner != directory && children.contains(&node.owner) {
                self.0.insert(number, true);
            }
        }
    }

    /// Restores the last name of an inode, and the last names of the directories above it.
    fn restore_inode(&mut self, nodes: &[Node], inode: u32) -> Result<(), ImageError> {
        let mut newest: BTreeMap<u32, (u32, u32, usize)> = BTreeMap::new();
        let mut by_name: BTreeMap<(u32, &[u8]), Vec<usize>> = BTreeMap::new();
        for (number, node) in nodes.iter().enumerate() {
            if let NodeContent::Name { name, inode } = &node.content {
                let known = newest.entry(*inode).or_default();
                *known = (*known).max((node.time, node.version, number));
                by_name.entry((node.owner, name)).or_default().push(number);
            }
        }
        let (mut at, mut seen) = (inode, BTreeSet::new());
        while at != ROOT_INODE && seen.insert(at) {
            let missing = || ImageError::NoMoment(format!("no name of inode {at} is on the flash any more"));
            let &(_, version, number) = newest.get(&at).ok_or_else(missing)?;
            let NodeContent::Name { name, .. } = &nodes[number].content else { break };
            let directory = nodes[number].owner;
            for &other in by_name.get(&(directory, name)).into_iter().flatten() {
                if nodes[other].version > version {
                    self.0.insert(other, false);
                }
            }
            self.0.insert(number, true);
            at = directory;
        }
        Ok(())
    }

    /// Store that returns nodes with the marks of that time.
    fn over(&self, below: Box<dyn Store>, offset: u64, nodes: &[Node], endian: Endian) -> Marked {
        let mut bytes = BTreeMap::new();
        for (&number, &counts) in &self.0 {
            let Some(node) = nodes.get(number).filter(|node| node.header.obsolete == counts) else {
                continue;
            };
            let mut old = [0; Header::SIZE];
            let mut new = old;
            node.header.emit(endian, &mut old);
            Header { obsolete: !counts, ..node.header }.emit(endian, &mut new);
            let changed = old.iter().zip(new).enumerate().filter(|(_, (old, new))| *old != new);
            bytes.extend(changed.map(|(at, (_, new))| (offset + node.at + at as u64, new)));
        }
        Marked { below, bytes }
    }
}

/// Store that replaces single bytes in reads.
struct Marked {
    below: Box<dyn Store>,
    bytes: BTreeMap<u64, u8>,
}

impl Store for Marked {
    fn size_bytes(&self) -> u64 {
        self.below.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.below.read_at(offset, buf)?;
        for (&at, &byte) in self.bytes.range(offset..offset + buf.len() as u64) {
            buf[usize::try_from(at - offset).unwrap_or(0)] = byte;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.below.write_at(offset, data)
    }
}
