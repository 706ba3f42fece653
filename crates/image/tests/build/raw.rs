//! Volumes without a filesystem: no node tells what is missing in them, so the headers and the ECC have to.

use super::support::{SHAPES, bytes, shape};
use floatgate_image::check::{Outcome, check};
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::repair::repair;
use floatgate_image::ubinize::{Headers, UbinizeError, VolumeSource, ubinize};
use floatgate_image::{Access, Image, Selection};
use floatgate_media::ubi::{VolumeFlags, VolumeType};
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
    let shape = shape(SHAPES[0]);
    let headers = Headers { geometry: shape.ubi().unwrap(), image_seq: 7, erase_count: 0 };
    let [kernel, config] = ["kernel", "config"].map(|name| folder.join(name));
    std::fs::write(&kernel, bytes(300_000, 1, false)).unwrap();
    std::fs::write(&config, bytes(300_000, 2, false)).unwrap();
    let volumes =
        [volume(0, "kernel", VolumeType::Static, &kernel), volume(1, "config", VolumeType::Dynamic, &config)];
    let mut store = Vec::new();
    ubinize(&shape, &headers, &volumes, &mut store).unwrap();
    assert_eq!(store.len(), 8 * PEB);
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
