//! Tests that each library reads the output of the other, and that both refuse the same damaged data.

use super::{InflateFault, native, portable};

/// Test blocks: text, numbers, one repeated byte, and noise.
fn blocks() -> Vec<Vec<u8>> {
    let text = b"UBIFS keeps its index on the flash, and its journal before it. ".repeat(70);
    let mut seed = 1_u32;
    let noise = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    });
    vec![
        text[..4096].to_vec(),
        (0..4096_u32).map(|at| (at / 3) as u8).collect(),
        vec![7; 4096],
        noise.take(3000).collect(),
        Vec::new(),
    ]
}

#[test]
fn deflate_of_each_library_is_read_by_the_other() {
    for block in blocks() {
        let mut packed = vec![0; 5000];
        let mut out = vec![0; 4096];
        for level in [3, 6] {
            let len = portable::Deflate::new(level).raw(&block, &mut packed).unwrap();
            let got = native::Inflate::default().raw(&packed[..len], &mut out).unwrap();
            assert!(out[..got] == block);
            let len = portable::Deflate::new(level).zlib(&block, &mut packed).unwrap();
            let got = native::Inflate::default().zlib(&packed[..len], &mut out).unwrap();
            assert!(out[..got] == block);
            let len = native::Deflate::new(level).raw(&block, &mut packed).unwrap();
            let got = portable::Inflate::default().raw(&packed[..len], &mut out).unwrap();
            assert!(out[..got] == block);
            let len = native::Deflate::new(level).zlib(&block, &mut packed).unwrap();
            let got = portable::Inflate::default().zlib(&packed[..len], &mut out).unwrap();
            assert!(out[..got] == block);
        }
    }
}

#[test]
fn zstandard_of_each_library_is_read_by_the_other() {
    for block in blocks() {
        let mut packed = vec![0; 5000];
        let mut out = vec![0; 4096];
        let len = portable::Zstd::default().frame(3, &block, &mut packed).unwrap();
        assert_eq!(native::Unzstd::default().frames(&packed[..len], &mut out), Some(block.len()));
        assert!(out[..block.len()] == block);
        let len = native::Zstd::default().frame(3, &block, &mut packed).unwrap();
        assert_eq!(portable::Unzstd::default().frames(&packed[..len], &mut out), Some(block.len()));
        assert!(out[..block.len()] == block);
        if !block.is_empty() {
            assert_eq!(portable::Unzstd::default().frames(&packed[..len], &mut out[..block.len() - 1]), None);
            assert_eq!(portable::Unzstd::default().frames(&packed[..len - 1], &mut out), None);
        }
    }
}

/// Checks that both libraries refuse the same damaged data. The reason may differ: libdeflate reads zeros after
/// the end of its input, so its output may become too long.
#[test]
fn both_libraries_refuse_the_same_damage() {
    let block = &blocks()[0];
    let mut packed = vec![0; 5000];
    let len = native::Deflate::new(6).raw(block, &mut packed).unwrap();
    let (mut one, mut other) = (vec![0; 4096], vec![0; 4096]);
    let mut both = |data: &[u8], room: usize| {
        let ours = portable::Inflate::default().raw(data, &mut one[..room]);
        (ours, native::Inflate::default().raw(data, &mut other[..room]))
    };
    assert_eq!(both(&packed[..len], 4095), (Err(InflateFault::TooLong), Err(InflateFault::TooLong)));
    let (ours, theirs) = both(&packed[..len - 1], 4096);
    assert!(ours.is_err() && theirs.is_err());
    for at in 0..len {
        let mut damaged = packed[..len].to_vec();
        damaged[at] ^= 0x10;
        let (ours, theirs) = both(&damaged, 4096);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "byte {at}: {ours:?}, {theirs:?}");
    }
}
