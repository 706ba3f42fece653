//! Integration tests of images, one binary.

mod build;
mod ecc;
mod ecc_detect;
mod jffs2;
