//! The driver: identifies the chip by its CFI query, and uses the command set that the query names.
//!
//! Source of the order of commands and pauses: Linux drivers/mtd/chips, cfi_cmdset_0001 and cfi_cmdset_0002.

mod erase;
mod otp;
mod probe;
mod program;
mod suspend;

pub use probe::{Identity, ProbeError};

use super::bus::{NorController, NorMem};
use super::command::{amd, intel};
use super::erase_map::EraseMap;
use super::spec::CommandSet;
use crate::capability::ReadWhileWrite;
use crate::host::HostProfile;
use crate::power::Power;
use crate::spi::PollPlan;
use crate::timeline::Host;
use crate::violation::Violation;
use floatgate_mtd::device::check_range;
use floatgate_mtd::{Breakdown, Done, Error, ErrorKind, Geometry, Instant, Mtd, Nanos};
use serde::Deserialize;

/// Options of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// True to program through the chip's buffer, if it has one.
    pub buffered: bool,
    /// True to suspend a program or an erase for a read from another thread, if the chip supports it.
    pub suspend: bool,
    /// True to send the commands for all blocks of an erase before the chip begins (command set 0002).
    pub multi_erase: bool,
    /// True to erase the whole device with one command (command set 0002).
    pub chip_erase: bool,
    /// Tick of the operating system, at which a long erase is polled, in us (Linux: 1/HZ).
    #[serde(with = "crate::units::us")]
    pub tick_us: Nanos,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            buffered: true,
            suspend: false,
            multi_erase: false,
            chip_erase: false,
            tick_us: Nanos::from_ms(4),
        }
    }
}

/// Typical and maximum times, as stated by the CFI query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    word: (Nanos, Nanos),
    buffer: (Nanos, Nanos),
    erase: (Nanos, Nanos),
    chip_erase: (Nanos, Nanos),
}

/// Driver of a chip that answers a CFI query, over any memory-mapped bus.
///
/// The reported erase size is the size of the largest blocks. On a chip with boot blocks, all small blocks in a range
/// of this size are erased together. Bytes that do not fill a bus word are merged with the contents of the flash,
/// which costs a read. In timing-only mode only the time of such a merge is correct.
#[derive(Clone, Debug)]
pub struct CfiDriver<B> {
    bus: B,
    host: Host,
    profile: HostProfile,
    options: Options,
    identity: Identity,
    geometry: Geometry,
    map: EraseMap,
    times: Times,
    /// Size of a program operation, bytes: a buffer line or a bus word.
    line: u32,
    /// Distance between the byte addresses of two consecutive device addresses.
    stride: u32,
    /// Command set 0001: true while the chip is in read-status mode.
    shows_status: bool,
}

impl CfiDriver<NorController> {
    /// Power supply of controller and chip.
    pub const fn power(&self) -> &Power {
        self.bus.power()
    }

    /// Mutable access to the power supply, to cut it.
    pub const fn power_mut(&mut self) -> &mut Power {
        self.bus.power_mut()
    }

    /// Restores power, and sets up the chip again. The driver's clock continues.
    ///
    /// # Errors
    /// A power cut during the set-up.
    pub fn restart(&mut self) -> Result<(), ProbeError> {
        self.bus.power_on();
        Ok(self.set_up_again()?)
    }
}

impl<B: NorMem> CfiDriver<B> {
    /// The bus, for access to state that users of the flash cannot see.
    pub const fn bus(&self) -> &B {
        &self.bus
    }

    /// Mutable access to the bus, to inject faults.
    pub const fn bus_mut(&mut self) -> &mut B {
        &mut self.bus
    }

    /// Properties of the chip found by probing.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Eraseblocks of the chip, including small ones.
    pub const fn erase_map(&self) -> &EraseMap {
        &self.map
    }

    /// The driver's thread, for recording its activity.
    pub const fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    fn is_amd(&self) -> bool {
        self.identity.command_set == CommandSet::Amd
    }

    /// Byte address of a device address.
    const fn at(&self, device: u32) -> u32 {
        device * self.stride
    }

    fn command(&mut self, addr: u32, command: u8) -> Result<(), Error> {
        let result = self.bus.command(&mut self.host, addr, command);
        self.refused(result, addr)
    }

    fn load(&mut self, addr: u32, data: &[u8]) -> Result<(), Error> {
        let result = self.bus.program(&mut self.host, addr, data);
        self.refused(result, addr)
    }

    fn fetch(&mut self, addr: u32, buf: &mut [u8]) -> Result<(), Error> {
        let result = self.bus.read(&mut self.host, addr, buf);
        self.refused(result, addr)
    }

    fn status(&mut self, addr: u32) -> Result<u8, Error> {
        let result = self.bus.status(&mut self.host, addr);
        self.refused(result, addr)
    }

    fn refused<T>(&self, result: Result<T, Violation>, addr: u32) -> Result<T, Error> {
        result.map_err(|v| v.kind().at(addr.into(), self.host.now()))
    }

    fn fail<T>(&self, kind: ErrorKind, addr: u32) -> Result<T, Error> {
        Err(kind.at(addr.into(), self.host.now()))
    }

    /// Command set 0002: sends both unlock cycles, then `command` at the address of the first one.
    fn unlocked(&mut self, command: u8) -> Result<(), Error> {
        let first = self.at(amd::UNLOCK_1_AT);
        self.unlock()?;
        self.command(first, command)
    }

    fn unlock(&mut self) -> Result<(), Error> {
        // In byte mode the alternating address pattern continues in A-1: AAAh, 555h.
        let second = if self.stride == 2 && self.bus.word_bytes() == 1 {
            amd::UNLOCK_2_AT_BYTE
        } else {
            self.at(amd::UNLOCK_2_AT)
        };
        self.command(self.at(amd::UNLOCK_1_AT), amd::UNLOCK_1)?;
        self.command(second, amd::UNLOCK_2)
    }

    /// Switches the chip to read-array mode.
    fn show_array(&mut self) -> Result<(), Error> {
        if self.shows_status {
            self.command(0, intel::READ_ARRAY)?;
            self.shows_status = false;
        }
        Ok(())
    }

    /// Actual duration of a pause. Pauses of a millisecond or more sleep and wake up late; shorter ones spin.
    fn pause(&self, length: Nanos) -> Nanos {
        if length < Nanos::from_ms(1) { length } else { length + self.profile.wakeup_us }
    }

    /// A polling plan. Deadlines are counted in ticks, so that the last read can come up to a tick late (Linux:
    /// jiffies).
    fn plan(&self, initial: Nanos, interval: Nanos, timeout: Nanos) -> PollPlan {
        let timeout = timeout + self.options.tick_us;
        PollPlan { initial: self.pause(initial), interval: self.pause(interval), timeout }
    }

    fn begin(&mut self, now: Instant) {
        self.host.resume(now);
        self.profile.call(&mut self.host);
    }

    fn done(&self) -> Done {
        Done::clean(self.host.now())
    }
}

impl<B: NorMem> Mtd for CfiDriver<B> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.begin(now);
        self.profile.copy(&mut self.host, buf.len());
        check_range(self.host.now(), addr, buf.len() as u64, self.geometry.size_bytes)?;
        self.show_array()?;
        self.fetch(addr as u32, buf)?;
        Ok(self.done())
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.begin(now);
        self.profile.copy(&mut self.host, data.len());
        check_range(self.host.now(), addr, data.len() as u64, self.geometry.size_bytes)?;
        self.write_pieces(addr as u32, data)?;
        Ok(self.done())
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.begin(now);
        check_range(self.host.now(), addr, len, self.geometry.size_bytes)?;
        self.erase_range(addr, len)?;
        Ok(self.done())
    }

    fn breakdown(&self) -> Breakdown {
        self.host.spent()
    }
}

impl<B: NorMem> ReadWhileWrite for CfiDriver<B> {
    /// With [`Options::suspend`] and a chip that supports it, the first program is suspended for the read; otherwise
    /// the read follows the write.
    fn read_while_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        if self.options.suspend && self.identity.program_suspend {
            return self.suspend_write(now, write, read);
        }
        let written = self.write(now, write.0, write.1)?;
        let got = self.read(written.at, read.0, read.1)?;
        Ok((written, got))
    }
}
