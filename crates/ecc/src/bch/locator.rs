//! From syndromes to the error locator polynomial.

use super::field::Field;
use crate::Uncorrectable;
use crate::code::MAX_STRENGTH;

/// Coefficients of a locator.
const MAX_LEN: usize = MAX_STRENGTH as usize + 1;

/// Polynomial with one root a^-p for each wrong bit p, and the constant coefficient 1.
pub(crate) struct Locator {
    coefficients: [u16; MAX_LEN],
    degree: usize,
}

/// The register before the last change of length.
struct Before {
    /// Logarithms of its coefficients.
    logs: [u16; MAX_LEN],
    degree: usize,
    /// Logarithm of its discrepancy.
    discrepancy: usize,
    /// Syndromes since.
    age: usize,
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
        let mut logs = [0; 2 * MAX_STRENGTH as usize];
        logs.iter_mut().zip(syndromes).for_each(|(log, syndrome)| *log = field.log(*syndrome) as u16);
        let mut now = Self { coefficients: [0; MAX_LEN], degree: 0 };
        now.coefficients[0] = 1;
        let mut before = Before { logs: [0; MAX_LEN], degree: 0, discrepancy: 0, age: 1 };
        for at in (0..syndromes.len()).step_by(2) {
            let discrepancy = now.discrepancy(field, &logs[..=at]);
            if discrepancy == 0 {
                before.age += 2;
                continue;
            }
            let degree = now.degree.max(at + 1 - now.degree);
            if degree > strength {
                return Err(Uncorrectable);
            }
            let terms = before.terms(field, discrepancy);
            let sums = before.age..=before.age + before.degree;
            if degree > now.degree {
                before.become_copy_of(&now, field, discrepancy);
            }
            now.coefficients[sums].iter_mut().zip(terms).for_each(|(sum, term)| *sum ^= term);
            now.degree = degree;
            before.age += 2;
        }
        // A register longer than its polynomial is that of no pattern of errors.
        if now.coefficients[now.degree] == 0 { Err(Uncorrectable) } else { Ok(now) }
    }

    /// What the register predicts for the last of the syndromes, and what that is: the difference. Takes logarithms.
    fn discrepancy(&self, field: &Field, logs: &[u16]) -> u16 {
        let terms = self.coefficients().iter().zip(logs.iter().rev());
        terms.fold(0, |sum, (x, log)| sum ^ field.exp(field.log(*x) + usize::from(*log)))
    }
}

impl Before {
    /// The earlier register, scaled so that its discrepancy is the present one.
    fn terms(&self, field: &Field, discrepancy: u16) -> [u16; MAX_LEN] {
        let factor = (field.log(discrepancy) + field.order() - self.discrepancy) % field.order();
        let mut terms = [0; MAX_LEN];
        for (term, log) in terms.iter_mut().zip(&self.logs[..=self.degree]) {
            *term = field.exp(factor + usize::from(*log));
        }
        terms
    }

    fn become_copy_of(&mut self, now: &Locator, field: &Field, discrepancy: u16) {
        self.logs.iter_mut().zip(now.coefficients()).for_each(|(log, x)| *log = field.log(*x) as u16);
        (self.degree, self.discrepancy, self.age) = (now.degree, field.log(discrepancy), 0);
    }
}
