//! Cuts power in each program and erase of a `sync`; every mount recovers: `cargo run -p floatgate --example every_cut`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use floatgate::{Cut, Error, Setup};

pub(crate) fn main() -> floatgate::Result<()> {
    let setup = Setup::named("am62a-nopm-w35n01jw")?.with("partition.size=8MiB")?;
    let ubifs = setup.ubifs()?;
    let mut fs = ubifs.format(setup.flash()?)?;
    fs.write_file("/state", b"old")?;
    fs.sync()?;
    fs.write_file("/state.new", b"new")?;
    // Without this sync a power cut can leave an empty file, as on Linux: the new name can reach flash before the data.
    fs.sync()?;
    fs.rename("/state.new", "/state")?;

    for operation in 1.. {
        // A clone shares all blocks that it does not change.
        let flash = match fs.clone().power_cut(Cut::at_operation(operation)) {
            Err(Error::CutNotReached { operations }) => {
                println!("sync has {operations} programs and erases");
                break;
            }
            cut => cut?,
        };
        let mut recovered = ubifs.mount(flash)?;
        let state = recovered.read_file("/state")?;
        assert!(state == b"old" || state == b"new");
        println!(
            "cut {operation}: {}, mounted in {}",
            String::from_utf8_lossy(&state),
            recovered.mount_time()
        );
    }
    Ok(())
}
