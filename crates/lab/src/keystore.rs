//! The Cryptech keystore test: a microcontroller that drives a SPI NOR through a polling HAL, with and
//! without delays between the calls.
//!
//! Each transaction of the firmware consists of one or two HAL calls between CS# low and high. The driver of 2016
//! waited one tick after every HAL call, and ten ticks between status polls; a wait ends on a tick. Without these
//! delays the same bytes follow each other directly.

use floatgate_config::Config;
use floatgate_device::Violation;
use floatgate_device::spec::ChipKind;
use floatgate_device::spi::{Data, SpiChip, SpiOp};
use floatgate_device::spi_nor::{SpiNor, SpiNorSpec};
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use floatgate_mtd::{Instant, Nanos};
use floatgate_sim::error::Error;
use floatgate_sim::firmware::Firmware;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Version of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// First published version, with delays after every call and in the polling loop.
    WithDelays,
    /// Version without the delays.
    WithoutDelays,
}

/// One line of the output of the test program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name of the test, as printed.
    pub test: Cow<'static, str>,
    /// Number of pages, sectors or chips in the test.
    pub rounds: u64,
    /// Virtual time of the test, ns.
    pub ns: u64,
}

impl Line {
    /// Time in whole ticks (ms), as the program measures it.
    pub const fn ticks_ms(&self) -> u64 {
        self.ns / 1_000_000
    }

    /// Total time in seconds with three decimals, and ms per item with two. Both are truncated, as in the program.
    pub fn printed(&self) -> (String, String) {
        let (ms, rounds) = (self.ticks_ms(), self.rounds.max(1));
        let each = (ms / rounds, (ms % rounds) * 100 / rounds);
        (format!("{}.{:03}", ms / 1000, ms % 1000), format!("{}.{:02}", each.0, each.1))
    }
}

/// A failure of the firmware, with the test in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The chip refused an operation.
    #[error("{test}: the chip refuses: {violation}")]
    Refused {
        /// Name of the running test.
        test: &'static str,
        /// Rule of the chip that was broken.
        violation: Violation,
    },
    /// The data read back differs from the data written.
    #[error("{test}: page {page} does not hold what was written")]
    Mismatch {
        /// Name of the running test.
        test: &'static str,
        /// Number of the page.
        page: u32,
    },
}

/// Number of bytes that three address bytes can reach.
const LARGEST: u32 = 1 << 24;

const PAGE: u32 = 256;
const SUBSECTOR: u32 = 4096;
const SECTOR: u32 = 65536;

const READ: u8 = 0x03;
const PAGE_PROGRAM: u8 = 0x02;
const WRITE_ENABLE: u8 = 0x06;
const READ_STATUS: u8 = 0x05;
const ERASE_SUBSECTOR: u8 = 0x20;
const ERASE_SECTOR: u8 = 0xD8;
const ERASE_BULK: u8 = 0xC7;

/// Runs the test program over a chip of `size` bytes and returns its seven lines, in the program's order.
///
/// # Errors
/// The chip refuses a command; data read back differs.
pub fn run<C: SpiChip>(
    chip: &mut C,
    size: u32,
    firmware: &Firmware,
    driver: Driver,
) -> Result<Vec<Line>, Fault> {
    let mut m = Machine { chip, firmware, driver, now: Instant::ZERO, test: "" };
    let pattern: [u8; PAGE as usize] = std::array::from_fn(|i| i as u8);
    let (pages, subsectors, sectors) = (size / PAGE, size / SUBSECTOR, size / SECTOR);
    let erased = [0xFF; PAGE as usize];
    Ok(vec![
        m.time("read page", pages, |m, i| m.read_page(i).map(drop))?,
        m.time("erase subsector", subsectors, |m, i| m.erase(ERASE_SUBSECTOR, i * SUBSECTOR, 3))?,
        m.time("erase sector", sectors, |m, i| m.erase(ERASE_SECTOR, i * SECTOR, 3))?,
        m.time("erase bulk", 1, |m, _| m.erase(ERASE_BULK, 0, 0))?,
        m.time("verify erase", pages, |m, i| m.verify(i, &erased))?,
        m.time("write page", pages, |m, i| m.write_page(i, &pattern))?,
        m.time("verify write", pages, |m, i| m.verify(i, &pattern))?,
    ])
}

/// Runs the test program on a setup that has a `[firmware]` table and a SPI NOR.
///
/// # Errors
/// The setup has no such table or chip; the firmware fails.
pub fn on(config: &Config, driver: Driver, seed: u64) -> Result<Vec<Line>, Error> {
    let kind = config.chip_kind()?;
    if kind != ChipKind::SpiNor {
        let error = config.wrong("chip", format!("the keystore test needs a SPI NOR, and this is {kind}"));
        return Err(error
            .help(advice! { "name a part of kind `spi-nor`: ", Command::Parts, " lists them" })
            .into());
    }
    if config.tree().get("firmware").is_none() {
        let error = config.wrong("", "the keystore test needs a [firmware] table, and this setup has none");
        return Err(error.help(advice! { Command::Setups.with("stm32-n25q128a"), " shows one" }).into());
    }
    let firmware = Firmware::of_config(config)?;
    let spec: SpiNorSpec = config.extract("chip")?;
    let size = u32::try_from(spec.geometry.size_bytes).unwrap_or(u32::MAX);
    if size > LARGEST {
        let mib = spec.geometry.size_bytes >> 20;
        let error = config
            .wrong("chip", format!("the keystore test sends 3-byte addresses, and this chip has {mib} MiB"));
        return Err(error.help("choose a chip of at most 16 MiB").into());
    }
    let mut chip = SpiNor::new(spec, seed, true).map_err(|bad| config.impossible(&bad))?;
    run(&mut chip, size, &firmware, driver).map_err(|fault| {
        Error::request(fault.to_string(), "the chip must be one that 3-byte commands on one line drive")
    })
}

struct Machine<'a, C> {
    chip: &'a mut C,
    firmware: &'a Firmware,
    driver: Driver,
    now: Instant,
    test: &'static str,
}

impl<C: SpiChip> Machine<'_, C> {
    fn time(
        &mut self,
        test: &'static str,
        rounds: u32,
        mut round: impl FnMut(&mut Self, u32) -> Result<(), Fault>,
    ) -> Result<Line, Fault> {
        self.test = test;
        self.wait_ticks(1);
        let start = self.now;
        for i in 0..rounds {
            round(self, i)?;
        }
        Ok(Line { test: test.into(), rounds: u64::from(rounds), ns: self.now.since(start).as_ns() })
    }

    /// Waits until `n` tick boundaries have passed: the HAL counts ticks, not time.
    fn wait_ticks(&mut self, n: u64) {
        if n == 0 {
            return;
        }
        let tick = self.firmware.tick_us.as_ns().max(1);
        self.now = Instant::from_ns((self.now.as_ns() / tick + n) * tick);
    }

    /// Makes one HAL call that moves `bytes` bytes, each in `per_byte` of CPU time.
    fn call(&mut self, bytes: u32, per_byte: Nanos) {
        self.now += self.firmware.call_us + self.byte(per_byte) * u64::from(bytes);
    }

    /// Time of one byte: the CPU time or the bus time, whichever is longer.
    fn byte(&self, per_byte: Nanos) -> Nanos {
        per_byte.max(Nanos::from_ns(8_000_000_000 / self.firmware.clock_hz.max(1)))
    }

    /// Waits after a HAL call, in the driver with delays.
    fn delay(&mut self) {
        if self.driver == Driver::WithDelays {
            self.wait_ticks(self.firmware.delay_ticks);
        }
    }

    /// One transaction from CS# low to CS# high. `calls` lists the HAL calls with their bytes and time per byte. The
    /// delay after the last call comes before CS# high, so internal operations of the chip start after this delay. Data
    /// is read before this delay.
    fn transact(&mut self, op: &SpiOp, data: Data<'_>, calls: &[(u32, Nanos)]) -> Result<(), Fault> {
        let start = self.now;
        for (i, &(bytes, per_byte)) in calls.iter().enumerate() {
            if i > 0 {
                self.delay();
            }
            self.call(bytes, per_byte);
        }
        let reads = matches!(data, Data::In(_));
        if !reads {
            self.delay();
        }
        let hz = u32::try_from(self.firmware.clock_hz).unwrap_or(u32::MAX);
        let refused = |violation| Fault::Refused { test: self.test, violation };
        self.chip.exec(start, self.now, hz, op, data).map_err(refused)?;
        if reads {
            self.delay();
        }
        Ok(())
    }

    fn write_enable(&mut self) -> Result<(), Fault> {
        let tx = self.firmware.tx_ns_per_byte;
        self.transact(&SpiOp::command(WRITE_ENABLE), Data::None, &[(1, tx)])
    }

    fn status(&mut self) -> Result<u8, Fault> {
        let mut status = [0];
        let op = SpiOp::command(READ_STATUS).read(1);
        self.transact(&op, Data::In(&mut status), &[(2, self.firmware.rx_ns_per_byte)])?;
        Ok(status[0])
    }

    fn wait_ready(&mut self) -> Result<(), Fault> {
        while self.status()? & 1 != 0 {
            if self.driver == Driver::WithDelays {
                self.wait_ticks(self.firmware.poll_delay_ticks);
            }
            self.skip_polls();
        }
        Ok(())
    }

    /// Skips whole rounds of polls while the chip is busy, because they change nothing. Otherwise a bulk erase would
    /// take ten million steps.
    fn skip_polls(&mut self) {
        if self.driver == Driver::WithDelays {
            return;
        }
        let round = self.firmware.call_us + self.byte(self.firmware.rx_ns_per_byte) * 2;
        let left = self.chip.busy_until().since(self.now).as_ns();
        let whole = (left / round.as_ns().max(1)).saturating_sub(1);
        self.now += round * whole;
    }

    fn read_page(&mut self, page: u32) -> Result<[u8; PAGE as usize], Fault> {
        let mut data = [0; PAGE as usize];
        let op = SpiOp::command(READ).address(page * PAGE, 3).read(PAGE);
        let calls = [(4, self.firmware.tx_ns_per_byte), (PAGE, self.firmware.rx_ns_per_byte)];
        self.transact(&op, Data::In(&mut data), &calls)?;
        Ok(data)
    }

    fn verify(&mut self, page: u32, expected: &[u8]) -> Result<(), Fault> {
        let data = self.read_page(page)?;
        self.now += self.firmware.compare_page_ns;
        if data == expected { Ok(()) } else { Err(Fault::Mismatch { test: self.test, page }) }
    }

    fn write_page(&mut self, page: u32, data: &[u8]) -> Result<(), Fault> {
        self.write_enable()?;
        self.status()?;
        let tx = self.firmware.tx_ns_per_byte;
        let op = SpiOp::command(PAGE_PROGRAM).address(page * PAGE, 3).write(PAGE);
        self.transact(&op, Data::Out(data), &[(4, tx), (PAGE, tx)])?;
        self.wait_ready()
    }

    fn erase(&mut self, opcode: u8, addr: u32, addr_bytes: u8) -> Result<(), Fault> {
        self.write_enable()?;
        self.status()?;
        let op = SpiOp::command(opcode).address(addr, addr_bytes);
        self.transact(&op, Data::None, &[(1 + u32::from(addr_bytes), self.firmware.tx_ns_per_byte)])?;
        self.wait_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_cut_off_figures() {
        let line = Line { test: "read page".into(), rounds: 65536, ns: 15_681_900_000 };
        assert_eq!(line.printed(), ("15.681".to_owned(), "0.23".to_owned()));
    }
}
