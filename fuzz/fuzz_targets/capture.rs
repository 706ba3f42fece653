//! Captures of logic analysers: whatever is read is sent to a chip, in the order of its times.

#![no_main]

use floatgate_capture::{Channels, check, read};
use floatgate_config::Library;
use floatgate_sim::rig::{self, Pins, RigOptions};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

fn new(part: &str) -> Pins {
    let library = Library::built_in();
    let config = library.resolve(&library.setup(part).unwrap(), &[]).unwrap();
    rig::pins(&config, RigOptions { stores: false, ..RigOptions::default() }).unwrap()
}

fuzz_target!(|data: &[u8]| {
    static CHIPS: OnceLock<[Pins; 2]> = OnceLock::new();
    let Ok(capture) = read(data, &Channels::default()) else { return };
    assert!(capture.windows.iter().all(|window| window.sent.len() == window.received.len()));
    for chip in CHIPS.get_or_init(|| ["w25q128jv", "w25n01gv"].map(new)) {
        let report = check(&capture.windows, &mut chip.clone()).unwrap();
        let count: u64 = report.commands.iter().map(|command| command.count).sum();
        assert!(count <= capture.windows.len() as u64, "windows without a byte are no commands");
    }
});
