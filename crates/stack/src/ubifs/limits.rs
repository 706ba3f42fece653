//! Limits of what a mounted filesystem keeps in memory and tries.
//!
//! None of them changes what a caller sees but time and flash operations; the model tests and power-cut runs set them to 1, 2, 3
//! and 8, so that each is reached.

/// Limits of a mounted filesystem. The format has others, which the superblock or the layout of the volume sets: bytes of the
/// journal and of the log, orphans, fanout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of inodes kept in memory beside those that are open or changed.
    pub inodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { inodes: 1024 }
    }
}
