//! Computes the error locator polynomial from the syndromes.

use super::field::Field;
use crate::Uncorrectable;
use crate::code::MAX_STRENGTH;

/// Maximum number of coefficients of a locator.
const MAX_LEN: usize = MAX_STRENGTH as usize + 1;

/// Error locator: the polynomial with one root a^-p for each wrong bit p, and the constant coefficient 1.
pub(crate) struct Locator {
    coefficients: [u16; MAX_LEN],
    degree: usize,
}

/// State of the shift register before its last change of length.
struct Before {
    /// Logarithms of its coefficients.
    logs: [u16; MAX_LEN],
    terms: [u16; MAX_LEN],
    degree: usize,
    /// Logarithm of the discrepancy in that state.
    discrepancy: usize,
    /// Number of syndromes processed since that state.
    age: usize,
}

impl Locator {
    /// The coefficients, constant first.
    pub(crate) fn coefficients(&self) -> &[u16] {
        &self.coefficients[..=self.degree]
    }

    /// The locator of a word without errors: the polynomial 1.
    pub(crate) const fn new() -> Self {
        let mut coefficients = [0; MAX_LEN];
        coefficients[0] = 1;
        Self { coefficients, degree: 0 }
    }

    /// Finds the shortest feedback register that generates the syndromes (Massey 1969). `syndromes[j]` is the value of
    /// the received word at a^(j + 1), for `2 * strength` syndromes. As the code is binary, every other discrepancy is
    /// 0 and is skipped (Berlekamp 1968).
    pub(crate) fn generate(&mut self, field: &Field, syndromes: &[u16]) -> Result<(), Uncorrectable> {
        let strength = syndromes.len() / 2;
        let mut logs = [0; 2 * MAX_STRENGTH as usize];
        logs.iter_mut().zip(syndromes).for_each(|(log, syndrome)| *log = field.log(*syndrome) as u16);
        let mut before =
            Before { logs: [0; MAX_LEN], terms: [0; MAX_LEN], degree: 0, discrepancy: 0, age: 1 };
        for at in (0..syndromes.len()).step_by(2) {
            let discrepancy = self.discrepancy(field, &logs[..=at]);
            if discrepancy == 0 {
                before.age += 2;
                continue;
            }
            let degree = self.degree.max(at + 1 - self.degree);
            if degree > strength {
                return Err(Uncorrectable);
            }
            before.scale(field, discrepancy);
            let sums = before.age..=before.age + before.degree;
            if degree > self.degree {
                before.become_copy_of(self, field, discrepancy);
            }
            self.coefficients[sums].iter_mut().zip(before.terms).for_each(|(sum, term)| *sum ^= term);
            self.degree = degree;
            before.age += 2;
        }
        // If the register is longer than its polynomial, no correctable pattern of errors has these syndromes.
        if self.coefficients[self.degree] == 0 { Err(Uncorrectable) } else { Ok(()) }
    }

    /// Difference between the register's prediction for the last syndrome and that syndrome. The syndromes are given
    /// as logarithms.
    fn discrepancy(&self, field: &Field, logs: &[u16]) -> u16 {
        let terms = self.coefficients().iter().zip(logs.iter().rev());
        terms.fold(0, |sum, (x, log)| sum ^ field.exp(field.log(*x) + usize::from(*log)))
    }
}

impl Before {
    /// Adds the correction terms that cancel the discrepancy, shifted by `age` positions.
    fn scale(&mut self, field: &Field, discrepancy: u16) {
        let factor = (field.log(discrepancy) + field.order() - self.discrepancy) % field.order();
        for (term, log) in self.terms.iter_mut().zip(&self.logs[..=self.degree]) {
            *term = field.exp(factor + usize::from(*log));
        }
    }

    fn become_copy_of(&mut self, now: &Locator, field: &Field, discrepancy: u16) {
        self.logs.iter_mut().zip(now.coefficients()).for_each(|(log, x)| *log = field.log(*x) as u16);
        (self.degree, self.discrepancy, self.age) = (now.degree, field.log(discrepancy), 0);
    }
}
