//! Handling of Ctrl-C and similar signals, so that no partly written file remains.

#[cfg(feature = "fuse")]
use crate::mount::Unmounter;
use crate::output;
#[cfg(feature = "fuse")]
use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Message that is shown to the user when a signal ends the process.
static LAST_WORDS: OnceLock<String> = OnceLock::new();

/// Sets the message for the user, which explains how to continue after a signal.
pub fn set_last_message(words: String) {
    let _ = LAST_WORDS.set(words);
}

/// Makes SIGINT, SIGTERM and SIGHUP remove unfinished outputs before they end the process. `print` shows a message to the user.
pub fn remove_outputs_at_the_end(print: fn(&str)) {
    let handled = handled();
    // With this handler, exceeding the file size limit (ulimit -f) is an error of the write and does not end the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    // If handlers cannot be installed, signals end the process immediately.
    let Ok(mut signals) = Signals::new(handled) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            output::remove_unfinished();
            LAST_WORDS.get().into_iter().for_each(|words| print(words));
            let _ = emulate_default_handler(signal);
        }
    });
}

/// Signals that end a mount. They are blocked in this thread and in all threads created later.
#[cfg(feature = "fuse")]
pub struct Endings(SigSet);

#[cfg(feature = "fuse")]
impl Endings {
    /// Blocks the signals. Must be called before other threads are created, because those would receive the signals and end the
    /// process at once.
    ///
    /// # Errors
    /// An error of the system.
    pub fn block() -> std::io::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        Ok(Self(signals))
    }

    /// Starts a thread that unmounts with each signal. `print` shows a message to the user.
    pub fn unmount_with_each(self, mut unmounter: Unmounter, print: fn(&str)) {
        self.with_each(move || match unmounter.unmount() {
            Ok(true) => {}
            Ok(false) => print("still in use: the mount ends with its last user"),
            Err(error) => print(&format!("cannot be unmounted: {error}")),
        });
    }

    /// Starts a thread that runs `work` for each signal.
    pub fn with_each(self, mut work: impl FnMut() + Send + 'static) {
        std::thread::spawn(move || {
            while self.0.wait().is_ok() {
                work();
            }
        });
    }
}

/// Flag that requests the end of the process after cleanup.
#[derive(Clone, Default)]
pub struct Ending {
    is_asked: Arc<AtomicBool>,
}

impl Ending {
    /// Installs handlers for SIGINT, SIGTERM, SIGHUP and all other catchable signals that end a process; the handlers only set
    /// this flag.
    pub fn new() -> Self {
        let ending = Self::default();
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
        for signal in not_ignored(&ENDING) {
            let _ = signal_hook::flag::register(signal, Arc::clone(&ending.is_asked));
        }
        ending
    }

    /// True after such a signal.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

/// Catchable signals that end a process by default and do not indicate a bug.
const ENDING: [i32; 10] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGXCPU];

fn handled() -> impl Iterator<Item = i32> {
    not_ignored(&[SIGINT, SIGTERM, SIGHUP])
}

fn not_ignored(signals: &[i32]) -> impl Iterator<Item = i32> + use<'_> {
    let ignored = ignored();
    signals.iter().copied().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Signals that the process inherited as ignored, as with `nohup`; bit 0 is signal 1 (proc(5), SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
