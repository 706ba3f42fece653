//! What works on images works on any filesystem: one in memory beside UBIFS, through the same code.

use super::directories::{listed, write};
use super::memory::MemoryFs;
use super::support::{bytes, mount, options, try_build};
use floatgate_image::build::{BuildOptions, FilledFiles, Source, fill_filesystem};
use floatgate_image::diff::{DiffOptions, compare};
use floatgate_image::edit::{Editor, ImagePath, Owner, PutOptions};
use floatgate_image::extract::{DirectoryTarget, ExtractLimits, FileSystemSource, TarTarget, extract};
use floatgate_image::walk::Walk;
use floatgate_stack::fs::{Compression, FileSystem, Rename};
use std::collections::BTreeMap;
use std::path::Path;

/// UBIFS keeps no holes' positions apart from zeros that were written; a filesystem in memory has none.
const WITHOUT_FLAGS: DiffOptions =
    DiffOptions { times: true, owners: true, holes: true, flags: false, root: true };

fn filled(folder: &Path, options: &BuildOptions) -> (MemoryFs, FilledFiles) {
    let mut fs = MemoryFs::new();
    let source = Source::Directory(folder.to_owned());
    let files = fill_filesystem(&source, &mut fs, Compression::None, options).unwrap();
    (fs, files)
}

fn same(one: &mut dyn FileSystem, other: &mut dyn FileSystem) {
    let report = compare(one, other, &WITHOUT_FLAGS);
    assert!(report.entries > 300);
    assert!(report.is_same() && report.trouble.is_empty(), "{report:?}");
}

#[test]
fn the_same_files_are_built_compared_and_extracted() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), false);
    let options = options(Compression::Zstd);
    let (mut memory, files) = filled(folder.path(), &options);
    let built = try_build(&Source::Directory(folder.path().to_owned()), &options).unwrap();
    assert_eq!((files.entries, files.bytes), (built.report.entries, built.report.bytes));
    let mut image = mount(&built.path());
    same(&mut memory, &mut *image);

    let out = tempfile::tempdir().unwrap();
    let mut target = DirectoryTarget::new(&out.path().join("out"), false).unwrap();
    let limits = ExtractLimits::default();
    let extracted = extract(&mut FileSystemSource(&mut memory), &mut target, &limits, &|_| {}).unwrap();
    assert_eq!(extracted.losses, []);
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    listed(folder.path(), folder.path(), &mut before);
    let out = out.path().join("out");
    listed(&out, &out, &mut after);
    assert_eq!(before, after);

    let tars: Vec<Vec<u8>> = [&mut memory as &mut dyn FileSystem, &mut *image]
        .into_iter()
        .map(|fs| {
            let mut tar = TarTarget::new(Vec::new());
            extract(&mut FileSystemSource(fs), &mut tar, &limits, &|_| {}).unwrap();
            tar.finish().unwrap()
        })
        .collect();
    assert!(tars[0] == tars[1], "a tar has all of a filesystem");
}

/// A change, as the commands of `image` make them.
fn change(fs: &mut dyn FileSystem, host: &Path) {
    let path = |path: &str| ImagePath::new(path).unwrap();
    let mut editor = Editor::new(fs);
    editor.make_dir(&path("/a/b/c"), true, 0o755, Owner::default()).unwrap();
    editor.put(&[host.to_owned()], &path("/a/b/"), PutOptions::default()).unwrap();
    editor.rename(&path("/noise"), &path("/a/moved"), Rename::Replace).unwrap();
    editor.link(&path("/a/moved"), &path("/a/again")).unwrap();
    editor.symlink(b"../else", &path("/a/soft"), Owner::default()).unwrap();
    editor.set_xattr(&path("/a"), b"user.key", Some(b"value")).unwrap();
    editor.chmod(&path("/a"), &"u+x,g-w".parse().unwrap(), true).unwrap();
    editor.remove(&path("/deep/er"), true).unwrap();
    editor.remove(&path("/empty"), false).unwrap();
    fs.end_change().unwrap();
    let root = fs.root();
    let mut walk = Walk::new(root);
    assert!(std::iter::from_fn(|| walk.next(fs)).all(|directory| directory.is_ok()));
}

#[test]
fn the_same_changes_leave_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), false);
    let host = folder.path().join("file on the host");
    std::fs::write(&host, bytes(100_000, 5, true)).unwrap();
    let options = options(Compression::Lzo);
    let (mut one, _) = filled(folder.path(), &options);
    let mut other = one.clone();
    change(&mut one, &host);
    let differs = compare(&mut one, &mut other, &WITHOUT_FLAGS);
    assert!(!differs.is_same(), "the change is seen");
    change(&mut other, &host);
    let report = compare(&mut one, &mut other, &WITHOUT_FLAGS);
    assert!(report.is_same(), "{report:?}");
}

#[cfg(feature = "mount")]
#[test]
fn it_can_be_served_as_a_folder() {
    use floatgate_image::mount::{Handler, NewNode};
    use floatgate_stack::fs::Timestamp;

    let clock = || Timestamp { seconds: 1_000_000_000, nanoseconds: 0 };
    let mut handler = Handler::new(Box::new(MemoryFs::new()), clock);
    let node = NewNode { directory: 1, name: b"new", mode: 0o100_644, device: 0, uid: 7, gid: 8 };
    let made = handler.make(&node).unwrap();
    assert_eq!((made.mtime, made.uid, made.gid), (clock(), 7, 8));
    assert_eq!(handler.write(made.inode, 10_000, b"far away", true).unwrap(), 8);
    assert_eq!(handler.seek(made.inode, 0, false).unwrap(), 8192, "data are searched block by block");
    handler.open(made.inode).unwrap();
    handler.unlink(1, b"new").unwrap();
    assert_eq!(handler.read(made.inode, 10_000, 100).unwrap(), b"far away", "it is open");
    handler.close(made.inode).unwrap();
    assert!(handler.attributes(made.inode).is_err());
}
