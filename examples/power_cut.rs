//! Power goes away in the middle of a program: `cargo run -p floatgate-lab --example power_cut`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use floatgate_config::{Library, Override};
use floatgate_device::power::PowerCut;
use floatgate_mtd::{Mtd, OobMode};
use floatgate_sim::rig::{self, RigOptions};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let library = Library::built_in();
    let sets = Override::parse_all(&["ecc.engine=none"])?;
    let config = library.resolve(&library.setup("imx6-mx30lf2g18ac")?, &sets)?;
    let page_bytes = 2048;
    for share in [0.2, 0.5, 0.9] {
        let mut device = rig::wire(&library, &config, RigOptions::default())?.device;
        let now = device.host().now();
        // In the first program from now on, when so much of it is done.
        device.power_mut().order(Some(PowerCut::During { operation: 1, share }));
        let Err(lost) = device.write(now, 0, &vec![0; page_bytes]) else {
            return Err("power did not go away".into());
        };
        device.restart()?;
        let mut page = vec![0xFF; page_bytes];
        let now = device.host().now();
        device.read_oob(now, 0, &mut page, &mut [], OobMode::Raw)?;
        let ones: u32 = page.iter().map(|byte| byte.count_ones()).sum();
        println!("cut at {share:.1} of tPROG ({lost}): {ones} of {} bits still read 1", page_bytes * 8);
    }
    Ok(())
}
