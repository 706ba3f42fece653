//! One-time-programmable areas in the three variants of the makers.

use super::SpiNor;
use super::decode::OtpCmd;
use super::work::Work;
use crate::nor::cut::mix;
use crate::spi::{Data, SpiOp};
use crate::spi_nor::spec::{OtpSpec, SecurityFamily, SpiNorSpec};
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// Contents and state of the OTP area.
#[derive(Clone, Debug, Default)]
pub(super) struct Otp {
    cells: Vec<u8>,
    /// Size of the user's part, bytes. The factory part, if there is one, follows it.
    user_bytes: usize,
    /// True between the commands B1h (enter) and C1h (exit) of Macronix.
    pub(super) entered: bool,
    /// True after the command WRSCUR of Macronix, which locks the area.
    pub(super) locked: bool,
}

impl Otp {
    pub(super) fn new(spec: &SpiNorSpec, seed: u64) -> Self {
        let (user, factory) = match spec.otp {
            None => (0, 0),
            Some(OtpSpec::SecurityRegisters { regions, region_bytes, unique_id_bytes, .. }) => {
                (u32::from(regions) * region_bytes, unique_id_bytes)
            }
            Some(OtpSpec::Secured { user_bytes, factory_bytes }) => (user_bytes, factory_bytes),
            // The control byte follows the data. One more byte makes the length even, because
            // 8D-8D-8D transfers two bytes at a time.
            Some(OtpSpec::ControlByte { bytes }) => (bytes + 2, 0),
        };
        let mut cells = vec![0xFF; user as usize];
        // The factory writes a unique number into each chip.
        cells.extend((0..u64::from(factory)).map(|at| mix(seed ^ at << 32) as u8));
        Self { cells, user_bytes: user as usize, entered: false, locked: false }
    }

    /// Contents and lock, which the chip retains without power.
    pub(super) fn nonvolatile(&self) -> impl Iterator<Item = u8> {
        [u8::from(self.locked)].into_iter().chain(self.cells.iter().copied())
    }

    /// Sets contents and lock. False if the number of bytes is wrong.
    pub(super) fn set_nonvolatile(&mut self, bytes: &[u8]) -> bool {
        let Some((locked, cells)) = bytes.split_first() else { return false };
        if cells.len() != self.cells.len() {
            return false;
        }
        self.locked = *locked != 0;
        self.cells.copy_from_slice(cells);
        true
    }

    pub(super) fn has_factory(&self) -> bool {
        self.user_bytes < self.cells.len()
    }
}

impl SpiNor {
    pub(super) fn otp_command(
        &mut self,
        cmd: OtpCmd,
        end: Instant,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation> {
        match (cmd, data) {
            (OtpCmd::Read, Data::In(out)) => {
                let at = self.otp_index(op.addr, out.len())?;
                out.copy_from_slice(&self.otp.cells[at..at + out.len()]);
                Ok(())
            }
            (OtpCmd::Program, Data::Out(bytes)) => {
                self.check_write_enable()?;
                let at = self.otp_index(op.addr, bytes.len())?;
                self.program_otp(end, at, bytes)
            }
            (OtpCmd::Erase, Data::None) => self.erase_otp(end, op.addr),
            (OtpCmd::UniqueId, Data::In(out)) => {
                // After the last byte the id is repeated from its first byte.
                let id = self.otp.cells[self.otp.user_bytes..].iter().cycle();
                out.iter_mut().zip(id).for_each(|(byte, id)| *byte = *id);
                Ok(())
            }
            (OtpCmd::Enter, Data::None) => {
                self.otp.entered = true;
                Ok(())
            }
            (OtpCmd::Exit, Data::None) => {
                self.otp.entered = false;
                Ok(())
            }
            (OtpCmd::Lock, Data::None) => self.lock_secured(end),
            _ => Err(Violation::WrongMode(op.opcode)),
        }
    }

    /// Index of an address in the area; the whole access must be in one region.
    fn otp_index(&self, addr: u32, len: usize) -> Result<usize, Violation> {
        let inside = match self.spec.otp {
            Some(OtpSpec::SecurityRegisters { regions, region_bytes, base, stride, .. }) => {
                let offset = addr.checked_sub(base).ok_or(Violation::BadAddress)?;
                let (region, column) = (offset / stride.max(1), offset % stride.max(1));
                let fits = region < u32::from(regions) && column as usize + len <= region_bytes as usize;
                fits.then_some((region * region_bytes + column) as usize)
            }
            _ => (addr as usize + len <= self.otp.cells.len()).then_some(addr as usize),
        };
        inside.ok_or(Violation::BadAddress)
    }

    /// True if the byte at `at` is locked.
    fn otp_locked(&self, at: usize) -> bool {
        match self.spec.otp {
            Some(OtpSpec::SecurityRegisters { region_bytes, family, .. }) => {
                let bits = match family {
                    SecurityFamily::Winbond => self.regs.sr2,
                    SecurityFamily::Issi => self.regs.function,
                };
                bits & family.lock_bit(at / (region_bytes as usize).max(1)) != 0
            }
            Some(OtpSpec::Secured { .. }) => self.otp.locked || at >= self.otp.user_bytes,
            Some(OtpSpec::ControlByte { bytes }) => {
                self.otp.cells.get(bytes as usize).is_some_and(|c| c & 1 == 0)
            }
            None => true,
        }
    }

    fn program_otp(&mut self, end: Instant, at: usize, bytes: &[u8]) -> Result<(), Violation> {
        let Some(last) = bytes.len().checked_sub(1) else {
            return Err(Violation::Sequence("a page program takes 1 byte to a page"));
        };
        if self.otp_locked(at) || self.otp_locked(at + last) {
            return Err(Violation::Protected);
        }
        let cells = &mut self.otp.cells[at..=at + last];
        if cells.iter().zip(bytes).any(|(old, new)| *new != 0xFF && new & !old != 0) {
            return Err(Violation::NotErased);
        }
        for (old, new) in cells.iter_mut().zip(bytes) {
            *old &= new;
        }
        self.otp_work(end, self.spec.timing.t_pp_us.typ);
        Ok(())
    }

    fn otp_work(&mut self, end: Instant, length: Nanos) {
        self.regs.wel = false;
        (self.regs.program_failed, self.regs.erase_failed) = (false, false);
        self.work = Work::other(end, length, "OTP");
    }

    /// Executes ERASE SECURITY REGISTER, which takes the time of the smallest erase.
    fn erase_otp(&mut self, end: Instant, addr: u32) -> Result<(), Violation> {
        self.check_write_enable()?;
        let Some(OtpSpec::SecurityRegisters { region_bytes, .. }) = self.spec.otp else {
            return Err(Violation::Protected);
        };
        let at = self.otp_index(addr, 1)?;
        if self.otp_locked(at) {
            return Err(Violation::Protected);
        }
        let start = at - at % region_bytes as usize;
        self.otp.cells[start..start + region_bytes as usize].fill(0xFF);
        let time = self.erase_types.first().map_or(self.spec.timing.t_w_us.typ, |t| t.t_us.typ);
        self.otp_work(end, time);
        Ok(())
    }

    fn lock_secured(&mut self, end: Instant) -> Result<(), Violation> {
        self.check_write_enable()?;
        self.otp.locked = true;
        self.otp_work(end, self.spec.timing.t_w_us.typ);
        Ok(())
    }

    pub(super) fn read_secured(&self, addr: u64, out: &mut [u8]) -> Result<(), Violation> {
        let at = self.otp_index(u32::try_from(addr).unwrap_or(u32::MAX), out.len())?;
        out.copy_from_slice(&self.otp.cells[at..at + out.len()]);
        Ok(())
    }

    pub(super) fn program_secured(&mut self, end: Instant, addr: u32, bytes: &[u8]) -> Result<(), Violation> {
        let at = self.otp_index(addr, bytes.len())?;
        self.program_otp(end, at, bytes)
    }
}
