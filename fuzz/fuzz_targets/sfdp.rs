//! SFDP areas: what is read and can be written reads the same again.

#![no_main]

use floatgate_media::sfdp::{self, Lines};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(parsed) = sfdp::parse(data) else {
        return;
    };
    let bfpt = &parsed.bfpt.body;
    let _ = (bfpt.capacity_bytes(), bfpt.page_bytes(), bfpt.erase_typical_ms());
    for lines in Lines::ALL {
        let _ = bfpt.fast_read(lines);
    }
    if let Some(map) = &parsed.sccr {
        for clocks in 0..=u8::MAX {
            let _ = map.body.head.dummy_pattern(clocks);
        }
    }
    let mut out = vec![0; data.len()];
    if let Ok(end) = sfdp::emit(&parsed, &mut out) {
        assert_eq!(sfdp::parse(&out[..end]), Ok(parsed));
    }
    let mut moved = parsed;
    if moved.lay_out().is_ok() {
        let mut out = vec![0; 1 << 14];
        // Of several BFPTs the first header may not be the newest's any more.
        if let Ok(end) = sfdp::emit(&moved, &mut out)
            && parsed.others.iter().all(|table| table.body.id >> 8 != 0xff)
        {
            assert_eq!(sfdp::parse(&out[..end]), Ok(moved));
        }
    }
});
