//! The machine that floatgate runs on: its files, disks and flash devices.
//!
//! - [`output`]: the files that commands write, each whole or not at all; [`open`](mod@open): opening what may be a pipe; [`Lock`].
//! - [`disk`]: files and block devices with direct I/O and the monotonic clock, as a [`Target`] whose requests take a measured time; who uses them.
//! - [`saved`]: contents of a device before they are overwritten, in a file that outlives the process and a power cut.
//! - [`mtd`]: flash behind Linux's MTD character devices.
//! - [`serprog`]: the server's side of the protocol in which flashrom drives a programmer.
//! - `mount`, `serve` (feature `fuse`): folders as mount points; block devices that other programs use, through FUSE and vhost-user.
//! - `signals` (feature `signals`): signals end a command in order.
//!
//! The other crates are the same on every machine; here are the system calls and the clock.

pub mod disk;
mod help;
mod lock;
#[cfg(feature = "fuse")]
pub mod mount;
pub mod mtd;
pub mod open;
pub mod output;
pub mod saved;
pub mod serprog;
#[cfg(feature = "fuse")]
pub mod serve;
#[cfg(feature = "signals")]
pub mod signals;
mod target;

pub use lock::{Lock, LockError};
pub use target::{Target, TargetError};
