//! Flash with any contents is attached, read and written.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::attach(bytes);
    let mut mended = bytes.to_vec();
    fuzzing::mend(mended.get_mut(1..).unwrap_or(&mut []));
    fuzzing::attach(&mended);
});
