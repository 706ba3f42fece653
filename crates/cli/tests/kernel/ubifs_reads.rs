//! floatgate reads what the kernel and mtd-utils wrote.

use crate::manifest::{Manifest, assert_no_differences};
use crate::tar;
use crate::ubifs::{CHIPS, COMPRESSORS, Case, Chip, Pair, combination, floatgate, pairs, rounds, run};
use floatgate_testing::few_or_all;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Cases of `writes`: each gives [`IMAGES`].
fn cases() -> usize {
    CHIPS.len() * rounds()
}

/// Images of a case.
const IMAGES: usize = 4;

/// One image of so many may have no pair: what a power cut left may be refused. A campaign has more than 130 pairs, with those of
/// mtd-utils and with images of floatgate's own more than 300.
const UNPAIRED: usize = 5;

/// Images of its own, of a device in use, that the kernel may refuse: Linux 6.1 does so now and then when the journal has
/// names with one hash.
const REFUSED: usize = 4;

/// Makers and mount options that some of the cases have.
const VARIANTS: [&str; 6] = ["kernel", "kernel bulk_read", "mkfs", "kernel", "kernel sync", "mkfs:2000"];

/// Options of mkfs.ubifs, each with its chip and compressor. The first half has each option and kind of chip once.
const MADE: [&str; 16] = [
    "2k lzo",
    "2k-O favor_lzo",
    "2k lzo -k test",
    "2k zlib -f 3 -F",
    "2k zstd -p 2 -l 6",
    "512 zlib -c 3000 -j 512KiB",
    "4k-256k none",
    "nor-big zstd",
    "2k-O zlib",
    "2k zstd",
    "2k none",
    "2k zlib -F",
    "512 lzo",
    "512-O none",
    "4k-O zstd",
    "nor lzo",
];

/// What all tests share: the folders of the guests' results.
type Results = OnceLock<Result<Vec<PathBuf>, String>>;

fn results(once: &'static Results, script: &str, lines: impl Iterator<Item = String>) -> &'static [PathBuf] {
    let results = once.get_or_init(|| {
        let cases: Vec<_> = lines.map(|line| Case { line, image: None }).collect();
        run(script, script, &cases)
    });
    results.as_ref().unwrap_or_else(|why| panic!("{why}"))
}

/// Images of the kernel.
fn written() -> &'static [PathBuf] {
    static WRITTEN_ONCE: Results = OnceLock::new();
    let lines = (0..cases()).map(|index| {
        let (chip, compressor) = combination(index);
        let (chip, compressor) = (chip.name, COMPRESSORS[compressor]);
        let variant = VARIANTS[(index + index / VARIANTS.len()) % VARIANTS.len()];
        format!("{index:02}-{chip}-{compressor} {chip} {compressor} {index} {variant}")
    });
    results(&WRITTEN_ONCE, "writes", lines)
}

/// Trees that the kernel has unmounted, with their chip and compressor: so many of each chip.
pub(crate) fn trees(each: usize) -> Vec<(Pair, &'static Chip, &'static str)> {
    let clean = pairs(written()).into_iter().filter(|pair| pair.name.ends_with("clean"));
    let number = |pair: Pair| (pair.name[..2].parse::<usize>().unwrap(), pair);
    let wanted = clean.map(number).filter(|(index, _)| *index < each * CHIPS.len());
    let more = |(index, pair)| {
        let (chip, compressor) = combination(index);
        (pair, chip, COMPRESSORS[(compressor + 1) % COMPRESSORS.len()])
    };
    wanted.map(more).collect()
}

/// Images that are made with mkfs.ubifs.
fn made_images() -> usize {
    few_or_all(MADE.len() / 2, MADE.len())
}

/// Images of mkfs.ubifs and ubinize.
fn made() -> &'static [PathBuf] {
    static MADE_ONCE: Results = OnceLock::new();
    let lines = MADE.iter().take(made_images()).enumerate().map(|(index, options)| {
        let mut words: Vec<_> = options.split(' ').map(str::to_owned).collect();
        words.insert(2, index.to_string());
        format!("{index:02} {}", words.join(" "))
    });
    results(&MADE_ONCE, "makes", lines)
}

/// The tree in an image, by way of a tar.
fn extracted(image: &Path) -> Result<Manifest, String> {
    let output = floatgate(&["image", "extract", image.to_str().unwrap(), "-"]);
    if !output.status.success() && output.status.code() != Some(1) {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(tar::manifest(&output.stdout))
}

/// What a tar can tell of what the kernel found. It has no sockets.
pub(crate) fn expected(manifest: &Manifest) -> Manifest {
    let manifest = manifest.clone().without(&["ino", "atime", "ctime", "flags"], |_| true);
    let manifest = manifest.without(&["size", "nlink"], |entry| entry["type"] == "d");
    let manifest = manifest.without(&["size"], |entry| matches!(entry["type"].as_str(), "b" | "c"));
    manifest.without_entries(|entry| entry["type"] == "s")
}

pub(crate) fn compare(image: &Path, expected_of: &Manifest) -> Vec<String> {
    match extracted(image) {
        Ok(found) => expected(expected_of).differences(&found),
        Err(why) => vec![why],
    }
}

fn compare_pairs<'a>(pairs: impl IntoIterator<Item = &'a Pair>) {
    assert_no_differences(pairs.into_iter().filter_map(|pair| {
        let manifest = pair.manifest.as_ref()?;
        Some((pair.name.clone(), compare(&pair.image, manifest)))
    }));
}

/// Otherwise the pairs would say less than they seem to.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_reads_its_own_images() {
    let (read, refused): (Vec<_>, Vec<_>) =
        pairs(written()).into_iter().partition(|pair| pair.manifest.is_some());
    assert!(refused.len() * UNPAIRED <= cases() * IMAGES && !read.is_empty());
    let whole = refused.iter().filter(|pair| !pair.name.ends_with("torn"));
    assert!(whole.count() <= REFUSED);
    for pair in read.iter().filter(|pair| !pair.name.ends_with("torn")) {
        let recovered = pair.complaints.iter().all(|line| line.ends_with("recovery needed"));
        assert!(recovered, "{}: {:?}", pair.name, pair.complaints);
        assert_eq!(
            pair.complaints.is_empty(),
            pair.name.ends_with("clean"),
            "{}: {:?}",
            pair.name,
            pair.complaints
        );
    }
}

/// All that was synchronised is there after a power cut. Times of the last change are not: the kernel keeps that of a
/// renamed inode in memory.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn what_was_synchronised_survives_in_the_kernel() {
    let dirty = pairs(written()).into_iter().filter(|pair| pair.name.ends_with("dirty"));
    assert_no_differences(dirty.filter_map(|pair| {
        let (live, found) = (live(&pair).without(&["ctime"], |_| true), pair.manifest?);
        Some((pair.name, live.differences(&found.without(&["ctime"], |_| true))))
    }));
}

/// The kernel's manifest of the filesystem when its image was taken.
fn live(pair: &Pair) -> Manifest {
    Manifest::parse(&std::fs::read_to_string(pair.image.with_extension("live")).unwrap())
}

/// Where the kernel refuses its own image, too.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn what_was_synchronised_survives_in_floatgate() {
    let dirty = pairs(written()).into_iter().filter(|pair| pair.name.ends_with("dirty"));
    assert_no_differences(dirty.map(|pair| (pair.name.clone(), compare(&pair.image, &live(&pair)))));
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn images_of_the_kernel_are_read_as_the_kernel_reads_them() {
    compare_pairs(&pairs(written()));
}

/// Dumps of NAND, with what the kernel's ECC makes of the OOB.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn images_with_oob_are_read_as_the_kernel_reads_them() {
    let pairs = pairs(written()).into_iter().filter(|pair| pair.image.with_extension("oob").exists());
    let compared: Vec<_> = pairs
        .map(|pair| (pair.name, compare(&pair.image.with_extension("oob"), &pair.manifest.unwrap())))
        .collect();
    assert!(compared.len() >= cases() / 2);
    assert_no_differences(compared);
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn images_of_mtd_utils_are_read_as_the_kernel_reads_them() {
    let pairs = pairs(made());
    assert!(pairs.len() == made_images() && pairs.iter().all(|pair| pair.manifest.is_some()));
    compare_pairs(&pairs);
    assert_no_differences(pairs.iter().map(|pair| {
        (
            format!("{}.ubifs", pair.name),
            compare(&pair.image.with_extension("ubifs"), pair.manifest.as_ref().unwrap()),
        )
    }));
}
