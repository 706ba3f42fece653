//! Images that are changed where they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use floatgate_image::check::{Outcome, check};
use floatgate_image::detect::Content;
use floatgate_image::edit::{
    Committed, EditError, EditOptions, Editor, GrowTo, ImagePath, Owner, PutOptions, edit,
};
use floatgate_image::history::history;
use floatgate_image::{Access, Image, ImageError, Selection};
use floatgate_media::jffs2::Endian;
use floatgate_mtd::advice::Help as _;
use floatgate_mtd::{FlashKind, Geometry, Instant};
use floatgate_stack::fs::{
    BLOCK_BYTES, CompressedBlock, Compression, FileFlags, FileSystem, FilledFile, NewFile, NewKind, Rename,
    Timestamp,
};
use floatgate_stack::jffs2::{Jffs2, MountOptions};
use floatgate_stack::ubifs::Behaviour;
use floatgate_stack::{StoreFlash, StoreMode};
use floatgate_testing::few_or_all;
use tempfile::TempDir;

use super::repaired::{byte_of_name, listing, nodes, repaired};
use super::{IMAGES, Random, contents, mounted, text};

pub(crate) const ERASE: usize = 16 << 10;
const BLOCKS: usize = 40;
pub(crate) const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };

/// How an image is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) is_nand: bool,
    pub(crate) endian: Endian,
    pub(crate) summaries: bool,
}

pub(crate) const KINDS: [Kind; 5] = [
    Kind { is_nand: false, endian: Endian::Little, summaries: false },
    Kind { is_nand: false, endian: Endian::Big, summaries: false },
    Kind { is_nand: false, endian: Endian::Little, summaries: true },
    Kind { is_nand: true, endian: Endian::Little, summaries: false },
    Kind { is_nand: true, endian: Endian::Big, summaries: true },
];

/// Flash of so many eraseblocks with so many bytes each.
pub(crate) fn geometry(is_nand: bool, blocks: usize, erase_bytes: usize) -> Geometry {
    let (kind, page) = if is_nand { (FlashKind::SlcNand, 512) } else { (FlashKind::Nor, 1) };
    Geometry::plain(kind, (blocks * erase_bytes) as u64, erase_bytes as u32, page)
}

pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(|| u8::try_from(random.index(256)).unwrap()).take(len).collect()
}

/// A JFFS2 with a directory, a text, and a file of 100 000 bytes.
pub(crate) fn image(kind: Kind) -> Vec<u8> {
    made(kind, false)
}

/// The same, of which a further file was removed.
pub(crate) fn image_with_removed(kind: Kind) -> Vec<u8> {
    made(kind, true)
}

/// A JFFS2 with so many small files in its first eraseblock, and a large one in all others.
pub(crate) fn image_of_small_files(kind: Kind) -> Vec<u8> {
    filled(kind, |fs| {
        for number in 0..60 {
            put_in(fs, 1, &format!("file{number}"), b"small");
        }
        put_in(fs, 1, "data", &noise(1, 60_000));
    })
}

pub(crate) const REGULAR: NewFile<'_> =
    NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

/// Puts a file in whose nodes all tell its size, as `mkfs.jffs2` makes them: where one is lost, another one says so.
pub(crate) fn put_in(fs: &mut dyn FileSystem, directory: u32, name: &str, data: &[u8]) {
    let file = FilledFile {
        file: REGULAR,
        size: data.len() as u64,
        atime: NOW,
        mtime: NOW,
        ctime: NOW,
        flags: FileFlags::default(),
        compression: None,
        xattrs: &[],
    };
    let inode = fs.fill(directory, name.as_bytes(), &file).unwrap();
    let blocks: Vec<CompressedBlock<'_>> = (0..)
        .zip(data.chunks(BLOCK_BYTES))
        .map(|(block, data)| CompressedBlock {
            block,
            size: data.len() as u32,
            compression: Compression::None,
            data,
        })
        .collect();
    fs.fill_blocks(inode, &blocks).unwrap();
}

/// The image of a filesystem that `fill` has put something into, with all of its partition.
pub(crate) fn filled(kind: Kind, fill: impl FnOnce(&mut dyn FileSystem)) -> Vec<u8> {
    filled_flash(kind, (BLOCKS, ERASE), fill)
}

/// The same on flash of so many eraseblocks of a size.
pub(crate) fn filled_flash(
    kind: Kind,
    (blocks, erase_bytes): (usize, usize),
    fill: impl FnOnce(&mut dyn FileSystem),
) -> Vec<u8> {
    let geometry = geometry(kind.is_nand, blocks, erase_bytes);
    let flash = StoreFlash::new(Vec::new(), geometry, StoreMode::WriteThrough);
    let options =
        MountOptions { endian: Some(kind.endian), summaries: kind.summaries, ..MountOptions::default() };
    let mut fs = Jffs2::mount(flash, Instant::ZERO, &options).map_err(|(error, _)| error).unwrap();
    fs.set_time(NOW);
    fill(&mut fs);
    let mut bytes = fs.unmount().map_err(|(error, _)| error).unwrap().into_store();
    bytes.resize(blocks * erase_bytes, 0xFF);
    bytes
}

fn made(kind: Kind, removes: bool) -> Vec<u8> {
    filled(kind, |fs| {
        let new = |kind| NewFile { kind, permissions: 0o755, uid: 0, gid: 0 };
        let dir = fs.create(1, b"dir", &new(NewKind::Directory)).unwrap();
        for (directory, name, data) in [(dir, "text", text()), (1, "data", noise(1, 100_000))] {
            put_in(fs, directory, name, &data);
        }
        if removes {
            let gone = fs.create(1, b"gone", &new(NewKind::Regular)).unwrap();
            fs.write(gone, 0, b"gone").unwrap();
            fs.unlink(1, b"gone").unwrap();
        }
    })
}

/// A folder with an image in a file.
pub(crate) fn folder(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

pub(crate) fn options() -> EditOptions {
    EditOptions { time: NOW, ..EditOptions::default() }
}

pub(crate) fn path(path: &str) -> ImagePath {
    ImagePath::new(path).unwrap()
}

pub(crate) fn change(
    image: &Path,
    options: &EditOptions,
    change: impl Fn(&mut Editor<'_>) -> Result<(), EditError>,
) -> Result<Committed, EditError> {
    edit(image, &with_size(image, options), &change).map(|(committed, _)| committed)
}

/// States the size of eraseblocks where it would be a guess.
fn with_size(file: &Path, options: &EditOptions) -> EditOptions {
    let found = Image::open(file, Access::Read).map(|image| image.found).unwrap_or_default();
    let stated = found.iter().find_map(|found| match found.content {
        Content::Jffs2(shape) if shape.erase_is_guess => Some(shape.erase_bytes),
        _ => None,
    });
    let mut options = options.clone();
    options.selection.peb_bytes = options.selection.peb_bytes.or(stated);
    options
}

/// Puts one file into the root directory.
pub(crate) fn put(
    image: &Path,
    options: &EditOptions,
    name: &str,
    data: &[u8],
) -> Result<Committed, EditError> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(name);
    fs::write(&source, data).unwrap();
    change(image, options, |editor| {
        editor.put(std::slice::from_ref(&source), &path("/"), PutOptions::default())
    })
}

pub(crate) fn mount(path: &Path) -> Box<dyn FileSystem> {
    let image = Image::open(path, Access::Read).unwrap();
    image.mount(&Selection::default(), false, Behaviour::default()).unwrap()
}

pub(crate) fn outcome(path: &Path) -> Outcome {
    let image = Image::open(path, Access::Read).unwrap();
    check(&image, &Selection::default()).unwrap().outcome
}

#[test]
fn files_are_put_moved_and_removed_on_nor_and_nand_in_both_byte_orders() {
    for kind in KINDS {
        let (_folder, file) = folder(&image(kind));
        put(&file, &options(), "new", &noise(2, 50_001)).unwrap();
        put(&file, &options(), "new", &noise(3, 30_001)).unwrap();
        change(&file, &options(), |editor| {
            editor.make_dir(&path("/a/b"), true, 0o750, Owner::default())?;
            editor.rename(&path("/dir/text"), &path("/a/b/text"), Rename::Replace)?;
            editor.link(&path("/new"), &path("/a/hard"))?;
            editor.symlink(b"b/text", &path("/a/soft"), Owner::default())?;
            editor.chmod(&path("/new"), &"0600".parse().unwrap(), false)?;
            editor.set_xattr(&path("/new"), b"user.note", Some(b"value"))?;
            editor.remove(&path("/dir"), true)
        })
        .unwrap();
        let committed = change(&file, &options(), |editor| editor.remove(&path("/data"), false)).unwrap();
        assert_eq!(committed.grown, [], "{kind:?}");
        assert_eq!(fs::metadata(&file).unwrap().len(), (BLOCKS * ERASE) as u64, "{kind:?}");
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        let mut fs = mount(&file);
        let fs = &mut *fs;
        assert!(contents(fs, "/a/b/text") == text() && contents(fs, "/new") == noise(3, 30_001), "{kind:?}");
        let new = fs.resolve(b"/new").unwrap();
        let attributes = fs.attributes(new).unwrap();
        assert_eq!((attributes.links, attributes.mode & 0o7777, attributes.size), (2, 0o600, 30_001));
        assert_eq!(fs.get_xattr(new, b"user.note").unwrap(), b"value");
        assert_eq!(fs.check().unwrap(), [""; 0], "{kind:?}");
        for gone in [&b"/dir"[..], b"/data", b"/dir/text"] {
            assert!(fs.resolve(gone).is_err(), "{kind:?}");
        }
    }
}

/// What is not written stays as it was, to the last byte that fits; what was full can be emptied.
#[test]
fn a_full_image_stays_as_it_was() {
    for kind in KINDS {
        let (_folder, file) = folder(&image(kind));
        let mut number = 0;
        let mut len = BLOCKS * ERASE;
        while len > 100 {
            let before = fs::read(&file).unwrap();
            match put(&file, &options(), &format!("file{number}"), &noise(number + 1, len)) {
                Ok(_) => number += 1,
                Err(error) => {
                    assert!(error.wants_room(), "{kind:?}: {error}");
                    assert!(
                        fs::read(&file).unwrap() == before,
                        "{kind:?}: a change that failed changes nothing"
                    );
                    len /= 2;
                }
            }
        }
        assert!(number >= 2, "{kind:?}: {number}");
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        let mut fs = mount(&file);
        let used: u64 = (0..number)
            .map(|number| {
                let inode = fs.resolve(format!("/file{number}").as_bytes()).unwrap();
                fs.attributes(inode).unwrap().size
            })
            .sum();
        assert!(used > (BLOCKS * ERASE / 2) as u64, "{kind:?}: {used}");
        drop(fs);
        change(&file, &options(), |editor| editor.remove(&path("/file0"), false)).unwrap();
        put(&file, &options(), "again", &noise(99, 10_000)).unwrap();
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
    }
}

/// However full an image is and however often it is changed, files can be removed from it.
#[test]
fn a_full_image_never_refuses_a_removal() {
    for kind in KINDS.into_iter().rev().take(few_or_all(1, KINDS.len())) {
        let (_folder, file) = folder(&image(kind));
        let (mut random, mut files) = (Random::new(5), Vec::new());
        for number in 0..300 {
            let changed = match random.index(4) {
                0 if !files.is_empty() => {
                    let gone: String = files.swap_remove(random.index(files.len()));
                    change(&file, &options(), |editor| editor.remove(&path(&gone), false))
                        .unwrap_or_else(|error| panic!("{kind:?} {number}: {error}"));
                    continue;
                }
                1 if !files.is_empty() => {
                    let one = path(&files[random.index(files.len())]);
                    change(&file, &options(), |editor| editor.chmod(&one, &"0640".parse().unwrap(), false))
                }
                _ => {
                    let name = format!("/file{number}");
                    let len = [100, 3000, 20_000][random.index(3)];
                    let changed = put(&file, &options(), &name[1..], &noise(number + 1, len));
                    files.extend(changed.is_ok().then_some(name));
                    changed
                }
            };
            assert!(changed.as_ref().err().is_none_or(EditError::wants_room), "{kind:?}: {changed:?}");
        }
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        for gone in files {
            change(&file, &options(), |editor| editor.remove(&path(&gone), false)).unwrap();
        }
    }
}

/// What was replaced and collected leaves inode numbers without nodes and erased flash where it was: that is no loss.
#[test]
fn changes_are_no_losses() {
    for kind in KINDS.into_iter().rev().take(few_or_all(1, KINDS.len())) {
        let (_folder, file) = folder(&image(kind));
        change(&file, &options(), |editor| {
            editor.remove(&path("/dir"), true)?;
            editor.remove(&path("/data"), false)
        })
        .unwrap();
        for round in 0..120 {
            put(&file, &options(), "file", &noise(round + 1, 20_000)).unwrap();
            assert_eq!(outcome(&file), Outcome::Clean, "{kind:?} {round}");
        }
    }
}

/// Its names stay on the flash longer than the nodes that removed them, and its own name says that it was removed.
#[test]
fn a_directory_that_was_removed_is_not_told() {
    for kind in KINDS {
        let (_folder, file) = folder(&image(kind));
        change(&file, &options(), |editor| editor.remove(&path("/dir"), true)).unwrap();
        for round in 0..12 {
            put(&file, &options(), "file", &noise(round + 1, 9000)).unwrap();
            let report = check(&Image::open(&file, Access::Read).unwrap(), &Selection::default()).unwrap();
            assert_eq!((report.outcome, report.findings), (Outcome::Clean, Vec::new()), "{kind:?} {round}");
        }
    }
}

/// As `mkfs.jffs2` makes them unless told otherwise: they end with the last node.
#[test]
fn an_image_without_free_eraseblocks_grows_if_it_is_told_to() {
    for (name, bytes) in IMAGES {
        let (_folder, file) = folder(bytes);
        let refused = put(&file, &options(), "new", b"new");
        assert!(
            matches!(refused, Err(EditError::Image(ImageError::NoEraseblocks { need: 2, .. }))),
            "{name}: {refused:?}"
        );
        assert!(fs::read(&file).unwrap() == bytes, "{name}");
        let needed = EditOptions { growth: GrowTo::Needed, ..options() };
        let committed = put(&file, &needed, "new", &noise(4, 200_000)).unwrap();
        let image = committed.grown.iter().find(|grown| grown.what == "image").unwrap();
        assert_eq!(image.unit, "eraseblock", "{name}");
        assert_eq!(outcome(&file), Outcome::Clean, "{name}");
        let mut fs = mount(&file);
        assert!(contents(&mut *fs, "/new") == noise(4, 200_000), "{name}");
        assert!(contents(&mut *fs, "/dir/text") == text(), "{name}");
        drop(fs);
        let blocks = u32::try_from(image.to + 3).unwrap();
        let erase = fs::metadata(&file).unwrap().len() / image.to;
        let exactly = EditOptions { growth: GrowTo::Lebs(blocks), ..options() };
        put(&file, &exactly, "more", b"more").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), u64::from(blocks) * erase, "{name}");
        let fewer = EditOptions { growth: GrowTo::Lebs(blocks - 1), ..options() };
        let refused = put(&file, &fewer, "more", b"more");
        assert!(matches!(refused, Err(EditError::Lebs { unit: "eraseblock", .. })), "{name}: {refused:?}");
    }
}

/// Free eraseblocks up to both ends of the file belong to the image: Linux may have written the last ones of a partition first.
#[test]
fn erased_flash_up_to_the_ends_of_a_file_is_its_own() {
    for kind in KINDS {
        let image = image(kind);
        let written = image.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1;
        let written = &image[..written.next_multiple_of(ERASE)];
        let erased = vec![0xFF; 5 * ERASE];
        for bytes in [[&erased, written, &erased].concat(), [&erased[..], written].concat()] {
            let (_folder, file) = folder(&bytes);
            let found = Image::open(&file, Access::Read).unwrap().found[0].clone();
            assert_eq!((found.offset, found.len), (0, bytes.len() as u64), "{kind:?}");
            put(&file, &options(), "new", &noise(12, 20_000)).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().len(), bytes.len() as u64, "{kind:?}");
            assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
            assert!(contents(&mut *mount(&file), "/new") == noise(12, 20_000), "{kind:?}");
            assert!(contents(&mut *mount(&file), "/dir/text") == text(), "{kind:?}");
        }
        // Behind something else it is at the end of the file, before something else it may be another partition.
        let other = noise(13, 2 * ERASE);
        for (before, after) in [(&other, &erased), (&erased, &other)] {
            let (_folder, file) = folder(&[before, written, after].concat());
            let found = Image::open(&file, Access::Read).unwrap().found[0].clone();
            let end = if before == &other { written.len() + erased.len() } else { written.len() };
            let start = if before == &other { other.len() } else { 0 };
            let len = if before == &other { end } else { erased.len() + end };
            assert_eq!((found.offset, found.len), (start as u64, len as u64), "{kind:?}");
        }
    }
}

/// In a larger dump nothing around the image changes, and erased flash behind it is used only if it is told to grow.
#[test]
fn an_image_in_a_dump_stays_in_its_place() {
    for kind in KINDS {
        let image = image(kind);
        let (before, after) = (noise(5, 3 * ERASE), noise(6, ERASE + 77));
        let (_folder, file) = folder(&[&before[..], &image, &after].concat());
        let own = Image::open(&file, Access::Read).unwrap().found[0].clone();
        assert_eq!(own.offset, before.len() as u64);
        let keep = put(&file, &options(), "new", &noise(7, 60_000));
        assert!(keep.is_err_and(|error| error.wants_room()), "{kind:?}");
        let needed = EditOptions { growth: GrowTo::Needed, ..options() };
        put(&file, &needed, "new", &noise(7, 60_000)).unwrap();
        let too_much = put(&file, &needed, "more", &noise(8, BLOCKS * ERASE));
        assert!(too_much.is_err_and(|error| error.wants_room()), "{kind:?}");
        let now = fs::read(&file).unwrap();
        assert!(now.starts_with(&before) && now.ends_with(&after), "{kind:?}");
        assert_eq!(now.len(), before.len() + image.len() + after.len(), "{kind:?}");
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        assert!(contents(&mut *mount(&file), "/new") == noise(7, 60_000), "{kind:?}");
    }
}

#[test]
fn a_last_eraseblock_that_ends_with_something_else_is_refused_unless_it_is_to_be_recovered() {
    for kind in KINDS {
        let mut bytes = image(kind);
        let last = bytes.iter().rposition(|&byte| byte != 0xFF).unwrap();
        let tail = (last + 1).next_multiple_of(4) + 512;
        if tail + 100 > (last + 1).next_multiple_of(ERASE) {
            continue;
        }
        bytes[tail..tail + 100].copy_from_slice(&noise(9, 100));
        let (_folder, file) = folder(&bytes);
        let refused = put(&file, &options(), "new", b"new");
        assert!(
            matches!(refused, Err(EditError::Image(ImageError::Jffs2Tail { .. }))),
            "{kind:?}: {refused:?}"
        );
        assert!(fs::read(&file).unwrap() == bytes, "{kind:?}");
        put(&file, &EditOptions { recover: true, ..options() }, "new", b"new").unwrap();
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        assert!(contents(&mut *mount(&file), "/data") == noise(1, 100_000), "{kind:?}");
    }
}

/// Linux fills the end of a page with up to twelve zeros: a padding node there would be nothing but its header.
#[test]
fn zeros_that_fill_the_last_page_are_no_other_data() {
    for kind in KINDS {
        let mut bytes = image(kind);
        let end = bytes.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1;
        let end = end.next_multiple_of(4);
        let Some(zeros) = bytes.get_mut(end..end + 12).filter(|_| end % ERASE < ERASE - 12) else { continue };
        zeros.fill(0);
        let (_folder, file) = folder(&bytes);
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        put(&file, &options(), "new", b"new").unwrap();
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        assert!(contents(&mut *mount(&file), "/data") == noise(1, 100_000), "{kind:?}");
    }
}

/// Linux removes files without a name when it mounts: a change would do the same, and the next `check` would know nothing of them.
#[test]
fn what_has_lost_its_name_keeps_from_changes() {
    for kind in KINDS.into_iter().filter(|kind| !kind.summaries) {
        let mut bytes = image(kind);
        let at = byte_of_name(&bytes, kind.endian, b"dir", 0);
        bytes[at..at + 43].fill(0);
        let (_folder, file) = folder(&bytes);
        let refused = put(&file, &options(), "new", b"new");
        assert!(matches!(refused, Err(EditError::Image(ImageError::Nameless(1)))), "{kind:?}: {refused:?}");
        assert!(fs::read(&file).unwrap() == bytes, "{kind:?}");
        let (_, repaired) = repaired(&format!("{kind:?}"), &bytes).unwrap();
        let (_folder, mended) = folder(&repaired);
        put(&mended, &options(), "new", b"new").unwrap();
        let names = listing(&mut *mount(&mended));
        assert!(names.keys().any(|path| path.starts_with("/lost-") && path.ends_with("/text")), "{names:?}");
        put(&file, &EditOptions { recover: true, ..options() }, "new", b"new").unwrap();
    }
}

/// Bytes that look erased at the beginning of an eraseblock hide nothing: Linux takes it for empty, and erases it.
#[test]
fn nodes_behind_bytes_that_look_erased_are_read_and_stay() {
    for kind in KINDS {
        let whole = image(kind);
        let mut bytes = whole.clone();
        bytes[ERASE..ERASE + 600].fill(0xFF);
        let name = format!("{kind:?}");
        let before = listing(&mut *mounted(&bytes));
        assert!(before["/dir/text"].as_deref() == Some(&text()[..]), "{name}");
        let (_, new) = repaired(&name, &bytes).unwrap();
        let (_folder, file) = folder(&new);
        put(&file, &options(), "new", b"new").unwrap();
        let mut after = listing(&mut *mount(&file));
        assert!(after.remove("/new").is_some(), "{name}");
        let lost = |all: &BTreeMap<String, Option<Vec<u8>>>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(lost(&after), lost(&listing(&mut *mounted(&new))), "{name}");
        let nodes_of = |bytes: &[u8]| {
            let behind = nodes(bytes, kind.endian).into_iter();
            behind.filter(|(at, _)| (ERASE + 600..2 * ERASE).contains(at)).count()
        };
        assert!(nodes_of(&bytes) > 0 && nodes_of(&new) >= nodes_of(&bytes), "{name}");
    }
}

/// Free eraseblocks that something has overwritten are erased if that is asked for; what is other data stays, and no advice goes in circles.
#[test]
fn what_is_behind_an_image_is_erased_only_if_that_is_asked_for() {
    for kind in KINDS {
        let whole = image(kind);
        let free = (whole.iter().rposition(|&byte| byte != 0xFF).unwrap() / ERASE + 2) * ERASE;
        let mut bytes = whole.clone();
        bytes[free..free + 2 * ERASE].copy_from_slice(&noise(9, 2 * ERASE));
        let (_folder, file) = folder(&bytes);
        let refused = put(&file, &options(), "new", b"new");
        assert!(
            matches!(refused, Err(EditError::Image(ImageError::Jffs2Tail { offset, .. })) if offset == free as u64),
            "{kind:?}: {refused:?}"
        );
        put(&file, &EditOptions { recover: true, ..options() }, "new", b"new").unwrap();
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
        put(&file, &options(), "more", b"more").unwrap();
        let (_folder, file) = folder(&[&whole[..free - ERASE], &noise(9, ERASE)].concat());
        for growth in [GrowTo::Keep, GrowTo::Needed] {
            let refused = put(&file, &EditOptions { growth, ..options() }, "new", &noise(1, 3 * ERASE));
            assert!(matches!(refused, Err(EditError::Largest { .. })), "{kind:?}: {refused:?}");
            let help = refused.unwrap_err().help().to_string();
            assert!(help.contains("cuts it out"), "{help}");
        }
    }
}

/// Nothing is erased while there is room: what was replaced can still be had back.
#[test]
fn a_change_collects_nothing_before_room_is_needed() {
    for kind in KINDS {
        let (_folder, file) = folder(&image(kind));
        let moments = || {
            let opened = Image::open(&file, Access::Read).unwrap();
            history(&opened, &Selection::default())
                .unwrap()
                .into_iter()
                .map(|node| node.at)
                .collect::<Vec<_>>()
        };
        let mut before = moments();
        for round in 0..4 {
            put(&file, &options(), "data", &noise(round + 2, 3000)).unwrap();
            let now = moments();
            let gone: Vec<_> = before.iter().filter(|at| !now.contains(at)).collect();
            assert_eq!(gone, [""; 0], "{kind:?} {round}");
            before = now;
        }
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
    }
}

/// The size of eraseblocks that an image tells, or seems to have, and whether that is a guess.
fn size_of_eraseblocks(file: &Path) -> (u32, bool) {
    let image = Image::open(file, Access::Read).unwrap();
    let Content::Jffs2(shape) = &image.found[0].content else { panic!("{:?}", image.found) };
    assert_eq!(image.found.len(), 1);
    (shape.erase_bytes, shape.erase_is_guess)
}

/// A small image does not tell the size of its eraseblocks. The first change does, for which it is stated, and no later one takes it for another.
#[test]
fn the_size_of_eraseblocks_is_the_same_for_all_changes() {
    let needed = EditOptions { growth: GrowTo::Needed, ..options() };
    let all = (12..=18).flat_map(|bits| KINDS.map(|kind| (bits, kind)));
    for (bits, kind) in all.step_by(few_or_all(11, 1)) {
        let erase = 1 << bits;
        let whole = filled_flash(kind, (12, erase), |fs| {
            let file = fs.create(1, b"file", &REGULAR).unwrap();
            fs.write(file, 0, &noise(1, 5000)).unwrap();
        });
        let end = (whole.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1).next_multiple_of(4);
        for len in [end, end.next_multiple_of(erase), whole.len()] {
            let name = format!("{kind:?}, {len} bytes, eraseblocks of {erase}");
            let (_folder, file) = folder(&whole[..len]);
            let (first, is_guess) = size_of_eraseblocks(&file);
            assert!(is_guess || first == erase as u32, "{name}: {first}");
            for round in 0..3 {
                let told = |what: &str| {
                    let size = size_of_eraseblocks(&file);
                    assert_eq!(size, (first, false), "{name}: {what}, {round}");
                };
                put(&file, &needed, "new", &noise(2, 3000)).unwrap();
                told("put");
                change(&file, &needed, |editor| editor.remove(&path("/new"), false)).unwrap();
                told("rm");
                put(&file, &needed, "other", &noise(3, 20_000)).unwrap();
                told("put of more");
                put(&file, &needed, "small", b"small").unwrap();
                told("put of little");
            }
            assert_eq!(outcome(&file), Outcome::Clean, "{name}");
            assert!(contents(&mut *mount(&file), "/file") == noise(1, 5000), "{name}");
        }
    }
}

/// A page that a sync has filled up need not be recovered, whatever room was left in it.
#[test]
fn images_can_be_changed_again_and_again() {
    for kind in KINDS.into_iter().rev().take(few_or_all(2, KINDS.len())) {
        let (_folder, file) = folder(&image(kind));
        for len in 0..60 {
            let data = noise(len + 1, usize::try_from(len).unwrap() * 4);
            put(&file, &options(), "new", &data).unwrap_or_else(|error| panic!("{kind:?} {len}: {error}"));
            assert!(contents(&mut *mount(&file), "/new") == data, "{kind:?} {len}");
        }
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
    }
}

/// Each summary states the size of eraseblocks, however few of them changes have left.
#[test]
fn changes_do_not_hide_the_size_of_eraseblocks() {
    let with_summaries = KINDS.into_iter().filter(|kind| kind.summaries);
    for kind in with_summaries {
        let (_folder, file) = folder(&image(kind));
        for round in 0..6 {
            for (name, len) in [("data", 30_000), ("other", 70_000 - 10_000 * round)] {
                put(&file, &options(), name, &noise(round as u64, len)).unwrap();
                let image = Image::open(&file, Access::Read).unwrap();
                let Content::Jffs2(shape) = &image.found[0].content else { panic!("{:?}", image.found) };
                let size = (shape.erase_bytes, shape.erase_is_guess);
                assert_eq!(size, (ERASE as u32, false), "{kind:?} {round} {name}");
            }
        }
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
    }
}

/// Whatever is damaged: nothing panics, and an image that is not changed stays as it was.
#[test]
fn damaged_images_are_changed_or_left_alone() {
    let mut random = Random::new(0x00C0_FFEE);
    for kind in KINDS {
        let whole = image(kind);
        for round in 0..25 {
            let mut bytes = whole.clone();
            for _ in 0..=random.index(3) {
                let at = random.index(140_000);
                match random.index(3) {
                    0 => bytes[at] ^= 1 << random.index(8),
                    1 => bytes[at..].iter_mut().take(100).for_each(|byte| *byte = 0xFF),
                    _ => bytes.truncate(at.max(100)),
                }
                if bytes.len() < 140_000 {
                    break;
                }
            }
            let (_folder, file) = folder(&bytes);
            let options = EditOptions { recover: true, growth: GrowTo::Needed, ..options() };
            match put(&file, &options, "new", &noise(10, 20_000)) {
                Ok(_) => {
                    assert!(contents(&mut *mount(&file), "/new") == noise(10, 20_000), "{kind:?} {round}")
                }
                Err(_) => assert!(fs::read(&file).unwrap() == bytes, "{kind:?} {round}"),
            }
        }
    }
}

#[test]
fn an_output_of_its_own_leaves_the_image_alone() {
    let old = image(KINDS[0]);
    let (folder, file) = folder(&old);
    let output = folder.path().join("changed");
    let options = EditOptions { output: Some(output.clone()), ..options() };
    put(&file, &options, "new", b"new").unwrap();
    assert!(fs::read(&file).unwrap() == old);
    assert_eq!(contents(&mut *mount(&output), "/new"), b"new");
}

/// As a mount in a folder does it: changes go to the file at once.
#[test]
fn a_mount_for_writing_writes_to_the_file() {
    for kind in KINDS {
        let (_folder, file) = folder(&image(kind));
        let opened = Image::open(&file, Access::Write).unwrap().with_lebs(Some(BLOCKS as u32 + 5));
        let mut fs = opened.mount(&Selection::default(), false, Behaviour::default()).unwrap();
        let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let inode = fs.create(1, b"new", &new).unwrap();
        fs.write(inode, 0, &noise(11, 5000)).unwrap();
        fs.fsync(inode).unwrap();
        assert!(contents(&mut *mount(&file), "/new") == noise(11, 5000), "{kind:?}: before it is unmounted");
        fs.unlink(1, b"data").unwrap();
        fs.unmount().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), ((BLOCKS + 5) * ERASE) as u64, "{kind:?}");
        assert_eq!(outcome(&file), Outcome::Clean, "{kind:?}");
    }
}
