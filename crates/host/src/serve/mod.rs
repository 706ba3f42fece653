//! Block devices for other programs: as a file through FUSE, and as a disk of a guest through vhost-user.

mod clock;
mod fuse;
mod vhost;

pub use clock::clock;
pub use fuse::{Clock, DelayStats, MountedDevice};
pub use vhost::{Stopper, VhostDevice};
