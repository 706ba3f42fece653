//! A simulated device as a [`Target`].

use floatgate_host::{Target, TargetError};
use floatgate_mtd::random::{Random, hash};
use floatgate_mtd::{BlockDevice, Instant, Nanos, Phase, SECTOR_BYTES};

/// Timing noise of a host and a card, drawn from a seed.
///
/// In logs of real cards (flashbench, wirenboard/sdcard_benchmark), means over seven positions of minima over eight
/// tries differ by 1 % from row to row. So positions themselves differ, which no repetition removes. Single values take
/// some milliseconds longer.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Seed of all draws.
    pub seed: u64,
    /// Factor of the noise: 1 as on real cards, 0 for none.
    pub scale: f64,
}

/// Standard deviation of a request's time without the bus, and of the time of a position, as a share of it.
const JITTER: f64 = 0.01;
/// Mean delay by interrupts and scheduling, ns.
const DELAY_NS: f64 = 5_000.0;
/// Share of requests that take some milliseconds more.
const OUTLIERS: f64 = 0.005;
/// Mean extra time of these requests, ns.
const OUTLIER_NS: f64 = 3e6;

impl Noise {
    /// Noisy time of a request in ns; `clocked` of its `ns` are bus time, which is as exact as the clock.
    fn noisy_time(&self, request: u64, position: u64, ns: u64, clocked: u64) -> u64 {
        let mut chance = Random::new(hash(self.seed, request, 1));
        let mut place = Random::new(hash(self.seed, position, 2));
        let time = ns as f64;
        let share = JITTER * self.scale * (chance.normal() + place.normal());
        let is_outlier = chance.unit() < OUTLIERS * self.scale;
        let outlier = if is_outlier { OUTLIER_NS * chance.exponential() } else { 0.0 };
        let jittering = ns.saturating_sub(clocked) as f64;
        (time + jittering * share + self.scale * (DELAY_NS * chance.exponential() + outlier)).max(1.0) as u64
    }
}

/// A simulated device in virtual time.
#[derive(Clone, Debug)]
pub struct Simulated<D> {
    device: D,
    now: Instant,
    noise: Option<Noise>,
    requests: u64,
    /// Total bus time of all requests so far, ns.
    clocked: u64,
}

impl<D: BlockDevice> Simulated<D> {
    /// Wraps `device` at virtual time zero.
    pub const fn new(device: D, noise: Option<Noise>) -> Self {
        Self { device, now: Instant::ZERO, noise, requests: 0, clocked: 0 }
    }

    /// Current virtual time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The simulated device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Ends the current request at time `end`. Returns its measured time, ns.
    fn took(&mut self, position: u64, end: Instant) -> u64 {
        let ns = end.since(self.now).as_ns();
        let clocked = self.device.breakdown()[Phase::Data].as_ns();
        let clocked = clocked - std::mem::replace(&mut self.clocked, clocked);
        let measured = self.noise.map_or(ns, |noise| noise.noisy_time(self.requests, position, ns, clocked));
        self.requests += 1;
        self.now = end.max(self.now + Nanos::from_ns(measured));
        measured
    }
}

fn failed(operation: &'static str, position: u64, bytes: usize, error: &impl ToString) -> TargetError {
    TargetError { operation, position, bytes: bytes as u64, reason: error.to_string() }
}

impl<D: BlockDevice> Target for Simulated<D> {
    fn capacity(&self) -> u64 {
        self.device.capacity() * SECTOR_BYTES as u64
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        let end = self.device.read(self.now, position / SECTOR_BYTES as u64, buf);
        let end = end.map_err(|error| failed("read", position, buf.len(), &error))?;
        Ok(self.took(position, end))
    }

    fn write(&mut self, position: u64, data: &[u8]) -> Result<u64, TargetError> {
        let end = self.device.write(self.now, position / SECTOR_BYTES as u64, data);
        let end = end.map_err(|error| failed("write", position, data.len(), &error))?;
        Ok(self.took(position, end))
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        let end = self.device.flush(self.now).map_err(|error| failed("flush", 0, 0, &error))?;
        Ok(self.took(0, end))
    }

    fn idle(&mut self, ns: u64) {
        self.now += Nanos::from_ns(ns);
    }

    fn clock_ns(&self) -> u64 {
        self.now.since(Instant::ZERO).as_ns()
    }
}
