//! The laboratory: measurements on the devices that `floatgate-sim` makes from setups of `floatgate-config`, and their
//! presentation.
//!
//! - [`advise`]: advice on the use of a card or a chip: partition, filesystem, options, ECC, scrub period, each with
//!   its figures.
//! - [`speed_run`]: `speed` on a named setup, with advice on speed improvements.
//! - [`speed`]: the tests of `flash_speed` in virtual time.
//! - [`endurance`]: the life of blocks, and the change of their times with wear.
//! - [`age`]: a filesystem over years.
//! - [`card`]: SD cards and eMMC, and their speed.
//! - [`trace`]: a recording of one operation.
//! - [`catalogue`]: the built-in setups and parts as table rows.
//! - [`identify`](mod@identify): identification of a chip from an id, a parameter page, a register or a log.
//! - [`part_sizes`]: page and block sizes of a part, for its images and dumps.
//! - [`certainty`]: the least certain value behind a result.
//! - [`otp`]: one-time-programmable areas, whose state is kept between commands.
//! - [`fit`]: costs of a board, fitted to measurements on it.
//! - [`fs_compare`]: comparison of filesystems and bare flash.
//! - [`papers`]: published tables compared with simulated figures.
//! - [`keystore`]: a microcontroller's keystore test on a SPI NOR.
//! - [`study`]: the common shape of studies, and their list.
//! - [`powercut`]: a filesystem that loses power at every flash operation.
//! - [`report`]: setups and results as one HTML file.
//! - [`results`]: reports of results that are not studies.
//! - [`sweep`]: many designs of a setup, the best of them, and the parameter with the largest effect.
//! - [`technology`]: comparison of NAND, NOR, SD cards and eMMC.
//! - [`csv`]: writer and reader of comma-separated values.
//! - [`plot`]: times by phase, as bars and waterfalls, in SVG and in the terminal.
//!
//! WebAssembly builds contain only the modules that a page needs to explore a setup: the speed tests, the origin of
//! their figures, and the catalogue.
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
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "used by the studies that a page does not have"
    )
)]

#[cfg(not(target_family = "wasm"))]
pub mod advise;
#[cfg(not(target_family = "wasm"))]
pub mod age;
#[cfg(not(target_family = "wasm"))]
pub mod capture_check;
#[cfg(not(target_family = "wasm"))]
pub mod card;
pub mod catalogue;
pub mod certainty;
#[cfg(not(target_family = "wasm"))]
pub mod conclusion;
#[cfg(not(target_family = "wasm"))]
pub mod endurance;
pub mod energy;
#[cfg(not(target_family = "wasm"))]
mod envelope;
#[cfg(not(target_family = "wasm"))]
pub mod fit;
pub mod fs_compare;
pub mod fs_speed;
#[cfg(not(target_family = "wasm"))]
pub mod identify;
mod interval;
#[cfg(not(target_family = "wasm"))]
pub mod keystore;
#[cfg(not(target_family = "wasm"))]
pub mod life;
mod operation;
#[cfg(not(target_family = "wasm"))]
pub mod otp;
#[cfg(not(target_family = "wasm"))]
pub mod papers;
#[cfg(not(target_family = "wasm"))]
pub mod part_sizes;
#[cfg(not(target_family = "wasm"))]
pub mod powercut;
pub mod progress;
#[cfg(not(target_family = "wasm"))]
pub mod recorder;
#[cfg(not(target_family = "wasm"))]
pub mod report;
#[cfg(not(target_family = "wasm"))]
pub mod results;
pub mod show;
pub mod speed;
pub mod speed_run;
mod stored;
#[cfg(not(target_family = "wasm"))]
pub mod study;
#[cfg(not(target_family = "wasm"))]
pub mod sweep;
#[cfg(not(target_family = "wasm"))]
pub mod technology;
pub mod trace;
pub mod uncertainty;

pub use floatgate_sim::Error;
pub use show::{csv, plot};
