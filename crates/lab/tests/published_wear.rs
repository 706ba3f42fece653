//! Tests of the claims of Desnoyers 2009 (P3): they hold for any seed, and would not hold for other
//! chips.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Kind, Library};
use floatgate_lab::papers::{self, Paper, ReportRow};

fn p3() -> Vec<Paper> {
    papers::select(papers::built_in().unwrap(), "P3").unwrap()
}

fn outside(library: &Library, seed: u64) -> Vec<String> {
    let report = papers::compare_seeded(library, &p3(), seed, &|_, _| ()).unwrap();
    let outside = report.rows.iter().filter(|row| row.is_changed());
    outside.map(|row| format!("{}/{}: {}", row.table, row.row, row.simulated)).collect()
}

#[test]
fn the_claims_hold_for_a_hundred_seeds() {
    let library = Library::built_in();
    for seed in 0..100 {
        assert_eq!(outside(&library, seed), [""; 0], "seed {seed}");
    }
}

#[test]
fn seeds_are_other_blocks() {
    let simulated = |seed| {
        let report = papers::compare_seeded(&Library::built_in(), &p3(), seed, &|_, _| ()).unwrap();
        report.rows.iter().filter(|row| row.table == "life").map(|row| row.simulated).collect::<Vec<_>>()
    };
    let (a, b) = (simulated(1), simulated(2));
    assert!(a.iter().zip(&b).all(|(a, b)| a != b), "{a:?} {b:?}");
}

#[test]
fn a_range_leaves_no_residual_inside_and_the_distance_outside() {
    let report = papers::compare(&Library::built_in(), &p3()).unwrap();
    let ends = |row: &ReportRow| (row.published_min.unwrap(), row.published_max.unwrap());
    for row in &report.rows {
        let (min, max) = ends(row);
        if (min..=max).contains(&row.simulated) {
            assert_eq!((row.residual, row.published), (0.0, row.simulated), "{}", row.row);
        } else {
            let end = if row.simulated < min { min } else { max };
            assert!(
                (row.residual - (row.simulated / end - 1.0)).abs() < 1e-12 && row.published == end,
                "{}",
                row.row
            );
        }
    }
}

/// Chips with another wear break the claims about wear.
#[test]
fn other_chips_break_the_claims() {
    let changes = [
        ("life_factor = 54.4", "life_factor = 200.0", "life/MT29F8G08MAAWC"),
        ("life_factor = 54.4", "life_factor = 2.0", "life/MT29F8G08MAAWC"),
        ("fresh = 15, worn = 9", "fresh = 15, worn = 15", "program-wear/MT29F8G08MAAWC"),
        ("fresh = 15, worn = 9", "fresh = 20, worn = 9", "typical/MT29F8G08MAAWC program"),
        ("fresh = 4, worn = 14", "fresh = 4, worn = 4", "erase-wear/MT29F8G08MAAWC"),
        ("fresh = 4, worn = 14", "fresh = 4, worn = 9", "erase-most/MT29F8G08MAAWC"),
        (
            "step_us = 450, fresh = 4, worn = 14",
            "step_us = 20, fresh = 90, worn = 200",
            "quantised/MT29F8G08MAAWC erase",
        ),
        ("life_spread = 0.26", "life_spread = 0.26\nbreak_in_cycles = 5000", "slowest/MT29F8G08MAAWC"),
        ("t_r_us = { typ = 46", "t_r_us = { typ = 50", "read/MT29F8G08MAAWC"),
    ];
    for (from, to, broken) in changes {
        let library = Library::built_in();
        let text = library.open(Kind::Part, "mt29f8g08maawc", None).unwrap().content().to_owned();
        assert_eq!(text.matches(from).count(), 1, "{from:?}");
        let found = outside(&library.with(Kind::Part, "mt29f8g08maawc", text.replace(from, to)), 0);
        assert!(found.iter().any(|row| row.starts_with(broken)), "{from:?} -> {to:?} breaks {found:?}");
    }
}
