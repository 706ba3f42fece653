//! Extended attributes: xattr nodes contain name and value (`docs/spec/jffs2.md#xattr`), xref nodes assign an attribute to
//! an inode (`docs/spec/jffs2.md#xref`).

use super::header::{Header, NodeType, check_crc, check_fields, fields_crc};
use super::{Endian, NODE_ALIGN};
use crate::crc;
use crate::error::MediaError;
use crate::wire::{codes, layout, span};

const XATTR_DATA_CRC_AT: usize = 24;
const XATTR_NODE_CRC_AT: usize = 28;
const XREF_NODE_CRC_AT: usize = 24;

codes! {
    /// Namespace of an extended attribute's name.
    pub enum XattrPrefix(u8) {
        /// Names that begin with `user.`.
        User = 1,
        /// Names that begin with `security.`.
        Security = 2,
        /// The access ACL, `system.posix_acl_access`; the stored name is empty.
        AclAccess = 3,
        /// The default ACL, `system.posix_acl_default`; the stored name is empty.
        AclDefault = 4,
        /// Names that begin with `trusted.`.
        Trusted = 5,
    }
}

impl XattrPrefix {
    /// Prefix before the stored name; empty for an unknown namespace.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::User => "user.",
            Self::Security => "security.",
            Self::AclAccess => "system.posix_acl_access",
            Self::AclDefault => "system.posix_acl_default",
            Self::Trusted => "trusted.",
            Self::Other(_) => "",
        }
    }

    /// True for POSIX ACLs, whose values have a separate format: [`AclEntries`](super::AclEntries).
    #[must_use]
    pub const fn is_acl(self) -> bool {
        matches!(self, Self::AclAccess | Self::AclDefault)
    }

    /// The namespace of a full name and the part of the name that a node stores; `None` for a name outside the namespaces of
    /// JFFS2.
    #[must_use]
    pub fn split(name: &[u8]) -> Option<(Self, &[u8])> {
        let whole =
            [Self::AclAccess, Self::AclDefault].into_iter().find(|prefix| prefix.text().as_bytes() == name);
        if let Some(prefix) = whole {
            return Some((prefix, &[]));
        }
        [Self::User, Self::Security, Self::Trusted].into_iter().find_map(|prefix| {
            let rest = name.strip_prefix(prefix.text().as_bytes())?;
            (!rest.is_empty()).then_some((prefix, rest))
        })
    }
}

layout! {
    /// An xattr node without its header, name and value.
    pub either_endian struct Xattr[32] {
        /// Number (xid) of the attribute, to which [`Xref`] refers.
        12 => xid: u32,
        /// Version of the node; of two nodes of an attribute, the higher version is valid.
        16 => version: u32,
        /// Namespace of the name.
        20 => prefix: XattrPrefix,
        /// Length of the name, bytes.
        21 => name_len: u8,
        /// Length of the value, bytes.
        22 => value_len: u16,
        /// CRC of the name, its terminating zero and the value.
        24 => data_crc: u32,
        /// CRC of the fields before both CRCs.
        28 => node_crc: u32,
    }
}

impl Xattr {
    /// Overwrites the fixed fields of a node, whose name and value stay unchanged. The CRC is computed.
    ///
    /// # Panics
    ///
    /// `node` is shorter than the fields.
    pub fn emit_fields(&self, endian: Endian, node: &mut [u8]) {
        endian.put(self, node, 0);
        let node_crc = fields_crc(&node[..XATTR_NODE_CRC_AT], endian);
        endian.put(&node_crc, node, XATTR_NODE_CRC_AT);
    }
}

/// An xattr node with name and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrNode<'a> {
    /// Fixed fields of the node.
    pub xattr: Xattr,
    /// Name of the attribute without its namespace prefix.
    pub name: &'a [u8],
    /// Value of the attribute.
    pub value: &'a [u8],
}

impl<'a> XattrNode<'a> {
    /// Reads a node and checks its CRCs.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC.
    pub fn parse(bytes: &'a [u8], endian: Endian) -> Result<Self, MediaError> {
        let fields = span(bytes, 0, Xattr::SIZE)?;
        let xattr: Xattr = endian.decode(fields, 0);
        check_fields("xattr", XATTR_NODE_CRC_AT, xattr.node_crc, (&fields[..XATTR_NODE_CRC_AT], endian))?;
        let (name_len, value_len) = (usize::from(xattr.name_len), usize::from(xattr.value_len));
        let data = span(bytes, Xattr::SIZE, name_len + 1 + value_len)?;
        check_crc("xattr data", XATTR_DATA_CRC_AT, xattr.data_crc, data)?;
        Ok(Self { xattr, name: &data[..name_len], value: &data[name_len + 1..] })
    }
}

impl XattrNode<'_> {
    /// Size of the node, B. It must be a multiple of [`NODE_ALIGN`], unlike other node types: Linux treats an xattr node of
    /// any other length as damaged.
    #[must_use]
    pub const fn size(&self) -> usize {
        (Xattr::SIZE + self.name.len() + 1 + self.value.len()).next_multiple_of(NODE_ALIGN as usize)
    }

    /// Writes the node. Lengths and CRCs are computed.
    ///
    /// # Panics
    ///
    /// `out` is not as long as the node, or name or value is longer than its length field allows.
    pub fn emit(&self, endian: Endian, out: &mut [u8]) {
        assert!(self.name.len() <= usize::from(u8::MAX) && self.value.len() <= usize::from(u16::MAX));
        let (head, rest) = out.split_at_mut(Xattr::SIZE);
        let (data, padding) = rest.split_at_mut(self.name.len() + 1 + self.value.len());
        padding.fill(0xFF);
        data[..self.name.len()].copy_from_slice(self.name);
        data[self.name.len()] = 0;
        data[self.name.len() + 1..].copy_from_slice(self.value);
        let xattr = Xattr {
            name_len: self.name.len() as u8,
            value_len: self.value.len() as u16,
            data_crc: crc::jffs2(data),
            ..self.xattr
        };
        Header::new(NodeType::Xattr, self.size() as u32).emit(endian, head);
        xattr.emit_fields(endian, head);
    }
}

layout! {
    /// An xref node without its header; it assigns an attribute to an inode.
    pub either_endian struct Xref[28] {
        /// Inode number.
        12 => inode: u32,
        /// Number (xid) of the attribute.
        16 => xid: u32,
        /// Sequence number; of two nodes with the same inode and attribute, the higher is valid.
        20 => sequence: u32,
        /// CRC of the fields before this one.
        24 => node_crc: u32,
    }
}

impl Xref {
    /// Bit of the sequence number that marks the attribute as removed from the inode.
    pub const DELETED: u32 = 1;

    /// Reads a node and checks its CRC.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self, MediaError> {
        let bytes = span(bytes, 0, Self::SIZE)?;
        let xref: Self = endian.decode(bytes, 0);
        check_fields("xref", XREF_NODE_CRC_AT, xref.node_crc, (&bytes[..XREF_NODE_CRC_AT], endian))?;
        Ok(xref)
    }

    /// Writes the node. The CRC is computed.
    ///
    /// # Panics
    ///
    /// `out` is shorter than the node.
    pub fn emit(&self, endian: Endian, out: &mut [u8]) {
        endian.put(&Self { node_crc: 0, ..*self }, out, 0);
        Header::new(NodeType::Xref, Self::SIZE as u32).emit(endian, out);
        endian.put(&fields_crc(&out[..XREF_NODE_CRC_AT], endian), out, XREF_NODE_CRC_AT);
    }

    /// True when the inode no longer has the attribute.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.sequence & Self::DELETED != 0
    }
}
