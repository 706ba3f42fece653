//! A device that counts: operations, bytes, bit errors, failures, latencies, and where the time went.

use crate::account::Breakdown;
use crate::device::Mtd;
use crate::latency::Latency;
use crate::observe::{Call, Observed, Observer};
use crate::operation::Operation;
use alloc::boxed::Box;

/// A device that counts its calls in [`Counters`].
pub type Meter<D> = Observed<D, Counters>;

impl<D: Mtd> Observed<D, Counters> {
    /// `inner`, metered from now on.
    pub fn new(inner: D) -> Self {
        Self::watch(inner, Counters::default())
    }

    /// Counts, times and bytes of one kind of operation.
    pub fn count(&self, operation: Operation) -> &Counter {
        self.observer().of(operation)
    }

    /// Starts from zero.
    pub fn reset(&mut self) {
        *self.observer_mut() = Counters::default();
    }
}

/// Counts, times and bytes of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes of these, OOB included.
    pub bytes: u64,
    /// Bits corrected in these.
    pub bitflips: u64,
    /// Most bits corrected in one ECC step.
    pub bitflips_max: u32,
    /// Operations that failed.
    pub errors: u64,
    /// Latency of the operations that succeeded, waiting included.
    pub latency: Latency,
    /// Time of the device by phase in all operations, failed ones included.
    pub spent: Breakdown,
}

/// One [`Counter`] per kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(Box<[Counter; Operation::ALL.len()]>);

impl Counters {
    /// Counts, times and bytes of one kind of operation.
    pub fn of(&self, operation: Operation) -> &Counter {
        &self.0[operation as usize]
    }

    /// All kinds of operation that occurred at least once, in printing order.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, &Counter)> {
        Operation::ALL.into_iter().zip(self.0.iter()).filter(|(_, c)| c.operations + c.errors > 0)
    }
}

impl Observer for Counters {
    fn note(&mut self, call: &Call<'_>) {
        let counter = &mut self.0[call.operation as usize];
        counter.spent += call.spent;
        let Ok(good) = call.result else {
            counter.errors += 1;
            return;
        };
        counter.operations += 1;
        counter.bytes += call.len;
        counter.bitflips += u64::from(good.bitflips);
        counter.bitflips_max = counter.bitflips_max.max(good.bitflips_max);
        counter.latency.add(call.latency());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Phase;
    use crate::double::{Double, at};
    use crate::time::Nanos;

    #[test]
    fn counts_each_kind_by_itself() {
        let mut meter = Meter::new(Double::new());
        let mut page = [0; 64];
        meter.write(at(0), 0, &page).unwrap();
        meter.write(at(100), 64, &page).unwrap();
        meter.write(at(1000), 64, &page).unwrap_err();
        meter.inner_mut().bitflips = 3;
        meter.read(at(2000), 0, &mut page).unwrap();
        let writes = meter.count(Operation::Write);
        assert_eq!((writes.operations, writes.errors, writes.bytes, writes.bitflips), (2, 1, 128, 0));
        assert_eq!((writes.latency.min(), writes.latency.max()), (Nanos::from_us(200), Nanos::from_us(300)));
        assert_eq!(writes.spent[Phase::Array], Nanos::from_us(600));
        assert_eq!(writes.spent[Phase::Waiting], Nanos::from_us(100));
        let reads = meter.count(Operation::Read);
        assert_eq!((reads.bytes, reads.bitflips, reads.bitflips_max), (64, 3, 3));
        assert_eq!(reads.latency.p999(), Nanos::from_us(65));
        assert_eq!(meter.observer().iter().count(), 2);
        meter.reset();
        assert_eq!(meter.observer(), &Counters::default());
    }

    #[test]
    fn the_kinds_breakdowns_add_up_to_the_devices() {
        let mut meter = Meter::new(Double::new());
        let mut page = [0; 64];
        meter.read_while_write(at(0), (0, &[1; 64]), (0, &mut page)).unwrap();
        meter.erase(at(50), 0, 256).unwrap();
        let mut sum = Breakdown::default();
        meter.observer().iter().for_each(|(_, counter)| sum += counter.spent);
        assert_eq!(sum, meter.breakdown());
    }
}
