//! Checks and repairs of images with known damage.

use floatgate_mtd::random::Random;
use std::path::PathBuf;

use floatgate_media::ubi::{LAYOUT_VOLUME, VolumeType};
use floatgate_stack::fs::{NewFile, NewKind, Rename};
use floatgate_stack::ubifs::MountOptions;
use tempfile::TempDir;

use super::*;
use crate::check::{CheckReport, Layer, Outcome, check};
use crate::diff::{DiffOptions, DiffReport, Presence, diff};
use crate::dump::{Area, DumpTarget, Dumped, dump};
use crate::raw::read_raw;
use crate::repair::{Method, RepairReport, Repaired, repair};

fn small() -> Geometry {
    Geometry::nand_512(220)
}

fn any() -> Selection {
    Selection::default()
}

fn checked(bytes: &[u8]) -> CheckReport {
    check(&open(bytes), &any()).unwrap()
}

fn found(bytes: &[u8], wanted: &DumpTarget) -> Vec<Dumped> {
    dump(&open(bytes), &any(), wanted).unwrap()
}

/// Offset of a structure that occurs once.
fn byte_of(bytes: &[u8], wanted: &DumpTarget) -> usize {
    usize::try_from(found(bytes, wanted)[0].at.unwrap()).unwrap()
}

fn path(path: &str) -> DumpTarget {
    DumpTarget::Path { path: path.into(), block: None, entry: false }
}

fn field(dumped: &Dumped, name: &str) -> u32 {
    dumped.fields.iter().find(|field| field.name == name).unwrap().value.parse().unwrap()
}

/// Image with one wrong byte at each of these offsets.
fn hit(bytes: &[u8], places: &[usize]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    places.iter().for_each(|&at| bytes[at] ^= 0x10);
    bytes
}

/// Repaired image: the report, and its bytes.
fn repaired(bytes: &[u8]) -> (RepairReport, Vec<u8>) {
    let folder = TempDir::new().unwrap();
    let [from, to]: [PathBuf; 2] = ["image", "repaired"].map(|name| folder.path().join(name));
    std::fs::write(&from, bytes).unwrap();
    let report = repair(&from, &to, &Selection::default()).unwrap();
    assert!(std::fs::read(&from).unwrap() == bytes, "the image itself stays");
    (report, std::fs::read(&to).unwrap())
}

fn compared(one: &[u8], other: &[u8]) -> DiffReport {
    diff([(&open(one), &any()), (&open(other), &any())], &DiffOptions::default()).unwrap()
}

/// Undamaged parts of a file stay unchanged byte for byte, independent of the repair of other parts.
#[test]
fn a_repair_leaves_clean_partitions_as_they_are() {
    let (front, behind) = (live(&Geometry::nand_2048(60)), live(&Geometry::nand_4096(40)));
    let middle = live(&small());
    let parts = [front.as_slice(), &middle, &behind];
    let at = byte_of(&middle, &path("/dir-0/file-14000"));
    for (part, damaged) in [(1, hit(&middle, &[at + 60])), (1, hit(&middle, &[20])), (1, middle.clone())] {
        let mut parts = parts;
        parts[part] = &damaged;
        let bytes = parts.concat();
        let (report, out) = repaired(&bytes);
        let is_whole = damaged == middle;
        assert_eq!(report.outcome == Repaired::Intact, is_whole);
        assert_eq!((report.bytes_before, report.bytes), (bytes.len() as u64, out.len() as u64));
        assert!(out[..front.len()] == front);
        assert!(out[front.len() + middle.len()..] == behind);
        assert_eq!(checked(&out).outcome, Outcome::Clean);
    }
}

/// Device with one more file in its filesystem, which is unmounted or not.
fn changed(bytes: &[u8], name: &[u8], clean: bool) -> Vec<u8> {
    let ubi = Ubi::attach(flash(bytes.to_vec(), &small()), &AttachOptions::default());
    let volume = ubi.unwrap_or_else(|refused| panic!("{}", refused.fault)).open_volume(0);
    let volume = volume.unwrap_or_else(|(error, _)| panic!("{error}"));
    let fs = Ubifs::mount(volume, &MountOptions::default(), Behaviour::default());
    let mut fs = fs.unwrap_or_else(|(error, _)| panic!("{error}"));
    let (root, new) = (fs.root(), NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 });
    let file = fs.create(root, name, &new).unwrap();
    fs.write(file, 0, name).unwrap();
    fs.fsync(file).unwrap();
    let volume = if clean { fs.unmount().map_err(|(error, _)| error).unwrap() } else { fs.abandon() };
    volume.into_ubi().into_mtd().into_store()
}

/// The same image in two partitions, as in a system with alternating updates.
#[test]
fn partitions_of_one_image_stay_apart() {
    let whole = live(&small());
    let len = whole.len();
    for (clean, damaged) in [(true, false), (false, false), (true, true), (false, true)] {
        let [mut front, behind] = [b"a", b"b"].map(|name| changed(&whole, name, clean));
        if damaged {
            let at = byte_of(&front, &path("/dir-0/file-14000"));
            front[at + 60] ^= 0x10;
        }
        let bytes = [front.as_slice(), &behind].concat();
        let offsets = |bytes: &[u8]| open(bytes).found.iter().map(|found| found.offset).collect::<Vec<_>>();
        assert_eq!(offsets(&bytes), [0, len as u64], "{clean}, {damaged}");
        let (report, out) = repaired(&bytes);
        assert_eq!(report.losses.is_empty(), !damaged, "{report:#?}");
        assert_eq!((out.len(), offsets(&out)), (2 * len, vec![0, len as u64]));
        assert!(!clean || out[len..] == behind);
        for (part, name) in [(0, b"a"), (len, b"b")] {
            let part = &out[part..part + len];
            let at = byte_of(
                part,
                &DumpTarget::Path { path: [&b"/"[..], name].concat(), block: None, entry: false },
            );
            assert!(at < len);
        }
    }
}

/// Undamaged parts of a device are copied: no volume grows because of damage in another one, and no device grows
/// without need.
#[test]
fn a_repair_keeps_the_volumes_that_are_whole() {
    let geometry = small();
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 100)).unwrap();
        ubi.create_volume(&NewVolume::dynamic("other", 80)).unwrap();
    });
    let bytes = format(bytes, &geometry, 0, true, |fs| populate(fs, 1));
    let bytes = in_order(&format(bytes, &geometry, 1, true, |fs| populate(fs, 2)), &geometry);
    let of = |name: &str| Selection { volume: Some(name.into()), ..Selection::default() };
    let wanted = path("/dir-0/file-14000");
    let at = dump(&open(&bytes), &of("other"), &wanted).unwrap()[0].at.unwrap() as usize;
    // As in images of ubinize, the erased PEBs are not in the image.
    let used = bytes.chunks(16 << 10).rposition(|peb| vid_header(peb).is_some()).unwrap() + 1;
    let bytes = hit(&bytes[..used * (16 << 10)], &[at + 60]);
    let (report, out) = repaired(&bytes);
    assert_eq!(report.grown, []);
    assert!(report.losses.iter().all(|loss| loss.what.starts_with("volume other: ")), "{:?}", report.losses);
    assert!(out.len() <= bytes.len(), "{} bytes instead of {}", out.len(), bytes.len());
    let lebs = |image: &[u8]| {
        let mut lebs: Vec<Vec<u8>> = image
            .chunks(16 << 10)
            .filter(|peb| vid_header(peb).is_some_and(|vid| vid.volume_id == 0))
            .map(|peb| peb[1024..].to_vec())
            .collect();
        lebs.sort();
        lebs
    };
    assert!(lebs(&bytes) == lebs(&out));
}

/// Checks and repairs an image with wrong bytes at these offsets. All files except the `lost` paths must be restored.
fn assert_saved(whole: &[u8], places: &[usize], structure: &str, outcome: Outcome, lost: &[&str]) {
    let bytes = hit(whole, places);
    let report = checked(&bytes);
    let shown = || format!("{structure}: {:#?}", report.findings);
    assert_eq!(report.outcome, outcome, "{}", shown());
    let hits = |finding: &&crate::check::Finding| {
        let begins = finding.offset.unwrap_or(u64::MAX);
        finding.structure.name() == structure
            && places.iter().any(|&at| (begins..begins + 4500).contains(&(at as u64)))
    };
    assert!(
        report.findings.iter().filter(|finding| finding.severity == outcome).any(|f| hits(&f)),
        "{}",
        shown()
    );
    let (done, out) = repaired(&bytes);
    assert_eq!(checked(&out).outcome, Outcome::Clean);
    let differences = compared(whole, &out);
    assert_eq!(differences.trouble, []);
    let near = |path: &str| lost.contains(&path) || path.starts_with("/lost+found");
    let other: Vec<_> = differences.differences.iter().filter(|difference| !near(&difference.path)).collect();
    assert!(other.is_empty(), "{structure}: {other:#?}");
    for difference in &differences.differences {
        let told = done.losses.iter().any(|loss| loss.path == difference.path)
            || difference.path == "/"
            || difference.path.starts_with("/lost+found")
            || done.nameless > 0;
        assert!(told, "{structure}: {difference:?} is not told: {:#?}", done.losses);
    }
}

#[test]
fn clean_images_are_clean() {
    for geometry in [small(), Geometry::nand_2048(60), Geometry::nand_4096(60), Geometry::nor(60, 65_536)] {
        let bytes = usual(&geometry);
        let report = checked(&bytes);
        assert_eq!((report.outcome, report.findings), (Outcome::Clean, Vec::new()));
        let volume = &report.images[0].volumes[0];
        assert_eq!((volume.name.as_deref(), volume.directories, volume.files), (Some("root"), 13, 87));
        assert!(volume.mounts);
    }
    assert_eq!(checked(&bare(400)).outcome, Outcome::Clean);
}

#[test]
fn what_was_not_unmounted_is_recoverable() {
    let geometry = small();
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 200)).unwrap();
    });
    let bytes = format(bytes, &geometry, 0, false, |fs| {
        fs.sync().unwrap();
        populate(fs, 1);
        let root = fs.root();
        let names = [b"tty", b"fee"].map(|name| floatgate_stack::fs::Name { directory: root, name });
        fs.rename(names[0], names[1], Rename::Replace).unwrap();
        let all = fs.read_dir(root, None, usize::MAX).unwrap();
        all.iter().for_each(|entry| fs.fsync(entry.inode).unwrap());
        // This wrote all changes, without a commit.
        fs.fsync(root).unwrap();
    });
    let report = checked(&bytes);
    assert_eq!(report.outcome, Outcome::Recoverable, "{:#?}", report.findings);
    assert!(report.findings.iter().any(|finding| finding.structure.name() == "journal"));
    let (done, out) = repaired(&bytes);
    assert_eq!((done.method, done.outcome), (Method::Recovered, Repaired::Wholly));
    let same = compared(&bytes, &out);
    assert!(same.is_same() && same.trouble.is_empty() && same.entries > 10, "{same:#?}");
}

#[test]
fn damage_of_ubi_is_told_and_repaired() {
    let whole = usual(&small());
    let peb = small().erase_bytes as usize;
    let data = byte_of(&whole, &path("/dir-2/file-14000")) / peb * peb;
    // The volume table is first.
    assert_eq!(vid_header(&whole).unwrap().volume_id, LAYOUT_VOLUME);
    let vid = vid_at(&whole);
    let table = data_at(&whole);
    assert_saved(&whole, &[data + 9], "EC header", Outcome::Recoverable, &[]);
    assert_saved(&whole, &[9], "EC header", Outcome::Recoverable, &[]);
    assert_saved(&whole, &[data + vid + 12], "VID header", Outcome::Damaged, &[]);
    let gone: Vec<usize> = (data + vid..data + vid + 60).collect();
    assert_saved(&whole, &gone, "VID header", Outcome::Damaged, &[]);
    assert_saved(&whole, &[table + 20], "volume table", Outcome::Recoverable, &[]);
    assert_saved(&whole, &[peb + table + 20], "volume table", Outcome::Recoverable, &[]);
    assert_saved(&whole, &[table + 20, peb + table + 20], "volume table", Outcome::Damaged, &[]);
    assert_saved(&whole, &[table + 20, peb + table + 700], "volume table", Outcome::Damaged, &[]);
}

/// The newest PEB of a LEB is used for extraction and repair, even if one byte of its VID header is wrong.
#[test]
fn a_leb_is_read_where_the_newest_header_has_a_wrong_byte() {
    let geometry = small();
    let (image, peb) = (usual(&geometry), geometry.erase_bytes as usize);
    let header = |at: usize| vid_header(&image[at * peb..][..peb]);
    let newer = byte_of(&image, &path("/dir-2/file-14000")) / peb;
    let older = (0..image.len() / peb).find(|&at| header(at).is_none() && image[at * peb] == b'U').unwrap();
    let vid = header(newer).unwrap();
    let mut bytes = image.clone();
    bytes[older * peb + vid_at(&image)..][..64].copy_from_slice(&vid.emit());
    let newest = VidHeader { sqnum: vid.sqnum + 1000, ..vid };
    bytes[newer * peb + vid_at(&image)..][..64].copy_from_slice(&newest.emit());
    bytes[newer * peb + vid_at(&image) + 9] ^= 0x41;
    assert!(checked(&bytes).outcome == Outcome::Damaged, "Linux takes the older one, which is empty");
    assert_whole(&bytes, &any());
    let (_, repaired) = repaired(&bytes);
    assert_whole(&repaired, &any());
}

fn vid_at(bytes: &[u8]) -> usize {
    EcHeader::parse(&bytes[..64], ReadFlips::default()).unwrap().vid_header_offset as usize
}

fn data_at(bytes: &[u8]) -> usize {
    EcHeader::parse(&bytes[..64], ReadFlips::default()).unwrap().data_offset as usize
}

#[test]
fn damage_of_structures_is_told_and_repaired() {
    for whole in [usual(&small()), bare(400)] {
        let area = |area| found(&whole, &DumpTarget::Area(area));
        let at = |dumped: &Dumped| usize::try_from(dumped.at.unwrap()).unwrap();
        let masters = area(Area::Master);
        let last_of = |lnum| masters.iter().rfind(|node| node.leb == Some(lnum)).unwrap();
        let (first, second) = (last_of(1), last_of(2));
        let node = |lnum: &str, offset: &str| {
            let (lnum, offset) = (field(first, lnum), field(first, offset));
            byte_of(&whole, &DumpTarget::Leb { lnum, offset })
        };
        let all: Vec<usize> = masters.iter().map(|node| at(node) + 50).collect();
        let start = area(Area::Log).into_iter().rfind(|node| node.structure.starts_with("commit")).unwrap();
        let root = &area(Area::Index)[0];
        assert_saved(&whole, &[at(first) + 50], "master node", Outcome::Damaged, &[]);
        assert_saved(&whole, &[at(second) + 50], "master node", Outcome::Recoverable, &[]);
        assert_saved(&whole, &all, "master node", Outcome::Damaged, &[]);
        assert_saved(&whole, &[at(&start) + 25], "log", Outcome::Damaged, &[]);
        assert_saved(&whole, &[node("lpt_lnum", "lpt_offset") + 2], "LPT", Outcome::Damaged, &[]);
        assert_saved(&whole, &[node("ltab_lnum", "ltab_offset") + 2], "LPT", Outcome::Damaged, &[]);
        assert_saved(&whole, &[at(root) + 40], "index", Outcome::Damaged, &[]);
        let branch = root.fields.iter().rfind(|field| field.name == "branch").unwrap();
        let place = branch.value.split("LEB ").nth(1).unwrap().split(',').next().unwrap();
        let (lnum, offset) = place.split_once(':').unwrap();
        let inner = DumpTarget::Leb { lnum: lnum.parse().unwrap(), offset: offset.parse().unwrap() };
        assert_saved(&whole, &[byte_of(&whole, &inner) + 40], "index", Outcome::Damaged, &[]);
    }
}

#[test]
fn a_damaged_superblock_is_told_and_repaired() {
    let whole = usual(&small());
    let superblock = byte_of(&whole, &DumpTarget::Area(Area::Superblock));
    // In the unused part, in a field, and the whole node.
    assert_saved(&whole, &[superblock + 3000], "superblock", Outcome::Damaged, &[]);
    assert_saved(&whole, &[superblock + 48], "superblock", Outcome::Damaged, &[]);
    let all: Vec<usize> = (superblock..superblock + 200).collect();
    assert_saved(&whole, &all, "superblock", Outcome::Damaged, &[]);
}

/// Without an index, a block without remaining data looks like a hole.
#[test]
fn zeros_that_no_index_says_are_a_hole_are_listed() {
    let whole = usual(&small());
    let block =
        |number| DumpTarget::Path { path: "/dir-2/file-14000".into(), block: Some(number), entry: false };
    let [first, last] = [0, 3].map(|number| {
        let node = &found(&whole, &block(number))[0];
        let at = usize::try_from(node.at.unwrap()).unwrap();
        at..at + node.len
    });
    let superblock = byte_of(&whole, &DumpTarget::Area(Area::Superblock));
    let masters = found(&whole, &DumpTarget::Area(Area::Master));
    let masters: Vec<usize> = masters.iter().map(|node| node.at.unwrap() as usize + 50).collect();
    for lost in [vec![superblock], masters] {
        let mut bytes = hit(&whole, &lost);
        bytes[first.clone()].fill(0);
        bytes[last.clone()].fill(0);
        let (done, _) = repaired(&bytes);
        let holes: Vec<(&str, &str)> = done
            .losses
            .iter()
            .filter(|loss| loss.what.contains("zeros now"))
            .map(|loss| (loss.path.as_str(), loss.what.as_str()))
            .collect();
        let zeros = "4096 bytes from 0, 1712 bytes from 12288: zeros now: a hole, or data that are lost";
        let sparse = "299008 bytes from 0: zeros now: a hole, or data that are lost";
        assert_eq!(holes, [("/dir-2/file-14000", zeros), ("/second name", sparse)]);
    }
}

#[test]
fn damage_of_files_is_told_and_the_rest_saved() {
    let whole = usual(&small());
    let file = "/dir-2/file-14000";
    let block = DumpTarget::Path { path: file.into(), block: Some(1), entry: false };
    assert_saved(&whole, &[byte_of(&whole, &block) + 60], "data node", Outcome::Damaged, &[file]);
    assert_eq!(checked(&hit(&whole, &[byte_of(&whole, &block) + 60])).findings[0].layer, Layer::Data);
    let inode = byte_of(&whole, &path(file)) + 60;
    assert_saved(&whole, &[inode], "inode", Outcome::Damaged, &[file]);
    assert_eq!(checked(&hit(&whole, &[inode])).findings[0].paths, [file]);
    let entry = DumpTarget::Path { path: file.into(), block: None, entry: true };
    let entry = byte_of(&whole, &entry) + 57;
    assert_saved(&whole, &[entry], "directory entry", Outcome::Damaged, &[file, "/", "/dir-2"]);
    // The file exists under its number, with all its data.
    let (done, out) = repaired(&hit(&whole, &[entry]));
    let differences = compared(&whole, &out).differences;
    let only = |presence| differences.iter().filter(move |difference| difference.presence == presence);
    assert_eq!(done.nameless, u64::from(only(Presence::First).count() > 0), "{differences:#?}");
    let directory = byte_of(&whole, &path("/dir-3")) + 60;
    assert_saved(&whole, &[directory], "inode", Outcome::Damaged, &["/dir-3"]);
}

#[test]
fn orphans_are_checked() {
    let geometry = small();
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 200)).unwrap();
    });
    let bytes = format(bytes, &geometry, 0, false, |fs| {
        let root = fs.root();
        let new = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
        let file = fs.create(root, b"open", &new).unwrap();
        fs.write(file, 0, b"soon gone").unwrap();
        fs.open(file).unwrap();
        fs.unlink(root, b"open").unwrap();
        fs.sync().unwrap();
    });
    assert_eq!(checked(&bytes).outcome, Outcome::Recoverable);
    let orphan = byte_of(&bytes, &DumpTarget::Area(Area::Orphans));
    // The last write of the area: a power cut leaves the same state.
    let report = checked(&hit(&bytes, &[orphan + 30]));
    assert!(report.findings.iter().any(|finding| finding.structure.name() == "orphan area"), "{report:#?}");
    repaired(&hit(&bytes, &[orphan + 30]));
}

#[test]
fn static_volumes_and_others_are_kept() {
    let geometry = small();
    let kernel: Vec<u8> = (0..40_000).map(|at| (at % 251) as u8).collect();
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::fixed("kernel", 4)).unwrap();
        ubi.create_volume(&NewVolume::dynamic("root", 150)).unwrap();
        ubi.create_volume(&NewVolume::dynamic("raw", 5)).unwrap();
        let mut update = ubi.update_volume(0, kernel.len() as u64).unwrap();
        update.write(&kernel).unwrap();
        update.finish().unwrap();
        ubi.write_leb(2, 3, 512, &[7; 512]).unwrap();
    });
    let bytes = format(bytes, &geometry, 1, true, |fs| populate(fs, 1));
    assert_eq!(checked(&bytes).outcome, Outcome::Clean);
    let selection = Selection { volume: Some("root".to_owned()), ..Selection::default() };
    let inode = dump(&open(&bytes), &selection, &path("/dir-0")).unwrap()[0].at.unwrap() as usize;
    let (done, out) = repaired(&hit(&bytes, &[inode + 60]));
    assert_eq!(done.method, Method::Rebuilt, "{:#?}", checked(&out).findings);
    let mut ubi = Ubi::attach(flash(out, &geometry), &AttachOptions::default()).unwrap();
    let mut read = vec![0; kernel.len()];
    assert_eq!(ubi.read_volume(0, 0, &mut read).unwrap(), kernel.len());
    assert!(read == kernel);
    let mut page = [0; 1024];
    ubi.read_leb(2, 3, 0, &mut page).unwrap();
    assert!(page[..512] == [0xFF; 512] && page[512..] == [7; 512]);
    assert_eq!(ubi.volumes().map(|volume| volume.reserved_lebs).collect::<Vec<_>>(), [4, 150, 5]);
    // A wrong byte in the static volume.
    let at = bytes.windows(64).position(|window| window == &kernel[..64]).unwrap();
    let report = checked(&hit(&bytes, &[at]));
    assert!(report.findings.iter().any(|finding| finding.structure.name() == "static volume"), "{report:#?}");
}

/// A static volume can also contain a filesystem. The readable parts of a damaged one are written to a static volume
/// again.
#[test]
fn a_damaged_filesystem_in_a_static_volume_does_not_keep_the_others() {
    let geometry = small();
    let root = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 60)).unwrap();
    });
    let root = format(root, &geometry, 0, true, |fs| populate(fs, 1));
    let mut image = Vec::new();
    let of_root = |name: &str| Selection { volume: Some(name.to_owned()), ..Selection::default() };
    read_raw(&open(&root), &of_root("root"), &mut image).unwrap();
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("data", 60)).unwrap();
        ubi.create_volume(&NewVolume::fixed("system", 61)).unwrap();
        let mut update = ubi.update_volume(1, image.len() as u64).unwrap();
        update.write(&image).unwrap();
        update.finish().unwrap();
    });
    let bytes = format(bytes, &geometry, 0, true, |fs| populate(fs, 2));
    assert_eq!(checked(&bytes).outcome, Outcome::Clean);
    let inode = dump(&open(&bytes), &of_root("system"), &path("/dir-0")).unwrap()[0].at.unwrap() as usize;
    let damaged = hit(&bytes, &[inode + 60]);
    let report = checked(&damaged);
    let crc = report.findings.iter().find(|finding| finding.structure.name() == "static volume").unwrap();
    assert_eq!(crc.volume.as_deref(), Some("system"), "{crc:?}");
    let (done, out) = repaired(&damaged);
    assert_eq!(done.method, Method::Rebuilt);
    assert!(done.losses.iter().any(|loss| loss.what.contains("volume system")), "{:#?}", done.losses);
    for name in ["data", "system"] {
        let mounted = open(&out).mount(&of_root(name), false, Behaviour::default());
        assert!(mounted.unwrap().resolve(b"/dir-0").is_ok() || name == "system", "{name}");
    }
}

#[test]
fn intact_lebs_of_a_static_volume_stay_in_their_places() {
    let geometry = small();
    let (leb_bytes, peb_bytes) = (15_872, geometry.erase_bytes as usize);
    let kernel: Vec<u8> = (0..5 * leb_bytes + 100).map(|at| (at % 251) as u8).collect();
    let bytes = device(&geometry, 7, |ubi| {
        let id = ubi.create_volume(&NewVolume::fixed("kernel", 10)).unwrap();
        let mut update = ubi.update_volume(id, kernel.len() as u64).unwrap();
        update.write(&kernel).unwrap();
        update.finish().unwrap();
    });
    let without = |lost: &[u32]| {
        let mut bytes = bytes.clone();
        for peb in bytes.chunks_mut(peb_bytes) {
            if vid_header(peb).is_some_and(|vid| !vid.is_internal() && lost.contains(&vid.lnum)) {
                peb.fill(0);
            }
        }
        let (done, out) = repaired(&bytes);
        let mut ubi = Ubi::attach(flash(out, &geometry), &AttachOptions::default()).unwrap();
        let mut read = vec![0; kernel.len()];
        let len = ubi.read_volume(0, 0, &mut read).unwrap();
        read.truncate(len);
        (read, done.losses.into_iter().map(|loss| loss.what).collect::<Vec<_>>())
    };
    let (read, losses) = without(&[1, 3, 4]);
    let mut expected = kernel.clone();
    expected[leb_bytes..2 * leb_bytes].fill(0xFF);
    expected[3 * leb_bytes..5 * leb_bytes].fill(0xFF);
    assert!(read == expected, "{losses:?}");
    let lost = |which| format!("volume kernel: {which} of 6: lost, erased now");
    assert_eq!(losses, ["LEB 1", "LEBs 3 to 4"].map(lost));
    let (read, losses) = without(&[0, 5]);
    assert!(
        read[..leb_bytes] == vec![0xFF; leb_bytes] && read[leb_bytes..] == kernel[leb_bytes..5 * leb_bytes]
    );
    let end = "volume kernel: LEB 5 of 6: lost, the volume ends before";
    assert_eq!(losses, ["volume kernel: LEB 0 of 6: lost, erased now", end]);
}

/// Image as `ubinize` creates it: the file ends after the last PEB with data, and the volume has more LEBs.
fn short(geometry: &Geometry) -> Vec<u8> {
    let mut bytes = usual(geometry);
    let used =
        bytes.chunks(geometry.erase_bytes as usize).take_while(|peb| vid_header(peb).is_some()).count();
    bytes.truncate((used + 3) * geometry.erase_bytes as usize);
    bytes
}

#[test]
fn a_device_in_front_of_something_else_is_repaired_in_its_space() {
    let whole = short(&small());
    let peb = small().erase_bytes as usize;
    let index = found(&whole, &DumpTarget::Area(Area::Index))[0].at.unwrap() as usize;
    let damaged = hit(&whole, &[index + 40]);
    let other = device(&small(), 9, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("other", 100)).unwrap();
    });
    for behind in [vec![0; 3 * peb], vec![0; 5 * peb / 2], other] {
        let (done, out) = repaired(&[&damaged[..], &behind].concat());
        assert_eq!((done.method, out.len()), (Method::Rebuilt, whole.len() + behind.len()));
        assert_eq!(checked(&out).outcome, Outcome::Clean);
        assert!(behind[0] != 0 || out[whole.len()..] == behind, "what is no image stays");
        let same = compared(&whole, &out[..whole.len()]);
        assert!(same.is_same() && same.trouble.is_empty(), "{same:#?}");
    }
    // The last PEB is lost, with its part of the index.
    let used = whole.len() - 3 * peb;
    let mut zeroed = whole[..used].to_vec();
    zeroed.copy_within(used - peb.., index / peb * peb);
    zeroed[used - peb..].fill(0);
    let (done, out) = repaired(&zeroed);
    assert_eq!((done.method, out.len()), (Method::Rebuilt, used));
    assert_eq!(checked(&out).outcome, Outcome::Clean);
}

/// Image of SPI NOR that was not unmounted, with this number of files.
fn live_nor(files: u32) -> Vec<u8> {
    let geometry = Geometry { buffer_bytes: 256, ..Geometry::nor(60, 65_536) };
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", 40)).unwrap();
    });
    format(bytes, &geometry, 0, false, |fs| {
        fs.sync().unwrap();
        let root = fs.root();
        for number in 0..files {
            let new = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
            let file = fs.create(root, format!("{number}").as_bytes(), &new).unwrap();
            fs.fsync(file).unwrap();
        }
    })
}

/// Offset of the first node that begins in the last program of a PEB, if this program continues for more than 64
/// bytes.
fn node_in_last_program(peb: &[u8]) -> Option<usize> {
    let end = peb.iter().rposition(|&byte| byte != 0xFF)? + 1;
    let program = (end - 1) / 256 * 256;
    let magic = 0x0610_1831_u32.to_le_bytes();
    let node = (program..end).step_by(8).find(|&at| peb[at..].starts_with(&magic))?;
    Some(node).filter(|node| end > (node + 1).next_multiple_of(64))
}

#[test]
fn a_program_of_256_bytes_that_was_torn_on_nor_is_recoverable() {
    let mut torn = 0;
    for bytes in (8..14).map(live_nor) {
        let log = found(&bytes, &DumpTarget::Area(Area::Log));
        for reference in log.iter().filter(|node| node.structure.starts_with("reference")) {
            let head = byte_of(&bytes, &DumpTarget::Leb { lnum: field(reference, "lnum"), offset: 0 });
            let peb = head / 65_536 * 65_536;
            let Some(node) = node_in_last_program(&bytes[peb..peb + 65_536]) else { continue };
            let report = checked(&hit(&bytes, &[peb + node]));
            assert_eq!(report.outcome, Outcome::Recoverable, "{:#?}", report.findings);
            torn += 1;
        }
    }
    assert!(torn > 0);
}

#[test]
fn wrong_bytes_anywhere_never_panic() {
    let whole = bare(400);
    let mut random = Random::new(9);
    for _ in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            let at = usize::try_from(random.bits() % bytes.len() as u64).unwrap();
            bytes[at] = random.bits() as u8;
        }
        let Ok(image) = Image::over(file(&bytes), Access::Read) else { continue };
        check(&image, &any()).unwrap();
        let folder = TempDir::new().unwrap();
        let [from, to]: [PathBuf; 2] = ["image", "repaired"].map(|name| folder.path().join(name));
        std::fs::write(&from, &bytes).unwrap();
        repair(&from, &to, &Selection::default()).unwrap();
    }
}

#[test]
fn differences_are_told() {
    let geometry = small();
    let one = usual(&geometry);
    let other = format(one.clone(), &geometry, 0, true, |fs| populate(fs, 1));
    let same = compared(&one, &other);
    assert!(same.is_same() && same.trouble.is_empty(), "{same:#?}");
    let other = format(one.clone(), &geometry, 0, true, |fs| {
        populate(fs, 1);
        let root = fs.root();
        fs.unlink(root, b"pipe").unwrap();
        fs.unlink(root, b"second name").unwrap();
        let sparse = fs.lookup(1, b"sparse").unwrap();
        fs.write(sparse, 300_003, b"X").unwrap();
        let file = fs.lookup(1, b"dir-1").and_then(|dir| fs.lookup(dir, b"file-9000")).unwrap();
        fs.set_xattr(file, b"user.size", b"9001", floatgate_stack::fs::SetXattr::Any).unwrap();
        let new = NewFile { kind: NewKind::Fifo, permissions: 0o600, uid: 0, gid: 0 };
        fs.create(root, b"new", &new).unwrap();
    });
    let report = compared(&one, &other);
    let told: Vec<(&str, Presence, Vec<&str>)> = report
        .differences
        .iter()
        .map(|difference| {
            let fields = difference.changes.iter().map(|change| change.field.as_str()).collect();
            (difference.path.as_str(), difference.presence, fields)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("/dir-1/file-9000", Presence::Both, vec!["attribute user.size"]),
            ("/new", Presence::Second, vec![]),
            ("/pipe", Presence::First, vec![]),
            ("/second name", Presence::First, vec![]),
            ("/sparse", Presence::Both, vec!["links", "contents from byte 300003"]),
        ]
    );
}

#[test]
fn nodes_are_shown_field_by_field() {
    let whole = usual(&small());
    let inode = &found(&whole, &path("/dir-1/file-9000"))[0];
    assert_eq!((inode.structure.as_str(), field(inode, "uid"), field(inode, "gid")), ("inode node", 1000, 2));
    let block = DumpTarget::Path { path: "/dir-1/file-9000".into(), block: Some(2), entry: false };
    let block = &found(&whole, &block)[0];
    assert_eq!((field(block, "size"), block.payload.len() / 2 + 48), (9000 - 8192, block.len));
    let again = DumpTarget::Leb { lnum: block.leb.unwrap(), offset: block.leb_offset.unwrap() };
    assert_eq!(&found(&whole, &again)[0], block);
    let at = found(&whole, &DumpTarget::At(block.at.unwrap()));
    assert_eq!((&at[0].fields, at[0].leb), (&block.fields, None));
    let [ec, vid] = &found(&whole, &DumpTarget::Peb(0))[..] else { panic!("two headers") };
    assert_eq!((ec.structure.as_str(), field(ec, "image_seq")), ("EC header", 7));
    assert_eq!(field(vid, "volume_id"), LAYOUT_VOLUME);
    let hole = DumpTarget::Path { path: "/sparse".into(), block: Some(0), entry: false };
    let error = dump(&open(&whole), &any(), &hole).unwrap_err().to_string();
    assert!(error.contains("has no block 0"), "{error}");
    let broken = hit(&whole, &[usize::try_from(inode.at.unwrap()).unwrap() + 60]);
    let place = DumpTarget::Leb { lnum: inode.leb.unwrap(), offset: inode.leb_offset.unwrap() };
    assert!(found(&broken, &place)[0].damage.as_ref().unwrap().contains("CRC"));
}

/// A device with a filesystem, and with a volume of other data: the PEB with an unknown LEB belongs to the
/// filesystem.
#[test]
fn a_peb_without_a_name_is_not_taken_for_part_of_another_volume() {
    let geometry = small();
    for volume_type in [VolumeType::Static, VolumeType::Dynamic] {
        let data: Vec<u8> = (0..20_000).map(|at| (at / 7) as u8).collect();
        let bytes = device(&geometry, 7, |ubi| {
            ubi.create_volume(&NewVolume::dynamic("root", geometry.blocks() - 16)).unwrap();
            let id = ubi.create_volume(&NewVolume { volume_type, ..NewVolume::dynamic("data", 4) }).unwrap();
            let mut update = ubi.update_volume(id, data.len() as u64).unwrap();
            update.write(&data).unwrap();
            update.finish().unwrap();
        });
        let bytes = in_order(&format(bytes, &geometry, 0, true, |fs| populate(fs, 1)), &geometry);
        // After the volume table: superblock and two master nodes.
        let peb = 4 * geometry.erase_bytes as usize;
        let mut damaged = bytes.clone();
        let vid = EcHeader::parse(&bytes[..64], ReadFlips::default()).unwrap().vid_header_offset as usize;
        damaged[peb + vid..peb + vid + 64].fill(0);
        let (report, repaired) = repaired(&damaged);
        assert_eq!(report.outcome, Repaired::Wholly, "{:?}", report.losses);
        let root = Selection { volume: Some("root".to_owned()), ..any() };
        assert_whole(&repaired, &root);
        let selection = Selection { volume: Some("data".to_owned()), ..any() };
        let mut volume = open(&repaired).volume(&selection).unwrap();
        let mut first = vec![0; 15_000];
        volume.read(0, 0, &mut first).unwrap();
        assert!(first == data[..15_000], "the other volume is as it was");
    }
}

/// A dump that begins after superblock, master nodes and log contains a filesystem.
#[test]
fn a_filesystem_without_its_first_lebs_is_one() {
    let geometry = small();
    let whole = usual(&geometry);
    let rest = &whole[2 * geometry.erase_bytes as usize..];
    for lost in [5, 7] {
        let bytes = &rest[lost * geometry.erase_bytes as usize..];
        let report = checked(bytes);
        assert_eq!(report.outcome, Outcome::Damaged);
        assert!(report.images[0].volumes[0].ubifs, "{lost} LEBs are lost");
        let (report, new) = repaired(bytes);
        assert_eq!((report.outcome, report.filesystems), (Repaired::WithLosses, 1));
        let (_, extracted) = read(bytes, &any());
        assert!(extracted.entries > 30 && report.entries > 30, "{} saved", report.entries);
        assert_eq!(read(&new, &any()).1.losses, []);
    }
}
