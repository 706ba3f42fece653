//! Any bytes as an ini file of ubinize.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::ini(bytes));
