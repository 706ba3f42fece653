//! Flash with any contents is attached, read and written.
#![no_main]

use floatgate_image::trial;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    trial::attach(bytes);
    let mut mended = bytes.to_vec();
    trial::mend(mended.get_mut(1..).unwrap_or(&mut []));
    trial::attach(&mended);
});
