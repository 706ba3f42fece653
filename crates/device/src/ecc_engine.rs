//! ECC engines: the place at which pages are encoded before a program and corrected after a read, and the cost of both.
//!
//! All engines use the codes of Linux's software engines, Hamming and BCH. Hardware engines have codes and layouts of their makers, most of
//! which are not published. [`Reports`] describes the results that an engine reports.
//!
//! The cost of an engine depends on its kind (`cost`). The software engine takes CPU cycles, and the external engine needs a second
//! transfer of the data. The pipelined engine costs only its latency, and the on-die engine a longer tR.
//!
//! [`EccEngine::encode`] and [`EccEngine::decode`] work on bytes. If no data is stored (timing only), wrong bits are counted for each step.
//! The result is the same as long as no step has more wrong bits than the code corrects. With more wrong bits a decoder may find another
//! codeword nearby, which counting does not model.

mod cost;
mod page_code;
mod page_set;

pub use page_code::{PageCode, PageCodeError};

use crate::host::HostProfile;
use crate::timeline::{Host, Resource, Timeline};
use cost::Cost;
use floatgate_mtd::{Geometry, Nanos, Phase};
use page_code::Scratch;
pub(crate) use page_set::PageSet;
use serde::Deserialize;
use std::sync::Arc;

/// Component that computes the ECC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// No ECC is computed.
    None,
    /// The chip, which reports the result in its status. The only cost is a longer tR.
    #[default]
    OnDie,
    /// The controller, during the transfer. The cost is a latency after the last byte.
    Pipelined,
    /// A separate engine of the host, to which each page is copied in an extra transfer.
    External,
    /// The CPU of the host.
    Software,
}

/// The error-correcting code (device tree: `nand-ecc-algo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algo {
    /// Hamming, which corrects 1 bit per 256 or 512 bytes.
    Hamming,
    /// BCH, which corrects any number of bits.
    Bch,
}

/// Information that an engine reports about a corrected page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reports {
    /// Number of wrong bits in each step.
    #[default]
    Bits,
    /// Only whether the bitflip threshold was reached: MTD users see either no bitflips or as many as the threshold.
    Threshold,
    /// Only whether the page could be corrected: MTD users never see bitflips and do not scrub in time.
    PassFail,
}

/// Parameters of an ECC engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccProfile {
    /// Component that computes the ECC.
    pub engine: EngineKind,
    /// Number of bits corrected per step; the requirement of the chip when absent.
    pub strength: Option<u32>,
    /// Size of a step in bytes; the requirement of the chip when absent.
    #[serde(with = "optional_bytes")]
    pub step_bytes: Option<u32>,
    /// Error-correcting code; when absent, Hamming for 1 bit per 256 or 512 bytes, and BCH for more bits.
    pub algo: Option<Algo>,
    /// Time to start the engine for a page, in us; for a pipelined engine, its latency after the last byte. When
    /// absent, an external engine takes the time of the host (`host.external_ecc`), and other engines take 0.
    #[serde(with = "optional_us")]
    pub setup_us: Option<Nanos>,
    /// Time of an external or software engine to encode data, in ns per 1000 bytes; computed from the host's keys
    /// when absent.
    pub encode_ns_per_kb: Option<u32>,
    /// Time of an external or software engine to decode data without wrong bits, in ns per 1000 bytes; computed from
    /// the host's keys when absent.
    pub decode_ns_per_kb: Option<u32>,
    /// Time to find and correct one wrong bit, in us. When absent, the time of a software engine is computed from the
    /// host's keys, and other engines take 0.
    #[serde(with = "optional_us")]
    pub correct_us_per_bit: Option<Nanos>,
    /// Information that the engine reports about a corrected page.
    pub reports: Reports,
}

mod optional_us {
    use floatgate_mtd::Nanos;
    use serde::Deserializer;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Nanos>, D::Error> {
        crate::units::us::deserialize(d).map(Some)
    }
}

mod optional_bytes {
    use serde::Deserializer;
    use serde::de::Error;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
        let bytes = crate::units::bytes::deserialize(d)?;
        u32::try_from(bytes).map(Some).map_err(|_| D::Error::custom("an ECC step is smaller than 4 GiB"))
    }
}

/// ECC requirement of a chip: `strength` bits per `step_bytes` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EccRequirement {
    /// Number of bits to correct per step.
    pub strength: u32,
    /// Size of a step in bytes.
    pub step_bytes: u32,
}

/// Result of the correction of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrected {
    /// Maximum number of corrected bits in one step.
    pub max: u32,
    /// Number of corrected bits in all steps.
    pub total: u32,
}

/// Error: a step has more wrong bits than the code corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncorrectable;

/// A page read, as the chip delivers it to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRead<'a> {
    /// The bytes of the page are available and must be decoded.
    Bytes,
    /// The page is a codeword without wrong bits, so decoding is not needed.
    Clean,
    /// No bytes are available, but the wrong bits of the page are known (ascending offsets, OOB after the data).
    Counted(&'a [u32]),
}

/// An ECC engine for one chip.
#[derive(Clone, Debug)]
pub struct EccEngine {
    profile: EccProfile,
    requirement: EccRequirement,
    /// ECC requirement of the chip.
    chip: EccRequirement,
    cost: Cost,
    timeline: Timeline,
    code: Option<Arc<PageCode>>,
    scratch: Scratch,
}

/// A number of bits as text.
fn bits(count: u32) -> String {
    format!("{count} {}", if count == 1 { "bit" } else { "bits" })
}

impl EccEngine {
    /// Creates an engine. Strength and step of the profile have priority over the chip's requirement. Hamming corrects one bit.
    pub fn new(profile: EccProfile, chip: EccRequirement) -> Self {
        let asked = if profile.algo == Some(Algo::Hamming) { 1 } else { chip.strength };
        let requirement = EccRequirement {
            strength: profile.strength.unwrap_or(asked),
            step_bytes: profile.step_bytes.unwrap_or(chip.step_bytes).max(1),
        };
        Self {
            profile,
            requirement,
            chip,
            cost: Cost::default(),
            timeline: Timeline::default(),
            code: None,
            scratch: Scratch::default(),
        }
    }

    /// Sets up the code for pages of these sizes, and its cost, if the engine is on the host's side.
    ///
    /// # Errors
    /// The code is impossible, or the OOB has no room for its ECC bytes.
    pub fn set_up(
        &mut self,
        page_bytes: u32,
        oob_bytes: u32,
        host: &HostProfile,
    ) -> Result<(), PageCodeError> {
        if self.on_host() {
            let code = PageCode::linux(self.requirement, self.profile.algo, page_bytes, oob_bytes)?;
            let of = code.codec().code();
            self.requirement = EccRequirement { strength: of.strength(), step_bytes: of.step_bytes() };
            self.cost = Cost::of(&self.profile, of, host);
            self.scratch = code.scratch();
            self.code = Some(Arc::new(code));
        }
        Ok(())
    }

    /// Engine, code and cost as text, if the engine is on the host's side.
    pub fn describe(&self) -> Option<String> {
        let code = self.code.as_ref()?.codec().code();
        let name = match self.profile.engine {
            EngineKind::Software => "software",
            EngineKind::External => "external",
            _ => "pipelined",
        };
        let (encode, decode) = self.cost.us_per_kib();
        Some(format!("ECC: {name}, {code}, encoding {encode:.1} us and decoding {decode:.1} us a KiB"))
    }

    /// Warning about a strength below the chip's requirement, if the engine is on the host's side (Linux also warns:
    /// `nand_ecc_is_strong_enough`).
    pub fn too_weak(&self) -> Option<String> {
        let (has, asks) = (self.requirement, self.chip);
        let per_byte =
            |of: EccRequirement, other: EccRequirement| u64::from(of.strength) * u64::from(other.step_bytes);
        let is_weak = self.on_host() && per_byte(has, asks) < per_byte(asks, has);
        is_weak.then(|| {
            format!(
                "the ECC corrects {} in {} B, and the chip asks for {} in {} B",
                bits(has.strength),
                has.step_bytes,
                bits(asks.strength),
                asks.step_bytes
            )
        })
    }

    /// The code in use, if the engine is on the host's side.
    pub fn code(&self) -> Option<&PageCode> {
        self.code.as_deref()
    }

    /// Component that computes the ECC.
    pub const fn kind(&self) -> EngineKind {
        self.profile.engine
    }

    /// Strength and step in use; strength 0 without an engine.
    pub const fn requirement(&self) -> EccRequirement {
        match self.profile.engine {
            EngineKind::None => EccRequirement { strength: 0, step_bytes: 0 },
            _ => self.requirement,
        }
    }

    /// True if correction happens on the host's side of the bus.
    pub const fn on_host(&self) -> bool {
        !matches!(self.profile.engine, EngineKind::None | EngineKind::OnDie)
    }

    /// Takes the time to encode a page of `bytes` before it is programmed.
    #[inline]
    pub fn prepare(&mut self, host: &mut Host, bytes: u32) {
        self.work(host, bytes, self.cost.encode_ps_per_byte, "ECC encode");
    }

    /// Encodes a page before it is programmed: writes the ECC bytes of `data` to `oob`. [`Self::prepare`] takes the time for this.
    pub fn encode(&mut self, data: &[u8], oob: &mut [u8]) {
        if let Some(code) = &self.code {
            code.encode(data, oob, &mut self.scratch);
        }
    }

    /// Corrects a page after it was read: `data`, and the ECC bytes in `oob`.
    ///
    /// # Errors
    /// [`Uncorrectable`] if a step has too many wrong bits; the other steps are corrected.
    #[inline]
    pub fn decode(
        &mut self,
        host: &mut Host,
        data: &mut [u8],
        oob: &mut [u8],
        read: PageRead<'_>,
    ) -> Result<Corrected, Uncorrectable> {
        self.decode_part(host, 0, data, oob, read)
    }

    /// Corrects a part of a page like [`decode`](Self::decode): the steps from `first` on, as many as `data` contains.
    ///
    /// # Errors
    /// The same errors as [`decode`](Self::decode).
    #[inline]
    pub fn decode_part(
        &mut self,
        host: &mut Host,
        first: usize,
        data: &mut [u8],
        oob: &mut [u8],
        read: PageRead<'_>,
    ) -> Result<Corrected, Uncorrectable> {
        self.work(host, data.len() as u32, self.cost.decode_ps_per_byte, "ECC decode");
        match read {
            PageRead::Clean | PageRead::Counted([]) => Ok(Corrected::default()),
            PageRead::Bytes | PageRead::Counted(_) => self.correct_steps(host, first, data, oob, read),
        }
    }

    #[cold]
    fn correct_steps(
        &mut self,
        host: &mut Host,
        first: usize,
        data: &mut [u8],
        oob: &mut [u8],
        read: PageRead<'_>,
    ) -> Result<Corrected, Uncorrectable> {
        let Some(code) = &self.code else { return Ok(Corrected::default()) };
        let tally = match read {
            PageRead::Counted(wrong) => {
                let last = first + code.steps(0, data.len()).end;
                code.count(first..last, wrong, &mut self.scratch)
            }
            PageRead::Bytes | PageRead::Clean => code.decode(first, data, oob, &mut self.scratch),
        };
        self.book_correction(host, tally.corrected.total);
        if tally.lost_steps == 0 { Ok(self.reported(tally.corrected)) } else { Err(Uncorrectable) }
    }

    /// The correction in the form in which the engine reports it.
    fn reported(&self, corrected: Corrected) -> Corrected {
        let threshold = Geometry::default_bitflip_threshold(self.requirement.strength);
        match self.profile.reports {
            Reports::Bits => corrected,
            Reports::Threshold if corrected.max >= threshold => {
                Corrected { max: threshold, total: threshold }
            }
            Reports::Threshold | Reports::PassFail => Corrected::default(),
        }
    }

    fn book_correction(&self, host: &mut Host, bits: u32) {
        let resource =
            if self.profile.engine == EngineKind::Software { Resource::Cpu } else { Resource::Ecc };
        host.spend(resource, Phase::Ecc, self.cost.correct_bit * u64::from(bits), "ECC correct");
    }

    #[inline]
    fn work(&mut self, host: &mut Host, bytes: u32, ps_per_byte: u64, what: &'static str) {
        let length = Nanos::from_ns(u64::from(bytes) * ps_per_byte / 1000);
        match self.profile.engine {
            EngineKind::None | EngineKind::OnDie => {}
            EngineKind::Pipelined => host.spend(Resource::Ecc, Phase::Ecc, self.cost.setup, what),
            EngineKind::Software => {
                host.spend(Resource::Cpu, Phase::Ecc, self.cost.setup + length, what);
            }
            EngineKind::External => {
                let (_, end) = self.timeline.reserve(host.now(), self.cost.setup + length);
                host.wait_until(end, Resource::Ecc, Phase::Ecc, what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostProfile = HostProfile { instruction_ps: 500, ..HostProfile::NONE };

    /// Time that an engine takes to decode a clean page of 2 KiB.
    fn decode_time(profile: EccProfile, strength: u32) -> Nanos {
        let mut engine = EccEngine::new(profile, EccRequirement { strength, step_bytes: 512 });
        engine.set_up(2048, 128, &HOST).unwrap();
        let mut host = Host::default();
        engine.decode(&mut host, &mut [0; 2048], &mut [], PageRead::Clean).unwrap();
        host.spent().total()
    }

    #[test]
    fn each_kind_of_engine_has_its_cost() {
        let of = |engine| decode_time(EccProfile { engine, ..EccProfile::default() }, 8);
        let (software, external) = (of(EngineKind::Software), of(EngineKind::External));
        let pipelined = of(EngineKind::Pipelined);
        assert!(pipelined < software && pipelined < external, "{pipelined} {software} {external}");
        assert_eq!(of(EngineKind::OnDie), Nanos::ZERO);
        let soft = |algo, strength| {
            let engine = EngineKind::Software;
            decode_time(EccProfile { engine, algo: Some(algo), ..EccProfile::default() }, strength)
        };
        assert!(soft(Algo::Hamming, 1) * 3 < soft(Algo::Bch, 1), "Hamming is the cheap one");
        assert_eq!(soft(Algo::Hamming, 8), soft(Algo::Hamming, 1), "it corrects one bit whatever is asked");
        assert!(soft(Algo::Bch, 4) < soft(Algo::Bch, 8));
    }

    /// The cycles were counted for the loop of lib/bch.c compiled by gcc 12 -O2, by LLVM's model of a Cortex-A9. An earlier estimate from
    /// DMIPS gave two thirds of the cycles that the loads alone take.
    #[test]
    fn software_bch_takes_the_cycles_that_were_counted() {
        let bch = crate::host::BchCycles { clock_hz: 1_000_000_000, word: 19, ecc_word: 9 };
        let time = |strength, clock_hz| {
            let host = HostProfile { bch: crate::host::BchCycles { clock_hz, ..bch }, ..HOST };
            let profile = EccProfile { engine: EngineKind::Software, ..EccProfile::default() };
            let mut engine = EccEngine::new(profile, EccRequirement { strength, step_bytes: 512 });
            engine.set_up(2048, 128, &host).unwrap();
            let mut host = Host::default();
            engine.prepare(&mut host, 2048);
            host.spent()[Phase::Ecc]
        };
        // 512 words of data, each of which is reduced by 2 and by 4 words of the remainder.
        let near = |time: Nanos, cycles: u64| time.as_ns().abs_diff(cycles) <= 2;
        assert!(near(time(4, 1_000_000_000), 512 * 37), "{}", time(4, 1_000_000_000));
        assert!(near(time(8, 1_000_000_000), 512 * 55));
        assert!(near(time(8, 500_000_000), 2 * 512 * 55), "half the clock");
    }

    #[test]
    fn hamming_corrects_no_more_than_one_bit() {
        let hamming = EccProfile {
            engine: EngineKind::Software,
            algo: Some(Algo::Hamming),
            strength: Some(4),
            ..EccProfile::default()
        };
        let mut engine = EccEngine::new(hamming, EccRequirement { strength: 4, step_bytes: 512 });
        assert_eq!(engine.set_up(2048, 64, &HOST), Err(PageCodeError::HammingStrength(4)));
    }

    #[test]
    fn software_costs_cpu_time_and_on_die_none() {
        let chip = EccRequirement { strength: 4, step_bytes: 512 };
        let soft = EccProfile {
            engine: EngineKind::Software,
            decode_ns_per_kb: Some(1000),
            ..EccProfile::default()
        };
        let mut host = Host::default();
        let mut engine = EccEngine::new(soft, chip);
        engine.set_up(2048, 64, &HOST).unwrap();
        engine.decode(&mut host, &mut [0; 2048], &mut [], PageRead::Clean).unwrap();
        assert_eq!(host.spent()[Phase::Ecc], Nanos::from_ns(2048));
        let mut engine = EccEngine::new(EccProfile::default(), chip);
        engine.set_up(2048, 64, &HOST).unwrap();
        engine.prepare(&mut host, 2048);
        assert_eq!(host.spent().total(), Nanos::from_ns(2048));
    }

    #[test]
    fn engines_tell_what_they_can() {
        let told = |reports, wrong: u32| {
            let profile = EccProfile { engine: EngineKind::Pipelined, reports, ..EccProfile::default() };
            let mut engine = EccEngine::new(profile, EccRequirement { strength: 8, step_bytes: 512 });
            engine.set_up(2048, 64, &HOST).unwrap();
            let mut oob = [0xFF; 64];
            let mut data = [0x5A; 2048];
            engine.encode(&data, &mut oob);
            (0..wrong).for_each(|bit| data[bit as usize * 9] ^= 0x10);
            let result = engine.decode(&mut Host::default(), &mut data, &mut oob, PageRead::Bytes);
            assert_eq!(result.is_ok(), data == [0x5A; 2048]);
            result.map(|corrected| corrected.max)
        };
        assert_eq!([5, 8].map(|n| told(Reports::Bits, n)), [Ok(5), Ok(8)]);
        assert_eq!([5, 6, 8].map(|n| told(Reports::Threshold, n)), [Ok(0), Ok(6), Ok(6)]);
        assert_eq!([8, 9].map(|n| told(Reports::PassFail, n)), [Ok(0), Err(Uncorrectable)]);
    }
}
