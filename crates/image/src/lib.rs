//! Images and dumps of flash: what is in a file, and the filesystem in it.
//!
//! - [`detect`](mod@detect): where UBI or UBIFS is in a file, and its sizes.
//! - [`open`]: from a file to a mounted filesystem; dumps with OOB are corrected on the way.
//! - [`info`](mod@info): what is in an image, and how to make one like it.
//! - [`extract`](mod@extract): a filesystem into a directory or a tar; [`raw`]: the bytes of a volume.
//! - [`build`](mod@build): a directory or a tar into an image; [`ubinize`](mod@ubinize): volumes into a UBI image.
//! - [`check`](mod@check): what is wrong in an image; [`repair`](mod@repair): a new one with what can be saved.
//! - [`diff`](mod@diff): how two images differ; [`dump`](mod@dump): one node or header, field by field.
//! - [`edit`](mod@edit): changing a filesystem where it is, all or nothing.
//! - [`walk`]: directory trees, however they are damaged.
//! - [`mount`](mod@mount): an image as a folder of the host.
//! - [`ecc`]: dumps of raw NAND: data to pages with OOB and back, corrected and reported.
//! - [`output`]: the files that commands write, each whole or not at all; [`words`]: numbers with their nouns.

pub mod build;
pub mod check;
mod content;
pub mod detect;
pub mod diff;
pub mod dump;
pub mod ecc;
pub mod edit;
mod error;
pub mod extract;
pub mod info;
mod lock;
#[cfg(feature = "mount")]
pub mod mount;
mod oob;
mod oob_store;
pub mod open;
pub mod output;
pub mod raw;
pub mod repair;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod ubinize;
pub mod walk;
pub mod words;

pub use error::ImageError;
pub use lock::Lock;
pub use oob::Corrected;
pub use open::{Access, FileUbi, Image, ImageFs, Selection};
