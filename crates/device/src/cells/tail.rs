//! Probability that a codeword has more wrong bits than a code corrects.

use libm::{exp, lgamma, log};

/// Logarithm of the binomial coefficient n over k.
fn ln_choose(n: f64, k: f64) -> f64 {
    lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
}

/// Sum of decreasing terms: the first is `first`, each further term is the previous one times `ratio(k)`.
fn sum(first: f64, from: u32, to: u32, ratio: impl Fn(f64) -> f64) -> f64 {
    let (mut term, mut total) = (first, first);
    for k in from..to {
        term *= ratio(f64::from(k));
        total += term;
        if term < total * 1e-17 {
            break;
        }
    }
    total.min(1.0)
}

/// Probability that more than `strength` of `bits` bits are wrong, each with probability `rber` (binomial distribution).
pub fn beyond(strength: u32, bits: u32, rber: f64) -> f64 {
    if rber <= 0.0 || strength >= bits {
        return 0.0;
    }
    let (n, p) = (f64::from(bits), rber.min(0.5));
    if n * p > f64::from(strength) + 1.0 {
        // If the mean is above the strength, the terms increase at first, so the lower tail is summed.
        return 1.0 - up_to(strength, n, p);
    }
    let k = f64::from(strength + 1);
    let first = exp(ln_choose(n, k) + k * log(p) + (n - k) * libm::log1p(-p));
    sum(first, strength + 1, bits, |k| (n - k) / (k + 1.0) * p / (1.0 - p))
}

/// Probability of at most `strength` wrong bits if more are expected; terms decrease downwards.
fn up_to(strength: u32, n: f64, p: f64) -> f64 {
    let k = f64::from(strength);
    let first = exp(ln_choose(n, k) + k * log(p) + (n - k) * libm::log1p(-p));
    sum(first, 0, strength, |i| {
        let k = k - i;
        k / (n - k + 1.0) * (1.0 - p) / p
    })
}

/// Probability like [`beyond`] for an error rate that varies between codewords. The rate is gamma-distributed with mean `rber`
/// and the given shape. For small rates this is the limit of a beta-binomial distribution, a negative binomial.
pub fn beyond_dispersed(strength: u32, bits: u32, rber: f64, shape: f64) -> f64 {
    if rber <= 0.0 || strength >= bits {
        return 0.0;
    }
    let mean = f64::from(bits) * rber;
    let q = mean / (mean + shape);
    let ln_term = |k: f64| {
        lgamma(k + shape) - lgamma(shape) - lgamma(k + 1.0) + k * log(q) + shape * log(shape / (mean + shape))
    };
    let below = || (0..=strength).map(|k| exp(ln_term(f64::from(k)))).sum::<f64>();
    if mean > f64::from(strength) + 1.0 {
        return (1.0 - below()).clamp(0.0, 1.0);
    }
    let k = f64::from(strength + 1);
    sum(exp(ln_term(k)), strength + 1, bits, |k| (k + shape) / (k + 1.0) * q)
}

/// Maximum raw bit error rate at which a code leaves at most `uber` uncorrectable bits per data bit read (JESD218's definition:
/// uncorrectable codewords divided by bits read). The code corrects `strength` bits of a codeword of `bits` bits, of which
/// `data_bits` are data.
pub fn tolerated_rber(strength: u32, bits: u32, data_bits: u32, uber: f64) -> f64 {
    let target = uber * f64::from(data_bits.max(1));
    let (mut low, mut high) = (-40.0, 0.0);
    // Sixty halvings of the interval reach the precision of a double.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if beyond(strength, bits, exp(middle)) > target {
            high = middle;
        } else {
            low = middle;
        }
    }
    exp(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tolerated rates published in facts 4.2, for an UBER of 1e-15.
    #[test]
    fn published_tolerances() {
        let rows = [
            (1, 512, 24, 7e-10),
            (4, 512, 52, 3.3e-6),
            (8, 512, 104, 5.5e-5),
            (16, 512, 208, 3.9e-4),
            (24, 1024, 336, 5.1e-4),
            (40, 1024, 560, 1.3e-3),
        ];
        for (strength, step, ecc, published) in rows {
            let rber = tolerated_rber(strength, step * 8 + ecc, step * 8, 1e-15);
            assert!((rber / published - 1.0).abs() < 0.05, "{strength}/{step}: {rber:e}");
        }
    }

    #[test]
    fn tails_by_hand() {
        // Example with three coins: two or three heads.
        assert!((beyond(1, 3, 0.5) - 0.5).abs() < 1e-12);
        assert!((beyond(0, 10, 0.1) - (1.0 - 0.9f64.powi(10))).abs() < 1e-12);
        assert!((beyond(2, 4000, 0.01) - 1.0).abs() < 1e-12);
        assert_eq!((beyond(4, 4, 0.3), beyond(1, 100, 0.0)), (0.0, 0.0));
    }

    #[test]
    fn dispersion_makes_tails_heavier_and_goes_away() {
        let plain = beyond(8, 4200, 2e-4);
        assert!(beyond_dispersed(8, 4200, 2e-4, 2.0) > 10.0 * plain);
        assert!((beyond_dispersed(8, 4200, 2e-4, 1e7) / plain - 1.0).abs() < 0.02);
        // Mean above the strength, compared with a geometric distribution (shape 1) computed by hand.
        let q: f64 = 0.42 / 1.42;
        assert!((beyond_dispersed(3, 420, 1e-3, 1.0) - q.powi(4)).abs() < 1e-12);
        let q: f64 = 42.0 / 43.0;
        assert!((beyond_dispersed(3, 42_000, 1e-3, 1.0) - q.powi(4)).abs() < 1e-12);
    }
}
