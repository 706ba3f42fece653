//! A partition under the wear levelling of ESP-IDF with any contents.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::wear_levelling(bytes));
