//! UBI over flash in memory.

#[path = "ubi/basics.rs"]
mod basics;
#[path = "ubi/common.rs"]
mod common;
#[path = "ubi/cuts.rs"]
mod cuts;
#[path = "ubi/fastmap.rs"]
mod fastmap;
#[path = "ubi/found.rs"]
mod found;
#[path = "ubi/model.rs"]
mod model;
#[path = "ubi/random.rs"]
mod random;
#[path = "ubi/ubinize.rs"]
mod ubinize;
#[path = "ubi/update.rs"]
mod update;
