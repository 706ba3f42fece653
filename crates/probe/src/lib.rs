//! Measures a card, drive or file that nobody knows, and concludes.
//!
//! In the order data flows:
//!
//! - A [`Target`](floatgate_host::Target) is the device: requests that take a measured time. [`Simulated`] wraps a simulated device in virtual time, with the
//!   [`Noise`] of a real one; [`Host`](floatgate_host::disk::Host) is a file or block device, whose contents it saves and restores; [`members`] finds signatures of
//!   swap, RAID and LVM.
//! - [`Probe`] asks: which requests, in which order, next. It keeps every request as a [`Sample`].
//! - [`conclude`] is a function of the samples: each [`Answer`] has a value, a confidence, alternatives, and a reason.
//! - [`probe_simulated`] does both for a simulated card; a [`Report`] is what was found.
//! - [`flashbench`] concludes from what flashbench printed, [`fio`] from a result of fio.
//! - [`picture`] has what the answers rest on as points of pictures.
//! - [`registers`] decodes what a card states about itself, and says what the answers contradict.
//! - [`mtd`] reads raw flash, such as that behind an MTD character device: speeds, bad and weak blocks.
//! - [`partition`] reads the partition table and the boot sectors of FAT, and judges them by the answers.
//!
//! Methods: borders between allocation units are found by reads across them (Bergmann's flashbench), of which all multiples must be slow and
//! nothing else; open allocation units by writing several in turn until each write closes one; fakes by sectors that hold their own address
//! (Machado's f3probe). Thresholds come from the noise of the samples themselves.
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
