//! Any bytes as what a probe has kept of a device: ranges inside the device whose contents are in the file, or a fault with its place.
#![no_main]

use floatgate_probe::Kept;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("floatgate-fuzz-{}", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    match Kept::read(&path) {
        Ok(kept) => assert!(kept.bytes() <= bytes.len() as u64),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
