//! A campaign: images with one damage each, dense and roomy, are repaired. Nothing is lost but what the damage hit, and that is listed.
//!
//! A dense image is as `mkfs.ubifs` and `ubinize` make it without a volume size: the filesystem ends behind its data and cannot grow,
//! and its volume has as many LEBs. What a damage can hit follows from the node: its file, its name, its block.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::crc;
use floatgate_media::ubifs::{Frame, Node as Body};
use floatgate_stack::fs::{CompressedBlock, Compression, FileFlags, FilledFile, NewFile, NewKind, Timestamp};
use floatgate_stack::ubifs::probe;

use super::tree::ExtractedFile;
use super::*;
use crate::ImageError;
use crate::repair::{Method, RepairReport, Repaired, repair};
use floatgate_mtd::random::Random;

/// Size of a PEB, and of UBI's headers in it, bytes.
const PEB: usize = 16 << 10;
const DATA_AT: usize = 512;

/// Number of files in a directory of the tree.
const PER_DIRECTORY: u32 = 40;

/// An image with known contents, before its damage.
struct Sample {
    bytes: Vec<u8>,
    /// Offsets of the LEBs, and their size in bytes.
    lebs: Vec<usize>,
    leb_bytes: usize,
    whole: BTreeMap<String, ExtractedFile>,
    /// Names of inodes, including the root.
    paths: BTreeMap<u32, Vec<String>>,
}

fn put(fs: &mut Ubifs<dyn Volume>, directory: u32, name: &str, kind: NewKind<'_>, data: &[u8]) -> u32 {
    let time = Timestamp { seconds: 1_600_000_000, nanoseconds: 0 };
    let xattr = [(b"user.name".to_vec(), name.as_bytes().to_vec())];
    let has_xattr = data.len().is_multiple_of(3) && matches!(kind, NewKind::Regular);
    let file = FilledFile {
        file: NewFile { kind, permissions: 0o640, uid: 7, gid: 8 },
        size: data.len() as u64,
        atime: time,
        mtime: time,
        ctime: time,
        flags: FileFlags::default(),
        compression: None,
        xattrs: if has_xattr { &xattr } else { &[] },
    };
    let inode = fs.fill(directory, name.as_bytes(), &file).unwrap();
    for (block, data) in (0..).zip(data.chunks(4096)) {
        let size = data.len() as u32;
        fs.fill_blocks(inode, &[CompressedBlock { block, size, compression: Compression::None, data }])
            .unwrap();
    }
    inode
}

/// Creates this number of files in nested directories, with links, attributes and contents of several blocks.
fn populate(fs: &mut Ubifs<dyn Volume>, files: u32) -> BTreeMap<u32, Vec<String>> {
    let mut random = Random::new(u64::from(files));
    let mut paths = BTreeMap::from([(fs.root(), vec!["/".to_owned()])]);
    let mut directories = vec![(fs.root(), String::new())];
    for number in 0..files {
        if number % PER_DIRECTORY == PER_DIRECTORY - 1 {
            let (above, path) = directories[random.below(directories.len() as u64) as usize].clone();
            let path = format!("{path}/d{number}");
            let inode = put(fs, above, &format!("d{number}"), NewKind::Directory, &[]);
            paths.insert(inode, vec![path.clone()]);
            directories.push((inode, path));
        }
        let (directory, path) = directories[random.below(directories.len() as u64) as usize].clone();
        let name = format!("f{number}");
        let most = if files > 1000 { 300 } else { 9000 };
        let data: Vec<u8> = (0..random.below(most)).map(|_| random.bits() as u8).collect();
        let inode = match number % 11 {
            9 => put(fs, directory, &name, NewKind::Symlink(b"where it leads"), &[]),
            10 => put(fs, directory, &name, NewKind::Fifo, &[]),
            _ => put(fs, directory, &name, NewKind::Regular, &data),
        };
        paths.insert(inode, vec![format!("{path}/{name}")]);
        if number % 17 == 5 {
            let (other, path) = directories[0].clone();
            let name = format!("link{number}");
            fs.fill_link(inode, other, name.as_bytes()).unwrap();
            paths.entry(inode).or_default().push(format!("{path}/{name}"));
        }
    }
    paths
}

impl Sample {
    fn new(files: u32, dense: bool, ubi: bool) -> Self {
        let lebs = 60 + files / 2;
        let (built, _) = Self::build(files, lebs);
        let needed = Self::lebs_of(&built);
        let (bytes, paths) = if dense { Self::build(files, needed) } else { Self::build(files, needed * 2) };
        let leb_bytes = PEB - DATA_AT;
        let volume = if dense { needed } else { needed * 2 };
        let bytes = if ubi { enclose(&bytes, leb_bytes, volume) } else { bytes };
        let lebs = if ubi {
            (0..bytes.len() / PEB).map(|peb| peb * PEB + DATA_AT).collect()
        } else {
            (0..bytes.len() / leb_bytes).map(|leb| leb * leb_bytes).collect()
        };
        let whole = resolved(&bytes);
        assert!(whole.len() as u32 > files);
        Self { bytes, lebs, leb_bytes, whole, paths }
    }

    /// Bare image that can grow to `lebs` LEBs.
    fn build(files: u32, lebs: u32) -> (Vec<u8>, BTreeMap<u32, Vec<String>>) {
        let geometry = bare_geometry(lebs);
        let volume = BareVolume::new(Vec::new(), geometry);
        // The smallest journal, so that only the data determines the size of the filesystem.
        let options =
            FormatOptions { deferred: true, journal_bytes: Some(4 * 15_872), ..FormatOptions::default() };
        let mut paths = BTreeMap::new();
        let mut volume = fill_volume(volume, &options, true, |fs| paths = populate(fs, files));
        volume.flush().unwrap();
        (volume.into_store(), paths)
    }

    fn lebs_of(bytes: &[u8]) -> u32 {
        let lebs = (bytes.len() / (PEB - DATA_AT)) as u32;
        let geometry = bare_geometry(lebs);
        probe(&mut BareVolume::new(bytes.to_vec(), geometry)).unwrap().0.leb_count
    }

    /// Offset and size of all nodes.
    fn nodes(&self) -> Vec<(usize, usize)> {
        let mut nodes = Vec::new();
        for &leb in &self.lebs {
            let (mut at, end) = (leb, (leb + self.leb_bytes).min(self.bytes.len()));
            while at + 24 <= end {
                match Frame::parse(&self.bytes[at..end]) {
                    Ok(frame) => {
                        let len = frame.as_bytes().len();
                        nodes.push((at, len));
                        at += len.next_multiple_of(8);
                    }
                    Err(_) => at += 8,
                }
            }
        }
        nodes
    }

    /// Owner of a node: inodes, or a path.
    fn hits(&self, at: usize) -> Hits {
        let frame = Frame::parse(&self.bytes[at..]).unwrap();
        let inodes = |inode: u32| Hits { inodes: BTreeSet::from([inode]), ..Hits::default() };
        match frame.node() {
            Ok(Body::Inode(node)) => inodes(self.host(node.inode.key.inum())),
            Ok(Body::Data(node)) => inodes(node.block.key.inum()),
            Ok(Body::Entry(node)) => {
                let (parent, child) = (node.entry.key.inum(), node.entry.inode as u32);
                let named = self.paths.contains_key(&child);
                if named { Hits { inodes: BTreeSet::from([child]), below: true } } else { inodes(parent) }
            }
            _ => Hits::default(),
        }
    }

    /// Inode of the file for an inode: the inode itself, or for the value of an attribute the file's inode, which is
    /// directly before it.
    fn host(&self, inode: u32) -> u32 {
        self.paths.range(..=inode).next_back().map_or(inode, |(&host, _)| host)
    }
}

/// Losses that a damage may cause.
#[derive(Debug, Default)]
struct Hits {
    inodes: BTreeSet<u32>,
    /// True if all files below are affected as well, which are found at another position.
    below: bool,
}

/// UBI device with exactly the PEBs that a volume of this number of LEBs needs.
fn enclose(bare: &[u8], leb_bytes: usize, lebs: u32) -> Vec<u8> {
    let geometry = Geometry::nand_512(lebs + 4);
    let options = AttachOptions { max_bad_per_1024: 0, new_image_seq: 7, ..AttachOptions::default() };
    let mut ubi =
        Ubi::attach(flash(Vec::new(), &geometry), &options).unwrap_or_else(|e| panic!("{}", e.fault));
    ubi.create_volume(&NewVolume::dynamic("root", lebs)).unwrap();
    for (lnum, leb) in (0..).zip(bare.chunks(leb_bytes)) {
        let used = leb.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        if used > 0 {
            ubi.write_leb(0, lnum, 0, &leb[..used.next_multiple_of(512)]).unwrap();
        }
    }
    let (mut flash, _) = ubi.detach().unwrap_or_else(|(error, _)| panic!("{error}"));
    flash.fill_last_block().unwrap();
    in_order(&flash.into_store(), &geometry)
}

/// Contents of an image. Every name of a file has all its contents.
fn resolved(bytes: &[u8]) -> BTreeMap<String, ExtractedFile> {
    let (memory, extracted) = read(bytes, &Selection::default());
    assert_eq!(extracted.losses, []);
    let first = |kept: &ExtractedFile| {
        kept.first.as_ref().map_or_else(|| kept.clone(), |first| memory.files[first].clone())
    };
    memory.files.iter().map(|(path, kept)| (path.clone(), first(kept))).collect()
}

/// Makes one damage.
fn damage(sample: &Sample, random: &mut Random) -> (Vec<u8>, Hits, String) {
    let mut bytes = sample.bytes.clone();
    let nodes = sample.nodes();
    let (at, len) = nodes[random.below(nodes.len() as u64) as usize];
    let hits = sample.hits(at);
    let node_type = bytes[at + 20];
    let what = match random.below(4) {
        0 => {
            let bit = random.below(len as u64 * 8) as usize;
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            "a wrong bit"
        }
        1 => {
            bytes[at..at + len].fill(0x5A);
            "another node"
        }
        2 => {
            let from = random.below(len as u64) as usize;
            let to = (from + 64).min(len);
            bytes[at + from..at + to].fill(0xFF);
            "64 erased bytes"
        }
        _ => {
            // A field gets another value, with a good CRC. A changed key is another kind of damage, because it also
            // affects other nodes.
            let fields: &[usize] = match node_type {
                0 => &[48, 92, 104, 108, 116, 120, 128],
                1 => &[40, 44],
                2 | 3 => &[49, 50],
                9 => &[28, 32, 36],
                _ => &[24],
            };
            let field = at + fields[random.below(fields.len() as u64) as usize];
            bytes[field] ^= 1 << random.below(8);
            let sum = crc::ubi(&bytes[at + 8..at + len]);
            bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
            "another value of a field"
        }
    };
    (bytes, hits, format!("node of type {node_type} at byte {at}: {what}"))
}

/// Text about differences that the damage does not explain and that are not listed. Another valid value of a field is
/// no damage that a check can detect.
fn wrong(sample: &Sample, hits: &Hits, report: &RepairReport, out: &[u8]) -> Option<String> {
    let found = resolved(out);
    let hit: BTreeSet<&String> = hits.inodes.iter().flat_map(|inode| &sample.paths[inode]).collect();
    // Files below a directory without a name have another path.
    let is_hit =
        |path: &str| hit.iter().any(|&hit| hit == path || hits.below && path.starts_with(&format!("{hit}/")));
    let numbers: BTreeSet<String> = hits.inodes.iter().map(|inode| format!("/lost+found/#{inode}")).collect();
    let is_listed = |path: &str| {
        report.losses.iter().any(|loss| {
            let below = path.strip_prefix(&loss.path);
            let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            let is_other_name = hit.contains(&loss.path);
            is_below
                || is_other_name
                || numbers.contains(&loss.path)
                || loss.path == "/" && path.rfind('/') == Some(0)
        })
    };
    let mut different = sample.whole.iter().filter(|(path, kept)| found.get(*path) != Some(kept));
    different.find_map(|(path, _)| {
        let what = match (is_hit(path), is_listed(path) || report.method == Method::Copied) {
            (false, _) => "lost, but not hit",
            (true, false) => "lost, but not listed",
            (true, true) => return None,
        };
        Some(format!("{what}: {path}: {hit:?}, {:?}", report.losses))
    })
}

/// Results of repairs, and images with a wrong result.
#[derive(Debug, Default)]
struct Outcomes {
    intact: u32,
    wholly: u32,
    with_losses: u32,
    /// Number of these images that are larger than before.
    grown: u32,
    /// Number of UBIFS images without UBI in which nothing states the LEB size any more.
    nothing_found: u32,
    wrong: Vec<String>,
}

impl Outcomes {
    /// Repairs this number of images, each with another damage.
    fn campaign(&mut self, files: u32, dense: bool, ubi: bool, damages: u64) {
        let sample = Sample::new(files, dense, ubi);
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["image", "repaired"].map(|name| folder.path().join(name));
        for seed in 0..damages {
            let mut random = Random::new(seed << 8 | u64::from(dense) << 1 | u64::from(ubi));
            let (bytes, hits, what) = damage(&sample, &mut random);
            let mut wrong_is = |why: String| {
                self.wrong
                    .push(format!("{files} files, dense {dense}, UBI {ubi}, seed {seed}: {what}: {why}"));
            };
            std::fs::write(&from, &bytes).unwrap();
            let report = match repair(&from, &to, &Selection::default()) {
                Ok(report) => report,
                Err(ImageError::Nothing) if !ubi && what.starts_with("node of type 6 at byte 0:") => {
                    self.nothing_found += 1;
                    continue;
                }
                Err(error) => {
                    wrong_is(error.to_string());
                    continue;
                }
            };
            let out = std::fs::read(&to).unwrap();
            // A file without a name needs a directory and a name that did not exist.
            let room = if report.nameless > 0 { PEB } else { 0 };
            self.grown += u32::from(!report.grown.is_empty());
            if out.len() > bytes.len() + room || room == 0 && !report.grown.is_empty() {
                wrong_is(format!("{} bytes instead of {}: {:?}", out.len(), bytes.len(), report.grown));
            }
            match report.outcome {
                Repaired::Intact => self.intact += 1,
                Repaired::Wholly => self.wholly += 1,
                Repaired::WithLosses => self.with_losses += 1,
            }
            wrong(&sample, &hits, &report, &out).into_iter().for_each(wrong_is);
        }
    }

    fn assert_none_wrong(&self) {
        eprintln!("{self:#?}");
        assert!(self.wrong.is_empty(), "{} are wrong", self.wrong.len());
    }
}

/// UBIFS alone and in UBI, with and without free space.
const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn images_with_one_damage_are_repaired() {
    let mut outcomes = Outcomes::default();
    for (dense, ubi) in KINDS {
        outcomes.campaign(10, dense, ubi, 6);
        outcomes.campaign(200, dense, ubi, 4);
    }
    outcomes.assert_none_wrong();
}

#[test]
#[ignore = "slow: ./test --all"]
fn slow_five_hundred_images_with_one_damage_are_repaired() {
    let mut outcomes = Outcomes::default();
    for (dense, ubi) in KINDS {
        for (files, damages) in [(10, 50), (100, 40), (1500, 25), (6000, 6), (20_000, 4)] {
            outcomes.campaign(files, dense, ubi, damages);
        }
    }
    outcomes.assert_none_wrong();
}
