//! Any bytes as a compressed or sparse file: an error or what it holds, of which the first MiB is read.
#![no_main]

use floatgate_image::ecc::unpack;
use libfuzzer_sys::fuzz_target;
use std::io::Read;

fuzz_target!(|data: &[u8]| {
    let mut out = Vec::new();
    let outcome = unpack(data).and_then(|(reader, _)| reader.take(1 << 20).read_to_end(&mut out));
    if let Err(error) = outcome {
        assert!(!error.to_string().is_empty());
    }
});
