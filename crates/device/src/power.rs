//! When power goes away, as a test orders it of a controller.

use floatgate_mtd::{Instant, Nanos};

/// Moment of a power cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PowerCut {
    /// At this time.
    At(Instant),
    /// In the program or erase of this number, counted from 1 as they are begun, when this share of it is over.
    During {
        /// Number of the operation.
        operation: u64,
        /// 0 to 1.
        share: f64,
    },
}

/// Power of a controller and its chip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Power {
    /// Time of the loss of power: an operation that ends later does not happen.
    pub(crate) until: Instant,
    /// In which operation it goes: how many from now on, and at which share.
    during: Option<(u64, f64)>,
    /// It is gone.
    pub(crate) lost: bool,
}

/// Power stays.
const ALWAYS: Instant = Instant::from_ns(u64::MAX);

impl Default for Power {
    fn default() -> Self {
        Self { until: ALWAYS, during: None, lost: false }
    }
}

impl Power {
    /// It is gone: nothing happens any more.
    pub(crate) const LOST: Self = Self { until: Instant::ZERO, during: None, lost: true };

    /// Orders a cut, or none.
    pub(crate) fn order(&mut self, cut: Option<PowerCut>) {
        if self.lost {
            return;
        }
        *self = match cut {
            None => Self::default(),
            Some(PowerCut::At(until)) => Self { until, ..Self::default() },
            Some(PowerCut::During { operation, share }) => {
                Self { during: Some((operation, share.clamp(0.0, 1.0))), ..Self::default() }
            }
        };
    }

    /// True when operations have to be counted.
    #[inline]
    pub(crate) const fn counts(&self) -> bool {
        self.during.is_some()
    }

    /// A program or an erase began that takes from `start` to `end`.
    pub(crate) fn count(&mut self, start: Instant, end: Instant) {
        let Some((operation, share)) = self.during else { return };
        self.during = (operation > 1).then_some((operation.saturating_sub(1), share));
        if operation == 1 {
            self.until = start + Nanos::from_ns((end.since(start).as_ns() as f64 * share) as u64);
        }
    }
}
