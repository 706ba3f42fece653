//! JEDEC parameter pages; a first bit of 1 mends signature and checksum.

#![no_main]

use floatgate_media::{crc, jedec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mode & 1 == 1 {
        for copy in bytes.chunks_exact_mut(jedec::PAGE_BYTES) {
            copy[..4].copy_from_slice(b"JESD");
            let sum = crc::onfi(&copy[..510]);
            copy[510..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    if let Ok(page) = jedec::parse_copies(&bytes) {
        assert_eq!(jedec::parse(&jedec::emit(&page)), Ok(page));
        let _ = page.chip_bytes();
    }
});
