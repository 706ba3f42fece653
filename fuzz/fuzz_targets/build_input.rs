//! Inputs of a build: bytes as a tar, or with a first bit of 1 as a device table over a small tar. A second bit builds a JFFS2 instead of a UBIFS.

#![no_main]

use floatgate_image::build::{BuildOptions, Container, FlashShape, Jffs2Options, Overrides, Source, build};
use floatgate_stack::ubifs::FormatOptions;
use libfuzzer_sys::fuzz_target;
use std::fs::File;

/// A tar without entries: two blocks of zeros.
const EMPTY: [u8; 1024] = [0; 1024];

/// Largest tar that is built.
const MAX_BYTES: usize = 64 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first().filter(|(_, bytes)| bytes.len() <= MAX_BYTES) else {
        return;
    };
    let folder = std::env::temp_dir();
    let [source, target] =
        ["tar", "out"].map(|name| folder.join(format!("floatgate-fuzz-{}.{name}", std::process::id())));
    let is_table = mode & 1 == 1;
    if std::fs::write(&source, if is_table { &EMPTY } else { bytes }).is_err() {
        return;
    }
    let Ok(out) = File::options().read(true).write(true).create(true).truncate(true).open(&target) else {
        return;
    };
    let options = BuildOptions {
        shape: FlashShape::of_nand(2048, 64, 64),
        container: if mode & 2 == 2 { Container::Jffs2(Jffs2Options::default()) } else { Container::None },
        format: FormatOptions::default(),
        uuid: None,
        volume_bytes: None,
        overrides: Overrides::default(),
        device_table: is_table.then(|| String::from_utf8_lossy(bytes).into_owned()),
    };
    let _ = build(&Source::Tar(source.clone()), out, &options);
    let _ = std::fs::remove_file(source);
    let _ = std::fs::remove_file(target);
});
