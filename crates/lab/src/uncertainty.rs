//! Interval of a simulated figure that should contain the figures of 8 of 10 boards of this kind.
//!
//! Each part of the time has its own uncertainty. For the array it follows from the typical and maximum times of the
//! data sheet, for software and controller from the confidence of their profiles. The bus time is exact, but unmeasured
//! software may delay it. The errors add up as squares. Twelve numbers determine their widths. Those of erases are the
//! 80 % prediction interval of ten measured chips. The others were chosen from the rows of `papers boards` and `papers
//! unfitted`. `floatgate papers` counts how many of those rows the intervals contain (docs/fidelity.md).

use crate::certainty::{self, Heads};
pub use crate::interval::Interval;
use crate::operation::Operation;
use crate::speed::{Measured, Test};
use floatgate_config::{Config, ConfigError, Library};
use floatgate_device::spec::ChipSpec;
use floatgate_device::units::TypMaxUs;
use floatgate_mtd::{Breakdown, Nanos, Phase};

/// Relative errors of array times.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// Share by which a time may be shorter than typical.
    less: f64,
    /// Share of the difference between typical and maximum time by which a time may be longer than typical.
    towards_max: f64,
}

/// Errors of reads of all chips.
const READ: Spread = Spread { less: 0.15, towards_max: 0.4 };

/// Errors of programs of NAND.
const NAND_PROGRAM: Spread = Spread { less: 0.25, towards_max: 0.4 };

/// Errors of programs of NOR: typical times in data sheets are long.
const NOR_PROGRAM: Spread = Spread { less: 0.5, towards_max: 0.4 };

/// Shortest and longest erase time of the 80 % interval, as multiples of the typical time. Measured over typical times of
/// ten chips have a geometric mean of 0.77, and their logarithms a standard deviation of 0.72 (docs/fidelity.md). The
/// interval for an eleventh chip follows from these two by Student's distribution.
const ERASE: (f64, f64) = (0.27, 2.17);

/// Error of a total time with a filesystem, as a ratio, if the software costs are known. Only codecs, checksums and
/// copies of the code of the filesystem and UBI are counted.
const FILESYSTEM_KNOWN: f64 = 0.35;

/// The same error if nothing is known about the software costs.
const FILESYSTEM_UNKNOWN: f64 = 1.1;

/// Relative error of costs that were fitted to one board, on that board's other rows.
const SOFTWARE_KNOWN: f64 = 0.25;

/// Relative error of a cost without any evidence: a factor minus 1. Between these two, the error follows from the
/// lowest confidence of the costs. With 2.4, the intervals would have contained the reads of 80 % of the boards of the blind
/// test (docs/fidelity.md).
const SOFTWARE_UNKNOWN: f64 = 2.4;

/// The same error as the spread that `fit` assumes before it has seen a row.
const SOFTWARE_PRIOR: f64 = 1.8;

/// Number of standard deviations on either side of the mean that contain 80 % of a normal distribution.
pub(crate) const OF_80_PERCENT: f64 = 1.2816;

/// Relative error of a time, downwards and upwards.
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

    /// Error of an erase. The data sheet's maximum limits it.
    fn of_erase(times: TypMaxUs) -> Self {
        let most = times.max.as_us_f64() / times.typ.as_us_f64().max(1e-3);
        Self { less: 1.0 - ERASE.0, more: (ERASE.1.min(most) - 1.0).max(READ.less) }
    }

    /// Error of a factor in both directions.
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
    /// Factor of the costs of software and controller, minus 1, that `fit` assumes.
    prior: f64,
    /// Share of the costs of software and controller that is unknown, 0 to 1.
    unknown: f64,
}

impl Uncertainty {
    /// Uncertainty of a setup's chip, controller and host.
    ///
    /// # Errors
    /// An invalid chip; a file that cannot be read.
    pub fn of(library: &Library, config: &Config) -> Result<Self, ConfigError> {
        Self::with_heads(library, &Heads::default(), config)
    }

    /// Uncertainty like [`Self::of`], with a cache of the heads of files.
    ///
    /// # Errors
    /// The errors of [`Self::of`].
    pub fn with_heads(library: &Library, heads: &Heads, config: &Config) -> Result<Self, ConfigError> {
        let [read, program, erase] = array_times(&config.chip()?);
        let program_spread = if config.chip_kind()?.is_nand() { NAND_PROGRAM } else { NOR_PROGRAM };
        let is_unmeasured = config.extract::<bool>("host.unmeasured").unwrap_or(false);
        let sure = if is_unmeasured { 0.0 } else { certainty::of_costs(library, heads, config)? };
        let off = |unknown: f64| SOFTWARE_KNOWN + (unknown - SOFTWARE_KNOWN) * (1.0 - sure);
        Ok(Self {
            read: Error::of_array(read, READ),
            program: Error::of_array(program, program_spread),
            erase: Error::of_erase(erase),
            software: Error::of_factor(off(SOFTWARE_UNKNOWN)),
            prior: off(SOFTWARE_PRIOR),
            unknown: 1.0 - sure,
        })
    }

    /// Standard deviation of the logarithm of a cost of software and controller.
    pub(crate) fn software_deviation(&self) -> f64 {
        self.prior.ln_1p() / OF_80_PERCENT
    }

    /// Standard deviations of the array time of an operation below and above the typical time, as shares of it.
    pub(crate) fn array_spread(&self, operation: Operation) -> (f64, f64) {
        let error = match operation {
            Operation::Read => self.read,
            Operation::Erase => self.erase,
            Operation::Program | Operation::Attach | Operation::Other => self.program,
        };
        (error.less / OF_80_PERCENT, error.more / OF_80_PERCENT)
    }

    /// Interval of the figure of a test: KiB/s, or ms if the test moves no bytes.
    pub fn interval(&self, test: &Measured) -> Interval {
        let array = match Test::from_name(&test.name) {
            Some(Test::Read(_)) => self.read,
            Some(Test::Erase(_)) => self.erase,
            // The time of a filesystem consists of all three, but mainly of programs.
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

    /// Shortest and longest time of operations that only read, or that also program, ns.
    pub(crate) fn range(&self, is_read: bool, is_of_filesystem: bool, spent: &Breakdown) -> (f64, f64) {
        self.times(if is_read { self.read } else { self.program }, spent, self.code(is_of_filesystem))
    }

    /// Error of a total time due to code of filesystems that is not counted.
    fn code(&self, is_of_filesystem: bool) -> Error {
        let off = FILESYSTEM_KNOWN + (FILESYSTEM_UNKNOWN - FILESYSTEM_KNOWN) * self.unknown;
        Error::of_factor(if is_of_filesystem { off } else { 0.0 })
    }

    /// Shortest and longest time with this breakdown, ns.
    fn times(&self, array: Error, spent: &Breakdown, code: Error) -> (f64, f64) {
        let ns = |phase: Phase| spent[phase].as_ns() as f64;
        let software: f64 = [Phase::Ecc, Phase::Controller, Phase::Cpu, Phase::Polling].map(ns).iter().sum();
        // Unmeasured software may also have a cost that the model lacks. It is taken to grow with the number of bytes,
        // like their time on the bus.
        let missing = ns(Phase::Data) * self.unknown;
        let total = spent.total().as_ns() as f64;
        let off = |array: f64, software: f64| array.hypot(software);
        let less = off(ns(Phase::Array) * array.less, software * self.software.less).hypot(total * code.less);
        let more = off(ns(Phase::Array) * array.more, (software + missing) * self.software.more)
            .hypot(total * code.more);
        (total - less, total + more)
    }
}

/// Times of a read, a program and an erase. If the data sheet states only a maximum read time, that is used.
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

    /// Bus time makes an interval narrow. A high maximum program time and unmeasured software make it wide.
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
        // No erase takes longer than the maximum.
        assert!(
            half_width(board, &["chip.timing.t_bers_us={ typ = 1000, max = 1300 }"], Test::Erase(1))
                < half_width(board, &["chip.timing.t_bers_us={ typ = 1000, max = 4000 }"], Test::Erase(1))
        );
        let given = ["host.call_us=1", "host.page_us=6", "host.copy_ns_per_kb=300", "host.wakeup_us=10"];
        assert!(half_width(board, &given, Test::Read(1)) <= half_width(board, &[], Test::Read(1)));
    }
}
