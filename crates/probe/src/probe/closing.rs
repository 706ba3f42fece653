//! Borders of allocation units that only writes show.

use super::writes::Layout;
use super::{Probe, ProbeError};
use crate::analysis::closing::{
    self as analysis, BORDERS, CONTENT_MAX, CONTENT_MIN, End, TRIES, borders, clearness, unit,
};
use crate::analysis::open_aus::MOST;
use crate::sample::{SECTOR, Test};
use floatgate_host::Target;

/// Largest allocation unit that is searched, B.
const AU_MAX: u64 = 128 << 20;
/// Largest allocation units in which the borders and the position behind all of them are, and before the other units.
const UNITS: u64 = BORDERS as u64 + 2;
/// Writes to all other units before the first position is tried: what they cost changes until each has contents.
const ROUNDS: u64 = 2;
/// Longest time of the search, ns.
const SEARCH_NS: u64 = 300_000_000_000;
/// Contents that must add something, B: times differ by more than few of them add.
const HOPELESS: u64 = 2 << 20;
/// Most positions that are tried.
const POSITIONS: u64 = 120;

impl<T: Target> Probe<'_, T> {
    /// Most bytes that [`Self::measure_closing`] writes.
    pub(super) const fn closing_bytes() -> u64 {
        BORDERS as u64 * CONTENT_MAX
            + (4 * ROUNDS * BORDERS as u64 + (POSITIONS + 2 * BORDERS as u64) * 3 * TRIES as u64)
                * (MOST + 1)
                * SECTOR
    }

    /// Looks for borders behind what was filled. Larger allocation units than a part of the room there are not found.
    pub(super) fn measure_closing(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("erase block");
        let start = (layout.fill.0 + layout.fill.1).next_multiple_of(SECTOR);
        let room = self.usable.saturating_sub(start);
        let distance = (room / (UNITS + MOST)).min(AU_MAX) / SECTOR * SECTOR;
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

    /// The next border behind a position, with as many contents before it as it takes.
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

    /// Tries where the next border is if it is as far from the last one as that from the one before.
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

    /// Writes to a position, and to one in the unit that has contents and one in a unit that has none, as times change with what was written before.
    fn try_position(&mut self, last: u64, position: u64, others: Others) -> Result<(), ProbeError> {
        for position in [position, last, others.far()].repeat(TRIES) {
            self.write_through(Test::Inside, last, position, SECTOR)?;
            self.close(Test::Close, last, others)?;
        }
        Ok(())
    }

    /// Writes to so many units, so that the card closes others that are open.
    fn close(&mut self, test: Test, about: u64, others: Others) -> Result<(), ProbeError> {
        (0..MOST).try_for_each(|unit| {
            self.write_through(test, about, others.first + unit * others.distance, SECTOR).map(drop)
        })
    }
}

/// Means of seeing a border.
struct Effort {
    /// Contents, B.
    content: u64,
    /// False when more contents would fill a unit.
    can_grow: bool,
    /// Positions that can be tried yet.
    positions: u64,
    /// Time of the probe, ns, after which the search ends.
    until_ns: u64,
}

/// Allocation units that are written so that another one is closed.
#[derive(Clone, Copy)]
struct Others {
    first: u64,
    distance: u64,
}

impl Others {
    /// A sector before all of them, which is in none of their units: with one of them it would be closed for nothing.
    const fn far(&self) -> u64 {
        self.first - self.distance
    }
}
