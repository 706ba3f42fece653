//! ECC engines: where a page is encoded before it is programmed and corrected after it is read, and what that costs.
//!
//! Codes are those of Linux's software engines, Hamming and BCH, whoever computes them: hardware engines have codes and
//! layouts of their own makers, of which most are not published. An engine tells of its result what [`Reports`] says.
//!
//! [`EccEngine::encode`] and [`EccEngine::decode`] work on bytes. Where none are kept (timing only), wrong bits are counted step
//! by step, which comes to the same as long as no step has more of them than the code corrects. Beyond that a decoder may find
//! another codeword near by, which counting does not know.

mod page_code;
mod page_set;

pub use page_code::{PageCode, PageCodeError};

use crate::timeline::{Host, Resource, Timeline};
use crate::units;
use floatgate_mtd::{Geometry, Nanos, Phase};
use page_code::Scratch;
pub(crate) use page_set::PageSet;
use serde::Deserialize;
use std::sync::Arc;

/// Where the ECC is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Nowhere.
    None,
    /// In the chip, which reports the result in its status. Costs nothing beyond the chip's longer tR.
    #[default]
    OnDie,
    /// In the controller, while data passes: only the latency after the last byte shows.
    Pipelined,
    /// On the host, in an engine of its own through which each page passes.
    External,
    /// On the CPU.
    Software,
}

/// What an engine tells of a page it corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reports {
    /// How many bits were wrong in each step.
    #[default]
    Bits,
    /// Only whether the bitflip threshold was reached. MTD users then see either no bitflips or as many as the threshold.
    Threshold,
    /// Only whether it could be corrected. MTD users never see bitflips: nothing is scrubbed in time.
    PassFail,
}

/// An ECC engine as data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccProfile {
    /// Where it is computed.
    pub engine: EngineKind,
    /// Bits corrected per step; what the chip asks for when absent.
    pub strength: Option<u32>,
    /// Bytes per step; what the chip asks for when absent.
    #[serde(with = "optional_bytes")]
    pub step_bytes: Option<u32>,
    /// Start of the engine, per page; for a pipelined one the latency after the last byte. In us.
    #[serde(with = "units::us")]
    pub setup_us: Nanos,
    /// Encoding, in ns per 1000 bytes (external and software).
    pub encode_ns_per_kb: u32,
    /// Decoding of clean data, in ns per 1000 bytes (external and software).
    pub decode_ns_per_kb: u32,
    /// Finding and correcting, per wrong bit, in us.
    #[serde(with = "units::us")]
    pub correct_us_per_bit: Nanos,
    /// What it tells of its result.
    pub reports: Reports,
}

mod optional_bytes {
    use serde::Deserializer;
    use serde::de::Error;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
        let bytes = crate::units::bytes::deserialize(d)?;
        u32::try_from(bytes).map(Some).map_err(|_| D::Error::custom("an ECC step is smaller than 4 GiB"))
    }
}

/// What a chip asks for: `strength` bits per `step_bytes` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EccRequirement {
    /// Bits per step.
    pub strength: u32,
    /// Bytes per step.
    pub step_bytes: u32,
}

/// Result of a correction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrected {
    /// Most bits corrected in one step.
    pub max: u32,
    /// All bits corrected.
    pub total: u32,
}

/// A step held more wrong bits than the code corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncorrectable;

/// What is known of a page that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRead<'a> {
    /// Its bytes: they are decoded.
    Bytes,
    /// It is a codeword, without any wrong bit: decoding would find nothing.
    Clean,
    /// There are no bytes, but these bits of the page are wrong (offsets, ascending, OOB after the data).
    Counted(&'a [u32]),
}

/// An engine set up for one chip.
#[derive(Clone, Debug)]
pub struct EccEngine {
    profile: EccProfile,
    requirement: EccRequirement,
    timeline: Timeline,
    code: Option<Arc<PageCode>>,
    scratch: Scratch,
}

impl EccEngine {
    /// Sets up an engine: the profile's own strength and step win over what the chip asks for.
    pub fn new(profile: EccProfile, chip: EccRequirement) -> Self {
        let requirement = EccRequirement {
            strength: profile.strength.unwrap_or(chip.strength),
            step_bytes: profile.step_bytes.unwrap_or(chip.step_bytes).max(1),
        };
        Self { profile, requirement, timeline: Timeline::default(), code: None, scratch: Scratch::default() }
    }

    /// Sets up the code for pages of these sizes, where correction happens on the host's side.
    ///
    /// # Errors
    /// When there is no such code, or its bytes find no place in the OOB.
    pub fn set_up(&mut self, page_bytes: u32, oob_bytes: u32) -> Result<(), PageCodeError> {
        if self.on_host() {
            let code = PageCode::linux(self.requirement, page_bytes, oob_bytes)?;
            self.scratch = code.scratch();
            self.code = Some(Arc::new(code));
        }
        Ok(())
    }

    /// The code in force, where correction happens on the host's side.
    pub fn code(&self) -> Option<&PageCode> {
        self.code.as_deref()
    }

    /// Where the ECC is computed.
    pub const fn kind(&self) -> EngineKind {
        self.profile.engine
    }

    /// Strength and step in force; strength 0 without an engine.
    pub const fn requirement(&self) -> EccRequirement {
        match self.profile.engine {
            EngineKind::None => EccRequirement { strength: 0, step_bytes: 0 },
            _ => self.requirement,
        }
    }

    /// Whether correction happens on the host's side of the bus.
    pub const fn on_host(&self) -> bool {
        !matches!(self.profile.engine, EngineKind::None | EngineKind::OnDie)
    }

    /// Before a page of `bytes` is programmed: encodes.
    #[inline]
    pub fn prepare(&mut self, host: &mut Host, bytes: u32) {
        self.work(host, bytes, self.profile.encode_ns_per_kb, "ECC encode");
    }

    /// Before a page is programmed: puts the ECC bytes of `data` into `oob`. [`Self::prepare`] takes the time.
    pub fn encode(&mut self, data: &[u8], oob: &mut [u8]) {
        if let Some(code) = &self.code {
            code.encode(data, oob, &mut self.scratch);
        }
    }

    /// After a page was read: corrects `data`, and the ECC bytes in `oob`.
    ///
    /// # Errors
    /// [`Uncorrectable`] when any step holds too many wrong bits; the other steps are corrected all the same.
    #[inline]
    pub fn decode(
        &mut self,
        host: &mut Host,
        data: &mut [u8],
        oob: &mut [u8],
        read: PageRead<'_>,
    ) -> Result<Corrected, Uncorrectable> {
        self.work(host, data.len() as u32, self.profile.decode_ns_per_kb, "ECC decode");
        match read {
            PageRead::Clean | PageRead::Counted([]) => Ok(Corrected::default()),
            PageRead::Bytes | PageRead::Counted(_) => self.correct_page(host, data, oob, read),
        }
    }

    #[cold]
    fn correct_page(
        &mut self,
        host: &mut Host,
        data: &mut [u8],
        oob: &mut [u8],
        read: PageRead<'_>,
    ) -> Result<Corrected, Uncorrectable> {
        let Some(code) = &self.code else { return Ok(Corrected::default()) };
        let tally = match read {
            PageRead::Counted(wrong) => code.count(wrong, &mut self.scratch),
            PageRead::Bytes | PageRead::Clean => code.decode(data, oob, &mut self.scratch),
        };
        self.book_correction(host, tally.corrected.total);
        if tally.lost_steps == 0 { Ok(self.reported(tally.corrected)) } else { Err(Uncorrectable) }
    }

    /// What the engine tells of a correction.
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
        host.spend(resource, Phase::Ecc, self.profile.correct_us_per_bit * u64::from(bits), "ECC correct");
    }

    #[inline]
    fn work(&mut self, host: &mut Host, bytes: u32, ns_per_kb: u32, what: &'static str) {
        let length = Nanos::from_ns(u64::from(bytes) * u64::from(ns_per_kb) / 1000);
        match self.profile.engine {
            EngineKind::None | EngineKind::OnDie => {}
            EngineKind::Pipelined => host.spend(Resource::Ecc, Phase::Ecc, self.profile.setup_us, what),
            EngineKind::Software => {
                host.spend(Resource::Cpu, Phase::Ecc, self.profile.setup_us + length, what);
            }
            EngineKind::External => {
                let (_, end) = self.timeline.reserve(host.now(), self.profile.setup_us + length);
                host.wait_until(end, Resource::Ecc, Phase::Ecc, what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_costs_cpu_time_and_on_die_none() {
        let chip = EccRequirement { strength: 4, step_bytes: 512 };
        let soft =
            EccProfile { engine: EngineKind::Software, decode_ns_per_kb: 1000, ..EccProfile::default() };
        let mut host = Host::default();
        EccEngine::new(soft, chip).decode(&mut host, &mut [0; 2000], &mut [], PageRead::Clean).unwrap();
        assert_eq!(host.spent()[Phase::Ecc], Nanos::from_us(2));
        EccEngine::new(EccProfile::default(), chip).prepare(&mut host, 2000);
        assert_eq!(host.spent().total(), Nanos::from_us(2));
    }

    #[test]
    fn engines_tell_what_they_can() {
        let told = |reports, wrong: u32| {
            let profile = EccProfile { engine: EngineKind::Pipelined, reports, ..EccProfile::default() };
            let mut engine = EccEngine::new(profile, EccRequirement { strength: 8, step_bytes: 512 });
            engine.set_up(2048, 64).unwrap();
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
