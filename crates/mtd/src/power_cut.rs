//! A device that loses power at a chosen operation.
//!
//! Operations are counted in the units that the flash executes: each program unit of a write (a page; the program
//! buffer on NOR), each block of an erase, each block marked bad. A failed operation is counted; the rest of its call
//! is not. A test counts the operations of a run without a power cut, forks the device at its start, and cuts power at
//! each operation.

mod tear;
#[cfg(test)]
mod tests;

pub use tear::{Interrupted, Stage, Tear};

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, check_aligned, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::Geometry;
use crate::program_unit::{page_bytes, pieces};
use crate::time::Instant;

/// State of the interrupted operation after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CutKind {
    /// The operation did not start.
    Before,
    /// The operation was interrupted at this stage, see [`Tear`].
    During(Stage),
}

impl CutKind {
    /// All kinds of cut.
    pub const ALL: [Self; 4] =
        [Self::Before, Self::During(Stage::Early), Self::During(Stage::Middle), Self::During(Stage::Late)];
}

/// A power cut: the interrupted operation, and the state that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Number of the operation, counted from 1 since the cut was ordered.
    pub operation: u64,
    /// State of that operation after the cut.
    pub kind: CutKind,
    /// Seed of the random part of that state.
    pub seed: u64,
}

/// A device that loses power on request. See the [module](self).
///
/// After the cut all calls fail with [`ErrorKind::PowerLost`], until [`power_on`](Self::power_on). Operations on OTP
/// areas are passed on and not counted. A read during a write is executed after the write.
#[derive(Clone, Debug)]
pub struct PowerCut<D> {
    inner: D,
    /// Size of a program operation, B.
    unit: u32,
    operations: u64,
    /// Requested cut, with its operation number in the numbering of `operations`.
    cut: Option<Cut>,
    lost: bool,
}

impl<D: Mtd> PowerCut<D> {
    /// Wraps `inner`; power stays on until [`order`](Self::order) requests a cut.
    pub fn new(inner: D) -> Self {
        let unit = page_bytes(inner.geometry());
        Self { inner, unit, operations: 0, cut: None, lost: false }
    }

    /// Requests a power cut, or cancels the request.
    pub fn order(&mut self, cut: Option<Cut>) {
        let absolute =
            |cut: Cut| Cut { operation: self.operations.saturating_add(cut.operation.max(1)), ..cut };
        self.cut = cut.map(absolute);
    }

    /// Number of operations started so far, including an interrupted one.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// True after a power loss.
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Restores power. A pending request remains.
    pub const fn power_on(&mut self) {
        self.lost = false;
    }

    /// The wrapped device.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Mutable access to the wrapped device, without counting.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the wrapped device.
    pub fn into_inner(self) -> D {
        self.inner
    }

    #[inline]
    fn powered(&self, addr: u64, now: Instant) -> Result<(), Error> {
        if self.lost { Err(ErrorKind::PowerLost.at(addr, now)) } else { Ok(()) }
    }

    /// The requested cut if it is among the next `count` operations, and the number of operations before it.
    #[inline]
    fn cut_within(&self, count: u64) -> Option<(Cut, u64)> {
        let cut = self.cut.filter(|cut| cut.operation <= self.operations + count)?;
        Some((cut, cut.operation - self.operations - 1))
    }

    /// Cuts power in the current operation.
    const fn cut_power(&mut self) {
        self.operations += 1;
        self.cut = None;
        self.lost = true;
    }

    /// Counts the operations of a call over `[addr, addr + len)`, up to a failed one.
    #[inline]
    fn count(&mut self, addr: u64, len: u64, unit: u32, result: &Result<Done, Error>) {
        let len = match result {
            Ok(_) => len,
            Err(error) => (error.addr.saturating_sub(addr) + 1).min(len),
        };
        self.operations += units(addr, len, unit);
    }
}

/// Number of units that `len` bytes at `addr` touch.
#[inline]
fn units(addr: u64, len: u64, unit: u32) -> u64 {
    let unit = u64::from(unit);
    if len == 0 { 0 } else { (addr + len - 1) / unit - addr / unit + 1 }
}

impl<D: Mtd + Tear> PowerCut<D> {
    /// Programs up to the power cut. An operation that fails before the cut ends the call, and the cut remains pending.
    fn cut_write(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        cut: Cut,
        whole: u64,
    ) -> Result<Done, Error> {
        let mut done = Done::clean(now);
        for (turn, (addr, piece)) in pieces(addr, data, self.unit).enumerate() {
            if turn as u64 == whole {
                self.cut_power();
                if let CutKind::During(stage) = cut.kind {
                    self.inner.tear(Interrupted::Program { addr, data: piece }, stage, cut.seed);
                }
                return Err(ErrorKind::PowerLost.at(addr, done.at));
            }
            self.operations += 1;
            done = done.then(self.inner.write(done.at, addr, piece)?);
        }
        Ok(done)
    }

    /// Erases up to the power cut. An operation that fails before the cut ends the call, and the cut remains pending.
    fn cut_erase(&mut self, now: Instant, addr: u64, cut: Cut, whole: u64) -> Result<Done, Error> {
        let unit = self.inner.geometry().erase_bytes;
        let len = whole * u64::from(unit);
        let erased = self.inner.erase(now, addr, len);
        self.count(addr, len, unit, &erased);
        let at = erased?.at;
        self.cut_power();
        if let CutKind::During(stage) = cut.kind {
            self.inner.tear(Interrupted::Erase { addr: addr + len }, stage, cut.seed);
        }
        Err(ErrorKind::PowerLost.at(addr + len, at))
    }
}

impl<D: Mtd + Tear> Mtd for PowerCut<D> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.powered(addr, now)?;
        self.inner.read(now, addr, buf)
    }

    #[inline]
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.powered(addr, now)?;
        let geometry = self.inner.geometry();
        check_range(now, addr, data.len() as u64, geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, geometry.sub_page_bytes.max(1))?;
        let len = data.len() as u64;
        if let Some((cut, whole)) = self.cut_within(units(addr, len, self.unit)) {
            return self.cut_write(now, addr, data, cut, whole);
        }
        let done = self.inner.write(now, addr, data);
        self.count(addr, len, self.unit, &done);
        done
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.powered(addr, now)?;
        let geometry = self.inner.geometry();
        let block = geometry.erase_bytes;
        check_range(now, addr, len, geometry.size_bytes)?;
        check_aligned(now, addr, len, block)?;
        if let Some((cut, whole)) = self.cut_within(len / u64::from(block)) {
            return self.cut_erase(now, addr, cut, whole);
        }
        let done = self.inner.erase(now, addr, len);
        self.count(addr, len, block, &done);
        done
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.powered(addr, now)?;
        self.inner.read_oob(now, addr, data, oob, mode)
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.powered(addr, now)?;
        let Some((cut, _)) = self.cut_within(1) else {
            self.operations += 1;
            return self.inner.write_oob(now, addr, data, oob, mode);
        };
        self.cut_power();
        if let CutKind::During(stage) = cut.kind {
            self.inner.tear(Interrupted::ProgramWithOob { addr, data, oob, mode }, stage, cut.seed);
        }
        Err(ErrorKind::PowerLost.at(addr, now))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        self.powered(addr, now)?;
        self.inner.is_bad(now, addr)
    }

    /// Marks a block bad, as [`Mtd::mark_bad`]. After a late cut the mark is set, after an earlier cut it is not,
    /// because a marker is evaluated by its number of one bits.
    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        self.powered(addr, now)?;
        let Some((cut, _)) = self.cut_within(1) else {
            self.operations += 1;
            return self.inner.mark_bad(now, addr);
        };
        self.cut_power();
        let at = match cut.kind {
            CutKind::During(Stage::Late) => {
                self.inner.mark_bad(now, addr).map_or_else(|e| e.at, |done| done.at)
            }
            _ => now,
        };
        Err(ErrorKind::PowerLost.at(addr, at))
    }

    fn breakdown(&self) -> Breakdown {
        self.inner.breakdown()
    }
}
