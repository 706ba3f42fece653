//! The kernel reads what `floatgate image build` made of trees from floatgate's own live filesystem, for every chip,
//! and goes on with it.

use crate::judge::fresh;
use crate::live::{close, format, manifest, mount};
use crate::manifest::{Manifest, assert_no_differences};
use crate::ubifs::{CHIPS, COMPRESSORS, Case, Chip, combination, floatgate, pair, pairs, rounds, run};
use crate::workload::Workload;
use floatgate_stack::ubifs::{FormatOptions, MountOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

/// Images that are made.
fn images() -> usize {
    CHIPS.len() * rounds()
}

/// Operations that make the tree of an image.
const OPERATIONS: usize = 400;

/// Seed of what the kernel does then, if it does something.
const GOES_ON: [&str; 2] = ["", "5"];

struct Judged {
    /// What floatgate finds in an image, and found in the filesystem it was made of.
    ours: BTreeMap<String, (Manifest, Manifest)>,
    /// What the kernel says of it, before and after it went on.
    theirs: BTreeMap<String, (Option<Manifest>, Vec<String>)>,
    /// What floatgate finds in what the kernel made of it, beside what the kernel finds.
    after: Vec<(String, Manifest, Manifest)>,
}

/// A filesystem after random operations, on a chip like any other, as a tar, and what is in it.
fn source(seed: u64, folder: &Path) -> Manifest {
    let mut workload = Workload::new(format(&CHIPS[3], &FormatOptions::default()), seed);
    assert!(workload.run(OPERATIONS));
    workload.close_all();
    let found = manifest(&mut workload.live).unwrap();
    let (image, tar) = (folder.join("live.bin"), folder.join("live.tar"));
    std::fs::write(&image, close(workload.live)).unwrap();
    let _ = std::fs::remove_file(&tar);
    // The exit status says that sockets are lost: a tar has none.
    floatgate(&["image", "extract", image.to_str().unwrap(), tar.to_str().unwrap()]);
    found
}

/// Options of the build beside the chip's sizes.
fn options(index: usize, chip: &Chip) -> Vec<String> {
    let size = u64::from(chip.pebs - 16) * u64::from(chip.peb - 2 * chip.page.max(64));
    let mut options = match index % 3 {
        0 => vec!["--autoresize".to_owned()],
        1 => vec!["--volume-size".to_owned(), size.to_string()],
        _ => vec!["--autoresize".to_owned(), "--max-lebs".to_owned(), (2 * chip.pebs).to_string()],
    };
    if index % 5 == 4 {
        options.push("--space-fixup".to_owned());
    }
    options
}

fn build(index: usize, folder: &Path) -> (Case, String, (Manifest, Manifest)) {
    let (chip, compressor) = combination(index);
    let compressor = COMPRESSORS[compressor];
    let source = source(index as u64, folder);
    let name = format!("{index:02}-{}-{compressor}", chip.name);
    let image = folder.join(format!("{name}.bin"));
    let tar = folder.join("live.tar");
    let mut words =
        ["image", "build", tar.to_str().unwrap(), "-o", image.to_str().unwrap()].map(str::to_owned).to_vec();
    for (option, value) in [
        ("--page-size", chip.page.to_string()),
        ("--sub-page-size", chip.sub_page.to_string()),
        ("--peb-size", chip.peb.to_string()),
        ("--compress", compressor.to_owned()),
        ("--volume", "fixture".to_owned()),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words.extend(options(index, chip));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let built = floatgate(&words);
    assert!(built.status.success(), "{name}: {}", String::from_utf8_lossy(&built.stderr));
    let found = found(chip, &std::fs::read(&image).unwrap());
    let line = format!("{name} {} {}", chip.name, GOES_ON[index % 2]);
    (Case { line, image: Some(image) }, name, (found, source))
}

/// What floatgate finds in an image, on a chip that is erased behind it.
fn found(chip: &Chip, image: &[u8]) -> Manifest {
    let mut bytes = image.to_vec();
    bytes.resize(chip.pebs as usize * chip.peb as usize, 0xFF);
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    manifest(&mut mount(chip, &bytes, &options).unwrap()).unwrap()
}

fn judged() -> &'static Judged {
    static JUDGED: OnceLock<Result<Judged, String>> = OnceLock::new();
    let judged = JUDGED.get_or_init(|| {
        let folder = fresh("ubifs-rebuilt");
        let (mut cases, mut ours) = (Vec::new(), BTreeMap::new());
        for index in 0..images() {
            let (case, name, found) = build(index, &folder);
            cases.push(case);
            ours.insert(name, found);
        }
        let outputs = run("reads", "rebuilt", &cases)?;
        let mut theirs = BTreeMap::new();
        for name in ours.keys() {
            let files = outputs.iter().map(|folder| folder.join(format!("{name}.bin")));
            let result = files.map(|file| pair(&file)).find(|pair| pair.manifest.is_some());
            let result = result.map(|pair| (pair.manifest, pair.complaints));
            theirs.insert(name.clone(), result.unwrap_or_default());
        }
        let after = pairs(&outputs).into_iter().filter_map(|pair| {
            let index: usize = pair.name[..2].parse().unwrap();
            let chip = &CHIPS[index % CHIPS.len()];
            Some((pair.name, found(chip, &std::fs::read(&pair.image).unwrap()), pair.manifest?))
        });
        let after = after.collect();
        Ok(Judged { ours, theirs, after })
    });
    judged.as_ref().unwrap_or_else(|why| panic!("{why}"))
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_finds_what_was_built() {
    let judged = judged();
    assert_no_differences(judged.ours.iter().map(|(name, (found, _))| {
        let differences = match &judged.theirs[name] {
            (Some(theirs), _) => theirs.differences(found),
            (None, _) => vec!["the kernel does not mount it".to_owned()],
        };
        (name.clone(), differences)
    }));
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_has_nothing_to_say_about_what_was_built() {
    let judged = judged();
    assert_no_differences(
        judged.theirs.iter().map(|(name, (_, complaints))| (name.clone(), complaints.clone())),
    );
}

/// A tar has no inode numbers, flags, sockets and sizes of devices, and folders have other sizes without sockets.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn what_was_built_is_what_was_there() {
    let comparable = |manifest: &Manifest| {
        let manifest = manifest.clone().without(&["ino", "atime", "ctime", "flags"], |_| true);
        let manifest = manifest.without(&["size"], |entry| matches!(entry["type"].as_str(), "b" | "c" | "d"));
        manifest.without_entries(|entry| entry["type"] == "s")
    };
    assert_no_differences(
        judged().ours.iter().map(|(name, (built, source))| {
            (name.clone(), comparable(source).differences(&comparable(built)))
        }),
    );
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn floatgate_reads_what_the_kernel_made_of_what_was_built() {
    let judged = judged();
    assert_eq!(judged.after.len(), images() / 2);
    assert_no_differences(
        judged.after.iter().map(|(name, ours, theirs)| (name.clone(), theirs.differences(ours))),
    );
}
