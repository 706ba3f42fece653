//! Roots of polynomials of any degree, which are split until the formulas of [`small`](super::small) apply (Berlekamp
//! 1970, Factoring Polynomials over Large Finite Fields).
//!
//! The trace of x, x + x^2 + x^4 + ... + x^(2^(m-1)), is 0 for half of the elements of the field and 1 for the others.
//! So the greatest common divisor of a polynomial and the trace of a^k x contains the roots for which that trace is 0.
//! Repeating this with every k separates all elements.
//!
//! Polynomials are slices of coefficients, the highest first.

use super::field::Field;
use super::small::Solver;
use crate::code::MAX_STRENGTH;

/// Maximum number of coefficients: of the longest locator, and of the square of its remainder.
const MAX_LEN: usize = MAX_STRENGTH as usize + 1;
const MAX_SQUARE: usize = 2 * MAX_LEN;

impl Solver {
    /// Writes the roots of a polynomial with leading coefficient 1. It returns `None` unless the number of roots equals
    /// the degree; a double root is written twice.
    pub(crate) fn all_roots(&self, f: &Field, polynomial: &[u16], from: u32, out: &mut [u16]) -> Option<()> {
        let degree = polynomial.len() - 1;
        if degree <= 4 {
            let roots = self.roots(f, &polynomial[1..])?;
            out.copy_from_slice(&roots[..degree]);
            return Some(());
        }
        for k in from..f.degree() {
            let mut buffer = [0; MAX_LEN];
            let factor = shared_with_trace(f, polynomial, k, &mut buffer);
            if !(2..=degree).contains(&factor.len()) {
                continue;
            }
            let mut quotient = [0; MAX_LEN];
            let quotient = &mut quotient[..=degree];
            quotient.copy_from_slice(polynomial);
            divide(f, quotient, factor);
            let (some, others) = out.split_at_mut(factor.len() - 1);
            self.all_roots(f, factor, k + 1, some)?;
            return self.all_roots(f, &quotient[..=others.len()], k + 1, others);
        }
        None
    }
}

/// The greatest common divisor of a polynomial and the trace of a^k x, with the leading coefficient 1.
fn shared_with_trace<'a>(f: &Field, polynomial: &[u16], k: u32, out: &'a mut [u16; MAX_LEN]) -> &'a [u16] {
    let mut trace = [0; MAX_LEN];
    let mut rest = trace_modulo(f, polynomial, k, &mut trace);
    let mut len = polynomial.len();
    out[..len].copy_from_slice(polynomial);
    // Euclid's algorithm: `out` is the divisor of the previous step.
    while !rest.is_empty() {
        let factor = rest[0];
        rest.iter_mut().for_each(|x| *x = f.div(*x, factor));
        divide(f, &mut out[..len], rest);
        let mut remainder = [0; MAX_LEN];
        let remainder_len = rest.len() - 1;
        remainder[..remainder_len].copy_from_slice(&out[len - remainder_len..len]);
        len = rest.len();
        out[..len].copy_from_slice(rest);
        rest[..remainder_len].copy_from_slice(&remainder[..remainder_len]);
        rest = without_zeros(&mut rest[..remainder_len]);
    }
    &out[..len]
}

/// The trace of a^k x modulo a polynomial, without leading zeros.
fn trace_modulo<'a>(f: &Field, polynomial: &[u16], k: u32, sum: &'a mut [u16; MAX_LEN]) -> &'a mut [u16] {
    let degree = polynomial.len() - 1;
    let mut square = [0; MAX_SQUARE];
    let square = &mut square[..2 * degree - 1];
    let sum = &mut sum[..degree];
    // The first term is a^k x; each further term is the square of the previous one.
    sum[degree - 2] = f.exp(k as usize);
    let mut term = [0; MAX_LEN];
    let term = &mut term[..degree];
    term.copy_from_slice(sum);
    for _ in 1..f.degree() {
        square.fill(0);
        square.iter_mut().step_by(2).zip(&*term).for_each(|(square, x)| *square = f.square(*x));
        divide(f, square, polynomial);
        term.copy_from_slice(&square[degree - 1..]);
        sum.iter_mut().zip(&*term).for_each(|(sum, x)| *sum ^= x);
    }
    without_zeros(sum)
}

fn without_zeros(polynomial: &mut [u16]) -> &mut [u16] {
    let zeros = polynomial.iter().take_while(|x| **x == 0).count();
    &mut polynomial[zeros..]
}

/// Divides by a polynomial with leading coefficient 1. The quotient replaces the high coefficients. The remainder, one
/// coefficient shorter than the divisor, replaces the low ones.
fn divide(f: &Field, dividend: &mut [u16], divisor: &[u16]) {
    let Some(last) = dividend.len().checked_sub(divisor.len()) else { return };
    let mut logs = [0; MAX_LEN];
    let logs = &mut logs[..divisor.len() - 1];
    logs.iter_mut().zip(&divisor[1..]).for_each(|(log, x)| *log = f.log(*x) as u16);
    for at in 0..=last {
        let factor = dividend[at];
        if factor != 0 {
            let factor = f.log(factor);
            let sums = dividend[at + 1..].iter_mut();
            sums.zip(&*logs).for_each(|(sum, log)| *sum ^= f.exp(factor + usize::from(*log)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::linux_polynomial;

    #[test]
    fn division_leaves_quotient_and_remainder() {
        let f = Field::new(linux_polynomial(6).unwrap()).unwrap();
        // (X^2 + 3 X + 5) (X + 7) + 9.
        let [a, b] = [f.mul(3, 7) ^ 5, f.mul(5, 7) ^ 9];
        let mut dividend = [1, 3 ^ 7, a, b];
        divide(&f, &mut dividend, &[1, 7]);
        assert_eq!(dividend, [1, 3, 5, 9]);
    }

    /// X^7 + 1 has 7 roots in a field of 64 elements, X^11 + 1 has one, and (X^3 + 1)^2 has double roots.
    #[test]
    fn roots_are_all_or_none() {
        let f = Field::new(linux_polynomial(6).unwrap()).unwrap();
        let solver = Solver::new(&f);
        let mut roots = [0; 7];
        assert_eq!(solver.all_roots(&f, &[1, 0, 0, 0, 0, 0, 0, 1], 0, &mut roots), Some(()));
        roots.sort_unstable();
        let mut expected: [u16; 7] = core::array::from_fn(|i| f.exp(9 * i));
        expected.sort_unstable();
        assert_eq!(roots, expected);
        let eleven = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(solver.all_roots(&f, &eleven, 0, &mut [0; 11]), None);
    }
}
