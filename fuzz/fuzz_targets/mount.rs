//! Bytes taken for a bare UBIFS are mounted in every way, and all in it is read.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::mount(bytes);
    let mut mended = bytes.to_vec();
    fuzzing::mend(&mut mended);
    fuzzing::mount(&mended);
});
