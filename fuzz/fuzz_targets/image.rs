//! A file with any contents is searched for images, which are described and extracted.
#![no_main]

use floatgate_image::trial;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    trial::image(bytes);
    let mut mended = bytes.to_vec();
    trial::mend(&mut mended);
    trial::image(&mended);
});
