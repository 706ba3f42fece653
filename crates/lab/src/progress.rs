//! Progress of long work, for a progress bar.

/// Progress message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Total number of steps of the work.
    Steps(u64),
    /// Number of further steps done.
    Done(u64),
}

/// Callback that receives the progress, from any thread.
pub type Listener<'a> = &'a (dyn Fn(Progress) + Sync);
