//! From the error locator polynomial to the wrong bits.

use super::field::Field;
use super::small::Solver;
use crate::Uncorrectable;
use crate::code::MAX_STRENGTH;
use crate::simd::Search;

/// Positions of wrong bits.
pub(crate) type Positions = [u16; MAX_STRENGTH as usize];

/// Degree up to which roots are found by formula.
const SMALL: usize = 4;

/// What finds roots.
pub(crate) struct Roots {
    solver: Solver,
    search: Option<Search>,
}

impl Roots {
    /// For locators up to degree `strength` and words of up to `bits`.
    pub(crate) fn new(field: &Field, strength: usize, bits: usize) -> Self {
        let search = if strength > SMALL { Search::new(field, strength, bits) } else { None };
        Self { solver: Solver::new(field), search }
    }

    /// The same without vector instructions.
    #[cfg(test)]
    pub(crate) fn portable(field: &Field) -> Self {
        Self { solver: Solver::new(field), search: None }
    }

    /// The positions p below `bits` with `locator(a^-p) = 0`.
    ///
    /// # Errors
    /// `Uncorrectable` when there are fewer than the locator's degree: some error lies outside the word.
    pub(crate) fn find<'a>(
        &self,
        field: &Field,
        locator: &[u16],
        bits: usize,
        positions: &'a mut Positions,
    ) -> Result<&'a [u16], Uncorrectable> {
        let degree = locator.len() - 1;
        let found = match &self.search {
            _ if degree <= SMALL => self.small(field, &locator[1..], bits, positions),
            Some(search) => search.roots(field, locator, bits, positions),
            None => self.chien(field, locator, bits, positions),
        };
        if found == degree { Ok(&positions[..found]) } else { Err(Uncorrectable) }
    }

    /// Looks at one position after the other (Chien 1964): from one to the next, term i changes by the factor a^-i. A root
    /// found is divided out, which leaves fewer terms; the last four roots have formulas.
    fn chien(&self, field: &Field, locator: &[u16], bits: usize, positions: &mut Positions) -> usize {
        let mut rest = [0; MAX_STRENGTH as usize + 1];
        rest[..locator.len()].copy_from_slice(locator);
        let mut degree = locator.len() - 1;
        let mut found = 0;
        let mut terms = rest;
        for position in 0..bits {
            if degree <= SMALL {
                break;
            }
            if terms[..=degree].iter().fold(0, |sum, term| sum ^ term) == 0 {
                positions[found] = position as u16;
                found += 1;
                divide(field, &mut rest[..=degree], field.exp(position));
                degree -= 1;
                // The quotient's terms at this position.
                for (i, term) in terms.iter_mut().enumerate().take(degree + 1) {
                    *term = field.mul(rest[i], field.exp(field.order() - i * position % field.order()));
                }
            }
            for (i, term) in terms.iter_mut().enumerate().take(degree + 1).skip(1) {
                *term = field.mul(*term, field.exp(field.order() - i));
            }
        }
        found + self.small(field, &rest[1..=degree], bits, &mut positions[found..])
    }

    /// The roots' inverses a^p are the roots of the polynomial with the coefficients in reverse, which starts with 1.
    fn small(&self, field: &Field, coefficients: &[u16], bits: usize, positions: &mut [u16]) -> usize {
        let Some(roots) = self.solver.roots(field, coefficients) else { return 0 };
        let mut found = 0;
        for root in &roots[..coefficients.len()] {
            let position = field.log(*root);
            if position < bits {
                positions[found] = position as u16;
                found += 1;
            }
        }
        found
    }
}

/// Divides a polynomial, constant first, by 1 + `x` X, of which it is a multiple.
fn divide(field: &Field, polynomial: &mut [u16], x: u16) {
    for at in 1..polynomial.len() {
        polynomial[at] ^= field.mul(x, polynomial[at - 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::linux_polynomial;
    use alloc::vec;

    /// The locator of errors at `positions`: the product of all (1 + a^p X).
    fn locator(field: &Field, positions: &[usize]) -> vec::Vec<u16> {
        let mut product = vec![1];
        for position in positions {
            product.push(0);
            for at in (1..product.len()).rev() {
                product[at] ^= field.mul(product[at - 1], field.exp(*position));
            }
        }
        product
    }

    /// All ways find the same positions: those that went in, unless one lies outside the word.
    #[test]
    fn both_searches_find_the_positions() {
        for (degree, strength, bits) in
            [(13, 8, 4200), (13, 5, 256), (14, 24, 8528), (14, 72, 16383), (9, 7, 511)]
        {
            let field = Field::new(linux_polynomial(degree).unwrap()).unwrap();
            let searches = [Roots::new(&field, strength, bits), Roots::portable(&field)];
            for seed in 0..8 * strength {
                let count = seed % (strength + 1);
                let noise = crate::noise(seed as u64, 4 * count);
                let mut expected: vec::Vec<u16> = noise
                    .chunks(4)
                    .map(|bytes| {
                        (u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) % bits as u32) as u16
                    })
                    .collect();
                expected.sort_unstable();
                expected.dedup();
                let positions: vec::Vec<usize> =
                    expected.iter().map(|position| usize::from(*position)).collect();
                let locator = locator(&field, &positions);
                let last = positions.last().map_or(0, |last| last + 1);
                for roots in &searches {
                    let mut out = [0; MAX_STRENGTH as usize];
                    let mut found = roots.find(&field, &locator, last, &mut out).unwrap().to_vec();
                    found.sort_unstable();
                    assert_eq!(found, expected);
                    if last > 0 {
                        assert_eq!(roots.find(&field, &locator, last - 1, &mut out), Err(Uncorrectable));
                    }
                }
            }
        }
    }
}
