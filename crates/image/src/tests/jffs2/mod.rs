//! JFFS2 in dumps: with OOB, with mixed byte orders, within larger data. The live filesystem creates the images.

mod found;
mod oob;

use floatgate_media::jffs2::{Compressor, Endian};
use floatgate_mtd::{FlashKind, Instant};
use floatgate_stack::fs::{FileSystem, NewFile, NewKind};
use floatgate_stack::jffs2::{Jffs2, MountOptions};

use super::{ExtractLimits, Extracted, Geometry, Memory, Selection, flash, open};
use crate::extract::{Extractions, Loss};
use floatgate_mtd::random::Random;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(|| random.bits() as u8).take(len).collect()
}

pub(super) fn nor(blocks: u32, erase_bytes: u32) -> Geometry {
    Geometry { buffer_bytes: 1, ..Geometry::nor(blocks, erase_bytes) }
}

/// NAND with this number of blocks of 64 pages.
pub(super) fn nand(page_bytes: u32, blocks: u32) -> Geometry {
    let erase_bytes = 64 * page_bytes;
    Geometry {
        kind: FlashKind::SlcNand,
        size_bytes: u64::from(blocks) * u64::from(erase_bytes),
        erase_bytes,
        write_bytes: page_bytes,
        buffer_bytes: page_bytes,
        sub_page_bytes: page_bytes,
        ..Geometry::nand_2048(blocks)
    }
}

/// Whole flash with directories and files of `bytes` in total, half of which are compressible. Each seed has other
/// names.
pub(super) fn made(geometry: &Geometry, endian: Endian, summaries: bool, seed: u64, bytes: usize) -> Vec<u8> {
    let compressors = vec![Compressor::Zlib];
    let options = MountOptions { endian: Some(endian), summaries, compressors, ..MountOptions::default() };
    let mounted = Jffs2::mount(flash(Vec::new(), geometry), Instant::ZERO, &options);
    let mut fs = mounted.unwrap_or_else(|(error, _)| panic!("{error}"));
    let new = |kind| NewFile { kind, permissions: 0o755, uid: 1, gid: 2 };
    let mut random = Random::new(seed);
    let names = (0..8).map(|number| format!("dir-{seed}-{number}"));
    let directories: Vec<(String, u32)> = names
        .map(|name| {
            let inode = fs.create(1, name.as_bytes(), &new(NewKind::Directory)).unwrap();
            (name, inode)
        })
        .collect();
    let mut left = bytes;
    for ((name, directory), number) in directories.iter().cycle().zip(0..) {
        let len = (random.below(20_000) as usize).min(left);
        let text = format!("line of file {number} in {name}\n").into_bytes();
        let data =
            if number % 2 == 0 { noise(seed + number, len) } else { text.repeat(len / text.len() + 1) };
        let file = format!("file-{number}");
        let inode = fs.create(*directory, file.as_bytes(), &new(NewKind::Regular)).unwrap();
        fs.write(inode, 0, &data).unwrap();
        fs.create(*directory, format!("link-{number}").as_bytes(), &new(NewKind::Symlink(b"../target")))
            .unwrap();
        left -= len;
        if left == 0 {
            break;
        }
    }
    let mut bytes = fs.unmount().unwrap_or_else(|(error, _)| panic!("{error}")).into_store();
    bytes.resize(geometry.size_bytes as usize, 0xFF);
    bytes
}

/// Contents of an image, and the losses of reading it.
fn read(bytes: &[u8], selection: &Selection) -> (Memory, Extracted) {
    let extractions = Extractions::open(&open(bytes), selection).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::default();
    let extracted = extractions.run(&mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    (memory, extracted)
}

/// Contents of an image without losses, except nodes of the other byte order.
fn whole(bytes: &[u8], selection: &Selection) -> Memory {
    let (memory, extracted) = read(bytes, selection);
    let is_foreign = |loss: &Loss| loss.what.contains("of the other byte order");
    assert!(extracted.losses.iter().all(is_foreign), "{:?}", extracted.losses);
    memory
}

fn at(offset: u64) -> Selection {
    Selection { offset: Some(offset), ..Selection::default() }
}
