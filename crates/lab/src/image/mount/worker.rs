//! The thread that owns the filesystem: it is asked one thing after the other, in the order in which the kernel asks.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use floatgate_stack::Volume;

use super::Handler;
use crate::image::{ImageError, Lock};

/// Requests that may wait.
const WAITING: usize = 64;

/// When nobody has asked for anything for so long, what was changed goes to flash.
const QUIET: Duration = Duration::from_secs(5);

/// A filesystem as the worker has it.
pub(super) type Served = Handler<Box<dyn Volume>>;

/// Something to do with the filesystem.
pub(super) type Job = Box<dyn FnOnce(&mut Served) + Send>;

/// The thread.
pub(super) struct Worker {
    jobs: SyncSender<Option<Job>>,
    thread: JoinHandle<Result<(), ImageError>>,
}

impl Worker {
    /// Starts the thread and waits until it has opened the filesystem.
    pub(super) fn start(
        open: impl FnOnce() -> Result<(Served, Lock), ImageError> + Send + 'static,
    ) -> Result<Self, ImageError> {
        let (jobs, todo) = sync_channel(WAITING);
        let (ready, opened) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let outcome = open();
            let (served, lock) = match outcome {
                Ok(opened) => {
                    let _ = ready.send(Ok(()));
                    opened
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return Ok(());
                }
            };
            work(served, &todo).and_then(|()| lock.sync())
        });
        match opened.recv() {
            Ok(outcome) => outcome.map(|()| Self { jobs, thread }),
            Err(_) => Err(lost()),
        }
    }

    /// Where to send what is to be done.
    pub(super) fn jobs(&self) -> SyncSender<Option<Job>> {
        self.jobs.clone()
    }

    /// Does what is waiting, and unmounts the filesystem.
    pub(super) fn end(self) -> Result<(), ImageError> {
        let _ = self.jobs.send(None);
        self.thread.join().unwrap_or_else(|_| Err(lost()))
    }
}

/// Works until the end is asked for, or nobody is left who could ask.
fn work(mut served: Served, todo: &Receiver<Option<Job>>) -> Result<(), ImageError> {
    loop {
        match todo.recv_timeout(QUIET) {
            Ok(Some(job)) => job(&mut served),
            Err(RecvTimeoutError::Timeout) => served.idle(),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let mut fs = served.into_fs();
    if !fs.is_read_only() {
        fs.sync()?;
    }
    fs.unmount().map(drop).map_err(|(error, _)| error.into())
}

fn lost() -> ImageError {
    ImageError::File(std::io::Error::other("the thread of the filesystem has ended"))
}
