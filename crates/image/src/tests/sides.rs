//! Comparison of images with files of the host.

use std::path::Path;

use floatgate_stack::fs::{AttributeChanges, NewFile, NewKind, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::diff::{DiffOptions, DiffReport, Presence, Side, diff_sides};
use crate::extract::{DirectoryTarget, TarTarget};

fn compared(one: &Path, other: &Path, options: &DiffOptions) -> DiffReport {
    let open = |path| Side::open(path, &Selection::default()).unwrap_or_else(|error| panic!("{error}"));
    diff_sides([open(one), open(other)], options).unwrap()
}

/// An image with the usual tree, and a tar with the same tree.
fn image_and_tar(folder: &TempDir) -> [std::path::PathBuf; 2] {
    let [image, tar] = ["image", "files.tar"].map(|name| folder.path().join(name));
    let bytes = usual(&Geometry::nand_512(220));
    std::fs::write(&image, &bytes).unwrap();
    let mut target = TarTarget::new(Vec::new());
    let extraction = Extraction::open(&open(&bytes), &Selection::default()).unwrap();
    extraction.run(&mut target, &ExtractLimits::default(), &|_| {}).unwrap();
    std::fs::write(&tar, target.finish().unwrap()).unwrap();
    [image, tar]
}

/// An image with these files, and a directory with the same files.
fn image_and_tree(folder: &TempDir, fill: impl FnOnce(&mut Ubifs<dyn Volume>)) -> [std::path::PathBuf; 2] {
    let [image, tree] = ["image", "tree"].map(|name| folder.path().join(name));
    let bytes = device(&Geometry::nand_512(220), 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 200)).unwrap();
    });
    let bytes = format(bytes, &Geometry::nand_512(220), 0, true, fill);
    std::fs::write(&image, &bytes).unwrap();
    let mut target = DirectoryTarget::new(&tree, false).unwrap();
    let extraction = Extraction::open(&open(&bytes), &Selection::default()).unwrap();
    extraction.run(&mut target, &ExtractLimits::default(), &|_| {}).unwrap();
    [image, tree]
}

fn told(report: &DiffReport) -> Vec<(&str, Presence, Vec<&str>)> {
    let differences = report.differences.iter().map(|difference| {
        let fields = difference.changes.iter().map(|change| change.field.as_str()).collect();
        (difference.path.as_str(), difference.presence, fields)
    });
    differences.collect()
}

#[test]
fn an_image_and_its_tar_are_the_same() {
    let folder = TempDir::new().unwrap();
    let [image, tar] = image_and_tar(&folder);
    for [one, other] in [[&image, &tar], [&tar, &image], [&tar, &tar]] {
        let report = compared(one, other, &DiffOptions::default());
        assert!(report.is_same() && report.trouble.is_empty() && report.entries == 101, "{report:#?}");
    }
}

#[test]
fn what_differs_from_a_tar_is_told() {
    let folder = TempDir::new().unwrap();
    let [image, tar] = image_and_tar(&folder);
    let edited = |change: &dyn Fn(&mut Ubifs<dyn Volume>)| {
        let bytes = format(std::fs::read(&image).unwrap(), &Geometry::nand_512(220), 0, true, |fs| {
            populate(fs, 1);
            change(fs);
        });
        std::fs::write(&image, bytes).unwrap();
    };
    edited(&|fs| {
        let root = fs.root();
        let file = fs.lookup(1, b"dir-1").and_then(|dir| fs.lookup(dir, b"file-9000")).unwrap();
        fs.write(file, 5000, b"other words").unwrap();
        fs.unlink(root, b"pipe").unwrap();
        make_new(fs);
    });
    let report = compared(&image, &tar, &DiffOptions { times: false, ..DiffOptions::default() });
    assert_eq!(report.trouble, []);
    assert_eq!(
        told(&report),
        [
            ("/", Presence::Both, vec!["links"]),
            ("/dir-1/file-9000", Presence::Both, vec!["contents from byte 5000"]),
            ("/new", Presence::First, vec![]),
            ("/pipe", Presence::Second, vec![]),
        ]
    );
}

#[test]
fn a_tar_may_say_nothing_of_the_root() {
    let folder = TempDir::new().unwrap();
    let bytes = device(&Geometry::nand_512(220), 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 200)).unwrap();
    });
    let bytes = format(bytes, &Geometry::nand_512(220), 0, true, make_new);
    let [image, tar] = ["image", "files.tar"].map(|name| folder.path().join(name));
    std::fs::write(&image, bytes).unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o700);
    header.set_uid(3);
    header.set_gid(4);
    header.set_size(0);
    header.set_mtime(0);
    builder.append_data(&mut header, "new/", &b""[..]).unwrap();
    std::fs::write(&tar, builder.into_inner().unwrap()).unwrap();
    let report = compared(&image, &tar, &DiffOptions::default());
    assert!(report.is_same() && report.entries == 1, "{report:#?}");
}

#[test]
fn an_image_is_compared_with_a_directory() {
    let folder = TempDir::new().unwrap();
    let [image, tree] = image_and_tree(&folder, |fs| {
        let new = NewFile { kind: NewKind::Regular, permissions: 0o640, uid: 0, gid: 0 };
        let root = fs.root();
        let file = fs.create(root, b"file", &new).unwrap();
        fs.write(file, 70_000, b"behind a hole").unwrap();
        let root = fs.root();
        fs.link(file, root, b"again").unwrap();
    });
    let options = DiffOptions { owners: false, ..DiffOptions::default() };
    let report = compared(&image, &tree, &options);
    assert!(report.is_same() && report.trouble.is_empty() && report.entries == 3, "{report:#?}");
    std::fs::write(tree.join("file"), b"short").unwrap();
    std::fs::remove_file(tree.join("again")).unwrap();
    let report = compared(&tree, &image, &DiffOptions { times: false, ..options });
    let changes = vec!["links", "size", "contents from byte 0"];
    assert_eq!(
        told(&report),
        [("/again", Presence::Second, vec![]), ("/file", Presence::Both, changes)],
        "{report:#?}"
    );
}

/// mkfs.ubifs and tar write whole seconds, even if the files of the host have fractions.
#[test]
fn a_whole_second_is_the_same_as_any_of_its_parts() {
    let folder = TempDir::new().unwrap();
    let [image, tree] = image_and_tree(&folder, |fs| {
        let new = NewFile { kind: NewKind::Regular, permissions: 0o640, uid: 0, gid: 0 };
        for (name, nanoseconds) in [(&b"whole"[..], 0), (b"part", 250_000_000)] {
            let root = fs.root();
            let file = fs.create(root, name, &new).unwrap();
            let mtime = Some(Timestamp { seconds: 1000, nanoseconds });
            fs.set_attributes(file, &AttributeChanges { mtime, ..AttributeChanges::default() }).unwrap();
        }
    });
    let touched = |name: &str, ms: u64| {
        let file = std::fs::File::options().write(true).open(tree.join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms)).unwrap();
        let options = DiffOptions { owners: false, ..DiffOptions::default() };
        compared(&image, &tree, &options).differences.len()
    };
    assert_eq!(touched("whole", 1_000_500), 0);
    assert_eq!(touched("part", 1_000_500), 1, "both have parts");
    assert_eq!(touched("part", 1_000_000), 0);
    assert_eq!(touched("whole", 1_001_500), 1, "another second");
}

/// Creates a directory `new`.
fn make_new(fs: &mut Ubifs<dyn Volume>) {
    let new = NewFile { kind: NewKind::Directory, permissions: 0o700, uid: 3, gid: 4 };
    let root = fs.root();
    fs.create(root, b"new", &new).unwrap();
}
