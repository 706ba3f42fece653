//! Any bytes as a setup, and any text as override and sweep: an error or a configuration, never a panic.
#![no_main]

use floatgate_config::{ConfigError, Kind, Library, Override, Source, sweep};
use floatgate_device::spi::SpiBus;
use libfuzzer_sys::fuzz_target;

const PART: &str = "kind = 'spi-nand'\nname = 'ONE'\n[chip]\nid = [1, 2]\n[profile.slow.chip]\nt_us = 1\n";

/// The input up to the first NUL is the setup, the rest an override.
fn run(data: &[u8]) -> Result<(), ConfigError> {
    let (setup, set) = match data.iter().position(|&byte| byte == 0) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &b"chip=one"[..]),
    };
    let set = String::from_utf8_lossy(set);
    let library = Library::empty().with(Kind::Part, "one", PART);
    let setup = library.setup_from(&Source::bytes("fuzz.toml", setup)?)?;
    sweep(&library, &[&set])?;
    let config = library.resolve(&setup, &[Override::parse(&set, 1)?])?;
    config.only_keys(&["chip", "bus"])?;
    config.extract::<SpiBus>("bus").map(drop)
}

fuzz_target!(|data: &[u8]| {
    if let Err(error) = run(data) {
        assert!(!error.one_line().is_empty());
    }
});
