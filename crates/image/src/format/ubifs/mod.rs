//! UBIFS: its own structures in an image.

pub(crate) mod check;
