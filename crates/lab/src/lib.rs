//! The laboratory: what is measured on the devices that `floatgate-sim` makes of the setups of `floatgate-config`, and how it is shown.
//!
//! - [`advise`]: what to do with a card or a chip: partition, filesystem, options, ECC, scrub period, each with the numbers behind it.
//! - [`speed_run`]: `speed` on a named setup, with advice on what would be faster.
//! - [`speed`]: `flash_speed`'s tests in virtual time.
//! - [`endurance`]: how long blocks live, and how their times change on the way.
//! - [`age`]: a filesystem over years.
//! - [`card`]: SD cards and eMMC, and how fast they are.
//! - [`trace`]: one operation, recorded.
//! - [`catalogue`]: the built-in setups and parts as rows.
//! - [`identify`](mod@identify): which chip it is, from an id, a parameter page, a register or a log.
//! - [`part_sizes`]: pages and blocks of a part, for images and dumps of it.
//! - [`certainty`]: the least certain value behind an answer.
//! - [`otp`]: one-time-programmable areas, with a state that outlives the command.
//! - [`fit`]: costs of a board, fitted to what was measured on it.
//! - [`fs_compare`]: filesystems and bare flash side by side.
//! - [`papers`]: published tables beside what is simulated.
//! - [`keystore`]: a microcontroller's keystore test on a SPI NOR.
//! - [`study`]: the common shape of studies, and their list.
//! - [`powercut`]: a filesystem that loses power at every flash operation.
//! - [`report`]: setups and results as one HTML file.
//! - [`sweep`]: many designs of a setup, the best of them, and the parameter that matters.
//! - [`technology`]: NAND, NOR, SD cards and eMMC side by side.
//! - [`csv`]: rows as comma-separated values, and back.
//! - [`plot`]: where the time went, as bars and waterfalls, in SVG and in the terminal.
//!
//! In WebAssembly there are those of them that a page needs to play with a setup: the speed tests, what is behind their figures, and the
//! catalogue.
//! # Example
//!
//! ```
//! use floatgate_config::{Library, Override};
//! use floatgate_sim::rig::RigOptions;
//! use floatgate_lab::speed_run::measure;
//! use floatgate_lab::speed::SpeedOptions;
//!
//! let library = Library::built_in();
//! let sets = Override::parse_all(&["chip=mx30lf1g18ac"])?;
//! let config = library.resolve(&library.setup("imx6-mx30lf2g18ac")?, &sets)?;
//! let run = measure(&library, &config, RigOptions::default(), &SpeedOptions::default())?;
//! for test in &run.report.tests {
//!     println!("{:<20} {:>8} KiB/s", test.name, test.printed_kib_s);
//! }
//! # Ok::<(), floatgate_lab::Error>(())
//! ```

#![cfg_attr(
    target_family = "wasm",
    allow(dead_code, unused_imports, reason = "used by the studies that a page does not have")
)]

#[cfg(not(target_family = "wasm"))]
pub mod advise;
#[cfg(not(target_family = "wasm"))]
pub mod age;
#[cfg(not(target_family = "wasm"))]
pub mod card;
pub mod catalogue;
pub mod certainty;
#[cfg(not(target_family = "wasm"))]
pub mod conclusion;
pub mod csv;
#[cfg(not(target_family = "wasm"))]
pub mod endurance;
pub mod energy;
#[cfg(not(target_family = "wasm"))]
pub mod fit;
pub mod fs_compare;
pub mod fs_speed;
#[cfg(not(target_family = "wasm"))]
pub mod identify;
#[cfg(not(target_family = "wasm"))]
mod interval;
#[cfg(not(target_family = "wasm"))]
pub mod keystore;
#[cfg(not(target_family = "wasm"))]
pub mod life;
#[cfg(not(target_family = "wasm"))]
pub mod otp;
#[cfg(not(target_family = "wasm"))]
pub mod papers;
#[cfg(not(target_family = "wasm"))]
pub mod part_sizes;
pub mod plot;
#[cfg(not(target_family = "wasm"))]
pub mod powercut;
pub mod progress;
#[cfg(not(target_family = "wasm"))]
pub mod recorder;
#[cfg(not(target_family = "wasm"))]
pub mod report;
pub mod speed;
pub mod speed_run;
#[cfg(not(target_family = "wasm"))]
pub mod study;
#[cfg(not(target_family = "wasm"))]
pub mod sweep;
#[cfg(not(target_family = "wasm"))]
pub mod technology;
pub mod trace;
pub mod uncertainty;

pub use floatgate_sim::Error;
