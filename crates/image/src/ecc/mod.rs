//! Images of raw NAND: data to pages with OOB, and dumps back to corrected data.
//!
//! - [`geometry`]: sizes of page, OOB and block, and where bad blocks are marked; from a part or from numbers.
//! - [`layout`]: layouts of raw pages, as data.
//! - [`scheme`]: a code in an OOB layout, for pages of one geometry.
//! - [`mod@encode`]: data in, pages with OOB out.
//! - [`mod@decode`]: pages with OOB in, corrected data out; what was found is a [`report::DecodeReport`].
//! - [`mod@detect`]: which codes and layouts a dump was written with: the `codes` that are tried on a `sample`, each in a `trial`.
//! - [`mod@merge`]: several dumps of one chip as one.
//! - `displaced`: dumps with the bytes of another dump at other places.
//! - [`mod@join`]: the dumps of two chips as one.
//! - [`transform`]: dumps whose bytes or bits were exchanged.
//! - [`mod@unpack`]: compressed and sparse files as the bytes that they hold.
//! - `columns` and `stuck`: bits that are stuck in all pages.
//! - `keystream`: randomizers, recovered from constant data.
//! - `search`: BCH codes in undescribed layouts.
//! - [`regions`]: the parts of a dump that they protect.
//!
//! Files of any size pass in chunks of whole blocks; memory does not grow with them.

mod codes;
mod columns;
pub mod decode;
pub mod detect;
mod displaced;
pub mod encode;
mod error;
pub mod geometry;
pub mod join;
mod keystream;
pub mod layout;
pub mod merge;
mod page;
pub mod regions;
pub mod report;
mod sample;
pub mod scheme;
mod search;
mod stream;
mod stuck;
pub mod transform;
mod trial;
pub mod unpack;

pub use decode::{BadBlocks, DecodeOptions, decode, decode_regions, strip};
pub use detect::{Detection, Detector, detect};
pub use displaced::displacement;
pub(crate) use encode::Encoder;
pub use encode::{EncodeReport, Form, encode};
pub use error::{Displacement, EccError};
pub use geometry::{Marker, PageGeometry};
pub use layout::{Layout, LayoutError};
pub use merge::{ErasedInSome, MergeReport, merge, require_layout};
pub(crate) use page::Corrector;
pub use regions::{RegionEcc, Regions};
pub use report::DecodeReport;
pub use sample::{Sample, sample};
pub use scheme::Scheme;
pub use stream::{Apart, Dump};
pub use stuck::StuckColumn;
pub use transform::{Transform, TwoChipsWriter};
pub use trial::{Candidate, RunnerUp};
pub use unpack::{Packing, unpack};

pub use floatgate_ecc::{Code, CodeError};
