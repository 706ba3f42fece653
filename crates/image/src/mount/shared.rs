//! Filesystem that the threads of a mount share: one thread answers the kernel, the other writes back.
//!
//! The thread that reads a request also answers it. Passing it to another thread took two more context switches,
//! which cost more than the request itself.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use floatgate_stack::fs::Error;
use rustix::io::Errno;

use super::{Answer, Handler};
use crate::ImageError;
use floatgate_host::Lock;

/// Interval at which pending changes are checked. Linux: `dirty_writeback_centisecs`.
const PERIOD: Duration = Duration::from_secs(5);

/// Number of intervals after which changes are written back even if requests still arrive. Linux:
/// `dirty_expire_centisecs`, 30 s.
const PERIODS_MAX: u32 = 6;

/// Filesystem of a mount.
pub(super) type Served = Handler;

/// Filesystem until the mount ends, and its number of requests.
struct State {
    served: Option<Served>,
    requests: u64,
    /// Function for the failure after which no data can be written.
    on_failure: Option<fn(&Error)>,
}

impl State {
    /// Reports a failure to the user, once.
    fn report_failure(&mut self) {
        if let Some(error) = self.served.as_ref().and_then(Served::failure)
            && let Some(report) = self.on_failure.take()
        {
            report(&error);
        }
    }
}

/// A filesystem that several threads use, one at a time.
pub(super) struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

impl Shared {
    /// Runs `work` with the filesystem.
    ///
    /// # Errors
    /// The errors of `work`; EIO after the end of the mount, or after a panic in another request.
    pub(super) fn ask<T>(&self, work: impl FnOnce(&mut Served) -> Answer<T>) -> Answer<T> {
        let mut state = self.state.lock().map_err(|_| Errno::IO)?;
        state.requests += 1;
        let answer = work(state.served.as_mut().ok_or(Errno::IO)?);
        state.report_failure();
        answer
    }

    /// Writes back if no request has arrived for an interval, and otherwise after several intervals, until the mount
    /// ends.
    fn write_back(&self) {
        let mut periods = 0;
        let mut seen = 0;
        let Ok(mut state) = self.state.lock() else { return };
        while let State { served: Some(served), requests, .. } = &mut *state {
            periods += 1;
            if *requests == seen || periods == PERIODS_MAX {
                served.write_back();
                periods = 0;
            }
            seen = *requests;
            state.report_failure();
            match self.ended.wait_timeout(state, PERIOD) {
                Ok((again, _)) => state = again,
                Err(_) => return,
            }
        }
    }
}

/// Filesystem with its write-back thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    lock: Lock,
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(served: Served, lock: Lock, on_failure: fn(&Error)) -> Self {
        let on_failure = Some(on_failure);
        let state = Mutex::new(State { served: Some(served), requests: 0, on_failure });
        let shared = Arc::new(Shared { state, ended: Condvar::new() });
        let other = Arc::clone(&shared);
        Self { shared, thread: std::thread::spawn(move || other.write_back()), lock }
    }

    /// Filesystem for requests.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Unmounts the filesystem.
    ///
    /// # Errors
    /// It could not be written, now or earlier; a panic in an earlier request, after which the filesystem is left as
    /// after a power loss.
    pub(super) fn end(self) -> Result<(), ImageError> {
        let served = match self.shared.state.lock() {
            Ok(mut state) => state.served.take(),
            Err(poisoned) => {
                drop(PoisonError::into_inner(poisoned).served.take());
                None
            }
        };
        self.shared.ended.notify_all();
        let joined = self.thread.join();
        let served = served.filter(|_| joined.is_ok());
        let lost = || ImageError::File(std::io::Error::other("a request has failed in the middle"));
        unmount(served.ok_or_else(lost)?)?;
        self.lock.sync().map_err(ImageError::File)
    }
}

/// Unmounts the filesystem.
///
/// # Errors
/// It could not be written, now or earlier.
pub(super) fn unmount(served: Handler) -> Result<(), ImageError> {
    let mut fs = served.into_fs();
    if let Some(error) = fs.failure() {
        return Err(ImageError::Interrupted(Box::new(error.into())));
    }
    if !fs.is_read_only() {
        fs.sync()?;
    }
    Ok(fs.unmount()?)
}
