//! A device that tells an observer about every call: what [`crate::Trace`] and [`crate::Meter`] have in common.

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, OtpArea, OtpRegion};
use crate::error::{Error, ErrorKind};
use crate::geometry::Geometry;
use crate::operation::Operation;
use crate::time::{Instant, Nanos};

/// A finished call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Kind of operation.
    pub operation: Operation,
    /// Byte address; of an OTP area for OTP operations (of [`Operation::OtpInfo`]: the region's number).
    pub addr: u64,
    /// Bytes asked for, OOB included; 0 where the operation has no length.
    pub len: u64,
    /// Time at which the call began.
    pub start: Instant,
    /// Time at which the operation ended, or at which its failure was known.
    pub end: Instant,
    /// Result of the call.
    pub result: Result<Good, &'a ErrorKind>,
    /// Time of the device by phase during the call.
    pub spent: Breakdown,
}

/// A call that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Good {
    /// Most bits corrected in one ECC step.
    pub bitflips_max: u32,
    /// Number of corrected bits in all ECC steps.
    pub bitflips: u32,
    /// The block is marked bad, the OTP region is locked: the answer of the calls that ask.
    pub yes: bool,
}

impl Call<'_> {
    /// Duration of the call, waiting included.
    pub const fn latency(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// Somebody who is told of every call.
pub trait Observer {
    /// A call has ended.
    fn note(&mut self, call: &Call<'_>);
}

/// A device with an observer. The two threads of [`Mtd::read_while_write`] are two calls; their time counts as the
/// write's, and a failure as that of the thread in whose range it lies.
#[derive(Clone, Debug)]
pub struct Observed<D, O> {
    inner: D,
    observer: O,
}

/// Arguments of a call before it runs.
struct Asked {
    operation: Operation,
    addr: u64,
    len: u64,
    start: Instant,
    spent: Breakdown,
}

impl<D: Mtd, O: Observer> Observed<D, O> {
    /// `inner`, watched by `observer`.
    pub const fn watch(inner: D, observer: O) -> Self {
        Self { inner, observer }
    }

    /// The device.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device, for calls that are not to be noted.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Gives the device back, and what was noted.
    pub fn into_parts(self) -> (D, O) {
        (self.inner, self.observer)
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, for starting over.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    #[inline]
    fn asked(&self, operation: Operation, start: Instant, addr: u64, len: u64) -> Asked {
        Asked { operation, addr, len, start, spent: self.inner.breakdown() }
    }

    fn note(&mut self, asked: &Asked, end: Instant, result: Result<Good, &ErrorKind>) {
        let Asked { operation, addr, len, start, spent } = *asked;
        let spent = self.inner.breakdown() - spent;
        self.observer.note(&Call { operation, addr, len, start, end, result, spent });
    }

    fn ended(&mut self, asked: &Asked, result: Result<Done, Error>) -> Result<Done, Error> {
        match &result {
            Ok(done) => self.note(asked, done.at, Ok(Good::from(*done))),
            Err(error) => self.note(asked, error.at, Err(&error.kind)),
        }
        result
    }

    fn answered<T>(
        &mut self,
        asked: &Asked,
        result: Result<(T, Instant), Error>,
        yes: impl Fn(&T) -> bool,
    ) -> Result<(T, Instant), Error> {
        match &result {
            Ok((answer, at)) => self.note(asked, *at, Ok(Good { yes: yes(answer), ..Good::default() })),
            Err(error) => self.note(asked, error.at, Err(&error.kind)),
        }
        result
    }
}

impl From<Done> for Good {
    fn from(done: Done) -> Self {
        Self { bitflips_max: done.bitflips_max, bitflips: done.bitflips, yes: false }
    }
}

impl<D: Mtd, O: Observer> Mtd for Observed<D, O> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let asked = self.asked(Operation::Read, now, addr, buf.len() as u64);
        let result = self.inner.read(now, addr, buf);
        self.ended(&asked, result)
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        let asked = self.asked(Operation::Write, now, addr, data.len() as u64);
        let result = self.inner.write(now, addr, data);
        self.ended(&asked, result)
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let asked = self.asked(Operation::Erase, now, addr, len);
        let result = self.inner.erase(now, addr, len);
        self.ended(&asked, result)
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let asked = self.asked(Operation::ReadOob, now, addr, (data.len() + oob.len()) as u64);
        let result = self.inner.read_oob(now, addr, data, oob, mode);
        self.ended(&asked, result)
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let asked = self.asked(Operation::WriteOob, now, addr, (data.len() + oob.len()) as u64);
        let result = self.inner.write_oob(now, addr, data, oob, mode);
        self.ended(&asked, result)
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        let asked = self.asked(Operation::IsBad, now, addr, 0);
        let result = self.inner.is_bad(now, addr);
        self.answered(&asked, result, |&bad| bad)
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        let asked = self.asked(Operation::MarkBad, now, addr, 0);
        let result = self.inner.mark_bad(now, addr);
        self.ended(&asked, result)
    }

    fn otp_regions(&self, area: OtpArea) -> usize {
        self.inner.otp_regions(area)
    }

    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error> {
        let asked = self.asked(Operation::OtpInfo, now, index as u64, 0);
        let result = self.inner.otp_info(now, area, index);
        self.answered(&asked, result, |region| region.locked)
    }

    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let asked = self.asked(Operation::OtpRead, now, addr, buf.len() as u64);
        let result = self.inner.otp_read(now, area, addr, buf);
        self.ended(&asked, result)
    }

    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        let asked = self.asked(Operation::OtpWrite, now, addr, data.len() as u64);
        let result = self.inner.otp_write(now, addr, data);
        self.ended(&asked, result)
    }

    fn otp_erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let asked = self.asked(Operation::OtpErase, now, addr, len);
        let result = self.inner.otp_erase(now, addr, len);
        self.ended(&asked, result)
    }

    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let asked = self.asked(Operation::OtpLock, now, addr, len);
        let result = self.inner.otp_lock(now, addr, len);
        self.ended(&asked, result)
    }

    fn read_while_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        let writing = self.asked(Operation::Write, now, write.0, write.1.len() as u64);
        let reading = self.asked(Operation::Read, now, read.0, read.1.len() as u64);
        let result = self.inner.read_while_write(now, write, read);
        match &result {
            Ok((written, got)) => {
                self.note(&writing, written.at, Ok(Good::from(*written)));
                let counted = Asked { spent: self.inner.breakdown(), ..reading };
                self.note(&counted, got.at, Ok(Good::from(*got)));
            }
            Err(error) => {
                let in_read = (reading.addr..reading.addr + reading.len).contains(&error.addr);
                let whose = if in_read { &reading } else { &writing };
                self.note(whose, error.at, Err(&error.kind));
            }
        }
        result
    }

    fn breakdown(&self) -> Breakdown {
        self.inner.breakdown()
    }
}
