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

pub mod advise;
pub mod age;
pub mod card;
pub mod catalogue;
pub mod certainty;
pub mod conclusion;
pub mod csv;
pub mod endurance;
pub mod fit;
pub mod fs_compare;
pub mod fs_speed;
pub mod identify;
mod interval;
pub mod keystore;
pub mod life;
pub mod otp;
pub mod papers;
pub mod part_sizes;
pub mod plot;
pub mod powercut;
pub mod progress;
pub mod recorder;
pub mod report;
pub mod speed;
pub mod speed_run;
pub mod study;
pub mod sweep;
pub mod technology;
pub mod trace;
pub mod uncertainty;

pub use floatgate_sim::Error;
