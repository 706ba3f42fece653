//! Images with known contents, each with one damage: where the contents that can be extracted differ from the truth, `check` and `extract`
//! say so, and a repaired image holds what an extraction restores.
//!
//! Exempt is a damage that leaves a state which the filesystem itself could have left: see [`Damage::is_unseen`].

use std::collections::BTreeMap;
use std::ops::Range;

use floatgate_media::jffs2::Endian;
use floatgate_media::ubi::VolumeType;
use floatgate_mtd::Geometry;
use floatgate_stack::ubi::{AttachOptions, NewVolume, Ubi};

use super::tree::{Kept, Random};
use super::{Memory, device, flash, format, in_order, open, populate};
use crate::check::check;
use crate::extract::{ExtractLimits, Extracted, Extractions};
use crate::info::info;
use crate::repair::{RepairReport, repair};
use crate::status::Status;
use crate::{Access, Image, ImageError, Selection};

/// An image with known contents.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    truth: BTreeMap<String, Kept>,
    /// Bytes of an eraseblock and of a page.
    block: usize,
    page: usize,
    is_ubi: bool,
}

/// A change of an image.
#[derive(Clone, Debug)]
struct Damage {
    what: String,
    /// Bytes that were changed.
    range: Range<usize>,
    kind: Kind,
}

/// Kind of a damage.
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

    /// A UBI device with a filesystem, and a static volume with noise.
    fn ubi(name: &'static str, clean: bool, has_static: bool) -> Self {
        let geometry = Geometry::nand_512(90);
        let bytes = device(&geometry, 7, |ubi| {
            ubi.create_volume(&NewVolume::dynamic("root", 60)).unwrap();
            if has_static {
                let fixed = NewVolume { volume_type: VolumeType::Static, ..NewVolume::dynamic("kern", 8) };
                let id = ubi.create_volume(&fixed).unwrap();
                let mut random = Random(5);
                let data: Vec<u8> = (0..70_000).map(|_| random.next() as u8).collect();
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
        // Detached, so that the PEBs that UBI has taken are written.
        drop(Ubi::attach(flash(bytes.clone(), &geometry), &AttachOptions::default()));
        Self::new(name, bytes, (geometry.erase_bytes as usize, 512), true)
    }

    fn jffs2(name: &'static str, geometry: &Geometry, summaries: bool) -> Self {
        let bytes = super::jffs2::made(geometry, Endian::Little, summaries, 3, 300_000);
        let block = geometry.erase_bytes as usize;
        Self::new(name, bytes, (block, geometry.write_bytes.max(512) as usize), false)
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
    /// True when the damage leaves what the filesystem could have left: nodes that were written last in an eraseblock are missing, as after a
    /// power cut, or a JFFS2 has an eraseblock less, whose nodes may have been removed.
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

/// The files of a memory; every name of a file has all of it.
fn resolved(memory: &Memory) -> BTreeMap<String, Kept> {
    let first =
        |kept: &Kept| kept.first.as_ref().map_or_else(|| kept.clone(), |first| memory.files[first].clone());
    memory.files.iter().map(|(path, kept)| (path.clone(), first(kept))).collect()
}

fn extracted(bytes: &[u8]) -> Result<(Memory, Extracted), ImageError> {
    let image = Image::over(super::file(bytes), Access::Read)?;
    let mut memory = Memory::default();
    let extractions = Extractions::open(&image, &Selection::default())?;
    let extracted = extractions.run(&mut memory, &ExtractLimits::default(), &|_| {}).unwrap();
    Ok((memory, extracted))
}

/// What became of damaged images.
#[derive(Debug, Default)]
struct Figures {
    images: u32,
    /// Nothing can be read of them, and that is said.
    refused: u32,
    /// All contents are as they were.
    whole: u32,
    /// Contents differ, and that is told.
    told: u32,
    /// Contents differ as after a power cut, and nothing tells.
    exempt: u32,
    repaired: u32,
    not_repaired: BTreeMap<String, u32>,
    /// Files that only an extraction restores, which the repair lists.
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
        self.repair(sample, bytes, damage, (&found, &extracted, differs));
    }

    fn repair(
        &mut self,
        sample: &Sample,
        bytes: &[u8],
        damage: &Damage,
        (found, losses, differs): (&BTreeMap<String, Kept>, &Extracted, bool),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["image", "repaired"].map(|name| folder.path().join(name));
        std::fs::write(&from, bytes).unwrap();
        let report = match repair(&from, &to, &Selection::default()) {
            Ok(report) => report,
            Err(error) => {
                assert!(!to.exists());
                *self.not_repaired.entry(error.to_string()).or_default() += 1;
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
        if differs && report.status() == Status::Good && !damage.is_unseen(sample) {
            self.wrong.push(format!("{what}: repaired, and \"nothing is lost\""));
        }
        let Ok((memory, _)) = extracted(&out) else {
            self.wrong.push(format!("{what}: the repaired image is not extracted"));
            return;
        };
        let after = resolved(&memory);
        self.compare(what, found, losses, &after, &report);
    }

    /// All that an extraction of the damaged image restores wholly is in the repaired one.
    fn compare(
        &mut self,
        what: &str,
        before: &BTreeMap<String, Kept>,
        extracted: &Extracted,
        after: &BTreeMap<String, Kept>,
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
            let mut random = Random(seed << 8 | number);
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
