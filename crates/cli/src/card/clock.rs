//! Clocks of the host for a card that is served: real time, and none.

use floatgate_host::serve::Clock;
use floatgate_mtd::{Instant, Nanos};
use std::time::{Duration, Instant as HostInstant};

/// Rest of a wait in which the host's clock is watched: a sleep ends up to 50 us late (`timerslack_ns`), and the scheduler takes its time.
const WATCHED: Duration = Duration::from_micros(120);

/// The clock of a card that is served `scale` times as fast as a real one.
#[expect(clippy::disallowed_methods, reason = "the edge: a served card lives by the host's clock")]
pub(super) fn clock(base: Instant, scale: f64) -> Box<dyn Clock> {
    if scale == 0.0 {
        Box::new(Unpaced(base))
    } else {
        Box::new(RealTime { start: HostInstant::now(), base, scale })
    }
}

/// The host's clock.
struct RealTime {
    start: HostInstant,
    /// Virtual time at `start`.
    base: Instant,
    /// Virtual seconds in a second.
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

/// The device is always waited for, and nothing takes time between two requests.
struct Unpaced(Instant);

impl Clock for Unpaced {
    fn now(&mut self) -> Instant {
        self.0
    }

    fn wait_until(&mut self, end: Instant) {
        self.0 = self.0.max(end);
    }
}
