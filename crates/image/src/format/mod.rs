//! Knowledge of single formats: how each is detected, described, checked, repaired and dumped, and what is left of a damaged one.
//!
//! Code that works for any filesystem is written against `stack::fs` and stands beside this folder. A new format gets a folder here; its
//! parts are called by `detect`, `info`, `check`, `repair` and `dump`.

pub(crate) mod jffs2;
pub(crate) mod mapped;
pub(crate) mod ubi;
pub(crate) mod ubifs;
