//! The command seen from outside: the built binary, its exit codes, its output and its files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

#[cfg(target_os = "linux")]
mod advise;
mod breakdown;
#[cfg(target_os = "linux")]
mod c_program;
mod captures;
mod compare;
mod completions;
mod determinism;
mod ecc;
mod examples;
mod exits;
#[cfg(unix)]
mod foreign;
mod golden;
mod hostile;
mod image_build;
mod images;
mod json;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(target_os = "linux")]
mod mounted;
mod otp;
mod output;
#[cfg(target_os = "linux")]
mod outputs;
mod own_chip;
#[cfg(unix)]
mod own_program;
mod plots;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod probe_devices;
#[cfg(target_os = "linux")]
mod programs;
mod record;
mod serprog;
#[cfg(target_os = "linux")]
mod served;
mod served_module;
mod support;
mod sweeps;
mod targets;
mod volumes;
