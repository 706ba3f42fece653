//! Operations other than data transfers, in the current bus mode of the chip.

use super::super::command as c;
use super::super::spec::{Octal, SpiNandSpec};
use crate::spi::{CmdExt, Mode, SpiOp};

/// Form of commands: single lane or 8D-8D-8D.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    mode: Mode,
    max_hz: u32,
    row_bytes: u8,
    /// True if the upper bits of a row are the second byte of its command.
    packed_rows: bool,
    feature_bytes: u8,
    register_dummy: u8,
}

impl Lines {
    /// Commands as after power-up, on a single lane.
    pub(super) fn single(spec: &SpiNandSpec) -> Self {
        let mode = Mode::SINGLE;
        Self { mode, max_hz: spec.max_hz(mode), ..Self::unknown() }
    }

    /// Commands for an unknown chip: only the board limits the clock.
    pub(super) const fn unknown() -> Self {
        Self {
            mode: Mode::SINGLE,
            max_hz: 0,
            row_bytes: 3,
            packed_rows: false,
            feature_bytes: 1,
            register_dummy: 0,
        }
    }

    /// Commands after the switch to 8D-8D-8D.
    pub(super) fn octal(spec: &SpiNandSpec, octal: &Octal) -> Self {
        let mode = Mode::OCTAL_DTR;
        Self {
            mode,
            max_hz: spec.max_hz(mode),
            row_bytes: octal.row_bytes,
            packed_rows: octal.packed_rows,
            feature_bytes: 2,
            register_dummy: octal.register_dummy,
        }
    }

    /// A command without address and data.
    #[inline]
    pub(super) const fn command(&self, opcode: u8) -> SpiOp {
        let mut op = SpiOp::command(opcode).mode(self.mode);
        op.max_hz = self.max_hz;
        op
    }

    /// A command with a row address.
    #[inline]
    pub(super) const fn row(&self, opcode: u8, row: u32) -> SpiOp {
        let op = self.command(opcode).address(row, self.row_bytes);
        if !self.packed_rows {
            return op;
        }
        let mut op = op.address(row & 0xFFFF, self.row_bytes);
        op.ext = CmdExt::Row((row >> 16) as u8);
        op
    }

    /// Number of bytes in a register read: two in 8D, where each clock cycle transfers two bytes.
    pub(super) const fn register_len(&self) -> u32 {
        self.feature_bytes as u32
    }

    const fn feature(&self, opcode: u8, register: u8) -> SpiOp {
        let addr = if self.feature_bytes == 2 { register as u32 * 0x101 } else { register as u32 };
        self.command(opcode).address(addr, self.feature_bytes)
    }

    /// GET FEATURE of a register.
    pub(super) const fn get_feature(&self, register: u8) -> SpiOp {
        self.feature(c::GET_FEATURE, register).dummy(self.register_dummy).read(self.register_len())
    }

    /// SET FEATURE of a register.
    pub(super) const fn set_feature(&self, register: u8) -> SpiOp {
        self.feature(c::SET_FEATURE, register).write(self.register_len())
    }

    /// READ ID after the switch to 8D-8D-8D; bytes are read in pairs.
    pub(super) const fn read_id(&self, len: u32) -> SpiOp {
        self.command(c::READ_ID).dummy(self.register_dummy).read(len)
    }
}
