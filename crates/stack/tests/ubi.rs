//! UBI over flash in memory.

#[path = "ubi/basics.rs"]
mod basics;
#[path = "ubi/flash.rs"]
mod flash;
