//! Compares ECC bytes with those written by Linux's own code.
#![allow(missing_docs, reason = "a test has no users")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

use crate::common::{noise, rows, unhex};
use floatgate_ecc::{Bch, Code, Codec};

/// Test vectors of polynomial, strength, data and ECC bytes.
fn bch_vectors() -> Vec<(u32, u32, Vec<u8>, Vec<u8>)> {
    let parse = |row: Vec<&str>| {
        let polynomial = u32::from_str_radix(row[0].trim_start_matches("0x"), 16).unwrap();
        let data = noise(row[3].parse().unwrap(), row[2].parse().unwrap());
        (polynomial, row[1].parse().unwrap(), data, unhex(row[4]))
    };
    rows(include_str!("vectors/bch.txt")).map(parse).collect()
}

#[test]
fn bch_bytes_are_the_kernels() {
    let vectors = bch_vectors();
    assert!(vectors.len() > 100);
    for (polynomial, strength, data, expected) in vectors {
        let bch = Bch::with_polynomial(polynomial, strength).unwrap();
        let mut ecc = vec![0; bch.ecc_bytes()];
        bch.encode(&data, &mut ecc);
        assert_eq!(ecc, expected, "{polynomial:#x}, {strength} bits, {} bytes", data.len());
    }
}

/// Linux's NAND engine adds a mask that makes an erased step valid: the inverted ECC bytes of a step
/// of 0xFF.
#[test]
fn codecs_add_the_mask_of_erased_steps() {
    let mut tried = 0;
    for (polynomial, strength, data, expected) in bch_vectors() {
        let step_bytes = data.len() as u32;
        let code = match (polynomial, step_bytes) {
            (0x201B, 512) | (0x402B, 1024) => Code::Bch { strength, step_bytes },
            (0x4443, 1024) => Code::BchOver { strength, step_bytes, polynomial },
            _ => continue,
        };
        tried += 1;
        let bare = Bch::with_polynomial(polynomial, strength).unwrap();
        let mut erased = vec![0; expected.len()];
        bare.encode(&vec![0xFF; data.len()], &mut erased);
        let masked: Vec<u8> = expected.iter().zip(&erased).map(|(byte, mask)| byte ^ !mask).collect();

        let codec = Codec::new(code).unwrap();
        let mut ecc = vec![0; expected.len()];
        codec.encode(&data, &mut ecc);
        assert_eq!(ecc, masked, "{}", codec.code());
        codec.encode(&vec![0xFF; data.len()], &mut ecc);
        assert!(ecc.iter().all(|byte| *byte == 0xFF));
    }
    assert_eq!(tried, 3 * 6 * 3, "fields, strengths and seeds");
}

fn hamming_data(step_bytes: usize, what: &str) -> Vec<u8> {
    let Some(bit) = what.strip_prefix("bit") else { return noise(what.parse().unwrap(), step_bytes) };
    let bit: usize = bit.parse().unwrap();
    let mut data = vec![0; step_bytes];
    data[bit / 8] = 1 << (bit % 8);
    data
}

#[test]
fn hamming_bytes_are_the_kernels() {
    let mut count = 0;
    for row in rows(include_str!("vectors/hamming.txt")) {
        let step_bytes: u32 = row[0].parse().unwrap();
        let codec = Codec::new(Code::Hamming { step_bytes }).unwrap();
        let mut ecc = [0; 3];
        codec.encode(&hamming_data(step_bytes as usize, row[1]), &mut ecc);
        assert_eq!(ecc[..], unhex(row[2]), "{} {}", row[0], row[1]);
        count += 1;
    }
    assert_eq!(count, 51);
}
