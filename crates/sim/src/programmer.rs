//! A SPI programmer with a simulated SPI NOR in its socket: CS# windows, waits, a supply that can fail, and the
//! contents as bytes.

use crate::socket::{self, Socket, WrongContents};
use floatgate_device::oracle::{Faults, Oracle};
use floatgate_device::power::PowerCut;
use floatgate_device::spi::{SpiChip, SpiWire};
use floatgate_device::spi_nor::SpiNor;
use floatgate_mtd::{Instant, Nanos};

/// A programmer with a chip in its socket.
#[derive(Clone, Debug)]
pub struct Programmer {
    wire: SpiWire<SpiNor>,
    /// SPI clock until a client sets another one, Hz.
    clock_hz: u32,
    windows: u64,
    on_wires: Nanos,
}

/// Default clock of a programmer. A board's clock may be above the limit of READ 03h, which programmers use.
pub const CLOCK_HZ: u32 = 12_000_000;

impl Programmer {
    /// Puts a chip into the socket. The clock is the wire's, at most [`CLOCK_HZ`].
    pub fn new(mut wire: SpiWire<SpiNor>) -> Self {
        let clock_hz = wire.hz().min(CLOCK_HZ);
        wire.set_clock(clock_hz);
        wire.power_mut().count_operations();
        Self { wire, clock_hz, windows: 0, on_wires: Nanos::ZERO }
    }

    /// The chip at its pins.
    pub const fn wire(&self) -> &SpiWire<SpiNor> {
        &self.wire
    }

    /// Runs a CS# window: sends bytes to the chip, then receives bytes.
    pub fn transfer(&mut self, sent: &[u8], received: &mut [u8]) {
        let start = self.wire.now();
        self.wire.transfer(sent, received);
        self.windows += 1;
        self.on_wires += self.wire.now().since(start);
    }

    /// Advances the clock.
    pub fn wait(&mut self, time: Nanos) {
        self.wire.advance(time);
    }

    /// Sets the clock in Hz.
    pub fn set_clock(&mut self, hz: u32) {
        self.wire.set_clock(hz);
    }

    /// Number of CS# windows.
    pub const fn windows(&self) -> u64 {
        self.windows
    }

    /// Time during which bytes were on the wires.
    pub const fn on_wires(&self) -> Nanos {
        self.on_wires
    }

    /// Time at which the chip has finished all operations.
    pub fn done_at(&self) -> Instant {
        self.wire.now().max(self.wire.chip().busy_until())
    }

    /// Programs and erases so far.
    pub const fn operations(&self) -> u64 {
        self.wire.power().operations()
    }

    /// True after a power failure.
    pub const fn is_dead(&self) -> bool {
        self.wire.power().is_lost()
    }

    /// Cycles the power after the chip has finished all operations; also restores it after a failure. The chip is then
    /// ready, and the clock is the default one. Returns true if power had failed.
    pub fn power_cycle(&mut self) -> bool {
        self.wait_until_done();
        let failed = self.is_dead();
        if failed {
            self.wire.power_on();
        }
        self.wire.set_clock(self.clock_hz);
        let now = self.wire.now();
        self.wire.chip_mut().power_cycle(now);
        self.wait_until_done();
        failed
    }

    fn wait_until_done(&mut self) {
        self.wire.advance(self.done_at().since(self.wire.now()));
    }
}

impl Socket for Programmer {
    fn cut_power(&mut self, operation: u64) {
        self.wire.power_mut().order(Some(PowerCut::During { operation, share: 0.5 }));
    }

    fn break_block(&mut self, addr: u64) {
        let geometry = &self.wire.chip().spec().geometry;
        let (page, block) = (geometry.page_bytes as usize, self.wire.chip().block_bytes());
        let first = addr - addr % block;
        for page in (first..first + block).step_by(page) {
            self.wire.chip_mut().set_faults(page, Faults::BOTH);
        }
    }

    fn stick(&mut self, addr: u64, bit: u8, value: bool) -> bool {
        self.wire.chip_mut().stick(addr, bit, value);
        true
    }

    fn size(&self) -> u64 {
        self.wire.chip().spec().geometry.size_bytes
    }

    fn flip(&mut self, addr: u64, bit: u8) {
        let page = u64::from(self.wire.chip().spec().geometry.page_bytes);
        self.wire.chip_mut().inject((addr / page) as u32, (addr % page) as u32 * 8 + u32::from(bit));
    }

    fn contents(&self) -> Vec<u8> {
        socket::of_nor(self.wire.chip())
    }

    fn set_contents(&mut self, bytes: &[u8]) -> Result<(), WrongContents> {
        socket::set_nor(self.wire.chip_mut(), bytes)
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
            // A failed program may leave the error bits set until they are cleared.
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
        assert_eq!(programmer.wire().hz(), CLOCK_HZ);
    }
}
