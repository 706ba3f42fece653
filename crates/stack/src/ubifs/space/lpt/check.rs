//! Consistency check of an LPT with itself and with the master node.

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::Reason;
use floatgate_media::ubifs::lpt::Geometry;
use floatgate_media::ubifs::{Limits, Master};

use super::super::SpaceTotals;
use super::super::table::dead_and_dark;
use super::Lpt;
use super::read::{Damage, Reader, read_unchecked};
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::Layout;

/// Reads every node of the LPT and compares the ltab with the positions of the nodes, and the totals in the master node
/// with the properties. Returns all differences.
///
/// # Errors
/// A main area that extends beyond the volume, volume failures.
pub(crate) fn check_lpt(io: &mut DynIo<'_>, master: &Master) -> Result<Vec<Error>> {
    let mut notes = Vec::new();
    let (table, lpt) = read_unchecked(io, master, &mut Damage::Note(&mut notes))?;
    let layout = Arc::clone(io.layout());
    let geometry = &layout.limits.lpt_geometry;
    if !notes.is_empty() {
        // All further checks would fail, too.
        return Ok(notes);
    }
    if let Some(place) = lpt.lsave {
        match Reader::new(io).lsave(place) {
            // Linux skips LEBs after the end of the volume: `mkfs.ubifs` writes them for a volume that is smaller than
            // the maximum size of the filesystem.
            Err(error) if is_behind_the_end(&error) => {}
            read => drop(Damage::Note(&mut notes).pass(read)?),
        }
    }
    lpt.check_area(geometry, &mut notes);
    if sums(master, &layout) != on_media(table.totals()) {
        let what = "the master node has other sums than the LEB properties";
        notes.push(Error::corrupt(master.lpt_lnum, master.lpt_offset, what));
    }
    Ok(notes)
}

fn is_behind_the_end(error: &Error) -> bool {
    let reason = if let Error::Node { source, .. } = error { Some(source.reason) } else { None };
    matches!(reason, Some(Reason::OutOfRange { field: "saved LEB", .. }))
}

/// Totals without values that are not stored on flash.
const fn on_media(totals: SpaceTotals) -> SpaceTotals {
    SpaceTotals { taken_empty_lebs: 0, ..totals }
}

/// Totals in a master node, plus the empty LEBs that the filesystem has grown by since.
fn sums(master: &Master, layout: &Layout) -> SpaceTotals {
    let Limits { leb_count, leb_bytes, .. } = layout.limits;
    let grown = leb_count.saturating_sub(master.leb_count);
    let (_, dark) = dead_and_dark(layout, leb_bytes);
    let more = |bytes: u64, each: u32| bytes.saturating_add(u64::from(grown) * u64::from(each));
    SpaceTotals {
        empty_lebs: master.empty_lebs.saturating_add(grown),
        taken_empty_lebs: 0,
        index_lebs: master.index_lebs,
        free: more(master.free_bytes, leb_bytes),
        dirty: master.dirty_bytes,
        used: master.used_bytes,
        dead: master.dead_bytes,
        dark: more(master.dark_bytes, dark),
    }
}

impl Lpt {
    /// Compares the ltab with the nodes in the LEBs.
    fn check_area(&self, geometry: &Geometry, notes: &mut Vec<Error>) {
        let mut nodes = self.nodes_in_use(geometry);
        nodes.sort_unstable_by_key(|(place, _)| (place.lnum, place.offset));
        for pair in nodes.windows(2) {
            if let [(one, len), (next, _)] = pair
                && one.lnum == next.lnum
                && u64::from(one.offset) + u64::from(*len) > u64::from(next.offset)
            {
                notes.push(Error::corrupt(next.lnum, next.offset, "two nodes of the LPT overlap"));
            }
        }
        let leb_bytes = geometry.parameters().leb_bytes;
        let mut lebs: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for (place, len) in nodes {
            let (used, end) = lebs.entry(place.lnum).or_default();
            *used = used.saturating_add(len);
            *end = place.offset.saturating_add(len).max(*end);
        }
        for (lnum, leb) in self.area.iter() {
            let (used, end) = lebs.get(&lnum).copied().unwrap_or_default();
            let free_from = leb_bytes - leb.free.min(leb_bytes);
            let head = self.area.head;
            let wrong = if end > free_from {
                Some("a node of the LPT stands where its table says that the LEB is free")
            } else if used.saturating_add(leb.dirty) != free_from {
                Some("the LPT's table has another dirty space than the nodes leave")
            } else if lnum == head.lnum && head.offset != free_from {
                Some("the LPT's head is not where its table says that the LEB is free")
            } else {
                None
            };
            notes.extend(wrong.map(|what| Error::corrupt(lnum, free_from, what)));
        }
    }
}
