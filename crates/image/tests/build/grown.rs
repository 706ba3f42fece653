//! Images for volumes that grow when UBI first attaches them, as `mkfs.ubifs` and `ubinize` make them; and how files go back to flash.

use super::support::{from_tar, options};
use floatgate_image::build::Container;
use floatgate_image::edit::{EditError, EditOptions, GrowTo, ImagePath, Owner, TooSmall, edit};
use floatgate_image::fuzzing::mend;
use floatgate_image::write_back::WriteBack;
use floatgate_image::{Access, Image};
use floatgate_mtd::advice::Help as _;
use floatgate_stack::fs::Compression;
use std::path::Path;

const JOURNAL: u64 = 8 << 20;

/// Bytes of a superblock node: magic number, and its type behind CRC, sequence number and length.
fn is_superblock(node: &[u8]) -> bool {
    node.starts_with(&0x0610_1831_u32.to_le_bytes()) && node.get(20) == Some(&6)
}

/// An image that was never attached. Its filesystem has the journal of a volume of 200 LEBs, as `mkfs.ubifs -c 200 -j 8MiB` makes it.
fn never_attached(path: &Path) {
    let mut options = options(Compression::Lzo);
    options.container = Container::Ubi { name: "rootfs".to_owned(), autoresize: true, image_seq: None };
    options.format.max_lebs = Some(200);
    let mut image = from_tar(&[0; 1024], &options).unwrap().bytes();
    let at = (0..image.len()).step_by(2048).find(|&at| is_superblock(&image[at..])).unwrap();
    image[at + 48..at + 56].copy_from_slice(&JOURNAL.to_le_bytes());
    mend(&mut image);
    std::fs::write(path, image).unwrap();
}

#[test]
fn a_volume_that_was_never_attached_tells_how_far_it_must_grow() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image.ubi");
    never_attached(&file);
    let before = std::fs::read(&file).unwrap();
    let make = |growth| {
        let options = EditOptions { growth, ..EditOptions::default() };
        edit(&file, &options, &|editor| {
            editor.make_dir(&ImagePath::new("/new").unwrap(), false, 0o755, Owner::default())
        })
    };
    let error = make(GrowTo::Keep).unwrap_err();
    let EditError::TooSmall { why: TooSmall::Journal(JOURNAL), growth: Some(growth) } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        error.to_string(),
        "no space for a change: the journal of 8 MiB is larger than the filesystem: it was made for a larger volume; UBI enlarges it when it first attaches the image, which has not happened yet"
    );
    let (pebs, peb_bytes) = growth.partition.unwrap();
    assert_eq!((pebs, peb_bytes), (growth.lebs + 4, 128 << 10));
    let help = error.help().to_string();
    assert!(help.contains(&format!("--grow enlarges the volume to {} LEBs", growth.lebs)), "{help}");
    assert!(help.contains(&format!("at least {pebs} PEBs (")), "{help}");
    assert!(std::fs::read(&file).unwrap() == before, "the image is as it was");
    let (committed, _) = make(GrowTo::Needed).unwrap();
    let grown = committed.grown.iter().find(|grown| grown.what == "volume").unwrap();
    assert_eq!(grown.to, growth.lebs, "what is told is what --grow does");
    assert_eq!(committed.write_back, WriteBack::Ubi { vid_header_offset: 2048 });
}

#[test]
fn each_kind_of_image_has_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image");
    let kind = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        WriteBack::of(&Image::open(&file, Access::Read).unwrap())
    };
    let built = |container, page_bytes: u32| {
        let mut options = options(Compression::Zlib);
        (options.container, options.shape.page_bytes) = (container, page_bytes);
        let image = from_tar(&[0; 1024], &options).unwrap().bytes();
        (WriteBack::of_built(&options).unwrap(), image)
    };
    let ubi = Container::Ubi { name: "rootfs".to_owned(), autoresize: false, image_seq: None };
    let (of_built, image) = built(ubi, 2048);
    assert_eq!((of_built, kind(&image)), (WriteBack::Ubi { vid_header_offset: 2048 }, of_built));
    let behind = [&[0xFF; 128 << 10], &image[..]].concat();
    assert_eq!(kind(&behind), WriteBack::Mixed);
    let (of_built, image) = built(Container::None, 2048);
    assert_eq!((of_built, kind(&image)), (WriteBack::Ubifs, WriteBack::Ubifs));
    let jffs2 = include_bytes!("../golden/jffs2/little.jffs2");
    assert_eq!(kind(jffs2), WriteBack::Jffs2OnNor);

    let line = |kind: WriteBack| kind.line(Path::new("image.bin"));
    assert_eq!(
        line(WriteBack::Ubi { vid_header_offset: 512 }),
        "to write it back: `ubiformat /dev/mtdN -O 512 -f image.bin` (docs/write-back.md)"
    );
    assert!(line(WriteBack::Jffs2OnNand).contains("nandwrite -p /dev/mtdN image.bin"));
    assert!(line(WriteBack::WithOob).contains("nandwrite -n -o /dev/mtdN image.bin"));
}
