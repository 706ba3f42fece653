//! A map of a whole flash dump. Each byte belongs to a part.
//!
//! - `view`: bounded reads of a range of the dump.
//! - `found`: a part as a probe describes it, with its checksum and facts.
//! - `probes`: one file for each format; a table lists them.
//! - `scan`: finds the offsets at which a probe may find its format, in one pass over the dump.
//! - `gaps`: the stretches between the parts: erased, zeros or data.
//! - `pages`: pages with OOB around filesystems without marks of their own.
//! - `picture`: the map as an SVG.
//! - `remains`: filesystems whose superblock is damaged.
//! - `readable`: the filesystems that have a reader.
//! - `partitions`: partitions that a dump lists, and `mtdparts=`.
//! - `pairs`: redundant environments of U-Boot.

mod gaps;
mod pages;
mod pairs;
mod partitions;
mod picture;
pub(crate) mod probe_match;
pub(crate) mod probes;
pub(crate) mod readable;
mod remains;
mod scan;
pub(crate) mod view;

use std::cell::Cell;
use std::fmt;

use serde::Serialize;

pub(crate) use pages::{is_whole, marked_pages, pages_of_filesystem};
pub use partitions::Partition;
pub use probe_match::{Checksum, Facts, Kind, Part, Value};
pub(crate) use readable::{Readable, readable, readable_at, readable_beside, remains_at};

use crate::ImageError;
use crate::format::info::OneImage;
use crate::format::ubi::info::UNMOUNTABLE;
use crate::image::Image;
use crate::info::{OneVolume, selected_info};
use crate::oob::Corrected;
use crate::pages::PageShape;
use crate::selection::Selection;
use crate::words::{self, count};
use probe_match::{Inner, ProbeMatch};
use view::View;

/// Depth of parts within parts.
const MAX_DEPTH: u32 = 4;

/// Largest number of parts that a map lists.
const MAX_PARTS: usize = 1 << 16;

/// A map of a dump.
#[derive(Clone, Debug, Serialize)]
pub struct FlashMap {
    /// Bytes of the dump, without OOB.
    pub size: u64,
    /// Pages of a dump with OOB. Offsets count only its data bytes, like addresses of the flash.
    pub pages: Option<PageShape>,
    /// The parts, by offset. Those within another part follow it and have a higher level.
    pub parts: Vec<Part>,
    /// Partitions that tables, environments and device trees list.
    pub partitions: Vec<Partition>,
    /// Reasons for which the map may be incomplete, and remarks on several parts together.
    pub notes: Vec<String>,
}

impl FlashMap {
    /// Parts that are not within others.
    pub fn top(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.level == 0)
    }

    /// Number of parts with a wrong checksum, or whose end is missing.
    #[must_use]
    pub fn damaged(&self) -> usize {
        self.parts.iter().filter(|part| part.checksum.is_damage()).count()
    }

    /// Number of parts that are not within others, and are damaged or hold a damaged part.
    fn damaged_top(&self) -> usize {
        let groups = self.parts.chunk_by(|_, next| next.level > 0);
        groups.filter(|group| group.iter().any(|part| part.checksum.is_damage())).count()
    }

    /// Total size of all parts of a kind, bytes.
    #[must_use]
    pub fn bytes_of(&self, kind: Kind) -> u64 {
        self.top().filter(|part| part.kind == kind).map(|part| part.len).sum()
    }
}

/// The conclusion: the number of parts that were found, and those that are damaged.
impl fmt::Display for FlashMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.top().filter(|part| !part.kind.is_gap()).count();
        write!(f, "{}: {}", size(self.size), count(known as u64, "part"))?;
        match self.damaged_top() {
            0 => {}
            damaged => write!(f, ", {damaged} damaged")?,
        }
        for (kind, what) in
            [(Kind::Data, "of unknown data"), (Kind::Zeros, "of zeros"), (Kind::Erased, "erased")]
        {
            match self.bytes_of(kind) {
                0 => {}
                bytes => write!(f, ", {} {what}", size(bytes))?,
            }
        }
        Ok(())
    }
}

/// Text of a size: exact for a whole number of KiB or MiB, otherwise rounded.
fn size(bytes: u64) -> String {
    let rounded = |unit: u32, name| format!("{:.1} {name}", bytes as f64 / f64::from(unit));
    match bytes {
        _ if bytes.is_multiple_of(1 << 10) && bytes < 1 << 20 || bytes.is_multiple_of(1 << 20) => {
            words::size(bytes)
        }
        0..0x400 => count(bytes, "byte"),
        0x400..0x10_0000 => rounded(1 << 10, "KiB"),
        _ => rounded(1 << 20, "MiB"),
    }
}

/// Creates the map of an opened dump with any contents.
///
/// # Errors
/// The file cannot be read.
pub fn map(image: &Image) -> Result<FlashMap, ImageError> {
    let store = image.store()?;
    let budget = Cell::new(view::budget(store.size_bytes()));
    let view = View::new(&*store, &budget);
    let mut known = flash_filesystems(image)?;
    known.extend(scan::wear_levelled(&view)?);
    known.sort_by_key(|(at, _)| *at);
    let mut mapper = Mapper { known, parts: Vec::new(), partitions: Vec::new() };
    mapper.window(&view, 0)?;
    let Mapper { parts, mut partitions, .. } = mapper;
    let parts = pairs::with_pairs(parts, &view, &mut partitions);
    let mut notes = Vec::new();
    if budget.get() == 0 {
        notes.push("the map is incomplete: the dump asks for more work than its size explains".to_owned());
    }
    if parts.len() >= MAX_PARTS {
        notes.push(format!("the map is incomplete: it ends after {MAX_PARTS} parts"));
    }
    notes.extend(image.corrected.as_ref().map(Corrected::all_notes).unwrap_or_default());
    let pages = image.corrected.as_ref().map(|corrected| corrected.pages);
    let partitions = partitions::without_copies(partitions);
    Ok(FlashMap { size: view.len(), pages, parts, partitions, notes })
}

/// The parts that the readers of UBI, UBIFS and JFFS2 have found.
fn flash_filesystems(image: &Image) -> Result<Vec<(u64, ProbeMatch)>, ImageError> {
    let describe = |one: &crate::format::location::ImageLocation| {
        let at = image.file_byte(one.offset);
        let selection = Selection { offset: Some(at), ..Selection::default() };
        let info = selected_info(image, &selection)?;
        let described = info.images.first().map(described);
        let found = described.unwrap_or_else(|| ProbeMatch::new(Kind::Ubi, 0));
        Ok((one.offset, ProbeMatch { len: one.len, ..found }))
    };
    image.found.iter().filter(|one| one.is_flash()).map(describe).collect()
}

/// An image of UBI, UBIFS or JFFS2 as a part.
fn described(one: &OneImage) -> ProbeMatch {
    let (mut found, damage) = match (&one.ubi, &one.ubifs, &one.jffs2) {
        (Some(ubi), ..) => {
            let mut found = ProbeMatch::new(Kind::Ubi, one.len)
                .number("peb_bytes", ubi.peb_bytes)
                .number("pebs", ubi.pebs)
                .number("free_pebs", ubi.free_pebs);
            found.inner = ubi.volumes.iter().map(volume).collect();
            let corrupted = (ubi.corrupted_pebs > 0)
                .then(|| format!("{} corrupted", count(ubi.corrupted_pebs.into(), "PEB")));
            let volumes = ubi.volumes.iter();
            let mut damaged =
                volumes.filter_map(|one| Some(format!("volume {}: {}", one.name, damage_of(one)?)));
            (found, corrupted.or_else(|| damaged.next()))
        }
        (_, Some(ubifs), _) => {
            let found = ProbeMatch::new(Kind::Ubifs, one.len)
                .number("leb_bytes", ubifs.leb_bytes)
                .number("lebs", ubifs.lebs)
                .text("compression", ubifs.compression);
            (found, ubifs.damage.clone())
        }
        (.., Some(jffs2)) => {
            let found = ProbeMatch::new(Kind::Jffs2, one.len)
                .number("erase_bytes", jffs2.shape.erase_bytes)
                .number("files", jffs2.files)
                .text("byte_order", if jffs2.shape.big_endian { "big endian" } else { "little endian" });
            let more = jffs2.damage.len().saturating_sub(1);
            let more = if more == 0 { String::new() } else { format!(", and {more} more") };
            (found, jffs2.damage.first().map(|first| format!("{first}{more}")))
        }
        _ => {
            let unknown = ProbeMatch::new(if one.bare { Kind::Ubifs } else { Kind::Ubi }, one.len);
            (unknown.sum_is(false), None)
        }
    };
    let damage = one.damage.clone().or(damage);
    let there = one.ubifs.as_ref().and_then(|ubifs| Some((ubifs.lebs_there?, ubifs.lebs)));
    let there = there.map(|(there, lebs)| format!("{there} of {} there", count(lebs.into(), "LEB")));
    if let Some(cut) = one.cut.clone().or(there) {
        found.checksum = Checksum::Truncated;
        return found.text("damage", cut);
    }
    found = found.sum_is(damage.is_none());
    found.text("damage", damage.unwrap_or_default())
}

/// Damage of a volume of a UBI device.
fn damage_of(volume: &OneVolume) -> Option<String> {
    if volume.damaged {
        return Some("LEBs are missing, or have a wrong CRC".to_owned());
    }
    match (&volume.ubifs, &volume.starts_with) {
        (Some(ubifs), _) => {
            let missing = ubifs.lebs_missing.filter(|missing| *missing > 0);
            let missing = missing.map(|missing| format!("{} missing", count(missing.into(), "LEB")));
            ubifs.damage.clone().or(missing)
        }
        (None, Some(content)) if content.starts_with(UNMOUNTABLE) => {
            Some("its UBIFS cannot be mounted".to_owned())
        }
        _ => None,
    }
}

/// A volume of a UBI device as a part.
fn volume(volume: &OneVolume) -> Inner {
    let content = match (&volume.ubifs, &volume.starts_with) {
        (Some(_), _) => "UBIFS",
        (None, Some(format)) => format,
        (None, None) => "unknown",
    };
    let mut facts = Facts::default();
    facts.0.push(("content", Value::Text(content.to_owned())));
    facts.0.push(("type", Value::Text(if volume.is_static { "static" } else { "dynamic" }.to_owned())));
    facts.0.push(("lebs", Value::Number(volume.lebs.into())));
    facts.0.push(("leb_bytes", Value::Number(volume.leb_bytes.into())));
    Inner {
        at: None,
        len: volume.used_bytes.unwrap_or(u64::from(volume.lebs) * u64::from(volume.leb_bytes)),
        kind: Kind::UbiVolume,
        name: Some(volume.name.clone()),
        checksum: if damage_of(volume).is_some() { Checksum::Bad } else { Checksum::None },
        facts,
    }
}

/// Collects the parts of a dump.
struct Mapper {
    /// Parts that were found by other means, by their offsets in the dump.
    known: Vec<(u64, ProbeMatch)>,
    parts: Vec<Part>,
    partitions: Vec<Partition>,
}

impl Mapper {
    /// Maps a stretch in which parts may begin anywhere.
    fn window(&mut self, view: &View<'_>, level: u32) -> Result<(), ImageError> {
        let mut cursor = 0;
        for (at, found) in scan::parts(view, self.known.clone())? {
            if self.parts.len() >= MAX_PARTS {
                break;
            }
            if at < cursor {
                continue;
            }
            let start = at.saturating_sub(found.before).max(cursor);
            self.gap(&view.slice(cursor, start - cursor), level)?;
            let len = found.len.min(view.len() - at);
            let found = ProbeMatch { len: found.len.saturating_add(at - start), ..found };
            self.part(&view.slice(start, at - start + len), level, found, None)?;
            cursor = at + len;
        }
        self.gap(&view.from(cursor), level)
    }

    /// Adds a part with its inner parts.
    fn part(
        &mut self,
        view: &View<'_>,
        level: u32,
        found: ProbeMatch,
        name: Option<String>,
    ) -> Result<(), ImageError> {
        let ProbeMatch { len, kind, mut checksum, facts, inner, mut partitions, .. } = found;
        if len > view.len() && checksum != Checksum::Bad {
            checksum = Checksum::Truncated;
        }
        for partition in &mut partitions {
            partition.table_at = view.start();
        }
        self.partitions.append(&mut partitions);
        self.parts.push(Part { offset: view.start(), len: view.len(), level, kind, name, checksum, facts });
        if level < MAX_DEPTH {
            inner.into_iter().try_for_each(|inner| self.inner(view, level + 1, inner))?;
        }
        Ok(())
    }

    /// Adds a part that another part lists. Its format is detected by its magic number; its name is kept.
    fn inner(&mut self, view: &View<'_>, level: u32, inner: Inner) -> Result<(), ImageError> {
        if self.parts.len() >= MAX_PARTS {
            return Ok(());
        }
        let Inner { at, len, kind, name, checksum, mut facts } = inner;
        let Some(at) = at else {
            // A volume of UBI: its LEBs are scattered.
            self.parts.push(Part { offset: view.start(), len, level, kind, name, checksum, facts });
            return Ok(());
        };
        let own = view.slice(at, len);
        let known = self.known.iter().find(|(at, _)| *at == own.start()).map(|(_, found)| found.clone());
        match known.or_else(|| scan::at_start(&own)) {
            Some(mut found) if found.len <= own.len().next_multiple_of(4096) => {
                if checksum != Checksum::None && found.checksum != Checksum::Bad {
                    found.checksum = checksum;
                }
                facts.append(&mut found.facts);
                self.part(&own, level, ProbeMatch { facts, ..found }, name)
            }
            _ => {
                let found = ProbeMatch { checksum, ..ProbeMatch::new(kind, len) };
                let mut facts_of_gap = gaps::facts(&own)?;
                facts.append(&mut facts_of_gap);
                self.part(&own, level, ProbeMatch { facts, ..found }, name)
            }
        }
    }

    /// Adds the stretches between two parts.
    fn gap(&mut self, view: &View<'_>, level: u32) -> Result<(), ImageError> {
        let room = MAX_PARTS.saturating_sub(self.parts.len());
        self.parts.extend(gaps::split(view, level)?.into_iter().take(room));
        Ok(())
    }
}
