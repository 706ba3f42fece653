//! ONFI parameter pages and extended pages; a first bit of 1 mends the checksums.

#![no_main]

use floatgate_media::crc;
use floatgate_media::onfi::{self, OnfiExtendedPage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mode & 1 == 1 {
        mend(&mut bytes);
    }
    if let Ok(page) = onfi::parse_copies(&bytes) {
        assert_eq!(onfi::parse(&onfi::emit(&page)), Ok(page));
    }
    if let Ok(page) = OnfiExtendedPage::parse(&bytes) {
        let mut out = vec![0; page.len_bytes()];
        assert_eq!(page.emit(&mut out), Ok(out.len()));
        assert_eq!(OnfiExtendedPage::parse(&out), Ok(page));
    }
});

/// Gives each copy, or an extended page, its signature and checksum.
fn mend(bytes: &mut [u8]) {
    if bytes.starts_with(b"\0\0") && bytes.len() >= 6 {
        bytes[2..6].copy_from_slice(b"EPPS");
        let sum = crc::onfi(&bytes[2..]);
        bytes[..2].copy_from_slice(&sum.to_le_bytes());
        return;
    }
    for copy in bytes.chunks_exact_mut(onfi::PAGE_BYTES) {
        copy[..4].copy_from_slice(b"ONFI");
        let sum = crc::onfi(&copy[..254]);
        copy[254..].copy_from_slice(&sum.to_le_bytes());
    }
}
