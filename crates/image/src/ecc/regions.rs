//! Regions of a dump: runs of blocks with one code, or without a code.
//!
//! Different programs may write a boot loader, a filesystem and a factory area, each with its own code.

use super::Scheme;
use super::codes::{Codes, Reach};
use super::sample::{Group, Page, Sample, are_new, is_constant};
use super::search::search;
use super::trial::Trial;
use rayon::prelude::*;
use std::collections::HashSet;
use std::ops::Range;

/// Largest number of positions in a dump at which all codes are tried.
const SEEDS: usize = 16;

/// Number of them after which pages of guessed sizes are given up.
const FIRST_SEEDS: usize = 2;

/// Largest number of positions in a dump at which undescribed layouts are searched.
const MAX_SEARCHES: usize = 3;

/// Number of page groups at such a position, if a single group is not sufficient.
const SEED_GROUPS: usize = 4;

/// Evidence in bits from which a group of pages belongs to a code that was found at another position.
const GROUP_BITS: f64 = 8.0;

/// Longest run of groups that a region includes although its code does not explain them: worn or half-written blocks.
const DAMAGED_RUN: usize = 4;

/// Protection of the pages of a region.
#[derive(Clone, Debug)]
pub enum RegionEcc {
    /// Code that explains the pages.
    Code(Box<Scheme>),
    /// No ECC: the OOB does not depend on the data.
    None,
    /// No known code explains the OOB.
    Unknown,
}

impl RegionEcc {
    /// Code and layout, if a code explains the pages.
    pub const fn scheme(&self) -> Option<&Scheme> {
        match self {
            Self::Code(scheme) => Some(scheme),
            Self::None | Self::Unknown => None,
        }
    }
}

/// A run of pages.
#[derive(Clone, Debug)]
pub struct Region {
    /// Number of the first page. The region ends before the next region, or at the end of the dump.
    pub first_page: u64,
    /// Protection of the pages.
    pub ecc: RegionEcc,
}

/// Regions of a dump, in order; the first region starts at page 0.
#[derive(Clone, Debug)]
pub struct Regions(Vec<Region>);

impl Regions {
    /// Regions of a dump with a single region.
    pub fn one(ecc: RegionEcc) -> Self {
        Self(vec![Region { first_page: 0, ecc }])
    }

    /// Regions with their ranges of pages.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, &RegionEcc)> {
        let ends = self.0.iter().skip(1).map(|next| next.first_page).chain([u64::MAX]);
        self.0.iter().zip(ends).map(|(region, end)| (region.first_page..end, &region.ecc))
    }

    /// Index of the region that contains a page.
    pub(super) fn index(&self, page: u64) -> usize {
        self.0.partition_point(|region| region.first_page <= page).saturating_sub(1)
    }

    /// Protection of a page.
    pub fn at(&self, page: u64) -> &RegionEcc {
        self.0.get(self.index(page)).map_or(&RegionEcc::Unknown, |region| &region.ecc)
    }

    /// Codes of all regions.
    pub fn schemes(&self) -> impl Iterator<Item = &Scheme> {
        self.0.iter().filter_map(|region| region.ecc.scheme())
    }
}

/// State of the search for a group of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Number of the code that explains the group.
    Code(usize),
    /// No tried code explains the group.
    Unknown,
    /// The group is marked bad, or its data does not identify a code.
    Silent,
}

/// Consecutive groups with the same state.
#[derive(Clone, Debug)]
struct Run {
    groups: Range<usize>,
    state: State,
}

/// Finds the regions of a dump among the codes that it may be written with, and in undescribed layouts.
pub(super) fn find(known: &Codes, sample: &Sample, reach: Reach) -> Regions {
    let (codes, states) = label(known, sample, reach);
    let mut runs = runs(&states);
    let unknown: Vec<usize> = (0..states.len()).filter(|&at| states[at] == State::Unknown).collect();
    include_damage(&mut runs, |run| {
        // Groups of the run with data, and the groups among them that the code does not explain.
        let unexplained = unknown.iter().filter(|at| run.contains(at)).count();
        (run.clone().filter(|&at| states[at] != State::Silent).count(), unexplained)
    });
    for run in &mut runs {
        if let State::Code(code) = run.state
            && !Trial::over(&codes[code], &sample.spread(explained(&states, run))).is_believed()
        {
            run.state = State::Unknown;
        }
    }
    join(&mut runs);
    let regions = runs.into_iter().map(|run| {
        let ecc = match run.state {
            State::Code(code) => RegionEcc::Code(Box::new(codes[code].clone())),
            _ if hold_ecc(&sample.groups[run.groups.clone()]) => RegionEcc::Unknown,
            _ => RegionEcc::None,
        };
        Region { first_page: run.groups.start as u64 * sample.group_pages, ecc }
    });
    let regions: Vec<Region> = regions.collect();
    if regions.is_empty() { Regions::one(RegionEcc::None) } else { Regions(regions) }
}

/// Groups of a run that its code explains.
fn explained<'s>(states: &'s [State], run: &Run) -> impl Iterator<Item = usize> + use<'s> {
    let state = run.state;
    run.groups.clone().filter(move |&at| states[at] == state)
}

/// Tries all codes in the middle of the longest run of groups that no code explains yet; where one is found, it is tried on all others.
fn label(known: &Codes, sample: &Sample, reach: Reach) -> (Vec<Scheme>, Vec<State>) {
    let schemes = known.schemes();
    let marked = marked(&sample.groups);
    let state = |(group, is_marked): (&Group, &bool)| {
        if group.pages.is_empty() || *is_marked { State::Silent } else { State::Unknown }
    };
    let mut states: Vec<State> = sample.groups.iter().zip(&marked).map(state).collect();
    let mut tried = HashSet::new();
    let mut codes: Vec<Scheme> = Vec::new();
    let mut searches = 0;
    for place in 0..SEEDS {
        if reach == Reach::FirstPlaces && place == FIRST_SEEDS && codes.is_empty() {
            break;
        }
        let Some((middle, around)) = seed(&states, &tried) else { break };
        tried.insert(middle);
        let found = best(schemes, &sample.spread([middle].into_iter()));
        // Worn pages of a weak code give little evidence alone.
        let around = sample.spread(around.into_iter());
        let found = found.or_else(|| best(schemes, &around)).cloned();
        let in_unknown = || {
            searches += 1;
            if searches > MAX_SEARCHES || reach != Reach::All {
                return None;
            }
            let found = best(known.alternatives(), &around).cloned();
            found.or_else(|| known.searches().then(|| search(&known.geometry, &around)).flatten())
        };
        let Some(found) = found.or_else(in_unknown) else { continue };
        let code = codes.len();
        states.par_iter_mut().zip(&sample.groups).filter(|(state, _)| **state == State::Unknown).for_each(
            |(state, group)| {
                let pages: Vec<&Page> = group.pages.iter().collect();
                if Trial::over(&found, &pages).explains(GROUP_BITS) {
                    *state = State::Code(code);
                }
            },
        );
        codes.push(found);
    }
    // A few steps with wrong bits do not identify a code, but belong to the code of their neighbours.
    states.par_iter_mut().zip(&sample.groups).filter(|(state, _)| **state == State::Unknown).for_each(
        |(state, group)| {
            let pages: Vec<&Page> = group.pages.iter().collect();
            if codes.iter().any(|code| Trial::over(code, &pages).is_possible()) {
                *state = State::Silent;
            }
        },
    );
    (codes, states)
}

/// Groups that are marked bad. The result is empty if the bytes are no markers: bad blocks are few, and not in long
/// runs.
fn marked(groups: &[Group]) -> Vec<bool> {
    if 2 * groups.iter().filter(|group| group.is_marked).count() > groups.len() {
        return vec![false; groups.len()];
    }
    let rows = groups.chunk_by(|one, other| one.is_marked == other.is_marked);
    rows.flat_map(|row| row.iter().map(|group| group.is_marked && row.len() <= DAMAGED_RUN)).collect()
}

/// Group in the middle of the longest run of unexplained groups, with its neighbours. The run ends at groups that
/// were tried before.
fn seed(states: &[State], tried: &HashSet<usize>) -> Option<(usize, Vec<usize>)> {
    let mut runs: Vec<Vec<usize>> = vec![Vec::new()];
    for (at, state) in states.iter().enumerate() {
        match state {
            State::Unknown if !tried.contains(&at) => {
                runs.last_mut().into_iter().for_each(|run| run.push(at));
            }
            State::Silent => {}
            _ => runs.push(Vec::new()),
        }
    }
    // Of equally long runs, the first is used.
    let longest = runs.into_iter().rev().max_by_key(Vec::len)?;
    let middle = *longest.get(longest.len() / 2)?;
    let from = longest.len().saturating_sub(SEED_GROUPS) / 2;
    Some((middle, longest.into_iter().skip(from).take(SEED_GROUPS).collect()))
}

/// Accepted code that explains the pages best; of equal codes the first.
fn best<'s>(schemes: &'s [Scheme], pages: &[&Page]) -> Option<&'s Scheme> {
    let evidence: Vec<Option<f64>> =
        schemes.par_iter().map(|scheme| Trial::pruned(scheme, pages).believed_bits()).collect();
    let mut best: Option<(f64, &Scheme)> = None;
    for (bits, scheme) in evidence.into_iter().zip(schemes) {
        if let Some(bits) = bits
            && best.is_none_or(|(most, _)| bits > most)
        {
            best = Some((bits, scheme));
        }
    }
    best.map(|(_, scheme)| scheme)
}

/// Runs of groups with the same state. Groups without evidence belong to the run before them, or to the first run.
fn runs(states: &[State]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, &state) in states.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if state == run.state || state == State::Silent => run.groups.end = at + 1,
            Some(run) if run.state == State::Silent => *run = Run { groups: run.groups.start..at + 1, state },
            _ => runs.push(Run { groups: at..at + 1, state }),
        }
    }
    runs
}

/// Includes short runs of unexplained groups into the region around them, up to a tenth of the region.
fn include_damage(runs: &mut Vec<Run>, counts: impl Fn(&Range<usize>) -> (usize, usize)) {
    let mut at = 1;
    while at + 1 < runs.len() {
        let (before, after) = (&runs[at - 1], &runs[at + 1]);
        let joined = before.groups.start..after.groups.end;
        let (all, unexplained) = counts(&joined);
        let is_damage = runs[at].state == State::Unknown
            && before.state == after.state
            && counts(&runs[at].groups).0 <= DAMAGED_RUN
            && 10 * unexplained <= all;
        if is_damage {
            runs[at - 1].groups = joined;
            runs.drain(at..=at + 1);
        } else {
            at += 1;
        }
    }
}

/// Joins adjacent runs of unexplained groups.
fn join(runs: &mut Vec<Run>) {
    runs.dedup_by(|next, run| {
        let is_one = next.state == run.state;
        if is_one {
            run.groups.end = next.groups.end;
        }
        is_one
    });
}

/// Largest number of different OOBs in pages without ECC, such as those that JFFS2's clean markers cause. The limit
/// is this number, or one for each `PLAIN_PART` different pages.
const PLAIN_OOBS: usize = 2;
const PLAIN_PART: usize = 8;

/// True if OOB bytes depend on the data: pages with different data have different OOB bytes. A few wrong bits make no different data.
pub(super) fn hold_ecc(groups: &[Group]) -> bool {
    let pages = || groups.iter().flat_map(|group| &group.pages);
    let different = pages().zip(are_new(pages())).filter(|(_, is_new)| *is_new);
    let data: HashSet<&[u8]> = different.map(|(page, _)| page.data()).collect();
    let oobs: HashSet<&[u8]> = pages().map(|page| page.oob()).filter(|oob| !is_constant(oob)).collect();
    // A few pages give too little evidence.
    oobs.len() > PLAIN_OOBS.max(data.len() / PLAIN_PART) || !oobs.is_empty() && oobs.len() == data.len()
}
