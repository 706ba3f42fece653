//! A SPI chip at its pins behind a controller, for a host with its own operations.
//!
//! Linux is such a host: it reads ids with zero, one and two bytes between command and data, and identifies the chip by the answers.
//! Therefore the bytes of each operation are sent on the wires ([`SpiWire`]), with the controller's costs before and after them.

use super::mem::mean_wait;
use super::op::{Data, Direction, SpiOp};
use super::{ReadOn, SpiBoard, SpiChip, SpiWire};
use floatgate_mtd::{Instant, Nanos};

/// A chip on its wires behind a controller.
#[derive(Clone, Debug)]
pub struct SpiMemWire<C> {
    on: SpiBoard,
    wire: SpiWire<C>,
    on_wires: Nanos,
}

/// Pauses of a polling host: before the first status read, and between further ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollPauses {
    /// Pause before the first status read.
    pub initial: Nanos,
    /// Pause between status reads.
    pub interval: Nanos,
}

impl<C: SpiChip> SpiMemWire<C> {
    pub(super) fn new(on: SpiBoard, mut wire: SpiWire<C>) -> Self {
        wire.power_mut().count_operations();
        Self { on, wire, on_wires: Nanos::ZERO }
    }

    /// The controller on its board.
    pub const fn controller(&self) -> &SpiBoard {
        &self.on
    }

    /// The chip on its wires.
    pub const fn wire(&self) -> &SpiWire<C> {
        &self.wire
    }

    /// Mutable access to the chip on its wires, to inject faults or cut its power.
    pub const fn wire_mut(&mut self) -> &mut SpiWire<C> {
        &mut self.wire
    }

    /// Time during which bytes were on the wires.
    pub const fn on_wires(&self) -> Nanos {
        self.on_wires
    }

    /// Time at which the chip has finished all operations.
    pub fn done_at(&self) -> Instant {
        self.wire.now().max(self.wire.chip().busy_until())
    }

    /// Executes one operation. A violated rule is recorded; data from the chip is then FFh.
    ///
    /// A status read during a busy time represents all reads of a polling host: it is executed when the chip is ready.
    pub fn exec(&mut self, op: &SpiOp, mapped: bool, data: Data<'_>) {
        if self.reads_status_while_busy(op) {
            self.wait_until_ready(op, PollPauses::default());
        }
        self.transfer(op, mapped, data);
    }

    /// Reads a status with pauses until the chip is ready.
    pub fn poll(&mut self, op: &SpiOp, pauses: PollPauses, status: &mut [u8]) {
        self.wire.advance(pauses.initial);
        if self.reads_status_while_busy(op) {
            self.wait_until_ready(op, pauses);
        }
        self.transfer(op, false, Data::In(status));
    }

    fn reads_status_while_busy(&self, op: &SpiOp) -> bool {
        let chip = self.wire.chip();
        op.dir == Direction::In && chip.busy_until() > self.wire.now() && chip.read_on(op) == ReadOn::Register
    }

    /// Advances time to the status read that finds the chip ready.
    fn wait_until_ready(&mut self, op: &SpiOp, pauses: PollPauses) {
        let cost = self.on.profile.exec;
        let op_time = cost.setup_us + self.on.plain_clock(op.max_hz).duration(op);
        let first = self.wire.now() + op_time;
        let round = op_time + cost.finish_us + pauses.interval;
        let ready = self.wire.chip().busy_until();
        self.wire.advance(mean_wait(first, round, ready));
    }

    fn transfer(&mut self, op: &SpiOp, mapped: bool, data: Data<'_>) {
        let via = self.on.profile.via(op.dir, mapped);
        let clock = self.on.plain_clock(op.max_hz);
        self.wire.advance(via.cost.setup_us);
        self.wire.set_clock(clock.hz());
        let start = self.wire.now();
        self.bytes(op, data);
        self.on_wires += self.wire.now().since(start);
        let [.., on_wires] = clock.phases(op);
        self.wire.advance(via.path.excess(op.len, op.mode.data.dtr, on_wires) + via.cost.finish_us);
    }

    /// Sends the bytes of one CS# window.
    fn bytes(&mut self, op: &SpiOp, data: Data<'_>) {
        let wire = &mut self.wire;
        wire.select();
        let ext = op.ext.second(op.opcode);
        let cmd_bytes = if op.mode.cmd.dtr && op.mode.cmd.lanes == 8 { 2 } else { 1 };
        wire.write(op.mode.cmd, &[op.opcode, ext][..cmd_bytes]);
        let addr = op.addr.to_be_bytes();
        wire.write(op.mode.addr, &addr[addr.len() - usize::from(op.addr_bytes).min(addr.len())..]);
        if op.dummy_cycles > 0 {
            wire.dummy(op.dummy_cycles.into());
        }
        match data {
            Data::None => {}
            Data::In(bytes) => wire.read(op.mode.data, bytes),
            Data::Out(bytes) => wire.write(op.mode.data, bytes),
        }
        wire.deselect();
    }
}
