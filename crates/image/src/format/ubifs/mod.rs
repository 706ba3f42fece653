//! UBIFS: its own structures in an image.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod fill;
pub(crate) mod info;
pub(crate) mod remains;
pub(crate) mod repair;
