//! Times and clock limits that a source states of a chip in Linux's tables. They replace those of the family in the
//! part's text, and the source is added to it.

use super::append_source;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;
use toml::{Table, Value};

const TEXT: &str = include_str!("../../data/kernel/times.toml");

/// Keys of `[chip.timing]` with the times of reads, programs and erases.
const ARRAY: [&str; 5] = ["t_rd_ecc_us", "t_r_us", "t_prog_us", "t_bers_us", "t_pp_us"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statements {
    stated: Vec<Stated>,
}

/// Numbers that one source states of some chips.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    /// Names of the chips in the kernel's table.
    parts: Vec<String>,
    from: String,
    confidence: f64,
    #[serde(default)]
    note: String,
    /// Piece of a part file.
    chip: Table,
}

fn read() -> Result<Vec<Stated>, toml::de::Error> {
    toml::from_str::<Statements>(TEXT).map(|all| all.stated)
}

fn all() -> &'static [Stated] {
    static ALL: OnceLock<Vec<Stated>> = OnceLock::new();
    ALL.get_or_init(|| read().unwrap_or_default())
}

/// Text of a part with the numbers that sources state. Its times are its own if every typical one is stated.
pub(super) fn apply(key: &str, mut text: String) -> String {
    let mut known: Vec<String> = Vec::new();
    for stated in all().iter().filter(|stated| stated.parts.iter().any(|part| part == key)) {
        let mut numbers = BTreeMap::new();
        collect(&stated.chip, "chip", &mut numbers);
        numbers.retain(|path, number| replace(&mut text, path, number).is_some());
        let of: Vec<&str> = numbers.keys().map(String::as_str).collect();
        append_source(&mut text, &of, &stated.from, stated.confidence, &stated.note);
        known.extend(numbers.into_keys());
    }
    if known.is_empty() || !typical(&text).iter().all(|path| known.contains(path)) {
        return text;
    }
    text.replacen("times = \"family\"\n", "", 1)
}

/// Numbers of a table by dotted path.
fn collect(table: &Table, path: &str, numbers: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let path = format!("{path}.{key}");
        match value {
            Value::Table(inner) => collect(inner, &path, numbers),
            other => {
                numbers.insert(path, other.to_string());
            }
        }
    }
}

/// Replaces the number at a dotted path; `None` if the text has none there.
fn replace(text: &mut String, path: &str, number: &str) -> Option<()> {
    let (table, key) = path.rsplit_once('.')?;
    if let Some(place) = place_of(text, table, key) {
        text.replace_range(place, &format!("{key} = {number}"));
        return Some(());
    }
    let (table, name) = table.rsplit_once('.')?;
    let place = place_of(text, table, name)?;
    let mut line: BTreeMap<String, BTreeMap<String, f64>> = toml::from_str(text.get(place.clone())?).ok()?;
    let times = line.get_mut(name)?;
    *times.get_mut(key)? = number.parse().ok()?;
    let (mut typ, mut max) = (*times.get("typ")?, *times.get("max")?);
    // The other one is still the family's.
    if typ > max {
        if key == "typ" { max = typ } else { typ = max }
    }
    text.replace_range(place, &format!("{name} = {{ typ = {typ}, max = {max} }}"));
    Some(())
}

/// Place of the line with a key of a table.
fn place_of(text: &str, table: &str, key: &str) -> Option<Range<usize>> {
    let header = format!("\n[{table}]\n");
    let mut start = text.find(&header)? + header.len();
    for line in text.get(start..)?.split_inclusive('\n') {
        if line.starts_with('[') {
            return None;
        }
        if line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" = ")) {
            return Some(start..start + line.trim_end().len());
        }
        start += line.len();
    }
    None
}

/// Dotted paths of the typical times of a part's reads, programs and erases.
fn typical(text: &str) -> Vec<String> {
    let part: Table = toml::from_str(text).unwrap_or_default();
    let inner =
        |table: &Table, key: &str| table.get(key).and_then(Value::as_table).cloned().unwrap_or_default();
    let chip = inner(&part, "chip");
    let timing = inner(&chip, "timing");
    let array = ARRAY.into_iter().filter_map(|key| {
        let typ = if timing.get(key)?.is_table() { ".typ" } else { "" };
        Some(format!("chip.timing.{key}{typ}"))
    });
    let erases = inner(&chip, "erase");
    array.chain(erases.keys().map(|name| format!("chip.erase.{name}.t_us.typ"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::kernel_chips;
    use crate::library::{Kind, Library};
    use crate::part::{Part, Times};

    fn part(library: &Library, name: &str) -> Part {
        library.load(Kind::Part, name).unwrap().head.extract("").unwrap()
    }

    fn text(library: &Library, name: &str) -> String {
        library.open(Kind::Part, name, None).unwrap().content().to_owned()
    }

    #[test]
    fn every_stated_number_replaces_one_of_the_family() {
        let library = Library::built_in();
        let stated = read().unwrap();
        assert!(stated.len() > 20);
        for one in &stated {
            let mut numbers = BTreeMap::new();
            collect(&one.chip, "chip", &mut numbers);
            assert!(!numbers.is_empty() && !one.parts.is_empty(), "{}", one.from);
            for name in &one.parts {
                let chip = kernel_chips().find(|chip| chip.key == name);
                let chip = chip.unwrap_or_else(|| panic!("{name} is in no table of the kernel"));
                assert_eq!(library.own_of(&chip), None, "{name} is described by the catalogue itself");
                assert!(library.load(Kind::Part, name).unwrap().chip().is_ok(), "{name}");
                let part = part(&library, name);
                for path in numbers.keys() {
                    let is_listed =
                        part.sources.iter().any(|source| source.from == one.from && source.of.contains(path));
                    assert!(is_listed, "{name} has no {path}");
                    assert_eq!(part.source_of(path).unwrap().from, one.from, "{name}: {path}");
                }
            }
        }
    }

    #[test]
    fn a_part_with_stated_times_has_its_own() {
        let library = Library::built_in();
        let m25p80 = text(&library, "m25p80");
        assert!(m25p80.contains("t_pp_us = { typ = 640, max = 5000 }"), "{m25p80}");
        assert!(m25p80.contains("t_us = { typ = 600000, max = 3000000 }"), "{m25p80}");
        assert!(m25p80.contains("max_sdr_hz = 75000000\n"), "{m25p80}");
        assert!(text(&library, "sst26vf064b").contains("t_us = { typ = 18000, max = 25000 }"));
        let times = |name: &str| part(&library, name).times;
        for name in ["m25p80", "sst26vf064b", "mt25qu256a", "gd5f1gq4xa", "mt29f2g01abagd", "tc58nvg3s0f"] {
            assert_eq!(times(name), Times::Part, "{name}");
        }
        // Nothing is stated of the first; of the others the erase, the program or the read is not.
        for name in ["w25n01kv", "m25p64", "sst26vf016b", "ato25d1ga"] {
            assert_eq!(times(name), Times::Family, "{name}");
        }
        let sure = |path: &str| part(&library, "m25p80").source_of(path).unwrap().confidence;
        assert!(sure("chip.timing.t_pp_us.typ") > 0.8 && sure("chip.timing.t_pp_us.max") < 0.5);
    }

    #[test]
    fn a_typical_time_beyond_the_familys_maximum_moves_it() {
        let mut text =
            String::from("\n[chip.timing]\nt_pp_us = { typ = 120, max = 500 }\n\n[chip.erase]\nt = 1\n");
        assert_eq!(replace(&mut text, "chip.timing.t_pp_us.typ", "640"), Some(()));
        assert!(text.contains("t_pp_us = { typ = 640, max = 640 }"), "{text}");
        assert_eq!(replace(&mut text, "chip.timing.t_pp_us.max", "25.5"), Some(()));
        assert!(text.contains("t_pp_us = { typ = 25.5, max = 25.5 }"), "{text}");
        assert_eq!(replace(&mut text, "chip.timing.t", "2"), None);
        assert_eq!(replace(&mut text, "chip.timing.t_ce_us.typ", "2"), None);
    }

    #[test]
    fn the_page_of_chips_lists_every_part_with_stated_times() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/chips.md");
        let page = std::fs::read_to_string(page).unwrap();
        let stated = read().unwrap();
        let all = stated.iter().flat_map(|one| &one.parts);
        let missing: Vec<&String> = all.filter(|part| !page.contains(&format!("\n| {part} | "))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
