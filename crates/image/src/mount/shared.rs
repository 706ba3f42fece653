//! The filesystem as the threads of a mount share it: the one that answers the kernel, and the one that writes back.
//!
//! A request is answered in the thread that reads it. Handing it to another thread took two more context switches, which
//! cost more than the work itself.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use floatgate_stack::fs::Error;
use rustix::io::Errno;

use super::{Answer, Handler};
use crate::ImageError;
use floatgate_host::Lock;

/// Time between two looks at what is not written back. Linux: `dirty_writeback_centisecs`.
const PERIOD: Duration = Duration::from_secs(5);

/// Looks after which changes are written back though requests still come. Linux: `dirty_expire_centisecs`, 30 s.
const PERIODS_MAX: u32 = 6;

/// A filesystem as a mount has it.
pub(super) type Served = Handler;

/// The filesystem until the mount ends, and how often it was asked.
struct State {
    served: Option<Served>,
    requests: u64,
    /// Takes the failure after which nothing can be written any more.
    on_failure: Option<fn(&Error)>,
}

impl State {
    /// Tells the user of a failure, once.
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
    /// Does something with the filesystem.
    ///
    /// # Errors
    /// Those of `work`; EIO once the mount has ended, or after a bug in another request.
    pub(super) fn ask<T>(&self, work: impl FnOnce(&mut Served) -> Answer<T>) -> Answer<T> {
        let mut state = self.state.lock().map_err(|_| Errno::IO)?;
        state.requests += 1;
        let answer = work(state.served.as_mut().ok_or(Errno::IO)?);
        state.report_failure();
        answer
    }

    /// Writes back whenever no request has come for a period, and now and then, until the mount ends.
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

/// The filesystem with the thread that writes back.
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

    /// The filesystem, to ask it.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Unmounts the filesystem.
    ///
    /// # Errors
    /// It could not be written, now or before; a bug in an earlier request, after which it is left as a loss of power leaves it.
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
/// It could not be written, now or before.
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
