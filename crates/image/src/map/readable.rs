//! Filesystems with a reader in a dump, a volume or a file.

use std::cell::Cell;

use floatgate_stack::Store;

use super::probe_match::{Checksum, Facts, Kind, ProbeMatch};
use super::view::{self, View};
use super::{remains, scan};
use crate::ImageError;

/// Number of bytes after a filesystem that are not searched for another one.
const BEHIND: u64 = 64 << 10;

/// A filesystem with a reader: its range, format and properties.
pub(crate) struct Readable {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) kind: Kind,
    pub(crate) facts: Facts,
}

impl Readable {
    fn of((at, found): (u64, ProbeMatch)) -> Option<Self> {
        let ProbeMatch { len, before, kind, facts, .. } = found;
        kind.has_reader().then_some(Self {
            at: at.checked_sub(before)?,
            len: len.checked_add(before)?,
            kind,
            facts,
        })
    }
}

/// The filesystems with a reader. None begins before the end of the part in front of it, as in a map.
fn apart(parts: Vec<(u64, ProbeMatch)>) -> Vec<Readable> {
    let mut end = 0;
    let parts = parts.into_iter().map(|(at, found)| {
        let before = found.before.min(at.saturating_sub(end));
        end = at.saturating_add(found.len);
        (at, ProbeMatch { before, ..found })
    });
    parts.filter_map(Readable::of).collect()
}

/// The filesystem with a reader that begins at a byte.
pub(crate) fn readable_at(store: &dyn Store, at: u64) -> Option<Readable> {
    let budget = Cell::new(view::budget(store.size_bytes()));
    let found = scan::at_start(&View::new(store, &budget).from(at))?;
    Readable::of((at, found))
}

/// Filesystem with a reader whose damaged superblock is at an offset; it may extend to the end of the store.
pub(crate) fn remains_at(store: &dyn Store, at: u64) -> Option<Readable> {
    let budget = Cell::new(view::budget(store.size_bytes()));
    let view = View::new(store, &budget).from(at);
    if scan::at_start(&view).is_some() {
        return None;
    }
    let (kind, _) = remains::of(&view)?;
    Some(Readable { at, len: view.len(), kind, facts: Facts::default() })
}

/// Damage of the superblock at an offset at which a filesystem of this kind was found or is assumed.
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
        None => (remains::of(&view) == Some((kind, false))).then_some("its superblock is damaged"),
    }
}

/// Filesystem with a reader in a volume or a file, even if its beginning is damaged.
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

/// Filesystems with a reader in a dump: only the one at its beginning if it extends nearly to the end of the dump, otherwise all. A
/// filesystem with a damaged superblock is found only at the beginning.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn readable(store: &dyn Store) -> Result<Vec<Readable>, ImageError> {
    let budget = Cell::new(view::budget(store.size_bytes()));
    let view = View::new(store, &budget);
    let levelled = scan::wear_levelled(&view)?;
    // A magic number at the beginning applies to the whole dump, unless wear levelling has moved it there.
    let first = readable_at(store, 0).filter(|_| levelled.is_empty());
    if let Some(first) = first.filter(|first| first.len.saturating_add(BEHIND) >= store.size_bytes()) {
        return Ok(vec![first]);
    }
    let mut found = apart(scan::parts(&view, levelled)?);
    if found.first().is_none_or(|first| first.at > 0) {
        found.splice(0..0, remains_at(store, 0));
    }
    Ok(found)
}

/// Filesystems with a reader in a dump, outside of the known parts.
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
    let found = apart(scan::parts(&view, all)?).into_iter();
    Ok(found.filter(|found| !overlaps(found.at, found.len)).collect())
}

/// Properties of the filesystem with a reader at an offset, even if it does not begin with its magic number.
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
