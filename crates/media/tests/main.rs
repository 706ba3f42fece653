//! Integration tests of the formats, one binary.

mod cfi;
mod common;
mod golden;
mod jedec;
mod lpt;
mod nand_id;
mod onfi;
mod sfdp;
mod sfdp_chips;
mod spec;
mod ubi;
mod ubifs;
