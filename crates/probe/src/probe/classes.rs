//! The SD Association's tests of speed classes and application performance classes.

use super::writes::{Layout, cached};
use super::{Probe, ProbeError};
use crate::analysis::class::{RECORD_UNITS, UNIT_MAX};
use crate::sample::Test;
use floatgate_host::Target;

/// Number of allocation units that are written with each record unit, and limit of their bytes: a card with large units
/// gets fewer. The first unit is not measured: a recording may begin with a second in which the card prepares and
/// closes open units.
const AUS: u64 = 3;
const SPAN: (u64, u64) = (12 << 20, 32 << 20);
/// Length of a write while a cache is filled, B.
const FILL_BYTES: u64 = 512 << 10;
/// Range of the random tests, B, and size and number of their requests.
const APP_RANGE: u64 = 256 << 20;
const APP_BYTES: u64 = 4 << 10;
const APP_REQUESTS: u64 = 2048;
/// Minimum number of random writes, and time after which they end, ns.
const APP_WRITES_MIN: u64 = 16;
const APP_NS: u64 = 20_000_000_000;

impl<T: Target> Probe<'_, T> {
    /// Maximum number of bytes that these tests write.
    pub(super) const fn classes_bytes(fill: u64) -> u64 {
        (RECORD_UNITS.len() as u64 + 1) * SPAN.1 + fill * 5 / 4 + FILL_BYTES + APP_REQUESTS * APP_BYTES
    }

    /// Writes whole allocation units in record units, one of them fragmented, and random blocks of 4 KiB, in the range
    /// that the probe wrote in order before.
    pub(super) fn measure_classes(&mut self) -> Result<(), ProbeError> {
        let layout = Layout::from_samples(&self.samples, self.usable);
        let unit = layout.au.min(UNIT_MAX);
        let span = (AUS * layout.au).clamp(SPAN.0, SPAN.1).min(layout.fill.1) / unit * unit;
        if span <= unit || !unit.is_multiple_of(RECORD_UNITS[2]) {
            return Ok(());
        }
        self.ask("speed class");
        self.buf.fill(0x5A);
        // The cache is filled first, because the speed of writes to the cache is not a sustained speed.
        let fills = cached(&self.samples).min(layout.fill.1 * 5 / 4) / FILL_BYTES;
        let room = (layout.fill.1 / FILL_BYTES).max(1);
        for write in 0..fills {
            self.write(Test::WarmUp, 0, layout.fill.0 + write % room * FILL_BYTES, FILL_BYTES)?;
        }
        for record_unit in RECORD_UNITS {
            let writes = (0..span).step_by(record_unit as usize);
            self.write_units(Test::RecordUnit, layout.fill.0, unit, (record_unit, writes))?;
        }
        let record_unit = RECORD_UNITS[1];
        let every_second = (0..span).step_by(2 * record_unit as usize);
        self.write_units(Test::Fragmented, layout.fill.0, unit, (record_unit, every_second))?;
        self.measure_app(layout.fill)
    }

    /// Writes record units in order, and flushes after the last one.
    fn write_units(
        &mut self,
        test: Test,
        start: u64,
        unit: u64,
        (record_unit, offsets): (u64, impl Iterator<Item = u64>),
    ) -> Result<(), ProbeError> {
        for offset in offsets {
            let test = if offset < unit { Test::WarmUp } else { test };
            self.write(test, offset / unit, start + offset, record_unit)?;
        }
        self.add_flush()
    }

    /// Flushes; the time is added to the last write.
    fn add_flush(&mut self) -> Result<(), ProbeError> {
        let ns = self.target.flush()?;
        if let Some(sample) = self.samples.all.last_mut() {
            sample.ns += ns;
        }
        Ok(())
    }

    fn measure_app(&mut self, (start, bytes): (u64, u64)) -> Result<(), ProbeError> {
        self.ask("application performance class");
        let places = bytes.min(APP_RANGE) / APP_BYTES;
        for _ in 0..APP_REQUESTS {
            let place = start + self.below(places) * APP_BYTES;
            self.read(Test::AppRead, 0, place, APP_BYTES)?;
        }
        self.buf.fill(0x5A);
        let mut ns = 0;
        for write in 0..APP_REQUESTS {
            if write >= APP_WRITES_MIN && ns > APP_NS {
                break;
            }
            let place = start + self.below(places) * APP_BYTES;
            ns += self.write(Test::AppWrite, 0, place, APP_BYTES)?;
        }
        self.add_flush()
    }
}
