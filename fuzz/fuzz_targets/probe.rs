//! Samples of a probe, logs of flashbench and results of fio are read, and concluded from; registers of cards are decoded.
#![no_main]

use floatgate_probe::fio;
use floatgate_probe::flashbench::Log;
use floatgate_probe::registers::{CardType, Identification, Status, capacity_of_csd, specification_of_scr};
use floatgate_probe::{Samples, conclude};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(samples) = Samples::from_csv(text) {
        conclude(&samples);
    }
    if let Some(log) = Log::parse(text) {
        let _ = log.conclude();
    }
    if let Some(log) = fio::Log::parse(text) {
        let _ = log.conclude();
    }
    for kind in [CardType::Sd, CardType::Mmc] {
        let _ = Identification::parse(text, kind);
        let _ = capacity_of_csd(text, kind);
    }
    let _ = specification_of_scr(text);
    let _ = Status::parse(text);
});
