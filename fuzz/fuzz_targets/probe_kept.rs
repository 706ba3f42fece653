//! Any bytes as a saved file of a probe: its ranges are inside the device and their contents in the file, or a fault is named with its place.
#![no_main]

use floatgate_host::saved::SavedFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("floatgate-fuzz-{}", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    match SavedFile::open(&path) {
        Ok(mut saved) => {
            saved.verify();
            assert!(saved.bytes() <= bytes.len() as u64);
            assert!(saved.damage().iter().all(|damage| !damage.to_string().is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
