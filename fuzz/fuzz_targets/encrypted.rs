//! Encrypted files in any filesystem, read with the key of the samples.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::encrypted(bytes));
