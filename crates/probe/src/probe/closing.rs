//! Borders of allocation units that only writes show: requests of [`crate::analysis::closing`].

use super::writes::Layout;
use super::{Probe, ProbeError};
use crate::analysis::closing::{
    self as analysis, BORDERS, CONTENT_MAX, CONTENT_MIN, End, TRIES, borders, clearness, unit,
};
use crate::sample::{AUS_MOST, SECTOR, Test};
use floatgate_host::Target;

/// Largest allocation unit that can be found, B.
const AU_MAX: u64 = 128 << 20;
/// Room for the borders and the positions after them, in units of the largest allocation unit, before the other units
/// begin.
const UNITS: u64 = BORDERS as u64 + 2;
/// Writes to all other units before the first position is tried: their cost changes until each contains data.
const ROUNDS: u64 = 2;
/// Maximum time of the search, ns.
const SEARCH_NS: u64 = 300_000_000_000;
/// Amount of data that must cause some extra time, B: noise is larger than the cost of less data.
const HOPELESS: u64 = 2 << 20;
/// Maximum number of positions that are tried.
const POSITIONS: u64 = 120;

impl<T: Target> Probe<'_, T> {
    /// Maximum number of bytes that [`Self::measure_closing`] writes.
    pub(super) const fn closing_bytes() -> u64 {
        BORDERS as u64 * CONTENT_MAX
            + (4 * ROUNDS * BORDERS as u64 + (POSITIONS + 2 * BORDERS as u64) * 3 * TRIES as u64)
                * (AUS_MOST + 1)
                * SECTOR
    }

    /// Searches for borders after the sequentially written range. Only allocation units up to a part of the free room
    /// are found.
    pub(super) fn measure_closing(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("erase block");
        let start = (layout.fill.0 + layout.fill.1).next_multiple_of(SECTOR);
        let room = self.usable.saturating_sub(start);
        let distance = (room / (UNITS + AUS_MOST)).min(AU_MAX) / SECTOR * SECTOR;
        if distance < CONTENT_MAX {
            return Ok(());
        }
        let until_ns = self.target.cost.ns + SEARCH_NS;
        let others = Others { first: start + UNITS * distance, distance };
        for _ in 0..ROUNDS {
            self.close(Test::WarmUp, 0, others)?;
        }
        let (mut begin, mut effort) =
            (start, Effort { content: CONTENT_MIN, can_grow: true, positions: POSITIONS, until_ns });
        for _ in 0..BORDERS {
            let Some(border) = self.next_border(begin, &mut effort, others)? else { break };
            begin = border;
            if unit(&self.samples).is_some() {
                break;
            }
            if let [.., (first, _), (second, _)] = borders(&self.samples)[..] {
                let half = (second - first) / 2 / CONTENT_MIN * CONTENT_MIN;
                effort.content = half.clamp(CONTENT_MIN, CONTENT_MAX);
                effort.can_grow = false;
            }
        }
        Ok(())
    }

    /// Finds the next border after a position, with as much data before it as is needed.
    fn next_border(
        &mut self,
        begin: u64,
        effort: &mut Effort,
        others: Others,
    ) -> Result<Option<u64>, ProbeError> {
        let mut end = begin;
        while self.can_go_on(effort) {
            while end < begin + effort.content {
                self.write_through(Test::WarmUp, 0, end, CONTENT_MIN)?;
                end += CONTENT_MIN;
            }
            self.close(Test::WarmUp, 0, others)?;
            let last = end - SECTOR;
            self.try_expected(last, others)?;
            while self.can_go_on(effort) {
                let clearness = clearness(&self.samples, last).filter(|_| effort.can_grow);
                if clearness.is_some_and(|clearness| clearness < 1.0) {
                    break;
                }
                match analysis::end(&self.samples, last, others.far()) {
                    End::Try(position) => self.try_position(last, position, others)?,
                    End::At(border) => return Ok(Some(border)),
                }
                effort.positions -= 1;
            }
            let most = (CONTENT_MAX / effort.content) as f64;
            let is_hopeless = effort.content >= HOPELESS
                && clearness(&self.samples, last).is_none_or(|clearness| clearness * most < 1.0);
            if is_hopeless || effort.content >= CONTENT_MAX {
                return Ok(None);
            }
            effort.content *= 2;
        }
        Ok(None)
    }

    const fn can_go_on(&self, effort: &Effort) -> bool {
        effort.positions > 0 && self.target.cost.ns < effort.until_ns
    }

    /// Tries the expected position of the next border: as far from the last border as that one from the border before.
    fn try_expected(&mut self, last: u64, others: Others) -> Result<(), ProbeError> {
        if let [.., (first, _), (second, _)] = borders(&self.samples)[..] {
            let expected = 2 * second - first;
            if expected < others.far() {
                self.try_position(last, expected - SECTOR, others)?;
                self.try_position(last, expected, others)?;
            }
        }
        Ok(())
    }

    /// Writes to a position, and as references to a unit with data and a unit without, because times depend on earlier
    /// writes.
    fn try_position(&mut self, last: u64, position: u64, others: Others) -> Result<(), ProbeError> {
        for position in [position, last, others.far()].repeat(TRIES) {
            self.write_through(Test::Inside, last, position, SECTOR)?;
            self.close(Test::Close, last, others)?;
        }
        Ok(())
    }

    /// Writes to `about` units, so that the card closes other open ones.
    fn close(&mut self, test: Test, about: u64, others: Others) -> Result<(), ProbeError> {
        (0..AUS_MOST).try_for_each(|unit| {
            self.write_through(test, about, others.first + unit * others.distance, SECTOR).map(drop)
        })
    }
}

/// State of the search for a border.
struct Effort {
    /// Amount of data before a candidate position, B.
    content: u64,
    /// False if more data would fill a unit.
    can_grow: bool,
    /// Number of positions that may still be tried.
    positions: u64,
    /// Probe time at which the search ends, ns.
    until_ns: u64,
}

/// Allocation units whose writes close other units.
#[derive(Clone, Copy)]
struct Others {
    first: u64,
    distance: u64,
}

impl Others {
    /// A sector before all of these units and in none of them: a write to one of them would close it needlessly.
    const fn far(&self) -> u64 {
        self.first - self.distance
    }
}
