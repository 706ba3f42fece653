//! Cancellation of long work by Ctrl-C.

use crate::failure::Failure;
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which Python's signal handlers run.
const POLL: Duration = Duration::from_millis(50);

/// Payload of the unwind with which cancelled work ends.
struct Cancelled;

/// Request to cancel, which work checks whenever it reports progress.
#[derive(Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends the work here if cancellation was requested. The progress calls of the libraries return nothing, so it
    /// unwinds, as queries of salsa do.
    pub(crate) fn check(&self) {
        if self.is_asked_for() {
            resume_unwind(Box::new(Cancelled));
        }
    }
}

/// Runs work on its own pool of threads. The threads of the global pool do not exist in forked processes, and cancelled
/// work must not block other callers.
pub(crate) fn on_all_cores<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match ThreadPoolBuilder::new().build() {
        Ok(pool) => pool.install(work),
        // If no threads can be created, the global pool is used.
        Err(_) => work(),
    }
}

/// Runs `work` on its own thread without the interpreter's lock, until it ends or a signal handler raises. In that case
/// the caller continues at once, and the thread ends at the next check of its [`Cancel`].
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let cancel = Cancel::default();
    let (sender, mut receiver) = channel();
    let its_own = cancel.clone();
    std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| on_all_cores(|| work(&its_own))));
        // After a signal, there is no receiver, so an error is ignored.
        let _ = sender.send(outcome);
    });
    loop {
        // A unique reference may be sent to code without the interpreter's lock; a shared one may not.
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
