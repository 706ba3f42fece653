//! A YAFFS2 with any contents.
#![no_main]

use floatgate_image::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::yaffs(bytes));
