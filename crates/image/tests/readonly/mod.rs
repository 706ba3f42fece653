//! Filesystems that are only read, as other people's tools make them.

mod flash;
mod foreign;

use std::collections::BTreeMap;
use std::path::Path;

use floatgate_image::check::Outcome;
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
        assert!(extracted.is_unverified && !extracted.notes.is_empty(), "{name}");
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
    let map = map(&Image::open_any(&path, None).unwrap()).unwrap();
    let volume = map.parts.iter().find(|part| part.name.as_deref() == Some("rootfs")).unwrap();
    assert_eq!(volume.len, unzipped(SAMPLES[0].1).len() as u64);
}

/// Bytes of the superblock, or of what the format begins with.
fn superblock(name: &str) -> std::ops::Range<usize> {
    match name {
        "SquashFS" => 0..96,
        "EROFS" => 1024..1152,
        "ext" => 1024..1128,
        "FAT" => 0..64,
        "SPIFFS" => 0..256,
        _ => 0..48,
    }
}

/// Whatever byte of a superblock is wrong: a filesystem whose files are not read is damaged, alone and in a volume.
#[test]
fn a_damaged_superblock_is_never_clean_and_unread() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, _) in SAMPLES {
        let sound = unzipped(bytes);
        write(folder.path(), &sound);
        let device = std::fs::read(flash::in_volume_of(folder.path(), "dynamic")).unwrap();
        let own = superblock(name);
        let head = &sound[..own.end.next_power_of_two()];
        let start = device.windows(head.len()).position(|window| window == head).unwrap();
        let device_path = folder.path().join("changed");
        let read = |path: &Path| {
            let image = Image::open(path, Access::Read).ok()?;
            let report = floatgate_image::check::check(&image, &Selection::default()).ok()?;
            let one = &report.images[0];
            let is_read = one.volumes.iter().all(|volume| volume.mounts && volume.tree.is_some());
            let files = one.volumes.first().map_or(0, |volume| volume.files);
            Some((report.outcome, is_read, files))
        };
        std::fs::write(&device_path, &device).unwrap();
        let (outcome, is_read, files) = read(&device_path).unwrap();
        assert!(outcome == Outcome::Clean && is_read && files > 0, "{name}");
        let step = own.len() / floatgate_testing::few_or_all(12, own.len()) + 1;
        for at in own.clone().step_by(step) {
            for byte in [sound[at] ^ 0x41, !sound[at]] {
                let (mut volume, mut bare) = (device.clone(), sound.clone());
                (volume[start + at], bare[at]) = (byte, byte);
                std::fs::write(&device_path, &volume).unwrap();
                let (outcome, is_read, now) = read(&device_path).unwrap();
                // FAT and SPIFFS have no checksum by which lost names could be seen.
                let is_whole = is_read && (now == files || matches!(name, "FAT" | "SPIFFS"));
                assert!(outcome != Outcome::Clean || is_whole, "{name}: byte {at} is {byte:#04x}");
                let is_read = read(&write(folder.path(), &bare)).is_none_or(|(_, is_read, _)| is_read);
                assert!(is_read, "{name}: byte {at} is {byte:#04x}");
            }
        }
    }
}

/// Of all fields nothing but the magic number is left.
#[test]
fn an_overwritten_superblock_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let cramfs = include_bytes!("../../src/tests/data/a.cramfs").to_vec();
    for (sound, kept, end) in [
        (unzipped(SAMPLES[0].1), 4, 96),
        (unzipped(SAMPLES[1].1), 1028, 1152),
        (unzipped(SAMPLES[2].1), 1082, 2048),
        (unzipped(SAMPLES[3].1), 1082, 2048),
        (cramfs, 4, 76),
    ] {
        for byte in [0, 0xA5] {
            let mut bytes = sound.clone();
            bytes[kept..end].fill(byte);
            let bare = flash::checked(&write(folder.path(), &bytes));
            assert_eq!(bare.outcome, Outcome::Damaged, "{bare:?}");
            let device = flash::in_volume_of(folder.path(), "static");
            let report = flash::checked(&device);
            assert_eq!(report.outcome, Outcome::Damaged, "{report:?}");
            assert_eq!(report.images[0].volumes[0].tree, bare.images[0].tree);
            // A repair keeps the volume, and lists what is lost in it.
            let out = folder.path().join("repaired");
            let repaired = floatgate_image::repair::repair(&device, &out, &Selection::default()).unwrap();
            assert_eq!(repaired.outcome, floatgate_image::repair::Repaired::WithLosses, "{repaired:?}");
            assert!(repaired.losses[0].what.contains("volume data, copied as it is"), "{repaired:?}");
            assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&device).unwrap());
        }
    }
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

/// An F2FS of `mkfs.f2fs` and `sload.f2fs`: data in inodes, in nodes below them, and names in blocks.
const F2FS: &[u8] = include_bytes!("data/tree.f2fs.gz.gz");

/// Writes the bytes that are not zeros.
fn write_sparse(folder: &Path, bytes: &[u8]) -> std::path::PathBuf {
    use std::os::unix::fs::FileExt as _;
    let path = folder.join("image");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (block, at) in bytes.chunks(4096).zip((0..).step_by(4096)) {
        if block != [0; 4096] {
            file.write_all_at(block, at).unwrap();
        }
    }
    path
}

/// Writes a byte of a file.
fn put(path: &Path, at: usize, byte: u8) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[byte], at as u64).unwrap();
}

#[test]
fn files_of_f2fs_are_read_and_one_checkpoint_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let sound = unzipped(&unzipped(F2FS));
    let path = write_sparse(folder.path(), &sound);
    let seen = tree(&path);
    assert_eq!((&seen["bin/tool"].data, &seen["bin/noise"].data), (&text(), &noise(700)));
    assert_eq!(
        (&seen["etc/hostname"].data[..], &seen["etc/name"].data[..]),
        (&b"board\n"[..], &b"hostname"[..])
    );
    let mut sparse = vec![0; 70_000];
    sparse.extend_from_slice(b"end\n");
    assert_eq!(seen["sparse"].data, sparse);
    let long: Vec<u8> = (0..930_u32).flat_map(|block| [block as u8; 4096]).collect();
    assert!(seen["long"].data == long);
    assert!((0..400).all(|n| seen[&format!("many/a rather long name of a file {n}")].data == n.to_string().as_bytes()));
    assert_eq!((seen["bin/tool"].mtime, seen["empty"].file_type), (TIME, FileType::Directory));
    let report = flash::checked(&path);
    assert!(flash::damage(&report).is_empty(), "{report:?}");
    let info = floatgate_image::info::info(&Image::open(&path, Access::Read).unwrap()).unwrap().to_string();
    assert!(info.contains("F2FS at byte 0") && info.contains("label: CARD"), "{info}");
    // The superblock has a copy, and there are two checkpoints.
    let head = &sound[1024..];
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let checkpoints = [word(76) as usize, word(76) as usize + 512].map(|block| block * 4096);
    for (changed, is_read) in [
        (vec![1024 + 96], true),
        (vec![checkpoints[0] + 8], true),
        (vec![checkpoints[1] + 8], true),
        (checkpoints.map(|at| at + 8).to_vec(), false),
        (vec![1024 + 96, 5120 + 96], false),
    ] {
        changed.iter().for_each(|at| put(&path, *at, sound[*at] ^ 0x41));
        let report = flash::checked(&path);
        assert!(is_read || report.outcome == Outcome::Damaged, "{changed:?}");
        assert!(!is_read || tree(&path)["bin/tool"].data == text(), "{changed:?}");
        changed.iter().for_each(|at| put(&path, *at, sound[*at]));
    }
    // A node whose checksum is wrong.
    let inode = memchr::memmem::find(&sound, b"tool").unwrap() / 4096 * 4096;
    put(&path, inode + 20, sound[inode + 20] ^ 1);
    assert_eq!(flash::checked(&path).outcome, Outcome::Damaged);
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
        ("F2FS", b"", true),
    ]) {
        let row = rows.iter().find(|row| row[1].starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        let is = |formats: &[&str]| if formats.contains(name) { "yes" } else { "no" };
        let (is_built, is_changed) = (is(&["YAFFS2", "LittleFS", "SPIFFS"]), is(&["LittleFS"]));
        assert_eq!(row[2..6], ["yes", "yes", is_built, is_changed], "{name}");
    }
}

/// An image with changed bytes, checked.
fn checked_with(image: &[u8], change: impl Fn(&mut Vec<u8>)) -> floatgate_image::check::CheckReport {
    let mut bytes = image.to_vec();
    change(&mut bytes);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, bytes).unwrap();
    let image = Image::open(&path, Access::Read).unwrap();
    floatgate_image::check::check(&image, &Selection::default()).unwrap()
}

#[test]
fn a_wrong_bit_in_the_bookkeeping_of_fat_is_told() {
    let fat = unzipped(SAMPLES[4].1);
    let clean = checked_with(&fat, |_| ());
    assert_eq!(clean.outcome, Outcome::Clean, "{:?}", clean.findings);
    assert!(clean.is_unverified);
    // Sectors of a FAT.
    for bit in [1_u8, 4, 16] {
        let told = checked_with(&fat, |bytes| bytes[22] ^= bit);
        assert_eq!(told.outcome, Outcome::Damaged, "bit {bit}");
    }
    // The signature: all files are still read.
    let told = checked_with(&fat, |bytes| bytes[510] ^= 1);
    assert_eq!((told.outcome, told.findings.len()), (Outcome::Damaged, 2), "{:?}", told.findings);
    // An entry of the second FAT.
    let word = |at: usize| usize::from(fat[at]) | usize::from(fat[at + 1]) << 8;
    let second = (word(14) + word(22)) * word(11);
    let told = checked_with(&fat, |bytes| bytes[second + 8] ^= 1);
    assert_eq!(told.outcome, Outcome::Recoverable, "{:?}", told.findings);
}

/// A dump of the pages of an image, with OOB.
fn with_oob(image: &[u8], (page, oob): (usize, usize)) -> Vec<u8> {
    let mut dump = Vec::new();
    for data in image.chunks(page) {
        dump.extend_from_slice(data);
        dump.resize(dump.len() + page - data.len() + oob, 0xFF);
    }
    dump
}

/// Filesystems without pages of their own in a dump with OOB, whose sizes are found or stated.
#[test]
fn filesystems_in_a_dump_with_oob_are_read() {
    use floatgate_image::{FlashSizes, PageSizes};
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, _) in SAMPLES.iter().take(4) {
        let path = write(folder.path(), &with_oob(&unzipped(bytes), (2048, 64)));
        assert_eq!(tree(&path)["bin/tool"].data, text(), "{name}");
        let report = flash::checked(&path);
        assert!(flash::damage(&report).is_empty(), "{name}: {report:?}");
        let map = map(&Image::open_any(&path, None).unwrap()).unwrap();
        assert_eq!((map.parts[0].kind.name(), map.pages.map(|pages| pages.oob_bytes)), (*name, Some(64)));
    }
    let path = write(folder.path(), &with_oob(&unzipped(SAMPLES[1].1), (2048, 100)));
    let pages = PageSizes { page_bytes: Some(2048), oob_bytes: Some(100), pages_per_block: Some(64) };
    let sizes = FlashSizes { pages, ..FlashSizes::default() };
    let image = Image::open_sized(&path, Access::Read, sizes).unwrap();
    let report = floatgate_image::check::check(&image, &Selection::default()).unwrap();
    assert!(flash::damage(&report).is_empty(), "{report:?}");
}

/// An ext whose first superblock is damaged is read by a copy of it, which the report names.
#[test]
fn a_copy_of_the_superblock_of_ext_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let sound = unzipped(SAMPLES[2].1);
    let word = |at: usize| u32::from_le_bytes(sound[1024 + at..][..4].try_into().unwrap());
    let block = 1024_usize << word(24);
    let (per_group, first) = (word(32) as usize, word(20) as usize);
    let group = per_group * block;
    // The sample has one group: it gets a second one, with the copies that mkfs.ext4 would put there.
    let mut image = sound.clone();
    image.resize(image.len().max((first + per_group) * block) + 4 * block, 0);
    let copy = first * block + group;
    let number =
        |bytes: &mut [u8], at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let mut head = sound[1024..2048].to_vec();
    number(&mut head, 0, word(40) * 2);
    number(&mut head, 4, (first + per_group) as u32 + 4);
    head[90..92].copy_from_slice(&1_u16.to_le_bytes());
    number(&mut head, 100, word(100) & !0x400);
    image[copy..copy + 1024].copy_from_slice(&head);
    let table = (first + 1) * block;
    image.copy_within(table..table + block, copy + block);
    for wiped in [1024..1024 + 64, 0..table + block] {
        let mut image = image.clone();
        image[wiped.clone()].fill(0);
        let path = write(folder.path(), &image);
        let report = flash::checked(&path);
        assert_eq!(report.outcome, Outcome::Damaged, "{wiped:?}");
        let told = format!("the copy in group 1, at byte {copy}, is read");
        assert!(report.findings.iter().any(|finding| finding.what.contains(&told)), "{report:?}");
        assert_eq!(tree(&path)["bin/tool"].data, text(), "{wiped:?}");
    }
}

/// An F2FS of Linux 6.1 that was copied while it was mounted: files that were synchronised after the checkpoint are there, one that was not is not.
#[test]
fn what_was_synchronised_in_an_f2fs_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let image = unzipped(&unzipped(include_bytes!("data/synchronised.f2fs.gz.gz")));
    let path = write_sparse(folder.path(), &image);
    let seen = tree(&path);
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(names, ["big", "d", "d/new", "d/old", "grown"]);
    assert_eq!((&seen["d/new"].data[..], &seen["big"].data), (&b"new file\n"[..], &text()));
    assert_eq!(seen["grown"].data, [text(), text()].concat());
    let report = flash::checked(&path);
    let told = "3 files, synchronised after the last checkpoint, are shown";
    assert!(report.findings.iter().any(|finding| finding.what.contains(told)), "{report:?}");
    assert_eq!(report.outcome, Outcome::Recoverable);
}

/// The same, where nodes with addresses were synchronised, and not the nodes that lead to them: the places in their footers tell where they belong.
#[test]
fn synchronised_nodes_are_read_without_the_nodes_that_lead_there() {
    const BLOCK: u64 = 4096;
    let folder = tempfile::tempdir().unwrap();
    let image = unzipped(&unzipped(include_bytes!("data/deep.f2fs.gz.gz")));
    let path = write_sparse(folder.path(), &image);
    let image = Image::open(&path, Access::Read).unwrap();
    let mut fs = image.mount(&Selection::default(), false, Behaviour::default()).unwrap();
    let root = fs.root();
    for (name, block, len, word) in [
        ("old", 3300, 4096, "old\n"),
        ("old", 5400, 12_288, "new\n"),
        ("far", 3500, 8192, "far\n"),
        ("wide", 1_100_000, 4096, "wide\n"),
    ] {
        let inode = fs.lookup(root, name.as_bytes()).unwrap();
        let mut data = vec![0; len];
        fs.read(inode, block * BLOCK, &mut data).unwrap();
        let wanted: Vec<u8> = word.bytes().cycle().take(len).collect();
        assert!(data == wanted, "{word:?}");
        fs.read(inode, (block - 100) * BLOCK, &mut data).unwrap();
        assert_eq!(data.iter().find(|&&byte| byte != 0), None, "{word:?}");
    }
}

/// Files that Linux 6.1 has encrypted with policies of version 2: names with padding of 4 and of 32 bytes, units of a block of the filesystem.
#[test]
fn encrypted_files_are_read_with_their_key() {
    use floatgate_stack::fscrypt::Keys;
    let key: Vec<u8> = (0..64_u32).map(|byte| (byte * 7 + 3) as u8).collect();
    let keys = |bytes: &[u8]| {
        let mut keys = Keys::default();
        keys.add(bytes).unwrap();
        keys
    };
    let folder = tempfile::tempdir().unwrap();
    for image in [&include_bytes!("data/encrypted.ubifs.gz")[..], include_bytes!("data/encrypted.ext4.gz")] {
        let path = write(folder.path(), &unzipped(image));
        let open = || Image::open(&path, Access::Read).unwrap();
        let image = open().with_keys(keys(&key));
        let mut fs = image.mount(&Selection::default(), false, Behaviour::default()).unwrap();
        let (root, mut seen) = (fs.root(), BTreeMap::new());
        see(&mut *fs, root, "", &mut seen);
        let data = |name: &str| &seen[name].data[..];
        assert_eq!((data("secret/hostname"), data("plain")), (&b"board\n"[..], &b"plain\n"[..]));
        assert_eq!(data("secret/text"), text());
        assert_eq!(data("secret/sparse"), [0; 40_001]);
        assert_eq!(data("secret/a directory/a name of forty bytes, or a few more than that"), b"inside\n");
        assert_eq!(data("secret/a directory/link"), b"../text");
        assert!(seen["secret/text"].xattrs.is_empty());
        let extract = |image: &Image| {
            let out = tempfile::tempdir().unwrap();
            let mut target = DirectoryTarget::new(&out.path().join("out"), false).unwrap();
            let extractions = Extractions::open(image, &Selection::default()).unwrap();
            let extracted = extractions.run(&mut target, &ExtractLimits::default(), &|_| {}).unwrap();
            (extracted, std::fs::read(out.path().join("out/secret/text")).ok())
        };
        let (extracted, file) = extract(&image);
        assert_eq!((extracted.losses, file), (Vec::new(), Some(text())));
        // Without the key, or with another one, each file is a loss.
        for image in [open(), open().with_keys(keys(&[7; 64]))] {
            let (extracted, file) = extract(&image);
            let lost = extracted.losses.iter().filter(|loss| loss.what.contains("encrypted"));
            assert_eq!((lost.count(), file), (7, None), "{:?}", extracted.losses);
        }
    }
}

/// A policy of version 1 whose descriptor does not follow from the key, as `mkfs.ubifs -b` makes one: the names tell the key. All that is extracted, also
/// by `--all`, is the same as in the image.
#[test]
fn a_chosen_descriptor_is_read_by_its_names() {
    use floatgate_image::diff::{DiffOptions, Side, diff_sides};
    use floatgate_stack::fscrypt::Keys;
    let key: Vec<u8> = (0..64_u32).map(|byte| (byte * 7 + 3) as u8).collect();
    let keys = |bytes: &[&[u8]]| {
        let mut keys = Keys::default();
        bytes.iter().for_each(|key| keys.add(key).unwrap());
        keys
    };
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &unzipped(include_bytes!("data/descriptor.ubifs.gz")));
    let open = || Image::open(&path, Access::Read).unwrap();
    let image = || open().with_keys(keys(&[&[7; 64], &key]));
    let all = |image: &Image, name: &str| {
        let map = map(image).unwrap();
        let out = folder.path().join(name);
        let all = extract_all(image, &map, &out, &ExtractLimits::default(), false).unwrap();
        (all.losses, out.join("00000000-ubifs"))
    };
    let (losses, files) = all(&image(), "all");
    assert!(losses.is_empty(), "{losses:?}");
    assert_eq!(std::fs::read(files.join("hostname")).unwrap(), b"board\n");
    let differences = |image: Image| {
        let sides = [
            Side::Image(Box::new(image), Selection::default()),
            Side::open(&files, &Selection::default()).unwrap(),
        ];
        let options = DiffOptions { owners: false, ..DiffOptions::default() };
        diff_sides(sides, &options).unwrap().differences.len()
    };
    assert_eq!((differences(image()), differences(open()) > 4), (0, true));
    // No key fits.
    let other = open().with_keys(keys(&[&[7; 64]]));
    let (losses, _) = all(&other, "other");
    assert!(losses.iter().any(|loss| loss.what.contains("key descriptor 0123456789abcdef")), "{losses:?}");
}

/// Linux derives keys and IVs from inodes, or uses AES-128; what is not read is named.
#[test]
fn other_modes_of_encryption_are_read() {
    use floatgate_stack::fscrypt::Keys;
    let key: Vec<u8> = (0..64_u32).map(|byte| (byte * 7 + 3) as u8).collect();
    let mut keys = Keys::default();
    keys.add(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &unzipped(include_bytes!("data/modes.ext4.gz")));
    let image = Image::open(&path, Access::Read).unwrap().with_keys(keys);
    let mut fs = image.mount(&Selection::default(), false, Behaviour::default()).unwrap();
    let (root, mut seen) = (fs.root(), BTreeMap::new());
    see(&mut *fs, root, "", &mut seen);
    let lines: String = (1..=700).map(|number| format!("{number}\n")).collect();
    for folder in ["ino64", "ino32", "essiv"] {
        let data = |name: &str| &seen[&format!("{folder}/{name}")].data[..];
        assert_eq!((data("hostname"), data("text")), (&b"board\n"[..], lines.as_bytes()), "{folder}");
        assert_eq!(data("link"), b"../elsewhere/with/a/long/path", "{folder}");
        assert_eq!(data("below/a name that is longer than two blocks of a cipher"), b"x\n", "{folder}");
    }
    for (name, why) in [("adiantum", "Adiantum"), ("direct", "Adiantum")] {
        let inode = fs.lookup(root, name.as_bytes()).unwrap();
        assert!(fs.why_encrypted(inode).is_some_and(|text| text.contains(why)), "{name}");
    }
}

/// Files of a LittleFS are added, replaced, moved and removed; what LittleFS does not have is listed.
#[test]
fn a_littlefs_is_changed() {
    use floatgate_image::edit::{EditError, EditOptions, ImagePath, Owner, PutOptions, edit};
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &unzipped(SAMPLES[5].1));
    let before = tree(&path);
    let shape = |path: &Path| {
        let map = map(&Image::open_any(path, None).unwrap()).unwrap();
        (map.parts[0].len, map.parts[0].facts.clone())
    };
    let sizes = shape(&path);
    let host = folder.path().join("host");
    std::fs::create_dir_all(host.join("below")).unwrap();
    std::fs::write(host.join("below/new"), noise(30_000)).unwrap();
    std::fs::write(host.join("tool"), b"short").unwrap();
    std::os::unix::fs::symlink("tool", host.join("link")).unwrap();
    let at = |path: &str| ImagePath::new(path).unwrap();
    let put = PutOptions { owner: Owner { uid: Some(5), gid: Some(5) }, time_max: None };
    let (committed, edited) = edit(&path, &EditOptions::default(), &|editor| {
        editor.put(&[host.join("tool")], &at("/bin/tool"), put)?;
        editor.put(std::slice::from_ref(&host), &at("/"), put)?;
        editor.set_xattr(&at("/bin/noise"), b"user.littlefs.41", Some(b"mark"))?;
        editor.rename(&at("/etc"), &at("/moved"), floatgate_stack::fs::Rename::Replace)?;
        editor.remove(&at("/nothing"), false)
    })
    .unwrap();
    assert!(committed.free_blocks > 0 && committed.written_bytes > 0);
    let lost: Vec<String> = edited.losses.iter().map(ToString::to_string).collect();
    assert!(
        lost.iter().any(|lost| lost.contains("/host/link") && lost.contains("symbolic links")),
        "{lost:?}"
    );
    assert!(lost.iter().any(|lost| lost.contains("those of 5 entries are lost")), "{lost:?}");
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert_eq!(shape(&path), sizes);
    let after = tree(&path);
    assert_eq!(after["bin/tool"].data, b"short");
    assert_eq!(after["host/below/new"].data, noise(30_000));
    assert_eq!(after["bin/noise"].xattrs, [(b"user.littlefs.41".to_vec(), b"mark".to_vec())]);
    assert_eq!(after["bin/noise"].data, before["bin/noise"].data);
    assert_eq!(after["moved/hostname"], before["etc/hostname"]);
    assert!(!after.contains_key("nothing") && !after.contains_key("etc") && !after.contains_key("host/link"));
    assert!(flash::damage(&flash::checked(&path)).is_empty());
    // A change that does not fit leaves the image as it was.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(host.join("large"), noise(bytes.len())).unwrap();
    let full =
        edit(&path, &EditOptions::default(), &|editor| editor.put(&[host.join("large")], &at("/"), put));
    let Err(EditError::NoGrowth(full)) = full else { panic!("{full:?}") };
    assert!(matches!(*full, EditError::Full), "{full:?}");
    // What LittleFS does not keep is no change, and is told at its path. A change that needs no room needs no growth.
    let growing = EditOptions { growth: floatgate_image::edit::GrowTo::Needed, ..EditOptions::default() };
    let output = EditOptions { output: Some(folder.path().join("changed")), ..growing };
    let (_, edited) =
        edit(&path, &output, &|editor| editor.chmod(&at("/bin/tool"), &"600".parse().unwrap(), false))
            .unwrap();
    assert_eq!((edited.entries, edited.losses[0].path.as_str()), (0, "/bin/tool"));
    let long = edit(&path, &output, &|editor| editor.remove(&at(&"n".repeat(300)), false)).unwrap_err();
    assert!(long.to_string().ends_with("at most 255 bytes"), "{long}");
    let (damaged, mut spoiled) = (folder.path().join("damaged"), bytes.clone());
    spoiled[20..24].fill(0x55);
    std::fs::write(&damaged, spoiled).unwrap();
    let out = folder.path().join("repaired");
    let refused = floatgate_image::repair::repair(&damaged, &out, &Selection::default()).unwrap_err();
    assert_eq!(refused.to_string(), "the image is LittleFS, which is not repaired");
    assert!(std::fs::read(&path).unwrap() == bytes);
}

/// UBI changes the LEBs of a dynamic volume; a static one is only written as a whole.
#[test]
fn a_littlefs_in_a_volume_is_changed() {
    use floatgate_image::edit::{EditOptions, ImagePath, Owner, PutOptions, edit};
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &unzipped(SAMPLES[5].1));
    let device = flash::in_volume_of(folder.path(), "dynamic");
    let host = folder.path().join("new");
    std::fs::write(&host, noise(9000)).unwrap();
    let at = |path: &str| ImagePath::new(path).unwrap();
    let change = |path: &Path| {
        edit(path, &EditOptions::default(), &|editor| {
            editor.make_dir(&at("/made"), false, 0o755, Owner::default())?;
            editor.put(std::slice::from_ref(&host), &at("/made"), PutOptions::default())?;
            editor.remove(&at("/etc"), true)
        })
    };
    let before = tree(&device);
    change(&device).unwrap();
    let mut wanted = before.clone();
    wanted.retain(|path, _| path != "etc" && !path.starts_with("etc/"));
    let mut seen = tree(&device);
    assert_eq!(seen.remove("made/new").unwrap().data, noise(9000));
    assert_eq!(seen.remove("made").unwrap().file_type, FileType::Directory);
    seen.remove("");
    wanted.remove("");
    assert_eq!(seen, wanted);
    assert_eq!(flash::checked(&device).outcome, Outcome::Clean);
    // What is there already ends the change, and the image stays as it is.
    let bytes = std::fs::read(&device).unwrap();
    assert!(change(&device).is_err() && std::fs::read(&device).unwrap() == bytes);
    let fixed = flash::in_volume_of(folder.path(), "static");
    let refused = change(&fixed).unwrap_err().to_string();
    assert_eq!(refused, "the image is LittleFS, in a static volume, which is only written as a whole");
}

#[test]
fn a_wrong_checksum_of_a_boot_region_of_exfat_is_told() {
    let exfat = unzipped(flash::EXFAT);
    assert_eq!(checked_with(&exfat, |_| ()).outcome, Outcome::Clean);
    assert_eq!(checked_with(&exfat, |bytes| bytes[200] ^= 1).outcome, Outcome::Damaged);
    assert_eq!(checked_with(&exfat, |bytes| bytes[12 * 512 + 200] ^= 1).outcome, Outcome::Recoverable);
}

/// Pages of 2048 and 64 bytes with the ECC of a layout.
fn in_layout(image: &[u8], layout: &str) -> Vec<u8> {
    use floatgate_image::ecc::{Form, Layout, PageGeometry, Scheme, encode};
    let geometry = PageGeometry::new(2048, 64, None).unwrap();
    let scheme = Scheme::new(geometry, "bch8/512".parse().unwrap(), Layout::named(layout).unwrap()).unwrap();
    let mut out = Vec::new();
    encode(&scheme, Form::WithOob, &mut &image[..], &mut out, &mut |_| ()).unwrap();
    out
}

/// ECC bytes between the data leave the superblock whole and damage the rest. The pages are judged by the root that can be read in them, where few
/// pages tell their sizes, too.
#[test]
fn a_filesystem_between_ecc_bytes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for tail in [0, 16] {
        let mut squashfs = unzipped(SAMPLES[0].1);
        squashfs.resize(squashfs.len().next_multiple_of(2048), 0);
        squashfs.extend(noise(tail * 2048));
        let dump = in_layout(&squashfs, "gpmi");
        let path = write(folder.path(), &dump);
        assert_eq!(tree(&path)["bin/tool"].data, text(), "{tail}");
        let map = map(&Image::open_any(&path, None).unwrap()).unwrap();
        assert_eq!((map.damaged(), map.pages.map(|pages| pages.oob_bytes)), (0, Some(64)), "{map:?}");
    }
}

/// A LittleFS in a dump with OOB is changed with the ECC of its pages; without a code it is refused.
#[test]
fn a_littlefs_in_a_dump_with_oob_is_changed_with_its_ecc() {
    use floatgate_image::dump_kind::{DumpKind, Kind};
    use floatgate_image::edit::{EditError, EditOptions, ImagePath, PutOptions, edit};
    let folder = tempfile::tempdir().unwrap();
    let plain = unzipped(SAMPLES[5].1);
    let host = folder.path().join("new");
    std::fs::write(&host, noise(9000)).unwrap();
    let put = |path: &Path| {
        edit(path, &EditOptions::default(), &|editor| {
            editor.put(std::slice::from_ref(&host), &ImagePath::new("/").unwrap(), PutOptions::default())
        })
    };
    let path = write(folder.path(), &in_layout(&plain, "large-page"));
    let len = std::fs::metadata(&path).unwrap().len();
    let kind = DumpKind::of(&path).unwrap();
    assert_eq!((kind.kind, kind.oob_bytes), (Kind::WithOob, Some(64)));
    put(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), len);
    let image = Image::open(&path, Access::Read).unwrap();
    let report = image.corrected.as_ref().unwrap().reports().next().unwrap();
    assert_eq!((report.steps.uncorrectable, report.scheme.layout.as_str()), (0, "large-page"));
    let seen = tree(&path);
    assert_eq!((&seen["new"].data, &seen["bin/tool"].data), (&noise(9000), &text()));
    // A controller has put ECC bytes between the data.
    let path = write(folder.path(), &in_layout(&plain, "gpmi"));
    put(&path).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() == len && tree(&path)["new"].data == noise(9000));
    // A filesystem that is only read is named.
    let path = write(folder.path(), &unzipped(SAMPLES[6].1));
    let error = put(&path).map(drop).unwrap_err().to_string();
    assert!(error.contains("the image is SPIFFS, which is read and not changed"), "{error}");
    let without_ecc = with_oob(&plain, (2048, 64));
    let path = write(folder.path(), &without_ecc);
    assert!(matches!(put(&path), Err(EditError::Image(floatgate_image::ImageError::OobReadOnly))));
    assert!(std::fs::read(&path).unwrap() == without_ecc);
}
