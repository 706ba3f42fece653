//! UBIFS over any [`Volume`](crate::Volume).

pub mod compress;
