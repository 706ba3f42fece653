//! Long work that Ctrl-C ends.

use crate::failure::Failure;
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which Python's signal handlers get their turn.
const POLL: Duration = Duration::from_millis(50);

/// Marker with which cancelled work unwinds.
struct Cancelled;

/// Request to give up, which work looks at whenever it reports progress.
#[derive(Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends the work here if that was asked for. The libraries' progress calls return nothing, so it unwinds, as salsa's queries do.
    pub(crate) fn check(&self) {
        if self.is_asked_for() {
            resume_unwind(Box::new(Cancelled));
        }
    }
}

/// Runs work that uses all cores on threads of its own: the threads of a process are missing in what it forks, and work that was given up keeps
/// nobody waiting.
pub(crate) fn on_all_cores<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match ThreadPoolBuilder::new().build() {
        Ok(pool) => pool.install(work),
        // No more threads: those of the process.
        Err(_) => work(),
    }
}

/// Runs `work` on threads of its own, without the interpreter's lock, until it is done or a signal handler raises. The caller goes
/// on at once then; the thread ends when the work next looks at its [`Cancel`].
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let cancel = Cancel::default();
    let (sender, mut receiver) = channel();
    let its_own = cancel.clone();
    std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| on_all_cores(|| work(&its_own))));
        // Nobody listens after a signal.
        let _ = sender.send(outcome);
    });
    loop {
        // A unique reference may leave the interpreter's lock, a shared one may not.
        let unique = &mut receiver;
        match py.detach(move || unique.recv_timeout(POLL)) {
            Ok(Ok(outcome)) => return Ok(outcome?),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the thread of the work is gone", None).into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(raised) = py.check_signals() {
            cancel.0.store(true, Ordering::Relaxed);
            return Err(raised);
        }
    }
}
