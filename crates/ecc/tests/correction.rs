//! Tests of the errors that codes correct and detect.
#![allow(missing_docs, reason = "a test has no users")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

use crate::common::{Noise, flip, noise};
use floatgate_ecc::{Bch, Codec, Uncorrectable};
use proptest::prelude::*;

/// Flips `bits` in data and ECC bytes, and checks that they are corrected.
fn repairs(codec: &Codec, data: &[u8], ecc: &[u8], bits: &[usize]) {
    let (mut got, mut got_ecc) = (data.to_vec(), ecc.to_vec());
    bits.iter().for_each(|bit| flip(&mut got, &mut got_ecc, *bit));
    assert_eq!(codec.decode(&mut got, &mut got_ecc), Ok(bits.len() as u32), "{} {bits:?}", codec.code());
    assert!(got == data && got_ecc == ecc, "{} {bits:?}", codec.code());
}

fn encoded(codec: &Codec, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let data = noise(seed, codec.code().step_bytes() as usize);
    let mut ecc = vec![0; codec.code().ecc_bytes() as usize];
    codec.encode(&data, &mut ecc);
    (data, ecc)
}

fn codec(name: &str) -> Codec {
    Codec::new(name.parse().unwrap()).unwrap()
}

/// Number of data bits and check bits of a code.
fn bits(name: &str) -> usize {
    let code = codec(name).code();
    let degree = if code.step_bytes() > 512 { 14 } else { 13 };
    (8 * code.step_bytes() + degree * code.strength()) as usize
}

const NAMES: [&str; 9] = [
    "bch1/512",
    "bch2/512",
    "bch3/512",
    "bch4/512",
    "bch8/512",
    "bch16/512",
    "bch24/1024",
    "bch40/1024",
    "bch64/1024",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn up_to_t_errors_are_repaired(seed: u64, fewer in 0.0..1.0) {
        for name in NAMES {
            let codec = codec(name);
            let (data, ecc) = encoded(&codec, seed);
            let strength = codec.code().strength() as usize;
            let some = (fewer * (strength + 1) as f64) as usize;
            for count in [some, strength] {
                repairs(&codec, &data, &ecc, &Noise(seed ^ 1).distinct(count, bits(name)));
            }
        }
    }

    #[test]
    fn any_length_of_data_that_fits(seed: u64, m in 5_u32..=15, t in 1_u32..=72) {
        let Ok(bch) = Bch::new(m, t) else { return Ok(()) };
        let len = Noise(seed).below(bch.max_data_bytes() + 1);
        let data = noise(seed, len);
        let mut ecc = vec![0; bch.ecc_bytes()];
        bch.encode(&data, &mut ecc);
        let (mut got, mut got_ecc) = (data.clone(), ecc.clone());
        let wrong = Noise(seed).below(t as usize + 1).min(8 * len);
        Noise(seed).distinct(wrong, 8 * len.max(1)).into_iter().for_each(|bit| flip(&mut got, &mut got_ecc, bit));
        prop_assert_eq!(bch.decode(&mut got, &mut got_ecc), Ok(wrong as u32));
        prop_assert!(got == data && got_ecc == ecc);
    }
}

#[test]
fn each_single_error_is_repaired() {
    for name in ["bch1/512", "bch2/512", "bch4/512"] {
        let codec = codec(name);
        let (data, ecc) = encoded(&codec, 5);
        (0..bits(name)).for_each(|bit| repairs(&codec, &data, &ecc, &[bit]));
    }
}

#[test]
fn each_double_error_near_the_check_bits_is_repaired() {
    let (name, last) = ("bch2/512", bits("bch2/512"));
    let codec = codec(name);
    let (data, ecc) = encoded(&codec, 6);
    for first in last - 60..last {
        (first + 1..last).chain(0..40).for_each(|second| repairs(&codec, &data, &ecc, &[first, second]));
    }
}

/// Linux ignores padding bits, which belong to no check bit; floatgate sets them to the encoded value.
#[test]
fn padding_does_not_count() {
    let codec = codec("bch4/512");
    let (data, ecc) = encoded(&codec, 9);
    for errors in 0..3 {
        let (mut got, mut got_ecc) = (data.clone(), ecc.clone());
        (0..errors).for_each(|bit| flip(&mut got, &mut got_ecc, 7 * bit));
        got_ecc[6] ^= 0x05;
        assert_eq!(codec.decode(&mut got, &mut got_ecc), Ok(errors as u32));
        assert!(got == data && got_ecc == ecc);
    }
}

#[test]
fn pages_are_their_steps() {
    for name in ["hamming/256", "hamming/512", "bch4/512", "bch8/512", "bch24/1024", "bch24/1024@17475"] {
        let codec = codec(name);
        let (step, per_step) = (codec.code().step_bytes() as usize, codec.code().ecc_bytes() as usize);
        for steps in 0..10 {
            let page = noise(steps as u64, steps * step);
            let mut ecc = vec![0; steps * per_step];
            codec.encode_page(&page, &mut ecc);
            for (data, bytes) in page.chunks(step).zip(ecc.chunks(per_step)) {
                let mut one = vec![0; per_step];
                codec.encode(data, &mut one);
                assert_eq!(one, bytes);
            }
            let (mut got, mut got_ecc) = (page.clone(), ecc.clone());
            let wrong = |step: usize| step as u32 % (codec.code().strength() + 1);
            for at in 0..steps {
                for bit in 0..wrong(at) as usize {
                    got[at * step + 3 * bit] ^= 1;
                }
            }
            let mut results = Vec::new();
            codec.decode_page(&mut got, &mut got_ecc, |step, result| results.push((step, result)));
            assert_eq!(results, (0..steps).map(|at| (at, Ok(wrong(at)))).collect::<Vec<_>>());
            assert!(got == page && got_ecc == ecc, "{name}");
        }
    }
}

#[test]
fn what_is_not_repaired_is_not_touched() {
    let mut noise = Noise(11);
    for name in ["bch8/512", "bch24/1024"] {
        let codec = codec(name);
        let (data, ecc) = encoded(&codec, 12);
        for _ in 0..20 {
            let (mut got, mut got_ecc) = (data.clone(), ecc.clone());
            let count = codec.code().strength() as usize + 1;
            noise.distinct(count, bits(name)).into_iter().for_each(|bit| flip(&mut got, &mut got_ecc, bit));
            let before = (got.clone(), got_ecc.clone());
            assert_eq!(codec.decode(&mut got, &mut got_ecc), Err(Uncorrectable));
            assert_eq!((got, got_ecc), before);
        }
    }
}

/// Tests every pattern of up to t errors in short words.
#[test]
fn every_pattern_of_a_short_code_is_repaired() {
    for (m, t, len) in [(8, 1, 20), (8, 2, 20), (8, 3, 6), (9, 2, 20)] {
        let bch = Bch::new(m, t).unwrap();
        let data = noise(2, len);
        let mut ecc = vec![0; bch.ecc_bytes()];
        bch.encode(&data, &mut ecc);
        let bits = 8 * len + (m * t) as usize;
        for pattern in patterns(bits, t as usize) {
            let (mut got, mut got_ecc) = (data.clone(), ecc.clone());
            pattern.iter().for_each(|bit| flip(&mut got, &mut got_ecc, *bit));
            assert_eq!(bch.decode(&mut got, &mut got_ecc), Ok(pattern.len() as u32), "{pattern:?}");
            assert!(got == data && got_ecc == ecc, "{pattern:?}");
        }
    }
}

/// All sets of up to `most` numbers below `limit`.
fn patterns(limit: usize, most: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    let mut from = 0;
    for _ in 0..most {
        let to = all.len();
        for at in from..to {
            let next = all[at].last().map_or(0, |last| last + 1);
            all.extend((next..limit).map(|bit| [&all[at][..], &[bit]].concat()).collect::<Vec<_>>());
        }
        from = to;
    }
    all
}

/// t + 1 errors are miscorrected if they are t + 1 of the 2t + 1 one bits of a codeword, because the other t bits are then
/// nearer. (Such words have no codeword of lower weight.) A word of n bits has about C(n, 2t + 1) / 2^mt such codewords.
/// Each contains C(2t + 1, t) of the C(n, t + 1) patterns. The share is C(n - t - 1, t) / 2^mt, or (n / 2^m)^t / t!. The
/// second factor is that of a perfectly packed code, the first accounts for the positions that a shortened code does not
/// have.
#[test]
fn one_error_too_many_is_miscorrected_as_often_as_theory_says() {
    const TRIALS: usize = 40_000;
    let mut noise = Noise(99);
    for t in 1_u32..=4 {
        let codec = codec(&format!("bch{t}/512"));
        let (data, ecc) = encoded(&codec, 3);
        let n = 4096 + 13 * t;
        let share = (0..t).fold(1.0, |share, i| share * f64::from(n - t - 1 - i) / f64::from((i + 1) << 13));
        let mut miscorrected = 0;
        for _ in 0..TRIALS {
            let (mut got, mut got_ecc) = (data.clone(), ecc.clone());
            let wrong = noise.distinct(t as usize + 1, n as usize);
            wrong.into_iter().for_each(|bit| flip(&mut got, &mut got_ecc, bit));
            if let Ok(found) = codec.decode(&mut got, &mut got_ecc) {
                let mut valid = vec![0; ecc.len()];
                codec.encode(&got, &mut valid);
                assert!(found == t && valid == got_ecc && got != data);
                miscorrected += 1;
            }
        }
        let expected = share * TRIALS as f64;
        let deviation = (expected * (1.0 - share)).sqrt();
        let off = (f64::from(miscorrected) - expected) / deviation;
        assert!(off.abs() < 4.0, "t = {t}: {miscorrected} of {TRIALS}, {expected:.1} expected");
    }
}
