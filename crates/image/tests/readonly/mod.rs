//! Filesystems that are only read, as other people's tools make them.

mod flash;
mod foreign;

use std::collections::BTreeMap;
use std::path::Path;

use floatgate_image::extract::{DirectoryTarget, ExtractLimits, Extractions, extract_all};
use floatgate_image::info::info;
use floatgate_image::map::map;
use floatgate_image::{Access, Image, Selection};
use floatgate_stack::fs::{FileSystem, FileType};
use floatgate_stack::ubifs::Behaviour;

/// A format, its image, and whether it has links, owners and permissions.
type Sample = (&'static str, &'static [u8], bool);

const SAMPLES: [Sample; 8] = [
    ("SquashFS", include_bytes!("data/tree.squashfs.gz"), true),
    ("EROFS", include_bytes!("data/tree.erofs.gz"), true),
    ("ext", include_bytes!("data/tree.ext4.gz"), true),
    ("ext", include_bytes!("data/tree.ext2.gz"), true),
    ("FAT", include_bytes!("data/tree.fat.gz"), false),
    ("LittleFS", include_bytes!("data/tree.littlefs.gz"), false),
    ("SPIFFS", include_bytes!("data/tree.spiffs.gz"), false),
    ("YAFFS2", include_bytes!("data/tree.yaffs2.gz"), false),
];

/// Time of all files of the samples.
const TIME: i64 = 1_588_561_321;

pub(super) fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut out).unwrap();
    out
}

/// A file as a filesystem has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) file_type: FileType,
    pub(super) permissions: u32,
    pub(super) owner: (u32, u32),
    pub(super) links: u32,
    pub(super) mtime: i64,
    pub(super) data: Vec<u8>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

fn see(fs: &mut dyn FileSystem, directory: u32, path: &str, seen: &mut BTreeMap<String, Seen>) {
    for entry in fs.read_dir(directory, None, usize::MAX).unwrap() {
        let path = format!("{path}{}", String::from_utf8(entry.name).unwrap());
        let attributes = fs.attributes(entry.inode).unwrap();
        assert_eq!(attributes.file_type, entry.file_type);
        let data = match entry.file_type {
            FileType::Regular => {
                let mut data = vec![0; attributes.size as usize];
                assert_eq!(fs.read(entry.inode, 0, &mut data).unwrap(), data.len());
                data
            }
            FileType::Symlink => fs.read_link(entry.inode).unwrap(),
            _ => Vec::new(),
        };
        let names = fs.list_xattrs(entry.inode).unwrap();
        let xattrs = names.into_iter().map(|name| {
            let value = fs.get_xattr(entry.inode, &name).unwrap();
            (name, value)
        });
        let file = Seen {
            file_type: entry.file_type,
            permissions: attributes.mode & 0o7777,
            owner: (attributes.uid, attributes.gid),
            links: attributes.links,
            mtime: attributes.mtime.seconds,
            data,
            xattrs: xattrs.collect(),
        };
        seen.insert(path.clone(), file);
        if entry.file_type == FileType::Directory {
            see(fs, entry.inode, &format!("{path}/"), seen);
        }
    }
}

/// All files of the image in a file.
pub(super) fn tree(path: &Path) -> BTreeMap<String, Seen> {
    let image = Image::open(path, Access::Read).unwrap();
    let mut fs = image.mount(&Selection::default(), false, Behaviour::default()).unwrap();
    let (root, mut seen) = (fs.root(), BTreeMap::new());
    see(&mut *fs, root, "", &mut seen);
    seen
}

fn text() -> Vec<u8> {
    (0..1500).flat_map(|line| format!("line {line} of a text\n").into_bytes()).collect()
}

fn noise(len: usize) -> Vec<u8> {
    let states =
        std::iter::successors(Some(1_u64), |state| Some((state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF));
    states.skip(1).map(|state| (state >> 16) as u8).take(len).collect()
}

fn write(folder: &Path, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.join("image");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_tools_make_is_read_with_all_attributes() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, is_posix) in SAMPLES {
        let path = write(folder.path(), &unzipped(bytes));
        let seen = tree(&path);
        assert_eq!(seen["etc/hostname"].data, b"board\n", "{name}");
        assert_eq!(seen["bin/tool"].data, text(), "{name}");
        assert_eq!(seen["bin/noise"].data, noise(700), "{name}");
        assert_eq!(seen["nothing"].data, b"", "{name}");
        for number in 0..12 {
            let file = &seen[&format!("etc/a name of some length {number}")];
            assert_eq!(file.data, format!("{number}\n").into_bytes(), "{name}");
        }
        // SPIFFS has no directories, and so no empty ones.
        assert_eq!(seen.contains_key("empty"), name != "SPIFFS");
        if matches!(name, "FAT") {
            // Two seconds are one unit of FAT.
            assert_eq!(seen["bin/tool"].mtime, TIME - 1);
        }
        if is_posix {
            assert_posix(name, &seen);
        }
    }
}

fn assert_posix(name: &str, seen: &BTreeMap<String, Seen>) {
    let tool = &seen["bin/tool"];
    assert_eq!((tool.permissions, tool.owner, tool.links), (0o755, (1000, 100), 2), "{name}");
    assert_eq!(tool, &seen["bin/alias"], "{name}");
    assert_eq!(seen["etc/name"].data, b"hostname", "{name}");
    assert_eq!(seen["pipe"].file_type, FileType::Fifo, "{name}");
    let mut sparse = vec![0; 70_000];
    sparse.extend_from_slice(b"end\n");
    assert_eq!(seen["sparse"].data, sparse, "{name}");
    assert!(seen.iter().all(|(path, file)| path == "lost+found" || file.mtime == TIME), "{name}: {seen:?}");
    assert_eq!(seen["etc/hostname"].xattrs, [(b"user.origin".to_vec(), b"factory".to_vec())], "{name}");
}

#[test]
fn they_are_described_mapped_and_extracted() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, _) in SAMPLES {
        let path = write(folder.path(), &unzipped(bytes));
        let image = Image::open(&path, Access::Read).unwrap();
        let text = info(&image).unwrap().to_string();
        assert!(text.contains(&format!("{name} at byte 0")), "{text}");
        let out = tempfile::tempdir().unwrap();
        let limits = ExtractLimits::default();
        let all = Image::open_any(&path, None).unwrap();
        let parts = extract_all(&all, &map(&all).unwrap(), &out.path().join("all"), &limits, false).unwrap();
        assert_eq!(parts.losses, [], "{name}");
        let part = parts.parts.iter().find_map(|part| part.folder.as_ref()).unwrap();
        let one = out.path().join("one");
        let mut target = DirectoryTarget::new(&one, false).unwrap();
        let extractions = Extractions::open(&image, &Selection::default()).unwrap();
        let extracted = extractions.run(&mut target, &limits, &|_| {}).unwrap();
        assert_eq!(extracted.losses, [], "{name}");
        let is_remark = |note: &String| note.contains("no checksum") || note.contains("holes");
        assert!(extracted.notes.iter().all(is_remark), "{name}: {:?}", extracted.notes);
        let is_flash = matches!(name, "LittleFS" | "SPIFFS" | "YAFFS2");
        assert_eq!(!extracted.notes.is_empty(), is_flash, "{name}");
        for tree in [one, out.path().join("all").join(part)] {
            assert_eq!(std::fs::read(tree.join("bin/tool")).unwrap(), self::text(), "{name}");
        }
        let report = floatgate_image::check::check(&image, &Selection::default()).unwrap();
        assert!(flash::damage(&report).is_empty(), "{name}: {report:?}");
    }
}

#[test]
fn a_squashfs_in_a_volume_of_ubi_is_extracted() {
    use floatgate_image::build::FlashShape;
    use floatgate_image::ubinize::{Headers, parse, ubinize};
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &unzipped(SAMPLES[0].1));
    let ini = "[a]\nmode=ubi\nimage=image\nvol_id=0\nvol_type=static\nvol_name=rootfs\n\
        [b]\nmode=ubi\nvol_id=1\nvol_type=dynamic\nvol_name=data\nvol_size=100KiB\n";
    let volumes = parse(ini, &folder.path().join("ini")).unwrap();
    let shape = FlashShape::of_nand(512, 32, 100);
    let headers = Headers { geometry: shape.ubi().unwrap(), image_seq: 1, erase_count: 0 };
    let mut bytes = Vec::new();
    ubinize(&shape, &headers, &volumes, &mut bytes).unwrap();
    let path = folder.path().join("image.ubi");
    std::fs::write(&path, bytes).unwrap();
    let seen = tree(&path);
    assert_eq!(seen["bin/tool"].data, text());
    let image = Image::open(&path, Access::Read).unwrap();
    let out = folder.path().join("out");
    let mut target = DirectoryTarget::new(&out, false).unwrap();
    let extractions = Extractions::open(&image, &Selection::default()).unwrap();
    let extracted = extractions.run(&mut target, &ExtractLimits::default(), &|_| {}).unwrap();
    assert_eq!(extracted.losses, []);
    assert_eq!(std::fs::read(out.join("rootfs/bin/tool")).unwrap(), text());
}

#[test]
fn damaged_images_end() {
    let flash = flash::YAFFS.iter().chain(&flash::LEVELLED).copied().chain([flash::EXFAT]);
    let samples = SAMPLES.iter().map(|(_, bytes, _)| (*bytes, 3000));
    // Those of flash are large, and have a test with many changes of their own.
    for (bytes, all) in samples.chain(flash.map(|bytes| (bytes, 100))) {
        let sound = unzipped(bytes);
        let used = sound.iter().rposition(|byte| !matches!(byte, 0 | 0xFF)).unwrap();
        for at in (0..used).step_by(used / floatgate_testing::few_or_all(40, all) + 1) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x41;
            floatgate_image::fuzzing::readonly(&bytes);
            bytes[at] = 0xFF;
            floatgate_image::fuzzing::readonly(&bytes);
        }
        for len in (0..used).step_by(used / 7 + 1) {
            floatgate_image::fuzzing::readonly(&sound[..len]);
        }
    }
}

/// The table of `docs/image-map.md`: formats with their operations.
#[test]
fn the_page_on_maps_says_which_formats_are_read() {
    let page = include_str!("../../../../docs/image-map.md");
    let table = page.split("## Operations").nth(1).unwrap().split("## Extraction").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("format |"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for (name, ..) in SAMPLES.iter().chain(&[
        ("CramFS", &b""[..], true),
        ("romfs", b"", true),
        ("FAT under", b"", false),
        ("exFAT", b"", false),
    ]) {
        let row = rows.iter().find(|row| row[1].starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        let is_built = if ["YAFFS2", "LittleFS", "SPIFFS"].contains(name) { "yes" } else { "no" };
        assert_eq!(row[2..6], ["yes", "yes", is_built, "no"], "{name}");
    }
    let f2fs = rows.iter().find(|row| row[1].starts_with("F2FS")).unwrap();
    assert_eq!(f2fs[2..6], ["yes", "no", "no", "no"]);
}
