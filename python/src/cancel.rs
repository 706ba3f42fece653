//! Long work that Ctrl-C ends.

use crate::failure::Failure;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which Python's signal handlers get their turn.
const POLL: Duration = Duration::from_millis(50);

/// Marker with which cancelled work unwinds.
struct Cancelled;

/// Request to give up, which work looks at whenever it reports progress.
pub(crate) struct Cancel(AtomicBool);

impl Cancel {
    /// Ends the work here if that was asked for. The libraries' progress calls return nothing, so it unwinds, as salsa's queries do.
    pub(crate) fn check(&self) {
        if self.0.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Cancelled));
        }
    }
}

/// Runs `work` on a thread of its own, without the interpreter's lock, until it is done or a signal handler raises.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let cancel = Cancel(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (sender, mut receiver) = channel();
        let cancel = &cancel;
        scope.spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(cancel)));
            // Nobody listens after a signal.
            let _ = sender.send(outcome);
        });
        loop {
            // A unique reference may leave the interpreter's lock, a shared one may not.
            let unique = &mut receiver;
            let received = py.detach(move || unique.recv_timeout(POLL));
            match received {
                Ok(Ok(outcome)) => return Ok(outcome?),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("the work was lost", None).into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(raised) = py.check_signals() {
                cancel.0.store(true, Ordering::Relaxed);
                // The thread ends at its next report of progress; until then others may run.
                let unique = &mut receiver;
                let _ = py.detach(move || unique.recv().is_ok());
                return Err(raised);
            }
        }
    })
}
