//! On-die ECC (Toshiba BENAND): the chip corrects pages before output, and the status contains the result.
//!
//! FAIL means that a step has more wrong bits than the code corrects, or that it was programmed twice with different
//! bytes. Bit 3 means that a step has at least three quarters of the wrong bits that the code corrects, so that the
//! page should be rewritten.

use super::RawNand;
use super::lun::Register;

impl RawNand {
    /// Wrong bits of the page in the register for each step; the OOB after the data is a separate step.
    fn steps(&self) -> impl Iterator<Item = &[u32]> {
        let step_bits = self.spec.ecc.step_bytes * 8;
        self.lun().wrong().chunk_by(move |a, b| a / step_bits == b / step_bits)
    }

    /// Sets the status bits of a page that was read.
    #[inline]
    pub(super) fn judge_on_die(&mut self, register: Register) {
        if !self.spec.ecc.on_die {
            return;
        }
        let (worst, spoiled) = match register {
            Register::Page(row) => {
                let worst = self.steps().map(<[u32]>::len).max().unwrap_or(0) as u32;
                (worst, self.array.has_spoiled(row as usize))
            }
            Register::Empty | Register::Otp(_) => (0, false),
        };
        let strength = self.spec.ecc.strength;
        let lun = self.lun_mut();
        lun.fail = spoiled || worst > strength;
        // The threshold is three quarters of the strength, as in Linux.
        lun.rewrite = !lun.fail && worst > 0 && worst * 4 >= strength * 3;
    }

    /// Corrects the bytes from `column` on in all correctable steps.
    #[inline]
    pub(super) fn correct_on_die(&self, row: u32, column: usize, buf: &mut [u8]) {
        if !self.spec.ecc.on_die {
            return;
        }
        let (strength, step_bits) = (self.spec.ecc.strength as usize, self.spec.ecc.step_bytes * 8);
        let spoiled = |bit: u32| self.array.is_spoiled(row as usize, (bit / step_bits) as usize);
        let correctable = |step: &&[u32]| step.len() <= strength && !spoiled(step[0]);
        for bit in self.steps().filter(correctable).flatten() {
            let byte = (*bit as usize / 8).checked_sub(column).and_then(|at| buf.get_mut(at));
            if let Some(byte) = byte {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}
