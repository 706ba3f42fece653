//! Decoding any data and ECC bytes: never a panic, and what is repaired is a codeword near what came in.

#![no_main]

use floatgate_ecc::Codec;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const CODES: [&str; 9] = [
    "hamming/256",
    "hamming/512",
    "bch1/512",
    "bch4/512",
    "bch8/512",
    "bch24/1024",
    "bch72/1024",
    "bch2/20",
    "bch24/1024@17475",
];

static CODECS: LazyLock<Vec<Codec>> =
    LazyLock::new(|| CODES.iter().map(|name| Codec::new(name.parse().unwrap()).unwrap()).collect());

// The first byte picks the code and whether the rest are the bytes themselves, or their difference from a codeword.
fuzz_target!(|input: &[u8]| {
    let Some((pick, bytes)) = input.split_first() else { return };
    let codec = &CODECS[usize::from(*pick) % CODES.len()];
    let (step, all) =
        (codec.code().step_bytes() as usize, codec.code().step_bytes() + codec.code().ecc_bytes());
    let mut data = vec![0; step];
    let mut ecc = vec![0; all as usize - step];
    if *pick & 0x80 != 0 {
        codec.encode(&data, &mut ecc);
    }
    data.iter_mut().chain(&mut ecc).zip(bytes).for_each(|(place, byte)| *place ^= byte);
    let before = (data.clone(), ecc.clone());
    match codec.decode(&mut data, &mut ecc) {
        Err(_) => assert!(before == (data, ecc)),
        Ok(bits) => {
            assert!(bits <= codec.code().strength());
            let mut valid = ecc.clone();
            codec.encode(&data, &mut valid);
            assert!(valid == ecc);
            let flipped: u32 = data.iter().zip(&before.0).map(|(x, y)| (x ^ y).count_ones()).sum();
            assert!(flipped <= bits);
        }
    }
});
