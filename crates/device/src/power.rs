//! The supply of a controller and its chips, which goes away when a test orders it.

use floatgate_mtd::{Instant, Nanos};

/// Moment of a power cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PowerCut {
    /// At this time.
    At(Instant),
    /// In the program or erase of this number, counted from 1 as they are begun from now on, when this share of it is over.
    During {
        /// Number of the operation.
        operation: u64,
        /// 0 to 1.
        share: f64,
    },
}

/// Power of a controller and its chips.
#[derive(Clone, Copy, Debug)]
pub struct Power {
    /// Time of the loss of power: an operation that ends later does not happen.
    pub(crate) until: Instant,
    /// In which operation it goes: how many from now on, and at which share.
    during: Option<(u64, f64)>,
    lost: bool,
    counting: bool,
    operations: u64,
}

/// Power stays.
const ALWAYS: Instant = Instant::from_ns(u64::MAX);

impl Default for Power {
    fn default() -> Self {
        Self { until: ALWAYS, during: None, lost: false, counting: false, operations: 0 }
    }
}

/// Share that is done at `at` of an operation from `start` to `end`, 0 to 1.
pub(crate) fn share_done(start: Instant, end: Instant, at: Instant) -> f32 {
    let length = end.since(start).as_ns().max(1) as f64;
    (at.since(start).as_ns() as f64 / length).min(1.0) as f32
}

impl Power {
    /// Orders a cut; with `None` power stays. Nothing changes while power is gone.
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

    /// True when power is gone.
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Counts programs and erases from now on, which takes a little time for each operation on the bus.
    pub const fn count_operations(&mut self) {
        self.counting = true;
    }

    /// Programs and erases begun so far, the one that power did not last for included; 0 while they are not counted.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// True when every operation has to look: for the count, a cut, or power that is gone.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.counting || self.during.is_some() || self.until != ALWAYS
    }

    /// A program or an erase began that takes from `start` to `end`.
    pub(crate) fn count(&mut self, start: Instant, end: Instant) {
        self.operations += 1;
        let Some((operation, share)) = self.during else { return };
        self.during = (operation > 1).then_some((operation - 1, share));
        if operation == 1 {
            self.until = start + Nanos::from_ns((end.since(start).as_ns() as f64 * share) as u64);
        }
    }

    /// Switches the power off, after which nothing happens. Returns the time of it; `None` if the power was off already.
    pub(crate) const fn switch_off(&mut self) -> Option<Instant> {
        let (at, first) = (self.until, !self.lost);
        (self.until, self.during, self.lost) = (Instant::ZERO, None, true);
        if first { Some(at) } else { None }
    }

    /// Power is back, and stays.
    pub(crate) const fn restore(&mut self) {
        (self.until, self.during, self.lost) = (ALWAYS, None, false);
    }
}
