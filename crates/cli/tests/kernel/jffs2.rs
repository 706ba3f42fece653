//! JFFS2: the kernel reads what floatgate wrote, goes on writing, and floatgate reads that.

use crate::changes::{change, is_expected};
use crate::judge::{fresh, home, judge};
use crate::live::{geometry, image, manifest};
use crate::manifest::{Manifest, assert_no_differences};
use crate::ubifs::{CHIPS, Chip, LARGE, floatgate};
use crate::ubifs_edited::sources;
use crate::witness::witness;
use floatgate_media::jffs2::Compressor;
use floatgate_mtd::random::Random;
use floatgate_mtd::{Geometry, Instant, RamFlash};
use floatgate_stack::fs::{FileSystem, NewFile, NewKind, Timestamp};
use floatgate_stack::jffs2::{Jffs2, MountOptions};
use std::path::Path;

/// Chips, compressors, with summaries or without, and changes before the kernel sees it. On the last one nodes are marked obsolete.
const CASES: [(&str, &[Compressor], bool, usize); 7] = [
    ("nor", &[Compressor::Zlib, Compressor::Rtime], false, 300),
    ("nor", &[Compressor::Lzo], true, 3000),
    ("2k", &[Compressor::Zlib], false, 3000),
    ("2k", &[Compressor::Rtime], true, 300),
    ("512", &[], false, 2000),
    ("512", &[Compressor::Zlib, Compressor::Lzo], true, 2000),
    ("nor", &[Compressor::Zlib, Compressor::Rtime], false, 3000),
];

fn chip(name: &str) -> &'static Chip {
    CHIPS.iter().chain([&LARGE]).find(|chip| chip.name == name).unwrap()
}

/// Without the OOB there are no clean markers: what is in a dump without it.
fn flash(chip: &Chip) -> Geometry {
    Geometry { oob_bytes: 0, oob_free_bytes: 0, ..geometry(chip) }
}

fn mount(chip: &Chip, bytes: &[u8], options: &MountOptions) -> Jffs2<RamFlash> {
    let flash = RamFlash::from_bytes(flash(chip), bytes);
    Jffs2::mount(flash, Instant::ZERO, options).map_err(|(error, _)| error).unwrap()
}

/// Linux reads no flags of a JFFS2, and the time of the last access is not kept.
fn comparable(found: Manifest) -> Manifest {
    found.without(&["flags", "atime"], |_| true)
}

/// Name of a case's files.
fn named(index: usize) -> (String, &'static str) {
    (format!("{index}-{}", CASES[index].0), CASES[index].0)
}

fn all() -> Vec<(String, &'static str)> {
    (0..CASES.len()).map(named).collect()
}

/// A filesystem that has been worked with, and what is in it.
fn written(index: usize, seed: u64, folder: &Path) -> Manifest {
    let (name, compressors, summaries, changes) = CASES[index];
    let marks_obsolete = index + 1 == CASES.len();
    let options = MountOptions {
        compressors: compressors.to_vec(),
        summaries,
        marks_obsolete,
        ..MountOptions::default()
    };
    let flash = RamFlash::new(flash(chip(name)));
    let mut fs = Jffs2::mount(flash, Instant::ZERO, &options).map_err(|(error, _)| error).unwrap();
    let mut random = Random::new(seed);
    for step in 0..changes {
        FileSystem::set_time(
            &mut fs,
            Timestamp { seconds: 1_662_163_200 + i64::try_from(step).unwrap(), nanoseconds: 0 },
        );
        if let Err(error) = change(&mut fs, &mut random) {
            assert!(is_expected(&error), "case {index}, seed {seed}, step {step}: {error}");
        }
    }
    let found = manifest(&mut fs).unwrap();
    close(fs, &folder.join(named(index).0));
    found
}

/// Unmounts, and writes the flash to a file.
fn close(fs: Jffs2<RamFlash>, path: &Path) {
    let flash = fs.unmount().map_err(|(error, _)| error).unwrap();
    std::fs::write(path.with_extension("bin"), image(&flash)).unwrap();
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_reads_and_goes_on() {
    round("jffs2", 0);
}

fn round(run: &str, first_seed: u64) {
    let folder = fresh(&format!("{run}-in"));
    let ours = (0..CASES.len()).map(|index| written(index, first_seed + index as u64, &folder));
    let ours: Vec<Manifest> = ours.collect();
    judged(run, &folder, &all(), &ours);
}

/// With what the kernel makes of each, two hundred images.
#[test]
#[ignore = "slow: ./test --all"]
fn slow_the_kernel_reads_a_hundred_of_jffs2_and_goes_on() {
    for number in 1..15 {
        round("jffs2-many", 100 * number);
    }
}

#[test]
#[ignore = "slow: ./test --all"]
fn slow_the_kernel_reads_twenty_thousand_files_of_a_jffs2() {
    const NEW: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    let folder = fresh("jffs2-20000-in");
    let options = MountOptions { compressors: vec![Compressor::Zlib], ..MountOptions::default() };
    let flash = RamFlash::new(flash(&LARGE));
    let mut fs = Jffs2::mount(flash, Instant::ZERO, &options).map_err(|(error, _)| error).unwrap();
    let root = fs.root();
    let mut directory = root;
    for number in 0..20_000_usize {
        if number.is_multiple_of(250) {
            let new = NewFile { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
            directory = fs.create(root, format!("directory-{number}").as_bytes(), &new).unwrap();
        }
        let inode = fs.create(directory, format!("file-{number}").as_bytes(), &NEW).unwrap();
        fs.write(inode, 0, format!("{number} ").repeat(number % 700).as_bytes()).unwrap();
    }
    let ours = manifest(&mut fs).unwrap();
    close(fs, &folder.join("20000"));
    judged("jffs2-20000", &folder, &[("20000".to_owned(), LARGE.name)], &[ours]);
}

/// Changes an image, damages it, and repairs it.
fn repaired(index: usize, folder: &Path, put: &Path) -> Manifest {
    let name = CASES[index].0;
    let (image, fixed) = (folder.join(format!("{index}-{name}.bin")), folder.join("fixed"));
    let path = image.to_str().unwrap();
    let steps: [&[&str]; 5] = [
        &["put", path, put.to_str().unwrap(), "/"],
        &["mkdir", path, "-p", "/edited/some/where"],
        &["mv", path, "/put/deep/file-39", "/edited/some"],
        &["chown", path, "-R", "70:8", "/put"],
        &["rm", path, "-r", "/put/deep/er", "/put/deep/file-1"],
    ];
    // Nothing in a dump of NAND without its OOB tells the size of eraseblocks.
    let erase_bytes = flash(chip(name)).erase_bytes.to_string();
    for step in steps {
        let output = floatgate(&[&["image"][..], step, &["--peb-size", &erase_bytes]].concat());
        assert!(output.status.success(), "{index}: {step:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut bytes = std::fs::read(&image).unwrap();
    for at in (50_000..bytes.len()).step_by(150_001).filter(|_| index.is_multiple_of(2)) {
        // Linux complains of a byte amid erased ones, too, but nothing is lost by it.
        if bytes[at - 8..at + 8].iter().any(|&byte| byte != 0xFF) {
            bytes[at] &= 0x5A;
        }
    }
    std::fs::write(&image, bytes).unwrap();
    let repair = ["image", "check", path, "--repair", fixed.to_str().unwrap(), "--peb-size", &erase_bytes];
    let output = floatgate(&repair);
    assert!(output.status.code() != Some(2), "{index}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&fixed, &image).unwrap();
    let bytes = std::fs::read(&image).unwrap();
    manifest(&mut mount(chip(name), &bytes, &MountOptions::read_only())).unwrap()
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_kernel_reads_and_goes_on_where_images_were_changed_and_repaired() {
    let folder = fresh("jffs2-repaired-in");
    let put = sources(&fresh("jffs2-repaired-put"));
    let ours = (0..CASES.len()).map(|index| {
        written(index, index as u64, &folder);
        repaired(index, &folder, &put)
    });
    let ours: Vec<Manifest> = ours.collect();
    judged("jffs2-repaired", &folder, &all(), &ours);
}

/// Has the kernel read and change images, which have a name and a chip, and compares.
fn judged(run: &str, folder: &Path, cases: &[(String, &str)], ours: &[Manifest]) {
    let lines: String = cases.iter().map(|(name, chip)| format!("{name} {chip} {}\n", name.len())).collect();
    std::fs::write(folder.join("cases"), lines).unwrap();
    for file in [witness().to_owned(), home().join("ubifs/flash")] {
        std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    let output = judge("jffs2", run, folder).unwrap_or_else(|why| panic!("{why}"));
    let seen = |name: &str| {
        let text = std::fs::read_to_string(output.join(format!("{name}.manifest")));
        comparable(Manifest::parse(&text.unwrap_or_else(|_| panic!("{name}: the kernel does not mount it"))))
    };
    assert_no_differences(cases.iter().zip(ours).map(|((name, _), ours)| {
        let log = std::fs::read_to_string(output.join(format!("{name}.log"))).unwrap();
        let differences = comparable(ours.clone()).differences(&seen(name));
        (name.clone(), differences.into_iter().chain(log.lines().map(str::to_owned)).collect())
    }));
    assert_no_differences(cases.iter().map(|(name, on)| {
        let bytes = std::fs::read(output.join(format!("{name}-after.bin"))).unwrap();
        let mut fs = mount(chip(on), &bytes, &MountOptions::read_only());
        let found = comparable(manifest(&mut fs).unwrap());
        // Linux 6.1 that has dropped attributes from memory lists one less now and then; after another mount it is there.
        let notices = std::fs::read_to_string(output.join(format!("{name}.notices"))).unwrap();
        let has_dropped = notices.contains("reclaim_xattr_datum");
        let comparable = |mut found: Manifest| {
            for fields in found.0.values_mut().filter(|_| has_dropped) {
                fields.retain(|field, _| !field.starts_with("xattr:"));
            }
            found
        };
        let damage = fs.damaged_nodes().iter().map(ToString::to_string);
        let differences = comparable(seen(&format!("{name}-after"))).differences(&comparable(found));
        (format!("{name}-after"), differences.into_iter().chain(damage).collect())
    }));
}
