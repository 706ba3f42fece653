//! Any bytes as measured figures: each line is understood or reported, and every resolution is a span of times above 0.
#![no_main]

use floatgate_lab::fit::{FIGURES_MAX, Figure, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let results = parse(bytes);
    let figures = results.blocks.iter().flat_map(|block| &block.figures);
    assert!(figures.clone().count() <= FIGURES_MAX && results.blocks.iter().all(|b| !b.figures.is_empty()));
    for figure in figures {
        match figure.figure {
            Figure::FlashSpeed(kib_s) => assert!(kib_s > 0.0),
            Figure::NsPerByte(low, high) | Figure::NsPerCall(low, high) => {
                assert!(0.0 < low && low < high && high.is_finite(), "{figure:?}");
            }
        }
    }
});
