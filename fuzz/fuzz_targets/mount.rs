//! Bytes taken for a bare UBIFS are mounted in every way, and all in it is read.
#![no_main]

use floatgate_image::trial;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    trial::mount(bytes);
    let mut mended = bytes.to_vec();
    trial::mend(&mut mended);
    trial::mount(&mended);
});
