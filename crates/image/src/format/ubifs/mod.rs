//! UBIFS: its own structures in an image.

pub(crate) mod check;
pub(crate) mod damaged;
pub(crate) mod dump;
pub(crate) mod fill;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod repair;
