//! Embeds the files of the catalogue: generates a table of their texts by kind and name, which
//! `library` includes.
#![allow(clippy::print_stdout, reason = "this is how a build script speaks to Cargo")]

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Names of the kinds of files (variants of `Kind` in `library`), with their folders.
const FOLDERS: [(&str, &str); 6] = [
    ("Setup", "setups"),
    ("Part", "parts"),
    ("Card", "parts/cards"),
    ("Controller", "controllers"),
    ("Host", "hosts"),
    ("CardHost", "hosts/cards"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let data = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("data");
    let mut table = "pub(super) static TEXTS: &[(Kind, &[(&str, &str)])] = &[\n".to_owned();
    for (kind, folder) in FOLDERS {
        println!("cargo::rerun-if-changed=data/{folder}");
        writeln!(table, "    (Kind::{kind}, &[")?;
        let mut files = fs::read_dir(data.join(folder))?.collect::<Result<Vec<_>, _>>()?;
        files.sort_by_key(fs::DirEntry::file_name);
        for path in files.iter().map(fs::DirEntry::path) {
            if path.extension().is_some_and(|extension| extension == "toml") {
                let name = path.file_stem().unwrap_or_default();
                writeln!(table, "        ({name:?}, include_str!({path:?})),")?;
            }
        }
        table += "    ]),\n";
    }
    table += "];\n";
    fs::write(Path::new(&env::var("OUT_DIR")?).join("catalogue.rs"), table)?;
    Ok(())
}
