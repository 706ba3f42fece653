//! Any text as measured times: an error, or samples from which a prediction or an error follows, never a panic.
#![no_main]

use floatgate_config::Library;
use floatgate_lab::endurance::predict::{parse, predict};
use floatgate_lab::endurance::{Experiment, Subject};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static CHIP: LazyLock<Option<Subject>> =
    LazyLock::new(|| Subject::new(&Library::built_in(), "mt29f8g08maawc", &[]).ok());

fuzz_target!(|text: &str| {
    match (parse(text), &*CHIP) {
        (Err(error), _) => assert!(!error.to_string().is_empty()),
        (Ok(samples), Some(chip)) => {
            if let Ok(prediction) = predict(chip, &Experiment::default(), &samples) {
                let r = prediction.remaining;
                assert!(r.low <= r.median && r.median <= r.high && r.low >= 0.0, "{r:?}");
            }
        }
        (Ok(_), None) => {}
    }
});
