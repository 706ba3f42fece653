//! Images that are built.

use std::fs;

use floatgate_image::build::{
    BuildError, BuildOptions, Built, Container, FlashShape, Jffs2Options, Overrides, Source, build,
};
use floatgate_image::check::{Outcome, check};
use floatgate_image::detect::Content;
use floatgate_image::diff::{DiffError, diff_raw};
use floatgate_image::edit::{EditError, EditOptions, GrowTo, ImagePath, Owner, PutOptions, edit};
use floatgate_image::repair::{Repaired, repair};
use floatgate_image::{Access, Image, ImageError, Selection};
use floatgate_media::jffs2::Endian;
use floatgate_mtd::advice::Help as _;
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::{Behaviour, FormatOptions};

use super::edited::{self, KINDS, filled_flash, image, noise, put_in};
use super::repaired::repaired;
use super::{IMAGES, open};

const ERASE: u64 = 64 << 10;

fn options(compression: Compression, pad_bytes: Option<u64>) -> BuildOptions {
    BuildOptions {
        shape: FlashShape {
            page_bytes: 1,
            sub_page_bytes: 1,
            peb_bytes: 64 << 10,
            vid_header_offset: None,
            size: None,
        },
        container: Container::Jffs2(Jffs2Options { pad_bytes, ..Jffs2Options::default() }),
        format: FormatOptions { compression, ..FormatOptions::default() },
        uuid: None,
        volume_bytes: None,
        overrides: Overrides::default(),
        device_table: None,
    }
}

/// Options for an image of a byte order.
pub(crate) fn options_of(endian: Endian, overrides: Overrides) -> BuildOptions {
    let jffs2 = Jffs2Options { big_endian: endian == Endian::Big, ..Jffs2Options::default() };
    BuildOptions { container: Container::Jffs2(jffs2), overrides, ..options(Compression::Zlib, None) }
}

fn built(source: &Source, options: &BuildOptions) -> Result<Built, BuildError> {
    build(source, tempfile::tempfile().unwrap(), options)
}

/// Erased flash is a JFFS2 without files, a file of no bytes is none.
#[test]
fn a_tar_without_entries_becomes_erased_flash() {
    let folder = tempfile::tempdir().unwrap();
    let tar = folder.path().join("tar");
    fs::write(&tar, [0; 1024]).unwrap();
    let built = built(&Source::Tar(tar), &options(Compression::Zlib, None)).unwrap();
    assert_eq!((built.entries, built.image_bytes, built.lebs), (0, ERASE, 1));
}

#[test]
fn what_is_larger_than_its_partition_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), noise(1, 200_000)).unwrap();
    let source = Source::Directory(folder.path().to_owned());
    let small = built(&source, &options(Compression::Zlib, Some(2 * ERASE)));
    assert!(
        matches!(small, Err(BuildError::PadTooSmall { image, pad }) if image > 200_000 && pad == 2 * ERASE),
        "{small:?}"
    );
    let large = built(&source, &options(Compression::Zlib, Some(8 * ERASE - 5))).unwrap();
    assert_eq!(large.image_bytes, 8 * ERASE);
    let other = built(&source, &options(Compression::Zstd, None));
    assert!(matches!(other, Err(BuildError::Compressor)), "{other:?}");
}

#[test]
fn there_is_no_ubi_to_compare() {
    let image = open(IMAGES[0].1).unwrap();
    let selection = Selection::default();
    let refused = diff_raw([(&image, &selection), (&image, &selection)]);
    assert!(matches!(refused, Err(DiffError::First(ImageError::NotForJffs2(_)))), "{refused:?}");
}

/// The host's words, and not those of a filesystem whose flash does not answer.
#[test]
fn a_full_disk_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), noise(1, 200_000)).unwrap();
    let source = Source::Directory(folder.path().to_owned());
    let name = "rootfs".to_owned();
    let ubi = Container::Ubi { name, autoresize: false, image_seq: None };
    for container in [Container::Jffs2(Jffs2Options::default()), Container::None, ubi] {
        let shape = FlashShape {
            page_bytes: 2048,
            sub_page_bytes: 2048,
            peb_bytes: 128 << 10,
            ..options(Compression::None, None).shape
        };
        let options = BuildOptions { container, shape, ..options(Compression::None, None) };
        let full = fs::File::options().read(true).write(true).open("/dev/full").unwrap();
        let error = build(&source, full, &options).unwrap_err();
        assert!(matches!(error, BuildError::Image(ImageError::Store(_))), "{error:?}");
        assert!(error.to_string().contains("No space left on device"), "{error}");
        assert!(error.help().to_string().contains("with room for the image"), "{}", error.help());
    }
}

/// An image of one file of `bytes` bytes.
fn made(options: &BuildOptions, bytes: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), noise(1, bytes)).unwrap();
    let image = folder.path().join("image");
    let out = fs::File::options().read(true).write(true).create_new(true).open(&image).unwrap();
    build(&Source::Directory(folder.path().to_owned()), out, options).unwrap();
    fs::read(image).unwrap()
}

/// An image of one file of `bytes` bytes that is made for eraseblocks of `erase` bytes.
fn made_for(erase: u32, bytes: usize, pads: bool) -> Vec<u8> {
    let pad_bytes = pads.then_some(u64::from(erase));
    let mut options = options(Compression::None, pad_bytes);
    options.shape.peb_bytes = erase;
    let bytes = made(&options, bytes);
    let end = bytes.iter().rposition(|&byte| byte != 0xFF).unwrap() + 1;
    if pads { bytes } else { bytes[..end].to_vec() }
}

fn shape(bytes: &[u8], stated: Option<u32>) -> Result<(u32, bool), ImageError> {
    let image = Image::from_stream(&mut &*bytes, stated)?;
    let Content::Jffs2(shape) = image.found[0].content else { panic!("{:?}", image.found) };
    Ok((shape.erase_bytes, shape.erase_is_guess))
}

/// A size of eraseblocks that no node tells is a guess, until it is stated.
#[test]
fn the_size_of_eraseblocks_is_told_guessed_or_stated() {
    const KIB: u32 = 1 << 10;
    for erase in [64 * KIB, 128 * KIB, 256 * KIB] {
        let short = made_for(erase, 9000, false);
        assert_eq!(shape(&short, None).unwrap(), (64 * KIB, true), "{erase}");
        assert_eq!(shape(&short, Some(erase)).unwrap(), (erase, false));
        // Linux mounts no JFFS2 of two or four eraseblocks: the image ends with its first.
        assert_eq!(shape(&made_for(erase, 9000, true), None).unwrap(), (erase, true));
        let long = made_for(erase, 3 * erase as usize, false);
        assert_eq!(shape(&long, None).unwrap(), (erase, false));
        let marked = shape(&long, Some(2 * erase)).unwrap_err();
        assert!(marked.to_string().contains("the clean marker at byte"), "no node crosses these: {marked}");
        for wrong in [0, 1, 4095, erase / 2, erase + 4, u32::MAX] {
            let error = shape(&long, Some(wrong)).unwrap_err();
            assert!(matches!(error, ImageError::PebSize { .. }), "{erase} {wrong}: {error}");
            assert!(error.help().to_string().contains("--peb-size"), "{}", error.help());
        }
    }
}

/// A change would make the guess a fact for all that follows.
#[test]
fn a_change_of_an_image_that_does_not_tell_its_eraseblocks_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let mut nand = options(Compression::None, Some(ERASE));
    nand.shape.page_bytes = 2048;
    for bytes in [made_for(64 << 10, 9000, true), made(&nand, 9000), made(&nand, 2000)] {
        fs::write(&image, &bytes).unwrap();
        let mkdir = |peb_bytes| {
            let selection = Selection { peb_bytes, ..Selection::default() };
            let options = EditOptions { selection, growth: GrowTo::Needed, ..EditOptions::default() };
            let path = ImagePath::new("/new").unwrap();
            edit(&image, &options, &|editor| editor.make_dir(&path, false, 0o755, Owner::default()))
        };
        let error = mkdir(None).unwrap_err();
        let EditError::Image(ImageError::GuessedEraseblocks { guess, possible }) = &error else {
            panic!("{error}")
        };
        assert_eq!(*guess, 64 << 10);
        assert_eq!(possible.last(), Some(&(4 << 20)), "{possible:?}");
        let help = error.help().to_string();
        assert!(help.contains("--peb-size") && help.contains("131072"), "{help}");
        assert!(possible.contains(guess), "{possible:?}");
        let opened = Image::open(&image, Access::Write).unwrap();
        let refused = opened.mount(&Selection::default(), true, Behaviour::default()).map(drop);
        assert!(matches!(refused, Err(ImageError::GuessedEraseblocks { .. })), "{refused:?}");
        assert!(fs::read(&image).unwrap() == bytes);
        for size in possible {
            fs::write(&image, &bytes).unwrap();
            mkdir(Some(*size)).unwrap();
            assert_eq!(shape(&fs::read(&image).unwrap(), None).unwrap(), (*size, false));
        }
    }
}

/// The nodes that a repair adds to a small image may tell the size: who repairs it is told that this was a guess.
#[test]
fn a_repair_says_where_it_tells_a_guess() {
    for (name, whole) in IMAGES {
        for len in (4 << 10..whole.len()).step_by(333) {
            let name = format!("{name} {len}");
            let Ok((_, was_guess)) = shape(&whole[..len], None) else { continue };
            let (report, new) = repaired(&name, &whole[..len]).unwrap();
            let (size, is_guess) = shape(&new, None).unwrap();
            let tells = was_guess && !is_guess;
            assert_eq!(report.told_erase_bytes, tells.then_some(size), "{name}");
        }
    }
}

/// As those of `mkfs.jffs2 --pad` for NOR: clean markers begin the eraseblocks in which nothing is written.
#[test]
fn padding_on_nor_tells_the_size_of_eraseblocks() {
    for (erase, big_endian) in [(16 << 10, false), (64 << 10, true), (128 << 10, false)] {
        let mut options = options(Compression::None, Some(3 * u64::from(erase)));
        options.container = Container::Jffs2(Jffs2Options {
            big_endian,
            pad_bytes: Some(3 * u64::from(erase)),
            ..Jffs2Options::default()
        });
        options.shape.peb_bytes = erase;
        let bytes = made(&options, 9000);
        assert_eq!(bytes.len(), 3 * erase as usize);
        assert_eq!(shape(&bytes, None).unwrap(), (erase, false));
        let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
        assert_eq!((report.outcome, report.findings), (Outcome::Clean, Vec::new()));
    }
}

/// Files that are put into an image keep to the eraseblocks that were stated.
#[test]
fn changes_keep_to_the_stated_eraseblocks() {
    let folder = tempfile::tempdir().unwrap();
    let (image, new) = (folder.path().join("image"), folder.path().join("new"));
    let stated = Some(128 << 10);
    fs::write(&image, made_for(128 << 10, 9000, false)).unwrap();
    fs::write(&new, noise(2, 300_000)).unwrap();
    let options = EditOptions {
        selection: Selection { peb_bytes: stated, ..Selection::default() },
        growth: GrowTo::Needed,
        ..EditOptions::default()
    };
    edit(&image, &options, &|editor| {
        editor.put(std::slice::from_ref(&new), &ImagePath::new("/").unwrap(), PutOptions::default())
    })
    .unwrap();
    assert_eq!(shape(&fs::read(&image).unwrap(), None).unwrap(), (128 << 10, false));
    let out = folder.path().join("out");
    assert_eq!(repair(&image, &out, &options.selection).unwrap().outcome, Repaired::Intact);
    let wrong =
        repair(&image, &out, &Selection { peb_bytes: Some(64 << 10), ..Selection::default() }).unwrap_err();
    assert!(matches!(wrong, ImageError::PebSize { .. }), "{wrong}");
}

/// An eraseblock that a change has erased does not count as lost.
#[test]
fn changed_images_have_lost_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (files, image) = (folder.path().join("files"), folder.path().join("image"));
    fs::create_dir(&files).unwrap();
    fs::write(files.join("first"), "one").unwrap();
    fs::write(files.join("second"), noise(1, 20_000)).unwrap();
    let out = fs::File::options().read(true).write(true).create_new(true).open(&image).unwrap();
    build(&Source::Directory(files), out, &options(Compression::None, Some(8 * ERASE))).unwrap();
    for name in ["first", "third"] {
        let new = folder.path().join(name);
        fs::write(&new, "other").unwrap();
        edit(&image, &EditOptions::default(), &|editor| {
            editor.put(std::slice::from_ref(&new), &ImagePath::new("/").unwrap(), PutOptions::default())
        })
        .unwrap();
        let report = check(&open(&fs::read(&image).unwrap()).unwrap(), &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Clean, "{name}: {:?}", report.findings);
    }
}

/// A build and a change keep the rest, and list them.
#[test]
fn names_and_times_that_jffs2_does_not_have_are_losses() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let long = "n".repeat(255);
    let seconds = [("old", -10), ("new", 1_i64 << 33), (long.as_str(), 5), ("now", 1_700_000_000)];
    for (name, seconds) in seconds {
        let path = tree.join(name);
        fs::write(&path, "x").unwrap();
        let distance = std::time::Duration::from_secs(seconds.unsigned_abs());
        let epoch = std::time::SystemTime::UNIX_EPOCH;
        let time = if seconds < 0 { epoch - distance } else { epoch + distance };
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let image = folder.path().join("image");
    let out = fs::File::options().read(true).write(true).create_new(true).open(&image).unwrap();
    let options = options(Compression::Zlib, Some(10 * ERASE));
    let built = build(&Source::Directory(tree.clone()), out, &options).unwrap();
    let (_, put) = edit(&image, &EditOptions::default(), &|editor| {
        editor.put(std::slice::from_ref(&tree), &ImagePath::new("/").unwrap(), PutOptions::default())
    })
    .unwrap();
    for (losses, folder) in [(built.losses, ""), (put.losses, "/tree")] {
        let told = |name: &str, what: &str| {
            let path = format!("{folder}/{name}");
            losses.iter().any(|loss| loss.path == path && loss.what.contains(what))
        };
        assert!(told("old", "it is 0 now") && told("new", "it is 4294967295 now"), "{losses:?}");
        assert!(told(&long, "at most 254 bytes"), "{losses:?}");
        assert_eq!(losses.len(), 3, "{losses:?}");
    }
}

/// The nodes of another image in the file say nothing of it.
#[test]
fn a_stated_size_is_one_of_the_image_that_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both");
    let (small, large) = (edited::ERASE, 2 * edited::ERASE);
    let [little, big, ..] = KINDS;
    let mut bytes = image(little);
    let second = bytes.len() as u64;
    bytes.extend(filled_flash(big, (20, large), |fs| put_in(fs, 1, "data", &noise(3, 200_000))));
    fs::write(&path, bytes).unwrap();
    let open = |stated: usize| Image::open_sized(&path, Access::Read, Some(stated as u32));
    for (stated, chosen, other) in [(small, 0, second), (large, second, 0)] {
        let image = open(stated).unwrap();
        let at = |offset| image.choose(&Selection { offset: Some(offset), ..Selection::default() });
        assert_eq!(at(chosen).unwrap().offset, chosen);
        assert!(matches!(at(other), Err(ImageError::PebSize { .. })), "{stated}");
    }
    assert!(matches!(open(4 * small), Err(ImageError::PebSize { .. })));
}
