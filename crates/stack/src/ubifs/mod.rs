//! UBIFS over any [`Volume`](crate::Volume).
