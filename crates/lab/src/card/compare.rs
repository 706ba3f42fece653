//! Cards, filesystems and workloads, compared by the traces that the project ships.
//!
//! Each cell is a replay without think times on a card of its own. The card has been through mkfs and
//! mounting, so that the times are the card's alone; the cells do not depend on the number of threads. The
//! cards of a row are clones of one, which was brought into the state.

use super::replay::{SyncTimes, ThinkTime, WritePlaces, prepare, replay};
use super::serve::NewCard;
use super::shipped::{CardRequests, ShippedTrace};
use super::state::{CardState, StandIn};
use super::{CardOptions, LoadedCard};
use crate::Error;
use crate::advise::card::DeviceFacts;
use crate::progress::{Listener, Progress};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// A card with its name in the catalogue.
#[derive(Clone, Debug)]
pub struct NamedCard {
    /// Name in the catalogue, or path.
    pub name: String,
    /// Card as it was loaded from the catalogue.
    pub card: LoadedCard,
}

/// One card, filesystem and workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Name of the card.
    pub card: String,
    /// Name of the filesystem.
    pub filesystem: String,
    /// Name of the workload.
    pub workload: String,
    /// Time to mount the new filesystem and to look at its free space, in us.
    pub mount_us: f64,
    /// Time that the card works on the requests, in us.
    pub time_us: f64,
    /// This time over the time of the fastest ranked filesystem on the same card under the same workload.
    pub relative_time: f64,
    /// False when the trace lacks work that the filesystem does in use ([`ShippedTrace::is_complete`]), and there are others.
    pub is_ranked: bool,
    /// Longest time of a request, in us.
    pub longest_us: f64,
    /// Bytes programmed over bytes written.
    pub write_amplification: f64,
    /// Blocks erased.
    pub erases: u64,
    /// Requests that the card refused or could not do.
    pub failed: u64,
    /// Bytes that the workload discarded.
    pub discarded_bytes: u64,
    /// Times of syncs.
    #[serde(flatten)]
    pub syncs: SyncTimes,
    /// Allocation units written.
    #[serde(flatten)]
    pub places: WritePlaces,
    /// Changes of the allocation unit for each file that the workload made; absent where their number is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places_per_file: Option<f64>,
}

/// A filesystem on a card, over all workloads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Score {
    /// Name of the filesystem.
    pub filesystem: String,
    /// Geometric mean of the relative times.
    pub relative_time: f64,
}

/// Advice for a card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CardAdvice {
    /// Name of the card.
    pub card: String,
    /// Filesystems, the fastest first.
    pub filesystems: Vec<Score>,
    /// A sentence that follows from the times.
    pub advice: String,
    /// Workloads under which another filesystem than the fastest is faster: that filesystem, and a sentence.
    #[serde(skip)]
    exceptions: Vec<(String, String)>,
    /// Sentences about the card.
    #[serde(skip)]
    warnings: String,
}

impl CardAdvice {
    /// The advice without the filesystems that cannot be made on the card. The fastest one must be possible.
    pub fn with(&self, is_possible: impl Fn(&str) -> bool) -> String {
        let possible: Vec<&Score> =
            self.filesystems.iter().filter(|score| is_possible(&score.filesystem)).collect();
        let mut advice = match &possible[..] {
            [] => String::new(),
            [only] => format!("{} alone was ranked.", only.filesystem),
            [best, others @ ..] => verdict(best, others),
        };
        for (filesystem, sentence) in &self.exceptions {
            advice += if is_possible(filesystem) { sentence } else { "" };
        }
        advice + &self.warnings
    }
}

/// All cells, and advice for each card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Matrix {
    /// By card, filesystem and workload.
    pub cells: Vec<Cell>,
    /// In the order of the cards.
    pub cards: Vec<CardAdvice>,
    /// Sentences about what the traces are not: other conditions may have another order.
    pub remarks: Vec<String>,
    /// State of the cards at the beginning; unknown for a result that was read.
    #[serde(skip)]
    pub state: Option<CardState>,
}

/// Steps of a replay for a bar: it takes about as long as as many requests that fill a card.
const REPLAY_STEPS: u64 = 200;

/// Replays each trace on each card, which is in `state` at the beginning. `progress` hears how far it is.
///
/// # Errors
/// A card that is smaller than the traces, or that no card can be; one that fails before the replay.
pub fn compare(
    cards: &[NamedCard],
    traces: &[ShippedTrace],
    state: CardState,
    seed: u64,
    progress: Listener<'_>,
) -> Result<Matrix, Error> {
    // The traces use a part of the card that does not grow with it.
    let new = |card: &NamedCard| {
        NewCard::of(&StandIn::of(&card.card.spec, state), CardOptions { seed, stores: false })
    };
    let mut steps = (cards.len() * traces.len()) as u64 * REPLAY_STEPS;
    for card in cards {
        steps += new(card)?.steps(state);
    }
    progress(Progress::Steps(steps));
    let row = |card: &NamedCard| {
        let mut first = new(card)?;
        first
            .reach(state, seed, &|steps| progress(Progress::Done(steps)))
            .map_err(|error| error.within(card.name.clone()))?;
        first.share_map();
        let cells = traces.par_iter().map(|trace| {
            let cell = cell(card, trace, first.clone())
                .map_err(|error| error.within(format!("{} on {}", trace.name(), card.name)));
            progress(Progress::Done(REPLAY_STEPS));
            cell
        });
        cells.collect::<Result<Vec<Cell>, Error>>()
    };
    let rows: Vec<Vec<Cell>> = cards.par_iter().map(row).collect::<Result<_, _>>()?;
    let mut cells = rows.concat();
    if traces.iter().all(|trace| !trace.is_complete()) {
        cells.iter_mut().for_each(|cell| cell.is_ranked = true);
    }
    relate(&mut cells);
    let remarks = remarks(traces);
    let of_card = |card: &NamedCard| {
        let unfit = DeviceFacts::of_card(&card.name, &card.card).untrusted_reason();
        advise(&card.name, unfit.as_deref(), &cells)
    };
    let cards = cards.iter().map(of_card).collect();
    Ok(Matrix { cells, cards, remarks, state: Some(state) })
}

fn remarks(traces: &[ShippedTrace]) -> Vec<String> {
    let mut remarks = vec![
        "The traces are of partitions of 3 GiB and of one run of each: `run` makes the filesystem on the whole card, where its times may differ by a third, and by more of ext4 with fsync, so that filesystems that are close may change places."
            .to_owned(),
    ];
    if traces.iter().any(|trace| trace.filesystem == "nilfs2") {
        remarks.push(
            "NILFS2 is not ranked: its traces ran without its cleaner, which copies live blocks out of old segments and writes many times more: `run` can start it."
                .to_owned(),
        );
    }
    if traces.iter().any(|trace| trace.drops_discards) {
        remarks.push(
            "Discards of mkfs, of the kernel and of the workload are left out: the card keeps all that was ever written to it."
                .to_owned(),
        );
    }
    remarks
}

fn cell(card: &NamedCard, trace: &ShippedTrace, new: NewCard) -> Result<Cell, Error> {
    let requests = trace.requests(card.card.spec.au_bytes)?;
    let mount_at = requests.before_mount();
    let CardRequests { mut before, workload } = requests;
    let mount = before.split_off(mount_at);
    let mut at_work = new.meet(None);
    prepare(&mut at_work, before.into_iter().map(Ok), None)?;
    let made = at_work.now();
    prepare(&mut at_work, mount.into_iter().map(Ok), None)?;
    let mount_us = at_work.now().since(made).as_us_f64();
    let played = replay(&card.card, at_work, workload.into_iter().map(Ok), ThinkTime::None)?;
    Ok(Cell {
        card: card.name.clone(),
        filesystem: trace.filesystem.to_owned(),
        workload: trace.workload.to_owned(),
        mount_us,
        time_us: played.account.time_us,
        relative_time: 1.0,
        is_ranked: trace.is_complete(),
        longest_us: played.account.latency.max_us,
        write_amplification: played.account.write_amplification,
        erases: played.account.erases,
        failed: played.account.failed,
        discarded_bytes: played.account.discard.bytes,
        syncs: played.syncs,
        places_per_file: trace.files.map(|files| played.places.au_changes as f64 / files as f64),
        places: played.places,
    })
}

/// Sets the relative times.
fn relate(cells: &mut [Cell]) {
    let times: Vec<f64> = cells
        .iter()
        .map(|cell| {
            let rivals =
                cells.iter().filter(|other| (&other.card, &other.workload) == (&cell.card, &cell.workload));
            rivals.filter(|other| other.is_ranked).map(|other| other.time_us).fold(f64::INFINITY, f64::min)
        })
        .collect();
    for (cell, fastest) in cells.iter_mut().zip(times) {
        let is_known = fastest > 0.0 && fastest.is_finite();
        cell.relative_time = if is_known { cell.time_us / fastest } else { 1.0 };
    }
}

/// Ranked filesystems of a card, the fastest first; of equal ones, the first in the traces.
fn scores(cells: &[&Cell]) -> Vec<Score> {
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        if !names.contains(&cell.filesystem.as_str()) {
            names.push(&cell.filesystem);
        }
    }
    let mut scores: Vec<Score> = names
        .into_iter()
        .map(|name| {
            let logs: Vec<f64> = cells
                .iter()
                .filter(|cell| cell.filesystem == name)
                .map(|cell| libm::log(cell.relative_time))
                .collect();
            let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
            Score { filesystem: name.to_owned(), relative_time: libm::exp(mean) }
        })
        .collect();
    scores.sort_by(|a, b| a.relative_time.total_cmp(&b.relative_time));
    scores
}

/// Times that differ by less than this part are called equal.
const EQUAL: f64 = 0.05;

fn advise(card: &str, unfit: Option<&str>, cells: &[Cell]) -> CardAdvice {
    let own: Vec<&Cell> = cells.iter().filter(|cell| cell.card == card && cell.is_ranked).collect();
    let filesystems = scores(&own);
    let failed: u64 = own.iter().map(|cell| cell.failed).sum();
    let exceptions = filesystems.first().map(|best| exceptions(best, &own)).unwrap_or_default();
    let mut warnings = String::new();
    if failed > 0 {
        warnings += &format!(" The card failed in {failed} requests.");
    }
    if let Some(reason) = unfit {
        warnings += &format!(" But do not use this card: {reason}.");
    }
    let mut advice =
        CardAdvice { card: card.to_owned(), filesystems, advice: String::new(), exceptions, warnings };
    advice.advice = advice.with(|_| true);
    advice
}

fn verdict(best: &Score, others: &[&Score]) -> String {
    let ratio = |score: &Score| score.relative_time / best.relative_time;
    let (equal, slower): (Vec<&Score>, Vec<&Score>) =
        others.iter().copied().partition(|score| ratio(score) < 1.0 + EQUAL);
    let mut fastest = best.filesystem.clone();
    for score in &equal {
        fastest += &format!(" or {}", score.filesystem);
    }
    if slower.is_empty() {
        return format!("Any filesystem will do: {fastest} differ by less than 5 %.");
    }
    let times: Vec<String> =
        slower.iter().map(|score| format!("{} {:.1}", score.filesystem, ratio(score))).collect();
    format!("Use {fastest}. Time of the others relative to it: {}.", times.join(", "))
}

/// Workloads under which another filesystem than the best is faster: that filesystem, and a sentence.
fn exceptions(best: &Score, cells: &[&Cell]) -> Vec<(String, String)> {
    let worse =
        cells.iter().filter(|cell| cell.filesystem == best.filesystem && cell.relative_time > 1.0 + EQUAL);
    worse
        .filter_map(|cell| {
            let is_winner = |other: &&&Cell| other.workload == cell.workload && other.relative_time <= 1.0;
            let winner = cells.iter().find(is_winner)?;
            let sentence = format!(
                " Under {}, {} is {:.1} times as fast as {}.",
                cell.workload, winner.filesystem, cell.relative_time, best.filesystem
            );
            Some((winner.filesystem.clone(), sentence))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(filesystem: &str, workload: &str, time_us: f64) -> Cell {
        Cell {
            card: "card".to_owned(),
            filesystem: filesystem.to_owned(),
            workload: workload.to_owned(),
            mount_us: 0.0,
            time_us,
            relative_time: 0.0,
            is_ranked: true,
            longest_us: 0.0,
            write_amplification: 1.0,
            erases: 0,
            failed: 0,
            discarded_bytes: 0,
            syncs: SyncTimes::default(),
            places: WritePlaces::default(),
            places_per_file: None,
        }
    }

    #[test]
    fn advice_follows_from_the_times() {
        let advice = |times: &[(&str, &str, f64)]| {
            let mut cells: Vec<Cell> = times.iter().map(|(fs, load, time)| cell(fs, load, *time)).collect();
            relate(&mut cells);
            advise("card", None, &cells).advice
        };
        let clear = [("a", "x", 100.0), ("b", "x", 400.0), ("a", "y", 10.0), ("b", "y", 10.0)];
        assert_eq!(advice(&clear), "Use a. Time of the others relative to it: b 2.0.");
        let mixed = [("a", "x", 100.0), ("b", "x", 800.0), ("a", "y", 20.0), ("b", "y", 10.0)];
        assert_eq!(
            advice(&mixed),
            "Use a. Time of the others relative to it: b 2.0. Under y, b is 2.0 times as fast as a."
        );
        let equal = [("a", "x", 100.0), ("b", "x", 102.0)];
        assert_eq!(advice(&equal), "Any filesystem will do: a or b differ by less than 5 %.");
        assert_eq!(advice(&[("a", "x", 1.0)]), "a alone was ranked.");
    }
}
