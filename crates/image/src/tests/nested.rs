//! Images within images: the image that begins first determines the whole file, whatever its files and volumes
//! contain.

use floatgate_media::ubi::VolumeType;
use floatgate_media::ubifs::ROOT_INODE;
use floatgate_stack::fs::{Compression, NewFile, NewKind};

use super::*;
use crate::check::{Outcome, check};
use crate::detect::Content;
use floatgate_mtd::random::Random;

/// Chips of all kinds; the last one has the largest PEBs.
fn geometries() -> [Geometry; 7] {
    [
        Geometry::nor(120, 16_384),
        Geometry::nand_512(220),
        Geometry { sub_page_bytes: 512, ..Geometry::nand_512(220) },
        Geometry::nor(60, 65_536),
        Geometry::nand_2048(60),
        Geometry { sub_page_bytes: 2048, ..Geometry::nand_2048(60) },
        Geometry::nand_4096(60),
    ]
}

/// Images in files, all with the image sequence number of the outer ones, and a bare UBIFS.
fn inner() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = geometries().iter().map(usual).collect();
    for image in &mut all {
        image.truncate(1 << 20);
    }
    all.push(bare(400));
    all
}

/// Writes the images to files without compression.
fn put(fs: &mut Ubifs<dyn Volume>, images: &[Vec<u8>]) {
    for (number, image) in images.iter().enumerate() {
        let file = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let name = format!("image-{number}");
        let inode = fs.create(ROOT_INODE, name.as_bytes(), &file).unwrap();
        fs.write(inode, 0, image).unwrap();
    }
}

fn format_plain<V: Volume + 'static>(
    volume: V,
    deferred: bool,
    fill: impl FnOnce(&mut Ubifs<dyn Volume>),
) -> V {
    let options = FormatOptions { deferred, compression: Compression::None, ..FormatOptions::default() };
    fill_volume(volume, &options, true, fill)
}

/// Device with a filesystem that contains the images as files, and with those that are devices also in volumes.
fn outer(geometry: &Geometry, images: &[Vec<u8>]) -> Vec<u8> {
    let bytes: usize = images.iter().map(Vec::len).sum();
    let peb = geometry.erase_bytes as usize;
    let geometry = Geometry { size_bytes: (4 * bytes / peb + 100) as u64 * peb as u64, ..geometry.clone() };
    let lebs = u32::try_from(2 * bytes / peb + 40).unwrap();
    let made = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", lebs)).unwrap();
        // A filesystem that was made for other LEBs would be damaged.
        let devices = images.iter().filter(|image| image.starts_with(b"UBI#"));
        for (number, image) in devices.enumerate() {
            let usable = ubi.info().geometry.leb_bytes() as usize;
            let lebs = u32::try_from(image.len().div_ceil(usable)).unwrap();
            let name = format!("raw-{number}");
            let id = ubi.create_volume(&NewVolume::dynamic(name.as_str(), lebs)).unwrap();
            for (lnum, data) in image.chunks(usable).enumerate() {
                let mut leb = data.to_vec();
                leb.resize(data.len().next_multiple_of(geometry.write_bytes as usize), 0xFF);
                ubi.change_leb(id, u32::try_from(lnum).unwrap(), &leb).unwrap();
            }
        }
    });
    let ubi = Ubi::attach(flash(made, &geometry), &AttachOptions::default());
    let ubi = ubi.unwrap_or_else(|refused| panic!("{}", refused.fault));
    let volume = ubi.open_volume(0).unwrap_or_else(|(error, _)| panic!("{error}"));
    let volume = format_plain(volume, false, |fs| put(fs, images));
    let flash = match volume.into_ubi().detach() {
        Ok((flash, _)) | Err((_, flash)) => flash,
    };
    in_order(&flash.into_store(), &geometry)
}

/// Image whose first EC header and several others are damaged by a wrong byte or by noise. The last one is undamaged,
/// because only it shows that its PEB belongs to the device.
fn with_damaged_headers(bytes: &[u8], geometry: &Geometry) -> Vec<u8> {
    let (mut damaged, mut random) = (bytes.to_vec(), Random::new(7));
    let (peb_bytes, last) = (geometry.erase_bytes as usize, bytes.len() - geometry.erase_bytes as usize);
    for (number, peb) in damaged[..last].chunks_mut(peb_bytes).enumerate() {
        match number % 9 {
            0 => peb[11] ^= 1,
            5 => peb[..64].fill_with(|| random.bits() as u8),
            _ => {}
        }
    }
    damaged
}

fn assert_one(bytes: &[u8], geometry: &Geometry, what: &str) {
    let opened = open(bytes);
    let found: Vec<_> = opened.found.iter().map(|found| (found.offset, found.len)).collect();
    assert_eq!(found, [(0, bytes.len() as u64)], "{what}");
    let Content::Ubi(shape) = opened.found[0].content else { panic!("no UBI: {what}") };
    assert_eq!(shape.peb_bytes, geometry.erase_bytes, "{what}");
}

#[test]
fn images_in_files_and_volumes_of_every_geometry_do_not_split_the_outer_one() {
    let images = inner();
    for geometry in geometries() {
        let bytes = outer(&geometry, &images);
        let what = format!("{} bytes a PEB", geometry.erase_bytes);
        assert_one(&bytes, &geometry, &what);
        let selection = Selection { volume: Some("root".to_owned()), ..Selection::default() };
        let (whole, extracted) = read(&bytes, &selection);
        assert_eq!((extracted.entries, extracted.losses), (images.len() as u64, Vec::new()), "{what}");
        let report = check(&open(&bytes), &Selection::default()).unwrap();
        assert_eq!(report.outcome, Outcome::Clean, "{what}: {:#?}", report.findings);
        let damaged = with_damaged_headers(&bytes, &geometry);
        assert_one(&damaged, &geometry, &what);
        assert_eq!(read(&damaged, &selection).0.differences(&whole), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn images_in_files_of_a_bare_filesystem_are_data() {
    let geometry = bare_geometry(2000);
    let volume = BareVolume::new(Vec::new(), geometry);
    let images = inner();
    let mut volume = format_plain(volume, true, |fs| put(fs, &images));
    volume.flush().unwrap();
    let bytes = volume.into_store();
    let found = open(&bytes).found;
    assert_eq!(found.len(), 1, "{found:?}");
    let (_, extracted) = read(&bytes, &Selection::default());
    assert_eq!((extracted.entries, extracted.losses), (images.len() as u64, Vec::new()));
}

#[test]
fn a_static_volume_that_is_an_image_does_not_split_the_outer_one() {
    let geometry = Geometry::nor(120, 65_536);
    let image = usual(&Geometry::nor(60, 16_384));
    let bytes = device(&geometry, 7, |ubi| {
        let lebs = u32::try_from(image.len() / 60_000 + 1).unwrap();
        let volume = NewVolume { volume_type: VolumeType::Static, ..NewVolume::dynamic("raw", lebs) };
        let id = ubi.create_volume(&volume).unwrap();
        let mut update = ubi.update_volume(id, image.len() as u64).unwrap();
        update.write(&image).unwrap();
        update.finish().unwrap();
    });
    assert_one(&bytes, &geometry, "a static volume");
}
