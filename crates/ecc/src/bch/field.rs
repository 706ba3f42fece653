//! The finite field of 2^m elements: polynomials in a over {0, 1}, modulo a primitive polynomial with the root a.

use crate::CodeError;
use alloc::vec;
use alloc::vec::Vec;

/// Degrees m of the fields over which BCH codes are built.
pub(crate) const DEGREES: core::ops::RangeInclusive<u32> = 5..=15;

/// Primitive polynomials of degree 5 to 15, with coefficients as bits: the defaults of Linux's BCH library.
const POLYNOMIALS: [u32; 11] = [0x25, 0x43, 0x83, 0x11D, 0x211, 0x409, 0x805, 0x1053, 0x201B, 0x402B, 0x8003];

/// A field with tables of powers and logarithms.
pub(crate) struct Field {
    degree: u32,
    /// Powers a^i for i up to twice the order, so that a sum of two logarithms needs no modulo; then zeros for products
    /// with 0.
    exp: Vec<u16>,
    /// Logarithms to base a. The logarithm of 0 is so large that a sum with it indexes the zeros of `exp`.
    log: Vec<u16>,
}

/// Default polynomial of Linux for a degree.
pub(crate) fn linux_polynomial(degree: u32) -> Result<u32, CodeError> {
    let at = degree.checked_sub(5).map(|at| at as usize);
    at.and_then(|at| POLYNOMIALS.get(at).copied()).ok_or(CodeError::Field { degree })
}

/// Degree of a polynomial; 0 for the zero polynomial.
pub(crate) fn degree(polynomial: u32) -> u32 {
    polynomial.checked_ilog2().unwrap_or(0)
}

/// Degree m of a polynomial, after a check that it is primitive: the first 2^m - 1 powers of a are distinct.
pub(crate) fn check_primitive(polynomial: u32) -> Result<u32, CodeError> {
    let degree = degree(polynomial);
    if !DEGREES.contains(&degree) {
        return Err(CodeError::Field { degree });
    }
    let order = (1 << degree) - 1;
    let mut power = 1;
    let first_one = (1..=order).find(|_| {
        power = times_a(power, degree, polynomial);
        power == 1
    });
    if first_one == Some(order) { Ok(degree) } else { Err(CodeError::NotPrimitive { polynomial }) }
}

/// Product of `power`, a power of a, and a.
const fn times_a(power: u32, degree: u32, polynomial: u32) -> u32 {
    let twice = power << 1;
    twice ^ ((twice >> degree) * polynomial)
}

impl Field {
    /// The field of a primitive polynomial.
    pub(crate) fn new(polynomial: u32) -> Result<Self, CodeError> {
        let degree = check_primitive(polynomial)?;
        let order = (1 << degree) - 1;
        let zero_log = 2 * order as u16;
        let mut field = Self { degree, exp: vec![0; 4 * order + 1], log: vec![zero_log; order + 1] };
        let mut power = 1;
        for i in 0..order {
            field.exp[i] = power as u16;
            field.exp[i + order] = power as u16;
            field.log[power as usize] = i as u16;
            power = times_a(power, degree, polynomial);
        }
        Ok(field)
    }

    /// Degree m of the field.
    pub(crate) fn degree(&self) -> u32 {
        self.degree
    }

    /// Number of elements other than 0.
    pub(crate) fn order(&self) -> usize {
        self.log.len() - 1
    }

    /// Power a^i, for i below twice the order; 0 for i from there up to four times the order.
    pub(crate) fn exp(&self, i: usize) -> u16 {
        self.exp[i]
    }

    /// Logarithm of x. If a sum of two logarithms includes the logarithm of 0, [`exp`](Self::exp) of the sum is 0.
    pub(crate) fn log(&self, x: u16) -> usize {
        self.log[usize::from(x)].into()
    }

    pub(crate) fn mul(&self, x: u16, y: u16) -> u16 {
        self.exp[self.log(x) + self.log(y)]
    }

    pub(crate) fn square(&self, x: u16) -> u16 {
        self.mul(x, x)
    }

    /// Quotient x / y; y must not be 0.
    pub(crate) fn div(&self, x: u16, y: u16) -> u16 {
        self.exp[self.log(x) + self.order() - self.log(y)]
    }

    /// Square root of x, by half the logarithm. An odd logarithm becomes even by adding the order, which is odd.
    pub(crate) fn sqrt(&self, x: u16) -> u16 {
        if x == 0 {
            return 0;
        }
        let log = self.log(x);
        self.exp[(log + (log & 1) * self.order()) / 2]
    }

    /// Cube root of x, by a third of the logarithm. `None` if the logarithm is not divisible by three.
    pub(crate) fn cube_root(&self, x: u16) -> Option<u16> {
        let log = self.log(x);
        let thirds = [log, log + self.order(), log + 2 * self.order()];
        let third = thirds.into_iter().find(|log| log % 3 == 0).filter(|_| x != 0)?;
        Some(self.exp[third / 3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Product of polynomials modulo `polynomial`, computed by the definition.
    fn slow_mul(x: u16, y: u16, polynomial: u32) -> u16 {
        let degree = polynomial.ilog2();
        (0..degree).rev().fold(0, |sum: u32, bit| {
            let twice = sum << 1;
            twice ^ ((twice >> degree) * polynomial) ^ ((u32::from(y) >> bit & 1) * u32::from(x))
        }) as u16
    }

    #[test]
    fn tables_multiply_as_polynomials_do() {
        for polynomial in POLYNOMIALS {
            let field = Field::new(polynomial).unwrap();
            assert_eq!(1 << field.degree(), field.order() + 1);
            let some = |seed| {
                crate::noise(seed, 200).into_iter().map(|x| (u16::from(x) * 257) & field.order() as u16)
            };
            for (x, y) in some(1).zip(some(2)).chain([(0, 0), (0, 7), (7, 0), (1, 1)]) {
                assert_eq!(field.mul(x, y), slow_mul(x, y, polynomial), "{x} * {y} in {polynomial:#x}");
                if y != 0 {
                    assert_eq!(field.mul(field.div(x, y), y), x);
                }
            }
        }
    }

    #[test]
    fn polynomials_without_a_field_are_refused() {
        // x^5 + 1 has the root 1; x^8 + x^4 + x^3 + x + 1 is irreducible, but x has order 51.
        for polynomial in [0x21, 0x11B] {
            assert_eq!(Field::new(polynomial).err(), Some(CodeError::NotPrimitive { polynomial }));
        }
        assert_eq!(Field::new(0).err(), Some(CodeError::Field { degree: 0 }));
        assert_eq!(Field::new(0x1_0001).err(), Some(CodeError::Field { degree: 16 }));
    }
}
