//! Operations other than data transfers, in the bus mode the chip is in.

use super::super::command as c;
use super::super::spec::{Octal, SpiNandSpec};
use crate::spi::{CmdExt, Mode, SpiOp};

/// Shapes of commands, single lane or 8D-8D-8D.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    mode: Mode,
    max_hz: u32,
    row_bytes: u8,
    /// The upper bits of a row are the second byte of its command.
    packed_rows: bool,
    feature_bytes: u8,
    register_dummy: u8,
}

impl Lines {
    /// As after power-up.
    pub(super) fn single(spec: &SpiNandSpec) -> Self {
        let mode = Mode::SINGLE;
        Self { mode, max_hz: spec.max_hz(mode), ..Self::unknown() }
    }

    /// Before the chip is known: no limit but the board's.
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

    /// After the switch to 8D-8D-8D.
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

    /// A bare command.
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

    /// Bytes of a register read: two in 8D, where a clock cycle carries no less.
    pub(super) const fn register_len(&self) -> u32 {
        self.feature_bytes as u32
    }

    const fn feature(&self, opcode: u8, register: u8) -> SpiOp {
        let addr = if self.feature_bytes == 2 { register as u32 * 0x101 } else { register as u32 };
        self.command(opcode).address(addr, self.feature_bytes)
    }

    /// GET FEATURE.
    pub(super) const fn get_feature(&self, register: u8) -> SpiOp {
        self.feature(c::GET_FEATURE, register).dummy(self.register_dummy).read(self.register_len())
    }

    /// SET FEATURE.
    pub(super) const fn set_feature(&self, register: u8) -> SpiOp {
        self.feature(c::SET_FEATURE, register).write(self.register_len())
    }

    /// READ ID after the switch to 8D-8D-8D, in pairs of bytes.
    pub(super) const fn read_id(&self, len: u32) -> SpiOp {
        self.command(c::READ_ID).dummy(self.register_dummy).read(len)
    }
}
