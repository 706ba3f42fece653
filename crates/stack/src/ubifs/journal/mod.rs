//! The journal: what was written since the last commit.
/// Buds and the log area.
#[derive(Clone, Debug)]
pub(crate) struct Log;
