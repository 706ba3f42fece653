//! CFI query structures; the first byte picks the bus.

#![no_main]

use floatgate_media::cfi::{self, BusView};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    let view = match mode % 3 {
        0 => BusView::X8,
        1 => BusView::X16,
        _ => BusView::X16AsX8,
    };
    let Ok(parsed) = cfi::parse(bytes, view) else {
        return;
    };
    let _ = (parsed.identification.chip_bytes(), parsed.identification.chip_erase_max_ms());
    let mut out = vec![0; bytes.len()];
    if let Ok(end) = cfi::emit(&parsed, view, &mut out) {
        assert_eq!(cfi::parse(&out[..end], view), Ok(parsed));
    }
});
