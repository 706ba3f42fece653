//! Images that are built.

use std::fs;

use floatgate_image::build::{
    BuildError, BuildOptions, Built, Container, FlashShape, Jffs2Options, Overrides, Source, build,
};
use floatgate_image::diff::{DiffError, diff_raw};
use floatgate_image::help::Help as _;
use floatgate_image::{ImageError, Selection};
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::FormatOptions;

use super::edited::noise;
use super::{IMAGES, open};

const ERASE: u64 = 64 << 10;

fn options(compression: Compression, pad_bytes: Option<u64>) -> BuildOptions {
    BuildOptions {
        shape: FlashShape {
            page_bytes: 1,
            sub_page_bytes: 1,
            peb_bytes: 64 << 10,
            vid_header_offset: None,
            pebs: None,
        },
        container: Container::Jffs2(Jffs2Options { pad_bytes, ..Jffs2Options::default() }),
        format: FormatOptions { compression, ..FormatOptions::default() },
        uuid: None,
        volume_bytes: None,
        overrides: Overrides::default(),
        device_table: None,
    }
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
        assert!(error.help().contains("with room for the image"), "{}", error.help());
    }
}
