//! Partitions of the flash that a dump lists itself.

use serde::Serialize;

/// Largest number of partitions in a list.
pub(super) const MAX_PARTITIONS: usize = 256;

/// Name of the list of partitions in the kernel's arguments.
pub(super) const MTDPARTS: &str = "mtdparts";

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
