//! Index of names and inodes, from the good and the damaged nodes about them.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::crc;
use floatgate_media::jffs2::{
    Body, Dirent, DirentNode, Endian, Header, Inode, NodeType, ROOT_INODE, Xattr, XattrNode, dirent_type,
};

use super::nodes::{Piece, pieces};

/// Offsets of fields in a dirent node.
const PARENT_AT: usize = 12;
const VERSION_AT: usize = 16;
const INODE_AT: usize = 20;
const NAME_LEN_AT: usize = 28;
const NAME_CRC_AT: usize = 36;

/// Largest number of damaged names that are examined, as a limit for hostile images.
const DAMAGED_MAX: usize = 10_000;

/// A dirent node and its offset.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) at: u64,
    pub(super) dirent: Dirent,
    pub(super) name: Vec<u8>,
}

/// Fields of a node with a version.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fields {
    Inode(Inode),
    Dirent(Dirent),
    Xattr(Xattr),
}

/// Object whose nodes have versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Versioned {
    /// An inode, or the names in a directory.
    Inode(u32),
    /// An extended attribute, by its ID.
    Xattr(u32),
}

impl Fields {
    /// Parses the fields, if their CRC is good.
    pub(super) fn parse(header: &Header, node: &[u8], endian: Endian) -> Option<Self> {
        match header.node_type {
            NodeType::Inode => Inode::parse(node, endian).ok().map(Self::Inode),
            NodeType::Dirent => Dirent::parse(node, endian).ok().map(Self::Dirent),
            NodeType::Xattr => XattrNode::parse(node, endian).ok().map(|node| Self::Xattr(node.xattr)),
            _ => None,
        }
    }

    /// Object and version of the node.
    pub(super) const fn version(&self) -> (Versioned, u32) {
        match self {
            Self::Inode(inode) => (Versioned::Inode(inode.inode), inode.version),
            Self::Dirent(dirent) => (Versioned::Inode(dirent.parent), dirent.version),
            Self::Xattr(xattr) => (Versioned::Xattr(xattr.xid), xattr.version),
        }
    }

    /// Writes the fields into the node with another version.
    pub(super) fn emit(&self, version: u32, endian: Endian, node: &mut [u8]) {
        match *self {
            Self::Inode(inode) => Inode { version, ..inode }.emit_fields(endian, node),
            Self::Dirent(dirent) => Dirent { version, ..dirent }.emit_fields(endian, node),
            Self::Xattr(xattr) => Xattr { version, ..xattr }.emit_fields(endian, node),
        }
    }
}

/// Index of all nodes about names and inodes.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Good dirent nodes.
    pub(super) dirents: Vec<Name>,
    /// Dirent nodes of which only the header is certainly good, with their bytes.
    damaged: Vec<(u64, Vec<u8>)>,
    /// Newest node of each inode.
    newest: BTreeMap<u32, Inode>,
    /// Versions and offsets of the nodes of each inode and attribute. Dirent nodes belong to their directory.
    versions: BTreeMap<Versioned, Vec<(u32, u64)>>,
}

impl Index {
    /// Adds an eraseblock at an offset of the image, except its bad nodes.
    pub(super) fn add(&mut self, start: u64, block: &[u8], endian: Endian, bad: &BTreeSet<u64>) {
        for (at, piece) in pieces(block, endian) {
            let at = start + at as u64;
            match piece {
                Piece::Node(header, node) if !header.obsolete && !bad.contains(&at) => {
                    self.add_version(at, &header, node, endian);
                    self.add_node(at, &header, node, endian);
                }
                _ => {}
            }
        }
    }

    /// Adds the version of a node, even if its data is damaged.
    fn add_version(&mut self, at: u64, header: &Header, node: &[u8], endian: Endian) {
        if let Some((owner, version)) = Fields::parse(header, node, endian).map(|fields| fields.version()) {
            self.versions.entry(owner).or_default().push((version, at));
        }
    }

    /// Offsets of all nodes of an object, in the order of their versions.
    pub(super) fn in_order(&self, of: Versioned) -> Vec<u64> {
        let mut nodes = self.versions.get(&of).cloned().unwrap_or_default();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, at)| at).collect()
    }

    fn add_node(&mut self, at: u64, header: &Header, node: &[u8], endian: Endian) {
        match Body::parse(header, node, endian) {
            Ok(Body::Dirent(DirentNode { dirent, name })) => {
                self.dirents.push(Name { at, dirent, name: name.to_vec() });
            }
            Ok(Body::Inode(inode)) => {
                let newest = self.newest.entry(inode.inode).or_insert(inode);
                if newest.version <= inode.version {
                    *newest = inode;
                }
            }
            Err(_) if header.node_type == NodeType::Dirent && self.damaged.len() < DAMAGED_MAX => {
                self.damaged.push((at, node.to_vec()))
            }
            _ => {}
        }
    }

    /// Newest node of an inode.
    pub(super) fn inode(&self, inode: u32) -> Option<&Inode> {
        self.newest.get(&inode)
    }

    /// Newest node of a name.
    pub(super) fn newest(&self, directory: u32, name: &[u8]) -> Option<&Name> {
        let of_name = self.dirents.iter().filter(|one| one.dirent.parent == directory && one.name == name);
        of_name.max_by_key(|one| one.dirent.version)
    }

    /// Highest version among the names of a directory.
    pub(super) fn highest(&self, directory: u32) -> u32 {
        let versions = self.dirents.iter().filter(|one| one.dirent.parent == directory);
        versions.map(|one| one.dirent.version).max().unwrap_or(0)
    }

    /// Names of which only a damaged node remains, for inodes without another name, in the form in which they are
    /// written again.
    pub(super) fn lost_names(&self, endian: Endian) -> Vec<Name> {
        let mut newest: BTreeMap<(u32, &[u8]), (u32, u32)> = BTreeMap::new();
        for Name { dirent, name, .. } in &self.dirents {
            let known = newest.entry((dirent.parent, name)).or_default();
            *known = (*known).max((dirent.version, dirent.inode));
        }
        let mut linked: BTreeSet<u32> = newest.values().map(|&(_, inode)| inode).collect();
        let mut names = Vec::new();
        for (at, node) in &self.damaged {
            let Some(mut name) = Damaged::new(node, endian).and_then(|damaged| self.restored(*at, &damaged))
            else {
                continue;
            };
            if linked.insert(name.dirent.inode) {
                name.dirent.version = self.highest(name.dirent.parent).saturating_add(1);
                names.push(name);
            }
        }
        names
    }

    /// Most likely form of a damaged name; `None` if the name may have been removed.
    fn restored(&self, at: u64, damaged: &Damaged<'_>) -> Option<Name> {
        let Damaged { parent, version, inode, name, is_name_good } = *damaged;
        let mode = self.newest.get(&inode)?.mode;
        let is_there = parent == ROOT_INODE || self.newest.contains_key(&parent);
        let is_like = |one: &&Name| {
            one.dirent.parent == parent
                && if is_name_good {
                    one.name == name
                } else {
                    one.name.len() == name.len() && one.dirent.inode == 0
                }
        };
        let is_replaced = self.dirents.iter().filter(is_like).any(|one| one.dirent.version > version);
        if !is_there || is_replaced {
            return None;
        }
        let name = possible(name);
        let is_used = self.newest(parent, &name).is_some_and(|one| one.dirent.inode != 0);
        let dirent = Dirent { parent, inode, dirent_type: dirent_type(mode), ..Dirent::default() };
        (!is_used).then_some(Name { at, dirent, name })
    }
}

/// Name of the same length that programs can open.
pub(super) fn possible(name: &[u8]) -> Vec<u8> {
    let is_dots = name == b"." || name == b"..";
    let byte = |&byte: &u8| if is_dots || b"/\0".contains(&byte) { b'_' } else { byte };
    name.iter().map(byte).collect()
}

/// Fields of a damaged dirent node.
struct Damaged<'n> {
    parent: u32,
    version: u32,
    inode: u32,
    name: &'n [u8],
    is_name_good: bool,
}

impl<'n> Damaged<'n> {
    /// Parses the fields, if the fields or the name have a good CRC.
    fn new(node: &'n [u8], endian: Endian) -> Option<Self> {
        let number = |at: usize| {
            let bytes = *node.get(at..)?.first_chunk()?;
            Some(if endian.is_big() { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
        };
        let len = usize::from(*node.get(NAME_LEN_AT)?);
        let name = node.get(Dirent::SIZE..Dirent::SIZE + len).filter(|name| !name.is_empty())?;
        let is_name_good = crc::jffs2(name) == number(NAME_CRC_AT)?;
        let are_fields_good = Dirent::parse(node, endian).is_ok();
        let (parent, version, inode) = (number(PARENT_AT)?, number(VERSION_AT)?, number(INODE_AT)?);
        let is_whole = node.len() == Dirent::SIZE + len;
        (is_whole && (is_name_good || are_fields_good)).then_some(Self {
            parent,
            version,
            inode,
            name,
            is_name_good,
        })
    }
}
