//! Any bytes as a trace of a block device: requests that a device can have, then the end or one fault with its place, never a panic.
#![no_main]

use floatgate_lab::card::trace::{Reader, RequestKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut trace = match Reader::new(bytes) {
        Ok(trace) => trace,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut now = 0;
    for request in trace.by_ref() {
        match request {
            Ok(request) => {
                assert!(request.at.as_ns() >= now, "not in the order of issue");
                now = request.at.as_ns();
                assert!(request.sector + request.sectors <= 1 << 54);
                assert!(request.kind != RequestKind::Flush || request.sectors == 0);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(trace.next().is_none(), "behind a fault comes nothing");
});
