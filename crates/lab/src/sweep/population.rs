//! Populations: many chips of one design, means with intervals, and the rule for a sufficient number of chips.

use super::batch::Record;
use super::constraint::Constraint;
use super::figures::{ChipFigures, Figure};
use super::measure::is_interval_end;
use super::spec::{Population, Stop};
use crate::interval::{bootstrap, wilson};
use floatgate_sim::error::Error;
use rayon::prelude::*;

/// Name of the column with the number of measured members.
pub(super) const MEMBERS: &str = "members";

/// Summary of a figure over all members so far.
struct Summary {
    name: String,
    mean: f64,
    /// Confidence interval; `None` for a single member.
    interval: Option<[f64; 2]>,
}

/// Measures members in waves of `least` members. It ends when the interval is narrow enough, a constraint is certainly
/// missed, or all members are measured. Each wave runs on all threads; its size does not depend on their number.
///
/// `known` are the members of earlier waves, and `keep` receives the members of each wave. `None` if members remain
/// after `most` waves.
///
/// # Errors
/// The first error of a member.
pub(super) fn measure(
    population: &Population,
    constraints: &[Constraint],
    known: Vec<ChipFigures>,
    (most, keep): (Option<u32>, impl Fn(&[ChipFigures])),
    member: impl Fn(u32) -> Result<ChipFigures, Error> + Sync,
) -> Result<Option<Record>, Error> {
    let mut all = known;
    for measured in 0.. {
        let from = all.len();
        let summaries = summaries(&all);
        let is_last = from as u32 >= population.members;
        if is_last || from > 0 && is_enough(population.stop.as_ref(), constraints, &summaries) {
            return Ok(Some(record(&summaries, all)));
        }
        if most.is_some_and(|most| measured >= most) {
            break;
        }
        let to = population.members.min((from as u32).saturating_add(population.least));
        let wave: Vec<Result<ChipFigures, Error>> = (from as u32..to).into_par_iter().map(&member).collect();
        // The results are checked in order, so that the returned error does not depend on the number of threads.
        for found in wave {
            all.push(found?);
        }
        keep(&all[from..]);
    }
    Ok(None)
}

/// Returns an error for a rule whose column is not a figure of the members.
pub(super) fn check_column(stop: &Stop, figures: &[String]) -> Result<(), Error> {
    if figures.contains(&stop.column) {
        return Ok(());
    }
    Err(Error::no_column("population.stop.column", &stop.column, figures))
}

fn is_enough(stop: Option<&Stop>, constraints: &[Constraint], summaries: &[Summary]) -> bool {
    let find = |column: &str| summaries.iter().find(|summary| summary.name == column);
    let is_pruned = |one: &Constraint| {
        find(&one.column).and_then(|summary| summary.interval).is_some_and(|i| one.is_missed_by(i))
    };
    if constraints.iter().any(is_pruned) {
        return true;
    }
    let interval = stop.and_then(|stop| find(&stop.column)?.interval);
    stop.zip(interval).is_some_and(|(stop, [low, high])| high - low <= stop.width)
}

/// Summaries of the figures of the first member. A figure is a value in all members, or a share in all.
fn summaries(all: &[ChipFigures]) -> Vec<Summary> {
    let names = all.first().map_or(&[][..], |first| &first.figures);
    let of = |name: &str| {
        let figure = |found: &ChipFigures| {
            found.figures.iter().find(|(known, _)| known == name).map(|(_, figure)| *figure)
        };
        all.iter().filter_map(figure).collect::<Vec<Figure>>()
    };
    // The interval of one chip does not describe the spread between chips.
    let names = names.iter().map(|(name, _)| name).filter(|name| !is_interval_end(name));
    names.map(|name| summary(name, &of(name))).collect()
}

fn summary(name: &str, figures: &[Figure]) -> Summary {
    let (mut hits_of_all, mut tries_of_all) = (0, 0);
    for figure in figures {
        if let Figure::Share { hits, tries } = figure {
            hits_of_all += hits;
            tries_of_all += tries;
        }
    }
    let values: Vec<f64> = figures.iter().map(|figure| figure.mean()).collect();
    let (mean, interval) = match tries_of_all {
        0 => (values.iter().sum::<f64>() / values.len().max(1) as f64, bootstrap(&values)),
        tries => (hits_of_all as f64 / tries as f64, Some(wilson(hits_of_all, tries))),
    };
    Summary { name: name.to_owned(), mean, interval }
}

fn record(summaries: &[Summary], all: Vec<ChipFigures>) -> Record {
    let mut figures = vec![(MEMBERS.to_owned(), Some(all.len() as f64))];
    for Summary { name, mean, interval } in summaries {
        let [low, high] = interval.map_or([None; 2], |ends| ends.map(Some));
        figures.extend([
            (name.clone(), Some(*mean)),
            (format!("{name} low"), low),
            (format!("{name} high"), high),
        ]);
    }
    // Text values are taken from the first member.
    let texts = all.into_iter().next().map_or_else(Vec::new, |first| first.texts);
    Record { figures, texts, refused: None }
}
