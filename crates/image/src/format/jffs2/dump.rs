//! Dump of nodes, as one line each or field by field, with the state of each node.

use std::fmt::Debug;

use floatgate_media::MediaError;
use floatgate_media::jffs2::{
    Body, Dirent, DirentNode, Endian, Header, Inode, NodeType, Xattr, XattrNode, Xref,
};
use floatgate_stack::Store;
use floatgate_stack::fs::{BLOCK_BYTES, FileSystem};

use super::mount::{FileJffs2, mount};
use super::nodes::{Piece, pieces};
use super::shape::Jffs2Shape;
use crate::error::{ImageError, LebsOnly};
use crate::format::location::ImageLocation;
use crate::image::Origin;
use crate::report::{DumpTarget, Dumped, hex};
use crate::words::{count, show_name};

/// Finds the selected nodes.
///
/// # Errors
/// The file cannot be read, the nodes do not exist, or the selection does not apply to JFFS2.
pub(crate) fn dump(
    store: Box<dyn Store>,
    again: Box<dyn Store>,
    (found, shape): (&ImageLocation, &Jffs2Shape),
    wanted: &DumpTarget,
    origin: &Origin,
) -> Result<Vec<Dumped>, ImageError> {
    let mut fs = mount(again, found, shape).ok();
    let chosen = Chosen::new(wanted, fs.as_mut())?;
    let fs = fs.map(checked).transpose()?;
    let mut listing = Listing { fs, endian: shape.endian(), wanted: chosen, all: Vec::new() };
    let erase = u64::from(shape.erase_bytes);
    let mut block = vec![0; shape.erase_bytes as usize];
    for (number, start) in (0..).zip((0..found.len).step_by(shape.erase_bytes as usize)) {
        if found.bad_pebs.contains(&number) {
            continue;
        }
        let len = usize::try_from((found.len - start).min(erase)).unwrap_or(block.len());
        store.read_at(found.offset + start, &mut block[..len]).map_err(ImageError::Store)?;
        for (at, piece) in pieces(&block[..len], shape.endian()) {
            listing.add(number, start + at as u64, piece, origin);
        }
    }
    if listing.all.is_empty() {
        let missing = match wanted {
            DumpTarget::Peb(number) if u64::from(*number) >= found.len.div_ceil(erase) => format!(
                "there is no eraseblock {number}: the image has {}",
                count(found.len.div_ceil(erase), "eraseblock")
            ),
            DumpTarget::Peb(number) => format!("eraseblock {number} has no node"),
            DumpTarget::Inode { inode, block: None } => format!("there is no node of inode {inode}"),
            _ => "there is no such node".to_owned(),
        };
        return Err(ImageError::NoNode(missing));
    }
    Ok(listing.all)
}

/// Reads all files, so that the replaced nodes are known.
pub(super) fn checked(mut fs: FileJffs2) -> Result<FileJffs2, ImageError> {
    while fs.check_next()? {}
    Ok(fs)
}

/// Selection of nodes.
enum Chosen {
    All,
    Eraseblock(u32),
    /// Nodes of an inode, or only the nodes with the data at this offset of the file.
    Inode(u32, Option<u64>),
    /// Nodes of a name in a directory.
    Name(u32, Vec<u8>),
}

impl Chosen {
    fn new(wanted: &DumpTarget, fs: Option<&mut FileJffs2>) -> Result<Self, ImageError> {
        let byte = |block: &Option<u32>| block.map(|block| u64::from(block) * BLOCK_BYTES as u64);
        match wanted {
            DumpTarget::Nodes => Ok(Self::All),
            DumpTarget::Peb(number) => Ok(Self::Eraseblock(*number)),
            DumpTarget::Inode { inode, block } => Ok(Self::Inode(*inode, byte(block))),
            DumpTarget::Path { path, block, entry } => {
                let missing = || ImageError::NoNode(format!("there is no {}", show_name(path)));
                let fs = fs.ok_or_else(missing)?;
                let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
                let last = parts.next_back();
                let root = fs.root();
                let directory = parts.try_fold(root, |inode, part| fs.lookup(inode, part));
                let directory = directory.map_err(|_| missing())?;
                match last {
                    Some(name) if *entry => Ok(Self::Name(directory, name.to_vec())),
                    Some(name) => {
                        let inode = fs.lookup(directory, name).map_err(|_| missing())?;
                        Ok(Self::Inode(inode, byte(block)))
                    }
                    None => Ok(Self::Inode(directory, byte(block))),
                }
            }
            DumpTarget::Leb { .. } | DumpTarget::At(_) => Err(ImageError::NotForJffs2(LebsOnly::Leb)),
            DumpTarget::Area(_) => Err(ImageError::NotForJffs2(LebsOnly::Area)),
        }
    }

    fn has(&self, block: u32, node: &Result<Body<'_>, MediaError>) -> bool {
        match (self, node) {
            (Self::All, _) => true,
            (Self::Eraseblock(number), _) => *number == block,
            (Self::Inode(inode, None), Ok(Body::Inode(node))) => node.inode == *inode,
            (Self::Inode(inode, Some(from)), Ok(Body::Inode(node))) => {
                let begins = u64::from(node.offset) < from + BLOCK_BYTES as u64;
                node.inode == *inode && begins && node.end() > *from
            }
            (Self::Name(directory, name), Ok(Body::Dirent(node))) => {
                node.dirent.parent == *directory && node.name == name
            }
            _ => false,
        }
    }
}

struct Listing {
    fs: Option<FileJffs2>,
    endian: Endian,
    wanted: Chosen,
    all: Vec<Dumped>,
}

impl Listing {
    fn add(&mut self, block: u32, at: u64, piece: Piece<'_>, origin: &Origin) {
        let (node_type, mut dumped) = match piece {
            Piece::Erased(_) => return,
            Piece::Unknown(bytes) => {
                let damage = self.header_fault(bytes);
                if !self.wanted.has(block, &Err(damage)) {
                    return;
                }
                (None, of_unknown(bytes, &damage))
            }
            Piece::Node(header, node) => {
                let body = Body::parse(&header, node, self.endian);
                if !self.wanted.has(block, &body) {
                    return;
                }
                let mut dumped = of_parsed(&header, node, &body, self.endian);
                self.set_state(&mut dumped, &header, at);
                (Some(header.node_type), dumped)
            }
        };
        dumped.at = Some(origin.file_byte(at));
        if matches!(self.wanted, Chosen::All) {
            // The hexadecimal digits of a whole image are omitted.
            dumped.payload = String::new();
        }
        dumped.line = line(&dumped, node_type);
        self.all.push(dumped);
    }

    fn header_fault(&self, bytes: &[u8]) -> MediaError {
        match Header::parse(bytes, self.endian) {
            Err(error) => error,
            Ok(header) => floatgate_media::Reason::OutOfRange {
                field: "length of a node",
                value: u64::from(header.len),
            }
            .at(4),
        }
    }

    /// Sets the state of a node: valid or obsolete.
    fn set_state(&self, dumped: &mut Dumped, header: &Header, at: u64) {
        let has_state =
            matches!(header.node_type, NodeType::Inode | NodeType::Dirent | NodeType::Xattr | NodeType::Xref);
        let Some(fs) = self.fs.as_ref().filter(|_| has_state && dumped.damage.is_none()) else { return };
        let is_live = !header.obsolete && fs.is_live(at);
        dumped.add(0, "state", &format_args!("{}", if is_live { "live" } else { "obsolete" }));
    }
}

fn of_unknown(bytes: &[u8], damage: &MediaError) -> Dumped {
    let mut dumped = Dumped::new("no node", bytes.len());
    dumped.damage = Some(damage.to_string());
    dumped.payload = hex(bytes);
    dumped
}

/// Dump of the node that begins with these bytes; `None` if this is no node of JFFS2.
pub(crate) fn of_node(bytes: &[u8]) -> Option<Dumped> {
    let endian = Endian::of_magic(bytes)?;
    let header = match Header::parse(bytes, endian) {
        Ok(header) => header,
        Err(error) => return Some(of_unknown(bytes.get(..Header::SIZE)?, &error)),
    };
    let node = bytes.get(..header.len as usize).unwrap_or(bytes);
    Some(of_parsed(&header, node, &Body::parse(&header, node, endian), endian))
}

fn of_parsed(header: &Header, node: &[u8], body: &Result<Body<'_>, MediaError>, endian: Endian) -> Dumped {
    let mut dumped = Dumped::new(&format!("{} node", kind(header.node_type)), node.len());
    let order = if endian.is_big() { "big" } else { "little" };
    dumped.add(0, "byte_order", &format_args!("{order}"));
    dumped.add(2, "type", &format_args!("{:#06x}", header.node_type.code()));
    dumped.add(4, "len", &header.len);
    if header.obsolete {
        dumped.add(2, "obsolete", &true);
    }
    let size = match body {
        Ok(body) => fields_of(body, &mut dumped),
        Err(error) => {
            dumped.damage = Some(error.to_string());
            Header::SIZE
        }
    };
    dumped.payload = hex(node.get(size..).unwrap_or(&[]));
    dumped
}

/// Adds the fields of a node. Returns their number of bytes.
fn fields_of(body: &Body<'_>, dumped: &mut Dumped) -> usize {
    let mut add = |offset: usize, name: &'static str, value: &dyn Debug| dumped.add(offset, name, value);
    match body {
        Body::Inode(inode) => {
            inode.each_field(&mut add);
            Inode::SIZE
        }
        Body::Dirent(DirentNode { dirent, name }) => {
            dirent.each_field(&mut add);
            dumped.add(Dirent::SIZE, "name", &format_args!("{}", show_name(name)));
            Dirent::SIZE
        }
        Body::Xattr(XattrNode { xattr, name, .. }) => {
            xattr.each_field(&mut add);
            let name = format!("{}{}", xattr.prefix.text(), show_name(name));
            dumped.add(Xattr::SIZE, "name", &format_args!("{name}"));
            Xattr::SIZE
        }
        Body::Xref(xref) => {
            xref.each_field(&mut add);
            Xref::SIZE
        }
        Body::Summary | Body::Other => Header::SIZE,
    }
}

fn kind(node_type: NodeType) -> &'static str {
    match node_type {
        NodeType::Inode => "inode",
        NodeType::Dirent => "dirent",
        NodeType::Xattr => "xattr",
        NodeType::Xref => "xref",
        NodeType::CleanMarker => "clean marker",
        NodeType::Padding => "padding",
        NodeType::Summary => "summary",
        NodeType::Other(_) => "unknown",
    }
}

/// Line about a node: offset, length, and main fields.
fn line(dumped: &Dumped, node_type: Option<NodeType>) -> String {
    let field = |name: &str| {
        let field = dumped.fields.iter().find(|field| field.name == name);
        field.map_or("", |field| field.value.as_str())
    };
    let number = |name: &str| field(name).parse::<u64>().unwrap_or(0);
    let said = match node_type {
        _ if dumped.damage.is_some() => format!("damaged: {}", dumped.damage.as_deref().unwrap_or_default()),
        Some(NodeType::Inode) => format!(
            "inode {}, version {}, bytes {} to {}, {} bytes {}, of {}, CRCs good",
            field("inode"),
            field("version"),
            field("offset"),
            number("offset") + number("file_len"),
            field("data_len"),
            field("compressor").to_lowercase(),
            field("file_bytes"),
        ),
        Some(NodeType::Dirent) => format!(
            "inode {}, version {}, in directory {}, {}, CRCs good",
            field("inode"),
            field("version"),
            field("parent"),
            field("name"),
        ),
        Some(NodeType::Xattr) => {
            format!("attribute {}, version {}, {}, CRCs good", field("xid"), field("version"), field("name"))
        }
        Some(NodeType::Xref) => format!("inode {}, attribute {}, CRCs good", field("inode"), field("xid")),
        _ => String::new(),
    };
    let kind = node_type.map_or("no", kind);
    let at = dumped.at.unwrap_or(0);
    let line = format!("{at:#010x} {:>6}  {kind:<12}  {:<8}  {said}", dumped.len, field("state"));
    line.trim_end().to_owned()
}
