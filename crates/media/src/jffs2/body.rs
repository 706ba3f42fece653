//! Decoded content of a JFFS2 node of any type whose CRCs are good.

use super::{Compressor, DirentNode, Endian, Header, Inode, NodeType, Summary, XattrNode, Xref};
use crate::error::MediaError;

/// Body of a node whose CRCs are good.
#[derive(Clone, Copy, Debug)]
pub enum Body<'b> {
    /// Attributes of an inode, with a part of its data.
    Inode(Inode),
    /// Name of an inode in a directory.
    Dirent(DirentNode<'b>),
    /// Name and value of an extended attribute.
    Xattr(XattrNode<'b>),
    /// Inode that has an extended attribute.
    Xref(Xref),
    /// List of the nodes of an eraseblock.
    Summary,
    /// A node without content that this crate decodes.
    Other,
}

impl<'b> Body<'b> {
    /// Reads a node behind its header, and checks all its CRCs.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC.
    pub fn parse(header: &Header, node: &'b [u8], endian: Endian) -> Result<Self, MediaError> {
        match header.node_type {
            NodeType::Inode => {
                let inode = Inode::parse(node, endian)?;
                let data = node.get(Inode::SIZE..).and_then(|data| data.get(..inode.data_len as usize));
                // Linux does not verify the CRC of the data of a hole.
                if inode.compressor != Compressor::Zero {
                    inode.check_data(data.unwrap_or_default())?;
                }
                Ok(Self::Inode(inode))
            }
            NodeType::Dirent => DirentNode::parse(node, endian).map(Self::Dirent),
            NodeType::Xattr => XattrNode::parse(node, endian).map(Self::Xattr),
            NodeType::Xref => Xref::parse(node, endian).map(Self::Xref),
            NodeType::Summary => Summary::parse(node, endian).map(|_| Self::Summary),
            _ => Ok(Self::Other),
        }
    }

    /// True for nodes with the content of files: the nodes that garbage collection moves.
    #[must_use]
    pub const fn is_content(&self) -> bool {
        matches!(self, Self::Inode(_) | Self::Dirent(_) | Self::Xattr(_) | Self::Xref(_))
    }
}
