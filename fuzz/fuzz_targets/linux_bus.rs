//! Requests of the kernel module to a SPI NOR, a SPI NAND and a raw NAND: each is answered or refused, and the chip's time goes on.

#![no_main]

use floatgate_config::Library;
use floatgate_sim::linux_bus::LinuxBus;
use floatgate_sim::rig::{self, RigOptions};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

const PARTS: [&str; 5] = ["w25q64jv", "mx25uw12845g", "w25n01gv", "w35n01jw", "mx30lf2g18ac"];

fn new(part: &str) -> LinuxBus {
    let library = Library::built_in();
    let config = library.resolve(&library.setup(part).unwrap(), &[]).unwrap();
    rig::linux_bus(&config, RigOptions::default()).unwrap()
}

fuzz_target!(|data: &[u8]| {
    static CHIPS: OnceLock<Vec<LinuxBus>> = OnceLock::new();
    let Some((part, mut requests)) = data.split_first() else { return };
    let chips = CHIPS.get_or_init(|| PARTS.map(new).into());
    let mut bus = chips[usize::from(*part) % chips.len()].clone();
    // Each request has its length before it.
    while let Some((length, rest)) = requests.split_first() {
        let (request, later) = rest.split_at(usize::from(*length).min(rest.len()));
        requests = later;
        let before = bus.done_at();
        if let Ok(answer) = bus.answer(request) {
            assert!((8..=8 + (64 << 10)).contains(&answer.len()) && answer[..4] == request[..4]);
        }
        assert!(bus.done_at() >= before);
    }
});
