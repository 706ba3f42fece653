//! The machine on which floatgate runs: its files, disks and flash devices.
//!
//! - [`output`]: files that commands write, each completely or not at all; [`open`](mod@open): opening files and pipes;
//!   [`Lock`].
//! - [`disk`]: files and block devices with direct I/O and the monotonic clock, as a [`Target`] whose requests return
//!   their measured time; detection of other users of a device.
//! - [`saved`]: saves data of a device before it is overwritten, in a file that survives the process and a power cut.
//! - [`mtd`]: flash behind Linux's MTD character devices.
//! - [`serprog`]: server side of the protocol between flashrom and a programmer.
//! - `mount`, `serve` (feature `fuse`): folders as mount points; block devices that other programs use, through FUSE
//!   and vhost-user.
//! - `guest` (both features): User Mode Linux and QEMU with a simulated drive.
//! - [`filesystem_program`]: filesystems in programs of the user, connected by pipes.
//! - `signals` (feature `signals`): cleanup and end of a command after a signal.
//!
//! Only this crate uses system calls and the clock; all other crates are independent of the machine.

#[cfg(not(target_family = "wasm"))]
pub mod disk;
pub mod filesystem_program;
#[cfg(all(feature = "fuse", feature = "signals"))]
pub mod guest;
mod help;
#[cfg(not(target_family = "wasm"))]
mod holders;
#[cfg(not(target_family = "wasm"))]
mod lock;
#[cfg(feature = "fuse")]
pub mod mount;
#[cfg(not(target_family = "wasm"))]
pub mod mtd;
#[cfg(not(target_family = "wasm"))]
mod node;
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
