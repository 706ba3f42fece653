//! All operations of this crate on untrusted bytes, for fuzzers and for tests with damaged images.
//!
//! The operations return nothing. Each must end without a panic, with time and memory that the length of the input
//! bounds.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use floatgate_files::{File, tempfile};
use floatgate_media::crc;
use floatgate_media::jffs2::Endian;
use floatgate_media::ubifs::NODE_MAGIC;
use floatgate_mtd::Geometry;
use floatgate_stack::fscrypt::Keys;
use floatgate_stack::ubi::{AttachOptions, FastmapUse, Ubi, VolumeInfo};
use floatgate_stack::ubifs::{Behaviour, MountOptions, Ubifs};
use floatgate_stack::{BareVolume, RamVolume, StoreFlash, StoreMode, Volume, VolumeGeometry};

use super::extract::{DamagedUbifs, Extraction, Extractions, FileSystemSource, extract};
use super::history::history;
use crate::ecc::{Dump, PageGeometry, RegionEcc, Regions, join, merge};
use crate::extract::target::{ExtractLimits, Nowhere};
use crate::image::{Access, Image};
use crate::report::At;
use crate::selection::Selection;

/// Largest amount of work for one input.
const LIMITS: ExtractLimits = ExtractLimits { bytes: 64 << 20, entries: 20_000, depth: 32 };

/// Size of the largest node whose CRC is corrected, bytes.
const NODE_MAX: usize = 8 << 10;

/// Writes good CRCs to all headers of PEBs and all nodes in these bytes, so that changes in them are accepted.
pub fn mend(bytes: &mut [u8]) {
    for at in (0..bytes.len()).step_by(8) {
        let Some(rest) = bytes.get_mut(at..) else { break };
        if let Some(header) = rest.get_mut(..64).filter(|rest| rest.starts_with(b"UBI")) {
            let crc = crc::ubi(&header[..60]);
            header[60..].copy_from_slice(&crc.to_be_bytes());
        } else if rest.len() >= 24 && rest.starts_with(&NODE_MAGIC) {
            let len = u32::from_le_bytes([rest[16], rest[17], rest[18], rest[19]]) as usize;
            if let Some(covered) = rest.get(8..len).filter(|_| len <= NODE_MAX) {
                let crc = crc::ubi(covered);
                rest[4..8].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }
}

/// Writes good CRCs to the JFFS2 nodes in these bytes: the CRCs of header, fields, name and data, if the
/// lengths in them allow it.
pub fn mend_jffs2(bytes: &mut [u8]) {
    for at in (0..bytes.len()).step_by(4) {
        let node = &mut bytes[at..];
        if let Some(endian) = Endian::of_magic(node) {
            mend_jffs2_node(node, endian);
        }
    }
}

fn mend_jffs2_node(node: &mut [u8], endian: Endian) {
    let in_order = |mut bytes: [u8; 4]| {
        if endian.is_big() {
            bytes.reverse();
        }
        bytes
    };
    let number = |node: &[u8], at: usize| {
        let bytes = node.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 4]);
        (u32::from_le_bytes(in_order(bytes)) as usize).min(NODE_MAX)
    };
    let seal = |node: &mut [u8], covered: Range<usize>, at: usize| {
        let Some(sum) = node.get(covered).map(crc::jffs2) else { return };
        if let Some(field) = node.get_mut(at..at + 4) {
            field.copy_from_slice(&in_order(sum.to_le_bytes()));
        }
    };
    seal(node, 0..8, 8);
    let kind = node.get(if endian.is_big() { 3 } else { 2 });
    match kind {
        Some(1) => {
            let name_len = node.get(28).map_or(0, |&len| usize::from(len));
            seal(node, 40..40 + name_len, 36);
            seal(node, 0..32, 32);
        }
        Some(2) => {
            let data_len = number(node, 48);
            seal(node, 68..68 + data_len, 60);
            seal(node, 0..60, 64);
        }
        Some(6) => seal(node, 0..24, 28),
        Some(8) => {
            let name_len = node.get(21).map_or(0, |&len| usize::from(len));
            // Values in the tests are short.
            let value_len = node.get(22..24).map_or(0, |len| usize::from(len[0] | len[1]));
            seal(node, 32..33 + name_len + value_len, 24);
            seal(node, 0..28, 28);
        }
        Some(9) => seal(node, 0..24, 24),
        _ => {}
    }
}

/// Searches these bytes for images, and reads all of them, both unchanged and with good CRCs in the JFFS2 nodes.
pub fn jffs2(bytes: &[u8]) {
    image(bytes);
    let mut mended = bytes.to_vec();
    mend_jffs2(&mut mended);
    image(&mended);
}

/// Attaches flash with these contents and one of four geometries, which the first byte selects. It is attached in
/// every way for reading, and once for writing, after which each volume is written.
pub fn attach(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let geometry: fn(u32) -> Geometry = match choice % 4 {
        0 => Geometry::nand_512,
        1 => Geometry::nand_2048,
        2 => |blocks| Geometry { sub_page_bytes: 512, ..Geometry::nand_512(blocks) },
        _ => |blocks| Geometry::nor(blocks, 8192),
    };
    let peb = u64::from(geometry(1).erase_bytes);
    let blocks = u32::try_from((bytes.len() as u64).div_ceil(peb)).unwrap_or(u32::MAX).max(1);
    let flash = |mode| StoreFlash::new(bytes.to_vec(), geometry(blocks), mode);
    let read = AttachOptions { read_only: true, ..AttachOptions::default() };
    for options in [
        read.clone(),
        AttachOptions { forgiving: true, ..read.clone() },
        AttachOptions { fastmap: FastmapUse::Read, ..read },
    ] {
        if let Ok(ubi) = Ubi::attach(flash(StoreMode::ReadOnly), &options) {
            read_volumes(ubi);
        }
    }
    let write = AttachOptions { fastmap: FastmapUse::Write, ..AttachOptions::default() };
    if let Ok(mut ubi) = Ubi::attach(flash(StoreMode::WriteThrough), &write) {
        let page = vec![0x5A; geometry(1).write_bytes.max(64) as usize];
        let volumes: Vec<VolumeInfo> = ubi.volumes().collect();
        for volume in &volumes {
            // The write may fail.
            let _ = ubi.change_leb(volume.id, 0, &page);
        }
        let _ = ubi.detach();
    }
}

fn read_volumes(mut ubi: Ubi<StoreFlash<Vec<u8>>>) {
    let volumes: Vec<VolumeInfo> = ubi.volumes().collect();
    let mut leb = Vec::new();
    for volume in &volumes {
        for lnum in 0..volume.used_lebs {
            if !ubi.is_mapped(volume.id, lnum).unwrap_or(false) {
                continue;
            }
            leb.resize(volume.usable_leb_bytes as usize, 0);
            let _ = ubi.read_leb(volume.id, lnum, 0, &mut leb);
        }
    }
}

/// Mounts a bare UBIFS and reads all of it: strictly, after a recovery in memory, and from its readable parts. LEBs
/// have 15,872 bytes, or the size in the superblock.
pub fn mount(bytes: &[u8]) {
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    let leb_bytes = word(36).filter(|leb| (2048..=1 << 20).contains(leb)).unwrap_or(15_872);
    let min_io_bytes = word(32).filter(|unit| (8..=16_384).contains(unit)).unwrap_or(512);
    let lebs = (bytes.len() as u64).div_ceil(u64::from(leb_bytes)).max(1);
    let geometry = VolumeGeometry {
        lebs: u32::try_from(lebs).unwrap_or(u32::MAX),
        leb_bytes,
        min_io_bytes,
        max_write_bytes: min_io_bytes,
        leb_start: 0,
        read_only: false,
    };
    let read = MountOptions { read_only: true, recover: true, ..MountOptions::default() };
    read_all(BareVolume::new(bytes.to_vec(), geometry), &read);
    read_all(RamVolume::from_bytes(geometry, bytes), &MountOptions { read_only: false, ..read });
    if let Ok(mut remains) = DamagedUbifs::new(BareVolume::new(bytes.to_vec(), geometry)) {
        let _ = extract(&mut remains, &mut Nowhere, &LIMITS, &|_| {});
    }
}

fn read_all(volume: impl Volume + 'static, options: &MountOptions) {
    let Ok(mut fs) = Ubifs::mount(volume, options, Behaviour::default()) else { return };
    let _ = extract(&mut FileSystemSource(&mut fs), &mut Nowhere, &LIMITS, &|_| {});
    let _ = fs.check();
    let _ = fs.unmount();
}

/// Searches a file with these contents for images, describes them and extracts all of them.
pub fn image(bytes: &[u8]) {
    let Ok(file) = file_of(bytes) else { return };
    let Ok(image) = Image::over(file, Access::Read) else { return };
    let _ = super::info::info(&image);
    for one in image.found.iter().take(4) {
        for volume in [None, Some("0".to_owned())] {
            let selection = Selection { offset: Some(one.offset), volume, ..Selection::default() };
            if let Ok(extraction) = Extraction::open(&image, &selection) {
                let _ = extraction.run(&mut Nowhere, &LIMITS, &|_| {});
            }
        }
        let selection = Selection { offset: Some(one.offset), ..Selection::default() };
        let _ = super::raw::read_raw(&image, &selection, &mut io::sink());
        go_back(&image, &selection);
    }
}

/// Creates the map of a dump with these contents.
pub fn map(bytes: &[u8]) {
    let Ok(file) = file_of(bytes) else { return };
    let Ok(image) = Image::over_any(file, crate::FlashSizes::default()) else { return };
    let Ok(map) = crate::map::map(&image) else { return };
    assert!(map.top().map(|part| part.len).sum::<u64>() == map.size, "a byte is in no part, or in two");
}

/// Lists old nodes, and extracts the state at several of their points in time.
fn go_back(image: &Image, selection: &Selection) {
    let Ok(revisions) = history(image, selection) else { return };
    let chosen = revisions.iter().step_by(revisions.len() / 3 + 1);
    let at = chosen.filter_map(|node| {
        let version = node.at.split_once(':');
        match version {
            Some((inode, version)) => {
                Some(At::Version { inode: inode.parse().ok()?, version: version.parse().ok()? })
            }
            None => node.at.parse().ok().map(At::Sqnum),
        }
    });
    let middle = revisions.get(revisions.len() / 2).and_then(|node| node.time).map(At::Time);
    for at in at.chain(middle) {
        if let Ok(extraction) = Extractions::open_at(image, selection, at) {
            let _ = extraction.run(&mut Nowhere, &LIMITS, &|_| {});
        }
    }
}

fn file_of(bytes: &[u8]) -> io::Result<File> {
    let mut file = tempfile()?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Reads these bytes as a YAFFS2, even if their start is not one.
pub fn yaffs(bytes: &[u8]) {
    whole(crate::map::Kind::Yaffs, bytes);
}

/// Reads these bytes as a partition with ESP-IDF's wear levelling, also with good CRCs of its configuration and
/// states.
pub fn wear_levelling(bytes: &[u8]) {
    whole(crate::map::Kind::WearLevelled, bytes);
    let mut mended = bytes.to_vec();
    let sum = |bytes: &[u8]| (!crc::ubi_update(0, bytes)).to_le_bytes();
    for at in (0..mended.len()).step_by(4096) {
        let Some(sector) = mended.get_mut(at..).filter(|sector| sector.len() >= 64) else { break };
        // The configuration has the sector size at the position of the number of turns in a state.
        let (covered, place) = if sector[8..12] == 4096_u32.to_le_bytes() { (32, 32) } else { (60, 60) };
        let own = sum(&sector[..covered]);
        sector[place..place + 4].copy_from_slice(&own);
    }
    whole(crate::map::Kind::WearLevelled, &mended);
}

/// Reads all of these bytes as a format.
fn whole(kind: crate::map::Kind, bytes: &[u8]) {
    let store = Box::new(bytes.to_vec());
    let Ok(files) = crate::format::tree::TreeFiles::open(kind, store, (0, bytes.len() as u64)) else {
        return;
    };
    let _ = crate::extract::target::Extracting::run(Box::new(files), &mut Nowhere, &LIMITS, &|_| {});
}

/// Reads a read-only filesystem of any format that begins at the start of these bytes or within them.
pub fn readonly(bytes: &[u8]) {
    let Ok(file) = file_of(bytes) else { return };
    let Ok(image) = Image::over_any(file, crate::FlashSizes::default()) else { return };
    let Ok(store) = image.store() else { return };
    let Ok(found) = crate::map::readable(&*store) else { return };
    for one in found.iter().take(8) {
        let Ok(store) = image.store() else { return };
        let files = crate::format::tree::TreeFiles::open(one.kind, store, (one.at, one.len));
        let Ok(files) = files else { continue };
        let _ = crate::extract::target::Extracting::run(Box::new(files), &mut Nowhere, &LIMITS, &|_| {});
    }
}

/// Reads images with the key of the samples of the tests: names, contents and targets of links are decrypted.
pub fn encrypted(bytes: &[u8]) {
    let mut keys = Keys::default();
    let key: [u8; 64] = std::array::from_fn(|at| (at as u8).wrapping_mul(7).wrapping_add(3));
    let Ok(image) = Image::from_stream(&mut &*bytes, crate::FlashSizes::default()) else { return };
    if keys.add(&key).is_err() {
        return;
    }
    let image = image.with_keys(keys);
    for one in image.found.iter().take(4) {
        let selection = Selection { offset: Some(one.offset), ..Selection::default() };
        if let Ok(extraction) = Extraction::open(&image, &selection) {
            let _ = extraction.run(&mut Nowhere, &LIMITS, &|_| {});
        }
        if let Ok(mut fs) = image.mount(&selection, true, Behaviour::default()) {
            let _ = crate::list::list(&mut *fs, b"/", false);
        }
    }
}

/// Takes the halves of these bytes as the dumps of two chips, and as two dumps of one chip.
pub fn two_dumps(bytes: &[u8]) {
    let Ok(file) = file_of(bytes) else { return };
    let _ = file.try_clone().map_err(crate::ImageError::File).and_then(crate::dump_kind::DumpKind::of_file);
    let Ok(halves) = join::halves(&file) else { return };
    if let Ok(found) = join::find(halves, None) {
        let joined = join::join(halves, found.striping, &mut io::sink(), &mut |_| ());
        assert!(joined.is_ok(), "an order that was found cannot be written");
    }
    let Ok(geometry) = PageGeometry::new(512, 16, Some(4)) else { return };
    let (mut one, mut other) = bytes.split_at(bytes.len() / 2);
    let dumps = [&mut one, &mut other].map(|pages| Dump { pages, apart: None }).into();
    let regions = Regions::one(RegionEcc::None);
    if let Ok(report) = merge(&geometry, &regions, dumps, &mut io::sink(), &mut |_| ()) {
        assert!(report.written_bytes == report.pages * u64::from(geometry.full_page()), "a page is missing");
    }
}

/// Reads an ini file of `ubinize` with these bytes.
pub fn ini(bytes: &[u8]) {
    let _ = crate::ubinize::parse(&String::from_utf8_lossy(bytes), Path::new("volumes.ini"));
}
