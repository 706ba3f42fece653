//! Real capacity: each sector holds its own address, which shows where a write really went.

use crate::answer::{Answer, Value};
use crate::sample::{Sample, Samples, Test};
use floatgate_mtd::size::text as size;
use std::collections::BTreeMap;

pub(crate) struct Real {
    pub(crate) capacity: Answer,
    pub(crate) fake: Answer,
}

/// Distance at which addresses repeat, in bytes.
pub(crate) fn wrap(samples: &Samples) -> Option<u64> {
    let end: Vec<&Sample> = samples.with_test(Test::TagEnd).filter(|sample| sample.found.is_some()).collect();
    // If addresses repeat after a distance, the sector at this distance after each sector has overwritten it. If all
    // sectors hold the same address, they are all the last sector.
    let is_ring = |ring: u64| {
        let mut behind = end.iter().filter(|sample| sample.position.saturating_add(ring) < samples.capacity);
        behind.all(|sample| sample.found != Some(sample.position))
    };
    let is_one = end.len() > 1 && end.iter().all(|sample| sample.found == end[0].found);
    let all = samples.with_test(Test::TagEnd).chain(samples.with_test(Test::TagScan));
    let distances =
        all.filter_map(|sample| sample.found?.checked_sub(sample.position)).filter(|ring| *ring > 0);
    distances.min().filter(|ring| !is_one && is_ring(*ring))
}

/// End of the sectors that are known to exist, and start of those known not to exist, in bytes.
pub(crate) fn bounds(samples: &Samples) -> (u64, u64) {
    let tested = || samples.with_test(Test::TagSection);
    let lost = tested().filter(|sample| sample.found != Some(sample.position));
    let high = lost.map(|sample| sample.position).min().unwrap_or(samples.capacity);
    let kept = tested().filter(|sample| sample.found == Some(sample.position) && sample.position < high);
    (kept.map(|sample| sample.position + 512).max().unwrap_or(0), high)
}

/// True when two reads of the same position without a write between them differ.
fn is_unstable(samples: &Samples) -> bool {
    [Test::Again, Test::Verify].into_iter().any(|test| {
        let mut first = BTreeMap::new();
        samples
            .with_test(test)
            .any(|sample| *first.entry(sample.position).or_insert(sample.found) != sample.found)
    })
}

/// Number of sectors whose content is not what was written, and number of sectors checked.
fn wrong_sectors(samples: &Samples) -> (u64, u64) {
    let count = |sum: (u64, u64), sample: &Sample| {
        let all = sample.bytes / 512;
        (sum.0 + sample.found.unwrap_or(0).min(all), sum.1 + all)
    };
    samples.with_test(Test::Verify).fold((0, 0), count)
}

pub(crate) fn conclude(samples: &Samples) -> Real {
    let claimed = samples.capacity;
    let is_tested = samples.with_test(Test::TagSection).next().is_some() || wrap(samples).is_some();
    let untrue = |kind, reason: String| Real {
        capacity: Answer::unknown("B", 0.5, reason.clone()),
        fake: Answer::found(Value::Word(kind), "", 0.9, reason),
    };
    if is_unstable(samples) {
        return untrue("unstable", "the second read of some addresses returned other contents".to_owned());
    }
    let (wrong, all) = wrong_sectors(samples);
    if wrong > 0 {
        return untrue("corrupt", format!("{wrong} of {all} sectors contain other data than was written"));
    }
    if !is_tested {
        let reason = "as the device says: only writes show whether it is true";
        let capacity = Answer::found(Value::Count(claimed), "B", 0.5, reason.to_owned());
        return Real {
            capacity,
            fake: Answer::unknown("", 0.0, "not visible in reads: writes need permission"),
        };
    }
    let (real, kind, why) = real(samples);
    let confidence = if real % 512 == 0 && is_finished(samples) { 0.97 } else { 0.4 };
    let capacity = Answer::found(Value::Count(real), "B", confidence, why.clone());
    Real { capacity, fake: Answer::found(Value::Word(kind), "", confidence, why) }
}

fn is_finished(samples: &Samples) -> bool {
    let (low, high) = bounds(samples);
    low == high || high >= wrap(samples).unwrap_or(samples.capacity)
}

/// Real capacity, kind of fake, and the reason.
fn real(samples: &Samples) -> (u64, &'static str, String) {
    let claimed = samples.capacity;
    let (low, high) = bounds(samples);
    if let Some(ring) = wrap(samples) {
        let why = format!("data written to an address appear {} below it", size(ring));
        return match high < ring {
            true => {
                (low, "chain", format!("{why}, and data written to the end of these {} are lost", size(ring)))
            }
            false => (ring, "wraps", why),
        };
    }
    if high >= claimed {
        return (claimed, "none", "the last sector and others contain the written data".to_owned());
    }
    let last = claimed - 512;
    let beyond = samples.with_test(Test::TagBeyond).next();
    if beyond.is_some_and(|sample| sample.found == Some(last) && sample.position != last) {
        // The test itself has overwritten the last real sector.
        return (low + 512, "last-sector", "all sectors behind the end are the last real one".to_owned());
    }
    let is_kept = samples.with_test(Test::TagLast).any(|sample| sample.found == Some(last));
    match is_kept {
        true => {
            (low, "cached", "sectors behind the end are kept only until others are written there".to_owned())
        }
        false => (low, "limbo", "data written behind the end are lost".to_owned()),
    }
}
