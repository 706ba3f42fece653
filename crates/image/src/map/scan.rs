//! Search for offsets at which a probe may find its format.

use memchr::memmem::Finder;

use super::probe_match::{Checksum, Kind, ProbeMatch};
use super::probes::{Begins, PROBES, Probe, wear_levelling};
use super::view::View;
use crate::ImageError;

/// Bytes that are looked at together.
const CHUNK: usize = 1 << 20;

/// Number of bytes at the beginning of a part that identify its format.
pub(super) const HEAD: usize = 4096;

/// A probe with its magic numbers, ready to be searched for.
struct Search {
    probe: &'static Probe,
    at: u64,
    step: u64,
    finders: Vec<Finder<'static>>,
}

/// Parts of a range, ordered by offset; no part begins within the previous one. `known` are parts that were found in another way, in the
/// same order.
pub(super) fn parts(
    view: &View<'_>,
    known: Vec<(u64, ProbeMatch)>,
) -> Result<Vec<(u64, ProbeMatch)>, ImageError> {
    let searches = searches();
    let mut known = known.into_iter().peekable();
    let (mut parts, mut cursor) = (Vec::new(), 0);
    let mut buffer = vec![0; CHUNK + HEAD];
    for start in (0..view.len()).step_by(CHUNK) {
        // Within a part nothing is searched for.
        if cursor >= start + CHUNK as u64 {
            continue;
        }
        let left = usize::try_from(view.len() - start).unwrap_or(usize::MAX);
        let chunk = &mut buffer[..left.min(CHUNK + HEAD)];
        view.store().read_at(view.start() + start, chunk).map_err(ImageError::Store)?;
        for (at, probe) in candidates(&searches, chunk, start, cursor) {
            while let Some((place, found)) = known.next_if(|(place, _)| *place <= at) {
                cursor = cursor.max(place + found.len);
                parts.push((place, found));
            }
            if at < cursor {
                continue;
            }
            let Some(found) = (probe.probe)(&view.from(at)).filter(|found| found.len > 0) else { continue };
            if found.kind == Kind::Ext && found.before > 0 && !holds(&mut parts, at - found.before.min(at)) {
                continue;
            }
            let end = at.saturating_add(found.len);
            // What no checksum vouches for hides no other image.
            if found.checksum == Checksum::Good || known.peek().is_none_or(|(place, _)| *place >= end) {
                while known.next_if(|(place, _)| *place < end).is_some() {}
                cursor = end;
                parts.push((at, found));
            }
        }
    }
    parts.extend(known);
    Ok(parts)
}

/// Removes the parts that are data of a filesystem which begins at this offset. Returns false if this is impossible.
fn holds(parts: &mut Vec<(u64, ProbeMatch)>, start: u64) -> bool {
    let is_flash = |kind| matches!(kind, Kind::Ubi | Kind::Ubifs | Kind::Jffs2 | Kind::WearLevelled);
    let is_in_way = |(at, part): &(u64, ProbeMatch)| {
        at.saturating_add(part.len) > start && (*at < start || is_flash(part.kind))
    };
    if parts.iter().any(is_in_way) {
        return false;
    }
    parts.retain(|(at, _)| *at < start);
    true
}

/// Parts with the wear levelling of ESP-IDF, which are recognised by a sector at their end.
pub(super) fn wear_levelled(view: &View<'_>) -> Result<Vec<(u64, ProbeMatch)>, ImageError> {
    let mut parts: Vec<(u64, ProbeMatch)> = Vec::new();
    let mut buffer = vec![0; CHUNK];
    for start in (0..view.len()).step_by(CHUNK) {
        let len = usize::try_from(view.len() - start).map_or(CHUNK, |left| left.min(CHUNK));
        let chunk = &mut buffer[..len];
        view.store().read_at(view.start() + start, chunk).map_err(ImageError::Store)?;
        for at in (0..len).step_by(HEAD) {
            let Some(found) = wear_levelling::ends(chunk.get(at..).unwrap_or_default()) else { continue };
            let end = start + (at + HEAD) as u64;
            let own = end
                .checked_sub(found)
                .and_then(|at| Some((at, wear_levelling::probe(&view.slice(at, found))?)));
            let is_behind =
                |(at, _): &(u64, ProbeMatch)| parts.last().is_none_or(|(last, part)| last + part.len <= *at);
            parts.extend(own.filter(is_behind));
        }
    }
    Ok(parts)
}

/// The format that begins with a stretch.
pub(super) fn at_start(view: &View<'_>) -> Option<ProbeMatch> {
    if let Some(found) = wear_levelling::probe(view) {
        return Some(found);
    }
    let mut head = vec![0; HEAD.min(usize::try_from(view.len()).unwrap_or(HEAD))];
    view.read(0, &mut head)?;
    let begins = |probe: &&&Probe| match &probe.begins {
        Begins::Magic { at, magics, .. } => {
            magics.iter().any(|magic| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)))
        }
        Begins::Head { test, .. } => test(&head),
    };
    PROBES.iter().filter(begins).find_map(|probe| (probe.probe)(view)).filter(|found| found.len > 0)
}

fn searches() -> Vec<Search> {
    let search = |probe: &&'static Probe| match &probe.begins {
        Begins::Magic { at, magics, step } => {
            let finders = magics.iter().map(Finder::new).collect();
            Some(Search { probe, at: *at as u64, step: *step, finders })
        }
        Begins::Head { .. } => None,
    };
    PROBES.iter().filter_map(search).collect()
}

/// Offsets in a chunk, from `cursor` on, that may be the beginning of a format. If two formats match at the same
/// offset, the first one in the table comes first.
fn candidates(searches: &[Search], chunk: &[u8], start: u64, cursor: u64) -> Vec<(u64, &'static Probe)> {
    let mut all = Vec::new();
    for Search { probe, at, step, finders } in searches {
        for hit in finders.iter().flat_map(|finder| finder.find_iter(chunk)).filter(|hit| *hit < CHUNK) {
            let place = (start + hit as u64).checked_sub(*at);
            let place = place.filter(|place| *place >= cursor && place.is_multiple_of(*step));
            all.extend(place.map(|place| (place, *probe)));
        }
    }
    for probe in PROBES {
        let Begins::Head { step, front, test } = probe.begins else { continue };
        let len = chunk.len().min(CHUNK);
        let front = if start == 0 { len.min(front) } else { 0 };
        for at in (0..front).chain((front.next_multiple_of(step)..len).step_by(step)) {
            let head = &chunk[at..];
            let place = start + at as u64;
            if place >= cursor && test(head.get(..HEAD).unwrap_or(head)) {
                all.push((place, *probe));
            }
        }
    }
    all.sort_by_key(|(place, _)| *place);
    all
}
