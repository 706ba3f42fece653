//! Extended attributes.

use floatgate_media::jffs2::{XattrNode, XattrPrefix, Xref};
use std::collections::BTreeMap;

/// An attribute, which several inodes can have.
#[derive(Debug)]
struct Attribute {
    version: u32,
    /// With its prefix.
    name: Vec<u8>,
    value: Vec<u8>,
}

/// All attributes, and the inodes that have them.
#[derive(Debug, Default)]
pub(super) struct Xattrs {
    by_xid: BTreeMap<u32, Attribute>,
    /// By inode and number of the attribute: sequence number, and true if it was taken away.
    refs: BTreeMap<(u32, u32), (u32, bool)>,
}

impl Xattrs {
    /// Takes in a node; a newer one of the attribute takes its place.
    pub(super) fn add(&mut self, node: &XattrNode<'_>) {
        let xattr = &node.xattr;
        if matches!(xattr.prefix, XattrPrefix::Other(_)) {
            return;
        }
        if self.by_xid.get(&xattr.xid).is_some_and(|old| old.version > xattr.version) {
            return;
        }
        let name = [xattr.prefix.text().as_bytes(), node.name].concat();
        let attribute = Attribute { version: xattr.version, name, value: node.value.to_vec() };
        self.by_xid.insert(xattr.xid, attribute);
    }

    /// Takes in a node that gives an attribute to an inode, or takes it away.
    pub(super) fn refer(&mut self, xref: &Xref) {
        let new = (xref.sequence, xref.is_deleted());
        let newest = self.refs.entry((xref.inode, xref.xid)).or_insert(new);
        if newest.0 <= new.0 {
            *newest = new;
        }
    }

    /// Names and values of an inode.
    pub(super) fn of(&self, inode: u32) -> impl Iterator<Item = (&[u8], &[u8])> {
        let refs = self.refs.range((inode, 0)..=(inode, u32::MAX)).filter(|(_, (_, deleted))| !deleted);
        let attributes = refs.filter_map(|((_, xid), _)| self.by_xid.get(xid));
        attributes.map(|attribute| (attribute.name.as_slice(), attribute.value.as_slice()))
    }
}
