//! Dump of nodes, field by field, with their positions.

use std::fmt::Debug;

use floatgate_media::ubifs::{Frame, LOG_LEB, NODE_MAGIC, Node, ROOT_INODE};
use floatgate_stack::ubifs::{Authenticate, Survey, Tree, probe};
use floatgate_stack::{Store, Volume};

use crate::ImageError;
use crate::format::mapped::MappedVolume;
use crate::format::ubi::dump::of_peb;
use crate::format::volume::open_volume;
use crate::image::Origin;
use crate::report::{Area, DumpTarget, Dumped, hex};
use crate::selection::Chosen;
use crate::words::show_name;

/// Finds the requested structure in the selected volume.
///
/// # Errors
/// It does not exist, several volumes exist and none is selected, or the file cannot be read.
pub(crate) fn dump(chosen: Chosen<'_>, wanted: &DumpTarget) -> Result<Vec<Dumped>, ImageError> {
    let (mut volume, device, origin) = open_volume(chosen)?;
    let positions = match wanted {
        DumpTarget::At(_) => Vec::new(),
        DumpTarget::Nodes => return Err(ImageError::NotJffs2("a list of nodes")),
        DumpTarget::Peb(pnum) => return of_peb(device.as_ref(), *pnum, &origin),
        DumpTarget::Leb { lnum, offset } => vec![(*lnum, *offset)],
        DumpTarget::Area(area) => positions_of(&mut volume, *area)?,
        DumpTarget::Inode { inode, block } => {
            let (position, back) = of_inode(volume, *inode, *block, &chosen.selection.authenticate)?;
            volume = back;
            vec![position]
        }
        DumpTarget::Path { path, block, entry } => {
            let (position, back) = of_path(volume, path, (*block, *entry), &chosen.selection.authenticate)?;
            volume = back;
            vec![position]
        }
    };
    if positions.is_empty() {
        return Err(ImageError::NoNode("there is no node in this area".to_owned()));
    }
    positions.into_iter().map(|(lnum, offset)| node_at(&mut volume, lnum, offset, &origin)).collect()
}

/// LEB number and offset of a node, and the volume, which is returned.
type NodePosition<S> = ((u32, u32), MappedVolume<S>);

fn of_inode<S: Store + 'static>(
    volume: MappedVolume<S>,
    inode: u32,
    block: Option<u32>,
    authenticate: &Authenticate,
) -> Result<NodePosition<S>, ImageError> {
    let survey = Survey::authenticated(volume, authenticate).map_err(|(error, _)| error)?;
    let position = node_of(survey.tree(), inode, block);
    Ok((position?, survey.into_volume()))
}

fn of_path<S: Store + 'static>(
    volume: MappedVolume<S>,
    path: &[u8],
    (block, entry): (Option<u32>, bool),
    authenticate: &Authenticate,
) -> Result<NodePosition<S>, ImageError> {
    let survey = Survey::authenticated(volume, authenticate).map_err(|(error, _)| error)?;
    let tree = survey.tree();
    let missing = || ImageError::NoNode(format!("there is no {}", show_name(path)));
    let mut inode = ROOT_INODE;
    let mut last = None;
    for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
        let child = tree.files.get(&inode).and_then(|file| file.entries.get(part)).ok_or_else(missing)?;
        (inode, last) = (child.inode, Some(child.place));
    }
    let position = match last.filter(|_| entry) {
        Some(position) => Ok((position.lnum, position.offset)),
        None => node_of(tree, inode, block),
    };
    Ok((position?, survey.into_volume()))
}

fn node_of(tree: &Tree, inode: u32, block: Option<u32>) -> Result<(u32, u32), ImageError> {
    let missing = || ImageError::NoNode(format!("there is no inode {inode}"));
    let file = tree.files.get(&inode).ok_or_else(missing)?;
    let position = match block {
        Some(block) => {
            let hole = || ImageError::NoNode(format!("inode {inode} has no block {block}: it is a hole"));
            file.blocks.get(&block).ok_or_else(hole)?.place
        }
        None => Some(file.place).filter(|position| position.len > 0).ok_or_else(missing)?,
    };
    Ok((position.lnum, position.offset))
}

/// Positions of the nodes of an area.
fn positions_of<S: Store + 'static>(
    volume: &mut MappedVolume<S>,
    area: Area,
) -> Result<Vec<(u32, u32)>, ImageError> {
    let lebs = match area {
        Area::Superblock => 0..1,
        Area::Master | Area::Index => 1..LOG_LEB,
        Area::Log | Area::Orphans => {
            let (superblock, _) = probe(volume)?;
            let log_end = LOG_LEB.saturating_add(superblock.log_lebs);
            let orphans = log_end.saturating_add(superblock.lpt_lebs);
            let range = if area == Area::Log {
                LOG_LEB..log_end
            } else {
                orphans..orphans.saturating_add(superblock.orphan_lebs)
            };
            range.start..range.end.min(volume.geometry().lebs.max(range.start))
        }
    };
    let mut positions = Vec::new();
    let mut root = None;
    for lnum in lebs {
        let mut bytes = vec![0; volume.geometry().leb_bytes as usize];
        volume.read(lnum, 0, &mut bytes).map_err(floatgate_stack::ubifs::Error::from)?;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= 24) {
            let Ok(frame) = Frame::parse(rest) else {
                at += 8;
                continue;
            };
            match frame.node() {
                Ok(Node::Padding(padding)) => {
                    at += usize::try_from(padding.total_bytes()).unwrap_or(rest.len())
                }
                node => {
                    if let Ok(Node::Master(master)) = node {
                        root = Some((master.root_lnum, master.root_offset));
                    }
                    positions.push((lnum, u32::try_from(at).unwrap_or(u32::MAX)));
                    at += frame.as_bytes().len().next_multiple_of(8);
                }
            }
        }
    }
    Ok(if area == Area::Index { root.into_iter().collect() } else { positions })
}

pub(crate) fn node_at<S: Store + 'static>(
    volume: &mut MappedVolume<S>,
    lnum: u32,
    offset: u32,
    origin: &Origin,
) -> Result<Dumped, ImageError> {
    let leb_bytes = volume.geometry().leb_bytes;
    if lnum >= volume.geometry().lebs || offset >= leb_bytes {
        let what = format!("there is no byte {offset} in LEB {lnum}: LEBs have {leb_bytes} bytes");
        return Err(ImageError::NoNode(what));
    }
    let mut bytes = vec![0; (leb_bytes - offset) as usize];
    volume.read(lnum, offset, &mut bytes).map_err(floatgate_stack::ubifs::Error::from)?;
    let mut dumped = of_node(&bytes);
    (dumped.leb, dumped.leb_offset) = (Some(lnum), Some(offset));
    dumped.at = volume.place(lnum).map(|position| origin.file_byte(position + u64::from(offset)));
    if dumped.at.is_none() {
        dumped.damage = Some("the LEB is not mapped".to_owned());
    }
    Ok(dumped)
}

pub(crate) fn of_node(bytes: &[u8]) -> Dumped {
    let frame = match Frame::parse(bytes) {
        Ok(frame) => frame,
        Err(error) => {
            let mut dumped = Dumped::new("unknown", 0);
            dumped.damage = Some(error.to_string());
            raw_header(bytes, &mut dumped);
            return dumped;
        }
    };
    let node = frame.as_bytes();
    let mut dumped = Dumped::new(&format!("{:?} node", frame.node_type).to_lowercase(), node.len());
    raw_header(node, &mut dumped);
    match frame.node() {
        Ok(parsed) => fields_of(&parsed, node, &mut dumped),
        Err(error) => dumped.damage = Some(error.to_string()),
    }
    dumped
}

/// Common header of a node, even of a damaged one.
fn raw_header(bytes: &[u8], dumped: &mut Dumped) {
    let word = |at: usize| {
        bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    let magic = word(0);
    dumped.add(0, "magic", &format_args!("{magic:#010x}"));
    if magic != u32::from_le_bytes(NODE_MAGIC) {
        return;
    }
    let sqnum = bytes.get(8..16).and_then(|field| field.try_into().ok()).map_or(0, u64::from_le_bytes);
    dumped.add(4, "crc", &format_args!("{:#010x}", word(4)));
    dumped.add(8, "sqnum", &sqnum);
    dumped.add(16, "len", &word(16));
    dumped.add(20, "node_type", &bytes.get(20).copied().unwrap_or(0));
    dumped.add(21, "group", &bytes.get(21).copied().unwrap_or(0));
}

fn fields_of(node: &Node<'_>, bytes: &[u8], dumped: &mut Dumped) {
    let mut size = 24;
    {
        let add = &mut |offset: usize, name: &'static str, value: &dyn Debug| dumped.add(offset, name, value);
        size = match node {
            Node::Inode(node) => (node.inode.each_field(add), floatgate_media::ubifs::Inode::SIZE).1,
            Node::Data(node) => (node.block.each_field(add), floatgate_media::ubifs::Block::SIZE).1,
            Node::Entry(node) => (node.entry.each_field(add), floatgate_media::ubifs::Entry::SIZE).1,
            Node::Truncation(node) => (node.each_field(add), bytes.len()).1,
            Node::Padding(node) => (node.each_field(add), bytes.len()).1,
            Node::Superblock(node) => (node.each_field(add), bytes.len()).1,
            Node::Master(node) => (node.each_field(add), bytes.len()).1,
            Node::Reference(node) => (node.each_field(add), bytes.len()).1,
            Node::CommitStart(node) => (node.each_field(add), bytes.len()).1,
            _ => size,
        };
    }
    match node {
        Node::Entry(node) => dumped.add(size, "name", &format_args!("{}", show_name(node.name))),
        Node::Index(node) => {
            dumped.add(24, "children", &node.branches().count());
            dumped.add(26, "level", &node.level());
            for branch in node.branches() {
                let floatgate_media::ubifs::Branch { lnum, offset, len, key, .. } = branch;
                dumped.add(28, "branch", &format_args!("{key:?} at LEB {lnum}:{offset}, {len} bytes"));
            }
            return;
        }
        Node::Orphan(node) => {
            dumped.add(24, "commit", &node.commit);
            dumped.add(24, "last", &node.last);
            for inode in node.inums() {
                dumped.add(32, "inode", &inode);
            }
            return;
        }
        _ => {}
    }
    dumped.payload = hex(bytes.get(size..).unwrap_or(&[]));
}
