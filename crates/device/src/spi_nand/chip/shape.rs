//! Checks that an operation has a form that the chip's current bus mode supports.

use super::super::spec::ContinuousKind;
use super::{Call, SpiNand};
use crate::spi::{CmdExt, CommandShape, Direction, Mode, Variant};
use crate::violation::Violation;
use floatgate_mtd::Instant;

impl SpiNand {
    /// The first of the opcodes of a command. Winbond's chips read and write registers by 05h and 01h as well (data sheets of
    /// W25N01GV, W25M02GV and W25N02KV, instruction set: "0Fh / 05h" and "1Fh / 01h").
    #[inline]
    pub(super) fn canonical(&self, opcode: u8) -> u8 {
        /// Maker byte of the id.
        const WINBOND: u8 = 0xEF;
        use super::super::command as c;
        match opcode {
            c::READ_STATUS | c::WRITE_STATUS if self.octal || self.spec.id.first() != Some(&WINBOND) => {
                opcode
            }
            c::READ_STATUS => c::GET_FEATURE,
            c::WRITE_STATUS => c::SET_FEATURE,
            _ => opcode,
        }
    }

    /// True for an opcode that the chip supports in any mode.
    fn knows(&self, opcode: u8) -> bool {
        use super::super::command as c;
        let fixed = [
            c::RESET,
            c::READ_ID,
            c::WRITE_ENABLE,
            c::WRITE_DISABLE,
            c::GET_FEATURE,
            c::SET_FEATURE,
            c::PAGE_READ,
            c::PROGRAM_EXECUTE,
            c::BLOCK_ERASE,
        ];
        fixed.contains(&self.canonical(opcode))
            || self.spec.reads.iter().any(|v| v.opcode == opcode)
            || self.spec.loads.iter().any(|v| v.opcode == opcode)
    }

    /// The violation for an opcode that cannot be executed in the form in which it was sent.
    pub(super) fn unknown(&self, opcode: u8) -> Violation {
        if self.knows(opcode) { Violation::WrongMode(opcode) } else { Violation::UnknownCommand(opcode) }
    }

    /// Forms of a command in the current bus mode.
    pub(super) fn command_shapes(&self, opcode: u8) -> Vec<CommandShape> {
        let streams = self.dies[self.active].stream.is_some();
        let winbond = self.continuous().filter(|cont| streams && cont.kind == ContinuousKind::Winbond);
        // A continuous read of Winbond has no column address.
        let (reads, columns) = winbond.map_or((&self.spec.reads, 2), |cont| (&cont.reads, 0));
        let reads = reads.iter().map(|v| (*v, columns, Direction::In));
        let loads = self.spec.loads.iter().map(|v| (v.variant(), 2, Direction::Out));
        let usable = |v: &Variant| v.opcode == opcode && v.mode.is_stateful() == self.octal;
        let mut shapes: Vec<CommandShape> = reads
            .chain(loads)
            .filter(|(v, ..)| usable(v) && self.configured(v, columns == 0))
            .map(|(v, addr_bytes, dir)| CommandShape { mode: v.mode, addr_bytes, dummy_cycles: v.dummy, dir })
            .collect();
        shapes.extend(self.fixed_shape(opcode));
        shapes
    }

    /// Form of a command other than reads from cache and program loads.
    fn fixed_shape(&self, opcode: u8) -> Option<CommandShape> {
        use super::super::command as c;
        use Direction::{In, None as Bare, Out};
        let octal = self.spec.octal.as_ref().filter(|_| self.octal);
        let (features, register_dummy) = octal.map_or((1, 0), |octal| (2, octal.register_dummy));
        let quirks = &self.spec.quirks;
        let (addr_bytes, dummy_cycles, dir) = match self.canonical(opcode) {
            c::RESET | c::WRITE_ENABLE | c::WRITE_DISABLE => (0, 0, Bare),
            c::RESET_ENABLE | c::RESET_DEVICE if quirks.reset_66_99 => (0, 0, Bare),
            c::READ_ID => (0, register_dummy, In),
            c::GET_FEATURE => (features, register_dummy, In),
            c::SET_FEATURE => (features, 0, Out),
            c::PAGE_READ | c::PROGRAM_EXECUTE | c::BLOCK_ERASE => (octal.map_or(3, |o| o.row_bytes), 0, Bare),
            c::WRITE_VCR if self.spec.octal.is_some() => (3, 0, Out),
            c::DIE_SELECT if quirks.die_select => (0, 0, Out),
            c::READ_ECC_STATUS if self.has_ecc_status_command() => (0, 8, In),
            _ => return None,
        };
        Some(CommandShape { mode: self.register_mode(), addr_bytes, dummy_cycles, dir })
    }

    /// Bus mode of commands other than reads from cache and program loads.
    const fn register_mode(&self) -> Mode {
        if self.octal { Mode::OCTAL_DTR } else { Mode::SINGLE }
    }

    /// Checks mode, address length, dummy cycles and clock of such a command.
    #[inline]
    pub(super) fn shape(&self, call: Call<'_>, addr_bytes: u8, dummy: u8) -> Result<(), Violation> {
        let op = call.op;
        let mode = self.register_mode();
        if op.mode != mode || op.addr_bytes != addr_bytes || op.dummy_cycles != dummy {
            return Err(Violation::WrongMode(op.opcode));
        }
        clock(call.hz, self.spec.max_hz(mode))
    }

    /// Row address of a command, after a check of its shape.
    #[inline]
    pub(super) fn row_of(&self, call: Call<'_>) -> Result<u32, Violation> {
        let op = call.op;
        let octal = self.spec.octal.as_ref().filter(|_| self.octal);
        let bytes = octal.map_or(3, |octal| octal.row_bytes);
        self.shape(call, bytes, 0)?;
        if u64::from(op.addr) >> (8 * u32::from(bytes)) != 0 {
            return Err(Violation::BadAddress);
        }
        match (self.packs_rows(), op.ext) {
            (true, ext) => Ok(u32::from(ext.second(op.opcode)) << 16 | op.addr),
            (false, CmdExt::Row(_)) => Err(Violation::UnknownCommand(op.opcode)),
            (false, _) => Ok(op.addr),
        }
    }

    /// True if the second byte of commands with a row address is part of the address.
    fn packs_rows(&self) -> bool {
        self.octal && self.spec.octal.as_ref().is_some_and(|octal| octal.packed_rows)
    }

    /// True if the second byte of this command is part of its row address.
    pub(super) fn packs_row_of(&self, opcode: u8) -> bool {
        use super::super::command as c;
        self.packs_rows() && matches!(opcode, c::PAGE_READ | c::PROGRAM_EXECUTE | c::BLOCK_ERASE)
    }

    /// Checks the form of GET and SET FEATURE and returns the register address. In 8D the address is sent twice, and
    /// reads need dummy cycles.
    #[inline]
    pub(super) fn feature_shape(&self, call: Call<'_>) -> Result<u8, Violation> {
        let Some(octal) = self.spec.octal.as_ref().filter(|_| self.octal) else {
            self.shape(call, 1, 0)?;
            return Ok(call.op.addr as u8);
        };
        let dummy = if call.op.dir == Direction::In { octal.register_dummy } else { 0 };
        self.shape(call, 2, dummy)?;
        let [high, low] = (call.op.addr as u16).to_be_bytes();
        if high == low { Ok(low) } else { Err(Violation::WrongMode(call.op.opcode)) }
    }

    /// The variant in `variants` that `call` uses. If the address is ignored (continuous reads), only the total
    /// number of address and dummy cycles must match.
    pub(super) fn find(
        &self,
        variants: impl Iterator<Item = Variant>,
        call: Call<'_>,
        ignore_address: bool,
    ) -> Result<Variant, Violation> {
        let op = call.op;
        let [_, addr, dummy, _] = op.half_cycles();
        let fits = |v: &Variant| {
            let header = if ignore_address {
                addr + dummy == u64::from(v.dummy) * 2
            } else {
                op.addr_bytes == 2 && op.dummy_cycles == v.dummy
            };
            v.opcode == op.opcode && v.mode == op.mode && header
        };
        let mut found = variants.filter(fits);
        let variant = found.next().ok_or_else(|| self.unknown(op.opcode))?;
        if variant.mode.is_stateful() != self.octal || !self.configured(&variant, ignore_address) {
            return Err(Violation::WrongMode(op.opcode));
        }
        clock(call.hz, self.spec.variant_hz(&variant))?;
        self.fast_enough(call, &variant)?;
        Ok(variant)
    }

    /// Checks the configuration bit that reads in 8D-8D-8D need above a certain clock.
    fn fast_enough(&self, call: Call<'_>, variant: &Variant) -> Result<(), Violation> {
        let Some(octal) = self.spec.octal.as_ref().filter(|_| variant.mode.is_stateful()) else {
            return Ok(());
        };
        let below = u32::try_from(octal.fast_from_hz.saturating_sub(1)).unwrap_or(u32::MAX);
        let enabled = self.dies[self.active].config >> octal.fast_config_bit & 1 != 0;
        let reads = call.op.dir == Direction::In;
        if reads && !enabled { clock(call.hz, below) } else { Ok(()) }
    }

    /// True if the mode registers are set for a variant.
    fn configured(&self, variant: &Variant, continuous: bool) -> bool {
        let die = &self.dies[self.active];
        let quad = variant.mode.data.lanes != 4 || !self.spec.quad_enable || die.quad_enabled();
        let is_read = self.spec.reads.iter().any(|v| v.opcode == variant.opcode && v.mode == variant.mode);
        let octal = variant.mode.data.lanes != 8
            || !is_read
            || self.spec.octal.is_none()
            || variant.dummy == self.octal_dummy;
        let speed = continuous || self.speed_fits(variant);
        quad && octal && speed
    }

    /// True if the high speed bit has the value that this number of dummy cycles requires.
    fn speed_fits(&self, variant: &Variant) -> bool {
        let Some(speed) = self.spec.high_speed else { return true };
        let same = |v: &&Variant| v.opcode == variant.opcode && v.mode == variant.mode;
        let flexible = self.spec.reads.iter().filter(same).count() > 1;
        !flexible || self.spec.needs_high_speed(variant) == self.dies[self.active].high_speed(speed)
    }

    /// Rejects commands while the array is busy.
    #[inline]
    pub(super) fn idle(&self, at: Instant) -> Result<(), Violation> {
        if self.dies[self.active].work().end > at { Err(Violation::Busy) } else { Ok(()) }
    }
}

/// Checks a clock against a limit.
#[inline]
pub(super) fn clock(hz: u32, max: u32) -> Result<(), Violation> {
    if hz > max { Err(Violation::ClockTooFast { hz, max }) } else { Ok(()) }
}
