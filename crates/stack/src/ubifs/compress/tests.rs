use super::*;
use proptest::prelude::*;

const KINDS: [Compression; 3] = [Compression::Lzo, Compression::Zlib, Compression::Zstd];

/// Random test blocks: pieces of random bytes, runs, and copies of earlier bytes, near and far.
fn block() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0u8..4, 1usize..600, 1usize..4096, any::<u64>(), 1u8..=255);
    (prop::collection::vec(piece, 1..60), 1usize..=BLOCK).prop_map(|(pieces, len)| {
        let mut bytes = Vec::new();
        for (kind, count, distance, seed, letters) in pieces {
            extend(&mut bytes, kind, count, distance, seed, letters);
        }
        bytes.truncate(len);
        bytes
    })
}

fn extend(bytes: &mut Vec<u8>, kind: u8, count: usize, distance: usize, mut seed: u64, letters: u8) {
    for _ in 0..count {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (seed >> 33) as u8 % letters;
        let copied = bytes.len().checked_sub(distance).map_or(random, |from| bytes[from]);
        bytes.push(match kind {
            0 => random,
            1 => letters,
            _ => copied,
        });
    }
}

fn round_trip(how: Compression, data: &[u8]) -> (Compression, Vec<u8>) {
    round_trip_with(Effort::Smallest, how, data)
}

fn round_trip_with(effort: Effort, how: Compression, data: &[u8]) -> (Compression, Vec<u8>) {
    let mut stored = vec![1, 2, 3];
    let used = Compressor::new(effort).compress(how, data, &mut stored);
    let mut out = vec![0xA5; data.len()];
    assert_eq!(Decompressor::new().decompress(used, &stored, &mut out), Ok(data.len()), "{how:?}");
    assert_eq!(out, data, "{how:?}");
    (used, stored)
}

proptest! {
    #[test]
    fn any_block_comes_back(data in block()) {
        for (how, effort) in KINDS.into_iter().flat_map(|how| [(how, Effort::Smallest), (how, Effort::Fast)]) {
            let (used, stored) = round_trip_with(effort, how, &data);
            prop_assert!(used == how || stored.len() == data.len());
            prop_assert!(used != how || stored.len() + MIN_COMPRESS_GAIN <= data.len());
        }
    }

    #[test]
    fn reused_tables_give_the_same_bytes(blocks in prop::collection::vec(block(), 1..4)) {
        for effort in [Effort::Smallest, Effort::Fast] {
            let mut compressor = Compressor::new(effort);
            for data in &blocks {
                for how in KINDS {
                    let mut stored = Vec::new();
                    let used = compressor.compress(how, data, &mut stored);
                    prop_assert_eq!((used, stored), round_trip_with(effort, how, data));
                }
            }
        }
    }

    #[test]
    fn damaged_data_are_an_error_or_a_block(data in block(), flips in prop::collection::vec((0usize..4096, 1u8..), 1..8), room in 0usize..=4096) {
        for how in KINDS {
            let (used, mut stored) = round_trip(how, &data);
            for &(at, flip) in &flips {
                let at = at % stored.len();
                stored[at] ^= flip;
            }
            let mut out = vec![0; room];
            if let Ok(len) = Decompressor::new().decompress(used, &stored, &mut out) {
                prop_assert!(len <= room);
            }
        }
    }

    #[test]
    fn cut_off_data_are_never_a_block(data in block(), cut in 1usize..4096) {
        for how in KINDS {
            let (used, stored) = round_trip(how, &data);
            if used == how {
                let mut out = vec![0; BLOCK];
                let shorter = &stored[..stored.len() - 1 - cut % stored.len()];
                // For the library, as for Linux, empty input is an empty Zstandard frame.
                let result = Decompressor::new().decompress(used, shorter, &mut out);
                prop_assert!(result.is_err() || (shorter.is_empty() && result == Ok(0)), "{how:?}: {result:?}");
            }
        }
    }
}

/// The fast compressor finds repeated text: its output is less than a third larger than the output of the smallest
/// effort.
#[test]
fn fast_is_not_much_larger() {
    let text = include_str!("mod.rs");
    let size = |effort| {
        let blocks = text.as_bytes().chunks(BLOCK);
        blocks.map(|block| round_trip_with(effort, Compression::Lzo, block).1.len()).sum::<usize>()
    };
    let (smallest, fast) = (size(Effort::Smallest), size(Effort::Fast));
    assert!(smallest < fast && fast < smallest * 4 / 3, "{smallest} {fast} of {}", text.len());
}

#[test]
fn what_gains_too_little_is_kept_as_it_is() {
    for how in KINDS {
        assert_eq!(round_trip(how, &[7; MIN_COMPRESS_BYTES - 1]).0, Compression::None);
        assert_eq!(round_trip(how, &[7; MIN_COMPRESS_BYTES]).0, how);
        assert_eq!(round_trip(how, &[7; BLOCK]).0, how);
        assert_eq!(round_trip(how, &[7; BLOCK + 1]).0, Compression::None);
        assert_eq!(round_trip(how, &[]).0, Compression::None);
    }
    assert_eq!(round_trip(Compression::None, &[7; BLOCK]).0, Compression::None);
    assert_eq!(round_trip(Compression::Other(9), &[7; BLOCK]).0, Compression::None);
}

#[test]
fn an_unknown_compression_is_an_error() {
    let result = Decompressor::new().decompress(Compression::Other(4), &[0; 8], &mut [0; 8]);
    assert_eq!(result, Err(CompressError::Unknown(4)));
}
