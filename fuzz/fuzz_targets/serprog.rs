//! Requests of a serprog client to a SPI NOR or a parallel NOR: every one is answered, and the chip's time goes on.

#![no_main]

use floatgate_config::Library;
use floatgate_host::serprog::{self, Bus, Programmer};
use floatgate_lab::study::setup::{Corner, Named};
use floatgate_mtd::Nanos;
use floatgate_sim::programmer;
use floatgate_sim::rig::{self, RigOptions};
use floatgate_sim::socket::Socket as _;
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::OnceLock;

/// Parts with each set of registers, and with each command set of parallel NORs.
const PARTS: [&str; 6] = ["w25q64jv", "mx25uw12845g", "n25q128a", "is25lp128", "s29gl128p", "28f128j3a"];

struct Socket(programmer::Programmer);

impl Programmer for Socket {
    fn transfer(&mut self, sent: &[u8], received: &mut [u8]) {
        let before = self.0.now();
        self.0.transfer(sent, received);
        assert!(self.0.now() >= before);
    }

    fn bus(&self) -> Bus {
        if self.0.is_parallel() { Bus::Parallel } else { Bus::Spi }
    }

    fn read(&mut self, address: u32, received: &mut [u8]) {
        self.0.read(address, received);
    }

    fn write(&mut self, address: u32, sent: &[u8]) {
        self.0.write(address, sent);
    }

    fn set_clock(&mut self, hz: u32) -> u32 {
        self.0.set_clock(hz);
        hz
    }

    fn delay(&mut self, us: u64) {
        self.0.wait(Nanos::from_us(us.min(u32::MAX.into())));
    }
}

fn new(part: &str) -> programmer::Programmer {
    let library = Library::built_in();
    let named = Named::open(&library, Path::new(part), &[], Corner::Typ).unwrap();
    let config = named.config(&library).unwrap();
    rig::programmer(&config, RigOptions::default()).unwrap()
}

fuzz_target!(|data: &[u8]| {
    static CHIPS: OnceLock<Vec<programmer::Programmer>> = OnceLock::new();
    let Some((part, requests)) = data.split_first() else { return };
    let chips = CHIPS.get_or_init(|| PARTS.map(new).into());
    let mut socket = Socket(chips[usize::from(*part) % chips.len()].clone());
    serprog::serve(requests, std::io::sink(), &mut socket).unwrap();
    let contents = socket.0.contents();
    let mut fresh = chips[usize::from(*part) % chips.len()].clone();
    fresh.set_contents(&contents).unwrap();
    assert!(fresh.contents() == contents, "contents come back as they were");
});
