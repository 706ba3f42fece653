//! Images of UBI and UBIFS: what is in a file, and the filesystem in it.
//!
//! - [`detect`](mod@detect): where UBI or UBIFS is in a file, and its sizes.
//! - [`open`]: from a file to a mounted filesystem; dumps with OOB are corrected on the way.
//! - [`info`](mod@info): what is in an image, and how to make one like it.
//! - [`extract`](mod@extract): a filesystem into a directory or a tar.

pub mod check;
pub mod detect;
pub mod diff;
pub mod dump;
mod error;
pub mod extract;
pub mod info;
mod oob;
pub mod open;
pub mod repair;

pub use error::ImageError;
pub use oob::Corrected;
pub use open::{Access, FileUbi, FileUbifs, Image, Selection};
