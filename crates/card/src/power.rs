//! Power supply of a card: current and energy of each operation, a limited supply, sleep, and the hold-up time after removal.
//!
//! The energy of the array is counted per operation; the energy of bus and controller is computed from their working
//! time. A limited supply is a timeline. Each operation reserves the time in which the supply delivers its charge: the
//! charge divided by the current that is available for the array. Operations on several dies therefore slow each other
//! down, and a single operation is stretched if it needs more current than available.

use floatgate_device::Timeline;
use floatgate_device::units;
use floatgate_mtd::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Behaviour of a card that needs more current than the supply delivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overload {
    /// Operations take longer, because charge pumps reach their voltage later.
    #[default]
    Stall,
    /// The voltage breaks down, and the card loses its power.
    Drop,
}

/// Supply of the card, and its currents: `[card.power]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerSpec {
    /// Voltage of the supply, mV.
    pub supply_mv: u32,
    /// Current while the card sleeps, uA.
    pub sleep_ua: u32,
    /// Current while the card waits for a request, uA.
    pub idle_ua: u32,
    /// Current of the controller while it handles a request, uA.
    pub controller_ua: u32,
    /// Current of the interface during a transfer, in addition to `controller_ua`, uA.
    pub bus_ua: u32,
    /// Current of a die during a read, uA.
    pub read_ua: u32,
    /// Current of a die during a program, uA.
    pub program_ua: u32,
    /// Current of a die during an erase, uA.
    pub erase_ua: u32,
    /// Largest current that the supply delivers, uA; 0 for no limit.
    pub limit_ua: u32,
    /// Behaviour of a card that needs more current than the limit.
    pub overload: Overload,
    /// Time that the card still works after it is pulled out, us: its supply pins are longer, and capacitors hold
    /// some charge.
    #[serde(with = "units::us")]
    pub hold_up_us: Nanos,
    /// Time without requests after which the card sleeps, us; 0 for a card that never sleeps.
    #[serde(with = "units::us")]
    pub sleep_after_us: Nanos,
    /// Time to wake up from sleep, us.
    #[serde(with = "units::us")]
    pub wake_us: Nanos,
}

impl Default for PowerSpec {
    /// Usual currents of raw NAND at 3.3 V. The currents of the controller are assumptions.
    fn default() -> Self {
        Self {
            supply_mv: 3300,
            sleep_ua: 200,
            idle_ua: 1000,
            controller_ua: 30000,
            bus_ua: 20000,
            read_ua: 25000,
            program_ua: 25000,
            erase_ua: 25000,
            limit_ua: 0,
            overload: Overload::Stall,
            hold_up_us: Nanos::from_us(3000),
            sleep_after_us: Nanos::from_us(0),
            wake_us: Nanos::from_us(0),
        }
    }
}

/// Maximum current of a part of the card, uA. A card may draw 2.88 W (SD Physical Layer, chapter 6.6.1).
const CURRENT_MAX: u32 = 1_000_000;

/// Maximum factor by which a limit may stretch an operation. The sum of longer operations would not fit into 64 bits.
const STRETCH_MAX: u32 = 1000;

/// Maximum hold-up time and wake-up time.
const LONGEST: Nanos = Nanos::from_ms(10_000);

impl PowerSpec {
    /// Current of controller and interface, uA. A limit does not reduce it.
    const fn base_ua(&self) -> u32 {
        self.controller_ua.saturating_add(self.bus_ua)
    }

    /// Current of a limited supply that is available for the array, uA.
    const fn left_ua(&self) -> u32 {
        self.limit_ua.saturating_sub(self.base_ua())
    }

    /// Maximum factor by which a limit makes operations on this number of dies longer.
    pub(crate) fn stretch_max(&self, dies: u32) -> u32 {
        match (self.limit_ua, self.overload) {
            (1.., Overload::Stall) => {
                self.array_ua().saturating_mul(dies).div_ceil(self.left_ua().max(1)).max(1)
            }
            _ => 1,
        }
    }

    fn array_ua(&self) -> u32 {
        self.read_ua.max(self.program_ua).max(self.erase_ua)
    }

    pub(crate) fn rules(&self) -> [(bool, &'static str, &'static str); 6] {
        let currents = [self.sleep_ua, self.idle_ua, self.controller_ua, self.bus_ua, self.array_ua()];
        [
            ((1..=20_000).contains(&self.supply_mv), "power.supply_mv", "from 1 to 20000 mV"),
            (currents.iter().all(|ua| *ua <= CURRENT_MAX), "power", "at most 1 A each"),
            (
                self.limit_ua == 0 || self.left_ua() > 0,
                "power.limit_ua",
                "must be more than `power.controller_ua` and `power.bus_ua` together: the card does not start",
            ),
            (
                self.limit_ua == 0 || self.left_ua() >= self.array_ua().div_ceil(STRETCH_MAX),
                "power.limit_ua",
                "leaves less than a thousandth of what an operation of the array needs",
            ),
            (self.hold_up_us <= LONGEST, "power.hold_up_us", "at most 10 s"),
            (self.wake_us <= LONGEST, "power.wake_us", "at most 10 s"),
        ]
    }

    /// Energy of a current during a time, nJ.
    fn energy_nj(&self, ua: u32, time: Nanos) -> u64 {
        // mV * uA is nW; nW * ns is 10^-9 nJ.
        let power_nw = u128::from(self.supply_mv) * u128::from(ua);
        u64::try_from(power_nw * u128::from(time.as_ns()) / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

/// Energy that a card has used since its creation, nJ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CardEnergy {
    /// Energy of reads, programs and erases of the NAND, nJ.
    pub array_nj: u64,
    /// Energy of transfers on the interface, nJ.
    pub bus_nj: u64,
    /// Energy of the controller during requests, nJ.
    pub controller_nj: u64,
    /// Energy while the card waits for requests, nJ.
    pub idle_nj: u64,
    /// Energy while the card sleeps, nJ.
    pub sleep_nj: u64,
}

impl CardEnergy {
    /// Total energy, nJ.
    pub const fn total_nj(&self) -> u64 {
        self.array_nj + self.bus_nj + self.controller_nj + self.idle_nj + self.sleep_nj
    }
}

/// Times of a card by consumer of current.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) bus: Nanos,
    pub(crate) busy: Nanos,
    pub(crate) idle: Nanos,
    pub(crate) asleep: Nanos,
}

/// Operation of the array that draws current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    Read,
    SlcRead,
    Program,
    SlcProgram,
    /// Erase of a block on all dies.
    Erase,
}

/// The supply of the array.
#[derive(Clone, Debug)]
pub(crate) struct Supply {
    spec: PowerSpec,
    /// Costs by [`Draw`]: energy in nJ, time in which a limited supply delivers the charge, and current in uA.
    costs: [(u64, Nanos, u32); 5],
    /// Number of operations by [`Draw`].
    operations: [u64; 5],
    drawn_nj: u64,
    limited: Timeline,
}

impl Supply {
    /// Creates the supply for operations with these `times` by [`Draw`]. An erase draws the current of all `dies`.
    pub(crate) fn new(spec: PowerSpec, times: [Nanos; 5], dies: u32) -> Self {
        let currents = [
            spec.read_ua,
            spec.read_ua,
            spec.program_ua,
            spec.program_ua,
            spec.erase_ua.saturating_mul(dies),
        ];
        let cost = |(ua, time): (u32, Nanos)| {
            let charge = u128::from(ua) * u128::from(time.as_ns());
            let delivered = charge / u128::from(spec.left_ua().max(1));
            (spec.energy_nj(ua, time), Nanos::from_ns(u64::try_from(delivered).unwrap_or(u64::MAX)), ua)
        };
        let mut costs = [(0, Nanos::ZERO, 0); 5];
        for (place, of) in costs.iter_mut().zip(currents.into_iter().zip(times)) {
            *place = cost(of);
        }
        Self { spec, costs, operations: [0; 5], drawn_nj: 0, limited: Timeline::default() }
    }

    /// Counts operations of a kind.
    #[inline]
    pub(crate) const fn draw(&mut self, what: Draw, times: u64) {
        self.operations[what as usize] += times;
        self.drawn_nj += self.costs[what as usize].0 * times;
    }

    /// True if the supply is limited: an operation may take longer, or the voltage may break down.
    #[inline]
    pub(crate) const fn is_limited(&self) -> bool {
        self.spec.limit_ua > 0
    }

    /// End of an operation on a limited supply, and true if the voltage breaks down. `busy` is the number of dies that work at its
    /// start, including its own.
    pub(crate) fn limit(
        &mut self,
        what: Draw,
        (start, end): (Instant, Instant),
        times: u64,
        busy: u32,
    ) -> (Instant, bool) {
        let (_, charge, ua) = self.costs[what as usize];
        match self.spec.overload {
            Overload::Stall => (end.max(self.limited.reserve(start, charge * times).1), false),
            Overload::Drop => {
                let array = ua.max(self.spec.array_ua().saturating_mul(busy));
                (end, self.spec.base_ua().saturating_add(array) > self.spec.limit_ua)
            }
        }
    }

    /// Resets the timeline of the supply at power-on.
    pub(crate) fn restart(&mut self) {
        self.limited = Timeline::default();
    }

    /// Energy of the whole card; `times` are the working times of all parts except the array.
    pub(crate) fn energy(&self, times: Times) -> CardEnergy {
        CardEnergy {
            array_nj: self.drawn_nj,
            bus_nj: self.spec.energy_nj(self.spec.bus_ua, times.bus),
            controller_nj: self.spec.energy_nj(self.spec.controller_ua, times.busy),
            idle_nj: self.spec.energy_nj(self.spec.idle_ua, times.idle),
            sleep_nj: self.spec.energy_nj(self.spec.sleep_ua, times.asleep),
        }
    }

    /// Checks energy and operations against the counts of the NAND: reads (including retries), programs and erases.
    pub(crate) fn check(&self, reads: u64, programs: u64, erases: u64) -> Result<(), String> {
        let [read, slc_read, program, slc_program, erase] = self.operations;
        let drawn = [read + slc_read, program + slc_program, erase];
        if drawn != [reads, programs, erases] {
            return Err(format!("{drawn:?} operations took energy of {:?}", [reads, programs, erases]));
        }
        let expected: u64 = self.costs.iter().zip(self.operations).map(|((nj, ..), count)| nj * count).sum();
        if expected == self.drawn_nj {
            return Ok(());
        }
        Err(format!("{} nJ were drawn by operations of {expected} nJ", self.drawn_nj))
    }
}
