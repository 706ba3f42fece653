//! Halves of any bytes as the dumps of two chips, and as two dumps of one chip.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::two_dumps(bytes));
