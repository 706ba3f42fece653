//! The interval of a simulated figure: where 8 of 10 boards of this kind would be.
//!
//! Each part of the time is uncertain by itself: the array by the range from typical to maximum that the data sheet states,
//! software and controller by how sure the profiles are of their costs. The wires are exact, but software
//! that was not measured may keep them waiting. The errors add up as squares do. Twelve numbers say how wide
//! they are. They were chosen by looking at the rows of `papers boards` and `papers unfitted`, and
//! `floatgate papers` counts how many of those the intervals hold (docs/fidelity.md).

use crate::certainty::{self, Heads};
use crate::fs_compare::{Row, Subject};
use crate::papers::Operation;
use crate::speed::{Measured, Test};
use floatgate_config::{Config, ConfigError, Library};
use floatgate_device::spec::ChipSpec;
use floatgate_device::units::TypMaxUs;
use floatgate_mtd::{Breakdown, Nanos, Phase};
use serde::{Deserialize, Serialize};

/// An 80 % interval, in the unit of its figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    #[serde(rename = "interval_min")]
    pub min: f64,
    /// Upper end.
    #[serde(rename = "interval_max")]
    pub max: f64,
}

impl Interval {
    /// True when a figure lies inside.
    pub fn holds(&self, figure: f64) -> bool {
        (self.min..=self.max).contains(&figure)
    }

    /// The same of a figure that is `scale` times this one, or over it with `inverse`.
    pub(crate) fn scaled(&self, scale: f64, inverse: bool) -> Self {
        if inverse {
            return Self { min: scale / self.max, max: scale / self.min };
        }
        Self { min: self.min * scale, max: self.max * scale }
    }

    /// Half of the width over the middle.
    pub fn half_width(&self) -> f64 {
        (self.max - self.min) / (self.max + self.min)
    }
}

/// Errors of array times.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// Share by which a time is shorter than typical, at least.
    less: f64,
    /// Share of the way from the typical to the maximum time, at most.
    towards_max: f64,
}

/// Reads of all chips.
const READ: Spread = Spread { less: 0.15, towards_max: 0.4 };

/// Programs of NAND.
const NAND_PROGRAM: Spread = Spread { less: 0.25, towards_max: 0.4 };

/// Programs of NOR: what data sheets call typical is long.
const NOR_PROGRAM: Spread = Spread { less: 0.5, towards_max: 0.4 };

/// Erases: what data sheets call typical is long, and depends on contents and wear.
const ERASE: Spread = Spread { less: 0.7, towards_max: 0.6 };

/// The code of a filesystem and of UBI, of which only codecs, checksums and copies are counted, adds up to that share to a time that is
/// known otherwise.
const FILESYSTEM_KNOWN: f64 = 0.35;

/// The same where nothing is known of the software.
const FILESYSTEM_UNKNOWN: f64 = 1.1;

/// Costs that were fitted to one board are off by that share on its other rows.
const SOFTWARE_KNOWN: f64 = 0.25;

/// A cost without any evidence is off by that factor less 1. In between it follows from the confidence of the
/// least sure.
const SOFTWARE_UNKNOWN: f64 = 1.8;

/// Standard deviations on either side of the mean of a normal distribution that hold 80 %.
pub(crate) const OF_80_PERCENT: f64 = 1.2816;

/// Relative error of a time to either side.
#[derive(Clone, Copy, Debug)]
struct Error {
    less: f64,
    more: f64,
}

impl Error {
    fn of_array(times: TypMaxUs, spread: Spread) -> Self {
        let more = (times.max.as_us_f64() / times.typ.as_us_f64().max(1e-3) - 1.0) * spread.towards_max;
        Self { less: spread.less, more: more.max(READ.less) }
    }

    /// A factor to either side.
    fn of_factor(above_one: f64) -> Self {
        Self { less: above_one / (1.0 + above_one), more: above_one }
    }
}

/// Uncertainty of the times of a setup.
#[derive(Clone, Copy, Debug)]
pub struct Uncertainty {
    read: Error,
    program: Error,
    erase: Error,
    software: Error,
    /// Share of software and controller that is not known, 0 to 1.
    unknown: f64,
}

impl Uncertainty {
    /// Uncertainty of a setup's chip, controller and host.
    ///
    /// # Errors
    /// A chip that makes no sense, or a file that cannot be read.
    pub fn of(library: &Library, config: &Config) -> Result<Self, ConfigError> {
        Self::with_heads(library, &Heads::default(), config)
    }

    /// The same with the heads of files that were read before.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn with_heads(library: &Library, heads: &Heads, config: &Config) -> Result<Self, ConfigError> {
        let [read, program, erase] = array_times(&config.chip()?);
        let program_spread = if config.chip_kind()?.is_nand() { NAND_PROGRAM } else { NOR_PROGRAM };
        let is_unmeasured = config.extract::<bool>("host.unmeasured").unwrap_or(false);
        let sure = if is_unmeasured { 0.0 } else { certainty::of_costs(library, heads, config)? };
        let off = SOFTWARE_KNOWN + (SOFTWARE_UNKNOWN - SOFTWARE_KNOWN) * (1.0 - sure);
        Ok(Self {
            read: Error::of_array(read, READ),
            program: Error::of_array(program, program_spread),
            erase: Error::of_array(erase, ERASE),
            software: Error::of_factor(off),
            unknown: 1.0 - sure,
        })
    }

    /// Standard deviation of the logarithm of a cost of software and controller.
    pub(crate) fn software_deviation(&self) -> f64 {
        self.software.more.ln_1p() / OF_80_PERCENT
    }

    /// Standard deviations of the array time of an operation below and above the typical one, as shares of it.
    pub(crate) fn array_spread(&self, operation: Operation) -> (f64, f64) {
        let error = match operation {
            Operation::Read => self.read,
            Operation::Erase => self.erase,
            Operation::Program | Operation::Attach | Operation::Other => self.program,
        };
        (error.less / OF_80_PERCENT, error.more / OF_80_PERCENT)
    }

    /// Interval of the figure of a test: KiB/s, or ms where no bytes are moved.
    pub fn interval(&self, test: &Measured) -> Interval {
        let array = match Test::from_name(&test.name) {
            Some(Test::Read(_)) => self.read,
            Some(Test::Erase(_)) => self.erase,
            // A filesystem's time is made of all three, programs above all.
            Some(Test::Write(_)) | None => self.program,
        };
        let is_of_flash = Test::from_name(&test.name).is_some();
        let (least, most) = self.times(array, &test.breakdown_ns, self.code(!is_of_flash));
        if test.bytes == 0 {
            return Interval { min: least / 1e6, max: most / 1e6 };
        }
        let speed = |ns: f64| test.bytes as f64 / 1024.0 * 1e9 / ns.max(1.0);
        Interval { min: speed(most), max: speed(least) }
    }

    /// Interval of a row of `floatgate fs`: a time or a speed; none of a size.
    pub fn interval_of_row(&self, row: &Row) -> Option<Interval> {
        let array = if row.flash.programmed_bytes == 0 { self.read } else { self.program };
        let is_raw = matches!(row.subject, Subject::Mtdblock | Subject::Mtdchar);
        let (least, most) = self.times(array, &row.breakdown_ns, self.code(!is_raw));
        let total = row.breakdown_ns.total().as_ns() as f64;
        let is_time = row.unit == "s";
        if total == 0.0 || row.ns == 0 {
            return None;
        }
        let (min, max) = if is_time { (least / total, most / total) } else { (total / most, total / least) };
        Some(Interval { min: row.value * min, max: row.value * max })
    }

    /// Error of a whole time by code of filesystems that is not counted.
    fn code(&self, is_of_filesystem: bool) -> Error {
        let off = FILESYSTEM_KNOWN + (FILESYSTEM_UNKNOWN - FILESYSTEM_KNOWN) * self.unknown;
        Error::of_factor(if is_of_filesystem { off } else { 0.0 })
    }

    /// The shortest and the longest time with this breakdown, ns.
    fn times(&self, array: Error, spent: &Breakdown, code: Error) -> (f64, f64) {
        let ns = |phase: Phase| spent[phase].as_ns() as f64;
        let software: f64 = [Phase::Ecc, Phase::Controller, Phase::Cpu, Phase::Polling].map(ns).iter().sum();
        // Software that nobody measured may also be a cost that is missing here: one of each byte, as its time on the wires is.
        let missing = ns(Phase::Data) * self.unknown;
        let total = spent.total().as_ns() as f64;
        let off = |array: f64, software: f64| array.hypot(software);
        let less = off(ns(Phase::Array) * array.less, software * self.software.less).hypot(total * code.less);
        let more = off(ns(Phase::Array) * array.more, (software + missing) * self.software.more)
            .hypot(total * code.more);
        (total - less, total + more)
    }
}

/// Times of a read, a program and an erase. A read that the data sheet bounds only at the top is taken as that.
fn array_times(chip: &ChipSpec) -> [TypMaxUs; 3] {
    let exact = |time: Nanos| TypMaxUs { typ: time, max: time };
    match chip {
        ChipSpec::SpiNand(spec) => {
            let t = &spec.timing;
            [exact(if spec.ecc.on_die { t.t_rd_ecc_us } else { t.t_rd_us }), t.t_prog_us, t.t_bers_us]
        }
        ChipSpec::RawNand(spec) => {
            let t = &spec.timing;
            [t.t_r_us, t.t_prog_us, t.t_bers_us]
        }
        ChipSpec::SpiNor(spec) => {
            let largest = spec.erase.values().max_by_key(|erase| erase.bytes);
            let erase = largest.map_or(spec.timing.t_ce_us, |erase| erase.t_us);
            [exact(Nanos::ZERO), spec.timing.t_pp_us, erase]
        }
        ChipSpec::ParallelNor(spec) => {
            let t = &spec.timing;
            [exact(Nanos::ZERO), t.t_word_us, t.t_bers_us]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::SpeedOptions;
    use crate::speed_run;
    use floatgate_config::Override;
    use floatgate_sim::rig::RigOptions;

    fn half_width(setup: &str, sets: &[&str], test: Test) -> f64 {
        let library = Library::built_in();
        let config =
            library.resolve(&library.setup(setup).unwrap(), &Override::parse_all(sets).unwrap()).unwrap();
        let options = SpeedOptions { blocks: Some(1), only: vec![test], ..SpeedOptions::default() };
        let run = speed_run::measure(&library, &config, RigOptions::default(), &options).unwrap();
        let run = run.with_intervals(&library, &config).unwrap();
        let measured = run.report.tests.first().unwrap();
        let interval = measured.interval.unwrap();
        assert!(interval.holds(measured.exact_kib_s), "{interval:?}");
        interval.half_width()
    }

    /// Wires make an interval narrow, a program with a high maximum and software that was not measured make it wide.
    #[test]
    fn intervals_are_as_wide_as_their_parts_are_uncertain() {
        let board = "imx6-mx30lf2g18ac";
        let slow = half_width(board, &["bus.interface=sdr0"], Test::Read(0));
        let fast = half_width(board, &[], Test::Read(0));
        assert!(slow < fast, "{slow} {fast}");
        assert!(
            half_width(board, &["chip.timing.t_prog_us.max=2000"], Test::Write(0))
                > half_width(board, &[], Test::Write(0))
        );
        let given = ["host.call_us=1", "host.page_us=6", "host.copy_ns_per_kb=300", "host.wakeup_us=10"];
        assert!(half_width(board, &given, Test::Read(1)) <= half_width(board, &[], Test::Read(1)));
    }
}
