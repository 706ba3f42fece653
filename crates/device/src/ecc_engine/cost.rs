//! The cost of an engine: explicit values of the setup, or values of the host.
//!
//! The software engine's costs are numbers of CPU cycles, if the host states them (BCH), or numbers of instructions multiplied by the
//! host's time for one instruction. The numbers are those of Linux's own code (lib/bch.c, ecc-sw-hamming.c of 6.12);
//! docs/performance.md describes how they were determined.

use super::{EccProfile, EngineKind};
use crate::host::HostProfile;
use floatgate_ecc::Code;
use floatgate_mtd::Nanos;

/// Times of an engine with a code on a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Fixed time per page, independent of its length.
    pub(super) setup: Nanos,
    /// Time to encode a byte, ps.
    pub(super) encode_ps_per_byte: u64,
    /// Time to decode a byte without wrong bits, ps.
    pub(super) decode_ps_per_byte: u64,
    /// Time to find and correct one wrong bit.
    pub(super) correct_bit: Nanos,
}

/// Number of 32-bit words that the ECC bytes of a step fill. The software engine updates all of them for each word of
/// data.
fn ecc_words(code: Code) -> u32 {
    code.ecc_bytes().div_ceil(4)
}

/// Numbers of instructions of Linux's software engines for a code.
struct Instructions {
    /// Instructions per KiB. Decoding without a wrong bit costs the same as encoding: the engine encodes the data that was read,
    /// and compares the ECC bytes.
    per_kib: u64,
    /// Instructions per wrong bit.
    per_wrong_bit: u64,
}

impl Instructions {
    fn of(code: Code) -> Self {
        match code {
            code if code.is_hamming() => {
                Self { per_kib: 1_176 + 172 * 1024 / u64::from(code.step_bytes().max(1)), per_wrong_bit: 50 }
            }
            _ => {
                let per_wrong_bit = 450 * u64::from(code.strength());
                Self { per_kib: 7_234 + 2_328 * u64::from(ecc_words(code)), per_wrong_bit }
            }
        }
    }
}

/// Time in which the software engine encodes a byte, ps.
fn software_ps_per_byte(code: Code, host: &HostProfile) -> u64 {
    let counted = match code {
        Code::Bch { .. } | Code::BchOver { .. } => host.bch.ps_per_kib(ecc_words(code)),
        _ => None,
    };
    let per_kib = counted.unwrap_or_else(|| Instructions::of(code).per_kib * u64::from(host.instruction_ps));
    (per_kib / 1024).min(u32::MAX.into())
}

impl Cost {
    /// Costs of `code`: the values of the setup, or otherwise those of the host.
    pub(super) fn of(profile: &EccProfile, code: Code, host: &HostProfile) -> Self {
        let (setup, ps_per_byte, correct_bit) = match profile.engine {
            EngineKind::Software => {
                let ps = Instructions::of(code).per_wrong_bit * u64::from(host.instruction_ps);
                (Nanos::ZERO, software_ps_per_byte(code, host), Nanos::from_ns(ps / 1000))
            }
            EngineKind::External => (
                host.external_ecc.setup_us + host.wakeup_us,
                u64::from(host.external_ecc.ns_per_kb),
                Nanos::ZERO,
            ),
            EngineKind::None | EngineKind::OnDie | EngineKind::Pipelined => (Nanos::ZERO, 0, Nanos::ZERO),
        };
        Self {
            setup: profile.setup_us.unwrap_or(setup),
            encode_ps_per_byte: profile.encode_ns_per_kb.map_or(ps_per_byte, u64::from),
            decode_ps_per_byte: profile.decode_ns_per_kb.map_or(ps_per_byte, u64::from),
            correct_bit: profile.correct_us_per_bit.unwrap_or(correct_bit),
        }
    }

    /// Times to encode and to decode a KiB, us, without the set-up of a page.
    pub(super) fn us_per_kib(&self) -> (f64, f64) {
        let us = |ps_per_byte: u64| ps_per_byte as f64 * 1024.0 / 1e6;
        (us(self.encode_ps_per_byte), us(self.decode_ps_per_byte))
    }
}
