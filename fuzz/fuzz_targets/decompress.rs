//! Blocks of UBIFS: hostile bytes are an error or a block; what is compressed comes back.

#![no_main]

use std::cell::RefCell;

use floatgate_media::file::Compression;
use floatgate_stack::ubifs::compress::{Compressor, Decompressor};
use libfuzzer_sys::fuzz_target;

const BLOCK: usize = 4096;

thread_local! {
    static CODERS: RefCell<(Compressor, Decompressor)> = RefCell::new((Compressor::default(), Decompressor::new()));
}

// First byte: how; second: room for the block, sixteenths of it.
fuzz_target!(|data: &[u8]| {
    let [how, room, data @ ..] = data else { return };
    let how = Compression::from_code(u16::from(*how % 5));
    let room = usize::from(*room) * 16 % (BLOCK + 1);
    CODERS.with_borrow_mut(|(compressor, decompressor)| {
        let mut out = vec![0; room];
        if let Ok(len) = decompressor.decompress(how, data, &mut out) {
            assert!(len <= room);
            round_trip(compressor, decompressor, how, &out[..len]);
        }
        round_trip(compressor, decompressor, how, &data[..data.len().min(BLOCK)]);
    });
});

fn round_trip(compressor: &mut Compressor, decompressor: &mut Decompressor, how: Compression, data: &[u8]) {
    let (mut stored, mut out) = (Vec::new(), vec![0; data.len()]);
    let used = compressor.compress(how, data, &mut stored);
    assert!(stored.len() <= data.len());
    assert_eq!(decompressor.decompress(used, &stored, &mut out), Ok(data.len()));
    assert_eq!(out, data);
}
