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

#[cfg(not(target_family = "wasm"))]
pub mod disk;
mod help;
#[cfg(not(target_family = "wasm"))]
mod lock;
#[cfg(feature = "fuse")]
pub mod mount;
#[cfg(not(target_family = "wasm"))]
pub mod mtd;
#[cfg(not(target_family = "wasm"))]
pub mod open;
#[cfg(not(target_family = "wasm"))]
pub mod output;
mod output_error;
#[cfg(target_family = "wasm")]
mod page;
#[cfg(not(target_family = "wasm"))]
pub mod saved;
pub mod serprog;
#[cfg(feature = "fuse")]
pub mod serve;
#[cfg(feature = "signals")]
pub mod signals;
mod target;

#[cfg(not(target_family = "wasm"))]
pub use lock::{Lock, LockError};
#[cfg(target_family = "wasm")]
pub use page::{
    lock::{Lock, LockError},
    open, output,
};
pub use target::{Target, TargetError};
