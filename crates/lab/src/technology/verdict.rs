//! Conclusion: the fastest candidates, the cheapest one, and the unfit ones.

use super::{Candidate, Figures, Use};
use crate::life;
use crate::show::number::{seconds, three};
use floatgate_mtd::size::text as size;
use floatgate_mtd::words::measure;
use serde::{Deserialize, Serialize};

/// Criterion in which a candidate leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Race {
    /// Shortest time until all files can be used.
    Ready,
    /// Fastest sequential reads.
    Read,
    /// Fastest sequential writes.
    Write,
    /// Fastest 4 KiB writes with fsync.
    SyncedWrite,
    /// Lowest price of the whole part.
    Price,
}

impl Race {
    const ALL: [Self; 5] = [Self::Ready, Self::Read, Self::Write, Self::SyncedWrite, Self::Price];

    const fn figure(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Ready => figures.ready_s,
            Self::Read => figures.read_mib_s,
            Self::Write => figures.write_mib_s,
            Self::SyncedWrite => figures.synced_write_ms,
            Self::Price => figures.usd,
        }
    }

    /// Factor by which the first of two figures is better.
    fn factor(self, first: f64, second: f64) -> f64 {
        match self {
            Self::Ready | Self::SyncedWrite | Self::Price => second / first,
            Self::Read | Self::Write => first / second,
        }
    }

    fn phrase(self, value: f64) -> String {
        match self {
            Self::Ready => format!("is ready first ({})", seconds(value)),
            Self::Read => format!("reads fastest ({} MiB/s)", three(value)),
            Self::Write => format!("writes fastest ({} MiB/s)", three(value)),
            Self::SyncedWrite => format!("has the fastest small synced writes ({} ms)", three(value)),
            Self::Price => format!("costs least (${value:.2})"),
        }
    }
}

/// Best candidate among those with a known figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lead {
    /// Criterion in which the candidate leads.
    pub race: Race,
    /// Name of the candidate.
    pub target: String,
    /// Figure of the candidate.
    pub value: f64,
    /// Factor by which it is better than the next candidate.
    pub factor: f64,
}

/// Best candidates of each race in which at least two figures are known. Several candidates lead if their displayed
/// figures are equal. None leads if no other candidate is slower.
pub fn leads(candidates: &[Candidate]) -> Vec<Lead> {
    Race::ALL.into_iter().flat_map(|race| leads_of(race, candidates)).collect()
}

fn leads_of(race: Race, candidates: &[Candidate]) -> Vec<Lead> {
    let mut known: Vec<(&str, f64)> = candidates
        .iter()
        .filter_map(|one| Some((one.target.as_str(), race.figure(&one.figures)?)))
        .filter(|(_, value)| *value > 0.0)
        .collect();
    known.sort_by(|a, b| race.factor(a.1, b.1).total_cmp(&1.0).reverse());
    let Some((_, best)) = known.first().copied() else { return Vec::new() };
    // Candidates with the same displayed figure count as equally fast.
    let shown = three(best);
    let (mut first, others): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|(_, value)| three(*value) == shown);
    let Some((_, next)) = others.first().copied() else { return Vec::new() };
    let factor = race.factor(best, next);
    // The user may name a target twice.
    first.dedup_by_key(|(target, _)| *target);
    first.into_iter().map(|(target, value)| Lead { race, target: target.to_owned(), value, factor }).collect()
}

/// Candidate to choose: the only fit one, or the fit one that leads in most races; equal numbers are decided by the
/// product of the factors. `None` if no candidate leads, or if several are equally good.
pub fn choice<'a>(candidates: &'a [Candidate], leads: &[Lead]) -> Option<&'a str> {
    match best(candidates, leads)[..] {
        [only] => Some(only),
        _ => None,
    }
}

/// Logarithms of factors that differ by less than this are equal.
const EQUAL: f64 = 1e-6;

/// Candidates to choose from: one, or several that are equally good.
fn best<'a>(candidates: &'a [Candidate], leads: &[Lead]) -> Vec<&'a str> {
    let won = |target: &str| {
        let own: Vec<&Lead> = leads.iter().filter(|lead| lead.target == target).collect();
        (own.len(), own.iter().map(|lead| libm::log(lead.factor)).sum::<f64>())
    };
    let mut fit: Vec<((usize, f64), &str)> = candidates
        .iter()
        .filter(|one| one.unfit.is_empty())
        .map(|one| (won(&one.target), one.target.as_str()))
        .collect();
    fit.sort_by(|(a, _), (b, _)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    match fit[..] {
        [(_, only)] if candidates.len() > 1 => vec![only],
        [((most, by), _), ..] if most > 0 => {
            let is_best = |(count, sum): (usize, f64)| count == most && (by - sum).abs() < EQUAL;
            let mut best: Vec<&str> =
                fit.iter().filter(|(won, _)| is_best(*won)).map(|(_, target)| *target).collect();
            best.dedup();
            best
        }
        _ => Vec::new(),
    }
}

/// Two sentences: the choice with its leads, and the unfit candidates.
pub fn sentences(candidates: &[Candidate], leads: &[Lead], use_: &Use) -> Vec<String> {
    [led(candidates, leads), fitness(candidates, use_)].into_iter().flatten().collect()
}

/// Phrases for the leads of a candidate.
fn phrases(leads: &[Lead], target: &str) -> Vec<String> {
    leads.iter().filter(|lead| lead.target == target).map(|lead| lead.race.phrase(lead.value)).collect()
}

fn led(candidates: &[Candidate], leads: &[Lead]) -> Option<String> {
    let chosen = best(candidates, leads);
    // Candidates with the same leads share a clause; those to choose come first.
    let mut groups: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for winner in chosen.iter().copied().chain(leads.iter().map(|lead| lead.target.as_str())) {
        let own = phrases(leads, winner);
        match groups.iter_mut().find(|(phrases, _)| *phrases == own) {
            Some((_, winners)) if winners.contains(&winner) => {}
            Some((_, winners)) => winners.push(winner),
            None => groups.push((own, vec![winner])),
        }
    }
    let clause = |(phrases, winners): &(Vec<String>, Vec<&str>)| {
        let is_chosen = winners.iter().any(|winner| chosen.contains(winner));
        match (is_chosen, &phrases[..], &winners[..]) {
            (true, [], winners) => format!("Choose {}: no other would do", listed(winners, "or")),
            (true, phrases, [only]) => format!("Choose {only}: it {}", listed(phrases, "and")),
            (true, phrases, several) => format!(
                "Choose {}, which are as good: each {}",
                listed(several, "or"),
                listed(phrases, "and")
            ),
            (false, phrases, [only]) => format!("{only} {}", listed(phrases, "and")),
            (false, phrases, several) => {
                format!("each of {} {}", listed(several, "and"), listed(phrases, "and"))
            }
        }
    };
    let clauses: Vec<String> = groups.iter().map(clause).collect();
    let unknown: Vec<&str> = candidates
        .iter()
        .filter(|one| one.figures.ready_s.is_none() && one.unfit.is_empty())
        .map(|one| one.target.as_str())
        .collect();
    let knows_ready = leads.iter().any(|lead| lead.race == Race::Ready);
    let but = match &unknown[..] {
        [_, ..] if knows_ready => format!("; how soon {} can be used is not known", listed(&unknown, "and")),
        _ => String::new(),
    };
    (!clauses.is_empty()).then(|| format!("{}{but}.", clauses.join("; ")))
}

fn fitness(candidates: &[Candidate], use_: &Use) -> Option<String> {
    let pace = format!("{} a day", life::in_units(use_.write_bytes_per_day));
    let would_not = |one: &Candidate| {
        let reasons: Vec<String> = one.unfit.iter().map(ToString::to_string).collect();
        (!reasons.is_empty()).then(|| format!("{} would not do: {}", one.target, listed(&reasons, "and")))
    };
    let unfit: Vec<String> = candidates.iter().filter_map(would_not).collect();
    let fit: Vec<&str> =
        candidates.iter().filter(|one| one.unfit.is_empty()).map(|one| one.target.as_str()).collect();
    let lasting = format!("{} at {pace}", measure(use_.years, "year"));
    let partition = use_
        .partition_bytes
        .map_or_else(String::new, |bytes| format!(" have room for a partition of {} and", size(bytes)));
    match (&fit[..], unfit.is_empty()) {
        (_, true) => Some(format!("All of them{partition} last {lasting}.")),
        ([], false) => Some(format!("{}.", unfit.join("; "))),
        (fit, false) => {
            let last = if fit.len() == 1 { "lasts" } else { "last" };
            Some(format!("{}; {} {last} {lasting}.", unfit.join("; "), listed(fit, "and")))
        }
    }
}

/// Words as a list in a sentence.
fn listed<S: AsRef<str>>(words: &[S], last: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match &words[..] {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first, second] => format!("{first} {last} {second}"),
        [others @ .., end] => format!("{}, {last} {end}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Unfit, Workload};
    use super::*;

    fn candidate(target: &str, ready_s: Option<f64>, read: f64, synced: f64) -> Candidate {
        let figures = Figures {
            ready_s,
            read_mib_s: Some(read),
            write_mib_s: Some(read / 2.0),
            synced_write_ms: Some(synced),
            ..Figures::default()
        };
        Candidate {
            target: target.to_owned(),
            title: String::new(),
            kind: String::new(),
            filesystem: None,
            figures,
            intervals: Vec::new(),
            missing: Vec::new(),
            unfit: Vec::new(),
            remarks: Vec::new(),
        }
    }

    const USE: Use = Use {
        workload: Workload::Postmark,
        partition_bytes: None,
        write_bytes_per_day: 100 << 20,
        years: 10.0,
        seed: 0,
    };

    fn said(candidates: &[Candidate], use_: &Use) -> Vec<String> {
        sentences(candidates, &leads(candidates), use_)
    }

    #[test]
    fn sentences_follow_from_the_figures() {
        let mut all = [
            candidate("nand", Some(1.48), 1.1, 3.8),
            candidate("nor", Some(0.9), 2.7, 6.9),
            candidate("emmc", None, 160.0, 0.6),
        ];
        assert_eq!(
            said(&all, &USE),
            [
                "Choose emmc: it reads fastest (160 MiB/s), writes fastest (80.0 MiB/s), and has the fastest small synced writes (0.600 ms); nor is ready first (900 ms); how soon emmc can be used is not known.",
                "All of them last 10 years at 100 MiB a day.",
            ]
        );
        assert!((leads(&all)[1].factor - 160.0 / 2.7).abs() < 1e-9);
        all[1].unfit.push(Unfit::TooSmall { bytes: 16 << 20, wanted_bytes: 64 << 20 });
        all[0].unfit.push(Unfit::WearsOut { years: 3.21, wanted_years: 10.0 });
        assert_eq!(
            said(&all, &USE)[1],
            "nand would not do: it is worn out after 3.2 of 10 years; nor would not do: it has 16 MiB, and 64 MiB are needed; emmc lasts 10 years at 100 MiB a day."
        );
        let wanted = Use { partition_bytes: Some(1 << 20), years: 1.0, ..USE };
        assert_eq!(
            said(&all[2..], &wanted),
            ["All of them have room for a partition of 1 MiB and last 1 year at 100 MiB a day."]
        );
    }

    #[test]
    fn one_known_figure_is_no_race() {
        let mut all = [candidate("a", Some(1.0), 1.0, 1.0), candidate("b", None, 0.0, 1.0)];
        all[1].figures.synced_write_ms = None;
        assert_eq!(leads(&all), []);
        assert_eq!(said(&all, &USE), ["All of them last 10 years at 100 MiB a day."]);
        let equal = [candidate("a", Some(1.0), 1.0, 1.0), candidate("b", Some(1.0), 1.0, 1.0)];
        assert_eq!(leads(&equal), [], "neither is faster");
    }

    #[test]
    fn the_cheapest_candidate_is_named() {
        let mut all = [candidate("a", Some(2.0), 9.0, 1.0), candidate("b", Some(3.0), 1.0, 3.0)];
        all[0].figures.usd = Some(10.4);
        assert_eq!(leads(&all).len(), 4, "one known price is no race");
        all[1].figures.usd = Some(5.2);
        let said = said(&all, &USE);
        assert!(
            said[0].starts_with("Choose a: it ") && said[0].ends_with("; b costs least ($5.20)."),
            "{said:?}"
        );
    }

    /// Three boards, two of them equal. The equal ones once counted as no leaders, so the third was chosen for the only
    /// race that it wins.
    #[test]
    fn equal_candidates_share_their_leads() {
        let all = [
            candidate("a", Some(2.0), 9.0, 1.0),
            candidate("slow", Some(1.0), 1.0, 3.0),
            candidate("b", Some(2.0), 9.0, 1.0),
        ];
        let leads = leads(&all);
        assert_eq!(choice(&all, &leads), None, "a is as good as b");
        assert_eq!(
            said(&all, &USE)[0],
            "Choose a or b, which are as good: each reads fastest (9.00 MiB/s), writes fastest (4.50 MiB/s), and has the fastest small synced writes (1.00 ms); slow is ready first (1.00 s)."
        );
        assert_eq!(choice(&all[..2], &super::leads(&all[..2])), Some("a"));
    }
}
