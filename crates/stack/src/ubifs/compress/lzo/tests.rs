use super::*;
use read::LzoFault as Fault;

fn read(data: &[u8]) -> Result<Vec<u8>, (usize, Fault)> {
    read_into(data, 64)
}

fn read_into(data: &[u8], room: usize) -> Result<Vec<u8>, (usize, Fault)> {
    let mut out = vec![0xA5; room];
    let len = decompress(data, &mut out)?;
    out.truncate(len);
    Ok(out)
}

fn compressed(data: &[u8]) -> Vec<u8> {
    compressed_with(Effort::Smallest, data)
}

fn compressed_with(effort: Effort, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Lzo::new(effort).compress(data, &mut out);
    out
}

#[test]
fn instructions_are_read_as_specified() {
    // Literals at the start of the data, then the end marker.
    assert_eq!(read(b"\x15abcd\x11\0\0").unwrap(), b"abcd");
    // A short copy of three bytes, then a literal whose count is in the copy instruction.
    assert_eq!(read(b"\x15abcd\x4d\0x\x11\0\0").unwrap(), b"abcdabcx");
    // A copy that overlaps its own output, with a length extension byte.
    assert_eq!(read(b"\x12a\x20\x01\0\0\x11\0\0").unwrap(), [b'a'; 35]);
    // A copy of two bytes after one literal.
    assert_eq!(read(b"\x13ab\x04\0\x11\0\0").unwrap(), b"abab");
    // The last two bits of the end marker are ignored.
    assert_eq!(read(b"\x15abcd\x11\x03\0").unwrap(), b"abcd");
    // Only the end marker: empty data.
    assert_eq!(read(b"\x11\0\0").unwrap(), b"");
}

#[test]
fn versions_are_read_as_specified() {
    assert_eq!(read(b"\x11\0\x15abcd\x11\0\0").unwrap(), b"abcd");
    assert_eq!(read(b"\x11\x01\x12a\x1a\xfc\xff\x01\x11\0\0").unwrap(), [&b"a"[..], &[0; 14]].concat());
    assert_eq!(
        read(b"\x11\x01\x12a\x18\xfd\xff\x01b\x11\0\0").unwrap(),
        [&b"a"[..], &[0; 12], b"b"].concat()
    );
    assert_eq!(read(b"\x11\0\x12a\x1a\xfc\xff\x11\0\0"), Err((7, Fault::Before)));
    assert_eq!(read(b"\x11\x01\x12a\x1a\xfc\xff\xff\x11\0\0"), Err((8, Fault::TooLong)));
}

#[test]
fn what_is_wrong_is_told() {
    let cases: [(&[u8], usize, Fault); 12] = [
        (b"", 0, Fault::Truncated),
        (b"\x11\0", 0, Fault::Truncated),
        (b"\x15abcd", 5, Fault::Truncated),
        (b"\x16abcd", 1, Fault::Truncated),
        (b"\x15abcd\x20\0\0\0\0\0", 11, Fault::Truncated),
        (b"\0\0\0\0\0", 5, Fault::Truncated),
        (b"\x15abcd\x60\x01\x11\0\0", 7, Fault::Before),
        (b"\x10\x01\0\x11\0\0", 4, Fault::Before),
        (b"\x15abcd\x20\xff\0\0\x11\0\0", 9, Fault::TooLong),
        (b"\xff\0\0", 1, Fault::Truncated),
        (b"\x15abcd\x12\0\0", 8, Fault::BadEnd),
        (b"\x15abcd\x11\0\0\0", 8, Fault::Trailing),
    ];
    for (data, at, fault) in cases {
        assert_eq!(read(data), Err((at, fault)), "{data:x?}");
    }
    assert_eq!(read_into(b"\x15abcd\x11\0\0", 3), Err((1, Fault::TooLong)));
    assert_eq!(read_into(b"\x15abcd\x11\0\0", 4).unwrap(), b"abcd");
    assert_eq!(read_into(b"\x11\0\0", 0).unwrap(), b"");
}

#[test]
fn a_length_of_nothing_but_zeros_is_no_hang() {
    let mut data = b"\x15abcd\x20".to_vec();
    data.resize(1 << 20, 0);
    assert_eq!(read(&data), Err((1 << 20, Fault::Truncated)));
    data.extend([1, 0, 0]);
    assert_eq!(read(&data), Err((data.len(), Fault::TooLong)));
}

#[test]
fn the_cheapest_instructions_are_written() {
    assert_eq!(compressed(b"a"), b"\x12a\x11\0\0");
    assert_eq!(compressed(b"abcdabcx"), b"\x15abcd\x4d\0x\x11\0\0");
    assert_eq!(compressed(&[7; 4096]), [&b"\x12\x07\x20"[..], &[0; 15], &[237, 0, 0, 0x11, 0, 0]].concat());
    assert_eq!(compressed(b""), b"\x11\0\0");
}

/// Tests the lengths at which the encoding changes.
#[test]
fn every_length_of_run_and_copy_comes_back() {
    let mut seed = 1u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    })
    .take(4096)
    .collect();
    for len in (1..=40).chain(230..=300).chain([528, 529, 1024, 2047, 2048, 2049, 2050, 3072, 3073]) {
        for tail in [0, 1, 3, 4, 18, 19] {
            let data = [&noise[..len], &noise[..len.min(1000)], &noise[3100..3100 + tail]].concat();
            for effort in [Effort::Smallest, Effort::Fast] {
                let written = compressed_with(effort, &data);
                assert_eq!(read_into(&written, data.len()).as_ref(), Ok(&data), "{effort:?}: {len}, {tail}");
            }
        }
    }
}
