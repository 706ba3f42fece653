//! One-time-programmable (OTP) areas of three kinds: security registers, Macronix's secured area, and Micron's area with a control
//! byte.

use super::engine::{Engine, Job, Ops, Path};
use crate::capability::{OtpArea, OtpRegion};
use crate::spi::{Data, SpiMem, SpiOp};
use crate::spi_nor::command::{self as c, macronix, micron};
use crate::spi_nor::spec::{OtpSpec, SecurityFamily, UNIQUE_ID_DUMMY};
use crate::timeline::Host;
use floatgate_mtd::{Error, ErrorKind, Nanos};

const NO_REGION: ErrorKind = ErrorKind::Unsupported("the chip has no such OTP region");
const TIMEOUT: Nanos = Nanos::from_ms(40_000);

/// Number of regions in an OTP area.
pub(super) fn regions(otp: Option<OtpSpec>, area: OtpArea) -> usize {
    match (otp, area) {
        (Some(OtpSpec::SecurityRegisters { regions, .. }), OtpArea::User) => usize::from(regions),
        (Some(OtpSpec::Secured { .. } | OtpSpec::ControlByte { .. }), OtpArea::User) => 1,
        (
            Some(
                OtpSpec::Secured { factory_bytes: 1.., .. }
                | OtpSpec::SecurityRegisters { unique_id_bytes: 1.., .. },
            ),
            OtpArea::Factory,
        ) => 1,
        _ => 0,
    }
}

/// Size of one region, bytes.
fn region_len(otp: Option<OtpSpec>, area: OtpArea) -> u64 {
    u64::from(match (otp, area) {
        (Some(OtpSpec::SecurityRegisters { unique_id_bytes, .. }), OtpArea::Factory) => unique_id_bytes,
        (Some(OtpSpec::SecurityRegisters { region_bytes, .. }), OtpArea::User) => region_bytes,
        (Some(OtpSpec::Secured { factory_bytes, .. }), OtpArea::Factory) => factory_bytes,
        (Some(OtpSpec::Secured { user_bytes, .. }), OtpArea::User) => user_bytes,
        (Some(OtpSpec::ControlByte { bytes }), _) => bytes,
        (None, _) => 0,
    })
}

impl<S: SpiMem> Engine<S> {
    pub(super) fn otp_info(
        &mut self,
        host: &mut Host,
        area: OtpArea,
        index: usize,
    ) -> Result<OtpRegion, Error> {
        if index >= regions(self.spec.otp, area) {
            return Err(NO_REGION.at(0, host.now()));
        }
        let len = region_len(self.spec.otp, area);
        let locked = area == OtpArea::Factory || self.otp_locked(host, index)?;
        Ok(OtpRegion { start: index as u64 * len, len, locked })
    }

    /// Reads from the chip whether a user region is locked.
    fn otp_locked(&mut self, host: &mut Host, index: usize) -> Result<bool, Error> {
        let (opcode, bit) = match self.spec.otp {
            Some(OtpSpec::SecurityRegisters { family, .. }) => {
                (family.lock_commands()[0], family.lock_bit(index))
            }
            Some(OtpSpec::Secured { .. }) => (macronix::READ_SECURITY, 1 << 1),
            Some(OtpSpec::ControlByte { bytes }) => {
                let mut control = [0xFF];
                self.otp_transfer(host, bytes, &mut control)?;
                return Ok(control[0] & 1 == 0);
            }
            None => return Ok(true),
        };
        let op = Ops::register_read(&self.spec, opcode, self.ops.octal);
        let mut value = [0; 2];
        self.exec(host, &op, Data::In(&mut value[..op.len as usize]), 0)?;
        Ok(value[0] & bit != 0)
    }

    /// Address on the chip and length of the first part of `[addr, addr + len)`, up to the end of its region.
    fn otp_part(&self, addr: u64, len: u64) -> (u32, usize) {
        match self.spec.otp {
            Some(OtpSpec::SecurityRegisters { region_bytes, base, stride, .. }) => {
                let region_bytes = u64::from(region_bytes);
                let (region, column) = (addr / region_bytes, addr % region_bytes);
                let at = u64::from(base) + region * u64::from(stride) + column;
                (at as u32, (region_bytes - column).min(len) as usize)
            }
            _ => (addr as u32, len as usize),
        }
    }

    /// Checks that a range is inside an area.
    fn otp_check(&self, host: &Host, area: OtpArea, addr: u64, len: u64) -> Result<(), Error> {
        let size = regions(self.spec.otp, area) as u64 * region_len(self.spec.otp, area);
        if size == 0 {
            return Err(NO_REGION.at(addr, host.now()));
        }
        floatgate_mtd::device::check_range(host.now(), addr, len, size)
    }

    /// Checks that a range consists of whole user regions. Returns the size of a region, bytes.
    fn otp_check_whole(&self, host: &Host, addr: u64, len: u64) -> Result<u64, Error> {
        self.otp_check(host, OtpArea::User, addr, len)?;
        let unit = region_len(self.spec.otp, OtpArea::User);
        floatgate_mtd::device::check_aligned(host.now(), addr, len, unit as u32)?;
        Ok(unit)
    }

    /// Sends a command of Macronix's secured area, without address and data.
    fn otp_command(&mut self, host: &mut Host, opcode: u8) -> Result<(), Error> {
        let op = Ops::command(&self.spec, opcode, self.ops.octal);
        self.exec(host, &op, Data::None, 0)
    }

    const fn is_secured(&self) -> bool {
        matches!(self.spec.otp, Some(OtpSpec::Secured { .. }))
    }

    /// Commands of the security registers, if the chip has these.
    const fn security_family(&self) -> Option<SecurityFamily> {
        match self.spec.otp {
            Some(OtpSpec::SecurityRegisters { family, .. }) => Some(family),
            _ => None,
        }
    }

    /// Reads the unique id from byte `addr` on. Its command has no address, so the bytes before `addr` are read as well.
    fn read_unique_id(&mut self, host: &mut Host, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        let skip = addr as usize;
        let mut id = vec![0; skip + buf.len()];
        let dummy = UNIQUE_ID_DUMMY + if self.ops.current_addr_bytes == 4 { 8 } else { 0 };
        let op = Ops::command(&self.spec, c::READ_UNIQUE_ID, false).dummy(dummy).read(id.len() as u32);
        self.exec(host, &op, Data::In(&mut id), addr)?;
        buf.copy_from_slice(&id[skip..]);
        Ok(())
    }

    /// Operation on security registers or Micron's area, which have their own commands, on one lane.
    fn otp_op(&self, opcode: u8, at: u32) -> SpiOp {
        // The address mode sets the length of the address: 4-byte opcodes of other commands do not change the mode.
        let bytes = self.ops.current_addr_bytes;
        Ops::command(&self.spec, opcode, self.ops.octal).address(at, bytes)
    }

    /// Reads within one region.
    fn otp_transfer(&mut self, host: &mut Host, at: u32, buf: &mut [u8]) -> Result<(), Error> {
        if self.is_secured() {
            return self.read(host, u64::from(at), buf);
        }
        let opcode = self.security_family().map_or(micron::READ_OTP, |family| family.commands()[0]);
        let dummy = self.spec.octal.filter(|_| self.ops.octal).map_or(8, |o| o.status_dummy);
        let template = self.otp_op(opcode, at).dummy(dummy).read(0);
        self.read_plain(host, &template, u64::from(at), buf)
    }

    pub(super) fn otp_read(
        &mut self,
        host: &mut Host,
        area: OtpArea,
        addr: u64,
        buf: &mut [u8],
    ) -> Result<(), Error> {
        self.otp_check(host, area, addr, buf.len() as u64)?;
        if area == OtpArea::Factory && self.security_family().is_some() {
            return self.read_unique_id(host, addr, buf);
        }
        let factory_offset =
            if area == OtpArea::Factory { region_len(self.spec.otp, OtpArea::User) } else { 0 };
        self.in_otp_mode(host, |engine, host| {
            let (mut addr, mut rest) = (addr + factory_offset, buf);
            while !rest.is_empty() {
                let (at, len) = engine.otp_part(addr, rest.len() as u64);
                let (now, later) = rest.split_at_mut(len);
                engine.otp_transfer(host, at, now)?;
                (addr, rest) = (addr + len as u64, later);
            }
            Ok(())
        })
    }

    /// Runs `work` between the commands B1h (enter) and C1h (exit) on a chip with Macronix's secured area, and alone on others.
    fn in_otp_mode(
        &mut self,
        host: &mut Host,
        work: impl FnOnce(&mut Self, &mut Host) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_secured() {
            return work(self, host);
        }
        self.otp_command(host, macronix::ENTER_OTP)?;
        let outcome = work(self, host);
        self.otp_command(host, macronix::EXIT_OTP)?;
        outcome
    }

    pub(super) fn otp_write(&mut self, host: &mut Host, addr: u64, data: &[u8]) -> Result<(), Error> {
        self.otp_check(host, OtpArea::User, addr, data.len() as u64)?;
        self.in_otp_mode(host, |engine, host| {
            let (mut addr, mut rest) = (addr, data);
            while !rest.is_empty() {
                let (at, len) = engine.otp_part(addr, rest.len() as u64);
                let page = u64::from(engine.spec.geometry.page_bytes);
                let (now, later) = rest.split_at(len.min((page - u64::from(at) % page) as usize));
                engine.otp_program(host, at, now)?;
                (addr, rest) = (addr + now.len() as u64, later);
            }
            Ok(())
        })
    }

    fn otp_program(&mut self, host: &mut Host, at: u32, data: &[u8]) -> Result<(), Error> {
        if self.is_secured() {
            return self.program(host, u64::from(at), data);
        }
        let opcode = self.security_family().map_or(micron::PROGRAM_OTP, |family| family.commands()[1]);
        let template = self.otp_op(opcode, at).write(0);
        self.start_write(host, &template, Path::Plain, u64::from(at), data)?;
        self.wait(host, u64::from(at), Job::Program, TIMEOUT)
    }

    fn enable(&mut self, host: &mut Host) -> Result<(), Error> {
        let enable = self.ops.write_enable;
        self.exec(host, &enable, Data::None, 0)
    }

    pub(super) fn otp_erase(&mut self, host: &mut Host, addr: u64, len: u64) -> Result<(), Error> {
        let unit = self.otp_check_whole(host, addr, len)?;
        let Some(family) = self.security_family() else {
            return Err(ErrorKind::Unsupported("this OTP area cannot be erased").at(addr, host.now()));
        };
        for region in (addr..addr + len).step_by(unit as usize) {
            self.enable(host)?;
            let (at, _) = self.otp_part(region, unit);
            let op = self.otp_op(family.commands()[2], at);
            self.exec(host, &op, Data::None, region)?;
            self.wait(host, region, Job::Erase, TIMEOUT)?;
        }
        Ok(())
    }

    pub(super) fn otp_lock(&mut self, host: &mut Host, addr: u64, len: u64) -> Result<(), Error> {
        let unit = self.otp_check_whole(host, addr, len)?;
        match self.spec.otp {
            Some(OtpSpec::SecurityRegisters { family, .. }) => {
                let bits = (addr / unit..(addr + len) / unit)
                    .fold(0, |bits, region| bits | family.lock_bit(region as usize));
                let [read, write] = family.lock_commands();
                // Parts with security registers have no stateful mode.
                let register = Ops::register_read(&self.spec, read, false);
                let mut value = [0];
                self.exec(host, &register, Data::In(&mut value), addr)?;
                let op = Ops::command(&self.spec, write, false);
                self.start_write(host, &op.write(1), Path::Plain, 0, &[value[0] | bits])?;
                self.wait_ready(host, addr, TIMEOUT)
            }
            Some(OtpSpec::ControlByte { bytes }) => self.otp_program(host, bytes, &[0x00]),
            Some(OtpSpec::Secured { .. }) => {
                self.enable(host)?;
                self.otp_command(host, macronix::WRITE_SECURITY)?;
                self.wait_ready(host, addr, TIMEOUT)
            }
            None => Err(NO_REGION.at(addr, host.now())),
        }
    }
}
