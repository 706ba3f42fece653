//! Images of which one field of one node says something else, with good CRCs: garbage that looks like nodes, or what a fault of a maker leaves.

use std::fs;

use floatgate_image::check::{Outcome, check};
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::repair::repair;
use floatgate_image::{Access, Image, Selection};
use floatgate_media::crc;
use floatgate_media::jffs2::{Endian, Entry, Header, NodeType, Summary, SummaryMarker, emit_summary};
use floatgate_mtd::Instant;
use floatgate_stack::fs::{AttributeChanges, DeviceNumber, FileSystem, NewFile, NewKind, SetXattr};
use floatgate_stack::jffs2::{Jffs2, MountOptions};
use floatgate_stack::ubifs::Behaviour;
use floatgate_stack::{StoreFlash, StoreMode};
use floatgate_testing::few_or_all;

use super::edited::{KINDS, Kind, NOW, geometry, noise};
use super::repaired::{listing, nodes, repaired};
use super::{mounted, open};

pub(crate) const ERASE: usize = 4 << 10;
pub(crate) const BLOCKS: usize = 24;

/// Fields of inode nodes and of dirent nodes: the first byte and the number of bytes.
const INODE_FIELDS: [(usize, usize); 15] = [
    (12, 4),
    (16, 4),
    (20, 4),
    (24, 2),
    (26, 2),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 4),
    (44, 4),
    (48, 4),
    (52, 4),
    (56, 1),
    (57, 1),
    (58, 2),
];
const DIRENT_FIELDS: [(usize, usize); 6] = [(12, 4), (16, 4), (20, 4), (24, 4), (28, 1), (29, 1)];

/// A small filesystem with something of each kind, of which something was replaced and something removed.
fn small(kind: Kind) -> Vec<u8> {
    let flash = StoreFlash::new(Vec::new(), geometry(kind.is_nand, BLOCKS, ERASE), StoreMode::WriteThrough);
    let options =
        MountOptions { endian: Some(kind.endian), summaries: kind.summaries, ..MountOptions::default() };
    let mut fs = Jffs2::mount(flash, Instant::ZERO, &options).map_err(|(error, _)| error).unwrap();
    fs.set_time(NOW);
    let new = |kind| NewFile { kind, permissions: 0o755, uid: 0, gid: 0 };
    let dir = fs.create(1, b"dir", &new(NewKind::Directory)).unwrap();
    let text = fs.create(dir, b"text", &new(NewKind::Regular)).unwrap();
    fs.write(text, 0, &noise(1, 2500)).unwrap();
    let data = fs.create(1, b"data", &new(NewKind::Regular)).unwrap();
    fs.write(data, 0, &noise(2, 5000)).unwrap();
    fs.write(data, 1000, &noise(3, 500)).unwrap();
    fs.write(data, 20_000, b"end").unwrap();
    fs.set_xattr(data, b"user.note", b"value", SetXattr::Any).unwrap();
    fs.link(data, dir, b"hard").unwrap();
    fs.create(1, b"link", &new(NewKind::Symlink(b"dir/text"))).unwrap();
    fs.create(1, b"pipe", &new(NewKind::Fifo)).unwrap();
    let null = DeviceNumber { major: 1, minor: 3 };
    fs.create(1, b"null", &new(NewKind::CharacterDevice(null))).unwrap();
    let gone = fs.create(1, b"gone", &new(NewKind::Regular)).unwrap();
    fs.write(gone, 0, b"gone").unwrap();
    fs.unlink(1, b"gone").unwrap();
    fs.set_attributes(text, &AttributeChanges { permissions: Some(0o600), ..AttributeChanges::default() })
        .unwrap();
    fs.create(dir, b"empty", &new(NewKind::Regular)).unwrap();
    if kind.summaries {
        // All of it is in eraseblocks that are full.
        let more = fs.create(1, b"more", &new(NewKind::Regular)).unwrap();
        fs.write(more, 0, &noise(4, ERASE)).unwrap();
    }
    let mut bytes = fs.unmount().map_err(|(error, _)| error).unwrap().into_store();
    bytes.resize(BLOCKS * ERASE, 0xFF);
    bytes
}

fn number(bytes: &[u8], endian: Endian) -> u64 {
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    if endian.is_big() { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
}

fn put_number(bytes: &mut [u8], endian: Endian, number: u64) {
    let width = bytes.len();
    if endian.is_big() {
        bytes.copy_from_slice(&number.to_be_bytes()[8 - width..]);
    } else {
        bytes.copy_from_slice(&number.to_le_bytes()[..width]);
    }
}

/// Sets a field of the node at a byte, with its CRC, and lists it anew in the summary of its eraseblock, if that lists it.
fn set_field(image: &mut [u8], endian: Endian, at: usize, (field, width): (usize, usize), value: u64) {
    let header = Header::parse(&image[at..], endian).unwrap();
    put_number(&mut image[at + field..][..width], endian, value);
    sum_up(&mut image[at..], endian, header.node_type);
}

/// Writes the CRC of a node's fields.
fn sum_up(node: &mut [u8], endian: Endian, node_type: NodeType) {
    let (end, sum_at) = if node_type == NodeType::Inode { (60, 64) } else { (32, 32) };
    let sum = crc::jffs2(&node[..end]);
    put_number(&mut node[sum_at..][..4], endian, sum.into());
}

/// Lists the nodes of all eraseblocks with a summary as they are.
fn list_again(image: &mut [u8], endian: Endian, erase: usize) {
    for block in image.chunks_mut(erase) {
        let end = block.len() - SummaryMarker::SIZE;
        let Some(marker) = SummaryMarker::parse(block[end..].try_into().unwrap(), endian) else { continue };
        let (before, out) = block.split_at_mut(marker.offset as usize);
        let Ok(summary) = Summary::parse(out, endian) else { continue };
        let begins = Header::parse(before, endian).unwrap();
        let clean_marker = if begins.node_type == NodeType::CleanMarker { begins.len } else { 0 };
        let (mut list, mut count) = (Vec::new(), 0);
        for entry in summary.entries().map(Result::unwrap) {
            let field = |offset: u32, at: usize| number(&before[offset as usize + at..][..4], endian) as u32;
            let byte = |offset: u32, at: usize| before[offset as usize + at];
            let entry = match entry {
                Entry::Inode { offset, len, .. } => {
                    Entry::Inode { inode: field(offset, 12), version: field(offset, 16), offset, len }
                }
                Entry::Dirent { offset, len, .. } => Entry::Dirent {
                    parent: field(offset, 12),
                    version: field(offset, 16),
                    inode: field(offset, 20),
                    dirent_type: byte(offset, 29),
                    offset,
                    len,
                    name: &before[offset as usize + 40..][..usize::from(byte(offset, 28))],
                },
                other => other,
            };
            let from = list.len();
            list.resize(from + entry.size(), 0);
            entry.emit(endian, &mut list[from..]);
            count += 1;
        }
        if list.len() + Summary::BESIDE_LIST <= out.len() {
            emit_summary((count, &list), clean_marker, marker.offset, endian, out);
        }
    }
}

/// Each value that a field of a node gets: numbers that mean something, and what another node has there.
fn mutations(whole: &[u8], endian: Endian) -> Vec<(usize, (usize, usize), u64)> {
    let all = nodes(whole, endian);
    let mut mutations = Vec::new();
    for of_type in [NodeType::Inode, NodeType::Dirent] {
        let fields: &[(usize, usize)] =
            if of_type == NodeType::Inode { &INODE_FIELDS } else { &DIRENT_FIELDS };
        let own: Vec<usize> =
            all.iter().filter(|(_, header)| header.node_type == of_type).map(|(at, _)| *at).collect();
        for (place, &at) in own.iter().enumerate() {
            for &(field, width) in fields {
                let value = |at: usize| number(&whole[at + field..][..width], endian);
                let others = [1, 3].map(|step| value(own[(place + step) % own.len()]));
                let max = u64::MAX >> (64 - 8 * width);
                let mut values = [vec![0, 1, 2, max], others.to_vec()].concat();
                values.sort_unstable();
                values.dedup();
                values.retain(|&other| other != value(at));
                mutations.extend(values.into_iter().map(|value| (at, (field, width), value)));
            }
        }
    }
    mutations
}

/// Puts and removes files until all eraseblocks have been collected.
pub(crate) fn churn(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    fs::write(&path, bytes).unwrap();
    let image =
        Image::open_sized(&path, Access::Write, Some(ERASE as u32)).map_err(|error| error.to_string())?;
    let mut fs =
        image.mount(&Selection::default(), false, Behaviour::default()).map_err(|error| error.to_string())?;
    let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    for round in 0..60 {
        let file = fs.create(1, b"churned", &new).map_err(|error| format!("{round}: {error}"))?;
        fs.write(file, 0, &noise(round + 1, 3000)).map_err(|error| format!("{round}: {error}"))?;
        fs.unlink(1, b"churned").map_err(|error| format!("{round}: {error}"))?;
    }
    fs.unmount().map_err(|error| error.to_string())?;
    Ok(fs::read(&path).unwrap())
}

/// Fails with what is wrong with a mutated image: a repair ends, what comes of it is clean, is extracted, and stays what it is.
fn try_mutated(bytes: &[u8]) -> Result<(), String> {
    let image = open(bytes).map_err(|error| format!("open: {error}"))?;
    if image.found.len() != 1 {
        return Err(format!("{} images", image.found.len()));
    }
    let selection = Selection::default();
    let before = check(&image, &selection).map_err(|error| format!("check: {error}"))?;
    let findings =
        || before.findings.iter().map(|finding| finding.what.clone()).collect::<Vec<_>>().join("; ");
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::write(&old, bytes).unwrap();
    let report = match repair(&old, &new, &selection) {
        Ok(report) => report,
        Err(error) => return Err(format!("repair: {error}: {}", findings())),
    };
    let losses: Vec<String> =
        report.losses.iter().map(|loss| format!("{}: {}", loss.path, loss.what)).collect();
    let repaired = fs::read(&new).unwrap();
    let checked = check(&open(&repaired).unwrap(), &selection).unwrap();
    if checked.outcome != Outcome::Clean {
        return Err(format!("not clean: {:?}", checked.findings));
    }
    let was = listing(&mut *mounted(&repaired));
    let unread: Vec<&String> = was.iter().filter(|(_, data)| data.is_none()).map(|(path, _)| path).collect();
    if !unread.is_empty() {
        return Err(format!("cannot be read: {unread:?}, {}", findings()));
    }
    if was.values().flatten().all(|data| data.len() < 1 << 20) {
        let mut tar = Vec::new();
        let image = open(&repaired).unwrap();
        let extractions = Extractions::open(&image, &selection).unwrap();
        let done =
            extractions.run(&mut TarTarget::new(&mut tar), &ExtractLimits::default(), &|_| {}).unwrap();
        if !done.losses.is_empty() {
            return Err(format!("extraction loses: {:?}; {}", done.losses, findings()));
        }
    }
    let churned = churn(&repaired).map_err(|error| format!("change: {error}; {}, {losses:?}", findings()))?;
    let now = listing(&mut *mounted(&churned));
    if now != was {
        let differ = |path: &&String| was.get(*path) != now.get(*path);
        let differ: Vec<&String> = was.keys().chain(now.keys()).filter(differ).collect();
        return Err(format!("changed by garbage collection: {differ:?}; {}", findings()));
    }
    let checked = check(&open(&churned).unwrap(), &selection).unwrap();
    if checked.outcome != Outcome::Clean {
        return Err(format!("not clean after changes: {:?}; before: {}", checked.findings, findings()));
    }
    Ok(())
}

/// One mutation in so many is tried: all of them, in about five minutes, with `EVERY=1`.
const ONE_IN: usize = 43;

#[test]
fn a_field_that_says_something_else_is_repaired() {
    let one_in = std::env::var("EVERY").map_or(ONE_IN * few_or_all(4, 1), |every| every.parse().unwrap());
    let mut failures = Vec::new();
    for kind in KINDS {
        let whole = small(kind);
        let name = |at: usize, field: usize, value| {
            let of_type = Header::parse(&whole[at..], kind.endian).unwrap().node_type;
            format!("{kind:?} {of_type:?} at {at:#x}, field {field} is {value}")
        };
        for (at, (field, width), value) in mutations(&whole, kind.endian).into_iter().step_by(one_in) {
            for lists in [false, true] {
                if lists && !kind.summaries {
                    continue;
                }
                let mut bytes = whole.clone();
                set_field(&mut bytes, kind.endian, at, (field, width), value);
                if lists {
                    list_again(&mut bytes, kind.endian, ERASE);
                }
                if let Err(error) = try_mutated(&bytes) {
                    failures.push(format!("{}, listed: {lists}: {error}", name(at, field, value)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// A summary that lists a node as one of another inode or version: what the node itself says is read, kept and listed anew.
#[test]
fn a_summary_that_contradicts_a_node_gives_way_to_it() {
    for kind in KINDS.into_iter().filter(|kind| kind.summaries).take(few_or_all(1, KINDS.len())) {
        let whole = small(kind);
        let before = listing(&mut *mounted(&whole));
        let fields: &[usize] = &[12, 16, 20];
        let mut told = 0;
        for (at, header) in nodes(&whole, kind.endian) {
            let of_type = fields.iter().filter(|field| match header.node_type {
                NodeType::Inode => **field < 20,
                NodeType::Dirent => true,
                _ => false,
            });
            for (&field, value) in of_type.flat_map(|field| [(field, 3), (field, 77)]) {
                let name = format!("{kind:?} {at:#x}, field {field} is {value}");
                let mut bytes = whole.clone();
                set_field(&mut bytes, kind.endian, at, (field, 4), value);
                list_again(&mut bytes, kind.endian, ERASE);
                let end = at + header.len as usize;
                bytes[at..end].copy_from_slice(&whole[at..end]);
                if bytes == whole {
                    continue;
                }
                told += 1;
                let report = check(&open(&bytes).unwrap(), &Selection::default()).unwrap();
                let of_node = report.findings.iter().find(|finding| finding.offset == Some(at as u64));
                let what = of_node.map(|finding| finding.what.as_str());
                assert!(
                    what.is_some_and(|what| what.contains("lists the node as")),
                    "{name}: {:?}",
                    report.findings
                );
                assert_eq!((report.outcome, report.findings.len()), (Outcome::Damaged, 1), "{name}");
                assert!(listing(&mut *mounted(&bytes)) == before, "{name}");
                let (repair, new) = repaired(&name, &bytes).unwrap();
                assert_eq!(repair.losses.len(), 1, "{name}: {:?}", repair.losses);
                assert!(listing(&mut *mounted(&new)) == before, "{name}");
                assert!(new == whole, "{name}: the summary is what it was");
                assert!(listing(&mut *mounted(&churn(&bytes).unwrap())) == before, "{name}");
            }
        }
        assert!(told > 20, "{kind:?}: {told}");
    }
}
