//! Small cards of each policy.

use floatgate_card::CardSpec;

/// The small card with lines changed or added before its first table, and tables added at the end.
pub(crate) fn spec(changes: &str, tables: &str) -> CardSpec {
    let mut table: toml::Table = include_str!("../small.toml").parse().unwrap();
    let changes: toml::Table = changes.parse().unwrap();
    table.extend(changes);
    let tables: toml::Table = tables.parse().unwrap();
    for (name, extra) in tables {
        match (table.get_mut(&name), extra) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => old.extend(new),
            (_, extra) => drop(table.insert(name, extra)),
        }
    }
    table.try_into().unwrap()
}

/// An enhanced area of two allocation units.
const AREA: &str = "enhanced = { bytes = 131072, endurance_cycles = 5000 }";

/// A card of each policy and combination.
pub(crate) fn policies() -> Vec<(&'static str, CardSpec)> {
    let slc = "slc = { blocks = 3, t_r_us = 25, t_prog_us = 200 }";
    let pinned = "fat = { kind = 'pinned', first_au = 1, aus = 1 }";
    let page = "fat = { kind = 'page', first_au = 0, aus = 2, spare_blocks = 2 }";
    let paged = "mapping = 'page'\nmap_unit_bytes = 1024\nidle_blocks = 2";
    let hybrid = "mapping = 'hybrid'\nlog_blocks = 3\nopen_aus_random = 0";
    let mut all = vec![
        ("block", spec("", "")),
        ("block, linear only", spec("open_aus_random = 0\nopen_aus = 1", "")),
        ("block, nothing to spare", spec("spare_blocks = 6", "")),
        ("block, pinned FAT", spec("open_aus = 3", pinned)),
        ("block, paged FAT, SLC", spec("spare_blocks = 16", &format!("{page}\n{slc}"))),
        ("hybrid", spec(hybrid, "")),
        (
            "hybrid, SLC log of short requests",
            spec(
                &format!("{hybrid}\nlog_request_bytes = 2048"),
                "slc = { log = true, t_r_us = 25, t_prog_us = 200 }",
            ),
        ),
        (
            "hybrid, pinned FAT, SLC",
            spec(&format!("{hybrid}\nspare_blocks = 16"), &format!("{pinned}\n{slc}")),
        ),
        ("page", spec(paged, "")),
        ("page, FIFO", spec(&format!("{paged}\ncollector = 'fifo'"), "")),
        ("page, paged FAT, SLC", spec(&format!("{paged}\nspare_blocks = 12"), &format!("{page}\n{slc}"))),
        ("page, FIFO, SLC", spec(&format!("{paged}\ncollector = 'fifo'\nspare_blocks = 12"), slc)),
        (
            "page, enhanced area, SLC",
            spec(&format!("{paged}\nspare_blocks = 24"), &format!("{slc}\n{AREA}")).partitioned(),
        ),
    ];
    for (_, spec) in &mut all {
        // Wear levelling and refresh must be part of so short a life.
        (spec.wear.static_difference, spec.wear.refresh_reads) = (2, 60);
    }
    all
}
