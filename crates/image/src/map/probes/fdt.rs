//! Device trees, and FIT images, which are device trees with images.

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use super::{Begins, Probe};
use crate::map::partitions::{MAX_PARTITIONS, Partition};
use crate::map::probe_match::{Checksum, Inner, Kind, ProbeMatch, Value};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[&[0xD0, 0x0D, 0xFE, 0xED]], step: 4 }, probe };

/// Tokens of the structure block.
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// Largest number of nodes and properties of a tree that are read.
const MAX_ITEMS: usize = 1 << 17;

/// Largest depth of nodes.
const MAX_DEPTH: usize = 32;

/// Length of the longest name of a node or a property.
const NAME_MAX: usize = 128;

/// Length of the longest value that is stored.
const VALUE_MAX: u64 = 4096;

/// A property: its value if it is short, and its offset in the blob.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) value: Vec<u8>,
}

/// A node with its properties. The nodes of a tree have the order of the blob.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Names from the root on; the root has no name.
    pub(crate) path: Vec<String>,
    pub(crate) properties: Vec<Property>,
}

impl Node {
    pub(crate) fn property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }

    /// Value as text; the first of several texts.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.property(name).map(|property| property.value.text(0, property.value.len()))
    }

    /// Value as a 32-bit number.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.property(name).filter(|property| property.len >= 4).map(|property| property.value.be32(0))
    }

    pub(crate) fn is_below(&self, path: &[&str]) -> bool {
        self.path.len() == path.len() + 1 && self.path.iter().zip(path).all(|(own, name)| own == name)
    }
}

/// Parses the tree at the start of a range: its nodes and its length. A tree without its end has the nodes before the
/// cut.
pub(crate) fn parse(view: &View<'_>) -> Option<(Vec<Node>, u64)> {
    let header = view.array::<40>(0)?;
    let header = &header[..];
    let (len, structure, strings) =
        (u64::from(header.be32(4)), u64::from(header.be32(8)), u64::from(header.be32(12)));
    let version = header.be32(20);
    let is_possible = (2..=32).contains(&version)
        && (40..len).contains(&structure)
        && (40..=len).contains(&strings)
        && structure.is_multiple_of(4)
        && len < 1 << 30;
    if !is_possible {
        return None;
    }
    let own = view.slice(0, len);
    let mut reader =
        Reader { view: own, at: structure, strings, nodes: Vec::new(), path: Vec::new(), items: 0 };
    if reader.run().is_none() && !reader.is_at_cut(len) {
        return None;
    }
    Some((reader.nodes, len))
}

struct Reader<'s> {
    view: View<'s>,
    at: u64,
    strings: u64,
    nodes: Vec<Node>,
    /// Indices of the open nodes.
    path: Vec<usize>,
    items: usize,
}

impl Reader<'_> {
    /// Parses the structure block up to its end; `None` if it is damaged.
    fn run(&mut self) -> Option<()> {
        loop {
            self.items += 1;
            if self.items > MAX_ITEMS {
                return None;
            }
            let token = self.word()?;
            match token {
                BEGIN_NODE => self.begin()?,
                END_NODE => drop(self.path.pop()?),
                PROPERTY => self.property()?,
                NOP => {}
                END => return self.path.is_empty().then_some(()).filter(|()| !self.nodes.is_empty()),
                _ => return None,
            }
        }
    }

    /// True if the structure of a tree with `len` bytes is valid up to the last existing byte.
    fn is_at_cut(&self, len: u64) -> bool {
        len > self.view.len() && !self.nodes.is_empty() && self.at + VALUE_MAX > self.view.len()
    }

    fn word(&mut self) -> Option<u32> {
        let word = self.view.be32(self.at)?;
        self.at += 4;
        Some(word)
    }

    /// Text up to a byte 0.
    fn text(&self, at: u64) -> Option<String> {
        let room = usize::try_from(self.view.len().checked_sub(at)?).ok()?.min(NAME_MAX);
        let bytes = self.view.bytes(at, room)?;
        memchr::memchr(0, &bytes)?;
        Some(bytes.text(0, room))
    }

    fn begin(&mut self) -> Option<()> {
        let name = self.text(self.at)?;
        self.at = (self.at + name.len() as u64 + 1).next_multiple_of(4);
        if self.path.len() >= MAX_DEPTH || self.path.is_empty() && !self.nodes.is_empty() {
            return None;
        }
        let mut path = self
            .path
            .last()
            .and_then(|&parent| self.nodes.get(parent))
            .map(|node| node.path.clone())
            .unwrap_or_default();
        if !self.path.is_empty() {
            path.push(name);
        }
        self.path.push(self.nodes.len());
        self.nodes.push(Node { path, properties: Vec::new() });
        Some(())
    }

    fn property(&mut self) -> Option<()> {
        let (len, name_at) = (u64::from(self.word()?), u64::from(self.word()?));
        // Names follow the structure; if the end of a tree is missing, they are unknown.
        let is_missing = self.strings + name_at >= self.view.len();
        let name = if is_missing { String::new() } else { self.text(self.strings + name_at)? };
        let kept = usize::try_from(len.min(VALUE_MAX)).ok()?;
        let value = self.view.bytes(self.at, kept)?;
        let property = Property { name, at: self.at, len, value };
        self.at = (self.at + len).next_multiple_of(4);
        if self.at > self.view.len() {
            return None;
        }
        self.nodes.get_mut(*self.path.last()?)?.properties.push(property);
        Some(())
    }
}

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let (nodes, len) = parse(view)?;
    let root = nodes.first()?;
    if nodes.iter().any(|node| node.is_below(&["images"])) {
        return Some(fit(view, &nodes, len));
    }
    let compatible = root.text("compatible").unwrap_or_default();
    let mut found = ProbeMatch::new(Kind::DeviceTree, len)
        .text("model", root.text("model").unwrap_or_default())
        .text("compatible", compatible)
        .number("nodes", nodes.len() as u64);
    found.partitions = partitions(&nodes);
    Some(found)
}

/// Match of a FIT image: its images with their hashes.
fn fit(view: &View<'_>, nodes: &[Node], len: u64) -> ProbeMatch {
    let root = nodes.first();
    let mut found = ProbeMatch::new(Kind::Fit, len)
        .text("description", root.and_then(|root| root.text("description")).unwrap_or_default());
    if let Some(time) = root.and_then(|root| root.number("timestamp")) {
        found = found.number("time", time);
    }
    let default =
        nodes.iter().find(|node| node.path == ["configurations"]).and_then(|node| node.text("default"));
    found = found.text("default", default.unwrap_or_default());
    for node in nodes.iter().filter(|node| node.is_below(&["images"])) {
        let Some((at, bytes)) = data(node, len) else { continue };
        let name = node.path.last().cloned().unwrap_or_default();
        let checksum = hashes(view, nodes, node, (at, bytes));
        let mut inner = Inner { checksum, ..Inner::new(name, at, bytes) };
        for property in ["description", "type", "arch", "compression"] {
            inner.facts.0.extend(node.text(property).map(|text| (fact_name(property), Value::Text(text))));
        }
        found.len = found.len.max(at.saturating_add(bytes));
        if checksum != Checksum::None {
            found = found.sum_is(checksum == Checksum::Good);
        }
        found = found.with(inner);
    }
    found
}

fn fact_name(property: &str) -> &'static str {
    match property {
        "description" => "description",
        "type" => "type",
        "arch" => "arch",
        _ => "compression",
    }
}

/// Offset and length of an image's data: within the tree, after the tree, or at an offset of the file.
fn data(node: &Node, tree: u64) -> Option<(u64, u64)> {
    if let Some(data) = node.property("data") {
        return Some((data.at, data.len));
    }
    let len = u64::from(node.number("data-size")?);
    let at = match (node.number("data-position"), node.number("data-offset")) {
        (Some(position), _) => u64::from(position),
        (None, Some(offset)) => tree.next_multiple_of(4) + u64::from(offset),
        (None, None) => return None,
    };
    Some((at, len))
}

/// Result of the hashes of an image.
fn hashes(view: &View<'_>, nodes: &[Node], image: &Node, (at, len): (u64, u64)) -> Checksum {
    let path: Vec<&str> = image.path.iter().map(String::as_str).collect();
    let below = nodes.iter().filter(|node| node.is_below(&path));
    let of_hash = below.filter(|node| node.path.last().is_some_and(|name| name.starts_with("hash")));
    let results = of_hash.filter_map(|node| {
        let (stored, range) = (node.property("value")?, at..at.checked_add(len)?);
        let computed = match node.text("algo")?.as_str() {
            "crc32" => view.crc32(range)?.to_be_bytes().to_vec(),
            "sha1" => {
                let mut hash = Sha1::new();
                view.each_piece(range, |piece| hash.update(piece))?;
                hash.finalize().to_vec()
            }
            "sha256" => {
                let mut hash = Sha256::new();
                view.each_piece(range, |piece| hash.update(piece))?;
                hash.finalize().to_vec()
            }
            _ => return None,
        };
        Some(computed == stored.value)
    });
    let mut checksum = Checksum::None;
    for is_good in results {
        if checksum != Checksum::Bad {
            checksum = is_good.into();
        }
    }
    checksum
}

/// Partitions of a device tree, which are below a node that is compatible with `fixed-partitions`.
fn partitions(nodes: &[Node]) -> Vec<Partition> {
    let mut all = Vec::new();
    for parent in nodes.iter().filter(|node| node.text("compatible").as_deref() == Some("fixed-partitions")) {
        let cells = |name| parent.number(name).unwrap_or(1).clamp(1, 2) as usize;
        let (address, size) = (cells("#address-cells"), cells("#size-cells"));
        let path: Vec<&str> = parent.path.iter().map(String::as_str).collect();
        let device = path.iter().rev().find(|name| **name != "partitions").map(|name| (*name).to_owned());
        for node in nodes.iter().filter(|node| node.is_below(&path)).take(MAX_PARTITIONS) {
            let Some(reg) = node.property("reg") else { continue };
            let number = |from: usize, cells: usize| {
                let bytes = reg.value.get(4 * from..4 * (from + cells))?;
                Some(bytes.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte)))
            };
            let Some((offset, len)) = number(0, address).zip(number(address, size)) else { continue };
            let name = node.text("label").or_else(|| node.path.last().cloned()).unwrap_or_default();
            all.push(Partition {
                device: device.clone(),
                read_only: node.property("read-only").is_some(),
                ..Partition::new("device tree", name, offset, Some(len))
            });
        }
    }
    all
}
