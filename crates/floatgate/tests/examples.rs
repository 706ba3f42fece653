//! Tests that the examples run without an error, and that the page quotes the first example.

#[path = "../examples/card_times.rs"]
mod card_times;
#[path = "../examples/every_cut.rs"]
mod every_cut;
#[path = "../examples/first_hour.rs"]
mod first_hour;

#[test]
fn the_first_hour_ends_well() {
    first_hour::main().unwrap();
}

#[test]
fn each_cut_of_a_sync_is_recovered() {
    every_cut::main().unwrap();
}

#[test]
fn a_card_is_measured() {
    card_times::main().unwrap();
}

#[test]
fn the_page_about_the_library_has_the_first_example() {
    let page = include_str!("../../../docs/library.md");
    let code = include_str!("../examples/first_hour.rs").split_once("\n\n").unwrap().1;
    let code = code.replace("pub(crate) fn main", "fn main");
    assert!(page.contains(&format!("```rust\n{code}```\n")), "docs/library.md does not have this:\n{code}");
}
