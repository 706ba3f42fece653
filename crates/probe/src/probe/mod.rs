//! Order of the requests. The analysis of the samples so far decides which test runs next.

mod behind_cache;
mod capacity;
mod classes;
mod closing;
mod pairs;
mod reads;
mod train;
mod turns;
mod writes;

use crate::sample::{Cost, Kind, Sample, Samples, Test};
use floatgate_host::disk::CAPACITY_MIN;
use floatgate_host::saved::FolderError;
use floatgate_host::{Target, TargetError};
use floatgate_mtd::random::Random;
use floatgate_mtd::size::text as size;

pub use writes::WritePlan;

/// Reason for an early end of a probe. The samples so far are kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Interrupted by the caller.
    #[error("interrupted")]
    Interrupted,
    /// The write ranges were not confirmed.
    #[error("not agreed to be overwritten")]
    NotAgreed,
    /// The time or write limit is reached.
    #[error("{reached}: the rest is not measured")]
    Limit {
        /// Description of the limit.
        reached: String,
    },
    /// There is no room to save the data that would be overwritten.
    #[error("{0}; nothing was written")]
    Folder(#[from] FolderError),
    /// The device failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A write outside the announced ranges.
    #[error("a write of {bytes} bytes at byte {position} was not announced")]
    NotAnnounced {
        /// First byte.
        position: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// The device is too small for the tests.
    #[error("a device of {capacity} bytes is too small to be probed: at least {least} bytes are needed")]
    TooSmall {
        /// Size of the device in bytes.
        capacity: u64,
        /// Required size in bytes.
        least: u64,
    },
}

/// Options of a probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeOptions {
    /// Seed for the order and the positions of requests.
    pub seed: u64,
    /// Size of the probed range from the beginning of the device if the rest is known not to exist; 0 for the whole
    /// device.
    pub usable_bytes: u64,
    /// Limits of a probe of a real device.
    pub limits: Option<Limits>,
}

/// Limits after which a probe ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time, ns, including saving and restoring overwritten data.
    pub ns: u64,
    /// Bytes written, including restored data.
    pub bytes: u64,
}

impl Limits {
    /// Limits for a run of `minutes`, with 2 GiB for each ten minutes.
    pub const fn of_minutes(minutes: u64) -> Self {
        let tens = if minutes < 10 { 1 } else { minutes / 10 };
        Self { ns: minutes.saturating_mul(60_000_000_000), bytes: tens.saturating_mul(2 << 30) }
    }

    fn out_of_time(self) -> ProbeError {
        let minutes = (self.ns as f64 / 6e10 * 10.0).round() / 10.0;
        ProbeError::Limit { reached: format!("with restoring, the limit of {minutes} minutes is reached") }
    }
}

/// Longest request, B.
const REQUEST_MAX: usize = 1 << 20;
/// Bytes that are saved between two checks for an interruption.
const KEEP_BYTES: usize = 8 << 20;

/// A target whose requests are counted. Saving and restoring data does not count.
struct Metered<'a, T> {
    target: &'a mut T,
    /// Clock of the target at the start of the probe, ns, moved forward by all time that does not count.
    began_ns: u64,
    cost: Cost,
    /// Time of writes and flushes, ns.
    writing_ns: u64,
}

impl<T: Target> Metered<'_, T> {
    /// Time since the probe began plus the estimated time to restore the saved data, ns. Restoring is assumed to take
    /// 1.5 times as long as other writes, because a cache may be full by then.
    fn ns_with_restoring(&self) -> u64 {
        let (bytes, ns) = (u128::from(self.target.kept_bytes()), u128::from(self.writing_ns));
        let restoring = bytes * ns * 3 / 2 / u128::from(self.cost.written_bytes.max(1));
        let elapsed = self.target.clock_ns().saturating_sub(self.began_ns);
        elapsed.saturating_add(u64::try_from(restoring).unwrap_or(u64::MAX))
    }

    /// Number of bytes that can be saved, written and restored at the speed of earlier writes in half of the remaining
    /// time.
    fn affordable_bytes(&self, limits: Limits) -> u64 {
        let left = u128::from(limits.ns.saturating_sub(self.ns_with_restoring()));
        let bytes =
            (left / 2 * u128::from(self.cost.written_bytes)).checked_div(3 * u128::from(self.writing_ns));
        bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX)
    }

    /// Error for a limit that is reached.
    fn reached(&self, limits: Limits) -> Option<ProbeError> {
        let bytes = self.cost.written_bytes.saturating_add(self.target.kept_bytes());
        match () {
            () if self.ns_with_restoring() > limits.ns => Some(limits.out_of_time()),
            () if bytes > limits.bytes => {
                let reached =
                    format!("with restoring, the limit of {} written is reached", size(limits.bytes));
                Some(ProbeError::Limit { reached })
            }
            () => None,
        }
    }
}

impl<T: Target> Target for Metered<'_, T> {
    fn capacity(&self) -> u64 {
        self.target.capacity()
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        let ns = self.target.read(position, buf)?;
        self.cost += Cost { ns, read_bytes: buf.len() as u64, written_bytes: 0 };
        Ok(ns)
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        let ns = self.target.write(position, data)?;
        self.writing_ns += ns;
        self.cost += Cost { ns, read_bytes: 0, written_bytes: data.len() as u64 };
        Ok(ns)
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        let ns = self.target.flush()?;
        self.writing_ns += ns;
        self.cost += Cost { ns, ..Cost::default() };
        Ok(ns)
    }

    fn idle(&mut self, ns: u64) {
        self.target.idle(ns);
        self.cost += Cost { ns, ..Cost::default() };
    }

    fn clock_ns(&self) -> u64 {
        self.target.clock_ns()
    }

    fn keep(&mut self, position: u64, bytes: u64) -> Result<(), TargetError> {
        self.target.keep(position, bytes)
    }
}

/// Callback that receives the question before each request and returns true to end the probe.
type Watch<'a> = Box<dyn FnMut(&'static str) -> bool + 'a>;

/// A probe of a device.
pub struct Probe<'a, T> {
    target: Metered<'a, T>,
    samples: Samples,
    usable: u64,
    chance: Random,
    buf: Vec<u8>,
    watch: Watch<'a>,
    question: &'static str,
    plan: WritePlan,
    limits: Option<Limits>,
}

impl<'a, T: Target> Probe<'a, T> {
    /// Creates a probe that has not sent a request yet.
    pub fn new(target: &'a mut T, options: ProbeOptions) -> Self {
        let capacity = target.capacity();
        let samples = Samples { capacity, is_image: target.is_image(), ..Samples::default() };
        let usable = if options.usable_bytes == 0 { capacity } else { options.usable_bytes.min(capacity) };
        Self {
            target: Metered { began_ns: target.clock_ns(), target, cost: Cost::default(), writing_ns: 0 },
            samples,
            usable,
            chance: Random::new(options.seed),
            buf: vec![0x5A; REQUEST_MAX],
            watch: Box::new(|_| false),
            question: "",
            plan: WritePlan::default(),
            limits: options.limits,
        }
    }

    /// Sets a callback that receives the question as text before each request; the probe ends when it returns true.
    #[must_use]
    pub fn watched(mut self, watch: impl FnMut(&'static str) -> bool + 'a) -> Self {
        self.watch = Box::new(watch);
        self
    }

    /// Runs other code whose time does not count towards the limits.
    pub fn pause<R>(&mut self, other: impl FnOnce() -> R) -> R {
        let before = self.target.clock_ns();
        let done = other();
        self.target.began_ns += self.target.clock_ns() - before;
        done
    }

    /// Excludes the range beyond the real end of a fake from all further tests.
    pub fn limit(&mut self, usable_bytes: u64) {
        self.usable = self.usable.min(usable_bytes / 512 * 512);
    }

    /// All requests so far.
    pub const fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Ends the probe and returns its requests and their total cost.
    pub fn into_samples(self) -> Samples {
        Samples { cost: self.target.cost, ..self.samples }
    }

    fn check_size(&self) -> Result<(), ProbeError> {
        match self.usable {
            capacity if capacity < CAPACITY_MIN => {
                Err(ProbeError::TooSmall { capacity, least: CAPACITY_MIN })
            }
            _ => Ok(()),
        }
    }

    fn ask(&mut self, question: &'static str) {
        self.question = question;
    }

    fn check_stop(&mut self) -> Result<(), ProbeError> {
        if (self.watch)(self.question) {
            return Err(ProbeError::Interrupted);
        }
        self.limits.and_then(|limits| self.target.reached(limits)).map_or(Ok(()), Err)
    }

    /// Saves a range in pieces, between which the probe can be interrupted.
    fn keep(&mut self, position: u64, bytes: u64) -> Result<(), ProbeError> {
        for start in (0..bytes).step_by(KEEP_BYTES) {
            self.check_stop()?;
            self.target.keep(position + start, (bytes - start).min(KEEP_BYTES as u64))?;
        }
        Ok(())
    }

    fn keep_sample(&mut self, sample: Sample) -> u64 {
        self.samples.all.push(sample);
        sample.ns
    }

    /// Reads into the buffer and adds a sample.
    fn read(&mut self, test: Test, about: u64, position: u64, bytes: u64) -> Result<u64, ProbeError> {
        self.check_stop()?;
        let ns = self.target.read(position, &mut self.buf[..bytes as usize])?;
        Ok(self.keep_sample(Sample { test, about, kind: Kind::Read, position, bytes, ns, found: None }))
    }

    /// Writes the buffer as it is and adds a sample.
    fn write(&mut self, test: Test, about: u64, position: u64, bytes: u64) -> Result<u64, ProbeError> {
        self.check_stop()?;
        if !self.plan.covers(position, bytes) {
            return Err(ProbeError::NotAnnounced { position, bytes });
        }
        let ns = self.target.write(position, &self.buf[..bytes as usize])?;
        Ok(self.keep_sample(Sample { test, about, kind: Kind::Write, position, bytes, ns, found: None }))
    }

    /// A random number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.chance.bits() % limit.max(1)
    }

    fn shuffle<A>(&mut self, all: &mut [A]) {
        for place in (1..all.len()).rev() {
            let other = self.below(place as u64 + 1) as usize;
            all.swap(place, other);
        }
    }
}
