//! Reads a page of a raw NAND, and says where each microsecond went: `cargo run -p floatgate-lab --example read_page`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use floatgate_config::{Library, Override};
use floatgate_mtd::Mtd;
use floatgate_sim::rig::{self, RigOptions};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // A board of the catalogue, with another chip and with an ECC engine that the CPU is.
    let library = Library::built_in();
    let sets = Override::parse_all(&["chip=mx30lf1g18ac", "ecc.engine=software"])?;
    let config = library.resolve(&library.setup("imx6-mx30lf2g18ac")?, &sets)?;
    let mut rig = rig::wire(&library, &config, RigOptions::default())?;
    println!("{} {}, {}", rig.maker, rig.chip, rig.device.link().read);

    let page_bytes = rig.device.geometry().write_bytes as usize;
    let now = rig.now();
    let erased = rig.device.erase(now, 0, u64::from(rig.device.geometry().erase_bytes))?;
    let written = rig.device.write(erased.at, 0, &vec![0xA5; page_bytes])?;

    // An operation takes the time at which it begins and returns the one at which it ended.
    let mut page = vec![0; page_bytes];
    let before = rig.device.breakdown();
    let read = rig.device.read(written.at, 0, &mut page)?;
    assert!(page.iter().all(|&byte| byte == 0xA5));
    println!("{} for a page of {page_bytes} bytes:", read.at.since(written.at));
    let spent = rig.device.breakdown() - before;
    for (phase, time) in spent.iter().filter(|(_, time)| time.as_ns() > 0) {
        println!("  {:<10} {time}", phase.name());
    }
    assert_eq!(spent.total(), read.at.since(written.at));
    Ok(())
}
