//! Images that Linux does not accept, or cannot use as a whole: refused or remarked before they are written, and found by `check`.

use super::support::{Built1, SHAPES, bytes, from_tar, options, shape, try_build};
use floatgate_image::build::{BuildError, BuildOptions, Container, FlashShape, FlashSize, Source};
use floatgate_image::check::{CheckReport, Finding, Outcome, check};
use floatgate_image::detect::Content;
use floatgate_image::info::selected_info;
use floatgate_image::ubinize::{Headers, UbinizeError, VolumeSource, ubinize};
use floatgate_image::{Access, Image, Selection, TargetFlash};
use floatgate_media::ubi::{VolumeFlags, VolumeType};
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::FormatOptions;
use std::path::{Path, PathBuf};

/// A partition of a NAND with 2048 PEBs of 128 KiB, of which `worst_bad` may be bad.
fn partition(pebs: u32, worst_bad: u32) -> FlashShape {
    FlashShape { size: Some(FlashSize { pebs, chip_pebs: 2048, worst_bad }), ..shape(SHAPES[0]) }
}

const LEB: u64 = 126_976;

fn volume(lebs: Option<u64>, image: Option<PathBuf>) -> VolumeSource {
    VolumeSource {
        id: 0,
        name: "rootfs".to_owned(),
        volume_type: VolumeType::Dynamic,
        size: lebs.map(|lebs| lebs * LEB),
        alignment: 1,
        flags: VolumeFlags::default(),
        image,
    }
}

fn made(shape: FlashShape, volume: &VolumeSource) -> Result<(Vec<u8>, Vec<Finding>), UbinizeError> {
    let headers = Headers { geometry: shape.ubi().unwrap(), image_seq: 7, erase_count: 0 };
    let mut store = Vec::new();
    let made = ubinize(&shape, &headers, std::slice::from_ref(volume), &mut store)?;
    Ok((store, made.warnings))
}

/// A bare UBIFS with a file of incompressible bytes.
fn bare(format: FormatOptions, shape: FlashShape) -> Built1 {
    let options = BuildOptions { container: Container::None, shape, format, ..options(Compression::Lzo) };
    from_tar(&tar(&bytes(600_000, 3, false)), &options).unwrap()
}

fn tar(contents: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(contents.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    builder.append_data(&mut header, "file", contents).unwrap();
    builder.into_inner().unwrap()
}

fn checked(image: &[u8], flash: Option<FlashShape>) -> CheckReport {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, image).unwrap();
    let flash = flash.map(|flash| TargetFlash::new(flash).unwrap());
    let selection = Selection { flash, ..Selection::default() };
    check(&Image::open(&path, Access::Read).unwrap(), &selection).unwrap()
}

/// The findings of a check that say something with these words.
fn says(report: &CheckReport, words: &str) -> Option<Outcome> {
    report.findings.iter().find(|finding| finding.what.contains(words)).map(|finding| finding.severity)
}

/// The findings without the note that a new volume is empty.
fn of_fit(report: CheckReport) -> Vec<Finding> {
    report.findings.into_iter().filter(|finding| finding.what != "no volume has any LEB").collect()
}

fn refusal(result: Result<impl Sized, UbinizeError>) -> String {
    match result {
        Err(error @ UbinizeError::Refused(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    }
}

/// Of 2048 PEBs UBI needs 4 and keeps 40 for bad blocks; of a partition it keeps as many, because all bad blocks of the chip may be there.
#[test]
fn volumes_larger_than_the_flash_are_refused_and_those_without_room_for_bad_blocks_remarked() {
    for (pebs, fits) in [(2048, 2004), (512, 468), (128, 84)] {
        let flash = partition(pebs, 0);
        for (lebs, is_remarked) in [(fits, false), (fits + 1, true), (fits + 40, true)] {
            let (image, warnings) = made(flash, &volume(Some(lebs), None)).unwrap();
            assert_eq!(!warnings.is_empty(), is_remarked, "{lebs} LEBs on {pebs} PEBs: {warnings:?}");
            let report = checked(&image, Some(flash));
            assert_eq!((report.outcome, of_fit(report)), (Outcome::Clean, warnings));
        }
        let refused = refusal(made(flash, &volume(Some(fits + 41), None)));
        assert!(refused.contains(&format!("the flash has room for {fits}: ")), "{refused}");
        let (image, _) = made(shape(SHAPES[0]), &volume(Some(fits + 41), None)).unwrap();
        assert_eq!(checked(&image, Some(flash)).outcome, Outcome::Damaged);
        let mut options = options(Compression::Lzo);
        (options.shape, options.volume_bytes) = (flash, Some((fits + 41) * LEB));
        let refused = from_tar(&tar(b"x"), &options).err().map(|error| error.to_string());
        assert!(refused.as_ref().is_some_and(|why| why.contains("the flash has room for")), "{refused:?}");
        options.volume_bytes = Some((fits + 1) * LEB);
        assert!(!from_tar(&tar(b"x"), &options).unwrap().report.warnings.is_empty());
    }
}

#[test]
fn the_worst_number_of_bad_blocks_counts() {
    let flash = partition(2048, 80);
    let (image, _) = made(flash, &volume(Some(1990), None)).unwrap();
    let report = checked(&image, Some(flash));
    assert_eq!(says(&report, "up to 80 blocks of the chip may be bad"), Some(Outcome::Clean), "{report:?}");
    assert_eq!(of_fit(checked(&image, Some(partition(2048, 40)))), []);
}

#[test]
fn an_image_for_flash_of_other_sizes_is_damaged_there() {
    let (image, _) = made(shape(SHAPES[0]), &volume(Some(30), None)).unwrap();
    for (sizes, words) in [(SHAPES[1], "VID headers at byte 2048"), (SHAPES[3], "PEBs of 131072 bytes")] {
        assert_eq!(says(&checked(&image, Some(shape(sizes))), words), Some(Outcome::Damaged), "{sizes:?}");
    }
    assert_eq!(of_fit(checked(&image, Some(shape(SHAPES[0])))), []);
}

#[test]
fn ubinize_refuses_a_ubifs_for_another_leb_size() {
    let ubifs = bare(FormatOptions::default(), shape(SHAPES[0]));
    let source = VolumeSource { size: Some(16 << 20), ..volume(None, Some(ubifs.path())) };
    let refused = refusal(made(shape(SHAPES[1]), &source));
    assert!(refused.contains("LEB of 126976 bytes, but of 129024 bytes in the volume"), "{refused}");
}

/// A bare UBIFS has all LEBs that its superblock counts, so that a volume of its size holds the filesystem.
#[test]
fn ubinize_without_a_size_makes_an_image_of_a_built_ubifs_that_check_passes() {
    for sizes in [SHAPES[0], SHAPES[1], SHAPES[3]] {
        let ubifs = bare(FormatOptions { room_lebs: 2, ..FormatOptions::default() }, shape(sizes));
        let leb = u64::from(shape(sizes).ubi().unwrap().leb_bytes());
        assert_eq!(ubifs.report.image_bytes, u64::from(ubifs.report.lebs) * leb);
        let (image, warnings) = made(shape(sizes), &volume(None, Some(ubifs.path()))).unwrap();
        // It can grow further than its volume: that is no fault.
        assert_eq!((warnings, checked(&image, None).findings), (vec![], vec![]), "{sizes:?}");
    }
}

/// Writes the size of the journal into the superblock.
fn with_journal(ubifs: &Path, journal_bytes: u64) {
    let mut bytes = std::fs::read(ubifs).unwrap();
    bytes[48..56].copy_from_slice(&journal_bytes.to_le_bytes());
    let crc = floatgate_media::crc::ubi(&bytes[8..4096]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(ubifs, bytes).unwrap();
}

/// `mkfs.ubifs` counts the LEBs of its image only, and Linux needs a main area with room for the journal.
#[test]
fn a_volume_with_fewer_lebs_than_linux_mounts_is_refused() {
    let format = FormatOptions { max_lebs: Some(100), ..FormatOptions::default() };
    let ubifs = bare(format, shape(SHAPES[0]));
    with_journal(&ubifs.path(), u64::from(ubifs.report.lebs) * LEB);
    let source = volume(None, Some(ubifs.path()));
    let refused = refusal(made(shape(SHAPES[0]), &source));
    assert!(refused.contains("the filesystem needs"), "{refused}");
    let grows = VolumeSource { flags: VolumeFlags::AUTORESIZE, ..source.clone() };
    let (image, warnings) = made(shape(SHAPES[0]), &grows).unwrap();
    assert!(warnings[0].what.contains("the filesystem needs"), "{warnings:?}");
    // The flash is large enough, or not.
    let report = checked(&image, Some(partition(128, 0)));
    assert_eq!(report.outcome, Outcome::Clean, "{report:?}");
    assert_eq!(checked(&image, Some(partition(62, 0))).outcome, Outcome::Damaged);
    // The same volume without the flag, as a tool has made it that does not look into it.
    let report = checked(&without_flags(&image), None);
    assert_eq!(says(&report, "the filesystem needs"), Some(Outcome::Damaged), "{report:?}");
}

/// Takes the flags of volume 0 out of both copies of the volume table.
fn without_flags(image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    for copy in image.chunks_mut(128 << 10).take(2) {
        let record = &mut copy[4096..4096 + 172];
        record[144] = 0;
        let crc = floatgate_media::crc::ubi(&record[..168]);
        record[168..172].copy_from_slice(&crc.to_be_bytes());
    }
    image
}

#[test]
fn a_filesystem_that_can_never_use_its_volume_is_remarked() {
    let ubifs = bare(FormatOptions { max_lebs: Some(100), ..FormatOptions::default() }, shape(SHAPES[0]));
    let source = volume(Some(826), Some(ubifs.path()));
    let (image, warnings) = made(shape(SHAPES[0]), &source).unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].what.starts_with("726 LEBs of the volume can never be used"), "{warnings:?}");
    assert!(warnings[0].consequence.contains("mkfs.ubifs -c 826 or more"), "{warnings:?}");
    let report = checked(&image, None);
    assert_eq!(report.outcome, Outcome::Clean);
    assert_eq!(says(&report, "726 LEBs of the volume can never be used"), Some(Outcome::Clean));
    let grows = VolumeSource { flags: VolumeFlags::AUTORESIZE, ..source };
    let (_, warnings) = made(partition(2048, 0), &grows).unwrap();
    assert!(warnings[0].what.starts_with("1904 of the 2004 LEBs to which the volume grows"), "{warnings:?}");
    let mut options = options(Compression::Lzo);
    (options.format.max_lebs, options.volume_bytes) = (Some(100), Some(826 * LEB));
    assert_eq!(from_tar(&tar(b"x"), &options).unwrap().report.warnings.len(), 1);
}

#[test]
fn too_few_lebs_are_refused_with_the_number_that_the_files_need() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), bytes(1_500_000, 5, false)).unwrap();
    let source = Source::Directory(folder.path().to_owned());
    for container in [Container::None, options(Compression::Lzo).container] {
        for most in [5, 18] {
            let mut options = BuildOptions { container: container.clone(), ..options(Compression::Lzo) };
            options.format.max_lebs = Some(most);
            let Err(BuildError::TooFewLebs { needed, most: told }) = try_build(&source, &options) else {
                panic!("{most} LEBs: no number");
            };
            assert_eq!(told, most);
            options.format.max_lebs = Some(needed - 1);
            assert!(try_build(&source, &options).is_err(), "{needed} LEBs are not the fewest");
            options.format.max_lebs = Some(needed);
            assert_eq!(try_build(&source, &options).unwrap().losses(), Vec::<String>::new());
        }
    }
}

#[test]
fn info_tells_the_flags_of_mkfs_and_what_the_first_mount_does() {
    let format =
        FormatOptions { space_fixup: true, reserved_bytes: Some(50_000), ..FormatOptions::default() };
    let ubifs = bare(format, shape(SHAPES[0]));
    let info = |path: &Path| {
        let image = Image::open(path, Access::Read).unwrap();
        selected_info(&image, &Selection::default()).unwrap().to_string()
    };
    let text = info(&ubifs.path());
    assert!(text.contains(" -R 50000 -F -r DIRECTORY"), "{text}");
    assert!(text.contains("the first mount for writing erases the free space"), "{text}");
    let text = info(&bare(FormatOptions::default(), shape(SHAPES[0])).path());
    assert!(!text.contains(" -F ") && !text.contains("erases the free space"), "{text}");
}

/// `ubinize -p 1024 -m 64` is possible, and there is flash with such eraseblocks.
#[test]
fn ubi_with_small_pebs_is_found() {
    for sizes in [[64, 64, 1024], [1, 1, 2048], [512, 256, 2048]] {
        let folder = tempfile::tempdir().unwrap();
        let (contents, image) = (folder.path().join("contents"), folder.path().join("image"));
        std::fs::write(&contents, bytes(60_000, 6, false)).unwrap();
        let source = VolumeSource { volume_type: VolumeType::Static, ..volume(None, Some(contents)) };
        let (made, _) = made(shape(sizes), &source).unwrap();
        std::fs::write(&image, &made).unwrap();
        let image = Image::open(&image, Access::Read).unwrap();
        let [found] = image.found.as_slice() else { panic!("{sizes:?}: {:?}", image.found) };
        let Content::Ubi(ubi) = found.content else { panic!("{found:?}") };
        assert_eq!((found.offset, found.len, ubi.peb_bytes), (0, made.len() as u64, sizes[2]));
        assert_eq!(check(&image, &Selection::default()).unwrap().findings, []);
        let mut volume =
            image.volume(&Selection { volume: Some("0".into()), ..Selection::default() }).unwrap();
        let leb = volume.geometry().leb_bytes as usize;
        for (lnum, part) in (0..).zip(bytes(60_000, 6, false).chunks(leb)) {
            let mut read = vec![0; part.len()];
            volume.read(lnum, 0, &mut read).unwrap();
            assert!(read == part, "LEB {lnum} of {sizes:?}");
        }
    }
}

/// PEBs of an older image behind a new one are one flash, which Linux refuses; those with a volume table of their own are another partition.
#[test]
fn pebs_of_an_older_image_are_one_flash_with_two_image_sequence_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let contents = folder.path().join("contents");
    let image = |len: usize, image_seq: u32| {
        std::fs::write(&contents, bytes(len, 6, false)).unwrap();
        let shape = shape(SHAPES[2]);
        let headers = Headers { geometry: shape.ubi().unwrap(), image_seq, erase_count: 0 };
        let mut store = Vec::new();
        let source = VolumeSource { volume_type: VolumeType::Static, ..volume(None, Some(contents.clone())) };
        ubinize(&shape, &headers, &[source], &mut store).unwrap();
        store
    };
    let (old, new) = (image(200_000, 5), image(90_000, 6));
    for leftover in [1, 2, 5] {
        let end = new.len() + leftover * (16 << 10);
        let mixed = [&new[..], &old[new.len()..end]].concat();
        let report = checked(&mixed, None);
        assert_eq!(report.images.len(), 1, "{leftover} PEBs: {report:#?}");
        let words = "of another image: image sequence number 5, the first has 6";
        let found: Vec<_> = report.findings.iter().filter(|finding| finding.what.contains(words)).collect();
        assert_eq!((found.len(), found[0].severity), (1, Outcome::Damaged), "{leftover} PEBs: {report:#?}");
        assert!(found[0].consequence.contains("ubiformat"), "{:?}", found[0]);
        // Beside it Linux's attach, and nothing about what the older PEBs hold.
        assert_eq!(report.findings.len(), 2, "{leftover} PEBs: {report:#?}");
        assert_eq!(report.images[0].volumes.len(), 1);
    }
    // Two partitions.
    assert_eq!(checked(&[&new[..], &old].concat(), None).images.len(), 2);
}
