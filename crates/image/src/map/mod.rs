//! A map of a whole flash dump: each byte belongs to a part that is named.
//!
//! - `view`: bounded reads of a stretch of the dump.
//! - `found`: a part as a probe describes it, with its checksum and facts.
//! - `probes`: one file for each format; a table lists them.
//! - `scan`: the places where a probe may find its format, in one pass over the dump.
//! - `gaps`: the stretches between the parts: erased, zeros or data.
//! - `pages`: pages with OOB around filesystems without marks of their own.
//! - `picture`: the map as an SVG.
//! - `remains`: filesystems whose superblock is damaged.
//! - `partitions`: `mtdparts=` and the partitions that tables and device trees list.

mod gaps;
mod pages;
mod partitions;
mod picture;
mod probe_match;
pub(crate) mod probes;
mod remains;
mod scan;
mod view;

use std::cell::Cell;
use std::fmt;

use floatgate_stack::Store;
use serde::Serialize;

pub(crate) use pages::pages_of_filesystem;
pub use partitions::Partition;
pub use probe_match::{Checksum, Facts, Kind, Value};
pub(crate) use probes::ext::{group_of as ext_group, start_of as ext_start};
pub(crate) use probes::spiffs_shape;
pub(crate) use view::Numbers;
pub(crate) use view::View;

use crate::ImageError;
use crate::format::info::OneImage;
use crate::image::Image;
use crate::info::selected_info;
use crate::oob::Corrected;
use crate::pages::PageShape;
use crate::readonly::has_reader;
use crate::selection::Selection;
use crate::words::{self, count};
use probe_match::{Inner, ProbeMatch};

/// Depth of parts within parts.
const MAX_DEPTH: u32 = 4;

/// Bytes behind a filesystem in which no other one is looked for.
const BEHIND: u64 = 64 << 10;

/// Largest number of parts that a map lists.
const MAX_PARTS: usize = 1 << 16;

/// A map of a dump.
#[derive(Clone, Debug, Serialize)]
pub struct FlashMap {
    /// Bytes of the dump, without OOB.
    pub size: u64,
    /// Pages of a dump with OOB. Offsets count its data bytes, as those of the flash do.
    pub pages: Option<PageShape>,
    /// The parts, by offset. Those within another part follow it and have a higher level.
    pub parts: Vec<Part>,
    /// Partitions that tables, environments and device trees list.
    pub partitions: Vec<Partition>,
    /// Reasons for which the map may be incomplete, and remarks on several parts together.
    pub notes: Vec<String>,
}

/// A part of a dump.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// First byte on the flash.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of parts that it is within.
    pub level: u32,
    /// Format of the part.
    pub kind: Kind,
    /// Name of the part in what holds it.
    pub name: Option<String>,
    /// Result of the checksums of the format.
    pub checksum: Checksum,
    /// Properties that the format states.
    pub facts: Facts,
}

impl Part {
    /// Byte behind the last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }
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

    /// Bytes of all stretches of a kind.
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

/// A size for people: exact where it is a whole number of KiB or MiB, else rounded.
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

/// Makes the map of an opened dump, which may hold anything.
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
    let parts = partitions::with_pairs(parts, &view, &mut partitions);
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

/// A filesystem with a reader: its place, format and properties.
pub(crate) struct Readable {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) kind: Kind,
    pub(crate) facts: Facts,
}

impl Readable {
    fn of((at, found): (u64, ProbeMatch)) -> Option<Self> {
        let ProbeMatch { len, before, kind, facts, .. } = found;
        has_reader(kind).then_some(Self {
            at: at.checked_sub(before)?,
            len: len.checked_add(before)?,
            kind,
            facts,
        })
    }
}

/// The filesystem with a reader that begins at a byte.
pub(crate) fn readable_at(store: &dyn Store, at: u64) -> Option<Readable> {
    let budget = Cell::new(view::budget(store.size_bytes()));
    let found = scan::at_start(&View::new(store, &budget).from(at))?;
    Readable::of((at, found))
}

/// The filesystem with a reader whose damaged superblock stands at a byte; it may go on to the end of the store.
pub(crate) fn remains_at(store: &dyn Store, at: u64) -> Option<Readable> {
    let budget = Cell::new(view::budget(store.size_bytes()));
    let view = View::new(store, &budget).from(at);
    if scan::at_start(&view).is_some() {
        return None;
    }
    let (kind, _) = remains_of(&view)?;
    Some(Readable { at, len: view.len(), kind, facts: Facts::default() })
}

/// The format with a reader whose damaged superblock begins a stretch, and true where it is no damage but an older version.
fn remains_of(view: &View<'_>) -> Option<(Kind, bool)> {
    let len = usize::try_from(view.len()).map_or(remains::HEAD, |len| len.min(remains::HEAD));
    let head = view.bytes(0, len)?;
    Some((remains::kind_of(&head)?, remains::is_older(&head)))
}

/// Damage of the superblock at a byte, where a filesystem of this kind was found, or is believed to be.
pub(crate) fn damage_at(store: &dyn Store, kind: Kind, at: u64) -> Option<&'static str> {
    // Those two have no superblock.
    if matches!(kind, Kind::Yaffs | Kind::WearLevelled) {
        return None;
    }
    let budget = Cell::new(view::budget(store.size_bytes()));
    let view = View::new(store, &budget).from(at);
    match scan::at_start(&view) {
        Some(found) if found.kind == kind => {
            (found.checksum == Checksum::Bad).then_some("a checksum or a length in its superblock is wrong")
        }
        Some(_) => None,
        None => (remains_of(&view) == Some((kind, false))).then_some("its superblock is damaged"),
    }
}

/// The filesystem with a reader that a volume or a file holds, however damaged its beginning is.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn readable_in(store: &dyn Store) -> Result<Option<Readable>, ImageError> {
    if let Some(found) = readable_at(store, 0).or_else(|| remains_at(store, 0)) {
        return Ok(Some(found));
    }
    // Pages of YAFFS2 and blocks of SPIFFS are found one by one.
    Ok(readable(store)?.into_iter().find(|found| found.at == 0))
}

/// The filesystems with a reader in a dump: the one that begins with it if nothing of note follows, or all. One whose superblock is damaged is
/// found at the beginning.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn readable(store: &dyn Store) -> Result<Vec<Readable>, ImageError> {
    let budget = Cell::new(view::budget(store.size_bytes()));
    let view = View::new(store, &budget);
    let levelled = scan::wear_levelled(&view)?;
    // A magic number at the beginning is that of the whole, but not where wear levelling has moved it there.
    let first = readable_at(store, 0).filter(|_| levelled.is_empty());
    if let Some(first) = first.filter(|first| first.len.saturating_add(BEHIND) >= store.size_bytes()) {
        return Ok(vec![first]);
    }
    let parts = scan::parts(&view, levelled)?;
    let mut found: Vec<Readable> = parts.into_iter().filter_map(Readable::of).collect();
    if found.first().is_none_or(|first| first.at > 0) {
        found.splice(0..0, remains_at(store, 0));
    }
    Ok(found)
}

/// The filesystems with a reader beside parts of a dump that are known.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn readable_beside(
    store: &dyn Store,
    known: &[std::ops::Range<u64>],
) -> Result<Vec<Readable>, ImageError> {
    let budget = Cell::new(view::budget(store.size_bytes()));
    let view = View::new(store, &budget);
    let overlaps =
        |at: u64, len: u64| known.iter().any(|known| at < known.end && known.start < at.saturating_add(len));
    let mut all: Vec<(u64, ProbeMatch)> = known
        .iter()
        .map(|known| (known.start, ProbeMatch::new(Kind::Ubi, known.end - known.start)))
        .collect();
    all.extend(scan::wear_levelled(&view)?.into_iter().filter(|(at, found)| !overlaps(*at, found.len)));
    all.sort_by_key(|(at, _)| *at);
    let found = scan::parts(&view, all)?.into_iter().filter_map(Readable::of);
    Ok(found.filter(|found| !overlaps(found.at, found.len)).collect())
}

/// Properties of the filesystem with a reader at a byte: of one that does not begin with its magic number, too.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn readable_facts(store: &dyn Store, kind: Kind, at: u64) -> Result<Facts, ImageError> {
    let is_it = |found: &Readable| found.kind == kind && found.at == at;
    let found = match readable_at(store, at).filter(is_it) {
        Some(found) => Some(found),
        None => readable(store)?.into_iter().find(is_it),
    };
    Ok(found.map(|found| found.facts).unwrap_or_default())
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
            found.inner = ubi.volumes.iter().map(Inner::volume).collect();
            let is_damaged = ubi.corrupted_pebs > 0 || ubi.volumes.iter().any(|volume| volume.damaged);
            (found, is_damaged)
        }
        (_, Some(ubifs), _) => {
            let found = ProbeMatch::new(Kind::Ubifs, one.len)
                .number("leb_bytes", ubifs.leb_bytes)
                .number("lebs", ubifs.lebs)
                .text("compression", ubifs.compression);
            (found, false)
        }
        (.., Some(jffs2)) => {
            let found = ProbeMatch::new(Kind::Jffs2, one.len)
                .number("erase_bytes", jffs2.shape.erase_bytes)
                .number("files", jffs2.files)
                .text("byte_order", if jffs2.shape.big_endian { "big endian" } else { "little endian" });
            (found, false)
        }
        _ => (ProbeMatch::new(if one.bare { Kind::Ubifs } else { Kind::Ubi }, one.len), true),
    };
    found = found.sum_is(!damage && one.damage.is_none());
    if let Some(why) = one.damage.as_ref().or(one.cut.as_ref()) {
        found = found.text("damage", why);
    }
    found
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

    /// Adds a part with what is within it.
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

    /// Adds a part that another one lists. What begins there is found by its magic number; the name stays.
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
