//! Directories of the host, there and back; what can be set for all files.

use super::support::{bytes, mount, options, tree, try_build};
use floatgate_image::build::{BuildError, Container, Source};
use floatgate_image::extract::{DirectoryTarget, ExtractLimits, FileSystemSource, extract};
use floatgate_stack::fs::{Compression, DeviceNumber, Timestamp};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A tree with what needs no rights to be made; the names in this order, or the other way round.
pub(crate) fn write(root: &Path, reversed: bool) {
    let mut names: Vec<String> = (0..300).map(|number| format!("deep/er/file {number}")).collect();
    if reversed {
        names.reverse();
    }
    fs::create_dir_all(root.join("deep/er")).unwrap();
    for (name, seed) in names.iter().map(|name| (name, name.len() as u64)) {
        fs::write(root.join(name), bytes(name.len() * 1000, seed, true)).unwrap();
    }
    fs::write(root.join("noise"), bytes(2_500_000, 1, false)).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::hard_link(root.join("noise"), root.join("deep/noise too")).unwrap();
    symlink("no/where", root.join("link")).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"in the middle", 5_000_000).unwrap();
    sparse.set_len(10_000_001).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    drop(socket);
    fs::set_permissions(root.join("noise"), Permissions::from_mode(0o4751)).unwrap();
    set_times(root);
}

/// Times that depend on the names only, the folders last.
fn set_times(path: &Path) {
    if path.is_symlink() {
        return;
    }
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| set_times(&entry.unwrap().path()));
    }
    let name = path.file_name().unwrap().len() as u64;
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + name, 7 * name as u32);
    if !path.ends_with("socket") {
        File::open(path).unwrap().set_modified(time).unwrap();
    }
}

pub(crate) type Metadata = (u32, u64, u64, (i64, i64), Vec<u8>);

/// What is in a directory: mode, links, size, time, contents.
pub(crate) fn listed(root: &Path, path: &Path, found: &mut BTreeMap<String, Metadata>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let status = fs::symlink_metadata(&path).unwrap();
        let contents = if status.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let links = if status.is_dir() { 0 } else { status.nlink() };
        // Sizes of folders, and times of links and sockets, which this test does not set, are the host's.
        let size = if status.is_file() { status.len() } else { 0 };
        let is_set = status.is_file() || status.is_dir();
        let time = if is_set { (status.mtime(), status.mtime_nsec()) } else { (0, 0) };
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        found.insert(name, (status.mode(), links, size, time, contents));
        if status.is_dir() {
            listed(root, &path, found);
        }
    }
}

#[test]
fn a_directory_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    write(&from, false);
    let built = try_build(&Source::Directory(from.clone()), &options(Compression::Zstd)).unwrap();
    assert_eq!(built.losses(), [""; 0]);
    let mut target = DirectoryTarget::new(&to, false).unwrap();
    let limits = ExtractLimits::default();
    let extracted =
        extract(&mut FileSystemSource(&mut *mount(&built.path())), &mut target, &limits, &|_| {}).unwrap();
    assert_eq!(extracted.losses, []);
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    listed(&from, &from, &mut before);
    listed(&to, &to, &mut after);
    assert!(before.keys().eq(after.keys()), "{:?}", after.keys());
    for (name, wanted) in &before {
        assert!(&after[name] == wanted, "{name}");
    }
    assert_eq!(tree(&built.path())[&b"/sparse"[..]].blocks, 1);
    assert_eq!(extracted.entries, built.report.entries);
    assert_eq!(extracted.bytes, built.report.bytes);
}

#[test]
fn directories_inside_each_other_have_an_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("d/".repeat(1030))).unwrap();
    let source = Source::Directory(folder.path().to_owned());
    let built = try_build(&source, &options(Compression::Zstd)).unwrap();
    let [lost] = &built.losses()[..] else { panic!("{:?}", built.losses()) };
    assert!(lost.contains("more than 1024 directories inside each other"), "{lost}");
    assert_eq!(built.report.entries, 1024);
}

#[test]
fn the_same_tree_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let trees = [folder.path().join("a"), folder.path().join("b")];
    write(&trees[0], false);
    write(&trees[1], true);
    let mut options = options(Compression::Lzo);
    options.overrides.latest = Some(900_000_000);
    let on = |threads, tree: &Path| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| try_build(&Source::Directory(tree.to_owned()), &options).unwrap().bytes())
    };
    let first = on(1, &trees[0]);
    for (threads, tree) in [(1, 1), (2, 0), (7, 1)] {
        assert!(on(threads, &trees[tree]) == first, "{threads} threads");
    }
    fs::write(trees[1].join("empty"), b"x").unwrap();
    assert!(on(2, &trees[1]) != first);
}

#[test]
fn owners_and_times_can_be_the_same_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    write(&from, false);
    let mut options = options(Compression::Zlib);
    options.overrides.owner = Some((12, 34));
    options.overrides.latest = Some(1_000_000_005);
    let built = try_build(&Source::Directory(from), &options).unwrap();
    let found = tree(&built.path());
    assert!(found.values().all(|file| file.owner == (12, 34)));
    let latest = Timestamp { seconds: 1_000_000_005, nanoseconds: 0 };
    assert!(found.values().all(|file| file.mtime <= latest));
    assert_eq!(found[&b"/deep"[..]].mtime, Timestamp { seconds: 1_000_000_004, nanoseconds: 28 });
}

#[test]
fn a_device_table_makes_and_changes_files() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    write(&from, false);
    let mut options = options(Compression::Lzo);
    let text = "# name type mode uid gid major minor start inc count\n\n\
                /dev d 755 0 0 - - - - -\n/dev/tty c 620 0 5 4 10 0 2 3\n/noise f 0400 7 8 - - - - -\n\
                /run/pipe p 600 1 1\n";
    options.device_table = Some(text.to_owned());
    let built = try_build(&Source::Directory(from.clone()), &options).unwrap();
    let found = tree(&built.path());
    let device = |name: &str| (found[name.as_bytes()].mode, found[name.as_bytes()].device.unwrap().minor);
    assert_eq!(
        ["/dev/tty0", "/dev/tty1", "/dev/tty2"].map(device),
        [10, 12, 14].map(|minor| (0o020_620, minor))
    );
    assert_eq!(found[&b"/dev/tty2"[..]].device, Some(DeviceNumber { major: 4, minor: 14 }));
    let noise = &found[&b"/noise"[..]];
    assert_eq!((noise.mode, noise.owner, noise.contents.len()), (0o100_400, (7, 8), 2_500_000));
    assert_eq!(found[&b"/run/pipe"[..]].mode, 0o010_600);
    options.device_table = Some("/dev d 755 0 0\n/nosuch f 644 0 0\n".to_owned());
    let error = try_build(&Source::Directory(from), &options).err().unwrap();
    assert!(matches!(error, BuildError::Table { line: 2, .. }), "{error}");
}

#[test]
fn a_volume_that_grows_offers_room_that_the_image_does_not_have() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"data").unwrap();
    let mut options = options(Compression::Lzo);
    options.container = Container::Ubi { name: "data".to_owned(), autoresize: true, image_seq: Some(7) };
    options.format.max_lebs = Some(500);
    options.uuid = Some([9; 16]);
    let built = try_build(&Source::Directory(folder.path().to_owned()), &options).unwrap();
    assert!(built.report.image_bytes < 4 << 20);
    assert_eq!(built.report.max_lebs, 500);
    let info = floatgate_image::info::info(
        &floatgate_image::Image::open(&built.path(), floatgate_image::Access::Read).unwrap(),
    );
    let info = info.unwrap();
    let ubi = info.images[0].ubi.as_ref().unwrap();
    let volume = &ubi.volumes[0];
    assert_eq!((ubi.image_seq, volume.name.as_str(), volume.autoresize), (7, "data", true));
    assert_eq!(volume.ubifs.as_ref().unwrap().uuid, "09090909-0909-0909-0909-090909090909");
    let missing = folder.path().join("nosuch");
    assert!(matches!(try_build(&Source::Directory(missing), &options), Err(BuildError::Source { .. })));
}
