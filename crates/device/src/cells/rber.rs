//! The raw bit error rate of a page, from wear, retention, read disturb, and programs of neighbouring pages.
//!
//! `floor + a C^k + b C^m t^n + g C^p r^q` (Kim, Choi, Min, FAST 2019). C is the number of cycles of the block, t the days since the
//! page was programmed (at the reference temperature: Arrhenius), and r the reads of the block since its erase, per page. In
//! addition, programs of further pages of the block disturb the pages programmed before.
//!
//! A chip without measured rates gets rates derived from its data sheet. The code that the data sheet requires is just sufficient
//! (UBER 1e-15) at rated cycles after one year, or at a tenth of them after ten years (JESD47, JESD218). 1e5 (MLC) or 1e6 (SLC)
//! reads of a block double that rate.

use super::tail;
use crate::ecc_engine::EccRequirement;
use libm::pow;
use serde::Deserialize;

/// A rate multiplied by powers: `rate * cycles^cycles_exponent * amount^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Factor of the term: its bit error rate after one cycle, and one day (retention) or one read per page (disturb).
    pub rate: f64,
    /// Exponent of the number of cycles.
    pub cycles: f64,
    /// Exponent of the days (retention) or of the reads per page (disturb); unused for wear.
    #[serde(default = "one")]
    pub amount: f64,
}

const fn one() -> f64 {
    1.0
}

/// Bit error rates of a chip: the `[chip.errors]` table.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorSpec {
    /// Bit error rate of a new block.
    pub floor: f64,
    /// Bit error rate from wear.
    pub wear: Power,
    /// Bit error rate from retention, which grows with the days since the program, at `reference_c`.
    pub retention: Power,
    /// Bit error rate from read disturb, which grows with the reads of the block since its erase, divided by its pages.
    pub disturb: Power,
    /// Increase of the rate from wear when all later pages of the block are programmed, as a fraction of this rate.
    #[serde(default = "program_disturb")]
    pub program_disturb: f64,
    /// Shape of the gamma distribution of the rate among codewords; when absent, all codewords have the same rate.
    #[serde(default)]
    pub dispersion: Option<f64>,
    /// Temperature at which the rate from retention is valid, in degrees Celsius.
    #[serde(default = "reference_c")]
    pub reference_c: f64,
    /// Activation energy of retention loss, in eV.
    #[serde(default = "activation_ev")]
    pub activation_ev: f64,
}

/// Program disturb is bounded (Desnoyers 2009) and well below retention (Cai, DATE 2012); the figure is an assumption.
const fn program_disturb() -> f64 {
    0.1
}

/// Reference temperature of retention: JESD47 qualifies data retention at 55 C.
const fn reference_c() -> f64 {
    55.0
}

/// Activation energy of detrapping (JESD22-A117).
const fn activation_ev() -> f64 {
    1.1
}

/// Uncorrectable bit error rate that a data sheet implies (JESD218, client), per bit read.
pub const UBER: f64 = 1e-15;

/// Data sheet values from which typical error rates are derived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// ECC requirement of the chip.
    pub ecc: EccRequirement,
    /// Endurance, program/erase cycles.
    pub endurance_cycles: u64,
    /// Number of bits per cell.
    pub bits_per_cell: u8,
}

impl ErrorSpec {
    /// Typical error rates derived from the data sheet alone, see the [module](self).
    pub fn typical(promise: Promise) -> Self {
        let Promise { ecc, endurance_cycles, bits_per_cell } = promise;
        // Steps have at most the size of a page, and pages at most 64 KiB. Strengths that are too high for a step are rejected
        // elsewhere.
        let (step_bytes, strength) = (ecc.step_bytes.clamp(1, 1 << 16), ecc.strength.clamp(1, 1 << 12));
        let data_bits = step_bytes * 8;
        let check_bits = floatgate_ecc::bch_bytes(step_bytes, strength) * 8;
        let tolerated = tail::tolerated_rber(strength, data_bits + check_bits, data_bits, UBER);
        let rated = endurance_cycles.max(1) as f64;
        let slc = bits_per_cell == 1;
        // Facts 4.2: wear exponents 1.5 and 1.7. One year at rated cycles and ten years at a tenth of them give the same rate if
        // both exponents of retention are equal; 0.54 is Kim's value. Kim's 1.47 for read disturb is taken from Cai (DSN 2015).
        let (wear, retention, disturb) = (if slc { 1.5 } else { 1.7 }, 0.54, 1.47);
        let half_a_promise = tolerated / 2.0;
        let reads_per_page = if slc { 1e6 / 64.0 } else { 1e5 / 128.0 };
        Self {
            floor: tolerated / 1000.0,
            wear: Power { rate: half_a_promise / pow(rated, wear), cycles: wear, amount: 1.0 },
            retention: Power {
                rate: half_a_promise / (pow(rated, retention) * pow(365.0, retention)),
                cycles: retention,
                amount: retention,
            },
            disturb: Power {
                rate: tolerated / (pow(rated, disturb) * reads_per_page),
                cycles: disturb,
                amount: 1.0,
            },
            program_disturb: program_disturb(),
            dispersion: None,
            reference_c: reference_c(),
            activation_ev: activation_ev(),
        }
    }

    /// Checks that the values are possible.
    ///
    /// # Errors
    /// Key and problem of the first impossible value.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let rate = |x: f64| (0.0..=1.0).contains(&x);
        let power =
            |p: Power| rate(p.rate) && (0.0..=5.0).contains(&p.cycles) && (0.0..=5.0).contains(&p.amount);
        let rules = [
            (rate(self.floor), "errors.floor", "a rate is between 0 and 1"),
            (power(self.wear), "errors.wear", "a rate between 0 and 1, exponents between 0 and 5"),
            (power(self.retention), "errors.retention", "a rate between 0 and 1, exponents between 0 and 5"),
            (power(self.disturb), "errors.disturb", "a rate between 0 and 1, exponents between 0 and 5"),
            ((0.0..=100.0).contains(&self.program_disturb), "errors.program_disturb", "0 to 100"),
            (self.dispersion.is_none_or(|d| (0.05..=1e6).contains(&d)), "errors.dispersion", "0.05 to 1e6"),
            ((-55.0..=150.0).contains(&self.reference_c), "errors.reference_c", "-55 to 150"),
            ((0.0..=3.0).contains(&self.activation_ev), "errors.activation_ev", "0 to 3"),
        ];
        rules.iter().find(|rule| !rule.0).map_or(Ok(()), |rule| Err((rule.1, rule.2)))
    }

    /// Factor by which charge is lost faster at a temperature (degrees Celsius) than at the reference temperature (Arrhenius).
    pub fn acceleration(&self, temperature_c: f64) -> f64 {
        /// Boltzmann constant, eV per kelvin.
        const K: f64 = 8.617_333e-5;
        let inverse = |c: f64| 1.0 / (c.max(-200.0) + 273.15);
        libm::exp(self.activation_ev / K * (inverse(self.reference_c) - inverse(temperature_c)))
    }

    /// Bit error rate of a page under these conditions, by cause.
    pub fn rber(&self, at: &Conditions) -> Rber {
        let cycles = at.cycles.max(1.0);
        let wear = self.wear.rate * pow(cycles, self.wear.cycles);
        let part = |p: &Power, amount: f64| {
            if amount <= 0.0 { 0.0 } else { p.rate * pow(cycles, p.cycles) * pow(amount, p.amount) }
        };
        Rber {
            steady: at.page * (self.floor + wear * (1.0 + self.program_disturb * at.programmed_after)),
            retention: at.page * part(&self.retention, at.days),
            disturb: at.page * part(&self.disturb, at.reads_per_page),
        }
    }
}

/// Conditions that determine a page's error rate: cycles, retention and reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Program/erase cycles of the page's block.
    pub cycles: f64,
    /// Days since the page was programmed, at the reference temperature; 0 for an erased page.
    pub days: f64,
    /// Reads of the block since its erase, divided by the number of pages in the block.
    pub reads_per_page: f64,
    /// Share of the block's pages that were programmed after this page.
    pub programmed_after: f64,
    /// Factor for the position of the page in its pair; 1 for SLC.
    pub page: f64,
}

impl Conditions {
    /// Conditions of a new SLC page that was just programmed.
    pub const NEW: Self =
        Self { cycles: 0.0, days: 0.0, reads_per_page: 0.0, programmed_after: 0.0, page: 1.0 };
}

/// Raw bit error rate of a page, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rber {
    /// Rate caused by wear and by programs of neighbouring pages.
    pub steady: f64,
    /// Rate caused by loss of charge (retention).
    pub retention: f64,
    /// Rate caused by charge gained in reads (read disturb).
    pub disturb: f64,
}

impl Rber {
    /// Bit error rate of all causes together, at most 0.5.
    pub fn total(&self) -> f64 {
        (self.steady + self.retention + self.disturb).min(0.5)
    }

    /// The rate after the read thresholds were lowered by `shift` standard deviations of the cells' threshold voltage.
    ///
    /// Loss of charge moves cells down across the threshold; a lower threshold leaves fewer of them on the wrong side. Errors caused
    /// by wear, neighbours and reads, which shift cells upwards, become more frequent. Both are modelled as tails of normal
    /// distributions.
    #[must_use]
    pub fn with_threshold_lowered(&self, shift: f64) -> Self {
        let moved = |rate: f64, by: f64| if rate <= 0.0 { 0.0 } else { upper_tail(quantile(rate) + by) };
        Self {
            steady: (moved(self.steady / 2.0, shift) + moved(self.steady / 2.0, -shift)).min(0.5),
            retention: moved(self.retention, shift),
            disturb: moved(self.disturb, -shift),
        }
    }
}

/// Probability that a normal variable exceeds its mean by more than `x` standard deviations.
fn upper_tail(x: f64) -> f64 {
    libm::erfc(x / core::f64::consts::SQRT_2) / 2.0
}

/// Inverse of [`upper_tail`]: the number of standard deviations at which the probability is `p`.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 38.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if upper_tail(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slc() -> ErrorSpec {
        let ecc = EccRequirement { strength: 4, step_bytes: 512 };
        ErrorSpec::typical(Promise { ecc, endurance_cycles: 100_000, bits_per_cell: 1 })
    }

    const WORN: Conditions = Conditions { cycles: 100_000.0, ..Conditions::NEW };

    #[test]
    fn the_code_asked_for_just_holds_when_the_promise_ends() {
        let tolerated = tail::tolerated_rber(4, 4096 + 56, 4096, UBER);
        let year = slc().rber(&Conditions { days: 365.0, ..WORN }).total();
        assert!((year / tolerated - 1.0).abs() < 0.01, "{}", year / tolerated);
        // Ten years at a tenth of the cycles: retention errors are the same, wear errors fewer.
        let ten = slc().rber(&Conditions { cycles: 10_000.0, days: 3650.0, ..WORN });
        assert!((ten.retention / tolerated - 0.5).abs() < 0.01);
        let read = slc().rber(&Conditions { reads_per_page: 1e6 / 64.0, ..WORN });
        assert!((read.disturb / tolerated - 1.0).abs() < 0.01);
    }

    #[test]
    fn heat_makes_charge_leave_faster() {
        let spec = slc();
        assert!((spec.acceleration(55.0) - 1.0).abs() < 1e-12);
        // Usual example of JESD22-A117: 1.1 eV from 55 to 125 C gives a factor of about 900 to 1000.
        assert!((800.0..1100.0).contains(&spec.acceleration(125.0)), "{}", spec.acceleration(125.0));
        assert!(spec.acceleration(25.0) < 0.03);
    }

    #[test]
    fn lower_thresholds_help_against_lost_charge_and_nothing_else() {
        let old = slc().rber(&Conditions { days: 365_000.0, ..WORN });
        let retried = old.with_threshold_lowered(0.5);
        assert!(retried.total() < old.total() / 2.0);
        assert!(old.with_threshold_lowered(4.0).total() > old.total());
        let disturbed = slc().rber(&Conditions { reads_per_page: 1e6, ..WORN });
        assert!(disturbed.with_threshold_lowered(0.5).total() > disturbed.total());
    }

    #[test]
    fn quantiles_invert_tails() {
        for p in [0.4, 1e-3, 1e-9, 1e-15] {
            assert!((upper_tail(quantile(p)) / p - 1.0).abs() < 1e-9);
        }
    }
}
