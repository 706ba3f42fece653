//! Images that are created here, changed, and read back. In addition to the files, the tests check that all other
//! data stays unchanged.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use floatgate_media::ubi::VolumeFlags;
use floatgate_mtd::Geometry;
use floatgate_stack::fs::{FileSystem, FileType, NewFile, NewKind, Rename, Timestamp};
use floatgate_stack::ubi::{AttachOptions, FormatOptions as UbiFormat, NewVolume, Ubi};
use floatgate_stack::ubifs::{self, Behaviour, FormatOptions, Ubifs};
use floatgate_stack::{BareVolume, Store, StoreError, StoreFlash, StoreMode};
use tempfile::TempDir;

use super::*;
use crate::detect::UbiShape;
use crate::ecc::{self, Code, PageGeometry, Scheme};
use crate::open::flash_geometry;
use crate::{Access, Image, ImageFs, Selection};

const PEB: usize = 16 << 10;
const PEBS: usize = 80;
const SHAPE: UbiShape =
    UbiShape { peb_bytes: PEB as u32, vid_header_offset: 512, data_offset: 1024, min_io_bytes: 512 };
const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };

/// Number of bytes before and after an image in a dump.
const BEFORE: usize = 3 * PEB;
const AFTER: usize = 5 * PEB;

fn geometry() -> Geometry {
    flash_geometry(&SHAPE, (PEB * PEBS) as u64)
}

/// Parameters of the images here.
#[derive(Clone, Copy, Default)]
struct Recipe {
    autoresize: bool,
    space_fixup: bool,
    /// True to leave the filesystem mounted at the end.
    dirty: bool,
}

/// UBI device with one volume, whose UBIFS contains a directory and a file of 100 000 bytes.
fn image(recipe: Recipe) -> Vec<u8> {
    let flash = StoreFlash::new(Vec::new(), geometry(), StoreMode::WriteThrough);
    let format = UbiFormat { erase_count: Some(7), ..UbiFormat::default() };
    let (flash, _) = Ubi::format(flash, &format).map_err(|(error, _)| error).unwrap();
    let mut ubi = Ubi::attach(flash, &AttachOptions::default()).map_err(|refused| refused.fault).unwrap();
    let flags = if recipe.autoresize { VolumeFlags::AUTORESIZE } else { VolumeFlags::default() };
    let id = ubi.create_volume(&NewVolume { flags, ..NewVolume::dynamic("rootfs", 60) }).unwrap();
    let volume = ubi.open_volume(id).map_err(|(error, _)| error).unwrap();
    let options = FormatOptions {
        space_fixup: recipe.space_fixup,
        deferred: recipe.space_fixup,
        max_lebs: Some(70),
        ..FormatOptions::default()
    };
    let mut fs = Ubifs::format(volume, &options, Behaviour::default()).map_err(|(error, _)| error).unwrap();
    let root = fs.root();
    let new = |kind| NewFile { kind, permissions: 0o755, uid: 0, gid: 0 };
    fs.create(root, b"etc", &new(NewKind::Directory)).unwrap();
    let file = fs.create(root, b"data", &new(NewKind::Regular)).unwrap();
    fs.write(file, 0, &noise(1, 100_000)).unwrap();
    let volume = if recipe.dirty {
        fs.fsync(file).unwrap();
        fs.abandon()
    } else {
        fs.unmount().map_err(|(error, _)| error).unwrap()
    };
    let (flash, _) = volume.into_ubi().detach().map_err(|(error, _)| error).unwrap();
    let mut bytes = flash.into_store();
    bytes.resize(PEB * PEBS, 0xFF);
    bytes
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(len)
    .collect()
}

/// Folder that contains a file with an image.
fn folder(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Image with other data before and after it.
fn dump(image: &[u8]) -> Vec<u8> {
    [&noise(2, BEFORE), image, &noise(3, AFTER)].concat()
}

fn options() -> EditOptions {
    EditOptions { time: NOW, ..EditOptions::default() }
}

fn path(path: &str) -> ImagePath {
    ImagePath::new(path).unwrap()
}

/// Makes a change completely, or not at all.
fn edit(
    image: &Path,
    options: &EditOptions,
    change: impl Fn(&mut Editor<'_>) -> Result<(), EditError>,
) -> Result<Committed, EditError> {
    super::edit(image, options, &change).map(|(committed, _)| committed)
}

fn mount(path: &Path) -> ImageFs {
    let image = Image::open(path, Access::Read).unwrap();
    image.mount(&Selection::default(), true, Behaviour::default()).unwrap()
}

fn read(fs: &mut ImageFs, path: &str) -> Option<Vec<u8>> {
    let inode = fs.resolve(path.as_bytes()).ok()?;
    let mut bytes = vec![0; usize::try_from(fs.attributes(inode).unwrap().size).unwrap()];
    fs.read(inode, 0, &mut bytes).unwrap();
    Some(bytes)
}

/// Erase counters by PEB.
fn erase_counts(image: &[u8]) -> Vec<u32> {
    image.chunks(PEB).map(|peb| u32::from_be_bytes(peb[12..16].try_into().unwrap())).collect()
}

/// PEBs that contain a LEB of the volume table.
fn table(image: &[u8]) -> Vec<&[u8]> {
    let of_table =
        |peb: &&[u8]| peb[512..516] == *b"UBI!" && peb[512 + 8..512 + 12] == [0x7F, 0xFF, 0xEF, 0xFF];
    image.chunks(PEB).filter(of_table).collect()
}

#[test]
fn a_change_inside_a_dump_leaves_the_rest_alone() {
    let old = dump(&image(Recipe::default()));
    let (folder, file) = folder(&old);
    let source = folder.path().join("hello");
    fs::write(&source, b"hello").unwrap();
    edit(&file, &options(), |editor| {
        editor.put(std::slice::from_ref(&source), &path("/etc"), PutOptions::default())?;
        editor.make_dir(&path("/var/lib/app"), true, 0o700, Owner { uid: Some(5), gid: None })?;
        editor.link(&path("/etc/hello"), &path("/var/hi"))?;
        editor.symlink(b"../etc/hello", &path("var/soft"), Owner::default())?;
        editor.rename(&path("/data"), &path("/var"), Rename::Replace)?;
        editor.chmod(&path("/var/data"), &"600".parse().unwrap(), false)?;
        editor.chown(&path("/var"), "12:34".parse().unwrap(), true)?;
        editor.set_xattr(&path("/etc/hello"), b"user.colour", Some(b"blue"))
    })
    .unwrap();
    let new = fs::read(&file).unwrap();
    let inside = BEFORE..BEFORE + PEB * PEBS;
    assert_eq!(new.len(), old.len());
    assert_eq!(
        (&new[..BEFORE], &new[inside.end..]),
        (&old[..BEFORE], &old[inside.end..]),
        "around the image"
    );
    let (was, is) = (erase_counts(&old[inside.clone()]), erase_counts(&new[inside.clone()]));
    assert!(
        was.iter().zip(&is).all(|(was, is)| (*was..=was + 2).contains(is)),
        "counters go on: {was:?} {is:?}"
    );
    assert!(was.iter().zip(&is).filter(|(was, is)| was != is).count() < 20, "few PEBs are erased");
    assert_eq!(table(&new[inside.clone()]), table(&old[inside]), "the volume table");

    let mut fs = mount(&file);
    assert!(fs.check().unwrap().is_empty());
    assert_eq!(read(&mut fs, "/etc/hello").unwrap(), b"hello");
    assert_eq!(read(&mut fs, "/var/data").unwrap(), noise(1, 100_000));
    let hi = fs.resolve(b"/var/hi").unwrap();
    assert_eq!(hi, fs.resolve(b"/etc/hello").unwrap());
    let attributes = fs.attributes(hi).unwrap();
    assert_eq!((attributes.links, attributes.uid, attributes.gid, attributes.ctime), (2, 12, 34, NOW));
    assert_eq!(fs.get_xattr(hi, b"user.colour").unwrap(), b"blue");
    let soft = fs.resolve(b"/var/soft").unwrap();
    assert_eq!(fs.read_link(soft).unwrap(), b"../etc/hello");
    let data = fs.resolve(b"/var/data").unwrap();
    assert_eq!(fs.attributes(data).unwrap().mode, 0o100_600);
    let app = fs.resolve(b"/var/lib/app").unwrap();
    assert_eq!(fs.attributes(app).unwrap().mode, 0o040_700);
}

#[test]
fn trees_are_put_with_all_they_have() {
    let (folder, file) = folder(&image(Recipe::default()));
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    let sparse = [vec![0; 40_960], noise(4, 5000), vec![0; 40_000]].concat();
    fs::write(tree.join("sparse"), &sparse).unwrap();
    fs::hard_link(tree.join("sparse"), tree.join("deep/again")).unwrap();
    std::os::unix::fs::symlink("nowhere", tree.join("deep/er/link")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff name");
    fs::write(tree.join(odd), b"").unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1000, 42);
    fs::File::open(tree.join("deep")).unwrap().set_modified(old).unwrap();
    edit(&file, &options(), |editor| {
        editor.put(std::slice::from_ref(&tree), &path("/etc/new"), PutOptions::default())
    })
    .unwrap();

    let mut fs = mount(&file);
    assert!(fs.check().unwrap().is_empty());
    assert_eq!(read(&mut fs, "/etc/new/sparse").unwrap(), sparse);
    let inode = fs.resolve(b"/etc/new/sparse").unwrap();
    assert_eq!(fs.resolve(b"/etc/new/deep/again").unwrap(), inode, "a hard link");
    assert_eq!(fs.attributes(inode).unwrap().links, 2);
    assert_eq!(fs.data_blocks(inode, 0, 99).unwrap(), [10, 11], "zeros are holes");
    assert!(fs.resolve(b"/etc/new/odd \xff name").is_ok(), "names are bytes");
    let deep = fs.resolve(b"/etc/new/deep").unwrap();
    assert_eq!(fs.attributes(deep).unwrap().mtime, Timestamp { seconds: 1000, nanoseconds: 42 });
    let link = fs.resolve(b"/etc/new/deep/er/link").unwrap();
    assert_eq!(fs.attributes(link).unwrap().file_type, FileType::Symlink);
}

#[test]
fn trees_are_removed() {
    let (_folder, file) = folder(&image(Recipe::default()));
    let refused = edit(&file, &options(), |editor| editor.remove(&path("/etc"), false)).unwrap_err();
    assert!(
        matches!(refused, EditError::Inside { error: floatgate_stack::fs::Error::IsDirectory, .. }),
        "{refused}"
    );
    edit(&file, &options(), |editor| {
        editor.make_dir(&path("/etc/a/b/c"), true, 0o755, Owner::default())?;
        (0..300).try_for_each(|n| editor.symlink(b"x", &path(&format!("/etc/a/b/{n}")), Owner::default()))
    })
    .unwrap();
    edit(&file, &options(), |editor| editor.remove(&path("/etc"), true)).unwrap();
    let mut fs = mount(&file);
    let root = fs.root();
    let names = fs.read_dir(root, None, 99).unwrap();
    assert_eq!(names.iter().map(|entry| entry.name.as_slice()).collect::<Vec<_>>(), [b"data"]);
    assert!(fs.check().unwrap().is_empty());
}

#[test]
fn directories_have_one_name() {
    let (_folder, file) = folder(&image(Recipe::default()));
    for directory in ["/etc", "/"] {
        let refused = edit(&file, &options(), |editor| editor.link(&path(directory), &path("/other")));
        assert_eq!(refused.unwrap_err().to_string(), format!("{directory}: a directory has one name only"));
    }
}

#[test]
fn what_fails_changes_nothing() {
    let old = image(Recipe::default());
    let (folder, file) = folder(&old);
    let big = folder.path().join("big");
    fs::write(&big, noise(5, 1 << 20)).unwrap();
    let outcome = edit(&file, &options(), |editor| {
        editor.put(std::slice::from_ref(&big), &path("/"), PutOptions::default())
    });
    assert!(matches!(outcome, Err(EditError::Full)), "{outcome:?}");
    assert_eq!(fs::read(&file).unwrap(), old, "no space");
    let outcome = edit(&file, &options(), |editor| {
        editor.make_dir(&path("/new"), false, 0o755, Owner::default())?;
        editor.remove(&path("/nothing"), false)
    });
    assert!(
        matches!(outcome, Err(EditError::Inside { error: floatgate_stack::fs::Error::NotFound, .. })),
        "{outcome:?}"
    );
    assert_eq!(fs::read(&file).unwrap(), old, "the second change fails");
}

#[test]
fn only_who_asks_recovers() {
    let old = image(Recipe { dirty: true, ..Recipe::default() });
    let (_folder, file) = folder(&old);
    let change = |options: &EditOptions| edit(&file, options, |editor| editor.remove(&path("/etc"), true));
    let refused = change(&options()).unwrap_err();
    assert!(matches!(refused, EditError::Image(ImageError::Ubifs(ubifs::Error::NeedsRecovery))), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), old);
    change(&EditOptions { recover: true, ..options() }).unwrap();
    edit(&file, &options(), |editor| editor.remove(&path("/data"), false)).unwrap();
    assert!(mount(&file).check().unwrap().is_empty());
}

#[test]
fn an_output_leaves_the_old_image() {
    let old = image(Recipe::default());
    let (folder, file) = folder(&old);
    let output = folder.path().join("new");
    let with_output = EditOptions { output: Some(output.clone()), ..options() };
    edit(&file, &with_output, |editor| editor.remove(&path("/data"), false)).unwrap();
    assert_eq!(fs::read(&file).unwrap(), old);
    assert!(read(&mut mount(&output), "/data").is_none());
}

#[test]
fn a_short_image_stays_short_and_asks_for_space() {
    let mut old = image(Recipe { autoresize: true, ..Recipe::default() });
    // The image ends with its last data, as images of ubinize do.
    let used = old.chunks(PEB).rposition(|peb| peb[512..516] == *b"UBI!").unwrap() + 1;
    old.truncate(used * PEB);
    let (folder, file) = folder(&old);
    let source = folder.path().join("more");
    fs::write(&source, noise(6, 50_000)).unwrap();
    edit(&file, &options(), |editor| {
        editor.put(std::slice::from_ref(&source), &path("/"), PutOptions::default())
    })
    .unwrap();
    let new = fs::read(&file).unwrap();
    assert!(new.len() < (used + 12) * PEB, "{} PEBs", new.len() / PEB);
    assert_eq!(table(&new), table(&old), "the volume still asks for all the space");
    let mut fs = mount(&file);
    assert_eq!(read(&mut fs, "/more").unwrap(), noise(6, 50_000));
    assert!(fs.check().unwrap().is_empty());
}

#[test]
fn what_is_cut_off_is_refused() {
    let whole = image(Recipe::default());
    let half = whole.chunks(PEB).rposition(|peb| peb[512..516] == *b"UBI!").unwrap() / 2;
    for len in [half * PEB, half * PEB + 3000] {
        let (_folder, file) = folder(&whole[..len]);
        let outcome = edit(&file, &options(), |editor| editor.remove(&path("/etc"), true));
        assert!(outcome.is_err(), "{len}");
        assert_eq!(fs::read(&file).unwrap(), whole[..len]);
    }
}

#[test]
fn what_is_behind_a_short_image_is_left_alone() {
    let mut old = image(Recipe::default());
    let used = old.chunks(PEB).rposition(|peb| peb[512..516] == *b"UBI!").unwrap() + 1;
    old.truncate(used * PEB);
    let dump = [old, noise(7, 80 * PEB)].concat();
    let (_folder, file) = folder(&dump);
    let outcome = edit(&file, &options(), |editor| editor.remove(&path("/etc"), true));
    assert!(matches!(outcome, Err(EditError::Image(ImageError::Occupied { .. }))), "{outcome:?}");
    assert_eq!(fs::read(&file).unwrap(), dump);
}

#[test]
fn space_to_be_fixed_up_is_left_for_the_first_mount() {
    let (folder, file) = folder(&image(Recipe { space_fixup: true, ..Recipe::default() }));
    let source = folder.path().join("new");
    fs::write(&source, noise(8, 20_000)).unwrap();
    for name in ["/one", "/two"] {
        let to = path(name);
        edit(&file, &options(), |editor| {
            editor.put(std::slice::from_ref(&source), &to, PutOptions::default())
        })
        .unwrap();
    }
    let bytes = fs::read(&file).unwrap();
    let flash = StoreFlash::new(bytes, geometry(), StoreMode::WriteThrough);
    let ubi = Ubi::attach(flash, &AttachOptions::default()).map_err(|refused| refused.fault).unwrap();
    let mut volume = ubi.open_volume(0).map_err(|(error, _)| error).unwrap();
    assert!(asks_for_fixup(&mut volume), "the flag stays");
    // The first mount erases all space that it treats as free.
    let mounted = Ubifs::mount(volume, &ubifs::MountOptions::default(), Behaviour::default());
    let mut fs = mounted.map_err(|(error, _)| error).unwrap();
    for (name, seed, len) in [("/one", 8, 20_000), ("/two", 8, 20_000), ("/data", 1, 100_000)] {
        let inode = fs.resolve(name.as_bytes()).unwrap();
        let mut bytes = vec![0; len];
        fs.read(inode, 0, &mut bytes).unwrap();
        assert_eq!(bytes, noise(seed, len), "{name}");
    }
    assert!(fs.check().unwrap().is_empty());
    let mut volume = fs.unmount().map_err(|(error, _)| error).unwrap();
    assert!(!asks_for_fixup(&mut volume), "once");
}

/// True if the flag is set in the superblock.
fn asks_for_fixup(volume: &mut dyn floatgate_stack::Volume) -> bool {
    let mut bytes = [0; 4096];
    volume.read(0, 0, &mut bytes).unwrap();
    bytes[28] & 4 != 0
}

/// Store that accepts a number of writes, and then no more.
struct Stopping {
    bytes: Vec<u8>,
    left: usize,
}

impl Store for Stopping {
    fn size_bytes(&self) -> u64 {
        self.bytes.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.bytes.read_at(offset, buf)
    }
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if self.left == 0 {
            return Err(StoreError { action: "writing", offset, reason: "stopped".into() });
        }
        self.left -= 1;
        self.bytes.write_at(offset, data)
    }
}

#[test]
fn who_stops_half_way_leaves_an_image_to_recover() {
    let old = image(Recipe::default());
    let (folder, file) = folder(&old);
    let source = folder.path().join("new");
    fs::write(&source, noise(9, 30_000)).unwrap();
    let mut session = Session::open(&file, &options()).unwrap();
    Editor::new(session.fs()).put(std::slice::from_ref(&source), &path("/"), PutOptions::default()).unwrap();
    let pending = session.end_mount().unwrap().pending;
    let mut stops = 0;
    loop {
        let mut store = Stopping { bytes: old.clone(), left: stops };
        let ended = pending.write_to(&mut store, u64::MAX).is_ok();
        fs::write(folder.path().join("stopped"), &store.bytes).unwrap();
        let stopped = folder.path().join("stopped");
        edit(&stopped, &EditOptions { recover: true, ..options() }, |editor| {
            editor.make_dir(&path("/after"), false, 0o755, Owner::default())
        })
        .unwrap_or_else(|error| panic!("stopped after {stops} writes: {error}"));
        let mut fs = mount(&stopped);
        assert_eq!(fs.check().unwrap(), [""; 0], "stopped after {stops} writes");
        assert_eq!(read(&mut fs, "/data").unwrap(), noise(1, 100_000), "stopped after {stops} writes");
        assert!(!ended || read(&mut fs, "/new").unwrap() == noise(9, 30_000));
        if ended {
            break;
        }
        stops += 1;
    }
    assert!(stops > 20, "{stops} writes");
}

/// Image in pages of 512 bytes with 16 bytes of OOB, with Linux's default ECC, from an offset on.
fn with_oob(image: &[u8]) -> Vec<u8> {
    let geometry = PageGeometry::new(512, 16, Some(32)).unwrap();
    let scheme = Scheme::linux(geometry, Code::Hamming { step_bytes: 256 }).unwrap();
    let mut out = Vec::new();
    ecc::encode(&scheme, ecc::Form::WithOob, &mut &image[..], &mut out, &mut |_| {}).unwrap();
    out
}

#[test]
fn dumps_with_oob_are_changed_with_their_ecc() {
    let image = image(Recipe::default());
    let mut old = with_oob(&image);
    // A bitflip that the ECC corrects, and a bad block among the free ones.
    old[40 * 528 + 100] ^= 8;
    let bad = image.chunks(PEB).rposition(|peb| peb[512..516] != *b"UBI!").unwrap();
    let block = 32 * 528;
    old[bad * block..(bad + 1) * block].fill(0);
    let (folder, file) = folder(&old);
    let source = folder.path().join("new");
    fs::write(&source, noise(10, 60_000)).unwrap();
    edit(&file, &options(), |editor| {
        editor.put(std::slice::from_ref(&source), &path("/"), PutOptions::default())
    })
    .unwrap();
    let new = fs::read(&file).unwrap();
    assert_eq!(new.len(), old.len());
    assert_eq!(new[bad * block..(bad + 1) * block], old[bad * block..(bad + 1) * block], "the bad block");
    let image = Image::open(&file, Access::Read).unwrap();
    let report = image.corrected.as_ref().unwrap().reports().next().unwrap();
    assert_eq!((report.steps.uncorrectable, report.scheme.code.as_str()), (0, "hamming/256"));
    let mut fs = mount(&file);
    assert_eq!(read(&mut fs, "/new").unwrap(), noise(10, 60_000));
    assert_eq!(read(&mut fs, "/data").unwrap(), noise(1, 100_000));
    assert!(fs.check().unwrap().is_empty());
}

#[test]
fn dumps_with_more_wrong_bits_than_the_ecc_corrects_are_refused() {
    let mut old = with_oob(&image(Recipe::default()));
    // Two bitflips in a header among the others.
    let header = 40 * 32 * 528;
    old[header + 10] ^= 1;
    old[header + 77] ^= 2;
    let (_folder, file) = folder(&old);
    let outcome = edit(&file, &options(), |editor| editor.remove(&path("/etc"), true));
    assert!(matches!(outcome, Err(EditError::Image(ImageError::OobDamaged(_)))), "{outcome:?}");
    assert_eq!(fs::read(&file).unwrap(), old);
}

#[test]
fn what_looks_like_a_bad_block_is_left_alone() {
    let mut old = image(Recipe::default());
    let free: Vec<usize> =
        (0..PEBS).filter(|pnum| old[pnum * PEB + 512..pnum * PEB + 516] != *b"UBI!").collect();
    let bad = &free[..2];
    bad.iter().for_each(|pnum| old[pnum * PEB..(pnum + 1) * PEB].fill(0xFF));
    let (folder, file) = folder(&old);
    let source = folder.path().join("new");
    fs::write(&source, noise(11, 100_000)).unwrap();
    edit(&file, &options(), |editor| {
        editor.put(std::slice::from_ref(&source), &path("/"), PutOptions::default())
    })
    .unwrap();
    let new = fs::read(&file).unwrap();
    for pnum in bad {
        assert!(new[pnum * PEB..(pnum + 1) * PEB].iter().all(|&byte| byte == 0xFF), "PEB {pnum}");
    }
    assert_eq!(read(&mut mount(&file), "/new").unwrap(), noise(11, 100_000));
}

/// Image as mkfs.ubifs and ubinize create it: the filesystem ends after its data, too early for a mount for writing.
fn minimal() -> (Vec<u8>, Vec<u8>) {
    let volume = BareVolume::new(Vec::new(), VOLUME);
    let options = FormatOptions { deferred: true, max_lebs: Some(70), ..FormatOptions::default() };
    let mut fs = Ubifs::format(volume, &options, Behaviour::default()).map_err(|(error, _)| error).unwrap();
    let file = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
    let root = fs.root();
    let file = fs.create(root, b"data", &file).unwrap();
    fs.write(file, 0, &noise(1, 100_000)).unwrap();
    let bare = fs.unmount().map_err(|(error, _)| error).unwrap().into_store();
    let lebs = bare.len().div_ceil(LEB) as u32;
    let image = enclosed(&bare, lebs, VolumeFlags::AUTORESIZE);
    (bare, image)
}

/// Size of a LEB, bytes.
const LEB: usize = PEB - 1024;

/// Volume on this flash.
const VOLUME: floatgate_stack::VolumeGeometry = floatgate_stack::VolumeGeometry {
    lebs: 70,
    leb_bytes: LEB as u32,
    min_io_bytes: 512,
    max_write_bytes: 512,
    leb_start: 0,
    read_only: false,
};

/// UBI device with a volume of this number of LEBs, as short as ubinize creates it.
fn enclosed(bare: &[u8], lebs: u32, flags: VolumeFlags) -> Vec<u8> {
    let flash = StoreFlash::new(Vec::new(), geometry_of(lebs + 4), StoreMode::WriteThrough);
    let (flash, _) = Ubi::format(flash, &UbiFormat::default()).map_err(|(error, _)| error).unwrap();
    let mut ubi = Ubi::attach(flash, &exact()).map_err(|refused| refused.fault).unwrap();
    let id = ubi.create_volume(&NewVolume { flags, ..NewVolume::dynamic("rootfs", lebs) }).unwrap();
    for (lnum, bytes) in (0..).zip(bare.chunks(LEB)) {
        let end =
            bytes.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| (last + 1).next_multiple_of(512));
        if end > 0 {
            ubi.write_leb(id, lnum, 0, &bytes[..end]).unwrap();
        }
    }
    let (flash, _) = ubi.detach().map_err(|(error, _)| error).unwrap();
    let mut image = flash.into_store();
    let end = image.chunks(PEB).rposition(|peb| peb.get(512..516) == Some(b"UBI!")).unwrap() + 1;
    image.resize(end * PEB, 0xFF);
    image
}

/// Options of an attach as in Linux without a reserve for bad blocks, except that no volume grows.
fn exact() -> AttachOptions {
    AttachOptions { max_bad_per_1024: 0, autoresize: false, ..AttachOptions::default() }
}

/// Filesystem with the smallest number of LEBs for a file of this size and one of 8 bytes; no space remains.
fn dense(bytes: usize) -> (Vec<u8>, u32) {
    dense_of(&[("data".into(), noise(1, bytes)), ("small".into(), b"12345678".to_vec())])
}

/// Filesystem with the smallest number of LEBs for these files.
fn dense_of(files: &[(String, Vec<u8>)]) -> (Vec<u8>, u32) {
    (17..).find_map(|lebs| dense_in(lebs, files).map(|bare| (bare, lebs))).unwrap()
}

fn dense_in(lebs: u32, files: &[(String, Vec<u8>)]) -> Option<Vec<u8>> {
    let geometry = floatgate_stack::VolumeGeometry { lebs, ..VOLUME };
    let options =
        FormatOptions { deferred: true, log_lebs: Some(3), max_lebs: Some(lebs), ..FormatOptions::default() };
    let mut fs = Ubifs::format(BareVolume::new(Vec::new(), geometry), &options, Behaviour::default()).ok()?;
    let new = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
    for (name, data) in files {
        let root = fs.root();
        let file = fs.create(root, name.as_bytes(), &new).ok()?;
        fs.write(file, 0, data).ok()?;
    }
    Some(fs.unmount().ok()?.into_store())
}

/// If files are added one by one until an image is full, the last byte used, each file can still be removed.
#[test]
fn an_image_that_was_filled_can_be_emptied() {
    let (folder, file) = folder(&image(Recipe::default()));
    let source = folder.path().join("new");
    let mut names = vec!["/data".to_owned()];
    for (kind, len) in [60_000, 1500, 1000, 0].into_iter().enumerate() {
        fs::write(&source, noise(kind as u64, len)).unwrap();
        for n in 0.. {
            assert!(n < 2000, "the image never becomes full");
            let name = format!("/f{kind}-{n}");
            let put = edit(&file, &options(), |editor| {
                editor.put(std::slice::from_ref(&source), &path(&name), PutOptions::default())
            });
            match put {
                Ok(_) => names.push(name),
                Err(error) => {
                    assert!(error.wants_room(), "{name}: {error}");
                    break;
                }
            }
        }
    }
    for name in &names {
        edit(&file, &options(), |editor| editor.remove(&path(name), false))
            .unwrap_or_else(|error| panic!("{name} of {}: {error}", names.len()));
    }
    assert_eq!(mount(&file).check().unwrap(), [""; 0]);
}

/// All eraseblocks contain garbage, and almost none is empty. Small files still fit, because garbage collection frees
/// more space than the index of the moved nodes takes. This case was seen with an image written by Linux.
#[test]
fn an_image_full_of_garbage_takes_small_files() {
    let (folder, file) = folder(&image(Recipe::default()));
    let source = folder.path().join("new");
    fs::write(&source, b"ten bytes!").unwrap();
    let new = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
    for round in 0..40_u64 {
        let image = Image::open(&file, Access::Write).unwrap();
        let mut filesystem = image.mount(&Selection::default(), true, Behaviour::default()).unwrap();
        let root = filesystem.root();
        for n in 0..60_u64 {
            let name = format!("old-{}", (n * 7 + round) % 150);
            let inode = filesystem.lookup(root, name.as_bytes());
            let inode = inode.or_else(|_| filesystem.create(root, name.as_bytes(), &new)).unwrap();
            filesystem.write(inode, 0, &noise(round * 100 + n, 1500)).unwrap();
            filesystem.fsync(inode).unwrap();
        }
        let space = filesystem.space();
        filesystem.unmount().unwrap();
        if space.available_blocks > space.blocks / 4 {
            let copy = folder.path().join("copy");
            fs::copy(&file, &copy).unwrap();
            edit(&copy, &options(), |editor| {
                editor.put(std::slice::from_ref(&source), &path("/small"), PutOptions::default())
            })
            .unwrap_or_else(|error| panic!("round {round}, {space:?}: {error}"));
            assert_eq!(mount(&copy).check().unwrap(), [""; 0]);
        }
    }
}

/// Files that are added one by one fill an image as far as files that are added together.
#[test]
fn files_put_one_by_one_take_no_more_room() {
    let (folder, file) = folder(&image(Recipe::default()));
    let source = folder.path().join("new");
    fs::write(&source, noise(1, 20_000)).unwrap();
    let put = |file: &Path, names: &[String]| {
        edit(file, &options(), |editor| {
            names.iter().try_for_each(|name| {
                editor.put(std::slice::from_ref(&source), &path(name), PutOptions::default()).map(drop)
            })
        })
    };
    let names = |count: usize| (0..count).map(|n| format!("/one-{n}")).collect::<Vec<_>>();
    let together = folder.path().join("together");
    let fits = |count: &usize| {
        fs::copy(&file, &together).unwrap();
        put(&together, &names(*count)).is_ok()
    };
    let most = (1..200).take_while(fits).last().unwrap();
    let one_by_one = names(most).iter().take_while(|name| put(&file, &[(*name).clone()]).is_ok()).count();
    assert!(one_by_one * 10 >= most * 9, "{one_by_one} of {most}");
}

/// Each removal gets space for the index by garbage collection, in a changed image and in a mounted one.
#[test]
fn a_filesystem_without_slack_can_be_emptied() {
    for len in [700, 5000] {
        let files: Vec<_> =
            (0..300_000 / (len + 300)).map(|n| (format!("f{n}"), noise(n as u64, len))).collect();
        let (bare, _) = dense_of(&files);
        let (_folder, file) = folder(&bare);
        for (name, _) in &files {
            edit(&file, &options(), |editor| editor.remove(&path(name), false))
                .unwrap_or_else(|error| panic!("files of {len} bytes, {name}: {error}"));
        }
        assert_eq!(fs::read(&file).unwrap().len(), bare.len());
        let mut fs = mount(&file);
        assert_eq!(fs.check().unwrap(), [""; 0]);
        drop(fs);

        let geometry = floatgate_stack::VolumeGeometry { lebs: (bare.len() / LEB) as u32, ..VOLUME };
        let volume = BareVolume::new(bare, geometry);
        let mounted = Ubifs::mount(volume, &ubifs::MountOptions::default(), Behaviour::default());
        let mut fs = mounted.map_err(|(error, _)| error).unwrap();
        for (name, _) in &files {
            let root = fs.root();
            let removed = fs.unlink(root, name.as_bytes());
            removed.unwrap_or_else(|error| panic!("mounted, files of {len} bytes, {name}: {error}"));
        }
        fs.sync().unwrap();
        assert_eq!(fs.check().unwrap(), [""; 0]);
    }
}

/// The sizes of the volume and of the file do not change, with and without the flag for all free space, and at each
/// fill level of the last LEBs.
#[test]
fn eight_bytes_replace_eight_in_an_image_without_slack() {
    let (mut changed, mut all) = (0, 0);
    for more in 0..16 {
        let (bare, lebs) = dense(150_000 + more * 1000);
        for flags in [VolumeFlags::default(), VolumeFlags::AUTORESIZE] {
            let old = enclosed(&bare, lebs, flags);
            let (folder, file) = folder(&old);
            let source = folder.path().join("small");
            fs::write(&source, "abcdefgh").unwrap();
            let put = |editor: &mut Editor<'_>| {
                editor.put(std::slice::from_ref(&source), &path("/"), PutOptions::default())
            };
            all += 1;
            match edit(&file, &options(), put) {
                Ok(committed) => {
                    changed += 1;
                    assert_eq!(committed.grown, [], "{more}");
                }
                Err(error) => {
                    assert!(error.wants_room(), "{more}: {error}");
                    assert!(fs::read(&file).unwrap() == old, "{more}: a change that failed changes nothing");
                    continue;
                }
            }
            let new = fs::read(&file).unwrap();
            assert_eq!((new.len(), table(&new)), (old.len(), table(&old)), "{more}");
            let mut fs = mount(&file);
            assert_eq!(read(&mut fs, "/small").unwrap(), b"abcdefgh");
            assert!(read(&mut fs, "/data").unwrap() == noise(1, 150_000 + more * 1000));
            assert_eq!(fs.check().unwrap(), [""; 0]);
            drop(fs);
            attaches_to_exactly(&new, lebs);
        }
    }
    println!("{changed} of {all} changed");
    assert!(changed * 4 >= all * 3, "{changed} of {all}");
}

/// A flash as small as a volume of this number of LEBs allows can attach the image, and its filesystem can be
/// written.
fn attaches_to_exactly(image: &[u8], lebs: u32) {
    let flash = StoreFlash::new(image.to_vec(), geometry_of(lebs + 4), StoreMode::WriteThrough);
    let options = AttachOptions { autoresize: true, ..exact() };
    let ubi = Ubi::attach(flash, &options).map_err(|refused| refused.fault).unwrap();
    assert_eq!(ubi.volume(0).unwrap().reserved_lebs, lebs);
    let volume = ubi.open_volume(0).map_err(|(error, _)| error).unwrap();
    let mounted = Ubifs::mount(volume, &ubifs::MountOptions::default(), Behaviour::default());
    let mut fs = mounted.map_err(|(error, _)| error).unwrap();
    let root = fs.root();
    fs.unlink(root, b"small").unwrap();
    fs.unmount().map_err(|(error, _)| error).unwrap();
}

#[test]
fn a_volume_grows_to_what_is_asked_for() {
    let (_, old) = minimal();
    let (_folder, file) = folder(&old);
    let grown = |lebs| EditOptions { growth: GrowTo::Lebs(lebs), ..options() };
    let make = |editor: &mut Editor<'_>| editor.make_dir(&path("/new"), false, 0o755, Owner::default());
    for lebs in [5, 71] {
        let outcome = edit(&file, &grown(lebs), make);
        assert!(matches!(outcome, Err(EditError::Lebs { most: 70, .. })), "{outcome:?}");
    }
    let committed = edit(&file, &grown(66), make).unwrap();
    assert!(committed.grown.iter().any(|grown| (grown.what, grown.to) == ("volume", 66)), "{committed:?}");
    let bytes = fs::read(&file).unwrap();
    let flash = StoreFlash::new(bytes, geometry_of(70), StoreMode::WriteThrough);
    let ubi = Ubi::attach(flash, &exact()).map_err(|refused| refused.fault).unwrap();
    assert_eq!(ubi.volume(0).unwrap().reserved_lebs, 66);
}

fn geometry_of(pebs: u32) -> Geometry {
    flash_geometry(&SHAPE, u64::from(pebs) * PEB as u64)
}

#[test]
fn images_as_small_as_what_is_in_them_grow_as_far_as_they_must() {
    let (bare, ubi) = minimal();
    for (old, limit) in [(bare, 70 * (PEB - 1024)), (ubi, 74 * PEB)] {
        let (folder, file) = folder(&old);
        let refused = Session::open(&file, &options()).map(drop);
        let is_told = matches!(refused, Ok(()) | Err(EditError::TooSmall { .. }));
        assert!(is_told, "{refused:?}");
        let options = || EditOptions { growth: GrowTo::Needed, ..options() };
        let source = folder.path().join("new");
        fs::write(&source, noise(12, 150_000)).unwrap();
        edit(&file, &options(), |editor| {
            editor.put(std::slice::from_ref(&source), &path("/"), PutOptions::default())
        })
        .unwrap_or_else(|error| panic!("{error}, at first {refused:?}"));
        let len = fs::read(&file).unwrap().len();
        assert!(len < old.len() + 25 * PEB, "{} and now {len}", old.len());
        assert!(len.is_multiple_of(PEB) || len.is_multiple_of(PEB - 1024), "whole eraseblocks");
        let mut fs = mount(&file);
        assert_eq!(read(&mut fs, "/new").unwrap(), noise(12, 150_000));
        assert_eq!(read(&mut fs, "/data").unwrap(), noise(1, 100_000));
        drop(fs);
        fs::write(&source, noise(13, 1 << 20)).unwrap();
        let before = fs::read(&file).unwrap();
        let outcome = edit(&file, &options(), |editor| {
            editor.put(std::slice::from_ref(&source), &path("/"), PutOptions::default())
        });
        assert!(
            matches!(&outcome, Err(EditError::Largest { error, .. }) if matches!(**error, EditError::Full)),
            "{outcome:?}"
        );
        assert!(fs::read(&file).unwrap() == before && before.len() < limit);
    }
}
