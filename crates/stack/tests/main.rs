//! Integration tests of UBI, UBIFS and JFFS2, one binary.

mod changes;
mod jffs2;
mod jffs2_live;
mod large;
mod limits;
mod protected;
mod ubi;
mod ubifs;
