//! A card in SPI mode, byte by byte.

use crate::support::spec;
use floatgate_card::spi::SpiCard;
use floatgate_card::{CardOptions, CardSpec};
use floatgate_device::violation::Violation;
use floatgate_media::sd::{CardType, Csd, crc7, crc16};
use floatgate_mtd::Nanos;
use floatgate_mtd::random::Random;
use floatgate_testing::few_or_all;

/// Bytes after which a host gives up.
const PATIENCE: usize = 1 << 20;

/// A host that keeps the rules: CS# is low from a command to the end of its data, and a byte with CS# high follows.
struct Host {
    card: SpiCard,
    /// Sector addresses.
    is_high_capacity: bool,
}

impl Host {
    fn new(spec: &CardSpec) -> Self {
        let mut card = SpiCard::new(spec, CardOptions::default()).unwrap();
        card.advance(Nanos::from_ms(1));
        card.write(&[0xFF; 10]);
        Self { card, is_high_capacity: false }
    }

    fn command(&mut self, command: u8, argument: u32) -> u8 {
        let [a, b, c, d] = argument.to_be_bytes();
        let frame = [0x40 | command, a, b, c, d];
        self.card.select();
        self.card.write(&frame);
        self.card.write(&[crc7(&frame) << 1 | 1]);
        if command == 12 {
            self.byte();
        }
        self.response()
    }

    fn application(&mut self, command: u8, argument: u32) -> u8 {
        assert!(self.command(55, 0) <= 1);
        self.end();
        self.command(command, argument)
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.card.read(&mut byte);
        byte[0]
    }

    fn response(&mut self) -> u8 {
        (0..9).map(|_| self.byte()).find(|byte| byte & 0x80 == 0).unwrap_or(0xFF)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.card.read(&mut bytes);
        bytes
    }

    /// Data of a block, or the error token.
    fn block<const N: usize>(&mut self) -> Result<[u8; N], u8> {
        let token = (0..PATIENCE).map(|_| self.byte()).find(|byte| *byte != 0xFF).unwrap();
        if token != 0xFE {
            return Err(token);
        }
        let data = self.bytes();
        let crc: [u8; 2] = self.bytes();
        if crc == crc16(&data).to_be_bytes() { Ok(data) } else { Err(0) }
    }

    /// Sends a block, returns the data response, and waits.
    fn send(&mut self, token: u8, data: &[u8; 512]) -> u8 {
        self.card.write(&[0xFF, token]);
        self.card.write(data);
        self.card.write(&crc16(data).to_be_bytes());
        let response = self.byte() & 0x1F;
        self.wait();
        response
    }

    fn wait(&mut self) {
        assert!((0..PATIENCE).any(|_| self.byte() == 0xFF), "busy for ever");
    }

    fn end(&mut self) {
        self.card.deselect();
        self.card.write(&[0xFF]);
    }

    fn initialise(&mut self) {
        assert_eq!(self.command(0, 0), 1);
        self.end();
        assert_eq!(self.command(8, 0x1AA), 1);
        assert_eq!(self.bytes(), [0, 0, 1, 0xAA]);
        self.end();
        assert!((0..1000).any(|_| {
            let is_ready = self.application(41, 1 << 30) == 0;
            self.end();
            is_ready
        }));
        assert_eq!(self.command(58, 0), 0);
        let [conditions, ..]: [u8; 4] = self.bytes();
        self.end();
        assert_eq!(conditions & 0x80, 0x80);
        self.is_high_capacity = conditions & 0x40 != 0;
        self.card.set_clock(25_000_000);
        assert_eq!(self.command(59, 1), 0);
        self.end();
    }

    const fn address(&self, lba: u32) -> u32 {
        if self.is_high_capacity { lba } else { lba * 512 }
    }

    fn read(&mut self, lba: u32) -> [u8; 512] {
        assert_eq!(self.command(17, self.address(lba)), 0);
        let data = self.block().unwrap();
        self.end();
        data
    }

    fn write(&mut self, lba: u32, data: &[u8; 512]) {
        assert_eq!(self.command(24, self.address(lba)), 0);
        assert_eq!(self.send(0xFE, data), 0b00101);
        assert_eq!(self.command(13, 0), 0);
        assert_eq!(self.byte(), 0);
        self.end();
    }

    fn rules(&self) -> Vec<Violation> {
        self.card.violations().recorded().iter().map(|violation| violation.rule).collect()
    }
}

/// CMD52 that reads a register of a function: flags and data.
fn register(host: &mut Host, function: u32, address: u32) -> (u8, u8) {
    let flags = host.command(52, function << 28 | address << 9);
    let data = host.byte();
    host.end();
    (flags, data)
}

/// A driver enables function 1 of a combo card, and writes and reads its registers; the memory works as before.
#[test]
fn a_driver_reaches_the_function_beside_the_memory() {
    let mut host = Host::new(&spec("", "io_function = { interface = 7, vendor = 662, device = 21319 }"));
    assert_eq!(host.command(0, 0), 1);
    host.end();
    for (argument, ready) in [(0, 0), (0x00FF_8000, 0), (0x00FF_8000, 0x80)] {
        assert_eq!(host.command(5, argument), 1);
        let [conditions, ..]: [u8; 4] = host.bytes();
        host.end();
        assert_eq!(conditions, 0x18 | ready, "one function beside the memory");
    }
    host.initialise();
    assert_eq!(register(&mut host, 0, 0x100), (0, 7), "a WLAN");
    let manufacturer: Vec<u8> = (0..6).map(|byte| register(&mut host, 0, 0x1100 + byte).1).collect();
    assert_eq!(manufacturer, [0x20, 4, 0x96, 0x02, 0x47, 0x53]);
    assert_eq!(register(&mut host, 1, 0).0, 0x40, "not enabled");
    assert_eq!(register(&mut host, 2, 0).0, 0x10, "no second function");
    assert_eq!(host.command(52, 1 << 31 | 2 << 9 | 2), 0);
    host.byte();
    host.end();
    assert_eq!([3, 3].map(|address| register(&mut host, 0, address).1), [0, 2], "ready at the second look");
    // CMD53: four bytes to increasing addresses.
    let transfer = 1 << 28 | 1 << 26 | 16 << 9 | 4;
    assert_eq!(host.command(53, 1 << 31 | transfer), 0);
    host.byte();
    host.card.write(&[0xFF, 0xFE, 1, 2, 3, 4]);
    host.card.write(&crc16(&[1, 2, 3, 4]).to_be_bytes());
    assert_eq!(host.byte() & 0x1F, 0b00101);
    host.end();
    assert_eq!(host.command(53, transfer), 0);
    host.byte();
    assert_eq!(host.block(), Ok([1, 2, 3, 4]));
    host.end();
    host.write(3, &[0x5A; 512]);
    assert_eq!(host.read(3), [0x5A; 512]);
    assert_eq!(host.rules(), []);
}

fn ready(changes: &str) -> Host {
    let mut host = Host::new(&spec(changes, ""));
    host.initialise();
    host
}

const LARGE: &str = "capacity_bytes = '4 GiB'\nau_bytes = '4 MiB'\npage_bytes = '16 KiB'\nspare_blocks = 40";

#[test]
fn cards_of_both_capacities_are_initialised_written_and_read_without_a_violation() {
    for (changes, is_high_capacity) in [("", false), (LARGE, true)] {
        let mut host = ready(changes);
        assert_eq!(host.is_high_capacity, is_high_capacity);
        for lba in [0, 7, 2047] {
            host.write(lba, &[lba as u8 | 1; 512]);
        }
        for lba in [0, 7, 2047] {
            assert_eq!(host.read(lba), [lba as u8 | 1; 512]);
        }
        assert_eq!(host.read(8), [0; 512]);
        assert_eq!(host.rules(), []);
    }
}

#[test]
fn registers_are_those_of_the_specification() {
    let mut host = ready(LARGE);
    assert_eq!(host.command(9, 0), 0);
    let csd = Csd::parse(&host.block().unwrap(), CardType::Sd).unwrap();
    assert_eq!(csd.capacity_bytes, Some(4 << 30));
    host.end();
    assert_eq!(host.command(10, 0), 0);
    let cid: [u8; 16] = host.block().unwrap();
    assert_eq!(cid[15], crc7(&cid[..15]) << 1 | 1);
    host.end();
    assert_eq!(host.application(51, 0), 0);
    host.block::<8>().unwrap();
    host.end();
    assert_eq!(host.application(13, 0), 0);
    assert_eq!(host.byte(), 0);
    host.block::<64>().unwrap();
    host.end();
    // High speed is there, and switched on.
    assert_eq!(host.command(6, 0x80FF_FFF1), 0);
    let functions: [u8; 64] = host.block().unwrap();
    host.end();
    assert_eq!((functions[13], functions[16]), (0x03, 0x01));
    host.card.set_clock(50_000_000);
    host.read(0);
    assert_eq!(host.rules(), []);
}

#[test]
fn several_blocks_follow_one_command_in_either_direction() {
    let mut host = ready("");
    assert_eq!(host.application(23, 5), 0);
    host.end();
    assert_eq!(host.command(25, host.address(30)), 0);
    for block in 0..5 {
        assert_eq!(host.send(0xFC, &[block + 1; 512]), 0b00101);
    }
    host.card.write(&[0xFD, 0xFF]);
    host.wait();
    host.end();
    assert_eq!(host.application(22, 0), 0);
    assert_eq!(host.block(), Ok([0, 0, 0, 5]));
    host.end();
    assert_eq!(host.command(18, host.address(30)), 0);
    for block in 0..5 {
        assert_eq!(host.block(), Ok([block + 1; 512]));
    }
    assert_eq!(host.command(12, 0), 0);
    host.wait();
    host.end();
    // Erased sectors are zeros.
    for (command, lba) in [(32, 31), (33, 32)] {
        assert_eq!(host.command(command, host.address(lba)), 0);
        host.end();
    }
    assert_eq!(host.command(38, 0), 0);
    host.wait();
    host.end();
    assert_eq!([30, 31, 32, 33].map(|lba| host.read(lba)[0]), [1, 0, 0, 4]);
    assert_eq!(host.rules(), []);
}

#[test]
fn a_read_of_many_blocks_is_faster_than_many_reads() {
    let mut host = ready("");
    for lba in 0..64 {
        host.write(lba, &[3; 512]);
    }
    let start = host.card.now();
    (0..64).for_each(|lba| assert_eq!(host.read(lba), [3; 512]));
    let single = host.card.now().since(start);
    let start = host.card.now();
    assert_eq!(host.command(18, 0), 0);
    (0..64).for_each(|_| assert_eq!(host.block(), Ok([3; 512])));
    assert_eq!(host.command(12, 0), 0);
    let together = host.card.now().since(start);
    // The firmware takes 100 us for a command, a block 165 us at 25 MHz.
    assert!(together.as_ns() * 5 < single.as_ns() * 4, "{together} {single}");
    assert!(together.as_ns() > 64 * 165_000, "{together}");
}

#[test]
fn wrong_checksums_are_answered() {
    let mut host = ready("");
    host.card.select();
    host.card.write(&[0x40 | 17, 0, 0, 0, 0, 0x01]);
    assert_eq!(host.response(), 0x08);
    host.end();
    assert_eq!(host.command(24, 0), 0);
    host.card.write(&[0xFF, 0xFE]);
    host.card.write(&[1; 514]);
    assert_eq!(host.byte() & 0x1F, 0b01011);
    host.end();
    assert_eq!(host.rules().len(), 2);
    assert_eq!(host.read(0), [0; 512]);
    host.card.disturb_next_block(100);
    assert_eq!(host.command(17, 0), 0);
    assert_eq!(host.block::<512>(), Err(0), "the host sees it by the CRC");
}

#[test]
fn broken_rules_are_recorded_and_answered_as_cards_do() {
    // Neither the clock cycles nor the time after power-on.
    let mut host =
        Host { card: SpiCard::new(&spec("", ""), CardOptions::default()).unwrap(), is_high_capacity: false };
    assert_eq!(host.command(17, 0), 0xFF, "a card on the SD bus does not answer");
    assert_eq!(host.rules().len(), 3, "{:?}", host.rules());
    assert_eq!(host.command(0, 0), 1);
    assert_eq!(host.command(17, 0), 0x05, "idle, illegal command");
    let mut host = ready("");
    let mut refused = |command, argument, expected: u8| {
        let before = host.card.violations().count();
        assert_eq!(host.command(command, argument), expected, "CMD{command}");
        host.end();
        let rules = host.rules();
        assert_eq!(host.card.violations().count(), before + 1, "CMD{command}: {rules:?}");
    };
    refused(28, 0, 0x04);
    refused(12, 0, 0x04);
    refused(17, 1 << 20, 0x40);
    refused(17, 5, 0x20);
    refused(16, 513, 0x40);
    refused(33, 0, 0x10);
    refused(38, 0, 0x10);
    // CS# goes high inside the data; the card goes on, as no clock cycle came.
    assert_eq!(host.command(17, 0), 0);
    host.card.deselect();
    host.card.select();
    assert_eq!(host.block(), Ok([0; 512]));
    host.end();
    // Data at once after the response, too fast.
    host.card.set_clock(26_000_000);
    assert_eq!(host.command(24, 0), 0);
    host.card.write(&[0xFE]);
    host.card.write(&[1; 512]);
    host.card.write(&crc16(&[1; 512]).to_be_bytes());
    assert_eq!(host.byte() & 0x1F, 0b00101);
    host.card.write(&[0x40]);
    host.wait();
    let last: Vec<_> = host.rules().into_iter().rev().take(3).collect();
    assert!(
        matches!(
            last[..],
            [Violation::Busy, Violation::Timing(_), Violation::ClockTooFast { max: 25_000_000, .. }]
        ),
        "{last:?}"
    );
}

#[test]
fn finished_writes_survive_a_power_cut() {
    for cut in 1..12 {
        let mut host = ready("");
        host.card.cut_power(cut);
        let mut written = 0;
        while !host.card.is_dead() && written < 40 {
            if host.command(24, host.address(written * 17)) != 0 {
                break;
            }
            if host.send_or_die(&[written as u8 + 1; 512]) {
                written += 1;
            }
            host.end();
        }
        assert!(host.card.is_dead(), "{cut}");
        assert_eq!(host.byte(), 0xFF);
        host.card.power_on().unwrap();
        host.card.advance(Nanos::from_ms(1));
        host.card.set_clock(400_000);
        host.card.write(&[0xFF; 10]);
        host.initialise();
        for lba in 0..written {
            assert_eq!(host.read(lba * 17), [lba as u8 + 1; 512], "{cut}: {lba} of {written}");
        }
    }
}

impl Host {
    /// Sends a block; false when power is lost.
    fn send_or_die(&mut self, data: &[u8; 512]) -> bool {
        self.card.write(&[0xFF, 0xFE]);
        self.card.write(data);
        self.card.write(&crc16(data).to_be_bytes());
        let response = self.byte() & 0x1F;
        while !self.card.is_dead() && self.byte() != 0xFF {}
        !self.card.is_dead() && response == 0b00101
    }
}

#[test]
fn any_bytes_are_answered_and_the_card_works_afterwards() {
    let mut card = ready("").card;
    card.write_contents(0, &[9; 512]).unwrap();
    for seed in 0..few_or_all(200, 20_000) {
        let (mut card, mut chance) = (card.clone(), Random::new(seed));
        for _ in 0..60 {
            match chance.bits() % 8 {
                0 => card.deselect(),
                1 => card.set_clock(chance.bits() as u32),
                _ => card.select(),
            }
            // Commands are frequent among the bytes.
            let mut bytes: Vec<u8> = (0..chance.bits() % 40).map(|_| chance.bits() as u8).collect();
            if let Some(first) = bytes.first_mut() {
                *first = 0x40 | *first & 0x3F;
            }
            card.exchange(&mut bytes);
        }
        card.power_on().unwrap();
        card.advance(Nanos::from_ms(1));
        card.set_clock(400_000);
        card.write(&[0xFF; 10]);
        let mut host = Host { card, is_high_capacity: false };
        host.initialise();
        host.read(0);
    }
}
