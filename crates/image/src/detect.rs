//! Detection of the contents of a file: UBI, a bare UBIFS, JFFS2, with OOB between the pages or without, at its start or somewhere inside.

pub use crate::format::detect::detect;
pub use crate::format::location::{Content, ImageLocation, Jffs2Shape, Splice, UbiShape, UbifsShape};
pub use crate::format::magic::OtherFormat;
pub use crate::pages::PageShape;
