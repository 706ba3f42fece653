//! Ctrl-C and its relatives: no half-written file is left behind.

use floatgate_image::output;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// From here on SIGINT, SIGTERM and SIGHUP remove unfinished outputs before they end the process, as they do by default.
pub(crate) fn remove_outputs_at_the_end() {
    let ignored = ignored();
    let handled = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    // A limit on the size of files (ulimit -f) is an error of the write then, and does not end the process.
    let _ = signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::new(AtomicBool::new(false)));
    // Where handlers are not possible, signals end the process at once.
    let Ok(mut signals) = Signals::new(handled) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            output::remove_unfinished();
            let _ = emulate_default_handler(signal);
        }
    });
}

/// The signals that the process was started to ignore, as `nohup` does; bit 0 is signal 1 (proc(5), SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
