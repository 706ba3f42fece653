//! Reads and writes a board's flash, and cuts the power of a filesystem on it: `cargo run -p floatgate --example
//! first_hour`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use floatgate::{Cut, Setup};

pub(crate) fn main() -> floatgate::Result<()> {
    let setup = Setup::named("imx6-mx30lf2g18ac")?.with("chip=mx30lf1g18ac")?.seed(42).bad_blocks(5);
    let mut flash = setup.flash()?;
    flash.erase_block(0)?;
    flash.write(0, &[0xA5; 2048])?;
    let mut page = [0; 2048];
    let took = flash.read(0, &mut page)?;
    println!("{took}");

    let mut fs = setup.ubifs()?.format(flash)?;
    fs.write_file("/greeting", b"hello")?;
    let flash = fs.power_cut(Cut::at_operation(3).share(0.5))?;
    let mut fs = setup.ubifs()?.mount(flash)?;
    println!("{:?} after {}", fs.read_file("/greeting"), fs.mount_time());
    Ok(())
}
