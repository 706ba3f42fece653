//! A programmer with a simulated SPI or parallel NOR in its socket: CS# windows or bus cycles, waits, a supply that can
//! fail, and the contents as bytes.

use crate::socket::{self, Socket, ViolationLog, WrongContents};
use floatgate_device::array::Array;
use floatgate_device::oracle::{Faults, Oracle};
use floatgate_device::parallel_nor::NorWire;
use floatgate_device::power::{Power, PowerCut};
use floatgate_device::spi::{SpiChip, SpiWire};
use floatgate_device::spi_nor::SpiNor;
use floatgate_mtd::{Instant, Nanos};

/// A programmer with a chip in its socket.
#[derive(Clone, Debug)]
pub struct Programmer {
    chip: Chip,
    /// SPI clock until a client sets another clock, Hz.
    clock_hz: u32,
    accesses: u64,
    on_wires: Nanos,
}

/// The chip at its pins.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a programmer, and it stays where it is")]
enum Chip {
    Spi(SpiWire<SpiNor>),
    Parallel(NorWire),
}

/// Applies an expression to the wires of either kind of chip.
macro_rules! wire {
    ($chip:expr, $wire:ident => $result:expr) => {
        match $chip {
            Chip::Spi($wire) => $result,
            Chip::Parallel($wire) => $result,
        }
    };
}

/// Default SPI clock of a programmer, Hz. The clock of a board may exceed the limit of READ 03h, which programmers use.
pub const CLOCK_HZ: u32 = 12_000_000;

impl Programmer {
    /// Puts a SPI NOR into the socket. The clock is the clock of the wire, at most [`CLOCK_HZ`].
    pub fn new(mut wire: SpiWire<SpiNor>) -> Self {
        let clock_hz = wire.hz().min(CLOCK_HZ);
        wire.set_clock(clock_hz);
        wire.power_mut().count_operations();
        Self { chip: Chip::Spi(wire), clock_hz, accesses: 0, on_wires: Nanos::ZERO }
    }

    /// Puts a parallel NOR on a bus of eight data bits into the socket.
    pub fn parallel(mut wire: NorWire) -> Self {
        wire.power_mut().count_operations();
        Self { chip: Chip::Parallel(wire), clock_hz: CLOCK_HZ, accesses: 0, on_wires: Nanos::ZERO }
    }

    /// True for a parallel NOR.
    pub const fn is_parallel(&self) -> bool {
        matches!(self.chip, Chip::Parallel(_))
    }

    /// Current virtual time.
    pub fn now(&self) -> Instant {
        wire!(&self.chip, wire => wire.now())
    }

    /// Violations of the chip's rules.
    pub const fn violations(&self) -> &ViolationLog {
        wire!(&self.chip, wire => wire.violations())
    }

    const fn power(&self) -> &Power {
        wire!(&self.chip, wire => wire.power())
    }

    fn oracle(&self) -> &dyn Oracle {
        wire!(&self.chip, wire => wire.chip())
    }

    fn oracle_mut(&mut self) -> &mut dyn Oracle {
        wire!(&mut self.chip, wire => wire.chip_mut())
    }

    /// Executes a CS# window of a SPI NOR: sends bytes to the chip, then receives bytes. With a parallel NOR the received
    /// bytes are FFh.
    pub fn transfer(&mut self, sent: &[u8], received: &mut [u8]) {
        let start = self.now();
        match &mut self.chip {
            Chip::Spi(wire) => wire.transfer(sent, received),
            Chip::Parallel(_) => received.fill(0xFF),
        }
        self.count(start);
    }

    /// Reads bytes of a parallel NOR from an address on. Address lines that the chip does not have are ignored. With a
    /// SPI NOR the received bytes are FFh.
    pub fn read(&mut self, address: u32, received: &mut [u8]) {
        let (start, address) = (self.now(), self.decoded(address));
        match &mut self.chip {
            Chip::Parallel(wire) => wire.read(address, received),
            Chip::Spi(_) => received.fill(0xFF),
        }
        self.count(start);
    }

    /// Writes bytes to a parallel NOR from an address on, one cycle for each byte.
    pub fn write(&mut self, address: u32, sent: &[u8]) {
        for (address, byte) in (address..).zip(sent) {
            let (start, address) = (self.now(), self.decoded(address));
            if let Chip::Parallel(wire) = &mut self.chip {
                wire.write(address, u16::from(*byte));
            }
            self.count(start);
        }
    }

    /// Address at the chip's pins, without higher bits; sizes of chips are powers of two.
    fn decoded(&self, address: u32) -> u32 {
        (u64::from(address) & (self.size() - 1)) as u32
    }

    fn count(&mut self, start: Instant) {
        self.accesses += 1;
        self.on_wires += self.now().since(start);
    }

    /// Advances virtual time by `time`, without traffic on the bus.
    pub fn wait(&mut self, time: Nanos) {
        wire!(&mut self.chip, wire => wire.advance(time));
    }

    /// Sets the SPI clock, Hz.
    pub fn set_clock(&mut self, hz: u32) {
        if let Chip::Spi(wire) = &mut self.chip {
            wire.set_clock(hz);
        }
    }

    /// Number of CS# windows; for a parallel NOR, of read and write cycles.
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Time during which bytes were on the wires.
    pub const fn on_wires(&self) -> Nanos {
        self.on_wires
    }

    /// Time at which the chip has finished all operations.
    pub fn done_at(&self) -> Instant {
        self.now().max(wire!(&self.chip, wire => wire.chip().busy_until()))
    }

    /// Number of program and erase operations so far.
    pub const fn operations(&self) -> u64 {
        self.power().operations()
    }

    /// True after a power failure.
    pub const fn is_dead(&self) -> bool {
        self.power().is_lost()
    }

    /// Cycles the power after the chip has finished all operations, which also restores power after a failure. The chip
    /// is then ready, and the clock is the default one. Returns true if power had failed.
    pub fn power_cycle(&mut self) -> bool {
        self.wait_until_done();
        let failed = self.is_dead();
        if failed {
            wire!(&mut self.chip, wire => wire.power_on());
        }
        self.set_clock(self.clock_hz);
        let now = self.now();
        match &mut self.chip {
            Chip::Spi(wire) => wire.chip_mut().power_cycle(now),
            Chip::Parallel(wire) => wire.chip_mut().power_cut(now),
        }
        self.wait_until_done();
        failed
    }

    fn wait_until_done(&mut self) {
        self.wait(self.done_at().since(self.now()));
    }
}

impl Socket for Programmer {
    fn cut_power(&mut self, operation: u64) {
        let power = wire!(&mut self.chip, wire => wire.power_mut());
        power.order(Some(PowerCut::During { operation, share: 0.5 }));
    }

    fn break_block(&mut self, addr: u64) {
        let (page, block) = match &self.chip {
            Chip::Spi(wire) => (wire.chip().spec().geometry.page_bytes as usize, wire.chip().block_bytes()),
            // The unit of faults is the eraseblock that contains the address.
            Chip::Parallel(_) => (1, 1),
        };
        let first = addr - addr % block;
        for page in (first..first + block).step_by(page) {
            self.oracle_mut().set_faults(page, Faults::BOTH);
        }
    }

    fn stick(&mut self, addr: u64, bit: u8, value: bool) -> bool {
        match &mut self.chip {
            Chip::Spi(wire) => wire.chip_mut().stick(addr, bit, value),
            Chip::Parallel(_) => return false,
        }
        true
    }

    fn set_wp_low(&mut self) -> bool {
        match &mut self.chip {
            Chip::Spi(wire) => wire.chip_mut().set_wp_low(true),
            Chip::Parallel(_) => return false,
        }
        true
    }

    fn size(&self) -> u64 {
        match &self.chip {
            Chip::Spi(wire) => wire.chip().spec().geometry.size_bytes,
            Chip::Parallel(wire) => wire.chip().spec().geometry.size_bytes,
        }
    }

    fn flip(&mut self, addr: u64, bit: u8) {
        let page = self.oracle().array(0).map_or(1, Array::page_bytes) as u64;
        self.oracle_mut().inject((addr / page) as u32, (addr % page) as u32 * 8 + u32::from(bit));
    }

    fn contents(&self) -> Vec<u8> {
        match &self.chip {
            Chip::Spi(wire) => socket::of_nor(wire.chip()),
            Chip::Parallel(wire) => socket::of_arrays(wire.chip()),
        }
    }

    fn set_contents(&mut self, bytes: &[u8]) -> Result<(), WrongContents> {
        match &mut self.chip {
            Chip::Spi(wire) => socket::set_nor(wire.chip_mut(), bytes),
            Chip::Parallel(wire) => socket::set_arrays(wire.chip_mut(), bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{RigOptions, spi_nor_wire};
    use floatgate_config::Library;

    fn programmer() -> Programmer {
        let library = Library::built_in();
        let config = library.resolve(&library.setup("stm32-n25q128a").unwrap(), &[]).unwrap();
        Programmer::new(spi_nor_wire(&config, RigOptions::default()).unwrap())
    }

    #[test]
    fn each_page_of_a_bad_block_fails() {
        let mut programmer = programmer();
        programmer.break_block(0x2345);
        for page in (0x1F00_u32..0x3100).step_by(256) {
            let [_, high, mid, low] = page.to_be_bytes();
            programmer.transfer(&[0x06], &mut []);
            programmer.transfer(&[&[0x02, high, mid, low][..], &[0; 256]].concat(), &mut []);
            programmer.wait_until_done();
            // A failed program can leave error bits set until they are cleared.
            programmer.transfer(&[0x50], &mut []);
            let mut read = [0xFF; 256];
            programmer.transfer(&[0x03, high, mid, low], &mut read);
            assert_eq!(read != [0; 256], (0x2000..0x3000).contains(&page), "{page:#x}");
        }
    }

    #[test]
    fn a_power_cycle_restores_the_clock() {
        let mut programmer = programmer();
        programmer.set_clock(1_000_000_000);
        programmer.power_cycle();
        let Chip::Spi(wire) = &programmer.chip else { panic!("a SPI NOR") };
        assert_eq!(wire.hz(), CLOCK_HZ);
    }
}
