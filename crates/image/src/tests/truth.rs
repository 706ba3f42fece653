//! Images with known contents, each with one damage: where the contents that can be extracted differ from the truth, `check` and `extract`
//! say so, and a repaired image holds what an extraction restores.
//!
//! Exempt is a damage that leaves a state which the filesystem itself could have left: see [`Damage::is_unseen`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use floatgate_media::jffs2::Endian;
use floatgate_media::ubi::VolumeType;
use floatgate_mtd::Geometry;
use floatgate_stack::ubi::{AttachOptions, NewVolume, Ubi};

use super::tree::ExtractedFile;
use super::{Memory, device, flash, format, in_order, open, populate};
use crate::check::check;
use crate::extract::{ExtractLimits, Extracted, Extractions};
use crate::info::info;
use crate::repair::{RepairReport, repair};
use crate::status::Status;
use crate::{Access, Image, ImageError, Selection};
use floatgate_mtd::random::Random;

/// An image with known contents.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    truth: BTreeMap<String, ExtractedFile>,
    /// Sizes of an eraseblock and of a page, bytes.
    block: usize,
    page: usize,
    is_ubi: bool,
}

/// A change of an image.
#[derive(Clone, Debug)]
struct Damage {
    what: String,
    /// Range of changed bytes.
    range: Range<usize>,
    kind: Kind,
}

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bits,
    Overwritten,
    Erased,
    Truncated,
    Swapped,
    Zeroed,
}

const KINDS: [Kind; 6] =
    [Kind::Bits, Kind::Overwritten, Kind::Erased, Kind::Truncated, Kind::Swapped, Kind::Zeroed];

impl Sample {
    fn new(name: &'static str, bytes: Vec<u8>, (block, page): (usize, usize), is_ubi: bool) -> Self {
        let mut sample = Self { name, bytes, truth: BTreeMap::new(), block, page, is_ubi };
        let (memory, extracted) = extracted(&sample.bytes).unwrap();
        assert_eq!(extracted.losses, [], "{name}");
        sample.truth = resolved(&memory);
        sample
    }

    /// UBI device with a filesystem, and a static volume with noise.
    fn ubi(name: &'static str, clean: bool, has_static: bool) -> Self {
        let geometry = Geometry::nand_512(90);
        let bytes = device(&geometry, 7, |ubi| {
            ubi.create_volume(&NewVolume::dynamic("root", 60)).unwrap();
            if has_static {
                let fixed = NewVolume { volume_type: VolumeType::Static, ..NewVolume::dynamic("kern", 8) };
                let id = ubi.create_volume(&fixed).unwrap();
                let mut random = Random::new(5);
                let data: Vec<u8> = (0..70_000).map(|_| random.bits() as u8).collect();
                let mut update = ubi.update_volume(id, data.len() as u64).unwrap();
                update.write(&data).unwrap();
                update.finish().unwrap();
            }
        });
        let bytes = format(bytes, &geometry, 0, clean, |fs| {
            populate(fs, 1);
            if !clean {
                fs.sync().unwrap();
            }
        });
        let bytes = if clean { in_order(&bytes, &geometry) } else { bytes };
        // The device is detached, so that the PEBs that UBI used are written.
        drop(Ubi::attach(flash(bytes.clone(), &geometry), &AttachOptions::default()));
        Self::new(name, bytes, (geometry.erase_bytes as usize, 512), true)
    }

    fn jffs2(name: &'static str, geometry: &Geometry, summaries: bool) -> Self {
        let bytes = super::jffs2::made(geometry, Endian::Little, summaries, 3, 300_000);
        let block = geometry.erase_bytes as usize;
        Self::new(name, bytes, (block, geometry.write_bytes.max(512) as usize), false)
    }

    fn copy(&self) -> Self {
        Self { bytes: self.bytes.clone(), truth: self.truth.clone(), ..*self }
    }

    fn damage(&self, kind: Kind, random: &mut Random) -> (Vec<u8>, Damage) {
        let mut bytes = self.bytes.clone();
        let mut below = |end: usize| random.below(end as u64) as usize;
        let used: Vec<usize> = (0..bytes.len() / self.block)
            .map(|number| number * self.block)
            .filter(|&at| bytes[at..at + self.block].iter().any(|&byte| byte != 0xFF))
            .collect();
        let start = used[below(used.len())];
        let pages = self.block / self.page;
        let page = start + below(pages) * self.page;
        let run = self.page * (1 + below(pages.min(4)));
        let pages = page..(page + run).min(start + self.block);
        let range = match (kind, below(4)) {
            (Kind::Zeroed, _) => start..start + 64,
            (_, 0) => start..start + self.block,
            _ => pages,
        };
        let range = match kind {
            Kind::Bits => {
                let at = start + below(self.block);
                let bits = 1 + below(8);
                (0..bits).for_each(|_| bytes[at] ^= 1 << below(8));
                at..at + 1
            }
            Kind::Overwritten => {
                let with = [0x00, 0xAA, 0x55][below(3)];
                let noise = below(2) == 0;
                for at in range.clone() {
                    bytes[at] = if noise { below(256) as u8 } else { with };
                }
                range
            }
            Kind::Erased => {
                bytes[range.clone()].fill(0xFF);
                range
            }
            Kind::Truncated => {
                let whole = below(2) == 0;
                let at = if whole { start } else { start + below(self.block) };
                let len = bytes.len();
                bytes.truncate(at);
                at..len
            }
            Kind::Swapped => {
                let other = used[below(used.len())];
                let (one, two) = (start.min(other), start.max(other));
                for at in 0..self.block {
                    bytes.swap(one + at, two + at);
                }
                one..two + self.block
            }
            Kind::Zeroed => {
                bytes[range.clone()].fill(0);
                range
            }
        };
        let what = format!("{}: {kind:?} {range:?}", self.name);
        (bytes, Damage { what, range, kind })
    }
}

impl Damage {
    /// True if the damage leaves a state that the filesystem itself can leave. Nodes that were written last in an
    /// eraseblock are missing, as after a power cut; or a JFFS2 has one eraseblock less, whose nodes may have been
    /// removed.
    fn is_unseen(&self, sample: &Sample) -> bool {
        let Range { start, end } = self.range;
        let block_end = (start / sample.block + 1) * sample.block;
        let rest = sample.bytes.get(end.min(block_end)..block_end).unwrap_or_default();
        let ends_nodes = rest.iter().all(|&byte| byte == 0xFF);
        match self.kind {
            Kind::Erased => ends_nodes && (!sample.is_ubi || !start.is_multiple_of(sample.block)),
            Kind::Truncated => !sample.is_ubi,
            _ => false,
        }
    }
}

/// Files of a memory target; every name of a file has all its contents.
fn resolved(memory: &Memory) -> BTreeMap<String, ExtractedFile> {
    let first = |kept: &ExtractedFile| {
        kept.first.as_ref().map_or_else(|| kept.clone(), |first| memory.files[first].clone())
    };
    memory.files.iter().map(|(path, kept)| (path.clone(), first(kept))).collect()
}

fn extracted(bytes: &[u8]) -> Result<(Memory, Extracted), ImageError> {
    let image = Image::over(super::file(bytes), Access::Read)?;
    let mut memory = Memory::default();
    let extractions = Extractions::open(&image, &Selection::default())?;
    let extracted = extractions.run(&mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    Ok((memory, extracted))
}

/// Numbers of damaged images, by result.
#[derive(Debug, Default)]
struct Figures {
    images: u32,
    /// Number of images that are refused as unreadable.
    refused: u32,
    /// Number of images whose contents are unchanged.
    whole: u32,
    /// Number of images whose contents differ, and whose damage is reported.
    told: u32,
    /// Number of images whose contents differ as after a power cut, without a report.
    exempt: u32,
    repaired: u32,
    not_repaired: BTreeMap<String, Vec<String>>,
    /// Number of files that only an extraction restores, and that the repair lists.
    kept_less: u32,
    wrong: Vec<String>,
}

impl Figures {
    fn judge(&mut self, sample: &Sample, bytes: &[u8], damage: &Damage) {
        self.images += 1;
        let image = match Image::over(super::file(bytes), Access::Read) {
            Ok(image) => image,
            Err(_) => {
                self.refused += 1;
                return;
            }
        };
        info(&image).unwrap();
        let report = check(&image, &Selection::default());
        let (memory, extracted) = match extracted(bytes) {
            Ok(extracted) => extracted,
            Err(error) => {
                self.refused += 1;
                if matches!(&report, Ok(report) if report.status() == Status::Good) {
                    self.wrong.push(format!("{}: clean, and not extracted: {error}", damage.what));
                }
                return;
            }
        };
        let found = resolved(&memory);
        let differs = found != sample.truth;
        let is_told = |status: Status| status != Status::Good;
        let checked = report.as_ref().map_or(Status::Bad, |report| report.status());
        let is_seen = is_told(checked) && is_told(extracted.status());
        match (differs, is_seen) {
            (false, _) => self.whole += 1,
            (true, true) => self.told += 1,
            (true, false) if damage.is_unseen(sample) => self.exempt += 1,
            (true, false) => {
                let first = memory.differences(&Memory { files: sample.truth.clone() });
                let first = first.iter().take(2).cloned().collect::<Vec<_>>();
                self.wrong.push(format!(
                    "{}: check {checked:?}, extract {:?}: {first:?}",
                    damage.what,
                    extracted.status()
                ));
            }
        }
        self.repair(sample, bytes, damage, (&found, &extracted));
    }

    fn repair(
        &mut self,
        sample: &Sample,
        bytes: &[u8],
        damage: &Damage,
        (found, losses): (&BTreeMap<String, ExtractedFile>, &Extracted),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["image", "repaired"].map(|name| folder.path().join(name));
        std::fs::write(&from, bytes).unwrap();
        let report = match repair(&from, &to, &Selection::default()) {
            Ok(report) => report,
            Err(error) => {
                assert!(!to.exists());
                self.not_repaired.entry(error.to_string()).or_default().push(damage.what.clone());
                return;
            }
        };
        self.repaired += 1;
        let out = std::fs::read(&to).unwrap();
        let what = &damage.what;
        let clean = check(&open(&out), &Selection::default()).unwrap();
        if clean.status() == Status::Bad {
            self.wrong.push(format!("{what}: the repaired image is damaged: {:?}", clean.findings));
        }
        let Ok((memory, _)) = extracted(&out) else {
            self.wrong.push(format!("{what}: the repaired image is not extracted"));
            return;
        };
        let after = resolved(&memory);
        if after != sample.truth && report.status() == Status::Good && !damage.is_unseen(sample) {
            let first = memory.differences(&Memory { files: sample.truth.clone() });
            self.wrong.push(format!(
                "{what}: repaired, and \"nothing is lost\": {:?} {:?} {:?}",
                first.first(),
                report.losses,
                report.before.findings
            ));
        }
        self.compare(what, found, losses, &after, &report);
    }

    /// Checks that the repaired image contains all files that an extraction restores completely from the damaged
    /// image.
    fn compare(
        &mut self,
        what: &str,
        before: &BTreeMap<String, ExtractedFile>,
        extracted: &Extracted,
        after: &BTreeMap<String, ExtractedFile>,
        report: &RepairReport,
    ) {
        let is_lossy = |path: &str| extracted.losses.iter().any(|loss| loss.path == path);
        let missing: Vec<&String> = before
            .iter()
            .filter(|(path, kept)| {
                !is_lossy(path) && !path.contains("/lost") && after.get(*path) != Some(kept)
            })
            .map(|(path, _)| path)
            .collect();
        let Some(first) = missing.first() else { return };
        if report.losses.iter().any(|loss| missing.iter().any(|path| **path == loss.path)) {
            self.kept_less += 1;
            eprintln!("{what}: kept less: {first} and {} more", missing.len() - 1);
        } else {
            self.wrong.push(format!("{what}: kept less, and not listed: {first}: {:?}", report.losses));
        }
    }
}

fn samples() -> Vec<Sample> {
    vec![
        Sample::ubi("UBI", true, false),
        Sample::ubi("UBI with a journal", false, false),
        Sample::ubi("UBI with a static volume", true, true),
        Sample::jffs2("JFFS2", &super::jffs2::nor(16, 64 << 10), false),
        Sample::jffs2("JFFS2 on NAND", &super::jffs2::nand(512, 40), false),
        Sample::jffs2("JFFS2 with summaries", &super::jffs2::nor(16, 64 << 10), true),
    ]
}

fn campaign(samples: &[Sample], seeds: Range<u64>) -> Figures {
    let mut figures = Figures::default();
    for seed in seeds {
        for (number, sample) in (0..).zip(samples) {
            let mut random = Random::new(seed << 8 | number);
            let kind = KINDS[((seed + number) % KINDS.len() as u64) as usize];
            let (bytes, damage) = sample.damage(kind, &mut random);
            figures.judge(
                sample,
                &bytes,
                &Damage { what: format!("seed {seed}: {}", damage.what), ..damage },
            );
        }
    }
    figures
}

/// Exit statuses of a check and of an extraction.
fn statuses(bytes: &[u8]) -> [Status; 2] {
    let checked = check(&open(bytes), &Selection::default()).map_or(Status::Bad, |report| report.status());
    [checked, extracted(bytes).map_or(Status::Bad, |(_, extracted)| extracted.status())]
}

/// Repair of an image: the report, and the new bytes.
fn repaired(bytes: &[u8]) -> Result<(RepairReport, Vec<u8>), ImageError> {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["image", "repaired"].map(|name| folder.path().join(name));
    std::fs::write(&from, bytes).unwrap();
    let report = repair(&from, &to, &Selection::default())?;
    Ok((report, std::fs::read(&to).unwrap()))
}

/// Offsets of headers in a PEB of the samples, bytes.
const VID_AT: usize = 256;
const DATA_AT: usize = 512;

/// Offsets of the PEBs that contain LEBs of a volume.
fn pebs_of(sample: &Sample, volume: u32) -> Vec<usize> {
    let pebs = (0..sample.bytes.len()).step_by(sample.block);
    let is_of =
        |at: &usize| super::vid_header(&sample.bytes[*at..]).is_some_and(|vid| vid.volume_id == volume);
    pebs.filter(is_of).collect()
}

#[test]
fn a_cut_file_is_told() {
    let sample = Sample::ubi("cut", true, true);
    let (files, fixed) = (pebs_of(&sample, 0), pebs_of(&sample, 1));
    let last = *files.last().unwrap();
    // After the superblock, within the filesystem, at its end, within the static volume and before it.
    let ends = [3 * sample.block + 700, last + 600, fixed[0], fixed[0] + 900, fixed[3]];
    for end in ends {
        let bytes = &sample.bytes[..end];
        assert!(!statuses(bytes).contains(&Status::Good), "{end}: {:?}", statuses(bytes));
        let cut = info(&open(bytes)).unwrap().to_string();
        if end % sample.block != 0 {
            assert!(cut.contains("the file is cut: it ends"), "{end}: {cut}");
        }
        if let Ok((report, _)) = repaired(bytes) {
            assert_eq!(report.status(), Status::Reported, "{end}: {:?}", report.losses);
        }
    }
    let live = Sample::ubi("live", false, false);
    for pebs in [28, 60] {
        let short = &live.bytes[..pebs * live.block];
        assert!(!statuses(short).contains(&Status::Good), "{pebs}: {:?}", statuses(short));
    }
    let empty = &sample.bytes[..2 * sample.block];
    assert!(!statuses(empty).contains(&Status::Good), "{:?}", statuses(empty));
}

#[test]
fn an_extraction_tells_that_a_static_volume_fails_its_crc() {
    let bare = super::bare(200);
    let geometry = Geometry::nand_512(240);
    let mut bytes = device(&geometry, 7, |ubi| {
        let fixed = NewVolume { volume_type: VolumeType::Static, ..NewVolume::dynamic("kern", 200) };
        let id = ubi.create_volume(&fixed).unwrap();
        let mut update = ubi.update_volume(id, bare.len() as u64).unwrap();
        update.write(&bare).unwrap();
        update.finish().unwrap();
    });
    assert_eq!(statuses(&bytes), [Status::Good; 2]);
    // The unwritten end of a LEB.
    let block = geometry.erase_bytes as usize;
    let is_first = |peb: &[u8]| super::vid_header(peb).is_some_and(|vid| (vid.volume_id, vid.lnum) == (0, 1));
    let peb = bytes.chunks(block).position(is_first).unwrap();
    bytes[(peb + 1) * block - 5] = 0x7F;
    assert_eq!(statuses(&bytes), [Status::Bad, Status::Reported]);
}

#[test]
fn fewer_lebs_than_ubifs_needs_are_told() {
    let geometry = Geometry::nand_512(40);
    let lebs = 20;
    let bytes = device(&geometry, 7, |ubi| {
        ubi.create_volume(&NewVolume::dynamic("root", lebs)).unwrap();
    });
    let bytes = format(bytes, &geometry, 0, true, |_| {});
    let mut bytes = in_order(&bytes, &geometry);
    // The records of the volume, with 14 LEBs: no LEB after them is mapped.
    let block = geometry.erase_bytes as usize;
    for copy in 0..2 {
        let record = &mut bytes[copy * block + DATA_AT..][..172];
        assert_eq!(record[..4], lebs.to_be_bytes());
        record[..4].copy_from_slice(&14u32.to_be_bytes());
        let sum = floatgate_media::crc::ubi(&record[..168]);
        record[168..].copy_from_slice(&sum.to_be_bytes());
    }
    let superblock_lebs = |bytes: &[u8]| info(&open(bytes)).unwrap().images[0].ubi.clone().unwrap();
    let volume = superblock_lebs(&bytes).volumes.remove(0);
    assert!(!volume.ubifs.unwrap().misfits.is_empty());
    assert_eq!(check(&open(&bytes), &Selection::default()).unwrap().status(), Status::Bad);
    let (report, out) = repaired(&bytes).unwrap();
    assert!(report.grown.iter().any(|grown| grown.lebs >= 17), "{report:?}");
    assert_eq!(statuses(&out), [Status::Good; 2]);
}

/// A PEB that was completely overwritten may contain a LEB that no structure names any more.
#[test]
fn an_overwritten_peb_costs_a_repair_no_more_than_an_extraction() {
    for sample in [Sample::ubi("UBI", true, false), Sample::ubi("UBI with a journal", false, false)] {
        let mut figures = Figures::default();
        for start in pebs_of(&sample, 0).into_iter().step_by(3) {
            let mut bytes = sample.bytes.clone();
            bytes[start + VID_AT..start + sample.block].fill(0xAA);
            let range = start..start + sample.block;
            let damage = Damage { what: format!("{range:?}"), range, kind: Kind::Overwritten };
            figures.judge(&sample, &bytes, &damage);
        }
        assert_eq!((figures.kept_less, figures.wrong.as_slice()), (0, &[][..]), "{}", sample.name);
    }
}

#[test]
fn copies_of_the_volume_table_are_padded_alike() {
    let sample = Sample::ubi("UBI", true, false);
    let mut bytes = sample.bytes.clone();
    let (table, end) = (DATA_AT, DATA_AT + sample.block);
    let len = (sample.block - DATA_AT) / 172 * 172;
    let padded = len.next_multiple_of(512).min(sample.block - DATA_AT);
    // Padded as by `ubinize`.
    for copy in [table, end] {
        bytes[copy + len..copy + padded].fill(0xFF);
    }
    assert_eq!(statuses(&bytes), [Status::Good; 2]);
    let mut differ = bytes.clone();
    differ[table + len..table + padded].fill(0);
    assert_eq!(statuses(&differ), [Status::Reported, Status::Good], "Linux says that copy 2 is damaged");
    bytes[table + 3] ^= 1;
    for damaged in [bytes, differ] {
        let (report, out) = repaired(&damaged).unwrap();
        assert_eq!(report.status(), Status::Good, "{:?}", report.losses);
        let copies: Vec<&[u8]> = pebs_of(&Sample { bytes: out.clone(), ..sample.copy() }, 0x7FFF_EFFF)
            .into_iter()
            .map(|at| &out[at + DATA_AT..at + DATA_AT + padded])
            .collect();
        assert_eq!(copies.len(), 2);
        assert!(copies[0] == copies[1]);
    }
}

/// Headers with good CRCs and wrong offsets of the data.
#[test]
fn what_is_no_ubi_afterwards_is_not_written() {
    let sample = Sample::ubi("UBI", true, false);
    let mut bytes = sample.bytes.clone();
    for peb in bytes.chunks_mut(sample.block) {
        if peb.starts_with(b"UBI#") {
            peb[20..24].copy_from_slice(&0x7Fu32.to_be_bytes());
            let sum = floatgate_media::crc::ubi(&peb[..60]);
            peb[60..64].copy_from_slice(&sum.to_be_bytes());
        }
    }
    assert_eq!(statuses(&bytes)[0], Status::Bad);
    if let Ok((report, out)) = repaired(&bytes) {
        let (memory, _) = extracted(&out).unwrap();
        let names = |files: &BTreeMap<String, ExtractedFile>| {
            let all = files.keys().map(|path| path.trim_start_matches("/volume-0").to_owned());
            all.filter(|path| path.len() > 1).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&resolved(&memory)), names(&sample.truth), "{:?}", report.losses);
        let checked = check(&open(&out), &Selection::default()).unwrap();
        assert!(checked.images[0].volumes.iter().any(|volume| volume.ubifs && volume.mounts));
    }
}

/// Offsets and lengths of the nodes of a type in a little-endian JFFS2.
fn jffs2_nodes(bytes: &[u8], node_type: u16) -> Vec<(usize, usize)> {
    let mut nodes = Vec::new();
    let mut at = 0;
    while at + 12 <= bytes.len() {
        let field = |from: usize| u32::from_le_bytes(bytes[at + from..at + from + 4].try_into().unwrap());
        if bytes[at..at + 2] == [0x85, 0x19] {
            let len = field(4) as usize;
            if bytes[at + 2..at + 4] == node_type.to_le_bytes() {
                nodes.push((at, len));
            }
            at += len.next_multiple_of(4).max(4);
        } else {
            at += 4;
        }
    }
    nodes
}

#[test]
fn nodes_of_a_jffs2_that_are_erased_between_others_are_told() {
    let sample = Sample::jffs2("JFFS2", &super::jffs2::nor(16, 64 << 10), false);
    let dirents = jffs2_nodes(&sample.bytes, 0xE001);
    assert!(dirents.len() > 20);
    for &(at, len) in dirents.iter().step_by(7) {
        let mut bytes = sample.bytes.clone();
        bytes[at..at + len.next_multiple_of(4)].fill(0xFF);
        assert_eq!(statuses(&bytes), [Status::Bad, Status::Reported], "{at}");
        let (report, out) = repaired(&bytes).unwrap();
        assert_eq!(report.status(), Status::Reported);
        assert_ne!(statuses(&out)[0], Status::Bad);
    }
}

#[test]
fn an_overwritten_end_of_a_jffs2_is_told() {
    let sample = Sample::jffs2("JFFS2", &super::jffs2::nor(16, 64 << 10), false);
    let last = sample.bytes.iter().rposition(|&byte| byte != 0xFF).unwrap() / sample.block * sample.block;
    let mut bytes = sample.bytes[..last + sample.block].to_vec();
    bytes[last..].fill(0xAA);
    let statuses = statuses(&bytes);
    assert!(!statuses.contains(&Status::Good), "{statuses:?}");
    assert_eq!(repaired(&bytes).unwrap().0.status(), Status::Reported);
}

/// Linux reads only the header of a clean marker with another length than its own.
#[test]
fn a_clean_marker_hides_no_nodes() {
    for summaries in [false, true] {
        let sample = Sample::jffs2("JFFS2", &super::jffs2::nor(16, 64 << 10), summaries);
        let mut bytes = sample.bytes.clone();
        for (at, _) in jffs2_nodes(&sample.bytes, 0x2003) {
            bytes[at + 4..at + 8].copy_from_slice(&32_768u32.to_le_bytes());
            let sum = floatgate_media::crc::jffs2(&bytes[at..at + 8]);
            bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        }
        assert_ne!(bytes, sample.bytes);
        let is_whole = |bytes: &[u8]| resolved(&extracted(bytes).unwrap().0) == sample.truth;
        assert!(is_whole(&bytes));
        let at = jffs2_nodes(&sample.bytes, 0xE002)[3].0;
        bytes[at + 12] ^= 1;
        let (_, out) = repaired(&bytes).unwrap();
        let (before, after) = (extracted(&bytes).unwrap().0, extracted(&out).unwrap().0);
        assert_eq!(before.differences(&after), Vec::<String>::new(), "summaries {summaries}");
    }
}

#[test]
fn what_differs_from_the_truth_is_told() {
    let figures = campaign(&samples(), 0..3);
    assert_eq!(figures.wrong, Vec::<String>::new(), "{figures:#?}");
    assert!(figures.told > 3, "{figures:#?}");
}

#[test]
#[ignore = "slow: ./test --all"]
fn slow_five_thousand_damages_are_told() {
    let seeds = std::env::var("FLOATGATE_DAMAGES").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(834);
    let figures = campaign(&samples(), 1000..1000 + seeds);
    eprintln!("{figures:#?}");
    assert_eq!(figures.wrong.len(), 0);
}
