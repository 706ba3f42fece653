//! Times and clock limits that a source states for a chip in Linux's tables. They replace the times of the family in
//! the part, together with their source.

use super::append_source;
use super::family::TypMax;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use toml::{Table, Value};

const TEXT: &str = include_str!("../../data/kernel/times.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statements {
    stated: Vec<Stated>,
}

/// Numbers that one source states for some chips.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    /// Names of these chips in the kernel's table.
    parts: Vec<String>,
    from: String,
    confidence: f64,
    #[serde(default)]
    note: String,
    /// Fragment of a part file with the numbers.
    chip: Table,
}

fn read() -> Result<Vec<Stated>, toml::de::Error> {
    toml::from_str::<Statements>(TEXT).map(|all| all.stated)
}

fn all() -> &'static [Stated] {
    static ALL: OnceLock<Vec<Stated>> = OnceLock::new();
    ALL.get_or_init(|| read().unwrap_or_default())
}

/// Numbers that sources state for one chip, by dotted path.
#[derive(Debug)]
pub(super) struct Known {
    stated: Vec<&'static Stated>,
    numbers: BTreeMap<String, Value>,
}

impl Known {
    /// Numbers for the chip with this name in the kernel's table.
    pub(super) fn of(key: &str) -> Self {
        let stated: Vec<&Stated> =
            all().iter().filter(|stated| stated.parts.iter().any(|part| part == key)).collect();
        let mut numbers = BTreeMap::new();
        for one in &stated {
            collect(&one.chip, "chip", &mut numbers);
        }
        Self { stated, numbers }
    }

    fn number(&self, path: &str) -> Option<f64> {
        let value = self.numbers.get(path)?;
        value.as_float().or_else(|| value.to_string().parse().ok())
    }

    /// A clock limit, Hz: the stated limit, or the family's.
    pub(super) fn hz(&self, path: &str, family: u64) -> u64 {
        let stated = self.numbers.get(path).and_then(Value::as_integer);
        stated.and_then(|hz| u64::try_from(hz).ok()).unwrap_or(family)
    }

    /// A time, us: the stated time, or the family's.
    pub(super) fn us(&self, path: &str, family: f64) -> f64 {
        self.number(path).unwrap_or(family)
    }

    /// A typical and a maximum time. If only one is stated, the family's other time is adjusted to it.
    pub(super) fn typ_max(&self, path: &str, family: TypMax) -> TypMax {
        let stated = |key: &str| self.number(&format!("{path}.{key}"));
        match (stated("typ"), stated("max")) {
            (None, None) => family,
            (Some(typ), None) => TypMax { typ, max: family.max.max(typ) },
            (None, Some(max)) => TypMax { typ: family.typ.min(max), max },
            (Some(typ), Some(max)) => TypMax { typ, max },
        }
    }

    /// Replaces numbers in a chip's table by the stated ones.
    pub(super) fn set(&self, chip: &mut Table) {
        for (path, number) in &self.numbers {
            let mut keys: Vec<&str> = path.split('.').skip(1).collect();
            let Some(last) = keys.pop() else { continue };
            let table =
                keys.into_iter().try_fold(&mut *chip, |table, key| table.get_mut(key)?.as_table_mut());
            if let Some(old) = table.and_then(|table| table.get_mut(last)) {
                *old = number.clone();
            }
        }
    }

    /// Line for a part's head which states that its times are from the family; empty if a source states the times at
    /// all of these paths.
    pub(super) fn times(&self, typical: &[impl AsRef<str>]) -> &'static str {
        if typical.iter().all(|path| self.numbers.contains_key(path.as_ref())) {
            ""
        } else {
            "times = \"family\"\n"
        }
    }

    /// Appends the sources of the stated numbers.
    pub(super) fn sources(&self, text: &mut String) {
        for stated in &self.stated {
            let mut numbers = BTreeMap::new();
            collect(&stated.chip, "chip", &mut numbers);
            let of: Vec<&str> = numbers.keys().map(String::as_str).collect();
            append_source(text, &of, &stated.from, stated.confidence, &stated.note);
        }
    }
}

/// Collects the numbers of a table by dotted path.
fn collect(table: &Table, path: &str, numbers: &mut BTreeMap<String, Value>) {
    for (key, value) in table {
        let path = format!("{path}.{key}");
        match value {
            Value::Table(inner) => collect(inner, &path, numbers),
            other => {
                numbers.insert(path, other.clone());
            }
        }
    }
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
                let text = text(&library, name);
                let table: Value = toml::from_str::<Table>(&text).unwrap().into();
                for (path, number) in &numbers {
                    let found = path.split('.').try_fold(&table, |table, key| table.get(key));
                    let as_text = |value: &Value| value.to_string().trim_end_matches(".0").to_owned();
                    assert_eq!(found.map(as_text), Some(as_text(number)), "{name}: {path}");
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
        // No time of the first chip is stated; for the others, the time of erase, program or read is missing.
        for name in ["w25n01kv", "m25p64", "sst26vf016b", "ato25d1ga"] {
            assert_eq!(times(name), Times::Family, "{name}");
        }
        let sure = |path: &str| part(&library, "m25p80").source_of(path).unwrap().confidence;
        assert!(sure("chip.timing.t_pp_us.typ") > 0.8 && sure("chip.timing.t_pp_us.max") < 0.5);
    }

    #[test]
    fn a_typical_time_beyond_the_familys_maximum_moves_it() {
        let family = TypMax { typ: 120.0, max: 500.0 };
        let with = |key: &str, number: i64| {
            let numbers = BTreeMap::from([(format!("chip.timing.t_pp_us.{key}"), Value::Integer(number))]);
            Known { stated: Vec::new(), numbers }.typ_max("chip.timing.t_pp_us", family)
        };
        assert_eq!(with("typ", 640), TypMax { typ: 640.0, max: 640.0 });
        assert_eq!(with("max", 25), TypMax { typ: 25.0, max: 25.0 });
        assert_eq!(with("other", 25), family);
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
