//! UBIFS in the guest: chips, and cases spread over guests.

use crate::judge::{fresh, home, judge};
use crate::manifest::Manifest;
use crate::witness::witness;
use floatgate_testing::few_or_all;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A chip of `tests/kernel/ubifs/flash`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chip {
    /// Its name there.
    pub(crate) name: &'static str,
    /// Bytes of a page.
    pub(crate) page: u32,
    /// Bytes of the smallest write: what a VID header takes.
    pub(crate) sub_page: u32,
    /// Bytes of an eraseblock.
    pub(crate) peb: u32,
    /// Eraseblocks.
    pub(crate) pebs: u32,
    /// Bytes that are best written at once.
    pub(crate) buffer: u32,
}

const fn nand(name: &'static str, page: u32, sub_page: u32, peb_kib: u32, pebs: u32) -> Chip {
    Chip { name, page, sub_page, peb: peb_kib << 10, pebs, buffer: page }
}

const fn nor(name: &'static str, peb_kib: u32, buffer: u32) -> Chip {
    Chip { buffer, ..nand(name, 1, 1, peb_kib, 64) }
}

/// Pages, sub-pages or none; blocks.
pub(crate) const CHIPS: [Chip; 9] = [
    nand("512", 512, 256, 16, 256),
    nand("512-O", 512, 512, 16, 256),
    nand("2k", 2048, 512, 128, 64),
    nand("2k-O", 2048, 2048, 128, 64),
    nand("4k", 4096, 1024, 64, 64),
    nand("4k-O", 4096, 4096, 64, 64),
    nand("4k-256k-O", 4096, 4096, 256, 64),
    nor("nor", 64, 64),
    nor("nor-big", 128, 512),
];

/// A chip for large cases.
pub(crate) const LARGE: Chip = nand("2k-128m", 2048, 512, 128, 1024);

/// Compressors by mount option.
pub(crate) const COMPRESSORS: [&str; 4] = ["lzo", "zlib", "zstd", "none"];

/// Cases of each chip: with every compressor in a campaign, with one of them otherwise.
pub(crate) fn rounds() -> usize {
    few_or_all(1, COMPRESSORS.len())
}

/// Chip and compressor of a case: after [`CHIPS`] cases each chip was there with another compressor.
pub(crate) fn combination(index: usize) -> (&'static Chip, usize) {
    let (round, chip) = (index / CHIPS.len(), index % CHIPS.len());
    (&CHIPS[chip], (round + chip) % COMPRESSORS.len())
}

/// Guests that run at the same time.
const GUESTS: usize = 2;

/// An image and what the kernel found in it.
pub(crate) struct Pair {
    /// Of the case and the moment.
    pub(crate) name: String,
    /// The chip's bytes.
    pub(crate) image: PathBuf,
    /// Nothing: the kernel refused it.
    pub(crate) manifest: Option<Manifest>,
    /// What it complained about.
    pub(crate) complaints: Vec<String>,
}

/// What a script does once.
pub(crate) struct Case {
    /// Its words.
    pub(crate) line: String,
    /// Its image as `<name>.bin`, or nothing.
    pub(crate) image: Option<PathBuf>,
}

/// Runs `tests/kernel/ubifs/<script>` for all cases, spread over guests; `name` is that of their folders, where results are.
pub(crate) fn run(script: &str, name: &str, cases: &[Case]) -> Result<Vec<PathBuf>, String> {
    let folders: Vec<_> = (0..GUESTS).map(|guest| input(name, guest, cases)).collect();
    let script = format!("ubifs/{script}");
    let guest = &|number: usize| judge(&script, &format!("ubifs-{name}-{number}"), &folders[number]);
    std::thread::scope(|scope| {
        let guests: Vec<_> = (0..GUESTS).map(|number| scope.spawn(move || guest(number))).collect();
        guests.into_iter().map(|guest| guest.join().unwrap()).collect()
    })
}

/// The folder that a guest gets.
fn input(name: &str, guest: usize, cases: &[Case]) -> PathBuf {
    let folder = fresh(&format!("ubifs-{name}-{guest}-in"));
    let cases: Vec<_> = cases.iter().skip(guest).step_by(GUESTS).collect();
    let lines: String = cases.iter().map(|case| format!("{}\n", case.line)).collect();
    std::fs::write(folder.join("cases"), lines).unwrap();
    let images = cases.iter().filter_map(|case| case.image.clone());
    for file in images.chain([witness().to_owned(), home().join("ubifs/flash")]) {
        std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    folder
}

/// All `.bin` of a script's results, by name.
pub(crate) fn pairs(results: &[PathBuf]) -> Vec<Pair> {
    let files =
        results.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()));
    let mut images: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "bin")).collect();
    images.sort();
    images.into_iter().map(|image| pair(&image)).collect()
}

/// The results `<name>.manifest` and `<name>.log` beside an image.
pub(crate) fn pair(image: &Path) -> Pair {
    let text = |end: &str| std::fs::read_to_string(image.with_extension(end));
    Pair {
        name: image.file_stem().unwrap().to_str().unwrap().to_owned(),
        image: image.to_owned(),
        manifest: text("manifest").ok().map(|text| Manifest::parse(&text)),
        complaints: text("log").unwrap_or_default().lines().map(str::to_owned).collect(),
    }
}

/// Runs floatgate.
pub(crate) fn floatgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_floatgate")).args(arguments).output().unwrap()
}
