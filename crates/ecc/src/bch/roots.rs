//! Computes the positions of wrong bits from the error locator polynomial.

use super::field::Field;
use super::small::Solver;
use crate::Uncorrectable;
use crate::code::MAX_STRENGTH;
use crate::simd::Search;

/// Buffer for the positions of wrong bits.
pub(crate) type Positions = [u16; MAX_STRENGTH as usize];

/// Maximum degree of polynomials whose roots are found by formula.
const SMALL: usize = 4;

/// Search for the roots of a locator polynomial.
pub(crate) struct Roots {
    solver: Solver,
    search: Option<Search>,
}

impl Roots {
    /// A search for locators up to degree `strength` in words of up to `bits` bits.
    pub(crate) fn new(field: &Field, strength: usize, bits: usize) -> Self {
        let search = if strength > SMALL { Search::new(field, strength, bits) } else { None };
        Self { solver: Solver::new(field), search }
    }

    /// A search without vector instructions.
    #[cfg(test)]
    pub(crate) fn portable(field: &Field) -> Self {
        Self { solver: Solver::new(field), search: None }
    }

    /// The positions p below `bits` with `locator(a^-p) = 0`.
    ///
    /// # Errors
    /// `Uncorrectable` if there are fewer positions than the degree of the locator: an error is outside the word.
    pub(crate) fn find<'a>(
        &self,
        field: &Field,
        locator: &[u16],
        bits: usize,
        positions: &'a mut Positions,
    ) -> Result<&'a [u16], Uncorrectable> {
        let degree = locator.len() - 1;
        let found = match &self.search {
            Some(search) if degree > SMALL => {
                self.search_and_solve(search, field, locator, bits, &mut positions[..degree])
            }
            _ => self.split(field, locator, bits, positions),
        };
        if found == degree { Ok(&positions[..found]) } else { Err(Uncorrectable) }
    }

    /// Searches all roots except the four at the highest positions, which are solved by formula; this shortens the
    /// search.
    fn search_and_solve(
        &self,
        search: &Search,
        field: &Field,
        locator: &[u16],
        bits: usize,
        positions: &mut [u16],
    ) -> usize {
        let (near, far) = positions.split_at_mut(locator.len() - 1 - SMALL);
        let found = search.roots(field, locator, bits, near);
        if found < near.len() {
            return found;
        }
        let solved = self.split(field, &quotient(field, locator, near), bits, far);
        // A double root does not mean two errors.
        if far.iter().any(|position| near.contains(position)) { found } else { found + solved }
    }

    /// Finds all roots by factoring. The inverses a^p of the roots are the roots of the polynomial with the
    /// coefficients in reverse order, which starts with 1.
    fn split(&self, field: &Field, locator: &[u16], bits: usize, positions: &mut [u16]) -> usize {
        let degree = locator.len() - 1;
        let positions = &mut positions[..degree];
        if self.solver.all_roots(field, locator, 0, positions).is_none() {
            return 0;
        }
        positions.iter_mut().for_each(|root| *root = field.log(*root) as u16);
        let within = positions.iter().filter(|position| usize::from(**position) < bits).count();
        // A double root does not mean two errors.
        let double = |at: usize| positions[..at].contains(&positions[at]);
        if degree > SMALL && (1..degree).any(double) { 0 } else { within }
    }
}

/// Quotient of a locator by the factors (1 + a^p X) for the given positions p; it has degree [`SMALL`]. It is computed
/// as a power series, of which only the first coefficients are needed.
fn quotient(field: &Field, locator: &[u16], positions: &[u16]) -> [u16; SMALL + 1] {
    let mut rest = [0; SMALL + 1];
    rest.copy_from_slice(&locator[..=SMALL]);
    for position in positions {
        for at in 1..rest.len() {
            rest[at] ^= field.exp(field.log(rest[at - 1]) + usize::from(*position));
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::linux_polynomial;
    use alloc::vec;

    /// The locator of errors at `positions`: the product of (1 + a^p X) for all positions p.
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

    /// A double root does not mean two errors, at any position among the other roots.
    #[test]
    fn double_roots_are_no_errors() {
        let field = Field::new(linux_polynomial(13).unwrap()).unwrap();
        let positions = [5, 700, 1400, 2100, 2800, 3500, 4100];
        for double in positions {
            let locator = locator(&field, &[&positions[..], &[double]].concat());
            for roots in [Roots::new(&field, 8, 4200), Roots::portable(&field)] {
                let mut out = [0; MAX_STRENGTH as usize];
                assert_eq!(roots.find(&field, &locator, 4200, &mut out), Err(Uncorrectable), "{double}");
            }
        }
    }

    /// All search methods find the positions from which the locator was made, unless one is outside the word.
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
