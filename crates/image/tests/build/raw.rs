//! Volumes without a filesystem: no node tells what is missing in them, so the headers and the ECC have to.

use super::support::{SHAPES, bytes, options, shape, try_build};
use floatgate_image::build::{BuildOptions, Container, FlashShape, Source};
use floatgate_image::check::{Outcome, check};
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::repair::repair;
use floatgate_image::ubinize::{Headers, UbinizeError, VolumeSource, ubinize};
use floatgate_image::{Access, Image, Selection};
use floatgate_media::ubi::{VolumeFlags, VolumeType};
use floatgate_stack::fs::Compression;
use std::path::Path;

const PEB: usize = 128 << 10;

fn volume(id: u32, name: &str, volume_type: VolumeType, image: &Path) -> VolumeSource {
    VolumeSource {
        id,
        name: name.to_owned(),
        volume_type,
        size: None,
        alignment: 1,
        flags: VolumeFlags::default(),
        image: Some(image.to_owned()),
    }
}

/// PEBs: two of the volume table, three of the static volume "kernel", three of the dynamic volume "config".
fn image(folder: &Path) -> Vec<u8> {
    let store = image_with(folder, None);
    assert_eq!(store.len(), 8 * PEB);
    store
}

/// As [`image`]; the volume "config" has `size` bytes set aside.
fn image_with(folder: &Path, size: Option<u64>) -> Vec<u8> {
    let [kernel, config] = ["kernel", "config"].map(|name| folder.join(name));
    std::fs::write(&kernel, bytes(300_000, 1, false)).unwrap();
    std::fs::write(&config, bytes(300_000, 2, false)).unwrap();
    let config = VolumeSource { size, ..volume(1, "config", VolumeType::Dynamic, &config) };
    made(&[volume(0, "kernel", VolumeType::Static, &kernel), config])
}

fn made(volumes: &[VolumeSource]) -> Vec<u8> {
    let shape = shape(SHAPES[0]);
    let headers = Headers { geometry: shape.ubi().unwrap(), image_seq: 7, erase_count: 0 };
    let mut store = Vec::new();
    ubinize(&shape, &headers, volumes, &mut store).unwrap();
    store
}

/// Exit status of `check`, `extract` and `check --repair`, and the losses that the last two list.
fn statuses(folder: &Path, damaged: &[u8]) -> ([u8; 3], [String; 2]) {
    let [path, out] = ["damaged", "repaired"].map(|name| folder.join(name));
    std::fs::write(&path, damaged).unwrap();
    let image = Image::open(&path, Access::Read).unwrap();
    let checked = check(&image, &Selection::default()).unwrap();
    let mut tar = Vec::new();
    let parts = Extractions::open(&image, &Selection::default()).unwrap();
    let extracted = parts.run(&mut TarTarget::new(&mut tar), &ExtractLimits::default(), &|_| ()).unwrap();
    let repaired = repair(&path, &out, &Selection::default()).unwrap();
    let clean = check(&Image::open(&out, Access::Read).unwrap(), &Selection::default()).unwrap();
    assert_eq!(clean.outcome, Outcome::Clean, "{:?}", clean.findings);
    let codes = [checked.status(), extracted.status(), repaired.status()].map(|status| status.code());
    (codes, [extracted.losses, repaired.losses].map(|losses| format!("{losses:?}")))
}

#[test]
fn a_leb_whose_header_is_lost_is_a_loss_of_a_volume_without_a_filesystem() {
    let folder = tempfile::tempdir().unwrap();
    let whole = image(folder.path());
    assert_eq!(statuses(folder.path(), &whole).0, [0, 0, 0]);
    // The whole PEB, and its VID header alone.
    for (peb, from, len) in [(5, 0, PEB), (6, 0, PEB), (5, 2048, 64), (7, 2048, 64)] {
        let mut damaged = whole.clone();
        damaged[peb * PEB + from..][..len].fill(0xAA);
        let (codes, losses) = statuses(folder.path(), &damaged);
        assert_eq!(codes, [2, 1, 1], "PEB {peb} from {from}: {losses:?}");
        let told = losses.iter().all(|losses| losses.contains(&format!("PEB {peb}")));
        assert!(told, "{losses:?}");
    }
}

/// A PEB that is overwritten as a whole at the end of a file is none any more: where a volume may have had a LEB in it, that is told.
#[test]
fn what_stands_behind_a_volume_that_may_go_on_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (size, codes) in [(None, [0, 0, 0]), (Some(8 << 17), [1, 1, 1])] {
        let mut image = image_with(folder.path(), size);
        assert_eq!(statuses(folder.path(), &image).0, [0, 0, 0]);
        image.extend(bytes(PEB, 3, false));
        let (found, losses) = statuses(folder.path(), &image);
        assert_eq!(found, codes, "{size:?}: {losses:?}");
        assert_eq!(losses[0].contains("volume config"), size.is_some(), "{losses:?}");
    }
}

/// A filesystem beside other volumes: a LEB whose header is lost is found by its nodes.
#[test]
fn a_leb_of_a_filesystem_beside_other_volumes_is_found_by_its_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let contents = bytes(400_000, 4, false);
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("file"), &contents).unwrap();
    let bare = BuildOptions { container: Container::None, ..options(Compression::None) };
    let built = try_build(&Source::Directory(files), &bare).unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, bytes(300_000, 2, false)).unwrap();
    let volumes = [
        volume(0, "root", VolumeType::Dynamic, &built.path()),
        volume(1, "config", VolumeType::Dynamic, &config),
    ];
    let mut image = made(&volumes);
    // The LEB with the middle of the file.
    let middle = &contents[200_000..200_100];
    let at = image.windows(middle.len()).position(|window| window == middle).unwrap();
    image[at / PEB * PEB + 2048..][..64].fill(0xAA);
    let (codes, losses) = statuses(folder.path(), &image);
    assert_eq!(codes, [2, 0, 0], "{losses:?}");
    let path = folder.path().join("damaged");
    let parts = Extractions::open(&Image::open(&path, Access::Read).unwrap(), &Selection::default()).unwrap();
    let mut tar = Vec::new();
    parts.run(&mut TarTarget::new(&mut tar), &ExtractLimits::default(), &|_| ()).unwrap();
    assert!(tar.windows(contents.len()).any(|window| window == contents), "other contents");
}

/// The VID header stands where ubinize puts one.
#[test]
fn a_vid_header_off_its_grid_is_refused() {
    for (offset, is_good) in [(64, true), (100, false), (104, true), (513, false), (2048, true)] {
        let shape = FlashShape { vid_header_offset: Some(offset), ..shape(SHAPES[0]) };
        assert_eq!(shape.ubi().is_ok(), is_good, "{offset}");
    }
}

#[test]
fn nothing_tells_what_a_static_volume_without_lebs_held() {
    let folder = tempfile::tempdir().unwrap();
    let mut damaged = image(folder.path());
    damaged[2 * PEB..5 * PEB].fill(0xFF);
    let (codes, losses) = statuses(folder.path(), &damaged);
    assert_eq!(codes, [1, 1, 1], "{losses:?}");
    assert!(losses[0].contains("volume kernel"), "{losses:?}");
}

/// A failed `mkfs` leaves an empty file; the LEBs of a static volume say how many of them there are.
#[test]
fn a_volume_without_contents_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.img");
    std::fs::write(&empty, "").unwrap();
    let shape = shape(SHAPES[0]);
    let headers = Headers { geometry: shape.ubi().unwrap(), image_seq: 7, erase_count: 0 };
    let of_empty = volume(0, "data", VolumeType::Dynamic, &empty);
    let sized = VolumeSource { size: Some(1 << 20), ..of_empty.clone() };
    let fixed = VolumeSource { volume_type: VolumeType::Static, image: None, ..sized.clone() };
    for (volume, words) in [(of_empty, "empty.img"), (sized, "empty.img"), (fixed, "needs an image")] {
        let refused: Result<_, UbinizeError> =
            ubinize(&shape, &headers, std::slice::from_ref(&volume), &mut Vec::new());
        let error = refused.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
