//! From syndromes to the error locator polynomial.

use super::field::Field;
use crate::Uncorrectable;
use crate::code::MAX_STRENGTH;

/// Coefficients of a locator, with room for what grows beyond the strength before it is found out.
const MAX_LEN: usize = 2 * MAX_STRENGTH as usize + 2;

/// Polynomial with one root a^-p for each wrong bit p, and the constant coefficient 1.
pub(crate) struct Locator {
    coefficients: [u16; MAX_LEN],
    degree: usize,
}

impl Locator {
    /// The coefficients, constant first.
    pub(crate) fn coefficients(&self) -> &[u16] {
        &self.coefficients[..=self.degree]
    }

    /// The shortest feedback register that generates the syndromes (Massey 1969). `syndromes[j]` is the received word at
    /// a^(j + 1), `2 * strength` of them. As the code is binary, every other discrepancy is 0 and is not looked at
    /// (Berlekamp 1968).
    pub(crate) fn new(field: &Field, syndromes: &[u16]) -> Result<Self, Uncorrectable> {
        let strength = syndromes.len() / 2;
        let mut now = [0; MAX_LEN];
        now[0] = 1;
        let mut degree = 0;
        // The register before the last change of length, shifted since, and its discrepancy.
        let mut before = [0; MAX_LEN];
        before[1] = 1;
        let mut before_discrepancy = 1;
        for at in (0..syndromes.len()).step_by(2) {
            let discrepancy = (0..=degree).fold(0, |sum, i| sum ^ field.mul(now[i], syndromes[at - i]));
            if discrepancy != 0 {
                let old = now;
                let factor = field.div(discrepancy, before_discrepancy);
                now.iter_mut().zip(before).for_each(|(sum, term)| *sum ^= field.mul(factor, term));
                if 2 * degree <= at {
                    degree = at + 1 - degree;
                    before = old;
                    before_discrepancy = discrepancy;
                }
            }
            if degree > strength {
                return Err(Uncorrectable);
            }
            before.copy_within(..MAX_LEN - 2, 2);
            before[..2].fill(0);
        }
        // A register longer than its polynomial is that of no pattern of errors.
        if now[degree] == 0 { Err(Uncorrectable) } else { Ok(Self { coefficients: now, degree }) }
    }
}
