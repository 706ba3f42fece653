//! Forms in which results are shown. This module knows no study: it imports nothing else of this crate.
//!
//! - [`report`]: a result as title, sentences, tables and advice, which every renderer can show.
//! - [`plot`]: pictures of times by phase, and of curves.
//! - [`csv`]: CSV; `page`: the HTML page of `floatgate report`, from sections.
//! - [`number`]: texts of numbers.
//!
//! The command renders reports for the terminal, whose width and colours it knows.

pub mod csv;
pub mod number;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod page;
pub mod plot;
#[cfg(not(target_family = "wasm"))]
pub mod report;
