//! The SPI NAND driver: identification by id, then [`Mtd`] with the same order of operations as Linux.
//!
//! A page read is PAGE READ, status polls, READ FROM CACHE. A page write is WRITE ENABLE, PROGRAM LOAD of data and OOB, PROGRAM
//! EXECUTE, status polls. An erase is WRITE ENABLE, BLOCK ERASE, status polls.

mod bad;
mod lines;
mod oob;
mod otp;
mod page;
mod probe;
mod select;

use super::command as c;
use super::spec::SpiNandSpec;
use crate::ecc_engine::{EccEngine, EngineKind, PageCodeError};
use crate::host::HostProfile;
use crate::nand::bbt::BadBlockTable;
use crate::nand::ecc::PageEcc;
use crate::nand::span;
use crate::spi::{Data, Mode, PhyTooFast, PollPlan, SpiError, SpiMem, SpiOp};
use crate::timeline::Host;
use floatgate_ecc::OobLayout;
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Breakdown, Done, Error, ErrorKind, Geometry, Instant, Mtd, Nanos, OobMode};
use lines::Lines;
use select::{NoStream, Stream};
use serde::Deserialize;

/// Options of the driver: the `[driver]` table of a setup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// True to use continuous reads if chip and ECC allow them.
    pub continuous: bool,
    /// True to switch the chip's randomizer on, false to switch it off (Linux 7.x: device tree property of the chip);
    /// when absent, the randomizer stays in its power-up state.
    pub randomizer: Option<bool>,
}

/// Reason why the driver cannot use a chip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No chip of the catalogue has these id bytes.
    #[error("no known chip has the id {0:02x?}")]
    UnknownId(Vec<u8>),
    /// The board requires a bus mode that chip or controller does not support.
    #[error("no read of this chip reaches {wanted} on this controller and board; on offer: {}", list(.offered))]
    ModeNotOffered {
        /// Mode required by the setup.
        wanted: Mode,
        /// Modes that chip, controller and board all support.
        offered: Vec<Mode>,
    },
    /// The board requires a stateful mode without a reset pin: after a restart, the host could not access the chip.
    #[error(
        "{0} is refused: the chip's reset pin is not wired, and without it the chip cannot leave this mode"
    )]
    NoResetPin(Mode),
    /// The clock of the PHY exceeds the limit of the chip in the mode of its reads.
    #[error(transparent)]
    PhyTooFast(PhyTooFast),
    /// Chip, controller and board have no common operation of this kind.
    #[error("chip, controller and board have no {0} in common")]
    NoVariant(&'static str),
    /// The on-die ECC engine was selected, but the chip has none.
    #[error("the chip has no on-die ECC: set ecc.engine to software, external or pipelined")]
    NoOnDieEcc,
    /// The code of the ECC engine is impossible or does not fit the chip's pages.
    #[error("ecc: {0}")]
    Ecc(#[from] PageCodeError),
    /// The randomizer was requested, but the chip has none.
    #[error("the chip has no randomizer (driver.randomizer)")]
    NoRandomizer,
    /// The chip did not answer in the mode to which it was switched.
    #[error("the chip does not answer after the switch to {0}")]
    SwitchFailed(Mode),
    /// An operation on the bus failed.
    #[error(transparent)]
    Bus(#[from] SpiError),
}

fn list(modes: &[Mode]) -> String {
    let names: Vec<String> = modes.iter().map(Mode::to_string).collect();
    names.join(", ")
}

/// Polling plans with first pause and interval (Linux: `spinand.h`); pauses have the actual duration on this host.
#[derive(Clone, Copy, Debug)]
struct Waits {
    read: PollPlan,
    program: PollPlan,
    erase: PollPlan,
    reset: PollPlan,
}

impl Waits {
    fn new(profile: &HostProfile) -> Self {
        let plan = |initial, interval| PollPlan {
            initial: profile.pause(Nanos::from_us(initial)),
            interval: profile.pause(Nanos::from_us(interval)),
            timeout: Nanos::from_ms(400),
        };
        Self { read: plan(6, 5), program: plan(75, 15), erase: plan(250, 50), reset: plan(5, 5) }
    }
}

/// Driver of a SPI NAND behind a controller.
#[derive(Clone, Debug)]
pub struct SpiNandDriver<S> {
    bus: S,
    host: Host,
    profile: HostProfile,
    waits: Waits,
    spec: SpiNandSpec,
    geometry: Geometry,
    /// Number of read retries in the current call.
    retries: u32,
    /// Layout of ECC bytes and free bytes in the OOB.
    layout: OobLayout,
    ecc: PageEcc,
    lines: Lines,
    /// Read operation, of which address and length are set for each use.
    read_op: SpiOp,
    load_op: SpiOp,
    status_op: SpiOp,
    stream: Result<Stream, NoStream>,
    options: Options,
    /// Number of the selected die.
    die: u32,
    /// Last written value of each die's configuration register.
    config: Vec<u8>,
    /// Buffer for a page with its OOB, for accesses to parts of a page.
    page: Vec<u8>,
    bbt: BadBlockTable,
}

impl<S: SpiMem> SpiNandDriver<S> {
    /// Time at which the driver's last operation ended; after the probe, the time at which the device is ready.
    pub const fn ready_at(&self) -> Instant {
        self.host.now()
    }

    /// Specification of the chip that was identified.
    pub const fn spec(&self) -> &SpiNandSpec {
        &self.spec
    }

    /// Layout of ECC bytes and free bytes in the OOB.
    pub const fn oob_layout(&self) -> &OobLayout {
        &self.layout
    }

    /// The ECC engine.
    pub const fn ecc_engine(&self) -> &EccEngine {
        &self.ecc.engine
    }

    /// The controller of the driver.
    pub const fn bus(&self) -> &S {
        &self.bus
    }

    /// Mutable access to the controller, to inject faults into its chip.
    pub fn bus_mut(&mut self) -> &mut S {
        // The caller may write to the array directly.
        self.ecc.forget_all();
        &mut self.bus
    }

    /// The driver's thread, for its recorded spans.
    pub const fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The selected read from cache, with the length of a page.
    pub const fn read_operation(&self) -> SpiOp {
        self.read_op
    }

    /// The selected program load, with the length of a page and its OOB.
    pub const fn load_operation(&self) -> SpiOp {
        self.load_op
    }

    /// The selected continuous read, with the length of a page.
    pub fn continuous_operation(&self) -> Option<SpiOp> {
        self.stream.ok().map(|stream| stream.op)
    }

    /// Requested driver options that cannot be used, with the reason.
    pub fn not_given(&self) -> Option<String> {
        match self.stream {
            Err(NoStream::Cannot(why)) => Some(format!("driver.continuous is not in force: {why}")),
            _ => None,
        }
    }

    /// Starts an MTD call at `now`.
    #[inline]
    fn begin(&mut self, now: Instant) {
        self.retries = 0;
        self.host.resume(now);
        self.profile.call(&mut self.host);
    }

    /// Converts a bus failure to an MTD error.
    #[cold]
    fn failed(&self, error: SpiError, addr: u64) -> Error {
        let kind = match error {
            SpiError::Chip(violation) => violation.kind(),
            SpiError::Timeout => ErrorKind::Timeout,
            SpiError::PowerLost => ErrorKind::PowerLost,
            SpiError::NotSupported => ErrorKind::Unsupported("the controller cannot do this operation"),
            _ => ErrorKind::Unsupported("the controller's PHY is not usable"),
        };
        kind.at(addr, self.host.now())
    }

    /// Result of a successful call that ends now.
    fn done(&self) -> Done {
        Done::clean(self.host.now())
    }

    fn exec(&mut self, op: &SpiOp, data: Data<'_>) -> Result<(), SpiError> {
        self.bus.exec(&mut self.host, op, data)
    }

    /// Polls the status until the chip is ready, and returns it.
    #[inline]
    fn wait(&mut self, plan: PollPlan) -> Result<u8, SpiError> {
        self.bus.poll(&mut self.host, &self.status_op, c::BUSY, 0, plan)
    }

    fn get_feature(&mut self, register: u8) -> Result<u8, SpiError> {
        let op = self.lines.get_feature(register);
        let mut value = [0; 2];
        self.exec(&op, Data::In(&mut value[..op.len as usize]))?;
        Ok(value[0])
    }

    fn set_feature(&mut self, register: u8, value: u8) -> Result<(), SpiError> {
        let op = self.lines.set_feature(register);
        self.exec(&op, Data::Out(&[value; 2][..op.len as usize]))
    }

    /// Sets bits of the selected die's configuration, unless they already have these values.
    #[inline]
    fn update_config(&mut self, mask: u8, value: u8) -> Result<(), SpiError> {
        let old = self.config[self.die as usize];
        let new = old & !mask | value;
        if new == old {
            return Ok(());
        }
        self.set_feature(c::CONFIG, new)?;
        self.config[self.die as usize] = new;
        Ok(())
    }

    fn select_die(&mut self, die: u32) -> Result<(), SpiError> {
        if die == self.die {
            return Ok(());
        }
        let op = self.lines.command(c::DIE_SELECT).write(1);
        self.exec(&op, Data::Out(&[die as u8]))?;
        self.die = die;
        Ok(())
    }

    /// Selects the die of `block`, and returns the number of the block in that die.
    #[inline]
    fn select(&mut self, block: u32) -> Result<u32, SpiError> {
        if !self.spec.quirks.die_select {
            return Ok(block);
        }
        let per_die = self.spec.blocks_per_die();
        self.select_die(block / per_die)?;
        Ok(block % per_die)
    }

    const fn on_die(&self) -> bool {
        matches!(self.ecc.engine.kind(), EngineKind::OnDie)
    }
}

impl<S: SpiMem> Mtd for SpiNandDriver<S> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        self.begin(now);
        self.profile.copy(&mut self.host, buf.len());
        let done = self.read_range(addr, buf)?;
        self.host.has_read(&done, &self.geometry);
        Ok(done)
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, self.geometry.write_bytes)?;
        self.begin(now);
        self.profile.copy(&mut self.host, data.len());
        self.write_range(addr, data)
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, self.geometry.erase_bytes)?;
        self.begin(now);
        let block_bytes = u64::from(self.geometry.erase_bytes);
        for block in addr / block_bytes..(addr + len) / block_bytes {
            self.erase_block(block as u32)?;
        }
        Ok(self.done())
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.check_oob(now, addr, data.len(), oob.len(), mode)?;
        self.begin(now);
        let done = self.read_page_oob(addr, data, oob, mode)?;
        self.host.has_read(&done, &self.geometry);
        Ok(done)
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.check_oob(now, addr, data.len(), oob.len(), mode)?;
        self.begin(now);
        self.write_page_oob(addr, data, oob, mode)
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        check_range(now, addr, 0, self.geometry.size_bytes)?;
        self.begin(now);
        let bad = self.block_is_bad(span::block_of(&self.geometry, addr))?;
        Ok((bad, self.host.now()))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        check_range(now, addr, 0, self.geometry.size_bytes)?;
        self.begin(now);
        self.mark_block_bad(span::block_of(&self.geometry, addr))?;
        Ok(self.done())
    }

    fn breakdown(&self) -> Breakdown {
        self.host.spent()
    }
}
