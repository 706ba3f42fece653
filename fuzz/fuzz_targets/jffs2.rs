//! A JFFS2 in any bytes: found, described and read as it is, and with good CRCs.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::jffs2(bytes));
