//! Progress of work that takes long, for a bar with the share that is done.

/// News of work that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of steps that the work has.
    Steps(u64),
    /// Number of further steps that are done.
    Done(u64),
}

/// Function that takes the news, from any thread.
pub type Listener<'a> = &'a (dyn Fn(Progress) + Sync);
