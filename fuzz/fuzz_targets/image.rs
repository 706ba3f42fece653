//! A file with any contents is searched for images, which are described and extracted.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::image(bytes);
    let mut mended = bytes.to_vec();
    fuzzing::mend(&mut mended);
    fuzzing::image(&mended);
});
