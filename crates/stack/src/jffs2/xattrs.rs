//! Extended attributes.

use super::NodeRef;
use super::damage::{Damage, Fault};
use crate::fs::Acl;
use floatgate_media::MediaError;
use floatgate_media::acl::AclEntry;
use floatgate_media::jffs2::{AclEntries, Endian, XattrNode, XattrPrefix, Xref};
use std::collections::{BTreeMap, BTreeSet};

/// An attribute: name and value, which several inodes can share.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    version: u32,
    /// Flash offset of its node.
    pub(super) at: u32,
    prefix: XattrPrefix,
    /// Name with prefix.
    name: Vec<u8>,
    /// Value in on-flash format.
    stored: Vec<u8>,
}

impl Attribute {
    /// Sort key of the node among the nodes of the attribute.
    const fn order(&self) -> NodeRef {
        NodeRef { version: self.version, at: self.at }
    }

    /// Value as programs see it; an ACL has a different format on flash.
    fn value(&self, endian: Endian) -> Result<Vec<u8>, MediaError> {
        if !self.prefix.is_acl() {
            return Ok(self.stored.clone());
        }
        let entries: Vec<AclEntry> = AclEntries::parse(&self.stored, endian)?.collect();
        Ok(Acl::to_xattr(&entries))
    }
}

/// Newest xref of an inode and an attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    sequence: u32,
    /// Flash offset of its node.
    pub(super) at: u32,
}

impl Reference {
    const fn is_deleted(self) -> bool {
        self.sequence & Xref::DELETED != 0
    }
}

/// All attributes, and the inodes that have them.
#[derive(Clone, Debug, Default)]
pub(super) struct Xattrs {
    by_xid: BTreeMap<u32, Attribute>,
    /// Attributes whose name prefix is unknown.
    foreign: BTreeSet<u32>,
    /// References by inode and number of the attribute.
    refs: BTreeMap<(u32, u32), Reference>,
    /// Attributes with two different nodes of the same version. The value is version and position of the ignored node.
    rivals: BTreeMap<u32, NodeRef>,
    /// Highest attribute number and highest sequence number ever seen: obsolete nodes may still be on flash.
    highest_xid: u32,
    highest_sequence: u32,
}

/// The node that loses against a newer node of the same attribute or reference.
#[derive(Clone, Copy)]
pub(super) struct SupersededNode {
    pub(super) at: u32,
    /// Position of the node that was known before.
    pub(super) other: u32,
    /// True if both are equal: copies left by a power cut.
    pub(super) is_copy: bool,
}

impl Xattrs {
    /// Adds an attribute node. The newer one of two wins; the position of the other is returned.
    pub(super) fn add(&mut self, node: &XattrNode<'_>, at: u32) -> Option<SupersededNode> {
        let xattr = &node.xattr;
        self.highest_xid = self.highest_xid.max(xattr.xid);
        if matches!(xattr.prefix, XattrPrefix::Other(_)) {
            self.foreign.insert(xattr.xid);
            return None;
        }
        let name = [xattr.prefix.text().as_bytes(), node.name].concat();
        let new =
            Attribute { version: xattr.version, at, prefix: xattr.prefix, name, stored: node.value.to_vec() };
        let Some(old) = self.by_xid.get_mut(&xattr.xid) else {
            self.by_xid.insert(xattr.xid, new);
            return None;
        };
        let (is_same, other) = (old.version == new.version, old.at);
        let is_copy = is_same && (&old.name, &old.stored) == (&new.name, &new.stored);
        let superseded = if old.order() > new.order() { new } else { std::mem::replace(old, new) };
        if is_same && !is_copy {
            self.rivals.insert(xattr.xid, superseded.order());
        }
        Some(SupersededNode { at: superseded.at, other, is_copy })
    }

    /// Adds a node that gives an attribute to an inode or removes it. The newer one of two wins; the position of the
    /// other is returned.
    pub(super) fn refer(&mut self, xref: &Xref, at: u32) -> Option<SupersededNode> {
        self.highest_xid = self.highest_xid.max(xref.xid);
        self.highest_sequence = self.highest_sequence.max(xref.sequence);
        let new = Reference { sequence: xref.sequence, at };
        let key = (xref.inode, xref.xid);
        let Some(old) = self.refs.get_mut(&key) else {
            self.refs.insert(key, new);
            return None;
        };
        let (is_copy, other) = (old.sequence == new.sequence, old.at);
        let superseded = if old.sequence > new.sequence { new } else { std::mem::replace(old, new) };
        Some(SupersededNode { at: superseded.at, other, is_copy })
    }

    /// Attributes whose nodes contradict each other.
    pub(super) fn faults(&self) -> impl Iterator<Item = Damage> {
        let counts =
            |xid: &u32, version| self.by_xid.get(xid).is_some_and(|newest| newest.version == version);
        let rivals = self.rivals.iter().filter(move |(xid, rival)| counts(xid, rival.version));
        rivals.map(|(&xid, &NodeRef { version, at })| {
            Fault::SameXattrVersion { xid, version }.at(u64::from(at))
        })
    }

    /// Attributes that inodes refer to but whose node with name and value is missing.
    pub(super) fn lost(&self) -> impl Iterator<Item = Damage> {
        let is_known = |xid: &u32| self.by_xid.contains_key(xid) || self.foreign.contains(xid);
        let lost = self.refs.iter().filter(move |((_, xid), one)| !one.is_deleted() && !is_known(xid));
        lost.map(|(&(inode, xid), one)| Fault::NoXattr { inode, xid }.at(u64::from(one.at)))
    }

    /// Malformed ACLs of files.
    pub(super) fn bad_acls(&self, endian: Endian) -> impl Iterator<Item = Damage> {
        let live = self.refs.iter().filter(|(_, reference)| !reference.is_deleted());
        live.filter_map(move |(&(inode, xid), reference)| {
            let fault = self.by_xid.get(&xid)?.value(endian).err()?;
            Some(Fault::Acl { inode, xid, fault }.at(u64::from(reference.at)))
        })
    }

    /// Attributes of an inode.
    fn attributes_of(&self, inode: u32) -> impl Iterator<Item = &Attribute> {
        let refs =
            self.refs.range((inode, 0)..=(inode, u32::MAX)).filter(|(_, reference)| !reference.is_deleted());
        refs.filter_map(|((_, xid), _)| self.by_xid.get(xid))
    }

    /// Names of an inode's attributes.
    pub(super) fn names(&self, inode: u32) -> impl Iterator<Item = &[u8]> {
        self.attributes_of(inode).map(|attribute| attribute.name.as_slice())
    }

    /// Value of an inode's attribute as programs see it, `None` if the inode does not have it.
    pub(super) fn value(
        &self,
        inode: u32,
        name: &[u8],
        endian: Endian,
    ) -> Option<Result<Vec<u8>, MediaError>> {
        self.attributes_of(inode)
            .find(|attribute| attribute.name == name)
            .map(|attribute| attribute.value(endian))
    }

    /// Removes the older of two references of an inode to attributes of the same name; an interrupted change leaves
    /// both. Returns pairs of inode and attribute number.
    pub(super) fn take_duplicates(&mut self) -> Vec<(u32, u32)> {
        let mut newest: BTreeMap<(u32, &[u8]), (u32, u32)> = BTreeMap::new();
        let mut doubles = Vec::new();
        for (&(inode, xid), reference) in self.refs.iter().filter(|(_, reference)| !reference.is_deleted()) {
            let Some(attribute) = self.by_xid.get(&xid) else { continue };
            let own = (reference.sequence, xid);
            let other = newest.entry((inode, &attribute.name)).or_insert(own);
            if *other != own {
                doubles.push((inode, own.min(*other).1));
                *other = own.max(*other);
            }
        }
        for key in &doubles {
            if let Some(reference) = self.refs.get_mut(key) {
                reference.sequence |= Xref::DELETED;
            }
        }
        doubles
    }

    /// Number of an inode's attribute with this name.
    pub(super) fn find(&self, inode: u32, name: &[u8]) -> Option<u32> {
        let refs =
            self.refs.range((inode, 0)..=(inode, u32::MAX)).filter(|(_, reference)| !reference.is_deleted());
        refs.map(|((_, xid), _)| *xid)
            .find(|xid| self.by_xid.get(xid).is_some_and(|found| found.name == name))
    }

    /// True if an inode has or had an attribute.
    pub(super) fn knows(&self, inode: u32) -> bool {
        self.refs.range((inode, 0)..=(inode, u32::MAX)).next().is_some()
    }

    /// Numbers for a new attribute and a new reference.
    pub(super) const fn next(&self) -> (u32, u32) {
        (self.highest_xid.saturating_add(1), (self.highest_sequence | Xref::DELETED).saturating_add(1))
    }

    /// Removes references of missing inodes; returns the positions of their nodes.
    pub(super) fn forget(&mut self, is_there: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut gone = Vec::new();
        self.refs.retain(|(inode, _), reference| {
            let stays = is_there(*inode);
            if !stays {
                gone.push(reference.at);
            }
            stays
        });
        gone.extend(self.forget_unused());
        gone
    }

    /// Removes attributes without references; returns the positions of their nodes.
    pub(super) fn forget_unused(&mut self) -> Vec<u32> {
        let live = self.refs.iter().filter(|(_, reference)| !reference.is_deleted());
        let used: BTreeSet<u32> = live.map(|((_, xid), _)| *xid).collect();
        let mut gone = Vec::new();
        self.by_xid.retain(|xid, attribute| {
            let stays = used.contains(xid);
            if !stays {
                gone.push(attribute.at);
            }
            stays
        });
        gone
    }

    /// Updates the position of an attribute's node.
    pub(super) fn moved(&mut self, xid: u32, to: u32) {
        if let Some(attribute) = self.by_xid.get_mut(&xid) {
            attribute.at = to;
        }
    }

    /// Updates the position of a reference's node.
    pub(super) fn moved_reference(&mut self, inode: u32, from: u32, to: u32) {
        let mut refs = self.refs.range_mut((inode, 0)..=(inode, u32::MAX));
        if let Some((_, reference)) = refs.find(|(_, reference)| reference.at == from) {
            reference.at = to;
        }
    }
}
