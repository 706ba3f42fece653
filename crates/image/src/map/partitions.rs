//! Partitions that a dump lists itself, and pairs of environments.

use std::ops::Range;

use serde::Serialize;

use super::probe_match::{Checksum, Kind, Value};
use super::probes::fdt::Node;
use super::probes::uboot_env::{Header, begins_variable, describe};
use super::{Part, View};

/// Largest number of partitions in a list.
const MAX_PARTITIONS: usize = 256;

/// Distance between offsets at which a damaged environment is searched, bytes.
const STEP: u64 = 4096;

/// Number of examined bytes of an environment: the header, and the name of a variable.
const HEAD: usize = 128;

/// Name of the list of partitions in the kernel's arguments.
const MTDPARTS: &str = "mtdparts";

/// A partition of the flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Source of the entry: `GPT`, `MBR`, `mtdparts`, `device tree`.
    pub source: &'static str,
    /// Offset of the list in the flash.
    pub table_at: u64,
    /// Device of the partition, if the list names one.
    pub device: Option<String>,
    /// Name of the partition.
    pub name: String,
    /// Offset in the flash.
    pub offset: u64,
    /// Length in bytes; `None` if the partition extends to the end of the flash.
    pub len: Option<u64>,
    /// True for a read-only partition.
    pub read_only: bool,
}

impl Partition {
    pub(super) fn new(source: &'static str, name: String, offset: u64, len: Option<u64>) -> Self {
        Self { source, table_at: 0, device: None, name, offset, len, read_only: false }
    }

    /// True if another copy of the list contains the same partition.
    fn is_same(&self, other: &Self) -> bool {
        *self == Self { table_at: self.table_at, ..other.clone() }
    }
}

/// Removes duplicate partitions, because a dump may contain copies of the list.
pub(super) fn without_copies(all: Vec<Partition>) -> Vec<Partition> {
    let mut kept: Vec<Partition> = Vec::new();
    for partition in all {
        if kept.len() < MAX_PARTITIONS && !kept.iter().any(|other| other.is_same(&partition)) {
            kept.push(partition);
        }
    }
    kept
}

/// Partitions of `mtdparts` in the variables of an environment, either in its own variable or in the kernel's
/// arguments.
pub(super) fn of_variables(variables: &[(String, String)]) -> Vec<Partition> {
    let of_own = variables.iter().find(|(name, _)| name == "mtdparts").map(|(_, value)| value.as_str());
    let within = || {
        variables
            .iter()
            .find_map(|(_, value)| value.split_whitespace().find(|word| word.starts_with("mtdparts=")))
    };
    let Some(text) = of_own.or_else(within) else { return Vec::new() };
    parse_mtdparts(text.trim_start_matches("mtdparts="))
}

/// Parses `ID:SIZE[@OFFSET](NAME)[ro],..;ID:..` in the same way as Linux's command line parser.
fn parse_mtdparts(text: &str) -> Vec<Partition> {
    let text = text.split_whitespace().next().unwrap_or_default();
    let devices = text.split(';').filter_map(|device| device.rsplit_once(':').or(None).map(|_| device));
    let mut all = Vec::new();
    for device in devices {
        // The name of a device may contain colons; the sizes follow the last colon before the first comma or
        // parenthesis.
        let list_at = device.find(['(', ',']).unwrap_or(device.len());
        let Some(colon) = device[..list_at].rfind(':') else { continue };
        let (id, list) = (&device[..colon], &device[colon + 1..]);
        let mut next = 0_u64;
        for definition in split_definitions(list).take(MAX_PARTITIONS - all.len().min(MAX_PARTITIONS)) {
            let Some(mut partition) = parse_definition(definition, next) else { break };
            next = partition.len.map_or(u64::MAX, |len| partition.offset.saturating_add(len));
            partition.device = Some(id.to_owned());
            all.push(partition);
        }
    }
    all
}

/// Splits a list at commas outside parentheses.
fn split_definitions(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    list.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn parse_definition(text: &str, next: u64) -> Option<Partition> {
    let end = text.find(['(', 'r', 'l']).unwrap_or(text.len());
    let (sizes, rest) = text.split_at(end);
    let (size, offset) = sizes.split_once('@').map_or((sizes, None), |(size, offset)| (size, Some(offset)));
    let len = if size == "-" { None } else { Some(parse_size(size)?) };
    let offset = offset.map_or(Some(next), parse_size)?;
    let name = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (name, flags) = name.unwrap_or(("", rest));
    let name = if name.is_empty() { format!("Partition_{offset:03x}") } else { name.to_owned() };
    Some(Partition { read_only: flags.contains("ro"), ..Partition::new(MTDPARTS, name, offset, len) })
}

/// Parses a number in decimal or hexadecimal, with an optional `k`, `m` or `g`.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 10),
        'm' | 'M' => (&text[..text.len() - 1], 20),
        'g' | 'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    number.checked_mul(1 << shift)
}

/// Partitions of a device tree, below a node that is compatible with `fixed-partitions`.
pub(super) fn of_tree(nodes: &[Node]) -> Vec<Partition> {
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

/// Pairs environments: marks the one that U-Boot uses, and adds a second one whose CRC is wrong.
pub(super) fn with_pairs(
    mut parts: Vec<Part>,
    view: &View<'_>,
    partitions: &mut Vec<Partition>,
) -> Vec<Part> {
    add_damaged(&mut parts, view, partitions);
    let pairs: Vec<usize> = (0..parts.len()).filter(|&at| parts.get(at).is_some_and(is_redundant)).collect();
    for pair in pairs.chunks(2) {
        let &[first, second] = pair else { continue };
        let (Some(one), Some(two)) = (parts.get(first), parts.get(second)) else { continue };
        if one.len != two.len {
            continue;
        }
        let is_first = match (one.checksum, two.checksum) {
            (Checksum::Good, Checksum::Bad) => true,
            (Checksum::Bad, Checksum::Good) => false,
            _ => is_newer(flag(one).unwrap_or(0), flag(two).unwrap_or(0)),
        };
        let unused = if is_first { two.offset } else { one.offset };
        partitions.retain(|partition| partition.source != MTDPARTS || partition.table_at != unused);
        for (at, is_used) in [(first, is_first), (second, !is_first)] {
            let word = if is_used { "active" } else { "redundant" };
            if let Some(part) = parts.get_mut(at) {
                part.facts.0.push(("copy", Value::Text(word.to_owned())));
            }
        }
    }
    parts
}

/// True for one copy of a pair, because only such a copy has a flag.
fn is_redundant(part: &Part) -> bool {
    part.level == 0 && part.kind == Kind::UbootEnv && flag(part).is_some()
}

fn flag(part: &Part) -> Option<u64> {
    part.facts.0.iter().find_map(|(name, value)| match value {
        Value::Number(number) if *name == "flag" => Some(*number),
        _ => None,
    })
}

/// True if U-Boot prefers the first of two copies by their flags, which count modulo 256.
pub(crate) const fn is_newer(one: u64, two: u64) -> bool {
    match (one, two) {
        (0xFF, 0) => false,
        (0, 0xFF) => true,
        (one, two) => one >= two,
    }
}

/// Adds the second copy of a redundant environment if its CRC is wrong, or if it is erased.
fn add_damaged(parts: &mut Vec<Part>, view: &View<'_>, partitions: &[Partition]) {
    let mut envs = parts.iter().filter(|part| is_redundant(part));
    // With two good copies, none is missing.
    let (Some(good), None) = (envs.next().cloned(), envs.next()) else { return };
    let Some(at) = lost_copy(parts, view, partitions, &good) else { return };
    let Some(bytes) = usize::try_from(good.len).ok().and_then(|len| view.bytes(at, len)) else { return };
    let mut found = describe(&bytes, Header::Redundant);
    if bytes.iter().all(|byte| *byte == 0xFF) {
        found = found.text("damage", "erased");
    }
    let lost = Part { offset: at, checksum: Checksum::Bad, facts: found.facts, ..good };
    *parts = parts.drain(..).flat_map(|part| around(part, &lost)).collect();
}

/// Splits a part around another part that lies in it. The other part follows the part in which it begins.
fn around(part: Part, new: &Part) -> Vec<Part> {
    if part.level > 0 || part.end() <= new.offset || new.end() <= part.offset {
        return vec![part];
    }
    let before = Part { len: new.offset.saturating_sub(part.offset), ..part.clone() };
    let behind = Part { offset: new.end(), len: part.end().saturating_sub(new.end()), ..part.clone() };
    let own = (part.offset <= new.offset).then(|| new.clone());
    [Some(before), own, Some(behind)].into_iter().flatten().filter(|part| part.len > 0).collect()
}

/// Offset of the second copy for a good one: the start of a partition for it, a range next to the good copy with
/// exactly its size, or an offset at which variables begin.
fn lost_copy(parts: &[Part], view: &View<'_>, partitions: &[Partition], good: &Part) -> Option<u64> {
    let stretches = stretches(parts);
    let has_room = |at: &u64| {
        let end = at.saturating_add(good.len);
        stretches.iter().any(|stretch| stretch.start <= *at && end <= stretch.end)
    };
    let is_for_env = |partition: &&Partition| {
        let name = partition.name.to_lowercase();
        (name.contains("env") || name.contains("redund")) && partition.len.is_none_or(|len| len >= good.len)
    };
    let places = partitions.iter().filter(is_for_env).map(|partition| partition.offset);
    let mut places: Vec<u64> = places.filter(has_room).collect();
    places.dedup();
    if let &[at] = places.as_slice() {
        return Some(at);
    }
    let is_beside = |stretch: &&Range<u64>| {
        stretch.end - stretch.start == good.len && (stretch.start == good.end() || stretch.end == good.offset)
    };
    if let Some(stretch) = stretches.iter().find(is_beside) {
        return Some(stretch.start);
    }
    let begins = |at: &u64| {
        let head = view.bytes(*at, HEAD);
        head.is_some_and(|head| head.get(Header::Redundant.bytes()..).is_some_and(begins_variable))
    };
    let data = parts.iter().filter(|part| part.level == 0 && part.kind == Kind::Data);
    let steps = data.flat_map(|part| (part.offset.next_multiple_of(STEP)..part.end()).step_by(STEP as usize));
    steps.filter(has_room).filter(begins).min_by_key(|at| at.abs_diff(good.offset))
}

/// Ranges that are in no part with a known format.
fn stretches(parts: &[Part]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for part in parts.iter().filter(|part| part.level == 0 && part.kind.is_gap()) {
        match all.last_mut() {
            Some(last) if last.end == part.offset => last.end = part.end(),
            _ => all.push(part.offset..part.end()),
        }
    }
    all
}
