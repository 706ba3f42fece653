//! Broken configurations, each with its message: `golden/config/NAME.toml` and `NAME.txt`.
//!
//! A first line `#: --set path=value` is an override. `UPDATE_GOLDEN=1` rewrites the messages.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Config, ConfigError, Kind, Library, Override, Source};
use floatgate_device::ecc_engine::EccProfile;
use floatgate_device::host::HostProfile;
use floatgate_device::spi::SpiBus;
use floatgate_device::spi::{SpiProfile, Variant};
use floatgate_device::units::TypMaxUs;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Minimal specification of a chip.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only read to see whether it can be")]
struct Chip {
    id: Vec<u8>,
    read: Vec<Variant>,
    timing: Timing,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only read to see whether it can be")]
struct Timing {
    #[serde(with = "floatgate_device::units::us")]
    t_rd_us: floatgate_mtd::Nanos,
    t_prog_us: TypMaxUs,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/config")
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
}

fn library() -> Library {
    let mut library = Library::empty();
    for kind in [Kind::Part, Kind::Controller, Kind::Setup] {
        for file in toml_files(&folder().join("library").join(kind.folder())) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            library = library.with(kind, name, fs::read_to_string(&file).unwrap());
        }
    }
    library
}

fn check(config: &Config) -> Result<(), ConfigError> {
    config.only_keys(&["title", "chip", "controller", "bus", "host", "ecc", "driver"])?;
    config.extract::<SpiBus>("bus")?;
    config.extract::<SpiProfile>("controller")?;
    config.extract_or_default::<HostProfile>("host")?;
    config.extract_or_default::<EccProfile>("ecc")?;
    config.extract::<Chip>("chip").map(drop)
}

fn run(library: &Library, name: &str, text: &[u8]) -> Result<(), ConfigError> {
    let source = Source::bytes(name, text)?;
    let set = source.content().lines().next().and_then(|line| line.strip_prefix("#: --set "));
    let sets = Override::parse_all(set.as_slice())?;
    let setup = library.setup_from(&source)?;
    check(&library.resolve(&setup, &sets)?)
}

#[test]
fn every_broken_file_has_its_message() {
    let library = library();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let files = toml_files(&folder());
    assert!(files.len() > 30, "the golden files are gone");
    let mut different = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let error = run(&library, name, &fs::read(&file).unwrap()).expect_err(name);
        let message = format!("{}\n", error.one_line());
        let golden = file.with_extension("txt");
        if update {
            fs::write(&golden, message).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != message {
            different.push(message);
        }
    }
    assert!(different.is_empty(), "not as in the golden files:\n{}", different.concat());
}

#[test]
fn the_unbroken_setup_passes() {
    let library = library();
    let setup = library.setup("board-w25n01gv").unwrap();
    check(&library.resolve(&setup, &[]).unwrap()).unwrap();
}
