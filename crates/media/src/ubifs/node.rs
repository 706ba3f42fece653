//! Parsed nodes of all types.

use super::header::{Frame, NodeBody, NodeType};
use super::{
    AuthNode, CommitStart, DataNode, EntryNode, IndexNode, InodeNode, Limits, Master, OrphanNode,
    PaddingNode, Reference, SignatureNode, Superblock, Truncation,
};
use crate::error::{MediaError, Reason};
use crate::wire::Wire;

/// A parsed node of any type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node<'a> {
    /// Inode node.
    Inode(InodeNode<'a>),
    /// Data node: a block of a file.
    Data(DataNode<'a>),
    /// Entry node: a directory entry, or the name of an extended attribute.
    Entry(EntryNode<'a>),
    /// Truncation node.
    Truncation(Truncation),
    /// Padding node.
    Padding(PaddingNode),
    /// Superblock node.
    Superblock(Superblock),
    /// A master node.
    Master(Master),
    /// Reference node: a LEB of the journal.
    Reference(Reference),
    /// Index node of the B+ tree.
    Index(IndexNode<'a>),
    /// Commit start node in the log.
    CommitStart(CommitStart),
    /// Orphan node.
    Orphan(OrphanNode<'a>),
    /// Authentication node: an HMAC of the journal.
    Auth(AuthNode<'a>),
    /// Signature node of the superblock.
    Signature(SignatureNode<'a>),
}

impl<'a> Node<'a> {
    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        Ok(match frame.node_type {
            NodeType::Inode => Self::Inode(InodeNode::from_frame(frame)?),
            NodeType::Data => Self::Data(DataNode::from_frame(frame)?),
            NodeType::Entry | NodeType::XattrEntry => Self::Entry(EntryNode::from_frame(frame)?),
            NodeType::Truncation => Self::Truncation(Truncation::decode(bytes, 0)),
            NodeType::Padding => Self::Padding(PaddingNode::decode(bytes, 0)),
            NodeType::Superblock => Self::Superblock(Superblock::decode(bytes, 0)),
            NodeType::Master => Self::Master(Master::decode(bytes, 0)),
            NodeType::Reference => Self::Reference(Reference::decode(bytes, 0)),
            NodeType::Index => Self::Index(IndexNode::from_frame(frame)?),
            NodeType::CommitStart => Self::CommitStart(CommitStart::decode(bytes, 0)),
            NodeType::Orphan => Self::Orphan(OrphanNode::from_frame(frame)?),
            NodeType::Auth => Self::Auth(AuthNode::from_frame(frame)),
            NodeType::Signature => Self::Signature(SignatureNode::from_frame(frame)?),
            NodeType::Other(code) => {
                return Err(Reason::UnknownCode { what: "node type", code: u32::from(code) }.at(20));
            }
        })
    }

    /// Checks the fields against the limits of the superblock. A superblock is checked by itself.
    ///
    /// # Errors
    ///
    /// The first invalid field, with its offset in the node.
    pub fn check(&self, limits: &Limits) -> Result<(), MediaError> {
        match self {
            Self::Inode(node) => node.check(),
            Self::Data(node) => node.check(),
            Self::Entry(node) => node.check(),
            Self::Truncation(node) => node.check(),
            Self::Padding(node) => node.check(limits),
            Self::Superblock(node) => node.check(),
            Self::Master(node) => node.check(limits),
            Self::Reference(node) => node.check(limits),
            Self::Index(node) => node.check(limits),
            Self::CommitStart(_) | Self::Orphan(_) | Self::Auth(_) | Self::Signature(_) => Ok(()),
        }
    }

    fn body(&self) -> &dyn NodeBody {
        match self {
            Self::Inode(node) => node,
            Self::Data(node) => node,
            Self::Entry(node) => node,
            Self::Truncation(node) => node,
            Self::Padding(node) => node,
            Self::Superblock(node) => node,
            Self::Master(node) => node,
            Self::Reference(node) => node,
            Self::Index(node) => node,
            Self::CommitStart(node) => node,
            Self::Orphan(node) => node,
            Self::Auth(node) => node,
            Self::Signature(node) => node,
        }
    }
}

impl NodeBody for Node<'_> {
    fn node_type(&self) -> NodeType {
        self.body().node_type()
    }

    fn node_bytes(&self) -> usize {
        self.body().node_bytes()
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        self.body().put_fields(out)
    }
}
