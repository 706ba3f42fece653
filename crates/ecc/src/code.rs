//! Codes by name, and their sizes.

use core::fmt;
use core::str::FromStr;

/// Most bits a BCH code here corrects per step.
pub const MAX_STRENGTH: u32 = 72;

/// Degrees of the fields that BCH codes are built over.
pub(crate) const DEGREES: core::ops::RangeInclusive<u32> = 5..=15;

/// Bytes of a Hamming code over a step of `step_bytes` (256 or 512): three, whichever it is (SmartMedia specification;
/// facts 5).
pub const fn hamming_bytes(step_bytes: u32) -> u32 {
    let _ = step_bytes;
    3
}

/// Degree m of the field of a BCH code over a step of `step_bytes`: the smallest in which data and check bits fit has
/// 2^m > 8 * `step_bytes` + 1 elements: m is 13 for 512 bytes, 14 for 1024 (facts 5).
pub(crate) const fn bch_degree(step_bytes: u32) -> u32 {
    32 - step_bytes.saturating_mul(8).saturating_add(1).leading_zeros()
}

/// Bytes of a binary BCH code that corrects `strength` bits in a step of `step_bytes`: `strength` times the field's degree
/// m, in whole bytes.
pub const fn bch_bytes(step_bytes: u32, strength: u32) -> u32 {
    bch_degree(step_bytes).saturating_mul(strength).div_ceil(8)
}

/// A code, as users write it: `hamming/256`, `hamming/512`, `bch8/512`, `bch24/1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// One bit per step, two are detected.
    Hamming {
        /// Data bytes per step: 256 or 512.
        step_bytes: u32,
    },
    /// Binary Bose-Chaudhuri-Hocquenghem code.
    Bch {
        /// Bits corrected per step.
        strength: u32,
        /// Data bytes per step.
        step_bytes: u32,
    },
}

impl Code {
    /// Data bytes per step.
    pub const fn step_bytes(self) -> u32 {
        match self {
            Self::Hamming { step_bytes } | Self::Bch { step_bytes, .. } => step_bytes,
        }
    }

    /// Bits corrected per step.
    pub const fn strength(self) -> u32 {
        match self {
            Self::Hamming { .. } => 1,
            Self::Bch { strength, .. } => strength,
        }
    }

    /// ECC bytes per step.
    pub const fn ecc_bytes(self) -> u32 {
        match self {
            Self::Hamming { step_bytes } => hamming_bytes(step_bytes),
            Self::Bch { strength, step_bytes } => bch_bytes(step_bytes, strength),
        }
    }

    /// Whether there is such a code.
    ///
    /// # Errors
    /// What is wrong with step or strength.
    pub fn check(self) -> Result<(), CodeError> {
        match self {
            Self::Hamming { step_bytes: 256 | 512 } => Ok(()),
            Self::Hamming { step_bytes } => Err(CodeError::Step { step_bytes }),
            Self::Bch { strength, step_bytes } => {
                let degree = bch_degree(step_bytes);
                if !DEGREES.contains(&degree) {
                    return Err(CodeError::Step { step_bytes });
                }
                check_bch(degree, strength)?;
                let (bits, most) = (8 * step_bytes + degree * strength, (1 << degree) - 1);
                if bits > most { Err(CodeError::TooLong { bits, most }) } else { Ok(()) }
            }
        }
    }
}

/// Whether a BCH code over a field of 2^`degree` elements can correct `strength` bits.
pub(crate) fn check_bch(degree: u32, strength: u32) -> Result<(), CodeError> {
    if !DEGREES.contains(&degree) {
        return Err(CodeError::Field { degree });
    }
    if !(1..=MAX_STRENGTH).contains(&strength) {
        return Err(CodeError::Strength { strength });
    }
    let (bits, most) = (degree * strength + 8, (1 << degree) - 1);
    if bits > most { Err(CodeError::TooLong { bits, most }) } else { Ok(()) }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hamming { step_bytes } => write!(f, "hamming/{step_bytes}"),
            Self::Bch { strength, step_bytes } => write!(f, "bch{strength}/{step_bytes}"),
        }
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let (name, step) = text.split_once('/').ok_or(CodeError::Form)?;
        let step_bytes = number(step)?;
        let code = match name.strip_prefix("bch") {
            Some(strength) => Self::Bch { strength: number(strength)?, step_bytes },
            None if name == "hamming" => Self::Hamming { step_bytes },
            None => return Err(CodeError::Form),
        };
        code.check()?;
        Ok(code)
    }
}

/// Digits only: `u32::from_str` would take a sign.
fn number(text: &str) -> Result<u32, CodeError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(CodeError::Form)
}

/// Why there is no such code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Not the name of a code.
    #[error("not a code: write hamming/256, hamming/512 or bch<bits>/<step bytes>, such as bch8/512")]
    Form,
    /// No code for steps of this size.
    #[error("no code for a step of {step_bytes} bytes: Hamming takes 256 or 512, BCH 2 to 4095")]
    Step {
        /// Data bytes per step.
        step_bytes: u32,
    },
    /// No BCH code of this strength.
    #[error("BCH codes correct 1 to {MAX_STRENGTH} bits, not {strength}")]
    Strength {
        /// Bits per step.
        strength: u32,
    },
    /// No such field.
    #[error("BCH codes are built over fields of degree 5 to 15, not {degree}")]
    Field {
        /// Degree m of the field of 2^m elements.
        degree: u32,
    },
    /// The polynomial does not generate a field.
    #[error("the polynomial {polynomial:#x} is not primitive")]
    NotPrimitive {
        /// Its coefficients as bits.
        polynomial: u32,
    },
    /// Data and check bits are more than a codeword has.
    #[error("{bits} data and check bits do not fit into a codeword of {most}")]
    TooLong {
        /// Data and check bits.
        bits: u32,
        /// Bits of a codeword: 2^m - 1.
        most: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Facts 5: 4 bits need 7 bytes, 8 need 13, 16 need 26; over 1 KiB 24 need 42 and 40 need 70.
    #[test]
    fn published_sizes() {
        let sizes = [(512, 4), (512, 8), (512, 16), (1024, 24), (1024, 40)].map(|(s, t)| bch_bytes(s, t));
        assert_eq!(sizes, [7, 13, 26, 42, 70]);
        assert_eq!(hamming_bytes(512), 3);
    }

    #[test]
    fn names_come_back() {
        for name in ["hamming/256", "hamming/512", "bch1/512", "bch8/512", "bch24/1024", "bch72/1024"] {
            let code: Code = name.parse().unwrap();
            assert_eq!(code.to_string(), name);
        }
        let code: Code = "bch24/1024".parse().unwrap();
        assert_eq!((code.step_bytes(), code.strength(), code.ecc_bytes()), (1024, 24, 42));
    }

    #[test]
    fn what_is_no_code_says_why() {
        let parse = |text: &str| text.parse::<Code>().unwrap_err();
        for text in ["", "bch8", "bch/512", "bch8/", "bch+8/512", "BCH8/512", "rs8/512", "bch8/512/1"] {
            assert_eq!(parse(text), CodeError::Form, "{text}");
        }
        assert_eq!(parse("hamming/1024"), CodeError::Step { step_bytes: 1024 });
        assert_eq!(parse("bch8/4096"), CodeError::Step { step_bytes: 4096 });
        assert_eq!(parse("bch8/1"), CodeError::Step { step_bytes: 1 });
        assert_eq!(parse("bch8/4294967295"), CodeError::Step { step_bytes: u32::MAX });
        assert_eq!(parse("bch0/512"), CodeError::Strength { strength: 0 });
        assert_eq!(parse("bch73/512"), CodeError::Strength { strength: 73 });
        assert_eq!(parse("bch8/1023"), CodeError::TooLong { bits: 8184 + 104, most: 8191 });
    }
}
