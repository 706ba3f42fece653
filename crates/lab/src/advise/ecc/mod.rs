//! Advice on the ECC of a chip: frequency of pages with errors and of uncorrectable pages, by cycles, retention and reads.
//!
//! The bit error rates are those of the chip's error model ([`ErrorSpec`]): measured rates if the part has them, otherwise rates
//! derived from the data sheet. A page is lost if any of its codewords has more wrong bits than the code corrects.

mod picture;
mod table;

pub use picture::picture;
pub use table::{Point, Series};

use floatgate_config::{Config, ConfigError, Library, Override, Provenance};
use floatgate_device::cells::{Conditions, ErrorSpec, Promise, tail};
use floatgate_device::nand::NandFacts;
use floatgate_ecc::Code;
use floatgate_mtd::Geometry;
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use floatgate_sim::error::Error;
use serde::Serialize;

/// Use of a chip: time, temperature and number of reads between program and read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Use {
    /// Time between program and read, years.
    pub years: f64,
    /// Temperature during this time, in degrees Celsius.
    pub temperature_c: f64,
    /// Number of reads of the block during this time.
    pub reads: f64,
    /// Acceptable uncorrectable bit error rate (UBER): uncorrectable codewords per bit read (JESD218: 1e-15 for a client).
    pub uber: f64,
}

impl Default for Use {
    /// Use that JESD218 requires of a client drive: one year without power.
    fn default() -> Self {
        Self { years: 1.0, temperature_c: 40.0, reads: 1e4, uber: 1e-15 }
    }
}

/// Properties of a chip on which the ECC depends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chip {
    /// Maker and name of the chip.
    pub chip: String,
    /// Title of the chip.
    pub title: String,
    /// Number of data bytes per page.
    pub page_bytes: u32,
    /// Number of OOB bytes per page.
    pub oob_bytes: u32,
    /// Number of pages per block.
    pub pages_per_block: u32,
    /// Number of bits per cell.
    pub bits_per_cell: u8,
    /// Rated program/erase cycles.
    pub endurance_cycles: u64,
    /// Number of bits per step that must be corrected.
    pub strength: u32,
    /// Size of a step, bytes.
    pub step_bytes: u32,
    /// True if the chip itself corrects errors.
    pub on_die: bool,
    /// True if the bit error rates were measured; false if they are derived from the data sheet.
    pub measured: bool,
    /// Sources of the measured bit error rates, with their confidence.
    pub sources: Vec<ErrorSource>,
    #[serde(skip)]
    errors: ErrorSpec,
}

/// A source of measured bit error rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorSource {
    /// Publication with the measured rates.
    pub from: String,
    /// Probability that the coefficients are right, 0 to 1.
    pub confidence: f64,
}

/// Results for one code on this chip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Name of the code: `bch8/512`, or `on-die 8/512`.
    pub code: String,
    /// Number of ECC bytes per page; 0 for a code in the chip.
    pub ecc_bytes: u32,
    /// True if they fit into the OOB together with the bad block marker.
    pub fits: bool,
    /// Maximum bit error rate within the limit.
    pub tolerated_rber: f64,
    /// Maximum number of cycles within the limit in this use.
    pub cycles: u64,
    /// Pages lost per page read, at rated cycles in this use.
    pub lost_pages: f64,
    /// True if the rated cycles are within the limit.
    pub enough: bool,
}

/// Advice on the ECC of a chip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Chip that the advice is for.
    #[serde(flatten)]
    pub chip: Chip,
    /// Use of the chip.
    #[serde(rename = "use")]
    pub use_: Use,
    /// The weakest sufficient code that fits.
    pub needs: Option<String>,
    /// Verdicts on all codes, weakest first.
    pub codes: Vec<Verdict>,
    /// Rates by cycles, years and reads.
    pub series: Vec<Series>,
}

/// Evaluated codes: those of Linux's software engines and of common controllers.
const USUAL: [Code; 8] = [
    Code::Hamming { step_bytes: 512 },
    Code::Bch { strength: 4, step_bytes: 512 },
    Code::Bch { strength: 8, step_bytes: 512 },
    Code::Bch { strength: 16, step_bytes: 512 },
    Code::Bch { strength: 24, step_bytes: 1024 },
    Code::Bch { strength: 40, step_bytes: 1024 },
    Code::Bch { strength: 60, step_bytes: 1024 },
    Code::Bch { strength: 72, step_bytes: 1024 },
];

/// A code or an engine in the chip.
#[derive(Clone, Debug)]
struct Choice {
    name: String,
    strength: u32,
    step_bytes: u32,
    ecc_bytes: u32,
    hidden: bool,
}

/// Name that means no code.
pub(crate) const NO_ECC: &str = "no ECC";

/// Number of bytes over which errors are counted without a code.
const STEP_WITHOUT_ECC: u32 = 512;

impl Choice {
    fn none() -> Self {
        let (strength, step_bytes) = (0, STEP_WITHOUT_ECC);
        Self { name: NO_ECC.to_owned(), strength, step_bytes, ecc_bytes: 0, hidden: false }
    }

    fn of(code: Code) -> Self {
        let (strength, step_bytes, ecc_bytes) = (code.strength(), code.step_bytes(), code.ecc_bytes());
        Self { name: code.to_string(), strength, step_bytes, ecc_bytes, hidden: false }
    }

    /// On-die engine of a chip. Makers do not state its code, but it cannot have fewer check bits than a BCH code.
    fn on_die(strength: u32, step_bytes: u32) -> Self {
        let ecc_bytes = floatgate_ecc::bch_bytes(step_bytes, strength);
        Self {
            name: format!("on-die {strength}/{step_bytes}"),
            strength,
            step_bytes,
            ecc_bytes,
            hidden: true,
        }
    }

    fn bits(&self) -> u32 {
        (self.step_bytes + self.ecc_bytes) * 8
    }

    fn steps(&self, chip: &Chip) -> u32 {
        chip.page_bytes / self.step_bytes.max(1)
    }

    fn fits(&self, chip: &Chip) -> bool {
        let room = chip.oob_bytes.saturating_sub(floatgate_ecc::MARKER.min(chip.oob_bytes));
        let is_whole = self.step_bytes > 0 && chip.page_bytes.is_multiple_of(self.step_bytes);
        self.hidden || is_whole && self.steps(chip) > 0 && self.steps(chip) * self.ecc_bytes <= room
    }

    /// The probability that a page is lost at a bit error rate.
    fn loses(&self, chip: &Chip, rate: f64) -> f64 {
        let codeword = match chip.errors.dispersion {
            Some(shape) => tail::beyond_dispersed(self.strength, self.bits(), rate, shape),
            None => tail::beyond(self.strength, self.bits(), rate),
        };
        any_of(codeword, self.steps(chip).max(1))
    }
}

/// Probability that at least one of `n` independent events with probability `p` happens.
fn any_of(p: f64, n: u32) -> f64 {
    -libm::expm1(f64::from(n) * libm::log1p(-p.clamp(0.0, 1.0 - f64::EPSILON)))
}

impl Chip {
    /// A NAND by its part's name or file, overridden by `sets` (`chip.endurance_cycles=3000`).
    ///
    /// # Errors
    /// Wrong names and values, or a NOR, which needs no ECC.
    pub fn named(library: &Library, name: &str, sets: &[Override]) -> Result<Self, Error> {
        let setup = library.setup_of_chip(name)?;
        let config = library.resolve(&setup, sets)?;
        config.only_keys(&["chip"])?;
        Self::of_config(&config)
    }

    /// Text about the origin of the bit error rates, to follow the words "bit errors".
    #[must_use]
    pub fn origin_of_errors(&self) -> &'static str {
        match self.measured {
            false => "as its data sheet promises",
            true if self.sources.iter().all(|source| source.confidence > 0.5) => "as measured",
            true => "partly measured, partly estimated",
        }
    }

    /// The NAND of a setup.
    ///
    /// # Errors
    /// Wrong values, or a NOR, which needs no ECC.
    pub fn of_config(config: &Config) -> Result<Self, Error> {
        let errors = config.extract_or_default::<Option<ErrorSpec>>("chip.errors")?;
        let part = config.part();
        let Some(facts) = config.chip()?.facts().nand else {
            return Err(Error::Request {
                message: format!("{} is a NOR: its cells are read without ECC", part.name),
                help: advice! { "name a chip of kind `raw-nand` or `spi-nand`: ", Command::Parts, " lists them" },
            });
        };
        let mut chip = Self::with(&facts);
        chip.chip = format!("{} {}", part.maker, part.name).trim().to_owned();
        chip.title.clone_from(&part.title);
        if let Some(errors) = errors {
            errors.check().map_err(|(key, why)| wrong(config, key, why))?;
            (chip.errors, chip.measured) = (errors, true);
            let about = part.sources.iter().filter(|s| s.of.iter().any(|of| of.starts_with("chip.errors")));
            let source = |s: &Provenance| ErrorSource { from: s.from.clone(), confidence: s.confidence };
            chip.sources = about.map(source).collect();
        }
        Ok(chip)
    }

    fn with(facts: &NandFacts) -> Self {
        let NandFacts { page_bytes, oob_bytes, pages_per_block, bits_per_cell, ecc, .. } = *facts;
        // Most data sheets of SLC NAND promise 1e5 cycles, of MLC 3000.
        let usual = if bits_per_cell == 1 { 100_000 } else { 3_000 };
        let endurance_cycles = if facts.endurance_cycles == 0 { usual } else { facts.endurance_cycles };
        Self {
            chip: String::new(),
            title: String::new(),
            page_bytes,
            oob_bytes,
            pages_per_block,
            bits_per_cell,
            endurance_cycles,
            strength: ecc.strength,
            step_bytes: ecc.step_bytes,
            on_die: facts.on_die_ecc,
            measured: false,
            sources: Vec::new(),
            errors: ErrorSpec::typical(Promise { ecc, endurance_cycles, bits_per_cell }),
        }
    }

    /// The mean bit error rate of a block's pages.
    fn rate(&self, cycles: f64, use_: &Use) -> f64 {
        let conditions = Conditions {
            cycles,
            days: use_.years * 365.25 * self.errors.acceleration(use_.temperature_c),
            reads_per_page: use_.reads / f64::from(self.pages_per_block.max(1)),
            programmed_after: 0.5,
            page: 1.0,
        };
        self.errors.rber(&conditions).total()
    }
}

fn wrong(config: &Config, key: &str, why: &str) -> ConfigError {
    config.wrong(&format!("chip.{key}"), why)
}

/// Advice on the code that `chip` needs in a use. `also` are codes that are evaluated in addition to the usual ones.
pub fn advise(chip: Chip, use_: Use, also: &[Code]) -> Advice {
    let mut options: Vec<Choice> = also.iter().copied().map(Choice::of).collect();
    if also.is_empty() {
        options.extend(USUAL.map(Choice::of));
    }
    if chip.on_die {
        options.push(Choice::on_die(chip.strength, chip.step_bytes));
    }
    options.sort_by(|a, b| {
        tolerated(a, &use_).total_cmp(&tolerated(b, &use_)).then_with(|| a.name.cmp(&b.name))
    });
    options.dedup_by(|a, b| a.name == b.name);
    let codes: Vec<Verdict> = options.iter().map(|option| verdict(option, &chip, &use_)).collect();
    let needs =
        codes.iter().find(|verdict| verdict.fits && verdict.enough).map(|verdict| verdict.code.clone());
    let fitting: Vec<Choice> = options.into_iter().filter(|option| option.fits(&chip)).collect();
    let series = table::all(&chip, &use_, &fitting);
    Advice { chip, use_, needs, codes, series }
}

/// Verdict on the ECC of a setup: its stated code, the chip's own code, or a code with the strength that its driver has chosen. `None` without
/// ECC.
///
/// # Errors
/// Wrong values, or a NOR, which needs no ECC.
pub(crate) fn own_verdict(config: &Config, geometry: &Geometry, use_: Use) -> Result<Verdict, Error> {
    let chip = Chip::of_config(config)?;
    let stated = config.extract::<String>("ecc.code").ok().and_then(|code| code.parse::<Code>().ok());
    let (strength, step_bytes) = (geometry.ecc_strength, geometry.ecc_step_bytes);
    let own = match (stated, strength) {
        (Some(code), _) => Choice::of(code),
        _ if chip.on_die => Choice::on_die(chip.strength, chip.step_bytes),
        (None, 0) => Choice::none(),
        (None, 1) => Choice::of(Code::Hamming { step_bytes }),
        (None, _) => Choice::of(Code::Bch { strength, step_bytes }),
    };
    Ok(verdict(&own, &chip, &use_))
}

fn tolerated(option: &Choice, use_: &Use) -> f64 {
    tail::tolerated_rber(option.strength, option.bits(), option.step_bytes * 8, use_.uber)
}

fn verdict(option: &Choice, chip: &Chip, use_: &Use) -> Verdict {
    let rated = chip.endurance_cycles as f64;
    let tolerated_rber = tolerated(option, use_);
    let cycles = cycles_up_to(chip, use_, tolerated_rber);
    Verdict {
        code: option.name.clone(),
        ecc_bytes: option.ecc_bytes * option.steps(chip),
        fits: option.fits(chip),
        tolerated_rber,
        cycles,
        lost_pages: option.loses(chip, chip.rate(rated, use_)),
        enough: cycles >= chip.endurance_cycles,
    }
}

/// Maximum number of cycles at which a bit error rate is not exceeded.
fn cycles_up_to(chip: &Chip, use_: &Use, rate: f64) -> u64 {
    // No NAND reaches 1e10 cycles.
    let (mut low, mut high) = (0_u64, 10_000_000_000_u64);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if chip.rate(middle as f64, use_) <= rate { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(name: &str) -> Chip {
        Chip::named(&Library::built_in(), name, &[]).unwrap()
    }

    #[test]
    fn a_chip_needs_at_most_what_its_data_sheet_asks_for() {
        // One year at 40 C is easier than the promise at 55 C, so the required code is sufficient; half of its strength
        // is not.
        for (name, asks) in
            [("mt29f8g08maawc", "bch4/512"), ("mx30lf2g18ac", "bch4/512"), ("mt29f32g08qaa", "bch8/512")]
        {
            let advice = advise(chip(name), Use { reads: 0.0, ..Use::default() }, &[]);
            assert_eq!(advice.needs.as_deref(), Some(asks), "{name}");
        }
    }

    #[test]
    fn stronger_codes_last_longer_and_harder_use_shortens_it() {
        let cycles = |use_| {
            advise(chip("mt29f8g08maawc"), use_, &[]).codes.iter().map(|v| v.cycles).collect::<Vec<u64>>()
        };
        let normal = cycles(Use::default());
        assert!(normal.is_sorted() && normal.last() > normal.first());
        for harder in [
            Use { years: 10.0, ..Use::default() },
            Use { temperature_c: 70.0, ..Use::default() },
            Use { reads: 1e6, ..Use::default() },
        ] {
            assert!(cycles(harder).iter().zip(&normal).all(|(hard, normal)| hard <= normal), "{harder:?}");
        }
    }

    #[test]
    fn a_code_whose_steps_make_no_page_does_not_fit() {
        let use_ = Use::default();
        let advice = advise(chip("mt29f8g08maawc"), use_, &[Code::Bch { strength: 4, step_bytes: 513 }]);
        assert!(advice.codes.iter().all(|verdict| !verdict.fits), "{:?}", advice.codes);
        assert_eq!(advice.needs, None);
    }

    /// Chips of published studies need a stronger code for more cycles, more time and more reads, by the measured
    /// coefficients.
    #[test]
    fn measured_chips_need_more_for_more() {
        let easy = Use { years: 0.05, temperature_c: 25.0, reads: 0.0, uber: 1e-15 };
        for name in ["study-mlc-3x-nm", "study-mlc-2y-nm", "study-tlc-72-layers"] {
            let chip = chip(name);
            assert!(chip.measured && !chip.sources.is_empty(), "{name}");
            let strength = |cycles: u64, use_: Use| {
                let chip = Chip { endurance_cycles: cycles, oob_bytes: 1 << 20, ..chip.clone() };
                let codes = (1..400).map(|strength| Code::Bch { strength, step_bytes: 1024 });
                let all = advise(chip, use_, &codes.collect::<Vec<_>>()).codes;
                all.iter().position(|verdict| verdict.enough).unwrap_or(all.len())
            };
            let normal = strength(1000, easy);
            assert!(strength(3000, easy) > normal, "{name}: cycles");
            assert!(strength(1000, Use { years: 0.3, ..easy }) > normal, "{name}: years");
            assert!(strength(1000, Use { reads: 1e6, ..easy }) > normal, "{name}: reads");
            assert!(strength(1000, Use { temperature_c: 55.0, ..easy }) > normal, "{name}: temperature");
        }
    }

    /// The expected rate after 1e5 reads of a block at 3000 cycles is 1.6e-4 (Cai et al., DSN 2015, 2y-nm MLC). The coefficients
    /// were not fitted to it.
    #[test]
    fn read_disturb_of_2y_nm_chips_is_as_another_study_measured() {
        let chip = chip("study-mlc-2y-nm");
        let rate = |reads| chip.rate(3000.0, &Use { years: 0.0, temperature_c: 25.0, reads, uber: 1e-15 });
        let added = rate(1e5) - rate(0.0);
        assert!((1.2e-4..2.2e-4).contains(&added), "{added:e}");
    }

    #[test]
    fn codes_that_do_not_fit_are_not_recommended() {
        // NAND128W3A2BN has 16 bytes of OOB.
        let advice = advise(chip("nand128w3a2bn"), Use { uber: 1e-30, ..Use::default() }, &[]);
        assert!(advice.codes.iter().any(|verdict| !verdict.fits && verdict.enough));
        let needs = advice.needs;
        assert!(needs.is_none_or(|code| advice.codes.iter().any(|v| v.code == code && v.fits)));
    }

    #[test]
    fn lost_pages_follow_from_the_tail_by_hand() {
        let chip = chip("mt29f8g08maawc");
        let option = Choice::of(Code::Bch { strength: 1, step_bytes: 512 });
        // The probability of two or more errors in one of four codewords of 4112 bits is about (n p)^2 / 2 for each at
        // small p.
        let by_hand = 4.0 * (4112.0 * 1e-7_f64).powi(2) / 2.0;
        assert!((option.loses(&chip, 1e-7) / by_hand - 1.0).abs() < 0.01);
    }

    #[test]
    fn nor_needs_none() {
        let error = Chip::named(&Library::built_in(), "n25q128a", &[]).unwrap_err();
        assert!(error.to_string().contains("NOR"), "{error}");
    }
}
