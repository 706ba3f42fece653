//! Maps of dumps: formats in files of other tools, with all kinds of damage.

use std::io::Write as _;

use crate::FlashSizes;
use crate::env::{self, SetVariable};
use crate::extract::{ExtractLimits, extract_all};
use crate::image::Image;
use crate::map::{Checksum, FlashMap, Kind, Part, Value, map};

/// File of a tool: its format, its bytes, and its number of inner parts.
type Sample = (Kind, &'static [u8], usize);

const SAMPLES: [Sample; 14] = [
    (Kind::Squashfs, include_bytes!("data/a.squashfs"), 0),
    (Kind::Erofs, include_bytes!("data/a.erofs"), 0),
    (Kind::Cramfs, include_bytes!("data/a.cramfs"), 0),
    (Kind::Romfs, include_bytes!("data/a.romfs"), 0),
    (Kind::UImage, include_bytes!("data/a.uimage"), 1),
    (Kind::Fit, include_bytes!("data/a.fit"), 2),
    (Kind::Fit, include_bytes!("data/ext.fit"), 2),
    (Kind::DeviceTree, include_bytes!("data/a.dtb"), 0),
    (Kind::UbootEnv, include_bytes!("data/single.env"), 0),
    (Kind::UbootEnv, include_bytes!("data/redundant.env"), 0),
    (Kind::Littlefs, include_bytes!("data/a.littlefs"), 0),
    (Kind::Ext, include_bytes!("data/a.ext4"), 0),
    (Kind::F2fs, include_bytes!("data/a.f2fs"), 0),
    (Kind::Fat, include_bytes!("data/a.fat"), 0),
];

/// Formats of which the test has only the start.
const CUT: [Kind; 3] = [Kind::Ext, Kind::F2fs, Kind::Fat];

/// Formats with a checksum over the bytes that the tests change.
const SUMMED: [Kind; 5] = [Kind::Cramfs, Kind::UImage, Kind::Fit, Kind::UbootEnv, Kind::Littlefs];

const BLOCK: usize = 64 << 10;

pub(super) fn map_of(bytes: &[u8]) -> FlashMap {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    map(&Image::over_any(file, FlashSizes::default()).unwrap()).unwrap()
}

/// Flash that is erased, except for these bytes at starts of blocks.
fn flash(parts: &[&[u8]]) -> Vec<u8> {
    let mut flash = Vec::new();
    for part in parts {
        flash.extend_from_slice(part);
        flash.resize(flash.len().next_multiple_of(BLOCK), 0xFF);
    }
    flash
}

/// Checks that each byte belongs to exactly one part of the lowest level.
fn assert_complete(map: &FlashMap) {
    let mut at = 0;
    for part in map.top() {
        assert_eq!(part.offset, at, "{map:#?}");
        at = part.end();
    }
    assert_eq!(at, map.size);
}

fn text(part: &Part, name: &str) -> Option<String> {
    part.facts.0.iter().find(|fact| fact.0 == name).map(|fact| match &fact.1 {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
    })
}

#[test]
fn what_tools_make_is_found_with_its_checksum() {
    for (kind, bytes, inner) in SAMPLES {
        let is_cut = CUT.contains(&kind);
        let flash = if is_cut { bytes.to_vec() } else { flash(&[&[0x5A; 100], bytes, &[0; 5000]]) };
        let map = map_of(&flash);
        assert_complete(&map);
        let at = if is_cut { 0 } else { BLOCK as u64 };
        let part = map.top().find(|part| part.offset == at).unwrap();
        let sum = match kind {
            Kind::Squashfs | Kind::DeviceTree => Checksum::None,
            Kind::Ext | Kind::F2fs | Kind::Fat => Checksum::Truncated,
            _ => Checksum::Good,
        };
        assert_eq!((part.kind, part.checksum), (kind, sum), "{map:#?}");
        assert_eq!(map.parts.iter().filter(|part| part.level == 1).count(), inner, "{map:#?}");
    }
}

#[test]
fn a_whole_flash_has_a_name_for_each_byte() {
    let all: Vec<&[u8]> =
        SAMPLES.iter().filter(|sample| !CUT.contains(&sample.0)).map(|sample| sample.1).collect();
    let map = map_of(&flash(&all));
    assert_complete(&map);
    let kinds: Vec<Kind> = map.top().map(|part| part.kind).filter(|kind| !kind.is_gap()).collect();
    let expected: Vec<Kind> =
        SAMPLES.iter().map(|sample| sample.0).filter(|kind| !CUT.contains(kind)).collect();
    assert_eq!(kinds, expected);
    assert_eq!(map.damaged(), 0);
    let sources: Vec<&str> = map.partitions.iter().map(|partition| partition.source).collect();
    for source in ["mtdparts", "device tree"] {
        assert!(sources.contains(&source), "{sources:?}");
    }
    let kernel = map.partitions.iter().find(|partition| partition.name == "kernel").unwrap();
    assert_eq!((kernel.offset, kernel.len), (384 << 10, Some(4 << 20)));
}

#[test]
fn a_wrong_byte_is_seen_where_a_checksum_covers_it() {
    for (kind, bytes, _) in SAMPLES.into_iter().filter(|sample| SUMMED.contains(&sample.0)) {
        let mut damaged = 0;
        for at in (0..bytes.len()).step_by(bytes.len() / 50 + 1) {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 0x10;
            let map = map_of(&flash(&[&bytes]));
            assert_complete(&map);
            let is_good = map
                .top()
                .any(|part| part.kind == kind && part.offset == 0 && part.checksum == Checksum::Good);
            damaged += usize::from(!is_good);
        }
        assert!(damaged > 1, "{kind:?}: {damaged}");
    }
}

#[test]
fn truncated_and_changed_dumps_make_a_map() {
    let all: Vec<u8> = SAMPLES.iter().flat_map(|sample| sample.1.iter().copied()).collect();
    for len in (1..all.len()).step_by(997) {
        assert_complete(&map_of(&all[..len]));
    }
    let mut seed = 1_u32;
    for _ in 0..40 {
        let mut bytes = all.clone();
        for _ in 0..200 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = seed as usize % bytes.len();
            bytes[at] = (seed >> 24) as u8;
        }
        assert_complete(&map_of(&bytes));
    }
}

#[test]
fn the_environment_that_uboot_uses_is_named() {
    let first = include_bytes!("data/redundant.env").to_vec();
    let mut second = first.clone();
    second[4] = 2;
    let sum = !floatgate_media::crc::ubi(&second[5..]);
    second[..4].copy_from_slice(&sum.to_le_bytes());
    let copies = |first: &[u8], second: &[u8]| {
        let map = map_of(&flash(&[&[1; 9], first, second]));
        let envs: Vec<&Part> = map.top().filter(|part| part.kind == Kind::UbootEnv).collect();
        envs.iter().map(|env| (text(env, "copy").unwrap(), env.checksum)).collect::<Vec<_>>()
    };
    let named = |name: &str, sum| (name.to_owned(), sum);
    assert_eq!(
        copies(&first, &second),
        [named("redundant", Checksum::Good), named("active", Checksum::Good)]
    );
    second[100] ^= 1;
    assert_eq!(copies(&first, &second), [named("active", Checksum::Good), named("redundant", Checksum::Bad)]);
}

#[test]
fn a_damaged_superblock_within_a_dump_is_a_bad_part() {
    for (kind, bytes, _) in SAMPLES.iter().filter(|sample| matches!(sample.0, Kind::Squashfs | Kind::Erofs)) {
        let mut bytes = bytes.to_vec();
        let fields = if *kind == Kind::Squashfs { 4..96 } else { 1028..1152 };
        bytes[fields].fill(0xA5);
        let map = map_of(&flash(&[&[0x5A; 100], &bytes, &[7; 5000]]));
        assert_complete(&map);
        let part = map.top().find(|part| part.offset == BLOCK as u64).unwrap();
        assert_eq!((part.kind, part.checksum, map.damaged()), (*kind, Checksum::Bad, 1), "{map:#?}");
    }
    // An older version is no damage.
    let mut old = SAMPLES[0].1.to_vec();
    old[28] = 3;
    assert_eq!(map_of(&flash(&[&old])).damaged(), 0);
}

#[test]
fn a_cut_device_tree_is_cut_off() {
    for (kind, bytes) in
        [(Kind::Fit, &include_bytes!("data/a.fit")[..]), (Kind::DeviceTree, include_bytes!("data/a.dtb"))]
    {
        for len in [bytes.len() / 2, bytes.len() - 1] {
            let map = map_of(&bytes[..len]);
            let part = map.top().next().unwrap();
            assert_eq!((part.kind, part.checksum, part.len), (kind, Checksum::Truncated, len as u64));
            assert_eq!(map.to_string().matches("1 damaged").count(), 1, "{map}");
        }
    }
}

#[test]
fn a_cut_or_damaged_flash_filesystem_is_not_good() {
    let geometry = super::Geometry::nand_2048(60);
    let (ubi, bare) = (super::usual(&geometry), super::bare(400));
    let cut = 10 * geometry.erase_bytes as usize + 5000;
    let bare_end = bare.len() - 20_000;
    for (kind, bytes, end) in [(Kind::Ubi, ubi, cut), (Kind::Ubifs, bare, bare_end)] {
        let whole = map_of(&bytes);
        assert_eq!((whole.parts[0].kind, whole.damaged()), (kind, 0), "{whole:#?}");
        let cut = map_of(&bytes[..end]);
        assert_eq!((cut.parts[0].kind, cut.parts[0].checksum), (kind, Checksum::Truncated), "{cut:#?}");
    }
    let geometry = super::jffs2::nor(8, 65_536);
    let mut bytes = super::jffs2::made(&geometry, floatgate_media::jffs2::Endian::Little, false, 3, 100_000);
    assert_eq!(map_of(&bytes).damaged(), 0);
    bytes[20_000] ^= 1;
    let map = map_of(&bytes);
    assert_eq!((map.parts[0].kind, map.parts[0].checksum), (Kind::Jffs2, Checksum::Bad), "{map:#?}");
}

#[test]
fn a_damaged_part_is_a_problem_of_the_extraction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    let image = include_bytes!("data/a.uimage");
    let mut wrong = image.to_vec();
    wrong[image.len() - 1] ^= 1;
    for (number, bytes) in [&wrong[..], &image[..image.len() - 1], &image[..64]].into_iter().enumerate() {
        std::fs::write(&path, bytes).unwrap();
        let image = Image::open_any(&path, None).unwrap();
        let out = folder.path().join(number.to_string());
        let all = extract_all(&image, &map(&image).unwrap(), &out, &ExtractLimits::default(), false).unwrap();
        assert!(all.parts[0].problem.is_some(), "{all:#?}");
        assert_eq!(all.parts.len(), 2, "{all:#?}");
    }
}

/// Copy of the redundant environment with a flag and its CRC.
fn copy_with(flag: u8) -> Vec<u8> {
    let mut copy = include_bytes!("data/redundant.env").to_vec();
    copy[4] = flag;
    let sum = !floatgate_media::crc::ubi(&copy[5..]);
    copy[..4].copy_from_slice(&sum.to_le_bytes());
    copy
}

#[test]
fn a_change_goes_into_the_damaged_copy_of_an_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash.bin");
    let (good, len) = (copy_with(7), copy_with(7).len());
    let damages: [fn(&mut [u8]); 4] =
        [|copy| copy[0] ^= 1, |copy| copy[60] ^= 1, |copy| copy[40..].fill(0xFF), |copy| copy.fill(0xFF)];
    for damage in damages {
        let mut bad = copy_with(6);
        damage(&mut bad);
        for bad_at in [0, 1] {
            let mut pair = [&good, &good];
            pair[bad_at] = &bad;
            std::fs::write(&path, pair.map(Vec::as_slice).concat()).unwrap();
            let before = env::read(&Image::open_any(&path, None).unwrap(), None).unwrap();
            let sums: Vec<Checksum> = before.copies.iter().map(|copy| copy.checksum).collect();
            let expected =
                if bad_at == 0 { [Checksum::Bad, Checksum::Good] } else { [Checksum::Good, Checksum::Bad] };
            assert_eq!(sums, expected);
            env::change(&path, FlashSizes::default(), None, &[set("new", Some("1"))], None).unwrap();
            let after = std::fs::read(&path).unwrap();
            assert_eq!(after[(1 - bad_at) * len..][..len], good);
            let read = env::read(&Image::open_any(&path, None).unwrap(), None).unwrap();
            assert_eq!((read.copies[bad_at].flag, read.copies[bad_at].active), (Some(8), true));
            assert_eq!(read.get("new"), Some("1"));
        }
    }
    // In a large erased range, the other copy may be at any offset.
    let alone = flash(&[&[1; 9], &good, &[1; 9]]);
    std::fs::write(&path, &alone).unwrap();
    let error = env::change(&path, FlashSizes::default(), None, &[set("new", Some("1"))], None);
    assert!(matches!(error, Err(env::EnvError::Lost(at)) if at == BLOCK as u64), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), alone);
}

#[test]
fn zeros_are_read_a_few_times_only() {
    use crate::map::probes::{Begins, PROBES};
    use crate::map::view::View;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![0; 16 << 20]).unwrap();
    let image = Image::over_any(file, FlashSizes::default()).unwrap();
    let store = image.store().unwrap();
    let budget = std::cell::Cell::new(u64::MAX);
    let view = View::new(&*store, &budget);
    for probe in PROBES {
        if matches!(probe.begins, Begins::Head { test, .. } if test(&[0; 4096])) {
            assert!((probe.probe)(&view).is_none());
        }
    }
    assert!(u64::MAX - budget.get() < 16 << 10, "{}", u64::MAX - budget.get());
}

#[test]
fn work_and_memory_are_bounded() {
    // Each sector begins like an environment, and each word like a device tree or a sparse image.
    let bytes: Vec<u8> = b"\0\0\0\0a=b\0".iter().copied().cycle().take(512 << 10).collect();
    assert_complete(&map_of(&bytes));
    let trees: Vec<u8> = [0xD0, 0x0D, 0xFE, 0xED].into_iter().cycle().take(256 << 10).collect();
    assert_complete(&map_of(&trees));
}

fn set(name: &str, value: Option<&str>) -> SetVariable {
    SetVariable { name: name.to_owned(), value: value.map(str::to_owned) }
}

#[test]
fn a_changed_environment_is_the_one_that_uboot_uses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash.bin");
    let redundant = include_bytes!("data/redundant.env");
    let single = include_bytes!("data/single.env");
    for parts in [vec![&[1; 9][..], redundant, redundant], vec![single]] {
        let before = flash(&parts);
        std::fs::write(&path, &before).unwrap();
        let changes = [set("bootdelay", Some("9")), set("bootcmd", None), set("new", Some("a=b"))];
        let changed = env::change(&path, FlashSizes::default(), None, &changes, None).unwrap();
        let read = env::read(&Image::open_any(&path, None).unwrap(), None).unwrap();
        assert_eq!(
            (read.get("bootdelay"), read.get("bootcmd"), read.get("new")),
            (Some("9"), None, Some("a=b"))
        );
        assert_eq!(read.variables, changed.variables);
        assert_eq!(read.copies, changed.copies);
        assert!(read.copies.iter().all(|copy| copy.checksum == Checksum::Good));
        // The copy in use is unchanged, except for the flag of NOR.
        let after = std::fs::read(&path).unwrap();
        let old = read.copies.iter().find(|copy| !copy.active);
        for at in old.into_iter().flat_map(|copy| copy.offset as usize + 5..(copy.offset + copy.len) as usize)
        {
            assert_eq!(before[at], after[at]);
        }
    }
}

#[test]
fn an_environment_that_cannot_be_changed_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("env");
    let single = include_bytes!("data/single.env");
    std::fs::write(&path, single).unwrap();
    let long = "x".repeat(single.len());
    for change in [set("a", Some(&long)), set("a b", Some("1")), set("", Some("1")), set("a", Some("b\0"))] {
        env::change(&path, FlashSizes::default(), None, &[change], None).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), single);
    }
}

#[test]
fn all_parts_are_extracted_into_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("flash.bin"), folder.path().join("out"));
    let fit = include_bytes!("data/a.fit");
    // A name of an image that leads out of the folder.
    let hostile: Vec<u8> = fit.to_vec();
    let at = memchr::memmem::find(&hostile, b"kernel\0").unwrap();
    let mut hostile = hostile;
    hostile[at..at + 6].copy_from_slice(b"../../");
    std::fs::write(&path, flash(&[&[7; 9000], include_bytes!("data/a.squashfs"), &hostile])).unwrap();
    let image = Image::open_any(&path, None).unwrap();
    let map = map(&image).unwrap();
    let all = extract_all(&image, &map, &out, &ExtractLimits::default(), false).unwrap();
    assert!(all.parts.len() >= 5, "{all:#?}");
    let files = std::fs::read_dir(&out).unwrap().count();
    let folders = all.parts.iter().filter(|part| part.folder.is_some()).count();
    assert_eq!(files, all.parts.len() + folders);
    for part in &all.parts {
        assert_eq!(std::fs::metadata(out.join(&part.file)).unwrap().len(), part.len);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    // A folder with files is not changed.
    extract_all(&image, &map, &out, &ExtractLimits::default(), false).unwrap_err();
    let small = ExtractLimits { bytes: 100, ..ExtractLimits::default() };
    extract_all(&image, &map, &folder.path().join("small"), &small, false).unwrap_err();
}

#[test]
fn small_filesystems_become_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("flash.bin"), folder.path().join("out"));
    let parts: [&[u8]; 2] = [include_bytes!("data/a.cramfs"), include_bytes!("data/a.romfs")];
    std::fs::write(&path, flash(&parts)).unwrap();
    let image = Image::open_any(&path, None).unwrap();
    let all = extract_all(&image, &map(&image).unwrap(), &out, &ExtractLimits::default(), false).unwrap();
    assert_eq!(all.losses, []);
    let folders: Vec<&String> = all.parts.iter().filter_map(|part| part.folder.as_ref()).collect();
    assert_eq!(folders.len(), 2, "{all:#?}");
    for name in folders {
        let tree = out.join(name);
        assert_eq!(std::fs::read(tree.join("etc/hostname")).unwrap(), b"board\n");
        assert_eq!(std::fs::read_link(tree.join("etc/name")).unwrap(), std::path::Path::new("hostname"));
    }
}

#[test]
fn damaged_small_filesystems_end() {
    let parts: [&[u8]; 2] = [include_bytes!("data/a.cramfs"), include_bytes!("data/a.romfs")];
    let folder = tempfile::tempdir().unwrap();
    let limits = ExtractLimits { bytes: 1 << 20, entries: 1000, depth: 16 };
    for bytes in parts {
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        for at in (0..used).step_by(used / 60 + 1) {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 0x41;
            let file = folder.path().join("dump");
            std::fs::write(&file, &bytes).unwrap();
            let image = Image::open_any(&file, None).unwrap();
            let out = tempfile::tempdir().unwrap();
            let _ = extract_all(&image, &map(&image).unwrap(), &out.path().join("out"), &limits, false);
            assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 1);
        }
    }
}
