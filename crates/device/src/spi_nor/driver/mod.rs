//! The driver: identifies the chip and implements an MTD device.
//!
//! - `options`: options of the user;
//! - `probe`: READ ID, the catalogue, SFDP, mode switches; `calibrate`: the PHY;
//! - `choose`: the fastest read and program commands that chip, controller and board support;
//! - `engine`: reads, page programs, erases, status polls;
//! - `rww`: two threads on one chip: reads while another bank is written, or while an erase is suspended;
//! - `otp`: one-time-programmable areas.

mod calibrate;
mod choose;
mod engine;
mod options;
mod otp;
mod probe;
mod probe_error;
mod rww;

pub use options::Options;
pub use probe_error::ProbeError;

use super::spec::SpiNorSpec;
use crate::capability::{Otp, OtpArea, OtpRegion, ReadWhileWrite};
use crate::host::HostProfile;
use crate::spi::{Mode, PhyState, SpiMem, SpiOp};
use crate::timeline::Host;
use engine::Engine;
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Breakdown, Done, Error, Geometry, Instant, Mtd};

/// Driver of a SPI NOR behind a controller.
#[derive(Clone, Debug)]
pub struct SpiNorDriver<S> {
    host: Host,
    profile: HostProfile,
    /// Options as requested by the user.
    asked: Options,
    geometry: Geometry,
    engine: Engine<S>,
    phy: PhyState,
}

impl<S: SpiMem> SpiNorDriver<S> {
    /// Specification of the chip as known to the driver: the catalogue's entry, SFDP, or both.
    pub const fn spec(&self) -> &SpiNorSpec {
        &self.engine.spec
    }

    /// The read command in use, with address 0 and no data.
    pub const fn read_op(&self) -> &SpiOp {
        &self.engine.ops.read
    }

    /// The page program command in use.
    pub const fn program_op(&self) -> &SpiOp {
        &self.engine.ops.program
    }

    /// Modes of the read commands that chip, controller and board support, best first.
    pub fn read_modes(&self) -> &[Mode] {
        &self.engine.ops.offered
    }

    /// Result of the PHY calibration.
    pub const fn phy(&self) -> PhyState {
        self.phy
    }

    /// Time at which the driver's last operation ended; after the probe, the time at which the device is ready.
    pub const fn ready_at(&self) -> Instant {
        self.host.now()
    }

    /// The driver's thread, for its recorded spans.
    pub const fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The controller of the driver.
    pub const fn bus(&self) -> &S {
        &self.engine.bus
    }

    /// Mutable access to the controller, to inject faults into its chip.
    pub const fn bus_mut(&mut self) -> &mut S {
        &mut self.engine.bus
    }

    /// Returns the controller and the time, with the chip in its power-on state, so that a boot ROM can read it (Linux
    /// does so on shutdown). The chip is reset by 66h/99h or by the reset pin. If only the address mode was changed, E9h
    /// restores it.
    ///
    /// # Errors
    /// The chip rejects a command.
    pub fn release(mut self, now: Instant) -> Result<(S, Instant), Error> {
        self.host.resume(now);
        self.engine.restore(&mut self.host)?;
        Ok((self.engine.bus, self.host.now()))
    }

    fn begin(&mut self, now: Instant) {
        self.host.resume(now);
        self.profile.call(&mut self.host);
    }

    fn done(&self) -> Done {
        Done::clean(self.host.now())
    }
}

impl<S: SpiMem> Mtd for SpiNorDriver<S> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        self.begin(now);
        self.profile.copy(&mut self.host, buf.len());
        self.engine.read(&mut self.host, addr, buf)?;
        Ok(self.done())
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        self.begin(now);
        self.profile.copy(&mut self.host, data.len());
        let mut at = addr;
        for chunk in self.engine.pages(addr, data) {
            self.profile.page(&mut self.host);
            self.engine.program(&mut self.host, at, chunk)?;
            at += chunk.len() as u64;
        }
        Ok(self.done())
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, self.geometry.erase_bytes)?;
        self.begin(now);
        self.engine.erase(&mut self.host, addr, len)?;
        Ok(self.done())
    }

    fn breakdown(&self) -> Breakdown {
        self.host.spent()
    }
}

impl<S: SpiMem> Otp for SpiNorDriver<S> {
    fn otp_regions(&self, area: OtpArea) -> usize {
        otp::regions(self.engine.spec.otp, area)
    }

    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error> {
        self.begin(now);
        let region = self.engine.otp_info(&mut self.host, area, index)?;
        Ok((region, self.host.now()))
    }

    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.begin(now);
        self.engine.otp_read(&mut self.host, area, addr, buf)?;
        Ok(self.done())
    }

    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.begin(now);
        self.engine.otp_write(&mut self.host, addr, data)?;
        Ok(self.done())
    }

    fn otp_erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.begin(now);
        self.engine.otp_erase(&mut self.host, addr, len)?;
        Ok(self.done())
    }

    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.begin(now);
        self.engine.otp_lock(&mut self.host, addr, len)?;
        Ok(self.done())
    }
}

impl<S: SpiMem> ReadWhileWrite for SpiNorDriver<S> {
    fn read_while_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        self.write_and_read(now, write, read)
    }
}

#[cfg(test)]
mod tests;
