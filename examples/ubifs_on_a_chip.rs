//! UBIFS on UBI on a simulated SPI NAND, unmounted and mounted again: `cargo run -p floatgate-lab --example ubifs_on_a_chip`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use floatgate_config::Library;
use floatgate_sim::machine::{self, Filesystem};
use floatgate_sim::rig::{self, RigOptions};
use floatgate_stack::fs::{NewFile, NewKind};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let library = Library::built_in();
    let config = library.resolve(&library.setup("am62a-nopm-w35n01jw")?, &[])?;
    let layers = Filesystem::of_setup(&config)?.layers()?;
    let mut fs = machine::make(rig::wire(&library, &config, RigOptions::default())?, &layers)?;

    let file = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    let begin = fs.now();
    let root = fs.root();
    let inode = fs.create(root, b"greeting", &file)?;
    fs.write(inode, 0, b"hello, flash")?;
    fs.fsync(inode)?;
    println!("a small file is on flash after {}", fs.now().since(begin));

    let (device, unmounted) = fs.into_device().map_err(|(why, _)| why)?;
    let mut attached = unmounted;
    let mounted = layers.mount(device, unmounted, &mut |_, now| attached = now);
    let mut fs = mounted.map_err(|(why, _)| why)?;
    println!("attached in {}, mounted in {}", attached.since(unmounted), fs.now().since(attached));

    let inode = fs.resolve(b"/greeting")?;
    let mut text = [0; 64];
    let len = fs.read(inode, 0, &mut text)?;
    assert_eq!(&text[..len], b"hello, flash");
    println!("{} blocks of 4 KiB are free", fs.space().free_blocks);
    Ok(())
}
