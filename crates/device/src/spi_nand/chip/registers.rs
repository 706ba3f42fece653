//! Id, reset, feature registers, volatile configuration registers, die select.

use super::super::command as c;
use super::super::spec::{EccStatus, IdRead};
use super::die::Die;
use super::work::ArrayTask;
use super::{Call, SpiNand};
use crate::violation::Violation;

impl SpiNand {
    pub(super) fn write_enable(&mut self, call: Call<'_>, on: bool) -> Result<(), Violation> {
        self.shape(call, 0, 0)?;
        self.idle(call.start)?;
        self.die().write_enabled = on;
        Ok(())
    }

    /// Executes READ ID. A read in another form than the chip's returns the id shifted by one byte,
    /// as on the wires.
    pub(super) fn read_id(&mut self, call: Call<'_>, buf: &mut [u8]) -> Result<(), Violation> {
        let op = call.op;
        if let Some(octal) = self.spec.octal.as_ref().filter(|_| self.octal) {
            self.shape(call, 0, octal.register_dummy)?;
            buf.fill(0);
            buf.iter_mut().zip(&self.spec.id).for_each(|(b, id)| *b = *id);
            return Ok(());
        }
        self.shape(call, op.addr_bytes, op.dummy_cycles)?;
        self.idle(call.start)?;
        let sent = usize::from(op.addr_bytes) + usize::from(op.dummy_cycles) / 8;
        let first = usize::from(self.spec.id_read != IdRead::Opcode);
        for (at, byte) in buf.iter_mut().enumerate() {
            let id_byte = (sent + at).checked_sub(first).and_then(|i| self.spec.id.get(i));
            *byte = id_byte.copied().unwrap_or(0);
        }
        Ok(())
    }

    /// Executes RESET, also while busy: it interrupts the array, which takes longer for a program
    /// or an erase.
    pub(super) fn reset(&mut self, call: Call<'_>) -> Result<(), Violation> {
        self.shape(call, 0, 0)?;
        self.stop_all(call);
        Ok(())
    }

    fn stop_all(&mut self, call: Call<'_>) {
        let t = self.spec.timing;
        for die in &mut self.dies {
            let busy = die.work().end > call.start;
            let length = match die.work().task {
                ArrayTask::Program | ArrayTask::OtpProgram if busy => t.t_rst_prog_us,
                ArrayTask::Erase if busy => t.t_rst_bers_us,
                _ => t.t_rst_us,
            };
            die.soft_reset(&self.spec);
            die.abort(call.end, length);
        }
        self.checked = None;
        self.active = 0;
    }

    pub(super) fn arm_reset(&mut self, call: Call<'_>) -> Result<(), Violation> {
        self.shape(call, 0, 0)?;
        self.reset_armed = true;
        Ok(())
    }

    /// Executes the long reset, which restores power-up values, including the bus mode.
    pub(super) fn reset_device(&mut self, call: Call<'_>, armed: bool) -> Result<(), Violation> {
        self.shape(call, 0, 0)?;
        if !armed {
            return Err(Violation::Sequence("reset device without reset enable"));
        }
        self.stop_all(call);
        self.power_up();
        Ok(())
    }

    #[inline]
    pub(super) fn get_feature(&mut self, call: Call<'_>, buf: &mut [u8]) -> Result<(), Violation> {
        let register = self.feature_shape(call)?;
        let die = &self.dies[self.active];
        let busy = die.work().end > call.end;
        if register != c::STATUS {
            self.idle(call.start)?;
        }
        let value = match register {
            c::STATUS if busy => c::BUSY | if die.write_enabled { c::WRITE_ENABLED } else { 0 },
            c::STATUS => status(die),
            _ => self.register(register)?,
        };
        buf.fill(value);
        Ok(())
    }

    fn register(&self, register: u8) -> Result<u8, Violation> {
        let die = &self.dies[self.active];
        let spec = &self.spec;
        Ok(match register {
            c::PROTECTION => die.protection,
            c::CONFIG if die.otp_locked => die.config | c::OTP_LOCK,
            c::CONFIG => die.config,
            r if spec.read_retry.as_ref().is_some_and(|retry| retry.feature == r) => die.retry,
            r if spec.high_speed.is_some_and(|speed| speed.feature == r) => die.mode,
            r if spec.randomizer.is_some_and(|own| own.feature == r) => die.randomizer,
            c::WINBOND_ECC_STATUS if spec.ecc_status == EccStatus::WinbondDetail => (die.ecc.last as u8) << 4,
            c::GIGADEVICE_ECC_STATUS if spec.ecc_status == EccStatus::Gigadevice => {
                (die.ecc.last.clamp(1, 4) as u8 - 1) << 4
            }
            _ => return Err(NO_REGISTER),
        })
    }

    pub(super) fn set_feature(&mut self, call: Call<'_>, buf: &[u8]) -> Result<(), Violation> {
        let register = self.feature_shape(call)?;
        self.idle(call.start)?;
        let Some(&value) = buf.first() else { return Err(Violation::WrongMode(call.op.opcode)) };
        self.checked = None;
        let spec = std::sync::Arc::clone(&self.spec);
        let retry = spec.read_retry.as_ref().filter(|retry| retry.feature == register);
        let speed = spec.high_speed;
        let die = self.die();
        match register {
            c::PROTECTION => die.protection = value,
            c::CONFIG => {
                die.config = value;
                (die.stream, die.stream_left_open) = (None, None);
            }
            _ if retry.is_some() => match retry.filter(|retry| value <= retry.modes) {
                Some(retry) => (die.retry, die.lowered) = (value, retry.lowered(value)),
                None => return Err(Violation::Sequence("no such read retry mode")),
            },
            r if speed.is_some_and(|speed| speed.feature == r) => die.mode = value,
            r if spec.randomizer.is_some_and(|own| own.feature == r) => {
                die.randomizer = value;
                die.randomizes = spec.randomizer.is_some_and(|own| value >> own.bit & 1 == 1);
            }
            _ => return Err(NO_REGISTER),
        }
        Ok(())
    }

    pub(super) fn has_ecc_status_command(&self) -> bool {
        self.spec.ecc_status == EccStatus::Macronix
    }

    pub(super) fn read_ecc_status(&mut self, call: Call<'_>, buf: &mut [u8]) -> Result<(), Violation> {
        self.shape(call, 0, 8)?;
        self.idle(call.start)?;
        let ecc = self.die().ecc;
        let nibble = |bits: u32| bits.min(15) as u8;
        buf.fill(nibble(ecc.most) << 4 | nibble(ecc.last));
        Ok(())
    }

    pub(super) fn select_die(&mut self, call: Call<'_>, die: u8) -> Result<(), Violation> {
        self.shape(call, 0, 0)?;
        if usize::from(die) >= self.dies.len() {
            return Err(Violation::BadAddress);
        }
        self.checked = None;
        self.active = usize::from(die);
        Ok(())
    }

    /// Writes a volatile configuration register. It requires WRITE ENABLE and takes effect
    /// immediately (50 ns, less than the CS# high time of any controller).
    pub(super) fn write_vcr(&mut self, call: Call<'_>, buf: &[u8]) -> Result<(), Violation> {
        self.shape(call, 3, 0)?;
        self.idle(call.start)?;
        let Some(octal) = &self.spec.octal else { return Err(Violation::UnknownCommand(c::WRITE_VCR)) };
        let &[value] = buf else { return Err(Violation::WrongMode(c::WRITE_VCR)) };
        if !self.dies[self.active].write_enabled {
            return Err(Violation::NoWriteEnable);
        }
        self.checked = None;
        if call.op.addr == octal.io_register {
            self.octal = match value {
                v if v == octal.io_single || Some(v) == octal.io_octal_sdr => false,
                v if octal.io_octal_dtr.contains(&v) => true,
                _ => return Err(Violation::Sequence("undefined value of the I/O mode register")),
            };
        } else if call.op.addr == octal.dummy_register {
            if !octal.dummy_choices.contains(&value) {
                return Err(Violation::Sequence("undefined number of dummy cycles"));
            }
            self.octal_dummy = value;
        } else {
            return Err(NO_REGISTER);
        }
        self.die().write_enabled = false;
        Ok(())
    }
}

const NO_REGISTER: Violation = Violation::Sequence("no such register");

/// Value of the status register of an idle die.
#[inline]
fn status(die: &Die) -> u8 {
    let bit = |on: bool, mask: u8| if on { mask } else { 0 };
    let ecc = match (die.ecc.lost_pages, die.ecc.most) {
        (0, 0) => 0,
        (0, _) => c::ECC_CORRECTED,
        (1, _) => c::ECC_UNCORRECTABLE,
        // Only a continuous read can have several uncorrectable pages.
        _ => c::ECC_BOTH,
    };
    bit(die.write_enabled, c::WRITE_ENABLED)
        | bit(die.erase_failed, c::ERASE_FAILED)
        | bit(die.program_failed, c::PROGRAM_FAILED)
        | ecc
}
