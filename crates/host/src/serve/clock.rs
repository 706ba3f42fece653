//! Clocks of the host for a served card: real time, or no waiting.

use super::Clock;
use floatgate_mtd::{Instant, Nanos};
use std::time::{Duration, Instant as HostInstant};

/// End of a wait in which the clock is polled instead of a sleep. A sleep ends up to 50 us late (`timerslack_ns`),
/// and the scheduler adds its own delay.
const WATCHED: Duration = Duration::from_micros(120);

/// Clock of a card that is served `scale` times as fast as a real card.
#[expect(clippy::disallowed_methods, reason = "the edge: a served card lives by the host's clock")]
#[must_use]
pub fn clock(base: Instant, scale: f64) -> Box<dyn Clock> {
    if scale == 0.0 {
        Box::new(Unpaced(base))
    } else {
        Box::new(RealTime { start: HostInstant::now(), base, scale })
    }
}

/// Clock of the host.
struct RealTime {
    start: HostInstant,
    /// Virtual time at `start`.
    base: Instant,
    /// Number of virtual seconds per second.
    scale: f64,
}

impl Clock for RealTime {
    fn now(&mut self) -> Instant {
        let passed = self.start.elapsed().as_secs_f64() * self.scale;
        self.base + Nanos::from_ns((passed * 1e9) as u64)
    }

    fn wait_until(&mut self, end: Instant) {
        let due = Duration::from_secs_f64(end.since(self.base).as_secs_f64() / self.scale);
        loop {
            let left = due.saturating_sub(self.start.elapsed());
            match left.checked_sub(WATCHED) {
                Some(sleep) => std::thread::sleep(sleep),
                None if left.is_zero() => return,
                None => std::hint::spin_loop(),
            }
        }
    }
}

/// Clock without waits: the host waits for each request, and no time passes between two requests.
struct Unpaced(Instant);

impl Clock for Unpaced {
    fn now(&mut self) -> Instant {
        self.0
    }

    fn wait_until(&mut self, end: Instant) {
        self.0 = self.0.max(end);
    }
}
