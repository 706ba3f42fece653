//! Redundant environments of U-Boot: two copies that belong together.

use std::ops::Range;

use super::partitions::{MTDPARTS, Partition};
use super::probe_match::{Checksum, Kind, Part, Value};
use super::probes::uboot_env::{Header, begins_variable, describe};
use super::view::View;

/// Distance between offsets at which a damaged environment is searched, bytes.
const STEP: u64 = 4096;

/// Number of examined bytes of an environment: the header, and the name of a variable.
const HEAD: usize = 128;

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
const fn is_newer(one: u64, two: u64) -> bool {
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

/// Splits a part around another part inside it. The other part follows the part in which it begins.
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
