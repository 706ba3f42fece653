//! How fast the simulated card is: `cargo bench --bench card`. Results in docs/performance.md.
#![allow(missing_docs, reason = "a benchmark has no users")]
fn main() {}
