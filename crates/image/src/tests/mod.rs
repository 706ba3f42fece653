//! Tests of reading images that the filesystem itself created.

mod broken;
mod campaign;
mod check;
mod damage;
mod found;
mod history;
mod hostile;
mod jffs2;
mod map;
mod nested;
mod oob;
mod oob_pages;
mod oob_regions;
mod protected;
mod sides;
mod tree;
mod truth;
mod volumes;

use std::fs::File;
use std::io::Write;

use floatgate_media::ubi::{EcHeader, ReadFlips, VidHeader, VolumeFlags};
use floatgate_mtd::Geometry;
use floatgate_stack::ubi::{AttachOptions, NewVolume, Ubi};
use floatgate_stack::ubifs::{Authenticate, Behaviour, FormatOptions, Ubifs};
use floatgate_stack::{BareVolume, StoreFlash, StoreMode, Volume, VolumeGeometry};

use super::extract::{ExtractLimits, Extracted, Extraction, FileSystemSource, extract};
use super::{Access, Image, Selection};
pub(super) use tree::{Memory, populate};

/// A UBI device in memory.
type RamUbi = Ubi<StoreFlash<Vec<u8>>>;

fn flash(bytes: Vec<u8>, geometry: &Geometry) -> StoreFlash<Vec<u8>> {
    StoreFlash::new(bytes, geometry.clone(), StoreMode::WriteThrough)
}

/// Bytes of a device that `fill` has filled.
fn device(geometry: &Geometry, image_seq: u32, fill: impl FnOnce(&mut RamUbi)) -> Vec<u8> {
    let options = AttachOptions { new_image_seq: image_seq, ..AttachOptions::default() };
    let mut ubi =
        Ubi::attach(flash(Vec::new(), geometry), &options).unwrap_or_else(|e| panic!("{}", e.fault));
    fill(&mut ubi);
    let (mut flash, _) = ubi.detach().unwrap_or_else(|(error, _)| panic!("{error}"));
    flash.fill_last_block().unwrap();
    flash.into_store()
}

/// Creates a UBIFS on a volume of a device, and fills it. With `clean`, it is unmounted.
fn format(
    bytes: Vec<u8>,
    geometry: &Geometry,
    id: u32,
    clean: bool,
    fill: impl FnOnce(&mut Ubifs<dyn Volume>),
) -> Vec<u8> {
    let ubi = Ubi::attach(flash(bytes, geometry), &AttachOptions::default());
    let ubi = ubi.unwrap_or_else(|refused| panic!("{}", refused.fault));
    let volume = ubi.open_volume(id).unwrap_or_else(|(error, _)| panic!("{error}"));
    let volume = fill_volume(volume, &FormatOptions::default(), clean, fill);
    let flash = match volume.into_ubi().detach() {
        Ok((flash, _)) | Err((_, flash)) => flash,
    };
    flash.into_store()
}

fn fill_volume<V: Volume + 'static>(
    volume: V,
    options: &FormatOptions,
    clean: bool,
    fill: impl FnOnce(&mut Ubifs<dyn Volume>),
) -> V {
    let fs = Ubifs::format(volume, options, Behaviour::default());
    let mut fs = fs.unwrap_or_else(|(error, _)| panic!("{error}"));
    fill(&mut fs);
    if clean { fs.unmount().unwrap_or_else(|(error, _)| panic!("{error}")) } else { fs.abandon() }
}

/// Device with one volume, whose UBIFS contains the usual tree. Its PEBs have the order in which `ubinize` writes
/// them: the volume table, then LEB by LEB.
fn usual(geometry: &Geometry) -> Vec<u8> {
    in_order(&live(geometry), geometry)
}

/// PEBs of an image, sorted by their LEBs.
fn in_order(bytes: &[u8], geometry: &Geometry) -> Vec<u8> {
    let mut pebs: Vec<&[u8]> = bytes.chunks(geometry.erase_bytes as usize).collect();
    pebs.sort_by_key(|peb| {
        let vid = vid_header(peb);
        vid.map_or((2, 0, 0), |vid| (u32::from(!vid.is_internal()), vid.volume_id, vid.lnum))
    });
    pebs.concat()
}

fn vid_header(peb: &[u8]) -> Option<VidHeader> {
    let ec = EcHeader::parse(&peb[..64], ReadFlips::default()).ok()?;
    let at = ec.vid_header_offset as usize;
    VidHeader::parse(&peb[at..at + 64], ReadFlips::default()).ok()
}

/// Image of [`usual`], with PEBs at the positions that the live device has chosen.
fn live(geometry: &Geometry) -> Vec<u8> {
    let lebs = geometry.blocks() - 16;
    let bytes = device(geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", lebs)).unwrap();
    });
    format(bytes, geometry, 0, true, |fs| populate(fs, 1))
}

/// LEBs of a bare UBIFS, with the size of LEBs in PEBs of 16 KiB with pages of 512 bytes.
fn bare_geometry(lebs: u32) -> VolumeGeometry {
    VolumeGeometry {
        lebs,
        leb_bytes: 15_872,
        min_io_bytes: 512,
        max_write_bytes: 512,
        leb_start: 0,
        read_only: false,
    }
}

/// Bare UBIFS as `mkfs.ubifs` creates it, which ends after its data.
fn bare(max_lebs: u32) -> Vec<u8> {
    let geometry = bare_geometry(max_lebs);
    let volume = BareVolume::new(Vec::new(), geometry);
    let options = FormatOptions { deferred: true, ..FormatOptions::default() };
    let mut volume = fill_volume(volume, &options, true, |fs| populate(fs, 1));
    volume.flush().unwrap();
    volume.into_store()
}

/// Unnamed file with these bytes.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn open(bytes: &[u8]) -> Image {
    Image::over(file(bytes), Access::Read).unwrap()
}

/// Contents of an image, and the losses of reading it.
fn read(bytes: &[u8], selection: &Selection) -> (Memory, Extracted) {
    let extraction = Extraction::open(&open(bytes), selection).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::default();
    let extracted = extraction.run(&mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    (memory, extracted)
}

/// Checks that an image contains exactly the usual tree.
fn assert_whole(bytes: &[u8], selection: &Selection) {
    let (memory, extracted) = read(bytes, selection);
    assert_eq!(extracted.losses, []);
    assert_eq!(memory.differences(&expected(1)), Vec::<String>::new());
}

/// The usual tree, read from the filesystem to which it was written.
fn expected(seed: u64) -> Memory {
    let mut memory = Memory::default();
    let geometry = bare_geometry(200);
    let volume = BareVolume::new(Vec::new(), geometry);
    let fs = Ubifs::format(volume, &FormatOptions::default(), Behaviour::default());
    let mut fs = fs.unwrap_or_else(|(error, _)| panic!("{error}"));
    populate(&mut fs, seed);
    fs.sync().unwrap();
    let extracted =
        extract(&mut FileSystemSource(&mut fs), &mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    assert_eq!(extracted.losses, []);
    memory
}
