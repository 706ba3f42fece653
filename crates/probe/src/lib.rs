//! Measures an unknown SD card, drive or image file and derives its properties.
//!
//! In the order data flows:
//!
//! - A [`Target`](floatgate_host::Target) is the device under test; each request returns its measured time.
//!   [`Simulated`] wraps a simulated device in virtual time, with the [`Noise`] of a real one.
//!   [`Host`](floatgate_host::disk::Host) is a file or block device and saves and restores its data. [`members`] finds
//!   signatures of swap, RAID and LVM.
//! - [`Probe`] chooses the next request and keeps each one as a [`Sample`].
//! - [`conclude`] derives the answers from the samples: each [`Answer`] has a value, a confidence, alternatives, and a
//!   reason.
//! - [`probe_simulated`] does both for a simulated card; a [`Report`] is the result.
//! - [`flashbench`] derives answers from the output of flashbench, [`fio`] from a result of fio.
//! - [`picture`] turns the samples behind the answers into points of plots.
//! - [`registers`] decodes the registers of a card and lists contradictions to the answers.
//! - [`mtd`] measures raw flash, such as an MTD character device: speeds, bad and weak eraseblocks.
//! - [`partition`] reads the partition table and FAT boot sectors, and checks their alignment.
//!
//! Methods: borders between allocation units are found by reads across them (Bergmann's flashbench): exactly the
//! multiples of the unit must be slow. Open allocation units are counted by writing several round robin until each
//! write closes one. Fakes are found by sectors that hold their own address (Machado's f3probe). Thresholds are derived
//! from the noise of the samples.
//!
//! ```
//! use floatgate_card::{Card, CardOptions, CardSpec};
//! use floatgate_probe::{Probe, ProbeOptions, Simulated, conclude};
//!
//! let mut spec: CardSpec = toml::from_str(include_str!("../tests/small.toml"))?;
//! (spec.capacity_bytes, spec.au_bytes) = (512 << 20, 4 << 20);
//! let mut target = Simulated::new(Card::new(&spec, CardOptions::default())?, None);
//! let mut probe = Probe::new(&mut target, ProbeOptions::default());
//! probe.measure_reads()?;
//! let answers = conclude(probe.samples());
//! assert_eq!(answers.erase_block.count(), Some(spec.au_bytes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod analysis;
mod answer;
mod conclusion;
pub mod fio;
pub mod flashbench;
mod members;
pub mod mtd;
pub mod partition;
pub mod picture;
mod probe;
pub mod registers;
mod report;
mod sample;
mod simulated;
mod stats;
mod target;

pub use analysis::class::{Promise, Verdict};
pub use analysis::{IMAGE, conclude};
pub use answer::{Alternative, Answer, Answers, Value};
pub use conclusion::conclusion;
pub use members::members;
pub use probe::{Limits, Probe, ProbeError, ProbeOptions, WritePlan};
pub use report::Report;
pub use sample::{BadSamples, Cost, HEAD, Kind, Sample, Samples, Test};
pub use simulated::probe_simulated;
pub use target::{Noise, Simulated};
