//! Representation of a code on flash: order of bits, mask on the check bits, symbols.

/// Bit order of a byte in a BCH codeword, or of packed symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitOrder {
    /// Highest bit first, as in Linux's software engine.
    #[default]
    Msb,
    /// Lowest bit first, as in most controllers.
    Lsb,
}

/// Mask on the stored check bits of a BCH code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Inversion {
    /// A mask under which an erased step with erased ECC bytes is a codeword, as in Linux's software engine.
    #[default]
    Erased,
    /// No mask: erased steps are not codewords.
    None,
    /// All check bits are inverted.
    All,
}

/// Representation of a BCH code on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Number of bytes that the code covers in addition to the data of a step.
    pub extra_bytes: u32,
    /// Order of the bits in each byte.
    pub bits: BitOrder,
    /// Mask on the stored check bits.
    pub inversion: Inversion,
    /// True if the check bits end with the last bit of the ECC bytes. The remaining bits at the start of the first
    /// ECC byte then belong to the message.
    pub ends_with_check_bits: bool,
}

/// Strengths with packed symbols: those of Tegra's controller (Linux 6.12, tegra_nand.c).
const PACKED_STRENGTHS: [u32; 3] = [4, 6, 8];

/// Field of 10-bit symbols: x^10 + x^3 + 1.
const POLYNOMIAL_10: u16 = 0x409;

/// Usual field of 9-bit symbols: x^9 + x^4 + 1.
pub(crate) const POLYNOMIAL_9: u16 = 0x211;

/// Fields of 9-bit symbols in use: the usual one and its reciprocal, x^9 + x^5 + 1.
pub const POLYNOMIALS_9: [u16; 2] = [POLYNOMIAL_9, 0x221];

/// Symbols of a Reed-Solomon code, and the order in which they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsForm {
    /// Qualcomm: a 10-bit symbol for each byte of the message; the check symbol of the highest power is stored first (qcom-nandc-pagify, which
    /// follows the controller).
    Qualcomm,
    /// TI DaVinci: as Qualcomm, but the check symbol of the lowest power is stored first (SPRUFX7, figure 11-4; TI's genecc).
    Davinci,
    /// Marvell Kirkwood's boot ROM: as DaVinci, with the message from its last byte to the first (OpenOCD, ecc_kw.c).
    Kirkwood,
    /// 9-bit symbols: the bits of the message without gaps, the last symbol filled up with zeros. The check symbol of the highest power is first.
    Packed {
        /// Primitive polynomial of the field, its coefficients as bits.
        polynomial: u16,
        /// True if the message is at the start of the longest codeword, with zeros between it and the check symbols.
        is_full: bool,
    },
}

impl RsForm {
    /// Bits of a symbol.
    pub(crate) const fn symbol_bits(self) -> u32 {
        match self {
            Self::Qualcomm | Self::Davinci | Self::Kirkwood => 10,
            Self::Packed { .. } => 9,
        }
    }

    /// Bits of a symbol of the message that are not always 0.
    pub const fn message_bits(self) -> u32 {
        match self {
            Self::Qualcomm | Self::Davinci | Self::Kirkwood => 8,
            Self::Packed { .. } => 9,
        }
    }

    /// The same symbols over another field, where they are packed.
    pub const fn with_polynomial(self, polynomial: u16) -> Self {
        match self {
            Self::Packed { is_full, .. } => Self::Packed { polynomial, is_full },
            other => other,
        }
    }

    pub(crate) const fn polynomial(self) -> u16 {
        match self {
            Self::Qualcomm | Self::Davinci | Self::Kirkwood => POLYNOMIAL_10,
            Self::Packed { polynomial, .. } => polynomial,
        }
    }

    /// True when controllers have the code with this number of wrong symbols that it corrects.
    pub(crate) fn has_strength(self, strength: u32) -> bool {
        match self {
            Self::Qualcomm | Self::Davinci | Self::Kirkwood => strength == 4,
            Self::Packed { .. } => PACKED_STRENGTHS.contains(&strength),
        }
    }

    /// Bits of the check symbols.
    pub(crate) const fn check_bits(self, strength: u32) -> u32 {
        self.symbol_bits().saturating_mul(2).saturating_mul(strength)
    }

    /// Most bytes of a message.
    pub(crate) const fn max_message(self, strength: u32) -> u32 {
        let symbols = ((1_u32 << self.symbol_bits()) - 1).saturating_sub(2 * strength);
        symbols * self.message_bits() / 8
    }
}
