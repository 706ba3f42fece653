//! lab

pub mod config;
