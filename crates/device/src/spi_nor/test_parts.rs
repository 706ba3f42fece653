//! The catalogue's parts, for tests.

use super::spec::SpiNorSpec;

pub(super) const W25Q128JV: &str = include_str!("../../../../parts/w25q128jv.toml");
pub(super) const N25Q128A: &str = include_str!("../../../../parts/n25q128a.toml");
pub(super) const MX25UW12845G: &str = include_str!("../../../../parts/mx25uw12845g.toml");
pub(super) const MX25UW51245G: &str = include_str!("../../../../parts/mx25uw51245g.toml");

pub(super) const ALL: [&str; 4] = [W25Q128JV, N25Q128A, MX25UW12845G, MX25UW51245G];

fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// The `[chip]` table of a part file.
pub(super) fn spec(text: &str) -> SpiNorSpec {
    profile(text, None)
}

/// The `[chip]` table with a profile's overrides.
pub(super) fn profile(text: &str, name: Option<&str>) -> SpiNorSpec {
    let mut file: toml::Table = text.parse().unwrap();
    let mut chip = file.remove("chip").unwrap().as_table().unwrap().clone();
    if let Some(name) = name {
        merge(&mut chip, file["profile"][name]["chip"].as_table().unwrap().clone());
    }
    chip.try_into().unwrap()
}
