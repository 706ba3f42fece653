//! Samples of a probe and logs of flashbench are read, and concluded from.
#![no_main]

use floatgate_probe::flashbench::Log;
use floatgate_probe::{Samples, conclude};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(samples) = Samples::from_csv(text) {
        conclude(&samples);
    }
    if let Some(log) = Log::parse(text) {
        log.conclude();
    }
});
