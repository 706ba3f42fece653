//! Images and dumps of flash: the contents of a file, and the filesystems in it.
//!
//! - [`detect`](mod@detect): where UBI or UBIFS is in a file, and its sizes.
//! - [`open`]: from a file to a mounted filesystem; dumps with OOB are corrected on the way.
//! - [`info`](mod@info): description of an image, and the commands that create a similar one.
//! - [`extract`](mod@extract): a filesystem into a directory or a tar; [`raw`]: the bytes of a volume.
//! - [`build`](mod@build): a directory or a tar into an image; [`ubinize`](mod@ubinize): volumes into a UBI image.
//! - [`check`](mod@check): damage of an image; [`repair`](mod@repair): a new image with all readable data.
//! - [`diff`](mod@diff): how two images differ; [`dump`](mod@dump): one node or header, field by field.
//! - [`dump_kind`](mod@dump_kind): whether a dump has OOB, and the sizes of its pages.
//! - [`history`](mod@history): old versions of files, and removed ones.
//! - [`edit`](mod@edit): changes of a filesystem inside its image, completely or not at all.
//! - [`map`](mod@map): a map of everything in a flash dump.
//! - [`patch`](mod@patch): the eraseblocks in which two images differ, and commands that write only those.
//! - [`env`](mod@env): the environment of U-Boot, read and changed.
//! - [`walk`]: directory trees, however they are damaged.
//! - [`mount`](mod@mount): an image as a folder of the host.
//! - [`ecc`]: dumps of raw NAND: data to pages with OOB and back, corrected and reported.
//! - `format`: UBI, UBIFS and JFFS2, each behind one trait. No other module names them.
//! - [`words`]: numbers with their nouns.
//! # Example
//!
//! ```
//! use floatgate_image::build::{BuildOptions, Container, FlashShape, Overrides, Source, build};
//! use floatgate_image::{Access, Image, Selection};
//! use floatgate_stack::ubifs::{Behaviour, FormatOptions};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::create_dir(folder.path().join("root"))?;
//! std::fs::write(folder.path().join("root/greeting"), "hello")?;
//! let path = folder.path().join("image.ubi");
//! let options = BuildOptions {
//!     // Pages of 2 KiB without sub-pages, 64 in an eraseblock.
//!     shape: FlashShape::of_nand(2048, 64, 1024),
//!     container: Container::Ubi { name: "rootfs".to_owned(), autoresize: false, image_seq: None },
//!     format: FormatOptions::default(),
//!     uuid: None,
//!     volume_bytes: None,
//!     overrides: Overrides::default(),
//!     device_table: None,
//! };
//! let out = std::fs::File::options().read(true).write(true).create(true).open(&path)?;
//! build(&Source::Directory(folder.path().join("root")), out, &options)?;
//!
//! let image = Image::open(&path, Access::Read)?;
//! let mut fs = image.mount(&Selection::default(), false, Behaviour::default())?;
//! let inode = fs.resolve(b"/greeting")?;
//! assert_eq!(fs.attributes(inode)?.size, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod build;
pub mod check;
pub mod detect;
pub mod diff;
pub mod dump;
pub mod dump_kind;
pub mod ecc;
pub mod edit;
pub mod env;
mod error;
pub mod extract;
mod file_row;
mod format;
pub mod fuzzing;
pub mod help;
pub mod history;
mod image;
pub mod info;
mod inventory;
pub mod list;
pub mod map;
#[cfg(feature = "mount")]
pub mod mount;
mod oob;
mod oob_store;
pub mod open;
mod pages;
mod part;
pub mod patch;
mod pending;
pub mod raw;
mod readonly;
pub mod repair;
mod report;
mod saved;
mod selection;
pub mod status;
#[cfg(test)]
mod tests;
pub mod ubinize;
pub mod walk;
pub mod words;
pub mod write_back;
mod yaffs;

pub use error::{ImageError, LebsOnly, TreeLack};
pub use file_row::FileRow;
pub use format::ubi::fit::TargetFlash;
pub use oob::{Corrected, CorrectedRegion, RegionOutcome};
pub use open::{Access, FileUbi, FlashSizes, Image, ImageFs, PageSizes, Part, Selection};
