//! Errors of an image.

use super::layout::LayoutError;
use crate::words::count;
use floatgate_ecc::CodeError;
use std::fmt;

/// Reason for which an image cannot be encoded, decoded or checked.
#[derive(Debug, thiserror::Error)]
pub enum EccError {
    /// A size that no chip has.
    #[error("{what} of {value} is not between {least} and {most}")]
    Size {
        /// Name of the thing that has the size.
        what: &'static str,
        /// Size that was stated.
        value: u64,
        /// Smallest possible.
        least: u64,
        /// Largest possible.
        most: u64,
    },
    /// No such code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The layout is not for such pages, or not for the code.
    #[error("{code} in layout {layout}: {error}")]
    Layout {
        /// Name of the code.
        code: String,
        /// Name of the layout.
        layout: String,
        /// Description of the fault.
        error: LayoutError,
    },
    /// No dump to merge, or too many.
    #[error("{count} dumps were named, and 1 to 16 can be merged")]
    Dumps {
        /// Number of dumps.
        count: usize,
    },
    /// A dump to merge is of another chip.
    #[error(
        "dump {dump} is not of the same chip as dump {other}, or the chip was written between them: only {alike} of {compared} pages with data are alike, and {agree:.1} % of their bits agree"
    )]
    OtherChip {
        /// Number of the dump, from 1.
        dump: usize,
        /// Number of the dump with which it is compared.
        other: usize,
        /// Pages with data in both dumps.
        compared: u64,
        /// Those in which nearly all bits agree.
        alike: u64,
        /// Share of the bits of these pages that agree, in percent.
        agree: f64,
    },
    /// A dump to merge has the bytes of another dump at other places.
    #[error("dump {dump} has the bytes of dump {other} at other places: {how}")]
    Displaced {
        /// Number of the dump, from 1.
        dump: usize,
        /// Number of the dump with which it is compared.
        other: usize,
        /// Difference of the places.
        how: Displacement,
    },
    /// A dump to merge has other bytes in the OOB.
    #[error(
        "nearly no step of dump {dump} can be corrected: only {alike} of {compared} pages have the OOB of dump {other}"
    )]
    OtherOob {
        /// Number of the dump, from 1.
        dump: usize,
        /// Number of the dump with which it is compared.
        other: usize,
        /// Pages with bytes in the OOB of a dump.
        compared: u64,
        /// Those in which nearly all bits agree.
        alike: u64,
    },
    /// A dump to merge has its ECC bytes in another layout, or of another code.
    #[error("dump {dump} has {found}, and the dumps are merged under {expected}")]
    OtherLayout {
        /// Number of the dump, from 1.
        dump: usize,
        /// Codes and layouts of this dump.
        found: String,
        /// Codes and layouts under which the dumps are merged.
        expected: String,
    },
    /// Nothing tells the order of the dumps of two chips.
    #[error("nothing tells in which order the two chips are used (orders tried: {tried})")]
    NoOrder {
        /// Orders that were tried.
        tried: usize,
    },
    /// There is nothing in the file.
    #[error("the file is empty")]
    Empty,
    /// Not even one page.
    #[error("a page has {page_bytes} bytes, and the file is {bytes} long")]
    Short {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes of a page, with its OOB where that is in the file.
        page_bytes: u64,
    },
    /// The image is larger than the chip.
    #[error("the image has more than the {bytes} bytes of the chip")]
    TooLarge {
        /// Data bytes of the chip.
        bytes: u64,
    },
    /// OOB in a file of its own, which belongs to other pages.
    #[error("the file with OOB is too {how}: {pages} pages need {bytes} bytes")]
    Apart {
        /// `short` or `long`.
        how: &'static str,
        /// Pages read so far.
        pages: u64,
        /// Bytes of OOB that they need.
        bytes: u64,
    },
    /// Data that end within a page, whose OOB the file with OOB has.
    #[error("the data end {rest} bytes into page {page}, and the file with OOB has that page, too")]
    PartOfPage {
        /// Number of the page, from 0.
        page: u64,
        /// Bytes of it.
        rest: usize,
    },
    /// Two dumps that are to be of two chips are of one.
    #[error("both dumps are of the same chip: {alike} of {compared} pages with data are alike")]
    SameChip {
        /// Pages with data in both dumps.
        compared: u64,
        /// Those in which nearly all bits agree.
        alike: u64,
    },
    /// Two dumps that are to be of two chips hold the same structures.
    #[error(
        "both dumps are of the same chip: {twice} of {structures} structures would be in the joined dump twice"
    )]
    Repeats {
        /// Different structures in both dumps.
        structures: u64,
        /// Those that are there twice.
        twice: u64,
    },
    /// All pages with data are nearly erased, or filled with one byte.
    #[error(
        "the dump has too little data to show which code was used: its pages are nearly erased, or filled with one byte"
    )]
    TooLittle,
    /// Every page is erased: nothing shows which code there is.
    #[error("every page is erased, so nothing shows which code was used")]
    AllErased,
    /// The input cannot be read.
    #[error("cannot read at byte {offset}: {error}")]
    Read {
        /// Byte in the file.
        offset: u64,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write at byte {offset}: {error}")]
    Write {
        /// Byte in the file.
        offset: u64,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

/// Difference between the places of the same bytes in two dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// The pages are there without OOB.
    WithoutOob,
    /// Number of bytes before the first page.
    InFront(u64),
    /// Number of bytes that are missing at the beginning.
    FrontMissing(u64),
    /// Bytes are missing before a page.
    Missing {
        /// Number of the first page that was found at another place.
        page: u64,
        /// Number of missing bytes.
        bytes: u64,
    },
    /// Other bytes are before a page.
    Inserted {
        /// Number of the first page that was found at another place.
        page: u64,
        /// Number of these bytes.
        bytes: u64,
    },
    /// The distance changes from page to page.
    OtherPages,
}

impl fmt::Display for Displacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutOob => write!(f, "its pages are without OOB"),
            Self::InFront(bytes) => write!(f, "it has {} in front of the first page", count(*bytes, "byte")),
            Self::FrontMissing(bytes) => write!(f, "it lacks the first {}", count(*bytes, "byte")),
            Self::Missing { page, bytes } => {
                write!(f, "it lacks {} at or before page {page}", count(*bytes, "byte"))
            }
            Self::Inserted { page, bytes } => {
                write!(f, "it has {} more at or before page {page}", count(*bytes, "byte"))
            }
            Self::OtherPages => {
                write!(f, "its pages have other sizes, or their bytes are in another order")
            }
        }
    }
}
