//! Tests that only read.

use super::{Probe, ProbeError};
use crate::analysis::borders::{
    PAGE_RANGE, SUSPECTS, halves, located, narrowed, origins, page_origin, powers_of_two, read_fit,
    small_candidates, suspects, usual_origins,
};
use crate::analysis::period::{AU_MIN, au_candidates};
use crate::sample::{Kind, Sample, Test};
use floatgate_host::Target;
use std::collections::BTreeSet;

/// Length of a read across a border, B.
const BORDER_BYTES: u64 = 4 << 10;
/// Length of a read across the border of a page, B.
const PAGE_BYTES: u64 = 1 << 10;
/// Tries per read; the fastest one counts.
const TRIES: usize = 5;
/// Number of multiples of a period that are tested.
const MULTIPLES: usize = 6;
/// Number of multiples of the smallest usual allocation unit whose borders end the search for smaller units.
const SMALL_FROM: u64 = 4;
/// Number of positions per page size.
const PAGE_PLACES: usize = 14;
/// Length of a read of a scan, B.
const SCAN_BYTES: u64 = 8 << 10;
/// Length of the scanned range if nothing is known, B: more than the largest usual allocation unit.
const SCAN_SPAN: u64 = 136 << 20;
/// Number of the slowest reads of a scan that each further pass repeats.
const SCAN_AGAIN: [usize; 11] = [1024, 512, 256, 128, 64, 64, 32, 32, 32, 32, 32];
/// Number of positions that are read repeatedly, and number of repetitions.
const NOISE_PLACES: usize = 16;
const NOISE_TRIES: usize = 12;
/// Number of positions whose data is compared.
const AGAIN_PLACES: usize = 64;
/// Length of each, B. They must reveal firmware that alters one sector in a thousand.
const AGAIN_BYTES: u64 = 64 << 10;

impl<T: Target> Probe<'_, T> {
    /// Runs all read tests; for an image, only the test for stable data. Does not write.
    ///
    /// # Errors
    /// The device fails or is too small; `Interrupted`.
    pub fn measure_reads(&mut self) -> Result<(), ProbeError> {
        self.check_size()?;
        if self.samples.is_image {
            return self.measure_again();
        }
        self.measure_noise()?;
        self.measure_again()?;
        self.measure_throughput()?;
        self.measure_borders(Test::Border, &[0], &au_candidates(self.usable))?;
        let fit = read_fit(&self.samples);
        let is_clear = fit.best().is_some_and(|(_, confidence)| confidence > 0.9);
        if !is_clear || fit.unexplained > 0.01 {
            let start = self.usable / 3 / SCAN_BYTES * SCAN_BYTES;
            self.locate((start, (start + SCAN_SPAN).min(self.usable)))?;
        }
        // If the real unit is smaller, the tested positions look like borders of a larger unit, or all positions look
        // alike.
        if read_fit(&self.samples).best().is_none_or(|(period, _)| period < SMALL_FROM * AU_MIN) {
            self.measure_borders(Test::SmallBorder, &origins(&self.samples), &small_candidates())?;
        }
        self.measure_pages([Test::Page, Test::PagePair], (0, self.usable))
    }

    /// Random position of a 4 KiB read.
    fn random_place(&mut self) -> u64 {
        let places = self.usable / BORDER_BYTES;
        self.below(places) * BORDER_BYTES
    }

    fn measure_noise(&mut self) -> Result<(), ProbeError> {
        self.ask("noise");
        let places: Vec<u64> = (0..NOISE_PLACES).map(|_| self.random_place()).collect();
        for _ in 0..NOISE_TRIES {
            for place in &places {
                self.read(Test::Noise, 0, *place, BORDER_BYTES)?;
            }
        }
        Ok(())
    }

    /// Reads positions twice, the second time in another order.
    pub(crate) fn measure_again(&mut self) -> Result<(), ProbeError> {
        self.check_size()?;
        self.ask("contents");
        let mut places: Vec<u64> = (0..AGAIN_PLACES).map(|_| self.random_place()).collect();
        for _ in 0..2 {
            for place in &places {
                self.check_stop()?;
                let bytes = AGAIN_BYTES.min(self.samples.capacity - *place);
                let ns = self.target.read(*place, &mut self.buf[..bytes as usize])?;
                let found = Some(fnv(&self.buf[..bytes as usize]));
                let (kind, position) = (Kind::Read, *place);
                self.keep_sample(Sample { test: Test::Again, about: 0, kind, position, bytes, ns, found });
            }
            self.shuffle(&mut places);
        }
        Ok(())
    }

    fn measure_throughput(&mut self) -> Result<(), ProbeError> {
        self.ask("read speed");
        let start = self.usable / 4 / 512 * 512;
        let bytes = (self.usable / 2).min(1 << 20) / 512 * 512;
        let reads = ((self.usable - start) / bytes).min(16);
        (0..reads).try_for_each(|read| self.read(Test::Throughput, 0, start + read * bytes, bytes).map(drop))
    }

    /// Reads before, on and after multiples of all candidate periods, counted from each origin, in random order.
    fn measure_borders(&mut self, test: Test, origins: &[u64], periods: &[u64]) -> Result<(), ProbeError> {
        self.ask("erase block");
        let mut places = BTreeSet::new();
        for origin in origins {
            for period in periods {
                self.add_multiples(&mut places, *origin, *period);
            }
        }
        let places: Vec<u64> = places.into_iter().collect();
        self.read_around(test, &places, BORDER_BYTES)
    }

    /// Adds some multiples of a period that are multiples of few other periods.
    fn add_multiples(&mut self, places: &mut BTreeSet<u64>, origin: u64, period: u64) {
        let origin = origin % period;
        let most = (self.usable - BORDER_BYTES).saturating_sub(origin) / period;
        let is_coprime = |m: &u64| [2, 3, 5, 7].iter().all(|prime| !m.is_multiple_of(*prime));
        let coprimes: Vec<u64> =
            if most < 2048 { (1..=most).filter(is_coprime).collect() } else { Vec::new() };
        for _ in 0..MULTIPLES {
            let multiple = match coprimes.len() {
                // A number without the factors 2, 3, 5 and 7 is a multiple of few other candidates.
                0 if most >= 2048 => loop {
                    let multiple = 1 + self.below(most);
                    if is_coprime(&multiple) {
                        break multiple;
                    }
                },
                few if few < MULTIPLES => 1 + self.below(most),
                many => coprimes[self.below(many as u64) as usize],
            };
            let place = origin + multiple * period;
            if place >= BORDER_BYTES && place + BORDER_BYTES <= self.usable {
                places.insert(place);
            }
        }
    }

    fn read_around(&mut self, test: Test, places: &[u64], bytes: u64) -> Result<(), ProbeError> {
        let mut reads: Vec<(u64, u64)> =
            // Besides reads before and after the border, one read begins one sector before it.
            places.iter().flat_map(|place| [0, 512, bytes].map(|before| (*place, before))).collect();
        for _ in 0..TRIES {
            self.shuffle(&mut reads);
            for (place, before) in &reads {
                self.read(test, *place, place - before, bytes)?;
            }
        }
        Ok(())
    }

    /// Searches a range for borders at any position: reads it without gaps, repeats the slowest reads, and bisects
    /// them.
    pub(super) fn locate(&mut self, (start, end): (u64, u64)) -> Result<(), ProbeError> {
        self.ask("position of a border");
        for read in 0..(end - start).saturating_sub(512) / SCAN_BYTES {
            let position = start + read * SCAN_BYTES;
            self.read(Test::Scan, position + SCAN_BYTES, position, SCAN_BYTES + 512)?;
        }
        for count in SCAN_AGAIN {
            for (position, about) in suspects(&self.samples).into_iter().take(count) {
                self.read(Test::Scan, about, position, SCAN_BYTES + 512)?;
            }
        }
        for range in suspects(&self.samples).into_iter().take(SUSPECTS) {
            self.bisect(range)?;
        }
        let mut origins = located(&self.samples);
        origins.extend(usual_origins());
        self.measure_borders(Test::Border, &origins, &au_candidates(self.usable))
    }

    fn bisect(&mut self, range: (u64, u64)) -> Result<(), ProbeError> {
        let mut left = range;
        while left.1 - left.0 > 512 {
            for _ in 0..2 * TRIES {
                for (position, bytes) in halves(left) {
                    self.read(Test::Bisect, left.1, position, bytes)?;
                }
            }
            left = narrowed(&self.samples, range);
        }
        Ok(())
    }

    /// Reads before, on and after odd multiples of each possible page size inside a range, and pairs of sectors before
    /// and after them.
    pub(super) fn measure_pages(&mut self, tests: [Test; 2], range: (u64, u64)) -> Result<(), ProbeError> {
        self.ask("page");
        let origin = page_origin(&self.samples);
        let mut places = BTreeSet::new();
        let (from, to) = (range.0.max(origin + PAGE_RANGE.1), range.1.saturating_sub(PAGE_RANGE.1));
        for length in powers_of_two() {
            for _ in 0..PAGE_PLACES {
                let multiple = (from - origin + self.below(to.saturating_sub(from))) / length / 2 * 2 + 1;
                places.insert(origin + multiple * length);
            }
        }
        let mut places: Vec<u64> =
            places.into_iter().filter(|place| place + PAGE_BYTES <= self.usable).collect();
        self.read_around(tests[0], &places, PAGE_BYTES)?;
        for _ in 0..TRIES {
            self.shuffle(&mut places);
            for place in &places {
                self.read(tests[1], *place, place - 512, 512)?;
                self.read(tests[1], *place, *place, 512)?;
            }
        }
        Ok(())
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}
