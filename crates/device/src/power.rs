//! The power supply of a controller and its chips, which tests can cut.

use floatgate_mtd::{Instant, Nanos};

/// Moment of a power cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PowerCut {
    /// A cut at this time.
    At(Instant),
    /// A cut in a program or erase operation, when this share of it is done.
    During {
        /// Number of the operation, counted from 1 over the operations that start from now on.
        operation: u64,
        /// Share of the operation that is done, 0 to 1.
        share: f64,
    },
}

/// Power of a controller and its chips.
#[derive(Clone, Copy, Debug)]
pub struct Power {
    /// Time of the power loss. An operation that would end later is not completed.
    pub(crate) until: Instant,
    /// Scheduled cut: number of the operation from now on, and share of it that is done.
    during: Option<(u64, f64)>,
    lost: bool,
    counting: bool,
    operations: u64,
}

/// Time value that means no power loss.
const ALWAYS: Instant = Instant::from_ns(u64::MAX);

impl Default for Power {
    fn default() -> Self {
        Self { until: ALWAYS, during: None, lost: false, counting: false, operations: 0 }
    }
}

/// Share of an operation from `start` to `end` that is done at `at`, 0 to 1.
pub(crate) fn share_done(start: Instant, end: Instant, at: Instant) -> f32 {
    let length = end.since(start).as_ns().max(1) as f64;
    (at.since(start).as_ns() as f64 / length).min(1.0) as f32
}

impl Power {
    /// Schedules a power cut; `None` cancels it. It has no effect while power is lost.
    pub fn order(&mut self, cut: Option<PowerCut>) {
        if self.lost {
            return;
        }
        (self.until, self.during) = match cut {
            None => (ALWAYS, None),
            Some(PowerCut::At(until)) => (until, None),
            Some(PowerCut::During { operation, share }) => {
                (ALWAYS, Some((operation.max(1), share.clamp(0.0, 1.0))))
            }
        };
    }

    /// True while power is lost.
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Starts to count programs and erases, which takes a little real time for each operation on the bus.
    pub const fn count_operations(&mut self) {
        self.counting = true;
    }

    /// Number of programs and erases started since counting began, including an interrupted one; 0 without counting.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// True if each operation must check the supply: operations are counted, a cut is scheduled, or power is lost.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.counting || self.during.is_some() || self.until != ALWAYS
    }

    /// Records a program or erase that takes from `start` to `end`.
    pub(crate) fn count(&mut self, start: Instant, end: Instant) {
        self.operations += 1;
        let Some((operation, share)) = self.during else { return };
        self.during = (operation > 1).then_some((operation - 1, share));
        if operation == 1 {
            self.until = start + Nanos::from_ns((end.since(start).as_ns() as f64 * share) as u64);
        }
    }

    /// Switches the power off. Returns the time of the power loss; `None` if the power was already off.
    pub(crate) const fn switch_off(&mut self) -> Option<Instant> {
        let (at, first) = (self.until, !self.lost);
        (self.until, self.during, self.lost) = (Instant::ZERO, None, true);
        if first { Some(at) } else { None }
    }

    /// Restores power and cancels any cut.
    pub(crate) const fn restore(&mut self) {
        (self.until, self.during, self.lost) = (ALWAYS, None, false);
    }
}
