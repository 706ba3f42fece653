//! Roots of polynomials of degree 1 to 4 by formula and table, which is faster than a search over all positions.

use super::field::Field;
use alloc::vec;
use alloc::vec::Vec;

/// Table entry for an equation without a solution.
const NONE: u16 = u16::MAX;

/// Tables of solutions of the two equations to which all others are reduced.
pub(crate) struct Solver {
    /// For each k, a solution y of y^2 + y = k; the other solution is y + 1.
    quadratic: Vec<u16>,
    /// For each k, a solution z of z^3 + z = k.
    cubic: Vec<u16>,
}

/// Roots of a polynomial; only the first `degree` of the four are used.
pub(crate) type Roots = [u16; 4];

impl Solver {
    pub(crate) fn new(field: &Field) -> Self {
        let size = field.order() + 1;
        let mut solver = Self { quadratic: vec![NONE; size], cubic: vec![NONE; size] };
        for x in 0..size as u16 {
            let square = field.square(x);
            solver.quadratic[usize::from(square ^ x)] = x;
            solver.cubic[usize::from(field.mul(square, x) ^ x)] = x;
        }
        solver
    }

    /// The roots of X^d + `c[0]` X^(d-1) + ... + `c[d-1]`; `None` unless there are d different roots other than 0.
    pub(crate) fn roots(&self, f: &Field, c: &[u16]) -> Option<Roots> {
        match *c {
            [] => Some([0; 4]),
            [a] => Some([a, 0, 0, 0]),
            [a, b] => self.two(f, a, b).map(|[x, y]| [x, y, 0, 0]),
            [a, b, c] => self.three(f, a, b, c),
            [a, b, c, d] => self.four(f, a, b, c, d),
            _ => None,
        }
    }

    /// The roots of X^2 + a X + b. With X = a Y the equation is Y^2 + Y = b / a^2. For a = 0 there is a double root.
    fn two(&self, f: &Field, a: u16, b: u16) -> Option<[u16; 2]> {
        if a == 0 {
            return None;
        }
        let y = found(self.quadratic[usize::from(f.div(b, f.square(a)))])?;
        let x = f.mul(a, y);
        Some([x, x ^ a])
    }

    /// The roots of X^3 + a X^2 + b X + c. With X = Y + a the square term vanishes.
    fn three(&self, f: &Field, a: u16, b: u16, c: u16) -> Option<Roots> {
        let (p, q) = (f.square(a) ^ b, f.mul(a, b) ^ c);
        // For q = 0 the polynomial Y^3 + p Y has a double root.
        let y = self.depressed_cubic(f, p, q).filter(|_| q != 0)?;
        // The other two roots are those of the quotient (Y^3 + p Y + q) / (Y + y).
        let [z, w] = self.two(f, y, f.square(y) ^ p)?;
        Some([y ^ a, z ^ a, w ^ a, 0])
    }

    /// A root of Y^3 + p Y + q. With Y = sqrt(p) Z the equation is Z^3 + Z = q / sqrt(p)^3.
    fn depressed_cubic(&self, f: &Field, p: u16, q: u16) -> Option<u16> {
        if p == 0 {
            return f.cube_root(q);
        }
        let s = f.sqrt(p);
        let z = found(self.cubic[usize::from(f.div(q, f.mul(s, p)))])?;
        Some(f.mul(s, z))
    }

    /// The roots of X^4 + a X^3 + b X^2 + c X + d. The shift X = Y + e with e^2 = c / a makes the linear term 0. Then Y = 1
    /// / Z makes the cubic term 0 (Berlekamp, Rumsey and Solomon 1967).
    fn four(&self, f: &Field, a: u16, b: u16, c: u16, d: u16) -> Option<Roots> {
        if a == 0 {
            return self.depressed_quartic(f, b, c, d);
        }
        let e = f.sqrt(f.div(c, a));
        let square = f.square(e);
        // The value of the polynomial at e; if it is 0, e is a double root.
        let at = f.square(square) ^ f.mul(e, f.mul(a, square) ^ c) ^ f.mul(b, square) ^ d;
        if at == 0 {
            return None;
        }
        let roots = self.depressed_quartic(f, f.div(f.mul(a, e) ^ b, at), f.div(a, at), f.div(1, at))?;
        Some(roots.map(|z| f.div(1, z) ^ e))
    }

    /// The roots of Z^4 + a Z^2 + b Z + c = (Z^2 + p Z + q) (Z^2 + p Z + r) with p^3 + a p = b, q + r = b / p and q r = c.
    /// The roots are different if b is not 0.
    fn depressed_quartic(&self, f: &Field, a: u16, b: u16, c: u16) -> Option<Roots> {
        if b == 0 {
            return None;
        }
        let p = self.depressed_cubic(f, a, b)?;
        let [q, r] = self.two(f, f.div(b, p), c)?;
        let ([x, y], [z, w]) = (self.two(f, p, q)?, self.two(f, p, r)?);
        Some([x, y, z, w])
    }
}

fn found(entry: u16) -> Option<u16> {
    (entry != NONE).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::linux_polynomial;

    /// Coefficients below the leading 1 of the product of (X + root) for all roots.
    fn with_roots(f: &Field, roots: &[u16]) -> Vec<u16> {
        let mut product = vec![1];
        for root in roots {
            product.push(0);
            for at in (1..product.len()).rev() {
                product[at] ^= f.mul(product[at - 1], *root);
            }
        }
        product.split_off(1)
    }

    /// Tests all sets of up to four roots in the smallest fields of odd and of even degree.
    #[test]
    fn every_set_of_roots_is_found() {
        for degree in [5, 6] {
            let f = Field::new(linux_polynomial(degree).unwrap()).unwrap();
            let solver = Solver::new(&f);
            let size = f.order() as u16;
            let check = |roots: &[u16]| {
                let mut got =
                    solver.roots(&f, &with_roots(&f, roots)).unwrap_or_default()[..roots.len()].to_vec();
                got.sort_unstable();
                assert_eq!(got, roots);
            };
            for a in 1..=size {
                check(&[a]);
                for b in a + 1..=size {
                    check(&[a, b]);
                    for c in b + 1..=size {
                        check(&[a, b, c]);
                        (c + 1..=size).for_each(|d| check(&[a, b, c, d]));
                    }
                }
            }
        }
    }

    /// Tests all polynomials of degree 1 to 4 with a constant term: the solver returns roots exactly if there are enough of
    /// them.
    #[test]
    fn polynomials_with_too_few_roots_have_none() {
        let f = Field::new(linux_polynomial(5).unwrap()).unwrap();
        let solver = Solver::new(&f);
        for code in 0..1_u32 << 20 {
            let c: [u16; 4] = core::array::from_fn(|at| (code >> (5 * at) & 31) as u16);
            let c = match c {
                [a, 0, 0, 0] => &c[..usize::from(a > 0)],
                [_, _, 0, 0] => &c[..2],
                [_, _, _, 0] => &c[..3],
                _ => &c[..],
            };
            let value = |x| c.iter().fold(1, |sum, term| f.mul(sum, x) ^ term);
            let count = (1..32).filter(|x| value(*x) == 0).count();
            if !c.is_empty() {
                assert_eq!(solver.roots(&f, c).is_some(), count == c.len(), "{c:?}");
            }
        }
    }
}
