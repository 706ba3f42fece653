//! Untrusted images: changed structures, hostile names, and wrong sizes.

use floatgate_mtd::random::Random;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use floatgate_media::crc;
use floatgate_media::ubifs::Frame;

use super::*;
use crate::extract::DirectoryTarget;
use crate::fuzzing;

/// A structure with its own CRC: offset, number of bytes that the CRC covers, offset of the CRC, and whether it is
/// big-endian.
#[derive(Clone)]
struct Sealed {
    covered: std::ops::Range<usize>,
    crc_at: usize,
    big_endian: bool,
}

impl Sealed {
    fn seal(&self, bytes: &mut [u8]) {
        let sum = crc::ubi(&bytes[self.covered.clone()]);
        let field = if self.big_endian { sum.to_be_bytes() } else { sum.to_le_bytes() };
        bytes[self.crc_at..self.crc_at + 4].copy_from_slice(&field);
    }
}

/// All headers, records and nodes of an image.
fn sealed(bytes: &[u8]) -> Vec<Sealed> {
    let mut all = Vec::new();
    for at in (0..bytes.len().saturating_sub(64)).step_by(8) {
        if bytes[at..].starts_with(b"UBI#") || bytes[at..].starts_with(b"UBI!") {
            all.push(Sealed { covered: at..at + 60, crc_at: at + 60, big_endian: true });
        }
        if let Ok(frame) = Frame::parse(&bytes[at..]) {
            let end = at + frame.as_bytes().len();
            all.push(Sealed { covered: at + 8..end, crc_at: at + 4, big_endian: false });
        }
    }
    // Records of the volume table.
    for at in (512..bytes.len().min(1 << 16)).step_by(4) {
        let record = bytes.get(at..at + 172);
        if record.is_some_and(|record| {
            record[168..] == crc::ubi(&record[..168]).to_be_bytes() && record[0..4] != [0; 4]
        }) {
            all.push(Sealed { covered: at..at + 168, crc_at: at + 168, big_endian: true });
        }
    }
    all
}

/// Changes some bytes of some structures; half of the structures get a good CRC again.
fn mutate(image: &[u8], all: &[Sealed], random: &mut Random) -> Vec<u8> {
    let mut bytes = image.to_vec();
    for _ in 0..=random.below(3) {
        let one = &all[random.below(all.len() as u64) as usize];
        let len = one.covered.len() as u64;
        // Fields are at the start.
        let room = if random.below(3) == 0 { len } else { len.min(64) };
        let at = one.covered.start + random.below(room) as usize;
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.bits() as u8,
            2 => bytes[at] = 0xFF,
            3 => bytes[at..(at + 4).min(one.covered.end)].fill([0, 0xFF, 0x7F][random.below(3) as usize]),
            4 => {
                let other = &all[random.below(all.len() as u64) as usize];
                let len = one.covered.len().min(other.covered.len());
                bytes.copy_within(other.covered.start..other.covered.start + len, one.covered.start);
            }
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
        if random.below(2) == 0 {
            one.seal(&mut bytes);
        }
    }
    if random.below(20) == 0 {
        bytes.truncate(random.below(bytes.len() as u64) as usize);
    }
    bytes
}

fn little(clean: bool) -> Vec<u8> {
    let geometry = Geometry::nand_512(56);
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 42)).unwrap();
        let id = ubi.create_volume(&NewVolume::fixed("kernel", 2)).unwrap();
        let mut update = ubi.update_volume(id, 20_000).unwrap();
        update.write(&[7; 20_000]).unwrap();
        update.finish().unwrap();
    });
    format(bytes, &geometry, 0, clean, little_tree)
}

fn little_tree(fs: &mut Ubifs<dyn Volume>) {
    use floatgate_stack::fs::{NewFile, NewKind, SetXattr};
    let file = |kind| NewFile { kind, permissions: 0o644, uid: 0, gid: 0 };
    let root = fs.root();
    for number in 0..6 {
        let directory = fs.create(root, &[b'a' + number], &file(NewKind::Directory)).unwrap();
        let inode = fs.create(directory, b"file", &file(NewKind::Regular)).unwrap();
        fs.write(inode, 0, &[number; 9000]).unwrap();
        fs.set_xattr(inode, b"user.n", b"value", SetXattr::Any).unwrap();
        fs.create(directory, b"link", &file(NewKind::Symlink(b"file"))).unwrap();
        if number == 3 {
            fs.sync().unwrap();
        }
    }
}

/// Reads images with changed structures, and checks that no read panics or hangs.
fn mutations(image: &[u8], seed: u64, cases: u32, what: fn(&[u8])) {
    let all = sealed(image);
    assert!(all.len() > 50);
    let mut random = Random::new(seed);
    for _ in 0..cases {
        what(&mutate(image, &all, &mut random));
    }
}

#[test]
fn mutated_images_are_read_without_a_panic() {
    mutations(&little(true), 1, 150, fuzzing::image);
    mutations(&little(false), 2, 150, fuzzing::image);
}

#[test]
fn mutated_devices_are_attached_without_a_panic() {
    let with_choice = |bytes: &[u8]| {
        let mut chosen = vec![0];
        chosen.extend_from_slice(bytes);
        fuzzing::attach(&chosen);
    };
    mutations(&little(true), 3, 200, with_choice);
}

#[test]
fn mutated_filesystems_are_mounted_without_a_panic() {
    let bare = bare(120);
    mutations(&bare, 4, 150, fuzzing::mount);
}

#[test]
fn mutated_jffs2_images_are_read_without_a_panic() {
    let fixtures: [&[u8]; 3] = [
        include_bytes!("../../tests/golden/jffs2/little.jffs2"),
        include_bytes!("../../tests/golden/jffs2/big-summary.jffs2"),
        include_bytes!("../../tests/golden/jffs2/lzo.jffs2"),
    ];
    let mut random = Random::new(6);
    for case in 0..150 {
        let mut bytes = fixtures[case % fixtures.len()].to_vec();
        // Most of an image is free.
        let used = 1 + bytes.iter().rposition(|&byte| byte != 0xFF).unwrap();
        for _ in 0..=random.below(6) {
            let at = random.below(used as u64) as usize;
            bytes[at] = [random.bits() as u8, 0xFF, 0, bytes[at] ^ 1][random.below(4) as usize];
        }
        fuzzing::jffs2(&bytes);
    }
}

#[test]
fn broken_images_that_were_trouble_once_are_read() {
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/images")).unwrap()
    {
        let path = file.unwrap().path();
        if path.extension().is_some() {
            // Text about the image.
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        match path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('-')) {
            Some(("attach", _)) => fuzzing::attach(&bytes),
            Some(("mount", _)) => fuzzing::mount(&bytes),
            Some(("image", _)) => fuzzing::image(&bytes),
            _ => {}
        }
    }
}

/// Image with another name of the same length in an entry.
fn renamed(image: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = image.to_vec();
    let mut count = 0;
    for at in (0..image.len() - 64).step_by(8) {
        let Ok(frame) = Frame::parse(&image[at..]) else { continue };
        let len = frame.as_bytes().len();
        let is_entry = image[at + 20] == 2;
        if is_entry && &image[at + 56..at + len - 1] == old {
            bytes[at + 56..at + len - 1].copy_from_slice(new);
            Sealed { covered: at + 8..at + len, crc_at: at + 4, big_endian: false }.seal(&mut bytes);
            count += 1;
        }
    }
    assert!(count > 0);
    bytes
}

fn extract_to(bytes: &[u8], folder: &Path, limits: &ExtractLimits) -> Extracted {
    let extraction = Extraction::open(&open(bytes), &Selection::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut target = DirectoryTarget::new(folder, false).unwrap();
    extraction.run(&mut target, limits, &|_| {}).unwrap()
}

/// Names in a folder and below it.
fn below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.strip_prefix(folder).unwrap().display().to_string());
        if path.is_dir() && !path.is_symlink() {
            names.extend(below(&path));
        }
    }
    names.sort();
    names
}

fn simple(fill: impl FnOnce(&mut Ubifs<dyn Volume>)) -> Vec<u8> {
    let geometry = Geometry::nand_512(56);
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 42)).unwrap();
    });
    format(bytes, &geometry, 0, true, fill)
}

fn make(
    fs: &mut Ubifs<dyn Volume>,
    directory: u32,
    name: &[u8],
    kind: floatgate_stack::fs::NewKind<'_>,
) -> u32 {
    let file = floatgate_stack::fs::NewFile { kind, permissions: 0o755, uid: 0, gid: 0 };
    fs.create(directory, name, &file).unwrap()
}

#[test]
fn names_that_lead_elsewhere_are_listed_and_not_made() {
    use floatgate_stack::fs::NewKind;
    let image = simple(|fs| {
        let root = fs.root();
        for name in [&b"aa"[..], b"b", b"ccc", b"good"] {
            let inode = make(fs, root, name, NewKind::Regular);
            fs.write(inode, 0, b"contents").unwrap();
        }
        let directory = make(fs, root, b"dd", NewKind::Directory);
        make(fs, directory, b"inside", NewKind::Regular);
    });
    for (old, new) in [
        (&b"aa"[..], &b".."[..]),
        (b"b", b"."),
        (b"ccc", b"../"),
        (b"ccc", b"a/b"),
        (b"dd", b".."),
        (b"ccc", b"/et"),
    ] {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("inner");
        let extracted = extract_to(&renamed(&image, old, new), &folder, &ExtractLimits::default());
        assert!(!extracted.losses.is_empty(), "{new:?}");
        assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read(folder.join("good")).unwrap(), b"contents");
    }
}

#[test]
fn a_name_that_is_there_twice_is_made_once() {
    use floatgate_stack::fs::NewKind;
    let image = simple(|fs| {
        let root = fs.root();
        make(fs, root, b"link", NewKind::Symlink(b"/tmp"));
        let directory = make(fs, root, b"twin", NewKind::Directory);
        make(fs, directory, b"file", NewKind::Regular);
    });
    // Files that are extracted through the first name must not go to the target of the link.
    let folder = tempfile::tempdir().unwrap();
    let extracted = extract_to(&renamed(&image, b"twin", b"link"), folder.path(), &ExtractLimits::default());
    assert_eq!(extracted.losses.iter().filter(|loss| loss.path == "/link").count(), 1);
    assert!(!Path::new("/tmp/file").exists());
}

#[test]
fn links_in_the_target_are_not_followed() {
    use floatgate_stack::fs::NewKind;
    let image = simple(|fs| {
        let root = fs.root();
        let directory = make(fs, root, b"dir", NewKind::Directory);
        make(fs, directory, b"file", NewKind::Regular);
        make(fs, root, b"plain", NewKind::Regular);
    });
    let outer = tempfile::tempdir().unwrap();
    let (folder, elsewhere) = (outer.path().join("in"), outer.path().join("elsewhere"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.join("dir")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("new"), folder.join("plain")).unwrap();
    let extraction = Extraction::open(&open(&image), &Selection::default()).unwrap();
    let mut target = DirectoryTarget::new(&folder, false).unwrap();
    let outcome = extraction.run(&mut target, &ExtractLimits::default(), &|_| {});
    assert!(outcome.map_or(true, |extracted| !extracted.losses.is_empty()));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn limits_are_kept_and_said() {
    use floatgate_stack::fs::NewKind;
    let image = simple(|fs| {
        let root = fs.root();
        let bomb = make(fs, root, b"bomb", NewKind::Regular);
        fs.write(bomb, 1 << 40, b"end").unwrap();
        let small = make(fs, root, b"small", NewKind::Regular);
        fs.write(small, 0, b"small").unwrap();
        let mut deep = root;
        for _ in 0..20 {
            deep = make(fs, deep, b"d", NewKind::Directory);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let limits = ExtractLimits { bytes: 1 << 20, entries: 1000, depth: 10 };
    let extracted = extract_to(&image, folder.path(), &limits);
    let lost: Vec<&str> = extracted.losses.iter().map(|loss| loss.path.as_str()).collect();
    assert_eq!(lost, ["/bomb", &"/d".repeat(11)]);
    assert_eq!(std::fs::read(folder.path().join("small")).unwrap(), b"small");
    let extraction = Extraction::open(&open(&image), &Selection::default()).unwrap();
    let few = ExtractLimits { entries: 5, ..ExtractLimits::default() };
    assert!(extraction.run(&mut Memory::default(), &few, &|_| {}).is_err());
}

#[test]
fn a_large_hole_takes_no_room_in_a_directory() {
    use floatgate_stack::fs::NewKind;
    let image = simple(|fs| {
        let root = fs.root();
        let bomb = make(fs, root, b"sparse", NewKind::Regular);
        fs.write(bomb, 1 << 32, b"end").unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let extracted = extract_to(&image, folder.path(), &ExtractLimits::default());
    assert_eq!(extracted.losses, []);
    let made = std::fs::metadata(folder.path().join("sparse")).unwrap();
    assert_eq!(made.len(), (1 << 32) + 3);
    assert!(made.blocks() < 1000);
    assert_eq!(made.permissions().mode() & 0o777, 0o755);
    assert_eq!(below(folder.path()), ["sparse"]);
}
