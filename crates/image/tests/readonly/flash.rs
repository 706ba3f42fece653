//! Filesystems of bare flash that are only read and built: YAFFS2, FAT under wear levelling, LittleFS, SPIFFS.

use std::path::Path;

use floatgate_image::build::{
    BuildOptions, Built, Container, FlashShape, Overrides, Source, TreeOptions, YaffsOptions, build,
};
use floatgate_image::check::{CheckReport, Finding, Outcome, check};
use floatgate_image::extract::{DirectoryTarget, ExtractLimits, Extractions};
use floatgate_image::map::{Checksum, Kind, map};
use floatgate_image::{Access, Image, Selection};
use floatgate_stack::fs::FileType;
use floatgate_stack::ubifs::FormatOptions;

use super::{TIME, noise, text, tree, unzipped, write};

/// Images of YAFFS2 by others.
pub(super) const YAFFS: [&[u8]; 3] = [
    include_bytes!("data/big.yaffs2.gz"),
    include_bytes!("data/used.yaffs2.gz"),
    include_bytes!("data/inband.yaffs2.gz"),
];

/// An exFAT with files in clusters that follow each other, and in others.
pub(super) const EXFAT: &[u8] = include_bytes!("data/tree.exfat.gz");

/// Partitions under the wear levelling of ESP-IDF.
pub(super) const LEVELLED: [&[u8]; 3] = [
    include_bytes!("data/new.fatwl.gz"),
    include_bytes!("data/used.fatwl.gz"),
    include_bytes!("data/safe.fatwl.gz"),
];

/// Findings beyond notes.
pub(super) fn damage(report: &CheckReport) -> Vec<&Finding> {
    report.findings.iter().filter(|finding| finding.severity != Outcome::Clean).collect()
}

pub(super) fn checked(path: &Path) -> CheckReport {
    check(&Image::open(path, Access::Read).unwrap(), &Selection::default()).unwrap()
}

/// Losses of an extraction.
fn losses(path: &Path) -> Vec<String> {
    let out = tempfile::tempdir().unwrap();
    let mut target = DirectoryTarget::new(&out.path().join("out"), false).unwrap();
    let image = Image::open(path, Access::Read).unwrap();
    let extractions = Extractions::open(&image, &Selection::default()).unwrap();
    let extracted = extractions.run(&mut target, &ExtractLimits::default(), &|_| {}).unwrap();
    extracted.losses.iter().map(ToString::to_string).collect()
}

#[test]
fn lost_pages_of_a_yaffs2_are_listed() {
    const PAGE: usize = 2112;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("root")).unwrap();
    std::fs::write(folder.path().join("root/noise"), noise(20_000)).unwrap();
    let own = YaffsOptions { big_endian: false, oob_bytes: 64, tags_at: 2 };
    built(folder.path(), (2048, 64), TreeOptions::Yaffs(own));
    let sound = std::fs::read(folder.path().join("built")).unwrap();
    assert_eq!(sound.len(), 12 * PAGE);
    assert_eq!(losses(&write(folder.path(), &sound)), [""; 0]);
    let mut erased = sound.clone();
    erased[4 * PAGE..5 * PAGE].fill(0xFF);
    let mut tags = sound.clone();
    tags[4 * PAGE + 2050..4 * PAGE + 2066].fill(0x5A);
    let mut header = sound.clone();
    header[PAGE] = 0x77;
    let cut = sound[..8 * PAGE].to_vec();
    for (bytes, words) in [
        (erased, "1 erased chunk between"),
        (tags, "1 chunk with damaged tags"),
        (header, "1 header damaged"),
        (cut, "/noise: 4 of its 10 pages missing"),
        (sound[..8 * PAGE + 100].to_vec(), "it ends 2012 bytes before the end of a page"),
        (sound[..8 * PAGE + 100].to_vec(), "files whose names were there cannot be named"),
    ] {
        let path = write(folder.path(), &bytes);
        let lost = losses(&path);
        assert!(lost.iter().any(|lost| lost.contains(words)), "{words}: {lost:?}");
        assert_eq!(checked(&path).outcome, Outcome::Damaged, "{words}");
    }
    let cut = Image::open_any(&write(folder.path(), &sound[..8 * PAGE + 100]), None).unwrap();
    assert_eq!(map(&cut).unwrap().parts[0].checksum, Checksum::Truncated);
    let info = floatgate_image::info::info(&cut).unwrap();
    assert!(info.images.is_empty() || info.images[0].cut.is_some(), "{info}");
}

/// Each name of a damaged file is listed.
#[test]
fn names_of_a_damaged_yaffs2_file_are_listed() {
    const PAGE: usize = 2112;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("a"), noise(20_000)).unwrap();
    std::fs::hard_link(root.join("a"), root.join("b")).unwrap();
    let own = YaffsOptions { big_endian: false, oob_bytes: 64, tags_at: 2 };
    built(folder.path(), (2048, 64), TreeOptions::Yaffs(own));
    let whole = std::fs::read(folder.path().join("built")).unwrap();
    // The header of the other name moves to the place of a page with data.
    let at = whole.chunks(PAGE).rposition(|page| page[0] == 4).unwrap();
    let header = whole[at * PAGE..(at + 1) * PAGE].to_vec();
    let bytes = [&whole[..5 * PAGE], &header].concat();
    let lost = losses(&write(folder.path(), &bytes));
    assert!(lost.iter().any(|lost| lost == "/b: another name of /a, see there"), "{lost:?}");
}

/// Bytes in front of a YAFFS2 that are no multiple of anything do not hide it. Filesystems in a file do not overlap.
#[test]
fn a_shifted_yaffs2_is_found_and_two_parts_do_not_overlap() {
    const PAGE: usize = 2112;
    let folder = tempfile::tempdir().unwrap();
    sample_tree(&folder.path().join("root"));
    let own = YaffsOptions { big_endian: false, oob_bytes: 64, tags_at: 2 };
    built(folder.path(), (2048, 64), TreeOptions::Yaffs(own));
    let whole = std::fs::read(folder.path().join("built")).unwrap();
    let shifted = [&noise(777)[..], &whole].concat();
    let path = write(folder.path(), &shifted);
    assert_eq!(Image::open(&path, Access::Read).unwrap().found[0].offset, 777);
    assert_eq!(tree(&path)["text"].data, text());
    // Half a page is missing in the middle.
    let parts = [&whole[..40 * PAGE], &whole[40 * PAGE + 1024..]].concat();
    let path = write(folder.path(), &parts);
    let image = Image::open(&path, Access::Read).unwrap();
    let ends = image.found.iter().map(|found| found.offset + found.len);
    let starts = image.found.iter().skip(1).map(|found| found.offset);
    assert!(ends.zip(starts).all(|(end, start)| end <= start), "{:?}", image.found);
    for found in &image.found {
        let selection = Selection { offset: Some(found.offset), ..Selection::default() };
        assert!(Extractions::open(&image, &selection).is_ok(), "{found:?}");
    }
}

#[test]
fn an_empty_yaffs2_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("root")).unwrap();
    let own = YaffsOptions { big_endian: false, oob_bytes: 64, tags_at: 2 };
    built(folder.path(), (2048, 64), TreeOptions::Yaffs(own));
    let path = folder.path().join("built");
    assert!(tree(&path).is_empty());
    assert!(damage(&checked(&path)).is_empty());
}

/// A filesystem whose end is missing, alone and in a volume of UBI.
#[test]
fn a_cut_littlefs_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    sample_tree(&folder.path().join("root"));
    built(folder.path(), (256, 16), TreeOptions::Littlefs { bytes: 256 << 10 });
    let whole = std::fs::read(folder.path().join("built")).unwrap();
    let path = write(folder.path(), &whole[..128 << 10]);
    let lost = losses(&path);
    assert!(lost[0].contains("131072 of 262144 bytes are missing"), "{lost:?}");
    assert_eq!(checked(&path).outcome, Outcome::Damaged);
    let device = in_volume(folder.path());
    let report = checked(&device);
    assert_eq!(report.outcome, Outcome::Damaged);
    assert!(report.findings.iter().all(|finding| finding.volume.as_deref() == Some("data")), "{report:?}");
    assert_eq!(report.images[0].volumes[0].tree, Some(Kind::Littlefs));
    write(folder.path(), &whole);
    assert_eq!(checked(&in_volume(folder.path())).outcome, Outcome::Clean);
}

/// A LittleFS whose first block is damaged is one image, also behind other data.
#[test]
fn a_littlefs_with_a_damaged_first_block_is_one_image() {
    let folder = tempfile::tempdir().unwrap();
    let mut image = unzipped(super::SAMPLES[5].1);
    let block = {
        let path = write(folder.path(), &image);
        let map = map(&Image::open_any(&path, None).unwrap()).unwrap();
        match map.parts[0].facts.0.iter().find(|(name, _)| *name == "block_bytes") {
            Some((_, floatgate_image::map::Value::Number(bytes))) => *bytes as usize,
            other => panic!("{other:?}"),
        }
    };
    let sound = tree(&write(folder.path(), &image));
    let first = image[..block].to_vec();
    image[block..2 * block].copy_from_slice(&first);
    for byte in [8, 100, 0xFFFF] {
        for front in [0, 64 << 10] {
            let mut dump = vec![0xA5; front];
            dump.extend_from_slice(&image);
            let at = front + byte.min(block - 1);
            if byte > block {
                dump[front..front + block].fill(0xFF)
            } else {
                dump[at] ^= 1
            }
            dump.resize(dump.len() + front, 0xA5);
            let path = write(folder.path(), &dump);
            let found = Image::open(&path, Access::Read).unwrap();
            let places: Vec<u64> = found.found.iter().map(|found| found.offset).collect();
            assert_eq!(places, [front as u64], "byte {byte}");
            assert_eq!(tree(&path), sound, "byte {byte}");
        }
    }
}

/// A UBI device whose static volume is the file `image`.
fn in_volume(folder: &Path) -> std::path::PathBuf {
    in_volume_of(folder, "static")
}

/// A UBI device whose volume is the file `image`.
pub(super) fn in_volume_of(folder: &Path, kind: &str) -> std::path::PathBuf {
    use floatgate_image::ubinize::{Headers, parse, ubinize};
    let ini = format!("[a]\nmode=ubi\nimage=image\nvol_id=0\nvol_type={kind}\nvol_name=data\n");
    let volumes = parse(&ini, &folder.join("ini")).unwrap();
    let shape = FlashShape::of_nand(2048, 64, 100);
    let headers = Headers { geometry: shape.ubi().unwrap(), image_seq: 1, erase_count: 0 };
    let mut bytes = Vec::new();
    ubinize(&shape, &headers, &volumes, &mut bytes).unwrap();
    let path = folder.join("image.ubi");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The numbers of its blocks tell how long a SPIFFS was.
#[test]
fn a_cut_spiffs_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("root")).unwrap();
    std::fs::write(folder.path().join("root/noise"), noise(40_000)).unwrap();
    built(folder.path(), (256, 16), TreeOptions::Spiffs { bytes: 64 << 10 });
    let whole = std::fs::read(folder.path().join("built")).unwrap();
    for len in [63 << 10, 30_001, 16 << 10] {
        let path = write(folder.path(), &whole[..len]);
        let lost = losses(&path);
        assert!(lost[0].contains(&format!("{} of 65536 bytes are missing", 65_536 - len)), "{lost:?}");
        assert!(lost[0].contains("cannot be named"), "{lost:?}");
        let info = floatgate_image::info::info(&Image::open(&path, Access::Read).unwrap()).unwrap();
        assert!(info.images[0].cut.is_some(), "{info}");
        assert_eq!(checked(&path).outcome, Outcome::Damaged, "{len}");
        let map = map(&Image::open_any(&path, None).unwrap()).unwrap();
        assert_eq!((map.parts[0].kind, map.damaged()), (Kind::Spiffs, 1), "{map:?}");
    }
    // A first block without its number belongs to it, alone and in a volume.
    let mut first = whole;
    first[252..256].fill(0x5A);
    let path = write(folder.path(), &first);
    assert!(losses(&path)[0].contains("the first block is damaged"), "{:?}", losses(&path));
    assert_eq!(tree(&path)["noise"].data, noise(40_000));
    assert_eq!(checked(&in_volume(folder.path())).outcome, Outcome::Damaged);
}

#[test]
fn a_spiffs_file_without_index_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("root")).unwrap();
    std::fs::write(folder.path().join("root/noise"), noise(600)).unwrap();
    built(folder.path(), (256, 16), TreeOptions::Spiffs { bytes: 64 << 10 });
    let mut bytes = std::fs::read(folder.path().join("built")).unwrap();
    // The first page behind the lookup table is the index, whose flag of deletion is cleared.
    bytes[256 + 4] &= 0x7F;
    let path = write(folder.path(), &bytes);
    let lost = losses(&path);
    assert!(lost.len() == 1 && lost[0].contains("object 1 with 3 pages of data has no index"), "{lost:?}");
}

#[test]
fn attributes_that_a_littlefs_loses_are_counted() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(&root).unwrap();
    for name in ["a", "b"] {
        std::fs::write(root.join(name), name).unwrap();
        std::fs::set_permissions(root.join(name), PermissionsExt::from_mode(0o4755)).unwrap();
    }
    let report = built(folder.path(), (256, 16), TreeOptions::Littlefs { bytes: 256 << 10 });
    let lost: Vec<String> = report.losses.iter().map(ToString::to_string).collect();
    for what in
        ["no permissions: those of 2 entries", "no setuid, setgid and sticky bits: those of 2 entries"]
    {
        assert!(lost.iter().any(|lost| lost.contains(what)), "{what}: {lost:?}");
    }
    assert!(tree(&folder.path().join("built"))["a"].mtime > 1_700_000_000);
}

#[test]
fn a_yaffs2_of_a_big_endian_machine_has_all_attributes() {
    let folder = tempfile::tempdir().unwrap();
    let seen = tree(&write(folder.path(), &unzipped(YAFFS[0])));
    let tool = &seen["bin/tool"];
    assert_eq!((tool.permissions, tool.owner, tool.links, tool.mtime), (0o755, (1000, 100), 2, TIME));
    assert_eq!(tool, &seen["bin/alias"]);
    assert_eq!((&tool.data, &seen["bin/noise"].data), (&text(), &noise(700)));
    assert_eq!(seen["etc/name"].data, b"hostname");
    assert_eq!(seen["pipe"].file_type, FileType::Fifo);
    assert_eq!(seen["sparse"].data.len(), 70_004);
}

#[test]
fn what_yaffs2_has_removed_renamed_and_cut_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    for image in &YAFFS[1..] {
        let path = write(folder.path(), &unzipped(image));
        let report = check(&Image::open(&path, Access::Read).unwrap(), &Selection::default()).unwrap();
        assert!(damage(&report).is_empty(), "{report:?}");
        let seen = tree(&path);
        let names: Vec<&str> =
            seen.keys().map(String::as_str).filter(|name| !name.starts_with("etc/")).collect();
        let wanted = [
            "a",
            "bin",
            "bin/alias",
            "bin/noise",
            "bin/tool",
            "dup2",
            "empty",
            "etc",
            "moved",
            "moved/in",
            "nothing",
            "rewritten",
            "short",
            "sparse",
        ];
        assert_eq!(names, wanted);
        let data = |name: &str| &seen[name].data[..];
        assert_eq!((data("a"), data("moved/in"), data("nothing")), (&b"second"[..], &b"in"[..], &b""[..]));
        assert_eq!((data("bin/tool"), data("bin/alias")), (&text()[..], &text()[..]));
        assert_eq!(data("dup2"), &text()[..4000]);
        assert_eq!(data("rewritten"), &text()[2..3000]);
        // What was cut off is zeros after the file has grown again.
        let mut short = vec![0; 3001];
        short[..5].copy_from_slice(b"line ");
        short[3000] = b'x';
        assert_eq!(data("short"), short);
        let mut sparse = vec![0; 70_004];
        sparse[70_000..].copy_from_slice(b"end\n");
        assert_eq!(data("sparse"), sparse);
        assert_eq!(seen["bin/tool"].links, 2);
        assert_eq!(seen["etc/hostname"].xattrs, [(b"user.origin".to_vec(), b"factory".to_vec())]);
        assert_eq!((data("etc/hostname"), data("etc/name")), (&b"board\n"[..], &b"hostname"[..]));
    }
}

#[test]
fn a_yaffs2_within_a_dump_begins_with_its_first_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let mut dump = noise(2112 * 64);
    // The first chunk is one with data, whose header is behind it.
    let own = unzipped(YAFFS[1]);
    let used = own.len();
    dump.extend(&own[2112 * 40..]);
    dump.extend(noise(5000));
    let image = Image::open_any(&write(folder.path(), &dump), None).unwrap();
    let map = map(&image).unwrap();
    let part = map.parts.iter().find(|part| part.kind == Kind::Yaffs).unwrap();
    assert_eq!(part.offset, 2112 * 64, "{map:?}");
    assert!(part.len <= (used - 2112 * 40) as u64);
}

#[test]
fn a_yaffs2_without_oob_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let whole = unzipped(include_bytes!("data/tree.yaffs2.gz"));
    let data: Vec<u8> = whole.chunks(2112).flat_map(|page| page[..2048].to_vec()).collect();
    let image = Image::open(&write(folder.path(), &data), Access::Read).unwrap();
    let text = floatgate_image::info::info(&image).unwrap().to_string();
    assert!(text.contains("missing: the dump has no OOB"), "{text}");
    let map = map(&image).unwrap();
    let mut found = map.parts.iter().filter(|part| part.kind == Kind::Yaffs);
    assert!(found.all(|part| part.facts.0.iter().any(|(name, _)| *name == "page_stride")), "{map:?}");
    let error = image
        .mount(&Selection::default(), false, floatgate_stack::ubifs::Behaviour::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("YAFFS2 without tags"), "{error}");
}

#[test]
fn fat_is_read_through_wear_levelling() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in LEVELLED {
        let path = write(folder.path(), &unzipped(bytes));
        let image = Image::open(&path, Access::Read).unwrap();
        let info = floatgate_image::info::info(&image).unwrap().to_string();
        assert!(info.contains("FAT under wear levelling at byte 0") && info.contains("both good"), "{info}");
        let seen = tree(&path);
        assert_eq!(seen["bin/tool"].data, text());
        assert_eq!(seen["bin/noise"].data, noise(700));
        assert_eq!(seen["etc/hostname"].data, b"board\n");
        assert!(damage(&check(&image, &Selection::default()).unwrap()).is_empty());
    }
}

/// A damaged state is read from its copy, and a partition in the middle of a dump is found by the sector that ends it.
#[test]
fn a_levelled_partition_is_found_and_one_state_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let own = unzipped(LEVELLED[1]);
    for state in [2_usize, 3] {
        let mut dump = vec![0x5A; 3 * 4096];
        dump.extend(&own);
        dump.extend([0xFF; 8192]);
        dump[3 * 4096 + own.len() - state * 4096] ^= 1;
        let path = write(folder.path(), &dump);
        let image = Image::open_any(&path, None).unwrap();
        let map = map(&image).unwrap();
        let part = map.parts.iter().find(|part| part.kind == Kind::WearLevelled).unwrap();
        assert_eq!((part.offset, part.len), (3 * 4096, own.len() as u64));
        assert_eq!(tree(&path)["bin/tool"].data, text());
    }
}

fn sample_tree(root: &Path) {
    std::fs::create_dir_all(root.join("etc/deep")).unwrap();
    std::fs::create_dir(root.join("empty")).unwrap();
    std::fs::write(root.join("text"), text()).unwrap();
    std::fs::write(root.join("etc/noise"), noise(5000)).unwrap();
    std::fs::write(root.join("nothing"), "").unwrap();
    std::fs::hard_link(root.join("text"), root.join("etc/same")).unwrap();
    std::os::unix::fs::symlink("../text", root.join("etc/link")).unwrap();
    for number in 0..60 {
        std::fs::write(root.join(format!("etc/deep/{number}")), number.to_string()).unwrap();
    }
}

fn built(folder: &Path, shape: (u32, u32), own: TreeOptions) -> Built {
    let (page_bytes, pages) = shape;
    let options = BuildOptions {
        shape: FlashShape { size: None, ..FlashShape::of_nand(page_bytes, pages, 0) },
        container: Container::Tree(own),
        format: FormatOptions::default(),
        uuid: None,
        volume_bytes: None,
        overrides: Overrides::default(),
        device_table: None,
    };
    let path = folder.join("built");
    let out = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    build(&Source::Directory(folder.join("root")), out, &options).unwrap()
}

/// Builds the sample, and compares what is read of it with the folder, and with the image that is built of the folder again.
fn comes_back(shape: (u32, u32), own: TreeOptions) -> Built {
    let folder = tempfile::tempdir().unwrap();
    sample_tree(&folder.path().join("root"));
    let report = built(folder.path(), shape, own);
    let path = folder.path().join("built");
    let first = std::fs::read(&path).unwrap();
    let seen = tree(&path);
    assert_eq!(seen["text"].data, text(), "{own:?}");
    assert_eq!(seen["etc/same"].data, text(), "{own:?}");
    assert_eq!(seen["etc/noise"].data, noise(5000), "{own:?}");
    assert_eq!(seen["nothing"].data, b"", "{own:?}");
    for number in 0..60 {
        assert_eq!(seen[&format!("etc/deep/{number}")].data, number.to_string().into_bytes(), "{own:?}");
    }
    assert!(damage(&checked(&path)).is_empty(), "{own:?}");
    built(folder.path(), shape, own);
    assert!(std::fs::read(&path).unwrap() == first, "{own:?}");
    report
}

#[test]
fn files_of_exfat_in_a_row_and_apart_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &unzipped(EXFAT));
    let seen = tree(&path);
    assert_eq!((&seen["bin/tool"].data, &seen["bin/noise"].data), (&text(), &noise(700)));
    assert_eq!((&seen["etc/hostname"].data[..], &seen["nothing"].data[..]), (&b"board\n"[..], &b""[..]));
    assert_eq!(seen["etc/a name of some length 11"].data, b"11\n");
    // What was not written yet reads as zeros, and one o'clock in a zone an hour ahead is midnight.
    let mut half = vec![0; 8000];
    half[..5000].fill(b'x');
    assert_eq!(seen["half"].data, half);
    assert_eq!(seen["bin/tool"].mtime, TIME - 3600);
    assert_eq!(seen["empty"].file_type, FileType::Directory);
    let image = Image::open(&path, Access::Read).unwrap();
    let info = floatgate_image::info::info(&image).unwrap().to_string();
    assert!(info.contains("exFAT") && info.contains("label: CARD"), "{info}");
}

#[test]
fn a_built_yaffs2_comes_back() {
    let own = YaffsOptions { big_endian: false, oob_bytes: 64, tags_at: 2 };
    let report = comes_back((2048, 64), TreeOptions::Yaffs(own));
    assert_eq!(report.losses, []);
}

#[test]
#[ignore = "the matrix; ./test --all"]
fn slow_yaffs2_comes_back_in_all_shapes() {
    for (page, oob, tags_at) in [
        (2048, 64, 0),
        (2048, 64, 30),
        (2048, 0, 0),
        (4096, 128, 2),
        (4096, 224, 2),
        (4096, 0, 0),
        (8192, 256, 2),
    ] {
        for big_endian in [false, true] {
            let own = YaffsOptions { big_endian, oob_bytes: oob, tags_at };
            assert_eq!(comes_back((page, 64), TreeOptions::Yaffs(own)).losses, []);
        }
    }
}

#[test]
fn a_built_littlefs_and_spiffs_come_back() {
    // Losses of all files, such as owners, depend on who runs the test.
    let own = |report: Built| report.losses.iter().filter(|loss| loss.path != "/").count();
    assert_eq!(own(comes_back((256, 16), TreeOptions::Littlefs { bytes: 256 << 10 })), 1);
    assert_eq!(own(comes_back((256, 16), TreeOptions::Spiffs { bytes: 256 << 10 })), 2);
}

#[test]
#[ignore = "the matrix; ./test --all"]
fn slow_littlefs_and_spiffs_come_back_in_all_shapes() {
    for (page, pages) in [(128, 4), (256, 2), (256, 16), (512, 64)] {
        comes_back((page, pages), TreeOptions::Littlefs { bytes: u64::from(page * pages) * 200 });
    }
    for (page, pages) in [(128, 32), (256, 16), (256, 256), (512, 64), (1024, 16)] {
        comes_back((page, pages), TreeOptions::Spiffs { bytes: u64::from(page * pages) * 50 });
    }
}

/// Random changes at places that are not erased: headers, tags and states among them.
#[test]
fn changed_yaffs2_and_levelled_partitions_end() {
    let changes = floatgate_testing::few_or_all(8, 2000);
    let yaffs = YAFFS.map(|image| (image, floatgate_image::fuzzing::yaffs as fn(&[u8])));
    let levelled = LEVELLED.map(|image| (image, floatgate_image::fuzzing::wear_levelling as fn(&[u8])));
    let both = [yaffs.as_slice(), levelled.as_slice()];
    for (image, run) in both.concat() {
        let sound = unzipped(image);
        let places: Vec<usize> = (0..sound.len()).filter(|at| sound[*at] != 0xFF).collect();
        let mut draws = noise(8 * changes * 6).into_iter();
        let mut draw = |below: usize| {
            let number = draws.by_ref().take(4).fold(0_usize, |number, byte| number << 8 | usize::from(byte));
            number % below
        };
        for change in 0..changes {
            let mut bytes = sound.clone();
            for _ in 0..1 + change % 6 {
                let at = places[draw(places.len())];
                bytes[at] ^= 1 << draw(8);
            }
            run(&bytes);
            bytes.truncate(draw(bytes.len()));
            run(&bytes);
        }
    }
}

/// A map is drawn with each part where it is, and names of the dump are text in it.
#[test]
fn a_map_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &unzipped(LEVELLED[0]));
    let mut map = map(&Image::open_any(&path, None).unwrap()).unwrap();
    map.parts[0].name = Some("<b>&\u{1b}".to_owned());
    let picture = map.picture();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains("FAT under wear levelling &lt;b&gt;&amp;\u{FFFD}: 512 KiB at 0x0"), "{picture}");
    assert!(picture.contains("prefers-color-scheme:dark"));
}
