//! Tests of files by paths, on UBIFS and JFFS2.

use crate::small;
use floatgate::stack::fs;
use floatgate::{Error, FileType, Filesystem, Setup};

fn names(fs: &mut floatgate::Fs, path: &str) -> Vec<String> {
    let entries = fs.read_dir(path).unwrap();
    entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect()
}

fn failure<T>(outcome: floatgate::Result<T>) -> fs::Error {
    match outcome {
        Err(Error::File { error, .. }) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it did not fail"),
    }
}

fn files_are_used_by_paths(setup: &Setup, kind: &Filesystem) {
    let mut fs = kind.format(setup.flash().unwrap()).unwrap();
    let long: Vec<u8> = (0..20_000_u32).map(|at| (at * 7) as u8).collect();
    fs.create_dir("/etc/").unwrap();
    fs.write_file("/etc/hostname", "first and longer").unwrap();
    fs.write_file("/etc/hostname", "board").unwrap();
    fs.write_file("long", &long).unwrap();
    fs.rename("/long", "/etc/long").unwrap();
    assert_eq!(names(&mut fs, "/"), ["etc"]);

    let before = fs.now();
    let mut fs = kind.mount(fs.unmount().unwrap()).unwrap();
    assert!(fs.now() > before && fs.mount_time() < fs.now().since(before));
    assert_eq!(names(&mut fs, "/etc"), ["hostname", "long"]);
    assert_eq!(fs.read_file("/etc/hostname").unwrap(), b"board");
    assert_eq!(fs.read_file("//etc//long").unwrap(), long);
    let attributes = fs.attributes("/etc/long").unwrap();
    assert_eq!((attributes.file_type, attributes.size), (FileType::Regular, 20_000));

    assert_eq!(failure(fs.remove("/etc")), fs::Error::NotEmpty);
    fs.remove("/etc/long").unwrap();
    fs.remove("/etc/hostname").unwrap();
    fs.remove("/etc").unwrap();
    assert_eq!(failure(fs.read_file("/etc/hostname")), fs::Error::NotFound);
    assert!(names(&mut fs, "/").is_empty());
}

fn wrong_paths_are_refused(setup: &Setup, kind: &Filesystem) {
    let mut fs = kind.format(setup.flash().unwrap()).unwrap();
    fs.create_dir("/dir").unwrap();
    fs.write_file("/file", "").unwrap();
    assert_eq!(fs.read_file("/file").unwrap(), b"");
    assert_eq!(failure(fs.create_dir("/dir")), fs::Error::Exists);
    assert_eq!(failure(fs.write_file("/none/file", "x")), fs::Error::NotFound);
    assert_eq!(failure(fs.write_file("/file/below", "x")), fs::Error::NotDirectory);
    assert_eq!(failure(fs.write_file("/dir", "x")), fs::Error::IsDirectory);
    assert_eq!(failure(fs.read_dir("/file")), fs::Error::NotDirectory);
    for root in ["", "/", "//"] {
        assert!(matches!(failure(fs.remove(root)), fs::Error::Invalid(_)));
        assert!(matches!(failure(fs.create_dir(root)), fs::Error::Invalid(_)));
    }
    assert!(failure(fs.read_file("/dir")) != fs::Error::NotFound);
    let message = fs.read_file("/none").unwrap_err().to_string();
    assert_eq!(message, "/none: not found");
    // A hole of 8 GiB must not use memory of the host.
    let inode = fs.filesystem().resolve(b"/file").unwrap();
    let changes = fs::AttributeChanges { size: Some(3 << 30), ..fs::AttributeChanges::default() };
    if fs.filesystem().set_attributes(inode, &changes).is_ok() {
        assert!(matches!(failure(fs.read_file("/file")), fs::Error::TooLarge { .. }));
    }
}

#[test]
fn files_of_ubifs() {
    files_are_used_by_paths(&small(), &small().ubifs().unwrap());
    wrong_paths_are_refused(&small(), &small().ubifs().unwrap());
}

#[test]
fn files_of_jffs2() {
    files_are_used_by_paths(&small(), &small().jffs2().unwrap());
    wrong_paths_are_refused(&small(), &small().jffs2().unwrap());
}

#[test]
fn formatting_leaves_no_old_files() {
    let (setup, ubifs, jffs2) = (small(), small().ubifs().unwrap(), small().jffs2().unwrap());
    let mut flash = setup.flash().unwrap();
    for kind in [&jffs2, &jffs2, &ubifs, &ubifs, &jffs2] {
        let mut fs = kind.format(flash).unwrap();
        assert!(names(&mut fs, "/").is_empty());
        fs.write_file("/old", "data").unwrap();
        flash = fs.unmount().unwrap();
    }
}

#[test]
fn a_clone_of_a_mount_goes_its_own_way() {
    let mut fs = small().ubifs().unwrap().format(small().flash().unwrap()).unwrap();
    let mut copy = fs.clone();
    copy.write_file("/copy", "x").unwrap();
    assert!(names(&mut fs, "/").is_empty());
    assert_eq!(names(&mut copy, "/"), ["copy"]);
}
