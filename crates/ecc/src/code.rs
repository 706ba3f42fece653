//! Names and sizes of error-correcting codes.

use crate::bch::field;
use crate::form::{POLYNOMIAL_9, POLYNOMIALS_9, RsForm};
use core::fmt;
use core::str::FromStr;

/// Maximum number of bits that a BCH code corrects per step.
pub const MAX_STRENGTH: u32 = 72;

/// Size of the ECC bytes of a Hamming code over a step of `step_bytes` (256 or 512), B: three for both (SmartMedia specification; facts 5).
pub const fn hamming_bytes(step_bytes: u32) -> u32 {
    let _ = step_bytes;
    3
}

/// Degree m of the field of a BCH code over a step of `step_bytes`.
///
/// It is the smallest m with 2^m > 8 * `step_bytes` + 1, so that data and check bits fit: 13 for 512 bytes, 14 for 1024 (facts 5).
pub(crate) const fn bch_degree(step_bytes: u32) -> u32 {
    32 - step_bytes.saturating_mul(8).saturating_add(1).leading_zeros()
}

/// Size of the ECC bytes of a binary BCH code that corrects `strength` bits in a step of `step_bytes`, B. It is `strength` times the
/// field's degree m in bits, rounded up to bytes.
pub const fn bch_bytes(step_bytes: u32, strength: u32) -> u32 {
    bch_degree(step_bytes).saturating_mul(strength).div_ceil(8)
}

/// An error-correcting code. Its text form is `hamming/256`, `hamming/512`, `hamming-smartmedia/256`, `bch8/512`, `bch24/1024`; with a
/// field that is not Linux's default: `bch24/1024@17475` (or `@0x4443`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Hamming code, which corrects one bit per step and detects two.
    Hamming {
        /// Data bytes per step: 256 or 512.
        step_bytes: u32,
    },
    /// The Hamming code with its first two ECC bytes in the order of the SmartMedia specification (Linux:
    /// `CONFIG_MTD_NAND_ECC_SW_HAMMING_SMC`).
    HammingSmartMedia {
        /// Data bytes per step: 256 or 512.
        step_bytes: u32,
    },
    /// Hamming code over 512 bytes whose parities are stored as two words of 12 bits, as in hardware engines.
    HammingWords {
        /// Arrangement of the parities in the words.
        order: ParityOrder,
    },
    /// Reed-Solomon code of a controller.
    ReedSolomon {
        /// Symbols corrected per step.
        strength: u32,
        /// Data bytes per step.
        step_bytes: u32,
        /// Symbols and their order.
        form: RsForm,
    },
    /// Binary Bose-Chaudhuri-Hocquenghem code over the field of Linux's default polynomial.
    Bch {
        /// Bits corrected per step.
        strength: u32,
        /// Data bytes per step.
        step_bytes: u32,
    },
    /// BCH code over the field of another polynomial. [`Code::bch_over`] creates it; for Linux's default polynomial it returns
    /// [`Code::Bch`].
    BchOver {
        /// Bits corrected per step.
        strength: u32,
        /// Data bytes per step.
        step_bytes: u32,
        /// Primitive polynomial of the field, with coefficients as bits: 17475 (0x4443) is x^14 + x^10 + x^6 + x + 1.
        polynomial: u32,
    },
}

/// Arrangement of the parities of a Hamming code over 512 bytes. In data sheets, "odd" parities are those of the half of a step where
/// an address bit is 1; "even" parities are those of the half where it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityOrder {
    /// ARM PL35x (Zynq): odd parities in the low 12 bits, even ones above them, inverted.
    Pl35x,
    /// TI DaVinci: even parities in the low 12 bits, odd ones above them, inverted.
    Davinci,
    /// TI OMAP: a byte of even parities, a byte of odd parities, then the upper four bits of both.
    Omap,
}

/// Names of the arrangements in text.
const PARITY_ORDERS: [(&str, ParityOrder); 3] = [
    ("hamming-pl35x", ParityOrder::Pl35x),
    ("hamming-davinci", ParityOrder::Davinci),
    ("hamming-omap", ParityOrder::Omap),
];

/// Names of the forms of Reed-Solomon codes, which follow the strength.
const RS_FORMS: [(&str, RsForm); 5] = [
    ("", RsForm::Qualcomm),
    ("-davinci", RsForm::Davinci),
    ("-kirkwood", RsForm::Kirkwood),
    ("-packed", RsForm::Packed { polynomial: POLYNOMIAL_9, is_full: false }),
    ("-full", RsForm::Packed { polynomial: POLYNOMIAL_9, is_full: true }),
];

/// Data bytes of a step of [`Code::HammingWords`].
const WORDS_STEP: u32 = 512;

impl Code {
    /// True for Hamming codes, which correct one bit.
    pub const fn is_hamming(self) -> bool {
        matches!(self, Self::Hamming { .. } | Self::HammingSmartMedia { .. } | Self::HammingWords { .. })
    }

    /// A BCH code over the field of a primitive polynomial; it is [`Code::Bch`] if that polynomial is Linux's default for the step.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
    pub fn bch_over(strength: u32, step_bytes: u32, polynomial: u32) -> Result<Self, CodeError> {
        let code = match Self::is_default(step_bytes, polynomial) {
            true => Self::Bch { strength, step_bytes },
            false => Self::BchOver { strength, step_bytes, polynomial },
        };
        code.check()?;
        Ok(code)
    }

    fn is_default(step_bytes: u32, polynomial: u32) -> bool {
        field::linux_polynomial(bch_degree(step_bytes)) == Ok(polynomial)
    }

    /// Polynomial of a BCH code's field; `None` for other codes.
    pub(crate) fn polynomial(self) -> Result<Option<u32>, CodeError> {
        match self {
            Self::Hamming { .. }
            | Self::HammingSmartMedia { .. }
            | Self::HammingWords { .. }
            | Self::ReedSolomon { .. } => Ok(None),
            Self::Bch { step_bytes, .. } => field::linux_polynomial(bch_degree(step_bytes)).map(Some),
            Self::BchOver { polynomial, .. } => Ok(Some(polynomial)),
        }
    }

    /// Data bytes per step.
    pub const fn step_bytes(self) -> u32 {
        match self {
            Self::HammingWords { .. } => WORDS_STEP,
            Self::Hamming { step_bytes }
            | Self::HammingSmartMedia { step_bytes }
            | Self::ReedSolomon { step_bytes, .. }
            | Self::Bch { step_bytes, .. }
            | Self::BchOver { step_bytes, .. } => step_bytes,
        }
    }

    /// Bits corrected per step; symbols of a Reed-Solomon code.
    pub const fn strength(self) -> u32 {
        match self {
            Self::Hamming { .. } | Self::HammingSmartMedia { .. } | Self::HammingWords { .. } => 1,
            Self::ReedSolomon { strength, .. }
            | Self::Bch { strength, .. }
            | Self::BchOver { strength, .. } => strength,
        }
    }

    /// ECC bytes per step.
    pub const fn ecc_bytes(self) -> u32 {
        match self {
            Self::Hamming { step_bytes } | Self::HammingSmartMedia { step_bytes } => {
                hamming_bytes(step_bytes)
            }
            Self::HammingWords { .. } => hamming_bytes(WORDS_STEP),
            Self::ReedSolomon { strength, form, .. } => form.check_bits(strength).div_ceil(8),
            Self::Bch { strength, .. } | Self::BchOver { strength, .. } => {
                strength.saturating_mul(self.degree()).div_ceil(8)
            }
        }
    }

    /// Degree m of the field of a BCH code; 0 for other codes.
    pub const fn degree(self) -> u32 {
        match self {
            Self::Hamming { .. }
            | Self::HammingSmartMedia { .. }
            | Self::HammingWords { .. }
            | Self::ReedSolomon { .. } => 0,
            Self::Bch { step_bytes, .. } => bch_degree(step_bytes),
            Self::BchOver { polynomial: 0, .. } => 0,
            Self::BchOver { polynomial, .. } => polynomial.ilog2(),
        }
    }

    /// Number of check bits per step: the ECC bytes without the padding of the last one.
    pub const fn ecc_bits(self) -> u32 {
        match self {
            Self::Hamming { .. } | Self::HammingSmartMedia { .. } | Self::HammingWords { .. } => {
                8 * self.ecc_bytes()
            }
            Self::ReedSolomon { strength, form, .. } => form.check_bits(strength),
            Self::Bch { strength, .. } | Self::BchOver { strength, .. } => {
                strength.saturating_mul(self.degree())
            }
        }
    }

    /// Checks that the code is possible.
    ///
    /// # Errors
    /// The first invalid value of step, strength or polynomial.
    pub fn check(self) -> Result<(), CodeError> {
        match self {
            Self::Hamming { step_bytes } | Self::HammingSmartMedia { step_bytes } => match step_bytes {
                256 | 512 => Ok(()),
                _ => Err(CodeError::Step { step_bytes }),
            },
            Self::HammingWords { .. } => Ok(()),
            Self::ReedSolomon { strength, step_bytes, form } => {
                check_rs(strength, form)?;
                check_rs_message(strength, form, step_bytes)
            }
            Self::Bch { strength, step_bytes } => check_step(bch_degree(step_bytes), step_bytes, strength),
            Self::BchOver { strength, step_bytes, polynomial } => {
                check_polynomial(step_bytes, polynomial)?;
                check_step(self.degree(), step_bytes, strength)
            }
        }
    }
}

fn check_step(degree: u32, step_bytes: u32, strength: u32) -> Result<(), CodeError> {
    if !field::DEGREES.contains(&degree) {
        return Err(CodeError::Step { step_bytes });
    }
    check_bch(degree, strength)?;
    check_length(degree, step_bytes, strength)
}

/// Checks that `bytes` of data and their check bits fit into a codeword.
pub(crate) fn check_length(degree: u32, bytes: u32, strength: u32) -> Result<(), CodeError> {
    let (bits, most) = (bytes.saturating_mul(8).saturating_add(degree * strength), (1 << degree) - 1);
    if bits > most { Err(CodeError::TooLong { bits, most }) } else { Ok(()) }
}

fn check_rs(strength: u32, form: RsForm) -> Result<(), CodeError> {
    let is_known = match form {
        RsForm::Packed { polynomial, .. } => POLYNOMIALS_9.contains(&polynomial),
        RsForm::Qualcomm | RsForm::Davinci | RsForm::Kirkwood => true,
    };
    if is_known && form.has_strength(strength) { Ok(()) } else { Err(CodeError::Form) }
}

/// Checks that a message fits into a codeword of a Reed-Solomon code.
pub(crate) const fn check_rs_message(strength: u32, form: RsForm, step_bytes: u32) -> Result<(), CodeError> {
    if step_bytes == 0 || step_bytes > form.max_message(strength) {
        Err(CodeError::Step { step_bytes })
    } else {
        Ok(())
    }
}

fn check_polynomial(step_bytes: u32, polynomial: u32) -> Result<(), CodeError> {
    let (degree, needs) = (field::degree(polynomial), bch_degree(step_bytes));
    if !field::DEGREES.contains(&needs) {
        return Err(CodeError::Step { step_bytes });
    }
    if degree < needs {
        return Err(CodeError::Degree { polynomial, degree, step_bytes, needs });
    }
    field::check_primitive(polynomial).map(|_| ())
}

/// Checks that a BCH code over a field of 2^`degree` elements can correct `strength` bits.
pub(crate) fn check_bch(degree: u32, strength: u32) -> Result<(), CodeError> {
    if !field::DEGREES.contains(&degree) {
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
            Self::HammingSmartMedia { step_bytes } => write!(f, "hamming-smartmedia/{step_bytes}"),
            Self::HammingWords { order } => {
                let name =
                    PARITY_ORDERS.iter().find(|(_, other)| other == order).map_or("", |(name, _)| name);
                write!(f, "{name}/{WORDS_STEP}")
            }
            Self::ReedSolomon { strength, step_bytes, form } => {
                let usual = form.with_polynomial(POLYNOMIAL_9);
                let name = RS_FORMS.iter().find(|(_, other)| *other == usual).map_or("", |(name, _)| name);
                write!(f, "rs{strength}{name}/{step_bytes}")?;
                match form {
                    RsForm::Packed { polynomial, .. } if *polynomial != POLYNOMIAL_9 => {
                        write!(f, "@{polynomial}")
                    }
                    _ => Ok(()),
                }
            }
            Self::BchOver { strength, step_bytes, polynomial }
                if !Self::is_default(*step_bytes, *polynomial) =>
            {
                write!(f, "bch{strength}/{step_bytes}@{polynomial}")
            }
            Self::Bch { strength, step_bytes } | Self::BchOver { strength, step_bytes, .. } => {
                write!(f, "bch{strength}/{step_bytes}")
            }
        }
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let (name, step) = text.split_once('/').ok_or(CodeError::Form)?;
        let (step, polynomial) = match step.split_once('@') {
            Some((step, polynomial)) => (step, Some(any_number(polynomial)?)),
            None => (step, None),
        };
        let step_bytes = number(step)?;
        if let Some(name) = name.strip_prefix("rs") {
            return reed_solomon(name, step_bytes, polynomial);
        }
        let code = match (name.strip_prefix("bch"), polynomial) {
            (Some(strength), Some(polynomial)) => {
                return Self::bch_over(number(strength)?, step_bytes, polynomial);
            }
            (Some(strength), None) => Self::Bch { strength: number(strength)?, step_bytes },
            (None, None) if name == "hamming" => Self::Hamming { step_bytes },
            (None, None) if name == "hamming-smartmedia" => Self::HammingSmartMedia { step_bytes },
            (None, None) if step_bytes == WORDS_STEP => {
                let order = PARITY_ORDERS.iter().find(|(other, _)| *other == name);
                order.map(|(_, order)| Self::HammingWords { order: *order }).ok_or(CodeError::Form)?
            }
            _ => return Err(CodeError::Form),
        };
        code.check()?;
        Ok(code)
    }
}

/// The Reed-Solomon code of the name behind `rs`.
fn reed_solomon(name: &str, step_bytes: u32, polynomial: Option<u32>) -> Result<Code, CodeError> {
    let digits = name.find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(name.len());
    let (strength, form) = name.split_at(digits);
    let (_, form) = RS_FORMS.into_iter().find(|(other, _)| *other == form).ok_or(CodeError::Form)?;
    let form = match (form, polynomial) {
        (RsForm::Packed { .. }, Some(polynomial)) => {
            form.with_polynomial(u16::try_from(polynomial).map_err(|_| CodeError::Form)?)
        }
        (_, None) => form,
        (_, Some(_)) => return Err(CodeError::Form),
    };
    let code = Code::ReedSolomon { strength: number(strength)?, step_bytes, form };
    code.check()?;
    Ok(code)
}

/// Digits only: `u32::from_str` would accept a sign.
fn number(text: &str) -> Result<u32, CodeError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(CodeError::Form)
}

/// Parses a decimal number, or a hexadecimal one after 0x.
fn any_number(text: &str) -> Result<u32, CodeError> {
    let Some(hex) = text.strip_prefix("0x") else { return number(text) };
    let digits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(hex, 16).ok().filter(|_| digits).ok_or(CodeError::Form)
}

/// The step has more errors than the code corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more bit errors than the code corrects")]
pub struct Uncorrectable;

/// Reason why a code is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The text is not the name of a code.
    #[error(
        "not a code: write hamming/256, hamming/512, hamming-smartmedia/256, hamming-pl35x/512, hamming-davinci/512, hamming-omap/512, rs4/512, rs4-davinci/512, rs4-kirkwood/512, rs<symbols>-packed/512, rs<symbols>-full/512 or bch<bits>/<step bytes>[@<polynomial>], such as bch8/512"
    )]
    Form,
    /// The code does not support steps of this size.
    #[error(
        "no code for a step of {step_bytes} B: Hamming takes 256 or 512, BCH 2 to 4095, Reed-Solomon 1 to 1015, or 1 to 556 where it is packed"
    )]
    Step {
        /// Data bytes per step.
        step_bytes: u32,
    },
    /// There is no BCH code of this strength.
    #[error("BCH codes correct 1 to {MAX_STRENGTH} bits, not {strength}")]
    Strength {
        /// Number of bits to correct per step.
        strength: u32,
    },
    /// There is no field of this degree.
    #[error("BCH codes are built over fields of degree 5 to 15, not {degree}")]
    Field {
        /// Degree m of the field of 2^m elements.
        degree: u32,
    },
    /// The polynomial does not generate a field.
    #[error("the polynomial {polynomial} ({polynomial:#x}) is not primitive")]
    NotPrimitive {
        /// Coefficients of the polynomial as bits.
        polynomial: u32,
    },
    /// The polynomial's field is too small for a step.
    #[error(
        "the polynomial {polynomial} ({polynomial:#x}) has degree {degree}; a step of {step_bytes} bytes needs at least {needs}"
    )]
    Degree {
        /// Coefficients of the polynomial as bits.
        polynomial: u32,
        /// Degree of the polynomial.
        degree: u32,
        /// Data bytes per step.
        step_bytes: u32,
        /// Minimum degree m of the field for this step.
        needs: u32,
    },
    /// Data and check bits exceed the length of a codeword.
    #[error("{bits} data and check bits do not fit into a codeword of {most}")]
    TooLong {
        /// Number of data and check bits.
        bits: u32,
        /// Length of a codeword, bits: 2^m - 1.
        most: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Sizes published in facts 5: over 512 bytes, 4 bits need 7 bytes, 8 need 13, 16 need 26; over 1 KiB, 24 bits need 42 bytes and 40
    /// need 70.
    #[test]
    fn published_sizes() {
        let sizes = [(512, 4), (512, 8), (512, 16), (1024, 24), (1024, 40)].map(|(s, t)| bch_bytes(s, t));
        assert_eq!(sizes, [7, 13, 26, 42, 70]);
        assert_eq!(hamming_bytes(512), 3);
    }

    #[test]
    fn names_come_back() {
        for name in [
            "hamming/256",
            "hamming/512",
            "hamming-smartmedia/256",
            "bch1/512",
            "bch8/512",
            "bch24/1024",
            "bch72/1024",
            "hamming-pl35x/512",
            "hamming-davinci/512",
            "hamming-omap/512",
            "rs4/512",
            "rs4-davinci/512",
            "rs4-kirkwood/512",
            "rs4-full/512",
            "rs8-packed/512",
            "rs6-packed/512@545",
        ] {
            let code: Code = name.parse().unwrap();
            assert_eq!(code.to_string(), name);
        }
        let code: Code = "bch24/1024".parse().unwrap();
        assert_eq!((code.step_bytes(), code.strength(), code.ecc_bytes()), (1024, 24, 42));
        let bytes = |name: &str| name.parse::<Code>().unwrap().ecc_bytes();
        assert_eq!(
            ["rs4/512", "rs4-full/512", "rs6-packed/512", "rs8-packed/512"].map(bytes),
            [10, 9, 14, 18]
        );
    }

    #[test]
    fn polynomials_are_named_where_they_differ_from_linux() {
        let parse = |text: &str| text.parse::<Code>().unwrap();
        let other = Code::BchOver { strength: 24, step_bytes: 1024, polynomial: 17475 };
        assert_eq!(parse("bch24/1024@17475"), other);
        assert_eq!(parse("bch24/1024@0x4443"), other);
        assert_eq!(other.to_string(), "bch24/1024@17475");
        assert_eq!((other.step_bytes(), other.strength(), other.ecc_bytes()), (1024, 24, 42));
        for (text, plain) in [
            ("bch24/1024@16427", "bch24/1024"),
            ("bch24/1024@0x402b", "bch24/1024"),
            ("bch24/1024@0x402B", "bch24/1024"),
            ("bch8/512@8219", "bch8/512"),
        ] {
            assert_eq!((parse(text), parse(text).to_string().as_str()), (parse(plain), plain));
        }
        let built = Code::BchOver { strength: 8, step_bytes: 512, polynomial: 0x201B };
        assert_eq!(built.to_string(), "bch8/512");
    }

    #[test]
    fn polynomials_of_no_such_field_say_why() {
        let parse = |text: &str| text.parse::<Code>().unwrap_err();
        for text in [
            "bch24/1024@",
            "bch24/1024@0x",
            "bch24/1024@+17475",
            "bch24/1024@0x+4443",
            "bch24/1024@4443h",
            "bch24/1024@17475@17475",
            "bch24@17475/1024",
            "hamming/512@8219",
            "bch24/1024@99999999999",
        ] {
            assert_eq!(parse(text), CodeError::Form, "{text}");
        }
        let degree = |polynomial, degree, step_bytes, needs| CodeError::Degree {
            polynomial,
            degree,
            step_bytes,
            needs,
        };
        assert_eq!(parse("bch8/1024@8219"), degree(8219, 13, 1024, 14));
        assert_eq!(parse("bch24/1024@8219"), degree(8219, 13, 1024, 14));
        assert_eq!(parse("bch24/1024@0"), degree(0, 0, 1024, 14));
        assert_eq!(parse("bch24/1024@0xffffffff"), CodeError::Field { degree: 31 });
        // x^14 has only the root 0; (x^7 + 1)^2 has the root 1.
        for polynomial in [0x4000, 0x4001] {
            let name = alloc::format!("bch24/1024@{polynomial}");
            assert_eq!(parse(&name), CodeError::NotPrimitive { polynomial }, "{name}");
        }
        assert_eq!(parse("bch73/1024@17475"), CodeError::Strength { strength: 73 });
        assert_eq!(parse("bch8/4096@17475"), CodeError::Step { step_bytes: 4096 });
        assert_eq!(
            parse("bch8/1024@8219").to_string(),
            "the polynomial 8219 (0x201b) has degree 13; a step of 1024 bytes needs at least 14"
        );
    }

    #[test]
    fn what_is_no_code_says_why() {
        let parse = |text: &str| text.parse::<Code>().unwrap_err();
        for text in [
            "",
            "bch8",
            "bch/512",
            "bch8/",
            "bch+8/512",
            "BCH8/512",
            "rs8/512",
            "rs/512",
            "rs4/512@529",
            "rs5-packed/512",
            "rs4-packed/512@1033",
            "rs4-other/512",
            "bch8/512/1",
        ] {
            assert_eq!(parse(text), CodeError::Form, "{text}");
        }
        assert_eq!(parse("hamming/1024"), CodeError::Step { step_bytes: 1024 });
        assert_eq!(parse("bch8/4096"), CodeError::Step { step_bytes: 4096 });
        assert_eq!(parse("bch8/1"), CodeError::Step { step_bytes: 1 });
        assert_eq!(parse("bch8/4294967295"), CodeError::Step { step_bytes: u32::MAX });
        assert_eq!(parse("bch0/512"), CodeError::Strength { strength: 0 });
        assert_eq!(parse("bch73/512"), CodeError::Strength { strength: 73 });
        assert_eq!(parse("rs4-packed/1024"), CodeError::Step { step_bytes: 1024 });
        assert_eq!(parse("bch8/1023"), CodeError::TooLong { bits: 8184 + 104, most: 8191 });
    }
}
